/*
 * session_call: see session_call.h. One function a kind of arguments, found through a table.
 */
#include "session_call.h"

#include "vmm/base.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct pleat_call_line {
    pleat_session_builder_t *builder;
    pleat_scan_t *scan;
    pleat_session_call_t *call;
    const char *form; /* what a right line looks like */
} pleat_call_line_t;

typedef pleat_status_t (*pleat_call_fn_t)(pleat_call_line_t *line);

/* The next word as an id; live or not, as wanted. Its state changes to will_live. */
static pleat_status_t pleat_call_scan_id(pleat_call_line_t *line, bool is_live, bool will_live)
{
    pleat_session_builder_t *builder = line->builder;
    pleat_scan_t *scan = line->scan;
    const pleat_text_t word = pleat_scan_word(scan);
    if (word.length == 0) {
        return pleat_scan_fail(scan, word.start, "an id is missing; the line has the form '%s'",
                               line->form);
    }
    const uint32_t known = pleat_name_table_find(&builder->ids, word);
    const bool found_live = known != PLEAT_NAME_NONE && builder->live[known];
    if (found_live != is_live) {
        return pleat_scan_fail(scan, word.start,
                               is_live ? "id '%.*s' is not allocated here: it must stand in an "
                                         "'alloc' before, without a 'free' since"
                                       : "id '%.*s' is still allocated; free it before it is used "
                                         "again",
                               pleat_text_shown(word), word.start);
    }
    const uint32_t id = pleat_name_table_add(&builder->ids, builder->store, word);
    if (id == PLEAT_NAME_NONE) {
        return pleat_session_builder_no_memory(builder);
    }
    if (known == PLEAT_NAME_NONE) {
        bool *live = pleat_session_grow(builder->live, id, &builder->live_capacity, sizeof(*live));
        if (live == NULL) {
            return pleat_session_builder_no_memory(builder);
        }
        builder->live = live;
    }
    builder->live[id] = will_live;
    line->call->id = id;
    return PLEAT_OK;
}

static pleat_status_t pleat_call_scan_pool(pleat_call_line_t *line, bool is_new)
{
    pleat_session_builder_t *builder = line->builder;
    pleat_scan_t *scan = line->scan;
    pleat_scan_skip_blanks(scan);
    const char *place = scan->cursor;
    uint64_t pool = 0;
    const pleat_status_t status = pleat_scan_decimal(scan, "pool", &pool);
    if (status != PLEAT_OK) {
        return status;
    }
    const bool is_known = pleat_number_map_find(&builder->pools, pool) != PLEAT_NUMBER_MAP_NONE;
    if (pool == 0 || is_known == is_new) {
        return pleat_scan_fail(scan, place,
                               pool == 0 ? "pool %" PRIu64 "; pools are numbered from 1"
                               : is_new  ? "pool %" PRIu64 " exists; a number is never used twice"
                                         : "pool %" PRIu64 " needs a 'pool_create' before",
                               pool);
    }
    if (is_new && !pleat_number_map_set(&builder->pools, pool, 1)) {
        return pleat_session_builder_no_memory(builder);
    }
    line->call->pool = pool;
    return PLEAT_OK;
}

static pleat_status_t pleat_call_end(pleat_call_line_t *line)
{
    return pleat_scan_end(line->scan, line->form);
}

static pleat_status_t pleat_call_alloc(pleat_call_line_t *line)
{
    pleat_session_call_t *call = line->call;
    pleat_status_t status = pleat_call_scan_id(line, false, true);
    if (status == PLEAT_OK) {
        status = pleat_scan_size(line->scan, "size", &call->bytes);
    }
    if (status == PLEAT_OK) {
        status = pleat_session_scan_stream(line->builder, line->scan, &call->stream);
    }
    if (status != PLEAT_OK) {
        return status;
    }
    const pleat_text_t word = pleat_scan_word(line->scan);
    call->has_address = !pleat_text_is(word, "*");
    if (call->has_address && !pleat_text_to_hexadecimal(word, &call->address)) {
        return pleat_scan_fail(
            line->scan, word.start,
            "'%.*s' is no address: hexadecimal digits behind 0x are expected, or "
            "'*' for any",
            pleat_text_shown(word), word.start);
    }
    return pleat_call_end(line);
}

