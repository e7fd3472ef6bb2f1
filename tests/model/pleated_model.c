/*
 * pleated_model: random programs on the engine in all modes, changed at run time too, over a device
 * with real memory whose kernels run late (delayed_device.h). Every allocation is filled with a
 * pattern of its own and checked by its stream, and by others; nothing may ever be found changed or
 * gone, no two live allocations may share memory, every invariant is verified after every call, and
 * nothing is left on the device at the end.
 *
 * Usage: pleated_model [--seed N] [--calls N] [--mode classic|torch_expandable|pleated|all]
 *                      [--shorten N].
 * The calls are divided into programs with seeds of their own. When one of them goes wrong, it is
 * made as short as N calls of attempts allow and printed as a case. Returns 0 when all is well, 1
 * otherwise.
 *
 * Programs run in a child process, so that the parent survives whatever happens there and can look
 * for the shortest program that still goes wrong.
 */
#include "delayed_device.h"
#include "pleated_pools.h"
#include "pleated_program.h"

#include <pleat/allocator.h>
#include <pleat/sim.h>

#include "fixture.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define UNIT_BYTES 512u

typedef struct live {
    pleat_devptr_t address; /* 0: none */
    uint64_t bytes;
    pleat_stream_t stream;
    uint32_t version; /* of the pattern */
    bool is_shared;   /* another stream reads it: nobody writes it any more */
} live_t;

typedef struct run {
    delayed_device_t *device;
    pleat_allocator_t *allocator;
    live_t lives[PLEATED_CALLS_MAX]; /* by id */
    uint64_t live_count;
    uint64_t live_bytes;
    uint64_t served_count;
    pleat_options_t options;
    pleated_pools_t pools;
} run_t;

/* What a child tells its parent; shared memory. */
typedef struct report {
    uint64_t seed;
    uint64_t length;
    uint64_t at;    /* index of the call */
    uint64_t calls; /* in all */
    uint64_t programs;
    uint64_t stitched_bytes;
    uint64_t cross_stream_takes;
    uint64_t event_waits;
    uint64_t ooms;
    uint64_t faults;
    pleat_status_t statuses[PLEATED_CALLS_MAX]; /* of allocations */
    char difference[1024];                      /* empty: none */
} report_t;

static report_t *report;

static void differ(const char *format, ...) PLEAT_PRINTF(1, 2);
static void differ(const char *format, ...)
{
    if (report->difference[0] == '\0') {
        va_list arguments;
        va_start(arguments, format);
        (void)vsnprintf(report->difference, sizeof(report->difference), format, arguments);
        va_end(arguments);
    }
}

/* ---- what must hold after every call ---- */

static uint64_t run_waits(const run_t *run)
{
    pleat_vmm_counters_t counters = PLEAT_VMM_COUNTERS_INIT;
    pleat_vmm_read_counters(delayed_device_sim(run->device), &counters);
    return counters.waits;
}

static pleat_stats_t run_stats(const run_t *run)
{
    pleat_stats_t stats = PLEAT_STATS_INIT;
    pleat_read_stats(run->allocator, &stats);
    return stats;
}

static pleat_sim_usage_t run_usage(const run_t *run)
{
    pleat_sim_usage_t usage = PLEAT_SIM_USAGE_INIT;
    FIXTURE_REQUIRE(pleat_sim_read_usage(delayed_device_sim(run->device), &usage) == PLEAT_OK,
                    "usage");
    return usage;
}

static void check_value(const char *name, uint64_t got, uint64_t wanted)
{
    if (got != wanted) {
        differ("%s is %" PRIu64 ", expected %" PRIu64, name, got, wanted);
    }
}

