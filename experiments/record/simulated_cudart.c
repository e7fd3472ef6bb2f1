/*
 * simulated_cudart: a stand-in for libcudart.so.13 that has one GPU without any computing: memory
 * and address ranges are only counted, streams are idle or busy, and a kernel keeps its stream busy
 * until something waits for it. With it PyTorch's own allocator runs on any machine, and
 * record_session.py records sessions without a GPU; with_simulated_gpu builds and uses it.
 *
 * Device memory comes in pieces of 2 MiB at addresses that SIMULATED_SEED decides; SIMULATED_FREE
 * is how many bytes are left of the device's. A device free waits for all streams, as the real one
 * does. Functions that are not here do nothing and succeed (with_simulated_gpu adds them).
 * Limits: one device; what a session needs, no more. One lock guards everything.
 */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define UNIT_BYTES (UINT64_C(2) << 20)
#define TOTAL_BYTES UINT64_C(150109880320)
#define MEMORY_BEGIN UINT64_C(0x7f0000000000)
#define RANGES_BEGIN UINT64_C(0x302000000)
#define SCATTER_UNITS 4096u
#define SPANS_MAX 65536u
#define STREAMS_MAX 4096u

typedef struct sim_span {
    uint64_t begin;
    uint64_t bytes;
} sim_span_t;

typedef struct sim_spans {
    sim_span_t spans[SPANS_MAX];
    size_t count;
} sim_spans_t;

typedef struct sim_stream {
    void *handle;
    bool is_busy;
    uint64_t waits; /* how often its work ended */
} sim_stream_t;

typedef struct sim_event {
    sim_stream_t *stream;
    uint64_t waits; /* of the stream when it was recorded */
    bool is_pending;
} sim_event_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool is_begun;
static uint64_t free_bytes;
static uint64_t random_state;
static sim_spans_t memory;
static sim_spans_t ranges;
static uint64_t chunks[SPANS_MAX]; /* bytes by handle, 0: not used; handle 0 is none */
static sim_stream_t streams[STREAMS_MAX];
static size_t stream_count;
static uintptr_t last_stream = 0x55550000;

static struct {
    dim3 grid;
    dim3 block;
    size_t shared_bytes;
    void *stream;
} configuration; /* of the next launch */

static uint64_t sim_number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 0) : otherwise;
}

static void sim_enter(void)
{
    (void)pthread_mutex_lock(&lock);
    if (!is_begun) {
        is_begun = true;
        free_bytes = sim_number("SIMULATED_FREE", TOTAL_BYTES);
        random_state = sim_number("SIMULATED_SEED", 1) * UINT64_C(0x9e3779b97f4a7c15) + 1;
    }
}

static int sim_leave(int result)
{
    (void)pthread_mutex_unlock(&lock);
    return result;
}

