/*
 * number_map: see number_map.h. The removal is algorithm R of D. Knuth, "The Art of Computer
 * Programming" 3, section 6.4.
 */
#include "number_map.h"

#include <stdlib.h>
#include <string.h>

enum { SLOTS_MIN = 64 };

static size_t pleat_number_map_home(const pleat_number_map_t *map, uint64_t key)
{
    const uint64_t golden = UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)((key * golden) >> 32) & (map->slot_count - 1);
}

/* The slot of the key, or the empty one where it would go. There always is an empty one. */
static size_t pleat_number_map_slot(const pleat_number_map_t *map, uint64_t key)
{
    size_t i = pleat_number_map_home(map, key);
    while (map->slots[i].value != PLEAT_NUMBER_MAP_NONE && map->slots[i].key != key) {
        i = (i + 1) & (map->slot_count - 1);
    }
    return i;
}

uint32_t pleat_number_map_find(const pleat_number_map_t *map, uint64_t key)
{
    return map->slot_count == 0 ? PLEAT_NUMBER_MAP_NONE
                                : map->slots[pleat_number_map_slot(map, key)].value;
}

static bool pleat_number_map_grow(pleat_number_map_t *map)
{
    const size_t slot_count = map->slot_count == 0 ? SLOTS_MIN : map->slot_count * 2;
    pleat_number_map_t larger = {.slot_count = slot_count, .used_count = map->used_count};
    larger.slots = malloc(slot_count * sizeof(*larger.slots));
    if (larger.slots == NULL) {
        return false;
    }
    for (size_t i = 0; i < slot_count; i++) {
        larger.slots[i] = (pleat_number_slot_t){.value = PLEAT_NUMBER_MAP_NONE};
    }
    for (size_t i = 0; i < map->slot_count; i++) {
        if (map->slots[i].value != PLEAT_NUMBER_MAP_NONE) {
            larger.slots[pleat_number_map_slot(&larger, map->slots[i].key)] = map->slots[i];
        }
    }
    free(map->slots);
    *map = larger;
    return true;
}

bool pleat_number_map_set(pleat_number_map_t *map, uint64_t key, uint32_t value)
{
    if (map->used_count + 1 > map->slot_count / 4 * 3 && !pleat_number_map_grow(map)) {
        return false;
    }
    pleat_number_slot_t *slot = &map->slots[pleat_number_map_slot(map, key)];
    if (slot->value == PLEAT_NUMBER_MAP_NONE) {
        map->used_count++;
    }
    *slot = (pleat_number_slot_t){.key = key, .value = value};
    return true;
}

void pleat_number_map_remove(pleat_number_map_t *map, uint64_t key)
{
    if (map->slot_count == 0) {
        return;
    }
    const size_t mask = map->slot_count - 1;
    size_t hole = pleat_number_map_slot(map, key);
    if (map->slots[hole].value == PLEAT_NUMBER_MAP_NONE) {
        return;
    }
    map->used_count--;
    for (size_t i = (hole + 1) & mask; map->slots[i].value != PLEAT_NUMBER_MAP_NONE;
         i = (i + 1) & mask) {
        /* An entry may move back to the hole unless its home lies behind the hole. */
        const size_t home = pleat_number_map_home(map, map->slots[i].key);
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            map->slots[hole] = map->slots[i];
            hole = i;
        }
    }
    map->slots[hole].value = PLEAT_NUMBER_MAP_NONE;
}

void pleat_number_map_fini(pleat_number_map_t *map)
{
    free(map->slots);
    *map = (pleat_number_map_t){0};
}
