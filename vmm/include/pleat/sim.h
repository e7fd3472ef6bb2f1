/*
 * sim: a simulated device, the embedded default. Memory has a capacity and addresses; streams hold
 * ordered work; events are pending until that work is complete; every call is charged from a cost
 * table to a logical clock. Faults are seeded: the n-th call of a kind fails. Nothing here reads a
 * real clock, a random source or the environment.
 *
 * Unbacked, memory has no contents and costs nothing. Backed, it is host memory at the very
 * addresses that the device hands out: plain allocations and accessible mappings can be read and
 * written, two mappings of a chunk show the same bytes, and touching anything else faults (below
 * the host's page size it cannot be told what a neighbour on the page is). What was freed reads as
 * zero when it is handed out again.
 *
 * Other processes: with exports_chunks a chunk is a memory file of its own, which another process
 * with a sim can import; backed, both see the same bytes. An imported chunk of another process
 * takes nothing of the capacity. Handles of plain memory can be opened in the process that made
 * them only, where they give the address itself. Devices 0, the sim itself, to PLEAT_SIM_DEVICES -
 * 1 can be peers.
 *
 * Work on a stream comes in two forms. pleat_sim_launch queues work of a known duration: it starts
 * when the stream's earlier work ends (or now) and is complete when the logical clock has passed
 * its end. pleat_sim_set_busy makes the stream unfinished until pleat_sim_set_done, or until the
 * host waits for it. Finishing a stream, by either, moves the clock to the end of its launched work
 * and finishes what it waits for on other streams.
 */
#ifndef PLEAT_SIM_H
#define PLEAT_SIM_H

#include <pleat/vmm.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PLEAT_SIM_DEFAULT_CAPACITY_BYTES UINT64_C(150109880320) /* an H200 */
#define PLEAT_SIM_MAX_CAPACITY_BYTES (UINT64_C(1) << 46)
#define PLEAT_SIM_DEVICES 64 /* that can be peers */

/* X(CALL, name): the kinds of call whose cost depends on the size: of the allocation, or of each
 * chunk that is created, mapped, made accessible, unmapped or released. */
#define PLEAT_COST_SIZED_LIST(X)    \
    X(MEM_ALLOC, mem_alloc)         \
    X(MEM_FREE, mem_free)           \
    X(CHUNK_CREATE, chunk_create)   \
    X(CHUNK_RELEASE, chunk_release) \
    X(MAP, map)                     \
    X(UNMAP, unmap)                 \
    X(SET_ACCESS, set_access)

/* One row of measured costs; costs between rows are linear in the size, outside they are those of
 * the first or last row. */
typedef struct pleat_cost_row {
    uint64_t bytes;
#define PLEAT_COST_FIELD(CALL, name) uint64_t name##_ns;
    PLEAT_COST_SIZED_LIST(PLEAT_COST_FIELD)
#undef PLEAT_COST_FIELD
} pleat_cost_row_t;

#define PLEAT_COST_ROWS_MAX 32

typedef struct pleat_cost_table {
    size_t size;
    uint32_t row_count;
    pleat_cost_row_t rows[PLEAT_COST_ROWS_MAX]; /* rising in bytes */
    uint64_t call_ns[PLEAT_VMM_CALL_COUNT];     /* fixed cost of kinds that the rows do not price */
} pleat_cost_table_t;

typedef struct pleat_sim_options {
    size_t size;
    uint64_t capacity_bytes;         /* 0: PLEAT_SIM_DEFAULT_CAPACITY_BYTES */
    const pleat_cost_table_t *costs; /* copied; NULL: the H200 table */
    uint64_t address_limit_bytes;    /* addresses to reserve in all; 0: 64 TiB */
    uint32_t mapping_limit;          /* budget of mappings; 0: 500,000 */
    bool is_backed;                  /* contents are real, at the very addresses */
    uint32_t exports_chunks;         /* 1: chunks can be handed to other processes; 0: not */
} pleat_sim_options_t;
#define PLEAT_SIM_OPTIONS_INIT                               \
    {                                                        \
        sizeof(pleat_sim_options_t), 0, NULL, 0, 0, false, 0 \
    }

