/*
 * check: verifies every invariant of an allocator, numbered as they are cited.
 *
 *   A1  The blocks of a segment tile it: no gap, no overlap, one stream and pool, links agree.
 *   A2  Free neighbours do not exist; they would have been merged.
 *   A3  A free block is in the set of its pool, every other block in none.
 *   A4  The address map has one entry per live block and no other.
 *   A5  requested <= allocated <= active <= reserved, and each equals the sum over the blocks.
 *   A6  A block waits exactly if it counts pending events, as many as stand in the queues.
 *   A7  Segments do not overlap.
 *   A8  After destruction the device reports nothing left; the tests of the device's usage see it.
 *   F1-F4 of the free sets: see free_set.h.
 */
#include "allocator.h"

#include <stdlib.h>
#include <string.h>

typedef struct check_sums {
    uint64_t reserved[PLEAT_STAT_KIND_COUNT];
    uint64_t segments[PLEAT_STAT_KIND_COUNT];
    uint64_t allocated[PLEAT_STAT_KIND_COUNT];
    uint64_t allocations[PLEAT_STAT_KIND_COUNT];
    uint64_t active_bytes[PLEAT_STAT_KIND_COUNT];
    uint64_t active[PLEAT_STAT_KIND_COUNT];
    uint64_t requested[PLEAT_STAT_KIND_COUNT];
    uint64_t split[PLEAT_STAT_KIND_COUNT];
    uint64_t split_bytes[PLEAT_STAT_KIND_COUNT];
    uint64_t free_count[PLEAT_STAT_KIND_COUNT];
    uint64_t live_count;
    uint64_t event_count;
} check_sums_t;

static void check_add(uint64_t *sums, pleat_stat_kind_t kind, uint64_t amount)
{
    sums[PLEAT_STAT_ALL] += amount;
    sums[kind] += amount;
}

static bool check_refuse(const char *rule, const pleat_block_t *block, const char *what)
{
    pleat_error_set("%s: block 0x%llx of %llu bytes, stream %llu: %s", rule,
                    (unsigned long long)block->address, (unsigned long long)block->bytes,
                    (unsigned long long)block->stream, what);
    return false;
}

/* A1, A2: a block and its neighbours. */
static bool check_neighbours(const pleat_block_t *block)
{
    if (block->bytes == 0 || block->bytes % PLEAT_BLOCK_UNIT_BYTES != 0) {
        return check_refuse("A1", block, "size is no multiple of 512");
    }
    if (block->left != NULL && block->left->right != block) {
        return check_refuse("A1", block, "its left neighbour does not link back");
    }
    const pleat_block_t *right = block->right;
    if (right == NULL) {
        return true;
    }
    if (right->left != block) {
        return check_refuse("A1", block, "its right neighbour does not link back");
    }
    if (block->address + block->bytes != right->address) {
        return check_refuse("A1", block, "its right neighbour does not begin where it ends");
    }
    if (right->stream != block->stream || right->pool != block->pool) {
        return check_refuse("A1", block, "its right neighbour has another stream or pool");
    }
    if (block->use == PLEAT_BLOCK_USE_FREE && right->use == PLEAT_BLOCK_USE_FREE) {
        return check_refuse("A2", block, "its right neighbour is free as well");
    }
    return true;
}

static bool check_free_block(const pleat_block_t *block, check_sums_t *sums)
{
    if (!pleat_free_set_contains(&block->pool->free_blocks, block)) {
        return check_refuse("A3", block, "it is free but not in the set of its pool");
    }
    check_add(sums->free_count, block->pool->kind, 1);
    if (pleat_block_is_split(block)) {
        check_add(sums->split, block->pool->kind, 1);
        check_add(sums->split_bytes, block->pool->kind, block->bytes);
    }
    return block->event_count == 0 && block->uses == NULL
               ? true
               : check_refuse("A6", block, "it is free but has uses or pending events");
}

