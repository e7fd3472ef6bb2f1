/*
 * size_class: rounding to parts of a power of two; the rest is inline.
 */
#include "size_class.h"

uint64_t pleat_size_round_to_division(uint64_t requested_bytes, uint64_t divisions)
{
    if (pleat_is_power_of_two(requested_bytes)) {
        return requested_bytes;
    }
    const unsigned magnitude = pleat_log2_floor(requested_bytes);
    const uint64_t step = (UINT64_C(1) << magnitude) >> pleat_log2_floor(divisions);
    PLEAT_ASSERT(step >= PLEAT_BLOCK_UNIT_BYTES);
    return pleat_align_up(requested_bytes, step);
}
