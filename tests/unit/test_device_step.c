/*
 * Tests of device_step: the device's calls behind actions.
 */
#include "device_step.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

Test(device_step, only_segments_come_from_the_device, .timeout = 5)
{
    cr_expect(
        eq(int, (int)pleat_device_step(PLEAT_ACTION_SEGMENT_ALLOC), PLEAT_VMM_CALL_MEM_ALLOC));
    cr_expect(eq(int, (int)pleat_device_step(PLEAT_ACTION_SEGMENT_FREE), PLEAT_VMM_CALL_MEM_FREE));
    cr_expect(eq(int, (int)pleat_device_step(PLEAT_ACTION_SEGMENT_MAP), PLEAT_VMM_CALL_MAP));
    cr_expect(eq(int, (int)pleat_device_step(PLEAT_ACTION_SEGMENT_UNMAP), PLEAT_VMM_CALL_UNMAP));
    static const pleat_action_t others[] = {PLEAT_ACTION_ALLOC,
                                            PLEAT_ACTION_FREE_REQUESTED,
                                            PLEAT_ACTION_FREE_COMPLETED,
                                            PLEAT_ACTION_SNAPSHOT,
                                            PLEAT_ACTION_OOM,
                                            PLEAT_ACTION_COUNT};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        cr_expect(eq(int, (int)pleat_device_step(others[i]), PLEAT_VMM_CALL_COUNT), "%zu", i);
    }
}
