/*
 * gpu_work: work on a GPU for tests and measurements: streams, kernels that fill, check, copy and
 * spin, copies by the driver, and the host's clock around them. On a device of pleat/cuda.h.
 *
 * The context of the GPU is current on the opening thread until it is closed.
 * Threads: that one thread.
 */
#ifndef PLEAT_GPU_WORK_H
#define PLEAT_GPU_WORK_H

#include "vmm/cuda_device.h"

typedef struct CUmod_st *pleat_cu_module_t;
typedef struct CUfunc_st *pleat_cu_function_t;

/* X(exported name, parameters): entry points beside those of the device itself. */
#define PLEAT_GPU_WORK_LIST(X)                                                                \
    X(cuModuleLoadData, (pleat_cu_module_t * module_out, const void *image))                  \
    X(cuModuleUnload, (pleat_cu_module_t module))                                             \
    X(cuModuleGetFunction,                                                                    \
      (pleat_cu_function_t * function_out, pleat_cu_module_t module, const char *name))       \
    X(cuLaunchKernel,                                                                         \
      (pleat_cu_function_t function, unsigned int grid_x, unsigned int grid_y,                \
       unsigned int grid_z, unsigned int block_x, unsigned int block_y, unsigned int block_z, \
       unsigned int shared_bytes, pleat_cu_stream_t stream, void **arguments, void **extra))  \
    X(cuStreamCreate, (pleat_cu_stream_t * stream_out, unsigned int flags))                   \
    X(cuStreamDestroy_v2, (pleat_cu_stream_t stream))                                         \
    X(cuCtxGetDevice, (pleat_cu_device_t * device_out))                                       \
    X(cuCtxSynchronize, (void))                                                               \
    X(cuMemcpyHtoD_v2, (pleat_cu_ptr_t to, const void *from, size_t bytes))                   \
    X(cuMemcpyDtoH_v2, (void *to, pleat_cu_ptr_t from, size_t bytes))                         \
    X(cuMemcpyDtoDAsync_v2,                                                                   \
      (pleat_cu_ptr_t to, pleat_cu_ptr_t from, size_t bytes, pleat_cu_stream_t stream))       \
    X(cuMemsetD32_v2, (pleat_cu_ptr_t ptr, unsigned int value, size_t words))                 \
    X(cuMemsetD32Async,                                                                       \
      (pleat_cu_ptr_t ptr, unsigned int value, size_t words, pleat_cu_stream_t stream))       \
    X(cuMemHostAlloc, (void **ptr_out, size_t bytes, unsigned int flags))                     \
    X(cuMemFreeHost, (void *ptr))

typedef struct pleat_gpu pleat_gpu_t;

/* A kernel that runs until it is told to end. */
typedef struct pleat_gpu_spin {
    volatile uint32_t *flag; /* host memory that the GPU reads */
} pleat_gpu_spin_t;

/**
 * Prepare work on a GPU.
 * @param[out] gpu_out  closed by pleat_gpu_close before the device is destroyed.
 * @retval PLEAT_ERR_INVALID      the device is no GPU.
 * @retval PLEAT_ERR_UNSUPPORTED  the driver lacks an entry point.
 * @retval PLEAT_ERR_DRIVER, PLEAT_ERR_OOM_HOST  as they say.
 */
PLEAT_NODISCARD pleat_status_t pleat_gpu_open(pleat_vmm_t *vmm, pleat_gpu_t **gpu_out);
void pleat_gpu_close(pleat_gpu_t *gpu);

/* Name of the GPU, valid while it is open. */
const char *pleat_gpu_name(const pleat_gpu_t *gpu);

/* A stream that does not wait for the default stream, nor that for it. */
PLEAT_NODISCARD pleat_status_t pleat_gpu_stream_create(const pleat_gpu_t *gpu,
                                                       pleat_stream_t *stream_out);
void pleat_gpu_stream_destroy(const pleat_gpu_t *gpu, pleat_stream_t stream);

/* Wait until all work on the device is complete. */
PLEAT_NODISCARD pleat_status_t pleat_gpu_finish(const pleat_gpu_t *gpu);

/*
 * Kernels; they return once queued. Words are 32 bits, the pattern that of gpu_kernels.h. check
 * adds the number of wrong words to the 64-bit device counter. copy: bytes are a multiple of 16.
 */
PLEAT_NODISCARD pleat_status_t pleat_gpu_fill(const pleat_gpu_t *gpu, pleat_stream_t stream,
                                              pleat_devptr_t ptr, uint64_t words, uint32_t seed);
PLEAT_NODISCARD pleat_status_t pleat_gpu_check(const pleat_gpu_t *gpu, pleat_stream_t stream,
                                               pleat_devptr_t ptr, uint64_t words, uint32_t seed,
                                               pleat_devptr_t counter);
PLEAT_NODISCARD pleat_status_t pleat_gpu_copy(const pleat_gpu_t *gpu, pleat_stream_t stream,
                                              pleat_devptr_t to, pleat_devptr_t from,
                                              uint64_t bytes);

/* The driver's own copy and fill, queued. */
PLEAT_NODISCARD pleat_status_t pleat_gpu_driver_copy(const pleat_gpu_t *gpu, pleat_stream_t stream,
                                                     pleat_devptr_t to, pleat_devptr_t from,
                                                     uint64_t bytes);
PLEAT_NODISCARD pleat_status_t pleat_gpu_driver_fill(const pleat_gpu_t *gpu, pleat_stream_t stream,
                                                     pleat_devptr_t ptr, uint32_t value,
                                                     uint64_t words);

/* Between host and device; complete on return. */
PLEAT_NODISCARD pleat_status_t pleat_gpu_write(const pleat_gpu_t *gpu, pleat_devptr_t to,
                                               const void *from, uint64_t bytes);
PLEAT_NODISCARD pleat_status_t pleat_gpu_read(const pleat_gpu_t *gpu, void *to, pleat_devptr_t from,
                                              uint64_t bytes);

/**
 * Make a spinning kernel possible, which takes host memory; start it on a stream; tell it to end.
 * It ends by itself after @p limit_ns, so that nothing waits for ever.
 */
PLEAT_NODISCARD pleat_status_t pleat_gpu_spin_init(const pleat_gpu_t *gpu, pleat_gpu_spin_t *spin);
void pleat_gpu_spin_fini(const pleat_gpu_t *gpu, pleat_gpu_spin_t *spin);
PLEAT_NODISCARD pleat_status_t pleat_gpu_spin_begin(const pleat_gpu_t *gpu, pleat_gpu_spin_t *spin,
                                                    pleat_stream_t stream, uint64_t limit_ns);
void pleat_gpu_spin_end(pleat_gpu_spin_t *spin);

#endif
