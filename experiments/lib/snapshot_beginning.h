/*
 * snapshot_beginning: what an allocator held when the history of a memory snapshot begins, found by
 * walking over the history and comparing with the segments at its end. See trace_snapshot.
 * Locks: none; a beginning belongs to one thread at a time.
 */
#ifndef PLEAT_EXPERIMENTS_SNAPSHOT_BEGINNING_H
#define PLEAT_EXPERIMENTS_SNAPSHOT_BEGINNING_H

#include <pleat/torch_snapshot.h>

/* A block or a segment that was there. */
typedef struct pleat_beginning_part {
    pleat_devptr_t address;
    uint64_t bytes; /* of a block: as asked for */
    pleat_stream_t stream;
    bool is_waiting; /* a block: freed, and waiting for a stream */
    bool is_mapped;  /* a segment: part of an expandable one */
} pleat_beginning_part_t;

typedef struct pleat_beginning_list {
    pleat_beginning_part_t *parts;
    size_t count;
    size_t capacity;
} pleat_beginning_list_t;

typedef struct pleat_snapshot_beginning {
    pleat_beginning_list_t blocks;   /* by address, without overlap */
    pleat_beginning_list_t segments; /* by address, without overlap */
    uint64_t differs_count;          /* blocks on which history and segments disagree at the end */
} pleat_snapshot_beginning_t;

/**
 * Find the beginning of the history of a device.
 *
 * @param[out] beginning_out  ended by pleat_snapshot_beginning_fini; empty on failure.
 * @retval PLEAT_ERR_OOM_HOST  no host memory.
 * @par Cost O(n log n) in entries, segments and blocks.
 */
PLEAT_NODISCARD pleat_status_t
pleat_snapshot_beginning_find(const pleat_torch_snapshot_t *snapshot, uint32_t device,
                              pleat_snapshot_beginning_t *beginning_out);

/** Free the lists of a beginning. */
void pleat_snapshot_beginning_fini(pleat_snapshot_beginning_t *beginning);

#endif
