/*
 * Tests of waiting: order of queues, first in first out, and what is left when the device fails.
 */
#include "core/waiting.h"

#include "fixture.h"
#include "host_fault.h"

#include <signal.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

enum { BLOCK_COUNT = 8 };

/* Blocks without memory, on a real sim device. */
typedef struct bench {
    pleat_vmm_t *vmm;
    pleat_waiting_t waiting;
    pleat_block_t blocks[BLOCK_COUNT];
    char done[64]; /* letters of the blocks whose waits ended, in order */
} bench_t;

static void bench_init(bench_t *bench)
{
    memset(bench, 0, sizeof(*bench));
    cr_assert(eq(int, pleat_sim_create(NULL, &bench->vmm), PLEAT_OK));
    pleat_waiting_init(&bench->waiting, bench->vmm);
    for (size_t i = 0; i < BLOCK_COUNT; i++) {
        bench->blocks[i].use = PLEAT_BLOCK_USE_LIVE;
    }
}

static void bench_done(void *context, pleat_block_t *block)
{
    bench_t *bench = context;
    bench->done[strlen(bench->done)] = (char)('a' + (block - bench->blocks));
    block->use = PLEAT_BLOCK_USE_FREE;
}

static pleat_status_t note(bench_t *bench, char block, pleat_stream_t stream)
{
    return pleat_waiting_note(&bench->waiting, &bench->blocks[block - 'a'], stream);
}

static pleat_status_t begin(bench_t *bench, char block)
{
    const pleat_status_t status = pleat_waiting_begin(&bench->waiting, &bench->blocks[block - 'a']);
    if (status == PLEAT_OK) {
        bench->blocks[block - 'a'].use = PLEAT_BLOCK_USE_WAITING;
    }
    return status;
}

/* Note a use by each stream and free the block. */
static void wait_for(bench_t *bench, char block, const pleat_stream_t *streams, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        cr_assert(eq(int, note(bench, block, streams[i]), PLEAT_OK));
    }
    cr_assert(eq(int, begin(bench, block), PLEAT_OK));
    cr_assert(eq(u32, bench->blocks[block - 'a'].event_count, (uint32_t)count));
}

static void wait_for_one(bench_t *bench, char block, pleat_stream_t stream)
{
    wait_for(bench, block, &stream, 1);
}

static pleat_status_t poll(bench_t *bench)
{
    return pleat_waiting_poll(&bench->waiting, bench_done, bench);
}

static void expect_polled(bench_t *bench, const char *done)
{
    bench->done[0] = '\0';
    memset(bench->done, 0, sizeof(bench->done));
    cr_expect(eq(int, poll(bench), PLEAT_OK));
    cr_expect(eq(str, bench->done, (char *)done));
}

static uint64_t calls(const bench_t *bench, pleat_vmm_call_t call)
{
    pleat_vmm_counters_t counters = PLEAT_VMM_COUNTERS_INIT;
    pleat_vmm_read_counters(bench->vmm, &counters);
    return counters.calls[call];
}

static void fail(bench_t *bench, pleat_vmm_call_t call, uint64_t nth)
{
    cr_assert(eq(int, pleat_sim_fail_call(bench->vmm, call, nth, PLEAT_ERR_DRIVER), PLEAT_OK));
}

static void busy(bench_t *bench, pleat_stream_t stream)
{
    cr_assert(eq(int, pleat_sim_set_busy(bench->vmm, stream), PLEAT_OK));
}

static void idle(bench_t *bench, pleat_stream_t stream)
{
    cr_assert(eq(int, pleat_sim_set_done(bench->vmm, stream), PLEAT_OK));
}

static void bench_fini(bench_t *bench)
{
    pleat_sim_usage_t usage = PLEAT_SIM_USAGE_INIT;
    pleat_waiting_fini(&bench->waiting);
    cr_assert(eq(int, pleat_sim_read_usage(bench->vmm, &usage), PLEAT_OK));
    cr_expect(eq(u64, usage.events, 0));
    pleat_vmm_destroy(bench->vmm);
}

Test(waiting, queues_are_visited_in_rising_order_of_streams, .timeout = 5)
{
    bench_t bench;
    bench_init(&bench);
    wait_for_one(&bench, 'a', 9);
    wait_for_one(&bench, 'b', UINT64_MAX);
    wait_for_one(&bench, 'c', 2);
    wait_for_one(&bench, 'd', 9);
    wait_for_one(&bench, 'e', 0);
    expect_polled(&bench, "ecadb");
    cr_expect(eq(sz, bench.waiting.wait_count, 0));
    cr_expect(eq(ptr, bench.waiting.active, NULL));
    bench_fini(&bench);
}

