/*
 * pleated_find: the steps of the search, and what each needs.
 */
#include "pleated_find.h"

#include "allocator.h"
#include "pleated_cost.h"

/* ---- the state of a search ---- */

/* Does an arena hold memory for requests like this one? */
static bool pleated_is_own(const pleat_arena_t *arena, const pleat_request_t *request)
{
    return arena->stream == request->stream && arena->pool.owner == request->pool->owner;
}

bool pleat_pleated_may_cross(const pleat_allocator_t *allocator, const pleat_request_t *request)
{
    return request->pool->owner == NULL && !pleat_allocator_is_redirecting(allocator);
}

/* Free memory of private pools that the request cannot use: it is as good as live. */
static uint64_t pleated_kept_apart_bytes(const pleat_allocator_t *allocator,
                                         const pleat_request_t *request)
{
    if (allocator->private_pools.first == NULL) {
        return 0;
    }
    uint64_t bytes = 0;
    for (const pleat_arena_t *arena = allocator->arenas; arena != NULL; arena = arena->next) {
        if (arena->pool.owner != NULL && arena->pool.owner != request->pool->owner) {
            bytes += arena->free_bytes;
        }
    }
    return bytes;
}

/* Live memory with the request, and the most of it ever. */
static uint64_t pleated_note_live(pleat_allocator_t *allocator, const pleat_request_t *request)
{
    const uint64_t live_bytes = (uint64_t)allocator->stats.active_bytes[PLEAT_STAT_ALL].current +
                                request->requested_bytes +
                                pleated_kept_apart_bytes(allocator, request);
    if (live_bytes > allocator->live_peak_bytes) {
        allocator->live_peak_bytes = live_bytes;
        allocator->viewed_bytes = 0;
    }
    return live_bytes;
}

/* Does the limit allow so much more? */
static bool pleated_may_hold(const pleat_allocator_t *allocator, uint64_t new_bytes)
{
    uint64_t held_bytes = 0;
    return pleat_add_checked(allocator->held_bytes, new_bytes, &held_bytes) &&
           held_bytes <= allocator->options.limit_bytes;
}

/* May a view with @p count more mappings be made? Old ones are evicted for it if that can be. */
static pleat_status_t pleated_reserve_mappings(pleat_allocator_t *allocator, size_t count,
                                               bool *is_granted_out)
{
    const uint64_t budget = allocator->options.pleated_view_mappings;
    pleat_status_t status = PLEAT_OK;
    if (allocator->view_mappings + count > budget && !pleat_allocator_is_redirecting(allocator)) {
        status =
            pleat_pleated_evict_views(allocator, allocator->view_mappings + count - budget, false);
    }
    *is_granted_out = allocator->view_mappings + count <= budget;
    return status;
}

/* ---- 1, 3, 6: memory that is there ---- */

pleat_home_place_t pleat_pleated_find_home(const pleat_allocator_t *allocator,
                                           const pleat_request_t *request, bool is_own)
{
    const bool must_be_clear = pleat_allocator_is_redirecting(allocator);
    for (const pleat_arena_t *arena = allocator->arenas; arena != NULL; arena = arena->next) {
        if (arena->pool.owner != request->pool->owner || pleated_is_own(arena, request) != is_own) {
            continue;
        }
        const pleat_home_place_t place = pleat_place_home(arena, request->bytes);
        if (place.block != NULL &&
            (!must_be_clear ||
             pleat_fence_is_clear(arena, place.offset, request->bytes, request->stream))) {
            return place;
        }
    }
    return (pleat_home_place_t){0};
}

/* ---- 2, 5, 6: stitches ---- */

/* What the request may be stitched from, of whatever stream. */
static pleat_status_t pleated_collect_all(pleat_allocator_t *allocator,
                                          const pleat_request_t *request)
{
    return pleat_place_collect(allocator, request->pool->owner, request->stream,
                               pleat_pleated_may_cross(allocator, request), &allocator->plan);
}

