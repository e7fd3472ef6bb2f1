/*
 * Tests of cuda over a driver that is simulated (support/fake_cuda.h): creation and its errors,
 * translation of every kind of result, the context of the caller. What the operations do has the
 * contract suite of tests/gpu, which runs on the same simulated driver and on a GPU.
 */
#include "fake_cuda.h"
#include "host_fault.h"

#include "vmm/cuda_device.h"
#include "vmm/vmm.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pleat/sim.h>
#include <string.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#define GRANULE (2 * PLEAT_MIB)

static void expect_error(pleat_status_t status, pleat_status_t want, const char *part)
{
    cr_expect(eq(int, status, want), "%s", pleat_last_error());
    cr_expect(ne(ptr, strstr(pleat_last_error(), part), NULL), "'%s' lacks '%s'",
              pleat_last_error(), part);
}

static void expect_ok(pleat_status_t status)
{
    cr_assert(eq(int, status, PLEAT_OK), "%s", pleat_last_error());
}

/* A control of the simulated driver. */
static void control(const char *name, void *pointer_out)
{
    pleat_cuda_driver_t driver;
    expect_ok(pleat_cuda_load(TEST_LIBRARY, &driver));
    expect_ok(pleat_cuda_find(&driver, name, pointer_out));
}

static void fail_call(const char *name, uint64_t nth, unsigned code)
{
    fake_cuda_fail_fn_t function = NULL;
    control("fake_cuda_fail", (void *)&function);
    function(name, nth, code);
}

static void set_property(const char *name, uint64_t value)
{
    fake_cuda_set_fn_t function = NULL;
    control("fake_cuda_set", (void *)&function);
    function(name, value);
}

static uint64_t contexts(void)
{
    fake_cuda_contexts_fn_t function = NULL;
    control("fake_cuda_contexts", (void *)&function);
    return function();
}

static pleat_cuda_options_t fake_options(void)
{
    pleat_cuda_options_t options = PLEAT_CUDA_OPTIONS_INIT;
    options.driver = TEST_LIBRARY;
    return options;
}

static pleat_vmm_t *device(void)
{
    const pleat_cuda_options_t options = fake_options();
    pleat_vmm_t *vmm = NULL;
    expect_ok(pleat_cuda_create(0, &options, &vmm));
    return vmm;
}

static void expect_create_fails(const pleat_cuda_options_t *options, int index, pleat_status_t want,
                                const char *part)
{
    pleat_vmm_t *vmm = NULL;
    expect_error(pleat_cuda_create(index, options, &vmm), want, part);
    cr_expect(eq(ptr, vmm, NULL));
}

/* ---- creation ---- */

Test(cuda, without_a_driver_the_default_says_so, .timeout = 20)
{
    void *library = dlopen(PLEAT_CUDA_LIBRARY, RTLD_NOW);
    if (library != NULL) {
        cr_skip("this machine has a driver");
    }
    expect_create_fails(NULL, 0, PLEAT_ERR_UNSUPPORTED, "cuda: libcuda.so.1 not found");
    expect_error(pleat_cuda_create(0, NULL, NULL), PLEAT_ERR_INVALID, "vmm_out is NULL");
}

Test(cuda, a_device_opens_and_closes, .timeout = 20)
{
    pleat_vmm_t *vmms[2] = {device(), device()};
    uint64_t bytes = 0;
    cr_expect(eq(str, (char *)pleat_vmm_name(vmms[0]), "cuda"));
    cr_expect(pleat_vmm_has_mapping(vmms[0]));
    cr_expect(pleat_vmm_allocates_apart(vmms[0]));
    expect_ok(pleat_vmm_granularity(vmms[0], &bytes));
    cr_expect(eq(u64, bytes, GRANULE));
    const uint64_t before_ns = pleat_vmm_clock_ns(vmms[0]);
    cr_expect(lt(u64, 0, before_ns));
    cr_expect(ge(u64, pleat_vmm_clock_ns(vmms[0]), before_ns));
    cr_expect(eq(u64, contexts(), 2));
    pleat_vmm_destroy(vmms[0]);
    pleat_vmm_destroy(vmms[1]);
    cr_expect(eq(u64, contexts(), 0));
}

