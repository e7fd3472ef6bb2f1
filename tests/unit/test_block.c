/*
 * Tests of block: the store of block objects, splitting, absorbing.
 */
#include "core/block.h"

#include "host_fault.h"

#include <signal.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

static pleat_block_t *take(pleat_block_store_t *store)
{
    cr_assert(pleat_block_store_reserve(store, 1));
    return pleat_block_store_take(store);
}

/* What a fresh object must not have; the rest is for its taker. */
static void expect_no_ties(const pleat_block_t *block)
{
    cr_assert(eq(int, (int)block->use, (int)PLEAT_BLOCK_USE_UNUSED));
    cr_assert(eq(ptr, block->uses, NULL));
    cr_assert(eq(ptr, block->child[0], NULL));
    cr_assert(eq(ptr, block->child[1], NULL));
    cr_assert(eq(u32, block->event_count, 0));
}

/* A free block over addresses that nobody uses. */
static pleat_block_t *make_block(pleat_block_store_t *store, uint64_t bytes)
{
    pleat_block_t *block = take(store);
    block->address = 0x10000;
    block->bytes = bytes;
    block->stream = 7;
    block->use = PLEAT_BLOCK_USE_FREE;
    return block;
}

static pleat_block_t *split(pleat_block_store_t *store, pleat_block_t *block, uint64_t low_bytes)
{
    pleat_block_t *low = take(store);
    pleat_block_split(block, low_bytes, low);
    low->use = PLEAT_BLOCK_USE_FREE;
    return low;
}

Test(block, store_hands_out_distinct_empty_objects, .timeout = 5)
{
    enum { COUNT = 3 * PLEAT_BLOCKS_PER_SLAB };
    pleat_block_store_t store = {0};
    pleat_block_t *blocks[COUNT];

    for (unsigned i = 0; i < COUNT; i++) {
        blocks[i] = take(&store);
        expect_no_ties(blocks[i]);
        blocks[i]->address = i + 1;
        blocks[i]->use = PLEAT_BLOCK_USE_LIVE;
    }
    for (unsigned i = 0; i < COUNT; i++) {
        cr_assert(eq(u64, blocks[i]->address, i + 1));
    }
    cr_expect(eq(sz, store.used_count, COUNT));

    pleat_block_store_give(&store, blocks[5]);
    cr_expect(eq(sz, store.used_count, COUNT - 1));
    cr_expect(eq(ptr, take(&store), blocks[5]));
    expect_no_ties(blocks[5]);

    pleat_block_store_fini(&store);
    cr_expect(eq(ptr, store.slabs, NULL));
    cr_expect(eq(sz, store.used_count, 0));
}

Test(block, store_reserves_before_it_must_not_fail, .timeout = 5)
{
    pleat_block_store_t store = {0};
    host_fault_after(1);
    cr_expect(not(pleat_block_store_reserve(&store, 1)));
    cr_expect(eq(ptr, store.slabs, NULL));

    cr_assert(pleat_block_store_reserve(&store, PLEAT_BLOCKS_PER_SLAB));
    const uint64_t allocations = host_fault_allocations();
    for (unsigned i = 0; i < PLEAT_BLOCKS_PER_SLAB; i++) {
        cr_assert(pleat_block_store_reserve(&store, 1));
        (void)pleat_block_store_take(&store);
    }
    cr_expect(eq(u64, host_fault_allocations(), allocations));
    host_fault_after(1);
    cr_expect(not(pleat_block_store_reserve(&store, 1)));
    cr_expect(eq(sz, store.unused_count, 0));
    cr_expect(eq(sz, store.used_count, PLEAT_BLOCKS_PER_SLAB));
    pleat_block_store_fini(&store);
}

