/*
 * Tests of pool_checkpoint: a restore brings the same live blocks back to the same addresses, in
 * each mode, and fails as a whole or not at all.
 */
#include "core/allocator.h"
#include "core/pool_checkpoint.h"

#include "fixture.h"
#include "host_fault.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

#define MIB(count) ((uint64_t)(count)*PLEAT_MIB)

static const pleat_pool_id_t id = {0, 3};
static const pleat_mode_t modes[] = {PLEAT_MODE_CLASSIC, PLEAT_MODE_TORCH_EXPANDABLE,
                                     PLEAT_MODE_PLEATED};

enum { BLOCKS = 40 };

typedef struct bench {
    fixture_t f;
    fixture_random_t random;
    pleat_devptr_t live[BLOCKS]; /* 0: none */
} bench_t;

static bench_t create(pleat_mode_t mode, uint64_t capacity_bytes)
{
    pleat_options_t options = PLEAT_OPTIONS_INIT;
    options.mode = mode;
    options.pleated_handle_max_bytes = MIB(16);
    bench_t bench = {.f = fixture_create(&(fixture_options_t){.capacity_bytes = capacity_bytes,
                                                              .options = &options})};
    FIXTURE_REQUIRE(pleat_pool_begin(bench.f.allocator, id, NULL, NULL) == PLEAT_OK, "begin");
    return bench;
}

static void shuffle(bench_t *bench, unsigned steps)
{
    static const uint64_t sizes[] = {700, 5000, MIB(1) / 2, MIB(2), MIB(3), MIB(12), MIB(24)};
    for (unsigned i = 0; i < steps; i++) {
        pleat_devptr_t *slot = &bench->live[fixture_random_below(&bench->random, BLOCKS)];
        if (*slot != 0) {
            fixture_free(&bench->f, *slot);
            *slot = 0;
        } else {
            const uint64_t bytes = sizes[fixture_random_below(&bench->random, 7)];
            const pleat_stream_t stream = fixture_random_below(&bench->random, 2);
            if (pleat_alloc(bench->f.allocator, bytes, stream, slot) != PLEAT_OK) {
                *slot = 0;
            }
        }
        fixture_check(&bench->f);
    }
}

static size_t count_live(const bench_t *bench)
{
    size_t count = 0;
    for (size_t i = 0; i < BLOCKS; i++) {
        count += bench->live[i] != 0;
    }
    return count;
}

static pleat_pool_checkpoint_t *take(const bench_t *bench)
{
    pleat_pool_checkpoint_t *checkpoint = NULL;
    FIXTURE_REQUIRE(pleat_pool_checkpoint_take(bench->f.allocator, id, &checkpoint) == PLEAT_OK,
                    "%s", pleat_last_error());
    return checkpoint;
}

static void restore(bench_t *bench, const pleat_pool_checkpoint_t *checkpoint,
                    pleat_pool_delta_t *delta)
{
    FIXTURE_REQUIRE(pleat_pool_checkpoint_restore(bench->f.allocator, checkpoint, delta) ==
                        PLEAT_OK,
                    "%s", pleat_last_error());
    fixture_check(&bench->f);
}

static bool holds(const pleat_devptr_t *list, uint64_t count, pleat_devptr_t ptr)
{
    for (uint64_t i = 0; i < count; i++) {
        if (list[i] == ptr) {
            return true;
        }
    }
    return false;
}

static uint64_t bytes_at(const bench_t *bench, pleat_devptr_t ptr)
{
    pleat_pointer_info_t info = PLEAT_POINTER_INFO_INIT;
    FIXTURE_REQUIRE(pleat_find_pointer(bench->f.allocator, ptr, &info) == PLEAT_OK, "%s",
                    pleat_last_error());
    return info.block_bytes;
}

static void finish(bench_t *bench)
{
    for (size_t i = 0; i < BLOCKS; i++) {
        if (bench->live[i] != 0) {
            fixture_free(&bench->f, bench->live[i]);
        }
    }
    cr_assert(eq(int, pleat_pool_end(bench->f.allocator, id), PLEAT_OK));
    cr_assert(eq(int, pleat_pool_release(bench->f.allocator, id), PLEAT_OK));
    fixture_empty(&bench->f);
    cr_expect(eq(i64, fixture_stats(&bench->f).reserved_bytes[PLEAT_STAT_ALL].current, 0));
    fixture_check_and_destroy(&bench->f);
}

