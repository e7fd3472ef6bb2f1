/*
 * check_pleated: arenas, handles, fences and views.
 */
#include "check.h"
#include "view.h"

/* H1, H2: the handles of an arena, their order and their free bytes. */
static bool check_handles(const pleat_arena_t *arena)
{
    uint64_t end = 0;
    uint64_t bytes = 0;
    for (size_t i = 0; i < arena->handle_count; i++) {
        const pleat_handle_t *handle = arena->handles[i];
        if (handle->offset < end || handle->arena != arena) {
            return pleat_check_refuse("H2", handle->start, "a handle overlaps the one before it");
        }
        end = handle->offset + handle->bytes;
        bytes += handle->bytes;
        const pleat_devptr_t home = arena->address + handle->offset;
        const pleat_devptr_t home_end = home + handle->bytes;
        if (handle->start->address > home ||
            handle->start->address + handle->start->bytes <= home) {
            return pleat_check_refuse("H2", handle->start,
                                      "a handle does not begin in its first block");
        }
        uint64_t free_bytes = 0;
        for (const pleat_block_t *block = handle->start; block != NULL && block->address < home_end;
             block = block->right) {
            const pleat_devptr_t low = block->address > home ? block->address : home;
            const pleat_devptr_t block_end = block->address + block->bytes;
            const pleat_devptr_t high = block_end < home_end ? block_end : home_end;
            if (block->use == PLEAT_BLOCK_USE_UNMAPPED) {
                return pleat_check_refuse("P1", block, "it is unmapped and lies on a handle");
            }
            free_bytes += block->use == PLEAT_BLOCK_USE_FREE ? high - low : 0;
        }
        if (free_bytes != handle->free_bytes) {
            return pleat_check_refuse("H1", handle->start,
                                      "the free bytes of its handle are wrong");
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

/* L4: only the arena's own stream uses the memory of a private pool. */
static bool check_apartness(const pleat_arena_t *arena)
{
    if (arena->pool.owner != NULL && (arena->fences != NULL || arena->mark != NULL)) {
        pleat_error_set("L4: the arena at 0x%llx of a private pool has a fence or a mark",
                        (unsigned long long)arena->address);
        return false;
    }
    return true;
}

/* P1, P3: the blocks of an arena, from end to end, and their sums. */
static bool check_arena(const pleat_arena_t *arena, pleat_check_sums_t *sums)
{
    uint64_t offset = 0;
    uint64_t free_bytes = 0;
    uint64_t free_count = 0;
    uint64_t used_count = 0;
    uint64_t mapped_bytes = 0;
    const pleat_block_t *last = NULL;
    for (const pleat_block_t *block = arena->first; block != NULL; block = block->right) {
        if (block->address != arena->address + offset) {
            return pleat_check_refuse("P1", block, "the arena has a gap before it");
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
    pleat_check_add(sums->reserved, PLEAT_STAT_LARGE_POOL, arena->handle_bytes);
    pleat_check_add(sums->split, PLEAT_STAT_LARGE_POOL, used_count > 0 ? free_count : 0);
    pleat_check_add(sums->split_bytes, PLEAT_STAT_LARGE_POOL, used_count > 0 ? free_bytes : 0);
    return pleat_check_equal("P3", "free bytes of an arena", free_bytes,
                             (int64_t)arena->free_bytes) &&
           pleat_check_equal("P3", "free blocks of an arena", free_count,
                             (int64_t)arena->free_count) &&
           pleat_check_equal("P3", "blocks in use of an arena", used_count,
                             (int64_t)arena->used_count) &&
           pleat_check_equal("A3", "free blocks of an arena", free_count,
                             (int64_t)pleat_free_set_count(&arena->pool.free_blocks)) &&
           pleat_free_set_check(&arena->pool.free_blocks) && check_apartness(arena) &&
           check_handles(arena) && check_fences(arena);
}

/* V1, L4: each piece is in the list of its handle, and a handle is in a view at most once. */
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
        if (view->pieces[i].handle->arena->pool.owner != view->owner) {
            pleat_error_set("L4: the view at 0x%llx shows a handle of another owner",
                            (unsigned long long)view->address);
            return false;
        }
        if (own_count != 1 || !is_listed) {
            pleat_error_set("V1: the view at 0x%llx shows a handle %zu times",
                            (unsigned long long)view->address, own_count);
            return false;
        }
    }
    return true;
}

bool pleat_check_pleated(const pleat_allocator_t *allocator, pleat_check_sums_t *sums)
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
    return pleat_check_equal("V1", "mappings of views", mappings,
                             (int64_t)allocator->view_mappings);
}
