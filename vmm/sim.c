/*
 * sim: the simulated device: capacity and live allocations here, virtual memory in sim_mapping.c,
 * other processes and devices in sim_share.c, addresses by a placer (address_space.h by default,
 * scripted.c for recordings), time and order by timeline.h, costs by cost.h.
 *
 * Every operation goes the same way: seeded fault, argument check, host memory, charge, effect. So
 * a call that fails has neither changed nor cost anything.
 *
 * Invariants:
 *   D1  Live allocations do not overlap and their bytes sum up to allocated_bytes.
 *   D2  Allocated bytes and bytes of chunks together are at most capacity_bytes.
 * No lock: one thread at a time for a device.
 */
#include "sim.h"

#include "cost.h"
#include "sim_state.h"
#include "vmm.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

uint64_t pleat_sim_free_bytes(const pleat_sim_t *sim)
{
    const uint64_t used_bytes = sim->allocated_bytes + sim->memory.chunk_bytes;
    PLEAT_ASSERT(used_bytes <= sim->capacity_bytes);
    return sim->capacity_bytes - used_bytes;
}

bool pleat_sim_find_overlap(const pleat_sim_t *sim, pleat_span_t span, pleat_span_t *live_out)
{
    return pleat_span_find_overlap(&sim->spans, &sim->live, span, live_out);
}

pleat_status_t pleat_sim_out_of_memory(const pleat_sim_t *sim, uint64_t bytes)
{
    pleat_error_set("mem_alloc: device '%s' has %" PRIu64 " of %" PRIu64 " bytes free, %" PRIu64
                    " were asked for",
                    sim->placer->name, pleat_sim_free_bytes(sim), sim->capacity_bytes, bytes);
    return PLEAT_ERR_OOM_DEVICE;
}

/* Does a seeded fault strike this call? PLEAT_OK: no. */
pleat_status_t pleat_sim_fault(pleat_sim_t *sim, pleat_vmm_call_t call)
{
    pleat_sim_fault_t *fault = &sim->faults[call];
    if (fault->countdown == 0) {
        return PLEAT_OK;
    }
    fault->countdown--;
    if (fault->countdown > 0) {
        return PLEAT_OK;
    }
    pleat_error_set("%s: seeded fault: %s", pleat_vmm_call_name(call),
                    pleat_status_text(fault->status));
    return fault->status;
}

void pleat_sim_charge(pleat_sim_t *sim, pleat_vmm_call_t call, uint64_t bytes)
{
    pleat_timeline_charge(&sim->timeline, pleat_cost_of(&sim->costs, call, bytes));
}

/* Free everything but the placer. */
static void sim_discard(pleat_sim_t *sim)
{
    pleat_sim_memory_fini(&sim->memory);
    pleat_timeline_fini(&sim->timeline);
    pleat_span_pool_fini(&sim->spans);
    free(sim->opened);
    free(sim);
}

static void sim_destroy(void *self)
{
    pleat_sim_t *sim = self;
    sim->placer->destroy(sim->placer_self);
    sim_discard(sim);
}

static uint64_t sim_clock_ns(void *self)
{
    return ((const pleat_sim_t *)self)->timeline.clock_ns;
}

static uint64_t sim_wait_count(void *self)
{
    return ((const pleat_sim_t *)self)->wait_count;
}

static pleat_status_t sim_mem_info(void *self, uint64_t *free_bytes_out, uint64_t *total_bytes_out)
{
    pleat_sim_t *sim = self;
    const pleat_status_t status = pleat_sim_fault(sim, PLEAT_VMM_CALL_MEM_INFO);
    if (status != PLEAT_OK) {
        return status;
    }
    pleat_sim_charge(sim, PLEAT_VMM_CALL_MEM_INFO, 0);
    *free_bytes_out = pleat_sim_free_bytes(sim);
    *total_bytes_out = sim->capacity_bytes;
    return PLEAT_OK;
}

/* The host's pages that an allocation lies on. */
static pleat_span_t sim_pages_of(const pleat_sim_t *sim, pleat_span_t span)
{
    const uint64_t page_bytes = sim->memory.arena.page_bytes;
    const uint64_t begin = pleat_align_down(span.begin, page_bytes);
    return (pleat_span_t){begin, pleat_align_up(span.begin + span.bytes, page_bytes) - begin};
}

