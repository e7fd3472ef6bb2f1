/*
 * Tests of experiments/lib/trace_check: right traces give no difference, wrong ones do, and
 * whatever the engine itself records is accepted.
 */
#include "trace_check.h"

#include "host_fault.h"
#include "trace_fixture.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <pleat/sim.h>
#include <stdlib.h>

#define MIB (UINT64_C(1) << 20)
#define DIFFERENCES 4

static pleat_trace_difference_t differences[DIFFERENCES];

static pleat_trace_check_t check_trace(const pleat_trace_t *trace,
                                       const pleat_trace_check_options_t *options)
{
    pleat_program_t *program = trace_fixture_program(trace, &options->allocator);
    pleat_trace_check_t check = {.differences = differences, .difference_capacity = DIFFERENCES};
    cr_assert(pleat_trace_check_run(trace, program, options, &check) == PLEAT_OK, "%s",
              pleat_last_error());
    pleat_program_destroy(program);
    return check;
}

/* Check a text under a limit; 0: none. */
static pleat_trace_check_t check_text(const char *text, uint64_t limit_bytes)
{
    pleat_trace_check_options_t options = PLEAT_TRACE_CHECK_OPTIONS_INIT;
    if (limit_bytes > 0) {
        options.allocator.limit_bytes = limit_bytes;
    }
    pleat_trace_t *trace = trace_fixture_load(text);
    const pleat_trace_check_t check = check_trace(trace, &options);
    pleat_trace_destroy(trace);
    return check;
}

static void expect_same(const char *text, uint64_t limit_bytes)
{
    const pleat_trace_check_t check = check_text(text, limit_bytes);
    cr_expect(eq(u64, check.difference_count, 0), "event %llu: expected %s, got %s",
              (unsigned long long)differences[0].event, differences[0].expected,
              differences[0].got);
    cr_expect(check.unchecked[0] == '\0', "%s", check.unchecked);
}

/* The first difference of a wrong trace. */
static void expect_difference(const char *text, uint64_t event, const char *expected,
                              const char *got)
{
    const pleat_trace_check_t check = check_text(text, 0);
    cr_assert(lt(u64, 0, check.difference_count));
    cr_expect(eq(u64, differences[0].event, event));
    cr_expect(strstr(differences[0].expected, expected) != NULL, "expected is %s",
              differences[0].expected);
    cr_expect(strstr(differences[0].got, got) != NULL, "got is %s", differences[0].got);
}

Test(trace_check, accepts_a_right_trace_and_counts_what_it_compared, .timeout = 5)
{
    const pleat_trace_check_t check = check_text("segment_alloc 200000 2097152 0 0\n"
                                                 "alloc 200000 600 0 0\n"
                                                 "alloc 200400 512 0 0\n"
                                                 "free_requested 200000 600 0 1\n"
                                                 "free_completed 200000 600 0 1\n"
                                                 "snapshot 0 0 0 1\n"
                                                 "alloc 200000 1024 0 2\n",
                                                 0);
    cr_expect(eq(u64, check.difference_count, 0));
    cr_expect(eq(u64, check.event_count, 6));
    cr_expect(eq(u64, check.address_count, 6));
    cr_expect(eq(u64, check.call_count, 4));
    cr_expect(eq(u64, check.rules[PLEAT_TRACE_RULE_SMALL_REQUEST], 3));
    cr_expect(eq(u64, check.rules[PLEAT_TRACE_RULE_SMALL_SEGMENT], 1));
    cr_expect(eq(u64, check.rules[PLEAT_TRACE_RULE_LARGE_REQUEST], 0));
    cr_expect(eq(i64, check.stats.reserved_bytes[PLEAT_STAT_ALL].peak, 2097152));
}

Test(trace_check, reports_a_wrong_address, .timeout = 5)
{
    expect_difference("segment_alloc 200000 2097152 0 0\n"
                      "alloc 200000 512 0 0\n"
                      "alloc 200400 512 0 0\n",
                      2, "alloc 200400 512 0", "alloc 200200 512 0");
}

Test(trace_check, reports_a_segment_of_a_wrong_size, .timeout = 5)
{
    expect_difference("segment_alloc 200000 4194304 0 0\n"
                      "alloc 200000 512 0 0\n",
                      0, "segment_alloc 200000 4194304 0", "oom");
}

