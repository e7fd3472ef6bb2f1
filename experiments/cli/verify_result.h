/*
 * verify_result: what was compared in one file, and how it came out; the same for recorded
 * sessions, cases and traces, so that one report serves all.
 */
#ifndef PLEAT_CLI_VERIFY_RESULT_H
#define PLEAT_CLI_VERIFY_RESULT_H

#include "program.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum pleat_cli_verdict {
    PLEAT_CLI_EQUAL,
    PLEAT_CLI_DIFFERENT,
    PLEAT_CLI_SKIPPED, /* nothing was compared */
    PLEAT_CLI_UNREADABLE
} pleat_cli_verdict_t;

typedef struct pleat_cli_difference {
    char *where; /* as in "line 17, alloc" */
    char *what;  /* what differs, "" where expected and got say it */
    char *expected;
    char *got;
} pleat_cli_difference_t;

/* A point that the file leaves open. */
typedef struct pleat_cli_open_point {
    const char *text; /* static */
    uint64_t count;   /* UINT64_MAX: any number of times */
} pleat_cli_open_point_t;

enum { PLEAT_CLI_VERIFY_MODES_MAX = 8 };

/* A mode that the file is for. */
typedef struct pleat_cli_verify_mode {
    const char *name;     /* static */
    const char *obstacle; /* why nothing was compared in it; NULL: it was; static */
} pleat_cli_verify_mode_t;

typedef struct pleat_cli_verify_result {
    const char *path;
    char *own_path;   /* = path when the result owns it; else NULL */
    const char *kind; /* static */
    pleat_cli_verdict_t verdict;
    char *reason; /* of SKIPPED and UNREADABLE; else NULL */
    pleat_cli_verify_mode_t modes[PLEAT_CLI_VERIFY_MODES_MAX]; /* that the file is for */
    size_t mode_count;
    uint64_t calls;
    uint64_t addresses;
    uint64_t events;
    uint64_t statistics;
    uint64_t states; /* segments and blocks of snapshots and of the end */
    uint64_t difference_count;
    pleat_cli_difference_t *differences; /* the first ones */
    size_t difference_shown;
    pleat_cli_open_point_t *undecided;
    size_t undecided_count;
    const char **unreached; /* rules that the file never comes to; static texts */
    size_t unreached_count;
    bool has_runs; /* of a trace that was compared: */
    pleat_program_run_t *runs;
    size_t run_count;
    uint64_t retry_count;
    uint64_t reserved_peak_bytes; /* with the recorded addresses */
    json_t *warnings;             /* of a trace, see trace_notes; else NULL */
    uint64_t stopped_line;        /* of the call before which the comparison ends, because PyTorch
                                     failed in it; 0: there is none */
    char *stopped_by;             /* PyTorch's error there; else NULL */
} pleat_cli_verify_result_t;

/** Free what a result holds. */
void pleat_cli_verify_result_fini(pleat_cli_verify_result_t *result);

/** Append a difference with copies of the texts. False: no host memory. */
bool pleat_cli_verify_result_add(pleat_cli_verify_result_t *result,
                                 const pleat_cli_difference_t *difference);

/** Note that the file was compared in a mode, or, with an obstacle, that it was not. */
void pleat_cli_verify_result_add_mode(pleat_cli_verify_result_t *result, const char *name,
                                      const char *obstacle);

/** One file as a JSON object on a line. 0, or an exit status after a message. */
int pleat_cli_verify_print_json(const pleat_cli_verify_result_t *result);

/** All files: a table, then differences and open points, then a line of sums. Result as above. */
int pleat_cli_verify_print(const pleat_cli_verify_result_t *results, size_t count);

#endif
