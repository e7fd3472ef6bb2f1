/*
 * program_reader: see program_reader.h.
 */
#include "program_reader.h"

#include "../../core/size_class.h"
#include "number_map.h"
#include "program_run.h"
#include "program_streams.h"
#include "trace_segments.h"

#include <pleat/sim.h>
#include <stdlib.h>

#define PLEAT_PROGRAM_FIRST_CAPACITY 256u

/* A growing array of small numbers. */
typedef struct program_list {
    uint32_t *items;
    size_t count;
    size_t capacity;
} program_list_t;

typedef struct program_reader {
    pleat_program_t *program;
    const pleat_trace_t *trace;
    const pleat_program_source_t *source;
    size_t call_capacity;
    size_t run_capacity;
    pleat_number_map_t live;    /* address to slot */
    pleat_number_map_t waiting; /* address to slot: freed, not complete */
    program_list_t free_slots;
    program_list_t slot_events; /* by slot: the event of its allocation */
    pleat_trace_segments_t segments;
    pleat_stream_order_t order;
    uint64_t now_us;    /* time of the last call */
    uint64_t latest_us; /* latest time stamp so far */
    bool is_after_free; /* the last call was a free that was complete at once */

    /* The group: events since the last call, from group_first on. */
    uint32_t group_first;
    program_list_t freed;      /* its segment_free and segment_unmap events */
    program_list_t late;       /* its completions */
    program_list_t late_slots; /* and their slots */
    uint32_t segment_allocs;
    uint64_t segment_bytes;       /* of the last segment_alloc */
    uint64_t reserved_before_run; /* before the first segment_free */
    uint32_t last_segment_alloc;
} program_reader_t;

static pleat_status_t program_grow(void **items, size_t *capacity, size_t count, size_t item_bytes)
{
    if (count < *capacity) {
        return PLEAT_OK;
    }
    const size_t grown = *capacity == 0 ? PLEAT_PROGRAM_FIRST_CAPACITY : *capacity * 2;
    void *moved = realloc(*items, grown * item_bytes);
    if (moved == NULL) {
        pleat_error_set("no host memory for the calls of a trace: %zu of %zu bytes", grown,
                        item_bytes);
        return PLEAT_ERR_OOM_HOST;
    }
    *items = moved;
    *capacity = grown;
    return PLEAT_OK;
}

static pleat_status_t program_list_push(program_list_t *list, uint32_t item)
{
    void *items = list->items;
    const pleat_status_t status =
        program_grow(&items, &list->capacity, list->count, sizeof(*list->items));
    if (status == PLEAT_OK) {
        list->items = items;
        list->items[list->count++] = item;
    }
    return status;
}

static void program_find(pleat_program_finding_t *finding, uint64_t event)
{
    if (finding->count == 0) {
        finding->first_event = event;
    }
    finding->count++;
}

static void program_note(program_reader_t *reader, pleat_program_note_t note, uint64_t event)
{
    /* What was cached when a history began is put before it without an allocation. */
    if (note == PLEAT_PROGRAM_NOTE_SEGMENT_UNUSED && event < reader->trace->origin.prefix_count) {
        return;
    }
    program_find(&reader->program->notes[note], event);
}

static void program_undecided(program_reader_t *reader, pleat_undecided_t what, uint64_t event)
{
    program_find(&reader->program->undecided[what], event);
}

/* Add a call whose events are those from group_first to before @p end; the group begins anew. */
static pleat_status_t program_emit(program_reader_t *reader, pleat_program_call_t call,
                                   uint32_t end)
{
    pleat_program_t *program = reader->program;
    void *calls = program->calls;
    const pleat_status_t status =
        program_grow(&calls, &reader->call_capacity, program->call_count, sizeof(*program->calls));
    if (status != PLEAT_OK) {
        return status;
    }
    program->calls = calls;
    call.first_event = reader->group_first;
    call.event_count = end - reader->group_first;
    if (call.time_us > reader->now_us) {
        reader->now_us = call.time_us;
    }
    call.time_us = reader->now_us;
    program->calls[program->call_count++] = call;
    program->counts[call.kind]++;
    reader->group_first = end;
    reader->is_after_free = call.kind == PLEAT_PROGRAM_FREE;
    return PLEAT_OK;
}

