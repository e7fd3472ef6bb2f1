/*
 * Tests of experiments/lib/snapshot_recorder: where a replay stops, what is taken, failures. What
 * the files show of whole histories is checked with Python (tests/cli, section snapshot).
 */
#include "snapshot_recorder.h"

#include "host_fault.h"
#include "trace_fixture.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>

#define MIB(count) ((uint64_t)(count) << 20)

/* Two segments at most, the peak behind event 5; stream 3 only. */
static const char *const steps = "segment_alloc 2000000 12582912 3 0\n"
                                 "alloc 2000000 12582912 3 0\n"
                                 "snapshot 0 0 0 5\n"
                                 "segment_alloc 4000000 20971520 3 10\n"
                                 "alloc 4000000 5242880 3 10\n"
                                 "free_requested 2000000 12582912 3 20\n"
                                 "free_completed 2000000 12582912 3 20\n"
                                 "segment_free 2000000 12582912 3 30\n"
                                 "free_requested 4000000 5242880 3 40\n"
                                 "free_completed 4000000 5242880 3 40\n";

typedef struct take {
    pleat_program_t *program;
    pleat_replay_t *replay;
    pleat_snapshot_recorder_t recorder;
} take_t;

static void take_run(take_t *take, uint64_t calls_wanted, uint32_t passes)
{
    pleat_replay_options_t options = PLEAT_REPLAY_OPTIONS_INIT;
    pleat_metrics_t metrics;
    take->program = trace_fixture_read(steps);
    cr_assert(eq(int,
                 pleat_snapshot_recorder_init(&take->recorder, take->program, NULL, UINT64_MAX),
                 PLEAT_OK));
    take->recorder.calls_wanted = calls_wanted;
    options.watcher = &take->recorder.watcher;
    options.passes = passes;
    cr_assert(eq(int, pleat_replay_create(take->program, &options, &take->replay), PLEAT_OK));
    cr_assert(eq(int, pleat_replay_run(take->replay, &metrics), PLEAT_OK));
}

static void take_end(take_t *take)
{
    pleat_replay_destroy(take->replay);
    pleat_snapshot_recorder_fini(&take->recorder);
    pleat_program_destroy(take->program);
}

Test(snapshot_recorder, finds_the_call_of_an_event, .timeout = 5)
{
    pleat_program_t *program = trace_fixture_read(steps);
    cr_assert(eq(sz, program->call_count, 5));
    static const uint64_t want[] = {1, 1, 2, 2, 2, 3, 3, 4, 5, 5};
    for (uint64_t event = 1; event <= 10; event++) {
        cr_expect(eq(u64, pleat_snapshot_recorder_calls_to(program, 2, event), want[event - 1]));
        cr_expect(
            eq(u64, pleat_snapshot_recorder_calls_to(program, 2, event + 10), want[event - 1] + 5));
    }
    cr_expect(eq(u64, pleat_snapshot_recorder_calls_to(program, 2, 0), 0));
    cr_expect(eq(u64, pleat_snapshot_recorder_calls_to(program, 2, 21), 0));
    cr_expect(eq(u64, pleat_snapshot_recorder_calls_to(program, 1, UINT64_MAX), 0));
    pleat_program_destroy(program);
}

Test(snapshot_recorder, takes_the_state_behind_a_call, .timeout = 5)
{
    static const uint64_t active[] = {MIB(12), MIB(17), MIB(5), MIB(5), 0};
    static const uint64_t segments[] = {1, 2, 2, 1, 1};
    for (uint64_t calls = 1; calls <= 10; calls++) {
        take_t take;
        take_run(&take, calls, 2);
        cr_assert(
            eq(int, pleat_snapshot_recorder_take(&take.recorder, take.replay, true), PLEAT_OK));
        const pleat_history_copy_t *copy = take.recorder.copy;
        uint64_t active_bytes = 0;
        for (uint64_t i = 0; i < copy->snapshot->segment_count; i++) {
            active_bytes += copy->snapshot->segments[i].active_bytes;
            cr_expect(eq(u64, copy->snapshot->segments[i].stream, 3));
        }
        cr_expect(eq(u64, active_bytes, active[(calls - 1) % 5]), "calls %llu",
                  (unsigned long long)calls);
        if (calls <= 5) {
            cr_expect(eq(u64, copy->snapshot->segment_count, segments[calls - 1]));
        }
        cr_expect(lt(u64, 0, copy->entry_count));
        for (uint64_t i = 0; i < copy->entry_count; i++) {
            cr_expect(eq(u64, copy->entries[i].stream, 3));
            cr_expect(le(i64, copy->entries[i].time_us, 80));
        }
        take_end(&take);
    }
}

