/*
 * Tests of deferred: frees that are put off while requests are redirected, and how they end.
 */
#include "core/allocator.h"
#include "core/deferred.h"

#include "fixture.h"
#include "host_fault.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#define MIB(count) ((uint64_t)(count)*PLEAT_MIB)

static const pleat_pool_id_t id = {0, 7};

static void begin(const fixture_t *f)
{
    FIXTURE_REQUIRE(pleat_pool_begin(f->allocator, id, NULL, NULL) == PLEAT_OK, "%s",
                    pleat_last_error());
}

static void end(const fixture_t *f)
{
    FIXTURE_REQUIRE(pleat_pool_end(f->allocator, id) == PLEAT_OK, "%s", pleat_last_error());
}

static int64_t active(const fixture_t *f)
{
    return fixture_stats(f).active[PLEAT_STAT_ALL].current;
}

static size_t deferred(const fixture_t *f)
{
    return f->allocator->waiting.deferred.count;
}

Test(deferred, a_free_is_put_off_and_stays_active, .timeout = 5)
{
    fixture_t f = fixture_create(NULL);
    const pleat_devptr_t a = fixture_alloc(&f, 1000, 0);
    fixture_record(&f, a, 1);
    begin(&f);
    fixture_free(&f, a);
    fixture_check(&f);
    cr_expect(eq(sz, deferred(&f), 1));
    cr_expect(eq(i64, active(&f), 1));
    cr_expect(eq(i64, fixture_stats(&f).allocation[PLEAT_STAT_ALL].current, 0));
    cr_expect(eq(int, pleat_free(f.allocator, a), PLEAT_ERR_INVALID_POINTER));
    pleat_snapshot_t *snapshot = NULL;
    cr_assert(eq(int, pleat_snapshot_take(f.allocator, &snapshot), PLEAT_OK));
    cr_expect(eq(int, snapshot->blocks[0].state, PLEAT_BLOCK_PENDING_FREE));
    pleat_snapshot_destroy(snapshot);
    (void)fixture_alloc(&f, 1000, 0);
    cr_expect(eq(sz, deferred(&f), 1), "a redirection is open");
    end(&f);
    cr_expect(eq(sz, deferred(&f), 1), "the next request resolves");
    cr_expect(ne(u64, fixture_alloc(&f, MIB(3), 0), 0));
    cr_expect(eq(sz, deferred(&f), 0));
    cr_expect(eq(i64, active(&f), 2), "the event was complete at once");
    fixture_check_and_destroy(&f);
}

Test(deferred, only_uses_from_outside_get_events, .timeout = 5)
{
    fixture_t f = fixture_create(NULL);
    const pleat_devptr_t before = fixture_alloc(&f, 1000, 0);
    const pleat_devptr_t inside = fixture_alloc(&f, 1000, 0);
    const pleat_devptr_t both = fixture_alloc(&f, 1000, 0);
    for (pleat_stream_t stream = 1; stream <= 2; stream++) {
        fixture_set_busy(&f, stream);
    }
    fixture_record(&f, before, 1);
    fixture_record(&f, both, 1);
    begin(&f);
    fixture_record(&f, inside, 2);
    fixture_record(&f, both, 2);
    fixture_free(&f, before);
    fixture_free(&f, inside);
    fixture_free(&f, both);
    cr_expect(eq(u64, fixture_calls(&f, PLEAT_VMM_CALL_EVENT_RECORD), 0));
    end(&f);
    (void)fixture_alloc(&f, MIB(3), 9);
    cr_expect(eq(u64, fixture_calls(&f, PLEAT_VMM_CALL_EVENT_RECORD), 2));
    cr_expect(eq(i64, active(&f), 3), "before and both wait for stream 1");
    fixture_check(&f);
    fixture_set_done(&f, 1);
    (void)fixture_alloc(&f, MIB(3), 9);
    cr_expect(eq(i64, active(&f), 2));
    fixture_check_and_destroy(&f);
}

/* Work of another thread, which captures nothing, may be what is recorded inside, or a use from
 * before may be recorded again: PyTorch drops both; pleated mode does not. */