Test(trace_check, reports_a_segment_that_was_not_needed, .timeout = 5)
{
    expect_difference("segment_alloc 200000 2097152 0 0\n"
                      "alloc 200000 512 0 0\n"
                      "segment_alloc 400000 2097152 0 0\n"
                      "alloc 400000 512 0 0\n",
                      2, "segment_alloc 400000", "alloc 200200 512 0");
}

Test(trace_check, reports_segments_freed_in_another_order, .timeout = 5)
{
    static const char *const head = "segment_alloc 2000000 12582912 0 0\n"
                                    "alloc 2000000 12582912 0 0\n"
                                    "segment_alloc 4000000 16777216 0 0\n"
                                    "alloc 4000000 16777216 0 0\n"
                                    "free_requested 4000000 16777216 0 1\n"
                                    "free_completed 4000000 16777216 0 1\n"
                                    "free_requested 2000000 12582912 0 1\n"
                                    "free_completed 2000000 12582912 0 1\n";
    char text[1024];
    (void)snprintf(text, sizeof(text), "%s%s", head,
                   "segment_free 2000000 12582912 0 2\nsegment_free 4000000 16777216 0 2\n");
    expect_same(text, 0);
    (void)snprintf(text, sizeof(text), "%s%s", head,
                   "segment_free 4000000 16777216 0 2\nsegment_free 2000000 12582912 0 2\n");
    expect_difference(text, 8, "segment_free 4000000", "segment_free 2000000");
}

Test(trace_check, reports_events_without_a_call_and_calls_without_events, .timeout = 5)
{
    expect_difference("segment_alloc 200000 2097152 0 0\n"
                      "alloc 200000 512 0 0\n"
                      "free_requested 200200 512 0 0\n"
                      "free_completed 200200 512 0 0\n",
                      2, "free_requested 200200", "not live");
    /* An empty_cache that left a segment without blocks in use. */
    expect_difference("segment_alloc 2000000 12582912 0 0\n"
                      "alloc 2000000 12582912 0 0\n"
                      "segment_alloc 4000000 16777216 0 0\n"
                      "alloc 4000000 16777216 0 0\n"
                      "free_requested 4000000 16777216 0 1\n"
                      "free_completed 4000000 16777216 0 1\n"
                      "free_requested 2000000 12582912 0 1\n"
                      "free_completed 2000000 12582912 0 1\n"
                      "segment_free 2000000 12582912 0 2\n",
                      8, "nothing", "segment_free 4000000");
}

Test(trace_check, counts_differences_that_find_no_room, .timeout = 5)
{
    char text[4096];
    size_t used = (size_t)snprintf(text, sizeof(text),
                                   "segment_alloc 200000 2097152 0 0\n"
                                   "alloc 200000 512 0 0\n");
    for (int i = 0; i < 20; i++) {
        used += (size_t)snprintf(text + used, sizeof(text) - used, "alloc %x 512 0 0\n",
                                 0x280000 + i * 512);
    }
    const pleat_trace_check_t check = check_text(text, 0);
    cr_expect(eq(u64, check.difference_count, 20));
    cr_expect(eq(u64, differences[DIFFERENCES - 1].event, 5));
}

Test(trace_check, lets_waiting_frees_end_where_the_trace_ends_them, .timeout = 5)
{
    expect_same("segment_alloc 200000 2097152 0 0\n"
                "alloc 200000 512 0 0\n"
                "alloc 200200 512 0 0\n"
                "alloc 200400 512 0 0\n"
                "free_requested 200000 512 0 1\n"
                "free_requested 200200 512 0 1\n"
                "alloc 200600 512 0 1\n"
                "free_completed 200200 512 0 2\n" /* the later free ends first */
                "alloc 200200 512 0 2\n"
                "free_completed 200000 512 0 3\n"
                "alloc 200000 100 0 3\n",
                0);
    expect_same("segment_alloc 200000 2097152 0 0\n"
                "alloc 200000 512 0 0\n"
                "alloc 200200 512 0 0\n"
                "free_requested 200000 512 0 1\n"
                "free_requested 200200 512 0 1\n"
                "free_completed 200200 512 0 2\n" /* both in one call, the later free first */
                "free_completed 200000 512 0 3\n"
                "alloc 200000 1024 0 2\n",
                0);
}