/* Add a call without events of its own, at the time of @p event. */
static pleat_status_t program_emit_bare(program_reader_t *reader, pleat_program_call_kind_t kind,
                                        uint32_t slot, uint32_t event)
{
    const bool is_after_free = reader->is_after_free;
    const pleat_program_call_t call = {
        .kind = kind, .slot = slot, .time_us = reader->trace->events[event].time_us};
    const pleat_status_t status = program_emit(reader, call, reader->group_first);
    reader->is_after_free = is_after_free;
    return status;
}

/* A slot for the allocation at @p event. */
static pleat_status_t program_take_slot(program_reader_t *reader, uint32_t event,
                                        uint32_t *slot_out)
{
    if (reader->free_slots.count > 0) {
        *slot_out = reader->free_slots.items[--reader->free_slots.count];
        reader->slot_events.items[*slot_out] = event;
        return PLEAT_OK;
    }
    *slot_out = reader->program->slot_count++;
    return program_list_push(&reader->slot_events, event);
}

static pleat_status_t program_map_add(pleat_number_map_t *map, pleat_devptr_t address,
                                      uint32_t slot)
{
    if (!pleat_number_map_set(map, address, slot)) {
        pleat_error_set("no host memory for the live blocks of a trace");
        return PLEAT_ERR_OOM_HOST;
    }
    return PLEAT_OK;
}

/* Take an address out of a map; false when it is not there. */
static bool program_map_take(pleat_number_map_t *map, pleat_devptr_t address, uint32_t *slot_out)
{
    const uint32_t slot = pleat_number_map_find(map, address);
    if (slot == PLEAT_NUMBER_MAP_NONE) {
        return false;
    }
    pleat_number_map_remove(map, address);
    *slot_out = slot;
    return true;
}

/* Completions of the group that stand before event @p end become calls; the rest stays. */
static pleat_status_t program_emit_late(program_reader_t *reader, pleat_program_call_kind_t kind,
                                        uint32_t end)
{
    size_t done = 0;
    while (done < reader->late.count && reader->late.items[done] < end) {
        const uint32_t slot = reader->late_slots.items[done];
        pleat_status_t status = program_emit_bare(reader, kind, slot, reader->late.items[done]);
        if (status == PLEAT_OK) {
            status = program_list_push(&reader->free_slots, slot);
        }
        if (status != PLEAT_OK) {
            return status;
        }
        done++;
    }
    reader->late.count -= done;
    reader->late_slots.count -= done;
    for (size_t i = 0; i < reader->late.count; i++) {
        reader->late.items[i] = reader->late.items[i + done];
        reader->late_slots.items[i] = reader->late_slots.items[i + done];
    }
    return PLEAT_OK;
}

/* Whose work is the run of segment_free before the allocation at @p event? */
static pleat_run_reading_t program_read_run(program_reader_t *reader, uint32_t event)
{
    const pleat_run_facts_t facts = {
        .options = reader->source->options,
        .device_bytes = reader->source->device_bytes != 0 ? reader->source->device_bytes
                                                          : PLEAT_SIM_DEFAULT_CAPACITY_BYTES,
        .events = reader->trace->events,
        .freed = reader->freed.items,
        .freed_count = reader->freed.count,
        .late = reader->late.items,
        .late_count = reader->late.count,
        .request = &reader->trace->events[event],
        .has_new_segment = reader->segment_allocs > 0,
        .segment_bytes = reader->segment_bytes,
        .reserved_bytes = reader->reserved_before_run,
        /* The new segment is there already, and has no block yet. */
        .idle_count =
            reader->segments.idle_count - (reader->segment_allocs < reader->segments.idle_count
                                               ? reader->segment_allocs
                                               : reader->segments.idle_count)};
    for (size_t i = 0; i < reader->source->choice_count; i++) {
        if (reader->source->choices[i].first_event == facts.freed[0]) {
            return reader->source->choices[i].reading;
        }
    }
    pleat_undecided_t undecided = PLEAT_UNDECIDED_COUNT;
    const pleat_run_reading_t reading = pleat_program_run_read(&facts, &undecided);
    if (undecided != PLEAT_UNDECIDED_COUNT) {
        program_undecided(reader, undecided, reader->freed.items[0]);
    }
    return reading;
}

