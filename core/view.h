/*
 * view: a second address range over handles that are mapped elsewhere already. It joins free memory
 * that lies apart: the free end of one handle, whole free handles, the free start of another. The
 * idea of a second mapping over existing memory is that of GMLake (C. Guo et al., ASPLOS 2024);
 * handles of mixed size, partial ones at both ends, and no unmapping on the way are those of our
 * own study (experiments/policy).
 *
 * What a view gives out is taken from the home addresses of its handles, so that no byte is in use
 * twice. A view stays for reuse until it is evicted: then nothing is live in it, and no work uses
 * its addresses any more.
 *
 * Invariants (check.c): V1 a handle is in a view at most once, and each of its pieces is in the
 * handle's list; V2 live_count is the number of blocks handed out in it.
 * Guarded by the lock of the owning allocator.
 */
#ifndef PLEAT_VIEW_H
#define PLEAT_VIEW_H

#include "arena.h"

struct pleat_view {
    pleat_devptr_t address;
    uint64_t bytes;
    pleat_private_pool_t *owner; /* of its handles; NULL: no private pool */
    pleat_stream_t stream;       /* that it was made for */
    pleat_stream_t *streams;     /* that used it; all work of theirs must be over before it goes */
    size_t stream_count;
    uint64_t live_count;
    uint64_t last_used;     /* count of requests served when it was used last */
    uint64_t idle_since_ns; /* when its last live block was given back, if none is live */
    size_t piece_count;
    pleat_view_t *next; /* all views, in the order of their making */
    pleat_piece_t pieces[];
};

/* A run of free bytes in a view. */
typedef struct pleat_view_run {
    pleat_view_t *view; /* NULL: none */
    uint64_t offset;
    uint64_t bytes;
} pleat_view_run_t;

/*
 * Map @p count handles of one owner, each once, side by side. ERR_OOM_HOST or the device's error:
 * nothing changed. One device call a handle and two more.
 */
PLEAT_NODISCARD pleat_status_t pleat_view_create(pleat_allocator_t *allocator,
                                                 pleat_stream_t stream,
                                                 pleat_handle_t *const *handles, size_t count,
                                                 pleat_view_t **view_out);

/* Unmap a view in which nothing is live; no work uses its addresses any more. The device's error:
 * nothing changed. Two device calls. */
PLEAT_NODISCARD pleat_status_t pleat_view_destroy(pleat_allocator_t *allocator, pleat_view_t *view);

/* End the record of a view; what the device holds of it stays. For destruction only. */
void pleat_view_forget(pleat_allocator_t *allocator, pleat_view_t *view);

/* The smallest free run of at least @p bytes; .view is NULL if there is none. O(blocks in it). */
pleat_view_run_t pleat_view_find(pleat_view_t *view, uint64_t bytes);

/* Note that @p stream is about to use the view. ERR_OOM_HOST: nothing changed. */
PLEAT_NODISCARD pleat_status_t pleat_view_note_stream(pleat_view_t *view, pleat_stream_t stream);

/*
 * Take @p bytes at @p offset, all free, for @p stream. Blocks in reserve: two a piece and one.
 * Returns the block to hand out; its parts at home hang on it.
 */
pleat_block_t *pleat_view_take(pleat_allocator_t *allocator, pleat_view_t *view, uint64_t offset,
                               uint64_t bytes, pleat_stream_t stream);

/* Give the parts of a view's block back and end it. */
void pleat_view_give(pleat_allocator_t *allocator, pleat_block_t *block);

/* Call @p visit for the part of every piece inside [offset, offset + bytes) of a view. */
typedef void (*pleat_view_visit_fn_t)(void *context, pleat_handle_t *handle, uint64_t home_offset,
                                      uint64_t bytes);
void pleat_view_visit(const pleat_view_t *view, uint64_t offset, uint64_t bytes,
                      pleat_view_visit_fn_t visit, void *context);

/* Next part of a view's block: the parts are a list from block->child[0] on. */
static inline pleat_block_t *pleat_view_next_part(const pleat_block_t *block)
{
    return block->child[0];
}

#endif
