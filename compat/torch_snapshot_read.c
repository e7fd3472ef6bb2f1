/*
 * torch_snapshot_read: a pickle's values as a memory snapshot. See pleat/torch_snapshot.h.
 */
#include "torch_record.h"
#include "torch_snapshot_segments.h"
#include "vmm/base.h"

#include <stdlib.h>
#include <string.h>

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
        status = pleat_torch_make_array(reader, list->count, sizeof(*snapshot->histories),
                                        &own->history_capacity, &histories);
        snapshot->histories = histories;
    }
    if (status == PLEAT_OK) {
        status = pleat_torch_make_array(reader, entry_count, sizeof(*own->entries),
                                        &own->entry_capacity, &entries);
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
    pleat_status_t status =
        pleat_torch_make_array(reader, list->count, sizeof(*snapshot->annotations),
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
        status = pleat_torch_read_segments(reader, segments);
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
    return status == PLEAT_OK ? pleat_torch_read_segments(reader, segments) : status;
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
