/*
 * fault_walk: short fixed programs, each run again and again with one more call of the device
 * failing: the first, the second, and so on to the last. A call of the allocator that fails must
 * have changed nothing but what is documented, must work when it is repeated, and nothing may be
 * left on the device at the end; all with real memory and late kernels (delayed_device.h). The
 * calls of the destruction fail, too.
 *
 * Usage: fault_walk [NAME]: all programs, or the one. Returns 0 when all is well, 1 otherwise.
 */
#include "delayed_device.h"

#include <pleat/private_pool.h>
#include <pleat/sim.h>

#include "fixture.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MIB(count) ((uint64_t)(count)*PLEAT_MIB)
#define CAPACITY_BYTES MIB(256)

enum { STEPS_MAX = 24, IDS_MAX = 16 };

typedef enum step_kind {
    STEP_END,
    STEP_ALLOC,  /* id, bytes, stream */
    STEP_SINGLE, /* the same in one chunk */
    STEP_FREE,   /* id */
    STEP_RECORD, /* id, stream */
    STEP_EMPTY,
    STEP_BUSY,    /* stream */
    STEP_ADVANCE, /* bytes: milliseconds */
    STEP_MODE,    /* bytes: the mode */
    STEP_BEGIN,   /* all requests go to a private pool */
    STEP_FINISH,  /* no longer */
    STEP_RELEASE  /* a use of it less */
} step_kind_t;

typedef struct step {
    step_kind_t kind;
    uint32_t id;
    uint64_t bytes;
    pleat_stream_t stream;
} step_t;

/* What a program must have done in its run without a fault. */
typedef enum walk_mark { MARK_NONE, MARK_STITCH, MARK_CROSS, MARK_RETRY, MARK_RELEASE } walk_mark_t;

typedef struct walk {
    const char *name;
    pleat_mode_t mode;
    uint64_t limit_bytes; /* 0: none */
    uint64_t view_mappings;
    uint64_t idle_ms;
    walk_mark_t mark;
    step_t steps[STEPS_MAX];
} walk_t;

/* A private pool that grows, shrinks and is used again; a free that is put off; then all of it goes
 * back, by an out of memory or on demand. */
#define POOL_STEPS                                                                          \
    {                                                                                       \
        {STEP_ALLOC, 0, MIB(30), 0}, {STEP_ALLOC, 1, 700, 0}, {STEP_RECORD, 0, 0, 1},       \
            {STEP_BEGIN, 0, 0, 0}, {STEP_FREE, 0, 0, 0}, {STEP_ALLOC, 2, MIB(30), 0},       \
            {STEP_ALLOC, 3, MIB(50), 0}, {STEP_ALLOC, 4, 5000, 0}, {STEP_FREE, 2, 0, 0},    \
            {STEP_ALLOC, 5, MIB(60), 0}, {STEP_FREE, 3, 0, 0}, {STEP_ALLOC, 6, MIB(20), 0}, \
            {STEP_FINISH, 0, 0, 0}, {STEP_ALLOC, 7, MIB(40), 1}, {STEP_FREE, 5, 0, 0},      \
            {STEP_FREE, 6, 0, 0}, {STEP_RELEASE, 0, 0, 0}, {STEP_FREE, 4, 0, 0},            \
            {STEP_ALLOC, 8, MIB(140), 0}, {STEP_EMPTY, 0, 0, 0}, {STEP_FREE, 8, 0, 0},      \
        {                                                                                   \
            STEP_EMPTY, 0, 0, 0                                                             \
        }                                                                                   \
    }

