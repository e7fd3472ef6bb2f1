/*
 * trace_check: performs the calls of a recorded trace with the engine in classic or
 * torch_expandable mode on a scripted device, and compares every event with the recording: each
 * address, size, stream, and the order. The device answers as the recording says, so everything
 * else is the engine's own decision.
 *
 * The events are the whole comparison: a trace has no statistics. What it cannot decide stands in
 * program->undecided, rules that it never came to are those with a count of 0 in `rules`. Where the
 * engine shows that a run of segment_free was read wrongly, it is read anew (trace_fit).
 * Locks: none; a check belongs to one thread at a time.
 */
#ifndef PLEAT_EXPERIMENTS_TRACE_CHECK_H
#define PLEAT_EXPERIMENTS_TRACE_CHECK_H

#include "program.h"
#include "replay.h"

/* X(name, is_visible, text): rules of classic mode that a trace may or may not exercise. One that
 * is not visible leaves the same events whichever way it goes: a rest of 1 MiB serves no request of
 * the large pool. */
#define PLEAT_TRACE_RULE_LIST(X)                                                                 \
    X(SMALL_REQUEST, true, "requests of up to 1 MiB, from the small pool")                       \
    X(LARGE_REQUEST, true, "requests above 1 MiB, from the large pool")                          \
    X(SMALL_SEGMENT, true, "new segments of 2 MiB")                                              \
    X(LARGE_SEGMENT, true, "new segments of large_segment_bytes for requests below 10 MiB")      \
    X(EXACT_SEGMENT, true, "new segments of their own for requests of 10 MiB or more")           \
    X(EXACT_SEGMENT_LIMIT, true, "new segment for a rounded size of exactly 10 MiB")             \
    X(LARGE_REST_SPLIT, true, "rest of a large block split off")                                 \
    X(LARGE_REST_KEPT, true, "rest of a large block too small to be split off")                  \
    X(LARGE_REST_LIMIT, false,                                                                   \
      "rest of exactly 1 MiB: split off or not, it serves no request (inactive_split)")          \
    X(SEVERAL_STREAMS, true, "requests on another stream than the first request's")              \
    X(WAITING_FREE, true, "frees that wait for a stream")                                        \
    X(EMPTY_CACHE, true, "empty_cache that gives segments back")                                 \
    X(RETRY, true, "retries after a flush")                                                      \
    X(LIMIT, true, "requests that the limit made retry or fail")                                 \
    X(EARLY_RECLAIM, true, "segments given back before a flush: collection, or oversize blocks") \
    X(OVERSIZE, true, "blocks of max_split_bytes or more")                                       \
    X(OUT_OF_MEMORY, true, "requests that fail")

typedef enum pleat_trace_rule {
#define PLEAT_TRACE_RULE_ENUM(name, is_visible, text) PLEAT_TRACE_RULE_##name,
    PLEAT_TRACE_RULE_LIST(PLEAT_TRACE_RULE_ENUM)
#undef PLEAT_TRACE_RULE_ENUM
        PLEAT_TRACE_RULE_COUNT
} pleat_trace_rule_t;

#define PLEAT_TRACE_TEXT_BYTES 256

/* One difference, in words. */
typedef struct pleat_trace_difference {
    uint64_t event;   /* index from 0 of the event that was expected, or of the call's last one */
    const char *call; /* text of the kind of call */
    char expected[PLEAT_TRACE_TEXT_BYTES];
    char got[PLEAT_TRACE_TEXT_BYTES];
} pleat_trace_difference_t;

typedef struct pleat_trace_check_options {
    pleat_options_t allocator;    /* of the recording */
    uint64_t device_bytes;        /* of the recording's device; 0: that of the default sim */
    pleat_progress_fn_t progress; /* may be NULL */
    void *progress_context;
} pleat_trace_check_options_t;
#define PLEAT_TRACE_CHECK_OPTIONS_INIT  \
    {                                   \
        .allocator = PLEAT_OPTIONS_INIT \
    }

typedef struct pleat_trace_check {
    pleat_trace_difference_t *differences; /* the first ones; set by the caller with its capacity */
    size_t difference_capacity;
    uint64_t difference_count; /* all, also those that found no room */
    uint64_t call_count;       /* calls of the allocator made */
    uint64_t address_count;    /* addresses compared */
    uint64_t event_count;      /* events compared */
    uint64_t reread_count;     /* runs of segment_free that only another reading explains */
    pleat_program_run_t *runs; /* the first ones; set by the caller with its capacity */
    size_t run_capacity;
    size_t run_count; /* all runs of segment_free, as they were read in the end */
    uint64_t rules[PLEAT_TRACE_RULE_COUNT];
    pleat_stats_t stats;                    /* at the end */
    char unchecked[PLEAT_TRACE_TEXT_BYTES]; /* not "": why nothing was compared */
} pleat_trace_check_t;

/**
 * Check a trace. The engine goes on after a difference as well as it can.
 *
 * @param program  read from @p trace with the same options.
 * @param check    differences, runs and their capacities are set; the rest is filled in.
 * @retval PLEAT_OK            compared, or not comparable for the reason in check->unchecked.
 * @retval PLEAT_ERR_INVALID   an option out of range.
 * @retval PLEAT_ERR_OOM_HOST  no host memory.
 * @par Cost a few hundred nanoseconds an event.
 */
PLEAT_NODISCARD pleat_status_t pleat_trace_check_run(const pleat_trace_t *trace,
                                                     const pleat_program_t *program,
                                                     const pleat_trace_check_options_t *options,
                                                     pleat_trace_check_t *check);

/** Text of a rule. @par Threads any.   @par Cost constant; the string is static. */
const char *pleat_trace_rule_text(pleat_trace_rule_t rule);

/** Do the events of a trace show which way the rule went? @par Cost constant. */
bool pleat_trace_rule_is_visible(pleat_trace_rule_t rule);

#endif
