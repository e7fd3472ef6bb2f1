/*
 * Tests of backing_pleated: in which order a request looks for memory, what it waits for, and that
 * no memory is missed before an out of memory.
 */
#include "core/backing.h"
#include "core/serve.h"

#include "host_fault.h"
#include "pleated_bench.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

static pleat_block_t *live(const fixture_t *f, pleat_devptr_t ptr)
{
    return pleat_address_map_find(&f->allocator->live, ptr);
}

static uint64_t reserved(const fixture_t *f)
{
    return (uint64_t)fixture_stats(f).reserved_bytes[PLEAT_STAT_ALL].current;
}

static uint64_t waits(const fixture_t *f)
{
    pleat_vmm_counters_t counters = PLEAT_VMM_COUNTERS_INIT;
    pleat_vmm_read_counters(f->vmm, &counters);
    return counters.waits;
}

static fixture_t make_with_mappings(uint64_t capacity_mib, uint64_t mappings)
{
    pleat_options_t options = bench_options();
    options.pleated_view_mappings = mappings;
    return bench_create(capacity_mib, &options);
}

/* Four blocks of a chunk each; the first and the third are freed. */
static void make_gaps(const fixture_t *f, pleat_devptr_t *p)
{
    for (unsigned i = 0; i < 4; i++) {
        p[i] = fixture_alloc(f, MIB(16), 0);
    }
    fixture_free(f, p[0]);
    fixture_free(f, p[2]);
}

/* ---- the order of the search ---- */

Test(backing_pleated, free_memory_at_home_is_taken_first, .timeout = 5)
{
    fixture_t f = bench_create(256, NULL);
    pleat_devptr_t p[4];
    make_gaps(&f, p);
    cr_expect(eq(u64, fixture_alloc(&f, MIB(16), 0), p[0]));
    cr_expect(eq(u64, fixture_alloc(&f, MIB(10), 0), p[2]));
    cr_expect(eq(u64, reserved(&f), MIB(64)));
    fixture_check_and_destroy(&f);
}

Test(backing_pleated, gaps_are_joined_in_a_view, .timeout = 5)
{
    fixture_t f = bench_create(256, NULL);
    pleat_devptr_t p[4];
    make_gaps(&f, p);
    const pleat_devptr_t a = fixture_alloc(&f, MIB(32), 0);
    cr_expect(ne(ptr, live(&f, a)->view, NULL));
    cr_expect(eq(u64, reserved(&f), MIB(64)));
    const pleat_stats_t stats = fixture_stats(&f);
    cr_expect(eq(i64, stats.stitched_bytes, (int64_t)MIB(32)));
    cr_expect(eq(i64, stats.num_alloc_retries, 0));
    /* The next one of the size needs no call of the device. */
    fixture_free(&f, a);
    const uint64_t maps = fixture_calls(&f, PLEAT_VMM_CALL_MAP);
    cr_expect(eq(u64, fixture_alloc(&f, MIB(32), 0), a));
    cr_expect(eq(u64, fixture_calls(&f, PLEAT_VMM_CALL_MAP), maps));
    fixture_check_and_destroy(&f);
}

Test(backing_pleated, beyond_the_peak_as_little_as_possible_is_new, .timeout = 5)
{
    fixture_t f = bench_create(256, NULL);
    pleat_devptr_t p[4];
    make_gaps(&f, p);
    (void)fixture_alloc(&f, MIB(40), 0); /* 32 lie free, 64 + 8 are needed at least */
    cr_expect(eq(u64, reserved(&f), MIB(72)));
    fixture_check_and_destroy(&f);
}

/* The free end of one chunk, new memory, and the free start of another. */
Test(backing_pleated, beyond_the_peak_ends_are_used_up, .timeout = 5)
{
    fixture_t f = bench_create(256, NULL);
    pleat_arena_t *arena = bench_arena(&f, 0);
    (void)bench_handle(&f, arena, 0, 16);
    (void)bench_handle(&f, arena, 16, 2);
    (void)bench_handle(&f, arena, 18, 16);
    (void)bench_take(&f, arena, 0, 8);
    (void)bench_take(&f, arena, 16, 2);
    (void)bench_take(&f, arena, 26, 8);
    f.allocator->live_peak_bytes = MIB(40);
    const pleat_devptr_t a = fixture_alloc(&f, MIB(40), 0);
    cr_assert(ne(ptr, live(&f, a)->view, NULL));
    cr_expect(eq(sz, live(&f, a)->view->piece_count, 4));
    cr_expect(eq(u64, reserved(&f), MIB(34 + 24)));
    fixture_check_and_destroy(&f);
}

/* More than is needed does not fit on the device; what is needed does. */
Test(backing_pleated, the_exact_size_is_tried_before_giving_up, .timeout = 5)
{
    fixture_t f = bench_create(4104, NULL);
    pleat_arena_t *arena = bench_arena(&f, 0);
    (void)bench_handle(&f, arena, 0, 4098);
    (void)bench_take(&f, arena, 0, 4098);
    f.allocator->live_peak_bytes = MIB(4096);
    (void)fixture_alloc(&f, MIB(2), 0);
    cr_expect(eq(u64, reserved(&f), MIB(4100)));
    cr_expect(eq(i64, fixture_stats(&f).num_alloc_retries, 0));
    fixture_check_and_destroy(&f);
}

Test(backing_pleated, memory_of_other_streams_is_taken_behind_a_wait, .timeout = 5)
{
    fixture_t f = bench_create(256, NULL);
    fixture_set_limit(&f, MIB(64));
    fixture_free(&f, fixture_alloc(&f, MIB(64), 1));
    fixture_set_busy(&f, 1);
    const uint64_t before = waits(&f);
    const pleat_devptr_t a = fixture_alloc(&f, MIB(64), 2);
    pleat_stats_t stats = fixture_stats(&f);
    cr_expect(eq(i64, stats.cross_stream_takes, 1));
    cr_expect(eq(i64, stats.event_waits, 1));
    fixture_free(&f, a);
    fixture_free(&f, fixture_alloc(&f, MIB(64), 1)); /* and back, behind a wait for stream 2 */
    stats = fixture_stats(&f);
    cr_expect(eq(i64, stats.event_waits, 2));
    cr_expect(eq(u64, waits(&f), before)); /* never the host */
    cr_expect(eq(i64, stats.num_alloc_retries, 0));
    fixture_check_and_destroy(&f);
}

