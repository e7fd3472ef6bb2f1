/*
 * Tests of fence: which waits a stream needs before it may use memory, what stays behind, and what
 * is left when the device or the host fails.
 */
#include "host_fault.h"
#include "pleated_bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

enum { OWN = 1, OTHER = 2, THIRD = 3 };

/* An arena of stream OWN with 16 free MiB. */
typedef struct layout {
    fixture_t f;
    pleat_arena_t *arena;
    pleat_handle_t *handle;
} layout_t;

static layout_t layout_make(void)
{
    layout_t layout = {.f = bench_create(100, NULL)};
    layout.arena = bench_arena(&layout.f, OWN);
    layout.handle = bench_handle(&layout.f, layout.arena, 0, 16);
    return layout;
}

static uint64_t waits(const layout_t *l)
{
    return fixture_calls(&l->f, PLEAT_VMM_CALL_STREAM_WAIT_EVENT);
}

/* Let a stream use a span from begin to end: order it, cut what lies there, leave a fence. */
static void use(const layout_t *l, unsigned offset, unsigned mib, pleat_stream_t stream)
{
    pleat_fence_t *fence = NULL;
    cr_assert(eq(int,
                 pleat_fence_order(l->f.allocator, l->arena, MIB(offset), MIB(mib), stream, &fence),
                 PLEAT_OK));
    pleat_fence_cut(l->f.allocator, l->arena, MIB(offset), MIB(mib));
    if (stream == OWN) {
        cr_expect(eq(ptr, fence, NULL));
    } else {
        cr_assert(ne(ptr, fence, NULL));
        pleat_fence_leave(l->f.allocator, l->arena, MIB(offset), MIB(mib), stream, fence);
    }
}

/* Waits that a stream needs for a span. */
static uint64_t needed(const layout_t *l, unsigned offset, unsigned mib, pleat_stream_t stream)
{
    const uint64_t before = waits(l);
    pleat_fence_t *fence = NULL;
    cr_assert(eq(int,
                 pleat_fence_order(l->f.allocator, l->arena, MIB(offset), MIB(mib), stream, &fence),
                 PLEAT_OK));
    pleat_fence_drop(l->f.allocator, fence);
    return waits(l) - before;
}

/* The fences of the arena as stream[begin,end) in MiB, in the order of the list. */
static void expect_fences(const layout_t *l, const char *wanted)
{
    char text[256] = "";
    for (const pleat_fence_t *fence = l->arena->fences; fence != NULL; fence = fence->next) {
        const size_t used = strlen(text);
        (void)snprintf(text + used, sizeof(text) - used, "%u[%u,%u) ", (unsigned)fence->stream,
                       (unsigned)(fence->begin / PLEAT_MIB), (unsigned)(fence->end / PLEAT_MIB));
    }
    cr_expect(eq(str, text, (char *)wanted));
}

static void set_busy(const layout_t *l)
{
    for (pleat_stream_t stream = OWN; stream <= THIRD; stream++) {
        fixture_set_busy(&l->f, stream);
    }
}

/* ---- order ---- */

Test(fence, the_own_stream_needs_no_call, .timeout = 5)
{
    layout_t l = layout_make();
    set_busy(&l);
    cr_expect(eq(u64, needed(&l, 0, 16, OWN), 0));
    cr_expect(eq(u64, fixture_calls(&l.f, PLEAT_VMM_CALL_EVENT_CREATE), 0));
    fixture_check_and_destroy(&l.f);
}

Test(fence, another_stream_waits_for_the_own, .timeout = 5)
{
    layout_t l = layout_make();
    set_busy(&l);
    cr_expect(eq(u64, needed(&l, 0, 4, OTHER), 1));
    cr_expect(eq(i64, l.f.allocator->stats.cross_stream_takes, 1));
    cr_expect(eq(i64, l.f.allocator->stats.event_waits, 1));
    fixture_check_and_destroy(&l.f);
}

