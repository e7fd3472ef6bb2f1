/*
 * serve: search, grow, reclaim, split, hand out.
 */
#include "serve.h"

#include "last_oom.h"
#include "range.h"
#include "retire.h"

/* The steps of every request have one copy of code in pleat_serve and one for their rare callers.
 */
#define SERVE_HOT static inline __attribute__((always_inline))

/* In place: a struct of this size is not copied for nothing. */
SERVE_HOT void serve_fill_request(pleat_allocator_t *allocator, uint64_t requested_bytes,
                                  pleat_stream_t stream, pleat_request_t *request)
{
    const uint64_t bytes = pleat_size_round(&allocator->options, requested_bytes);
    *request = (pleat_request_t){
        .requested_bytes = requested_bytes,
        .bytes = bytes,
        .segment_bytes = pleat_size_segment(&allocator->options, bytes),
        .stream = stream,
        .pool = pleat_size_is_small(bytes) ? &allocator->small_pool : &allocator->large_pool,
        .backing = allocator->backing,
    };
    if (__builtin_expect(pleat_allocator_is_redirecting(allocator), 0)) {
        pleat_private_pool_redirect(allocator, request);
    }
}

pleat_request_t pleat_serve_request(pleat_allocator_t *allocator, uint64_t requested_bytes,
                                    pleat_stream_t stream)
{
    pleat_request_t request;
    serve_fill_request(allocator, requested_bytes, stream, &request);
    return request;
}

pleat_block_t *pleat_serve_find(pleat_allocator_t *allocator, const pleat_request_t *request)
{
    pleat_block_t *block =
        request->bins != NULL
            ? pleat_free_bins_find(request->bins, request->bytes)
            : pleat_free_set_find(&request->pool->free_blocks, request->stream, request->bytes);
    if (block != NULL && !pleat_block_is_plain(block)) {
        block = request->backing->choose(allocator, request, block);
    }
    if (block == NULL || !pleat_pool_may_serve(&allocator->options, block, request->bytes)) {
        return NULL;
    }
    return block;
}

SERVE_HOT pleat_status_t serve_reserve(pleat_allocator_t *allocator, pleat_request_t *request)
{
    const size_t block_count = request->backing->supply_block_count + 1; /* one to split off */
    request->bins = pleat_free_set_reserve(&request->pool->free_blocks, request->stream);
    if (request->bins == NULL || !pleat_block_store_reserve(&allocator->blocks, block_count) ||
        !pleat_address_map_reserve(&allocator->live)) {
        pleat_error_set("no host memory for the record of an allocation of %llu bytes",
                        (unsigned long long)request->requested_bytes);
        return PLEAT_ERR_OOM_HOST;
    }
    return PLEAT_OK;
}

pleat_status_t pleat_serve_reserve(pleat_allocator_t *allocator, pleat_request_t *request)
{
    return serve_reserve(allocator, request);
}

SERVE_HOT pleat_block_t *serve_search(pleat_allocator_t *allocator, const pleat_request_t *request)
{
    if (pleat_options_collects_garbage(&allocator->options)) {
        request->pool->search_count++;
    }
    pleat_block_t *block = pleat_serve_find(allocator, request);
    if (block != NULL) {
        pleat_pool_take(request->pool, block);
    }
    return block;
}

pleat_block_t *pleat_serve_search(pleat_allocator_t *allocator, const pleat_request_t *request)
{
    return serve_search(allocator, request);
}

/* Let the user free memory, without the lock, and search again if that happened. Others may do
 * anything meanwhile but end the pool, which is pinned; what was reserved may be gone. */
static pleat_status_t __attribute__((noinline))
serve_call_for_memory(pleat_allocator_t *allocator, pleat_request_t *request,
                      pleat_block_t **block_out)
{
    const pleat_free_memory_fn_t free_memory = allocator->free_memory;
    void *context = allocator->free_memory_context;
    pleat_lock_release(&allocator->lock);
    const bool is_freed = free_memory(context);
    pleat_lock_acquire(&allocator->lock);
    const pleat_status_t status = pleat_serve_reserve(allocator, request);
    if (status == PLEAT_OK && is_freed) {
        *block_out = pleat_serve_search(allocator, request);
    }
    return status;
}

