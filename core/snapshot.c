/*
 * snapshot: copies of all segments and blocks, by address. In pleated mode a slab shows as the
 * small blocks in it, and memory that is handed out in a view as its parts at home.
 */
#include "allocator.h"
#include "view.h"

#include <stdlib.h>

/* What is handed out of a block: of a slab its first small block, of a part the block of the view.
 */
typedef struct snapshot_link {
    pleat_devptr_t address;
    const pleat_block_t *inner;
    uint64_t offset; /* of the part in the view's block */
} snapshot_link_t;

typedef struct snapshot_index {
    const pleat_block_t **heads; /* first blocks of all segments, by address */
    size_t head_count;
    snapshot_link_t *links; /* by address */
    size_t link_count;
} snapshot_index_t;

static int snapshot_compare_heads(const void *a, const void *b)
{
    const pleat_block_t *left = *(const pleat_block_t *const *)a;
    const pleat_block_t *right = *(const pleat_block_t *const *)b;
    return (left->address > right->address) - (left->address < right->address);
}

static int snapshot_compare_links(const void *a, const void *b)
{
    const pleat_devptr_t left = ((const snapshot_link_t *)a)->address;
    const pleat_devptr_t right = ((const snapshot_link_t *)b)->address;
    return (left > right) - (left < right);
}

static bool snapshot_is_mapped(const pleat_block_t *block)
{
    return block->use != PLEAT_BLOCK_USE_UNUSED && block->use != PLEAT_BLOCK_USE_UNMAPPED;
}

/* A segment is a plain allocation or one mapped run of a range. */
static bool snapshot_is_head(const pleat_block_t *block)
{
    /* Slabs and views show up as parts of their arenas. */
    return snapshot_is_mapped(block) && block->slab == NULL && block->view == NULL &&
           (block->left == NULL || !snapshot_is_mapped(block->left));
}

/* Note what is handed out elsewhere of the home block, or blocks, of @p block. */
static void snapshot_add_links(snapshot_index_t *index, const pleat_block_t *block)
{
    if (!snapshot_is_mapped(block)) {
        return;
    }
    if (block->slab != NULL) {
        if (block->left == NULL && block->slab->view == NULL) {
            index->links[index->link_count++] =
                (snapshot_link_t){.address = block->slab->address, .inner = block};
        }
        return;
    }
    uint64_t offset = 0;
    for (const pleat_block_t *part = block->view != NULL ? pleat_view_next_part(block) : NULL;
         part != NULL; part = pleat_view_next_part(part)) {
        index->links[index->link_count++] =
            (snapshot_link_t){.address = part->address, .inner = block, .offset = offset};
        offset += part->bytes;
    }
}

static void snapshot_index_fini(snapshot_index_t *index)
{
    free((void *)index->heads);
    free(index->links);
}

/* False: no host memory. */
static bool snapshot_index_init(snapshot_index_t *index, const pleat_allocator_t *allocator)
{
    const size_t capacity = allocator->blocks.used_count + 1;
    *index = (snapshot_index_t){
        .heads = (const pleat_block_t **)calloc(capacity, sizeof(*index->heads)),
        .links = calloc(capacity, sizeof(*index->links)),
    };
    if (index->heads == NULL || index->links == NULL) {
        return false;
    }
    for (const pleat_block_slab_t *slab = allocator->blocks.slabs; slab != NULL;
         slab = slab->next) {
        for (size_t i = 0; i < PLEAT_BLOCKS_PER_SLAB; i++) {
            const pleat_block_t *block = &slab->blocks[i];
            if (snapshot_is_head(block)) {
                index->heads[index->head_count++] = block;
            }
            snapshot_add_links(index, block);
        }
    }
    PLEAT_ASSERT(index->link_count < capacity);
    qsort((void *)index->heads, index->head_count, sizeof(*index->heads), snapshot_compare_heads);
    qsort(index->links, index->link_count, sizeof(*index->links), snapshot_compare_links);
    return true;
}

/* NULL: it is handed out where it lies, if at all. */
static const snapshot_link_t *snapshot_find_link(const snapshot_index_t *index,
                                                 const pleat_block_t *block)
{
    if (block->use != PLEAT_BLOCK_USE_SLAB && block->use != PLEAT_BLOCK_USE_PART) {
        return NULL;
    }
    const snapshot_link_t wanted = {.address = block->address};
    return bsearch(&wanted, index->links, index->link_count, sizeof(wanted),
                   snapshot_compare_links);
}

