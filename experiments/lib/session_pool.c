/*
 * session_pool: see session_pool.h. A pool is number (0, POOL) of the engine.
 */
#include "session_pool.h"

#include <pleat/private_pool.h>

#include <stdlib.h>

#include "../../core/allocator.h"

static pleat_pool_id_t pool_id(uint64_t pool)
{
    return (pleat_pool_id_t){.first = 0, .second = pool};
}

/* ---- orders ---- */

/* Addresses of the blocks that ids of a line name. */
static void pool_addresses(const pleat_session_run_t *run, pleat_session_range_t ids,
                           pleat_devptr_t *addresses)
{
    for (uint32_t i = 0; i < ids.count; i++) {
        addresses[i] = run->addresses[run->session->numbers[ids.first + i]];
    }
}

static pleat_status_t pool_set_freeable(pleat_session_run_t *run, pleat_session_range_t pools)
{
    pleat_pool_id_t *ids = calloc((size_t)pools.count + 1, sizeof(*ids));
    if (ids == NULL) {
        return PLEAT_ERR_OOM_HOST;
    }
    for (uint32_t i = 0; i < pools.count; i++) {
        ids[i] = pool_id(run->session->numbers[pools.first + i]);
    }
    const pleat_status_t status =
        pleat_allocator_set_freeable_order(run->allocator, ids, pools.count);
    free(ids);
    return status;
}

static pleat_status_t pool_set_deferred(pleat_session_run_t *run, const pleat_session_call_t *call)
{
    /* ` stale` names some of ` deferred`. */
    const size_t room = (size_t)call->deferred.count + call->stale.count + 1;
    pleat_devptr_t *addresses = calloc(room, sizeof(*addresses));
    if (addresses == NULL) {
        return PLEAT_ERR_OOM_HOST;
    }
    pool_addresses(run, call->deferred, addresses);
    pleat_status_t status =
        pleat_allocator_set_deferred_order(run->allocator, addresses, call->deferred.count);
    if (status == PLEAT_OK) {
        pool_addresses(run, call->stale, addresses);
        status = pleat_allocator_set_stale(run->allocator, addresses, call->stale.count);
    }
    free(addresses);
    return status;
}

static pleat_status_t pool_set_orders(pleat_session_run_t *run, const pleat_session_call_t *call)
{
    const bool has_orders =
        call->deferred.count > 0 || call->stale.count > 0 || call->freeable.count > 0;
    if (!has_orders && !run->has_orders) {
        return PLEAT_OK;
    }
    run->has_orders = has_orders;
    const pleat_status_t status = pool_set_deferred(run, call);
    return status != PLEAT_OK ? status : pool_set_freeable(run, call->freeable);
}

/* ---- overflow pools ---- */

static pleat_status_t pool_note_overflow(pleat_session_run_t *run, uint64_t pool)
{
    if (run->overflow_count == run->overflow_capacity) {
        const size_t capacity = run->overflow_capacity == 0 ? 8 : 2 * run->overflow_capacity;
        uint64_t *pools = realloc(run->overflow_pools, capacity * sizeof(*pools));
        if (pools == NULL) {
            return PLEAT_ERR_OOM_HOST;
        }
        run->overflow_pools = pools;
        run->overflow_capacity = capacity;
    }
    run->overflow_pools[run->overflow_count++] = pool;
    return PLEAT_OK;
}

static void pool_forget_overflow(pleat_session_run_t *run, uint64_t pool)
{
    for (size_t i = 0; i < run->overflow_count; i++) {
        if (run->overflow_pools[i] == pool) {
            run->overflow_pools[i] = run->overflow_pools[--run->overflow_count];
            return;
        }
    }
}

/* Switch all overflow pools but one off, or on again. */
static pleat_status_t pool_switch_others(pleat_session_run_t *run, uint64_t only, bool is_on)
{
    pleat_status_t status = PLEAT_OK;
    for (size_t i = 0; i < run->overflow_count && status == PLEAT_OK; i++) {
        if (run->overflow_pools[i] != only) {
            status =
                pleat_pool_set_overflow(run->allocator, pool_id(run->overflow_pools[i]), is_on);
        }
    }
    return status;
}

