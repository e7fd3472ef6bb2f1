/*
 * replay: a program performed on a fresh simulated device, and what it cost. The device's logical
 * clock follows the trace's time stamps and is charged for every device call on top.
 *
 * A replay may be run in several passes over the same allocator. What a pass leaves live is freed
 * when the next one begins, so after the last pass the allocator stands where the trace ends, and
 * its reports can be read. An allocation that fails is counted in num_ooms, its later free is
 * skipped, and the replay goes on.
 * Locks: none; a replay belongs to one thread at a time.
 */
#ifndef PLEAT_EXPERIMENTS_REPLAY_H
#define PLEAT_EXPERIMENTS_REPLAY_H

#include "curve.h"
#include "metrics.h"
#include "program.h"

#include <pleat/sim.h>

typedef struct pleat_replay pleat_replay_t;

/* Called now and then with the calls done and all calls; for a progress bar. */
typedef void (*pleat_progress_fn_t)(void *context, uint64_t done, uint64_t all);

/* Looks at a replay while it runs; what it has set up on the allocator or the device it takes down
 * before the replay is destroyed. Every function may be NULL. */
typedef struct pleat_replay_watcher {
    void *context;
    /* Before the first call; a failure fails the run. */
    pleat_status_t (*begin)(void *context, pleat_replay_t *replay);
    /* Before and after a call at @p time_us of the trace, going on over passes. */
    void (*before)(void *context, const pleat_program_call_t *call, uint64_t time_us);
    /* False ends the run here, as if the trace did. */
    bool (*after)(void *context, const pleat_program_call_t *call, uint64_t time_us);
} pleat_replay_watcher_t;

typedef struct pleat_replay_options {
    pleat_mode_t mode;                     /* that of the allocator's options is not looked at */
    pleat_options_t allocator;             /* the limit among them */
    uint64_t device_bytes;                 /* 0: PLEAT_SIM_DEFAULT_CAPACITY_BYTES */
    const pleat_cost_table_t *costs;       /* NULL: the built-in table */
    uint32_t passes;                       /* 0: one */
    pleat_curve_t *curve;                  /* NULL: none; takes a sample a call */
    const pleat_replay_watcher_t *watcher; /* NULL: none; must outlive the run */
    pleat_progress_fn_t progress;          /* may be NULL */
    void *progress_context;
} pleat_replay_options_t;
#define PLEAT_REPLAY_OPTIONS_INIT                                   \
    {                                                               \
        .mode = PLEAT_MODE_CLASSIC, .allocator = PLEAT_OPTIONS_INIT \
    }

/**
 * Make the device and the allocator of a replay; @p program must outlive it.
 *
 * @param[out] replay_out  destroyed by pleat_replay_destroy; untouched on failure.
 * @retval PLEAT_ERR_INVALID   an option out of range, or an unknown mode.
 * @retval PLEAT_ERR_OOM_HOST  no host memory.
 */
PLEAT_NODISCARD pleat_status_t pleat_replay_create(const pleat_program_t *program,
                                                   const pleat_replay_options_t *options,
                                                   pleat_replay_t **replay_out);

/** Destroy a replay with its allocator and device; NULL is ignored. */
void pleat_replay_destroy(pleat_replay_t *replay);

/**
 * Perform all passes; once for a replay.
 *
 * @param[out] metrics_out  without the texts trace and conf; untouched on failure.
 * @retval PLEAT_ERR_INVALID   it has run before.
 * @retval PLEAT_ERR_OOM_HOST  no host memory.
 * @retval PLEAT_ERR_DRIVER    the device failed otherwise than by being full.
 * @par Cost a few hundred nanoseconds an event.
 */
PLEAT_NODISCARD pleat_status_t pleat_replay_run(pleat_replay_t *replay,
                                                pleat_metrics_t *metrics_out);

/** The allocator and the device of a replay, for reports; they stay the replay's. */
pleat_allocator_t *pleat_replay_allocator(const pleat_replay_t *replay);
pleat_vmm_t *pleat_replay_device(const pleat_replay_t *replay);

/** Create, run, destroy. Arguments and errors as the calls above. */
PLEAT_NODISCARD pleat_status_t pleat_replay_program(const pleat_program_t *program,
                                                    const pleat_replay_options_t *options,
                                                    pleat_metrics_t *metrics_out);

/** Mode of a name; false, and @p mode_out untouched, when there is none. */
bool pleat_mode_from_name(const char *name, pleat_mode_t *mode_out);

#endif
