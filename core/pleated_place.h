/*
 * pleated_place: where in pleated mode's memory a request can go. Nothing here changes anything;
 * backing_pleated carries out what was found.
 *
 * Guarded by the lock of the owning allocator.
 */
#ifndef PLEAT_PLEATED_PLACE_H
#define PLEAT_PLEATED_PLACE_H

#include "view.h"

/* Free memory at home that can hold a request. */
typedef struct pleat_home_place {
    pleat_block_t *block;  /* NULL: none */
    uint64_t offset;       /* in the arena */
    uint64_t whole_bytes;  /* of wholly free handles that it would touch */
    uint64_t inside_bytes; /* of the request that would lie in them */
} pleat_home_place_t;

/* Free memory in a view. */
typedef struct pleat_view_place {
    pleat_view_t *view; /* NULL: none */
    uint64_t offset;
    uint64_t whole_bytes;
    uint64_t inside_bytes;
} pleat_view_place_t;

/* Handles to map side by side. */
typedef struct pleat_stitch_place {
    bool is_found;
    size_t handle_count; /* in the plan's handles */
    uint64_t offset;     /* in the view that they make */
    uint64_t partial_bytes;
    double cost;
} pleat_stitch_place_t;

/* A handle that a stitch may use, and how many bytes of it. */
typedef struct pleat_candidate {
    uint64_t bytes;
    pleat_handle_t *handle;
} pleat_candidate_t;

/* Room to plan a stitch; grows with the number of handles and is kept. */
typedef struct pleat_stitch_plan {
    size_t capacity;
    pleat_candidate_t *ends;   /* free ends of handles in use, largest first */
    pleat_candidate_t *starts; /* free starts, largest first */
    pleat_candidate_t *wholes; /* wholly free handles, smallest first */
    size_t end_count;
    size_t start_count;
    size_t whole_count;
    uint64_t whole_bytes;
    pleat_handle_t **handles; /* of the best stitch */
    pleat_handle_t **trial;
} pleat_stitch_plan_t;

/* Make room for @p count handles. ERR_OOM_HOST: nothing changed. */
PLEAT_NODISCARD pleat_status_t pleat_place_reserve(pleat_stitch_plan_t *plan, size_t count);

void pleat_stitch_plan_fini(pleat_stitch_plan_t *plan);

/* Best place at home in one arena. O(log + 64 candidates). */
pleat_home_place_t pleat_place_home(const pleat_arena_t *arena, uint64_t bytes);

/* A free run inside one handle; .block is NULL if there is none. O(its blocks). */
pleat_home_place_t pleat_place_in_handle(const pleat_handle_t *handle, uint64_t bytes);

/*
 * Best place in the views of @p owner (NULL: no private pool) that were made for @p stream
 * (is_own), or for others; while requests are redirected only where the memory is clear (fence.h).
 * O(their blocks).
 */
pleat_view_place_t pleat_place_view(const pleat_allocator_t *allocator,
                                    const pleat_private_pool_t *owner, pleat_stream_t stream,
                                    bool is_own, uint64_t bytes);

/*
 * Collect what can be stitched of the arenas of @p owner (NULL: no private pool): those of
 * @p stream, or all; while requests are redirected only handles that are clear (fence.h).
 * ERR_OOM_HOST: the plan is empty. O(handles log handles).
 */
PLEAT_NODISCARD pleat_status_t pleat_place_collect(const pleat_allocator_t *allocator,
                                                   const pleat_private_pool_t *owner,
                                                   pleat_stream_t stream, bool is_all,
                                                   pleat_stitch_plan_t *plan);

/* The cheapest stitch of what was collected: at most one free end, then whole handles, then at most
 * one free start. @p is_tight: near the peak of live memory. */
pleat_stitch_place_t pleat_place_stitch(pleat_stitch_plan_t *plan, uint64_t bytes, bool is_tight);

#endif
