/*
 * Tests of sim_memory through the device's calls: address ranges, chunks, mappings, access and
 * their budgets, with the driver's rules. What real contents add has test_sim_arena.c.
 */
#include "vmm/sim_memory.h"

#include "host_fault.h"

#include <pleat/sim.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#define GRANULE (2 * PLEAT_MIB)

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

static pleat_vmm_t *device(const pleat_sim_options_t *options)
{
    pleat_vmm_t *vmm = NULL;
    expect_ok(pleat_sim_create(options, &vmm));
    return vmm;
}

static pleat_devptr_t reserve(pleat_vmm_t *vmm, uint64_t granules)
{
    pleat_devptr_t ptr = 0;
    expect_ok(pleat_vmm_address_reserve(vmm, granules * GRANULE, &ptr));
    return ptr;
}

static pleat_chunk_t create(pleat_vmm_t *vmm, uint64_t granules)
{
    pleat_chunk_t chunk = 0;
    expect_ok(pleat_vmm_chunk_create(vmm, granules * GRANULE, &chunk));
    return chunk;
}

static pleat_sim_usage_t usage_of(pleat_vmm_t *vmm)
{
    pleat_sim_usage_t usage = PLEAT_SIM_USAGE_INIT;
    expect_ok(pleat_sim_read_usage(vmm, &usage));
    return usage;
}

static uint64_t free_bytes(pleat_vmm_t *vmm)
{
    uint64_t bytes = 0;
    uint64_t total = 0;
    expect_ok(pleat_vmm_mem_info(vmm, &bytes, &total));
    return bytes;
}

static void check_and_destroy(pleat_vmm_t *vmm)
{
    const pleat_sim_usage_t usage = usage_of(vmm);
    cr_expect(eq(u64, usage.allocations + usage.allocated_bytes + usage.events, 0));
    cr_expect(eq(u64, usage.ranges, 0));
    cr_expect(eq(u64, usage.chunks, 0));
    cr_expect(eq(u64, usage.chunk_bytes, 0));
    cr_expect(eq(u64, usage.mappings, 0));
    pleat_vmm_destroy(vmm);
}

Test(sim_memory, granularity_is_two_mebibytes, .timeout = 10)
{
    pleat_vmm_t *vmm = device(NULL);
    uint64_t bytes = 0;
    cr_expect(pleat_vmm_has_mapping(vmm));
    expect_ok(pleat_vmm_granularity(vmm, &bytes));
    cr_expect(eq(u64, bytes, GRANULE));
    check_and_destroy(vmm);
}

Test(sim_memory, a_chunk_is_mapped_and_made_accessible, .timeout = 10)
{
    pleat_vmm_t *vmm = device(NULL);
    const pleat_devptr_t range = reserve(vmm, 4);
    cr_expect(eq(u64, range % GRANULE, 0));
    const pleat_chunk_t chunk = create(vmm, 2);
    expect_ok(pleat_vmm_map(vmm, range + GRANULE, 2 * GRANULE, chunk));
    expect_ok(pleat_vmm_set_access(vmm, range + GRANULE, 2 * GRANULE));
    const pleat_sim_usage_t usage = usage_of(vmm);
    cr_expect(eq(u64, usage.ranges, 1));
    cr_expect(eq(u64, usage.chunks, 1));
    cr_expect(eq(u64, usage.chunk_bytes, 2 * GRANULE));
    cr_expect(eq(u64, usage.mappings, 1));
    expect_ok(pleat_vmm_unmap(vmm, range + GRANULE, 2 * GRANULE));
    expect_ok(pleat_vmm_chunk_release(vmm, chunk));
    expect_ok(pleat_vmm_address_free(vmm, range, 4 * GRANULE));
    check_and_destroy(vmm);
}

