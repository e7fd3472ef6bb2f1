/*
 * Tests of private_pool: uses, redirections, apartness in each mode, overflow, whole segments,
 * segments from elsewhere, and what goes back when.
 */
#include "core/allocator.h"
#include "core/private_pool.h"

#include "fixture.h"
#include "host_fault.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

#define MIB(count) ((uint64_t)(count)*PLEAT_MIB)

static const pleat_pool_id_t first_id = {0, 1};
static const pleat_pool_id_t second_id = {0, 2};
static const pleat_mode_t modes[] = {PLEAT_MODE_CLASSIC, PLEAT_MODE_TORCH_EXPANDABLE,
                                     PLEAT_MODE_PLEATED};

static fixture_t create_in(pleat_mode_t mode, uint64_t capacity_bytes)
{
    pleat_options_t options = PLEAT_OPTIONS_INIT;
    options.mode = mode;
    return fixture_create(
        &(fixture_options_t){.capacity_bytes = capacity_bytes, .options = &options});
}

static void acquire(const fixture_t *f, pleat_pool_id_t id)
{
    FIXTURE_REQUIRE(pleat_pool_acquire(f->allocator, id, NULL) == PLEAT_OK, "%s",
                    pleat_last_error());
}

static void release(const fixture_t *f, pleat_pool_id_t id)
{
    FIXTURE_REQUIRE(pleat_pool_release(f->allocator, id) == PLEAT_OK, "%s", pleat_last_error());
}

static void begin(const fixture_t *f, pleat_pool_id_t id)
{
    FIXTURE_REQUIRE(pleat_pool_begin(f->allocator, id, NULL, NULL) == PLEAT_OK, "%s",
                    pleat_last_error());
    fixture_check(f);
}

static void end(const fixture_t *f, pleat_pool_id_t id)
{
    FIXTURE_REQUIRE(pleat_pool_end(f->allocator, id) == PLEAT_OK, "%s", pleat_last_error());
    fixture_check(f);
}

static void end_and_release(const fixture_t *f, pleat_pool_id_t id)
{
    end(f, id);
    release(f, id);
}

static int64_t reserved(const fixture_t *f)
{
    return fixture_stats(f).reserved_bytes[PLEAT_STAT_ALL].current;
}

static bool has_error(const char *text)
{
    return strstr(pleat_last_error(), text) != NULL;
}

/* Calls about events, and those for which the host waits. */
static uint64_t event_calls(const fixture_t *f)
{
    return fixture_calls(f, PLEAT_VMM_CALL_EVENT_RECORD) +
           fixture_calls(f, PLEAT_VMM_CALL_EVENT_QUERY) +
           fixture_calls(f, PLEAT_VMM_CALL_EVENT_SYNCHRONIZE) +
           fixture_calls(f, PLEAT_VMM_CALL_STREAM_WAIT_EVENT) +
           fixture_calls(f, PLEAT_VMM_CALL_STREAM_SYNCHRONIZE);
}

/* ---- uses ---- */

Test(private_pool, uses_are_counted, .timeout = 5)
{
    fixture_t f = fixture_create(NULL);
    cr_expect(eq(u64, pleat_pool_use_count(f.allocator, first_id), 0));
    acquire(&f, first_id);
    acquire(&f, first_id);
    begin(&f, first_id);
    cr_expect(eq(u64, pleat_pool_use_count(f.allocator, first_id), 3));
    end(&f, first_id);
    cr_expect(eq(u64, pleat_pool_use_count(f.allocator, first_id), 3), "the use stays");
    release(&f, first_id);
    release(&f, first_id);
    release(&f, first_id);
    cr_expect(eq(u64, pleat_pool_use_count(f.allocator, first_id), 0));
    fixture_check(&f);
    fixture_empty(&f);
    cr_expect(eq(ptr, f.allocator->private_pools.first, NULL), "ended, for it had no memory");
    acquire(&f, first_id);
    fixture_check_and_destroy(&f);
}

Test(private_pool, what_cannot_be_is_refused_and_changes_nothing, .timeout = 5)
{
    fixture_t f = fixture_create(NULL);
    pleat_allocator_t *a = f.allocator;
    const pleat_segment_source_t no_alloc = PLEAT_SEGMENT_SOURCE_INIT;
    const pleat_segment_source_t no_size = {0};
    cr_expect(eq(int, pleat_pool_acquire(a, (pleat_pool_id_t){0, 0}, NULL), PLEAT_ERR_INVALID));
    cr_expect(has_error("(0, 0)"));
    cr_expect(eq(int, pleat_pool_acquire(a, first_id, &no_alloc), PLEAT_ERR_INVALID));
    cr_expect(has_error("without alloc"));
    cr_expect(eq(int, pleat_pool_acquire(a, first_id, &no_size), PLEAT_ERR_INVALID));
    cr_expect(eq(int, pleat_pool_release(a, first_id), PLEAT_ERR_INVALID));
    cr_expect(has_error("no private pool (0, 1)"));
    cr_expect(eq(int, pleat_pool_end(a, first_id), PLEAT_ERR_INVALID));
    cr_expect(has_error("not currently recording to mempool_id"));
    cr_expect(eq(int, pleat_pool_set_overflow(a, first_id, true), PLEAT_ERR_INVALID));
    cr_expect(eq(int, pleat_pool_set_no_split(a, first_id), PLEAT_ERR_INVALID));
    cr_expect(eq(int, pleat_pool_empty(a, first_id), PLEAT_OK), "unknown: left alone");
    cr_expect(eq(ptr, a->private_pools.first, NULL));
    begin(&f, first_id);
    cr_expect(eq(int, pleat_pool_begin(a, first_id, NULL, NULL), PLEAT_ERR_INVALID));
    cr_expect(has_error("already recording to mempool_id"));
    cr_expect(eq(u64, pleat_pool_use_count(a, first_id), 1), "no use was added");
    end_and_release(&f, first_id);
    cr_expect(eq(int, pleat_pool_release(a, first_id), PLEAT_ERR_INVALID));
    cr_expect(has_error("no use left"));
    cr_expect(eq(int, pleat_pool_acquire(a, first_id, NULL), PLEAT_ERR_INVALID));
    cr_expect(has_error("cannot be used again"));
    cr_expect(eq(int, pleat_pool_begin(a, first_id, NULL, NULL), PLEAT_ERR_INVALID));
    cr_expect(not(pleat_pool_is_redirecting(a)));
    fixture_check_and_destroy(&f);
}

