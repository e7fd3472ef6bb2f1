/*
 * stream_order: an order of streams that explains what a trace shows. Classic mode gives segments
 * back in the order of stream handles, but a trace may number its streams by first use; every pair
 * of segments freed one after the other tells which of two handles is the smaller.
 *
 * Streams are indices in the order of their recorded numbers, which is kept unless the trace
 * contradicts it.
 * Locks: none; an order belongs to one thread at a time.
 */
#ifndef PLEAT_EXPERIMENTS_STREAM_ORDER_H
#define PLEAT_EXPERIMENTS_STREAM_ORDER_H

#include <pleat/base.h>

#define PLEAT_STREAM_ORDER_MAX 64u /* streams beyond this keep their recorded order */

typedef struct pleat_stream_order {
    uint64_t after[PLEAT_STREAM_ORDER_MAX]; /* bit k of after[i]: k was seen behind i */
    uint64_t note_count;                    /* pairs of different streams that were seen */
} pleat_stream_order_t;

/** Note that @p later was seen behind @p earlier; the same stream twice says nothing. */
void pleat_stream_order_note(pleat_stream_order_t *order, uint32_t earlier, uint32_t later);

/**
 * Find ranks that agree with everything noted; among the possible ones that nearest to the order
 * of the indices.
 *
 * @param[out] ranks_out  @p count ranks from 0, one a stream; the identity when nothing fits.
 * @return whether there is such an order.
 * @par Cost O(count²).
 */
bool pleat_stream_order_solve(const pleat_stream_order_t *order, uint32_t count,
                              uint32_t *ranks_out);

#endif
