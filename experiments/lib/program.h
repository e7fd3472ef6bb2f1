/*
 * program: the calls that a recorded trace tells of, in the order in which a program made them:
 * what a replay performs and what trace_check compares with the recording.
 *
 * A trace holds events, not calls. Read by these rules:
 *   - [late completions] [segment_free ...] [segment_alloc] alloc is one allocation; with `oom`
 *     for the alloc it is one that failed.
 *   - free_requested with its own free_completed as the next event is a free that was complete at
 *     once. Without, the block waits for work on another stream, and free_completed, wherever it
 *     stands later, tells when that work was over.
 *   - A run of segment_free belongs to the allocation behind it if that one needed a new segment,
 *     no segment of the run would have served it, and the limit, the garbage collection threshold
 *     or the size of the device was exceeded. Otherwise it was an empty_cache (program_run).
 *   - A late completion outside any allocation can only come from an empty_cache.
 * What these rules had to guess is counted in `undecided`, what contradicts them in `notes`.
 *
 * Invariants: the event ranges of the calls follow one another and cover the trace except for
 * snapshot events; a slot is live between its allocation and its free or completion.
 * Locks: none; read-only after building, so threads may share it.
 */
#ifndef PLEAT_EXPERIMENTS_PROGRAM_H
#define PLEAT_EXPERIMENTS_PROGRAM_H

#include "trace.h"

/* X(name, text) */
#define PLEAT_PROGRAM_CALL_LIST(X)                                                           \
    X(ALLOC, "alloc")                   /* slot, bytes, stream */                            \
    X(ALLOC_FAILS, "alloc that fails")  /* rounded bytes, stream */                          \
    X(FREE, "free")                     /* slot; complete at once */                         \
    X(FREE_WAITS, "free that waits")    /* slot; complete after its COMPLETE */              \
    X(COMPLETE, "completion")           /* slot: the work it waits for is over */            \
    X(COMPLETE_IN_CALL, "awaited free") /* slot: the next call itself waits for that work */ \
    X(EMPTY_CACHE, "empty_cache")                                                            \
    X(STRAY, "event without a call") /* contradicts the trace before it; nothing to perform */

typedef enum pleat_program_call_kind {
#define PLEAT_PROGRAM_CALL_ENUM(name, text) PLEAT_PROGRAM_##name,
    PLEAT_PROGRAM_CALL_LIST(PLEAT_PROGRAM_CALL_ENUM)
#undef PLEAT_PROGRAM_CALL_ENUM
        PLEAT_PROGRAM_CALL_COUNT
} pleat_program_call_kind_t;

/* X(name, key, is_blocking, is_warning, text): what is odd about a trace. A blocking note means
 * that the recording cannot be compared with the engine, because what came before or between is not
 * known. A warning is worth a word in a replay, too: the trace contradicts itself, as one does
 * whose beginning was overwritten in a ring; the replay goes on without what cannot be. */
#define PLEAT_PROGRAM_NOTE_LIST(X)                                                             \
    X(NO_SEGMENTS, no_segments, true, false,                                                   \
      "it has no segment_alloc: what was asked of the device is not recorded")                 \
    X(NOT_CLASSIC, not_classic, true, false,                                                   \
      "it has segment_map or segment_unmap: not recorded in classic mode")                     \
    X(OUTSIDE, outside, true, false,                                                           \
      "addresses outside every segment that it shows: it begins in the middle, or is damaged") \
    X(SEGMENT_UNKNOWN, segment_unknown, true, true,                                            \
      "segment_free of a segment that it does not show")                                       \
    X(SEGMENT_OVERLAP, segment_overlap, true, true,                                            \
      "segment_alloc over a segment that was not freed")                                       \
    X(SEGMENT_DIFFERS, segment_differs, false, true,                                           \
      "segment_free with another size than the segment has")                                   \
    X(SEGMENT_UNUSED, segment_unused, false, true,                                             \
      "segment_alloc without the allocation that needed it")                                   \
    X(FREE_UNKNOWN, free_unknown, false, true, "frees of addresses that are not live")         \
    X(FREE_DIFFERS, free_differs, false, true,                                                 \
      "frees or completions with another size or stream than the allocation has")              \
    X(COMPLETION_UNKNOWN, completion_unknown, false, true,                                     \
      "completions of addresses that do not wait")                                             \
    X(ALLOC_LIVE, alloc_live, false, true,                                                     \
      "allocations at addresses that are still live or waiting")                               \
    X(ADDRESS_ZERO, address_zero, false, true, "allocations at address 0, which is none")      \
    X(TIME_BACK, time_back, false, true, "time stamps below an earlier one, which counts instead")

typedef enum pleat_program_note {
#define PLEAT_PROGRAM_NOTE_ENUM(name, key, is_blocking, is_warning, text) PLEAT_PROGRAM_NOTE_##name,
    PLEAT_PROGRAM_NOTE_LIST(PLEAT_PROGRAM_NOTE_ENUM)
#undef PLEAT_PROGRAM_NOTE_ENUM
        PLEAT_PROGRAM_NOTE_COUNT
} pleat_program_note_t;

