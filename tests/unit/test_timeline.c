/*
 * Tests of timeline and gate, through the calls of the simulated device: order of work on streams,
 * events, waits between streams and by the host. The cost table here is all zero, so that the clock
 * moves only where a test or a wait moves it.
 */
#include <pleat/sim.h>

#include "host_fault.h"

#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

static void expect_ok(pleat_status_t status)
{
    cr_assert(eq(int, status, PLEAT_OK), "%s", pleat_last_error());
}

static pleat_vmm_t *sim_create(void)
{
    const pleat_cost_table_t costs = {.size = sizeof costs};
    pleat_sim_options_t options = PLEAT_SIM_OPTIONS_INIT;
    options.costs = &costs;
    pleat_vmm_t *vmm = NULL;
    expect_ok(pleat_sim_create(&options, &vmm));
    return vmm;
}

/* An event that stands for all work that is on the stream now. */
static pleat_event_t mark(pleat_vmm_t *vmm, pleat_stream_t stream)
{
    pleat_event_t event = 0;
    expect_ok(pleat_vmm_event_create(vmm, &event));
    expect_ok(pleat_vmm_event_record(vmm, event, stream));
    return event;
}

static bool is_complete(pleat_vmm_t *vmm, pleat_event_t event)
{
    const pleat_status_t status = pleat_vmm_event_query(vmm, event);
    cr_assert(status == PLEAT_OK || status == PLEAT_ERR_NOT_READY);
    return status == PLEAT_OK;
}

static uint64_t waits(pleat_vmm_t *vmm)
{
    pleat_vmm_counters_t counters = PLEAT_VMM_COUNTERS_INIT;
    pleat_vmm_read_counters(vmm, &counters);
    return counters.waits;
}

Test(timeline, an_event_never_recorded_is_complete, .timeout = 10)
{
    pleat_vmm_t *vmm = sim_create();
    pleat_event_t event = 0;
    expect_ok(pleat_vmm_event_create(vmm, &event));
    cr_expect(is_complete(vmm, event));
    expect_ok(pleat_vmm_event_synchronize(vmm, event));
    cr_expect(eq(u64, waits(vmm), 0));
    pleat_vmm_destroy(vmm);
}

Test(timeline, an_idle_stream_completes_at_once, .timeout = 10)
{
    pleat_vmm_t *vmm = sim_create();
    cr_expect(is_complete(vmm, mark(vmm, 0)));
    cr_expect(is_complete(vmm, mark(vmm, UINT64_MAX)));
    expect_ok(pleat_sim_set_done(vmm, 5));
    expect_ok(pleat_vmm_stream_synchronize(vmm, 5));
    cr_expect(eq(u64, waits(vmm), 0));
    pleat_vmm_destroy(vmm);
}

Test(timeline, launched_work_ends_when_the_clock_passes, .timeout = 10)
{
    pleat_vmm_t *vmm = sim_create();
    expect_ok(pleat_sim_launch(vmm, 1, 100));
    const pleat_event_t first = mark(vmm, 1);
    expect_ok(pleat_sim_launch(vmm, 1, 50));
    const pleat_event_t second = mark(vmm, 1);
    const pleat_event_t other = mark(vmm, 2);
    cr_expect(not(is_complete(vmm, first)));
    cr_expect(is_complete(vmm, other));
    expect_ok(pleat_sim_advance_to(vmm, 99));
    cr_expect(not(is_complete(vmm, first)));
    expect_ok(pleat_sim_advance_to(vmm, 100));
    cr_expect(is_complete(vmm, first));
    cr_expect(not(is_complete(vmm, second)));
    expect_ok(pleat_sim_advance_to(vmm, 150));
    cr_expect(is_complete(vmm, second));
    /* After a pause, work starts when it is launched. */
    expect_ok(pleat_sim_advance_to(vmm, 1000));
    expect_ok(pleat_sim_launch(vmm, 1, 10));
    const pleat_event_t third = mark(vmm, 1);
    expect_ok(pleat_sim_advance_to(vmm, 1009));
    cr_expect(not(is_complete(vmm, third)));
    expect_ok(pleat_sim_advance_to(vmm, 1010));
    cr_expect(is_complete(vmm, third));
    pleat_vmm_destroy(vmm);
}

