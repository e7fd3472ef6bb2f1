/*
 * number_map: from a 64-bit number to a 32-bit index. Open addressing with linear probing; removal
 * shifts the run back, so there are no tombstones. Used by trace_live and trace_placement.
 * Locks: none; its owner's.
 */
#ifndef PLEAT_EXPERIMENTS_NUMBER_MAP_H
#define PLEAT_EXPERIMENTS_NUMBER_MAP_H

#include <pleat/base.h>

#define PLEAT_NUMBER_MAP_NONE UINT32_MAX

typedef struct pleat_number_slot {
    uint64_t key;
    uint32_t value; /* PLEAT_NUMBER_MAP_NONE: empty */
} pleat_number_slot_t;

/* All zero is an empty map. */
typedef struct pleat_number_map {
    pleat_number_slot_t *slots;
    size_t slot_count; /* 0 or a power of two; at most three quarters are used */
    size_t used_count;
} pleat_number_map_t;

/* The value of a key, PLEAT_NUMBER_MAP_NONE if it is absent. Constant on average. */
uint32_t pleat_number_map_find(const pleat_number_map_t *map, uint64_t key);

/* Set the value (not NONE) of a key. False: no host memory, nothing changed. */
PLEAT_NODISCARD bool pleat_number_map_set(pleat_number_map_t *map, uint64_t key, uint32_t value);

/* Remove a key if it is there. */
void pleat_number_map_remove(pleat_number_map_t *map, uint64_t key);

/* Free the storage; the map is empty again. */
void pleat_number_map_fini(pleat_number_map_t *map);

#endif