Test(backing_pleated, memory_that_waits_is_not_taken, .timeout = 5)
{
    fixture_t f = bench_create(256, NULL);
    const pleat_devptr_t a = fixture_alloc(&f, MIB(32), 0);
    fixture_record(&f, a, 1);
    fixture_set_busy(&f, 1);
    fixture_free(&f, a);
    cr_expect(ne(u64, fixture_alloc(&f, MIB(32), 0), a));
    fixture_set_done(&f, 1);
    cr_expect(eq(u64, fixture_alloc(&f, MIB(32), 0), a));
    fixture_check_and_destroy(&f);
}

/* ---- small requests ---- */

Test(backing_pleated, small_requests_share_a_slab, .timeout = 5)
{
    fixture_t f = bench_create(256, NULL);
    const pleat_devptr_t a = fixture_alloc(&f, 1000, 0);
    const pleat_devptr_t b = fixture_alloc(&f, 5000, 0);
    cr_expect(eq(ptr, live(&f, a)->slab, live(&f, b)->slab));
    pleat_stats_t stats = fixture_stats(&f);
    cr_expect(eq(i64, stats.reserved_bytes[PLEAT_STAT_SMALL_POOL].current, (int64_t)MIB(2)));
    cr_expect(eq(i64, stats.allocation[PLEAT_STAT_SMALL_POOL].current, 2));
    fixture_free(&f, a);
    fixture_free(&f, b);
    stats = fixture_stats(&f);
    cr_expect(eq(i64, stats.reserved_bytes[PLEAT_STAT_SMALL_POOL].current, 0));
    cr_expect(eq(i64, stats.inactive_split[PLEAT_STAT_ALL].current, 0));
    /* The slab is large memory again. */
    (void)fixture_alloc(&f, MIB(2), 0);
    cr_expect(eq(u64, reserved(&f), MIB(2)));
    fixture_check_and_destroy(&f);
}

Test(backing_pleated, a_slab_may_lie_in_another_streams_memory, .timeout = 5)
{
    fixture_t f = bench_create(256, NULL);
    fixture_set_limit(&f, MIB(32));
    fixture_free(&f, fixture_alloc(&f, MIB(32), 1));
    const pleat_devptr_t a = fixture_alloc(&f, 1000, 2);
    cr_expect(eq(i64, fixture_stats(&f).cross_stream_takes, 1));
    const pleat_block_t *slab = live(&f, a)->slab;
    cr_expect(eq(u64, slab->arena->stream, 1));
    fixture_check(&f);
    fixture_set_busy(&f, 2);
    fixture_free(&f, a);
    (void)fixture_alloc(&f, MIB(32), 1);
    cr_expect(eq(i64, fixture_stats(&f).event_waits, 2)); /* there, and back */
    fixture_check_and_destroy(&f);
}

Test(backing_pleated, ranges_of_torch_mode_are_left_alone, .timeout = 5)
{
    pleat_options_t options = bench_options();
    options.mode = PLEAT_MODE_TORCH_EXPANDABLE;
    fixture_t f = bench_create(256, &options);
    fixture_free(&f, fixture_alloc(&f, MIB(40), 0));
    fixture_free(&f, fixture_alloc(&f, 1000, 0));
    fixture_free(&f, fixture_alloc(&f, 1000, 1));
    options.mode = PLEAT_MODE_PLEATED;
    fixture_set_options(&f, &options);
    cr_expect(ne(ptr, live(&f, fixture_alloc(&f, MIB(40), 0))->arena, NULL));
    cr_expect(ne(ptr, live(&f, fixture_alloc(&f, 1000, 0))->slab, NULL));
    fixture_check_and_destroy(&f);
}

Test(backing_pleated, plain_segments_are_used_on, .timeout = 5)
{
    pleat_options_t options = bench_options();
    options.mode = PLEAT_MODE_CLASSIC;
    fixture_t f = bench_create(256, &options);
    const pleat_devptr_t a = fixture_alloc(&f, MIB(40), 0);
    fixture_free(&f, a);
    options.mode = PLEAT_MODE_PLEATED;
    fixture_set_options(&f, &options);
    cr_expect(eq(u64, fixture_alloc(&f, MIB(30), 0), a));
    cr_expect(eq(u64, fixture_alloc(&f, MIB(10), 0), a + MIB(30)));
    cr_expect(eq(u64, reserved(&f), MIB(40)));
    fixture_check_and_destroy(&f);
}

/* ---- the budget of mappings ---- */

Test(backing_pleated, views_used_longest_ago_make_room, .timeout = 5)
{
    fixture_t f = make_with_mappings(256, 2);
    pleat_devptr_t p[6];
    for (unsigned i = 0; i < 6; i++) {
        p[i] = fixture_alloc(&f, MIB(16), 0);
    }
    fixture_free(&f, p[0]);
    fixture_free(&f, p[2]);
    fixture_free(&f, fixture_alloc(&f, MIB(32), 0));
    (void)fixture_alloc(&f, MIB(16), 0);
    fixture_free(&f, p[4]);
    (void)fixture_alloc(&f, MIB(32), 0);
    const pleat_stats_t stats = fixture_stats(&f);
    cr_expect(eq(i64, stats.view_count, 1));
    cr_expect(eq(i64, stats.view_mappings, 2));
    cr_expect(eq(i64, stats.stitched_bytes, (int64_t)MIB(64)));
    cr_expect(eq(u64, reserved(&f), MIB(96)));
    fixture_check_and_destroy(&f);
}

Test(backing_pleated, a_view_that_is_in_use_is_not_evicted, .timeout = 5)
{
    fixture_t f = make_with_mappings(256, 2);
    pleat_devptr_t p[6];
    for (unsigned i = 0; i < 6; i++) {
        p[i] = fixture_alloc(&f, MIB(16), 0);
    }
    fixture_free(&f, p[0]);
    fixture_free(&f, p[2]);
    fixture_free(&f, fixture_alloc(&f, MIB(32), 0));
    (void)fixture_alloc(&f, MIB(16), 0);
    fixture_set_busy(&f, 0); /* work may still use the addresses of the view */
    fixture_free(&f, p[4]);
    const pleat_view_t *view = f.allocator->views;
    (void)fixture_alloc(&f, MIB(32), 0);
    cr_expect(eq(ptr, f.allocator->views, (void *)view));
    fixture_check_and_destroy(&f);
}

