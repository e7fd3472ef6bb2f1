/*
 * Tests of sim: memory, clock, costs, seeded faults and usage of the simulated device. Streams and
 * events have test_timeline.c.
 */
#include <pleat/sim.h>

#include "vmm/base.h"

#include "host_fault.h"

#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

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

static pleat_vmm_t *sim_create(uint64_t capacity_bytes)
{
    pleat_sim_options_t options = PLEAT_SIM_OPTIONS_INIT;
    options.capacity_bytes = capacity_bytes;
    pleat_vmm_t *vmm = NULL;
    expect_ok(pleat_sim_create(&options, &vmm));
    return vmm;
}

static pleat_devptr_t take(pleat_vmm_t *vmm, uint64_t bytes)
{
    pleat_devptr_t ptr = 0;
    expect_ok(pleat_vmm_mem_alloc(vmm, bytes, &ptr));
    return ptr;
}

static void expect_free_bytes(pleat_vmm_t *vmm, uint64_t want_free, uint64_t want_total)
{
    uint64_t free_bytes = 0;
    uint64_t total_bytes = 0;
    expect_ok(pleat_vmm_mem_info(vmm, &free_bytes, &total_bytes));
    cr_expect(eq(u64, free_bytes, want_free));
    cr_expect(eq(u64, total_bytes, want_total));
}

static void check_and_destroy(pleat_vmm_t *vmm)
{
    pleat_sim_usage_t usage = PLEAT_SIM_USAGE_INIT;
    expect_ok(pleat_sim_read_usage(vmm, &usage));
    cr_expect(eq(u64, usage.allocations, 0));
    cr_expect(eq(u64, usage.allocated_bytes, 0));
    cr_expect(eq(u64, usage.events, 0));
    cr_expect(eq(u64, usage.ranges + usage.chunks + usage.chunk_bytes + usage.mappings, 0));
    cr_expect(eq(u64, usage.opened, 0));
    pleat_vmm_destroy(vmm);
}

Test(sim, defaults_are_an_h200, .timeout = 10)
{
    pleat_vmm_t *vmm = NULL;
    expect_ok(pleat_sim_create(NULL, &vmm));
    cr_expect(eq(str, (char *)pleat_vmm_name(vmm), "sim"));
    cr_expect(eq(u64, pleat_vmm_clock_ns(vmm), 0));
    expect_free_bytes(vmm, PLEAT_SIM_DEFAULT_CAPACITY_BYTES, PLEAT_SIM_DEFAULT_CAPACITY_BYTES);
    check_and_destroy(vmm);
}

Test(sim, a_short_options_struct_takes_defaults, .timeout = 10)
{
    pleat_sim_options_t options = PLEAT_SIM_OPTIONS_INIT;
    options.size = offsetof(pleat_sim_options_t, costs);
    options.capacity_bytes = 4 * PLEAT_MIB;
    options.costs = (const pleat_cost_table_t *)(uintptr_t)16; /* must not be looked at */
    pleat_vmm_t *vmm = NULL;
    expect_ok(pleat_sim_create(&options, &vmm));
    expect_free_bytes(vmm, 4 * PLEAT_MIB, 4 * PLEAT_MIB);
    check_and_destroy(vmm);
}

Test(sim, bad_options_are_refused, .timeout = 10)
{
    pleat_sim_options_t options = PLEAT_SIM_OPTIONS_INIT;
    pleat_vmm_t *vmm = NULL;
    options.size = 0;
    expect_error(pleat_sim_create(&options, &vmm), PLEAT_ERR_INVALID, "size is 0");
    options.size = sizeof options;
    options.capacity_bytes = PLEAT_SIM_MAX_CAPACITY_BYTES + 1;
    expect_error(pleat_sim_create(&options, &vmm), PLEAT_ERR_INVALID, "capacity_bytes is 7036874");
    pleat_cost_table_t costs = *pleat_cost_table_h200();
    costs.rows[1].bytes = 1;
    options.capacity_bytes = 0;
    options.costs = &costs;
    expect_error(pleat_sim_create(&options, &vmm), PLEAT_ERR_INVALID, "row 2");
    expect_error(pleat_sim_create(NULL, NULL), PLEAT_ERR_INVALID, "vmm_out is NULL");
    cr_expect(eq(ptr, vmm, NULL));
}

