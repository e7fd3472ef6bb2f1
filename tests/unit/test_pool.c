/*
 * Tests of pool: in and out, ages, and which block may serve which request.
 */
#include "core/pool.h"

#include <signal.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

static void init_pool(pleat_pool_t *pool, pleat_stat_kind_t kind)
{
    *pool = (pleat_pool_t){.kind = kind};
    cr_assert(ne(ptr, pleat_free_set_reserve(&pool->free_blocks, 0), NULL));
}

Test(pool, gives_and_takes, .timeout = 5)
{
    pleat_pool_t pool;
    init_pool(&pool, PLEAT_STAT_SMALL_POOL);
    pleat_block_t block = {
        .address = 512, .bytes = 512, .pool = &pool, .use = PLEAT_BLOCK_USE_LIVE};
    block.bins = pleat_free_set_reserve(&pool.free_blocks, 0);
    pleat_pool_give(&pool, &block);
    cr_expect(eq(int, (int)block.use, (int)PLEAT_BLOCK_USE_FREE));
    cr_expect(eq(ptr, pleat_free_set_find(&pool.free_blocks, 0, 512), &block));
    pleat_pool_take(&pool, &block);
    cr_expect(eq(ptr, pleat_free_set_find(&pool.free_blocks, 0, 512), NULL));
    cr_expect(pleat_pool_is_small(&pool));
    pleat_pool_fini(&pool);
}

Test(pool, age_counts_searches_since_the_last_give, .timeout = 5)
{
    pleat_pool_t pool;
    init_pool(&pool, PLEAT_STAT_LARGE_POOL);
    pleat_block_t block = {.address = 512, .bytes = 512, .pool = &pool};
    block.bins = pleat_free_set_reserve(&pool.free_blocks, 0);
    pool.search_count = 10;
    pleat_pool_give(&pool, &block);
    cr_expect(eq(i32, pleat_pool_age(&pool, &block), 0));
    pool.search_count = 17;
    cr_expect(eq(i32, pleat_pool_age(&pool, &block), 7));
    pool.search_count = 10 + (UINT64_C(1) << 32); /* cut to 32 bits, as PyTorch does */
    cr_expect(eq(i32, pleat_pool_age(&pool, &block), 0));
    pool.search_count = 10 + (UINT64_C(1) << 31);
    cr_expect(eq(i32, pleat_pool_age(&pool, &block), INT32_MIN));

    pleat_pool_take(&pool, &block);
    pleat_pool_give(&pool, &block);
    cr_expect(eq(i32, pleat_pool_age(&pool, &block), 0));
    cr_expect(not(pleat_pool_is_small(&pool)));
    pleat_pool_fini(&pool);
}

Test(pool, oversize_rules_at_their_borders, .timeout = 5)
{
    static const struct {
        uint64_t max_split_bytes;
        uint64_t rounding_bytes; /* 0: that of large_segment_bytes, 20 MiB */
        uint64_t block_bytes;
        uint64_t bytes;
        bool may_serve;
    } rows[] = {
        /* without a limit everything may serve */
        {PLEAT_UNLIMITED, 0, UINT64_C(1) << 50, 512, true},
        {PLEAT_UNLIMITED, 0, 512, 512, true},
        /* a block of the limit or more serves no request below it */
        {40 * PLEAT_MIB, 0, 40 * PLEAT_MIB - 512, 20 * PLEAT_MIB, true},
        {40 * PLEAT_MIB, 0, 40 * PLEAT_MIB, 20 * PLEAT_MIB, false},
        {40 * PLEAT_MIB, 0, 40 * PLEAT_MIB, 40 * PLEAT_MIB - 512, false},
        {40 * PLEAT_MIB, 0, 40 * PLEAT_MIB, 40 * PLEAT_MIB, true},
        /* and larger ones only those that it exceeds by less than the rounding */
        {40 * PLEAT_MIB, 0, 60 * PLEAT_MIB - 512, 40 * PLEAT_MIB, true},
        {40 * PLEAT_MIB, 0, 60 * PLEAT_MIB, 40 * PLEAT_MIB, false},
        {40 * PLEAT_MIB, 30 * PLEAT_MIB, 70 * PLEAT_MIB - 512, 40 * PLEAT_MIB, true},
        {40 * PLEAT_MIB, 30 * PLEAT_MIB, 70 * PLEAT_MIB, 40 * PLEAT_MIB, false},
        /* the sum wraps as PyTorch's does: refused although it is larger by little */
        {40 * PLEAT_MIB, UINT64_MAX, 50 * PLEAT_MIB, 50 * PLEAT_MIB, false},
        {40 * PLEAT_MIB, UINT64_MAX, 50 * PLEAT_MIB - 512, 50 * PLEAT_MIB, true},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        pleat_options_t options = PLEAT_OPTIONS_INIT;
        options.max_split_bytes = rows[i].max_split_bytes;
        options.max_non_split_rounding_bytes = rows[i].rounding_bytes;
        const pleat_block_t block = {.bytes = rows[i].block_bytes};
        cr_expect(eq(int, pleat_pool_may_serve(&options, &block, rows[i].bytes), rows[i].may_serve),
                  "row %zu", i);
    }
}

#if PLEAT_CHECKS >= PLEAT_CHECKS_FAST
Test(pool, refuses_a_block_of_another_pool, .signal = SIGABRT, .timeout = 5)
{
    pleat_pool_t pool;
    init_pool(&pool, PLEAT_STAT_SMALL_POOL);
    pleat_pool_t other;
    init_pool(&other, PLEAT_STAT_SMALL_POOL);
    pleat_block_t block = {.address = 512, .bytes = 512, .pool = &other};
    pleat_pool_give(&pool, &block);
}
#endif
