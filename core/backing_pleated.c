/*
 * backing_pleated: our own use of virtual memory. In this order a request gets
 *   1 free memory at home, in one piece             5 a new view over its own stream's memory
 *   2 near the peak: a stitch that uses free ends   6 the same three from other streams' memory
 *   3 free memory in a view that exists             7 a new view with as little new memory as
 *   4 new memory, as long as little more is held      possible, within the limit
 *     than was ever in use at once
 * and then, looking again after each: what frees that wait for a stream give back, one by one, and
 * what views hold of addresses and mappings.
 *
 * Source: our own policy study (experiments/policy).
 */
#include "allocator.h"
#include "pleated.h"
#include "pleated_cost.h"
#include "reclaim.h"
#include "retire.h"

/* ---- the state of a search ---- */

/* Live memory with the request, and the most of it ever. */
static uint64_t pleated_note_live(pleat_allocator_t *allocator, const pleat_request_t *request)
{
    const uint64_t live_bytes =
        (uint64_t)allocator->stats.active_bytes[PLEAT_STAT_ALL].current + request->requested_bytes;
    if (live_bytes > allocator->live_peak_bytes) {
        allocator->live_peak_bytes = live_bytes;
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
    if (allocator->view_mappings + count > budget) {
        status =
            pleat_pleated_evict_views(allocator, allocator->view_mappings + count - budget, false);
    }
    *is_granted_out = allocator->view_mappings + count <= budget;
    return status;
}

/* ---- 1, 3, 6: memory that is there ---- */

/* Best place at home over all arenas of the stream, or of all other streams. */
static pleat_home_place_t pleated_find_home(const pleat_allocator_t *allocator,
                                            const pleat_request_t *request, bool is_own)
{
    for (const pleat_arena_t *arena = allocator->arenas; arena != NULL; arena = arena->next) {
        if ((arena->stream == request->stream) != is_own) {
            continue;
        }
        const pleat_home_place_t place = pleat_place_home(arena, request->bytes);
        if (place.block != NULL) {
            return place;
        }
    }
    return (pleat_home_place_t){0};
}

/* ---- 2, 5, 6: stitches ---- */

/* Stitch over the stream's memory, or all memory; *block_out stays NULL when nothing fits. */
static pleat_status_t pleated_stitch(pleat_allocator_t *allocator, const pleat_request_t *request,
                                     bool is_all, pleat_block_t **block_out)
{
    pleat_stitch_plan_t *plan = &allocator->plan;
    pleat_status_t status = pleat_place_collect(allocator, request->stream, is_all, plan);
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

/* Near the peak: rather than break whole handles, use up free ends, if that gains enough. */
static pleat_status_t pleated_serve_tight(pleat_allocator_t *allocator,
                                          const pleat_request_t *request,
                                          const pleat_home_place_t *home, pleat_block_t **block_out)
{
    const pleat_view_place_t view =
        pleat_place_view(allocator, request->stream, true, request->bytes);
    if (view.view != NULL && view.whole_bytes == 0) {
        return pleat_pleated_take_view(allocator, request, view.view, view.offset, block_out);
    }
    const uint64_t home_gain = home->block == NULL ? 0 : request->bytes - home->inside_bytes;
    const uint64_t view_gain = view.view == NULL ? 0 : request->bytes - view.inside_bytes;
    const bool prefers_view = view.view != NULL && (home->block == NULL || view_gain >= home_gain);
    const uint64_t gain = prefers_view ? view_gain : home_gain;
    pleat_stitch_plan_t *plan = &allocator->plan;
    pleat_status_t status = pleat_place_collect(allocator, request->stream, false, plan);
    if (status != PLEAT_OK) {
        return status;
    }
    const pleat_stitch_place_t stitch = pleat_place_stitch(plan, request->bytes, true);
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

/* New bytes needed behind the stream's memory for a request in one piece: the least, in an arena
 * that has addresses for them. */
static uint64_t pleated_needed_bytes(const pleat_allocator_t *allocator,
                                     const pleat_request_t *request)
{
    uint64_t least = pleat_round_up(request->bytes, allocator->granularity_bytes);
    for (const pleat_arena_t *arena = pleat_pleated_arena(allocator, request->stream);
         arena != NULL; arena = pleat_pleated_next_arena(arena)) {
        const uint64_t tail = pleat_pleated_tail_bytes(arena);
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
    const pleat_home_place_t place = pleat_place_home(arena, request->bytes);
    /* No place: a new arena, because the addresses of the old one ended. */
    status = place.block == NULL ? PLEAT_ERR_OOM_DEVICE
                                 : pleat_pleated_take_home(allocator, request, &place, block_out);
    if (status != PLEAT_OK) {
        pleat_pleated_shrink(allocator, arena, handle_count);
    }
    return status;
}

/* ---- the search ---- */

/* Steps 1 to 6 for a large request; *block_out stays NULL when nothing fits. A full device or a
 * budget that is used up is no error here: the next step is tried. */
static pleat_status_t pleated_search_large(pleat_allocator_t *allocator,
                                           const pleat_request_t *request,
                                           pleat_block_t **block_out)
{
    const uint64_t live_bytes = pleated_note_live(allocator, request);
    const pleat_home_place_t home = pleated_find_home(allocator, request, true);
    pleat_status_t status = PLEAT_OK;
    if (!(home.block != NULL && home.whole_bytes == 0) &&
        pleat_cost_is_tight(&allocator->options, request->bytes, live_bytes,
                            allocator->live_peak_bytes)) {
        status = pleated_serve_tight(allocator, request, &home, block_out);
        if (*block_out != NULL || (status != PLEAT_OK && status != PLEAT_ERR_OOM_DEVICE)) {
            return status;
        }
    }
    if (home.block != NULL) {
        return pleat_pleated_take_home(allocator, request, &home, block_out);
    }
    const pleat_view_place_t view =
        pleat_place_view(allocator, request->stream, true, request->bytes);
    if (view.view != NULL) {
        return pleat_pleated_take_view(allocator, request, view.view, view.offset, block_out);
    }
    const uint64_t needed = pleated_needed_bytes(allocator, request);
    const uint64_t hold = pleat_cost_hold_bytes(&allocator->options, allocator->live_peak_bytes);
    if (allocator->held_bytes <= hold && needed <= hold - allocator->held_bytes) {
        status = pleated_grow_and_take(
            allocator, request,
            pleat_cost_growth_bytes(&allocator->options, needed, live_bytes, allocator->held_bytes,
                                    allocator->live_peak_bytes, allocator->granularity_bytes),
            block_out);
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
    if (allocator->arenas == NULL ||
        (allocator->arenas->next == NULL && allocator->arenas->stream == request->stream)) {
        return PLEAT_OK;
    }
    const pleat_home_place_t home = pleated_find_home(allocator, request, false);
    if (home.block != NULL) {
        return pleat_pleated_take_home(allocator, request, &home, block_out);
    }
    const pleat_view_place_t view =
        pleat_place_view(allocator, request->stream, false, request->bytes);
    if (view.view != NULL) {
        return pleat_pleated_take_view(allocator, request, view.view, view.offset, block_out);
    }
    const pleat_status_t status = pleated_stitch(allocator, request, true, block_out);
    return status == PLEAT_ERR_OOM_DEVICE ? PLEAT_OK : status;
}

/* ---- in one chunk ---- */

/* A free run inside one handle of the stream's arenas, of the smallest handle that has one. */
static pleat_home_place_t pleated_find_single(const pleat_allocator_t *allocator,
                                              const pleat_request_t *request)
{
    pleat_home_place_t best = {0};
    uint64_t best_bytes = UINT64_MAX;
    for (const pleat_arena_t *arena = pleat_pleated_arena(allocator, request->stream);
         arena != NULL; arena = pleat_pleated_next_arena(arena)) {
        for (size_t i = 0; i < arena->handle_count; i++) {
            const pleat_handle_t *handle = arena->handles[i];
            if (handle->free_bytes < request->bytes || handle->bytes >= best_bytes) {
                continue;
            }
            const pleat_home_place_t place = pleat_place_in_handle(handle, request->bytes);
            if (place.block != NULL) {
                best = place;
                best_bytes = handle->bytes;
            }
        }
    }
    return best;
}

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

/* Give idle handles back until @p wanted_bytes can be had anew, no more than needed for it.
 * ERR_OOM_DEVICE and nothing changed if all of them would not suffice, or none need go. */
static pleat_status_t pleated_make_room(pleat_allocator_t *allocator,
                                        const pleat_request_t *request, uint64_t wanted_bytes,
                                        bool can_wait)
{
    uint64_t free_bytes = 0;
    uint64_t total_bytes = 0;
    pleat_status_t status = pleat_vmm_mem_info(allocator->vmm, &free_bytes, &total_bytes);
    if (status == PLEAT_OK) {
        status = pleat_place_collect(allocator, request->stream, true, &allocator->plan);
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
    status = pleat_pleated_release(allocator, wanted_bytes - room, can_wait, &released_bytes);
    return status == PLEAT_OK && released_bytes == 0 ? PLEAT_ERR_OOM_DEVICE : status;
}

/* The same, after giving idle handles back for a new one: joining them does not help here. */
static pleat_status_t pleated_exceed_single(pleat_allocator_t *allocator,
                                            const pleat_request_t *request,
                                            pleat_block_t **block_out)
{
    const pleat_status_t status = pleated_make_room(
        allocator, request, pleat_round_up(request->bytes, allocator->granularity_bytes), false);
    return status != PLEAT_OK ? status : pleated_supply_single(allocator, request, block_out);
}

static pleat_status_t pleated_prepare_single(pleat_allocator_t *allocator, pleat_request_t *request)
{
    request->is_single = true;
    request->pool = &allocator->large_pool; /* a slab may lie in several chunks */
    return PLEAT_OK;
}

static pleat_status_t pleated_find_large(pleat_allocator_t *allocator,
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
    pleated_excess_t excess = {.new_bytes = pleated_needed_bytes(allocator, request)};
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
    const uint64_t needed = pleated_needed_bytes(allocator, request);
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

static pleat_status_t pleated_exceed(pleat_allocator_t *allocator, const pleat_request_t *request,
                                     pleat_block_t **block_out)
{
    if (request->is_single) {
        return pleated_exceed_single(allocator, request, block_out);
    }
    pleat_status_t status = pleat_place_collect(allocator, request->stream, true, &allocator->plan);
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
        status = pleat_place_collect(allocator, request->stream, true, &allocator->plan);
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

/* ---- small requests ---- */

/* The large request for a slab; what is live by it is what the small request asked for. */
static pleat_request_t pleated_slab_request(pleat_allocator_t *allocator,
                                            const pleat_request_t *request)
{
    return (pleat_request_t){.requested_bytes = request->requested_bytes,
                             .bytes = PLEAT_SMALL_SEGMENT_BYTES,
                             .segment_bytes = PLEAT_SMALL_SEGMENT_BYTES,
                             .stream = request->stream,
                             .pool = &allocator->large_pool};
}

/* One free small block over a slab, in no set. */
static pleat_block_t *pleated_make_slab(pleat_allocator_t *allocator,
                                        const pleat_request_t *request, pleat_block_t *slab)
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
    pleat_stats_t *stats = &allocator->stats;
    pleat_stat_decrease(&stats->reserved_bytes[PLEAT_STAT_LARGE_POOL], (int64_t)slab->bytes);
    pleat_stat_increase(&stats->reserved_bytes[PLEAT_STAT_SMALL_POOL], (int64_t)slab->bytes);
    return block;
}

typedef pleat_status_t (*pleated_find_fn_t)(pleat_allocator_t *allocator,
                                            const pleat_request_t *request,
                                            pleat_block_t **block_out);

/* Find memory for a request by @p find, through a slab if it is small. */
static pleat_status_t pleated_find(pleat_allocator_t *allocator, const pleat_request_t *request,
                                   pleated_find_fn_t find, pleat_block_t **block_out)
{
    if (request->pool != &allocator->small_pool) {
        return find(allocator, request, block_out);
    }
    pleat_status_t status = pleat_block_store_require(&allocator->blocks, 8);
    if (status != PLEAT_OK) {
        return status;
    }
    const pleat_request_t slab_request = pleated_slab_request(allocator, request);
    pleat_block_t *slab = NULL;
    status = find(allocator, &slab_request, &slab);
    if (slab != NULL) {
        if (!pleat_block_store_reserve(&allocator->blocks, 2)) {
            pleat_pleated_give(allocator, slab);
            pleat_error_set("no host memory for blocks");
            return PLEAT_ERR_OOM_HOST;
        }
        *block_out = pleated_make_slab(allocator, request, slab);
    }
    return status;
}

/* ---- the table ---- */

/* Blocks of plain segments, left from another mode, are handed out as well; ranges of PyTorch's
 * kind are not. */
static pleat_block_t *pleated_choose(pleat_allocator_t *allocator, const pleat_request_t *request,
                                     pleat_block_t *best)
{
    (void)allocator;
    pleat_block_t *block = best;
    while (block != NULL && block->range != NULL) {
        block = pleat_free_set_next(&request->pool->free_blocks, block);
        if (block != NULL && block->stream != request->stream) {
            block = NULL;
        }
    }
    return block;
}

/* Look again: for memory that is there, then for new memory within the limit. */
static pleat_status_t pleated_look_again(pleat_allocator_t *allocator,
                                         const pleat_request_t *request, pleat_block_t **block_out)
{
    pleat_status_t status = PLEAT_OK;
    if (request->pool == &allocator->small_pool) {
        pleat_block_t *block = pleat_free_set_find(&allocator->small_pool.free_blocks,
                                                   request->stream, request->bytes);
        block = block == NULL ? NULL : pleated_choose(allocator, request, block);
        if (block != NULL) {
            pleat_pool_take(request->pool, block);
            *block_out = block;
            return PLEAT_OK;
        }
    }
    status = pleated_find(allocator, request, pleated_find_large, block_out);
    return status != PLEAT_OK || *block_out != NULL
               ? status
               : pleated_find(allocator, request, pleated_exceed, block_out);
}

/* Give addresses and mappings of idle views back, and plain segments of another mode. */
static pleat_status_t pleated_trim(pleat_allocator_t *allocator)
{
    const pleat_status_t status = pleat_pleated_evict_views(allocator, UINT64_MAX, true);
    return status != PLEAT_OK ? status : pleat_reclaim_pools(allocator);
}

/* Free chunks that cannot be joined, for want of mappings or because the request must lie in one,
 * are given back for new memory in one piece; the host waits for the work on them. What is free
 * behind the stream's memory counts, as long as it is not given back itself. ERR_OOM_DEVICE if that
 * does not suffice. */
static pleat_status_t pleated_trade(pleat_allocator_t *allocator, const pleat_request_t *request,
                                    pleat_block_t **block_out)
{
    const pleat_request_t large = request->pool == &allocator->small_pool
                                      ? pleated_slab_request(allocator, request)
                                      : *request;
    for (;;) { /* each time something goes, so this ends */
        const uint64_t wanted = large.is_single
                                    ? pleat_round_up(large.bytes, allocator->granularity_bytes)
                                    : pleated_needed_bytes(allocator, &large);
        pleat_status_t status = pleated_make_room(allocator, &large, wanted, true);
        if (status != PLEAT_OK) {
            return status;
        }
        status = pleated_look_again(allocator, request, block_out);
        if (status != PLEAT_ERR_OOM_DEVICE) {
            return status;
        }
    }
}

/* Nothing is there and no more can be had: wait for one free after the other, look again each time,
 * then give idle views up and look again, then trade chunks. */
static pleat_status_t pleated_retry(pleat_allocator_t *allocator, const pleat_request_t *request,
                                    pleat_block_t **block_out)
{
    allocator->stats.num_alloc_retries += 1;
    for (;;) {
        bool has_waited = false;
        pleat_status_t status = pleat_retire_wait_for_one(allocator, &has_waited);
        if (status == PLEAT_OK && !has_waited) {
            status = pleated_trim(allocator);
            if (status == PLEAT_OK) {
                status = pleated_look_again(allocator, request, block_out);
            }
            return status != PLEAT_ERR_OOM_DEVICE ? status
                                                  : pleated_trade(allocator, request, block_out);
        }
        if (status == PLEAT_OK) {
            status = pleated_look_again(allocator, request, block_out);
        }
        if (status != PLEAT_ERR_OOM_DEVICE) {
            return status;
        }
    }
}

static pleat_status_t pleated_supply(pleat_allocator_t *allocator, pleat_request_t *request,
                                     pleat_block_t **block_out)
{
    allocator->now_ns = pleat_vmm_clock_ns(allocator->vmm);
    allocator->request_count++;
    pleat_pleated_release_idle(allocator);
    const uint64_t live_peak_bytes = allocator->live_peak_bytes;
    pleat_status_t status = pleated_find(allocator, request, pleated_find_large, block_out);
    if (status == PLEAT_OK && *block_out == NULL) {
        status = pleated_find(allocator, request, pleated_exceed, block_out);
        if (status == PLEAT_ERR_OOM_DEVICE) {
            status = pleated_retry(allocator, request, block_out);
        }
    }
    if (status != PLEAT_OK) {
        allocator->live_peak_bytes = live_peak_bytes; /* it never came to that */
    }
    return status;
}

/* What is found is cut already, but for small blocks and those of plain segments. */
static bool pleated_should_split(const pleat_allocator_t *allocator, const pleat_block_t *block,
                                 const pleat_request_t *request)
{
    (void)allocator;
    return block->bytes - request->bytes >= PLEAT_BLOCK_UNIT_BYTES;
}

const pleat_backing_ops_t *pleat_backing_pleated(void)
{
    static const pleat_backing_ops_t ops = {
        .name = "pleated",
        .supply_block_count = 8,
        .choose = pleated_choose,
        .supply = pleated_supply,
        .prepare_single = pleated_prepare_single,
        .should_split = pleated_should_split,
    };
    return &ops;
}
