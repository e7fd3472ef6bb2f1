/*
 * timeline: the logical clock, streams and events of the simulated device; see timeline.h for the
 * model and the invariants, gate.h for what is behind busy streams.
 */
#include "timeline.h"

#include "gate.h"

#include <stdlib.h>

struct pleat_sim_stream {
    pleat_stream_t handle;
    pleat_position_t tail; /* end of all work on it */
    uint32_t busy_gate;    /* the one that set_busy made, until it opens or is released; 0: none */
};

struct pleat_sim_event {
    uint64_t ns;         /* of its position; in the free list: the next free index + 1 */
    uint32_t gate;       /* of its position */
    uint32_t generation; /* odd: live */
};

#define FIRST_STREAMS 16u
#define FIRST_EVENTS 256u
#define MAX_STREAMS (UINT32_C(1) << 30)
#define MAX_EVENTS (UINT32_C(1) << 30)

void pleat_timeline_init(pleat_timeline_t *timeline)
{
    *timeline = (pleat_timeline_t){.clock_ns = 0};
}

void pleat_timeline_fini(pleat_timeline_t *timeline)
{
    free(timeline->streams);
    free(timeline->stream_slots);
    free(timeline->gates);
    free(timeline->events);
    pleat_timeline_init(timeline);
}

void pleat_timeline_charge(pleat_timeline_t *timeline, uint64_t cost_ns)
{
    timeline->clock_ns = pleat_ns_add(timeline->clock_ns, cost_ns);
}

void pleat_timeline_advance_to(pleat_timeline_t *timeline, uint64_t clock_ns)
{
    if (clock_ns > timeline->clock_ns) {
        timeline->clock_ns = clock_ns;
    }
}

