/*
 * conf_keys: every key of an ALLOC_CONF text, one line each. The options of pleat_conf_t, their
 * defaults, both readings, the help and the tests come from this list (conf.h).
 *
 * A new key is a new last line: the position of an option is part of the ABI. A key of PyTorch has
 * the parser that knows it there; a key that only Pleat knows has the parser OWN, which the reading
 * as PyTorch refuses like any unknown key.
 */
#ifndef PLEAT_CONF_KEYS_H
#define PLEAT_CONF_KEYS_H

#include <pleat/base.h>

/* Unit of a number in the text and in memory. */
typedef enum pleat_conf_type {
    PLEAT_CONF_BOOL,      /* True or False; kept as 1 or 0 */
    PLEAT_CONF_BYTES,     /* whole number of MB (2^20 bytes); kept in bytes */
    PLEAT_CONF_MEGABYTES, /* whole number of MB; kept in MB */
    PLEAT_CONF_COUNT,     /* whole number */
    PLEAT_CONF_REAL,      /* decimal fraction */
    PLEAT_CONF_WORD,      /* one of `words`; kept as its position there */
    PLEAT_CONF_DIVISIONS  /* a number for all sizes or a list; kept in a table of its own */
} pleat_conf_type_t;

/* How `smallest` and `largest` are meant. */
typedef enum pleat_conf_bounds {
    PLEAT_CONF_ANY,
    PLEAT_CONF_FROM_TO,     /* both included */
    PLEAT_CONF_ABOVE,       /* smallest excluded */
    PLEAT_CONF_BETWEEN,     /* both excluded */
    PLEAT_CONF_SEGMENT,     /* from the large segment size on */
    PLEAT_CONF_POWER_OF_TWO /* powers of two, largest included */
} pleat_conf_bounds_t;

/* Which of PyTorch's two parsers knows a key. */
typedef enum pleat_conf_parser {
    PLEAT_CONF_GENERIC, /* options shared by all accelerators */
    PLEAT_CONF_CUDA,
    PLEAT_CONF_OWN
} pleat_conf_parser_t;

/* A whole number of MB above this does not fit 64 bits in bytes. */
#define PLEAT_CONF_MOST_MEGABYTES (UINT64_MAX >> 20)

/* X(name, key, second key, name of the value, parser, type, bounds, initial value as kept, smallest
 *   and largest as written, words separated by '|', in effect, help) */
