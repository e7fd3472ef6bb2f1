/*
 * test_text: appending, quoting, and numbers that do not depend on the locale.
 */
#include "compat/text.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <string.h>

Test(text, appends_and_counts_what_does_not_fit)
{
    char buffer[8] = "x";
    pleat_text_t text = pleat_text_begin(buffer, sizeof buffer);
    cr_expect(eq(str, buffer, ""));
    pleat_text_append(&text, "%d-%s", 12, "abc");
    cr_expect(eq(str, buffer, "12-abc"));
    pleat_text_append(&text, "%s", "defg");
    pleat_text_append(&text, "%s", "hi");
    cr_expect(eq(str, buffer, "12-abcd"));
    cr_expect(eq(sz, text.length, 12));
}

Test(text, quotes_what_a_terminal_can_show)
{
    static const struct {
        const char *bytes;
        const char *quoted;
    } rows[] = {
        {"", "''"},
        {"a b", "'a b'"},
        {"a\nb\x7f", "'a\\x0ab\\x7f'"},
        {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "'\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80'"},
        {"\xc3", "'\\xc3'"},
        {"\xc0\xaf", "'\\xc0\\xaf'"},                   /* longer than it has to be */
        {"\xed\xa0\x80", "'\\xed\\xa0\\x80'"},          /* half of a pair */
        {"\xf4\x90\x80\x80", "'\\xf4\\x90\\x80\\x80'"}, /* beyond the last code point */
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char buffer[64];
        pleat_text_t text = pleat_text_begin(buffer, sizeof buffer);
        pleat_text_quote(&text, rows[i].bytes, strlen(rows[i].bytes));
        cr_expect(eq(str, buffer, (char *)rows[i].quoted));
    }
}

Test(text, quotes_are_cut_between_characters)
{
    static const char sign[] = "\xe2\x82\xac";
    char bytes[100];
    char buffer[128];
    memset(bytes, 'a', sizeof bytes);
    for (size_t i = 0; sign[i] != '\0'; i++) {
        bytes[62 + i] = sign[i];
    }
    pleat_text_t text = pleat_text_begin(buffer, sizeof buffer);
    pleat_text_quote(&text, bytes, sizeof bytes);
    cr_expect(eq(sz, text.length, 62 + 5));
    cr_expect(eq(str, buffer + 60, "aaa...'"));
}

Test(text, reals_are_as_short_as_they_can_be)
{
    static const struct {
        double value;
        const char *text;
    } rows[] = {
        {0.5, "0.5"},
        {0.1, "0.1"},
        {1.0 / 3.0, "0.3333333333333333"},
        {0.0, "0.0"},
        {1.0, "1.0"},
        {1e-5, "1e-05"},
        {0.30000000000000004, "0.30000000000000004"},
        {HUGE_VAL, "inf"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char buffer[64];
        pleat_text_t text = pleat_text_begin(buffer, sizeof buffer);
        pleat_text_real(&text, rows[i].value);
        cr_expect(eq(str, buffer, (char *)rows[i].text));
    }
}

Test(text, a_decimal_comma_changes_nothing)
{
    char buffer[32];
    char *end = NULL;
    /* Without such a locale on the machine the test still holds, of the one in force. */
    (void)setlocale(LC_ALL, "de_DE.UTF-8");
    pleat_text_t text = pleat_text_begin(buffer, sizeof buffer);
    pleat_text_fixed(&text, 1.5, 2);
    pleat_text_append(&text, " ");
    pleat_text_real(&text, 0.25);
    cr_expect(eq(str, buffer, "1.50 0.25"));
    const char *number = "0.5,x";
    cr_expect(eq(dbl, pleat_text_to_real(number, &end), 0.5));
    cr_expect(eq(str, end, ",x"));
    errno = 0;
    cr_expect(eq(dbl, pleat_text_to_real("1e999", NULL), HUGE_VAL));
    cr_expect(eq(int, errno, ERANGE));
}