/* Without mappings for a view there is still room behind the memory. */
Test(backing_pleated, without_mappings_memory_grows_in_one_piece, .timeout = 5)
{
    fixture_t f = make_with_mappings(256, 1);
    pleat_devptr_t p[4];
    make_gaps(&f, p);
    (void)fixture_alloc(&f, MIB(40), 0);
    const pleat_stats_t stats = fixture_stats(&f);
    cr_expect(eq(i64, stats.view_count, 0));
    cr_expect(eq(i64, stats.num_alloc_retries, 0));
    cr_expect(eq(u64, reserved(&f), MIB(104)));
    fixture_check_and_destroy(&f);
}

/* Near the peak a view is found; a better stitch asks for more mappings than there can be, and the
 * idle view is given up for it: the request must not get the view. */
Test(backing_pleated, a_view_that_was_given_up_is_not_used, .timeout = 5)
{
    fixture_t f = make_with_mappings(400, 2);
    pleat_arena_t *arena = bench_arena(&f, 0);
    /* Chunks with their use: [0, 12) used, [12, 32) free; guard; whole; guard; [80, 100) free,
     * [100, 112) used; guard; whole; guard. */
    pleat_handle_t *whole[2];
    (void)bench_handle(&f, arena, 0, 32);
    (void)bench_handle(&f, arena, 32, 8);
    whole[0] = bench_handle(&f, arena, 40, 32);
    (void)bench_handle(&f, arena, 72, 8);
    (void)bench_handle(&f, arena, 80, 32);
    (void)bench_handle(&f, arena, 112, 8);
    whole[1] = bench_handle(&f, arena, 120, 32);
    (void)bench_handle(&f, arena, 152, 8);
    (void)bench_take(&f, arena, 0, 12);
    (void)bench_take(&f, arena, 32, 8);
    (void)bench_take(&f, arena, 72, 8);
    (void)bench_take(&f, arena, 100, 20);
    (void)bench_take(&f, arena, 152, 8);
    (void)bench_view(&f, 0, (pleat_handle_t *[]){whole[1], whole[0]}, 2);
    const uint64_t ranges = fixture_calls(&f, PLEAT_VMM_CALL_ADDRESS_RESERVE);
    f.allocator->live_peak_bytes = MIB(64);
    const pleat_devptr_t a = fixture_alloc(&f, MIB(64), 0);
    cr_assert(ne(ptr, live(&f, a)->view, NULL));
    cr_expect(eq(ptr, live(&f, a)->view, f.allocator->views));
    cr_expect(eq(u64, fixture_calls(&f, PLEAT_VMM_CALL_ADDRESS_RESERVE), ranges + 1));
    fixture_check_and_destroy(&f);
}

/* ---- what must not be missed, lost or given up ---- */

Test(backing_pleated, a_failed_request_leaves_the_peak, .timeout = 5)
{
    fixture_t f = bench_create(256, NULL);
    (void)fixture_alloc(&f, MIB(64), 0);
    const uint64_t peak = f.allocator->live_peak_bytes;
    pleat_devptr_t ptr = 0;
    cr_expect(eq(int, pleat_alloc(f.allocator, MIB(1024), 0, &ptr), PLEAT_ERR_OOM_DEVICE));
    cr_expect(eq(int, pleat_alloc_single(f.allocator, MIB(1024), 0, &ptr), PLEAT_ERR_OOM_DEVICE));
    cr_expect(eq(u64, f.allocator->live_peak_bytes, peak));
    fixture_check_and_destroy(&f);
}

/* Growth in one piece needs 6 MiB of chunks more than a view does; the limit allows for the view.
 */
Test(backing_pleated, the_last_bytes_below_the_limit_are_used, .timeout = 5)
{
    pleat_options_t options = PLEAT_OPTIONS_INIT;
    options.mode = PLEAT_MODE_PLEATED;
    options.limit_bytes = MIB(48);
    fixture_t f = bench_create(256, &options);
    const pleat_devptr_t a = fixture_alloc(&f, MIB(10), 0);
    (void)fixture_alloc(&f, MIB(32), 0);
    fixture_free(&f, a);
    (void)fixture_alloc(&f, MIB(6), 0);
    (void)fixture_alloc(&f, MIB(10), 0); /* 4 lie free, 6 may be got */
    cr_expect(eq(u64, reserved(&f), MIB(48)));
    fixture_check_and_destroy(&f);
}

Test(backing_pleated, many_streams_have_addresses, .timeout = 20)
{
    pleat_options_t options = PLEAT_OPTIONS_INIT;
    options.mode = PLEAT_MODE_PLEATED;
    fixture_t f = fixture_create(&(fixture_options_t){.options = &options});
    for (pleat_stream_t stream = 0; stream < 1000; stream++) {
        (void)fixture_alloc(&f, MIB(4), stream);
    }
    (void)fixture_alloc(&f, MIB(2048), 1000); /* more than such an arena has otherwise */
    cr_expect(eq(i64, fixture_stats(&f).num_ooms, 0));
    pleat_allocator_destroy(f.allocator);
    pleat_vmm_destroy(f.vmm);
}

/* Without views, other streams' chunks are given back, and the free end behind the stream's memory
 * counts. */
Test(backing_pleated, a_trade_counts_the_free_end, .timeout = 5)
{
    pleat_options_t options = PLEAT_OPTIONS_INIT;
    options.mode = PLEAT_MODE_PLEATED;
    options.pleated_view_mappings = 0;
    options.limit_bytes = MIB(46);
    fixture_t f = bench_create(256, &options);
    fixture_free(&f, fixture_alloc(&f, MIB(16), 0));
    const pleat_devptr_t other = fixture_alloc(&f, MIB(30), 1);
    (void)fixture_alloc(&f, MIB(6), 0);
    fixture_free(&f, other);
    (void)fixture_alloc(&f, MIB(36), 0);
    cr_expect(eq(i64, fixture_stats(&f).num_ooms, 0));
    fixture_check_and_destroy(&f);
}

Test(backing_pleated, a_request_in_one_chunk_gives_back_no_more_than_needed, .timeout = 5)
{
    pleat_options_t options = PLEAT_OPTIONS_INIT;
    options.mode = PLEAT_MODE_PLEATED;
    options.limit_bytes = MIB(100);
    fixture_t f = bench_create(256, &options);
    pleat_devptr_t p[6];
    for (unsigned i = 0; i < 6; i++) {
        cr_assert(eq(int, pleat_alloc_single(f.allocator, MIB(10), 0, &p[i]), PLEAT_OK));
    }
    for (unsigned i = 0; i < 6; i++) {
        fixture_free(&f, p[i]);
    }
    pleat_devptr_t ptr = 0;
    cr_expect(eq(int, pleat_alloc_single(f.allocator, MIB(400), 0, &ptr), PLEAT_ERR_OOM_DEVICE));
    cr_expect(eq(u64, reserved(&f), MIB(60)));
    cr_assert(eq(int, pleat_alloc_single(f.allocator, MIB(42), 0, &ptr), PLEAT_OK));
    cr_expect(eq(u64, reserved(&f), MIB(92)));
    fixture_check_and_destroy(&f);
}

