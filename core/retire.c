/*
 * retire: free, completion, merging.
 */
#include "retire.h"

#include "deferred.h"
#include "pleated.h"
#include "range.h"

/* Absorb a neighbour if it is free; changes the split counters' net sums. */
static void retire_merge(pleat_allocator_t *allocator, pleat_block_t *block, pleat_block_t *other,
                         int64_t *count_change, int64_t *bytes_change)
{
    if (other == NULL || other->use != PLEAT_BLOCK_USE_FREE) {
        return;
    }
    pleat_pool_take(other->pool, other);
    *count_change -= 1;
    *bytes_change -= (int64_t)pleat_block_absorb(&allocator->blocks, block, other);
}

/* What of the free block of a range cannot go back; 0 for NULL or a block that is not free. */
static int64_t retire_pinned_bytes(const pleat_block_t *block)
{
    return block != NULL && block->use == PLEAT_BLOCK_USE_FREE
               ? (int64_t)pleat_range_pinned_bytes(block->range, block->address, block->bytes)
               : 0;
}

/* As retire_to_pool, for a block of a range. Out of line: plain segments need none of it. */
static void __attribute__((noinline))
retire_to_range(pleat_allocator_t *allocator, pleat_block_t *block)
{
    int64_t ignored = 0;
    allocator->stats.unreturnable_bytes -=
        retire_pinned_bytes(block->left) + retire_pinned_bytes(block->right);
    retire_merge(allocator, block, block->left, &ignored, &ignored);
    retire_merge(allocator, block, block->right, &ignored, &ignored);
    pleat_pool_give(block->pool, block);
    allocator->stats.unreturnable_bytes += retire_pinned_bytes(block);
}

/*
 * Back to its pool, merged with its neighbours; a slab that is free altogether goes back whole. The
 * split counters move once, by the net change: three partial changes would give other sums and
 * peaks.
 */
static void retire_to_pool(pleat_allocator_t *allocator, pleat_block_t *block)
{
    pleat_pool_t *pool = block->pool;
    pleat_stats_t *stats = &allocator->stats;
    int64_t count_change = 0;
    int64_t bytes_change = 0;
    retire_merge(allocator, block, block->left, &count_change, &bytes_change);
    retire_merge(allocator, block, block->right, &count_change, &bytes_change);
    const bool is_split = pleat_block_is_split(block);
    if (is_split) {
        count_change += 1;
        bytes_change += (int64_t)block->bytes;
    }
    pleat_stats_change(stats->inactive_split, pool->kind, count_change);
    pleat_stats_change(stats->inactive_split_bytes, pool->kind, bytes_change);
    stats->unreturnable_bytes += bytes_change;
    if (block->slab != NULL && !is_split) {
        pleat_pleated_give_slab(allocator, block);
    } else {
        pleat_pool_give(pool, block);
    }
}

/* No stream uses the block any more. */
static void retire_complete(void *context, pleat_block_t *block)
{
    pleat_allocator_t *allocator = context;
    PLEAT_ASSERT(block->event_count == 0);
    PLEAT_ASSERT(block->uses == NULL);
    pleat_pool_t *pool = block->pool;
    const uint64_t freed_bytes = block->bytes;
    const uint64_t requested_bytes = block->requested_bytes;
    pleat_allocator_trace(allocator, PLEAT_ACTION_FREE_COMPLETED, block->address, requested_bytes,
                          block->stream);
    pleat_stats_t *stats = &allocator->stats;
    if (block->arena != NULL || block->view != NULL) {
        pleat_pleated_give(allocator, block);
    } else if (block->range != NULL) {
        retire_to_range(allocator, block);
    } else {
        retire_to_pool(allocator, block);
    }
    pleat_stats_decrease(stats->active, pool->kind, 1);
    pleat_stats_decrease(stats->active_bytes, pool->kind, freed_bytes);
    pleat_stats_decrease(stats->requested_bytes, pool->kind, requested_bytes);
}

