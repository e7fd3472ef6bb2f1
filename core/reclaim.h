/*
 * reclaim: the ways in which cached memory goes back to the device: garbage collection, oversize
 * blocks, everything.
 *
 * Source: PyTorch 2.11's allocator, decision for decision. Called under the allocator's lock.
 * Each returns the device's error if a free fails; what was given back before stays so.
 */
#ifndef PLEAT_RECLAIM_H
#define PLEAT_RECLAIM_H

#include "allocator.h"

/*
 * Above garbage_collection_threshold of the limit, give back whole free segments of the large pool
 * that are at least as old as the average, pass by pass, until enough is free or nothing is left.
 */
PLEAT_NODISCARD pleat_status_t pleat_reclaim_garbage(pleat_allocator_t *allocator);

/*
 * With a split limit: give back the smallest cached oversize segment that would do, or several from
 * the largest down. @p is_enough_out: did at least the wanted bytes go back?
 */
PLEAT_NODISCARD pleat_status_t pleat_reclaim_oversize(pleat_allocator_t *allocator,
                                                      const pleat_request_t *request,
                                                      bool *is_enough_out);

/* Wait for all waiting frees, then give back every free segment. */
PLEAT_NODISCARD pleat_status_t pleat_reclaim_all(pleat_allocator_t *allocator);

#endif
