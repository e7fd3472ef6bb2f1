/*
 * address_space (internal): which address the simulated device gives to an allocation, in the
 * manner of the CUDA driver, and deterministic.
 *
 *   holes   unused address space, one hole at first; slabs are cut from the top of the highest hole
 *           that is larger than the slab, so addresses fall
 *   slabs   multiples of 32 MiB; each serves the allocation that it was made for and, in what is
 *           left behind it, smaller ones. A slab without allocations goes back to the holes
 *   gaps    free addresses inside slabs; the lowest gap that fits serves first
 *
 * Read off recorded driver addresses: from the recorded state before it, the rules name the address
 * of 60-97 % of the allocations in sessions that had the device's addresses to themselves, fewer
 * where other libraries take some in between. Allocations below 2 MiB share slabs of 2 MiB by the
 * same rules in steps of 512 bytes.
 *
 * Invariants:
 *   V1  Gaps lie inside slabs, and none spans a border between slabs.
 *   V2  Touching gaps of one slab, and touching holes, are merged.
 *   V3  A slab whose only gap is the slab itself does not exist.
 * No lock: guarded by the owner of the device.
 */
#ifndef PLEAT_ADDRESS_SPACE_H
#define PLEAT_ADDRESS_SPACE_H

#include "span_tree.h"

typedef struct pleat_address_arena {
    pleat_span_tree_t slabs;
    pleat_span_tree_t gaps;
} pleat_address_arena_t;

typedef struct pleat_address_space {
    pleat_span_pool_t *pool; /* the device's; shared with its live allocations */
    pleat_span_t all;        /* addresses to give out */
    pleat_span_tree_t holes;
    pleat_address_arena_t large; /* steps of 2 MiB, slabs of 32 MiB */
    pleat_address_arena_t small; /* steps of 512 bytes, slabs of 2 MiB out of large */
} pleat_address_space_t;

/* Nodes that the pool must have in reserve before a take: hole, two slabs, two gaps, one to spare.
 */
#define PLEAT_ADDRESS_TAKE_NODES 6u

/** Start with all addresses unused. @retval PLEAT_ERR_OOM_HOST no host memory. */
PLEAT_NODISCARD pleat_status_t pleat_address_space_init(pleat_address_space_t *space,
                                                        pleat_span_pool_t *pool);

/** The same over these addresses only; they begin and end on multiples of 32 MiB. */
PLEAT_NODISCARD pleat_status_t pleat_address_space_init_in(pleat_address_space_t *space,
                                                           pleat_span_pool_t *pool,
                                                           pleat_span_t all);

/**
 * Choose and take an address for @p bytes > 0; PLEAT_ADDRESS_TAKE_NODES must be reserved.
 * @return the address, 2 MiB aligned from 2 MiB on, else 512-byte aligned; 0: no addresses left.
 * @par Cost O(log n).
 */
pleat_devptr_t pleat_address_space_take(pleat_address_space_t *space, uint64_t bytes);

/**
 * Give back what a take of @p bytes gave, after its node in another tree of the pool was freed:
 * cannot fail, as it needs no more nodes than become free.
 * @par Cost O(log n).
 */
void pleat_address_space_give(pleat_address_space_t *space, pleat_devptr_t address, uint64_t bytes);

#endif
