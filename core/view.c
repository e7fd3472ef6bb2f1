/*
 * view: mapping handles a second time, and taking what is free in them.
 */
#include "view.h"

#include <stdlib.h>

#include "allocator.h"

/* ---- life ---- */

static void view_link_pieces(pleat_view_t *view)
{
    for (size_t i = 0; i < view->piece_count; i++) {
        pleat_piece_t *piece = &view->pieces[i];
        piece->next_view = piece->handle->pieces;
        piece->handle->pieces = piece;
    }
}

static void view_unlink_pieces(pleat_view_t *view)
{
    for (size_t i = 0; i < view->piece_count; i++) {
        pleat_piece_t **link = &view->pieces[i].handle->pieces;
        while (*link != &view->pieces[i]) {
            link = &(*link)->next_view;
        }
        *link = view->pieces[i].next_view;
    }
}

/* Map the pieces of a view and grant access; on failure what was mapped is undone. */
static pleat_status_t view_map(pleat_allocator_t *allocator, pleat_view_t *view)
{
    pleat_status_t status = PLEAT_OK;
    uint64_t mapped_bytes = 0;
    for (size_t i = 0; i < view->piece_count && status == PLEAT_OK; i++) {
        const pleat_piece_t *piece = &view->pieces[i];
        status = pleat_vmm_map(allocator->vmm, view->address + piece->offset, piece->handle->bytes,
                               piece->handle->chunk);
        mapped_bytes += status == PLEAT_OK ? piece->handle->bytes : 0;
    }
    if (status == PLEAT_OK) {
        status = pleat_vmm_set_access(allocator->vmm, view->address, view->bytes);
    }
    if (status != PLEAT_OK && mapped_bytes > 0) {
        const pleat_status_t ignored = pleat_vmm_unmap(allocator->vmm, view->address, mapped_bytes);
        (void)ignored;
    }
    return status;
}

pleat_status_t pleat_view_create(pleat_allocator_t *allocator, pleat_stream_t stream,
                                 pleat_handle_t *const *handles, size_t count,
                                 pleat_view_t **view_out)
{
    pleat_view_t *view = calloc(1, sizeof(*view) + count * sizeof(view->pieces[0]));
    if (view == NULL) {
        pleat_error_set("no host memory for a view of %zu chunks", count);
        return PLEAT_ERR_OOM_HOST;
    }
    view->owner = handles[0]->arena->pool.owner;
    view->stream = stream;
    view->piece_count = count;
    for (size_t i = 0; i < count; i++) {
        PLEAT_ASSERT(handles[i]->arena->pool.owner == view->owner);
        view->pieces[i] =
            (pleat_piece_t){.handle = handles[i], .view = view, .offset = view->bytes};
        view->bytes += handles[i]->bytes;
    }
    pleat_status_t status = pleat_vmm_address_reserve(allocator->vmm, view->bytes, &view->address);
    if (status != PLEAT_OK) {
        goto err_free;
    }
    status = view_map(allocator, view);
    if (status != PLEAT_OK) {
        goto err_address;
    }
    view_link_pieces(view);
    pleat_view_t **link = &allocator->views;
    while (*link != NULL) {
        link = &(*link)->next;
    }
    *link = view;
    allocator->view_mappings += count;
    allocator->viewed_bytes += view->bytes;
    allocator->stats.view_mappings = (int64_t)allocator->view_mappings;
    allocator->stats.view_count++;
    allocator->stats.moved_bytes += (int64_t)view->bytes;
    pleat_stats_map(&allocator->stats, count);
    *view_out = view;
    return PLEAT_OK;

    pleat_status_t ignored;
err_address:
    ignored = pleat_vmm_address_free(allocator->vmm, view->address, view->bytes);
    (void)ignored;
err_free:
    free(view);
    return status;
}