Test(deferred, pleated_mode_waits_for_uses_from_inside, .timeout = 5)
{
    for (int mode = 0; mode < PLEAT_MODE_COUNT; mode++) {
        pleat_options_t options = PLEAT_OPTIONS_INIT;
        options.mode = (pleat_mode_t)mode;
        fixture_t f = fixture_create(&(fixture_options_t){.options = &options});
        const pleat_devptr_t inside = fixture_alloc(&f, 1000, 0);
        const pleat_devptr_t again = fixture_alloc(&f, 1000, 0);
        fixture_set_busy(&f, 1);
        fixture_record(&f, again, 1);
        begin(&f);
        fixture_record(&f, inside, 1);
        fixture_record(&f, again, 1);
        fixture_free(&f, inside);
        fixture_free(&f, again);
        end(&f);
        (void)fixture_alloc(&f, MIB(3), 9);
        cr_expect(eq(i64, active(&f), mode == PLEAT_MODE_PLEATED ? 3 : 1), "mode %d", mode);
        fixture_set_done(&f, 1);
        (void)fixture_alloc(&f, MIB(3), 9);
        cr_expect(eq(i64, active(&f), 2), "mode %d", mode);
        fixture_check_and_destroy(&f);
    }
}

/* The note that a use was recorded inside goes with the block: nothing of it is left for others. */
Test(deferred, notes_do_not_outlive_their_block, .timeout = 5)
{
    fixture_t f = fixture_create(NULL);
    pleat_devptr_t a = fixture_alloc(&f, 1000, 0);
    begin(&f);
    fixture_record(&f, a, 1);
    end(&f);
    fixture_free(&f, a); /* by an ordinary event */
    a = fixture_alloc(&f, 1000, 0);
    fixture_set_busy(&f, 1);
    fixture_record(&f, a, 1);
    begin(&f);
    fixture_free(&f, a);
    end(&f);
    (void)fixture_alloc(&f, MIB(3), 9);
    cr_expect(eq(i64, active(&f), 2), "it waits for stream 1");
    fixture_check_and_destroy(&f);
}

Test(deferred, an_empty_cache_resolves_and_waits, .timeout = 5)
{
    fixture_t f = fixture_create(NULL);
    const pleat_devptr_t a = fixture_alloc(&f, 1000, 0);
    fixture_set_busy(&f, 1);
    fixture_record(&f, a, 1);
    begin(&f);
    fixture_free(&f, a);
    end(&f);
    fixture_empty(&f);
    cr_expect(eq(i64, active(&f), 0));
    cr_expect(eq(i64, fixture_stats(&f).reserved_bytes[PLEAT_STAT_ALL].current, 0));
    fixture_check_and_destroy(&f);
}

/* Emptying one pool resolves everything and waits for its own frees only. */
Test(deferred, emptying_one_pool_waits_for_its_own_frees, .timeout = 5)
{
    fixture_t f = fixture_create(NULL);
    const pleat_devptr_t other = fixture_alloc(&f, 1000, 0);
    begin(&f);
    const pleat_devptr_t own = fixture_alloc(&f, 1000, 0);
    end(&f);
    const pleat_devptr_t third = fixture_alloc(&f, 1000, 0);
    fixture_set_busy(&f, 1);
    fixture_record(&f, other, 1);
    fixture_record(&f, own, 1);
    fixture_record(&f, third, 1);
    begin(&f);
    fixture_free(&f, other);
    fixture_free(&f, own);
    fixture_free(&f, third);
    end(&f);
    cr_assert(eq(int, pleat_pool_release(f.allocator, id), PLEAT_OK));
    cr_assert(eq(int, pleat_pool_release(f.allocator, id), PLEAT_OK));
    cr_expect(eq(int, pleat_pool_empty(f.allocator, id), PLEAT_OK));
    cr_expect(eq(sz, deferred(&f), 0));
    cr_expect(eq(i64, active(&f), 2));
    cr_expect(eq(i64, fixture_stats(&f).num_sync_all_streams, 1));
    cr_expect(eq(ptr, f.allocator->private_pools.first, NULL));
    cr_expect(eq(sz, f.allocator->waiting.wait_count, 2));
    fixture_check(&f);
    (void)fixture_alloc(&f, MIB(3), 9);
    cr_expect(eq(i64, active(&f), 1), "the wait finished the stream");
    fixture_check_and_destroy(&f);
}

