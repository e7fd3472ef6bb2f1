/*
 * share: the memory behind a block, and memory of other processes and for other devices.
 */
#include "allocator.h"

#include <stdlib.h>
#include <unistd.h>

#include "range.h"

static pleat_status_t share_refuse_null(const char *function, const char *argument)
{
    pleat_error_set("%s: %s is NULL", function, argument);
    return PLEAT_ERR_INVALID;
}

/* ---- descriptions ---- */

typedef struct share_record {
    pleat_share_t share; /* first: what the caller sees */
    bool owns_files;
    pleat_share_chunk_t chunks[];
} share_record_t;

pleat_share_t *pleat_share_make(size_t chunk_count, bool owns_files)
{
    share_record_t *record = calloc(1, sizeof(*record) + chunk_count * sizeof(record->chunks[0]));
    if (record == NULL) {
        pleat_error_set("no host memory for the description of %zu chunks", chunk_count);
        return NULL;
    }
    record->owns_files = owns_files;
    record->share.size = sizeof(record->share);
    record->share.chunk_count = chunk_count;
    record->share.chunk_size = sizeof(record->chunks[0]);
    record->share.chunks = record->chunks;
    for (size_t i = 0; i < chunk_count; i++) {
        record->chunks[i].file = -1;
    }
    return &record->share;
}

void pleat_share_destroy(pleat_share_t *share)
{
    share_record_t *record = (share_record_t *)(void *)share;
    if (record == NULL) {
        return;
    }
    for (size_t i = 0; record->owns_files && i < share->chunk_count; i++) {
        if (record->chunks[i].file >= 0) {
            (void)close(record->chunks[i].file);
        }
    }
    free(record);
}

/* ---- a block's memory ---- */

/* A chunk behind a block. */
typedef struct share_part {
    pleat_chunk_t chunk;
    uint64_t bytes;
    int *file;   /* where its owner keeps the descriptor */
    bool is_new; /* made by this call */
} share_part_t;

/* The chunks behind a block, in the order of its addresses. */
typedef struct share_parts {
    size_t count;
    size_t capacity; /* 0: they are only counted */
    uint64_t offset; /* of the block in the first */
    share_part_t *parts;
} share_parts_t;

static void parts_add(share_parts_t *parts, const share_part_t *part, uint64_t offset)
{
    if (parts->count == 0) {
        parts->offset = offset;
    }
    if (parts->count < parts->capacity) {
        parts->parts[parts->count] = *part;
    }
    parts->count++;
}

static void parts_add_handle(void *context, pleat_handle_t *handle, uint64_t home_offset,
                             uint64_t bytes)
{
    (void)bytes;
    const share_part_t part = {
        .chunk = handle->chunk, .bytes = handle->bytes, .file = &handle->file};
    parts_add(context, &part, home_offset - handle->offset);
}

static void parts_add_home(share_parts_t *parts, const pleat_arena_t *arena, uint64_t begin,
                           uint64_t bytes)
{
    for (size_t i = pleat_arena_handle_index(arena, begin);
         i < arena->handle_count && arena->handles[i]->offset < begin + bytes; i++) {
        pleat_handle_t *handle = arena->handles[i];
        parts_add_handle(parts, handle, handle->offset > begin ? handle->offset : begin, bytes);
    }
}

/* False: no host memory. */
static bool parts_add_pages(share_parts_t *parts, pleat_chunked_range_t *pages, uint64_t begin,
                            uint64_t bytes)
{
    const uint64_t first = begin / pages->page_bytes;
    for (uint64_t page = first; page * pages->page_bytes < begin + bytes; page++) {
        const share_part_t part = {.chunk = pages->chunks[page],
                                   .bytes = pages->page_bytes,
                                   .file = pleat_chunked_range_file(pages, page)};
        if (part.file == NULL) {
            return false;
        }
        parts_add(parts, &part, begin - first * pages->page_bytes);
    }
    return true;
}

/* A small block lies where its slab lies. False: no host memory. */
static bool parts_add_block(share_parts_t *parts, const pleat_block_t *block)
{
    const pleat_block_t *memory = block->slab != NULL ? block->slab : block;
    if (memory->view != NULL) {
        pleat_view_visit(memory->view, block->address - memory->view->address, block->bytes,
                         parts_add_handle, parts);
        return true;
    }
    if (memory->arena != NULL) {
        parts_add_home(parts, memory->arena, block->address - memory->arena->address, block->bytes);
        return true;
    }
    return parts_add_pages(parts, &memory->range->pages,
                           block->address - memory->range->pages.address, block->bytes);
}

static pleat_status_t parts_refuse(void)
{
    pleat_error_set("no host memory to share the chunks of a block");
    return PLEAT_ERR_OOM_HOST;
}

