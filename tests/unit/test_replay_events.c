/*
 * Tests of experiments/lib/replay_events: what is collected of a replay, and the file. That the
 * file is what trace viewers read is checked with Python (tests/cli).
 */
#include "replay_events.h"

#include "host_fault.h"
#include "trace_fixture.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <jansson.h>
#include <stdlib.h>
#include <unistd.h>

static const pleat_cost_table_t costs = {
    .size = sizeof(pleat_cost_table_t),
    .row_count = 1,
    .rows = {{.bytes = 1 << 21, .mem_alloc_ns = 30000, .mem_free_ns = 10000}}};

/* 12 MiB are cached when 20 MiB are wanted of a limit of 24 MiB: a retry; then 40 MiB fail. */
static const char *const full = "segment_alloc 2000000 12582912 0 0\n"
                                "alloc 2000000 12582912 0 0\n"
                                "free_requested 2000000 12582912 0 100\n"
                                "free_completed 2000000 12582912 0 100\n"
                                "segment_free 2000000 12582912 0 200\n"
                                "segment_alloc 4000000 20971520 0 200\n"
                                "alloc 4000000 20971520 0 200\n"
                                "oom 0 41943040 0 300\n";

typedef struct run {
    pleat_program_t *program;
    pleat_replay_t *replay;
    pleat_replay_events_t events;
} run_t;

static void run_begin(run_t *run)
{
    pleat_replay_options_t options = PLEAT_REPLAY_OPTIONS_INIT;
    pleat_metrics_t metrics;
    options.allocator.limit_bytes = UINT64_C(24) << 20;
    pleat_trace_t *trace = trace_fixture_load(full);
    run->program = trace_fixture_program(trace, &options.allocator);
    pleat_trace_destroy(trace);
    cr_assert(eq(int, pleat_replay_events_init(&run->events), PLEAT_OK));
    options.costs = &costs;
    options.curve = &run->events.curve;
    options.watcher = &run->events.watcher;
    cr_assert(eq(int, pleat_replay_create(run->program, &options, &run->replay), PLEAT_OK));
    cr_assert(eq(int, pleat_replay_run(run->replay, &metrics), PLEAT_OK));
    pleat_replay_events_detach(run->replay);
}

static void run_end(run_t *run)
{
    pleat_replay_destroy(run->replay);
    pleat_replay_events_fini(&run->events);
    pleat_program_destroy(run->program);
}

Test(replay_events, collects_calls_failures_and_retries, .timeout = 5)
{
    run_t run;
    run_begin(&run);
    const pleat_driver_log_t *driver = &run.events.driver;
    cr_assert(le(sz, 3, driver->count));
    cr_expect(eq(int, (int)driver->slices[0].call, (int)PLEAT_VMM_CALL_MEM_ALLOC));
    cr_expect(eq(u64, driver->slices[0].cost_ns, 30000));
    cr_expect(eq(int, (int)driver->slices[1].call, (int)PLEAT_VMM_CALL_MEM_FREE));
    cr_expect(eq(u64, driver->slices[1].begin_ns, 200000));
    cr_expect(eq(u64, driver->slices[1].cost_ns, 10000));
    cr_assert(le(sz, 2, run.events.instant_count));
    cr_expect(not(run.events.instants[0].is_oom));
    cr_expect(eq(u64, run.events.instants[0].time_us, 200));
    const pleat_replay_instant_t *last = &run.events.instants[run.events.instant_count - 1];
    cr_expect(last->is_oom);
    cr_expect(eq(u64, last->time_us, 300));
    cr_expect(eq(u64, last->bytes, 41943040));
    run_end(&run);
}

static json_t *write_and_load(const run_t *run, const char *name)
{
    char path[] = "/tmp/pleat-test-XXXXXX";
    pleat_output_file_t file;
    (void)close(mkstemp(path));
    cr_assert(eq(int, pleat_output_file_open(path, &file), PLEAT_OK));
    cr_assert(eq(int, pleat_replay_events_begin_file(&file, "pleat \xff"), PLEAT_OK));
    cr_assert(eq(int, pleat_replay_events_write(&run->events, &file, 1, name), PLEAT_OK));
    cr_assert(eq(int, pleat_replay_events_write(&run->events, &file, 2, "b"), PLEAT_OK));
    cr_assert(eq(int, pleat_replay_events_end_file(&file), PLEAT_OK));
    json_t *object = json_load_file(path, JSON_REJECT_DUPLICATES, NULL);
    (void)unlink(path);
    cr_assert(ne(ptr, object, NULL));
    return object;
}