void pleat_view_forget(pleat_allocator_t *allocator, pleat_view_t *view)
{
    view_unlink_pieces(view);
    pleat_view_t **link = &allocator->views;
    while (*link != view) {
        link = &(*link)->next;
    }
    *link = view->next;
    allocator->view_mappings -= view->piece_count;
    allocator->stats.view_mappings = (int64_t)allocator->view_mappings;
    allocator->stats.view_count--;
    pleat_stats_unmap(&allocator->stats, view->piece_count);
    free(view->streams);
    free(view);
}

pleat_status_t pleat_view_destroy(pleat_allocator_t *allocator, pleat_view_t *view)
{
    PLEAT_ASSERT(view->live_count == 0);
    const pleat_status_t status = pleat_vmm_unmap(allocator->vmm, view->address, view->bytes);
    if (status != PLEAT_OK) {
        return status;
    }
    /* Addresses that the device does not take back are lost, nothing else. */
    const pleat_status_t ignored =
        pleat_vmm_address_free(allocator->vmm, view->address, view->bytes);
    (void)ignored;
    pleat_view_forget(allocator, view);
    return PLEAT_OK;
}

/* ---- free runs ---- */

typedef struct view_search {
    uint64_t wanted_bytes;
    pleat_view_run_t run;  /* that is being read */
    pleat_view_run_t best; /* smallest so far that suffices */
} view_search_t;

static void search_end_run(view_search_t *search)
{
    if (search->run.bytes >= search->wanted_bytes &&
        (search->best.view == NULL || search->run.bytes < search->best.bytes)) {
        search->best = search->run;
    }
    search->run.bytes = 0;
}

/* The next free bytes of the view, in rising order; they may join those before. */
static void search_add(view_search_t *search, pleat_view_t *view, uint64_t offset, uint64_t bytes)
{
    if (search->run.bytes > 0 && search->run.offset + search->run.bytes == offset) {
        search->run.bytes += bytes;
        return;
    }
    search_end_run(search);
    search->run = (pleat_view_run_t){.view = view, .offset = offset, .bytes = bytes};
}

static void search_piece(view_search_t *search, pleat_view_t *view, const pleat_piece_t *piece)
{
    const pleat_handle_t *handle = piece->handle;
    if (handle->free_bytes == 0) {
        return;
    }
    const pleat_devptr_t home = handle->arena->address + handle->offset;
    const pleat_devptr_t home_end = home + handle->bytes;
    for (const pleat_block_t *block = handle->start; block != NULL && block->address < home_end;
         block = block->right) {
        if (block->use != PLEAT_BLOCK_USE_FREE) {
            continue;
        }
        const pleat_devptr_t low = block->address > home ? block->address : home;
        const pleat_devptr_t end = block->address + block->bytes;
        search_add(search, view, piece->offset + (low - home),
                   (end < home_end ? end : home_end) - low);
    }
}

pleat_view_run_t pleat_view_find(pleat_view_t *view, uint64_t bytes)
{
    uint64_t free_bytes = 0;
    for (size_t i = 0; i < view->piece_count; i++) {
        free_bytes += view->pieces[i].handle->free_bytes;
    }
    view_search_t search = {.wanted_bytes = bytes};
    if (free_bytes < bytes) {
        return search.best;
    }
    for (size_t i = 0; i < view->piece_count; i++) {
        search_piece(&search, view, &view->pieces[i]);
    }
    search_end_run(&search);
    return search.best;
}

/* ---- taking and giving ---- */

pleat_status_t pleat_view_note_stream(pleat_view_t *view, pleat_stream_t stream)
{
    for (size_t i = 0; i < view->stream_count; i++) {
        if (view->streams[i] == stream) {
            return PLEAT_OK;
        }
    }
    pleat_stream_t *streams = realloc(view->streams, (view->stream_count + 1) * sizeof(*streams));
    if (streams == NULL) {
        pleat_error_set("no host memory for the streams of a view");
        return PLEAT_ERR_OOM_HOST;
    }
    streams[view->stream_count] = stream;
    view->streams = streams;
    view->stream_count++;
    return PLEAT_OK;
}

