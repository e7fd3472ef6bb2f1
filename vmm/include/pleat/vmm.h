/*
 * vmm: the device as the caching engine sees it: memory, streams and events behind one table of
 * operations. `sim` (pleat/sim.h), `scripted` and the CUDA driver each fill such a table.
 *
 * All calls go through the pleat_vmm_* functions: they check arguments, count calls and failures
 * by kind, add up the device clock's time that each took, and forward. Nothing else calls a table.
 */
#ifndef PLEAT_VMM_H
#define PLEAT_VMM_H

#include <pleat/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pleat_vmm pleat_vmm_t;

/* X(name, text, is_memory): the kinds of call that are counted, charged and can be made to fail.
 * is_memory marks what counts as a driver call in reports: memory comes or goes or is mapped. */
#define PLEAT_VMM_CALL_LIST(X)                         \
    X(MEM_ALLOC, "mem_alloc", true)                    \
    X(MEM_FREE, "mem_free", true)                      \
    X(MEM_INFO, "mem_info", false)                     \
    X(EVENT_CREATE, "event_create", false)             \
    X(EVENT_DESTROY, "event_destroy", false)           \
    X(EVENT_RECORD, "event_record", false)             \
    X(EVENT_QUERY, "event_query", false)               \
    X(EVENT_SYNCHRONIZE, "event_synchronize", false)   \
    X(STREAM_WAIT_EVENT, "stream_wait_event", false)   \
    X(STREAM_SYNCHRONIZE, "stream_synchronize", false) \
    X(ADDRESS_RESERVE, "address_reserve", true)        \
    X(ADDRESS_FREE, "address_free", true)              \
    X(CHUNK_CREATE, "chunk_create", true)              \
    X(CHUNK_RELEASE, "chunk_release", true)            \
    X(MAP, "map", true)                                \
    X(UNMAP, "unmap", true)                            \
    X(SET_ACCESS, "set_access", true)                  \
    X(CHUNK_EXPORT, "chunk_export", false)             \
    X(CHUNK_IMPORT, "chunk_import", true)              \
    X(IPC_EXPORT, "ipc_export", false)                 \
    X(IPC_OPEN, "ipc_open", true)                      \
    X(IPC_CLOSE, "ipc_close", true)                    \
    X(PEER_ADD, "peer_add", false)                     \
    X(PEER_REMOVE, "peer_remove", false)

typedef enum pleat_vmm_call {
#define PLEAT_VMM_CALL_ENUM(name, text, is_memory) PLEAT_VMM_CALL_##name,
    PLEAT_VMM_CALL_LIST(PLEAT_VMM_CALL_ENUM)
#undef PLEAT_VMM_CALL_ENUM
        PLEAT_VMM_CALL_COUNT
} pleat_vmm_call_t;

#define PLEAT_IPC_HANDLE_BYTES 64

/* Names a plain allocation to other processes: a CUipcMemHandle or cudaIpcMemHandle_t on a GPU. */
typedef struct pleat_ipc_handle {
    unsigned char bytes[PLEAT_IPC_HANDLE_BYTES];
} pleat_ipc_handle_t;

/* A node of a graph that is being captured, never 0; a CUgraphNode on a GPU. */
typedef uint64_t pleat_node_t;

