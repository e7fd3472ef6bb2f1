/*
 * replay: see replay.h.
 */
#include "replay.h"

#include "../../core/allocator.h"
#include "../../vmm/base.h"
#include "player.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PLEAT_REPLAY_NS_PER_US UINT64_C(1000)
#define PLEAT_REPLAY_PROGRESS_CALLS ((size_t)1 << 16)

struct pleat_replay {
    const pleat_program_t *program;
    pleat_replay_options_t options;
    pleat_vmm_t *vmm;
    pleat_allocator_t *allocator;
    pleat_player_t player;
    pleat_meter_t meter;
    bool has_run;
    bool is_ended; /* by the watcher */
};

bool pleat_mode_from_name(const char *name, pleat_mode_t *mode_out)
{
    for (unsigned mode = 0; mode < PLEAT_MODE_COUNT; mode++) {
        if (strcmp(name, pleat_mode_name((pleat_mode_t)mode)) == 0) {
            *mode_out = (pleat_mode_t)mode;
            return true;
        }
    }
    return false;
}

pleat_status_t pleat_replay_create(const pleat_program_t *program,
                                   const pleat_replay_options_t *options,
                                   pleat_replay_t **replay_out)
{
    if ((unsigned)options->mode >= PLEAT_MODE_COUNT) {
        pleat_error_set("replay mode %u; there are %u", (unsigned)options->mode,
                        (unsigned)PLEAT_MODE_COUNT);
        return PLEAT_ERR_INVALID;
    }
    pleat_replay_t *replay = calloc(1, sizeof(*replay));
    if (replay == NULL) {
        pleat_error_set("no host memory for a replay");
        return PLEAT_ERR_OOM_HOST;
    }
    replay->program = program;
    replay->options = *options;
    const pleat_sim_options_t sim = {.size = sizeof(pleat_sim_options_t),
                                     .capacity_bytes = options->device_bytes,
                                     .costs = options->costs};
    pleat_status_t status = pleat_sim_create(&sim, &replay->vmm);
    if (status == PLEAT_OK) {
        replay->options.allocator.mode = options->mode;
        status =
            pleat_allocator_create(&replay->options.allocator, replay->vmm, &replay->allocator);
    }
    if (status == PLEAT_OK) {
        status = pleat_player_init(&replay->player, program, replay->vmm, replay->allocator);
    }
    if (status != PLEAT_OK) {
        pleat_replay_destroy(replay);
        return status;
    }
    pleat_meter_init(&replay->meter, pleat_allocator_stats(replay->allocator), replay->vmm, 0);
    *replay_out = replay;
    return PLEAT_OK;
}

void pleat_replay_destroy(pleat_replay_t *replay)
{
    if (replay == NULL) {
        return;
    }
    pleat_player_fini(&replay->player);
    pleat_allocator_destroy(replay->allocator);
    pleat_vmm_destroy(replay->vmm);
    free(replay);
}

pleat_allocator_t *pleat_replay_allocator(const pleat_replay_t *replay)
{
    return replay->allocator;
}

pleat_vmm_t *pleat_replay_device(const pleat_replay_t *replay)
{
    return replay->vmm;
}

static void replay_sample(pleat_replay_t *replay)
{
    const pleat_stats_t *stats = replay->meter.stats;
    const pleat_curve_sample_t sample = {
        .time_us = replay->meter.now_us,
        .bytes = {[PLEAT_CURVE_RESERVED] = stats->reserved_bytes[PLEAT_STAT_ALL].current,
                  [PLEAT_CURVE_ALLOCATED] = stats->allocated_bytes[PLEAT_STAT_ALL].current,
                  [PLEAT_CURVE_ACTIVE] = stats->active_bytes[PLEAT_STAT_ALL].current,
                  [PLEAT_CURVE_INACTIVE_SPLIT] =
                      stats->inactive_split_bytes[PLEAT_STAT_ALL].current,
                  [PLEAT_CURVE_UNRETURNABLE] = stats->unreturnable_bytes}};
    pleat_curve_add(replay->options.curve, &sample);
}

/* Before and after a call; out of line, as most replays are not watched. */
static void __attribute__((noinline))
replay_watch_before(pleat_replay_t *replay, const pleat_program_call_t *call)
{
    const pleat_replay_watcher_t *watcher = replay->options.watcher;
    if (watcher->before != NULL) {
        watcher->before(watcher->context, call, replay->meter.now_us);
    }
}

static void __attribute__((noinline))
replay_watch_after(pleat_replay_t *replay, const pleat_program_call_t *call)
{
    const pleat_replay_watcher_t *watcher = replay->options.watcher;
    if (watcher->after != NULL) {
        replay->is_ended = !watcher->after(watcher->context, call, replay->meter.now_us);
    }
}

