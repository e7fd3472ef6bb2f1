/*
 * torch_snapshot_compose: a snapshot of live allocators (pleat/torch_snapshot_write.h). Texts,
 * frames and stacks are the source's; the other arrays are made here.
 */
#include "vmm/base.h"

#include <pleat/torch_snapshot_write.h>

#include <stdlib.h>
#include <string.h>

static uint32_t compose_stack(const pleat_torch_source_t *source, void *token)
{
    return token != NULL && source->stack_of != NULL ? source->stack_of(source->context, token)
                                                     : PLEAT_TORCH_STACK_ABSENT;
}

static const char *compose_text(const pleat_torch_source_t *source, void *token,
                                const char *without)
{
    const char *text =
        token != NULL && source->text_of != NULL ? source->text_of(source->context, token) : NULL;
    return text != NULL ? text : without;
}

static void compose_segments(const pleat_torch_source_t *source, uint32_t device,
                             pleat_torch_snapshot_t *out)
{
    const pleat_history_copy_t *copy = source->copies[device];
    const pleat_snapshot_t *snapshot = copy->snapshot;
    const uint64_t base = out->block_count; /* blocks of the devices before */
    for (uint64_t i = 0; i < snapshot->segment_count; i++) {
        const pleat_segment_info_t *segment = &snapshot->segments[i];
        out->segments[out->segment_count++] = (pleat_torch_segment_t){
            .address = segment->address,
            .total_bytes = segment->total_bytes,
            .allocated_bytes = segment->allocated_bytes,
            .active_bytes = segment->active_bytes,
            .requested_bytes = segment->requested_bytes,
            .stream = segment->stream,
            .pool = segment->pool,
            .first_block = base + segment->first_block,
            .block_count = segment->block_count,
            .device = device,
            .stack = compose_stack(source, copy->segment_contexts[i]),
            .is_small = segment->is_small,
            .is_expandable = segment->is_expandable,
        };
    }
    for (uint64_t i = 0; i < snapshot->block_count; i++) {
        const pleat_block_info_t *block = &snapshot->blocks[i];
        out->blocks[out->block_count++] = (pleat_torch_block_t){
            .address = block->address,
            .bytes = block->bytes,
            .requested_bytes = block->requested_bytes,
            .state = block->state,
            .stack = compose_stack(source, copy->block_contexts[i]),
        };
    }
}

static bool compose_history(const pleat_torch_source_t *source, const pleat_history_copy_t *copy,
                            pleat_torch_history_t *history)
{
    history->entries = calloc(copy->entry_count + 1, sizeof *history->entries);
    if (history->entries == NULL) {
        return false;
    }
    for (uint64_t i = 0; i < copy->entry_count; i++) {
        const pleat_history_entry_t *entry = &copy->entries[i];
        history->entries[history->entry_count++] = (pleat_torch_entry_t){
            .address = entry->address,
            .bytes = entry->bytes,
            .stream = entry->stream,
            .time_us = entry->time_us > 0 ? (uint64_t)entry->time_us : 0,
            .compile_context = compose_text(source, entry->compile_context, "N/A"),
            .user_metadata = compose_text(source, entry->user_metadata, ""),
            .action = entry->action,
            .stack = compose_stack(source, entry->context),
        };
    }
    return true;
}

static pleat_torch_settings_t compose_settings(const pleat_torch_source_t *source)
{
    const pleat_conf_t defaults = PLEAT_CONF_INIT;
    const pleat_conf_t *conf = source->conf != NULL ? source->conf : &defaults;
    const pleat_conf_setting_t *values = conf->settings;
    pleat_torch_settings_t settings = {
        .conf = source->conf_text != NULL ? source->conf_text : "",
        .max_split_bytes = (int64_t)values[PLEAT_CONF_MAX_SPLIT_SIZE].number,
        .garbage_collection_threshold = values[PLEAT_CONF_GARBAGE_COLLECTION_THRESHOLD].real,
        .pinned_num_register_threads =
            (int64_t)values[PLEAT_CONF_PINNED_NUM_REGISTER_THREADS].number,
        .expandable_segments = values[PLEAT_CONF_EXPANDABLE_SEGMENTS].number != 0,
        .release_lock_on_cudamalloc = values[PLEAT_CONF_RELEASE_LOCK_ON_CUDAMALLOC].number != 0,
        .pinned_use_cuda_host_register =
            values[PLEAT_CONF_PINNED_USE_CUDA_HOST_REGISTER].number != 0,
        .graph_capture_record_stream_reuse =
            values[PLEAT_CONF_GRAPH_CAPTURE_RECORD_STREAM_REUSE].number != 0,
    };
    for (unsigned i = 0; i < PLEAT_ROUNDUP_ENTRIES; i++) {
        settings.roundup_power2_divisions[i] = conf->roundup_power2_divisions[i];
    }
    return settings;
}

