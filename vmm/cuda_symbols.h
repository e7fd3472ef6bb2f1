/*
 * cuda_symbols (internal): the entry points of the CUDA driver that Pleat calls, with declarations
 * of its own, so that neither a toolkit nor a GPU is needed to build. Names are the exported ones:
 * `_v2` where the driver's ABI changed once. Where a cuda.h is at hand, tests/abi checks every
 * declaration and constant here against it.
 *
 * No lock; no state.
 */
#ifndef PLEAT_CUDA_SYMBOLS_H
#define PLEAT_CUDA_SYMBOLS_H

#include <stddef.h>
#include <stdint.h>

typedef unsigned int pleat_cu_result_t; /* CUresult, an enum without negative values */
typedef int pleat_cu_device_t;
typedef unsigned long long pleat_cu_ptr_t;
typedef unsigned long long pleat_cu_handle_t; /* of physical memory */
typedef struct CUctx_st *pleat_cu_context_t;
typedef struct CUevent_st *pleat_cu_event_t;
typedef struct CUstream_st *pleat_cu_stream_t;
typedef struct CUgraph_st *pleat_cu_graph_t;
typedef struct CUgraphNode_st *pleat_cu_node_t;

typedef struct pleat_cu_location {
    unsigned int type;
    int id;
} pleat_cu_location_t;

typedef struct pleat_cu_properties {
    unsigned int type;
    unsigned int handle_types;
    pleat_cu_location_t location;
    void *windows_data;
    struct {
        unsigned char compression;
        unsigned char can_rdma;
        unsigned short usage;
        unsigned char reserved[4];
    } flags;
} pleat_cu_properties_t;

typedef struct pleat_cu_access {
    pleat_cu_location_t location;
    unsigned int flags;
} pleat_cu_access_t;

typedef struct pleat_cu_ipc_handle {
    char bytes[64];
} pleat_cu_ipc_handle_t;

/* The structs as they stand in declarations; the check against cuda.h names its own. */
#ifndef PLEAT_CU_PROPERTIES
#define PLEAT_CU_PROPERTIES pleat_cu_properties_t
#define PLEAT_CU_ACCESS pleat_cu_access_t
#define PLEAT_CU_IPC_HANDLE pleat_cu_ipc_handle_t
#endif

/* X(name, value, name in cuda.h) */
#define PLEAT_CU_CONSTANT_LIST(X)                                                       \
    X(OK, 0, CUDA_SUCCESS)                                                              \
    X(INVALID_VALUE, 1, CUDA_ERROR_INVALID_VALUE)                                       \
    X(OUT_OF_MEMORY, 2, CUDA_ERROR_OUT_OF_MEMORY)                                       \
    X(DEINITIALIZED, 4, CUDA_ERROR_DEINITIALIZED)                                       \
    X(NO_DEVICE, 100, CUDA_ERROR_NO_DEVICE)                                             \
    X(INVALID_DEVICE, 101, CUDA_ERROR_INVALID_DEVICE)                                   \
    X(INVALID_CONTEXT, 201, CUDA_ERROR_INVALID_CONTEXT)                                 \
    X(ALREADY_MAPPED, 208, CUDA_ERROR_ALREADY_MAPPED)                                   \
    X(NOT_MAPPED, 211, CUDA_ERROR_NOT_MAPPED)                                           \
    X(INVALID_HANDLE, 400, CUDA_ERROR_INVALID_HANDLE)                                   \
    X(NOT_READY, 600, CUDA_ERROR_NOT_READY)                                             \
    X(NOT_SUPPORTED, 801, CUDA_ERROR_NOT_SUPPORTED)                                     \
    X(EVENT_DISABLE_TIMING, 2, CU_EVENT_DISABLE_TIMING)                                 \
    X(STREAM_CAPTURE_UNSUPPORTED, 900, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)           \
    X(STREAM_CAPTURE_IMPLICIT, 906, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)                 \
    X(STREAM_NON_BLOCKING, 1, CU_STREAM_NON_BLOCKING)                                   \
    X(CAPTURE_NONE, 0, CU_STREAM_CAPTURE_STATUS_NONE)                                   \
    X(CAPTURE_ACTIVE, 1, CU_STREAM_CAPTURE_STATUS_ACTIVE)                               \
    X(CAPTURE_RELAXED, 2, CU_STREAM_CAPTURE_MODE_RELAXED)                               \
    X(ALLOCATION_PINNED, 1, CU_MEM_ALLOCATION_TYPE_PINNED)                              \
    X(LOCATION_DEVICE, 1, CU_MEM_LOCATION_TYPE_DEVICE)                                  \
    X(HANDLE_FILE, 1, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)                         \
    X(IPC_LAZY_PEER, 1, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)                             \
    X(ACCESS_READ_WRITE, 3, CU_MEM_ACCESS_FLAGS_PROT_READWRITE)                         \
    X(GRANULARITY_MINIMUM, 0, CU_MEM_ALLOC_GRANULARITY_MINIMUM)                         \
    X(HAS_VIRTUAL_MEMORY, 102, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) \
    X(HAS_HANDLE_FILE, 103, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED)

#define PLEAT_CU_CONSTANT(name, value, theirs) PLEAT_CU_##name = (value),
enum { PLEAT_CU_CONSTANT_LIST(PLEAT_CU_CONSTANT) };
#undef PLEAT_CU_CONSTANT

