/*
 * cuda: operations on a real GPU through its driver; with cuda_share.c the only file that sees the
 * driver's result codes. What the rules of pleat/vmm.h ask, the driver checks, but for sizes and
 * addresses that are no multiples of the granularity: those are named here.
 *
 * Each operation makes the device's primary context current if another one is, and puts that back.
 * No lock: one thread at a time for a device, but for mem_alloc and clock_ns, which any may call at
 * any time; the driver itself takes all calls from any.
 */
#include "cuda_state.h"
#include "vmm.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MEMORY_ALIGNMENT UINT64_C(512) /* of the smallest allocations; asserted only */

/* ---- results ---- */

static pleat_status_t result_status(pleat_cu_result_t result)
{
    switch (result) {
    case PLEAT_CU_OK:
        return PLEAT_OK;
    case PLEAT_CU_INVALID_VALUE:
    case PLEAT_CU_INVALID_DEVICE:
    case PLEAT_CU_ALREADY_MAPPED:
    case PLEAT_CU_NOT_MAPPED:
    case PLEAT_CU_INVALID_HANDLE:
        return PLEAT_ERR_INVALID;
    case PLEAT_CU_OUT_OF_MEMORY:
        return PLEAT_ERR_OOM_DEVICE;
    case PLEAT_CU_NOT_READY:
        return PLEAT_ERR_NOT_READY;
    case PLEAT_CU_NOT_SUPPORTED:
        return PLEAT_ERR_UNSUPPORTED;
    default:
        return PLEAT_ERR_DRIVER;
    }
}

/* The driver's name and text of a result. */
static const char *result_text(pleat_cu_result_t (*text_of)(pleat_cu_result_t, const char **),
                               pleat_cu_result_t result)
{
    const char *text = NULL;
    return text_of(result, &text) == PLEAT_CU_OK && text != NULL ? text : "unknown";
}

pleat_status_t pleat_cuda_status(const pleat_cuda_driver_t *driver, pleat_cu_result_t result,
                                 const char *call)
{
    const pleat_status_t status = result_status(result);
    if (status != PLEAT_OK) {
        pleat_native_error_set((int)result);
        pleat_error_set("%s: the driver says %s (%u): %s", call,
                        result_text(driver->cuGetErrorName, result), result,
                        result_text(driver->cuGetErrorString, result));
    }
    return status;
}

/* The same with the values of the call. */
pleat_status_t pleat_cuda_status_of(const pleat_cuda_t *cuda, pleat_cu_result_t result,
                                    const char *call, pleat_devptr_t ptr, uint64_t bytes)
{
    const pleat_status_t status = pleat_cuda_status(&cuda->driver, result, call);
    if (status != PLEAT_OK) {
        pleat_error_set("%s (0x%" PRIx64 ", %" PRIu64 " bytes)", pleat_last_error(), ptr, bytes);
    }
    return status;
}

/* ---- context ---- */

pleat_status_t pleat_cuda_context_enter(const pleat_cuda_t *cuda, bool *is_pushed_out)
{
    pleat_cu_context_t current = NULL;
    *is_pushed_out = false;
    pleat_cu_result_t result = cuda->driver.cuCtxGetCurrent(&current);
    if (result == PLEAT_CU_OK && current != cuda->context) {
        result = cuda->driver.cuCtxPushCurrent_v2(cuda->context);
        *is_pushed_out = result == PLEAT_CU_OK;
    }
    return pleat_cuda_status(&cuda->driver, result, "cuda: making the context current");
}

void pleat_cuda_context_leave(const pleat_cuda_t *cuda, bool is_pushed)
{
    if (is_pushed) {
        pleat_cu_context_t popped = NULL;
        (void)cuda->driver.cuCtxPopCurrent_v2(&popped);
    }
}

bool pleat_cuda_capture_relax(const pleat_cuda_t *cuda, unsigned int *mode)
{
    *mode = PLEAT_CU_CAPTURE_RELAXED;
    return cuda->driver.has_capture &&
           cuda->driver.cuThreadExchangeStreamCaptureMode(mode) == PLEAT_CU_OK;
}

