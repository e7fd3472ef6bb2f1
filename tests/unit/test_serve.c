/*
 * Tests of serve: which block serves a request, what is split off, what is counted, and in which
 * order memory is looked for.
 */
#include "core/serve.h"

#include "fixture.h"

#include <stdio.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#define MIB(count) ((uint64_t)(count)*PLEAT_MIB)

static const pleat_options_t default_options = PLEAT_OPTIONS_INIT;

static fixture_t create_with(uint64_t capacity_bytes, const pleat_options_t *options)
{
    return fixture_create(
        &(fixture_options_t){.capacity_bytes = capacity_bytes, .options = options});
}

/* The status of a request that is expected to fail; its address must stay untouched. */
static pleat_status_t fail_alloc(const fixture_t *f, uint64_t bytes, pleat_stream_t stream)
{
    pleat_devptr_t ptr = 4711;
    const pleat_status_t status = pleat_alloc(f->allocator, bytes, stream, &ptr);
    cr_expect(eq(u64, ptr, 4711));
    return status;
}

/* ---- the worked example ---- */

typedef struct row {
    uint64_t segment;
    uint64_t reserved;
    uint64_t allocated;
    uint64_t split;
    uint64_t split_bytes;
    uint64_t split_up;
    uint64_t split_down;
    uint64_t device_allocs;
    uint64_t device_frees;
} row_t;

static void expect_row(const fixture_t *f, const char *call, row_t want)
{
    const pleat_stats_t stats = fixture_stats(f);
    const unsigned all = PLEAT_STAT_ALL;
    cr_expect(eq(i64, stats.segment[all].current, (int64_t)want.segment), "%s", call);
    cr_expect(eq(i64, stats.reserved_bytes[all].current, (int64_t)want.reserved), "%s", call);
    cr_expect(eq(i64, stats.allocated_bytes[all].current, (int64_t)want.allocated), "%s", call);
    cr_expect(eq(i64, stats.inactive_split[all].current, (int64_t)want.split), "%s", call);
    cr_expect(eq(i64, stats.inactive_split_bytes[all].current, (int64_t)want.split_bytes), "%s",
              call);
    cr_expect(eq(i64, stats.inactive_split[all].allocated, (int64_t)want.split_up), "%s", call);
    cr_expect(eq(i64, stats.inactive_split[all].freed, (int64_t)want.split_down), "%s", call);
    cr_expect(eq(i64, stats.num_device_alloc, (int64_t)want.device_allocs), "%s", call);
    cr_expect(eq(i64, stats.num_device_free, (int64_t)want.device_frees), "%s", call);
    fixture_check(f);
}