static void check_stats(const run_t *run)
{
    const pleat_stats_t stats = run_stats(run);
    const pleat_sim_usage_t usage = run_usage(run);
    check_value("allocation.all.current", (uint64_t)stats.allocation[PLEAT_STAT_ALL].current,
                run->live_count);
    check_value("reserved_bytes.all.current, beside what the device holds,",
                (uint64_t)stats.reserved_bytes[PLEAT_STAT_ALL].current +
                    delayed_device_lost_bytes(run->device),
                usage.chunk_bytes + usage.allocated_bytes);
    check_value("mappings", (uint64_t)stats.mappings, usage.mappings);
    if ((uint64_t)stats.requested_bytes[PLEAT_STAT_ALL].current < run->live_bytes) {
        differ("requested_bytes.all.current is %" PRId64 ", but %" PRIu64 " are live",
               stats.requested_bytes[PLEAT_STAT_ALL].current, run->live_bytes);
    }
#define CHECK_SUM(name, text)                                                                  \
    if (stats.name[PLEAT_STAT_ALL].current != stats.name[PLEAT_STAT_LARGE_POOL].current +      \
                                                  stats.name[PLEAT_STAT_SMALL_POOL].current || \
        stats.name[PLEAT_STAT_ALL].peak < stats.name[PLEAT_STAT_ALL].current) {                \
        differ("%s does not add up", #name);                                                   \
    }
    PLEAT_ARRAY_STAT_LIST(CHECK_SUM)
#undef CHECK_SUM
}

static void check_all(run_t *run)
{
    const char *complaint = delayed_device_complaint(run->device);
    pleated_pools_check(&run->pools);
    if (complaint[0] != '\0') {
        differ("%s", complaint);
    } else if (run->pools.complaint[0] != '\0') {
        differ("%s", run->pools.complaint);
    } else if (pleat_allocator_check(run->allocator) != PLEAT_OK) {
        differ("%s", pleat_last_error());
    } else {
        check_stats(run);
    }
}

/* ---- requests ---- */

/* A call may fail if the device did. @p failures: of the device before the call. */
static void check_failed(const run_t *run, const char *name, pleat_status_t status,
                         uint64_t failures)
{
    if (status != PLEAT_OK && delayed_device_failures(run->device) == failures) {
        differ("%s: status '%s' (%s) without a failure of the device", name,
               pleat_status_text(status), pleat_last_error());
    }
}

static void launch(run_t *run, uint32_t id, pleat_stream_t stream, bool is_check,
                   uint64_t duration_ns)
{
    const live_t *live = &run->lives[id];
    const delayed_kernel_t kernel = {.address = live->address,
                                     .bytes = live->bytes,
                                     .id = id,
                                     .version = live->version,
                                     .is_check = is_check};
    delayed_device_launch(run->device, stream, &kernel, duration_ns);
}

/* Was it right to fail? @p before: failures of the device before the call. */
static void check_failure(const run_t *run, const pleated_call_t *call, pleat_status_t status,
                          uint64_t before)
{
    const bool has_faults = delayed_device_failures(run->device) > before;
    const bool is_single = call->kind == PLEATED_ALLOC_SINGLE;
    if (status == PLEAT_ERR_TOO_LARGE && call->bytes >= UINT64_C(1) << 60) {
        return;
    }
    if (status == PLEAT_ERR_UNSUPPORTED && is_single &&
        run->options.mode == PLEAT_MODE_TORCH_EXPANDABLE) {
        return;
    }
    if (status != PLEAT_ERR_OOM_DEVICE && !has_faults) {
        differ("status '%s' (%s) without a failure of the device", pleat_status_text(status),
               pleat_last_error());
    }
    const pleat_sim_usage_t usage = run_usage(run);
    const uint64_t held_bytes = usage.chunk_bytes + usage.allocated_bytes;
    uint64_t capacity_bytes = 0;
    uint64_t free_bytes = 0;
    FIXTURE_REQUIRE(pleat_vmm_mem_info(delayed_device_sim(run->device), &free_bytes,
                                       &capacity_bytes) == PLEAT_OK,
                    "mem_info");
    if (status == PLEAT_ERR_OOM_DEVICE && !has_faults && run->options.mode == PLEAT_MODE_PLEATED &&
        call->bytes < capacity_bytes && !pleated_pools_take_whole(&run->pools, call->stream)) {
        const uint64_t wanted_bytes =
            held_bytes + pleat_round_up(call->bytes + UNIT_BYTES, 2 * PLEAT_MIB);
        if (wanted_bytes <= capacity_bytes && wanted_bytes <= run->options.limit_bytes) {
            differ("out of memory (%s), but the device and the limit have room",
                   pleat_last_error());
        }
    }
}

static void begin_live(run_t *run, const pleated_call_t *call, pleat_devptr_t address)
{
    const size_t extents = physical_map_begin(delayed_device_memory(run->device), call->id, address,
                                              pleat_round_up(call->bytes, UNIT_BYTES));
    if (call->kind == PLEATED_ALLOC_SINGLE && extents != 1) {
        differ("a%" PRIu32 " lies in %zu chunks, not in one", call->id, extents);
    }
    if (address % UNIT_BYTES != 0) {
        differ("a%" PRIu32 " at 0x%" PRIx64 " is not aligned", call->id, address);
    }
    run->lives[call->id] =
        (live_t){.address = address, .bytes = call->bytes, .stream = call->stream};
    run->live_count++;
    run->live_bytes += call->bytes;
    pleated_pools_check_request(&run->pools, call, address);
    if (delayed_device_complaint(run->device)[0] == '\0') {
        launch(run, call->id, call->stream, false, call->duration_ns);
    }
}

static void run_alloc(run_t *run, const pleated_call_t *call)
{
    const uint64_t failures = delayed_device_failures(run->device);
    const pleat_stats_t before = run_stats(run);
    const uint64_t waits = run_waits(run);
    pleat_devptr_t ptr = 0;
    pleated_pools_before_call(&run->pools);
    const pleat_status_t status =
        call->kind == PLEATED_ALLOC_SINGLE
            ? pleat_alloc_single(run->allocator, call->bytes, call->stream, &ptr)
            : pleat_alloc(run->allocator, call->bytes, call->stream, &ptr);
    pleated_pools_after_call(&run->pools);
    const pleat_stats_t after = run_stats(run);
    report->statuses[report->at] = status;
    check_value("num_ooms", (uint64_t)(after.num_ooms - before.num_ooms),
                status == PLEAT_ERR_OOM_DEVICE);
    if (status != PLEAT_OK) {
        report->ooms += status == PLEAT_ERR_OOM_DEVICE;
        check_failure(run, call, status, failures);
    } else if (call->bytes > 0) {
        run->served_count++;
        begin_live(run, call, ptr);
    }
    if (run->options.mode == PLEAT_MODE_PLEATED && run_waits(run) > waits &&
        after.num_alloc_retries == before.num_alloc_retries) {
        differ("the host waited for the device, and not as a retry");
    }
}

static void run_free(run_t *run, const pleated_call_t *call)
{
    live_t *live = &run->lives[call->id];
    if (call->duration_ns > 0) {
        launch(run, call->id, live->stream, true, call->duration_ns - 1);
    }
    const uint64_t waits = run_waits(run);
    const uint64_t failures = delayed_device_failures(run->device);
    pleated_pools_before_call(&run->pools);
    const pleat_status_t status = pleat_free(run->allocator, live->address);
    pleated_pools_after_call(&run->pools);
    if (status == PLEAT_OK) {
        physical_map_end(delayed_device_memory(run->device), call->id);
        run->live_count--;
        run->live_bytes -= live->bytes;
        *live = (live_t){0};
    }
    check_failed(run, "free", status, failures);
    check_value("waits of the host in a free", run_waits(run) - waits, 0);
}

/* The other stream reads what is there; the free has to wait for it. */
static void run_record(run_t *run, const pleated_call_t *call)
{
    live_t *live = &run->lives[call->id];
    const uint64_t failures = delayed_device_failures(run->device);
    const pleat_status_t status = pleat_record_stream(run->allocator, live->address, call->stream);
    if (status == PLEAT_OK) {
        delayed_device_join(run->device, call->stream, live->stream);
        launch(run, call->id, call->stream, true, call->duration_ns);
        live->is_shared = true;
        if (pleated_pools_are_redirecting(&run->pools) && run->options.mode != PLEAT_MODE_PLEATED) {
            /* Captured work comes back to the stream that it began on; other work PyTorch loses. */
            delayed_device_join(run->device, live->stream, call->stream);
        }
    }
    check_failed(run, "record_stream", status, failures);
}

/* The other stream writes it; both are ordered by events of the user. */
static void run_borrow(run_t *run, const pleated_call_t *call)
{
    live_t *live = &run->lives[call->id];
    delayed_device_join(run->device, call->stream, live->stream);
    if (!live->is_shared) {
        live->version++;
        launch(run, call->id, call->stream, false, call->duration_ns);
    }
    launch(run, call->id, call->stream, true, 0);
    delayed_device_join(run->device, live->stream, call->stream);
}

static void run_on_live(run_t *run, const pleated_call_t *call)
{
    const live_t *live = &run->lives[call->id];
    if (live->address == 0) {
        return;
    }
    if (call->kind == PLEATED_FREE) {
        run_free(run, call);
    } else if (call->kind == PLEATED_CHECK) {
        launch(run, call->id, live->stream, true, call->duration_ns);
    } else if (call->kind == PLEATED_RECORD) {
        run_record(run, call);
    } else if (call->kind == PLEATED_BORROW) {
        run_borrow(run, call);
    } else if (pleat_free(run->allocator, live->address + 256) != PLEAT_ERR_INVALID_POINTER) {
        differ("an address inside a%" PRIu32 " is freed", call->id);
    }
}

/* ---- other calls ---- */

static void run_pool(run_t *run, const pleated_call_t *call)
{
    const uint64_t failures = delayed_device_failures(run->device);
    pleated_pools_before_call(&run->pools);
    check_failed(run, "pool", pleated_pools_call(&run->pools, call), failures);
    pleated_pools_after_call(&run->pools);
}

static void run_empty(run_t *run)
{
    const uint64_t failures = delayed_device_failures(run->device);
    pleated_pools_before_call(&run->pools);
    const pleat_status_t status = pleat_empty_cache(run->allocator);
    pleated_pools_after_call(&run->pools);
    check_failed(run, "empty_cache", status, failures);
    if (status == PLEAT_OK && run->live_count == 0 && !pleated_pools_keep_memory(&run->pools)) {
        check_value("reserved_bytes.all.current after empty_cache, with nothing live,",
                    (uint64_t)run_stats(run).reserved_bytes[PLEAT_STAT_ALL].current, 0);
    }
}

static void run_set(run_t *run, const pleat_options_t *options)
{
    pleated_pools_note_options(&run->pools, options);
    FIXTURE_REQUIRE(pleat_set_options(run->allocator, options) == PLEAT_OK, "set_options: %s",
                    pleat_last_error());
    run->options = *options;
}

static void run_snapshot(run_t *run)
{
    pleat_snapshot_t *snapshot = NULL;
    FIXTURE_REQUIRE(pleat_snapshot_take(run->allocator, &snapshot) == PLEAT_OK, "snapshot");
    pleat_segment_info_t sum = {0};
    for (uint64_t i = 0; i < snapshot->segment_count; i++) {
        sum.total_bytes += snapshot->segments[i].total_bytes;
        sum.allocated_bytes += snapshot->segments[i].allocated_bytes;
        sum.active_bytes += snapshot->segments[i].active_bytes;
        sum.requested_bytes += snapshot->segments[i].requested_bytes;
    }
    const pleat_stats_t stats = run_stats(run);
    check_value("the sum of a snapshot's segments", sum.total_bytes,
                (uint64_t)stats.reserved_bytes[PLEAT_STAT_ALL].current);
    check_value("the allocated bytes in a snapshot", sum.allocated_bytes,
                (uint64_t)stats.allocated_bytes[PLEAT_STAT_ALL].current);
    check_value("the active bytes in a snapshot", sum.active_bytes,
                (uint64_t)stats.active_bytes[PLEAT_STAT_ALL].current);
    check_value("the requested bytes in a snapshot", sum.requested_bytes,
                (uint64_t)stats.requested_bytes[PLEAT_STAT_ALL].current);
    pleat_snapshot_destroy(snapshot);
}

static void run_device(run_t *run, const pleated_call_t *call)
{
    pleat_vmm_t *sim = delayed_device_sim(run->device);
    pleat_status_t status = PLEAT_OK;
    if (call->kind == PLEATED_BUSY) {
        status = pleat_sim_set_busy(sim, call->stream);
    } else if (call->kind == PLEATED_DONE) {
        status = pleat_sim_set_done(sim, call->stream);
    } else if (call->kind == PLEATED_ADVANCE) {
        status = pleat_sim_advance_to(sim, pleat_vmm_clock_ns(sim) + call->duration_ns);
    } else if (call->kind == PLEATED_SYNC) {
        delayed_device_synchronize(run->device, call->stream);
    } else {
        delayed_device_fail_call(run->device, call->fault_call, call->bytes, call->fault_status);
        report->faults++;
    }
    FIXTURE_REQUIRE(status == PLEAT_OK, "device: %s", pleat_last_error());
}

static void run_call(run_t *run, const pleated_program_t *program, const pleated_call_t *call)
{
    pleat_options_t options = run->options;
    switch (call->kind) {
    case PLEATED_ALLOC:
    case PLEATED_ALLOC_SINGLE:
        run_alloc(run, call);
        break;
    case PLEATED_FREE:
    case PLEATED_FREE_INTERIOR:
    case PLEATED_CHECK:
    case PLEATED_RECORD:
    case PLEATED_BORROW:
        run_on_live(run, call);
        break;
    case PLEATED_EMPTY:
        run_empty(run);
        break;
    case PLEATED_RESET_PEAK:
        pleat_reset_peak_stats(run->allocator);
        break;
    case PLEATED_RESET_ACCUMULATED:
        pleat_reset_accumulated_stats(run->allocator);
        break;
    case PLEATED_SET:
        options = program->options[call->options];
        options.limit_bytes = run->options.limit_bytes;
        run_set(run, &options);
        break;
    case PLEATED_SET_LIMIT:
        options.limit_bytes = call->bytes;
        run_set(run, &options);
        break;
    case PLEATED_SNAPSHOT:
        run_snapshot(run);
        break;
    case PLEATED_POOL_ACQUIRE:
    case PLEATED_POOL_BEGIN:
    case PLEATED_POOL_END:
    case PLEATED_POOL_RELEASE:
    case PLEATED_POOL_DELETE:
    case PLEATED_POOL_EMPTY:
    case PLEATED_POOL_OVERFLOW:
    case PLEATED_POOL_NO_SPLIT:
        run_pool(run, call);
        break;
    case PLEATED_BUSY:
    case PLEATED_DONE:
    case PLEATED_SYNC:
    case PLEATED_ADVANCE:
    case PLEATED_FAULT:
        run_device(run, call);
        break;
    }
    delayed_device_run_ahead(run->device, call->ahead_stream, call->ahead_count);
    check_all(run);
}

/* ---- programs ---- */

/* Nothing is left, but what the device refused to take back. */
static void check_end(const run_t *run)
{
    const pleat_sim_usage_t usage = run_usage(run);
    check_value("allocations left on the device", usage.allocations, 0);
    check_value("events left on the device", usage.events, DELAYED_DEVICE_EVENTS);
    check_value("mappings left on the device", usage.mappings, 0);
    check_value("bytes of chunks left on the device", usage.chunk_bytes,
                delayed_device_lost_bytes(run->device));
    check_value("address ranges left on the device", usage.ranges,
                delayed_device_lost_ranges(run->device));
}

/* Free what is live, if the work that uses it is not over. */
static void run_end(run_t *run, const pleated_program_t *program)
{
    delayed_device_fail_call(run->device, PLEAT_VMM_CALL_MAP, 0, PLEAT_ERR_DRIVER);
    if (!program->is_abrupt) {
        delayed_device_finish(run->device);
    }
    for (uint32_t id = 0; id < program->id_count && program->is_abrupt; id++) {
        if (run->lives[id].address != 0) {
            run_free(run, &(pleated_call_t){.id = id, .duration_ns = 1});
        }
    }
    for (uint32_t id = 0; id < program->id_count; id++) {
        if (run->lives[id].address != 0) { /* the device must not complain about what follows */
            physical_map_end(delayed_device_memory(run->device), id);
        }
    }
    check_all(run);
    pleated_pools_let_go(&run->pools);
    const pleat_stats_t stats = run_stats(run);
    report->stitched_bytes += (uint64_t)stats.stitched_bytes;
    report->cross_stream_takes += (uint64_t)stats.cross_stream_takes;
    report->event_waits += (uint64_t)stats.event_waits;
    if (report->difference[0] != '\0') {
        return; /* what is broken is not destroyed */
    }
    pleat_allocator_destroy(run->allocator);
    delayed_device_finish(run->device);
    if (delayed_device_complaint(run->device)[0] != '\0') {
        differ("after destruction: %s", delayed_device_complaint(run->device));
    }
    check_end(run);
    delayed_device_destroy(run->device);
}

/* Run a program; report->difference tells how it went. */
static void run_program(const pleated_program_t *program)
{
    static run_t run;
    memset(&run, 0, sizeof(run));
    run.device = delayed_device_create(program->capacity_bytes);
    run.options = program->options[0];
    FIXTURE_REQUIRE(pleat_allocator_create(&run.options, delayed_device_vmm(run.device),
                                           &run.allocator) == PLEAT_OK,
                    "allocator: %s", pleat_last_error());
    pleated_pools_init(&run.pools, run.allocator, delayed_device_sim(run.device),
                       delayed_device_memory(run.device));
    pleated_pools_note_options(&run.pools, &run.options);
    for (size_t i = 0; i < program->count && report->difference[0] == '\0'; i++) {
        report->at = i;
        run_call(&run, program, &program->calls[i]);
        report->calls++;
    }
    if (report->difference[0] == '\0') {
        report->at = program->count;
        run_end(&run, program);
    }
    report->programs++;
}

/* ---- children ---- */

/* Is all well in a child that runs @p work? The difference is set if not. */
static bool child_succeeds(void (*work)(void *context), void *context)
{
    report->difference[0] = '\0';
    (void)fflush(NULL);
    const pid_t child = fork();
    FIXTURE_REQUIRE(child >= 0, "fork");
    if (child == 0) {
        work(context);
        if (report->difference[0] == '\0') {
            exit(0); /* a leak sanitizer has its say */
        }
        _exit(1);
    }
    int status = 0;
    FIXTURE_REQUIRE(waitpid(child, &status, 0) == child, "waitpid");
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        return true;
    }
    if (report->difference[0] == '\0' && WIFSIGNALED(status)) {
        differ("the program is ended by signal %d", WTERMSIG(status));
    } else if (report->difference[0] == '\0') {
        differ("the program ends with status %d", WEXITSTATUS(status));
    }
    return false;
}

