/*
 * fake_cuda: see fake_cuda.h. One device, one context, one lock around everything.
 */
#include "fake_cuda.h"

#include "experiments/lib/gpu_kernels.h"
#include "experiments/lib/gpu_work.h"
#include "vmm/base.h"
#include "vmm/cuda_symbols.h"
#include "vmm/sim.h"

#include <pleat/sim.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))
#define SPINS_MAX 64

/* Declarations of what follows; the lists are those that the program under test looks up. */
#define DECLARE(name, parameters) EXPORT pleat_cu_result_t name parameters;
PLEAT_CU_REQUIRED_LIST(DECLARE)
PLEAT_CU_MAPPING_LIST(DECLARE)
PLEAT_CU_CAPTURE_LIST(DECLARE)
PLEAT_CU_GRAPH_LIST(DECLARE)
PLEAT_CU_FILE_LIST(DECLARE)
PLEAT_CU_IPC_LIST(DECLARE)
PLEAT_CU_PEER_LIST(DECLARE)
PLEAT_GPU_WORK_LIST(DECLARE)
EXPORT void fake_cuda_fail(const char *name, uint64_t nth, unsigned code);
EXPORT void fake_cuda_set(const char *name, uint64_t value);
EXPORT uint64_t fake_cuda_contexts(void);

/* A spinning kernel that has not ended. */
typedef struct spin {
    pleat_stream_t stream;
    const volatile uint32_t *flag;
    uint64_t end_ns;
} spin_t;

static struct {
    pthread_mutex_t lock;
    pleat_vmm_t *vmm;
    uint64_t contexts;
    bool is_initialized;
    uint64_t devices;
    uint64_t mapping;
    uint64_t file_handles;
    uint64_t peers;
    uint64_t bytes;
    uint64_t streams;
    uint64_t captured_stream; /* 0: none */
    uint64_t capture_id;
    uint64_t captured_nodes; /* each waits for the two before it; the stream for the last two */
    uint32_t spin_count;
    spin_t spins[SPINS_MAX];
    char fail_name[64];
    uint64_t fail_countdown;
    unsigned fail_code;
} fake = {.lock = PTHREAD_MUTEX_INITIALIZER,
          .devices = 1,
          .mapping = 1,
          .file_handles = 1,
          .peers = 1,
          .bytes = UINT64_C(4) << 30};

static _Thread_local struct {
    pleat_cu_context_t contexts[16];
    int depth;
    unsigned int capture_mode; /* 0: global */
} current;

/* ---- controls ---- */

void fake_cuda_fail(const char *name, uint64_t nth, unsigned code)
{
    (void)pthread_mutex_lock(&fake.lock);
    (void)strncpy(fake.fail_name, name, sizeof fake.fail_name - 1);
    fake.fail_countdown = nth;
    fake.fail_code = code;
    (void)pthread_mutex_unlock(&fake.lock);
}

void fake_cuda_set(const char *name, uint64_t value)
{
    static const struct {
        const char *name;
        uint64_t *value;
    } properties[] = {{"devices", &fake.devices},
                      {"mapping", &fake.mapping},
                      {"file_handles", &fake.file_handles},
                      {"peers", &fake.peers},
                      {"bytes", &fake.bytes},
                      {"captured_stream", &fake.captured_stream},
                      {"capture_id", &fake.capture_id},
                      {"captured_nodes", &fake.captured_nodes}};
    (void)pthread_mutex_lock(&fake.lock);
    for (size_t i = 0; i < sizeof properties / sizeof properties[0]; i++) {
        if (strcmp(properties[i].name, name) == 0) {
            *properties[i].value = value;
        }
    }
    (void)pthread_mutex_unlock(&fake.lock);
}

uint64_t fake_cuda_contexts(void)
{
    return fake.contexts;
}

/* ---- time and results ---- */