Test(serve, worked_example_step_by_step, .timeout = 5)
{
    fixture_t f = fixture_create(NULL);
    const pleat_devptr_t a = fixture_alloc(&f, 3145728, 0);
    expect_row(&f, "a", (row_t){1, 20971520, 3145728, 1, 17825792, 1, 0, 1, 0});
    const pleat_devptr_t b = fixture_alloc(&f, 1000, 0);
    expect_row(&f, "b", (row_t){2, 23068672, 3146752, 2, 19921920, 2, 0, 2, 0});
    const pleat_devptr_t c = fixture_alloc(&f, 700, 0);
    cr_expect(eq(u64, c, b + 1024));
    expect_row(&f, "c", (row_t){2, 23068672, 3147776, 2, 19920896, 2, 0, 2, 0});
    fixture_free(&f, c);
    expect_row(&f, "free c", (row_t){2, 23068672, 3146752, 2, 19921920, 2, 0, 2, 0});
    const pleat_devptr_t d = fixture_alloc(&f, 12582912, 0);
    cr_expect(eq(u64, d, a + MIB(3)));
    expect_row(&f, "d", (row_t){2, 23068672, 15729664, 2, 7339008, 2, 0, 2, 0});
    fixture_free(&f, a);
    expect_row(&f, "free a", (row_t){2, 23068672, 12583936, 3, 10484736, 3, 0, 2, 0});
    const pleat_devptr_t e = fixture_alloc(&f, 2097152, 0);
    cr_expect(eq(u64, e, a));
    expect_row(&f, "e", (row_t){2, 23068672, 15729664, 2, 7339008, 3, 1, 2, 0});
    fixture_free(&f, d);
    expect_row(&f, "free d", (row_t){2, 23068672, 3146752, 2, 19921920, 3, 1, 2, 0});
    const pleat_devptr_t g = fixture_alloc(&f, 11534336, 0);
    cr_expect(eq(u64, g, a + MIB(3)));
    expect_row(&f, "g", (row_t){2, 23068672, 14681088, 2, 8387584, 3, 1, 2, 0});
    fixture_empty(&f);
    expect_row(&f, "empty", (row_t){2, 23068672, 14681088, 2, 8387584, 3, 1, 2, 0});
    fixture_free(&f, e);
    expect_row(&f, "free e", (row_t){2, 23068672, 11535360, 3, 11533312, 4, 1, 2, 0});
    fixture_free(&f, g);
    expect_row(&f, "free g", (row_t){2, 23068672, 1024, 1, 2096128, 4, 3, 2, 0});
    cr_expect(eq(i64, fixture_stats(&f).inactive_split_bytes[PLEAT_STAT_LARGE_POOL].freed,
                 (int64_t)(MIB(12) + MIB(3) + MIB(11) + MIB(9))),
              "d taken, e taken whole, g taken, and one decrease of 9 MiB");
    fixture_free(&f, b);
    expect_row(&f, "free b", (row_t){2, 23068672, 0, 0, 0, 4, 4, 2, 0});
    fixture_empty(&f);
    expect_row(&f, "last empty", (row_t){0, 0, 0, 0, 0, 4, 4, 2, 2});
    cr_expect(eq(i64, fixture_stats(&f).num_sync_all_streams, 2));
    fixture_check_and_destroy(&f);
}

Test(serve, a_hand_out_moves_these_counters, .timeout = 5)
{
    pleat_options_t options = default_options;
    options.max_split_bytes = MIB(40);
    fixture_t f = create_with(0, &options);
    (void)fixture_alloc(&f, 1000, 0);
    const pleat_devptr_t big = fixture_alloc(&f, MIB(41) - 100, 0);
    pleat_stats_t stats = fixture_stats(&f);
    cr_expect(eq(i64, stats.allocation[PLEAT_STAT_ALL].current, 2));
    cr_expect(eq(i64, stats.allocation[PLEAT_STAT_SMALL_POOL].current, 1));
    cr_expect(eq(i64, stats.active[PLEAT_STAT_LARGE_POOL].current, 1));
    cr_expect(eq(i64, stats.active_bytes[PLEAT_STAT_SMALL_POOL].current, 1024));
    cr_expect(eq(i64, stats.active_bytes[PLEAT_STAT_LARGE_POOL].current, MIB(42)),
              "an oversize block is not split");
    cr_expect(eq(i64, stats.requested_bytes[PLEAT_STAT_ALL].current, MIB(41) + 900));
    cr_expect(eq(i64, stats.oversize_allocations.current, 1));
    cr_expect(eq(i64, stats.oversize_segments.current, 1));
    cr_expect(eq(i64, stats.max_split_bytes, MIB(40)));
    fixture_free(&f, big);
    stats = fixture_stats(&f);
    cr_expect(eq(i64, stats.oversize_allocations.current, 0));
    cr_expect(eq(i64, stats.oversize_segments.current, 1));
    fixture_empty(&f);
    cr_expect(eq(i64, fixture_stats(&f).oversize_segments.current, 0));
    fixture_check_and_destroy(&f);
}

/* ---- search ---- */

