/*
 * vmm: the only caller of a device's operations table (pleat/vmm.h). Each call is checked, counted,
 * timed by the device's own clock and forwarded; backends (sim, scripted, CUDA) see only arguments
 * that passed.
 *
 * What is refused here never reaches the device and is not counted. Outputs go through a local, so
 * that they stay untouched on failure whatever a backend does.
 * No lock: one thread at a time for a device, which the owner of the device sees to; but for
 * allocations apart (vmm.h), which touch the counters only at their begin and end.
 */
#include "vmm.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* X(operation): what every table must have. Optional groups (ext_*) get a list each beside this. */
#define REQUIRED_OPS(X)  \
    X(destroy)           \
    X(clock_ns)          \
    X(wait_count)        \
    X(mem_info)          \
    X(mem_alloc)         \
    X(mem_free)          \
    X(event_create)      \
    X(event_destroy)     \
    X(event_record)      \
    X(event_query)       \
    X(event_synchronize) \
    X(stream_wait_event) \
    X(stream_synchronize)

/* X(operation): virtual memory, all or none. */
#define MAPPING_OPS(X)     \
    X(ext_granularity)     \
    X(ext_address_reserve) \
    X(ext_address_free)    \
    X(ext_chunk_create)    \
    X(ext_chunk_release)   \
    X(ext_map)             \
    X(ext_unmap)           \
    X(ext_set_access)

/* X(operation): chunks for other processes, all or none; so the next three groups. */
#define FILE_OPS(X)     \
    X(ext_chunk_export) \
    X(ext_chunk_import)

#define IPC_OPS(X)    \
    X(ext_ipc_export) \
    X(ext_ipc_open)   \
    X(ext_ipc_close)

#define PEER_OPS(X) \
    X(ext_peer_add) \
    X(ext_peer_remove)

#define CAPTURE_OPS(X)  \
    X(ext_capture_last) \
    X(ext_capture_dependencies)

struct pleat_vmm {
    pleat_vmm_ops_t ops; /* operations that the caller's table lacks are NULL */
    void *self;
    uint64_t calls[PLEAT_VMM_CALL_COUNT];
    uint64_t failures[PLEAT_VMM_CALL_COUNT];
    uint64_t time_ns[PLEAT_VMM_CALL_COUNT];
    pleat_vmm_observer_fn_t observer;
    void *observer_context;
};

/* Name of the first required operation that is NULL; NULL when all are there. */
static const char *vmm_missing_op(const pleat_vmm_ops_t *ops)
{
#define CHECK_OP(operation)       \
    if (ops->operation == NULL) { \
        return #operation;        \
    }
    REQUIRED_OPS(CHECK_OP)
#undef CHECK_OP
    return NULL;
}

/* Name of an operation that is NULL while others of its group are not; NULL: every group is whole.
 */
static const char *vmm_missing_in_group(const pleat_vmm_ops_t *ops)
{
#define COUNT_OP(operation)            \
    present += ops->operation != NULL; \
    missing = ops->operation == NULL ? #operation : missing;
#define CHECK_GROUP(GROUP_OPS)                \
    do {                                      \
        unsigned present = 0;                 \
        const char *missing = NULL;           \
        GROUP_OPS(COUNT_OP)                   \
        if (present > 0 && missing != NULL) { \
            return missing;                   \
        }                                     \
    } while (0)
    CHECK_GROUP(MAPPING_OPS);
    CHECK_GROUP(FILE_OPS);
    CHECK_GROUP(IPC_OPS);
    CHECK_GROUP(PEER_OPS);
    CHECK_GROUP(CAPTURE_OPS);
#undef CHECK_GROUP
#undef COUNT_OP
    return NULL;
}