Test(sim, create_survives_every_lack_of_host_memory, .timeout = 10)
{
    pleat_vmm_t *vmm = NULL;
    for (uint64_t nth = 1; nth <= 3; nth++) {
        host_fault_after(nth);
        expect_error(pleat_sim_create(NULL, &vmm), PLEAT_ERR_OOM_HOST, "no host memory");
        cr_expect(eq(ptr, vmm, NULL));
    }
    host_fault_after(4);
    expect_ok(pleat_sim_create(NULL, &vmm));
    host_fault_after(0);
    check_and_destroy(vmm);
}

Test(sim, capacity_is_given_out_to_the_last_byte, .timeout = 10)
{
    pleat_vmm_t *vmm = sim_create(10 * PLEAT_MIB);
    const pleat_devptr_t a = take(vmm, 10 * PLEAT_MIB - 7);
    pleat_devptr_t ptr = 99;
    expect_error(pleat_vmm_mem_alloc(vmm, 8, &ptr), PLEAT_ERR_OOM_DEVICE,
                 "has 7 of 10485760 bytes free, 8 were asked for");
    cr_expect(eq(u64, ptr, 99));
    const pleat_devptr_t b = take(vmm, 7);
    expect_free_bytes(vmm, 0, 10 * PLEAT_MIB);
    expect_ok(pleat_vmm_mem_free(vmm, a));
    expect_free_bytes(vmm, 10 * PLEAT_MIB - 7, 10 * PLEAT_MIB);
    expect_ok(pleat_vmm_mem_free(vmm, b));
    check_and_destroy(vmm);
}

Test(sim, huge_sizes_are_out_of_memory, .timeout = 10)
{
    static const uint64_t sizes[] = {UINT64_C(1) << 46, (UINT64_C(1) << 60) - 1, UINT64_C(1) << 60,
                                     UINT64_C(1) << 63, UINT64_MAX - 2097151,    UINT64_MAX};
    pleat_vmm_t *vmm = sim_create(0);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        pleat_devptr_t ptr = 0;
        cr_expect(eq(int, pleat_vmm_mem_alloc(vmm, sizes[i], &ptr), PLEAT_ERR_OOM_DEVICE));
    }
    expect_free_bytes(vmm, PLEAT_SIM_DEFAULT_CAPACITY_BYTES, PLEAT_SIM_DEFAULT_CAPACITY_BYTES);
    check_and_destroy(vmm);
}

Test(sim, the_largest_device_can_be_filled, .timeout = 10)
{
    pleat_vmm_t *vmm = sim_create(PLEAT_SIM_MAX_CAPACITY_BYTES);
    const pleat_devptr_t half = take(vmm, PLEAT_SIM_MAX_CAPACITY_BYTES / 2);
    const pleat_devptr_t rest = take(vmm, PLEAT_SIM_MAX_CAPACITY_BYTES / 2);
    expect_ok(pleat_vmm_mem_free(vmm, half));
    expect_ok(pleat_vmm_mem_free(vmm, rest));
    check_and_destroy(vmm);
}

Test(sim, addresses_can_run_out_before_capacity, .timeout = 10)
{
    pleat_vmm_t *vmm = sim_create(PLEAT_SIM_MAX_CAPACITY_BYTES);
    /* Three parts of the address space held by small rests: no hole of 64 TiB is left. */
    const pleat_devptr_t low = take(vmm, UINT64_C(63) << 40);
    const pleat_devptr_t pin = take(vmm, 32 * PLEAT_MIB);
    expect_ok(pleat_vmm_mem_free(vmm, low));
    pleat_devptr_t ptr = 0;
    expect_error(pleat_vmm_mem_alloc(vmm, PLEAT_SIM_MAX_CAPACITY_BYTES - 32 * PLEAT_MIB, &ptr),
                 PLEAT_ERR_OOM_DEVICE, "no addresses left");
    expect_ok(pleat_vmm_mem_free(vmm, pin));
    check_and_destroy(vmm);
}

