/*
 * Tests of span_tree: order, fits and overlaps against a plain array, reuse of nodes.
 */
#include "vmm/span_tree.h"

#include "host_fault.h"

#include <signal.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

typedef struct fixture {
    pleat_span_pool_t pool;
    pleat_span_tree_t tree;
} fixture_t;

static fixture_t fixture_create(void)
{
    fixture_t f = {.tree = {.root = 0}};
    pleat_span_pool_init(&f.pool);
    return f;
}

static void insert(fixture_t *f, uint64_t begin, uint64_t bytes)
{
    cr_assert(eq(int, pleat_span_pool_reserve(&f->pool, 1), PLEAT_OK));
    pleat_span_insert(&f->pool, &f->tree, (pleat_span_t){begin, bytes});
}

Test(span_tree, an_empty_tree_finds_nothing, .timeout = 10)
{
    fixture_t f = fixture_create();
    pleat_span_t span = {1, 2};
    cr_expect(not(pleat_span_find_at_or_below(&f.pool, &f.tree, 5, &span)));
    cr_expect(not(pleat_span_find_at_or_above(&f.pool, &f.tree, 5, &span)));
    cr_expect(not(pleat_span_find_lowest_fit(&f.pool, &f.tree, 1, &span)));
    cr_expect(not(pleat_span_find_highest_fit(&f.pool, &f.tree, 1, &span)));
    cr_expect(not(pleat_span_find_overlap(&f.pool, &f.tree, (pleat_span_t){0, 9}, &span)));
    cr_expect(eq(u64, span.begin, 1));
    pleat_span_pool_fini(&f.pool);
}

Test(span_tree, fits_come_from_the_low_and_the_high_end, .timeout = 10)
{
    fixture_t f = fixture_create();
    pleat_span_t span = {0, 0};
    insert(&f, 100, 10);
    insert(&f, 200, 30);
    insert(&f, 300, 20);
    insert(&f, 400, 30);
    insert(&f, 500, 5);
    cr_assert(pleat_span_find_lowest_fit(&f.pool, &f.tree, 11, &span));
    cr_expect(eq(u64, span.begin, 200));
    cr_assert(pleat_span_find_highest_fit(&f.pool, &f.tree, 11, &span));
    cr_expect(eq(u64, span.begin, 400));
    cr_assert(pleat_span_find_highest_fit(&f.pool, &f.tree, 1, &span));
    cr_expect(eq(u64, span.begin, 500));
    cr_expect(not(pleat_span_find_lowest_fit(&f.pool, &f.tree, 31, &span)));
    cr_expect(not(pleat_span_find_highest_fit(&f.pool, &f.tree, 31, &span)));
    pleat_span_pool_fini(&f.pool);
}

Test(span_tree, overlap_means_a_common_byte, .timeout = 10)
{
    fixture_t f = fixture_create();
    pleat_span_t span = {0, 0};
    insert(&f, 100, 50);
    insert(&f, 200, 50);
    cr_expect(not(pleat_span_find_overlap(&f.pool, &f.tree, (pleat_span_t){150, 50}, &span)));
    cr_expect(not(pleat_span_find_overlap(&f.pool, &f.tree, (pleat_span_t){0, 100}, &span)));
    cr_assert(pleat_span_find_overlap(&f.pool, &f.tree, (pleat_span_t){149, 1}, &span));
    cr_expect(eq(u64, span.begin, 100));
    cr_assert(pleat_span_find_overlap(&f.pool, &f.tree, (pleat_span_t){150, 51}, &span));
    cr_expect(eq(u64, span.begin, 200));
    cr_assert(pleat_span_find_overlap(&f.pool, &f.tree, (pleat_span_t){0, 1000}, &span));
    cr_expect(eq(u64, span.begin, 100));
    pleat_span_pool_fini(&f.pool);
}

