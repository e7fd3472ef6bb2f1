/*
 * Tests of reclaim: what garbage collection, the release of oversize blocks and the flush give
 * back, in which order, and what they leave when the device fails.
 */
#include "core/reclaim.h"

#include "core/serve.h"

#include "fixture.h"
#include "host_fault.h"

#include <stdio.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#define MIB(count) ((uint64_t)(count)*PLEAT_MIB)

static const pleat_options_t default_options = PLEAT_OPTIONS_INIT;

/* Segments given back, in MiB, in their order. */
typedef struct log {
    char text[256];
} log_t;

static void log_action(void *context, const pleat_trace_entry_t *entry)
{
    log_t *log = context;
    if (entry->action == PLEAT_ACTION_SEGMENT_FREE) {
        const size_t used = strlen(log->text);
        (void)snprintf(log->text + used, sizeof(log->text) - used, "%u ",
                       (unsigned)(entry->bytes / PLEAT_MIB));
    }
}

static fixture_t create_logged(const pleat_options_t *options, log_t *log)
{
    fixture_t f = fixture_create(&(fixture_options_t){.options = options});
    *log = (log_t){{0}};
    pleat_set_observer(f.allocator, log_action, log);
    return f;
}

/* A cached segment. */
static void cache(const fixture_t *f, unsigned mib, pleat_stream_t stream)
{
    fixture_free(f, fixture_alloc(f, MIB(mib), stream));
}

/* Let every block of the large pool grow older by searches that hit nothing it needs. */
static void grow_older(const fixture_t *f, unsigned searches)
{
    f->allocator->large_pool.search_count += searches;
}

/* ---- garbage collection ---- */

static pleat_options_t collecting(uint64_t limit_bytes, double threshold)
{
    pleat_options_t options = default_options;
    options.limit_bytes = limit_bytes;
    options.garbage_collection_threshold = threshold;
    return options;
}

Test(reclaim, garbage_of_the_worked_case, .timeout = 5)
{
    const pleat_options_t options = collecting(MIB(1000), 0.6);
    log_t log;
    fixture_t f = create_logged(&options, &log);
    const pleat_devptr_t a = fixture_alloc(&f, MIB(100), 0);
    const pleat_devptr_t b = fixture_alloc(&f, MIB(110), 0);
    const pleat_devptr_t c = fixture_alloc(&f, MIB(120), 0);
    const pleat_devptr_t d = fixture_alloc(&f, MIB(130), 0);
    fixture_free(&f, a);
    (void)fixture_alloc(&f, MIB(30), 0);
    fixture_free(&f, b);
    (void)fixture_alloc(&f, MIB(12), 1);
    fixture_free(&f, c);
    (void)fixture_alloc(&f, MIB(14), 1);
    fixture_free(&f, d);
    (void)fixture_alloc(&f, MIB(140), 0);
    cr_expect(eq(str, log.text, (char *)""));
    (void)fixture_alloc(&f, MIB(150), 0);
    cr_expect(eq(str, log.text, (char *)"110 120 "), "the oldest, and only whole segments");
    cr_expect(eq(u64, fixture_alloc(&f, MIB(110), 0), d));
    cr_expect(eq(i64, fixture_stats(&f).num_alloc_retries, 0));
    fixture_check_and_destroy(&f);
}

Test(reclaim, garbage_starts_above_the_threshold, .timeout = 5)
{
    const pleat_options_t options = collecting(MIB(100), 0.5);
    log_t log;
    fixture_t f = create_logged(&options, &log);
    cache(&f, 20, 0);
    cache(&f, 30, 1);
    grow_older(&f, 5);
    cr_expect(eq(int, pleat_reclaim_garbage(f.allocator), PLEAT_OK));
    cr_expect(eq(str, log.text, (char *)""), "50 of 50 MiB are not more");
    (void)fixture_alloc(&f, 512, 0);
    cr_expect(eq(int, pleat_reclaim_garbage(f.allocator), PLEAT_OK));
    cr_expect(eq(str, log.text, (char *)"20 "), "which is older than the average");
    cr_expect(eq(int, pleat_reclaim_garbage(f.allocator), PLEAT_OK));
    cr_expect(eq(str, log.text, (char *)"20 "));
    fixture_check_and_destroy(&f);
}

Test(reclaim, a_pass_is_not_cut_short, .timeout = 5)
{
    const pleat_options_t options = collecting(MIB(100), 0.5);
    log_t log;
    fixture_t f = create_logged(&options, &log);
    for (unsigned i = 0; i < 5; i++) {
        fixture_set_limit(&f, PLEAT_NO_LIMIT); /* without counting searches */
        cache(&f, 12, i);
    }
    fixture_set_options(&f, &options);
    cr_expect(eq(int, pleat_reclaim_garbage(f.allocator), PLEAT_OK));
    cr_expect(eq(str, log.text, (char *)"12 12 12 12 12 "),
              "one would be enough, but all have the average age");
    fixture_check_and_destroy(&f);
}

