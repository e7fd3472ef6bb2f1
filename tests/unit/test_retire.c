/*
 * Tests of retire: what a free counts, merging, and frees that wait for streams.
 */
#include "core/retire.h"

#include "fixture.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#define MIB(count) ((uint64_t)(count)*PLEAT_MIB)

static const pleat_options_t default_options = PLEAT_OPTIONS_INIT;

static void expect_split(const fixture_t *f, int64_t count, int64_t bytes)
{
    const pleat_stats_t stats = fixture_stats(f);
    cr_expect(eq(i64, stats.inactive_split[PLEAT_STAT_ALL].current, count));
    cr_expect(eq(i64, stats.inactive_split_bytes[PLEAT_STAT_ALL].current, bytes));
    fixture_check(f);
}

/* Four blocks of 256 KiB that fill half a segment, and one of 1 MiB behind them. */
typedef struct four {
    fixture_t f;
    pleat_devptr_t ptr[5];
} four_t;

static four_t create_four(void)
{
    four_t four = {.f = fixture_create(NULL)};
    for (unsigned i = 0; i < 4; i++) {
        four.ptr[i] = fixture_alloc(&four.f, PLEAT_MIB / 4, 0);
    }
    four.ptr[4] = fixture_alloc(&four.f, PLEAT_MIB, 0);
    expect_split(&four.f, 0, 0);
    return four;
}

Test(retire, merges_with_free_neighbours_on_both_sides, .timeout = 5)
{
    four_t four = create_four();
    const int64_t quarter = (int64_t)PLEAT_MIB / 4;
    fixture_free(&four.f, four.ptr[0]);
    expect_split(&four.f, 1, quarter);
    fixture_free(&four.f, four.ptr[2]);
    expect_split(&four.f, 2, 2 * quarter);
    fixture_free(&four.f, four.ptr[1]);
    expect_split(&four.f, 1, 3 * quarter);
    pleat_stats_t stats = fixture_stats(&four.f);
    cr_expect(eq(i64, stats.inactive_split[PLEAT_STAT_SMALL_POOL].freed, 1 + 1),
              "one for the segment that was filled, one net decrease here");
    fixture_free(&four.f, four.ptr[3]);
    expect_split(&four.f, 1, 4 * quarter);
    fixture_free(&four.f, four.ptr[4]);
    expect_split(&four.f, 0, 0);
    stats = fixture_stats(&four.f);
    cr_expect(eq(i64, stats.inactive_split[PLEAT_STAT_SMALL_POOL].allocated, 3));
    cr_expect(eq(i64, stats.inactive_split[PLEAT_STAT_SMALL_POOL].freed, 3));
    cr_expect(eq(i64, stats.reserved_bytes[PLEAT_STAT_ALL].current, MIB(2)), "kept");
    cr_expect(eq(u64, fixture_alloc(&four.f, PLEAT_MIB, 0), four.ptr[0]));
    fixture_check_and_destroy(&four.f);
}

Test(retire, a_free_counts_at_once_without_streams, .timeout = 5)
{
    fixture_t f = fixture_create(NULL);
    const pleat_devptr_t a = fixture_alloc(&f, 700, 0);
    fixture_free(&f, a);
    const pleat_stats_t stats = fixture_stats(&f);
    for (unsigned kind = 0; kind < PLEAT_STAT_KIND_COUNT; kind++) {
        cr_expect(eq(i64, stats.allocation[kind].current, 0));
        cr_expect(eq(i64, stats.allocated_bytes[kind].current, 0));
        cr_expect(eq(i64, stats.active[kind].current, 0));
        cr_expect(eq(i64, stats.active_bytes[kind].current, 0));
        cr_expect(eq(i64, stats.requested_bytes[kind].current, 0));
    }
    cr_expect(eq(i64, stats.requested_bytes[PLEAT_STAT_SMALL_POOL].freed, 700));
    cr_expect(eq(i64, stats.active_bytes[PLEAT_STAT_SMALL_POOL].freed, 1024));
    fixture_check_and_destroy(&f);
}