Test(span_tree, reserve_without_host_memory_changes_nothing, .timeout = 10)
{
    fixture_t f = fixture_create();
    host_fault_after(1);
    cr_expect(eq(int, pleat_span_pool_reserve(&f.pool, 1), PLEAT_ERR_OOM_HOST));
    cr_expect(ne(ptr, strstr(pleat_last_error(), "address spans"), NULL));
    insert(&f, 1, 1);
    host_fault_after(1);
    cr_expect(eq(int, pleat_span_pool_reserve(&f.pool, 1000), PLEAT_ERR_OOM_HOST));
    pleat_span_t span = {0, 0};
    cr_expect(pleat_span_find_at_or_below(&f.pool, &f.tree, 1, &span));
    cr_expect(eq(int, pleat_span_pool_reserve(&f.pool, UINT32_MAX), PLEAT_ERR_OOM_HOST));
    pleat_span_pool_fini(&f.pool);
}

Test(span_tree, removed_nodes_are_used_again, .timeout = 10)
{
    fixture_t f = fixture_create();
    for (uint64_t i = 0; i < 1000; i++) {
        insert(&f, i * 10, 10);
        pleat_span_remove(&f.pool, &f.tree, i * 10);
    }
    cr_expect(eq(int, (int)f.tree.count, 0));
    cr_expect(lt(int, (int)f.pool.capacity, 200));
    pleat_span_pool_fini(&f.pool);
}

#define CELLS 64u

/* Spans live in cells of 100 bytes, so that a plain array can answer the same questions. */
static void expect_same_answers(const fixture_t *f, const uint64_t *cell_bytes, uint64_t bytes,
                                uint64_t address)
{
    uint64_t want[4] = {0, 0, 0, 0}; /* begin + 1 of each answer; 0: none */
    for (uint64_t i = 0; i < CELLS; i++) {
        if (cell_bytes[i] == 0) {
            continue;
        }
        const uint64_t mark = 100 * i + 1;
        if (cell_bytes[i] >= bytes) {
            want[0] = want[0] == 0 ? mark : want[0];
            want[1] = mark;
        }
        if (100 * i <= address) {
            want[2] = mark;
        }
        if (100 * i >= address && want[3] == 0) {
            want[3] = mark;
        }
    }
    pleat_span_t spans[4];
    const bool is_found[4] = {
        pleat_span_find_lowest_fit(&f->pool, &f->tree, bytes, &spans[0]),
        pleat_span_find_highest_fit(&f->pool, &f->tree, bytes, &spans[1]),
        pleat_span_find_at_or_below(&f->pool, &f->tree, address, &spans[2]),
        pleat_span_find_at_or_above(&f->pool, &f->tree, address, &spans[3]),
    };
    for (int i = 0; i < 4; i++) {
        cr_assert(eq(u64, is_found[i] ? spans[i].begin + 1 : 0, want[i]));
    }
}

Test(span_tree, answers_as_a_plain_array_does, .timeout = 20)
{
    fixture_t f = fixture_create();
    uint64_t cell_bytes[CELLS] = {0};
    uint64_t state = 12345;
    for (int step = 0; step < 5000; step++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        const uint64_t cell = (state >> 33) % CELLS;
        const uint64_t bytes = (state >> 45) % 100 + 1;
        if (cell_bytes[cell] == 0) {
            cell_bytes[cell] = bytes;
            insert(&f, 100 * cell, bytes);
        } else {
            cell_bytes[cell] = 0;
            pleat_span_remove(&f.pool, &f.tree, 100 * cell);
        }
        expect_same_answers(&f, cell_bytes, (state >> 20) % 101 + 1, (state >> 13) % 6500);
    }
    pleat_span_pool_fini(&f.pool);
}

#if PLEAT_CHECKS >= PLEAT_CHECKS_FAST
Test(span_tree, inserting_without_a_node_is_caught, .timeout = 10, .signal = SIGABRT)
{
    fixture_t f = fixture_create();
    pleat_span_insert(&f.pool, &f.tree, (pleat_span_t){1, 1});
}
#endif
