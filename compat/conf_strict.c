/*
 * conf_strict: Pleat's own reading of an ALLOC_CONF text (conf_strict.h).
 *
 *   text  = nothing | item { ',' item }
 *   item  = key ':' value
 *   value = word | '[' pair { ',' pair } ']'
 *   pair  = ( MB | '>' ) ':' divisions
 *
 * Blanks may stand around words. The text is read from left to right and the first error ends the
 * reading, with the column of the byte where it lies. How words are written (blanks, quotes, ';',
 * '=') is looked at before what they mean. The segment size alone is looked up beforehand, because
 * the bounds of two options depend on it wherever it stands. No state outside one reading, no lock.
 */
#include "conf_strict.h"

#include "conf_distance.h"
#include "conf_strict_reader.h"
#include "vmm/base.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { REAL_BYTES = 512 };

static bool strict_fail_value(pleat_strict_reader_t *reader, pleat_conf_option_t option,
                              const pleat_strict_word_t *word, const char *reason)
{
    return pleat_strict_fail(reader, word->column, "%s is %s for '%s', which takes %s",
                             pleat_strict_quote(word->bytes, word->byte_count).text, reason,
                             pleat_conf_keys[option].key,
                             pleat_strict_allowed(reader, option).text);
}

static bool strict_in_bounds(const pleat_strict_reader_t *reader, const pleat_conf_key_t *key,
                             uint64_t number)
{
    switch (key->bounds) {
    case PLEAT_CONF_SEGMENT:
        return number >= reader->segment_mb;
    case PLEAT_CONF_ABOVE:
        return number > key->smallest;
    case PLEAT_CONF_POWER_OF_TWO:
        return pleat_is_power_of_two(number) && number <= key->largest;
    case PLEAT_CONF_FROM_TO:
        return number >= key->smallest && number <= key->largest;
    case PLEAT_CONF_BETWEEN:
        return number > key->smallest && number < key->largest;
    case PLEAT_CONF_ANY:
        break;
    }
    return true;
}

static bool strict_read_number(pleat_strict_reader_t *reader, pleat_conf_option_t option,
                               const pleat_strict_word_t *word, uint64_t *number_out)
{
    const pleat_conf_key_t *key = &pleat_conf_keys[option];
    const bool is_megabytes = key->type == PLEAT_CONF_BYTES || key->type == PLEAT_CONF_MEGABYTES;
    if (!pleat_strict_is_digits(word)) {
        return strict_fail_value(reader, option, word, "no whole number");
    }
    if (!pleat_strict_to_number(word, number_out) ||
        (is_megabytes && *number_out > PLEAT_CONF_MOST_MEGABYTES)) {
        return strict_fail_value(reader, option, word, "too large (beyond 64 bits)");
    }
    return strict_in_bounds(reader, key, *number_out) ||
           strict_fail_value(reader, option, word, "out of range");
}

/* Digits with at most one point among them, nothing else. */
static bool strict_to_real(const pleat_strict_word_t *word, double *real_out)
{
    char copy[REAL_BYTES];
    size_t digits = 0;
    size_t points = 0;
    for (size_t i = 0; i < word->byte_count; i++) {
        digits += word->bytes[i] >= '0' && word->bytes[i] <= '9' ? 1 : 0;
        points += word->bytes[i] == '.' ? 1 : 0;
    }
    if (digits == 0 || points > 1 || digits + points != word->byte_count ||
        word->byte_count >= sizeof copy) {
        return false;
    }
    memcpy(copy, word->bytes, word->byte_count);
    copy[word->byte_count] = '\0';
    errno = 0;
    const double real = pleat_text_to_real(copy, NULL);
    /* Too small or too large for a double: in no range. */
    *real_out = errno == ERANGE ? NAN : real;
    return true;
}

static bool strict_read_real(pleat_strict_reader_t *reader, pleat_conf_option_t option,
                             const pleat_strict_word_t *word)
{
    const pleat_conf_key_t *key = &pleat_conf_keys[option];
    const double smallest = (double)key->smallest;
    const double largest = (double)key->largest;
    double real = 0;
    if (!strict_to_real(word, &real)) {
        return strict_fail_value(reader, option, word, "no decimal number");
    }
    const bool is_good = key->bounds == PLEAT_CONF_BETWEEN ? real > smallest && real < largest
                                                           : real >= smallest && real <= largest;
    if (!is_good) {
        return strict_fail_value(reader, option, word, "out of range");
    }
    pleat_conf_set_real(reader->conf, option, real, reader->source);
    return true;
}

