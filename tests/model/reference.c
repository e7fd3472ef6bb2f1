/*
 * reference: lists and loops.
 */
#include "reference.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB (UINT64_C(1) << 20)

/* ---- storage ---- */

static void *reference_grow(void *items, size_t count, size_t *capacity, size_t item_bytes)
{
    if (count < *capacity) {
        return items;
    }
    *capacity = *capacity == 0 ? 64 : *capacity * 2;
    void *grown = realloc(items, *capacity * item_bytes);
    if (grown == NULL) {
        fputs("reference: no host memory\n", stderr);
        abort();
    }
    return grown;
}

static reference_block_t *add_block(reference_t *reference, const reference_block_t *like)
{
    reference->blocks = reference_grow((void *)reference->blocks, reference->block_count,
                                       &reference->block_capacity, sizeof(reference->blocks[0]));
    size_t one = 0;
    reference_block_t *block = reference_grow(NULL, 0, &one, sizeof(*block));
    *block = *like;
    reference->blocks[reference->block_count++] = block;
    return block;
}

static void remove_block(reference_t *reference, reference_block_t *block)
{
    size_t i = 0;
    while (reference->blocks[i] != block) {
        i++;
    }
    for (reference->block_count--; i < reference->block_count; i++) {
        reference->blocks[i] = reference->blocks[i + 1];
    }
    free(block);
}

void reference_init(reference_t *reference, uint64_t capacity_bytes, const pleat_options_t *options)
{
    memset(reference, 0, sizeof(*reference));
    reference->device.capacity_bytes = capacity_bytes;
    reference->options = *options;
    reference->stats.size = sizeof(reference->stats);
    reference->stats.max_split_bytes = (int64_t)options->max_split_bytes;
}

void reference_fini(reference_t *reference)
{
    for (size_t i = 0; i < reference->block_count; i++) {
        free(reference->blocks[i]);
    }
    free((void *)reference->blocks);
    free(reference->waits);
}

/* ---- device ---- */

void reference_set_busy(reference_t *reference, pleat_stream_t stream)
{
    reference_device_t *device = &reference->device;
    if (!device->is_busy[stream]) {
        device->is_busy[stream] = true;
        device->busy_round[stream]++;
    }
}

void reference_set_done(reference_t *reference, pleat_stream_t stream)
{
    reference->device.is_busy[stream] = false;
    reference->device.done_round[stream] = reference->device.busy_round[stream];
}

void reference_set_all_done(reference_t *reference)
{
    for (pleat_stream_t stream = 0; stream < REFERENCE_STREAMS; stream++) {
        reference_set_done(reference, stream);
    }
}

/* Does an injected fault hit this call? */
static pleat_status_t device_call(reference_t *reference, pleat_vmm_call_t call)
{
    uint64_t *countdown = &reference->device.faults[call];
    if (*countdown == 0 || --*countdown > 0) {
        return PLEAT_OK;
    }
    return reference->device.fault_status[call];
}

static bool wait_is_over(const reference_t *reference, const reference_wait_t *wait)
{
    return wait->busy_round <= reference->device.done_round[wait->stream];
}

/* ---- actions and counters ---- */

static void act(reference_t *reference, pleat_action_t action, uint64_t address, uint64_t bytes,
                pleat_stream_t stream)
{
    if (reference->action_count < REFERENCE_ACTIONS_MAX) {
        reference->actions[reference->action_count++] = (pleat_trace_entry_t){
            .action = action, .stream = stream, .address = address, .bytes = bytes};
    }
}

void reference_begin(reference_t *reference)
{
    reference->action_count = 0;
    reference->fresh_count = 0;
    reference->fresh_used = 0;
}

void reference_add_fresh(reference_t *reference, uint64_t address)
{
    if (reference->fresh_count < REFERENCE_ACTIONS_MAX) {
        reference->fresh[reference->fresh_count++] = address;
    }
}

