/*
 * Tests of allocator: the public calls as such: arguments, life, options, readers, observation,
 * and what is left when the host has no memory.
 */
#include "core/allocator.h"

#include "fixture.h"
#include "host_fault.h"

#include <stdio.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#define MIB(count) ((uint64_t)(count)*PLEAT_MIB)

static const pleat_options_t default_options = PLEAT_OPTIONS_INIT;

static void expect_error(const char *text)
{
    cr_expect(eq(str, (char *)pleat_last_error(), (char *)text));
}

/* ---- life ---- */

Test(allocator, creation_checks_its_arguments, .timeout = 5)
{
    fixture_t f = fixture_create(NULL);
    pleat_allocator_t *untouched = f.allocator;
    cr_expect(eq(int, pleat_allocator_create(NULL, NULL, &untouched), PLEAT_ERR_INVALID));
    expect_error("pleat_allocator_create: vmm is NULL");
    cr_expect(eq(int, pleat_allocator_create(NULL, f.vmm, NULL), PLEAT_ERR_INVALID));
    expect_error("pleat_allocator_create: allocator_out is NULL");
    pleat_options_t options = default_options;
    options.large_segment_bytes = MIB(10);
    cr_expect(eq(int, pleat_allocator_create(&options, f.vmm, &untouched), PLEAT_ERR_INVALID));
    expect_error("option large_segment_bytes is 10485760; allowed is 11534336 to 17592186044416");
    host_fault_after(1);
    cr_expect(eq(int, pleat_allocator_create(NULL, f.vmm, &untouched), PLEAT_ERR_OOM_HOST));
    host_fault_after(0);
    cr_expect(eq(ptr, untouched, f.allocator));
    fixture_check_and_destroy(&f);
}

Test(allocator, starts_with_all_counters_at_zero, .timeout = 5)
{
    pleat_options_t options = default_options;
    options.max_split_bytes = MIB(64);
    fixture_t f = fixture_create(&(fixture_options_t){.options = &options});
    pleat_stats_t zero = PLEAT_STATS_INIT;
    zero.max_split_bytes = MIB(64);
    const pleat_stats_t stats = fixture_stats(&f);
    cr_expect(eq(ptr, (void *)fixture_stats_difference(&stats, &zero), NULL));
    pleat_oom_info_t info = PLEAT_OOM_INFO_INIT;
    pleat_read_last_oom(f.allocator, &info);
    cr_expect(eq(u64, info.requested_bytes, 0));
    cr_expect(eq(sz, info.size, sizeof(info)));
    fixture_check_and_destroy(&f);
}

Test(allocator, destruction_gives_everything_back, .timeout = 5)
{
    fixture_t f = fixture_create(NULL);
    const pleat_devptr_t a = fixture_alloc(&f, MIB(3), 0);
    const pleat_devptr_t b = fixture_alloc(&f, MIB(3), 0);
    const pleat_devptr_t c = fixture_alloc(&f, 512, 1);
    fixture_set_busy(&f, 7);
    fixture_record(&f, a, 7); /* live with a use */
    fixture_record(&f, b, 7); /* waiting */
    fixture_record(&f, b, 8);
    fixture_free(&f, b);
    fixture_free(&f, c); /* free */
    fixture_check_and_destroy(&f);
    pleat_allocator_destroy(NULL);
}

Test(allocator, destruction_goes_on_when_a_wait_fails, .timeout = 5)
{
    fixture_t f = fixture_create(NULL);
    const pleat_devptr_t a = fixture_alloc(&f, MIB(3), 0);
    fixture_set_busy(&f, 7);
    fixture_record(&f, a, 7);
    fixture_record(&f, a, 8);
    fixture_free(&f, a);
    fixture_fail_call(&f, PLEAT_VMM_CALL_EVENT_SYNCHRONIZE, 1, PLEAT_ERR_DRIVER);
    fixture_check_and_destroy(&f);
}

Test(allocator, two_allocators_live_side_by_side, .timeout = 5)
{
    fixture_t first = fixture_create(NULL);
    fixture_t second = fixture_create(NULL);
    const pleat_devptr_t a = fixture_alloc(&first, MIB(3), 0);
    cr_expect(eq(int, pleat_free(second.allocator, a), PLEAT_ERR_INVALID_POINTER));
    fixture_check_and_destroy(&second);
    fixture_free(&first, a);
    fixture_check_and_destroy(&first);
}