Test(fence, whoever_comes_next_waits_for_the_use, .timeout = 5)
{
    layout_t l = layout_make();
    set_busy(&l);
    use(&l, 4, 4, OTHER);
    expect_fences(&l, "2[4,8) ");
    fixture_check(&l.f);
    cr_expect(eq(u64, needed(&l, 0, 4, OWN), 0));   /* beside it */
    cr_expect(eq(u64, needed(&l, 7, 4, OWN), 1));   /* for the use */
    cr_expect(eq(u64, needed(&l, 7, 4, THIRD), 2)); /* for the use and for the own stream */
    cr_expect(eq(u64, needed(&l, 4, 4, OTHER), 0)); /* all of it was its own */
    cr_expect(eq(u64, needed(&l, 4, 5, OTHER), 1)); /* not all of it */
    fixture_set_done(&l.f, OTHER);
    cr_expect(eq(u64, needed(&l, 7, 4, OWN), 0)); /* the use is over */
    fixture_check_and_destroy(&l.f);
}

Test(fence, a_use_that_could_not_be_recorded_makes_wait_for_the_stream, .timeout = 5)
{
    layout_t l = layout_make();
    pleat_fence_t *fence = NULL;
    cr_assert(
        eq(int, pleat_fence_order(l.f.allocator, l.arena, 0, MIB(4), OTHER, &fence), PLEAT_OK));
    fixture_fail_call(&l.f, PLEAT_VMM_CALL_EVENT_RECORD, 1, PLEAT_ERR_DRIVER);
    pleat_fence_leave(l.f.allocator, l.arena, 0, MIB(4), OTHER, fence);
    const uint64_t records = fixture_calls(&l.f, PLEAT_VMM_CALL_EVENT_RECORD);
    set_busy(&l);
    cr_expect(eq(u64, needed(&l, 0, 4, OWN), 1));
    cr_expect(eq(u64, fixture_calls(&l.f, PLEAT_VMM_CALL_EVENT_RECORD), records + 1));
    pleat_fence_prune(l.f.allocator, l.arena); /* nobody knows whether it is over */
    expect_fences(&l, "2[0,4) ");
    fixture_check_and_destroy(&l.f);
}

/* ---- cuts ---- */

Test(fence, a_cut_shortens_splits_and_ends_fences, .timeout = 5)
{
    static const struct {
        unsigned offset;
        unsigned mib;
        const char *fences;
    } rows[] = {
        {0, 4, "2[4,12) "},
        {12, 4, "2[4,12) "},
        {2, 4, "2[6,12) "},
        {10, 6, "2[4,10) "},
        {6, 2, "2[4,6) 2[8,12) "},
        {4, 2, "2[6,12) "},
        {10, 2, "2[4,10) "},
        {4, 8, ""},
        {0, 16, ""},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        layout_t l = layout_make();
        set_busy(&l);
        use(&l, 4, 8, OTHER);
        cr_assert(eq(int, pleat_fence_reserve_records(l.f.allocator, 1), PLEAT_OK));
        pleat_fence_cut(l.f.allocator, l.arena, MIB(rows[i].offset), MIB(rows[i].mib));
        expect_fences(&l, rows[i].fences);
        fixture_check_and_destroy(&l.f);
    }
}

Test(fence, both_halves_of_a_split_fence_hold, .timeout = 5)
{
    layout_t l = layout_make();
    set_busy(&l);
    use(&l, 4, 8, OTHER);
    use(&l, 6, 2, OWN);
    expect_fences(&l, "2[4,6) 2[8,12) ");
    cr_expect(eq(u64, needed(&l, 4, 2, OWN), 1));
    cr_expect(eq(u64, needed(&l, 11, 1, OWN), 1));
    cr_expect(eq(u64, needed(&l, 6, 2, OWN), 0));
    use(&l, 4, 2, OWN);
    cr_expect(eq(u64, needed(&l, 8, 4, OWN), 1)); /* the event is still there for the other half */
    use(&l, 8, 4, OWN);
    expect_fences(&l, "");
    fixture_check_and_destroy(&l.f);
}