/* What the order of segment_free over several streams tells about the order of their handles.
 * Segments come from the large pool first, then from the small pool, each in stream order. */
static void program_note_stream_order(program_reader_t *reader)
{
    if (reader->source->options->garbage_collection_threshold > 0.0) {
        return; /* collection makes several passes over the streams */
    }
    const uint64_t before = reader->order.note_count;
    for (size_t i = 1; i < reader->freed.count; i++) {
        const pleat_trace_event_t *a = &reader->trace->events[reader->freed.items[i - 1]];
        const pleat_trace_event_t *b = &reader->trace->events[reader->freed.items[i]];
        if ((a->bytes == PLEAT_SMALL_SEGMENT_BYTES) == (b->bytes == PLEAT_SMALL_SEGMENT_BYTES)) {
            pleat_stream_order_note(&reader->order,
                                    pleat_program_stream_index(reader->program, a->stream),
                                    pleat_program_stream_index(reader->program, b->stream));
        }
    }
    if (reader->order.note_count != before) {
        program_undecided(reader, PLEAT_UNDECIDED_STREAM_ORDER, reader->freed.items[0]);
    }
}

static pleat_status_t program_add_run(program_reader_t *reader, bool is_in_request,
                                      uint32_t request_event)
{
    pleat_program_t *program = reader->program;
    void *runs = program->runs;
    const pleat_status_t status =
        program_grow(&runs, &reader->run_capacity, program->run_count, sizeof(*program->runs));
    if (status != PLEAT_OK) {
        return status;
    }
    program->runs = runs;
    /* The call that the run belongs to is the next one to be added. */
    program->runs[program->run_count++] =
        (pleat_program_run_t){.segment_count = reader->freed.count,
                              .call = (uint32_t)program->call_count,
                              .first_event = reader->freed.items[0],
                              .request_event = request_event,
                              .is_in_request = is_in_request};
    program_note_stream_order(reader);
    return PLEAT_OK;
}

static void program_forget_group(program_reader_t *reader)
{
    reader->freed.count = 0;
    reader->late.count = 0;
    reader->late_slots.count = 0;
    reader->segment_allocs = 0;
}

/* An empty_cache with the events of the group before @p end; @p request_event as in a run. */
static pleat_status_t program_emit_empty_cache(program_reader_t *reader, uint32_t end,
                                               uint32_t request_event)
{
    const uint32_t first = reader->freed.count > 0 ? reader->freed.items[0] : reader->late.items[0];
    pleat_status_t status = program_emit_late(reader, PLEAT_PROGRAM_COMPLETE, end);
    if (status == PLEAT_OK && reader->freed.count > 0) {
        status = program_add_run(reader, false, request_event);
    }
    if (status != PLEAT_OK) {
        return status;
    }
    reader->freed.count = 0;
    const pleat_program_call_t call = {.kind = PLEAT_PROGRAM_EMPTY_CACHE,
                                       .time_us = reader->trace->events[first].time_us};
    return program_emit(reader, call, end);
}

/* No allocation follows: what the group holds must come from an empty_cache. */
static pleat_status_t program_close_group(program_reader_t *reader, uint32_t end)
{
    pleat_status_t status = PLEAT_OK;
    if (reader->segment_allocs > 0) {
        program_note(reader, PLEAT_PROGRAM_NOTE_SEGMENT_UNUSED, reader->last_segment_alloc);
    }
    if (reader->freed.count > 0 || reader->late.count > 0) {
        status = program_emit_empty_cache(reader, end, 0);
    } else if (reader->segment_allocs > 0) {
        status = program_emit(reader, (pleat_program_call_t){.kind = PLEAT_PROGRAM_STRAY}, end);
    }
    program_forget_group(reader);
    return status;
}