static void count(pleat_stat_t *stat, int64_t change)
{
    stat->current += change;
    if (change > 0) {
        stat->allocated += change;
    } else {
        stat->freed -= change;
    }
    stat->peak = stat->current > stat->peak ? stat->current : stat->peak;
}

static void count_both(pleat_stat_t *stats, bool is_small, int64_t change)
{
    if (change != 0) {
        count(&stats[PLEAT_STAT_ALL], change);
        count(&stats[is_small ? PLEAT_STAT_SMALL_POOL : PLEAT_STAT_LARGE_POOL], change);
    }
}

void reference_reset_peak(reference_t *reference)
{
    pleat_stats_t *stats = &reference->stats;
#define RESET_ARRAY(name, text)                                     \
    for (unsigned kind = 0; kind < PLEAT_STAT_KIND_COUNT; kind++) { \
        stats->name[kind].peak = stats->name[kind].current;         \
    }
#define RESET_PLAIN(name, text) stats->name.peak = stats->name.current;
    PLEAT_ARRAY_STAT_LIST(RESET_ARRAY)
    PLEAT_PLAIN_STAT_LIST(RESET_PLAIN)
#undef RESET_ARRAY
#undef RESET_PLAIN
}

void reference_reset_accumulated(reference_t *reference)
{
    pleat_stats_t *stats = &reference->stats;
#define RESET_ARRAY(name, text)                                     \
    for (unsigned kind = 0; kind < PLEAT_STAT_KIND_COUNT; kind++) { \
        stats->name[kind].allocated = stats->name[kind].freed = 0;  \
    }
#define RESET_PLAIN(name, text) stats->name.allocated = stats->name.freed = 0;
    PLEAT_ARRAY_STAT_LIST(RESET_ARRAY)
    PLEAT_PLAIN_STAT_LIST(RESET_PLAIN)
#undef RESET_ARRAY
#undef RESET_PLAIN
    stats->num_alloc_retries = stats->num_ooms = stats->num_sync_all_streams = 0;
    stats->num_device_alloc = stats->num_device_free = 0;
}

/* ---- blocks ---- */

static reference_block_t *find_live(const reference_t *reference, uint64_t address)
{
    for (size_t i = 0; i < reference->block_count; i++) {
        reference_block_t *block = reference->blocks[i];
        if (block->is_live && block->address == address) {
            return block;
        }
    }
    return NULL;
}

/* The block of the same segment that ends where @p block begins. */
static reference_block_t *left_of(const reference_t *reference, const reference_block_t *block)
{
    for (size_t i = 0; i < reference->block_count; i++) {
        reference_block_t *other = reference->blocks[i];
        if (other->segment == block->segment && other->address + other->bytes == block->address) {
            return other;
        }
    }
    return NULL;
}

static reference_block_t *right_of(const reference_t *reference, const reference_block_t *block)
{
    for (size_t i = 0; i < reference->block_count; i++) {
        reference_block_t *other = reference->blocks[i];
        if (other->segment == block->segment && block->address + block->bytes == other->address) {
            return other;
        }
    }
    return NULL;
}

static bool is_part(const reference_t *reference, const reference_block_t *block)
{
    return left_of(reference, block) != NULL || right_of(reference, block) != NULL;
}

static void make_free(reference_t *reference, reference_block_t *block)
{
    block->is_free = true;
    block->searches = reference->searches[block->is_small];
}

static int compare_free(const void *a, const void *b)
{
    const reference_block_t *left = *(const reference_block_t *const *)a;
    const reference_block_t *right = *(const reference_block_t *const *)b;
    if (left->stream != right->stream) {
        return left->stream < right->stream ? -1 : 1;
    }
    if (left->bytes != right->bytes) {
        return left->bytes < right->bytes ? -1 : 1;
    }
    return (left->address > right->address) - (left->address < right->address);
}