Test(serve, takes_the_smallest_block_that_fits, .timeout = 5)
{
    fixture_t f = fixture_create(NULL);
    const pleat_devptr_t big = fixture_alloc(&f, MIB(64), 0);
    const pleat_devptr_t snug = fixture_alloc(&f, MIB(32), 0);
    const pleat_devptr_t small = fixture_alloc(&f, MIB(16), 0);
    fixture_free(&f, big);
    fixture_free(&f, snug);
    fixture_free(&f, small);
    cr_expect(eq(u64, fixture_alloc(&f, MIB(31) + 1, 0), snug));
    cr_expect(eq(u64, fixture_alloc(&f, MIB(31) + 1, 0), big));
    cr_expect(eq(u64, fixture_alloc(&f, MIB(15), 0), small));
    fixture_check_and_destroy(&f);
}

Test(serve, streams_share_no_blocks, .timeout = 5)
{
    fixture_t f = fixture_create(NULL);
    const pleat_devptr_t a = fixture_alloc(&f, MIB(32), 1);
    fixture_free(&f, a);
    const pleat_devptr_t b = fixture_alloc(&f, MIB(32), 2);
    cr_expect(ne(u64, a, b));
    cr_expect(eq(i64, fixture_stats(&f).num_device_alloc, 2));
    cr_expect(eq(u64, fixture_alloc(&f, MIB(32), 1), a));
    cr_expect(eq(i64, fixture_stats(&f).num_device_alloc, 2));
    fixture_check_and_destroy(&f);
}

Test(serve, oversize_rules_look_at_one_block_only, .timeout = 5)
{
    pleat_options_t options = default_options;
    options.max_split_bytes = MIB(40);
    fixture_t f = create_with(0, &options);
    const pleat_devptr_t a = fixture_alloc(&f, MIB(50), 0);
    const pleat_devptr_t b = fixture_alloc(&f, MIB(80), 0);
    fixture_free(&f, a);
    fixture_free(&f, b);
    /* the best fit for 30 MiB is the oversize one of 50: refused, a new segment */
    cr_expect(ne(u64, fixture_alloc(&f, MIB(30), 0), a));
    cr_expect(eq(i64, fixture_stats(&f).num_device_alloc, 3));
    /* 55: the best fit is the one of 80, 25 larger: refused */
    cr_expect(ne(u64, fixture_alloc(&f, MIB(55), 0), b));
    cr_expect(eq(i64, fixture_stats(&f).num_device_alloc, 4));
    /* 45 takes the one of 50 whole */
    cr_expect(eq(u64, fixture_alloc(&f, MIB(45), 0), a));
    cr_expect(eq(i64, fixture_stats(&f).num_device_alloc, 4));
    cr_expect(eq(i64, fixture_stats(&f).oversize_allocations.current, 2));
    fixture_check_and_destroy(&f);
}

Test(serve, can_hit_asks_without_changing, .timeout = 5)
{
    fixture_t f = fixture_create(NULL);
    cr_expect(pleat_allocator_can_hit(f.allocator, 0, 0), "nothing is needed for nothing");
    cr_expect(not(pleat_allocator_can_hit(f.allocator, UINT64_C(1) << 60, 0)));
    cr_expect(not(pleat_allocator_can_hit(f.allocator, 512, 0)));
    (void)fixture_alloc(&f, 512, 0);
    fixture_state_t state = fixture_state(&f);
    cr_expect(pleat_allocator_can_hit(f.allocator, 512, 0));
    cr_expect(not(pleat_allocator_can_hit(f.allocator, 512, 1)));
    cr_expect(not(pleat_allocator_can_hit(f.allocator, MIB(2), 0)));
    cr_expect(fixture_state_is(&f, &state));
    fixture_state_drop(&state);
    fixture_check_and_destroy(&f);
}

/* ---- split ---- */

