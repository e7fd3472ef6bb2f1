/*
 * torch_snapshot_segments: see torch_snapshot_segments.h.
 */
#include "torch_snapshot_segments.h"

#include "vmm/base.h"

#include <string.h>

#define PLEAT_TORCH_SMALL_SEGMENT_BYTES (UINT64_C(2) * PLEAT_MIB)

static pleat_status_t torch_take_state(pleat_torch_reader_t *reader, const pleat_torch_dict_t *dict,
                                       pleat_block_state_t *state_out)
{
    pleat_pickle_value_t value = PLEAT_PICKLE_VALUE_ABSENT;
    const pleat_status_t status =
        pleat_torch_find(reader, dict, "state", PLEAT_TORCH_REQUIRED, &value);
    const pleat_pickle_string_t *string = pleat_pickle_string(value);
    if (status != PLEAT_OK) {
        return status;
    }
    if (string != NULL && pleat_pickle_string_is(string, "active_allocated")) {
        *state_out = PLEAT_BLOCK_ALLOCATED;
    } else if (string != NULL && pleat_pickle_string_is(string, "inactive")) {
        *state_out = PLEAT_BLOCK_INACTIVE;
    } else if (string != NULL && (pleat_pickle_string_is(string, "active_pending_free") ||
                                  pleat_pickle_string_is(string, "active_awaiting_free"))) {
        *state_out = PLEAT_BLOCK_PENDING_FREE;
    } else {
        return pleat_torch_fail_key(
            reader, dict, "state",
            "active_allocated, active_pending_free, active_awaiting_free or "
            "inactive",
            value);
    }
    return PLEAT_OK;
}

/* Older files keep what a block was used for, the last use first, instead of its frames. */
static pleat_status_t torch_take_block_history(pleat_torch_reader_t *reader,
                                               const pleat_torch_dict_t *dict,
                                               pleat_torch_block_t *block)
{
    const pleat_pickle_value_t value = pleat_pickle_find(dict->items, "history");
    if (value == PLEAT_PICKLE_VALUE_ABSENT || value == PLEAT_PICKLE_VALUE_NONE) {
        return PLEAT_OK;
    }
    const pleat_pickle_items_t *list = pleat_pickle_items(value);
    if (list == NULL || pleat_pickle_tag(value) == PLEAT_PICKLE_TAG_DICT) {
        return pleat_torch_fail_key(reader, dict, "history", "a list", value);
    }
    if (list->count == 0) {
        return PLEAT_OK;
    }
    pleat_torch_dict_t use;
    pleat_status_t status = pleat_torch_open_dict(
        reader, (pleat_torch_place_t){.up = &dict->place, .name = "history", .index = 0},
        list->offset, list->values[0], &use);
    if (status == PLEAT_OK &&
        pleat_pickle_find(dict->items, "requested_size") == PLEAT_PICKLE_VALUE_ABSENT) {
        status = pleat_torch_take_unsigned(reader, &use, "real_size", PLEAT_TORCH_OPTIONAL,
                                           &block->requested_bytes);
    }
    if (status == PLEAT_OK && block->stack == PLEAT_TORCH_STACK_ABSENT) {
        status = pleat_torch_take_stack(reader, &use, &block->stack);
    }
    return status;
}

static pleat_status_t torch_read_block(pleat_torch_reader_t *reader, const pleat_torch_dict_t *dict,
                                       uint64_t next_address, pleat_torch_block_t *block)
{
    uint64_t end = 0;
    *block = (pleat_torch_block_t){.address = next_address};
    pleat_status_t status =
        pleat_torch_take_unsigned(reader, dict, "size", PLEAT_TORCH_REQUIRED, &block->bytes);
    if (status == PLEAT_OK) {
        status = pleat_torch_take_unsigned(reader, dict, "address",
                                           PLEAT_TORCH_MISSING_BLOCK_ADDRESSES, &block->address);
    }
    if (status == PLEAT_OK) {
        status = torch_take_state(reader, dict, &block->state);
    }
    if (status == PLEAT_OK) {
        block->requested_bytes = block->state == PLEAT_BLOCK_INACTIVE ? 0 : block->bytes;
        status = pleat_torch_take_unsigned(reader, dict, "requested_size",
                                           PLEAT_TORCH_MISSING_REQUESTED, &block->requested_bytes);
    }
    if (status == PLEAT_OK) {
        status = pleat_torch_take_stack(reader, dict, &block->stack);
    }
    if (status == PLEAT_OK) {
        status = torch_take_block_history(reader, dict, block);
    }
    if (status == PLEAT_OK && !pleat_add_checked(block->address, block->bytes, &end)) {
        status = pleat_torch_fail_key(reader, dict, "size", "an end of the block below 2^64",
                                      pleat_pickle_find(dict->items, "size"));
    }
    return status;
}

