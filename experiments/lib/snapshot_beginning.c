/*
 * snapshot_beginning: see snapshot_beginning.h.
 */
#include "snapshot_beginning.h"

#include "number_map.h"
#include "vmm/base.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_CAPACITY = 64 };

/* What the history tells last of an address. */
enum { STATE_LIVE, STATE_WAITING, STATE_FREE };

typedef struct pleat_beginning_walk {
    const pleat_torch_snapshot_t *snapshot;
    uint32_t device;
    pleat_snapshot_beginning_t *beginning;
    pleat_number_map_t blocks;      /* address to state */
    pleat_number_map_t segments;    /* address to state, LIVE or FREE */
    pleat_beginning_list_t created; /* mapped in the history, or allocated and there at its end */
} pleat_beginning_walk_t;

static pleat_status_t beginning_no_memory(void)
{
    pleat_error_set("no host memory to find what a history begins with");
    return PLEAT_ERR_OOM_HOST;
}

static pleat_status_t list_add(pleat_beginning_list_t *list, pleat_beginning_part_t part)
{
    if (list->count == list->capacity) {
        const size_t capacity = list->capacity == 0 ? FIRST_CAPACITY : list->capacity * 2;
        pleat_beginning_part_t *parts = realloc(list->parts, capacity * sizeof(*parts));
        if (parts == NULL) {
            return beginning_no_memory();
        }
        list->parts = parts;
        list->capacity = capacity;
    }
    list->parts[list->count++] = part;
    return PLEAT_OK;
}

