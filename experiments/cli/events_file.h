/*
 * events_file: the file of --perfetto, with the events of all replays of a call, a process each.
 */
#ifndef PLEAT_CLI_EVENTS_FILE_H
#define PLEAT_CLI_EVENTS_FILE_H

#include "metrics.h"
#include "replay_events.h"

typedef struct pleat_cli_events_file {
    const char *path; /* NULL: no such file is wanted */
    pleat_output_file_t file;
    unsigned replay_count;
    bool is_open;
} pleat_cli_events_file_t;

/** Create the file at @p path, which may be NULL. 0, or an exit status after a message. */
int pleat_cli_events_file_open(pleat_cli_events_file_t *events_file, const char *path);

/** Append a replay, named after @p metrics. 0, or an exit status after a message. */
int pleat_cli_events_file_add(pleat_cli_events_file_t *events_file,
                              const pleat_replay_events_t *events, const pleat_metrics_t *metrics);

/** Complete the file if @p is_good; otherwise none is left. 0, or an exit status after a message.
 */
int pleat_cli_events_file_close(pleat_cli_events_file_t *events_file, bool is_good);

#endif
