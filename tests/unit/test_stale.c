/*
 * Tests of stale: a device that fails to make memory accessible and then to unmap it. Nothing uses
 * the addresses while the old mapping is there, and nothing is lost once the device works again.
 */
#include "core/stale.h"

#include "host_fault.h"
#include "pleated_bench.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

static fixture_t make(pleat_mode_t mode)
{
    pleat_options_t options = bench_options();
    options.mode = mode;
    return bench_create(256, &options);
}

static uint64_t mappings(const fixture_t *f)
{
    pleat_sim_usage_t usage = PLEAT_SIM_USAGE_INIT;
    cr_assert(eq(int, pleat_sim_read_usage(f->vmm, &usage), PLEAT_OK));
    return usage.mappings;
}

/* An allocation that fails twice over, which leaves a mapping behind. */
static void fail_twice(const fixture_t *f, uint64_t bytes)
{
    pleat_devptr_t ptr = 0;
    fixture_fail_call(f, PLEAT_VMM_CALL_SET_ACCESS, 1, PLEAT_ERR_DRIVER);
    fixture_fail_call(f, PLEAT_VMM_CALL_UNMAP, 1, PLEAT_ERR_DRIVER);
    cr_expect(eq(int, pleat_alloc(f->allocator, bytes, 0, &ptr), PLEAT_ERR_DRIVER));
    cr_expect(eq(u64, ptr, 0));
    fixture_check(f);
}

static const pleat_mode_t modes[] = {PLEAT_MODE_TORCH_EXPANDABLE, PLEAT_MODE_PLEATED};

Test(stale, the_addresses_are_used_again_once_the_device_works, .timeout = 10)
{
    for (size_t i = 0; i < 2; i++) {
        fixture_t f = make(modes[i]);
        const pleat_devptr_t first = fixture_alloc(&f, MIB(20), 0);
        const uint64_t before = mappings(&f);
        fail_twice(&f, MIB(16));
        cr_expect(lt(u64, before, mappings(&f)), "something is left behind");
        const pleat_devptr_t second = fixture_alloc(&f, MIB(16), 0);
        cr_expect(eq(u64, second, first + MIB(20)));
        fixture_check(&f);
        fixture_free(&f, first);
        fixture_free(&f, second);
        fixture_empty(&f);
        cr_expect(eq(u64, mappings(&f), 0));
        fixture_check_and_destroy(&f);
    }
}

Test(stale, a_device_that_goes_on_refusing_fails_the_request_and_nothing_else, .timeout = 10)
{
    for (size_t i = 0; i < 2; i++) {
        fixture_t f = make(modes[i]);
        const pleat_devptr_t first = fixture_alloc(&f, MIB(20), 0);
        pleat_devptr_t ptr = 0;
        fail_twice(&f, MIB(16));
        const fixture_state_t before = fixture_state(&f);
        for (int again = 0; again < 3; again++) {
            fixture_fail_call(&f, PLEAT_VMM_CALL_UNMAP, 1, PLEAT_ERR_DRIVER);
            cr_expect(eq(int, pleat_alloc(f.allocator, MIB(16), 0, &ptr), PLEAT_ERR_DRIVER));
            bench_require_same(&f, &before);
        }
        fixture_state_t state = before;
        fixture_state_drop(&state);
        cr_expect(eq(u64, fixture_alloc(&f, MIB(16), 0), first + MIB(20)));
        fixture_check_and_destroy(&f);
    }
}

Test(stale, what_is_left_goes_with_the_allocator, .timeout = 10)
{
    for (size_t i = 0; i < 2; i++) {
        fixture_t f = make(modes[i]);
        (void)fixture_alloc(&f, MIB(20), 0);
        fail_twice(&f, MIB(60));
        fixture_check_and_destroy(&f);
    }
}

/* A handle that the device neither takes back nor maps again whole. */
Test(stale, a_handle_that_goes_back_badly_leaves_its_address, .timeout = 10)
{
    fixture_t f = make(PLEAT_MODE_PLEATED);
    (void)fixture_alloc(&f, MIB(4), 0);
    const pleat_devptr_t second = fixture_alloc(&f, MIB(16), 0);
    fixture_free(&f, second);
    fixture_fail_call(&f, PLEAT_VMM_CALL_CHUNK_RELEASE, 1, PLEAT_ERR_DRIVER);
    fixture_fail_call(&f, PLEAT_VMM_CALL_SET_ACCESS, 1, PLEAT_ERR_DRIVER);
    fixture_fail_call(&f, PLEAT_VMM_CALL_UNMAP, 2, PLEAT_ERR_DRIVER);
    const pleat_status_t status = pleat_empty_cache(f.allocator);
    (void)status;
    fixture_check(&f);
    cr_expect(eq(u64, fixture_alloc(&f, MIB(16), 0), second));
    fixture_check(&f);
    pleat_allocator_destroy(f.allocator);
    pleat_sim_usage_t usage = PLEAT_SIM_USAGE_INIT;
    cr_assert(eq(int, pleat_sim_read_usage(f.vmm, &usage), PLEAT_OK));
    cr_expect(eq(u64, usage.mappings + usage.ranges, 0));
    pleat_vmm_destroy(f.vmm);
}

Test(stale, without_host_memory_for_a_note_the_device_guards_the_address, .timeout = 10)
{
    fixture_t f = make(PLEAT_MODE_PLEATED);
    pleat_stale_t *list = NULL;
    pleat_devptr_t range = 0;
    pleat_chunk_t chunk = 0;
    cr_assert(eq(int, pleat_vmm_address_reserve(f.vmm, MIB(4), &range), PLEAT_OK));
    cr_assert(eq(int, pleat_vmm_chunk_create(f.vmm, MIB(2), &chunk), PLEAT_OK));
    cr_assert(eq(int, pleat_vmm_map(f.vmm, range + MIB(2), MIB(2), chunk), PLEAT_OK));
    fixture_fail_call(&f, PLEAT_VMM_CALL_UNMAP, 1, PLEAT_ERR_DRIVER);
    host_fault_after(1);
    pleat_stale_unmap(&list, f.vmm, range + MIB(2), MIB(2));
    host_fault_after(0);
    cr_expect(eq(ptr, list, NULL));
    cr_expect(eq(int, pleat_vmm_map(f.vmm, range + MIB(2), MIB(2), chunk), PLEAT_ERR_INVALID));
    fixture_fail_call(&f, PLEAT_VMM_CALL_UNMAP, 1, PLEAT_ERR_DRIVER);
    pleat_stale_unmap(&list, f.vmm, range + MIB(2), MIB(2));
    cr_expect(ne(ptr, list, NULL));
    cr_expect(eq(int, pleat_stale_clear(&list, f.vmm, range, MIB(2)), PLEAT_OK));
    cr_expect(ne(ptr, list, NULL), "it lies behind that span");
    cr_expect(eq(int, pleat_stale_clear(&list, f.vmm, range, MIB(4)), PLEAT_OK));
    cr_expect(eq(ptr, list, NULL));
    cr_assert(eq(int, pleat_vmm_chunk_release(f.vmm, chunk), PLEAT_OK));
    cr_assert(eq(int, pleat_vmm_address_free(f.vmm, range, MIB(4)), PLEAT_OK));
    fixture_check_and_destroy(&f);
}
