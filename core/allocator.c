/*
 * allocator: the public calls: check arguments, take the lock, let the modules work, unlock.
 */
#include "allocator.h"

#include <stdlib.h>
#include <string.h>

#include "deferred.h"
#include "last_oom.h"
#include "reclaim.h"
#include "retire.h"
#include "serve.h"

/* Complain about a missing argument of a public call. */
static pleat_status_t allocator_refuse_null(const char *function, const char *argument)
{
    pleat_error_set("%s: %s is NULL", function, argument);
    return PLEAT_ERR_INVALID;
}

/* Expandable ranges need a device with virtual memory. */
static pleat_status_t allocator_check_mode(const pleat_vmm_t *vmm, pleat_mode_t mode)
{
    if (mode == PLEAT_MODE_CLASSIC || pleat_vmm_has_mapping(vmm)) {
        return PLEAT_OK;
    }
    pleat_error_set("mode %s needs virtual memory, which device '%s' does not have",
                    pleat_mode_name(mode), pleat_vmm_name(vmm));
    return PLEAT_ERR_UNSUPPORTED;
}

/* ---- life ---- */

pleat_status_t pleat_allocator_create(const pleat_options_t *options, pleat_vmm_t *vmm,
                                      pleat_allocator_t **allocator_out)
{
    if (vmm == NULL || allocator_out == NULL) {
        return allocator_refuse_null(__func__, vmm == NULL ? "vmm" : "allocator_out");
    }
    pleat_options_t checked = PLEAT_OPTIONS_INIT;
    pleat_status_t status = pleat_options_read(options, &checked);
    if (status == PLEAT_OK) {
        status = allocator_check_mode(vmm, checked.mode);
    }
    if (status != PLEAT_OK) {
        return status;
    }
    pleat_allocator_t *allocator = calloc(1, sizeof(*allocator));
    if (allocator == NULL) {
        pleat_error_set("no host memory for an allocator");
        return PLEAT_ERR_OOM_HOST;
    }
    allocator->vmm = vmm;
    allocator->backing = pleat_backing_of(checked.mode);
    allocator->options = checked;
    allocator->stats.size = sizeof(allocator->stats);
    allocator->stats.max_split_bytes = (int64_t)checked.max_split_bytes;
    allocator->large_pool.kind = PLEAT_STAT_LARGE_POOL;
    allocator->small_pool.kind = PLEAT_STAT_SMALL_POOL;
    pleat_last_oom_init(allocator);
    pleat_waiting_init(&allocator->waiting, vmm);
    if (pleat_vmm_has_mapping(vmm)) {
        status = pleat_vmm_granularity(vmm, &allocator->granularity_bytes);
        if (status != PLEAT_OK) {
            free(allocator);
            return status;
        }
    }
    *allocator_out = allocator;
    return PLEAT_OK;
}

void pleat_allocator_destroy(pleat_allocator_t *allocator)
{
    if (allocator == NULL) {
        return;
    }
    pleat_private_pools_close(&allocator->private_pools);
    if (pleat_retire_synchronize(allocator) != PLEAT_OK) {
        pleat_waiting_abandon(&allocator->waiting); /* the frees below wait for the device */
    }
    pleat_share_discard(allocator);
    pleat_backing_discard(allocator);
    pleat_private_pools_fini(&allocator->private_pools);
    pleat_waiting_fini(&allocator->waiting);
    pleat_pool_fini(&allocator->large_pool);
    pleat_pool_fini(&allocator->small_pool);
    pleat_address_map_fini(&allocator->live);
    pleat_block_store_fini(&allocator->blocks);
    free(allocator);
}

/* ---- memory ---- */

static pleat_status_t allocator_alloc(pleat_allocator_t *allocator, uint64_t bytes,
                                      pleat_stream_t stream, bool is_single,
                                      pleat_devptr_t *ptr_out)
{
    if (allocator == NULL || ptr_out == NULL) {
        return allocator_refuse_null("pleat_alloc", allocator == NULL ? "allocator" : "ptr_out");
    }
    if (bytes == 0) {
        *ptr_out = 0;
        return PLEAT_OK;
    }
    if (bytes >= PLEAT_REQUEST_END_BYTES) {
        pleat_error_set("a request of %llu bytes; the largest is 2^60 - 1",
                        (unsigned long long)bytes);
        return PLEAT_ERR_TOO_LARGE;
    }
    pleat_lock_acquire(&allocator->lock);
    const pleat_status_t status = pleat_serve(allocator, bytes, stream, is_single, ptr_out);
    pleat_lock_release(&allocator->lock);
    return status;
}

pleat_status_t pleat_alloc(pleat_allocator_t *allocator, uint64_t bytes, pleat_stream_t stream,
                           pleat_devptr_t *ptr_out)
{
    return allocator_alloc(allocator, bytes, stream, false, ptr_out);
}