/**
 * The built-in cost table, measured on one H200 with driver 580.159.04.
 * @par Threads any.   @par Cost constant; the table is static.
 */
PLEAT_API const pleat_cost_table_t *pleat_cost_table_h200(void);

/**
 * Create a simulated device.
 *
 * @param options       NULL for all defaults.
 * @param[out] vmm_out  destroyed by pleat_vmm_destroy; untouched on failure.
 * @retval PLEAT_ERR_INVALID   a cost table whose rows do not rise, or a capacity above
 *                             PLEAT_SIM_MAX_CAPACITY_BYTES.
 * @retval PLEAT_ERR_OOM_HOST  no host memory.
 * @par Threads any.   @par Cost a few host allocations.
 */
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_sim_create(const pleat_sim_options_t *options,
                                                          pleat_vmm_t **vmm_out);

/**
 * Queue work of @p duration_ns on @p stream, after what the stream already has.
 * @retval PLEAT_ERR_INVALID  the device is no sim.   @retval PLEAT_ERR_OOM_HOST no host memory.
 * @par Threads one at a time for a device.   @par Cost O(log streams).
 */
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_sim_launch(pleat_vmm_t *vmm, pleat_stream_t stream,
                                                          uint64_t duration_ns);

/**
 * From here work on @p stream stays unfinished, until pleat_sim_set_done for it, or a host wait.
 * Errors, threads, cost as pleat_sim_launch.
 */
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_sim_set_busy(pleat_vmm_t *vmm,
                                                            pleat_stream_t stream);

/** All work on @p stream is complete now. Errors, threads, cost as pleat_sim_launch. */
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_sim_set_done(pleat_vmm_t *vmm,
                                                            pleat_stream_t stream);

/** All work on all streams is complete now. Errors and threads as pleat_sim_launch. */
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_sim_set_all_done(pleat_vmm_t *vmm);

/**
 * Move the logical clock to at least @p clock_ns (never back): time in which the host did other
 * things. @retval PLEAT_ERR_INVALID the device is no sim.
 * @par Threads one at a time for a device.   @par Cost constant.
 */
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_sim_advance_to(pleat_vmm_t *vmm, uint64_t clock_ns);

/**
 * Let the @p nth call of kind @p call from now on (1: the next) fail with @p status, once. One
 * fault a kind can be pending; a new one replaces it; @p nth 0 removes it. Not charged for.
 * @retval PLEAT_ERR_INVALID  no sim, unknown kind, or @p status is PLEAT_OK.
 * @par Threads one at a time for a device.   @par Cost constant.
 */
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_sim_fail_call(pleat_vmm_t *vmm,
                                                             pleat_vmm_call_t call, uint64_t nth,
                                                             pleat_status_t status);

/* What the device holds; all zero after a clean end. */
typedef struct pleat_sim_usage {
    size_t size;
    uint64_t allocations;     /* live mem_alloc allocations */
    uint64_t allocated_bytes; /* their bytes */
    uint64_t events;          /* live events */
    uint64_t ranges;          /* address ranges */
    uint64_t chunks;          /* chunks that are held or mapped */
    uint64_t chunk_bytes;     /* their bytes */
    uint64_t mappings;
    uint64_t opened; /* plain memory that ipc_open gave and ipc_close did not take back */
} pleat_sim_usage_t;
#define PLEAT_SIM_USAGE_INIT                              \
    {                                                     \
        sizeof(pleat_sim_usage_t), 0, 0, 0, 0, 0, 0, 0, 0 \
    }

/**
 * Read what the device holds; @p usage_out->size must be set.
 * @retval PLEAT_ERR_INVALID  the device is no sim.
 * @par Threads one at a time for a device.   @par Cost constant.
 */
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_sim_read_usage(pleat_vmm_t *vmm,
                                                              pleat_sim_usage_t *usage_out);

#ifdef __cplusplus
}
#endif
#endif
