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
    pleat_block_t *left; /* neighbours by address inside the segment, NULL at its ends */
    pleat_block_t *right;
    pleat_block_t *next_live; /* address map: next in the bucket, while live */
    pleat_wait_t *uses;       /* streams recorded while live, each with an event in reserve */
    pleat_block_t *child[2];  /* free set: treap node; child[1] links unused objects */
    uint32_t priority;        /* free set: treap heap order */
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

/* Make sure that @p count objects can be taken without failing. False: no host memory, nothing
 * changed. Amortised constant. */
PLEAT_NODISCARD bool pleat_block_store_reserve(pleat_block_store_t *store, size_t count);

/* Take an object, all fields 0; one must be in reserve. */
pleat_block_t *pleat_block_store_take(pleat_block_store_t *store);

/* Give an object back; it must be in no set and have no uses. */
void pleat_block_store_give(pleat_block_store_t *store, pleat_block_t *block);

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
void pleat_block_split(pleat_block_t *block, uint64_t low_bytes, pleat_block_t *low);

/*
 * Let @p block absorb its neighbour @p other and give the object back; @p other must be in no free
 * set. Constant. Returns the bytes absorbed.
 */
uint64_t pleat_block_absorb(pleat_block_store_t *store, pleat_block_t *block, pleat_block_t *other);

#endif
