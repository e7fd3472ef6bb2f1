/*
 * context_map: tokens of blocks by address.
 */
#include "context_map.h"

#include "vmm/base.h"

#include <stdlib.h>

enum { MAP_FIRST_SLOTS = 256 };

void pleat_context_map_init(pleat_context_map_t *map, const pleat_history_hooks_t *hooks)
{
    *map = (pleat_context_map_t){.hooks = hooks};
}

void pleat_context_map_fini(pleat_context_map_t *map)
{
    for (uint64_t i = 0; i < map->slot_count; i++) {
        pleat_token_release(map->hooks, map->slots[i].token);
    }
    free(map->slots);
    pleat_context_map_init(map, map->hooks);
}

/* Multiplicative hash; addresses are multiples of 512 as a rule, so the high bits count. */
static uint64_t map_home(const pleat_context_map_t *map, pleat_devptr_t address)
{
    return (address * UINT64_C(0x9E3779B97F4A7C15)) >> (64 - pleat_log2_floor(map->slot_count));
}

/* The slot of @p address, or the empty one where it would be. The map has slots. */
static uint64_t map_probe(const pleat_context_map_t *map, pleat_devptr_t address)
{
    uint64_t index = map_home(map, address);
    while (map->slots[index].address != 0 && map->slots[index].address != address) {
        index = (index + 1) & (map->slot_count - 1);
    }
    return index;
}

static bool map_grow(pleat_context_map_t *map)
{
    pleat_context_map_t grown = *map;
    grown.slot_count = map->slot_count > 0 ? 2 * map->slot_count : MAP_FIRST_SLOTS;
    grown.slots = calloc(grown.slot_count, sizeof *grown.slots);
    if (grown.slots == NULL) {
        return false;
    }
    for (uint64_t i = 0; i < map->slot_count; i++) {
        if (map->slots[i].address != 0) {
            grown.slots[map_probe(&grown, map->slots[i].address)] = map->slots[i];
        }
    }
    free(map->slots);
    map->slots = grown.slots;
    map->slot_count = grown.slot_count;
    return true;
}

static void map_remove(pleat_context_map_t *map, pleat_devptr_t address)
{
    const uint64_t mask = map->slot_count - 1;
    uint64_t hole = map_probe(map, address);
    if (map->slots[hole].address == 0) {
        return;
    }
    pleat_token_release(map->hooks, map->slots[hole].token);
    map->used_count--;
    for (uint64_t i = (hole + 1) & mask; map->slots[i].address != 0; i = (i + 1) & mask) {
        const uint64_t home = map_home(map, map->slots[i].address);
        if (((i - home) & mask) >= ((i - hole) & mask)) { /* its home is at or before the hole */
            map->slots[hole] = map->slots[i];
            hole = i;
        }
    }
    map->slots[hole] = (pleat_context_slot_t){0};
}

void pleat_context_map_set(pleat_context_map_t *map, pleat_devptr_t address, void *token)
{
    if (map->used_count > 0) {
        map_remove(map, address);
    }
    if (token == NULL || address == 0) {
        return;
    }
    if (2 * (map->used_count + 1) > map->slot_count && !map_grow(map)) {
        return;
    }
    pleat_token_retain(map->hooks, token);
    map->slots[map_probe(map, address)] = (pleat_context_slot_t){address, token};
    map->used_count++;
}

void *pleat_context_map_find(const pleat_context_map_t *map, pleat_devptr_t address)
{
    return map->used_count > 0 ? map->slots[map_probe(map, address)].token : NULL;
}
