/*
 * context_spans (internal): the tokens of the device calls that made memory, by address span. A
 * device call that takes part of a span away cuts it.
 *
 * A sorted array: spans are few, and change only beside a call to the device. It holds one
 * reference to the token of each span. Guarded by the lock of the owning history.
 *
 * Invariant: spans are in order of address, do not overlap, and none is empty or without token.
 */
#ifndef PLEAT_INTERNAL_CONTEXT_SPANS_H
#define PLEAT_INTERNAL_CONTEXT_SPANS_H

#include "history_token.h"

typedef struct pleat_context_span {
    uint64_t begin;
    uint64_t end;
    void *token;
} pleat_context_span_t;

typedef struct pleat_context_spans {
    const pleat_history_hooks_t *hooks;
    pleat_context_span_t *spans;
    size_t count;
    size_t capacity;
} pleat_context_spans_t;

void pleat_context_spans_init(pleat_context_spans_t *spans, const pleat_history_hooks_t *hooks);
void pleat_context_spans_fini(pleat_context_spans_t *spans);

/* Retain @p token for the span, in place of whatever is there; NULL only cuts. Without host memory
 * the span has none. O(spans). */
void pleat_context_spans_set(pleat_context_spans_t *spans, uint64_t begin, uint64_t bytes,
                             void *token);

/* Token of the span around @p address, NULL if there is none. O(log spans). */
void *pleat_context_spans_find(const pleat_context_spans_t *spans, uint64_t address);

#endif