/* Chunks of 16 MiB; no memory is held beyond the peak. */
static const walk_t walks[] = {
    {"growth",
     PLEAT_MODE_PLEATED,
     0,
     100,
     0,
     MARK_NONE,
     {{STEP_ALLOC, 0, MIB(40), 0},
      {STEP_ALLOC, 1, MIB(70), 0},
      {STEP_ALLOC, 2, 1000, 0},
      {STEP_ALLOC, 3, MIB(24), 1},
      {STEP_SINGLE, 4, MIB(30), 2},
      {STEP_FREE, 1, 0, 0},
      {STEP_ALLOC, 5, MIB(75), 0}}},
    {"stitch",
     PLEAT_MODE_PLEATED,
     0,
     100,
     0,
     MARK_STITCH,
     {{STEP_ALLOC, 0, MIB(16), 0},
      {STEP_ALLOC, 1, MIB(16), 0},
      {STEP_ALLOC, 2, MIB(16), 0},
      {STEP_ALLOC, 3, MIB(16), 0},
      {STEP_FREE, 0, 0, 0},
      {STEP_FREE, 2, 0, 0},
      {STEP_ALLOC, 4, MIB(32), 0},
      {STEP_FREE, 4, 0, 0},
      {STEP_ALLOC, 5, MIB(20), 0},
      {STEP_ALLOC, 6, MIB(10), 0},
      {STEP_FREE, 5, 0, 0},
      {STEP_ALLOC, 7, MIB(21), 0}}},
    {"stitch_beyond_the_peak",
     PLEAT_MODE_PLEATED,
     0,
     100,
     0,
     MARK_STITCH,
     {{STEP_ALLOC, 0, MIB(16), 0},
      {STEP_ALLOC, 1, MIB(16), 0},
      {STEP_ALLOC, 2, MIB(16), 0},
      {STEP_ALLOC, 3, MIB(16), 0},
      {STEP_FREE, 0, 0, 0},
      {STEP_FREE, 2, 0, 0},
      {STEP_ALLOC, 4, MIB(60), 0},
      {STEP_FREE, 4, 0, 0}}},
    {"stitch_across_streams",
     PLEAT_MODE_PLEATED,
     MIB(96),
     100,
     0,
     MARK_STITCH,
     {{STEP_ALLOC, 0, MIB(32), 0},
      {STEP_ALLOC, 1, MIB(32), 1},
      {STEP_ALLOC, 2, MIB(32), 2},
      {STEP_FREE, 0, 0, 0},
      {STEP_FREE, 1, 0, 0},
      {STEP_ALLOC, 3, MIB(60), 2},
      {STEP_FREE, 3, 0, 0},
      {STEP_ALLOC, 4, MIB(20), 0},
      {STEP_ALLOC, 5, MIB(20), 1}}},
    {"cross_stream",
     PLEAT_MODE_PLEATED,
     MIB(64),
     100,
     0,
     MARK_CROSS,
     {{STEP_ALLOC, 0, MIB(64), 0},
      {STEP_FREE, 0, 0, 0},
      {STEP_ALLOC, 1, MIB(30), 1},
      {STEP_ALLOC, 2, MIB(30), 2},
      {STEP_FREE, 1, 0, 0},
      {STEP_FREE, 2, 0, 0},
      {STEP_ALLOC, 3, MIB(62), 0},
      {STEP_FREE, 3, 0, 0},
      {STEP_ALLOC, 4, 3000, 3},
      {STEP_FREE, 4, 0, 0},
      {STEP_ALLOC, 5, MIB(64), 0}}},
    {"tail_unmap",
     PLEAT_MODE_PLEATED,
     0,
     100,
     0,
     MARK_RELEASE,
     {{STEP_ALLOC, 0, MIB(16), 0},
      {STEP_ALLOC, 1, MIB(40), 0},
      {STEP_ALLOC, 2, MIB(16), 1},
      {STEP_FREE, 1, 0, 0},
      {STEP_EMPTY, 0, 0, 0},
      {STEP_ALLOC, 3, MIB(40), 0},
      {STEP_FREE, 2, 0, 0},
      {STEP_FREE, 3, 0, 0},
      {STEP_FREE, 0, 0, 0},
      {STEP_EMPTY, 0, 0, 0},
      {STEP_ALLOC, 4, MIB(16), 1}}},
    {"views_unmapped",
     PLEAT_MODE_PLEATED,
     0,
     100,
     0,
     MARK_RELEASE,
     {{STEP_ALLOC, 0, MIB(16), 0},
      {STEP_ALLOC, 1, MIB(16), 0},
      {STEP_ALLOC, 2, MIB(16), 0},
      {STEP_ALLOC, 3, MIB(16), 0},
      {STEP_FREE, 0, 0, 0},
      {STEP_FREE, 2, 0, 0},
      {STEP_ALLOC, 4, MIB(32), 0},
      {STEP_FREE, 4, 0, 0},
      {STEP_EMPTY, 0, 0, 0},
      {STEP_ALLOC, 5, MIB(32), 0}}},
    {"eviction",
     PLEAT_MODE_PLEATED,
     0,
     2,
     0,
     MARK_STITCH,
     {{STEP_ALLOC, 0, MIB(16), 0},
      {STEP_ALLOC, 1, MIB(16), 0},
      {STEP_ALLOC, 2, MIB(16), 0},
      {STEP_ALLOC, 3, MIB(16), 0},
      {STEP_ALLOC, 4, MIB(16), 0},
      {STEP_ALLOC, 5, MIB(16), 0},
      {STEP_FREE, 0, 0, 0},
      {STEP_FREE, 2, 0, 0},
      {STEP_ALLOC, 6, MIB(32), 0},
      {STEP_FREE, 6, 0, 0},
      {STEP_ALLOC, 7, MIB(16), 0},
      {STEP_FREE, 4, 0, 0},
      {STEP_ALLOC, 8, MIB(32), 0}}},
    {"idle",
     PLEAT_MODE_PLEATED,
     0,
     100,
     1,
     MARK_RELEASE,
     {{STEP_ALLOC, 0, MIB(48), 0},
      {STEP_ALLOC, 1, MIB(16), 0},
      {STEP_FREE, 0, 0, 0},
      {STEP_ADVANCE, 0, 5, 0},
      {STEP_ALLOC, 2, MIB(80), 1},
      {STEP_ALLOC, 3, MIB(16), 0}}},
    {"retry",
     PLEAT_MODE_PLEATED,
     MIB(64),
     100,
     0,
     MARK_RETRY,
     {{STEP_ALLOC, 0, MIB(32), 0},
      {STEP_ALLOC, 1, MIB(16), 0},
      {STEP_ALLOC, 2, MIB(16), 0},
      {STEP_RECORD, 0, 0, 1},
      {STEP_RECORD, 2, 0, 2},
      {STEP_BUSY, 0, 0, 1},
      {STEP_FREE, 0, 0, 0},
      {STEP_FREE, 2, 0, 0},
      {STEP_ALLOC, 3, MIB(32), 0},
      {STEP_ALLOC, 4, MIB(16), 3}}},
    {"trade",
     PLEAT_MODE_PLEATED,
     MIB(64),
     0,
     0,
     MARK_RETRY,
     {{STEP_ALLOC, 0, MIB(16), 0},
      {STEP_ALLOC, 1, MIB(16), 0},
      {STEP_ALLOC, 2, MIB(16), 0},
      {STEP_ALLOC, 3, MIB(16), 0},
      {STEP_FREE, 0, 0, 0},
      {STEP_FREE, 2, 0, 0},
      {STEP_ALLOC, 4, MIB(32), 0}}},
    {"modes",
     PLEAT_MODE_PLEATED,
     MIB(96),
     100,
     0,
     MARK_RETRY,
     {{STEP_ALLOC, 0, MIB(32), 0},
      {STEP_ALLOC, 1, 5000, 0},
      {STEP_MODE, 0, PLEAT_MODE_CLASSIC, 0},
      {STEP_ALLOC, 2, MIB(30), 0},
      {STEP_FREE, 0, 0, 0},
      {STEP_FREE, 1, 0, 0},
      {STEP_MODE, 0, PLEAT_MODE_TORCH_EXPANDABLE, 0},
      {STEP_ALLOC, 3, MIB(40), 0},
      {STEP_FREE, 2, 0, 0},
      {STEP_FREE, 3, 0, 0},
      {STEP_MODE, 0, PLEAT_MODE_PLEATED, 0},
      {STEP_ALLOC, 4, MIB(90), 0}}},
    {"torch_growth",
     PLEAT_MODE_TORCH_EXPANDABLE,
     0,
     100,
     0,
     MARK_NONE,
     {{STEP_ALLOC, 0, MIB(30), 0},
      {STEP_ALLOC, 1, MIB(50), 0},
      {STEP_ALLOC, 2, 1000, 0},
      {STEP_ALLOC, 3, MIB(8), 1},
      {STEP_FREE, 1, 0, 0},
      {STEP_ALLOC, 4, MIB(70), 0}}},
    {"torch_unmap",
     PLEAT_MODE_TORCH_EXPANDABLE,
     0,
     100,
     0,
     MARK_RELEASE,
     {{STEP_ALLOC, 0, MIB(30), 0},
      {STEP_ALLOC, 1, MIB(70), 0},
      {STEP_ALLOC, 2, MIB(30), 0},
      {STEP_ALLOC, 3, 700, 0},
      {STEP_FREE, 1, 0, 0},
      {STEP_EMPTY, 0, 0, 0},
      {STEP_ALLOC, 4, MIB(65), 0},
      {STEP_FREE, 0, 0, 0},
      {STEP_FREE, 2, 0, 0},
      {STEP_FREE, 3, 0, 0},
      {STEP_FREE, 4, 0, 0},
      {STEP_EMPTY, 0, 0, 0},
      {STEP_ALLOC, 5, MIB(20), 0}}},
    {"torch_retry",
     PLEAT_MODE_TORCH_EXPANDABLE,
     MIB(100),
     100,
     0,
     MARK_RETRY,
     {{STEP_ALLOC, 0, MIB(40), 0},
      {STEP_ALLOC, 1, MIB(40), 1},
      {STEP_RECORD, 0, 0, 1},
      {STEP_BUSY, 0, 0, 1},
      {STEP_FREE, 0, 0, 0},
      {STEP_FREE, 1, 0, 0},
      {STEP_ALLOC, 2, MIB(60), 2},
      {STEP_ALLOC, 3, MIB(20), 0}}},
    {"pool_classic", PLEAT_MODE_CLASSIC, 0, 100, 0, MARK_RETRY, POOL_STEPS},
    {"pool_torch", PLEAT_MODE_TORCH_EXPANDABLE, 0, 100, 0, MARK_RETRY, POOL_STEPS},
    {"pool_pleated", PLEAT_MODE_PLEATED, 0, 100, 0, MARK_RETRY, POOL_STEPS},
};