Test(serve, splits_by_the_borders, .timeout = 5)
{
    static const struct {
        uint64_t bytes;
        uint64_t max_split_bytes;
        uint64_t block_bytes; /* of what is handed out */
    } rows[] = {
        {MIB(1), PLEAT_UNLIMITED, MIB(1)},
        {MIB(1) - 512, PLEAT_UNLIMITED, MIB(1) - 512},
        /* a segment of 20 MiB: more than 1 MiB must remain */
        {MIB(19) / 2, PLEAT_UNLIMITED, MIB(19) / 2},
        {MIB(10), PLEAT_UNLIMITED, MIB(10)},             /* a segment of its own */
        {MIB(10) + 512, PLEAT_UNLIMITED, MIB(10) + 512}, /* 12 MiB: 2 MiB - 512 remain */
        {MIB(11) - 512, PLEAT_UNLIMITED, MIB(11) - 512}, /* 1 MiB + 512 remain */
        {MIB(11), PLEAT_UNLIMITED, MIB(12)},             /* 1 MiB exactly: kept whole */
        {MIB(11) + 512, PLEAT_UNLIMITED, MIB(12)},
        /* a request of the split limit or more takes all */
        {MIB(40) + 512, MIB(41), MIB(40) + 512},
        {MIB(40) + 512, MIB(40) + 1024, MIB(40) + 512},
        {MIB(40) + 512, MIB(40) + 512, MIB(42)},
        {MIB(40) + 512, MIB(40), MIB(42)},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        pleat_options_t options = default_options;
        options.max_split_bytes = rows[i].max_split_bytes;
        fixture_t f = create_with(0, &options);
        (void)fixture_alloc(&f, rows[i].bytes, 0);
        cr_expect(eq(i64, fixture_stats(&f).allocated_bytes[PLEAT_STAT_ALL].current,
                     (int64_t)rows[i].block_bytes),
                  "row %zu", i);
        fixture_check_and_destroy(&f);
    }
}

Test(serve, small_blocks_are_split_to_the_last_unit, .timeout = 5)
{
    fixture_t f = fixture_create(NULL);
    const pleat_devptr_t first = fixture_alloc(&f, MIB(1), 0);
    const pleat_devptr_t second = fixture_alloc(&f, MIB(1) - 512, 0);
    const pleat_devptr_t last = fixture_alloc(&f, 1, 0);
    cr_expect(eq(u64, second, first + MIB(1)));
    cr_expect(eq(u64, last, first + MIB(2) - 512));
    const pleat_stats_t stats = fixture_stats(&f);
    cr_expect(eq(i64, stats.segment[PLEAT_STAT_ALL].current, 1));
    cr_expect(eq(i64, stats.inactive_split[PLEAT_STAT_ALL].current, 0));
    cr_expect(eq(i64, stats.inactive_split_bytes[PLEAT_STAT_ALL].current, 0));
    cr_expect(eq(i64, stats.inactive_split[PLEAT_STAT_ALL].freed, 1));
    fixture_check_and_destroy(&f);
}

/* ---- sizes at the ends ---- */

Test(serve, zero_bytes_touch_nothing, .timeout = 5)
{
    fixture_t f = fixture_create(NULL);
    fixture_state_t state = fixture_state(&f);
    pleat_devptr_t ptr = 4711;
    cr_expect(eq(int, pleat_alloc(f.allocator, 0, 0, &ptr), PLEAT_OK));
    cr_expect(eq(u64, ptr, 0));
    cr_expect(fixture_state_is(&f, &state));
    fixture_state_drop(&state);
    fixture_check_and_destroy(&f);
}

Test(serve, an_exabyte_is_refused_before_anything, .timeout = 5)
{
    static const uint64_t sizes[] = {UINT64_C(1) << 60, (UINT64_C(1) << 60) + 1, UINT64_C(1) << 63,
                                     UINT64_MAX};
    fixture_t f = fixture_create(NULL);
    (void)fixture_alloc(&f, 1, 0);
    fixture_state_t state = fixture_state(&f);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        cr_expect(eq(int, fail_alloc(&f, sizes[i], 0), PLEAT_ERR_TOO_LARGE));
        cr_expect(ne(ptr, strstr(pleat_last_error(), "the largest is 2^60 - 1"), NULL));
    }
    cr_expect(fixture_state_is(&f, &state));
    fixture_state_drop(&state);
    fixture_check_and_destroy(&f);
}