static pleat_status_t vmm_copy_ops(const pleat_vmm_ops_t *ops, pleat_vmm_ops_t *copy_out)
{
    /* A table from an older build is shorter; what it lacks stays NULL. */
    pleat_vmm_ops_t copy = {.size = sizeof copy};
    if (ops->size < offsetof(pleat_vmm_ops_t, destroy)) {
        pleat_error_set("operations table: size is %zu, at least %zu needed (set it with "
                        "PLEAT_VMM_OPS_INIT)",
                        ops->size, offsetof(pleat_vmm_ops_t, destroy));
        return PLEAT_ERR_INVALID;
    }
    memcpy(&copy, ops, ops->size < sizeof copy ? ops->size : sizeof copy);
    copy.size = sizeof copy;
    if (copy.version != PLEAT_VMM_OPS_VERSION) {
        pleat_error_set("operations table: version is %" PRIu32 ", this library knows version %u",
                        copy.version, PLEAT_VMM_OPS_VERSION);
        return PLEAT_ERR_INVALID;
    }
    if (copy.name == NULL) {
        pleat_error_set("operations table: it has no name");
        return PLEAT_ERR_INVALID;
    }
    const char *missing = vmm_missing_op(&copy);
    if (missing != NULL) {
        pleat_error_set("operations table '%s': required operation %s is missing", copy.name,
                        missing);
        return PLEAT_ERR_INVALID;
    }
    missing = vmm_missing_in_group(&copy);
    if (missing != NULL) {
        pleat_error_set("operations table '%s': %s is missing, others of its group are there",
                        copy.name, missing);
        return PLEAT_ERR_INVALID;
    }
    *copy_out = copy;
    return PLEAT_OK;
}

pleat_status_t pleat_vmm_create(const pleat_vmm_ops_t *ops, void *self, pleat_vmm_t **vmm_out)
{
    if (ops == NULL || vmm_out == NULL) {
        pleat_error_set("vmm_create: %s is NULL", ops == NULL ? "ops" : "vmm_out");
        return PLEAT_ERR_INVALID;
    }
    pleat_vmm_ops_t copy;
    const pleat_status_t status = vmm_copy_ops(ops, &copy);
    if (status != PLEAT_OK) {
        return status;
    }
    pleat_vmm_t *vmm = calloc(1, sizeof *vmm);
    if (vmm == NULL) {
        pleat_error_set("vmm_create: no host memory for a device record of %zu bytes", sizeof *vmm);
        return PLEAT_ERR_OOM_HOST;
    }
    vmm->ops = copy;
    vmm->self = self;
    *vmm_out = vmm;
    return PLEAT_OK;
}

void pleat_vmm_destroy(pleat_vmm_t *vmm)
{
    if (vmm != NULL) {
        vmm->ops.destroy(vmm->self);
        free(vmm);
    }
}

void *pleat_vmm_self(const pleat_vmm_t *vmm)
{
    return vmm == NULL ? NULL : vmm->self;
}

const char *pleat_vmm_name(const pleat_vmm_t *vmm)
{
    return vmm == NULL ? "none" : vmm->ops.name;
}

uint64_t pleat_vmm_clock_ns(pleat_vmm_t *vmm)
{
    return vmm == NULL ? 0 : vmm->ops.clock_ns(vmm->self);
}

bool pleat_vmm_is_driven_by(const pleat_vmm_t *vmm, void (*destroy)(void *self))
{
    return vmm != NULL && vmm->ops.destroy == destroy;
}

void pleat_vmm_set_observer(pleat_vmm_t *vmm, pleat_vmm_observer_fn_t observer, void *context)
{
    vmm->observer = observer;
    vmm->observer_context = context;
}

static const struct {
    const char *name;
    bool is_memory;
} call_kinds[PLEAT_VMM_CALL_COUNT] = {
#define CALL_KIND(name, text, is_memory) [PLEAT_VMM_CALL_##name] = {(text), (is_memory)},
    PLEAT_VMM_CALL_LIST(CALL_KIND)
#undef CALL_KIND
};

static bool call_is_known(pleat_vmm_call_t call)
{
    return (unsigned)call < (unsigned)PLEAT_VMM_CALL_COUNT;
}

const char *pleat_vmm_call_name(pleat_vmm_call_t call)
{
    return call_is_known(call) ? call_kinds[call].name : "unknown call";
}

bool pleat_vmm_call_is_memory(pleat_vmm_call_t call)
{
    return call_is_known(call) && call_kinds[call].is_memory;
}