Test(cuda, bad_options_are_refused, .timeout = 20)
{
    pleat_cuda_options_t options = fake_options();
    options.size = 0;
    expect_create_fails(&options, 0, PLEAT_ERR_INVALID, "size is 0");
    options = fake_options();
    options.handle_types = 6;
    expect_create_fails(&options, 0, PLEAT_ERR_INVALID, "handle_types is 0x6");
    options = fake_options();
    expect_create_fails(&options, 1, PLEAT_ERR_INVALID, "no GPU 1; the driver has 1");
    expect_create_fails(&options, -1, PLEAT_ERR_INVALID, "no GPU -1");
    options.driver = TEST_LIBRARY_EMPTY;
    expect_create_fails(&options, 0, PLEAT_ERR_UNSUPPORTED, "cuDeviceGetCount");
    cr_expect(eq(u64, contexts(), 0));
}

Test(cuda, a_short_options_struct_takes_defaults, .timeout = 20)
{
    pleat_cuda_options_t options = fake_options();
    options.size = offsetof(pleat_cuda_options_t, handle_types);
    options.handle_types = 77;
    pleat_vmm_t *vmm = NULL;
    expect_ok(pleat_cuda_create(0, &options, &vmm));
    pleat_vmm_destroy(vmm);
}

Test(cuda, a_machine_without_a_gpu_says_so, .timeout = 20)
{
    const pleat_cuda_options_t options = fake_options();
    set_property("devices", 0);
    expect_create_fails(&options, 0, PLEAT_ERR_UNSUPPORTED, "the driver has no GPU");
    cr_expect(eq(int, pleat_last_native_error(), 100));
    fail_call("cuInit", 1, 0);
    expect_create_fails(&options, 0, PLEAT_ERR_UNSUPPORTED, "the driver has no GPU");
}

Test(cuda, a_device_without_virtual_memory_works_without, .timeout = 20)
{
    const pleat_cuda_options_t whole = fake_options();
    pleat_cuda_options_t options = fake_options();
    pleat_vmm_t *vmm = NULL;
    set_property("mapping", 0);
    expect_ok(pleat_cuda_create(0, &whole, &vmm));
    cr_expect(not(pleat_vmm_has_mapping(vmm)));
    pleat_devptr_t ptr = 0;
    expect_ok(pleat_vmm_mem_alloc(vmm, 512, &ptr));
    expect_ok(pleat_vmm_mem_free(vmm, ptr));
    pleat_vmm_destroy(vmm);
    options.handle_types = PLEAT_CUDA_HANDLE_FILE;
    expect_create_fails(&options, 0, PLEAT_ERR_UNSUPPORTED, "cannot hand out memory");
    options = fake_options();
    options.driver = TEST_LIBRARY_LACKING;
    expect_ok(pleat_cuda_create(0, &options, &vmm));
    cr_expect(not(pleat_vmm_has_mapping(vmm)));
    pleat_vmm_destroy(vmm);
}

Test(cuda, chunks_may_be_handed_out_where_the_device_can, .timeout = 20)
{
    pleat_cuda_options_t options = fake_options();
    options.handle_types = PLEAT_CUDA_HANDLE_FILE;
    pleat_vmm_t *vmm = NULL;
    expect_ok(pleat_cuda_create(0, &options, &vmm));
    pleat_vmm_destroy(vmm);
    set_property("file_handles", 0);
    expect_create_fails(&options, 0, PLEAT_ERR_UNSUPPORTED, "as a file descriptor");
}

Test(cuda, every_failure_on_the_way_in_is_reported, .timeout = 20)
{
    static const struct {
        const char *name;
        uint64_t nth;
        pleat_status_t want;
        const char *part;
    } rows[] = {
        {"cuInit", 1, PLEAT_ERR_DRIVER, "starting the driver"},
        {"cuDeviceGetCount", 1, PLEAT_ERR_DRIVER, "starting the driver"},
        {"cuDeviceGet", 1, PLEAT_ERR_DRIVER, "opening the device"},
        {"cuDeviceGetAttribute", 1, PLEAT_ERR_DRIVER, "reading an attribute"},
        {"cuDeviceGetAttribute", 2, PLEAT_ERR_DRIVER, "reading an attribute"},
        {"cuMemGetAllocationGranularity", 1, PLEAT_ERR_DRIVER, "reading the granularity"},
        {"cuDevicePrimaryCtxRetain", 1, PLEAT_ERR_DRIVER, "making the context"},
    };
    const pleat_cuda_options_t options = fake_options();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fail_call(rows[i].name, rows[i].nth, 999);
        expect_create_fails(&options, 0, rows[i].want, rows[i].part);
        cr_expect(ne(ptr, strstr(pleat_last_error(), "CUDA_ERROR_OF_THE_FAKE (999)"), NULL));
        cr_expect(eq(int, pleat_last_native_error(), 999));
        cr_expect(eq(u64, contexts(), 0));
    }
    for (uint64_t nth = 1; nth <= 2; nth++) { /* the record, the device around it */
        host_fault_after(nth);
        expect_create_fails(&options, 0, PLEAT_ERR_OOM_HOST, "no host memory");
        cr_expect(eq(u64, contexts(), 0));
    }
}

