/*
 * capture_order: marks, and walks up from the last nodes of a stream.
 */
#include "capture_order.h"

#include <stdlib.h>
#include <string.h>

#include "../vmm/vmm.h"
#include "waiting.h"

/* ---- lists and sets of nodes; false: no host memory ---- */

static bool list_reserve(pleat_node_list_t *list, size_t count)
{
    if (count <= list->capacity) {
        return true;
    }
    const size_t capacity = count < 32 ? 64 : 2 * count;
    pleat_node_t *nodes = realloc(list->nodes, capacity * sizeof(*nodes));
    if (nodes == NULL) {
        return false;
    }
    list->nodes = nodes;
    list->capacity = capacity;
    return true;
}

static bool list_append(pleat_node_list_t *list, const pleat_node_t *nodes, size_t count)
{
    if (!list_reserve(list, list->count + count)) {
        return false;
    }
    if (count > 0) {
        memcpy(&list->nodes[list->count], nodes, count * sizeof(*nodes));
        list->count += count;
    }
    return true;
}

/* Where @p node is in the slots, or the empty slot where it would be. The hash is multiplicative,
 * as that of the address map. */
static size_t set_slot(const pleat_node_set_t *set, pleat_node_t node)
{
    const size_t mask = set->slot_count - 1;
    size_t slot = (size_t)((node * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & mask;
    while (set->slots[slot] != 0 && set->slots[slot] != node) {
        slot = (slot + 1) & mask;
    }
    return slot;
}

static bool set_has(const pleat_node_set_t *set, pleat_node_t node)
{
    return set->slot_count > 0 && set->slots[set_slot(set, node)] == node;
}

static bool set_reserve(pleat_node_set_t *set)
{
    if (2 * (set->node_count + 1) <= set->slot_count) {
        return true;
    }
    pleat_node_set_t grown = {.slot_count = set->slot_count == 0 ? 64 : 2 * set->slot_count,
                              .node_count = set->node_count};
    grown.slots = calloc(grown.slot_count, sizeof(*grown.slots));
    if (grown.slots == NULL) {
        return false;
    }
    for (size_t i = 0; i < set->slot_count; i++) {
        if (set->slots[i] != 0) {
            grown.slots[set_slot(&grown, set->slots[i])] = set->slots[i];
        }
    }
    free(set->slots);
    *set = grown;
    return true;
}

static bool set_add(pleat_node_set_t *set, pleat_node_t node)
{
    if (!set_reserve(set)) {
        return false;
    }
    set->slots[set_slot(set, node)] = node;
    set->node_count++;
    return true;
}

/* ---- what the device says ---- */

/* The last nodes of @p stream, added to @p list, and its capture; false: it does not capture, or
 * that is not known. */
static bool order_read_last(const pleat_waiting_t *waiting, pleat_stream_t stream,
                            pleat_node_list_t *list, uint64_t *capture_out)
{
    size_t count = 0;
    size_t room = 0;
    do {
        if (!list_reserve(list, list->count + count + 1)) {
            return false;
        }
        room = list->capacity - list->count;
        if (pleat_vmm_capture_last(waiting->vmm, stream, room, &list->nodes[list->count], &count,
                                   capture_out) != PLEAT_OK) {
            return false;
        }
    } while (count > room);
    list->count += count;
    return *capture_out != 0;
}

/* What @p node depends on, added to @p list. */
static bool order_read_dependencies(const pleat_waiting_t *waiting, pleat_node_t node,
                                    pleat_node_list_t *list)
{
    size_t count = 0;
    size_t room = 0;
    do {
        if (!list_reserve(list, list->count + count + 1)) {
            return false;
        }
        room = list->capacity - list->count;
        if (pleat_vmm_capture_dependencies(waiting->vmm, node, room, &list->nodes[list->count],
                                           &count) != PLEAT_OK) {
            return false;
        }
    } while (count > room);
    list->count += count;
    return true;
}

/* ---- marks ---- */

/* The last nodes of all streams that use @p block; false: there shall be no mark. */
static bool order_read_block(pleat_waiting_t *waiting, const pleat_block_t *block,
                             uint64_t *capture_out)
{
    pleat_node_list_t *last = &waiting->capture.last;
    last->count = 0;
    if (!order_read_last(waiting, block->stream, last, capture_out)) {
        return false;
    }
    for (const pleat_wait_t *use = block->uses; use != NULL; use = use->next) {
        uint64_t capture = 0;
        if (use->capture != *capture_out ||
            !order_read_last(waiting, use->stream, last, &capture) || capture != *capture_out) {
            return false;
        }
    }
    return last->count > 0;
}

void pleat_capture_order_note(pleat_waiting_t *waiting, pleat_block_t *block, pleat_stream_t stream,
                              bool is_new, bool is_asked)
{
    pleat_wait_t *use = block->uses;
    while (use->stream != stream) {
        use = use->next;
    }
    uint64_t capture = 0;
    waiting->capture.last.count = 0;
    if (!is_asked || !pleat_vmm_knows_captures(waiting->vmm) ||
        !order_read_last(waiting, stream, &waiting->capture.last, &capture)) {
        capture = 0;
    }
    use->capture = is_new || use->capture == capture ? capture : 0;
}

void pleat_capture_order_mark(pleat_waiting_t *waiting, pleat_block_t *block)
{
    PLEAT_ASSERT(block->use == PLEAT_BLOCK_USE_WAITING);
    pleat_capture_order_t *order = &waiting->capture;
    uint64_t capture = 0;
    if (!pleat_vmm_knows_captures(waiting->vmm) || !order_read_block(waiting, block, &capture)) {
        return;
    }
    const size_t bytes = order->last.count * sizeof(pleat_node_t);
    pleat_capture_mark_t *mark = malloc(sizeof(*mark) + bytes);
    if (mark == NULL) {
        return; /* the free waits as without the option */
    }
    *mark =
        (pleat_capture_mark_t){.block = block, .capture = capture, .node_count = order->last.count};
    memcpy(mark->nodes, order->last.nodes, bytes);
    pleat_capture_mark_t **link = &order->marks;
    while (*link != NULL) {
        link = &(*link)->next;
    }
    *link = mark;
}

void pleat_capture_order_unmark(pleat_capture_order_t *order, const pleat_block_t *block)
{
    for (pleat_capture_mark_t **link = &order->marks; *link != NULL; link = &(*link)->next) {
        pleat_capture_mark_t *mark = *link;
        if (mark->block == block) {
            *link = mark->next;
            free(mark);
            return;
        }
    }
}

/* ---- pasts ---- */

static void past_clear(pleat_capture_past_t *past)
{
    if (past->nodes.slot_count > 0) {
        memset(past->nodes.slots, 0, past->nodes.slot_count * sizeof(*past->nodes.slots));
    }
    past->nodes.node_count = 0;
    past->last.count = 0;
}

static pleat_capture_past_t *order_past(pleat_capture_order_t *order, pleat_stream_t stream,
                                        uint64_t capture)
{
    pleat_capture_past_t *past = order->pasts;
    while (past != NULL && (past->stream != stream || past->capture != capture)) {
        past = past->next;
    }
    if (past == NULL) {
        past = calloc(1, sizeof(*past));
        if (past != NULL) {
            past->stream = stream;
            past->capture = capture;
            past->next = order->pasts;
            order->pasts = past;
        }
    }
    return past;
}

/* One of the nodes where the last walk began was met again: those come first in the list. */
static void past_meet(pleat_capture_past_t *past, size_t *met_count, pleat_node_t node)
{
    for (size_t i = *met_count; i < past->last.count; i++) {
        if (past->last.nodes[i] == node) {
            past->last.nodes[i] = past->last.nodes[*met_count];
            past->last.nodes[*met_count] = node;
            (*met_count)++;
            return;
        }
    }
}

/* Keep those of the work from @p begin on that are new, and make them part of the past. */
static bool past_add(pleat_capture_past_t *past, pleat_node_list_t *work, size_t begin,
                     size_t *met_count)
{
    size_t kept = begin;
    for (size_t i = begin; i < work->count; i++) {
        const pleat_node_t node = work->nodes[i];
        if (set_has(&past->nodes, node)) {
            past_meet(past, met_count, node);
        } else if (set_add(&past->nodes, node)) {
            work->nodes[kept++] = node;
        } else {
            return false;
        }
    }
    work->count = kept;
    return true;
}

/* Walk up from the last nodes of the stream to what is known. @p is_whole_out: were all nodes met
 * where the last walk began, so that what is known is still the past? */
static bool past_walk(const pleat_waiting_t *waiting, pleat_capture_past_t *past,
                      const pleat_node_list_t *last, pleat_node_list_t *work, bool *is_whole_out)
{
    size_t met_count = 0;
    work->count = 0;
    if (!list_append(work, last->nodes, last->count) || !past_add(past, work, 0, &met_count)) {
        return false;
    }
    while (work->count > 0) {
        const pleat_node_t node = work->nodes[--work->count];
        const size_t begin = work->count;
        if (!order_read_dependencies(waiting, node, work) ||
            !past_add(past, work, begin, &met_count)) {
            return false;
        }
    }
    *is_whole_out = met_count == past->last.count;
    return true;
}

static bool past_update(pleat_waiting_t *waiting, pleat_capture_past_t *past)
{
    pleat_capture_order_t *order = &waiting->capture;
    bool is_whole = false;
    bool is_good = past_walk(waiting, past, &order->last, &order->work, &is_whole);
    if (is_good && !is_whole) {
        past_clear(past);
        is_good = past_walk(waiting, past, &order->last, &order->work, &is_whole);
    }
    past->last.count = 0;
    if (!is_good || !list_append(&past->last, order->last.nodes, order->last.count)) {
        past_clear(past);
        return false;
    }
    return true;
}

/* ---- looks ---- */

static bool order_has_mark(const pleat_capture_order_t *order, pleat_stream_t stream)
{
    const pleat_capture_mark_t *mark = order->marks;
    while (mark != NULL && mark->block->stream != stream) {
        mark = mark->next;
    }
    return mark != NULL;
}

const pleat_capture_past_t *pleat_capture_order_look(pleat_waiting_t *waiting,
                                                     pleat_stream_t stream)
{
    pleat_capture_order_t *order = &waiting->capture;
    uint64_t capture = 0;
    order->last.count = 0;
    if (!order_has_mark(order, stream) ||
        !order_read_last(waiting, stream, &order->last, &capture)) {
        return NULL;
    }
    pleat_capture_past_t *past = order_past(order, stream, capture);
    return past != NULL && past_update(waiting, past) ? past : NULL;
}

static bool past_has_all(const pleat_capture_past_t *past, const pleat_capture_mark_t *mark)
{
    for (size_t i = 0; i < mark->node_count; i++) {
        if (!set_has(&past->nodes, mark->nodes[i])) {
            return false;
        }
    }
    return true;
}

pleat_block_t *pleat_capture_order_find(const pleat_capture_order_t *order,
                                        const pleat_capture_past_t *past)
{
    for (const pleat_capture_mark_t *mark = order->marks; mark != NULL; mark = mark->next) {
        if (mark->block->stream == past->stream && mark->capture == past->capture &&
            past_has_all(past, mark)) {
            return mark->block;
        }
    }
    return NULL;
}

/* ---- the end ---- */

void pleat_capture_order_forget(pleat_capture_order_t *order)
{
    while (order->pasts != NULL) {
        pleat_capture_past_t *past = order->pasts;
        order->pasts = past->next;
        free(past->nodes.slots);
        free(past->last.nodes);
        free(past);
    }
}

void pleat_capture_order_fini(pleat_capture_order_t *order)
{
    PLEAT_ASSERT(order->marks == NULL);
    pleat_capture_order_forget(order);
    free(order->last.nodes);
    free(order->work.nodes);
    *order = (pleat_capture_order_t){0};
}