/* Marsaglia's xorshift64. */
static uint64_t sim_random(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

/* ---- addresses ---- */

/* The first gap at or behind @p begin; false: too many spans. */
static bool sim_place(sim_spans_t *spans, uint64_t begin, uint64_t bytes, uint64_t *address_out)
{
    bool is_free = false;
    while (!is_free) {
        is_free = true;
        for (size_t i = 0; i < spans->count; i++) {
            const sim_span_t *span = &spans->spans[i];
            if (span->begin < begin + bytes && begin < span->begin + span->bytes) {
                begin = span->begin + span->bytes;
                is_free = false;
            }
        }
    }
    if (spans->count == SPANS_MAX) {
        return false;
    }
    spans->spans[spans->count++] = (sim_span_t){.begin = begin, .bytes = bytes};
    *address_out = begin;
    return true;
}

/* Bytes of the span that begins at an address, which goes; 0: there is none. */
static uint64_t sim_unplace(sim_spans_t *spans, uint64_t begin)
{
    for (size_t i = 0; i < spans->count; i++) {
        if (spans->spans[i].begin == begin) {
            const uint64_t bytes = spans->spans[i].bytes;
            spans->spans[i] = spans->spans[--spans->count];
            return bytes;
        }
    }
    return 0;
}

/* ---- streams ---- */

static sim_stream_t *sim_stream(void *handle)
{
    for (size_t i = 0; i < stream_count; i++) {
        if (streams[i].handle == handle) {
            return &streams[i];
        }
    }
    if (stream_count == STREAMS_MAX) {
        abort(); /* no session has so many */
    }
    streams[stream_count] = (sim_stream_t){.handle = handle};
    return &streams[stream_count++];
}

static void sim_end_work(sim_stream_t *stream)
{
    if (stream->is_busy) {
        stream->is_busy = false;
        stream->waits++;
    }
}

static void sim_end_all_work(void)
{
    for (size_t i = 0; i < stream_count; i++) {
        sim_end_work(&streams[i]);
    }
}

static bool sim_event_is_done(sim_event_t *event)
{
    if (event->is_pending && event->stream->waits != event->waits) {
        event->is_pending = false;
    }
    return !event->is_pending;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority)
{
    (void)flags;
    (void)priority;
    sim_enter();
    last_stream += 0x100;
    *stream = (cudaStream_t)last_stream;
    return sim_leave(cudaSuccess);
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    sim_enter();
    return sim_leave(sim_stream(stream)->is_busy ? cudaErrorNotReady : cudaSuccess);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    sim_enter();
    sim_end_work(sim_stream(stream));
    return sim_leave(cudaSuccess);
}

cudaError_t cudaDeviceSynchronize(void)
{
    sim_enter();
    sim_end_all_work();
    return sim_leave(cudaSuccess);
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
    (void)stream;
    *status = cudaStreamCaptureStatusNone;
    return cudaSuccess;
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                     unsigned long long *id, cudaGraph_t *graph,
                                     const cudaGraphNode_t **nodes, const cudaGraphEdgeData **edges,
                                     size_t *count)
{
    (void)stream;
    (void)graph;
    (void)nodes;
    (void)edges;
    (void)count;
    *status = cudaStreamCaptureStatusNone;
    if (id != NULL) {
        *id = 0;
    }
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    (void)flags;
    *event = calloc(1, sizeof(sim_event_t));
    return *event != NULL ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    free(event);
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream)
{
    sim_event_t *event = (sim_event_t *)handle;
    sim_enter();
    event->stream = sim_stream(stream);
    event->waits = event->stream->waits;
    event->is_pending = event->stream->is_busy;
    return sim_leave(cudaSuccess);
}

cudaError_t cudaEventQuery(cudaEvent_t handle)
{
    sim_enter();
    return sim_leave(sim_event_is_done((sim_event_t *)handle) ? cudaSuccess : cudaErrorNotReady);
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle)
{
    sim_event_t *event = (sim_event_t *)handle;
    sim_enter();
    if (!sim_event_is_done(event)) {
        sim_end_work(event->stream);
        event->is_pending = false;
    }
    return sim_leave(cudaSuccess);
}

/* ---- kernels ---- */

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes,
                                     struct CUstream_st *stream)
{
    configuration.grid = grid;
    configuration.block = block;
    configuration.shared_bytes = shared_bytes;
    configuration.stream = stream;
    return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared_bytes, void *stream)
{
    *grid = configuration.grid;
    *block = configuration.block;
    *shared_bytes = configuration.shared_bytes;
    memcpy(stream, &configuration.stream, sizeof(configuration.stream));
    return cudaSuccess;
}

cudaError_t cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **arguments,
                             size_t shared_bytes, cudaStream_t stream)
{
    (void)kernel;
    (void)grid;
    (void)block;
    (void)arguments;
    (void)shared_bytes;
    sim_enter();
    sim_stream(stream)->is_busy = true;
    return sim_leave(cudaSuccess);
}

cudaError_t __cudaLaunchKernel(void *kernel, dim3 grid, dim3 block, void **arguments,
                               size_t shared_bytes, cudaStream_t stream)
{
    return cudaLaunchKernel(kernel, grid, block, arguments, shared_bytes, stream);
}

/* ---- memory ---- */

cudaError_t cudaMalloc(void **ptr, size_t bytes)
{
    uint64_t address = 0;
    sim_enter();
    const uint64_t taken_bytes = (bytes + UNIT_BYTES - 1) / UNIT_BYTES * UNIT_BYTES;
    const uint64_t begin = MEMORY_BEGIN + sim_random() % SCATTER_UNITS * UNIT_BYTES;
    if (taken_bytes > free_bytes || !sim_place(&memory, begin, taken_bytes, &address)) {
        return sim_leave(cudaErrorMemoryAllocation);
    }
    free_bytes -= taken_bytes;
    *ptr = (void *)address; // NOLINT(performance-no-int-to-ptr): an address of no memory
    return sim_leave(cudaSuccess);
}