static void work_on_program(void *context)
{
    run_program(context);
}

/* Leave out calls [begin, end) if something is still wrong then. */
static bool leave_out(pleated_program_t *program, size_t begin, size_t end)
{
    static pleated_program_t attempt;
    attempt = *program;
    memmove(&attempt.calls[begin], &program->calls[end],
            (program->count - end) * sizeof(attempt.calls[0]));
    attempt.count = program->count - (end - begin);
    if (child_succeeds(work_on_program, &attempt)) {
        return false;
    }
    *program = attempt;
    if (report->at < program->count) {
        program->count = report->at + 1;
    }
    return true;
}

/* Leave out as many calls as can be left out, with about @p calls calls for the attempts. */
static void shorten(pleated_program_t *program, uint64_t calls)
{
    const uint64_t end_calls = report->calls + calls;
    program->count = report->at < program->count ? report->at + 1 : program->count;
    for (size_t chunk = program->count / 2; chunk > 0; chunk /= 2) {
        size_t begin = 0;
        while (begin < program->count && report->calls < end_calls) {
            const size_t end = begin + chunk < program->count ? begin + chunk : program->count;
            begin = leave_out(program, begin, end) ? begin : end;
        }
    }
    (void)child_succeeds(work_on_program, program);
}

typedef struct job {
    uint64_t seed;
    uint64_t calls;
    uint64_t shorten_calls;
    unsigned modes;
} job_t;