/* Calls [first, end) of one pass that began at @p base_us. */
static pleat_status_t replay_calls(pleat_replay_t *replay, size_t first, size_t end,
                                   uint64_t base_us)
{
    pleat_meter_t *meter = &replay->meter;
    const uint64_t first_us = replay->program->first_time_us;
    for (size_t i = first; i < end && !replay->is_ended; i++) {
        const pleat_program_call_t *call = &replay->program->calls[i];
        pleat_meter_advance(meter, base_us + (call->time_us - first_us));
        pleat_status_t status =
            pleat_sim_advance_to(replay->vmm, meter->now_us * PLEAT_REPLAY_NS_PER_US);
        if (status != PLEAT_OK) {
            return status;
        }
        const uint64_t before_ns = pleat_vmm_clock_ns(replay->vmm);
        if (replay->options.watcher != NULL) {
            replay_watch_before(replay, call);
        }
        status = pleat_player_perform(&replay->player, call);
        if (status != PLEAT_OK && status != PLEAT_ERR_OOM_DEVICE && status != PLEAT_ERR_TOO_LARGE) {
            return status;
        }
        pleat_meter_call(meter, pleat_vmm_clock_ns(replay->vmm) - before_ns);
        if (replay->options.curve != NULL) {
            replay_sample(replay);
        }
        if (replay->options.watcher != NULL) {
            replay_watch_after(replay, call);
        }
    }
    return PLEAT_OK;
}

/* As replay_calls, in parts, with word of the progress in between. */
static pleat_status_t replay_part(pleat_replay_t *replay, size_t first, size_t end, uint32_t pass,
                                  uint32_t passes)
{
    const pleat_program_t *program = replay->program;
    const uint64_t base_us = pass * program->duration_us;
    pleat_status_t status = PLEAT_OK;
    while (first < end && status == PLEAT_OK && !replay->is_ended) {
        const size_t left = end - first;
        const size_t count =
            left < PLEAT_REPLAY_PROGRESS_CALLS ? left : PLEAT_REPLAY_PROGRESS_CALLS;
        status = replay_calls(replay, first, first + count, base_us);
        first += count;
        if (replay->options.progress != NULL) {
            replay->options.progress(replay->options.progress_context,
                                     (uint64_t)pass * program->call_count + first,
                                     (uint64_t)passes * program->call_count);
        }
    }
    return status;
}

/* Index of the first call whose events begin at or behind @p event. */
static size_t replay_call_at(const pleat_program_t *program, uint64_t event)
{
    size_t first = 0;
    size_t count = program->call_count;
    while (count > 0) {
        const size_t half = count / 2;
        if (program->calls[first + half].first_event < event) {
            first += half + 1;
            count -= half + 1;
        } else {
            count = half;
        }
    }
    return first;
}

static pleat_status_t replay_pass(pleat_replay_t *replay, uint32_t pass, uint32_t passes)
{
    const pleat_program_t *program = replay->program;
    const uint64_t half_event = program->event_count * passes / 2;
    const uint64_t first_event = program->event_count * pass;
    size_t middle = program->call_count + 1; /* not in this pass */
    if (half_event >= first_event && half_event < first_event + program->event_count) {
        middle = replay_call_at(program, half_event - first_event);
    }
    pleat_status_t status = PLEAT_OK;
    pleat_meter_begin_pass(&replay->meter);
    if (pass > 0) {
        status = pleat_player_free_all(&replay->player);
    }
    if (status == PLEAT_OK && middle <= program->call_count) {
        status = replay_part(replay, 0, middle, pass, passes);
        pleat_meter_begin_second_half(&replay->meter);
    } else {
        middle = 0;
    }
    if (status == PLEAT_OK) {
        status = replay_part(replay, middle, program->call_count, pass, passes);
    }
    replay->meter.alloc_count +=
        program->counts[PLEAT_PROGRAM_ALLOC] + program->counts[PLEAT_PROGRAM_ALLOC_FAILS];
    replay->meter.free_count = replay->player.free_count;
    replay->meter.flush_count += program->counts[PLEAT_PROGRAM_EMPTY_CACHE];
    if (replay->is_ended) {
        return status;
    }
    /* What is held when the trace ends is held until its last time stamp. */
    pleat_meter_advance(&replay->meter, (pass + (uint64_t)1) * program->duration_us);
    return status;
}

static uint64_t replay_host_ns(void)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

pleat_status_t pleat_replay_run(pleat_replay_t *replay, pleat_metrics_t *metrics_out)
{
    if (replay->has_run) {
        pleat_error_set("this replay has run before; a second one needs a new device");
        return PLEAT_ERR_INVALID;
    }
    replay->has_run = true;
    const uint32_t passes = replay->options.passes > 0 ? replay->options.passes : 1;
    const pleat_replay_watcher_t *watcher = replay->options.watcher;
    pleat_status_t status = PLEAT_OK;
    if (watcher != NULL && watcher->begin != NULL) {
        status = watcher->begin(watcher->context, replay);
    }
    const uint64_t start_ns = replay_host_ns();
    for (uint32_t pass = 0; pass < passes && status == PLEAT_OK && !replay->is_ended; pass++) {
        status = replay_pass(replay, pass, passes);
    }
    if (status != PLEAT_OK) {
        return status;
    }
    replay->meter.host_ns = replay_host_ns() - start_ns;
    pleat_meter_read(&replay->meter, metrics_out);
    metrics_out->mode = pleat_mode_name(replay->options.mode);
    metrics_out->events = replay->program->event_count * passes;
    return PLEAT_OK;
}

pleat_status_t pleat_replay_program(const pleat_program_t *program,
                                    const pleat_replay_options_t *options,
                                    pleat_metrics_t *metrics_out)
{
    pleat_replay_t *replay = NULL;
    pleat_status_t status = pleat_replay_create(program, options, &replay);
    if (status == PLEAT_OK) {
        status = pleat_replay_run(replay, metrics_out);
    }
    pleat_replay_destroy(replay);
    return status;
}