Test(trace_check, lets_an_empty_cache_end_waits_in_the_recorded_order, .timeout = 5)
{
    expect_same("segment_alloc 200000 2097152 0 0\n"
                "alloc 200000 512 0 0\n"
                "alloc 200200 512 0 0\n"
                "free_requested 200000 512 0 1\n"
                "free_requested 200200 512 0 1\n"
                "free_completed 200200 512 0 2\n"
                "free_completed 200000 512 0 3\n"
                "segment_free 200000 2097152 0 3\n",
                0);
}

Test(trace_check, performs_a_retry_that_waits_for_the_block_in_its_way, .timeout = 5)
{
    const pleat_trace_check_t check = check_text("segment_alloc 200000 2097152 0 0\n"
                                                 "alloc 200000 512 0 0\n"
                                                 "segment_alloc 4000000 16777216 0 0\n"
                                                 "alloc 4000000 16777216 0 0\n"
                                                 "free_requested 4000000 16777216 0 1\n"
                                                 "alloc 200200 512 0 0\n"
                                                 "free_completed 4000000 16777216 0 2\n"
                                                 "segment_free 4000000 16777216 0 2\n"
                                                 "segment_alloc 8000000 12582912 0 3\n"
                                                 "alloc 8000000 12582912 0 3\n",
                                                 20 * MIB);
    cr_expect(eq(u64, check.difference_count, 0), "%s / %s", differences[0].expected,
              differences[0].got);
    cr_expect(eq(i64, check.stats.num_alloc_retries, 1));
    cr_expect(eq(u64, check.rules[PLEAT_TRACE_RULE_LIMIT], 1));
    cr_expect(eq(u64, check.rules[PLEAT_TRACE_RULE_WAITING_FREE], 1));
}

Test(trace_check, reads_a_run_anew_when_the_engine_shows_that_it_was_read_wrongly, .timeout = 5)
{
    /* The free at 3400000 waits, and it is the flush that completes it: had it been complete, its
     * block would have served the request. */
    static const char *const text = "segment_alloc 2000000 41943040 0 0\n"
                                    "alloc 2000000 41943040 0 0\n"
                                    "free_requested 2000000 41943040 0 1\n"
                                    "free_completed 2000000 41943040 0 1\n"
                                    "alloc 2000000 20971520 0 1\n"
                                    "alloc 3400000 20971520 0 1\n"
                                    "segment_alloc 8000000 12582912 0 2\n"
                                    "alloc 8000000 12582912 0 2\n"
                                    "free_requested 8000000 12582912 0 3\n"
                                    "free_completed 8000000 12582912 0 3\n"
                                    "free_requested 3400000 20971520 0 4\n"
                                    "free_completed 3400000 20971520 0 4\n"
                                    "segment_free 8000000 12582912 0 4\n"
                                    "segment_alloc a000000 14680064 0 5\n"
                                    "alloc a000000 14680064 0 5\n";
    const pleat_trace_check_t check = check_text(text, 65 * MIB);
    cr_expect(eq(u64, check.difference_count, 0), "%s / %s", differences[0].expected,
              differences[0].got);
    cr_expect(eq(u64, check.reread_count, 1));
    cr_expect(eq(u64, check.rules[PLEAT_TRACE_RULE_WAITING_FREE], 1));
    cr_expect(eq(i64, check.stats.num_alloc_retries, 1));
}

Test(trace_check, uses_an_order_of_streams_that_fits, .timeout = 5)
{
    expect_same("segment_alloc 200000 2097152 0 0\n"
                "alloc 200000 512 0 1\n"
                "segment_alloc 400000 2097152 1 0\n"
                "alloc 400000 512 1 1\n"
                "free_requested 200000 512 0 1\n"
                "free_completed 200000 512 0 1\n"
                "free_requested 400000 512 1 1\n"
                "free_completed 400000 512 1 1\n"
                "segment_free 400000 2097152 1 2\n"
                "segment_free 200000 2097152 0 2\n",
                0);
}