Test(timeline, a_busy_stream_is_unfinished_until_done, .timeout = 10)
{
    pleat_vmm_t *vmm = sim_create();
    const pleat_event_t before = mark(vmm, 1);
    expect_ok(pleat_sim_set_busy(vmm, 1));
    const pleat_event_t event = mark(vmm, 1);
    expect_ok(pleat_sim_set_busy(vmm, 1)); /* still the same work */
    expect_ok(pleat_sim_advance_to(vmm, UINT64_C(1) << 60));
    cr_expect(is_complete(vmm, before));
    cr_expect(not(is_complete(vmm, event)));
    expect_ok(pleat_sim_set_done(vmm, 2));
    cr_expect(not(is_complete(vmm, event)));
    expect_ok(pleat_sim_set_done(vmm, 1));
    cr_expect(is_complete(vmm, event));
    cr_expect(is_complete(vmm, mark(vmm, 1)));
    /* It can be busy again, and the old event stays complete. */
    expect_ok(pleat_sim_set_busy(vmm, 1));
    cr_expect(not(is_complete(vmm, mark(vmm, 1))));
    cr_expect(is_complete(vmm, event));
    cr_expect(eq(u64, waits(vmm), 0));
    pleat_vmm_destroy(vmm);
}

Test(timeline, all_done_finishes_every_stream, .timeout = 10)
{
    pleat_vmm_t *vmm = sim_create();
    pleat_event_t events[3000];
    for (uint64_t i = 0; i < 3000; i++) {
        const pleat_stream_t stream = i << 40;
        expect_ok(i % 2 == 0 ? pleat_sim_set_busy(vmm, stream)
                             : pleat_sim_launch(vmm, stream, i + 1));
        events[i] = mark(vmm, stream);
        cr_assert(not(is_complete(vmm, events[i])));
    }
    expect_ok(pleat_sim_set_all_done(vmm));
    cr_expect(eq(u64, pleat_vmm_clock_ns(vmm), 3000));
    for (int i = 0; i < 3000; i++) {
        cr_assert(is_complete(vmm, events[i]));
        expect_ok(pleat_vmm_event_destroy(vmm, events[i]));
    }
    cr_expect(eq(u64, waits(vmm), 0));
    pleat_vmm_destroy(vmm);
}

Test(timeline, free_waits_for_the_latest_work, .timeout = 10)
{
    pleat_vmm_t *vmm = sim_create();
    pleat_devptr_t ptr = 0;
    expect_ok(pleat_vmm_mem_alloc(vmm, 512, &ptr));
    expect_ok(pleat_sim_launch(vmm, 1, 70));
    expect_ok(pleat_sim_launch(vmm, 2, 300));
    expect_ok(pleat_sim_set_busy(vmm, 3));
    expect_ok(pleat_sim_launch(vmm, 3, 20));
    const pleat_event_t event = mark(vmm, 3);
    expect_ok(pleat_vmm_mem_free(vmm, ptr));
    cr_expect(is_complete(vmm, event));
    cr_expect(eq(u64, pleat_vmm_clock_ns(vmm), 300));
    cr_expect(eq(u64, waits(vmm), 1));

    pleat_vmm_counters_t counters = PLEAT_VMM_COUNTERS_INIT;
    pleat_vmm_read_counters(vmm, &counters);
    cr_expect(eq(u64, counters.time_ns[PLEAT_VMM_CALL_MEM_FREE], 300));
    pleat_vmm_destroy(vmm);
}

Test(timeline, every_free_counts_as_a_wait, .timeout = 10)
{
    pleat_vmm_t *vmm = sim_create();
    pleat_devptr_t ptr = 0;
    expect_ok(pleat_vmm_mem_alloc(vmm, 512, &ptr));
    expect_ok(pleat_vmm_mem_free(vmm, ptr));
    cr_expect(eq(u64, waits(vmm), 1));
    pleat_vmm_destroy(vmm);
}