/* The free blocks of a pool in the order of (stream, size, address); the caller frees the list. */
static reference_block_t **sort_free(const reference_t *reference, bool is_small, size_t *count_out)
{
    size_t capacity = reference->block_count;
    reference_block_t **list =
        reference_grow(NULL, reference->block_count, &capacity, sizeof(*list));
    size_t count = 0;
    for (size_t i = 0; i < reference->block_count; i++) {
        if (reference->blocks[i]->is_free && reference->blocks[i]->is_small == is_small) {
            list[count++] = reference->blocks[i];
        }
    }
    qsort((void *)list, count, sizeof(*list), compare_free);
    *count_out = count;
    return list;
}

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

/* ---- free ---- */

static void complete_free(reference_t *reference, reference_block_t *block)
{
    const int64_t bytes = (int64_t)block->bytes;
    const bool is_small = block->is_small;
    act(reference, PLEAT_ACTION_FREE_COMPLETED, block->address, block->requested_bytes,
        block->stream);
    int64_t count_change = 0;
    int64_t bytes_change = 0;
    reference_block_t *left = left_of(reference, block);
    if (left != NULL && left->is_free) {
        count_change -= 1;
        bytes_change -= (int64_t)left->bytes;
        block->address = left->address;
        block->bytes += left->bytes;
        remove_block(reference, left);
    }
    reference_block_t *right = right_of(reference, block);
    if (right != NULL && right->is_free) {
        count_change -= 1;
        bytes_change -= (int64_t)right->bytes;
        block->bytes += right->bytes;
        remove_block(reference, right);
    }
    make_free(reference, block);
    if (is_part(reference, block)) {
        count_change += 1;
        bytes_change += (int64_t)block->bytes;
    }
    pleat_stats_t *stats = &reference->stats;
    count_both(stats->inactive_split, is_small, count_change);
    count_both(stats->inactive_split_bytes, is_small, bytes_change);
    count_both(stats->active, is_small, -1);
    count_both(stats->active_bytes, is_small, -bytes);
    count_both(stats->requested_bytes, is_small, -(int64_t)block->requested_bytes);
}

static void add_wait(reference_t *reference, reference_block_t *block, pleat_stream_t stream)
{
    const reference_device_t *device = &reference->device;
    reference->waits = reference_grow(reference->waits, reference->wait_count,
                                      &reference->wait_capacity, sizeof(reference->waits[0]));
    reference->waits[reference->wait_count++] = (reference_wait_t){
        .block = block,
        .stream = stream,
        .busy_round = device->is_busy[stream] ? device->busy_round[stream] : 0,
    };
    block->event_count++;
}

pleat_status_t reference_free(reference_t *reference, uint64_t address)
{
    if (address == 0) {
        return PLEAT_OK;
    }
    reference_block_t *block = find_live(reference, address);
    if (block == NULL) {
        return PLEAT_ERR_INVALID_POINTER;
    }
    for (unsigned i = 0; i < block->use_count; i++) {
        const pleat_status_t status = device_call(reference, PLEAT_VMM_CALL_EVENT_RECORD);
        if (status != PLEAT_OK) {
            return status;
        }
    }
    block->is_live = false;
    count_both(reference->stats.allocation, block->is_small, -1);
    count_both(reference->stats.allocated_bytes, block->is_small, -(int64_t)block->bytes);
    act(reference, PLEAT_ACTION_FREE_REQUESTED, address, block->requested_bytes, block->stream);
    if (block->bytes >= reference->options.max_split_bytes) {
        count(&reference->stats.oversize_allocations, -1);
    }
    for (unsigned i = 0; i < block->use_count; i++) {
        add_wait(reference, block, block->uses[i]);
    }
    block->use_count = 0;
    if (block->event_count == 0) {
        complete_free(reference, block);
    }
    return PLEAT_OK;
}