Test(fence, many_uses_leave_many_fences, .timeout = 5)
{
    layout_t l = layout_make();
    set_busy(&l);
    use(&l, 0, 4, OTHER);
    use(&l, 4, 4, THIRD);
    use(&l, 8, 4, OTHER);
    expect_fences(&l, "2[8,12) 3[4,8) 2[0,4) ");
    cr_expect(eq(u64, needed(&l, 0, 16, OWN), 3));
    fixture_set_done(&l.f, THIRD);
    pleat_fence_prune(l.f.allocator, l.arena);
    expect_fences(&l, "2[8,12) 2[0,4) ");
    fixture_set_done(&l.f, OTHER);
    pleat_fence_prune(l.f.allocator, l.arena);
    expect_fences(&l, "");
    fixture_check_and_destroy(&l.f);
}

Test(fence, events_are_used_again, .timeout = 5)
{
    layout_t l = layout_make();
    for (unsigned i = 0; i < 10; i++) {
        use(&l, 0, 8, OTHER);
        use(&l, 0, 8, OWN);
    }
    cr_expect(le(u64, fixture_calls(&l.f, PLEAT_VMM_CALL_EVENT_CREATE), 2));
    fixture_check_and_destroy(&l.f);
}

/* ---- fences that are over ---- */

enum { SPANS = 512, FEW = 150 }; /* of 32 KiB in the layout; events that may stay */

static uint64_t alive_events(const layout_t *l)
{
    return fixture_calls(&l->f, PLEAT_VMM_CALL_EVENT_CREATE) -
           fixture_calls(&l->f, PLEAT_VMM_CALL_EVENT_DESTROY);
}

/* OTHER holds all spans at once, then leaves a fence on each. */
static void use_spans(const layout_t *l)
{
    const uint64_t bytes = MIB(16) / SPANS;
    pleat_fence_t *fences[SPANS];
    for (unsigned i = 0; i < SPANS; i++) {
        cr_assert(eq(
            int, pleat_fence_order(l->f.allocator, l->arena, i * bytes, bytes, OTHER, &fences[i]),
            PLEAT_OK));
        pleat_fence_cut(l->f.allocator, l->arena, i * bytes, bytes);
    }
    for (unsigned i = 0; i < SPANS; i++) {
        pleat_fence_leave(l->f.allocator, l->arena, i * bytes, bytes, OTHER, fences[i]);
    }
}

static size_t fences_of(const layout_t *l)
{
    size_t count = 0;
    for (const pleat_fence_t *fence = l->arena->fences; fence != NULL; fence = fence->next) {
        count++;
    }
    cr_expect(eq(sz, l->arena->fence_count, count));
    return count;
}

Test(fence, takes_elsewhere_clear_a_long_list_of_complete_fences, .timeout = 5)
{
    layout_t l = layout_make();
    set_busy(&l);
    use_spans(&l);
    cr_expect(eq(sz, fences_of(&l), SPANS)); /* none is over */
    fixture_set_done(&l.f, OTHER);
    bench_handle(&l.f, l.arena, 16, 8);
    for (unsigned i = 0; i < SPANS / 32; i++) {
        (void)needed(&l, 16, 1, OWN);
    }
    cr_expect(lt(sz, fences_of(&l), 64));
    cr_expect(lt(u64, alive_events(&l), FEW));
    fixture_check_and_destroy(&l.f);
}

Test(fence, gives_alone_keep_the_list_short_when_work_is_over, .timeout = 5)
{
    layout_t l = layout_make();
    use_spans(&l);
    cr_expect(lt(sz, fences_of(&l), 64));
    cr_expect(lt(u64, alive_events(&l), FEW));
    fixture_check_and_destroy(&l.f);
}