/* The last call, a free that seemed complete at once, waits after all: its completion becomes the
 * first of the group. */
static pleat_status_t program_reopen_free(program_reader_t *reader)
{
    pleat_program_t *program = reader->program;
    if (!reader->is_after_free) {
        return PLEAT_OK;
    }
    pleat_program_call_t *call = &program->calls[program->call_count - 1];
    pleat_status_t status = program_list_push(&reader->late, 0);
    if (status == PLEAT_OK) {
        status = program_list_push(&reader->late_slots, 0);
    }
    if (status != PLEAT_OK) {
        return status;
    }
    for (size_t i = reader->late.count - 1; i > 0; i--) {
        reader->late.items[i] = reader->late.items[i - 1];
        reader->late_slots.items[i] = reader->late_slots.items[i - 1];
    }
    reader->late.items[0] = call->first_event + 1;
    reader->late_slots.items[0] = call->slot;
    reader->free_slots.count--; /* the slot of that free was the last to go there */
    reader->group_first = call->first_event + 1;
    reader->is_after_free = false;
    program->counts[PLEAT_PROGRAM_FREE]--;
    program->counts[PLEAT_PROGRAM_FREE_WAITS]++;
    call->kind = PLEAT_PROGRAM_FREE_WAITS;
    call->event_count = 1;
    program_undecided(reader, PLEAT_UNDECIDED_WAITED_STREAM, call->first_event);
    return PLEAT_OK;
}

/* The run of the group before the allocation at @p event: an empty_cache of its own, or a part of
 * that allocation. Completions behind the first segment_free can only be those that a flush waits
 * for. */
static pleat_status_t program_close_run(program_reader_t *reader, uint32_t event,
                                        pleat_program_call_kind_t *late_kind_inout)
{
    const uint32_t run_first = reader->freed.items[0];
    const uint32_t run_end = reader->freed.items[reader->freed.count - 1] + 1;
    const pleat_run_reading_t reading = program_read_run(reader, event);
    pleat_status_t status = PLEAT_OK;
    if (reading == PLEAT_RUN_EMPTY_CACHE) {
        return program_emit_empty_cache(reader, run_end, event);
    }
    if (reading == PLEAT_RUN_IN_REQUEST_PENDING) {
        status = program_reopen_free(reader);
    }
    if (status == PLEAT_OK && reading == PLEAT_RUN_IN_REQUEST) {
        status = program_emit_late(reader, *late_kind_inout, run_first);
    }
    *late_kind_inout = PLEAT_PROGRAM_COMPLETE_IN_CALL;
    return status;
}

/* Events of the group that belong to the allocation at @p event, or to an empty_cache before it. */
static pleat_status_t program_close_group_for(program_reader_t *reader, uint32_t event)
{
    /* A request that fails has waited for every free. */
    const bool is_failed = reader->trace->events[event].action == PLEAT_ACTION_OOM;
    pleat_program_call_kind_t late_kind =
        is_failed ? PLEAT_PROGRAM_COMPLETE_IN_CALL : PLEAT_PROGRAM_COMPLETE;
    pleat_status_t status = PLEAT_OK;
    if (reader->freed.count > 0) {
        status = program_close_run(reader, event, &late_kind);
    }
    if (status == PLEAT_OK) {
        status = program_emit_late(reader, late_kind, event);
    }
    if (status == PLEAT_OK && reader->freed.count > 0) {
        status = program_add_run(reader, true, event);
    }
    if (reader->is_after_free && reader->program->stream_count > 1) {
        program_undecided(reader, PLEAT_UNDECIDED_SHORT_WAIT, reader->group_first - 1);
    }
    if (reader->segment_allocs > 1) {
        program_note(reader, PLEAT_PROGRAM_NOTE_SEGMENT_UNUSED, reader->last_segment_alloc);
    }
    program_forget_group(reader);
    return status;
}

