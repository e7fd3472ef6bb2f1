/*
 * gate: opening of gates in the order of what they wait for; see gate.h and timeline.h.
 *
 * All walks use lists inside the gates, no recursion: chains of streams that wait for each other
 * may be as long as the caller likes.
 */
#include "gate.h"

#include <stdlib.h>

#define FIRST_GATES 64u
#define MAX_GATES (UINT32_MAX / 2) /* a link is a gate and one bit */

pleat_status_t pleat_gate_reserve(pleat_timeline_t *timeline)
{
    if (timeline->gate_free_head != 0) {
        return PLEAT_OK;
    }
    const uint32_t old = timeline->gate_capacity;
    const uint32_t capacity = old == 0 ? FIRST_GATES : 2 * old;
    pleat_gate_t *gates =
        old > MAX_GATES / 2 ? NULL : realloc(timeline->gates, (size_t)capacity * sizeof *gates);
    if (gates == NULL) {
        pleat_error_set("no host memory for %u points of waiting streams", capacity);
        return PLEAT_ERR_OOM_HOST;
    }
    timeline->gates = gates;
    timeline->gate_capacity = capacity;
    gates[0] = (pleat_gate_t){.is_open = true};
    for (uint32_t i = capacity; i-- > (old == 0 ? 1 : old);) {
        gates[i] = (pleat_gate_t){.next_in_work = timeline->gate_free_head};
        timeline->gate_free_head = i;
    }
    return PLEAT_OK;
}

void pleat_gate_ref(pleat_timeline_t *timeline, uint32_t gate)
{
    if (gate != 0) {
        timeline->gates[gate].references++;
    }
}

void pleat_gate_unref(pleat_timeline_t *timeline, uint32_t gate)
{
    if (gate == 0) {
        return;
    }
    pleat_gate_t *record = &timeline->gates[gate];
    PLEAT_ASSERT(record->references > 0);
    if (--record->references == 0) {
        /* A closed gate is some stream's tail, its busy mark, or the parent of a closed gate. */
        PLEAT_ASSERT(record->is_open);
        *record = (pleat_gate_t){.next_in_work = timeline->gate_free_head};
        timeline->gate_free_head = gate;
    }
}

void pleat_position_settle(pleat_timeline_t *timeline, pleat_position_t *position)
{
    if (position->gate == 0 || !timeline->gates[position->gate].is_open) {
        return;
    }
    const uint64_t ns = pleat_ns_add(timeline->gates[position->gate].start_ns, position->ns);
    pleat_gate_unref(timeline, position->gate);
    *position = (pleat_position_t){.gate = 0, .ns = ns};
}

/* Put a position before a new gate: as a parent if it is behind a closed gate, else as a time. */
static void gate_add_parent(pleat_timeline_t *timeline, uint32_t gate, unsigned slot,
                            pleat_position_t position)
{
    pleat_gate_t *child = &timeline->gates[gate];
    if (position.gate == 0) {
        child->start_ns = position.ns > child->start_ns ? position.ns : child->start_ns;
        return;
    }
    pleat_gate_t *parent = &timeline->gates[position.gate];
    PLEAT_ASSERT(!parent->is_open);
    child->parents[slot] = position.gate;
    child->parent_offset_ns[slot] = position.ns;
    child->next_sibling[slot] = parent->first_child;
    parent->first_child = gate * 2 + slot;
    parent->references++;
}

uint32_t pleat_gate_make(pleat_timeline_t *timeline, bool is_busy, pleat_position_t first,
                         pleat_position_t second)
{
    PLEAT_ASSERT(timeline->gate_free_head != 0);
    PLEAT_ASSERT(is_busy || first.gate != 0 || second.gate != 0);
    const uint32_t gate = timeline->gate_free_head;
    pleat_gate_t *record = &timeline->gates[gate];
    timeline->gate_free_head = record->next_in_work;
    *record = (pleat_gate_t){.references = 1, .is_busy = is_busy};
    gate_add_parent(timeline, gate, 0, first);
    gate_add_parent(timeline, gate, 1, second);
    if (is_busy) {
        record->busy_next = timeline->busy_head;
        if (timeline->busy_head != 0) {
            timeline->gates[timeline->busy_head].busy_previous = gate;
        }
        timeline->busy_head = gate;
    }
    return gate;
}

