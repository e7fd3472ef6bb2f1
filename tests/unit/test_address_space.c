/*
 * Tests of address_space: the rules by which the simulated device chooses addresses.
 */
#include "vmm/address_space.h"

#include "host_fault.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#define MIB PLEAT_MIB
#define SLAB (32 * MIB)

typedef struct fixture {
    pleat_span_pool_t pool;
    pleat_address_space_t space;
} fixture_t;

static void fixture_init(fixture_t *f)
{
    pleat_span_pool_init(&f->pool);
    cr_assert(eq(int, pleat_address_space_init(&f->space, &f->pool), PLEAT_OK));
}

static pleat_devptr_t take(fixture_t *f, uint64_t bytes)
{
    cr_assert(eq(int, pleat_span_pool_reserve(&f->pool, PLEAT_ADDRESS_TAKE_NODES), PLEAT_OK));
    return pleat_address_space_take(&f->space, bytes);
}

static void give(fixture_t *f, pleat_devptr_t address, uint64_t bytes)
{
    /* What the owner's live allocation would free. */
    cr_assert(eq(int, pleat_span_pool_reserve(&f->pool, 1), PLEAT_OK));
    pleat_address_space_give(&f->space, address, bytes);
}

/* Everything given back: one hole, no slabs, no gaps. */
static void fixture_check_and_fini(fixture_t *f)
{
    cr_expect(eq(int, (int)f->space.holes.count, 1));
    cr_expect(eq(int, (int)f->space.large.slabs.count, 0));
    cr_expect(eq(int, (int)f->space.large.gaps.count, 0));
    cr_expect(eq(int, (int)f->space.small.slabs.count, 0));
    cr_expect(eq(int, (int)f->space.small.gaps.count, 0));
    pleat_span_pool_fini(&f->pool);
}

Test(address_space, slabs_fall_from_the_top, .timeout = 10)
{
    fixture_t f;
    fixture_init(&f);
    const pleat_devptr_t first = take(&f, SLAB);
    const pleat_devptr_t second = take(&f, 3 * SLAB - 2 * MIB);
    const pleat_devptr_t third = take(&f, SLAB);
    cr_expect(eq(u64, first - second, 3 * SLAB));
    cr_expect(eq(u64, second - third, SLAB));
    give(&f, second, 3 * SLAB - 2 * MIB);
    give(&f, first, SLAB);
    give(&f, third, SLAB);
    fixture_check_and_fini(&f);
}

Test(address_space, the_rest_of_a_slab_serves_smaller_ones, .timeout = 10)
{
    fixture_t f;
    fixture_init(&f);
    const pleat_devptr_t first = take(&f, 20 * MIB);
    const pleat_devptr_t second = take(&f, 2 * MIB);
    const pleat_devptr_t third = take(&f, 20 * MIB); /* does not fit behind them */
    const pleat_devptr_t fourth = take(&f, 10 * MIB);
    cr_expect(eq(u64, second, first + 20 * MIB));
    cr_expect(eq(u64, third, first - SLAB));
    cr_expect(eq(u64, fourth, third + 20 * MIB), "the lowest gap serves first, not the last used");
    give(&f, first, 20 * MIB);
    give(&f, third, 20 * MIB);
    give(&f, second, 2 * MIB);
    give(&f, fourth, 10 * MIB);
    fixture_check_and_fini(&f);
}

Test(address_space, an_emptied_slab_is_used_again_from_its_top, .timeout = 10)
{
    fixture_t f;
    fixture_init(&f);
    const pleat_devptr_t first = take(&f, 3 * SLAB);
    const pleat_devptr_t second = take(&f, SLAB);
    give(&f, first, 3 * SLAB);
    cr_expect(eq(u64, take(&f, SLAB), first + 2 * SLAB));
    cr_expect(eq(u64, take(&f, 2 * SLAB), second - 2 * SLAB),
              "a hole must be larger than the slab");
    give(&f, first + 2 * SLAB, SLAB);
    give(&f, second - 2 * SLAB, 2 * SLAB);
    give(&f, second, SLAB);
    fixture_check_and_fini(&f);
}

