/*
 * snapshot_recorder: see snapshot_recorder.h. The tokens of its history are stacks, as their index
 * plus one, and texts of the source; nobody counts references to them.
 */
#include "snapshot_recorder.h"

#include "../../core/allocator.h"
#include "../../vmm/base.h"
#include "number_map.h"
#include "snapshot_beginning.h"

#include <stdlib.h>
#include <string.h>

/* ---- what the source tells ---- */

static const pleat_torch_history_t *recorder_entries(const pleat_snapshot_recorder_t *recorder)
{
    return recorder->source != NULL ? &recorder->source->histories[recorder->program->origin.device]
                                    : NULL;
}

static int recorder_compare_streams(const void *a, const void *b)
{
    const pleat_stream_t left = *(const pleat_stream_t *)a;
    const pleat_stream_t right = *(const pleat_stream_t *)b;
    return (left > right) - (left < right);
}

/* The handles of the source, numbered as trace_snapshot numbers them. */
static bool recorder_find_handles(pleat_snapshot_recorder_t *recorder)
{
    const pleat_torch_history_t *history = recorder_entries(recorder);
    const pleat_torch_snapshot_t *source = recorder->source;
    const uint32_t device = recorder->program->origin.device;
    pleat_stream_t *handles =
        calloc(history->entry_count + source->segment_count + 1, sizeof(*handles));
    size_t all_count = 0;
    size_t count = 0;
    if (handles == NULL) {
        return false;
    }
    for (uint64_t i = 0; i < history->entry_count; i++) {
        handles[all_count++] = history->entries[i].stream;
    }
    for (uint64_t i = 0; i < source->segment_count; i++) {
        if (source->segments[i].device == device) {
            handles[all_count++] = source->segments[i].stream;
        }
    }
    qsort(handles, all_count, sizeof(*handles), recorder_compare_streams);
    for (size_t i = 0; i < all_count; i++) {
        if (count == 0 || handles[count - 1] != handles[i]) {
            handles[count++] = handles[i];
        }
    }
    recorder->handles = handles;
    recorder->handle_count = count;
    return true;
}

/* Stacks by address of the blocks in use at the end whose allocation the history does not tell. */
static bool recorder_map_stacks(const pleat_snapshot_recorder_t *recorder, pleat_number_map_t *map)
{
    const pleat_torch_snapshot_t *source = recorder->source;
    const pleat_torch_history_t *history = recorder_entries(recorder);
    for (uint64_t i = 0; i < source->segment_count; i++) {
        const pleat_torch_segment_t *segment = &source->segments[i];
        const pleat_torch_block_t *block = &source->blocks[segment->first_block];
        const pleat_torch_block_t *end = block + segment->block_count;
        for (; segment->device == recorder->program->origin.device && block < end; block++) {
            if (block->state != PLEAT_BLOCK_INACTIVE && block->stack != PLEAT_TORCH_STACK_ABSENT &&
                !pleat_number_map_set(map, block->address, block->stack)) {
                return false;
            }
        }
    }
    for (uint64_t i = 0; i < history->entry_count; i++) {
        if (history->entries[i].action == PLEAT_ACTION_ALLOC) {
            pleat_number_map_remove(map, history->entries[i].address);
        }
    }
    return true;
}

/* The trace begins with the blocks that were there before, by address. */
static bool recorder_find_old_stacks(pleat_snapshot_recorder_t *recorder)
{
    pleat_snapshot_beginning_t beginning;
    pleat_number_map_t map = {.slots = NULL};
    if (pleat_snapshot_beginning_find(recorder->source, recorder->program->origin.device,
                                      &beginning) != PLEAT_OK) {
        return false;
    }
    const size_t count = beginning.blocks.count;
    bool is_good = recorder_map_stacks(recorder, &map);
    recorder->old_stacks = is_good ? calloc(count + 1, sizeof(*recorder->old_stacks)) : NULL;
    is_good = recorder->old_stacks != NULL;
    for (size_t i = 0; i < count && is_good; i++) {
        recorder->old_stacks[i] = pleat_number_map_find(&map, beginning.blocks.parts[i].address);
    }
    recorder->old_count = is_good ? count : 0;
    pleat_number_map_fini(&map);
    pleat_snapshot_beginning_fini(&beginning);
    return is_good;
}

