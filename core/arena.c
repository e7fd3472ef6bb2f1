/*
 * arena: handles at home, and the blocks that tile them.
 */
#include "arena.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "allocator.h"
#include "fence.h"

/* Addresses of an arena in multiples of the device's memory: holes of released handles are filled
 * again only when the end is reached. */
#define ARENA_DEVICE_MULTIPLE 2u

/* Addresses are finite too: after so many arenas new ones reserve half as many, down to the least.
 */
#define ARENAS_OF_A_SIZE 16u
#define ARENA_LEAST_BYTES (UINT64_C(512) << 20)

static uint64_t block_offset(const pleat_arena_t *arena, const pleat_block_t *block)
{
    return block->address - arena->address;
}

/* ---- life ---- */

/* Addresses for one more arena. */
static uint64_t arena_range_bytes(const pleat_allocator_t *allocator, uint64_t total_bytes,
                                  uint64_t least_bytes)
{
    size_t count = 0;
    for (const pleat_arena_t *arena = allocator->arenas; arena != NULL; arena = arena->next) {
        count++;
    }
    const size_t halvings = count / ARENAS_OF_A_SIZE;
    uint64_t bytes = halvings < 32 ? total_bytes * ARENA_DEVICE_MULTIPLE >> halvings : 0;
    bytes = bytes < ARENA_LEAST_BYTES ? ARENA_LEAST_BYTES : bytes;
    bytes = bytes < least_bytes ? least_bytes : bytes;
    const uint64_t most = total_bytes * ARENA_DEVICE_MULTIPLE;
    return pleat_round_up(bytes < most ? bytes : most, allocator->granularity_bytes);
}

static void arena_link(pleat_allocator_t *allocator, pleat_arena_t *arena)
{
    pleat_arena_t **link = &allocator->arenas;
    while (*link != NULL) {
        link = &(*link)->next;
    }
    *link = arena; /* in the order of their making, so that searches are repeatable */
}

pleat_status_t pleat_arena_create(pleat_allocator_t *allocator, pleat_private_pool_t *owner,
                                  pleat_stream_t stream, uint64_t least_bytes,
                                  pleat_arena_t **arena_out)
{
    uint64_t free_bytes = 0;
    uint64_t total_bytes = 0;
    pleat_status_t status = pleat_vmm_mem_info(allocator->vmm, &free_bytes, &total_bytes);
    if (status != PLEAT_OK) {
        return status;
    }
    pleat_arena_t *arena = calloc(1, sizeof(*arena));
    pleat_free_bins_t *bins =
        arena == NULL ? NULL : pleat_free_set_reserve(&arena->pool.free_blocks, stream);
    if (bins == NULL) {
        free(arena);
        pleat_error_set("no host memory for an arena");
        return PLEAT_ERR_OOM_HOST;
    }
    arena->bytes = arena_range_bytes(allocator, total_bytes, least_bytes);
    status = pleat_vmm_address_reserve(allocator->vmm, arena->bytes, &arena->address);
    if (status != PLEAT_OK) {
        pleat_pool_fini(&arena->pool);
        free(arena);
        return status;
    }
    arena->stream = stream;
    arena->pool.kind = PLEAT_STAT_LARGE_POOL;
    arena->pool.owner = owner;
    const pleat_block_identity_t identity = {.address = arena->address,
                                             .bytes = arena->bytes,
                                             .stream = stream,
                                             .pool = &arena->pool,
                                             .bins = bins,
                                             .use = PLEAT_BLOCK_USE_UNMAPPED};
    pleat_block_t *block = pleat_block_store_make(&allocator->blocks, &identity);
    block->arena = arena;
    arena->first = block;
    arena->last = block;
    arena_link(allocator, arena);
    pleat_private_pool_hold(owner);
    *arena_out = arena;
    return PLEAT_OK;
}

/* End the record of a handle. */
static void arena_drop_handle(pleat_handle_t *handle)
{
    if (handle->file >= 0) {
        (void)close(handle->file);
    }
    free(handle);
}