Test(serve, just_below_an_exabyte_is_out_of_memory, .timeout = 5)
{
    fixture_t f = fixture_create(NULL);
    cr_expect(eq(int, fail_alloc(&f, (UINT64_C(1) << 60) - 1, 0), PLEAT_ERR_OOM_DEVICE));
    cr_expect(eq(i64, fixture_stats(&f).num_ooms, 1));
    fixture_set_limit(&f, PLEAT_NO_LIMIT - 1);
    cr_expect(eq(int, fail_alloc(&f, (UINT64_C(1) << 60) - 1, 0), PLEAT_ERR_OOM_DEVICE));
    fixture_check_and_destroy(&f);
}

/* ---- the device's limit and ours ---- */

Test(serve, a_limit_counts_whole_segments, .timeout = 5)
{
    fixture_t f = fixture_create(NULL);
    fixture_set_limit(&f, MIB(22) - 1);
    (void)fixture_alloc(&f, MIB(1) + 1, 0); /* a segment of 20 MiB */
    cr_expect(eq(int, fail_alloc(&f, 512, 0), PLEAT_ERR_OOM_DEVICE), "one byte short");
    cr_expect(eq(u64, fixture_calls(&f, PLEAT_VMM_CALL_MEM_ALLOC), 1), "the device is not asked");
    fixture_set_limit(&f, MIB(22));
    (void)fixture_alloc(&f, 512, 0);
    fixture_set_limit(&f, 0); /* cached memory is handed out above the limit */
    (void)fixture_alloc(&f, MIB(2), 0);
    cr_expect(eq(int, fail_alloc(&f, MIB(20), 0), PLEAT_ERR_OOM_DEVICE));
    const pleat_stats_t stats = fixture_stats(&f);
    cr_expect(eq(i64, stats.num_ooms, 2));
    cr_expect(eq(i64, stats.num_alloc_retries, 2));
    cr_expect(eq(i64, stats.num_sync_all_streams, 2));
    fixture_check_and_destroy(&f);
}

Test(serve, a_limit_of_zero_refuses_every_segment, .timeout = 5)
{
    pleat_options_t options = default_options;
    options.limit_bytes = 0;
    fixture_t f = create_with(0, &options);
    cr_expect(eq(int, fail_alloc(&f, 1, 0), PLEAT_ERR_OOM_DEVICE));
    cr_expect(eq(u64, fixture_calls(&f, PLEAT_VMM_CALL_MEM_ALLOC), 0));
    fixture_check_and_destroy(&f);
}

Test(serve, out_of_memory_leaves_its_facts, .timeout = 5)
{
    pleat_options_t options = default_options;
    options.limit_bytes = MIB(90);
    fixture_t f = create_with(MIB(64), &options);
    (void)fixture_alloc(&f, MIB(40), 3);
    const pleat_devptr_t cached = fixture_alloc(&f, 1024, 3);
    (void)fixture_alloc(&f, 1024, 3);
    fixture_free(&f, cached);
    cr_expect(eq(int, fail_alloc(&f, MIB(30) + 1, 5), PLEAT_ERR_OOM_DEVICE));
    cr_expect(ne(ptr, strstr(pleat_last_error(), "out of device memory: 31457281 bytes"), NULL),
              "%s", pleat_last_error());
    pleat_oom_info_t info = PLEAT_OOM_INFO_INIT;
    pleat_read_last_oom(f.allocator, &info);
    cr_expect(eq(u64, info.requested_bytes, MIB(30) + 1));
    cr_expect(eq(u64, info.attempted_bytes, MIB(32)));
    cr_expect(eq(u64, info.device_free_bytes, MIB(22)));
    cr_expect(eq(u64, info.device_total_bytes, MIB(64)));
    cr_expect(eq(u64, info.limit_bytes, MIB(90)));
    cr_expect(eq(u64, info.allocated_bytes, MIB(40) + 1024));
    cr_expect(eq(u64, info.reserved_bytes, MIB(42)));
    cr_expect(eq(u64, info.private_free_bytes, 0));
    cr_expect(eq(u64, info.stream, 5));

    fixture_fail_call(&f, PLEAT_VMM_CALL_MEM_INFO, 1, PLEAT_ERR_DRIVER);
    cr_expect(eq(int, fail_alloc(&f, MIB(30), 5), PLEAT_ERR_OOM_DEVICE));
    pleat_read_last_oom(f.allocator, &info);
    cr_expect(eq(u64, info.device_total_bytes, 0), "a device that does not tell");
    cr_expect(eq(u64, info.requested_bytes, MIB(30)));
    fixture_check_and_destroy(&f);
}

