/*
 * waiting: frees that wait for other streams.
 *
 * A wait is one (block, stream) pair with an event of its own. It is made when the stream is
 * recorded, so that a free can never fail for lack of memory or of an event; at the free the event
 * is recorded and the wait joins the queue of its stream. Queues are first in, first out: a front
 * that is not ready hides what is behind it, as in PyTorch. Used waits keep their event and go to
 * a reserve, last in, first out.
 *
 * Frees that may record no event yet are put off: deferred.h.
 *
 * Queues are visited in rising order of their stream handles, or in the order that was set.
 *
 * Invariants (check.c): A6 a block waits exactly if it has waits in queues, as many as it counts,
 * or is deferred; only live and deferred blocks have recorded uses.
 * Guarded by the lock of the owning allocator.
 */
#ifndef PLEAT_WAITING_H
#define PLEAT_WAITING_H

#include <pleat/vmm.h>

#include "block.h"
#include "capture_order.h"

struct pleat_wait {
    struct pleat_wait *next;
    pleat_block_t *block;
    pleat_stream_t stream;
    pleat_event_t event;
    bool is_captured; /* counts as recorded inside a redirection: no event will come of it if the
                         free is put off, see deferred.h */
    uint64_t capture; /* that the stream was in whenever it was recorded; 0: none, or not asked */
};

/* Frees that were put off (deferred.h), linked by next_live, and orders that replays set. */
typedef struct pleat_deferred {
    pleat_block_t *first; /* in the order of the frees */
    pleat_block_t *last;
    size_t count;
    pleat_devptr_t *order; /* to end first at the next resolution, in this order */
    size_t order_count;
    pleat_devptr_t *stale; /* to end there without any event */
    size_t stale_count;
} pleat_deferred_t;

typedef struct pleat_wait_queue {
    pleat_stream_t stream;
    pleat_wait_t *first;
    pleat_wait_t *last;
    struct pleat_wait_queue *next_active; /* queues that are not empty, in visiting order */
} pleat_wait_queue_t;

struct pleat_waiting {
    pleat_vmm_t *vmm;
    pleat_wait_queue_t **queues; /* one a stream seen, rising by stream */
    size_t queue_count;
    size_t queue_capacity;
    pleat_wait_queue_t *active;
    pleat_wait_t *reserve; /* each with an event */
    pleat_stream_t *order; /* streams to visit first, in this order */
    size_t order_count;
    size_t wait_count; /* in queues */
    size_t
        open_count; /* waits in queues and deferred frees: whether there is anything to look at */
    pleat_deferred_t deferred;
    pleat_capture_order_t capture;
};

/* Called for each free that waits: for @p stream, whose work up to the free is over or not. */
typedef void (*pleat_waiting_visit_fn_t)(void *context, pleat_stream_t stream,
                                         pleat_devptr_t address, bool is_ready);

/* Called for a block whose last wait is over. */
typedef void (*pleat_wait_done_fn_t)(void *context, pleat_block_t *block);

void pleat_waiting_init(pleat_waiting_t *waiting, pleat_vmm_t *vmm);

/* Destroy all events and storage; no wait may be in a queue. */
void pleat_waiting_fini(pleat_waiting_t *waiting);

/* Note a use of @p block by @p stream. ERR_OOM_HOST or the device's error, and nothing changed.
 * O(streams of the block + log streams). */
PLEAT_NODISCARD pleat_status_t pleat_waiting_note(pleat_waiting_t *waiting, pleat_block_t *block,
                                                  pleat_stream_t stream);

/* Record the events of all uses of @p block and queue them; its event_count tells how many. The
 * device's error if one cannot be recorded: nothing changed then. One event record a stream. */
PLEAT_NODISCARD pleat_status_t pleat_waiting_begin(pleat_waiting_t *waiting, pleat_block_t *block);

/* Drop the uses of a block that no free will wait for. */
void pleat_waiting_drop_uses(pleat_waiting_t *waiting, pleat_block_t *block);

/* The use of @p block by @p stream, which must be noted, counts as recorded while requests were
 * redirected. */
void pleat_waiting_mark_captured(pleat_block_t *block, pleat_stream_t stream);

/* Drop the uses of @p block that were marked so, or with @p is_all all of them. */
void pleat_waiting_drop_captured(pleat_waiting_t *waiting, pleat_block_t *block, bool is_all);

/* Look at the front of every queue and end what is ready. The device's error ends the look.
 * One event query a queue and one a completed wait. */
PLEAT_NODISCARD pleat_status_t pleat_waiting_poll(pleat_waiting_t *waiting,
                                                  pleat_wait_done_fn_t done, void *context);

/* Wait for every queued event and end all waits. On the device's error the rest stays queued. */
PLEAT_NODISCARD pleat_status_t pleat_waiting_finish(pleat_waiting_t *waiting,
                                                    pleat_wait_done_fn_t done, void *context);

/* Wait for every queued event of blocks of @p owner and end those waits; the others stay where they
 * are. On the device's error the rest stays queued. */
PLEAT_NODISCARD pleat_status_t pleat_waiting_finish_owner(pleat_waiting_t *waiting,
                                                          const pleat_private_pool_t *owner,
                                                          pleat_wait_done_fn_t done, void *context);

/* Wait for the front of the first queue, which must exist, then end all that is ready. */
PLEAT_NODISCARD pleat_status_t pleat_waiting_finish_one(pleat_waiting_t *waiting,
                                                        pleat_wait_done_fn_t done, void *context);

/* End all waits without asking the device; for destruction only. */
void pleat_waiting_abandon(pleat_waiting_t *waiting);

/* Visit the queues of @p streams first, in this order. ERR_OOM_HOST: nothing changed. */
PLEAT_NODISCARD pleat_status_t pleat_waiting_set_order(pleat_waiting_t *waiting,
                                                       const pleat_stream_t *streams, size_t count);

#endif
