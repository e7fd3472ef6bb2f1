/*
 * backing: where the memory of a pool comes from. One table a mode, and the only code that differs
 * by mode.
 *
 * The mode can change while blocks of another mode are live: what a request gets is decided by the
 * table in force, how a block goes back by the block.
 *
 * What the engine relies on: a block that `supply` returns has at least the wanted bytes, is marked
 * free, stands in no set, and is counted in the statistics. A failing call has changed nothing but
 * what its comment says.
 * Guarded by the lock of the owning allocator.
 */
#ifndef PLEAT_BACKING_H
#define PLEAT_BACKING_H

#include <pleat/options.h>

#include "block.h"

typedef struct pleat_allocator pleat_allocator_t;
typedef struct pleat_backing_ops pleat_backing_ops_t;

/* A request on its way through the engine. */
typedef struct pleat_request {
    uint64_t requested_bytes; /* as the caller said */
    uint64_t bytes;           /* rounded */
    uint64_t segment_bytes;   /* of a plain segment for it; what the limit is tested with */
    pleat_stream_t stream;
    pleat_pool_t *pool;
    const pleat_backing_ops_t *backing; /* what serves it */
    bool is_single;                     /* the memory must lie in one chunk */
    pleat_free_bins_t *bins; /* of the stream in the pool; NULL while nothing was reserved */
} pleat_request_t;

struct pleat_backing_ops {
    const char *name;

    /* Blocks that `supply` may take from the store without reserving them itself. */
    size_t supply_block_count;

    /* Which block serves @p request, given the best fit of all free ones? NULL: none. */
    pleat_block_t *(*choose)(pleat_allocator_t *allocator, const pleat_request_t *request,
                             pleat_block_t *best);

    /*
     * No free block of the pool serves @p request: free memory that the mode keeps elsewhere, for
     * which nothing is asked of the device but events. *block_out stays NULL if there is none.
     * NULL: the mode keeps none. ERR_OOM_HOST or the device's error: nothing changed.
     */
    pleat_status_t (*reuse)(pleat_allocator_t *allocator, const pleat_request_t *request,
                            pleat_block_t **block_out);

    /*
     * Nor is there such memory: find or get memory by whatever the mode has, and
     * give idle memory up for it as far as needed. Memory of an overflow pool makes the request one
     * of that pool. ERR_OOM_DEVICE: everything was tried. Any other error is the device's or
     * ERR_OOM_HOST.
     */
    pleat_status_t (*supply)(pleat_allocator_t *allocator, pleat_request_t *request,
                             pleat_block_t **block_out);

    /* Let a request ask for memory in one chunk; NULL: all memory of the mode is so.
     * ERR_UNSUPPORTED: the mode has none. */
    pleat_status_t (*prepare_single)(pleat_allocator_t *allocator, pleat_request_t *request);

    /* Should @p block be split when it serves @p request? */
    bool (*should_split)(const pleat_allocator_t *allocator, const pleat_block_t *block,
                         const pleat_request_t *request);
};

/* The table of a mode. */
const pleat_backing_ops_t *pleat_backing_of(pleat_mode_t mode);

/* Plain device allocations, as PyTorch makes them by default. */
const pleat_backing_ops_t *pleat_backing_classic(void);

/* Address ranges that grow by pages, as PyTorch's expandable segments. */
const pleat_backing_ops_t *pleat_backing_torch(void);

/* Our own use of virtual memory. */
const pleat_backing_ops_t *pleat_backing_pleated(void);

/* Is the free block all of a plain segment, so that it can go back to the device whole? */
bool pleat_backing_is_whole(const pleat_block_t *block);

/* Give a free block, or what can go of it, back to the device. The device's error: see
 * pleat_range_release_block; a plain segment is then still there. */
PLEAT_NODISCARD pleat_status_t pleat_backing_release(pleat_allocator_t *allocator,
                                                     pleat_block_t *block);

/* Give a whole free plain segment back. The device's error: nothing changed. */
PLEAT_NODISCARD pleat_status_t pleat_backing_classic_release(pleat_allocator_t *allocator,
                                                             pleat_block_t *block);

/* Give the plain segment of @p bytes that begins with @p block to whom it came from: the device, or
 * the source of its pool. The device's error: nothing changed. */
PLEAT_NODISCARD pleat_status_t pleat_backing_classic_give_back(pleat_allocator_t *allocator,
                                                               const pleat_block_t *block,
                                                               uint64_t bytes);

/* Give all memory back whatever the blocks do; the allocator is being destroyed. */
void pleat_backing_discard(pleat_allocator_t *allocator);

#endif