static const pleat_pool_id_t pool_id = {0, 1};

typedef struct run {
    const walk_t *walk;
    delayed_device_t *device;
    pleat_allocator_t *allocator;
    pleat_devptr_t addresses[IDS_MAX];
    pleat_options_t options;
    char wrong[512];
} run_t;

static void differ(run_t *run, const char *format, ...) PLEAT_PRINTF(2, 3);
static void differ(run_t *run, const char *format, ...)
{
    if (run->wrong[0] == '\0') {
        va_list arguments;
        va_start(arguments, format);
        (void)vsnprintf(run->wrong, sizeof(run->wrong), format, arguments);
        va_end(arguments);
    }
}

/* ---- state ---- */

typedef struct state {
    pleat_stats_t stats;
    pleat_sim_usage_t usage;
    uint64_t lost_bytes;
    uint64_t lost_ranges;
} state_t;

static state_t run_state(const run_t *run)
{
    state_t state = {.stats = PLEAT_STATS_INIT, .usage = PLEAT_SIM_USAGE_INIT};
    pleat_read_stats(run->allocator, &state.stats);
    FIXTURE_REQUIRE(pleat_sim_read_usage(delayed_device_sim(run->device), &state.usage) == PLEAT_OK,
                    "usage");
    state.lost_bytes = delayed_device_lost_bytes(run->device);
    state.lost_ranges = delayed_device_lost_ranges(run->device);
    return state;
}

