/*
 * block: one contiguous piece of a segment: free, handed out, or freed and waiting for streams.
 * Blocks of a segment are linked in address order. The store owns all block objects.
 *
 * Invariants (check.c): A1 the blocks of a segment tile it; A2 free neighbours that could be
 * merged do not exist; A3 a free block is in exactly one free set, every other block in none.
 * Guarded by the lock of the owning allocator.
 */
#ifndef PLEAT_BLOCK_H
#define PLEAT_BLOCK_H

#include <pleat/base.h>

#include "../vmm/base.h"

typedef struct pleat_block pleat_block_t;
typedef struct pleat_pool pleat_pool_t;
typedef struct pleat_wait pleat_wait_t;
typedef struct pleat_free_bins pleat_free_bins_t;

typedef enum pleat_block_use {
    PLEAT_BLOCK_USE_UNUSED, /* object in reserve, no memory */
    PLEAT_BLOCK_USE_FREE,   /* in the free set of its pool, or on its way there or from there */
    PLEAT_BLOCK_USE_LIVE,   /* handed out */
    PLEAT_BLOCK_USE_WAITING /* freed by its user, events pending */
} pleat_block_use_t;

struct pleat_block {
    pleat_devptr_t address;
    uint64_t bytes;
    uint64_t requested_bytes; /* of the last user; stale while free */
    pleat_stream_t stream;    /* fixed for the life of the segment */
    pleat_pool_t *pool;
    pleat_free_bins_t *bins; /* free set: those of its stream in its pool, fixed likewise */
    pleat_block_t *left;     /* neighbours by address inside the segment, NULL at its ends */
    pleat_block_t *right;
    pleat_block_t *next_live; /* address map: next in the bucket, while live */
    pleat_wait_t *uses;       /* streams recorded while live, each with an event in reserve */
    pleat_block_t *child[2];  /* free set: treap node; child[1] links unused objects */
    uint32_t priority;        /* free set: treap heap order */
    uint32_t bin;             /* free set: where it lies */
    uint32_t event_count;     /* pending events while waiting */
    uint64_t age_base;        /* the pool's search count when the block became free */
    pleat_block_use_t use;
};

#define PLEAT_BLOCKS_PER_SLAB 255

typedef struct pleat_block_slab {
    struct pleat_block_slab *next;
    pleat_block_t blocks[PLEAT_BLOCKS_PER_SLAB];
} pleat_block_slab_t;

typedef struct pleat_block_store {
    pleat_block_slab_t *slabs;
    pleat_block_t *unused; /* linked by child[1] */
    size_t unused_count;
    size_t used_count;
} pleat_block_store_t;

/* Add slabs until @p count objects are unused. False: no host memory; what was added stays. */
PLEAT_NODISCARD bool pleat_block_store_grow(pleat_block_store_t *store, size_t count);

/* Make sure that @p count objects can be taken without failing. False: no host memory, nothing
 * changed. Amortised constant. */
PLEAT_NODISCARD static inline bool pleat_block_store_reserve(pleat_block_store_t *store,
                                                             size_t count)
{
    return store->unused_count >= count || pleat_block_store_grow(store, count);
}

/* Take an object; one must be in reserve. It is in no set, has no uses and no events; the rest is
 * for the taker to set. */
static inline pleat_block_t *pleat_block_store_take(pleat_block_store_t *store)
{
    pleat_block_t *block = store->unused;
    PLEAT_ASSERT(block != NULL);
    PLEAT_ASSERT(block->use == PLEAT_BLOCK_USE_UNUSED);
    store->unused = block->child[1];
    store->unused_count--;
    store->used_count++;
    block->child[1] = NULL;
    return block;
}

/* Give an object back; it must be in no set and have no uses. */
static inline void pleat_block_store_give(pleat_block_store_t *store, pleat_block_t *block)
{
    PLEAT_ASSERT(block->use != PLEAT_BLOCK_USE_UNUSED);
    PLEAT_ASSERT(block->uses == NULL);
    PLEAT_ASSERT(block->event_count == 0);
    PLEAT_ASSERT(block->child[0] == NULL);
    block->use = PLEAT_BLOCK_USE_UNUSED;
    block->child[1] = store->unused;
    store->unused = block;
    store->unused_count++;
    store->used_count--;
}

/* Free the slabs; blocks must not be used any more. */
void pleat_block_store_fini(pleat_block_store_t *store);

/* Is the block a part of its segment only? */
static inline bool pleat_block_is_split(const pleat_block_t *block)
{
    return block->left != NULL || block->right != NULL;
}

/*
 * Cut @p low_bytes off the low end of @p block into @p low (a fresh object), which becomes its
 * left neighbour. @p block keeps the high end, and with it its stale requested size: that is what
 * PyTorch's snapshots show. Neither may be in a free set. Constant.
 */
static inline void pleat_block_split(pleat_block_t *block, uint64_t low_bytes, pleat_block_t *low)
{
    PLEAT_ASSERT(low_bytes > 0);
    PLEAT_ASSERT(low_bytes < block->bytes);
    PLEAT_ASSERT(low_bytes % 512 == 0);
    low->address = block->address;
    low->bytes = low_bytes;
    low->requested_bytes = 0;
    low->stream = block->stream;
    low->pool = block->pool;
    low->bins = block->bins;
    low->left = block->left;
    low->right = block;
    if (low->left != NULL) {
        low->left->right = low;
    }
    block->left = low;
    block->address += low_bytes;
    block->bytes -= low_bytes;
}

/*
 * Let @p block absorb its neighbour @p other and give the object back; @p other must be in no free
 * set. Constant. Returns the bytes absorbed.
 */
uint64_t pleat_block_absorb(pleat_block_store_t *store, pleat_block_t *block, pleat_block_t *other);

#endif
