/*
 * session_compare: events, statistics and states of a performed session against the recorded ones.
 */
#include "session_run.h"

#include <pleat/memory_stats.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../core/allocator.h"

#define UNKNOWN_KEY UINT32_MAX

/* ---- statistics ---- */

static bool key_has_suffix(const char *key, const char *suffix)
{
    const size_t key_length = strlen(key);
    const size_t length = strlen(suffix);
    return key_length >= length && strcmp(key + key_length - length, suffix) == 0;
}

pleat_status_t pleat_session_compare_init(pleat_session_run_t *run)
{
    const pleat_session_t *session = run->session;
    const size_t count = (size_t)session->key_count + 1;
    run->stat_index = calloc(count, sizeof(*run->stat_index));
    run->expected = calloc(count, sizeof(*run->expected));
    run->offset = calloc(count, sizeof(*run->offset));
    run->values = calloc(pleat_memory_stats_count(), sizeof(*run->values));
    if (run->stat_index == NULL || run->expected == NULL || run->offset == NULL ||
        run->values == NULL) {
        return PLEAT_ERR_OOM_HOST;
    }
    pleat_memory_stats_values(pleat_allocator_stats(run->allocator), run->values);
    for (uint32_t key = 0; key < session->key_count; key++) {
        const size_t index = pleat_memory_stats_index(session->keys[key]);
        const bool is_known = index < pleat_memory_stats_count();
        run->stat_index[key] = is_known ? (uint32_t)index : UNKNOWN_KEY;
        run->expected[key] = session->base[key];
        run->offset[key] = is_known ? session->base[key] - run->values[index] : 0;
    }
    return PLEAT_OK;
}

void pleat_session_compare_fini(pleat_session_run_t *run)
{
    free(run->stat_index);
    free(run->expected);
    free(run->offset);
    free(run->values);
}

/* A reset wipes out what the counters held before the first call. */
static void compare_reset_offsets(pleat_session_run_t *run, pleat_session_call_kind_t kind)
{
    for (uint32_t key = 0; key < run->session->key_count; key++) {
        const char *name = run->session->keys[key];
        const bool is_sum = key_has_suffix(name, ".allocated") || key_has_suffix(name, ".freed") ||
                            strncmp(name, "num_", 4) == 0;
        if ((kind == PLEAT_SESSION_RESET_ACC && is_sum) ||
            (kind == PLEAT_SESSION_RESET_PEAK && key_has_suffix(name, ".peak"))) {
            run->offset[key] = 0;
        }
    }
}

static void compare_recorded_stats(pleat_session_run_t *run, const pleat_session_call_t *call)
{
    const pleat_session_t *session = run->session;
    for (uint32_t i = 0; i < call->changes.count; i++) {
        const pleat_session_change_t *change = &session->changes[call->changes.first + i];
        run->expected[change->key] = change->value;
    }
    for (uint32_t key = 0; key < session->key_count; key++) {
        const uint32_t index = run->stat_index[key];
        const int64_t value = index == UNKNOWN_KEY ? 0 : run->values[index] + run->offset[key];
        if (index != UNKNOWN_KEY && value == run->expected[key]) {
            continue;
        }
        char expected[32];
        char got[32] = "no such statistic";
        (void)snprintf(expected, sizeof(expected), "%" PRId64, run->expected[key]);
        if (index != UNKNOWN_KEY) {
            (void)snprintf(got, sizeof(got), "%" PRId64, value);
        }
        pleat_session_run_differ(run, call, session->keys[key], expected, got);
    }
    run->check->stat_count += session->key_count;
}

static bool relation_holds(pleat_session_relation_t relation, int64_t value, int64_t bound)
{
    switch (relation) {
    case PLEAT_SESSION_AT_MOST:
        return value <= bound;
    case PLEAT_SESSION_AT_LEAST:
        return value >= bound;
    case PLEAT_SESSION_EQUAL:
        break;
    }
    return value == bound;
}

static void compare_expectation(pleat_session_run_t *run, const pleat_session_call_t *call,
                                const pleat_session_expect_t *expect)
{
    static const char *const signs[] = {[PLEAT_SESSION_EQUAL] = "=",
                                        [PLEAT_SESSION_AT_MOST] = "<=",
                                        [PLEAT_SESSION_AT_LEAST] = ">="};
    const size_t index = pleat_memory_stats_index(expect->key);
    char expected[64];
    (void)snprintf(expected, sizeof(expected), "%s %" PRId64 " (line %" PRIu64 ")",
                   signs[expect->relation], expect->value, expect->line);
    run->check->stat_count++;
    if (index >= pleat_memory_stats_count()) {
        pleat_session_run_differ(run, call, expect->key, expected, "no such statistic");
    } else if (!relation_holds(expect->relation, run->values[index], expect->value)) {
        char got[32];
        (void)snprintf(got, sizeof(got), "%" PRId64, run->values[index]);
        pleat_session_run_differ(run, call, expect->key, expected, got);
    }
}