Test(sim_memory, sizes_and_addresses_are_multiples_of_the_granularity, .timeout = 10)
{
    static const uint64_t sizes[] = {0, 1, GRANULE - 1, GRANULE + 512, 3 * GRANULE - 1};
    pleat_vmm_t *vmm = device(NULL);
    const pleat_devptr_t range = reserve(vmm, 4);
    const pleat_chunk_t chunk = create(vmm, 1);
    const pleat_status_t bad = PLEAT_ERR_INVALID;
    const char *part = "both must be multiples of 2097152";
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        pleat_devptr_t ptr = 1;
        pleat_chunk_t made = 1;
        expect_error(pleat_vmm_address_reserve(vmm, sizes[i], &ptr), bad, part);
        expect_error(pleat_vmm_chunk_create(vmm, sizes[i], &made), bad, part);
        expect_error(pleat_vmm_map(vmm, range, sizes[i], chunk), bad, part);
        expect_error(pleat_vmm_unmap(vmm, range, sizes[i]), bad, part);
        expect_error(pleat_vmm_set_access(vmm, range, sizes[i]), bad, part);
        expect_error(pleat_vmm_address_free(vmm, range, sizes[i]), bad, part);
        cr_expect(eq(u64, ptr + made, 2));
    }
    expect_error(pleat_vmm_map(vmm, range + 512, GRANULE, chunk), bad, part);
    expect_error(pleat_vmm_unmap(vmm, range + 512, GRANULE), bad, part);
    expect_error(pleat_vmm_set_access(vmm, range + 512, GRANULE), bad, part);
    expect_error(pleat_vmm_address_free(vmm, range + 512, GRANULE), bad, part);
    expect_ok(pleat_vmm_chunk_release(vmm, chunk));
    expect_ok(pleat_vmm_address_free(vmm, range, 4 * GRANULE));
    check_and_destroy(vmm);
}

Test(sim_memory, nothing_is_mapped_outside_a_range, .timeout = 10)
{
    pleat_vmm_t *vmm = device(NULL);
    const pleat_devptr_t range = reserve(vmm, 2);
    const pleat_chunk_t chunk = create(vmm, 2);
    static const int64_t offsets[] = {-2, -1, 1, 2};
    const pleat_status_t bad = PLEAT_ERR_INVALID;
    for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++) {
        const pleat_devptr_t ptr = range + (uint64_t)(offsets[i] * (int64_t)GRANULE);
        expect_error(pleat_vmm_map(vmm, ptr, 2 * GRANULE, chunk), bad, "lie in no reserved range");
        expect_error(pleat_vmm_unmap(vmm, ptr, 2 * GRANULE), bad, "lie in no reserved range");
        expect_error(pleat_vmm_set_access(vmm, ptr, 2 * GRANULE), bad, "lie in no reserved");
    }
    const uint64_t huge = UINT64_MAX - GRANULE + 1;
    expect_error(pleat_vmm_unmap(vmm, range, huge), bad, "lie in no reserved range");
    expect_error(pleat_vmm_unmap(vmm, 0, GRANULE), bad, "lie in no reserved range");
    expect_error(pleat_vmm_unmap(vmm, huge, GRANULE), bad, "lie in no reserved range");
    expect_ok(pleat_vmm_address_free(vmm, range, 2 * GRANULE));
    expect_error(pleat_vmm_map(vmm, range, 2 * GRANULE, chunk), bad, "lie in no reserved range");
    expect_ok(pleat_vmm_chunk_release(vmm, chunk));
    check_and_destroy(vmm);
}

Test(sim_memory, a_mapping_does_not_cross_from_range_to_range, .timeout = 10)
{
    pleat_vmm_t *vmm = device(NULL);
    const pleat_devptr_t a = reserve(vmm, 1);
    const pleat_devptr_t b = reserve(vmm, 1);
    const pleat_chunk_t chunk = create(vmm, 2);
    cr_assert(eq(u64, b, a + GRANULE), "gaps are filled from below");
    expect_error(pleat_vmm_map(vmm, a, 2 * GRANULE, chunk), PLEAT_ERR_INVALID,
                 "lie in no reserved range");
    expect_error(pleat_vmm_address_free(vmm, a, 2 * GRANULE), PLEAT_ERR_INVALID,
                 "lie in no reserved range");
    expect_ok(pleat_vmm_chunk_release(vmm, chunk));
    expect_ok(pleat_vmm_address_free(vmm, a, GRANULE));
    expect_ok(pleat_vmm_address_free(vmm, b, GRANULE));
    check_and_destroy(vmm);
}

