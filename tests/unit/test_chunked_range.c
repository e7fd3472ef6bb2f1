/*
 * Tests of chunked_range: pages of a reserved range that get and lose their memory, all or nothing.
 */
#include "vmm/chunked_range.h"

#include "host_fault.h"

#include "vmm/base.h"

#include <pleat/sim.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#define PAGE (4 * PLEAT_MIB)

static void expect_error(pleat_status_t status, pleat_status_t want, const char *part)
{
    cr_expect(eq(int, status, want));
    cr_expect(ne(ptr, strstr(pleat_last_error(), part), NULL), "'%s' lacks '%s'",
              pleat_last_error(), part);
}

static void expect_ok(pleat_status_t status)
{
    cr_assert(eq(int, status, PLEAT_OK), "%s", pleat_last_error());
}

static pleat_sim_usage_t usage_of(pleat_vmm_t *vmm)
{
    pleat_sim_usage_t usage = PLEAT_SIM_USAGE_INIT;
    expect_ok(pleat_sim_read_usage(vmm, &usage));
    return usage;
}

/* The pages that have a chunk, as bits; the device must have exactly those mapped. */
static uint64_t pages_of(const pleat_chunked_range_t *range, pleat_vmm_t *vmm)
{
    uint64_t bits = 0;
    uint64_t count = 0;
    for (uint64_t page = 0; page < range->page_count; page++) {
        bits |= (uint64_t)(range->chunks[page] != 0) << page;
        count += range->chunks[page] != 0;
    }
    cr_expect(eq(u64, usage_of(vmm).mappings, count));
    cr_expect(eq(u64, usage_of(vmm).chunks, count));
    cr_expect(eq(u64, usage_of(vmm).chunk_bytes, count * PAGE));
    return bits;
}

static pleat_vmm_t *device(uint64_t pages)
{
    pleat_sim_options_t options = PLEAT_SIM_OPTIONS_INIT;
    options.capacity_bytes = pages * PAGE;
    pleat_vmm_t *vmm = NULL;
    expect_ok(pleat_sim_create(&options, &vmm));
    return vmm;
}

static void fini_and_destroy(pleat_chunked_range_t *range, pleat_vmm_t *vmm)
{
    pleat_chunked_range_fini(range, vmm);
    const pleat_sim_usage_t usage = usage_of(vmm);
    cr_expect(eq(u64, usage.ranges + usage.chunks + usage.mappings, 0));
    cr_expect(eq(ptr, range->chunks, NULL));
    pleat_vmm_destroy(vmm);
}

Test(chunked_range, runs_of_pages_come_and_go, .timeout = 10)
{
    pleat_vmm_t *vmm = device(16);
    pleat_chunked_range_t range;
    uint64_t done = 9;
    expect_ok(pleat_chunked_range_init(&range, vmm, PAGE, 8));
    cr_expect(ne(u64, range.address, 0));
    cr_expect(eq(u64, pages_of(&range, vmm), 0));
    expect_ok(pleat_chunked_range_map(&range, vmm, 2, 3));
    cr_expect(eq(u64, pages_of(&range, vmm), 0x1c));
    expect_ok(pleat_chunked_range_map(&range, vmm, 5, 3));
    expect_ok(pleat_chunked_range_map(&range, vmm, 0, 2));
    cr_expect(eq(u64, pages_of(&range, vmm), 0xff));
    expect_ok(pleat_chunked_range_unmap(&range, vmm, 3, 4, &done));
    cr_expect(eq(u64, done, 4));
    cr_expect(eq(u64, pages_of(&range, vmm), 0x87));
    expect_ok(pleat_chunked_range_unmap(&range, vmm, 7, 1, &done));
    expect_ok(pleat_chunked_range_unmap(&range, vmm, 0, 3, &done));
    expect_ok(pleat_chunked_range_unmap(&range, vmm, 0, 0, &done));
    cr_expect(eq(u64, done, 0));
    cr_expect(eq(u64, pages_of(&range, vmm), 0));
    fini_and_destroy(&range, vmm);
}

Test(chunked_range, calls_are_as_few_as_promised, .timeout = 10)
{
    pleat_vmm_t *vmm = device(16);
    pleat_chunked_range_t range;
    uint64_t done = 0;
    expect_ok(pleat_chunked_range_init(&range, vmm, PAGE, 8));
    expect_ok(pleat_chunked_range_map(&range, vmm, 0, 8));
    expect_ok(pleat_chunked_range_unmap(&range, vmm, 0, 8, &done));
    pleat_vmm_counters_t counters = PLEAT_VMM_COUNTERS_INIT;
    pleat_vmm_read_counters(vmm, &counters);
    cr_expect(eq(u64, counters.calls[PLEAT_VMM_CALL_CHUNK_CREATE], 8));
    cr_expect(eq(u64, counters.calls[PLEAT_VMM_CALL_MAP], 8));
    cr_expect(eq(u64, counters.calls[PLEAT_VMM_CALL_SET_ACCESS], 1));
    cr_expect(eq(u64, counters.calls[PLEAT_VMM_CALL_UNMAP], 8));
    cr_expect(eq(u64, counters.calls[PLEAT_VMM_CALL_CHUNK_RELEASE], 8));
    fini_and_destroy(&range, vmm);
}