Test(pool_checkpoint, blocks_come_back_where_they_were, .timeout = 60)
{
    int64_t view_count = 0;
    for (size_t m = 0; m < 3 * 40; m++) {
        /* Little memory makes pleated mode use views. */
        bench_t bench = create(modes[m % 3], m % 2 == 0 ? MIB(100) : MIB(4096));
        bench.random.state = m;
        shuffle(&bench, 60);
        pleat_devptr_t live[BLOCKS];
        uint64_t bytes[BLOCKS] = {0};
        memcpy(live, bench.live, sizeof(live));
        for (size_t i = 0; i < BLOCKS; i++) {
            bytes[i] = live[i] == 0 ? 0 : bytes_at(&bench, live[i]);
        }
        pleat_pool_checkpoint_t *checkpoint = take(&bench);
        view_count += fixture_stats(&bench.f).view_count;
        for (unsigned round = 0; round < 3; round++) {
            shuffle(&bench, round == 2 ? 0 : 60);
            pleat_pool_delta_t delta = PLEAT_POOL_DELTA_INIT;
            const size_t live_count = count_live(&bench);
            const int64_t reserved = fixture_stats(&bench.f).reserved_bytes[PLEAT_STAT_ALL].current;
            restore(&bench, checkpoint, &delta);
            cr_expect(
                eq(i64, fixture_stats(&bench.f).reserved_bytes[PLEAT_STAT_ALL].current, reserved));
            cr_expect(eq(u64, delta.freed_count, live_count));
            for (size_t i = 0; i < BLOCKS; i++) {
                cr_expect(bench.live[i] == 0 ||
                          holds(delta.freed, delta.freed_count, bench.live[i]));
                bench.live[i] = live[i];
                if (live[i] != 0) {
                    cr_expect(holds(delta.allocated, delta.allocated_count, live[i]));
                    cr_expect(eq(u64, bytes_at(&bench, live[i]), bytes[i]));
                }
            }
            cr_expect(eq(u64, delta.allocated_count, count_live(&bench)));
            pleat_pool_delta_fini(&delta);
        }
        pleat_pool_checkpoint_destroy(checkpoint);
        finish(&bench);
    }
    cr_expect(lt(i64, 10, view_count), "blocks in views are among them");
}

/* Two mapped runs of a range, and later one: what lay between was mapped since. */
Test(pool_checkpoint, a_range_may_have_grown, .timeout = 5)
{
    bench_t bench = create(PLEAT_MODE_TORCH_EXPANDABLE, 0);
    for (unsigned i = 0; i < 4; i++) {
        bench.live[i] = fixture_alloc(&bench.f, MIB(20), 0);
    }
    pleat_pool_checkpoint_t *checkpoint = take(&bench);
    for (unsigned i = 4; i < 8; i++) {
        bench.live[i] = fixture_alloc(&bench.f, MIB(20), 0);
    }
    pleat_pool_delta_t delta = PLEAT_POOL_DELTA_INIT;
    restore(&bench, checkpoint, &delta);
    cr_expect(eq(u64, delta.freed_count, 8));
    cr_expect(eq(u64, delta.allocated_count, 4));
    memset(&bench.live[4], 0, 4 * sizeof(bench.live[0]));
    pleat_pool_delta_fini(&delta);
    pleat_pool_checkpoint_destroy(checkpoint);
    finish(&bench);
}

