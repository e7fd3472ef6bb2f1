/*
 * text: appending, quoting, and numbers without a locale (text.h).
 *
 * The C locale is set for the calling thread only, and only while one number is converted: a
 * program that runs under a locale with a decimal comma reads and prints the same configuration.
 * No state, no lock.
 */
#include "text.h"

#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { QUOTE_BYTES = 64, REAL_BYTES = 400, REAL_DIGITS = 17 };

pleat_text_t pleat_text_begin(char *buffer, size_t buffer_bytes)
{
    if (buffer_bytes > 0) {
        buffer[0] = '\0';
    }
    return (pleat_text_t){.buffer = buffer, .buffer_bytes = buffer_bytes};
}

void pleat_text_append(pleat_text_t *text, const char *format, ...)
{
    const bool has_room = text->length < text->buffer_bytes;
    va_list arguments;
    va_start(arguments, format);
    const int length =
        vsnprintf(has_room ? text->buffer + text->length : NULL,
                  has_room ? text->buffer_bytes - text->length : 0, format, arguments);
    va_end(arguments);
    text->length += length > 0 ? (size_t)length : 0;
}

size_t pleat_text_sequence(const unsigned char *bytes, size_t byte_count)
{
    static const struct {
        unsigned char first, last, second_low, second_high;
        size_t length;
    } forms[] = {
        {0x20, 0x7e, 0, 0, 1},       {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
        {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
        {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
    };
    for (size_t form = 0; form < sizeof forms / sizeof forms[0]; form++) {
        const size_t length = forms[form].length;
        if (bytes[0] < forms[form].first || bytes[0] > forms[form].last || length > byte_count) {
            continue;
        }
        if (length > 1 &&
            (bytes[1] < forms[form].second_low || bytes[1] > forms[form].second_high)) {
            return 0;
        }
        for (size_t i = 2; i < length; i++) {
            if ((bytes[i] & 0xc0u) != 0x80u) {
                return 0;
            }
        }
        return length;
    }
    return 0;
}

void pleat_text_quote(pleat_text_t *text, const char *bytes, size_t byte_count)
{
    pleat_text_append(text, "'");
    size_t position = 0;
    while (position < byte_count) {
        const unsigned char *rest = (const unsigned char *)bytes + position;
        const size_t length = pleat_text_sequence(rest, byte_count - position);
        if (position + (length > 0 ? length : 1) > QUOTE_BYTES) {
            pleat_text_append(text, "...");
            break;
        }
        if (length == 0) {
            pleat_text_append(text, "\\x%02x", rest[0]);
        } else {
            pleat_text_append(text, "%.*s", (int)length, bytes + position);
        }
        position += length > 0 ? length : 1;
    }
    pleat_text_append(text, "'");
}

/* The C locale is a constant of the library, so getting it costs nothing. 0: nothing was changed.
 */
static locale_t text_locale_begin(void)
{
    const locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    return plain != (locale_t)0 ? uselocale(plain) : (locale_t)0;
}

static void text_locale_end(locale_t before)
{
    if (before != (locale_t)0) {
        freelocale(uselocale(before));
    }
}

void pleat_text_fixed(pleat_text_t *text, double value, int decimals)
{
    const locale_t before = text_locale_begin();
    pleat_text_append(text, "%.*f", decimals, value);
    text_locale_end(before);
}

void pleat_text_real(pleat_text_t *text, double value)
{
    char digits[REAL_BYTES];
    const locale_t before = text_locale_begin();
    for (int precision = 1; precision <= REAL_DIGITS; precision++) {
        (void)snprintf(digits, sizeof digits, "%.*g", precision, value);
        if (strtod(digits, NULL) == value) {
            break;
        }
    }
    text_locale_end(before);
    const bool is_whole = isfinite(value) && strpbrk(digits, ".e") == NULL;
    pleat_text_append(text, "%s%s", digits, is_whole ? ".0" : "");
}

double pleat_text_to_real(const char *text, char **end_out)
{
    const locale_t before = text_locale_begin();
    const double value = strtod(text, end_out);
    text_locale_end(before);
    return value;
}
