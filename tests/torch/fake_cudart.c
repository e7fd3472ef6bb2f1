/*
 * fake_cudart: the entry points of the CUDA runtime that PyTorch calls for memory, streams, events
 * and graphs, over the simulated driver (support/fake_cuda.c), so that PyTorch with pleat_torch
 * runs where there is no GPU. Preloaded before PyTorch's own runtime. Kernels do nothing when they
 * are launched, and graphs hold nothing.
 *
 * Built as libcuda.so.1 and linked with fake_cuda, so that whoever opens the driver by its name
 * finds this library, and the driver's entry points behind it. FAKE_CUDA_DEVICES says how many
 * devices there are (1), FAKE_CUDA_BYTES how much memory they have. What a stream captures is kept
 * here; a call that the driver refuses while a capture goes on is refused by fake_cuda.
 */
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void (*fake_set_fn_t)(const char *name, uint64_t value);

static void *driver;
static pthread_once_t driver_once = PTHREAD_ONCE_INIT;
static pthread_once_t context_once = PTHREAD_ONCE_INIT;
static int device_count = 1;
static void *primary_context;
static _Thread_local int current_device;
static _Thread_local cudaError_t last_error;
static _Thread_local int has_context;
static cudaStream_t captured; /* the stream that captures, if one does */
static unsigned long long capture_id;

static void *driver_function(const char *name)
{
    void *function = dlsym(driver, name);
    if (function == NULL) {
        (void)fprintf(stderr, "fake_cudart: the driver has no %s\n", name);
        abort();
    }
    return function;
}

#define CALL(type, name) ((type)(uintptr_t)driver_function(name))

static void open_driver(void)
{
    driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (driver == NULL) {
        (void)fprintf(stderr, "fake_cudart: %s\n", dlerror());
        abort();
    }
    const char *count = getenv("FAKE_CUDA_DEVICES");
    device_count = count != NULL ? atoi(count) : 1;
    CALL(fake_set_fn_t, "fake_cuda_set")("devices", (uint64_t)device_count);
    const char *bytes = getenv("FAKE_CUDA_BYTES");
    if (bytes != NULL) {
        CALL(fake_set_fn_t, "fake_cuda_set")("bytes", strtoull(bytes, NULL, 10));
    }
}

static void make_context(void)
{
    (void)CALL(int (*)(unsigned), "cuInit")(0);
    (void)CALL(int (*)(void **, int), "cuDevicePrimaryCtxRetain")(&primary_context, 0);
}

/* Every thread has the context current. */
static void enter(void)
{
    (void)pthread_once(&driver_once, open_driver);
    (void)pthread_once(&context_once, make_context);
    if (!has_context) {
        (void)CALL(int (*)(void *), "cuCtxPushCurrent_v2")(primary_context);
        has_context = 1;
    }
}

static cudaError_t finish(int code)
{
    if (code != 0 && code != cudaErrorNotReady) {
        last_error = (cudaError_t)code;
    }
    return (cudaError_t)code;
}

/* ---- errors, versions ---- */

cudaError_t cudaGetLastError(void)
{
    const cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}

cudaError_t cudaPeekAtLastError(void)
{
    return last_error;
}

const char *cudaGetErrorString(cudaError_t error)
{
    return error == cudaErrorMemoryAllocation ? "out of memory" : "an error of the fake";
}

const char *cudaGetErrorName(cudaError_t error)
{
    return error == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation" : "cudaErrorOfTheFake";
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

/* Of the driver; PyTorch looks it up beside the rest. */
int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active);

int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active)
{
    (void)device;
    *flags = 0;
    *active = primary_context != NULL;
    return 0;
}

/* PyTorch looks up all that it might ever call. */
static int refuse_call(void)
{
    return cudaErrorNotSupported;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version,
                                             unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *result)
{
    (void)version;
    (void)flags;
    (void)pthread_once(&driver_once, open_driver);
    char versioned[100];
    (void)snprintf(versioned, sizeof versioned, "%s_v2", name);
    *function = dlsym(driver, versioned);
    if (*function == NULL) {
        *function = dlsym(driver, name);
    }
    if (*function == NULL) {
        *function = (void *)(uintptr_t)refuse_call;
    }
    if (result != NULL) {
        *result = cudaDriverEntryPointSuccess;
    }
    return cudaSuccess;
}