void pleat_session_compare_stats(pleat_session_run_t *run, const pleat_session_call_t *call)
{
    const pleat_session_t *session = run->session;
    if (call->kind == PLEAT_SESSION_RESET_ACC || call->kind == PLEAT_SESSION_RESET_PEAK) {
        compare_reset_offsets(run, call->kind);
    }
    if (!call->has_stats && call->expects.count == 0 && call->expect_errors.count == 0) {
        return;
    }
    pleat_memory_stats_values(pleat_allocator_stats(run->allocator), run->values);
    if (call->has_stats) {
        compare_recorded_stats(run, call);
    }
    for (uint32_t i = 0; i < call->expects.count; i++) {
        compare_expectation(run, call, &session->expects[call->expects.first + i]);
    }
    for (uint32_t i = 0; i < call->expect_errors.count; i++) {
        const pleat_session_expect_error_t *expect =
            &session->expect_errors[call->expect_errors.first + i];
        if (run->status == PLEAT_OK || strstr(run->error, expect->text) == NULL) {
            pleat_session_run_differ(run, call, "error message", expect->text,
                                     run->status == PLEAT_OK ? "no error" : run->error);
        }
    }
}

/* ---- events ---- */

static bool event_is_driver(const pleat_session_event_t *event)
{
    return event->action != PLEAT_ACTION_FREE_COMPLETED;
}

static void event_format(const pleat_session_event_t *event, char *text, size_t size)
{
    if (event == NULL) {
        (void)snprintf(text, size, "nothing");
        return;
    }
    (void)snprintf(text, size, "%s 0x%" PRIx64 " %" PRIu64 " %" PRIu64,
                   pleat_action_name(event->action), event->address, event->bytes, event->stream);
}

static bool event_equal(const pleat_session_event_t *a, const pleat_session_event_t *b)
{
    return a->action == b->action && a->address == b->address && a->bytes == b->bytes &&
           a->stream == b->stream;
}

/* Which events of a call are compared in one go. */
typedef enum event_filter { EVENTS_ALL, EVENTS_DRIVER, EVENTS_COMPLETED } event_filter_t;

/* Next event at or behind *position that the filter lets through; NULL: none. */
static const pleat_session_event_t *event_next(const pleat_session_event_t *events, size_t count,
                                               event_filter_t filter, size_t *position)
{
    while (*position < count) {
        const pleat_session_event_t *event = &events[(*position)++];
        if (filter == EVENTS_ALL || event_is_driver(event) == (filter == EVENTS_DRIVER)) {
            return event;
        }
    }
    return NULL;
}

static void compare_event_sequence(pleat_session_run_t *run, const pleat_session_call_t *call,
                                   event_filter_t filter)
{
    const pleat_session_event_t *recorded = &run->session->events[call->events.first];
    size_t recorded_position = 0;
    size_t engine_position = 0;
    for (;;) {
        const pleat_session_event_t *expected =
            event_next(recorded, call->events.count, filter, &recorded_position);
        const pleat_session_event_t *got =
            event_next(run->events, run->event_count, filter, &engine_position);
        if (expected == NULL && got == NULL) {
            return;
        }
        run->check->event_count++;
        if (expected == NULL || got == NULL || !event_equal(expected, got)) {
            char expected_text[96];
            char got_text[96];
            event_format(expected, expected_text, sizeof(expected_text));
            event_format(got, got_text, sizeof(got_text));
            pleat_session_run_differ(run, call, "event", expected_text, got_text);
            return; /* what follows is a consequence */
        }
    }
}

void pleat_session_compare_events(pleat_session_run_t *run, const pleat_session_call_t *call)
{
    if (!run->session->is_recording) {
        return;
    }
    if (run->lists_driver_first) {
        compare_event_sequence(run, call, EVENTS_DRIVER);
        compare_event_sequence(run, call, EVENTS_COMPLETED);
    } else {
        compare_event_sequence(run, call, EVENTS_ALL);
    }
}

/* ---- states ---- */

