/*
 * timeline_file: the CSV file with the curves of all replays of a call, and the picture drawn from
 * it. Columns are trace, mode, conf and those of the curve; the first line is the call itself.
 */
#ifndef PLEAT_CLI_TIMELINE_FILE_H
#define PLEAT_CLI_TIMELINE_FILE_H

#include "curve.h"
#include "metrics.h"

typedef struct pleat_cli_timeline_file {
    FILE *file;            /* NULL: neither a timeline nor a picture is wanted */
    const char *path;      /* of the CSV file */
    const char *plot_path; /* NULL: no picture */
    char temporary[4096];  /* path of a file to be removed; "": the user wants to keep it */
    bool has_header;
} pleat_cli_timeline_file_t;

/**
 * Create the file at @p csv_path, or a temporary one if only a picture is wanted; both paths may be
 * NULL. @return 0, or an exit status after a message.
 */
int pleat_cli_timeline_file_open(pleat_cli_timeline_file_t *timeline, const char *csv_path,
                                 const char *plot_path);

/** Append a replay; texts are those of @p metrics. 0, or an exit status after a message. */
int pleat_cli_timeline_file_add(pleat_cli_timeline_file_t *timeline, const pleat_curve_t *curve,
                                const pleat_metrics_t *metrics);

/** Close the file, draw the picture if @p is_good, and remove what is temporary. 0 or an exit
 * status. */
int pleat_cli_timeline_file_close(pleat_cli_timeline_file_t *timeline, bool is_good);

#endif