pleat_status_t pleat_retire_block(pleat_allocator_t *allocator, pleat_block_t **link)
{
    pleat_block_t *block = *link;
    PLEAT_ASSERT(block->use == PLEAT_BLOCK_USE_LIVE);
    const bool is_used_elsewhere = block->uses != NULL;
    if (is_used_elsewhere && !pleat_allocator_is_redirecting(allocator)) {
        const pleat_status_t status = pleat_waiting_begin(&allocator->waiting, block);
        if (status != PLEAT_OK) {
            return status;
        }
    }
    pleat_address_map_remove(&allocator->live, link);
    pleat_stats_t *stats = &allocator->stats;
    pleat_stats_decrease(stats->allocation, block->pool->kind, 1);
    pleat_stats_decrease(stats->allocated_bytes, block->pool->kind, block->bytes);
    pleat_allocator_trace(allocator, PLEAT_ACTION_FREE_REQUESTED, block->address,
                          block->requested_bytes, block->stream);
    if (block->bytes >= allocator->options.max_split_bytes) {
        pleat_stat_decrease(&stats->oversize_allocations, 1);
    }
    block->use = PLEAT_BLOCK_USE_WAITING;
    if (!is_used_elsewhere) {
        retire_complete(allocator, block);
    } else if (block->event_count == 0) {
        pleat_deferred_add(&allocator->waiting, block);
        if (allocator->options.reuse_in_capture != 0) {
            pleat_capture_order_mark(&allocator->waiting, block);
        }
    }
    return PLEAT_OK;
}

/* End the frees that are complete for what @p stream captures next. */
static void retire_look_in_capture(pleat_allocator_t *allocator, pleat_stream_t stream)
{
    pleat_waiting_t *waiting = &allocator->waiting;
    const pleat_capture_past_t *past = pleat_capture_order_look(waiting, stream);
    pleat_block_t *block = past == NULL ? NULL : pleat_capture_order_find(&waiting->capture, past);
    while (block != NULL) {
        pleat_deferred_end(waiting, block);
        retire_complete(allocator, block);
        block = pleat_capture_order_find(&waiting->capture, past);
    }
}

static pleat_status_t __attribute__((noinline)) retire_look(pleat_allocator_t *allocator)
{
    if (pleat_allocator_is_redirecting(allocator)) {
        return PLEAT_OK;
    }
    const pleat_status_t status =
        pleat_deferred_resolve(&allocator->waiting, retire_complete, allocator);
    return status != PLEAT_OK ? status
                              : pleat_waiting_poll(&allocator->waiting, retire_complete, allocator);
}

pleat_status_t pleat_retire_poll(pleat_allocator_t *allocator)
{
    return allocator->waiting.open_count == 0 ? PLEAT_OK : retire_look(allocator);
}

static pleat_status_t __attribute__((noinline))
retire_look_for(pleat_allocator_t *allocator, pleat_stream_t stream)
{
    if (allocator->options.reuse_in_capture != 0 && pleat_allocator_is_redirecting(allocator)) {
        retire_look_in_capture(allocator, stream);
    }
    return retire_look(allocator);
}

pleat_status_t pleat_retire_poll_for(pleat_allocator_t *allocator, pleat_stream_t stream)
{
    return allocator->waiting.open_count == 0 ? PLEAT_OK : retire_look_for(allocator, stream);
}

pleat_status_t pleat_retire_resolve(pleat_allocator_t *allocator)
{
    PLEAT_ASSERT(!pleat_allocator_is_redirecting(allocator));
    return pleat_deferred_resolve(&allocator->waiting, retire_complete, allocator);
}

pleat_status_t pleat_retire_synchronize(pleat_allocator_t *allocator)
{
    allocator->stats.num_sync_all_streams += 1;
    const pleat_status_t status = pleat_retire_resolve(allocator);
    return status != PLEAT_OK
               ? status
               : pleat_waiting_finish(&allocator->waiting, retire_complete, allocator);
}

pleat_status_t pleat_retire_synchronize_owner(pleat_allocator_t *allocator,
                                              const pleat_private_pool_t *owner)
{
    allocator->stats.num_sync_all_streams += 1;
    const pleat_status_t status = pleat_retire_resolve(allocator);
    return status != PLEAT_OK
               ? status
               : pleat_waiting_finish_owner(&allocator->waiting, owner, retire_complete, allocator);
}

pleat_status_t pleat_retire_wait_for_one(pleat_allocator_t *allocator, bool *has_waited_out)
{
    *has_waited_out = allocator->waiting.active != NULL;
    if (!*has_waited_out) {
        return PLEAT_OK;
    }
    allocator->stats.num_sync_all_streams += 1;
    return pleat_waiting_finish_one(&allocator->waiting, retire_complete, allocator);
}
