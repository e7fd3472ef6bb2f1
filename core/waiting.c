/*
 * waiting: events, queues a stream, and the order in which they are visited.
 */
#include "waiting.h"

#include "deferred.h"
#include "pool.h"

#include <stdlib.h>
#include <string.h>

void pleat_waiting_init(pleat_waiting_t *waiting, pleat_vmm_t *vmm)
{
    memset(waiting, 0, sizeof(*waiting));
    waiting->vmm = vmm;
}

void pleat_waiting_fini(pleat_waiting_t *waiting)
{
    PLEAT_ASSERT(waiting->open_count == 0);
    while (waiting->reserve != NULL) {
        pleat_wait_t *wait = waiting->reserve;
        waiting->reserve = wait->next;
        /* Nothing is left to do about an event that the device will not destroy. */
        const pleat_status_t ignored = pleat_vmm_event_destroy(waiting->vmm, wait->event);
        (void)ignored;
        free(wait);
    }
    for (size_t i = 0; i < waiting->queue_count; i++) {
        free(waiting->queues[i]);
    }
    free((void *)waiting->queues);
    free(waiting->order);
    pleat_deferred_fini(&waiting->deferred);
    pleat_capture_order_fini(&waiting->capture);
    memset(waiting, 0, sizeof(*waiting));
}

/* ---- queues ---- */