/* Close the pages on which nothing else lies. */
static pleat_status_t sim_close(const pleat_sim_t *sim, pleat_span_t span)
{
    const uint64_t page_bytes = sim->memory.arena.page_bytes;
    const pleat_span_t pages = sim_pages_of(sim, span);
    uint64_t begin = pages.begin;
    uint64_t end = pages.begin + pages.bytes;
    const pleat_span_t before = {begin, span.begin - begin};
    const pleat_span_t behind = {span.begin + span.bytes, end - span.begin - span.bytes};
    pleat_span_t live;
    if (before.bytes > 0 && pleat_sim_find_overlap(sim, before, &live)) {
        begin += page_bytes;
    }
    if (behind.bytes > 0 && end > begin && pleat_sim_find_overlap(sim, behind, &live)) {
        end -= page_bytes;
    }
    return begin < end ? pleat_sim_arena_close(&sim->memory.arena, begin, end - begin) : PLEAT_OK;
}

static pleat_status_t sim_mem_alloc(void *self, uint64_t bytes, pleat_devptr_t *ptr_out)
{
    pleat_sim_t *sim = self;
    pleat_status_t status = pleat_sim_fault(sim, PLEAT_VMM_CALL_MEM_ALLOC);
    if (status != PLEAT_OK) {
        return status;
    }
    status = pleat_span_pool_reserve(&sim->spans, PLEAT_ADDRESS_TAKE_NODES + 1);
    if (status != PLEAT_OK) {
        return status;
    }
    pleat_devptr_t ptr = 0;
    status = sim->placer->take(sim->placer_self, sim, bytes, &ptr);
    if (status != PLEAT_OK) {
        return status;
    }
    if (sim->memory.is_backed) {
        const pleat_span_t pages = sim_pages_of(sim, (pleat_span_t){ptr, bytes});
        status = pleat_sim_arena_open(&sim->memory.arena, pages.begin, pages.bytes);
        if (status != PLEAT_OK) {
            sim->placer->give(sim->placer_self, ptr, bytes);
            return status;
        }
    }
    pleat_span_insert(&sim->spans, &sim->live, (pleat_span_t){ptr, bytes});
    sim->allocated_bytes += bytes;
    PLEAT_ASSERT(sim->allocated_bytes <= sim->capacity_bytes);
    pleat_sim_charge(sim, PLEAT_VMM_CALL_MEM_ALLOC, bytes);
    *ptr_out = ptr;
    return PLEAT_OK;
}

static pleat_status_t sim_refuse_pointer(const pleat_sim_t *sim, pleat_devptr_t ptr)
{
    pleat_span_t live;
    if (pleat_sim_find_overlap(sim, (pleat_span_t){ptr, 1}, &live)) {
        pleat_error_set("mem_free: 0x%" PRIx64 " lies inside the allocation at 0x%" PRIx64
                        " of %" PRIu64 " bytes; free that address",
                        ptr, live.begin, live.bytes);
    } else {
        pleat_error_set("mem_free: 0x%" PRIx64 " is no live allocation of device '%s'", ptr,
                        sim->placer->name);
    }
    return PLEAT_ERR_INVALID_POINTER;
}

static pleat_status_t sim_mem_free(void *self, pleat_devptr_t ptr)
{
    pleat_sim_t *sim = self;
    pleat_status_t status = pleat_sim_fault(sim, PLEAT_VMM_CALL_MEM_FREE);
    if (status != PLEAT_OK) {
        return status;
    }
    pleat_span_t live;
    if (!pleat_span_find_at_or_below(&sim->spans, &sim->live, ptr, &live) || live.begin != ptr) {
        return sim_refuse_pointer(sim, ptr);
    }
    status = sim->memory.is_backed ? sim_close(sim, live) : PLEAT_OK;
    if (status != PLEAT_OK) {
        return status;
    }
    (void)pleat_timeline_finish_all(&sim->timeline);
    sim->wait_count++; /* the driver synchronises whether or not there is work */
    pleat_sim_charge(sim, PLEAT_VMM_CALL_MEM_FREE, live.bytes);
    pleat_span_remove(&sim->spans, &sim->live, ptr);
    sim->allocated_bytes -= live.bytes;
    sim->placer->give(sim->placer_self, ptr, live.bytes);
    return PLEAT_OK;
}

