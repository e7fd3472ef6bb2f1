/*
 * history: records what an allocator does (pleat/history.h).
 *
 * Neighbours: history_ring (the entries), context_map (of live blocks), context_spans (of
 * segments). One lock guards all of a history; it is taken inside the allocator's, never the other
 * way round. The note of a thread is thread-local and needs none.
 */
#include "context_map.h"
#include "context_spans.h"
#include "history_ring.h"

#include "core/allocator.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

struct pleat_history {
    pleat_lock_t lock;
    uint64_t id; /* of all histories ever made; tells whose a thread's note is */
    pleat_history_hooks_t hooks;
    atomic_uint level_in_force; /* pleat_history_level_t; NONE while recording is off */
    bool is_recording;
    uint32_t skip_mask;
    pleat_history_ring_t ring;
    pleat_context_map_t blocks;
    pleat_context_spans_t segments;
};

static atomic_uint_fast64_t history_last_id;

static _Thread_local struct {
    uint64_t history_id; /* 0: no note */
    pleat_history_note_t note;
} history_thread;

/* Copy a caller's struct over the defaults, as far as both reach. */
static void history_import(void *full, size_t full_size, const void *given, size_t given_size)
{
    const size_t size = given_size < full_size ? given_size : full_size;
    if (size > sizeof(size_t)) {
        memcpy((char *)full + sizeof(size_t), (const char *)given + sizeof(size_t),
               size - sizeof(size_t));
    }
}

pleat_status_t pleat_history_create(const pleat_history_hooks_t *hooks,
                                    pleat_history_t **history_out)
{
    if (history_out == NULL) {
        pleat_error_set("%s: history_out is NULL", __func__);
        return PLEAT_ERR_INVALID;
    }
    pleat_history_t *history = calloc(1, sizeof *history);
    if (history == NULL) {
        pleat_error_set("no host memory for a history");
        return PLEAT_ERR_OOM_HOST;
    }
    history->id = 1 + atomic_fetch_add(&history_last_id, 1);
    history->hooks = (pleat_history_hooks_t)PLEAT_HISTORY_HOOKS_INIT;
    if (hooks != NULL) {
        history_import(&history->hooks, sizeof history->hooks, hooks, hooks->size);
    }
    pleat_history_ring_init(&history->ring);
    pleat_context_map_init(&history->blocks, &history->hooks);
    pleat_context_spans_init(&history->segments, &history->hooks);
    *history_out = history;
    return PLEAT_OK;
}

/* ---- entries and their tokens ---- */

static void history_retain(const pleat_history_t *history, const pleat_history_entry_t *entry)
{
    pleat_token_retain(&history->hooks, entry->context);
    pleat_token_retain(&history->hooks, entry->compile_context);
    pleat_token_retain(&history->hooks, entry->user_metadata);
}

static void history_release(const pleat_history_t *history, const pleat_history_entry_t *entry)
{
    pleat_token_release(&history->hooks, entry->context);
    pleat_token_release(&history->hooks, entry->compile_context);
    pleat_token_release(&history->hooks, entry->user_metadata);
}

static void history_drop_entries(pleat_history_t *history)
{
    for (uint64_t i = 0; i < history->ring.count; i++) {
        history_release(history, &history->ring.entries[i]);
    }
    pleat_history_ring_clear(&history->ring);
}

void pleat_history_destroy(pleat_history_t *history)
{
    if (history == NULL) {
        return;
    }
    history_drop_entries(history);
    pleat_history_ring_fini(&history->ring);
    pleat_context_map_fini(&history->blocks);
    pleat_context_spans_fini(&history->segments);
    free(history);
}

void pleat_history_clear(pleat_history_t *history)
{
    if (history == NULL) {
        return;
    }
    pleat_lock_acquire(&history->lock);
    history_drop_entries(history);
    pleat_lock_release(&history->lock);
}

/* ---- settings ---- */