static pleat_status_t parts_collect(share_parts_t *parts, const pleat_block_t *block)
{
    *parts = (share_parts_t){0};
    if (!parts_add_block(parts, block)) {
        return parts_refuse();
    }
    PLEAT_ASSERT(parts->count > 0); /* mapped memory has a chunk behind it */
    share_part_t *room = calloc(parts->count, sizeof(*room));
    if (room == NULL) {
        return parts_refuse();
    }
    *parts = (share_parts_t){.capacity = parts->count, .parts = room};
    const bool is_whole = parts_add_block(parts, block);
    PLEAT_ASSERT(is_whole);
    PLEAT_ASSERT(parts->count == parts->capacity);
    (void)is_whole;
    return PLEAT_OK;
}

/* Make the descriptors that are missing; on failure those that were made are closed. */
static pleat_status_t parts_export(share_parts_t *parts, pleat_vmm_t *vmm)
{
    pleat_status_t status = PLEAT_OK;
    for (size_t i = 0; i < parts->count && status == PLEAT_OK; i++) {
        share_part_t *part = &parts->parts[i];
        if (*part->file < 0) {
            status = pleat_vmm_chunk_export(vmm, part->chunk, part->file);
            part->is_new = status == PLEAT_OK;
        }
    }
    for (size_t i = 0; i < parts->count && status != PLEAT_OK; i++) {
        const share_part_t *part = &parts->parts[i];
        if (part->is_new) {
            (void)close(*part->file);
            *part->file = -1;
        }
    }
    return status;
}

static pleat_status_t share_chunks(pleat_allocator_t *allocator, const pleat_block_t *block,
                                   pleat_share_t **share_out)
{
    share_parts_t parts;
    pleat_status_t status = parts_collect(&parts, block);
    if (status != PLEAT_OK) {
        return status;
    }
    pleat_share_t *share = pleat_share_make(parts.count, false);
    status = share == NULL ? PLEAT_ERR_OOM_HOST : parts_export(&parts, allocator->vmm);
    if (status != PLEAT_OK) {
        pleat_share_destroy(share);
        free(parts.parts);
        return status;
    }
    share->kind = PLEAT_SHARE_CHUNKS;
    share->offset = parts.offset;
    share->bytes = block->bytes;
    for (size_t i = 0; i < parts.count; i++) {
        share->chunks[i] =
            (pleat_share_chunk_t){.bytes = parts.parts[i].bytes, .file = *parts.parts[i].file};
    }
    free(parts.parts);
    *share_out = share;
    return PLEAT_OK;
}

static pleat_status_t share_plain(pleat_allocator_t *allocator, const pleat_block_t *block,
                                  pleat_share_t **share_out)
{
    const pleat_private_pool_t *owner = block->pool->owner;
    if (owner != NULL && owner->source.alloc != NULL) {
        pleat_error_set(
            "the block comes from a private pool with a source of its own, which has no "
            "handle for other processes");
        return PLEAT_ERR_UNSUPPORTED;
    }
    const pleat_block_t *head = block;
    while (head->left != NULL) {
        head = head->left;
    }
    pleat_share_t *share = pleat_share_make(0, false);
    if (share == NULL) {
        return PLEAT_ERR_OOM_HOST;
    }
    const pleat_status_t status =
        pleat_vmm_ipc_export(allocator->vmm, head->address, &share->handle);
    if (status != PLEAT_OK) {
        pleat_share_destroy(share);
        return status;
    }
    share->kind = PLEAT_SHARE_PLAIN;
    share->offset = block->address - head->address;
    share->bytes = block->bytes;
    *share_out = share;
    return PLEAT_OK;
}

pleat_status_t pleat_share_block(pleat_allocator_t *allocator, pleat_devptr_t ptr,
                                 pleat_share_t **share_out)
{
    if (allocator == NULL || share_out == NULL) {
        return share_refuse_null(__func__, allocator == NULL ? "allocator" : "share_out");
    }
    pleat_lock_acquire(&allocator->lock);
    const pleat_block_t *block = pleat_address_map_find(&allocator->live, ptr);
    pleat_status_t status = PLEAT_ERR_INVALID_POINTER;
    if (block == NULL) {
        pleat_error_set("invalid device pointer: 0x%llx; it is not the start of a live allocation",
                        (unsigned long long)ptr);
    } else if (pleat_block_is_plain(block)) {
        status = share_plain(allocator, block, share_out);
    } else {
        status = share_chunks(allocator, block, share_out);
    }
    pleat_lock_release(&allocator->lock);
    return status;
}

/* ---- memory of other processes ---- */