static pleat_block_state_t snapshot_state(const pleat_block_t *block)
{
    switch (block->use) {
    case PLEAT_BLOCK_USE_LIVE:
    case PLEAT_BLOCK_USE_PART:
    case PLEAT_BLOCK_USE_SLAB:
        return PLEAT_BLOCK_ALLOCATED;
    case PLEAT_BLOCK_USE_WAITING:
        return PLEAT_BLOCK_PENDING_FREE;
    case PLEAT_BLOCK_USE_FREE:
    case PLEAT_BLOCK_USE_UNUSED:
    case PLEAT_BLOCK_USE_UNMAPPED:
        break;
    }
    return PLEAT_BLOCK_INACTIVE;
}

/* Append a block, and add it to the sums of its segment. */
static void snapshot_add_block(pleat_snapshot_t *snapshot, pleat_segment_info_t *segment,
                               const pleat_block_info_t *block)
{
    snapshot->blocks[snapshot->block_count++] = *block;
    segment->total_bytes += block->bytes;
    if (block->state == PLEAT_BLOCK_ALLOCATED) {
        segment->allocated_bytes += block->bytes;
    }
    if (block->state != PLEAT_BLOCK_INACTIVE) {
        segment->active_bytes += block->bytes;
        segment->requested_bytes += block->requested_bytes;
    }
}

static void snapshot_add_plain(pleat_snapshot_t *snapshot, pleat_segment_info_t *segment,
                               const pleat_block_t *block)
{
    const pleat_block_info_t info = {.address = block->address,
                                     .bytes = block->bytes,
                                     .requested_bytes = block->requested_bytes,
                                     .state = snapshot_state(block)};
    snapshot_add_block(snapshot, segment, &info);
}

/* A part of what is handed out in a view: its share of what was asked for. */
static void snapshot_add_part(pleat_snapshot_t *snapshot, pleat_segment_info_t *segment,
                              const pleat_block_t *part, const snapshot_link_t *link)
{
    const uint64_t requested = link->inner->requested_bytes;
    const uint64_t left = requested > link->offset ? requested - link->offset : 0;
    const pleat_block_info_t info = {.address = part->address,
                                     .bytes = part->bytes,
                                     .requested_bytes = left < part->bytes ? left : part->bytes,
                                     .state = snapshot_state(link->inner),
                                     .user_address = link->inner->address};
    snapshot_add_block(snapshot, segment, &info);
}

static void snapshot_add_segment(pleat_snapshot_t *snapshot, const snapshot_index_t *index,
                                 const pleat_block_t *head)
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
    for (const pleat_block_t *block = head; block != NULL && snapshot_is_mapped(block);
         block = block->right) {
        const snapshot_link_t *link = snapshot_find_link(index, block);
        if (link == NULL) {
            snapshot_add_plain(snapshot, segment, block);
        } else if (block->use == PLEAT_BLOCK_USE_PART) {
            snapshot_add_part(snapshot, segment, block, link);
        } else {
            for (const pleat_block_t *inner = link->inner; inner != NULL; inner = inner->right) {
                snapshot_add_plain(snapshot, segment, inner);
            }
        }
    }
    segment->block_count = snapshot->block_count - segment->first_block;
}

static pleat_snapshot_t *snapshot_build(const pleat_allocator_t *allocator)
{
    snapshot_index_t index;
    const bool has_index = snapshot_index_init(&index, allocator);
    pleat_snapshot_t *snapshot = calloc(1, sizeof(*snapshot));
    if (!has_index || snapshot == NULL) {
        goto err_free;
    }
    snapshot->size = sizeof(*snapshot);
    snapshot->segment_size = sizeof(*snapshot->segments);
    snapshot->block_size = sizeof(*snapshot->blocks);
    snapshot->segments = calloc(index.head_count + 1, sizeof(*snapshot->segments));
    snapshot->blocks = calloc(allocator->blocks.used_count + 1, sizeof(*snapshot->blocks));
    if (snapshot->segments == NULL || snapshot->blocks == NULL) {
        goto err_free;
    }
    for (size_t i = 0; i < index.head_count; i++) {
        snapshot_add_segment(snapshot, &index, index.heads[i]);
    }
    snapshot_index_fini(&index);
    return snapshot;

err_free:
    snapshot_index_fini(&index);
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
