/*
 * size: sizes with units. Only the binary units are taken: in this field GB is read both ways, and
 * a limit that is 7 % off is worse than a message.
 */
#include "size.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

typedef struct pleat_cli_unit {
    const char *name;
    unsigned shift;
} pleat_cli_unit_t;

static const pleat_cli_unit_t pleat_cli_units[] = {
    {"", 0}, {"B", 0}, {"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"TiB", 40},
};

static const char pleat_cli_size_too_large[] = "is too large: sizes end at 2^64 - 1 bytes";
static const char pleat_cli_size_no_number[] = "is no size: wanted are " PLEAT_CLI_SIZE_FORMS;

static const char *pleat_cli_size_unit(const char *text, unsigned *shift_out)
{
    for (size_t i = 0; i < sizeof(pleat_cli_units) / sizeof(pleat_cli_units[0]); i++) {
        if (strcmp(text, pleat_cli_units[i].name) == 0) {
            *shift_out = pleat_cli_units[i].shift;
            return NULL;
        }
    }
    if (strcmp(text, "GB") == 0 || strcmp(text, "MB") == 0 || strcmp(text, "KB") == 0 ||
        strcmp(text, "kB") == 0 || strcmp(text, "TB") == 0 || strcmp(text, "G") == 0 ||
        strcmp(text, "M") == 0 || strcmp(text, "K") == 0) {
        return "has a unit that is read in two ways: write KiB, MiB, GiB or TiB (powers of 1024)";
    }
    for (size_t i = 0; i < sizeof(pleat_cli_units) / sizeof(pleat_cli_units[0]); i++) {
        if (strcasecmp(text, pleat_cli_units[i].name) == 0) {
            return "has a unit in the wrong letters: write B, KiB, MiB, GiB or TiB";
        }
    }
    return pleat_cli_size_no_number;
}

/* Digits into a number; false when it does not fit. */
static bool pleat_cli_digits(const char **text, uint64_t *value_out)
{
    uint64_t value = 0;

    for (; **text >= '0' && **text <= '9'; (*text)++) {
        uint64_t digit = (uint64_t)(**text - '0');

        if (value > (UINT64_MAX - digit) / 10) {
            return false;
        }
        value = value * 10 + digit;
    }
    *value_out = value;
    return true;
}

/* The digits behind the point, scaled by 2^shift; they must come to whole bytes. */
static const char *pleat_cli_size_fraction(const char *digits, size_t count, unsigned shift,
                                           uint64_t *bytes_out)
{
    uint64_t value = 0;
    uint64_t scale = 1;

    while (count > 0 && digits[count - 1] == '0') {
        count--;
    }
    if (count > 6) {
        return "has too many digits behind the point: at most 6";
    }
    for (size_t i = 0; i < count; i++) {
        value = value * 10 + (uint64_t)(digits[i] - '0');
        scale *= 10;
    }
    if ((value << shift) % scale != 0) { /* value < 2^20, shift <= 40 */
        return "does not come to whole bytes";
    }
    *bytes_out = (value << shift) / scale;
    return NULL;
}

const char *pleat_cli_size_parse(const char *text, uint64_t *bytes_out)
{
    const char *at = text;
    const char *fraction = NULL;
    size_t fraction_count = 0;
    uint64_t whole = 0;
    uint64_t part = 0;
    unsigned shift = 0;

    if (*at < '0' || *at > '9') {
        return *at == '-' ? "is negative; a size is not" : pleat_cli_size_no_number;
    }
    if (!pleat_cli_digits(&at, &whole)) {
        return pleat_cli_size_too_large;
    }
    if (*at == '.') {
        fraction = ++at;
        fraction_count = strspn(fraction, "0123456789");
        at += fraction_count;
        if (fraction_count == 0) {
            return pleat_cli_size_no_number;
        }
    }
    at += *at == ' ' ? 1 : 0;
    const char *wrong = pleat_cli_size_unit(at, &shift);
    if (!wrong && fraction) {
        wrong = pleat_cli_size_fraction(fraction, fraction_count, shift, &part);
    }
    if (wrong) {
        return wrong;
    }
    if (whole > UINT64_MAX >> shift || part > UINT64_MAX - (whole << shift)) {
        return pleat_cli_size_too_large;
    }
    *bytes_out = (whole << shift) + part;
    return NULL;
}

const char *pleat_cli_count_parse(const char *text, uint64_t least, uint64_t most,
                                  uint64_t *count_out)
{
    const char *at = text;
    uint64_t value = 0;

    if (*at < '0' || *at > '9') {
        return "is no whole number";
    }
    if (!pleat_cli_digits(&at, &value) || value > most) {
        return "is too large";
    }
    if (*at != '\0') {
        return "is no whole number";
    }
    if (value < least) {
        return "is too small";
    }
    *count_out = value;
    return NULL;
}

void pleat_cli_size_format(uint64_t bytes, char *text, size_t text_size)
{
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    size_t unit = 0;
    double value = (double)bytes;

    while (value >= 1024.0 && unit + 1 < sizeof(names) / sizeof(names[0])) {
        value /= 1024.0;
        unit++;
    }
    (void)snprintf(text, text_size, unit == 0 ? "%.0f %s" : "%.2f %s", value, names[unit]);
}
