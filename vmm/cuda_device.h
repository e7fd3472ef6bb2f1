/*
 * cuda_device (internal): what tests and measurements need of a GPU beside pleat/cuda.h: to run
 * work on it they look up more entry points, and call them in its context.
 */
#ifndef PLEAT_CUDA_DEVICE_H
#define PLEAT_CUDA_DEVICE_H

#include "cuda_load.h"

#include <pleat/cuda.h>

/** The driver of a GPU; NULL, with the error text set, for another device. */
const pleat_cuda_driver_t *pleat_cuda_driver_of(const pleat_vmm_t *vmm);

/**
 * Make the context of a GPU current on this thread, until pleat_cuda_leave.
 * @retval PLEAT_ERR_INVALID no GPU.   @retval PLEAT_ERR_DRIVER the driver refuses.
 */
PLEAT_NODISCARD pleat_status_t pleat_cuda_enter(const pleat_vmm_t *vmm);
void pleat_cuda_leave(const pleat_vmm_t *vmm);

/**
 * Status of a result; anything but success sets the error text (call: what was done) and the
 * thread's native error.
 */
pleat_status_t pleat_cuda_status(const pleat_cuda_driver_t *driver, pleat_cu_result_t result,
                                 const char *call);

#endif