static uint64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static pleat_cu_result_t result_of(pleat_status_t status)
{
    if (status == PLEAT_ERR_INVALID || status == PLEAT_ERR_INVALID_POINTER) {
        return PLEAT_CU_INVALID_VALUE;
    }
    if (status == PLEAT_ERR_OOM_DEVICE || status == PLEAT_ERR_OOM_HOST) {
        return PLEAT_CU_OUT_OF_MEMORY;
    }
    if (status == PLEAT_ERR_NOT_READY) {
        return PLEAT_CU_NOT_READY;
    }
    if (status == PLEAT_ERR_UNSUPPORTED) {
        return PLEAT_CU_NOT_SUPPORTED;
    }
    return status == PLEAT_OK ? (pleat_cu_result_t)PLEAT_CU_OK : 999;
}

static bool stream_spins(pleat_stream_t stream)
{
    for (uint32_t i = 0; i < fake.spin_count; i++) {
        if (fake.spins[i].stream == stream) {
            return true;
        }
    }
    return false;
}

/* End what was told to end, or has run long enough. */
static void poll_spins(void)
{
    for (uint32_t i = 0; i < fake.spin_count;) {
        const spin_t spin = fake.spins[i];
        if (*spin.flag == 0 && now_ns() < spin.end_ns) {
            i++;
            continue;
        }
        fake.spins[i] = fake.spins[--fake.spin_count];
        if (!stream_spins(spin.stream)) {
            const pleat_status_t ignored = pleat_sim_set_done(fake.vmm, spin.stream);
            (void)ignored;
        }
    }
}

/* Begin of a call: lock, spins, planned failures, a device. */
static pleat_cu_result_t begin(const char *name, bool needs_device)
{
    (void)pthread_mutex_lock(&fake.lock);
    poll_spins();
    if (fake.fail_countdown > 0 && strcmp(fake.fail_name, name) == 0 &&
        --fake.fail_countdown == 0) {
        return fake.fail_code;
    }
    const bool has_context = current.depth > 0 && fake.vmm != NULL;
    return needs_device && !has_context ? 201 /* no context */ : PLEAT_CU_OK;
}

static pleat_cu_result_t end(pleat_cu_result_t result)
{
    (void)pthread_mutex_unlock(&fake.lock);
    return result;
}

/* Begin of a call that the driver refuses while a stream is captured, but to relaxed threads. */
static pleat_cu_result_t begin_unsafe(const char *name)
{
    const pleat_cu_result_t result = begin(name, true);
    const bool is_refused =
        fake.captured_stream != 0 && current.capture_mode != PLEAT_CU_CAPTURE_RELAXED;
    return result == PLEAT_CU_OK && is_refused
               ? (pleat_cu_result_t)PLEAT_CU_STREAM_CAPTURE_UNSUPPORTED
               : result;
}

/* An operation on the device with a context current. */
#define ON_DEVICE(expression)                         \
    pleat_cu_result_t result = begin(__func__, true); \
    if (result == PLEAT_CU_OK) {                      \
        result = result_of(expression);               \
    }                                                 \
    return end(result)

#define ON_DEVICE_UNSAFE(expression)                   \
    pleat_cu_result_t result = begin_unsafe(__func__); \
    if (result == PLEAT_CU_OK) {                       \
        result = result_of(expression);                \
    }                                                  \
    return end(result)

/* Let go of the lock for a moment, while something is waited for. */
static void pause_locked(void)
{
    (void)pthread_mutex_unlock(&fake.lock);
    const struct timespec moment = {0, 100000};
    (void)nanosleep(&moment, NULL);
    (void)pthread_mutex_lock(&fake.lock);
    poll_spins();
}

/* ---- driver and context ---- */

pleat_cu_result_t cuInit(unsigned int flags)
{
    (void)flags;
    pleat_cu_result_t result = begin(__func__, false);
    if (result == PLEAT_CU_OK && fake.devices == 0) {
        result = PLEAT_CU_NO_DEVICE;
    }
    fake.is_initialized |= result == PLEAT_CU_OK;
    return end(result);
}

pleat_cu_result_t cuDeviceGetCount(int *count_out)
{
    const pleat_cu_result_t result = begin(__func__, false);
    *count_out = (int)fake.devices;
    return end(result != PLEAT_CU_OK || fake.is_initialized ? result : 3 /* not initialised */);
}

pleat_cu_result_t cuDeviceGet(pleat_cu_device_t *device_out, int index)
{
    *device_out = index;
    return end(begin(__func__, false));
}

