/*
 * size_class: from a requested size to a rounded size, a pool and a segment size. Pure functions.
 *
 * Source: the behaviour of PyTorch 2.11's CUDA caching allocator.
 */
#ifndef PLEAT_SIZE_CLASS_H
#define PLEAT_SIZE_CLASS_H

#include <pleat/options.h>

#include "../vmm/base.h"

#define PLEAT_BLOCK_UNIT_BYTES UINT64_C(512)      /* every block is a multiple of this */
#define PLEAT_SMALL_MAX_BYTES PLEAT_MIB           /* largest rounded size of the small pool */
#define PLEAT_SMALL_SEGMENT_BYTES (2 * PLEAT_MIB) /* segment of the small pool */
#define PLEAT_MIN_EXACT_BYTES (10 * PLEAT_MIB)    /* from here on a request has its own segment */
#define PLEAT_EXACT_UNIT_BYTES (2 * PLEAT_MIB)    /* those segments are multiples of this */
#define PLEAT_REQUEST_END_BYTES                                      \
    (UINT64_C(1) << 60) /* requests of this size or more are refused \
                         */

/*
 * Round up to one of @p divisions equal steps between two powers of two. PyTorch applies this only
 * where a step is at least 512 bytes, so that the result is a multiple of 512.
 */
uint64_t pleat_size_round_to_division(uint64_t requested_bytes, uint64_t divisions);

/* Entry of the round-up table for a size: 0 below 2 MiB, then one a power of two. */
static inline unsigned pleat_size_roundup_index(uint64_t requested_bytes)
{
    const unsigned magnitude = pleat_log2_floor(requested_bytes);
    const unsigned index = magnitude > 20 ? magnitude - 20 : 0;
    return index < PLEAT_ROUNDUP_ENTRIES ? index : PLEAT_ROUNDUP_ENTRIES - 1;
}

/* Rounded size of a request in [1, PLEAT_REQUEST_END_BYTES); a multiple of 512 bytes. */
static inline uint64_t pleat_size_round(const pleat_options_t *options, uint64_t requested_bytes)
{
    PLEAT_ASSERT(requested_bytes > 0);
    PLEAT_ASSERT(requested_bytes < PLEAT_REQUEST_END_BYTES);
    if (requested_bytes < PLEAT_BLOCK_UNIT_BYTES) {
        return PLEAT_BLOCK_UNIT_BYTES;
    }
    const uint64_t divisions =
        options->roundup_power2_divisions[pleat_size_roundup_index(requested_bytes)];
    /* requested_bytes > 512 * divisions, without the product that could overflow */
    if (divisions > 1 && (requested_bytes - 1) / PLEAT_BLOCK_UNIT_BYTES >= divisions) {
        return pleat_size_round_to_division(requested_bytes, divisions);
    }
    return pleat_align_up(requested_bytes, PLEAT_BLOCK_UNIT_BYTES);
}

/* Is a rounded size served by the small pool? */
static inline bool pleat_size_is_small(uint64_t rounded_bytes)
{
    return rounded_bytes <= PLEAT_SMALL_MAX_BYTES;
}

/* Bytes of a plain segment obtained for a rounded size. */
static inline uint64_t pleat_size_segment(const pleat_options_t *options, uint64_t rounded_bytes)
{
    if (pleat_size_is_small(rounded_bytes)) {
        return PLEAT_SMALL_SEGMENT_BYTES;
    }
    if (rounded_bytes < PLEAT_MIN_EXACT_BYTES) {
        return options->large_segment_bytes;
    }
    return pleat_align_up(rounded_bytes, PLEAT_EXACT_UNIT_BYTES);
}

#endif
