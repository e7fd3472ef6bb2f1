/*
 * pool: free blocks of one kind (small or large) and the rule which of them serves a request.
 *
 * Guarded by the lock of the owning allocator.
 */
#ifndef PLEAT_POOL_H
#define PLEAT_POOL_H

#include <pleat/stats.h>

#include "free_set.h"
#include "options.h"
#include "unmapped_list.h"

struct pleat_pool {
    pleat_free_set_t free_blocks;
    pleat_unmapped_list_t unmapped; /* of expandable ranges */
    pleat_stat_kind_t kind;         /* small or large: which row of the counters */
    bool keeps_whole;               /* its blocks are not split */
    uint64_t search_count;          /* searches so far; moves only while garbage collection is on */
    pleat_private_pool_t *owner;    /* NULL: no private pool */
};

static inline bool pleat_pool_is_small(const pleat_pool_t *pool)
{
    return pool->kind == PLEAT_STAT_SMALL_POOL;
}

/* Searches since @p block became free: its age, for garbage collection. */
static inline int32_t pleat_pool_age(const pleat_pool_t *pool, const pleat_block_t *block)
{
    return (int32_t)(uint32_t)(pool->search_count - block->age_base);
}

/* Put a free block into the set; its age starts again. */
static inline void pleat_pool_give(pleat_pool_t *pool, pleat_block_t *block)
{
    PLEAT_ASSERT(block->pool == pool);
    PLEAT_ASSERT(block->event_count == 0);
    block->use = PLEAT_BLOCK_USE_FREE;
    block->age_base = pool->search_count;
    pleat_free_set_insert(block);
}

/* Take a block of the set out of it. */
static inline void pleat_pool_take(pleat_pool_t *pool, pleat_block_t *block)
{
    PLEAT_ASSERT(block->pool == pool);
    PLEAT_ASSERT(block->use == PLEAT_BLOCK_USE_FREE);
    (void)pool;
    pleat_free_set_remove(block);
}

/*
 * May @p block, the best fit, serve @p bytes? With a split limit, a block of that size or more
 * serves only requests of that size or more, and only those that it hardly exceeds. Only the best
 * fit is ever asked: PyTorch does not look at the next one.
 */
static inline bool pleat_pool_may_serve(const pleat_options_t *options, const pleat_block_t *block,
                                        uint64_t bytes)
{
    if (bytes < options->max_split_bytes) {
        return block->bytes < options->max_split_bytes;
    }
    /* The sum wraps as PyTorch's does. */
    return block->bytes < bytes + pleat_options_rounding_bytes(options);
}

void pleat_pool_fini(pleat_pool_t *pool);

#endif