/* Stitch over the stream's memory, or all memory; *block_out stays NULL when nothing fits. */
static pleat_status_t pleated_stitch(pleat_allocator_t *allocator, const pleat_request_t *request,
                                     bool is_all, pleat_block_t **block_out)
{
    pleat_stitch_plan_t *plan = &allocator->plan;
    pleat_status_t status =
        pleat_place_collect(allocator, request->pool->owner, request->stream, is_all, plan);
    if (status != PLEAT_OK) {
        return status;
    }
    const pleat_stitch_place_t place = pleat_place_stitch(plan, request->bytes, false);
    bool is_granted = false;
    if (place.is_found) {
        status = pleated_reserve_mappings(allocator, place.handle_count, &is_granted);
    }
    return is_granted && status == PLEAT_OK
               ? pleat_pleated_take_stitch(allocator, request, plan->handles, place.handle_count,
                                           place.offset, block_out)
               : status;
}

/* Is there so much in free ends and starts that a stitch may gain more than @p gain by enough? */
static bool pleated_may_gain(const pleat_allocator_t *allocator, uint64_t gain)
{
    return (uint64_t)allocator->stats.unreturnable_bytes >
           gain + pleat_cost_tight_gain_bytes(allocator->live_peak_bytes);
}

/* Near the peak: rather than break whole handles, use up free ends, if that gains enough. */
static pleat_status_t pleated_serve_tight(pleat_allocator_t *allocator,
                                          const pleat_request_t *request,
                                          const pleat_home_place_t *home, pleat_block_t **block_out)
{
    const pleat_view_place_t view =
        pleat_place_view(allocator, request->pool->owner, request->stream, true, request->bytes);
    if (view.view != NULL && view.whole_bytes == 0) {
        return pleat_pleated_take_view(allocator, request, view.view, view.offset, block_out);
    }
    const uint64_t home_gain = home->block == NULL ? 0 : request->bytes - home->inside_bytes;
    const uint64_t view_gain = view.view == NULL ? 0 : request->bytes - view.inside_bytes;
    const bool prefers_view = view.view != NULL && (home->block == NULL || view_gain >= home_gain);
    const uint64_t gain = prefers_view ? view_gain : home_gain;
    pleat_stitch_plan_t *plan = &allocator->plan;
    pleat_stitch_place_t stitch = {0};
    pleat_status_t status = PLEAT_OK;
    if (pleated_may_gain(allocator, gain)) {
        status = pleat_place_collect(allocator, request->pool->owner, request->stream, false, plan);
        if (status != PLEAT_OK) {
            return status;
        }
        stitch = pleat_place_stitch(plan, request->bytes, true);
    }
    if (stitch.is_found &&
        stitch.partial_bytes > gain + pleat_cost_tight_gain_bytes(allocator->live_peak_bytes)) {
        /* Not granted: the views that were found may be gone, so the search goes on afresh. */
        bool is_granted = false;
        status = pleated_reserve_mappings(allocator, stitch.handle_count, &is_granted);
        return status != PLEAT_OK || !is_granted
                   ? status
                   : pleat_pleated_take_stitch(allocator, request, plan->handles,
                                               stitch.handle_count, stitch.offset, block_out);
    }
    return prefers_view
               ? pleat_pleated_take_view(allocator, request, view.view, view.offset, block_out)
               : PLEAT_OK;
}

/* ---- 4: growth ---- */

uint64_t pleat_pleated_needed_bytes(const pleat_allocator_t *allocator,
                                    const pleat_request_t *request)
{
    uint64_t least = pleat_round_up(request->bytes, allocator->granularity_bytes);
    for (const pleat_arena_t *arena =
             pleat_pleated_arena(allocator, request->pool->owner, request->stream);
         arena != NULL; arena = pleat_pleated_next_arena(arena)) {
        const uint64_t tail = pleat_pleated_tail_bytes(allocator, arena);
        const uint64_t needed =
            tail >= request->bytes
                ? 0
                : pleat_round_up(request->bytes - tail, allocator->granularity_bytes);
        if (needed < least && needed <= arena->bytes - pleat_arena_end(arena)) {
            least = needed;
        }
    }
    return least;
}

