/*
 * session_detail: see session_detail.h. One function a kind of line, found through a table.
 */
#include "session_detail.h"

#include "vmm/base.h"

#include <inttypes.h>
#include <string.h>

typedef pleat_status_t (*pleat_detail_fn_t)(pleat_session_builder_t *builder, pleat_scan_t *scan,
                                            pleat_session_call_t *call);

/* --- statistics and expectations ------------------------------------------------------------- */

/* `I=V` as two numbers. */
static bool pleat_detail_split_change(pleat_text_t word, uint64_t *key_out, int64_t *value_out)
{
    const char *sign = memchr(word.start, '=', word.length);
    if (sign == NULL) {
        return false;
    }
    const pleat_text_t key = {.start = word.start, .length = (size_t)(sign - word.start)};
    const pleat_text_t value = {.start = sign + 1, .length = word.length - key.length - 1};
    return pleat_text_to_decimal(key, key_out) && pleat_text_to_signed(value, value_out);
}

static pleat_status_t pleat_detail_stats(pleat_session_builder_t *builder, pleat_scan_t *scan,
                                         pleat_session_call_t *call)
{
    const uint32_t key_count = builder->session->key_count;
    if (key_count == 0) {
        return pleat_scan_fail(scan, scan->begin, "' stats' needs 'keys' in the header");
    }
    if (call->has_stats) {
        return pleat_scan_fail(scan, scan->begin, "a second line ' stats' for one call");
    }
    call->has_stats = true;
    builder->stats_lines++;
    for (pleat_text_t word = pleat_scan_word(scan); word.length > 0; word = pleat_scan_word(scan)) {
        uint64_t key = 0;
        int64_t value = 0;
        if (!pleat_detail_split_change(word, &key, &value)) {
            return pleat_scan_fail(scan, word.start,
                                   "'%.*s' has not the form INDEX=VALUE with whole numbers",
                                   pleat_text_shown(word), word.start);
        }
        if (key >= key_count) {
            return pleat_scan_fail(scan, word.start,
                                   "index %" PRIu64 ", but 'keys' has %" PRIu32
                                   " names, counted from 0",
                                   key, key_count);
        }
        if (builder->key_lines[key] == builder->stats_lines) {
            return pleat_scan_fail(scan, word.start, "index %" PRIu64 " ('%s') twice in one line",
                                   key, builder->session->keys[key]);
        }
        builder->key_lines[key] = builder->stats_lines;
        const uint32_t count_before = builder->session->change_count;
        pleat_session_change_t *change = PLEAT_SESSION_APPEND(builder, change);
        if (change == NULL) {
            return pleat_session_builder_no_memory(builder);
        }
        *change = (pleat_session_change_t){.key = (uint32_t)key, .value = value};
        pleat_session_range_extend(&call->changes, count_before);
    }
    return PLEAT_OK;
}

/* Take an expectation apart; false if it has not the form KEY=VALUE, KEY<=VALUE or KEY>=VALUE. */
static bool pleat_detail_split_expect(pleat_text_t word, pleat_text_t *key_out,
                                      pleat_session_expect_t *expect)
{
    const char *sign = memchr(word.start, '=', word.length);
    if (sign == NULL || sign == word.start) {
        return false;
    }
    pleat_text_t key = {.start = word.start, .length = (size_t)(sign - word.start)};
    const pleat_text_t value = {.start = sign + 1, .length = word.length - key.length - 1};
    const char before = sign[-1];
    expect->relation = before == '<'   ? PLEAT_SESSION_AT_MOST
                       : before == '>' ? PLEAT_SESSION_AT_LEAST
                                       : PLEAT_SESSION_EQUAL;
    key.length -= expect->relation == PLEAT_SESSION_EQUAL ? 0 : 1;
    *key_out = key;
    return key.length > 0 && pleat_text_to_signed(value, &expect->value);
}