Test(deferred, an_event_that_cannot_be_recorded_puts_off_again, .timeout = 5)
{
    fixture_t f = fixture_create(NULL);
    const pleat_devptr_t a = fixture_alloc(&f, 1000, 0);
    const pleat_devptr_t b = fixture_alloc(&f, 1000, 0);
    fixture_record(&f, a, 1);
    fixture_record(&f, b, 1);
    begin(&f);
    fixture_free(&f, a);
    fixture_free(&f, b);
    end(&f);
    pleat_devptr_t p = 0;
    fixture_fail_call(&f, PLEAT_VMM_CALL_EVENT_RECORD, 2, PLEAT_ERR_DRIVER);
    cr_expect(eq(int, pleat_alloc(f.allocator, 1000, 0, &p), PLEAT_ERR_DRIVER));
    cr_expect(eq(sz, deferred(&f), 1));
    fixture_check(&f);
    fixture_fail_call(&f, PLEAT_VMM_CALL_EVENT_RECORD, 1, PLEAT_ERR_DRIVER);
    cr_expect(eq(int, pleat_empty_cache(f.allocator), PLEAT_ERR_DRIVER));
    cr_expect(eq(sz, deferred(&f), 1));
    fixture_empty(&f);
    cr_expect(eq(i64, active(&f), 0));
    fixture_check_and_destroy(&f);
}

Test(deferred, destruction_forgets_what_cannot_be_resolved, .timeout = 5)
{
    fixture_t f = fixture_create(NULL);
    const pleat_devptr_t a = fixture_alloc(&f, 1000, 0);
    fixture_record(&f, a, 1);
    begin(&f);
    fixture_free(&f, a);
    fixture_fail_call(&f, PLEAT_VMM_CALL_EVENT_RECORD, 1, PLEAT_ERR_DRIVER);
    fixture_check_and_destroy(&f);
}

/* ---- orders of replays ---- */

typedef struct seen {
    pleat_devptr_t completed[8];
    size_t count;
} seen_t;

static void see(void *context, const pleat_trace_entry_t *entry)
{
    seen_t *seen = context;
    if (entry->action == PLEAT_ACTION_FREE_COMPLETED && seen->count < 8) {
        seen->completed[seen->count++] = entry->address;
    }
}

Test(deferred, an_order_holds_for_one_resolution, .timeout = 5)
{
    fixture_t f = fixture_create(NULL);
    for (unsigned round = 0; round < 2; round++) {
        pleat_devptr_t p[3];
        begin(&f);
        for (unsigned i = 0; i < 3; i++) {
            p[i] = fixture_alloc(&f, 1000, 0);
            fixture_record(&f, p[i], 1);
        }
        for (unsigned i = 0; i < 3; i++) {
            fixture_free(&f, p[i]);
        }
        end(&f);
        const pleat_devptr_t order[] = {p[2], 12345, p[0]};
        if (round == 0) {
            cr_assert(eq(int, pleat_allocator_set_deferred_order(f.allocator, order, 3), PLEAT_OK));
        }
        seen_t seen = {0};
        pleat_set_observer(f.allocator, see, &seen);
        (void)fixture_alloc(&f, MIB(3), 0);
        cr_assert(eq(sz, seen.count, 3));
        cr_expect(eq(u64, seen.completed[0], round == 0 ? p[2] : p[0]));
        cr_expect(eq(u64, seen.completed[1], round == 0 ? p[0] : p[1]));
        cr_expect(eq(u64, seen.completed[2], round == 0 ? p[1] : p[2]));
        pleat_set_observer(f.allocator, NULL, NULL);
    }
    fixture_check_and_destroy(&f);
}

/* What a look ahead finds, and how often. */
typedef struct ahead {
    size_t count;
    pleat_devptr_t addresses[8];
    pleat_stream_t streams[8];
    bool are_ready[8];
} ahead_t;