pleat_cu_result_t cuDeviceGetName(char *name_out, int length, pleat_cu_device_t device)
{
    (void)device;
    (void)strncpy(name_out, "simulated behind fake_cuda", (size_t)length);
    return end(begin(__func__, false));
}

pleat_cu_result_t cuDeviceGetAttribute(int *value_out, unsigned int attribute,
                                       pleat_cu_device_t device)
{
    (void)device;
    *value_out = attribute == PLEAT_CU_HAS_VIRTUAL_MEMORY ? (int)fake.mapping
                 : attribute == PLEAT_CU_HAS_HANDLE_FILE  ? (int)fake.file_handles
                                                          : 0;
    return end(begin(__func__, false));
}

pleat_cu_result_t cuDevicePrimaryCtxRetain(pleat_cu_context_t *context_out,
                                           pleat_cu_device_t device)
{
    (void)device;
    pleat_cu_result_t result = begin(__func__, false);
    if (result == PLEAT_CU_OK && fake.contexts == 0) {
        pleat_sim_options_t options = PLEAT_SIM_OPTIONS_INIT;
        options.capacity_bytes = fake.bytes;
        options.is_backed = true;
        result = result_of(pleat_sim_create(&options, &fake.vmm));
    }
    if (result == PLEAT_CU_OK) {
        fake.contexts++;
        *context_out = (pleat_cu_context_t)(void *)&fake;
    }
    return end(result);
}

pleat_cu_result_t cuDevicePrimaryCtxRelease_v2(pleat_cu_device_t device)
{
    (void)device;
    const pleat_cu_result_t result = begin(__func__, false);
    if (result == PLEAT_CU_OK && --fake.contexts == 0) {
        pleat_vmm_destroy(fake.vmm);
        fake.vmm = NULL;
        fake.spin_count = 0;
    }
    return end(result);
}

pleat_cu_result_t cuCtxGetCurrent(pleat_cu_context_t *context_out)
{
    *context_out = current.depth == 0 ? NULL : current.contexts[current.depth - 1];
    return end(begin(__func__, false));
}

pleat_cu_result_t cuCtxPushCurrent_v2(pleat_cu_context_t context)
{
    const pleat_cu_result_t result = begin(__func__, false);
    if (result == PLEAT_CU_OK) {
        current.contexts[current.depth++] = context;
    }
    return end(result);
}

pleat_cu_result_t cuCtxPopCurrent_v2(pleat_cu_context_t *context_out)
{
    const pleat_cu_result_t result = begin(__func__, false);
    if (current.depth == 0) {
        return end(201);
    }
    *context_out = current.contexts[--current.depth];
    return end(result);
}

pleat_cu_result_t cuGetErrorName(pleat_cu_result_t result, const char **text_out)
{
    if (result == 12345) { /* a code that the driver does not know */
        *text_out = NULL;
        return PLEAT_CU_INVALID_VALUE;
    }
    *text_out = result == PLEAT_CU_INVALID_VALUE   ? "CUDA_ERROR_INVALID_VALUE"
                : result == PLEAT_CU_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY"
                                                   : "CUDA_ERROR_OF_THE_FAKE";
    return PLEAT_CU_OK;
}

pleat_cu_result_t cuGetErrorString(pleat_cu_result_t result, const char **text_out)
{
    *text_out = pleat_last_error();
    return result == 12345 ? PLEAT_CU_INVALID_VALUE : PLEAT_CU_OK;
}

/* ---- memory ---- */

pleat_cu_result_t cuMemGetInfo_v2(size_t *free_out, size_t *total_out)
{
    ON_DEVICE(pleat_vmm_mem_info(fake.vmm, free_out, total_out));
}

pleat_cu_result_t cuMemAlloc_v2(pleat_cu_ptr_t *ptr_out, size_t bytes)
{
    pleat_devptr_t ptr = 0;
    pleat_cu_result_t result = begin_unsafe(__func__);
    if (result == PLEAT_CU_OK) {
        result = result_of(pleat_vmm_mem_alloc(fake.vmm, bytes, &ptr));
        *ptr_out = ptr;
    }
    return end(result);
}

