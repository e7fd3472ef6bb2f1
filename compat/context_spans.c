/*
 * context_spans: tokens of segments by address.
 */
#include "context_spans.h"

#include <stdlib.h>
#include <string.h>

enum { SPANS_FIRST_COUNT = 64 };

void pleat_context_spans_init(pleat_context_spans_t *spans, const pleat_history_hooks_t *hooks)
{
    *spans = (pleat_context_spans_t){.hooks = hooks};
}

void pleat_context_spans_fini(pleat_context_spans_t *spans)
{
    for (size_t i = 0; i < spans->count; i++) {
        pleat_token_release(spans->hooks, spans->spans[i].token);
    }
    free(spans->spans);
    pleat_context_spans_init(spans, spans->hooks);
}

/* Index of the first span that ends behind @p address. */
static size_t spans_first_behind(const pleat_context_spans_t *spans, uint64_t address)
{
    size_t low = 0;
    size_t high = spans->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (spans->spans[middle].end <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Retain the token and put the span at @p index; false: no host memory. */
static bool spans_insert(pleat_context_spans_t *spans, size_t index, pleat_context_span_t span)
{
    if (spans->count == spans->capacity) {
        const size_t capacity = spans->capacity > 0 ? 2 * spans->capacity : SPANS_FIRST_COUNT;
        pleat_context_span_t *grown = realloc(spans->spans, capacity * sizeof *grown);
        if (grown == NULL) {
            return false;
        }
        spans->spans = grown;
        spans->capacity = capacity;
    }
    pleat_token_retain(spans->hooks, span.token);
    memmove(&spans->spans[index + 1], &spans->spans[index],
            (spans->count - index) * sizeof *spans->spans);
    spans->spans[index] = span;
    spans->count++;
    return true;
}

/* Take [begin, end) out of every span. */
static void spans_cut(pleat_context_spans_t *spans, uint64_t begin, uint64_t end)
{
    size_t first = spans_first_behind(spans, begin);
    if (first < spans->count && spans->spans[first].begin < begin) {
        pleat_context_span_t *left = &spans->spans[first];
        const pleat_context_span_t right = {end, left->end, left->token};
        left->end = begin;
        first++;
        if (right.begin < right.end) {
            /* Without host memory the part behind the cut has no token. */
            (void)spans_insert(spans, first, right);
            return;
        }
    }
    size_t last = first;
    while (last < spans->count && spans->spans[last].end <= end) {
        pleat_token_release(spans->hooks, spans->spans[last].token);
        last++;
    }
    if (last < spans->count && spans->spans[last].begin < end) {
        spans->spans[last].begin = end;
    }
    if (last > first) {
        memmove(&spans->spans[first], &spans->spans[last],
                (spans->count - last) * sizeof *spans->spans);
        spans->count -= last - first;
    }
}

void pleat_context_spans_set(pleat_context_spans_t *spans, uint64_t begin, uint64_t bytes,
                             void *token)
{
    const uint64_t end = begin + bytes;
    if (begin >= end) {
        return;
    }
    if (spans->count > 0) {
        spans_cut(spans, begin, end);
    }
    if (token != NULL) {
        (void)spans_insert(spans, spans_first_behind(spans, begin),
                           (pleat_context_span_t){begin, end, token});
    }
}

void *pleat_context_spans_find(const pleat_context_spans_t *spans, uint64_t address)
{
    const size_t index = spans_first_behind(spans, address);
    return index < spans->count && spans->spans[index].begin <= address ? spans->spans[index].token
                                                                        : NULL;
}
