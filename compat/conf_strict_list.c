/*
 * conf_strict_list: the list form of roundup_power2_divisions (conf_strict_reader.h).
 *
 * Intervals rise and '>' comes last, so every entry of the table has one meaning; entries between
 * two intervals stay 0 as in PyTorch and are noted for a warning. No state outside a reader, no
 * lock.
 */
#include "conf_strict_reader.h"

#include "vmm/base.h"

#include <string.h>

/* Progress within a round-up list. */
typedef struct strict_list {
    pleat_conf_list_t rules;
    uint64_t interval_mb; /* the one before, 0 without one */
    bool has_rest;
} strict_list_t;

static bool strict_read_list_number(pleat_strict_reader_t *reader, const pleat_strict_word_t *word,
                                    const char *what, uint64_t *number_out)
{
    if (!pleat_strict_is_digits(word)) {
        return pleat_strict_fail(reader, word->column, "%s is no whole number; %s",
                                 pleat_strict_quote(word->bytes, word->byte_count).text, what);
    }
    return pleat_strict_to_number(word, number_out) ||
           pleat_strict_fail(reader, word->column, "%s is too large (beyond 64 bits); %s",
                             pleat_strict_quote(word->bytes, word->byte_count).text, what);
}

static bool strict_read_interval(pleat_strict_reader_t *reader, strict_list_t *list,
                                 const pleat_strict_word_t *word, uint64_t *interval_mb)
{
    const pleat_strict_quoted_t quoted = pleat_strict_quote(word->bytes, word->byte_count);
    if (list->has_rest) {
        return pleat_strict_fail(reader, word->column,
                                 "'>' must be the last interval; %s follows it", quoted.text);
    }
    if (word->byte_count == 1 && word->bytes[0] == '>') {
        list->has_rest = true;
        return true;
    }
    if (!strict_read_list_number(reader, word, "an interval is a power of two, in MB, or '>'",
                                 interval_mb)) {
        return false;
    }
    if (!pleat_is_power_of_two(*interval_mb)) {
        return pleat_strict_fail(reader, word->column,
                                 "the interval %s must be a power of two, in MB, or '>'",
                                 quoted.text);
    }
    if (*interval_mb <= list->interval_mb) {
        return pleat_strict_fail(reader, word->column,
                                 "the interval %s must be above the one before, %llu", quoted.text,
                                 (unsigned long long)list->interval_mb);
    }
    list->interval_mb = *interval_mb;
    return true;
}

/* One `interval:divisions`; the next byte is no comma, no bracket and not the end. */
static bool strict_read_pair(pleat_strict_reader_t *reader, strict_list_t *list)
{
    static const char what[] = "divisions are 0 or a power of two";
    pleat_strict_word_t interval;
    pleat_strict_word_t word;
    uint64_t interval_mb = 0;
    uint64_t divisions = 0;
    if (!pleat_strict_read_word(reader, false, &interval) ||
        !strict_read_interval(reader, list, &interval, &interval_mb)) {
        return false;
    }
    if (reader->text[reader->position] != ':') {
        return pleat_strict_fail(reader, interval.column,
                                 "behind the interval %s belong ':' and the divisions",
                                 pleat_strict_quote(interval.bytes, interval.byte_count).text);
    }
    reader->position++;
    const char next = pleat_strict_peek(reader);
    if (pleat_strict_is_mark(next)) {
        return pleat_strict_fail(reader, pleat_strict_column(reader),
                                 "'%c' where the divisions of the interval %s are expected; %s",
                                 next, pleat_strict_quote(interval.bytes, interval.byte_count).text,
                                 what);
    }
    if (!pleat_strict_read_word(reader, false, &word) ||
        !strict_read_list_number(reader, &word, what, &divisions)) {
        return false;
    }
    if (divisions != 0 && !pleat_is_power_of_two(divisions)) {
        return pleat_strict_fail(reader, word.column,
                                 "the divisions %s must be 0 or a power of two",
                                 pleat_strict_quote(word.bytes, word.byte_count).text);
    }
    if (list->has_rest) {
        pleat_conf_list_rest(&list->rules, divisions);
    } else {
        pleat_conf_list_interval(&list->rules, interval_mb, divisions);
    }
    return true;
}

/* What may follow a pair: the closing bracket, or a comma and another pair. */
static bool strict_read_list_comma(pleat_strict_reader_t *reader)
{
    const size_t column = pleat_strict_column(reader);
    if (reader->text[reader->position] != ',') {
        return pleat_strict_fail(reader, column,
                                 "',' is missing: in a list it stands between intervals");
    }
    reader->position++;
    const char next = pleat_strict_peek(reader);
    if (next == ',' || next == ']') {
        return pleat_strict_fail(reader, next == ',' ? pleat_strict_column(reader) : column,
                                 "empty item in a list; remove the ','");
    }
    return true;
}

bool pleat_strict_read_list(pleat_strict_reader_t *reader, pleat_conf_option_t option)
{
    const char *key = pleat_conf_keys[option].key;
    const size_t column = pleat_strict_column(reader);
    strict_list_t list = {.rules = {.table = reader->conf->roundup_power2_divisions}};
    if (strchr(reader->text + reader->position, ']') == NULL) {
        return pleat_strict_fail(reader, column, "']' is missing: the list of '%s' is not closed",
                                 key);
    }
    reader->position++;
    char next = pleat_strict_peek(reader);
    if (next == ']') {
        return pleat_strict_fail(reader, column, "empty list; '%s' takes %s", key,
                                 pleat_strict_allowed(reader, option).text);
    }
    if (next == ',') {
        return pleat_strict_fail(reader, pleat_strict_column(reader),
                                 "empty item in a list; remove the ','");
    }
    pleat_conf_reset(reader->conf, option);
    while (next != ']') {
        if (next == ':' || next == '[') {
            return pleat_strict_fail(
                reader, pleat_strict_column(reader),
                "'%c' where an interval is expected: a power of two, in MB, or '>'", next);
        }
        if (!strict_read_pair(reader, &list)) {
            return false;
        }
        next = pleat_strict_peek(reader);
        if (next != ']') {
            if (!strict_read_list_comma(reader)) {
                return false;
            }
            next = pleat_strict_peek(reader);
        }
    }
    reader->position++;
    reader->uncovered = ~list.rules.covered & ((UINT32_C(1) << PLEAT_ROUNDUP_ENTRIES) - 1);
    reader->conf->settings[option].source = reader->source;
    return true;
}