/* Where the memory of an arena ends. */
static pleat_home_place_t pleated_place_at_end(const pleat_arena_t *arena, uint64_t bytes)
{
    const uint64_t end = pleat_arena_end(arena);
    pleat_block_t *block = pleat_arena_free_block(arena, end - 1);
    return block == NULL || block->bytes < bytes
               ? (pleat_home_place_t){0}
               : (pleat_home_place_t){.block = block, .offset = end - bytes};
}

static pleat_status_t pleated_grow_and_take(pleat_allocator_t *allocator,
                                            const pleat_request_t *request, uint64_t bytes,
                                            pleat_block_t **block_out)
{
    pleat_arena_t *arena = NULL;
    size_t handle_count = 0;
    pleat_status_t status = pleat_pleated_grow(allocator, request, bytes, &arena, &handle_count);
    if (status != PLEAT_OK) {
        return status;
    }
    const pleat_home_place_t place = pleat_allocator_is_redirecting(allocator)
                                         ? pleated_place_at_end(arena, request->bytes)
                                         : pleat_place_home(arena, request->bytes);
    /* No place: a new arena, because the addresses of the old one ended. */
    status = place.block == NULL ? PLEAT_ERR_OOM_DEVICE
                                 : pleat_pleated_take_home(allocator, request, &place, block_out);
    if (status != PLEAT_OK) {
        pleat_pleated_shrink(allocator, arena, handle_count);
    }
    return status;
}

/* Grow by what the option of growth asks for beyond what is needed. ERR_OOM_DEVICE: that is
 * nothing, or there is no room for it. */
static pleat_status_t pleated_grow_by_factor(pleat_allocator_t *allocator,
                                             const pleat_request_t *request,
                                             pleat_block_t **block_out)
{
    const pleat_options_t *options = &allocator->options;
    if (options->pleated_growth_factor <= 1.0) {
        return PLEAT_ERR_OOM_DEVICE;
    }
    uint64_t free_bytes = 0;
    uint64_t total_bytes = 0;
    const pleat_status_t status = pleat_vmm_mem_info(allocator->vmm, &free_bytes, &total_bytes);
    if (status != PLEAT_OK) {
        return status;
    }
    const uint64_t held_bytes = allocator->held_bytes;
    const uint64_t allowed_bytes =
        options->limit_bytes > held_bytes ? options->limit_bytes - held_bytes : 0;
    const uint64_t room_bytes = pleat_align_down(
        free_bytes < allowed_bytes ? free_bytes : allowed_bytes, allocator->granularity_bytes);
    const uint64_t bytes = pleat_cost_factor_bytes(
        options, pleat_pleated_needed_bytes(allocator, request), held_bytes, room_bytes,
        pleat_cost_handle_bytes(options, allocator->live_peak_bytes, request->bytes,
                                allocator->granularity_bytes));
    return bytes == 0 ? PLEAT_ERR_OOM_DEVICE
                      : pleated_grow_and_take(allocator, request, bytes, block_out);
}

/* ---- the search ---- */

/* A free run inside one handle of the stream's arenas, of the smallest handle that has one. */
static pleat_home_place_t pleated_find_single(const pleat_allocator_t *allocator,
                                              const pleat_request_t *request)
{
    pleat_home_place_t best = {0};
    uint64_t best_bytes = UINT64_MAX;
    const bool must_be_clear = pleat_allocator_is_redirecting(allocator);
    for (const pleat_arena_t *arena =
             pleat_pleated_arena(allocator, request->pool->owner, request->stream);
         arena != NULL; arena = pleat_pleated_next_arena(arena)) {
        for (size_t i = 0; i < arena->handle_count; i++) {
            const pleat_handle_t *handle = arena->handles[i];
            if (handle->free_bytes < request->bytes || handle->bytes >= best_bytes) {
                continue;
            }
            const pleat_home_place_t place = pleat_place_in_handle(handle, request->bytes);
            if (place.block != NULL &&
                (!must_be_clear ||
                 pleat_fence_is_clear(arena, place.offset, request->bytes, request->stream))) {
                best = place;
                best_bytes = handle->bytes;
            }
        }
    }
    return best;
}