/* ---- the order of the chain ---- */

typedef struct log {
    char text[256];
} log_t;

static void log_action(void *context, const pleat_trace_entry_t *entry)
{
    log_t *log = context;
    const size_t used = strlen(log->text);
    (void)snprintf(log->text + used, sizeof(log->text) - used, "%s:%u ",
                   pleat_action_name(entry->action), (unsigned)(entry->bytes / PLEAT_MIB));
}

/* Garbage collection first, then the device, then oversize blocks, then everything. */
Test(serve, steps_come_in_their_order, .timeout = 5)
{
    pleat_options_t options = default_options;
    options.limit_bytes = MIB(200);
    options.garbage_collection_threshold = 0.4;
    options.max_split_bytes = MIB(40);
    fixture_t f = create_with(0, &options);
    const pleat_devptr_t a = fixture_alloc(&f, MIB(30), 0); /* young: not for the collector */
    const pleat_devptr_t b = fixture_alloc(&f, MIB(50), 1); /* oversize, of another stream */
    const pleat_devptr_t c = fixture_alloc(&f, MIB(60), 0); /* oversize, of this stream */
    const pleat_devptr_t d = fixture_alloc(&f, 512, 1);
    fixture_free(&f, d);
    fixture_free(&f, a); /* all three have age 0 when c is freed last */
    fixture_free(&f, b);
    fixture_free(&f, c);
    log_t log = {{0}};
    pleat_set_observer(f.allocator, log_action, &log);

    /* ages are equal, so that the collector takes all of the large pool at once */
    const pleat_devptr_t e = fixture_alloc(&f, MIB(180), 0);
    cr_expect(eq(str, log.text,
                 (char *)"segment_free:30 segment_free:60 segment_free:50 segment_alloc:180 "
                         "alloc:180 "));
    pleat_stats_t stats = fixture_stats(&f);
    cr_expect(eq(i64, stats.num_alloc_retries, 0));
    cr_expect(eq(i64, stats.num_sync_all_streams, 0));

    /* nothing to collect: the flush finds the small segment, and that is enough */
    fixture_set_limit(&f, MIB(182) + 512);
    memset(&log, 0, sizeof(log));
    fixture_free(&f, e);
    memset(&log, 0, sizeof(log));
    (void)fixture_alloc(&f, MIB(180), 0);
    cr_expect(eq(str, log.text, (char *)"alloc:180 "));
    memset(&log, 0, sizeof(log));
    (void)fixture_alloc(&f, 512, 7);
    cr_expect(eq(str, log.text, (char *)"segment_free:2 segment_alloc:2 alloc:0 "));
    stats = fixture_stats(&f);
    cr_expect(eq(i64, stats.num_alloc_retries, 1));
    cr_expect(eq(i64, stats.num_sync_all_streams, 1));

    memset(&log, 0, sizeof(log));
    cr_expect(eq(int, fail_alloc(&f, MIB(20), 7), PLEAT_ERR_OOM_DEVICE));
    cr_expect(eq(str, log.text, (char *)"oom:20 "));
    cr_expect(eq(i64, fixture_stats(&f).num_alloc_retries, 2));
    fixture_check_and_destroy(&f);
}