pleat_cu_result_t cuMemFree_v2(pleat_cu_ptr_t ptr)
{
    pleat_cu_result_t result = begin_unsafe(__func__);
    if (result == PLEAT_CU_OK) {
        while (fake.spin_count > 0) {
            pause_locked();
        }
        result = result_of(pleat_vmm_mem_free(fake.vmm, ptr));
    }
    return end(result);
}

pleat_cu_result_t cuMemHostAlloc(void **ptr_out, size_t bytes, unsigned int flags)
{
    pleat_cu_result_t result = begin(__func__, true);
    if (result == PLEAT_CU_OK) {
        *ptr_out = flags == 0 ? malloc(bytes) : NULL;
        result = *ptr_out == NULL ? PLEAT_CU_OUT_OF_MEMORY : PLEAT_CU_OK;
    }
    return end(result);
}

#ifndef FAKE_CUDA_LACKS_SOME
pleat_cu_result_t cuMemFreeHost(void *ptr)
{
    free(ptr);
    return PLEAT_CU_OK;
}
#endif

static void *host(pleat_cu_ptr_t ptr)
{
    return (void *)(uintptr_t)ptr;
}

/* Copies and fills on the device's addresses, which are the host's. */
static pleat_cu_result_t copy(const char *name, void *to, const void *from, size_t bytes)
{
    const pleat_cu_result_t result = begin(name, true);
    if (result == PLEAT_CU_OK) {
        memmove(to, from, bytes);
    }
    return end(result);
}

pleat_cu_result_t cuMemcpyHtoD_v2(pleat_cu_ptr_t to, const void *from, size_t bytes)
{
    return copy(__func__, host(to), from, bytes);
}

pleat_cu_result_t cuMemcpyDtoH_v2(void *to, pleat_cu_ptr_t from, size_t bytes)
{
    return copy(__func__, to, host(from), bytes);
}

pleat_cu_result_t cuMemcpyDtoDAsync_v2(pleat_cu_ptr_t to, pleat_cu_ptr_t from, size_t bytes,
                                       pleat_cu_stream_t stream)
{
    (void)stream;
    return copy(__func__, host(to), host(from), bytes);
}

static pleat_cu_result_t fill_words(const char *name, pleat_cu_ptr_t ptr, uint32_t value,
                                    size_t words)
{
    const pleat_cu_result_t result = begin(name, true);
    for (size_t i = 0; result == PLEAT_CU_OK && i < words; i++) {
        ((uint32_t *)host(ptr))[i] = value;
    }
    return end(result);
}

pleat_cu_result_t cuMemsetD32_v2(pleat_cu_ptr_t ptr, unsigned int value, size_t words)
{
    return fill_words(__func__, ptr, value, words);
}

pleat_cu_result_t cuMemsetD32Async(pleat_cu_ptr_t ptr, unsigned int value, size_t words,
                                   pleat_cu_stream_t stream)
{
    (void)stream;
    return fill_words(__func__, ptr, value, words);
}

/* ---- events and streams ---- */

static pleat_event_t event_of(pleat_cu_event_t event)
{
    return (pleat_event_t)(uintptr_t)event;
}

static pleat_stream_t stream_of(pleat_cu_stream_t stream)
{
    return (pleat_stream_t)(uintptr_t)stream;
}

pleat_cu_result_t cuEventCreate(pleat_cu_event_t *event_out, unsigned int flags)
{
    pleat_event_t event = 0;
    pleat_cu_result_t result = begin(__func__, true);
    if (result == PLEAT_CU_OK) {
        result = flags == PLEAT_CU_EVENT_DISABLE_TIMING
                     ? result_of(pleat_vmm_event_create(fake.vmm, &event))
                     : (pleat_cu_result_t)PLEAT_CU_INVALID_VALUE;
        *event_out = (pleat_cu_event_t)(uintptr_t)event;
    }
    return end(result);
}

pleat_cu_result_t cuEventDestroy_v2(pleat_cu_event_t event)
{
    ON_DEVICE(pleat_vmm_event_destroy(fake.vmm, event_of(event)));
}

pleat_cu_result_t cuEventRecord(pleat_cu_event_t event, pleat_cu_stream_t stream)
{
    ON_DEVICE(pleat_vmm_event_record(fake.vmm, event_of(event), stream_of(stream)));
}