/* ---- devices ---- */

cudaError_t cudaGetDeviceCount(int *count)
{
    (void)pthread_once(&driver_once, open_driver);
    *count = device_count;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device)
{
    *device = current_device;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    current_device = device;
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    enter();
    return finish(CALL(int (*)(size_t *, size_t *), "cuMemGetInfo_v2")(free_bytes, total_bytes));
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
    (void)device;
    size_t free_bytes = 0;
    memset(properties, 0, sizeof *properties);
    (void)snprintf(properties->name, sizeof properties->name, "fake");
    (void)cudaMemGetInfo(&free_bytes, &properties->totalGlobalMem);
    properties->major = 9;
    properties->multiProcessorCount = 4;
    properties->warpSize = 32;
    properties->maxThreadsPerBlock = 1024;
    properties->maxThreadsPerMultiProcessor = 2048;
    properties->maxThreadsDim[0] = 1024;
    properties->maxGridSize[0] = 1 << 30;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    (void)attribute;
    (void)device;
    *value = 1;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char *text, int length, int device)
{
    (void)snprintf(text, (size_t)length, "0000:%02x:00.0", device);
    return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void)
{
    enter();
    return finish(CALL(int (*)(void), "cuCtxSynchronize")());
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    *can = device != peer;
    return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
    (void)peer;
    (void)flags;
    return cudaSuccess;
}

/* ---- memory ---- */

cudaError_t cudaMalloc(void **ptr, size_t bytes)
{
    enter();
    uint64_t address = 0;
    const int code = CALL(int (*)(uint64_t *, size_t), "cuMemAlloc_v2")(&address, bytes);
    *ptr = (void *)(uintptr_t)address;
    return finish(code);
}

cudaError_t cudaFree(void *ptr)
{
    enter();
    return ptr == NULL ? cudaSuccess
                       : finish(CALL(int (*)(uint64_t), "cuMemFree_v2")((uint64_t)(uintptr_t)ptr));
}

cudaError_t cudaHostAlloc(void **ptr, size_t bytes, unsigned flags)
{
    (void)flags;
    *ptr = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    return *ptr != NULL ? cudaSuccess : finish(cudaErrorMemoryAllocation);
}

cudaError_t cudaFreeHost(void *ptr)
{
    free(ptr);
    return cudaSuccess;
}

/* Device memory of the fake lies in the process. */
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    (void)kind;
    memmove(to, from, bytes);
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    (void)stream;
    return cudaMemcpy(to, from, bytes, kind);
}

cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device,
                                size_t bytes, cudaStream_t stream)
{
    (void)to_device;
    (void)from_device;
    (void)stream;
    return cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToDevice);
}

cudaError_t cudaMemset(void *ptr, int value, size_t bytes)
{
    memset(ptr, value, bytes);
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *ptr, int value, size_t bytes, cudaStream_t stream)
{
    (void)stream;
    return cudaMemset(ptr, value, bytes);
}

/* ---- other processes ---- */

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *ptr)
{
    enter();
    return finish(CALL(int (*)(cudaIpcMemHandle_t *, uint64_t),
                       "cuIpcGetMemHandle")(handle, (uint64_t)(uintptr_t)ptr));
}

cudaError_t cudaIpcOpenMemHandle(void **ptr, cudaIpcMemHandle_t handle, unsigned flags)
{
    enter();
    uint64_t address = 0;
    const int code = CALL(int (*)(uint64_t *, cudaIpcMemHandle_t, unsigned),
                          "cuIpcOpenMemHandle_v2")(&address, handle, flags);
    *ptr = (void *)(uintptr_t)address;
    return finish(code);
}