/* Seeded fault and liveness: how every call on an event begins. */
static pleat_status_t sim_begin_event_call(pleat_sim_t *sim, pleat_vmm_call_t call,
                                           pleat_event_t event)
{
    const pleat_status_t status = pleat_sim_fault(sim, call);
    if (status != PLEAT_OK) {
        return status;
    }
    if (!pleat_timeline_event_is_live(&sim->timeline, event)) {
        pleat_error_set("%s: 0x%" PRIx64 " is no live event of device '%s'",
                        pleat_vmm_call_name(call), event, sim->placer->name);
        return PLEAT_ERR_INVALID;
    }
    return PLEAT_OK;
}

static pleat_status_t sim_event_create(void *self, pleat_event_t *event_out)
{
    pleat_sim_t *sim = self;
    pleat_status_t status = pleat_sim_fault(sim, PLEAT_VMM_CALL_EVENT_CREATE);
    if (status != PLEAT_OK) {
        return status;
    }
    status = pleat_timeline_event_create(&sim->timeline, event_out);
    if (status == PLEAT_OK) {
        pleat_sim_charge(sim, PLEAT_VMM_CALL_EVENT_CREATE, 0);
    }
    return status;
}

static pleat_status_t sim_event_destroy(void *self, pleat_event_t event)
{
    pleat_sim_t *sim = self;
    const pleat_status_t status = sim_begin_event_call(sim, PLEAT_VMM_CALL_EVENT_DESTROY, event);
    if (status != PLEAT_OK) {
        return status;
    }
    pleat_sim_charge(sim, PLEAT_VMM_CALL_EVENT_DESTROY, 0);
    pleat_timeline_event_destroy(&sim->timeline, event);
    return PLEAT_OK;
}

static pleat_status_t sim_event_record(void *self, pleat_event_t event, pleat_stream_t stream)
{
    pleat_sim_t *sim = self;
    const pleat_status_t status = sim_begin_event_call(sim, PLEAT_VMM_CALL_EVENT_RECORD, event);
    if (status != PLEAT_OK) {
        return status;
    }
    pleat_sim_charge(sim, PLEAT_VMM_CALL_EVENT_RECORD, 0);
    pleat_timeline_event_record(&sim->timeline, event, stream);
    return PLEAT_OK;
}

static pleat_status_t sim_event_query(void *self, pleat_event_t event)
{
    pleat_sim_t *sim = self;
    const pleat_status_t status = sim_begin_event_call(sim, PLEAT_VMM_CALL_EVENT_QUERY, event);
    if (status != PLEAT_OK) {
        return status;
    }
    pleat_sim_charge(sim, PLEAT_VMM_CALL_EVENT_QUERY, 0);
    return pleat_timeline_event_is_complete(&sim->timeline, event) ? PLEAT_OK : PLEAT_ERR_NOT_READY;
}

static pleat_status_t sim_event_synchronize(void *self, pleat_event_t event)
{
    pleat_sim_t *sim = self;
    const pleat_status_t status =
        sim_begin_event_call(sim, PLEAT_VMM_CALL_EVENT_SYNCHRONIZE, event);
    if (status != PLEAT_OK) {
        return status;
    }
    sim->wait_count += pleat_timeline_event_finish(&sim->timeline, event);
    pleat_sim_charge(sim, PLEAT_VMM_CALL_EVENT_SYNCHRONIZE, 0);
    return PLEAT_OK;
}

static pleat_status_t sim_stream_wait_event(void *self, pleat_stream_t stream, pleat_event_t event)
{
    pleat_sim_t *sim = self;
    pleat_status_t status = sim_begin_event_call(sim, PLEAT_VMM_CALL_STREAM_WAIT_EVENT, event);
    if (status != PLEAT_OK) {
        return status;
    }
    status = pleat_timeline_wait_event(&sim->timeline, stream, event);
    if (status == PLEAT_OK) {
        pleat_sim_charge(sim, PLEAT_VMM_CALL_STREAM_WAIT_EVENT, 0);
    }
    return status;
}