pleat_cu_result_t cuEventQuery(pleat_cu_event_t event)
{
    ON_DEVICE_UNSAFE(pleat_vmm_event_query(fake.vmm, event_of(event)));
}

/* Until an event is complete. */
static pleat_cu_result_t wait_event(pleat_event_t event)
{
    pleat_status_t status = pleat_vmm_event_query(fake.vmm, event);
    while (status == PLEAT_ERR_NOT_READY) {
        pause_locked();
        status = pleat_vmm_event_query(fake.vmm, event);
    }
    return result_of(status);
}

pleat_cu_result_t cuEventSynchronize(pleat_cu_event_t event)
{
    const pleat_cu_result_t result = begin_unsafe(__func__);
    return end(result != PLEAT_CU_OK ? result : wait_event(event_of(event)));
}

pleat_cu_result_t cuStreamCreate(pleat_cu_stream_t *stream_out, unsigned int flags)
{
    (void)flags;
    const pleat_cu_result_t result = begin(__func__, true);
    *stream_out = (pleat_cu_stream_t)(uintptr_t)(0x1000 + ++fake.streams);
    return end(result);
}

pleat_cu_result_t cuStreamDestroy_v2(pleat_cu_stream_t stream)
{
    (void)stream;
    return end(begin(__func__, true));
}

pleat_cu_result_t cuStreamWaitEvent(pleat_cu_stream_t stream, pleat_cu_event_t event,
                                    unsigned int flags)
{
    (void)flags;
    ON_DEVICE(pleat_vmm_stream_wait_event(fake.vmm, stream_of(stream), event_of(event)));
}

/* What a stream has done so far, asked through an event behind all of it. */
static pleat_cu_result_t stream_state(pleat_stream_t stream, bool waits)
{
    pleat_event_t event = 0;
    pleat_cu_result_t result = result_of(pleat_vmm_event_create(fake.vmm, &event));
    if (result != PLEAT_CU_OK) {
        return result;
    }
    result = result_of(pleat_vmm_event_record(fake.vmm, event, stream));
    if (result == PLEAT_CU_OK) {
        result = waits ? wait_event(event) : result_of(pleat_vmm_event_query(fake.vmm, event));
    }
    const pleat_status_t ignored = pleat_vmm_event_destroy(fake.vmm, event);
    (void)ignored;
    return result;
}

pleat_cu_result_t cuStreamQuery(pleat_cu_stream_t stream)
{
    const pleat_cu_result_t result = begin(__func__, true);
    return end(result != PLEAT_CU_OK ? result : stream_state(stream_of(stream), false));
}

pleat_cu_result_t cuStreamSynchronize(pleat_cu_stream_t stream)
{
    const pleat_cu_result_t result = begin(__func__, true);
    return end(result != PLEAT_CU_OK ? result : stream_state(stream_of(stream), true));
}

pleat_cu_result_t cuCtxGetDevice(pleat_cu_device_t *device_out)
{
    *device_out = 0;
    return end(begin(__func__, true));
}

pleat_cu_result_t cuCtxSynchronize(void)
{
    const pleat_cu_result_t result = begin(__func__, true);
    while (result == PLEAT_CU_OK && fake.spin_count > 0) {
        pause_locked();
    }
    return end(result);
}

/* ---- capture ---- */

/* The handles of up to two nodes below @p end; how many. */
static size_t list_nodes(uint64_t end, pleat_cu_node_t nodes[2])
{
    size_t count = 0;
    for (uint64_t node = end; node-- > 1 && count < 2;) {
        nodes[count++] = (pleat_cu_node_t)(uintptr_t)node;
    }
    return count;
}

pleat_cu_result_t cuStreamGetCaptureInfo_v2(pleat_cu_stream_t stream, unsigned int *status_out,
                                            uint64_t *id_out, pleat_cu_graph_t *graph_out,
                                            const pleat_cu_node_t **nodes_out, size_t *count_out)
{
    static pleat_cu_node_t last[2];
    (void)graph_out;
    const pleat_cu_result_t result = begin(__func__, true);
    const bool is_captured = fake.captured_stream != 0 && stream_of(stream) == fake.captured_stream;
    *status_out = is_captured ? 1 : PLEAT_CU_CAPTURE_NONE;
    *id_out = is_captured ? fake.capture_id : 0;
    if (nodes_out != NULL && is_captured) {
        *count_out = list_nodes(fake.captured_nodes + 1, last);
        *nodes_out = last;
    }
    const bool is_legacy = stream == NULL && fake.captured_stream != 0;
    return end(result == PLEAT_CU_OK && is_legacy
                   ? (pleat_cu_result_t)PLEAT_CU_STREAM_CAPTURE_IMPLICIT
                   : result);
}

