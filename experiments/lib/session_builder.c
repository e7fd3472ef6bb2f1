/*
 * session_builder: see session_builder.h.
 */
#include "session_builder.h"

#include "near_name.h"
#include "vmm/base.h"

#include <pleat/memory_stats.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { ITEMS_MIN = 64, STAT_NAME_CAPACITY = 64 };

bool pleat_session_builder_init(pleat_session_builder_t *builder, const char *file)
{
    *builder = (pleat_session_builder_t){.file = file};
    builder->store = pleat_text_store_create();
    builder->session = calloc(1, sizeof(*builder->session));
    if (builder->store == NULL || builder->session == NULL) {
        return false;
    }
    builder->session->recorded = "";
    builder->session->settings = "";
    builder->session->total_bytes = UINT64_C(150109880320);
    return true;
}

void pleat_session_builder_fini(pleat_session_builder_t *builder)
{
    pleat_session_destroy(builder->session);
    pleat_text_store_destroy(builder->store);
    pleat_name_table_fini(&builder->ids);
    pleat_number_map_fini(&builder->pools);
    pleat_number_map_fini(&builder->named_ids);
    pleat_number_map_fini(&builder->named_pools);
    free(builder->live);
    free(builder->key_lines);
    *builder = (pleat_session_builder_t){0};
}

pleat_session_t *pleat_session_builder_take(pleat_session_builder_t *builder)
{
    pleat_session_t *session = builder->session;
    session->strings = builder->store;
    session->ids = builder->ids.names;
    session->id_count = builder->ids.name_count;
    builder->ids.names = NULL;
    builder->store = NULL;
    builder->session = NULL;
    return session;
}

pleat_status_t pleat_session_builder_no_memory(const pleat_session_builder_t *builder)
{
    pleat_error_set("%s: no memory for the session", builder->file);
    return PLEAT_ERR_OOM_HOST;
}

void *pleat_session_grow(void *items, uint32_t count, uint32_t *capacity, size_t item_bytes)
{
    if (count == *capacity) {
        if (*capacity > UINT32_MAX / 4) {
            return NULL;
        }
        const uint32_t larger_capacity = *capacity == 0 ? ITEMS_MIN : *capacity * 2;
        void *larger = realloc(items, larger_capacity * item_bytes);
        if (larger == NULL) {
            return NULL;
        }
        items = larger;
        *capacity = larger_capacity;
    }
    memset((char *)items + count * item_bytes, 0, item_bytes);
    return items;
}

pleat_session_call_t *pleat_session_builder_last_call(pleat_session_builder_t *builder)
{
    pleat_session_t *session = builder->session;
    return session->call_count == 0 ? NULL : &session->calls[session->call_count - 1];
}

pleat_status_t pleat_session_builder_close_call(const pleat_session_builder_t *builder)
{
    const pleat_session_t *session = builder->session;
    if (session->call_count == 0 || session->key_count == 0) {
        return PLEAT_OK;
    }
    const pleat_session_call_t *call = &session->calls[session->call_count - 1];
    if (call->has_stats || call->error_text != NULL) {
        return PLEAT_OK;
    }
    pleat_error_set("%s:%" PRIu64 ":1: '%s' without a line ' stats' below it: a recording has the "
                    "statistics of every call, ' stats' alone if none changed",
                    builder->file, call->line, pleat_session_call_word(call->kind));
    return PLEAT_ERR_FORMAT;
}

/* Name of the statistic with the fewest edits to a word. */
static const char *session_nearest_stat(pleat_text_t word)
{
    size_t nearest = 0;
    size_t fewest = SIZE_MAX;
    for (size_t i = 0; i < pleat_memory_stats_count(); i++) {
        const size_t edits =
            pleat_near_name_distance(word.start, word.length, pleat_memory_stats_name(i));
        if (edits < fewest) {
            fewest = edits;
            nearest = i;
        }
    }
    return pleat_memory_stats_name(nearest);
}

pleat_status_t pleat_session_check_stat_name(const pleat_scan_t *scan, pleat_text_t name)
{
    char text[STAT_NAME_CAPACITY];
    if (name.length < sizeof(text)) {
        memcpy(text, name.start, name.length);
        text[name.length] = '\0';
        if (pleat_memory_stats_index(text) < pleat_memory_stats_count()) {
            return PLEAT_OK;
        }
    }
    return pleat_scan_fail(scan, name.start,
                           "'%.*s' is no statistic of memory_stats(); the nearest is '%s'",
                           pleat_text_shown(name), name.start, session_nearest_stat(name));
}

void pleat_session_range_extend(pleat_session_range_t *range, uint32_t count_before)
{
    if (range->count == 0) {
        range->first = count_before;
    }
    PLEAT_ASSERT(range->first + range->count == count_before);
    range->count++;
}

pleat_status_t pleat_session_builder_note_stream(pleat_session_builder_t *builder,
                                                 const pleat_scan_t *scan, const char *place,
                                                 pleat_stream_t stream)
{
    pleat_session_t *session = builder->session;
    if (builder->has_stream_count && stream >= session->stream_count) {
        return pleat_scan_fail(scan, place,
                               "stream %" PRIu64 ", but the header says that there are %" PRIu64
                               ", numbered from 0",
                               stream, session->stream_count);
    }
    if (stream > PLEAT_SESSION_STREAM_MAX) {
        return pleat_scan_fail(scan, place, "stream %" PRIu64 "; streams are numbered 0 to 65535",
                               stream);
    }
    if (stream >= session->stream_count) {
        session->stream_count = stream + 1;
    }
    return PLEAT_OK;
}

pleat_status_t pleat_session_scan_stream(pleat_session_builder_t *builder, pleat_scan_t *scan,
                                         pleat_stream_t *stream_out)
{
    pleat_scan_skip_blanks(scan);
    const char *place = scan->cursor;
    const pleat_status_t status = pleat_scan_decimal(scan, "stream", stream_out);
    if (status != PLEAT_OK) {
        return status;
    }
    return pleat_session_builder_note_stream(builder, scan, place, *stream_out);
}

pleat_status_t pleat_session_builder_copy(pleat_session_builder_t *builder, pleat_text_t text,
                                          const char **copy_out)
{
    const char *copy = pleat_text_store_add(builder->store, text);
    if (copy == NULL) {
        return pleat_session_builder_no_memory(builder);
    }
    *copy_out = copy;
    return PLEAT_OK;
}
