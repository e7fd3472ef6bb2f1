/*
 * reference: requests, and memory that is given back, by lists and loops.
 */
#include "reference_parts.h"

#include <stdlib.h>

#define MIB (UINT64_C(1) << 20)

/* ---- sizes ---- */

static uint64_t round_size(const reference_t *reference, uint64_t bytes)
{
    if (bytes < 512) {
        return 512;
    }
    uint64_t floor2 = 1;
    unsigned log2 = 0;
    while (floor2 <= bytes / 2) {
        floor2 *= 2;
        log2++;
    }
    unsigned index = log2 > 20 ? log2 - 20 : 0;
    index = index > 15 ? 15 : index;
    const uint64_t divisions = reference->options.roundup_power2_divisions[index];
    if (divisions > 1 && bytes > 512 * divisions) {
        if (floor2 == bytes) {
            return bytes;
        }
        const uint64_t step = floor2 / divisions;
        const uint64_t base = bytes - bytes % step;
        return base == bytes ? base : base + step;
    }
    return (bytes + 511) / 512 * 512;
}

static uint64_t segment_size(const reference_t *reference, uint64_t bytes)
{
    if (bytes <= MIB) {
        return 2 * MIB;
    }
    if (bytes < 10 * MIB) {
        return reference->options.large_segment_bytes;
    }
    return (bytes + 2 * MIB - 1) / (2 * MIB) * (2 * MIB);
}

static bool collects_garbage(const reference_t *reference)
{
    return reference->options.limit_bytes != PLEAT_NO_LIMIT &&
           reference->options.garbage_collection_threshold > 0;
}

/* ---- giving back ---- */

static pleat_status_t release(reference_t *reference, reference_block_t *block)
{
    const pleat_status_t status = reference_device_call(reference, PLEAT_VMM_CALL_MEM_FREE);
    if (status != PLEAT_OK) {
        return status;
    }
    reference_set_all_done(reference);
    reference->device.used_bytes -= block->bytes;
    reference->held_bytes -= block->bytes;
    reference->stats.num_device_free++;
    reference_act(reference, PLEAT_ACTION_SEGMENT_FREE, block->address, block->bytes,
                  block->stream);
    reference_count_both(reference->stats.segment, block->is_small, -1);
    reference_count_both(reference->stats.reserved_bytes, block->is_small, -(int64_t)block->bytes);
    if (block->bytes >= reference->options.max_split_bytes) {
        reference_count(&reference->stats.oversize_segments, -1);
    }
    reference_remove_block(reference, block);
    return PLEAT_OK;
}

static pleat_status_t release_pool(reference_t *reference, bool is_small)
{
    size_t count = 0;
    reference_block_t **list = reference_sort_free(reference, is_small, &count);
    pleat_status_t status = PLEAT_OK;
    for (size_t i = 0; i < count && status == PLEAT_OK; i++) {
        if (!reference_is_part(reference, list[i])) {
            status = release(reference, list[i]);
        }
    }
    free((void *)list);
    return status;
}

pleat_status_t reference_empty(reference_t *reference)
{
    reference->stats.num_sync_all_streams++;
    pleat_status_t status = reference_process_waits(reference, true);
    if (status == PLEAT_OK) {
        status = release_pool(reference, false);
    }
    if (status == PLEAT_OK) {
        status = release_pool(reference, true);
    }
    return status;
}

static int32_t age_of(const reference_t *reference, const reference_block_t *block)
{
    return (int32_t)(reference->searches[0] - block->searches);
}

/* One pass of the collector over the list; released entries become NULL. */
static pleat_status_t collect_pass(reference_t *reference, reference_block_t **list, size_t count,
                                   double average, uint64_t *released_bytes)
{
    for (size_t i = 0; i < count; i++) {
        if (list[i] == NULL || reference_is_part(reference, list[i]) ||
            (double)age_of(reference, list[i]) < average) {
            continue;
        }
        const uint64_t bytes = list[i]->bytes;
        const pleat_status_t status = release(reference, list[i]);
        if (status != PLEAT_OK) {
            return status;
        }
        *released_bytes += bytes;
        list[i] = NULL;
    }
    return PLEAT_OK;
}

static pleat_status_t collect_garbage(reference_t *reference)
{
    const uint64_t threshold = (uint64_t)(reference->options.garbage_collection_threshold *
                                          (double)reference->options.limit_bytes);
    if (reference->held_bytes <= threshold) {
        return PLEAT_OK;
    }
    const uint64_t target = reference->held_bytes - threshold;
    size_t count = 0;
    reference_block_t **list = reference_sort_free(reference, false, &count);
    pleat_status_t status = PLEAT_OK;
    uint64_t released = 0;
    bool has_progress = true;
    while (status == PLEAT_OK && released < target && has_progress) {
        double total = 0;
        size_t whole = 0;
        for (size_t i = 0; i < count; i++) {
            if (list[i] != NULL && !reference_is_part(reference, list[i])) {
                total += age_of(reference, list[i]);
                whole++;
            }
        }
        if (whole == 0) {
            break;
        }
        const uint64_t before = released;
        status = collect_pass(reference, list, count, total / (double)whole, &released);
        has_progress = released > before;
    }
    free((void *)list);
    return status;
}