/* ---- watching ---- */

static int64_t recorder_now_us(void *context)
{
    return (int64_t)((const pleat_snapshot_recorder_t *)context)->now_us;
}

static pleat_status_t recorder_begin(void *context, pleat_replay_t *replay)
{
    pleat_snapshot_recorder_t *recorder = context;
    pleat_set_observer(pleat_replay_allocator(replay), pleat_history_observe, recorder->history);
    return PLEAT_OK;
}

static void *recorder_token(uint32_t stack)
{
    return stack == PLEAT_TORCH_STACK_ABSENT ? NULL : (void *)((uintptr_t)stack + 1);
}

static void *recorder_text_token(const char *text)
{
    return (void *)(uintptr_t)text;
}

/* Is an entry of that action the call itself, rather than something that happened on its way? */
static bool recorder_is_main(pleat_program_call_kind_t kind, pleat_action_t action)
{
    switch (kind) {
    case PLEAT_PROGRAM_ALLOC:
        return action == PLEAT_ACTION_ALLOC;
    case PLEAT_PROGRAM_ALLOC_FAILS:
        return action == PLEAT_ACTION_OOM;
    case PLEAT_PROGRAM_FREE:
    case PLEAT_PROGRAM_FREE_WAITS:
        return action == PLEAT_ACTION_FREE_REQUESTED;
    case PLEAT_PROGRAM_EMPTY_CACHE:
        return action == PLEAT_ACTION_SEGMENT_FREE || action == PLEAT_ACTION_SEGMENT_UNMAP;
    case PLEAT_PROGRAM_COMPLETE:
    case PLEAT_PROGRAM_COMPLETE_IN_CALL:
    case PLEAT_PROGRAM_STRAY:
    case PLEAT_PROGRAM_CALL_COUNT:
        break;
    }
    return false;
}

/* The entry that a call of the program is in the source's history; NULL: there is none. */
static const pleat_torch_entry_t *recorder_entry(const pleat_snapshot_recorder_t *recorder,
                                                 const pleat_program_call_t *call)
{
    const pleat_torch_history_t *history = recorder_entries(recorder);
    const uint64_t prefix_count = recorder->program->origin.prefix_count;
    for (uint64_t i = 0; i < call->event_count; i++) {
        const uint64_t event = call->first_event + i;
        if (event >= prefix_count && event - prefix_count < history->entry_count &&
            recorder_is_main(call->kind, history->entries[event - prefix_count].action)) {
            return &history->entries[event - prefix_count];
        }
    }
    return NULL;
}

static pleat_history_note_t recorder_note(pleat_snapshot_recorder_t *recorder,
                                          const pleat_program_call_t *call)
{
    pleat_history_note_t note = PLEAT_HISTORY_NOTE_INIT;
    const pleat_torch_entry_t *entry = recorder_entry(recorder, call);
    if (entry != NULL) {
        note.context = recorder_token(entry->stack);
        note.compile_context = recorder_text_token(entry->compile_context);
        note.user_metadata = recorder_text_token(entry->user_metadata);
    } else if (call->kind == PLEAT_PROGRAM_ALLOC && recorder->old_done < recorder->old_count) {
        note.context = recorder_token(recorder->old_stacks[recorder->old_done++]);
    }
    return note;
}

static void recorder_before(void *context, const pleat_program_call_t *call, uint64_t time_us)
{
    pleat_snapshot_recorder_t *recorder = context;
    const uint64_t base_us = recorder->source != NULL ? recorder->program->origin.first_time_us : 0;
    recorder->now_us = base_us + time_us;
    if (recorder->source != NULL) {
        const pleat_history_note_t note = recorder_note(recorder, call);
        pleat_history_set_note(recorder->history, &note);
    }
}

