/*
 * queue_order: depth-first search over the queues, cut wherever the completions so far differ from
 * the recorded ones.
 *
 * A call looks at the queues up to two times: an allocation polls them, which ends the waits that
 * are ready in front of each, and may later wait for all that is left; empty_cache only waits. Both
 * go through the queues in the same order. Which waits end in which phase, and so how many frees
 * complete in each, does not depend on that order. So the recorded sequence is known to be cut in
 * two at a certain place, and a search follows both parts at once.
 */
#include "queue_order.h"

#include <stdlib.h>
#include <string.h>

#include "../../core/allocator.h"

#define QUEUES_MAX 64u
#define STEPS_MAX 20000u

enum { PHASE_POLL, PHASE_WAIT, PHASE_COUNT };

typedef struct order_wait {
    pleat_stream_t stream;
    uint32_t block; /* index into addresses and pending */
    size_t index;   /* in the order in which they were found */
    bool is_ready;
} order_wait_t;

typedef struct order_queue {
    pleat_stream_t stream;
    size_t begin[PHASE_COUNT + 1]; /* into waits: where each phase begins, and the end */
    bool is_visited;
} order_queue_t;

struct pleat_queue_order {
    order_wait_t *waits;
    size_t wait_count;
    size_t capacity; /* of waits, addresses and pending */
    pleat_devptr_t *addresses;
    uint32_t *pending[PHASE_COUNT]; /* waits of the block that are not over, in each phase */
    size_t block_count;
    order_queue_t queues[QUEUES_MAX];
    size_t queue_count;
    pleat_stream_t chosen[QUEUES_MAX]; /* the order found, or that of the call before */
    size_t chosen_count;
    size_t steps;
    bool has_no_memory;
    bool has_too_many; /* queues */
};

/* What a search is for: the completions of both phases, those of phase p from begin[p] on. */
typedef struct order_goal {
    const pleat_devptr_t *addresses;
    size_t begin[PHASE_COUNT + 1];
} order_goal_t;

/* How far a search has come. */
typedef struct order_state {
    size_t depth;                 /* queues placed */
    size_t position[PHASE_COUNT]; /* next completion of each phase */
} order_state_t;

pleat_queue_order_t *pleat_queue_order_create(void)
{
    return calloc(1, sizeof(pleat_queue_order_t));
}

void pleat_queue_order_destroy(pleat_queue_order_t *order)
{
    if (order == NULL) {
        return;
    }
    free(order->waits);
    free(order->addresses);
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        free(order->pending[phase]);
    }
    free(order);
}

static bool order_grow(pleat_queue_order_t *order)
{
    if (order->wait_count < order->capacity) {
        return true;
    }
    const size_t capacity = order->capacity == 0 ? 64 : order->capacity * 2;
    order_wait_t *waits = realloc(order->waits, capacity * sizeof(*waits));
    if (waits != NULL) {
        order->waits = waits;
    }
    pleat_devptr_t *addresses = realloc(order->addresses, capacity * sizeof(*addresses));
    if (addresses != NULL) {
        order->addresses = addresses;
    }
    bool has_room = waits != NULL && addresses != NULL;
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        uint32_t *pending = realloc(order->pending[phase], capacity * sizeof(*pending));
        if (pending != NULL) {
            order->pending[phase] = pending;
        }
        has_room = has_room && pending != NULL;
    }
    order->capacity = has_room ? capacity : order->capacity;
    return has_room;
}

static uint32_t order_block(pleat_queue_order_t *order, pleat_devptr_t address)
{
    size_t i = 0;
    while (i < order->block_count && order->addresses[i] != address) {
        i++;
    }
    if (i == order->block_count) {
        order->addresses[i] = address;
        order->pending[PHASE_POLL][i] = 0;
        order->block_count++;
    }
    return (uint32_t)i;
}

/* Visitor of the engine's waiting frees, and of deferred ones that join the same queues behind. */
static void order_add(void *context, pleat_stream_t stream, pleat_devptr_t address, bool is_ready)
{
    pleat_queue_order_t *order = context;
    if (order->has_no_memory || !order_grow(order)) {
        order->has_no_memory = true;
        return;
    }
    const uint32_t block = order_block(order, address);
    order->pending[PHASE_POLL][block]++;
    order->waits[order->wait_count] = (order_wait_t){
        .stream = stream, .block = block, .index = order->wait_count, .is_ready = is_ready};
    order->wait_count++;
}

static int order_compare(const void *left, const void *right)
{
    const order_wait_t *a = left;
    const order_wait_t *b = right;
    if (a->stream != b->stream) {
        return a->stream < b->stream ? -1 : 1;
    }
    return a->index < b->index ? -1 : 1;
}

/* Sort the waits into queues. */
static void order_build_queues(pleat_queue_order_t *order)
{
    if (order->wait_count > 0) {
        qsort(order->waits, order->wait_count, sizeof(*order->waits), order_compare);
    }
    for (size_t i = 0; i < order->wait_count && !order->has_too_many; i++) {
        const pleat_stream_t stream = order->waits[i].stream;
        if (i == 0 || order->waits[i - 1].stream != stream) {
            order->has_too_many = order->queue_count == QUEUES_MAX;
            if (!order->has_too_many) {
                order->queues[order->queue_count++] =
                    (order_queue_t){.stream = stream, .begin = {[PHASE_POLL] = i}};
            }
        }
        order->queues[order->queue_count - 1].begin[PHASE_COUNT] = i + 1;
    }
}

