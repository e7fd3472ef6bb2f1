/*
 * Tests of vmm: what pleat_vmm_* do before and after an operations table is called, on a table
 * whose operations only note that they were called.
 */
#include "vmm/vmm.h"

#include "host_fault.h"

#include <stddef.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

typedef struct fake {
    uint64_t clock_ns;
    uint64_t called;
    uint64_t destroyed;
    pleat_stream_t stream;
    pleat_devptr_t ptr; /* of the last call on virtual memory */
    uint64_t bytes;
    pleat_chunk_t chunk;
    pleat_status_t status; /* what every operation returns */
} fake_t;

static pleat_status_t fake_call(void *self)
{
    fake_t *fake = self;
    fake->called++;
    fake->clock_ns += 100;
    return fake->status;
}

static void fake_destroy(void *self)
{
    ((fake_t *)self)->destroyed++;
}

static uint64_t fake_clock_ns(void *self)
{
    return ((fake_t *)self)->clock_ns;
}

static uint64_t fake_wait_count(void *self)
{
    (void)self;
    return 42;
}

static pleat_status_t fake_mem_info(void *self, uint64_t *free_out, uint64_t *total_out)
{
    *free_out = 10;
    *total_out = 20;
    return fake_call(self);
}

static pleat_status_t fake_mem_alloc(void *self, uint64_t bytes, pleat_devptr_t *ptr_out)
{
    *ptr_out = 4096 + bytes;
    return fake_call(self);
}

static pleat_status_t fake_mem_free(void *self, pleat_devptr_t ptr)
{
    (void)ptr;
    return fake_call(self);
}

static pleat_status_t fake_event_create(void *self, pleat_event_t *event_out)
{
    *event_out = 5;
    return fake_call(self);
}

static pleat_status_t fake_event(void *self, pleat_event_t event)
{
    (void)event;
    return fake_call(self);
}

static pleat_status_t fake_event_record(void *self, pleat_event_t event, pleat_stream_t stream)
{
    (void)event;
    ((fake_t *)self)->stream = stream;
    return fake_call(self);
}

static pleat_status_t fake_wait_event(void *self, pleat_stream_t stream, pleat_event_t event)
{
    return fake_event_record(self, event, stream);
}

static pleat_status_t fake_synchronize(void *self, pleat_stream_t stream)
{
    ((fake_t *)self)->stream = stream;
    return fake_call(self);
}

static pleat_status_t fake_granularity(void *self, uint64_t *bytes_out)
{
    *bytes_out = 4096;
    return ((fake_t *)self)->status;
}

static pleat_status_t fake_make(void *self, uint64_t bytes, uint64_t *made_out)
{
    *made_out = 4096 + bytes;
    return fake_call(self);
}

static pleat_status_t fake_span(void *self, pleat_devptr_t ptr, uint64_t bytes)
{
    fake_t *fake = self;
    fake->ptr = ptr;
    fake->bytes = bytes;
    return fake_call(self);
}

static pleat_status_t fake_map(void *self, pleat_devptr_t ptr, uint64_t bytes, pleat_chunk_t chunk)
{
    ((fake_t *)self)->chunk = chunk;
    return fake_span(self, ptr, bytes);
}

static pleat_status_t fake_release(void *self, pleat_chunk_t chunk)
{
    ((fake_t *)self)->chunk = chunk;
    return fake_call(self);
}

static pleat_status_t fake_export(void *self, pleat_chunk_t chunk, int *file_out)
{
    *file_out = 9;
    return fake_release(self, chunk);
}

static pleat_status_t fake_import(void *self, int file, pleat_chunk_t *chunk_out)
{
    return fake_make(self, (uint64_t)file, chunk_out);
}

static pleat_status_t fake_ipc_export(void *self, pleat_devptr_t ptr,
                                      pleat_ipc_handle_t *handle_out)
{
    handle_out->bytes[63] = (unsigned char)ptr;
    return fake_call(self);
}

static pleat_status_t fake_ipc_open(void *self, const pleat_ipc_handle_t *handle,
                                    pleat_devptr_t *ptr_out)
{
    return fake_make(self, handle->bytes[63], ptr_out);
}

static pleat_status_t fake_peer(void *self, int device)
{
    return fake_release(self, (pleat_chunk_t)device);
}

static pleat_status_t fake_capture_last(void *self, pleat_stream_t stream, size_t capacity,
                                        pleat_node_t *nodes_out, size_t *count_out,
                                        uint64_t *capture_out)
{
    (void)stream;
    (void)capacity;
    (void)nodes_out;
    *count_out = 0;
    *capture_out = 0;
    return fake_call(self);
}

static pleat_status_t fake_capture_dependencies(void *self, pleat_node_t node, size_t capacity,
                                                pleat_node_t *nodes_out, size_t *count_out)
{
    (void)node;
    (void)capacity;
    (void)nodes_out;
    *count_out = 0;
    return fake_call(self);
}

