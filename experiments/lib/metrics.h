/*
 * metrics: what a replay is judged by, one list for the struct and for everybody who prints it, and
 * the meter that collects them while a replay runs.
 *
 * Bytes and peaks are the engine's own counters. Times are those of the device's logical clock,
 * and of the trace's time stamps; host_ns_per_op alone comes from the real clock.
 * Locks: none; a meter belongs to one thread at a time.
 */
#ifndef PLEAT_EXPERIMENTS_METRICS_H
#define PLEAT_EXPERIMENTS_METRICS_H

#include <pleat/allocator.h>

/* X(TYPE, name, text), a list a group; the order is that of reports. */
#define PLEAT_METRIC_REPLAY_LIST(X)                                                          \
    X(TEXT, trace, "name of the trace")                                                      \
    X(TEXT, mode, "mode of the allocator")                                                   \
    X(TEXT, conf, "settings of the allocator")                                               \
    X(COUNT, events, "events of the trace, times the passes")                                \
    X(COUNT, duration_us, "time of the trace by its own time stamps, times the passes")      \
    X(COUNT, allocs, "allocations asked for")                                                \
    X(COUNT, frees, "blocks freed by calls of the trace; a request that failed leaves none") \
    X(COUNT, num_alloc_retries, "device allocations tried again after a flush")              \
    X(COUNT, num_ooms, "requests that failed")                                               \
    X(REAL, host_ns_per_op, "real time of the replay per call of the allocator, ns")

#define PLEAT_METRIC_MEMORY_LIST(X)                                                              \
    X(COUNT, requested_peak_bytes, "peak of the bytes that the program asked for")               \
    X(COUNT, active_peak_bytes, "peak of the bytes in use or waiting: what any allocator needs") \
    X(COUNT, reserved_peak_bytes, "peak of the bytes held from the device")                      \
    X(REAL, utilization, "active_peak_bytes / reserved_peak_bytes")                              \
    X(REAL, mean_reserved_over_active,                                                           \
      "mean of reserved / active over the time in which something is active")                    \
    X(COUNT, mean_reserved_bytes, "mean of the bytes held over the time of the trace")           \
    X(COUNT, mean_active_bytes, "mean of the bytes in use or waiting")                           \
    X(COUNT, inactive_split_peak_bytes, "peak of the bytes free beside something in use")        \
    X(COUNT, unreturnable_peak_bytes, "peak of the free bytes whose chunk holds blocks in use")

#define PLEAT_METRIC_SHARING_LIST(X)                                                 \
    X(COUNT, moved_bytes, "bytes of memory mapped a second time instead of created") \
    X(COUNT, view_count, "ranges over memory that is mapped elsewhere, at the end")  \
    X(COUNT, mappings_peak, "peak of the mappings alive at once")                    \
    X(COUNT, cross_stream_takes, "times that memory of another stream was taken")    \
    X(COUNT, event_waits, "waits of a stream for another, on the device")

#define PLEAT_METRIC_DRIVER_LIST(X)                                                                \
    X(COUNT, driver_calls, "calls that get, return or map device memory, failed ones among them")  \
    X(COUNT, driver_us, "their time by the cost table; a failed one takes none in the simulation") \
    X(REAL, driver_percent, "driver_us of the trace's duration, in percent")                       \
    X(REAL, driver_percent_second_half, "the same from the middle event of the trace on")          \
    X(COUNT, driver_us_second_half, "driver_us from the middle event of the trace on")             \
    X(COUNT, duration_us_second_half, "duration from the middle event of the trace on")            \
    X(COUNT, driver_calls_last_pass, "driver_calls of the last of several passes")                 \
    X(COUNT, worst_call_us, "most of driver_us within one call of the allocator")                  \
    X(COUNT, waits,                                                                                \
      "times that the host waited for the device; each device free is one, for it ends all work")

/* X(list, heading) */
#define PLEAT_METRIC_GROUP_LIST(X)                           \
    X(PLEAT_METRIC_REPLAY_LIST, "the replay")                \
    X(PLEAT_METRIC_MEMORY_LIST, "memory")                    \
    X(PLEAT_METRIC_SHARING_LIST, "memory mapped and shared") \
    X(PLEAT_METRIC_DRIVER_LIST, "calls of the device")