/* The blocks of a segment, behind those of the segments before it. */
static pleat_status_t torch_read_blocks(pleat_torch_reader_t *reader,
                                        const pleat_torch_dict_t *dict,
                                        const pleat_pickle_items_t *list,
                                        pleat_torch_segment_t *segment)
{
    pleat_torch_snapshot_t *snapshot = reader->snapshot;
    uint64_t next_address = segment->address;
    segment->first_block = snapshot->block_count;
    for (uint32_t i = 0; i < list->count; i++) {
        pleat_torch_dict_t block_dict;
        pleat_torch_block_t *block = &snapshot->blocks[snapshot->block_count];
        pleat_status_t status = pleat_torch_open_dict(
            reader, (pleat_torch_place_t){.up = &dict->place, .name = "blocks", .index = i},
            list->offset, list->values[i], &block_dict);
        if (status == PLEAT_OK) {
            status = torch_read_block(reader, &block_dict, next_address, block);
        }
        if (status != PLEAT_OK) {
            return status;
        }
        next_address = block->address + block->bytes;
        snapshot->block_count++;
    }
    segment->block_count = list->count;
    return PLEAT_OK;
}

/* Sums over the blocks, for files that do not have them. */
static void torch_sum_blocks(const pleat_torch_snapshot_t *snapshot, pleat_torch_segment_t *segment)
{
    for (uint64_t i = 0; i < segment->block_count; i++) {
        const pleat_torch_block_t *block = &snapshot->blocks[segment->first_block + i];
        segment->total_bytes += block->bytes;
        segment->allocated_bytes += block->state == PLEAT_BLOCK_ALLOCATED ? block->bytes : 0;
        segment->active_bytes += block->state != PLEAT_BLOCK_INACTIVE ? block->bytes : 0;
        segment->requested_bytes +=
            block->state != PLEAT_BLOCK_INACTIVE ? block->requested_bytes : 0;
    }
}

static pleat_status_t torch_take_sums(pleat_torch_reader_t *reader, const pleat_torch_dict_t *dict,
                                      pleat_torch_segment_t *segment)
{
    const uint32_t missing = PLEAT_TORCH_MISSING_SUMS;
    uint64_t end = 0;
    torch_sum_blocks(reader->snapshot, segment);
    pleat_status_t status =
        pleat_torch_take_unsigned(reader, dict, "total_size", missing, &segment->total_bytes);
    if (status == PLEAT_OK) {
        status = pleat_torch_take_unsigned(reader, dict, "allocated_size", missing,
                                           &segment->allocated_bytes);
    }
    if (status == PLEAT_OK) {
        status =
            pleat_torch_take_unsigned(reader, dict, "active_size", missing, &segment->active_bytes);
    }
    if (status == PLEAT_OK) {
        status = pleat_torch_take_unsigned(reader, dict, "requested_size", missing,
                                           &segment->requested_bytes);
    }
    if (status == PLEAT_OK && !pleat_add_checked(segment->address, segment->total_bytes, &end)) {
        status =
            pleat_torch_fail_key(reader, dict, "total_size", "an end of the segment below 2^64",
                                 pleat_pickle_find(dict->items, "total_size"));
    }
    return status;
}

static pleat_status_t torch_take_segment_type(pleat_torch_reader_t *reader,
                                              const pleat_torch_dict_t *dict,
                                              pleat_torch_segment_t *segment)
{
    const char *type = NULL;
    const pleat_status_t status = pleat_torch_take_text(reader, dict, "segment_type",
                                                        PLEAT_TORCH_MISSING_SEGMENT_TYPES, &type);
    if (status != PLEAT_OK) {
        return status;
    }
    if (type == NULL) {
        segment->is_small = segment->total_bytes <= PLEAT_TORCH_SMALL_SEGMENT_BYTES;
        return PLEAT_OK;
    }
    segment->is_small = strcmp(type, "small") == 0;
    return segment->is_small || strcmp(type, "large") == 0
               ? PLEAT_OK
               : pleat_torch_fail_key(reader, dict, "segment_type", "small or large",
                                      pleat_pickle_find(dict->items, "segment_type"));
}