static pleat_vmm_ops_t fake_ops(void)
{
    return (pleat_vmm_ops_t){
        PLEAT_VMM_OPS_INIT("fake"),
        .destroy = fake_destroy,
        .clock_ns = fake_clock_ns,
        .wait_count = fake_wait_count,
        .mem_info = fake_mem_info,
        .mem_alloc = fake_mem_alloc,
        .mem_free = fake_mem_free,
        .event_create = fake_event_create,
        .event_destroy = fake_event,
        .event_record = fake_event_record,
        .event_query = fake_event,
        .event_synchronize = fake_event,
        .stream_wait_event = fake_wait_event,
        .stream_synchronize = fake_synchronize,
        .ext_granularity = fake_granularity,
        .ext_address_reserve = fake_make,
        .ext_address_free = fake_span,
        .ext_chunk_create = fake_make,
        .ext_chunk_release = fake_release,
        .ext_map = fake_map,
        .ext_unmap = fake_span,
        .ext_set_access = fake_span,
        .ext_chunk_export = fake_export,
        .ext_chunk_import = fake_import,
        .ext_ipc_export = fake_ipc_export,
        .ext_ipc_open = fake_ipc_open,
        .ext_ipc_close = fake_mem_free,
        .ext_peer_add = fake_peer,
        .ext_peer_remove = fake_peer,
        .ext_capture_last = fake_capture_last,
        .ext_capture_dependencies = fake_capture_dependencies,
    };
}

/* A table of a device without virtual memory. */
static pleat_vmm_ops_t plain_ops(void)
{
    pleat_vmm_ops_t ops = fake_ops();
    ops.ext_granularity = NULL;
    ops.ext_address_reserve = NULL;
    ops.ext_address_free = NULL;
    ops.ext_chunk_create = NULL;
    ops.ext_chunk_release = NULL;
    ops.ext_map = NULL;
    ops.ext_unmap = NULL;
    ops.ext_set_access = NULL;
    return ops;
}

static pleat_vmm_t *fake_device(fake_t *fake)
{
    const pleat_vmm_ops_t ops = fake_ops();
    pleat_vmm_t *vmm = NULL;
    cr_assert(eq(int, pleat_vmm_create(&ops, fake, &vmm), PLEAT_OK));
    return vmm;
}

static void expect_refused(pleat_status_t status, pleat_status_t want, const char *part)
{
    cr_expect(eq(int, status, want));
    cr_expect(ne(ptr, strstr(pleat_last_error(), part), NULL), "'%s' lacks '%s'",
              pleat_last_error(), part);
}

static void expect_create_refused(const pleat_vmm_ops_t *ops, const char *part)
{
    fake_t fake = {.status = PLEAT_OK};
    pleat_vmm_t *vmm = NULL;
    expect_refused(pleat_vmm_create(ops, &fake, &vmm), PLEAT_ERR_INVALID, part);
    cr_expect(eq(ptr, vmm, NULL));
    cr_expect(eq(u64, fake.destroyed, 0));
}

