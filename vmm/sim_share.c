/*
 * sim_share: memory of the simulated device for other processes and devices: chunks as descriptors
 * (sim_memory.h), handles of plain allocations, peers.
 *
 * Every operation goes the same way as in sim.c: one that fails has neither changed nor cost
 * anything.
 * No lock: one thread at a time for a device.
 */
#include "sim_state.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What a handle of plain memory holds. */
typedef struct sim_ticket {
    char magic[8];
    uint64_t process;
    uint64_t sim; /* address of its record: a process may have several */
    pleat_span_t span;
} sim_ticket_t;

static const char ticket_magic[8] = "pleatipc";

_Static_assert(sizeof(sim_ticket_t) <= PLEAT_IPC_HANDLE_BYTES, "a ticket fits into a handle");

static pleat_status_t sim_chunk_export(void *self, pleat_chunk_t chunk, int *file_out)
{
    pleat_sim_t *sim = self;
    pleat_status_t status = pleat_sim_fault(sim, PLEAT_VMM_CALL_CHUNK_EXPORT);
    if (status == PLEAT_OK) {
        status = pleat_sim_memory_export(&sim->memory, chunk, file_out);
    }
    if (status == PLEAT_OK) {
        pleat_sim_charge(sim, PLEAT_VMM_CALL_CHUNK_EXPORT, 0);
    }
    return status;
}

static pleat_status_t sim_chunk_import(void *self, int file, pleat_chunk_t *chunk_out)
{
    pleat_sim_t *sim = self;
    pleat_status_t status = pleat_sim_fault(sim, PLEAT_VMM_CALL_CHUNK_IMPORT);
    if (status == PLEAT_OK) {
        status = pleat_sim_memory_import(&sim->memory, file, chunk_out);
    }
    if (status == PLEAT_OK) {
        pleat_sim_charge(sim, PLEAT_VMM_CALL_CHUNK_IMPORT, 0);
    }
    return status;
}

/* ---- handles of plain memory ---- */

static pleat_status_t sim_ipc_export(void *self, pleat_devptr_t ptr, pleat_ipc_handle_t *handle_out)
{
    pleat_sim_t *sim = self;
    const pleat_status_t status = pleat_sim_fault(sim, PLEAT_VMM_CALL_IPC_EXPORT);
    if (status != PLEAT_OK) {
        return status;
    }
    sim_ticket_t ticket = {.process = (uint64_t)getpid(), .sim = (uint64_t)(uintptr_t)sim};
    memcpy(ticket.magic, ticket_magic, sizeof ticket.magic);
    if (!pleat_sim_find_overlap(sim, (pleat_span_t){ptr, 1}, &ticket.span)) {
        pleat_error_set("ipc_export: 0x%" PRIx64 " is in no live allocation", ptr);
        return PLEAT_ERR_INVALID_POINTER;
    }
    pleat_sim_charge(sim, PLEAT_VMM_CALL_IPC_EXPORT, 0);
    *handle_out = (pleat_ipc_handle_t){{0}};
    memcpy(handle_out->bytes, &ticket, sizeof ticket);
    return PLEAT_OK;
}

/* Is what a handle names there, in this process? */
static pleat_status_t sim_check_ticket(const pleat_sim_t *sim, const sim_ticket_t *ticket)
{
    if (memcmp(ticket->magic, ticket_magic, sizeof ticket->magic) != 0) {
        pleat_error_set("ipc_open: these bytes are no handle of a sim");
        return PLEAT_ERR_INVALID;
    }
    if (ticket->process != (uint64_t)getpid() || ticket->sim != (uint64_t)(uintptr_t)sim) {
        pleat_error_set("ipc_open: the handle is of process %" PRIu64 " or of another sim; a sim "
                        "opens its own only",
                        ticket->process);
        return PLEAT_ERR_UNSUPPORTED;
    }
    pleat_span_t live;
    if (ticket->span.bytes == 0 || !pleat_sim_find_overlap(sim, ticket->span, &live) ||
        live.begin != ticket->span.begin || live.bytes != ticket->span.bytes) {
        pleat_error_set("ipc_open: the memory at 0x%" PRIx64 " is gone", ticket->span.begin);
        return PLEAT_ERR_INVALID;
    }
    return PLEAT_OK;
}

static pleat_sim_opened_t *sim_find_opened(const pleat_sim_t *sim, pleat_devptr_t ptr)
{
    for (uint32_t i = 0; i < sim->opened_count; i++) {
        if (sim->opened[i].address == ptr) {
            return &sim->opened[i];
        }
    }
    return NULL;
}

