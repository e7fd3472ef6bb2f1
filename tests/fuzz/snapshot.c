/*
 * fuzz target: any bytes as a memory snapshot, down to the calls of its traces. What is read is
 * sound: indices lie in their tables, and a trace keeps what every trace keeps.
 */
#include "program.h"
#include "trace_check.h"
#include "trace_set.h"
#include "trace_snapshot.h"
#include "trace_text.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool is_good)
{
    if (!is_good) {
        abort();
    }
}

static void check_snapshot(const pleat_torch_snapshot_t *snapshot)
{
    for (uint64_t i = 0; i < snapshot->segment_count; i++) {
        const pleat_torch_segment_t *segment = &snapshot->segments[i];
        require(segment->first_block <= snapshot->block_count);
        require(segment->block_count <= snapshot->block_count - segment->first_block);
        require(segment->stack == PLEAT_TORCH_STACK_ABSENT ||
                segment->stack < snapshot->stack_count);
    }
    for (uint64_t i = 0; i < snapshot->block_count; i++) {
        require(snapshot->blocks[i].stack == PLEAT_TORCH_STACK_ABSENT ||
                snapshot->blocks[i].stack < snapshot->stack_count);
    }
    for (uint64_t i = 0; i < snapshot->stack_count; i++) {
        const pleat_torch_stack_t *stack = &snapshot->stacks[i];
        require(stack->first_frame <= snapshot->stack_frame_count);
        require(stack->frame_count <= snapshot->stack_frame_count - stack->first_frame);
    }
    for (uint64_t i = 0; i < snapshot->stack_frame_count; i++) {
        require(snapshot->stack_frames[i] < snapshot->frame_count);
    }
}

static void check_trace(const pleat_trace_t *trace)
{
    const pleat_options_t options = PLEAT_OPTIONS_INIT;
    pleat_program_t *program = NULL;
    require(trace->event_count > 0);
    for (uint64_t i = 0; i < trace->event_count; i++) {
        require(pleat_trace_event_fault(&trace->events[i]) == NULL);
        require(trace->events[i].stream < trace->stream_count);
    }
    require(pleat_program_create(trace, &options, 0, &program) == PLEAT_OK);
    pleat_program_destroy(program);
}

/* The beginning rebuilt, and what the engine makes of it. */
static void check_rebuilt(const pleat_torch_snapshot_t *snapshot, uint32_t device)
{
    const pleat_trace_check_options_t options = PLEAT_TRACE_CHECK_OPTIONS_INIT;
    pleat_trace_check_t check = {.differences = NULL};
    pleat_program_t *program = NULL;
    pleat_trace_t *trace = NULL;
    const pleat_status_t status =
        pleat_trace_snapshot_rebuild(snapshot, device, "fuzz", &options.allocator, &trace);
    require(status == PLEAT_OK || status == PLEAT_ERR_UNSUPPORTED);
    if (status == PLEAT_OK) {
        require(pleat_program_create(trace, &options.allocator, 0, &program) == PLEAT_OK);
        require(pleat_trace_check_run(trace, program, &options, &check) == PLEAT_OK);
    }
    pleat_program_destroy(program);
    pleat_trace_destroy(trace);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pleat_input_t *input = NULL;
    pleat_trace_set_t set = {.count = 0};
    const pleat_trace_set_options_t options = {.memory_bytes = UINT64_C(64) << 20};
    if (pleat_input_open_memory("fuzz", data, size, &input) == PLEAT_OK &&
        pleat_trace_set_load_input(input, &options, &set) == PLEAT_OK) {
        if (set.snapshot != NULL) {
            check_snapshot(set.snapshot);
        }
        for (size_t i = 0; i < set.count; i++) {
            check_trace(set.traces[i]);
            if (set.snapshot != NULL) {
                check_rebuilt(set.snapshot, set.traces[i]->origin.device);
            }
        }
    }
    pleat_trace_set_fini(&set);
    pleat_input_close(input);
    return 0;
}