/* Six blocks of a chunk each at the peak; below it an idle view serves again without the device. */
Test(backing_pleated, below_the_peak_views_are_used_again, .timeout = 5)
{
    fixture_t f = bench_create(256, NULL);
    pleat_devptr_t p[6];
    for (unsigned i = 0; i < 6; i++) {
        p[i] = fixture_alloc(&f, MIB(16), 0);
    }
    fixture_free(&f, p[0]);
    fixture_free(&f, p[2]);
    fixture_free(&f, p[4]);
    const pleat_devptr_t a = fixture_alloc(&f, MIB(32), 0);
    fixture_free(&f, a);
    const uint64_t maps = fixture_calls(&f, PLEAT_VMM_CALL_MAP);
    cr_expect(eq(u64, fixture_alloc(&f, MIB(32), 0), a));
    cr_expect(eq(u64, fixture_calls(&f, PLEAT_VMM_CALL_MAP), maps));
    fixture_check_and_destroy(&f);
}

Test(backing_pleated, near_the_peak_a_view_that_breaks_nothing_is_taken, .timeout = 5)
{
    fixture_t f = bench_create(256, NULL);
    pleat_arena_t *arena = bench_arena(&f, 0);
    pleat_handle_t *handles[2];
    handles[0] = bench_handle(&f, arena, 0, 16);
    (void)bench_handle(&f, arena, 16, 2);
    handles[1] = bench_handle(&f, arena, 18, 16);
    (void)bench_take(&f, arena, 0, 4);
    (void)bench_take(&f, arena, 16, 2);
    (void)bench_take(&f, arena, 30, 4);
    const pleat_view_t *view = bench_view(&f, 0, handles, 2);
    f.allocator->live_peak_bytes = MIB(20);
    const pleat_devptr_t a = fixture_alloc(&f, MIB(20), 0);
    cr_expect(eq(u64, a, view->address + MIB(4)));
    fixture_check_and_destroy(&f);
}

/* ---- in one chunk ---- */

Test(backing_pleated, one_chunk_holds_all, .timeout = 5)
{
    fixture_t f = bench_create(256, NULL);
    pleat_devptr_t p[4];
    make_gaps(&f, p);
    pleat_devptr_t single = 0;
    cr_assert(eq(int, pleat_alloc_single(f.allocator, MIB(20), 0, &single), PLEAT_OK));
    const pleat_block_t *block = live(&f, single);
    cr_assert(ne(ptr, block->arena, NULL));
    const pleat_arena_t *arena = block->arena;
    const uint64_t offset = block->address - arena->address;
    const pleat_handle_t *handle = arena->handles[pleat_arena_handle_index(arena, offset)];
    cr_expect(ge(u64, offset, handle->offset));
    cr_expect(le(u64, offset + block->bytes, handle->offset + handle->bytes));
    pleat_devptr_t small = 0;
    cr_assert(eq(int, pleat_alloc_single(f.allocator, 1000, 0, &small), PLEAT_OK));
    cr_expect(eq(ptr, live(&f, small)->slab, NULL));
    fixture_check_and_destroy(&f);
}

Test(backing_pleated, for_one_chunk_idle_ones_are_given_back, .timeout = 5)
{
    fixture_t f = bench_create(64, NULL);
    pleat_devptr_t p[4];
    make_gaps(&f, p);
    pleat_devptr_t single = 0;
    cr_assert(eq(int, pleat_alloc_single(f.allocator, MIB(32), 0, &single), PLEAT_OK));
    cr_expect(eq(i64, fixture_stats(&f).num_alloc_retries, 0));
    cr_expect(eq(u64, waits(&f), 0));
    fixture_check_and_destroy(&f);
}

/* Only as a retry does the host wait for the work on them. */
Test(backing_pleated, for_one_chunk_the_host_waits_last, .timeout = 5)
{
    fixture_t f = bench_create(64, NULL);
    pleat_devptr_t p[4];
    make_gaps(&f, p);
    fixture_set_busy(&f, 0);
    pleat_devptr_t single = 0;
    cr_assert(eq(int, pleat_alloc_single(f.allocator, MIB(32), 0, &single), PLEAT_OK));
    cr_expect(eq(i64, fixture_stats(&f).num_alloc_retries, 1));
    cr_expect(ge(u64, waits(&f), 1));
    fixture_check_and_destroy(&f);
}

Test(backing_pleated, one_chunk_is_not_larger_than_the_limit, .timeout = 5)
{
    fixture_t f = bench_create(256, NULL);
    fixture_set_limit(&f, MIB(32));
    pleat_devptr_t single = 0;
    cr_expect(eq(int, pleat_alloc_single(f.allocator, MIB(33), 0, &single), PLEAT_ERR_OOM_DEVICE));
    cr_expect(eq(u64, reserved(&f), 0));
    cr_expect(eq(int, pleat_alloc_single(f.allocator, MIB(32), 0, &single), PLEAT_OK));
    fixture_check_and_destroy(&f);
}

/* ---- before an out of memory ---- */

Test(backing_pleated, frees_that_wait_are_waited_for_one_by_one, .timeout = 5)
{
    fixture_t f = bench_create(48, NULL);
    pleat_devptr_t p[3];
    for (unsigned i = 0; i < 3; i++) {
        p[i] = fixture_alloc(&f, MIB(16), 0);
        fixture_record(&f, p[i], i + 1);
        fixture_set_busy(&f, i + 1);
        fixture_free(&f, p[i]);
    }
    (void)fixture_alloc(&f, MIB(16), 0);
    pleat_stats_t stats = fixture_stats(&f);
    cr_expect(eq(i64, stats.num_alloc_retries, 1));
    cr_expect(eq(i64, stats.active[PLEAT_STAT_ALL].current, 3)); /* two still wait */
    cr_expect(eq(u64, waits(&f), 1));
    fixture_check_and_destroy(&f);
}

