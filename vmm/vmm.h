/*
 * vmm (internal): what backends need beside pleat/vmm.h.
 */
#ifndef PLEAT_VMM_INTERNAL_H
#define PLEAT_VMM_INTERNAL_H

#include "base.h"

#include <pleat/vmm.h>

/** Was the device made from a table with this destroy? How a backend knows its own; NULL is not. */
bool pleat_vmm_is_driven_by(const pleat_vmm_t *vmm, void (*destroy)(void *self));

#endif
