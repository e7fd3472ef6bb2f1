/*
 * trace_snapshot: see trace_snapshot.h.
 */
#include "trace_snapshot.h"

#include "snapshot_beginning.h"
#include "snapshot_tiling.h"
#include "vmm/base.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct pleat_snapshot_conversion {
    const pleat_torch_snapshot_t *snapshot;
    const pleat_torch_history_t *history;
    pleat_snapshot_beginning_t beginning;
    pleat_snapshot_tiling_t tiling; /* instead, if is_rebuilt */
    bool is_rebuilt;
    pleat_stream_t *streams; /* handles, rising */
    size_t stream_count;
    pleat_trace_t *trace;
    uint64_t capacity;
} pleat_snapshot_conversion_t;

/* ---- reading ---- */

static pleat_status_t snapshot_read(void *context, void *buffer, size_t capacity, size_t *count_out)
{
    return pleat_input_read(context, buffer, capacity, count_out);
}

pleat_status_t pleat_trace_snapshot_load(pleat_input_t *input, uint64_t memory_bytes,
                                         const char *memory_name,
                                         pleat_torch_snapshot_t **snapshot_out)
{
    pleat_torch_read_options_t options = PLEAT_TORCH_READ_OPTIONS_INIT;
    options.name = pleat_input_name(input);
    options.memory_bytes = memory_bytes;
    options.memory_name = memory_name != NULL ? memory_name : options.memory_name;
    return pleat_torch_snapshot_read(snapshot_read, input, &options, snapshot_out);
}

void pleat_trace_snapshot_conf(const pleat_torch_settings_t *settings, pleat_conf_t *conf)
{
    pleat_conf_setting_t *values = conf->settings;
    /* A text that PyTorch refuses cannot have been in force; the values say what was. */
    if (pleat_conf_read_start(conf, PLEAT_CONF_TORCH, settings->conf, NULL) != PLEAT_OK) {
        *conf = (pleat_conf_t)PLEAT_CONF_INIT;
    }
    values[PLEAT_CONF_MAX_SPLIT_SIZE].number = (uint64_t)settings->max_split_bytes;
    values[PLEAT_CONF_GARBAGE_COLLECTION_THRESHOLD].real = settings->garbage_collection_threshold;
    values[PLEAT_CONF_EXPANDABLE_SEGMENTS].number = settings->expandable_segments ? 1 : 0;
    values[PLEAT_CONF_EXPANDABLE_POLICY].number = PLEAT_CONF_POLICY_TORCH;
    memcpy(conf->roundup_power2_divisions, settings->roundup_power2_divisions,
           sizeof(conf->roundup_power2_divisions));
}

uint64_t pleat_trace_snapshot_entries(const pleat_torch_snapshot_t *snapshot, uint64_t device)
{
    return device < snapshot->history_count ? snapshot->histories[device].entry_count : 0;
}

/* ---- streams ---- */

static int stream_compare(const void *left, const void *right)
{
    const pleat_stream_t a = *(const pleat_stream_t *)left;
    const pleat_stream_t b = *(const pleat_stream_t *)right;
    return (a > b) - (a < b);
}

/* Add a handle; most follow an equal one. */
static void conversion_add_stream(pleat_snapshot_conversion_t *conversion, pleat_stream_t handle)
{
    const size_t count = conversion->stream_count;
    if (count == 0 || conversion->streams[count - 1] != handle) {
        conversion->streams[conversion->stream_count++] = handle;
    }
}

static pleat_status_t conversion_collect_streams(pleat_snapshot_conversion_t *conversion)
{
    const pleat_torch_history_t *history = conversion->history;
    const pleat_beginning_list_t *blocks = &conversion->beginning.blocks;
    const pleat_beginning_list_t *segments = &conversion->beginning.segments;
    const pleat_snapshot_tiling_t *tiling = &conversion->tiling;
    const uint64_t most =
        history->entry_count + blocks->count + segments->count + tiling->event_count;
    conversion->streams = malloc((size_t)(most + 1) * sizeof(*conversion->streams));
    if (conversion->streams == NULL) {
        return PLEAT_ERR_OOM_HOST;
    }
    for (uint64_t i = 0; i < history->entry_count; i++) {
        conversion_add_stream(conversion, history->entries[i].stream);
    }
    for (size_t i = 0; i < blocks->count; i++) {
        conversion_add_stream(conversion, blocks->parts[i].stream);
    }
    for (size_t i = 0; i < segments->count; i++) {
        conversion_add_stream(conversion, segments->parts[i].stream);
    }
    for (size_t i = 0; i < tiling->event_count; i++) {
        conversion_add_stream(conversion, tiling->events[i].stream);
    }
    qsort(conversion->streams, conversion->stream_count, sizeof(*conversion->streams),
          stream_compare);
    const size_t all_count = conversion->stream_count;
    conversion->stream_count = 0;
    for (size_t i = 0; i < all_count; i++) {
        conversion_add_stream(conversion, conversion->streams[i]);
    }
    return PLEAT_OK;
}

