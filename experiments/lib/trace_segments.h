/*
 * trace_segments: the segments that a trace shows at one moment of reading it.
 *
 * Invariants: rising by address, without overlap; reserved_bytes is the sum of the segments, plus
 * what was mapped and minus what was unmapped; idle_count is the number of segments without blocks.
 * Locks: none; a table belongs to one thread at a time.
 */
#ifndef PLEAT_EXPERIMENTS_TRACE_SEGMENTS_H
#define PLEAT_EXPERIMENTS_TRACE_SEGMENTS_H

#include <pleat/base.h>

typedef struct pleat_trace_segment {
    pleat_devptr_t address;
    uint64_t bytes;
    uint64_t block_count; /* blocks in use or waiting */
} pleat_trace_segment_t;

typedef struct pleat_trace_segments {
    pleat_trace_segment_t *segments;
    size_t count;
    size_t capacity;
    size_t idle_count;
    uint64_t reserved_bytes;
} pleat_trace_segments_t;

/** Free the table's memory; one full of zeros is empty and needs no other beginning. */
void pleat_trace_segments_fini(pleat_trace_segments_t *table);

/**
 * Add a segment.
 * @retval PLEAT_ERR_INVALID   it lies over another; nothing changed.
 * @retval PLEAT_ERR_OOM_HOST  no host memory; nothing changed.
 * @par Cost O(segments).
 */
PLEAT_NODISCARD pleat_status_t pleat_trace_segments_add(pleat_trace_segments_t *table,
                                                        pleat_devptr_t address, uint64_t bytes);

/** Take out the segment that begins at @p address; false when there is none. @par Cost O(segments).
 */
bool pleat_trace_segments_remove(pleat_trace_segments_t *table, pleat_devptr_t address);

/** A block at @p address begins. @return whether it lies in a segment. @par Cost O(log segments).
 */
bool pleat_trace_segments_begin_block(pleat_trace_segments_t *table, pleat_devptr_t address);

/** A block at @p address, which had begun, ends: it may be used again. Return and cost likewise. */
bool pleat_trace_segments_end_block(pleat_trace_segments_t *table, pleat_devptr_t address);

/** Does @p address lie in a segment? @par Cost O(log segments). */
bool pleat_trace_segments_contain(const pleat_trace_segments_t *table, pleat_devptr_t address);

#endif