pleat_cu_result_t cuGraphNodeGetDependencies(pleat_cu_node_t node, pleat_cu_node_t *nodes_out,
                                             size_t *count)
{
    const pleat_cu_result_t result = begin(__func__, true);
    pleat_cu_node_t nodes[2] = {NULL, NULL};
    const size_t room = *count;
    *count = list_nodes((uint64_t)(uintptr_t)node, nodes);
    for (size_t i = 0; nodes_out != NULL && i < room; i++) {
        nodes_out[i] = i < *count ? nodes[i] : NULL;
    }
    return end(result);
}

#ifndef FAKE_CUDA_LACKS_SOME
pleat_cu_result_t cuThreadExchangeStreamCaptureMode(unsigned int *mode)
{
    const pleat_cu_result_t result = begin(__func__, false);
    const unsigned int old = current.capture_mode;
    current.capture_mode = *mode;
    *mode = old;
    return end(result);
}
#endif

/* ---- virtual memory ---- */

pleat_cu_result_t cuMemGetAllocationGranularity(size_t *bytes_out,
                                                const pleat_cu_properties_t *properties,
                                                unsigned int which)
{
    const pleat_cu_result_t result = begin(__func__, false);
    *bytes_out = (size_t)2 << 20;
    return end(properties->type == PLEAT_CU_ALLOCATION_PINNED &&
                       which == PLEAT_CU_GRANULARITY_MINIMUM
                   ? result
                   : (pleat_cu_result_t)PLEAT_CU_INVALID_VALUE);
}

pleat_cu_result_t cuMemAddressReserve(pleat_cu_ptr_t *ptr_out, size_t bytes, size_t alignment,
                                      pleat_cu_ptr_t wanted, unsigned long long flags)
{
    pleat_devptr_t ptr = 0;
    (void)alignment;
    pleat_cu_result_t result = begin_unsafe(__func__);
    if (result == PLEAT_CU_OK) {
        result = wanted != 0 || flags != 0
                     ? (pleat_cu_result_t)PLEAT_CU_INVALID_VALUE
                     : result_of(pleat_vmm_address_reserve(fake.vmm, bytes, &ptr));
        *ptr_out = ptr;
    }
    return end(result);
}

pleat_cu_result_t cuMemAddressFree(pleat_cu_ptr_t ptr, size_t bytes)
{
    ON_DEVICE_UNSAFE(pleat_vmm_address_free(fake.vmm, ptr, bytes));
}

pleat_cu_result_t cuMemCreate(pleat_cu_handle_t *handle_out, size_t bytes,
                              const pleat_cu_properties_t *properties, unsigned long long flags)
{
    pleat_chunk_t chunk = 0;
    pleat_cu_result_t result = begin_unsafe(__func__);
    if (result == PLEAT_CU_OK) {
        pleat_sim_set_exports(fake.vmm, properties->handle_types == PLEAT_CU_HANDLE_FILE);
        result = properties->location.type != PLEAT_CU_LOCATION_DEVICE || flags != 0
                     ? (pleat_cu_result_t)PLEAT_CU_INVALID_VALUE
                     : result_of(pleat_vmm_chunk_create(fake.vmm, bytes, &chunk));
        *handle_out = chunk;
    }
    return end(result);
}

pleat_cu_result_t cuMemRelease(pleat_cu_handle_t handle)
{
    ON_DEVICE_UNSAFE(pleat_vmm_chunk_release(fake.vmm, handle));
}

pleat_cu_result_t cuMemMap(pleat_cu_ptr_t ptr, size_t bytes, size_t offset,
                           pleat_cu_handle_t handle, unsigned long long flags)
{
    ON_DEVICE_UNSAFE(offset != 0 || flags != 0 ? PLEAT_ERR_INVALID
                                               : pleat_vmm_map(fake.vmm, ptr, bytes, handle));
}

