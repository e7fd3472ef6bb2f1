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
 *   L4  A view shows handles of its owner only; memory of a private pool has no fence and no mark.
 *   A8  After destruction the device reports nothing left; the tests of the device's usage see it.
 *   F1-F4 of the free sets: see free_set.h.
 */
#include "check.h"

#include "range.h"
#include "view.h"

#include <stdlib.h>
#include <string.h>

bool pleat_check_refuse(const char *rule, const pleat_block_t *block, const char *what)
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
        return pleat_check_refuse("A1", block, "size is no multiple of 512");
    }
    if (block->left != NULL && block->left->right != block) {
        return pleat_check_refuse("A1", block, "its left neighbour does not link back");
    }
    const pleat_block_t *right = block->right;
    if (right == NULL) {
        return true;
    }
    if (right->left != block) {
        return pleat_check_refuse("A1", block, "its right neighbour does not link back");
    }
    if (block->address + block->bytes != right->address) {
        return pleat_check_refuse("A1", block, "its right neighbour does not begin where it ends");
    }
    if ((right->stream != block->stream && block->arena == NULL) || right->pool != block->pool ||
        right->range != block->range || right->arena != block->arena ||
        right->slab != block->slab) {
        return pleat_check_refuse("A1", block,
                                  "its right neighbour has another stream, pool or range");
    }
    if (block->use == right->use &&
        (block->use == PLEAT_BLOCK_USE_FREE || block->use == PLEAT_BLOCK_USE_UNMAPPED)) {
        return pleat_check_refuse("A2", block, "its right neighbour is as free as it is");
    }
    return true;
}

/* Blocks of private pools are counted apart where free sets and lists are. */
static bool check_is_private(const pleat_block_t *block)
{
    return block->pool->owner != NULL;
}

static bool check_free_block(const pleat_block_t *block, pleat_check_sums_t *sums)
{
    if (!pleat_free_set_contains(&block->pool->free_blocks, block)) {
        return pleat_check_refuse("A3", block, "it is free but not in the set of its pool");
    }
    if (block->arena != NULL) {
        return block->stream == block->arena->stream
                   ? true
                   : pleat_check_refuse("A1", block, "it is free and not its arena's stream's");
    }
    if (check_is_private(block)) {
        sums->private_free_count++;
    } else {
        pleat_check_add(sums->free_count, block->pool->kind, 1);
    }
    if (block->range != NULL) {
        sums->pinned_bytes += pleat_range_pinned_bytes(block->range, block->address, block->bytes);
    } else if (pleat_block_is_split(block)) {
        sums->pinned_bytes += block->bytes;
        pleat_check_add(sums->split, block->pool->kind, 1);
        pleat_check_add(sums->split_bytes, block->pool->kind, block->bytes);
    }
    return block->event_count == 0 && block->uses == NULL
               ? true
               : pleat_check_refuse("A6", block, "it is free but has uses or pending events");
}

static bool check_active_block(const pleat_allocator_t *allocator, const pleat_block_t *block,
                               pleat_check_sums_t *sums)
{
    const pleat_stat_kind_t kind = block->pool->kind;
    if (block->requested_bytes > block->bytes) {
        return pleat_check_refuse("A5", block, "more was requested than it has");
    }
    pleat_check_add(sums->active, kind, 1);
    pleat_check_add(sums->active_bytes, kind, block->bytes);
    pleat_check_add(sums->requested, kind, block->requested_bytes);
    const bool is_mapped = pleat_address_map_find(&allocator->live, block->address) == block;
    if (block->use == PLEAT_BLOCK_USE_WAITING) {
        sums->event_count += block->event_count;
        const bool is_deferred = block->event_count == 0 && block->uses != NULL;
        sums->deferred_count += is_deferred;
        return is_deferred || (block->event_count > 0 && block->uses == NULL)
                   ? true
                   : pleat_check_refuse("A6", block, "it waits without a pending event");
    }
    pleat_check_add(sums->allocations, kind, 1);
    pleat_check_add(sums->allocated, kind, block->bytes);
    sums->live_count++;
    if (!is_mapped) {
        return pleat_check_refuse("A4", block, "it is live but its address does not lead to it");
    }
    return block->event_count == 0
               ? true
               : pleat_check_refuse("A6", block, "it is live and has pending events");
}

/* R1, R2: a block of a range and the pages that it touches. */
static bool check_range_block(const pleat_block_t *block, pleat_check_sums_t *sums)
{
    const pleat_chunked_range_t *pages = &block->range->pages;
    const bool is_unmapped = block->use == PLEAT_BLOCK_USE_UNMAPPED;
    const uint64_t begin = block->address - pages->address;
    const uint64_t end = begin + block->bytes;
    if (block->address < pages->address || end > pages->page_bytes * pages->page_count) {
        return pleat_check_refuse("A1", block, "it lies outside its range");
    }
    if (is_unmapped && (begin % pages->page_bytes != 0 || end % pages->page_bytes != 0)) {
        return pleat_check_refuse("R2", block, "it is unmapped and does not lie on pages");
    }
    for (uint64_t page = begin / pages->page_bytes; page * pages->page_bytes < end; page++) {
        if ((pages->chunks[page] == 0) != is_unmapped) {
            return pleat_check_refuse("R1", block,
                                      is_unmapped ? "it is unmapped and has a mapped page"
                                                  : "it is mapped and has an unmapped page");
        }
        /* A page counts with the block that it begins in. */
        sums->mapping_count += !is_unmapped && page * pages->page_bytes >= begin;
    }
    return true;
}