static uint64_t run_calls(const run_t *run)
{
    pleat_vmm_counters_t counters = PLEAT_VMM_COUNTERS_INIT;
    pleat_vmm_read_counters(delayed_device_vmm(run->device), &counters);
    uint64_t calls = 0;
    for (unsigned call = 0; call < PLEAT_VMM_CALL_COUNT; call++) {
        calls += counters.calls[call];
    }
    return calls;
}

static void check_all(run_t *run)
{
    const char *complaint = delayed_device_complaint(run->device);
    if (complaint[0] != '\0') {
        differ(run, "%s", complaint);
    } else if (pleat_allocator_check(run->allocator) != PLEAT_OK) {
        differ(run, "%s", pleat_last_error());
    }
    const state_t state = run_state(run);
    if ((uint64_t)state.stats.reserved_bytes[PLEAT_STAT_ALL].current + state.lost_bytes !=
        state.usage.chunk_bytes + state.usage.allocated_bytes) {
        differ(run, "reserved_bytes is %" PRId64 ", but the device holds %" PRIu64,
               state.stats.reserved_bytes[PLEAT_STAT_ALL].current,
               state.usage.chunk_bytes + state.usage.allocated_bytes);
    }
}

static void check_same(run_t *run, const char *name, int64_t before, int64_t after)
{
    if (before != after) {
        differ(run, "%s was %" PRId64 " and is %" PRId64 " after a call that failed", name, before,
               after);
    }
}

