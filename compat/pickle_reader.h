/*
 * pickle_reader: reads a pickle of Python, protocol 2 to 5, into values, and never runs any of it.
 *
 * A pickle is a program for a stack machine. The reader knows the opcodes that build plain data
 * (numbers, strings, bytes, tuples, lists, dictionaries, and references to earlier values) and
 * refuses all others by name and byte: GLOBAL, REDUCE, BUILD and their like would name or call
 * code. The file need not be trusted: memory stays below a limit, at most PLEAT_PICKLE_MARKS_MAX
 * marks may be open, time is linear in the length of the file, and nothing recurses.
 *
 * The format is described in the module pickletools of Python.
 */
#ifndef PLEAT_COMPAT_PICKLE_READER_H
#define PLEAT_COMPAT_PICKLE_READER_H

#include "pickle_value.h"

enum {
    PLEAT_PICKLE_MARKS_MAX = 1000,
    PLEAT_PICKLE_PROTOCOL_MIN = 2,
    PLEAT_PICKLE_PROTOCOL_MAX = 5
};

/* Up to @p capacity bytes into @p buffer; fewer than asked for only at the end. */
typedef pleat_status_t (*pleat_pickle_read_fn_t)(void *context, void *buffer, size_t capacity,
                                                 size_t *count_out);

typedef struct pleat_pickle_source {
    pleat_pickle_read_fn_t read;
    void *context;
    const char *name;       /* of the file, for messages */
    const char *limit_name; /* what a message calls the limit of memory */
} pleat_pickle_source_t;

/**
 * Read one pickle. What stands behind its STOP is left alone, as in Python.
 *
 * @param storage         set up by pleat_pickle_storage_init; the caller ends it, after a failure
 *                        too.
 * @param[out] value_out  untouched on failure.
 * @retval PLEAT_ERR_FORMAT    the message has file and byte, and what was expected.
 * @retval PLEAT_ERR_OOM_HOST  the limit of the storage, or no host memory.
 * Errors of the source are passed on.
 * @par Cost linear in the bytes.
 */
PLEAT_NODISCARD pleat_status_t pleat_pickle_read(const pleat_pickle_source_t *source,
                                                 pleat_pickle_storage_t *storage,
                                                 pleat_pickle_value_t *value_out);

/** Set the error text for a failure of @p storage to give memory; returns PLEAT_ERR_OOM_HOST. */
pleat_status_t pleat_pickle_no_memory(const pleat_pickle_source_t *source,
                                      const pleat_pickle_storage_t *storage, uint64_t offset);

#endif