static bool check_unmapped_block(const pleat_block_t *block, pleat_check_sums_t *sums)
{
    if (block->range == NULL) {
        return pleat_check_refuse("R2", block, "it is unmapped and belongs to no range");
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
    return listed == block ? true
                           : pleat_check_refuse("R2", block, "it is unmapped but not in the list");
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
        return pleat_check_refuse("A1", block, "it has no pool of this allocator");
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
            return pleat_check_refuse("V2", part, "it hangs on a view's block and is no part");
        }
        part_bytes += part->bytes;
    }
    return part_bytes == block->bytes
               ? true
               : pleat_check_refuse("V2", block, "its parts do not add up to it");
}

/* Reserved memory by pool: arenas count by their handles (check_arenas), slabs as small. */
static void check_add_reserved(const pleat_block_t *block, pleat_check_sums_t *sums)
{
    if (block->use == PLEAT_BLOCK_USE_SLAB) {
        sums->reserved[PLEAT_STAT_LARGE_POOL] -= block->bytes;
        sums->reserved[PLEAT_STAT_SMALL_POOL] += block->bytes;
    } else if (block->arena == NULL && block->view == NULL && block->slab == NULL) {
        pleat_check_add(sums->reserved, block->pool->kind, block->bytes);
    }
    if (pleat_block_is_plain(block) && block->left == NULL) {
        pleat_check_add(sums->segments, block->pool->kind, 1);
    }
}

static bool check_block(const pleat_allocator_t *allocator, const pleat_block_t *block,
                        pleat_check_sums_t *sums)
{
    if (!check_pool(allocator, block) || !check_neighbours(block) ||
        (block->range != NULL && !check_range_block(block, sums)) ||
        (block->view != NULL && !check_view_block(block))) {
        return false;
    }
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

bool pleat_check_equal(const char *rule, const char *what, uint64_t counted, int64_t reported)
{
    if ((int64_t)counted == reported) {
        return true;
    }
    pleat_error_set("%s: %s is reported as %lld and counts %llu", rule, what, (long long)reported,
                    (unsigned long long)counted);
    return false;
}

/* A5: one row of every counter that the blocks decide. */
static bool check_row(const pleat_stats_t *stats, const pleat_check_sums_t *sums, unsigned kind)
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

static bool check_sums(const pleat_allocator_t *allocator, const pleat_check_sums_t *sums)
{
    for (unsigned kind = 0; kind < PLEAT_STAT_KIND_COUNT; kind++) {
        if (!check_row(&allocator->stats, sums, kind)) {
            return false;
        }
    }
    return pleat_check_equal("A5", "held_bytes",
                             sums->reserved[PLEAT_STAT_ALL] + allocator->asked_bytes,
                             (int64_t)allocator->held_bytes) &&
           pleat_check_equal("A3", "free blocks of the large pool",
                             sums->free_count[PLEAT_STAT_LARGE_POOL],
                             (int64_t)pleat_free_set_count(&allocator->large_pool.free_blocks)) &&
           pleat_check_equal("A3", "free blocks of the small pool",
                             sums->free_count[PLEAT_STAT_SMALL_POOL],
                             (int64_t)pleat_free_set_count(&allocator->small_pool.free_blocks)) &&
           pleat_check_equal("R2", "unmapped blocks", sums->unmapped_count,
                             (int64_t)(allocator->large_pool.unmapped.count +
                                       allocator->small_pool.unmapped.count)) &&
           pleat_check_equal("A4", "live addresses", sums->live_count,
                             (int64_t)allocator->live.used_count) &&
           pleat_check_equal("A6", "queued events", sums->event_count,
                             (int64_t)allocator->waiting.wait_count) &&
           pleat_check_equal("M1", "bytes that cannot go back", sums->pinned_bytes,
                             allocator->stats.unreturnable_bytes) &&
           pleat_check_equal("M1", "mappings", sums->mapping_count, allocator->stats.mappings);
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
    pleat_check_sums_t sums = {0};
    for (const pleat_block_slab_t *slab = allocator->blocks.slabs; slab != NULL;
         slab = slab->next) {
        for (size_t i = 0; i < PLEAT_BLOCKS_PER_SLAB; i++) {
            const pleat_block_t *block = &slab->blocks[i];
            if (block->use != PLEAT_BLOCK_USE_UNUSED && !check_block(allocator, block, &sums)) {
                return PLEAT_ERR_INVALID;
            }
        }
    }
    if (!pleat_check_pleated(allocator, &sums) || !check_sums(allocator, &sums) ||
        !pleat_check_waiting(&allocator->waiting, &sums) || !pleat_check_pools(allocator, &sums) ||
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
