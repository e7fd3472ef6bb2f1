/*
 * Tests of pleated_place: which place at home, in a view or in a stitch is chosen.
 */
#include "host_fault.h"
#include "pleated_bench.h"

#include <stdio.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

/* ---- at home ---- */

/* Four handles of 8 MiB. */
static pleat_arena_t *make_arena(const fixture_t *f, pleat_stream_t stream)
{
    pleat_arena_t *arena = bench_arena(f, stream);
    for (uint64_t i = 0; i < 4; i++) {
        (void)bench_handle(f, arena, 8 * i, 8);
    }
    return arena;
}

static void expect_place(const pleat_home_place_t *place, unsigned offset_mib)
{
    cr_assert(ne(ptr, place->block, NULL));
    cr_expect(eq(u64, place->offset, MIB(offset_mib)));
}

Test(pleated_place, a_full_arena_has_no_place, .timeout = 5)
{
    fixture_t f = bench_create(100, NULL);
    pleat_arena_t *arena = make_arena(&f, 0);
    cr_expect(eq(ptr, pleat_place_home(arena, MIB(33)).block, NULL));
    (void)bench_take(&f, arena, 0, 32);
    cr_expect(eq(ptr, pleat_place_home(arena, 512).block, NULL));
    fixture_check_and_destroy(&f);
}

Test(pleated_place, what_breaks_no_whole_handle_is_best, .timeout = 5)
{
    fixture_t f = bench_create(100, NULL);
    pleat_arena_t *arena = make_arena(&f, 0);
    (void)bench_take(&f, arena, 0, 4);  /* leaves 4 MiB in the first handle, joined to the second */
    (void)bench_take(&f, arena, 16, 2); /* leaves 6 and a whole one */
    /* Free: [4, 16) with a whole handle, [18, 32) with a whole handle. */
    pleat_home_place_t place = pleat_place_home(arena, MIB(4));
    expect_place(&place, 4);
    cr_expect(eq(u64, place.whole_bytes, 0));
    place = pleat_place_home(arena, MIB(6));
    expect_place(&place, 18);
    cr_expect(eq(u64, place.whole_bytes, 0));
    place = pleat_place_home(arena, MIB(12));
    expect_place(&place, 4);
    cr_expect(eq(u64, place.whole_bytes, MIB(8)));
    cr_expect(eq(u64, place.inside_bytes, MIB(8)));
    fixture_check_and_destroy(&f);
}

Test(pleated_place, the_rest_stays_at_a_border_of_handles, .timeout = 5)
{
    fixture_t f = bench_create(100, NULL);
    pleat_arena_t *arena = make_arena(&f, 0);
    (void)bench_take(&f, arena, 5, 3); /* [0, 5) begins at a border and does not end at one */
    (void)bench_take(&f, arena, 8, 24);
    const pleat_home_place_t place = pleat_place_home(arena, MIB(2));
    expect_place(&place, 3); /* at the high end, beside what is used */
    fixture_check_and_destroy(&f);
}

Test(pleated_place, a_run_inside_one_handle_is_found, .timeout = 5)
{
    fixture_t f = bench_create(100, NULL);
    pleat_arena_t *arena = make_arena(&f, 0);
    (void)bench_take(&f, arena, 10, 1);
    const pleat_handle_t *handle = arena->handles[1];
    const pleat_home_place_t low = pleat_place_in_handle(handle, MIB(2));
    expect_place(&low, 8); /* although what is free begins before it */
    const pleat_home_place_t high = pleat_place_in_handle(handle, MIB(5));
    expect_place(&high, 11); /* and goes on behind it */
    cr_expect(eq(ptr, pleat_place_in_handle(handle, MIB(6)).block, NULL));
    fixture_check_and_destroy(&f);
}

/* ---- in views ---- */

Test(pleated_place, views_are_tried_by_whose_they_are, .timeout = 5)
{
    fixture_t f = bench_create(200, NULL);
    pleat_arena_t *arena = make_arena(&f, 1);
    cr_expect(eq(ptr, pleat_place_view(f.allocator, NULL, 1, true, MIB(4)).view, NULL));
    pleat_handle_t **h = arena->handles;
    pleat_view_t *own = bench_view(&f, 1, (pleat_handle_t *[]){h[2], h[0]}, 2);
    pleat_view_t *foreign = bench_view(&f, 2, (pleat_handle_t *[]){h[3], h[1]}, 2);
    const pleat_view_place_t mine = pleat_place_view(f.allocator, NULL, 1, true, MIB(10));
    cr_expect(eq(ptr, mine.view, own));
    cr_expect(eq(u64, mine.whole_bytes, MIB(16)));
    cr_expect(eq(u64, mine.inside_bytes, MIB(10)));
    cr_expect(eq(ptr, pleat_place_view(f.allocator, NULL, 1, false, MIB(10)).view, foreign));
    cr_expect(eq(ptr, pleat_place_view(f.allocator, NULL, 1, true, MIB(17)).view, NULL));
    fixture_check_and_destroy(&f);
}