Test(waiting, a_front_that_is_not_ready_hides_what_is_behind, .timeout = 5)
{
    bench_t bench;
    bench_init(&bench);
    busy(&bench, 1);
    wait_for_one(&bench, 'a', 1);
    wait_for_one(&bench, 'b', 2);
    idle(&bench, 1);
    busy(&bench, 1);
    wait_for_one(&bench, 'c', 1);
    wait_for_one(&bench, 'd', 1);
    expect_polled(&bench, "ab");
    expect_polled(&bench, "");
    const uint64_t queries = calls(&bench, PLEAT_VMM_CALL_EVENT_QUERY);
    expect_polled(&bench, "");
    cr_expect(eq(u64, calls(&bench, PLEAT_VMM_CALL_EVENT_QUERY), queries + 1),
              "one query of the front");
    idle(&bench, 1);
    expect_polled(&bench, "cd");
    bench_fini(&bench);
}

Test(waiting, a_block_waits_for_all_of_its_streams, .timeout = 5)
{
    bench_t bench;
    bench_init(&bench);
    busy(&bench, 4);
    wait_for(&bench, 'a', (const pleat_stream_t[]){3, 4, 5}, 3);
    expect_polled(&bench, "");
    cr_expect(eq(u32, bench.blocks[0].event_count, 1));
    idle(&bench, 4);
    expect_polled(&bench, "a");
    bench_fini(&bench);
}

Test(waiting, a_stream_is_noted_once, .timeout = 5)
{
    bench_t bench;
    bench_init(&bench);
    for (unsigned i = 0; i < 5; i++) {
        cr_assert(eq(int, note(&bench, 'a', 3), PLEAT_OK));
        cr_assert(eq(int, note(&bench, 'a', 4), PLEAT_OK));
    }
    cr_expect(eq(u64, calls(&bench, PLEAT_VMM_CALL_EVENT_CREATE), 2));
    cr_assert(eq(int, begin(&bench, 'a'), PLEAT_OK));
    cr_expect(eq(u32, bench.blocks[0].event_count, 2));
    expect_polled(&bench, "a");

    /* events are used again */
    bench.blocks[1].use = PLEAT_BLOCK_USE_LIVE;
    wait_for(&bench, 'b', (const pleat_stream_t[]){7, 8}, 2);
    cr_expect(eq(u64, calls(&bench, PLEAT_VMM_CALL_EVENT_CREATE), 2));
    expect_polled(&bench, "b");
    bench_fini(&bench);
}

Test(waiting, an_order_that_was_set_comes_first, .timeout = 5)
{
    bench_t bench;
    bench_init(&bench);
    for (unsigned i = 0; i < 6; i++) {
        wait_for_one(&bench, (char)('a' + i), i);
    }
    cr_assert(eq(int, pleat_waiting_set_order(&bench.waiting, (const pleat_stream_t[]){4, 9, 1}, 3),
                 PLEAT_OK));
    expect_polled(&bench, "ebacdf");

    for (unsigned i = 0; i < 6; i++) {
        bench.blocks[i].use = PLEAT_BLOCK_USE_LIVE;
        wait_for_one(&bench, (char)('a' + i), 5 - i);
    }
    cr_assert(eq(int, pleat_waiting_set_order(&bench.waiting, NULL, 0), PLEAT_OK));
    expect_polled(&bench, "fedcba");
    bench_fini(&bench);
}

Test(waiting, finish_waits_for_everything, .timeout = 5)
{
    bench_t bench;
    bench_init(&bench);
    busy(&bench, 1);
    busy(&bench, 2);
    wait_for(&bench, 'a', (const pleat_stream_t[]){1, 2}, 2);
    wait_for_one(&bench, 'b', 1);
    wait_for_one(&bench, 'c', 2);
    cr_expect(eq(int, pleat_waiting_finish(&bench.waiting, bench_done, &bench), PLEAT_OK));
    cr_expect(eq(str, bench.done, (char *)"bac"));
    cr_expect(eq(u64, calls(&bench, PLEAT_VMM_CALL_EVENT_SYNCHRONIZE), 4));
    cr_expect(eq(u64, calls(&bench, PLEAT_VMM_CALL_EVENT_QUERY), 0));
    bench_fini(&bench);
}

