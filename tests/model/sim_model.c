/*
 * sim_model: random calls on the simulated device, each answer compared with a model that is as
 * plain as possible: allocations in an array, work on a stream as the list of all that was ever
 * queued, its end found by walking that list.
 *
 *   model_sim_model [SEED [CALLS]]
 *
 * Prints the seed; the same seed makes the same calls. Exit status 0: all answers agreed, 1: not.
 */
#include <pleat/sim.h>

#include "vmm/base.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STREAMS 6u
#define EVENTS 48u
#define ALLOCATIONS 64u
#define EPISODE_CALLS 1500u
#define ITEMS EPISODE_CALLS /* each call queues at most one */
#define UNKNOWN UINT64_MAX

/* What was queued on a stream. */
typedef enum item_kind { ITEM_LAUNCH, ITEM_BUSY, ITEM_WAIT } item_kind_t;

typedef struct item {
    item_kind_t kind;
    bool is_released; /* of a busy item */
    uint64_t ns;      /* launch: when, busy: when released */
    uint64_t duration_ns;
    uint32_t stream; /* wait: the work that is waited for, as in a mark */
    uint32_t length;
    uint64_t end_ns; /* as found in walk number walk */
    uint64_t walk;
} item_t;

typedef struct model_stream {
    uint32_t length;
    uint32_t busy_length; /* length behind the last busy item; 0: none */
    item_t items[ITEMS];
} model_stream_t;

typedef struct model_event {
    pleat_event_t handle; /* 0: not live */
    uint32_t stream;
    uint32_t length; /* the first so many items of the stream; 0: nothing */
} model_event_t;

typedef struct model {
    pleat_vmm_t *vmm;
    uint64_t random_state;
    uint64_t clock_ns;
    uint64_t waits;
    uint64_t capacity_bytes;
    uint64_t allocated_bytes;
    uint64_t walk;
    uint64_t call_number;
    pleat_cost_table_t costs;
    struct {
        pleat_devptr_t ptr; /* 0: not live */
        uint64_t bytes;
    } allocations[ALLOCATIONS];
    model_event_t events[EVENTS];
    model_stream_t streams[STREAMS];
} model_t;

static model_t model;

static uint64_t draw(uint64_t below)
{
    model.random_state ^= model.random_state << 13;
    model.random_state ^= model.random_state >> 7;
    model.random_state ^= model.random_state << 17;
    return (model.random_state >> 11) % below;
}

static void fail(const char *what, uint64_t got, uint64_t want)
{
    (void)fprintf(stderr, "call %" PRIu64 ": %s is %" PRIu64 ", the model says %" PRIu64 " (%s)\n",
                  model.call_number, what, got, want, pleat_last_error());
    exit(1);
}

static void expect(const char *what, uint64_t got, uint64_t want)
{
    if (got != want) {
        fail(what, got, want);
    }
}

static pleat_stream_t handle_of(uint32_t stream)
{
    return stream == 0 ? 0 : UINT64_C(0x5a5a5a5a00000000) * stream + stream;
}