Test(sim, addresses_are_aligned_and_the_same_every_time, .timeout = 10)
{
    pleat_devptr_t seen[2][3];
    for (int round = 0; round < 2; round++) {
        pleat_vmm_t *vmm = sim_create(0);
        seen[round][0] = take(vmm, 20 * PLEAT_MIB);
        seen[round][1] = take(vmm, 2 * PLEAT_MIB);
        seen[round][2] = take(vmm, 1000);
        cr_expect(eq(u64, seen[round][0] % (2 * PLEAT_MIB), 0));
        cr_expect(eq(u64, seen[round][1] % (2 * PLEAT_MIB), 0));
        cr_expect(eq(u64, seen[round][2] % 512, 0));
        for (int i = 0; i < 3; i++) {
            expect_ok(pleat_vmm_mem_free(vmm, seen[round][i]));
        }
        cr_expect(eq(u64, take(vmm, 20 * PLEAT_MIB), seen[round][0]), "freed addresses come again");
        expect_ok(pleat_vmm_mem_free(vmm, seen[round][0]));
        check_and_destroy(vmm);
    }
    cr_expect(eq(int, memcmp(seen[0], seen[1], sizeof seen[0]), 0));
}

Test(sim, only_live_addresses_can_be_freed, .timeout = 10)
{
    pleat_vmm_t *vmm = sim_create(0);
    const pleat_devptr_t ptr = take(vmm, 4 * PLEAT_MIB);
    const pleat_status_t bad = PLEAT_ERR_INVALID_POINTER;
    expect_error(pleat_vmm_mem_free(vmm, ptr + 512), bad, "lies inside the allocation at");
    expect_error(pleat_vmm_mem_free(vmm, ptr - 1), bad, "is no live allocation of device 'sim'");
    expect_error(pleat_vmm_mem_free(vmm, UINT64_MAX), bad, "is no live allocation");
    expect_ok(pleat_vmm_mem_free(vmm, ptr));
    expect_error(pleat_vmm_mem_free(vmm, ptr), bad, "is no live allocation");

    pleat_vmm_counters_t counters = PLEAT_VMM_COUNTERS_INIT;
    pleat_vmm_read_counters(vmm, &counters);
    cr_expect(eq(u64, counters.waits, 1), "a free that fails does not wait");
    cr_expect(eq(u64, counters.failures[PLEAT_VMM_CALL_MEM_FREE], 4));
    check_and_destroy(vmm);
}

Test(sim, calls_are_charged_by_the_cost_table, .timeout = 10)
{
    pleat_vmm_t *vmm = sim_create(0);
    const pleat_devptr_t ptr = take(vmm, 20 * PLEAT_MIB);
    cr_expect(eq(u64, pleat_vmm_clock_ns(vmm), 35600));
    expect_ok(pleat_vmm_mem_free(vmm, ptr));
    cr_expect(eq(u64, pleat_vmm_clock_ns(vmm), 35600 + 39300));

    pleat_vmm_counters_t counters = PLEAT_VMM_COUNTERS_INIT;
    pleat_vmm_read_counters(vmm, &counters);
    cr_expect(eq(u64, counters.time_ns[PLEAT_VMM_CALL_MEM_ALLOC], 35600));
    cr_expect(eq(u64, counters.time_ns[PLEAT_VMM_CALL_MEM_FREE], 39300));
    check_and_destroy(vmm);
}