/*
 * What a failed call may leave changed. What is live is as before. Memory may have gone back: when
 * it was a retry or a request to give it back, when views were evicted for new ones, or when it lay
 * idle. Frees that waited may be complete. torch_expandable keeps the pages of its first steps, as
 * PyTorch does.
 */
static void check_failed(run_t *run, const step_t *step, const state_t *before)
{
    const state_t after = run_state(run);
    const pleat_stats_t *old = &before->stats;
    const pleat_stats_t *now = &after.stats;
    check_same(run, "allocation", old->allocation[0].current, now->allocation[0].current);
    check_same(run, "allocated_bytes", old->allocated_bytes[0].current,
               now->allocated_bytes[0].current);
    const bool may_give = step->kind == STEP_EMPTY || run->walk->idle_ms > 0 ||
                          now->num_alloc_retries > old->num_alloc_retries ||
                          now->num_sync_all_streams > old->num_sync_all_streams;
    const bool has_waited = old->active_bytes[0].current > old->allocated_bytes[0].current;
    if (!may_give && !has_waited) {
        check_same(run, "active_bytes", old->active_bytes[0].current, now->active_bytes[0].current);
        check_same(run, "requested_bytes", old->requested_bytes[0].current,
                   now->requested_bytes[0].current);
    }
    const int64_t reserved = now->reserved_bytes[0].current - old->reserved_bytes[0].current;
    if (reserved > 0 ? run->options.mode != PLEAT_MODE_TORCH_EXPANDABLE
                     : reserved < 0 && !may_give) {
        differ(run, "reserved_bytes changed by %" PRId64 " in a call that failed", reserved);
    }
    if (reserved == 0 && !may_give && !has_waited && run->options.mode == PLEAT_MODE_PLEATED) {
        check_same(run, "inactive_split_bytes", old->inactive_split_bytes[0].current,
                   now->inactive_split_bytes[0].current);
        check_same(run, "chunks", (int64_t)before->usage.chunks, (int64_t)after.usage.chunks);
        check_same(run, "ranges beside lost ones", (int64_t)(before->usage.ranges),
                   (int64_t)(after.usage.ranges - (after.lost_ranges - before->lost_ranges) +
                             (uint64_t)(old->view_count - now->view_count)));
        check_same(run, "mappings beside those of views",
                   (int64_t)before->usage.mappings - old->view_mappings,
                   (int64_t)after.usage.mappings - now->view_mappings);
        if (now->view_count > old->view_count) {
            differ(run, "a call that failed left a view");
        }
    }
}

/* ---- steps ---- */

static void run_kernel(run_t *run, uint32_t id, uint64_t bytes, pleat_stream_t stream,
                       bool is_check)
{
    const delayed_kernel_t kernel = {
        .address = run->addresses[id], .bytes = bytes, .id = id, .is_check = is_check};
    delayed_device_launch(run->device, stream, &kernel, 1000);
}

static const step_t *run_request(const run_t *run, uint32_t id)
{
    const step_t *step = run->walk->steps;
    while (step->id != id || (step->kind != STEP_ALLOC && step->kind != STEP_SINGLE)) {
        step++;
    }
    return step;
}

static pleat_status_t run_alloc(run_t *run, const step_t *step)
{
    pleat_devptr_t ptr = 0;
    const pleat_status_t status =
        step->kind == STEP_ALLOC
            ? pleat_alloc(run->allocator, step->bytes, step->stream, &ptr)
            : pleat_alloc_single(run->allocator, step->bytes, step->stream, &ptr);
    if (status == PLEAT_OK) {
        run->addresses[step->id] = ptr;
        (void)physical_map_begin(delayed_device_memory(run->device), step->id, ptr, step->bytes);
        run_kernel(run, step->id, step->bytes, step->stream, false);
    }
    return status;
}

