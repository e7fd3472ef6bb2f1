/*
 * trace_placement: see trace_placement.h.
 *
 * Invariants:
 *   P1  Regions of a segment are chained in address order without gaps; no two free neighbours.
 *   P2  A free region is in the list of its pool, unless that was full when it came.
 *   P3  Lists are sorted by (bytes, address) and never longer than FREE_MAX, which bounds the time
 *       for one event whatever the input.
 */
#include "trace_placement.h"

#include <stdlib.h>
#include <string.h>

#define NONE PLEAT_NUMBER_MAP_NONE

enum { POOLS_MAX = 64, FREE_MAX = 8192, REGIONS_MIN = 256 };

#define UNIT_BYTES UINT64_C(512)
#define SMALL_BYTES (UINT64_C(1) << 20)
#define SMALL_SEGMENT_BYTES (UINT64_C(2) << 20)

struct pleat_placement_region {
    pleat_devptr_t address;
    uint64_t bytes;
    uint32_t previous; /* neighbours inside the segment, or NONE */
    uint32_t next;     /* chains unused regions, too */
    uint32_t pool;
    bool is_free;
};

typedef struct pleat_placement_free {
    uint64_t bytes;
    pleat_devptr_t address;
} pleat_placement_free_t;

struct pleat_placement_pool {
    pleat_stream_t stream;
    bool is_small;
    uint32_t free_count;
    uint32_t free_capacity;
    pleat_placement_free_t *free_list;
};

void pleat_trace_placement_init(pleat_trace_placement_t *placement)
{
    *placement = (pleat_trace_placement_t){.unused = NONE};
}

void pleat_trace_placement_fini(pleat_trace_placement_t *placement)
{
    for (uint32_t i = 0; i < placement->pool_count; i++) {
        free(placement->pools[i].free_list);
    }
    pleat_number_map_fini(&placement->by_address);
    free(placement->pools);
    free(placement->regions);
    pleat_trace_placement_init(placement);
}

static uint32_t pleat_placement_pool_find(const pleat_trace_placement_t *placement,
                                          pleat_stream_t stream, bool is_small)
{
    for (uint32_t i = 0; i < placement->pool_count; i++) {
        if (placement->pools[i].stream == stream && placement->pools[i].is_small == is_small) {
            return i;
        }
    }
    return NONE;
}

