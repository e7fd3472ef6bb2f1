/*
 * Tests of experiments/lib/replay and player: metrics of small programs worked out by hand.
 */
#include "replay.h"

#include "host_fault.h"
#include "player.h"
#include "trace_fixture.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <stdlib.h>

#define MIB (UINT64_C(1) << 20)

/* 30 us a mem_alloc, 10 us a mem_free, events for nothing. */
static const pleat_cost_table_t costs = {
    .size = sizeof(pleat_cost_table_t),
    .row_count = 1,
    .rows = {{.bytes = 1 << 21, .mem_alloc_ns = 30000, .mem_free_ns = 10000}}};

static pleat_metrics_t replay_text(const char *text, pleat_replay_options_t *options)
{
    pleat_program_t *program = trace_fixture_read(text);
    pleat_metrics_t metrics = {.events = 0};
    options->costs = &costs;
    cr_assert(pleat_replay_program(program, options, &metrics) == PLEAT_OK, "%s",
              pleat_last_error());
    pleat_program_destroy(program);
    return metrics;
}

static const char *const two_steps = "segment_alloc 2000000 12582912 0 100\n"
                                     "alloc 2000000 12582912 0 100\n"
                                     "segment_alloc 4000000 20971520 0 200\n"
                                     "alloc 4000000 5242880 0 200\n"
                                     "free_requested 2000000 12582912 0 400\n"
                                     "free_completed 2000000 12582912 0 400\n"
                                     "segment_free 2000000 12582912 0 500\n"
                                     "free_requested 4000000 5242880 0 900\n"
                                     "free_completed 4000000 5242880 0 900\n";

Test(replay, measures_a_small_program, .timeout = 5)
{
    pleat_replay_options_t options = PLEAT_REPLAY_OPTIONS_INIT;
    const pleat_metrics_t m = replay_text(two_steps, &options);
    cr_expect(eq(u64, m.events, 9));
    cr_expect(eq(u64, m.allocs, 2));
    cr_expect(eq(u64, m.frees, 2));
    cr_expect(eq(u64, m.requested_peak_bytes, 17 * MIB));
    cr_expect(eq(u64, m.active_peak_bytes, 17 * MIB));
    cr_expect(eq(u64, m.reserved_peak_bytes, 32 * MIB));
    cr_expect(eq(u64, m.inactive_split_peak_bytes, 15 * MIB));
    cr_expect(epsilon_eq(dbl, m.utilization, 17.0 / 32.0, 1e-12));
    /* 100 us with 12/12, 200 us with 32/17, 100 us with 32/5 and 400 us with 20/5. */
    const double mean = (100.0 + 200.0 * 32 / 17 + 100.0 * 32 / 5 + 400.0 * 20 / 5) / 800.0;
    cr_expect(epsilon_eq(dbl, m.mean_reserved_over_active, mean, 1e-9));
    cr_expect(eq(u64, m.driver_calls, 3));
    cr_expect(eq(u64, m.driver_us, 70));
    cr_expect(epsilon_eq(dbl, m.driver_percent, 100.0 * 70 / 800, 1e-9));
    /* Four of nine events are over when the second segment is there, 100 us into the trace. */
    cr_expect(epsilon_eq(dbl, m.driver_percent_second_half, 100.0 * 10 / 700, 1e-9));
    cr_expect(eq(u64, m.worst_call_us, 30));
    cr_expect(eq(u64, m.waits, m.device.waits));
    cr_expect(eq(u64, m.num_ooms, 0));
    cr_expect(strcmp(m.mode, "classic") == 0);
    cr_expect(gt(dbl, m.host_ns_per_op, 0.0));
}

