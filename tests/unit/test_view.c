/*
 * Tests of view: second mappings, free runs in them, what is taken and given, and what is left when
 * the device or the host fails.
 */
#include "host_fault.h"
#include "pleated_bench.h"

#include <stdio.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

/* Three handles of 8 MiB, [0, 8) [8, 16) [24, 32), with a gap before the last. */
typedef struct layout {
    fixture_t f;
    pleat_arena_t *arena;
    pleat_handle_t *a;
    pleat_handle_t *b;
    pleat_handle_t *c;
} layout_t;

static layout_t layout_make(void)
{
    layout_t layout = {.f = bench_create(100, NULL)};
    layout.arena = bench_arena(&layout.f, 1);
    layout.a = bench_handle(&layout.f, layout.arena, 0, 8);
    layout.b = bench_handle(&layout.f, layout.arena, 8, 8);
    layout.c = bench_handle(&layout.f, layout.arena, 24, 8);
    return layout;
}

static uint64_t mappings(const fixture_t *f)
{
    pleat_sim_usage_t usage = PLEAT_SIM_USAGE_INIT;
    cr_assert(eq(int, pleat_sim_read_usage(f->vmm, &usage), PLEAT_OK));
    return usage.mappings;
}

/* ---- life ---- */

Test(view, handles_lie_side_by_side, .timeout = 5)
{
    layout_t l = layout_make();
    pleat_view_t *view = bench_view(&l.f, 4, (pleat_handle_t *[]){l.c, l.a}, 2);
    cr_expect(eq(u64, view->bytes, MIB(16)));
    cr_expect(eq(u64, view->stream, 4));
    cr_expect(eq(u64, view->pieces[1].offset, MIB(8)));
    cr_expect(eq(ptr, l.c->pieces, &view->pieces[0]));
    cr_expect(eq(ptr, l.b->pieces, NULL));
    cr_expect(eq(u64, mappings(&l.f), 5));
    const pleat_stats_t stats = fixture_stats(&l.f);
    cr_expect(eq(i64, stats.view_count, 1));
    cr_expect(eq(i64, stats.view_mappings, 2));
    fixture_check(&l.f);
    cr_expect(eq(int, pleat_view_destroy(l.f.allocator, view), PLEAT_OK));
    cr_expect(eq(ptr, l.f.allocator->views, NULL));
    cr_expect(eq(ptr, l.c->pieces, NULL));
    cr_expect(eq(u64, mappings(&l.f), 3));
    cr_expect(eq(i64, fixture_stats(&l.f).view_mappings, 0));
    fixture_check_and_destroy(&l.f);
}

Test(view, a_handle_may_be_in_many_views, .timeout = 5)
{
    layout_t l = layout_make();
    pleat_view_t *views[3];
    views[0] = bench_view(&l.f, 1, (pleat_handle_t *[]){l.a, l.b}, 2);
    views[1] = bench_view(&l.f, 1, (pleat_handle_t *[]){l.b, l.c}, 2);
    views[2] = bench_view(&l.f, 1, (pleat_handle_t *[]){l.c, l.b, l.a}, 3);
    fixture_check(&l.f);
    cr_expect(eq(int, pleat_view_destroy(l.f.allocator, views[1]), PLEAT_OK));
    fixture_check(&l.f);
    cr_expect(eq(int, pleat_view_destroy(l.f.allocator, views[2]), PLEAT_OK));
    cr_expect(eq(int, pleat_view_destroy(l.f.allocator, views[0]), PLEAT_OK));
    cr_expect(eq(u64, l.f.allocator->view_mappings, 0));
    fixture_check_and_destroy(&l.f);
}