static bool strict_read_choice(pleat_strict_reader_t *reader, pleat_conf_option_t option,
                               const pleat_strict_word_t *word)
{
    uint64_t number = 0;
    if (pleat_conf_keys[option].type == PLEAT_CONF_BOOL) {
        number = word->byte_count == 4 && memcmp(word->bytes, "True", 4) == 0 ? 1 : 0;
        if (number == 0 && !(word->byte_count == 5 && memcmp(word->bytes, "False", 5) == 0)) {
            return strict_fail_value(reader, option, word, "no value");
        }
    } else if (!pleat_conf_find_word(option, word->bytes, word->byte_count, &number)) {
        return strict_fail_value(reader, option, word, "no value");
    }
    if (option == PLEAT_CONF_BACKEND && reader->source == PLEAT_CONF_SOURCE_RUNTIME &&
        number != reader->loaded_backend) {
        return pleat_strict_fail(reader, word->column,
                                 "the backend is already initialised and cannot be changed to %s; "
                                 "choose it before the start",
                                 pleat_strict_quote(word->bytes, word->byte_count).text);
    }
    pleat_conf_set_number(reader->conf, option, number, reader->source);
    return true;
}

static bool strict_read_scalar(pleat_strict_reader_t *reader, pleat_conf_option_t option)
{
    pleat_strict_word_t word;
    uint64_t number = 0;
    if (!pleat_strict_read_word(reader, false, &word)) {
        return false;
    }
    switch (pleat_conf_keys[option].type) {
    case PLEAT_CONF_BOOL:
    case PLEAT_CONF_WORD:
        return strict_read_choice(reader, option, &word);
    case PLEAT_CONF_REAL:
        return strict_read_real(reader, option, &word);
    case PLEAT_CONF_BYTES:
    case PLEAT_CONF_MEGABYTES:
    case PLEAT_CONF_COUNT:
    case PLEAT_CONF_DIVISIONS:
        break;
    }
    if (!strict_read_number(reader, option, &word, &number)) {
        return false;
    }
    if (pleat_conf_keys[option].type == PLEAT_CONF_DIVISIONS) {
        reader->uncovered = 0;
        for (size_t entry = 0; entry < PLEAT_ROUNDUP_ENTRIES; entry++) {
            reader->conf->roundup_power2_divisions[entry] = number;
        }
        reader->conf->settings[option].source = reader->source;
        return true;
    }
    const uint64_t unit = pleat_conf_keys[option].type == PLEAT_CONF_BYTES ? PLEAT_MIB : 1;
    pleat_conf_set_number(reader->conf, option, number * unit, reader->source);
    return true;
}

static bool strict_fail_unknown(pleat_strict_reader_t *reader, const pleat_strict_word_t *key)
{
    const pleat_strict_quoted_t quoted = pleat_strict_quote(key->bytes, key->byte_count);
    const char *near = pleat_conf_nearest_key(key->bytes, key->byte_count);
    if (near != NULL) {
        return pleat_strict_fail(reader, key->column, "unknown key %s; did you mean '%s'?",
                                 quoted.text, near);
    }
    char known[PLEAT_CONF_MESSAGE_BYTES];
    pleat_text_t text = pleat_text_begin(known, sizeof known);
    for (size_t option = 0; option < PLEAT_CONF_OPTION_COUNT; option++) {
        pleat_text_append(&text, "%s%s", option > 0 ? ", " : "", pleat_conf_keys[option].key);
        if (pleat_conf_keys[option].second_key[0] != '\0') {
            pleat_text_append(&text, ", %s", pleat_conf_keys[option].second_key);
        }
    }
    return pleat_strict_fail(reader, key->column, "unknown key %s; known keys: %s", quoted.text,
                             known);
}

