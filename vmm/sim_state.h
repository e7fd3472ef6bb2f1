/*
 * sim_state (internal): the record of a simulated device, shared by sim.c (allocations, streams,
 * events), sim_mapping.c (virtual memory) and sim_share.c (other processes and devices); and how
 * each of their operations begins and ends.
 */
#ifndef PLEAT_SIM_STATE_H
#define PLEAT_SIM_STATE_H

#include "address_space.h"
#include "sim.h"
#include "sim_memory.h"
#include "timeline.h"

typedef struct pleat_sim_fault {
    uint64_t countdown; /* calls until it strikes; 0: none pending */
    pleat_status_t status;
} pleat_sim_fault_t;

/* Plain memory that was opened by its handle. */
typedef struct pleat_sim_opened {
    pleat_devptr_t address;
    uint64_t open_count;
} pleat_sim_opened_t;

struct pleat_sim {
    uint64_t capacity_bytes;
    uint64_t allocated_bytes;
    uint64_t wait_count;
    pleat_timeline_t timeline;
    pleat_span_pool_t spans; /* nodes of live and of the address space */
    pleat_span_tree_t live;
    const pleat_sim_placer_t *placer;
    void *placer_self;
    pleat_address_space_t addresses; /* of the default placer */
    pleat_sim_memory_t memory;
    pleat_sim_opened_t *opened;
    uint32_t opened_count;
    pleat_sim_fault_t faults[PLEAT_VMM_CALL_COUNT];
    pleat_cost_table_t costs;
};

/** Does a seeded fault strike this call? PLEAT_OK: no; else its status, with the error text set. */
pleat_status_t pleat_sim_fault(pleat_sim_t *sim, pleat_vmm_call_t call);

/** Let the clock go on by the cost of a call. */
void pleat_sim_charge(pleat_sim_t *sim, pleat_vmm_call_t call, uint64_t bytes);

/** Enter the group of virtual memory into the table of a sim. */
void pleat_sim_add_mapping(pleat_vmm_ops_t *ops);

/** Enter the groups for other processes and devices. */
void pleat_sim_add_share(pleat_vmm_ops_t *ops);

#endif
