/*
 * Tests of experiments/lib/driver_log: slices of device calls, joined when they run out.
 */
#include "driver_log.h"

#include "fixture.h"
#include "host_fault.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

static void add(pleat_driver_log_t *log, pleat_vmm_call_t call, uint64_t group, uint64_t begin_ns,
                uint64_t cost_ns)
{
    const pleat_driver_slice_t slice = {.begin_ns = begin_ns,
                                        .end_ns = begin_ns + cost_ns,
                                        .cost_ns = cost_ns,
                                        .call_count = 1,
                                        .failure_count = cost_ns == 0 ? 1 : 0,
                                        .group = group,
                                        .call = call};
    pleat_driver_log_add(log, &slice);
}

Test(driver_log, joins_calls_of_one_kind_that_touch, .timeout = 5)
{
    pleat_driver_log_t log;
    cr_assert(eq(int, pleat_driver_log_init(&log, 10), PLEAT_OK));
    add(&log, PLEAT_VMM_CALL_MAP, 1, 100, 10);
    add(&log, PLEAT_VMM_CALL_MAP, 1, 110, 10);
    add(&log, PLEAT_VMM_CALL_MAP, 1, 120, 0);        /* fails */
    add(&log, PLEAT_VMM_CALL_SET_ACCESS, 1, 120, 5); /* another kind */
    add(&log, PLEAT_VMM_CALL_SET_ACCESS, 2, 125, 5); /* another call of the allocator */
    add(&log, PLEAT_VMM_CALL_SET_ACCESS, 2, 131, 5); /* after a gap */
    cr_assert(eq(sz, log.count, 4));
    cr_expect(eq(u64, log.slices[0].begin_ns, 100));
    cr_expect(eq(u64, log.slices[0].end_ns, 120));
    cr_expect(eq(u64, log.slices[0].cost_ns, 20));
    cr_expect(eq(u64, log.slices[0].call_count, 3));
    cr_expect(eq(u64, log.slices[0].failure_count, 1));
    cr_expect(eq(int, (int)log.slices[0].call, (int)PLEAT_VMM_CALL_MAP));
    cr_expect(eq(u64, log.slices[3].begin_ns, 131));
    pleat_driver_log_fini(&log);
}

/* However many calls: what they cost is never lost, and slices stay in order. */
Test(driver_log, is_bounded_and_loses_no_cost, .timeout = 10)
{
    for (size_t capacity = 2; capacity < 100; capacity += 7) {
        pleat_driver_log_t log;
        fixture_random_t random = {.state = capacity};
        uint64_t now_ns = 0;
        uint64_t cost_ns = 0;
        cr_assert(eq(int, pleat_driver_log_init(&log, capacity), PLEAT_OK));
        for (uint64_t i = 0; i < 5000; i++) {
            const uint64_t cost = fixture_random_below(&random, 50);
            now_ns += fixture_random_below(&random, 3) * fixture_random_below(&random, 100000);
            add(&log, (pleat_vmm_call_t)fixture_random_below(&random, 3), i / 4, now_ns, cost);
            now_ns += cost;
            cost_ns += cost;
            cr_assert(le(sz, log.count, capacity));
        }
        uint64_t calls = 0;
        for (size_t i = 0; i < log.count; i++) {
            cr_assert(i == 0 || log.slices[i - 1].end_ns <= log.slices[i].begin_ns);
            cr_assert(
                le(u64, log.slices[i].cost_ns, log.slices[i].end_ns - log.slices[i].begin_ns));
            calls += log.slices[i].call_count;
            cost_ns -= log.slices[i].cost_ns;
        }
        cr_expect(eq(u64, calls, 5000));
        cr_expect(eq(u64, cost_ns, 0));
        pleat_driver_log_fini(&log);
    }
}

Test(driver_log, joins_even_the_furthest, .timeout = 5)
{
    pleat_driver_log_t log;
    cr_assert(eq(int, pleat_driver_log_init(&log, 2), PLEAT_OK));
    add(&log, PLEAT_VMM_CALL_MAP, 1, 0, 1);
    add(&log, PLEAT_VMM_CALL_UNMAP, 2, UINT64_C(1) << 63, 1);
    add(&log, PLEAT_VMM_CALL_MAP, 3, UINT64_MAX - 1, 1);
    cr_assert(eq(sz, log.count, 1));
    cr_expect(eq(u64, log.slices[0].call_count, 3));
    cr_expect(eq(u64, log.slices[0].cost_ns, 3));
    cr_expect(eq(int, (int)log.slices[0].call, (int)PLEAT_VMM_CALL_COUNT));
    pleat_driver_log_fini(&log);
}

Test(driver_log, needs_host_memory, .timeout = 5)
{
    pleat_driver_log_t log;
    host_fault_after(1);
    cr_expect(eq(int, pleat_driver_log_init(&log, 2), PLEAT_ERR_OOM_HOST));
    pleat_driver_log_fini(&log);
}