static pleat_status_t pleat_detail_expect(pleat_session_builder_t *builder, pleat_scan_t *scan,
                                          pleat_session_call_t *call)
{
    uint32_t taken = 0;
    for (pleat_text_t word = pleat_scan_word(scan); word.length > 0; word = pleat_scan_word(scan)) {
        pleat_text_t key = {0};
        pleat_session_expect_t expect = {.line = scan->line};
        if (!pleat_detail_split_expect(word, &key, &expect)) {
            return pleat_scan_fail(scan, word.start,
                                   "'%.*s' has not the form KEY=VALUE, KEY<=VALUE or KEY>=VALUE "
                                   "with a whole number, KiB, MiB or GiB behind it or nothing",
                                   pleat_text_shown(word), word.start);
        }
        pleat_status_t status = pleat_session_check_stat_name(scan, key);
        if (status != PLEAT_OK) {
            return status;
        }
        const uint32_t count_before = builder->session->expect_count;
        pleat_session_expect_t *item = PLEAT_SESSION_APPEND(builder, expect);
        if (item == NULL) {
            return pleat_session_builder_no_memory(builder);
        }
        expect.key = "";
        *item = expect;
        pleat_session_range_extend(&call->expects, count_before);
        status = pleat_session_builder_copy(builder, key, &item->key);
        if (status != PLEAT_OK) {
            return status;
        }
        taken++;
    }
    if (taken == 0) {
        return pleat_scan_fail(scan, scan->end,
                               "an expectation is missing, such as "
                               "num_ooms=0");
    }
    return PLEAT_OK;
}

static pleat_status_t pleat_detail_expect_error(pleat_session_builder_t *builder,
                                                pleat_scan_t *scan, pleat_session_call_t *call)
{
    const pleat_text_t text = pleat_scan_rest(scan);
    if (text.length == 0) {
        return pleat_scan_fail(scan, text.start, "the text that the error contains is missing");
    }
    const uint32_t count_before = builder->session->expect_error_count;
    pleat_session_expect_error_t *item = PLEAT_SESSION_APPEND(builder, expect_error);
    if (item == NULL) {
        return pleat_session_builder_no_memory(builder);
    }
    item->line = scan->line;
    item->text = "";
    pleat_session_range_extend(&call->expect_errors, count_before);
    return pleat_session_builder_copy(builder, text, &item->text);
}

static pleat_status_t pleat_detail_error(pleat_session_builder_t *builder, pleat_scan_t *scan,
                                         pleat_session_call_t *call)
{
    builder->has_failed_call = true;
    return pleat_session_builder_copy(builder, pleat_scan_rest(scan), &call->error_text);
}

/* --- events ---------------------------------------------------------------------------------- */

static pleat_status_t pleat_detail_take_event(pleat_session_builder_t *builder, pleat_scan_t *scan,
                                              pleat_session_call_t *call, pleat_action_t action)
{
    pleat_session_event_t event = {.action = action};
    pleat_status_t status = pleat_scan_hexadecimal(scan, "address", &event.address);
    if (status == PLEAT_OK) {
        status = pleat_scan_decimal(scan, "size", &event.bytes);
    }
    if (status == PLEAT_OK) {
        status = pleat_session_scan_stream(builder, scan, &event.stream);
    }
    if (status == PLEAT_OK) {
        status = pleat_scan_end(scan, "EVENT ADDRESS BYTES STREAM");
    }
    if (status != PLEAT_OK) {
        return status;
    }
    const uint32_t count_before = builder->session->event_count;
    pleat_session_event_t *item = PLEAT_SESSION_APPEND(builder, event);
    if (item == NULL) {
        return pleat_session_builder_no_memory(builder);
    }
    *item = event;
    pleat_session_range_extend(&call->events, count_before);
    return PLEAT_OK;
}

static pleat_status_t pleat_detail_segment_alloc(pleat_session_builder_t *builder,
                                                 pleat_scan_t *scan, pleat_session_call_t *call)
{
    return pleat_detail_take_event(builder, scan, call, PLEAT_ACTION_SEGMENT_ALLOC);
}

static pleat_status_t pleat_detail_segment_free(pleat_session_builder_t *builder,
                                                pleat_scan_t *scan, pleat_session_call_t *call)
{
    return pleat_detail_take_event(builder, scan, call, PLEAT_ACTION_SEGMENT_FREE);
}

static pleat_status_t pleat_detail_segment_map(pleat_session_builder_t *builder, pleat_scan_t *scan,
                                               pleat_session_call_t *call)
{
    return pleat_detail_take_event(builder, scan, call, PLEAT_ACTION_SEGMENT_MAP);
}

static pleat_status_t pleat_detail_segment_unmap(pleat_session_builder_t *builder,
                                                 pleat_scan_t *scan, pleat_session_call_t *call)
{
    return pleat_detail_take_event(builder, scan, call, PLEAT_ACTION_SEGMENT_UNMAP);
}

static pleat_status_t pleat_detail_free_completed(pleat_session_builder_t *builder,
                                                  pleat_scan_t *scan, pleat_session_call_t *call)
{
    return pleat_detail_take_event(builder, scan, call, PLEAT_ACTION_FREE_COMPLETED);
}

/* --- orders of deferred frees and freeable pools --------------------------------------------- */

