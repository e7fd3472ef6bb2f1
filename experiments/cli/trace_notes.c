/*
 * trace_notes: the notes of a program, as far as they are warnings.
 */
#include "trace_notes.h"
#include "report.h"
#include "size.h"

#include <string.h>
#include <time.h>

static const char *pleat_cli_trace_name(const pleat_trace_t *trace)
{
    return strcmp(trace->name, "-") == 0 ? "standard input" : trace->name;
}

/* "2026-11-30 18:24:05 UTC" for microseconds since the epoch. */
static void pleat_cli_trace_date(uint64_t time_us, char *text, size_t capacity)
{
    time_t seconds = (time_t)(time_us / 1000000);
    struct tm parts;

    text[0] = '\0';
    if (gmtime_r(&seconds, &parts)) {
        (void)strftime(text, capacity, "%Y-%m-%d %H:%M:%S UTC", &parts);
    }
}

/* What a history cannot tell. */
static void pleat_cli_trace_origin_warn(const pleat_trace_t *trace)
{
    const pleat_trace_origin_t *origin = &trace->origin;
    const char *name = pleat_cli_trace_name(trace);
    char date[64];

    if (origin->prefix_count > 0) {
        pleat_cli_trace_date(origin->first_time_us, date, sizeof(date));
        pleat_cli_warn(
            "%s: its history begins in the middle, at %s (time_us %llu), and at least "
            "%llu events before are not in it; put at the beginning: %llu blocks "
            "(%llu bytes) that were live then, %llu segments (%llu bytes)",
            name, date, (unsigned long long)origin->first_time_us,
            (unsigned long long)origin->before_count, (unsigned long long)origin->live_count,
            (unsigned long long)origin->live_bytes, (unsigned long long)origin->segment_count,
            (unsigned long long)origin->segment_bytes);
    }
    if (origin->private_count > 0) {
        pleat_cli_warn("%s: %llu events in segments of private pools; a history does not tell "
                       "pools, so they are replayed as all others",
                       name, (unsigned long long)origin->private_count);
    }
    if (origin->unknown_count > 0) {
        pleat_cli_warn("%s: %llu entries of unknown actions are left out", name,
                       (unsigned long long)origin->unknown_count);
    }
    if (origin->skipped_count > 0) {
        pleat_cli_warn("%s: its history was recorded without %s; put in beside the other half of "
                       "each free: %llu",
                       name, pleat_action_name(origin->skipped_action),
                       (unsigned long long)origin->skipped_count);
    }
    if (origin->early_count > 0) {
        pleat_cli_warn("%s: %llu entries have times before that of the first, which counts instead",
                       name, (unsigned long long)origin->early_count);
    }
    if (origin->differs_count > 0) {
        pleat_cli_warn("%s: history and segments disagree on %llu blocks at the end: events are "
                       "missing",
                       name, (unsigned long long)origin->differs_count);
    }
}

static void pleat_cli_trace_origin_json(const pleat_trace_origin_t *origin, json_t *object)
{
    const struct {
        const char *key;
        uint64_t value;
    } rows[] = {{"events_before_at_least", origin->before_count},
                {"live_before_blocks", origin->live_count},
                {"live_before_bytes", origin->live_bytes},
                {"segments_before", origin->segment_count},
                {"segments_before_bytes", origin->segment_bytes},
                {"events_in_private_pools", origin->private_count},
                {"unknown_actions", origin->unknown_count},
                {"frees_recorded_by_half", origin->skipped_count},
                {"times_before_the_first", origin->early_count},
                {"end_differs", origin->differs_count}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rows[i].value > 0) {
            (void)json_object_set_new(object, rows[i].key, json_integer((json_int_t)rows[i].value));
        }
    }
    if (origin->prefix_count > 0) {
        (void)json_object_set_new(object, "first_event_time_us",
                                  json_integer((json_int_t)origin->first_time_us));
    }
}

void pleat_cli_trace_notes_warn(const pleat_trace_t *trace, const pleat_program_t *program)
{
    if (trace->has_origin) {
        pleat_cli_trace_origin_warn(trace);
    }
    for (int i = 0; i < (int)PLEAT_PROGRAM_NOTE_COUNT; i++) {
        const pleat_program_finding_t *finding = &program->notes[i];

        if (finding->count == 0 || !pleat_program_note_is_warning((pleat_program_note_t)i)) {
            continue;
        }
        const pleat_trace_event_t *event = &trace->events[finding->first_event];
        pleat_cli_warn(
            "%s: %s: %llu, the first is event %llu (%s %llx %llu %llu %llu)",
            pleat_cli_trace_name(trace), pleat_program_note_text((pleat_program_note_t)i),
            (unsigned long long)finding->count, (unsigned long long)finding->first_event + 1,
            pleat_action_name(event->action), (unsigned long long)event->address,
            (unsigned long long)event->bytes, (unsigned long long)event->stream,
            (unsigned long long)event->time_us);
    }
}