Test(sim, every_kind_of_call_has_its_cost, .timeout = 10)
{
    pleat_cost_table_t costs = {.size = sizeof costs};
    uint64_t sum_ns = 0;
    for (int i = 0; i < PLEAT_VMM_CALL_COUNT; i++) {
        costs.call_ns[i] = UINT64_C(1) << (2 * i);
        sum_ns += costs.call_ns[i];
    }
    pleat_sim_options_t options = PLEAT_SIM_OPTIONS_INIT;
    options.costs = &costs;
    options.exports_chunks = 1;
    pleat_vmm_t *vmm = NULL;
    expect_ok(pleat_sim_create(&options, &vmm));
    memset(&costs, 0, sizeof costs); /* the device has its own copy */

    pleat_event_t event = 0;
    const pleat_devptr_t ptr = take(vmm, 1);
    expect_ok(pleat_vmm_mem_free(vmm, ptr));
    expect_free_bytes(vmm, PLEAT_SIM_DEFAULT_CAPACITY_BYTES, PLEAT_SIM_DEFAULT_CAPACITY_BYTES);
    expect_ok(pleat_vmm_event_create(vmm, &event));
    expect_ok(pleat_vmm_event_record(vmm, event, 0));
    expect_ok(pleat_vmm_event_query(vmm, event));
    expect_ok(pleat_vmm_event_synchronize(vmm, event));
    expect_ok(pleat_vmm_stream_wait_event(vmm, 1, event));
    expect_ok(pleat_vmm_stream_synchronize(vmm, 1));
    expect_ok(pleat_vmm_event_destroy(vmm, event));
    pleat_devptr_t range = 0;
    pleat_chunk_t chunk = 0;
    expect_ok(pleat_vmm_address_reserve(vmm, 2 * PLEAT_MIB, &range));
    expect_ok(pleat_vmm_chunk_create(vmm, 2 * PLEAT_MIB, &chunk));
    expect_ok(pleat_vmm_map(vmm, range, 2 * PLEAT_MIB, chunk));
    expect_ok(pleat_vmm_set_access(vmm, range, 2 * PLEAT_MIB));
    expect_ok(pleat_vmm_unmap(vmm, range, 2 * PLEAT_MIB));
    expect_ok(pleat_vmm_chunk_release(vmm, chunk));
    expect_ok(pleat_vmm_address_free(vmm, range, 2 * PLEAT_MIB));
    /* One more chunk and allocation, for the calls that share. */
    const pleat_devptr_t shared = take(vmm, 1);
    expect_ok(pleat_vmm_chunk_create(vmm, 2 * PLEAT_MIB, &chunk));
    sum_ns += (UINT64_C(1) << (2 * PLEAT_VMM_CALL_MEM_ALLOC)) +
              (UINT64_C(1) << (2 * PLEAT_VMM_CALL_CHUNK_CREATE));
    int file = -1;
    pleat_ipc_handle_t handle;
    pleat_devptr_t opened = 0;
    expect_ok(pleat_vmm_chunk_export(vmm, chunk, &file));
    expect_ok(pleat_vmm_chunk_import(vmm, file, &chunk));
    expect_ok(pleat_vmm_ipc_export(vmm, shared, &handle));
    expect_ok(pleat_vmm_ipc_open(vmm, &handle, &opened));
    expect_ok(pleat_vmm_ipc_close(vmm, opened));
    expect_ok(pleat_vmm_peer_add(vmm, 1));
    expect_ok(pleat_vmm_peer_remove(vmm, 1));
    cr_expect(eq(u64, pleat_vmm_clock_ns(vmm), sum_ns));
    (void)close(file);
    expect_ok(pleat_vmm_mem_free(vmm, shared));
    expect_ok(pleat_vmm_chunk_release(vmm, chunk));
    expect_ok(pleat_vmm_chunk_release(vmm, chunk)); /* its own and that of the import */
    check_and_destroy(vmm);
}

Test(sim, clock_stays_at_its_end, .timeout = 10)
{
    pleat_vmm_t *vmm = sim_create(0);
    expect_ok(pleat_sim_advance_to(vmm, 1000));
    expect_ok(pleat_sim_advance_to(vmm, 10));
    cr_expect(eq(u64, pleat_vmm_clock_ns(vmm), 1000));
    expect_ok(pleat_sim_advance_to(vmm, UINT64_MAX - 1));
    const pleat_devptr_t ptr = take(vmm, 512);
    cr_expect(eq(u64, pleat_vmm_clock_ns(vmm), UINT64_MAX));
    expect_ok(pleat_sim_launch(vmm, 0, UINT64_MAX));
    expect_ok(pleat_vmm_mem_free(vmm, ptr));
    cr_expect(eq(u64, pleat_vmm_clock_ns(vmm), UINT64_MAX));
    check_and_destroy(vmm);
}

/* What good arguments of every kind of call are made of. */
typedef struct live {
    pleat_devptr_t ptr; /* of mem_alloc */
    pleat_event_t event;
    pleat_devptr_t range; /* of two granules, the first mapped */
    pleat_chunk_t chunk;  /* mapped there */
} live_t;