static bool gate_can_open(const pleat_gate_t *gate)
{
    return !gate->is_busy && gate->parents[0] == 0 && gate->parents[1] == 0;
}

/* Tell all children of a gate that it has opened; those that may open now join the list of work. */
static void gate_tell_children(pleat_timeline_t *timeline, uint32_t gate, uint32_t *work_head)
{
    pleat_gate_t *gates = timeline->gates;
    const uint64_t start_ns = gates[gate].start_ns;
    uint32_t link = gates[gate].first_child;
    gates[gate].first_child = 0;
    while (link != 0) {
        const uint32_t child = link / 2;
        const unsigned slot = link % 2;
        pleat_gate_t *below = &gates[child];
        link = below->next_sibling[slot];
        const uint64_t ns = pleat_ns_add(start_ns, below->parent_offset_ns[slot]);
        below->start_ns = ns > below->start_ns ? ns : below->start_ns;
        below->parents[slot] = 0;
        if (gate_can_open(below)) {
            below->next_in_work = *work_head;
            *work_head = child;
        }
        /* The child's reference; the last one may end the gate, which is not read any more. */
        pleat_gate_unref(timeline, gate);
    }
}

/* Open a gate and every gate that waited for nothing else. */
static void gate_open(pleat_timeline_t *timeline, uint32_t gate)
{
    pleat_gate_t *gates = timeline->gates;
    gates[gate].next_in_work = 0;
    for (uint32_t head = gate; head != 0;) {
        const uint32_t current = head;
        head = gates[current].next_in_work;
        gates[current].is_open = true;
        const uint64_t end_ns = pleat_ns_add(gates[current].start_ns, gates[current].max_offset_ns);
        if (end_ns > timeline->latest_end_ns) {
            timeline->latest_end_ns = end_ns;
        }
        gate_tell_children(timeline, current, &head);
    }
}

void pleat_gate_release(pleat_timeline_t *timeline, uint32_t gate)
{
    pleat_gate_t *record = &timeline->gates[gate];
    PLEAT_ASSERT(record->is_busy);
    PLEAT_ASSERT(!record->is_open);
    if (record->busy_previous != 0) {
        timeline->gates[record->busy_previous].busy_next = record->busy_next;
    } else {
        timeline->busy_head = record->busy_next;
    }
    if (record->busy_next != 0) {
        timeline->gates[record->busy_next].busy_previous = record->busy_previous;
    }
    record->busy_previous = 0;
    record->busy_next = 0;
    record->is_busy = false;
    if (record->start_ns < timeline->clock_ns) {
        record->start_ns = timeline->clock_ns;
    }
    if (gate_can_open(record)) {
        gate_open(timeline, gate);
    }
}

void pleat_gate_force(pleat_timeline_t *timeline, uint32_t gate)
{
    pleat_gate_t *gates = timeline->gates;
    const uint64_t stamp = ++timeline->visit_stamp;
    uint32_t collected = 0;
    gates[gate].next_in_work = 0;
    gates[gate].visit_stamp = stamp;
    for (uint32_t head = gate; head != 0;) {
        const uint32_t current = head;
        head = gates[current].next_in_work;
        if (gates[current].is_busy) {
            gates[current].next_collected = collected;
            collected = current;
        }
        for (unsigned slot = 0; slot < 2; slot++) {
            const uint32_t parent = gates[current].parents[slot];
            if (parent != 0 && gates[parent].visit_stamp != stamp) {
                gates[parent].visit_stamp = stamp;
                gates[parent].next_in_work = head;
                head = parent;
            }
        }
    }
    while (collected != 0) {
        const uint32_t next = gates[collected].next_collected;
        pleat_gate_release(timeline, collected);
        collected = next;
    }
}