/* Mostly short: a program has one character, and many characters are better than few. */
static size_t program_length(uint64_t seed)
{
    return seed % 10 == 0 ? PLEATED_CALLS_MAX : 50 + seed / 10 % 600;
}

static void work_on_job(void *context)
{
    static pleated_program_t program;
    const job_t *job = context;
    fixture_random_t random = {.state = job->seed};
    while (report->calls < job->calls && report->difference[0] == '\0') {
        /* The first program has the seed itself, so that the seed of a report repeats it. */
        report->seed = report->programs == 0 ? job->seed : fixture_random_next(&random);
        report->length = program_length(report->seed);
        pleated_program_make(&program, report->seed, report->length, job->modes);
        run_program(&program);
    }
}

static void tell_failure(const job_t *job)
{
    static pleated_program_t program;
    printf("seed %" PRIu64 ", call %" PRIu64 ": %s\n", report->seed, report->at,
           report->difference);
    pleated_program_make(&program, report->seed, report->length, job->modes);
    if (child_succeeds(work_on_program, &program)) {
        printf("it does not happen again\n");
        return;
    }
    shorten(&program, job->shorten_calls);
    printf("the shortest program that goes wrong (%s):\n\n", report->difference);
    for (size_t i = 0; i < program.count; i++) {
        program.calls[i].status = report->statuses[i];
    }
    pleated_program_print(&program, stdout);
}

