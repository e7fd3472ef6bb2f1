/*
 * Sizes and counts on the command line: what is taken, what is refused and with which words.
 */
#include "experiments/cli/size.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

Test(cli_size, takes_bytes_units_and_fractions, .timeout = 5)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } rows[] = {
        {"0", 0},
        {"42949672960", UINT64_C(42949672960)},
        {"512B", 512},
        {"1KiB", 1024},
        {"512MiB", UINT64_C(512) << 20},
        {"40GiB", UINT64_C(40) << 30},
        {"40 GiB", UINT64_C(40) << 30},
        {"2TiB", UINT64_C(2) << 40},
        {"1.5GiB", UINT64_C(3) << 29},
        {"0.25KiB", 256},
        {"7.0", 7},
        {"18446744073709551615", UINT64_MAX},
        {"16777215TiB", UINT64_C(16777215) << 40},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint64_t bytes = 1;

        cr_expect(eq(ptr, (void *)pleat_cli_size_parse(rows[i].text, &bytes), NULL), "%s",
                  rows[i].text);
        cr_expect(eq(u64, bytes, rows[i].bytes), "%s", rows[i].text);
    }
}

Test(cli_size, refuses_and_says_why, .timeout = 5)
{
    static const struct {
        const char *text;
        const char *word; /* in the message */
    } rows[] = {
        {"", "no size"},
        {"GiB", "no size"},
        {"forty", "no size"},
        {"-1", "negative"},
        {"+1", "no size"},
        {" 1", "no size"},
        {"1  GiB", "no size"},
        {"1GiB ", "no size"},
        {"1.", "no size"},
        {".5GiB", "no size"},
        {"1e9", "no size"},
        {"0x10", "no size"},
        {"40GB", "two ways"},
        {"40G", "two ways"},
        {"512kB", "two ways"},
        {"40gib", "wrong letters"},
        {"1.5", "whole bytes"},
        {"0.3KiB", "whole bytes"},
        {"0.12345678TiB", "too many digits"},
        {"18446744073709551616", "too large"},
        {"99999999999999999999999", "too large"},
        {"16777216TiB", "too large"},
        {"16777216.5TiB", "too large"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint64_t bytes = 77;
        const char *wrong = pleat_cli_size_parse(rows[i].text, &bytes);

        cr_assert(ne(ptr, (void *)wrong, NULL), "'%s' was taken", rows[i].text);
        cr_expect(ne(ptr, strstr(wrong, rows[i].word), NULL), "'%s' %s", rows[i].text, wrong);
        cr_expect(eq(u64, bytes, 77), "'%s' changed the output", rows[i].text);
    }
}

Test(cli_size, counts_keep_to_their_range, .timeout = 5)
{
    uint64_t count = 0;

    cr_expect(eq(ptr, (void *)pleat_cli_count_parse("3", 1, 100, &count), NULL));
    cr_expect(eq(u64, count, 3));
    cr_expect(eq(str, (char *)pleat_cli_count_parse("0", 1, 100, &count), "is too small"));
    cr_expect(eq(str, (char *)pleat_cli_count_parse("101", 1, 100, &count), "is too large"));
    cr_expect(eq(str, (char *)pleat_cli_count_parse("99999999999999999999", 1, 100, &count),
                 "is too large"));
    cr_expect(eq(str, (char *)pleat_cli_count_parse("3x", 1, 100, &count), "is no whole number"));
    cr_expect(eq(str, (char *)pleat_cli_count_parse("", 1, 100, &count), "is no whole number"));
    cr_expect(eq(u64, count, 3));
}

Test(cli_size, formats_with_the_unit_that_fits, .timeout = 5)
{
    static const struct {
        uint64_t bytes;
        const char *text;
    } rows[] = {
        {0, "0 B"},
        {1023, "1023 B"},
        {1536, "1.50 KiB"},
        {UINT64_C(5) << 20, "5.00 MiB"},
        {UINT64_C(40) << 30, "40.00 GiB"},
        {UINT64_C(3) << 40, "3.00 TiB"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[32];

        pleat_cli_size_format(rows[i].bytes, text, sizeof(text));
        cr_expect(eq(str, text, (char *)rows[i].text));
    }
}