static pleat_status_t pleat_call_oom(pleat_call_line_t *line)
{
    pleat_status_t status = pleat_scan_size(line->scan, "size", &line->call->bytes);
    if (status == PLEAT_OK) {
        status = pleat_session_scan_stream(line->builder, line->scan, &line->call->stream);
    }
    return status != PLEAT_OK ? status : pleat_call_end(line);
}

static pleat_status_t pleat_call_free(pleat_call_line_t *line)
{
    const pleat_status_t status = pleat_call_scan_id(line, true, false);
    return status != PLEAT_OK ? status : pleat_call_end(line);
}

static pleat_status_t pleat_call_record(pleat_call_line_t *line)
{
    pleat_status_t status = pleat_call_scan_id(line, true, true);
    if (status == PLEAT_OK) {
        status = pleat_session_scan_stream(line->builder, line->scan, &line->call->stream);
    }
    return status != PLEAT_OK ? status : pleat_call_end(line);
}

static pleat_status_t pleat_call_stream(pleat_call_line_t *line)
{
    const pleat_status_t status =
        pleat_session_scan_stream(line->builder, line->scan, &line->call->stream);
    return status != PLEAT_OK ? status : pleat_call_end(line);
}

static pleat_status_t pleat_call_pool_create(pleat_call_line_t *line)
{
    const pleat_status_t status = pleat_call_scan_pool(line, true);
    if (status != PLEAT_OK) {
        return status;
    }
    for (pleat_text_t word = pleat_scan_word(line->scan); word.length > 0;
         word = pleat_scan_word(line->scan)) {
        if (pleat_text_is(word, "no_split")) {
            line->call->no_split = true;
        } else if (pleat_text_is(word, "use_on_oom")) {
            line->call->use_on_oom = true;
        } else {
            return pleat_scan_fail(line->scan, word.start,
                                   "unexpected '%.*s'; the line has the "
                                   "form '%s'",
                                   pleat_text_shown(word), word.start, line->form);
        }
    }
    return PLEAT_OK;
}

static pleat_status_t pleat_call_pool_begin(pleat_call_line_t *line)
{
    const pleat_status_t status = pleat_call_scan_pool(line, false);
    if (status != PLEAT_OK) {
        return status;
    }
    const pleat_text_t word = pleat_scan_word(line->scan);
    line->call->all_threads = pleat_text_is(word, "all");
    if (!line->call->all_threads && !pleat_text_is(word, "thread")) {
        return pleat_scan_fail(line->scan, word.start,
                               "'%.*s' is no filter: 'thread' or 'all' is expected",
                               pleat_text_shown(word), word.start);
    }
    return pleat_call_end(line);
}

static pleat_status_t pleat_call_pool(pleat_call_line_t *line)
{
    const pleat_status_t status = pleat_call_scan_pool(line, false);
    return status != PLEAT_OK ? status : pleat_call_end(line);
}

static pleat_status_t pleat_call_set(pleat_call_line_t *line)
{
    pleat_text_t text = pleat_scan_rest(line->scan);
    line->call->text_column = (uint64_t)(text.start - line->scan->begin) + 1;
    if (pleat_text_is(text, "-")) {
        text.length = 0; /* as in the header */
    }
    return pleat_session_builder_copy(line->builder, text, &line->call->text);
}

static pleat_status_t pleat_call_set_limit(pleat_call_line_t *line)
{
    const pleat_status_t status = pleat_scan_size(line->scan, "size", &line->call->bytes);
    return status != PLEAT_OK ? status : pleat_call_end(line);
}