/* As PyTorch counts: every block of the segment is handed out, then the free ones are freed. */
Test(pool_checkpoint, counters_move_as_for_requests_and_frees, .timeout = 5)
{
    bench_t bench = create(PLEAT_MODE_CLASSIC, 0);
    bench.live[0] = fixture_alloc(&bench.f, 1000, 0);
    bench.live[1] = fixture_alloc(&bench.f, 1000, 0);
    bench.live[2] = fixture_alloc(&bench.f, 1000, 0);
    fixture_free(&bench.f, bench.live[1]);
    bench.live[1] = 0;
    pleat_pool_checkpoint_t *checkpoint = take(&bench);
    const pleat_stats_t before = fixture_stats(&bench.f);
    pleat_pool_delta_t delta = PLEAT_POOL_DELTA_INIT;
    restore(&bench, checkpoint, &delta);
    const pleat_stats_t after = fixture_stats(&bench.f);
    const pleat_stat_kind_t all = PLEAT_STAT_ALL;
    cr_expect(eq(i64, after.allocation[all].current, 2));
    cr_expect(eq(i64, after.allocation[all].allocated - before.allocation[all].allocated, 4),
              "two live, two free");
    cr_expect(eq(i64, after.allocation[all].freed - before.allocation[all].freed, 4));
    cr_expect(eq(i64, after.requested_bytes[all].current, 2048), "the size of the blocks");
    cr_expect(eq(i64, after.active_bytes[all].peak, MIB(2)));
    cr_expect(eq(i64, after.inactive_split[all].current, 2));
    pleat_pool_delta_fini(&delta);
    pleat_pool_checkpoint_destroy(checkpoint);
    finish(&bench);
}

Test(pool_checkpoint, pools_without_uses_and_unknown_ones_are_refused, .timeout = 5)
{
    bench_t bench = create(PLEAT_MODE_CLASSIC, 0);
    pleat_allocator_t *a = bench.f.allocator;
    pleat_pool_checkpoint_t *checkpoint = take(&bench);
    pleat_pool_checkpoint_t *other = NULL;
    pleat_pool_delta_t delta = PLEAT_POOL_DELTA_INIT;
    const pleat_pool_id_t unknown = {1, 0};
    cr_expect(eq(int, pleat_pool_checkpoint_take(a, unknown, &other), PLEAT_ERR_INVALID));
    cr_assert(eq(int, pleat_pool_end(a, id), PLEAT_OK));
    cr_assert(eq(int, pleat_pool_release(a, id), PLEAT_OK));
    cr_expect(eq(int, pleat_pool_checkpoint_take(a, id, &other), PLEAT_ERR_INVALID));
    cr_expect(ne(ptr, strstr(pleat_last_error(), "no use any more"), NULL));
    cr_expect(eq(int, pleat_pool_checkpoint_restore(a, checkpoint, &delta), PLEAT_ERR_INVALID));
    fixture_empty(&bench.f);
    cr_expect(eq(int, pleat_pool_checkpoint_restore(a, checkpoint, &delta), PLEAT_ERR_INVALID));
    cr_assert(eq(int, pleat_pool_begin(a, id, NULL, NULL), PLEAT_OK));
    cr_expect(eq(int, pleat_pool_checkpoint_restore(a, checkpoint, &delta), PLEAT_ERR_INVALID),
              "another pool of the same id");
    cr_expect(eq(ptr, other, NULL));
    cr_expect(eq(ptr, delta.freed, NULL));
    pleat_pool_checkpoint_destroy(checkpoint);
    finish(&bench);
}

Test(pool_checkpoint, blocks_that_wait_are_refused, .timeout = 5)
{
    bench_t bench = create(PLEAT_MODE_CLASSIC, 0);
    pleat_allocator_t *a = bench.f.allocator;
    bench.live[0] = fixture_alloc(&bench.f, 1000, 0);
    bench.live[1] = fixture_alloc(&bench.f, 1000, 0);
    fixture_record(&bench.f, bench.live[0], 1);
    pleat_pool_checkpoint_t *checkpoint = take(&bench);
    pleat_pool_delta_t delta = PLEAT_POOL_DELTA_INIT;
    cr_expect(eq(int, pleat_pool_checkpoint_restore(a, checkpoint, &delta), PLEAT_ERR_INVALID));
    cr_expect(ne(ptr, strstr(pleat_last_error(), "other streams"), NULL));
    fixture_free(&bench.f, bench.live[0]);
    bench.live[0] = 0;
    pleat_pool_checkpoint_t *other = NULL;
    cr_expect(eq(int, pleat_pool_checkpoint_take(a, id, &other), PLEAT_ERR_INVALID));
    cr_expect(ne(ptr, strstr(pleat_last_error(), "waits for a stream"), NULL));
    cr_expect(eq(int, pleat_pool_checkpoint_restore(a, checkpoint, &delta), PLEAT_ERR_INVALID));
    fixture_check(&bench.f);
    /* Without a redirection the free is resolved. */
    cr_assert(eq(int, pleat_pool_end(a, id), PLEAT_OK));
    cr_expect(eq(int, pleat_pool_checkpoint_take(a, id, &other), PLEAT_OK));
    pleat_pool_checkpoint_destroy(other);
    cr_assert(eq(int, pleat_pool_begin(a, id, NULL, NULL), PLEAT_OK));
    cr_assert(eq(int, pleat_pool_release(a, id), PLEAT_OK));
    pleat_pool_checkpoint_destroy(checkpoint);
    finish(&bench);
}