Test(timeline, event_synchronize_moves_the_clock_to_the_event, .timeout = 10)
{
    pleat_vmm_t *vmm = sim_create();
    expect_ok(pleat_sim_launch(vmm, 1, 100));
    const pleat_event_t first = mark(vmm, 1);
    expect_ok(pleat_sim_launch(vmm, 1, 100));
    const pleat_event_t second = mark(vmm, 1);
    expect_ok(pleat_vmm_event_synchronize(vmm, first));
    cr_expect(eq(u64, pleat_vmm_clock_ns(vmm), 100));
    cr_expect(not(is_complete(vmm, second)));
    cr_expect(eq(u64, waits(vmm), 1));
    expect_ok(pleat_vmm_event_synchronize(vmm, first));
    cr_expect(eq(u64, waits(vmm), 1), "complete before: nothing to wait for");
    pleat_vmm_destroy(vmm);
}

Test(timeline, event_synchronize_finishes_a_busy_stream, .timeout = 10)
{
    pleat_vmm_t *vmm = sim_create();
    expect_ok(pleat_sim_set_busy(vmm, 1));
    expect_ok(pleat_sim_set_busy(vmm, 2));
    const pleat_event_t first = mark(vmm, 1);
    const pleat_event_t later = mark(vmm, 1);
    const pleat_event_t other = mark(vmm, 2);
    expect_ok(pleat_vmm_event_synchronize(vmm, first));
    cr_expect(is_complete(vmm, first));
    cr_expect(is_complete(vmm, later));
    cr_expect(is_complete(vmm, mark(vmm, 1)));
    cr_expect(not(is_complete(vmm, other)));
    cr_expect(eq(u64, waits(vmm), 1));
    pleat_vmm_destroy(vmm);
}

Test(timeline, stream_synchronize_finishes_its_stream, .timeout = 10)
{
    pleat_vmm_t *vmm = sim_create();
    expect_ok(pleat_sim_launch(vmm, 1, 40));
    expect_ok(pleat_sim_set_busy(vmm, 1));
    expect_ok(pleat_sim_launch(vmm, 1, 60));
    const pleat_event_t event = mark(vmm, 1);
    expect_ok(pleat_vmm_stream_synchronize(vmm, 1));
    cr_expect(eq(u64, pleat_vmm_clock_ns(vmm), 100), "busy work begins behind the 40");
    cr_expect(is_complete(vmm, event));
    cr_expect(eq(u64, waits(vmm), 1));
    expect_ok(pleat_vmm_stream_synchronize(vmm, 1));
    cr_expect(eq(u64, waits(vmm), 1));
    pleat_vmm_destroy(vmm);
}

Test(timeline, work_launched_behind_busy_work_starts_when_that_ends, .timeout = 10)
{
    pleat_vmm_t *vmm = sim_create();
    expect_ok(pleat_sim_set_busy(vmm, 1));
    const pleat_event_t first = mark(vmm, 1);
    expect_ok(pleat_sim_launch(vmm, 1, 30));
    const pleat_event_t second = mark(vmm, 1);
    expect_ok(pleat_sim_advance_to(vmm, 500));
    expect_ok(pleat_vmm_event_synchronize(vmm, first));
    cr_expect(not(is_complete(vmm, second)));
    expect_ok(pleat_sim_advance_to(vmm, 529));
    cr_expect(not(is_complete(vmm, second)));
    expect_ok(pleat_sim_advance_to(vmm, 530));
    cr_expect(is_complete(vmm, second));
    pleat_vmm_destroy(vmm);
}