pleat_status_t pleat_pleated_reuse_large(pleat_allocator_t *allocator,
                                         const pleat_request_t *request, pleat_block_t **block_out)
{
    if (request->is_single) {
        const pleat_home_place_t single = pleated_find_single(allocator, request);
        (void)pleated_note_live(allocator, request);
        return single.block == NULL
                   ? PLEAT_OK
                   : pleat_pleated_take_home(allocator, request, &single, block_out);
    }
    const uint64_t live_bytes = pleated_note_live(allocator, request);
    const pleat_home_place_t home = pleat_pleated_find_home(allocator, request, true);
    if (!(home.block != NULL && home.whole_bytes == 0) &&
        pleat_cost_is_tight(request->bytes, live_bytes, allocator->live_peak_bytes,
                            allocator->viewed_bytes)) {
        if (pleated_may_gain(allocator, 0)) {
            return PLEAT_OK;
        }
        const pleat_status_t status = pleated_serve_tight(allocator, request, &home, block_out);
        if (status != PLEAT_OK || *block_out != NULL) {
            return status;
        }
    }
    if (home.block != NULL) {
        return pleat_pleated_take_home(allocator, request, &home, block_out);
    }
    const pleat_view_place_t view =
        pleat_place_view(allocator, request->pool->owner, request->stream, true, request->bytes);
    return view.view == NULL
               ? PLEAT_OK
               : pleat_pleated_take_view(allocator, request, view.view, view.offset, block_out);
}

/* Steps 1 to 6 for a large request; *block_out stays NULL when nothing fits. A full device or a
 * budget that is used up is no error here: the next step is tried. */
static pleat_status_t pleated_search_large(pleat_allocator_t *allocator,
                                           const pleat_request_t *request,
                                           pleat_block_t **block_out)
{
    const uint64_t live_bytes = pleated_note_live(allocator, request);
    const pleat_home_place_t home = pleat_pleated_find_home(allocator, request, true);
    pleat_status_t status = PLEAT_OK;
    if (!(home.block != NULL && home.whole_bytes == 0) &&
        pleat_cost_is_tight(request->bytes, live_bytes, allocator->live_peak_bytes,
                            allocator->viewed_bytes)) {
        status = pleated_serve_tight(allocator, request, &home, block_out);
        if (*block_out != NULL || (status != PLEAT_OK && status != PLEAT_ERR_OOM_DEVICE)) {
            return status;
        }
    }
    if (home.block != NULL) {
        return pleat_pleated_take_home(allocator, request, &home, block_out);
    }
    const pleat_view_place_t view =
        pleat_place_view(allocator, request->pool->owner, request->stream, true, request->bytes);
    if (view.view != NULL) {
        return pleat_pleated_take_view(allocator, request, view.view, view.offset, block_out);
    }
    const uint64_t needed = pleat_pleated_needed_bytes(allocator, request);
    const uint64_t hold = pleat_cost_hold_bytes(&allocator->options, allocator->live_peak_bytes,
                                                allocator->viewed_bytes);
    if (allocator->held_bytes <= hold && needed <= hold - allocator->held_bytes) {
        status = pleated_grow_by_factor(allocator, request, block_out);
        if (status == PLEAT_ERR_OOM_DEVICE) {
            status = pleated_grow_and_take(
                allocator, request,
                pleat_cost_growth_bytes(&allocator->options, needed, live_bytes,
                                        allocator->held_bytes, allocator->live_peak_bytes,
                                        allocator->granularity_bytes),
                block_out);
        }
        if (status != PLEAT_ERR_OOM_DEVICE) {
            return status;
        }
    }
    status = pleated_stitch(allocator, request, false, block_out);
    if (*block_out != NULL || (status != PLEAT_OK && status != PLEAT_ERR_OOM_DEVICE)) {
        return status;
    }
    return PLEAT_OK;
}

