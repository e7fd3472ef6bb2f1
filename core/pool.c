/*
 * pool: the oversize rules.
 */
#include "pool.h"

#include "options.h"

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
