/*
 * snapshot: copies of all segments and blocks, by address.
 */
#include "allocator.h"

#include <stdlib.h>

static int snapshot_compare_heads(const void *a, const void *b)
{
    const pleat_block_t *left = *(const pleat_block_t *const *)a;
    const pleat_block_t *right = *(const pleat_block_t *const *)b;
    return (left->address > right->address) - (left->address < right->address);
}

/* First blocks of all segments, by address; the caller frees them. NULL: no host memory. */
static const pleat_block_t **snapshot_heads(const pleat_allocator_t *allocator, size_t *count_out)
{
    const size_t capacity = allocator->blocks.used_count + 1;
    const pleat_block_t **heads = (const pleat_block_t **)calloc(capacity, sizeof(*heads));
    if (heads == NULL) {
        return NULL;
    }
    size_t count = 0;
    for (const pleat_block_slab_t *slab = allocator->blocks.slabs; slab != NULL;
         slab = slab->next) {
        for (size_t i = 0; i < PLEAT_BLOCKS_PER_SLAB; i++) {
            const pleat_block_t *block = &slab->blocks[i];
            if (pleat_block_is_head(block)) {
                heads[count++] = block;
            }
        }
    }
    qsort((void *)heads, count, sizeof(*heads), snapshot_compare_heads);
    *count_out = count;
    return heads;
}

static pleat_block_state_t snapshot_state(const pleat_block_t *block)
{
    if (block->use == PLEAT_BLOCK_USE_LIVE) {
        return PLEAT_BLOCK_ALLOCATED;
    }
    return block->use == PLEAT_BLOCK_USE_WAITING ? PLEAT_BLOCK_PENDING_FREE : PLEAT_BLOCK_INACTIVE;
}

static void snapshot_add_segment(pleat_snapshot_t *snapshot, const pleat_block_t *head)
{
    pleat_segment_info_t *segment = &snapshot->segments[snapshot->segment_count++];
    *segment = (pleat_segment_info_t){
        .address = head->address,
        .stream = head->stream,
        .is_small = pleat_pool_is_small(head->pool),
        .is_expandable = !pleat_block_is_plain(head),
        .first_block = snapshot->block_count,
    };
    if (head->pool->owner != NULL) {
        segment->pool = head->pool->owner->id;
    }
    for (const pleat_block_t *block = head; block != NULL && pleat_block_is_shown(block);
         block = block->right) {
        const pleat_block_state_t state = snapshot_state(block);
        snapshot->blocks[snapshot->block_count++] =
            (pleat_block_info_t){.address = block->address,
                                 .bytes = block->bytes,
                                 .requested_bytes = block->requested_bytes,
                                 .state = state};
        segment->total_bytes += block->bytes;
        if (state == PLEAT_BLOCK_ALLOCATED) {
            segment->allocated_bytes += block->bytes;
        }
        if (state != PLEAT_BLOCK_INACTIVE) {
            segment->active_bytes += block->bytes;
            segment->requested_bytes += block->requested_bytes;
        }
    }
    segment->block_count = snapshot->block_count - segment->first_block;
}

static pleat_snapshot_t *snapshot_build(const pleat_allocator_t *allocator)
{
    size_t head_count = 0;
    const pleat_block_t **heads = snapshot_heads(allocator, &head_count);
    pleat_snapshot_t *snapshot = calloc(1, sizeof(*snapshot));
    if (heads == NULL || snapshot == NULL) {
        goto err_free;
    }
    snapshot->size = sizeof(*snapshot);
    snapshot->segment_size = sizeof(*snapshot->segments);
    snapshot->block_size = sizeof(*snapshot->blocks);
    snapshot->segments = calloc(head_count + 1, sizeof(*snapshot->segments));
    snapshot->blocks = calloc(allocator->blocks.used_count + 1, sizeof(*snapshot->blocks));
    if (snapshot->segments == NULL || snapshot->blocks == NULL) {
        goto err_free;
    }
    for (size_t i = 0; i < head_count; i++) {
        snapshot_add_segment(snapshot, heads[i]);
    }
    free((void *)heads);
    return snapshot;

err_free:
    free((void *)heads);
    pleat_snapshot_destroy(snapshot);
    return NULL;
}

pleat_status_t pleat_snapshot_take_and(pleat_allocator_t *allocator,
                                       pleat_snapshot_visit_fn_t visit, void *context,
                                       pleat_snapshot_t **snapshot_out)
{
    pleat_status_t status = PLEAT_OK;
    pleat_lock_acquire(&allocator->lock);
    pleat_snapshot_t *snapshot = snapshot_build(allocator);
    if (snapshot != NULL && visit != NULL) {
        status = visit(context, snapshot);
    }
    pleat_lock_release(&allocator->lock);
    if (snapshot == NULL) {
        pleat_error_set("no host memory for a snapshot");
        return PLEAT_ERR_OOM_HOST;
    }
    if (status != PLEAT_OK) {
        pleat_snapshot_destroy(snapshot);
        return status;
    }
    *snapshot_out = snapshot;
    return PLEAT_OK;
}

pleat_status_t pleat_snapshot_take(pleat_allocator_t *allocator, pleat_snapshot_t **snapshot_out)
{
    if (allocator == NULL || snapshot_out == NULL) {
        pleat_error_set("%s: %s is NULL", __func__,
                        allocator == NULL ? "allocator" : "snapshot_out");
        return PLEAT_ERR_INVALID;
    }
    return pleat_snapshot_take_and(allocator, NULL, NULL, snapshot_out);
}

void pleat_snapshot_destroy(pleat_snapshot_t *snapshot)
{
    if (snapshot == NULL) {
        return;
    }
    free(snapshot->segments);
    free(snapshot->blocks);
    free(snapshot);
}
