/*
 * session_case: see session_case.h.
 */
#include "session_case.h"

#include "vmm/base.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_BYTES_MAX = 4096, NUMBER_BYTES_MAX = 24 };

void pleat_case_repeat_fini(pleat_case_repeat_t *repeat)
{
    free(repeat->text);
    free(repeat->lines);
    *repeat = (pleat_case_repeat_t){0};
}

/* --- sums in braces -------------------------------------------------------------------------- */

/* A number or `i` at the cursor. */
static bool pleat_sum_factor(pleat_text_t *rest, int64_t round, int64_t *value_out)
{
    if (rest->length > 0 && rest->start[0] == 'i') {
        rest->start++;
        rest->length--;
        *value_out = round;
        return true;
    }
    size_t digits = 0;
    while (digits < rest->length && rest->start[digits] >= '0' && rest->start[digits] <= '9') {
        digits++;
    }
    uint64_t value = 0;
    if (!pleat_text_to_decimal((pleat_text_t){.start = rest->start, .length = digits}, &value) ||
        value > (uint64_t)INT64_MAX) {
        return false;
    }
    rest->start += digits;
    rest->length -= digits;
    *value_out = (int64_t)value;
    return true;
}

static bool pleat_sum_term(pleat_text_t *rest, int64_t round, int64_t *value_out)
{
    int64_t product = 0;
    if (!pleat_sum_factor(rest, round, &product)) {
        return false;
    }
    while (rest->length > 0 && rest->start[0] == '*') {
        int64_t factor = 0;
        rest->start++;
        rest->length--;
        if (!pleat_sum_factor(rest, round, &factor) ||
            __builtin_mul_overflow(product, factor, &product)) {
            return false;
        }
    }
    *value_out = product;
    return true;
}

static bool pleat_sum_evaluate(pleat_text_t rest, int64_t round, int64_t *value_out)
{
    int64_t sum = 0;
    if (!pleat_sum_term(&rest, round, &sum)) {
        return false;
    }
    while (rest.length > 0) {
        const char sign = rest.start[0];
        int64_t term = 0;
        rest.start++;
        rest.length--;
        if ((sign != '+' && sign != '-') || !pleat_sum_term(&rest, round, &term)) {
            return false;
        }
        if (sign == '+' ? __builtin_add_overflow(sum, term, &sum)
                        : __builtin_sub_overflow(sum, term, &sum)) {
            return false;
        }
    }
    *value_out = sum;
    return true;
}

/* The number in the place of a brace; *length is how much of the line the brace takes. */
static pleat_status_t pleat_case_evaluate(const pleat_scan_t *scan, const char *brace,
                                          uint64_t round, int64_t *value_out, size_t *length_out)
{
    const char *close = memchr(brace, '}', (size_t)(scan->end - brace));
    if (close == NULL) {
        return pleat_scan_fail(scan, brace, "'{' without '}'");
    }
    const pleat_text_t sum = {.start = brace + 1, .length = (size_t)(close - brace) - 1};
    if (!pleat_sum_evaluate(sum, (int64_t)round, value_out)) {
        return pleat_scan_fail(scan, brace,
                               "'{%.*s}' is no sum: numbers and 'i' joined by '+', '-', '*', "
                               "without blanks, below 2^63, are expected",
                               pleat_text_shown(sum), sum.start);
    }
    if (*value_out < 0) {
        return pleat_scan_fail(
            scan, brace, "'{%.*s}' is %" PRId64 " in round %" PRIu64 "; it must not be negative",
            pleat_text_shown(sum), sum.start, *value_out, round);
    }
    *length_out = sum.length + 2;
    return PLEAT_OK;
}

/* Lines of free text, which braces may stand in. */
static bool pleat_case_is_literal(pleat_scan_t scan)
{
    static const char *const words[] = {"set", "expect_error", "settings", "recorded", "error"};
    const pleat_text_t word = pleat_scan_word(&scan);
    size_t index = 0;
    while (index < sizeof(words) / sizeof(words[0]) && !pleat_text_is(word, words[index])) {
        index++;
    }
    return index < sizeof(words) / sizeof(words[0]);
}

pleat_status_t pleat_case_expand(const pleat_scan_t *scan, uint64_t round, char *out,
                                 size_t capacity, size_t *length_out)
{
    const bool is_literal = pleat_case_is_literal(*scan);
    size_t length = 0;
    for (const char *cursor = scan->begin; cursor < scan->end;) {
        char number[NUMBER_BYTES_MAX];
        const char *piece = cursor;
        size_t piece_bytes = 1;
        size_t taken = 1;
        if (*cursor == '{' && !is_literal) {
            int64_t value = 0;
            const pleat_status_t status = pleat_case_evaluate(scan, cursor, round, &value, &taken);
            if (status != PLEAT_OK) {
                return status;
            }
            piece_bytes = (size_t)snprintf(number, sizeof(number), "%" PRId64, value);
            piece = number;
        }
        if (capacity - length < piece_bytes) {
            return pleat_scan_fail(scan, cursor,
                                   "a line of a repeat must not be longer than %zu "
                                   "bytes",
                                   capacity);
        }
        memcpy(out + length, piece, piece_bytes);
        length += piece_bytes;
        cursor += taken;
    }
    *length_out = length;
    return PLEAT_OK;
}

/* --- repeats --------------------------------------------------------------------------------- */

