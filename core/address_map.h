/*
 * address_map: from the address of a live allocation to its block.
 *
 * A hash table with chains through the blocks themselves (block.h, next_live) and one block a
 * bucket on average, hardly ever more, so that an entry costs no memory of its own and removal
 * moves nothing. The hash is multiplicative (D. Knuth, "The Art of Computer Programming" 3,
 * section 6.4).
 *
 * Invariant (check.c): A4 one entry per live block, and no other.
 * Guarded by the lock of the owning allocator.
 */
#ifndef PLEAT_ADDRESS_MAP_H
#define PLEAT_ADDRESS_MAP_H

#include "block.h"

typedef struct pleat_address_map {
    pleat_block_t **buckets;
    size_t bucket_count; /* 0 or a power of two */
    size_t used_count;
    unsigned shift; /* 64 - log2(bucket_count) */
} pleat_address_map_t;

/* Double the buckets, or make the first. False: no host memory, nothing changed. */
PLEAT_NODISCARD bool pleat_address_map_grow(pleat_address_map_t *map);

/* Make sure that one more entry fits. False: no host memory, nothing changed. Amortised constant.
 */
PLEAT_NODISCARD static inline bool pleat_address_map_reserve(pleat_address_map_t *map)
{
    return map->used_count < map->bucket_count || pleat_address_map_grow(map);
}

static inline pleat_block_t **pleat_address_map_bucket(const pleat_address_map_t *map,
                                                       pleat_devptr_t address)
{
    return &map->buckets[((address >> 9) * UINT64_C(0x9E3779B97F4A7C15)) >> map->shift];
}

/* Insert a block under its address, which must be absent and not 0. Room must have been reserved;
 * if others took it meanwhile, chains grow longer. */
static inline void pleat_address_map_insert(pleat_address_map_t *map, pleat_block_t *block)
{
    PLEAT_ASSERT(block->address != 0);
    PLEAT_ASSERT(map->bucket_count > 0);
    pleat_block_t **bucket = pleat_address_map_bucket(map, block->address);
    block->next_live = *bucket;
    *bucket = block;
    map->used_count++;
}

/* Where the block at @p address hangs, NULL if there is none; good for a removal until the next
 * change of the map. Constant on average. */
static inline pleat_block_t **pleat_address_map_find_link(const pleat_address_map_t *map,
                                                          pleat_devptr_t address)
{
    if (map->bucket_count == 0) {
        return NULL;
    }
    pleat_block_t **link = pleat_address_map_bucket(map, address);
    while (*link != NULL && (*link)->address != address) {
        link = &(*link)->next_live;
    }
    return *link == NULL ? NULL : link;
}

/* The block at @p address, NULL if there is none. Constant on average. */
static inline pleat_block_t *pleat_address_map_find(const pleat_address_map_t *map,
                                                    pleat_devptr_t address)
{
    pleat_block_t **link = pleat_address_map_find_link(map, address);
    return link == NULL ? NULL : *link;
}

/* Remove the block that hangs at @p link. Constant. */
static inline void pleat_address_map_remove(pleat_address_map_t *map, pleat_block_t **link)
{
    PLEAT_ASSERT(map->used_count > 0);
    *link = (*link)->next_live;
    map->used_count--;
}

/* Free the storage; the blocks are not touched. */
void pleat_address_map_fini(pleat_address_map_t *map);

#endif
