/*
 * pleated: takes, growth, gives, and what goes back to the device.
 */
#include "pleated.h"

#include "allocator.h"
#include "pleated_cost.h"

#define IDLE_HANDLES_A_CALL 8u /* bounds what one request waits for */

/* ---- takes ---- */

pleat_status_t pleat_pleated_take_home(pleat_allocator_t *allocator, const pleat_request_t *request,
                                       const pleat_home_place_t *place, pleat_block_t **block_out)
{
    pleat_arena_t *arena = place->block->arena;
    pleat_fence_t *fence = NULL;
    pleat_status_t status = pleat_block_store_require(&allocator->blocks, 4);
    if (status == PLEAT_OK) {
        status = pleat_fence_order(allocator, arena, place->offset, request->bytes, request->stream,
                                   &fence);
    }
    if (status != PLEAT_OK) {
        return status;
    }
    pleat_block_t *block = pleat_arena_take(allocator, place->block, place->offset, request->bytes,
                                            PLEAT_BLOCK_USE_LIVE);
    pleat_fence_cut(allocator, arena, place->offset, request->bytes);
    block->stream = request->stream;
    block->fence = fence;
    pleat_arena_count_split(allocator, arena);
    *block_out = block;
    return PLEAT_OK;
}

typedef struct view_ordering {
    pleat_allocator_t *allocator;
    pleat_stream_t stream;
    pleat_status_t status;
    size_t part_count;
    pleat_fence_t *fences; /* of the parts, the last one first */
} view_ordering_t;

static void view_order_part(void *context, pleat_handle_t *handle, uint64_t home_offset,
                            uint64_t bytes)
{
    view_ordering_t *ordering = context;
    if (ordering->status != PLEAT_OK) {
        return;
    }
    pleat_fence_t *fence = NULL;
    ordering->status = pleat_fence_order(ordering->allocator, handle->arena, home_offset, bytes,
                                         ordering->stream, &fence);
    ordering->part_count++;
    if (fence != NULL) {
        fence->next = ordering->fences;
        ordering->fences = fence;
    }
}

static void view_drop_fences(view_ordering_t *ordering)
{
    while (ordering->fences != NULL) {
        pleat_fence_t *fence = ordering->fences;
        ordering->fences = fence->next;
        pleat_fence_drop(ordering->allocator, fence);
    }
}

/* The next fence of an ordering, off its list. */
static pleat_fence_t *view_take_fence(view_ordering_t *ordering)
{
    pleat_fence_t *fence = ordering->fences;
    PLEAT_ASSERT(fence != NULL);
    ordering->fences = fence->next;
    fence->next = NULL;
    return fence;
}

/* Hang the fences on the parts of other streams' arenas, and end what stood on their memory. */
static void view_fence_parts(view_ordering_t *ordering, pleat_block_t *block)
{
    for (pleat_block_t *part = pleat_view_next_part(block); part != NULL;
         part = pleat_view_next_part(part)) {
        pleat_arena_t *arena = part->arena;
        pleat_fence_cut(ordering->allocator, arena, part->address - arena->address, part->bytes);
        if (arena->stream != ordering->stream) {
            part->fence = view_take_fence(ordering);
        }
        pleat_arena_count_split(ordering->allocator, arena);
    }
    PLEAT_ASSERT(ordering->fences == NULL);
}

pleat_status_t pleat_pleated_take_view(pleat_allocator_t *allocator, const pleat_request_t *request,
                                       pleat_view_t *view, uint64_t offset,
                                       pleat_block_t **block_out)
{
    pleat_status_t status = pleat_view_note_stream(view, request->stream);
    if (status == PLEAT_OK) {
        status = pleat_block_store_require(&allocator->blocks, 2 * view->piece_count + 4);
    }
    if (status != PLEAT_OK) {
        return status;
    }
    view_ordering_t ordering = {.allocator = allocator, .stream = request->stream};
    pleat_view_visit(view, offset, request->bytes, view_order_part, &ordering);
    status = ordering.status;
    if (status == PLEAT_OK) {
        status = pleat_fence_reserve_records(allocator, ordering.part_count);
    }
    if (status != PLEAT_OK) {
        view_drop_fences(&ordering);
        return status;
    }
    pleat_block_t *block =
        pleat_view_take(allocator, view, offset, request->bytes, request->stream);
    view_fence_parts(&ordering, block);
    *block_out = block;
    return PLEAT_OK;
}