static pleat_status_t run_free(run_t *run, const step_t *step)
{
    const step_t *request = run_request(run, step->id);
    run_kernel(run, step->id, request->bytes, request->stream, true);
    const pleat_status_t status = pleat_free(run->allocator, run->addresses[step->id]);
    if (status == PLEAT_OK) {
        physical_map_end(delayed_device_memory(run->device), step->id);
        run->addresses[step->id] = 0;
    }
    return status;
}

static pleat_status_t run_step(run_t *run, const step_t *step)
{
    pleat_vmm_t *sim = delayed_device_sim(run->device);
    switch (step->kind) {
    case STEP_ALLOC:
    case STEP_SINGLE:
        return run_alloc(run, step);
    case STEP_FREE:
        return run_free(run, step);
    case STEP_RECORD: {
        const pleat_status_t status =
            pleat_record_stream(run->allocator, run->addresses[step->id], step->stream);
        if (status == PLEAT_OK) {
            const step_t *request = run_request(run, step->id);
            delayed_device_join(run->device, step->stream, request->stream);
            run_kernel(run, step->id, request->bytes, step->stream, true);
        }
        return status;
    }
    case STEP_EMPTY:
        return pleat_empty_cache(run->allocator);
    case STEP_BUSY:
        return pleat_sim_set_busy(sim, step->stream);
    case STEP_ADVANCE:
        return pleat_sim_advance_to(sim, pleat_vmm_clock_ns(sim) + step->bytes * 1000000);
    case STEP_MODE:
        run->options.mode = (pleat_mode_t)step->bytes;
        return pleat_set_options(run->allocator, &run->options);
    case STEP_BEGIN:
        return pleat_pool_begin(run->allocator, pool_id, NULL, NULL);
    case STEP_FINISH:
        return pleat_pool_end(run->allocator, pool_id);
    case STEP_RELEASE:
        return pleat_pool_release(run->allocator, pool_id);
    case STEP_END:
        break;
    }
    return PLEAT_OK;
}

/* ---- walks ---- */

static void run_begin(run_t *run, const walk_t *walk)
{
    *run = (run_t){.walk = walk, .options = PLEAT_OPTIONS_INIT};
    run->options.mode = walk->mode;
    run->options.limit_bytes = walk->limit_bytes == 0 ? PLEAT_NO_LIMIT : walk->limit_bytes;
    run->options.pleated_slack = 0.0;
    run->options.pleated_handle_fraction = 0.0;
    run->options.pleated_handle_min_bytes = MIB(16);
    run->options.pleated_handle_max_bytes = MIB(16);
    run->options.pleated_view_mappings = walk->view_mappings;
    run->options.pleated_idle_ms = walk->idle_ms;
    run->device = delayed_device_create(CAPACITY_BYTES);
    FIXTURE_REQUIRE(pleat_allocator_create(&run->options, delayed_device_vmm(run->device),
                                           &run->allocator) == PLEAT_OK,
                    "allocator: %s", pleat_last_error());
}

static void check_end(run_t *run)
{
    pleat_sim_usage_t usage = PLEAT_SIM_USAGE_INIT;
    FIXTURE_REQUIRE(pleat_sim_read_usage(delayed_device_sim(run->device), &usage) == PLEAT_OK,
                    "usage");
    if (usage.allocations != 0 || usage.mappings != 0 || usage.events != DELAYED_DEVICE_EVENTS ||
        usage.chunk_bytes != delayed_device_lost_bytes(run->device) ||
        usage.ranges != delayed_device_lost_ranges(run->device)) {
        differ(run,
               "left on the device: %" PRIu64 " allocations, %" PRIu64 " mappings, %" PRIu64
               " events, %" PRIu64 " bytes of chunks, %" PRIu64 " ranges",
               usage.allocations, usage.mappings, usage.events - DELAYED_DEVICE_EVENTS,
               usage.chunk_bytes, usage.ranges);
    }
}

/* A fault that strikes during destruction leaves what it struck, and the rest goes on. */
static uint64_t run_end(run_t *run)
{
    for (uint32_t id = 0; id < IDS_MAX; id++) {
        if (run->addresses[id] != 0) {
            const step_t *request = run_request(run, id);
            run_kernel(run, id, request->bytes, request->stream, true);
        }
    }
    delayed_device_finish(run->device);
    check_all(run);
    for (uint32_t id = 0; id < IDS_MAX; id++) {
        physical_map_end(delayed_device_memory(run->device), id);
    }
    const uint64_t failures = delayed_device_failures(run->device);
    pleat_allocator_destroy(run->allocator);
    if (delayed_device_failures(run->device) == failures) {
        check_end(run);
    }
    const uint64_t calls = run_calls(run);
    delayed_device_destroy(run->device);
    return calls;
}

