/*
 * progress: a bar on standard error for work of more than a second, if that is a terminal. Silent
 * otherwise, and gone from the screen when the work is done.
 */
#ifndef PLEAT_CLI_PROGRESS_H
#define PLEAT_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct pleat_cli_progress {
    char label[64];
    uint64_t start_ns;
    uint64_t next_ns; /* of the host's clock: when the bar is drawn again */
    bool is_terminal;
    bool is_visible;
} pleat_cli_progress_t;

/** Begin work named @p label; the clock starts. */
void pleat_cli_progress_begin(pleat_cli_progress_t *progress, const char *label);

/** @p done of @p total is behind us; cheap, may be called often. @p total 0: not known. */
void pleat_cli_progress_update(pleat_cli_progress_t *progress, uint64_t done, uint64_t total);

/** Remove the bar. */
void pleat_cli_progress_end(pleat_cli_progress_t *progress);

#endif