static void arena_free_handle(pleat_allocator_t *allocator, pleat_handle_t *handle)
{
    const pleat_devptr_t address = handle->arena->address + handle->offset;
    /* The arena is being destroyed: nothing is left to do about what the device refuses. */
    const pleat_status_t unmapped = pleat_vmm_unmap(allocator->vmm, address, handle->bytes);
    const pleat_status_t released = pleat_vmm_chunk_release(allocator->vmm, handle->chunk);
    (void)unmapped;
    (void)released;
    pleat_stats_unmap(&allocator->stats, 1);
    arena_drop_handle(handle);
}

void pleat_arena_destroy(pleat_allocator_t *allocator, pleat_arena_t *arena)
{
    for (size_t i = 0; i < arena->handle_count; i++) {
        arena_free_handle(allocator, arena->handles[i]);
    }
    pleat_stale_fini(&arena->stale, allocator->vmm);
    const pleat_status_t ignored =
        pleat_vmm_address_free(allocator->vmm, arena->address, arena->bytes);
    (void)ignored;
    pleat_fence_cut(allocator, arena, 0, arena->bytes);
    pleat_fence_drop(allocator, arena->mark);
    pleat_private_pool_let_go(arena->pool.owner);
    pleat_arena_t **link = &allocator->arenas;
    while (*link != arena) {
        link = &(*link)->next;
    }
    *link = arena->next;
    free((void *)arena->handles);
    pleat_pool_fini(&arena->pool);
    free(arena);
}

/* ---- handles by offset ---- */