static uint64_t max_of(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* When do the first `length` items of a stream end? UNKNOWN behind busy work. */
static uint64_t end_of(uint32_t stream, uint32_t length)
{
    if (length == 0) {
        return 0;
    }
    item_t *item = &model.streams[stream].items[length - 1];
    if (item->walk == model.walk) {
        return item->end_ns;
    }
    const uint64_t before = end_of(stream, length - 1);
    uint64_t end = UNKNOWN;
    if (before != UNKNOWN) {
        switch (item->kind) {
        case ITEM_LAUNCH:
            end = max_of(before, item->ns) + item->duration_ns;
            break;
        case ITEM_BUSY:
            end = item->is_released ? max_of(before, item->ns) : UNKNOWN;
            break;
        case ITEM_WAIT:
            /* UNKNOWN is the largest number, so it wins. */
            end = max_of(before, end_of(item->stream, item->length));
            break;
        }
    }
    item->end_ns = end;
    item->walk = model.walk;
    return end;
}

static bool is_complete(uint32_t stream, uint32_t length)
{
    return end_of(stream, length) <= model.clock_ns;
}

/* Release all busy work among the items and what they wait for. */
static void release_below(uint32_t stream, uint32_t length)
{
    for (; length > 0; length--) {
        item_t *item = &model.streams[stream].items[length - 1];
        if (item->walk == model.walk) {
            return;
        }
        item->walk = model.walk;
        if (item->kind == ITEM_BUSY && !item->is_released) {
            item->is_released = true;
            item->ns = model.clock_ns;
        } else if (item->kind == ITEM_WAIT) {
            release_below(item->stream, item->length);
        }
    }
}

/* Finish the first items of a stream; was there something to wait for? */
static bool finish(uint32_t stream, uint32_t length)
{
    if (is_complete(stream, length)) {
        return false;
    }
    model.walk++;
    release_below(stream, length);
    model.walk++;
    model.clock_ns = max_of(model.clock_ns, end_of(stream, length));
    return true;
}

static void finish_all(void)
{
    model.walk++;
    for (uint32_t i = 0; i < STREAMS; i++) {
        release_below(i, model.streams[i].length);
    }
    model.walk++;
    for (uint32_t i = 0; i < STREAMS; i++) {
        model.clock_ns = max_of(model.clock_ns, end_of(i, model.streams[i].length));
    }
}

static void queue(uint32_t stream, item_t item)
{
    model_stream_t *record = &model.streams[stream];
    record->items[record->length++] = item;
}

static void charge(pleat_vmm_call_t call)
{
    model.clock_ns += model.costs.call_ns[call];
}

/* Now and then let the next call of a kind fail; true: it must. */
static bool seed_fault(pleat_vmm_call_t call)
{
    if (draw(20) != 0) {
        return false;
    }
    const pleat_status_t status = pleat_sim_fail_call(model.vmm, call, 1, PLEAT_ERR_DRIVER);
    expect("status of a fault", (uint64_t) - (int64_t)status, 0);
    return true;
}

static void expect_status(const char *what, pleat_status_t got, pleat_status_t want)
{
    expect(what, (uint64_t) - (int64_t)got, (uint64_t) - (int64_t)want);
}

static uint64_t draw_bytes(void)
{
    switch (draw(4)) {
    case 0:
        return draw(4096) + 1;
    case 1:
        return (draw(64) + 1) * 2 * PLEAT_MIB;
    case 2:
        return draw(PLEAT_GIB) + 1;
    default:
        return draw(40) == 0 ? UINT64_MAX - draw(PLEAT_GIB) : 20 * PLEAT_MIB;
    }
}

static void check_no_overlap(pleat_devptr_t ptr, uint64_t bytes)
{
    const uint64_t alignment = bytes >= 2 * PLEAT_MIB ? 2 * PLEAT_MIB : 512;
    expect("misalignment", ptr % alignment, 0);
    for (uint32_t i = 0; i < ALLOCATIONS; i++) {
        const pleat_devptr_t other = model.allocations[i].ptr;
        if (other != 0 && ptr < other + model.allocations[i].bytes && other < ptr + bytes) {
            fail("address of an allocation over another", ptr, other);
        }
    }
}

static void step_alloc(void)
{
    const uint64_t slot = draw(ALLOCATIONS);
    if (model.allocations[slot].ptr != 0) {
        return;
    }
    const uint64_t bytes = draw_bytes();
    const bool is_fault = seed_fault(PLEAT_VMM_CALL_MEM_ALLOC);
    pleat_status_t want = is_fault ? PLEAT_ERR_DRIVER : PLEAT_OK;
    if (!is_fault && bytes > model.capacity_bytes - model.allocated_bytes) {
        want = PLEAT_ERR_OOM_DEVICE;
    }
    pleat_devptr_t ptr = 0;
    expect_status("mem_alloc", pleat_vmm_mem_alloc(model.vmm, bytes, &ptr), want);
    if (want == PLEAT_OK) {
        check_no_overlap(ptr, bytes);
        model.allocations[slot].ptr = ptr;
        model.allocations[slot].bytes = bytes;
        model.allocated_bytes += bytes;
        charge(PLEAT_VMM_CALL_MEM_ALLOC);
    }
}

static void step_free(void)
{
    const uint64_t slot = draw(ALLOCATIONS);
    const pleat_devptr_t ptr = model.allocations[slot].ptr;
    if (ptr == 0) {
        return;
    }
    if (seed_fault(PLEAT_VMM_CALL_MEM_FREE)) {
        expect_status("mem_free", pleat_vmm_mem_free(model.vmm, ptr), PLEAT_ERR_DRIVER);
        return;
    }
    expect_status("mem_free inside", pleat_vmm_mem_free(model.vmm, ptr + 1),
                  PLEAT_ERR_INVALID_POINTER);
    expect_status("mem_free", pleat_vmm_mem_free(model.vmm, ptr), PLEAT_OK);
    model.allocations[slot].ptr = 0;
    model.allocated_bytes -= model.allocations[slot].bytes;
    finish_all();
    model.waits++;
    charge(PLEAT_VMM_CALL_MEM_FREE);
}

static void step_event_create(model_event_t *event)
{
    if (seed_fault(PLEAT_VMM_CALL_EVENT_CREATE)) {
        expect_status("event_create", pleat_vmm_event_create(model.vmm, &event->handle),
                      PLEAT_ERR_DRIVER);
        return;
    }
    expect_status("event_create", pleat_vmm_event_create(model.vmm, &event->handle), PLEAT_OK);
    event->length = 0;
    charge(PLEAT_VMM_CALL_EVENT_CREATE);
}

static void step_event_destroy(model_event_t *event)
{
    if (seed_fault(PLEAT_VMM_CALL_EVENT_DESTROY)) {
        expect_status("event_destroy", pleat_vmm_event_destroy(model.vmm, event->handle),
                      PLEAT_ERR_DRIVER);
        return;
    }
    const pleat_event_t handle = event->handle;
    expect_status("event_destroy", pleat_vmm_event_destroy(model.vmm, handle), PLEAT_OK);
    expect_status("event_query of a dead one", pleat_vmm_event_query(model.vmm, handle),
                  PLEAT_ERR_INVALID);
    event->handle = 0;
    charge(PLEAT_VMM_CALL_EVENT_DESTROY);
}

static void step_event_record(model_event_t *event, uint32_t stream)
{
    const bool is_fault = seed_fault(PLEAT_VMM_CALL_EVENT_RECORD);
    expect_status("event_record",
                  pleat_vmm_event_record(model.vmm, event->handle, handle_of(stream)),
                  is_fault ? PLEAT_ERR_DRIVER : PLEAT_OK);
    if (!is_fault) {
        event->stream = stream;
        event->length = model.streams[stream].length;
        charge(PLEAT_VMM_CALL_EVENT_RECORD);
    }
}

static void check_query(const model_event_t *event)
{
    charge(PLEAT_VMM_CALL_EVENT_QUERY);
    expect_status("event_query", pleat_vmm_event_query(model.vmm, event->handle),
                  is_complete(event->stream, event->length) ? PLEAT_OK : PLEAT_ERR_NOT_READY);
}

static void step_event_synchronize(const model_event_t *event)
{
    const bool is_fault = seed_fault(PLEAT_VMM_CALL_EVENT_SYNCHRONIZE);
    expect_status("event_synchronize", pleat_vmm_event_synchronize(model.vmm, event->handle),
                  is_fault ? PLEAT_ERR_DRIVER : PLEAT_OK);
    if (!is_fault) {
        model.waits += finish(event->stream, event->length);
        charge(PLEAT_VMM_CALL_EVENT_SYNCHRONIZE);
    }
}

static void step_wait_event(const model_event_t *event, uint32_t stream)
{
    const bool is_fault = seed_fault(PLEAT_VMM_CALL_STREAM_WAIT_EVENT);
    expect_status("stream_wait_event",
                  pleat_vmm_stream_wait_event(model.vmm, handle_of(stream), event->handle),
                  is_fault ? PLEAT_ERR_DRIVER : PLEAT_OK);
    if (!is_fault) {
        queue(stream,
              (item_t){.kind = ITEM_WAIT, .stream = event->stream, .length = event->length});
        charge(PLEAT_VMM_CALL_STREAM_WAIT_EVENT);
    }
}

static void step_event(uint32_t stream)
{
    model_event_t *event = &model.events[draw(EVENTS)];
    if (event->handle == 0) {
        step_event_create(event);
        return;
    }
    const uint64_t kind = draw(20);
    if (kind < 8) {
        step_event_record(event, stream);
    } else if (kind < 13) {
        check_query(event);
    } else if (kind < 18) {
        step_wait_event(event, stream);
    } else if (kind < 19) {
        step_event_synchronize(event);
    } else {
        step_event_destroy(event);
    }
}

static void step_stream_synchronize(uint32_t stream)
{
    const bool is_fault = seed_fault(PLEAT_VMM_CALL_STREAM_SYNCHRONIZE);
    expect_status("stream_synchronize", pleat_vmm_stream_synchronize(model.vmm, handle_of(stream)),
                  is_fault ? PLEAT_ERR_DRIVER : PLEAT_OK);
    if (!is_fault) {
        model.waits += finish(stream, model.streams[stream].length);
        charge(PLEAT_VMM_CALL_STREAM_SYNCHRONIZE);
    }
}

static void step_launch(uint32_t stream)
{
    const uint64_t duration_ns = draw(3) == 0 ? 0 : draw(5000);
    expect_status("sim_launch", pleat_sim_launch(model.vmm, handle_of(stream), duration_ns),
                  PLEAT_OK);
    queue(stream, (item_t){.kind = ITEM_LAUNCH, .ns = model.clock_ns, .duration_ns = duration_ns});
}

static void step_busy(uint32_t stream)
{
    model_stream_t *record = &model.streams[stream];
    expect_status("sim_set_busy", pleat_sim_set_busy(model.vmm, handle_of(stream)), PLEAT_OK);
    if (record->busy_length == 0 || record->items[record->busy_length - 1].is_released) {
        queue(stream, (item_t){.kind = ITEM_BUSY});
        record->busy_length = record->length;
    }
}

static void step_done(uint32_t stream)
{
    if (draw(4) == 0) {
        expect_status("sim_set_all_done", pleat_sim_set_all_done(model.vmm), PLEAT_OK);
        finish_all();
    } else {
        expect_status("sim_set_done", pleat_sim_set_done(model.vmm, handle_of(stream)), PLEAT_OK);
        (void)finish(stream, model.streams[stream].length);
    }
}

static void step_advance(void)
{
    model.clock_ns += draw(2000);
    expect_status("sim_advance_to", pleat_sim_advance_to(model.vmm, model.clock_ns), PLEAT_OK);
}

static void check_memory(void)
{
    uint64_t free_bytes = 0;
    uint64_t total_bytes = 0;
    charge(PLEAT_VMM_CALL_MEM_INFO);
    expect_status("mem_info", pleat_vmm_mem_info(model.vmm, &free_bytes, &total_bytes), PLEAT_OK);
    expect("free bytes", free_bytes, model.capacity_bytes - model.allocated_bytes);
    expect("total bytes", total_bytes, model.capacity_bytes);
}

static void check_usage(void)
{
    pleat_sim_usage_t usage = PLEAT_SIM_USAGE_INIT;
    pleat_vmm_counters_t counters = PLEAT_VMM_COUNTERS_INIT;
    uint64_t events = 0;
    uint64_t allocations = 0;
    for (uint32_t i = 0; i < EVENTS; i++) {
        events += model.events[i].handle != 0;
    }
    for (uint32_t i = 0; i < ALLOCATIONS; i++) {
        allocations += model.allocations[i].ptr != 0;
    }
    expect_status("sim_read_usage", pleat_sim_read_usage(model.vmm, &usage), PLEAT_OK);
    pleat_vmm_read_counters(model.vmm, &counters);
    expect("events", usage.events, events);
    expect("allocations", usage.allocations, allocations);
    expect("allocated bytes", usage.allocated_bytes, model.allocated_bytes);
    expect("waits", counters.waits, model.waits);
    expect("clock", pleat_vmm_clock_ns(model.vmm), model.clock_ns);
}

static void step(void)
{
    const uint32_t stream = (uint32_t)draw(STREAMS);
    const uint64_t kind = draw(100);
    model.walk++; /* ends found before may have changed */
    if (kind < 12) {
        step_alloc();
    } else if (kind < 14) {
        step_free();
    } else if (kind < 70) {
        step_event(stream);
    } else if (kind < 71) {
        step_stream_synchronize(stream);
    } else if (kind < 82) {
        step_launch(stream);
    } else if (kind < 90) {
        step_busy(stream);
    } else if (kind < 93) {
        step_done(stream);
    } else if (kind < 98) {
        step_advance();
    } else {
        check_memory();
    }
    model.walk++;
    check_usage();
    if (model.call_number % 16 == 0) {
        for (uint32_t i = 0; i < EVENTS; i++) {
            if (model.events[i].handle != 0) {
                check_query(&model.events[i]);
            }
        }
    }
}

static void episode_begin(void)
{
    const uint64_t random_state = model.random_state;
    const uint64_t call_number = model.call_number;
    memset(&model, 0, sizeof model);
    model.random_state = random_state;
    model.call_number = call_number;
    model.capacity_bytes = draw(2) == 0 ? PLEAT_SIM_DEFAULT_CAPACITY_BYTES : 4 * PLEAT_GIB;
    model.costs.size = sizeof model.costs;
    for (uint32_t i = 0; i < PLEAT_VMM_CALL_COUNT; i++) {
        model.costs.call_ns[i] = draw(100);
    }
    pleat_sim_options_t options = PLEAT_SIM_OPTIONS_INIT;
    options.capacity_bytes = model.capacity_bytes;
    options.costs = &model.costs;
    expect_status("sim_create", pleat_sim_create(&options, &model.vmm), PLEAT_OK);
}

/* Take everything back; the device must then hold nothing. */
static void episode_end(void)
{
    model.walk++;
    for (uint32_t i = 0; i < ALLOCATIONS; i++) {
        if (model.allocations[i].ptr != 0) {
            expect_status("mem_free", pleat_vmm_mem_free(model.vmm, model.allocations[i].ptr),
                          PLEAT_OK);
        }
    }
    for (uint32_t i = 0; i < EVENTS; i++) {
        if (model.events[i].handle != 0) {
            expect_status("event_destroy",
                          pleat_vmm_event_destroy(model.vmm, model.events[i].handle), PLEAT_OK);
        }
    }
    pleat_sim_usage_t usage = PLEAT_SIM_USAGE_INIT;
    expect_status("sim_read_usage", pleat_sim_read_usage(model.vmm, &usage), PLEAT_OK);
    expect("what is left", usage.allocations + usage.allocated_bytes + usage.events, 0);
    pleat_vmm_destroy(model.vmm);
}

int main(int argc, char **argv)
{
    const uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    const uint64_t calls = argc > 2 ? strtoull(argv[2], NULL, 10) : 300000;
    (void)printf("sim_model: seed %" PRIu64 ", %" PRIu64 " calls\n", seed, calls);
    model.random_state = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15);
    while (model.call_number < calls) {
        episode_begin();
        for (uint32_t i = 0; i < EPISODE_CALLS; i++) {
            model.call_number++;
            step();
        }
        episode_end();
    }
    (void)printf("sim_model: all answers agreed\n");
    return 0;
}
