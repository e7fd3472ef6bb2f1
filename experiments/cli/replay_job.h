/*
 * replay_job: a trace, read once and replayed in one or several modes and settings, with a progress
 * bar and, if wanted, its curve in a timeline file.
 */
#ifndef PLEAT_CLI_REPLAY_JOB_H
#define PLEAT_CLI_REPLAY_JOB_H

#include "events_file.h"
#include "replay_options.h"
#include "timeline_file.h"

typedef struct pleat_cli_replay_job {
    const pleat_cli_replay_options_t *options;
    char *name; /* of the trace */
    pleat_program_t *program;
    uint64_t
        refused_count; /* requests so large that no allocator takes them, and none counts them */
    pleat_cli_events_file_t
        *events_file; /* gets the events of each run if it is open; NULL: none */
    const pleat_replay_watcher_t *watcher; /* of runs whose events are not written; NULL: none */
    pleat_replay_t *replay;                /* the last one that was run, for reports of its end */
} pleat_cli_replay_job_t;

/**
 * Read the traces at @p path ("-": standard input).
 * @param[out] set_out  to be ended by pleat_trace_set_fini; empty after a failure.
 * @return 0, or an exit status after a message.
 */
int pleat_cli_replay_set_open(const pleat_cli_replay_options_t *options, const char *path,
                              pleat_trace_set_t *set_out);

/** Take trace @p index out of a set. 0, or an exit status after a message. */
int pleat_cli_replay_job_open(pleat_cli_replay_job_t *job,
                              const pleat_cli_replay_options_t *options, pleat_trace_set_t *set,
                              size_t index);

/** Free what the job holds; also after a failed open. */
void pleat_cli_replay_job_close(pleat_cli_replay_job_t *job);

/**
 * Replay with the options' mode and settings of these indexes.
 *
 * @param timeline          NULL, or an open timeline file that gets the curve.
 * @param[out] metrics_out  its texts live as long as the job and the options.
 * @return 0, or an exit status after a message; an out-of-memory in the replay is no failure here.
 */
int pleat_cli_replay_job_run(pleat_cli_replay_job_t *job, size_t mode_index, size_t conf_index,
                             pleat_cli_timeline_file_t *timeline, pleat_metrics_t *metrics_out);

#endif
