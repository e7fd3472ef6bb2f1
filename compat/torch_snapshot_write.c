/*
 * torch_snapshot_write: the dictionary of torch.cuda.memory._snapshot() from a snapshot
 * (pleat/torch_snapshot_write.h), keys in PyTorch's order.
 */
#include "pickle_writer.h"
#include "torch_snapshot_check.h"

#include "vmm/base.h"

#include <pleat/torch_snapshot_write.h>

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROTOCOL_MIN = 2, PROTOCOL_MAX = 5, DIVISION_KEY_BYTES = 8 };

typedef struct torch_writing {
    pleat_pickle_writer_t writer;
    const pleat_torch_snapshot_t *snapshot;
    uint32_t *frame_memos; /* NO_MEMO: not written yet */
    uint32_t *stack_memos;
    uint64_t index; /* of the stack, segment or history whose items are being written */
    char division_keys[PLEAT_ROUNDUP_ENTRIES][DIVISION_KEY_BYTES];
} torch_writing_t;

/* ---- pairs of a dictionary ---- */

static void put_text(torch_writing_t *writing, const char *key, const char *value)
{
    pleat_pickle_put_text(&writing->writer, key);
    pleat_pickle_put_text(&writing->writer, value);
}

static void put_number(torch_writing_t *writing, const char *key, uint64_t value)
{
    pleat_pickle_put_text(&writing->writer, key);
    pleat_pickle_put_unsigned(&writing->writer, value);
}

static void put_bool(torch_writing_t *writing, const char *key, bool value)
{
    pleat_pickle_put_text(&writing->writer, key);
    pleat_pickle_put_bool(&writing->writer, value);
}

/* ---- stacks ---- */

static void put_frame(void *context, uint64_t i)
{
    torch_writing_t *writing = context;
    const pleat_torch_snapshot_t *snapshot = writing->snapshot;
    const uint64_t first = snapshot->stacks[writing->index].first_frame;
    const uint32_t index = snapshot->stack_frames[first + i];
    const pleat_torch_frame_t *frame = &snapshot->frames[index];
    if (writing->frame_memos[index] != PLEAT_PICKLE_NO_MEMO) {
        pleat_pickle_put_memo(&writing->writer, writing->frame_memos[index]);
        return;
    }
    pleat_pickle_begin_dict(&writing->writer);
    put_text(writing, "name", frame->name);
    put_text(writing, "filename", frame->filename);
    put_number(writing, "line", frame->line);
    pleat_pickle_end_dict(&writing->writer);
    writing->frame_memos[index] = pleat_pickle_memoize(&writing->writer);
}

static void put_stack(torch_writing_t *writing, uint32_t stack)
{
    pleat_pickle_put_text(&writing->writer, "frames");
    if (stack == PLEAT_TORCH_STACK_ABSENT) {
        pleat_pickle_put_list(&writing->writer, 0, put_frame, writing);
        return;
    }
    if (writing->stack_memos[stack] != PLEAT_PICKLE_NO_MEMO) {
        pleat_pickle_put_memo(&writing->writer, writing->stack_memos[stack]);
        return;
    }
    const uint64_t index = writing->index;
    writing->index = stack;
    pleat_pickle_put_list(&writing->writer, writing->snapshot->stacks[stack].frame_count, put_frame,
                          writing);
    writing->index = index;
    writing->stack_memos[stack] = pleat_pickle_memoize(&writing->writer);
}

/* ---- segments ---- */

static const char *state_text(pleat_block_state_t state)
{
    switch (state) {
    case PLEAT_BLOCK_ALLOCATED:
        return "active_allocated";
    case PLEAT_BLOCK_PENDING_FREE:
        return "active_pending_free";
    case PLEAT_BLOCK_INACTIVE:
        break;
    }
    return "inactive";
}

static void put_block(void *context, uint64_t i)
{
    torch_writing_t *writing = context;
    const uint64_t first = writing->snapshot->segments[writing->index].first_block;
    const pleat_torch_block_t *block = &writing->snapshot->blocks[first + i];
    pleat_pickle_begin_dict(&writing->writer);
    put_number(writing, "address", block->address);
    put_number(writing, "size", block->bytes);
    put_number(writing, "requested_size", block->requested_bytes);
    put_text(writing, "state", state_text(block->state));
    put_stack(writing, block->stack);
    pleat_pickle_end_dict(&writing->writer);
}