Test(waiting, abandon_ends_all_without_asking, .timeout = 5)
{
    bench_t bench;
    bench_init(&bench);
    busy(&bench, 1);
    wait_for_one(&bench, 'a', 1);
    wait_for(&bench, 'b', (const pleat_stream_t[]){1, 2}, 2);
    const uint64_t records = calls(&bench, PLEAT_VMM_CALL_EVENT_RECORD);
    pleat_waiting_abandon(&bench.waiting);
    cr_expect(eq(sz, bench.waiting.wait_count, 0));
    cr_expect(eq(u32, bench.blocks[1].event_count, 0));
    cr_expect(eq(u64, calls(&bench, PLEAT_VMM_CALL_EVENT_QUERY), 0));
    cr_expect(eq(u64, calls(&bench, PLEAT_VMM_CALL_EVENT_SYNCHRONIZE), 0));
    cr_expect(eq(u64, calls(&bench, PLEAT_VMM_CALL_EVENT_RECORD), records));
    bench_fini(&bench);
}

Test(waiting, uses_that_nothing_waits_for_can_be_dropped, .timeout = 5)
{
    bench_t bench;
    bench_init(&bench);
    cr_assert(eq(int, note(&bench, 'a', 1), PLEAT_OK));
    cr_assert(eq(int, note(&bench, 'a', 2), PLEAT_OK));
    pleat_waiting_drop_uses(&bench.waiting, &bench.blocks[0]);
    cr_expect(eq(ptr, bench.blocks[0].uses, NULL));
    cr_assert(eq(int, note(&bench, 'b', 3), PLEAT_OK));
    cr_expect(eq(u64, calls(&bench, PLEAT_VMM_CALL_EVENT_CREATE), 2));
    pleat_waiting_drop_uses(&bench.waiting, &bench.blocks[1]);
    bench_fini(&bench);
}

Test(waiting, many_streams_have_a_queue_each, .timeout = 5)
{
    enum { STREAMS = 60 };
    bench_t bench;
    bench_init(&bench);
    for (unsigned i = 0; i < STREAMS; i++) {
        cr_assert(eq(int, note(&bench, 'a', (i * 7) % STREAMS), PLEAT_OK));
    }
    cr_assert(eq(int, begin(&bench, 'a'), PLEAT_OK));
    cr_expect(eq(sz, bench.waiting.queue_count, STREAMS));
    for (size_t i = 0; i < STREAMS; i++) {
        cr_expect(eq(u64, bench.waiting.queues[i]->stream, i));
    }
    expect_polled(&bench, "a");
    bench_fini(&bench);
}

/* ---- failures ---- */

Test(waiting, note_fails_without_an_event, .timeout = 5)
{
    bench_t bench;
    bench_init(&bench);
    fail(&bench, PLEAT_VMM_CALL_EVENT_CREATE, 1);
    cr_expect(eq(int, note(&bench, 'a', 1), PLEAT_ERR_DRIVER));
    cr_expect(eq(ptr, bench.blocks[0].uses, NULL));
    cr_expect(eq(int, note(&bench, 'a', 1), PLEAT_OK));
    pleat_waiting_drop_uses(&bench.waiting, &bench.blocks[0]);
    bench_fini(&bench);
}

Test(waiting, note_fails_without_host_memory, .timeout = 5)
{
    bench_t bench;
    bench_init(&bench);
    /* array of queues, queue, wait; then the sim's event */
    for (uint64_t nth = 1; nth <= 3; nth++) {
        host_fault_after(nth);
        cr_expect(eq(int, note(&bench, 'a', 1), PLEAT_ERR_OOM_HOST), "allocation %u",
                  (unsigned)nth);
        cr_expect(ne(str, (char *)pleat_last_error(), (char *)""));
        cr_expect(eq(ptr, bench.blocks[0].uses, NULL));
        pleat_waiting_fini(&bench.waiting);
        pleat_waiting_init(&bench.waiting, bench.vmm);
    }
    host_fault_after(0);
    cr_expect(eq(int, note(&bench, 'a', 1), PLEAT_OK));
    pleat_waiting_drop_uses(&bench.waiting, &bench.blocks[0]);
    bench_fini(&bench);
}

