/*
 * block: slabs of block objects, and merging.
 */
#include "block.h"

#include <stdlib.h>
#include <string.h>

bool pleat_block_store_grow(pleat_block_store_t *store, size_t count)
{
    while (store->unused_count < count) {
        pleat_block_slab_t *slab = calloc(1, sizeof(*slab));
        if (slab == NULL) {
            return false;
        }
        slab->next = store->slabs;
        store->slabs = slab;
        for (size_t i = PLEAT_BLOCKS_PER_SLAB; i-- > 0;) {
            slab->blocks[i].child[1] = store->unused;
            store->unused = &slab->blocks[i];
        }
        store->unused_count += PLEAT_BLOCKS_PER_SLAB;
    }
    return true;
}

pleat_block_t *pleat_block_store_set_aside(pleat_block_store_t *store, size_t count)
{
    PLEAT_ASSERT(store->unused_count >= count);
    pleat_block_t *blocks = NULL;
    store->unused_count -= count;
    while (count-- > 0) {
        pleat_block_t *block = store->unused;
        store->unused = block->child[1];
        block->child[1] = blocks;
        blocks = block;
    }
    return blocks;
}

void pleat_block_store_put_back(pleat_block_store_t *store, pleat_block_t *blocks)
{
    while (blocks != NULL) {
        pleat_block_t *block = blocks;
        blocks = block->child[1];
        block->child[1] = store->unused;
        store->unused = block;
        store->unused_count++;
    }
}

void pleat_block_store_fini(pleat_block_store_t *store)
{
    while (store->slabs != NULL) {
        pleat_block_slab_t *slab = store->slabs;
        store->slabs = slab->next;
        free(slab);
    }
    memset(store, 0, sizeof(*store));
}

void pleat_block_split_high(pleat_block_t *block, uint64_t low_bytes, pleat_block_t *high)
{
    PLEAT_ASSERT(low_bytes > 0);
    PLEAT_ASSERT(low_bytes < block->bytes);
    pleat_block_take_after(high, block);
    high->address = block->address + low_bytes;
    high->bytes = block->bytes - low_bytes;
    high->use = block->use;
    high->left = block;
    high->right = block->right;
    if (high->right != NULL) {
        high->right->left = high;
    }
    block->right = high;
    block->bytes = low_bytes;
}

uint64_t pleat_block_absorb(pleat_block_store_t *store, pleat_block_t *block, pleat_block_t *other)
{
    PLEAT_ASSERT(other == block->left || other == block->right);
    PLEAT_ASSERT(other->use == PLEAT_BLOCK_USE_FREE || other->use == PLEAT_BLOCK_USE_UNMAPPED);
    PLEAT_ASSERT(other->range == block->range);
    const uint64_t absorbed_bytes = other->bytes;
    if (other == block->left) {
        PLEAT_ASSERT(other->address + other->bytes == block->address);
        block->address = other->address;
        block->left = other->left;
        if (block->left != NULL) {
            block->left->right = block;
        }
    } else {
        PLEAT_ASSERT(block->address + block->bytes == other->address);
        block->right = other->right;
        if (block->right != NULL) {
            block->right->left = block;
        }
    }
    block->bytes += absorbed_bytes;
    pleat_block_store_give(store, other);
    return absorbed_bytes;
}
