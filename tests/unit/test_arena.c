/*
 * Tests of arena: handles at home, free memory across their borders, what is taken and given, and
 * what is left when the device or the host fails.
 */
#include "host_fault.h"
#include "pleated_bench.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

static void expect_blocks(const pleat_arena_t *arena, const char *wanted)
{
    cr_expect(eq(str, (char *)bench_blocks(arena), (char *)wanted));
}

/* ---- handles ---- */

Test(arena, addresses_are_twice_the_device, .timeout = 5)
{
    fixture_t f = bench_create(100, NULL);
    const pleat_arena_t *arena = bench_arena(&f, 3);
    cr_expect(eq(u64, arena->bytes, MIB(200)));
    cr_expect(eq(u64, arena->stream, 3));
    cr_expect(eq(u64, pleat_arena_end(arena), 0));
    cr_expect(eq(ptr, pleat_arena_free_block(arena, 0), NULL));
    expect_blocks(arena, "");
    fixture_check_and_destroy(&f);
}

Test(arena, arenas_are_kept_in_the_order_of_their_making, .timeout = 5)
{
    fixture_t f = bench_create(100, NULL);
    const pleat_arena_t *first = bench_arena(&f, 2);
    const pleat_arena_t *second = bench_arena(&f, 1);
    cr_expect(eq(ptr, f.allocator->arenas, (void *)first));
    cr_expect(eq(ptr, first->next, (void *)second));
    fixture_check_and_destroy(&f);
}

Test(arena, neighbouring_handles_are_one_free_block, .timeout = 5)
{
    fixture_t f = bench_create(100, NULL);
    pleat_arena_t *arena = bench_arena(&f, 0);
    const pleat_handle_t *low = bench_handle(&f, arena, 0, 4);
    expect_blocks(arena, "f4");
    const pleat_handle_t *high = bench_handle(&f, arena, 10, 6);
    expect_blocks(arena, "f4 u6 f6");
    const pleat_handle_t *middle = bench_handle(&f, arena, 4, 6);
    expect_blocks(arena, "f16");
    cr_expect(eq(ptr, arena->handles[0], (void *)low));
    cr_expect(eq(ptr, arena->handles[1], (void *)middle));
    cr_expect(eq(ptr, arena->handles[2], (void *)high));
    cr_expect(eq(u64, arena->handle_bytes, MIB(16)));
    cr_expect(eq(u64, arena->free_bytes, MIB(16)));
    cr_expect(eq(u64, pleat_arena_end(arena), MIB(16)));
    cr_expect(eq(u64, f.allocator->held_bytes, MIB(16)));
    cr_expect(eq(i64, fixture_stats(&f).num_device_alloc, 3));
    fixture_check_and_destroy(&f);
}

Test(arena, handles_are_found_by_offset, .timeout = 5)
{
    fixture_t f = bench_create(100, NULL);
    pleat_arena_t *arena = bench_arena(&f, 0);
    (void)bench_handle(&f, arena, 0, 4);
    (void)bench_handle(&f, arena, 8, 4);
    static const struct {
        unsigned mib;
        unsigned index;
    } rows[] = {{0, 0}, {3, 0}, {4, 1}, {7, 1}, {8, 1}, {11, 1}, {12, 2}, {50, 2}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        cr_expect(eq(sz, pleat_arena_handle_index(arena, MIB(rows[i].mib)), rows[i].index));
    }
    cr_expect(eq(ptr, pleat_arena_free_block(arena, MIB(5)), NULL));
    cr_expect(eq(ptr, pleat_arena_free_block(arena, MIB(9)), arena->first->right->right));
    fixture_check_and_destroy(&f);
}

Test(arena, many_handles_fit, .timeout = 5)
{
    fixture_t f = bench_create(400, NULL);
    pleat_arena_t *arena = bench_arena(&f, 0);
    for (uint64_t i = 0; i < 150; i++) {
        (void)bench_handle(&f, arena, 2 * i, 2);
    }
    cr_expect(eq(sz, arena->handle_count, 150));
    expect_blocks(arena, "f300");
    fixture_check_and_destroy(&f);
}

/* ---- taking and giving ---- */