static pleat_status_t torch_take_pool(pleat_torch_reader_t *reader, const pleat_torch_dict_t *dict,
                                      pleat_pool_id_t *pool_out)
{
    pleat_pickle_value_t value = PLEAT_PICKLE_VALUE_ABSENT;
    const pleat_status_t status =
        pleat_torch_find(reader, dict, "segment_pool_id", PLEAT_TORCH_MISSING_POOL_IDS, &value);
    if (status != PLEAT_OK || value == PLEAT_PICKLE_VALUE_ABSENT) {
        return status;
    }
    const pleat_pickle_items_t *items = pleat_pickle_items(value);
    if (items == NULL || pleat_pickle_tag(value) == PLEAT_PICKLE_TAG_DICT || items->count != 2 ||
        !pleat_pickle_to_unsigned(items->values[0], &pool_out->first) ||
        !pleat_pickle_to_unsigned(items->values[1], &pool_out->second)) {
        return pleat_torch_fail_key(reader, dict, "segment_pool_id", "a tuple of two integers",
                                    value);
    }
    return PLEAT_OK;
}

static pleat_status_t torch_read_segment(pleat_torch_reader_t *reader,
                                         const pleat_torch_dict_t *dict,
                                         const pleat_pickle_items_t *blocks,
                                         pleat_torch_segment_t *segment)
{
    *segment = (pleat_torch_segment_t){.address = 0};
    pleat_status_t status =
        pleat_torch_take_unsigned(reader, dict, "address", PLEAT_TORCH_REQUIRED, &segment->address);
    if (status == PLEAT_OK) {
        status =
            pleat_torch_take_device(reader, dict, PLEAT_TORCH_MISSING_DEVICES, &segment->device);
    }
    if (status == PLEAT_OK) {
        status = pleat_torch_take_handle(reader, dict, "stream", PLEAT_TORCH_MISSING_STREAMS,
                                         &segment->stream);
    }
    if (status == PLEAT_OK) {
        status = torch_take_pool(reader, dict, &segment->pool);
    }
    if (status == PLEAT_OK) {
        status = pleat_torch_take_bool(reader, dict, "is_expandable",
                                       PLEAT_TORCH_MISSING_EXPANDABLE, &segment->is_expandable);
    }
    if (status == PLEAT_OK) {
        status = pleat_torch_take_stack(reader, dict, &segment->stack);
    }
    if (status == PLEAT_OK) {
        status = torch_read_blocks(reader, dict, blocks, segment);
    }
    if (status == PLEAT_OK) {
        status = torch_take_sums(reader, dict, segment);
    }
    return status == PLEAT_OK ? torch_take_segment_type(reader, dict, segment) : status;
}

/* The blocks of all segments of a list. Each list of blocks is marked as read. */
static pleat_status_t torch_count_blocks(pleat_torch_reader_t *reader,
                                         const pleat_pickle_items_t *list, uint64_t *count_out)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        pleat_torch_dict_t dict;
        pleat_pickle_items_t *blocks = NULL;
        pleat_status_t status =
            pleat_torch_open_dict(reader, (pleat_torch_place_t){.name = "segments", .index = i},
                                  list->offset, list->values[i], &dict);
        if (status == PLEAT_OK) {
            status =
                pleat_torch_take_records(reader, &dict, "blocks", PLEAT_TORCH_REQUIRED, &blocks);
        }
        if (status != PLEAT_OK) {
            return status;
        }
        count += blocks->count;
    }
    *count_out = count;
    return PLEAT_OK;
}

pleat_status_t pleat_torch_read_segments(pleat_torch_reader_t *reader,
                                         const pleat_pickle_items_t *list)
{
    pleat_torch_snapshot_t *snapshot = reader->snapshot;
    void *segments = NULL;
    void *blocks = NULL;
    uint64_t block_count = 0;
    pleat_status_t status = torch_count_blocks(reader, list, &block_count);
    if (status == PLEAT_OK) {
        status = pleat_torch_make_array(reader, list->count, sizeof(*snapshot->segments),
                                        &reader->own->segment_capacity, &segments);
        snapshot->segments = segments;
    }
    if (status == PLEAT_OK) {
        status = pleat_torch_make_array(reader, block_count, sizeof(*snapshot->blocks),
                                        &reader->own->block_capacity, &blocks);
        snapshot->blocks = blocks;
    }
    for (uint32_t i = 0; i < list->count && status == PLEAT_OK; i++) {
        const pleat_torch_dict_t dict = {.items = pleat_pickle_items(list->values[i]),
                                         .place = {.name = "segments", .index = i}};
        status = torch_read_segment(reader, &dict,
                                    pleat_pickle_items(pleat_pickle_find(dict.items, "blocks")),
                                    &snapshot->segments[i]);
        snapshot->segment_count += status == PLEAT_OK ? 1 : 0;
    }
    return status;
}