#define PLEAT_CONF_KEY_LIST(X)                                                                     \
    X(LARGE_SEGMENT_SIZE, "large_segment_size_mb", "", "large_segment_size", GENERIC, BYTES,       \
      ABOVE, UINT64_C(20971520), 10, PLEAT_CONF_MOST_MEGABYTES, "", true,                          \
      "segment size for requests above 1 MiB and below 10 MiB")                                    \
    X(MAX_SPLIT_SIZE, "max_split_size_mb", "", "max_split_size", GENERIC, BYTES, SEGMENT,          \
      UINT64_MAX, 0, PLEAT_CONF_MOST_MEGABYTES, "", true,                                          \
      "blocks of this size or more are never split; -1: no such size")                             \
    X(MAX_NON_SPLIT_ROUNDING, "max_non_split_rounding_mb", "", "max_non_split_rounding", GENERIC,  \
      BYTES, SEGMENT, UINT64_C(20971520), 0, PLEAT_CONF_MOST_MEGABYTES, "", true,                  \
      "a block that is not split may be less than this larger than the request")                   \
    X(GARBAGE_COLLECTION_THRESHOLD, "garbage_collection_threshold", "",                            \
      "garbage_collection_threshold", GENERIC, REAL, BETWEEN, 0, 0, 1, "", true,                   \
      "above this fraction of the memory limit, idle segments are freed; 0: off")                  \
    X(ROUNDUP_POWER2_DIVISIONS, "roundup_power2_divisions", "", "roundup_power2_divisions",        \
      GENERIC, DIVISIONS, POWER_OF_TWO, 0, 1, UINT64_MAX, "", true,                                \
      "round sizes up to this many steps between two powers of two; 0, 1: off")                    \
    X(EXPANDABLE_SEGMENTS, "expandable_segments", "", "expandable_segments", GENERIC, BOOL, ANY,   \
      0, 0, 1, "", true, "segments that grow instead of many of fixed size")                       \
    X(PINNED_USE_BACKGROUND_THREADS, "pinned_use_background_threads", "",                          \
      "pinned_use_background_threads", GENERIC, BOOL, ANY, 0, 0, 1, "", false,                     \
      "host memory: look at events in a thread of its own")                                        \
    X(BACKEND, "backend", "", "backend", CUDA, WORD, ANY, 0, 0, 1, "native|cudaMallocAsync",       \
      false, "who serves, chosen once; for cudaMallocAsync too it is Pleat, all else at default")  \
    X(RELEASE_LOCK_ON_CUDAMALLOC, "release_lock_on_cudamalloc", "release_lock_on_hipmalloc",       \
      "release_lock_on_cudamalloc", CUDA, BOOL, ANY, 0, 0, 1, "", true,                            \
      "let other threads in while the device allocates")                                           \
    X(GRAPH_CAPTURE_RECORD_STREAM_REUSE, "graph_capture_record_stream_reuse", "",                  \
      "graph_capture_record_stream_reuse", CUDA, BOOL, ANY, 0, 0, 1, "", true,                     \
      "reuse memory of recorded streams while a graph is captured")                                \
    X(PER_PROCESS_MEMORY_FRACTION, "per_process_memory_fraction", "",                              \
      "per_process_memory_fraction", CUDA, REAL, FROM_TO, 1, 0, 1, "", true,                       \
      "memory limit as a fraction of the device; read when an allocator is made; 1: no limit")     \
    X(PINNED_USE_CUDA_HOST_REGISTER, "pinned_use_cuda_host_register",                              \
      "pinned_use_hip_host_register", "pinned_use_cuda_host_register", CUDA, BOOL, ANY, 0, 0, 1,   \
      "", false, "host memory: register pages instead of allocating them pinned")                  \
    X(PINNED_NUM_REGISTER_THREADS, "pinned_num_register_threads", "",                              \
      "pinned_num_register_threads", CUDA, COUNT, POWER_OF_TWO, 1, 1, 128, "", false,              \
      "host memory: threads that register pages")                                                  \
    X(PINNED_RESERVE_SEGMENT_SIZE, "pinned_reserve_segment_size_mb", "",                           \
      "pinned_reserve_segment_size_mb", CUDA, MEGABYTES, FROM_TO, 0, 1, PLEAT_CONF_MOST_MEGABYTES, \
      "", false, "host memory: reserve one segment of this size at the start; 0: off")             \
    X(EXPANDABLE_POLICY, "expandable_policy", "", "expandable_policy", OWN, WORD, ANY, 0, 0, 1,    \
      "pleated|torch", true,                                                                       \
      "what expandable_segments means: our own use of virtual memory, or PyTorch's")               \
    X(PLEATED_SLACK, "pleated_slack", "", "pleated_slack", OWN, REAL, FROM_TO, 0.003, 0, 1, "",    \
      true, "hold this fraction more than the peak in use before memory is mapped twice; 1: all")  \
    X(PLEATED_HANDLE_FRACTION, "pleated_handle_fraction", "", "pleated_handle_fraction", OWN,      \
      REAL, FROM_TO, 0.004, 0, 1, "", true, "size of new chunks as a fraction of the peak in use") \
    X(PLEATED_HANDLE_MIN, "pleated_handle_min_mb", "", "pleated_handle_min", OWN, BYTES, FROM_TO,  \
      UINT64_C(16777216), 2, 1048576, "", true, "smallest chunk, unless less is needed")           \
    X(PLEATED_HANDLE_MAX, "pleated_handle_max_mb", "", "pleated_handle_max", OWN, BYTES, FROM_TO,  \
      UINT64_C(67108864), 2, 1048576, "", true, "largest chunk for requests of moderate size")     \
    X(PLEATED_VIEW_MAPPINGS, "pleated_view_mappings", "", "pleated_view_mappings", OWN, COUNT,     \
      FROM_TO, 100000, 0, UINT64_C(1) << 32, "", true,                                             \
      "most second mappings; those used longest ago are given up beyond it")                       \
    X(PLEATED_IDLE_MS, "pleated_idle_ms", "", "pleated_idle_ms", OWN, COUNT, FROM_TO, 0, 0,        \
      UINT64_C(1) << 40, "", true, "give memory back that lay idle for so many ms; 0: never")      \
    X(GROWTH_FACTOR, "growth_factor", "", "growth_factor", OWN, REAL, FROM_TO, 1, 1, 1000000, "",  \
      true, "hold so many times what is held when memory must be had; 1: only what is needed")

#endif