pleat_status_t pleat_alloc_single(pleat_allocator_t *allocator, uint64_t bytes,
                                  pleat_stream_t stream, pleat_devptr_t *ptr_out)
{
    return allocator_alloc(allocator, bytes, stream, true, ptr_out);
}

/* Where the live block at exactly @p ptr hangs; NULL and an error text if there is none. */
static pleat_block_t **allocator_find(pleat_allocator_t *allocator, pleat_devptr_t ptr)
{
    pleat_block_t **link = pleat_address_map_find_link(&allocator->live, ptr);
    if (link == NULL) {
        pleat_error_set("invalid device pointer: 0x%llx; it is not the start of a live allocation",
                        (unsigned long long)ptr);
    }
    return link;
}

pleat_status_t pleat_free(pleat_allocator_t *allocator, pleat_devptr_t ptr)
{
    if (allocator == NULL) {
        return allocator_refuse_null(__func__, "allocator");
    }
    if (ptr == 0) {
        return PLEAT_OK;
    }
    pleat_lock_acquire(&allocator->lock);
    pleat_block_t **link = allocator_find(allocator, ptr);
    const pleat_status_t status =
        link == NULL ? PLEAT_ERR_INVALID_POINTER : pleat_retire_block(allocator, link);
    pleat_lock_release(&allocator->lock);
    return status;
}

/* PyTorch takes every use that is recorded during a redirection for a captured one, also one that
 * was noted before. Another thread's work may be real: pleated mode waits for all. */
static pleat_status_t allocator_note_use(pleat_allocator_t *allocator, pleat_block_t *block,
                                         pleat_stream_t stream)
{
    const pleat_wait_t *before = block->uses;
    const pleat_status_t status = pleat_waiting_note(&allocator->waiting, block, stream);
    if (status == PLEAT_OK) {
        const bool is_asked =
            allocator->options.reuse_in_capture != 0 && pleat_allocator_is_redirecting(allocator);
        pleat_capture_order_note(&allocator->waiting, block, stream, block->uses != before,
                                 is_asked);
    }
    if (status == PLEAT_OK && pleat_allocator_is_redirecting(allocator) &&
        allocator->options.mode != PLEAT_MODE_PLEATED) {
        pleat_waiting_mark_captured(block, stream);
    }
    return status;
}

pleat_status_t pleat_record_stream(pleat_allocator_t *allocator, pleat_devptr_t ptr,
                                   pleat_stream_t stream)
{
    if (allocator == NULL) {
        return allocator_refuse_null(__func__, "allocator");
    }
    if (ptr == 0) {
        return PLEAT_OK;
    }
    pleat_lock_acquire(&allocator->lock);
    pleat_block_t **link = allocator_find(allocator, ptr);
    pleat_status_t status = PLEAT_OK;
    if (link == NULL) {
        status = PLEAT_ERR_INVALID_POINTER;
    } else if ((*link)->stream != stream) {
        status = allocator_note_use(allocator, *link, stream);
    }
    pleat_lock_release(&allocator->lock);
    return status;
}

pleat_status_t pleat_empty_cache(pleat_allocator_t *allocator)
{
    if (allocator == NULL) {
        return allocator_refuse_null(__func__, "allocator");
    }
    pleat_lock_acquire(&allocator->lock);
    const pleat_status_t status = pleat_reclaim_all(allocator);
    pleat_lock_release(&allocator->lock);
    return status;
}

/* ---- options, counters ---- */

pleat_status_t pleat_set_options(pleat_allocator_t *allocator, const pleat_options_t *options)
{
    if (allocator == NULL || options == NULL) {
        return allocator_refuse_null(__func__, allocator == NULL ? "allocator" : "options");
    }
    pleat_lock_acquire(&allocator->lock);
    pleat_options_t checked = PLEAT_OPTIONS_INIT;
    pleat_status_t status = pleat_options_read(options, &checked);
    if (status == PLEAT_OK) {
        status = allocator_check_mode(allocator->vmm, checked.mode);
    }
    if (status == PLEAT_OK) {
        allocator->options = checked;
        allocator->backing = pleat_backing_of(checked.mode);
    }
    pleat_lock_release(&allocator->lock);
    return status;
}

void pleat_read_options(pleat_allocator_t *allocator, pleat_options_t *options_out)
{
    if (allocator == NULL || options_out == NULL) {
        return;
    }
    pleat_lock_acquire(&allocator->lock);
    pleat_options_write(&allocator->options, options_out);
    pleat_lock_release(&allocator->lock);
}

void pleat_read_stats(pleat_allocator_t *allocator, pleat_stats_t *stats_out)
{
    if (allocator == NULL || stats_out == NULL) {
        return;
    }
    const size_t size = stats_out->size;
    pleat_lock_acquire(&allocator->lock);
    memcpy(stats_out, &allocator->stats,
           size < sizeof(allocator->stats) ? size : sizeof(allocator->stats));
    pleat_lock_release(&allocator->lock);
    stats_out->size = size;
}

