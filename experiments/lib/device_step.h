/*
 * device_step: which call of the device stands behind an action of a history.
 */
#ifndef PLEAT_EXPERIMENTS_DEVICE_STEP_H
#define PLEAT_EXPERIMENTS_DEVICE_STEP_H

#include <pleat/allocator.h>
#include <pleat/vmm.h>

/* The device's call behind an action; PLEAT_VMM_CALL_COUNT: none. Constant. */
pleat_vmm_call_t pleat_device_step(pleat_action_t action);

#endif
