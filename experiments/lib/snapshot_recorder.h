/*
 * snapshot_recorder: watches a replay and takes a memory snapshot of its allocator at the end, at
 * the peak, or behind an event, with the history up to there; and turns the snapshots of several
 * replays, one a device, into one as PyTorch writes it.
 *
 * A replay of a memory snapshot's history keeps what the entries carried: the stacks of a call's
 * entries become those of what the call does here, times count from the same moment, and streams
 * have their handles. A block that was live before the history begins has the stack that it has at
 * the end, if it is still there.
 * Locks: none; a recorder belongs to one thread at a time.
 */
#ifndef PLEAT_EXPERIMENTS_SNAPSHOT_RECORDER_H
#define PLEAT_EXPERIMENTS_SNAPSHOT_RECORDER_H

#include "replay.h"

#include <pleat/history.h>
#include <pleat/torch_snapshot_write.h>

typedef struct pleat_snapshot_recorder {
    const pleat_program_t *program;
    const pleat_torch_snapshot_t *source; /* that the program was made of; NULL: of none */
    uint64_t calls_wanted;                /* calls after which the replay ends; 0: all */
    uint64_t calls_done;
    uint64_t now_us; /* since the epoch, if the source tells; since the first event otherwise */
    pleat_stream_t *handles; /* of the source, rising: what the program's streams number */
    size_t handle_count;
    uint32_t *old_stacks; /* of the blocks that are older than the history, in order */
    size_t old_count;
    size_t old_done; /* of them, allocated so far */
    pleat_history_t *history;
    pleat_history_copy_t *copy;     /* after pleat_snapshot_recorder_take */
    pleat_replay_watcher_t watcher; /* to be put into the options of the replay */
} pleat_snapshot_recorder_t;

/**
 * Begin; the address must stay until fini, as program and source.
 * @param source       that the program was made of; NULL, or of a program without origin: none.
 * @param max_entries  of the history; older ones are overwritten.
 * @retval PLEAT_ERR_OOM_HOST  no host memory.
 */
PLEAT_NODISCARD pleat_status_t pleat_snapshot_recorder_init(pleat_snapshot_recorder_t *recorder,
                                                            const pleat_program_t *program,
                                                            const pleat_torch_snapshot_t *source,
                                                            uint64_t max_entries);

/** Free everything; after a failed init, too. */
void pleat_snapshot_recorder_fini(pleat_snapshot_recorder_t *recorder);

/**
 * Take the snapshot of a replay that was run with the watcher, and end the watching. To be called
 * while the replay is there; after a run that failed, too.
 * @retval PLEAT_ERR_OOM_HOST  no host memory.
 */
PLEAT_NODISCARD pleat_status_t pleat_snapshot_recorder_take(pleat_snapshot_recorder_t *recorder,
                                                            pleat_replay_t *replay,
                                                            bool with_entries);

/** End the watching of a replay without a snapshot. */
void pleat_snapshot_recorder_detach(pleat_replay_t *replay);

/** Calls after which event @p event, counted from 1 over @p passes, is over; 0: there is no such
 * event. */
uint64_t pleat_snapshot_recorder_calls_to(const pleat_program_t *program, uint32_t passes,
                                          uint64_t event);

/**
 * Make one snapshot of those that were taken.
 *
 * @param recorders          by device; NULL: nothing of a device. Those with a source have the
 * same.
 * @param[out] snapshot_out  ended by pleat_torch_snapshot_fini, before the recorders are.
 * Errors as pleat_torch_snapshot_compose, and PLEAT_ERR_OOM_HOST.
 */
PLEAT_NODISCARD pleat_status_t pleat_snapshot_recorder_compose(
    const pleat_snapshot_recorder_t *const *recorders, size_t count, const pleat_conf_t *conf,
    const char *conf_text, pleat_torch_snapshot_t *snapshot_out);

/* Finds the call after which a replay has reserved most; the first of several. */
typedef struct pleat_peak_finder {
    const pleat_stats_t *stats;
    uint64_t calls_done;
    int64_t peak_bytes;
    uint64_t peak_calls; /* calls done at the peak; 0: nothing was reserved */
    pleat_replay_watcher_t watcher;
} pleat_peak_finder_t;

/** Begin; the address must stay as long as the replay runs. */
void pleat_peak_finder_init(pleat_peak_finder_t *finder);

#endif
