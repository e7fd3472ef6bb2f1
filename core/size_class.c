/*
 * size_class: rounding of requests, choice of pool and of segment size.
 */
#include "size_class.h"

/*
 * Round up to one of `divisions` equal steps between two powers of two. PyTorch applies this only
 * where a step is at least 512 bytes, so that the result is a multiple of 512.
 */
static uint64_t size_round_to_division(uint64_t requested_bytes, uint64_t divisions)
{
    if (pleat_is_power_of_two(requested_bytes)) {
        return requested_bytes;
    }
    const unsigned magnitude = pleat_log2_floor(requested_bytes);
    const uint64_t step = (UINT64_C(1) << magnitude) >> pleat_log2_floor(divisions);
    PLEAT_ASSERT(step >= PLEAT_BLOCK_UNIT_BYTES);
    return pleat_align_up(requested_bytes, step);
}

/* Entry of the round-up table for a size: 0 below 2 MiB, then one a power of two. */
static unsigned size_roundup_index(uint64_t requested_bytes)
{
    const unsigned magnitude = pleat_log2_floor(requested_bytes);
    const unsigned index = magnitude > 20 ? magnitude - 20 : 0;
    return index < PLEAT_ROUNDUP_ENTRIES ? index : PLEAT_ROUNDUP_ENTRIES - 1;
}

uint64_t pleat_size_round(const pleat_options_t *options, uint64_t requested_bytes)
{
    PLEAT_ASSERT(requested_bytes > 0);
    PLEAT_ASSERT(requested_bytes < PLEAT_REQUEST_END_BYTES);
    if (requested_bytes < PLEAT_BLOCK_UNIT_BYTES) {
        return PLEAT_BLOCK_UNIT_BYTES;
    }
    const uint64_t divisions =
        options->roundup_power2_divisions[size_roundup_index(requested_bytes)];
    /* requested_bytes > 512 * divisions, without the product that could overflow */
    if (divisions > 1 && (requested_bytes - 1) / PLEAT_BLOCK_UNIT_BYTES >= divisions) {
        return size_round_to_division(requested_bytes, divisions);
    }
    return pleat_align_up(requested_bytes, PLEAT_BLOCK_UNIT_BYTES);
}

uint64_t pleat_size_segment(const pleat_options_t *options, uint64_t rounded_bytes)
{
    if (pleat_size_is_small(rounded_bytes)) {
        return PLEAT_SMALL_SEGMENT_BYTES;
    }
    if (rounded_bytes < PLEAT_MIN_EXACT_BYTES) {
        return options->large_segment_bytes;
    }
    return pleat_align_up(rounded_bytes, PLEAT_EXACT_UNIT_BYTES);
}
