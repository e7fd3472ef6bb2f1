/*
 * device_step: see device_step.h.
 */
#include "device_step.h"

pleat_vmm_call_t pleat_device_step(pleat_action_t action)
{
    static const struct {
        pleat_action_t action;
        pleat_vmm_call_t call;
    } pairs[] = {{PLEAT_ACTION_SEGMENT_ALLOC, PLEAT_VMM_CALL_MEM_ALLOC},
                 {PLEAT_ACTION_SEGMENT_FREE, PLEAT_VMM_CALL_MEM_FREE},
                 {PLEAT_ACTION_SEGMENT_MAP, PLEAT_VMM_CALL_MAP},
                 {PLEAT_ACTION_SEGMENT_UNMAP, PLEAT_VMM_CALL_UNMAP}};
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        if (pairs[i].action == action) {
            return pairs[i].call;
        }
    }
    return PLEAT_VMM_CALL_COUNT;
}