static int part_compare(const void *left, const void *right)
{
    const pleat_beginning_part_t *a = left;
    const pleat_beginning_part_t *b = right;
    return a->address != b->address ? (a->address > b->address) - (a->address < b->address)
                                    : (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

static void list_sort(pleat_beginning_list_t *list)
{
    if (list->count > 1) {
        qsort(list->parts, list->count, sizeof(*list->parts), part_compare);
    }
}

/* Take out what lies over the part before it; returns how many. */
static uint64_t list_drop_overlaps(pleat_beginning_list_t *list)
{
    size_t kept = 0;
    list_sort(list);
    for (size_t i = 0; i < list->count; i++) {
        const pleat_beginning_part_t *last = kept > 0 ? &list->parts[kept - 1] : NULL;
        if (last == NULL || (list->parts[i].address - last->address >= last->bytes &&
                             list->parts[i].address != last->address)) {
            list->parts[kept++] = list->parts[i];
        }
    }
    const uint64_t dropped = list->count - kept;
    list->count = kept;
    return dropped;
}

/* ---- the history ---- */

static pleat_beginning_part_t part_of(const pleat_torch_entry_t *entry)
{
    return (pleat_beginning_part_t){
        .address = entry->address, .bytes = entry->bytes, .stream = entry->stream};
}

static pleat_status_t walk_set(pleat_number_map_t *map, pleat_devptr_t address, uint32_t state)
{
    return pleat_number_map_set(map, address, state) ? PLEAT_OK : beginning_no_memory();
}

/* A free of a block, or its completion: one that had no event before was there. */
static pleat_status_t walk_free(pleat_beginning_walk_t *walk, const pleat_torch_entry_t *entry)
{
    const bool is_completion = entry->action == PLEAT_ACTION_FREE_COMPLETED;
    if (pleat_number_map_find(&walk->blocks, entry->address) == PLEAT_NUMBER_MAP_NONE) {
        pleat_beginning_part_t part = part_of(entry);
        part.is_waiting = is_completion;
        const pleat_status_t status = list_add(&walk->beginning->blocks, part);
        if (status != PLEAT_OK) {
            return status;
        }
    }
    return walk_set(&walk->blocks, entry->address, is_completion ? STATE_FREE : STATE_WAITING);
}

static pleat_status_t walk_segment_free(pleat_beginning_walk_t *walk,
                                        const pleat_torch_entry_t *entry)
{
    if (pleat_number_map_find(&walk->segments, entry->address) == PLEAT_NUMBER_MAP_NONE) {
        const pleat_status_t status = list_add(&walk->beginning->segments, part_of(entry));
        if (status != PLEAT_OK) {
            return status;
        }
    }
    return walk_set(&walk->segments, entry->address, STATE_FREE);
}

static pleat_status_t walk_entry(pleat_beginning_walk_t *walk, const pleat_torch_entry_t *entry)
{
    switch (entry->action) {
    case PLEAT_ACTION_ALLOC:
        return walk_set(&walk->blocks, entry->address, STATE_LIVE);
    case PLEAT_ACTION_FREE_REQUESTED:
    case PLEAT_ACTION_FREE_COMPLETED:
        return walk_free(walk, entry);
    case PLEAT_ACTION_SEGMENT_ALLOC:
        return walk_set(&walk->segments, entry->address, STATE_LIVE);
    case PLEAT_ACTION_SEGMENT_FREE:
        return walk_segment_free(walk, entry);
    case PLEAT_ACTION_SEGMENT_MAP:
        return list_add(&walk->created, part_of(entry));
    case PLEAT_ACTION_SEGMENT_UNMAP: /* see walk_unmapped */
    case PLEAT_ACTION_SNAPSHOT:
    case PLEAT_ACTION_OOM:
    case PLEAT_ACTION_COUNT:
        break;
    }
    return PLEAT_OK;
}

/* ---- the end ---- */

static bool walk_has(const pleat_beginning_walk_t *walk, const pleat_torch_segment_t *segment)
{
    return segment->device == walk->device && segment->total_bytes > 0;
}

/* A block at the end. */
static pleat_status_t walk_last_block(pleat_beginning_walk_t *walk,
                                      const pleat_torch_segment_t *segment,
                                      const pleat_torch_block_t *block)
{
    const uint32_t state = pleat_number_map_find(&walk->blocks, block->address);
    const uint32_t expected = block->state == PLEAT_BLOCK_ALLOCATED      ? STATE_LIVE
                              : block->state == PLEAT_BLOCK_PENDING_FREE ? STATE_WAITING
                                                                         : STATE_FREE;
    if (state != PLEAT_NUMBER_MAP_NONE) {
        walk->beginning->differs_count += state != expected ? 1 : 0;
        return PLEAT_OK;
    }
    if (block->state == PLEAT_BLOCK_INACTIVE) {
        return PLEAT_OK;
    }
    const bool has_request = block->requested_bytes > 0 && block->requested_bytes <= block->bytes;
    return list_add(
        &walk->beginning->blocks,
        (pleat_beginning_part_t){.address = block->address,
                                 .bytes = has_request ? block->requested_bytes : block->bytes,
                                 .stream = segment->stream,
                                 .is_waiting = block->state == PLEAT_BLOCK_PENDING_FREE});
}

static pleat_status_t walk_last_blocks(pleat_beginning_walk_t *walk)
{
    const pleat_torch_snapshot_t *snapshot = walk->snapshot;
    pleat_status_t status = PLEAT_OK;
    for (uint64_t i = 0; i < snapshot->segment_count; i++) {
        const pleat_torch_segment_t *segment = &snapshot->segments[i];
        if (!walk_has(walk, segment)) {
            continue;
        }
        for (uint64_t j = 0; j < segment->block_count && status == PLEAT_OK; j++) {
            status = walk_last_block(walk, segment, &snapshot->blocks[segment->first_block + j]);
        }
    }
    return status;
}

/* The parts of [address, address + bytes) that are not in `created`, which is in order. */
static pleat_status_t walk_subtract(pleat_beginning_walk_t *walk, pleat_beginning_part_t part)
{
    const pleat_beginning_list_t *created = &walk->created;
    const pleat_devptr_t end = part.address + part.bytes;
    size_t first = 0;
    size_t count = created->count;
    while (count > 0) { /* the first that ends behind the part's beginning */
        const size_t half = count / 2;
        const pleat_beginning_part_t *middle = &created->parts[first + half];
        if (middle->address + middle->bytes <= part.address) {
            first += half + 1;
            count -= half + 1;
        } else {
            count = half;
        }
    }
    for (; part.address < end; first++) {
        const bool has_next = first < created->count && created->parts[first].address < end;
        const pleat_devptr_t gap_end = has_next ? created->parts[first].address : end;
        if (gap_end > part.address) {
            part.bytes = gap_end - part.address;
            const pleat_status_t status = list_add(&walk->beginning->segments, part);
            if (status != PLEAT_OK) {
                return status;
            }
        }
        if (!has_next) {
            break;
        }
        part.address = created->parts[first].address + created->parts[first].bytes;
    }
    return PLEAT_OK;
}

/* Make one part of those that overlap or touch. */
static void list_merge(pleat_beginning_list_t *list)
{
    size_t kept = 0;
    list_sort(list);
    for (size_t i = 0; i < list->count; i++) {
        pleat_beginning_part_t *last = kept > 0 ? &list->parts[kept - 1] : NULL;
        const pleat_beginning_part_t *part = &list->parts[i];
        if (last != NULL && part->address - last->address <= last->bytes) {
            const uint64_t bytes = part->address - last->address + part->bytes;
            last->bytes = bytes > last->bytes ? bytes : last->bytes;
        } else {
            list->parts[kept++] = *part;
        }
    }
    list->count = kept;
}

/* Segments at the end that the history did not make. */
static pleat_status_t walk_last_segments(pleat_beginning_walk_t *walk)
{
    const pleat_torch_snapshot_t *snapshot = walk->snapshot;
    pleat_status_t status = PLEAT_OK;
    for (uint64_t i = 0; i < snapshot->segment_count && status == PLEAT_OK; i++) {
        const pleat_torch_segment_t *segment = &snapshot->segments[i];
        if (walk_has(walk, segment) &&
            pleat_number_map_find(&walk->segments, segment->address) == STATE_LIVE) {
            status =
                list_add(&walk->created, (pleat_beginning_part_t){.address = segment->address,
                                                                  .bytes = segment->total_bytes});
        }
    }
    list_merge(&walk->created);
    for (uint64_t i = 0; i < snapshot->segment_count && status == PLEAT_OK; i++) {
        const pleat_torch_segment_t *segment = &snapshot->segments[i];
        if (walk_has(walk, segment)) {
            status =
                walk_subtract(walk, (pleat_beginning_part_t){.address = segment->address,
                                                             .bytes = segment->total_bytes,
                                                             .stream = segment->stream,
                                                             .is_mapped = segment->is_expandable});
        }
    }
    return status;
}

/* What was unmapped and never mapped in the history. */
static pleat_status_t walk_unmapped(pleat_beginning_walk_t *walk)
{
    const pleat_torch_history_t *history = &walk->snapshot->histories[walk->device];
    pleat_status_t status = PLEAT_OK;
    for (uint64_t i = 0; i < history->entry_count && status == PLEAT_OK; i++) {
        const pleat_torch_entry_t *entry = &history->entries[i];
        if (entry->action == PLEAT_ACTION_SEGMENT_UNMAP) {
            pleat_beginning_part_t part = part_of(entry);
            part.is_mapped = true;
            status = walk_subtract(walk, part);
        }
    }
    return status;
}

static pleat_status_t walk_all(pleat_beginning_walk_t *walk)
{
    const pleat_torch_history_t *history = &walk->snapshot->histories[walk->device];
    pleat_status_t status = PLEAT_OK;
    for (uint64_t i = 0; i < history->entry_count && status == PLEAT_OK; i++) {
        status = walk_entry(walk, &history->entries[i]);
    }
    if (status == PLEAT_OK) {
        status = walk_last_blocks(walk);
    }
    if (status == PLEAT_OK) {
        status = walk_last_segments(walk);
    }
    if (status == PLEAT_OK) {
        status = walk_unmapped(walk);
    }
    if (status == PLEAT_OK) {
        walk->beginning->differs_count += list_drop_overlaps(&walk->beginning->blocks);
        (void)list_drop_overlaps(&walk->beginning->segments);
    }
    return status;
}

pleat_status_t pleat_snapshot_beginning_find(const pleat_torch_snapshot_t *snapshot,
                                             uint32_t device,
                                             pleat_snapshot_beginning_t *beginning_out)
{
    pleat_beginning_walk_t walk = {
        .snapshot = snapshot, .device = device, .beginning = beginning_out};
    *beginning_out = (pleat_snapshot_beginning_t){.differs_count = 0};
    const pleat_status_t status = walk_all(&walk);
    pleat_number_map_fini(&walk.blocks);
    pleat_number_map_fini(&walk.segments);
    free(walk.created.parts);
    if (status != PLEAT_OK) {
        pleat_snapshot_beginning_fini(beginning_out);
    }
    return status;
}

void pleat_snapshot_beginning_fini(pleat_snapshot_beginning_t *beginning)
{
    free(beginning->blocks.parts);
    free(beginning->segments.parts);
    *beginning = (pleat_snapshot_beginning_t){.differs_count = 0};
}
