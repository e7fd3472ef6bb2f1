/*
 * stream_order: see stream_order.h.
 */
#include "stream_order.h"

void pleat_stream_order_note(pleat_stream_order_t *order, uint32_t earlier, uint32_t later)
{
    if (earlier == later || earlier >= PLEAT_STREAM_ORDER_MAX || later >= PLEAT_STREAM_ORDER_MAX) {
        return;
    }
    order->after[earlier] |= UINT64_C(1) << later;
    order->note_count++;
}

/* Lowest stream of the set @p left behind which no other of the set must come first. */
static bool stream_order_first(const pleat_stream_order_t *order, uint64_t left,
                               uint32_t *first_out)
{
    uint64_t behind = 0;
    for (uint32_t i = 0; i < PLEAT_STREAM_ORDER_MAX; i++) {
        if (((left >> i) & 1) != 0) {
            behind |= order->after[i];
        }
    }
    const uint64_t candidates = left & ~behind;
    if (candidates == 0) {
        return false;
    }
    *first_out = (uint32_t)__builtin_ctzll(candidates);
    return true;
}

bool pleat_stream_order_solve(const pleat_stream_order_t *order, uint32_t count,
                              uint32_t *ranks_out)
{
    for (uint32_t i = 0; i < count; i++) {
        ranks_out[i] = i;
    }
    if (order->note_count == 0) {
        return true;
    }
    const uint32_t ordered = count < PLEAT_STREAM_ORDER_MAX ? count : PLEAT_STREAM_ORDER_MAX;
    uint32_t found[PLEAT_STREAM_ORDER_MAX] = {0};
    uint64_t left = ordered == PLEAT_STREAM_ORDER_MAX ? UINT64_MAX : (UINT64_C(1) << ordered) - 1;
    for (uint32_t rank = 0; rank < ordered; rank++) {
        uint32_t first = 0;
        if (!stream_order_first(order, left, &first)) {
            return false;
        }
        found[first] = rank;
        left &= ~(UINT64_C(1) << first);
    }
    for (uint32_t i = 0; i < ordered; i++) {
        ranks_out[i] = found[i];
    }
    return true;
}