static void serve_report_oom(pleat_allocator_t *allocator, const pleat_request_t *request)
{
    uint64_t free_bytes = 0;
    uint64_t total_bytes = 0;
    if (pleat_vmm_mem_info(allocator->vmm, &free_bytes, &total_bytes) != PLEAT_OK) {
        free_bytes = 0; /* the report goes out without them */
        total_bytes = 0;
    }
    pleat_allocator_trace(allocator, PLEAT_ACTION_OOM, free_bytes, request->bytes, request->stream);
    allocator->stats.num_ooms += 1;
    const pleat_oom_info_t facts = {
        .size = sizeof(pleat_oom_info_t),
        .requested_bytes = request->requested_bytes,
        .attempted_bytes = request->segment_bytes,
        .device_free_bytes = free_bytes,
        .device_total_bytes = total_bytes,
        .limit_bytes = allocator->options.limit_bytes,
        .allocated_bytes = (uint64_t)allocator->stats.allocated_bytes[PLEAT_STAT_ALL].current,
        .reserved_bytes = (uint64_t)allocator->stats.reserved_bytes[PLEAT_STAT_ALL].current,
        .private_free_bytes = pleat_private_pools_free_bytes(allocator),
        .stream = request->stream,
    };
    pleat_last_oom_keep(allocator, &facts);
    pleat_error_set("out of device memory: %llu bytes were requested, %llu asked of the device, "
                    "which has %llu of %llu free; %llu are allocated, %llu reserved",
                    (unsigned long long)request->requested_bytes,
                    (unsigned long long)request->segment_bytes, (unsigned long long)free_bytes,
                    (unsigned long long)total_bytes, (unsigned long long)facts.allocated_bytes,
                    (unsigned long long)facts.reserved_bytes);
}

/* The split counters of a plain segment or a slab: the request took @p taken_bytes of a free block,
 * of which @p rest_bytes are left (0: it took all). Ranges of torch_expandable do not count, as in
 * PyTorch; arenas of pleated mode count for themselves. What is split here shares its chunk with
 * what is in use, so it cannot go back. */
SERVE_HOT void serve_count_split(pleat_allocator_t *allocator, pleat_stat_kind_t kind,
                                 bool was_split, uint64_t taken_bytes, uint64_t rest_bytes)
{
    pleat_stats_t *stats = &allocator->stats;
    stats->unreturnable_bytes += was_split ? -(int64_t)taken_bytes : (int64_t)rest_bytes;
    if (was_split) {
        pleat_stats_decrease(stats->inactive_split_bytes, kind, taken_bytes);
        if (rest_bytes == 0) {
            pleat_stats_decrease(stats->inactive_split, kind, 1);
        }
    } else if (rest_bytes > 0) {
        pleat_stats_increase(stats->inactive_split_bytes, kind, rest_bytes);
        pleat_stats_increase(stats->inactive_split, kind, 1);
    }
}

/* A range: what could not go back of the free block of @p free_bytes that @p block is the start of,
 * and what cannot of its rest. */
static void __attribute__((noinline))
serve_count_range(pleat_allocator_t *allocator, const pleat_block_t *block, uint64_t free_bytes)
{
    const pleat_range_t *range = block->range;
    const uint64_t before = pleat_range_pinned_bytes(range, block->address, free_bytes);
    const uint64_t after =
        pleat_range_pinned_bytes(range, block->address + block->bytes, free_bytes - block->bytes);
    allocator->stats.unreturnable_bytes += (int64_t)after - (int64_t)before;
}

/* What the request leaves of the block to others. */
SERVE_HOT uint64_t serve_rest_bytes(const pleat_allocator_t *allocator,
                                    const pleat_request_t *request, const pleat_block_t *block)
{
    const uint64_t rest_bytes = block->bytes - request->bytes;
    return rest_bytes == 0 || request->pool->keeps_whole ||
                   !request->backing->should_split(allocator, block, request)
               ? 0
               : rest_bytes;
}