Test(backing_pleated, small_blocks_that_wait_are_waited_for_as_well, .timeout = 5)
{
    fixture_t f = bench_create(2, NULL);
    const pleat_devptr_t a = fixture_alloc(&f, MIB(1), 0);
    (void)fixture_alloc(&f, MIB(1), 0);
    fixture_record(&f, a, 1);
    fixture_set_busy(&f, 1);
    fixture_free(&f, a);
    cr_expect(eq(u64, fixture_alloc(&f, MIB(1), 0), a));
    cr_expect(eq(i64, fixture_stats(&f).num_alloc_retries, 1));
    fixture_check_and_destroy(&f);
}

Test(backing_pleated, the_limit_is_kept, .timeout = 5)
{
    fixture_t f = bench_create(256, NULL);
    fixture_set_limit(&f, MIB(64));
    pleat_devptr_t p[4];
    make_gaps(&f, p);
    pleat_devptr_t ptr = 0;
    cr_expect(eq(int, pleat_alloc(f.allocator, MIB(40), 0, &ptr), PLEAT_ERR_OOM_DEVICE));
    (void)fixture_alloc(&f, MIB(32), 0);
    cr_expect(eq(u64, reserved(&f), MIB(64)));
    fixture_check_and_destroy(&f);
}

Test(backing_pleated, a_trade_that_cannot_be_planned_is_none, .timeout = 5)
{
    fixture_t f = make_with_mappings(64, 0);
    pleat_devptr_t p[4];
    make_gaps(&f, p);
    pleat_devptr_t ptr = 0;
    fixture_fail_call(&f, PLEAT_VMM_CALL_MEM_INFO, 1, PLEAT_ERR_DRIVER);
    cr_expect(eq(int, pleat_alloc(f.allocator, MIB(32), 0, &ptr), PLEAT_ERR_DRIVER));
    fixture_fail_call(&f, PLEAT_VMM_CALL_UNMAP, 1, PLEAT_ERR_DRIVER);
    cr_expect(eq(int, pleat_alloc(f.allocator, MIB(32), 0, &ptr), PLEAT_ERR_DRIVER));
    cr_expect(eq(u64, reserved(&f), MIB(64)));
    fixture_check(&f);
    (void)fixture_alloc(&f, MIB(32), 0);
    fixture_check_and_destroy(&f);
}

Test(backing_pleated, chunks_that_cannot_be_joined_are_traded, .timeout = 5)
{
    fixture_t f = make_with_mappings(64, 0);
    pleat_devptr_t p[4];
    make_gaps(&f, p);
    (void)fixture_alloc(&f, MIB(32), 0);
    const pleat_stats_t stats = fixture_stats(&f);
    cr_expect(eq(i64, stats.num_alloc_retries, 1));
    cr_expect(eq(i64, stats.num_ooms, 0));
    cr_expect(eq(u64, reserved(&f), MIB(64)));
    fixture_check_and_destroy(&f);
}

Test(backing_pleated, nothing_is_given_up_for_what_cannot_be, .timeout = 5)
{
    fixture_t f = make_with_mappings(64, 0);
    pleat_devptr_t p[4];
    make_gaps(&f, p);
    pleat_devptr_t ptr = 0;
    cr_expect(eq(int, pleat_alloc(f.allocator, MIB(33), 0, &ptr), PLEAT_ERR_OOM_DEVICE));
    cr_expect(eq(u64, reserved(&f), MIB(64)));
    cr_expect(eq(i64, fixture_stats(&f).num_ooms, 1));
    fixture_check_and_destroy(&f);
}

Test(backing_pleated, a_request_beyond_all_addresses_leaves_nothing, .timeout = 5)
{
    fixture_t f = bench_create(64, NULL);
    pleat_devptr_t ptr = 0;
    cr_expect(eq(int, pleat_alloc(f.allocator, MIB(1000), 0, &ptr), PLEAT_ERR_OOM_DEVICE));
    cr_expect(eq(int, pleat_alloc_single(f.allocator, MIB(1000), 0, &ptr), PLEAT_ERR_OOM_DEVICE));
    cr_expect(eq(ptr, f.allocator->arenas, NULL));
    pleat_sim_usage_t usage = PLEAT_SIM_USAGE_INIT;
    cr_assert(eq(int, pleat_sim_read_usage(f.vmm, &usage), PLEAT_OK));
    cr_expect(eq(u64, usage.ranges, 0));
    fixture_check_and_destroy(&f);
}

/* A hole stays behind in every round, so that the addresses of one arena do not suffice. */
Test(backing_pleated, when_addresses_end_another_arena_begins, .timeout = 5)
{
    fixture_t f = bench_create(64, NULL);
    pleat_devptr_t last = fixture_alloc(&f, MIB(16), 0);
    for (unsigned i = 0; i < 20; i++) {
        const pleat_devptr_t next = fixture_alloc(&f, MIB(24), 0);
        fixture_free(&f, last);
        fixture_empty(&f);
        last = next;
        fixture_check(&f);
    }
    cr_expect(eq(i64, fixture_stats(&f).num_ooms, 0));
    cr_expect(eq(u64, reserved(&f), MIB(24)));
    fixture_check_and_destroy(&f);
}

/* ---- giving back ---- */

Test(backing_pleated, idle_memory_goes_after_its_time, .timeout = 5)
{
    pleat_options_t options = bench_options();
    options.pleated_idle_ms = 10;
    fixture_t f = bench_create(256, &options);
    fixture_free(&f, fixture_alloc(&f, MIB(48), 0));
    (void)fixture_alloc(&f, MIB(4), 1);
    cr_expect(eq(u64, reserved(&f), MIB(48)));
    cr_assert(eq(int, pleat_sim_advance_to(f.vmm, UINT64_C(20000000)), PLEAT_OK));
    (void)fixture_alloc(&f, MIB(2), 1);
    cr_expect(eq(u64, reserved(&f), MIB(18))); /* the shared chunk, and the new memory */
    cr_expect(eq(u64, waits(&f), 0));
    fixture_check_and_destroy(&f);
}

Test(backing_pleated, idle_memory_that_work_uses_stays, .timeout = 5)
{
    pleat_options_t options = bench_options();
    options.pleated_idle_ms = 10;
    fixture_t f = bench_create(256, &options);
    fixture_free(&f, fixture_alloc(&f, MIB(48), 0));
    fixture_set_busy(&f, 0);
    cr_assert(eq(int, pleat_sim_advance_to(f.vmm, UINT64_C(20000000)), PLEAT_OK));
    (void)fixture_alloc(&f, MIB(60), 1);
    cr_expect(ge(u64, reserved(&f), MIB(48)));
    cr_expect(eq(u64, waits(&f), 0));
    fixture_check_and_destroy(&f);
}

