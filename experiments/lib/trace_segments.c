/*
 * trace_segments: see trace_segments.h.
 */
#include "trace_segments.h"

#include "../../vmm/base.h"

#include <stdlib.h>
#include <string.h>

#define PLEAT_TRACE_SEGMENTS_FIRST_CAPACITY 64u

void pleat_trace_segments_fini(pleat_trace_segments_t *table)
{
    free(table->segments);
    *table = (pleat_trace_segments_t){.segments = NULL};
}

/* Number of segments that begin at or below @p address. */
static size_t trace_segments_below(const pleat_trace_segments_t *table, pleat_devptr_t address)
{
    size_t first = 0;
    size_t count = table->count;
    while (count > 0) {
        const size_t half = count / 2;
        if (table->segments[first + half].address <= address) {
            first += half + 1;
            count -= half + 1;
        } else {
            count = half;
        }
    }
    return first;
}

/* Index of the segment that @p address lies in; count when there is none. */
static size_t trace_segments_find(const pleat_trace_segments_t *table, pleat_devptr_t address)
{
    const size_t below = trace_segments_below(table, address);
    if (below == 0) {
        return table->count;
    }
    const pleat_trace_segment_t *segment = &table->segments[below - 1];
    return address - segment->address < segment->bytes ? below - 1 : table->count;
}

bool pleat_trace_segments_contain(const pleat_trace_segments_t *table, pleat_devptr_t address)
{
    return trace_segments_find(table, address) < table->count;
}

bool pleat_trace_segments_begin_block(pleat_trace_segments_t *table, pleat_devptr_t address)
{
    const size_t index = trace_segments_find(table, address);
    if (index == table->count) {
        return false;
    }
    table->idle_count -= table->segments[index].block_count == 0 ? 1 : 0;
    table->segments[index].block_count++;
    return true;
}

bool pleat_trace_segments_end_block(pleat_trace_segments_t *table, pleat_devptr_t address)
{
    const size_t index = trace_segments_find(table, address);
    if (index == table->count) {
        return false;
    }
    /* A segment that came again over blocks that were never freed knows nothing of them. */
    if (table->segments[index].block_count > 0) {
        table->segments[index].block_count--;
        table->idle_count += table->segments[index].block_count == 0 ? 1 : 0;
    }
    return true;
}

pleat_status_t pleat_trace_segments_add(pleat_trace_segments_t *table, pleat_devptr_t address,
                                        uint64_t bytes)
{
    const size_t place = trace_segments_below(table, address);
    const bool is_over_next =
        place < table->count && table->segments[place].address - address < bytes;
    if (pleat_trace_segments_contain(table, address) || is_over_next) {
        pleat_error_set("segment at %llx of %llu bytes lies over another",
                        (unsigned long long)address, (unsigned long long)bytes);
        return PLEAT_ERR_INVALID;
    }
    if (table->count == table->capacity) {
        const size_t capacity =
            table->capacity == 0 ? PLEAT_TRACE_SEGMENTS_FIRST_CAPACITY : table->capacity * 2;
        pleat_trace_segment_t *segments =
            realloc(table->segments, capacity * sizeof(*table->segments));
        if (segments == NULL) {
            pleat_error_set("no host memory for %zu segments of a trace", capacity);
            return PLEAT_ERR_OOM_HOST;
        }
        table->segments = segments;
        table->capacity = capacity;
    }
    memmove(&table->segments[place + 1], &table->segments[place],
            (table->count - place) * sizeof(*table->segments));
    table->segments[place] = (pleat_trace_segment_t){.address = address, .bytes = bytes};
    table->count++;
    table->idle_count++;
    table->reserved_bytes += bytes;
    return PLEAT_OK;
}

bool pleat_trace_segments_remove(pleat_trace_segments_t *table, pleat_devptr_t address)
{
    const size_t below = trace_segments_below(table, address);
    if (below == 0 || table->segments[below - 1].address != address) {
        return false;
    }
    table->reserved_bytes -= table->segments[below - 1].bytes;
    table->idle_count -= table->segments[below - 1].block_count == 0 ? 1 : 0;
    memmove(&table->segments[below - 1], &table->segments[below],
            (table->count - below) * sizeof(*table->segments));
    table->count--;
    return true;
}