#ifndef FAKE_CUDA_LACKS_SOME
pleat_cu_result_t cuMemUnmap(pleat_cu_ptr_t ptr, size_t bytes)
{
    ON_DEVICE_UNSAFE(pleat_vmm_unmap(fake.vmm, ptr, bytes));
}
#endif

/* Let the devices of a list, and no others, have what is mapped. */
static pleat_status_t set_access(pleat_cu_ptr_t ptr, size_t bytes, const pleat_cu_access_t *access,
                                 size_t count)
{
    pleat_status_t status = count == 0 ? PLEAT_ERR_INVALID : PLEAT_OK;
    for (int device = 1; device < (int)fake.devices && status == PLEAT_OK; device++) {
        status = pleat_vmm_peer_remove(fake.vmm, device);
    }
    for (size_t i = 0; i < count && status == PLEAT_OK; i++) {
        const int device = access[i].location.id;
        status = access[i].flags != PLEAT_CU_ACCESS_READ_WRITE || device < 0 ||
                         device >= (int)fake.devices
                     ? PLEAT_ERR_INVALID
                     : pleat_vmm_peer_add(fake.vmm, device);
    }
    return status != PLEAT_OK ? status : pleat_vmm_set_access(fake.vmm, ptr, bytes);
}

pleat_cu_result_t cuMemSetAccess(pleat_cu_ptr_t ptr, size_t bytes, const pleat_cu_access_t *access,
                                 size_t count)
{
    ON_DEVICE_UNSAFE(set_access(ptr, bytes, access, count));
}

/* ---- other processes and devices ---- */

pleat_cu_result_t cuMemExportToShareableHandle(void *handle_out, pleat_cu_handle_t handle,
                                               unsigned int type, unsigned long long flags)
{
    ON_DEVICE_UNSAFE(type != PLEAT_CU_HANDLE_FILE || flags != 0
                         ? PLEAT_ERR_INVALID
                         : pleat_vmm_chunk_export(fake.vmm, handle, handle_out));
}

pleat_cu_result_t cuMemImportFromShareableHandle(pleat_cu_handle_t *handle_out, void *os_handle,
                                                 unsigned int type)
{
    pleat_chunk_t chunk = 0;
    pleat_cu_result_t result = begin_unsafe(__func__);
    if (result == PLEAT_CU_OK) {
        result =
            type != PLEAT_CU_HANDLE_FILE
                ? (pleat_cu_result_t)PLEAT_CU_INVALID_VALUE
                : result_of(pleat_vmm_chunk_import(fake.vmm, (int)(uintptr_t)os_handle, &chunk));
        *handle_out = chunk;
    }
    return end(result);
}

pleat_cu_result_t cuIpcGetMemHandle(pleat_cu_ipc_handle_t *handle_out, pleat_cu_ptr_t ptr)
{
    ON_DEVICE_UNSAFE(pleat_vmm_ipc_export(fake.vmm, ptr, (pleat_ipc_handle_t *)(void *)handle_out));
}

/* A real driver refuses handles of the own process; here there are no others. */
pleat_cu_result_t cuIpcOpenMemHandle_v2(pleat_cu_ptr_t *ptr_out, pleat_cu_ipc_handle_t handle,
                                        unsigned int flags)
{
    pleat_devptr_t ptr = 0;
    pleat_cu_result_t result = begin_unsafe(__func__);
    if (result == PLEAT_CU_OK) {
        result = flags != PLEAT_CU_IPC_LAZY_PEER
                     ? (pleat_cu_result_t)PLEAT_CU_INVALID_VALUE
                     : result_of(pleat_vmm_ipc_open(
                           fake.vmm, (const pleat_ipc_handle_t *)(const void *)&handle, &ptr));
        *ptr_out = ptr;
    }
    return end(result);
}

pleat_cu_result_t cuIpcCloseMemHandle(pleat_cu_ptr_t ptr)
{
    ON_DEVICE_UNSAFE(pleat_vmm_ipc_close(fake.vmm, ptr));
}

