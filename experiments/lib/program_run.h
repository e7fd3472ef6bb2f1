/*
 * program_run: whose work a run of segment_free before an allocation is: of an empty_cache, or of
 * the allocation itself, which collected old segments, gave up oversize blocks, or flushed the
 * cache and tried again. A pure function of what the trace shows.
 */
#ifndef PLEAT_EXPERIMENTS_PROGRAM_RUN_H
#define PLEAT_EXPERIMENTS_PROGRAM_RUN_H

#include "program.h"

typedef enum pleat_run_reading {
    PLEAT_RUN_EMPTY_CACHE,
    PLEAT_RUN_IN_REQUEST,
    PLEAT_RUN_IN_REQUEST_WAITED, /* and the request waited for the late completions itself */
    PLEAT_RUN_IN_REQUEST_PENDING /* also for the last free, which its next event completes */
} pleat_run_reading_t;

/* A reading that was found otherwise than by these rules. */
typedef struct pleat_run_choice {
    uint32_t first_event; /* of the run */
    pleat_run_reading_t reading;
} pleat_run_choice_t;

typedef struct pleat_run_facts {
    const pleat_options_t *options;
    uint64_t device_bytes;
    const pleat_trace_event_t *events;
    const uint32_t *freed; /* indices of the segment_free and segment_unmap events, at least one */
    size_t freed_count;
    const uint32_t
        *late; /* indices of the late completions between the last call and the request */
    size_t late_count;
    const pleat_trace_event_t *request; /* the alloc or oom behind the run */
    bool has_new_segment;               /* a segment_alloc stands between the run and the request */
    uint64_t segment_bytes;             /* its size */
    uint64_t reserved_bytes;            /* before the run */
    size_t idle_count;                  /* segments without blocks that the run left */
} pleat_run_facts_t;

/**
 * Decide.
 *
 * @param[out] undecided_out  the point that this had to guess, PLEAT_UNDECIDED_COUNT for none.
 * @par Cost O(freed × late²), late being 0 in nearly all runs.
 */
pleat_run_reading_t pleat_program_run_read(const pleat_run_facts_t *facts,
                                           pleat_undecided_t *undecided_out);

#endif