pleat_status_t reference_record(reference_t *reference, uint64_t address, pleat_stream_t stream)
{
    if (address == 0) {
        return PLEAT_OK;
    }
    reference_block_t *block = find_live(reference, address);
    if (block == NULL) {
        return PLEAT_ERR_INVALID_POINTER;
    }
    if (block->stream == stream) {
        return PLEAT_OK;
    }
    for (unsigned i = 0; i < block->use_count; i++) {
        if (block->uses[i] == stream) {
            return PLEAT_OK;
        }
    }
    if (reference->spare_events == 0) {
        const pleat_status_t status = device_call(reference, PLEAT_VMM_CALL_EVENT_CREATE);
        if (status != PLEAT_OK) {
            return status;
        }
        reference->spare_events++;
    }
    reference->spare_events--;
    block->uses[block->use_count++] = stream;
    return PLEAT_OK;
}

/* The oldest wait of a stream; wait_count: none. */
static size_t first_wait(const reference_t *reference, pleat_stream_t stream)
{
    size_t i = 0;
    while (i < reference->wait_count && reference->waits[i].stream != stream) {
        i++;
    }
    return i;
}

static void end_wait(reference_t *reference, size_t index)
{
    reference_block_t *block = reference->waits[index].block;
    memmove(&reference->waits[index], &reference->waits[index + 1],
            (reference->wait_count - index - 1) * sizeof(reference->waits[0]));
    reference->wait_count--;
    reference->spare_events++;
    block->event_count--;
    if (block->event_count == 0) {
        complete_free(reference, block);
    }
}

/* Streams in rising order, each from its oldest wait on. */
static pleat_status_t process_waits(reference_t *reference, bool can_wait)
{
    for (pleat_stream_t stream = 0; stream < REFERENCE_STREAMS; stream++) {
        for (size_t i = first_wait(reference, stream); i < reference->wait_count;
             i = first_wait(reference, stream)) {
            const pleat_status_t status =
                device_call(reference, can_wait ? PLEAT_VMM_CALL_EVENT_SYNCHRONIZE
                                                : PLEAT_VMM_CALL_EVENT_QUERY);
            if (status != PLEAT_OK) {
                return status;
            }
            if (!wait_is_over(reference, &reference->waits[i])) {
                if (!can_wait) {
                    break;
                }
                reference_set_done(reference, stream);
            }
            end_wait(reference, i);
        }
    }
    return PLEAT_OK;
}

/* ---- giving back ---- */

static pleat_status_t release(reference_t *reference, reference_block_t *block)
{
    const pleat_status_t status = device_call(reference, PLEAT_VMM_CALL_MEM_FREE);
    if (status != PLEAT_OK) {
        return status;
    }
    reference_set_all_done(reference);
    reference->device.used_bytes -= block->bytes;
    reference->held_bytes -= block->bytes;
    reference->stats.num_device_free++;
    act(reference, PLEAT_ACTION_SEGMENT_FREE, block->address, block->bytes, block->stream);
    count_both(reference->stats.segment, block->is_small, -1);
    count_both(reference->stats.reserved_bytes, block->is_small, -(int64_t)block->bytes);
    if (block->bytes >= reference->options.max_split_bytes) {
        count(&reference->stats.oversize_segments, -1);
    }
    remove_block(reference, block);
    return PLEAT_OK;
}

static pleat_status_t release_pool(reference_t *reference, bool is_small)
{
    size_t count = 0;
    reference_block_t **list = sort_free(reference, is_small, &count);
    pleat_status_t status = PLEAT_OK;
    for (size_t i = 0; i < count && status == PLEAT_OK; i++) {
        if (!is_part(reference, list[i])) {
            status = release(reference, list[i]);
        }
    }
    free((void *)list);
    return status;
}

