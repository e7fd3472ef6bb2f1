/*
 * check: verifies every invariant of an allocator, numbered as they are cited.
 *
 *   A1  The blocks of a segment tile it: no gap, no overlap, one stream and pool, links agree.
 *   A2  Free neighbours do not exist, nor unmapped ones; they would have been merged.
 *   A3  A free block is in the set of its pool, every other block in none.
 *   A4  The address map has one entry per live block and no other.
 *   A5  requested <= allocated <= active <= reserved, and each equals the sum over the blocks.
 *   A6  A block waits exactly if it counts pending events, as many as stand in the queues, or if it
 *       is in the list of frees that are put off and has uses.
 *   A7  Segments do not overlap.
 *   R1  The pages under a mapped block of a range are mapped, those under an unmapped one are not.
 *   M1  unreturnable_bytes and mappings are the sums over segments, slabs, ranges, handles and
 *       views.
 *   R2  Unmapped blocks begin and end on pages, stand in the list of their pool, and only ranges
 *       have them.
 *   H1  free_bytes of a handle is the sum over the free blocks at its home.
 *   H2  The handles of an arena rise, do not overlap, and begin in their first block.
 *   P1  The blocks of an arena tile it; mapped ones lie on handles, unmapped ones on none.
 *   P2  Fences lie on free memory and do not overlap.
 *   P3  The sums of an arena are those over its blocks.
 *   V1  A handle is in a view at most once, and its piece in the list of the handle.
 *   V2  The parts of a view's block are in use as parts and add up to it.
 *   L1  Private pools rise by id and own their pools.
 *   L2  A private pool counts the plain segments, ranges and arenas that it has.
 *   L3  A redirection leads to a private pool of the list, which is pinned, no two to the same one.
 *   A8  After destruction the device reports nothing left; the tests of the device's usage see it.
 *   F1-F4 of the free sets: see free_set.h.
 */
#include "allocator.h"
#include "range.h"
#include "view.h"

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
    uint64_t private_free_count; /* free blocks of private pools' sets */
    uint64_t private_unmapped_count;
    uint64_t holding_count; /* plain segments, ranges and arenas of private pools */
    uint64_t deferred_count;
    uint64_t unmapped_count;
    uint64_t pinned_bytes; /* free, and cannot go back */
    uint64_t mapping_count;
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
    if ((right->stream != block->stream && block->arena == NULL) || right->pool != block->pool ||
        right->range != block->range || right->arena != block->arena ||
        right->slab != block->slab) {
        return check_refuse("A1", block, "its right neighbour has another stream, pool or range");
    }
    if (block->use == right->use &&
        (block->use == PLEAT_BLOCK_USE_FREE || block->use == PLEAT_BLOCK_USE_UNMAPPED)) {
        return check_refuse("A2", block, "its right neighbour is as free as it is");
    }
    return true;
}

/* Blocks of private pools are counted apart where free sets and lists are. */
static bool check_is_private(const pleat_block_t *block)
{
    return block->pool->owner != NULL;
}