/* The free was put off, its use noted inside: resolved by taking a checkpoint. */
Test(pool_checkpoint, taking_one_resolves_what_was_put_off, .timeout = 5)
{
    bench_t bench = create(PLEAT_MODE_CLASSIC, 0);
    pleat_allocator_t *a = bench.f.allocator;
    const pleat_devptr_t ptr = fixture_alloc(&bench.f, 1000, 0);
    const pleat_devptr_t outside = fixture_alloc(&bench.f, 1000, 0);
    fixture_record(&bench.f, ptr, 1);
    fixture_free(&bench.f, ptr);
    cr_assert(eq(int, pleat_pool_end(a, id), PLEAT_OK));
    pleat_pool_checkpoint_t *checkpoint = take(&bench);
    cr_expect(eq(sz, a->waiting.deferred.count, 0));
    pleat_pool_checkpoint_destroy(checkpoint);
    fixture_record(&bench.f, outside, 1);
    cr_assert(eq(int, pleat_pool_begin(a, id, NULL, NULL), PLEAT_OK));
    fixture_free(&bench.f, outside);
    cr_assert(eq(int, pleat_pool_end(a, id), PLEAT_OK));
    fixture_fail_call(&bench.f, PLEAT_VMM_CALL_EVENT_RECORD, 1, PLEAT_ERR_DRIVER);
    checkpoint = NULL;
    cr_expect(eq(int, pleat_pool_checkpoint_take(a, id, &checkpoint), PLEAT_ERR_DRIVER));
    cr_expect(eq(ptr, checkpoint, NULL));
    cr_assert(eq(int, pleat_pool_begin(a, id, NULL, NULL), PLEAT_OK));
    cr_assert(eq(int, pleat_pool_release(a, id), PLEAT_OK));
    cr_assert(eq(int, pleat_pool_release(a, id), PLEAT_OK));
    finish(&bench);
}

/* Nothing of a capture is left on its streams, so that the events of its uses are complete. */
Test(pool_checkpoint, captured_uses_are_no_obstacle, .timeout = 5)
{
    for (size_t m = 0; m < sizeof(modes) / sizeof(modes[0]); m++) {
        bench_t bench = create(modes[m], 0);
        pleat_allocator_t *a = bench.f.allocator;
        const pleat_devptr_t ptr = fixture_alloc(&bench.f, 1000, 0);
        fixture_record(&bench.f, ptr, 1);
        fixture_free(&bench.f, ptr);
        cr_assert(eq(int, pleat_pool_end(a, id), PLEAT_OK));
        pleat_pool_checkpoint_destroy(take(&bench));
        cr_expect(eq(i64, fixture_stats(&bench.f).active[PLEAT_STAT_ALL].current, 0));
        cr_assert(eq(int, pleat_pool_begin(a, id, NULL, NULL), PLEAT_OK));
        cr_assert(eq(int, pleat_pool_release(a, id), PLEAT_OK));
        finish(&bench);
    }
}

