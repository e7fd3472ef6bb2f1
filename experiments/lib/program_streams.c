/*
 * program_streams: see program_streams.h.
 */
#include "program_streams.h"

#include "../../vmm/base.h"

#include <stdlib.h>

#define PLEAT_PROGRAM_STREAMS_FIRST_CAPACITY 16u

uint32_t pleat_program_stream_index(const pleat_program_t *program, pleat_stream_t stream)
{
    uint32_t first = 0;
    uint32_t count = program->stream_count;
    while (count > 1) {
        const uint32_t half = count / 2;
        if (program->streams[first + half] <= stream) {
            first += half;
            count -= half;
        } else {
            count = half;
        }
    }
    return first;
}

static pleat_status_t program_streams_no_memory(uint32_t count)
{
    pleat_error_set("no host memory for %u streams of a trace", count);
    return PLEAT_ERR_OOM_HOST;
}

/* Insert a stream at a place. */
static pleat_status_t program_streams_insert(pleat_program_t *program, uint32_t *capacity,
                                             uint32_t place, pleat_stream_t stream)
{
    if (program->stream_count == *capacity) {
        const uint32_t grown =
            *capacity == 0 ? PLEAT_PROGRAM_STREAMS_FIRST_CAPACITY : *capacity * 2;
        pleat_stream_t *streams = realloc(program->streams, grown * sizeof(*streams));
        if (streams == NULL) {
            return program_streams_no_memory(grown);
        }
        program->streams = streams;
        *capacity = grown;
    }
    for (uint32_t k = program->stream_count; k > place; k--) {
        program->streams[k] = program->streams[k - 1];
    }
    program->streams[place] = stream;
    program->stream_count++;
    return PLEAT_OK;
}

pleat_status_t pleat_program_streams_collect(pleat_program_t *program, const pleat_trace_t *trace)
{
    uint32_t capacity = 0;
    for (uint64_t i = 0; i < trace->event_count; i++) {
        const pleat_stream_t stream = trace->events[i].stream;
        uint32_t place = 0;
        if (program->stream_count > 0) {
            place = pleat_program_stream_index(program, stream);
            if (program->streams[place] == stream) {
                continue;
            }
            place += program->streams[place] < stream ? 1 : 0;
        }
        const pleat_status_t status = program_streams_insert(program, &capacity, place, stream);
        if (status != PLEAT_OK) {
            return status;
        }
    }
    return PLEAT_OK;
}

pleat_status_t pleat_program_streams_choose_handles(pleat_program_t *program,
                                                    const pleat_stream_order_t *order)
{
    const uint32_t count = program->stream_count;
    uint32_t *ranks = calloc((size_t)count + 1, sizeof(*ranks));
    program->handles = calloc((size_t)count + 1, sizeof(*program->handles));
    if (ranks == NULL || program->handles == NULL) {
        free(ranks);
        return program_streams_no_memory(count);
    }
    (void)pleat_stream_order_solve(order, count, ranks);
    for (uint32_t i = 0; i < count; i++) {
        program->handles[i] = program->streams[ranks[i]];
    }
    free(ranks);
    return PLEAT_OK;
}
