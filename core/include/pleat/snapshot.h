/*
 * snapshot: a read-only copy of every segment and block of an allocator, in address order.
 *
 * Every byte that is held from the device shows once, so that the segments add up to
 * reserved_bytes. In pleated mode a segment is a run of memory that is used at its own address, one
 * block that was handed out at a second address, or the memory that small blocks are cut from.
 *
 * The library owns the layout of both arrays: in a later version their elements may have more
 * fields at the end. A program that is to run with such a version without being compiled anew finds
 * element i at (const char *)segments + i * segment_size, and blocks likewise; one that is compiled
 * with the library that it runs with may write segments[i].
 */
#ifndef PLEAT_SNAPSHOT_H
#define PLEAT_SNAPSHOT_H

#include <pleat/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* PyTorch's numbering: (0, 0) is no private pool, (0, n) one that a user made, (n, 0) one of a
 * graph. To this library they are numbers. */
typedef struct pleat_pool_id {
    uint64_t first;
    uint64_t second;
} pleat_pool_id_t;

typedef enum pleat_block_state {
    PLEAT_BLOCK_INACTIVE,    /* free */
    PLEAT_BLOCK_ALLOCATED,   /* handed out */
    PLEAT_BLOCK_PENDING_FREE /* freed, waiting for a stream that used it, or put off */
} pleat_block_state_t;

typedef struct pleat_block_info {
    pleat_devptr_t address;
    uint64_t bytes;
    uint64_t requested_bytes; /* of an inactive block: what its last user asked for, or 0 */
    pleat_block_state_t state;
} pleat_block_info_t;

typedef struct pleat_segment_info {
    pleat_devptr_t address;
    uint64_t total_bytes;
    uint64_t allocated_bytes; /* blocks handed out */
    uint64_t active_bytes;    /* blocks handed out or waiting */
    uint64_t requested_bytes; /* asked for by the active blocks */
    pleat_stream_t stream;
    bool is_small; /* belongs to the small pool */
    bool is_expandable;
    uint64_t first_block; /* index into blocks */
    uint64_t block_count;
    pleat_pool_id_t pool; /* (0, 0): no private pool */
} pleat_segment_info_t;

typedef struct pleat_snapshot {
    size_t size;
    size_t segment_size; /* bytes from one element of segments to the next */
    size_t block_size;   /* likewise of blocks */
    uint64_t segment_count;
    uint64_t block_count;
    pleat_segment_info_t *segments; /* by address */
    pleat_block_info_t *blocks;     /* by address, gap-free inside a segment */
} pleat_snapshot_t;

#ifdef __cplusplus
}
#endif
#endif