Test(view, a_view_that_cannot_be_made_leaves_nothing, .timeout = 5)
{
    static const struct {
        pleat_vmm_call_t call;
        uint64_t nth;
    } rows[] = {{PLEAT_VMM_CALL_ADDRESS_RESERVE, 1},
                {PLEAT_VMM_CALL_MAP, 1},
                {PLEAT_VMM_CALL_MAP, 3},
                {PLEAT_VMM_CALL_SET_ACCESS, 1}};
    layout_t l = layout_make();
    pleat_handle_t *const handles[] = {l.c, l.b, l.a};
    pleat_view_t *view = NULL;
    fixture_state_t before = fixture_state(&l.f);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        fixture_fail_call(&l.f, rows[i].call, rows[i].nth, PLEAT_ERR_DRIVER);
        cr_expect(
            eq(int, pleat_view_create(l.f.allocator, 1, handles, 3, &view), PLEAT_ERR_DRIVER));
        bench_require_same(&l.f, &before);
    }
    host_fault_after(1);
    cr_expect(eq(int, pleat_view_create(l.f.allocator, 1, handles, 3, &view), PLEAT_ERR_OOM_HOST));
    host_fault_after(0);
    bench_require_same(&l.f, &before);
    cr_expect(eq(ptr, view, NULL));
    fixture_state_drop(&before);
    fixture_check_and_destroy(&l.f);
}

Test(view, a_view_that_cannot_be_unmapped_stays, .timeout = 5)
{
    layout_t l = layout_make();
    pleat_view_t *view = bench_view(&l.f, 1, (pleat_handle_t *[]){l.c, l.a}, 2);
    fixture_state_t before = fixture_state(&l.f);
    fixture_fail_call(&l.f, PLEAT_VMM_CALL_UNMAP, 1, PLEAT_ERR_DRIVER);
    cr_expect(eq(int, pleat_view_destroy(l.f.allocator, view), PLEAT_ERR_DRIVER));
    bench_require_same(&l.f, &before);
    fixture_state_drop(&before);
    cr_expect(eq(ptr, l.f.allocator->views, view));
    fixture_check_and_destroy(&l.f);
}

Test(view, addresses_that_are_not_taken_back_are_lost_alone, .timeout = 5)
{
    layout_t l = layout_make();
    pleat_view_t *view = bench_view(&l.f, 1, (pleat_handle_t *[]){l.c, l.a}, 2);
    fixture_fail_call(&l.f, PLEAT_VMM_CALL_ADDRESS_FREE, 1, PLEAT_ERR_DRIVER);
    cr_expect(eq(int, pleat_view_destroy(l.f.allocator, view), PLEAT_OK));
    cr_expect(eq(ptr, l.f.allocator->views, NULL));
    fixture_check(&l.f);
    pleat_allocator_destroy(l.f.allocator);
    pleat_sim_usage_t usage = PLEAT_SIM_USAGE_INIT;
    cr_assert(eq(int, pleat_sim_read_usage(l.f.vmm, &usage), PLEAT_OK));
    cr_expect(eq(u64, usage.ranges, 1));
    cr_expect(eq(u64, usage.mappings, 0));
    pleat_vmm_destroy(l.f.vmm);
}

/* ---- free runs ---- */

Test(view, the_smallest_run_that_suffices_is_found, .timeout = 5)
{
    layout_t l = layout_make();
    pleat_view_t *view = bench_view(&l.f, 1, (pleat_handle_t *[]){l.a, l.c, l.b}, 3);
    /* In the view: used [2, 4), [13, 14); free [0, 2), [4, 13), [14, 24). */
    (void)bench_take(&l.f, l.arena, 2, 2);
    (void)bench_take(&l.f, l.arena, 29, 1);
    static const struct {
        unsigned mib;
        unsigned offset; /* 99: none */
        unsigned run;
    } rows[] = {{1, 0, 2}, {2, 0, 2}, {3, 4, 9}, {9, 4, 9}, {10, 14, 10}, {11, 99, 0}, {25, 99, 0}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const pleat_view_run_t run = pleat_view_find(view, MIB(rows[i].mib));
        if (rows[i].offset == 99) {
            cr_expect(eq(ptr, run.view, NULL));
        } else {
            cr_expect(eq(ptr, run.view, view));
            cr_expect(eq(u64, run.offset, MIB(rows[i].offset)));
            cr_expect(eq(u64, run.bytes, MIB(rows[i].run)));
        }
    }
    fixture_check_and_destroy(&l.f);
}

Test(view, full_handles_end_runs, .timeout = 5)
{
    layout_t l = layout_make();
    pleat_view_t *view = bench_view(&l.f, 1, (pleat_handle_t *[]){l.a, l.b, l.c}, 3);
    (void)bench_take(&l.f, l.arena, 8, 8);
    cr_expect(eq(ptr, pleat_view_find(view, MIB(9)).view, NULL));
    const pleat_view_run_t run = pleat_view_find(view, MIB(8));
    cr_expect(eq(ptr, run.view, view));
    cr_expect(eq(u64, run.offset, 0));
    fixture_check_and_destroy(&l.f);
}

