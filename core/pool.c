/*
 * pool: in and out of the free set, and the oversize rules.
 */
#include "pool.h"

#include "options.h"

void pleat_pool_give(pleat_pool_t *pool, pleat_block_t *block)
{
    PLEAT_ASSERT(block->pool == pool);
    PLEAT_ASSERT(block->event_count == 0);
    block->use = PLEAT_BLOCK_USE_FREE;
    block->age_base = pool->search_count;
    pleat_free_set_insert(&pool->free_blocks, block);
}

void pleat_pool_take(pleat_pool_t *pool, pleat_block_t *block)
{
    PLEAT_ASSERT(block->pool == pool);
    PLEAT_ASSERT(block->use == PLEAT_BLOCK_USE_FREE);
    pleat_free_set_remove(&pool->free_blocks, block);
}

bool pleat_pool_may_serve(const pleat_options_t *options, const pleat_block_t *block,
                          uint64_t bytes)
{
    if (bytes < options->max_split_bytes) {
        return block->bytes < options->max_split_bytes;
    }
    /* The sum wraps as PyTorch's does. */
    return block->bytes < bytes + pleat_options_rounding_bytes(options);
}

void pleat_pool_fini(pleat_pool_t *pool)
{
    pleat_free_set_fini(&pool->free_blocks);
}
