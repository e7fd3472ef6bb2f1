/*
 * input: a file or standard input as a stream of plain bytes. What is compressed (gzip, xz, zstd)
 * is unpacked on the way, and the kind of the content is recognised by its first bytes, never by
 * the file's name. Memory is bounded whatever the size of the content.
 *
 * Readers of one kind (trace_text, trace_binary, session) take an input, not a path, because
 * standard input cannot be opened twice. The unpacking itself is in decoder.
 * Locks: none; an input belongs to one thread at a time.
 */
#ifndef PLEAT_EXPERIMENTS_INPUT_H
#define PLEAT_EXPERIMENTS_INPUT_H

#include <pleat/base.h>

/* X(name, text): what the content of an input is. */
#define PLEAT_INPUT_KIND_LIST(X)                                   \
    X(UNKNOWN, "an unknown kind of file")                          \
    X(TRACE_TEXT, "an allocation trace as text")                   \
    X(TRACE_BINARY, "an allocation trace in Pleat's compact form") \
    X(RECORDING, "a recorded session")                             \
    X(CASE, "a hand-written case")                                 \
    X(PICKLE, "a pickle file")

typedef enum pleat_input_kind {
#define PLEAT_INPUT_KIND_ENUM(name, text) PLEAT_INPUT_##name,
    PLEAT_INPUT_KIND_LIST(PLEAT_INPUT_KIND_ENUM)
#undef PLEAT_INPUT_KIND_ENUM
        PLEAT_INPUT_KIND_COUNT
} pleat_input_kind_t;

typedef struct pleat_input pleat_input_t;

/* One line of an input, without its line end. */
typedef struct pleat_input_line {
    const char *text; /* not terminated; valid until the next call on the input */
    size_t length;
    uint64_t number; /* from 1 */
} pleat_input_line_t;

/**
 * Open @p path, or standard input for "-", and look at its beginning.
 *
 * @param[out] input_out  closed by pleat_input_close; untouched on failure.
 * @retval PLEAT_ERR_IO        cannot be opened or read; the message names the path and the cause.
 * @retval PLEAT_ERR_FORMAT    compressed, but damaged within the first bytes.
 * @retval PLEAT_ERR_OOM_HOST  no host memory.
 * @par Threads any.   @par Cost reads up to 64 KiB.
 */
PLEAT_NODISCARD pleat_status_t pleat_input_open(const char *path, pleat_input_t **input_out);

/**
 * Open bytes in memory, which stay the caller's and must outlive the input. Everything else is as
 * for pleat_input_open.
 *
 * @param name  for messages; copied.
 */
PLEAT_NODISCARD pleat_status_t pleat_input_open_memory(const char *name, const void *data,
                                                       size_t data_bytes,
                                                       pleat_input_t **input_out);

/** Close and free an input; NULL is ignored. @par Cost constant. */
void pleat_input_close(pleat_input_t *input);

/** The path, or "standard input"; for messages. @par Cost constant. */
const char *pleat_input_name(const pleat_input_t *input);

/** What the content is, seen when the input was opened. @par Cost constant. */
pleat_input_kind_t pleat_input_kind(const pleat_input_t *input);

/** Text of a kind, for messages. @par Threads any.   @par Cost constant; the string is static. */
const char *pleat_input_kind_text(pleat_input_kind_t kind);

/**
 * Set the error text for an input of a kind that the caller does not read: what it seems to be, and
 * what can be read instead. The caller returns PLEAT_ERR_FORMAT.
 *
 * @param wanted  what the caller reads, such as "a trace".
 */
void pleat_input_refuse(const pleat_input_t *input, const char *wanted);

/**
 * Read up to @p capacity unpacked bytes; fewer than asked for only at the end.
 *
 * @param[out] count_out  bytes read; 0 at the end. Untouched on failure.
 * @retval PLEAT_ERR_FORMAT  the compressed data is damaged or truncated; the message has the
 *                           position in the compressed file.
 * @retval PLEAT_ERR_IO      reading failed.
 * @par Cost O(bytes).
 */
PLEAT_NODISCARD pleat_status_t pleat_input_read(pleat_input_t *input, void *buffer, size_t capacity,
                                                size_t *count_out);

/**
 * Read the next line; its last one may lack the line end. A carriage return before the line end is
 * dropped.
 *
 * @param[out] has_line_out  false at the end.
 * Errors as pleat_input_read; PLEAT_ERR_FORMAT for a zero byte or a line beyond 16 MiB, and
 * PLEAT_ERR_OOM_HOST when a line outgrows host memory.
 */
PLEAT_NODISCARD pleat_status_t pleat_input_read_line(pleat_input_t *input,
                                                     pleat_input_line_t *line_out,
                                                     bool *has_line_out);

/** Unpacked bytes handed out so far. @par Cost constant. */
uint64_t pleat_input_offset(const pleat_input_t *input);

#endif
