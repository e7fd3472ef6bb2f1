/*
 * pleated_place: hits at home, hits in views, stitches.
 */
#include "pleated_place.h"

#include <stdlib.h>

#include "allocator.h"
#include "fence.h"
#include "pleated_cost.h"

#define HOME_CANDIDATES 64u
#define ENDS_TRIED 8u

/* ---- at home ---- */

/* Does a handle begin at this offset, or does the memory of the arena end there? */
static bool arena_is_border(const pleat_arena_t *arena, uint64_t offset)
{
    const size_t index = pleat_arena_handle_index(arena, offset);
    return index == arena->handle_count || arena->handles[index]->offset >= offset;
}

/* Add up the handles that lie inside [begin, end), which is free, and touch the place. */
static void arena_add_wholes(const pleat_arena_t *arena, uint64_t begin, uint64_t end,
                             uint64_t bytes, pleat_home_place_t *place)
{
    const uint64_t place_end = place->offset + bytes;
    for (size_t i = pleat_arena_handle_index(arena, place->offset);
         i < arena->handle_count && arena->handles[i]->offset < place_end; i++) {
        const pleat_handle_t *handle = arena->handles[i];
        const uint64_t handle_end = handle->offset + handle->bytes;
        if (handle->offset >= begin && handle_end <= end) {
            const uint64_t low = handle->offset > place->offset ? handle->offset : place->offset;
            const uint64_t high = handle_end < place_end ? handle_end : place_end;
            place->whole_bytes += handle->bytes;
            place->inside_bytes += high - low;
        }
    }
}

/*
 * The smallest runs that suffice; in a run, the end that keeps the rest joined to a border of
 * handles. The first run that breaks no whole handle for nothing is the best.
 */
pleat_home_place_t pleat_place_home(const pleat_arena_t *arena, uint64_t bytes)
{
    pleat_home_place_t best = {0};
    uint64_t best_cost = UINT64_MAX;
    pleat_free_set_t *set = (pleat_free_set_t *)&arena->pool.free_blocks;
    /* All blocks of an arena have the same bins. */
    pleat_block_t *block = pleat_free_bins_find(arena->first->bins, bytes);
    const uint64_t candidates =
        arena->free_count < HOME_CANDIDATES ? arena->free_count : HOME_CANDIDATES;
    for (uint64_t left = candidates; block != NULL; left--) {
        const uint64_t begin = block->address - arena->address;
        const uint64_t end = begin + block->bytes;
        const bool is_high =
            block->bytes > bytes && arena_is_border(arena, begin) && !arena_is_border(arena, end);
        pleat_home_place_t place = {.block = block, .offset = is_high ? end - bytes : begin};
        arena_add_wholes(arena, begin, end, bytes, &place);
        const uint64_t cost = pleat_cost_hit(bytes, place.whole_bytes);
        if (cost < best_cost) {
            best = place;
            best_cost = cost;
        }
        if (cost == 0 || left <= 1) {
            break;
        }
        block = pleat_free_set_next(set, block);
    }
    return best;
}

pleat_home_place_t pleat_place_in_handle(const pleat_handle_t *handle, uint64_t bytes)
{
    const pleat_arena_t *arena = handle->arena;
    const uint64_t handle_end = handle->offset + handle->bytes;
    for (pleat_block_t *block = handle->start;
         block != NULL && block->address - arena->address < handle_end; block = block->right) {
        const uint64_t begin = block->address - arena->address;
        const uint64_t low = begin > handle->offset ? begin : handle->offset;
        const uint64_t high = begin + block->bytes < handle_end ? begin + block->bytes : handle_end;
        if (block->use == PLEAT_BLOCK_USE_FREE && high - low >= bytes) {
            return (pleat_home_place_t){.block = block, .offset = low};
        }
    }
    return (pleat_home_place_t){0};
}

/* ---- in views ---- */

static bool view_is_border(const pleat_view_t *view, uint64_t offset)
{
    for (size_t i = 0; i < view->piece_count; i++) {
        if (view->pieces[i].offset >= offset) {
            return view->pieces[i].offset == offset;
        }
    }
    return offset == view->bytes;
}

typedef struct view_sum {
    uint64_t whole_bytes;
    uint64_t inside_bytes;
} view_sum_t;

