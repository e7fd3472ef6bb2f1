/*
 * gate (internal): points in time that are not known yet, the part of timeline.h that deals with
 * busy streams and with streams that wait for them. timeline.c is the only user.
 *
 * Reference rule: the tail of a stream, the busy mark of a stream, an event, and each link to a
 * child hold one reference to a gate. Positions count offsets from the opening of their gate.
 */
#ifndef PLEAT_GATE_H
#define PLEAT_GATE_H

#include "timeline.h"

/* A point behind a gate, or, with gate 0, a point in time. */
typedef struct pleat_position {
    uint32_t gate;
    uint64_t ns;
} pleat_position_t;

struct pleat_gate {
    uint64_t start_ns;      /* closed: a lower bound; open: when it opened */
    uint64_t max_offset_ns; /* furthest work launched behind it */
    uint32_t references;
    uint32_t first_child; /* link: gate * 2 + parent slot, 0: none */
    uint32_t parents[2];  /* closed ones only, 0: none */
    uint64_t parent_offset_ns[2];
    uint32_t next_sibling[2]; /* links in the child lists of the parents */
    uint32_t busy_previous;
    uint32_t busy_next;
    uint32_t next_in_work; /* list of a walk; in the free list: the next free gate */
    uint32_t next_collected;
    uint64_t visit_stamp;
    bool is_open;
    bool is_busy; /* stays closed until released */
};

/** Saturating, because durations are the caller's. */
static inline uint64_t pleat_ns_add(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/** Make sure that one gate can be made. @retval PLEAT_ERR_OOM_HOST no host memory. */
PLEAT_NODISCARD pleat_status_t pleat_gate_reserve(pleat_timeline_t *timeline);

/**
 * Make a closed gate, one must be reserved: busy, or a join of two positions of which at least one
 * is behind a closed gate. @return its index; the caller owns one reference.
 */
uint32_t pleat_gate_make(pleat_timeline_t *timeline, bool is_busy, pleat_position_t first,
                         pleat_position_t second);

/** One more reference to a gate; 0 is ignored. */
void pleat_gate_ref(pleat_timeline_t *timeline, uint32_t gate);

/** One reference less to a gate; 0 is ignored. */
void pleat_gate_unref(pleat_timeline_t *timeline, uint32_t gate);

/** Turn a position behind an open gate into a point in time; gives up its reference. */
void pleat_position_settle(pleat_timeline_t *timeline, pleat_position_t *position);

/** Release a busy gate: its stream's busy work ends now. Opens what waited for nothing else. */
void pleat_gate_release(pleat_timeline_t *timeline, uint32_t gate);

/** Release all closed busy gates among @p gate and its ancestors, so that it opens. */
void pleat_gate_force(pleat_timeline_t *timeline, uint32_t gate);

#endif