static pleat_stream_t conversion_stream(const pleat_snapshot_conversion_t *conversion,
                                        pleat_stream_t handle)
{
    const pleat_stream_t *found = bsearch(&handle, conversion->streams, conversion->stream_count,
                                          sizeof(*conversion->streams), stream_compare);
    PLEAT_ASSERT(found != NULL);
    return (pleat_stream_t)(found - conversion->streams);
}

/* ---- events ---- */

static void conversion_emit(pleat_snapshot_conversion_t *conversion, pleat_action_t action,
                            const pleat_beginning_part_t *part)
{
    pleat_trace_t *trace = conversion->trace;
    PLEAT_ASSERT(trace->event_count < conversion->capacity);
    trace->events[trace->event_count++] =
        (pleat_trace_event_t){.address = part->address,
                              .bytes = part->bytes,
                              .stream = conversion_stream(conversion, part->stream),
                              .action = action};
}

static void conversion_emit_block(pleat_snapshot_conversion_t *conversion,
                                  const pleat_beginning_part_t *block)
{
    conversion_emit(conversion, PLEAT_ACTION_ALLOC, block);
    if (block->is_waiting) {
        conversion_emit(conversion, PLEAT_ACTION_FREE_REQUESTED, block);
    }
    conversion->trace->origin.live_count++;
    conversion->trace->origin.live_bytes += block->bytes;
}

static void conversion_emit_segment(pleat_snapshot_conversion_t *conversion,
                                    const pleat_beginning_part_t *segment)
{
    pleat_trace_origin_t *origin = &conversion->trace->origin;
    conversion_emit(conversion,
                    segment->is_mapped ? PLEAT_ACTION_SEGMENT_MAP : PLEAT_ACTION_SEGMENT_ALLOC,
                    segment);
    origin->segment_count++;
    origin->segment_bytes += segment->bytes;
}

/* Segments without blocks, or all others with the blocks, by address. */
static void conversion_emit_parts(pleat_snapshot_conversion_t *conversion, bool is_empty)
{
    const pleat_beginning_list_t *blocks = &conversion->beginning.blocks;
    const pleat_beginning_list_t *segments = &conversion->beginning.segments;
    size_t next = 0;
    for (size_t i = 0; i < segments->count; i++) {
        const pleat_beginning_part_t *segment = &segments->parts[i];
        for (; next < blocks->count && blocks->parts[next].address < segment->address; next++) {
            if (!is_empty) {
                conversion_emit_block(conversion, &blocks->parts[next]);
            }
        }
        const bool has_block =
            next < blocks->count && blocks->parts[next].address - segment->address < segment->bytes;
        if (has_block != is_empty) {
            conversion_emit_segment(conversion, segment);
        }
    }
    for (; !is_empty && next < blocks->count; next++) {
        conversion_emit_block(conversion, &blocks->parts[next]);
    }
}

/* Segments without blocks come first, so that the others stand before the allocation that they were
 * made for. */
static void conversion_emit_beginning(pleat_snapshot_conversion_t *conversion)
{
    conversion_emit_parts(conversion, true);
    conversion_emit_parts(conversion, false);
    conversion->trace->origin.before_count = conversion->trace->event_count;
}

/* The other beginning: events that are ready but for their streams. What was live is counted as
 * ever. */
static void conversion_emit_tiling(pleat_snapshot_conversion_t *conversion)
{
    pleat_trace_t *trace = conversion->trace;
    conversion_emit_beginning(conversion);
    trace->event_count = 0;
    for (size_t i = 0; i < conversion->tiling.event_count; i++) {
        pleat_trace_event_t event = conversion->tiling.events[i];
        event.stream = conversion_stream(conversion, event.stream);
        trace->events[trace->event_count++] = event;
    }
    trace->origin.is_rebuilt = true;
    trace->origin.guess_count = conversion->tiling.guess_count;
}

static void conversion_emit_history(pleat_snapshot_conversion_t *conversion)
{
    const pleat_torch_history_t *history = conversion->history;
    pleat_trace_t *trace = conversion->trace;
    const uint64_t first_us = history->entries[0].time_us;
    for (uint64_t i = 0; i < history->entry_count; i++) {
        const pleat_torch_entry_t *entry = &history->entries[i];
        trace->origin.early_count += entry->time_us < first_us ? 1 : 0;
        trace->events[trace->event_count++] = (pleat_trace_event_t){
            .address = entry->address,
            .bytes = entry->bytes,
            .stream = conversion_stream(conversion, entry->stream),
            .time_us = entry->time_us > first_us ? entry->time_us - first_us : 0,
            .action = entry->action};
    }
}

/* ---- private pools ---- */

static int segment_compare(const void *left, const void *right)
{
    const pleat_torch_segment_t *a = *(const pleat_torch_segment_t *const *)left;
    const pleat_torch_segment_t *b = *(const pleat_torch_segment_t *const *)right;
    return (a->address > b->address) - (a->address < b->address);
}

/* The last of @p segments that begins at or below @p address, NULL without one. */
static const pleat_torch_segment_t *segment_below(const pleat_torch_segment_t *const *segments,
                                                  size_t count, pleat_devptr_t address)
{
    size_t first = 0;
    while (count > 0) {
        const size_t half = count / 2;
        if (segments[first + half]->address <= address) {
            first += half + 1;
            count -= half + 1;
        } else {
            count = half;
        }
    }
    return first > 0 ? segments[first - 1] : NULL;
}