static pleat_status_t call_mapping(pleat_vmm_t *vmm, pleat_vmm_call_t call, const live_t *live)
{
    const uint64_t bytes = 2 * PLEAT_MIB;
    uint64_t made = 0;
    switch ((int)call) {
    case PLEAT_VMM_CALL_ADDRESS_RESERVE:
        return pleat_vmm_address_reserve(vmm, bytes, &made);
    case PLEAT_VMM_CALL_ADDRESS_FREE:
        return pleat_vmm_address_free(vmm, live->range, 2 * bytes);
    case PLEAT_VMM_CALL_CHUNK_CREATE:
        return pleat_vmm_chunk_create(vmm, bytes, &made);
    case PLEAT_VMM_CALL_CHUNK_RELEASE:
        return pleat_vmm_chunk_release(vmm, live->chunk);
    case PLEAT_VMM_CALL_MAP:
        return pleat_vmm_map(vmm, live->range + bytes, bytes, live->chunk);
    case PLEAT_VMM_CALL_UNMAP:
        return pleat_vmm_unmap(vmm, live->range, bytes);
    default:
        return pleat_vmm_set_access(vmm, live->range, bytes);
    }
}

static pleat_status_t call_share(pleat_vmm_t *vmm, pleat_vmm_call_t call, const live_t *live)
{
    uint64_t made = 0;
    int file = -1;
    pleat_ipc_handle_t handle = {{0}};
    switch ((int)call) {
    case PLEAT_VMM_CALL_CHUNK_EXPORT:
        return pleat_vmm_chunk_export(vmm, live->chunk, &file);
    case PLEAT_VMM_CALL_CHUNK_IMPORT:
        return pleat_vmm_chunk_import(vmm, 0, &made);
    case PLEAT_VMM_CALL_IPC_EXPORT:
        return pleat_vmm_ipc_export(vmm, live->ptr, &handle);
    case PLEAT_VMM_CALL_IPC_OPEN:
        return pleat_vmm_ipc_open(vmm, &handle, &made);
    case PLEAT_VMM_CALL_IPC_CLOSE:
        return pleat_vmm_ipc_close(vmm, live->ptr);
    case PLEAT_VMM_CALL_PEER_ADD:
        return pleat_vmm_peer_add(vmm, 1);
    default:
        return pleat_vmm_peer_remove(vmm, 1);
    }
}

/* One call of a kind, with good arguments. */
static pleat_status_t call_kind(pleat_vmm_t *vmm, pleat_vmm_call_t call, const live_t *live)
{
    const pleat_event_t event = live->event;
    uint64_t a = 0;
    uint64_t b = 0;
    switch (call) {
    case PLEAT_VMM_CALL_MEM_ALLOC:
        return pleat_vmm_mem_alloc(vmm, 512, &a);
    case PLEAT_VMM_CALL_MEM_FREE:
        return pleat_vmm_mem_free(vmm, live->ptr);
    case PLEAT_VMM_CALL_MEM_INFO:
        return pleat_vmm_mem_info(vmm, &a, &b);
    case PLEAT_VMM_CALL_EVENT_CREATE:
        return pleat_vmm_event_create(vmm, &a);
    case PLEAT_VMM_CALL_EVENT_DESTROY:
        return pleat_vmm_event_destroy(vmm, event);
    case PLEAT_VMM_CALL_EVENT_RECORD:
        return pleat_vmm_event_record(vmm, event, 1);
    case PLEAT_VMM_CALL_EVENT_QUERY:
        return pleat_vmm_event_query(vmm, event);
    case PLEAT_VMM_CALL_EVENT_SYNCHRONIZE:
        return pleat_vmm_event_synchronize(vmm, event);
    case PLEAT_VMM_CALL_STREAM_WAIT_EVENT:
        return pleat_vmm_stream_wait_event(vmm, 2, event);
    case PLEAT_VMM_CALL_STREAM_SYNCHRONIZE:
        return pleat_vmm_stream_synchronize(vmm, 1);
    case PLEAT_VMM_CALL_ADDRESS_RESERVE:
    case PLEAT_VMM_CALL_ADDRESS_FREE:
    case PLEAT_VMM_CALL_CHUNK_CREATE:
    case PLEAT_VMM_CALL_CHUNK_RELEASE:
    case PLEAT_VMM_CALL_MAP:
    case PLEAT_VMM_CALL_UNMAP:
    case PLEAT_VMM_CALL_SET_ACCESS:
        return call_mapping(vmm, call, live);
    case PLEAT_VMM_CALL_CHUNK_EXPORT:
    case PLEAT_VMM_CALL_CHUNK_IMPORT:
    case PLEAT_VMM_CALL_IPC_EXPORT:
    case PLEAT_VMM_CALL_IPC_OPEN:
    case PLEAT_VMM_CALL_IPC_CLOSE:
    case PLEAT_VMM_CALL_PEER_ADD:
    case PLEAT_VMM_CALL_PEER_REMOVE:
        return call_share(vmm, call, live);
    case PLEAT_VMM_CALL_COUNT:
        break;
    }
    return PLEAT_ERR_INVALID;
}

