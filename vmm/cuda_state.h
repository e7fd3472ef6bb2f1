/*
 * cuda_state (internal): the record of a GPU, shared by cuda.c (memory, events, streams) and
 * cuda_share.c (other processes and devices); and how each of their operations calls the driver.
 */
#ifndef PLEAT_CUDA_STATE_H
#define PLEAT_CUDA_STATE_H

#include "cuda_device.h"

#define PLEAT_CUDA_DEVICES_MAX 128

typedef struct pleat_cuda {
    pleat_cuda_driver_t driver;
    pleat_cu_device_t device;
    pleat_cu_context_t context;
    uint64_t granularity_bytes; /* 0: no virtual memory */
    uint64_t wait_count;
    pleat_cu_properties_t properties;
    size_t access_count;
    pleat_cu_access_t access[PLEAT_CUDA_DEVICES_MAX]; /* the device itself, then its peers */
} pleat_cuda_t;

/* As pleat_cuda_status; the text also has the values of the call. */
pleat_status_t pleat_cuda_status_of(const pleat_cuda_t *cuda, pleat_cu_result_t result,
                                    const char *call, pleat_devptr_t ptr, uint64_t bytes);

/* Make the device's context current on this thread, unless it is; and back. */
PLEAT_NODISCARD pleat_status_t pleat_cuda_context_enter(const pleat_cuda_t *cuda,
                                                        bool *is_pushed_out);
void pleat_cuda_context_leave(const pleat_cuda_t *cuda, bool is_pushed);

/* While any thread captures a stream into a graph, the driver refuses calls about memory and
 * events, and spoils the capture, unless the calling thread is in the relaxed mode. `mode` takes
 * the one that it was in. */
bool pleat_cuda_capture_relax(const pleat_cuda_t *cuda, unsigned int *mode);
void pleat_cuda_capture_restore(const pleat_cuda_t *cuda, unsigned int mode, bool is_relaxed);

/* Call the driver in the context of the device; gives the result to `result`. */
#define CUDA_CALL(cuda, result, expression)                                          \
    do {                                                                             \
        bool is_pushed = false;                                                      \
        const pleat_status_t entered = pleat_cuda_context_enter((cuda), &is_pushed); \
        if (entered != PLEAT_OK) {                                                   \
            return entered;                                                          \
        }                                                                            \
        (result) = (cuda)->driver.expression;                                        \
        pleat_cuda_context_leave((cuda), is_pushed);                                 \
    } while (0)

/* As CUDA_CALL, for calls by which memory comes or goes, and for looks at events: none of them is
 * about a stream that is captured. */
#define CUDA_MEMORY_CALL(cuda, result, expression)                                   \
    do {                                                                             \
        bool is_pushed = false;                                                      \
        unsigned int mode = 0;                                                       \
        const pleat_status_t entered = pleat_cuda_context_enter((cuda), &is_pushed); \
        if (entered != PLEAT_OK) {                                                   \
            return entered;                                                          \
        }                                                                            \
        const bool is_relaxed = pleat_cuda_capture_relax((cuda), &mode);             \
        (result) = (cuda)->driver.expression;                                        \
        pleat_cuda_capture_restore((cuda), mode, is_relaxed);                        \
        pleat_cuda_context_leave((cuda), is_pushed);                                 \
    } while (0)

/* Enter the groups for other processes and devices into the table of a GPU. */
void pleat_cuda_add_share(const pleat_cuda_t *cuda, pleat_vmm_ops_t *ops);

#endif
