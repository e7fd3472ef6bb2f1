/*
 * fence: order between streams that use the same memory one after the other (pleated mode).
 *
 * The stream of an arena needs no fence for what it used itself: it is ordered by itself. When
 * another stream takes memory of the arena, it waits on the device for the arena's stream; when it
 * gives the memory back, a fence with an event behind its use stays on it, and whoever takes the
 * memory next waits for that event on the device. The host never waits.
 *
 * While requests are redirected to a private pool a stream may be capturing: no event is recorded,
 * queried or waited for then. Memory that is not clear is left alone, and a fence that is left is
 * not recorded: whoever takes the memory later waits for all that is on its stream.
 *
 * Rules (invariant A6 in pleated mode): a stream may use memory only if each earlier use, by
 * whatever stream, is before it in stream order, on the way to another stream and on the way back.
 * Guarded by the lock of the owning allocator.
 */
#ifndef PLEAT_FENCE_H
#define PLEAT_FENCE_H

#include "arena.h"

/*
 * Prepare @p stream to use [offset, offset + bytes) of an arena: it waits for the uses by other
 * streams that are not over. @p fence_out gets a fence to be left when the use ends, NULL if the
 * arena's own stream takes the memory. ERR_OOM_HOST or the device's error: nothing changed but
 * waits that do no harm. No device call for the arena's own stream without fences.
 */
PLEAT_NODISCARD pleat_status_t pleat_fence_order(pleat_allocator_t *allocator, pleat_arena_t *arena,
                                                 uint64_t offset, uint64_t bytes,
                                                 pleat_stream_t stream, pleat_fence_t **fence_out);

/*
 * May @p stream use [offset, offset + bytes) of an arena without any event: is it the arena's own
 * stream, and no fence of another one on the memory, be it over or not? O(fences).
 */
bool pleat_fence_is_clear(const pleat_arena_t *arena, uint64_t offset, uint64_t bytes,
                          pleat_stream_t stream);

/* A cut in the middle of a fence leaves two: make sure that @p count cuts find a record for the
 * second. pleat_fence_order does so for one. ERR_OOM_HOST. */
PLEAT_NODISCARD pleat_status_t pleat_fence_reserve_records(pleat_allocator_t *allocator,
                                                           size_t count);

/* The memory was taken: fences on it are over. A record must be in reserve. */
void pleat_fence_cut(pleat_allocator_t *allocator, pleat_arena_t *arena, uint64_t offset,
                     uint64_t bytes);

/* The use ends: leave a fence on the memory. Cannot fail; without an event the next user waits
 * for the whole stream. */
void pleat_fence_leave(pleat_allocator_t *allocator, pleat_arena_t *arena, uint64_t offset,
                       uint64_t bytes, pleat_stream_t stream, pleat_fence_t *fence);

/* A fence that was not left. NULL is ignored. */
void pleat_fence_drop(pleat_allocator_t *allocator, pleat_fence_t *fence);

/*
 * A step round the fences of an arena that drops those whose events are complete. It ends after a
 * few that are not and after a good many drops, so that its queries are constant on average; long
 * lists take a step with each order and each leave.
 */
void pleat_fence_prune(pleat_allocator_t *allocator, pleat_arena_t *arena);

/*
 * Is all work over that is on @p stream now? With @p can_wait the host waits until it is, which
 * counts as a wait. ERR_NOT_READY: not yet; the device's error or ERR_OOM_HOST: it cannot be told.
 */
PLEAT_NODISCARD pleat_status_t pleat_fence_stream_is_over(pleat_allocator_t *allocator,
                                                          pleat_stream_t stream, bool can_wait);

/* Is all work over that used the memory of a wholly free handle, at whatever address? As above. */
PLEAT_NODISCARD pleat_status_t pleat_fence_handle_is_over(pleat_allocator_t *allocator,
                                                          const pleat_handle_t *handle,
                                                          bool can_wait);

/*
 * Is all work over that other streams than the arena's left fences for in [offset, offset + bytes)?
 * ERR_NOT_READY: not yet; the device's error or ERR_OOM_HOST: it cannot be told. One event query a
 * fence; the host never waits.
 */
PLEAT_NODISCARD pleat_status_t pleat_fence_others_are_over(pleat_allocator_t *allocator,
                                                           const pleat_arena_t *arena,
                                                           uint64_t offset, uint64_t bytes);

/*
 * Find out without a wait how far the stream of an arena has come: at most one event of the arena
 * is pending, its mark. _set records one behind the work that is queued now, unless there is one;
 * _check moves arena->over_before_ns to the time of a mark that is complete and ends it. When the
 * device or the host refuses, nothing changes.
 */
void pleat_fence_mark_set(pleat_allocator_t *allocator, pleat_arena_t *arena);
void pleat_fence_mark_check(pleat_allocator_t *allocator, pleat_arena_t *arena);

/* Free the spare fences with their events. */
void pleat_fence_fini(pleat_allocator_t *allocator);

#endif