Test(sim, a_seeded_fault_of_each_kind_changes_and_costs_nothing, .timeout = 10)
{
    pleat_vmm_t *vmm = sim_create(0);
    live_t live = {.ptr = take(vmm, PLEAT_MIB)};
    const uint64_t granule = 2 * PLEAT_MIB;
    expect_ok(pleat_vmm_event_create(vmm, &live.event));
    expect_ok(pleat_sim_set_busy(vmm, 1));
    expect_ok(pleat_vmm_event_record(vmm, live.event, 1));
    expect_ok(pleat_vmm_address_reserve(vmm, 2 * granule, &live.range));
    expect_ok(pleat_vmm_chunk_create(vmm, granule, &live.chunk));
    expect_ok(pleat_vmm_map(vmm, live.range, granule, live.chunk));
    pleat_sim_usage_t before = PLEAT_SIM_USAGE_INIT;
    pleat_vmm_counters_t counters_before = PLEAT_VMM_COUNTERS_INIT;
    expect_ok(pleat_sim_read_usage(vmm, &before));
    pleat_vmm_read_counters(vmm, &counters_before);
    const uint64_t clock_ns = pleat_vmm_clock_ns(vmm);

    for (unsigned i = 0; i < PLEAT_VMM_CALL_COUNT; i++) {
        const pleat_vmm_call_t call = (pleat_vmm_call_t)i;
        expect_ok(pleat_sim_fail_call(vmm, call, 1, PLEAT_ERR_DRIVER));
        expect_error(call_kind(vmm, call, &live), PLEAT_ERR_DRIVER, pleat_vmm_call_name(call));
        cr_expect(ne(ptr, strstr(pleat_last_error(), "seeded fault: driver error"), NULL));
    }
    pleat_sim_usage_t after = PLEAT_SIM_USAGE_INIT;
    pleat_vmm_counters_t counters = PLEAT_VMM_COUNTERS_INIT;
    expect_ok(pleat_sim_read_usage(vmm, &after));
    pleat_vmm_read_counters(vmm, &counters);
    cr_expect(eq(int, memcmp(&before, &after, sizeof before), 0));
    cr_expect(eq(u64, pleat_vmm_clock_ns(vmm), clock_ns));
    cr_expect(eq(u64, counters.waits, counters_before.waits));
    cr_expect(eq(int, pleat_vmm_event_query(vmm, live.event), PLEAT_ERR_NOT_READY));

    /* Each fault struck once: the same calls go through now. */
    expect_ok(pleat_vmm_mem_free(vmm, live.ptr));
    expect_ok(pleat_vmm_event_query(vmm, live.event));
    expect_ok(pleat_vmm_event_destroy(vmm, live.event));
    expect_ok(pleat_vmm_map(vmm, live.range + granule, granule, live.chunk));
    expect_ok(pleat_vmm_set_access(vmm, live.range, 2 * granule));
    expect_ok(pleat_vmm_unmap(vmm, live.range, 2 * granule));
    expect_ok(pleat_vmm_chunk_release(vmm, live.chunk));
    expect_ok(pleat_vmm_address_free(vmm, live.range, 2 * granule));
    check_and_destroy(vmm);
}