/* ---- taking and giving ---- */

Test(view, what_is_taken_is_taken_at_home, .timeout = 5)
{
    layout_t l = layout_make();
    pleat_view_t *view = bench_view(&l.f, 1, (pleat_handle_t *[]){l.c, l.a}, 2);
    l.f.allocator->request_count = 12;
    pleat_block_t *block = bench_take_view(&l.f, view, 5, 6);
    cr_expect(eq(u64, block->address, view->address + MIB(5)));
    cr_expect(eq(u64, block->bytes, MIB(6)));
    cr_expect(eq(int, (int)block->use, (int)PLEAT_BLOCK_USE_LIVE));
    cr_expect(eq(u64, view->live_count, 1));
    cr_expect(eq(u64, view->last_used, 12));
    cr_expect(eq(str, (char *)bench_blocks(l.arena), (char *)"p3 f13 u8 f5 p3"));
    const pleat_block_t *first = pleat_view_next_part(block);
    cr_expect(eq(u64, first->address, l.arena->address + MIB(29)));
    const pleat_block_t *second = pleat_view_next_part(first);
    cr_expect(eq(u64, second->address, l.arena->address));
    cr_expect(eq(ptr, pleat_view_next_part(second), NULL));
    pleat_view_give(l.f.allocator, block);
    cr_expect(eq(u64, view->live_count, 0));
    cr_expect(eq(str, (char *)bench_blocks(l.arena), (char *)"f16 u8 f8"));
    fixture_check_and_destroy(&l.f);
}

typedef struct visits {
    char text[128];
    const layout_t *layout;
} visits_t;

static void note_visit(void *context, pleat_handle_t *handle, uint64_t home_offset, uint64_t bytes)
{
    visits_t *visits = context;
    const size_t used = strlen(visits->text);
    const layout_t *l = visits->layout;
    const char *name = handle == l->a ? "a" : handle == l->b ? "b" : "c";
    (void)snprintf(visits->text + used, sizeof(visits->text) - used, "%s%u+%u ", name,
                   (unsigned)(home_offset / PLEAT_MIB), (unsigned)(bytes / PLEAT_MIB));
}

Test(view, the_parts_of_a_span_are_visited, .timeout = 5)
{
    static const struct {
        unsigned offset;
        unsigned mib;
        const char *visits;
    } rows[] = {{0, 24, "c24+8 a0+8 b8+8 "},
                {7, 2, "c31+1 a0+1 "},
                {8, 8, "a0+8 "},
                {9, 1, "a1+1 "},
                {20, 4, "b12+4 "}};
    layout_t l = layout_make();
    pleat_view_t *view = bench_view(&l.f, 1, (pleat_handle_t *[]){l.c, l.a, l.b}, 3);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        visits_t visits = {.layout = &l};
        pleat_view_visit(view, MIB(rows[i].offset), MIB(rows[i].mib), note_visit, &visits);
        cr_expect(eq(str, visits.text, (char *)rows[i].visits));
    }
    fixture_check_and_destroy(&l.f);
}

Test(view, each_stream_is_noted_once, .timeout = 5)
{
    layout_t l = layout_make();
    pleat_view_t *view = bench_view(&l.f, 1, (pleat_handle_t *[]){l.c, l.a}, 2);
    cr_expect(eq(int, pleat_view_note_stream(view, 3), PLEAT_OK));
    cr_expect(eq(int, pleat_view_note_stream(view, 3), PLEAT_OK));
    cr_expect(eq(sz, view->stream_count, 1));
    host_fault_after(1);
    cr_expect(eq(int, pleat_view_note_stream(view, 4), PLEAT_ERR_OOM_HOST));
    host_fault_after(0);
    cr_expect(eq(sz, view->stream_count, 1));
    cr_expect(eq(int, pleat_view_note_stream(view, 4), PLEAT_OK));
    cr_expect(eq(u64, view->streams[1], 4));
    fixture_check_and_destroy(&l.f);
}