pleat_status_t pleat_history_configure(pleat_history_t *history,
                                       const pleat_history_settings_t *settings)
{
    if (history == NULL || settings == NULL) {
        pleat_error_set("%s: %s is NULL", __func__, history == NULL ? "history" : "settings");
        return PLEAT_ERR_INVALID;
    }
    pleat_history_settings_t wanted = PLEAT_HISTORY_SETTINGS_INIT;
    history_import(&wanted, sizeof wanted, settings, settings->size);
    if ((unsigned)wanted.level >= PLEAT_HISTORY_LEVEL_COUNT) {
        pleat_error_set("%s: there is no level %u; the last is %u (all)", __func__,
                        (unsigned)wanted.level, (unsigned)PLEAT_HISTORY_LEVEL_ALL);
        return PLEAT_ERR_INVALID;
    }
    if (wanted.skip_mask >> PLEAT_ACTION_COUNT != 0) {
        pleat_error_set("%s: skip_mask 0x%x has a bit beyond those of the %d actions", __func__,
                        (unsigned)wanted.skip_mask, (int)PLEAT_ACTION_COUNT);
        return PLEAT_ERR_INVALID;
    }
    pleat_lock_acquire(&history->lock);
    history->is_recording = wanted.is_recording;
    history->skip_mask = wanted.skip_mask;
    atomic_store_explicit(&history->level_in_force,
                          wanted.is_recording ? wanted.level : PLEAT_HISTORY_LEVEL_NONE,
                          memory_order_relaxed);
    if (!wanted.is_recording || wanted.is_cleared) {
        history_drop_entries(history);
    }
    pleat_history_ring_set_max(&history->ring, wanted.max_entries);
    pleat_lock_release(&history->lock);
    return PLEAT_OK;
}

static pleat_history_level_t history_level(const pleat_history_t *history)
{
    return (pleat_history_level_t)atomic_load_explicit(&history->level_in_force,
                                                       memory_order_relaxed);
}

pleat_history_level_t pleat_history_level(const pleat_history_t *history)
{
    return history != NULL ? history_level(history) : PLEAT_HISTORY_LEVEL_NONE;
}

void pleat_history_set_note(pleat_history_t *history, const pleat_history_note_t *note)
{
    if (history == NULL || note == NULL) {
        history_thread.history_id = 0;
        return;
    }
    history_thread.note = (pleat_history_note_t)PLEAT_HISTORY_NOTE_INIT;
    history_import(&history_thread.note, sizeof history_thread.note, note, note->size);
    history_thread.history_id = history->id;
}

/* ---- recording ---- */

static pleat_history_note_t history_note(const pleat_history_t *history)
{
    if (history_thread.history_id == history->id) {
        return history_thread.note;
    }
    return (pleat_history_note_t)PLEAT_HISTORY_NOTE_INIT;
}

