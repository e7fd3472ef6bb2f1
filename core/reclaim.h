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

/* Ask the device for memory in a mode of PyTorch; as pleat_backing_ops_t's supply. */
typedef pleat_status_t (*pleat_grow_fn_t)(pleat_allocator_t *allocator,
                                          const pleat_request_t *request,
                                          pleat_block_t **block_out);

/*
 * PyTorch's chain: garbage collection; the device, within the limit; overflow pools; oversize
 * blocks and the device again; unless requests are redirected, everything and the device again,
 * which counts as a retry. In pleated mode, where only private pools have plain memory, nothing but
 * the device: a graph may use what a pool has, and nothing goes back while requests are redirected.
 */
PLEAT_NODISCARD pleat_status_t pleat_reclaim_chain(pleat_allocator_t *allocator,
                                                   pleat_request_t *request, pleat_grow_fn_t grow,
                                                   pleat_block_t **block_out);

/* Give back every free plain segment and what can go of PyTorch's ranges; waits for no free. */
PLEAT_NODISCARD pleat_status_t pleat_reclaim_pools(pleat_allocator_t *allocator);

/* Give back the free memory of a freeable private pool, after waiting for its own frees unless
 * requests are redirected; the pool ends if nothing of it is left. */
PLEAT_NODISCARD pleat_status_t pleat_reclaim_one_freeable(pleat_allocator_t *allocator,
                                                          pleat_private_pool_t *pool);

/* Give back the free memory of all freeable private pools; waits for no free. */
PLEAT_NODISCARD pleat_status_t pleat_reclaim_freeable(pleat_allocator_t *allocator);

/* Wait for all waiting frees, then give back all free memory, that of freeable private pools last.
 * While requests are redirected only these: others may wait for nothing. */
PLEAT_NODISCARD pleat_status_t pleat_reclaim_all(pleat_allocator_t *allocator);

#endif
