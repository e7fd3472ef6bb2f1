/*
 * Tests of pleated_find: what is found without the device, and that a program which goes round
 * comes to rest.
 */
#include "core/pleated_find.h"

#include "pleated_bench.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#define SIZE_COUNT 64u
#define LIVE_COUNT 32u

/* ---- a program that goes round ---- */

static uint64_t random_next(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

/* Sizes of all magnitudes from 512 bytes to 64 MiB. */
static void draw_sizes(uint64_t seed, uint64_t *sizes)
{
    uint64_t state = seed;
    for (unsigned i = 0; i < SIZE_COUNT; i++) {
        const uint64_t base = UINT64_C(512) << (random_next(&state) % 17);
        sizes[i] = base + random_next(&state) % base;
    }
}

/* The same sizes in the same order @p count times, half of them alive. */
static void go_round(const fixture_t *f, const uint64_t *sizes, pleat_devptr_t *slots,
                     unsigned count)
{
    for (unsigned i = 0; i < count * SIZE_COUNT; i++) {
        pleat_devptr_t *slot = &slots[i % LIVE_COUNT];
        if (*slot != 0) {
            fixture_free(f, *slot);
        }
        *slot = fixture_alloc(f, sizes[i * 29 % SIZE_COUNT], 0);
    }
}

static uint64_t device_calls(const fixture_t *f)
{
    return fixture_calls(f, PLEAT_VMM_CALL_MAP) + fixture_calls(f, PLEAT_VMM_CALL_CHUNK_CREATE);
}

Test(pleated_find, a_program_that_goes_round_needs_few_mappings, .timeout = 60)
{
    for (uint64_t seed = 1; seed <= 5; seed++) {
        pleat_options_t options = PLEAT_OPTIONS_INIT;
        options.mode = PLEAT_MODE_PLEATED;
        fixture_t f = fixture_create(
            &(fixture_options_t){.capacity_bytes = UINT64_C(8) << 30, .options = &options});
        uint64_t sizes[SIZE_COUNT];
        pleat_devptr_t slots[LIVE_COUNT] = {0};
        draw_sizes(seed, sizes);
        go_round(&f, sizes, slots, 300);
        const uint64_t before = device_calls(&f);
        go_round(&f, sizes, slots, 300);
        cr_expect(le(u64, device_calls(&f) - before, 300), "seed %d", (int)seed);
        const pleat_stats_t stats = fixture_stats(&f);
        cr_expect(lt(i64, stats.reserved_bytes[PLEAT_STAT_ALL].current,
                     stats.active_bytes[PLEAT_STAT_ALL].peak * 3 / 2));
        fixture_check_and_destroy(&f);
    }
}

/* Under a limit there is nothing to buy views off with, and none is exceeded. */
Test(pleated_find, a_limit_holds_however_many_views_are_made, .timeout = 60)
{
    pleat_options_t options = PLEAT_OPTIONS_INIT;
    options.mode = PLEAT_MODE_PLEATED;
    options.limit_bytes = MIB(400);
    fixture_t f = fixture_create(
        &(fixture_options_t){.capacity_bytes = UINT64_C(8) << 30, .options = &options});
    pleat_devptr_t slots[LIVE_COUNT] = {0};
    uint64_t sizes[SIZE_COUNT];
    draw_sizes(1, sizes);
    for (unsigned i = 0; i < 300 * SIZE_COUNT; i++) {
        pleat_devptr_t *slot = &slots[i % LIVE_COUNT];
        fixture_free(&f, *slot);
        *slot = 0;
        const pleat_status_t status = pleat_alloc(f.allocator, sizes[i * 29 % SIZE_COUNT], 0, slot);
        cr_expect(status == PLEAT_OK || status == PLEAT_ERR_OOM_DEVICE);
        cr_expect(le(u64, f.allocator->held_bytes, MIB(400)));
    }
    fixture_check_and_destroy(&f);
}
