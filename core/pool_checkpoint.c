/*
 * pool_checkpoint: taking records of a pool, and making its blocks what they were.
 */
#include "pool_checkpoint.h"

#include <stdlib.h>
#include <string.h>

#include "allocator.h"
#include "pleated.h"
#include "range.h"
#include "retire.h"
#include "serve.h"

/* ---- the pool and its blocks ---- */

/* The pool, which must have uses; with a serial it must be that very pool. */
static pleat_status_t checkpoint_find_pool(const pleat_allocator_t *allocator, pleat_pool_id_t id,
                                           uint64_t serial, pleat_private_pool_t **pool_out)
{
    pleat_private_pool_t *pool = pleat_private_pool_find(&allocator->private_pools, id);
    if (pool == NULL || pool->use_count == 0 || (serial != 0 && pool->serial != serial)) {
        const bool is_gone = pool == NULL || pool->use_count > 0;
        pleat_error_set("private pool (%llu, %llu) %s", (unsigned long long)id.first,
                        (unsigned long long)id.second,
                        is_gone ? "is not there" : "has no use any more");
        return PLEAT_ERR_INVALID;
    }
    *pool_out = pool;
    return PLEAT_OK;
}

typedef void (*checkpoint_visit_fn_t)(void *context, pleat_block_t *block);

/* Visit all blocks of a pool, in no order. */
static void checkpoint_visit(const pleat_allocator_t *allocator, const pleat_private_pool_t *pool,
                             checkpoint_visit_fn_t visit, void *context)
{
    for (pleat_block_slab_t *slab = allocator->blocks.slabs; slab != NULL; slab = slab->next) {
        for (size_t i = 0; i < PLEAT_BLOCKS_PER_SLAB; i++) {
            pleat_block_t *block = &slab->blocks[i];
            if (block->use != PLEAT_BLOCK_USE_UNUSED && block->pool->owner == pool) {
                visit(context, block);
            }
        }
    }
}

/* What a pool consists of. */
typedef struct checkpoint_survey {
    size_t block_count;
    size_t live_count;
    const pleat_block_t *pending; /* one that waits for a stream, or would when it is freed */
} checkpoint_survey_t;

static void survey_block(void *context, pleat_block_t *block)
{
    checkpoint_survey_t *survey = context;
    survey->block_count++;
    survey->live_count += block->use == PLEAT_BLOCK_USE_LIVE;
    if (block->use == PLEAT_BLOCK_USE_WAITING) {
        survey->pending = block;
    }
}

static pleat_status_t checkpoint_refuse_pending(const pleat_block_t *block)
{
    pleat_error_set("the block at 0x%llx of the private pool %s",
                    (unsigned long long)block->address,
                    block->use == PLEAT_BLOCK_USE_WAITING
                        ? "waits for a stream"
                        : "was used by other streams, for which its free would wait");
    return PLEAT_ERR_INVALID;
}

/* ---- taking ---- */

static bool record_of_block(const pleat_block_t *block, pleat_block_record_t *record_out)
{
    const bool is_used = block->use == PLEAT_BLOCK_USE_LIVE || block->use == PLEAT_BLOCK_USE_SLAB;
    const bool is_piece = block->arena == NULL && block->view == NULL;
    if (!is_used && !(is_piece && block->use == PLEAT_BLOCK_USE_FREE)) {
        return false;
    }
    *record_out = (pleat_block_record_t){
        .address = block->address,
        .bytes = block->bytes,
        .stream = block->stream,
        .kind = is_piece              ? PLEAT_RECORD_PIECE
                : block->view != NULL ? PLEAT_RECORD_VIEW
                                      : PLEAT_RECORD_HOME,
        .is_live = block->use == PLEAT_BLOCK_USE_LIVE,
        .is_slab = block->use == PLEAT_BLOCK_USE_SLAB,
        .is_small = pleat_pool_is_small(block->pool),
        .is_first = block->left == NULL,
        .range_begin = block->range == NULL ? 0 : block->range->pages.address,
    };
    return true;
}

static void record_add(void *context, pleat_block_t *block)
{
    pleat_pool_checkpoint_t *checkpoint = context;
    checkpoint->count += record_of_block(block, &checkpoint->records[checkpoint->count]);
}

static int record_compare(const void *a, const void *b)
{
    const pleat_block_record_t *left = a;
    const pleat_block_record_t *right = b;
    if (left->address != right->address) {
        return left->address < right->address ? -1 : 1;
    }
    return (int)right->is_slab - (int)left->is_slab;
}

