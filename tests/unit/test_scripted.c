/*
 * Tests of scripted: a device that answers from recorded driver steps.
 */
#include "vmm/scripted.h"

#include "host_fault.h"

#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#define ADDRESS UINT64_C(0x7f0000000000)
#define BYTES UINT64_C(2097152)

static void expect_ok(pleat_status_t status)
{
    cr_assert(eq(int, status, PLEAT_OK), "%s", pleat_last_error());
}

static void expect_error(pleat_status_t status, pleat_status_t want, const char *part)
{
    cr_expect(eq(int, status, want));
    cr_expect(ne(ptr, strstr(pleat_last_error(), part), NULL), "'%s' lacks '%s'",
              pleat_last_error(), part);
}

static pleat_vmm_t *scripted_create(uint64_t total_bytes)
{
    pleat_vmm_t *vmm = NULL;
    expect_ok(pleat_scripted_create(total_bytes, &vmm));
    return vmm;
}

static pleat_script_step_t alloc_step(pleat_devptr_t address, uint64_t bytes)
{
    return (pleat_script_step_t){PLEAT_VMM_CALL_MEM_ALLOC, address, bytes};
}

static pleat_script_step_t free_step(pleat_devptr_t address)
{
    return (pleat_script_step_t){PLEAT_VMM_CALL_MEM_FREE, address, 0};
}

/* Let the device hand out an address, by a script of its own. */
static void hand_out(pleat_vmm_t *vmm, pleat_devptr_t address, uint64_t bytes)
{
    const pleat_script_step_t step = alloc_step(address, bytes);
    pleat_devptr_t ptr = 0;
    expect_ok(pleat_scripted_expect(vmm, &step, 1));
    expect_ok(pleat_vmm_mem_alloc(vmm, bytes, &ptr));
    cr_assert(eq(u64, ptr, address));
}

Test(scripted, an_empty_script_is_a_full_device, .timeout = 10)
{
    pleat_vmm_t *vmm = scripted_create(8 * BYTES);
    pleat_devptr_t ptr = 5;
    cr_expect(eq(str, (char *)pleat_vmm_name(vmm), "scripted"));
    cr_expect(eq(sz, pleat_scripted_left(vmm), (size_t)0));
    cr_expect(eq(ptr, (void *)pleat_scripted_next(vmm), NULL));
    expect_error(pleat_vmm_mem_alloc(vmm, BYTES, &ptr), PLEAT_ERR_OOM_DEVICE, "'scripted'");
    cr_expect(eq(u64, ptr, 5));
    pleat_vmm_destroy(vmm);
}

Test(scripted, steps_are_used_up_in_their_order, .timeout = 10)
{
    pleat_vmm_t *vmm = scripted_create(8 * BYTES);
    const pleat_script_step_t steps[] = {alloc_step(ADDRESS, BYTES), free_step(ADDRESS),
                                         alloc_step(ADDRESS, 2 * BYTES)};
    pleat_devptr_t ptr = 0;
    expect_ok(pleat_scripted_expect(vmm, steps, 3));
    cr_expect(eq(sz, pleat_scripted_left(vmm), (size_t)3));
    expect_ok(pleat_vmm_mem_alloc(vmm, BYTES, &ptr));
    cr_expect(eq(u64, ptr, ADDRESS));
    cr_assert(ne(ptr, (void *)pleat_scripted_next(vmm), NULL));
    cr_expect(eq(int, pleat_scripted_next(vmm)->call, PLEAT_VMM_CALL_MEM_FREE));
    expect_ok(pleat_vmm_mem_free(vmm, ptr));
    expect_ok(pleat_vmm_mem_alloc(vmm, 2 * BYTES, &ptr));
    cr_expect(eq(sz, pleat_scripted_left(vmm), (size_t)0));
    cr_expect(eq(u64, pleat_scripted_strays(vmm), 0));
    expect_ok(pleat_vmm_mem_free(vmm, ptr));
    pleat_vmm_destroy(vmm);
}

