/*
 * pleated: carrying out placements in pleated mode. Large requests take memory at home, in a view
 * that exists, or in a new view; small ones are cut out of slabs, which are large allocations
 * themselves.
 *
 * The order of things in a take: host memory is reserved, the streams are put in order (fence.h),
 * then memory is taken: a failure before that leaves everything as it was.
 *
 * Private pools have arenas and views of their own. Nothing of a pool that has uses is ever taken
 * for others, moved, unmapped or given back, nor used by another stream than its arena's: a
 * captured graph needs every address. While requests are redirected to some pool, all of this mode
 * keeps to memory that needs no event (fence.h), and gives nothing back.
 * Guarded by the lock of the owning allocator.
 */
#ifndef PLEAT_PLEATED_H
#define PLEAT_PLEATED_H

#include "fence.h"
#include "pleated_place.h"

/* Take a place at home for the stream of @p request. ERR_OOM_HOST or the device's error: nothing
 * changed. */
PLEAT_NODISCARD pleat_status_t pleat_pleated_take_home(pleat_allocator_t *allocator,
                                                       const pleat_request_t *request,
                                                       const pleat_home_place_t *place,
                                                       pleat_block_t **block_out);

/* Take a free span of a view for the stream of @p request. As above. */
PLEAT_NODISCARD pleat_status_t pleat_pleated_take_view(pleat_allocator_t *allocator,
                                                       const pleat_request_t *request,
                                                       pleat_view_t *view, uint64_t offset,
                                                       pleat_block_t **block_out);

/* Make a view of @p count handles and take the request out of it at @p offset. As above. */
PLEAT_NODISCARD pleat_status_t pleat_pleated_take_stitch(pleat_allocator_t *allocator,
                                                         const pleat_request_t *request,
                                                         pleat_handle_t *const *handles,
                                                         size_t count, uint64_t offset,
                                                         pleat_block_t **block_out);

/*
 * Make handles for @p bytes more memory behind the last one of the request's arena; the first and
 * the last one made are handed back through their count and the arena. ERR_OOM_DEVICE, ERR_OOM_HOST
 * or the device's error: nothing changed.
 */
PLEAT_NODISCARD pleat_status_t pleat_pleated_grow(pleat_allocator_t *allocator,
                                                  const pleat_request_t *request, uint64_t bytes,
                                                  pleat_arena_t **arena_out,
                                                  size_t *handle_count_out);

/* Give the last handles of an arena back, which were just made and not used; without any memory the
 * arena ends. */
void pleat_pleated_shrink(pleat_allocator_t *allocator, pleat_arena_t *arena, size_t handle_count);

/* Make one handle of @p bytes behind the request's arena and hand its memory back as a place. As
 * pleat_pleated_grow. */
PLEAT_NODISCARD pleat_status_t pleat_pleated_grow_single(pleat_allocator_t *allocator,
                                                         const pleat_request_t *request,
                                                         uint64_t bytes,
                                                         pleat_home_place_t *place_out);

/* Free bytes where the memory of an arena ends; while requests are redirected 0 if they are not all
 * clear (fence.h). O(blocks of the last handle + fences). */
uint64_t pleat_pleated_tail_bytes(const pleat_allocator_t *allocator, const pleat_arena_t *arena);

/* First arena of a stream and an owner (NULL: no private pool), and the next one; NULL: none. */
pleat_arena_t *pleat_pleated_arena(const pleat_allocator_t *allocator,
                                   const pleat_private_pool_t *owner, pleat_stream_t stream);
pleat_arena_t *pleat_pleated_next_arena(const pleat_arena_t *arena);

/* A block of pleated mode that was handed out is free and no stream uses it any more. */
void pleat_pleated_give(pleat_allocator_t *allocator, pleat_block_t *block);

/* Cut a block that was taken, but not handed out, into small ones for @p request, a small one whose
 * bins are known: returns one free small block over it, in no set. A block must be in reserve. */
pleat_block_t *pleat_pleated_make_slab(pleat_allocator_t *allocator, const pleat_request_t *request,
                                       pleat_block_t *slab);

/* A slab's last small block was freed and merged: give the slab back. */
void pleat_pleated_give_slab(pleat_allocator_t *allocator, pleat_block_t *block);

/*
 * Give back wholly free handles of @p owner (a freeable private pool, or NULL: what belongs to
 * none) until @p bytes went back (UINT64_MAX: all), those behind the others first; views without
 * live blocks that show them are unmapped before. Only what no work uses goes; with @p can_wait the
 * host waits for it. ERR_OOM_HOST or the device's error: what went stays gone.
 */
PLEAT_NODISCARD pleat_status_t pleat_pleated_release(pleat_allocator_t *allocator,
                                                     const pleat_private_pool_t *owner,
                                                     uint64_t bytes, bool can_wait,
                                                     uint64_t *released_out);

/* Unmap views without live blocks that belong to no private pool, used longest ago first, until at
 * least @p count mappings are gone. As above. */
PLEAT_NODISCARD pleat_status_t pleat_pleated_evict_views(pleat_allocator_t *allocator,
                                                         uint64_t count, bool can_wait);

/* Give back handles, but those of private pools, that lay idle for longer than the option says and
 * whose work is over; a few a call. The host never waits. Between two looks an eighth of the time
 * goes by. */
void pleat_pleated_release_idle(pleat_allocator_t *allocator);

/* Give everything back; the allocator is being destroyed. */
void pleat_pleated_discard(pleat_allocator_t *allocator);

#endif
