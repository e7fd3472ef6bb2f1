/*
 * snapshot_tiling: which blocks, used and free, the segments of a classic allocator consisted of
 * when the history of a memory snapshot begins, and a way to get there from nothing.
 *
 * The blocks at the end are in the snapshot, and each event can be undone, the last first:
 *   - alloc: the block was free, and one with the free block behind it, since neighbours that are
 *     free are merged;
 *   - free_completed: the block was in use, at its place in the free block that it is part of now.
 *     It had its rounded size; where what is left behind it would be too small to be split off, it
 *     had that as well. Where much is left, up to 1 MiB of it may have belonged to the block, too:
 *     that is not known, and counted as a guess;
 *   - segment_alloc and segment_free: the segment was not there, or was there and free.
 * Which block serves a request depends on sizes, addresses and streams alone, so an allocator with
 * the same blocks decides as the recorded one did, whatever happened before. Only the age of blocks
 * is not the same, which garbage collection looks at.
 *
 * The way there: fill all segments, piece by piece in the order of addresses, then free the pieces
 * that are to be free. No free block is there but the rest of the newest segment while they are
 * filled, so each piece goes to its place.
 * Locks: none.
 */
#ifndef PLEAT_EXPERIMENTS_SNAPSHOT_TILING_H
#define PLEAT_EXPERIMENTS_SNAPSHOT_TILING_H

#include "trace.h"

#include <pleat/torch_snapshot.h>

typedef struct pleat_snapshot_tiling {
    pleat_trace_event_t *events; /* that lead there; streams are handles, times 0 */
    size_t event_count;
    size_t event_capacity;
    uint64_t guess_count; /* 0: the blocks are known */
} pleat_snapshot_tiling_t;

/**
 * Find the blocks at the beginning of the history of a device, and the way there.
 *
 * @param options          of the recording.
 * @param[out] tiling_out  ended by pleat_snapshot_tiling_fini; empty on failure.
 * @retval PLEAT_ERR_UNSUPPORTED  that cannot be done with this snapshot; the message says why.
 * @retval PLEAT_ERR_OOM_HOST     no host memory.
 * @par Cost O(n log n) in entries and blocks.
 */
PLEAT_NODISCARD pleat_status_t pleat_snapshot_tiling_find(const pleat_torch_snapshot_t *snapshot,
                                                          uint32_t device,
                                                          const pleat_options_t *options,
                                                          pleat_snapshot_tiling_t *tiling_out);

/** Free the events. */
void pleat_snapshot_tiling_fini(pleat_snapshot_tiling_t *tiling);

#endif
