/*
 * fuzz target: any bytes as a trace, in every form. What loads must come back from the compact form
 * exactly as it was read.
 */
#include "output.h"
#include "trace_binary.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static pleat_trace_t *trace_of(const void *data, size_t size)
{
    pleat_input_t *input = NULL;
    pleat_trace_t *trace = NULL;
    if (pleat_input_open_memory("fuzz", data, size, &input) == PLEAT_OK &&
        pleat_trace_load_input(input, &trace) != PLEAT_OK) {
        trace = NULL;
    }
    pleat_input_close(input);
    return trace;
}

static void require(bool is_good)
{
    if (!is_good) {
        abort();
    }
}

static void check_round_trip(const pleat_trace_t *trace)
{
    char *bytes = NULL;
    size_t byte_count = 0;
    pleat_output_t *output = NULL;
    pleat_trace_binary_writer_t *writer = NULL;
    FILE *file = open_memstream(&bytes, &byte_count);
    require(file != NULL);
    require(pleat_output_create(file, "fuzz", PLEAT_PACKING_NONE, &output) == PLEAT_OK);
    require(pleat_trace_binary_writer_create(output, &writer) == PLEAT_OK);
    for (uint64_t i = 0; i < trace->event_count; i++) {
        require(pleat_trace_binary_write(writer, &trace->events[i]) == PLEAT_OK);
    }
    require(pleat_trace_binary_finish(writer) == PLEAT_OK);
    require(pleat_output_finish(output) == PLEAT_OK);
    pleat_trace_binary_writer_destroy(writer);
    pleat_output_destroy(output);
    require(fclose(file) == 0);
    pleat_trace_t *back = trace_of(bytes, byte_count);
    require(back != NULL);
    require(back->event_count == trace->event_count);
    for (uint64_t i = 0; i < trace->event_count; i++) {
        const pleat_trace_event_t *a = &trace->events[i];
        const pleat_trace_event_t *b = &back->events[i];
        require(a->action == b->action && a->address == b->address && a->bytes == b->bytes &&
                a->stream == b->stream && a->time_us == b->time_us);
    }
    pleat_trace_destroy(back);
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pleat_trace_t *trace = trace_of(data, size);
    if (trace != NULL) {
        check_round_trip(trace);
    }
    pleat_trace_destroy(trace);
    return 0;
}