/* ---- operations ---- */

typedef struct live {
    pleat_vmm_t *vmm; /* its chunks can be handed out */
    pleat_devptr_t ptr;
    pleat_event_t event;
    pleat_devptr_t range;      /* of two granules, the first mapped */
    pleat_chunk_t chunk;       /* mapped there */
    int file;                  /* of the chunk */
    pleat_ipc_handle_t handle; /* of the allocation */
} live_t;

static live_t live_create(void)
{
    pleat_cuda_options_t options = fake_options();
    options.handle_types = PLEAT_CUDA_HANDLE_FILE;
    live_t live = {.vmm = NULL};
    set_property("devices", 2);
    expect_ok(pleat_cuda_create(0, &options, &live.vmm));
    expect_ok(pleat_vmm_mem_alloc(live.vmm, 512, &live.ptr));
    expect_ok(pleat_vmm_event_create(live.vmm, &live.event));
    expect_ok(pleat_vmm_address_reserve(live.vmm, 2 * GRANULE, &live.range));
    expect_ok(pleat_vmm_chunk_create(live.vmm, GRANULE, &live.chunk));
    expect_ok(pleat_vmm_map(live.vmm, live.range, GRANULE, live.chunk));
    expect_ok(pleat_vmm_chunk_export(live.vmm, live.chunk, &live.file));
    expect_ok(pleat_vmm_ipc_export(live.vmm, live.ptr, &live.handle));
    return live;
}

static pleat_status_t call_share(const live_t *live, pleat_vmm_call_t call)
{
    uint64_t made = 0;
    int file = -1;
    pleat_ipc_handle_t handle;
    switch ((int)call) {
    case PLEAT_VMM_CALL_CHUNK_EXPORT:
        return pleat_vmm_chunk_export(live->vmm, live->chunk, &file);
    case PLEAT_VMM_CALL_CHUNK_IMPORT:
        return pleat_vmm_chunk_import(live->vmm, live->file, &made);
    case PLEAT_VMM_CALL_IPC_EXPORT:
        return pleat_vmm_ipc_export(live->vmm, live->ptr, &handle);
    case PLEAT_VMM_CALL_IPC_OPEN:
        return pleat_vmm_ipc_open(live->vmm, &live->handle, &made);
    default:
        return pleat_vmm_ipc_close(live->vmm, live->ptr);
    }
}

/* One call of a kind with good arguments. What it makes is left to the end of the process. */
static pleat_status_t call_kind(const live_t *live, pleat_vmm_call_t call)
{
    uint64_t a = 0;
    uint64_t b = 0;
    pleat_vmm_t *vmm = live->vmm;
    switch ((int)call) {
    case PLEAT_VMM_CALL_MEM_ALLOC:
        return pleat_vmm_mem_alloc(vmm, 512, &a);
    case PLEAT_VMM_CALL_MEM_FREE:
        return pleat_vmm_mem_free(vmm, live->ptr);
    case PLEAT_VMM_CALL_MEM_INFO:
        return pleat_vmm_mem_info(vmm, &a, &b);
    case PLEAT_VMM_CALL_EVENT_CREATE:
        return pleat_vmm_event_create(vmm, &a);
    case PLEAT_VMM_CALL_EVENT_DESTROY:
        return pleat_vmm_event_destroy(vmm, live->event);
    case PLEAT_VMM_CALL_EVENT_RECORD:
        return pleat_vmm_event_record(vmm, live->event, 0);
    case PLEAT_VMM_CALL_EVENT_QUERY:
        return pleat_vmm_event_query(vmm, live->event);
    case PLEAT_VMM_CALL_EVENT_SYNCHRONIZE:
        return pleat_vmm_event_synchronize(vmm, live->event);
    case PLEAT_VMM_CALL_STREAM_WAIT_EVENT:
        return pleat_vmm_stream_wait_event(vmm, 0, live->event);
    case PLEAT_VMM_CALL_STREAM_SYNCHRONIZE:
        return pleat_vmm_stream_synchronize(vmm, 0);
    case PLEAT_VMM_CALL_ADDRESS_RESERVE:
        return pleat_vmm_address_reserve(vmm, GRANULE, &a);
    case PLEAT_VMM_CALL_ADDRESS_FREE:
        return pleat_vmm_address_free(vmm, live->range, 2 * GRANULE);
    case PLEAT_VMM_CALL_CHUNK_CREATE:
        return pleat_vmm_chunk_create(vmm, GRANULE, &a);
    case PLEAT_VMM_CALL_CHUNK_RELEASE:
        return pleat_vmm_chunk_release(vmm, live->chunk);
    case PLEAT_VMM_CALL_MAP:
        return pleat_vmm_map(vmm, live->range + GRANULE, GRANULE, live->chunk);
    case PLEAT_VMM_CALL_UNMAP:
        return pleat_vmm_unmap(vmm, live->range, GRANULE);
    case PLEAT_VMM_CALL_SET_ACCESS:
        return pleat_vmm_set_access(vmm, live->range, GRANULE);
    case PLEAT_VMM_CALL_PEER_ADD:
        return pleat_vmm_peer_add(vmm, 1);
    case PLEAT_VMM_CALL_PEER_REMOVE:
        return pleat_vmm_peer_remove(vmm, 1);
    default:
        return call_share(live, call);
    }
}