cudaError_t cudaFree(void *ptr)
{
    if (ptr == NULL) {
        return cudaSuccess;
    }
    sim_enter();
    const uint64_t bytes = sim_unplace(&memory, (uintptr_t)ptr);
    free_bytes += bytes;
    sim_end_all_work();
    return sim_leave(bytes > 0 ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaMemGetInfo(size_t *free_out, size_t *total)
{
    sim_enter();
    *free_out = free_bytes;
    *total = TOTAL_BYTES;
    return sim_leave(cudaSuccess);
}

static CUresult sim_address_reserve(CUdeviceptr *ptr, size_t bytes, size_t alignment,
                                    CUdeviceptr hint, unsigned long long flags)
{
    uint64_t address = 0;
    (void)alignment;
    (void)hint;
    (void)flags;
    sim_enter();
    const bool is_placed = sim_place(&ranges, RANGES_BEGIN, bytes, &address);
    *ptr = address;
    return (CUresult)sim_leave(is_placed ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

static CUresult sim_address_free(CUdeviceptr ptr, size_t bytes)
{
    sim_enter();
    const bool is_found = sim_unplace(&ranges, ptr) == bytes;
    return (CUresult)sim_leave(is_found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

static CUresult sim_chunk_create(CUmemGenericAllocationHandle *handle, size_t bytes,
                                 const CUmemAllocationProp *properties, unsigned long long flags)
{
    (void)flags;
    if ((properties->requestedHandleTypes & CU_MEM_HANDLE_TYPE_FABRIC) != 0) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    sim_enter();
    size_t index = 1;
    while (index < SPANS_MAX && chunks[index] != 0) {
        index++;
    }
    if (bytes > free_bytes || index == SPANS_MAX) {
        return (CUresult)sim_leave(CUDA_ERROR_OUT_OF_MEMORY);
    }
    free_bytes -= bytes;
    chunks[index] = bytes;
    *handle = index;
    return (CUresult)sim_leave(CUDA_SUCCESS);
}

static CUresult sim_chunk_release(CUmemGenericAllocationHandle handle)
{
    sim_enter();
    free_bytes += chunks[handle];
    chunks[handle] = 0;
    return (CUresult)sim_leave(CUDA_SUCCESS);
}

static CUresult sim_granularity(size_t *bytes, const CUmemAllocationProp *properties, int option)
{
    (void)properties;
    (void)option;
    *bytes = UNIT_BYTES;
    return CUDA_SUCCESS;
}

static CUresult sim_error_text(CUresult error, const char **text)
{
    (void)error;
    *text = "error of the simulated driver";
    return CUDA_SUCCESS;
}

static CUresult sim_device(CUdevice *device, int ordinal)
{
    (void)ordinal;
    *device = 0;
    return CUDA_SUCCESS;
}

static CUresult sim_attribute(int *value, int attribute, CUdevice device)
{
    (void)attribute;
    (void)device;
    *value = 0;
    return CUDA_SUCCESS;
}

/* Mapping, access and whatever else PyTorch looks up. */
static CUresult sim_succeed(void)
{
    return CUDA_SUCCESS;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version,
                                             unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *result)
{
    static const struct {
        const char *name;
        void *function;
    } table[] = {{"cuMemAddressReserve", (void *)sim_address_reserve},
                 {"cuMemAddressFree", (void *)sim_address_free},
                 {"cuMemCreate", (void *)sim_chunk_create},
                 {"cuMemRelease", (void *)sim_chunk_release},
                 {"cuMemGetAllocationGranularity", (void *)sim_granularity},
                 {"cuGetErrorString", (void *)sim_error_text},
                 {"cuDeviceGet", (void *)sim_device},
                 {"cuDeviceGetAttribute", (void *)sim_attribute}};
    (void)version;
    (void)flags;
    *function = (void *)sim_succeed;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (strcmp(table[i].name, name) == 0) {
            *function = table[i].function;
        }
    }
    if (result != NULL) {
        *result = cudaDriverEntryPointSuccess;
    }
    return cudaSuccess;
}

/* ---- the device ---- */

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = 1;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device)
{
    *device = 0;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = 13000;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
    static const char name[] = "simulated driver";
    (void)device;
    memset(properties, 0, sizeof(*properties));
    memcpy(properties->name, name, sizeof(name));
    properties->totalGlobalMem = TOTAL_BYTES;
    properties->major = 9;
    properties->multiProcessorCount = 1;
    properties->warpSize = 32;
    properties->maxThreadsPerBlock = 1024;
    properties->maxThreadsPerMultiProcessor = 2048;
    return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t error)
{
    return error == cudaErrorMemoryAllocation ? "out of memory" : "error of the simulated driver";
}

const char *cudaGetErrorName(cudaError_t error)
{
    (void)error;
    return "cudaError";
}
