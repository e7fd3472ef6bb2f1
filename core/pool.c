/*
 * pool: its end; everything else is inline.
 */
#include "pool.h"

void pleat_pool_fini(pleat_pool_t *pool)
{
    pleat_free_set_fini(&pool->free_blocks);
}