static pleat_status_t sim_add_opened(pleat_sim_t *sim, pleat_devptr_t ptr)
{
    pleat_sim_opened_t *opened = sim_find_opened(sim, ptr);
    if (opened != NULL) {
        opened->open_count++;
        return PLEAT_OK;
    }
    opened = realloc(sim->opened, (sim->opened_count + 1) * sizeof *opened);
    if (opened == NULL) {
        pleat_error_set("ipc_open: no host memory for a record");
        return PLEAT_ERR_OOM_HOST;
    }
    sim->opened = opened;
    opened[sim->opened_count++] = (pleat_sim_opened_t){.address = ptr, .open_count = 1};
    return PLEAT_OK;
}

static pleat_status_t sim_ipc_open(void *self, const pleat_ipc_handle_t *handle,
                                   pleat_devptr_t *ptr_out)
{
    pleat_sim_t *sim = self;
    sim_ticket_t ticket;
    memcpy(&ticket, handle->bytes, sizeof ticket);
    pleat_status_t status = pleat_sim_fault(sim, PLEAT_VMM_CALL_IPC_OPEN);
    if (status == PLEAT_OK) {
        status = sim_check_ticket(sim, &ticket);
    }
    if (status == PLEAT_OK) {
        status = sim_add_opened(sim, ticket.span.begin);
    }
    if (status == PLEAT_OK) {
        pleat_sim_charge(sim, PLEAT_VMM_CALL_IPC_OPEN, 0);
        *ptr_out = ticket.span.begin;
    }
    return status;
}

static pleat_status_t sim_ipc_close(void *self, pleat_devptr_t ptr)
{
    pleat_sim_t *sim = self;
    const pleat_status_t status = pleat_sim_fault(sim, PLEAT_VMM_CALL_IPC_CLOSE);
    if (status != PLEAT_OK) {
        return status;
    }
    pleat_sim_opened_t *opened = sim_find_opened(sim, ptr);
    if (opened == NULL) {
        pleat_error_set("ipc_close: 0x%" PRIx64 " was not opened", ptr);
        return PLEAT_ERR_INVALID_POINTER;
    }
    pleat_sim_charge(sim, PLEAT_VMM_CALL_IPC_CLOSE, 0);
    if (--opened->open_count == 0) {
        *opened = sim->opened[--sim->opened_count];
    }
    return PLEAT_OK;
}

/* ---- peers ---- */

static pleat_status_t sim_begin_peer(pleat_sim_t *sim, pleat_vmm_call_t call, int device)
{
    const pleat_status_t status = pleat_sim_fault(sim, call);
    if (status == PLEAT_OK && (device < 0 || device >= PLEAT_SIM_DEVICES)) {
        pleat_error_set("%s: no device %d; a sim knows 0 to %d", pleat_vmm_call_name(call), device,
                        PLEAT_SIM_DEVICES - 1);
        return PLEAT_ERR_INVALID;
    }
    return status;
}

static pleat_status_t sim_peer_add(void *self, int device)
{
    pleat_sim_t *sim = self;
    const pleat_status_t status = sim_begin_peer(sim, PLEAT_VMM_CALL_PEER_ADD, device);
    if (status == PLEAT_OK) {
        pleat_sim_charge(sim, PLEAT_VMM_CALL_PEER_ADD, 0);
        sim->memory.peers |= UINT64_C(1) << device;
    }
    return status;
}

static pleat_status_t sim_peer_remove(void *self, int device)
{
    pleat_sim_t *sim = self;
    const pleat_status_t status = sim_begin_peer(sim, PLEAT_VMM_CALL_PEER_REMOVE, device);
    if (status == PLEAT_OK) {
        pleat_sim_charge(sim, PLEAT_VMM_CALL_PEER_REMOVE, 0);
        sim->memory.peers &= ~(UINT64_C(1) << device);
    }
    return status;
}

void pleat_sim_add_share(pleat_vmm_ops_t *ops)
{
    ops->ext_chunk_export = sim_chunk_export;
    ops->ext_chunk_import = sim_chunk_import;
    ops->ext_ipc_export = sim_ipc_export;
    ops->ext_ipc_open = sim_ipc_open;
    ops->ext_ipc_close = sim_ipc_close;
    ops->ext_peer_add = sim_peer_add;
    ops->ext_peer_remove = sim_peer_remove;
}