pleat_status_t reference_empty(reference_t *reference)
{
    reference->stats.num_sync_all_streams++;
    pleat_status_t status = process_waits(reference, true);
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
        if (list[i] == NULL || is_part(reference, list[i]) ||
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
    reference_block_t **list = sort_free(reference, false, &count);
    pleat_status_t status = PLEAT_OK;
    uint64_t released = 0;
    bool has_progress = true;
    while (status == PLEAT_OK && released < target && has_progress) {
        double total = 0;
        size_t whole = 0;
        for (size_t i = 0; i < count; i++) {
            if (list[i] != NULL && !is_part(reference, list[i])) {
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
    reference_block_t **list = sort_free(reference, is_small, &count);
    size_t i = 0;
    while (i < count &&
           (list[i]->stream < stream || (list[i]->stream == stream && list[i]->bytes < wanted))) {
        i++;
    }
    pleat_status_t status = PLEAT_OK;
    if (i < count && list[i]->stream == stream && !is_part(reference, list[i])) {
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
        if (!is_part(reference, block)) {
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
    const pleat_status_t status = device_call(reference, PLEAT_VMM_CALL_MEM_ALLOC);
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
    *block_out = add_block(reference, &(reference_block_t){.address = address,
                                                           .bytes = bytes,
                                                           .segment = address,
                                                           .stream = request->stream,
                                                           .is_small = request->is_small});
    count_both(reference->stats.segment, request->is_small, 1);
    count_both(reference->stats.reserved_bytes, request->is_small, (int64_t)bytes);
    if (bytes >= reference->options.max_split_bytes) {
        count(&reference->stats.oversize_segments, 1);
    }
    reference->stats.num_device_alloc++;
    act(reference, PLEAT_ACTION_SEGMENT_ALLOC, address, bytes, request->stream);
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
        const bool is_told = device_call(reference, PLEAT_VMM_CALL_MEM_INFO) == PLEAT_OK;
        const uint64_t free_bytes = reference->device.capacity_bytes - reference->device.used_bytes;
        act(reference, PLEAT_ACTION_OOM, is_told ? free_bytes : 0, request->bytes, request->stream);
        reference->stats.num_ooms++;
    }
    return status;
}

static reference_block_t *split(reference_t *reference, const request_t *request,
                                reference_block_t *block)
{
    pleat_stats_t *stats = &reference->stats;
    const bool was_part = is_part(reference, block);
    const uint64_t rest_bytes = block->bytes - request->bytes;
    const bool is_split =
        request->is_small ? rest_bytes >= 512
                          : request->bytes < reference->options.max_split_bytes && rest_bytes > MIB;
    if (!is_split) {
        if (was_part) {
            count_both(stats->inactive_split, request->is_small, -1);
            count_both(stats->inactive_split_bytes, request->is_small, -(int64_t)block->bytes);
        }
        return block;
    }
    reference_block_t low = *block;
    low.bytes = request->bytes;
    block->address += request->bytes;
    block->bytes = rest_bytes;
    make_free(reference, block);
    if (was_part) {
        count_both(stats->inactive_split_bytes, request->is_small, -(int64_t)request->bytes);
    } else {
        count_both(stats->inactive_split, request->is_small, 1);
        count_both(stats->inactive_split_bytes, request->is_small, (int64_t)rest_bytes);
    }
    return add_block(reference, &low);
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
    pleat_status_t status = process_waits(reference, false);
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
    act(reference, PLEAT_ACTION_ALLOC, block->address, bytes, stream);
    pleat_stats_t *stats = &reference->stats;
    count_both(stats->allocation, request.is_small, 1);
    count_both(stats->allocated_bytes, request.is_small, (int64_t)block->bytes);
    count_both(stats->active, request.is_small, 1);
    count_both(stats->active_bytes, request.is_small, (int64_t)block->bytes);
    count_both(stats->requested_bytes, request.is_small, (int64_t)bytes);
    if (block->bytes >= reference->options.max_split_bytes) {
        count(&stats->oversize_allocations, 1);
    }
    *address_out = block->address;
    return PLEAT_OK;
}