static pleat_status_t pleat_detail_add_number(pleat_session_builder_t *builder,
                                              pleat_session_range_t *range, uint64_t number)
{
    const uint32_t count_before = builder->session->number_count;
    uint64_t *item = PLEAT_SESSION_APPEND(builder, number);
    if (item == NULL) {
        return pleat_session_builder_no_memory(builder);
    }
    *item = number;
    pleat_session_range_extend(range, count_before);
    return PLEAT_OK;
}

/* Note that this line of orders names something; it may do so once. */
static pleat_status_t pleat_detail_name_once(pleat_session_builder_t *builder,
                                             const pleat_scan_t *scan, pleat_number_map_t *named,
                                             uint64_t key, pleat_text_t word)
{
    if (pleat_number_map_find(named, key) == builder->order_lines) {
        return pleat_scan_fail(scan, word.start, "'%.*s' twice in one line", pleat_text_shown(word),
                               word.start);
    }
    return pleat_number_map_set(named, key, builder->order_lines)
               ? PLEAT_OK
               : pleat_session_builder_no_memory(builder);
}

/* A word of a line of orders as an id: freed, and below ` stale` named by ` deferred`. */
static pleat_status_t pleat_detail_take_id(pleat_session_builder_t *builder,
                                           const pleat_scan_t *scan,
                                           const pleat_session_call_t *call, pleat_text_t word,
                                           uint32_t *id_out)
{
    const bool is_stale = builder->deferred_line != builder->order_lines;
    const uint32_t id = pleat_name_table_find(&builder->ids, word);
    if (id == PLEAT_NAME_NONE) {
        return pleat_scan_fail(scan, word.start, "id '%.*s' was never allocated",
                               pleat_text_shown(word), word.start);
    }
    if (builder->live[id]) {
        return pleat_scan_fail(scan, word.start,
                               "id '%.*s' is still allocated; what is named here was freed before",
                               pleat_text_shown(word), word.start);
    }
    if (is_stale &&
        (call->deferred.count == 0 ||
         pleat_number_map_find(&builder->named_ids, UINT64_C(2) * id) != builder->deferred_line)) {
        return pleat_scan_fail(scan, word.start,
                               "id '%.*s' is not named by a line ' deferred' of this call, above",
                               pleat_text_shown(word), word.start);
    }
    *id_out = id;
    return pleat_detail_name_once(builder, scan, &builder->named_ids,
                                  UINT64_C(2) * id + (is_stale ? 1 : 0), word);
}

static pleat_status_t pleat_detail_take_ids(pleat_session_builder_t *builder, pleat_scan_t *scan,
                                            const pleat_session_call_t *call,
                                            pleat_session_range_t *range)
{
    if (range->count > 0) {
        return pleat_scan_fail(scan, scan->begin, "a second line of this kind for one call");
    }
    for (pleat_text_t word = pleat_scan_word(scan); word.length > 0; word = pleat_scan_word(scan)) {
        uint32_t id = 0;
        pleat_status_t status = pleat_detail_take_id(builder, scan, call, word, &id);
        if (status == PLEAT_OK) {
            status = pleat_detail_add_number(builder, range, id);
        }
        if (status != PLEAT_OK) {
            return status;
        }
    }
    return PLEAT_OK;
}

static pleat_status_t pleat_detail_deferred(pleat_session_builder_t *builder, pleat_scan_t *scan,
                                            pleat_session_call_t *call)
{
    builder->deferred_line = ++builder->order_lines;
    return pleat_detail_take_ids(builder, scan, call, &call->deferred);
}

static pleat_status_t pleat_detail_stale(pleat_session_builder_t *builder, pleat_scan_t *scan,
                                         pleat_session_call_t *call)
{
    builder->order_lines++;
    return pleat_detail_take_ids(builder, scan, call, &call->stale);
}

static pleat_status_t pleat_detail_freeable(pleat_session_builder_t *builder, pleat_scan_t *scan,
                                            pleat_session_call_t *call)
{
    if (call->freeable.count > 0) {
        return pleat_scan_fail(scan, scan->begin, "a second line ' freeable' for one call");
    }
    builder->order_lines++;
    for (pleat_text_t word = pleat_scan_word(scan); word.length > 0; word = pleat_scan_word(scan)) {
        uint64_t pool = 0;
        if (!pleat_text_to_decimal(word, &pool) ||
            pleat_number_map_find(&builder->pools, pool) == PLEAT_NUMBER_MAP_NONE) {
            return pleat_scan_fail(scan, word.start,
                                   "'%.*s' is no pool that a 'pool_create' before has made",
                                   pleat_text_shown(word), word.start);
        }
        pleat_status_t status =
            pleat_detail_name_once(builder, scan, &builder->named_pools, pool, word);
        if (status == PLEAT_OK) {
            status = pleat_detail_add_number(builder, &call->freeable, pool);
        }
        if (status != PLEAT_OK) {
            return status;
        }
    }
    return PLEAT_OK;
}