static const struct {
    pleat_vmm_call_t call;
    const char *entry; /* which entry point it ends in */
} kinds[] = {
    {PLEAT_VMM_CALL_MEM_ALLOC, "cuMemAlloc_v2"},
    {PLEAT_VMM_CALL_MEM_FREE, "cuMemFree_v2"},
    {PLEAT_VMM_CALL_MEM_INFO, "cuMemGetInfo_v2"},
    {PLEAT_VMM_CALL_EVENT_CREATE, "cuEventCreate"},
    {PLEAT_VMM_CALL_EVENT_DESTROY, "cuEventDestroy_v2"},
    {PLEAT_VMM_CALL_EVENT_RECORD, "cuEventRecord"},
    {PLEAT_VMM_CALL_EVENT_QUERY, "cuEventQuery"},
    {PLEAT_VMM_CALL_EVENT_SYNCHRONIZE, "cuEventQuery"},
    {PLEAT_VMM_CALL_STREAM_WAIT_EVENT, "cuStreamWaitEvent"},
    {PLEAT_VMM_CALL_STREAM_SYNCHRONIZE, "cuStreamQuery"},
    {PLEAT_VMM_CALL_ADDRESS_RESERVE, "cuMemAddressReserve"},
    {PLEAT_VMM_CALL_ADDRESS_FREE, "cuMemAddressFree"},
    {PLEAT_VMM_CALL_CHUNK_CREATE, "cuMemCreate"},
    {PLEAT_VMM_CALL_CHUNK_RELEASE, "cuMemRelease"},
    {PLEAT_VMM_CALL_MAP, "cuMemMap"},
    {PLEAT_VMM_CALL_UNMAP, "cuMemUnmap"},
    {PLEAT_VMM_CALL_SET_ACCESS, "cuMemSetAccess"},
    {PLEAT_VMM_CALL_CHUNK_EXPORT, "cuMemExportToShareableHandle"},
    {PLEAT_VMM_CALL_CHUNK_IMPORT, "cuMemImportFromShareableHandle"},
    {PLEAT_VMM_CALL_IPC_EXPORT, "cuIpcGetMemHandle"},
    {PLEAT_VMM_CALL_IPC_OPEN, "cuIpcOpenMemHandle_v2"},
    {PLEAT_VMM_CALL_IPC_CLOSE, "cuIpcCloseMemHandle"},
    {PLEAT_VMM_CALL_PEER_ADD, "cuDeviceCanAccessPeer"},
};

Test(cuda, a_driver_that_fails_is_translated_in_every_call, .timeout = 20)
{
    const live_t live = live_create();
    /* All but removing a peer, which the driver does not see. */
    cr_assert(eq(sz, sizeof kinds / sizeof kinds[0], (size_t)PLEAT_VMM_CALL_COUNT - 1));
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        fail_call(kinds[i].entry, 1, 719); /* launch failure: sticky on a real one */
        expect_error(call_kind(&live, kinds[i].call), PLEAT_ERR_DRIVER,
                     pleat_vmm_call_name(kinds[i].call));
        cr_expect(ne(ptr, strstr(pleat_last_error(), "(719)"), NULL));
        cr_expect(eq(int, pleat_last_native_error(), 719));
    }
    /* And each works once the driver does. */
    expect_ok(pleat_vmm_unmap(live.vmm, live.range, GRANULE));
    expect_ok(pleat_vmm_map(live.vmm, live.range, GRANULE, live.chunk));
    expect_ok(pleat_vmm_set_access(live.vmm, live.range, GRANULE));
    expect_ok(pleat_vmm_event_synchronize(live.vmm, live.event));
    expect_ok(pleat_vmm_mem_free(live.vmm, live.ptr));
    pleat_vmm_destroy(live.vmm);
}

