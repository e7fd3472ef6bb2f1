/*
 * Tests of experiments/lib/metrics: ratios, means and halves by hand.
 */
#include "metrics.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <pleat/sim.h>

/* A device on which a mem_alloc takes 30 us and a mem_free 10 us, whatever the size. */
static pleat_vmm_t *metrics_device(void)
{
    static pleat_cost_table_t costs;
    costs = (pleat_cost_table_t){
        .size = sizeof(costs),
        .row_count = 1,
        .rows = {{.bytes = 1 << 21, .mem_alloc_ns = 30000, .mem_free_ns = 10000}}};
    pleat_sim_options_t options = PLEAT_SIM_OPTIONS_INIT;
    options.costs = &costs;
    pleat_vmm_t *vmm = NULL;
    cr_assert(eq(int, pleat_sim_create(&options, &vmm), PLEAT_OK));
    return vmm;
}

Test(metrics, of_nothing_are_zero_or_not_known, .timeout = 5)
{
    pleat_vmm_t *vmm = metrics_device();
    const pleat_stats_t stats = PLEAT_STATS_INIT;
    pleat_meter_t meter;
    pleat_meter_init(&meter, &stats, vmm, 5);
    pleat_metrics_t metrics;
    pleat_meter_read(&meter, &metrics);
    cr_expect(eq(dbl, metrics.utilization, 0.0));
    cr_expect(isnan(metrics.mean_reserved_over_active));
    cr_expect(isnan(metrics.driver_percent));
    cr_expect(isnan(metrics.driver_percent_second_half));
    cr_expect(eq(dbl, metrics.host_ns_per_op, 0.0));
    cr_expect(eq(u64, metrics.driver_calls, 0));
    pleat_vmm_destroy(vmm);
}

Test(metrics, weigh_the_mean_by_time_and_leave_out_times_without_blocks, .timeout = 5)
{
    pleat_vmm_t *vmm = metrics_device();
    pleat_stats_t stats = PLEAT_STATS_INIT;
    pleat_meter_t meter;
    pleat_meter_init(&meter, &stats, vmm, 100);
    stats.reserved_bytes[PLEAT_STAT_ALL].current = 400;
    pleat_meter_advance(&meter, 150); /* nothing active: left out */
    stats.active_bytes[PLEAT_STAT_ALL].current = 100;
    pleat_meter_advance(&meter, 160); /* 4 for 10 us */
    stats.active_bytes[PLEAT_STAT_ALL].current = 200;
    pleat_meter_advance(&meter, 190); /* 2 for 30 us */
    pleat_meter_advance(&meter, 120); /* back in time: nothing */
    pleat_metrics_t metrics;
    pleat_meter_read(&meter, &metrics);
    cr_expect(epsilon_eq(dbl, metrics.mean_reserved_over_active, 2.5, 1e-12));
    /* 400 for 90 us; 0 for 50 us, 100 for 10 us and 200 for 30 us. */
    cr_expect(eq(u64, metrics.mean_reserved_bytes, 400));
    cr_expect(eq(u64, metrics.mean_active_bytes, 77));
    cr_expect(eq(u64, metrics.duration_us, 90));
    pleat_vmm_destroy(vmm);
}

Test(metrics, count_driver_time_over_all_and_over_the_second_half, .timeout = 5)
{
    pleat_vmm_t *vmm = metrics_device();
    pleat_stats_t stats = PLEAT_STATS_INIT;
    stats.active_bytes[PLEAT_STAT_ALL].peak = 3;
    stats.reserved_bytes[PLEAT_STAT_ALL].peak = 4;
    pleat_meter_t meter;
    pleat_meter_init(&meter, &stats, vmm, 0);
    pleat_devptr_t ptr = 0;
    cr_assert(eq(int, pleat_vmm_mem_alloc(vmm, 1 << 21, &ptr), PLEAT_OK));
    pleat_meter_call(&meter, 30000);
    pleat_meter_advance(&meter, 200);
    pleat_meter_begin_second_half(&meter);
    pleat_meter_begin_pass(&meter);
    cr_assert(eq(int, pleat_vmm_mem_free(vmm, ptr), PLEAT_OK));
    pleat_meter_call(&meter, 10000);
    pleat_meter_advance(&meter, 400);
    pleat_event_t event = 0; /* no driver call in the sense of reports */
    cr_assert(eq(int, pleat_vmm_event_create(vmm, &event), PLEAT_OK));
    cr_assert(eq(int, pleat_vmm_event_destroy(vmm, event), PLEAT_OK));
    pleat_metrics_t metrics;
    pleat_meter_read(&meter, &metrics);
    cr_expect(eq(u64, metrics.driver_calls, 2));
    cr_expect(eq(u64, metrics.driver_us, 40));
    cr_expect(epsilon_eq(dbl, metrics.driver_percent, 10.0, 1e-9));
    cr_expect(epsilon_eq(dbl, metrics.driver_percent_second_half, 5.0, 1e-9));
    cr_expect(eq(u64, metrics.driver_us_second_half, 10));
    cr_expect(eq(u64, metrics.duration_us_second_half, 200));
    cr_expect(eq(u64, metrics.driver_calls_last_pass, 1));
    cr_expect(eq(u64, metrics.worst_call_us, 30));
    cr_expect(epsilon_eq(dbl, metrics.utilization, 0.75, 1e-12));
    cr_expect(eq(u64, metrics.device.calls[PLEAT_VMM_CALL_MEM_FREE], 1));
    pleat_vmm_destroy(vmm);
}

Test(metrics, take_the_peak_of_what_cannot_go_back_between_calls, .timeout = 5)
{
    pleat_vmm_t *vmm = metrics_device();
    pleat_stats_t stats = PLEAT_STATS_INIT;
    pleat_meter_t meter;
    pleat_meter_init(&meter, &stats, vmm, 0);
    stats.unreturnable_bytes = 7;
    pleat_meter_call(&meter, 0);
    stats.unreturnable_bytes = 9; /* during a call that ends with less */
    stats.unreturnable_bytes = 3;
    pleat_meter_call(&meter, 0);
    pleat_metrics_t metrics;
    pleat_meter_read(&meter, &metrics);
    cr_expect(eq(u64, metrics.unreturnable_peak_bytes, 7));
    pleat_vmm_destroy(vmm);
}

Test(metrics, pass_on_the_counters_of_memory_that_is_shared, .timeout = 5)
{
    pleat_vmm_t *vmm = metrics_device();
    pleat_stats_t stats = PLEAT_STATS_INIT;
    stats.moved_bytes = 1;
    stats.view_count = 2;
    stats.mappings = 3;
    stats.mappings_peak = 4;
    stats.cross_stream_takes = 5;
    stats.event_waits = 6;
    pleat_meter_t meter;
    pleat_meter_init(&meter, &stats, vmm, 0);
    pleat_metrics_t metrics;
    pleat_meter_read(&meter, &metrics);
    cr_expect(eq(u64, metrics.moved_bytes, 1));
    cr_expect(eq(u64, metrics.view_count, 2));
    cr_expect(eq(u64, metrics.mappings_peak, 4));
    cr_expect(eq(u64, metrics.cross_stream_takes, 5));
    cr_expect(eq(u64, metrics.event_waits, 6));
    pleat_vmm_destroy(vmm);
}

Test(metrics, round_times_to_the_nearest_microsecond, .timeout = 5)
{
    cr_expect(eq(u64, pleat_metrics_round_us(499), 0));
    cr_expect(eq(u64, pleat_metrics_round_us(500), 1));
    cr_expect(eq(u64, pleat_metrics_round_us(1499), 1));
}
