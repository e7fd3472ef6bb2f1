/*
 * trace_text: the text form of traces, one event a line:
 *
 *     action address size stream time_us
 *
 * The action is one of core's, the address hexadecimal, the rest decimal. Lines that begin with `#`
 * and empty lines are skipped. The canonical form has single blanks, lower-case hexadecimal digits
 * without prefix, and a first comment line that names the columns.
 */
#ifndef PLEAT_EXPERIMENTS_TRACE_TEXT_H
#define PLEAT_EXPERIMENTS_TRACE_TEXT_H

#include "trace.h"

/* First line of the canonical form, with its line end. */
#define PLEAT_TRACE_TEXT_HEADER "# action address_hex size_bytes stream_index time_us\n"

/* Room that one formatted event needs at most. */
#define PLEAT_TRACE_TEXT_LINE_BYTES 128

#define PLEAT_TRACE_STREAM_MAX UINT64_C(4294967294)

/**
 * Read the next event of a text.
 *
 * @param[out] has_event_out  false at the end.
 * @retval PLEAT_ERR_FORMAT  the line is wrong; the message has file, line, column and form.
 * Other errors as pleat_input_read_line.
 */
PLEAT_NODISCARD pleat_status_t pleat_trace_text_read(pleat_input_t *input,
                                                     pleat_trace_event_t *event_out,
                                                     bool *has_event_out);

/** Write one canonical line with its line end; returns its length. Nothing is terminated. */
size_t pleat_trace_text_format(const pleat_trace_event_t *event,
                               char line[PLEAT_TRACE_TEXT_LINE_BYTES]);

/**
 * What every event of a trace must keep, in any form: a known action, a stream of at most
 * PLEAT_TRACE_STREAM_MAX, and an end (address + bytes) below 2^64, except for `oom`, whose address
 * is a number of bytes.
 * @return NULL if it does, else what is wrong; static.
 */
const char *pleat_trace_event_fault(const pleat_trace_event_t *event);

#endif