static pleat_status_t checkpoint_take(pleat_allocator_t *allocator, pleat_pool_id_t id,
                                      pleat_pool_checkpoint_t **checkpoint_out)
{
    pleat_private_pool_t *pool = NULL;
    pleat_status_t status = checkpoint_find_pool(allocator, id, 0, &pool);
    if (status == PLEAT_OK && !pleat_allocator_is_redirecting(allocator)) {
        /* In pleated mode captured uses get events, too, which are complete by now. */
        status = allocator->options.mode == PLEAT_MODE_PLEATED ? pleat_retire_poll(allocator)
                                                               : pleat_retire_resolve(allocator);
    }
    if (status != PLEAT_OK) {
        return status;
    }
    checkpoint_survey_t survey = {0};
    checkpoint_visit(allocator, pool, survey_block, &survey);
    if (survey.pending != NULL) {
        return checkpoint_refuse_pending(survey.pending);
    }
    pleat_pool_checkpoint_t *checkpoint =
        calloc(1, sizeof(*checkpoint) + (survey.block_count + 1) * sizeof(checkpoint->records[0]));
    if (checkpoint == NULL) {
        pleat_error_set("no host memory for a checkpoint of %zu blocks", survey.block_count);
        return PLEAT_ERR_OOM_HOST;
    }
    checkpoint->id = id;
    checkpoint->serial = pool->serial;
    checkpoint_visit(allocator, pool, record_add, checkpoint);
    qsort(checkpoint->records, checkpoint->count, sizeof(checkpoint->records[0]), record_compare);
    *checkpoint_out = checkpoint;
    return PLEAT_OK;
}

static pleat_status_t checkpoint_refuse_null(const char *function, const char *argument)
{
    pleat_error_set("%s: %s is NULL", function, argument);
    return PLEAT_ERR_INVALID;
}

pleat_status_t pleat_pool_checkpoint_take(pleat_allocator_t *allocator, pleat_pool_id_t id,
                                          pleat_pool_checkpoint_t **checkpoint_out)
{
    if (allocator == NULL || checkpoint_out == NULL) {
        return checkpoint_refuse_null(__func__, allocator == NULL ? "allocator" : "checkpoint_out");
    }
    pleat_lock_acquire(&allocator->lock);
    const pleat_status_t status = checkpoint_take(allocator, id, checkpoint_out);
    pleat_lock_release(&allocator->lock);
    return status;
}

void pleat_pool_checkpoint_destroy(pleat_pool_checkpoint_t *checkpoint)
{
    free(checkpoint);
}

/* ---- the state of a restore ---- */

typedef struct restore {
    pleat_allocator_t *allocator;
    pleat_private_pool_t *pool;
    const pleat_pool_checkpoint_t *checkpoint;
    pleat_block_t **blocks; /* of the pool, by address */
    size_t block_count;
    bool has_pieces_only; /* in blocks: mapped ones of plain segments and ranges */
    pleat_pool_delta_t delta;
} restore_t;

static void restore_add_block(void *context, pleat_block_t *block)
{
    restore_t *restore = context;
    const bool is_piece = block->arena == NULL && block->view == NULL && block->slab == NULL &&
                          block->use != PLEAT_BLOCK_USE_UNMAPPED;
    if (is_piece || !restore->has_pieces_only) {
        restore->blocks[restore->block_count++] = block;
    }
}

static int block_compare(const void *a, const void *b)
{
    const pleat_block_t *left = *(const pleat_block_t *const *)a;
    const pleat_block_t *right = *(const pleat_block_t *const *)b;
    return (left->address > right->address) - (left->address < right->address);
}

static void restore_list(restore_t *restore, bool has_pieces_only)
{
    restore->block_count = 0;
    restore->has_pieces_only = has_pieces_only;
    checkpoint_visit(restore->allocator, restore->pool, restore_add_block, restore);
    qsort((void *)restore->blocks, restore->block_count, sizeof(restore->blocks[0]), block_compare);
}

/* The piece around @p address, NULL if there is none. Pieces may have lost their low ends since
 * they were listed. */
