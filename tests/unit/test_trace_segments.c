/*
 * Tests of experiments/lib/trace_segments.
 */
#include "trace_segments.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

Test(trace_segments, finds_addresses_between_begin_and_end, .timeout = 5)
{
    pleat_trace_segments_t table = {.segments = NULL};
    cr_expect(not(pleat_trace_segments_contain(&table, 0x1000)));
    cr_assert(eq(int, pleat_trace_segments_add(&table, 0x3000, 0x1000), PLEAT_OK));
    cr_assert(eq(int, pleat_trace_segments_add(&table, 0x1000, 0x1000), PLEAT_OK));
    cr_expect(eq(u64, table.reserved_bytes, 0x2000));
    cr_expect(not(pleat_trace_segments_contain(&table, 0xfff)));
    cr_expect(pleat_trace_segments_contain(&table, 0x1000));
    cr_expect(pleat_trace_segments_contain(&table, 0x1fff));
    cr_expect(not(pleat_trace_segments_contain(&table, 0x2000)));
    cr_expect(pleat_trace_segments_contain(&table, 0x3fff));
    pleat_trace_segments_fini(&table);
}

Test(trace_segments, refuses_overlap, .timeout = 5)
{
    pleat_trace_segments_t table = {.segments = NULL};
    cr_assert(eq(int, pleat_trace_segments_add(&table, 0x2000, 0x1000), PLEAT_OK));
    cr_expect(eq(int, pleat_trace_segments_add(&table, 0x2000, 0x1000), PLEAT_ERR_INVALID));
    cr_expect(eq(int, pleat_trace_segments_add(&table, 0x2800, 0x1000), PLEAT_ERR_INVALID));
    cr_expect(eq(int, pleat_trace_segments_add(&table, 0x1000, 0x1001), PLEAT_ERR_INVALID));
    cr_expect(eq(int, pleat_trace_segments_add(&table, 0x1000, UINT64_MAX), PLEAT_ERR_INVALID));
    cr_expect(eq(int, pleat_trace_segments_add(&table, 0x1000, 0x1000), PLEAT_OK));
    cr_expect(eq(u64, table.reserved_bytes, 0x2000));
    pleat_trace_segments_fini(&table);
}

Test(trace_segments, removes_by_beginning_only, .timeout = 5)
{
    enum { COUNT = 200 };
    pleat_trace_segments_t table = {.segments = NULL};
    for (uint64_t i = 1; i <= COUNT; i++) {
        const uint64_t place = i * 37 % (COUNT + 1); /* in no order */
        cr_assert(eq(int, pleat_trace_segments_add(&table, place << 12, 1 << 12), PLEAT_OK));
    }
    cr_expect(not(pleat_trace_segments_remove(&table, 0)));
    cr_expect(not(pleat_trace_segments_remove(&table, (UINT64_C(5) << 12) + 512)));
    for (uint64_t i = 1; i <= COUNT; i++) {
        cr_assert(pleat_trace_segments_remove(&table, i << 12));
        cr_assert(not(pleat_trace_segments_contain(&table, i << 12)));
    }
    cr_expect(eq(sz, table.count, 0));
    cr_expect(eq(u64, table.reserved_bytes, 0));
    pleat_trace_segments_fini(&table);
}