Test(sim_memory, addresses_that_were_freed_come_again, .timeout = 10)
{
    pleat_vmm_t *vmm = device(NULL);
    pleat_devptr_t ranges[40];
    for (uint64_t i = 0; i < 40; i++) {
        ranges[i] = reserve(vmm, 1 + i % 3);
    }
    expect_ok(pleat_vmm_address_free(vmm, ranges[5], 3 * GRANULE));
    expect_ok(pleat_vmm_address_free(vmm, ranges[10], 2 * GRANULE));
    cr_expect(eq(u64, reserve(vmm, 2), ranges[5]));
    cr_expect(eq(u64, reserve(vmm, 1), ranges[5] + 2 * GRANULE));
    const pleat_devptr_t last = reserve(vmm, 3);
    cr_expect(lt(u64, ranges[39], last));
    cr_expect(eq(u64, reserve(vmm, 2), ranges[10]));
    cr_expect(eq(u64, usage_of(vmm).ranges, 42));
    pleat_vmm_destroy(vmm); /* takes what is still live */
}

Test(sim_memory, ranges_lie_apart_from_plain_allocations, .timeout = 10)
{
    pleat_sim_options_t options = PLEAT_SIM_OPTIONS_INIT;
    options.capacity_bytes = PLEAT_SIM_MAX_CAPACITY_BYTES;
    pleat_vmm_t *vmm = device(&options);
    const uint64_t bytes = PLEAT_SIM_ADDRESS_LIMIT_BYTES;
    const pleat_devptr_t range = reserve(vmm, bytes / GRANULE);
    pleat_devptr_t plain = 0;
    expect_ok(pleat_vmm_mem_alloc(vmm, PLEAT_SIM_MAX_CAPACITY_BYTES, &plain));
    cr_expect(plain + PLEAT_SIM_MAX_CAPACITY_BYTES <= range || range + bytes <= plain);
    expect_error(pleat_vmm_mem_free(vmm, range), PLEAT_ERR_INVALID_POINTER, "no live allocation");
    expect_ok(pleat_vmm_mem_free(vmm, plain));
    expect_ok(pleat_vmm_address_free(vmm, range, bytes));
    check_and_destroy(vmm);
}

Test(sim_memory, a_chunk_is_mapped_whole, .timeout = 10)
{
    pleat_vmm_t *vmm = device(NULL);
    const pleat_devptr_t range = reserve(vmm, 8);
    const pleat_chunk_t chunk = create(vmm, 3);
    const pleat_status_t bad = PLEAT_ERR_INVALID;
    expect_error(pleat_vmm_map(vmm, range, 2 * GRANULE, chunk), bad, "the chunk has 6291456 bytes");
    expect_error(pleat_vmm_map(vmm, range, 4 * GRANULE, chunk), bad, "8388608");
    expect_ok(pleat_vmm_map(vmm, range, 3 * GRANULE, chunk));
    expect_ok(pleat_vmm_unmap(vmm, range, 3 * GRANULE));
    expect_ok(pleat_vmm_chunk_release(vmm, chunk));
    expect_ok(pleat_vmm_address_free(vmm, range, 8 * GRANULE));
    check_and_destroy(vmm);
}

Test(sim_memory, nothing_is_mapped_over_a_mapping, .timeout = 10)
{
    pleat_vmm_t *vmm = device(NULL);
    const pleat_devptr_t range = reserve(vmm, 8);
    const pleat_chunk_t a = create(vmm, 3);
    const pleat_chunk_t b = create(vmm, 2);
    expect_ok(pleat_vmm_map(vmm, range + 2 * GRANULE, 3 * GRANULE, a));
    for (uint64_t i = 1; i <= 4; i++) {
        expect_error(pleat_vmm_map(vmm, range + i * GRANULE, 2 * GRANULE, b), PLEAT_ERR_INVALID,
                     "something is mapped at 0x");
    }
    expect_error(pleat_vmm_map(vmm, range + 2 * GRANULE, 3 * GRANULE, a), PLEAT_ERR_INVALID,
                 "something is mapped at 0x");
    cr_expect(eq(u64, usage_of(vmm).mappings, 1));
    expect_ok(pleat_vmm_map(vmm, range, 2 * GRANULE, b));
    expect_ok(pleat_vmm_map(vmm, range + 5 * GRANULE, 2 * GRANULE, b));
    expect_ok(pleat_vmm_unmap(vmm, range, 7 * GRANULE));
    expect_ok(pleat_vmm_chunk_release(vmm, a));
    expect_ok(pleat_vmm_chunk_release(vmm, b));
    expect_ok(pleat_vmm_address_free(vmm, range, 8 * GRANULE));
    check_and_destroy(vmm);
}

