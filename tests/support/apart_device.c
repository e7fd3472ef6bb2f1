/*
 * apart_device: the table of operations.
 */
#include "apart_device.h"

#include "fixture.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

typedef struct apart_device {
    pleat_vmm_t *sim;
    pthread_mutex_t mutex; /* of the sim, and of what follows */
    apart_device_hook_fn_t hook;
    void *hook_context;
    apart_device_last_fn_t last;
    apart_device_dependencies_fn_t dependencies;
    void *captures_context;
    uint64_t count;
    uint64_t now; /* on their way */
    uint64_t most;
} apart_device_t;

static void apart_lock(apart_device_t *device)
{
    FIXTURE_REQUIRE(pthread_mutex_lock(&device->mutex) == 0, "pthread_mutex_lock");
}

static void apart_unlock(apart_device_t *device)
{
    FIXTURE_REQUIRE(pthread_mutex_unlock(&device->mutex) == 0, "pthread_mutex_unlock");
}

/* An operation: the same call of the sim, under the mutex. */
#define APART_CALL(type, call)     \
    apart_device_t *device = self; \
    apart_lock(device);            \
    const type result_ = (call);   \
    apart_unlock(device);          \
    return result_

#define APART_OPERATION(name, parameters, arguments)            \
    static pleat_status_t apart_##name parameters               \
    {                                                           \
        APART_CALL(pleat_status_t, pleat_vmm_##name arguments); \
    }

static uint64_t apart_waits(pleat_vmm_t *sim)
{
    pleat_vmm_counters_t counters = PLEAT_VMM_COUNTERS_INIT;
    pleat_vmm_read_counters(sim, &counters);
    return counters.waits;
}

static void apart_destroy(void *self)
{
    apart_device_t *device = self;
    pleat_vmm_destroy(device->sim);
    (void)pthread_mutex_destroy(&device->mutex);
    free(device);
}

static uint64_t apart_clock_ns(void *self)
{
    APART_CALL(uint64_t, pleat_vmm_clock_ns(device->sim));
}

static uint64_t apart_wait_count(void *self)
{
    APART_CALL(uint64_t, apart_waits(device->sim));
}

APART_OPERATION(mem_info, (void *self, uint64_t *free_out, uint64_t *total_out),
                (device->sim, free_out, total_out))
APART_OPERATION(mem_alloc, (void *self, uint64_t bytes, pleat_devptr_t *ptr_out),
                (device->sim, bytes, ptr_out))
APART_OPERATION(mem_free, (void *self, pleat_devptr_t ptr), (device->sim, ptr))
APART_OPERATION(event_create, (void *self, pleat_event_t *event_out), (device->sim, event_out))
APART_OPERATION(event_destroy, (void *self, pleat_event_t event), (device->sim, event))
APART_OPERATION(event_record, (void *self, pleat_event_t event, pleat_stream_t stream),
                (device->sim, event, stream))
APART_OPERATION(event_query, (void *self, pleat_event_t event), (device->sim, event))
APART_OPERATION(event_synchronize, (void *self, pleat_event_t event), (device->sim, event))
APART_OPERATION(stream_wait_event, (void *self, pleat_stream_t stream, pleat_event_t event),
                (device->sim, stream, event))
APART_OPERATION(stream_synchronize, (void *self, pleat_stream_t stream), (device->sim, stream))
APART_OPERATION(granularity, (void *self, uint64_t *bytes_out), (device->sim, bytes_out))
APART_OPERATION(address_reserve, (void *self, uint64_t bytes, pleat_devptr_t *ptr_out),
                (device->sim, bytes, ptr_out))
APART_OPERATION(address_free, (void *self, pleat_devptr_t ptr, uint64_t bytes),
                (device->sim, ptr, bytes))
APART_OPERATION(chunk_create, (void *self, uint64_t bytes, pleat_chunk_t *chunk_out),
                (device->sim, bytes, chunk_out))
APART_OPERATION(chunk_release, (void *self, pleat_chunk_t chunk), (device->sim, chunk))
APART_OPERATION(map, (void *self, pleat_devptr_t ptr, uint64_t bytes, pleat_chunk_t chunk),
                (device->sim, ptr, bytes, chunk))
APART_OPERATION(unmap, (void *self, pleat_devptr_t ptr, uint64_t bytes), (device->sim, ptr, bytes))
APART_OPERATION(set_access, (void *self, pleat_devptr_t ptr, uint64_t bytes),
                (device->sim, ptr, bytes))

static pleat_status_t apart_mem_alloc_apart(void *self, uint64_t bytes, pleat_devptr_t *ptr_out)
{
    apart_device_t *device = self;
    apart_lock(device);
    const apart_device_hook_fn_t hook = device->hook;
    device->hook = NULL;
    device->count++;
    device->now++;
    device->most = device->now > device->most ? device->now : device->most;
    apart_unlock(device);
    if (hook != NULL) {
        hook(device->hook_context, bytes);
    }
    (void)sched_yield();
    apart_lock(device);
    const pleat_status_t status = pleat_vmm_mem_alloc(device->sim, bytes, ptr_out);
    device->now--;
    apart_unlock(device);
    return status;
}

static pleat_status_t apart_capture_last(void *self, pleat_stream_t stream, size_t capacity,
                                         pleat_node_t *nodes, size_t *count_out,
                                         uint64_t *capture_out)
{
    const apart_device_t *device = self;
    *count_out = 0;
    *capture_out = 0;
    return device->last == NULL ? PLEAT_OK
                                : device->last(device->captures_context, stream, capacity, nodes,
                                               count_out, capture_out);
}

static pleat_status_t apart_capture_dependencies(void *self, pleat_node_t node, size_t capacity,
                                                 pleat_node_t *nodes, size_t *count_out)
{
    const apart_device_t *device = self;
    return device->dependencies(device->captures_context, node, capacity, nodes, count_out);
}

pleat_vmm_t *apart_device_create(pleat_vmm_t *sim)
{
    const pleat_vmm_ops_t ops = {
        PLEAT_VMM_OPS_INIT("apart"),
        .destroy = apart_destroy,
        .clock_ns = apart_clock_ns,
        .wait_count = apart_wait_count,
        .mem_info = apart_mem_info,
        .mem_alloc = apart_mem_alloc,
        .mem_free = apart_mem_free,
        .event_create = apart_event_create,
        .event_destroy = apart_event_destroy,
        .event_record = apart_event_record,
        .event_query = apart_event_query,
        .event_synchronize = apart_event_synchronize,
        .stream_wait_event = apart_stream_wait_event,
        .stream_synchronize = apart_stream_synchronize,
        .ext_granularity = apart_granularity,
        .ext_address_reserve = apart_address_reserve,
        .ext_address_free = apart_address_free,
        .ext_chunk_create = apart_chunk_create,
        .ext_chunk_release = apart_chunk_release,
        .ext_map = apart_map,
        .ext_unmap = apart_unmap,
        .ext_set_access = apart_set_access,
        .ext_mem_alloc_apart = apart_mem_alloc_apart,
        .ext_capture_last = apart_capture_last,
        .ext_capture_dependencies = apart_capture_dependencies,
    };
    apart_device_t *device = calloc(1, sizeof(*device));
    FIXTURE_REQUIRE(device != NULL, "no host memory");
    device->sim = sim;
    FIXTURE_REQUIRE(pthread_mutex_init(&device->mutex, NULL) == 0, "pthread_mutex_init");
    pleat_vmm_t *vmm = NULL;
    FIXTURE_REQUIRE(pleat_vmm_create(&ops, device, &vmm) == PLEAT_OK, "%s", pleat_last_error());
    return vmm;
}

void apart_device_set_hook(pleat_vmm_t *vmm, apart_device_hook_fn_t hook, void *context)
{
    apart_device_t *device = pleat_vmm_self(vmm);
    device->hook_context = context;
    device->hook = hook;
}

void apart_device_set_captures(pleat_vmm_t *vmm, apart_device_last_fn_t last,
                               apart_device_dependencies_fn_t dependencies, void *context)
{
    apart_device_t *device = pleat_vmm_self(vmm);
    device->last = last;
    device->dependencies = dependencies;
    device->captures_context = context;
}

uint64_t apart_device_count(const pleat_vmm_t *vmm)
{
    return ((const apart_device_t *)pleat_vmm_self(vmm))->count;
}

uint64_t apart_device_most(const pleat_vmm_t *vmm)
{
    return ((const apart_device_t *)pleat_vmm_self(vmm))->most;
}
