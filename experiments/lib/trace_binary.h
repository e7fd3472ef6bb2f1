/*
 * trace_binary: Pleat's compact form of traces (NAME.pleat), read and written as a stream.
 *
 *     magic (8 bytes, input_kind.h)   version   { 'B' block checksum }   'E' event count checksum
 *
 * A block (trace_block) holds up to 2^20 events as columns. A checksum is the CRC-32 of everything
 * since the checksum before, started with that one, lowest byte first: a missing, doubled or moved
 * block shows, too. The end tells a complete file from a truncated one.
 *
 * Nothing is stored that can be told from the events before: the address of an allocation where
 * trace_placement guesses it, the address, size and stream of a free whose allocation trace_live
 * knows, the completion of a free that follows its request. The form is exact for any sequence of
 * events.
 * Locks: none; a reader and a writer belong to one thread at a time.
 */
#ifndef PLEAT_EXPERIMENTS_TRACE_BINARY_H
#define PLEAT_EXPERIMENTS_TRACE_BINARY_H

#include "output.h"
#include "trace.h"

typedef struct pleat_trace_binary_reader pleat_trace_binary_reader_t;
typedef struct pleat_trace_binary_writer pleat_trace_binary_writer_t;

/**
 * Begin to read at the start of an input, which stays the caller's and must outlive the reader.
 * @retval PLEAT_ERR_FORMAT    no magic, or an unknown version.
 * @retval PLEAT_ERR_OOM_HOST  no host memory.
 */
PLEAT_NODISCARD pleat_status_t
pleat_trace_binary_reader_create(pleat_input_t *input, pleat_trace_binary_reader_t **reader_out);

/** Free a reader; NULL is ignored. */
void pleat_trace_binary_reader_destroy(pleat_trace_binary_reader_t *reader);

/**
 * Read the next event.
 * @param[out] has_event_out  false at the end.
 * @retval PLEAT_ERR_FORMAT  damaged or truncated; the message has the byte and the block. Nothing
 *                           of a damaged block is handed out.
 * @retval PLEAT_ERR_OOM_HOST, PLEAT_ERR_IO  as they say.
 */
PLEAT_NODISCARD pleat_status_t pleat_trace_binary_read(pleat_trace_binary_reader_t *reader,
                                                       pleat_trace_event_t *event_out,
                                                       bool *has_event_out);

/** Begin to write; the output stays the caller's. @retval PLEAT_ERR_OOM_HOST, PLEAT_ERR_IO */
PLEAT_NODISCARD pleat_status_t
pleat_trace_binary_writer_create(pleat_output_t *output, pleat_trace_binary_writer_t **writer_out);

/** Free a writer; without pleat_trace_binary_finish the file stays incomplete. NULL is ignored. */
void pleat_trace_binary_writer_destroy(pleat_trace_binary_writer_t *writer);

/**
 * Append an event.
 * @retval PLEAT_ERR_INVALID  an event that no trace may have (pleat_trace_event_fault).
 * @retval PLEAT_ERR_OOM_HOST, PLEAT_ERR_IO  as they say; the writer is of no more use.
 */
PLEAT_NODISCARD pleat_status_t pleat_trace_binary_write(pleat_trace_binary_writer_t *writer,
                                                        const pleat_trace_event_t *event);

/** Write what is left and the end mark. Errors as pleat_trace_binary_write. */
PLEAT_NODISCARD pleat_status_t pleat_trace_binary_finish(pleat_trace_binary_writer_t *writer);

#endif