/* Index of the first queue whose stream is not below @p stream. */
static size_t waiting_queue_index(const pleat_waiting_t *waiting, pleat_stream_t stream)
{
    size_t low = 0;
    size_t high = waiting->queue_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (waiting->queues[middle]->stream < stream) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static bool waiting_has_queue(const pleat_waiting_t *waiting, size_t index, pleat_stream_t stream)
{
    return index < waiting->queue_count && waiting->queues[index]->stream == stream;
}

static bool waiting_reserve_queue(pleat_waiting_t *waiting, pleat_stream_t stream)
{
    const size_t index = waiting_queue_index(waiting, stream);
    if (waiting_has_queue(waiting, index, stream)) {
        return true;
    }
    if (waiting->queue_count == waiting->queue_capacity) {
        const size_t capacity = waiting->queue_capacity == 0 ? 8 : waiting->queue_capacity * 2;
        pleat_wait_queue_t **queues =
            (pleat_wait_queue_t **)realloc((void *)waiting->queues, capacity * sizeof(*queues));
        if (queues == NULL) {
            return false;
        }
        waiting->queues = queues;
        waiting->queue_capacity = capacity;
    }
    pleat_wait_queue_t *queue = calloc(1, sizeof(*queue));
    if (queue == NULL) {
        return false;
    }
    queue->stream = stream;
    memmove((void *)&waiting->queues[index + 1], (void *)&waiting->queues[index],
            (waiting->queue_count - index) * sizeof(*waiting->queues));
    waiting->queues[index] = queue;
    waiting->queue_count++;
    return true;
}

/* Place of a stream in the order that was set; order_count for all others. */
static size_t waiting_rank(const pleat_waiting_t *waiting, pleat_stream_t stream)
{
    size_t rank = 0;
    while (rank < waiting->order_count && waiting->order[rank] != stream) {
        rank++;
    }
    return rank;
}

static bool waiting_visits_before(const pleat_waiting_t *waiting, const pleat_wait_queue_t *a,
                                  const pleat_wait_queue_t *b)
{
    const size_t rank_a = waiting_rank(waiting, a->stream);
    const size_t rank_b = waiting_rank(waiting, b->stream);
    return rank_a != rank_b ? rank_a < rank_b : a->stream < b->stream;
}

static void waiting_activate(pleat_waiting_t *waiting, pleat_wait_queue_t *queue)
{
    pleat_wait_queue_t **link = &waiting->active;
    while (*link != NULL && waiting_visits_before(waiting, *link, queue)) {
        link = &(*link)->next_active;
    }
    queue->next_active = *link;
    *link = queue;
}

static void waiting_enqueue(pleat_waiting_t *waiting, pleat_wait_t *wait)
{
    const size_t index = waiting_queue_index(waiting, wait->stream);
    PLEAT_ASSERT(waiting_has_queue(waiting, index, wait->stream));
    pleat_wait_queue_t *queue = waiting->queues[index];
    wait->next = NULL;
    if (queue->first == NULL) {
        queue->first = wait;
        waiting_activate(waiting, queue);
    } else {
        queue->last->next = wait;
    }
    queue->last = wait;
    waiting->wait_count++;
    waiting->open_count++;
}

/* A wait is off its queue; true if it was the last one of its block. */
static bool waiting_end(pleat_waiting_t *waiting, pleat_wait_t *wait)
{
    waiting->wait_count--;
    waiting->open_count--;
    PLEAT_ASSERT(wait->block->event_count > 0);
    const bool is_last = --wait->block->event_count == 0;
    wait->block = NULL;
    wait->next = waiting->reserve;
    waiting->reserve = wait;
    return is_last;
}

/* Take the front off a queue; true if it was the last wait of its block. */
static bool waiting_end_front(pleat_waiting_t *waiting, pleat_wait_queue_t *queue)
{
    pleat_wait_t *wait = queue->first;
    queue->first = wait->next;
    return waiting_end(waiting, wait);
}

/* ---- uses ---- */

/* A wait with an event, from the reserve or new. */
static pleat_status_t waiting_take(pleat_waiting_t *waiting, pleat_wait_t **wait_out)
{
    pleat_wait_t *wait = waiting->reserve;
    if (wait != NULL) {
        waiting->reserve = wait->next;
        *wait_out = wait;
        return PLEAT_OK;
    }
    wait = calloc(1, sizeof(*wait));
    if (wait == NULL) {
        pleat_error_set("no host memory to note the use of another stream");
        return PLEAT_ERR_OOM_HOST;
    }
    const pleat_status_t status = pleat_vmm_event_create(waiting->vmm, &wait->event);
    if (status != PLEAT_OK) {
        free(wait);
        return status;
    }
    *wait_out = wait;
    return PLEAT_OK;
}

pleat_status_t pleat_waiting_note(pleat_waiting_t *waiting, pleat_block_t *block,
                                  pleat_stream_t stream)
{
    PLEAT_ASSERT(block->use == PLEAT_BLOCK_USE_LIVE);
    for (const pleat_wait_t *use = block->uses; use != NULL; use = use->next) {
        if (use->stream == stream) {
            return PLEAT_OK;
        }
    }
    if (!waiting_reserve_queue(waiting, stream)) {
        pleat_error_set("no host memory for the queue of stream %llu", (unsigned long long)stream);
        return PLEAT_ERR_OOM_HOST;
    }
    pleat_wait_t *wait = NULL;
    const pleat_status_t status = waiting_take(waiting, &wait);
    if (status != PLEAT_OK) {
        return status;
    }
    wait->block = block;
    wait->stream = stream;
    wait->is_captured = false;
    wait->capture = 0;
    wait->next = block->uses;
    block->uses = wait;
    return PLEAT_OK;
}

pleat_status_t pleat_waiting_begin(pleat_waiting_t *waiting, pleat_block_t *block)
{
    PLEAT_ASSERT(block->event_count == 0);
    /* All or nothing: an event that was recorded for nothing does no harm. */
    for (const pleat_wait_t *use = block->uses; use != NULL; use = use->next) {
        const pleat_status_t status = pleat_vmm_event_record(waiting->vmm, use->event, use->stream);
        if (status != PLEAT_OK) {
            return status;
        }
    }
    while (block->uses != NULL) {
        pleat_wait_t *wait = block->uses;
        block->uses = wait->next;
        block->event_count++;
        waiting_enqueue(waiting, wait);
    }
    return PLEAT_OK;
}

void pleat_waiting_mark_captured(pleat_block_t *block, pleat_stream_t stream)
{
    for (pleat_wait_t *use = block->uses; use != NULL; use = use->next) {
        use->is_captured = use->is_captured || use->stream == stream;
    }
}

void pleat_waiting_drop_captured(pleat_waiting_t *waiting, pleat_block_t *block, bool is_all)
{
    pleat_wait_t **link = &block->uses;
    while (*link != NULL) {
        pleat_wait_t *wait = *link;
        if (!is_all && !wait->is_captured) {
            link = &wait->next;
            continue;
        }
        *link = wait->next;
        wait->block = NULL;
        wait->next = waiting->reserve;
        waiting->reserve = wait;
    }
}

void pleat_waiting_drop_uses(pleat_waiting_t *waiting, pleat_block_t *block)
{
    pleat_waiting_drop_captured(waiting, block, true);
}

/* ---- completion ---- */

/* What is to be ended, and what for. */
typedef struct waiting_look {
    bool can_wait;                     /* all of it; else what is ready */
    const pleat_private_pool_t *owner; /* only waits of its blocks, with a wait; NULL: all */
    pleat_wait_done_fn_t done;
    void *context;
} waiting_look_t;

/* Ends what is ready (or everything) in one queue. OK or NOT_READY: go on. */
static pleat_status_t waiting_drain(pleat_waiting_t *waiting, pleat_wait_queue_t *queue,
                                    const waiting_look_t *look)
{
    while (queue->first != NULL) {
        pleat_block_t *block = queue->first->block;
        const pleat_event_t event = queue->first->event;
        const pleat_status_t status = look->can_wait
                                          ? pleat_vmm_event_synchronize(waiting->vmm, event)
                                          : pleat_vmm_event_query(waiting->vmm, event);
        if (status != PLEAT_OK) {
            return status;
        }
        if (waiting_end_front(waiting, queue)) {
            look->done(look->context, block);
        }
    }
    return PLEAT_OK;
}

/* Waits for and ends those waits of one queue that are of blocks of @p owner. */
static pleat_status_t waiting_drain_owner(pleat_waiting_t *waiting, pleat_wait_queue_t *queue,
                                          const waiting_look_t *look)
{
    pleat_wait_t **link = &queue->first;
    pleat_wait_t *kept = NULL;
    while (*link != NULL) {
        pleat_wait_t *wait = *link;
        pleat_block_t *block = wait->block;
        if (block->pool->owner != look->owner) {
            kept = wait;
            link = &wait->next;
            continue;
        }
        const pleat_status_t status = pleat_vmm_event_synchronize(waiting->vmm, wait->event);
        if (status != PLEAT_OK) {
            return status;
        }
        *link = wait->next;
        if (queue->last == wait) {
            queue->last = kept;
        }
        if (waiting_end(waiting, wait)) {
            look->done(look->context, block);
        }
    }
    return PLEAT_OK;
}

static pleat_status_t waiting_visit(pleat_waiting_t *waiting, const waiting_look_t *look)
{
    pleat_wait_queue_t **link = &waiting->active;
    while (*link != NULL) {
        pleat_wait_queue_t *queue = *link;
        const pleat_status_t status = look->owner != NULL
                                          ? waiting_drain_owner(waiting, queue, look)
                                          : waiting_drain(waiting, queue, look);
        if (queue->first == NULL) {
            *link = queue->next_active;
            queue->next_active = NULL;
        } else {
            link = &queue->next_active;
        }
        if (status != PLEAT_OK && status != PLEAT_ERR_NOT_READY) {
            return status;
        }
    }
    return PLEAT_OK;
}

pleat_status_t pleat_waiting_poll(pleat_waiting_t *waiting, pleat_wait_done_fn_t done,
                                  void *context)
{
    return waiting_visit(waiting, &(waiting_look_t){.done = done, .context = context});
}

pleat_status_t pleat_waiting_finish(pleat_waiting_t *waiting, pleat_wait_done_fn_t done,
                                    void *context)
{
    return waiting_visit(waiting,
                         &(waiting_look_t){.can_wait = true, .done = done, .context = context});
}

pleat_status_t pleat_waiting_finish_owner(pleat_waiting_t *waiting,
                                          const pleat_private_pool_t *owner,
                                          pleat_wait_done_fn_t done, void *context)
{
    return waiting_visit(
        waiting,
        &(waiting_look_t){.can_wait = true, .owner = owner, .done = done, .context = context});
}

pleat_status_t pleat_waiting_finish_one(pleat_waiting_t *waiting, pleat_wait_done_fn_t done,
                                        void *context)
{
    PLEAT_ASSERT(waiting->active != NULL);
    const pleat_status_t status =
        pleat_vmm_event_synchronize(waiting->vmm, waiting->active->first->event);
    return status != PLEAT_OK ? status : pleat_waiting_poll(waiting, done, context);
}

void pleat_waiting_abandon(pleat_waiting_t *waiting)
{
    pleat_deferred_abandon(waiting);
    while (waiting->active != NULL) {
        pleat_wait_queue_t *queue = waiting->active;
        while (queue->first != NULL) {
            (void)waiting_end_front(waiting, queue);
        }
        waiting->active = queue->next_active;
        queue->next_active = NULL;
    }
}

pleat_status_t pleat_waiting_set_order(pleat_waiting_t *waiting, const pleat_stream_t *streams,
                                       size_t count)
{
    if (count > 0) {
        pleat_stream_t *order = realloc(waiting->order, count * sizeof(*order));
        if (order == NULL) {
            pleat_error_set("no host memory for an order of %zu streams", count);
            return PLEAT_ERR_OOM_HOST;
        }
        memcpy(order, streams, count * sizeof(*order));
        waiting->order = order;
    }
    waiting->order_count = count;
    pleat_wait_queue_t *queue = waiting->active;
    waiting->active = NULL;
    while (queue != NULL) {
        pleat_wait_queue_t *next = queue->next_active;
        waiting_activate(waiting, queue);
        queue = next;
    }
    return PLEAT_OK;
}