/*
 * Operations of a device. `self` is what pleat_vmm_create got. Every function returns PLEAT_OK or
 * an error and then changes nothing:
 *   mem_alloc     ERR_OOM_DEVICE when the device has not so many bytes; address 2 MiB aligned for
 *                 bytes >= 2 MiB, at least 512-byte aligned otherwise
 *   mem_free      waits until all work on the device is complete; ERR_INVALID_POINTER if unknown
 *   event_query   OK when the recorded work is complete, ERR_NOT_READY when not; an event that was
 *                 never recorded is complete
 *   clock_ns      the device's clock: logical in sim, monotonic host time on a GPU
 *   wait_count    how often a call made the host wait for the device so far: every mem_free, which
 *                 synchronises whether or not there is work, and waits for unfinished work
 * The group ext_granularity ... ext_set_access is virtual memory: address ranges, chunks of
 * physical memory, mappings. Rules of the CUDA driver, which every backend keeps:
 *   - sizes and addresses are multiples of the granularity; a chunk is mapped and unmapped whole
 *   - a chunk may be mapped at several addresses at once; all show the same memory
 *   - one unmap may cover several neighbouring mappings, but none in part
 *   - a mapping cannot be touched before set_access covered it
 *   - a released chunk keeps its memory until its last mapping is gone
 *   - a range is freed whole, and only without mappings
 *   - no call waits for the device: whoever unmaps must know that no work uses the address any more
 * chunk_create gives ERR_OOM_DEVICE when the device is full, address_reserve when addresses are,
 * map when the budget of mappings is used up.
 * The group ext_chunk_export, ext_chunk_import hands chunks to other processes as descriptors:
 *   chunk_export  a new descriptor, which the caller closes; ERR_UNSUPPORTED if the chunk was not
 *                 made for it
 *   chunk_import  a chunk over the same memory, with a reference of its own: the memory lives until
 *                 every process let go of it. The descriptor stays the caller's
 * The group ext_ipc_* does the same for memory from mem_alloc:
 *   ipc_export    the handle of the allocation that holds the address, from its beginning on
 *   ipc_open      where that memory begins in this process; opening it again gives the same address
 *   ipc_close     undoes one ipc_open
 * The group ext_peer_* lets other devices of the host, by the driver's numbers, use mappings:
 *   peer_add      from now on set_access grants that device too; ERR_UNSUPPORTED if it cannot reach
 *                 this one's memory. The own device, or one that was added, changes nothing
 *   peer_remove   no longer; what was granted stays
 * mem_alloc_apart is mem_alloc for several threads: it, and clock_ns with it, may be called while
 * other calls of the device are on their way, others of its own too. A device without it is called
 * by one thread at a time, and nobody else gets to use an allocator while its device allocates.
 * The group ext_capture_* tells of graphs that are being captured, any error: it is not known:
 *   capture_last  the nodes behind which the next work of a stream is captured, and the capture by
 *                 a number that no other has; 0 and no nodes: the stream does not capture
 *   capture_dependencies  the nodes that a node of a capture waits for until they are complete
 * Both store how many nodes there are, and as many of them as fit.
 * Optional operations are named ext_* and may be NULL; a group is all set or all NULL. New
 * operations are appended and covered by `size`.
 */
typedef struct pleat_vmm_ops {
    size_t size;
    uint32_t version; /* PLEAT_VMM_OPS_VERSION */
    const char *name;
    void (*destroy)(void *self);
    uint64_t (*clock_ns)(void *self);
    uint64_t (*wait_count)(void *self);
    pleat_status_t (*mem_info)(void *self, uint64_t *free_bytes_out, uint64_t *total_bytes_out);
    pleat_status_t (*mem_alloc)(void *self, uint64_t bytes, pleat_devptr_t *ptr_out);
    pleat_status_t (*mem_free)(void *self, pleat_devptr_t ptr);
    pleat_status_t (*event_create)(void *self, pleat_event_t *event_out);
    pleat_status_t (*event_destroy)(void *self, pleat_event_t event);
    pleat_status_t (*event_record)(void *self, pleat_event_t event, pleat_stream_t stream);
    pleat_status_t (*event_query)(void *self, pleat_event_t event);
    pleat_status_t (*event_synchronize)(void *self, pleat_event_t event);
    pleat_status_t (*stream_wait_event)(void *self, pleat_stream_t stream, pleat_event_t event);
    pleat_status_t (*stream_synchronize)(void *self, pleat_stream_t stream);
    pleat_status_t (*ext_granularity)(void *self, uint64_t *bytes_out);
    pleat_status_t (*ext_address_reserve)(void *self, uint64_t bytes, pleat_devptr_t *ptr_out);
    pleat_status_t (*ext_address_free)(void *self, pleat_devptr_t ptr, uint64_t bytes);
    pleat_status_t (*ext_chunk_create)(void *self, uint64_t bytes, pleat_chunk_t *chunk_out);
    pleat_status_t (*ext_chunk_release)(void *self, pleat_chunk_t chunk);
    pleat_status_t (*ext_map)(void *self, pleat_devptr_t ptr, uint64_t bytes, pleat_chunk_t chunk);
    pleat_status_t (*ext_unmap)(void *self, pleat_devptr_t ptr, uint64_t bytes);
    pleat_status_t (*ext_set_access)(void *self, pleat_devptr_t ptr, uint64_t bytes);
    pleat_status_t (*ext_chunk_export)(void *self, pleat_chunk_t chunk, int *file_out);
    pleat_status_t (*ext_chunk_import)(void *self, int file, pleat_chunk_t *chunk_out);
    pleat_status_t (*ext_ipc_export)(void *self, pleat_devptr_t ptr,
                                     pleat_ipc_handle_t *handle_out);
    pleat_status_t (*ext_ipc_open)(void *self, const pleat_ipc_handle_t *handle,
                                   pleat_devptr_t *ptr_out);
    pleat_status_t (*ext_ipc_close)(void *self, pleat_devptr_t ptr);
    pleat_status_t (*ext_peer_add)(void *self, int device);
    pleat_status_t (*ext_peer_remove)(void *self, int device);
    pleat_status_t (*ext_mem_alloc_apart)(void *self, uint64_t bytes, pleat_devptr_t *ptr_out);
    pleat_status_t (*ext_capture_last)(void *self, pleat_stream_t stream, size_t capacity,
                                       pleat_node_t *nodes_out, size_t *count_out,
                                       uint64_t *capture_out);
    pleat_status_t (*ext_capture_dependencies)(void *self, pleat_node_t node, size_t capacity,
                                               pleat_node_t *nodes_out, size_t *count_out);
} pleat_vmm_ops_t;

