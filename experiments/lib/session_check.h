/*
 * session_check: replays a recorded session or a hand-written case through the engine and compares
 * every address, event, statistic and the end state.
 *
 * Recordings run on the scripted device, which answers as the recording says; cases run on the
 * simulated device with the capacity of their header.
 * Locks: none; a check belongs to one thread.
 */
#ifndef PLEAT_EXPERIMENTS_SESSION_CHECK_H
#define PLEAT_EXPERIMENTS_SESSION_CHECK_H

#include "session.h"

#define PLEAT_DIFFERENCE_BYTES 512

/* One difference, in words. */
typedef struct pleat_session_difference {
    uint64_t line;    /* of the call in the file, or of the segment, block or `end` that differs */
    const char *call; /* first word of the call; "end" for the end state */
    char what[PLEAT_DIFFERENCE_BYTES];
    char expected[PLEAT_DIFFERENCE_BYTES];
    char got[PLEAT_DIFFERENCE_BYTES];
} pleat_session_difference_t;

typedef struct pleat_session_check {
    size_t difference_capacity; /* entries of differences; set by the caller */
    pleat_session_difference_t *differences;
    size_t difference_count;              /* all, also those that found no room */
    uint64_t call_count;                  /* calls performed */
    uint64_t address_count;               /* addresses compared */
    uint64_t event_count;                 /* events compared */
    uint64_t stat_count;                  /* statistics compared */
    uint64_t state_count;                 /* segments and blocks compared */
    char skipped[PLEAT_DIFFERENCE_BYTES]; /* not "": why the session was not performed at all */
    uint64_t stopped_line;  /* of the call at which the recording ends with an error of PyTorch,
                               which  was not performed; 0: there is none */
    const char *stopped_by; /* that error; NULL: there is none */
} pleat_session_check_t;

/**
 * Why @p session cannot be performed in a mode, NULL if it can.
 * @par Threads any.   @par Cost O(calls); static string.
 */
const char *pleat_session_obstacle(const pleat_session_t *session, unsigned mode);

/**
 * Perform @p session and compare. The engine stops at the first call that cannot be performed any
 * more because of a difference; otherwise it goes on, and every difference is reported. A recording
 * that ends with a failed check of PyTorch is performed up to the call before.
 *
 * @param mode    PLEAT_SESSION_MODE_*: the mode to perform it in; 0: the first of its modes that is
 *                available.
 * @param check   its capacity and array are set; the rest is filled in.
 * @retval PLEAT_OK            performed, or skipped with a reason; see @p check.
 * @retval PLEAT_ERR_INVALID   settings that cannot be read; the message says where.
 * @retval PLEAT_ERR_OOM_HOST  no host memory.
 * @par Cost O(calls × statistics).
 */
PLEAT_NODISCARD pleat_status_t pleat_session_check_run(const pleat_session_t *session,
                                                       unsigned mode, pleat_session_check_t *check);

/**
 * Perform @p session as pleat_session_check_run does, and read the counters at its end.
 * Errors as there, and PLEAT_ERR_UNSUPPORTED when it was skipped; the message says why.
 */
PLEAT_NODISCARD pleat_status_t pleat_session_final_stats(const pleat_session_t *session,
                                                         unsigned mode, int64_t *values,
                                                         size_t value_count);

#endif
