/*
 * backing_pleated: our own use of virtual memory. A request gets what the search finds
 * (pleated_find.h), a small one out of a slab that was found for it; and then, looking again after
 * each: free memory of overflow pools, what freeable private pools have, what frees that wait for a
 * stream give back, one by one, and what views hold of addresses and mappings.
 */
#include "allocator.h"
#include "pleated_find.h"
#include "reclaim.h"
#include "retire.h"
#include "serve.h"

/* ---- small requests ---- */

/* The large request for a slab; what is live by it is what the small request asked for. */
static pleat_request_t pleated_slab_request(pleat_allocator_t *allocator,
                                            const pleat_request_t *request)
{
    return (pleat_request_t){.requested_bytes = request->requested_bytes,
                             .bytes = PLEAT_SMALL_SEGMENT_BYTES,
                             .segment_bytes = PLEAT_SMALL_SEGMENT_BYTES,
                             .stream = request->stream,
                             .pool = pleat_allocator_pool(allocator, request->pool->owner, false)};
}

typedef pleat_status_t (*pleated_find_fn_t)(pleat_allocator_t *allocator,
                                            const pleat_request_t *request,
                                            pleat_block_t **block_out);

/* Find memory for a request by @p find, through a slab if it is small. */
static pleat_status_t pleated_find(pleat_allocator_t *allocator, const pleat_request_t *request,
                                   pleated_find_fn_t find, pleat_block_t **block_out)
{
    if (!pleat_pool_is_small(request->pool)) {
        return find(allocator, request, block_out);
    }
    pleat_status_t status = pleat_block_store_require(&allocator->blocks, 8);
    if (status != PLEAT_OK) {
        return status;
    }
    const pleat_request_t slab_request = pleated_slab_request(allocator, request);
    pleat_block_t *slab = NULL;
    status = find(allocator, &slab_request, &slab);
    if (slab != NULL) {
        if (!pleat_block_store_reserve(&allocator->blocks, 2)) {
            pleat_pleated_give(allocator, slab);
            pleat_error_set("no host memory for blocks");
            return PLEAT_ERR_OOM_HOST;
        }
        *block_out = pleat_pleated_make_slab(allocator, request, slab);
    }
    return status;
}

static pleat_status_t pleated_prepare_single(pleat_allocator_t *allocator, pleat_request_t *request)
{
    request->is_single = true;
    /* A slab may lie in several chunks. */
    request->pool = pleat_allocator_pool(allocator, request->pool->owner, false);
    return PLEAT_OK;
}

/* ---- the table ---- */

/* Blocks of plain segments, left from another mode, are handed out as well; ranges of PyTorch's
 * kind are not. */
static pleat_block_t *pleated_choose(pleat_allocator_t *allocator, const pleat_request_t *request,
                                     pleat_block_t *best)
{
    (void)allocator;
    pleat_block_t *block = best;
    while (block != NULL && block->range != NULL) {
        block = pleat_free_set_next(&request->pool->free_blocks, block);
        if (block != NULL && block->stream != request->stream) {
            block = NULL;
        }
    }
    return block;
}

/* Look again: for memory that is there, then for new memory within the limit. */
static pleat_status_t pleated_look_again(pleat_allocator_t *allocator,
                                         const pleat_request_t *request, pleat_block_t **block_out)
{
    pleat_status_t status = PLEAT_OK;
    if (pleat_pool_is_small(request->pool)) {
        pleat_block_t *block =
            pleat_free_set_find(&request->pool->free_blocks, request->stream, request->bytes);
        block = block == NULL ? NULL : pleated_choose(allocator, request, block);
        if (block != NULL) {
            pleat_pool_take(request->pool, block);
            *block_out = block;
            return PLEAT_OK;
        }
    }
    status = pleated_find(allocator, request, pleat_pleated_find_large, block_out);
    return status != PLEAT_OK || *block_out != NULL
               ? status
               : pleated_find(allocator, request, pleat_pleated_exceed, block_out);
}

/* Give addresses and mappings of idle views back, and plain segments of another mode. */
static pleat_status_t pleated_trim(pleat_allocator_t *allocator)
{
    const pleat_status_t status = pleat_pleated_evict_views(allocator, UINT64_MAX, true);
    return status != PLEAT_OK ? status : pleat_reclaim_pools(allocator);
}

/* Free chunks that cannot be joined, for want of mappings or because the request must lie in one,
 * are given back for new memory in one piece; the host waits for the work on them. What is free
 * behind the stream's memory counts, as long as it is not given back itself. ERR_OOM_DEVICE if that
 * does not suffice. */
static pleat_status_t pleated_trade(pleat_allocator_t *allocator, const pleat_request_t *request,
                                    pleat_block_t **block_out)
{
    const pleat_request_t large =
        pleat_pool_is_small(request->pool) ? pleated_slab_request(allocator, request) : *request;
    for (;;) { /* each time something goes, so this ends */
        const uint64_t wanted = large.is_single
                                    ? pleat_round_up(large.bytes, allocator->granularity_bytes)
                                    : pleat_pleated_needed_bytes(allocator, &large);
        pleat_status_t status = pleat_pleated_make_room(allocator, &large, wanted, true);
        if (status != PLEAT_OK) {
            return status;
        }
        status = pleated_look_again(allocator, request, block_out);
        if (status != PLEAT_ERR_OOM_DEVICE) {
            return status;
        }
    }
}

/* Nothing is there and no more can be had: give back what freeable private pools have, wait for one
 * free after the other, look again each time, then give idle views up and look again, then trade
 * chunks. */