Test(fence, a_long_list_of_pending_fences_costs_a_few_queries, .timeout = 5)
{
    layout_t l = layout_make();
    set_busy(&l);
    use_spans(&l);
    bench_handle(&l.f, l.arena, 16, 8);
    const uint64_t before = fixture_calls(&l.f, PLEAT_VMM_CALL_EVENT_QUERY);
    for (unsigned i = 0; i < 100; i++) {
        cr_expect(eq(u64, needed(&l, 16, 1, OWN), 0));
    }
    cr_expect(le(u64, fixture_calls(&l.f, PLEAT_VMM_CALL_EVENT_QUERY) - before, 100 * 4));
    cr_expect(eq(sz, fences_of(&l), SPANS));
    fixture_check_and_destroy(&l.f);
}

Test(fence, complete_fences_among_pending_ones_go, .timeout = 5)
{
    layout_t l = layout_make();
    set_busy(&l);
    use_spans(&l);
    bench_handle(&l.f, l.arena, 16, 8);
    use(&l, 20, 1, THIRD); /* THIRD has not waited for OTHER */
    use(&l, 21, 1, OTHER);
    const size_t before = fences_of(&l);
    fixture_set_done(&l.f, THIRD);
    for (unsigned i = 0; i < SPANS / 4; i++) {
        (void)needed(&l, 16, 1, OWN);
    }
    cr_expect(eq(sz, fences_of(&l), before - 1));
    fixture_check_and_destroy(&l.f);
}

/* ---- before memory goes ---- */

Test(fence, the_end_of_a_stream_is_told_or_waited_for, .timeout = 5)
{
    layout_t l = layout_make();
    cr_expect(eq(int, pleat_fence_stream_is_over(l.f.allocator, OWN, false), PLEAT_OK));
    fixture_set_busy(&l.f, OWN);
    cr_expect(eq(int, pleat_fence_stream_is_over(l.f.allocator, OWN, false), PLEAT_ERR_NOT_READY));
    cr_expect(eq(int, pleat_fence_stream_is_over(l.f.allocator, OWN, true), PLEAT_OK));
    cr_expect(eq(int, pleat_fence_stream_is_over(l.f.allocator, OWN, false), PLEAT_OK));
    fixture_check_and_destroy(&l.f);
}

Test(fence, a_handle_is_over_when_all_its_users_are, .timeout = 5)
{
    layout_t l = layout_make();
    pleat_handle_t *beside = bench_handle(&l.f, l.arena, 16, 8);
    pleat_allocator_t *allocator = l.f.allocator;
    use(&l, 4, 8, OTHER);
    fixture_set_busy(&l.f, OTHER);
    cr_expect(eq(int, pleat_fence_handle_is_over(allocator, l.handle, false), PLEAT_ERR_NOT_READY));
    cr_expect(eq(int, pleat_fence_handle_is_over(allocator, beside, false), PLEAT_OK));
    fixture_set_busy(&l.f, OWN);
    cr_expect(eq(int, pleat_fence_handle_is_over(allocator, beside, false), PLEAT_ERR_NOT_READY));
    fixture_set_done(&l.f, OTHER);
    cr_expect(eq(int, pleat_fence_handle_is_over(allocator, l.handle, false), PLEAT_ERR_NOT_READY));
    cr_expect(eq(int, pleat_fence_handle_is_over(allocator, l.handle, true), PLEAT_OK));
    fixture_check_and_destroy(&l.f);
}

/* ---- failures ---- */

