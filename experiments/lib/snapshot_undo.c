/*
 * snapshot_undo: see snapshot_undo.h.
 */
#include "snapshot_undo.h"

#include "../../core/size_class.h"

#include <inttypes.h>
#include <stdlib.h>

enum { FIRST_CAPACITY = 64 };

static pleat_status_t undo_no_memory(void)
{
    pleat_error_set("no host memory to undo a history");
    return PLEAT_ERR_OOM_HOST;
}

static pleat_status_t undo_refuse(const char *what, pleat_devptr_t address)
{
    pleat_error_set("%s at %" PRIx64 " does not fit to what is there afterwards", what, address);
    return PLEAT_ERR_UNSUPPORTED;
}

/* ---- tables ---- */

static bool undo_reserve(void **items, size_t *capacity, size_t wanted, size_t item_bytes)
{
    if (wanted <= *capacity) {
        return true;
    }
    const size_t grown = *capacity == 0 ? FIRST_CAPACITY : *capacity * 2;
    void *moved = wanted < PLEAT_NUMBER_MAP_NONE ? realloc(*items, grown * item_bytes) : NULL;
    if (moved == NULL) {
        return false;
    }
    *items = moved;
    *capacity = grown;
    return true;
}

static pleat_status_t undo_add_block(pleat_snapshot_undo_t *undo, pleat_devptr_t address,
                                     pleat_undo_block_t block)
{
    void *table = undo->block_table;
    if (!undo_reserve(&table, &undo->block_capacity, undo->block_count + 1, sizeof(block))) {
        return undo_no_memory();
    }
    undo->block_table = table;
    if (!pleat_number_map_set(&undo->used, address, (uint32_t)undo->block_count)) {
        return undo_no_memory();
    }
    undo->block_table[undo->block_count++] = block;
    return PLEAT_OK;
}

static pleat_status_t undo_add_free(pleat_snapshot_undo_t *undo, pleat_devptr_t address,
                                    uint64_t bytes)
{
    const pleat_status_t status = pleat_span_pool_reserve(&undo->nodes, 1);
    if (status == PLEAT_OK) {
        pleat_span_insert(&undo->nodes, &undo->free_spans,
                          (pleat_span_t){.begin = address, .bytes = bytes});
    }
    return status;
}

static pleat_status_t undo_add_segment(pleat_snapshot_undo_t *undo, pleat_span_t span,
                                       pleat_undo_segment_t segment)
{
    pleat_span_t other;
    void *table = undo->segment_table;
    if (span.bytes == 0 || pleat_span_find_overlap(&undo->nodes, &undo->segments, span, &other)) {
        return undo_refuse("a segment", span.begin);
    }
    if (!undo_reserve(&table, &undo->segment_capacity, undo->segment_count + 1, sizeof(segment))) {
        return undo_no_memory();
    }
    undo->segment_table = table;
    if (!pleat_number_map_set(&undo->segment_index, span.begin, (uint32_t)undo->segment_count)) {
        return undo_no_memory();
    }
    undo->segment_table[undo->segment_count++] = segment;
    const pleat_status_t status = pleat_span_pool_reserve(&undo->nodes, 1);
    if (status == PLEAT_OK) {
        pleat_span_insert(&undo->nodes, &undo->segments, span);
    }
    return status;
}

const pleat_undo_segment_t *pleat_snapshot_undo_segment(const pleat_snapshot_undo_t *undo,
                                                        pleat_devptr_t address)
{
    const uint32_t index = pleat_number_map_find(&undo->segment_index, address);
    return index != PLEAT_NUMBER_MAP_NONE ? &undo->segment_table[index] : NULL;
}

static pleat_undo_block_t *undo_block(const pleat_snapshot_undo_t *undo, pleat_devptr_t address)
{
    const uint32_t index = pleat_number_map_find(&undo->used, address);
    return index != PLEAT_NUMBER_MAP_NONE ? &undo->block_table[index] : NULL;
}

const pleat_undo_block_t *pleat_snapshot_undo_block(const pleat_snapshot_undo_t *undo,
                                                    pleat_devptr_t address)
{
    return undo_block(undo, address);
}

/* ---- events ---- */

/* Does a span of the tree begin at the address? */
static bool undo_span_at(const pleat_snapshot_undo_t *undo, const pleat_span_tree_t *tree,
                         uint64_t address, pleat_span_t *span_out)
{
    return pleat_span_find_at_or_below(&undo->nodes, tree, address, span_out) &&
           span_out->begin == address;
}