Test(reclaim, garbage_takes_pass_after_pass, .timeout = 5)
{
    log_t log;
    fixture_t f = create_logged(NULL, &log);
    cache(&f, 20, 0);
    grow_older(&f, 100);
    cache(&f, 30, 1);
    grow_older(&f, 100);
    cache(&f, 40, 2);
    grow_older(&f, 1);
    const pleat_options_t options = collecting(MIB(100), 0.05); /* 85 of 90 MiB are to go */
    fixture_set_options(&f, &options);
    cr_expect(eq(int, pleat_reclaim_garbage(f.allocator), PLEAT_OK));
    /* ages 201, 101, 1: the average of 101 takes two, then that of 1 the last */
    cr_expect(eq(str, log.text, (char *)"20 30 40 "));
    fixture_check_and_destroy(&f);
}

Test(reclaim, garbage_leaves_small_pool_and_split_blocks, .timeout = 5)
{
    log_t log;
    fixture_t f = create_logged(NULL, &log);
    fixture_free(&f, fixture_alloc(&f, 512, 0));
    const pleat_devptr_t part = fixture_alloc(&f, MIB(2), 0);
    const pleat_options_t options = collecting(MIB(1), 0.5);
    fixture_set_options(&f, &options);
    cr_expect(eq(int, pleat_reclaim_garbage(f.allocator), PLEAT_OK));
    cr_expect(eq(str, log.text, (char *)""));
    fixture_free(&f, part);
    cr_expect(eq(int, pleat_reclaim_garbage(f.allocator), PLEAT_OK));
    cr_expect(eq(str, log.text, (char *)"20 "));
    fixture_check_and_destroy(&f);
}

Test(reclaim, searches_count_only_with_limit_and_threshold, .timeout = 5)
{
    fixture_t f = fixture_create(NULL);
    pleat_options_t options = default_options;
    (void)fixture_alloc(&f, MIB(2), 0);
    options.garbage_collection_threshold = 0.5;
    fixture_set_options(&f, &options);
    (void)fixture_alloc(&f, MIB(2), 0);
    options = collecting(MIB(1000), 0.0);
    fixture_set_options(&f, &options);
    (void)fixture_alloc(&f, MIB(2), 0);
    cr_expect(eq(u64, f.allocator->large_pool.search_count, 0));
    options = collecting(MIB(1000), 0.9);
    fixture_set_options(&f, &options);
    (void)fixture_alloc(&f, MIB(2), 0);
    (void)fixture_alloc(&f, MIB(200), 0);
    (void)fixture_alloc(&f, 512, 0);
    cr_expect(eq(u64, f.allocator->large_pool.search_count, 2));
    cr_expect(eq(u64, f.allocator->small_pool.search_count, 1));
    fixture_check_and_destroy(&f);
}

Test(reclaim, garbage_stops_at_a_device_error, .timeout = 5)
{
    log_t log;
    fixture_t f = create_logged(NULL, &log);
    cache(&f, 20, 0);
    cache(&f, 30, 1);
    const pleat_options_t options = collecting(MIB(10), 0.5);
    fixture_set_options(&f, &options);
    fixture_fail_call(&f, PLEAT_VMM_CALL_MEM_FREE, 2, PLEAT_ERR_DRIVER);
    cr_expect(eq(int, pleat_reclaim_garbage(f.allocator), PLEAT_ERR_DRIVER));
    cr_expect(eq(str, log.text, (char *)"20 "));
    fixture_check(&f);
    cr_expect(eq(int, pleat_reclaim_garbage(f.allocator), PLEAT_OK));
    cr_expect(eq(str, log.text, (char *)"20 30 "));
    fixture_check_and_destroy(&f);
}

/* ---- oversize blocks ---- */

/* Release oversize blocks for a request on stream 1. */
static pleat_status_t release(const fixture_t *f, unsigned mib, bool *is_enough)
{
    const pleat_request_t request = pleat_serve_request(f->allocator, MIB(mib), 1);
    *is_enough = true;
    return pleat_reclaim_oversize(f->allocator, &request, is_enough);
}