static pleat_status_t pleat_case_no_memory(const pleat_scan_t *scan)
{
    pleat_error_set("%s: no memory for the repeat", scan->file);
    return PLEAT_ERR_OOM_HOST;
}

static pleat_status_t pleat_case_open(pleat_case_repeat_t *repeat, pleat_scan_t *scan)
{
    pleat_scan_skip_blanks(scan);
    const char *place = scan->cursor;
    uint64_t rounds = 0;
    pleat_status_t status = pleat_scan_decimal(scan, "number of rounds", &rounds);
    if (status == PLEAT_OK) {
        status = pleat_scan_end(scan, "repeat ROUNDS");
    }
    if (status != PLEAT_OK) {
        return status;
    }
    if (rounds == 0 || rounds > PLEAT_SESSION_ROUNDS_MAX) {
        return pleat_scan_fail(scan, place, "%" PRIu64 " rounds; 1 to %u are possible", rounds,
                               PLEAT_SESSION_ROUNDS_MAX);
    }
    repeat->is_open = true;
    repeat->line = scan->line;
    repeat->rounds = rounds;
    repeat->text_bytes = 0;
    repeat->line_count = 0;
    return PLEAT_OK;
}

static pleat_status_t pleat_case_keep(pleat_case_repeat_t *repeat, const pleat_scan_t *scan)
{
    const size_t length = (size_t)(scan->end - scan->begin);
    if (repeat->text_capacity - repeat->text_bytes < length) {
        const size_t capacity = 2 * (repeat->text_capacity + length);
        char *text = realloc(repeat->text, capacity);
        if (text == NULL) {
            return pleat_case_no_memory(scan);
        }
        repeat->text = text;
        repeat->text_capacity = capacity;
    }
    if (repeat->line_count == repeat->line_capacity) {
        const size_t capacity = 2 * repeat->line_capacity + 16;
        pleat_case_line_t *lines = realloc(repeat->lines, capacity * sizeof(*lines));
        if (lines == NULL) {
            return pleat_case_no_memory(scan);
        }
        repeat->lines = lines;
        repeat->line_capacity = capacity;
    }
    memcpy(repeat->text + repeat->text_bytes, scan->begin, length);
    repeat->lines[repeat->line_count++] =
        (pleat_case_line_t){.number = scan->line, .start = repeat->text_bytes, .length = length};
    repeat->text_bytes += length;
    return PLEAT_OK;
}

static pleat_status_t pleat_case_give_line(const pleat_case_repeat_t *repeat, size_t index,
                                           uint64_t round, const char *file,
                                           pleat_case_line_fn_t take, void *context)
{
    char expanded[LINE_BYTES_MAX];
    const pleat_case_line_t *line = &repeat->lines[index];
    const pleat_input_line_t kept = {
        .text = repeat->text + line->start, .length = line->length, .number = line->number};
    const pleat_scan_t scan = pleat_scan_line(file, &kept);
    size_t length = 0;
    const pleat_status_t status =
        pleat_case_expand(&scan, round, expanded, sizeof(expanded), &length);
    if (status != PLEAT_OK) {
        return status;
    }
    const pleat_input_line_t made = {.text = expanded, .length = length, .number = line->number};
    pleat_scan_t made_scan = pleat_scan_line(file, &made);
    return take(context, &made_scan);
}

static pleat_status_t pleat_case_close(pleat_case_repeat_t *repeat, pleat_scan_t *scan,
                                       pleat_case_line_fn_t take, void *context)
{
    pleat_status_t status = pleat_scan_end(scan, "end_repeat");
    if (status == PLEAT_OK && repeat->line_count == 0) {
        status = pleat_scan_fail(scan, scan->begin, "a repeat without lines between");
    }
    repeat->is_open = false;
    for (uint64_t round = 0; round < repeat->rounds && status == PLEAT_OK; round++) {
        for (size_t i = 0; i < repeat->line_count && status == PLEAT_OK; i++) {
            status = pleat_case_give_line(repeat, i, round, scan->file, take, context);
        }
    }
    return status;
}

pleat_status_t pleat_case_take_line(pleat_case_repeat_t *repeat, pleat_scan_t *scan,
                                    pleat_case_line_fn_t take, void *context)
{
    pleat_scan_t ahead = *scan;
    const pleat_text_t word = pleat_scan_word(&ahead);
    if (pleat_text_is(word, "repeat")) {
        if (repeat->is_open) {
            return pleat_scan_fail(
                scan, word.start,
                "a repeat inside the one of line %" PRIu64 "; they are not nested", repeat->line);
        }
        return pleat_case_open(repeat, &ahead);
    }
    if (pleat_text_is(word, "end_repeat")) {
        if (!repeat->is_open) {
            return pleat_scan_fail(scan, word.start, "'end_repeat' without 'repeat'");
        }
        return pleat_case_close(repeat, &ahead, take, context);
    }
    if (repeat->is_open) {
        return pleat_case_keep(repeat, scan);
    }
    const char *brace = memchr(scan->begin, '{', (size_t)(scan->end - scan->begin));
    if (brace != NULL && !pleat_case_is_literal(*scan)) {
        return pleat_scan_fail(scan, brace,
                               "'{': braces have a meaning only between 'repeat' and "
                               "'end_repeat'");
    }
    return take(context, scan);
}