Test(cuda, memory_and_events_work_while_a_stream_is_captured, .timeout = 20)
{
    const live_t live = live_create();
    set_property("captured_stream", 77);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (!pleat_vmm_call_is_memory(kinds[i].call)) {
            continue;
        }
        fail_call(kinds[i].entry, 1, 719);
        expect_error(call_kind(&live, kinds[i].call), PLEAT_ERR_DRIVER, "(719)");
    }
    expect_ok(pleat_vmm_unmap(live.vmm, live.range, GRANULE));
    expect_ok(pleat_vmm_mem_free(live.vmm, live.ptr));
    expect_ok(pleat_vmm_event_query(live.vmm, live.event));
    expect_ok(pleat_vmm_event_synchronize(live.vmm, live.event));
    /* The thread is put back to its own mode, in which the driver refuses such a call. */
    pleat_cu_result_t (*query)(pleat_event_t event) = NULL;
    control("cuEventQuery", (void *)&query);
    expect_ok(pleat_cuda_enter(live.vmm));
    cr_expect(eq(int, (int)query(live.event), PLEAT_CU_STREAM_CAPTURE_UNSUPPORTED));
    pleat_cuda_leave(live.vmm);
    set_property("captured_stream", 0);
    pleat_vmm_destroy(live.vmm);
}

Test(cuda, tells_the_order_inside_a_capture, .timeout = 20)
{
    pleat_vmm_t *vmm = device();
    cr_assert(pleat_vmm_knows_captures(vmm));
    pleat_node_t nodes[2] = {0};
    size_t count = 9;
    uint64_t capture = 9;
    expect_ok(pleat_vmm_capture_last(vmm, 77, 2, nodes, &count, &capture));
    cr_expect(eq(sz, count, 0));
    cr_expect(eq(u64, capture, 0));
    set_property("captured_stream", 77);
    set_property("capture_id", 42);
    set_property("captured_nodes", 5);
    expect_ok(pleat_vmm_capture_last(vmm, 77, 1, nodes, &count, &capture));
    cr_expect(eq(sz, count, 2));
    cr_expect(eq(u64, capture, 42));
    cr_expect(eq(u64, nodes[0], 5));
    cr_expect(eq(u64, nodes[1], 0), "there was room for one");
    expect_ok(pleat_vmm_capture_last(vmm, 77, 2, nodes, &count, &capture));
    cr_expect(eq(u64, nodes[1], 4));
    expect_ok(pleat_vmm_capture_dependencies(vmm, 5, 1, nodes, &count));
    cr_expect(eq(sz, count, 2));
    cr_expect(eq(u64, nodes[0], 5), "there is not room for all");
    expect_ok(pleat_vmm_capture_dependencies(vmm, 5, 2, nodes, &count));
    cr_expect(eq(u64, nodes[0], 4));
    cr_expect(eq(u64, nodes[1], 3));
    expect_ok(pleat_vmm_capture_dependencies(vmm, 1, 2, nodes, &count));
    cr_expect(eq(sz, count, 0));
    expect_error(pleat_vmm_capture_last(vmm, 0, 2, nodes, &count, &capture), PLEAT_ERR_DRIVER,
                 "capture_last");
    for (uint64_t nth = 1; nth <= 2; nth++) {
        fail_call("cuGraphNodeGetDependencies", nth, 719);
        expect_error(pleat_vmm_capture_dependencies(vmm, 5, 2, nodes, &count), PLEAT_ERR_DRIVER,
                     "capture_dependencies");
    }
    fail_call("cuStreamGetCaptureInfo_v2", 1, 719);
    expect_error(pleat_vmm_capture_last(vmm, 77, 2, nodes, &count, &capture), PLEAT_ERR_DRIVER,
                 "capture_last");
    set_property("captured_stream", 0);
    pleat_vmm_destroy(vmm);
}

