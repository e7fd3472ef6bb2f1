/*
 * session_header: see session_header.h. One function a line, found through a table.
 */
#include "session_header.h"

#include "vmm/base.h"

#include <inttypes.h>
#include <pleat/sim.h>
#include <stdlib.h>
#include <string.h>

enum { FRACTION_CAPACITY = 64 };

typedef pleat_status_t (*pleat_header_fn_t)(pleat_session_builder_t *builder, pleat_scan_t *scan);

static pleat_status_t pleat_header_version(pleat_session_builder_t *builder, pleat_scan_t *scan)
{
    const pleat_text_t word = pleat_scan_word(scan);
    (void)builder;
    if (!pleat_text_is(word, "1")) {
        return pleat_scan_fail(scan, word.start, "version '%.*s' of the format; 1 can be read",
                               pleat_text_shown(word), word.start);
    }
    return pleat_scan_end(scan, "pleat-oracle 1");
}

static pleat_status_t pleat_header_recorded(pleat_session_builder_t *builder, pleat_scan_t *scan)
{
    builder->session->is_recording = true;
    return pleat_session_builder_copy(builder, pleat_scan_rest(scan), &builder->session->recorded);
}

static pleat_status_t pleat_header_settings(pleat_session_builder_t *builder, pleat_scan_t *scan)
{
    const pleat_text_t text = pleat_scan_rest(scan);
    if (text.length == 0) {
        return pleat_scan_fail(scan, text.start, "settings are missing; '-' stands for none");
    }
    if (pleat_text_is(text, "-")) {
        return PLEAT_OK;
    }
    builder->session->settings_place = (pleat_session_place_t){
        .line = scan->line, .column = (uint64_t)(text.start - scan->begin) + 1};
    return pleat_session_builder_copy(builder, text, &builder->session->settings);
}

static pleat_status_t pleat_header_total_memory(pleat_session_builder_t *builder,
                                                pleat_scan_t *scan)
{
    uint64_t *total_bytes = &builder->session->total_bytes;
    pleat_scan_t ahead = *scan;
    const pleat_text_t word = pleat_scan_word(&ahead);
    const pleat_status_t status = pleat_scan_size(scan, "size", total_bytes);
    if (status != PLEAT_OK) {
        return status;
    }
    if (*total_bytes == 0 || *total_bytes > PLEAT_SIM_MAX_CAPACITY_BYTES) {
        return pleat_scan_fail(scan, word.start,
                               "a device of '%.*s' bytes; 1 to %" PRIu64 " (64 TiB) are possible",
                               pleat_text_shown(word), word.start, PLEAT_SIM_MAX_CAPACITY_BYTES);
    }
    return pleat_scan_end(scan, "total_memory BYTES");
}

static pleat_status_t pleat_header_limit(pleat_session_builder_t *builder, pleat_scan_t *scan)
{
    pleat_session_t *session = builder->session;
    const pleat_status_t status = pleat_scan_size(scan, "size", &session->limit_bytes);
    session->has_limit = session->limit_bytes != 0;
    return status != PLEAT_OK ? status : pleat_scan_end(scan, "limit BYTES");
}

static pleat_status_t pleat_header_fraction(pleat_session_builder_t *builder, pleat_scan_t *scan)
{
    const pleat_text_t word = pleat_scan_word(scan);
    char digits[FRACTION_CAPACITY] = "";
    char *end = digits;
    double value = -1.0;
    if (word.length > 0 && word.length < sizeof(digits)) {
        memcpy(digits, word.start, word.length);
        value = strtod(digits, &end);
    }
    if ((size_t)(end - digits) != word.length || word.length == 0 ||
        !(value >= 0.0 && value <= 1.0)) {
        return pleat_scan_fail(scan, word.start,
                               "'%.*s' is no fraction: a number from 0 to 1 is "
                               "expected",
                               pleat_text_shown(word), word.start);
    }
    builder->session->fraction = value;
    return pleat_scan_end(scan, "fraction NUMBER");
}

static pleat_status_t pleat_header_streams(pleat_session_builder_t *builder, pleat_scan_t *scan)
{
    pleat_scan_skip_blanks(scan);
    const char *place = scan->cursor;
    uint64_t count = 0;
    const pleat_status_t status = pleat_scan_decimal(scan, "number of streams", &count);
    if (status != PLEAT_OK) {
        return status;
    }
    if (count == 0 || count > PLEAT_SESSION_STREAM_MAX + 1) {
        return pleat_scan_fail(scan, place, "%" PRIu64 " streams; 1 to 65536 are possible", count);
    }
    builder->session->stream_count = count;
    builder->has_stream_count = true;
    return pleat_scan_end(scan, "streams COUNT");
}

static pleat_status_t pleat_header_key(pleat_session_builder_t *builder, const pleat_scan_t *scan,
                                       pleat_text_t word)
{
    const pleat_session_t *session = builder->session;
    const pleat_status_t status = pleat_session_check_stat_name(scan, word);
    if (status != PLEAT_OK) {
        return status;
    }
    for (uint32_t i = 0; i < session->key_count; i++) {
        if (pleat_text_is(word, session->keys[i])) {
            return pleat_scan_fail(scan, word.start, "statistic '%.*s' is named twice",
                                   pleat_text_shown(word), word.start);
        }
    }
    const char **key = PLEAT_SESSION_APPEND(builder, key);
    if (key == NULL) {
        return pleat_session_builder_no_memory(builder);
    }
    return pleat_session_builder_copy(builder, word, key);
}