Test(sim, a_fault_strikes_the_nth_call_of_its_kind, .timeout = 10)
{
    pleat_vmm_t *vmm = sim_create(0);
    pleat_devptr_t ptrs[4];
    pleat_devptr_t failed = 0;
    expect_ok(pleat_sim_fail_call(vmm, PLEAT_VMM_CALL_MEM_ALLOC, 3, PLEAT_ERR_OOM_DEVICE));
    ptrs[0] = take(vmm, 512);
    ptrs[1] = take(vmm, 512);
    cr_expect(eq(int, pleat_vmm_mem_alloc(vmm, 512, &failed), PLEAT_ERR_OOM_DEVICE));
    ptrs[2] = take(vmm, 512);
    /* A new one replaces a pending one, and 0 removes it. */
    expect_ok(pleat_sim_fail_call(vmm, PLEAT_VMM_CALL_MEM_ALLOC, 1, PLEAT_ERR_OOM_DEVICE));
    expect_ok(pleat_sim_fail_call(vmm, PLEAT_VMM_CALL_MEM_ALLOC, 2, PLEAT_ERR_DRIVER));
    ptrs[3] = take(vmm, 512);
    expect_ok(pleat_sim_fail_call(vmm, PLEAT_VMM_CALL_MEM_ALLOC, 0, PLEAT_ERR_DRIVER));
    for (int i = 0; i < 4; i++) {
        expect_ok(pleat_vmm_mem_free(vmm, ptrs[i]));
    }
    expect_ok(pleat_vmm_mem_free(vmm, take(vmm, 512)));
    check_and_destroy(vmm);
}

Test(sim, impossible_faults_are_refused, .timeout = 10)
{
    pleat_vmm_t *vmm = sim_create(0);
    const pleat_status_t bad = PLEAT_ERR_INVALID;
    expect_error(pleat_sim_fail_call(vmm, PLEAT_VMM_CALL_COUNT, 1, PLEAT_ERR_DRIVER), bad,
                 "is no kind of call");
    expect_error(pleat_sim_fail_call(vmm, (pleat_vmm_call_t)-1, 1, PLEAT_ERR_DRIVER), bad,
                 "is no kind of call");
    expect_error(pleat_sim_fail_call(vmm, PLEAT_VMM_CALL_MEM_FREE, 1, PLEAT_OK), bad,
                 "other than success");
    check_and_destroy(vmm);
}

Test(sim, alloc_without_host_memory_changes_nothing, .timeout = 10)
{
    pleat_vmm_t *vmm = sim_create(0);
    pleat_devptr_t ptrs[1000];
    uint64_t failures = 0;
    for (int i = 0; i < 1000; i++) {
        host_fault_after(1);
        pleat_status_t status = pleat_vmm_mem_alloc(vmm, 20 * PLEAT_MIB, &ptrs[i]);
        host_fault_after(0);
        if (status == PLEAT_ERR_OOM_HOST) {
            failures++;
            status = pleat_vmm_mem_alloc(vmm, 20 * PLEAT_MIB, &ptrs[i]);
        }
        expect_ok(status);
    }
    cr_expect(lt(u64, 2, failures));
    host_fault_after(1); /* frees never need host memory */
    for (int i = 0; i < 1000; i++) {
        expect_ok(pleat_vmm_mem_free(vmm, ptrs[(i * 7) % 1000]));
    }
    host_fault_after(0);
    check_and_destroy(vmm);
}

Test(sim, a_steady_state_needs_no_host_memory, .timeout = 10)
{
    pleat_vmm_t *vmm = sim_create(0);
    uint64_t before = 0;
    for (int round = 0; round < 100; round++) {
        if (round == 1) {
            before = host_fault_allocations();
        }
        pleat_event_t events[50];
        pleat_devptr_t ptrs[50];
        expect_ok(pleat_sim_set_busy(vmm, 3));
        for (int i = 0; i < 50; i++) {
            ptrs[i] = take(vmm, (uint64_t)(i + 1) * PLEAT_MIB);
            expect_ok(pleat_vmm_event_create(vmm, &events[i]));
            expect_ok(pleat_vmm_event_record(vmm, events[i], 3));
            expect_ok(pleat_vmm_stream_wait_event(vmm, 4, events[i]));
        }
        for (int i = 0; i < 50; i++) {
            expect_ok(pleat_vmm_mem_free(vmm, ptrs[i]));
            expect_ok(pleat_vmm_event_destroy(vmm, events[i]));
        }
    }
    cr_expect(eq(u64, host_fault_allocations(), before));
    check_and_destroy(vmm);
}