static void view_add_whole(void *context, pleat_handle_t *handle, uint64_t home_offset,
                           uint64_t bytes)
{
    view_sum_t *sum = context;
    (void)home_offset;
    if (pleat_handle_is_whole(handle)) {
        sum->whole_bytes += handle->bytes;
        sum->inside_bytes += bytes;
    }
}

/* What a view shows: is all of it that a request would take clear? */
typedef struct view_clearness {
    pleat_stream_t stream;
    bool is_clear;
} view_clearness_t;

static void view_look_for_fences(void *context, pleat_handle_t *handle, uint64_t home_offset,
                                 uint64_t bytes)
{
    view_clearness_t *clearness = context;
    clearness->is_clear = clearness->is_clear && pleat_fence_is_clear(handle->arena, home_offset,
                                                                      bytes, clearness->stream);
}

static bool view_is_clear(const pleat_view_t *view, uint64_t offset, uint64_t bytes,
                          pleat_stream_t stream)
{
    view_clearness_t clearness = {.stream = stream, .is_clear = true};
    pleat_view_visit(view, offset, bytes, view_look_for_fences, &clearness);
    return clearness.is_clear;
}

pleat_view_place_t pleat_place_view(const pleat_allocator_t *allocator,
                                    const pleat_private_pool_t *owner, pleat_stream_t stream,
                                    bool is_own, uint64_t bytes)
{
    pleat_view_place_t best = {0};
    const bool must_be_clear = pleat_allocator_is_redirecting(allocator);
    for (pleat_view_t *view = allocator->views; view != NULL; view = view->next) {
        if (view->bytes < bytes || view->owner != owner || (view->stream == stream) != is_own) {
            continue;
        }
        const pleat_view_run_t run = pleat_view_find(view, bytes);
        if (run.view == NULL) {
            continue;
        }
        const bool is_high =
            view_is_border(view, run.offset) && !view_is_border(view, run.offset + run.bytes);
        const uint64_t offset = is_high ? run.offset + run.bytes - bytes : run.offset;
        if (must_be_clear && !view_is_clear(view, offset, bytes, stream)) {
            continue;
        }
        view_sum_t sum = {0};
        pleat_view_visit(view, offset, bytes, view_add_whole, &sum);
        if (best.view == NULL || sum.whole_bytes < best.whole_bytes) {
            best = (pleat_view_place_t){.view = view,
                                        .offset = offset,
                                        .whole_bytes = sum.whole_bytes,
                                        .inside_bytes = sum.inside_bytes};
        }
        if (best.whole_bytes == 0) {
            break;
        }
    }
    return best;
}

/* ---- stitches ---- */

void pleat_stitch_plan_fini(pleat_stitch_plan_t *plan)
{
    free(plan->ends);
    free(plan->starts);
    free(plan->wholes);
    free((void *)plan->handles);
    free((void *)plan->trial);
    *plan = (pleat_stitch_plan_t){0};
}

/* Grow one array of the plan; false: no host memory. */
static bool plan_grow_array(void **array, size_t count, size_t element_bytes)
{
    void *grown = realloc(*array, count * element_bytes);
    if (grown == NULL) {
        return false;
    }
    *array = grown;
    return true;
}

pleat_status_t pleat_place_reserve(pleat_stitch_plan_t *plan, size_t count)
{
    if (count <= plan->capacity) {
        return PLEAT_OK;
    }
    const size_t capacity = count > 2 * plan->capacity ? count : 2 * plan->capacity;
    if (!plan_grow_array((void **)&plan->ends, capacity, sizeof(*plan->ends)) ||
        !plan_grow_array((void **)&plan->starts, capacity, sizeof(*plan->starts)) ||
        !plan_grow_array((void **)&plan->wholes, capacity, sizeof(*plan->wholes)) ||
        !plan_grow_array((void **)&plan->handles, capacity, sizeof(*plan->handles)) ||
        !plan_grow_array((void **)&plan->trial, capacity, sizeof(*plan->trial))) {
        pleat_error_set("no host memory to plan over %zu chunks", capacity);
        return PLEAT_ERR_OOM_HOST;
    }
    plan->capacity = capacity;
    return PLEAT_OK;
}

static int candidate_compare(const void *a, const void *b)
{
    const pleat_candidate_t *left = a;
    const pleat_candidate_t *right = b;
    if (left->bytes != right->bytes) {
        return left->bytes < right->bytes ? -1 : 1;
    }
    /* Equal ones in the order of their addresses, so that plans are repeatable. */
    return (left->handle->offset > right->handle->offset) -
           (left->handle->offset < right->handle->offset);
}

