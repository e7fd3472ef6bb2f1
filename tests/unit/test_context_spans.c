/*
 * Tests of context_spans: tokens of segments by address. A token is a counter of its references.
 */
#include "compat/context_spans.h"
#include "fixture.h"
#include "host_fault.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

static void retain(void *context, void *token)
{
    (void)context;
    ++*(int *)token;
}

static void release(void *context, void *token)
{
    (void)context;
    --*(int *)token;
}

static const pleat_history_hooks_t hooks = {
    .size = sizeof hooks, .retain = retain, .release = release};

Test(context_spans, finds_the_span_around_an_address, .timeout = 5)
{
    int token = 0;
    pleat_context_spans_t spans;
    pleat_context_spans_init(&spans, &hooks);
    cr_expect(eq(ptr, pleat_context_spans_find(&spans, 100), NULL));
    pleat_context_spans_set(&spans, 100, 50, &token);
    cr_expect(eq(ptr, pleat_context_spans_find(&spans, 99), NULL));
    cr_expect(eq(ptr, pleat_context_spans_find(&spans, 100), &token));
    cr_expect(eq(ptr, pleat_context_spans_find(&spans, 149), &token));
    cr_expect(eq(ptr, pleat_context_spans_find(&spans, 150), NULL));
    pleat_context_spans_set(&spans, 100, 0, NULL);
    cr_expect(eq(sz, spans.count, 1));
    pleat_context_spans_set(&spans, 0, 1000, NULL);
    cr_expect(eq(sz, spans.count, 0));
    cr_expect(eq(int, token, 0));
    pleat_context_spans_fini(&spans);
}

Test(context_spans, a_cut_in_the_middle_leaves_both_ends, .timeout = 5)
{
    int tokens[2] = {0, 0};
    pleat_context_spans_t spans;
    pleat_context_spans_init(&spans, &hooks);
    pleat_context_spans_set(&spans, 100, 100, &tokens[0]);
    pleat_context_spans_set(&spans, 140, 20, &tokens[1]);
    cr_expect(eq(sz, spans.count, 3));
    cr_expect(eq(int, tokens[0], 2));
    cr_expect(eq(ptr, pleat_context_spans_find(&spans, 139), &tokens[0]));
    cr_expect(eq(ptr, pleat_context_spans_find(&spans, 140), &tokens[1]));
    cr_expect(eq(ptr, pleat_context_spans_find(&spans, 160), &tokens[0]));
    pleat_context_spans_fini(&spans);
    cr_expect(eq(int, tokens[0], 0));
    cr_expect(eq(int, tokens[1], 0));
}

/* Against an array of one token a unit of address. */
Test(context_spans, agrees_with_an_array, .timeout = 20)
{
    enum { UNITS = 200, TOKENS = 9 };
    int tokens[TOKENS] = {0};
    void *want[UNITS] = {NULL};
    fixture_random_t random = {.state = 11};
    pleat_context_spans_t spans;
    pleat_context_spans_init(&spans, &hooks);
    for (int i = 0; i < 20000; i++) {
        const uint64_t begin = fixture_random_below(&random, UNITS);
        const uint64_t bytes = fixture_random_below(&random, 30) % (UNITS - begin + 1);
        const uint64_t t = fixture_random_below(&random, TOKENS + 4);
        void *token = t < TOKENS ? &tokens[t] : NULL;
        pleat_context_spans_set(&spans, begin, bytes, token);
        for (uint64_t k = begin; k < begin + bytes; k++) {
            want[k] = token;
        }
        for (uint64_t k = 0; k < UNITS; k++) {
            cr_assert(eq(ptr, pleat_context_spans_find(&spans, k), want[k]), "step %d", i);
        }
    }
    pleat_context_spans_fini(&spans);
    for (size_t t = 0; t < TOKENS; t++) {
        cr_expect(eq(int, tokens[t], 0));
    }
}

Test(context_spans, without_host_memory_a_span_has_no_token, .timeout = 5)
{
    int token = 0;
    pleat_context_spans_t spans;
    pleat_context_spans_init(&spans, &hooks);
    host_fault_after(1);
    pleat_context_spans_set(&spans, 100, 100, &token);
    cr_expect(eq(ptr, pleat_context_spans_find(&spans, 100), NULL));
    cr_expect(eq(int, token, 0));
    for (uint64_t i = 0; i < 64; i++) {
        pleat_context_spans_set(&spans, 100 * i, 100, &token);
    }
    host_fault_after(1);
    pleat_context_spans_set(&spans, 100 * UINT64_C(63) + 10, 10, NULL);
    cr_expect(eq(ptr, pleat_context_spans_find(&spans, 100 * UINT64_C(63)), &token));
    cr_expect(eq(ptr, pleat_context_spans_find(&spans, 100 * UINT64_C(63) + 50), NULL));
    cr_expect(eq(int, token, 64));
    pleat_context_spans_fini(&spans);
    cr_expect(eq(int, token, 0));
}