static bool check_active_block(const pleat_allocator_t *allocator, const pleat_block_t *block,
                               check_sums_t *sums)
{
    const pleat_stat_kind_t kind = block->pool->kind;
    if (block->requested_bytes > block->bytes) {
        return check_refuse("A5", block, "more was requested than it has");
    }
    check_add(sums->active, kind, 1);
    check_add(sums->active_bytes, kind, block->bytes);
    check_add(sums->requested, kind, block->requested_bytes);
    const bool is_mapped = pleat_address_map_find(&allocator->live, block->address) == block;
    if (block->use == PLEAT_BLOCK_USE_WAITING) {
        sums->event_count += block->event_count;
        return block->event_count > 0 && block->uses == NULL
                   ? true
                   : check_refuse("A6", block, "it waits without a pending event");
    }
    check_add(sums->allocations, kind, 1);
    check_add(sums->allocated, kind, block->bytes);
    sums->live_count++;
    if (!is_mapped) {
        return check_refuse("A4", block, "it is live but its address does not lead to it");
    }
    return block->event_count == 0 ? true
                                   : check_refuse("A6", block, "it is live and has pending events");
}

static bool check_block(const pleat_allocator_t *allocator, const pleat_block_t *block,
                        check_sums_t *sums)
{
    const pleat_pool_t *pool = block->pool;
    if (pool != &allocator->large_pool && pool != &allocator->small_pool) {
        return check_refuse("A1", block, "it has no pool of this allocator");
    }
    check_add(sums->reserved, pool->kind, block->bytes);
    if (block->left == NULL) {
        check_add(sums->segments, pool->kind, 1);
    }
    if (!check_neighbours(block)) {
        return false;
    }
    return block->use == PLEAT_BLOCK_USE_FREE ? check_free_block(block, sums)
                                              : check_active_block(allocator, block, sums);
}

static bool check_equal(const char *rule, const char *what, uint64_t counted, int64_t reported)
{
    if ((int64_t)counted == reported) {
        return true;
    }
    pleat_error_set("%s: %s is reported as %lld and counts %llu", rule, what, (long long)reported,
                    (unsigned long long)counted);
    return false;
}

/* A5: one row of every counter that the blocks decide. */
static bool check_row(const pleat_stats_t *stats, const check_sums_t *sums, unsigned kind)
{
    static const char *const kind_names[] = {
        [PLEAT_STAT_ALL] = "all",
        [PLEAT_STAT_LARGE_POOL] = "large_pool",
        [PLEAT_STAT_SMALL_POOL] = "small_pool",
    };
    const struct {
        const char *name;
        uint64_t counted;
        int64_t reported;
    } rows[] = {
        {"allocation", sums->allocations[kind], stats->allocation[kind].current},
        {"segment", sums->segments[kind], stats->segment[kind].current},
        {"active", sums->active[kind], stats->active[kind].current},
        {"inactive_split", sums->split[kind], stats->inactive_split[kind].current},
        {"allocated_bytes", sums->allocated[kind], stats->allocated_bytes[kind].current},
        {"reserved_bytes", sums->reserved[kind], stats->reserved_bytes[kind].current},
        {"active_bytes", sums->active_bytes[kind], stats->active_bytes[kind].current},
        {"inactive_split_bytes", sums->split_bytes[kind],
         stats->inactive_split_bytes[kind].current},
        {"requested_bytes", sums->requested[kind], stats->requested_bytes[kind].current},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if ((int64_t)rows[i].counted != rows[i].reported) {
            pleat_error_set("A5: %s.%s is reported as %lld and counts %llu", rows[i].name,
                            kind_names[kind], (long long)rows[i].reported,
                            (unsigned long long)rows[i].counted);
            return false;
        }
    }
    return true;
}

static bool check_sums(const pleat_allocator_t *allocator, const check_sums_t *sums)
{
    for (unsigned kind = 0; kind < PLEAT_STAT_KIND_COUNT; kind++) {
        if (!check_row(&allocator->stats, sums, kind)) {
            return false;
        }
    }
    return check_equal("A5", "held_bytes", sums->reserved[PLEAT_STAT_ALL],
                       (int64_t)allocator->held_bytes) &&
           check_equal("A3", "free blocks of the large pool",
                       sums->free_count[PLEAT_STAT_LARGE_POOL],
                       (int64_t)pleat_free_set_count(&allocator->large_pool.free_blocks)) &&
           check_equal("A3", "free blocks of the small pool",
                       sums->free_count[PLEAT_STAT_SMALL_POOL],
                       (int64_t)pleat_free_set_count(&allocator->small_pool.free_blocks)) &&
           check_equal("A4", "live addresses", sums->live_count,
                       (int64_t)allocator->live.used_count) &&
           check_equal("A6", "queued events", sums->event_count,
                       (int64_t)allocator->waiting.wait_count);
}

