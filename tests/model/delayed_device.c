/*
 * delayed_device: the table of operations, the queues of the streams, the kernels.
 *
 * A queue's items are numbered; an event stands for a stream and the number of items that were on
 * it when it was recorded.
 */
#include "delayed_device.h"

#include <pleat/sim.h>

#include "fixture.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef struct delayed_position {
    pleat_stream_t stream;
    uint64_t count; /* items of the stream */
} delayed_position_t;

typedef struct delayed_item {
    bool is_wait;
    bool has_contents; /* there is something to touch */
    delayed_position_t wait;
    delayed_kernel_t kernel;
} delayed_item_t;

typedef struct delayed_queue {
    delayed_item_t *items; /* those that did not run, from `begin` on */
    size_t begin;
    size_t end;
    size_t capacity;
    uint64_t done; /* items that ran */
} delayed_queue_t;

typedef struct delayed_event {
    pleat_event_t inner; /* 0: unused */
    delayed_position_t position;
    uint32_t generation;
} delayed_event_t;

typedef struct delayed_chunk {
    pleat_chunk_t chunk;
    uint64_t bytes;
    bool is_refused; /* the device did not take it back */
} delayed_chunk_t;

typedef struct delayed_fault {
    pleat_vmm_call_t call;
    uint64_t countdown; /* calls until it strikes; 0: none pending */
    pleat_status_t status;
} delayed_fault_t;

struct delayed_device {
    pleat_vmm_t *sim;
    pleat_vmm_t *outer;
    physical_map_t memory;
    delayed_queue_t queues[DELAYED_STREAMS_MAX];
    delayed_event_t *events;
    size_t event_count;
    delayed_chunk_t *chunks; /* that are held */
    size_t chunk_count;
    size_t chunk_capacity;
    uint64_t lost_ranges;
    uint64_t failures;
    delayed_fault_t fault;
    pleat_event_t own_event; /* for the joins of the test */
    bool has_plain_contents;
    char complaint[512];
};

/* ---- complaints ---- */

static void device_complain(delayed_device_t *device, const char *format, ...) PLEAT_PRINTF(2, 3);
static void device_complain(delayed_device_t *device, const char *format, ...)
{
    char text[sizeof(device->complaint)];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (device->complaint[0] == '\0') {
        memcpy(device->complaint, text, sizeof(text));
    }
}

const char *delayed_device_complaint(const delayed_device_t *device)
{
    return device->complaint[0] != '\0' ? device->complaint : device->memory.complaint;
}

/* ---- calls of the sim ---- */

/* Does the seeded fault strike this call? */
static bool device_strikes(delayed_device_t *device, pleat_vmm_call_t call)
{
    delayed_fault_t *fault = &device->fault;
    const bool is_meant = fault->call == call || fault->call == PLEAT_VMM_CALL_COUNT;
    if (fault->countdown == 0 || !is_meant || --fault->countdown > 0) {
        return false;
    }
    device->failures++;
    pleat_error_set("%s: seeded fault", pleat_vmm_call_name(call));
    return true;
}

/* Note how a call of the sim ended. */
static pleat_status_t device_note(delayed_device_t *device, pleat_vmm_call_t call,
                                  pleat_status_t status)
{
    if (status == PLEAT_ERR_INVALID || status == PLEAT_ERR_INVALID_POINTER) {
        device_complain(device, "a wrong call of %s: %s", pleat_vmm_call_name(call),
                        pleat_last_error());
    }
    device->failures +=
        status != PLEAT_OK && status != PLEAT_ERR_NOT_READY && status != PLEAT_ERR_OOM_DEVICE;
    return status;
}

