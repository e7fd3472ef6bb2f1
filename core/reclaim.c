/*
 * reclaim: what goes back to the device, and in which order.
 */
#include "reclaim.h"

#include "pleated.h"
#include "range.h"
#include "retire.h"
#include "serve.h"

/* ---- garbage collection ---- */

typedef struct reclaim_ages {
    double total;
    uint64_t count;
} reclaim_ages_t;

static reclaim_ages_t reclaim_sum_ages(pleat_pool_t *pool)
{
    reclaim_ages_t ages = {0};
    for (const pleat_block_t *block = pleat_free_set_first(&pool->free_blocks); block != NULL;
         block = pleat_free_set_next(&pool->free_blocks, block)) {
        if (!pleat_block_is_split(block)) {
            ages.total += pleat_pool_age(pool, block);
            ages.count++;
        }
    }
    return ages;
}

/* One pass over the pool; it is not cut short when enough is free. */
static pleat_status_t reclaim_garbage_pass(pleat_allocator_t *allocator, reclaim_ages_t *ages,
                                           uint64_t *reclaimed_bytes)
{
    pleat_pool_t *pool = &allocator->large_pool;
    const double average = ages->total / (double)ages->count;
    pleat_block_t *next = NULL;
    for (pleat_block_t *block = pleat_free_set_first(&pool->free_blocks); block != NULL;
         block = next) {
        next = pleat_free_set_next(&pool->free_blocks, block);
        const int32_t age = pleat_pool_age(pool, block);
        if (!pleat_backing_is_whole(block) || (double)age < average) {
            continue;
        }
        const uint64_t bytes = block->bytes;
        const pleat_status_t status = pleat_backing_release(allocator, block);
        if (status != PLEAT_OK) {
            return status;
        }
        *reclaimed_bytes += bytes;
        ages->total -= age;
        ages->count--;
    }
    return PLEAT_OK;
}

pleat_status_t pleat_reclaim_garbage(pleat_allocator_t *allocator)
{
    const pleat_options_t *options = &allocator->options;
    const uint64_t threshold_bytes =
        (uint64_t)(options->garbage_collection_threshold * (double)options->limit_bytes);
    if (allocator->held_bytes <= threshold_bytes) {
        return PLEAT_OK;
    }
    const uint64_t target_bytes = allocator->held_bytes - threshold_bytes;
    reclaim_ages_t ages = reclaim_sum_ages(&allocator->large_pool);
    uint64_t reclaimed_bytes = 0;
    bool has_progress = true;
    while (reclaimed_bytes < target_bytes && has_progress && ages.count > 0) {
        const uint64_t before = reclaimed_bytes;
        const pleat_status_t status = reclaim_garbage_pass(allocator, &ages, &reclaimed_bytes);
        if (status != PLEAT_OK) {
            return status;
        }
        has_progress = reclaimed_bytes > before;
    }
    return PLEAT_OK;
}

/* ---- oversize blocks ---- */

/* From the largest block below the key downwards, until @p wanted_bytes went back. */
static pleat_status_t reclaim_oversize_downwards(pleat_allocator_t *allocator,
                                                 const pleat_request_t *request,
                                                 uint64_t wanted_bytes, bool *is_enough_out)
{
    pleat_free_set_t *set = &request->pool->free_blocks;
    pleat_block_t *block = pleat_free_set_before(set, request->stream, wanted_bytes);
    uint64_t released_bytes = 0;
    while (block != NULL && released_bytes < wanted_bytes &&
           block->bytes >= allocator->options.max_split_bytes && block->stream == request->stream) {
        pleat_block_t *previous = pleat_free_set_previous(set, block);
        if (pleat_backing_is_whole(block)) {
            const uint64_t bytes = block->bytes;
            const pleat_status_t status = pleat_backing_release(allocator, block);
            if (status != PLEAT_OK) {
                return status;
            }
            released_bytes += bytes;
        }
        block = previous;
    }
    *is_enough_out = released_bytes >= wanted_bytes;
    return PLEAT_OK;
}