/* A stream that always has work queued, but gets on with it: its old work is over all the same. */
Test(backing_pleated, idle_memory_of_a_stream_with_work_queued_goes, .timeout = 5)
{
    pleat_options_t options = bench_options();
    options.pleated_idle_ms = 10;
    fixture_t f = bench_create(256, &options);
    fixture_free(&f, fixture_alloc(&f, MIB(96), 0));
    for (uint64_t ms = 4; ms <= 60; ms += 4) {
        cr_assert(eq(int, pleat_sim_advance_to(f.vmm, ms * UINT64_C(1000000)), PLEAT_OK));
        cr_assert(eq(int, pleat_sim_launch(f.vmm, 0, UINT64_C(6000000)), PLEAT_OK));
        fixture_free(&f, fixture_alloc(&f, MIB(8), 0));
        fixture_check(&f);
    }
    cr_expect(eq(u64, reserved(&f), MIB(16)));
    cr_expect(eq(u64, waits(&f), 0));
    fixture_check_and_destroy(&f);
}

/* The request that sets a mark and what is freed behind it have the same time. */
Test(backing_pleated, memory_freed_behind_a_mark_is_not_covered_by_it, .timeout = 5)
{
    pleat_options_t options = bench_options();
    options.pleated_idle_ms = 10;
    fixture_t f = bench_create(256, &options);
    const pleat_devptr_t late = fixture_alloc(&f, MIB(32), 0);
    const pleat_devptr_t early = fixture_alloc(&f, MIB(32), 0);
    fixture_free(&f, early);
    cr_assert(eq(int, pleat_sim_advance_to(f.vmm, UINT64_C(20000000)), PLEAT_OK));
    fixture_free(&f, fixture_alloc(&f, MIB(2), 1)); /* sets a mark, which is complete at once */
    fixture_set_busy(&f, 0);
    fixture_free(&f, late);
    for (uint64_t ms = 40; ms <= 100; ms += 20) {
        cr_assert(eq(int, pleat_sim_advance_to(f.vmm, ms * UINT64_C(1000000)), PLEAT_OK));
        fixture_free(&f, fixture_alloc(&f, MIB(2), 1));
    }
    cr_expect(ge(u64, reserved(&f), MIB(32)));
    cr_expect(eq(u64, waits(&f), 0));
    fixture_check_and_destroy(&f);
}

/* The chunk at the front of a view is idle for long, but the one behind was just used in it. */
Test(backing_pleated, a_view_that_work_uses_keeps_its_idle_chunks, .timeout = 5)
{
    pleat_options_t options = bench_options();
    options.pleated_idle_ms = 10;
    fixture_t f = bench_create(256, &options);
    pleat_allocator_t *allocator = f.allocator;
    pleat_arena_t *arena = bench_arena(&f, 0);
    pleat_handle_t *handles[] = {bench_handle(&f, arena, 0, 16), bench_handle(&f, arena, 16, 16)};
    pleat_view_t *view = bench_view(&f, 0, handles, 2);
    cr_assert(eq(int, pleat_view_note_stream(view, 0), PLEAT_OK));
    pleat_block_t *block = bench_take_view(&f, view, 16, 16);
    allocator->now_ns = UINT64_C(20000000);
    pleat_pleated_release_idle(allocator); /* the stream is known to be this far */
    cr_expect(eq(u64, arena->over_before_ns, allocator->now_ns));
    fixture_set_busy(&f, 0);
    pleat_view_give(allocator, block);
    allocator->now_ns = UINT64_C(24000000);
    pleat_pleated_release_idle(allocator);
    cr_expect(eq(ptr, allocator->views, view));
    cr_expect(eq(sz, arena->handle_count, 2));
    fixture_set_done(&f, 0);
    allocator->now_ns = UINT64_C(28000000);
    pleat_pleated_release_idle(allocator);
    cr_expect(eq(ptr, allocator->views, NULL));
    cr_expect(eq(sz, arena->handle_count, 1));
    fixture_check_and_destroy(&f);
}

/* At most one event of an arena is pending, however often it is looked at. */
Test(backing_pleated, a_busy_stream_has_one_mark, .timeout = 5)
{
    pleat_options_t options = bench_options();
    options.pleated_idle_ms = 10;
    fixture_t f = bench_create(256, &options);
    fixture_free(&f, fixture_alloc(&f, MIB(48), 0));
    fixture_set_busy(&f, 0);
    for (uint64_t ms = 20; ms <= 100; ms += 5) {
        cr_assert(eq(int, pleat_sim_advance_to(f.vmm, ms * UINT64_C(1000000)), PLEAT_OK));
        fixture_free(&f, fixture_alloc(&f, MIB(4), 0));
    }
    cr_expect(eq(u64, fixture_calls(&f, PLEAT_VMM_CALL_EVENT_CREATE), 1));
    cr_expect(eq(u64, fixture_calls(&f, PLEAT_VMM_CALL_EVENT_RECORD), 1));
    cr_expect(eq(u64, reserved(&f), MIB(48)));
    cr_expect(eq(u64, waits(&f), 0));
    fixture_check_and_destroy(&f);
}

/* An event call that fails leaves the memory for a later look. */
Test(backing_pleated, idle_memory_goes_later_when_a_mark_fails, .timeout = 5)
{
    static const pleat_vmm_call_t calls[] = {
        PLEAT_VMM_CALL_EVENT_CREATE, PLEAT_VMM_CALL_EVENT_RECORD, PLEAT_VMM_CALL_EVENT_QUERY};
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        pleat_options_t options = bench_options();
        options.pleated_idle_ms = 10;
        fixture_t f = bench_create(256, &options);
        fixture_free(&f, fixture_alloc(&f, MIB(48), 0));
        (void)fixture_alloc(&f, MIB(16), 0); /* so that what the calls below take is there */
        cr_assert(eq(int, pleat_sim_advance_to(f.vmm, UINT64_C(20000000)), PLEAT_OK));
        fixture_fail_call(&f, calls[i], 1, PLEAT_ERR_DRIVER);
        fixture_free(&f, fixture_alloc(&f, MIB(16), 0));
        cr_expect(eq(u64, reserved(&f), MIB(48)), "call %zu", i);
        fixture_check(&f);
        cr_assert(eq(int, pleat_sim_advance_to(f.vmm, UINT64_C(24000000)), PLEAT_OK));
        fixture_free(&f, fixture_alloc(&f, MIB(16), 0));
        cr_expect(eq(u64, reserved(&f), MIB(32)), "call %zu", i);
        fixture_check_and_destroy(&f);
    }
}