Test(vmm, create_names_each_missing_operation, .timeout = 10)
{
#define CHECK_MISSING(operation)                                            \
    do {                                                                    \
        pleat_vmm_ops_t ops = fake_ops();                                   \
        ops.operation = NULL;                                               \
        expect_create_refused(&ops, "operation " #operation " is missing"); \
    } while (0)
    CHECK_MISSING(destroy);
    CHECK_MISSING(clock_ns);
    CHECK_MISSING(wait_count);
    CHECK_MISSING(mem_info);
    CHECK_MISSING(mem_alloc);
    CHECK_MISSING(mem_free);
    CHECK_MISSING(event_create);
    CHECK_MISSING(event_destroy);
    CHECK_MISSING(event_record);
    CHECK_MISSING(event_query);
    CHECK_MISSING(event_synchronize);
    CHECK_MISSING(stream_wait_event);
    CHECK_MISSING(stream_synchronize);
}

Test(vmm, create_wants_each_group_whole_or_not_at_all, .timeout = 10)
{
#define CHECK_GROUP(operation)                                                                \
    do {                                                                                      \
        pleat_vmm_ops_t ops = fake_ops();                                                     \
        ops.operation = NULL;                                                                 \
        expect_create_refused(&ops, #operation " is missing, others of its group are there"); \
    } while (0)
    CHECK_GROUP(ext_granularity);
    CHECK_GROUP(ext_address_reserve);
    CHECK_GROUP(ext_address_free);
    CHECK_GROUP(ext_chunk_create);
    CHECK_GROUP(ext_chunk_release);
    CHECK_GROUP(ext_map);
    CHECK_GROUP(ext_unmap);
    CHECK_GROUP(ext_set_access);
    CHECK_GROUP(ext_chunk_export);
    CHECK_GROUP(ext_chunk_import);
    CHECK_GROUP(ext_ipc_export);
    CHECK_GROUP(ext_ipc_open);
    CHECK_GROUP(ext_ipc_close);
    CHECK_GROUP(ext_peer_add);
    CHECK_GROUP(ext_peer_remove);
    CHECK_GROUP(ext_capture_last);
    CHECK_GROUP(ext_capture_dependencies);
    pleat_vmm_ops_t ops = fake_ops();
    ops.size = offsetof(pleat_vmm_ops_t, ext_set_access);
    expect_create_refused(&ops, "ext_set_access is missing");
}

Test(vmm, a_device_without_virtual_memory_says_so, .timeout = 10)
{
    pleat_vmm_ops_t tables[2] = {plain_ops(), fake_ops()};
    tables[1].size = offsetof(pleat_vmm_ops_t, ext_granularity); /* from before there was one */
    for (int i = 0; i < 2; i++) {
        fake_t fake = {.status = PLEAT_OK};
        pleat_vmm_t *vmm = NULL;
        uint64_t a = 7;
        cr_assert(eq(int, pleat_vmm_create(&tables[i], &fake, &vmm), PLEAT_OK));
        cr_expect(not(pleat_vmm_has_mapping(vmm)));
        const pleat_status_t bad = PLEAT_ERR_UNSUPPORTED;
        expect_refused(pleat_vmm_granularity(vmm, &a), bad, "device 'fake' has no virtual memory");
        expect_refused(pleat_vmm_address_reserve(vmm, 1, &a), bad, "address_reserve: device");
        expect_refused(pleat_vmm_address_free(vmm, 1, 1), bad, "address_free: device");
        expect_refused(pleat_vmm_chunk_create(vmm, 1, &a), bad, "chunk_create: device");
        expect_refused(pleat_vmm_chunk_release(vmm, 1), bad, "chunk_release: device");
        expect_refused(pleat_vmm_map(vmm, 1, 1, 1), bad, "map: device");
        expect_refused(pleat_vmm_unmap(vmm, 1, 1), bad, "unmap: device");
        expect_refused(pleat_vmm_set_access(vmm, 1, 1), bad, "set_access: device");
        cr_expect(eq(u64, a, 7));
        cr_expect(eq(u64, fake.called, 0));
        pleat_vmm_counters_t counters = PLEAT_VMM_COUNTERS_INIT;
        pleat_vmm_read_counters(vmm, &counters);
        cr_expect(eq(u64, counters.calls[PLEAT_VMM_CALL_MAP], 0));
        pleat_vmm_destroy(vmm);
    }
}

Test(vmm, arguments_of_virtual_memory_arrive, .timeout = 10)
{
    fake_t fake = {.status = PLEAT_OK};
    pleat_vmm_t *vmm = fake_device(&fake);
    uint64_t granularity = 0;
    pleat_devptr_t ptr = 0;
    pleat_chunk_t chunk = 0;
    cr_expect(pleat_vmm_has_mapping(vmm));
    cr_expect(not(pleat_vmm_has_mapping(NULL)));
    cr_expect(eq(int, pleat_vmm_granularity(vmm, &granularity), PLEAT_OK));
    cr_expect(eq(u64, granularity, 4096));
    cr_expect(eq(u64, fake.called, 0), "granularity is no counted call");
    cr_expect(eq(int, pleat_vmm_address_reserve(vmm, 1, &ptr), PLEAT_OK));
    cr_expect(eq(u64, ptr, 4097));
    cr_expect(eq(int, pleat_vmm_chunk_create(vmm, 2, &chunk), PLEAT_OK));
    cr_expect(eq(u64, chunk, 4098));
    cr_expect(eq(int, pleat_vmm_map(vmm, 11, 12, 13), PLEAT_OK));
    cr_expect(eq(u64, fake.ptr, 11));
    cr_expect(eq(u64, fake.bytes, 12));
    cr_expect(eq(u64, fake.chunk, 13));
    cr_expect(eq(int, pleat_vmm_set_access(vmm, 21, 22), PLEAT_OK));
    cr_expect(eq(u64, fake.ptr + fake.bytes, 43));
    cr_expect(eq(int, pleat_vmm_unmap(vmm, 31, 32), PLEAT_OK));
    cr_expect(eq(u64, fake.ptr + fake.bytes, 63));
    cr_expect(eq(int, pleat_vmm_address_free(vmm, 41, 42), PLEAT_OK));
    cr_expect(eq(u64, fake.ptr + fake.bytes, 83));
    cr_expect(eq(int, pleat_vmm_chunk_release(vmm, 51), PLEAT_OK));
    cr_expect(eq(u64, fake.chunk, 51));
    pleat_vmm_destroy(vmm);
}

Test(vmm, a_device_that_shares_nothing_says_so, .timeout = 10)
{
    pleat_vmm_ops_t ops = fake_ops();
    ops.size = offsetof(pleat_vmm_ops_t, ext_chunk_export);
    fake_t fake = {.status = PLEAT_OK};
    pleat_vmm_t *vmm = NULL;
    cr_assert(eq(int, pleat_vmm_create(&ops, &fake, &vmm), PLEAT_OK));
    cr_expect(pleat_vmm_has_mapping(vmm));
    uint64_t made = 7;
    int file = 7;
    pleat_ipc_handle_t handle = {{7}};
    const pleat_status_t bad = PLEAT_ERR_UNSUPPORTED;
    expect_refused(pleat_vmm_chunk_export(vmm, 1, &file), bad,
                   "chunk_export: device 'fake' does not have it");
    expect_refused(pleat_vmm_chunk_import(vmm, 1, &made), bad, "chunk_import: device");
    expect_refused(pleat_vmm_ipc_export(vmm, 1, &handle), bad, "ipc_export: device");
    expect_refused(pleat_vmm_ipc_open(vmm, &handle, &made), bad, "ipc_open: device");
    expect_refused(pleat_vmm_ipc_close(vmm, 1), bad, "ipc_close: device");
    expect_refused(pleat_vmm_peer_add(vmm, 1), bad, "peer_add: device");
    expect_refused(pleat_vmm_peer_remove(vmm, 1), bad, "peer_remove: device");
    cr_expect(eq(u64, made, 7));
    cr_expect(eq(int, file, 7));
    cr_expect(eq(int, handle.bytes[0], 7));
    cr_expect(eq(u64, fake.called, 0));
    pleat_vmm_destroy(vmm);
}

Test(vmm, arguments_of_sharing_arrive, .timeout = 10)
{
    fake_t fake = {.status = PLEAT_OK};
    pleat_vmm_t *vmm = fake_device(&fake);
    uint64_t made = 0;
    int file = 0;
    pleat_ipc_handle_t handle = {{0}};
    cr_expect(eq(int, pleat_vmm_chunk_export(vmm, 11, &file), PLEAT_OK));
    cr_expect(eq(u64, fake.chunk, 11));
    cr_expect(eq(int, file, 9));
    cr_expect(eq(int, pleat_vmm_chunk_import(vmm, 12, &made), PLEAT_OK));
    cr_expect(eq(u64, made, 4108));
    cr_expect(eq(int, pleat_vmm_ipc_export(vmm, 13, &handle), PLEAT_OK));
    cr_expect(eq(int, handle.bytes[63], 13));
    cr_expect(eq(int, pleat_vmm_ipc_open(vmm, &handle, &made), PLEAT_OK));
    cr_expect(eq(u64, made, 4109));
    cr_expect(eq(int, pleat_vmm_peer_add(vmm, 14), PLEAT_OK));
    cr_expect(eq(u64, fake.chunk, 14));
    cr_expect(eq(int, pleat_vmm_peer_remove(vmm, 15), PLEAT_OK));
    cr_expect(eq(u64, fake.chunk, 15));
    pleat_vmm_destroy(vmm);
}

Test(vmm, create_refuses_a_table_without_size_version_or_name, .timeout = 10)
{
    pleat_vmm_ops_t ops = fake_ops();
    ops.size = 8;
    expect_create_refused(&ops, "size is 8");
    ops = fake_ops();
    ops.version = 9;
    expect_create_refused(&ops, "version is 9");
    ops = fake_ops();
    ops.name = NULL;
    expect_create_refused(&ops, "no name");
    expect_create_refused(NULL, "ops is NULL");
    ops = fake_ops();
    expect_refused(pleat_vmm_create(&ops, NULL, NULL), PLEAT_ERR_INVALID, "vmm_out is NULL");
}

Test(vmm, create_takes_what_a_short_table_lacks_as_missing, .timeout = 10)
{
    pleat_vmm_ops_t ops = fake_ops();
    ops.size = offsetof(pleat_vmm_ops_t, stream_synchronize);
    expect_create_refused(&ops, "operation stream_synchronize is missing");
}

Test(vmm, create_accepts_a_longer_table, .timeout = 10)
{
    struct {
        pleat_vmm_ops_t ops;
        void *later;
    } table = {.ops = fake_ops(), .later = NULL};
    table.ops.size = sizeof table;
    fake_t fake = {.status = PLEAT_OK};
    pleat_vmm_t *vmm = NULL;
    cr_assert(eq(int, pleat_vmm_create(&table.ops, &fake, &vmm), PLEAT_OK));
    pleat_vmm_destroy(vmm);
    cr_expect(eq(u64, fake.destroyed, 1));
}

Test(vmm, create_without_host_memory_fails, .timeout = 10)
{
    const pleat_vmm_ops_t ops = fake_ops();
    fake_t fake = {.status = PLEAT_OK};
    pleat_vmm_t *vmm = NULL;
    host_fault_after(1);
    expect_refused(pleat_vmm_create(&ops, &fake, &vmm), PLEAT_ERR_OOM_HOST, "host memory");
    cr_expect(eq(ptr, vmm, NULL));
}

Test(vmm, device_knows_its_name_and_self, .timeout = 10)
{
    fake_t fake = {.status = PLEAT_OK, .clock_ns = 77};
    pleat_vmm_t *vmm = fake_device(&fake);
    cr_expect(eq(str, (char *)pleat_vmm_name(vmm), "fake"));
    cr_expect(eq(ptr, pleat_vmm_self(vmm), &fake));
    cr_expect(eq(u64, pleat_vmm_clock_ns(vmm), 77));
    pleat_vmm_destroy(vmm);
}

Test(vmm, no_device_is_no_crash, .timeout = 10)
{
    pleat_vmm_counters_t counters = PLEAT_VMM_COUNTERS_INIT;
    pleat_vmm_destroy(NULL);
    cr_expect(eq(ptr, pleat_vmm_self(NULL), NULL));
    cr_expect(eq(str, (char *)pleat_vmm_name(NULL), "none"));
    cr_expect(eq(u64, pleat_vmm_clock_ns(NULL), 0));
    pleat_vmm_read_counters(NULL, &counters);
}

Test(vmm, kinds_of_call_have_names, .timeout = 10)
{
#define CHECK_KIND(name, text, is_memory)                                         \
    cr_expect(eq(str, (char *)pleat_vmm_call_name(PLEAT_VMM_CALL_##name), text)); \
    cr_expect(eq(int, pleat_vmm_call_is_memory(PLEAT_VMM_CALL_##name), is_memory));
    PLEAT_VMM_CALL_LIST(CHECK_KIND)
#undef CHECK_KIND
    cr_expect(eq(str, (char *)pleat_vmm_call_name(PLEAT_VMM_CALL_COUNT), "unknown call"));
    cr_expect(not(pleat_vmm_call_is_memory(PLEAT_VMM_CALL_COUNT)));
}

/* One call of each kind, in the order of the list. */
static void call_all(pleat_vmm_t *vmm, pleat_status_t *statuses)
{
    uint64_t a = 0;
    uint64_t b = 0;
    statuses[PLEAT_VMM_CALL_MEM_ALLOC] = pleat_vmm_mem_alloc(vmm, 512, &a);
    statuses[PLEAT_VMM_CALL_MEM_FREE] = pleat_vmm_mem_free(vmm, 4608);
    statuses[PLEAT_VMM_CALL_MEM_INFO] = pleat_vmm_mem_info(vmm, &a, &b);
    statuses[PLEAT_VMM_CALL_EVENT_CREATE] = pleat_vmm_event_create(vmm, &a);
    statuses[PLEAT_VMM_CALL_EVENT_DESTROY] = pleat_vmm_event_destroy(vmm, 5);
    statuses[PLEAT_VMM_CALL_EVENT_RECORD] = pleat_vmm_event_record(vmm, 5, 3);
    statuses[PLEAT_VMM_CALL_EVENT_QUERY] = pleat_vmm_event_query(vmm, 5);
    statuses[PLEAT_VMM_CALL_EVENT_SYNCHRONIZE] = pleat_vmm_event_synchronize(vmm, 5);
    statuses[PLEAT_VMM_CALL_STREAM_WAIT_EVENT] = pleat_vmm_stream_wait_event(vmm, 3, 5);
    statuses[PLEAT_VMM_CALL_STREAM_SYNCHRONIZE] = pleat_vmm_stream_synchronize(vmm, 3);
    statuses[PLEAT_VMM_CALL_ADDRESS_RESERVE] = pleat_vmm_address_reserve(vmm, 4096, &a);
    statuses[PLEAT_VMM_CALL_ADDRESS_FREE] = pleat_vmm_address_free(vmm, 8192, 4096);
    statuses[PLEAT_VMM_CALL_CHUNK_CREATE] = pleat_vmm_chunk_create(vmm, 4096, &a);
    statuses[PLEAT_VMM_CALL_CHUNK_RELEASE] = pleat_vmm_chunk_release(vmm, 5);
    statuses[PLEAT_VMM_CALL_MAP] = pleat_vmm_map(vmm, 8192, 4096, 5);
    statuses[PLEAT_VMM_CALL_UNMAP] = pleat_vmm_unmap(vmm, 8192, 4096);
    statuses[PLEAT_VMM_CALL_SET_ACCESS] = pleat_vmm_set_access(vmm, 8192, 4096);
    int file = 0;
    pleat_ipc_handle_t handle = {{0}};
    statuses[PLEAT_VMM_CALL_CHUNK_EXPORT] = pleat_vmm_chunk_export(vmm, 5, &file);
    statuses[PLEAT_VMM_CALL_CHUNK_IMPORT] = pleat_vmm_chunk_import(vmm, 9, &a);
    statuses[PLEAT_VMM_CALL_IPC_EXPORT] = pleat_vmm_ipc_export(vmm, 4608, &handle);
    statuses[PLEAT_VMM_CALL_IPC_OPEN] = pleat_vmm_ipc_open(vmm, &handle, &a);
    statuses[PLEAT_VMM_CALL_IPC_CLOSE] = pleat_vmm_ipc_close(vmm, 4096);
    statuses[PLEAT_VMM_CALL_PEER_ADD] = pleat_vmm_peer_add(vmm, 1);
    statuses[PLEAT_VMM_CALL_PEER_REMOVE] = pleat_vmm_peer_remove(vmm, 1);
}

Test(vmm, every_call_is_forwarded_counted_and_timed, .timeout = 10)
{
    fake_t fake = {.status = PLEAT_OK};
    pleat_vmm_t *vmm = fake_device(&fake);
    pleat_status_t statuses[PLEAT_VMM_CALL_COUNT];
    call_all(vmm, statuses);
    call_all(vmm, statuses);

    pleat_vmm_counters_t counters = PLEAT_VMM_COUNTERS_INIT;
    pleat_vmm_read_counters(vmm, &counters);
    for (int i = 0; i < PLEAT_VMM_CALL_COUNT; i++) {
        cr_expect(eq(int, statuses[i], PLEAT_OK));
        cr_expect(eq(u64, counters.calls[i], 2));
        cr_expect(eq(u64, counters.failures[i], 0));
        cr_expect(eq(u64, counters.time_ns[i], 200));
    }
    cr_expect(eq(u64, counters.waits, 42));
    cr_expect(eq(u64, fake.called, (uint64_t)2 * PLEAT_VMM_CALL_COUNT));
    pleat_vmm_destroy(vmm);
}

Test(vmm, failures_pass_through_and_are_counted, .timeout = 10)
{
    fake_t fake = {.status = PLEAT_ERR_DRIVER};
    pleat_vmm_t *vmm = fake_device(&fake);
    pleat_status_t statuses[PLEAT_VMM_CALL_COUNT];
    call_all(vmm, statuses);

    pleat_vmm_counters_t counters = PLEAT_VMM_COUNTERS_INIT;
    pleat_vmm_read_counters(vmm, &counters);
    for (int i = 0; i < PLEAT_VMM_CALL_COUNT; i++) {
        cr_expect(eq(int, statuses[i], PLEAT_ERR_DRIVER));
        cr_expect(eq(u64, counters.failures[i], 1));
    }
    pleat_vmm_destroy(vmm);
}

Test(vmm, not_ready_is_a_failure_except_from_a_query, .timeout = 10)
{
    fake_t fake = {.status = PLEAT_ERR_NOT_READY};
    pleat_vmm_t *vmm = fake_device(&fake);
    pleat_status_t statuses[PLEAT_VMM_CALL_COUNT];
    call_all(vmm, statuses);

    pleat_vmm_counters_t counters = PLEAT_VMM_COUNTERS_INIT;
    pleat_vmm_read_counters(vmm, &counters);
    cr_expect(eq(int, statuses[PLEAT_VMM_CALL_EVENT_QUERY], PLEAT_ERR_NOT_READY));
    cr_expect(eq(u64, counters.failures[PLEAT_VMM_CALL_EVENT_QUERY], 0));
    cr_expect(eq(u64, counters.failures[PLEAT_VMM_CALL_EVENT_SYNCHRONIZE], 1));
    pleat_vmm_destroy(vmm);
}

Test(vmm, outputs_are_untouched_on_failure, .timeout = 10)
{
    fake_t fake = {.status = PLEAT_ERR_OOM_DEVICE};
    pleat_vmm_t *vmm = fake_device(&fake);
    uint64_t a = 111;
    uint64_t b = 222;
    cr_expect(eq(int, pleat_vmm_mem_alloc(vmm, 1, &a), PLEAT_ERR_OOM_DEVICE));
    cr_expect(eq(int, pleat_vmm_event_create(vmm, &a), PLEAT_ERR_OOM_DEVICE));
    cr_expect(eq(int, pleat_vmm_mem_info(vmm, &a, &b), PLEAT_ERR_OOM_DEVICE));
    cr_expect(eq(int, pleat_vmm_address_reserve(vmm, 1, &a), PLEAT_ERR_OOM_DEVICE));
    cr_expect(eq(int, pleat_vmm_chunk_create(vmm, 1, &a), PLEAT_ERR_OOM_DEVICE));
    cr_expect(eq(int, pleat_vmm_granularity(vmm, &a), PLEAT_ERR_OOM_DEVICE));
    int file = 333;
    pleat_ipc_handle_t handle = {{44}};
    cr_expect(eq(int, pleat_vmm_chunk_export(vmm, 1, &file), PLEAT_ERR_OOM_DEVICE));
    cr_expect(eq(int, pleat_vmm_chunk_import(vmm, 1, &a), PLEAT_ERR_OOM_DEVICE));
    cr_expect(eq(int, pleat_vmm_ipc_export(vmm, 1, &handle), PLEAT_ERR_OOM_DEVICE));
    cr_expect(eq(int, pleat_vmm_ipc_open(vmm, &handle, &a), PLEAT_ERR_OOM_DEVICE));
    cr_expect(eq(int, file, 333));
    cr_expect(eq(int, handle.bytes[0] + handle.bytes[63], 44));
    cr_expect(eq(u64, a, 111));
    cr_expect(eq(u64, b, 222));
    fake.status = PLEAT_OK;
    cr_expect(eq(int, pleat_vmm_mem_info(vmm, &a, &b), PLEAT_OK));
    cr_expect(eq(u64, a, 10));
    cr_expect(eq(u64, b, 20));
    cr_expect(eq(int, pleat_vmm_mem_alloc(vmm, 1, &a), PLEAT_OK));
    cr_expect(eq(u64, a, 4097));
    pleat_vmm_destroy(vmm);
}

Test(vmm, a_missing_device_is_refused_by_every_call, .timeout = 10)
{
    pleat_status_t statuses[PLEAT_VMM_CALL_COUNT];
    call_all(NULL, statuses);
    for (int i = 0; i < PLEAT_VMM_CALL_COUNT; i++) {
        cr_expect(eq(int, statuses[i], PLEAT_ERR_INVALID));
    }
    expect_refused(pleat_vmm_stream_synchronize(NULL, 0), PLEAT_ERR_INVALID,
                   "stream_synchronize: the device is NULL");
    expect_refused(pleat_vmm_map(NULL, 0, 0, 0), PLEAT_ERR_INVALID, "map: the device is NULL");
    uint64_t bytes = 0;
    expect_refused(pleat_vmm_granularity(NULL, &bytes), PLEAT_ERR_INVALID, "the device is NULL");
}

Test(vmm, bad_arguments_do_not_reach_the_device, .timeout = 10)
{
    fake_t fake = {.status = PLEAT_OK};
    pleat_vmm_t *vmm = fake_device(&fake);
    uint64_t a = 0;
    const pleat_status_t bad = PLEAT_ERR_INVALID;
    expect_refused(pleat_vmm_mem_info(vmm, NULL, &a), bad, "free_bytes_out is NULL");
    expect_refused(pleat_vmm_mem_info(vmm, &a, NULL), bad, "total_bytes_out is NULL");
    expect_refused(pleat_vmm_mem_alloc(vmm, 1, NULL), bad, "ptr_out is NULL");
    expect_refused(pleat_vmm_mem_alloc(vmm, 0, &a), bad, "0 bytes");
    expect_refused(pleat_vmm_mem_free(vmm, 0), PLEAT_ERR_INVALID_POINTER, "address is 0");
    expect_refused(pleat_vmm_event_create(vmm, NULL), bad, "event_out is NULL");
    expect_refused(pleat_vmm_event_destroy(vmm, 0), bad, "event_destroy: the event is 0");
    expect_refused(pleat_vmm_event_record(vmm, 0, 1), bad, "event_record: the event is 0");
    expect_refused(pleat_vmm_event_query(vmm, 0), bad, "event_query: the event is 0");
    expect_refused(pleat_vmm_event_synchronize(vmm, 0), bad, "event_synchronize: the event is 0");
    expect_refused(pleat_vmm_stream_wait_event(vmm, 1, 0), bad, "stream_wait_event: the event");
    expect_refused(pleat_vmm_address_reserve(vmm, 1, NULL), bad, "address_reserve: the output");
    expect_refused(pleat_vmm_chunk_create(vmm, 1, NULL), bad, "chunk_create: the output is NULL");
    expect_refused(pleat_vmm_granularity(vmm, NULL), bad, "granularity: the output is NULL");
    pleat_ipc_handle_t handle = {{0}};
    expect_refused(pleat_vmm_chunk_export(vmm, 1, NULL), bad, "chunk_export: file_out is NULL");
    expect_refused(pleat_vmm_chunk_import(vmm, 1, NULL), bad, "chunk_import: chunk_out is NULL");
    expect_refused(pleat_vmm_chunk_import(vmm, -1, &a), bad, "the descriptor is negative");
    expect_refused(pleat_vmm_ipc_export(vmm, 1, NULL), bad, "ipc_export: handle_out is NULL");
    expect_refused(pleat_vmm_ipc_export(vmm, 0, &handle), PLEAT_ERR_INVALID_POINTER,
                   "ipc_export: the address is 0");
    expect_refused(pleat_vmm_ipc_open(vmm, NULL, &a), bad, "ipc_open: the handle is NULL");
    expect_refused(pleat_vmm_ipc_open(vmm, &handle, NULL), bad, "ipc_open: ptr_out is NULL");
    cr_expect(eq(u64, fake.called, 0));

    pleat_vmm_counters_t counters = PLEAT_VMM_COUNTERS_INIT;
    pleat_vmm_read_counters(vmm, &counters);
    for (int i = 0; i < PLEAT_VMM_CALL_COUNT; i++) {
        cr_expect(eq(u64, counters.calls[i], 0));
    }
    pleat_vmm_destroy(vmm);
}

Test(vmm, counters_fill_what_the_caller_has, .timeout = 10)
{
    fake_t fake = {.status = PLEAT_OK};
    pleat_vmm_t *vmm = fake_device(&fake);
    pleat_status_t statuses[PLEAT_VMM_CALL_COUNT];
    call_all(vmm, statuses);

    pleat_vmm_counters_t counters;
    memset(&counters, 0xab, sizeof counters);
    counters.size = offsetof(pleat_vmm_counters_t, failures);
    pleat_vmm_read_counters(vmm, &counters);
    cr_expect(eq(sz, counters.size, offsetof(pleat_vmm_counters_t, failures)));
    cr_expect(eq(u64, counters.calls[0], 1));
    cr_expect(eq(u64, counters.failures[0], UINT64_C(0xabababababababab)));

    counters.size = 0;
    counters.calls[0] = 9;
    pleat_vmm_read_counters(vmm, &counters);
    pleat_vmm_read_counters(vmm, NULL);
    cr_expect(eq(u64, counters.calls[0], 9));
    pleat_vmm_destroy(vmm);
}

typedef struct seen {
    uint64_t count;
    pleat_vmm_call_t call;
    uint64_t begin_ns;
    uint64_t end_ns;
    pleat_status_t status;
} seen_t;

static void see(void *context, pleat_vmm_call_t call, uint64_t begin_ns, uint64_t end_ns,
                pleat_status_t status)
{
    seen_t *seen = context;
    *seen = (seen_t){seen->count + 1, call, begin_ns, end_ns, status};
}

Test(vmm, an_observer_is_told_of_each_call, .timeout = 10)
{
    fake_t fake = {.status = PLEAT_OK};
    seen_t seen = {0};
    pleat_devptr_t ptr = 0;
    pleat_vmm_t *vmm = fake_device(&fake);
    pleat_vmm_set_observer(vmm, see, &seen);
    cr_assert(eq(int, pleat_vmm_mem_alloc(vmm, 512, &ptr), PLEAT_OK));
    cr_expect(eq(u64, seen.count, 1));
    cr_expect(eq(int, (int)seen.call, (int)PLEAT_VMM_CALL_MEM_ALLOC));
    cr_expect(eq(u64, seen.end_ns - seen.begin_ns, 100));
    cr_expect(eq(u64, seen.end_ns, fake.clock_ns));
    fake.status = PLEAT_ERR_DRIVER;
    cr_expect(eq(int, pleat_vmm_mem_free(vmm, ptr), PLEAT_ERR_DRIVER));
    cr_expect(eq(int, (int)seen.call, (int)PLEAT_VMM_CALL_MEM_FREE));
    cr_expect(eq(int, (int)seen.status, (int)PLEAT_ERR_DRIVER));
    cr_expect(eq(int, pleat_vmm_mem_free(vmm, 0), PLEAT_ERR_INVALID_POINTER)); /* is not made */
    cr_expect(eq(u64, seen.count, 2));
    pleat_vmm_set_observer(vmm, NULL, NULL);
    cr_expect(eq(int, pleat_vmm_mem_free(vmm, ptr), PLEAT_ERR_DRIVER));
    cr_expect(eq(u64, seen.count, 2));
    pleat_vmm_destroy(vmm);
}

/* ---- allocations apart ---- */

Test(vmm, an_allocation_apart_is_counted_at_its_end, .timeout = 10)
{
    fake_t fake = {0};
    pleat_vmm_ops_t ops = fake_ops();
    pleat_vmm_t *vmm = fake_device(&fake);
    cr_expect(not(pleat_vmm_allocates_apart(vmm)));
    pleat_vmm_destroy(vmm);
    ops.ext_mem_alloc_apart = fake_mem_alloc;
    cr_assert(eq(int, pleat_vmm_create(&ops, &fake, &vmm), PLEAT_OK));
    cr_assert(pleat_vmm_allocates_apart(vmm));
    pleat_vmm_apart_t first;
    pleat_vmm_apart_t second;
    pleat_vmm_apart_begin(vmm, 512, &first);
    pleat_vmm_apart_begin(vmm, 1024, &second);
    pleat_vmm_apart_run(vmm, &second);
    fake.status = PLEAT_ERR_OOM_DEVICE;
    pleat_vmm_apart_run(vmm, &first);
    pleat_vmm_counters_t counters = PLEAT_VMM_COUNTERS_INIT;
    pleat_vmm_read_counters(vmm, &counters);
    cr_expect(eq(u64, counters.calls[PLEAT_VMM_CALL_MEM_ALLOC], 2));
    cr_expect(eq(u64, counters.time_ns[PLEAT_VMM_CALL_MEM_ALLOC], 0));
    pleat_devptr_t ptr = 7;
    cr_expect(eq(int, pleat_vmm_apart_end(vmm, &first, &ptr), PLEAT_ERR_OOM_DEVICE));
    cr_expect(eq(u64, ptr, 7));
    cr_expect(eq(int, pleat_vmm_apart_end(vmm, &second, &ptr), PLEAT_OK));
    cr_expect(eq(u64, ptr, 4096 + 1024));
    pleat_vmm_read_counters(vmm, &counters);
    cr_expect(eq(u64, counters.calls[PLEAT_VMM_CALL_MEM_ALLOC], 2));
    cr_expect(eq(u64, counters.failures[PLEAT_VMM_CALL_MEM_ALLOC], 1));
    cr_expect(eq(u64, counters.time_ns[PLEAT_VMM_CALL_MEM_ALLOC], 100 + 200));
    pleat_vmm_destroy(vmm);
}
