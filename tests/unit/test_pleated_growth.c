/*
 * Tests of the option of growth in pleated mode: when memory must be had, as much more as it asks
 * for is had at once, within the limit and the device; else what is needed.
 */
#include "pleated_bench.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

static fixture_t make(uint64_t capacity_mib, double factor)
{
    pleat_options_t options = bench_options();
    options.pleated_growth_factor = factor;
    return bench_create(capacity_mib, &options);
}

static uint64_t reserved(const fixture_t *f)
{
    return (uint64_t)fixture_stats(f).reserved_bytes[PLEAT_STAT_ALL].current;
}

Test(pleated_growth, by_default_only_what_is_needed, .timeout = 5)
{
    fixture_t f = make(1024, 1.0);
    const uint64_t infos = fixture_calls(&f, PLEAT_VMM_CALL_MEM_INFO);
    for (uint64_t i = 1; i <= 6; i++) {
        (void)fixture_alloc(&f, MIB(32), 0);
        cr_expect(eq(u64, reserved(&f), MIB(32 * i)));
    }
    cr_expect(eq(u64, fixture_calls(&f, PLEAT_VMM_CALL_MEM_INFO), infos + 1), "of the arena");
    fixture_check_and_destroy(&f);
}

Test(pleated_growth, a_factor_doubles_what_is_held, .timeout = 5)
{
    static const uint64_t want[] = {32, 64, 128, 128, 256, 256, 256, 256, 512};
    fixture_t f = make(1024, 2.0);
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        (void)fixture_alloc(&f, MIB(32), 0);
        cr_expect(eq(u64, reserved(&f), MIB(want[i])), "request %zu", i);
    }
    fixture_check_and_destroy(&f);
}

Test(pleated_growth, comes_in_whole_handles_and_never_below_the_need, .timeout = 5)
{
    fixture_t f = make(2048, 1.5);
    (void)fixture_alloc(&f, MIB(100), 0); /* 7 handles of 16 MiB, the last of 4 */
    cr_expect(eq(u64, reserved(&f), MIB(100)));
    (void)fixture_alloc(&f, MIB(10), 0); /* 50 asked for: 64 */
    cr_expect(eq(u64, reserved(&f), MIB(164)));
    (void)fixture_alloc(&f, MIB(400), 0); /* 54 free behind; 82 asked for, 346 needed */
    cr_expect(eq(u64, reserved(&f), MIB(510)));
    fixture_check_and_destroy(&f);
}

Test(pleated_growth, stays_within_the_limit, .timeout = 5)
{
    fixture_t f = make(1024, 4.0);
    (void)fixture_alloc(&f, MIB(64), 0);
    fixture_set_limit(&f, MIB(128));
    (void)fixture_alloc(&f, MIB(32), 0); /* 192 asked for, 64 allowed */
    cr_expect(eq(u64, reserved(&f), MIB(128)));
    (void)fixture_alloc(&f, MIB(32), 0);
    cr_expect(eq(u64, reserved(&f), MIB(128)));
    pleat_devptr_t ptr = 0;
    cr_expect(eq(int, pleat_alloc(f.allocator, MIB(2), 0, &ptr), PLEAT_ERR_OOM_DEVICE));
    fixture_check_and_destroy(&f);
}

Test(pleated_growth, stays_within_the_device, .timeout = 5)
{
    fixture_t f = make(100, 10.0);
    (void)fixture_alloc(&f, MIB(64), 0);
    (void)fixture_alloc(&f, MIB(16), 0);
    cr_expect(eq(u64, reserved(&f), MIB(100)));
    (void)fixture_alloc(&f, MIB(20), 0);
    cr_expect(eq(u64, reserved(&f), MIB(100)));
    fixture_check_and_destroy(&f);
}

Test(pleated_growth, what_cannot_be_had_is_not_insisted_on, .timeout = 5)
{
    fixture_t f = make(1024, 2.0);
    (void)fixture_alloc(&f, MIB(64), 0);
    fixture_fail_call(&f, PLEAT_VMM_CALL_CHUNK_CREATE, 3, PLEAT_ERR_OOM_DEVICE);
    (void)fixture_alloc(&f, MIB(16), 0);
    cr_expect(eq(u64, reserved(&f), MIB(80)));
    cr_expect(eq(i64, fixture_stats(&f).num_alloc_retries, 0));
    fixture_check_and_destroy(&f);
}

Test(pleated_growth, a_device_that_cannot_tell_its_room_fails_the_request, .timeout = 5)
{
    fixture_t f = make(1024, 2.0);
    (void)fixture_alloc(&f, MIB(64), 0);
    const fixture_state_t before = fixture_state(&f);
    fixture_fail_call(&f, PLEAT_VMM_CALL_MEM_INFO, 1, PLEAT_ERR_DRIVER);
    pleat_devptr_t ptr = 0;
    cr_expect(eq(int, pleat_alloc(f.allocator, MIB(16), 0, &ptr), PLEAT_ERR_DRIVER));
    bench_require_same(&f, &before);
    fixture_state_t state = before;
    fixture_state_drop(&state);
    fixture_check_and_destroy(&f);
}

/* More than the peak asks for: gaps that could be joined with little new memory. */
Test(pleated_growth, goes_before_joining_with_new_memory, .timeout = 5)
{
    for (int i = 0; i < 2; i++) {
        fixture_t f = make(1024, i == 0 ? 1.0 : 1.5);
        pleat_arena_t *arena = bench_arena(&f, 0);
        for (uint64_t j = 0; j < 4; j++) {
            (void)bench_handle(&f, arena, 16 * j, 16);
        }
        (void)bench_take(&f, arena, 16, 16);
        (void)bench_take(&f, arena, 48, 16);
        f.allocator->live_peak_bytes = MIB(32);
        (void)fixture_alloc(&f, MIB(40), 0); /* 32 lie free in two gaps, none at the end */
        cr_expect(eq(u64, reserved(&f), i == 0 ? MIB(72) : MIB(104)));
        fixture_check_and_destroy(&f);
    }
}

Test(pleated_growth, a_chunk_of_its_own_and_other_modes_do_not_follow, .timeout = 5)
{
    fixture_t f = make(1024, 4.0);
    pleat_devptr_t ptr = 0;
    (void)fixture_alloc(&f, MIB(64), 0);
    cr_expect(eq(int, pleat_alloc_single(f.allocator, MIB(32), 0, &ptr), PLEAT_OK));
    cr_expect(eq(u64, reserved(&f), MIB(96)));
    pleat_options_t options = bench_options();
    options.pleated_growth_factor = 4.0;
    options.mode = PLEAT_MODE_CLASSIC;
    fixture_set_options(&f, &options);
    (void)fixture_alloc(&f, MIB(32), 0);
    cr_expect(eq(u64, reserved(&f), MIB(128)));
    fixture_check_and_destroy(&f);
}

Test(pleated_growth, the_factor_is_checked, .timeout = 5)
{
    fixture_t f = make(64, 1.0);
    pleat_options_t options = bench_options();
    const double bad[] = {0.0, 0.999, -1.0, 1e9};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        options.pleated_growth_factor = bad[i];
        cr_expect(eq(int, pleat_set_options(f.allocator, &options), PLEAT_ERR_INVALID));
    }
    fixture_check_and_destroy(&f);
}