Test(chunked_range, impossible_ranges_are_refused, .timeout = 10)
{
    pleat_vmm_t *vmm = device(16);
    pleat_chunked_range_t range = {.address = 7};
    const pleat_status_t bad = PLEAT_ERR_INVALID;
    expect_error(pleat_chunked_range_init(&range, vmm, PAGE, 0), bad, "no range of 0 pages");
    expect_error(pleat_chunked_range_init(&range, vmm, UINT64_C(1) << 40, UINT64_C(1) << 30), bad,
                 "no range of 1073741824 pages of 1099511627776 bytes");
    expect_error(pleat_chunked_range_init(&range, vmm, 512, 3), bad, "multiples of 2097152");
    host_fault_after(1);
    expect_error(pleat_chunked_range_init(&range, vmm, PAGE, 4), PLEAT_ERR_OOM_HOST,
                 "no host memory for a range of 4 pages");
    host_fault_after(0);
    expect_ok(pleat_sim_fail_call(vmm, PLEAT_VMM_CALL_ADDRESS_RESERVE, 1, PLEAT_ERR_OOM_DEVICE));
    expect_error(pleat_chunked_range_init(&range, vmm, PAGE, 4), PLEAT_ERR_OOM_DEVICE, "seeded");
    cr_expect(eq(u64, range.address, 7));
    cr_expect(eq(u64, usage_of(vmm).ranges, 0));
    pleat_vmm_destroy(vmm);
}

Test(chunked_range, a_failure_of_any_call_undoes_the_run, .timeout = 10)
{
    static const struct {
        pleat_vmm_call_t call;
        uint64_t calls; /* of this kind in the run */
    } rows[] = {
        {PLEAT_VMM_CALL_CHUNK_CREATE, 3}, {PLEAT_VMM_CALL_MAP, 3}, {PLEAT_VMM_CALL_SET_ACCESS, 1}};
    pleat_vmm_t *vmm = device(16);
    pleat_chunked_range_t range;
    uint64_t done = 0;
    expect_ok(pleat_chunked_range_init(&range, vmm, PAGE, 8));
    expect_ok(pleat_chunked_range_map(&range, vmm, 0, 2));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (uint64_t nth = 1; nth <= rows[i].calls; nth++) {
            expect_ok(pleat_sim_fail_call(vmm, rows[i].call, nth, PLEAT_ERR_DRIVER));
            expect_error(pleat_chunked_range_map(&range, vmm, 2, 3), PLEAT_ERR_DRIVER, "seeded");
            cr_expect(eq(u64, pages_of(&range, vmm), 0x3));
        }
    }
    expect_ok(pleat_chunked_range_map(&range, vmm, 2, 3));
    expect_ok(pleat_chunked_range_unmap(&range, vmm, 0, 5, &done));
    fini_and_destroy(&range, vmm);
}

Test(chunked_range, a_full_device_undoes_the_run, .timeout = 10)
{
    pleat_vmm_t *vmm = device(5);
    pleat_chunked_range_t range;
    uint64_t done = 0;
    expect_ok(pleat_chunked_range_init(&range, vmm, PAGE, 8));
    expect_ok(pleat_chunked_range_map(&range, vmm, 0, 2));
    expect_error(pleat_chunked_range_map(&range, vmm, 2, 4), PLEAT_ERR_OOM_DEVICE, "0 of 20971520");
    cr_expect(eq(u64, pages_of(&range, vmm), 0x3));
    expect_ok(pleat_chunked_range_map(&range, vmm, 2, 3));
    expect_ok(pleat_chunked_range_unmap(&range, vmm, 0, 5, &done));
    fini_and_destroy(&range, vmm);
}

Test(chunked_range, an_unmap_that_fails_says_how_far_it_came, .timeout = 10)
{
    pleat_vmm_t *vmm = device(16);
    pleat_chunked_range_t range;
    uint64_t done = 9;
    expect_ok(pleat_chunked_range_init(&range, vmm, PAGE, 8));
    expect_ok(pleat_chunked_range_map(&range, vmm, 0, 8));
    expect_ok(pleat_sim_fail_call(vmm, PLEAT_VMM_CALL_UNMAP, 3, PLEAT_ERR_DRIVER));
    expect_error(pleat_chunked_range_unmap(&range, vmm, 1, 5, &done), PLEAT_ERR_DRIVER, "seeded");
    cr_expect(eq(u64, done, 2));
    cr_expect(eq(u64, pages_of(&range, vmm), 0xf9));
    expect_ok(pleat_chunked_range_unmap(&range, vmm, 3, 5, &done));
    expect_ok(pleat_chunked_range_unmap(&range, vmm, 0, 1, &done));
    fini_and_destroy(&range, vmm);
}

Test(chunked_range, a_release_that_fails_loses_the_chunk_alone, .timeout = 10)
{
    pleat_vmm_t *vmm = device(16);
    pleat_chunked_range_t range;
    uint64_t done = 0;
    expect_ok(pleat_chunked_range_init(&range, vmm, PAGE, 8));
    expect_ok(pleat_chunked_range_map(&range, vmm, 0, 2));
    expect_ok(pleat_sim_fail_call(vmm, PLEAT_VMM_CALL_CHUNK_RELEASE, 1, PLEAT_ERR_DRIVER));
    expect_ok(pleat_chunked_range_unmap(&range, vmm, 0, 2, &done));
    cr_expect(eq(u64, usage_of(vmm).chunks, 1));
    cr_expect(eq(u64, usage_of(vmm).mappings, 0));
    pleat_chunked_range_fini(&range, vmm);
    cr_expect(eq(u64, usage_of(vmm).ranges, 0));
    pleat_vmm_destroy(vmm);
}