Test(timeline, a_stream_waits_for_launched_work_of_another, .timeout = 10)
{
    pleat_vmm_t *vmm = sim_create();
    expect_ok(pleat_sim_launch(vmm, 1, 100));
    const pleat_event_t first = mark(vmm, 1);
    expect_ok(pleat_sim_launch(vmm, 1, 1000));
    expect_ok(pleat_vmm_stream_wait_event(vmm, 2, first));
    cr_expect(not(is_complete(vmm, mark(vmm, 2))));
    expect_ok(pleat_sim_launch(vmm, 2, 5));
    const pleat_event_t second = mark(vmm, 2);
    expect_ok(pleat_sim_advance_to(vmm, 104));
    cr_expect(not(is_complete(vmm, second)));
    expect_ok(pleat_sim_advance_to(vmm, 105));
    cr_expect(is_complete(vmm, second));
    cr_expect(eq(u64, waits(vmm), 0), "the host waited for nothing");
    pleat_vmm_destroy(vmm);
}

Test(timeline, a_stream_waits_for_busy_work_of_another, .timeout = 10)
{
    pleat_vmm_t *vmm = sim_create();
    expect_ok(pleat_sim_set_busy(vmm, 1));
    const pleat_event_t first = mark(vmm, 1);
    expect_ok(pleat_sim_launch(vmm, 2, 10));
    const pleat_event_t earlier = mark(vmm, 2);
    expect_ok(pleat_vmm_stream_wait_event(vmm, 2, first));
    expect_ok(pleat_sim_launch(vmm, 2, 10));
    const pleat_event_t second = mark(vmm, 2);
    /* The event is captured: what becomes of it does not matter to the stream. */
    expect_ok(pleat_vmm_event_destroy(vmm, first));
    expect_ok(pleat_sim_advance_to(vmm, 200));
    cr_expect(is_complete(vmm, earlier));
    cr_expect(not(is_complete(vmm, second)));
    expect_ok(pleat_vmm_event_synchronize(vmm, mark(vmm, 1)));
    cr_expect(not(is_complete(vmm, second)));
    expect_ok(pleat_sim_advance_to(vmm, 210));
    cr_expect(is_complete(vmm, second));
    pleat_vmm_destroy(vmm);
}

Test(timeline, finishing_a_stream_finishes_what_it_waits_for, .timeout = 10)
{
    pleat_vmm_t *vmm = sim_create();
    expect_ok(pleat_sim_set_busy(vmm, 1));
    const pleat_event_t first = mark(vmm, 1);
    expect_ok(pleat_sim_set_busy(vmm, 3));
    expect_ok(pleat_vmm_stream_wait_event(vmm, 2, first));
    const pleat_event_t second = mark(vmm, 2);
    const pleat_event_t third = mark(vmm, 3);
    expect_ok(pleat_sim_set_done(vmm, 2));
    cr_expect(is_complete(vmm, first));
    cr_expect(is_complete(vmm, second));
    cr_expect(not(is_complete(vmm, third)));
    pleat_vmm_destroy(vmm);
}

Test(timeline, a_wait_on_two_busy_streams_needs_both, .timeout = 10)
{
    pleat_vmm_t *vmm = sim_create();
    expect_ok(pleat_sim_set_busy(vmm, 1));
    expect_ok(pleat_sim_set_busy(vmm, 2));
    expect_ok(pleat_vmm_stream_wait_event(vmm, 3, mark(vmm, 1)));
    expect_ok(pleat_vmm_stream_wait_event(vmm, 3, mark(vmm, 2)));
    const pleat_event_t third = mark(vmm, 3);
    expect_ok(pleat_sim_set_busy(vmm, 3)); /* busy behind what it waits for */
    const pleat_event_t fourth = mark(vmm, 3);
    expect_ok(pleat_sim_set_done(vmm, 2));
    cr_expect(not(is_complete(vmm, third)));
    expect_ok(pleat_sim_set_done(vmm, 1));
    cr_expect(is_complete(vmm, third));
    cr_expect(not(is_complete(vmm, fourth)));
    expect_ok(pleat_sim_set_done(vmm, 3));
    cr_expect(is_complete(vmm, fourth));
    pleat_vmm_destroy(vmm);
}