pleat_status_t pleat_pleated_take_stitch(pleat_allocator_t *allocator,
                                         const pleat_request_t *request,
                                         pleat_handle_t *const *handles, size_t count,
                                         uint64_t offset, pleat_block_t **block_out)
{
    pleat_view_t *view = NULL;
    pleat_status_t status = pleat_view_create(allocator, request->stream, handles, count, &view);
    if (status != PLEAT_OK) {
        return status;
    }
    status = pleat_pleated_take_view(allocator, request, view, offset, block_out);
    if (status != PLEAT_OK) {
        /* Nothing has used the view; if the device refuses, it stays for reuse. */
        const pleat_status_t ignored = pleat_view_destroy(allocator, view);
        (void)ignored;
        return status;
    }
    allocator->stats.stitched_bytes += (int64_t)request->bytes;
    return PLEAT_OK;
}

pleat_block_t *pleat_pleated_make_slab(pleat_allocator_t *allocator, const pleat_request_t *request,
                                       pleat_block_t *slab)
{
    const pleat_block_identity_t identity = {.address = slab->address,
                                             .bytes = slab->bytes,
                                             .stream = slab->stream,
                                             .pool = request->pool,
                                             .bins = request->bins,
                                             .use = PLEAT_BLOCK_USE_FREE};
    pleat_block_t *block = pleat_block_store_make(&allocator->blocks, &identity);
    block->slab = slab;
    slab->use = PLEAT_BLOCK_USE_SLAB;
    /* Memory for small blocks is a segment of its own, in snapshots as well. */
    pleat_allocator_trace(allocator, PLEAT_ACTION_SEGMENT_UNMAP, slab->address, slab->bytes,
                          slab->stream);
    pleat_allocator_trace(allocator, PLEAT_ACTION_SEGMENT_MAP, slab->address, slab->bytes,
                          slab->stream);
    pleat_stats_t *stats = &allocator->stats;
    pleat_stat_decrease(&stats->reserved_bytes[PLEAT_STAT_LARGE_POOL], (int64_t)slab->bytes);
    pleat_stat_increase(&stats->reserved_bytes[PLEAT_STAT_SMALL_POOL], (int64_t)slab->bytes);
    return block;
}

/* ---- growth ---- */

pleat_arena_t *pleat_pleated_next_arena(const pleat_arena_t *arena)
{
    pleat_arena_t *next = arena->next;
    while (next != NULL &&
           (next->stream != arena->stream || next->pool.owner != arena->pool.owner)) {
        next = next->next;
    }
    return next;
}

pleat_arena_t *pleat_pleated_arena(const pleat_allocator_t *allocator,
                                   const pleat_private_pool_t *owner, pleat_stream_t stream)
{
    pleat_arena_t *arena = allocator->arenas;
    while (arena != NULL && (arena->stream != stream || arena->pool.owner != owner)) {
        arena = arena->next;
    }
    return arena;
}

/* An arena without memory ends: its one block is unmapped. */
static void arena_end(pleat_allocator_t *allocator, pleat_arena_t *arena)
{
    PLEAT_ASSERT(arena->first == arena->last);
    PLEAT_ASSERT(arena->first->use == PLEAT_BLOCK_USE_UNMAPPED);
    pleat_block_store_give(&allocator->blocks, arena->first);
    pleat_arena_destroy(allocator, arena);
}

uint64_t pleat_pleated_tail_bytes(const pleat_allocator_t *allocator, const pleat_arena_t *arena)
{
    if (arena->handle_count == 0) {
        return 0;
    }
    const pleat_block_t *block = pleat_arena_free_block(arena, pleat_arena_end(arena) - 1);
    if (block == NULL || (pleat_allocator_is_redirecting(allocator) &&
                          !pleat_fence_is_clear(arena, block->address - arena->address,
                                                block->bytes, arena->stream))) {
        return 0;
    }
    return block->bytes;
}

/* The arena of the request's stream that has addresses left for @p bytes behind its memory: one
 * where the request then fits in one piece, else any; NULL: none. */