#define DEVICE_CALL(device, name, call)              \
    (device_strikes((device), PLEAT_VMM_CALL_##name) \
         ? (device)->fault.status                    \
         : device_note((device), PLEAT_VMM_CALL_##name, (call)))

void delayed_device_fail_call(delayed_device_t *device, pleat_vmm_call_t call, uint64_t nth,
                              pleat_status_t status)
{
    device->fault = (delayed_fault_t){.call = call, .countdown = nth, .status = status};
}

/* ---- queues ---- */

static void device_run_kernel(delayed_device_t *device, pleat_stream_t stream,
                              const delayed_kernel_t *kernel)
{
    char text[256];
    if (!delayed_kernel_run(kernel, text, sizeof(text))) {
        device_complain(device, "stream %" PRIu64 ": %s", stream, text);
    }
}

static delayed_queue_t *device_queue(delayed_device_t *device, pleat_stream_t stream)
{
    FIXTURE_REQUIRE(stream < DELAYED_STREAMS_MAX, "stream %" PRIu64, stream);
    return &device->queues[stream];
}

static void queue_push(delayed_queue_t *queue, const delayed_item_t *item)
{
    if (queue->end == queue->capacity && queue->begin > queue->end / 2) {
        memmove(queue->items, &queue->items[queue->begin],
                (queue->end - queue->begin) * sizeof(queue->items[0]));
        queue->end -= queue->begin;
        queue->begin = 0;
    } else if (queue->end == queue->capacity) {
        queue->capacity = queue->capacity == 0 ? 64 : 2 * queue->capacity;
        queue->items = realloc(queue->items, queue->capacity * sizeof(queue->items[0]));
        FIXTURE_REQUIRE(queue->items != NULL, "no memory");
    }
    queue->items[queue->end++] = *item;
}

static delayed_position_t device_position(delayed_device_t *device, pleat_stream_t stream)
{
    const delayed_queue_t *queue = device_queue(device, stream);
    return (delayed_position_t){.stream = stream,
                                .count = queue->done + (queue->end - queue->begin)};
}

/* Run what is up to a position, and before it what that waits for. Waits lead to what was queued
 * before them, so this ends. */
static void device_run_to(delayed_device_t *device, delayed_position_t position)
{
    delayed_queue_t *queue = device_queue(device, position.stream);
    while (queue->done < position.count && device->complaint[0] == '\0') {
        const delayed_item_t item = queue->items[queue->begin];
        if (item.is_wait) {
            device_run_to(device, item.wait);
        } else if (item.has_contents) {
            device_run_kernel(device, position.stream, &item.kernel);
        }
        queue->begin++;
        queue->done++;
    }
}

static void device_run_all(delayed_device_t *device)
{
    for (pleat_stream_t stream = 0; stream < DELAYED_STREAMS_MAX; stream++) {
        device_run_to(device, device_position(device, stream));
    }
}

void delayed_device_run_ahead(delayed_device_t *device, pleat_stream_t stream, uint64_t count)
{
    delayed_queue_t *queue = device_queue(device, stream);
    for (; count > 0 && queue->begin < queue->end; count--) {
        const delayed_item_t *item = &queue->items[queue->begin];
        if (item->is_wait && device_queue(device, item->wait.stream)->done < item->wait.count) {
            return;
        }
        device_run_to(device, (delayed_position_t){.stream = stream, .count = queue->done + 1});
    }
}

static void device_wait(delayed_device_t *device, pleat_stream_t stream,
                        delayed_position_t position)
{
    if (position.stream != stream) {
        queue_push(device_queue(device, stream),
                   &(delayed_item_t){.is_wait = true, .wait = position});
    }
}

/* ---- operations: time, plain memory ---- */

static void device_destroy_table(void *self)
{
    (void)self; /* delayed_device_destroy does it */
}

static uint64_t device_clock_ns(void *self)
{
    return pleat_vmm_clock_ns(((delayed_device_t *)self)->sim);
}

static uint64_t device_wait_count(void *self)
{
    pleat_vmm_counters_t counters = PLEAT_VMM_COUNTERS_INIT;
    pleat_vmm_read_counters(((delayed_device_t *)self)->sim, &counters);
    return counters.waits;
}

static pleat_status_t device_mem_info(void *self, uint64_t *free_bytes_out,
                                      uint64_t *total_bytes_out)
{
    delayed_device_t *device = self;
    return DEVICE_CALL(device, MEM_INFO,
                       pleat_vmm_mem_info(device->sim, free_bytes_out, total_bytes_out));
}

static pleat_status_t device_mem_alloc(void *self, uint64_t bytes, pleat_devptr_t *ptr_out)
{
    delayed_device_t *device = self;
    return DEVICE_CALL(device, MEM_ALLOC, pleat_vmm_mem_alloc(device->sim, bytes, ptr_out));
}

static pleat_status_t device_mem_free(void *self, pleat_devptr_t ptr)
{
    delayed_device_t *device = self;
    device_run_all(device); /* it waits for all work, and then the memory is gone */
    const pleat_status_t status =
        DEVICE_CALL(device, MEM_FREE, pleat_vmm_mem_free(device->sim, ptr));
    if (status == PLEAT_OK) {
        physical_map_remove(&device->memory, ptr, 1);
    }
    return status;
}

/* ---- operations: events and streams ---- */

/* The event that a handle names; NULL and a complaint if there is none. */
static delayed_event_t *device_event(delayed_device_t *device, pleat_event_t event)
{
    const size_t index = (size_t)(event & 0xffffffff) - 1;
    if (index >= device->event_count || device->events[index].inner == 0 ||
        device->events[index].generation != (uint32_t)(event >> 32)) {
        device_complain(device, "0x%" PRIx64 " is no event", event);
        return NULL;
    }
    return &device->events[index];
}

static size_t device_unused_event(delayed_device_t *device)
{
    size_t index = 0;
    while (index < device->event_count && device->events[index].inner != 0) {
        index++;
    }
    if (index == device->event_count) {
        device->event_count = 2 * device->event_count + 32;
        device->events = realloc(device->events, device->event_count * sizeof(device->events[0]));
        FIXTURE_REQUIRE(device->events != NULL, "no memory");
        memset(&device->events[index], 0,
               (device->event_count - index) * sizeof(device->events[0]));
    }
    return index;
}

static pleat_status_t device_event_create(void *self, pleat_event_t *event_out)
{
    delayed_device_t *device = self;
    pleat_event_t inner = 0;
    const pleat_status_t status =
        DEVICE_CALL(device, EVENT_CREATE, pleat_vmm_event_create(device->sim, &inner));
    if (status == PLEAT_OK) {
        const size_t index = device_unused_event(device);
        delayed_event_t *event = &device->events[index];
        *event = (delayed_event_t){.inner = inner, .generation = event->generation + 1};
        *event_out = ((uint64_t)event->generation << 32) | (index + 1);
    }
    return status;
}

static pleat_status_t device_event_destroy(void *self, pleat_event_t handle)
{
    delayed_device_t *device = self;
    delayed_event_t *event = device_event(device, handle);
    if (event == NULL) {
        return PLEAT_ERR_INVALID;
    }
    const pleat_status_t status =
        DEVICE_CALL(device, EVENT_DESTROY, pleat_vmm_event_destroy(device->sim, event->inner));
    if (status == PLEAT_OK) {
        event->inner = 0;
    }
    return status;
}

static pleat_status_t device_event_record(void *self, pleat_event_t handle, pleat_stream_t stream)
{
    delayed_device_t *device = self;
    delayed_event_t *event = device_event(device, handle);
    if (event == NULL) {
        return PLEAT_ERR_INVALID;
    }
    const pleat_status_t status = DEVICE_CALL(
        device, EVENT_RECORD, pleat_vmm_event_record(device->sim, event->inner, stream));
    if (status == PLEAT_OK) {
        event->position = device_position(device, stream);
    }
    return status;
}

static pleat_status_t device_event_query(void *self, pleat_event_t handle)
{
    delayed_device_t *device = self;
    const delayed_event_t *event = device_event(device, handle);
    if (event == NULL) {
        return PLEAT_ERR_INVALID;
    }
    const pleat_status_t status =
        DEVICE_CALL(device, EVENT_QUERY, pleat_vmm_event_query(device->sim, event->inner));
    if (status == PLEAT_OK) {
        device_run_to(device, event->position);
    }
    return status;
}

static pleat_status_t device_event_synchronize(void *self, pleat_event_t handle)
{
    delayed_device_t *device = self;
    const delayed_event_t *event = device_event(device, handle);
    if (event == NULL) {
        return PLEAT_ERR_INVALID;
    }
    const pleat_status_t status = DEVICE_CALL(
        device, EVENT_SYNCHRONIZE, pleat_vmm_event_synchronize(device->sim, event->inner));
    if (status == PLEAT_OK) {
        device_run_to(device, event->position);
    }
    return status;
}

static pleat_status_t device_stream_wait_event(void *self, pleat_stream_t stream,
                                               pleat_event_t handle)
{
    delayed_device_t *device = self;
    const delayed_event_t *event = device_event(device, handle);
    if (event == NULL) {
        return PLEAT_ERR_INVALID;
    }
    const pleat_status_t status = DEVICE_CALL(
        device, STREAM_WAIT_EVENT, pleat_vmm_stream_wait_event(device->sim, stream, event->inner));
    if (status == PLEAT_OK) {
        device_wait(device, stream, event->position);
    }
    return status;
}

static pleat_status_t device_stream_synchronize(void *self, pleat_stream_t stream)
{
    delayed_device_t *device = self;
    const pleat_status_t status =
        DEVICE_CALL(device, STREAM_SYNCHRONIZE, pleat_vmm_stream_synchronize(device->sim, stream));
    if (status == PLEAT_OK) {
        device_run_to(device, device_position(device, stream));
    }
    return status;
}

/* ---- operations: virtual memory ---- */

static pleat_status_t device_granularity(void *self, uint64_t *bytes_out)
{
    return pleat_vmm_granularity(((delayed_device_t *)self)->sim, bytes_out);
}

static pleat_status_t device_address_reserve(void *self, uint64_t bytes, pleat_devptr_t *ptr_out)
{
    delayed_device_t *device = self;
    return DEVICE_CALL(device, ADDRESS_RESERVE,
                       pleat_vmm_address_reserve(device->sim, bytes, ptr_out));
}

static pleat_status_t device_address_free(void *self, pleat_devptr_t ptr, uint64_t bytes)
{
    delayed_device_t *device = self;
    const pleat_status_t status =
        DEVICE_CALL(device, ADDRESS_FREE, pleat_vmm_address_free(device->sim, ptr, bytes));
    device->lost_ranges += status != PLEAT_OK;
    return status;
}

static void device_note_chunk(delayed_device_t *device, pleat_chunk_t chunk, uint64_t bytes)
{
    if (device->chunk_count == device->chunk_capacity) {
        device->chunk_capacity = 2 * device->chunk_capacity + 32;
        device->chunks =
            realloc(device->chunks, device->chunk_capacity * sizeof(device->chunks[0]));
        FIXTURE_REQUIRE(device->chunks != NULL, "no memory");
    }
    device->chunks[device->chunk_count++] = (delayed_chunk_t){.chunk = chunk, .bytes = bytes};
}

static pleat_status_t device_chunk_create(void *self, uint64_t bytes, pleat_chunk_t *chunk_out)
{
    delayed_device_t *device = self;
    const pleat_status_t status =
        DEVICE_CALL(device, CHUNK_CREATE, pleat_vmm_chunk_create(device->sim, bytes, chunk_out));
    if (status == PLEAT_OK) {
        device_note_chunk(device, *chunk_out, bytes);
    }
    return status;
}

static pleat_status_t device_chunk_release(void *self, pleat_chunk_t chunk)
{
    delayed_device_t *device = self;
    const pleat_status_t status =
        DEVICE_CALL(device, CHUNK_RELEASE, pleat_vmm_chunk_release(device->sim, chunk));
    for (size_t i = 0; i < device->chunk_count; i++) {
        if (device->chunks[i].chunk == chunk && status == PLEAT_OK) {
            device->chunks[i] = device->chunks[--device->chunk_count];
        } else if (device->chunks[i].chunk == chunk) {
            device->chunks[i].is_refused = true;
        }
    }
    return status;
}

static pleat_status_t device_map(void *self, pleat_devptr_t ptr, uint64_t bytes,
                                 pleat_chunk_t chunk)
{
    delayed_device_t *device = self;
    const pleat_status_t status =
        DEVICE_CALL(device, MAP, pleat_vmm_map(device->sim, ptr, bytes, chunk));
    if (status == PLEAT_OK) {
        physical_map_add(&device->memory, ptr, bytes, chunk);
    }
    return status;
}

static pleat_status_t device_unmap(void *self, pleat_devptr_t ptr, uint64_t bytes)
{
    delayed_device_t *device = self;
    const pleat_status_t status =
        DEVICE_CALL(device, UNMAP, pleat_vmm_unmap(device->sim, ptr, bytes));
    if (status == PLEAT_OK) {
        physical_map_remove(&device->memory, ptr, bytes);
    }
    return status;
}

static pleat_status_t device_set_access(void *self, pleat_devptr_t ptr, uint64_t bytes)
{
    delayed_device_t *device = self;
    return DEVICE_CALL(device, SET_ACCESS, pleat_vmm_set_access(device->sim, ptr, bytes));
}

/* ---- what a test does ---- */

void delayed_device_launch(delayed_device_t *device, pleat_stream_t stream,
                           const delayed_kernel_t *kernel, uint64_t duration_ns)
{
    const bool has_contents =
        kernel->bytes >= sizeof(uint64_t) &&
        (device->has_plain_contents || physical_map_covers(&device->memory, kernel->address));
    queue_push(device_queue(device, stream),
               &(delayed_item_t){.has_contents = has_contents, .kernel = *kernel});
    FIXTURE_REQUIRE(pleat_sim_launch(device->sim, stream, duration_ns) == PLEAT_OK, "launch");
}

void delayed_device_join(delayed_device_t *device, pleat_stream_t stream, pleat_stream_t other)
{
    FIXTURE_REQUIRE(pleat_vmm_event_record(device->sim, device->own_event, other) == PLEAT_OK,
                    "event_record: %s", pleat_last_error());
    FIXTURE_REQUIRE(pleat_vmm_stream_wait_event(device->sim, stream, device->own_event) == PLEAT_OK,
                    "stream_wait_event: %s", pleat_last_error());
    device_wait(device, stream, device_position(device, other));
}

void delayed_device_synchronize(delayed_device_t *device, pleat_stream_t stream)
{
    FIXTURE_REQUIRE(pleat_vmm_stream_synchronize(device->sim, stream) == PLEAT_OK,
                    "stream_synchronize: %s", pleat_last_error());
    device_run_to(device, device_position(device, stream));
}

void delayed_device_finish(delayed_device_t *device)
{
    FIXTURE_REQUIRE(pleat_sim_set_all_done(device->sim) == PLEAT_OK, "finish");
    device_run_all(device);
}

uint64_t delayed_device_failures(const delayed_device_t *device)
{
    return device->failures;
}

uint64_t delayed_device_lost_bytes(const delayed_device_t *device)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < device->chunk_count; i++) {
        const delayed_chunk_t *chunk = &device->chunks[i];
        if (chunk->is_refused && physical_map_count(&device->memory, chunk->chunk) == 0) {
            bytes += chunk->bytes;
        }
    }
    return bytes;
}

uint64_t delayed_device_lost_ranges(const delayed_device_t *device)
{
    return device->lost_ranges;
}

pleat_vmm_t *delayed_device_vmm(const delayed_device_t *device)
{
    return device->outer;
}

pleat_vmm_t *delayed_device_sim(const delayed_device_t *device)
{
    return device->sim;
}

physical_map_t *delayed_device_memory(delayed_device_t *device)
{
    return &device->memory;
}

/* ---- life ---- */

/* Can plain allocations be read and written? */
static bool device_probe_plain(delayed_device_t *device)
{
    pleat_devptr_t ptr = 0;
    if (pleat_vmm_mem_alloc(device->sim, PLEAT_MIB, &ptr) != PLEAT_OK) {
        return false;
    }
    unsigned char pages[PLEAT_MIB / 4096];
    const bool is_real = mincore((void *)(uintptr_t)ptr, PLEAT_MIB, pages) == 0;
    FIXTURE_REQUIRE(pleat_vmm_mem_free(device->sim, ptr) == PLEAT_OK, "mem_free");
    return is_real;
}

delayed_device_t *delayed_device_create(uint64_t capacity_bytes)
{
    const pleat_vmm_ops_t ops = {
        PLEAT_VMM_OPS_INIT("delayed"),
        .destroy = device_destroy_table,
        .clock_ns = device_clock_ns,
        .wait_count = device_wait_count,
        .mem_info = device_mem_info,
        .mem_alloc = device_mem_alloc,
        .mem_free = device_mem_free,
        .event_create = device_event_create,
        .event_destroy = device_event_destroy,
        .event_record = device_event_record,
        .event_query = device_event_query,
        .event_synchronize = device_event_synchronize,
        .stream_wait_event = device_stream_wait_event,
        .stream_synchronize = device_stream_synchronize,
        .ext_granularity = device_granularity,
        .ext_address_reserve = device_address_reserve,
        .ext_address_free = device_address_free,
        .ext_chunk_create = device_chunk_create,
        .ext_chunk_release = device_chunk_release,
        .ext_map = device_map,
        .ext_unmap = device_unmap,
        .ext_set_access = device_set_access,
    };
    delayed_device_t *device = calloc(1, sizeof(*device));
    FIXTURE_REQUIRE(device != NULL, "no memory");
    pleat_sim_options_t options = PLEAT_SIM_OPTIONS_INIT;
    options.capacity_bytes = capacity_bytes;
    options.is_backed = true;
    FIXTURE_REQUIRE(pleat_sim_create(&options, &device->sim) == PLEAT_OK, "sim: %s",
                    pleat_last_error());
    FIXTURE_REQUIRE(pleat_vmm_create(&ops, device, &device->outer) == PLEAT_OK, "table: %s",
                    pleat_last_error());
    FIXTURE_REQUIRE(pleat_vmm_event_create(device->sim, &device->own_event) == PLEAT_OK,
                    "event_create: %s", pleat_last_error());
    device->has_plain_contents = device_probe_plain(device);
    delayed_kernel_catch_faults();
    return device;
}

void delayed_device_destroy(delayed_device_t *device)
{
    pleat_vmm_destroy(device->outer);
    pleat_vmm_destroy(device->sim);
    for (unsigned i = 0; i < DELAYED_STREAMS_MAX; i++) {
        free(device->queues[i].items);
    }
    free(device->events);
    free(device->chunks);
    physical_map_fini(&device->memory);
    free(device);
}