static bool strict_is_variable(const pleat_strict_word_t *word)
{
    for (size_t source = PLEAT_CONF_SOURCE_PLEAT_ALLOC_CONF;
         source <= PLEAT_CONF_SOURCE_PYTORCH_ALLOC_CONF; source++) {
        const char *name = pleat_conf_source_text((pleat_conf_source_t)source);
        if (strlen(name) == word->byte_count && memcmp(name, word->bytes, word->byte_count) == 0) {
            return true;
        }
    }
    return false;
}

/*
 * `key=value`: show the item as it should be, with a known key if one is near. Where the key is a
 * variable's name, the whole assignment was given for the text.
 */
static bool strict_fail_equals(pleat_strict_reader_t *reader, const pleat_strict_word_t *key)
{
    const size_t column = pleat_strict_column(reader);
    reader->position++;
    (void)pleat_strict_peek(reader);
    const char *value = reader->text + reader->position;
    const pleat_strict_quoted_t value_quoted =
        pleat_strict_quote(value, strcspn(value, ",; \t\n\v\f\r"));
    const int value_length = (int)strlen(value_quoted.text) - 2;
    if (strict_is_variable(key)) {
        return pleat_strict_fail(reader, column,
                                 "'=' behind the name of a variable; leave both out and write %.*s",
                                 value_length, value_quoted.text + 1);
    }
    const char *near = pleat_conf_find_bytes(key->bytes, key->byte_count) == PLEAT_CONF_OPTION_COUNT
                           ? pleat_conf_nearest_key(key->bytes, key->byte_count)
                           : NULL;
    const pleat_strict_quoted_t key_quoted = pleat_strict_quote(
        near != NULL ? near : key->bytes, near != NULL ? strlen(near) : key->byte_count);
    return pleat_strict_fail(reader, column, "'=' where ':' is expected; write %.*s:%.*s",
                             (int)strlen(key_quoted.text) - 2, key_quoted.text + 1, value_length,
                             value_quoted.text + 1);
}

/* The key of an item and its colon. */
static bool strict_read_key(pleat_strict_reader_t *reader, pleat_conf_option_t *option_out)
{
    pleat_strict_word_t key;
    const char first = pleat_strict_peek(reader);
    if (first == ':' || first == '[' || first == ']' || first == '=') {
        return pleat_strict_fail(reader, pleat_strict_column(reader),
                                 "'%c' where a key is expected", first);
    }
    if (!pleat_strict_read_word(reader, true, &key)) {
        return false;
    }
    if (reader->text[reader->position] == '=') {
        return strict_fail_equals(reader, &key);
    }
    const pleat_conf_option_t option = pleat_conf_find_bytes(key.bytes, key.byte_count);
    if (option == PLEAT_CONF_OPTION_COUNT) {
        return strict_fail_unknown(reader, &key);
    }
    if (reader->key_columns[option] != 0) {
        return pleat_strict_fail(reader, key.column, "%s is given twice, first in column %zu",
                                 pleat_strict_quote(key.bytes, key.byte_count).text,
                                 reader->key_columns[option]);
    }
    reader->key_columns[option] = key.column;
    *option_out = option;
    return true;
}

static bool strict_fail_missing(pleat_strict_reader_t *reader, pleat_conf_option_t option)
{
    return pleat_strict_fail(
        reader, pleat_strict_column(reader), "missing value: '%s' is followed by ':' and %s",
        pleat_conf_keys[option].key, pleat_strict_allowed(reader, option).text);
}

static bool strict_read_item(pleat_strict_reader_t *reader)
{
    pleat_conf_option_t option = PLEAT_CONF_OPTION_COUNT;
    if (!strict_read_key(reader, &option)) {
        return false;
    }
    if (pleat_strict_peek(reader) != ':') {
        return strict_fail_missing(reader, option);
    }
    reader->position++;
    const char next = pleat_strict_peek(reader);
    reader->value_columns[option] = pleat_strict_column(reader);
    if (next == '\0' || next == ',' || next == ':' || next == ']') {
        return strict_fail_missing(reader, option);
    }
    if (next != '[') {
        return strict_read_scalar(reader, option);
    }
    if (pleat_conf_keys[option].type == PLEAT_CONF_DIVISIONS) {
        return pleat_strict_read_list(reader, option);
    }
    return pleat_strict_fail(reader, pleat_strict_column(reader), "'%s' takes no list; write %s",
                             pleat_conf_keys[option].key,
                             pleat_strict_allowed(reader, option).text);
}