Test(private_pool, arguments_that_are_missing_are_refused, .timeout = 5)
{
    cr_expect(eq(int, pleat_pool_acquire(NULL, first_id, NULL), PLEAT_ERR_INVALID));
    cr_expect(has_error("pleat_pool_acquire: allocator is NULL"));
    cr_expect(eq(int, pleat_pool_release(NULL, first_id), PLEAT_ERR_INVALID));
    cr_expect(eq(int, pleat_pool_begin(NULL, first_id, NULL, NULL), PLEAT_ERR_INVALID));
    cr_expect(eq(int, pleat_pool_end(NULL, first_id), PLEAT_ERR_INVALID));
    cr_expect(eq(int, pleat_pool_set_overflow(NULL, first_id, true), PLEAT_ERR_INVALID));
    cr_expect(eq(int, pleat_pool_set_no_split(NULL, first_id), PLEAT_ERR_INVALID));
    cr_expect(eq(int, pleat_pool_empty(NULL, first_id), PLEAT_ERR_INVALID));
    cr_expect(eq(u64, pleat_pool_use_count(NULL, first_id), 0));
    cr_expect(not(pleat_pool_is_redirecting(NULL)));
    pleat_set_free_memory_callback(NULL, NULL, NULL);
}

Test(private_pool, without_host_memory_nothing_changes, .timeout = 5)
{
    fixture_t f = fixture_create(NULL);
    host_fault_after(1);
    cr_expect(eq(int, pleat_pool_acquire(f.allocator, first_id, NULL), PLEAT_ERR_OOM_HOST));
    for (uint64_t nth = 1; nth <= 2; nth++) {
        host_fault_after(nth); /* the list of redirections, the pool */
        cr_expect(eq(int, pleat_pool_begin(f.allocator, first_id, NULL, NULL), PLEAT_ERR_OOM_HOST));
        cr_expect(not(pleat_pool_is_redirecting(f.allocator)));
        cr_expect(eq(ptr, f.allocator->private_pools.first, NULL));
    }
    host_fault_after(1);
    cr_expect(
        eq(int, pleat_allocator_set_freeable_order(f.allocator, &first_id, 1), PLEAT_ERR_OOM_HOST));
    host_fault_after(0);
    begin(&f, first_id);
    host_fault_after(1); /* the bins of the stream in the pool */
    pleat_devptr_t ptr = 0;
    cr_expect(eq(int, pleat_alloc(f.allocator, 1000, 0, &ptr), PLEAT_ERR_OOM_HOST));
    host_fault_after(0);
    end_and_release(&f, first_id);
    fixture_check_and_destroy(&f);
}

/* ---- redirections ---- */

typedef struct filter {
    pleat_stream_t stream;
    unsigned calls;
} filter_t;

static bool filter_stream(void *context, pleat_stream_t stream)
{
    filter_t *filter = context;
    filter->calls++;
    return stream == filter->stream;
}

static pleat_pool_id_t pool_of(const fixture_t *f, pleat_devptr_t ptr)
{
    pleat_pointer_info_t info = PLEAT_POINTER_INFO_INIT;
    FIXTURE_REQUIRE(pleat_find_pointer(f->allocator, ptr, &info) == PLEAT_OK, "%s",
                    pleat_last_error());
    return info.pool;
}

Test(private_pool, the_redirection_opened_last_takes_what_passes_its_filter, .timeout = 5)
{
    fixture_t f = fixture_create(NULL);
    filter_t one = {.stream = 1};
    filter_t two = {.stream = 2};
    cr_assert(eq(int, pleat_pool_begin(f.allocator, first_id, filter_stream, &one), PLEAT_OK));
    cr_expect(pleat_pool_is_redirecting(f.allocator));
    cr_assert(eq(int, pleat_pool_begin(f.allocator, second_id, filter_stream, &two), PLEAT_OK));
    cr_expect(eq(u64, pool_of(&f, fixture_alloc(&f, 1000, 1)).second, 1));
    cr_expect(eq(u64, pool_of(&f, fixture_alloc(&f, 1000, 2)).second, 2));
    cr_expect(eq(u64, pool_of(&f, fixture_alloc(&f, 1000, 3)).second, 0));
    two.stream = 1;
    cr_expect(eq(u64, pool_of(&f, fixture_alloc(&f, 1000, 1)).second, 2), "the later one");
    cr_expect(eq(u32, two.calls, 4));
    cr_expect(eq(u32, one.calls, 2));
    end(&f, first_id);
    cr_expect(eq(u64, pool_of(&f, fixture_alloc(&f, 1000, 1)).second, 2));
    cr_expect(eq(u32, one.calls, 2));
    end(&f, second_id);
    cr_expect(eq(u64, pool_of(&f, fixture_alloc(&f, 1000, 1)).second, 0));
    cr_expect(not(pleat_pool_is_redirecting(f.allocator)));
    fixture_check_and_destroy(&f);
}