static int candidate_compare_falling(const void *a, const void *b)
{
    return candidate_compare(b, a);
}

static void plan_add_handle(pleat_stitch_plan_t *plan, pleat_handle_t *handle)
{
    if (handle->free_bytes == 0) {
        return;
    }
    if (pleat_handle_is_whole(handle)) {
        plan->wholes[plan->whole_count++] = (pleat_candidate_t){handle->bytes, handle};
        plan->whole_bytes += handle->bytes;
        return;
    }
    const uint64_t suffix = pleat_arena_free_suffix(handle);
    const uint64_t prefix = pleat_arena_free_prefix(handle);
    if (suffix > 0) {
        plan->ends[plan->end_count++] = (pleat_candidate_t){suffix, handle};
    }
    if (prefix > 0) {
        plan->starts[plan->start_count++] = (pleat_candidate_t){prefix, handle};
    }
}

/* All handles of an arena; those that are not clear for @p stream are left out if they must be. */
static void plan_add_arena(pleat_stitch_plan_t *plan, const pleat_arena_t *arena,
                           pleat_stream_t stream, bool must_be_clear)
{
    for (size_t i = 0; i < arena->handle_count; i++) {
        pleat_handle_t *handle = arena->handles[i];
        if (!must_be_clear || pleat_fence_is_clear(arena, handle->offset, handle->bytes, stream)) {
            plan_add_handle(plan, handle);
        }
    }
}

pleat_status_t pleat_place_collect(const pleat_allocator_t *allocator,
                                   const pleat_private_pool_t *owner, pleat_stream_t stream,
                                   bool is_all, pleat_stitch_plan_t *plan)
{
    plan->end_count = 0;
    plan->start_count = 0;
    plan->whole_count = 0;
    plan->whole_bytes = 0;
    size_t handle_count = 2; /* a free end and a free start beside the wholes */
    for (const pleat_arena_t *one = allocator->arenas; one != NULL; one = one->next) {
        if (one->pool.owner == owner && (is_all || one->stream == stream)) {
            handle_count += one->handle_count;
        }
    }
    const pleat_status_t status = pleat_place_reserve(plan, handle_count);
    if (status != PLEAT_OK) {
        return status;
    }
    for (const pleat_arena_t *one = allocator->arenas; one != NULL; one = one->next) {
        if (one->pool.owner == owner && (is_all || one->stream == stream)) {
            plan_add_arena(plan, one, stream, pleat_allocator_is_redirecting(allocator));
        }
    }
    qsort(plan->ends, plan->end_count, sizeof(*plan->ends), candidate_compare_falling);
    qsort(plan->starts, plan->start_count, sizeof(*plan->starts), candidate_compare_falling);
    qsort(plan->wholes, plan->whole_count, sizeof(*plan->wholes), candidate_compare);
    return PLEAT_OK;
}

/*
 * Choose whole handles for @p bytes: the smallest that covers the rest, else the largest, and
 * again. Returns their number, SIZE_MAX if they do not suffice.
 */
static size_t plan_fill(const pleat_stitch_plan_t *plan, uint64_t bytes, pleat_handle_t **handles,
                        uint64_t *whole_bytes_out)
{
    size_t count = 0;
    size_t high = plan->whole_count; /* the largest ones from here on are used */
    uint64_t sum = 0;
    while (sum < bytes) {
        if (high == 0) {
            return SIZE_MAX;
        }
        size_t low = 0;
        size_t end = high;
        while (low < end) { /* first that covers the rest */
            const size_t middle = low + (end - low) / 2;
            if (plan->wholes[middle].bytes < bytes - sum) {
                low = middle + 1;
            } else {
                end = middle;
            }
        }
        const size_t chosen = low < high ? low : high - 1;
        handles[count++] = plan->wholes[chosen].handle;
        sum += plan->wholes[chosen].bytes;
        high = high - 1; /* either the last one, or the last choice of all */
    }
    *whole_bytes_out = sum;
    return count;
}

