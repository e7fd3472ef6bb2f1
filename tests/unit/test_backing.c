/*
 * Tests of backing: the tables by mode, how blocks go back by their kind, and the end of
 * everything.
 */
#include "core/backing.h"

#include "pleated_bench.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

static fixture_t make(pleat_mode_t mode)
{
    pleat_options_t options = bench_options();
    options.mode = mode;
    return fixture_create(&(fixture_options_t){.options = &options});
}

static void set_mode(const fixture_t *f, pleat_mode_t mode)
{
    pleat_options_t options = bench_options();
    options.mode = mode;
    fixture_set_options(f, &options);
}

static pleat_block_t *live(const fixture_t *f, pleat_devptr_t ptr)
{
    return pleat_address_map_find(&f->allocator->live, ptr);
}

Test(backing, every_mode_has_its_table, .timeout = 5)
{
    for (unsigned mode = 0; mode < PLEAT_MODE_COUNT; mode++) {
        const pleat_backing_ops_t *ops = pleat_backing_of((pleat_mode_t)mode);
        cr_expect(eq(str, (char *)ops->name, (char *)pleat_mode_name((pleat_mode_t)mode)));
        cr_expect(gt(sz, ops->supply_block_count, 0));
    }
    cr_expect(eq(ptr, (void *)pleat_backing_of(PLEAT_MODE_COUNT), (void *)pleat_backing_classic()));
}

Test(backing, only_plain_segments_are_whole, .timeout = 5)
{
    fixture_t f = make(PLEAT_MODE_CLASSIC);
    cr_expect(pleat_backing_is_whole(live(&f, fixture_alloc(&f, MIB(20), 0))));
    cr_expect(not(pleat_backing_is_whole(live(&f, fixture_alloc(&f, MIB(3), 0)))));
    set_mode(&f, PLEAT_MODE_TORCH_EXPANDABLE);
    cr_expect(not(pleat_backing_is_whole(live(&f, fixture_alloc(&f, MIB(40), 0)))));
    set_mode(&f, PLEAT_MODE_PLEATED);
    cr_expect(not(pleat_backing_is_whole(live(&f, fixture_alloc(&f, MIB(60), 0)))));
    fixture_check_and_destroy(&f);
}

/* What a mode left behind is used on or given back, and nobody's memory is mistaken for another's.
 */
Test(backing, modes_follow_each_other, .timeout = 10)
{
    fixture_t f = make(PLEAT_MODE_CLASSIC);
    for (unsigned first = 0; first < PLEAT_MODE_COUNT; first++) {
        for (unsigned second = 0; second < PLEAT_MODE_COUNT; second++) {
            pleat_devptr_t p[4];
            set_mode(&f, (pleat_mode_t)first);
            p[0] = fixture_alloc(&f, MIB(30), 0);
            p[1] = fixture_alloc(&f, 3000, 0);
            set_mode(&f, (pleat_mode_t)second);
            p[2] = fixture_alloc(&f, MIB(30), 0);
            p[3] = fixture_alloc(&f, 3000, 0);
            fixture_check(&f);
            for (unsigned i = 0; i < 4; i++) {
                fixture_free(&f, p[i]);
                fixture_check(&f);
            }
            fixture_free(&f, fixture_alloc(&f, MIB(25), 0));
            fixture_free(&f, fixture_alloc(&f, 700, 0));
            fixture_empty(&f);
            cr_expect(eq(u64, f.allocator->held_bytes, 0));
        }
    }
    fixture_check_and_destroy(&f);
}

Test(backing, destruction_ends_live_blocks_of_every_kind, .timeout = 5)
{
    fixture_t f = make(PLEAT_MODE_CLASSIC);
    for (unsigned mode = 0; mode < PLEAT_MODE_COUNT; mode++) {
        set_mode(&f, (pleat_mode_t)mode);
        const pleat_devptr_t large = fixture_alloc(&f, MIB(30), 1);
        fixture_record(&f, large, 2);
        (void)fixture_alloc(&f, 3000, 1);
    }
    fixture_check_and_destroy(&f);
}

/* A live block over memory of another stream's arena holds a fence. */
Test(backing, destruction_ends_the_fences_of_live_blocks, .timeout = 5)
{
    fixture_t f = make(PLEAT_MODE_PLEATED);
    fixture_set_limit(&f, MIB(64));
    fixture_free(&f, fixture_alloc(&f, MIB(64), 1));
    (void)fixture_alloc(&f, MIB(20), 2); /* at home */
    (void)fixture_alloc(&f, 3000, 3);    /* a slab */
    cr_expect(eq(i64, f.allocator->stats.cross_stream_takes, 2));
    fixture_check_and_destroy(&f);
}

Test(backing, destruction_ends_the_fences_of_views, .timeout = 5)
{
    fixture_t f = make(PLEAT_MODE_PLEATED);
    fixture_set_limit(&f, MIB(64));
    pleat_devptr_t p[4];
    for (unsigned i = 0; i < 4; i++) {
        p[i] = fixture_alloc(&f, MIB(16), 1);
    }
    fixture_free(&f, p[0]);
    fixture_free(&f, p[2]);
    const pleat_block_t *block = live(&f, fixture_alloc(&f, MIB(32), 2));
    cr_expect(ne(ptr, block->view, NULL));
    cr_expect(ne(ptr, pleat_view_next_part(block)->fence, NULL));
    fixture_check_and_destroy(&f);
}