/* Room for everything of all devices; false: no host memory. */
static bool compose_reserve(const pleat_torch_source_t *source, pleat_torch_snapshot_t *out)
{
    uint64_t segments = 1;
    uint64_t blocks = 1;
    for (uint64_t i = 0; i < source->copy_count; i++) {
        const pleat_history_copy_t *copy = source->copies[i];
        if (copy != NULL && copy->snapshot != NULL) {
            segments += copy->snapshot->segment_count;
            blocks += copy->snapshot->block_count;
        }
    }
    out->segments = calloc(segments, sizeof *out->segments);
    out->blocks = calloc(blocks, sizeof *out->blocks);
    out->histories = calloc(source->copy_count + 1, sizeof *out->histories);
    return out->segments != NULL && out->blocks != NULL && out->histories != NULL;
}

void pleat_torch_snapshot_fini(pleat_torch_snapshot_t *snapshot)
{
    if (snapshot == NULL) {
        return;
    }
    for (uint64_t i = 0; i < snapshot->history_count && snapshot->histories != NULL; i++) {
        free(snapshot->histories[i].entries);
    }
    free(snapshot->segments);
    free(snapshot->blocks);
    free(snapshot->histories);
    *snapshot = (pleat_torch_snapshot_t)PLEAT_TORCH_SNAPSHOT_INIT;
}

static void compose_tables(const pleat_torch_snapshot_t *tables, pleat_torch_snapshot_t *out)
{
    out->annotations = tables->annotations;
    out->annotation_count = tables->annotation_count;
    out->frames = tables->frames;
    out->frame_count = tables->frame_count;
    out->stacks = tables->stacks;
    out->stack_count = tables->stack_count;
    out->stack_frames = tables->stack_frames;
    out->stack_frame_count = tables->stack_frame_count;
}

pleat_status_t pleat_torch_snapshot_compose(const pleat_torch_source_t *given,
                                            pleat_torch_snapshot_t *snapshot_out)
{
    if (given == NULL || snapshot_out == NULL) {
        pleat_error_set("%s: %s is NULL", __func__, given == NULL ? "source" : "snapshot_out");
        return PLEAT_ERR_INVALID;
    }
    pleat_torch_source_t full = PLEAT_TORCH_SOURCE_INIT;
    memcpy(&full, given, given->size < sizeof full ? given->size : sizeof full);
    const pleat_torch_source_t *source = &full;
    if (source->copy_count > PLEAT_TORCH_COUNT_MAX) {
        pleat_error_set("a snapshot of %llu devices; the most are %llu",
                        (unsigned long long)source->copy_count,
                        (unsigned long long)PLEAT_TORCH_COUNT_MAX);
        return PLEAT_ERR_INVALID;
    }
    pleat_torch_snapshot_t out = PLEAT_TORCH_SNAPSHOT_INIT;
    bool is_whole = compose_reserve(source, &out);
    for (uint64_t i = 0; i < source->copy_count && is_whole; i++) {
        const pleat_history_copy_t *copy = source->copies[i];
        out.history_count++;
        if (copy == NULL) {
            continue;
        }
        if (copy->snapshot != NULL) {
            compose_segments(source, (uint32_t)i, &out);
        }
        is_whole = compose_history(source, copy, &out.histories[i]);
    }
    if (!is_whole) {
        pleat_torch_snapshot_fini(&out);
        pleat_error_set("no host memory for a snapshot");
        return PLEAT_ERR_OOM_HOST;
    }
    if (source->tables != NULL) {
        compose_tables(source->tables, &out);
    }
    out.settings = compose_settings(source);
    *snapshot_out = out;
    return PLEAT_OK;
}