static pleat_arena_t *grow_find_arena(const pleat_allocator_t *allocator,
                                      const pleat_request_t *request, uint64_t bytes)
{
    pleat_arena_t *found = NULL;
    for (pleat_arena_t *arena =
             pleat_pleated_arena(allocator, request->pool->owner, request->stream);
         arena != NULL; arena = pleat_pleated_next_arena(arena)) {
        if (bytes > arena->bytes - pleat_arena_end(arena)) {
            continue;
        }
        if (pleat_pleated_tail_bytes(allocator, arena) + bytes >= request->bytes) {
            return arena;
        }
        found = found == NULL ? arena : found;
    }
    return found;
}

/* As above; made if need be. Blocks for it and for a handle are in reserve then. */
static pleat_status_t grow_choose_arena(pleat_allocator_t *allocator,
                                        const pleat_request_t *request, uint64_t bytes,
                                        pleat_arena_t **arena_out)
{
    pleat_status_t status = pleat_block_store_require(&allocator->blocks, 8);
    if (status != PLEAT_OK) {
        return status;
    }
    *arena_out = grow_find_arena(allocator, request, bytes);
    if (*arena_out != NULL) {
        return PLEAT_OK;
    }
    status = pleat_arena_create(allocator, request->pool->owner, request->stream, bytes, arena_out);
    if (status == PLEAT_OK && bytes > (*arena_out)->bytes) {
        arena_end(allocator, *arena_out);
        pleat_error_set("%llu bytes are more than twice what the device has",
                        (unsigned long long)bytes);
        return PLEAT_ERR_OOM_DEVICE;
    }
    return status;
}

void pleat_pleated_shrink(pleat_allocator_t *allocator, pleat_arena_t *arena, size_t handle_count)
{
    pleat_status_t status = PLEAT_OK;
    for (; handle_count > 0 && status == PLEAT_OK; handle_count--) {
        pleat_handle_t *handle = arena->handles[arena->handle_count - 1];
        /* What the device does not take back, or a view that it keeps shows, stays free memory. */
        if (handle->pieces != NULL || !pleat_block_store_reserve(&allocator->blocks, 2)) {
            break;
        }
        status = pleat_arena_remove_handle(allocator, handle);
    }
    if (arena->handle_count == 0) {
        arena_end(allocator, arena);
    } else {
        pleat_arena_count_split(allocator, arena);
    }
}

pleat_status_t pleat_pleated_grow(pleat_allocator_t *allocator, const pleat_request_t *request,
                                  uint64_t bytes, pleat_arena_t **arena_out,
                                  size_t *handle_count_out)
{
    PLEAT_ASSERT(bytes % allocator->granularity_bytes == 0);
    const uint64_t handle_bytes =
        pleat_cost_handle_bytes(&allocator->options, allocator->live_peak_bytes, request->bytes,
                                allocator->granularity_bytes);
    pleat_arena_t *arena = NULL;
    pleat_status_t status = grow_choose_arena(allocator, request, bytes, &arena);
    if (status != PLEAT_OK) {
        return status;
    }
    size_t count = 0;
    for (uint64_t left = bytes; left > 0 && status == PLEAT_OK;) {
        const uint64_t part = left < handle_bytes ? left : handle_bytes;
        pleat_handle_t *handle = NULL;
        status = pleat_block_store_require(&allocator->blocks, 8);
        if (status == PLEAT_OK) {
            status =
                pleat_arena_add_handle(allocator, arena, pleat_arena_end(arena), part, &handle);
        }
        left -= part;
        count += status == PLEAT_OK;
    }
    if (status != PLEAT_OK) {
        pleat_pleated_shrink(allocator, arena, count);
        return status;
    }
    pleat_arena_count_split(allocator, arena);
    *arena_out = arena;
    *handle_count_out = count;
    return PLEAT_OK;
}

pleat_status_t pleat_pleated_grow_single(pleat_allocator_t *allocator,
                                         const pleat_request_t *request, uint64_t bytes,
                                         pleat_home_place_t *place_out)
{
    pleat_arena_t *arena = NULL;
    pleat_status_t status = grow_choose_arena(allocator, request, bytes, &arena);
    if (status != PLEAT_OK) {
        return status;
    }
    pleat_handle_t *handle = NULL;
    status = pleat_arena_add_handle(allocator, arena, pleat_arena_end(arena), bytes, &handle);
    if (status != PLEAT_OK) {
        pleat_pleated_shrink(allocator, arena, 0);
        return status;
    }
    pleat_arena_count_split(allocator, arena);
    *place_out = pleat_place_in_handle(handle, request->bytes);
    return PLEAT_OK;
}

