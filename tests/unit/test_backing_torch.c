/*
 * Tests of backing_torch: where expandable ranges grow, which block they hand out, and what earlier
 * steps leave when a later one fails.
 */
#include "core/allocator.h"
#include "core/range.h"

#include "fixture.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#define MIB(count) ((uint64_t)(count)*PLEAT_MIB)

static fixture_t make(uint64_t capacity_mib)
{
    pleat_options_t options = PLEAT_OPTIONS_INIT;
    options.mode = PLEAT_MODE_TORCH_EXPANDABLE;
    return fixture_create(
        &(fixture_options_t){.capacity_bytes = MIB(capacity_mib), .options = &options});
}

static uint64_t reserved(const fixture_t *f)
{
    return (uint64_t)fixture_stats(f).reserved_bytes[PLEAT_STAT_ALL].current;
}

Test(backing_torch, requests_are_split_to_the_byte, .timeout = 5)
{
    fixture_t f = make(800);
    const pleat_devptr_t a = fixture_alloc(&f, MIB(3), 0);
    const pleat_devptr_t b = fixture_alloc(&f, MIB(3), 0);
    cr_expect(eq(u64, b, a + MIB(3)));
    cr_expect(eq(u64, reserved(&f), MIB(20)));
    const pleat_stats_t stats = fixture_stats(&f);
    cr_expect(eq(i64, stats.segment[PLEAT_STAT_ALL].current, 0));
    cr_expect(eq(i64, stats.inactive_split[PLEAT_STAT_ALL].current, 0));
    cr_expect(eq(str, (char *)pleat_backing_torch()->name, (char *)"torch_expandable"));
    fixture_check_and_destroy(&f);
}

Test(backing_torch, streams_and_pools_have_ranges_of_their_own, .timeout = 5)
{
    fixture_t f = make(800);
    (void)fixture_alloc(&f, MIB(3), 0);
    (void)fixture_alloc(&f, MIB(3), 1);
    (void)fixture_alloc(&f, 1000, 0);
    cr_expect(eq(u64, reserved(&f), MIB(42)));
    unsigned ranges = 0;
    for (const pleat_range_t *range = f.allocator->ranges; range != NULL; range = range->next) {
        ranges++;
    }
    cr_expect(eq(uint, ranges, 3));
    fixture_check_and_destroy(&f);
}

Test(backing_torch, growth_begins_in_what_is_free_at_the_end, .timeout = 5)
{
    fixture_t f = make(800);
    const pleat_devptr_t a = fixture_alloc(&f, MIB(30), 0); /* 10 MiB stay free behind it */
    const pleat_devptr_t b = fixture_alloc(&f, MIB(45), 0);
    cr_expect(eq(u64, b, a + MIB(30)));
    cr_expect(eq(u64, reserved(&f), MIB(80)));
    cr_expect(eq(i64, fixture_stats(&f).num_device_alloc, 2));
    fixture_check_and_destroy(&f);
}

Test(backing_torch, the_lowest_hole_of_pages_is_filled_first, .timeout = 5)
{
    fixture_t f = make(800);
    const pleat_devptr_t a = fixture_alloc(&f, MIB(40), 0);
    (void)fixture_alloc(&f, MIB(40), 0);
    fixture_free(&f, a);
    fixture_empty(&f);
    cr_expect(eq(u64, reserved(&f), MIB(40)));
    cr_expect(eq(u64, fixture_alloc(&f, MIB(25), 0), a));
    cr_expect(eq(u64, reserved(&f), MIB(80)));
    /* 15 MiB are free there now and no pages behind them: this one goes to the end. */
    cr_expect(eq(u64, fixture_alloc(&f, MIB(16), 0), a + MIB(80)));
    fixture_check_and_destroy(&f);
}

Test(backing_torch, a_hole_that_is_too_small_is_passed_over, .timeout = 5)
{
    fixture_t f = make(800);
    const pleat_devptr_t a = fixture_alloc(&f, MIB(20), 0);
    (void)fixture_alloc(&f, MIB(20), 0);
    fixture_free(&f, a);
    fixture_empty(&f);
    cr_expect(eq(u64, fixture_alloc(&f, MIB(40), 0), a + MIB(40)));
    fixture_check_and_destroy(&f);
}