/* Unmapping does not wait as a plain device free does, so destruction has to. */
Test(backing, destruction_waits_for_the_streams, .timeout = 5)
{
    for (unsigned mode = 0; mode < PLEAT_MODE_COUNT; mode++) {
        fixture_t f = make((pleat_mode_t)mode);
        (void)fixture_alloc(&f, MIB(30), 1);
        fixture_set_busy(&f, 1);
        pleat_vmm_counters_t counters = PLEAT_VMM_COUNTERS_INIT;
        pleat_vmm_read_counters(f.vmm, &counters);
        const uint64_t before = counters.waits;
        pleat_allocator_destroy(f.allocator);
        pleat_vmm_read_counters(f.vmm, &counters);
        cr_expect(gt(u64, counters.waits, before));
        pleat_vmm_destroy(f.vmm);
    }
}

/* Streams that used other streams' memory, through fences and views, are waited for as well. */
Test(backing, destruction_waits_for_foreign_users, .timeout = 5)
{
    static const struct {
        unsigned mib;
        bool is_freed;
    } rows[] = {{20, false}, {20, true}, {32, false}, {32, true}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        fixture_t f = make(PLEAT_MODE_PLEATED);
        fixture_set_limit(&f, MIB(64));
        pleat_devptr_t p[4];
        for (unsigned k = 0; k < 4; k++) {
            p[k] = fixture_alloc(&f, MIB(16), 1);
        }
        fixture_free(&f, p[0]);
        fixture_free(&f, rows[i].mib == 20 ? p[1] : p[2]);
        const pleat_devptr_t ptr = fixture_alloc(&f, MIB(rows[i].mib), 2);
        fixture_set_busy(&f, 2);
        if (rows[i].is_freed) {
            fixture_free(&f, ptr);
        }
        pleat_vmm_counters_t counters = PLEAT_VMM_COUNTERS_INIT;
        pleat_vmm_read_counters(f.vmm, &counters);
        const uint64_t before = counters.waits;
        pleat_allocator_destroy(f.allocator);
        pleat_vmm_read_counters(f.vmm, &counters);
        cr_expect(gt(u64, counters.waits, before));
        pleat_vmm_destroy(f.vmm);
    }
}

Test(backing, destruction_goes_on_when_the_device_refuses, .timeout = 5)
{
    static const pleat_vmm_call_t calls[] = {
        PLEAT_VMM_CALL_MEM_FREE,         PLEAT_VMM_CALL_UNMAP,
        PLEAT_VMM_CALL_CHUNK_RELEASE,    PLEAT_VMM_CALL_ADDRESS_FREE,
        PLEAT_VMM_CALL_EVENT_DESTROY,    PLEAT_VMM_CALL_STREAM_SYNCHRONIZE,
        PLEAT_VMM_CALL_EVENT_SYNCHRONIZE};
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        fixture_t f = make(PLEAT_MODE_CLASSIC);
        for (unsigned mode = 0; mode < PLEAT_MODE_COUNT; mode++) {
            set_mode(&f, (pleat_mode_t)mode);
            const pleat_devptr_t ptr = fixture_alloc(&f, MIB(30), 1);
            (void)fixture_alloc(&f, MIB(30), 2);
            fixture_record(&f, ptr, 2);
            fixture_free(&f, ptr);
        }
        fixture_fail_call(&f, calls[i], 1, PLEAT_ERR_DRIVER);
        pleat_allocator_destroy(f.allocator);
        pleat_sim_usage_t usage = PLEAT_SIM_USAGE_INIT;
        cr_assert(eq(int, pleat_sim_read_usage(f.vmm, &usage), PLEAT_OK));
        const uint64_t left = usage.allocations + usage.chunks + usage.events;
        cr_expect(le(u64, left, 1));
        cr_expect(le(u64, usage.ranges, 1));
        pleat_vmm_destroy(f.vmm);
    }
}

Test(backing, a_block_goes_back_by_its_kind, .timeout = 5)
{
    fixture_t f = make(PLEAT_MODE_CLASSIC);
    fixture_free(&f, fixture_alloc(&f, MIB(30), 0));
    set_mode(&f, PLEAT_MODE_TORCH_EXPANDABLE);
    const pleat_devptr_t ptr = fixture_alloc(&f, MIB(60), 0);
    cr_expect(eq(u64, f.allocator->held_bytes, MIB(90)));
    fixture_free(&f, ptr);
    pleat_free_set_t *set = &f.allocator->large_pool.free_blocks;
    pleat_block_t *plain = pleat_free_set_find(set, 0, MIB(30));
    cr_assert(eq(ptr, plain->range, NULL));
    fixture_fail_call(&f, PLEAT_VMM_CALL_MEM_FREE, 1, PLEAT_ERR_DRIVER);
    cr_expect(eq(int, pleat_backing_release(f.allocator, plain), PLEAT_ERR_DRIVER));
    cr_expect(eq(int, pleat_backing_release(f.allocator, plain), PLEAT_OK));
    cr_expect(eq(u64, f.allocator->held_bytes, MIB(60)));
    pleat_block_t *range = pleat_free_set_find(set, 0, MIB(60));
    fixture_fail_call(&f, PLEAT_VMM_CALL_UNMAP, 1, PLEAT_ERR_DRIVER);
    cr_expect(eq(int, pleat_backing_release(f.allocator, range), PLEAT_ERR_DRIVER));
    cr_expect(eq(int, pleat_backing_release(f.allocator, range), PLEAT_OK));
    cr_expect(eq(u64, f.allocator->held_bytes, 0));
    fixture_check_and_destroy(&f);
}
