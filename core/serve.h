/*
 * serve: the way of a request: search the pool; ask the device; give cached memory back step by
 * step and ask again; split what was found and hand it out.
 *
 * Source: PyTorch 2.11's allocator, decision for decision. Called under the allocator's lock.
 */
#ifndef PLEAT_SERVE_H
#define PLEAT_SERVE_H

#include "allocator.h"

/* Fill in a request: rounded size, pool, segment size. @p requested_bytes in [1, 2^60). */
pleat_request_t pleat_serve_request(pleat_allocator_t *allocator, uint64_t requested_bytes,
                                    pleat_stream_t stream);

/* The free block that would serve @p request, whose bins are looked up if it has none; NULL: none
 * would. It stays in its set. */
pleat_block_t *pleat_serve_find(pleat_allocator_t *allocator, const pleat_request_t *request);

/* Whatever @p request may need of host memory, before anything changes. ERR_OOM_HOST: nothing
 * changed. */
PLEAT_NODISCARD pleat_status_t pleat_serve_reserve(pleat_allocator_t *allocator,
                                                   pleat_request_t *request);

/* Search the pool of @p request, which counts for the ages of its blocks; a block that is found is
 * taken out of its set. */
pleat_block_t *pleat_serve_search(pleat_allocator_t *allocator, const pleat_request_t *request);

/* Hand out the low end of @p block, which is free and in no set, exactly as large as @p request is.
 * A block and an address must be in reserve. */
pleat_block_t *pleat_serve_place(pleat_allocator_t *allocator, const pleat_request_t *request,
                                 pleat_block_t *block);

/* Serve a request; the status is that of pleat_alloc, or with @p is_single of pleat_alloc_single.
 */
PLEAT_NODISCARD pleat_status_t pleat_serve(pleat_allocator_t *allocator, uint64_t requested_bytes,
                                           pleat_stream_t stream, bool is_single,
                                           pleat_devptr_t *ptr_out);

#endif
