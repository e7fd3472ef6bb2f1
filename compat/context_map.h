/*
 * context_map (internal): from the address of a live block to the token of its allocation.
 *
 * A hash table with linear probing, at most half full; an entry that is removed is filled by moving
 * back those behind it (D. Knuth, "The Art of Computer Programming" 3, section 6.4, algorithm R).
 * The map holds one reference to each of its tokens. Guarded by the lock of the owning history.
 */
#ifndef PLEAT_INTERNAL_CONTEXT_MAP_H
#define PLEAT_INTERNAL_CONTEXT_MAP_H

#include "history_token.h"

typedef struct pleat_context_slot {
    pleat_devptr_t address; /* 0: empty */
    void *token;
} pleat_context_slot_t;

typedef struct pleat_context_map {
    const pleat_history_hooks_t *hooks;
    pleat_context_slot_t *slots;
    uint64_t slot_count; /* 0 or a power of two */
    uint64_t used_count;
} pleat_context_map_t;

void pleat_context_map_init(pleat_context_map_t *map, const pleat_history_hooks_t *hooks);
void pleat_context_map_fini(pleat_context_map_t *map);

/* Retain @p token for @p address, in place of one that is there; NULL only removes. Without host
 * memory the address has none. Amortised constant. */
void pleat_context_map_set(pleat_context_map_t *map, pleat_devptr_t address, void *token);

/* NULL: none. Constant on average. */
void *pleat_context_map_find(const pleat_context_map_t *map, pleat_devptr_t address);

#endif