/* Does a free or completion tell of the block that was allocated? */
static void program_see_free(program_reader_t *reader, uint32_t event, uint32_t slot)
{
    const pleat_trace_event_t *e = &reader->trace->events[event];
    const pleat_trace_event_t *allocation = &reader->trace->events[reader->slot_events.items[slot]];
    if (e->bytes != allocation->bytes || e->stream != allocation->stream) {
        program_note(reader, PLEAT_PROGRAM_NOTE_FREE_DIFFERS, event);
    }
}

static void program_see_time(program_reader_t *reader, uint32_t event)
{
    const uint64_t time_us = reader->trace->events[event].time_us;
    if (time_us < reader->latest_us) {
        program_note(reader, PLEAT_PROGRAM_NOTE_TIME_BACK, event);
    } else {
        reader->latest_us = time_us;
    }
}

/* A block that the trace allocates over was freed without the trace telling. */
static pleat_status_t program_end_overlaid(program_reader_t *reader, uint32_t event)
{
    const pleat_devptr_t address = reader->trace->events[event].address;
    pleat_program_call_kind_t kind = PLEAT_PROGRAM_FREE;
    uint32_t slot = 0;
    if (!program_map_take(&reader->live, address, &slot)) {
        if (!program_map_take(&reader->waiting, address, &slot)) {
            return PLEAT_OK;
        }
        kind = PLEAT_PROGRAM_COMPLETE;
    }
    program_note(reader, PLEAT_PROGRAM_NOTE_ALLOC_LIVE, event);
    (void)pleat_trace_segments_end_block(&reader->segments, address);
    const pleat_status_t status = program_emit_bare(reader, kind, slot, event);
    return status == PLEAT_OK ? program_list_push(&reader->free_slots, slot) : status;
}

static pleat_status_t program_read_alloc(program_reader_t *reader, uint32_t event)
{
    const pleat_trace_event_t *e = &reader->trace->events[event];
    pleat_status_t status = program_close_group_for(reader, event);
    if (status != PLEAT_OK) {
        return status;
    }
    pleat_program_call_t call = {.kind = PLEAT_PROGRAM_ALLOC,
                                 .bytes = e->bytes,
                                 .time_us = e->time_us,
                                 .stream = pleat_program_stream_index(reader->program, e->stream)};
    if (e->action == PLEAT_ACTION_OOM) {
        program_undecided(reader, PLEAT_UNDECIDED_FAILED_REQUEST, event);
        call.kind = PLEAT_PROGRAM_ALLOC_FAILS;
        return program_emit(reader, call, event + 1);
    }
    if (e->address == 0) {
        program_note(reader, PLEAT_PROGRAM_NOTE_ADDRESS_ZERO, event);
        call.kind = PLEAT_PROGRAM_STRAY;
        return program_emit(reader, call, event + 1);
    }
    if (!pleat_trace_segments_begin_block(&reader->segments, e->address)) {
        program_note(reader, PLEAT_PROGRAM_NOTE_OUTSIDE, event);
    }
    status = program_end_overlaid(reader, event);
    if (status == PLEAT_OK) {
        status = program_take_slot(reader, event, &call.slot);
    }
    if (status == PLEAT_OK) {
        status = program_map_add(&reader->live, e->address, call.slot);
    }
    return status == PLEAT_OK ? program_emit(reader, call, event + 1) : status;
}