void pleat_vmm_read_counters(pleat_vmm_t *vmm, pleat_vmm_counters_t *counters_out)
{
    if (vmm == NULL || counters_out == NULL || counters_out->size < sizeof counters_out->size) {
        return;
    }
    pleat_vmm_counters_t counters = PLEAT_VMM_COUNTERS_INIT;
    memcpy(counters.calls, vmm->calls, sizeof counters.calls);
    memcpy(counters.failures, vmm->failures, sizeof counters.failures);
    memcpy(counters.time_ns, vmm->time_ns, sizeof counters.time_ns);
    counters.waits = vmm->ops.wait_count(vmm->self);
    /* The caller's size stays, so that the same struct can be read into again. */
    counters.size = counters_out->size;
    memcpy(counters_out, &counters,
           counters.size < sizeof counters ? counters.size : sizeof counters);
}

/* Begin of a call: counts it and returns the time. */
static inline uint64_t vmm_begin(pleat_vmm_t *vmm, pleat_vmm_call_t call)
{
    vmm->calls[call]++;
    return vmm->ops.clock_ns(vmm->self);
}

static inline pleat_status_t vmm_end_at(pleat_vmm_t *vmm, pleat_vmm_call_t call, uint64_t begin_ns,
                                        uint64_t end_ns, pleat_status_t status)
{
    PLEAT_ASSERT(end_ns >= begin_ns);
    vmm->time_ns[call] += end_ns - begin_ns;
    if (status != PLEAT_OK &&
        !(status == PLEAT_ERR_NOT_READY && call == PLEAT_VMM_CALL_EVENT_QUERY)) {
        vmm->failures[call]++;
    }
    if (__builtin_expect(vmm->observer != NULL, 0)) {
        vmm->observer(vmm->observer_context, call, begin_ns, end_ns, status);
    }
    return status;
}

static inline pleat_status_t vmm_end(pleat_vmm_t *vmm, pleat_vmm_call_t call, uint64_t begin_ns,
                                     pleat_status_t status)
{
    return vmm_end_at(vmm, call, begin_ns, vmm->ops.clock_ns(vmm->self), status);
}

/* Kept out of line, so that the checks of the hot calls are one compare and a branch each. */
static pleat_status_t __attribute__((noinline, cold))
vmm_refuse(pleat_vmm_call_t call, const char *what)
{
    pleat_error_set("%s: %s", pleat_vmm_call_name(call), what);
    return PLEAT_ERR_INVALID;
}

pleat_status_t pleat_vmm_mem_info(pleat_vmm_t *vmm, uint64_t *free_bytes_out,
                                  uint64_t *total_bytes_out)
{
    const pleat_vmm_call_t call = PLEAT_VMM_CALL_MEM_INFO;
    if (vmm == NULL) {
        return vmm_refuse(call, "the device is NULL");
    }
    if (free_bytes_out == NULL || total_bytes_out == NULL) {
        return vmm_refuse(call, free_bytes_out == NULL ? "free_bytes_out is NULL"
                                                       : "total_bytes_out is NULL");
    }
    uint64_t free_bytes = 0;
    uint64_t total_bytes = 0;
    const uint64_t begin_ns = vmm_begin(vmm, call);
    const pleat_status_t status =
        vmm_end(vmm, call, begin_ns, vmm->ops.mem_info(vmm->self, &free_bytes, &total_bytes));
    if (status == PLEAT_OK) {
        *free_bytes_out = free_bytes;
        *total_bytes_out = total_bytes;
    }
    return status;
}

pleat_status_t pleat_vmm_mem_alloc(pleat_vmm_t *vmm, uint64_t bytes, pleat_devptr_t *ptr_out)
{
    const pleat_vmm_call_t call = PLEAT_VMM_CALL_MEM_ALLOC;
    if (vmm == NULL) {
        return vmm_refuse(call, "the device is NULL");
    }
    if (ptr_out == NULL) {
        return vmm_refuse(call, "ptr_out is NULL");
    }
    if (bytes == 0) {
        return vmm_refuse(call, "0 bytes asked for; at least 1 is needed");
    }
    pleat_devptr_t ptr = 0;
    const uint64_t begin_ns = vmm_begin(vmm, call);
    const pleat_status_t status =
        vmm_end(vmm, call, begin_ns, vmm->ops.mem_alloc(vmm->self, bytes, &ptr));
    if (status == PLEAT_OK) {
        PLEAT_ASSERT(ptr != 0);
        *ptr_out = ptr;
    }
    return status;
}