uint64_t pleat_cli_trace_held_after(uint64_t held, const pleat_trace_event_t *event)
{
    switch (event->action) {
    case PLEAT_ACTION_SEGMENT_ALLOC:
    case PLEAT_ACTION_SEGMENT_MAP:
        return held + event->bytes < held ? UINT64_MAX : held + event->bytes;
    case PLEAT_ACTION_SEGMENT_FREE:
    case PLEAT_ACTION_SEGMENT_UNMAP:
        return held - (event->bytes < held ? event->bytes : held);
    case PLEAT_ACTION_ALLOC:
    case PLEAT_ACTION_FREE_REQUESTED:
    case PLEAT_ACTION_FREE_COMPLETED:
    case PLEAT_ACTION_SNAPSHOT:
    case PLEAT_ACTION_OOM:
    case PLEAT_ACTION_COUNT:
        break;
    }
    return held;
}

/* Failures of the recording: how many, which was the first, and what was held at it. */
typedef struct pleat_cli_failures {
    uint64_t count;
    uint64_t first_event; /* counted from 1 */
    uint64_t bytes;
    uint64_t free_bytes; /* of the device */
    uint64_t held_bytes;
} pleat_cli_failures_t;

static pleat_cli_failures_t pleat_cli_trace_failures(const pleat_trace_t *trace)
{
    pleat_cli_failures_t failures = {.count = 0};
    uint64_t held = 0;

    for (uint64_t i = 0; i < trace->event_count; i++) {
        const pleat_trace_event_t *event = &trace->events[i];

        if (event->action == PLEAT_ACTION_OOM) {
            if (failures.count++ == 0) {
                failures.first_event = i + 1;
                failures.bytes = event->bytes;
                failures.free_bytes = event->address;
                failures.held_bytes = held;
            }
        } else {
            held = pleat_cli_trace_held_after(held, event);
        }
    }
    return failures;
}

static void pleat_cli_trace_notes_failures(const pleat_trace_t *trace)
{
    const pleat_cli_failures_t failures = pleat_cli_trace_failures(trace);
    char bytes[32];
    char held[32];
    char left[32];

    if (failures.count == 0) {
        return;
    }
    pleat_cli_size_format(failures.bytes, bytes, sizeof(bytes));
    pleat_cli_size_format(failures.held_bytes, held, sizeof(held));
    pleat_cli_size_format(failures.free_bytes, left, sizeof(left));
    (void)printf("%s: %llu request%s failed in the recording, %sevent %llu: %s with %s held and %s "
                 "free on the device, %s.\n",
                 pleat_cli_trace_name(trace), (unsigned long long)failures.count,
                 failures.count == 1 ? "" : "s", failures.count == 1 ? "" : "the first ",
                 (unsigned long long)failures.first_event, bytes, held, left,
                 failures.free_bytes >= failures.bytes
                     ? "so a limit of the process refused it (--limit sets one here)"
                     : "which was full (--device-memory sets its size here)");
}

void pleat_cli_trace_notes_recording(const pleat_trace_set_t *set, size_t index)
{
    const pleat_trace_t *trace = set->traces[index];
    const pleat_torch_settings_t *settings = &set->settings;
    const char *conf = settings->conf;
    char text[512];

    if (set->has_settings) {
        if (conf == NULL || conf[0] == '\0') {
            conf =
                settings->expandable_segments ? "expandable_segments:True" : "the default settings";
        }
        const bool is_whole = pleat_cli_escape(conf, text, sizeof(text)) < sizeof(text);
        (void)printf("%s: recorded with %s%s; replayed with what --conf says.\n",
                     pleat_cli_trace_name(trace), text, is_whole ? "" : "...");
    }
    if (trace->has_origin) {
        pleat_cli_trace_notes_failures(trace);
    }
}

json_t *pleat_cli_trace_notes_json(const pleat_program_t *program)
{
    json_t *object = json_object();

    if (program->has_origin) {
        pleat_cli_trace_origin_json(&program->origin, object);
    }
    for (int i = 0; i < (int)PLEAT_PROGRAM_NOTE_COUNT; i++) {
        const uint64_t count = program->notes[i].count;

        if (count > 0 && pleat_program_note_is_warning((pleat_program_note_t)i)) {
            (void)json_object_set_new(object, pleat_program_note_key((pleat_program_note_t)i),
                                      json_integer((json_int_t)count));
        }
    }
    return object;
}
