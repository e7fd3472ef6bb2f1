/*
 * home_entries: an observer that passes on what an allocator does, but memory that is handed out in
 * a second range at the places where it lies: an entry a part, with its share of the size. Viewers
 * of PyTorch's snapshots know memory inside segments only.
 * Locks: those of the allocator, whose observer it is.
 */
#ifndef PLEAT_EXPERIMENTS_HOME_ENTRIES_H
#define PLEAT_EXPERIMENTS_HOME_ENTRIES_H

#include "number_map.h"

#include <pleat/allocator.h>

typedef struct pleat_home_part {
    pleat_devptr_t address;
    uint64_t bytes;
} pleat_home_part_t;

/* The parts of what is live at an address of a second range. */
typedef struct pleat_home_block {
    pleat_home_part_t *parts;
    size_t count;
} pleat_home_block_t;

typedef struct pleat_home_entries {
    pleat_allocator_t *allocator;
    pleat_observer_fn_t observer;
    void *context;
    pleat_number_map_t index; /* from the address to blocks */
    pleat_home_block_t *blocks;
    uint32_t block_count;
    uint32_t capacity;
} pleat_home_entries_t;

/* Observe @p allocator from now on for @p observer. */
void pleat_home_entries_init(pleat_home_entries_t *entries, pleat_allocator_t *allocator,
                             pleat_observer_fn_t observer, void *context);

/* Free what is remembered; all zero is nothing. The allocator has another observer, or none. */
void pleat_home_entries_fini(pleat_home_entries_t *entries);

#endif