/* ---- gives ---- */

static void give_fence(pleat_allocator_t *allocator, pleat_block_t *home, pleat_stream_t stream)
{
    pleat_fence_t *fence = home->fence;
    if (fence != NULL) {
        home->fence = NULL;
        pleat_fence_leave(allocator, home->arena, home->address - home->arena->address, home->bytes,
                          stream, fence);
    }
}

void pleat_pleated_give(pleat_allocator_t *allocator, pleat_block_t *block)
{
    if (block->view != NULL) {
        for (pleat_block_t *part = pleat_view_next_part(block); part != NULL;
             part = pleat_view_next_part(part)) {
            give_fence(allocator, part, block->stream);
        }
        pleat_view_give(allocator, block);
        return;
    }
    pleat_arena_t *arena = block->arena;
    give_fence(allocator, block, block->stream);
    pleat_arena_give(allocator, block);
    pleat_arena_count_split(allocator, arena);
}

void pleat_pleated_give_slab(pleat_allocator_t *allocator, pleat_block_t *block)
{
    pleat_block_t *slab = block->slab;
    PLEAT_ASSERT(!pleat_block_is_split(block));
    PLEAT_ASSERT(slab->use == PLEAT_BLOCK_USE_SLAB);
    pleat_allocator_trace(allocator, PLEAT_ACTION_SEGMENT_UNMAP, slab->address, slab->bytes,
                          slab->stream);
    pleat_allocator_trace(allocator, PLEAT_ACTION_SEGMENT_MAP, slab->address, slab->bytes,
                          slab->stream);
    pleat_stats_t *stats = &allocator->stats;
    pleat_stat_decrease(&stats->reserved_bytes[PLEAT_STAT_SMALL_POOL], (int64_t)slab->bytes);
    pleat_stat_increase(&stats->reserved_bytes[PLEAT_STAT_LARGE_POOL], (int64_t)slab->bytes);
    block->use = PLEAT_BLOCK_USE_FREE;
    pleat_block_store_give(&allocator->blocks, block);
    pleat_pleated_give(allocator, slab);
}

/* ---- back to the device ---- */

/* Is all work over that used the addresses of a view? */
static pleat_status_t view_is_over(pleat_allocator_t *allocator, const pleat_view_t *view,
                                   bool can_wait)
{
    pleat_status_t status = PLEAT_OK;
    for (size_t i = 0; i < view->stream_count && status == PLEAT_OK; i++) {
        status = pleat_fence_stream_is_over(allocator, view->streams[i], can_wait);
    }
    return status;
}

/* Unmap a view if nothing is live in it and its work is over. ERR_NOT_READY: it stays. */
static pleat_status_t view_evict(pleat_allocator_t *allocator, pleat_view_t *view, bool can_wait)
{
    if (view->live_count > 0) {
        return PLEAT_ERR_NOT_READY;
    }
    const pleat_status_t status = view_is_over(allocator, view, can_wait);
    return status != PLEAT_OK ? status : pleat_view_destroy(allocator, view);
}

/* Give a wholly free handle back if no live view shows it and its work is over. */
static pleat_status_t handle_release(pleat_allocator_t *allocator, pleat_handle_t *handle,
                                     bool can_wait)
{
    for (const pleat_piece_t *piece = handle->pieces; piece != NULL; piece = piece->next_view) {
        if (piece->view->live_count > 0) {
            return PLEAT_ERR_NOT_READY;
        }
    }
    pleat_status_t status = pleat_fence_handle_is_over(allocator, handle, can_wait);
    while (handle->pieces != NULL && status == PLEAT_OK) {
        status = view_evict(allocator, handle->pieces->view, can_wait);
    }
    return status != PLEAT_OK ? status : pleat_arena_remove_handle(allocator, handle);
}

static pleat_status_t release_reserve(pleat_allocator_t *allocator)
{
    const pleat_status_t status = pleat_block_store_require(&allocator->blocks, 8);
    return status == PLEAT_OK ? pleat_fence_reserve_records(allocator, 1) : status;
}