Test(timeline, waiting_for_oneself_adds_nothing, .timeout = 10)
{
    pleat_vmm_t *vmm = sim_create();
    expect_ok(pleat_sim_set_busy(vmm, 1));
    const pleat_event_t first = mark(vmm, 1);
    expect_ok(pleat_sim_launch(vmm, 1, 10));
    const pleat_event_t second = mark(vmm, 1);
    expect_ok(pleat_vmm_stream_wait_event(vmm, 1, first));
    expect_ok(pleat_vmm_stream_wait_event(vmm, 1, second));
    expect_ok(pleat_sim_set_done(vmm, 1));
    cr_expect(eq(u64, pleat_vmm_clock_ns(vmm), 10));
    cr_expect(is_complete(vmm, second));
    pleat_vmm_destroy(vmm);
}

Test(timeline, a_blocked_stream_waits_for_launched_work_too, .timeout = 10)
{
    pleat_vmm_t *vmm = sim_create();
    expect_ok(pleat_sim_set_busy(vmm, 1));
    expect_ok(pleat_sim_launch(vmm, 2, 500));
    expect_ok(pleat_vmm_stream_wait_event(vmm, 1, mark(vmm, 2)));
    const pleat_event_t event = mark(vmm, 1);
    expect_ok(pleat_sim_advance_to(vmm, 100));
    expect_ok(pleat_vmm_event_synchronize(vmm, event));
    cr_expect(eq(u64, pleat_vmm_clock_ns(vmm), 500));
    pleat_vmm_destroy(vmm);
}

Test(timeline, long_chains_of_waiting_streams_open_in_order, .timeout = 20)
{
    enum { LENGTH = 100000 };
    pleat_vmm_t *vmm = sim_create();
    pleat_event_t event = 0;
    expect_ok(pleat_sim_set_busy(vmm, 0));
    expect_ok(pleat_vmm_event_create(vmm, &event));
    expect_ok(pleat_vmm_event_record(vmm, event, 0));
    for (pleat_stream_t stream = 1; stream <= LENGTH; stream++) {
        expect_ok(pleat_vmm_stream_wait_event(vmm, stream, event));
        expect_ok(pleat_sim_launch(vmm, stream, 1));
        expect_ok(pleat_vmm_event_record(vmm, event, stream));
    }
    cr_expect(not(is_complete(vmm, event)));
    expect_ok(pleat_vmm_event_synchronize(vmm, event));
    cr_expect(eq(u64, pleat_vmm_clock_ns(vmm), LENGTH));
    pleat_vmm_destroy(vmm);
}

Test(timeline, recording_again_moves_the_event, .timeout = 10)
{
    pleat_vmm_t *vmm = sim_create();
    expect_ok(pleat_sim_set_busy(vmm, 1));
    const pleat_event_t event = mark(vmm, 1);
    cr_expect(not(is_complete(vmm, event)));
    expect_ok(pleat_vmm_event_record(vmm, event, 2));
    cr_expect(is_complete(vmm, event));
    expect_ok(pleat_vmm_event_record(vmm, event, 1));
    expect_ok(pleat_vmm_event_record(vmm, event, 1));
    cr_expect(not(is_complete(vmm, event)));
    expect_ok(pleat_sim_set_done(vmm, 1));
    expect_ok(pleat_vmm_event_destroy(vmm, event));
    pleat_vmm_destroy(vmm);
}