/* Decide which waits end in the poll, and with them which are left for the wait. Returns how many
 * frees complete in the poll. */
static size_t order_part(pleat_queue_order_t *order, bool has_poll)
{
    for (size_t block = 0; block < order->block_count; block++) {
        order->pending[PHASE_WAIT][block] = order->pending[PHASE_POLL][block];
    }
    size_t completed = 0;
    for (size_t i = 0; i < order->queue_count; i++) {
        order_queue_t *queue = &order->queues[i];
        size_t next = queue->begin[PHASE_POLL];
        while (has_poll && next < queue->begin[PHASE_COUNT] && order->waits[next].is_ready) {
            completed += --order->pending[PHASE_WAIT][order->waits[next].block] == 0 ? 1 : 0;
            next++;
        }
        queue->begin[PHASE_WAIT] = next;
    }
    return completed;
}

/* End the waits of a queue in a phase. Returns how many were ended before a completion other than
 * the goal's; *is_match_out: there was none. */
static size_t order_drain(pleat_queue_order_t *order, const order_queue_t *queue, int phase,
                          const order_goal_t *goal, order_state_t *state, bool *is_match_out)
{
    const size_t first = queue->begin[phase];
    const size_t count = queue->begin[phase + 1] - first;
    size_t ended = 0;
    *is_match_out = true;
    while (ended < count && *is_match_out) {
        const uint32_t block = order->waits[first + ended++].block;
        if (--order->pending[phase][block] == 0) {
            const size_t position = state->position[phase]++;
            *is_match_out = position < goal->begin[phase + 1] &&
                            goal->addresses[position] == order->addresses[block];
        }
    }
    return ended;
}

static void order_undo(pleat_queue_order_t *order, const order_queue_t *queue, int phase,
                       size_t ended)
{
    for (size_t i = 0; i < ended; i++) {
        order->pending[phase][order->waits[queue->begin[phase] + i].block]++;
    }
}

/* Extend an order to one that completes the goal. */
static bool order_search(pleat_queue_order_t *order, const order_goal_t *goal, order_state_t state)
{
    if (state.depth == order->queue_count) {
        return true;
    }
    for (size_t i = 0; i < order->queue_count && order->steps < STEPS_MAX; i++) {
        order_queue_t *queue = &order->queues[i];
        if (queue->is_visited) {
            continue;
        }
        order->steps++;
        queue->is_visited = true;
        order_state_t next = state;
        bool is_match = true;
        const size_t polled = order_drain(order, queue, PHASE_POLL, goal, &next, &is_match);
        size_t waited = 0;
        if (is_match && goal->begin[PHASE_WAIT] < goal->begin[PHASE_COUNT]) {
            waited = order_drain(order, queue, PHASE_WAIT, goal, &next, &is_match);
        }
        order->chosen[next.depth++] = queue->stream;
        const bool is_found = is_match && order_search(order, goal, next);
        order_undo(order, queue, PHASE_WAIT, waited);
        order_undo(order, queue, PHASE_POLL, polled);
        queue->is_visited = false;
        if (is_found) {
            return true;
        }
    }
    return false;
}

/* Try the queues in the order of the call before first. */
static void order_sort_as_before(pleat_queue_order_t *order)
{
    size_t placed = 0;
    for (size_t k = 0; k < order->chosen_count; k++) {
        for (size_t i = placed; i < order->queue_count; i++) {
            if (order->queues[i].stream == order->chosen[k]) {
                const order_queue_t queue = order->queues[i];
                memmove(&order->queues[placed + 1], &order->queues[placed],
                        (i - placed) * sizeof(queue));
                order->queues[placed++] = queue;
                break;
            }
        }
    }
}

pleat_status_t pleat_queue_order_fit(pleat_queue_order_t *order, pleat_allocator_t *allocator,
                                     const pleat_devptr_t *addresses, size_t count, bool has_poll)
{
    if (count < 2) {
        return PLEAT_OK; /* one completion leaves nothing to decide */
    }
    order->wait_count = 0;
    order->block_count = 0;
    order->queue_count = 0;
    order->steps = 0;
    order->has_no_memory = false;
    order->has_too_many = false;
    pleat_allocator_visit_waiting(allocator, order_add, order);
    const size_t early = pleat_allocator_visit_deferred(allocator, order_add, order);
    order_build_queues(order);
    if (order->has_no_memory) {
        pleat_error_set("no host memory for the order of %zu waiting frees", order->wait_count);
        return PLEAT_ERR_OOM_HOST;
    }
    if (order->has_too_many || order->queue_count < 2 || early > count) {
        return PLEAT_OK;
    }
    addresses += early;
    count -= early;
    order_sort_as_before(order);
    const size_t polled = order_part(order, has_poll);
    if (count != polled && count != order->block_count) {
        return PLEAT_OK; /* neither all that is ready nor all that waits: no order gives that */
    }
    const order_goal_t goal = {.addresses = addresses,
                               .begin = {[PHASE_WAIT] = polled, [PHASE_COUNT] = count}};
    if (!order_search(order, &goal, (order_state_t){.position = {[PHASE_WAIT] = polled}})) {
        order->chosen_count = 0;
        return PLEAT_OK;
    }
    order->chosen_count = order->queue_count;
    return pleat_allocator_set_stream_order(allocator, order->chosen, order->chosen_count);
}
