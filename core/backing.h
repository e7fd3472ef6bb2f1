/*
 * backing: where the memory of a pool comes from. One table a mode, and the only code that differs
 * by mode.
 *
 * What the engine relies on: a block that `grow` returns has at least the wanted bytes, is marked
 * free, stands in no free set, and is counted in the statistics; `release` is asked only for free
 * blocks in the set of their pool for which `can_release` said yes. A failing call has changed
 * nothing.
 * Guarded by the lock of the owning allocator.
 */
#ifndef PLEAT_BACKING_H
#define PLEAT_BACKING_H

#include "block.h"

typedef struct pleat_allocator pleat_allocator_t;

/* A request on its way through the engine. */
typedef struct pleat_request {
    uint64_t requested_bytes; /* as the caller said */
    uint64_t bytes;           /* rounded */
    uint64_t segment_bytes;   /* of a plain segment for it; what the limit is tested with */
    pleat_stream_t stream;
    pleat_pool_t *pool;
    pleat_free_bins_t *bins; /* of the stream in the pool; NULL while nothing was reserved */
} pleat_request_t;

typedef struct pleat_backing_ops {
    const char *name;

    /* Blocks that one `grow` may take from the store. */
    size_t grow_block_count;

    /* Get memory from the device. ERR_OOM_DEVICE: it has none; anything else is a device error. */
    pleat_status_t (*grow)(pleat_allocator_t *allocator, const pleat_request_t *request,
                           pleat_block_t **block_out);

    /* Should @p block be split when it serves @p request? */
    bool (*should_split)(const pleat_allocator_t *allocator, const pleat_block_t *block,
                         const pleat_request_t *request);

    /* Can a free block, or a part of it, go back to the device now? */
    bool (*can_release)(const pleat_block_t *block);

    /* Give a free block back to the device. */
    pleat_status_t (*release)(pleat_allocator_t *allocator, pleat_block_t *block);

    /* Give the segment that starts with @p head back whatever its blocks do; the allocator is
     * being destroyed and the blocks are not looked at again. */
    void (*discard)(pleat_allocator_t *allocator, const pleat_block_t *head);
} pleat_backing_ops_t;

/* Plain device allocations, as PyTorch makes them by default. */
const pleat_backing_ops_t *pleat_backing_classic(void);

#endif
