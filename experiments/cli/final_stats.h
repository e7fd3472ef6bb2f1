/*
 * final_stats: the counters of an allocator where a trace, a recorded session or a case ends, for
 * the reports in PyTorch's formats; and the part that `pleat summary` and `pleat stats` share.
 */
#ifndef PLEAT_CLI_FINAL_STATS_H
#define PLEAT_CLI_FINAL_STATS_H

#include "replay_options.h"

#include <jansson.h>
#include <pleat/stats.h>

#define PLEAT_CLI_FINAL_STATS_DESCRIPTION                                              \
    "FILE is a trace or a memory snapshot of PyTorch with its history (.pickle),\n"    \
    "which are replayed on a simulated device with the options below, or a recorded\n" \
    "session or a case, which carry their own settings; '-' is standard input. The\n"  \
    "status is 1 if a request of a replay failed with out of memory."

/* What a report is about. */
typedef struct pleat_cli_final_stats {
    const char *path;
    pleat_stats_t stats;
    bool has_own;     /* the counters that PyTorch does not have are known, too */
    json_t *warnings; /* of a trace, see trace_notes; NULL: of no trace */
    bool has_device;  /* of a memory snapshot */
    uint32_t device;
    bool is_one_of_several; /* reports of the call; one in text has a heading then */
} pleat_cli_final_stats_t;

/* Prints the report of one file. 0, or an exit status after a message. */
typedef int (*pleat_cli_report_fn_t)(const void *context, const pleat_cli_final_stats_t *final);

/**
 * Read each file to its end and report. In front of each of several reports in text stands a line
 * "# FILE" or "# FILE, device N".
 * @return the exit status of the command.
 */
int pleat_cli_final_stats_report(const pleat_cli_replay_options_t *options, int count, char **paths,
                                 pleat_cli_report_fn_t report, const void *context);

#endif