/* With a split limit, oversize segments of a pool may go while it is in use. */
Test(pool_checkpoint, a_segment_that_is_gone_is_told, .timeout = 5)
{
    pleat_options_t options = PLEAT_OPTIONS_INIT;
    options.max_split_bytes = MIB(30);
    bench_t bench = create(PLEAT_MODE_CLASSIC, MIB(100));
    fixture_set_options(&bench.f, &options);
    bench.live[0] = fixture_alloc(&bench.f, MIB(60), 0);
    pleat_pool_checkpoint_t *checkpoint = take(&bench);
    fixture_free(&bench.f, bench.live[0]);
    bench.live[0] = 0;
    pleat_devptr_t none = 0;
    cr_expect(eq(int, pleat_alloc(bench.f.allocator, MIB(90), 0, &none), PLEAT_ERR_OOM_DEVICE));
    pleat_pool_delta_t delta = PLEAT_POOL_DELTA_INIT;
    fixture_state_t before = fixture_state(&bench.f);
    cr_expect(eq(int, pleat_pool_checkpoint_restore(bench.f.allocator, checkpoint, &delta),
                 PLEAT_ERR_INVALID));
    cr_expect(ne(ptr, strstr(pleat_last_error(), "of the checkpoint is gone"), NULL));
    cr_expect(fixture_state_is(&bench.f, &before));
    fixture_state_drop(&before);
    pleat_pool_checkpoint_destroy(checkpoint);
    finish(&bench);
}

/* ---- whatever happens in between ---- */

enum { CHECKPOINTS = 4 };

typedef struct past {
    pleat_pool_checkpoint_t *checkpoint; /* NULL: none */
    pleat_devptr_t live[BLOCKS];
} past_t;

static void change_options(bench_t *bench)
{
    pleat_options_t options = PLEAT_OPTIONS_INIT;
    options.mode = modes[fixture_random_below(&bench->random, 3)];
    options.pleated_handle_max_bytes = MIB(2) << fixture_random_below(&bench->random, 4);
    options.pleated_view_mappings = fixture_random_below(&bench->random, 40);
    options.pleated_idle_ms = fixture_random_below(&bench->random, 2);
    if (fixture_random_below(&bench->random, 3) == 0) {
        options.max_split_bytes = MIB(20 + fixture_random_below(&bench->random, 10));
    }
    fixture_set_options(&bench->f, &options);
}

static void remember(bench_t *bench, past_t *past)
{
    pleat_pool_checkpoint_destroy(past->checkpoint);
    past->checkpoint = take(bench);
    memcpy(past->live, bench->live, sizeof(past->live));
}

/* All that was live is live again, or the restore is refused and nothing has changed. */
static void go_back(bench_t *bench, const past_t *past)
{
    pleat_pool_delta_t delta = PLEAT_POOL_DELTA_INIT;
    fixture_state_t before = fixture_state(&bench->f);
    const pleat_status_t status =
        pleat_pool_checkpoint_restore(bench->f.allocator, past->checkpoint, &delta);
    if (status == PLEAT_OK) {
        memcpy(bench->live, past->live, sizeof(bench->live));
        cr_expect(eq(u64, delta.allocated_count, count_live(bench)));
        for (size_t i = 0; i < BLOCKS; i++) {
            cr_expect(bench->live[i] == 0 || bytes_at(bench, bench->live[i]) > 0);
        }
    } else {
        cr_expect(eq(int, status, PLEAT_ERR_INVALID));
        cr_expect(ne(ptr, strstr(pleat_last_error(), "of the checkpoint is gone"), NULL), "%s",
                  pleat_last_error());
        cr_expect(fixture_state_is(&bench->f, &before));
    }
    fixture_state_drop(&before);
    pleat_pool_delta_fini(&delta);
    fixture_check(&bench->f);
}

/* Requests outside the pool, which overflow into it, or press on the device. */
static void go_outside(bench_t *bench)
{
    pleat_allocator_t *allocator = bench->f.allocator;
    cr_assert(eq(int, pleat_pool_end(allocator, id), PLEAT_OK));
    pleat_devptr_t ptr = 0;
    const pleat_status_t status =
        pleat_alloc(allocator, MIB(1 + fixture_random_below(&bench->random, 150)), 0, &ptr);
    cr_assert(status == PLEAT_OK || status == PLEAT_ERR_OOM_DEVICE);
    if (status == PLEAT_OK) {
        fixture_free(&bench->f, ptr);
    }
    if (fixture_random_below(&bench->random, 2) == 0) {
        fixture_empty(&bench->f);
    }
    cr_assert(eq(int, pleat_pool_begin(allocator, id, NULL, NULL), PLEAT_OK));
    cr_assert(eq(int, pleat_pool_release(allocator, id), PLEAT_OK));
    fixture_check(&bench->f);
}