pleat_status_t pleat_reclaim_oversize(pleat_allocator_t *allocator, const pleat_request_t *request,
                                      bool *is_enough_out)
{
    *is_enough_out = false;
    const uint64_t max_split_bytes = allocator->options.max_split_bytes;
    if (max_split_bytes == PLEAT_UNLIMITED) {
        return PLEAT_OK;
    }
    const uint64_t wanted_bytes =
        request->bytes > max_split_bytes ? request->bytes : max_split_bytes;
    pleat_block_t *block =
        pleat_free_set_find(&request->pool->free_blocks, request->stream, wanted_bytes);
    if (block != NULL && pleat_backing_is_whole(block)) {
        const pleat_status_t status = pleat_backing_release(allocator, block);
        *is_enough_out = status == PLEAT_OK;
        return status;
    }
    return reclaim_oversize_downwards(allocator, request, wanted_bytes, is_enough_out);
}

/* ---- everything ---- */

/* Whole plain segments first, then what can go of expandable ranges; both in the order of the set.
 * Pieces that unmapping leaves behind may be met again: they have no whole page. */
static pleat_status_t reclaim_pool(pleat_allocator_t *allocator, pleat_pool_t *pool)
{
    for (int is_expandable = 0; is_expandable < 2; is_expandable++) {
        pleat_block_t *next = NULL;
        for (pleat_block_t *block = pleat_free_set_first(&pool->free_blocks); block != NULL;
             block = next) {
            next = pleat_free_set_next(&pool->free_blocks, block);
            if (is_expandable ? block->range == NULL : !pleat_backing_is_whole(block)) {
                continue;
            }
            const pleat_status_t status = pleat_backing_release(allocator, block);
            if (status != PLEAT_OK) {
                return status;
            }
        }
    }
    return PLEAT_OK;
}

pleat_status_t pleat_reclaim_pools(pleat_allocator_t *allocator)
{
    const pleat_status_t status = reclaim_pool(allocator, &allocator->large_pool);
    return status != PLEAT_OK ? status : reclaim_pool(allocator, &allocator->small_pool);
}

/* ---- private pools ---- */

/* Small before large, unlike the pools above, as PyTorch does. */
static pleat_status_t reclaim_freeable(pleat_allocator_t *allocator, pleat_private_pool_t *pool)
{
    PLEAT_ASSERT(pool->use_count == 0);
    pleat_status_t status = reclaim_pool(allocator, &pool->small);
    if (status == PLEAT_OK) {
        status = reclaim_pool(allocator, &pool->large);
    }
    if (status != PLEAT_OK) {
        return status;
    }
    pleat_range_end_unmapped(allocator, &pool->small);
    pleat_range_end_unmapped(allocator, &pool->large);
    if (allocator->arenas != NULL && !pleat_allocator_is_redirecting(allocator)) {
        uint64_t released_bytes = 0;
        status = pleat_pleated_release(allocator, pool, UINT64_MAX, true, &released_bytes);
        if (status != PLEAT_OK) {
            return status;
        }
    }
    if (pool->holding_count == 0 && pool->pin_count == 0) {
        pleat_private_pool_end(&allocator->private_pools, pool);
    }
    return PLEAT_OK;
}

pleat_status_t pleat_reclaim_one_freeable(pleat_allocator_t *allocator, pleat_private_pool_t *pool)
{
    const pleat_status_t status = pleat_allocator_is_redirecting(allocator)
                                      ? PLEAT_OK
                                      : pleat_retire_synchronize_owner(allocator, pool);
    return status != PLEAT_OK ? status : reclaim_freeable(allocator, pool);
}

/* Those of the order that was set, then all; what was emptied once has nothing left. */
pleat_status_t pleat_reclaim_freeable(pleat_allocator_t *allocator)
{
    pleat_private_pools_t *pools = &allocator->private_pools;
    pleat_status_t status = PLEAT_OK;
    for (size_t i = 0; i < pools->freeable_order_count && status == PLEAT_OK; i++) {
        pleat_private_pool_t *pool = pleat_private_pool_find(pools, pools->freeable_order[i]);
        if (pool != NULL && pool->use_count == 0) {
            status = reclaim_freeable(allocator, pool);
        }
    }
    pools->freeable_order_count = 0;
    pleat_private_pool_t *next = NULL;
    for (pleat_private_pool_t *pool = pools->first; pool != NULL && status == PLEAT_OK;
         pool = next) {
        next = pool->next;
        if (pool->use_count == 0) {
            status = reclaim_freeable(allocator, pool);
        }
    }
    return status;
}