Test(replay_events, writes_json_whatever_the_name, .timeout = 5)
{
    run_t run;
    run_begin(&run);
    json_t *object = write_and_load(&run, "a \"\xe4\"");
    const json_t *events = json_object_get(object, "traceEvents");
    int counters = 0;
    int slices = 0;
    int instants = 0;
    size_t index = 0;
    json_t *event = NULL;
    json_array_foreach(events, index, event)
    {
        const char *phase = json_string_value(json_object_get(event, "ph"));
        counters += *phase == 'C';
        slices += *phase == 'X';
        instants += *phase == 'i';
    }
    cr_expect(lt(int, 2 * PLEAT_CURVE_SERIES_COUNT, counters));
    cr_expect(eq(int, slices, 2 * (int)run.events.driver.count));
    cr_expect(eq(int, instants, 2 * (int)run.events.instant_count));
    json_decref(object);
    run_end(&run);
}

Test(replay_events, needs_host_memory, .timeout = 5)
{
    pleat_replay_events_t events;
    for (uint64_t nth = 1; nth <= 3; nth++) {
        host_fault_after(nth);
        cr_expect(eq(int, pleat_replay_events_init(&events), PLEAT_ERR_OOM_HOST));
        pleat_replay_events_fini(&events);
    }
}

Test(replay_events, passes_on_failures_of_the_file, .timeout = 5)
{
    run_t run;
    pleat_output_file_t file;
    run_begin(&run);
    cr_assert(eq(int, pleat_output_file_open("/dev/full", &file), PLEAT_OK));
    (void)setvbuf(file.file, NULL, _IONBF, 0);
    cr_expect(eq(int, pleat_replay_events_begin_file(&file, ""), PLEAT_ERR_IO));
    cr_expect(eq(int, pleat_replay_events_write(&run.events, &file, 1, ""), PLEAT_ERR_IO));
    cr_expect(eq(int, pleat_replay_events_end_file(&file), PLEAT_ERR_IO));
    pleat_output_file_abandon(&file);
    run_end(&run);
}

/* ---- what a watcher may do ---- */

typedef struct watched {
    uint64_t before;
    uint64_t after;
    uint64_t end_after; /* calls; 0: never */
    pleat_status_t begin;
    uint64_t last_us;
} watched_t;

static pleat_status_t watch_begin(void *context, pleat_replay_t *replay)
{
    (void)replay;
    return ((watched_t *)context)->begin;
}

static void watch_before(void *context, const pleat_program_call_t *call, uint64_t time_us)
{
    watched_t *watched = context;
    (void)call;
    cr_assert(eq(u64, watched->before++, watched->after));
    watched->last_us = time_us;
}

static bool watch_after(void *context, const pleat_program_call_t *call, uint64_t time_us)
{
    watched_t *watched = context;
    (void)call;
    cr_assert(eq(u64, watched->last_us, time_us));
    return ++watched->after != watched->end_after;
}

static pleat_status_t watch(watched_t *watched, pleat_replay_watcher_t watcher)
{
    pleat_replay_options_t options = PLEAT_REPLAY_OPTIONS_INIT;
    pleat_metrics_t metrics;
    pleat_program_t *program = trace_fixture_read(full);
    watcher.context = watched;
    options.passes = 2;
    options.watcher = &watcher;
    const pleat_status_t status = pleat_replay_program(program, &options, &metrics);
    pleat_program_destroy(program);
    return status;
}

Test(replay_events, a_watcher_sees_each_call_and_can_end_a_replay, .timeout = 5)
{
    const pleat_replay_watcher_t watcher = {
        .begin = watch_begin, .before = watch_before, .after = watch_after};
    watched_t all = {0};
    cr_assert(eq(int, watch(&all, watcher), PLEAT_OK));
    cr_expect(eq(u64, all.before, all.after));
    cr_expect(eq(u64, all.after % 2, 0)); /* two passes */
    cr_expect(eq(u64, all.last_us, 600));
    for (uint64_t end = 1; end <= all.after; end++) {
        watched_t cut = {.end_after = end};
        cr_assert(eq(int, watch(&cut, watcher), PLEAT_OK));
        cr_expect(eq(u64, cut.after, end));
    }
    watched_t failing = {.begin = PLEAT_ERR_OOM_HOST};
    cr_expect(eq(int, watch(&failing, watcher), PLEAT_ERR_OOM_HOST));
    cr_expect(eq(u64, failing.before, 0));
    cr_expect(eq(int, watch(NULL, (pleat_replay_watcher_t){.before = NULL}), PLEAT_OK));
}