static bool check_free_block(const pleat_block_t *block, check_sums_t *sums)
{
    if (!pleat_free_set_contains(&block->pool->free_blocks, block)) {
        return check_refuse("A3", block, "it is free but not in the set of its pool");
    }
    if (block->arena != NULL) {
        return block->stream == block->arena->stream
                   ? true
                   : check_refuse("A1", block, "it is free and not its arena's stream's");
    }
    if (check_is_private(block)) {
        sums->private_free_count++;
    } else {
        check_add(sums->free_count, block->pool->kind, 1);
    }
    if (block->range != NULL) {
        sums->pinned_bytes += pleat_range_pinned_bytes(block->range, block->address, block->bytes);
    } else if (pleat_block_is_split(block)) {
        sums->pinned_bytes += block->bytes;
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
        const bool is_deferred = block->event_count == 0 && block->uses != NULL;
        sums->deferred_count += is_deferred;
        return is_deferred || (block->event_count > 0 && block->uses == NULL)
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

/* R1, R2: a block of a range and the pages that it touches. */
static bool check_range_block(const pleat_block_t *block, check_sums_t *sums)
{
    const pleat_chunked_range_t *pages = &block->range->pages;
    const bool is_unmapped = block->use == PLEAT_BLOCK_USE_UNMAPPED;
    const uint64_t begin = block->address - pages->address;
    const uint64_t end = begin + block->bytes;
    if (block->address < pages->address || end > pages->page_bytes * pages->page_count) {
        return check_refuse("A1", block, "it lies outside its range");
    }
    if (is_unmapped && (begin % pages->page_bytes != 0 || end % pages->page_bytes != 0)) {
        return check_refuse("R2", block, "it is unmapped and does not lie on pages");
    }
    for (uint64_t page = begin / pages->page_bytes; page * pages->page_bytes < end; page++) {
        if ((pages->chunks[page] == 0) != is_unmapped) {
            return check_refuse("R1", block,
                                is_unmapped ? "it is unmapped and has a mapped page"
                                            : "it is mapped and has an unmapped page");
        }
        /* A page counts with the block that it begins in. */
        sums->mapping_count += !is_unmapped && page * pages->page_bytes >= begin;
    }
    return true;
}

static bool check_unmapped_block(const pleat_block_t *block, check_sums_t *sums)
{
    if (block->range == NULL) {
        return check_refuse("R2", block, "it is unmapped and belongs to no range");
    }
    const pleat_block_t *listed = pleat_unmapped_list_first(&block->pool->unmapped, block->stream);
    while (listed != NULL && listed != block) {
        listed = pleat_unmapped_list_next(listed);
    }
    if (check_is_private(block)) {
        sums->private_unmapped_count++;
    } else {
        sums->unmapped_count++;
    }
    return listed == block ? true : check_refuse("R2", block, "it is unmapped but not in the list");
}

static bool check_pool(const pleat_allocator_t *allocator, const pleat_block_t *block)
{
    const pleat_pool_t *pool = block->pool;
    const pleat_private_pool_t *owner = pool->owner;
    const pleat_private_pool_t *listed = allocator->private_pools.first;
    while (owner != NULL && listed != NULL && listed != owner) {
        listed = listed->next;
    }
    const bool is_known = owner == NULL || listed == owner;
    const pleat_pool_t *large = owner == NULL ? &allocator->large_pool : &owner->large;
    const pleat_pool_t *small = owner == NULL ? &allocator->small_pool : &owner->small;
    if (!is_known ||
        (block->arena != NULL ? pool != &block->arena->pool : pool != large && pool != small)) {
        return check_refuse("A1", block, "it has no pool of this allocator");
    }
    return true;
}

/* A block of a view: its parts lie in arenas, are in use as parts, and add up. */
static bool check_view_block(const pleat_block_t *block)
{
    uint64_t part_bytes = 0;
    for (const pleat_block_t *part = pleat_view_next_part(block); part != NULL;
         part = pleat_view_next_part(part)) {
        if (part->use != PLEAT_BLOCK_USE_PART || part->arena == NULL) {
            return check_refuse("V2", part, "it hangs on a view's block and is no part");
        }
        part_bytes += part->bytes;
    }
    return part_bytes == block->bytes ? true
                                      : check_refuse("V2", block, "its parts do not add up to it");
}

/* Reserved memory by pool: arenas count by their handles (check_arenas), slabs as small. */
static void check_add_reserved(const pleat_block_t *block, check_sums_t *sums)
{
    if (block->use == PLEAT_BLOCK_USE_SLAB) {
        sums->reserved[PLEAT_STAT_LARGE_POOL] -= block->bytes;
        sums->reserved[PLEAT_STAT_SMALL_POOL] += block->bytes;
    } else if (block->arena == NULL && block->view == NULL && block->slab == NULL) {
        check_add(sums->reserved, block->pool->kind, block->bytes);
    }
    if (pleat_block_is_plain(block) && block->left == NULL) {
        check_add(sums->segments, block->pool->kind, 1);
    }
}

/* L2: the first block of what a private pool holds of the device. */
static void check_add_holding(const pleat_block_t *block, check_sums_t *sums)
{
    if (check_is_private(block) && block->left == NULL && block->slab == NULL &&
        block->view == NULL) {
        sums->holding_count++;
    }
}

static bool check_block(const pleat_allocator_t *allocator, const pleat_block_t *block,
                        check_sums_t *sums)
{
    if (!check_pool(allocator, block) || !check_neighbours(block) ||
        (block->range != NULL && !check_range_block(block, sums)) ||
        (block->view != NULL && !check_view_block(block))) {
        return false;
    }
    check_add_holding(block, sums);
    if (block->use == PLEAT_BLOCK_USE_UNMAPPED) {
        return block->arena != NULL || check_unmapped_block(block, sums);
    }
    check_add_reserved(block, sums);
    if (block->use == PLEAT_BLOCK_USE_PART || block->use == PLEAT_BLOCK_USE_SLAB) {
        return true;
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
           check_equal("R2", "unmapped blocks", sums->unmapped_count,
                       (int64_t)(allocator->large_pool.unmapped.count +
                                 allocator->small_pool.unmapped.count)) &&
           check_equal("A4", "live addresses", sums->live_count,
                       (int64_t)allocator->live.used_count) &&
           check_equal("A6", "queued events", sums->event_count,
                       (int64_t)allocator->waiting.wait_count) &&
           check_equal("M1", "bytes that cannot go back", sums->pinned_bytes,
                       allocator->stats.unreturnable_bytes) &&
           check_equal("M1", "mappings", sums->mapping_count, allocator->stats.mappings);
}

/* A6: deferred frees are in the list, as many as there are. */
static bool check_deferred(const pleat_waiting_t *waiting, const check_sums_t *sums)
{
    size_t count = 0;
    const pleat_block_t *last = NULL;
    for (const pleat_block_t *block = waiting->deferred.first; block != NULL;
         block = block->next_live) {
        if (block->use != PLEAT_BLOCK_USE_WAITING || block->uses == NULL) {
            return check_refuse("A6", block, "it is put off but does not wait, or for nothing");
        }
        last = block;
        count++;
    }
    return check_equal("A6", "frees put off, as counted", count,
                       (int64_t)waiting->deferred.count) &&
           check_equal("A6", "frees put off", sums->deferred_count, (int64_t)count) &&
           check_equal("A6", "the last free put off is known", last == waiting->deferred.last, 1) &&
           check_equal("A6", "waits and frees put off", waiting->wait_count + count,
                       (int64_t)waiting->open_count);
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

/* ---- private pools ---- */

/* L1: rising by id. The sums over all of them. */
static bool check_pools(const pleat_allocator_t *allocator, const check_sums_t *sums)
{
    uint64_t free_count = 0;
    uint64_t unmapped_count = 0;
    uint64_t holding_count = 0;
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
        holding_count += pool->holding_count;
        if (!pleat_free_set_check(&pool->large.free_blocks) ||
            !pleat_free_set_check(&pool->small.free_blocks)) {
            return false;
        }
    }
    return check_equal("A3", "free blocks of private pools", sums->private_free_count,
                       (int64_t)free_count) &&
           check_equal("R2", "unmapped blocks of private pools", sums->private_unmapped_count,
                       (int64_t)unmapped_count) &&
           check_equal("L2", "what private pools hold", sums->holding_count,
                       (int64_t)holding_count);
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

/* ---- pleated mode ---- */

/* H1, H2: the handles of an arena, their order and their free bytes. */
static bool check_handles(const pleat_arena_t *arena)
{
    uint64_t end = 0;
    uint64_t bytes = 0;
    for (size_t i = 0; i < arena->handle_count; i++) {
        const pleat_handle_t *handle = arena->handles[i];
        if (handle->offset < end || handle->arena != arena) {
            return check_refuse("H2", handle->start, "a handle overlaps the one before it");
        }
        end = handle->offset + handle->bytes;
        bytes += handle->bytes;
        const pleat_devptr_t home = arena->address + handle->offset;
        const pleat_devptr_t home_end = home + handle->bytes;
        if (handle->start->address > home ||
            handle->start->address + handle->start->bytes <= home) {
            return check_refuse("H2", handle->start, "a handle does not begin in its first block");
        }
        uint64_t free_bytes = 0;
        for (const pleat_block_t *block = handle->start; block != NULL && block->address < home_end;
             block = block->right) {
            const pleat_devptr_t low = block->address > home ? block->address : home;
            const pleat_devptr_t block_end = block->address + block->bytes;
            const pleat_devptr_t high = block_end < home_end ? block_end : home_end;
            if (block->use == PLEAT_BLOCK_USE_UNMAPPED) {
                return check_refuse("P1", block, "it is unmapped and lies on a handle");
            }
            free_bytes += block->use == PLEAT_BLOCK_USE_FREE ? high - low : 0;
        }
        if (free_bytes != handle->free_bytes) {
            return check_refuse("H1", handle->start, "the free bytes of its handle are wrong");
        }
    }
    if (bytes != arena->handle_bytes) {
        pleat_error_set("H2: the handles of the arena at 0x%llx do not add up",
                        (unsigned long long)arena->address);
        return false;
    }
    return true;
}

/* P2: fences lie on free memory and do not overlap. */
static bool check_fences(const pleat_arena_t *arena)
{
    for (const pleat_fence_t *fence = arena->fences; fence != NULL; fence = fence->next) {
        const pleat_block_t *block = pleat_arena_free_block(arena, fence->begin);
        const bool is_on_free = block != NULL && fence->begin < fence->end &&
                                block->address - arena->address + block->bytes >= fence->end;
        bool overlaps = false;
        for (const pleat_fence_t *other = fence->next; other != NULL; other = other->next) {
            overlaps = overlaps || (other->begin < fence->end && fence->begin < other->end);
        }
        if (!is_on_free || overlaps) {
            pleat_error_set("P2: the fence on [%llu, %llu) of the arena at 0x%llx %s",
                            (unsigned long long)fence->begin, (unsigned long long)fence->end,
                            (unsigned long long)arena->address,
                            overlaps ? "overlaps another" : "lies on memory that is in use");
            return false;
        }
    }
    return true;
}

/* P1, P3: the blocks of an arena, from end to end, and their sums. */
static bool check_arena(const pleat_arena_t *arena, check_sums_t *sums)
{
    uint64_t offset = 0;
    uint64_t free_bytes = 0;
    uint64_t free_count = 0;
    uint64_t used_count = 0;
    uint64_t mapped_bytes = 0;
    const pleat_block_t *last = NULL;
    for (const pleat_block_t *block = arena->first; block != NULL; block = block->right) {
        if (block->address != arena->address + offset) {
            return check_refuse("P1", block, "the arena has a gap before it");
        }
        offset += block->bytes;
        const bool is_free = block->use == PLEAT_BLOCK_USE_FREE;
        const bool is_unmapped = block->use == PLEAT_BLOCK_USE_UNMAPPED;
        free_bytes += is_free ? block->bytes : 0;
        free_count += is_free;
        used_count += !is_free && !is_unmapped;
        mapped_bytes += is_unmapped ? 0 : block->bytes;
        last = block;
    }
    if (offset != arena->bytes || last != arena->last || mapped_bytes != arena->handle_bytes) {
        pleat_error_set("P1: the blocks of the arena at 0x%llx do not tile it",
                        (unsigned long long)arena->address);
        return false;
    }
    check_add(sums->reserved, PLEAT_STAT_LARGE_POOL, arena->handle_bytes);
    check_add(sums->split, PLEAT_STAT_LARGE_POOL, used_count > 0 ? free_count : 0);
    check_add(sums->split_bytes, PLEAT_STAT_LARGE_POOL, used_count > 0 ? free_bytes : 0);
    return check_equal("P3", "free bytes of an arena", free_bytes, (int64_t)arena->free_bytes) &&
           check_equal("P3", "free blocks of an arena", free_count, (int64_t)arena->free_count) &&
           check_equal("P3", "blocks in use of an arena", used_count, (int64_t)arena->used_count) &&
           check_equal("A3", "free blocks of an arena", free_count,
                       (int64_t)pleat_free_set_count(&arena->pool.free_blocks)) &&
           pleat_free_set_check(&arena->pool.free_blocks) && check_handles(arena) &&
           check_fences(arena);
}

/* V1: each piece is in the list of its handle, and a handle is in a view at most once. */
static bool check_view(const pleat_view_t *view)
{
    for (size_t i = 0; i < view->piece_count; i++) {
        size_t own_count = 0;
        bool is_listed = false;
        for (const pleat_piece_t *piece = view->pieces[i].handle->pieces; piece != NULL;
             piece = piece->next_view) {
            own_count += piece->view == view;
            is_listed = is_listed || piece == &view->pieces[i];
        }
        if (own_count != 1 || !is_listed) {
            pleat_error_set("V1: the view at 0x%llx shows a handle %zu times",
                            (unsigned long long)view->address, own_count);
            return false;
        }
    }
    return true;
}

static bool check_pleated(const pleat_allocator_t *allocator, check_sums_t *sums)
{
    uint64_t mappings = 0;
    for (const pleat_arena_t *arena = allocator->arenas; arena != NULL; arena = arena->next) {
        if (!check_arena(arena, sums)) {
            return false;
        }
        for (size_t i = 0; i < arena->handle_count; i++) {
            const pleat_handle_t *handle = arena->handles[i];
            sums->pinned_bytes += pleat_handle_is_whole(handle) ? 0 : handle->free_bytes;
        }
        sums->mapping_count += arena->handle_count;
    }
    for (const pleat_view_t *view = allocator->views; view != NULL; view = view->next) {
        if (!check_view(view)) {
            return false;
        }
        mappings += view->piece_count;
    }
    sums->mapping_count += mappings;
    return check_equal("V1", "mappings of views", mappings, (int64_t)allocator->view_mappings);
}

static int check_compare_infos(const void *a, const void *b)
{
    const pleat_segment_info_t *left = a;
    const pleat_segment_info_t *right = b;
    return (left->address > right->address) - (left->address < right->address);
}

/* A7: the extents of all segments, sorted, do not overlap. */
static pleat_status_t check_extents(const pleat_allocator_t *allocator)
{
    pleat_segment_info_t *extents = calloc(allocator->blocks.used_count + 1, sizeof(*extents));
    if (extents == NULL) {
        pleat_error_set("no host memory to check the segments");
        return PLEAT_ERR_OOM_HOST;
    }
    size_t count = 0;
    for (const pleat_block_slab_t *slab = allocator->blocks.slabs; slab != NULL;
         slab = slab->next) {
        for (size_t i = 0; i < PLEAT_BLOCKS_PER_SLAB; i++) {
            const pleat_block_t *block = &slab->blocks[i];
            if (block->use == PLEAT_BLOCK_USE_UNUSED || block->left != NULL ||
                block->slab != NULL || block->view != NULL) {
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
    if (!check_pleated(allocator, &sums) || !check_sums(allocator, &sums) ||
        !check_waiting(&allocator->waiting) || !check_deferred(&allocator->waiting, &sums) ||
        !check_pools(allocator, &sums) || !check_redirections(allocator) ||
        !pleat_free_set_check(&allocator->large_pool.free_blocks) ||
        !pleat_free_set_check(&allocator->small_pool.free_blocks)) {
        return PLEAT_ERR_INVALID;
    }
    return check_extents(allocator);
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