/* Free memory of an overflow pool, for a request outside every private pool, which becomes one of
 * that pool; NULL: none. */
static pleat_block_t *reclaim_search_overflow(pleat_allocator_t *allocator,
                                              pleat_request_t *request)
{
    if (request->pool->owner != NULL) {
        return NULL;
    }
    for (pleat_private_pool_t *pool = allocator->private_pools.first; pool != NULL;
         pool = pool->next) {
        if (!pool->is_overflow || pool->use_count == 0) {
            continue;
        }
        pleat_request_t other = *request;
        other.bins = NULL;
        pleat_private_pool_direct(allocator, pool, &other);
        other.backing = pleat_backing_classic(); /* PyTorch: expandable segments do not count */
        pleat_block_t *block = pleat_serve_search(allocator, &other);
        if (block != NULL) {
            *request = other;
            return block;
        }
    }
    return NULL;
}

/* ---- everything there is ---- */

pleat_status_t pleat_reclaim_all(pleat_allocator_t *allocator)
{
    if (pleat_allocator_is_redirecting(allocator)) {
        return pleat_reclaim_freeable(allocator);
    }
    pleat_status_t status = pleat_retire_synchronize(allocator);
    if (status == PLEAT_OK) {
        status = pleat_reclaim_pools(allocator);
    }
    if (status == PLEAT_OK && allocator->arenas != NULL) {
        uint64_t released_bytes = 0;
        status = pleat_pleated_release(allocator, NULL, UINT64_MAX, true, &released_bytes);
    }
    return status != PLEAT_OK ? status : pleat_reclaim_freeable(allocator);
}

/* ---- the chain ---- */

/* Ask the device, within the limit. */
static pleat_status_t reclaim_grow(pleat_allocator_t *allocator, const pleat_request_t *request,
                                   pleat_grow_fn_t grow, pleat_block_t **block_out)
{
    uint64_t wanted_bytes = 0;
    if (pleat_options_has_limit(&allocator->options) &&
        (!pleat_add_checked(allocator->held_bytes, request->segment_bytes, &wanted_bytes) ||
         wanted_bytes > allocator->options.limit_bytes)) {
        return PLEAT_ERR_OOM_DEVICE;
    }
    return grow(allocator, request, block_out);
}

pleat_status_t pleat_reclaim_chain(pleat_allocator_t *allocator, pleat_request_t *request,
                                   pleat_grow_fn_t grow, pleat_block_t **block_out)
{
    if (allocator->options.mode == PLEAT_MODE_PLEATED) {
        return reclaim_grow(allocator, request, grow, block_out);
    }
    if (pleat_options_collects_garbage(&allocator->options)) {
        const pleat_status_t status = pleat_reclaim_garbage(allocator);
        if (status != PLEAT_OK) {
            return status;
        }
    }
    pleat_status_t status = reclaim_grow(allocator, request, grow, block_out);
    if (status != PLEAT_ERR_OOM_DEVICE) {
        return status;
    }
    *block_out = reclaim_search_overflow(allocator, request);
    if (*block_out != NULL) {
        return PLEAT_OK;
    }
    bool is_enough = false;
    status = pleat_reclaim_oversize(allocator, request, &is_enough);
    if (status != PLEAT_OK) {
        return status;
    }
    if (is_enough) {
        status = reclaim_grow(allocator, request, grow, block_out);
        if (status != PLEAT_ERR_OOM_DEVICE) {
            return status;
        }
    }
    if (pleat_allocator_is_redirecting(allocator)) {
        return PLEAT_ERR_OOM_DEVICE;
    }
    status = pleat_reclaim_all(allocator);
    if (status == PLEAT_OK) { /* ranges that gave pages back may have used up what was reserved */
        status =
            pleat_block_store_require(&allocator->blocks, request->backing->supply_block_count + 1);
    }
    if (status != PLEAT_OK) {
        return status;
    }
    allocator->stats.num_alloc_retries += 1; /* counted whether or not the attempt succeeds */
    return reclaim_grow(allocator, request, grow, block_out);
}