Test(pleated_place, the_view_that_breaks_least_is_chosen, .timeout = 5)
{
    fixture_t f = bench_create(200, NULL);
    pleat_arena_t *arena = make_arena(&f, 1);
    pleat_handle_t **h = arena->handles;
    (void)bench_view(&f, 1, (pleat_handle_t *[]){h[2], h[0]}, 2);
    pleat_view_t *broken = bench_view(&f, 1, (pleat_handle_t *[]){h[3], h[1]}, 2);
    (void)bench_take(&f, arena, 24, 2); /* [0, 2) of the second view */
    const pleat_view_place_t place = pleat_place_view(f.allocator, NULL, 1, true, MIB(6));
    cr_expect(eq(ptr, place.view, broken));
    cr_expect(eq(u64, place.offset, MIB(2)));
    cr_expect(eq(u64, place.whole_bytes, 0));
    fixture_check_and_destroy(&f);
}

Test(pleated_place, the_rest_of_a_view_stays_at_a_border, .timeout = 5)
{
    fixture_t f = bench_create(200, NULL);
    pleat_arena_t *arena = make_arena(&f, 1);
    pleat_handle_t **h = arena->handles;
    (void)bench_view(&f, 1, (pleat_handle_t *[]){h[2], h[0]}, 2);
    (void)bench_take(&f, arena, 5, 3); /* [13, 16) of the view: free [0, 13) */
    const pleat_view_place_t place = pleat_place_view(f.allocator, NULL, 1, true, MIB(9));
    cr_expect(eq(u64, place.offset, MIB(4)));
    fixture_check_and_destroy(&f);
}

/* ---- stitches ---- */

/* Handles of 8 MiB, each used as the row says: free MiB at its start and at its end. */
typedef struct ends {
    unsigned start;
    unsigned end;
} ends_t;

static pleat_arena_t *make_ends(const fixture_t *f, const ends_t *rows, size_t count)
{
    pleat_arena_t *arena = bench_arena(f, 0);
    for (size_t i = 0; i < count; i++) {
        (void)bench_handle(f, arena, 8 * i, 8);
        if (rows[i].start + rows[i].end < 8) {
            (void)bench_take(f, arena, 8 * i + rows[i].start, 8 - rows[i].start - rows[i].end);
        }
    }
    return arena;
}

/* The handles of a stitch by number, and where it begins. */
static const char *stitch_text(const pleat_arena_t *arena, const pleat_stitch_plan_t *plan,
                               const pleat_stitch_place_t *place)
{
    static char text[128];
    text[0] = '\0';
    if (!place->is_found) {
        return "none";
    }
    for (size_t i = 0; i < place->handle_count; i++) {
        const size_t used = strlen(text);
        (void)snprintf(text + used, sizeof(text) - used, "%u ",
                       (unsigned)pleat_arena_handle_index(arena, plan->handles[i]->offset));
    }
    const size_t used = strlen(text);
    (void)snprintf(text + used, sizeof(text) - used, "+%u", (unsigned)(place->offset / PLEAT_MIB));
    return text;
}

static void expect_stitch(const ends_t *rows, size_t count, unsigned mib, bool is_tight,
                          const char *wanted)
{
    fixture_t f = bench_create(400, NULL);
    const pleat_arena_t *arena = make_ends(&f, rows, count);
    pleat_stitch_plan_t *plan = &f.allocator->plan;
    cr_assert(eq(int, pleat_place_collect(f.allocator, NULL, 0, false, plan), PLEAT_OK));
    const pleat_stitch_place_t place = pleat_place_stitch(plan, MIB(mib), is_tight);
    cr_expect(eq(str, (char *)stitch_text(arena, plan, &place), (char *)wanted));
    fixture_check_and_destroy(&f);
}

Test(pleated_place, two_whole_handles_are_joined, .timeout = 5)
{
    static const ends_t rows[] = {{4, 4}, {0, 0}, {4, 4}, {0, 0}};
    expect_stitch(rows, 4, 16, false, "2 0 +0");
    expect_stitch(rows, 4, 17, false, "none");
}

Test(pleated_place, an_end_and_a_start_are_joined, .timeout = 5)
{
    static const ends_t rows[] = {{0, 3}, {0, 0}, {5, 0}, {0, 0}};
    expect_stitch(rows, 4, 8, false, "0 2 +5");
    expect_stitch(rows, 4, 9, false, "none");
}