static pleat_status_t pleated_retry(pleat_allocator_t *allocator, const pleat_request_t *request,
                                    pleat_block_t **block_out)
{
    allocator->stats.num_alloc_retries += 1;
    if (allocator->private_pools.first != NULL) {
        pleat_status_t status = pleat_reclaim_freeable(allocator);
        if (status == PLEAT_OK) {
            status = pleated_look_again(allocator, request, block_out);
        }
        if (status != PLEAT_ERR_OOM_DEVICE) {
            return status;
        }
    }
    for (;;) {
        bool has_waited = false;
        pleat_status_t status = pleat_retire_wait_for_one(allocator, &has_waited);
        if (status == PLEAT_OK && !has_waited) {
            status = pleated_trim(allocator);
            if (status == PLEAT_OK) {
                status = pleated_look_again(allocator, request, block_out);
            }
            return status != PLEAT_ERR_OOM_DEVICE ? status
                                                  : pleated_trade(allocator, request, block_out);
        }
        if (status == PLEAT_OK) {
            status = pleated_look_again(allocator, request, block_out);
        }
        if (status != PLEAT_ERR_OOM_DEVICE) {
            return status;
        }
    }
}

/* Memory of the stream that is free in one piece in an overflow pool, for a request outside every
 * private pool, which becomes one of that pool. ERR_OOM_DEVICE: there is none. */
static pleat_status_t pleated_take_overflow(pleat_allocator_t *allocator,
                                            const pleat_request_t *request,
                                            pleat_block_t **block_out)
{
    const pleat_home_place_t home = pleat_pleated_find_home(allocator, request, true);
    if (home.block != NULL) {
        return pleat_pleated_take_home(allocator, request, &home, block_out);
    }
    const pleat_view_place_t view =
        pleat_place_view(allocator, request->pool->owner, request->stream, true, request->bytes);
    return view.view == NULL
               ? PLEAT_ERR_OOM_DEVICE
               : pleat_pleated_take_view(allocator, request, view.view, view.offset, block_out);
}

static pleat_status_t pleated_search_overflow(pleat_allocator_t *allocator,
                                              pleat_request_t *request, pleat_block_t **block_out)
{
    if (request->pool->owner != NULL || request->is_single) {
        return PLEAT_ERR_OOM_DEVICE;
    }
    for (pleat_private_pool_t *pool = allocator->private_pools.first; pool != NULL;
         pool = pool->next) {
        if (!pool->is_overflow || pool->use_count == 0) {
            continue;
        }
        pleat_request_t other = *request;
        pleat_private_pool_direct(allocator, pool, &other);
        pleat_status_t status = pleat_serve_reserve(allocator, &other);
        if (status == PLEAT_OK) {
            *block_out = pleat_serve_search(allocator, &other);
            if (*block_out == NULL) {
                status = pleated_find(allocator, &other, pleated_take_overflow, block_out);
            }
        }
        if (status != PLEAT_ERR_OOM_DEVICE) {
            *request = status == PLEAT_OK ? other : *request;
            return status;
        }
    }
    return PLEAT_ERR_OOM_DEVICE;
}

static pleat_status_t pleated_reuse(pleat_allocator_t *allocator, const pleat_request_t *request,
                                    pleat_block_t **block_out)
{
    allocator->now_ns = pleat_vmm_clock_ns(allocator->vmm);
    allocator->request_count++;
    pleat_pleated_release_idle(allocator);
    pleat_pleated_forget_views(allocator, request->bytes);
    const uint64_t live_peak_bytes = allocator->live_peak_bytes;
    const pleat_status_t status =
        pleated_find(allocator, request, pleat_pleated_reuse_large, block_out);
    if (*block_out == NULL) {
        allocator->live_peak_bytes = live_peak_bytes;
    }
    return status;
}

static pleat_status_t pleated_supply(pleat_allocator_t *allocator, pleat_request_t *request,
                                     pleat_block_t **block_out)
{
    const uint64_t live_peak_bytes = allocator->live_peak_bytes;
    pleat_status_t status = pleated_find(allocator, request, pleat_pleated_find_large, block_out);
    if (status == PLEAT_OK && *block_out == NULL) {
        status = pleated_find(allocator, request, pleat_pleated_exceed, block_out);
        if (status == PLEAT_ERR_OOM_DEVICE) {
            status = pleated_search_overflow(allocator, request, block_out);
        }
        if (status == PLEAT_ERR_OOM_DEVICE && pleat_pleated_may_cross(allocator, request)) {
            status = pleated_retry(allocator, request, block_out);
        }
    }
    if (status != PLEAT_OK) {
        allocator->live_peak_bytes = live_peak_bytes; /* it never came to that */
    }
    return status;
}

/* What is found is cut already, but for small blocks and those of plain segments. */
static bool pleated_should_split(const pleat_allocator_t *allocator, const pleat_block_t *block,
                                 const pleat_request_t *request)
{
    (void)allocator;
    return block->bytes - request->bytes >= PLEAT_BLOCK_UNIT_BYTES;
}

const pleat_backing_ops_t *pleat_backing_pleated(void)
{
    static const pleat_backing_ops_t ops = {
        .name = "pleated",
        .supply_block_count = 8,
        .choose = pleated_choose,
        .reuse = pleated_reuse,
        .supply = pleated_supply,
        .prepare_single = pleated_prepare_single,
        .should_split = pleated_should_split,
    };
    return &ops;
}
