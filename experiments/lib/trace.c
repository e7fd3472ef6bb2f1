/*
 * trace: see trace.h. Events come from trace_text or trace_binary, whichever the input is.
 */
#include "trace.h"

#include "file_name.h"
#include "trace_binary.h"
#include "trace_set.h"
#include "trace_text.h"
#include "vmm/base.h"

#include <stdlib.h>
#include <string.h>

enum { PIECE_EVENTS = 4096 };

struct pleat_trace_reader {
    pleat_input_t *input;
    pleat_trace_binary_reader_t *binary; /* NULL: text, or a snapshot */
    pleat_trace_t *whole;                /* of a snapshot; NULL: not one */
    uint64_t next_event;                 /* of that */
    pleat_status_t failure;              /* stays once it has happened */
};

/* The only history of a snapshot. */
static pleat_status_t pleat_trace_load_snapshot(pleat_input_t *input,
                                                const pleat_trace_set_options_t *options,
                                                pleat_trace_t **trace_out)
{
    pleat_trace_set_t set;
    pleat_status_t status = pleat_trace_set_load_input(input, options, &set);
    if (status != PLEAT_OK) {
        return status;
    }
    if (set.count == 1) {
        *trace_out = pleat_trace_set_take(&set, 0);
    } else {
        pleat_error_set("%s: a memory snapshot with histories of %zu devices, and one is wanted: "
                        "choose it by --device, %u for the first",
                        pleat_input_name(input), set.count, (unsigned)set.traces[0]->origin.device);
        status = PLEAT_ERR_FORMAT;
    }
    pleat_trace_set_fini(&set);
    return status;
}

pleat_status_t pleat_trace_reader_create(pleat_input_t *input, pleat_trace_reader_t **reader_out)
{
    return pleat_trace_reader_create_set(input, NULL, reader_out);
}

pleat_status_t pleat_trace_reader_create_set(pleat_input_t *input,
                                             const pleat_trace_set_options_t *options,
                                             pleat_trace_reader_t **reader_out)
{
    const pleat_input_kind_t kind = pleat_input_kind(input);
    if (kind != PLEAT_INPUT_TRACE_TEXT && kind != PLEAT_INPUT_TRACE_BINARY &&
        kind != PLEAT_INPUT_PICKLE) {
        pleat_input_refuse(input, "an allocation trace");
        return PLEAT_ERR_FORMAT;
    }
    pleat_trace_reader_t *reader = calloc(1, sizeof(*reader));
    if (reader == NULL) {
        pleat_error_set("%s: no memory to read it", pleat_input_name(input));
        return PLEAT_ERR_OOM_HOST;
    }
    reader->input = input;
    pleat_status_t status = PLEAT_OK;
    if (kind == PLEAT_INPUT_TRACE_BINARY) {
        status = pleat_trace_binary_reader_create(input, &reader->binary);
    } else if (kind == PLEAT_INPUT_PICKLE) {
        status = pleat_trace_load_snapshot(input, options, &reader->whole);
    }
    if (status != PLEAT_OK) {
        free(reader);
        return status;
    }
    *reader_out = reader;
    return PLEAT_OK;
}

void pleat_trace_reader_destroy(pleat_trace_reader_t *reader)
{
    if (reader != NULL) {
        pleat_trace_binary_reader_destroy(reader->binary);
        pleat_trace_destroy(reader->whole);
        free(reader);
    }
}

static size_t pleat_trace_reader_copy(pleat_trace_reader_t *reader, pleat_trace_event_t *events,
                                      size_t capacity)
{
    const uint64_t left = reader->whole->event_count - reader->next_event;
    const size_t count = left < capacity ? (size_t)left : capacity;
    if (count > 0) {
        memcpy(events, &reader->whole->events[reader->next_event], count * sizeof(*events));
    }
    reader->next_event += count;
    return count;
}