static pleat_status_t conversion_count_private(pleat_snapshot_conversion_t *conversion,
                                               uint32_t device)
{
    const pleat_torch_snapshot_t *snapshot = conversion->snapshot;
    const pleat_torch_segment_t **segments =
        calloc((size_t)snapshot->segment_count + 1, sizeof(*segments));
    size_t count = 0;
    if (segments == NULL) {
        return PLEAT_ERR_OOM_HOST;
    }
    for (uint64_t i = 0; i < snapshot->segment_count; i++) {
        const pleat_torch_segment_t *segment = &snapshot->segments[i];
        if (segment->device == device && (segment->pool.first | segment->pool.second) != 0) {
            segments[count++] = segment;
        }
    }
    qsort(segments, count, sizeof(*segments), segment_compare);
    for (uint64_t i = 0; i < conversion->history->entry_count && count > 0; i++) {
        const pleat_torch_entry_t *entry = &conversion->history->entries[i];
        const pleat_torch_segment_t *below =
            entry->action == PLEAT_ACTION_OOM || entry->action == PLEAT_ACTION_SNAPSHOT
                ? NULL
                : segment_below(segments, count, entry->address);
        if (below != NULL && entry->address - below->address < below->total_bytes) {
            conversion->trace->origin.private_count++;
        }
    }
    free(segments);
    return PLEAT_OK;
}

/* ---- the whole ---- */

static pleat_status_t conversion_make_trace(pleat_snapshot_conversion_t *conversion,
                                            uint32_t device, const char *name)
{
    const pleat_torch_history_t *history = conversion->history;
    conversion->capacity = history->entry_count + 2 * conversion->beginning.blocks.count +
                           conversion->beginning.segments.count + conversion->tiling.event_count;
    pleat_trace_t *trace = calloc(1, sizeof(*trace));
    conversion->trace = trace;
    if (trace == NULL) {
        return PLEAT_ERR_OOM_HOST;
    }
    trace->name = strdup(name);
    trace->events = calloc((size_t)conversion->capacity + 1, sizeof(*trace->events));
    if (trace->name == NULL || trace->events == NULL) {
        return PLEAT_ERR_OOM_HOST;
    }
    trace->has_origin = true;
    trace->origin.device = device;
    trace->origin.first_time_us = history->entries[0].time_us;
    trace->origin.unknown_count = history->unknown_count;
    trace->origin.differs_count = conversion->beginning.differs_count;
    trace->stream_count = conversion->stream_count;
    if (conversion->is_rebuilt) {
        conversion_emit_tiling(conversion);
    } else {
        conversion_emit_beginning(conversion);
    }
    trace->origin.prefix_count = trace->event_count;
    conversion_emit_history(conversion);
    return conversion_count_private(conversion, device);
}

/* @param options  NULL: not rebuilt. */
static pleat_status_t conversion_run(const pleat_torch_snapshot_t *snapshot, uint32_t device,
                                     const char *name, const pleat_options_t *options,
                                     pleat_trace_t **trace_out)
{
    if (pleat_trace_snapshot_entries(snapshot, device) == 0) {
        pleat_error_set("%s: device %" PRIu32 " has no history", name, device);
        return PLEAT_ERR_INVALID;
    }
    pleat_snapshot_conversion_t conversion = {.snapshot = snapshot,
                                              .history = &snapshot->histories[device],
                                              .is_rebuilt = options != NULL};
    pleat_status_t status = pleat_snapshot_beginning_find(snapshot, device, &conversion.beginning);
    if (status == PLEAT_OK && options != NULL) {
        status = pleat_snapshot_tiling_find(snapshot, device, options, &conversion.tiling);
    }
    if (status == PLEAT_OK) {
        status = conversion_collect_streams(&conversion);
    }
    if (status == PLEAT_OK) {
        status = conversion_make_trace(&conversion, device, name);
    }
    free(conversion.streams);
    pleat_snapshot_beginning_fini(&conversion.beginning);
    pleat_snapshot_tiling_fini(&conversion.tiling);
    if (status != PLEAT_OK) {
        pleat_trace_destroy(conversion.trace);
        if (status == PLEAT_ERR_OOM_HOST) {
            pleat_error_set("%s: no host memory for the trace of device %" PRIu32, name, device);
        }
        return status;
    }
    *trace_out = conversion.trace;
    return PLEAT_OK;
}

pleat_status_t pleat_trace_snapshot_convert(const pleat_torch_snapshot_t *snapshot, uint32_t device,
                                            const char *name, pleat_trace_t **trace_out)
{
    return conversion_run(snapshot, device, name, NULL, trace_out);
}

pleat_status_t pleat_trace_snapshot_rebuild(const pleat_torch_snapshot_t *snapshot, uint32_t device,
                                            const char *name, const pleat_options_t *options,
                                            pleat_trace_t **trace_out)
{
    return conversion_run(snapshot, device, name, options, trace_out);
}
