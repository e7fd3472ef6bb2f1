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

/* Rounded size of a request in [1, PLEAT_REQUEST_END_BYTES); a multiple of 512 bytes. */
uint64_t pleat_size_round(const pleat_options_t *options, uint64_t requested_bytes);

/* Is a rounded size served by the small pool? */
static inline bool pleat_size_is_small(uint64_t rounded_bytes)
{
    return rounded_bytes <= PLEAT_SMALL_MAX_BYTES;
}

/* Bytes of a plain segment obtained for a rounded size. */
uint64_t pleat_size_segment(const pleat_options_t *options, uint64_t rounded_bytes);

#endif