static int64_t history_now_us(const pleat_history_t *history)
{
    if (history->hooks.now_us != NULL) {
        return history->hooks.now_us(history->hooks.context);
    }
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* The context that an entry of the action shows: the note's own, or that of what it ends. */
static void *history_context(const pleat_history_t *history, const pleat_trace_entry_t *entry,
                             void *noted)
{
    if (noted != NULL) {
        return noted;
    }
    switch (entry->action) {
    case PLEAT_ACTION_FREE_REQUESTED:
    case PLEAT_ACTION_FREE_COMPLETED:
        return pleat_context_map_find(&history->blocks, entry->address);
    case PLEAT_ACTION_SEGMENT_FREE:
    case PLEAT_ACTION_SEGMENT_UNMAP:
        return pleat_context_spans_find(&history->segments, entry->address);
    case PLEAT_ACTION_ALLOC:
    case PLEAT_ACTION_SEGMENT_ALLOC:
    case PLEAT_ACTION_SEGMENT_MAP:
    case PLEAT_ACTION_SNAPSHOT:
    case PLEAT_ACTION_OOM:
    case PLEAT_ACTION_COUNT:
        break;
    }
    return NULL;
}

static void history_record(pleat_history_t *history, const pleat_trace_entry_t *entry,
                           void *context, const pleat_history_note_t *note)
{
    if (!history->is_recording || (history->skip_mask >> entry->action & 1) != 0) {
        return;
    }
    bool is_old = false;
    pleat_history_entry_t *place = pleat_history_ring_place(&history->ring, &is_old);
    if (place == NULL) {
        return;
    }
    const pleat_history_entry_t old = is_old ? *place : (pleat_history_entry_t){0};
    *place = (pleat_history_entry_t){
        .action = entry->action,
        .stream = entry->stream,
        .address = entry->address,
        .bytes = entry->bytes,
        .time_us = history_now_us(history),
        .context = history_level(history) >= PLEAT_HISTORY_LEVEL_ALLOC ? context : NULL,
        .compile_context = note->compile_context,
        .user_metadata = note->user_metadata,
    };
    history_retain(history, place);
    history_release(history, &old);
}

/* What is live now, after the action. Without recording only what ends is followed. */
static void history_follow(pleat_history_t *history, const pleat_trace_entry_t *entry, void *noted)
{
    switch (entry->action) {
    case PLEAT_ACTION_ALLOC:
        pleat_context_map_set(&history->blocks, entry->address, noted);
        break;
    case PLEAT_ACTION_FREE_COMPLETED:
        pleat_context_map_set(&history->blocks, entry->address, NULL);
        break;
    case PLEAT_ACTION_SEGMENT_ALLOC:
    case PLEAT_ACTION_SEGMENT_MAP:
        pleat_context_spans_set(&history->segments, entry->address, entry->bytes, noted);
        break;
    case PLEAT_ACTION_SEGMENT_FREE:
    case PLEAT_ACTION_SEGMENT_UNMAP:
        pleat_context_spans_set(&history->segments, entry->address, entry->bytes, NULL);
        break;
    case PLEAT_ACTION_FREE_REQUESTED:
    case PLEAT_ACTION_SNAPSHOT:
    case PLEAT_ACTION_OOM:
    case PLEAT_ACTION_COUNT:
        break;
    }
}

void pleat_history_observe(void *context, const pleat_trace_entry_t *entry)
{
    pleat_history_t *history = context;
    pleat_lock_acquire(&history->lock);
    pleat_history_note_t note = history_note(history);
    if (history_level(history) < PLEAT_HISTORY_LEVEL_STATE) {
        note.context = NULL;
    }
    history_record(history, entry, history_context(history, entry, note.context), &note);
    history_follow(history, entry, note.context);
    pleat_lock_release(&history->lock);
}

/* ---- reading ---- */

static bool history_copy_entries(const pleat_history_t *history, pleat_history_copy_t *copy)
{
    const uint64_t count = history->ring.count;
    copy->entries = calloc(count + 1, sizeof *copy->entries);
    if (copy->entries == NULL) {
        return false;
    }
    pleat_history_ring_copy(&history->ring, copy->entries);
    copy->entry_count = count;
    for (uint64_t i = 0; i < count; i++) {
        history_retain(history, &copy->entries[i]);
    }
    return true;
}

static bool history_copy_contexts(const pleat_history_t *history, const pleat_snapshot_t *snapshot,
                                  pleat_history_copy_t *copy)
{
    copy->segment_contexts = (void **)calloc(snapshot->segment_count + 1, sizeof(void *));
    copy->block_contexts = (void **)calloc(snapshot->block_count + 1, sizeof(void *));
    if (copy->segment_contexts == NULL || copy->block_contexts == NULL) {
        return false;
    }
    for (uint64_t i = 0; i < snapshot->segment_count; i++) {
        copy->segment_contexts[i] =
            pleat_context_spans_find(&history->segments, snapshot->segments[i].address);
        pleat_token_retain(&history->hooks, copy->segment_contexts[i]);
    }
    for (uint64_t i = 0; i < snapshot->block_count; i++) {
        const pleat_block_info_t *block = &snapshot->blocks[i];
        if (block->state != PLEAT_BLOCK_INACTIVE) {
            copy->block_contexts[i] = pleat_context_map_find(&history->blocks, block->address);
            pleat_token_retain(&history->hooks, copy->block_contexts[i]);
        }
    }
    return true;
}

typedef struct history_taking {
    pleat_history_t *history;
    pleat_history_copy_t *copy;
    bool with_entries;
} history_taking_t;

/* Under the lock of the allocator, if there is one. */
static pleat_status_t history_fill(void *context, const pleat_snapshot_t *snapshot)
{
    const history_taking_t *taking = context;
    pleat_history_t *history = taking->history;
    pleat_history_copy_t *copy = taking->copy;
    pleat_lock_acquire(&history->lock);
    copy->lost_count = history->ring.lost_count;
    bool is_whole = !taking->with_entries || history_copy_entries(history, copy);
    if (is_whole && snapshot != NULL) {
        is_whole = history_copy_contexts(history, snapshot, copy);
    }
    if (is_whole && snapshot != NULL) {
        pleat_trace_entry_t entry = {.size = sizeof entry, .action = PLEAT_ACTION_SNAPSHOT};
        for (uint64_t i = 0; i < snapshot->segment_count; i++) {
            entry.bytes += snapshot->segments[i].active_bytes;
        }
        const pleat_history_note_t note = history_note(history);
        history_record(history, &entry, NULL, &note);
    }
    pleat_lock_release(&history->lock);
    if (!is_whole) {
        pleat_error_set("no host memory for a copy of the history");
        return PLEAT_ERR_OOM_HOST;
    }
    return PLEAT_OK;
}

pleat_status_t pleat_history_take(pleat_history_t *history, pleat_allocator_t *allocator,
                                  bool with_entries, pleat_history_copy_t **copy_out)
{
    if (history == NULL || copy_out == NULL) {
        pleat_error_set("%s: %s is NULL", __func__, history == NULL ? "history" : "copy_out");
        return PLEAT_ERR_INVALID;
    }
    pleat_history_copy_t *copy = calloc(1, sizeof *copy);
    if (copy == NULL) {
        pleat_error_set("no host memory for a copy of the history");
        return PLEAT_ERR_OOM_HOST;
    }
    copy->size = sizeof *copy;
    copy->entry_size = sizeof *copy->entries;
    history_taking_t taking = {history, copy, with_entries};
    const pleat_status_t status =
        allocator != NULL
            ? pleat_snapshot_take_and(allocator, history_fill, &taking, &copy->snapshot)
            : history_fill(&taking, NULL);
    if (status != PLEAT_OK) {
        pleat_history_copy_destroy(history, copy);
        return status;
    }
    *copy_out = copy;
    return PLEAT_OK;
}

/* Release @p count tokens, if there are any. */
static void history_release_all(const pleat_history_t *history, void *const *tokens, uint64_t count)
{
    for (uint64_t i = 0; tokens != NULL && i < count; i++) {
        pleat_token_release(&history->hooks, tokens[i]);
    }
}

void pleat_history_copy_destroy(pleat_history_t *history, pleat_history_copy_t *copy)
{
    if (history == NULL || copy == NULL) {
        return;
    }
    for (uint64_t i = 0; i < copy->entry_count; i++) {
        history_release(history, &copy->entries[i]);
    }
    if (copy->snapshot != NULL) {
        history_release_all(history, copy->segment_contexts, copy->snapshot->segment_count);
        history_release_all(history, copy->block_contexts, copy->snapshot->block_count);
    }
    pleat_snapshot_destroy(copy->snapshot);
    free(copy->entries);
    free((void *)copy->segment_contexts);
    free((void *)copy->block_contexts);
    free(copy);
}
