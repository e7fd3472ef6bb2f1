/*
 * home_entries: see home_entries.h. Without host memory an entry is passed on as it is.
 */
#include "home_entries.h"

#include "../../core/allocator.h"
#include "../../core/view.h"

#include <stdlib.h>

/* The parts of a view's block and their shares of @p bytes; an empty one: no host memory. */
static pleat_home_block_t home_parts(const pleat_block_t *block, uint64_t bytes)
{
    size_t count = 0;
    for (const pleat_block_t *part = pleat_view_next_part(block); part != NULL;
         part = pleat_view_next_part(part)) {
        count++;
    }
    pleat_home_block_t home = {.parts = calloc(count + 1, sizeof(*home.parts))};
    for (const pleat_block_t *part = pleat_view_next_part(block);
         part != NULL && home.parts != NULL; part = pleat_view_next_part(part)) {
        const uint64_t share = bytes < part->bytes ? bytes : part->bytes;
        home.parts[home.count++] = (pleat_home_part_t){part->address, share};
        bytes -= share;
    }
    return home;
}

/* Place for one more block; UINT32_MAX: no host memory. */
static uint32_t home_place(pleat_home_entries_t *entries)
{
    for (uint32_t i = 0; i < entries->block_count; i++) {
        if (entries->blocks[i].parts == NULL) {
            return i;
        }
    }
    if (entries->block_count == entries->capacity) {
        const uint32_t capacity = entries->capacity > 0 ? 2 * entries->capacity : 16;
        pleat_home_block_t *blocks = realloc(entries->blocks, capacity * sizeof(*blocks));
        if (blocks == NULL) {
            return PLEAT_NUMBER_MAP_NONE;
        }
        entries->blocks = blocks;
        entries->capacity = capacity;
    }
    entries->blocks[entries->block_count] = (pleat_home_block_t){.parts = NULL};
    return entries->block_count++;
}

/* Remember where the block at the address of an allocation lies, if that is in a second range. */
static void home_remember(pleat_home_entries_t *entries, const pleat_trace_entry_t *entry)
{
    const pleat_block_t *block = pleat_address_map_find(&entries->allocator->live, entry->address);
    if (block == NULL || block->view == NULL) {
        return;
    }
    const uint32_t index = home_place(entries);
    if (index == PLEAT_NUMBER_MAP_NONE) {
        return;
    }
    pleat_home_block_t home = home_parts(block, entry->bytes);
    if (home.count == 0 || !pleat_number_map_set(&entries->index, entry->address, index)) {
        free(home.parts);
        return;
    }
    entries->blocks[index] = home;
}

static void home_forget(pleat_home_entries_t *entries, pleat_devptr_t address, uint32_t index)
{
    pleat_number_map_remove(&entries->index, address);
    free(entries->blocks[index].parts);
    entries->blocks[index] = (pleat_home_block_t){.parts = NULL};
}

static void home_observe(void *context, const pleat_trace_entry_t *entry)
{
    pleat_home_entries_t *entries = context;
    const bool is_free = entry->action == PLEAT_ACTION_FREE_REQUESTED ||
                         entry->action == PLEAT_ACTION_FREE_COMPLETED;
    uint32_t index = PLEAT_NUMBER_MAP_NONE;
    if (entry->action == PLEAT_ACTION_ALLOC) {
        home_remember(entries, entry);
    }
    if (entry->action == PLEAT_ACTION_ALLOC || is_free) {
        index = pleat_number_map_find(&entries->index, entry->address);
    }
    if (index == PLEAT_NUMBER_MAP_NONE) {
        entries->observer(entries->context, entry);
        return;
    }
    const pleat_home_block_t *home = &entries->blocks[index];
    for (size_t i = 0; i < home->count; i++) {
        pleat_trace_entry_t part = *entry;
        part.address = home->parts[i].address;
        part.bytes = home->parts[i].bytes;
        entries->observer(entries->context, &part);
    }
    if (entry->action == PLEAT_ACTION_FREE_COMPLETED) {
        home_forget(entries, entry->address, index);
    }
}

void pleat_home_entries_init(pleat_home_entries_t *entries, pleat_allocator_t *allocator,
                             pleat_observer_fn_t observer, void *context)
{
    *entries =
        (pleat_home_entries_t){.allocator = allocator, .observer = observer, .context = context};
    pleat_set_observer(allocator, home_observe, entries);
}

void pleat_home_entries_fini(pleat_home_entries_t *entries)
{
    for (uint32_t i = 0; i < entries->block_count; i++) {
        free(entries->blocks[i].parts);
    }
    free(entries->blocks);
    pleat_number_map_fini(&entries->index);
    *entries = (pleat_home_entries_t){.allocator = NULL};
}