/* In use is a part of a page at a time: the rest of its page cannot go back. */
Test(replay, counts_what_cannot_go_back_in_every_mode, .timeout = 5)
{
    pleat_replay_options_t options = PLEAT_REPLAY_OPTIONS_INIT;
    pleat_metrics_t m = replay_text(two_steps, &options);
    cr_expect(eq(u64, m.unreturnable_peak_bytes, 15 * MIB), "5 of 20 MiB are in use");
    cr_expect(eq(u64, m.mappings_peak, 0));
    cr_expect(eq(u64, m.moved_bytes, 0));
    options.mode = PLEAT_MODE_TORCH_EXPANDABLE;
    m = replay_text(two_steps, &options);
    /* 12 MiB in the first page of 20; then 5 behind it; at last 5 MiB alone, 12 before it. */
    cr_expect(eq(u64, m.unreturnable_peak_bytes, 15 * MIB));
    cr_expect(eq(u64, m.mappings_peak, 1));
    cr_expect(eq(u64, m.inactive_split_peak_bytes, 0), "PyTorch counts none");
    options.mode = PLEAT_MODE_PLEATED;
    m = replay_text(two_steps, &options);
    cr_expect(le(u64, m.unreturnable_peak_bytes, m.inactive_split_peak_bytes));
    cr_expect(ge(u64, m.mappings_peak, 1));
    cr_expect(eq(u64, m.device.calls[PLEAT_VMM_CALL_MAP], m.mappings_peak));
}

Test(replay, repeats_passes_in_the_same_allocator, .timeout = 5)
{
    pleat_replay_options_t options = PLEAT_REPLAY_OPTIONS_INIT;
    options.passes = 3;
    /* What the trace leaves live is freed between passes: its segment serves again. */
    const pleat_metrics_t m = replay_text("segment_alloc 2000000 12582912 0 0\n"
                                          "alloc 2000000 12582912 0 0\n"
                                          "alloc 9000000 12582912 0 50\n"
                                          "free_requested 2000000 12582912 0 100\n",
                                          &options);
    cr_expect(eq(u64, m.events, 12));
    cr_expect(eq(u64, m.allocs, 6));
    cr_expect(eq(u64, m.driver_calls, 2));
    cr_expect(eq(u64, m.driver_calls_last_pass, 0));
    cr_expect(eq(u64, m.duration_us, 300));
    cr_expect(eq(u64, m.reserved_peak_bytes, 24 * MIB));
    cr_expect(epsilon_eq(dbl, m.driver_percent, 100.0 * 60 / 300, 1e-9));
    cr_expect(eq(dbl, m.driver_percent_second_half, 0.0));
}

Test(replay, goes_on_after_an_allocation_that_fails, .timeout = 5)
{
    pleat_replay_options_t options = PLEAT_REPLAY_OPTIONS_INIT;
    options.allocator.limit_bytes = 20 * MIB;
    const pleat_metrics_t m = replay_text("alloc 2000000 12582912 0 0\n"
                                          "alloc 4000000 12582912 0 1\n"
                                          "free_requested 4000000 12582912 0 2\n"
                                          "alloc 8000000 512 0 3\n"
                                          "free_completed 4000000 12582912 0 2\n"
                                          "alloc 8000200 512 0 3\n"
                                          "free_requested 2000000 12582912 0 4\n"
                                          "free_completed 2000000 12582912 0 4\n",
                                          &options);
    cr_expect(eq(u64, m.num_ooms, 1));
    cr_expect(eq(u64, m.num_alloc_retries, 1));
    cr_expect(eq(u64, m.reserved_peak_bytes, 14 * MIB));
    cr_expect(eq(u64, m.frees, 2));
}

Test(replay, fails_on_a_device_that_is_too_small, .timeout = 5)
{
    pleat_replay_options_t options = PLEAT_REPLAY_OPTIONS_INIT;
    options.device_bytes = 8 * MIB;
    const pleat_metrics_t m = replay_text(two_steps, &options);
    cr_expect(eq(u64, m.num_ooms, 2));
    cr_expect(eq(u64, m.reserved_peak_bytes, 0));
    cr_expect(eq(dbl, m.utilization, 0.0));
}