Test(snapshot_recorder, can_leave_the_history_out, .timeout = 5)
{
    take_t take;
    take_run(&take, 0, 1);
    cr_assert(eq(int, pleat_snapshot_recorder_take(&take.recorder, take.replay, false), PLEAT_OK));
    cr_expect(eq(u64, take.recorder.copy->entry_count, 0));
    cr_expect(eq(u64, take.recorder.copy->snapshot->segment_count, 1));
    take_end(&take);
}

Test(snapshot_recorder, finds_the_peak, .timeout = 5)
{
    pleat_replay_options_t options = PLEAT_REPLAY_OPTIONS_INIT;
    pleat_metrics_t metrics;
    pleat_peak_finder_t finder;
    pleat_program_t *program = trace_fixture_read(steps);
    pleat_peak_finder_init(&finder);
    options.watcher = &finder.watcher;
    options.passes = 2;
    cr_assert(eq(int, pleat_replay_program(program, &options, &metrics), PLEAT_OK));
    cr_expect(eq(u64, finder.peak_calls, 2));
    cr_expect(eq(i64, finder.peak_bytes, (int64_t)metrics.reserved_peak_bytes));
    pleat_program_destroy(program);
}

Test(snapshot_recorder, composes_what_was_taken, .timeout = 5)
{
    take_t take;
    const pleat_conf_t conf = PLEAT_CONF_INIT;
    pleat_torch_snapshot_t snapshot = PLEAT_TORCH_SNAPSHOT_INIT;
    take_run(&take, 2, 1);
    cr_assert(eq(int, pleat_snapshot_recorder_take(&take.recorder, take.replay, true), PLEAT_OK));
    const pleat_snapshot_recorder_t *recorders[] = {NULL, &take.recorder};
    for (uint64_t nth = 1; nth <= 5; nth++) {
        host_fault_after(nth);
        cr_expect(eq(int, pleat_snapshot_recorder_compose(recorders, 2, &conf, "", &snapshot),
                     PLEAT_ERR_OOM_HOST));
    }
    host_fault_after(0);
    cr_assert(
        eq(int, pleat_snapshot_recorder_compose(recorders, 2, &conf, "", &snapshot), PLEAT_OK));
    cr_expect(eq(u64, snapshot.segment_count, 2));
    cr_expect(eq(u32, snapshot.segments[0].device, 1));
    cr_expect(eq(u64, snapshot.history_count, 2));
    cr_expect(eq(u64, snapshot.histories[1].entry_count, 4));
    pleat_torch_snapshot_fini(&snapshot);
    take_end(&take);
}

Test(snapshot_recorder, needs_host_memory, .timeout = 5)
{
    take_t take;
    pleat_program_t *program = trace_fixture_read(steps);
    pleat_snapshot_recorder_t recorder;
    host_fault_after(1);
    cr_expect(
        eq(int, pleat_snapshot_recorder_init(&recorder, program, NULL, 1), PLEAT_ERR_OOM_HOST));
    pleat_snapshot_recorder_fini(&recorder);
    pleat_program_destroy(program);
    int failures = 0;
    for (uint64_t nth = 1;; nth++) {
        take_run(&take, 2, 1);
        host_fault_after(nth);
        const pleat_status_t status =
            pleat_snapshot_recorder_take(&take.recorder, take.replay, true);
        host_fault_after(0);
        take_end(&take);
        if (status == PLEAT_OK) {
            break;
        }
        cr_assert(eq(int, status, PLEAT_ERR_OOM_HOST));
        failures++;
    }
    cr_expect(lt(int, 3, failures));
}

/* ---- a program out of a snapshot ---- */

/* One block older than the history, with a stack; then one that is allocated and freed. */
typedef struct source {
    pleat_torch_stack_t stacks[3];
    pleat_torch_segment_t segment;
    pleat_torch_block_t blocks[2];
    pleat_torch_entry_t entries[3];
    pleat_torch_history_t history;
    pleat_torch_snapshot_t snapshot;
    pleat_program_t program;
    pleat_program_call_t calls[3];
    pleat_stream_t number;
    pleat_stream_t handle;
} source_t;