/* ---- arguments ---- */

Test(allocator, calls_name_a_missing_argument, .timeout = 5)
{
    fixture_t f = fixture_create(NULL);
    pleat_devptr_t ptr = 0;
    cr_expect(eq(int, pleat_alloc(NULL, 1, 0, &ptr), PLEAT_ERR_INVALID));
    expect_error("pleat_alloc: allocator is NULL");
    cr_expect(eq(int, pleat_alloc(f.allocator, 1, 0, NULL), PLEAT_ERR_INVALID));
    expect_error("pleat_alloc: ptr_out is NULL");
    cr_expect(eq(int, pleat_free(NULL, 512), PLEAT_ERR_INVALID));
    expect_error("pleat_free: allocator is NULL");
    cr_expect(eq(int, pleat_record_stream(NULL, 512, 0), PLEAT_ERR_INVALID));
    expect_error("pleat_record_stream: allocator is NULL");
    cr_expect(eq(int, pleat_empty_cache(NULL), PLEAT_ERR_INVALID));
    expect_error("pleat_empty_cache: allocator is NULL");
    cr_expect(eq(int, pleat_set_options(NULL, &default_options), PLEAT_ERR_INVALID));
    expect_error("pleat_set_options: allocator is NULL");
    cr_expect(eq(int, pleat_set_options(f.allocator, NULL), PLEAT_ERR_INVALID));
    expect_error("pleat_set_options: options is NULL");
    fixture_check_and_destroy(&f);
}

/* Calls without a status have nothing to say it with: they do nothing. */
Test(allocator, readers_and_resets_ignore_missing_arguments, .timeout = 5)
{
    fixture_t f = fixture_create(NULL);
    pleat_options_t options = PLEAT_OPTIONS_INIT;
    pleat_stats_t stats = PLEAT_STATS_INIT;
    pleat_oom_info_t info = PLEAT_OOM_INFO_INIT;
    options.limit_bytes = 4711;
    stats.num_ooms = 4711;
    info.stream = 4711;
    pleat_read_options(NULL, &options);
    pleat_read_options(f.allocator, NULL);
    pleat_read_stats(NULL, &stats);
    pleat_read_stats(f.allocator, NULL);
    pleat_read_last_oom(NULL, &info);
    pleat_read_last_oom(f.allocator, NULL);
    pleat_reset_peak_stats(NULL);
    pleat_reset_accumulated_stats(NULL);
    pleat_set_observer(NULL, NULL, NULL);
    options.size = stats.size = info.size = 0; /* never set: nothing is known of the struct */
    pleat_read_options(f.allocator, &options);
    pleat_read_stats(f.allocator, &stats);
    pleat_read_last_oom(f.allocator, &info);
    cr_expect(eq(u64, options.limit_bytes, 4711));
    cr_expect(eq(i64, stats.num_ooms, 4711));
    cr_expect(eq(u64, info.stream, 4711));
    fixture_check_and_destroy(&f);
}

/* ---- options and readers ---- */

Test(allocator, options_hold_from_the_next_call_on, .timeout = 5)
{
    fixture_t f = fixture_create(NULL);
    pleat_options_t options = default_options;
    options.large_segment_bytes = MIB(32);
    options.roundup_power2_divisions[0] = 2;
    fixture_set_options(&f, &options);
    (void)fixture_alloc(&f, MIB(2), 0);
    cr_expect(eq(i64, fixture_stats(&f).reserved_bytes[PLEAT_STAT_ALL].current, MIB(32)));
    (void)fixture_alloc(&f, 1025, 0);
    cr_expect(eq(i64, fixture_stats(&f).allocated_bytes[PLEAT_STAT_SMALL_POOL].current, 1536));

    pleat_options_t read = PLEAT_OPTIONS_INIT;
    pleat_read_options(f.allocator, &read);
    cr_expect(eq(int, memcmp(&read, &options, sizeof(read)), 0));
    options.max_split_bytes = 0;
    cr_expect(eq(int, pleat_set_options(f.allocator, &options), PLEAT_ERR_INVALID));
    pleat_read_options(f.allocator, &read);
    cr_expect(eq(u64, read.max_split_bytes, PLEAT_UNLIMITED), "a refused table changes nothing");
    fixture_check_and_destroy(&f);
}