static bool has_mark(const walk_t *walk, const pleat_stats_t *stats)
{
    switch (walk->mark) {
    case MARK_STITCH:
        return stats->stitched_bytes > 0;
    case MARK_CROSS:
        return stats->cross_stream_takes > 0;
    case MARK_RETRY:
        return stats->num_alloc_retries > 0;
    case MARK_RELEASE:
        return stats->num_device_free > 0;
    case MARK_NONE:
        break;
    }
    return true;
}

/* The calls of the device in a run without a fault, destruction included. */
static uint64_t walk_count(run_t *run, const walk_t *walk)
{
    run_begin(run, walk);
    for (const step_t *step = walk->steps; step->kind != STEP_END; step++) {
        const pleat_status_t status = run_step(run, step);
        if (status != PLEAT_OK) {
            differ(run, "step %td fails without a fault: %s", step - walk->steps,
                   pleat_last_error());
            break;
        }
        check_all(run);
    }
    const state_t state = run_state(run);
    if (!has_mark(walk, &state.stats)) {
        differ(run, "it does not do what it is meant to do");
    }
    return run_end(run);
}

/* The same with the @p nth call failing. */
static void walk_fail(run_t *run, const walk_t *walk, uint64_t nth, pleat_status_t fault)
{
    run_begin(run, walk);
    delayed_device_fail_call(run->device, PLEAT_VMM_CALL_COUNT, nth, fault);
    for (const step_t *step = walk->steps; step->kind != STEP_END && run->wrong[0] == '\0';
         step++) {
        const state_t before = run_state(run);
        const uint64_t failures = delayed_device_failures(run->device);
        pleat_status_t status = run_step(run, step);
        check_all(run);
        if (status != PLEAT_OK) {
            if (delayed_device_failures(run->device) == failures) {
                differ(run, "step %td fails later: %s", step - walk->steps, pleat_last_error());
            }
            check_failed(run, step, &before);
            status = run_step(run, step);
            check_all(run);
        }
        if (status != PLEAT_OK) {
            differ(run, "step %td fails when repeated: %s", step - walk->steps, pleat_last_error());
        }
    }
    (void)run_end(run);
}

/* All faults of one program; how many runs, 0 when something is wrong. */
static uint64_t walk_all(const walk_t *walk)
{
    static const pleat_status_t faults[] = {PLEAT_ERR_DRIVER, PLEAT_ERR_OOM_DEVICE};
    static run_t run;
    const uint64_t calls = walk_count(&run, walk);
    if (run.wrong[0] != '\0') {
        printf("%s: %s\n", walk->name, run.wrong);
        return 0;
    }
    bool is_good = true;
    for (size_t k = 0; k < sizeof(faults) / sizeof(faults[0]); k++) {
        for (uint64_t nth = 1; nth <= calls; nth++) {
            walk_fail(&run, walk, nth, faults[k]);
            if (run.wrong[0] != '\0') {
                printf("%s, call %" PRIu64 " fails with '%s': %s\n", walk->name, nth,
                       pleat_status_text(faults[k]), run.wrong);
                is_good = false;
            }
        }
    }
    return is_good ? 2 * calls : 0;
}

int main(int argc, char **argv)
{
    bool is_good = true;
    uint64_t runs = 0;
    for (size_t i = 0; i < sizeof(walks) / sizeof(walks[0]); i++) {
        if (argc < 2 || strcmp(argv[1], walks[i].name) == 0) {
            const uint64_t count = walk_all(&walks[i]);
            printf("%-24s %4" PRIu64 " faults\n", walks[i].name, count);
            is_good = is_good && count > 0;
            runs += count;
        }
    }
    if (runs == 0) {
        printf("no program%s%s\n", argc < 2 ? "" : " ", argc < 2 ? "" : argv[1]);
    }
    return is_good && runs > 0 ? 0 : 1;
}
