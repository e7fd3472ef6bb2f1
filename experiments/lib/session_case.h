/*
 * session_case: what hand-written cases add to the lines of sessions: `repeat N` ... `end_repeat`,
 * and `{...}` inside, where the number of the round stands. Lines between are kept and given on
 * once a round, with the braces replaced.
 *
 * In braces stand numbers and `i` (the round, from 0) joined by `+`, `-` and `*`, without blanks;
 * `*` binds first. Free texts (of `set`, ` expect_error`, ` error` and the header) are given on as
 * they are; elsewhere braces outside of a repeat are refused.
 * Locks: none; its owner's.
 */
#ifndef PLEAT_EXPERIMENTS_SESSION_CASE_H
#define PLEAT_EXPERIMENTS_SESSION_CASE_H

#include "scan.h"

#define PLEAT_SESSION_ROUNDS_MAX 1000000u

typedef struct pleat_case_line {
    uint64_t number;
    size_t start; /* into text */
    size_t length;
} pleat_case_line_t;

/* All zero: no repeat is open. */
typedef struct pleat_case_repeat {
    bool is_open;
    uint64_t line; /* of the word `repeat` */
    uint64_t rounds;
    char *text; /* the lines between, behind each other */
    size_t text_bytes;
    size_t text_capacity;
    pleat_case_line_t *lines;
    size_t line_count;
    size_t line_capacity;
} pleat_case_repeat_t;

/* Takes a line, as it is outside of a repeat or as a round makes it. */
typedef pleat_status_t (*pleat_case_line_fn_t)(void *context, pleat_scan_t *scan);

void pleat_case_repeat_fini(pleat_case_repeat_t *repeat);

/**
 * Take a line of a file: keep it if a repeat is open, give on all rounds at its end, give on every
 * other line at once.
 * @retval PLEAT_ERR_FORMAT, PLEAT_ERR_OOM_HOST, and what @p take returns.
 */
PLEAT_NODISCARD pleat_status_t pleat_case_take_line(pleat_case_repeat_t *repeat, pleat_scan_t *scan,
                                                    pleat_case_line_fn_t take, void *context);

/**
 * Replace the braces of a line.
 *
 * @param[out] out         room for the result.
 * @param[out] length_out  its length; nothing is terminated.
 * @retval PLEAT_ERR_FORMAT  no closing brace, no sum inside, a negative or too large result, or no
 *                           room for it.
 */
PLEAT_NODISCARD pleat_status_t pleat_case_expand(const pleat_scan_t *scan, uint64_t round,
                                                 char *out, size_t capacity, size_t *length_out);

#endif