Test(replay, tries_again_what_failed_in_the_recording, .timeout = 5)
{
    pleat_replay_options_t options = PLEAT_REPLAY_OPTIONS_INIT;
    const pleat_metrics_t m = replay_text("alloc 2000000 12582912 0 0\n"
                                          "oom 0 1048576000 0 1\n",
                                          &options);
    cr_expect(eq(u64, m.num_ooms, 0));
    cr_expect(eq(u64, m.allocs, 2));
    cr_expect(eq(u64, m.active_peak_bytes, 1012 * MIB));
}

Test(replay, keeps_blocks_that_wait_active_until_their_completion, .timeout = 5)
{
    pleat_replay_options_t options = PLEAT_REPLAY_OPTIONS_INIT;
    const pleat_metrics_t m = replay_text("alloc 2000000 12582912 0 0\n"
                                          "free_requested 2000000 12582912 0 1\n"
                                          "alloc 4000000 12582912 0 2\n"
                                          "free_requested 4000000 12582912 0 3\n"
                                          "free_completed 4000000 12582912 0 3\n"
                                          "free_completed 2000000 12582912 0 4\n"
                                          "alloc 2000000 12582912 0 5\n",
                                          &options);
    cr_expect(eq(u64, m.active_peak_bytes, 24 * MIB));
    cr_expect(eq(u64, m.reserved_peak_bytes, 24 * MIB));
    cr_expect(eq(u64, m.driver_calls, 2));
}

Test(replay, samples_a_curve_over_all_passes, .timeout = 5)
{
    pleat_curve_t curve;
    cr_assert(eq(int, pleat_curve_init(&curve, 64), PLEAT_OK));
    pleat_replay_options_t options = PLEAT_REPLAY_OPTIONS_INIT;
    options.passes = 2;
    options.curve = &curve;
    (void)replay_text(two_steps, &options);
    cr_expect(eq(u64, curve.sample_count, 10));
    cr_expect(eq(u64, curve.last.time_us, 1600));
    pleat_curve_fini(&curve);
}

static void count_progress(void *context, uint64_t done, uint64_t all)
{
    uint64_t *last = context;
    cr_assert(le(u64, done, all));
    *last = done;
}

Test(replay, tells_its_progress, .timeout = 5)
{
    uint64_t last = 0;
    pleat_replay_options_t options = PLEAT_REPLAY_OPTIONS_INIT;
    options.passes = 2;
    options.progress = count_progress;
    options.progress_context = &last;
    (void)replay_text(two_steps, &options);
    cr_expect(eq(u64, last, 10));
}

Test(replay, of_an_empty_program_is_zero_or_not_known, .timeout = 5)
{
    const pleat_trace_t trace = {.event_count = 0};
    const pleat_options_t defaults = PLEAT_OPTIONS_INIT;
    pleat_program_t *program = trace_fixture_program(&trace, &defaults);
    const pleat_replay_options_t options = PLEAT_REPLAY_OPTIONS_INIT;
    pleat_metrics_t metrics;
    cr_assert(eq(int, pleat_replay_program(program, &options, &metrics), PLEAT_OK));
    cr_expect(eq(u64, metrics.reserved_peak_bytes, 0));
    cr_expect(isnan(metrics.driver_percent));
    pleat_program_destroy(program);
}

Test(replay, leaves_the_allocator_where_the_trace_ends, .timeout = 5)
{
    pleat_program_t *program = trace_fixture_read("alloc 2000000 12582912 0 0\n"
                                                  "alloc 4000000 512 0 1\n");
    pleat_replay_options_t options = PLEAT_REPLAY_OPTIONS_INIT;
    options.passes = 2;
    pleat_replay_t *replay = NULL;
    cr_assert(eq(int, pleat_replay_create(program, &options, &replay), PLEAT_OK));
    pleat_metrics_t metrics;
    cr_assert(eq(int, pleat_replay_run(replay, &metrics), PLEAT_OK));
    pleat_stats_t stats = PLEAT_STATS_INIT;
    pleat_read_stats(pleat_replay_allocator(replay), &stats);
    cr_expect(eq(i64, stats.allocation[PLEAT_STAT_ALL].current, 2));
    cr_expect(strcmp(pleat_vmm_name(pleat_replay_device(replay)), "sim") == 0);
    cr_expect(eq(int, pleat_replay_run(replay, &metrics), PLEAT_ERR_INVALID));
    cr_expect(strstr(pleat_last_error(), "has run before") != NULL);
    pleat_replay_destroy(replay);
    pleat_program_destroy(program);
}