static pleat_status_t open_sum_bytes(const pleat_share_t *share, uint64_t *bytes_out)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < share->chunk_count; i++) {
        if (share->chunks[i].bytes == 0 ||
            !pleat_add_checked(bytes, share->chunks[i].bytes, &bytes)) {
            pleat_error_set("shared memory: chunk %zu has %llu bytes", i,
                            (unsigned long long)share->chunks[i].bytes);
            return PLEAT_ERR_INVALID;
        }
    }
    if (bytes == 0) {
        pleat_error_set("shared memory: the description has no chunks");
        return PLEAT_ERR_INVALID;
    }
    *bytes_out = bytes;
    return PLEAT_OK;
}

/* Map one chunk; the mapping is then all that holds it here. */
static pleat_status_t open_map_chunk(pleat_vmm_t *vmm, const pleat_share_chunk_t *shared,
                                     pleat_devptr_t address)
{
    pleat_chunk_t chunk = 0;
    pleat_status_t status = pleat_vmm_chunk_import(vmm, shared->file, &chunk);
    if (status != PLEAT_OK) {
        return status;
    }
    status = pleat_vmm_map(vmm, address, shared->bytes, chunk);
    /* A handle that the device does not take back is lost, nothing else. */
    const pleat_status_t ignored = pleat_vmm_chunk_release(vmm, chunk);
    (void)ignored;
    return status;
}

static pleat_status_t open_map(pleat_vmm_t *vmm, const pleat_share_t *share, pleat_opened_t *opened)
{
    pleat_status_t status = open_sum_bytes(share, &opened->bytes);
    if (status == PLEAT_OK) {
        status = pleat_vmm_address_reserve(vmm, opened->bytes, &opened->base);
    }
    if (status != PLEAT_OK) {
        return status;
    }
    uint64_t mapped_bytes = 0;
    for (size_t i = 0; i < share->chunk_count && status == PLEAT_OK; i++) {
        status = open_map_chunk(vmm, &share->chunks[i], opened->base + mapped_bytes);
        mapped_bytes += status == PLEAT_OK ? share->chunks[i].bytes : 0;
    }
    if (status == PLEAT_OK) {
        status = pleat_vmm_set_access(vmm, opened->base, opened->bytes);
    }
    if (status != PLEAT_OK) {
        /* What the device does not take back is lost: the address is not used again. */
        if (mapped_bytes == 0 || pleat_vmm_unmap(vmm, opened->base, mapped_bytes) == PLEAT_OK) {
            const pleat_status_t ignored = pleat_vmm_address_free(vmm, opened->base, opened->bytes);
            (void)ignored;
        }
    }
    return status;
}

/* Where memory that begins at @p base hangs; NULL: nowhere. */
static pleat_opened_t **open_find(pleat_allocator_t *allocator, pleat_devptr_t base)
{
    pleat_opened_t **link = &allocator->opened;
    while (*link != NULL && (*link)->base != base) {
        link = &(*link)->next;
    }
    return *link == NULL ? NULL : link;
}

static pleat_status_t open_record(pleat_allocator_t *allocator, const pleat_share_t *share,
                                  pleat_devptr_t *base_out)
{
    pleat_opened_t *opened = calloc(1, sizeof(*opened));
    if (opened == NULL) {
        pleat_error_set("no host memory for a record of shared memory");
        return PLEAT_ERR_OOM_HOST;
    }
    const pleat_status_t status =
        share->kind == PLEAT_SHARE_PLAIN
            ? pleat_vmm_ipc_open(allocator->vmm, &share->handle, &opened->base)
            : open_map(allocator->vmm, share, opened);
    if (status != PLEAT_OK) {
        free(opened);
        return status;
    }
    *base_out = opened->base;
    pleat_opened_t **link = open_find(allocator, opened->base);
    if (link != NULL) {
        (*link)->open_count++;
        free(opened);
        return PLEAT_OK;
    }
    opened->open_count = 1;
    opened->next = allocator->opened;
    allocator->opened = opened;
    return PLEAT_OK;
}

pleat_status_t pleat_share_open(pleat_allocator_t *allocator, const pleat_share_t *share,
                                pleat_devptr_t *base_out)
{
    if (allocator == NULL || share == NULL || base_out == NULL) {
        return share_refuse_null(__func__, allocator == NULL ? "allocator"
                                           : share == NULL   ? "share"
                                                             : "base_out");
    }
    pleat_lock_acquire(&allocator->lock);
    const pleat_status_t status = open_record(allocator, share, base_out);
    pleat_lock_release(&allocator->lock);
    return status;
}

/* Close once; the record goes with the last time. */
static pleat_status_t open_close(pleat_allocator_t *allocator, pleat_opened_t **link)
{
    pleat_opened_t *opened = *link;
    const pleat_status_t status =
        opened->bytes == 0 ? pleat_vmm_ipc_close(allocator->vmm, opened->base)
                           : pleat_vmm_unmap(allocator->vmm, opened->base, opened->bytes);
    if (status != PLEAT_OK) {
        return status;
    }
    if (opened->bytes > 0) {
        /* Addresses that the device does not take back are lost, nothing else. */
        const pleat_status_t ignored =
            pleat_vmm_address_free(allocator->vmm, opened->base, opened->bytes);
        (void)ignored;
    }
    if (--opened->open_count == 0) {
        *link = opened->next;
        free(opened);
    }
    return PLEAT_OK;
}

