/*
 * test_session_pool: sessions with private pools are performed without a difference, and the orders
 * that their lines fix are kept.
 */
#include "session_fixture.h"

#include "host_fault.h"

#include <stddef.h>

Test(session_pool, every_case_of_pools_holds, .timeout = 30)
{
    static const char *const names[] = {"g_pool_deferred_frees_at_deletion_both",
                                        "g_pool_deferred_frees_both",
                                        "g_pool_deferred_frees_pleated",
                                        "g_pool_freeable_both",
                                        "g_pool_isolation_both",
                                        "g_pool_isolation_pleated",
                                        "g_pool_live_blocks_pleated",
                                        "g_pool_nested_redirections_both",
                                        "g_pool_no_split_both",
                                        "g_pool_no_split_pleated",
                                        "g_pool_oom_redirected_both",
                                        "g_pool_oom_redirected_pleated",
                                        "g_pool_overflow_classic",
                                        "g_pool_overflow_expandable",
                                        "g_pool_overflow_pleated",
                                        "g_pool_pressure_pleated",
                                        "g_pool_retry_empties_freeable_both",
                                        "g_pool_wrong_calls_all"};
    static const unsigned modes[] = {PLEAT_SESSION_MODE_CLASSIC,
                                     PLEAT_SESSION_MODE_TORCH_EXPANDABLE,
                                     PLEAT_SESSION_MODE_PLEATED};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        for (size_t k = 0; k < sizeof(modes) / sizeof(modes[0]); k++) {
            char name[96];
            (void)snprintf(name, sizeof(name), "cases/%s.case", names[i]);
            expect_equal_in(name, modes[k]);
        }
    }
}

Test(session_pool, a_recording_is_compared_up_to_an_error_of_pytorch, .timeout = 20)
{
    checked_t checked = load("sessions/pools_exp.oracle.xz");
    const pleat_session_t *session = checked.session;
    const pleat_session_call_t *last = &session->calls[session->call_count - 1];
    run(&checked);
    cr_expect(eq(sz, checked.check.difference_count, 0));
    cr_expect(eq(u64, checked.check.call_count, session->call_count - 1));
    cr_expect(eq(u64, checked.check.stopped_line, last->line));
    cr_expect(eq(str, (char *)checked.check.stopped_by, (char *)last->error_text));
    pleat_session_destroy(checked.session);
}

/* A call of pools.oracle.xz with the range that is wanted, in which two items are swapped. */
static void expect_order_to_matter(size_t range_offset)
{
    checked_t checked = load("sessions/pools_all_streams.oracle.xz");
    pleat_session_t *session = checked.session;
    for (uint32_t i = 0; i < session->call_count; i++) {
        pleat_session_call_t *call = &session->calls[i];
        const pleat_session_range_t *range =
            (const pleat_session_range_t *)((const char *)call + range_offset);
        if (range->count >= 2) {
            uint64_t *numbers = &session->numbers[range->first];
            const uint64_t first = numbers[0];
            numbers[0] = numbers[1];
            numbers[1] = first;
            expect_difference(&checked, call->line, "event");
            return;
        }
    }
    cr_assert(false, "no call with two items");
}

Test(session_pool, the_recorded_orders_are_kept, .timeout = 20)
{
    expect_order_to_matter(offsetof(pleat_session_call_t, deferred));
    expect_order_to_matter(offsetof(pleat_session_call_t, freeable));
}

Test(session_pool, a_stale_free_completes_early, .timeout = 20)
{
    checked_t checked = load("sessions/pools_all_streams.oracle.xz");
    for (uint32_t i = 0; i < checked.session->call_count; i++) {
        pleat_session_call_t *call = &checked.session->calls[i];
        if (call->stale.count > 0) {
            call->stale.count = 0;
            expect_difference(&checked, call->line, "event");
            return;
        }
    }
    cr_assert(false, "no stale free");
}

Test(session_pool, a_changed_pool_of_a_segment_is_noticed, .timeout = 20)
{
    checked_t checked = load("sessions/pools.oracle.xz");
    pleat_session_t *session = checked.session;
    for (uint32_t i = 0; i < session->segment_count; i++) {
        if (session->segments[i].pool != 0) {
            session->segments[i].pool++;
            expect_difference(&checked, session->segments[i].line, "segment");
            return;
        }
    }
    cr_assert(false, "no segment of a pool");
}