Test(allocator, a_lower_limit_frees_nothing, .timeout = 5)
{
    fixture_t f = fixture_create(NULL);
    const pleat_devptr_t a = fixture_alloc(&f, MIB(50), 0);
    fixture_free(&f, a);
    fixture_set_limit(&f, MIB(10));
    cr_expect(eq(i64, fixture_stats(&f).reserved_bytes[PLEAT_STAT_ALL].current, MIB(50)));
    cr_expect(eq(u64, fixture_alloc(&f, MIB(40), 0), a));
    fixture_check_and_destroy(&f);
}

Test(allocator, readers_write_as_far_as_the_struct_goes, .timeout = 5)
{
    fixture_t f = fixture_create(NULL);
    (void)fixture_alloc(&f, 512, 0);
    pleat_stats_t stats = {.size = offsetof(pleat_stats_t, segment)};
    pleat_read_stats(f.allocator, &stats);
    cr_expect(eq(i64, stats.allocation[PLEAT_STAT_ALL].current, 1));
    cr_expect(eq(i64, stats.segment[PLEAT_STAT_ALL].current, 0));
    cr_expect(eq(sz, stats.size, offsetof(pleat_stats_t, segment)));

    fixture_set_limit(&f, 0);
    pleat_devptr_t ptr = 0;
    cr_expect(eq(int, pleat_alloc(f.allocator, MIB(4), 3, &ptr), PLEAT_ERR_OOM_DEVICE));
    pleat_oom_info_t info = {.size = offsetof(pleat_oom_info_t, attempted_bytes)};
    pleat_read_last_oom(f.allocator, &info);
    cr_expect(eq(u64, info.requested_bytes, MIB(4)));
    cr_expect(eq(u64, info.attempted_bytes, 0));
    cr_expect(eq(sz, info.size, offsetof(pleat_oom_info_t, attempted_bytes)));
    cr_expect(eq(i64, pleat_allocator_stats(f.allocator)->num_ooms, 1), "the counters in place");
    fixture_check_and_destroy(&f);
}

Test(allocator, resets_of_counters, .timeout = 5)
{
    fixture_t f = fixture_create(NULL);
    const pleat_devptr_t a = fixture_alloc(&f, MIB(4), 0);
    (void)fixture_alloc(&f, MIB(4), 0);
    fixture_free(&f, a);
    fixture_empty(&f);
    pleat_reset_peak_stats(f.allocator);
    pleat_stats_t stats = fixture_stats(&f);
    cr_expect(eq(i64, stats.allocated_bytes[PLEAT_STAT_ALL].peak, MIB(4)));
    cr_expect(eq(i64, stats.allocated_bytes[PLEAT_STAT_ALL].allocated, MIB(8)));
    pleat_reset_accumulated_stats(f.allocator);
    stats = fixture_stats(&f);
    cr_expect(eq(i64, stats.allocated_bytes[PLEAT_STAT_ALL].current, MIB(4)));
    cr_expect(eq(i64, stats.allocated_bytes[PLEAT_STAT_ALL].allocated, 0));
    cr_expect(eq(i64, stats.num_sync_all_streams, 0));
    cr_expect(eq(i64, stats.num_device_alloc, 0));
    cr_expect(eq(i64, stats.max_split_bytes, -1));
    fixture_check_and_destroy(&f);
}

/* ---- observation ---- */

typedef struct log {
    char text[512];
} log_t;

static void log_action(void *context, const pleat_trace_entry_t *entry)
{
    log_t *log = context;
    cr_expect(eq(sz, entry->size, sizeof(*entry)));
    const size_t used = strlen(log->text);
    (void)snprintf(log->text + used, sizeof(log->text) - used, "%s(%llu,%llu) ",
                   pleat_action_name(entry->action), (unsigned long long)entry->bytes,
                   (unsigned long long)entry->stream);
}