static pleat_status_t pleated_search_others(pleat_allocator_t *allocator,
                                            const pleat_request_t *request,
                                            pleat_block_t **block_out)
{
    if (!pleat_pleated_may_cross(allocator, request) || allocator->arenas == NULL ||
        (allocator->arenas->next == NULL && allocator->arenas->stream == request->stream)) {
        return PLEAT_OK;
    }
    const pleat_home_place_t home = pleat_pleated_find_home(allocator, request, false);
    if (home.block != NULL) {
        return pleat_pleated_take_home(allocator, request, &home, block_out);
    }
    const pleat_view_place_t view =
        pleat_place_view(allocator, request->pool->owner, request->stream, false, request->bytes);
    if (view.view != NULL) {
        return pleat_pleated_take_view(allocator, request, view.view, view.offset, block_out);
    }
    const pleat_status_t status = pleated_stitch(allocator, request, true, block_out);
    return status == PLEAT_ERR_OOM_DEVICE ? PLEAT_OK : status;
}

/* ---- in one chunk ---- */

/* Memory in one handle: some that is there, or a handle of its own. */
static pleat_status_t pleated_supply_single(pleat_allocator_t *allocator,
                                            const pleat_request_t *request,
                                            pleat_block_t **block_out)
{
    pleat_home_place_t place = pleated_find_single(allocator, request);
    if (place.block == NULL) {
        const uint64_t bytes = pleat_round_up(request->bytes, allocator->granularity_bytes);
        if (!pleated_may_hold(allocator, bytes)) {
            return PLEAT_ERR_OOM_DEVICE;
        }
        const pleat_status_t status = pleat_pleated_grow_single(allocator, request, bytes, &place);
        if (status != PLEAT_OK) {
            return status;
        }
    }
    return pleat_pleated_take_home(allocator, request, &place, block_out);
}

pleat_status_t pleat_pleated_make_room(pleat_allocator_t *allocator, const pleat_request_t *request,
                                       uint64_t wanted_bytes, bool can_wait)
{
    if (!pleat_pleated_may_cross(allocator, request)) {
        return PLEAT_ERR_OOM_DEVICE;
    }
    uint64_t free_bytes = 0;
    uint64_t total_bytes = 0;
    pleat_status_t status = pleat_vmm_mem_info(allocator->vmm, &free_bytes, &total_bytes);
    if (status == PLEAT_OK) {
        status = pleat_place_collect(allocator, NULL, request->stream, true, &allocator->plan);
    }
    if (status != PLEAT_OK) {
        return status;
    }
    const uint64_t limit = allocator->options.limit_bytes;
    const uint64_t allowed_bytes =
        limit > allocator->held_bytes ? limit - allocator->held_bytes : 0;
    const uint64_t room = free_bytes < allowed_bytes ? free_bytes : allowed_bytes;
    if (wanted_bytes <= room || wanted_bytes - room > allocator->plan.whole_bytes) {
        return PLEAT_ERR_OOM_DEVICE;
    }
    uint64_t released_bytes = 0;
    status = pleat_pleated_release(allocator, NULL, wanted_bytes - room, can_wait, &released_bytes);
    return status == PLEAT_OK && released_bytes == 0 ? PLEAT_ERR_OOM_DEVICE : status;
}

/* The same, after giving idle handles back for a new one: joining them does not help here. */
static pleat_status_t pleated_exceed_single(pleat_allocator_t *allocator,
                                            const pleat_request_t *request,
                                            pleat_block_t **block_out)
{
    const pleat_status_t status = pleat_pleated_make_room(
        allocator, request, pleat_round_up(request->bytes, allocator->granularity_bytes), false);
    return status != PLEAT_OK ? status : pleated_supply_single(allocator, request, block_out);
}