Test(backing_pleated, what_a_live_block_shares_stays, .timeout = 5)
{
    fixture_t f = bench_create(256, NULL);
    const pleat_devptr_t a = fixture_alloc(&f, MIB(16), 0);
    fixture_free(&f, a);
    const pleat_devptr_t b = fixture_alloc(&f, MIB(4), 0);
    cr_expect(eq(i64, fixture_stats(&f).unreturnable_bytes, (int64_t)MIB(12)));
    fixture_empty(&f);
    cr_expect(eq(u64, reserved(&f), MIB(16)));
    fixture_free(&f, b);
    fixture_empty(&f);
    cr_expect(eq(u64, reserved(&f), 0));
    cr_expect(eq(ptr, f.allocator->arenas, NULL));
    fixture_check_and_destroy(&f);
}

Test(backing_pleated, views_go_before_their_memory, .timeout = 5)
{
    fixture_t f = bench_create(256, NULL);
    pleat_devptr_t p[4];
    make_gaps(&f, p);
    fixture_free(&f, fixture_alloc(&f, MIB(32), 0));
    fixture_fail_call(&f, PLEAT_VMM_CALL_UNMAP, 1, PLEAT_ERR_DRIVER);
    cr_expect(eq(int, pleat_empty_cache(f.allocator), PLEAT_ERR_DRIVER));
    cr_expect(eq(i64, fixture_stats(&f).view_count, 1));
    cr_expect(eq(u64, reserved(&f), MIB(64)));
    fixture_check(&f);
    fixture_empty(&f);
    cr_expect(eq(i64, fixture_stats(&f).view_count, 0));
    cr_expect(eq(u64, reserved(&f), MIB(32)));
    fixture_check_and_destroy(&f);
}

Test(backing_pleated, memory_that_a_live_view_shows_stays, .timeout = 5)
{
    fixture_t f = bench_create(256, NULL);
    pleat_arena_t *arena = bench_arena(&f, 0);
    pleat_handle_t *handles[] = {bench_handle(&f, arena, 0, 16), bench_handle(&f, arena, 16, 16)};
    pleat_view_t *view = bench_view(&f, 0, handles, 2);
    pleat_block_t *block = bench_take_view(&f, view, 2, 4); /* in the first of them only */
    uint64_t released_bytes = 0;
    cr_assert(eq(int, pleat_pleated_release(f.allocator, NULL, UINT64_MAX, true, &released_bytes),
                 PLEAT_OK));
    cr_expect(eq(u64, released_bytes, 0));
    pleat_view_give(f.allocator, block);
    cr_assert(eq(int, pleat_pleated_release(f.allocator, NULL, MIB(10), true, &released_bytes),
                 PLEAT_OK));
    cr_expect(eq(u64, released_bytes, MIB(16))); /* no more than needed, but whole */
    fixture_check_and_destroy(&f);
}

Test(backing_pleated, views_are_evicted_by_their_last_use, .timeout = 5)
{
    fixture_t f = bench_create(256, NULL);
    pleat_arena_t *arena = bench_arena(&f, 0);
    pleat_handle_t *handles[] = {bench_handle(&f, arena, 0, 16), bench_handle(&f, arena, 16, 16)};
    pleat_view_t *views[3];
    for (unsigned i = 0; i < 3; i++) {
        views[i] = bench_view(&f, 0, handles, 2);
        views[i]->last_used = (i + 1) % 3; /* 1, 2, 0 */
    }
    fixture_fail_call(&f, PLEAT_VMM_CALL_UNMAP, 1, PLEAT_ERR_DRIVER);
    cr_expect(eq(int, pleat_pleated_evict_views(f.allocator, 1, true), PLEAT_ERR_DRIVER));
    cr_expect(eq(u64, f.allocator->view_mappings, 6));
    cr_expect(eq(int, pleat_pleated_evict_views(f.allocator, 1, true), PLEAT_OK));
    cr_expect(eq(ptr, f.allocator->views, views[0]));
    cr_expect(eq(ptr, views[1]->next, NULL));
    cr_expect(eq(int, pleat_pleated_evict_views(f.allocator, UINT64_MAX, true), PLEAT_OK));
    cr_expect(eq(ptr, f.allocator->views, NULL));
    fixture_check_and_destroy(&f);
}

/* ---- failures ---- */

/* Growth comes first, then the view fails: what was grown goes back. */
Test(backing_pleated, a_view_with_new_memory_that_fails_leaves_nothing, .timeout = 5)
{
    static const struct {
        pleat_vmm_call_t call;
        uint64_t nth;
    } rows[] = {{PLEAT_VMM_CALL_CHUNK_CREATE, 1},
                {PLEAT_VMM_CALL_MAP, 1},
                {PLEAT_VMM_CALL_MAP, 2},
                {PLEAT_VMM_CALL_MAP, 4},
                {PLEAT_VMM_CALL_SET_ACCESS, 1},
                {PLEAT_VMM_CALL_SET_ACCESS, 2},
                {PLEAT_VMM_CALL_ADDRESS_RESERVE, 1}};
    fixture_t f = bench_create(256, NULL);
    pleat_devptr_t p[4];
    make_gaps(&f, p);
    pleat_sim_usage_t before = PLEAT_SIM_USAGE_INIT;
    cr_assert(eq(int, pleat_sim_read_usage(f.vmm, &before), PLEAT_OK));
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        pleat_devptr_t ptr = 0;
        fixture_fail_call(&f, rows[i].call, rows[i].nth, PLEAT_ERR_DRIVER);
        cr_expect(eq(int, pleat_alloc(f.allocator, MIB(40), 0, &ptr), PLEAT_ERR_DRIVER));
        pleat_sim_usage_t after = PLEAT_SIM_USAGE_INIT;
        cr_assert(eq(int, pleat_sim_read_usage(f.vmm, &after), PLEAT_OK));
        cr_expect(eq(u64, after.chunks, before.chunks));
        cr_expect(eq(u64, after.mappings, before.mappings));
        cr_expect(eq(u64, after.ranges, before.ranges));
        cr_expect(eq(u64, reserved(&f), MIB(64)));
        fixture_check(&f);
    }
    (void)fixture_alloc(&f, MIB(40), 0);
    fixture_check_and_destroy(&f);
}