static pleat_status_t sim_stream_synchronize(void *self, pleat_stream_t stream)
{
    pleat_sim_t *sim = self;
    const pleat_status_t status = pleat_sim_fault(sim, PLEAT_VMM_CALL_STREAM_SYNCHRONIZE);
    if (status != PLEAT_OK) {
        return status;
    }
    sim->wait_count += pleat_timeline_finish_stream(&sim->timeline, stream);
    pleat_sim_charge(sim, PLEAT_VMM_CALL_STREAM_SYNCHRONIZE, 0);
    return PLEAT_OK;
}

/* ---- addresses ---- */

static pleat_status_t addresses_take(void *self, pleat_sim_t *sim, uint64_t bytes,
                                     pleat_devptr_t *ptr_out)
{
    PLEAT_ASSERT(self == &sim->addresses);
    if (bytes > pleat_sim_free_bytes(sim)) {
        return pleat_sim_out_of_memory(sim, bytes);
    }
    const pleat_devptr_t ptr = pleat_address_space_take(self, bytes);
    if (ptr == 0) {
        pleat_error_set("mem_alloc: no addresses left for %" PRIu64 " bytes", bytes);
        return PLEAT_ERR_OOM_DEVICE;
    }
    *ptr_out = ptr;
    return PLEAT_OK;
}

static void addresses_give(void *self, pleat_devptr_t ptr, uint64_t bytes)
{
    pleat_address_space_give(self, ptr, bytes);
}

static void addresses_destroy(void *self)
{
    (void)self; /* its nodes belong to the sim */
}

static const pleat_sim_placer_t address_placer = {
    .name = "sim",
    .take = addresses_take,
    .give = addresses_give,
    .destroy = addresses_destroy,
};

/* Take defaults for what the options lack; check the rest. */
static pleat_status_t sim_set_options(pleat_sim_t *sim, const pleat_sim_options_t *options)
{
    pleat_sim_options_t chosen = PLEAT_SIM_OPTIONS_INIT;
    if (options != NULL) {
        if (options->size < sizeof options->size) {
            pleat_error_set("sim options: size is %zu (set it with PLEAT_SIM_OPTIONS_INIT)",
                            options->size);
            return PLEAT_ERR_INVALID;
        }
        memcpy(&chosen, options, options->size < sizeof chosen ? options->size : sizeof chosen);
    }
    if (chosen.capacity_bytes > PLEAT_SIM_MAX_CAPACITY_BYTES) {
        pleat_error_set("sim options: capacity_bytes is %" PRIu64 ", at most %" PRIu64
                        " (64 TiB) can be addressed",
                        chosen.capacity_bytes, PLEAT_SIM_MAX_CAPACITY_BYTES);
        return PLEAT_ERR_INVALID;
    }
    sim->capacity_bytes =
        chosen.capacity_bytes == 0 ? PLEAT_SIM_DEFAULT_CAPACITY_BYTES : chosen.capacity_bytes;
    const pleat_cost_table_t *costs = chosen.costs == NULL ? pleat_cost_table_h200() : chosen.costs;
    const pleat_status_t status = pleat_cost_table_check(costs);
    if (status != PLEAT_OK) {
        return status;
    }
    sim->costs = *costs;
    const pleat_status_t made = pleat_sim_memory_init(
        &sim->memory, chosen.is_backed,
        chosen.address_limit_bytes == 0 ? PLEAT_SIM_ADDRESS_LIMIT_BYTES
                                        : chosen.address_limit_bytes,
        chosen.mapping_limit == 0 ? PLEAT_SIM_MAPPINGS_MAX : chosen.mapping_limit);
    sim->memory.exports_chunks = chosen.exports_chunks != 0;
    return made;
}

static pleat_status_t sim_make(const pleat_sim_options_t *options, pleat_sim_t **sim_out)
{
    pleat_sim_t *sim = calloc(1, sizeof *sim);
    if (sim == NULL) {
        pleat_error_set("sim: no host memory for a device record of %zu bytes", sizeof *sim);
        return PLEAT_ERR_OOM_HOST;
    }
    const pleat_status_t status = sim_set_options(sim, options);
    if (status != PLEAT_OK) {
        free(sim);
        return status;
    }
    pleat_timeline_init(&sim->timeline);
    pleat_span_pool_init(&sim->spans);
    *sim_out = sim;
    return PLEAT_OK;
}