cudaError_t cudaIpcCloseMemHandle(void *ptr)
{
    enter();
    return finish(CALL(int (*)(uint64_t), "cuIpcCloseMemHandle")((uint64_t)(uintptr_t)ptr));
}

/* All work is complete when another process looks. */
cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t *handle, cudaEvent_t event)
{
    (void)event;
    memset(handle, 1, sizeof *handle);
    return cudaSuccess;
}

cudaError_t cudaIpcOpenEventHandle(cudaEvent_t *event, cudaIpcEventHandle_t handle)
{
    (void)handle;
    return cudaEventCreateWithFlags(event, cudaEventDisableTiming);
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *ptr)
{
    memset(attributes, 0, sizeof *attributes);
    attributes->type = cudaMemoryTypeDevice;
    attributes->devicePointer = (void *)(uintptr_t)ptr;
    return cudaSuccess;
}

/* ---- streams, events ---- */

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority)
{
    (void)priority;
    enter();
    return finish(CALL(int (*)(cudaStream_t *, unsigned), "cuStreamCreate")(stream, flags));
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    enter();
    return finish(CALL(int (*)(cudaStream_t), "cuStreamQuery")(stream));
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    enter();
    return finish(CALL(int (*)(cudaStream_t), "cuStreamSynchronize")(stream));
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    enter();
    return finish(CALL(int (*)(cudaStream_t, cudaEvent_t, unsigned),
                       "cuStreamWaitEvent")(stream, event, flags));
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    (void)flags;
    enter();
    return finish(
        CALL(int (*)(cudaEvent_t *, unsigned), "cuEventCreate")(event, cudaEventDisableTiming));
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    enter();
    return finish(CALL(int (*)(cudaEvent_t), "cuEventDestroy_v2")(event));
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    enter();
    return finish(CALL(int (*)(cudaEvent_t, cudaStream_t), "cuEventRecord")(event, stream));
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags)
{
    (void)flags;
    return cudaEventRecord(event, stream);
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    enter();
    return finish(CALL(int (*)(cudaEvent_t), "cuEventQuery")(event));
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    enter();
    return finish(CALL(int (*)(cudaEvent_t), "cuEventSynchronize")(event));
}

/* ---- kernels ---- */

cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments,
                             size_t shared_bytes, cudaStream_t stream)
{
    (void)function;
    (void)grid;
    (void)block;
    (void)arguments;
    (void)shared_bytes;
    (void)stream;
    return cudaSuccess;
}

/* ---- capture, graphs ---- */

static void set_captured(cudaStream_t stream)
{
    enter();
    captured = stream;
    capture_id += stream != NULL;
    CALL(fake_set_fn_t, "fake_cuda_set")("capture_id", capture_id);
    CALL(fake_set_fn_t, "fake_cuda_set")("captured_stream", (uint64_t)(uintptr_t)stream);
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    (void)mode;
    set_captured(stream);
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    (void)stream;
    set_captured(NULL);
    *graph = (cudaGraph_t)(uintptr_t)capture_id;
    return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
    *status = stream != NULL && stream == captured ? cudaStreamCaptureStatusActive
                                                   : cudaStreamCaptureStatusNone;
    return cudaSuccess;
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                     unsigned long long *id, cudaGraph_t *graph,
                                     const cudaGraphNode_t **nodes, const cudaGraphEdgeData **edges,
                                     size_t *count)
{
    (void)graph;
    (void)nodes;
    (void)edges;
    (void)count;
    if (id != NULL) {
        *id = capture_id;
    }
    return cudaStreamIsCapturing(stream, status);
}

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
    enter();
    return finish(
        CALL(int (*)(enum cudaStreamCaptureMode *), "cuThreadExchangeStreamCaptureMode")(mode));
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count)
{
    (void)graph;
    (void)nodes;
    *count = 1;
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *executable, cudaGraph_t graph,
                                          unsigned long long flags)
{
    (void)flags;
    *executable = (cudaGraphExec_t)graph;
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream)
{
    (void)executable;
    (void)stream;
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    (void)graph;
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable)
{
    (void)executable;
    return cudaSuccess;
}