Test(block, split_links_the_low_part_before_the_rest, .timeout = 5)
{
    pleat_block_store_t store = {0};
    pleat_block_t *rest = make_block(&store, 8192);
    rest->requested_bytes = 5000;
    cr_expect(not(pleat_block_is_split(rest)));

    pleat_block_t *low = split(&store, rest, 1024);
    pleat_block_t *middle = split(&store, rest, 2048);

    cr_expect(eq(u64, low->address, 0x10000));
    cr_expect(eq(u64, low->bytes, 1024));
    cr_expect(eq(u64, low->stream, 7));
    cr_expect(eq(u64, low->requested_bytes, 0));
    cr_expect(eq(u64, middle->address, 0x10000 + 1024));
    cr_expect(eq(u64, middle->bytes, 2048));
    cr_expect(eq(u64, rest->address, 0x10000 + 3072));
    cr_expect(eq(u64, rest->bytes, 8192 - 3072));
    cr_expect(eq(u64, rest->requested_bytes, 5000), "the rest keeps its stale size");
    cr_expect(eq(ptr, low->left, NULL));
    cr_expect(eq(ptr, low->right, middle));
    cr_expect(eq(ptr, middle->left, low));
    cr_expect(eq(ptr, middle->right, rest));
    cr_expect(eq(ptr, rest->left, middle));
    cr_expect(eq(ptr, rest->right, NULL));
    cr_expect(pleat_block_is_split(low));
    cr_expect(pleat_block_is_split(rest));
    pleat_block_store_fini(&store);
}

Test(block, absorbs_on_either_side, .timeout = 5)
{
    pleat_block_store_t store = {0};
    pleat_block_t *d = make_block(&store, 4096);
    pleat_block_t *a = split(&store, d, 512);
    pleat_block_t *b = split(&store, d, 1024);
    pleat_block_t *c = split(&store, d, 1536);

    cr_expect(eq(u64, pleat_block_absorb(&store, c, b), 1024)); /* a [b c] d */
    cr_expect(eq(u64, c->address, 0x10000 + 512));
    cr_expect(eq(u64, c->bytes, 2560));
    cr_expect(eq(ptr, c->left, a));
    cr_expect(eq(ptr, a->right, c));

    cr_expect(eq(u64, pleat_block_absorb(&store, a, c), 2560)); /* [a b c] d */
    cr_expect(eq(u64, a->address, 0x10000));
    cr_expect(eq(u64, a->bytes, 3072));
    cr_expect(eq(ptr, a->right, d));
    cr_expect(eq(ptr, d->left, a));

    cr_expect(eq(u64, pleat_block_absorb(&store, d, a), 3072)); /* [a b c d] */
    cr_expect(eq(u64, d->address, 0x10000));
    cr_expect(eq(u64, d->bytes, 4096));
    cr_expect(not(pleat_block_is_split(d)));
    cr_expect(eq(sz, store.used_count, 1));
    pleat_block_store_fini(&store);
}

#if PLEAT_CHECKS >= PLEAT_CHECKS_FAST
Test(block, give_refuses_a_block_with_uses, .signal = SIGABRT, .timeout = 5)
{
    pleat_block_store_t store = {0};
    pleat_block_t *block = make_block(&store, 512);
    block->event_count = 1;
    pleat_block_store_give(&store, block);
}

Test(block, absorb_refuses_a_live_neighbour, .signal = SIGABRT, .timeout = 5)
{
    pleat_block_store_t store = {0};
    pleat_block_t *block = make_block(&store, 1024);
    pleat_block_t *low = split(&store, block, 512);
    low->use = PLEAT_BLOCK_USE_LIVE;
    (void)pleat_block_absorb(&store, block, low);
}
#endif

Test(block, objects_set_aside_are_for_nobody_else, .timeout = 5)
{
    pleat_block_store_t store = {0};
    cr_assert(pleat_block_store_reserve(&store, 3));
    pleat_block_t *kept = pleat_block_store_set_aside(&store, 3);
    cr_expect(eq(sz, store.unused_count, PLEAT_BLOCKS_PER_SLAB - 3));
    cr_expect(eq(sz, store.used_count, 0));
    cr_assert(eq(ptr, pleat_block_store_set_aside(&store, 0), NULL));
    size_t taken_count = 0;
    for (; store.unused_count > 0; taken_count++) {
        pleat_block_t *taken = pleat_block_store_take(&store);
        for (const pleat_block_t *block = kept; block != NULL; block = block->child[1]) {
            cr_assert(block != taken);
        }
    }
    cr_expect(eq(sz, taken_count, PLEAT_BLOCKS_PER_SLAB - 3));
    pleat_block_store_put_back(&store, kept);
    pleat_block_store_put_back(&store, NULL);
    cr_expect(eq(sz, store.unused_count, 3));
    for (int i = 0; i < 3; i++) {
        (void)pleat_block_store_take(&store);
    }
    cr_expect(eq(ptr, store.unused, NULL));
    pleat_block_store_fini(&store);
}