Test(serve, an_oversize_block_is_released_before_the_flush, .timeout = 5)
{
    pleat_options_t options = default_options;
    options.max_split_bytes = MIB(40);
    fixture_t f = create_with(MIB(160), &options);
    const pleat_devptr_t a = fixture_alloc(&f, MIB(60), 0);
    const pleat_devptr_t b = fixture_alloc(&f, MIB(80), 0);
    const pleat_devptr_t small = fixture_alloc(&f, 512, 0);
    fixture_free(&f, a);
    fixture_free(&f, b);
    fixture_free(&f, small);
    log_t log = {{0}};
    pleat_set_observer(f.allocator, log_action, &log);
    (void)fixture_alloc(&f, MIB(44), 0); /* the best fit of 60 is 16 larger: taken */
    (void)fixture_alloc(&f, MIB(50), 0); /* 80 is 30 larger: refused, then released */
    cr_expect(eq(str, log.text, (char *)"alloc:44 segment_free:80 segment_alloc:50 alloc:50 "));
    const pleat_stats_t stats = fixture_stats(&f);
    cr_expect(eq(i64, stats.num_alloc_retries, 0), "not a retry");
    cr_expect(eq(i64, stats.num_sync_all_streams, 0));
    fixture_check_and_destroy(&f);
}

Test(serve, a_release_that_does_not_help_goes_on_to_the_flush, .timeout = 5)
{
    pleat_options_t options = default_options;
    options.max_split_bytes = MIB(40);
    fixture_t f = create_with(MIB(160), &options);
    const pleat_devptr_t other = fixture_alloc(&f, MIB(90), 1);
    const pleat_devptr_t a = fixture_alloc(&f, MIB(60), 0);
    fixture_free(&f, a);
    fixture_free(&f, other);
    log_t log = {{0}};
    pleat_set_observer(f.allocator, log_action, &log);
    (void)fixture_alloc(&f, MIB(100), 0);
    cr_expect(
        eq(str, log.text, (char *)"segment_free:60 segment_free:90 segment_alloc:100 alloc:100 "));
    cr_expect(eq(i64, fixture_stats(&f).num_alloc_retries, 1));

    /* enough is released by our count, and still the device has too little */
    fixture_empty(&f);
    fixture_check_and_destroy(&f);
}

Test(serve, waiting_frees_are_looked_at_before_the_search, .timeout = 5)
{
    fixture_t f = fixture_create(NULL);
    const pleat_devptr_t a = fixture_alloc(&f, MIB(32), 0);
    fixture_set_busy(&f, 1);
    fixture_record(&f, a, 1);
    fixture_free(&f, a);
    const pleat_devptr_t b = fixture_alloc(&f, MIB(32), 0);
    cr_expect(ne(u64, a, b));
    fixture_set_done(&f, 1);
    cr_expect(eq(u64, fixture_alloc(&f, MIB(32), 0), a));
    fixture_check_and_destroy(&f);
}

Test(serve, the_flush_waits_for_waiting_frees, .timeout = 5)
{
    fixture_t f = create_with(MIB(64), NULL);
    const pleat_devptr_t a = fixture_alloc(&f, MIB(40), 0);
    fixture_set_busy(&f, 1);
    fixture_record(&f, a, 1);
    fixture_free(&f, a);
    (void)fixture_alloc(&f, MIB(50), 0);
    const pleat_stats_t stats = fixture_stats(&f);
    cr_expect(eq(i64, stats.num_alloc_retries, 1));
    cr_expect(eq(i64, stats.num_sync_all_streams, 1));
    cr_expect(eq(u64, fixture_calls(&f, PLEAT_VMM_CALL_EVENT_SYNCHRONIZE), 1));
    cr_expect(eq(i64, stats.reserved_bytes[PLEAT_STAT_ALL].peak, MIB(50)),
              "it falls before it rises");
    fixture_check_and_destroy(&f);
}

/* ---- device errors that are not out of memory ---- */