Test(trace_check, performs_requests_that_fail, .timeout = 5)
{
    static const char *const text = "segment_alloc 2000000 12582912 0 0\n"
                                    "alloc 2000000 12582912 0 0\n"
                                    "free_requested 2000000 12582912 0 1\n"
                                    "free_completed 2000000 12582912 0 1\n"
                                    "segment_free 2000000 12582912 0 2\n"
                                    "oom 12345 41943040 0 2\n";
    const pleat_trace_check_t check = check_text(text, 20 * MIB);
    cr_expect(eq(u64, check.difference_count, 0), "%s / %s", differences[0].expected,
              differences[0].got);
    cr_expect(eq(u64, check.rules[PLEAT_TRACE_RULE_OUT_OF_MEMORY], 1));
}

Test(trace_check, reports_a_failed_request_that_succeeds, .timeout = 5)
{
    const pleat_trace_check_t check = check_text("segment_alloc 200000 2097152 0 0\n"
                                                 "alloc 200000 512 0 0\n"
                                                 "oom 12345 1024 0 2\n",
                                                 0);
    cr_expect(ge(u64, check.difference_count, 1));
    cr_expect(eq(u64, differences[0].event, 2));
}

Test(trace_check, names_the_rules_at_their_limits, .timeout = 5)
{
    const pleat_trace_check_t check = check_text("segment_alloc 2000000 10485760 0 0\n"
                                                 "alloc 2000000 10485760 0 0\n"
                                                 "segment_alloc 4000000 20971520 0 0\n"
                                                 "alloc 4000000 8388608 0 0\n"
                                                 "alloc 4800000 11534336 0 0\n",
                                                 0);
    cr_expect(eq(u64, check.difference_count, 0), "%s / %s", differences[0].expected,
              differences[0].got);
    cr_expect(eq(u64, check.rules[PLEAT_TRACE_RULE_EXACT_SEGMENT_LIMIT], 1));
    cr_expect(eq(u64, check.rules[PLEAT_TRACE_RULE_LARGE_SEGMENT], 1));
    cr_expect(eq(u64, check.rules[PLEAT_TRACE_RULE_LARGE_REST_LIMIT], 1));
    cr_expect(eq(u64, check.rules[PLEAT_TRACE_RULE_LARGE_REST_SPLIT], 1));
    cr_expect(not(pleat_trace_rule_is_visible(PLEAT_TRACE_RULE_LARGE_REST_LIMIT)));
    cr_expect(pleat_trace_rule_is_visible(PLEAT_TRACE_RULE_RETRY));
    cr_expect(not(pleat_trace_rule_is_visible(PLEAT_TRACE_RULE_COUNT)));
    cr_expect(strlen(pleat_trace_rule_text(PLEAT_TRACE_RULE_RETRY)) > 0);
    cr_expect(strcmp(pleat_trace_rule_text(PLEAT_TRACE_RULE_COUNT), "unknown rule") == 0);
}

Test(trace_check, says_why_a_trace_cannot_be_compared, .timeout = 5)
{
    const pleat_trace_check_t check = check_text("segment_alloc 200000 2097152 0 0\n"
                                                 "alloc 900000 512 0 0\n",
                                                 0);
    cr_expect(strstr(check.unchecked, "event 2: ") != NULL, "%s", check.unchecked);
    cr_expect(strstr(check.unchecked, "begins in the middle") != NULL, "%s", check.unchecked);
    cr_expect(eq(u64, check.call_count, 0));
}

Test(trace_check, survives_events_that_no_device_has, .timeout = 5)
{
    const pleat_trace_check_t check = check_text("segment_alloc 200000 2097152 0 0\n"
                                                 "alloc 200000 512 0 0\n"
                                                 "segment_alloc 8000000 4611686018427387904 0 3\n"
                                                 "alloc 8000000 4611686018427387904 0 3\n"
                                                 "alloc 8000200 0 0 3\n",
                                                 0);
    cr_expect(ge(u64, check.difference_count, 3));
}

Test(trace_check, reports_a_segment_at_address_0, .timeout = 5)
{
    const pleat_trace_check_t check = check_text("segment_alloc 0 2097152 0 0\n"
                                                 "alloc 200 512 0 0\n",
                                                 0);
    cr_expect(ge(u64, check.difference_count, 2));
    cr_expect(strstr(differences[0].got, "address is 0") != NULL, "%s", differences[0].got);
}