#define PLEAT_METRIC_LIST(X)     \
    PLEAT_METRIC_REPLAY_LIST(X)  \
    PLEAT_METRIC_MEMORY_LIST(X)  \
    PLEAT_METRIC_SHARING_LIST(X) \
    PLEAT_METRIC_DRIVER_LIST(X)

#define PLEAT_METRIC_TYPE_TEXT const char *
#define PLEAT_METRIC_TYPE_COUNT uint64_t
#define PLEAT_METRIC_TYPE_REAL double

/* Texts belong to the caller of the replay. A ratio of bytes whose divisor is 0 is 0; one over a
 * time of 0 is not known, which is NAN here. */
typedef struct pleat_metrics {
#define PLEAT_METRIC_FIELD(type, name, text) PLEAT_METRIC_TYPE_##type name;
    PLEAT_METRIC_LIST(PLEAT_METRIC_FIELD)
#undef PLEAT_METRIC_FIELD
    pleat_vmm_counters_t device; /* calls, failures and time by kind */
} pleat_metrics_t;

typedef struct pleat_meter {
    const pleat_stats_t *stats;
    pleat_vmm_t *vmm;
    uint64_t now_us; /* time of the trace, going on over passes */
    uint64_t start_us;
    uint64_t half_us; /* time and device time when the second half of the events began */
    uint64_t half_driver_ns;
    uint64_t weight_us; /* time over which reserved / active was added up */
    double weighted_ratio;
    double weighted_reserved; /* bytes times us */
    double weighted_active;
    uint64_t pass_driver_calls;      /* when the last pass began */
    uint64_t driver_ns;              /* up to the last call of the allocator */
    uint64_t worst_ns;               /* of driver_ns, in one call */
    int64_t unreturnable_peak_bytes; /* between calls */
    uint64_t alloc_count;
    uint64_t free_count;
    uint64_t flush_count; /* calls of empty_cache */
    uint64_t host_ns;
} pleat_meter_t;

/** Begin at trace time @p start_us; @p stats and @p vmm are read during the replay. */
void pleat_meter_init(pleat_meter_t *meter, const pleat_stats_t *stats, pleat_vmm_t *vmm,
                      uint64_t start_us);

/** Time of the trace goes on to @p now_us; what is held now was held until then. */
static inline void pleat_meter_advance(pleat_meter_t *meter, uint64_t now_us)
{
    if (now_us <= meter->now_us) {
        return;
    }
    const double passed_us = (double)(now_us - meter->now_us);
    const int64_t active = meter->stats->active_bytes[PLEAT_STAT_ALL].current;
    const int64_t reserved = meter->stats->reserved_bytes[PLEAT_STAT_ALL].current;
    meter->weighted_reserved += passed_us * (double)reserved;
    meter->weighted_active += passed_us * (double)active;
    if (active > 0) {
        meter->weighted_ratio += passed_us * (double)reserved / (double)active;
        meter->weight_us += now_us - meter->now_us;
    }
    meter->now_us = now_us;
}

/** The calls of the device since the last time belong to one call of the allocator. */
void pleat_meter_add_call(pleat_meter_t *meter);

/** A call of the allocator is over; it took @p clock_ns of the device's clock, 0 in most cases. */
static inline void pleat_meter_call(pleat_meter_t *meter, uint64_t clock_ns)
{
    if (clock_ns > 0) {
        pleat_meter_add_call(meter);
    }
    if (meter->stats->unreturnable_bytes > meter->unreturnable_peak_bytes) {
        meter->unreturnable_peak_bytes = meter->stats->unreturnable_bytes;
    }
}

/** The second half of the events begins now. @par Cost constant. */
void pleat_meter_begin_second_half(pleat_meter_t *meter);

/** A pass begins now. @par Cost constant. */
void pleat_meter_begin_pass(pleat_meter_t *meter);

/** The metrics up to now; texts and events are the caller's to fill. @par Cost constant. */
void pleat_meter_read(const pleat_meter_t *meter, pleat_metrics_t *metrics_out);

/** A time of the device in whole us, as reports have it. */
static inline uint64_t pleat_metrics_round_us(uint64_t ns)
{
    return (ns + 500) / 1000;
}

/** Device time of the calls that get, return or map memory, ns; @p calls_out may be NULL. */
uint64_t pleat_metrics_driver_ns(const pleat_vmm_counters_t *counters, uint64_t *calls_out);

#endif