Test(retire, a_waiting_block_stays_active, .timeout = 5)
{
    fixture_t f = fixture_create(NULL);
    const pleat_devptr_t a = fixture_alloc(&f, 700, 0);
    fixture_set_busy(&f, 1);
    fixture_record(&f, a, 1);
    fixture_free(&f, a);
    pleat_stats_t stats = fixture_stats(&f);
    cr_expect(eq(i64, stats.allocation[PLEAT_STAT_ALL].current, 0));
    cr_expect(eq(i64, stats.allocated_bytes[PLEAT_STAT_ALL].current, 0));
    cr_expect(eq(i64, stats.active[PLEAT_STAT_ALL].current, 1));
    cr_expect(eq(i64, stats.active_bytes[PLEAT_STAT_ALL].current, 1024));
    cr_expect(eq(i64, stats.requested_bytes[PLEAT_STAT_ALL].current, 700));
    cr_expect(eq(int, pleat_free(f.allocator, a), PLEAT_ERR_INVALID_POINTER), "freed before");
    cr_expect(eq(int, pleat_record_stream(f.allocator, a, 2), PLEAT_ERR_INVALID_POINTER));
    fixture_check(&f);
    fixture_set_done(&f, 1);
    (void)fixture_alloc(&f, MIB(1), 9); /* any request looks at the waiting frees */
    stats = fixture_stats(&f);
    cr_expect(eq(i64, stats.active[PLEAT_STAT_ALL].current, 1));
    cr_expect(eq(i64, stats.active_bytes[PLEAT_STAT_ALL].current, MIB(1)));
    fixture_check_and_destroy(&f);
}

Test(retire, a_free_never_looks_at_events, .timeout = 5)
{
    fixture_t f = fixture_create(NULL);
    const pleat_devptr_t a = fixture_alloc(&f, 700, 0);
    const pleat_devptr_t b = fixture_alloc(&f, 700, 0);
    fixture_record(&f, a, 1);
    fixture_free(&f, a); /* stream 1 is idle, the event complete */
    fixture_free(&f, b);
    cr_expect(eq(u64, fixture_calls(&f, PLEAT_VMM_CALL_EVENT_QUERY), 0));
    cr_expect(eq(i64, fixture_stats(&f).active[PLEAT_STAT_ALL].current, 1));
    fixture_check_and_destroy(&f);
}

Test(retire, waiting_neighbours_do_not_merge, .timeout = 5)
{
    four_t four = create_four();
    const int64_t quarter = (int64_t)PLEAT_MIB / 4;
    fixture_set_busy(&four.f, 1);
    fixture_record(&four.f, four.ptr[1], 1);
    fixture_free(&four.f, four.ptr[1]);
    expect_split(&four.f, 0, 0);
    fixture_free(&four.f, four.ptr[0]);
    fixture_free(&four.f, four.ptr[2]);
    expect_split(&four.f, 2, 2 * quarter);
    fixture_set_done(&four.f, 1);
    fixture_empty(&four.f);
    expect_split(&four.f, 1, 3 * quarter);
    fixture_check_and_destroy(&four.f);
}

Test(retire, own_and_repeated_streams_add_nothing, .timeout = 5)
{
    fixture_t f = fixture_create(NULL);
    const pleat_devptr_t a = fixture_alloc(&f, 700, 5);
    fixture_record(&f, a, 5);
    fixture_record(&f, 0, 1);
    cr_expect(eq(u64, fixture_calls(&f, PLEAT_VMM_CALL_EVENT_CREATE), 0));
    fixture_free(&f, a);
    cr_expect(eq(i64, fixture_stats(&f).active[PLEAT_STAT_ALL].current, 0));

    const pleat_devptr_t b = fixture_alloc(&f, 700, 5);
    fixture_record(&f, b, 6);
    fixture_record(&f, b, 6);
    fixture_free(&f, b);
    cr_expect(eq(u64, fixture_calls(&f, PLEAT_VMM_CALL_EVENT_CREATE), 1));
    cr_expect(eq(u64, fixture_calls(&f, PLEAT_VMM_CALL_EVENT_RECORD), 1));
    fixture_check_and_destroy(&f);
}

Test(retire, uses_end_with_the_free, .timeout = 5)
{
    fixture_t f = fixture_create(NULL);
    const pleat_devptr_t a = fixture_alloc(&f, 700, 0);
    fixture_record(&f, a, 1);
    fixture_free(&f, a);
    const pleat_devptr_t b = fixture_alloc(&f, 700, 0);
    cr_expect(eq(u64, a, b));
    fixture_free(&f, b);
    cr_expect(eq(i64, fixture_stats(&f).active[PLEAT_STAT_ALL].current, 0));
    fixture_check_and_destroy(&f);
}

Test(retire, oversize_counter_follows_the_option_of_the_moment, .timeout = 5)
{
    fixture_t f = fixture_create(NULL);
    const pleat_devptr_t a = fixture_alloc(&f, MIB(64), 0);
    pleat_options_t options = default_options;
    options.max_split_bytes = MIB(40);
    fixture_set_options(&f, &options);
    fixture_free(&f, a);
    pleat_stats_t stats = fixture_stats(&f);
    cr_expect(eq(i64, stats.oversize_allocations.current, -1), "as PyTorch's counter does");
    cr_expect(eq(i64, stats.oversize_allocations.freed, 1));
    fixture_empty(&f);
    stats = fixture_stats(&f);
    cr_expect(eq(i64, stats.oversize_segments.current, -1));
    cr_expect(eq(i64, stats.max_split_bytes, -1), "of the creation");
    fixture_check_and_destroy(&f);
}

