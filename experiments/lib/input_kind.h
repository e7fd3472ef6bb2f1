/*
 * input_kind: what some content is, told by its first bytes. Used by input when it opens.
 */
#ifndef PLEAT_EXPERIMENTS_INPUT_KIND_H
#define PLEAT_EXPERIMENTS_INPUT_KIND_H

#include "input.h"

/* First bytes of the compact form of traces. The byte above 127 and the line end show at once when
 * a transfer has treated the file as text. */
#define PLEAT_TRACE_BINARY_MAGIC "\x89PLEAT\r\n"
#define PLEAT_TRACE_BINARY_MAGIC_BYTES 8

/**
 * Recognise unpacked content.
 *
 * A text counts by its first line that is neither empty nor a comment: a trace has five words of
 * which the first is an action, everything else that begins with a word of sessions is a case, and
 * a `pleat-oracle` line makes it a recording. Where that line is damaged so that it tells nothing,
 * those behind it decide.
 *
 * @param text  the beginning of the content, not terminated.
 */
pleat_input_kind_t pleat_input_kind_recognize(const char *text, size_t length);

#endif
