/*
 * stats: the counters of an allocator, one list each for the struct and for everybody who names,
 * prints or compares them.
 */
#ifndef PLEAT_STATS_H
#define PLEAT_STATS_H

#include <pleat/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, text): kept for all pools together, for large pools and for small pools. */
#define PLEAT_ARRAY_STAT_LIST(X)                                                 \
    X(allocation, "allocations handed out")                                      \
    X(segment, "segments obtained by a plain device allocation")                 \
    X(active, "allocations handed out, or freed and still waiting for a stream") \
    X(inactive_split, "free blocks beside another block of their segment")       \
    X(allocated_bytes, "block bytes handed out")                                 \
    X(reserved_bytes, "bytes obtained from the device")                          \
    X(active_bytes, "block bytes handed out or waiting")                         \
    X(inactive_split_bytes, "bytes of inactive_split blocks")                    \
    X(requested_bytes, "bytes that callers asked for, until the free is complete")

/* X(name, text): kept once. */
#define PLEAT_PLAIN_STAT_LIST(X)                                      \
    X(oversize_allocations, "allocations of max_split_bytes or more") \
    X(oversize_segments, "segments of max_split_bytes or more")

/* X(name, text): plain counters; max_split_bytes is the option when the allocator was made. */
#define PLEAT_SCALAR_STAT_LIST(X)                                           \
    X(num_alloc_retries, "device allocations tried again after a flush")    \
    X(num_ooms, "requests that failed with out of memory")                  \
    X(num_sync_all_streams, "times that all waiting frees were waited for") \
    X(num_device_alloc, "successful device allocations or map operations")  \
    X(num_device_free, "device frees or unmap operations")                  \
    X(max_split_bytes, "max_split_bytes at creation; -1: unlimited")

/* X(name, text): counters that PyTorch does not have. */
#define PLEAT_OWN_STAT_LIST(X)                                                                   \
    X(unreturnable_bytes, "free bytes that cannot go back now: a live block shares their chunk") \
    X(view_count, "second ranges over memory that is mapped elsewhere")                          \
    X(view_mappings, "mappings in them")                                                         \
    X(stitched_bytes, "bytes handed out by making a second range")                               \
    X(cross_stream_takes, "times that memory of another stream was taken")                       \
    X(event_waits, "waits of a stream for another on the device")                                \
    X(moved_bytes, "bytes of chunks that were mapped a second time")                             \
    X(mappings, "mappings alive: pages of ranges, chunks at home, chunks in views")              \
    X(mappings_peak, "most of them at once")

typedef enum pleat_stat_kind {
    PLEAT_STAT_ALL,
    PLEAT_STAT_LARGE_POOL,
    PLEAT_STAT_SMALL_POOL,
    PLEAT_STAT_KIND_COUNT
} pleat_stat_kind_t;

typedef struct pleat_stat {
    int64_t current;
    int64_t peak;      /* highest current since creation or the last reset of the peaks */
    int64_t allocated; /* sum of increases since creation or the last reset of the sums */
    int64_t freed;     /* sum of decreases, likewise */
} pleat_stat_t;

typedef struct pleat_stats {
    size_t size;
#define PLEAT_STAT_FIELD(name, text) pleat_stat_t name[PLEAT_STAT_KIND_COUNT];
    PLEAT_ARRAY_STAT_LIST(PLEAT_STAT_FIELD)
#undef PLEAT_STAT_FIELD
#define PLEAT_STAT_FIELD(name, text) pleat_stat_t name;
    PLEAT_PLAIN_STAT_LIST(PLEAT_STAT_FIELD)
#undef PLEAT_STAT_FIELD
#define PLEAT_STAT_FIELD(name, text) int64_t name;
    PLEAT_SCALAR_STAT_LIST(PLEAT_STAT_FIELD)
    PLEAT_OWN_STAT_LIST(PLEAT_STAT_FIELD)
#undef PLEAT_STAT_FIELD
} pleat_stats_t;
#define PLEAT_ARRAY_STAT_ZERO(name, text) {{0, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 0}},
#define PLEAT_PLAIN_STAT_ZERO(name, text) {0, 0, 0, 0},
#define PLEAT_SCALAR_STAT_ZERO(name, text) 0,
#define PLEAT_STATS_INIT                                                               \
    {                                                                                  \
        sizeof(pleat_stats_t), PLEAT_ARRAY_STAT_LIST(PLEAT_ARRAY_STAT_ZERO)            \
                                   PLEAT_PLAIN_STAT_LIST(PLEAT_PLAIN_STAT_ZERO)        \
                                       PLEAT_SCALAR_STAT_LIST(PLEAT_SCALAR_STAT_ZERO)  \
                                           PLEAT_OWN_STAT_LIST(PLEAT_SCALAR_STAT_ZERO) \
    }

#ifdef __cplusplus
}
#endif
#endif