static pleat_block_t *restore_piece(const restore_t *restore, pleat_devptr_t address)
{
    PLEAT_ASSERT(restore->has_pieces_only);
    size_t low = 0;
    size_t high = restore->block_count;
    while (low < high) { /* the first one behind the address */
        const size_t middle = low + (high - low) / 2;
        if (restore->blocks[middle]->address <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    pleat_block_t *block = low == 0 ? NULL : restore->blocks[low - 1];
    return block != NULL && address < block->address + block->bytes ? block : NULL;
}

static pleat_view_t *restore_view(const restore_t *restore, const pleat_block_record_t *record)
{
    pleat_view_t *view = restore->allocator->views;
    while (view != NULL && (view->owner != restore->pool || record->address < view->address ||
                            record->address >= view->address + view->bytes)) {
        view = view->next;
    }
    return view;
}

static pleat_arena_t *restore_arena(const restore_t *restore, const pleat_block_record_t *record)
{
    pleat_arena_t *arena = restore->allocator->arenas;
    while (arena != NULL &&
           (arena->pool.owner != restore->pool || record->address < arena->address ||
            record->address >= arena->address + arena->bytes)) {
        arena = arena->next;
    }
    return arena;
}

/* ---- what must hold before ---- */

/* Is the memory of a piece that lies in no slab still there, and of the same kind? */
static bool restore_has_piece(const restore_t *restore, const pleat_block_record_t *record)
{
    const pleat_devptr_t end = record->address + record->bytes;
    const pleat_block_t *block = restore_piece(restore, record->address);
    if (block == NULL || block->stream != record->stream ||
        pleat_pool_is_small(block->pool) != record->is_small ||
        (block->range == NULL ? 0 : block->range->pages.address) != record->range_begin ||
        (record->is_first && record->range_begin == 0 &&
         (block->left != NULL || block->address != record->address))) {
        return false;
    }
    while (block != NULL && block->use != PLEAT_BLOCK_USE_UNMAPPED &&
           block->address + block->bytes < end) {
        block = block->right;
    }
    return block != NULL && block->use != PLEAT_BLOCK_USE_UNMAPPED;
}

/* In pleated mode the memory of a pool that has uses stays, and so does that of ranges; oversize
 * segments may go. */
static pleat_status_t restore_check_memory(const restore_t *restore)
{
    const pleat_pool_checkpoint_t *checkpoint = restore->checkpoint;
    pleat_devptr_t slab_end = 0;
    for (size_t i = 0; i < checkpoint->count; i++) {
        const pleat_block_record_t *record = &checkpoint->records[i];
        if (record->is_slab) {
            slab_end = record->address + record->bytes;
        }
        if (record->kind == PLEAT_RECORD_PIECE && record->address >= slab_end &&
            !restore_has_piece(restore, record)) {
            pleat_error_set("the segment of the block at 0x%llx of the checkpoint is gone",
                            (unsigned long long)record->address);
            return PLEAT_ERR_INVALID;
        }
    }
    return PLEAT_OK;
}

/* No block may have to wait for a stream. Notes which are live. */
static pleat_status_t restore_check_blocks(restore_t *restore)
{
    for (size_t i = 0; i < restore->block_count; i++) {
        const pleat_block_t *block = restore->blocks[i];
        if (block->use == PLEAT_BLOCK_USE_WAITING || block->uses != NULL) {
            return checkpoint_refuse_pending(block);
        }
        if (block->use == PLEAT_BLOCK_USE_LIVE) {
            restore->delta.freed[restore->delta.freed_count++] = block->address;
        }
    }
    return PLEAT_OK;
}

/* ---- host memory ---- */

static pleat_status_t restore_reserve_lists(restore_t *restore)
{
    checkpoint_survey_t survey = {0};
    checkpoint_visit(restore->allocator, restore->pool, survey_block, &survey);
    pleat_pool_delta_t *delta = &restore->delta;
    restore->blocks = (pleat_block_t **)calloc(survey.block_count + 1, sizeof(restore->blocks[0]));
    delta->freed = calloc(survey.live_count + 1, sizeof(delta->freed[0]));
    delta->allocated = calloc(restore->checkpoint->count + 1, sizeof(delta->allocated[0]));
    if (restore->blocks == NULL || delta->freed == NULL || delta->allocated == NULL) {
        pleat_error_set("no host memory to restore %zu blocks", restore->checkpoint->count);
        return PLEAT_ERR_OOM_HOST;
    }
    return PLEAT_OK;
}

/* Whatever handing the records out may need. */
static pleat_status_t restore_reserve(restore_t *restore)
{
    const pleat_pool_checkpoint_t *checkpoint = restore->checkpoint;
    pleat_allocator_t *allocator = restore->allocator;
    size_t block_count = 8;
    size_t part_count = 1;
    for (size_t i = 0; i < checkpoint->count; i++) {
        const pleat_block_record_t *record = &checkpoint->records[i];
        block_count += 8;
        if (record->kind == PLEAT_RECORD_VIEW) {
            const size_t piece_count = restore_view(restore, record)->piece_count;
            block_count += 2 * piece_count;
            part_count = piece_count > part_count ? piece_count : part_count;
        }
    }
    const size_t live_count = allocator->live.used_count + checkpoint->count;
    while (allocator->live.bucket_count < live_count) {
        if (!pleat_address_map_grow(&allocator->live)) {
            pleat_error_set("no host memory for %zu live addresses", live_count);
            return PLEAT_ERR_OOM_HOST;
        }
    }
    const pleat_status_t status = pleat_block_store_require(&allocator->blocks, block_count);
    return status != PLEAT_OK ? status : pleat_fence_reserve_records(allocator, part_count);
}

/* ---- taking memory again ---- */

static void restore_free(restore_t *restore, pleat_devptr_t address)
{
    pleat_allocator_t *allocator = restore->allocator;
    pleat_block_t **link = pleat_address_map_find_link(&allocator->live, address);
    PLEAT_ASSERT(link != NULL);
    /* It has no uses, so nothing can fail. */
    const pleat_status_t status = pleat_retire_block(allocator, link);
    PLEAT_ASSERT(status == PLEAT_OK);
    (void)status;
}

static pleat_request_t restore_request(const restore_t *restore, pleat_pool_t *pool,
                                       const pleat_block_record_t *record)
{
    return (pleat_request_t){.requested_bytes = record->bytes,
                             .bytes = record->bytes,
                             .segment_bytes = record->bytes,
                             .stream = record->stream,
                             .pool = pool,
                             .backing = restore->allocator->backing};
}

/* Hand out the piece of a record, which lies in @p block, a free one of its set. */
static pleat_block_t *restore_take_piece(restore_t *restore, pleat_block_t *block,
                                         const pleat_block_record_t *record)
{
    pleat_allocator_t *allocator = restore->allocator;
    const pleat_request_t request = restore_request(restore, block->pool, record);
    PLEAT_ASSERT(block->use == PLEAT_BLOCK_USE_FREE);
    if (block->address < record->address) {
        /* Memory was mapped in front of it since. */
        pleat_range_split_free(allocator, block, record->address - block->address);
    }
    pleat_pool_take(block->pool, block);
    return pleat_serve_place(allocator, &request, block);
}

/* The home block or the view's block of a record, not yet handed out. */
static pleat_block_t *restore_take_memory(restore_t *restore, const pleat_request_t *request,
                                          const pleat_block_record_t *record)
{
    pleat_allocator_t *allocator = restore->allocator;
    pleat_block_t *block = NULL;
    pleat_status_t status = PLEAT_OK;
    if (record->kind == PLEAT_RECORD_VIEW) {
        pleat_view_t *view = restore_view(restore, record);
        status = pleat_pleated_take_view(allocator, request, view, record->address - view->address,
                                         &block);
    } else {
        const pleat_arena_t *arena = restore_arena(restore, record);
        const uint64_t offset = record->address - arena->address;
        const pleat_home_place_t place = {.block = pleat_arena_free_block(arena, offset),
                                          .offset = offset};
        status = pleat_pleated_take_home(allocator, request, &place, &block);
    }
    /* Memory of the pool needs no events, and host memory is in reserve. */
    PLEAT_ASSERT(status == PLEAT_OK);
    (void)status;
    return block;
}

/* A slab again, as one free small block. */
static pleat_block_t *restore_take_slab(restore_t *restore, const pleat_block_record_t *record)
{
    pleat_request_t large = restore_request(restore, &restore->pool->large, record);
    pleat_request_t small = restore_request(restore, &restore->pool->small, record);
    small.bins = pleat_free_set_reserve(&restore->pool->small.free_blocks, record->stream);
    PLEAT_ASSERT(small.bins != NULL); /* blocks of the slab had them */
    pleat_block_t *block = pleat_pleated_make_slab(restore->allocator, &small,
                                                   restore_take_memory(restore, &large, record));
    pleat_pool_give(block->pool, block);
    return block;
}

/* Does the group of pieces that begins at @p begin go on with the record behind @p last? A group is
 * a plain segment, what was mapped of a range, or a slab. */
static bool restore_group_goes_on(const restore_t *restore, size_t last)
{
    if (last + 1 >= restore->checkpoint->count) {
        return false;
    }
    const pleat_block_record_t *record = &restore->checkpoint->records[last];
    const pleat_block_record_t *next = record + 1;
    if (next->kind != PLEAT_RECORD_PIECE || next->range_begin != record->range_begin) {
        return false;
    }
    return next->range_begin != 0 || !next->is_first;
}

/* Hand out the pieces of a group one after the other, then free those that were free. Returns the
 * index behind the group. @p block: where the group begins; NULL: to be looked up. */
static size_t restore_group(restore_t *restore, size_t begin, pleat_block_t *block)
{
    const pleat_block_record_t *records = restore->checkpoint->records;
    size_t last = begin;
    for (;; last++) {
        const pleat_block_record_t *record = &records[last];
        if (block == NULL || record->address >= block->address + block->bytes ||
            record->address < block->address) {
            block = restore_piece(restore, record->address);
        }
        PLEAT_ASSERT(block != NULL);
        block = restore_take_piece(restore, block, record)->right;
        if (!restore_group_goes_on(restore, last)) {
            break;
        }
    }
    for (size_t i = begin; i <= last; i++) {
        if (records[i].is_live) {
            restore->delta.allocated[restore->delta.allocated_count++] = records[i].address;
        } else {
            restore_free(restore, records[i].address);
        }
    }
    return last + 1;
}

static void restore_blocks(restore_t *restore)
{
    for (uint64_t i = 0; i < restore->delta.freed_count; i++) {
        restore_free(restore, restore->delta.freed[i]);
    }
    restore_list(restore, true);
    const pleat_pool_checkpoint_t *checkpoint = restore->checkpoint;
    for (size_t i = 0; i < checkpoint->count;) {
        const pleat_block_record_t *record = &checkpoint->records[i];
        if (record->kind == PLEAT_RECORD_PIECE) {
            i = restore_group(restore, i, NULL);
        } else if (record->is_slab) {
            i = restore_group(restore, i + 1, restore_take_slab(restore, record));
        } else {
            const pleat_request_t request = restore_request(restore, &restore->pool->large, record);
            (void)pleat_serve_place(restore->allocator, &request,
                                    restore_take_memory(restore, &request, record));
            restore->delta.allocated[restore->delta.allocated_count++] = record->address;
            i++;
        }
    }
}

static pleat_status_t checkpoint_restore(pleat_allocator_t *allocator,
                                         const pleat_pool_checkpoint_t *checkpoint,
                                         pleat_pool_delta_t *delta_out)
{
    restore_t restore = {.allocator = allocator, .checkpoint = checkpoint};
    pleat_status_t status =
        checkpoint_find_pool(allocator, checkpoint->id, checkpoint->serial, &restore.pool);
    if (status == PLEAT_OK) {
        status = pleat_retire_poll(allocator);
    }
    if (status == PLEAT_OK) {
        status = restore_reserve_lists(&restore);
    }
    if (status == PLEAT_OK) {
        restore_list(&restore, false);
        status = restore_check_blocks(&restore);
    }
    if (status == PLEAT_OK) {
        restore_list(&restore, true);
        status = restore_check_memory(&restore);
    }
    if (status == PLEAT_OK) {
        status = restore_reserve(&restore);
    }
    if (status == PLEAT_OK) {
        restore_blocks(&restore);
        restore.delta.size = delta_out->size;
        *delta_out = restore.delta;
    } else {
        pleat_pool_delta_fini(&restore.delta);
    }
    free((void *)restore.blocks);
    return status;
}

pleat_status_t pleat_pool_checkpoint_restore(pleat_allocator_t *allocator,
                                             const pleat_pool_checkpoint_t *checkpoint,
                                             pleat_pool_delta_t *delta_out)
{
    if (allocator == NULL || checkpoint == NULL || delta_out == NULL) {
        return checkpoint_refuse_null(__func__, allocator == NULL    ? "allocator"
                                                : checkpoint == NULL ? "checkpoint"
                                                                     : "delta_out");
    }
    pleat_lock_acquire(&allocator->lock);
    const pleat_status_t status = checkpoint_restore(allocator, checkpoint, delta_out);
    pleat_lock_release(&allocator->lock);
    return status;
}

void pleat_pool_delta_fini(pleat_pool_delta_t *delta)
{
    if (delta == NULL) {
        return;
    }
    free(delta->freed);
    free(delta->allocated);
    delta->freed = NULL;
    delta->allocated = NULL;
    delta->freed_count = 0;
    delta->allocated_count = 0;
}