static void count_calls(void *context, uint64_t done, uint64_t all)
{
    uint64_t *count = context;
    cr_assert(le(u64, done, all));
    (*count)++;
}

Test(trace_check, tells_its_progress, .timeout = 5)
{
    uint64_t count = 0;
    pleat_trace_check_options_t options = PLEAT_TRACE_CHECK_OPTIONS_INIT;
    options.progress = count_calls;
    options.progress_context = &count;
    pleat_trace_t *trace = trace_fixture_load("segment_alloc 200000 2097152 0 0\n"
                                              "alloc 200000 512 0 0\n");
    (void)check_trace(trace, &options);
    cr_expect(lt(u64, 0, count));
    pleat_trace_destroy(trace);
}

Test(trace_check, refuses_options_out_of_range, .timeout = 5)
{
    pleat_trace_check_options_t options = PLEAT_TRACE_CHECK_OPTIONS_INIT;
    options.allocator.garbage_collection_threshold = 7.0;
    pleat_program_t *program = trace_fixture_read("segment_alloc 200000 2097152 0 0\n"
                                                  "alloc 200000 512 0 0\n");
    const pleat_trace_t trace = {.event_count = 2};
    pleat_trace_check_t check = {.differences = NULL};
    cr_expect(eq(int, pleat_trace_check_run(&trace, program, &options, &check), PLEAT_ERR_INVALID));
    pleat_program_destroy(program);
}

/* ---- what the engine records, it accepts ---- */

enum { RECORDED_SLOTS = 60, RECORDED_STREAMS = 3, RECORDED_STEPS = 3000 };

typedef struct recorder {
    pleat_trace_t trace;
    pleat_trace_event_t *events; /* = trace.events */
    uint64_t capacity;
    uint64_t state;
} recorder_t;

static void recorder_observe(void *context, const pleat_trace_entry_t *entry)
{
    recorder_t *recorder = context;
    cr_assert(lt(u64, recorder->trace.event_count, recorder->capacity));
    recorder->events[recorder->trace.event_count++] =
        (pleat_trace_event_t){.address = entry->address,
                              .bytes = entry->bytes,
                              .stream = entry->stream,
                              .time_us = recorder->trace.event_count,
                              .action = entry->action};
}

static uint64_t recorder_random(recorder_t *recorder, uint64_t below)
{
    recorder->state = recorder->state * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (recorder->state >> 33) % below;
}

static uint64_t recorder_bytes(recorder_t *recorder)
{
    static const uint64_t scales[] = {2048, MIB, 3 * MIB, 12 * MIB, 40 * MIB};
    return 1 + recorder_random(recorder, scales[recorder_random(recorder, 5)]);
}

/* A random program on a simulated device, recorded; the trace's events are freed by the caller. */
static recorder_t record_session(const pleat_options_t *options, uint64_t seed, bool has_waits)
{
    recorder_t recorder = {.capacity = 100000, .state = seed};
    recorder.events = calloc(recorder.capacity, sizeof(*recorder.events));
    recorder.trace.events = recorder.events;
    pleat_vmm_t *vmm = NULL;
    pleat_allocator_t *allocator = NULL;
    cr_assert(eq(int, pleat_sim_create(NULL, &vmm), PLEAT_OK));
    cr_assert(eq(int, pleat_allocator_create(options, vmm, &allocator), PLEAT_OK));
    pleat_set_observer(allocator, recorder_observe, &recorder);
    pleat_devptr_t live[RECORDED_SLOTS] = {0};
    for (int step = 0; step < RECORDED_STEPS; step++) {
        pleat_devptr_t *slot = &live[recorder_random(&recorder, RECORDED_SLOTS)];
        const pleat_stream_t stream = recorder_random(&recorder, RECORDED_STREAMS);
        if (recorder_random(&recorder, 400) == 0) {
            cr_assert(eq(int, pleat_empty_cache(allocator), PLEAT_OK));
        }
        if (*slot != 0) {
            if (has_waits && recorder_random(&recorder, 3) == 0) {
                cr_assert(eq(int, pleat_sim_set_busy(vmm, stream), PLEAT_OK));
                cr_assert(eq(int, pleat_record_stream(allocator, *slot, stream), PLEAT_OK));
            }
            cr_assert(eq(int, pleat_free(allocator, *slot), PLEAT_OK));
            *slot = 0;
        } else {
            const pleat_status_t status =
                pleat_alloc(allocator, recorder_bytes(&recorder), stream, slot);
            cr_assert(status == PLEAT_OK || status == PLEAT_ERR_OOM_DEVICE);
        }
        if (has_waits && recorder_random(&recorder, 5) == 0) {
            cr_assert(eq(int, pleat_sim_set_done(vmm, stream), PLEAT_OK));
        }
    }
    pleat_set_observer(allocator, NULL, NULL);
    pleat_allocator_destroy(allocator);
    pleat_vmm_destroy(vmm);
    return recorder;
}