Test(arena, a_span_is_taken_out_of_the_middle, .timeout = 5)
{
    fixture_t f = bench_create(100, NULL);
    pleat_arena_t *arena = bench_arena(&f, 7);
    pleat_handle_t *low = bench_handle(&f, arena, 0, 8);
    pleat_handle_t *high = bench_handle(&f, arena, 8, 8);
    pleat_block_t *block = bench_take(&f, arena, 6, 4);
    expect_blocks(arena, "f6 p4 f6");
    cr_expect(eq(u64, low->free_bytes, MIB(6)));
    cr_expect(eq(u64, high->free_bytes, MIB(6)));
    cr_expect(eq(ptr, high->start, block));
    cr_expect(eq(u64, pleat_arena_free_prefix(low), MIB(6)));
    cr_expect(eq(u64, pleat_arena_free_suffix(low), 0));
    cr_expect(eq(u64, pleat_arena_free_prefix(high), 0));
    cr_expect(eq(u64, pleat_arena_free_suffix(high), MIB(6)));
    cr_expect(eq(i64, f.allocator->stats.unreturnable_bytes, (int64_t)MIB(12)));
    const pleat_stats_t stats = fixture_stats(&f);
    cr_expect(eq(i64, stats.inactive_split[PLEAT_STAT_LARGE_POOL].current, 2));
    cr_expect(eq(i64, stats.inactive_split_bytes[PLEAT_STAT_ALL].current, (int64_t)MIB(12)));
    fixture_check(&f);
    block->stream = 9; /* whoever used it, free memory is its arena's */
    bench_give(&f, block);
    expect_blocks(arena, "f16");
    cr_expect(eq(u64, arena->first->stream, 7));
    cr_expect(pleat_handle_is_whole(low));
    cr_expect(eq(i64, f.allocator->stats.unreturnable_bytes, 0));
    cr_expect(eq(i64, fixture_stats(&f).inactive_split_bytes[PLEAT_STAT_ALL].current, 0));
    fixture_check_and_destroy(&f);
}

Test(arena, spans_are_taken_at_either_end_and_whole, .timeout = 5)
{
    fixture_t f = bench_create(100, NULL);
    pleat_arena_t *arena = bench_arena(&f, 0);
    for (uint64_t i = 0; i < 4; i++) {
        (void)bench_handle(&f, arena, 4 * i, 4);
    }
    pleat_block_t *low = bench_take(&f, arena, 0, 2);
    expect_blocks(arena, "p2 f14");
    pleat_block_t *high = bench_take(&f, arena, 14, 2);
    expect_blocks(arena, "p2 f12 p2");
    pleat_block_t *most = bench_take(&f, arena, 2, 9);
    expect_blocks(arena, "p2 p9 f3 p2");
    pleat_block_t *rest = bench_take(&f, arena, 11, 3);
    expect_blocks(arena, "p2 p9 p3 p2");
    cr_expect(eq(u64, arena->free_count, 0));
    fixture_check(&f);
    bench_give(&f, most);
    bench_give(&f, high);
    expect_blocks(arena, "p2 f9 p3 f2");
    bench_give(&f, rest);
    expect_blocks(arena, "p2 f14");
    bench_give(&f, low);
    expect_blocks(arena, "f16");
    fixture_check_and_destroy(&f);
}

Test(arena, free_ends_of_handles_are_told, .timeout = 5)
{
    fixture_t f = bench_create(100, NULL);
    pleat_arena_t *arena = bench_arena(&f, 0);
    (void)bench_handle(&f, arena, 0, 8);
    pleat_handle_t *handle = bench_handle(&f, arena, 8, 8);
    (void)bench_handle(&f, arena, 16, 8);
    cr_expect(eq(u64, pleat_arena_free_prefix(handle), MIB(8)));
    cr_expect(eq(u64, pleat_arena_free_suffix(handle), MIB(8)));
    pleat_block_t *block = bench_take(&f, arena, 10, 2);
    cr_expect(eq(u64, pleat_arena_free_prefix(handle), MIB(2)));
    cr_expect(eq(u64, pleat_arena_free_suffix(handle), MIB(4)));
    bench_give(&f, block);
    block = bench_take(&f, arena, 4, 16);
    cr_expect(eq(u64, pleat_arena_free_prefix(handle), 0));
    cr_expect(eq(u64, pleat_arena_free_suffix(handle), 0));
    bench_give(&f, block);
    fixture_check_and_destroy(&f);
}

/* ---- removal ---- */

