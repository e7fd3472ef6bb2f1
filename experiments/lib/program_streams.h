/*
 * program_streams (internal to program_reader): the streams of a trace, and the handles that a
 * replay uses for them.
 * Locks: none.
 */
#ifndef PLEAT_EXPERIMENTS_PROGRAM_STREAMS_H
#define PLEAT_EXPERIMENTS_PROGRAM_STREAMS_H

#include "program.h"
#include "stream_order.h"

/** Fill program->streams. @retval PLEAT_ERR_OOM_HOST @par Cost O(events log streams). */
PLEAT_NODISCARD pleat_status_t pleat_program_streams_collect(pleat_program_t *program,
                                                             const pleat_trace_t *trace);

/** Index of a stream that is among them. @par Cost O(log streams). */
uint32_t pleat_program_stream_index(const pleat_program_t *program, pleat_stream_t stream);

/** Fill program->handles, in an order that agrees with what was seen. @retval PLEAT_ERR_OOM_HOST */
PLEAT_NODISCARD pleat_status_t
pleat_program_streams_choose_handles(pleat_program_t *program, const pleat_stream_order_t *order);

#endif