static void expect_recording_accepted(const pleat_options_t *options, bool has_waits)
{
    for (uint64_t seed = 1; seed <= 4; seed++) {
        recorder_t recorder = record_session(options, seed, has_waits);
        pleat_trace_check_options_t check_options = {.allocator = *options};
        const pleat_trace_check_t check = check_trace(&recorder.trace, &check_options);
        cr_expect(eq(u64, check.difference_count, 0), "seed %llu: event %llu: %s / %s",
                  (unsigned long long)seed, (unsigned long long)differences[0].event,
                  differences[0].expected, differences[0].got);
        cr_expect(check.unchecked[0] == '\0', "%s", check.unchecked);
        cr_expect(eq(u64, check.event_count, recorder.trace.event_count));
        free(recorder.events);
    }
}

Test(trace_check, accepts_what_the_engine_records, .timeout = 30)
{
    const pleat_options_t options = PLEAT_OPTIONS_INIT;
    expect_recording_accepted(&options, false);
    expect_recording_accepted(&options, true);
}

Test(trace_check, accepts_what_the_engine_records_under_a_limit, .timeout = 30)
{
    pleat_options_t options = PLEAT_OPTIONS_INIT;
    options.limit_bytes = 400 * MIB;
    expect_recording_accepted(&options, false);
    expect_recording_accepted(&options, true);
}

Test(trace_check, accepts_what_the_engine_records_with_all_knobs, .timeout = 30)
{
    pleat_options_t options = PLEAT_OPTIONS_INIT;
    options.limit_bytes = 500 * MIB;
    options.garbage_collection_threshold = 0.6;
    expect_recording_accepted(&options, false);
    expect_recording_accepted(&options, true);
    options.max_split_bytes = 24 * MIB;
    expect_recording_accepted(&options, false);
    expect_recording_accepted(&options, true);
    options.roundup_power2_divisions[0] = 4;
    options.roundup_power2_divisions[3] = 4;
    expect_recording_accepted(&options, false);
}

enum { EVENT_FIELDS = 4, SEGMENT_ADDRESS = 1 };

static void change_event(pleat_trace_event_t *event, int field)
{
    switch (field) {
    case 0:
        event->action = PLEAT_ACTION_SEGMENT_MAP;
        break;
    case 1:
        event->address += 512;
        break;
    case 2:
        event->bytes += 512;
        break;
    default:
        event->stream += 1;
        break;
    }
}

/* The change comes after the program was read: it must be the comparison that sees it. */
Test(trace_check, reports_every_changed_field_of_an_event, .timeout = 10)
{
    static const pleat_trace_event_t original[] = {
        {.action = PLEAT_ACTION_SEGMENT_ALLOC, .address = 0x200000, .bytes = 2 * MIB, .stream = 7},
        {.action = PLEAT_ACTION_ALLOC, .address = 0x200000, .bytes = 512, .stream = 7},
        {.action = PLEAT_ACTION_FREE_REQUESTED, .address = 0x200000, .bytes = 512, .stream = 7},
        {.action = PLEAT_ACTION_FREE_COMPLETED, .address = 0x200000, .bytes = 512, .stream = 7},
        {.action = PLEAT_ACTION_ALLOC, .address = 0x200000, .bytes = 1024, .stream = 7}};
    enum { COUNT = sizeof(original) / sizeof(original[0]) };
    const pleat_trace_check_options_t options = PLEAT_TRACE_CHECK_OPTIONS_INIT;
    for (int i = 0; i < COUNT * EVENT_FIELDS; i++) {
        pleat_trace_event_t events[COUNT];
        memcpy(events, original, sizeof(events));
        const pleat_trace_t trace = {.events = events, .event_count = COUNT};
        pleat_program_t *program = trace_fixture_program(&trace, &options.allocator);
        const int changed = i / EVENT_FIELDS;
        change_event(&events[changed], i % EVENT_FIELDS);
        pleat_trace_check_t check = {.differences = differences,
                                     .difference_capacity = DIFFERENCES};
        cr_assert(eq(int, pleat_trace_check_run(&trace, program, &options, &check), PLEAT_OK));
        cr_assert(lt(u64, 0, check.difference_count), "event %d, field %d", changed,
                  i % EVENT_FIELDS);
        /* The device gives segments where the recording says: the blocks are then elsewhere. */
        const int seen = i == SEGMENT_ADDRESS ? 1 : changed;
        cr_expect(eq(u64, differences[0].event, (uint64_t)seen), "event %d, field %d", changed,
                  i % EVENT_FIELDS);
        pleat_program_destroy(program);
    }
}