Test(allocator, observer_sees_every_action, .timeout = 5)
{
    log_t log = {{0}};
    fixture_t f = fixture_create(NULL);
    pleat_set_observer(f.allocator, log_action, &log);
    const pleat_devptr_t a = fixture_alloc(&f, 700, 4);
    fixture_record(&f, a, 5);
    fixture_free(&f, a);
    fixture_empty(&f);
    fixture_set_limit(&f, 0);
    pleat_devptr_t none = 0;
    cr_expect(eq(int, pleat_alloc(f.allocator, 513, 6, &none), PLEAT_ERR_OOM_DEVICE));
    pleat_set_observer(f.allocator, NULL, NULL);
    fixture_set_limit(&f, PLEAT_NO_LIMIT);
    (void)fixture_alloc(&f, 512, 0);
    cr_expect(eq(str, log.text,
                 (char *)"segment_alloc(2097152,4) alloc(700,4) free_requested(700,4) "
                         "free_completed(700,4) segment_free(2097152,4) oom(1024,6) "));
    fixture_check_and_destroy(&f);
}

Test(allocator, every_action_has_a_name, .timeout = 5)
{
    for (int action = 0; action < (int)PLEAT_ACTION_COUNT; action++) {
        cr_expect(ne(str, (char *)pleat_action_name((pleat_action_t)action), (char *)"unknown"));
    }
    cr_expect(eq(str, (char *)pleat_action_name(PLEAT_ACTION_COUNT), (char *)"unknown"));
    cr_expect(eq(str, (char *)pleat_action_name((pleat_action_t)-1), (char *)"unknown"));
}

static void log_waiting(void *context, pleat_stream_t stream, pleat_devptr_t address, bool is_ready)
{
    log_t *log = context;
    const size_t used = strlen(log->text);
    (void)snprintf(log->text + used, sizeof(log->text) - used, "%llu:%u%s ",
                   (unsigned long long)stream, (unsigned)(address % MIB(2) / 512),
                   is_ready ? "" : "!");
}

Test(allocator, waiting_frees_can_be_visited, .timeout = 5)
{
    log_t log = {{0}};
    fixture_t f = fixture_create(NULL);
    pleat_devptr_t ptr[3];
    for (unsigned i = 0; i < 3; i++) {
        ptr[i] = fixture_alloc(&f, 512, 0);
    }
    fixture_set_busy(&f, 2);
    fixture_record(&f, ptr[2], 2);
    fixture_record(&f, ptr[2], 1);
    fixture_record(&f, ptr[1], 1);
    fixture_free(&f, ptr[2]);
    fixture_free(&f, ptr[1]);
    pleat_allocator_visit_waiting(f.allocator, log_waiting, &log);
    cr_expect(eq(str, log.text, (char *)"1:2 1:1 2:2! "));
    fixture_check_and_destroy(&f);
}

Test(allocator, the_order_of_streams_decides_completions, .timeout = 5)
{
    for (unsigned reversed = 0; reversed < 2; reversed++) {
        log_t log = {{0}};
        fixture_t f = fixture_create(NULL);
        const pleat_devptr_t a = fixture_alloc(&f, 511, 0);
        const pleat_devptr_t b = fixture_alloc(&f, 512, 0);
        if (reversed == 1) {
            cr_assert(
                eq(int,
                   pleat_allocator_set_stream_order(f.allocator, (const pleat_stream_t[]){2, 1}, 2),
                   PLEAT_OK));
        }
        fixture_record(&f, a, 1);
        fixture_record(&f, b, 2);
        fixture_free(&f, a);
        fixture_free(&f, b);
        pleat_set_observer(f.allocator, log_action, &log);
        (void)fixture_alloc(&f, 512, 0);
        cr_expect(eq(str, log.text,
                     reversed == 1 ? (char *)"free_completed(512,0) free_completed(511,0) "
                                             "alloc(512,0) "
                                   : (char *)"free_completed(511,0) free_completed(512,0) "
                                             "alloc(512,0) "));
        host_fault_after(1);
        cr_expect(eq(int,
                     pleat_allocator_set_stream_order(f.allocator, (const pleat_stream_t[]){3}, 1),
                     PLEAT_ERR_OOM_HOST));
        host_fault_after(0);
        fixture_check_and_destroy(&f);
    }
}

