/*
 * conf_strict_word: the words of a text and the errors in them (conf_strict_reader.h).
 *
 * How words are written (blanks, quotes, ';') is looked at here, what they mean elsewhere. No state
 * outside a reader, no lock.
 */
#include "conf_strict_reader.h"

#include "vmm/base.h"

#include <stdarg.h>
#include <stdio.h>

static bool strict_is_blank(char character)
{
    return character == ' ' || (character >= '\t' && character <= '\r');
}

bool pleat_strict_is_mark(char character)
{
    return character == ',' || character == ':' || character == '[' || character == ']';
}

static bool strict_is_quote(char character)
{
    return character == '\'' || character == '"';
}

bool pleat_strict_fail(pleat_strict_reader_t *reader, size_t column, const char *format, ...)
{
    char reason[PLEAT_CONF_MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    const bool is_variable = reader->source >= PLEAT_CONF_SOURCE_PLEAT_ALLOC_CONF &&
                             reader->source <= PLEAT_CONF_SOURCE_PYTORCH_ALLOC_CONF;
    pleat_text_t message =
        pleat_text_begin(reader->report->message, sizeof reader->report->message);
    pleat_text_append(&message, "%s%scolumn %zu: %s",
                      is_variable ? pleat_conf_source_text(reader->source) : "",
                      is_variable ? ", " : "", column, reason);
    reader->report->source = reader->source;
    reader->report->column = column;
    reader->report->python_class = "ValueError";
    return false;
}

pleat_strict_quoted_t pleat_strict_quote(const char *bytes, size_t byte_count)
{
    pleat_strict_quoted_t quoted;
    pleat_text_t text = pleat_text_begin(quoted.text, sizeof quoted.text);
    pleat_text_quote(&text, bytes, byte_count);
    return quoted;
}

pleat_strict_allowed_t pleat_strict_allowed(const pleat_strict_reader_t *reader,
                                            pleat_conf_option_t option)
{
    pleat_strict_allowed_t allowed;
    pleat_text_t text = pleat_text_begin(allowed.text, sizeof allowed.text);
    pleat_conf_append_allowed(&text, option, reader->segment_mb);
    return allowed;
}

/* The next byte that is no blank; 0 at the end. */
char pleat_strict_peek(pleat_strict_reader_t *reader)
{
    while (strict_is_blank(reader->text[reader->position])) {
        reader->position++;
    }
    return reader->text[reader->position];
}

size_t pleat_strict_column(const pleat_strict_reader_t *reader)
{
    return reader->position + 1;
}

/* Refuse what stands for no word anywhere: ';' and quotes. */
bool pleat_strict_check_stray(pleat_strict_reader_t *reader)
{
    const char next = pleat_strict_peek(reader);
    if (next == ';') {
        return pleat_strict_fail(reader, pleat_strict_column(reader),
                                 "separate items with ',', not with ';'");
    }
    if (strict_is_quote(next)) {
        return pleat_strict_fail(reader, pleat_strict_column(reader),
                                 "quotes are not part of a configuration; remove the %c", next);
    }
    return true;
}

/*
 * Read the word at the next byte, which is none of the marks; an '=' ends a key only. Behind it
 * stands a mark, the end, or after a key '='.
 */
bool pleat_strict_read_word(pleat_strict_reader_t *reader, bool is_key, pleat_strict_word_t *word)
{
    if (!pleat_strict_check_stray(reader)) {
        return false;
    }
    const char *text = reader->text;
    const size_t start = reader->position;
    size_t end = start;
    while (text[end] != '\0' && !strict_is_blank(text[end]) && !pleat_strict_is_mark(text[end]) &&
           text[end] != ';' && !strict_is_quote(text[end]) && !(is_key && text[end] == '=')) {
        end++;
    }
    *word = (pleat_strict_word_t){
        .bytes = text + start, .byte_count = end - start, .column = start + 1};
    reader->position = end;
    const char next = pleat_strict_peek(reader);
    if (!pleat_strict_check_stray(reader)) {
        return false;
    }
    if (next == '\0' || pleat_strict_is_mark(next) || (is_key && next == '=')) {
        return true;
    }
    return pleat_strict_fail(
        reader, reader->position,
        "a blank inside a word, or a ',' is missing: behind a word stands ':', ',' "
        "or the end");
}

bool pleat_strict_is_digits(const pleat_strict_word_t *word)
{
    size_t digits = 0;
    while (digits < word->byte_count && word->bytes[digits] >= '0' && word->bytes[digits] <= '9') {
        digits++;
    }
    return digits > 0 && digits == word->byte_count;
}

/* Value of digits; false: beyond 64 bits. */
bool pleat_strict_to_number(const pleat_strict_word_t *word, uint64_t *number_out)
{
    uint64_t number = 0;
    for (size_t i = 0; i < word->byte_count; i++) {
        const uint64_t digit = (uint64_t)(word->bytes[i] - '0');
        if (!pleat_multiply_checked(number, 10, &number) ||
            !pleat_add_checked(number, digit, &number)) {
            return false;
        }
    }
    *number_out = number;
    return true;
}