Test(trace_check, finds_every_changed_event, .timeout = 60)
{
    const pleat_options_t options = PLEAT_OPTIONS_INIT;
    recorder_t recorder = record_session(&options, 99, true);
    const pleat_trace_check_options_t check_options = PLEAT_TRACE_CHECK_OPTIONS_INIT;
    for (uint64_t i = 0; i < 40; i++) {
        pleat_trace_event_t *event =
            &recorder.events[recorder_random(&recorder, recorder.trace.event_count)];
        const pleat_trace_event_t original = *event;
        if (i % 2 == 0) {
            event->address += 512;
        } else {
            event->bytes += 4 * MIB;
        }
        const pleat_trace_check_t check = check_trace(&recorder.trace, &check_options);
        cr_expect(check.difference_count > 0 || check.unchecked[0] != '\0',
                  "change %llu of %s was not seen", (unsigned long long)i,
                  pleat_action_name(original.action));
        *event = original;
    }
    free(recorder.events);
}

Test(trace_check, fails_cleanly_without_host_memory, .timeout = 20)
{
    const pleat_trace_check_options_t options = PLEAT_TRACE_CHECK_OPTIONS_INIT;
    pleat_trace_t *trace = trace_fixture_load("segment_alloc 200000 2097152 0 0\n"
                                              "alloc 200000 512 0 0\n"
                                              "free_requested 200000 512 0 1\n"
                                              "snapshot 0 0 0 1\n"
                                              "free_completed 200000 512 0 3\n"
                                              "segment_free 200000 2097152 0 3\n");
    pleat_program_t *program = trace_fixture_program(trace, &options.allocator);
    pleat_status_t status = PLEAT_ERR_OOM_HOST;
    for (uint64_t nth = 1; status != PLEAT_OK; nth++) {
        cr_assert(lt(u64, nth, 200));
        pleat_trace_check_t check = {.differences = NULL};
        host_fault_after(nth);
        status = pleat_trace_check_run(trace, program, &options, &check);
        host_fault_after(0);
        cr_assert(status == PLEAT_OK || status == PLEAT_ERR_OOM_HOST);
        cr_expect(eq(u64, check.difference_count, 0));
    }
    pleat_program_destroy(program);
    pleat_trace_destroy(trace);
}

Test(trace_check, fails_cleanly_without_host_memory_while_reading_anew, .timeout = 20)
{
    /* No reading explains the last address. */
    pleat_trace_check_options_t options = PLEAT_TRACE_CHECK_OPTIONS_INIT;
    options.allocator.limit_bytes = 25 * MIB;
    pleat_trace_t *trace = trace_fixture_load("segment_alloc 4000000 12582912 0 0\n"
                                              "alloc 4000000 12582912 0 0\n"
                                              "free_requested 4000000 12582912 0 1\n"
                                              "free_completed 4000000 12582912 0 1\n"
                                              "segment_free 4000000 12582912 0 3\n"
                                              "segment_alloc 8000000 16777216 0 3\n"
                                              "alloc 8000200 16777216 0 3\n");
    pleat_program_t *program = trace_fixture_program(trace, &options.allocator);
    pleat_status_t status = PLEAT_ERR_OOM_HOST;
    for (uint64_t nth = 1; status != PLEAT_OK; nth++) {
        cr_assert(lt(u64, nth, 500));
        pleat_trace_check_t check = {.differences = NULL};
        host_fault_after(nth);
        status = pleat_trace_check_run(trace, program, &options, &check);
        host_fault_after(0);
        cr_assert(status == PLEAT_OK || status == PLEAT_ERR_OOM_HOST);
        cr_expect(status != PLEAT_OK || check.difference_count == 1);
        cr_expect(eq(u64, check.reread_count, 0));
    }
    pleat_program_destroy(program);
    pleat_trace_destroy(trace);
}

