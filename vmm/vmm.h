/*
 * vmm (internal): what backends need beside pleat/vmm.h.
 */
#ifndef PLEAT_VMM_INTERNAL_H
#define PLEAT_VMM_INTERNAL_H

#include "base.h"

#include <pleat/vmm.h>

/** Was the device made from a table with this destroy? How a backend knows its own; NULL is not. */
bool pleat_vmm_is_driven_by(const pleat_vmm_t *vmm, void (*destroy)(void *self));

/*
 * An allocation apart: while it is on its way, threads may make other calls of the device, such
 * allocations too. begin and end are calls as any other, one thread at a time; run may be called by
 * any thread at any time. It is counted and told of at its end, as a mem_alloc.
 */
typedef struct pleat_vmm_apart {
    uint64_t bytes; /* not 0 */
    uint64_t begin_ns;
    uint64_t end_ns;
    pleat_devptr_t ptr;
    pleat_status_t status;
} pleat_vmm_apart_t;

/** Can the device allocate so? Else none of the next three may be called. */
bool pleat_vmm_allocates_apart(const pleat_vmm_t *vmm);

/** Begin an allocation of @p bytes, ask the device, and take what it said: as pleat_vmm_mem_alloc.
 */
void pleat_vmm_apart_begin(pleat_vmm_t *vmm, uint64_t bytes, pleat_vmm_apart_t *apart_out);
void pleat_vmm_apart_run(const pleat_vmm_t *vmm, pleat_vmm_apart_t *apart);
PLEAT_NODISCARD pleat_status_t pleat_vmm_apart_end(pleat_vmm_t *vmm, const pleat_vmm_apart_t *apart,
                                                   pleat_devptr_t *ptr_out);

/** Has the device the group ext_capture_*? */
bool pleat_vmm_knows_captures(const pleat_vmm_t *vmm);

/** The group itself; neither is counted. On failure the outputs mean nothing. */
PLEAT_NODISCARD pleat_status_t pleat_vmm_capture_last(pleat_vmm_t *vmm, pleat_stream_t stream,
                                                      size_t capacity, pleat_node_t *nodes_out,
                                                      size_t *count_out, uint64_t *capture_out);
PLEAT_NODISCARD pleat_status_t pleat_vmm_capture_dependencies(pleat_vmm_t *vmm, pleat_node_t node,
                                                              size_t capacity,
                                                              pleat_node_t *nodes_out,
                                                              size_t *count_out);

/* Told of each counted call when it is over: from when to when by the device's clock, and how it
 * ended. Must not call the device. */
typedef void (*pleat_vmm_observer_fn_t)(void *context, pleat_vmm_call_t call, uint64_t begin_ns,
                                        uint64_t end_ns, pleat_status_t status);

/** Tell @p observer of every call from now on; NULL ends that. */
void pleat_vmm_set_observer(pleat_vmm_t *vmm, pleat_vmm_observer_fn_t observer, void *context);

#endif