/* Slot of a handle, or the empty slot where it would stand. The table is never full. */
static uint32_t stream_slot(const pleat_timeline_t *timeline, pleat_stream_t handle)
{
    const uint32_t mask = timeline->stream_slot_count - 1;
    uint32_t slot = (uint32_t)((handle * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & mask;
    while (timeline->stream_slots[slot] != 0 &&
           timeline->streams[timeline->stream_slots[slot] - 1].handle != handle) {
        slot = (slot + 1) & mask;
    }
    return slot;
}

/* NULL: nothing was ever queued on the stream. Otherwise its tail is settled. */
static pleat_sim_stream_t *stream_find(pleat_timeline_t *timeline, pleat_stream_t handle)
{
    if (timeline->stream_count == 0) {
        return NULL;
    }
    const uint32_t index = timeline->stream_slots[stream_slot(timeline, handle)];
    if (index == 0) {
        return NULL;
    }
    pleat_sim_stream_t *stream = &timeline->streams[index - 1];
    pleat_position_settle(timeline, &stream->tail);
    return stream;
}

/* Room for one more stream: the records and, at most half full, the slots. */
static pleat_status_t streams_grow(pleat_timeline_t *timeline)
{
    if (timeline->stream_count < timeline->stream_capacity) {
        return PLEAT_OK;
    }
    const uint32_t old = timeline->stream_capacity;
    const uint32_t capacity = old == 0 ? FIRST_STREAMS : 2 * old;
    uint32_t *slots = old >= MAX_STREAMS ? NULL : calloc(2 * (size_t)capacity, sizeof *slots);
    pleat_sim_stream_t *streams =
        slots == NULL ? NULL : realloc(timeline->streams, (size_t)capacity * sizeof *streams);
    if (streams == NULL) {
        free(slots);
        pleat_error_set("no host memory for %u streams", capacity);
        return PLEAT_ERR_OOM_HOST;
    }
    free(timeline->stream_slots);
    timeline->streams = streams;
    timeline->stream_capacity = capacity;
    timeline->stream_slots = slots;
    timeline->stream_slot_count = 2 * capacity;
    for (uint32_t i = 0; i < timeline->stream_count; i++) {
        slots[stream_slot(timeline, streams[i].handle)] = i + 1;
    }
    return PLEAT_OK;
}

static pleat_status_t stream_find_or_add(pleat_timeline_t *timeline, pleat_stream_t handle,
                                         pleat_sim_stream_t **stream_out)
{
    pleat_sim_stream_t *stream = stream_find(timeline, handle);
    if (stream == NULL) {
        const pleat_status_t status = streams_grow(timeline);
        if (status != PLEAT_OK) {
            return status;
        }
        timeline->stream_slots[stream_slot(timeline, handle)] = timeline->stream_count + 1;
        stream = &timeline->streams[timeline->stream_count++];
        *stream = (pleat_sim_stream_t){.handle = handle};
    }
    *stream_out = stream;
    return PLEAT_OK;
}

/* A released gate is no longer what makes its stream busy. */
static void stream_settle_busy(pleat_timeline_t *timeline, pleat_sim_stream_t *stream)
{
    if (stream->busy_gate != 0 && !timeline->gates[stream->busy_gate].is_busy) {
        pleat_gate_unref(timeline, stream->busy_gate);
        stream->busy_gate = 0;
    }
}

/* New tail; takes over the caller's reference to its gate. */
static void stream_set_tail(pleat_timeline_t *timeline, pleat_sim_stream_t *stream,
                            pleat_position_t tail)
{
    const uint32_t old = stream->tail.gate;
    stream->tail = tail;
    pleat_gate_unref(timeline, old);
}

static void note_end(pleat_timeline_t *timeline, uint64_t end_ns)
{
    if (end_ns > timeline->latest_end_ns) {
        timeline->latest_end_ns = end_ns;
    }
}

pleat_status_t pleat_timeline_launch(pleat_timeline_t *timeline, pleat_stream_t stream,
                                     uint64_t duration_ns)
{
    pleat_sim_stream_t *queue = NULL;
    const pleat_status_t status = stream_find_or_add(timeline, stream, &queue);
    if (status != PLEAT_OK) {
        return status;
    }
    pleat_position_t *tail = &queue->tail;
    if (tail->gate == 0 && tail->ns < timeline->clock_ns) {
        tail->ns = timeline->clock_ns;
    }
    tail->ns = pleat_ns_add(tail->ns, duration_ns);
    if (tail->gate == 0) {
        note_end(timeline, tail->ns);
    } else if (tail->ns > timeline->gates[tail->gate].max_offset_ns) {
        timeline->gates[tail->gate].max_offset_ns = tail->ns;
    }
    return PLEAT_OK;
}

pleat_status_t pleat_timeline_set_busy(pleat_timeline_t *timeline, pleat_stream_t stream)
{
    pleat_status_t status = pleat_gate_reserve(timeline);
    if (status != PLEAT_OK) {
        return status;
    }
    pleat_sim_stream_t *queue = NULL;
    status = stream_find_or_add(timeline, stream, &queue);
    if (status != PLEAT_OK) {
        return status;
    }
    stream_settle_busy(timeline, queue);
    if (queue->busy_gate != 0) {
        return PLEAT_OK;
    }
    const uint32_t gate =
        pleat_gate_make(timeline, true, queue->tail, (pleat_position_t){.gate = 0});
    pleat_gate_ref(timeline, gate);
    queue->busy_gate = gate;
    stream_set_tail(timeline, queue, (pleat_position_t){.gate = gate, .ns = 0});
    return PLEAT_OK;
}

/* Finish what a position stands for. Its gate is kept by the caller's reference. */
static bool position_finish(pleat_timeline_t *timeline, pleat_position_t *position)
{
    bool is_waited = false;
    pleat_position_settle(timeline, position);
    if (position->gate != 0) {
        pleat_gate_force(timeline, position->gate);
        PLEAT_ASSERT(timeline->gates[position->gate].is_open);
        pleat_position_settle(timeline, position);
        is_waited = true;
    }
    if (position->ns > timeline->clock_ns) {
        timeline->clock_ns = position->ns;
        is_waited = true;
    }
    return is_waited;
}

bool pleat_timeline_finish_stream(pleat_timeline_t *timeline, pleat_stream_t stream)
{
    pleat_sim_stream_t *queue = stream_find(timeline, stream);
    if (queue == NULL) {
        return false;
    }
    const bool is_waited = position_finish(timeline, &queue->tail);
    stream_settle_busy(timeline, queue);
    return is_waited;
}

bool pleat_timeline_finish_all(pleat_timeline_t *timeline)
{
    bool is_waited = timeline->busy_head != 0;
    while (timeline->busy_head != 0) {
        pleat_gate_release(timeline, timeline->busy_head);
    }
    if (timeline->latest_end_ns > timeline->clock_ns) {
        timeline->clock_ns = timeline->latest_end_ns;
        is_waited = true;
    }
    return is_waited;
}

static pleat_status_t events_grow(pleat_timeline_t *timeline)
{
    const uint32_t old = timeline->event_capacity;
    const uint32_t capacity = old == 0 ? FIRST_EVENTS : 2 * old;
    pleat_sim_event_t *events =
        old >= MAX_EVENTS ? NULL : realloc(timeline->events, (size_t)capacity * sizeof *events);
    if (events == NULL) {
        pleat_error_set("no host memory for %u events", capacity);
        return PLEAT_ERR_OOM_HOST;
    }
    timeline->events = events;
    timeline->event_capacity = capacity;
    for (uint32_t i = capacity; i-- > old;) {
        events[i] = (pleat_sim_event_t){.ns = timeline->event_free_head};
        timeline->event_free_head = i + 1;
    }
    return PLEAT_OK;
}

/* A handle is the index + 1 and, above it, the generation, so that a destroyed event is known. */
static uint32_t event_index(pleat_event_t event)
{
    return (uint32_t)event - 1;
}

pleat_status_t pleat_timeline_event_create(pleat_timeline_t *timeline, pleat_event_t *event_out)
{
    if (timeline->event_free_head == 0) {
        const pleat_status_t status = events_grow(timeline);
        if (status != PLEAT_OK) {
            return status;
        }
    }
    const uint32_t index = timeline->event_free_head - 1;
    pleat_sim_event_t *record = &timeline->events[index];
    timeline->event_free_head = (uint32_t)record->ns;
    *record = (pleat_sim_event_t){.generation = record->generation + 1};
    PLEAT_ASSERT(record->generation % 2 == 1);
    timeline->event_count++;
    *event_out = ((uint64_t)record->generation << 32) | (index + 1);
    return PLEAT_OK;
}

bool pleat_timeline_event_is_live(const pleat_timeline_t *timeline, pleat_event_t event)
{
    const uint32_t index = event_index(event);
    const uint32_t generation = (uint32_t)(event >> 32);
    return index < timeline->event_capacity && generation % 2 == 1 &&
           timeline->events[index].generation == generation;
}

/* The record of a live event, settled. */
static pleat_sim_event_t *event_find(pleat_timeline_t *timeline, pleat_event_t event)
{
    PLEAT_ASSERT(pleat_timeline_event_is_live(timeline, event));
    return &timeline->events[event_index(event)];
}

void pleat_timeline_event_destroy(pleat_timeline_t *timeline, pleat_event_t event)
{
    pleat_sim_event_t *record = event_find(timeline, event);
    pleat_gate_unref(timeline, record->gate);
    *record =
        (pleat_sim_event_t){.ns = timeline->event_free_head, .generation = record->generation + 1};
    timeline->event_free_head = event_index(event) + 1;
    timeline->event_count--;
}

void pleat_timeline_event_record(pleat_timeline_t *timeline, pleat_event_t event,
                                 pleat_stream_t stream)
{
    pleat_sim_event_t *record = event_find(timeline, event);
    const uint32_t old = record->gate;
    const pleat_sim_stream_t *queue = stream_find(timeline, stream);
    record->gate = queue == NULL ? 0 : queue->tail.gate;
    record->ns = queue == NULL ? 0 : queue->tail.ns;
    pleat_gate_ref(timeline, record->gate);
    pleat_gate_unref(timeline, old);
}

static pleat_position_t event_settle(pleat_timeline_t *timeline, pleat_sim_event_t *record)
{
    pleat_position_t position = {.gate = record->gate, .ns = record->ns};
    if (position.gate != 0) {
        pleat_position_settle(timeline, &position);
        record->gate = position.gate;
        record->ns = position.ns;
    }
    return position;
}

static bool position_is_complete(const pleat_timeline_t *timeline, pleat_position_t position)
{
    return position.gate == 0 && position.ns <= timeline->clock_ns;
}

bool pleat_timeline_event_is_complete(pleat_timeline_t *timeline, pleat_event_t event)
{
    return position_is_complete(timeline, event_settle(timeline, event_find(timeline, event)));
}

bool pleat_timeline_event_finish(pleat_timeline_t *timeline, pleat_event_t event)
{
    pleat_sim_event_t *record = event_find(timeline, event);
    pleat_position_t position = {.gate = record->gate, .ns = record->ns};
    const bool is_waited = position_finish(timeline, &position);
    record->gate = position.gate;
    record->ns = position.ns;
    return is_waited;
}

pleat_status_t pleat_timeline_wait_event(pleat_timeline_t *timeline, pleat_stream_t stream,
                                         pleat_event_t event)
{
    const pleat_position_t awaited = event_settle(timeline, event_find(timeline, event));
    if (position_is_complete(timeline, awaited)) {
        return PLEAT_OK;
    }
    pleat_status_t status = pleat_gate_reserve(timeline);
    if (status != PLEAT_OK) {
        return status;
    }
    pleat_sim_stream_t *queue = NULL;
    status = stream_find_or_add(timeline, stream, &queue);
    if (status != PLEAT_OK) {
        return status;
    }
    pleat_position_t *tail = &queue->tail;
    if (tail->gate == awaited.gate) {
        /* Both are points in time, or both stand behind the same gate: the later one counts. */
        tail->ns = awaited.ns > tail->ns ? awaited.ns : tail->ns;
        return PLEAT_OK;
    }
    const uint32_t gate = pleat_gate_make(timeline, false, *tail, awaited);
    stream_set_tail(timeline, queue, (pleat_position_t){.gate = gate, .ns = 0});
    return PLEAT_OK;
}
