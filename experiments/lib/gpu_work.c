/*
 * gpu_work: entry points, modules and launches.
 */
#include "gpu_work.h"

#include "gpu_kernels.h"

#include <stdlib.h>
#include <string.h>

#define THREADS 256u
#define BLOCKS_MAX 4096u

/* X(name): the kernels; text pleat_gpu_NAME_text, entry pleat_NAME. */
#define KERNEL_LIST(X) X(fill) X(check) X(copy) X(spin)

struct pleat_gpu {
    pleat_vmm_t *vmm;
    const pleat_cuda_driver_t *driver;
    char name[128];
    PLEAT_GPU_WORK_LIST(PLEAT_CU_POINTER)
#define KERNEL_FIELDS(name)          \
    pleat_cu_module_t name##_module; \
    pleat_cu_function_t name##_function;
    KERNEL_LIST(KERNEL_FIELDS)
#undef KERNEL_FIELDS
};

static pleat_status_t gpu_status(const pleat_gpu_t *gpu, pleat_cu_result_t result, const char *what)
{
    return pleat_cuda_status(gpu->driver, result, what);
}

static pleat_cu_stream_t to_stream(pleat_stream_t stream)
{
    return (pleat_cu_stream_t)(uintptr_t)stream;
}

static pleat_status_t gpu_find(pleat_gpu_t *gpu)
{
#define FIND(name, parameters)                                                                 \
    do {                                                                                       \
        const pleat_status_t status = pleat_cuda_find(gpu->driver, #name, (void *)&gpu->name); \
        if (status != PLEAT_OK) {                                                              \
            return status;                                                                     \
        }                                                                                      \
    } while (0);
    PLEAT_GPU_WORK_LIST(FIND)
#undef FIND
    return PLEAT_OK;
}

static pleat_status_t gpu_load(const pleat_gpu_t *gpu, const char *text, const char *entry,
                               pleat_cu_module_t *module_out, pleat_cu_function_t *function_out)
{
    const pleat_status_t status =
        gpu_status(gpu, gpu->cuModuleLoadData(module_out, text), "loading a kernel");
    return status != PLEAT_OK
               ? status
               : gpu_status(gpu, gpu->cuModuleGetFunction(function_out, *module_out, entry), entry);
}

static pleat_status_t gpu_load_all(pleat_gpu_t *gpu)
{
#define LOAD(name)                                                                           \
    do {                                                                                     \
        const pleat_status_t status = gpu_load(gpu, pleat_gpu_##name##_text, "pleat_" #name, \
                                               &gpu->name##_module, &gpu->name##_function);  \
        if (status != PLEAT_OK) {                                                            \
            return status;                                                                   \
        }                                                                                    \
    } while (0);
    KERNEL_LIST(LOAD)
#undef LOAD
    return PLEAT_OK;
}

/* Run each kernel once over nothing: the first launch may wait for the device. */
static pleat_status_t gpu_warm(const pleat_gpu_t *gpu)
{
    pleat_gpu_spin_t spin = {.flag = NULL};
    pleat_status_t status = pleat_gpu_fill(gpu, 0, 0, 0, 0);
    status = status != PLEAT_OK ? status : pleat_gpu_check(gpu, 0, 0, 0, 0, 0);
    status = status != PLEAT_OK ? status : pleat_gpu_copy(gpu, 0, 0, 0, 0);
    status = status != PLEAT_OK ? status : pleat_gpu_spin_init(gpu, &spin);
    status = status != PLEAT_OK ? status : pleat_gpu_spin_begin(gpu, &spin, 0, 0);
    status = status != PLEAT_OK ? status : pleat_gpu_finish(gpu);
    pleat_gpu_spin_fini(gpu, &spin);
    return status;
}

static void gpu_read_name(pleat_gpu_t *gpu)
{
    pleat_cu_device_t device = 0;
    (void)strcpy(gpu->name, "unknown");
    if (gpu->cuCtxGetDevice(&device) == PLEAT_CU_OK) {
        (void)gpu->driver->cuDeviceGetName(gpu->name, (int)sizeof gpu->name, device);
    }
}

pleat_status_t pleat_gpu_open(pleat_vmm_t *vmm, pleat_gpu_t **gpu_out)
{
    pleat_status_t status = pleat_cuda_enter(vmm);
    if (status != PLEAT_OK) {
        return status;
    }
    pleat_gpu_t *gpu = calloc(1, sizeof *gpu);
    if (gpu == NULL) {
        pleat_error_set("no host memory for the work on a GPU");
        status = PLEAT_ERR_OOM_HOST;
        goto err_leave;
    }
    gpu->vmm = vmm;
    gpu->driver = pleat_cuda_driver_of(vmm);
    status = gpu_find(gpu);
    if (status != PLEAT_OK) {
        goto err_free;
    }
    gpu_read_name(gpu);
    status = gpu_load_all(gpu);
    if (status == PLEAT_OK) {
        status = gpu_warm(gpu);
    }
    if (status != PLEAT_OK) {
        pleat_gpu_close(gpu);
        return status;
    }
    *gpu_out = gpu;
    return PLEAT_OK;

err_free:
    free(gpu);
err_leave:
    pleat_cuda_leave(vmm);
    return status;
}

void pleat_gpu_close(pleat_gpu_t *gpu)
{
    if (gpu == NULL) {
        return;
    }
#define UNLOAD(name)                                   \
    if (gpu->name##_module != NULL) {                  \
        (void)gpu->cuModuleUnload(gpu->name##_module); \
    }
    KERNEL_LIST(UNLOAD)
#undef UNLOAD
    pleat_cuda_leave(gpu->vmm);
    free(gpu);
}

const char *pleat_gpu_name(const pleat_gpu_t *gpu)
{
    return gpu->name;
}

pleat_status_t pleat_gpu_stream_create(const pleat_gpu_t *gpu, pleat_stream_t *stream_out)
{
    pleat_cu_stream_t stream = NULL;
    const pleat_status_t status = gpu_status(
        gpu, gpu->cuStreamCreate(&stream, PLEAT_CU_STREAM_NON_BLOCKING), "making a stream");
    if (status == PLEAT_OK) {
        *stream_out = (pleat_stream_t)(uintptr_t)stream;
    }
    return status;
}

void pleat_gpu_stream_destroy(const pleat_gpu_t *gpu, pleat_stream_t stream)
{
    (void)gpu->cuStreamDestroy_v2(to_stream(stream));
}

pleat_status_t pleat_gpu_finish(const pleat_gpu_t *gpu)
{
    return gpu_status(gpu, gpu->cuCtxSynchronize(), "waiting for the GPU");
}

/* Blocks for so many steps of one thread. */
static unsigned int gpu_blocks(uint64_t steps)
{
    const uint64_t blocks = (steps + THREADS - 1) / THREADS;
    return blocks == 0 ? 1 : blocks > BLOCKS_MAX ? BLOCKS_MAX : (unsigned int)blocks;
}

static pleat_status_t gpu_launch(const pleat_gpu_t *gpu, pleat_cu_function_t function,
                                 unsigned int blocks, unsigned int threads, pleat_stream_t stream,
                                 void **arguments)
{
    return gpu_status(gpu,
                      gpu->cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0,
                                          to_stream(stream), arguments, NULL),
                      "launching a kernel");
}

pleat_status_t pleat_gpu_fill(const pleat_gpu_t *gpu, pleat_stream_t stream, pleat_devptr_t ptr,
                              uint64_t words, uint32_t seed)
{
    void *arguments[] = {&ptr, &words, &seed};
    return gpu_launch(gpu, gpu->fill_function, gpu_blocks(words), THREADS, stream, arguments);
}

pleat_status_t pleat_gpu_check(const pleat_gpu_t *gpu, pleat_stream_t stream, pleat_devptr_t ptr,
                               uint64_t words, uint32_t seed, pleat_devptr_t counter)
{
    void *arguments[] = {&ptr, &words, &seed, &counter};
    return gpu_launch(gpu, gpu->check_function, gpu_blocks(words), THREADS, stream, arguments);
}

pleat_status_t pleat_gpu_copy(const pleat_gpu_t *gpu, pleat_stream_t stream, pleat_devptr_t to,
                              pleat_devptr_t from, uint64_t bytes)
{
    uint64_t quads = bytes / 16;
    void *arguments[] = {&to, &from, &quads};
    return gpu_launch(gpu, gpu->copy_function, gpu_blocks(quads), THREADS, stream, arguments);
}

pleat_status_t pleat_gpu_driver_copy(const pleat_gpu_t *gpu, pleat_stream_t stream,
                                     pleat_devptr_t to, pleat_devptr_t from, uint64_t bytes)
{
    return gpu_status(gpu, gpu->cuMemcpyDtoDAsync_v2(to, from, bytes, to_stream(stream)),
                      "copying on the device");
}

pleat_status_t pleat_gpu_driver_fill(const pleat_gpu_t *gpu, pleat_stream_t stream,
                                     pleat_devptr_t ptr, uint32_t value, uint64_t words)
{
    return gpu_status(gpu, gpu->cuMemsetD32Async(ptr, value, words, to_stream(stream)),
                      "filling on the device");
}

pleat_status_t pleat_gpu_write(const pleat_gpu_t *gpu, pleat_devptr_t to, const void *from,
                               uint64_t bytes)
{
    return gpu_status(gpu, gpu->cuMemcpyHtoD_v2(to, from, bytes), "copying to the device");
}

pleat_status_t pleat_gpu_read(const pleat_gpu_t *gpu, void *to, pleat_devptr_t from, uint64_t bytes)
{
    return gpu_status(gpu, gpu->cuMemcpyDtoH_v2(to, from, bytes), "copying from the device");
}

pleat_status_t pleat_gpu_spin_init(const pleat_gpu_t *gpu, pleat_gpu_spin_t *spin)
{
    void *flag = NULL;
    const pleat_status_t status =
        gpu_status(gpu, gpu->cuMemHostAlloc(&flag, sizeof(uint32_t), 0), "pinning host memory");
    if (status == PLEAT_OK) {
        spin->flag = flag;
        *spin->flag = 1;
    }
    return status;
}

void pleat_gpu_spin_fini(const pleat_gpu_t *gpu, pleat_gpu_spin_t *spin)
{
    if (spin->flag != NULL) {
        (void)gpu->cuMemFreeHost((void *)(uintptr_t)spin->flag);
        spin->flag = NULL;
    }
}

pleat_status_t pleat_gpu_spin_begin(const pleat_gpu_t *gpu, pleat_gpu_spin_t *spin,
                                    pleat_stream_t stream, uint64_t limit_ns)
{
    uint64_t flag = (uint64_t)(uintptr_t)spin->flag;
    void *arguments[] = {&flag, &limit_ns};
    *spin->flag = 0;
    return gpu_launch(gpu, gpu->spin_function, 1, 1, stream, arguments);
}

void pleat_gpu_spin_end(pleat_gpu_spin_t *spin)
{
    *spin->flag = 1;
}