/* Release-available: was enough released? */
static pleat_status_t release_available(reference_t *reference, bool is_small, uint64_t bytes,
                                        pleat_stream_t stream, bool *is_enough_out)
{
    const uint64_t max_split = reference->options.max_split_bytes;
    *is_enough_out = false;
    if (max_split == PLEAT_UNLIMITED) {
        return PLEAT_OK;
    }
    const uint64_t wanted = bytes > max_split ? bytes : max_split;
    size_t count = 0;
    reference_block_t **list = reference_sort_free(reference, is_small, &count);
    size_t i = 0;
    while (i < count &&
           (list[i]->stream < stream || (list[i]->stream == stream && list[i]->bytes < wanted))) {
        i++;
    }
    pleat_status_t status = PLEAT_OK;
    if (i < count && list[i]->stream == stream && !reference_is_part(reference, list[i])) {
        status = release(reference, list[i]);
        *is_enough_out = status == PLEAT_OK;
        free((void *)list);
        return status;
    }
    uint64_t released = 0;
    while (i > 0 && released < wanted && list[i - 1]->stream == stream &&
           list[i - 1]->bytes >= max_split && status == PLEAT_OK) {
        reference_block_t *block = list[--i];
        const uint64_t block_bytes = block->bytes;
        if (!reference_is_part(reference, block)) {
            status = release(reference, block);
            released += block_bytes;
        }
    }
    free((void *)list);
    *is_enough_out = status == PLEAT_OK && released >= wanted;
    return status;
}

/* ---- alloc ---- */

typedef struct request {
    uint64_t requested_bytes;
    uint64_t bytes;
    uint64_t segment_bytes;
    pleat_stream_t stream;
    bool is_small;
} request_t;

static reference_block_t *search(reference_t *reference, const request_t *request)
{
    if (collects_garbage(reference)) {
        reference->searches[request->is_small]++;
    }
    reference_block_t *best = NULL;
    for (size_t i = 0; i < reference->block_count; i++) {
        reference_block_t *block = reference->blocks[i];
        if (!block->is_free || block->is_small != request->is_small ||
            block->stream != request->stream || block->bytes < request->bytes) {
            continue;
        }
        if (best == NULL || block->bytes < best->bytes ||
            (block->bytes == best->bytes && block->address < best->address)) {
            best = block;
        }
    }
    if (best == NULL) {
        return NULL;
    }
    const uint64_t max_split = reference->options.max_split_bytes;
    const uint64_t rounding = reference->options.max_non_split_rounding_bytes != 0
                                  ? reference->options.max_non_split_rounding_bytes
                                  : reference->options.large_segment_bytes;
    if (request->bytes < max_split && best->bytes >= max_split) {
        return NULL;
    }
    if (request->bytes >= max_split && best->bytes >= request->bytes + rounding) {
        return NULL;
    }
    best->is_free = false;
    return best;
}

static pleat_status_t grow(reference_t *reference, const request_t *request,
                           reference_block_t **block_out)
{
    const uint64_t bytes = request->segment_bytes;
    if (reference->options.limit_bytes != PLEAT_NO_LIMIT &&
        reference->held_bytes + bytes > reference->options.limit_bytes) {
        return PLEAT_ERR_OOM_DEVICE;
    }
    const pleat_status_t status = reference_device_call(reference, PLEAT_VMM_CALL_MEM_ALLOC);
    if (status != PLEAT_OK) {
        return status;
    }
    if (bytes > reference->device.capacity_bytes - reference->device.used_bytes) {
        return PLEAT_ERR_OOM_DEVICE;
    }
    reference->device.used_bytes += bytes;
    reference->held_bytes += bytes;
    /* Without an address from the device the actions differ, which the comparison finds. */
    const uint64_t address = reference->fresh_used < reference->fresh_count
                                 ? reference->fresh[reference->fresh_used++]
                                 : 512;
    *block_out =
        reference_add_block(reference, &(reference_block_t){.address = address,
                                                            .bytes = bytes,
                                                            .segment = address,
                                                            .stream = request->stream,
                                                            .is_small = request->is_small});
    reference_count_both(reference->stats.segment, request->is_small, 1);
    reference_count_both(reference->stats.reserved_bytes, request->is_small, (int64_t)bytes);
    if (bytes >= reference->options.max_split_bytes) {
        reference_count(&reference->stats.oversize_segments, 1);
    }
    reference->stats.num_device_alloc++;
    reference_act(reference, PLEAT_ACTION_SEGMENT_ALLOC, address, bytes, request->stream);
    return PLEAT_OK;
}