/* Three mappings of 1, 3 and 2 granules, a gap of one, and one of 1 granule. */
static pleat_devptr_t map_four(pleat_vmm_t *vmm, pleat_chunk_t *chunks)
{
    static const uint64_t granules[4] = {1, 3, 2, 1};
    static const uint64_t offsets[4] = {0, 1, 4, 7};
    const pleat_devptr_t range = reserve(vmm, 8);
    for (int i = 0; i < 4; i++) {
        chunks[i] = create(vmm, granules[i]);
        expect_ok(
            pleat_vmm_map(vmm, range + offsets[i] * GRANULE, granules[i] * GRANULE, chunks[i]));
    }
    return range;
}

Test(sim_memory, mappings_go_whole_and_several_at_once, .timeout = 10)
{
    static const struct {
        uint64_t offset, granules;
        bool is_mapped; /* else: in part */
    } rows[] = {{0, 2, true},  {0, 3, true},  {1, 1, true},  {1, 2, true}, {2, 2, true},
                {3, 1, true},  {3, 3, true},  {0, 5, true},  {5, 1, true}, {6, 1, false},
                {4, 3, false}, {0, 8, false}, {6, 2, false}, {0, 7, false}};
    pleat_vmm_t *vmm = device(NULL);
    pleat_chunk_t chunks[4];
    const pleat_devptr_t range = map_four(vmm, chunks);
    const uint64_t before_ns = pleat_vmm_clock_ns(vmm);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const pleat_devptr_t ptr = range + rows[i].offset * GRANULE;
        const char *part = rows[i].is_mapped ? "it goes only whole" : "nothing is mapped at 0x";
        expect_error(pleat_vmm_unmap(vmm, ptr, rows[i].granules * GRANULE), PLEAT_ERR_INVALID,
                     part);
        expect_error(pleat_vmm_set_access(vmm, ptr, rows[i].granules * GRANULE), PLEAT_ERR_INVALID,
                     part);
        cr_expect(eq(u64, usage_of(vmm).mappings, 4));
    }
    cr_expect(eq(u64, pleat_vmm_clock_ns(vmm), before_ns), "a call that fails costs nothing");
    expect_ok(pleat_vmm_set_access(vmm, range, 6 * GRANULE));
    expect_ok(pleat_vmm_unmap(vmm, range + GRANULE, 5 * GRANULE));
    cr_expect(eq(u64, usage_of(vmm).mappings, 2));
    expect_error(pleat_vmm_unmap(vmm, range + GRANULE, 5 * GRANULE), PLEAT_ERR_INVALID,
                 "nothing is mapped");
    expect_ok(pleat_vmm_unmap(vmm, range, GRANULE));
    expect_ok(pleat_vmm_unmap(vmm, range + 7 * GRANULE, GRANULE));
    for (int i = 0; i < 4; i++) {
        expect_ok(pleat_vmm_chunk_release(vmm, chunks[i]));
    }
    expect_ok(pleat_vmm_address_free(vmm, range, 8 * GRANULE));
    check_and_destroy(vmm);
}

Test(sim_memory, cost_is_a_chunk_s_however_many_a_call_covers, .timeout = 10)
{
    pleat_vmm_t *vmm = device(NULL);
    const pleat_devptr_t range = reserve(vmm, 12);
    pleat_chunk_t chunks[2] = {create(vmm, 1), create(vmm, 10)};
    expect_ok(pleat_vmm_map(vmm, range, GRANULE, chunks[0]));
    expect_ok(pleat_vmm_map(vmm, range + GRANULE, 10 * GRANULE, chunks[1]));
    expect_ok(pleat_vmm_set_access(vmm, range, 11 * GRANULE));
    expect_ok(pleat_vmm_unmap(vmm, range, 11 * GRANULE));
    expect_ok(pleat_vmm_chunk_release(vmm, chunks[0]));
    expect_ok(pleat_vmm_chunk_release(vmm, chunks[1]));
    pleat_vmm_counters_t counters = PLEAT_VMM_COUNTERS_INIT;
    pleat_vmm_read_counters(vmm, &counters);
    /* 2 MiB and 20 MiB, by the H200 table. */
    cr_expect(eq(u64, counters.time_ns[PLEAT_VMM_CALL_CHUNK_CREATE], 8400 + 8700));
    cr_expect(eq(u64, counters.time_ns[PLEAT_VMM_CALL_MAP], 800 + 700));
    cr_expect(eq(u64, counters.time_ns[PLEAT_VMM_CALL_SET_ACCESS], 35000 + 35600));
    cr_expect(eq(u64, counters.calls[PLEAT_VMM_CALL_SET_ACCESS], 1));
    cr_expect(eq(u64, counters.time_ns[PLEAT_VMM_CALL_UNMAP], 21700 + 22200));
    cr_expect(eq(u64, counters.time_ns[PLEAT_VMM_CALL_CHUNK_RELEASE], 10100 + 19200));
    cr_expect(eq(u64, counters.waits, 0), "no call waits for the device");
    expect_ok(pleat_vmm_address_free(vmm, range, 12 * GRANULE));
    check_and_destroy(vmm);
}