Test(sim, usage_fills_what_the_caller_has, .timeout = 10)
{
    pleat_vmm_t *vmm = sim_create(0);
    pleat_event_t event = 0;
    const pleat_devptr_t ptr = take(vmm, 777);
    expect_ok(pleat_vmm_event_create(vmm, &event));
    pleat_sim_usage_t usage = PLEAT_SIM_USAGE_INIT;
    expect_ok(pleat_sim_read_usage(vmm, &usage));
    cr_expect(eq(u64, usage.allocations, 1));
    cr_expect(eq(u64, usage.allocated_bytes, 777));
    cr_expect(eq(u64, usage.events, 1));

    usage = (pleat_sim_usage_t){.size = offsetof(pleat_sim_usage_t, events), .events = 5};
    expect_ok(pleat_sim_read_usage(vmm, &usage));
    cr_expect(eq(u64, usage.allocations, 1));
    cr_expect(eq(u64, usage.events, 5));
    usage.size = 0;
    expect_error(pleat_sim_read_usage(vmm, &usage), PLEAT_ERR_INVALID, "lacks its size");
    expect_error(pleat_sim_read_usage(vmm, NULL), PLEAT_ERR_INVALID, "is NULL");
    expect_ok(pleat_vmm_event_destroy(vmm, event));
    expect_ok(pleat_vmm_mem_free(vmm, ptr));
    check_and_destroy(vmm);
}

Test(sim, destroy_takes_what_is_still_live, .timeout = 10)
{
    pleat_vmm_t *vmm = sim_create(0);
    pleat_event_t event = 0;
    (void)take(vmm, PLEAT_GIB);
    expect_ok(pleat_sim_set_busy(vmm, 1));
    expect_ok(pleat_vmm_event_create(vmm, &event));
    expect_ok(pleat_vmm_event_record(vmm, event, 1));
    pleat_vmm_destroy(vmm);
}

static void other_destroy(void *self)
{
    (void)self;
}

static uint64_t other_number(void *self)
{
    (void)self;
    return 0;
}

static pleat_status_t other_two(void *self, uint64_t *a_out, uint64_t *b_out)
{
    (void)self;
    *a_out = 0;
    *b_out = 0;
    return PLEAT_OK;
}

static pleat_status_t other_alloc(void *self, uint64_t bytes, pleat_devptr_t *ptr_out)
{
    (void)self;
    *ptr_out = bytes;
    return PLEAT_OK;
}

static pleat_status_t other_make(void *self, pleat_event_t *event_out)
{
    (void)self;
    *event_out = 1;
    return PLEAT_OK;
}

static pleat_status_t other_one(void *self, uint64_t a)
{
    (void)self;
    return a == 0 ? PLEAT_ERR_INVALID : PLEAT_OK;
}

static pleat_status_t other_pair(void *self, uint64_t a, uint64_t b)
{
    (void)b;
    return other_one(self, a);
}

Test(sim, control_of_another_device_is_refused, .timeout = 10)
{
    const pleat_vmm_ops_t ops = {
        PLEAT_VMM_OPS_INIT("other"),     .destroy = other_destroy,
        .clock_ns = other_number,        .wait_count = other_number,
        .mem_info = other_two,           .mem_alloc = other_alloc,
        .mem_free = other_one,           .event_create = other_make,
        .event_destroy = other_one,      .event_record = other_pair,
        .event_query = other_one,        .event_synchronize = other_one,
        .stream_wait_event = other_pair, .stream_synchronize = other_one,
    };
    pleat_vmm_t *vmms[2] = {NULL, NULL};
    expect_ok(pleat_vmm_create(&ops, &vmms, &vmms[0]));
    for (int i = 0; i < 2; i++) {
        const char *part = i == 0 ? "device 'other' is no simulated one" : "device 'none'";
        pleat_sim_usage_t usage = PLEAT_SIM_USAGE_INIT;
        const pleat_status_t bad = PLEAT_ERR_INVALID;
        expect_error(pleat_sim_launch(vmms[i], 0, 1), bad, part);
        expect_error(pleat_sim_set_busy(vmms[i], 0), bad, part);
        expect_error(pleat_sim_set_done(vmms[i], 0), bad, part);
        expect_error(pleat_sim_set_all_done(vmms[i]), bad, part);
        expect_error(pleat_sim_advance_to(vmms[i], 1), bad, part);
        expect_error(pleat_sim_fail_call(vmms[i], PLEAT_VMM_CALL_MEM_INFO, 1, PLEAT_ERR_DRIVER),
                     bad, part);
        expect_error(pleat_sim_read_usage(vmms[i], &usage), bad, part);
    }
    pleat_vmm_destroy(vmms[0]);
}
