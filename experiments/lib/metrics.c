/*
 * metrics: see metrics.h.
 */
#include "metrics.h"

#include <math.h>

#define PLEAT_METRICS_NS_PER_US UINT64_C(1000)

uint64_t pleat_metrics_driver_ns(const pleat_vmm_counters_t *counters, uint64_t *calls_out)
{
    uint64_t time_ns = 0;
    uint64_t calls = 0;
    for (unsigned kind = 0; kind < PLEAT_VMM_CALL_COUNT; kind++) {
        if (pleat_vmm_call_is_memory((pleat_vmm_call_t)kind)) {
            time_ns += counters->time_ns[kind];
            calls += counters->calls[kind];
        }
    }
    if (calls_out != NULL) {
        *calls_out = calls;
    }
    return time_ns;
}

void pleat_meter_init(pleat_meter_t *meter, const pleat_stats_t *stats, pleat_vmm_t *vmm,
                      uint64_t start_us)
{
    *meter = (pleat_meter_t){
        .stats = stats, .vmm = vmm, .now_us = start_us, .start_us = start_us, .half_us = start_us};
}

void pleat_meter_begin_second_half(pleat_meter_t *meter)
{
    pleat_vmm_counters_t counters = PLEAT_VMM_COUNTERS_INIT;
    pleat_vmm_read_counters(meter->vmm, &counters);
    meter->half_us = meter->now_us;
    meter->half_driver_ns = pleat_metrics_driver_ns(&counters, NULL);
}

void pleat_meter_begin_pass(pleat_meter_t *meter)
{
    pleat_vmm_counters_t counters = PLEAT_VMM_COUNTERS_INIT;
    pleat_vmm_read_counters(meter->vmm, &counters);
    (void)pleat_metrics_driver_ns(&counters, &meter->pass_driver_calls);
}

static double metrics_ratio(double value, double divisor)
{
    return divisor > 0.0 ? value / divisor : 0.0;
}

/* The same over a time, which is not known where no time passed. */
static double metrics_time_ratio(double value, double time)
{
    return time > 0.0 ? value / time : (double)NAN;
}

static double metrics_percent(uint64_t driver_ns, uint64_t duration_us)
{
    return metrics_time_ratio(100.0 * (double)driver_ns,
                              (double)duration_us * (double)PLEAT_METRICS_NS_PER_US);
}

void pleat_meter_add_call(pleat_meter_t *meter)
{
    pleat_vmm_counters_t counters = PLEAT_VMM_COUNTERS_INIT;
    pleat_vmm_read_counters(meter->vmm, &counters);
    const uint64_t driver_ns = pleat_metrics_driver_ns(&counters, NULL);
    const uint64_t call_ns = driver_ns - meter->driver_ns;
    meter->worst_ns = call_ns > meter->worst_ns ? call_ns : meter->worst_ns;
    meter->driver_ns = driver_ns;
}

void pleat_meter_read(const pleat_meter_t *meter, pleat_metrics_t *metrics_out)
{
    const pleat_stats_t *stats = meter->stats;
    const uint64_t active = (uint64_t)stats->active_bytes[PLEAT_STAT_ALL].peak;
    const uint64_t reserved = (uint64_t)stats->reserved_bytes[PLEAT_STAT_ALL].peak;
    const uint64_t calls = meter->alloc_count + meter->free_count + meter->flush_count;
    const uint64_t duration_us = meter->now_us - meter->start_us;
    *metrics_out = (pleat_metrics_t){
        .allocs = meter->alloc_count,
        .frees = meter->free_count,
        .requested_peak_bytes = (uint64_t)stats->requested_bytes[PLEAT_STAT_ALL].peak,
        .active_peak_bytes = active,
        .reserved_peak_bytes = reserved,
        .utilization = metrics_ratio((double)active, (double)reserved),
        .inactive_split_peak_bytes = (uint64_t)stats->inactive_split_bytes[PLEAT_STAT_ALL].peak,
        .mean_reserved_over_active =
            metrics_time_ratio(meter->weighted_ratio, (double)meter->weight_us),
        .num_alloc_retries = (uint64_t)stats->num_alloc_retries,
        .num_ooms = (uint64_t)stats->num_ooms,
        .duration_us = duration_us,
        .duration_us_second_half = meter->now_us - meter->half_us,
        .mean_reserved_bytes =
            (uint64_t)metrics_ratio(meter->weighted_reserved, (double)duration_us),
        .mean_active_bytes = (uint64_t)metrics_ratio(meter->weighted_active, (double)duration_us),
        .worst_call_us = pleat_metrics_round_us(meter->worst_ns),
        .host_ns_per_op = metrics_ratio((double)meter->host_ns, (double)calls),
        .moved_bytes = (uint64_t)stats->moved_bytes,
        .mappings_peak = (uint64_t)stats->mappings_peak,
        .unreturnable_peak_bytes = (uint64_t)meter->unreturnable_peak_bytes,
        .view_count = (uint64_t)stats->view_count,
        .cross_stream_takes = (uint64_t)stats->cross_stream_takes,
        .event_waits = (uint64_t)stats->event_waits,
        .device = PLEAT_VMM_COUNTERS_INIT};
    pleat_vmm_read_counters(meter->vmm, &metrics_out->device);
    const uint64_t driver_ns =
        pleat_metrics_driver_ns(&metrics_out->device, &metrics_out->driver_calls);
    const uint64_t half_ns = driver_ns - meter->half_driver_ns;
    metrics_out->driver_us = pleat_metrics_round_us(driver_ns);
    metrics_out->driver_us_second_half = pleat_metrics_round_us(half_ns);
    metrics_out->driver_calls_last_pass = metrics_out->driver_calls - meter->pass_driver_calls;
    metrics_out->driver_percent = metrics_percent(driver_ns, duration_us);
    metrics_out->driver_percent_second_half =
        metrics_percent(half_ns, metrics_out->duration_us_second_half);
    metrics_out->waits = metrics_out->device.waits;
}
