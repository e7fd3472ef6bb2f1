/*
 * queue_order: an order of streams that explains in which order waiting frees completed.
 *
 * PyTorch visits the queues of waiting frees in the order of a hash table, which a recording does
 * not name; but the frees that completed in a call show it. Before the call is replayed, the
 * waiting frees of the engine are read, and an order is searched in which their completion gives
 * exactly the recorded sequence.
 * Locks: none; belongs to one thread at a time.
 */
#ifndef PLEAT_EXPERIMENTS_QUEUE_ORDER_H
#define PLEAT_EXPERIMENTS_QUEUE_ORDER_H

#include <pleat/allocator.h>

typedef struct pleat_queue_order pleat_queue_order_t;

/** NULL: no host memory. */
pleat_queue_order_t *pleat_queue_order_create(void);

/** NULL is ignored. */
void pleat_queue_order_destroy(pleat_queue_order_t *order);

/**
 * Find an order in which the next call of @p allocator completes @p addresses, in this sequence,
 * and set it. The call comes without a redirection to a private pool: it first resolves the frees
 * that were put off, some of which are complete at once, before all others.
 *
 * @param addresses  blocks whose frees complete in the call.
 * @param has_poll   the call first ends what is ready, and may then wait for the rest (an
 *                   allocation); false: it waits for every free at once (empty_cache).
 * @retval PLEAT_OK            set; or nothing to decide, or no order fits: the engine's stays, and
 *                             the comparison will tell.
 * @retval PLEAT_ERR_OOM_HOST  no host memory.
 * @par Cost O(waiting frees) where the order of the call before fits; else a search that gives up
 *      after some thousand steps.
 */
PLEAT_NODISCARD pleat_status_t pleat_queue_order_fit(pleat_queue_order_t *order,
                                                     pleat_allocator_t *allocator,
                                                     const pleat_devptr_t *addresses, size_t count,
                                                     bool has_poll);

#endif
