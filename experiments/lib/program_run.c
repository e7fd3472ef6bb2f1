/*
 * program_run: see program_run.h.
 */
#include "program_run.h"

#include "../../core/size_class.h"

static uint64_t run_rounded(const pleat_run_facts_t *facts, uint64_t bytes)
{
    const bool is_request = bytes > 0 && bytes < PLEAT_REQUEST_END_BYTES;
    return is_request ? pleat_size_round(facts->options, bytes) : bytes;
}

/* Would a free block of @p bytes of this freed segment have served a request of @p rounded? */
static bool run_would_serve(const pleat_run_facts_t *facts, const pleat_trace_event_t *freed,
                            uint64_t bytes, uint64_t rounded)
{
    const pleat_options_t *options = facts->options;
    if (freed->stream != facts->request->stream || bytes < rounded) {
        return false;
    }
    const bool is_small_segment = freed->bytes == PLEAT_SMALL_SEGMENT_BYTES;
    if (freed->action == PLEAT_ACTION_SEGMENT_FREE &&
        is_small_segment != pleat_size_is_small(rounded)) {
        return false;
    }
    if (rounded < options->max_split_bytes) {
        return bytes < options->max_split_bytes;
    }
    const uint64_t slack = options->max_non_split_rounding_bytes != 0
                               ? options->max_non_split_rounding_bytes
                               : options->large_segment_bytes;
    return bytes - rounded < slack;
}

/* Largest part of a freed segment that was free while the late blocks in it still waited. */
static uint64_t run_largest_gap(const pleat_run_facts_t *facts, const pleat_trace_event_t *freed)
{
    uint64_t largest = 0;
    uint64_t begin = 0; /* offset behind the last waiting block */
    bool has_next = true;
    while (has_next && begin < freed->bytes) {
        uint64_t next = freed->bytes;
        uint64_t next_end = freed->bytes;
        has_next = false;
        for (size_t i = 0; i < facts->late_count; i++) {
            const pleat_trace_event_t *late = &facts->events[facts->late[i]];
            const uint64_t offset = late->address - freed->address;
            if (offset >= begin && offset < next) {
                next = offset;
                next_end = offset + run_rounded(facts, late->bytes);
                has_next = true;
            }
        }
        largest = next - begin > largest ? next - begin : largest;
        begin = next_end > next ? next_end : freed->bytes;
    }
    return largest;
}

/* Does @p a stand before @p b in the order of a flush: large pool, then small pool, in each by
 * stream, size and address? Handles of streams may rise otherwise than their numbers, unless
 * collection makes that order unknowable. */
static bool run_is_flush_pair(const pleat_run_facts_t *facts, const pleat_trace_event_t *a,
                              const pleat_trace_event_t *b)
{
    const bool a_is_small = a->bytes == PLEAT_SMALL_SEGMENT_BYTES;
    const bool b_is_small = b->bytes == PLEAT_SMALL_SEGMENT_BYTES;
    if (a_is_small != b_is_small) {
        return b_is_small;
    }
    if (a->stream != b->stream) {
        return facts->options->garbage_collection_threshold <= 0.0 || a->stream < b->stream;
    }
    return a->bytes < b->bytes || (a->bytes == b->bytes && a->address < b->address);
}

/* Did the run free all that a flush would have, in its order? */
static bool run_is_flush(const pleat_run_facts_t *facts)
{
    bool is_flush = facts->idle_count == 0;
    for (size_t i = 1; i < facts->freed_count && is_flush; i++) {
        is_flush = run_is_flush_pair(facts, &facts->events[facts->freed[i - 1]],
                                     &facts->events[facts->freed[i]]);
    }
    return is_flush;
}

/* Would the request, tried with the run's segments still there, have given some of them back before
 * a flush: large ones by collection, oversize ones of its stream by size? */
static bool run_is_early(const pleat_run_facts_t *facts, bool is_collected)
{
    for (size_t i = 0; i < facts->freed_count; i++) {
        const pleat_trace_event_t *freed = &facts->events[facts->freed[i]];
        if ((is_collected && freed->bytes != PLEAT_SMALL_SEGMENT_BYTES) ||
            (freed->stream == facts->request->stream &&
             freed->bytes >= facts->options->max_split_bytes)) {
            return true;
        }
    }
    return false;
}

static bool run_is_exceeded(uint64_t reserved, uint64_t wanted, uint64_t limit)
{
    return wanted > limit || reserved > limit - wanted;
}

pleat_run_reading_t pleat_program_run_read(const pleat_run_facts_t *facts,
                                           pleat_undecided_t *undecided_out)
{
    const pleat_options_t *options = facts->options;
    const pleat_trace_event_t *request = facts->request;
    const bool is_failed = request->action == PLEAT_ACTION_OOM;
    *undecided_out = PLEAT_UNDECIDED_COUNT;
    if (request->bytes == 0 || request->bytes >= PLEAT_REQUEST_END_BYTES ||
        (!facts->has_new_segment && !is_failed)) {
        return PLEAT_RUN_EMPTY_CACHE; /* the request was served from the cache, or never tried */
    }
    const uint64_t rounded = run_rounded(facts, request->bytes);
    pleat_run_reading_t in_request = PLEAT_RUN_IN_REQUEST;
    for (size_t i = 0; i < facts->freed_count; i++) {
        const pleat_trace_event_t *freed = &facts->events[facts->freed[i]];
        if (!run_would_serve(facts, freed, freed->bytes, rounded)) {
            continue;
        }
        if (run_would_serve(facts, freed, run_largest_gap(facts, freed), rounded)) {
            return PLEAT_RUN_EMPTY_CACHE;
        }
        in_request = PLEAT_RUN_IN_REQUEST_WAITED;
    }
    const uint64_t wanted = is_failed ? pleat_size_segment(options, rounded) : facts->segment_bytes;
    const bool is_collected =
        options->limit_bytes != PLEAT_NO_LIMIT && options->garbage_collection_threshold > 0.0 &&
        (double)facts->reserved_bytes >
            options->garbage_collection_threshold * (double)options->limit_bytes;
    const bool is_exceeded = is_failed ||
                             run_is_exceeded(facts->reserved_bytes, wanted, options->limit_bytes) ||
                             run_is_exceeded(facts->reserved_bytes, wanted, facts->device_bytes);
    if (is_exceeded || is_collected) {
        /* What gives back by age or size first seldom keeps to the order of a flush. */
        const bool is_flush = run_is_flush(facts);
        const bool is_early = run_is_early(facts, is_collected);
        if (is_failed || !is_flush || !is_early || facts->freed_count == 1) {
            *undecided_out = is_flush ? PLEAT_UNDECIDED_RUN_AS_RETRY : PLEAT_UNDECIDED_COUNT;
            /* Without early reclaim, that the flush waited explains all that completions at the
             * beginning of the request do, and a block that they would have made free as well. */
            const bool has_waited = is_failed || !is_early || facts->late_count == 0 ||
                                    facts->late[0] > facts->freed[0];
            return has_waited ? PLEAT_RUN_IN_REQUEST_WAITED : in_request;
        }
    }
    *undecided_out = PLEAT_UNDECIDED_RUN_AS_EMPTY_CACHE;
    return PLEAT_RUN_EMPTY_CACHE;
}