Test(fence, an_order_that_fails_leaves_the_fences, .timeout = 5)
{
    static const pleat_vmm_call_t calls[] = {
        PLEAT_VMM_CALL_EVENT_CREATE, PLEAT_VMM_CALL_EVENT_QUERY, PLEAT_VMM_CALL_STREAM_WAIT_EVENT,
        PLEAT_VMM_CALL_EVENT_RECORD};
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        layout_t l = layout_make();
        set_busy(&l);
        use(&l, 4, 8, OTHER);
        pleat_fence_t *held = NULL; /* so that another event is needed */
        cr_assert(
            eq(int, pleat_fence_order(l.f.allocator, l.arena, 0, MIB(1), THIRD, &held), PLEAT_OK));
        pleat_fence_t *fence = NULL;
        fixture_fail_call(&l.f, calls[i], 1, PLEAT_ERR_DRIVER);
        cr_expect(eq(int, pleat_fence_order(l.f.allocator, l.arena, 0, MIB(6), THIRD, &fence),
                     PLEAT_ERR_DRIVER));
        cr_expect(eq(ptr, fence, NULL));
        expect_fences(&l, "2[4,12) ");
        cr_expect(
            eq(int, pleat_fence_order(l.f.allocator, l.arena, 0, MIB(6), THIRD, &fence), PLEAT_OK));
        pleat_fence_drop(l.f.allocator, fence);
        pleat_fence_drop(l.f.allocator, held);
        fixture_check_and_destroy(&l.f);
    }
}

Test(fence, an_order_without_host_memory_changes_nothing, .timeout = 5)
{
    layout_t l = layout_make();
    pleat_fence_t *fence = NULL;
    unsigned failures = 0;
    for (unsigned nth = 1; fence == NULL; nth++) {
        host_fault_after(nth);
        const pleat_status_t status =
            pleat_fence_order(l.f.allocator, l.arena, 0, MIB(6), THIRD, &fence);
        host_fault_after(0);
        if (status != PLEAT_OK) {
            cr_expect(eq(int, status, PLEAT_ERR_OOM_HOST));
            cr_expect(eq(ptr, fence, NULL));
            failures++;
        }
    }
    cr_expect(ge(uint, failures, 3)); /* a record, a fence, its event */
    pleat_fence_drop(l.f.allocator, fence);
    fixture_check_and_destroy(&l.f);
}

Test(fence, records_without_host_memory_are_refused, .timeout = 5)
{
    layout_t l = layout_make();
    l.f.allocator->spare_record_count = 0;
    while (l.f.allocator->spare_records != NULL) { /* those that the bench reserved */
        pleat_fence_t *next = l.f.allocator->spare_records->next;
        free(l.f.allocator->spare_records);
        l.f.allocator->spare_records = next;
    }
    host_fault_after(2);
    cr_expect(eq(int, pleat_fence_reserve_records(l.f.allocator, 3), PLEAT_ERR_OOM_HOST));
    host_fault_after(0);
    cr_expect(eq(sz, l.f.allocator->spare_record_count, 1));
    cr_expect(eq(int, pleat_fence_reserve_records(l.f.allocator, 3), PLEAT_OK));
    cr_expect(eq(sz, l.f.allocator->spare_record_count, 3));
    fixture_check_and_destroy(&l.f);
}

Test(fence, a_stream_whose_end_cannot_be_told_gives_the_error, .timeout = 5)
{
    static const pleat_vmm_call_t calls[] = {
        PLEAT_VMM_CALL_EVENT_CREATE, PLEAT_VMM_CALL_EVENT_RECORD, PLEAT_VMM_CALL_EVENT_QUERY,
        PLEAT_VMM_CALL_EVENT_SYNCHRONIZE};
    layout_t l = layout_make();
    fixture_set_busy(&l.f, OWN);
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        fixture_fail_call(&l.f, calls[i], 1, PLEAT_ERR_DRIVER);
        cr_expect(
            eq(int, pleat_fence_handle_is_over(l.f.allocator, l.handle, true), PLEAT_ERR_DRIVER));
    }
    fixture_check_and_destroy(&l.f);
}

Test(fence, nothing_is_dropped_for_null, .timeout = 5)
{
    layout_t l = layout_make();
    pleat_fence_drop(l.f.allocator, NULL);
    cr_expect(eq(ptr, l.f.allocator->spare_fences, NULL));
    fixture_check_and_destroy(&l.f);
}
