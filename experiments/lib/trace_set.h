/*
 * trace_set: the traces that one input holds: one of a trace file, one a device of a memory
 * snapshot.
 * Locks: none; a set belongs to one thread at a time.
 */
#ifndef PLEAT_EXPERIMENTS_TRACE_SET_H
#define PLEAT_EXPERIMENTS_TRACE_SET_H

#include "snapshot_skipped.h"
#include "trace.h"

#include <pleat/torch_snapshot.h>

typedef struct pleat_trace_set_options {
    bool has_device;         /* of a snapshot, take this device only */
    uint64_t device;         /* valid if has_device */
    uint64_t memory_bytes;   /* most host memory to read a snapshot with; 0: the default */
    const char *memory_name; /* what a message calls that limit; NULL: memory_bytes */
} pleat_trace_set_options_t;

typedef struct pleat_trace_set {
    pleat_trace_t **traces;
    size_t count;
    bool has_settings; /* those of a snapshot */
    pleat_torch_settings_t settings;
    pleat_torch_snapshot_t *snapshot;  /* NULL: of no snapshot */
    pleat_snapshot_skipped_t *skipped; /* what was put into its histories; NULL: of no snapshot */
} pleat_trace_set_t;

/**
 * Read all traces of an input, which stays the caller's. A snapshot has one for every device with a
 * history, named FILE:DEVICE if the snapshot has a list for more than one device.
 *
 * @param options       NULL: all defaults.
 * @param[out] set_out  ended by pleat_trace_set_fini; untouched on failure.
 * @retval PLEAT_ERR_FORMAT  no trace, a trace without events, or a snapshot without a history, or
 *                           none of the device that the options ask for.
 * Other errors as pleat_trace_reader_next and pleat_torch_snapshot_read.
 */
PLEAT_NODISCARD pleat_status_t pleat_trace_set_load_input(pleat_input_t *input,
                                                          const pleat_trace_set_options_t *options,
                                                          pleat_trace_set_t *set_out);

/** As pleat_trace_set_load_input, from a path, or from standard input for "-". */
PLEAT_NODISCARD pleat_status_t pleat_trace_set_load(const char *path,
                                                    const pleat_trace_set_options_t *options,
                                                    pleat_trace_set_t *set_out);

/** As pleat_trace_reader_create, with options for a snapshot. */
PLEAT_NODISCARD pleat_status_t
pleat_trace_reader_create_set(pleat_input_t *input, const pleat_trace_set_options_t *options,
                              pleat_trace_reader_t **reader_out);

/** Take a trace out of the set: it is the caller's from now on. */
pleat_trace_t *pleat_trace_set_take(pleat_trace_set_t *set, size_t index);

/** Free a set and the traces in it. */
void pleat_trace_set_fini(pleat_trace_set_t *set);

#endif