/* A free; *event_inout is moved to its last event. */
static pleat_status_t program_read_free(program_reader_t *reader, uint32_t *event_inout)
{
    const uint32_t event = *event_inout;
    const pleat_trace_event_t *e = &reader->trace->events[event];
    const bool is_complete = event + 1 < reader->trace->event_count &&
                             e[1].action == PLEAT_ACTION_FREE_COMPLETED &&
                             e[1].address == e->address;
    pleat_status_t status = program_close_group(reader, event);
    if (status != PLEAT_OK) {
        return status;
    }
    if (is_complete) {
        *event_inout = event + 1;
        program_see_time(reader, event + 1);
    }
    pleat_program_call_t call = {
        .kind = PLEAT_PROGRAM_STRAY, .bytes = e->bytes, .time_us = e->time_us};
    if (!program_map_take(&reader->live, e->address, &call.slot)) {
        program_note(reader, PLEAT_PROGRAM_NOTE_FREE_UNKNOWN, event);
        if (!pleat_trace_segments_contain(&reader->segments, e->address)) {
            program_note(reader, PLEAT_PROGRAM_NOTE_OUTSIDE, event);
        }
        return program_emit(reader, call, *event_inout + 1);
    }
    program_see_free(reader, event, call.slot);
    if (is_complete) {
        program_see_free(reader, event + 1, call.slot);
        (void)pleat_trace_segments_end_block(&reader->segments, e->address);
        call.kind = PLEAT_PROGRAM_FREE;
        status = program_list_push(&reader->free_slots, call.slot);
    } else {
        program_undecided(reader, PLEAT_UNDECIDED_WAITED_STREAM, event);
        call.kind = PLEAT_PROGRAM_FREE_WAITS;
        status = program_map_add(&reader->waiting, e->address, call.slot);
    }
    return status == PLEAT_OK ? program_emit(reader, call, *event_inout + 1) : status;
}

static pleat_status_t program_read_completion(program_reader_t *reader, uint32_t event)
{
    uint32_t slot = 0;
    if (!program_map_take(&reader->waiting, reader->trace->events[event].address, &slot)) {
        program_note(reader, PLEAT_PROGRAM_NOTE_COMPLETION_UNKNOWN, event);
        return PLEAT_OK;
    }
    program_see_free(reader, event, slot);
    (void)pleat_trace_segments_end_block(&reader->segments, reader->trace->events[event].address);
    const pleat_status_t status = program_list_push(&reader->late, event);
    return status == PLEAT_OK ? program_list_push(&reader->late_slots, slot) : status;
}

/* More memory from the device. */
static pleat_status_t program_grow_segments(program_reader_t *reader, uint32_t event)
{
    const pleat_trace_event_t *e = &reader->trace->events[event];
    pleat_trace_segments_t *segments = &reader->segments;
    pleat_status_t status = PLEAT_OK;
    const bool is_map = e->action == PLEAT_ACTION_SEGMENT_MAP; /* one request may map twice */
    reader->segment_allocs += is_map && reader->segment_allocs > 0 ? 0 : 1;
    reader->segment_bytes = e->bytes;
    reader->last_segment_alloc = event;
    if (is_map) {
        const uint64_t room = UINT64_MAX - segments->reserved_bytes;
        segments->reserved_bytes += e->bytes < room ? e->bytes : room;
    } else {
        status = pleat_trace_segments_add(segments, e->address, e->bytes);
    }
    if (status == PLEAT_ERR_INVALID) {
        program_note(reader, PLEAT_PROGRAM_NOTE_SEGMENT_OVERLAP, event);
        status = PLEAT_OK;
    }
    return status;
}

static pleat_status_t program_read_segment(program_reader_t *reader, uint32_t event)
{
    const pleat_trace_event_t *e = &reader->trace->events[event];
    pleat_trace_segments_t *segments = &reader->segments;
    if (e->action == PLEAT_ACTION_SEGMENT_MAP || e->action == PLEAT_ACTION_SEGMENT_UNMAP) {
        program_note(reader, PLEAT_PROGRAM_NOTE_NOT_CLASSIC, event);
    }
    if (e->action == PLEAT_ACTION_SEGMENT_ALLOC || e->action == PLEAT_ACTION_SEGMENT_MAP) {
        return program_grow_segments(reader, event);
    }
    if (reader->freed.count == 0) {
        reader->reserved_before_run = segments->reserved_bytes;
    }
    const uint64_t bytes_before = segments->reserved_bytes;
    if (e->action == PLEAT_ACTION_SEGMENT_UNMAP) {
        segments->reserved_bytes -= e->bytes < bytes_before ? e->bytes : bytes_before;
    } else if (!pleat_trace_segments_remove(segments, e->address)) {
        program_note(reader, PLEAT_PROGRAM_NOTE_SEGMENT_UNKNOWN, event);
    } else if (bytes_before - segments->reserved_bytes != e->bytes) {
        program_note(reader, PLEAT_PROGRAM_NOTE_SEGMENT_DIFFERS, event);
    }
    return program_list_push(&reader->freed, event);
}

