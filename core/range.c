/*
 * range: reservation, mapping and unmapping of blocks.
 */
#include "range.h"

#include <stdlib.h>

#include "allocator.h"

/* ---- life ---- */

static void range_link(pleat_allocator_t *allocator, pleat_range_t *range)
{
    range->next = allocator->ranges;
    if (range->next != NULL) {
        range->next->previous = range;
    }
    allocator->ranges = range;
}

static void range_unlink(pleat_allocator_t *allocator, pleat_range_t *range)
{
    if (range->previous != NULL) {
        range->previous->next = range->next;
    } else {
        allocator->ranges = range->next;
    }
    if (range->next != NULL) {
        range->next->previous = range->previous;
    }
}

static uint64_t range_page_bytes(const pleat_allocator_t *allocator, const pleat_pool_t *pool)
{
    return pleat_pool_is_small(pool) ? PLEAT_SMALL_SEGMENT_BYTES
                                     : allocator->options.large_segment_bytes;
}

pleat_status_t pleat_range_create(pleat_allocator_t *allocator, const pleat_request_t *request,
                                  pleat_block_t **block_out)
{
    uint64_t free_bytes = 0;
    uint64_t total_bytes = 0;
    pleat_status_t status = pleat_vmm_mem_info(allocator->vmm, &free_bytes, &total_bytes);
    if (status != PLEAT_OK) {
        return status;
    }
    pleat_range_t *range = calloc(1, sizeof(*range));
    if (range == NULL) {
        pleat_error_set("no host memory for an address range");
        return PLEAT_ERR_OOM_HOST;
    }
    /* An eighth more than the device has, so that holes of unmapped pages do not use it up. */
    const uint64_t page_bytes = range_page_bytes(allocator, request->pool);
    const uint64_t wanted_bytes = total_bytes + total_bytes / 8;
    const uint64_t page_count = wanted_bytes / page_bytes + (wanted_bytes % page_bytes != 0);
    status = pleat_chunked_range_init(&range->pages, allocator->vmm, page_bytes, page_count);
    if (status != PLEAT_OK) {
        free(range);
        return status;
    }
    const pleat_block_identity_t identity = {.address = range->pages.address,
                                             .bytes = page_bytes * page_count,
                                             .stream = request->stream,
                                             .pool = request->pool,
                                             .bins = request->bins,
                                             .use = PLEAT_BLOCK_USE_UNMAPPED};
    pleat_block_t *block = pleat_block_store_make(&allocator->blocks, &identity);
    block->range = range;
    pleat_unmapped_list_insert(&request->pool->unmapped, block);
    range_link(allocator, range);
    pleat_private_pool_hold(request->pool->owner);
    *block_out = block;
    return PLEAT_OK;
}

static void range_destroy(pleat_allocator_t *allocator, pleat_block_t *block)
{
    pleat_range_t *range = block->range;
    PLEAT_ASSERT(!pleat_block_is_split(block));
    pleat_private_pool_let_go(block->pool->owner);
    pleat_unmapped_list_remove(&block->pool->unmapped, block);
    pleat_block_store_give(&allocator->blocks, block);
    range_unlink(allocator, range);
    pleat_chunked_range_fini(&range->pages, allocator->vmm);
    free(range);
}

void pleat_range_end_unmapped(pleat_allocator_t *allocator, pleat_pool_t *pool)
{
    pleat_block_t *next = NULL;
    for (pleat_block_t *block = pool->unmapped.first; block != NULL; block = next) {
        next = block->child[1];
        if (!pleat_block_is_split(block)) {
            range_destroy(allocator, block);
        }
    }
}

void pleat_range_discard(pleat_allocator_t *allocator, pleat_range_t *range)
{
    for (uint64_t page = 0; page < range->pages.page_count; page++) {
        if (range->pages.chunks[page] != 0) {
            uint64_t done = 0;
            const pleat_status_t ignored =
                pleat_chunked_range_unmap(&range->pages, allocator->vmm, page, 1, &done);
            (void)ignored;
        }
    }
    range_unlink(allocator, range);
    pleat_chunked_range_fini(&range->pages, allocator->vmm);
    free(range);
}

/* ---- free blocks ---- */

static int64_t range_pinned_bytes(const pleat_block_t *block)
{
    return (int64_t)pleat_range_pinned_bytes(block->range, block->address, block->bytes);
}

static void range_give(pleat_allocator_t *allocator, pleat_block_t *block)
{
    pleat_pool_give(block->pool, block);
    allocator->stats.unreturnable_bytes += range_pinned_bytes(block);
}

static void range_take(pleat_allocator_t *allocator, pleat_block_t *block)
{
    pleat_pool_take(block->pool, block);
    allocator->stats.unreturnable_bytes -= range_pinned_bytes(block);
}

/* ---- mapping ---- */

/* Absorb a neighbour of the same use, which stands in no set any more. */
static void range_absorb_free(pleat_allocator_t *allocator, pleat_block_t *block,
                              pleat_block_t *other)
{
    if (other != NULL && other->use == PLEAT_BLOCK_USE_FREE) {
        range_take(allocator, other);
        (void)pleat_block_absorb(&allocator->blocks, block, other);
    }
}

static void range_absorb_unmapped(pleat_allocator_t *allocator, pleat_block_t *block,
                                  pleat_block_t *other)
{
    if (other != NULL && other->use == PLEAT_BLOCK_USE_UNMAPPED) {
        pleat_unmapped_list_remove(&other->pool->unmapped, other);
        (void)pleat_block_absorb(&allocator->blocks, block, other);
    }
}