pleat_status_t pleat_pleated_find_large(pleat_allocator_t *allocator,
                                        const pleat_request_t *request, pleat_block_t **block_out)
{
    if (request->is_single) {
        (void)pleated_note_live(allocator, request);
        const pleat_status_t single = pleated_supply_single(allocator, request, block_out);
        return single == PLEAT_ERR_OOM_DEVICE ? PLEAT_OK : single;
    }
    const pleat_status_t status = pleated_search_large(allocator, request, block_out);
    return status != PLEAT_OK || *block_out != NULL
               ? status
               : pleated_search_others(allocator, request, block_out);
}

void pleat_pleated_forget_views(pleat_allocator_t *allocator, uint64_t bytes)
{
    const uint64_t forgotten_bytes = pleat_cost_forgotten_bytes(bytes);
    allocator->viewed_bytes -=
        forgotten_bytes < allocator->viewed_bytes ? forgotten_bytes : allocator->viewed_bytes;
}

/* ---- 7: more than the peak asks for ---- */

typedef struct pleated_excess {
    uint64_t new_bytes;
    bool uses_stitch;
    bool uses_start;
    size_t start_index;
} pleated_excess_t;

/* The least new memory: with the largest free end, all whole handles and the largest free start in
 * one view, or simply behind the stream's memory when that is no more than @p spare_bytes more. */
static pleated_excess_t pleated_plan_excess(const pleat_allocator_t *allocator,
                                            const pleat_request_t *request, uint64_t spare_bytes)
{
    const pleat_stitch_plan_t *plan = &allocator->plan;
    const uint64_t unit = allocator->granularity_bytes;
    const uint64_t end = plan->end_count == 0 ? 0 : plan->ends[0].bytes;
    pleated_excess_t excess = {.new_bytes = pleat_pleated_needed_bytes(allocator, request)};
    uint64_t start = 0;
    for (size_t i = 0; i < plan->start_count && start == 0; i++) {
        if (plan->end_count == 0 || plan->starts[i].handle != plan->ends[0].handle) {
            start = plan->starts[i].bytes;
            excess.start_index = i;
        }
    }
    const uint64_t have = end + plan->whole_bytes;
    const uint64_t without =
        have >= request->bytes ? unit : pleat_round_up(request->bytes - have, unit);
    const uint64_t with =
        have + start >= request->bytes ? unit : pleat_round_up(request->bytes - have - start, unit);
    const uint64_t least = with < without ? with : without;
    if (excess.new_bytes > least + spare_bytes) {
        excess.new_bytes = least;
        excess.uses_stitch = true;
        excess.uses_start = with < without;
    }
    return excess;
}

/* Handles in the view that a plan with new memory makes. */
static size_t pleated_excess_count(const pleat_allocator_t *allocator,
                                   const pleat_request_t *request, const pleated_excess_t *excess)
{
    const pleat_stitch_plan_t *plan = &allocator->plan;
    const uint64_t handle_bytes =
        pleat_cost_handle_bytes(&allocator->options, allocator->live_peak_bytes, request->bytes,
                                allocator->granularity_bytes);
    return (plan->end_count > 0) + plan->whole_count + excess->uses_start +
           (size_t)(pleat_round_up(excess->new_bytes, handle_bytes) / handle_bytes);
}

/* Free end, whole handles, the new ones and the free start, as planned, in the plan's handles. */
static size_t pleated_list_excess(pleat_stitch_plan_t *plan, const pleated_excess_t *excess,
                                  pleat_handle_t *const *new_handles, size_t new_count)
{
    size_t count = 0;
    if (plan->end_count > 0) {
        plan->handles[count++] = plan->ends[0].handle;
    }
    for (size_t i = 0; i < plan->whole_count; i++) {
        plan->handles[count++] = plan->wholes[i].handle;
    }
    for (size_t i = 0; i < new_count; i++) {
        plan->handles[count++] = new_handles[i];
    }
    if (excess->uses_start) {
        plan->handles[count++] = plan->starts[excess->start_index].handle;
    }
    return count;
}

/* Grow by the planned bytes, and make a view of everything. ERR_OOM_DEVICE too if the view would
 * have too many mappings; on any error nothing has grown. */