/* The overflow pool that an address lies in, 0 for none. */
static uint64_t pool_find_overflow(const pleat_session_run_t *run, const pleat_snapshot_t *snapshot,
                                   pleat_devptr_t address)
{
    for (uint64_t i = 0; i < snapshot->segment_count; i++) {
        const pleat_segment_info_t *segment = &snapshot->segments[i];
        if (address < segment->address || address - segment->address >= segment->total_bytes) {
            continue;
        }
        for (size_t k = 0; k < run->overflow_count; k++) {
            if (run->overflow_pools[k] == segment->pool.second) {
                return run->overflow_pools[k];
            }
        }
    }
    return 0;
}

static pleat_status_t pool_choose_overflow(pleat_session_run_t *run,
                                           const pleat_session_call_t *call)
{
    if (!run->session->is_recording || run->overflow_count < 2 || !call->has_address ||
        run->request_pools[call - run->session->calls] != 0) {
        return PLEAT_OK;
    }
    pleat_snapshot_t *snapshot = NULL;
    const pleat_status_t status = pleat_snapshot_take(run->allocator, &snapshot);
    if (status != PLEAT_OK) {
        return status;
    }
    run->overflow_only = pool_find_overflow(run, snapshot, call->address);
    pleat_snapshot_destroy(snapshot);
    return run->overflow_only == 0 ? PLEAT_OK : pool_switch_others(run, run->overflow_only, false);
}

pleat_status_t pleat_session_pool_prepare(pleat_session_run_t *run,
                                          const pleat_session_call_t *call)
{
    const pleat_status_t status = pool_set_orders(run, call);
    return status != PLEAT_OK ? status : pool_choose_overflow(run, call);
}

pleat_status_t pleat_session_pool_finish(pleat_session_run_t *run)
{
    const uint64_t only = run->overflow_only;
    run->overflow_only = 0;
    return only == 0 ? PLEAT_OK : pool_switch_others(run, only, true);
}

/* ---- calls ---- */

static pleat_status_t pool_create(pleat_session_run_t *run, const pleat_session_call_t *call)
{
    const pleat_pool_id_t id = pool_id(call->pool);
    pleat_status_t status = pleat_pool_acquire(run->allocator, id, NULL);
    if (status == PLEAT_OK && call->use_on_oom) {
        status = pleat_pool_set_overflow(run->allocator, id, true);
        status = status == PLEAT_OK ? pool_note_overflow(run, call->pool) : status;
    }
    if (status == PLEAT_OK && call->no_split) {
        status = pleat_pool_set_no_split(run->allocator, id);
    }
    return status;
}

/* The filter of `thread`: a session is one thread, so every request passes. */
static bool pool_filter(void *context, pleat_stream_t stream)
{
    (void)context;
    (void)stream;
    return true;
}

/* What ends with the last reference to torch.cuda.MemPool. */
static pleat_status_t pool_delete(pleat_session_run_t *run, const pleat_session_call_t *call)
{
    const pleat_pool_id_t id = pool_id(call->pool);
    pool_forget_overflow(run, call->pool);
    pleat_status_t status = pleat_pool_set_overflow(run->allocator, id, false);
    if (status == PLEAT_OK) {
        status = pleat_pool_release(run->allocator, id);
    }
    return status != PLEAT_OK ? status : pleat_pool_empty(run->allocator, id);
}

pleat_status_t pleat_session_pool_perform(pleat_session_run_t *run,
                                          const pleat_session_call_t *call)
{
    const pleat_pool_id_t id = pool_id(call->pool);
    if (call->kind == PLEAT_SESSION_POOL_CREATE) {
        return pool_create(run, call);
    }
    if (call->kind == PLEAT_SESSION_POOL_BEGIN) {
        return pleat_pool_begin(run->allocator, id, call->all_threads ? NULL : pool_filter, NULL);
    }
    if (call->kind == PLEAT_SESSION_POOL_END) {
        return pleat_pool_end(run->allocator, id);
    }
    return call->kind == PLEAT_SESSION_POOL_RELEASE ? pleat_pool_release(run->allocator, id)
                                                    : pool_delete(run, call);
}
