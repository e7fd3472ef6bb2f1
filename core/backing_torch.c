/*
 * backing_torch: PyTorch's expandable segments. A miss maps pages at the lowest addresses of the
 * stream's range where the request fits, beside what is free there.
 *
 * Source: PyTorch 2.11 with expandable_segments:True, decision for decision.
 */
#include "allocator.h"
#include "range.h"
#include "reclaim.h"

/* Size of a free block with the unmapped addresses behind it. */
static uint64_t torch_effective_bytes(const pleat_block_t *block)
{
    const pleat_block_t *right = block->right;
    return right != NULL && right->use == PLEAT_BLOCK_USE_UNMAPPED ? block->bytes + right->bytes
                                                                   : block->bytes;
}

/* From a block of the request's stream on, the first that is no small block of pleated mode; NULL:
 * none. */
static pleat_block_t *torch_skip_slabs(const pleat_request_t *request, pleat_block_t *block)
{
    while (block != NULL && block->stream == request->stream && block->slab != NULL) {
        block = pleat_free_set_next(&request->pool->free_blocks, block);
    }
    return block != NULL && block->stream == request->stream ? block : NULL;
}

/* From the best fit on, as long as the next block wastes less of its range. */
static pleat_block_t *torch_choose(pleat_allocator_t *allocator, const pleat_request_t *request,
                                   pleat_block_t *best)
{
    (void)allocator;
    pleat_free_set_t *set = &request->pool->free_blocks;
    pleat_block_t *block = torch_skip_slabs(request, best);
    while (block != NULL && block->range != NULL) {
        pleat_block_t *next = torch_skip_slabs(request, pleat_free_set_next(set, block));
        if (next == NULL || torch_effective_bytes(next) >= torch_effective_bytes(block)) {
            break;
        }
        block = next;
    }
    return block;
}

static bool torch_should_split(const pleat_allocator_t *allocator, const pleat_block_t *block,
                               const pleat_request_t *request)
{
    (void)allocator;
    return block->bytes - request->bytes >= PLEAT_BLOCK_UNIT_BYTES;
}

static bool torch_is_usable(const pleat_block_t *block)
{
    return block != NULL &&
           (block->use == PLEAT_BLOCK_USE_FREE || block->use == PLEAT_BLOCK_USE_UNMAPPED);
}

/* Do the usable blocks from @p start on add up to @p bytes? */
static bool torch_has_room(const pleat_block_t *start, uint64_t bytes)
{
    uint64_t sum = 0;
    for (const pleat_block_t *block = start; torch_is_usable(block); block = block->right) {
        sum += block->bytes;
        if (sum >= bytes) {
            return true;
        }
    }
    return false;
}

/* Lowest run of free and unmapped blocks that can hold the request; a new range if there is none.
 */
static pleat_status_t torch_find_room(pleat_allocator_t *allocator, const pleat_request_t *request,
                                      pleat_block_t **start_out)
{
    for (pleat_block_t *block =
             pleat_unmapped_list_first(&request->pool->unmapped, request->stream);
         block != NULL; block = pleat_unmapped_list_next(block)) {
        pleat_block_t *start = torch_is_usable(block->left) ? block->left : block;
        if (torch_has_room(start, request->bytes)) {
            *start_out = start;
            return PLEAT_OK;
        }
    }
    return pleat_range_create(allocator, request, start_out);
}

static uint64_t torch_smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* What earlier steps mapped stays mapped and free when a later one fails. */
static pleat_status_t torch_grow(pleat_allocator_t *allocator, const pleat_request_t *request,
                                 pleat_block_t **block_out)
{
    pleat_block_t *start = NULL;
    pleat_status_t status = torch_find_room(allocator, request, &start);
    if (status != PLEAT_OK) {
        return status;
    }
    if (start->use == PLEAT_BLOCK_USE_UNMAPPED) {
        status =
            pleat_range_map_block(allocator, start, torch_smaller(start->bytes, request->bytes));
        if (status != PLEAT_OK) {
            return status;
        }
    }
    while (start->bytes < request->bytes) {
        pleat_block_t *next = start->right;
        PLEAT_ASSERT(next != NULL);
        status = pleat_range_map_block(allocator, next,
                                       torch_smaller(next->bytes, request->bytes - start->bytes));
        if (status != PLEAT_OK) {
            return status;
        }
        start = next; /* it absorbed what was free on its left */
    }
    pleat_pool_take(request->pool, start);
    *block_out = start;
    return PLEAT_OK;
}

static pleat_status_t torch_supply(pleat_allocator_t *allocator, pleat_request_t *request,
                                   pleat_block_t **block_out)
{
    return pleat_reclaim_chain(allocator, request, torch_grow, block_out);
}

/* A range is made of pages, and no request is kept inside one. */
static pleat_status_t torch_prepare_single(pleat_allocator_t *allocator, pleat_request_t *request)
{
    (void)allocator;
    pleat_error_set("mode torch_expandable has no memory in one chunk, of which %llu bytes were "
                    "asked for; classic and pleated have",
                    (unsigned long long)request->requested_bytes);
    return PLEAT_ERR_UNSUPPORTED;
}

const pleat_backing_ops_t *pleat_backing_torch(void)
{
    static const pleat_backing_ops_t ops = {
        .name = "torch_expandable",
        .supply_block_count = 2,
        .choose = torch_choose,
        .supply = torch_supply,
        .prepare_single = torch_prepare_single,
        .should_split = torch_should_split,
    };
    return &ops;
}