#ifndef FAKE_CUDA_LACKS_SOME
pleat_cu_result_t cuDeviceCanAccessPeer(int *can_out, pleat_cu_device_t device,
                                        pleat_cu_device_t peer_device)
{
    *can_out = fake.peers != 0 && device != peer_device;
    return end(begin(__func__, false));
}
#endif

/* ---- kernels ---- */

typedef enum kernel { KERNEL_FILL = 1, KERNEL_CHECK, KERNEL_COPY, KERNEL_SPIN } kernel_t;

pleat_cu_result_t cuModuleLoadData(pleat_cu_module_t *module_out, const void *image)
{
    *module_out = (pleat_cu_module_t)(uintptr_t)image;
    return end(begin(__func__, true));
}

pleat_cu_result_t cuModuleUnload(pleat_cu_module_t module)
{
    (void)module;
    return end(begin(__func__, true));
}

pleat_cu_result_t cuModuleGetFunction(pleat_cu_function_t *function_out, pleat_cu_module_t module,
                                      const char *name)
{
    static const char *const names[] = {"", "pleat_fill", "pleat_check", "pleat_copy",
                                        "pleat_spin"};
    pleat_cu_result_t result = begin(__func__, true);
    *function_out = NULL;
    for (uintptr_t i = KERNEL_FILL; i <= KERNEL_SPIN; i++) {
        if (strcmp(names[i], name) == 0 && strstr((const char *)module, name) != NULL) {
            *function_out = (pleat_cu_function_t)i;
        }
    }
    return end(result == PLEAT_CU_OK && *function_out == NULL ? 500 : result);
}

static uint64_t argument(void **arguments, int index)
{
    return *(uint64_t *)arguments[index];
}

static void run_check(void **arguments)
{
    const uint32_t *words = host(argument(arguments, 0));
    const uint32_t seed = *(uint32_t *)arguments[2];
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < argument(arguments, 1); i++) {
        wrong += words[i] != pleat_gpu_pattern(i, seed);
    }
    if (wrong > 0) {
        *(uint64_t *)host(argument(arguments, 3)) += wrong;
    }
}

static void run_fill(void **arguments)
{
    uint32_t *words = host(argument(arguments, 0));
    const uint32_t seed = *(uint32_t *)arguments[2];
    for (uint64_t i = 0; i < argument(arguments, 1); i++) {
        words[i] = pleat_gpu_pattern(i, seed);
    }
}

static pleat_cu_result_t run_spin(void **arguments, pleat_stream_t stream)
{
    if (fake.spin_count == SPINS_MAX) {
        return PLEAT_CU_OUT_OF_MEMORY;
    }
    fake.spins[fake.spin_count++] =
        (spin_t){.stream = stream,
                 .flag = (const volatile uint32_t *)host(argument(arguments, 0)),
                 .end_ns = now_ns() + argument(arguments, 1)};
    return result_of(pleat_sim_set_busy(fake.vmm, stream));
}

/* NOLINTNEXTLINE(readability-function-size): the driver's own parameters */
pleat_cu_result_t cuLaunchKernel(pleat_cu_function_t function, unsigned int grid_x,
                                 unsigned int grid_y, unsigned int grid_z, unsigned int block_x,
                                 unsigned int block_y, unsigned int block_z,
                                 unsigned int shared_bytes, pleat_cu_stream_t stream,
                                 void **arguments, void **extra)
{
    pleat_cu_result_t result = begin(__func__, true);
    const bool is_good = grid_x > 0 && grid_y == 1 && grid_z == 1 && block_x > 0 && block_y == 1 &&
                         block_z == 1 && shared_bytes == 0 && extra == NULL;
    if (result != PLEAT_CU_OK || !is_good) {
        return end(is_good ? result : (pleat_cu_result_t)PLEAT_CU_INVALID_VALUE);
    }
    switch ((kernel_t)(uintptr_t)function) {
    case KERNEL_FILL:
        run_fill(arguments);
        break;
    case KERNEL_CHECK:
        run_check(arguments);
        break;
    case KERNEL_COPY:
        if (argument(arguments, 2) > 0) {
            memmove(host(argument(arguments, 0)), host(argument(arguments, 1)),
                    16 * argument(arguments, 2));
        }
        break;
    case KERNEL_SPIN:
        result = run_spin(arguments, stream_of(stream));
        break;
    }
    return end(result);
}