static const struct {
    pleat_call_fn_t take;
    const char *form;
} call_table[PLEAT_SESSION_CALL_COUNT] = {
    [PLEAT_SESSION_ALLOC] = {pleat_call_alloc, "alloc ID BYTES STREAM ADDRESS"},
    [PLEAT_SESSION_OOM] = {pleat_call_oom, "oom BYTES STREAM"},
    [PLEAT_SESSION_FREE] = {pleat_call_free, "free ID"},
    [PLEAT_SESSION_RECORD] = {pleat_call_record, "record ID STREAM"},
    [PLEAT_SESSION_EMPTY] = {pleat_call_end, "empty"},
    [PLEAT_SESSION_SYNC] = {pleat_call_end, "sync"},
    [PLEAT_SESSION_RESET_PEAK] = {pleat_call_end, "reset_peak"},
    [PLEAT_SESSION_RESET_ACC] = {pleat_call_end, "reset_acc"},
    [PLEAT_SESSION_POOL_CREATE] = {pleat_call_pool_create,
                                   "pool_create POOL [no_split] [use_on_oom]"},
    [PLEAT_SESSION_POOL_BEGIN] = {pleat_call_pool_begin, "pool_begin POOL thread|all"},
    [PLEAT_SESSION_POOL_END] = {pleat_call_pool, "pool_end POOL"},
    [PLEAT_SESSION_POOL_RELEASE] = {pleat_call_pool, "pool_release POOL"},
    [PLEAT_SESSION_POOL_DELETE] = {pleat_call_pool, "pool_delete POOL"},
    [PLEAT_SESSION_SET] = {pleat_call_set, "set SETTINGS"},
    [PLEAT_SESSION_SNAPSHOT] = {pleat_call_end, "snapshot"},
    [PLEAT_SESSION_SET_LIMIT] = {pleat_call_set_limit, "set_limit BYTES"},
    [PLEAT_SESSION_BUSY] = {pleat_call_stream, "busy STREAM"},
    [PLEAT_SESSION_DONE] = {pleat_call_stream, "done STREAM"},
};

static pleat_session_call_kind_t pleat_call_kind(pleat_text_t word)
{
    int kind = 0;
    while (kind < PLEAT_SESSION_CALL_COUNT &&
           !pleat_text_is(word, pleat_session_call_word((pleat_session_call_kind_t)kind))) {
        kind++;
    }
    return (pleat_session_call_kind_t)kind;
}

pleat_status_t pleat_session_take_call(pleat_session_builder_t *builder, pleat_scan_t *scan,
                                       pleat_text_t word)
{
    const pleat_session_call_kind_t kind = pleat_call_kind(word);
    if (kind == PLEAT_SESSION_CALL_COUNT) {
        return pleat_scan_fail(
            scan, word.start,
            "unknown word '%.*s'; a call (such as alloc, free, record, empty, "
            "sync, set), a header line or, behind a blank, a line about the call "
            "above is expected",
            pleat_text_shown(word), word.start);
    }
    const pleat_status_t closed = pleat_session_builder_close_call(builder);
    if (closed != PLEAT_OK) {
        return closed;
    }
    if (builder->has_failed_call) {
        return pleat_scan_fail(scan, word.start, "a call behind ' error', which ends a recording");
    }
    if (builder->session->call_count == PLEAT_SESSION_CALLS_MAX) {
        return pleat_scan_fail(scan, word.start, "more than %" PRIu32 " calls, repeats unrolled",
                               PLEAT_SESSION_CALLS_MAX);
    }
    pleat_session_call_t *call = PLEAT_SESSION_APPEND(builder, call);
    if (call == NULL) {
        return pleat_session_builder_no_memory(builder);
    }
    call->kind = kind;
    call->line = scan->line;
    call->id = PLEAT_SESSION_NO_ID;
    pleat_call_line_t line = {
        .builder = builder, .scan = scan, .call = call, .form = call_table[kind].form};
    return call_table[kind].take(&line);
}