pleat_status_t pleat_pleated_release(pleat_allocator_t *allocator,
                                     const pleat_private_pool_t *owner, uint64_t bytes,
                                     bool can_wait, uint64_t *released_out)
{
    PLEAT_ASSERT(!pleat_allocator_is_redirecting(allocator));
    PLEAT_ASSERT(owner == NULL || owner->use_count == 0);
    uint64_t released = 0;
    pleat_arena_t *next = NULL;
    for (pleat_arena_t *arena = allocator->arenas; arena != NULL && released < bytes;
         arena = next) {
        next = arena->next;
        if (arena->pool.owner != owner) {
            continue;
        }
        for (size_t i = arena->handle_count; i-- > 0 && released < bytes;) {
            pleat_handle_t *handle = arena->handles[i];
            if (!pleat_handle_is_whole(handle)) {
                continue;
            }
            const uint64_t handle_bytes = handle->bytes;
            pleat_status_t status = release_reserve(allocator);
            if (status == PLEAT_OK) {
                status = handle_release(allocator, handle, can_wait);
            }
            if (status != PLEAT_OK && status != PLEAT_ERR_NOT_READY) {
                *released_out = released;
                return status;
            }
            released += status == PLEAT_OK ? handle_bytes : 0;
        }
        if (arena->handle_count == 0) {
            arena_end(allocator, arena);
        }
    }
    *released_out = released;
    return PLEAT_OK;
}

pleat_status_t pleat_pleated_evict_views(pleat_allocator_t *allocator, uint64_t count,
                                         bool can_wait)
{
    PLEAT_ASSERT(!pleat_allocator_is_redirecting(allocator));
    uint64_t evicted = 0;
    uint64_t tried_until = 0; /* views used before this were tried */
    while (evicted < count) {
        pleat_view_t *oldest = NULL;
        for (pleat_view_t *view = allocator->views; view != NULL; view = view->next) {
            if (view->owner == NULL && view->live_count == 0 && view->last_used >= tried_until &&
                (oldest == NULL || view->last_used < oldest->last_used)) {
                oldest = view;
            }
        }
        if (oldest == NULL) {
            return PLEAT_OK;
        }
        tried_until = oldest->last_used + 1;
        const uint64_t pieces = oldest->piece_count;
        const pleat_status_t status = view_evict(allocator, oldest, can_wait);
        if (status != PLEAT_OK && status != PLEAT_ERR_NOT_READY) {
            return status;
        }
        evicted += status == PLEAT_OK ? pieces : 0;
    }
    return PLEAT_OK;
}

/* ---- idle memory ---- */

/*
 * Memory goes without a wait, also while its stream always has work queued: a mark on the stream
 * (fence.h) that was set after the memory became idle is complete at some later look. Times are
 * those of requests: what became idle at the very time of a mark may have done so behind it.
 */

static bool idle_is_due(const pleat_allocator_t *allocator, const pleat_handle_t *handle)
{
    const uint64_t idle_ns = allocator->options.pleated_idle_ms * UINT64_C(1000000);
    return pleat_handle_is_whole(handle) && allocator->now_ns - handle->idle_since_ns >= idle_ns;
}

/* Learn how far the stream of an arena is, if memory of it is due. */
static void idle_look(pleat_allocator_t *allocator, pleat_arena_t *arena)
{
    pleat_fence_mark_check(allocator, arena);
    for (size_t i = 0; i < arena->handle_count; i++) {
        const pleat_handle_t *handle = arena->handles[i];
        if (idle_is_due(allocator, handle) && handle->idle_since_ns >= arena->over_before_ns) {
            pleat_fence_mark_set(allocator, arena);
            pleat_fence_mark_check(allocator, arena);
            return;
        }
    }
}

/* Is the work of a stream over that was queued when the clock stood at @p since_ns? A mark tells,
 * else the stream as it is now. */
static pleat_status_t idle_stream_is_over(pleat_allocator_t *allocator, pleat_stream_t stream,
                                          uint64_t since_ns)
{
    for (const pleat_arena_t *arena = pleat_pleated_arena(allocator, NULL, stream); arena != NULL;
         arena = pleat_pleated_next_arena(arena)) {
        if (since_ns < arena->over_before_ns) {
            return PLEAT_OK;
        }
    }
    return pleat_fence_stream_is_over(allocator, stream, false);
}