/* Leave so many block objects in reserve; those taken are linked by child[0]. */
static pleat_block_t *drain_blocks(const fixture_t *f, size_t spare)
{
    pleat_block_store_t *store = &f->allocator->blocks;
    pleat_block_t *taken = NULL;
    while (store->unused_count > spare) {
        pleat_block_t *block = pleat_block_store_take(store);
        block->child[0] = taken;
        taken = block;
    }
    return taken;
}

static void refill_blocks(const fixture_t *f, pleat_block_t *taken)
{
    while (taken != NULL) {
        pleat_block_t *next = taken->child[0];
        taken->child[0] = NULL;
        taken->use = PLEAT_BLOCK_USE_FREE;
        pleat_block_store_give(&f->allocator->blocks, taken);
        taken = next;
    }
}

/* A request that may fail for want of host memory, and then works when it is made again. */
static pleat_devptr_t request(const fixture_t *f, uint64_t bytes, pleat_stream_t stream,
                              size_t spare, unsigned *failures)
{
    pleat_devptr_t ptr = 0;
    pleat_block_t *taken = drain_blocks(f, spare);
    const uint64_t held_bytes = f->allocator->held_bytes;
    pleat_status_t status = pleat_alloc(f->allocator, bytes, stream, &ptr);
    refill_blocks(f, taken);
    if (status != PLEAT_OK) {
        cr_expect(eq(int, status, PLEAT_ERR_OOM_HOST));
        cr_expect(eq(u64, f->allocator->held_bytes, held_bytes));
        cr_assert(eq(int, pleat_allocator_check(f->allocator), PLEAT_OK));
        (*failures)++;
        status = pleat_alloc(f->allocator, bytes, stream, &ptr);
    }
    cr_assert(eq(int, status, PLEAT_OK));
    return ptr;
}

/* A fixed sequence of calls, of which the nth allocation of host memory fails, with so many block
 * objects in reserve before each; the number of calls that failed. */
static unsigned run_sequence(const fixture_t *f, uint64_t nth, size_t spare)
{
    static const struct {
        uint64_t bytes;
        pleat_stream_t stream;
        int frees; /* index of what is freed before; -1: nothing */
    } rows[] = {{MIB(16), 0, -1}, {MIB(16), 0, -1}, {MIB(16), 0, -1}, {MIB(16), 0, -1},
                {MIB(2), 0, 0},   {MIB(30), 0, 2},  {MIB(40), 1, -1}, {3000, 2, -1},
                {MIB(38), 0, 6},  {MIB(20), 3, 5}};
    pleat_devptr_t p[10] = {0};
    unsigned failures = 0;
    host_fault_after(nth);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rows[i].frees >= 0) {
            cr_assert(eq(int, pleat_free(f->allocator, p[rows[i].frees]), PLEAT_OK));
        }
        p[i] = request(f, rows[i].bytes, rows[i].stream, spare, &failures);
    }
    return failures;
}

Test(backing_pleated, every_want_of_host_memory_leaves_things_as_they_were, .timeout = 60)
{
    static const size_t spares[] = {1000, 0, 8, 9, 10, 12, 16};
    unsigned failures = 0;
    for (size_t i = 0; i < sizeof(spares) / sizeof(spares[0]); i++) {
        bool has_struck = true;
        for (uint64_t nth = 1; has_struck; nth++) {
            fixture_t f = bench_create(256, NULL);
            const uint64_t before = host_fault_allocations();
            const unsigned count = run_sequence(&f, nth, spares[i]);
            has_struck = host_fault_allocations() - before >= nth;
            host_fault_after(0);
            cr_expect(le(uint, count, 1));
            failures += count;
            fixture_check_and_destroy(&f);
        }
    }
    cr_expect(ge(uint, failures, 20));
}

/* The steps of a search, each alone and without a block object in reserve. */
Test(backing_pleated, every_step_reserves_its_blocks, .timeout = 5)
{
    fixture_t f = bench_create(256, NULL);
    pleat_allocator_t *allocator = f.allocator;
    pleat_arena_t *arena = bench_arena(&f, 0);
    pleat_handle_t *handles[] = {bench_handle(&f, arena, 0, 16), bench_handle(&f, arena, 16, 16)};
    pleat_view_t *view = bench_view(&f, 0, handles, 2);
    cr_assert(eq(int, pleat_view_note_stream(view, 0), PLEAT_OK));
    const pleat_request_t large = pleat_serve_request(allocator, MIB(4), 0);
    pleat_request_t small = pleat_serve_request(allocator, 1000, 0);
    const pleat_home_place_t home = pleat_place_home(arena, large.bytes);
    fixture_state_t before = fixture_state(&f);
    pleat_block_t *taken = drain_blocks(&f, 0);
    for (unsigned step = 0; step < 5; step++) {
        pleat_block_t *block = NULL;
        pleat_arena_t *grown = NULL;
        pleat_home_place_t place = {0};
        size_t count = 0;
        pleat_status_t status = PLEAT_OK;
        host_fault_after(1);
        switch (step) {
        case 0:
            status = pleat_pleated_take_home(allocator, &large, &home, &block);
            break;
        case 1:
            status = pleat_pleated_take_view(allocator, &large, view, 0, &block);
            break;
        case 2:
            status = pleat_pleated_grow(allocator, &large, MIB(4), &grown, &count);
            break;
        case 3:
            status = pleat_pleated_grow_single(allocator, &large, MIB(4), &place);
            break;
        default:
            status = pleat_backing_pleated()->supply(allocator, &small, &block);
            break;
        }
        host_fault_after(0);
        cr_expect(eq(int, status, PLEAT_ERR_OOM_HOST));
        cr_expect(eq(ptr, block, NULL));
    }
    refill_blocks(&f, taken);
    bench_require_same(&f, &before);
    fixture_state_drop(&before);
    fixture_check_and_destroy(&f);
}

Test(backing_pleated, memory_goes_back_only_with_host_memory_for_it, .timeout = 5)
{
    fixture_t f = bench_create(256, NULL);
    fixture_free(&f, fixture_alloc(&f, MIB(48), 0));
    pleat_block_t *taken = drain_blocks(&f, 0);
    host_fault_after(1);
    cr_expect(eq(int, pleat_empty_cache(f.allocator), PLEAT_ERR_OOM_HOST));
    host_fault_after(0);
    refill_blocks(&f, taken);
    cr_expect(eq(u64, reserved(&f), MIB(48)));
    fixture_check(&f);
    fixture_empty(&f);
    cr_expect(eq(u64, reserved(&f), 0));
    fixture_check_and_destroy(&f);
}
