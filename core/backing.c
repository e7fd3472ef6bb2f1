/*
 * backing: the tables by mode, and how blocks go back by their kind.
 */
#include "backing.h"

#include "allocator.h"
#include "pleated.h"
#include "range.h"

const pleat_backing_ops_t *pleat_backing_of(pleat_mode_t mode)
{
    switch (mode) {
    case PLEAT_MODE_TORCH_EXPANDABLE:
        return pleat_backing_torch();
    case PLEAT_MODE_PLEATED:
        return pleat_backing_pleated();
    case PLEAT_MODE_CLASSIC:
    case PLEAT_MODE_COUNT:
        break;
    }
    return pleat_backing_classic();
}

bool pleat_backing_is_whole(const pleat_block_t *block)
{
    return pleat_block_is_plain(block) && !pleat_block_is_split(block);
}

pleat_status_t pleat_backing_release(pleat_allocator_t *allocator, pleat_block_t *block)
{
    return block->range == NULL ? pleat_backing_classic_release(allocator, block)
                                : pleat_range_release_block(allocator, block);
}

/* Mappings go without a wait of the device: the work on them must be over. Streams of arenas and
 * views: see pleat_pleated_discard. */
static void discard_wait(pleat_allocator_t *allocator, const pleat_block_t *block)
{
    const bool begins_range = block->range != NULL && block->left == NULL;
    if (begins_range || block->fence != NULL) {
        /* Destruction goes on when the device refuses. */
        const pleat_status_t ignored = pleat_vmm_stream_synchronize(allocator->vmm, block->stream);
        (void)ignored;
    }
}

static void discard_segment(pleat_allocator_t *allocator, const pleat_block_t *head)
{
    uint64_t bytes = 0;
    for (const pleat_block_t *block = head; block != NULL; block = block->right) {
        bytes += block->bytes;
    }
    /* Destruction goes on with the next segment when the device refuses one. */
    const pleat_status_t ignored = pleat_backing_classic_give_back(allocator, head, bytes);
    (void)ignored;
}

void pleat_backing_discard(pleat_allocator_t *allocator)
{
    for (pleat_block_slab_t *slab = allocator->blocks.slabs; slab != NULL; slab = slab->next) {
        for (size_t i = 0; i < PLEAT_BLOCKS_PER_SLAB; i++) {
            pleat_block_t *block = &slab->blocks[i];
            if (block->use == PLEAT_BLOCK_USE_UNUSED) {
                continue;
            }
            pleat_waiting_drop_uses(&allocator->waiting, block);
            discard_wait(allocator, block);
            pleat_fence_drop(allocator, block->fence);
            block->fence = NULL;
            if (pleat_block_is_plain(block) && block->left == NULL) {
                discard_segment(allocator, block);
            }
        }
    }
    pleat_pleated_discard(allocator);
    while (allocator->ranges != NULL) {
        pleat_range_discard(allocator, allocator->ranges);
    }
}