Test(replay, refuses_wrong_options, .timeout = 5)
{
    pleat_program_t *program = trace_fixture_read(two_steps);
    pleat_replay_options_t options = PLEAT_REPLAY_OPTIONS_INIT;
    pleat_metrics_t metrics;
    options.mode = PLEAT_MODE_COUNT;
    cr_expect(eq(int, pleat_replay_program(program, &options, &metrics), PLEAT_ERR_INVALID));
    options.mode = PLEAT_MODE_CLASSIC;
    options.allocator.garbage_collection_threshold = -1.0;
    cr_expect(eq(int, pleat_replay_program(program, &options, &metrics), PLEAT_ERR_INVALID));
    pleat_program_destroy(program);
}

Test(replay, knows_its_modes_by_name, .timeout = 5)
{
    pleat_mode_t mode = PLEAT_MODE_COUNT;
    cr_expect(pleat_mode_from_name("classic", &mode));
    cr_expect(eq(int, mode, PLEAT_MODE_CLASSIC));
    cr_expect(not(pleat_mode_from_name("Classic", &mode)));
    cr_expect(strcmp(pleat_mode_name(PLEAT_MODE_COUNT), "unknown") == 0);
}

Test(replay, passes_on_what_the_device_reports, .timeout = 5)
{
    pleat_program_t *program = trace_fixture_read(two_steps);
    const pleat_replay_options_t options = PLEAT_REPLAY_OPTIONS_INIT;
    pleat_replay_t *replay = NULL;
    cr_assert(eq(int, pleat_replay_create(program, &options, &replay), PLEAT_OK));
    pleat_vmm_t *vmm = pleat_replay_device(replay);
    cr_assert(
        eq(int, pleat_sim_fail_call(vmm, PLEAT_VMM_CALL_MEM_ALLOC, 2, PLEAT_ERR_DRIVER), PLEAT_OK));
    pleat_metrics_t metrics;
    cr_expect(eq(int, pleat_replay_run(replay, &metrics), PLEAT_ERR_DRIVER));
    pleat_replay_destroy(replay);
    pleat_program_destroy(program);
}

/* The invariants hold on the way through a recorded loop on three streams, in every mode, and
 * what the engine counts of its mappings is what the device has. */
Test(player, keeps_the_invariants_over_a_trace_in_every_mode, .timeout = 60)
{
    pleat_trace_t *trace = NULL;
    cr_assert(
        eq(int, pleat_trace_load(PLEAT_TEST_TRACES "/prefetch_streams.pleat", &trace), PLEAT_OK));
    const pleat_options_t defaults = PLEAT_OPTIONS_INIT;
    pleat_program_t *program = trace_fixture_program(trace, &defaults);
    for (int mode = 0; mode < (int)PLEAT_MODE_COUNT; mode++) {
        pleat_options_t options = PLEAT_OPTIONS_INIT;
        options.mode = (pleat_mode_t)mode;
        pleat_vmm_t *vmm = NULL;
        pleat_allocator_t *allocator = NULL;
        cr_assert(eq(int, pleat_sim_create(NULL, &vmm), PLEAT_OK));
        cr_assert(eq(int, pleat_allocator_create(&options, vmm, &allocator), PLEAT_OK));
        pleat_player_t player;
        cr_assert(eq(int, pleat_player_init(&player, program, vmm, allocator), PLEAT_OK));
        for (size_t i = 0; i < program->call_count; i++) {
            cr_assert(eq(int, pleat_player_perform(&player, &program->calls[i]), PLEAT_OK));
            if (i % 101 != 0) {
                continue;
            }
            cr_assert(pleat_allocator_check(allocator) == PLEAT_OK, "%s, call %zu: %s",
                      pleat_mode_name(options.mode), i, pleat_last_error());
            pleat_sim_usage_t usage = PLEAT_SIM_USAGE_INIT;
            pleat_stats_t stats = PLEAT_STATS_INIT;
            cr_assert(eq(int, pleat_sim_read_usage(vmm, &usage), PLEAT_OK));
            pleat_read_stats(allocator, &stats);
            cr_assert(eq(i64, stats.mappings, (int64_t)usage.mappings));
        }
        cr_assert(eq(int, pleat_player_free_all(&player), PLEAT_OK));
        cr_assert(eq(int, pleat_empty_cache(allocator), PLEAT_OK));
        pleat_stats_t stats = PLEAT_STATS_INIT;
        pleat_read_stats(allocator, &stats);
        cr_expect(eq(i64, stats.unreturnable_bytes, 0), "%s", pleat_mode_name(options.mode));
        cr_expect(eq(i64, stats.mappings, 0), "%s", pleat_mode_name(options.mode));
        pleat_player_fini(&player);
        pleat_allocator_destroy(allocator);
        pleat_vmm_destroy(vmm);
    }
    pleat_program_destroy(program);
    pleat_trace_destroy(trace);
}

