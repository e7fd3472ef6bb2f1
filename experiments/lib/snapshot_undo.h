/*
 * snapshot_undo: the blocks of a classic allocator while the history of a memory snapshot is
 * undone, the last event first. Used by snapshot_tiling, which says how.
 *
 * Invariants: `free_spans` and `used` tile `segments`; free spans of one segment do not touch.
 * Locks: none.
 */
#ifndef PLEAT_EXPERIMENTS_SNAPSHOT_UNDO_H
#define PLEAT_EXPERIMENTS_SNAPSHOT_UNDO_H

#include "../../vmm/span_tree.h"
#include "number_map.h"

#include <pleat/torch_snapshot.h>

typedef struct pleat_undo_segment {
    pleat_stream_t stream;
    bool is_small;
} pleat_undo_segment_t;

typedef struct pleat_undo_block {
    uint64_t bytes;
    uint64_t requested_bytes;
    bool is_waiting;
} pleat_undo_block_t;

typedef struct pleat_snapshot_undo {
    const pleat_options_t *options;
    pleat_span_pool_t nodes;
    pleat_span_tree_t segments;
    pleat_span_tree_t free_spans;
    pleat_number_map_t segment_index; /* by address */
    pleat_undo_segment_t *segment_table;
    size_t segment_count; /* entries of the table, those that are gone included */
    size_t segment_capacity;
    pleat_number_map_t used; /* by address */
    pleat_undo_block_t *block_table;
    size_t block_count;
    size_t block_capacity;
    uint64_t guess_count;
} pleat_snapshot_undo_t;

/**
 * Take the blocks of a device at the end of its history, and undo all of it.
 *
 * @param[out] undo_out  ended by pleat_snapshot_undo_fini, after a failure too.
 * @retval PLEAT_ERR_UNSUPPORTED  not possible; the message says why.
 * @retval PLEAT_ERR_OOM_HOST     no host memory.
 */
PLEAT_NODISCARD pleat_status_t pleat_snapshot_undo_run(const pleat_torch_snapshot_t *snapshot,
                                                       uint32_t device,
                                                       const pleat_options_t *options,
                                                       pleat_snapshot_undo_t *undo_out);

void pleat_snapshot_undo_fini(pleat_snapshot_undo_t *undo);

/* What is known of the segment and of the used block that begin at an address; NULL: none does. */
const pleat_undo_segment_t *pleat_snapshot_undo_segment(const pleat_snapshot_undo_t *undo,
                                                        pleat_devptr_t address);
const pleat_undo_block_t *pleat_snapshot_undo_block(const pleat_snapshot_undo_t *undo,
                                                    pleat_devptr_t address);

#endif