Test(sim_memory, no_call_waits_for_work_on_the_device, .timeout = 10)
{
    pleat_vmm_t *vmm = device(NULL);
    pleat_event_t event = 0;
    expect_ok(pleat_sim_set_busy(vmm, 1));
    expect_ok(pleat_vmm_event_create(vmm, &event));
    expect_ok(pleat_vmm_event_record(vmm, event, 1));
    pleat_chunk_t chunks[4];
    const pleat_devptr_t range = map_four(vmm, chunks);
    expect_ok(pleat_vmm_set_access(vmm, range, 6 * GRANULE));
    expect_ok(pleat_vmm_unmap(vmm, range, 6 * GRANULE));
    expect_ok(pleat_vmm_unmap(vmm, range + 7 * GRANULE, GRANULE));
    for (int i = 0; i < 4; i++) {
        expect_ok(pleat_vmm_chunk_release(vmm, chunks[i]));
    }
    expect_ok(pleat_vmm_address_free(vmm, range, 8 * GRANULE));
    cr_expect(eq(int, pleat_vmm_event_query(vmm, event), PLEAT_ERR_NOT_READY));
    expect_ok(pleat_vmm_event_destroy(vmm, event));
    check_and_destroy(vmm);
}

Test(sim_memory, access_needs_a_mapping, .timeout = 10)
{
    pleat_vmm_t *vmm = device(NULL);
    const pleat_devptr_t range = reserve(vmm, 2);
    expect_error(pleat_vmm_set_access(vmm, range, GRANULE), PLEAT_ERR_INVALID,
                 "set_access: nothing is mapped at 0x");
    expect_ok(pleat_vmm_address_free(vmm, range, 2 * GRANULE));
    check_and_destroy(vmm);
}

Test(sim_memory, a_released_chunk_lives_until_its_last_mapping_is_gone, .timeout = 10)
{
    pleat_sim_options_t options = PLEAT_SIM_OPTIONS_INIT;
    options.capacity_bytes = 4 * GRANULE;
    pleat_vmm_t *vmm = device(&options);
    const pleat_devptr_t range = reserve(vmm, 8);
    const pleat_chunk_t chunk = create(vmm, 3);
    expect_ok(pleat_vmm_map(vmm, range, 3 * GRANULE, chunk));
    expect_ok(pleat_vmm_map(vmm, range + 4 * GRANULE, 3 * GRANULE, chunk));
    cr_expect(eq(u64, usage_of(vmm).chunk_bytes, 3 * GRANULE), "mapped twice counts once");
    expect_ok(pleat_vmm_chunk_release(vmm, chunk));
    expect_error(pleat_vmm_chunk_release(vmm, chunk), PLEAT_ERR_INVALID,
                 "is no handle of a chunk, or was released");
    expect_error(pleat_vmm_map(vmm, range, 3 * GRANULE, chunk), PLEAT_ERR_INVALID,
                 "is no handle of a chunk, or was released");
    cr_expect(eq(u64, free_bytes(vmm), GRANULE));
    expect_ok(pleat_vmm_set_access(vmm, range + 4 * GRANULE, 3 * GRANULE));
    expect_ok(pleat_vmm_unmap(vmm, range, 3 * GRANULE));
    cr_expect(eq(u64, free_bytes(vmm), GRANULE));
    pleat_chunk_t other = 0;
    cr_expect(eq(int, pleat_vmm_chunk_create(vmm, 2 * GRANULE, &other), PLEAT_ERR_OOM_DEVICE));
    expect_ok(pleat_vmm_unmap(vmm, range + 4 * GRANULE, 3 * GRANULE));
    cr_expect(eq(u64, free_bytes(vmm), 4 * GRANULE));
    cr_expect(eq(u64, usage_of(vmm).chunks, 0));
    expect_ok(pleat_vmm_address_free(vmm, range, 8 * GRANULE));
    check_and_destroy(vmm);
}

