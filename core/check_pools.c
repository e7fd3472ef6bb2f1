/*
 * check_pools: private pools, redirections, and frees that wait.
 */
#include "check.h"

/* ---- frees that wait ---- */

/* A6: deferred frees are in the list, as many as there are. */
static bool check_deferred(const pleat_waiting_t *waiting, const pleat_check_sums_t *sums)
{
    size_t count = 0;
    const pleat_block_t *last = NULL;
    for (const pleat_block_t *block = waiting->deferred.first; block != NULL;
         block = block->next_live) {
        if (block->use != PLEAT_BLOCK_USE_WAITING || block->uses == NULL) {
            return pleat_check_refuse("A6", block,
                                      "it is put off but does not wait, or for nothing");
        }
        last = block;
        count++;
    }
    return pleat_check_equal("A6", "frees put off, as counted", count,
                             (int64_t)waiting->deferred.count) &&
           pleat_check_equal("A6", "frees put off", sums->deferred_count, (int64_t)count) &&
           pleat_check_equal("A6", "the last free put off is known", last == waiting->deferred.last,
                             1) &&
           pleat_check_equal("A6", "waits and frees put off", waiting->wait_count + count,
                             (int64_t)waiting->open_count);
}

/* A6: every queue's waits belong to waiting blocks, and only queues with waits are active. */
bool pleat_check_waiting(const pleat_waiting_t *waiting, const pleat_check_sums_t *sums)
{
    size_t active_count = 0;
    size_t filled_count = 0;
    size_t wait_count = 0;
    for (const pleat_wait_queue_t *queue = waiting->active; queue != NULL;
         queue = queue->next_active) {
        active_count++;
    }
    for (size_t i = 0; i < waiting->queue_count; i++) {
        filled_count += waiting->queues[i]->first != NULL;
        for (const pleat_wait_t *wait = waiting->queues[i]->first; wait != NULL;
             wait = wait->next) {
            wait_count++;
            if (wait->block->use != PLEAT_BLOCK_USE_WAITING) {
                return pleat_check_refuse("A6", wait->block,
                                          "an event is queued but it does not wait");
            }
        }
    }
    return pleat_check_equal("A6", "queues to visit", filled_count, (int64_t)active_count) &&
           pleat_check_equal("A6", "waits", wait_count, (int64_t)waiting->wait_count) &&
           check_deferred(waiting, sums);
}

/* ---- private pools ---- */

/* L2: the first blocks of plain segments, ranges and arenas of a private pool. */
static uint64_t check_count_holdings(const pleat_allocator_t *allocator,
                                     const pleat_private_pool_t *pool)
{
    uint64_t count = 0;
    for (const pleat_block_slab_t *slab = allocator->blocks.slabs; slab != NULL;
         slab = slab->next) {
        for (size_t i = 0; i < PLEAT_BLOCKS_PER_SLAB; i++) {
            const pleat_block_t *block = &slab->blocks[i];
            count += block->use != PLEAT_BLOCK_USE_UNUSED && block->pool->owner == pool &&
                     block->left == NULL && block->slab == NULL && block->view == NULL;
        }
    }
    return count;
}

/* L1: rising by id. The sums over all of them. */
static bool check_pool_list(const pleat_allocator_t *allocator, const pleat_check_sums_t *sums)
{
    uint64_t free_count = 0;
    uint64_t unmapped_count = 0;
    for (const pleat_private_pool_t *pool = allocator->private_pools.first; pool != NULL;
         pool = pool->next) {
        const pleat_private_pool_t *next = pool->next;
        if (next != NULL &&
            (next->id.first < pool->id.first ||
             (next->id.first == pool->id.first && next->id.second <= pool->id.second))) {
            pleat_error_set("L1: the private pool (%llu, %llu) does not rise",
                            (unsigned long long)next->id.first,
                            (unsigned long long)next->id.second);
            return false;
        }
        if (pool->large.owner != pool || pool->small.owner != pool) {
            pleat_error_set("L1: the private pool (%llu, %llu) does not own its pools",
                            (unsigned long long)pool->id.first,
                            (unsigned long long)pool->id.second);
            return false;
        }
        free_count += pleat_free_set_count(&pool->large.free_blocks) +
                      pleat_free_set_count(&pool->small.free_blocks);
        unmapped_count += pool->large.unmapped.count + pool->small.unmapped.count;
        if (!pleat_free_set_check(&pool->large.free_blocks) ||
            !pleat_free_set_check(&pool->small.free_blocks) ||
            !pleat_check_equal("L2", "what a private pool holds",
                               check_count_holdings(allocator, pool),
                               (int64_t)pool->holding_count)) {
            return false;
        }
    }
    return pleat_check_equal("A3", "free blocks of private pools", sums->private_free_count,
                             (int64_t)free_count) &&
           pleat_check_equal("R2", "unmapped blocks of private pools", sums->private_unmapped_count,
                             (int64_t)unmapped_count);
}

/* L3: redirections lead to pools of the list, which know of them. */
static bool check_redirections(const pleat_allocator_t *allocator)
{
    const pleat_private_pools_t *pools = &allocator->private_pools;
    const size_t count = atomic_load_explicit(&pools->redirection_count, memory_order_relaxed);
    for (size_t i = 0; i < count; i++) {
        const pleat_private_pool_t *pool = pools->redirections[i].pool;
        bool is_double = false;
        for (size_t k = 0; k < i; k++) {
            is_double = is_double || pools->redirections[k].pool == pool;
        }
        if (is_double || pleat_private_pool_find(pools, pool->id) != pool || pool->pin_count == 0) {
            pleat_error_set("L3: redirection %zu leads to a pool that %s", i,
                            is_double ? "another one leads to" : "is not there or not pinned");
            return false;
        }
    }
    return true;
}

bool pleat_check_pools(const pleat_allocator_t *allocator, const pleat_check_sums_t *sums)
{
    return check_pool_list(allocator, sums) && check_redirections(allocator);
}