/* --- segments and blocks --------------------------------------------------------------------- */

/* The next word has the form NAME=NUMBER. */
static pleat_status_t pleat_detail_scan_named(pleat_scan_t *scan, const char *name,
                                              uint64_t *value_out)
{
    const pleat_text_t word = pleat_scan_word(scan);
    const size_t name_length = strlen(name);
    if (word.length > name_length && memcmp(word.start, name, name_length) == 0 &&
        word.start[name_length] == '=') {
        const pleat_text_t value = {.start = word.start + name_length + 1,
                                    .length = word.length - name_length - 1};
        if (pleat_text_to_decimal(value, value_out)) {
            return PLEAT_OK;
        }
    }
    return pleat_scan_fail(scan, word.start, "'%.*s': %s=NUMBER is expected here",
                           pleat_text_shown(word), word.start, name);
}

/* The next word is one of two; *second_out tells which. */
static pleat_status_t pleat_detail_scan_choice(pleat_scan_t *scan, const char *first,
                                               const char *second, bool *second_out)
{
    const pleat_text_t word = pleat_scan_word(scan);
    *second_out = pleat_text_is(word, second);
    if (!*second_out && !pleat_text_is(word, first)) {
        return pleat_scan_fail(scan, word.start, "'%.*s': '%s' or '%s' is expected here",
                               pleat_text_shown(word), word.start, first, second);
    }
    return PLEAT_OK;
}

static pleat_status_t pleat_detail_scan_segment(pleat_session_builder_t *builder,
                                                pleat_scan_t *scan,
                                                pleat_session_segment_t *segment)
{
    pleat_segment_info_t *info = &segment->info;
    bool is_large = false;
    pleat_status_t status = pleat_scan_hexadecimal(scan, "address", &info->address);
    if (status == PLEAT_OK) {
        status = pleat_scan_decimal(scan, "size", &info->total_bytes);
    }
    if (status == PLEAT_OK) {
        status = pleat_session_scan_stream(builder, scan, &info->stream);
    }
    if (status == PLEAT_OK) {
        status = pleat_detail_scan_choice(scan, "small", "large", &is_large);
    }
    if (status == PLEAT_OK) {
        status = pleat_detail_scan_choice(scan, "plain", "expandable", &info->is_expandable);
    }
    if (status == PLEAT_OK) {
        status = pleat_detail_scan_named(scan, "allocated", &info->allocated_bytes);
    }
    if (status == PLEAT_OK) {
        status = pleat_detail_scan_named(scan, "active", &info->active_bytes);
    }
    if (status == PLEAT_OK) {
        status = pleat_detail_scan_named(scan, "requested", &info->requested_bytes);
    }
    info->is_small = !is_large;
    pleat_scan_skip_blanks(scan);
    if (status == PLEAT_OK && scan->cursor < scan->end) {
        status = pleat_detail_scan_named(scan, "pool", &segment->pool);
    }
    if (status != PLEAT_OK) {
        return status;
    }
    return pleat_scan_end(scan, "segment ADDRESS BYTES STREAM small|large plain|expandable "
                                "allocated=N active=N requested=N [pool=POOL]");
}

static pleat_status_t pleat_detail_segment(pleat_session_builder_t *builder, pleat_scan_t *scan,
                                           pleat_session_call_t *call)
{
    pleat_session_t *session = builder->session;
    pleat_session_segment_t segment = {0};
    if (!builder->is_ended && (call == NULL || call->kind != PLEAT_SESSION_SNAPSHOT)) {
        return pleat_scan_fail(scan, scan->begin,
                               "a segment belongs below 'snapshot' or behind 'end'");
    }
    const pleat_status_t status = pleat_detail_scan_segment(builder, scan, &segment);
    if (status != PLEAT_OK) {
        return status;
    }
    segment.line = scan->line;
    segment.info.first_block = session->block_count;
    const uint32_t count_before = session->segment_count;
    pleat_session_segment_t *item = PLEAT_SESSION_APPEND(builder, segment);
    if (item == NULL) {
        return pleat_session_builder_no_memory(builder);
    }
    *item = segment;
    session->has_end_state = builder->is_ended;
    pleat_session_range_extend(builder->is_ended ? &session->end_segments : &call->segments,
                               count_before);
    return PLEAT_OK;
}

