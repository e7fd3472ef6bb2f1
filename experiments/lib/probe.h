/*
 * probe: measures what the calls of a GPU cost, by size of the chunk, on an idle device and beside
 * a running kernel, and who waits for whom. The medians make a cost table for the simulated device.
 *
 * It never looks for a ceiling: at most PLEAT_PROBE_MAPPINGS_MAX mappings are live at a time, and a
 * measurement that would take more than half of the free memory is left out.
 * Threads: that of the open GPU.
 */
#ifndef PLEAT_PROBE_H
#define PLEAT_PROBE_H

#include "gpu_work.h"

#include <pleat/sim.h>
#include <stdio.h>

#define PLEAT_PROBE_MAPPINGS_MAX 8192u
#define PLEAT_PROBE_ROWS 7u
#define PLEAT_PROBE_MANY 2u
#define PLEAT_PROBE_GROWTHS 4u
#define PLEAT_PROBE_REPS_MAX 1000u

/* Durations of one kind of call. */
typedef struct pleat_probe_times {
    uint32_t count; /* 0: not measured */
    double median_ns;
    double least_ns;
    double p95_ns;
    double most_ns;
} pleat_probe_times_t;

/* Calls on one chunk of a size; only kinds of PLEAT_COST_SIZED_LIST are filled. */
typedef struct pleat_probe_row {
    uint64_t bytes;
    pleat_probe_times_t idle[PLEAT_VMM_CALL_COUNT];
    pleat_probe_times_t busy[PLEAT_VMM_CALL_COUNT]; /* while a kernel runs; not MEM_FREE */
    bool has_kernel_run_on;                         /* through all of them */
} pleat_probe_row_t;

/* Many chunks at once: nanoseconds a chunk. */
typedef struct pleat_probe_many {
    uint64_t chunk_bytes;
    uint32_t count; /* 0: not measured */
    double create_ns;
    double map_ns;
    double access_ns; /* of one call over all */
    double unmap_ns;  /* of one call over all */
    double release_ns;
    double recycle_ns;      /* map and set_access of a chunk that was mapped before, one by one */
    double alias_map_ns;    /* a second mapping while the first is there */
    double alias_access_ns; /* the same, one by one */
    double unmap_one_ns;    /* one by one among all */
} pleat_probe_many_t;

/* One range of a size made of chunks of a size, and taken apart, beside the built-in table. */
typedef struct pleat_probe_growth {
    uint64_t bytes;
    uint64_t chunk_bytes;      /* 0: not measured */
    pleat_probe_times_t grow;  /* create, map, one set_access */
    pleat_probe_times_t evict; /* one unmap, release */
    double grow_predicted_ns;
    double evict_predicted_ns;
} pleat_probe_growth_t;

/* X(NAME, text): calls whose waiting is looked at. */
#define PLEAT_PROBE_WAIT_LIST(X)                  \
    X(MEM_INFO, "mem_info")                       \
    X(EVENT, "event create, record and query")    \
    X(ADDRESS_RESERVE, "address_reserve")         \
    X(CHUNK_CREATE, "chunk_create")               \
    X(MAP, "map")                                 \
    X(SET_ACCESS, "set_access")                   \
    X(ALIAS_MAP, "map of an alias")               \
    X(ALIAS_SET_ACCESS, "set_access of an alias") \
    X(ALIAS_UNMAP, "unmap of an alias")           \
    X(UNMAP, "unmap")                             \
    X(CHUNK_RELEASE, "chunk_release")             \
    X(ADDRESS_FREE, "address_free")               \
    X(MEM_ALLOC, "mem_alloc")                     \
    X(MEM_FREE, "mem_free")

typedef enum pleat_probe_wait {
#define PLEAT_PROBE_WAIT_ENUM(NAME, text) PLEAT_PROBE_WAIT_##NAME,
    PLEAT_PROBE_WAIT_LIST(PLEAT_PROBE_WAIT_ENUM)
#undef PLEAT_PROBE_WAIT_ENUM
        PLEAT_PROBE_WAIT_COUNT
} pleat_probe_wait_t;

typedef struct pleat_probe {
    char gpu[128];
    uint64_t granularity_bytes;
    uint32_t row_count;
    pleat_probe_row_t rows[PLEAT_PROBE_ROWS];
    pleat_probe_times_t calls[PLEAT_VMM_CALL_COUNT]; /* kinds that do not depend on the size */
    pleat_probe_many_t many[PLEAT_PROBE_MANY];
    pleat_probe_growth_t growths[PLEAT_PROBE_GROWTHS];
    uint64_t kernel_ns; /* how long the kernel would run beside the calls below */
    struct {
        double ns;
        bool is_kernel_running; /* after the call */
    } waits[PLEAT_PROBE_WAIT_COUNT];
} pleat_probe_t;

/**
 * Measure.
 * @param reps           repetitions of each call, 1 to PLEAT_PROBE_REPS_MAX.
 * @param[out] probe_out filled as far as memory allows; undefined on failure.
 * @retval PLEAT_ERR_UNSUPPORTED  the device has no virtual memory.
 * @retval PLEAT_ERR_INVALID      no such number of repetitions.
 * @return else the device's error.
 * @par Cost some seconds.
 */
PLEAT_NODISCARD pleat_status_t pleat_probe_run(pleat_vmm_t *vmm, const pleat_gpu_t *gpu,
                                               uint32_t reps, pleat_probe_t *probe_out);

/** The medians as a cost table; what was not measured is as in the built-in one. */
void pleat_probe_costs(const pleat_probe_t *probe, pleat_cost_table_t *costs_out);

/** Text of a row of the waits. */
const char *pleat_probe_wait_text(pleat_probe_wait_t wait);

/** Print all of it as tables for people. @retval PLEAT_ERR_IO the stream failed. */
PLEAT_NODISCARD pleat_status_t pleat_probe_print(const pleat_probe_t *probe, FILE *stream);

/** Write the cost table to a file, as `--costs FILE` of the program takes it, with where it comes
 * from as a comment. @retval PLEAT_ERR_IO it cannot be written; the message says why. */
PLEAT_NODISCARD pleat_status_t pleat_probe_write_costs(const pleat_probe_t *probe,
                                                       const char *file_name);

#endif
