/*
 * options: what a caller may choose about an allocator, one list for the struct, the names, the
 * defaults, the ranges and the help text.
 */
#ifndef PLEAT_OPTIONS_H
#define PLEAT_OPTIONS_H

#include <pleat/base.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PLEAT_NO_LIMIT UINT64_MAX  /* limit_bytes: as much as the device has */
#define PLEAT_UNLIMITED UINT64_MAX /* max_split_bytes: every block may be split */
#define PLEAT_ROUNDUP_ENTRIES 16   /* one a power of two from 1 MiB to 32 GiB */

/* X(name, text): where the memory of an allocator comes from. */
#define PLEAT_MODE_LIST(X)                  \
    X(CLASSIC, "classic")                   \
    X(TORCH_EXPANDABLE, "torch_expandable") \
    X(PLEATED, "pleated")

typedef enum pleat_mode {
#define PLEAT_MODE_ENUM(name, text) PLEAT_MODE_##name,
    PLEAT_MODE_LIST(PLEAT_MODE_ENUM)
#undef PLEAT_MODE_ENUM
        PLEAT_MODE_COUNT
} pleat_mode_t;

/*
 * X(name, type, default, smallest, largest, unit, help). The round-up table stands apart: entry k
 * serves requests in [2^k, 2^(k+1)) MiB, entry 0 everything below 2 MiB, the last everything above.
 * max_non_split_rounding_bytes 0 means: the same as large_segment_bytes.
 */
#define PLEAT_OPTION_LIST(X)                                                                      \
    X(limit_bytes, uint64_t, PLEAT_NO_LIMIT, 0, UINT64_MAX, "bytes",                              \
      "most bytes to hold from the device; 0 refuses every device allocation")                    \
    X(max_split_bytes, uint64_t, PLEAT_UNLIMITED, 1, UINT64_MAX, "bytes",                         \
      "blocks of this size or more are never split and serve only requests of this size or more") \
    X(max_non_split_rounding_bytes, uint64_t, 0, 0, UINT64_MAX, "bytes",                          \
      "a request of max_split_bytes or more takes a block that is less than this much larger")    \
    X(large_segment_bytes, uint64_t, UINT64_C(20971520), UINT64_C(11534336), UINT64_C(1) << 44,   \
      "bytes", "segment size for requests above 1 MiB and below 10 MiB")                          \
    X(garbage_collection_threshold, double, 0.0, 0.0, 1.0, "fraction",                            \
      "above this fraction of the limit, free the segments that lay idle longest; 0: off")        \
    X(mode, pleat_mode_t, PLEAT_MODE_CLASSIC, PLEAT_MODE_CLASSIC, PLEAT_MODE_COUNT - 1, "mode",   \
      "classic: plain device allocations; torch_expandable: PyTorch's expandable segments; "      \
      "pleated: "                                                                                 \
      "memory that is joined and shared where it is needed")                                      \
    X(pleated_slack, double, 0.003, 0.0, 1.0, "fraction",                                         \
      "pleated: hold this much more than was ever in use at once before reusing memory by a "     \
      "second "                                                                                   \
      "mapping; 1: hold all that the device has")                                                 \
    X(pleated_handle_fraction, double, 0.004, 0.0, 1.0, "fraction",                               \
      "pleated: size of new handles as a share of the peak in use, in powers of two of the "      \
      "minimum")                                                                                  \
    X(pleated_handle_min_bytes, uint64_t, UINT64_C(16777216), UINT64_C(2097152),                  \
      UINT64_C(1) << 40, "bytes",                                                                 \
      "pleated: smallest handle that growth makes, unless less is needed")                        \
    X(pleated_handle_max_bytes, uint64_t, UINT64_C(67108864), UINT64_C(2097152),                  \
      UINT64_C(1) << 40, "bytes",                                                                 \
      "pleated: largest handle that growth makes for requests of moderate size")                  \
    X(pleated_view_mappings, uint64_t, 100000, 0, UINT64_C(1) << 32, "mappings",                  \
      "pleated: most mappings in views; the views used longest ago are given up beyond it")       \
    X(pleated_idle_ms, uint64_t, 0, 0, UINT64_C(1) << 40, "ms",                                   \
      "pleated: give memory back that lay idle for this long; 0: never")                          \
    X(pleated_growth_factor, double, 1.0, 1.0, 1000000.0, "factor",                               \
      "pleated: when memory must be had, hold this many times what is held then, as far as the "  \
      "limit and the device allow; 1: what is needed")                                            \
    X(release_lock_on_alloc, uint64_t, 0, 0, 1, "flag",                                           \
      "classic: 1: other threads may use the allocator while the device makes a segment, if the " \
      "device can; 0: they wait")                                                                 \
    X(reuse_in_capture, uint64_t, 0, 0, 1, "flag",                                                \
      "1: memory that other streams used is used again inside a capture, where the graph orders " \
      "that; 0: after the capture")

typedef struct pleat_options {
    size_t size;                                              /* set by PLEAT_OPTIONS_INIT */
    uint64_t roundup_power2_divisions[PLEAT_ROUNDUP_ENTRIES]; /* 0, 1: off; else a power of two */
#define PLEAT_OPTION_FIELD(name, type, initial, smallest, largest, unit, help) type name;
    PLEAT_OPTION_LIST(PLEAT_OPTION_FIELD)
#undef PLEAT_OPTION_FIELD
} pleat_options_t;

#define PLEAT_OPTION_DEFAULT(name, type, initial, smallest, largest, unit, help) (initial),
#define PLEAT_OPTIONS_INIT                                                    \
    {                                                                         \
        sizeof(pleat_options_t), {0}, PLEAT_OPTION_LIST(PLEAT_OPTION_DEFAULT) \
    }

/**
 * Name of a mode, "unknown" for a value outside the list.
 * @par Threads any.   @par Cost constant; the string is static.
 */
PLEAT_API const char *pleat_mode_name(pleat_mode_t mode);

#ifdef __cplusplus
}
#endif
#endif
