/*
 * scan: see scan.h.
 */
#include "scan.h"

#include "vmm/base.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MESSAGE_CAPACITY = 512, SHOWN_MAX = 60 };

pleat_text_t pleat_scan_rest(pleat_scan_t *scan)
{
    pleat_scan_skip_blanks(scan);
    const char *start = scan->cursor;
    const char *end = scan->end;
    while (end > start && (end[-1] == ' ' || end[-1] == '\t')) {
        end--;
    }
    scan->cursor = scan->end;
    return (pleat_text_t){.start = start, .length = (size_t)(end - start)};
}

bool pleat_text_is(pleat_text_t text, const char *string)
{
    return text.length == strlen(string) && memcmp(text.start, string, text.length) == 0;
}

/* The longest prefix of digits; returns how many, or 0 when there is none or it does not fit. */
static size_t pleat_text_digits(pleat_text_t text, uint64_t *value_out)
{
    uint64_t value = 0;
    size_t i = 0;
    for (; i < text.length; i++) {
        const unsigned digit = (unsigned)(unsigned char)text.start[i] - (unsigned)'0';
        if (digit > 9) {
            break;
        }
        if (!pleat_multiply_checked(value, 10, &value) ||
            !pleat_add_checked(value, digit, &value)) {
            return 0;
        }
    }
    *value_out = value;
    return i;
}

bool pleat_text_to_decimal(pleat_text_t text, uint64_t *value_out)
{
    uint64_t value = 0;
    if (text.length == 0 || pleat_text_digits(text, &value) != text.length) {
        return false;
    }
    *value_out = value;
    return true;
}

static unsigned pleat_hex_digit(char symbol)
{
    if (symbol >= '0' && symbol <= '9') {
        return (unsigned)(symbol - '0');
    }
    if (symbol >= 'a' && symbol <= 'f') {
        return (unsigned)(symbol - 'a') + 10u;
    }
    if (symbol >= 'A' && symbol <= 'F') {
        return (unsigned)(symbol - 'A') + 10u;
    }
    return 16u;
}

bool pleat_text_to_hexadecimal(pleat_text_t text, uint64_t *value_out)
{
    const bool has_prefix = text.length > 2 && text.start[0] == '0' && text.start[1] == 'x';
    uint64_t value = 0;
    if (text.length == 0) {
        return false;
    }
    for (size_t i = has_prefix ? 2 : 0; i < text.length; i++) {
        const unsigned digit = pleat_hex_digit(text.start[i]);
        if (digit > 15 || value > UINT64_MAX >> 4) {
            return false;
        }
        value = value << 4 | digit;
    }
    *value_out = value;
    return true;
}

bool pleat_text_to_signed(pleat_text_t text, int64_t *value_out)
{
    const bool is_negative = text.length > 0 && text.start[0] == '-';
    if (is_negative) {
        text.start++;
        text.length--;
    }
    uint64_t value = 0;
    if (!pleat_text_to_size(text, &value) || value > (uint64_t)INT64_MAX) {
        return false;
    }
    *value_out = is_negative ? -(int64_t)value : (int64_t)value;
    return true;
}

bool pleat_text_to_size(pleat_text_t text, uint64_t *value_out)
{
    uint64_t value = 0;
    const size_t digits = pleat_text_digits(text, &value);
    if (digits == 0) {
        return false;
    }
    const pleat_text_t unit = {.start = text.start + digits, .length = text.length - digits};
    uint64_t factor = 1;
    if (pleat_text_is(unit, "KiB")) {
        factor = PLEAT_KIB;
    } else if (pleat_text_is(unit, "MiB")) {
        factor = PLEAT_MIB;
    } else if (pleat_text_is(unit, "GiB")) {
        factor = PLEAT_GIB;
    } else if (unit.length > 0) {
        return false;
    }
    return pleat_multiply_checked(value, factor, value_out);
}

int pleat_text_shown(pleat_text_t text)
{
    return text.length < SHOWN_MAX ? (int)text.length : SHOWN_MAX;
}

pleat_status_t pleat_scan_fail(const pleat_scan_t *scan, const char *place, const char *format, ...)
{
    char message[MESSAGE_CAPACITY];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(message, sizeof(message), format, arguments);
    va_end(arguments);
    pleat_error_set("%s:%" PRIu64 ":%td: %s", scan->file, scan->line, place - scan->begin + 1,
                    message);
    return PLEAT_ERR_FORMAT;
}

static pleat_status_t pleat_scan_fail_word(const pleat_scan_t *scan, pleat_text_t word,
                                           const char *wanted, const char *form)
{
    if (word.length == 0) {
        return pleat_scan_fail(scan, word.start, "%s is missing: %s", wanted, form);
    }
    return pleat_scan_fail(scan, word.start, "'%.*s' is no %s: %s", pleat_text_shown(word),
                           word.start, wanted, form);
}

pleat_status_t pleat_scan_decimal(pleat_scan_t *scan, const char *wanted, uint64_t *value_out)
{
    const pleat_text_t word = pleat_scan_word(scan);
    if (!pleat_text_to_decimal(word, value_out)) {
        return pleat_scan_fail_word(scan, word, wanted,
                                    "decimal digits up to 18446744073709551615 are expected");
    }
    return PLEAT_OK;
}

pleat_status_t pleat_scan_hexadecimal(pleat_scan_t *scan, const char *wanted, uint64_t *value_out)
{
    const pleat_text_t word = pleat_scan_word(scan);
    if (!pleat_text_to_hexadecimal(word, value_out)) {
        return pleat_scan_fail_word(scan, word, wanted, "up to 16 hexadecimal digits are expected");
    }
    return PLEAT_OK;
}

pleat_status_t pleat_scan_size(pleat_scan_t *scan, const char *wanted, uint64_t *value_out)
{
    const pleat_text_t word = pleat_scan_word(scan);
    if (!pleat_text_to_size(word, value_out)) {
        return pleat_scan_fail_word(
            scan, word, wanted,
            "decimal digits with KiB, MiB, GiB or nothing behind them, below 2^64 bytes, are "
            "expected");
    }
    return PLEAT_OK;
}

pleat_status_t pleat_scan_end(pleat_scan_t *scan, const char *form)
{
    const pleat_text_t rest = pleat_scan_rest(scan);
    if (rest.length > 0) {
        return pleat_scan_fail(scan, rest.start, "unexpected '%.*s'; the line has the form '%s'",
                               pleat_text_shown(rest), rest.start, form);
    }
    return PLEAT_OK;
}
