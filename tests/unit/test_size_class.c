/*
 * Tests of size_class: rounding, choice of pool, segment size.
 */
#include "core/size_class.h"

#include "fixture.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

/* How a row's round-up table is filled. */
typedef enum table {
    TABLE_OFF,
    TABLE_FOUR, /* roundup_power2_divisions:4 */
    TABLE_LIST  /* roundup_power2_divisions:[1:2,4:4,8:8,32:1,>:16] */
} table_t;

static pleat_options_t options_with(table_t table)
{
    pleat_options_t options = PLEAT_OPTIONS_INIT;
    if (table == TABLE_FOUR) {
        for (unsigned i = 0; i < PLEAT_ROUNDUP_ENTRIES; i++) {
            options.roundup_power2_divisions[i] = 4;
        }
    } else if (table == TABLE_LIST) {
        options.roundup_power2_divisions[0] = 2;
        options.roundup_power2_divisions[2] = 4;
        options.roundup_power2_divisions[3] = 8;
        options.roundup_power2_divisions[5] = 1;
        for (unsigned i = 6; i < PLEAT_ROUNDUP_ENTRIES; i++) {
            options.roundup_power2_divisions[i] = 16;
        }
    }
    return options;
}

Test(size_class, rounds_as_pytorch_does, .timeout = 5)
{
    static const struct {
        uint64_t requested_bytes;
        table_t table;
        uint64_t rounded_bytes;
        bool is_small;
        uint64_t segment_mib;
    } rows[] = {
        {1, TABLE_OFF, 512, true, 2},
        {511, TABLE_OFF, 512, true, 2},
        {512, TABLE_OFF, 512, true, 2},
        {513, TABLE_OFF, 1024, true, 2},
        {1048065, TABLE_OFF, 1048576, true, 2},
        {1048576, TABLE_OFF, 1048576, true, 2},
        {1048577, TABLE_OFF, 1049088, false, 20},
        {10485247, TABLE_OFF, 10485248, false, 20},
        {10485248, TABLE_OFF, 10485248, false, 20},
        {10485249, TABLE_OFF, 10485760, false, 10},
        {10485760, TABLE_OFF, 10485760, false, 10},
        {10485761, TABLE_OFF, 10486272, false, 12},
        {20971521, TABLE_OFF, 20972032, false, 22},
        {1200, TABLE_FOUR, 1536, true, 2},
        {2048, TABLE_FOUR, 2048, true, 2},
        {2049, TABLE_FOUR, 2560, true, 2},
        {700000, TABLE_FOUR, 786432, true, 2},
        {1048575, TABLE_FOUR, 1048576, true, 2},
        {3145729, TABLE_FOUR, 3670016, false, 20},
        {9437185, TABLE_FOUR, 10485760, false, 10},
        {10485759, TABLE_FOUR, 10485760, false, 10},
        {104857601, TABLE_FOUR, 117440512, false, 112},
        {1048577, TABLE_LIST, 1572864, false, 20},
        {2097153, TABLE_LIST, 2097664, false, 20},
        {5242880, TABLE_LIST, 5242880, false, 20},
        {5242881, TABLE_LIST, 6291456, false, 20},
        {41943041, TABLE_LIST, 41943552, false, 42},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const pleat_options_t options = options_with(rows[i].table);
        const uint64_t rounded = pleat_size_round(&options, rows[i].requested_bytes);

        cr_expect(eq(u64, rounded, rows[i].rounded_bytes), "row %zu", i);
        cr_expect(eq(int, pleat_size_is_small(rounded), rows[i].is_small), "row %zu", i);
        cr_expect(eq(u64, pleat_size_segment(&options, rounded), rows[i].segment_mib * PLEAT_MIB),
                  "row %zu", i);
    }
}

Test(size_class, each_table_entry_serves_one_power_of_two, .timeout = 5)
{
    for (unsigned entry = 0; entry < PLEAT_ROUNDUP_ENTRIES; entry++) {
        pleat_options_t options = PLEAT_OPTIONS_INIT;
        options.roundup_power2_divisions[entry] = 2;
        for (unsigned other = 0; other < 24; other++) {
            const uint64_t power = PLEAT_MIB << other;
            const uint64_t last = PLEAT_ROUNDUP_ENTRIES - 1;
            const bool is_served = entry == (other < last ? other : last);

            cr_expect(eq(u64, pleat_size_round(&options, power + 1),
                         is_served ? power + power / 2 : power + 512),
                      "entry %u, 2^%u MiB", entry, other);
        }
    }
}