Test(arena, handles_go_at_the_end_and_in_the_middle, .timeout = 5)
{
    fixture_t f = bench_create(100, NULL);
    pleat_arena_t *arena = bench_arena(&f, 0);
    pleat_handle_t *a = bench_handle(&f, arena, 0, 4);
    pleat_handle_t *b = bench_handle(&f, arena, 4, 4);
    pleat_handle_t *c = bench_handle(&f, arena, 8, 4);
    cr_assert(pleat_block_store_reserve(&f.allocator->blocks, 8));
    cr_assert(eq(int, pleat_arena_remove_handle(f.allocator, b), PLEAT_OK));
    expect_blocks(arena, "f4 u4 f4");
    fixture_check(&f);
    cr_assert(eq(int, pleat_arena_remove_handle(f.allocator, c), PLEAT_OK));
    expect_blocks(arena, "f4");
    cr_expect(eq(u64, pleat_arena_end(arena), MIB(4)));
    cr_assert(eq(int, pleat_arena_remove_handle(f.allocator, a), PLEAT_OK));
    expect_blocks(arena, "");
    cr_expect(eq(u64, f.allocator->held_bytes, 0));
    cr_expect(eq(i64, fixture_stats(&f).num_device_free, 3));
    fixture_check_and_destroy(&f);
}

Test(arena, fences_on_a_handle_go_with_it, .timeout = 5)
{
    fixture_t f = bench_create(100, NULL);
    pleat_arena_t *arena = bench_arena(&f, 0);
    (void)bench_handle(&f, arena, 0, 4);
    pleat_handle_t *middle = bench_handle(&f, arena, 4, 4);
    (void)bench_handle(&f, arena, 8, 4);
    pleat_fence_t *fence = NULL;
    cr_assert(eq(int, pleat_fence_order(f.allocator, arena, 0, MIB(12), 5, &fence), PLEAT_OK));
    pleat_fence_leave(f.allocator, arena, 0, MIB(12), 5, fence);
    fixture_check(&f);
    cr_assert(pleat_block_store_reserve(&f.allocator->blocks, 8));
    cr_assert(eq(int, pleat_fence_reserve_records(f.allocator, 1), PLEAT_OK));
    cr_assert(eq(int, pleat_arena_remove_handle(f.allocator, middle), PLEAT_OK));
    expect_blocks(arena, "f4 u4 f4");
    fixture_check_and_destroy(&f);
}

/* ---- failures ---- */

Test(arena, an_arena_that_cannot_be_made_leaves_nothing, .timeout = 5)
{
    fixture_t f = bench_create(100, NULL);
    pleat_arena_t *arena = NULL;
    cr_assert(pleat_block_store_reserve(&f.allocator->blocks, 8));
    fixture_state_t before = fixture_state(&f);
    fixture_fail_call(&f, PLEAT_VMM_CALL_MEM_INFO, 1, PLEAT_ERR_DRIVER);
    cr_expect(eq(int, pleat_arena_create(f.allocator, NULL, 1, 0, &arena), PLEAT_ERR_DRIVER));
    fixture_fail_call(&f, PLEAT_VMM_CALL_ADDRESS_RESERVE, 1, PLEAT_ERR_OOM_DEVICE);
    cr_expect(eq(int, pleat_arena_create(f.allocator, NULL, 1, 0, &arena), PLEAT_ERR_OOM_DEVICE));
    unsigned failures = 0;
    for (unsigned nth = 1; arena == NULL; nth++) {
        host_fault_after(nth);
        const pleat_status_t status = pleat_arena_create(f.allocator, NULL, 1, 0, &arena);
        host_fault_after(0);
        if (status != PLEAT_OK) {
            cr_expect(eq(int, status, PLEAT_ERR_OOM_HOST));
            bench_require_same(&f, &before);
            failures++;
        }
    }
    cr_expect(ge(uint, failures, 2));
    fixture_state_drop(&before);
    fixture_check_and_destroy(&f);
}

Test(arena, a_handle_that_cannot_be_made_leaves_nothing, .timeout = 5)
{
    static const pleat_vmm_call_t calls[] = {PLEAT_VMM_CALL_CHUNK_CREATE, PLEAT_VMM_CALL_MAP,
                                             PLEAT_VMM_CALL_SET_ACCESS};
    fixture_t f = bench_create(100, NULL);
    pleat_arena_t *arena = bench_arena(&f, 1);
    pleat_handle_t *handle = NULL;
    cr_assert(pleat_block_store_reserve(&f.allocator->blocks, 8));
    fixture_state_t before = fixture_state(&f);
    for (unsigned nth = 1; nth <= 2; nth++) { /* the handle, the list of handles */
        host_fault_after(nth);
        cr_expect(eq(int, pleat_arena_add_handle(f.allocator, arena, 0, MIB(4), &handle),
                     PLEAT_ERR_OOM_HOST));
        host_fault_after(0);
        bench_require_same(&f, &before);
    }
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        fixture_fail_call(&f, calls[i], 1, PLEAT_ERR_DRIVER);
        cr_expect(eq(int, pleat_arena_add_handle(f.allocator, arena, 0, MIB(4), &handle),
                     PLEAT_ERR_DRIVER));
        bench_require_same(&f, &before);
    }
    cr_expect(eq(int, pleat_arena_add_handle(f.allocator, arena, 0, MIB(102), &handle),
                 PLEAT_ERR_OOM_DEVICE));
    fixture_state_drop(&before);
    cr_expect(eq(int, pleat_arena_add_handle(f.allocator, arena, 0, MIB(4), &handle), PLEAT_OK));
    fixture_check_and_destroy(&f);
}