static pleat_status_t program_read_event(program_reader_t *reader, uint32_t *event_inout)
{
    program_see_time(reader, *event_inout);
    switch (reader->trace->events[*event_inout].action) {
    case PLEAT_ACTION_ALLOC:
    case PLEAT_ACTION_OOM:
        return program_read_alloc(reader, *event_inout);
    case PLEAT_ACTION_FREE_REQUESTED:
        return program_read_free(reader, event_inout);
    case PLEAT_ACTION_FREE_COMPLETED:
        return program_read_completion(reader, *event_inout);
    case PLEAT_ACTION_SEGMENT_ALLOC:
    case PLEAT_ACTION_SEGMENT_MAP:
    case PLEAT_ACTION_SEGMENT_FREE:
    case PLEAT_ACTION_SEGMENT_UNMAP:
        return program_read_segment(reader, *event_inout);
    case PLEAT_ACTION_SNAPSHOT:
    case PLEAT_ACTION_COUNT:
        return PLEAT_OK;
    }
    return PLEAT_OK;
}

static pleat_status_t program_read_all(program_reader_t *reader)
{
    pleat_program_t *program = reader->program;
    const uint32_t end = (uint32_t)reader->trace->event_count;
    pleat_status_t status = pleat_program_streams_collect(program, reader->trace);
    program->event_count = end;
    program->first_time_us = end > 0 ? reader->trace->events[0].time_us : 0;
    reader->now_us = program->first_time_us;
    reader->latest_us = program->first_time_us;
    for (uint32_t event = 0; event < end && status == PLEAT_OK; event++) {
        status = program_read_event(reader, &event);
    }
    if (status != PLEAT_OK) {
        return status;
    }
    if (reader->freed.count == 0 && reader->late.count > 0) {
        program_undecided(reader, PLEAT_UNDECIDED_TRAILING_COMPLETION, reader->late.items[0]);
    }
    status = program_close_group(reader, end);
    if (status == PLEAT_OK) {
        status = pleat_program_streams_choose_handles(program, &reader->order);
    }
    program->duration_us = reader->latest_us - program->first_time_us;
    program->undecided[PLEAT_UNDECIDED_IDLE_EMPTY_CACHE].count = PLEAT_UNDECIDED_ANYWHERE;
    return status;
}

/* A trace without any segment event leaves nothing to compare. */
static void program_note_missing_segments(program_reader_t *reader)
{
    for (uint64_t i = 0; i < reader->trace->event_count; i++) {
        const pleat_action_t action = reader->trace->events[i].action;
        if (action == PLEAT_ACTION_SEGMENT_ALLOC || action == PLEAT_ACTION_SEGMENT_MAP) {
            return;
        }
    }
    program_note(reader, PLEAT_PROGRAM_NOTE_NO_SEGMENTS, 0);
    reader->program->notes[PLEAT_PROGRAM_NOTE_OUTSIDE].count = 0; /* follows from it */
}

pleat_status_t pleat_program_read(pleat_program_t *program, const pleat_program_source_t *source)
{
    program_reader_t reader = {.program = program, .trace = source->trace, .source = source};
    const pleat_status_t status = program_read_all(&reader);
    if (status == PLEAT_OK) {
        program_note_missing_segments(&reader);
    }
    pleat_number_map_fini(&reader.live);
    pleat_number_map_fini(&reader.waiting);
    pleat_trace_segments_fini(&reader.segments);
    free(reader.free_slots.items);
    free(reader.slot_events.items);
    free(reader.freed.items);
    free(reader.late.items);
    free(reader.late_slots.items);
    return status;
}