/* ---- apartness, in each mode ---- */

Test(private_pool, memory_stays_in_its_pool_until_that_is_freeable, .timeout = 20)
{
    static const uint64_t sizes[] = {1000, MIB(1) / 2, MIB(3), MIB(24)};
    for (size_t m = 0; m < sizeof(modes) / sizeof(modes[0]); m++) {
        fixture_t f = create_in(modes[m], MIB(512));
        begin(&f, first_id);
        pleat_devptr_t p[8];
        for (size_t i = 0; i < 8; i++) {
            p[i] = fixture_alloc(&f, sizes[i % 4], i / 4);
        }
        for (size_t i = 0; i < 8; i++) {
            fixture_free(&f, p[i]);
        }
        for (size_t i = 8; i-- > 0;) {
            p[i] = fixture_alloc(&f, sizes[i % 4], i / 4);
            cr_expect(eq(u64, pool_of(&f, p[i]).second, 1));
        }
        end(&f, first_id);
        for (size_t i = 0; i < 8; i++) {
            fixture_free(&f, p[i]);
        }
        const int64_t held = reserved(&f);
        const pleat_devptr_t other = fixture_alloc(&f, MIB(24), 0);
        cr_expect(lt(i64, held, reserved(&f)), "mode %d: the pool's memory is not taken", (int)m);
        cr_expect(eq(u64, pool_of(&f, other).second, 0));
        fixture_free(&f, other);
        fixture_empty(&f);
        fixture_check(&f);
        cr_expect(eq(i64, reserved(&f), held), "mode %d: nor given back", (int)m);
        release(&f, first_id);
        cr_expect(eq(i64, reserved(&f), held));
        fixture_empty(&f);
        cr_expect(eq(i64, reserved(&f), 0), "mode %d", (int)m);
        cr_expect(eq(ptr, f.allocator->private_pools.first, NULL));
        fixture_check_and_destroy(&f);
    }
}

Test(private_pool, live_blocks_outlast_the_uses, .timeout = 20)
{
    for (size_t m = 0; m < sizeof(modes) / sizeof(modes[0]); m++) {
        fixture_t f = create_in(modes[m], MIB(512));
        begin(&f, first_id);
        const pleat_devptr_t small = fixture_alloc(&f, 1000, 1);
        const pleat_devptr_t large = fixture_alloc(&f, MIB(30), 1);
        end_and_release(&f, first_id);
        cr_expect(eq(int, pleat_pool_empty(f.allocator, first_id), PLEAT_OK));
        fixture_check(&f);
        cr_expect(eq(u64, pool_of(&f, small).second, 1));
        fixture_free(&f, small);
        fixture_free(&f, large);
        fixture_check(&f);
        cr_expect(eq(int, pleat_pool_empty(f.allocator, first_id), PLEAT_OK));
        cr_expect(eq(i64, reserved(&f), 0));
        cr_expect(eq(ptr, f.allocator->private_pools.first, NULL), "mode %d", (int)m);
        fixture_check_and_destroy(&f);
    }
}

Test(private_pool, the_allocator_ends_with_pools_and_redirections_alive, .timeout = 20)
{
    for (size_t m = 0; m < sizeof(modes) / sizeof(modes[0]); m++) {
        fixture_t f = create_in(modes[m], MIB(512));
        begin(&f, first_id);
        const pleat_devptr_t a = fixture_alloc(&f, MIB(3), 0);
        (void)fixture_alloc(&f, 700, 0);
        fixture_record(&f, a, 5);
        fixture_free(&f, a);
        begin(&f, second_id);
        (void)fixture_alloc(&f, MIB(3), 0);
        fixture_check_and_destroy(&f);
    }
}

Test(private_pool, changes_of_mode_keep_pools_working, .timeout = 20)
{
    fixture_t f = fixture_create(NULL);
    pleat_options_t options = PLEAT_OPTIONS_INIT;
    pleat_devptr_t p[12];
    size_t count = 0;
    begin(&f, first_id);
    for (unsigned round = 0; round < 6; round++) {
        options.mode = modes[round % 3];
        fixture_set_options(&f, &options);
        p[count++] = fixture_alloc(&f, MIB(25), 0);
        p[count++] = fixture_alloc(&f, 5000, 0);
        fixture_check(&f);
        if (round % 2 == 1) {
            fixture_free(&f, p[--count]);
            fixture_free(&f, p[--count]);
        }
        cr_expect(eq(u64, pool_of(&f, p[0]).second, 1));
    }
    end_and_release(&f, first_id);
    while (count > 0) {
        fixture_free(&f, p[--count]);
    }
    fixture_empty(&f);
    cr_expect(eq(i64, reserved(&f), 0));
    fixture_check_and_destroy(&f);
}