Test(cuda, tells_whether_a_stream_is_captured, .timeout = 20)
{
    pleat_vmm_t *vmm = device();
    uint64_t id = 5;
    cr_expect(eq(int, (int)pleat_cuda_stream_capture(vmm, 77, &id), PLEAT_CUDA_CAPTURE_NONE));
    set_property("captured_stream", 77);
    set_property("capture_id", 42);
    cr_expect(eq(int, (int)pleat_cuda_stream_capture(vmm, 78, &id), PLEAT_CUDA_CAPTURE_NONE));
    cr_expect(eq(int, (int)pleat_cuda_stream_capture(vmm, 0, &id), PLEAT_CUDA_CAPTURE_ELSEWHERE));
    cr_expect(eq(u64, id, 5));
    cr_expect(eq(int, (int)pleat_cuda_stream_capture(vmm, 77, NULL), PLEAT_CUDA_CAPTURE_ACTIVE));
    cr_expect(eq(int, (int)pleat_cuda_stream_capture(vmm, 77, &id), PLEAT_CUDA_CAPTURE_ACTIVE));
    cr_expect(eq(u64, id, 42));
    fail_call("cuStreamGetCaptureInfo_v2", 1, 719);
    cr_expect(eq(int, (int)pleat_cuda_stream_capture(vmm, 77, &id), PLEAT_CUDA_CAPTURE_NONE));
    fail_call("cuCtxGetCurrent", 1, 4);
    cr_expect(eq(int, (int)pleat_cuda_stream_capture(vmm, 77, &id), PLEAT_CUDA_CAPTURE_NONE));
    cr_expect(eq(int, (int)pleat_cuda_stream_capture(NULL, 77, &id), PLEAT_CUDA_CAPTURE_NONE));
    set_property("captured_stream", 0);
    pleat_vmm_destroy(vmm);
}

Test(cuda, a_context_that_cannot_be_made_current_fails_every_call, .timeout = 20)
{
    const live_t live = live_create();
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        fail_call(i % 2 == 0 ? "cuCtxGetCurrent" : "cuCtxPushCurrent_v2", 1, 4);
        expect_error(call_kind(&live, kinds[i].call), PLEAT_ERR_DRIVER, "context current");
        cr_expect(eq(int, pleat_last_native_error(), 4));
    }
    pleat_vmm_destroy(live.vmm);
}

Test(cuda, each_code_has_its_status, .timeout = 20)
{
    static const struct {
        unsigned code;
        pleat_status_t map;
        pleat_status_t mem_free;
    } rows[] = {
        {1, PLEAT_ERR_INVALID, PLEAT_ERR_INVALID_POINTER},
        {2, PLEAT_ERR_OOM_DEVICE, PLEAT_ERR_OOM_DEVICE},
        {208, PLEAT_ERR_INVALID, PLEAT_ERR_INVALID_POINTER},
        {211, PLEAT_ERR_INVALID, PLEAT_ERR_INVALID_POINTER},
        {400, PLEAT_ERR_INVALID, PLEAT_ERR_INVALID_POINTER},
        {600, PLEAT_ERR_NOT_READY, PLEAT_ERR_NOT_READY},
        {801, PLEAT_ERR_UNSUPPORTED, PLEAT_ERR_UNSUPPORTED},
        {700, PLEAT_ERR_DRIVER, PLEAT_ERR_DRIVER},
        {12345, PLEAT_ERR_DRIVER, PLEAT_ERR_DRIVER},
    };
    const live_t live = live_create();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fail_call("cuMemMap", 1, rows[i].code);
        cr_expect(eq(int, call_kind(&live, PLEAT_VMM_CALL_MAP), rows[i].map));
        cr_expect(eq(int, pleat_last_native_error(), (int)rows[i].code));
        fail_call("cuMemFree_v2", 1, rows[i].code);
        cr_expect(eq(int, call_kind(&live, PLEAT_VMM_CALL_MEM_FREE), rows[i].mem_free));
    }
    cr_expect(ne(ptr, strstr(pleat_last_error(), "the driver says unknown (12345): unknown"), NULL),
              "%s", pleat_last_error());
    pleat_vmm_destroy(live.vmm);
}

Test(cuda, not_ready_is_an_answer_and_leaves_no_error, .timeout = 20)
{
    const live_t live = live_create();
    fail_call("cuMemMap", 1, 2);
    (void)call_kind(&live, PLEAT_VMM_CALL_MAP);
    fail_call("cuEventQuery", 1, 600);
    cr_expect(eq(int, pleat_vmm_event_query(live.vmm, live.event), PLEAT_ERR_NOT_READY));
    cr_expect(eq(int, pleat_last_native_error(), 2), "that of the failure before");
    pleat_vmm_destroy(live.vmm);
}

