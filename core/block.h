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
typedef struct pleat_private_pool pleat_private_pool_t;
typedef struct pleat_wait pleat_wait_t;
typedef struct pleat_range pleat_range_t;
typedef struct pleat_arena pleat_arena_t;
typedef struct pleat_view pleat_view_t;
typedef struct pleat_fence pleat_fence_t;
typedef struct pleat_free_bins pleat_free_bins_t;

typedef enum pleat_block_use {
    PLEAT_BLOCK_USE_UNUSED,   /* object in reserve, no memory */
    PLEAT_BLOCK_USE_FREE,     /* in the free set of its pool, or on its way there or from there */
    PLEAT_BLOCK_USE_LIVE,     /* handed out */
    PLEAT_BLOCK_USE_WAITING,  /* freed by its user, events pending */
    PLEAT_BLOCK_USE_UNMAPPED, /* addresses of a range or an arena without memory behind them */
    PLEAT_BLOCK_USE_PART,     /* pleated: used at another address, through a view */
    PLEAT_BLOCK_USE_SLAB      /* pleated: cut up into small blocks */
} pleat_block_use_t;

struct pleat_block {
    pleat_devptr_t address;
    uint64_t bytes;
    uint64_t requested_bytes; /* of the last user; stale while free */
    pleat_stream_t stream;    /* fixed for the life of the segment */
    pleat_pool_t *pool;
    pleat_free_bins_t *bins; /* free set: those of its stream in its pool, fixed likewise */
    pleat_range_t *range;    /* torch_expandable: the range that it is a part of, or NULL */
    pleat_arena_t *arena;    /* pleated: the arena that it is a part of, or NULL */
    pleat_view_t *view;      /* pleated: the view that it was handed out in, or NULL */
    pleat_block_t *slab;     /* pleated: the slab that a small block is a part of, or NULL */
    pleat_fence_t *fence;    /* pleated: to be left on memory of another stream's arena, or NULL */
    pleat_block_t *left;     /* neighbours by address inside the segment, NULL at its ends */
    pleat_block_t *right;
    pleat_block_t *next_live; /* address map: next in the bucket, while live */
    pleat_wait_t *uses;       /* streams recorded while live, each with an event in reserve */
    pleat_block_t *child[2];  /* free set: treap node; unmapped list: neighbours; view's block and
                                 parts: [0] next part; [1] links unused objects */
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

/* The same with an error to read. ERR_OOM_HOST: nothing changed. */
PLEAT_NODISCARD static inline pleat_status_t pleat_block_store_require(pleat_block_store_t *store,
                                                                       size_t count)
{
    if (pleat_block_store_reserve(store, count)) {
        return PLEAT_OK;
    }
    pleat_error_set("no host memory for blocks");
    return PLEAT_ERR_OOM_HOST;
}

/* What a block is, for a fresh object: a piece of memory of a stream and pool, in no set, with no
 * neighbours and no owner. */
typedef struct pleat_block_identity {
    pleat_devptr_t address;
    uint64_t bytes;
    pleat_stream_t stream;
    pleat_pool_t *pool;
    pleat_free_bins_t *bins;
    pleat_block_use_t use;
} pleat_block_identity_t;

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

/* Take an object, all its fields set. */
static inline pleat_block_t *pleat_block_store_make(pleat_block_store_t *store,
                                                    const pleat_block_identity_t *identity)
{
    pleat_block_t *block = pleat_block_store_take(store);
    block->address = identity->address;
    block->bytes = identity->bytes;
    block->requested_bytes = 0;
    block->stream = identity->stream;
    block->pool = identity->pool;
    block->bins = identity->bins;
    block->range = NULL;
    block->arena = NULL;
    block->view = NULL;
    block->slab = NULL;
    block->fence = NULL;
    block->left = NULL;
    block->right = NULL;
    block->use = identity->use;
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

/* Keep @p count objects, which must be in reserve, for the caller; they are linked by child[1].
 * O(count). */
pleat_block_t *pleat_block_store_set_aside(pleat_block_store_t *store, size_t count);

/* Put them back in reserve. */
void pleat_block_store_put_back(pleat_block_store_t *store, pleat_block_t *blocks);

/* Free the slabs; blocks must not be used any more. */
void pleat_block_store_fini(pleat_block_store_t *store);

/* Is it memory of a plain device allocation, or a part of it? */
static inline bool pleat_block_is_plain(const pleat_block_t *block)
{
    return block->range == NULL && block->arena == NULL && block->view == NULL &&
           block->slab == NULL;
}

/*
 * Does a snapshot show the block? Every byte that is held from the device is shown once, at the
 * address where it is used: what a view handed out shows as a segment of its own and not at home,
 * small blocks show and the slab that they are cut from does not.
 */
static inline bool pleat_block_is_shown(const pleat_block_t *block)
{
    return block->use == PLEAT_BLOCK_USE_FREE || block->use == PLEAT_BLOCK_USE_LIVE ||
           block->use == PLEAT_BLOCK_USE_WAITING;
}

/* Is the block the first that its segment shows? A segment is a run of shown neighbours. */
static inline bool pleat_block_is_head(const pleat_block_t *block)
{
    return pleat_block_is_shown(block) &&
           (block->left == NULL || !pleat_block_is_shown(block->left));
}

/* Is the block a part of its segment only? */
static inline bool pleat_block_is_split(const pleat_block_t *block)
{
    return block->left != NULL || block->right != NULL;
}

/* A part of @p block is what @p block is, but for its place and its use. */
static inline void pleat_block_take_after(pleat_block_t *part, const pleat_block_t *block)
{
    part->requested_bytes = 0;
    part->stream = block->stream;
    part->pool = block->pool;
    part->bins = block->bins;
    part->range = block->range;
    part->arena = block->arena;
    part->view = NULL;
    part->slab = block->slab;
    part->fence = NULL;
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
    pleat_block_take_after(low, block);
    low->address = block->address;
    low->bytes = low_bytes;
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
 * Cut everything behind @p low_bytes off @p block into @p high (a fresh object), which becomes its
 * right neighbour and takes over its use. @p block may stand in no set. Constant.
 */
void pleat_block_split_high(pleat_block_t *block, uint64_t low_bytes, pleat_block_t *high);

/*
 * Let @p block absorb its neighbour @p other and give the object back; @p other must have the same
 * use and be in no set. Constant. Returns the bytes absorbed.
 */
uint64_t pleat_block_absorb(pleat_block_store_t *store, pleat_block_t *block, pleat_block_t *other);

#endif
