/*
 * session_run (internal to session_check): a session being performed, shared by the part that makes
 * the calls (session_check.c) and the part that compares (session_compare.c).
 */
#ifndef PLEAT_EXPERIMENTS_SESSION_RUN_H
#define PLEAT_EXPERIMENTS_SESSION_RUN_H

#include "session_check.h"

#include <pleat/conf.h>

#include "queue_order.h"

#define PLEAT_SESSION_ERROR_BYTES 4096

typedef struct pleat_session_run {
    const pleat_session_t *session;
    pleat_session_check_t *check;
    unsigned mode; /* PLEAT_SESSION_MODE_* */
    pleat_vmm_t *vmm;
    pleat_allocator_t *allocator;
    pleat_conf_t conf;
    pleat_options_t options;
    pleat_queue_order_t *order;
    pleat_devptr_t *addresses; /* by id: of its last allocation; 0: it failed, or had no bytes */
    pleat_devptr_t *places;    /* by call, of a recording: see session_place.h */
    uint64_t *request_pools;   /* by call, of a recording: see session_place.h */
    uint64_t *overflow_pools;  /* that help requests outside of all pools */
    size_t overflow_count;
    size_t overflow_capacity;
    uint64_t overflow_only; /* the others are switched off during this call; 0: none is */
    bool has_orders;        /* the engine was told orders for the last call */

    /* Driver events and completed frees of the call, as the engine made them. */
    pleat_session_event_t *events;
    size_t event_count;
    size_t event_capacity;
    bool has_lost_events; /* no host memory for one */

    /* Does the recording list the driver's events of a call before its completed frees? */
    bool lists_driver_first;

    /* Statistics by key of the session. */
    uint32_t *stat_index; /* place in the engine's list, UINT32_MAX: unknown name */
    int64_t *expected;    /* as recorded after the last call */
    int64_t *offset;      /* recorded minus engine's, from before the first call */
    int64_t *values;      /* the engine's, in its own order */

    pleat_status_t status;                 /* of the last call */
    char error[PLEAT_SESSION_ERROR_BYTES]; /* its message, "" after success */
} pleat_session_run_t;

/* Note a difference at @p call. The texts are formatted by the callers. */
void pleat_session_run_differ(pleat_session_run_t *run, const pleat_session_call_t *call,
                              const char *what, const char *expected, const char *got);

/* The same for a recorded segment or block, which stands at @p line; call NULL: of the end state.
 */
void pleat_session_run_differ_at(pleat_session_run_t *run, const pleat_session_call_t *call,
                                 uint64_t line, const char *what, const char *expected,
                                 const char *got);

/* Prepare the statistics: names, offsets, expected values. ERR_OOM_HOST. */
PLEAT_NODISCARD pleat_status_t pleat_session_compare_init(pleat_session_run_t *run);

/* Free what pleat_session_compare_init made; also after it failed. */
void pleat_session_compare_fini(pleat_session_run_t *run);

/* Compare the events that the engine made in @p call with the recorded ones. */
void pleat_session_compare_events(pleat_session_run_t *run, const pleat_session_call_t *call);

/* Compare the statistics after @p call, and what the call expects. */
void pleat_session_compare_stats(pleat_session_run_t *run, const pleat_session_call_t *call);

/* Compare all segments and blocks with recorded ones. ERR_OOM_HOST. */
PLEAT_NODISCARD pleat_status_t pleat_session_compare_state(pleat_session_run_t *run,
                                                           const pleat_session_call_t *call,
                                                           pleat_session_range_t segments);

#endif
