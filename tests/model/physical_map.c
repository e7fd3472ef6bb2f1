/*
 * physical_map: mappings by address, live and kept allocations by their extents.
 */
#include "physical_map.h"

#include "fixture.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void physical_map_fini(physical_map_t *map)
{
    for (size_t i = 0; i < map->live_count; i++) {
        free(map->lives[i].extents);
    }
    for (size_t i = 0; i < map->kept_count; i++) {
        free(map->kept[i].extents);
    }
    free(map->lives);
    free(map->kept);
    free(map->mappings);
    memset(map, 0, sizeof(*map));
}

/* ---- mappings ---- */

/* Index of the first mapping that ends behind @p address. */
static size_t map_index(const physical_map_t *map, pleat_devptr_t address)
{
    size_t low = 0;
    size_t high = map->mapping_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (map->mappings[middle].address + map->mappings[middle].bytes <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

bool physical_map_covers(const physical_map_t *map, pleat_devptr_t address)
{
    const size_t index = map_index(map, address);
    return index < map->mapping_count && map->mappings[index].address <= address;
}

void physical_map_add(physical_map_t *map, pleat_devptr_t address, uint64_t bytes,
                      pleat_chunk_t chunk)
{
    if (map->mapping_count == map->mapping_capacity) {
        map->mapping_capacity = map->mapping_capacity == 0 ? 64 : 2 * map->mapping_capacity;
        map->mappings = realloc(map->mappings, map->mapping_capacity * sizeof(map->mappings[0]));
        FIXTURE_REQUIRE(map->mappings != NULL, "no memory");
    }
    const size_t index = map_index(map, address);
    memmove(&map->mappings[index + 1], &map->mappings[index],
            (map->mapping_count - index) * sizeof(map->mappings[0]));
    map->mappings[index] = (physical_mapping_t){.address = address, .bytes = bytes, .chunk = chunk};
    map->mapping_count++;
}

/* Complain if a span that goes lies under one of a list. */
static void map_check_removal(physical_map_t *map, const physical_live_t *list, size_t count,
                              const char *what, pleat_devptr_t address, uint64_t bytes)
{
    for (size_t i = 0; i < count; i++) {
        if (list[i].address < address + bytes && address < list[i].address + list[i].bytes &&
            map->complaint[0] == '\0') {
            (void)snprintf(map->complaint, sizeof(map->complaint),
                           "0x%" PRIx64 " of %" PRIu64 " bytes is given back under %s%" PRIu32,
                           address, bytes, what, list[i].id);
        }
    }
}

void physical_map_remove(physical_map_t *map, pleat_devptr_t address, uint64_t bytes)
{
    map_check_removal(map, map->lives, map->live_count, "live a", address, bytes);
    map_check_removal(map, map->kept, map->kept_count, "what was captured in pool ", address,
                      bytes);
    const size_t begin = map_index(map, address);
    size_t end = begin;
    while (end < map->mapping_count && map->mappings[end].address < address + bytes) {
        end++;
    }
    if (end > begin) {
        memmove(&map->mappings[begin], &map->mappings[end],
                (map->mapping_count - end) * sizeof(map->mappings[0]));
        map->mapping_count -= end - begin;
    }
}

size_t physical_map_count(const physical_map_t *map, pleat_chunk_t chunk)
{
    size_t count = 0;
    for (size_t i = 0; i < map->mapping_count; i++) {
        count += map->mappings[i].chunk == chunk;
    }
    return count;
}

/* ---- live allocations ---- */

/* The runs of memory under a span; NULL and a complaint if a part of it is mapped and a part not.
 */
static physical_extent_t *map_extents(physical_map_t *map, const physical_live_t *live,
                                      size_t *count_out)
{
    const pleat_devptr_t end = live->address + live->bytes;
    size_t index = map_index(map, live->address);
    size_t count = 0;
    while (index + count < map->mapping_count && map->mappings[index + count].address < end) {
        count++;
    }
    physical_extent_t *extents = calloc(count + 1, sizeof(*extents));
    FIXTURE_REQUIRE(extents != NULL, "no memory");
    if (count == 0) {
        extents[0] = (physical_extent_t){.begin = live->address, .end = end};
        *count_out = 1;
        return extents;
    }
    pleat_devptr_t at = live->address;
    for (size_t i = 0; i < count; i++) {
        const physical_mapping_t *mapping = &map->mappings[index + i];
        const pleat_devptr_t mapping_end = mapping->address + mapping->bytes;
        if (mapping->address > at) {
            break;
        }
        extents[i] =
            (physical_extent_t){.chunk = mapping->chunk,
                                .begin = at - mapping->address,
                                .end = (end < mapping_end ? end : mapping_end) - mapping->address};
        at = mapping_end;
    }
    if (at < end) {
        (void)snprintf(map->complaint, sizeof(map->complaint),
                       "a%" PRIu32 " at 0x%" PRIx64 " of %" PRIu64
                       " bytes is handed out, but nothing is mapped at 0x%" PRIx64,
                       live->id, live->address, live->bytes, at);
    }
    *count_out = count;
    return extents;
}

static bool map_shares(const physical_live_t *a, const physical_live_t *b)
{
    for (size_t i = 0; i < a->extent_count; i++) {
        for (size_t k = 0; k < b->extent_count; k++) {
            const physical_extent_t *left = &a->extents[i];
            const physical_extent_t *right = &b->extents[k];
            if (left->chunk == right->chunk && left->begin < right->end &&
                right->begin < left->end) {
                return true;
            }
        }
    }
    return false;
}

/* Does an allocation have a run of memory twice? */
static bool map_repeats(const physical_live_t *live)
{
    for (size_t i = 0; i < live->extent_count; i++) {
        for (size_t k = i + 1; k < live->extent_count; k++) {
            if (live->extents[i].chunk == live->extents[k].chunk &&
                live->extents[i].begin < live->extents[k].end &&
                live->extents[k].begin < live->extents[i].end) {
                return true;
            }
        }
    }
    return false;
}

size_t physical_map_begin(physical_map_t *map, uint32_t id, pleat_devptr_t address, uint64_t bytes)
{
    if (map->live_count == map->live_capacity) {
        map->live_capacity = map->live_capacity == 0 ? 64 : 2 * map->live_capacity;
        map->lives = realloc(map->lives, map->live_capacity * sizeof(map->lives[0]));
        FIXTURE_REQUIRE(map->lives != NULL, "no memory");
    }
    physical_live_t *live = &map->lives[map->live_count++];
    *live = (physical_live_t){.id = id, .address = address, .bytes = bytes};
    live->extents = map_extents(map, live, &live->extent_count);
    const physical_live_t *other = NULL;
    for (size_t i = 0; i + 1 < map->live_count && other == NULL; i++) {
        other = map_shares(live, &map->lives[i]) ? &map->lives[i] : NULL;
    }
    if (other == NULL && map_repeats(live)) {
        other = live;
    }
    if (other != NULL && map->complaint[0] == '\0') {
        (void)snprintf(map->complaint, sizeof(map->complaint),
                       "a%" PRIu32 " at 0x%" PRIx64 " of %" PRIu64 " bytes and a%" PRIu32
                       " at 0x%" PRIx64 " share memory",
                       id, address, bytes, other->id, other->address);
    }
    return live->extent_count;
}

void physical_map_end(physical_map_t *map, uint32_t id)
{
    for (size_t i = 0; i < map->live_count; i++) {
        if (map->lives[i].id == id) {
            free(map->lives[i].extents);
            map->lives[i] = map->lives[--map->live_count];
            return;
        }
    }
}

/* ---- kept memory ---- */

void physical_map_keep(physical_map_t *map, uint32_t pool, pleat_devptr_t address, uint64_t bytes)
{
    for (size_t i = 0; i < map->kept_count; i++) {
        const physical_live_t *kept = &map->kept[i];
        if (kept->id == pool && kept->address <= address &&
            address + bytes <= kept->address + kept->bytes) {
            return;
        }
    }
    if (map->kept_count == map->kept_capacity) {
        map->kept_capacity = map->kept_capacity == 0 ? 64 : 2 * map->kept_capacity;
        map->kept = realloc(map->kept, map->kept_capacity * sizeof(map->kept[0]));
        FIXTURE_REQUIRE(map->kept != NULL, "no memory");
    }
    physical_live_t *kept = &map->kept[map->kept_count++];
    *kept = (physical_live_t){.id = pool, .address = address, .bytes = bytes};
    kept->extents = map_extents(map, kept, &kept->extent_count);
}

static bool map_shares_chunk(const physical_live_t *a, const physical_live_t *b)
{
    for (size_t i = 0; i < a->extent_count; i++) {
        for (size_t k = 0; k < b->extent_count; k++) {
            if (a->extents[i].chunk != 0 && a->extents[i].chunk == b->extents[k].chunk) {
                return true;
            }
        }
    }
    return map_shares(a, b);
}

bool physical_map_intrudes(const physical_map_t *map, uint32_t id, uint32_t pool)
{
    for (size_t i = 0; i < map->live_count; i++) {
        for (size_t k = 0; k < map->kept_count && map->lives[i].id == id; k++) {
            if (map->kept[k].id != pool && map_shares_chunk(&map->lives[i], &map->kept[k])) {
                return true;
            }
        }
    }
    return false;
}

void physical_map_let_go(physical_map_t *map, uint32_t pool, bool is_plain_only)
{
    for (size_t i = map->kept_count; i-- > 0;) {
        const bool is_plain = map->kept[i].extents[0].chunk == 0;
        if (map->kept[i].id == pool && (is_plain || !is_plain_only)) {
            free(map->kept[i].extents);
            map->kept[i] = map->kept[--map->kept_count];
        }
    }
}