/* ---- no events, no flush while requests are redirected ---- */

Test(private_pool, no_event_while_requests_are_redirected, .timeout = 20)
{
    for (size_t m = 0; m < sizeof(modes) / sizeof(modes[0]); m++) {
        fixture_t f = create_in(modes[m], MIB(512));
        /* Waiting frees, free memory of another stream, and blocks taken from it. */
        const pleat_devptr_t waiting = fixture_alloc(&f, MIB(24), 2);
        fixture_set_busy(&f, 3);
        fixture_record(&f, waiting, 3);
        fixture_free(&f, waiting);
        const pleat_devptr_t other = fixture_alloc(&f, MIB(100), 4);
        fixture_free(&f, other);
        const pleat_devptr_t taken = fixture_alloc(&f, MIB(40), 5);
        const pleat_devptr_t kept = fixture_alloc(&f, MIB(24), 0);
        fixture_record(&f, kept, 6);
        filter_t one = {.stream = 1};
        cr_assert(eq(int, pleat_pool_begin(f.allocator, first_id, filter_stream, &one), PLEAT_OK));
        const uint64_t before = event_calls(&f);
        pleat_devptr_t p[6];
        for (size_t i = 0; i < 6; i++) {
            p[i] = fixture_alloc(&f, i % 2 == 0 ? MIB(24) : 3000, i % 3);
            fixture_check(&f);
        }
        fixture_free(&f, taken);
        fixture_free(&f, kept);
        (void)fixture_alloc(&f, MIB(40), 4);
        (void)fixture_alloc(&f, MIB(40), 5);
        for (size_t i = 0; i < 6; i++) {
            fixture_record(&f, p[i], 7);
            fixture_free(&f, p[i]);
            fixture_check(&f);
        }
        fixture_empty(&f);
        pleat_devptr_t none = 0;
        cr_expect(eq(int, pleat_alloc(f.allocator, MIB(600), 1, &none), PLEAT_ERR_OOM_DEVICE));
        cr_expect(eq(int, pleat_alloc(f.allocator, MIB(600), 9, &none), PLEAT_ERR_OOM_DEVICE));
        cr_expect(eq(u64, event_calls(&f), before), "mode %d", (int)m);
        cr_expect(eq(i64, fixture_stats(&f).num_alloc_retries, 0), "mode %d", (int)m);
        cr_expect(eq(i64, fixture_stats(&f).num_sync_all_streams, 0));
        end_and_release(&f, first_id);
        fixture_check(&f);
        cr_expect(eq(u64, event_calls(&f), before), "the next request resolves, not the end");
        fixture_set_done(&f, 3);
        (void)fixture_alloc(&f, 1000, 0);
        cr_expect(lt(u64, before, event_calls(&f)));
        fixture_check_and_destroy(&f);
    }
}

Test(private_pool, freeable_pools_give_back_while_another_one_records, .timeout = 20)
{
    for (size_t m = 0; m < 2; m++) {
        fixture_t f = create_in(modes[m], MIB(512));
        begin(&f, first_id);
        fixture_free(&f, fixture_alloc(&f, MIB(24), 0));
        end_and_release(&f, first_id);
        fixture_free(&f, fixture_alloc(&f, MIB(24), 0));
        begin(&f, second_id);
        const int64_t before = reserved(&f);
        fixture_empty(&f);
        cr_expect(eq(i64, reserved(&f), before / 2), "the default pools keep theirs");
        cr_expect(eq(ptr, pleat_private_pool_find(&f.allocator->private_pools, first_id), NULL));
        cr_expect(eq(i64, fixture_stats(&f).num_sync_all_streams, 0));
        fixture_check_and_destroy(&f);
    }
}

Test(private_pool, pleated_memory_waits_for_the_end_of_redirections, .timeout = 5)
{
    fixture_t f = create_in(PLEAT_MODE_PLEATED, MIB(512));
    begin(&f, first_id);
    fixture_free(&f, fixture_alloc(&f, MIB(24), 0));
    end_and_release(&f, first_id);
    begin(&f, second_id);
    const int64_t before = reserved(&f);
    fixture_empty(&f);
    cr_expect(eq(int, pleat_pool_empty(f.allocator, first_id), PLEAT_OK));
    cr_expect(eq(i64, reserved(&f), before), "whether its work is over takes an event to know");
    end(&f, second_id);
    fixture_empty(&f);
    cr_expect(eq(i64, reserved(&f), 0));
    fixture_check_and_destroy(&f);
}

/* A freeable pool to which a redirection is open still may not end. */
Test(private_pool, a_redirection_keeps_its_pool, .timeout = 5)
{
    fixture_t f = fixture_create(NULL);
    begin(&f, first_id);
    release(&f, first_id);
    fixture_empty(&f);
    const pleat_devptr_t p = fixture_alloc(&f, 1000, 0);
    cr_expect(eq(u64, pool_of(&f, p).second, 1));
    fixture_free(&f, p);
    fixture_empty(&f);
    cr_expect(eq(i64, reserved(&f), 0));
    end(&f, first_id);
    fixture_empty(&f);
    cr_expect(eq(ptr, f.allocator->private_pools.first, NULL));
    fixture_check_and_destroy(&f);
}

/* ---- out of memory ---- */

