/*
 * timeline (internal): the simulated device's order of things: a logical clock, streams of work and
 * events. Nothing here costs or fails by order; sim.c charges calls and injects faults.
 *
 * Position. Work on a stream is a point in time once that is known: the stream's end. Behind a busy
 * stream it is not known: then it is a gate and an offset, the time behind the gate's opening. A
 * busy gate opens when the stream is finished; a join gate (a stream that waits for an event which
 * is itself behind a gate) opens when its parents have opened, and begins where the later one ends.
 *
 *   stream 1   busy gate A ----+100 event e      e: A + 100
 *   stream 2   ... wait for e: join gate B ----+5 event f      f: B + 5, B begins at A + 100
 *
 * Invariants:
 *   L1  A closed gate has a closed busy gate among itself and its ancestors.
 *   L2  No open gate has parents or children; a gate without references does not exist.
 *   L3  Every known end of work is at most latest_end_ns.
 *   L4  The clock never goes back.
 * An event is 16 bytes, its query constant-time; streams without work take no room.
 * No lock: guarded by the owner of the device.
 */
#ifndef PLEAT_TIMELINE_H
#define PLEAT_TIMELINE_H

#include "base.h"

typedef struct pleat_gate pleat_gate_t;
typedef struct pleat_sim_stream pleat_sim_stream_t;
typedef struct pleat_sim_event pleat_sim_event_t;

typedef struct pleat_timeline {
    uint64_t clock_ns;
    uint64_t latest_end_ns;
    pleat_sim_stream_t *streams;
    uint32_t stream_count;
    uint32_t stream_capacity;
    uint32_t *stream_slots; /* open addressing by handle; index + 1, 0: empty */
    uint32_t stream_slot_count;
    pleat_gate_t *gates; /* index 0 is no gate */
    uint32_t gate_capacity;
    uint32_t gate_free_head;
    uint32_t busy_head; /* closed busy gates */
    uint64_t visit_stamp;
    pleat_sim_event_t *events;
    uint32_t event_capacity;
    uint32_t event_free_head; /* index + 1 */
    uint64_t event_count;
} pleat_timeline_t;

void pleat_timeline_init(pleat_timeline_t *timeline);

/** Frees everything, live events included. */
void pleat_timeline_fini(pleat_timeline_t *timeline);

/** Move the clock on; it stays at UINT64_MAX once there. */
void pleat_timeline_charge(pleat_timeline_t *timeline, uint64_t cost_ns);

/** Move the clock to at least @p clock_ns. */
void pleat_timeline_advance_to(pleat_timeline_t *timeline, uint64_t clock_ns);

/* Work. @retval PLEAT_ERR_OOM_HOST no room for a stream or a gate; nothing changed. */
PLEAT_NODISCARD pleat_status_t pleat_timeline_launch(pleat_timeline_t *timeline,
                                                     pleat_stream_t stream, uint64_t duration_ns);
PLEAT_NODISCARD pleat_status_t pleat_timeline_set_busy(pleat_timeline_t *timeline,
                                                       pleat_stream_t stream);

/**
 * Finish the work of a stream: opens the gates that it stands behind, on other streams too, and
 * moves the clock to the stream's end. @return was there unfinished work?
 */
bool pleat_timeline_finish_stream(pleat_timeline_t *timeline, pleat_stream_t stream);

/** Finish all work. @return was there unfinished work? */
bool pleat_timeline_finish_all(pleat_timeline_t *timeline);

/** @retval PLEAT_ERR_OOM_HOST no room for an event. */
PLEAT_NODISCARD pleat_status_t pleat_timeline_event_create(pleat_timeline_t *timeline,
                                                           pleat_event_t *event_out);

/** Is this a live event? The calls below need one. @par Cost constant. */
bool pleat_timeline_event_is_live(const pleat_timeline_t *timeline, pleat_event_t event);

/** Streams that wait for the event go on waiting for the work that it stood for. */
void pleat_timeline_event_destroy(pleat_timeline_t *timeline, pleat_event_t event);

/** Let the event stand for all work that is on @p stream now. */
void pleat_timeline_event_record(pleat_timeline_t *timeline, pleat_event_t event,
                                 pleat_stream_t stream);

/** Is the work complete that the event stands for? @par Cost constant. */
bool pleat_timeline_event_is_complete(pleat_timeline_t *timeline, pleat_event_t event);

/** Finish the work that the event stands for. @return was it unfinished? */
bool pleat_timeline_event_finish(pleat_timeline_t *timeline, pleat_event_t event);

/** Later work on @p stream starts behind the event. @retval PLEAT_ERR_OOM_HOST nothing changed. */
PLEAT_NODISCARD pleat_status_t pleat_timeline_wait_event(pleat_timeline_t *timeline,
                                                         pleat_stream_t stream,
                                                         pleat_event_t event);

#endif