static pleat_status_t miss(reference_t *reference, const request_t *request,
                           reference_block_t **block_out)
{
    pleat_status_t status = PLEAT_OK;
    if (collects_garbage(reference)) {
        status = collect_garbage(reference);
        if (status != PLEAT_OK) {
            return status;
        }
    }
    status = grow(reference, request, block_out);
    if (status != PLEAT_ERR_OOM_DEVICE) {
        return status;
    }
    bool is_enough = false;
    status = release_available(reference, request->is_small, request->bytes, request->stream,
                               &is_enough);
    if (status != PLEAT_OK) {
        return status;
    }
    if (is_enough) {
        status = grow(reference, request, block_out);
        if (status != PLEAT_ERR_OOM_DEVICE) {
            return status;
        }
    }
    status = reference_empty(reference);
    if (status != PLEAT_OK) {
        return status;
    }
    reference->stats.num_alloc_retries++;
    status = grow(reference, request, block_out);
    if (status == PLEAT_ERR_OOM_DEVICE) {
        const bool is_told = reference_device_call(reference, PLEAT_VMM_CALL_MEM_INFO) == PLEAT_OK;
        const uint64_t free_bytes = reference->device.capacity_bytes - reference->device.used_bytes;
        reference_act(reference, PLEAT_ACTION_OOM, is_told ? free_bytes : 0, request->bytes,
                      request->stream);
        reference->stats.num_ooms++;
    }
    return status;
}

static reference_block_t *split(reference_t *reference, const request_t *request,
                                reference_block_t *block)
{
    pleat_stats_t *stats = &reference->stats;
    const bool was_part = reference_is_part(reference, block);
    const uint64_t rest_bytes = block->bytes - request->bytes;
    const bool is_split =
        request->is_small ? rest_bytes >= 512
                          : request->bytes < reference->options.max_split_bytes && rest_bytes > MIB;
    if (!is_split) {
        if (was_part) {
            reference_count_both(stats->inactive_split, request->is_small, -1);
            reference_count_both(stats->inactive_split_bytes, request->is_small,
                                 -(int64_t)block->bytes);
        }
        return block;
    }
    reference_block_t low = *block;
    low.bytes = request->bytes;
    block->address += request->bytes;
    block->bytes = rest_bytes;
    reference_make_free(reference, block);
    if (was_part) {
        reference_count_both(stats->inactive_split_bytes, request->is_small,
                             -(int64_t)request->bytes);
    } else {
        reference_count_both(stats->inactive_split, request->is_small, 1);
        reference_count_both(stats->inactive_split_bytes, request->is_small, (int64_t)rest_bytes);
    }
    return reference_add_block(reference, &low);
}

pleat_status_t reference_alloc(reference_t *reference, uint64_t bytes, pleat_stream_t stream,
                               uint64_t *address_out)
{
    if (bytes == 0) {
        *address_out = 0;
        return PLEAT_OK;
    }
    if (bytes >= UINT64_C(1) << 60) {
        return PLEAT_ERR_TOO_LARGE;
    }
    request_t request = {.requested_bytes = bytes, .stream = stream};
    request.bytes = round_size(reference, bytes);
    request.segment_bytes = segment_size(reference, request.bytes);
    request.is_small = request.bytes <= MIB;
    pleat_status_t status = reference_process_waits(reference, false);
    if (status != PLEAT_OK) {
        return status;
    }
    reference_block_t *block = search(reference, &request);
    if (block == NULL) {
        status = miss(reference, &request, &block);
        if (status != PLEAT_OK) {
            return status;
        }
    }
    block = split(reference, &request, block);
    block->is_free = false;
    block->is_live = true;
    block->requested_bytes = bytes;
    reference_act(reference, PLEAT_ACTION_ALLOC, block->address, bytes, stream);
    pleat_stats_t *stats = &reference->stats;
    reference_count_both(stats->allocation, request.is_small, 1);
    reference_count_both(stats->allocated_bytes, request.is_small, (int64_t)block->bytes);
    reference_count_both(stats->active, request.is_small, 1);
    reference_count_both(stats->active_bytes, request.is_small, (int64_t)block->bytes);
    reference_count_both(stats->requested_bytes, request.is_small, (int64_t)bytes);
    if (block->bytes >= reference->options.max_split_bytes) {
        reference_count(&stats->oversize_allocations, 1);
    }
    *address_out = block->address;
    return PLEAT_OK;
}