static bool strict_read_items(pleat_strict_reader_t *reader)
{
    if (pleat_strict_peek(reader) == '\0') {
        return true;
    }
    for (;;) {
        if (pleat_strict_peek(reader) == ',') {
            return pleat_strict_fail(reader, pleat_strict_column(reader),
                                     "empty item; remove the ','");
        }
        if (!strict_read_item(reader)) {
            return false;
        }
        const char next = pleat_strict_peek(reader);
        if (next == '\0') {
            return true;
        }
        if (!pleat_strict_check_stray(reader)) {
            return false;
        }
        const size_t column = pleat_strict_column(reader);
        if (next != ',') {
            return pleat_strict_fail(reader, column, "',' is missing between items");
        }
        reader->position++;
        if (pleat_strict_peek(reader) == '\0') {
            return pleat_strict_fail(reader, column, "empty item behind the last ','; remove it");
        }
    }
}

/* The segment size that an item asks for; false: it is about something else, or no good. */
static bool strict_item_segment_mb(const char *item, uint64_t *segment_mb_out)
{
    const pleat_conf_key_t *segment = &pleat_conf_keys[PLEAT_CONF_LARGE_SEGMENT_SIZE];
    pleat_strict_reader_t reader = {.text = item};
    (void)pleat_strict_peek(&reader);
    if (strncmp(item + reader.position, segment->key, strlen(segment->key)) != 0) {
        return false;
    }
    reader.position += strlen(segment->key);
    if (pleat_strict_peek(&reader) != ':') {
        return false;
    }
    reader.position++;
    (void)pleat_strict_peek(&reader);
    const char *value = item + reader.position;
    const pleat_strict_word_t word = {.bytes = value, .byte_count = strcspn(value, ", \t\n\v\f\r")};
    return pleat_strict_is_digits(&word) && pleat_strict_to_number(&word, segment_mb_out) &&
           *segment_mb_out > segment->smallest && *segment_mb_out <= segment->largest;
}

/*
 * The segment size that the text asks for, if its value is good; else the one in force. Whatever is
 * wrong with the text is found when it is read.
 */
static uint64_t strict_find_segment_mb(const pleat_conf_t *conf, const char *text)
{
    uint64_t segment_mb = 0;
    const char *item = text;
    while (item != NULL) {
        if (strict_item_segment_mb(item, &segment_mb)) {
            return segment_mb;
        }
        item = strchr(item, ',');
        item = item != NULL ? item + 1 : NULL;
    }
    return conf->settings[PLEAT_CONF_LARGE_SEGMENT_SIZE].number / PLEAT_MIB;
}

/* A new segment size must leave the split options that the text does not name within bounds. */
static bool strict_check_segment(pleat_strict_reader_t *reader)
{
    if (reader->key_columns[PLEAT_CONF_LARGE_SEGMENT_SIZE] == 0) {
        return true;
    }
    pleat_conf_setting_t *settings = reader->conf->settings;
    const uint64_t segment_bytes = settings[PLEAT_CONF_LARGE_SEGMENT_SIZE].number;
    /* As long as nobody sets it, the rounding follows the segment size. */
    if (settings[PLEAT_CONF_MAX_NON_SPLIT_ROUNDING].source == PLEAT_CONF_SOURCE_DEFAULT) {
        settings[PLEAT_CONF_MAX_NON_SPLIT_ROUNDING].number = segment_bytes;
    }
    for (size_t option = 0; option < PLEAT_CONF_OPTION_COUNT; option++) {
        if (pleat_conf_keys[option].bounds == PLEAT_CONF_SEGMENT &&
            settings[option].number < segment_bytes) {
            return pleat_strict_fail(
                reader, reader->value_columns[PLEAT_CONF_LARGE_SEGMENT_SIZE],
                "large_segment_size_mb must be at most %llu, the value of '%s' in force",
                (unsigned long long)(settings[option].number / PLEAT_MIB),
                pleat_conf_keys[option].key);
        }
    }
    return true;
}