/* ---- recordings of PyTorch ---- */

/* Most bytes that the recording itself held in segments. */
static int64_t recorded_peak(const pleat_trace_t *trace)
{
    int64_t held = 0;
    int64_t peak = 0;
    for (uint64_t i = 0; i < trace->event_count; i++) {
        if (trace->events[i].action == PLEAT_ACTION_SEGMENT_ALLOC) {
            held += (int64_t)trace->events[i].bytes;
        } else if (trace->events[i].action == PLEAT_ACTION_SEGMENT_FREE) {
            held -= (int64_t)trace->events[i].bytes;
        }
        peak = held > peak ? held : peak;
    }
    return peak;
}

/* Segments that each run of a recording gave back; is any of them part of a request? */
static void expect_runs(const pleat_trace_t *trace, const pleat_options_t *options,
                        const uint64_t counts[3], bool is_in_request)
{
    pleat_program_t *program = trace_fixture_program(trace, options);
    cr_assert(eq(sz, program->run_count, 3));
    for (size_t i = 0; i < 3; i++) {
        cr_expect(eq(u64, program->runs[i].segment_count, counts[i]));
        cr_expect(eq(int, program->runs[i].is_in_request, is_in_request));
    }
    pleat_program_destroy(program);
}

static pleat_trace_t *load_recording(const char *name)
{
    char path[512];
    (void)snprintf(path, sizeof(path), "%s/%s.pleat", PLEAT_TEST_TRACES, name);
    pleat_trace_t *trace = NULL;
    cr_assert(pleat_trace_load(path, &trace) == PLEAT_OK, "%s", pleat_last_error());
    return trace;
}

static void expect_recording(const char *name, uint64_t limit_bytes, int64_t retries)
{
    pleat_trace_t *trace = load_recording(name);
    pleat_trace_check_options_t options = PLEAT_TRACE_CHECK_OPTIONS_INIT;
    if (limit_bytes > 0) {
        options.allocator.limit_bytes = limit_bytes;
    }
    const pleat_trace_check_t check = check_trace(trace, &options);
    cr_expect(eq(u64, check.difference_count, 0), "%s: event %llu: %s / %s", name,
              (unsigned long long)differences[0].event, differences[0].expected,
              differences[0].got);
    cr_expect(check.unchecked[0] == '\0', "%s", check.unchecked);
    cr_expect(eq(u64, check.event_count, trace->event_count));
    cr_expect(eq(i64, check.stats.num_alloc_retries, retries));
    cr_expect(eq(i64, check.stats.reserved_bytes[PLEAT_STAT_ALL].peak, recorded_peak(trace)));
    cr_expect(eq(u64, check.reread_count, 0));
    pleat_trace_destroy(trace);
}

Test(trace_check, finds_no_difference_in_a_recording_with_two_streams, .timeout = 30)
{
    expect_recording("prefetch_streams", 0, 0);
    expect_recording("resnet_multiscale", 0, 0);
}

Test(trace_check, finds_no_difference_in_a_recording_with_retries, .timeout = 30)
{
    expect_recording("case12b", UINT64_C(40) << 30, 3);
}

Test(trace_check, reads_the_flushes_of_the_recordings, .timeout = 30)
{
    pleat_options_t options = PLEAT_OPTIONS_INIT;
    pleat_trace_t *trace = load_recording("rlhf");
    expect_runs(trace, &options, (const uint64_t[]){87, 107, 97}, false);
    pleat_trace_destroy(trace);
    options.limit_bytes = UINT64_C(40) << 30;
    trace = load_recording("case12b");
    expect_runs(trace, &options, (const uint64_t[]){45, 90, 1}, true);
    pleat_trace_destroy(trace);
}