Test(private_pool, an_out_of_memory_empties_freeable_pools, .timeout = 20)
{
    for (size_t m = 0; m < sizeof(modes) / sizeof(modes[0]); m++) {
        fixture_t f = create_in(modes[m], MIB(64));
        begin(&f, first_id);
        fixture_free(&f, fixture_alloc(&f, MIB(40), 0));
        end(&f, first_id);
        pleat_devptr_t p = 0;
        cr_expect(eq(int, pleat_alloc(f.allocator, MIB(40), 0, &p), PLEAT_ERR_OOM_DEVICE),
                  "mode %d: the pool is in use", (int)m);
        pleat_oom_info_t info = PLEAT_OOM_INFO_INIT;
        pleat_read_last_oom(f.allocator, &info);
        cr_expect(eq(u64, info.private_free_bytes, (uint64_t)reserved(&f)), "mode %d", (int)m);
        fixture_check(&f);
        release(&f, first_id);
        cr_expect(eq(int, pleat_alloc(f.allocator, MIB(40), 0, &p), PLEAT_OK), "mode %d", (int)m);
        cr_expect(eq(ptr, f.allocator->private_pools.first, NULL));
        fixture_check_and_destroy(&f);
    }
}

Test(private_pool, an_overflow_pool_helps_requests_outside, .timeout = 20)
{
    static const uint64_t sizes[] = {MIB(40), 3000};
    for (size_t m = 0; m < 3 * 2; m++) {
        fixture_t f = create_in(modes[m / 2], m % 2 == 0 ? MIB(64) : MIB(42));
        const uint64_t bytes = sizes[m % 2];
        begin(&f, first_id);
        const pleat_devptr_t a = fixture_alloc(&f, bytes, 0);
        end(&f, first_id);
        if (m % 2 == 1) {
            (void)fixture_alloc(&f, MIB(40), 0); /* the rest of the device */
        }
        fixture_free(&f, a);
        pleat_devptr_t p = 0;
        cr_expect(eq(int, pleat_alloc(f.allocator, bytes, 0, &p), PLEAT_ERR_OOM_DEVICE));
        cr_assert(eq(int, pleat_pool_set_overflow(f.allocator, first_id, true), PLEAT_OK));
        cr_expect(eq(int, pleat_alloc(f.allocator, bytes, 1, &p), PLEAT_ERR_OOM_DEVICE),
                  "memory of another stream is no help");
        const bool is_served = modes[m / 2] != PLEAT_MODE_TORCH_EXPANDABLE;
        const pleat_status_t status = pleat_alloc(f.allocator, bytes, 0, &p);
        cr_expect(eq(int, status, is_served ? PLEAT_OK : PLEAT_ERR_OOM_DEVICE),
                  "expandable segments do not count there");
        if (is_served) {
            cr_expect(eq(u64, p, a));
            cr_expect(eq(u64, pool_of(&f, p).second, 1));
            fixture_check(&f);
            fixture_free(&f, p);
        }
        cr_assert(eq(int, pleat_pool_set_overflow(f.allocator, first_id, false), PLEAT_OK));
        cr_expect(eq(int, pleat_alloc(f.allocator, bytes, 0, &p), PLEAT_ERR_OOM_DEVICE));
        fixture_check_and_destroy(&f);
    }
}

/* ---- whole segments ---- */

Test(private_pool, whole_segments_are_not_split, .timeout = 20)
{
    for (size_t m = 0; m < sizeof(modes) / sizeof(modes[0]); m++) {
        fixture_t f = create_in(modes[m], MIB(512));
        acquire(&f, first_id);
        cr_assert(eq(int, pleat_pool_set_no_split(f.allocator, first_id), PLEAT_OK));
        begin(&f, first_id);
        const pleat_devptr_t small = fixture_alloc(&f, 1000, 0);
        const pleat_devptr_t large = fixture_alloc(&f, MIB(3), 0);
        pleat_pointer_info_t info = PLEAT_POINTER_INFO_INIT;
        cr_assert(eq(int, pleat_find_pointer(f.allocator, small, &info), PLEAT_OK));
        cr_expect(eq(u64, info.block_bytes, MIB(2)), "mode %d", (int)m);
        cr_assert(eq(int, pleat_find_pointer(f.allocator, large, &info), PLEAT_OK));
        cr_expect(eq(u64, info.block_bytes, MIB(20)), "mode %d", (int)m);
        cr_expect(eq(int, info.is_expandable, modes[m] == PLEAT_MODE_TORCH_EXPANDABLE));
        fixture_free(&f, large);
        cr_expect(eq(u64, fixture_alloc(&f, MIB(4), 0), large));
        end_and_release(&f, first_id);
        fixture_check_and_destroy(&f);
    }
}

/* A graph that was captured works in them; PyTorch's modes give oversize ones back all the same. */
Test(private_pool, whole_segments_stay_in_pleated_mode_whatever_is_wanted, .timeout = 5)
{
    fixture_t f = create_in(PLEAT_MODE_PLEATED, MIB(100));
    pleat_options_t options = PLEAT_OPTIONS_INIT;
    options.mode = PLEAT_MODE_PLEATED;
    options.max_split_bytes = MIB(20);
    fixture_set_options(&f, &options);
    acquire(&f, first_id);
    cr_assert(eq(int, pleat_pool_set_no_split(f.allocator, first_id), PLEAT_OK));
    begin(&f, first_id);
    const pleat_devptr_t captured = fixture_alloc(&f, MIB(60), 0);
    fixture_free(&f, captured);
    pleat_devptr_t none = 0;
    cr_expect(eq(int, pleat_alloc(f.allocator, MIB(90), 0, &none), PLEAT_ERR_OOM_DEVICE));
    cr_expect(eq(u64, fixture_calls(&f, PLEAT_VMM_CALL_MEM_FREE), 0));
    cr_expect(eq(u64, fixture_alloc(&f, MIB(60), 0), captured));
    end_and_release(&f, first_id);
    fixture_check_and_destroy(&f);
}