static pleat_status_t undo_alloc(pleat_snapshot_undo_t *undo, const pleat_torch_entry_t *entry)
{
    const pleat_undo_block_t *block = undo_block(undo, entry->address);
    pleat_span_t neighbour;
    if (block == NULL || block->is_waiting || block->requested_bytes != entry->bytes) {
        return undo_refuse("an allocation", entry->address);
    }
    uint64_t bytes = block->bytes;
    const bool is_first = pleat_snapshot_undo_segment(undo, entry->address) != NULL;
    if (!is_first &&
        pleat_span_find_at_or_below(&undo->nodes, &undo->free_spans, entry->address, &neighbour) &&
        neighbour.begin + neighbour.bytes == entry->address) {
        return undo_refuse("an allocation behind a free block,", entry->address);
    }
    const uint64_t end = entry->address + bytes;
    if (pleat_snapshot_undo_segment(undo, end) == NULL &&
        undo_span_at(undo, &undo->free_spans, end, &neighbour)) {
        pleat_span_remove(&undo->nodes, &undo->free_spans, end);
        bytes += neighbour.bytes;
    }
    pleat_number_map_remove(&undo->used, entry->address);
    return undo_add_free(undo, entry->address, bytes);
}

/* Size of the block that was freed, out of @p left bytes of free memory from its address on. */
static uint64_t undo_block_bytes(pleat_snapshot_undo_t *undo, uint64_t rounded, uint64_t left,
                                 bool is_small)
{
    const uint64_t rest = left - rounded;
    if (is_small || rest == 0) {
        return rounded;
    }
    if (rest <= PLEAT_MIB) {
        return left;
    }
    undo->guess_count++;
    return rounded;
}

static pleat_status_t undo_completion(pleat_snapshot_undo_t *undo, const pleat_torch_entry_t *entry)
{
    pleat_span_t span;
    pleat_span_t segment;
    if (entry->bytes == 0 || entry->bytes >= PLEAT_REQUEST_END_BYTES ||
        !pleat_span_find_at_or_below(&undo->nodes, &undo->free_spans, entry->address, &span) ||
        !pleat_span_find_at_or_below(&undo->nodes, &undo->segments, entry->address, &segment)) {
        return undo_refuse("a completed free", entry->address);
    }
    const uint64_t rounded = pleat_size_round(undo->options, entry->bytes);
    const uint64_t before = entry->address - span.begin;
    if (before >= span.bytes || rounded > span.bytes - before) {
        return undo_refuse("a completed free", entry->address);
    }
    const uint64_t left = span.bytes - before;
    const uint64_t bytes = undo_block_bytes(
        undo, rounded, left, pleat_snapshot_undo_segment(undo, segment.begin)->is_small);
    pleat_span_remove(&undo->nodes, &undo->free_spans, span.begin);
    pleat_status_t status = PLEAT_OK;
    if (before > 0) {
        status = undo_add_free(undo, span.begin, before);
    }
    if (status == PLEAT_OK && bytes < left) {
        status = undo_add_free(undo, entry->address + bytes, left - bytes);
    }
    return status == PLEAT_OK ? undo_add_block(undo, entry->address,
                                               (pleat_undo_block_t){.bytes = bytes,
                                                                    .requested_bytes = entry->bytes,
                                                                    .is_waiting = true})
                              : status;
}

static pleat_status_t undo_request(pleat_snapshot_undo_t *undo, const pleat_torch_entry_t *entry)
{
    pleat_undo_block_t *block = undo_block(undo, entry->address);
    if (block == NULL || !block->is_waiting || block->requested_bytes != entry->bytes) {
        return undo_refuse("a free", entry->address);
    }
    block->is_waiting = false;
    return PLEAT_OK;
}

static pleat_status_t undo_segment_alloc(pleat_snapshot_undo_t *undo,
                                         const pleat_torch_entry_t *entry)
{
    pleat_span_t segment;
    pleat_span_t span;
    if (!undo_span_at(undo, &undo->segments, entry->address, &segment) ||
        segment.bytes != entry->bytes ||
        !undo_span_at(undo, &undo->free_spans, entry->address, &span) ||
        span.bytes != entry->bytes) {
        return undo_refuse("a segment_alloc", entry->address);
    }
    pleat_span_remove(&undo->nodes, &undo->segments, entry->address);
    pleat_span_remove(&undo->nodes, &undo->free_spans, entry->address);
    pleat_number_map_remove(&undo->segment_index, entry->address);
    return PLEAT_OK;
}

static pleat_status_t undo_segment_free(pleat_snapshot_undo_t *undo,
                                        const pleat_torch_entry_t *entry)
{
    const pleat_status_t status = undo_add_segment(
        undo, (pleat_span_t){.begin = entry->address, .bytes = entry->bytes},
        (pleat_undo_segment_t){.stream = entry->stream,
                               .is_small = entry->bytes == PLEAT_SMALL_SEGMENT_BYTES});
    return status == PLEAT_OK ? undo_add_free(undo, entry->address, entry->bytes) : status;
}