static bool recorder_after(void *context, const pleat_program_call_t *call, uint64_t time_us)
{
    pleat_snapshot_recorder_t *recorder = context;
    (void)call;
    (void)time_us;
    pleat_history_set_note(recorder->history, NULL);
    recorder->calls_done++;
    if (recorder->calls_done % recorder->program->call_count == 0) {
        recorder->old_done = 0; /* the next pass begins */
    }
    return recorder->calls_done != recorder->calls_wanted;
}

pleat_status_t pleat_snapshot_recorder_init(pleat_snapshot_recorder_t *recorder,
                                            const pleat_program_t *program,
                                            const pleat_torch_snapshot_t *source,
                                            uint64_t max_entries)
{
    *recorder = (pleat_snapshot_recorder_t){.program = program,
                                            .source = program->has_origin ? source : NULL,
                                            .watcher = {.context = recorder,
                                                        .begin = recorder_begin,
                                                        .before = recorder_before,
                                                        .after = recorder_after}};
    const pleat_history_hooks_t hooks = {
        .size = sizeof(hooks), .context = recorder, .now_us = recorder_now_us};
    pleat_history_settings_t settings = PLEAT_HISTORY_SETTINGS_INIT;
    settings.max_entries = max_entries;
    pleat_status_t status = pleat_history_create(&hooks, &recorder->history);
    if (status == PLEAT_OK) {
        status = pleat_history_configure(recorder->history, &settings);
    }
    if (status == PLEAT_OK && recorder->source != NULL &&
        (!recorder_find_handles(recorder) || !recorder_find_old_stacks(recorder))) {
        pleat_error_set("no host memory to record a snapshot");
        status = PLEAT_ERR_OOM_HOST;
    }
    return status;
}

void pleat_snapshot_recorder_fini(pleat_snapshot_recorder_t *recorder)
{
    pleat_history_copy_destroy(recorder->history, recorder->copy);
    pleat_history_destroy(recorder->history);
    free(recorder->handles);
    free(recorder->old_stacks);
    *recorder = (pleat_snapshot_recorder_t){.program = NULL};
}

void pleat_snapshot_recorder_detach(pleat_replay_t *replay)
{
    pleat_set_observer(pleat_replay_allocator(replay), NULL, NULL);
}

/* ---- taking ---- */

/* The handle of the recording for a handle of the replay. */
static pleat_stream_t recorder_stream(const pleat_snapshot_recorder_t *recorder,
                                      const pleat_number_map_t *map, pleat_stream_t handle)
{
    const uint32_t index = pleat_number_map_find(map, handle);
    if (index == PLEAT_NUMBER_MAP_NONE) {
        return handle;
    }
    const pleat_stream_t number = recorder->program->streams[index];
    return number < recorder->handle_count ? recorder->handles[number] : number;
}

static bool recorder_restore_streams(pleat_snapshot_recorder_t *recorder)
{
    const pleat_program_t *program = recorder->program;
    pleat_history_copy_t *copy = recorder->copy;
    pleat_number_map_t map = {.slots = NULL};
    bool is_good = true;
    for (uint32_t i = 0; i < program->stream_count && is_good; i++) {
        is_good = pleat_number_map_set(&map, program->handles[i], i);
    }
    for (uint64_t i = 0; i < copy->entry_count && is_good; i++) {
        pleat_history_entry_t *entry = &copy->entries[i];
        if (entry->action != PLEAT_ACTION_SNAPSHOT) {
            entry->stream = recorder_stream(recorder, &map, entry->stream);
        }
    }
    for (uint64_t i = 0; i < copy->snapshot->segment_count && is_good; i++) {
        pleat_segment_info_t *segment = &copy->snapshot->segments[i];
        segment->stream = recorder_stream(recorder, &map, segment->stream);
    }
    pleat_number_map_fini(&map);
    return is_good;
}