/* Nor does the host wait for what another mode left, while a stream may be capturing. */
Test(private_pool, no_garbage_is_collected_for_whole_segments_in_pleated_mode, .timeout = 5)
{
    fixture_t f = create_in(PLEAT_MODE_CLASSIC, MIB(200));
    fixture_free(&f, fixture_alloc(&f, MIB(60), 0));
    pleat_options_t options = PLEAT_OPTIONS_INIT;
    options.mode = PLEAT_MODE_PLEATED;
    options.limit_bytes = MIB(200);
    options.garbage_collection_threshold = 0.1;
    fixture_set_options(&f, &options);
    acquire(&f, first_id);
    cr_assert(eq(int, pleat_pool_set_no_split(f.allocator, first_id), PLEAT_OK));
    begin(&f, first_id);
    const pleat_devptr_t captured = fixture_alloc(&f, MIB(60), 0);
    cr_expect(eq(u64, fixture_calls(&f, PLEAT_VMM_CALL_MEM_FREE), 0));
    fixture_free(&f, captured);
    end_and_release(&f, first_id);
    fixture_check_and_destroy(&f);
}

/* ---- segments from elsewhere ---- */

typedef struct source {
    uint64_t bytes; /* given out and not taken back */
    unsigned allocs;
    unsigned frees;
    unsigned ends;
    uint64_t last_bytes;
    bool is_dry;
} source_t;

static pleat_devptr_t source_alloc(void *context, uint64_t bytes, pleat_stream_t stream)
{
    source_t *source = context;
    (void)stream;
    source->last_bytes = bytes;
    if (source->is_dry) {
        return 0;
    }
    source->allocs++;
    source->bytes += bytes;
    return (UINT64_C(1) << 50) + (pleat_devptr_t)source->allocs * MIB(1024);
}

static void source_free(void *context, pleat_devptr_t ptr, uint64_t bytes, pleat_stream_t stream)
{
    source_t *source = context;
    (void)stream;
    (void)ptr;
    source->frees++;
    source->bytes -= bytes;
}

static void source_done(void *context)
{
    source_t *source = context;
    source->ends++;
}

static pleat_segment_source_t source_of(source_t *source)
{
    pleat_segment_source_t made = PLEAT_SEGMENT_SOURCE_INIT;
    made.context = source;
    made.alloc = source_alloc;
    made.free = source_free;
    made.done = source_done;
    return made;
}

Test(private_pool, a_source_is_asked_for_whole_segments_in_every_mode, .timeout = 20)
{
    for (size_t m = 0; m < sizeof(modes) / sizeof(modes[0]); m++) {
        fixture_t f = create_in(modes[m], MIB(512));
        source_t source = {0};
        const pleat_segment_source_t table = source_of(&source);
        cr_assert(eq(int, pleat_pool_acquire(f.allocator, first_id, &table), PLEAT_OK));
        cr_expect(eq(int, pleat_pool_acquire(f.allocator, first_id, &table), PLEAT_ERR_INVALID));
        cr_expect(has_error("exists already"));
        begin(&f, first_id);
        const pleat_devptr_t small = fixture_alloc(&f, 1000, 0);
        cr_expect(eq(u64, source.last_bytes, MIB(2)));
        const pleat_devptr_t large = fixture_alloc(&f, MIB(3), 0);
        cr_expect(eq(u64, source.last_bytes, MIB(20)));
        pleat_devptr_t single = 0;
        cr_expect(eq(int, pleat_alloc_single(f.allocator, MIB(2), 0, &single), PLEAT_OK));
        cr_expect(eq(u64, single, large + MIB(3)), "out of the rest, in mode %d too", (int)m);
        cr_expect(eq(u32, source.allocs, 2));
        cr_expect(eq(u64, fixture_calls(&f, PLEAT_VMM_CALL_MEM_ALLOC), 0));
        cr_expect(eq(i64, fixture_stats(&f).segment[PLEAT_STAT_ALL].current, 2));
        cr_expect(eq(i64, reserved(&f), (int64_t)source.bytes));
        source.is_dry = true;
        pleat_devptr_t none = 0;
        cr_expect(eq(int, pleat_alloc(f.allocator, MIB(30), 0, &none), PLEAT_ERR_OOM_DEVICE));
        end_and_release(&f, first_id);
        fixture_free(&f, small);
        fixture_free(&f, single);
        fixture_free(&f, large);
        fixture_empty(&f);
        cr_expect(eq(u32, source.frees, 0), "there is a use left");
        release(&f, first_id);
        cr_expect(eq(int, pleat_pool_empty(f.allocator, first_id), PLEAT_OK));
        cr_expect(eq(u32, source.frees, 2));
        cr_expect(eq(u64, source.bytes, 0));
        cr_expect(eq(u32, source.ends, 1));
        fixture_check_and_destroy(&f);
        cr_expect(eq(u32, source.ends, 1));
    }
}