Test(scripted, another_size_is_out_of_memory_and_the_script_stays, .timeout = 10)
{
    pleat_vmm_t *vmm = scripted_create(8 * BYTES);
    const pleat_script_step_t step = alloc_step(ADDRESS, BYTES);
    pleat_devptr_t ptr = 0;
    expect_ok(pleat_scripted_expect(vmm, &step, 1));
    expect_error(pleat_vmm_mem_alloc(vmm, BYTES + 512, &ptr), PLEAT_ERR_OOM_DEVICE, "bytes free");
    cr_expect(eq(sz, pleat_scripted_left(vmm), (size_t)1));
    expect_ok(pleat_vmm_mem_alloc(vmm, BYTES, &ptr));
    expect_ok(pleat_vmm_mem_free(vmm, ptr));
    pleat_vmm_destroy(vmm);
}

Test(scripted, a_free_that_comes_first_blocks_the_allocation, .timeout = 10)
{
    pleat_vmm_t *vmm = scripted_create(8 * BYTES);
    hand_out(vmm, ADDRESS, BYTES);
    const pleat_script_step_t steps[] = {free_step(ADDRESS), alloc_step(ADDRESS, BYTES)};
    pleat_devptr_t ptr = 0;
    expect_ok(pleat_scripted_expect(vmm, steps, 2));
    cr_expect(eq(int, pleat_vmm_mem_alloc(vmm, BYTES, &ptr), PLEAT_ERR_OOM_DEVICE));
    expect_ok(pleat_vmm_mem_free(vmm, ADDRESS));
    expect_ok(pleat_vmm_mem_alloc(vmm, BYTES, &ptr));
    expect_ok(pleat_vmm_mem_free(vmm, ptr));
    pleat_vmm_destroy(vmm);
}

Test(scripted, a_free_that_the_script_lacks_is_a_stray, .timeout = 10)
{
    pleat_vmm_t *vmm = scripted_create(8 * BYTES);
    hand_out(vmm, ADDRESS, BYTES);
    hand_out(vmm, ADDRESS + BYTES, BYTES);
    const pleat_script_step_t step = free_step(ADDRESS);
    expect_ok(pleat_scripted_expect(vmm, &step, 1));
    expect_ok(pleat_vmm_mem_free(vmm, ADDRESS + BYTES));
    cr_expect(eq(u64, pleat_scripted_strays(vmm), 1));
    cr_expect(eq(sz, pleat_scripted_left(vmm), (size_t)1));
    expect_ok(pleat_vmm_mem_free(vmm, ADDRESS));
    cr_expect(eq(u64, pleat_scripted_strays(vmm), 1));
    expect_error(pleat_vmm_mem_free(vmm, ADDRESS), PLEAT_ERR_INVALID_POINTER, "no live allocation");
    cr_expect(eq(u64, pleat_scripted_strays(vmm), 1));
    pleat_vmm_destroy(vmm);
}

Test(scripted, memory_info_tells_what_is_handed_out, .timeout = 10)
{
    pleat_vmm_t *vmm = scripted_create(8 * BYTES);
    uint64_t free_bytes = 0;
    uint64_t total_bytes = 0;
    hand_out(vmm, ADDRESS, 3 * BYTES);
    expect_ok(pleat_vmm_mem_info(vmm, &free_bytes, &total_bytes));
    cr_expect(eq(u64, free_bytes, 5 * BYTES));
    cr_expect(eq(u64, total_bytes, 8 * BYTES));
    expect_ok(pleat_vmm_mem_free(vmm, ADDRESS));
    expect_ok(pleat_vmm_mem_info(vmm, &free_bytes, &total_bytes));
    cr_expect(eq(u64, free_bytes, 8 * BYTES));
    pleat_vmm_destroy(vmm);
}