static void put_segment(void *context, uint64_t i)
{
    torch_writing_t *writing = context;
    const pleat_torch_segment_t *segment = &writing->snapshot->segments[i];
    pleat_pickle_writer_t *writer = &writing->writer;
    pleat_pickle_begin_dict(writer);
    put_number(writing, "device", segment->device);
    put_number(writing, "address", segment->address);
    put_number(writing, "total_size", segment->total_bytes);
    put_number(writing, "allocated_size", segment->allocated_bytes);
    put_number(writing, "active_size", segment->active_bytes);
    put_number(writing, "requested_size", segment->requested_bytes);
    put_number(writing, "stream", segment->stream);
    put_text(writing, "segment_type", segment->is_small ? "small" : "large");
    pleat_pickle_put_text(writer, "segment_pool_id");
    pleat_pickle_put_unsigned(writer, segment->pool.first);
    pleat_pickle_put_unsigned(writer, segment->pool.second);
    pleat_pickle_put_pair(writer);
    put_bool(writing, "is_expandable", segment->is_expandable);
    put_stack(writing, segment->stack);
    pleat_pickle_put_text(writer, "blocks");
    writing->index = i;
    pleat_pickle_put_list(writer, segment->block_count, put_block, writing);
    pleat_pickle_end_dict(writer);
}

/* ---- histories ---- */

static void put_entry(void *context, uint64_t i)
{
    torch_writing_t *writing = context;
    const pleat_torch_entry_t *entry = &writing->snapshot->histories[writing->index].entries[i];
    pleat_pickle_begin_dict(&writing->writer);
    put_text(writing, "action", pleat_action_name(entry->action));
    put_number(writing, entry->action == PLEAT_ACTION_OOM ? "device_free" : "addr", entry->address);
    put_number(writing, "size", entry->bytes);
    put_number(writing, "stream", entry->stream);
    put_number(writing, "time_us", entry->time_us);
    put_text(writing, "compile_context",
             entry->compile_context != NULL ? entry->compile_context : "N/A");
    put_text(writing, "user_metadata", entry->user_metadata);
    if (entry->stack != PLEAT_TORCH_STACK_ABSENT) {
        put_stack(writing, entry->stack);
    }
    pleat_pickle_end_dict(&writing->writer);
}

static void put_history(void *context, uint64_t i)
{
    torch_writing_t *writing = context;
    writing->index = i;
    pleat_pickle_put_list(&writing->writer, writing->snapshot->histories[i].entry_count, put_entry,
                          writing);
}

/* ---- settings and annotations ---- */

static void put_settings(torch_writing_t *writing)
{
    const pleat_torch_settings_t *settings = &writing->snapshot->settings;
    pleat_pickle_writer_t *writer = &writing->writer;
    pleat_pickle_begin_dict(writer);
    put_text(writing, "PYTORCH_CUDA_ALLOC_CONF", settings->conf);
    pleat_pickle_put_text(writer, "max_split_size");
    pleat_pickle_put_signed(writer, settings->max_split_bytes);
    pleat_pickle_put_text(writer, "garbage_collection_threshold");
    pleat_pickle_put_real(writer, settings->garbage_collection_threshold);
    put_bool(writing, "expandable_segments", settings->expandable_segments);
    pleat_pickle_put_text(writer, "pinned_num_register_threads");
    pleat_pickle_put_signed(writer, settings->pinned_num_register_threads);
    put_bool(writing, "release_lock_on_cudamalloc", settings->release_lock_on_cudamalloc);
    put_bool(writing, "pinned_use_cuda_host_register", settings->pinned_use_cuda_host_register);
    put_bool(writing, "graph_capture_record_stream_reuse",
             settings->graph_capture_record_stream_reuse);
    pleat_pickle_put_text(writer, "roundup_power2_divisions");
    pleat_pickle_begin_dict(writer);
    for (unsigned i = 0; i < PLEAT_ROUNDUP_ENTRIES; i++) {
        put_number(writing, writing->division_keys[i], settings->roundup_power2_divisions[i]);
    }
    pleat_pickle_end_dict(writer);
    pleat_pickle_end_dict(writer);
}