/* Cut @p rest_bytes off the high end of a block, which stay free; 0: it is taken whole. */
SERVE_HOT pleat_block_t *serve_split(pleat_allocator_t *allocator, const pleat_request_t *request,
                                     pleat_block_t *block, uint64_t rest_bytes)
{
    const bool was_split = pleat_block_is_split(block);
    const bool counts_splits = pleat_block_is_plain(block) || block->slab != NULL;
    if (rest_bytes > 0) {
        pleat_block_t *rest = block;
        block = pleat_block_store_take(&allocator->blocks);
        pleat_block_split(rest, request->bytes, block);
        pleat_pool_give(request->pool, rest);
    }
    if (counts_splits) {
        serve_count_split(allocator, request->pool->kind, was_split, block->bytes, rest_bytes);
    } else if (block->range != NULL) {
        serve_count_range(allocator, block, block->bytes + rest_bytes);
    }
    return block;
}

SERVE_HOT void serve_hand_out(pleat_allocator_t *allocator, const pleat_request_t *request,
                              pleat_block_t *block)
{
    const pleat_stat_kind_t kind = request->pool->kind;
    PLEAT_ASSERT(block->bytes >= request->bytes);
    PLEAT_ASSERT(block->stream == request->stream);
    block->use = PLEAT_BLOCK_USE_LIVE;
    block->requested_bytes = request->requested_bytes;
    pleat_address_map_insert(&allocator->live, block);
    pleat_allocator_trace(allocator, PLEAT_ACTION_ALLOC, block->address, request->requested_bytes,
                          block->stream);
    pleat_stats_t *stats = &allocator->stats;
    pleat_stats_increase(stats->allocation, kind, 1);
    pleat_stats_increase(stats->allocated_bytes, kind, block->bytes);
    pleat_stats_increase(stats->active, kind, 1);
    pleat_stats_increase(stats->active_bytes, kind, block->bytes);
    pleat_stats_increase(stats->requested_bytes, kind, request->requested_bytes);
    if (block->bytes >= allocator->options.max_split_bytes) {
        pleat_stat_increase(&stats->oversize_allocations, 1);
    }
}

pleat_block_t *pleat_serve_place(pleat_allocator_t *allocator, const pleat_request_t *request,
                                 pleat_block_t *block)
{
    block = serve_split(allocator, request, block, block->bytes - request->bytes);
    serve_hand_out(allocator, request, block);
    return block;
}

/* No free block serves the request. Its pool is pinned: the lock may be given up on the way. */
static pleat_status_t serve_miss(pleat_allocator_t *allocator, pleat_request_t *request,
                                 pleat_block_t **block_out)
{
    pleat_status_t status = PLEAT_OK;
    pleat_private_pool_t *owner = request->pool->owner;
    pleat_private_pool_pin(owner);
    if (request->backing->reuse != NULL) {
        status = request->backing->reuse(allocator, request, block_out);
    }
    if (status == PLEAT_OK && *block_out == NULL && allocator->free_memory != NULL) {
        status = serve_call_for_memory(allocator, request, block_out);
    }
    if (status == PLEAT_OK && *block_out == NULL) {
        status = request->backing->supply(allocator, request, block_out);
    }
    pleat_private_pool_unpin(owner);
    if (status == PLEAT_ERR_OOM_DEVICE) {
        serve_report_oom(allocator, request);
    }
    return status;
}

pleat_status_t pleat_serve(pleat_allocator_t *allocator, uint64_t requested_bytes,
                           pleat_stream_t stream, bool is_single, pleat_devptr_t *ptr_out)
{
    pleat_request_t request;
    serve_fill_request(allocator, requested_bytes, stream, &request);
    pleat_status_t status = PLEAT_OK;
    if (is_single && request.backing->prepare_single != NULL) {
        status = request.backing->prepare_single(allocator, &request);
    }
    if (status == PLEAT_OK) {
        status = serve_reserve(allocator, &request);
    }
    if (status == PLEAT_OK) {
        status = pleat_retire_poll_for(allocator, stream);
    }
    if (status != PLEAT_OK) {
        return status;
    }
    pleat_block_t *block = serve_search(allocator, &request);
    if (block == NULL) {
        status = serve_miss(allocator, &request, &block);
        if (status != PLEAT_OK) {
            return status;
        }
    }
    block = serve_split(allocator, &request, block, serve_rest_bytes(allocator, &request, block));
    serve_hand_out(allocator, &request, block);
    *ptr_out = block->address;
    return PLEAT_OK;
}