size_t pleat_arena_handle_index(const pleat_arena_t *arena, uint64_t offset)
{
    size_t low = 0;
    size_t high = arena->handle_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (arena->handles[middle]->offset + arena->handles[middle]->bytes <= offset) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

uint64_t pleat_arena_end(const pleat_arena_t *arena)
{
    if (arena->handle_count == 0) {
        return 0;
    }
    const pleat_handle_t *last = arena->handles[arena->handle_count - 1];
    return last->offset + last->bytes;
}

static bool arena_reserve_handle(pleat_arena_t *arena)
{
    if (arena->handle_count < arena->handle_capacity) {
        return true;
    }
    const size_t capacity = arena->handle_capacity == 0 ? 64 : 2 * arena->handle_capacity;
    pleat_handle_t **handles =
        (pleat_handle_t **)realloc((void *)arena->handles, capacity * sizeof(*handles));
    if (handles == NULL) {
        return false;
    }
    arena->handles = handles;
    arena->handle_capacity = capacity;
    return true;
}

/* First handle whose home begins at or behind an offset. */
static size_t arena_first_start(const pleat_arena_t *arena, uint64_t offset)
{
    size_t index = pleat_arena_handle_index(arena, offset);
    if (index < arena->handle_count && arena->handles[index]->offset < offset) {
        index++;
    }
    return index;
}

/* Handles that begin inside a block have it as their start. */
static void arena_set_starts(const pleat_arena_t *arena, pleat_block_t *block)
{
    const uint64_t begin = block_offset(arena, block);
    for (size_t i = arena_first_start(arena, begin);
         i < arena->handle_count && arena->handles[i]->offset < begin + block->bytes; i++) {
        arena->handles[i]->start = block;
    }
}

/* Free bytes of a handle that a live block holds back. */
static int64_t handle_unreturnable_bytes(const pleat_handle_t *handle)
{
    return pleat_handle_is_whole(handle) ? 0 : (int64_t)handle->free_bytes;
}

/* Some bytes of a handle became free, or were taken. */
static void handle_add_free(pleat_allocator_t *allocator, pleat_handle_t *handle, uint64_t bytes,
                            bool is_freed)
{
    allocator->stats.unreturnable_bytes -= handle_unreturnable_bytes(handle);
    PLEAT_ASSERT(bytes <= (is_freed ? handle->bytes - handle->free_bytes : handle->free_bytes));
    handle->free_bytes = is_freed ? handle->free_bytes + bytes : handle->free_bytes - bytes;
    if (is_freed && pleat_handle_is_whole(handle)) {
        handle->idle_since_ns = allocator->now_ns;
    }
    allocator->stats.unreturnable_bytes += handle_unreturnable_bytes(handle);
}

/* The same for a span. */
static void arena_add_free(pleat_allocator_t *allocator, pleat_arena_t *arena, uint64_t begin,
                           uint64_t bytes, bool is_freed)
{
    const uint64_t end = begin + bytes;
    for (size_t i = pleat_arena_handle_index(arena, begin);
         i < arena->handle_count && arena->handles[i]->offset < end; i++) {
        pleat_handle_t *handle = arena->handles[i];
        const uint64_t low = handle->offset > begin ? handle->offset : begin;
        const uint64_t high =
            handle->offset + handle->bytes < end ? handle->offset + handle->bytes : end;
        PLEAT_ASSERT(low < high);
        handle_add_free(allocator, handle, high - low, is_freed);
    }
}

/* ---- blocks ---- */

static void arena_insert_free(pleat_arena_t *arena, pleat_block_t *block)
{
    pleat_pool_give(&arena->pool, block);
    arena->free_count++;
    arena->free_bytes += block->bytes;
}

static void arena_remove_free(pleat_arena_t *arena, pleat_block_t *block)
{
    pleat_pool_take(&arena->pool, block);
    arena->free_count--;
    arena->free_bytes -= block->bytes;
}

/* Cut the low end off a block; the new object in front of it takes over its use. */
static pleat_block_t *arena_cut_low(pleat_allocator_t *allocator, pleat_arena_t *arena,
                                    pleat_block_t *block, uint64_t low_bytes)
{
    pleat_block_t *low = pleat_block_store_take(&allocator->blocks);
    pleat_block_split(block, low_bytes, low);
    low->use = block->use;
    if (arena->first == block) {
        arena->first = low;
    }
    arena_set_starts(arena, low);
    return low;
}

/* Cut everything behind @p low_bytes off a block, as a new object behind it with the same use. */
static pleat_block_t *arena_cut_high(pleat_allocator_t *allocator, pleat_arena_t *arena,
                                     pleat_block_t *block, uint64_t low_bytes)
{
    pleat_block_t *high = pleat_block_store_take(&allocator->blocks);
    pleat_block_split_high(block, low_bytes, high);
    if (arena->last == block) {
        arena->last = high;
    }
    arena_set_starts(arena, high);
    return high;
}

/* Let the larger of two free neighbours, which stand in no set, absorb the other: fewer handles
 * change the block that they begin in. */
static pleat_block_t *arena_absorb(pleat_allocator_t *allocator, pleat_arena_t *arena,
                                   pleat_block_t *a, pleat_block_t *b)
{
    pleat_block_t *kept = a->bytes >= b->bytes ? a : b;
    pleat_block_t *gone = kept == a ? b : a;
    if (arena->first == gone) {
        arena->first = kept;
    }
    if (arena->last == gone) {
        arena->last = kept;
    }
    const uint64_t begin = block_offset(arena, gone);
    const uint64_t end = begin + gone->bytes;
    for (size_t i = arena_first_start(arena, begin);
         i < arena->handle_count && arena->handles[i]->offset < end; i++) {
        arena->handles[i]->start = kept;
    }
    (void)pleat_block_absorb(&allocator->blocks, kept, gone);
    return kept;
}

/* Merge a free block, in no set, with its free neighbours; it, or what absorbed it, in no set. */
static pleat_block_t *arena_merge_free(pleat_allocator_t *allocator, pleat_arena_t *arena,
                                       pleat_block_t *block)
{
    if (block->left != NULL && block->left->use == PLEAT_BLOCK_USE_FREE) {
        arena_remove_free(arena, block->left);
        block = arena_absorb(allocator, arena, block->left, block);
    }
    if (block->right != NULL && block->right->use == PLEAT_BLOCK_USE_FREE) {
        arena_remove_free(arena, block->right);
        block = arena_absorb(allocator, arena, block, block->right);
    }
    return block;
}

static void arena_merge_unmapped(pleat_allocator_t *allocator, pleat_arena_t *arena,
                                 pleat_block_t *block)
{
    if (block->left != NULL && block->left->use == PLEAT_BLOCK_USE_UNMAPPED) {
        block = arena_absorb(allocator, arena, block->left, block);
    }
    if (block->right != NULL && block->right->use == PLEAT_BLOCK_USE_UNMAPPED) {
        (void)arena_absorb(allocator, arena, block, block->right);
    }
}

pleat_block_t *pleat_arena_free_block(const pleat_arena_t *arena, uint64_t offset)
{
    const size_t index = pleat_arena_handle_index(arena, offset);
    if (index == arena->handle_count || arena->handles[index]->offset > offset) {
        return NULL;
    }
    pleat_block_t *block = arena->handles[index]->start;
    while (block_offset(arena, block) + block->bytes <= offset) {
        block = block->right;
    }
    return block->use == PLEAT_BLOCK_USE_FREE ? block : NULL;
}

uint64_t pleat_arena_free_prefix(const pleat_handle_t *handle)
{
    const pleat_block_t *block = handle->start;
    if (block->use != PLEAT_BLOCK_USE_FREE) {
        return 0;
    }
    const uint64_t end = block_offset(handle->arena, block) + block->bytes;
    const uint64_t handle_end = handle->offset + handle->bytes;
    return (end < handle_end ? end : handle_end) - handle->offset;
}

uint64_t pleat_arena_free_suffix(const pleat_handle_t *handle)
{
    const uint64_t handle_end = handle->offset + handle->bytes;
    const pleat_block_t *block =
        handle->free_bytes == 0 ? NULL : pleat_arena_free_block(handle->arena, handle_end - 1);
    if (block == NULL) {
        return 0;
    }
    const uint64_t begin = block_offset(handle->arena, block);
    return handle_end - (begin > handle->offset ? begin : handle->offset);
}

pleat_block_t *pleat_arena_take(pleat_allocator_t *allocator, pleat_block_t *block, uint64_t offset,
                                uint64_t bytes, pleat_block_use_t use)
{
    pleat_arena_t *arena = block->arena;
    PLEAT_ASSERT(block->use == PLEAT_BLOCK_USE_FREE);
    PLEAT_ASSERT(offset >= block_offset(arena, block));
    PLEAT_ASSERT(offset + bytes <= block_offset(arena, block) + block->bytes);
    arena_remove_free(arena, block);
    const uint64_t front_bytes = offset - block_offset(arena, block);
    if (front_bytes > 0) {
        /* The larger part keeps the object, see arena_absorb. */
        if (front_bytes >= block->bytes - front_bytes) {
            pleat_block_t *high = arena_cut_high(allocator, arena, block, front_bytes);
            arena_insert_free(arena, block);
            block = high;
        } else {
            arena_insert_free(arena, arena_cut_low(allocator, arena, block, front_bytes));
        }
    }
    if (bytes < block->bytes) {
        if (bytes >= block->bytes - bytes) {
            arena_insert_free(arena, arena_cut_high(allocator, arena, block, bytes));
        } else {
            pleat_block_t *low = arena_cut_low(allocator, arena, block, bytes);
            arena_insert_free(arena, block);
            block = low;
        }
    }
    block->use = use;
    arena->used_count++;
    arena_add_free(allocator, arena, offset, bytes, false);
    return block;
}

void pleat_arena_give(pleat_allocator_t *allocator, pleat_block_t *block)
{
    pleat_arena_t *arena = block->arena;
    PLEAT_ASSERT(block->use != PLEAT_BLOCK_USE_FREE);
    PLEAT_ASSERT(arena->used_count > 0);
    arena_add_free(allocator, arena, block_offset(arena, block), block->bytes, true);
    arena->used_count--;
    block->use = PLEAT_BLOCK_USE_FREE;
    block->requested_bytes = 0;
    block->stream = arena->stream;
    arena_insert_free(arena, arena_merge_free(allocator, arena, block));
}

/* ---- handles ---- */

/* The unmapped block that holds all of a span; NULL if there is none. */
static pleat_block_t *arena_unmapped_block(const pleat_arena_t *arena, uint64_t offset,
                                           uint64_t bytes)
{
    /* From the end: memory grows there. */
    pleat_block_t *block = arena->last;
    while (block != NULL && block_offset(arena, block) > offset) {
        block = block->left;
    }
    if (block == NULL || block->use != PLEAT_BLOCK_USE_UNMAPPED ||
        offset + bytes > block_offset(arena, block) + block->bytes) {
        return NULL;
    }
    return block;
}

static pleat_status_t arena_map_home(pleat_allocator_t *allocator, pleat_arena_t *arena,
                                     pleat_devptr_t address, uint64_t bytes,
                                     pleat_chunk_t *chunk_out)
{
    pleat_chunk_t chunk = 0;
    pleat_status_t status = pleat_stale_clear(&arena->stale, allocator->vmm, address, bytes);
    if (status == PLEAT_OK) {
        status = pleat_vmm_chunk_create(allocator->vmm, bytes, &chunk);
    }
    if (status != PLEAT_OK) {
        return status;
    }
    status = pleat_vmm_map(allocator->vmm, address, bytes, chunk);
    if (status != PLEAT_OK) {
        goto err_release;
    }
    status = pleat_vmm_set_access(allocator->vmm, address, bytes);
    if (status != PLEAT_OK) {
        goto err_unmap;
    }
    *chunk_out = chunk;
    return PLEAT_OK;

    pleat_status_t ignored;
err_unmap:
    pleat_stale_unmap(&arena->stale, allocator->vmm, address, bytes);
err_release:
    ignored = pleat_vmm_chunk_release(allocator->vmm, chunk);
    (void)ignored;
    return status;
}

static void arena_count_memory(pleat_allocator_t *allocator, uint64_t bytes, bool is_added,
                               pleat_devptr_t address, pleat_stream_t stream)
{
    pleat_stats_t *stats = &allocator->stats;
    if (is_added) {
        allocator->held_bytes += bytes;
        pleat_stats_increase(stats->reserved_bytes, PLEAT_STAT_LARGE_POOL, bytes);
        stats->num_device_alloc += 1;
        pleat_stats_map(stats, 1);
        pleat_allocator_trace(allocator, PLEAT_ACTION_SEGMENT_MAP, address, bytes, stream);
    } else {
        PLEAT_ASSERT(allocator->held_bytes >= bytes);
        allocator->held_bytes -= bytes;
        pleat_stats_decrease(stats->reserved_bytes, PLEAT_STAT_LARGE_POOL, bytes);
        stats->num_device_free += 1;
        pleat_stats_unmap(stats, 1);
        pleat_allocator_trace(allocator, PLEAT_ACTION_SEGMENT_UNMAP, address, bytes, stream);
    }
}

pleat_status_t pleat_arena_add_handle(pleat_allocator_t *allocator, pleat_arena_t *arena,
                                      uint64_t offset, uint64_t bytes, pleat_handle_t **handle_out)
{
    pleat_block_t *block = arena_unmapped_block(arena, offset, bytes);
    PLEAT_ASSERT(block != NULL);
    pleat_handle_t *handle = calloc(1, sizeof(*handle));
    if (handle == NULL || !arena_reserve_handle(arena)) {
        free(handle);
        pleat_error_set("no host memory for the record of a chunk");
        return PLEAT_ERR_OOM_HOST;
    }
    const pleat_devptr_t address = arena->address + offset;
    const pleat_status_t status = arena_map_home(allocator, arena, address, bytes, &handle->chunk);
    if (status != PLEAT_OK) {
        free(handle);
        return status;
    }
    handle->arena = arena;
    handle->offset = offset;
    handle->bytes = bytes;
    handle->file = -1;
    const size_t index = pleat_arena_handle_index(arena, offset);
    memmove((void *)&arena->handles[index + 1], (void *)&arena->handles[index],
            (arena->handle_count - index) * sizeof(*arena->handles));
    arena->handles[index] = handle;
    arena->handle_count++;
    arena->handle_bytes += bytes;
    if (offset > block_offset(arena, block)) {
        block = arena_cut_high(allocator, arena, block, offset - block_offset(arena, block));
    }
    if (bytes < block->bytes) {
        (void)arena_cut_high(allocator, arena, block, bytes);
    }
    handle->start = block;
    block->use = PLEAT_BLOCK_USE_FREE;
    arena_add_free(allocator, arena, offset, bytes, true);
    arena_insert_free(arena, arena_merge_free(allocator, arena, block));
    arena_count_memory(allocator, bytes, true, address, arena->stream);
    *handle_out = handle;
    return PLEAT_OK;
}

/* The device does not take the chunk of an unmapped handle: put the mapping back, so that all is as
 * before. False: it cannot. */
static bool arena_map_again(pleat_allocator_t *allocator, const pleat_handle_t *handle)
{
    const pleat_devptr_t address = handle->arena->address + handle->offset;
    if (pleat_vmm_map(allocator->vmm, address, handle->bytes, handle->chunk) != PLEAT_OK) {
        return false;
    }
    if (pleat_vmm_set_access(allocator->vmm, address, handle->bytes) == PLEAT_OK) {
        return true;
    }
    pleat_stale_unmap(&handle->arena->stale, allocator->vmm, address, handle->bytes);
    return false;
}

pleat_status_t pleat_arena_remove_handle(pleat_allocator_t *allocator, pleat_handle_t *handle)
{
    pleat_arena_t *arena = handle->arena;
    PLEAT_ASSERT(pleat_handle_is_whole(handle));
    PLEAT_ASSERT(handle->pieces == NULL);
    const pleat_devptr_t address = arena->address + handle->offset;
    const uint64_t bytes = handle->bytes;
    pleat_status_t status = pleat_vmm_unmap(allocator->vmm, address, bytes);
    if (status != PLEAT_OK) {
        return status;
    }
    status = pleat_vmm_chunk_release(allocator->vmm, handle->chunk);
    if (status != PLEAT_OK && arena_map_again(allocator, handle)) {
        return status;
    }
    pleat_block_t *block =
        pleat_arena_take(allocator, pleat_arena_free_block(arena, handle->offset), handle->offset,
                         bytes, PLEAT_BLOCK_USE_UNMAPPED);
    arena->used_count--;
    pleat_fence_cut(allocator, arena, handle->offset, bytes);
    const size_t index = pleat_arena_handle_index(arena, handle->offset);
    PLEAT_ASSERT(arena->handles[index] == handle);
    memmove((void *)&arena->handles[index], (void *)&arena->handles[index + 1],
            (arena->handle_count - index - 1) * sizeof(*arena->handles));
    arena->handle_count--;
    arena->handle_bytes -= bytes;
    arena_merge_unmapped(allocator, arena, block);
    arena_count_memory(allocator, bytes, false, address, arena->stream);
    pleat_arena_count_split(allocator, arena);
    arena_drop_handle(handle);
    return PLEAT_OK;
}

/* ---- statistics ---- */

void pleat_arena_count_split(pleat_allocator_t *allocator, pleat_arena_t *arena)
{
    const uint64_t count = arena->used_count > 0 ? arena->free_count : 0;
    const uint64_t bytes = arena->used_count > 0 ? arena->free_bytes : 0;
    if (count == arena->split_count && bytes == arena->split_bytes) {
        return;
    }
    pleat_stats_t *stats = &allocator->stats;
    pleat_stats_change(stats->inactive_split, PLEAT_STAT_LARGE_POOL,
                       (int64_t)count - (int64_t)arena->split_count);
    pleat_stats_change(stats->inactive_split_bytes, PLEAT_STAT_LARGE_POOL,
                       (int64_t)bytes - (int64_t)arena->split_bytes);
    arena->split_count = count;
    arena->split_bytes = bytes;
}