Test(scripted, a_broken_recording_is_refused, .timeout = 10)
{
    pleat_vmm_t *vmm = scripted_create(8 * BYTES);
    pleat_devptr_t ptr = 0;
    hand_out(vmm, ADDRESS, 2 * BYTES);
    const pleat_script_step_t overlapping[] = {
        alloc_step(ADDRESS + BYTES, BYTES), alloc_step(ADDRESS, 2 * BYTES),
        alloc_step(ADDRESS - BYTES, 4 * BYTES), alloc_step(ADDRESS - BYTES, BYTES + 1)};
    for (size_t i = 0; i < sizeof overlapping / sizeof overlapping[0]; i++) {
        expect_ok(pleat_scripted_expect(vmm, &overlapping[i], 1));
        expect_error(pleat_vmm_mem_alloc(vmm, overlapping[i].bytes, &ptr), PLEAT_ERR_FORMAT,
                     "is the live allocation at 0x7f0000000000");
        cr_expect(eq(sz, pleat_scripted_left(vmm), (size_t)1));
    }
    const pleat_script_step_t large = alloc_step(ADDRESS + 10 * BYTES, 6 * BYTES + 1);
    expect_ok(pleat_scripted_expect(vmm, &large, 1));
    expect_error(pleat_vmm_mem_alloc(vmm, large.bytes, &ptr), PLEAT_ERR_FORMAT,
                 "is its total too small?");
    hand_out(vmm, ADDRESS + 2 * BYTES, 6 * BYTES); /* touching, and the last byte */
    pleat_vmm_destroy(vmm);
}

Test(scripted, expect_replaces_what_is_left, .timeout = 10)
{
    pleat_vmm_t *vmm = scripted_create(8 * BYTES);
    const pleat_script_step_t first = alloc_step(ADDRESS, BYTES);
    pleat_script_step_t second = alloc_step(ADDRESS + BYTES, BYTES);
    pleat_devptr_t ptr = 0;
    expect_ok(pleat_scripted_expect(vmm, &first, 1));
    expect_ok(pleat_scripted_expect(vmm, &second, 1));
    second.address = 1; /* the device has its own copy */
    expect_ok(pleat_vmm_mem_alloc(vmm, BYTES, &ptr));
    cr_expect(eq(u64, ptr, ADDRESS + BYTES));
    expect_ok(pleat_scripted_expect(vmm, &first, 1));
    expect_ok(pleat_scripted_expect(vmm, NULL, 0));
    cr_expect(eq(sz, pleat_scripted_left(vmm), (size_t)0));
    pleat_vmm_destroy(vmm);
}

Test(scripted, malformed_steps_are_refused, .timeout = 10)
{
    static const struct {
        pleat_script_step_t step;
        const char *part;
    } rows[] = {
        {{PLEAT_VMM_CALL_EVENT_QUERY, ADDRESS, BYTES}, "must be mem_alloc, mem_free, map or"},
        {{PLEAT_VMM_CALL_MEM_ALLOC, 0, BYTES}, "the address is 0"},
        {{PLEAT_VMM_CALL_MEM_FREE, 0, 0}, "the address is 0"},
        {{PLEAT_VMM_CALL_MEM_ALLOC, ADDRESS, 0}, "no such range"},
        {{PLEAT_VMM_CALL_MEM_ALLOC, UINT64_MAX, 1}, "no such range"},
        {{PLEAT_VMM_CALL_SET_ACCESS, ADDRESS, BYTES}, "must be mem_alloc"},
        {{PLEAT_VMM_CALL_MAP, 0, BYTES}, "the address is 0"},
        {{PLEAT_VMM_CALL_UNMAP, ADDRESS, 0}, "no such range"},
    };
    pleat_vmm_t *vmm = scripted_create(0);
    const pleat_script_step_t good = alloc_step(ADDRESS, BYTES);
    expect_ok(pleat_scripted_expect(vmm, &good, 1));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const pleat_script_step_t steps[] = {good, rows[i].step};
        expect_error(pleat_scripted_expect(vmm, steps, 2), PLEAT_ERR_INVALID, rows[i].part);
        cr_expect(ne(ptr, strstr(pleat_last_error(), "step 1"), NULL));
    }
    expect_error(pleat_scripted_expect(vmm, NULL, 4), PLEAT_ERR_INVALID, "steps is NULL");
    cr_expect(eq(sz, pleat_scripted_left(vmm), (size_t)1), "a refused script changes nothing");
    pleat_vmm_destroy(vmm);
}

