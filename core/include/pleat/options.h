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
      "above this fraction of the limit, free the segments that lay idle longest; 0: off")

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

#ifdef __cplusplus
}
#endif
#endif