static pleat_status_t pleat_header_keys(pleat_session_builder_t *builder, pleat_scan_t *scan)
{
    pleat_session_t *session = builder->session;
    session->is_recording = true;
    for (pleat_text_t word = pleat_scan_word(scan); word.length > 0; word = pleat_scan_word(scan)) {
        const pleat_status_t status = pleat_header_key(builder, scan, word);
        if (status != PLEAT_OK) {
            return status;
        }
    }
    if (session->key_count == 0) {
        return pleat_scan_fail(scan, scan->end, "the names of the statistics are missing");
    }
    builder->key_lines = calloc(session->key_count, sizeof(*builder->key_lines));
    return builder->key_lines != NULL ? PLEAT_OK : pleat_session_builder_no_memory(builder);
}

static pleat_status_t pleat_header_base(pleat_session_builder_t *builder, pleat_scan_t *scan)
{
    pleat_session_t *session = builder->session;
    session->is_recording = true;
    session->base = calloc(session->key_count + 1u, sizeof(*session->base));
    if (session->base == NULL) {
        return pleat_session_builder_no_memory(builder);
    }
    for (uint32_t i = 0; i < session->key_count; i++) {
        const pleat_text_t word = pleat_scan_word(scan);
        if (!pleat_text_to_signed(word, &session->base[i])) {
            return pleat_scan_fail(scan, word.start,
                                   "'%.*s' is no value of '%s': as many whole numbers as 'keys' "
                                   "has names are expected",
                                   pleat_text_shown(word), word.start, session->keys[i]);
        }
    }
    return pleat_scan_end(scan, "base VALUE..., one for each of 'keys'");
}

static pleat_status_t pleat_header_mode(pleat_session_builder_t *builder, pleat_scan_t *scan)
{
    unsigned modes = 0;
    for (pleat_text_t word = pleat_scan_word(scan); word.length > 0; word = pleat_scan_word(scan)) {
        unsigned mode = 1;
        while (mode < PLEAT_SESSION_MODE_END &&
               !pleat_text_is(word, pleat_session_mode_word(mode))) {
            mode <<= 1;
        }
        if (mode == PLEAT_SESSION_MODE_END) {
            return pleat_scan_fail(scan, word.start,
                                   "unknown mode '%.*s'; modes are classic, torch_expandable and "
                                   "pleated",
                                   pleat_text_shown(word), word.start);
        }
        modes |= mode;
    }
    if (modes == 0) {
        return pleat_scan_fail(scan, scan->end,
                               "a mode is missing: classic, torch_expandable or "
                               "pleated");
    }
    builder->session->modes = modes;
    return PLEAT_OK;
}

enum { HEADER_VERSION, HEADER_LIMIT = 4, HEADER_KEYS = 6, HEADER_BASE };

static const struct {
    const char *word;
    pleat_header_fn_t take;
} header_table[] = {
    {"pleat-oracle", pleat_header_version},
    {"recorded", pleat_header_recorded},
    {"settings", pleat_header_settings},
    {"total_memory", pleat_header_total_memory},
    [HEADER_LIMIT] = {"limit", pleat_header_limit},
    {"fraction", pleat_header_fraction},
    [HEADER_KEYS] = {"keys", pleat_header_keys},
    [HEADER_BASE] = {"base", pleat_header_base},
    {"streams", pleat_header_streams},
    {"mode", pleat_header_mode},
};

enum { HEADER_COUNT = sizeof(header_table) / sizeof(header_table[0]) };

static unsigned pleat_header_index(pleat_text_t word)
{
    unsigned index = 0;
    while (index < HEADER_COUNT && !pleat_text_is(word, header_table[index].word)) {
        index++;
    }
    return index;
}

bool pleat_session_is_header_word(pleat_text_t word)
{
    return pleat_header_index(word) < HEADER_COUNT;
}

pleat_status_t pleat_session_take_header(pleat_session_builder_t *builder, pleat_scan_t *scan,
                                         pleat_text_t word)
{
    const unsigned index = pleat_header_index(word);
    PLEAT_ASSERT(index < HEADER_COUNT);
    const unsigned bit = 1u << index;
    if (builder->session->call_count > 0) {
        return pleat_scan_fail(scan, word.start,
                               "'%s' belongs to the header, before the first call",
                               header_table[index].word);
    }
    if ((builder->headers_seen & bit) != 0) {
        return pleat_scan_fail(scan, word.start, "a second line '%s'; it may stand only once",
                               header_table[index].word);
    }
    if (index == HEADER_VERSION && builder->headers_seen != 0) {
        return pleat_scan_fail(scan, word.start, "'pleat-oracle' must be the first line");
    }
    if (index == HEADER_BASE && (builder->headers_seen & 1u << HEADER_KEYS) == 0) {
        return pleat_scan_fail(scan, word.start, "'base' needs 'keys' before it");
    }
    builder->headers_seen |= bit;
    return header_table[index].take(builder, scan);
}

pleat_status_t pleat_session_end_header(pleat_session_builder_t *builder, const pleat_scan_t *scan)
{
    pleat_session_t *session = builder->session;
    const bool has_keys = (builder->headers_seen & 1u << HEADER_KEYS) != 0;
    const bool has_base = (builder->headers_seen & 1u << HEADER_BASE) != 0;
    if (has_keys && !has_base) {
        return pleat_scan_fail(scan, scan->begin, "the header has 'keys', but no 'base'");
    }
    if ((builder->headers_seen & 1u << HEADER_LIMIT) == 0 && session->fraction > 0.0) {
        session->limit_bytes = (uint64_t)(session->fraction * (double)session->total_bytes);
        session->has_limit = true;
    }
    return PLEAT_OK;
}