static void look(void *context, pleat_stream_t stream, pleat_devptr_t address, bool is_ready)
{
    ahead_t *ahead = context;
    cr_assert(lt(sz, ahead->count, 8));
    ahead->addresses[ahead->count] = address;
    ahead->streams[ahead->count] = stream;
    ahead->are_ready[ahead->count++] = is_ready;
}

Test(deferred, a_look_ahead_tells_what_would_be_queued, .timeout = 5)
{
    fixture_t f = fixture_create(NULL);
    pleat_devptr_t p[4];
    for (unsigned i = 0; i < 4; i++) {
        p[i] = fixture_alloc(&f, 1000, 0);
    }
    fixture_record(&f, p[0], 1);
    fixture_record(&f, p[1], 2);
    fixture_record(&f, p[3], 1);
    fixture_set_busy(&f, 2);
    begin(&f);
    fixture_record(&f, p[1], 3); /* dropped */
    fixture_record(&f, p[2], 1); /* complete at once */
    for (unsigned i = 0; i < 4; i++) {
        fixture_free(&f, p[i]);
    }
    end(&f);
    const pleat_devptr_t order[] = {p[2], p[1]};
    cr_assert(eq(int, pleat_allocator_set_deferred_order(f.allocator, order, 2), PLEAT_OK));
    cr_assert(eq(int, pleat_allocator_set_stale(f.allocator, &p[3], 1), PLEAT_OK));
    ahead_t ahead = {0};
    cr_expect(eq(sz, pleat_allocator_visit_deferred(f.allocator, look, &ahead), 2));
    cr_assert(eq(sz, ahead.count, 2));
    cr_expect(eq(u64, ahead.addresses[0], p[1]));
    cr_expect(eq(u64, ahead.streams[0], 2));
    cr_expect(not(ahead.are_ready[0]));
    cr_expect(eq(u64, ahead.addresses[1], p[0]));
    cr_expect(eq(u64, ahead.streams[1], 1));
    cr_expect(ahead.are_ready[1]);
    cr_expect(eq(sz, deferred(&f), 4), "nothing changed");
    (void)fixture_alloc(&f, MIB(3), 0);
    cr_expect(eq(i64, active(&f), 2), "the new one, and the one that waits for stream 2");
    fixture_check_and_destroy(&f);
}

Test(deferred, stale_frees_are_complete_at_once, .timeout = 5)
{
    fixture_t f = fixture_create(NULL);
    const pleat_devptr_t a = fixture_alloc(&f, 1000, 0);
    const pleat_devptr_t b = fixture_alloc(&f, 1000, 0);
    fixture_set_busy(&f, 1);
    fixture_record(&f, a, 1);
    fixture_record(&f, b, 1);
    begin(&f);
    fixture_free(&f, a);
    fixture_free(&f, b);
    end(&f);
    cr_assert(eq(int, pleat_allocator_set_stale(f.allocator, &b, 1), PLEAT_OK));
    seen_t seen = {0};
    pleat_set_observer(f.allocator, see, &seen);
    (void)fixture_alloc(&f, MIB(3), 9);
    cr_assert(eq(sz, seen.count, 1));
    cr_expect(eq(u64, seen.completed[0], b));
    pleat_set_observer(f.allocator, NULL, NULL);
    fixture_check_and_destroy(&f);
}

Test(deferred, no_host_memory_for_an_order, .timeout = 5)
{
    fixture_t f = fixture_create(NULL);
    const pleat_devptr_t a = 512;
    host_fault_after(1);
    cr_expect(eq(int, pleat_allocator_set_deferred_order(f.allocator, &a, 1), PLEAT_ERR_OOM_HOST));
    host_fault_after(1);
    cr_expect(eq(int, pleat_allocator_set_stale(f.allocator, &a, 1), PLEAT_ERR_OOM_HOST));
    host_fault_after(0);
    cr_expect(eq(int, pleat_allocator_set_stale(f.allocator, NULL, 0), PLEAT_OK));
    fixture_check_and_destroy(&f);
}