Test(cuda, waits_are_counted_where_something_was_waited_for, .timeout = 20)
{
    const live_t live = live_create();
    pleat_vmm_counters_t counters = PLEAT_VMM_COUNTERS_INIT;
    expect_ok(pleat_vmm_event_synchronize(live.vmm, live.event));
    expect_ok(pleat_vmm_stream_synchronize(live.vmm, 0));
    pleat_vmm_read_counters(live.vmm, &counters);
    cr_expect(eq(u64, counters.waits, 0));
    fail_call("cuEventQuery", 1, 600);
    expect_ok(pleat_vmm_event_synchronize(live.vmm, live.event));
    fail_call("cuStreamQuery", 1, 600);
    expect_ok(pleat_vmm_stream_synchronize(live.vmm, 0));
    expect_ok(pleat_vmm_mem_free(live.vmm, live.ptr));
    cr_expect(eq(int, pleat_vmm_mem_free(live.vmm, live.ptr), PLEAT_ERR_INVALID_POINTER));
    pleat_vmm_read_counters(live.vmm, &counters);
    cr_expect(eq(u64, counters.waits, 3));
    pleat_vmm_destroy(live.vmm);
}

Test(cuda, odd_sizes_are_named_before_the_driver_is_asked, .timeout = 20)
{
    const live_t live = live_create();
    const pleat_status_t bad = PLEAT_ERR_INVALID;
    const char *part = "both must be multiples of 2097152";
    uint64_t made = 0;
    expect_error(pleat_vmm_address_reserve(live.vmm, 1, &made), bad, part);
    expect_error(pleat_vmm_address_reserve(live.vmm, 0, &made), bad, part);
    expect_error(pleat_vmm_address_free(live.vmm, live.range + 1, GRANULE), bad, part);
    expect_error(pleat_vmm_chunk_create(live.vmm, GRANULE + 512, &made), bad, part);
    expect_error(pleat_vmm_map(live.vmm, live.range + 512, GRANULE, live.chunk), bad, part);
    expect_error(pleat_vmm_unmap(live.vmm, live.range, GRANULE - 1), bad, part);
    expect_error(pleat_vmm_set_access(live.vmm, live.range, 0), bad, part);
    cr_expect(eq(int, pleat_last_native_error(), 0));
    pleat_vmm_destroy(live.vmm);
}

/* ---- other processes and devices ---- */

