/*
 * unmapped_list: a sorted doubly linked list through the blocks.
 */
#include "unmapped_list.h"

static bool unmapped_precedes(const pleat_block_t *a, const pleat_block_t *b)
{
    return a->stream != b->stream ? a->stream < b->stream : a->address < b->address;
}

void pleat_unmapped_list_insert(pleat_unmapped_list_t *list, pleat_block_t *block)
{
    PLEAT_ASSERT(block->use == PLEAT_BLOCK_USE_UNMAPPED);
    pleat_block_t *before = NULL;
    pleat_block_t *behind = list->first;
    while (behind != NULL && unmapped_precedes(behind, block)) {
        before = behind;
        behind = behind->child[1];
    }
    block->child[0] = before;
    block->child[1] = behind;
    if (behind != NULL) {
        behind->child[0] = block;
    }
    if (before != NULL) {
        before->child[1] = block;
    } else {
        list->first = block;
    }
    list->count++;
}

void pleat_unmapped_list_remove(pleat_unmapped_list_t *list, pleat_block_t *block)
{
    PLEAT_ASSERT(list->count > 0);
    if (block->child[0] != NULL) {
        block->child[0]->child[1] = block->child[1];
    } else {
        PLEAT_ASSERT(list->first == block);
        list->first = block->child[1];
    }
    if (block->child[1] != NULL) {
        block->child[1]->child[0] = block->child[0];
    }
    block->child[0] = NULL;
    block->child[1] = NULL;
    list->count--;
}

pleat_block_t *pleat_unmapped_list_first(const pleat_unmapped_list_t *list, pleat_stream_t stream)
{
    pleat_block_t *block = list->first;
    while (block != NULL && block->stream < stream) {
        block = block->child[1];
    }
    return block != NULL && block->stream == stream ? block : NULL;
}

pleat_block_t *pleat_unmapped_list_next(const pleat_block_t *block)
{
    pleat_block_t *next = block->child[1];
    return next != NULL && next->stream == block->stream ? next : NULL;
}