static void run_at_random(uint64_t seed)
{
    bench_t bench = create(modes[seed % 3], MIB(150 + 50 * (seed % 7)));
    bench.random.state = seed;
    past_t pasts[CHECKPOINTS] = {0};
    if (seed % 4 == 0) {
        cr_assert(eq(int, pleat_pool_set_overflow(bench.f.allocator, id, true), PLEAT_OK));
    }
    for (unsigned step = 0; step < 40; step++) {
        past_t *past = &pasts[fixture_random_below(&bench.random, CHECKPOINTS)];
        shuffle(&bench, (unsigned)fixture_random_below(&bench.random, 40));
        const uint64_t what = fixture_random_below(&bench.random, 100);
        if (what < 35 || past->checkpoint == NULL) {
            remember(&bench, past);
        } else if (what < 70) {
            go_back(&bench, past);
        } else if (what < 80 && seed % 2 == 0) {
            change_options(&bench);
        } else if (what < 82) {
            cr_assert(eq(int, pleat_pool_set_no_split(bench.f.allocator, id), PLEAT_OK));
        } else {
            go_outside(&bench);
        }
    }
    for (size_t i = 0; i < CHECKPOINTS; i++) {
        pleat_pool_checkpoint_destroy(pasts[i].checkpoint);
    }
    finish(&bench);
}

Test(pool_checkpoint, any_past_comes_back_or_is_refused, .timeout = 60)
{
    for (uint64_t seed = 1; seed <= 60; seed++) {
        run_at_random(seed);
    }
}

Test(pool_checkpoint, without_host_memory_nothing_changes, .timeout = 20)
{
    for (size_t m = 0; m < 3; m++) {
        bench_t bench = create(modes[m], MIB(100));
        bench.random.state = 5;
        shuffle(&bench, 80);
        pleat_pool_checkpoint_t *checkpoint = NULL;
        host_fault_after(1);
        cr_expect(eq(int, pleat_pool_checkpoint_take(bench.f.allocator, id, &checkpoint),
                     PLEAT_ERR_OOM_HOST));
        host_fault_after(0);
        checkpoint = take(&bench);
        fixture_state_t before = fixture_state(&bench.f);
        pleat_pool_delta_t delta = PLEAT_POOL_DELTA_INIT;
        uint64_t faults = 0;
        for (uint64_t nth = 1;; nth++) {
            host_fault_after(nth);
            const pleat_status_t status =
                pleat_pool_checkpoint_restore(bench.f.allocator, checkpoint, &delta);
            host_fault_after(0);
            if (status == PLEAT_OK) {
                break;
            }
            cr_assert(eq(int, status, PLEAT_ERR_OOM_HOST));
            cr_expect(fixture_state_is(&bench.f, &before));
            fixture_check(&bench.f);
            faults++;
        }
        cr_expect(le(u64, 3, faults));
        fixture_state_drop(&before);
        pleat_pool_delta_fini(&delta);
        pleat_pool_checkpoint_destroy(checkpoint);
        finish(&bench);
    }
}

Test(pool_checkpoint, arguments_that_are_missing_are_refused, .timeout = 5)
{
    bench_t bench = create(PLEAT_MODE_CLASSIC, 0);
    pleat_pool_checkpoint_t *checkpoint = NULL;
    pleat_pool_delta_t delta = PLEAT_POOL_DELTA_INIT;
    cr_expect(eq(int, pleat_pool_checkpoint_take(NULL, id, &checkpoint), PLEAT_ERR_INVALID));
    cr_expect(eq(int, pleat_pool_checkpoint_take(bench.f.allocator, id, NULL), PLEAT_ERR_INVALID));
    checkpoint = take(&bench);
    cr_expect(eq(int, pleat_pool_checkpoint_restore(NULL, checkpoint, &delta), PLEAT_ERR_INVALID));
    cr_expect(
        eq(int, pleat_pool_checkpoint_restore(bench.f.allocator, NULL, &delta), PLEAT_ERR_INVALID));
    cr_expect(eq(int, pleat_pool_checkpoint_restore(bench.f.allocator, checkpoint, NULL),
                 PLEAT_ERR_INVALID));
    pleat_pool_checkpoint_destroy(NULL);
    pleat_pool_checkpoint_destroy(checkpoint);
    pleat_pool_delta_fini(NULL);
    finish(&bench);
}