void pleat_cuda_capture_restore(const pleat_cuda_t *cuda, unsigned int mode, bool is_relaxed)
{
    if (is_relaxed) {
        (void)cuda->driver.cuThreadExchangeStreamCaptureMode(&mode);
    }
}

static pleat_cu_event_t to_event(pleat_event_t event)
{
    return (pleat_cu_event_t)(uintptr_t)event;
}

static pleat_cu_stream_t to_stream(pleat_stream_t stream)
{
    return (pleat_cu_stream_t)(uintptr_t)stream;
}

/* ---- operations ---- */

static void cuda_destroy(void *self)
{
    pleat_cuda_t *cuda = self;
    (void)cuda->driver.cuDevicePrimaryCtxRelease_v2(cuda->device);
    free(cuda);
}

static uint64_t cuda_clock_ns(void *self)
{
    (void)self;
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static uint64_t cuda_wait_count(void *self)
{
    return ((const pleat_cuda_t *)self)->wait_count;
}

static pleat_status_t cuda_mem_info(void *self, uint64_t *free_bytes_out, uint64_t *total_bytes_out)
{
    const pleat_cuda_t *cuda = self;
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    pleat_cu_result_t result = PLEAT_CU_OK;
    CUDA_CALL(cuda, result, cuMemGetInfo_v2(&free_bytes, &total_bytes));
    *free_bytes_out = free_bytes;
    *total_bytes_out = total_bytes;
    return pleat_cuda_status(&cuda->driver, result, "mem_info");
}

static pleat_status_t cuda_mem_alloc(void *self, uint64_t bytes, pleat_devptr_t *ptr_out)
{
    const pleat_cuda_t *cuda = self;
    pleat_cu_ptr_t ptr = 0;
    pleat_cu_result_t result = PLEAT_CU_OK;
    CUDA_MEMORY_CALL(cuda, result, cuMemAlloc_v2(&ptr, bytes));
    PLEAT_ASSERT(ptr % MEMORY_ALIGNMENT == 0);
    *ptr_out = ptr;
    return pleat_cuda_status_of(cuda, result, "mem_alloc", 0, bytes);
}

static pleat_status_t cuda_mem_free(void *self, pleat_devptr_t ptr)
{
    pleat_cuda_t *cuda = self;
    pleat_cu_result_t result = PLEAT_CU_OK;
    CUDA_MEMORY_CALL(cuda, result, cuMemFree_v2(ptr));
    const pleat_status_t status = pleat_cuda_status_of(cuda, result, "mem_free", ptr, 0);
    cuda->wait_count += status == PLEAT_OK; /* it waits for all work on the device */
    return status == PLEAT_ERR_INVALID ? PLEAT_ERR_INVALID_POINTER : status;
}

static pleat_status_t cuda_event_create(void *self, pleat_event_t *event_out)
{
    const pleat_cuda_t *cuda = self;
    pleat_cu_event_t event = NULL;
    pleat_cu_result_t result = PLEAT_CU_OK;
    CUDA_CALL(cuda, result, cuEventCreate(&event, PLEAT_CU_EVENT_DISABLE_TIMING));
    *event_out = (pleat_event_t)(uintptr_t)event;
    return pleat_cuda_status(&cuda->driver, result, "event_create");
}

static pleat_status_t cuda_event_destroy(void *self, pleat_event_t event)
{
    const pleat_cuda_t *cuda = self;
    pleat_cu_result_t result = PLEAT_CU_OK;
    CUDA_CALL(cuda, result, cuEventDestroy_v2(to_event(event)));
    return pleat_cuda_status(&cuda->driver, result, "event_destroy");
}

static pleat_status_t cuda_event_record(void *self, pleat_event_t event, pleat_stream_t stream)
{
    const pleat_cuda_t *cuda = self;
    pleat_cu_result_t result = PLEAT_CU_OK;
    CUDA_CALL(cuda, result, cuEventRecord(to_event(event), to_stream(stream)));
    return pleat_cuda_status(&cuda->driver, result, "event_record");
}

static pleat_status_t cuda_event_query(void *self, pleat_event_t event)
{
    const pleat_cuda_t *cuda = self;
    pleat_cu_result_t result = PLEAT_CU_OK;
    CUDA_MEMORY_CALL(cuda, result, cuEventQuery(to_event(event)));
    if (result == PLEAT_CU_NOT_READY) {
        return PLEAT_ERR_NOT_READY; /* an answer, not a failure: no text is made */
    }
    return pleat_cuda_status(&cuda->driver, result, "event_query");
}

static pleat_status_t cuda_event_synchronize(void *self, pleat_event_t event)
{
    pleat_cuda_t *cuda = self;
    pleat_cu_result_t result = PLEAT_CU_OK;
    CUDA_MEMORY_CALL(cuda, result, cuEventQuery(to_event(event)));
    if (result == PLEAT_CU_NOT_READY) {
        cuda->wait_count++;
        CUDA_MEMORY_CALL(cuda, result, cuEventSynchronize(to_event(event)));
    }
    return pleat_cuda_status(&cuda->driver, result, "event_synchronize");
}

static pleat_status_t cuda_stream_wait_event(void *self, pleat_stream_t stream, pleat_event_t event)
{
    const pleat_cuda_t *cuda = self;
    pleat_cu_result_t result = PLEAT_CU_OK;
    CUDA_CALL(cuda, result, cuStreamWaitEvent(to_stream(stream), to_event(event), 0));
    return pleat_cuda_status(&cuda->driver, result, "stream_wait_event");
}

static pleat_status_t cuda_stream_synchronize(void *self, pleat_stream_t stream)
{
    pleat_cuda_t *cuda = self;
    pleat_cu_result_t result = PLEAT_CU_OK;
    CUDA_CALL(cuda, result, cuStreamQuery(to_stream(stream)));
    if (result == PLEAT_CU_NOT_READY) {
        cuda->wait_count++;
        CUDA_CALL(cuda, result, cuStreamSynchronize(to_stream(stream)));
    }
    return pleat_cuda_status(&cuda->driver, result, "stream_synchronize");
}

/* ---- captures ---- */

/* The driver's list is good until the stream's next call, and the stream is the caller's. */
static pleat_status_t cuda_capture_last(void *self, pleat_stream_t stream, size_t capacity,
                                        pleat_node_t *nodes_out, size_t *count_out,
                                        uint64_t *capture_out)
{
    const pleat_cuda_t *cuda = self;
    unsigned int state = PLEAT_CU_CAPTURE_NONE;
    uint64_t id = 0;
    const pleat_cu_node_t *nodes = NULL;
    size_t count = 0;
    pleat_cu_result_t result = PLEAT_CU_OK;
    CUDA_CALL(cuda, result,
              cuStreamGetCaptureInfo_v2(to_stream(stream), &state, &id, NULL, &nodes, &count));
    const bool is_active = result == PLEAT_CU_OK && state == PLEAT_CU_CAPTURE_ACTIVE;
    *capture_out = is_active ? id : 0;
    *count_out = is_active ? count : 0;
    for (size_t i = 0; i < *count_out && i < capacity; i++) {
        nodes_out[i] = (pleat_node_t)(uintptr_t)nodes[i];
    }
    return pleat_cuda_status(&cuda->driver, result, "capture_last");
}

/* Asked with room for more, the driver fills what is left over. */
static pleat_status_t cuda_capture_dependencies(void *self, pleat_node_t node, size_t capacity,
                                                pleat_node_t *nodes_out, size_t *count_out)
{
    _Static_assert(sizeof(pleat_cu_node_t) == sizeof(pleat_node_t), "handles fill a node");
    const pleat_cuda_t *cuda = self;
    const pleat_cu_node_t handle = (pleat_cu_node_t)(uintptr_t)node;
    size_t count = 0;
    pleat_cu_result_t result = PLEAT_CU_OK;
    CUDA_CALL(cuda, result, cuGraphNodeGetDependencies(handle, NULL, &count));
    *count_out = count;
    if (result == PLEAT_CU_OK && count > 0 && count <= capacity) {
        CUDA_CALL(cuda, result,
                  cuGraphNodeGetDependencies(handle, (pleat_cu_node_t *)(void *)nodes_out, &count));
    }
    return pleat_cuda_status(&cuda->driver, result, "capture_dependencies");
}

/* ---- virtual memory ---- */

static pleat_status_t cuda_check_span(const pleat_cuda_t *cuda, const char *call,
                                      pleat_devptr_t ptr, uint64_t bytes)
{
    if (bytes == 0 || bytes % cuda->granularity_bytes != 0 || ptr % cuda->granularity_bytes != 0) {
        pleat_error_set("%s: %" PRIu64 " bytes at 0x%" PRIx64 "; both must be multiples of %" PRIu64
                        ", the size not 0",
                        call, bytes, ptr, cuda->granularity_bytes);
        return PLEAT_ERR_INVALID;
    }
    return PLEAT_OK;
}

static pleat_status_t cuda_granularity(void *self, uint64_t *bytes_out)
{
    *bytes_out = ((const pleat_cuda_t *)self)->granularity_bytes;
    return PLEAT_OK;
}

static pleat_status_t cuda_address_reserve(void *self, uint64_t bytes, pleat_devptr_t *ptr_out)
{
    const pleat_cuda_t *cuda = self;
    const pleat_status_t status = cuda_check_span(cuda, "address_reserve", 0, bytes);
    if (status != PLEAT_OK) {
        return status;
    }
    pleat_cu_ptr_t ptr = 0;
    pleat_cu_result_t result = PLEAT_CU_OK;
    CUDA_MEMORY_CALL(cuda, result, cuMemAddressReserve(&ptr, bytes, cuda->granularity_bytes, 0, 0));
    *ptr_out = ptr;
    return pleat_cuda_status_of(cuda, result, "address_reserve", 0, bytes);
}

static pleat_status_t cuda_address_free(void *self, pleat_devptr_t ptr, uint64_t bytes)
{
    const pleat_cuda_t *cuda = self;
    const pleat_status_t status = cuda_check_span(cuda, "address_free", ptr, bytes);
    if (status != PLEAT_OK) {
        return status;
    }
    pleat_cu_result_t result = PLEAT_CU_OK;
    CUDA_MEMORY_CALL(cuda, result, cuMemAddressFree(ptr, bytes));
    return pleat_cuda_status_of(cuda, result, "address_free", ptr, bytes);
}

static pleat_status_t cuda_chunk_create(void *self, uint64_t bytes, pleat_chunk_t *chunk_out)
{
    const pleat_cuda_t *cuda = self;
    const pleat_status_t status = cuda_check_span(cuda, "chunk_create", 0, bytes);
    if (status != PLEAT_OK) {
        return status;
    }
    pleat_cu_handle_t handle = 0;
    pleat_cu_result_t result = PLEAT_CU_OK;
    CUDA_MEMORY_CALL(cuda, result, cuMemCreate(&handle, bytes, &cuda->properties, 0));
    *chunk_out = handle;
    return pleat_cuda_status_of(cuda, result, "chunk_create", 0, bytes);
}

static pleat_status_t cuda_chunk_release(void *self, pleat_chunk_t chunk)
{
    const pleat_cuda_t *cuda = self;
    pleat_cu_result_t result = PLEAT_CU_OK;
    CUDA_MEMORY_CALL(cuda, result, cuMemRelease(chunk));
    return pleat_cuda_status_of(cuda, result, "chunk_release", chunk, 0);
}

static pleat_status_t cuda_map(void *self, pleat_devptr_t ptr, uint64_t bytes, pleat_chunk_t chunk)
{
    const pleat_cuda_t *cuda = self;
    const pleat_status_t status = cuda_check_span(cuda, "map", ptr, bytes);
    if (status != PLEAT_OK) {
        return status;
    }
    pleat_cu_result_t result = PLEAT_CU_OK;
    CUDA_MEMORY_CALL(cuda, result, cuMemMap(ptr, bytes, 0, chunk, 0));
    return pleat_cuda_status_of(cuda, result, "map", ptr, bytes);
}

static pleat_status_t cuda_unmap(void *self, pleat_devptr_t ptr, uint64_t bytes)
{
    const pleat_cuda_t *cuda = self;
    const pleat_status_t status = cuda_check_span(cuda, "unmap", ptr, bytes);
    if (status != PLEAT_OK) {
        return status;
    }
    pleat_cu_result_t result = PLEAT_CU_OK;
    CUDA_MEMORY_CALL(cuda, result, cuMemUnmap(ptr, bytes));
    return pleat_cuda_status_of(cuda, result, "unmap", ptr, bytes);
}

static pleat_status_t cuda_set_access(void *self, pleat_devptr_t ptr, uint64_t bytes)
{
    const pleat_cuda_t *cuda = self;
    const pleat_status_t status = cuda_check_span(cuda, "set_access", ptr, bytes);
    if (status != PLEAT_OK) {
        return status;
    }
    pleat_cu_result_t result = PLEAT_CU_OK;
    CUDA_MEMORY_CALL(cuda, result, cuMemSetAccess(ptr, bytes, cuda->access, cuda->access_count));
    return pleat_cuda_status_of(cuda, result, "set_access", ptr, bytes);
}

static void cuda_add_mapping(pleat_vmm_ops_t *ops)
{
    ops->ext_granularity = cuda_granularity;
    ops->ext_address_reserve = cuda_address_reserve;
    ops->ext_address_free = cuda_address_free;
    ops->ext_chunk_create = cuda_chunk_create;
    ops->ext_chunk_release = cuda_chunk_release;
    ops->ext_map = cuda_map;
    ops->ext_unmap = cuda_unmap;
    ops->ext_set_access = cuda_set_access;
}

/* ---- creation ---- */

static pleat_status_t cuda_read_options(const pleat_cuda_options_t *options,
                                        pleat_cuda_options_t *chosen_out)
{
    pleat_cuda_options_t chosen = PLEAT_CUDA_OPTIONS_INIT;
    if (options != NULL) {
        if (options->size < sizeof options->size) {
            pleat_error_set("cuda options: size is %zu (set it with PLEAT_CUDA_OPTIONS_INIT)",
                            options->size);
            return PLEAT_ERR_INVALID;
        }
        memcpy(&chosen, options, options->size < sizeof chosen ? options->size : sizeof chosen);
    }
    if ((chosen.handle_types & ~PLEAT_CUDA_HANDLE_FILE) != 0) {
        pleat_error_set("cuda options: handle_types is 0x%" PRIx32
                        "; only PLEAT_CUDA_HANDLE_FILE (1) is known",
                        chosen.handle_types);
        return PLEAT_ERR_INVALID;
    }
    *chosen_out = chosen;
    return PLEAT_OK;
}

/* Start the driver and find the device. */
static pleat_status_t cuda_find_device(pleat_cuda_t *cuda, int device_index)
{
    const pleat_cuda_driver_t *driver = &cuda->driver;
    int count = 0;
    pleat_cu_result_t result = driver->cuInit(0);
    if (result == PLEAT_CU_OK) {
        result = driver->cuDeviceGetCount(&count);
    }
    if (result == PLEAT_CU_NO_DEVICE || (result == PLEAT_CU_OK && count == 0)) {
        pleat_native_error_set((int)result);
        pleat_error_set("cuda: the driver has no GPU (CUDA_VISIBLE_DEVICES may hide it)");
        return PLEAT_ERR_UNSUPPORTED;
    }
    if (result != PLEAT_CU_OK) {
        (void)pleat_cuda_status(driver, result, "cuda: starting the driver");
        return PLEAT_ERR_DRIVER;
    }
    if (device_index < 0 || device_index >= count) {
        pleat_error_set("cuda: no GPU %d; the driver has %d, counted from 0", device_index, count);
        return PLEAT_ERR_INVALID;
    }
    return pleat_cuda_status(driver, driver->cuDeviceGet(&cuda->device, device_index),
                             "cuda: opening the device");
}

static pleat_status_t cuda_attribute(const pleat_cuda_t *cuda, unsigned int attribute,
                                     bool *is_set_out)
{
    int value = 0;
    const pleat_status_t status = pleat_cuda_status(
        &cuda->driver, cuda->driver.cuDeviceGetAttribute(&value, attribute, cuda->device),
        "cuda: reading an attribute of the device");
    *is_set_out = value != 0;
    return status;
}

/* Has the device virtual memory, and what is its granularity? */
static pleat_status_t cuda_find_mapping(pleat_cuda_t *cuda, uint32_t handle_types, int device_index)
{
    bool has_mapping = false;
    bool has_file = false;
    pleat_status_t status = cuda_attribute(cuda, PLEAT_CU_HAS_VIRTUAL_MEMORY, &has_mapping);
    if (status == PLEAT_OK) {
        status = cuda_attribute(cuda, PLEAT_CU_HAS_HANDLE_FILE, &has_file);
    }
    if (status != PLEAT_OK) {
        return status;
    }
    has_mapping = has_mapping && cuda->driver.has_mapping;
    if (handle_types != 0 && !(has_mapping && has_file && cuda->driver.has_file)) {
        pleat_error_set("cuda: GPU %d cannot hand out memory as a file descriptor", device_index);
        return PLEAT_ERR_UNSUPPORTED;
    }
    if (!has_mapping) {
        return PLEAT_OK;
    }
    /* A device of the driver is its index, which is what a location wants. */
    const pleat_cu_location_t location = {.type = PLEAT_CU_LOCATION_DEVICE, .id = cuda->device};
    cuda->properties = (pleat_cu_properties_t){
        .type = PLEAT_CU_ALLOCATION_PINNED,
        .handle_types = handle_types == 0 ? 0 : PLEAT_CU_HANDLE_FILE,
        .location = location,
    };
    cuda->access[0] =
        (pleat_cu_access_t){.location = location, .flags = PLEAT_CU_ACCESS_READ_WRITE};
    cuda->access_count = 1;
    size_t bytes = 0;
    status = pleat_cuda_status(&cuda->driver,
                               cuda->driver.cuMemGetAllocationGranularity(
                                   &bytes, &cuda->properties, PLEAT_CU_GRANULARITY_MINIMUM),
                               "cuda: reading the granularity");
    cuda->granularity_bytes = bytes;
    return status;
}

static pleat_status_t cuda_open(pleat_cuda_t *cuda, int device_index,
                                const pleat_cuda_options_t *chosen)
{
    pleat_status_t status = pleat_cuda_load(chosen->driver, &cuda->driver);
    if (status == PLEAT_OK) {
        status = cuda_find_device(cuda, device_index);
    }
    if (status == PLEAT_OK) {
        status = cuda_find_mapping(cuda, chosen->handle_types, device_index);
    }
    if (status == PLEAT_OK) {
        status = pleat_cuda_status(
            &cuda->driver, cuda->driver.cuDevicePrimaryCtxRetain(&cuda->context, cuda->device),
            "cuda: making the context");
    }
    return status;
}

static pleat_status_t cuda_wrap(pleat_cuda_t *cuda, pleat_vmm_t **vmm_out)
{
    pleat_vmm_ops_t ops = {
        PLEAT_VMM_OPS_INIT("cuda"),
        .destroy = cuda_destroy,
        .clock_ns = cuda_clock_ns,
        .wait_count = cuda_wait_count,
        .mem_info = cuda_mem_info,
        .mem_alloc = cuda_mem_alloc,
        .mem_free = cuda_mem_free,
        .event_create = cuda_event_create,
        .event_destroy = cuda_event_destroy,
        .event_record = cuda_event_record,
        .event_query = cuda_event_query,
        .event_synchronize = cuda_event_synchronize,
        .stream_wait_event = cuda_stream_wait_event,
        .stream_synchronize = cuda_stream_synchronize,
        .ext_mem_alloc_apart = cuda_mem_alloc, /* it changes nothing of the device's record */
    };
    if (cuda->granularity_bytes != 0) {
        cuda_add_mapping(&ops);
    }
    if (cuda->driver.has_capture && cuda->driver.has_graph) {
        ops.ext_capture_last = cuda_capture_last;
        ops.ext_capture_dependencies = cuda_capture_dependencies;
    }
    pleat_cuda_add_share(cuda, &ops);
    return pleat_vmm_create(&ops, cuda, vmm_out);
}

pleat_status_t pleat_cuda_create(int device_index, const pleat_cuda_options_t *options,
                                 pleat_vmm_t **vmm_out)
{
    if (vmm_out == NULL) {
        pleat_error_set("cuda_create: vmm_out is NULL");
        return PLEAT_ERR_INVALID;
    }
    pleat_cuda_options_t chosen;
    pleat_status_t status = cuda_read_options(options, &chosen);
    if (status != PLEAT_OK) {
        return status;
    }
    pleat_cuda_t *cuda = calloc(1, sizeof *cuda);
    if (cuda == NULL) {
        pleat_error_set("cuda: no host memory for a device record of %zu bytes", sizeof *cuda);
        return PLEAT_ERR_OOM_HOST;
    }
    status = cuda_open(cuda, device_index, &chosen);
    if (status != PLEAT_OK) {
        goto err_free;
    }
    status = cuda_wrap(cuda, vmm_out);
    if (status != PLEAT_OK) {
        goto err_release;
    }
    return PLEAT_OK;

err_release:
    (void)cuda->driver.cuDevicePrimaryCtxRelease_v2(cuda->device);
err_free:
    free(cuda);
    return status;
}

/* ---- what the table of operations does not have ---- */

static const pleat_cuda_t *cuda_of(const pleat_vmm_t *vmm)
{
    if (!pleat_vmm_is_driven_by(vmm, cuda_destroy)) {
        pleat_error_set("cuda: device '%s' is no GPU", pleat_vmm_name(vmm));
        return NULL;
    }
    return pleat_vmm_self(vmm);
}

pleat_cuda_capture_t pleat_cuda_stream_capture(const pleat_vmm_t *vmm, pleat_stream_t stream,
                                               uint64_t *id_out)
{
    const pleat_cuda_t *cuda = vmm == NULL ? NULL : cuda_of(vmm);
    bool is_pushed = false;
    if (cuda == NULL || !cuda->driver.has_capture ||
        pleat_cuda_context_enter(cuda, &is_pushed) != PLEAT_OK) {
        return PLEAT_CUDA_CAPTURE_NONE;
    }
    unsigned int status = PLEAT_CU_CAPTURE_NONE;
    uint64_t id = 0;
    const pleat_cu_result_t result =
        cuda->driver.cuStreamGetCaptureInfo_v2(to_stream(stream), &status, &id, NULL, NULL, NULL);
    pleat_cuda_context_leave(cuda, is_pushed);
    if (result == PLEAT_CU_STREAM_CAPTURE_IMPLICIT) {
        return PLEAT_CUDA_CAPTURE_ELSEWHERE;
    }
    if (result != PLEAT_CU_OK || status == PLEAT_CU_CAPTURE_NONE) {
        return PLEAT_CUDA_CAPTURE_NONE;
    }
    if (id_out != NULL) {
        *id_out = id;
    }
    return PLEAT_CUDA_CAPTURE_ACTIVE;
}

const pleat_cuda_driver_t *pleat_cuda_driver_of(const pleat_vmm_t *vmm)
{
    const pleat_cuda_t *cuda = cuda_of(vmm);
    return cuda == NULL ? NULL : &cuda->driver;
}

pleat_status_t pleat_cuda_enter(const pleat_vmm_t *vmm)
{
    const pleat_cuda_t *cuda = cuda_of(vmm);
    return cuda == NULL
               ? PLEAT_ERR_INVALID
               : pleat_cuda_status(&cuda->driver, cuda->driver.cuCtxPushCurrent_v2(cuda->context),
                                   "cuda: making the context current");
}

void pleat_cuda_leave(const pleat_vmm_t *vmm)
{
    const pleat_cuda_t *cuda = cuda_of(vmm);
    if (cuda != NULL) {
        pleat_cuda_context_leave(cuda, true);
    }
}