static void source_init(source_t *s)
{
    *s = (source_t){
        .segment = {.address = MIB(64), .total_bytes = MIB(2), .stream = 7000, .block_count = 2},
        .blocks = {{MIB(64), 1024, 1000, PLEAT_BLOCK_ALLOCATED, 2},
                   {MIB(64) + 1024, MIB(2) - 1024, 0, PLEAT_BLOCK_INACTIVE, 1}},
        .entries = {{MIB(64) + 1024, 2000, 7000, 500, "graph", "epoch", PLEAT_ACTION_ALLOC, 0},
                    {MIB(64) + 1024, 2000, 7000, 510, "N/A", "", PLEAT_ACTION_FREE_REQUESTED, 1},
                    {MIB(64) + 1024, 2000, 7000, 510, "N/A", "", PLEAT_ACTION_FREE_COMPLETED, 1}},
        .history = {.entries = s->entries, .entry_count = 3},
        .snapshot = PLEAT_TORCH_SNAPSHOT_INIT,
        .handle = 1,
        .calls = {{1000, 0, 0, 0, 0, 2, PLEAT_PROGRAM_ALLOC},
                  {2000, 0, 1, 0, 2, 1, PLEAT_PROGRAM_ALLOC},
                  {0, 10, 1, 0, 3, 2, PLEAT_PROGRAM_FREE}},
    };
    s->snapshot.segments = &s->segment;
    s->snapshot.segment_count = 1;
    s->snapshot.blocks = s->blocks;
    s->snapshot.block_count = 2;
    s->snapshot.stacks = s->stacks;
    s->snapshot.stack_count = 3;
    s->snapshot.histories = &s->history;
    s->snapshot.history_count = 1;
    s->program = (pleat_program_t){.calls = s->calls,
                                   .call_count = 3,
                                   .streams = &s->number,
                                   .handles = &s->handle,
                                   .stream_count = 1,
                                   .slot_count = 2,
                                   .event_count = 5,
                                   .duration_us = 10,
                                   .has_origin = true,
                                   .origin = {.first_time_us = 500, .prefix_count = 2}};
}

Test(snapshot_recorder, keeps_stacks_texts_times_and_handles_of_a_snapshot, .timeout = 5)
{
    source_t s;
    pleat_replay_options_t options = PLEAT_REPLAY_OPTIONS_INIT;
    pleat_snapshot_recorder_t recorder;
    pleat_replay_t *replay = NULL;
    pleat_metrics_t metrics;
    pleat_torch_snapshot_t got;
    source_init(&s);
    cr_assert(
        eq(int, pleat_snapshot_recorder_init(&recorder, &s.program, &s.snapshot, 100), PLEAT_OK));
    options.watcher = &recorder.watcher;
    cr_assert(eq(int, pleat_replay_create(&s.program, &options, &replay), PLEAT_OK));
    cr_assert(eq(int, pleat_replay_run(replay, &metrics), PLEAT_OK));
    cr_assert(eq(int, pleat_snapshot_recorder_take(&recorder, replay, true), PLEAT_OK));
    const pleat_snapshot_recorder_t *const recorders[] = {&recorder};
    cr_assert(eq(int, pleat_snapshot_recorder_compose(recorders, 1, NULL, "", &got), PLEAT_OK));

    cr_assert(eq(u64, got.segment_count, 1));
    cr_expect(eq(u64, got.segments[0].stream, 7000));
    cr_expect(eq(u32, got.segments[0].stack, 2));
    cr_expect(eq(u32, got.blocks[0].stack, 2));
    cr_expect(eq(ptr, got.stacks, s.stacks));
    const pleat_torch_history_t *history = &got.histories[0];
    cr_assert(eq(u64, history->entry_count, 5)); /* segment_alloc, two allocations, a free */
    cr_expect(eq(u32, history->entries[1].stack, 2));
    cr_expect(eq(u64, history->entries[1].time_us, 500));
    cr_expect(eq(u32, history->entries[2].stack, 0));
    cr_expect(eq(str, (char *)history->entries[2].compile_context, "graph"));
    cr_expect(eq(str, (char *)history->entries[2].user_metadata, "epoch"));
    cr_expect(eq(u32, history->entries[3].stack, 1));
    cr_expect(eq(u64, history->entries[3].time_us, 510));
    cr_expect(eq(u64, history->entries[4].stream, 7000));
    pleat_torch_snapshot_fini(&got);
    pleat_replay_destroy(replay);
    pleat_snapshot_recorder_fini(&recorder);
}

Test(snapshot_recorder, needs_host_memory_for_what_a_snapshot_tells, .timeout = 5)
{
    source_t s;
    source_init(&s);
    int failures = 0;
    for (uint64_t nth = 1;; nth++) {
        pleat_snapshot_recorder_t recorder;
        host_fault_after(nth);
        const pleat_status_t status =
            pleat_snapshot_recorder_init(&recorder, &s.program, &s.snapshot, 100);
        host_fault_after(0);
        pleat_snapshot_recorder_fini(&recorder);
        if (status == PLEAT_OK) {
            break;
        }
        cr_assert(eq(int, status, PLEAT_ERR_OOM_HOST));
        failures++;
    }
    cr_expect(lt(int, 3, failures));
}