Test(scripted, other_devices_have_no_script, .timeout = 10)
{
    pleat_vmm_t *vmms[2] = {NULL, NULL};
    const pleat_script_step_t step = alloc_step(ADDRESS, BYTES);
    expect_ok(pleat_sim_create(NULL, &vmms[0]));
    for (int i = 0; i < 2; i++) {
        expect_error(pleat_scripted_expect(vmms[i], &step, 1), PLEAT_ERR_INVALID,
                     "is no scripted one");
        expect_error(pleat_scripted_place_range(vmms[i], ADDRESS), PLEAT_ERR_INVALID,
                     "is no scripted one");
        cr_expect(eq(sz, pleat_scripted_left(vmms[i]), (size_t)0));
        cr_expect(eq(u64, pleat_scripted_strays(vmms[i]), 0));
        cr_expect(eq(ptr, (void *)pleat_scripted_next(vmms[i]), NULL));
    }
    pleat_vmm_destroy(vmms[0]);
}

Test(scripted, lack_of_host_memory_is_reported, .timeout = 10)
{
    pleat_vmm_t *vmm = NULL;
    for (uint64_t nth = 1; nth <= 3; nth++) {
        host_fault_after(nth);
        expect_error(pleat_scripted_create(0, &vmm), PLEAT_ERR_OOM_HOST, "no host memory");
        cr_expect(eq(ptr, vmm, NULL));
    }
    host_fault_after(0);
    vmm = scripted_create(0);
    const pleat_script_step_t steps[2] = {alloc_step(ADDRESS, BYTES), free_step(ADDRESS)};
    expect_ok(pleat_scripted_expect(vmm, steps, 1));
    host_fault_after(1);
    expect_error(pleat_scripted_expect(vmm, steps, 2), PLEAT_ERR_OOM_HOST, "2 steps");
    cr_expect(eq(sz, pleat_scripted_left(vmm), (size_t)1));
    host_fault_after(0);
    expect_error(pleat_scripted_expect(vmm, steps, SIZE_MAX / 4), PLEAT_ERR_OOM_HOST, "steps");
    pleat_devptr_t ptr = 0;
    host_fault_after(1);
    cr_expect(eq(int, pleat_vmm_mem_alloc(vmm, BYTES, &ptr), PLEAT_ERR_OOM_HOST));
    cr_expect(eq(sz, pleat_scripted_left(vmm), (size_t)1));
    pleat_vmm_destroy(vmm);
}

Test(scripted, bad_arguments_are_refused, .timeout = 10)
{
    pleat_vmm_t *vmm = NULL;
    expect_error(pleat_scripted_create(0, NULL), PLEAT_ERR_INVALID, "vmm_out is NULL");
    expect_error(pleat_scripted_create(UINT64_MAX, &vmm), PLEAT_ERR_INVALID, "capacity_bytes");
    cr_expect(eq(ptr, vmm, NULL));
}

Test(scripted, a_warm_script_needs_no_host_memory, .timeout = 10)
{
    pleat_vmm_t *vmm = scripted_create(0);
    uint64_t before = 0;
    for (uint64_t i = 0; i < 10000; i++) {
        if (i == 1) {
            before = host_fault_allocations();
        }
        const pleat_script_step_t steps[] = {alloc_step(ADDRESS + i * BYTES, BYTES),
                                             free_step(ADDRESS + i * BYTES)};
        pleat_devptr_t ptr = 0;
        expect_ok(pleat_scripted_expect(vmm, steps, 2));
        expect_ok(pleat_vmm_mem_alloc(vmm, BYTES, &ptr));
        expect_ok(pleat_vmm_mem_free(vmm, ptr));
    }
    cr_expect(eq(u64, host_fault_allocations(), before));
    cr_expect(eq(u64, pleat_scripted_strays(vmm), 0));
    pleat_vmm_destroy(vmm);
}