pleat_status_t pleat_trace_reader_next(pleat_trace_reader_t *reader, pleat_trace_event_t *events,
                                       size_t capacity, size_t *count_out)
{
    size_t count = 0;
    bool has_event = true;
    if (reader->failure != PLEAT_OK) {
        pleat_error_set("%s: reading failed before", pleat_input_name(reader->input));
        return reader->failure;
    }
    if (reader->whole != NULL) {
        *count_out = pleat_trace_reader_copy(reader, events, capacity);
        return PLEAT_OK;
    }
    while (count < capacity) {
        const pleat_status_t status =
            reader->binary != NULL
                ? pleat_trace_binary_read(reader->binary, &events[count], &has_event)
                : pleat_trace_text_read(reader->input, &events[count], &has_event);
        if (status != PLEAT_OK) {
            reader->failure = status;
            return status;
        }
        if (!has_event) {
            break;
        }
        count++;
    }
    *count_out = count;
    return PLEAT_OK;
}

/* Room for one more piece. */
static bool pleat_trace_reserve(pleat_trace_t *trace, uint64_t *capacity)
{
    if (*capacity - trace->event_count >= PIECE_EVENTS) {
        return true;
    }
    const uint64_t wanted = *capacity == 0 ? UINT64_C(4) * PIECE_EVENTS : *capacity * 2;
    if (wanted > SIZE_MAX / sizeof(*trace->events)) {
        return false;
    }
    pleat_trace_event_t *events = realloc(trace->events, (size_t)wanted * sizeof(*trace->events));
    if (events == NULL) {
        return false;
    }
    trace->events = events;
    *capacity = wanted;
    return true;
}

static pleat_status_t pleat_trace_read_all(pleat_trace_reader_t *reader, pleat_trace_t *trace)
{
    uint64_t capacity = 0;
    for (;;) {
        size_t count = 0;
        if (!pleat_trace_reserve(trace, &capacity)) {
            pleat_error_set("%s: no memory for more than %llu events",
                            pleat_input_name(reader->input),
                            (unsigned long long)trace->event_count);
            return PLEAT_ERR_OOM_HOST;
        }
        pleat_trace_event_t *events = &trace->events[trace->event_count];
        const pleat_status_t status = pleat_trace_reader_next(reader, events, PIECE_EVENTS, &count);
        if (status != PLEAT_OK || count == 0) {
            return status;
        }
        for (size_t i = 0; i < count; i++) {
            if (events[i].stream >= trace->stream_count) {
                trace->stream_count = events[i].stream + 1;
            }
        }
        trace->event_count += count;
    }
}

static pleat_status_t pleat_trace_fill(pleat_input_t *input, pleat_trace_t *trace)
{
    pleat_trace_reader_t *reader = NULL;
    pleat_status_t status = pleat_trace_reader_create(input, &reader);
    if (status != PLEAT_OK) {
        return status;
    }
    status = pleat_trace_read_all(reader, trace);
    pleat_trace_reader_destroy(reader);
    if (status == PLEAT_OK && trace->event_count == 0) {
        pleat_error_set("%s: the trace has no events", pleat_input_name(input));
        status = PLEAT_ERR_FORMAT;
    }
    return status;
}

pleat_status_t pleat_trace_load_input(pleat_input_t *input, pleat_trace_t **trace_out)
{
    if (pleat_input_kind(input) == PLEAT_INPUT_PICKLE) {
        return pleat_trace_load_snapshot(input, NULL, trace_out);
    }
    pleat_trace_t *trace = calloc(1, sizeof(*trace));
    pleat_status_t status = PLEAT_ERR_OOM_HOST;
    if (trace != NULL) {
        trace->name = pleat_file_base_name(pleat_input_name(input));
    }
    if (trace == NULL || trace->name == NULL) {
        pleat_error_set("%s: no memory to read it", pleat_input_name(input));
    } else {
        status = pleat_trace_fill(input, trace);
    }
    if (status != PLEAT_OK) {
        pleat_trace_destroy(trace);
        return status;
    }
    *trace_out = trace;
    return PLEAT_OK;
}

pleat_status_t pleat_trace_load(const char *path, pleat_trace_t **trace_out)
{
    pleat_input_t *input = NULL;
    pleat_status_t status = pleat_input_open(path, &input);
    if (status != PLEAT_OK) {
        return status;
    }
    status = pleat_trace_load_input(input, trace_out);
    pleat_input_close(input);
    return status;
}

void pleat_trace_destroy(pleat_trace_t *trace)
{
    if (trace != NULL) {
        free(trace->name);
        free(trace->events);
        free(trace);
    }
}