pleat_status_t pleat_share_close(pleat_allocator_t *allocator, pleat_devptr_t base)
{
    if (allocator == NULL) {
        return share_refuse_null(__func__, "allocator");
    }
    pleat_lock_acquire(&allocator->lock);
    pleat_opened_t **link = open_find(allocator, base);
    pleat_status_t status = PLEAT_ERR_INVALID_POINTER;
    if (link == NULL) {
        pleat_error_set("invalid device pointer: no shared memory was opened at 0x%llx",
                        (unsigned long long)base);
    } else {
        status = open_close(allocator, link);
    }
    pleat_lock_release(&allocator->lock);
    return status;
}

void pleat_share_discard(pleat_allocator_t *allocator)
{
    while (allocator->opened != NULL) {
        pleat_opened_t *opened = allocator->opened;
        if (open_close(allocator, &allocator->opened) != PLEAT_OK) {
            allocator->opened = opened->next;
            free(opened);
        }
    }
}

/* ---- other devices ---- */

/* Access is per mapping: grant it anew, to all peers, over the mapped pages of a range. */
static pleat_status_t peer_grant_range(pleat_vmm_t *vmm, const pleat_chunked_range_t *pages)
{
    pleat_status_t status = PLEAT_OK;
    uint64_t end = 0;
    for (uint64_t page = 0; page < pages->page_count && status == PLEAT_OK; page = end + 1) {
        for (end = page; end < pages->page_count && pages->chunks[end] != 0;) {
            end++;
        }
        if (end > page) {
            status = pleat_vmm_set_access(vmm, pages->address + page * pages->page_bytes,
                                          (end - page) * pages->page_bytes);
        }
    }
    return status;
}

static pleat_status_t peer_grant_arena(pleat_vmm_t *vmm, const pleat_arena_t *arena)
{
    pleat_status_t status = PLEAT_OK;
    for (size_t i = 0; i < arena->handle_count && status == PLEAT_OK; i++) {
        status = pleat_vmm_set_access(vmm, arena->address + arena->handles[i]->offset,
                                      arena->handles[i]->bytes);
    }
    return status;
}

static pleat_status_t peer_grant_all(const pleat_allocator_t *allocator)
{
    pleat_status_t status = PLEAT_OK;
    for (const pleat_range_t *range = allocator->ranges; range != NULL && status == PLEAT_OK;
         range = range->next) {
        status = peer_grant_range(allocator->vmm, &range->pages);
    }
    for (const pleat_arena_t *arena = allocator->arenas; arena != NULL && status == PLEAT_OK;
         arena = arena->next) {
        status = peer_grant_arena(allocator->vmm, arena);
    }
    for (const pleat_view_t *view = allocator->views; view != NULL && status == PLEAT_OK;
         view = view->next) {
        status = pleat_vmm_set_access(allocator->vmm, view->address, view->bytes);
    }
    for (const pleat_opened_t *opened = allocator->opened; opened != NULL && status == PLEAT_OK;
         opened = opened->next) {
        status = opened->bytes == 0
                     ? PLEAT_OK
                     : pleat_vmm_set_access(allocator->vmm, opened->base, opened->bytes);
    }
    return status;
}

static pleat_status_t peer_enable(pleat_allocator_t *allocator, int device)
{
    uint64_t *bits = &allocator->peers[device / 64];
    const uint64_t bit = UINT64_C(1) << device % 64;
    if ((*bits & bit) != 0) {
        return PLEAT_OK;
    }
    pleat_status_t status = pleat_vmm_peer_add(allocator->vmm, device);
    if (status != PLEAT_OK) {
        return status;
    }
    status = peer_grant_all(allocator);
    if (status != PLEAT_OK) {
        const pleat_status_t ignored = pleat_vmm_peer_remove(allocator->vmm, device);
        (void)ignored;
        return status;
    }
    *bits |= bit;
    return PLEAT_OK;
}

pleat_status_t pleat_allocator_enable_peer(pleat_allocator_t *allocator, int device)
{
    if (allocator == NULL) {
        return share_refuse_null(__func__, "allocator");
    }
    if (device < 0 || device >= PLEAT_PEERS_MAX) {
        pleat_error_set("no device %d; 0 to %d can be peers", device, PLEAT_PEERS_MAX - 1);
        return PLEAT_ERR_INVALID;
    }
    pleat_lock_acquire(&allocator->lock);
    const pleat_status_t status = peer_enable(allocator, device);
    pleat_lock_release(&allocator->lock);
    return status;
}
