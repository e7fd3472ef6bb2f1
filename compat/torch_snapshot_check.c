/*
 * torch_snapshot_check: tables from the inside out.
 */
#include "torch_snapshot_check.h"

#include "vmm/base.h"

/* Does [first, first + count) lie in a table of @p all? */
static bool check_is_inside(uint64_t first, uint64_t count, uint64_t all)
{
    return first <= all && count <= all - first;
}

static bool check_is_stack(const pleat_torch_snapshot_t *snapshot, uint32_t stack)
{
    return stack == PLEAT_TORCH_STACK_ABSENT || stack < snapshot->stack_count;
}

static pleat_status_t check_refuse(const char *what, uint64_t index, const char *field,
                                   uint64_t value, uint64_t end)
{
    pleat_error_set("%s %llu of the snapshot: %s is %llu, and there are %llu", what,
                    (unsigned long long)index, field, (unsigned long long)value,
                    (unsigned long long)end);
    return PLEAT_ERR_INVALID;
}

static pleat_status_t check_stacks(const pleat_torch_snapshot_t *snapshot)
{
    if (snapshot->frame_count > PLEAT_TORCH_COUNT_MAX ||
        snapshot->stack_count > PLEAT_TORCH_COUNT_MAX) {
        pleat_error_set("the snapshot has %llu frames and %llu stacks; the most of either is %llu",
                        (unsigned long long)snapshot->frame_count,
                        (unsigned long long)snapshot->stack_count,
                        (unsigned long long)PLEAT_TORCH_COUNT_MAX);
        return PLEAT_ERR_INVALID;
    }
    for (uint64_t i = 0; i < snapshot->stack_count; i++) {
        const pleat_torch_stack_t *stack = &snapshot->stacks[i];
        if (!check_is_inside(stack->first_frame, stack->frame_count, snapshot->stack_frame_count)) {
            return check_refuse("stack", i, "first_frame", stack->first_frame,
                                snapshot->stack_frame_count);
        }
    }
    for (uint64_t i = 0; i < snapshot->stack_frame_count; i++) {
        if (snapshot->stack_frames[i] >= snapshot->frame_count) {
            return check_refuse("stack_frames", i, "the frame", snapshot->stack_frames[i],
                                snapshot->frame_count);
        }
    }
    return PLEAT_OK;
}

static pleat_status_t check_segments(const pleat_torch_snapshot_t *snapshot)
{
    for (uint64_t i = 0; i < snapshot->segment_count; i++) {
        const pleat_torch_segment_t *segment = &snapshot->segments[i];
        if (!check_is_inside(segment->first_block, segment->block_count, snapshot->block_count)) {
            return check_refuse("segment", i, "first_block", segment->first_block,
                                snapshot->block_count);
        }
        if (!check_is_stack(snapshot, segment->stack)) {
            return check_refuse("segment", i, "stack", segment->stack, snapshot->stack_count);
        }
    }
    for (uint64_t i = 0; i < snapshot->block_count; i++) {
        const pleat_torch_block_t *block = &snapshot->blocks[i];
        if (!check_is_stack(snapshot, block->stack)) {
            return check_refuse("block", i, "stack", block->stack, snapshot->stack_count);
        }
        if ((unsigned)block->state > PLEAT_BLOCK_PENDING_FREE) {
            return check_refuse("block", i, "state", (unsigned)block->state,
                                PLEAT_BLOCK_PENDING_FREE + 1);
        }
    }
    return PLEAT_OK;
}

static pleat_status_t check_history(const pleat_torch_snapshot_t *snapshot,
                                    const pleat_torch_history_t *history)
{
    for (uint64_t i = 0; i < history->entry_count; i++) {
        const pleat_torch_entry_t *entry = &history->entries[i];
        if ((unsigned)entry->action >= PLEAT_ACTION_COUNT) {
            return check_refuse("entry", i, "action", (unsigned)entry->action, PLEAT_ACTION_COUNT);
        }
        if (!check_is_stack(snapshot, entry->stack)) {
            return check_refuse("entry", i, "stack", entry->stack, snapshot->stack_count);
        }
    }
    return PLEAT_OK;
}

pleat_status_t pleat_torch_snapshot_check(const pleat_torch_snapshot_t *snapshot)
{
    pleat_status_t status = check_stacks(snapshot);
    if (status == PLEAT_OK) {
        status = check_segments(snapshot);
    }
    for (uint64_t i = 0; i < snapshot->history_count && status == PLEAT_OK; i++) {
        status = check_history(snapshot, &snapshot->histories[i]);
    }
    return status;
}
