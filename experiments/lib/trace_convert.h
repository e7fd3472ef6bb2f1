/*
 * trace_convert: a trace from any form that can be read into the form that the name of the output
 * asks for: NAME.pleat (compact), NAME.trace (text), NAME.trace.gz, .xz or .zst (compressed text).
 * Streams: memory does not grow with the length of the trace.
 */
#ifndef PLEAT_EXPERIMENTS_TRACE_CONVERT_H
#define PLEAT_EXPERIMENTS_TRACE_CONVERT_H

#include "trace_set.h"

/**
 * Convert @p in_path ("-": standard input) to @p out_path. The output appears under its name only
 * when it is complete; a failed conversion leaves nothing behind and an older file as it was.
 *
 * @param options               how a memory snapshot is read; NULL: all defaults. One with the
 *                              histories of several devices needs a device.
 * @param[out] event_count_out  events converted; may be NULL; untouched on failure.
 * @retval PLEAT_ERR_INVALID  the output's name has none of the known suffixes.
 * @retval PLEAT_ERR_FORMAT   the input is no trace, or is damaged.
 * @retval PLEAT_ERR_IO       reading or writing failed.
 * @retval PLEAT_ERR_OOM_HOST no host memory.
 */
PLEAT_NODISCARD pleat_status_t pleat_trace_convert(const char *in_path, const char *out_path,
                                                   const pleat_trace_set_options_t *options,
                                                   uint64_t *event_count_out);

#endif