bool pleat_vmm_allocates_apart(const pleat_vmm_t *vmm)
{
    return vmm->ops.ext_mem_alloc_apart != NULL;
}

void pleat_vmm_apart_begin(pleat_vmm_t *vmm, uint64_t bytes, pleat_vmm_apart_t *apart_out)
{
    PLEAT_ASSERT(pleat_vmm_allocates_apart(vmm));
    PLEAT_ASSERT(bytes > 0);
    *apart_out =
        (pleat_vmm_apart_t){.bytes = bytes, .begin_ns = vmm_begin(vmm, PLEAT_VMM_CALL_MEM_ALLOC)};
}

void pleat_vmm_apart_run(const pleat_vmm_t *vmm, pleat_vmm_apart_t *apart)
{
    apart->status = vmm->ops.ext_mem_alloc_apart(vmm->self, apart->bytes, &apart->ptr);
    apart->end_ns = vmm->ops.clock_ns(vmm->self);
}

pleat_status_t pleat_vmm_apart_end(pleat_vmm_t *vmm, const pleat_vmm_apart_t *apart,
                                   pleat_devptr_t *ptr_out)
{
    const pleat_status_t status =
        vmm_end_at(vmm, PLEAT_VMM_CALL_MEM_ALLOC, apart->begin_ns, apart->end_ns, apart->status);
    if (status == PLEAT_OK) {
        PLEAT_ASSERT(apart->ptr != 0);
        *ptr_out = apart->ptr;
    }
    return status;
}

pleat_status_t pleat_vmm_mem_free(pleat_vmm_t *vmm, pleat_devptr_t ptr)
{
    const pleat_vmm_call_t call = PLEAT_VMM_CALL_MEM_FREE;
    if (vmm == NULL) {
        return vmm_refuse(call, "the device is NULL");
    }
    if (ptr == 0) {
        (void)vmm_refuse(call, "the address is 0");
        return PLEAT_ERR_INVALID_POINTER;
    }
    const uint64_t begin_ns = vmm_begin(vmm, call);
    return vmm_end(vmm, call, begin_ns, vmm->ops.mem_free(vmm->self, ptr));
}

pleat_status_t pleat_vmm_event_create(pleat_vmm_t *vmm, pleat_event_t *event_out)
{
    const pleat_vmm_call_t call = PLEAT_VMM_CALL_EVENT_CREATE;
    if (vmm == NULL) {
        return vmm_refuse(call, "the device is NULL");
    }
    if (event_out == NULL) {
        return vmm_refuse(call, "event_out is NULL");
    }
    pleat_event_t event = 0;
    const uint64_t begin_ns = vmm_begin(vmm, call);
    const pleat_status_t status =
        vmm_end(vmm, call, begin_ns, vmm->ops.event_create(vmm->self, &event));
    if (status == PLEAT_OK) {
        PLEAT_ASSERT(event != 0);
        *event_out = event;
    }
    return status;
}

/* Is there something wrong with the arguments that every call on an event has? */
static inline const char *vmm_event_fault(const pleat_vmm_t *vmm, pleat_event_t event)
{
    if (vmm == NULL) {
        return "the device is NULL";
    }
    return event == 0 ? "the event is 0" : NULL;
}