Test(arena, a_handle_that_cannot_be_removed_stays, .timeout = 5)
{
    static const pleat_vmm_call_t calls[] = {PLEAT_VMM_CALL_UNMAP, PLEAT_VMM_CALL_CHUNK_RELEASE};
    fixture_t f = bench_create(100, NULL);
    pleat_arena_t *arena = bench_arena(&f, 1);
    (void)bench_handle(&f, arena, 0, 4);
    pleat_handle_t *handle = bench_handle(&f, arena, 4, 4);
    cr_assert(pleat_block_store_reserve(&f.allocator->blocks, 8));
    fixture_state_t before = fixture_state(&f);
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        fixture_fail_call(&f, calls[i], 1, PLEAT_ERR_DRIVER);
        cr_expect(eq(int, pleat_arena_remove_handle(f.allocator, handle), PLEAT_ERR_DRIVER));
        bench_require_same(&f, &before);
    }
    fixture_state_drop(&before);
    cr_expect(eq(int, pleat_arena_remove_handle(f.allocator, handle), PLEAT_OK));
    fixture_check_and_destroy(&f);
}

/* The device neither takes the chunk back nor maps it again: it is lost, and nothing else is. */
static void lose_handle(pleat_vmm_call_t call)
{
    fixture_t f = bench_create(100, NULL);
    pleat_arena_t *arena = bench_arena(&f, 1);
    pleat_handle_t *handle = bench_handle(&f, arena, 0, 4);
    (void)bench_handle(&f, arena, 4, 4);
    pleat_fence_t *fence = NULL;
    cr_assert(eq(int, pleat_fence_order(f.allocator, arena, 0, MIB(6), 5, &fence), PLEAT_OK));
    pleat_fence_leave(f.allocator, arena, 0, MIB(6), 5, fence);
    cr_assert(pleat_block_store_reserve(&f.allocator->blocks, 8));
    fixture_fail_call(&f, PLEAT_VMM_CALL_CHUNK_RELEASE, 1, PLEAT_ERR_DRIVER);
    fixture_fail_call(&f, call, 1, PLEAT_ERR_DRIVER);
    cr_expect(eq(int, pleat_arena_remove_handle(f.allocator, handle), PLEAT_OK));
    expect_blocks(arena, "u4 f4");
    cr_expect(eq(u64, f.allocator->held_bytes, MIB(4)));
    fixture_check(&f);
    (void)bench_handle(&f, arena, 0, 4); /* its place can be used again */
    fixture_check(&f);
    pleat_allocator_destroy(f.allocator);
    pleat_sim_usage_t usage = PLEAT_SIM_USAGE_INIT;
    cr_assert(eq(int, pleat_sim_read_usage(f.vmm, &usage), PLEAT_OK));
    cr_expect(eq(u64, usage.chunk_bytes, MIB(4)));
    cr_expect(eq(u64, usage.ranges, 0));
    cr_expect(eq(u64, usage.events, 0));
    pleat_vmm_destroy(f.vmm);
}

Test(arena, a_handle_that_cannot_be_mapped_again_is_lost, .timeout = 5)
{
    lose_handle(PLEAT_VMM_CALL_MAP);
}

Test(arena, a_handle_that_cannot_be_made_accessible_again_is_lost, .timeout = 5)
{
    lose_handle(PLEAT_VMM_CALL_SET_ACCESS);
}

Test(arena, destruction_gives_everything_back, .timeout = 5)
{
    fixture_t f = bench_create(100, NULL);
    pleat_arena_t *arena = bench_arena(&f, 1);
    (void)bench_handle(&f, arena, 0, 4);
    (void)bench_handle(&f, arena, 8, 4);
    (void)bench_take(&f, arena, 1, 2);
    fixture_check_and_destroy(&f);
}