/* X(exported name, parameters): without one of these there is no backend. */
#define PLEAT_CU_REQUIRED_LIST(X)                                                                \
    X(cuInit, (unsigned int flags))                                                              \
    X(cuDeviceGetCount, (int *count_out))                                                        \
    X(cuDeviceGet, (pleat_cu_device_t * device_out, int index))                                  \
    X(cuDeviceGetName, (char *name_out, int length, pleat_cu_device_t device))                   \
    X(cuDeviceGetAttribute, (int *value_out, unsigned int attribute, pleat_cu_device_t device))  \
    X(cuDevicePrimaryCtxRetain, (pleat_cu_context_t * context_out, pleat_cu_device_t device))    \
    X(cuDevicePrimaryCtxRelease_v2, (pleat_cu_device_t device))                                  \
    X(cuCtxGetCurrent, (pleat_cu_context_t * context_out))                                       \
    X(cuCtxPushCurrent_v2, (pleat_cu_context_t context))                                         \
    X(cuCtxPopCurrent_v2, (pleat_cu_context_t * context_out))                                    \
    X(cuGetErrorName, (pleat_cu_result_t result, const char **text_out))                         \
    X(cuGetErrorString, (pleat_cu_result_t result, const char **text_out))                       \
    X(cuMemGetInfo_v2, (size_t * free_out, size_t * total_out))                                  \
    X(cuMemAlloc_v2, (pleat_cu_ptr_t * ptr_out, size_t bytes))                                   \
    X(cuMemFree_v2, (pleat_cu_ptr_t ptr))                                                        \
    X(cuEventCreate, (pleat_cu_event_t * event_out, unsigned int flags))                         \
    X(cuEventDestroy_v2, (pleat_cu_event_t event))                                               \
    X(cuEventRecord, (pleat_cu_event_t event, pleat_cu_stream_t stream))                         \
    X(cuEventQuery, (pleat_cu_event_t event))                                                    \
    X(cuEventSynchronize, (pleat_cu_event_t event))                                              \
    X(cuStreamWaitEvent, (pleat_cu_stream_t stream, pleat_cu_event_t event, unsigned int flags)) \
    X(cuStreamQuery, (pleat_cu_stream_t stream))                                                 \
    X(cuStreamSynchronize, (pleat_cu_stream_t stream))

/* Virtual memory: without one of these, or without the device's support, it has none. */
#define PLEAT_CU_MAPPING_LIST(X)                                                            \
    X(cuMemGetAllocationGranularity,                                                        \
      (size_t * bytes_out, const PLEAT_CU_PROPERTIES *properties, unsigned int which))      \
    X(cuMemAddressReserve, (pleat_cu_ptr_t * ptr_out, size_t bytes, size_t alignment,       \
                            pleat_cu_ptr_t wanted, unsigned long long flags))               \
    X(cuMemAddressFree, (pleat_cu_ptr_t ptr, size_t bytes))                                 \
    X(cuMemCreate, (pleat_cu_handle_t * handle_out, size_t bytes,                           \
                    const PLEAT_CU_PROPERTIES *properties, unsigned long long flags))       \
    X(cuMemRelease, (pleat_cu_handle_t handle))                                             \
    X(cuMemMap, (pleat_cu_ptr_t ptr, size_t bytes, size_t offset, pleat_cu_handle_t handle, \
                 unsigned long long flags))                                                 \
    X(cuMemUnmap, (pleat_cu_ptr_t ptr, size_t bytes))                                       \
    X(cuMemSetAccess,                                                                       \
      (pleat_cu_ptr_t ptr, size_t bytes, const PLEAT_CU_ACCESS *access, size_t count))

/* Capture of streams into graphs: without one of these nothing is known of it. */
#define PLEAT_CU_CAPTURE_LIST(X)                                                           \
    X(cuStreamGetCaptureInfo_v2,                                                           \
      (pleat_cu_stream_t stream, unsigned int *status_out, uint64_t *id_out,               \
       pleat_cu_graph_t *graph_out, const pleat_cu_node_t **nodes_out, size_t *count_out)) \
    X(cuThreadExchangeStreamCaptureMode, (unsigned int *mode))

/* The order inside a capture: without it that is not known. This version fails on edges that are
 * more than "after it is complete", as is wanted here. */
#define PLEAT_CU_GRAPH_LIST(X)    \
    X(cuGraphNodeGetDependencies, \
      (pleat_cu_node_t node, pleat_cu_node_t * nodes_out, size_t * count))

/* Chunks as descriptors: without one of these they stay in the process. */
#define PLEAT_CU_FILE_LIST(X)                                                                    \
    X(cuMemExportToShareableHandle,                                                              \
      (void *handle_out, pleat_cu_handle_t handle, unsigned int type, unsigned long long flags)) \
    X(cuMemImportFromShareableHandle,                                                            \
      (pleat_cu_handle_t * handle_out, void *os_handle, unsigned int type))

/* Plain memory for other processes: none without one of these. */
#define PLEAT_CU_IPC_LIST(X)                                                      \
    X(cuIpcGetMemHandle, (PLEAT_CU_IPC_HANDLE * handle_out, pleat_cu_ptr_t ptr))  \
    X(cuIpcOpenMemHandle_v2,                                                      \
      (pleat_cu_ptr_t * ptr_out, PLEAT_CU_IPC_HANDLE handle, unsigned int flags)) \
    X(cuIpcCloseMemHandle, (pleat_cu_ptr_t ptr))

/* Access of other devices: none without it. */
#define PLEAT_CU_PEER_LIST(X) \
    X(cuDeviceCanAccessPeer,  \
      (int *can_out, pleat_cu_device_t device, pleat_cu_device_t peer_device))

/* A pointer named like the entry point; NULL: not there. A declaration cannot take parentheses. */
/* NOLINTNEXTLINE(bugprone-macro-parentheses) */
#define PLEAT_CU_POINTER(name, parameters) pleat_cu_result_t(*name) parameters;

#endif