static void expect_released(const fixture_t *f, unsigned mib, bool is_enough, const log_t *log,
                            const char *text)
{
    bool is_told_enough = !is_enough;
    cr_expect(eq(int, release(f, mib, &is_told_enough), PLEAT_OK));
    cr_expect(eq(int, is_told_enough, is_enough), "%u MiB", mib);
    cr_expect(eq(str, (char *)log->text, (char *)text), "%u MiB", mib);
    fixture_check(f);
}

static fixture_t create_oversize(log_t *log)
{
    pleat_options_t options = default_options;
    options.max_split_bytes = MIB(40);
    fixture_t f = create_logged(&options, log);
    cache(&f, 500, 0);
    cache(&f, 600, 2);
    for (unsigned mib = 30; mib <= 90; mib += 20) { /* 30 50 70 90 */
        cache(&f, mib, 1);
    }
    return f;
}

Test(reclaim, without_a_split_limit_nothing_is_oversize, .timeout = 5)
{
    log_t log;
    fixture_t f = create_logged(NULL, &log);
    cache(&f, 50, 1);
    expect_released(&f, 20, false, &log, "");
    fixture_check_and_destroy(&f);
}

Test(reclaim, the_smallest_that_would_do_is_released, .timeout = 5)
{
    log_t log;
    fixture_t f = create_oversize(&log);
    expect_released(&f, 60, true, &log, "70 ");
    expect_released(&f, 10, true, &log, "70 50 "); /* the split limit at least */
    expect_released(&f, 90, true, &log, "70 50 90 ");
    fixture_check_and_destroy(&f);
}

Test(reclaim, several_are_released_from_the_largest_down, .timeout = 5)
{
    log_t log;
    fixture_t f = create_oversize(&log);
    expect_released(&f, 160, true, &log, "90 70 "); /* exactly enough */
    fixture_check_and_destroy(&f);
}

Test(reclaim, what_is_released_stays_so_even_if_not_enough, .timeout = 5)
{
    log_t log;
    fixture_t f = create_oversize(&log);
    expect_released(&f, 300, false, &log, "90 70 50 ");
    expect_released(&f, 300, false, &log, "90 70 50 "); /* 30 is no oversize block */
    fixture_check_and_destroy(&f);
}

Test(reclaim, the_beginning_of_the_set_ends_the_search, .timeout = 5)
{
    log_t log;
    pleat_options_t options = default_options;
    options.max_split_bytes = MIB(40);
    fixture_t f = create_logged(&options, &log);
    cache(&f, 500, 2);
    expect_released(&f, 60, false, &log, "");
    cache(&f, 46, 1);
    expect_released(&f, 60, false, &log, "46 ");
    expect_released(&f, 60, false, &log, "46 ");
    fixture_check_and_destroy(&f);
}

Test(reclaim, parts_of_a_segment_are_passed_over, .timeout = 5)
{
    log_t log;
    fixture_t f = create_logged(NULL, &log);
    const pleat_devptr_t a = fixture_alloc(&f, MIB(100), 1);
    fixture_free(&f, a);
    (void)fixture_alloc(&f, MIB(20), 1); /* 80 remain beside it */
    cache(&f, 84, 2);
    pleat_options_t options = default_options;
    options.max_split_bytes = MIB(40);
    fixture_set_options(&f, &options);
    cache(&f, 120, 1);
    cache(&f, 50, 1); /* the 80 are too many for it */
    expect_released(&f, 70, false, &log, "50 ");
    expect_released(&f, 130, false, &log, "50 120 ");
    fixture_check_and_destroy(&f);
}

Test(reclaim, release_stops_at_a_device_error, .timeout = 5)
{
    log_t log;
    fixture_t f = create_oversize(&log);
    bool is_enough = true;
    fixture_fail_call(&f, PLEAT_VMM_CALL_MEM_FREE, 1, PLEAT_ERR_DRIVER);
    cr_expect(eq(int, release(&f, 60, &is_enough), PLEAT_ERR_DRIVER));
    cr_expect(not(is_enough));
    fixture_fail_call(&f, PLEAT_VMM_CALL_MEM_FREE, 2, PLEAT_ERR_DRIVER);
    cr_expect(eq(int, release(&f, 150, &is_enough), PLEAT_ERR_DRIVER));
    cr_expect(not(is_enough));
    cr_expect(eq(str, log.text, (char *)"90 "));
    fixture_check_and_destroy(&f);
}

/* ---- everything ---- */

