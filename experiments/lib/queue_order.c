/*
 * queue_order: depth-first search over the queues, cut wherever the completions so far differ from
 * the recorded ones.
 */
#include "queue_order.h"

#include <stdlib.h>
#include <string.h>

#include "../../core/allocator.h"

#define QUEUES_MAX 64u
#define STEPS_MAX 20000u

typedef struct order_wait {
    pleat_stream_t stream;
    uint32_t block; /* index into pending */
    bool is_ready;
} order_wait_t;

typedef struct order_queue {
    pleat_stream_t stream;
    size_t first; /* into waits */
    size_t count;
    bool is_visited;
} order_queue_t;

struct pleat_queue_order {
    order_wait_t *waits;
    size_t wait_count;
    size_t capacity; /* of waits, addresses and pending */
    pleat_devptr_t *addresses;
    uint32_t *pending; /* waits of the block that are not over */
    size_t block_count;
    order_queue_t queues[QUEUES_MAX];
    size_t queue_count;
    pleat_stream_t chosen[QUEUES_MAX]; /* the order found, or that of the call before */
    size_t chosen_count;
    size_t steps;
    bool has_failed; /* no host memory, or too many queues */
};

/* What a search is for. */
typedef struct order_goal {
    const pleat_devptr_t *addresses;
    size_t count;
    bool can_wait;
} order_goal_t;

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
    free(order->pending);
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
    uint32_t *pending = realloc(order->pending, capacity * sizeof(*pending));
    if (pending != NULL) {
        order->pending = pending;
    }
    if (waits == NULL || addresses == NULL || pending == NULL) {
        return false;
    }
    order->capacity = capacity;
    return true;
}

static uint32_t order_block(pleat_queue_order_t *order, pleat_devptr_t address)
{
    size_t i = 0;
    while (i < order->block_count && order->addresses[i] != address) {
        i++;
    }
    if (i == order->block_count) {
        order->addresses[i] = address;
        order->pending[i] = 0;
        order->block_count++;
    }
    return (uint32_t)i;
}

/* Visitor of the engine's waiting frees; queues come one after the other. */
static void order_add(void *context, pleat_stream_t stream, pleat_devptr_t address, bool is_ready)
{
    pleat_queue_order_t *order = context;
    const bool is_new =
        order->queue_count == 0 || order->queues[order->queue_count - 1].stream != stream;
    if (order->has_failed || (is_new && order->queue_count == QUEUES_MAX) || !order_grow(order)) {
        order->has_failed = true;
        return;
    }
    if (is_new) {
        order->queues[order->queue_count++] =
            (order_queue_t){.stream = stream, .first = order->wait_count};
    }
    const uint32_t block = order_block(order, address);
    order->pending[block]++;
    order->waits[order->wait_count++] =
        (order_wait_t){.stream = stream, .block = block, .is_ready = is_ready};
    order->queues[order->queue_count - 1].count++;
}

/*
 * End the first @p done_count waits of a queue, or all that are ready. Returns the number of waits
 * ended; @p position moves over the completions that match the goal; *is_match_out: all did.
 */
static size_t order_drain(pleat_queue_order_t *order, const order_queue_t *queue,
                          const order_goal_t *goal, size_t *position, bool *is_match_out)
{
    size_t ended = 0;
    *is_match_out = true;
    while (ended < queue->count && *is_match_out) {
        const order_wait_t *wait = &order->waits[queue->first + ended];
        if (!wait->is_ready && !goal->can_wait) {
            break;
        }
        ended++;
        if (--order->pending[wait->block] == 0) {
            *is_match_out = *position < goal->count &&
                            goal->addresses[*position] == order->addresses[wait->block];
            *position += *is_match_out ? 1 : 0;
        }
    }
    return ended;
}

static void order_undo(pleat_queue_order_t *order, const order_queue_t *queue, size_t ended)
{
    for (size_t i = 0; i < ended; i++) {
        order->pending[order->waits[queue->first + i].block]++;
    }
}

/* Extend an order of @p depth queues to one that completes the goal from @p position on. */
static bool order_search(pleat_queue_order_t *order, const order_goal_t *goal, size_t depth,
                         size_t position)
{
    if (depth == order->queue_count) {
        /* What is left completes in a later step of the call, which waits for everything. */
        return true;
    }
    for (size_t i = 0; i < order->queue_count && order->steps < STEPS_MAX; i++) {
        order_queue_t *queue = &order->queues[i];
        if (queue->is_visited) {
            continue;
        }
        order->steps++;
        queue->is_visited = true;
        size_t next = position;
        bool is_match = false;
        const size_t ended = order_drain(order, queue, goal, &next, &is_match);
        order->chosen[depth] = queue->stream;
        const bool is_found = is_match && order_search(order, goal, depth + 1, next);
        order_undo(order, queue, ended);
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
                                     const pleat_devptr_t *addresses, size_t count, bool can_wait)
{
    if (count < 2) {
        return PLEAT_OK; /* one completion leaves nothing to decide */
    }
    order->wait_count = 0;
    order->block_count = 0;
    order->queue_count = 0;
    order->steps = 0;
    order->has_failed = false;
    pleat_allocator_visit_waiting(allocator, order_add, order);
    if (order->has_failed || order->queue_count < 2) {
        return PLEAT_OK;
    }
    order_sort_as_before(order);
    const order_goal_t goal = {.addresses = addresses, .count = count, .can_wait = can_wait};
    if (!order_search(order, &goal, 0, 0)) {
        order->chosen_count = 0;
        return PLEAT_OK;
    }
    order->chosen_count = order->queue_count;
    return pleat_allocator_set_stream_order(allocator, order->chosen, order->chosen_count);
}