/* ---- bad pointers and failures ---- */

Test(retire, bad_pointers_are_refused, .timeout = 5)
{
    fixture_t f = fixture_create(NULL);
    const pleat_devptr_t a = fixture_alloc(&f, MIB(1), 0);
    const pleat_devptr_t b = fixture_alloc(&f, 512, 0);
    fixture_free(&f, b);
    const pleat_devptr_t bad[] = {b, a + 1,      a + 512,           a + MIB(1), a - 512,
                                  1, UINT64_MAX, UINT64_C(1) << 63, a + MIB(2)};
    fixture_state_t state = fixture_state(&f);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        cr_expect(eq(int, pleat_free(f.allocator, bad[i]), PLEAT_ERR_INVALID_POINTER), "%zu", i);
        cr_expect(eq(int, pleat_record_stream(f.allocator, bad[i], 1), PLEAT_ERR_INVALID_POINTER));
    }
    cr_expect(eq(int, pleat_free(f.allocator, 0xabc), PLEAT_ERR_INVALID_POINTER));
    cr_expect(eq(str, (char *)pleat_last_error(),
                 (char *)"invalid device pointer: 0xabc; it is not the start of a live "
                         "allocation"));
    cr_expect(eq(int, pleat_free(f.allocator, 0), PLEAT_OK));
    cr_expect(fixture_state_is(&f, &state));
    fixture_state_drop(&state);
    fixture_check_and_destroy(&f);
}

Test(retire, a_free_that_fails_leaves_the_block_live, .timeout = 5)
{
    fixture_t f = fixture_create(NULL);
    const pleat_devptr_t a = fixture_alloc(&f, 700, 0);
    for (unsigned stream = 1; stream <= 3; stream++) {
        fixture_record(&f, a, stream);
    }
    fixture_state_t state = fixture_state(&f);
    for (uint64_t nth = 1; nth <= 3; nth++) {
        fixture_fail_call(&f, PLEAT_VMM_CALL_EVENT_RECORD, nth, PLEAT_ERR_DRIVER);
        cr_expect(eq(int, pleat_free(f.allocator, a), PLEAT_ERR_DRIVER));
        cr_expect(fixture_state_is(&f, &state));
        fixture_check(&f);
    }
    fixture_state_drop(&state);
    fixture_free(&f, a);
    fixture_check_and_destroy(&f);
}

Test(retire, a_record_that_fails_changes_nothing, .timeout = 5)
{
    fixture_t f = fixture_create(NULL);
    const pleat_devptr_t a = fixture_alloc(&f, 700, 0);
    fixture_fail_call(&f, PLEAT_VMM_CALL_EVENT_CREATE, 1, PLEAT_ERR_DRIVER);
    cr_expect(eq(int, pleat_record_stream(f.allocator, a, 1), PLEAT_ERR_DRIVER));
    fixture_free(&f, a);
    cr_expect(eq(i64, fixture_stats(&f).active[PLEAT_STAT_ALL].current, 0));
    fixture_check_and_destroy(&f);
}

Test(retire, a_failing_query_ends_the_request_and_loses_nothing, .timeout = 5)
{
    fixture_t f = fixture_create(NULL);
    pleat_devptr_t ptr[4];
    for (unsigned i = 0; i < 4; i++) {
        ptr[i] = fixture_alloc(&f, 700, 0);
        fixture_record(&f, ptr[i], 1 + i % 2);
    }
    for (unsigned i = 0; i < 4; i++) {
        fixture_free(&f, ptr[i]);
    }
    for (unsigned left = 4; left > 0; left--) {
        fixture_fail_call(&f, PLEAT_VMM_CALL_EVENT_QUERY, 2, PLEAT_ERR_DRIVER);
        pleat_devptr_t none = 0;
        const pleat_status_t status = pleat_alloc(f.allocator, 512, 3, &none);
        cr_expect(eq(int, status, left > 1 ? PLEAT_ERR_DRIVER : PLEAT_OK));
        fixture_check(&f);
        cr_expect(
            eq(i64, fixture_stats(&f).active[PLEAT_STAT_ALL].current, left > 1 ? left - 1 : 1));
    }
    fixture_check_and_destroy(&f);
}