/* The device around a sim; frees the sim on failure, but not its placer. */
static pleat_status_t sim_wrap(pleat_sim_t *sim, const pleat_sim_placer_t *placer,
                               void *placer_self, pleat_vmm_t **vmm_out)
{
    pleat_vmm_ops_t ops = {
        PLEAT_VMM_OPS_INIT(placer->name),
        .destroy = sim_destroy,
        .clock_ns = sim_clock_ns,
        .wait_count = sim_wait_count,
        .mem_info = sim_mem_info,
        .mem_alloc = sim_mem_alloc,
        .mem_free = sim_mem_free,
        .event_create = sim_event_create,
        .event_destroy = sim_event_destroy,
        .event_record = sim_event_record,
        .event_query = sim_event_query,
        .event_synchronize = sim_event_synchronize,
        .stream_wait_event = sim_stream_wait_event,
        .stream_synchronize = sim_stream_synchronize,
    };
    pleat_sim_add_mapping(&ops);
    pleat_sim_add_share(&ops);
    sim->placer = placer;
    sim->placer_self = placer_self;
    const pleat_status_t status = pleat_vmm_create(&ops, sim, vmm_out);
    if (status != PLEAT_OK) {
        sim_discard(sim);
    }
    return status;
}

pleat_status_t pleat_sim_create_placed(const pleat_sim_options_t *options,
                                       const pleat_sim_placer_t *placer, void *self,
                                       pleat_vmm_t **vmm_out)
{
    pleat_sim_t *sim = NULL;
    const pleat_status_t status = sim_make(options, &sim);
    return status != PLEAT_OK ? status : sim_wrap(sim, placer, self, vmm_out);
}

pleat_status_t pleat_sim_create(const pleat_sim_options_t *options, pleat_vmm_t **vmm_out)
{
    if (vmm_out == NULL) {
        pleat_error_set("sim_create: vmm_out is NULL");
        return PLEAT_ERR_INVALID;
    }
    pleat_sim_t *sim = NULL;
    pleat_status_t status = sim_make(options, &sim);
    if (status != PLEAT_OK) {
        return status;
    }
    status = sim->memory.is_backed ? pleat_address_space_init_in(&sim->addresses, &sim->spans,
                                                                 sim->memory.arena.plain)
                                   : pleat_address_space_init(&sim->addresses, &sim->spans);
    if (status != PLEAT_OK) {
        sim_discard(sim);
        return status;
    }
    return sim_wrap(sim, &address_placer, &sim->addresses, vmm_out);
}

void pleat_sim_set_exports(const pleat_vmm_t *vmm, bool exports_chunks)
{
    pleat_sim_t *sim = pleat_vmm_is_driven_by(vmm, sim_destroy) ? pleat_vmm_self(vmm) : NULL;
    if (sim != NULL) {
        sim->memory.exports_chunks = exports_chunks;
    }
}

bool pleat_sim_is_accessible_to(const pleat_vmm_t *vmm, int device, pleat_devptr_t ptr,
                                uint64_t bytes)
{
    const pleat_sim_t *sim = pleat_vmm_is_driven_by(vmm, sim_destroy) ? pleat_vmm_self(vmm) : NULL;
    return sim != NULL && pleat_sim_memory_is_accessible_to(&sim->memory, device, ptr, bytes);
}

/* The sim behind a device; sets the error when it is none. */
static pleat_sim_t *sim_of(const pleat_vmm_t *vmm, const char *function)
{
    if (!pleat_vmm_is_driven_by(vmm, sim_destroy)) {
        pleat_error_set("%s: device '%s' is no simulated one", function, pleat_vmm_name(vmm));
        return NULL;
    }
    return pleat_vmm_self(vmm);
}

void *pleat_sim_placer_self(const pleat_vmm_t *vmm, const pleat_sim_placer_t *placer)
{
    const pleat_sim_t *sim = pleat_vmm_is_driven_by(vmm, sim_destroy) ? pleat_vmm_self(vmm) : NULL;
    return sim != NULL && sim->placer == placer ? sim->placer_self : NULL;
}