/* A call on one event and nothing else. */
#define EVENT_CALL(kind, operation)                                  \
    const char *fault = vmm_event_fault(vmm, event);                 \
    if (fault != NULL) {                                             \
        return vmm_refuse(PLEAT_VMM_CALL_##kind, fault);             \
    }                                                                \
    const uint64_t begin_ns = vmm_begin(vmm, PLEAT_VMM_CALL_##kind); \
    return vmm_end(vmm, PLEAT_VMM_CALL_##kind, begin_ns, (operation))

pleat_status_t pleat_vmm_event_destroy(pleat_vmm_t *vmm, pleat_event_t event)
{
    EVENT_CALL(EVENT_DESTROY, vmm->ops.event_destroy(vmm->self, event));
}

pleat_status_t pleat_vmm_event_record(pleat_vmm_t *vmm, pleat_event_t event, pleat_stream_t stream)
{
    EVENT_CALL(EVENT_RECORD, vmm->ops.event_record(vmm->self, event, stream));
}

pleat_status_t pleat_vmm_event_query(pleat_vmm_t *vmm, pleat_event_t event)
{
    EVENT_CALL(EVENT_QUERY, vmm->ops.event_query(vmm->self, event));
}

pleat_status_t pleat_vmm_event_synchronize(pleat_vmm_t *vmm, pleat_event_t event)
{
    EVENT_CALL(EVENT_SYNCHRONIZE, vmm->ops.event_synchronize(vmm->self, event));
}

pleat_status_t pleat_vmm_stream_wait_event(pleat_vmm_t *vmm, pleat_stream_t stream,
                                           pleat_event_t event)
{
    EVENT_CALL(STREAM_WAIT_EVENT, vmm->ops.stream_wait_event(vmm->self, stream, event));
}

pleat_status_t pleat_vmm_stream_synchronize(pleat_vmm_t *vmm, pleat_stream_t stream)
{
    const pleat_vmm_call_t call = PLEAT_VMM_CALL_STREAM_SYNCHRONIZE;
    if (vmm == NULL) {
        return vmm_refuse(call, "the device is NULL");
    }
    const uint64_t begin_ns = vmm_begin(vmm, call);
    return vmm_end(vmm, call, begin_ns, vmm->ops.stream_synchronize(vmm->self, stream));
}

/* ---- virtual memory ---- */

bool pleat_vmm_has_mapping(const pleat_vmm_t *vmm)
{
    return vmm != NULL && vmm->ops.ext_map != NULL;
}

/* Is there something wrong with the device or an output of a call of virtual memory? */
static pleat_status_t vmm_begin_mapping(const pleat_vmm_t *vmm, const char *name, bool has_output)
{
    if (vmm == NULL || !has_output) {
        pleat_error_set("%s: the %s is NULL", name, vmm == NULL ? "device" : "output");
        return PLEAT_ERR_INVALID;
    }
    if (vmm->ops.ext_map == NULL) {
        pleat_error_set("%s: device '%s' has no virtual memory", name, vmm->ops.name);
        return PLEAT_ERR_UNSUPPORTED;
    }
    return PLEAT_OK;
}

/* A call of virtual memory without an output. */
#define MAPPING_CALL(kind, operation)                                             \
    const pleat_status_t refused =                                                \
        vmm_begin_mapping(vmm, pleat_vmm_call_name(PLEAT_VMM_CALL_##kind), true); \
    if (refused != PLEAT_OK) {                                                    \
        return refused;                                                           \
    }                                                                             \
    const uint64_t begin_ns = vmm_begin(vmm, PLEAT_VMM_CALL_##kind);              \
    return vmm_end(vmm, PLEAT_VMM_CALL_##kind, begin_ns, (operation))

/* A call of virtual memory whose one output is a handle or an address. */
#define MAPPING_MAKE(kind, output, operation)                                                 \
    pleat_status_t status =                                                                   \
        vmm_begin_mapping(vmm, pleat_vmm_call_name(PLEAT_VMM_CALL_##kind), (output) != NULL); \
    if (status != PLEAT_OK) {                                                                 \
        return status;                                                                        \
    }                                                                                         \
    uint64_t made = 0;                                                                        \
    const uint64_t begin_ns = vmm_begin(vmm, PLEAT_VMM_CALL_##kind);                          \
    status = vmm_end(vmm, PLEAT_VMM_CALL_##kind, begin_ns, (operation));                      \
    if (status == PLEAT_OK) {                                                                 \
        PLEAT_ASSERT(made != 0);                                                              \
        *(output) = made;                                                                     \
    }                                                                                         \
    return status

pleat_status_t pleat_vmm_granularity(pleat_vmm_t *vmm, uint64_t *bytes_out)
{
    pleat_status_t status = vmm_begin_mapping(vmm, "granularity", bytes_out != NULL);
    if (status != PLEAT_OK) {
        return status;
    }
    uint64_t bytes = 0;
    status = vmm->ops.ext_granularity(vmm->self, &bytes);
    if (status == PLEAT_OK) {
        PLEAT_ASSERT(pleat_is_power_of_two(bytes));
        *bytes_out = bytes;
    }
    return status;
}

pleat_status_t pleat_vmm_address_reserve(pleat_vmm_t *vmm, uint64_t bytes, pleat_devptr_t *ptr_out)
{
    MAPPING_MAKE(ADDRESS_RESERVE, ptr_out, vmm->ops.ext_address_reserve(vmm->self, bytes, &made));
}

pleat_status_t pleat_vmm_address_free(pleat_vmm_t *vmm, pleat_devptr_t ptr, uint64_t bytes)
{
    MAPPING_CALL(ADDRESS_FREE, vmm->ops.ext_address_free(vmm->self, ptr, bytes));
}

pleat_status_t pleat_vmm_chunk_create(pleat_vmm_t *vmm, uint64_t bytes, pleat_chunk_t *chunk_out)
{
    MAPPING_MAKE(CHUNK_CREATE, chunk_out, vmm->ops.ext_chunk_create(vmm->self, bytes, &made));
}

pleat_status_t pleat_vmm_chunk_release(pleat_vmm_t *vmm, pleat_chunk_t chunk)
{
    MAPPING_CALL(CHUNK_RELEASE, vmm->ops.ext_chunk_release(vmm->self, chunk));
}

pleat_status_t pleat_vmm_map(pleat_vmm_t *vmm, pleat_devptr_t ptr, uint64_t bytes,
                             pleat_chunk_t chunk)
{
    MAPPING_CALL(MAP, vmm->ops.ext_map(vmm->self, ptr, bytes, chunk));
}

pleat_status_t pleat_vmm_unmap(pleat_vmm_t *vmm, pleat_devptr_t ptr, uint64_t bytes)
{
    MAPPING_CALL(UNMAP, vmm->ops.ext_unmap(vmm->self, ptr, bytes));
}

pleat_status_t pleat_vmm_set_access(pleat_vmm_t *vmm, pleat_devptr_t ptr, uint64_t bytes)
{
    MAPPING_CALL(SET_ACCESS, vmm->ops.ext_set_access(vmm->self, ptr, bytes));
}

/* ---- other processes and devices ---- */

/* Is there something wrong with the device of a call, or has it no such operation? */
static pleat_status_t vmm_begin_share(const pleat_vmm_t *vmm, pleat_vmm_call_t call, bool has_group)
{
    if (vmm == NULL) {
        return vmm_refuse(call, "the device is NULL");
    }
    if (!has_group) {
        pleat_error_set("%s: device '%s' does not have it", pleat_vmm_call_name(call),
                        vmm->ops.name);
        return PLEAT_ERR_UNSUPPORTED;
    }
    return PLEAT_OK;
}

/* Begin of a call of an optional group: returns what is refused. */
#define SHARE_BEGIN(kind, operation)                                                            \
    pleat_status_t status =                                                                     \
        vmm_begin_share(vmm, PLEAT_VMM_CALL_##kind, vmm != NULL && vmm->ops.operation != NULL); \
    if (status != PLEAT_OK) {                                                                   \
        return status;                                                                          \
    }

/* The call itself, with arguments that passed. */
#define SHARE_CALL(kind, call)                                           \
    do {                                                                 \
        const uint64_t begin_ns = vmm_begin(vmm, PLEAT_VMM_CALL_##kind); \
        status = vmm_end(vmm, PLEAT_VMM_CALL_##kind, begin_ns, (call));  \
    } while (0)

pleat_status_t pleat_vmm_chunk_export(pleat_vmm_t *vmm, pleat_chunk_t chunk, int *file_out)
{
    SHARE_BEGIN(CHUNK_EXPORT, ext_chunk_export);
    if (file_out == NULL) {
        return vmm_refuse(PLEAT_VMM_CALL_CHUNK_EXPORT, "file_out is NULL");
    }
    int file = -1;
    SHARE_CALL(CHUNK_EXPORT, vmm->ops.ext_chunk_export(vmm->self, chunk, &file));
    if (status == PLEAT_OK) {
        PLEAT_ASSERT(file >= 0);
        *file_out = file;
    }
    return status;
}

pleat_status_t pleat_vmm_chunk_import(pleat_vmm_t *vmm, int file, pleat_chunk_t *chunk_out)
{
    SHARE_BEGIN(CHUNK_IMPORT, ext_chunk_import);
    if (chunk_out == NULL || file < 0) {
        return vmm_refuse(PLEAT_VMM_CALL_CHUNK_IMPORT,
                          chunk_out == NULL ? "chunk_out is NULL" : "the descriptor is negative");
    }
    pleat_chunk_t chunk = 0;
    SHARE_CALL(CHUNK_IMPORT, vmm->ops.ext_chunk_import(vmm->self, file, &chunk));
    if (status == PLEAT_OK) {
        PLEAT_ASSERT(chunk != 0);
        *chunk_out = chunk;
    }
    return status;
}

pleat_status_t pleat_vmm_ipc_export(pleat_vmm_t *vmm, pleat_devptr_t ptr,
                                    pleat_ipc_handle_t *handle_out)
{
    SHARE_BEGIN(IPC_EXPORT, ext_ipc_export);
    if (handle_out == NULL || ptr == 0) {
        (void)vmm_refuse(PLEAT_VMM_CALL_IPC_EXPORT,
                         handle_out == NULL ? "handle_out is NULL" : "the address is 0");
        return handle_out == NULL ? PLEAT_ERR_INVALID : PLEAT_ERR_INVALID_POINTER;
    }
    pleat_ipc_handle_t handle = {{0}};
    SHARE_CALL(IPC_EXPORT, vmm->ops.ext_ipc_export(vmm->self, ptr, &handle));
    if (status == PLEAT_OK) {
        *handle_out = handle;
    }
    return status;
}

pleat_status_t pleat_vmm_ipc_open(pleat_vmm_t *vmm, const pleat_ipc_handle_t *handle,
                                  pleat_devptr_t *ptr_out)
{
    SHARE_BEGIN(IPC_OPEN, ext_ipc_open);
    if (handle == NULL || ptr_out == NULL) {
        return vmm_refuse(PLEAT_VMM_CALL_IPC_OPEN,
                          handle == NULL ? "the handle is NULL" : "ptr_out is NULL");
    }
    pleat_devptr_t ptr = 0;
    SHARE_CALL(IPC_OPEN, vmm->ops.ext_ipc_open(vmm->self, handle, &ptr));
    if (status == PLEAT_OK) {
        PLEAT_ASSERT(ptr != 0);
        *ptr_out = ptr;
    }
    return status;
}

pleat_status_t pleat_vmm_ipc_close(pleat_vmm_t *vmm, pleat_devptr_t ptr)
{
    SHARE_BEGIN(IPC_CLOSE, ext_ipc_close);
    SHARE_CALL(IPC_CLOSE, vmm->ops.ext_ipc_close(vmm->self, ptr));
    return status;
}

pleat_status_t pleat_vmm_peer_add(pleat_vmm_t *vmm, int device)
{
    SHARE_BEGIN(PEER_ADD, ext_peer_add);
    SHARE_CALL(PEER_ADD, vmm->ops.ext_peer_add(vmm->self, device));
    return status;
}

pleat_status_t pleat_vmm_peer_remove(pleat_vmm_t *vmm, int device)
{
    SHARE_BEGIN(PEER_REMOVE, ext_peer_remove);
    SHARE_CALL(PEER_REMOVE, vmm->ops.ext_peer_remove(vmm->self, device));
    return status;
}

/* ---- captures ---- */

bool pleat_vmm_knows_captures(const pleat_vmm_t *vmm)
{
    return vmm->ops.ext_capture_last != NULL;
}

pleat_status_t pleat_vmm_capture_last(pleat_vmm_t *vmm, pleat_stream_t stream, size_t capacity,
                                      pleat_node_t *nodes_out, size_t *count_out,
                                      uint64_t *capture_out)
{
    PLEAT_ASSERT(pleat_vmm_knows_captures(vmm));
    return vmm->ops.ext_capture_last(vmm->self, stream, capacity, nodes_out, count_out,
                                     capture_out);
}

pleat_status_t pleat_vmm_capture_dependencies(pleat_vmm_t *vmm, pleat_node_t node, size_t capacity,
                                              pleat_node_t *nodes_out, size_t *count_out)
{
    PLEAT_ASSERT(pleat_vmm_knows_captures(vmm));
    return vmm->ops.ext_capture_dependencies(vmm->self, node, capacity, nodes_out, count_out);
}
