/*
 * trace_live: see trace_live.h. A doubly linked list through an array, and a map by address.
 */
#include "trace_live.h"

#include <stdlib.h>

#define NONE PLEAT_NUMBER_MAP_NONE

enum { CAPACITY_MIN = 256 };

void pleat_trace_live_init(pleat_trace_live_t *live)
{
    *live = (pleat_trace_live_t){.unused = NONE, .newest = NONE};
}

void pleat_trace_live_fini(pleat_trace_live_t *live)
{
    pleat_number_map_fini(&live->by_address);
    free(live->blocks);
    pleat_trace_live_init(live);
}

static bool pleat_trace_live_reserve(pleat_trace_live_t *live)
{
    if (live->unused != NONE || live->block_count < live->capacity) {
        return true;
    }
    if (live->capacity > UINT32_MAX / 4) {
        return false;
    }
    const uint32_t capacity = live->capacity == 0 ? CAPACITY_MIN : live->capacity * 2;
    pleat_live_block_t *blocks = realloc(live->blocks, capacity * sizeof(*blocks));
    if (blocks == NULL) {
        return false;
    }
    live->blocks = blocks;
    live->capacity = capacity;
    return true;
}

bool pleat_trace_live_add(pleat_trace_live_t *live, const pleat_trace_event_t *event)
{
    pleat_trace_live_remove(live, event->address);
    if (!pleat_trace_live_reserve(live)) {
        return false;
    }
    const uint32_t index = live->unused != NONE ? live->unused : live->block_count;
    if (!pleat_number_map_set(&live->by_address, event->address, index)) {
        return false;
    }
    if (index == live->block_count) {
        live->block_count++;
    } else {
        live->unused = live->blocks[index].older;
    }
    live->blocks[index] = (pleat_live_block_t){.address = event->address,
                                               .bytes = event->bytes,
                                               .stream = event->stream,
                                               .newer = NONE,
                                               .older = live->newest};
    if (live->newest != NONE) {
        live->blocks[live->newest].newer = index;
    }
    live->newest = index;
    return true;
}

bool pleat_trace_live_age(const pleat_trace_live_t *live, const pleat_trace_event_t *event,
                          uint64_t *age_out)
{
    const uint32_t index = pleat_number_map_find(&live->by_address, event->address);
    if (index == NONE || live->blocks[index].bytes != event->bytes ||
        live->blocks[index].stream != event->stream) {
        return false;
    }
    uint64_t age = 0;
    for (uint32_t i = live->newest; i != index; i = live->blocks[i].older) {
        if (++age >= PLEAT_TRACE_LIVE_AGE_LIMIT) {
            return false;
        }
    }
    *age_out = age;
    return true;
}

const pleat_live_block_t *pleat_trace_live_at(const pleat_trace_live_t *live, uint64_t age)
{
    if (age >= PLEAT_TRACE_LIVE_AGE_LIMIT) {
        return NULL;
    }
    uint32_t index = live->newest;
    for (uint64_t i = 0; i < age && index != NONE; i++) {
        index = live->blocks[index].older;
    }
    return index == NONE ? NULL : &live->blocks[index];
}

void pleat_trace_live_remove(pleat_trace_live_t *live, pleat_devptr_t address)
{
    const uint32_t index = pleat_number_map_find(&live->by_address, address);
    if (index == NONE) {
        return;
    }
    pleat_live_block_t *block = &live->blocks[index];
    if (block->newer != NONE) {
        live->blocks[block->newer].older = block->older;
    } else {
        live->newest = block->older;
    }
    if (block->older != NONE) {
        live->blocks[block->older].newer = block->newer;
    }
    pleat_number_map_remove(&live->by_address, address);
    block->older = live->unused;
    live->unused = index;
}