/* A6: every queue's waits belong to waiting blocks, and only queues with waits are active. */
static bool check_waiting(const pleat_waiting_t *waiting)
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
                return check_refuse("A6", wait->block, "an event is queued but it does not wait");
            }
        }
    }
    return check_equal("A6", "queues to visit", filled_count, (int64_t)active_count) &&
           check_equal("A6", "waits", wait_count, (int64_t)waiting->wait_count);
}

static int check_compare_infos(const void *a, const void *b)
{
    const pleat_segment_info_t *left = a;
    const pleat_segment_info_t *right = b;
    return (left->address > right->address) - (left->address < right->address);
}

/* A7: the extents of all segments, sorted, do not overlap. */
static pleat_status_t check_extents(const pleat_allocator_t *allocator, uint64_t segment_count)
{
    pleat_segment_info_t *extents = calloc(segment_count + 1, sizeof(*extents));
    if (extents == NULL) {
        pleat_error_set("no host memory to check %llu segments", (unsigned long long)segment_count);
        return PLEAT_ERR_OOM_HOST;
    }
    size_t count = 0;
    for (const pleat_block_slab_t *slab = allocator->blocks.slabs; slab != NULL;
         slab = slab->next) {
        for (size_t i = 0; i < PLEAT_BLOCKS_PER_SLAB; i++) {
            const pleat_block_t *block = &slab->blocks[i];
            if (block->use == PLEAT_BLOCK_USE_UNUSED || block->left != NULL) {
                continue;
            }
            extents[count].address = block->address;
            for (const pleat_block_t *part = block; part != NULL; part = part->right) {
                extents[count].total_bytes += part->bytes;
            }
            count++;
        }
    }
    qsort(extents, count, sizeof(*extents), check_compare_infos);
    pleat_status_t status = PLEAT_OK;
    for (size_t i = 1; i < count && status == PLEAT_OK; i++) {
        if (extents[i - 1].address + extents[i - 1].total_bytes > extents[i].address) {
            pleat_error_set("A7: the segments at 0x%llx and 0x%llx overlap",
                            (unsigned long long)extents[i - 1].address,
                            (unsigned long long)extents[i].address);
            status = PLEAT_ERR_INVALID;
        }
    }
    free(extents);
    return status;
}

static pleat_status_t check_all(const pleat_allocator_t *allocator)
{
    check_sums_t sums = {0};
    for (const pleat_block_slab_t *slab = allocator->blocks.slabs; slab != NULL;
         slab = slab->next) {
        for (size_t i = 0; i < PLEAT_BLOCKS_PER_SLAB; i++) {
            const pleat_block_t *block = &slab->blocks[i];
            if (block->use != PLEAT_BLOCK_USE_UNUSED && !check_block(allocator, block, &sums)) {
                return PLEAT_ERR_INVALID;
            }
        }
    }
    if (!check_sums(allocator, &sums) || !check_waiting(&allocator->waiting) ||
        !pleat_free_set_check(&allocator->large_pool.free_blocks) ||
        !pleat_free_set_check(&allocator->small_pool.free_blocks)) {
        return PLEAT_ERR_INVALID;
    }
    return check_extents(allocator, sums.segments[PLEAT_STAT_ALL]);
}

pleat_status_t pleat_allocator_check(pleat_allocator_t *allocator)
{
    if (allocator == NULL) {
        pleat_error_set("%s: allocator is NULL", __func__);
        return PLEAT_ERR_INVALID;
    }
    pleat_lock_acquire(&allocator->lock);
    const pleat_status_t status = check_all(allocator);
    pleat_lock_release(&allocator->lock);
    return status;
}