Test(timeline, dead_events_are_refused_by_every_call, .timeout = 10)
{
    pleat_vmm_t *vmm = sim_create();
    const pleat_event_t dead = mark(vmm, 0);
    expect_ok(pleat_vmm_event_destroy(vmm, dead));
    const pleat_event_t reused = mark(vmm, 0); /* the same place, another event */
    const pleat_event_t bad[] = {dead, reused + 1, 1, UINT64_MAX, reused ^ (UINT64_C(1) << 63)};
    cr_expect(ne(u64, dead, reused));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        cr_expect(eq(int, pleat_vmm_event_destroy(vmm, bad[i]), PLEAT_ERR_INVALID));
        cr_expect(eq(int, pleat_vmm_event_record(vmm, bad[i], 0), PLEAT_ERR_INVALID));
        cr_expect(eq(int, pleat_vmm_event_query(vmm, bad[i]), PLEAT_ERR_INVALID));
        cr_expect(eq(int, pleat_vmm_event_synchronize(vmm, bad[i]), PLEAT_ERR_INVALID));
        cr_expect(eq(int, pleat_vmm_stream_wait_event(vmm, 0, bad[i]), PLEAT_ERR_INVALID));
        cr_expect(ne(ptr, strstr(pleat_last_error(), "is no live event of device 'sim'"), NULL));
    }
    expect_ok(pleat_vmm_event_destroy(vmm, reused));
    pleat_vmm_destroy(vmm);
}

Test(timeline, lack_of_host_memory_changes_nothing, .timeout = 10)
{
    pleat_vmm_t *vmm = sim_create();
    pleat_event_t event = 0;
    host_fault_after(1);
    cr_expect(eq(int, pleat_vmm_event_create(vmm, &event), PLEAT_ERR_OOM_HOST));
    cr_expect(ne(ptr, strstr(pleat_last_error(), "events"), NULL));
    host_fault_after(1);
    cr_expect(eq(int, pleat_sim_launch(vmm, 1, 10), PLEAT_ERR_OOM_HOST));
    host_fault_after(2);
    cr_expect(eq(int, pleat_sim_launch(vmm, 1, 10), PLEAT_ERR_OOM_HOST));
    host_fault_after(1);
    cr_expect(eq(int, pleat_sim_set_busy(vmm, 1), PLEAT_ERR_OOM_HOST));
    cr_expect(ne(ptr, strstr(pleat_last_error(), "waiting streams"), NULL));
    host_fault_after(2);
    cr_expect(eq(int, pleat_sim_set_busy(vmm, 1), PLEAT_ERR_OOM_HOST));
    cr_expect(ne(ptr, strstr(pleat_last_error(), "streams"), NULL));
    host_fault_after(0);
    cr_expect(is_complete(vmm, mark(vmm, 1)), "none of the calls left work");
    pleat_vmm_destroy(vmm);
}

Test(timeline, a_wait_without_host_memory_changes_nothing, .timeout = 10)
{
    pleat_vmm_t *vmm = sim_create();
    expect_ok(pleat_sim_launch(vmm, 1, 100));
    const pleat_event_t event = mark(vmm, 1);
    for (pleat_stream_t stream = 2; stream <= 16; stream++) {
        expect_ok(pleat_sim_launch(vmm, stream, 1));
    }
    host_fault_after(1); /* no gate */
    cr_expect(eq(int, pleat_vmm_stream_wait_event(vmm, 99, event), PLEAT_ERR_OOM_HOST));
    host_fault_after(2); /* no stream */
    cr_expect(eq(int, pleat_vmm_stream_wait_event(vmm, 99, event), PLEAT_ERR_OOM_HOST));
    host_fault_after(0);
    cr_expect(is_complete(vmm, mark(vmm, 99)));
    expect_ok(pleat_vmm_stream_wait_event(vmm, 99, event));
    cr_expect(not(is_complete(vmm, mark(vmm, 99))));
    pleat_vmm_destroy(vmm);
}

Test(timeline, endless_work_does_not_wrap, .timeout = 10)
{
    pleat_vmm_t *vmm = sim_create();
    expect_ok(pleat_sim_advance_to(vmm, 1000));
    expect_ok(pleat_sim_launch(vmm, 1, UINT64_MAX));
    expect_ok(pleat_sim_launch(vmm, 1, UINT64_MAX));
    const pleat_event_t event = mark(vmm, 1);
    cr_expect(not(is_complete(vmm, event)));
    expect_ok(pleat_vmm_event_synchronize(vmm, event));
    cr_expect(eq(u64, pleat_vmm_clock_ns(vmm), UINT64_MAX));
    cr_expect(is_complete(vmm, event));
    pleat_vmm_destroy(vmm);
}
