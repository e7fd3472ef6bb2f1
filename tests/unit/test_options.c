/*
 * Tests of options: defaults, ranges, structs of other sizes.
 */
#include "core/options.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

static const pleat_options_t defaults = PLEAT_OPTIONS_INIT;

static void expect_refused(const pleat_options_t *options, const char *text)
{
    pleat_options_t result;
    pleat_options_t before;
    memset(&result, 0x5a, sizeof(result));
    before = result;
    cr_expect(eq(int, pleat_options_read(options, &result), PLEAT_ERR_INVALID), "%s", text);
    cr_expect(eq(ptr, strstr(pleat_last_error(), text), (char *)pleat_last_error()),
              "wanted '%s', got '%s'", text, pleat_last_error());
    cr_expect(memcmp(&result, &before, sizeof(result)) == 0, "the output was touched");
}

static void expect_taken(const pleat_options_t *options)
{
    pleat_options_t result = {0};
    cr_expect(eq(int, pleat_options_read(options, &result), PLEAT_OK), "%s", pleat_last_error());
    cr_expect(memcmp(options, &result, sizeof(result)) == 0);
}

Test(options, null_means_the_defaults, .timeout = 5)
{
    pleat_options_t options = {0};
    cr_assert(eq(int, pleat_options_read(NULL, &options), PLEAT_OK));
    cr_expect(memcmp(&options, &defaults, sizeof(options)) == 0);
    cr_expect(eq(u64, options.limit_bytes, PLEAT_NO_LIMIT));
    cr_expect(eq(u64, options.max_split_bytes, PLEAT_UNLIMITED));
    cr_expect(eq(u64, options.large_segment_bytes, 20 * PLEAT_MIB));
    cr_expect(not(pleat_options_has_limit(&options)));
    cr_expect(not(pleat_options_collects_garbage(&options)));
}

Test(options, every_border_of_every_range, .timeout = 5){
#define TRY_BORDERS(name, type, initial, smallest, largest, unit, help) \
    {                                                                   \
        pleat_options_t options = defaults;                             \
        options.name = (smallest);                                      \
        expect_taken(&options);                                         \
        options.name = (largest);                                       \
        expect_taken(&options);                                         \
        if ((double)(smallest) > 0) {                                   \
            options.name = (type)((smallest)-1);                        \
            expect_refused(&options, "option " #name " is ");           \
        }                                                               \
        if ((double)(largest) < 1e19) {                                 \
            options.name = (type)((largest) + 1);                       \
            expect_refused(&options, "option " #name " is ");           \
        }                                                               \
    }
    PLEAT_OPTION_LIST(TRY_BORDERS)
#undef TRY_BORDERS
}

Test(options, messages_name_value_and_range, .timeout = 5)
{
    pleat_options_t options = defaults;
    options.max_split_bytes = 0;
    expect_refused(&options, "option max_split_bytes is 0; allowed is 1 to 18446744073709551615");

    options = defaults;
    options.garbage_collection_threshold = 1.5;
    expect_refused(&options, "option garbage_collection_threshold is 1.5; allowed is 0 to 1");
    options.garbage_collection_threshold = -0.25;
    expect_refused(&options, "option garbage_collection_threshold is -0.25; allowed is 0 to 1");
    options.garbage_collection_threshold = (double)NAN;
    expect_refused(&options, "option garbage_collection_threshold is ");

    options = defaults;
    options.large_segment_bytes += 1;
    expect_refused(&options, "option large_segment_bytes is 20971521; allowed are multiples of "
                             "512");
}

Test(options, divisions_are_zero_or_powers_of_two, .timeout = 5)
{
    for (unsigned i = 0; i < PLEAT_ROUNDUP_ENTRIES; i++) {
        pleat_options_t options = defaults;
        for (unsigned bit = 0; bit < 64; bit++) {
            options.roundup_power2_divisions[i] = UINT64_C(1) << bit;
            expect_taken(&options);
        }
        options.roundup_power2_divisions[i] = 6;
        char text[80];
        (void)snprintf(text, sizeof(text), "option roundup_power2_divisions[%u] is 6; ", i);
        expect_refused(&options, text);
    }
}

Test(options, a_struct_of_an_older_library_takes_defaults, .timeout = 5)
{
    pleat_options_t given = defaults;
    pleat_options_t options = {0};
    given.limit_bytes = 5 * PLEAT_MIB;
    given.max_split_bytes = 7;
    given.size = offsetof(pleat_options_t, max_split_bytes);
    cr_assert(eq(int, pleat_options_read(&given, &options), PLEAT_OK));
    cr_expect(eq(u64, options.limit_bytes, 5 * PLEAT_MIB));
    cr_expect(eq(u64, options.max_split_bytes, defaults.max_split_bytes));
    cr_expect(eq(sz, options.size, sizeof(options)));

    given.size = sizeof(given.size); /* nothing but its size */
    cr_assert(eq(int, pleat_options_read(&given, &options), PLEAT_OK));
    cr_expect(memcmp(&options, &defaults, sizeof(options)) == 0);

    given.size = sizeof(given.size) - 1;
    expect_refused(&given, "options have no size");
}

Test(options, a_struct_of_a_newer_library_is_read_as_far_as_known, .timeout = 5)
{
    struct {
        pleat_options_t known;
        uint64_t unknown;
    } given = {.known = PLEAT_OPTIONS_INIT, .unknown = 99};
    given.known.size = sizeof(given);
    given.known.limit_bytes = 12345;
    pleat_options_t options = {0};
    cr_assert(eq(int, pleat_options_read(&given.known, &options), PLEAT_OK));
    cr_expect(eq(u64, options.limit_bytes, 12345));
    cr_expect(eq(sz, options.size, sizeof(options)));

    pleat_options_write(&options, &given.known);
    cr_expect(eq(sz, given.known.size, sizeof(given)));
    cr_expect(eq(u64, given.unknown, 99));
}

Test(options, writes_as_far_as_the_target_goes, .timeout = 5)
{
    pleat_options_t options = defaults;
    options.limit_bytes = 1;
    options.max_split_bytes = 2;
    pleat_options_t target = {.size = offsetof(pleat_options_t, max_split_bytes)};
    pleat_options_write(&options, &target);
    cr_expect(eq(u64, target.limit_bytes, 1));
    cr_expect(eq(u64, target.max_split_bytes, 0));
    cr_expect(eq(sz, target.size, offsetof(pleat_options_t, max_split_bytes)));
}

Test(options, what_values_mean_together, .timeout = 5)
{
    pleat_options_t options = defaults;
    options.large_segment_bytes = 32 * PLEAT_MIB;
    cr_expect(eq(u64, pleat_options_rounding_bytes(&options), 32 * PLEAT_MIB));
    options.max_non_split_rounding_bytes = 50 * PLEAT_MIB;
    cr_expect(eq(u64, pleat_options_rounding_bytes(&options), 50 * PLEAT_MIB));

    options.garbage_collection_threshold = 0.5;
    cr_expect(not(pleat_options_collects_garbage(&options)), "no limit");
    options.limit_bytes = 0;
    cr_expect(pleat_options_has_limit(&options));
    cr_expect(pleat_options_collects_garbage(&options));
    options.garbage_collection_threshold = 0.0;
    cr_expect(not(pleat_options_collects_garbage(&options)));
}
