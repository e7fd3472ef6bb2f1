/*
 * trace: the events of an allocation trace, read one by one or all at once, whatever form they are
 * stored in. trace_text and trace_binary know the two forms; trace_convert writes them.
 *
 * Addresses, sizes and streams are what was recorded. Sizes of blocks are those that the program
 * asked for, sizes of segments are full sizes. Times start near 0 and normally rise; a reader does
 * not insist on it, because clocks of recordings may step back.
 * Locks: none; a reader and a trace belong to one thread at a time.
 */
#ifndef PLEAT_EXPERIMENTS_TRACE_H
#define PLEAT_EXPERIMENTS_TRACE_H

#include "input.h"

#include <pleat/allocator.h>

typedef struct pleat_trace_event {
    pleat_devptr_t address;
    uint64_t bytes;
    pleat_stream_t stream;
    uint64_t time_us;
    pleat_action_t action;
} pleat_trace_event_t;

/* What a trace that was made out of a memory snapshot cannot have from its history alone; see
 * trace_snapshot. */
typedef struct pleat_trace_origin {
    uint64_t first_time_us; /* of its first recorded event, since the Unix epoch */
    uint64_t prefix_count;  /* events at its beginning that are not recorded, but follow from it */
    uint64_t before_count;  /* events that must have been before the first recorded one */
    uint64_t live_count;    /* blocks live or waiting at the beginning of the history */
    uint64_t live_bytes;    /* as asked for */
    uint64_t segment_count; /* segments that were there then */
    uint64_t segment_bytes;
    uint64_t private_count; /* recorded events in segments of private pools (at the end) */
    uint64_t unknown_count; /* entries of unknown actions, left out */
    uint64_t early_count;   /* entries with a time before the first one's, which counts instead */
    uint64_t differs_count; /* blocks on whose state at the end history and segments disagree */
    uint64_t guess_count;   /* of a rebuilt one: blocks whose size had to be guessed */
    uint64_t skipped_count; /* halves of frees that were not recorded, see snapshot_skipped */
    uint32_t device;
    pleat_action_t skipped_action; /* of these */
    bool is_rebuilt; /* the prefix makes the very blocks that were there, free ones included */
} pleat_trace_origin_t;

/* A whole trace in memory, 40 bytes an event. */
typedef struct pleat_trace {
    char *name; /* base name of the file without suffixes, or "standard input" */
    uint64_t event_count;
    pleat_trace_event_t *events;
    uint64_t stream_count; /* highest stream + 1; 0 without events */
    bool has_origin;       /* it was made out of a memory snapshot */
    pleat_trace_origin_t origin;
} pleat_trace_t;

typedef struct pleat_trace_reader pleat_trace_reader_t;

/**
 * Start reading events from an input, which stays the caller's and must outlive the reader. A
 * memory snapshot is read as a whole; it must have a history of one device only (trace_set reads
 * several).
 *
 * @retval PLEAT_ERR_FORMAT    the input is no trace; the message says what it is.
 * @retval PLEAT_ERR_OOM_HOST  no host memory.
 */
PLEAT_NODISCARD pleat_status_t pleat_trace_reader_create(pleat_input_t *input,
                                                         pleat_trace_reader_t **reader_out);

/** End reading; NULL is ignored. */
void pleat_trace_reader_destroy(pleat_trace_reader_t *reader);

/**
 * Read up to @p capacity events.
 *
 * @param[out] count_out  events read; fewer than @p capacity only at the end. Untouched on failure.
 * @retval PLEAT_ERR_FORMAT  the content is wrong; the message names the file, the line (text) or
 *                           the byte and block (compact form), and what would be right.
 * @retval PLEAT_ERR_IO      reading failed.
 * @par Cost O(events), memory bounded by the live allocations of the trace.
 */
PLEAT_NODISCARD pleat_status_t pleat_trace_reader_next(pleat_trace_reader_t *reader,
                                                       pleat_trace_event_t *events, size_t capacity,
                                                       size_t *count_out);

/**
 * Read a whole trace from a path, or from standard input for "-".
 *
 * @param[out] trace_out  freed by pleat_trace_destroy; untouched on failure.
 * Errors as pleat_input_open and pleat_trace_reader_next; a trace without events is
 * PLEAT_ERR_FORMAT, and PLEAT_ERR_OOM_HOST means that it does not fit into host memory.
 */
PLEAT_NODISCARD pleat_status_t pleat_trace_load(const char *path, pleat_trace_t **trace_out);

/** As pleat_trace_load, from an open input, which stays the caller's. */
PLEAT_NODISCARD pleat_status_t pleat_trace_load_input(pleat_input_t *input,
                                                      pleat_trace_t **trace_out);

/** Free a trace; NULL is ignored. */
void pleat_trace_destroy(pleat_trace_t *trace);

#endif
