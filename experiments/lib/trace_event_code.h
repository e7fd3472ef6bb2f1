/*
 * trace_event_code: how one event becomes numbers in the columns of a trace_block, and back. Writer
 * and reader keep the same state and change it in the same way after every event; that is what
 * makes the references exact.
 * Locks: none; its owner's.
 */
#ifndef PLEAT_EXPERIMENTS_TRACE_EVENT_CODE_H
#define PLEAT_EXPERIMENTS_TRACE_EVENT_CODE_H

#include "trace.h"
#include "trace_block.h"
#include "trace_live.h"
#include "trace_placement.h"

typedef struct pleat_trace_coder {
    pleat_trace_live_t live;
    pleat_trace_placement_t placement;
    pleat_devptr_t last_address;
    uint64_t last_time_us;
} pleat_trace_coder_t;

void pleat_trace_coder_init(pleat_trace_coder_t *coder);
void pleat_trace_coder_fini(pleat_trace_coder_t *coder);

/* Can this event be one half of a pair: a request of a free whose allocation has an age? */
bool pleat_trace_coder_begins_pair(const pleat_trace_coder_t *coder,
                                   const pleat_trace_event_t *event);

/* Is @p second the completion of @p first, which begins a pair? */
bool pleat_trace_coder_is_pair(const pleat_trace_event_t *first, const pleat_trace_event_t *second);

/* Append an event, or a pair if @p second is not NULL, to the block. False: no host memory. */
PLEAT_NODISCARD bool pleat_trace_coder_put(pleat_trace_coder_t *coder, pleat_trace_block_t *block,
                                           const pleat_trace_event_t *first,
                                           const pleat_trace_event_t *second);

/**
 * Read the next event of the block, or two if they are a pair.
 *
 * @param[out] events     room for two.
 * @param[out] count_out  1 or 2.
 * @param[out] cause_out  static text of what is wrong, set with PLEAT_ERR_FORMAT.
 * @retval PLEAT_ERR_FORMAT, PLEAT_ERR_OOM_HOST  the coder is of no more use.
 */
PLEAT_NODISCARD pleat_status_t pleat_trace_coder_get(pleat_trace_coder_t *coder,
                                                     pleat_trace_block_t *block,
                                                     pleat_trace_event_t events[2],
                                                     size_t *count_out, const char **cause_out);

#endif