/* X(name, text): what a trace cannot decide; the text says what was assumed and what depends. */
#define PLEAT_UNDECIDED_LIST(X)                                                                    \
    X(RUN_AS_EMPTY_CACHE,                                                                          \
      "runs of segment_free read as an empty_cache before the request behind them; a device with " \
      "less free memory than the trace tells, or collection, would have made them part of it "     \
      "(num_alloc_retries, num_sync_all_streams)")                                                 \
    X(RUN_AS_RETRY,                                                                                \
      "runs of segment_free read as part of the request behind them; an empty_cache called just "  \
      "before it leaves the same events (num_alloc_retries, num_sync_all_streams)")                \
    X(STREAM_ORDER,                                                                                \
      "runs of segment_free over several streams; an order of stream handles that fits them was "  \
      "used, others may fit as well (order of segment_free)")                                      \
    X(WAITED_STREAM,                                                                               \
      "frees that waited; for which stream is not recorded, each was given a stream of its own "   \
      "(order of completions within a call)")                                                      \
    X(SHORT_WAIT,                                                                                  \
      "frees complete before the next call, in a trace of several streams; they may have waited "  \
      "for a stream that was done (nothing but the number of events)")                             \
    X(TRAILING_COMPLETION, "completions at the end of the trace read as an empty_cache; a "        \
                           "request that is not recorded "                                         \
                           "would complete them as well (num_sync_all_streams)")                   \
    X(FAILED_REQUEST,                                                                              \
      "requests that ran out of memory; only their rounded size is recorded (requested bytes)")    \
    X(IDLE_EMPTY_CACHE,                                                                            \
      "calls of empty_cache that gave nothing back leave no event (num_sync_all_streams)")

typedef enum pleat_undecided {
#define PLEAT_UNDECIDED_ENUM(name, text) PLEAT_UNDECIDED_##name,
    PLEAT_UNDECIDED_LIST(PLEAT_UNDECIDED_ENUM)
#undef PLEAT_UNDECIDED_ENUM
        PLEAT_UNDECIDED_COUNT
} pleat_undecided_t;

#define PLEAT_UNDECIDED_ANYWHERE \
    UINT64_MAX /* count of what may have happened any number of times */

typedef struct pleat_program_call {
    uint64_t bytes;
    uint64_t time_us;
    uint32_t slot;
    uint32_t stream;      /* index into streams and handles */
    uint32_t first_event; /* first of the events that this call caused */
    uint32_t event_count; /* 0 for completions: theirs belong to the call behind them */
    pleat_program_call_kind_t kind;
} pleat_program_call_t;

/* A run of segment_free events. */
typedef struct pleat_program_run {
    uint64_t segment_count;
    uint32_t call;          /* index of the EMPTY_CACHE or of the allocation that it belongs to */
    uint32_t first_event;   /* of its segment_free events */
    uint32_t request_event; /* the alloc or oom behind the run; 0: there is none */
    bool is_in_request;     /* part of an allocation: retry or collection */
} pleat_program_run_t;

/* How often something was seen, and where first. */
typedef struct pleat_program_finding {
    uint64_t count;
    uint64_t first_event;
} pleat_program_finding_t;

typedef struct pleat_program {
    pleat_program_call_t *calls;
    size_t call_count;
    size_t counts[PLEAT_PROGRAM_CALL_COUNT]; /* calls by kind */
    pleat_stream_t *streams;                 /* recorded numbers, rising */
    pleat_stream_t *handles;                 /* the handles to use for them */
    uint32_t stream_count;
    uint32_t slot_count;
    pleat_program_run_t *runs;
    size_t run_count;
    pleat_program_finding_t notes[PLEAT_PROGRAM_NOTE_COUNT];
    pleat_program_finding_t undecided[PLEAT_UNDECIDED_COUNT];
    bool has_origin; /* of a memory snapshot */
    pleat_trace_origin_t origin;
    uint64_t event_count;
    uint64_t first_time_us;
    uint64_t duration_us; /* from the first event to the latest time stamp */
} pleat_program_t;

/**
 * Read the calls out of a trace.
 *
 * @param options             of the recording: limit, split and collection thresholds decide how
 *                            runs of segment_free are read.
 * @param device_bytes        memory of the recording's device; 0: that of the default sim.
 * @param[out] program_out    freed by pleat_program_destroy; untouched on failure.
 * @retval PLEAT_ERR_INVALID   more than 2^32 - 2 events.
 * @retval PLEAT_ERR_OOM_HOST  no host memory.
 * @par Cost O(events log segments).
 */
PLEAT_NODISCARD pleat_status_t pleat_program_create(const pleat_trace_t *trace,
                                                    const pleat_options_t *options,
                                                    uint64_t device_bytes,
                                                    pleat_program_t **program_out);

/** Free a program; NULL is ignored. */
void pleat_program_destroy(pleat_program_t *program);

/** Can the recording be compared with the engine? If not, @p note_out (may be NULL) says why. */
bool pleat_program_is_checkable(const pleat_program_t *program, pleat_program_note_t *note_out);

/** The same for an engine in a mode: in torch_expandable, mapped segments can be compared. */
bool pleat_program_is_checkable_in(const pleat_program_t *program, pleat_mode_t mode,
                                   pleat_program_note_t *note_out);

/** Is a note worth a word in a replay? @par Threads any.   @par Cost constant. */
bool pleat_program_note_is_warning(pleat_program_note_t note);

/** Texts of kinds, notes and undecided points. @par Threads any.   @par Cost constant; static. */
const char *pleat_program_call_text(pleat_program_call_kind_t kind);
const char *pleat_program_note_text(pleat_program_note_t note);
const char *pleat_program_note_key(pleat_program_note_t note); /* for machines */
const char *pleat_undecided_text(pleat_undecided_t undecided);

#endif
