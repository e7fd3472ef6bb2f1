/*
 * replay_events: what happened in a replay over time, in bounded memory, and written as events of
 * Chrome's trace format (JSON), which Perfetto and chrome://tracing show:
 *   - a counter each for reserved, allocated, active, inactive_split and unreturnable bytes,
 *   - the calls of the simulated device as slices, with their cost by the table,
 *   - out-of-memory failures, and flushes of the cache before a device allocation is tried again,
 * as instants. A replay is a process. Counters and instants have the times of the trace; slices
 * have those of the simulated device's clock, which runs with the trace and is ahead of it by what
 * its calls cost.
 *
 * The format is described in "Trace Event Format", Chromium project.
 * Locks: none; belongs to one thread at a time.
 */
#ifndef PLEAT_EXPERIMENTS_REPLAY_EVENTS_H
#define PLEAT_EXPERIMENTS_REPLAY_EVENTS_H

#include "driver_log.h"
#include "output_file.h"
#include "replay.h"

/* An out-of-memory failure or a retry. */
typedef struct pleat_replay_instant {
    uint64_t time_us;
    uint64_t bytes; /* of an out-of-memory: the rounded request */
    bool is_oom;
} pleat_replay_instant_t;

typedef struct pleat_replay_events {
    pleat_curve_t curve;
    pleat_driver_log_t driver;
    pleat_replay_instant_t *instants;
    size_t instant_count;
    uint64_t instants_left_out; /* beyond the most that are kept */
    uint64_t ooms;              /* so far */
    uint64_t oom_bytes;         /* of the last one */
    uint64_t retries;
    uint64_t call_number; /* of the allocator */
    const pleat_stats_t *stats;
    pleat_replay_watcher_t watcher; /* to be put into the options of the replay, as the curve */
} pleat_replay_events_t;

/**
 * Begin to collect; the address must stay until fini.
 * @retval PLEAT_ERR_OOM_HOST  no host memory.
 */
PLEAT_NODISCARD pleat_status_t pleat_replay_events_init(pleat_replay_events_t *events);

/** End the collecting, as long as the replay is there. */
void pleat_replay_events_detach(pleat_replay_t *replay);

/** Free everything; after a failed init, too. The replay is detached or gone. */
void pleat_replay_events_fini(pleat_replay_events_t *events);

/** Begin the file: the array of events opens. @p call is the
 * command that made it. Errors of the file. */
PLEAT_NODISCARD pleat_status_t pleat_replay_events_begin_file(pleat_output_file_t *file,
                                                              const char *call);

/**
 * Write what was collected as the process @p number, from 1, named @p name.
 * @retval PLEAT_ERR_OOM_HOST  no host memory. Errors of the file.
 */
PLEAT_NODISCARD pleat_status_t pleat_replay_events_write(const pleat_replay_events_t *events,
                                                         pleat_output_file_t *file, unsigned number,
                                                         const char *name);

/** End the array and the file. Errors of the file. */
PLEAT_NODISCARD pleat_status_t pleat_replay_events_end_file(pleat_output_file_t *file);

#endif
