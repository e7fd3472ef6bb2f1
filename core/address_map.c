/*
 * address_map: live addresses, found in about one probe.
 */
#include "address_map.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_SLOTS_LOG2 10u

static size_t address_home(const pleat_address_map_t *map, pleat_devptr_t address)
{
    return (size_t)(((address >> 9) * UINT64_C(0x9E3779B97F4A7C15)) >> map->shift);
}

static void address_map_place(pleat_address_map_t *map, pleat_address_slot_t entry)
{
    const size_t mask = map->slot_count - 1;
    size_t index = address_home(map, entry.address);
    while (map->slots[index].address != 0) {
        PLEAT_ASSERT(map->slots[index].address != entry.address);
        index = (index + 1) & mask;
    }
    map->slots[index] = entry;
}

bool pleat_address_map_reserve(pleat_address_map_t *map)
{
    if (map->used_count + 1 <= map->slot_count - map->slot_count / 4) {
        return true;
    }
    const unsigned log2 = map->slot_count == 0 ? FIRST_SLOTS_LOG2 : 65 - map->shift;
    pleat_address_map_t grown = {.slot_count = (size_t)1 << log2, .shift = 64 - log2};
    grown.slots = calloc(grown.slot_count, sizeof(*grown.slots));
    if (grown.slots == NULL) {
        return false;
    }
    for (size_t i = 0; i < map->slot_count; i++) {
        if (map->slots[i].address != 0) {
            address_map_place(&grown, map->slots[i]);
        }
    }
    grown.used_count = map->used_count;
    free(map->slots);
    *map = grown;
    return true;
}

void pleat_address_map_insert(pleat_address_map_t *map, pleat_block_t *block)
{
    PLEAT_ASSERT(block->address != 0);
    PLEAT_ASSERT(map->used_count < map->slot_count);
    address_map_place(map, (pleat_address_slot_t){.address = block->address, .block = block});
    map->used_count++;
}

/* Slot of an address, or slot_count. */
static size_t address_map_index(const pleat_address_map_t *map, pleat_devptr_t address)
{
    if (map->slot_count == 0 || address == 0) {
        return map->slot_count;
    }
    const size_t mask = map->slot_count - 1;
    size_t index = address_home(map, address);
    while (map->slots[index].address != address) {
        if (map->slots[index].address == 0) {
            return map->slot_count;
        }
        index = (index + 1) & mask;
    }
    return index;
}

pleat_block_t *pleat_address_map_find(const pleat_address_map_t *map, pleat_devptr_t address)
{
    const size_t index = address_map_index(map, address);
    return index == map->slot_count ? NULL : map->slots[index].block;
}

void pleat_address_map_remove(pleat_address_map_t *map, pleat_devptr_t address)
{
    const size_t mask = map->slot_count - 1;
    size_t hole = address_map_index(map, address);
    PLEAT_ASSERT(hole < map->slot_count);
    for (size_t next = (hole + 1) & mask; map->slots[next].address != 0; next = (next + 1) & mask) {
        /* An entry may move into the hole unless its home lies behind the hole. */
        const size_t home = address_home(map, map->slots[next].address);
        if (((next - home) & mask) >= ((next - hole) & mask)) {
            map->slots[hole] = map->slots[next];
            hole = next;
        }
    }
    map->slots[hole] = (pleat_address_slot_t){0};
    map->used_count--;
}

void pleat_address_map_fini(pleat_address_map_t *map)
{
    free(map->slots);
    memset(map, 0, sizeof(*map));
}