static pleat_status_t undo_entry(pleat_snapshot_undo_t *undo, const pleat_torch_entry_t *entry)
{
    switch (entry->action) {
    case PLEAT_ACTION_ALLOC:
        return undo_alloc(undo, entry);
    case PLEAT_ACTION_FREE_COMPLETED:
        return undo_completion(undo, entry);
    case PLEAT_ACTION_FREE_REQUESTED:
        return undo_request(undo, entry);
    case PLEAT_ACTION_SEGMENT_ALLOC:
        return undo_segment_alloc(undo, entry);
    case PLEAT_ACTION_SEGMENT_FREE:
        return undo_segment_free(undo, entry);
    case PLEAT_ACTION_SEGMENT_MAP:
    case PLEAT_ACTION_SEGMENT_UNMAP:
        return undo_refuse("an expandable segment", entry->address);
    case PLEAT_ACTION_SNAPSHOT:
    case PLEAT_ACTION_OOM:
    case PLEAT_ACTION_COUNT:
        break;
    }
    return PLEAT_OK;
}

/* ---- the end ---- */

/* One block at the end; the blocks before it reach up to @p address. */
static pleat_status_t undo_take_block(pleat_snapshot_undo_t *undo, const pleat_torch_block_t *block,
                                      pleat_devptr_t address, bool is_behind_free)
{
    const bool is_free = block->state == PLEAT_BLOCK_INACTIVE;
    if (block->address != address || block->bytes == 0 || (is_free && is_behind_free)) {
        return undo_refuse("a block of a segment", block->address);
    }
    return is_free ? undo_add_free(undo, address, block->bytes)
                   : undo_add_block(undo, address,
                                    (pleat_undo_block_t){.bytes = block->bytes,
                                                         .requested_bytes = block->requested_bytes,
                                                         .is_waiting = block->state ==
                                                                       PLEAT_BLOCK_PENDING_FREE});
}

static pleat_status_t undo_take_segment(pleat_snapshot_undo_t *undo,
                                        const pleat_torch_snapshot_t *snapshot,
                                        const pleat_torch_segment_t *segment)
{
    if (segment->is_expandable || (segment->pool.first | segment->pool.second) != 0) {
        return undo_refuse(segment->is_expandable ? "an expandable segment"
                                                  : "a segment of a private pool",
                           segment->address);
    }
    pleat_status_t status = undo_add_segment(
        undo, (pleat_span_t){.begin = segment->address, .bytes = segment->total_bytes},
        (pleat_undo_segment_t){.stream = segment->stream, .is_small = segment->is_small});
    pleat_devptr_t address = segment->address;
    bool is_behind_free = false;
    for (uint64_t i = 0; i < segment->block_count && status == PLEAT_OK; i++) {
        const pleat_torch_block_t *block = &snapshot->blocks[segment->first_block + i];
        status = undo_take_block(undo, block, address, is_behind_free);
        is_behind_free = block->state == PLEAT_BLOCK_INACTIVE;
        address += block->bytes;
    }
    if (status == PLEAT_OK && address - segment->address != segment->total_bytes) {
        return undo_refuse("the end of a segment", address);
    }
    return status;
}

pleat_status_t pleat_snapshot_undo_run(const pleat_torch_snapshot_t *snapshot, uint32_t device,
                                       const pleat_options_t *options,
                                       pleat_snapshot_undo_t *undo_out)
{
    const pleat_torch_history_t *history = &snapshot->histories[device];
    pleat_status_t status = PLEAT_OK;
    *undo_out = (pleat_snapshot_undo_t){.options = options};
    pleat_span_pool_init(&undo_out->nodes);
    if ((snapshot->missing & (PLEAT_TORCH_MISSING_SEGMENTS | PLEAT_TORCH_MISSING_REQUESTED)) != 0 ||
        history->unknown_count > 0) {
        pleat_error_set("the snapshot lacks segments, requested sizes or known actions");
        return PLEAT_ERR_UNSUPPORTED;
    }
    for (uint64_t i = 0; i < snapshot->segment_count && status == PLEAT_OK; i++) {
        if (snapshot->segments[i].device == device) {
            status = undo_take_segment(undo_out, snapshot, &snapshot->segments[i]);
        }
    }
    for (uint64_t i = history->entry_count; i > 0 && status == PLEAT_OK; i--) {
        status = undo_entry(undo_out, &history->entries[i - 1]);
    }
    return status;
}

void pleat_snapshot_undo_fini(pleat_snapshot_undo_t *undo)
{
    pleat_span_pool_fini(&undo->nodes);
    pleat_number_map_fini(&undo->segment_index);
    pleat_number_map_fini(&undo->used);
    free(undo->segment_table);
    free(undo->block_table);
}
