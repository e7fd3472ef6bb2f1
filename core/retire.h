/*
 * retire: the way of a free: counted as no longer allocated at once, complete when no stream uses
 * the memory any more, then merged with free neighbours and back in its pool.
 *
 * Source: PyTorch 2.11's allocator, decision for decision. Called under the allocator's lock.
 */
#ifndef PLEAT_RETIRE_H
#define PLEAT_RETIRE_H

#include "allocator.h"

/* Free the live block that hangs at @p link in the address map. The device's error if an event
 * cannot be recorded: nothing changed then. */
PLEAT_NODISCARD pleat_status_t pleat_retire_block(pleat_allocator_t *allocator,
                                                  pleat_block_t **link);

/* Complete the frees whose streams are done. The device's error if it cannot tell. */
PLEAT_NODISCARD pleat_status_t pleat_retire_poll(pleat_allocator_t *allocator);

/* Wait until one more free is complete, that at the front of the first queue, and take along what
 * is ready behind; counted in num_sync_all_streams. @p has_waited_out: was there one at all? */
PLEAT_NODISCARD pleat_status_t pleat_retire_wait_for_one(pleat_allocator_t *allocator,
                                                         bool *has_waited_out);

/* Wait for all frees that wait; counted in num_sync_all_streams. */
PLEAT_NODISCARD pleat_status_t pleat_retire_synchronize(pleat_allocator_t *allocator);

#endif