#define TWO_OVERFLOW_POOLS                                                   \
    "pleat-oracle 1\nlimit 90MiB\nkeys num_ooms\nbase 0\n"                   \
    "pool_create 1 use_on_oom\n stats\npool_create 2 use_on_oom\n stats\n"   \
    "pool_begin 1 thread\n stats\nalloc 0 41943040 0 0x7f0000000000\n"       \
    " segment_alloc 0x7f0000000000 41943040 0\n stats\npool_end 1\n stats\n" \
    "pool_begin 2 all\n stats\nalloc 1 41943040 0 0x7f0010000000\n"          \
    " segment_alloc 0x7f0010000000 41943040 0\n stats\npool_end 2\n stats\n" \
    "free 0\n free_completed 0x7f0000000000 41943040 0\n stats\n"            \
    "free 1\n free_completed 0x7f0010000000 41943040 0\n stats\n"

Test(session_pool, the_address_tells_which_overflow_pool_came_first, .timeout = 10)
{
    static const char *const sequences[] = {
        TWO_OVERFLOW_POOLS "alloc 2 41943040 0 0x7f0000000000\n stats\n"
                           "alloc 3 41943040 0 0x7f0010000000\n stats\n"
                           "oom 41943040 0\n stats 0=1\nend\n",
        TWO_OVERFLOW_POOLS "alloc 2 41943040 0 0x7f0010000000\n stats\n"
                           "alloc 3 41943040 0 0x7f0000000000\n stats\n"
                           "oom 41943040 0\n stats 0=1\nend\n"};
    for (size_t i = 0; i < 2; i++) {
        checked_t checked = load_text(sequences[i]);
        run(&checked);
        cr_expect(eq(sz, checked.check.difference_count, 0), "%s: expected %s, got %s",
                  checked.differences[0].what, checked.differences[0].expected,
                  checked.differences[0].got);
        pleat_session_destroy(checked.session);
    }
}

Test(session_pool, a_pool_that_is_deleted_helps_no_more, .timeout = 10)
{
    checked_t checked =
        load_text(TWO_OVERFLOW_POOLS "pool_release 1\n stats\npool_delete 1\n"
                                     " segment_free 0x7f0000000000 41943040 0\n stats\n"
                                     "alloc 2 41943040 0 0x7f0020000000\n"
                                     " segment_alloc 0x7f0020000000 41943040 0\n stats\n"
                                     "alloc 3 41943040 0 0x7f0010000000\n stats\nend\n");
    run(&checked);
    cr_expect(eq(sz, checked.check.difference_count, 0), "%s: expected %s, got %s",
              checked.differences[0].what, checked.differences[0].expected,
              checked.differences[0].got);
    pleat_session_destroy(checked.session);
}

Test(session_pool, calls_that_pools_refuse_are_differences, .timeout = 10)
{
    static const char *const texts[] = {
        "pool_create 1\npool_end 1\n", "pool_create 1\npool_release 1\npool_release 1\n",
        ("pool_create 1\npool_begin 1 all\nalloc a 1MiB 0 *\npool_end 1\n"
         "pool_release 1\npool_delete 1\npool_begin 1 all\n"),
        "pool_create 1\npool_delete 1\npool_delete 1\n"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        checked_t checked = load_text(texts[i]);
        const pleat_session_t *session = checked.session;
        const uint64_t line = session->calls[session->call_count - 1].line;
        expect_difference(&checked, line, "result");
    }
}

/* Host memory runs out at every place once: the check says so, or the engine's call failed. */
Test(session_pool, lack_of_host_memory_is_reported, .timeout = 30)
{
    checked_t checked =
        load_text(TWO_OVERFLOW_POOLS "pool_begin 1 thread\n stats\n"
                                     "alloc 4 41943040 0 0x7f0000000000\n stats\n"
                                     "record 4 1\n stats\nfree 4\n stats\n"
                                     "pool_end 1\n stats\n"
                                     "alloc 5 41943040 0 0x7f0000000000\n deferred 4\n"
                                     " stale 4\n freeable 1 2\n"
                                     " free_completed 0x7f0000000000 41943040 0\n stats\n"
                                     "alloc 6 41943040 0 0x7f0010000000\n stats\nend\n");
    checked.check.difference_capacity = SESSION_FIXTURE_SHOWN;
    checked.check.differences = checked.differences;
    unsigned reported = 0;
    bool is_done = false;
    for (uint64_t nth = 1; !is_done; nth++) {
        host_fault_after(nth);
        const pleat_status_t status = pleat_session_check_run(checked.session, 0, &checked.check);
        host_fault_after(0);
        cr_assert(status == PLEAT_OK || status == PLEAT_ERR_OOM_HOST, "%d: %s", status,
                  pleat_last_error());
        reported += status == PLEAT_ERR_OOM_HOST ? 1 : 0;
        is_done = status == PLEAT_OK && checked.check.difference_count == 0;
    }
    cr_expect(lt(uint, 20, reported));
    pleat_session_destroy(checked.session);
}