pleat_status_t pleat_snapshot_recorder_take(pleat_snapshot_recorder_t *recorder,
                                            pleat_replay_t *replay, bool with_entries)
{
    pleat_status_t status = pleat_history_take(recorder->history, pleat_replay_allocator(replay),
                                               with_entries, &recorder->copy);
    pleat_snapshot_recorder_detach(replay);
    if (status == PLEAT_OK && !recorder_restore_streams(recorder)) {
        pleat_error_set("no host memory for the streams of a snapshot");
        status = PLEAT_ERR_OOM_HOST;
    }
    return status;
}

uint64_t pleat_snapshot_recorder_calls_to(const pleat_program_t *program, uint32_t passes,
                                          uint64_t event)
{
    if (event == 0 || program->event_count == 0 || (event - 1) / program->event_count >= passes) {
        return 0;
    }
    const uint64_t pass = (event - 1) / program->event_count;
    const uint64_t wanted = (event - 1) % program->event_count;
    size_t first = 0;
    size_t count = program->call_count;
    while (count > 0) { /* the first call that ends behind the event; events of calls rise */
        const size_t half = count / 2;
        const pleat_program_call_t *call = &program->calls[first + half];
        if (call->first_event + (uint64_t)call->event_count <= wanted) {
            first += half + 1;
            count -= half + 1;
        } else {
            count = half;
        }
    }
    /* Events behind the last call change nothing. */
    const uint64_t in_pass = first < program->call_count ? first + 1 : program->call_count;
    return pass * program->call_count + in_pass;
}

/* ---- composing ---- */

static uint32_t recorder_stack_of(void *context, void *token)
{
    (void)context;
    return (uint32_t)((uintptr_t)token - 1);
}

static const char *recorder_text_of(void *context, void *token)
{
    (void)context;
    return token;
}

pleat_status_t pleat_snapshot_recorder_compose(const pleat_snapshot_recorder_t *const *recorders,
                                               size_t count, const pleat_conf_t *conf,
                                               const char *conf_text,
                                               pleat_torch_snapshot_t *snapshot_out)
{
    const pleat_history_copy_t **copies =
        (const pleat_history_copy_t **)calloc(count + 1, sizeof(*copies));
    pleat_torch_source_t source = PLEAT_TORCH_SOURCE_INIT;
    if (copies == NULL) {
        pleat_error_set("no host memory for a snapshot of %zu devices", count);
        return PLEAT_ERR_OOM_HOST;
    }
    for (size_t i = 0; i < count; i++) {
        if (recorders[i] != NULL) {
            copies[i] = recorders[i]->copy;
            source.tables = recorders[i]->source != NULL ? recorders[i]->source : source.tables;
        }
    }
    source.copies = copies;
    source.copy_count = count;
    source.conf = conf;
    source.conf_text = conf_text;
    source.stack_of = recorder_stack_of;
    source.text_of = recorder_text_of;
    const pleat_status_t status = pleat_torch_snapshot_compose(&source, snapshot_out);
    free((void *)copies);
    return status;
}

/* ---- the peak ---- */

static pleat_status_t peak_begin(void *context, pleat_replay_t *replay)
{
    ((pleat_peak_finder_t *)context)->stats = pleat_allocator_stats(pleat_replay_allocator(replay));
    return PLEAT_OK;
}

static bool peak_after(void *context, const pleat_program_call_t *call, uint64_t time_us)
{
    pleat_peak_finder_t *finder = context;
    const int64_t bytes = finder->stats->reserved_bytes[PLEAT_STAT_ALL].current;
    (void)call;
    (void)time_us;
    finder->calls_done++;
    if (bytes > finder->peak_bytes) {
        finder->peak_bytes = bytes;
        finder->peak_calls = finder->calls_done;
    }
    return true;
}

void pleat_peak_finder_init(pleat_peak_finder_t *finder)
{
    *finder = (pleat_peak_finder_t){
        .watcher = {.context = finder, .begin = peak_begin, .after = peak_after}};
}