static pleat_status_t pleated_exceed_by_stitch(pleat_allocator_t *allocator,
                                               const pleat_request_t *request,
                                               const pleated_excess_t *excess,
                                               pleat_block_t **block_out)
{
    if (!pleated_may_hold(allocator, excess->new_bytes)) {
        return PLEAT_ERR_OOM_DEVICE;
    }
    pleat_stitch_plan_t *plan = &allocator->plan;
    const size_t count = pleated_excess_count(allocator, request, excess);
    bool is_granted = false;
    pleat_status_t status = pleat_place_reserve(plan, count);
    if (status == PLEAT_OK) {
        status = pleated_reserve_mappings(allocator, count, &is_granted);
    }
    if (status != PLEAT_OK || !is_granted) {
        return status != PLEAT_OK ? status : PLEAT_ERR_OOM_DEVICE;
    }
    pleat_arena_t *arena = NULL;
    size_t new_count = 0;
    status = pleat_pleated_grow(allocator, request, excess->new_bytes, &arena, &new_count);
    if (status != PLEAT_OK) {
        return status;
    }
    pleat_handle_t **new_handles = &arena->handles[arena->handle_count - new_count];
    const size_t listed = pleated_list_excess(plan, excess, new_handles, new_count);
    PLEAT_ASSERT(listed == count);
    const uint64_t offset =
        plan->end_count == 0 ? 0 : plan->ends[0].handle->bytes - plan->ends[0].bytes;
    status =
        pleat_pleated_take_stitch(allocator, request, plan->handles, listed, offset, block_out);
    if (status != PLEAT_OK) {
        pleat_pleated_shrink(allocator, arena, new_count);
    }
    return status;
}

/* Grow behind the stream's memory, by steps that are not tiny if there is room for them. */
static pleat_status_t pleated_exceed_plainly(pleat_allocator_t *allocator,
                                             const pleat_request_t *request,
                                             pleat_block_t **block_out)
{
    const uint64_t needed = pleat_pleated_needed_bytes(allocator, request);
    if (!pleated_may_hold(allocator, needed)) {
        return PLEAT_ERR_OOM_DEVICE;
    }
    const uint64_t wanted =
        pleat_cost_excess_bytes(&allocator->options, needed, allocator->held_bytes,
                                allocator->live_peak_bytes, allocator->granularity_bytes);
    const pleat_status_t status = pleated_grow_and_take(allocator, request, wanted, block_out);
    return status == PLEAT_ERR_OOM_DEVICE && wanted > needed
               ? pleated_grow_and_take(allocator, request, needed, block_out)
               : status;
}

pleat_status_t pleat_pleated_exceed(pleat_allocator_t *allocator, const pleat_request_t *request,
                                    pleat_block_t **block_out)
{
    if (request->is_single) {
        return pleated_exceed_single(allocator, request, block_out);
    }
    pleat_status_t status = pleated_grow_by_factor(allocator, request, block_out);
    if (status != PLEAT_ERR_OOM_DEVICE) {
        return status;
    }
    status = pleated_collect_all(allocator, request);
    if (status != PLEAT_OK) {
        return status;
    }
    pleated_excess_t excess = pleated_plan_excess(allocator, request, PLEAT_COST_EXCEED_FREE_BYTES);
    if (!excess.uses_stitch) {
        status = pleated_exceed_plainly(allocator, request, block_out);
        if (status != PLEAT_ERR_OOM_DEVICE) {
            return status;
        }
        /* There is no room for what is hardly more: then every byte counts. */
        status = pleated_collect_all(allocator, request);
        if (status != PLEAT_OK) {
            return status;
        }
        excess = pleated_plan_excess(allocator, request, 0);
        return excess.uses_stitch ? pleated_exceed_by_stitch(allocator, request, &excess, block_out)
                                  : PLEAT_ERR_OOM_DEVICE;
    }
    status = pleated_exceed_by_stitch(allocator, request, &excess, block_out);
    return status == PLEAT_ERR_OOM_DEVICE ? pleated_exceed_plainly(allocator, request, block_out)
                                          : status;
}
