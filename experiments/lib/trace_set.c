/*
 * trace_set: see trace_set.h.
 */
#include "trace_set.h"

#include "compat/text.h"
#include "file_name.h"
#include "trace_snapshot.h"
#include "vmm/base.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pleat_status_t set_no_memory(const pleat_input_t *input)
{
    pleat_error_set("%s: no memory to read it", pleat_input_name(input));
    return PLEAT_ERR_OOM_HOST;
}

/* Devices with a history, for a message. */
static void set_write_devices(const pleat_torch_snapshot_t *snapshot, char *text, size_t capacity)
{
    size_t length = 0;
    text[0] = '\0';
    for (uint64_t i = 0; i < snapshot->history_count && length + 24 < capacity; i++) {
        if (pleat_trace_snapshot_entries(snapshot, i) > 0) {
            const int added =
                snprintf(text + length, capacity - length, "%s%" PRIu64, length > 0 ? ", " : "", i);
            length += added > 0 ? (size_t)added : 0;
        }
    }
}

/* The first history that has entries, none of them of a known action; NULL without one. */
static const pleat_torch_history_t *set_find_unknown(const pleat_torch_snapshot_t *snapshot,
                                                     const pleat_trace_set_options_t *options)
{
    for (uint64_t i = 0; i < snapshot->history_count; i++) {
        const pleat_torch_history_t *history = &snapshot->histories[i];
        const bool is_wanted = !options->has_device || options->device == i;
        if (is_wanted && history->entry_count == 0 && history->unknown_count > 0) {
            return history;
        }
    }
    return NULL;
}

static pleat_status_t set_refuse(const pleat_input_t *input, const pleat_torch_snapshot_t *snapshot,
                                 const pleat_trace_set_options_t *options)
{
    char devices[128];
    const pleat_torch_history_t *unknown = set_find_unknown(snapshot, options);
    set_write_devices(snapshot, devices, sizeof(devices));
    if (unknown != NULL) {
        char action[128];
        pleat_text_t text = pleat_text_begin(action, sizeof(action));
        pleat_text_quote(&text, unknown->unknown_action, strlen(unknown->unknown_action));
        pleat_error_set("%s: all %" PRIu64
                        " entries of its history are of unknown actions, the first %s",
                        pleat_input_name(input), unknown->unknown_count, action);
    } else if (devices[0] != '\0') {
        pleat_error_set("%s: no history of device %" PRIu64 "; there is one of device %s",
                        pleat_input_name(input), options->device, devices);
    } else {
        pleat_error_set("%s: a memory snapshot without a history: "
                        "torch.cuda.memory._record_memory_history() has to run before",
                        pleat_input_name(input));
    }
    return PLEAT_ERR_FORMAT;
}

static pleat_status_t set_add_device(pleat_trace_set_t *set, const char *file, uint32_t device)
{
    const pleat_torch_snapshot_t *snapshot = set->snapshot;
    char *name = NULL;
    const int length = snapshot->history_count > 1 ? asprintf(&name, "%s:%" PRIu32, file, device)
                                                   : asprintf(&name, "%s", file);
    if (length < 0) {
        pleat_error_set("%s: no memory to read it", file);
        return PLEAT_ERR_OOM_HOST;
    }
    pleat_snapshot_skipped_t *skipped = &set->skipped[device];
    pleat_status_t status = pleat_snapshot_skipped_fill(&set->snapshot->histories[device], skipped);
    if (status != PLEAT_OK) {
        pleat_error_set("%s: no memory to read it", file);
    } else {
        status = pleat_trace_snapshot_convert(snapshot, device, name, &set->traces[set->count]);
    }
    if (status == PLEAT_OK) {
        set->traces[set->count]->origin.skipped_count = skipped->count;
        set->traces[set->count]->origin.skipped_action = skipped->action;
        set->count++;
    }
    free(name);
    return status;
}

static pleat_status_t set_fill(pleat_input_t *input, const pleat_trace_set_options_t *options,
                               pleat_trace_set_t *set)
{
    pleat_status_t status = pleat_trace_snapshot_load(input, options->memory_bytes,
                                                      options->memory_name, &set->snapshot);
    if (status != PLEAT_OK) {
        return status;
    }
    const pleat_torch_snapshot_t *snapshot = set->snapshot;
    char *file = pleat_file_base_name(pleat_input_name(input));
    set->traces = calloc((size_t)snapshot->history_count + 1, sizeof(pleat_trace_t *));
    set->skipped = calloc((size_t)snapshot->history_count + 1, sizeof(*set->skipped));
    if (file == NULL || set->traces == NULL || set->skipped == NULL) {
        free(file);
        return set_no_memory(input);
    }
    for (uint64_t i = 0; i < snapshot->history_count && status == PLEAT_OK; i++) {
        const bool is_wanted = !options->has_device || options->device == i;
        if (is_wanted && pleat_trace_snapshot_entries(snapshot, i) > 0) {
            status = set_add_device(set, file, (uint32_t)i);
        }
    }
    free(file);
    if (status == PLEAT_OK && set->count == 0) {
        status = set_refuse(input, snapshot, options);
    }
    set->has_settings = (snapshot->missing & PLEAT_TORCH_MISSING_SETTINGS) == 0;
    set->settings = snapshot->settings;
    return status;
}

pleat_status_t pleat_trace_set_load_input(pleat_input_t *input,
                                          const pleat_trace_set_options_t *options,
                                          pleat_trace_set_t *set_out)
{
    const pleat_trace_set_options_t defaults = {.has_device = false};
    pleat_trace_set_t set = {.count = 0};
    pleat_status_t status = PLEAT_OK;
    options = options != NULL ? options : &defaults;
    if (pleat_input_kind(input) == PLEAT_INPUT_PICKLE) {
        status = set_fill(input, options, &set);
    } else {
        set.traces = calloc(1, sizeof(pleat_trace_t *));
        status = set.traces != NULL ? pleat_trace_load_input(input, &set.traces[0])
                                    : set_no_memory(input);
        set.count = status == PLEAT_OK ? 1 : 0;
    }
    if (status != PLEAT_OK) {
        pleat_trace_set_fini(&set);
        return status;
    }
    *set_out = set;
    return PLEAT_OK;
}

pleat_status_t pleat_trace_set_load(const char *path, const pleat_trace_set_options_t *options,
                                    pleat_trace_set_t *set_out)
{
    pleat_input_t *input = NULL;
    pleat_status_t status = pleat_input_open(path, &input);
    if (status == PLEAT_OK) {
        status = pleat_trace_set_load_input(input, options, set_out);
    }
    pleat_input_close(input);
    return status;
}

pleat_trace_t *pleat_trace_set_take(pleat_trace_set_t *set, size_t index)
{
    PLEAT_ASSERT(index < set->count);
    pleat_trace_t *trace = set->traces[index];
    set->traces[index] = NULL;
    return trace;
}

void pleat_trace_set_fini(pleat_trace_set_t *set)
{
    for (size_t i = 0; i < set->count; i++) {
        pleat_trace_destroy(set->traces[i]);
    }
    free(set->traces);
    for (uint64_t i = 0; set->skipped != NULL && i < set->snapshot->history_count; i++) {
        free(set->skipped[i].entries);
    }
    free(set->skipped);
    pleat_torch_snapshot_destroy(set->snapshot);
    *set = (pleat_trace_set_t){.count = 0};
}
