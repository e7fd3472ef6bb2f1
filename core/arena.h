/*
 * arena: the home range of one stream in pleated mode. Handles lie in it side by side and are
 * mapped as long as they live; free memory coalesces across their borders. What a request takes is
 * cut out of a free block, at either end.
 *
 * The blocks of an arena tile it: free, live (handed out here), part (used at another address,
 * through a view) or unmapped (no handle).
 *
 * Fences: memory that another stream than the arena's used last carries that stream and an event
 * behind the use, until the event is complete or the memory is taken again. Memory without a fence
 * was used last by the arena's stream.
 *
 * Invariants (check.c): P1 the blocks of an arena tile it, and a free or used one lies on handles
 * without a gap; P2 fences do not overlap and lie on free blocks; P3 free_bytes, free_count and
 * used_count are the sums over the blocks.
 * Guarded by the lock of the owning allocator.
 */
#ifndef PLEAT_ARENA_H
#define PLEAT_ARENA_H

#include "backing.h"
#include "handle.h"
#include "pool.h"
#include "stale.h"
#include "waiting.h"

typedef struct pleat_fence_event {
    pleat_event_t event;
    uint32_t fence_count;
    bool is_recorded; /* false: recording failed; the whole stream must be waited for */
} pleat_fence_event_t;

/* The last use of some free memory by another stream than the arena's. */
struct pleat_fence {
    pleat_fence_t *next;
    uint64_t begin; /* offsets in the arena */
    uint64_t end;
    pleat_fence_event_t *event; /* behind the use; parts of one fence share it */
    pleat_stream_t stream;
};

struct pleat_arena {
    pleat_devptr_t address;
    uint64_t bytes; /* addresses */
    pleat_stream_t stream;
    pleat_pool_t pool; /* its free blocks */
    pleat_block_t *first;
    pleat_block_t *last;
    pleat_handle_t **handles; /* rising by offset */
    size_t handle_count;
    size_t handle_capacity;
    uint64_t handle_bytes;
    uint64_t free_bytes;
    uint64_t free_count;
    uint64_t used_count;  /* blocks in use */
    uint64_t split_count; /* as last counted in the statistics */
    uint64_t split_bytes;
    pleat_fence_t *fences;
    size_t fence_count;
    size_t prune_index;      /* where in the list the next look for complete fences begins */
    pleat_fence_t *mark;     /* its event is pending on the stream; NULL: none. For idle memory */
    uint64_t mark_ns;        /* when it was recorded */
    uint64_t over_before_ns; /* the work on the stream that was queued before is over */
    pleat_stale_t *stale;    /* mappings that the device did not undo */
    pleat_arena_t *next;     /* all arenas */
};

/*
 * Reserve the addresses of an arena for @p stream and @p owner (NULL: no private pool) and link it:
 * twice the device's memory, less when there are many arenas, but no less than @p least_bytes. A
 * block must be in reserve. ERR_OOM_HOST or the device's error: nothing changed.
 */
PLEAT_NODISCARD pleat_status_t pleat_arena_create(pleat_allocator_t *allocator,
                                                  pleat_private_pool_t *owner,
                                                  pleat_stream_t stream, uint64_t least_bytes,
                                                  pleat_arena_t **arena_out);

/* Unmap and free everything, whatever its blocks do. Views that show its handles must be gone. */
void pleat_arena_destroy(pleat_allocator_t *allocator, pleat_arena_t *arena);

/*
 * Make a handle of @p bytes at @p offset, where a block is unmapped; its memory becomes free and
 * merges with what is free beside it. Two blocks must be in reserve. The device's error or
 * ERR_OOM_HOST: nothing changed. Three device calls.
 */
PLEAT_NODISCARD pleat_status_t pleat_arena_add_handle(pleat_allocator_t *allocator,
                                                      pleat_arena_t *arena, uint64_t offset,
                                                      uint64_t bytes, pleat_handle_t **handle_out);

/*
 * Unmap a wholly free handle at home and release its chunk. No view shows it any more, and no work
 * uses its address. Two blocks and a record of a fence must be in reserve. The device's error:
 * nothing changed. A chunk that the device neither takes back nor maps again is lost, and the
 * handle gone all the same.
 */
PLEAT_NODISCARD pleat_status_t pleat_arena_remove_handle(pleat_allocator_t *allocator,
                                                         pleat_handle_t *handle);

/* Index of the handle at @p offset, or of the first one behind it. O(log handles). */
size_t pleat_arena_handle_index(const pleat_arena_t *arena, uint64_t offset);

/* Offset where the last handle ends; 0 without handles. */
uint64_t pleat_arena_end(const pleat_arena_t *arena);

/* The free block around @p offset, NULL if there is none. O(blocks of the handle). */
pleat_block_t *pleat_arena_free_block(const pleat_arena_t *arena, uint64_t offset);

/* Free bytes at the start and at the end of a handle. */
uint64_t pleat_arena_free_prefix(const pleat_handle_t *handle);
uint64_t pleat_arena_free_suffix(const pleat_handle_t *handle);

/*
 * Take @p bytes at @p offset out of the free block @p block around them; what is in front and
 * behind stays free. The block of the span comes back with use @p use and in no set. Two blocks
 * must be in reserve. O(log + handles of the span).
 */
pleat_block_t *pleat_arena_take(pleat_allocator_t *allocator, pleat_block_t *block, uint64_t offset,
                                uint64_t bytes, pleat_block_use_t use);

/* Give a used block back: free again, merged with its neighbours. O(log + handles). */
void pleat_arena_give(pleat_allocator_t *allocator, pleat_block_t *block);

/* Bring the split counters of the statistics up to date with the arena. Constant. */
void pleat_arena_count_split(pleat_allocator_t *allocator, pleat_arena_t *arena);

#endif