Test(scripted, streams_events_and_faults_are_those_of_a_sim, .timeout = 10)
{
    pleat_vmm_t *vmm = scripted_create(0);
    pleat_event_t event = 0;
    hand_out(vmm, ADDRESS, BYTES);
    cr_expect(lt(u64, 0, pleat_vmm_clock_ns(vmm)), "calls are charged");
    expect_ok(pleat_vmm_event_create(vmm, &event));
    expect_ok(pleat_sim_set_busy(vmm, 1));
    expect_ok(pleat_vmm_event_record(vmm, event, 1));
    cr_expect(eq(int, pleat_vmm_event_query(vmm, event), PLEAT_ERR_NOT_READY));
    const pleat_script_step_t step = free_step(ADDRESS);
    expect_ok(pleat_scripted_expect(vmm, &step, 1));
    expect_ok(pleat_sim_fail_call(vmm, PLEAT_VMM_CALL_MEM_FREE, 1, PLEAT_ERR_DRIVER));
    cr_expect(eq(int, pleat_vmm_mem_free(vmm, ADDRESS), PLEAT_ERR_DRIVER));
    cr_expect(eq(sz, pleat_scripted_left(vmm), (size_t)1));
    expect_ok(pleat_vmm_mem_free(vmm, ADDRESS));
    expect_ok(pleat_vmm_event_query(vmm, event));
    expect_ok(pleat_vmm_event_destroy(vmm, event));
    pleat_sim_usage_t usage = PLEAT_SIM_USAGE_INIT;
    expect_ok(pleat_sim_read_usage(vmm, &usage));
    cr_expect(eq(u64, usage.allocations + usage.events, 0));
    pleat_vmm_destroy(vmm);
}

static pleat_script_step_t map_step(pleat_devptr_t address, uint64_t bytes)
{
    return (pleat_script_step_t){PLEAT_VMM_CALL_MAP, address, bytes};
}

static pleat_script_step_t unmap_step(pleat_devptr_t address, uint64_t bytes)
{
    return (pleat_script_step_t){PLEAT_VMM_CALL_UNMAP, address, bytes};
}

static pleat_devptr_t reserve_at(pleat_vmm_t *vmm, pleat_devptr_t address, uint64_t bytes)
{
    pleat_devptr_t ptr = 0;
    expect_ok(pleat_scripted_place_range(vmm, address));
    expect_ok(pleat_vmm_address_reserve(vmm, bytes, &ptr));
    return ptr;
}

static pleat_chunk_t map_one(pleat_vmm_t *vmm, pleat_devptr_t ptr)
{
    pleat_chunk_t chunk = 0;
    expect_ok(pleat_vmm_chunk_create(vmm, BYTES, &chunk));
    expect_ok(pleat_vmm_map(vmm, ptr, BYTES, chunk));
    return chunk;
}

Test(scripted, a_range_begins_where_it_is_placed, .timeout = 10)
{
    pleat_vmm_t *vmm = scripted_create(64 * BYTES);
    cr_expect(eq(u64, reserve_at(vmm, ADDRESS, 8 * BYTES), ADDRESS));
    /* The place holds for one range; 0 takes it back. */
    pleat_devptr_t ptr = 0;
    expect_ok(pleat_vmm_address_reserve(vmm, BYTES, &ptr));
    cr_expect(ne(u64, ptr, ADDRESS));
    cr_expect(ne(u64, reserve_at(vmm, 0, BYTES), 0));
    /* Touching is good, overlapping is not: neither at the front, inside, around, nor behind. */
    cr_expect(eq(u64, reserve_at(vmm, ADDRESS + 8 * BYTES, BYTES), ADDRESS + 8 * BYTES));
    cr_expect(eq(u64, reserve_at(vmm, ADDRESS - BYTES, BYTES), ADDRESS - BYTES));
    static const int64_t offsets[] = {-3, 0, 3, 7};
    for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++) {
        expect_ok(
            pleat_scripted_place_range(vmm, ADDRESS + (uint64_t)(offsets[i] * (int64_t)BYTES)));
        expect_error(pleat_vmm_address_reserve(vmm, 4 * BYTES, &ptr), PLEAT_ERR_OOM_DEVICE,
                     "no room for 8388608 bytes at 0x7");
    }
    expect_ok(pleat_scripted_place_range(vmm, UINT64_MAX - BYTES + 1));
    expect_error(pleat_vmm_address_reserve(vmm, BYTES, &ptr), PLEAT_ERR_OOM_DEVICE, "no room");
    expect_ok(pleat_scripted_place_range(vmm, ADDRESS + 5));
    expect_error(pleat_vmm_address_reserve(vmm, BYTES, &ptr), PLEAT_ERR_INVALID, "multiples of");
    pleat_vmm_destroy(vmm);
}

