/*
 * vmm (internal): what backends need beside pleat/vmm.h.
 */
#ifndef PLEAT_VMM_INTERNAL_H
#define PLEAT_VMM_INTERNAL_H

#include "base.h"

#include <pleat/vmm.h>

/** Was the device made from a table with this destroy? How a backend knows its own; NULL is not. */
bool pleat_vmm_is_driven_by(const pleat_vmm_t *vmm, void (*destroy)(void *self));

/* Told of each counted call when it is over: from when to when by the device's clock, and how it
 * ended. Must not call the device. */
typedef void (*pleat_vmm_observer_fn_t)(void *context, pleat_vmm_call_t call, uint64_t begin_ns,
                                        uint64_t end_ns, pleat_status_t status);

/** Tell @p observer of every call from now on; NULL ends that. */
void pleat_vmm_set_observer(pleat_vmm_t *vmm, pleat_vmm_observer_fn_t observer, void *context);

#endif