Test(waiting, set_order_fails_without_host_memory, .timeout = 5)
{
    bench_t bench;
    bench_init(&bench);
    wait_for_one(&bench, 'a', 1);
    wait_for_one(&bench, 'b', 2);
    host_fault_after(1);
    cr_expect(eq(int, pleat_waiting_set_order(&bench.waiting, (const pleat_stream_t[]){2, 1}, 2),
                 PLEAT_ERR_OOM_HOST));
    host_fault_after(0);
    expect_polled(&bench, "ab");
    bench_fini(&bench);
}

Test(waiting, begin_records_all_or_nothing, .timeout = 5)
{
    bench_t bench;
    bench_init(&bench);
    for (unsigned i = 0; i < 3; i++) {
        cr_assert(eq(int, note(&bench, 'a', i), PLEAT_OK));
    }
    for (uint64_t nth = 1; nth <= 3; nth++) {
        fail(&bench, PLEAT_VMM_CALL_EVENT_RECORD, nth);
        cr_expect(eq(int, begin(&bench, 'a'), PLEAT_ERR_DRIVER), "record %u", (unsigned)nth);
        cr_expect(eq(u32, bench.blocks[0].event_count, 0));
        cr_expect(eq(sz, bench.waiting.wait_count, 0));
        cr_expect(eq(ptr, bench.waiting.active, NULL));
    }
    cr_expect(eq(int, begin(&bench, 'a'), PLEAT_OK));
    cr_expect(eq(u32, bench.blocks[0].event_count, 3));
    expect_polled(&bench, "a");
    bench_fini(&bench);
}

Test(waiting, a_failing_query_keeps_the_rest_queued, .timeout = 5)
{
    bench_t bench;
    bench_init(&bench);
    wait_for_one(&bench, 'a', 1);
    wait_for_one(&bench, 'b', 1);
    wait_for_one(&bench, 'c', 2);
    wait_for_one(&bench, 'd', 3);
    fail(&bench, PLEAT_VMM_CALL_EVENT_QUERY, 4); /* that of d */
    cr_expect(eq(int, poll(&bench), PLEAT_ERR_DRIVER));
    cr_expect(eq(str, bench.done, (char *)"abc"));
    cr_expect(eq(sz, bench.waiting.wait_count, 1));
    fail(&bench, PLEAT_VMM_CALL_EVENT_QUERY, 1);
    cr_expect(eq(int, poll(&bench), PLEAT_ERR_DRIVER));
    expect_polled(&bench, "d");
    bench_fini(&bench);
}

Test(waiting, a_failing_wait_keeps_the_rest_queued, .timeout = 5)
{
    bench_t bench;
    bench_init(&bench);
    busy(&bench, 1);
    wait_for_one(&bench, 'a', 1);
    wait_for_one(&bench, 'b', 1);
    wait_for_one(&bench, 'c', 2);
    fail(&bench, PLEAT_VMM_CALL_EVENT_SYNCHRONIZE, 2);
    cr_expect(eq(int, pleat_waiting_finish(&bench.waiting, bench_done, &bench), PLEAT_ERR_DRIVER));
    cr_expect(eq(str, bench.done, (char *)"a"));
    cr_expect(eq(sz, bench.waiting.wait_count, 2));
    cr_expect(eq(int, pleat_waiting_finish(&bench.waiting, bench_done, &bench), PLEAT_OK));
    cr_expect(eq(str, bench.done, (char *)"abc"));
    bench_fini(&bench);
}

Test(waiting, fini_goes_on_when_an_event_cannot_be_destroyed, .timeout = 5)
{
    bench_t bench;
    bench_init(&bench);
    wait_for(&bench, 'a', (const pleat_stream_t[]){1, 2}, 2);
    expect_polled(&bench, "a");
    fail(&bench, PLEAT_VMM_CALL_EVENT_DESTROY, 1);
    pleat_waiting_fini(&bench.waiting);
    cr_expect(eq(u64, calls(&bench, PLEAT_VMM_CALL_EVENT_DESTROY), 2));
    pleat_vmm_destroy(bench.vmm);
}

#if PLEAT_CHECKS >= PLEAT_CHECKS_FAST
Test(waiting, fini_refuses_waits_in_queues, .signal = SIGABRT, .timeout = 5)
{
    bench_t bench;
    bench_init(&bench);
    wait_for_one(&bench, 'a', 1);
    pleat_waiting_fini(&bench.waiting);
}
#endif