Test(sim_memory, foreign_handles_are_refused, .timeout = 10)
{
    static const pleat_chunk_t handles[] = {0, 2, 256, 257, UINT64_MAX};
    pleat_vmm_t *vmm = device(NULL);
    const pleat_devptr_t range = reserve(vmm, 2);
    const pleat_chunk_t chunk = create(vmm, 1);
    cr_assert(eq(u64, chunk, 1));
    for (size_t i = 0; i < sizeof handles / sizeof handles[0]; i++) {
        expect_error(pleat_vmm_chunk_release(vmm, handles[i]), PLEAT_ERR_INVALID, "no handle");
        expect_error(pleat_vmm_map(vmm, range, GRANULE, handles[i]), PLEAT_ERR_INVALID,
                     "no handle");
    }
    expect_ok(pleat_vmm_chunk_release(vmm, chunk));
    expect_ok(pleat_vmm_address_free(vmm, range, 2 * GRANULE));
    check_and_destroy(vmm);
}

Test(sim_memory, a_range_is_freed_whole_and_empty, .timeout = 10)
{
    pleat_vmm_t *vmm = device(NULL);
    const pleat_devptr_t range = reserve(vmm, 4);
    const pleat_chunk_t chunk = create(vmm, 1);
    const pleat_status_t bad = PLEAT_ERR_INVALID;
    expect_error(pleat_vmm_address_free(vmm, range, 2 * GRANULE), bad, "free it whole");
    expect_error(pleat_vmm_address_free(vmm, range + GRANULE, 3 * GRANULE), bad, "free it whole");
    expect_error(pleat_vmm_address_free(vmm, range - GRANULE, 4 * GRANULE), bad, "no reserved");
    expect_ok(pleat_vmm_map(vmm, range + 3 * GRANULE, GRANULE, chunk));
    expect_error(pleat_vmm_address_free(vmm, range, 4 * GRANULE), bad, "has 1 mappings");
    expect_ok(pleat_vmm_unmap(vmm, range + 3 * GRANULE, GRANULE));
    expect_ok(pleat_vmm_address_free(vmm, range, 4 * GRANULE));
    expect_error(pleat_vmm_address_free(vmm, range, 4 * GRANULE), bad, "no reserved range");
    expect_ok(pleat_vmm_chunk_release(vmm, chunk));
    check_and_destroy(vmm);
}

Test(sim_memory, capacity_is_shared_with_plain_allocations, .timeout = 10)
{
    pleat_sim_options_t options = PLEAT_SIM_OPTIONS_INIT;
    options.capacity_bytes = 5 * GRANULE;
    pleat_vmm_t *vmm = device(&options);
    pleat_chunk_t chunk = 0;
    pleat_devptr_t plain = 0;
    expect_ok(pleat_vmm_mem_alloc(vmm, GRANULE + 1, &plain));
    expect_error(pleat_vmm_chunk_create(vmm, 4 * GRANULE, &chunk), PLEAT_ERR_OOM_DEVICE,
                 "has 8388607 of 10485760 bytes free, 8388608 were asked for");
    expect_error(pleat_vmm_chunk_create(vmm, UINT64_C(1) << 60, &chunk), PLEAT_ERR_OOM_DEVICE,
                 "bytes free");
    const pleat_chunk_t a = create(vmm, 3);
    pleat_devptr_t other = 0;
    expect_error(pleat_vmm_mem_alloc(vmm, GRANULE, &other), PLEAT_ERR_OOM_DEVICE, "has 2097151");
    expect_ok(pleat_vmm_mem_free(vmm, plain));
    const pleat_chunk_t b = create(vmm, 2);
    cr_expect(eq(u64, free_bytes(vmm), 0));
    expect_ok(pleat_vmm_chunk_release(vmm, a));
    expect_ok(pleat_vmm_mem_alloc(vmm, 3 * GRANULE, &plain));
    expect_ok(pleat_vmm_mem_free(vmm, plain));
    expect_ok(pleat_vmm_chunk_release(vmm, b));
    check_and_destroy(vmm);
}