Test(size_class, first_entry_serves_all_small_sizes, .timeout = 5)
{
    pleat_options_t options = PLEAT_OPTIONS_INIT;
    options.roundup_power2_divisions[0] = 2;

    cr_expect(eq(u64, pleat_size_round(&options, 1024), 1024));
    cr_expect(eq(u64, pleat_size_round(&options, 1025), 1536));
    cr_expect(eq(u64, pleat_size_round(&options, 2 * PLEAT_MIB - 1), 2 * PLEAT_MIB));
}

Test(size_class, divisions_need_more_than_their_units, .timeout = 5)
{
    pleat_options_t options = PLEAT_OPTIONS_INIT;
    options.roundup_power2_divisions[0] = 16;

    /* 512 * 16 itself is rounded plainly, and so is everything below. */
    cr_expect(eq(u64, pleat_size_round(&options, 8191), 8192));
    cr_expect(eq(u64, pleat_size_round(&options, 4097), 4608));
    cr_expect(eq(u64, pleat_size_round(&options, 8192), 8192));
    cr_expect(eq(u64, pleat_size_round(&options, 8193), 8704));

    options.roundup_power2_divisions[0] = UINT64_C(1) << 63; /* no product may overflow */
    cr_expect(eq(u64, pleat_size_round(&options, 8193), 8704));
}

Test(size_class, largest_request_does_not_overflow, .timeout = 5)
{
    const pleat_options_t plain = options_with(TABLE_OFF);
    const pleat_options_t four = options_with(TABLE_FOUR);
    const uint64_t largest = PLEAT_REQUEST_END_BYTES - 1;

    cr_expect(eq(u64, pleat_size_round(&plain, largest), PLEAT_REQUEST_END_BYTES));
    cr_expect(eq(u64, pleat_size_round(&four, largest), PLEAT_REQUEST_END_BYTES));
    cr_expect(
        eq(u64, pleat_size_segment(&plain, PLEAT_REQUEST_END_BYTES), PLEAT_REQUEST_END_BYTES));
}

Test(size_class, segment_of_large_sizes_is_an_option, .timeout = 5)
{
    pleat_options_t options = PLEAT_OPTIONS_INIT;
    options.large_segment_bytes = 32 * PLEAT_MIB;

    cr_expect(eq(u64, pleat_size_segment(&options, PLEAT_MIB), 2 * PLEAT_MIB));
    cr_expect(eq(u64, pleat_size_segment(&options, PLEAT_MIB + 512), 32 * PLEAT_MIB));
    cr_expect(eq(u64, pleat_size_segment(&options, 10 * PLEAT_MIB - 512), 32 * PLEAT_MIB));
    cr_expect(eq(u64, pleat_size_segment(&options, 10 * PLEAT_MIB), 10 * PLEAT_MIB));
}

/* Rounding step by step as the description of PyTorch's has it. */
static uint64_t round_slowly(uint64_t requested_bytes, uint64_t divisions)
{
    if (requested_bytes < 512) {
        return 512;
    }
    if (divisions <= 1 || requested_bytes <= 512 * divisions) {
        return (requested_bytes + 511) / 512 * 512;
    }
    uint64_t floor2 = 1;
    while (floor2 * 2 <= requested_bytes) {
        floor2 *= 2;
    }
    if (floor2 == requested_bytes) {
        return requested_bytes;
    }
    const uint64_t step = floor2 / divisions;
    const uint64_t base = requested_bytes / step * step;
    return base == requested_bytes ? base : base + step;
}

Test(size_class, agrees_with_the_steps_on_random_sizes, .timeout = 20)
{
    fixture_random_t random = {.state = 7};
    for (unsigned round = 0; round < 200000; round++) {
        pleat_options_t options = PLEAT_OPTIONS_INIT;
        const uint64_t divisions = UINT64_C(1) << fixture_random_below(&random, 9);
        for (unsigned i = 0; i < PLEAT_ROUNDUP_ENTRIES; i++) {
            options.roundup_power2_divisions[i] = divisions;
        }
        const unsigned bits = (unsigned)fixture_random_below(&random, 58) + 1;
        const uint64_t requested = 1 + (fixture_random_next(&random) >> (64 - bits));
        const uint64_t rounded = pleat_size_round(&options, requested);

        cr_assert(eq(u64, rounded, round_slowly(requested, divisions)), "%llu by %llu",
                  (unsigned long long)requested, (unsigned long long)divisions);
        cr_assert(eq(u64, rounded % 512, 0));
        cr_assert(pleat_size_segment(&options, rounded) >= rounded);
    }
}