Test(private_pool, a_source_gets_its_segments_back_at_the_end, .timeout = 5)
{
    fixture_t f = fixture_create(NULL);
    source_t source = {0};
    const pleat_segment_source_t table = source_of(&source);
    cr_assert(eq(int, pleat_pool_acquire(f.allocator, first_id, &table), PLEAT_OK));
    begin(&f, first_id);
    (void)fixture_alloc(&f, MIB(3), 0);
    fixture_check_and_destroy(&f);
    cr_expect(eq(u64, source.bytes, 0), "all 20 MiB of the segment that was cut in two");
    cr_expect(eq(u32, source.ends, 1));
}

/* ---- errors of the device ---- */

Test(private_pool, a_device_that_refuses_leaves_the_pool_as_it_was, .timeout = 20)
{
    static const pleat_vmm_call_t calls[] = {PLEAT_VMM_CALL_MEM_FREE, PLEAT_VMM_CALL_UNMAP,
                                             PLEAT_VMM_CALL_UNMAP};
    for (size_t m = 0; m < sizeof(modes) / sizeof(modes[0]); m++) {
        for (size_t i = 0; i < 2; i++) {
            fixture_t f = create_in(modes[m], MIB(512));
            begin(&f, first_id);
            fixture_free(&f, fixture_alloc(&f, i == 0 ? MIB(24) : 1000, 0));
            end_and_release(&f, first_id);
            fixture_state_t before = fixture_state(&f);
            fixture_fail_call(&f, calls[m], 1, PLEAT_ERR_DRIVER);
            cr_expect(eq(int, pleat_pool_empty(f.allocator, first_id), PLEAT_ERR_DRIVER));
            fixture_check(&f);
            before.stats.num_sync_all_streams++;
            cr_expect(fixture_state_is(&f, &before));
            fixture_state_drop(&before);
            fixture_fail_call(&f, calls[m], 1, PLEAT_ERR_DRIVER);
            cr_expect(eq(int, pleat_empty_cache(f.allocator), PLEAT_ERR_DRIVER));
            fixture_empty(&f);
            cr_expect(eq(i64, reserved(&f), 0));
            cr_expect(eq(ptr, f.allocator->private_pools.first, NULL));
            fixture_check_and_destroy(&f);
        }
    }
}

/* A range in which no page could be mapped is nothing that is left of a pool. */
Test(private_pool, a_range_without_pages_does_not_keep_a_pool, .timeout = 5)
{
    fixture_t f = create_in(PLEAT_MODE_TORCH_EXPANDABLE, MIB(512));
    begin(&f, first_id);
    fixture_fail_call(&f, PLEAT_VMM_CALL_CHUNK_CREATE, 1, PLEAT_ERR_OOM_DEVICE);
    pleat_devptr_t p = 0;
    cr_expect(eq(int, pleat_alloc(f.allocator, 1000, 0, &p), PLEAT_ERR_OOM_DEVICE));
    fixture_check(&f);
    end_and_release(&f, first_id);
    fixture_empty(&f);
    cr_expect(eq(ptr, f.allocator->private_pools.first, NULL));
    fixture_check_and_destroy(&f);
}

/* ---- orders ---- */

typedef struct seen {
    pleat_devptr_t freed[8];
    size_t count;
} seen_t;

static void see_frees(void *context, const pleat_trace_entry_t *entry)
{
    seen_t *seen = context;
    if (entry->action == PLEAT_ACTION_SEGMENT_FREE && seen->count < 8) {
        seen->freed[seen->count++] = entry->address;
    }
}

Test(private_pool, freeable_pools_give_back_in_the_order_that_was_set, .timeout = 5)
{
    for (unsigned round = 0; round < 2; round++) {
        fixture_t f = fixture_create(NULL);
        pleat_devptr_t p[3];
        for (uint64_t i = 0; i < 3; i++) {
            const pleat_pool_id_t id = {0, i + 1};
            begin(&f, id);
            p[i] = fixture_alloc(&f, 1000, 0);
            fixture_free(&f, p[i]);
            end_and_release(&f, id);
        }
        static const pleat_pool_id_t order[] = {{0, 3}, {0, 9}, {0, 1}};
        if (round == 1) {
            cr_assert(eq(int, pleat_allocator_set_freeable_order(f.allocator, order, 3), PLEAT_OK));
        }
        seen_t seen = {0};
        pleat_set_observer(f.allocator, see_frees, &seen);
        fixture_empty(&f);
        cr_assert(eq(sz, seen.count, 3));
        cr_expect(eq(u64, seen.freed[0], round == 0 ? p[0] : p[2]));
        cr_expect(eq(u64, seen.freed[1], round == 0 ? p[1] : p[0]));
        cr_expect(eq(u64, seen.freed[2], round == 0 ? p[2] : p[1]));
        pleat_set_observer(f.allocator, NULL, NULL);
        fixture_check_and_destroy(&f);
    }
}

/* ---- the callback ---- */

typedef struct cleaner {
    fixture_t *f;
    pleat_devptr_t ptr; /* to free; 0: nothing */
    unsigned calls;
    bool ends_pool;
} cleaner_t;