Test(scripted, a_range_begins_at_the_next_mapping_of_the_script, .timeout = 10)
{
    pleat_vmm_t *vmm = scripted_create(64 * BYTES);
    const pleat_script_step_t steps[] = {map_step(ADDRESS, BYTES), unmap_step(ADDRESS, BYTES),
                                         map_step(ADDRESS + 32 * BYTES, BYTES)};
    expect_ok(pleat_scripted_expect(vmm, steps, 3));
    cr_expect(eq(u64, reserve_at(vmm, ADDRESS + 16 * BYTES, 8 * BYTES), ADDRESS));
    const pleat_chunk_t chunk = map_one(vmm, ADDRESS);
    expect_ok(pleat_vmm_unmap(vmm, ADDRESS, BYTES));
    expect_ok(pleat_vmm_chunk_release(vmm, chunk));
    cr_expect(eq(u64, reserve_at(vmm, 0, 8 * BYTES), ADDRESS + 32 * BYTES));
    pleat_vmm_destroy(vmm);
}

Test(scripted, a_map_step_grants_its_chunks, .timeout = 10)
{
    pleat_vmm_t *vmm = scripted_create(64 * BYTES);
    const pleat_devptr_t range = reserve_at(vmm, ADDRESS, 8 * BYTES);
    const pleat_script_step_t steps[] = {map_step(range, 2 * BYTES),
                                         map_step(range + 4 * BYTES, BYTES),
                                         unmap_step(range, 2 * BYTES)};
    pleat_chunk_t chunk = 0;
    expect_error(pleat_vmm_chunk_create(vmm, BYTES, &chunk), PLEAT_ERR_OOM_DEVICE, "'scripted'");
    expect_ok(pleat_scripted_expect(vmm, steps, 3));
    expect_error(pleat_vmm_chunk_create(vmm, 3 * BYTES, &chunk), PLEAT_ERR_OOM_DEVICE,
                 "bytes free");
    pleat_chunk_t chunks[3];
    expect_ok(pleat_vmm_chunk_create(vmm, BYTES, &chunks[0]));
    expect_ok(pleat_vmm_chunk_create(vmm, BYTES, &chunks[1]));
    cr_expect(eq(int, pleat_vmm_chunk_create(vmm, BYTES, &chunk), PLEAT_ERR_OOM_DEVICE));
    expect_ok(pleat_vmm_map(vmm, range, BYTES, chunks[0]));
    cr_expect(eq(sz, pleat_scripted_left(vmm), (size_t)3), "half of the step");
    expect_ok(pleat_vmm_map(vmm, range + BYTES, BYTES, chunks[1]));
    cr_expect(eq(sz, pleat_scripted_left(vmm), (size_t)2));
    chunks[2] = map_one(vmm, range + 4 * BYTES);
    cr_expect(eq(sz, pleat_scripted_left(vmm), (size_t)1));
    expect_ok(pleat_vmm_unmap(vmm, range, BYTES));
    expect_ok(pleat_vmm_unmap(vmm, range + BYTES, BYTES));
    cr_expect(eq(sz, pleat_scripted_left(vmm), (size_t)0));
    cr_expect(eq(u64, pleat_scripted_strays(vmm), 0));
    for (int i = 0; i < 3; i++) {
        expect_ok(pleat_vmm_chunk_release(vmm, chunks[i]));
    }
    pleat_vmm_destroy(vmm);
}

Test(scripted, one_unmap_may_use_up_a_step, .timeout = 10)
{
    pleat_vmm_t *vmm = scripted_create(64 * BYTES);
    const pleat_devptr_t range = reserve_at(vmm, ADDRESS, 8 * BYTES);
    const pleat_script_step_t steps[] = {map_step(range, 2 * BYTES), unmap_step(range, 2 * BYTES)};
    expect_ok(pleat_scripted_expect(vmm, steps, 2));
    (void)map_one(vmm, range);
    (void)map_one(vmm, range + BYTES);
    expect_ok(pleat_vmm_unmap(vmm, range, 2 * BYTES));
    cr_expect(eq(sz, pleat_scripted_left(vmm), (size_t)0));
    cr_expect(eq(u64, pleat_scripted_strays(vmm), 0));
    pleat_vmm_destroy(vmm);
}

