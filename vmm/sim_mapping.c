/*
 * sim_mapping: virtual memory of the simulated device: seeded faults, capacity, placer and charges
 * around sim_memory.h, which keeps the driver's rules.
 *
 * Every operation goes the same way as in sim.c: one that fails has neither changed nor cost
 * anything.
 * No lock: one thread at a time for a device.
 */
#include "cost.h"
#include "sim_state.h"

#include <inttypes.h>

static pleat_status_t sim_granularity(void *self, uint64_t *bytes_out)
{
    (void)self;
    *bytes_out = PLEAT_SIM_GRANULARITY_BYTES;
    return PLEAT_OK;
}

static pleat_status_t sim_address_reserve(void *self, uint64_t bytes, pleat_devptr_t *ptr_out)
{
    pleat_sim_t *sim = self;
    pleat_status_t status = pleat_sim_fault(sim, PLEAT_VMM_CALL_ADDRESS_RESERVE);
    if (status != PLEAT_OK) {
        return status;
    }
    const pleat_devptr_t wanted =
        sim->placer->reserve == NULL ? 0 : sim->placer->reserve(sim->placer_self);
    status = pleat_sim_memory_reserve(&sim->memory, bytes, wanted, ptr_out);
    if (status == PLEAT_OK) {
        pleat_sim_charge(sim, PLEAT_VMM_CALL_ADDRESS_RESERVE, 0);
    }
    return status;
}

static pleat_status_t sim_address_free(void *self, pleat_devptr_t ptr, uint64_t bytes)
{
    pleat_sim_t *sim = self;
    pleat_status_t status = pleat_sim_fault(sim, PLEAT_VMM_CALL_ADDRESS_FREE);
    if (status != PLEAT_OK) {
        return status;
    }
    status = pleat_sim_memory_unreserve(&sim->memory, ptr, bytes);
    if (status == PLEAT_OK) {
        pleat_sim_charge(sim, PLEAT_VMM_CALL_ADDRESS_FREE, 0);
    }
    return status;
}

static pleat_status_t sim_refuse_chunk(const pleat_sim_t *sim, uint64_t bytes)
{
    pleat_error_set("chunk_create: device '%s' has %" PRIu64 " of %" PRIu64 " bytes free, %" PRIu64
                    " were asked for",
                    sim->placer->name, pleat_sim_free_bytes(sim), sim->capacity_bytes, bytes);
    return PLEAT_ERR_OOM_DEVICE;
}

static pleat_status_t sim_chunk_create(void *self, uint64_t bytes, pleat_chunk_t *chunk_out)
{
    pleat_sim_t *sim = self;
    pleat_status_t status = pleat_sim_fault(sim, PLEAT_VMM_CALL_CHUNK_CREATE);
    if (status != PLEAT_OK) {
        return status;
    }
    status = pleat_sim_memory_check_size(bytes);
    if (status != PLEAT_OK) {
        return status;
    }
    if (bytes > pleat_sim_free_bytes(sim)) {
        return sim_refuse_chunk(sim, bytes);
    }
    if (sim->placer->create != NULL && !sim->placer->create(sim->placer_self, bytes)) {
        return sim_refuse_chunk(sim, bytes);
    }
    status = pleat_sim_memory_create(&sim->memory, bytes, chunk_out);
    if (status == PLEAT_OK) {
        pleat_sim_charge(sim, PLEAT_VMM_CALL_CHUNK_CREATE, bytes);
    } else if (sim->placer->release != NULL) {
        sim->placer->release(sim->placer_self, bytes);
    }
    return status;
}

static pleat_status_t sim_chunk_release(void *self, pleat_chunk_t chunk)
{
    pleat_sim_t *sim = self;
    pleat_status_t status = pleat_sim_fault(sim, PLEAT_VMM_CALL_CHUNK_RELEASE);
    if (status != PLEAT_OK) {
        return status;
    }
    const uint64_t bytes = pleat_sim_memory_chunk_bytes(&sim->memory, chunk);
    status = pleat_sim_memory_release(&sim->memory, chunk);
    if (status == PLEAT_OK) {
        pleat_sim_charge(sim, PLEAT_VMM_CALL_CHUNK_RELEASE, bytes);
        if (sim->placer->release != NULL) {
            sim->placer->release(sim->placer_self, bytes);
        }
    }
    return status;
}

static pleat_status_t sim_map(void *self, pleat_devptr_t ptr, uint64_t bytes, pleat_chunk_t chunk)
{
    pleat_sim_t *sim = self;
    pleat_status_t status = pleat_sim_fault(sim, PLEAT_VMM_CALL_MAP);
    if (status != PLEAT_OK) {
        return status;
    }
    status = pleat_sim_memory_map(&sim->memory, ptr, bytes, chunk);
    if (status == PLEAT_OK) {
        pleat_sim_charge(sim, PLEAT_VMM_CALL_MAP, bytes);
        if (sim->placer->map != NULL) {
            sim->placer->map(sim->placer_self, ptr, bytes);
        }
    }
    return status;
}

/* What a call over several mappings costs: a chunk's cost each, however many one call covers. */
typedef struct sim_bill {
    const pleat_sim_t *sim;
    pleat_vmm_call_t call;
    uint64_t cost_ns;
} sim_bill_t;

static void sim_bill_add(void *context, uint64_t mapping_bytes)
{
    sim_bill_t *bill = context;
    bill->cost_ns += pleat_cost_of(&bill->sim->costs, bill->call, mapping_bytes);
}

static pleat_status_t sim_unmap(void *self, pleat_devptr_t ptr, uint64_t bytes)
{
    pleat_sim_t *sim = self;
    pleat_status_t status = pleat_sim_fault(sim, PLEAT_VMM_CALL_UNMAP);
    if (status != PLEAT_OK) {
        return status;
    }
    sim_bill_t bill = {.sim = sim, .call = PLEAT_VMM_CALL_UNMAP};
    pleat_sim_memory_visit(&sim->memory, ptr, bytes, sim_bill_add, &bill);
    status = pleat_sim_memory_unmap(&sim->memory, ptr, bytes);
    if (status == PLEAT_OK) {
        pleat_timeline_charge(&sim->timeline, bill.cost_ns);
        if (sim->placer->unmap != NULL) {
            sim->placer->unmap(sim->placer_self, ptr, bytes);
        }
    }
    return status;
}

static pleat_status_t sim_set_access(void *self, pleat_devptr_t ptr, uint64_t bytes)
{
    pleat_sim_t *sim = self;
    pleat_status_t status = pleat_sim_fault(sim, PLEAT_VMM_CALL_SET_ACCESS);
    if (status != PLEAT_OK) {
        return status;
    }
    status = pleat_sim_memory_set_access(&sim->memory, ptr, bytes);
    if (status == PLEAT_OK) {
        sim_bill_t bill = {.sim = sim, .call = PLEAT_VMM_CALL_SET_ACCESS};
        pleat_sim_memory_visit(&sim->memory, ptr, bytes, sim_bill_add, &bill);
        pleat_timeline_charge(&sim->timeline, bill.cost_ns);
    }
    return status;
}

void pleat_sim_add_mapping(pleat_vmm_ops_t *ops)
{
    ops->ext_granularity = sim_granularity;
    ops->ext_address_reserve = sim_address_reserve;
    ops->ext_address_free = sim_address_free;
    ops->ext_chunk_create = sim_chunk_create;
    ops->ext_chunk_release = sim_chunk_release;
    ops->ext_map = sim_map;
    ops->ext_unmap = sim_unmap;
    ops->ext_set_access = sim_set_access;
}