#define PLEAT_VMM_OPS_VERSION 1u
/* The first fields of a table; the operations follow in the same braces. */
#define PLEAT_VMM_OPS_INIT(table_name) sizeof(pleat_vmm_ops_t), PLEAT_VMM_OPS_VERSION, (table_name)

/* Counters by kind of call, indexed by pleat_vmm_call_t. */
typedef struct pleat_vmm_counters {
    size_t size;
    uint64_t calls[PLEAT_VMM_CALL_COUNT];    /* made, failed ones included */
    uint64_t failures[PLEAT_VMM_CALL_COUNT]; /* failed; NOT_READY from event_query is no failure */
    uint64_t time_ns[PLEAT_VMM_CALL_COUNT];  /* by the device's clock */
    uint64_t waits;                          /* times the host waited for device work */
} pleat_vmm_counters_t;
#define PLEAT_VMM_COUNTERS_INIT                        \
    {                                                  \
        sizeof(pleat_vmm_counters_t), {0}, {0}, {0}, 0 \
    }

/**
 * Make a device from a table of operations. The device owns @p self from success on and gives it
 * to ops->destroy; on failure the caller keeps it.
 *
 * @param ops  copied; @p self is passed to every operation.
 * @retval PLEAT_ERR_INVALID   size, version or a required operation is missing; it is named.
 * @retval PLEAT_ERR_OOM_HOST  no host memory.
 * @par Threads any.   @par Cost one host allocation.
 */
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_vmm_create(const pleat_vmm_ops_t *ops, void *self,
                                                          pleat_vmm_t **vmm_out);

/**
 * Destroy a device; NULL is ignored. Every allocator on it must be destroyed before.
 * @par Threads none may use the device any more.   @par Cost that of the backend's destroy.
 */
PLEAT_API void pleat_vmm_destroy(pleat_vmm_t *vmm);

/** The `self` that the device was made with. @par Threads any.   @par Cost constant. */
PLEAT_API void *pleat_vmm_self(const pleat_vmm_t *vmm);

/** The table's name, for messages. @par Threads any.   @par Cost constant. */
PLEAT_API const char *pleat_vmm_name(const pleat_vmm_t *vmm);

/** Nanoseconds of the device's clock. @par Threads any.   @par Cost that of the backend. */
PLEAT_API uint64_t pleat_vmm_clock_ns(pleat_vmm_t *vmm);

/** Text of a kind of call, "mem_alloc" and so on. @par Threads any.   @par Cost constant. */
PLEAT_API const char *pleat_vmm_call_name(pleat_vmm_call_t call);

/** Does this kind count as a driver call in reports? @par Threads any.   @par Cost constant. */
PLEAT_API bool pleat_vmm_call_is_memory(pleat_vmm_call_t call);

/**
 * Read the counters; @p counters_out->size must be set (PLEAT_VMM_COUNTERS_INIT).
 * @par Threads as the calls below.   @par Cost constant.
 */
PLEAT_API void pleat_vmm_read_counters(pleat_vmm_t *vmm, pleat_vmm_counters_t *counters_out);

