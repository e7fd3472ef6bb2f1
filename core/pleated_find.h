/*
 * pleated_find: the search of pleated mode for a request that is not small. In this order it gets
 *   1 free memory at home, in one piece             5 a new view over its own stream's memory
 *   2 near the peak: a stitch that uses free ends   6 the same three from other streams' memory
 *   3 free memory in a view that exists             7 a new view with as little new memory as
 *   4 new memory, as long as little more is held      possible, within the limit
 *     than was ever in use at once
 * A request of a private pool sees that pool's memory only, and no other stream's (pleated.h).
 *
 * Source: our own policy study (experiments/policy). Guarded by the lock of the owning allocator.
 */
#ifndef PLEAT_PLEATED_FIND_H
#define PLEAT_PLEATED_FIND_H

#include "pleated.h"

/* May the request use memory of other streams, and what there is be given back for it? Neither for
 * private pools, nor while requests are redirected to one: it takes events. */
bool pleat_pleated_may_cross(const pleat_allocator_t *allocator, const pleat_request_t *request);

/* Best place at home over all arenas of the stream, or of all other streams; while requests are
 * redirected only where the memory is clear (fence.h). */
pleat_home_place_t pleat_pleated_find_home(const pleat_allocator_t *allocator,
                                           const pleat_request_t *request, bool is_own);

/* New bytes needed behind the stream's memory for a request in one piece: the least, in an arena
 * that has addresses for them. */
uint64_t pleat_pleated_needed_bytes(const pleat_allocator_t *allocator,
                                    const pleat_request_t *request);

/* Steps 1 and 3, unless step 2 has to be looked at first; *block_out stays NULL when nothing fits.
 * Maps nothing. ERR_OOM_HOST or the device's error: nothing changed. */
PLEAT_NODISCARD pleat_status_t pleat_pleated_reuse_large(pleat_allocator_t *allocator,
                                                         const pleat_request_t *request,
                                                         pleat_block_t **block_out);

/* A request of @p bytes goes by: what was mapped in views long ago counts no more (see
 * pleat_cost_hold_bytes). */
void pleat_pleated_forget_views(pleat_allocator_t *allocator, uint64_t bytes);

/* Steps 1 to 6; *block_out stays NULL when nothing fits. A full device or a budget that is used up
 * is no error. ERR_OOM_HOST or the device's error. */
PLEAT_NODISCARD pleat_status_t pleat_pleated_find_large(pleat_allocator_t *allocator,
                                                        const pleat_request_t *request,
                                                        pleat_block_t **block_out);

/* Step 7. ERR_OOM_DEVICE: there is no room for it; ERR_OOM_HOST or the device's error. */
PLEAT_NODISCARD pleat_status_t pleat_pleated_exceed(pleat_allocator_t *allocator,
                                                    const pleat_request_t *request,
                                                    pleat_block_t **block_out);

/* Give idle handles back until @p wanted_bytes can be had anew, no more than needed for it.
 * ERR_OOM_DEVICE and nothing changed if all of them would not suffice, or none need or may go. */
PLEAT_NODISCARD pleat_status_t pleat_pleated_make_room(pleat_allocator_t *allocator,
                                                       const pleat_request_t *request,
                                                       uint64_t wanted_bytes, bool can_wait);

#endif