Test(cuda, a_chunk_comes_back_from_its_descriptor, .timeout = 20)
{
    const live_t live = live_create();
    pleat_chunk_t chunk = 0;
    expect_ok(pleat_vmm_set_access(live.vmm, live.range, GRANULE));
    cr_expect(eq(int, fcntl(live.file, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC));
    expect_ok(pleat_vmm_chunk_import(live.vmm, live.file, &chunk));
    expect_ok(pleat_vmm_map(live.vmm, live.range + GRANULE, GRANULE, chunk));
    expect_ok(pleat_vmm_set_access(live.vmm, live.range + GRANULE, GRANULE));
    *(uint64_t *)(uintptr_t)live.range = 77;
    cr_expect(eq(u64, *(uint64_t *)(uintptr_t)(live.range + GRANULE), 77));
    expect_error(pleat_vmm_chunk_import(live.vmm, STDIN_FILENO, &chunk), PLEAT_ERR_INVALID,
                 "chunk_import: the driver says");
    pleat_vmm_destroy(live.vmm);
}

Test(cuda, chunks_of_a_device_opened_without_stay_in_the_process, .timeout = 20)
{
    pleat_vmm_t *vmm = device();
    pleat_chunk_t chunk = 0;
    int file = 7;
    expect_ok(pleat_vmm_chunk_create(vmm, GRANULE, &chunk));
    expect_error(pleat_vmm_chunk_export(vmm, chunk, &file), PLEAT_ERR_UNSUPPORTED,
                 "opened without PLEAT_CUDA_HANDLE_FILE");
    cr_expect(eq(int, file, 7));
    pleat_vmm_destroy(vmm);
}

Test(cuda, plain_memory_opens_by_its_handle, .timeout = 20)
{
    const live_t live = live_create();
    pleat_devptr_t ptr = 0;
    pleat_ipc_handle_t handle = {{0}};
    expect_ok(pleat_vmm_ipc_open(live.vmm, &live.handle, &ptr));
    cr_expect(eq(u64, ptr, live.ptr));
    expect_ok(pleat_vmm_ipc_close(live.vmm, ptr));
    expect_error(pleat_vmm_ipc_close(live.vmm, ptr), PLEAT_ERR_INVALID_POINTER, "ipc_close");
    expect_error(pleat_vmm_ipc_open(live.vmm, &handle, &ptr), PLEAT_ERR_INVALID, "ipc_open");
    fail_call("cuIpcOpenMemHandle_v2", 1, 201);
    expect_error(pleat_vmm_ipc_open(live.vmm, &live.handle, &ptr), PLEAT_ERR_INVALID,
                 "is the handle of this very process?");
    pleat_vmm_destroy(live.vmm);
}

Test(cuda, peers_are_granted_what_is_mapped_after_them, .timeout = 20)
{
    const live_t live = live_create();
    expect_ok(pleat_vmm_peer_add(live.vmm, 1));
    expect_ok(pleat_vmm_peer_add(live.vmm, 1));
    expect_ok(pleat_vmm_peer_add(live.vmm, 0));
    expect_ok(pleat_vmm_set_access(live.vmm, live.range, GRANULE));
    expect_error(pleat_vmm_peer_add(live.vmm, 2), PLEAT_ERR_INVALID, "no GPU 2; the driver has 2");
    expect_error(pleat_vmm_peer_add(live.vmm, -1), PLEAT_ERR_INVALID, "no GPU -1");
    expect_ok(pleat_vmm_peer_remove(live.vmm, 1));
    expect_ok(pleat_vmm_peer_remove(live.vmm, 0));
    expect_ok(pleat_vmm_peer_remove(live.vmm, 77));
    expect_ok(pleat_vmm_set_access(live.vmm, live.range, GRANULE));
    set_property("peers", 0);
    expect_error(pleat_vmm_peer_add(live.vmm, 1), PLEAT_ERR_UNSUPPORTED, "GPU 1 cannot reach");
    fail_call("cuDeviceGetCount", 1, 999);
    expect_error(pleat_vmm_peer_add(live.vmm, 1), PLEAT_ERR_DRIVER, "peer_add");
    pleat_vmm_destroy(live.vmm);
}

/* ---- context ---- */

Test(cuda, the_caller_s_context_is_left_as_it_was, .timeout = 20)
{
    pleat_vmm_t *vmm = device();
    const pleat_cuda_driver_t *driver = pleat_cuda_driver_of(vmm);
    pleat_cu_context_t other = (pleat_cu_context_t)(void *)&vmm;
    pleat_cu_context_t current = NULL;
    pleat_devptr_t ptr = 0;
    cr_assert(ne(ptr, (void *)driver, NULL));
    expect_ok(pleat_vmm_mem_alloc(vmm, 512, &ptr));
    cr_expect(eq(int, (int)driver->cuCtxGetCurrent(&current), PLEAT_CU_OK));
    cr_expect(current == NULL, "none was current");
    cr_expect(eq(int, (int)driver->cuCtxPushCurrent_v2(other), PLEAT_CU_OK));
    expect_ok(pleat_vmm_mem_free(vmm, ptr));
    cr_expect(eq(int, (int)driver->cuCtxGetCurrent(&current), PLEAT_CU_OK));
    cr_expect(current == other);
    expect_ok(pleat_cuda_enter(vmm));
    cr_expect(eq(int, (int)driver->cuCtxGetCurrent(&current), PLEAT_CU_OK));
    cr_expect(current != other);
    expect_ok(pleat_vmm_mem_alloc(vmm, 512, &ptr));
    pleat_cuda_leave(vmm);
    cr_expect(eq(int, (int)driver->cuCtxGetCurrent(&current), PLEAT_CU_OK));
    cr_expect(current == other);
    fail_call("cuCtxPushCurrent_v2", 1, 201);
    expect_error(pleat_cuda_enter(vmm), PLEAT_ERR_DRIVER, "context current");
    pleat_vmm_destroy(vmm);
}

Test(cuda, other_devices_are_no_gpu, .timeout = 20)
{
    pleat_vmm_t *sim = NULL;
    expect_ok(pleat_sim_create(NULL, &sim));
    cr_expect(eq(ptr, (void *)pleat_cuda_driver_of(sim), NULL));
    expect_error(pleat_cuda_enter(sim), PLEAT_ERR_INVALID, "device 'sim' is no GPU");
    pleat_cuda_leave(sim);
    expect_error(pleat_cuda_enter(NULL), PLEAT_ERR_INVALID, "device 'none' is no GPU");
    pleat_vmm_destroy(sim);
}