/*
 * The calls themselves; see pleat_vmm_ops_t for what each does and how it fails. NULL devices and
 * outputs give PLEAT_ERR_INVALID, outputs are untouched on failure.
 * Threads: one at a time for a device; the allocator's lock sees to it. Cost: one driver call.
 */
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_vmm_mem_info(pleat_vmm_t *vmm,
                                                            uint64_t *free_bytes_out,
                                                            uint64_t *total_bytes_out);
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_vmm_mem_alloc(pleat_vmm_t *vmm, uint64_t bytes,
                                                             pleat_devptr_t *ptr_out);
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_vmm_mem_free(pleat_vmm_t *vmm, pleat_devptr_t ptr);
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_vmm_event_create(pleat_vmm_t *vmm,
                                                                pleat_event_t *event_out);
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_vmm_event_destroy(pleat_vmm_t *vmm,
                                                                 pleat_event_t event);
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_vmm_event_record(pleat_vmm_t *vmm,
                                                                pleat_event_t event,
                                                                pleat_stream_t stream);
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_vmm_event_query(pleat_vmm_t *vmm,
                                                               pleat_event_t event);
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_vmm_event_synchronize(pleat_vmm_t *vmm,
                                                                     pleat_event_t event);
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_vmm_stream_wait_event(pleat_vmm_t *vmm,
                                                                     pleat_stream_t stream,
                                                                     pleat_event_t event);
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_vmm_stream_synchronize(pleat_vmm_t *vmm,
                                                                      pleat_stream_t stream);

/** Has the device virtual memory, the group ext_*? @par Threads any.   @par Cost constant. */
PLEAT_API bool pleat_vmm_has_mapping(const pleat_vmm_t *vmm);

/*
 * Virtual memory; see pleat_vmm_ops_t. On a device without it each gives PLEAT_ERR_UNSUPPORTED.
 * Sizes and addresses that are no multiples of the granularity, ranges outside a reservation, and
 * mappings in part give PLEAT_ERR_INVALID with the values; a failed call changes nothing. That is
 * what a sim does. The driver of a GPU (580.159.04, H200) does not notice all of it: it maps a
 * chunk over the end of a reservation, unmaps parts of mappings and what is not mapped, and answers
 * PLEAT_ERR_UNSUPPORTED to a part of a chunk. Callers must not do so.
 * granularity is not counted and costs nothing.
 */
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_vmm_granularity(pleat_vmm_t *vmm,
                                                               uint64_t *bytes_out);
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_vmm_address_reserve(pleat_vmm_t *vmm, uint64_t bytes,
                                                                   pleat_devptr_t *ptr_out);
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_vmm_address_free(pleat_vmm_t *vmm,
                                                                pleat_devptr_t ptr, uint64_t bytes);
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_vmm_chunk_create(pleat_vmm_t *vmm, uint64_t bytes,
                                                                pleat_chunk_t *chunk_out);
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_vmm_chunk_release(pleat_vmm_t *vmm,
                                                                 pleat_chunk_t chunk);
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_vmm_map(pleat_vmm_t *vmm, pleat_devptr_t ptr,
                                                       uint64_t bytes, pleat_chunk_t chunk);
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_vmm_unmap(pleat_vmm_t *vmm, pleat_devptr_t ptr,
                                                         uint64_t bytes);
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_vmm_set_access(pleat_vmm_t *vmm, pleat_devptr_t ptr,
                                                              uint64_t bytes);

/*
 * Memory for other processes and devices; see pleat_vmm_ops_t. A device that lacks the group gives
 * PLEAT_ERR_UNSUPPORTED. What another process exported is not checked before the driver sees it: a
 * descriptor that is no chunk, or a handle whose memory is gone, gives PLEAT_ERR_INVALID.
 */
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_vmm_chunk_export(pleat_vmm_t *vmm,
                                                                pleat_chunk_t chunk, int *file_out);
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_vmm_chunk_import(pleat_vmm_t *vmm, int file,
                                                                pleat_chunk_t *chunk_out);
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_vmm_ipc_export(pleat_vmm_t *vmm, pleat_devptr_t ptr,
                                                              pleat_ipc_handle_t *handle_out);
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_vmm_ipc_open(pleat_vmm_t *vmm,
                                                            const pleat_ipc_handle_t *handle,
                                                            pleat_devptr_t *ptr_out);
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_vmm_ipc_close(pleat_vmm_t *vmm, pleat_devptr_t ptr);
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_vmm_peer_add(pleat_vmm_t *vmm, int device);
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_vmm_peer_remove(pleat_vmm_t *vmm, int device);

#ifdef __cplusplus
}
#endif
#endif