static void put_annotation(void *context, uint64_t i)
{
    torch_writing_t *writing = context;
    const pleat_torch_annotation_t *annotation = &writing->snapshot->annotations[i];
    pleat_pickle_begin_dict(&writing->writer);
    put_text(writing, "stage", annotation->is_start ? "START" : "END");
    put_text(writing, "name", annotation->name);
    put_number(writing, "device", annotation->device);
    put_number(writing, "time_us", annotation->time_us);
    pleat_pickle_end_dict(&writing->writer);
}

static void put_snapshot(torch_writing_t *writing)
{
    const pleat_torch_snapshot_t *snapshot = writing->snapshot;
    pleat_pickle_writer_t *writer = &writing->writer;
    pleat_pickle_begin_dict(writer);
    pleat_pickle_put_text(writer, "segments");
    pleat_pickle_put_list(writer, snapshot->segment_count, put_segment, writing);
    pleat_pickle_put_text(writer, "device_traces");
    pleat_pickle_put_list(writer, snapshot->history_count, put_history, writing);
    pleat_pickle_put_text(writer, "allocator_settings");
    put_settings(writing);
    pleat_pickle_put_text(writer, "external_annotations");
    pleat_pickle_put_list(writer, snapshot->annotation_count, put_annotation, writing);
    pleat_pickle_end_dict(writer);
}

/* ---- the call ---- */

/* @p count memos, none of them set; NULL: no host memory. */
static uint32_t *writing_memos(uint64_t count)
{
    uint32_t *memos = malloc((count + 1) * sizeof *memos);
    if (memos != NULL) {
        static_assert(PLEAT_PICKLE_NO_MEMO == UINT32_MAX, "all bits set are no memo");
        memset(memos, 0xff, (count + 1) * sizeof *memos);
    }
    return memos;
}

static void writing_destroy(torch_writing_t *writing)
{
    if (writing != NULL) {
        free(writing->frame_memos);
        free(writing->stack_memos);
        free(writing);
    }
}

static torch_writing_t *writing_create(const pleat_torch_snapshot_t *snapshot)
{
    torch_writing_t *writing = calloc(1, sizeof *writing);
    if (writing != NULL) {
        writing->snapshot = snapshot;
        writing->frame_memos = writing_memos(snapshot->frame_count);
        writing->stack_memos = writing_memos(snapshot->stack_count);
        for (unsigned i = 0; i < PLEAT_ROUNDUP_ENTRIES; i++) {
            (void)snprintf(writing->division_keys[i], DIVISION_KEY_BYTES, "%u", 1u << i);
        }
        if (writing->frame_memos != NULL && writing->stack_memos != NULL) {
            return writing;
        }
    }
    writing_destroy(writing);
    pleat_error_set("no host memory to write a snapshot");
    return NULL;
}

pleat_status_t pleat_torch_snapshot_write(const pleat_torch_snapshot_t *snapshot,
                                          const pleat_torch_write_options_t *options,
                                          pleat_torch_write_fn_t write, void *context)
{
    if (snapshot == NULL || write == NULL) {
        pleat_error_set("%s: %s is NULL", __func__, snapshot == NULL ? "snapshot" : "write");
        return PLEAT_ERR_INVALID;
    }
    uint32_t protocol = PLEAT_TORCH_PROTOCOL_DEFAULT;
    if (options != NULL && options->size >= sizeof *options) {
        protocol = options->protocol;
    }
    if (protocol < PROTOCOL_MIN || protocol > PROTOCOL_MAX) {
        pleat_error_set("protocol %u of pickle is not written; wanted is %d to %d", protocol,
                        (int)PROTOCOL_MIN, (int)PROTOCOL_MAX);
        return PLEAT_ERR_INVALID;
    }
    pleat_status_t status = pleat_torch_snapshot_check(snapshot);
    if (status != PLEAT_OK) {
        return status;
    }
    torch_writing_t *writing = writing_create(snapshot);
    if (writing == NULL) {
        return PLEAT_ERR_OOM_HOST;
    }
    pleat_pickle_writer_init(&writing->writer, protocol, write, context);
    put_snapshot(writing);
    status = pleat_pickle_writer_finish(&writing->writer);
    writing_destroy(writing);
    return status;
}

pleat_status_t pleat_torch_write_to_file(void *file, const void *bytes, size_t byte_count)
{
    if (fwrite(bytes, 1, byte_count, file) != byte_count) {
        pleat_error_set("a snapshot cannot be written: %s", strerror(errno));
        return PLEAT_ERR_IO;
    }
    return PLEAT_OK;
}
