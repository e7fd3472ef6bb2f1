/*
 * reference: blocks, counters and frees, by lists and loops.
 */
#include "reference_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

reference_block_t *reference_add_block(reference_t *reference, const reference_block_t *like)
{
    reference->blocks = reference_grow((void *)reference->blocks, reference->block_count,
                                       &reference->block_capacity, sizeof(reference->blocks[0]));
    size_t one = 0;
    reference_block_t *block = reference_grow(NULL, 0, &one, sizeof(*block));
    *block = *like;
    reference->blocks[reference->block_count++] = block;
    return block;
}

void reference_remove_block(reference_t *reference, reference_block_t *block)
{
    size_t i = 0;
    while (reference->blocks[i] != block) {
        i++;
    }
    for (reference->block_count--; i < reference->block_count; i++) {
        reference->blocks[i] = reference->blocks[i + 1];
    }
    block->next_spent = reference->spent;
    reference->spent = block;
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
    while (reference->spent != NULL) {
        reference_block_t *block = reference->spent;
        reference->spent = block->next_spent;
        free(block);
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
pleat_status_t reference_device_call(reference_t *reference, pleat_vmm_call_t call)
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

void reference_act(reference_t *reference, pleat_action_t action, uint64_t address, uint64_t bytes,
                   pleat_stream_t stream)
{
    if (reference->action_count < REFERENCE_ACTIONS_MAX) {
        reference->actions[reference->action_count++] =
            (pleat_trace_entry_t){.size = sizeof(pleat_trace_entry_t),
                                  .action = action,
                                  .stream = stream,
                                  .address = address,
                                  .bytes = bytes};
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

void reference_count(pleat_stat_t *stat, int64_t change)
{
    stat->current += change;
    if (change > 0) {
        stat->allocated += change;
    } else {
        stat->freed -= change;
    }
    stat->peak = stat->current > stat->peak ? stat->current : stat->peak;
}

void reference_count_both(pleat_stat_t *stats, bool is_small, int64_t change)
{
    if (change != 0) {
        reference_count(&stats[PLEAT_STAT_ALL], change);
        reference_count(&stats[is_small ? PLEAT_STAT_SMALL_POOL : PLEAT_STAT_LARGE_POOL], change);
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

bool reference_is_part(const reference_t *reference, const reference_block_t *block)
{
    return left_of(reference, block) != NULL || right_of(reference, block) != NULL;
}

void reference_make_free(reference_t *reference, reference_block_t *block)
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
reference_block_t **reference_sort_free(const reference_t *reference, bool is_small,
                                        size_t *count_out)
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

/* ---- free ---- */

static void complete_free(reference_t *reference, reference_block_t *block)
{
    const int64_t bytes = (int64_t)block->bytes;
    const bool is_small = block->is_small;
    reference_act(reference, PLEAT_ACTION_FREE_COMPLETED, block->address, block->requested_bytes,
                  block->stream);
    int64_t count_change = 0;
    int64_t bytes_change = 0;
    reference_block_t *left = left_of(reference, block);
    if (left != NULL && left->is_free) {
        count_change -= 1;
        bytes_change -= (int64_t)left->bytes;
        block->address = left->address;
        block->bytes += left->bytes;
        reference_remove_block(reference, left);
    }
    reference_block_t *right = right_of(reference, block);
    if (right != NULL && right->is_free) {
        count_change -= 1;
        bytes_change -= (int64_t)right->bytes;
        block->bytes += right->bytes;
        reference_remove_block(reference, right);
    }
    reference_make_free(reference, block);
    if (reference_is_part(reference, block)) {
        count_change += 1;
        bytes_change += (int64_t)block->bytes;
    }
    pleat_stats_t *stats = &reference->stats;
    reference_count_both(stats->inactive_split, is_small, count_change);
    reference_count_both(stats->inactive_split_bytes, is_small, bytes_change);
    reference_count_both(stats->active, is_small, -1);
    reference_count_both(stats->active_bytes, is_small, -bytes);
    reference_count_both(stats->requested_bytes, is_small, -(int64_t)block->requested_bytes);
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
        const pleat_status_t status = reference_device_call(reference, PLEAT_VMM_CALL_EVENT_RECORD);
        if (status != PLEAT_OK) {
            return status;
        }
    }
    block->is_live = false;
    reference_count_both(reference->stats.allocation, block->is_small, -1);
    reference_count_both(reference->stats.allocated_bytes, block->is_small, -(int64_t)block->bytes);
    reference_act(reference, PLEAT_ACTION_FREE_REQUESTED, address, block->requested_bytes,
                  block->stream);
    if (block->bytes >= reference->options.max_split_bytes) {
        reference_count(&reference->stats.oversize_allocations, -1);
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
        const pleat_status_t status = reference_device_call(reference, PLEAT_VMM_CALL_EVENT_CREATE);
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
pleat_status_t reference_process_waits(reference_t *reference, bool can_wait)
{
    for (pleat_stream_t stream = 0; stream < REFERENCE_STREAMS; stream++) {
        for (size_t i = first_wait(reference, stream); i < reference->wait_count;
             i = first_wait(reference, stream)) {
            const pleat_status_t status =
                reference_device_call(reference, can_wait ? PLEAT_VMM_CALL_EVENT_SYNCHRONIZE
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