static void compare_blocks(pleat_session_run_t *run, const pleat_session_call_t *call,
                           const pleat_session_block_t *recorded, const pleat_block_info_t *got)
{
    const pleat_block_info_t *expected = &recorded->info;
    static const char *const states[] = {[PLEAT_BLOCK_INACTIVE] = "inactive",
                                         [PLEAT_BLOCK_ALLOCATED] = "active_allocated",
                                         [PLEAT_BLOCK_PENDING_FREE] = "active_pending_free"};
    if (expected->address == got->address && expected->bytes == got->bytes &&
        expected->requested_bytes == got->requested_bytes && expected->state == got->state) {
        return;
    }
    char texts[2][128];
    const pleat_block_info_t *blocks[2] = {expected, got};
    for (int i = 0; i < 2; i++) {
        (void)snprintf(texts[i], sizeof(texts[i]),
                       "0x%" PRIx64 " %" PRIu64 " requested=%" PRIu64 " %s", blocks[i]->address,
                       blocks[i]->bytes, blocks[i]->requested_bytes, states[blocks[i]->state]);
    }
    pleat_session_run_differ_at(run, call, recorded->line, "block", texts[0], texts[1]);
}

static bool compare_segment(pleat_session_run_t *run, const pleat_session_call_t *call,
                            const pleat_session_segment_t *recorded,
                            const pleat_segment_info_t *got)
{
    const pleat_segment_info_t *expected = &recorded->info;
    const bool is_pool_equal = got->pool.first == 0 && got->pool.second == recorded->pool;
    if (is_pool_equal && expected->address == got->address &&
        expected->total_bytes == got->total_bytes &&
        expected->allocated_bytes == got->allocated_bytes &&
        expected->active_bytes == got->active_bytes &&
        expected->requested_bytes == got->requested_bytes && expected->stream == got->stream &&
        expected->is_small == got->is_small && expected->is_expandable == got->is_expandable &&
        expected->block_count == got->block_count) {
        return true;
    }
    char texts[2][256];
    const pleat_segment_info_t *segments[2] = {expected, got};
    const uint64_t pools[2] = {recorded->pool, got->pool.second};
    for (int i = 0; i < 2; i++) {
        (void)snprintf(texts[i], sizeof(texts[i]),
                       "0x%" PRIx64 " %" PRIu64 " %" PRIu64 " %s %s allocated=%" PRIu64
                       " active=%" PRIu64 " requested=%" PRIu64 " pool=%" PRIu64 ", %" PRIu64
                       " blocks",
                       segments[i]->address, segments[i]->total_bytes, segments[i]->stream,
                       segments[i]->is_small ? "small" : "large",
                       segments[i]->is_expandable ? "expandable" : "plain",
                       segments[i]->allocated_bytes, segments[i]->active_bytes,
                       segments[i]->requested_bytes, pools[i], segments[i]->block_count);
    }
    pleat_session_run_differ_at(run, call, recorded->line, "segment", texts[0], texts[1]);
    return false;
}

static void compare_snapshot(pleat_session_run_t *run, const pleat_session_call_t *call,
                             pleat_session_range_t range, const pleat_snapshot_t *snapshot)
{
    if (range.count != snapshot->segment_count) {
        char expected[32];
        char got[32];
        (void)snprintf(expected, sizeof(expected), "%" PRIu32, range.count);
        (void)snprintf(got, sizeof(got), "%" PRIu64, snapshot->segment_count);
        pleat_session_run_differ_at(run, call, call != NULL ? call->line : run->session->end_line,
                                    "number of segments", expected, got);
        return;
    }
    for (uint32_t i = 0; i < range.count; i++) {
        const pleat_session_segment_t *expected = &run->session->segments[range.first + i];
        const pleat_segment_info_t *got = &snapshot->segments[i];
        run->check->state_count += 1 + expected->info.block_count;
        if (!compare_segment(run, call, expected, got)) {
            continue;
        }
        for (uint64_t k = 0; k < expected->info.block_count; k++) {
            compare_blocks(run, call, &run->session->blocks[expected->info.first_block + k],
                           &snapshot->blocks[got->first_block + k]);
        }
    }
}

pleat_status_t pleat_session_compare_state(pleat_session_run_t *run,
                                           const pleat_session_call_t *call,
                                           pleat_session_range_t segments)
{
    pleat_snapshot_t *snapshot = NULL;
    const pleat_status_t status = pleat_snapshot_take(run->allocator, &snapshot);
    if (status != PLEAT_OK) {
        return status;
    }
    compare_snapshot(run, call, segments, snapshot);
    pleat_snapshot_destroy(snapshot);
    return PLEAT_OK;
}
