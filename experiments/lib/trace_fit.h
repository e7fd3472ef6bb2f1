/*
 * trace_fit: where the rules of program_run read a run of segment_free so that the engine does
 * something else than the trace shows, finds a reading that gives the recorded events. Which call
 * gave memory back can then be told from the engine's own behaviour, if from nothing else.
 *
 * Only runs are read anew, and only where the first difference lies in the call of a run or in the
 * request behind it; a difference anywhere else is a true one.
 * Locks: none.
 */
#ifndef PLEAT_EXPERIMENTS_TRACE_FIT_H
#define PLEAT_EXPERIMENTS_TRACE_FIT_H

#include "program_reader.h"

#define PLEAT_TRACE_NO_DIFFERENCE UINT64_MAX
#define PLEAT_TRACE_FIT_RUNS_MAX 256u /* runs read anew, at most */

/* Perform a program up to its first difference; tell the event of that. */
typedef pleat_status_t (*pleat_trace_try_fn_t)(void *context, const pleat_program_t *program,
                                               uint64_t *first_difference_out);

/* A program and its first difference. */
typedef struct pleat_trace_fit {
    const pleat_program_t *program;
    uint64_t first_difference;
    uint64_t reread_count; /* runs that were read anew */
    pleat_program_t *own;  /* = program when that was made here; the caller destroys it */
} pleat_trace_fit_t;

/**
 * Improve on fit->program, whose first difference is known.
 *
 * @param source  of that program, without choices.
 * @param fit     program and first_difference are set; what was found is stored.
 * @return the first failure of @p attempt or of reading; fit->own is to be destroyed even then.
 * @par Cost up to four attempts a run that is read anew.
 */
PLEAT_NODISCARD pleat_status_t pleat_trace_fit_run(const pleat_program_source_t *source,
                                                   pleat_trace_try_fn_t attempt, void *context,
                                                   pleat_trace_fit_t *fit);

#endif