Test(sim_memory, mappings_have_a_budget, .timeout = 10)
{
    pleat_sim_options_t options = PLEAT_SIM_OPTIONS_INIT;
    options.mapping_limit = 3;
    pleat_vmm_t *vmm = device(&options);
    const pleat_devptr_t range = reserve(vmm, 8);
    const pleat_chunk_t chunk = create(vmm, 1);
    for (uint64_t i = 0; i < 3; i++) {
        expect_ok(pleat_vmm_map(vmm, range + i * GRANULE, GRANULE, chunk));
    }
    expect_error(pleat_vmm_map(vmm, range + 3 * GRANULE, GRANULE, chunk), PLEAT_ERR_OOM_DEVICE,
                 "all 3 mappings of the budget are in use");
    expect_ok(pleat_vmm_unmap(vmm, range + GRANULE, GRANULE));
    expect_ok(pleat_vmm_map(vmm, range + 3 * GRANULE, GRANULE, chunk));
    expect_ok(pleat_vmm_unmap(vmm, range, GRANULE));
    expect_ok(pleat_vmm_unmap(vmm, range + 2 * GRANULE, 2 * GRANULE));
    expect_ok(pleat_vmm_chunk_release(vmm, chunk));
    expect_ok(pleat_vmm_address_free(vmm, range, 8 * GRANULE));
    check_and_destroy(vmm);
}

Test(sim_memory, addresses_have_a_budget, .timeout = 10)
{
    pleat_sim_options_t options = PLEAT_SIM_OPTIONS_INIT;
    options.address_limit_bytes = 5 * GRANULE;
    pleat_vmm_t *vmm = device(&options);
    const pleat_devptr_t a = reserve(vmm, 2);
    pleat_devptr_t ptr = 9;
    expect_error(pleat_vmm_address_reserve(vmm, 4 * GRANULE, &ptr), PLEAT_ERR_OOM_DEVICE,
                 "8388608 bytes asked for, 4194304 of 10485760 are reserved");
    expect_error(pleat_vmm_address_reserve(vmm, UINT64_MAX - GRANULE + 1, &ptr),
                 PLEAT_ERR_OOM_DEVICE, "asked for");
    cr_expect(eq(u64, ptr, 9));
    const pleat_devptr_t b = reserve(vmm, 3);
    expect_ok(pleat_vmm_address_free(vmm, a, 2 * GRANULE));
    expect_ok(pleat_vmm_address_free(vmm, b, 3 * GRANULE));
    const pleat_devptr_t c = reserve(vmm, 5);
    expect_ok(pleat_vmm_address_free(vmm, c, 5 * GRANULE));
    check_and_destroy(vmm);

    vmm = device(NULL);
    expect_error(pleat_vmm_address_reserve(vmm, PLEAT_SIM_ADDRESS_LIMIT_BYTES + GRANULE, &ptr),
                 PLEAT_ERR_OOM_DEVICE, "of 70368744177664 are reserved");
    check_and_destroy(vmm);
}

Test(sim_memory, lack_of_host_memory_changes_nothing, .timeout = 10)
{
    pleat_vmm_t *vmm = device(NULL);
    pleat_devptr_t range = 0;
    pleat_chunk_t chunk = 0;
    for (uint64_t nth = 1; nth <= 2; nth++) { /* the record, the list of ranges */
        host_fault_after(nth);
        expect_error(pleat_vmm_address_reserve(vmm, 2 * GRANULE, &range), PLEAT_ERR_OOM_HOST,
                     "no host memory");
    }
    host_fault_after(1);
    expect_error(pleat_vmm_chunk_create(vmm, GRANULE, &chunk), PLEAT_ERR_OOM_HOST,
                 "no host memory");
    host_fault_after(0);
    cr_expect(eq(u64, pleat_vmm_clock_ns(vmm), 0));
    range = reserve(vmm, 2);
    chunk = create(vmm, 1);
    host_fault_after(1);
    expect_error(pleat_vmm_map(vmm, range, GRANULE, chunk), PLEAT_ERR_OOM_HOST, "no host memory");
    cr_expect(eq(u64, usage_of(vmm).mappings, 0));
    host_fault_after(0);
    expect_ok(pleat_vmm_map(vmm, range, GRANULE, chunk));
    host_fault_after(1); /* what gives back never needs any */
    expect_ok(pleat_vmm_unmap(vmm, range, GRANULE));
    expect_ok(pleat_vmm_chunk_release(vmm, chunk));
    expect_ok(pleat_vmm_address_free(vmm, range, 2 * GRANULE));
    host_fault_after(0);
    check_and_destroy(vmm);
}

