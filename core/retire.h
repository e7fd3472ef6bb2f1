/*
 * retire: the way of a free: counted as no longer allocated at once, complete when no stream uses
 * the memory any more, then merged with free neighbours and back in its pool.
 *
 * Source: PyTorch 2.11's allocator, decision for decision. Called under the allocator's lock.
 */
#ifndef PLEAT_RETIRE_H
#define PLEAT_RETIRE_H

#include "allocator.h"

/* Free the live block that hangs at @p link in the address map; put off (deferred.h) if other
 * streams used it and requests are redirected. The device's error if an event cannot be recorded:
 * nothing changed then. */
PLEAT_NODISCARD pleat_status_t pleat_retire_block(pleat_allocator_t *allocator,
                                                  pleat_block_t **link);

/* Resolve deferred frees, then complete the frees whose streams are done; nothing at all while
 * requests are redirected. The device's error if it cannot tell. */
PLEAT_NODISCARD pleat_status_t pleat_retire_poll(pleat_allocator_t *allocator);

/* The same for a request on @p stream: while requests are redirected, frees that are ordered before
 * what the stream captures next (capture_order.h) are completed, if that is asked for. */
PLEAT_NODISCARD pleat_status_t pleat_retire_poll_for(pleat_allocator_t *allocator,
                                                     pleat_stream_t stream);

/* Wait until one more free is complete, that at the front of the first queue, and take along what
 * is ready behind; counted in num_sync_all_streams. @p has_waited_out: was there one at all? */
PLEAT_NODISCARD pleat_status_t pleat_retire_wait_for_one(pleat_allocator_t *allocator,
                                                         bool *has_waited_out);

/* Resolve deferred frees; requests must not be redirected. The device's error as
 * pleat_deferred_resolve. */
PLEAT_NODISCARD pleat_status_t pleat_retire_resolve(pleat_allocator_t *allocator);

/* Wait for all frees that wait, deferred ones too; counted in num_sync_all_streams. Requests must
 * not be redirected. */
PLEAT_NODISCARD pleat_status_t pleat_retire_synchronize(pleat_allocator_t *allocator);

/* The same for those of one private pool; deferred frees of all pools are resolved. */
PLEAT_NODISCARD pleat_status_t pleat_retire_synchronize_owner(pleat_allocator_t *allocator,
                                                              const pleat_private_pool_t *owner);

#endif