Test(pleated_place, an_end_alone_may_do, .timeout = 5)
{
    static const ends_t rows[] = {{0, 7}, {0, 0}, {5, 0}, {0, 0}};
    expect_stitch(rows, 4, 6, false, "0 +1");
}

Test(pleated_place, whole_handles_lie_between_ends, .timeout = 5)
{
    static const ends_t rows[] = {{0, 4}, {0, 0}, {4, 4}, {0, 0}, {4, 0}};
    expect_stitch(rows, 5, 16, false, "0 2 4 +4");
}

Test(pleated_place, a_handle_is_in_a_view_once, .timeout = 5)
{
    /* The free end and the free start of one handle would do, but only in two views. */
    static const ends_t rows[] = {{3, 3}, {0, 0}};
    expect_stitch(rows, 2, 6, false, "none");
    expect_stitch(rows, 2, 6, true, "none");
    static const ends_t more[] = {{3, 3}, {0, 0}, {2, 0}, {0, 0}, {0, 2}};
    expect_stitch(more, 5, 5, false, "0 2 +5");
    static const ends_t whole[] = {{3, 3}, {0, 0}, {4, 4}};
    expect_stitch(whole, 3, 13, false, "none");
}

Test(pleated_place, a_start_alone_keeps_the_rest_of_the_whole_handle, .timeout = 5)
{
    static const ends_t rows[] = {{4, 4}, {0, 0}, {5, 0}};
    expect_stitch(rows, 3, 10, false, "0 2 +3");
}

Test(pleated_place, near_the_peak_free_ends_are_used_up, .timeout = 5)
{
    static const ends_t rows[] = {{8, 0}, {0, 0}, {0, 7}, {0, 0}, {7, 0}, {0, 0}, {8, 0}};
    fixture_t f = bench_create(400, NULL);
    (void)make_ends(&f, rows, 7);
    pleat_stitch_plan_t *plan = &f.allocator->plan;
    cr_assert(eq(int, pleat_place_collect(f.allocator, NULL, 0, false, plan), PLEAT_OK));
    const pleat_stitch_place_t tight = pleat_place_stitch(plan, MIB(14), true);
    cr_expect(tight.is_found);
    cr_expect(eq(u64, tight.partial_bytes, MIB(14)));
    fixture_check_and_destroy(&f);
}

Test(pleated_place, only_the_streams_memory_is_collected_or_all, .timeout = 5)
{
    fixture_t f = bench_create(200, NULL);
    (void)make_arena(&f, 1);
    pleat_arena_t *other = make_arena(&f, 2);
    (void)bench_take(&f, other, 2, 4);
    pleat_stitch_plan_t *plan = &f.allocator->plan;
    cr_assert(eq(int, pleat_place_collect(f.allocator, NULL, 1, false, plan), PLEAT_OK));
    cr_expect(eq(sz, plan->whole_count, 4));
    cr_expect(eq(sz, plan->end_count + plan->start_count, 0));
    cr_assert(eq(int, pleat_place_collect(f.allocator, NULL, 1, true, plan), PLEAT_OK));
    cr_expect(eq(sz, plan->whole_count, 7));
    cr_expect(eq(sz, plan->end_count, 1));
    cr_expect(eq(sz, plan->start_count, 1));
    cr_expect(eq(u64, plan->whole_bytes, MIB(56)));
    cr_assert(eq(int, pleat_place_collect(f.allocator, NULL, 5, false, plan), PLEAT_OK));
    cr_expect(eq(sz, plan->whole_count, 0));
    fixture_check_and_destroy(&f);
}

Test(pleated_place, a_plan_without_host_memory_is_empty, .timeout = 5)
{
    fixture_t f = bench_create(200, NULL);
    (void)make_arena(&f, 1);
    pleat_stitch_plan_t *plan = &f.allocator->plan;
    unsigned failures = 0;
    pleat_status_t status = PLEAT_ERR_OOM_HOST;
    for (unsigned nth = 1; status != PLEAT_OK; nth++) {
        pleat_stitch_plan_fini(plan);
        host_fault_after(nth);
        status = pleat_place_collect(f.allocator, NULL, 1, false, plan);
        host_fault_after(0);
        if (status != PLEAT_OK) {
            cr_expect(eq(int, status, PLEAT_ERR_OOM_HOST));
            cr_expect(not(pleat_place_stitch(plan, MIB(2), false).is_found));
            failures++;
        }
    }
    cr_expect(eq(uint, failures, 5));
    cr_expect(eq(sz, plan->whole_count, 4));
    fixture_check_and_destroy(&f);
}