Test(sim_memory, a_steady_state_needs_no_host_memory, .timeout = 10)
{
    pleat_vmm_t *vmm = device(NULL);
    const pleat_devptr_t range = reserve(vmm, 1000);
    uint64_t before = 0;
    for (int round = 0; round < 20; round++) {
        pleat_chunk_t chunks[300];
        if (round == 1) {
            before = host_fault_allocations();
        }
        for (uint64_t i = 0; i < 300; i++) {
            chunks[i] = create(vmm, 1 + i % 3);
            expect_ok(
                pleat_vmm_map(vmm, range + 3 * i * GRANULE, (1 + i % 3) * GRANULE, chunks[i]));
        }
        for (uint64_t i = 0; i < 300; i++) {
            expect_ok(pleat_vmm_chunk_release(vmm, chunks[i]));
            expect_ok(pleat_vmm_unmap(vmm, range + 3 * i * GRANULE, (1 + i % 3) * GRANULE));
        }
    }
    cr_expect(eq(u64, host_fault_allocations(), before));
    expect_ok(pleat_vmm_address_free(vmm, range, 1000 * GRANULE));
    check_and_destroy(vmm);
}

Test(sim_memory, a_short_options_struct_takes_defaults, .timeout = 10)
{
    pleat_sim_options_t options = PLEAT_SIM_OPTIONS_INIT;
    options.size = offsetof(pleat_sim_options_t, address_limit_bytes);
    options.address_limit_bytes = 1;
    options.mapping_limit = 1;
    options.is_backed = true;
    pleat_vmm_t *vmm = device(&options);
    const pleat_devptr_t range = reserve(vmm, 4);
    const pleat_chunk_t chunk = create(vmm, 1);
    expect_ok(pleat_vmm_map(vmm, range, GRANULE, chunk));
    expect_ok(pleat_vmm_map(vmm, range + GRANULE, GRANULE, chunk));
    pleat_vmm_destroy(vmm);
}

Test(sim_memory, knows_what_may_be_touched, .timeout = 10)
{
    pleat_sim_memory_t memory;
    pleat_devptr_t range = 0;
    pleat_chunk_t chunks[2] = {0, 0};
    expect_ok(pleat_sim_memory_init(&memory, false, 100 * GRANULE, 10));
    expect_ok(pleat_sim_memory_reserve(&memory, 8 * GRANULE, 0, &range));
    for (uint64_t i = 0; i < 2; i++) {
        expect_ok(pleat_sim_memory_create(&memory, 2 * GRANULE, &chunks[i]));
        expect_ok(pleat_sim_memory_map(&memory, range + 2 * i * GRANULE, 2 * GRANULE, chunks[i]));
    }
    cr_expect(not(pleat_sim_memory_is_accessible(&memory, range, 1)));
    expect_ok(pleat_sim_memory_set_access(&memory, range, 2 * GRANULE));
    cr_expect(pleat_sim_memory_is_accessible(&memory, range, 2 * GRANULE));
    cr_expect(pleat_sim_memory_is_accessible(&memory, range + 2 * GRANULE - 1, 1));
    cr_expect(not(pleat_sim_memory_is_accessible(&memory, range + 2 * GRANULE - 1, 2)));
    expect_ok(pleat_sim_memory_set_access(&memory, range + 2 * GRANULE, 2 * GRANULE));
    cr_expect(pleat_sim_memory_is_accessible(&memory, range + 5, 4 * GRANULE - 5));
    cr_expect(not(pleat_sim_memory_is_accessible(&memory, range + 5, 4 * GRANULE)));
    cr_expect(not(pleat_sim_memory_is_accessible(&memory, range - 1, 1)));
    cr_expect(not(pleat_sim_memory_is_accessible(&memory, range, 0)));
    cr_expect(not(pleat_sim_memory_is_accessible(&memory, range, UINT64_MAX)));
    expect_ok(pleat_sim_memory_unmap(&memory, range, 2 * GRANULE));
    expect_ok(pleat_sim_memory_map(&memory, range, 2 * GRANULE, chunks[0]));
    cr_expect(not(pleat_sim_memory_is_accessible(&memory, range, 1)), "access goes with a mapping");
    pleat_sim_memory_fini(&memory);
}