pleat_status_t pleat_range_map_block(pleat_allocator_t *allocator, pleat_block_t *block,
                                     uint64_t bytes)
{
    PLEAT_ASSERT(block->use == PLEAT_BLOCK_USE_UNMAPPED);
    pleat_chunked_range_t *pages = &block->range->pages;
    const uint64_t offset = block->address - pages->address;
    PLEAT_ASSERT(offset % pages->page_bytes == 0);
    const uint64_t page_count = bytes / pages->page_bytes + (bytes % pages->page_bytes != 0);
    const uint64_t mapped_bytes = page_count * pages->page_bytes;
    PLEAT_ASSERT(mapped_bytes <= block->bytes);
    const pleat_status_t status =
        pleat_chunked_range_map(pages, allocator->vmm, offset / pages->page_bytes, page_count);
    if (status != PLEAT_OK) {
        return status;
    }
    pleat_pool_t *pool = block->pool;
    pleat_unmapped_list_remove(&pool->unmapped, block);
    if (mapped_bytes < block->bytes) {
        pleat_block_t *rest = pleat_block_store_take(&allocator->blocks);
        pleat_block_split_high(block, mapped_bytes, rest);
        pleat_unmapped_list_insert(&pool->unmapped, rest);
    }
    const pleat_devptr_t address = block->address;
    block->use = PLEAT_BLOCK_USE_FREE;
    range_absorb_free(allocator, block, block->left);
    range_absorb_free(allocator, block, block->right);
    range_give(allocator, block);
    allocator->held_bytes += mapped_bytes;
    pleat_stats_increase(allocator->stats.reserved_bytes, pool->kind, mapped_bytes);
    allocator->stats.num_device_alloc += 1;
    pleat_stats_map(&allocator->stats, page_count);
    pleat_allocator_trace(allocator, PLEAT_ACTION_SEGMENT_MAP, address, mapped_bytes,
                          block->stream);
    return PLEAT_OK;
}

/* ---- unmapping ---- */

/* Cut the part in front of @p low_bytes off a free block, as a free block of its own. */
static void range_cut_head(pleat_allocator_t *allocator, pleat_block_t *block, uint64_t low_bytes)
{
    if (low_bytes > 0) {
        pleat_block_t *head = pleat_block_store_take(&allocator->blocks);
        pleat_block_split(block, low_bytes, head);
        range_give(allocator, head);
    }
}

/* Cut the part behind @p low_bytes off a free block, as a free block of its own. */
static void range_cut_tail(pleat_allocator_t *allocator, pleat_block_t *block, uint64_t low_bytes)
{
    if (low_bytes < block->bytes) {
        pleat_block_t *tail = pleat_block_store_take(&allocator->blocks);
        pleat_block_split_high(block, low_bytes, tail);
        range_give(allocator, tail);
    }
}

void pleat_range_split_free(pleat_allocator_t *allocator, pleat_block_t *block, uint64_t low_bytes)
{
    range_take(allocator, block);
    range_cut_head(allocator, block, low_bytes);
    range_give(allocator, block);
}

/* The pages of a free block are gone, @p page_count of them from the first whole one on. */
static void range_commit_unmap(pleat_allocator_t *allocator, pleat_block_t *block,
                               uint64_t head_bytes, uint64_t unmapped_bytes)
{
    pleat_pool_t *pool = block->pool;
    range_take(allocator, block);
    range_cut_head(allocator, block, head_bytes);
    range_cut_tail(allocator, block, unmapped_bytes);
    const pleat_devptr_t address = block->address;
    const pleat_stream_t stream = block->stream;
    block->use = PLEAT_BLOCK_USE_UNMAPPED;
    range_absorb_unmapped(allocator, block, block->left);
    range_absorb_unmapped(allocator, block, block->right);
    pleat_unmapped_list_insert(&pool->unmapped, block);
    PLEAT_ASSERT(allocator->held_bytes >= unmapped_bytes);
    allocator->held_bytes -= unmapped_bytes;
    pleat_stats_decrease(allocator->stats.reserved_bytes, pool->kind, unmapped_bytes);
    allocator->stats.num_device_free += 1;
    pleat_stats_unmap(&allocator->stats, unmapped_bytes / block->range->pages.page_bytes);
    pleat_allocator_trace(allocator, PLEAT_ACTION_SEGMENT_UNMAP, address, unmapped_bytes, stream);
    if (!pleat_block_is_split(block)) {
        range_destroy(allocator, block);
    }
}

pleat_status_t pleat_range_release_block(pleat_allocator_t *allocator, pleat_block_t *block)
{
    PLEAT_ASSERT(block->use == PLEAT_BLOCK_USE_FREE);
    pleat_chunked_range_t *pages = &block->range->pages;
    const uint64_t begin = block->address - pages->address;
    const uint64_t first = begin / pages->page_bytes + (begin % pages->page_bytes != 0);
    const uint64_t last = (begin + block->bytes) / pages->page_bytes;
    if (first >= last) {
        return PLEAT_OK;
    }
    if (!pleat_block_store_reserve(&allocator->blocks, 2)) {
        pleat_error_set("no host memory to give back a part of a block");
        return PLEAT_ERR_OOM_HOST;
    }
    /* Other streams that used the block would still have events pending. */
    pleat_status_t status = pleat_vmm_stream_synchronize(allocator->vmm, block->stream);
    if (status != PLEAT_OK) {
        return status;
    }
    uint64_t done = 0;
    status = pleat_chunked_range_unmap(pages, allocator->vmm, first, last - first, &done);
    if (done > 0) {
        range_commit_unmap(allocator, block, first * pages->page_bytes - begin,
                           done * pages->page_bytes);
    }
    return status;
}