Test(player, recycles_the_streams_of_waits, .timeout = 5)
{
    char text[8192];
    size_t used = 0;
    for (int i = 0; i < 30; i++) {
        used += (size_t)snprintf(text + used, sizeof(text) - used,
                                 "alloc 2000000 512 0 %d\nfree_requested 2000000 512 0 %d\n"
                                 "free_completed 2000000 512 0 %d\n"
                                 "alloc 2000000 512 0 %d\nfree_requested 2000000 512 0 %d\n"
                                 "alloc 3000000 512 0 %d\nfree_requested 3000000 512 0 %d\n"
                                 "free_completed 3000000 512 0 %d\n"
                                 "free_completed 2000000 512 0 %d\n",
                                 i, i, i, i, i, i, i, i, i);
    }
    pleat_program_t *program = trace_fixture_read(text);
    pleat_vmm_t *vmm = NULL;
    pleat_allocator_t *allocator = NULL;
    cr_assert(eq(int, pleat_sim_create(NULL, &vmm), PLEAT_OK));
    cr_assert(eq(int, pleat_allocator_create(NULL, vmm, &allocator), PLEAT_OK));
    pleat_player_t player;
    cr_assert(eq(int, pleat_player_init(&player, program, vmm, allocator), PLEAT_OK));
    for (size_t i = 0; i < program->call_count; i++) {
        cr_assert(eq(int, pleat_player_perform(&player, &program->calls[i]), PLEAT_OK));
        cr_assert(le(u64, player.wait_next, 1));
    }
    cr_assert(eq(int, pleat_player_free_all(&player), PLEAT_OK));
    pleat_player_fini(&player);
    cr_assert(eq(int, pleat_allocator_check(allocator), PLEAT_OK));
    pleat_allocator_destroy(allocator);
    pleat_vmm_destroy(vmm);
    pleat_program_destroy(program);
}

Test(replay, fails_cleanly_without_host_memory, .timeout = 20)
{
    pleat_program_t *program = trace_fixture_read("alloc 2000000 512 0 0\n"
                                                  "free_requested 2000000 512 0 1\n"
                                                  "alloc 3000000 512 0 2\n"
                                                  "free_completed 2000000 512 0 3\n"
                                                  "alloc 2000000 512 0 4\n");
    const pleat_replay_options_t options = PLEAT_REPLAY_OPTIONS_INIT;
    bool has_run = false;
    for (uint64_t nth = 1; !has_run; nth++) {
        cr_assert(lt(u64, nth, 200));
        pleat_metrics_t metrics = {.events = 0};
        host_fault_after(nth);
        const pleat_status_t status = pleat_replay_program(program, &options, &metrics);
        host_fault_after(0);
        cr_assert(status == PLEAT_OK || status == PLEAT_ERR_OOM_HOST);
        has_run = status == PLEAT_OK;
    }
    pleat_program_destroy(program);
}