Test(scripted, what_the_script_lacks_is_a_stray, .timeout = 10)
{
    pleat_vmm_t *vmm = scripted_create(64 * BYTES);
    const pleat_devptr_t range = reserve_at(vmm, ADDRESS, 8 * BYTES);
    const pleat_script_step_t step = map_step(range, 2 * BYTES);
    expect_ok(pleat_scripted_expect(vmm, &step, 1));
    const pleat_chunk_t chunk = map_one(vmm, range + BYTES); /* not in rising order */
    cr_expect(eq(u64, pleat_scripted_strays(vmm), 1));
    expect_ok(pleat_vmm_unmap(vmm, range + BYTES, BYTES));
    cr_expect(eq(u64, pleat_scripted_strays(vmm), 2));
    expect_ok(pleat_vmm_map(vmm, range, BYTES, chunk));
    expect_ok(pleat_vmm_unmap(vmm, range, BYTES)); /* while half of the step is there */
    cr_expect(eq(u64, pleat_scripted_strays(vmm), 3));
    cr_expect(eq(sz, pleat_scripted_left(vmm), (size_t)1));
    expect_ok(pleat_vmm_chunk_release(vmm, chunk));
    pleat_vmm_destroy(vmm);
}

Test(scripted, chunks_of_a_mapping_that_failed_are_granted_again, .timeout = 10)
{
    pleat_vmm_t *vmm = scripted_create(64 * BYTES);
    const pleat_devptr_t range = reserve_at(vmm, ADDRESS, 8 * BYTES);
    const pleat_script_step_t step = map_step(range, BYTES);
    expect_ok(pleat_scripted_expect(vmm, &step, 1));
    pleat_chunk_t chunk = 0;
    expect_ok(pleat_vmm_chunk_create(vmm, BYTES, &chunk));
    expect_ok(pleat_sim_fail_call(vmm, PLEAT_VMM_CALL_MAP, 1, PLEAT_ERR_DRIVER));
    cr_expect(eq(int, pleat_vmm_map(vmm, range, BYTES, chunk), PLEAT_ERR_DRIVER));
    expect_ok(pleat_vmm_chunk_release(vmm, chunk));
    expect_error(pleat_vmm_chunk_create(vmm, 3, &chunk), PLEAT_ERR_INVALID, "multiples of");
    (void)map_one(vmm, range);
    cr_expect(eq(sz, pleat_scripted_left(vmm), (size_t)0));
    pleat_vmm_destroy(vmm);
}

Test(scripted, a_chunk_beyond_the_total_leaves_the_script, .timeout = 10)
{
    pleat_vmm_t *vmm = scripted_create(2 * BYTES);
    const pleat_devptr_t range = reserve_at(vmm, ADDRESS, 8 * BYTES);
    const pleat_script_step_t step = map_step(range, 3 * BYTES);
    pleat_chunk_t chunk = 0;
    expect_ok(pleat_scripted_expect(vmm, &step, 1));
    expect_error(pleat_vmm_chunk_create(vmm, 3 * BYTES, &chunk), PLEAT_ERR_OOM_DEVICE,
                 "bytes free");
    expect_ok(pleat_vmm_chunk_create(vmm, 2 * BYTES, &chunk)); /* still granted */
    expect_ok(pleat_vmm_chunk_release(vmm, chunk));
    pleat_vmm_destroy(vmm);
}

Test(scripted, a_chunk_without_host_memory_is_granted_again, .timeout = 10)
{
    pleat_vmm_t *vmm = scripted_create(64 * BYTES);
    const pleat_devptr_t range = reserve_at(vmm, ADDRESS, 8 * BYTES);
    const pleat_script_step_t step = map_step(range, BYTES);
    pleat_chunk_t chunk = 0;
    expect_ok(pleat_scripted_expect(vmm, &step, 1));
    host_fault_after(1);
    expect_error(pleat_vmm_chunk_create(vmm, BYTES, &chunk), PLEAT_ERR_OOM_HOST, "no host memory");
    host_fault_after(0);
    (void)map_one(vmm, range);
    cr_expect(eq(sz, pleat_scripted_left(vmm), (size_t)0));
    pleat_vmm_destroy(vmm);
}