void pleat_conf_warn(pleat_conf_report_t *report, const char *format, ...)
{
    if (report->warning_count == PLEAT_CONF_WARNING_COUNT) {
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(report->warnings[report->warning_count++], PLEAT_CONF_WARNING_BYTES, format,
                    arguments);
    va_end(arguments);
}

/* Name the sizes that a round-up list leaves without rounding, as ranges. */
static void strict_warn_gaps(const pleat_strict_reader_t *reader)
{
    char gaps[PLEAT_CONF_WARNING_BYTES];
    pleat_text_t text = pleat_text_begin(gaps, sizeof gaps);
    unsigned index = 0;
    while (index < PLEAT_ROUNDUP_ENTRIES) {
        const unsigned first = index;
        while (index < PLEAT_ROUNDUP_ENTRIES && (reader->uncovered >> index & 1u) != 0) {
            index++;
        }
        if (index == first) {
            index++;
            continue;
        }
        const char *joint = text.length > 0 ? ", " : "";
        /* Entry 0 serves everything below 2 MB, the last one everything above. */
        const unsigned long from_mb = first > 0 ? 1UL << first : 0;
        if (index == PLEAT_ROUNDUP_ENTRIES) {
            pleat_text_append(&text, "%sfrom %lu MB", joint, from_mb);
        } else {
            pleat_text_append(&text, "%s%lu to %lu MB", joint, from_mb, 1UL << index);
        }
    }
    if (text.length > 0) {
        pleat_conf_warn(reader->report,
                        "roundup_power2_divisions leaves sizes out, which are not rounded: %s",
                        gaps);
    }
}

/* With the other backend no option acts: drop them all, and say which the text named. */
static void strict_ignore_options(pleat_strict_reader_t *reader, const pleat_conf_t *before)
{
    char ignored[PLEAT_CONF_WARNING_BYTES];
    pleat_text_t text = pleat_text_begin(ignored, sizeof ignored);
    const pleat_conf_setting_t backend = reader->conf->settings[PLEAT_CONF_BACKEND];
    for (size_t option = 0; option < PLEAT_CONF_OPTION_COUNT; option++) {
        if (option != PLEAT_CONF_BACKEND && reader->key_columns[option] != 0) {
            pleat_text_append(&text, "%s%s", text.length > 0 ? ", " : "",
                              pleat_conf_keys[option].key);
        }
    }
    *reader->conf = *before;
    reader->conf->settings[PLEAT_CONF_BACKEND] = backend;
    if (text.length > 0) {
        pleat_conf_warn(reader->report, "backend:cudaMallocAsync ignores %s", ignored);
    }
}

static void strict_warn(pleat_strict_reader_t *reader)
{
    const pleat_conf_setting_t *settings = reader->conf->settings;
    const bool is_runtime = reader->source == PLEAT_CONF_SOURCE_RUNTIME;
    const bool has_limit =
        reader->conf->has_limit ||
        (!is_runtime && settings[PLEAT_CONF_PER_PROCESS_MEMORY_FRACTION].real < 1.0);
    strict_warn_gaps(reader);
    if (reader->key_columns[PLEAT_CONF_GARBAGE_COLLECTION_THRESHOLD] != 0 && !has_limit) {
        pleat_conf_warn(reader->report, "garbage_collection_threshold cannot act without a memory "
                                        "limit; per_process_memory_fraction below 1 sets one");
    }
    if (reader->key_columns[PLEAT_CONF_PER_PROCESS_MEMORY_FRACTION] != 0 && is_runtime) {
        pleat_conf_warn(reader->report, "per_process_memory_fraction has no effect at run time; it "
                                        "is read when an allocator is made");
    }
}

pleat_status_t pleat_conf_strict_read(pleat_conf_t *conf, pleat_conf_source_t source,
                                      const char *text, pleat_conf_report_t *report)
{
    const pleat_conf_t before = *conf;
    pleat_strict_reader_t reader = {
        .text = text,
        .conf = conf,
        .source = source,
        .report = report,
        .loaded_backend = conf->settings[PLEAT_CONF_BACKEND].number,
        .segment_mb = strict_find_segment_mb(conf, text),
    };
    if (!strict_read_items(&reader) || !strict_check_segment(&reader)) {
        return PLEAT_ERR_INVALID;
    }
    if (conf->settings[PLEAT_CONF_BACKEND].number == PLEAT_CONF_BACKEND_NATIVE) {
        strict_warn(&reader);
    } else {
        strict_ignore_options(&reader, &before);
    }
    return PLEAT_OK;
}