static bool clean(void *context)
{
    cleaner_t *cleaner = context;
    cleaner->calls++;
    if (cleaner->ends_pool) {
        end_and_release(cleaner->f, first_id);
        fixture_empty(cleaner->f);
    }
    if (cleaner->ptr == 0) {
        return false;
    }
    fixture_free(cleaner->f, cleaner->ptr);
    cleaner->ptr = 0;
    return true;
}

Test(private_pool, the_callback_may_free_what_is_then_handed_out, .timeout = 20)
{
    for (size_t m = 0; m < sizeof(modes) / sizeof(modes[0]); m++) {
        fixture_t f = create_in(modes[m], MIB(512));
        const pleat_devptr_t a = fixture_alloc(&f, MIB(24), 0);
        cleaner_t cleaner = {.f = &f, .ptr = a};
        pleat_set_free_memory_callback(f.allocator, clean, &cleaner);
        cr_expect(eq(u64, fixture_alloc(&f, MIB(24), 0), a), "mode %d", (int)m);
        cr_expect(eq(u32, cleaner.calls, 1));
        cr_expect(ne(u64, fixture_alloc(&f, MIB(24), 0), a), "nothing was freed");
        cr_expect(eq(u32, cleaner.calls, 2));
        pleat_set_free_memory_callback(f.allocator, NULL, NULL);
        (void)fixture_alloc(&f, MIB(24), 0);
        cr_expect(eq(u32, cleaner.calls, 2));
        fixture_check_and_destroy(&f);
    }
}

Test(private_pool, the_callback_is_not_for_what_is_there, .timeout = 20)
{
    for (size_t m = 0; m < sizeof(modes) / sizeof(modes[0]); m++) {
        fixture_t f = create_in(modes[m], MIB(512));
        fixture_free(&f, fixture_alloc(&f, MIB(24), 0));
        fixture_free(&f, fixture_alloc(&f, 512, 0));
        cleaner_t cleaner = {.f = &f};
        pleat_set_free_memory_callback(f.allocator, clean, &cleaner);
        fixture_free(&f, fixture_alloc(&f, MIB(24), 0));
        fixture_free(&f, fixture_alloc(&f, 512, 0));
        fixture_free(&f, fixture_alloc(&f, MIB(20), 0));
        cr_expect(eq(u32, cleaner.calls, 0), "mode %d", (int)m);
        pleat_set_free_memory_callback(f.allocator, NULL, NULL);
        fixture_check_and_destroy(&f);
    }
}

/* The pool that a request waits in without the lock stays until that is over. */
Test(private_pool, the_callback_may_end_the_redirection, .timeout = 20)
{
    for (size_t m = 0; m < sizeof(modes) / sizeof(modes[0]); m++) {
        fixture_t f = create_in(modes[m], MIB(512));
        cleaner_t cleaner = {.f = &f, .ends_pool = true};
        begin(&f, first_id);
        pleat_set_free_memory_callback(f.allocator, clean, &cleaner);
        const pleat_devptr_t p = fixture_alloc(&f, MIB(24), 0);
        cr_expect(eq(u64, pool_of(&f, p).second, 1));
        pleat_set_free_memory_callback(f.allocator, NULL, NULL);
        fixture_check(&f);
        fixture_free(&f, p);
        fixture_empty(&f);
        cr_expect(eq(ptr, f.allocator->private_pools.first, NULL));
        fixture_check_and_destroy(&f);
    }
}

/* The flush of the retry would end the pool, too. */
Test(private_pool, a_pool_that_the_callback_ended_may_get_nothing, .timeout = 20)
{
    for (size_t m = 0; m < sizeof(modes) / sizeof(modes[0]); m++) {
        fixture_t f = create_in(modes[m], MIB(16));
        cleaner_t cleaner = {.f = &f, .ends_pool = true};
        begin(&f, first_id);
        pleat_set_free_memory_callback(f.allocator, clean, &cleaner);
        pleat_devptr_t p = 0;
        cr_expect(eq(int, pleat_alloc(f.allocator, MIB(30), 0, &p), PLEAT_ERR_OOM_DEVICE));
        cr_expect(eq(u32, cleaner.calls, 1));
        fixture_check(&f);
        fixture_empty(&f);
        cr_expect(eq(ptr, f.allocator->private_pools.first, NULL));
        fixture_check_and_destroy(&f);
    }
}

/* Uses up the block objects that were in reserve, and lets the host refuse more. */
static bool starve(void *context)
{
    fixture_t *f = context;
    while (f->allocator->blocks.unused_count > 1) {
        (void)fixture_alloc(f, 512, 0);
    }
    host_fault_after(1);
    return true;
}

Test(private_pool, what_was_reserved_may_be_gone_after_the_callback, .timeout = 5)
{
    fixture_t f = fixture_create(NULL);
    fixture_free(&f, fixture_alloc(&f, 512, 0)); /* a segment that serves the callback */
    pleat_set_free_memory_callback(f.allocator, starve, &f);
    pleat_devptr_t p = 0;
    cr_expect(eq(int, pleat_alloc(f.allocator, MIB(3), 0, &p), PLEAT_ERR_OOM_HOST));
    host_fault_after(0);
    cr_expect(eq(u64, fixture_calls(&f, PLEAT_VMM_CALL_MEM_ALLOC), 1));
    pleat_set_free_memory_callback(f.allocator, NULL, NULL);
    fixture_check_and_destroy(&f);
}