pleat_status_t pleat_sim_launch(pleat_vmm_t *vmm, pleat_stream_t stream, uint64_t duration_ns)
{
    pleat_sim_t *sim = sim_of(vmm, "sim_launch");
    return sim == NULL ? PLEAT_ERR_INVALID
                       : pleat_timeline_launch(&sim->timeline, stream, duration_ns);
}

pleat_status_t pleat_sim_set_busy(pleat_vmm_t *vmm, pleat_stream_t stream)
{
    pleat_sim_t *sim = sim_of(vmm, "sim_set_busy");
    return sim == NULL ? PLEAT_ERR_INVALID : pleat_timeline_set_busy(&sim->timeline, stream);
}

pleat_status_t pleat_sim_set_done(pleat_vmm_t *vmm, pleat_stream_t stream)
{
    pleat_sim_t *sim = sim_of(vmm, "sim_set_done");
    if (sim == NULL) {
        return PLEAT_ERR_INVALID;
    }
    (void)pleat_timeline_finish_stream(&sim->timeline, stream);
    return PLEAT_OK;
}

pleat_status_t pleat_sim_set_all_done(pleat_vmm_t *vmm)
{
    pleat_sim_t *sim = sim_of(vmm, "sim_set_all_done");
    if (sim == NULL) {
        return PLEAT_ERR_INVALID;
    }
    (void)pleat_timeline_finish_all(&sim->timeline);
    return PLEAT_OK;
}

pleat_status_t pleat_sim_advance_to(pleat_vmm_t *vmm, uint64_t clock_ns)
{
    pleat_sim_t *sim = sim_of(vmm, "sim_advance_to");
    if (sim == NULL) {
        return PLEAT_ERR_INVALID;
    }
    pleat_timeline_advance_to(&sim->timeline, clock_ns);
    return PLEAT_OK;
}

pleat_status_t pleat_sim_fail_call(pleat_vmm_t *vmm, pleat_vmm_call_t call, uint64_t nth,
                                   pleat_status_t status)
{
    pleat_sim_t *sim = sim_of(vmm, "sim_fail_call");
    if (sim == NULL) {
        return PLEAT_ERR_INVALID;
    }
    if ((unsigned)call >= (unsigned)PLEAT_VMM_CALL_COUNT) {
        pleat_error_set("sim_fail_call: %d is no kind of call; 0 to %d are", (int)call,
                        (int)PLEAT_VMM_CALL_COUNT - 1);
        return PLEAT_ERR_INVALID;
    }
    if (status == PLEAT_OK) {
        pleat_error_set("sim_fail_call: a fault needs a status other than success");
        return PLEAT_ERR_INVALID;
    }
    sim->faults[call] = (pleat_sim_fault_t){.countdown = nth, .status = status};
    return PLEAT_OK;
}

pleat_status_t pleat_sim_read_usage(pleat_vmm_t *vmm, pleat_sim_usage_t *usage_out)
{
    const pleat_sim_t *sim = sim_of(vmm, "sim_read_usage");
    if (sim == NULL) {
        return PLEAT_ERR_INVALID;
    }
    if (usage_out == NULL || usage_out->size < sizeof usage_out->size) {
        pleat_error_set("sim_read_usage: usage_out %s", usage_out == NULL
                                                            ? "is NULL"
                                                            : "lacks its size (set it with "
                                                              "PLEAT_SIM_USAGE_INIT)");
        return PLEAT_ERR_INVALID;
    }
    const pleat_sim_usage_t usage = {
        .size = usage_out->size, /* stays, so that the struct can be read into again */
        .allocations = sim->live.count,
        .allocated_bytes = sim->allocated_bytes,
        .events = sim->timeline.event_count,
        .ranges = sim->memory.range_count,
        .chunks = sim->memory.chunk_count,
        .chunk_bytes = sim->memory.chunk_bytes,
        .mappings = sim->memory.mapping_count,
        .opened = sim->opened_count,
    };
    memcpy(usage_out, &usage, usage.size < sizeof usage ? usage.size : sizeof usage);
    return PLEAT_OK;
}
