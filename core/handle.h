/*
 * handle: one chunk of physical memory of pleated mode. It is mapped once at its home, in the arena
 * that it was made for, as long as it lives, and may be mapped again in views (view.h).
 *
 * Free bytes are accounted at home: whoever uses a part of a handle, at whatever address, takes the
 * home addresses of that part.
 *
 * Invariants (check.c): H1 free_bytes is the sum over the free blocks at home; H2 the handles of an
 * arena lie inside it, rise by offset and do not overlap; H3 each piece of a view is in the list of
 * its handle, and a handle is in a view at most once.
 * Guarded by the lock of the owning allocator.
 */
#ifndef PLEAT_HANDLE_H
#define PLEAT_HANDLE_H

#include <pleat/vmm.h>

#include "block.h"

typedef struct pleat_handle pleat_handle_t;
typedef struct pleat_piece pleat_piece_t;

/* A handle's place in a view. */
struct pleat_piece {
    pleat_handle_t *handle;
    pleat_view_t *view;
    uint64_t offset;          /* in the view */
    pleat_piece_t *next_view; /* of the same handle */
};

struct pleat_handle {
    pleat_chunk_t chunk;
    uint64_t bytes;
    uint64_t offset; /* home, in the arena */
    pleat_arena_t *arena;
    pleat_block_t *start; /* the block in which the home begins */
    uint64_t free_bytes;
    uint64_t idle_since_ns; /* when the last part became free, if all are */
    pleat_piece_t *pieces;  /* views that show it */
    int file;               /* descriptor of the chunk for other processes; -1: none */
};

static inline bool pleat_handle_is_whole(const pleat_handle_t *handle)
{
    return handle->free_bytes == handle->bytes;
}

#endif