/* Try one free end (may be NULL) and one free start (may be NULL) with whole handles between. */
static void plan_try(pleat_stitch_plan_t *plan, const pleat_candidate_t *end,
                     const pleat_candidate_t *start, uint64_t bytes, bool is_tight,
                     pleat_stitch_place_t *best)
{
    if (end != NULL && start != NULL && end->handle == start->handle) {
        return; /* a handle is in a view at most once */
    }
    const uint64_t have = (end == NULL ? 0 : end->bytes) + (start == NULL ? 0 : start->bytes);
    size_t count = 0;
    if (end != NULL) {
        plan->trial[count++] = end->handle;
    }
    uint64_t whole_bytes = 0;
    const size_t whole_count =
        have >= bytes ? 0 : plan_fill(plan, bytes - have, &plan->trial[count], &whole_bytes);
    if (whole_count == SIZE_MAX) {
        return;
    }
    count += whole_count;
    if (start != NULL) {
        plan->trial[count++] = start->handle;
    }
    const uint64_t left = have + whole_bytes - bytes;
    /* What is left over lies at a border of a whole handle, or between live data. */
    const bool is_left_at_start = end == NULL && start != NULL;
    const bool is_lost =
        (start != NULL || whole_count == 0) && !(is_left_at_start && whole_count > 0);
    const pleat_cost_stitch_t stitch = {.bytes = bytes,
                                        .map_count = count,
                                        .lost_bytes = is_lost ? left : 0,
                                        .whole_bytes = whole_bytes,
                                        .partial_bytes = have < bytes ? have : bytes};
    const double cost =
        is_tight ? pleat_cost_of_tight_stitch(&stitch) : pleat_cost_of_stitch(&stitch);
    if (best->is_found && cost >= best->cost) {
        return;
    }
    uint64_t offset = 0;
    if (end != NULL) {
        offset = end->handle->bytes - end->bytes;
    } else if (is_left_at_start) {
        offset = left;
    }
    *best = (pleat_stitch_place_t){.is_found = true,
                                   .handle_count = count,
                                   .offset = offset,
                                   .partial_bytes = stitch.partial_bytes,
                                   .cost = cost};
    pleat_handle_t **handles = plan->handles;
    plan->handles = plan->trial;
    plan->trial = handles;
}

/* The free end and the free start that fit the request best without a whole handle. */
static void plan_try_tightest(pleat_stitch_plan_t *plan, uint64_t bytes, bool is_tight,
                              pleat_stitch_place_t *best)
{
    uint64_t least_left = UINT64_MAX;
    const pleat_candidate_t *best_end = NULL;
    const pleat_candidate_t *best_start = NULL;
    size_t s = plan->start_count;
    /* Ends fall, so the starts that they need rise: one pass over both. */
    for (size_t e = 0; e < plan->end_count; e++) {
        const pleat_candidate_t *end = &plan->ends[e];
        if (end->bytes >= bytes) {
            continue;
        }
        while (s > 0 && plan->starts[s - 1].bytes < bytes - end->bytes) {
            s--;
        }
        for (size_t k = s; k > 0 && k + 2 > s; k--) {
            const pleat_candidate_t *start = &plan->starts[k - 1];
            if (start->handle != end->handle && end->bytes + start->bytes - bytes < least_left) {
                least_left = end->bytes + start->bytes - bytes;
                best_end = end;
                best_start = start;
            }
        }
    }
    if (best_end != NULL) {
        plan_try(plan, best_end, best_start, bytes, is_tight, best);
    }
}

pleat_stitch_place_t pleat_place_stitch(pleat_stitch_plan_t *plan, uint64_t bytes, bool is_tight)
{
    pleat_stitch_place_t best = {0};
    const uint64_t most_end = plan->end_count == 0 ? 0 : plan->ends[0].bytes;
    const uint64_t most_start = plan->start_count == 0 ? 0 : plan->starts[0].bytes;
    if (plan->whole_bytes + most_end + most_start < bytes) {
        return best;
    }
    const size_t ends = plan->end_count < ENDS_TRIED ? plan->end_count : ENDS_TRIED;
    const size_t starts = plan->start_count < ENDS_TRIED ? plan->start_count : ENDS_TRIED;
    for (size_t e = 0; e <= ends; e++) {
        for (size_t s = 0; s <= starts; s++) {
            plan_try(plan, e == 0 ? NULL : &plan->ends[e - 1], s == 0 ? NULL : &plan->starts[s - 1],
                     bytes, is_tight, &best);
        }
    }
    plan_try_tightest(plan, bytes, is_tight, &best);
    return best;
}
