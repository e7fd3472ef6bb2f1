/*
 * unmapped_list: the blocks of a pool that are addresses without memory, ordered by (stream,
 * address). There are few: one at the end of each range and one a hole that was given back.
 *
 * Invariant (check.c): A3 an unmapped block is in the list of its pool, every other in none.
 * Guarded by the lock of the owning allocator.
 */
#ifndef PLEAT_UNMAPPED_LIST_H
#define PLEAT_UNMAPPED_LIST_H

#include "block.h"

typedef struct pleat_unmapped_list {
    pleat_block_t *first; /* linked by child[0] (before) and child[1] (behind) */
    size_t count;
} pleat_unmapped_list_t;

/* Insert a block in use UNMAPPED. O(blocks in front of it). */
void pleat_unmapped_list_insert(pleat_unmapped_list_t *list, pleat_block_t *block);

/* Remove a block of the list. Constant. */
void pleat_unmapped_list_remove(pleat_unmapped_list_t *list, pleat_block_t *block);

/* First block of a stream, and the next one of the same stream; NULL: none. */
pleat_block_t *pleat_unmapped_list_first(const pleat_unmapped_list_t *list, pleat_stream_t stream);
pleat_block_t *pleat_unmapped_list_next(const pleat_block_t *block);

#endif