/* First place in the list whose entry is not before (bytes, address). */
static uint32_t pleat_placement_pool_lower(const pleat_placement_pool_t *pool, uint64_t bytes,
                                           pleat_devptr_t address)
{
    uint32_t low = 0;
    uint32_t high = pool->free_count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        const pleat_placement_free_t *entry = &pool->free_list[middle];
        if (entry->bytes < bytes || (entry->bytes == bytes && entry->address < address)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static bool pleat_placement_insert(pleat_trace_placement_t *placement,
                                   const pleat_placement_region_t *region)
{
    pleat_placement_pool_t *pool = &placement->pools[region->pool];
    if (pool->free_count == FREE_MAX) {
        return true;
    }
    if (pool->free_count == pool->free_capacity) {
        const uint32_t capacity = pool->free_capacity == 0 ? 64 : pool->free_capacity * 2;
        pleat_placement_free_t *list = realloc(pool->free_list, capacity * sizeof(*list));
        if (list == NULL) {
            return false;
        }
        pool->free_list = list;
        pool->free_capacity = capacity;
    }
    const uint32_t at = pleat_placement_pool_lower(pool, region->bytes, region->address);
    memmove(&pool->free_list[at + 1], &pool->free_list[at],
            (pool->free_count - at) * sizeof(pool->free_list[0]));
    pool->free_list[at] =
        (pleat_placement_free_t){.bytes = region->bytes, .address = region->address};
    pool->free_count++;
    return true;
}

static void pleat_placement_take(pleat_trace_placement_t *placement,
                                 const pleat_placement_region_t *region)
{
    pleat_placement_pool_t *pool = &placement->pools[region->pool];
    const uint32_t at = pleat_placement_pool_lower(pool, region->bytes, region->address);
    if (at == pool->free_count || pool->free_list[at].bytes != region->bytes ||
        pool->free_list[at].address != region->address) {
        return;
    }
    pool->free_count--;
    memmove(&pool->free_list[at], &pool->free_list[at + 1],
            (pool->free_count - at) * sizeof(pool->free_list[0]));
}

/* A new region under its address, NONE without host memory. */
static uint32_t pleat_placement_region_add(pleat_trace_placement_t *placement,
                                           const pleat_placement_region_t *region)
{
    if (placement->unused == NONE && placement->region_count == placement->region_capacity) {
        if (placement->region_capacity > UINT32_MAX / 4) {
            return NONE;
        }
        const uint32_t capacity =
            placement->region_capacity == 0 ? REGIONS_MIN : placement->region_capacity * 2;
        pleat_placement_region_t *regions =
            realloc(placement->regions, capacity * sizeof(*regions));
        if (regions == NULL) {
            return NONE;
        }
        placement->regions = regions;
        placement->region_capacity = capacity;
    }
    const bool is_reused = placement->unused != NONE;
    const uint32_t index = is_reused ? placement->unused : placement->region_count;
    if (!pleat_number_map_set(&placement->by_address, region->address, index)) {
        return NONE;
    }
    if (is_reused) {
        placement->unused = placement->regions[index].next;
    } else {
        placement->region_count++;
    }
    placement->regions[index] = *region;
    return index;
}

/* Unchain a region from its neighbours and forget it. */
static void pleat_placement_region_drop(pleat_trace_placement_t *placement, uint32_t index)
{
    pleat_placement_region_t *region = &placement->regions[index];
    if (region->previous != NONE) {
        placement->regions[region->previous].next = region->next;
    }
    if (region->next != NONE) {
        placement->regions[region->next].previous = region->previous;
    }
    pleat_number_map_remove(&placement->by_address, region->address);
    region->next = placement->unused;
    placement->unused = index;
}

static uint64_t pleat_placement_round(uint64_t bytes)
{
    if (bytes > UINT64_MAX - UNIT_BYTES) {
        return bytes;
    }
    const uint64_t rounded = (bytes + UNIT_BYTES - 1) / UNIT_BYTES * UNIT_BYTES;
    return rounded < UNIT_BYTES ? UNIT_BYTES : rounded;
}

pleat_devptr_t pleat_trace_placement_guess(const pleat_trace_placement_t *placement, uint64_t bytes,
                                           pleat_stream_t stream)
{
    const uint64_t rounded = pleat_placement_round(bytes);
    const uint32_t index = pleat_placement_pool_find(placement, stream, rounded <= SMALL_BYTES);
    if (index == NONE) {
        return 0;
    }
    const pleat_placement_pool_t *pool = &placement->pools[index];
    const uint32_t at = pleat_placement_pool_lower(pool, rounded, 0);
    return at < pool->free_count ? pool->free_list[at].address : 0;
}

static bool pleat_placement_learn_segment(pleat_trace_placement_t *placement,
                                          const pleat_trace_event_t *event)
{
    const bool is_small = event->bytes == SMALL_SEGMENT_BYTES;
    uint32_t pool = pleat_placement_pool_find(placement, event->stream, is_small);
    if (pleat_number_map_find(&placement->by_address, event->address) != NONE) {
        return true;
    }
    if (pool == NONE) {
        if (placement->pool_count == POOLS_MAX) {
            return true;
        }
        if (placement->pools == NULL) {
            placement->pools = calloc(POOLS_MAX, sizeof(*placement->pools));
        }
        if (placement->pools == NULL) {
            return false;
        }
        pool = placement->pool_count++;
        placement->pools[pool] =
            (pleat_placement_pool_t){.stream = event->stream, .is_small = is_small};
    }
    const pleat_placement_region_t region = {.address = event->address,
                                             .bytes = event->bytes,
                                             .previous = NONE,
                                             .next = NONE,
                                             .pool = pool,
                                             .is_free = true};
    return pleat_placement_region_add(placement, &region) != NONE &&
           pleat_placement_insert(placement, &region);
}

/* Cut what is left behind rounded bytes off the region, where the default mode would. */
static bool pleat_placement_split(pleat_trace_placement_t *placement, uint32_t index,
                                  uint64_t rounded)
{
    const pleat_placement_region_t region = placement->regions[index];
    const uint64_t rest = region.bytes - rounded;
    const bool is_small = placement->pools[region.pool].is_small;
    const bool is_split = is_small ? rest >= UNIT_BYTES : rest > SMALL_BYTES;
    if (!is_split ||
        pleat_number_map_find(&placement->by_address, region.address + rounded) != NONE) {
        return true;
    }
    const pleat_placement_region_t tail = {.address = region.address + rounded,
                                           .bytes = rest,
                                           .previous = index,
                                           .next = region.next,
                                           .pool = region.pool,
                                           .is_free = true};
    const uint32_t tail_index = pleat_placement_region_add(placement, &tail);
    if (tail_index == NONE) {
        return false;
    }
    if (region.next != NONE) {
        placement->regions[region.next].previous = tail_index;
    }
    placement->regions[index].next = tail_index;
    placement->regions[index].bytes = rounded;
    return pleat_placement_insert(placement, &tail);
}

static bool pleat_placement_learn_alloc(pleat_trace_placement_t *placement,
                                        const pleat_trace_event_t *event)
{
    const uint64_t rounded = pleat_placement_round(event->bytes);
    const uint32_t index = pleat_number_map_find(&placement->by_address, event->address);
    if (index == NONE || !placement->regions[index].is_free ||
        placement->regions[index].bytes < rounded) {
        return true;
    }
    pleat_placement_take(placement, &placement->regions[index]);
    placement->regions[index].is_free = false;
    return pleat_placement_split(placement, index, rounded);
}

static bool pleat_placement_learn_free(pleat_trace_placement_t *placement,
                                       const pleat_trace_event_t *event)
{
    uint32_t index = pleat_number_map_find(&placement->by_address, event->address);
    if (index == NONE || placement->regions[index].is_free) {
        return true;
    }
    const uint32_t next = placement->regions[index].next;
    if (next != NONE && placement->regions[next].is_free) {
        pleat_placement_take(placement, &placement->regions[next]);
        placement->regions[index].bytes += placement->regions[next].bytes;
        pleat_placement_region_drop(placement, next);
    }
    const uint32_t previous = placement->regions[index].previous;
    if (previous != NONE && placement->regions[previous].is_free) {
        pleat_placement_take(placement, &placement->regions[previous]);
        placement->regions[previous].bytes += placement->regions[index].bytes;
        pleat_placement_region_drop(placement, index);
        index = previous;
    }
    placement->regions[index].is_free = true;
    return pleat_placement_insert(placement, &placement->regions[index]);
}

static void pleat_placement_learn_segment_free(pleat_trace_placement_t *placement,
                                               const pleat_trace_event_t *event)
{
    const uint32_t index = pleat_number_map_find(&placement->by_address, event->address);
    if (index != NONE && placement->regions[index].is_free) {
        pleat_placement_take(placement, &placement->regions[index]);
        pleat_placement_region_drop(placement, index);
    }
}

bool pleat_trace_placement_learn(pleat_trace_placement_t *placement,
                                 const pleat_trace_event_t *event)
{
    switch (event->action) {
    case PLEAT_ACTION_ALLOC:
        return pleat_placement_learn_alloc(placement, event);
    case PLEAT_ACTION_FREE_COMPLETED:
        return pleat_placement_learn_free(placement, event);
    case PLEAT_ACTION_SEGMENT_ALLOC:
    case PLEAT_ACTION_SEGMENT_MAP:
        return pleat_placement_learn_segment(placement, event);
    case PLEAT_ACTION_SEGMENT_FREE:
    case PLEAT_ACTION_SEGMENT_UNMAP:
        pleat_placement_learn_segment_free(placement, event);
        return true;
    case PLEAT_ACTION_FREE_REQUESTED:
    case PLEAT_ACTION_SNAPSHOT:
    case PLEAT_ACTION_OOM:
    case PLEAT_ACTION_COUNT:
        break;
    }
    return true;
}
