/*
 * Tests of backing_classic: segments from plain device allocations.
 */
#include "core/allocator.h"
#include "core/serve.h"

#include "fixture.h"

#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#define MIB(count) ((uint64_t)(count)*PLEAT_MIB)

static const pleat_options_t default_options = PLEAT_OPTIONS_INIT;

/* Grow for a request as serve does, and leave the block in its pool. */
static pleat_status_t grow(const fixture_t *f, uint64_t bytes, pleat_block_t **block_out)
{
    pleat_allocator_t *allocator = f->allocator;
    pleat_request_t request = pleat_serve_request(allocator, bytes, 3);
    const pleat_backing_ops_t *ops = pleat_backing_classic();
    cr_assert(pleat_block_store_reserve(&allocator->blocks, ops->supply_block_count));
    request.bins = pleat_free_set_reserve(&request.pool->free_blocks, 3);
    cr_assert(ne(ptr, request.bins, NULL));
    const pleat_status_t status = ops->supply(allocator, &request, block_out);
    if (status == PLEAT_OK) {
        pleat_pool_give(request.pool, *block_out);
    }
    return status;
}

Test(backing_classic, grow_makes_one_segment, .timeout = 5)
{
    fixture_t f = fixture_create(NULL);
    pleat_block_t *block = NULL;
    cr_assert(eq(int, grow(&f, MIB(3), &block), PLEAT_OK));
    cr_expect(eq(u64, block->bytes, MIB(20)));
    cr_expect(eq(u64, block->stream, 3));
    cr_expect(eq(int, (int)block->use, (int)PLEAT_BLOCK_USE_FREE));
    cr_expect(not(pleat_block_is_split(block)));
    cr_expect(eq(u64, f.allocator->held_bytes, MIB(20)));
    const pleat_stats_t stats = fixture_stats(&f);
    cr_expect(eq(i64, stats.segment[PLEAT_STAT_LARGE_POOL].current, 1));
    cr_expect(eq(i64, stats.reserved_bytes[PLEAT_STAT_LARGE_POOL].current, MIB(20)));
    cr_expect(eq(i64, stats.oversize_segments.current, 0));
    cr_expect(eq(i64, stats.num_device_alloc, 1));
    cr_expect(eq(str, (char *)pleat_backing_classic()->name, (char *)"classic"));
    fixture_check_and_destroy(&f);
}

Test(backing_classic, a_refused_segment_changes_nothing, .timeout = 5)
{
    fixture_t f = fixture_create(&(fixture_options_t){.capacity_bytes = MIB(16)});
    pleat_block_t *block = NULL;
    cr_expect(eq(int, grow(&f, MIB(3), &block), PLEAT_ERR_OOM_DEVICE)); /* counted as a retry */
    fixture_state_t state = fixture_state(&f);
    fixture_fail_call(&f, PLEAT_VMM_CALL_MEM_ALLOC, 1, PLEAT_ERR_DRIVER);
    cr_expect(eq(int, grow(&f, MIB(12), &block), PLEAT_ERR_DRIVER));
    cr_expect(eq(ptr, block, NULL));
    cr_expect(eq(u64, f.allocator->held_bytes, 0));
    cr_expect(fixture_state_is(&f, &state));
    fixture_state_drop(&state);
    fixture_check_and_destroy(&f);
}

Test(backing_classic, release_undoes_grow, .timeout = 5)
{
    pleat_options_t options = default_options;
    options.max_split_bytes = MIB(40);
    fixture_t f = fixture_create(&(fixture_options_t){.options = &options});
    pleat_block_t *block = NULL;
    cr_assert(eq(int, grow(&f, MIB(40), &block), PLEAT_OK));
    cr_expect(eq(i64, fixture_stats(&f).oversize_segments.current, 1));
    cr_expect(pleat_backing_is_whole(block));
    fixture_fail_call(&f, PLEAT_VMM_CALL_MEM_FREE, 1, PLEAT_ERR_DRIVER);
    fixture_state_t state = fixture_state(&f);
    cr_expect(eq(int, pleat_backing_classic_release(f.allocator, block), PLEAT_ERR_DRIVER));
    cr_expect(fixture_state_is(&f, &state));
    fixture_state_drop(&state);
    fixture_check(&f);
    cr_expect(eq(int, pleat_backing_classic_release(f.allocator, block), PLEAT_OK));
    const pleat_stats_t stats = fixture_stats(&f);
    cr_expect(eq(i64, stats.oversize_segments.current, 0));
    cr_expect(eq(i64, stats.segment[PLEAT_STAT_ALL].current, 0));
    cr_expect(eq(i64, stats.reserved_bytes[PLEAT_STAT_ALL].current, 0));
    cr_expect(eq(i64, stats.num_device_free, 1));
    cr_expect(eq(u64, f.allocator->held_bytes, 0));
    fixture_check_and_destroy(&f);
}

Test(backing_classic, only_whole_segments_can_be_released, .timeout = 5)
{
    fixture_t f = fixture_create(NULL);
    const pleat_devptr_t a = fixture_alloc(&f, MIB(3), 0);
    const pleat_block_t *block = pleat_address_map_find(&f.allocator->live, a);
    cr_expect(not(pleat_backing_is_whole(block)));
    cr_expect(not(pleat_backing_is_whole(block->right)));
    fixture_check_and_destroy(&f);
}

Test(backing_classic, should_split_at_its_borders, .timeout = 5)
{
    static const struct {
        bool is_small;
        uint64_t block_bytes;
        uint64_t bytes;
        uint64_t max_split_bytes;
        bool should_split;
    } rows[] = {
        {true, 1024, 512, PLEAT_UNLIMITED, true},
        {true, 1024, 1024, PLEAT_UNLIMITED, false},
        {true, 1024, 512, 512, true}, /* the split limit is for the large pool */
        {false, MIB(3), MIB(2), PLEAT_UNLIMITED, false},
        {false, MIB(3) + 512, MIB(2), PLEAT_UNLIMITED, true},
        {false, MIB(3) + 512, MIB(2), MIB(2) + 512, true},
        {false, MIB(3) + 512, MIB(2), MIB(2), false},
    };
    fixture_t f = fixture_create(NULL);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        pleat_allocator_t *allocator = f.allocator;
        allocator->options.max_split_bytes = rows[i].max_split_bytes;
        const pleat_block_t block = {
            .bytes = rows[i].block_bytes,
            .pool = rows[i].is_small ? &allocator->small_pool : &allocator->large_pool,
        };
        const pleat_request_t request = {.bytes = rows[i].bytes, .pool = block.pool};
        cr_expect(eq(int, pleat_backing_classic()->should_split(allocator, &block, &request),
                     rows[i].should_split),
                  "row %zu", i);
    }
    fixture_check_and_destroy(&f);
}

Test(backing_classic, discard_goes_on_when_the_device_refuses, .timeout = 5)
{
    fixture_t f = fixture_create(NULL);
    (void)fixture_alloc(&f, MIB(12), 0);
    (void)fixture_alloc(&f, MIB(14), 0);
    fixture_fail_call(&f, PLEAT_VMM_CALL_MEM_FREE, 1, PLEAT_ERR_DRIVER);
    pleat_allocator_destroy(f.allocator);
    cr_expect(eq(u64, fixture_calls(&f, PLEAT_VMM_CALL_MEM_FREE), 2));
    pleat_sim_usage_t usage = PLEAT_SIM_USAGE_INIT;
    cr_assert(eq(int, pleat_sim_read_usage(f.vmm, &usage), PLEAT_OK));
    cr_expect(eq(u64, usage.allocations, 1));
    pleat_vmm_destroy(f.vmm);
}