/* ---- host memory ---- */

/* Try a call with the 1st, 2nd, ... host allocation failing until it succeeds. */
#define EXPECT_SOUND_WITHOUT_HOST_MEMORY(f, min_failures, call)                 \
    do {                                                                        \
        unsigned failures = 0;                                                  \
        pleat_status_t status = PLEAT_ERR_OOM_HOST;                             \
        while (status != PLEAT_OK) {                                            \
            fixture_state_t state = fixture_state(f);                           \
            host_fault_after(failures + 1);                                     \
            status = (call);                                                    \
            host_fault_after(0);                                                \
            if (status != PLEAT_OK) {                                           \
                cr_expect(eq(int, status, PLEAT_ERR_OOM_HOST));                 \
                cr_expect(fixture_state_is(f, &state), "failure %u", failures); \
                failures++;                                                     \
            }                                                                   \
            fixture_state_drop(&state);                                         \
            fixture_check(f);                                                   \
        }                                                                       \
        cr_expect(failures >= (min_failures), "%u failures", failures);         \
    } while (0)

Test(allocator, a_first_request_needs_host_memory_before_anything, .timeout = 5)
{
    fixture_t f = fixture_create(NULL);
    pleat_devptr_t ptr = 0;
    /* slab of blocks, address map, bins of the stream, array of streams */
    EXPECT_SOUND_WITHOUT_HOST_MEMORY(&f, 1, pleat_alloc(f.allocator, 700, 0, &ptr));
    cr_expect(ne(ptr, strstr(pleat_last_error(), "no host memory"), NULL), "%s",
              pleat_last_error());
    EXPECT_SOUND_WITHOUT_HOST_MEMORY(&f, 1, pleat_record_stream(f.allocator, ptr, 1));
    const uint64_t allocations = host_fault_allocations();
    fixture_free(&f, ptr);
    cr_expect(eq(u64, host_fault_allocations(), allocations), "a free needs no host memory");
    fixture_check_and_destroy(&f);
}

/* Each failure is tried on a fresh allocator, so that every allocation of a first request fails. */
Test(allocator, every_host_allocation_of_a_first_request, .timeout = 5)
{
    unsigned failures = 0;
    pleat_status_t status = PLEAT_ERR_OOM_HOST;
    while (status != PLEAT_OK) {
        fixture_t f = fixture_create(NULL);
        pleat_devptr_t ptr = 4711;
        fixture_state_t state = fixture_state(&f);
        host_fault_after(failures + 1);
        status = pleat_alloc(f.allocator, 700, 0, &ptr);
        host_fault_after(0);
        if (status != PLEAT_OK) {
            failures++;
            cr_expect(eq(int, status, PLEAT_ERR_OOM_HOST));
            cr_expect(eq(u64, ptr, 4711));
            cr_expect(fixture_state_is(&f, &state));
        }
        fixture_state_drop(&state);
        fixture_check_and_destroy(&f);
    }
    cr_expect(failures >= 4, "%u", failures);
}

Test(allocator, growth_needs_host_memory_before_anything, .timeout = 20)
{
    enum { COUNT = 3000 };
    fixture_t f = fixture_create(NULL);
    static pleat_devptr_t ptr[COUNT];
    unsigned failures = 0;
    for (unsigned i = 0; i < COUNT; i++) {
        host_fault_after(1);
        pleat_status_t status = pleat_alloc(f.allocator, 512, 0, &ptr[i]);
        host_fault_after(0);
        if (status != PLEAT_OK) {
            cr_assert(eq(int, status, PLEAT_ERR_OOM_HOST));
            failures++;
            fixture_check(&f);
            ptr[i] = fixture_alloc(&f, 512, 0);
        }
    }
    cr_expect(failures >= COUNT / PLEAT_BLOCKS_PER_SLAB, "%u", failures);
    for (unsigned i = 0; i < COUNT; i++) {
        fixture_free(&f, ptr[i]);
    }
    fixture_check_and_destroy(&f);
}
