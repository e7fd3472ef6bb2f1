/*
 * test_scan: words and numbers of a line, their limits, and the place in an error.
 */
#include "input_fixture.h"
#include "scan.h"

#include <criterion/new/assert.h>

static pleat_text_t text_of(const char *string)
{
    return (pleat_text_t){.start = string, .length = strlen(string)};
}

Test(scan, decimal_numbers_end_at_64_bits)
{
    uint64_t value = 7;
    cr_expect(pleat_text_to_decimal(text_of("18446744073709551615"), &value));
    cr_expect(eq(u64, value, UINT64_MAX));
    cr_expect(pleat_text_to_decimal(text_of("000"), &value));
    cr_expect(eq(u64, value, 0));
    static const char *const wrong[] = {
        "", "18446744073709551616", "99999999999999999999", "-1", "+1", "1x", " 1", "0x10"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        cr_expect(pleat_text_to_decimal(text_of(wrong[i]), &value) == false, "%s", wrong[i]);
    }
}

Test(scan, hexadecimal_numbers_end_at_64_bits)
{
    uint64_t value = 0;
    cr_expect(pleat_text_to_hexadecimal(text_of("0x7fbaA2"), &value));
    cr_expect(eq(u64, value, 0x7fbaa2));
    cr_expect(pleat_text_to_hexadecimal(text_of("ffffffffffffffff"), &value));
    cr_expect(eq(u64, value, UINT64_MAX));
    static const char *const wrong[] = {"", "0x", "1ffffffffffffffff", "7g", "-1"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        cr_expect(pleat_text_to_hexadecimal(text_of(wrong[i]), &value) == false, "%s", wrong[i]);
    }
}

Test(scan, sizes_take_units)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } rows[] = {{"576000000", 576000000},
                {"46592KiB", UINT64_C(46592) << 10},
                {"64MiB", UINT64_C(64) << 20},
                {"17179869183GiB", UINT64_C(17179869183) << 30}};
    uint64_t value = 0;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        cr_expect(pleat_text_to_size(text_of(rows[i].text), &value));
        cr_expect(eq(u64, value, rows[i].bytes));
    }
    static const char *const wrong[] = {"", "MiB", "1MB", "1 MiB", "17179869184GiB", "1.5GiB"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        cr_expect(pleat_text_to_size(text_of(wrong[i]), &value) == false, "%s", wrong[i]);
    }
}

Test(scan, signed_numbers_end_at_63_bits)
{
    int64_t value = 0;
    cr_expect(pleat_text_to_signed(text_of("-1"), &value));
    cr_expect(eq(i64, value, -1));
    cr_expect(pleat_text_to_signed(text_of("9223372036854775807"), &value));
    cr_expect(eq(i64, value, INT64_MAX));
    cr_expect(not(pleat_text_to_signed(text_of("9223372036854775808"), &value)));
    cr_expect(not(pleat_text_to_signed(text_of("-"), &value)));
    cr_expect(not(pleat_text_to_signed(text_of("--1"), &value)));
}

Test(scan, errors_name_file_line_and_column)
{
    const pleat_input_line_t line = {.text = "  12  abc 5", .length = 11, .number = 4};
    pleat_scan_t scan = pleat_scan_line("file", &line);
    uint64_t value = 0;
    cr_assert(pleat_scan_decimal(&scan, "count", &value) == PLEAT_OK);
    cr_expect(eq(u64, value, 12));
    pleat_scan_t again = scan;
    cr_expect(eq(int, pleat_scan_decimal(&scan, "count", &value), PLEAT_ERR_FORMAT));
    INPUT_FIXTURE_EXPECT_ERROR("file:4:7: 'abc' is no count: decimal digits");
    cr_assert(pleat_scan_hexadecimal(&again, "address", &value) == PLEAT_OK);
    pleat_scan_t before_end = again;
    cr_expect(eq(int, pleat_scan_end(&again, "A B"), PLEAT_ERR_FORMAT));
    INPUT_FIXTURE_EXPECT_ERROR("file:4:11: unexpected '5'; the line has the form 'A B'");
    cr_assert(pleat_scan_size(&before_end, "size", &value) == PLEAT_OK);
    cr_assert(pleat_scan_end(&before_end, "A B") == PLEAT_OK);
    cr_expect(eq(int, pleat_scan_size(&before_end, "size", &value), PLEAT_ERR_FORMAT));
    INPUT_FIXTURE_EXPECT_ERROR("file:4:12: size is missing");
    cr_expect(eq(int, pleat_scan_hexadecimal(&before_end, "address", &value), PLEAT_ERR_FORMAT));
    INPUT_FIXTURE_EXPECT_ERROR("file:4:12: address is missing");
}
