/*
 * range: a reserved address range of one stream and pool, as PyTorch's expandable segments have
 * them. Its blocks tile it; each is mapped (free, live, waiting) or unmapped. Memory comes and goes
 * in pages of one size.
 *
 * Invariants (check.c): R1 the pages under a mapped block are mapped, those under an unmapped block
 * are not; R2 unmapped blocks begin and end on pages; R3 unmapped neighbours do not exist.
 * Guarded by the lock of the owning allocator.
 *
 * Source: PyTorch 2.11's expandable segments, decision for decision.
 */
#ifndef PLEAT_RANGE_H
#define PLEAT_RANGE_H

#include "backing.h"

#include "../vmm/chunked_range.h"

struct pleat_range {
    pleat_chunked_range_t pages;
    pleat_range_t *next; /* all ranges of the allocator */
    pleat_range_t *previous;
};

/* Of @p bytes of free memory at @p address, what lies on pages that also hold something in use:
 * everything but the whole pages. */
static inline uint64_t pleat_range_pinned_bytes(const pleat_range_t *range, pleat_devptr_t address,
                                                uint64_t bytes)
{
    const uint64_t page_bytes = range->pages.page_bytes;
    const uint64_t begin = address - range->pages.address;
    const uint64_t first = begin / page_bytes + (begin % page_bytes != 0);
    const uint64_t last = (begin + bytes) / page_bytes;
    return first < last ? bytes - (last - first) * page_bytes : bytes;
}

/*
 * Reserve a range for the stream and pool of @p request; its one unmapped block stands in the
 * pool's list. A block must be in reserve. ERR_OOM_HOST, or the device's error: nothing changed.
 */
PLEAT_NODISCARD pleat_status_t pleat_range_create(pleat_allocator_t *allocator,
                                                  const pleat_request_t *request,
                                                  pleat_block_t **block_out);

/*
 * Map at least @p bytes at the start of an unmapped block, in whole pages. The block becomes free,
 * absorbs free neighbours and stands in the free set; what stays unmapped is cut off behind it. A
 * block must be in reserve. The device's error: nothing changed.
 */
PLEAT_NODISCARD pleat_status_t pleat_range_map_block(pleat_allocator_t *allocator,
                                                     pleat_block_t *block, uint64_t bytes);

/*
 * Give the whole pages of a free block back; what lies on pages beside them stays free. Waits for
 * the block's stream. A range without any mapped block is destroyed. Without a whole page nothing
 * happens. ERR_OOM_HOST or the device's error; pages that are gone by then are accounted for.
 */
PLEAT_NODISCARD pleat_status_t pleat_range_release_block(pleat_allocator_t *allocator,
                                                         pleat_block_t *block);

/* Cut @p low_bytes off the low end of a free block, as a free block of its own; both stay in the
 * set until one of them is used. A block must be in reserve. */
void pleat_range_split_free(pleat_allocator_t *allocator, pleat_block_t *block, uint64_t low_bytes);

/* Destroy the ranges of a pool in which nothing is mapped: a device that had no page left them. */
void pleat_range_end_unmapped(pleat_allocator_t *allocator, pleat_pool_t *pool);

/* Unmap and free a range whatever its blocks do; the allocator is being destroyed. */
void pleat_range_discard(pleat_allocator_t *allocator, pleat_range_t *range);

#endif