Test(reclaim, flush_gives_back_large_before_small_in_order, .timeout = 5)
{
    log_t log;
    fixture_t f = create_logged(NULL, &log);
    cache(&f, 1, 3);
    cache(&f, 30, 2);
    cache(&f, 50, 1);
    cache(&f, 60, 1);
    cache(&f, 1, 0);
    const pleat_devptr_t live = fixture_alloc(&f, MIB(3), 0);
    fixture_empty(&f);
    cr_expect(eq(str, log.text, (char *)"50 60 30 2 2 "));
    const pleat_stats_t stats = fixture_stats(&f);
    cr_expect(eq(i64, stats.num_device_free, 5));
    cr_expect(eq(i64, stats.num_sync_all_streams, 1));
    cr_expect(eq(i64, stats.reserved_bytes[PLEAT_STAT_ALL].current, MIB(20)));
    fixture_free(&f, live);
    fixture_check_and_destroy(&f);
}

Test(reclaim, flush_waits_for_waiting_frees, .timeout = 5)
{
    log_t log;
    fixture_t f = create_logged(NULL, &log);
    const pleat_devptr_t a = fixture_alloc(&f, MIB(12), 0);
    fixture_set_busy(&f, 1);
    fixture_record(&f, a, 1);
    fixture_free(&f, a);
    fixture_empty(&f);
    cr_expect(eq(str, log.text, (char *)"12 "));
    fixture_empty(&f);
    cr_expect(eq(i64, fixture_stats(&f).num_sync_all_streams, 2), "counted even if none waits");
    fixture_check_and_destroy(&f);
}

Test(reclaim, flush_stops_at_a_device_error, .timeout = 5)
{
    log_t log;
    fixture_t f = create_logged(NULL, &log);
    cache(&f, 12, 0);
    cache(&f, 14, 0);
    cache(&f, 1, 0);
    const pleat_devptr_t a = fixture_alloc(&f, MIB(16), 0);
    fixture_record(&f, a, 1);
    fixture_free(&f, a);
    fixture_fail_call(&f, PLEAT_VMM_CALL_EVENT_SYNCHRONIZE, 1, PLEAT_ERR_DRIVER);
    cr_expect(eq(int, pleat_empty_cache(f.allocator), PLEAT_ERR_DRIVER));
    cr_expect(eq(str, log.text, (char *)""));
    fixture_check(&f);
    fixture_fail_call(&f, PLEAT_VMM_CALL_MEM_FREE, 2, PLEAT_ERR_DRIVER);
    cr_expect(eq(int, pleat_empty_cache(f.allocator), PLEAT_ERR_DRIVER));
    cr_expect(eq(str, log.text, (char *)"12 "));
    fixture_check(&f);
    fixture_fail_call(&f, PLEAT_VMM_CALL_MEM_FREE, 3, PLEAT_ERR_DRIVER);
    cr_expect(eq(int, pleat_empty_cache(f.allocator), PLEAT_ERR_DRIVER));
    cr_expect(eq(str, log.text, (char *)"12 14 16 "));
    fixture_check(&f);
    fixture_empty(&f);
    cr_expect(eq(str, log.text, (char *)"12 14 16 2 "));
    cr_expect(eq(i64, fixture_stats(&f).num_device_free, 4), "failed ones do not count");
    cr_expect(eq(i64, fixture_stats(&f).num_sync_all_streams, 4));
    fixture_check_and_destroy(&f);
}

/* The ends of a block whose middle goes back need objects, and the request was here before. */
Test(reclaim, pages_that_go_back_leave_objects_for_the_retry, .timeout = 5)
{
    for (int is_refused = 0; is_refused < 2; is_refused++) {
        pleat_options_t options = default_options;
        options.mode = PLEAT_MODE_TORCH_EXPANDABLE;
        fixture_t f = fixture_create(&(fixture_options_t){.options = &options});
        (void)fixture_alloc(&f, MIB(25), 0);
        const pleat_devptr_t middle = fixture_alloc(&f, MIB(50), 0);
        (void)fixture_alloc(&f, MIB(25), 0);
        fixture_free(&f, middle);
        options.mode = PLEAT_MODE_CLASSIC;
        options.limit_bytes = MIB(110);
        fixture_set_options(&f, &options);
        pleat_block_store_t *store = &f.allocator->blocks;
        pleat_block_t *others = pleat_block_store_set_aside(store, store->unused_count - 2);
        host_fault_after(is_refused ? 1 : 0);
        pleat_devptr_t ptr = 0;
        cr_expect(eq(int, pleat_alloc(f.allocator, MIB(30), 0, &ptr),
                     is_refused ? PLEAT_ERR_OOM_HOST : PLEAT_OK));
        host_fault_after(0);
        cr_expect(eq(i64, fixture_stats(&f).num_alloc_retries, is_refused ? 0 : 1));
        cr_expect(eq(u64, f.allocator->held_bytes, is_refused ? MIB(80) : MIB(110)));
        pleat_block_store_put_back(store, others);
        fixture_check_and_destroy(&f);
    }
}