const pleat_stats_t *pleat_allocator_stats(const pleat_allocator_t *allocator)
{
    return &allocator->stats;
}

void pleat_reset_peak_stats(pleat_allocator_t *allocator)
{
    if (allocator == NULL) {
        return;
    }
    pleat_lock_acquire(&allocator->lock);
    pleat_stats_reset_peak(&allocator->stats);
    pleat_lock_release(&allocator->lock);
}

void pleat_reset_accumulated_stats(pleat_allocator_t *allocator)
{
    if (allocator == NULL) {
        return;
    }
    pleat_lock_acquire(&allocator->lock);
    pleat_stats_reset_accumulated(&allocator->stats);
    pleat_lock_release(&allocator->lock);
}

/* ---- observation ---- */

void pleat_set_observer(pleat_allocator_t *allocator, pleat_observer_fn_t observer, void *context)
{
    if (allocator == NULL) {
        return;
    }
    pleat_lock_acquire(&allocator->lock);
    allocator->observer = observer;
    allocator->observer_context = context;
    pleat_lock_release(&allocator->lock);
}

void pleat_set_free_memory_callback(pleat_allocator_t *allocator, pleat_free_memory_fn_t callback,
                                    void *context)
{
    if (allocator == NULL) {
        return;
    }
    pleat_lock_acquire(&allocator->lock);
    allocator->free_memory = callback;
    allocator->free_memory_context = context;
    pleat_lock_release(&allocator->lock);
}

const char *pleat_action_name(pleat_action_t action)
{
    static const char *const names[] = {
#define ACTION_NAME(name, text) [PLEAT_ACTION_##name] = (text),
        PLEAT_ACTION_LIST(ACTION_NAME)
#undef ACTION_NAME
    };
    return (unsigned)action < PLEAT_ACTION_COUNT ? names[action] : "unknown";
}

pleat_status_t pleat_allocator_set_stream_order(pleat_allocator_t *allocator,
                                                const pleat_stream_t *streams, size_t count)
{
    pleat_lock_acquire(&allocator->lock);
    const pleat_status_t status = pleat_waiting_set_order(&allocator->waiting, streams, count);
    pleat_lock_release(&allocator->lock);
    return status;
}

pleat_status_t pleat_allocator_set_deferred_order(pleat_allocator_t *allocator,
                                                  const pleat_devptr_t *addresses, size_t count)
{
    pleat_lock_acquire(&allocator->lock);
    const pleat_status_t status =
        pleat_deferred_set_order(&allocator->waiting.deferred, addresses, count);
    pleat_lock_release(&allocator->lock);
    return status;
}

pleat_status_t pleat_allocator_set_stale(pleat_allocator_t *allocator,
                                         const pleat_devptr_t *addresses, size_t count)
{
    pleat_lock_acquire(&allocator->lock);
    const pleat_status_t status =
        pleat_deferred_set_stale(&allocator->waiting.deferred, addresses, count);
    pleat_lock_release(&allocator->lock);
    return status;
}

void pleat_allocator_visit_waiting(pleat_allocator_t *allocator, pleat_waiting_visit_fn_t visit,
                                   void *context)
{
    pleat_lock_acquire(&allocator->lock);
    for (size_t i = 0; i < allocator->waiting.queue_count; i++) {
        const pleat_wait_queue_t *queue = allocator->waiting.queues[i];
        for (const pleat_wait_t *wait = queue->first; wait != NULL; wait = wait->next) {
            const bool is_ready = pleat_vmm_event_query(allocator->vmm, wait->event) == PLEAT_OK;
            visit(context, queue->stream, wait->block->address, is_ready);
        }
    }
    pleat_lock_release(&allocator->lock);
}

size_t pleat_allocator_visit_deferred(pleat_allocator_t *allocator, pleat_waiting_visit_fn_t visit,
                                      void *context)
{
    pleat_lock_acquire(&allocator->lock);
    const size_t complete_count = pleat_deferred_visit(&allocator->waiting, visit, context);
    pleat_lock_release(&allocator->lock);
    return complete_count;
}

bool pleat_allocator_can_hit(pleat_allocator_t *allocator, uint64_t bytes, pleat_stream_t stream)
{
    if (bytes == 0 || bytes >= PLEAT_REQUEST_END_BYTES) {
        return bytes == 0;
    }
    pleat_lock_acquire(&allocator->lock);
    const pleat_request_t request = pleat_serve_request(allocator, bytes, stream);
    const bool can_hit = pleat_serve_find(allocator, &request) != NULL;
    pleat_lock_release(&allocator->lock);
    return can_hit;
}
