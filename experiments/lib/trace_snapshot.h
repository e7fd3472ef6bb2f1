/*
 * trace_snapshot: the histories of a memory snapshot of PyTorch as traces, one a device.
 *
 * A history is the end of what happened: recording began late, or its ring was overwritten. What
 * the allocator held when it begins follows from it and from the segments of the snapshot, which
 * are of its end:
 *   - A block was live at the beginning if its first event is free_requested, or if it is live at
 *     the end without any event. It was waiting if its first event is free_completed, or if it
 *     waits at the end without any event.
 *   - A segment, or a mapped part of an expandable one, was there at the beginning if it was freed
 *     without having been allocated before, or if it is there at the end and was not allocated.
 * The trace begins with segment_alloc (or segment_map), alloc and free_requested events for these,
 * by address, at the time of the first recorded event; trace->origin counts them. Not known are
 * what was cached inside the segments, the order of these events and how many others there were.
 *
 * Streams are numbered in the order of their handles, from 0. Times count from the first recorded
 * event. Entries do not tell their pool: what was allocated in private pools is in the trace like
 * all else; origin.private_count counts events in segments that belong to one at the end.
 */
#ifndef PLEAT_EXPERIMENTS_TRACE_SNAPSHOT_H
#define PLEAT_EXPERIMENTS_TRACE_SNAPSHOT_H

#include "trace.h"

#include <pleat/conf.h>
#include <pleat/torch_snapshot.h>

/**
 * Read the snapshot that an input is.
 *
 * @param memory_bytes        most host memory to take; 0: the default of the library.
 * @param memory_name         what a message calls that limit; NULL: memory_bytes.
 * @param[out] snapshot_out   freed by pleat_torch_snapshot_destroy; untouched on failure.
 * Errors as pleat_torch_snapshot_read and pleat_input_read.
 */
PLEAT_NODISCARD pleat_status_t pleat_trace_snapshot_load(pleat_input_t *input,
                                                         uint64_t memory_bytes,
                                                         const char *memory_name,
                                                         pleat_torch_snapshot_t **snapshot_out);

/**
 * The settings of a snapshot as a configuration: the text that it was made with, read as PyTorch
 * reads it, and over it the values that were in force. Expandable segments are PyTorch's.
 *
 * @param conf  set up by PLEAT_CONF_INIT; changed in place.
 * @par Cost linear in the text.
 */
void pleat_trace_snapshot_conf(const pleat_torch_settings_t *settings, pleat_conf_t *conf);

/** Number of entries in the history of a device; 0 for a device without one. */
uint64_t pleat_trace_snapshot_entries(const pleat_torch_snapshot_t *snapshot, uint64_t device);

/**
 * Make a trace of the history of @p device.
 *
 * @param name            of the trace; copied.
 * @param[out] trace_out  freed by pleat_trace_destroy; untouched on failure.
 * @retval PLEAT_ERR_INVALID   the device has no history.
 * @retval PLEAT_ERR_FORMAT    more events than a trace may have.
 * @retval PLEAT_ERR_OOM_HOST  no host memory.
 * @par Cost O(n log n) in entries, segments and blocks.
 */
PLEAT_NODISCARD pleat_status_t pleat_trace_snapshot_convert(const pleat_torch_snapshot_t *snapshot,
                                                            uint32_t device, const char *name,
                                                            pleat_trace_t **trace_out);

/**
 * As pleat_trace_snapshot_convert, but with a beginning that makes the very blocks of a classic
 * allocator, free ones included, so that its decisions can be compared (see snapshot_tiling). It
 * allocates more than was live, so it is no trace to replay.
 *
 * @param options  of the recording.
 * @retval PLEAT_ERR_UNSUPPORTED  that cannot be done with this history; the message says why.
 */
PLEAT_NODISCARD pleat_status_t pleat_trace_snapshot_rebuild(const pleat_torch_snapshot_t *snapshot,
                                                            uint32_t device, const char *name,
                                                            const pleat_options_t *options,
                                                            pleat_trace_t **trace_out);

#endif