/* ---- command line ---- */

static bool parse_number(const char *text, uint64_t *number_out)
{
    char *end = NULL;
    *number_out = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && *end == '\0';
}

static bool parse_modes(const char *text, unsigned *modes_out)
{
    *modes_out = strcmp(text, "all") == 0 ? (1u << PLEAT_MODE_COUNT) - 1 : 0;
    for (unsigned mode = 0; mode < PLEAT_MODE_COUNT; mode++) {
        if (strcmp(text, pleat_mode_name((pleat_mode_t)mode)) == 0) {
            *modes_out = 1u << mode;
        }
    }
    return *modes_out != 0;
}

static bool parse(int argc, char **argv, job_t *job)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        const bool is_good =
            strcmp(argv[i], "--seed") == 0      ? parse_number(argv[i + 1], &job->seed)
            : strcmp(argv[i], "--calls") == 0   ? parse_number(argv[i + 1], &job->calls)
            : strcmp(argv[i], "--shorten") == 0 ? parse_number(argv[i + 1], &job->shorten_calls)
            : strcmp(argv[i], "--mode") == 0    ? parse_modes(argv[i + 1], &job->modes)
                                                : false;
        if (!is_good) {
            return false;
        }
    }
    return argc % 2 == 1;
}

int main(int argc, char **argv)
{
    job_t job = {
        .seed = 1, .calls = 30000, .shorten_calls = 500000, .modes = (1u << PLEAT_MODE_COUNT) - 1};
    if (!parse(argc, argv, &job)) {
        fprintf(stderr,
                "usage: %s [--seed N] [--calls N] [--mode classic|torch_expandable|pleated|all] "
                "[--shorten N]\n",
                argv[0]);
        return 1;
    }
    report = mmap(NULL, sizeof(*report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    FIXTURE_REQUIRE(report != MAP_FAILED, "mmap");
    printf("seed %" PRIu64 ", %" PRIu64 " calls\n", job.seed, job.calls);
    if (!child_succeeds(work_on_job, &job)) {
        tell_failure(&job);
        return 1;
    }
    printf("%" PRIu64 " calls in %" PRIu64 " programs: all bytes right; %" PRIu64
           " MiB stitched, %" PRIu64 " cross-stream takes, %" PRIu64
           " waits on the device, %" PRIu64 " ooms, %" PRIu64 " faults\n",
           report->calls, report->programs, report->stitched_bytes / PLEAT_MIB,
           report->cross_stream_takes, report->event_waits, report->ooms, report->faults);
    return 0;
}
