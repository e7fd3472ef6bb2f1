/*
 * torch_snapshot_read: a pickle's values as a memory snapshot. See pleat/torch_snapshot.h.
 */
#include "torch_record.h"
#include "vmm/base.h"

#include <stdlib.h>
#include <string.h>

#define PLEAT_TORCH_SMALL_SEGMENT_BYTES (UINT64_C(2) * PLEAT_MIB)

/* ---- segments ---- */

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

/* An array of the snapshot's for @p count elements; an empty one stays NULL. */
static pleat_status_t torch_make_array(pleat_torch_reader_t *reader, uint64_t count,
                                       size_t element_bytes, size_t *capacity_out, void **array_out)
{
    uint64_t bytes = 0;
    if (count == 0) {
        return PLEAT_OK;
    }
    if (!pleat_multiply_checked(count, element_bytes, &bytes)) {
        reader->own->storage.is_over_limit = true;
        return pleat_torch_no_memory(reader, 0);
    }
    *array_out = pleat_pickle_resize(&reader->own->storage, NULL, 0, bytes);
    if (*array_out == NULL) {
        return pleat_torch_no_memory(reader, 0);
    }
    *capacity_out = (size_t)count;
    return PLEAT_OK;
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

static pleat_status_t torch_read_segments(pleat_torch_reader_t *reader,
                                          const pleat_pickle_items_t *list)
{
    pleat_torch_snapshot_t *snapshot = reader->snapshot;
    void *segments = NULL;
    void *blocks = NULL;
    uint64_t block_count = 0;
    pleat_status_t status = torch_count_blocks(reader, list, &block_count);
    if (status == PLEAT_OK) {
        status = torch_make_array(reader, list->count, sizeof(*snapshot->segments),
                                  &reader->own->segment_capacity, &segments);
        snapshot->segments = segments;
    }
    if (status == PLEAT_OK) {
        status = torch_make_array(reader, block_count, sizeof(*snapshot->blocks),
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

/* ---- histories ---- */

/* PLEAT_ACTION_COUNT: a string that is no action. */
static pleat_status_t torch_take_action(pleat_torch_reader_t *reader,
                                        const pleat_torch_dict_t *dict, pleat_action_t *action_out,
                                        const char **text_out)
{
    const pleat_status_t status =
        pleat_torch_take_text(reader, dict, "action", PLEAT_TORCH_REQUIRED, text_out);
    *action_out = PLEAT_ACTION_COUNT;
    for (unsigned action = 0; status == PLEAT_OK && action < PLEAT_ACTION_COUNT; action++) {
        if (strcmp(*text_out, pleat_action_name((pleat_action_t)action)) == 0) {
            *action_out = (pleat_action_t)action;
            break;
        }
    }
    return status;
}

/* An oom has device_free instead of addr; files exist that have addr. */
static pleat_status_t torch_take_entry_address(pleat_torch_reader_t *reader,
                                               const pleat_torch_dict_t *dict,
                                               pleat_torch_entry_t *entry)
{
    const bool is_oom = entry->action == PLEAT_ACTION_OOM;
    pleat_status_t status = pleat_torch_take_unsigned(
        reader, dict, "addr", is_oom ? PLEAT_TORCH_OPTIONAL : PLEAT_TORCH_REQUIRED,
        &entry->address);
    if (status == PLEAT_OK && is_oom) {
        status = pleat_torch_take_unsigned(reader, dict, "device_free", PLEAT_TORCH_OPTIONAL,
                                           &entry->address);
    }
    return status;
}

static pleat_status_t torch_read_entry(pleat_torch_reader_t *reader, const pleat_torch_dict_t *dict,
                                       pleat_torch_entry_t *entry)
{
    uint64_t end = 0;
    pleat_status_t status = torch_take_entry_address(reader, dict, entry);
    if (status == PLEAT_OK) {
        status =
            pleat_torch_take_unsigned(reader, dict, "size", PLEAT_TORCH_REQUIRED, &entry->bytes);
    }
    if (status == PLEAT_OK) {
        status = pleat_torch_take_handle(reader, dict, "stream", PLEAT_TORCH_MISSING_STREAMS,
                                         &entry->stream);
    }
    if (status == PLEAT_OK) {
        status = pleat_torch_take_unsigned(reader, dict, "time_us", PLEAT_TORCH_MISSING_TIMES,
                                           &entry->time_us);
    }
    if (status == PLEAT_OK) {
        status = pleat_torch_take_text(reader, dict, "compile_context", PLEAT_TORCH_OPTIONAL,
                                       &entry->compile_context);
    }
    if (status == PLEAT_OK) {
        status = pleat_torch_take_text(reader, dict, "user_metadata", PLEAT_TORCH_OPTIONAL,
                                       &entry->user_metadata);
    }
    if (status == PLEAT_OK) {
        status = pleat_torch_take_kept_stack(reader, dict, &entry->stack);
    }
    if (status == PLEAT_OK && entry->action != PLEAT_ACTION_OOM &&
        !pleat_add_checked(entry->address, entry->bytes, &end)) {
        status = pleat_torch_fail_key(reader, dict, "size", "an end (addr + size) below 2^64",
                                      pleat_pickle_find(dict->items, "size"));
    }
    return status;
}

/* The entries of one device go behind those of the devices before it. */
static pleat_status_t torch_read_history(pleat_torch_reader_t *reader,
                                         const pleat_torch_place_t *place,
                                         const pleat_pickle_items_t *list,
                                         pleat_torch_history_t *history)
{
    for (uint32_t i = 0; i < list->count; i++) {
        const pleat_torch_place_t entry_place = {.up = place, .name = "entries", .index = i};
        pleat_torch_entry_t *entry = &history->entries[history->entry_count];
        const char *action = NULL;
        pleat_torch_dict_t dict;
        *entry = (pleat_torch_entry_t){.compile_context = "N/A", .user_metadata = ""};
        pleat_status_t status =
            pleat_torch_open_dict(reader, entry_place, list->offset, list->values[i], &dict);
        if (status == PLEAT_OK) {
            status = torch_take_action(reader, &dict, &entry->action, &action);
        }
        if (status == PLEAT_OK && entry->action == PLEAT_ACTION_COUNT) {
            history->unknown_action =
                history->unknown_action == NULL ? action : history->unknown_action;
            history->unknown_count++;
            continue;
        }
        if (status == PLEAT_OK) {
            status = torch_read_entry(reader, &dict, entry);
        }
        if (status != PLEAT_OK) {
            return status;
        }
        history->entry_count++;
    }
    return PLEAT_OK;
}

static pleat_status_t torch_count_entries(pleat_torch_reader_t *reader,
                                          const pleat_pickle_items_t *list, uint64_t *count_out)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        const pleat_torch_place_t place = {.name = "device_traces", .index = i};
        pleat_pickle_items_t *entries = NULL;
        const pleat_status_t status =
            pleat_torch_open_records(reader, &place, list->offset, list->values[i], &entries);
        if (status != PLEAT_OK) {
            return status;
        }
        count += entries->count;
    }
    *count_out = count;
    return PLEAT_OK;
}

static pleat_status_t torch_read_histories(pleat_torch_reader_t *reader,
                                           const pleat_pickle_items_t *list)
{
    pleat_torch_snapshot_t *snapshot = reader->snapshot;
    pleat_torch_own_t *own = reader->own;
    void *histories = NULL;
    void *entries = NULL;
    uint64_t entry_count = 0;
    pleat_status_t status = torch_count_entries(reader, list, &entry_count);
    if (status == PLEAT_OK) {
        status = torch_make_array(reader, list->count, sizeof(*snapshot->histories),
                                  &own->history_capacity, &histories);
        snapshot->histories = histories;
    }
    if (status == PLEAT_OK) {
        status = torch_make_array(reader, entry_count, sizeof(*own->entries), &own->entry_capacity,
                                  &entries);
        own->entries = entries;
    }
    pleat_torch_entry_t *next = own->entries;
    for (uint32_t i = 0; i < list->count && status == PLEAT_OK; i++) {
        const pleat_torch_place_t place = {.name = "device_traces", .index = i};
        const pleat_pickle_items_t *device_list = pleat_pickle_items(list->values[i]);
        snapshot->histories[i] = (pleat_torch_history_t){.entries = next};
        status = torch_read_history(reader, &place, device_list, &snapshot->histories[i]);
        next = next != NULL ? next + device_list->count : NULL;
        snapshot->history_count += status == PLEAT_OK ? 1 : 0;
    }
    return status;
}

/* ---- settings and annotations ---- */

static pleat_status_t torch_read_divisions(pleat_torch_reader_t *reader,
                                           const pleat_torch_dict_t *settings_dict)
{
    const pleat_pickle_value_t value =
        pleat_pickle_find(settings_dict->items, "roundup_power2_divisions");
    pleat_torch_dict_t dict;
    if (value == PLEAT_PICKLE_VALUE_ABSENT || value == PLEAT_PICKLE_VALUE_NONE) {
        return PLEAT_OK;
    }
    pleat_status_t status = pleat_torch_open_dict(
        reader,
        (pleat_torch_place_t){
            .up = &settings_dict->place, .name = "roundup_power2_divisions", .index = UINT64_MAX},
        settings_dict->items->offset, value, &dict);
    for (unsigned i = 0; i < PLEAT_ROUNDUP_ENTRIES && status == PLEAT_OK; i++) {
        static const char *const keys[PLEAT_ROUNDUP_ENTRIES] = {
            "1",   "2",   "4",    "8",    "16",   "32",   "64",    "128",
            "256", "512", "1024", "2048", "4096", "8192", "16384", "32768"};
        status = pleat_torch_take_unsigned(reader, &dict, keys[i], PLEAT_TORCH_OPTIONAL,
                                           &reader->snapshot->settings.roundup_power2_divisions[i]);
    }
    return status;
}

static pleat_status_t torch_read_threshold(const pleat_torch_reader_t *reader,
                                           const pleat_torch_dict_t *dict)
{
    const pleat_pickle_value_t value =
        pleat_pickle_find(dict->items, "garbage_collection_threshold");
    if (value == PLEAT_PICKLE_VALUE_ABSENT ||
        pleat_pickle_to_real(value, &reader->snapshot->settings.garbage_collection_threshold)) {
        return PLEAT_OK;
    }
    return pleat_torch_fail_key(reader, dict, "garbage_collection_threshold", "a real number",
                                value);
}

static pleat_status_t torch_read_settings(pleat_torch_reader_t *reader,
                                          const pleat_torch_dict_t *dict)
{
    const uint32_t optional = PLEAT_TORCH_OPTIONAL;
    pleat_torch_settings_t *settings = &reader->snapshot->settings;
    uint64_t split = (uint64_t)settings->max_split_bytes;
    uint64_t threads = (uint64_t)settings->pinned_num_register_threads;
    const struct {
        const char *key;
        bool *value;
    } switches[] = {
        {"expandable_segments", &settings->expandable_segments},
        {"release_lock_on_cudamalloc", &settings->release_lock_on_cudamalloc},
        {"pinned_use_cuda_host_register", &settings->pinned_use_cuda_host_register},
        {"graph_capture_record_stream_reuse", &settings->graph_capture_record_stream_reuse}};
    pleat_status_t status =
        pleat_torch_take_text(reader, dict, "PYTORCH_CUDA_ALLOC_CONF", optional, &settings->conf);
    if (status == PLEAT_OK) {
        status = pleat_torch_take_handle(reader, dict, "max_split_size", optional, &split);
    }
    if (status == PLEAT_OK) {
        status = pleat_torch_take_handle(reader, dict, "pinned_num_register_threads", optional,
                                         &threads);
    }
    if (status == PLEAT_OK) {
        status = torch_read_threshold(reader, dict);
    }
    for (size_t i = 0; i < sizeof(switches) / sizeof(switches[0]) && status == PLEAT_OK; i++) {
        status = pleat_torch_take_bool(reader, dict, switches[i].key, optional, switches[i].value);
    }
    settings->max_split_bytes = (int64_t)split;
    settings->pinned_num_register_threads = (int64_t)threads;
    return status == PLEAT_OK ? torch_read_divisions(reader, dict) : status;
}

static pleat_status_t torch_read_annotation(pleat_torch_reader_t *reader,
                                            const pleat_torch_dict_t *dict,
                                            pleat_torch_annotation_t *annotation)
{
    const char *stage = "START";
    *annotation = (pleat_torch_annotation_t){.name = ""};
    pleat_status_t status =
        pleat_torch_take_text(reader, dict, "name", PLEAT_TORCH_OPTIONAL, &annotation->name);
    if (status == PLEAT_OK) {
        status = pleat_torch_take_text(reader, dict, "stage", PLEAT_TORCH_OPTIONAL, &stage);
    }
    if (status == PLEAT_OK) {
        status = pleat_torch_take_device(reader, dict, PLEAT_TORCH_OPTIONAL, &annotation->device);
    }
    if (status == PLEAT_OK) {
        status = pleat_torch_take_unsigned(reader, dict, "time_us", PLEAT_TORCH_OPTIONAL,
                                           &annotation->time_us);
    }
    annotation->is_start = strcmp(stage, "START") == 0;
    if (status == PLEAT_OK && !annotation->is_start && strcmp(stage, "END") != 0) {
        status = pleat_torch_fail_key(reader, dict, "stage", "START or END",
                                      pleat_pickle_find(dict->items, "stage"));
    }
    return status;
}

static pleat_status_t torch_read_annotations(pleat_torch_reader_t *reader,
                                             const pleat_pickle_items_t *list)
{
    pleat_torch_snapshot_t *snapshot = reader->snapshot;
    void *annotations = NULL;
    pleat_status_t status = torch_make_array(reader, list->count, sizeof(*snapshot->annotations),
                                             &reader->own->annotation_capacity, &annotations);
    snapshot->annotations = annotations;
    for (uint32_t i = 0; i < list->count && status == PLEAT_OK; i++) {
        pleat_torch_dict_t dict;
        status = pleat_torch_open_dict(
            reader, (pleat_torch_place_t){.name = "external_annotations", .index = i}, list->offset,
            list->values[i], &dict);
        if (status == PLEAT_OK) {
            status = torch_read_annotation(reader, &dict, &snapshot->annotations[i]);
        }
        snapshot->annotation_count += status == PLEAT_OK ? 1 : 0;
    }
    return status;
}

/* ---- the whole ---- */

static pleat_status_t torch_read_top(pleat_torch_reader_t *reader, const pleat_torch_dict_t *dict)
{
    uint32_t *missing = &reader->snapshot->missing;
    pleat_pickle_items_t *segments = NULL;
    pleat_pickle_items_t *histories = NULL;
    pleat_pickle_items_t *annotations = NULL;
    const pleat_pickle_value_t settings = pleat_pickle_find(dict->items, "allocator_settings");
    pleat_status_t status =
        pleat_torch_take_records(reader, dict, "segments", PLEAT_TORCH_MISSING_SEGMENTS, &segments);
    if (status == PLEAT_OK) {
        status = pleat_torch_take_records(reader, dict, "device_traces",
                                          PLEAT_TORCH_MISSING_HISTORIES, &histories);
    }
    if (status == PLEAT_OK && segments == NULL && histories == NULL) {
        return pleat_torch_fail_key(reader, dict, "segments",
                                    "a memory snapshot with this key or device_traces",
                                    PLEAT_PICKLE_VALUE_ABSENT);
    }
    if (status == PLEAT_OK) {
        status = pleat_torch_take_records(reader, dict, "external_annotations",
                                          PLEAT_TORCH_MISSING_ANNOTATIONS, &annotations);
    }
    if (status == PLEAT_OK && segments != NULL) {
        status = torch_read_segments(reader, segments);
    }
    if (status == PLEAT_OK && histories != NULL) {
        status = torch_read_histories(reader, histories);
    }
    if (status == PLEAT_OK && annotations != NULL) {
        status = torch_read_annotations(reader, annotations);
    }
    if (status != PLEAT_OK || settings == PLEAT_PICKLE_VALUE_ABSENT) {
        *missing |= PLEAT_TORCH_MISSING_SETTINGS;
        return status;
    }
    pleat_torch_dict_t settings_dict;
    status = pleat_torch_open_dict(
        reader, (pleat_torch_place_t){.name = "allocator_settings", .index = UINT64_MAX},
        dict->items->offset, settings, &settings_dict);
    return status == PLEAT_OK ? torch_read_settings(reader, &settings_dict) : status;
}

static pleat_status_t torch_read_value(pleat_torch_reader_t *reader, pleat_pickle_value_t value)
{
    const pleat_torch_place_t place = {.name = "the pickle", .index = UINT64_MAX};
    pleat_torch_dict_t dict;
    pleat_pickle_items_t *segments = NULL;
    if (pleat_pickle_tag(value) == PLEAT_PICKLE_TAG_DICT) {
        const pleat_status_t status = pleat_torch_open_dict(reader, place, 0, value, &dict);
        return status == PLEAT_OK ? torch_read_top(reader, &dict) : status;
    }
    if (pleat_pickle_tag(value) != PLEAT_PICKLE_TAG_LIST) {
        return pleat_torch_fail(reader, &place, 0,
                                "a memory snapshot (a dictionary, or a list of segments)", value);
    }
    reader->snapshot->missing |= PLEAT_TORCH_MISSING_HISTORIES | PLEAT_TORCH_MISSING_ANNOTATIONS |
                                 PLEAT_TORCH_MISSING_SETTINGS;
    const pleat_status_t status = pleat_torch_open_records(reader, &place, 0, value, &segments);
    return status == PLEAT_OK ? torch_read_segments(reader, segments) : status;
}

static pleat_status_t torch_read(pleat_torch_reader_t *reader)
{
    pleat_pickle_value_t value = PLEAT_PICKLE_VALUE_ABSENT;
    pleat_status_t status = pleat_pickle_read(&reader->source, &reader->own->storage, &value);
    if (status == PLEAT_OK) {
        status = torch_read_value(reader, value);
    }
    pleat_pickle_storage_drop_nodes(&reader->own->storage);
    return status;
}

pleat_status_t pleat_torch_snapshot_read(pleat_torch_read_fn_t read, void *context,
                                         const pleat_torch_read_options_t *options,
                                         pleat_torch_snapshot_t **snapshot_out)
{
    pleat_torch_read_options_t own_options = PLEAT_TORCH_READ_OPTIONS_INIT;
    if (read == NULL || snapshot_out == NULL) {
        pleat_error_set("a snapshot is read without %s",
                        read == NULL ? "a function that reads" : "a place for it");
        return PLEAT_ERR_INVALID;
    }
    if (options != NULL) {
        const size_t size =
            options->size < sizeof(own_options) ? options->size : sizeof(own_options);
        memcpy(&own_options, options, size);
    }
    pleat_torch_snapshot_t *snapshot = malloc(sizeof(*snapshot));
    pleat_torch_own_t *own = calloc(1, sizeof(*own));
    if (snapshot == NULL || own == NULL) {
        free(snapshot);
        free(own);
        pleat_error_set("%s: no host memory to read it", own_options.name);
        return PLEAT_ERR_OOM_HOST;
    }
    *snapshot = (pleat_torch_snapshot_t)PLEAT_TORCH_SNAPSHOT_INIT;
    snapshot->storage = own;
    pleat_pickle_storage_init(&own->storage, own_options.memory_bytes > 0
                                                 ? own_options.memory_bytes
                                                 : PLEAT_TORCH_READ_MEMORY_BYTES);
    pleat_torch_reader_t reader = {.source = {.read = read,
                                              .context = context,
                                              .name = own_options.name,
                                              .limit_name = own_options.memory_name},
                                   .own = own,
                                   .snapshot = snapshot};
    const pleat_status_t status = torch_read(&reader);
    if (status != PLEAT_OK) {
        pleat_torch_snapshot_destroy(snapshot);
        return status;
    }
    *snapshot_out = snapshot;
    return PLEAT_OK;
}
