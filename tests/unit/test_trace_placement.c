/*
 * test_trace_placement: guesses follow best fit inside one stream's small or large segments.
 */
#include "trace_placement.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#define MIB (UINT64_C(1) << 20)

static void learn(pleat_trace_placement_t *placement, pleat_action_t action, pleat_devptr_t address,
                  uint64_t bytes, pleat_stream_t stream)
{
    const pleat_trace_event_t event = {
        .action = action, .address = address, .bytes = bytes, .stream = stream};
    cr_assert(pleat_trace_placement_learn(placement, &event));
}

Test(trace_placement, small_blocks_follow_each_other_and_merge)
{
    pleat_trace_placement_t placement;
    pleat_trace_placement_init(&placement);
    cr_expect(eq(u64, pleat_trace_placement_guess(&placement, 8, 0), 0));
    learn(&placement, PLEAT_ACTION_SEGMENT_ALLOC, 2 * MIB, 2 * MIB, 0);
    for (uint64_t i = 0; i < 4; i++) {
        cr_assert(eq(u64, pleat_trace_placement_guess(&placement, 8, 0), 2 * MIB + 512 * i));
        learn(&placement, PLEAT_ACTION_ALLOC, 2 * MIB + 512 * i, 8, 0);
    }
    learn(&placement, PLEAT_ACTION_FREE_COMPLETED, 2 * MIB + 512, 8, 0);
    cr_expect(eq(u64, pleat_trace_placement_guess(&placement, 512, 0), 2 * MIB + 512));
    cr_expect(eq(u64, pleat_trace_placement_guess(&placement, 513, 0), 2 * MIB + 2048));
    learn(&placement, PLEAT_ACTION_FREE_COMPLETED, 2 * MIB + 1024, 8, 0);
    cr_expect(eq(u64, pleat_trace_placement_guess(&placement, 1024, 0), 2 * MIB + 512));
    learn(&placement, PLEAT_ACTION_FREE_COMPLETED, 2 * MIB + 1536, 8, 0);
    learn(&placement, PLEAT_ACTION_FREE_COMPLETED, 2 * MIB, 8, 0);
    learn(&placement, PLEAT_ACTION_SEGMENT_FREE, 2 * MIB, 2 * MIB, 0);
    cr_expect(eq(u64, pleat_trace_placement_guess(&placement, 8, 0), 0));
    pleat_trace_placement_fini(&placement);
}

Test(trace_placement, streams_and_sizes_keep_apart)
{
    pleat_trace_placement_t placement;
    pleat_trace_placement_init(&placement);
    learn(&placement, PLEAT_ACTION_SEGMENT_ALLOC, 100 * MIB, 20 * MIB, 1);
    cr_expect(eq(u64, pleat_trace_placement_guess(&placement, 2 * MIB, 0), 0));
    cr_expect(eq(u64, pleat_trace_placement_guess(&placement, 1 * MIB, 1), 0));
    cr_expect(eq(u64, pleat_trace_placement_guess(&placement, 2 * MIB, 1), 100 * MIB));
    cr_expect(eq(u64, pleat_trace_placement_guess(&placement, 21 * MIB, 1), 0));
    cr_expect(eq(u64, pleat_trace_placement_guess(&placement, UINT64_MAX, 1), 0));
    /* A rest of 1 MiB stays with its block. */
    learn(&placement, PLEAT_ACTION_ALLOC, 100 * MIB, 19 * MIB, 1);
    cr_expect(eq(u64, pleat_trace_placement_guess(&placement, MIB + 1, 1), 0));
    learn(&placement, PLEAT_ACTION_FREE_COMPLETED, 100 * MIB, 19 * MIB, 1);
    cr_expect(eq(u64, pleat_trace_placement_guess(&placement, 20 * MIB, 1), 100 * MIB));
    pleat_trace_placement_fini(&placement);
}

Test(trace_placement, contradictions_are_borne)
{
    pleat_trace_placement_t placement;
    pleat_trace_placement_init(&placement);
    learn(&placement, PLEAT_ACTION_ALLOC, 5 * MIB, 8, 0);
    learn(&placement, PLEAT_ACTION_FREE_COMPLETED, 5 * MIB, 8, 0);
    learn(&placement, PLEAT_ACTION_SEGMENT_FREE, 5 * MIB, 8, 0);
    learn(&placement, PLEAT_ACTION_SEGMENT_ALLOC, 8 * MIB, 2 * MIB, 0);
    learn(&placement, PLEAT_ACTION_SEGMENT_ALLOC, 8 * MIB, 4 * MIB, 0);
    learn(&placement, PLEAT_ACTION_SEGMENT_ALLOC, 8 * MIB + 512, 2 * MIB, 0);
    learn(&placement, PLEAT_ACTION_ALLOC, 8 * MIB, 8, 0);
    learn(&placement, PLEAT_ACTION_ALLOC, 8 * MIB, 8, 0);
    learn(&placement, PLEAT_ACTION_SEGMENT_FREE, 8 * MIB, 2 * MIB, 0);
    learn(&placement, PLEAT_ACTION_FREE_COMPLETED, 8 * MIB, 8, 0);
    learn(&placement, PLEAT_ACTION_FREE_COMPLETED, 8 * MIB, 8, 0);
    learn(&placement, PLEAT_ACTION_OOM, 8, 8, 0);
    learn(&placement, PLEAT_ACTION_SNAPSHOT, 0, 0, 0);
    for (pleat_stream_t stream = 1; stream < 200; stream++) {
        learn(&placement, PLEAT_ACTION_SEGMENT_MAP, (100 + stream) * MIB, MIB, stream);
    }
    cr_expect(eq(u64, pleat_trace_placement_guess(&placement, 2 * MIB, 0), 0));
    cr_expect(eq(u64, pleat_trace_placement_guess(&placement, 2 * MIB, 199), 0));
    pleat_trace_placement_fini(&placement);
}

Test(trace_placement, free_lists_are_bounded)
{
    enum { COUNT = 20000 };
    pleat_trace_placement_t placement;
    pleat_trace_placement_init(&placement);
    for (uint64_t i = 0; i < COUNT; i++) {
        learn(&placement, PLEAT_ACTION_SEGMENT_ALLOC, (i + 1) * 4 * MIB, 3 * MIB, 0);
    }
    cr_expect(eq(u64, pleat_trace_placement_guess(&placement, 3 * MIB, 0), 4 * MIB));
    learn(&placement, PLEAT_ACTION_ALLOC, (uint64_t)COUNT * 4 * MIB, 3 * MIB, 0);
    learn(&placement, PLEAT_ACTION_FREE_COMPLETED, (uint64_t)COUNT * 4 * MIB, 3 * MIB, 0);
    pleat_trace_placement_fini(&placement);
}