Test(address_space, gaps_do_not_merge_across_slabs, .timeout = 10)
{
    fixture_t f;
    fixture_init(&f);
    const pleat_devptr_t first = take(&f, 20 * MIB);
    const pleat_devptr_t second = take(&f, 22 * MIB);
    cr_assert(eq(u64, second + SLAB, first));
    /* 8 MiB end the lower slab; with the 20 MiB that come free above them that makes 28. */
    const pleat_devptr_t tail = take(&f, 2 * MIB);
    cr_assert(eq(u64, tail, second + 22 * MIB));
    const pleat_devptr_t end = take(&f, 12 * MIB);
    cr_assert(eq(u64, end, first + 20 * MIB));
    give(&f, first, 20 * MIB);
    const pleat_devptr_t wide = take(&f, 28 * MIB);
    cr_expect(lt(u64, wide, second));
    give(&f, wide, 28 * MIB);
    give(&f, tail, 2 * MIB);
    give(&f, end, 12 * MIB);
    give(&f, second, 22 * MIB);
    fixture_check_and_fini(&f);
}

Test(address_space, small_ones_share_two_mebibytes, .timeout = 10)
{
    fixture_t f;
    fixture_init(&f);
    const pleat_devptr_t first = take(&f, 1);
    const pleat_devptr_t second = take(&f, 513);
    const pleat_devptr_t third = take(&f, 2 * MIB - 1024); /* does not fit into the rest */
    cr_expect(eq(u64, first % (2 * MIB), 0));
    cr_expect(eq(u64, second, first + 512));
    cr_expect(eq(u64, third, first + 2 * MIB));
    cr_expect(eq(u64, take(&f, 1024), first + 1536));
    give(&f, first + 1536, 1024);
    give(&f, second, 513);
    give(&f, third, 2 * MIB - 1024);
    give(&f, first, 1);
    fixture_check_and_fini(&f);
}

Test(address_space, sizes_round_up_to_the_step, .timeout = 10)
{
    fixture_t f;
    fixture_init(&f);
    const pleat_devptr_t first = take(&f, 2 * MIB + 1);
    const pleat_devptr_t second = take(&f, 2 * MIB);
    cr_expect(eq(u64, second, first + 4 * MIB));
    give(&f, first, 2 * MIB + 1);
    give(&f, second, 2 * MIB);
    fixture_check_and_fini(&f);
}

Test(address_space, more_than_all_addresses_gives_none, .timeout = 10)
{
    fixture_t f;
    fixture_init(&f);
    cr_expect(eq(u64, take(&f, UINT64_MAX), 0));
    cr_expect(eq(u64, take(&f, UINT64_C(1) << 60), 0));
    cr_expect(eq(u64, take(&f, UINT64_C(0x7f0000000000)), 0));
    fixture_check_and_fini(&f);
}

Test(address_space, small_ones_fail_when_addresses_are_gone, .timeout = 10)
{
    fixture_t f;
    fixture_init(&f);
    /* All but one slab: a hole must be larger than what is cut from it. */
    pleat_span_t hole;
    cr_assert(pleat_span_find_lowest_fit(&f.pool, &f.space.holes, 1, &hole));
    const pleat_devptr_t all = take(&f, hole.bytes - SLAB);
    cr_assert(ne(u64, all, 0));
    cr_expect(eq(u64, take(&f, 512), 0));
    give(&f, all, hole.bytes - SLAB);
    fixture_check_and_fini(&f);
}

Test(address_space, init_without_host_memory_fails, .timeout = 10)
{
    fixture_t f;
    pleat_span_pool_init(&f.pool);
    host_fault_after(1);
    cr_expect(eq(int, pleat_address_space_init(&f.space, &f.pool), PLEAT_ERR_OOM_HOST));
}
