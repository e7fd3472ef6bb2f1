/*
 * find_pointer: what is known of a live block.
 */
#include <pleat/private_pool.h>
#include <string.h>

#include "allocator.h"

/* What a snapshot shows around @p block. */
static void pointer_describe_segment(const pleat_block_t *block, pleat_pointer_info_t *info)
{
    const pleat_block_t *head = block;
    while (!pleat_block_is_head(head)) {
        head = head->left;
    }
    info->segment_address = head->address;
    for (const pleat_block_t *part = head; part != NULL && pleat_block_is_shown(part);
         part = part->right) {
        info->segment_bytes += part->bytes;
    }
}

static pleat_pointer_info_t pointer_describe(const pleat_block_t *block)
{
    pleat_pointer_info_t info = {
        .size = sizeof(info),
        .block_address = block->address,
        .block_bytes = block->bytes,
        .requested_bytes = block->requested_bytes,
        .stream = block->stream,
        .is_small = pleat_pool_is_small(block->pool),
        .is_expandable = !pleat_block_is_plain(block),
    };
    if (block->pool->owner != NULL) {
        info.pool = block->pool->owner->id;
    }
    pointer_describe_segment(block, &info);
    return info;
}

pleat_status_t pleat_find_pointer(pleat_allocator_t *allocator, pleat_devptr_t ptr,
                                  pleat_pointer_info_t *info_out)
{
    if (allocator == NULL || info_out == NULL) {
        pleat_error_set("%s: %s is NULL", __func__, allocator == NULL ? "allocator" : "info_out");
        return PLEAT_ERR_INVALID;
    }
    const size_t size = info_out->size;
    pleat_lock_acquire(&allocator->lock);
    const pleat_block_t *block = pleat_address_map_find(&allocator->live, ptr);
    pleat_pointer_info_t info = {0};
    if (block != NULL) {
        info = pointer_describe(block);
    }
    pleat_lock_release(&allocator->lock);
    if (block == NULL) {
        pleat_error_set("invalid device pointer: 0x%llx; it is not the start of a live allocation",
                        (unsigned long long)ptr);
        return PLEAT_ERR_INVALID_POINTER;
    }
    memcpy(info_out, &info, size < sizeof(info) ? size : sizeof(info));
    info_out->size = size;
    return PLEAT_OK;
}