void pleat_view_visit(const pleat_view_t *view, uint64_t offset, uint64_t bytes,
                      pleat_view_visit_fn_t visit, void *context)
{
    const uint64_t end = offset + bytes;
    for (size_t i = 0; i < view->piece_count; i++) {
        const pleat_piece_t *piece = &view->pieces[i];
        const uint64_t piece_end = piece->offset + piece->handle->bytes;
        const uint64_t low = piece->offset > offset ? piece->offset : offset;
        const uint64_t high = piece_end < end ? piece_end : end;
        if (low < high) {
            visit(context, piece->handle, piece->handle->offset + (low - piece->offset),
                  high - low);
        }
    }
}

typedef struct view_taking {
    pleat_allocator_t *allocator;
    pleat_block_t **link; /* where the next part hangs */
} view_taking_t;

static void view_take_part(void *context, pleat_handle_t *handle, uint64_t home_offset,
                           uint64_t bytes)
{
    view_taking_t *taking = context;
    pleat_block_t *block = pleat_arena_free_block(handle->arena, home_offset);
    PLEAT_ASSERT(block != NULL);
    pleat_block_t *part =
        pleat_arena_take(taking->allocator, block, home_offset, bytes, PLEAT_BLOCK_USE_PART);
    *taking->link = part;
    taking->link = &part->child[0];
}

/* To an observer memory moves from home to the view's addresses while a block is handed out there;
 * so every byte shows once, as in a snapshot. */
static void view_trace(const pleat_allocator_t *allocator, const pleat_block_t *block,
                       pleat_action_t at_home, pleat_action_t in_view)
{
    if (allocator->observer == NULL) {
        return;
    }
    if (in_view == PLEAT_ACTION_SEGMENT_UNMAP) {
        pleat_allocator_trace(allocator, in_view, block->address, block->bytes, block->stream);
    }
    for (const pleat_block_t *part = pleat_view_next_part(block); part != NULL;
         part = pleat_view_next_part(part)) {
        pleat_allocator_trace(allocator, at_home, part->address, part->bytes, part->stream);
    }
    if (in_view == PLEAT_ACTION_SEGMENT_MAP) {
        pleat_allocator_trace(allocator, in_view, block->address, block->bytes, block->stream);
    }
}

pleat_block_t *pleat_view_take(pleat_allocator_t *allocator, pleat_view_t *view, uint64_t offset,
                               uint64_t bytes, pleat_stream_t stream)
{
    const pleat_block_identity_t identity = {
        .address = view->address + offset,
        .bytes = bytes,
        .stream = stream,
        .pool = pleat_allocator_pool(allocator, view->owner, false),
        .use = PLEAT_BLOCK_USE_LIVE};
    pleat_block_t *block = pleat_block_store_make(&allocator->blocks, &identity);
    block->view = view;
    view_taking_t taking = {.allocator = allocator, .link = &block->child[0]};
    pleat_view_visit(view, offset, bytes, view_take_part, &taking);
    view_trace(allocator, block, PLEAT_ACTION_SEGMENT_UNMAP, PLEAT_ACTION_SEGMENT_MAP);
    view->live_count++;
    view->last_used = allocator->request_count;
    return block;
}

void pleat_view_give(pleat_allocator_t *allocator, pleat_block_t *block)
{
    pleat_view_t *view = block->view;
    PLEAT_ASSERT(view->live_count > 0);
    view->live_count--;
    view->idle_since_ns = allocator->now_ns;
    view_trace(allocator, block, PLEAT_ACTION_SEGMENT_MAP, PLEAT_ACTION_SEGMENT_UNMAP);
    pleat_block_t *part = block->child[0];
    while (part != NULL) {
        pleat_block_t *next = part->child[0];
        pleat_arena_t *arena = part->arena;
        part->child[0] = NULL;
        pleat_arena_give(allocator, part);
        pleat_arena_count_split(allocator, arena);
        part = next;
    }
    block->child[0] = NULL;
    block->view = NULL;
    pleat_block_store_give(&allocator->blocks, block);
}