Test(backing_torch, a_growth_that_fails_leaves_an_empty_range, .timeout = 5)
{
    fixture_t f = make(800);
    pleat_devptr_t ptr = 0;
    fixture_fail_call(&f, PLEAT_VMM_CALL_CHUNK_CREATE, 2, PLEAT_ERR_DRIVER);
    cr_expect(eq(int, pleat_alloc(f.allocator, MIB(40), 0, &ptr), PLEAT_ERR_DRIVER));
    cr_expect(eq(u64, reserved(&f), 0));
    fixture_check(&f);
    /* A free block at the end, and pages behind it that cannot be had. */
    const pleat_devptr_t a = fixture_alloc(&f, MIB(30), 0);
    fixture_fail_call(&f, PLEAT_VMM_CALL_CHUNK_CREATE, 1, PLEAT_ERR_DRIVER);
    cr_expect(eq(int, pleat_alloc(f.allocator, MIB(40), 0, &ptr), PLEAT_ERR_DRIVER));
    cr_expect(eq(u64, reserved(&f), MIB(40)));
    cr_expect(eq(u64, fixture_alloc(&f, MIB(40), 0), a + MIB(30)));
    fixture_check_and_destroy(&f);
}

Test(backing_torch, blocks_with_less_room_behind_them_are_preferred, .timeout = 5)
{
    fixture_t f = make(800);
    const pleat_devptr_t a = fixture_alloc(&f, MIB(28), 0);
    (void)fixture_alloc(&f, MIB(12), 0);
    const pleat_devptr_t c = fixture_alloc(&f, MIB(14), 0); /* 6 MiB free behind it, then pages */
    fixture_free(&f, a);
    /* The best fit for 5 MiB is at the end; the hole in front wastes less of the range. */
    cr_expect(eq(u64, fixture_alloc(&f, MIB(5), 0), a));
    fixture_free(&f, c);
    fixture_check_and_destroy(&f);
}

Test(backing_torch, pages_that_were_mapped_first_stay, .timeout = 5)
{
    fixture_t f = make(800);
    const pleat_devptr_t a = fixture_alloc(&f, MIB(20), 0);
    const pleat_devptr_t b = fixture_alloc(&f, MIB(20), 0);
    const pleat_devptr_t c = fixture_alloc(&f, MIB(20), 0);
    (void)fixture_alloc(&f, MIB(20), 0);
    fixture_free(&f, a);
    fixture_empty(&f);
    fixture_free(&f, c);
    fixture_empty(&f);
    fixture_free(&f, b); /* unmapped, free, unmapped, live */
    fixture_fail_call(&f, PLEAT_VMM_CALL_CHUNK_CREATE, 2, PLEAT_ERR_DRIVER);
    pleat_devptr_t ptr = 0;
    cr_expect(eq(int, pleat_alloc(f.allocator, MIB(60), 0, &ptr), PLEAT_ERR_DRIVER));
    cr_expect(eq(u64, reserved(&f), MIB(60)));
    fixture_check(&f);
    cr_expect(eq(u64, fixture_alloc(&f, MIB(60), 0), a));
    cr_expect(eq(u64, reserved(&f), MIB(80)));
    fixture_check_and_destroy(&f);
}

Test(backing_torch, a_retry_gives_pages_back, .timeout = 5)
{
    fixture_t f = make(100);
    fixture_free(&f, fixture_alloc(&f, MIB(80), 1));
    (void)fixture_alloc(&f, MIB(60), 2);
    const pleat_stats_t stats = fixture_stats(&f);
    cr_expect(eq(i64, stats.num_alloc_retries, 1));
    cr_expect(eq(i64, stats.num_ooms, 0));
    cr_expect(eq(u64, reserved(&f), MIB(60)));
    fixture_check_and_destroy(&f);
}

Test(backing_torch, slabs_of_pleated_mode_are_left_alone, .timeout = 5)
{
    pleat_options_t options = PLEAT_OPTIONS_INIT;
    options.mode = PLEAT_MODE_PLEATED;
    fixture_t f = fixture_create(&(fixture_options_t){.options = &options});
    (void)fixture_alloc(&f, 5000, 0); /* the rest of its slab is free */
    options.mode = PLEAT_MODE_TORCH_EXPANDABLE;
    fixture_set_options(&f, &options);
    /* Neither as the best fit nor as one that wastes less of a range. */
    for (unsigned i = 0; i < 20; i++) {
        const pleat_devptr_t a = fixture_alloc(&f, 5000, 0);
        cr_expect(ne(ptr, pleat_address_map_find(&f.allocator->live, a)->range, NULL));
    }
    fixture_check_and_destroy(&f);
}

Test(backing_torch, one_chunk_is_not_to_be_had, .timeout = 5)
{
    fixture_t f = make(100);
    pleat_devptr_t ptr = 0;
    cr_expect(eq(int, pleat_alloc_single(f.allocator, MIB(4), 0, &ptr), PLEAT_ERR_UNSUPPORTED));
    cr_expect(eq(u64, ptr, 0));
    cr_expect(eq(u64, reserved(&f), 0));
    fixture_check_and_destroy(&f);
}
