/*
 * address_map: from the address of a live allocation to its block.
 *
 * Open addressing with linear probing and a multiplicative hash; deletion shifts the run back, so
 * that there are no tombstones (D. Knuth, "The Art of Computer Programming" 3, section 6.4,
 * algorithm R). At most three quarters of the slots are used.
 *
 * Invariant (check.c): A4 one entry per live block, and no other.
 * Guarded by the lock of the owning allocator.
 */
#ifndef PLEAT_ADDRESS_MAP_H
#define PLEAT_ADDRESS_MAP_H

#include "block.h"

typedef struct pleat_address_slot {
    pleat_devptr_t address; /* 0: empty */
    pleat_block_t *block;
} pleat_address_slot_t;

typedef struct pleat_address_map {
    pleat_address_slot_t *slots;
    size_t slot_count; /* 0 or a power of two */
    size_t used_count;
    unsigned shift; /* 64 - log2(slot_count) */
} pleat_address_map_t;

/* Make sure that one more entry fits. False: no host memory, nothing changed. Amortised constant.
 */
PLEAT_NODISCARD bool pleat_address_map_reserve(pleat_address_map_t *map);

/* Insert a block under its address, which must be absent and not 0; room must be reserved. */
void pleat_address_map_insert(pleat_address_map_t *map, pleat_block_t *block);

/* The block at @p address, NULL if there is none. Constant on average. */
pleat_block_t *pleat_address_map_find(const pleat_address_map_t *map, pleat_devptr_t address);

/* Remove the entry of @p address, which must be present. Constant on average. */
void pleat_address_map_remove(pleat_address_map_t *map, pleat_devptr_t address);

/* Free the storage; the blocks are not touched. */
void pleat_address_map_fini(pleat_address_map_t *map);

#endif