/* A device of 160 MiB that has something to do in every step of the chain for 100 MiB. */
static fixture_t create_full(void)
{
    pleat_options_t options = default_options;
    options.max_split_bytes = MIB(40);
    options.limit_bytes = MIB(150);
    fixture_t f = create_with(MIB(160), &options);
    const pleat_devptr_t a = fixture_alloc(&f, MIB(60), 0);
    const pleat_devptr_t b = fixture_alloc(&f, MIB(44), 1);
    const pleat_devptr_t c = fixture_alloc(&f, MIB(30), 1);
    const pleat_devptr_t d = fixture_alloc(&f, 512, 2);
    fixture_set_busy(&f, 3);
    fixture_record(&f, d, 3);
    fixture_free(&f, a);
    fixture_free(&f, b);
    fixture_free(&f, c);
    fixture_free(&f, d);
    return f;
}

Test(serve, every_device_error_on_the_way_leaves_a_sound_allocator, .timeout = 20)
{
    static const pleat_vmm_call_t kinds[] = {PLEAT_VMM_CALL_MEM_ALLOC, PLEAT_VMM_CALL_MEM_FREE,
                                             PLEAT_VMM_CALL_EVENT_QUERY,
                                             PLEAT_VMM_CALL_EVENT_SYNCHRONIZE};
    unsigned failures = 0;
    for (size_t kind = 0; kind < sizeof(kinds) / sizeof(kinds[0]); kind++) {
        pleat_status_t status = PLEAT_ERR_DRIVER;
        for (uint64_t nth = 1; status != PLEAT_OK; nth++) {
            cr_assert(nth < 20);
            fixture_t f = create_full();
            fixture_fail_call(&f, kinds[kind], nth, PLEAT_ERR_DRIVER);
            pleat_devptr_t ptr = 4711;
            status = pleat_alloc(f.allocator, MIB(100), 0, &ptr);
            fixture_fail_call(&f, kinds[kind], 0, PLEAT_ERR_DRIVER);
            if (status != PLEAT_OK) {
                cr_expect(eq(int, status, PLEAT_ERR_DRIVER));
                cr_expect(eq(u64, ptr, 4711));
                failures++;
                fixture_check(&f);
                const pleat_stats_t stats = fixture_stats(&f);
                cr_expect(eq(i64, stats.num_ooms, 0));
                cr_expect(eq(i64, stats.allocation[PLEAT_STAT_ALL].current, 0));
                (void)fixture_alloc(&f, MIB(100), 0); /* and it goes on */
            }
            fixture_check_and_destroy(&f);
        }
    }
    cr_expect(failures >= 7, "%u", failures);
}

Test(serve, an_error_at_once_changes_nothing, .timeout = 5)
{
    fixture_t f = create_full();
    fixture_state_t state = fixture_state(&f);
    fixture_fail_call(&f, PLEAT_VMM_CALL_EVENT_QUERY, 1, PLEAT_ERR_DRIVER);
    cr_expect(eq(int, fail_alloc(&f, 512, 0), PLEAT_ERR_DRIVER));
    cr_expect(fixture_state_is(&f, &state));
    fixture_fail_call(&f, PLEAT_VMM_CALL_MEM_ALLOC, 1, PLEAT_ERR_DRIVER);
    cr_expect(eq(int, fail_alloc(&f, 512, 0), PLEAT_ERR_DRIVER));
    cr_expect(fixture_state_is(&f, &state));
    fixture_state_drop(&state);
    fixture_check_and_destroy(&f);
}

Test(serve, an_error_of_the_collector_ends_the_request, .timeout = 5)
{
    pleat_options_t options = default_options;
    options.limit_bytes = MIB(100);
    options.garbage_collection_threshold = 0.1;
    fixture_t f = create_with(0, &options);
    const pleat_devptr_t a = fixture_alloc(&f, MIB(60), 0);
    fixture_free(&f, a);
    fixture_state_t state = fixture_state(&f);
    fixture_fail_call(&f, PLEAT_VMM_CALL_MEM_FREE, 1, PLEAT_ERR_DRIVER);
    cr_expect(eq(int, fail_alloc(&f, MIB(20), 1), PLEAT_ERR_DRIVER));
    cr_expect(fixture_state_is(&f, &state));
    fixture_state_drop(&state);
    (void)fixture_alloc(&f, MIB(20), 1);
    fixture_check_and_destroy(&f);
}