static pleat_status_t idle_view_evict(pleat_allocator_t *allocator, pleat_view_t *view)
{
    pleat_status_t status = PLEAT_OK;
    for (size_t i = 0; i < view->stream_count && status == PLEAT_OK; i++) {
        status = idle_stream_is_over(allocator, view->streams[i], view->idle_since_ns);
    }
    return status != PLEAT_OK ? status : pleat_view_destroy(allocator, view);
}

/* Give a handle back that is due, unless work may use it or a live view shows it. */
static pleat_status_t idle_release_handle(pleat_allocator_t *allocator, pleat_handle_t *handle)
{
    const pleat_arena_t *arena = handle->arena;
    if (handle->idle_since_ns >= arena->over_before_ns) {
        return PLEAT_ERR_NOT_READY;
    }
    for (const pleat_piece_t *piece = handle->pieces; piece != NULL; piece = piece->next_view) {
        if (piece->view->live_count > 0) {
            return PLEAT_ERR_NOT_READY;
        }
    }
    pleat_status_t status = release_reserve(allocator);
    if (status == PLEAT_OK) {
        status = pleat_fence_others_are_over(allocator, arena, handle->offset, handle->bytes);
    }
    while (handle->pieces != NULL && status == PLEAT_OK) {
        status = idle_view_evict(allocator, handle->pieces->view);
    }
    return status != PLEAT_OK ? status : pleat_arena_remove_handle(allocator, handle);
}

/* Give at most @p most idle handles of an arena back. Returns the count of those that went. */
static unsigned idle_release_arena(pleat_allocator_t *allocator, pleat_arena_t *arena,
                                   unsigned most)
{
    unsigned released = 0;
    idle_look(allocator, arena);
    for (size_t i = arena->handle_count; i-- > 0 && released < most;) {
        /* What is still in use, or refused, is looked at again later. */
        if (idle_is_due(allocator, arena->handles[i])) {
            released += idle_release_handle(allocator, arena->handles[i]) == PLEAT_OK;
        }
    }
    return released;
}

void pleat_pleated_release_idle(pleat_allocator_t *allocator)
{
    if (allocator->options.pleated_idle_ms == 0 || allocator->now_ns < allocator->next_idle_ns ||
        pleat_allocator_is_redirecting(allocator)) {
        return;
    }
    unsigned released = 0;
    for (pleat_arena_t *arena = allocator->arenas; arena != NULL && released < IDLE_HANDLES_A_CALL;
         arena = arena->next) {
        if (arena->pool.owner == NULL) {
            released += idle_release_arena(allocator, arena, IDLE_HANDLES_A_CALL - released);
        }
    }
    if (released < IDLE_HANDLES_A_CALL) {
        /* Nothing more can go now; look again after an eighth of the time. */
        allocator->next_idle_ns =
            allocator->now_ns + allocator->options.pleated_idle_ms * UINT64_C(125000);
    }
}

/* ---- the end ---- */

static void discard_wait_for_stream(pleat_allocator_t *allocator, pleat_stream_t stream)
{
    /* Destruction goes on when the device refuses. */
    const pleat_status_t ignored = pleat_vmm_stream_synchronize(allocator->vmm, stream);
    (void)ignored;
}

/* Mappings go without a wait of the device: the work on them must be over. */
static void discard_wait(pleat_allocator_t *allocator)
{
    for (const pleat_view_t *view = allocator->views; view != NULL; view = view->next) {
        for (size_t i = 0; i < view->stream_count; i++) {
            discard_wait_for_stream(allocator, view->streams[i]);
        }
    }
    for (const pleat_arena_t *arena = allocator->arenas; arena != NULL; arena = arena->next) {
        discard_wait_for_stream(allocator, arena->stream);
        for (const pleat_fence_t *fence = arena->fences; fence != NULL; fence = fence->next) {
            discard_wait_for_stream(allocator, fence->stream);
        }
    }
}

void pleat_pleated_discard(pleat_allocator_t *allocator)
{
    discard_wait(allocator);
    while (allocator->views != NULL) {
        allocator->views->live_count = 0;
        if (pleat_view_destroy(allocator, allocator->views) != PLEAT_OK) {
            pleat_view_forget(allocator, allocator->views);
        }
    }
    while (allocator->arenas != NULL) {
        pleat_arena_destroy(allocator, allocator->arenas);
    }
    pleat_fence_fini(allocator);
    pleat_stitch_plan_fini(&allocator->plan);
}