static pleat_status_t pleat_detail_scan_state(pleat_scan_t *scan, pleat_block_state_t *state_out)
{
    const pleat_text_t word = pleat_scan_word(scan);
    if (pleat_text_is(word, "active_allocated")) {
        *state_out = PLEAT_BLOCK_ALLOCATED;
    } else if (pleat_text_is(word, "active_pending_free")) {
        *state_out = PLEAT_BLOCK_PENDING_FREE;
    } else if (pleat_text_is(word, "inactive")) {
        *state_out = PLEAT_BLOCK_INACTIVE;
    } else {
        return pleat_scan_fail(scan, word.start,
                               "'%.*s' is no state of a block: active_allocated, "
                               "active_pending_free or inactive is expected",
                               pleat_text_shown(word), word.start);
    }
    return PLEAT_OK;
}

static pleat_status_t pleat_detail_block(pleat_session_builder_t *builder, pleat_scan_t *scan,
                                         pleat_session_call_t *call)
{
    pleat_session_t *session = builder->session;
    const uint32_t segment_count =
        builder->is_ended ? session->end_segments.count : (call != NULL ? call->segments.count : 0);
    if (segment_count == 0) {
        return pleat_scan_fail(scan, scan->begin, "a block belongs below a segment");
    }
    pleat_block_info_t block = {0};
    pleat_status_t status = pleat_scan_hexadecimal(scan, "address", &block.address);
    if (status == PLEAT_OK) {
        status = pleat_scan_decimal(scan, "size", &block.bytes);
    }
    if (status == PLEAT_OK) {
        status = pleat_detail_scan_named(scan, "requested", &block.requested_bytes);
    }
    if (status == PLEAT_OK) {
        status = pleat_detail_scan_state(scan, &block.state);
    }
    if (status == PLEAT_OK) {
        status = pleat_scan_end(scan, "block ADDRESS BYTES requested=N STATE");
    }
    if (status != PLEAT_OK) {
        return status;
    }
    pleat_session_block_t *item = PLEAT_SESSION_APPEND(builder, block);
    if (item == NULL) {
        return pleat_session_builder_no_memory(builder);
    }
    *item = (pleat_session_block_t){.info = block, .line = scan->line};
    session->segments[session->segment_count - 1].info.block_count++;
    return PLEAT_OK;
}

/* --- choice ---------------------------------------------------------------------------------- */

static const struct {
    const char *word;
    pleat_detail_fn_t take;
    bool is_state; /* may stand behind `end`, where there is no call */
} detail_table[] = {
    {"stats", pleat_detail_stats, false},
    {"free_completed", pleat_detail_free_completed, false},
    {"segment_alloc", pleat_detail_segment_alloc, false},
    {"segment_free", pleat_detail_segment_free, false},
    {"segment_map", pleat_detail_segment_map, false},
    {"segment_unmap", pleat_detail_segment_unmap, false},
    {"expect", pleat_detail_expect, false},
    {"expect_error", pleat_detail_expect_error, false},
    {"deferred", pleat_detail_deferred, false},
    {"stale", pleat_detail_stale, false},
    {"freeable", pleat_detail_freeable, false},
    {"error", pleat_detail_error, false},
    {"segment", pleat_detail_segment, true},
    {"block", pleat_detail_block, true},
};

enum { DETAIL_COUNT = sizeof(detail_table) / sizeof(detail_table[0]) };

pleat_status_t pleat_session_take_detail(pleat_session_builder_t *builder, pleat_scan_t *scan)
{
    const pleat_text_t word = pleat_scan_word(scan);
    pleat_session_call_t *call = pleat_session_builder_last_call(builder);
    size_t index = 0;
    while (index < DETAIL_COUNT && !pleat_text_is(word, detail_table[index].word)) {
        index++;
    }
    if (index == DETAIL_COUNT) {
        return pleat_scan_fail(scan, word.start,
                               "unknown word '%.*s'; behind a blank stand events (segment_alloc, "
                               "segment_free, segment_map, segment_unmap, free_completed), stats, "
                               "expect, expect_error, deferred, stale, freeable, error, segment or "
                               "block",
                               pleat_text_shown(word), word.start);
    }
    if (builder->is_ended && !detail_table[index].is_state) {
        return pleat_scan_fail(scan, word.start,
                               "'%s' behind 'end'; only segments and blocks may "
                               "follow it",
                               detail_table[index].word);
    }
    if (!builder->is_ended && call == NULL) {
        return pleat_scan_fail(scan, word.start, "'%s' before the first call",
                               detail_table[index].word);
    }
    return detail_table[index].take(builder, scan, call);
}
