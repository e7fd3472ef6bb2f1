/*
 * fake_kernels: launches of PyTorch's kernels, beside fake_cudart. PyTorch registers its kernels by
 * name when it is loaded; of these a launch runs the two that a test cannot do without, and all
 * others do nothing:
 *
 *   spin_kernel (torch.cuda._sleep)   the stream is busy for as long, at two cycles a nanosecond
 *   a fill of bytes                   at once, unless the stream captures
 *
 * The table is filled while libraries are loaded, by one thread.
 */
#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define CYCLES_A_NANOSECOND 2

typedef enum kernel {
    KERNEL_NONE,
    KERNEL_SPIN,
    KERNEL_FILL,
} kernel_t;

typedef struct launch {
    dim3 grid;
    dim3 block;
    size_t shared_bytes;
    cudaStream_t stream;
} launch_t;

/* Entry points of the driver behind (fake_cuda). */
int cuModuleGetFunction(void **function_out, void *module, const char *name);
int cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                   void *stream, void **arguments, void **extra);

/* What compilers emit calls of, in the host's part of a kernel. */
void **__cudaRegisterFatBinary(void *binary);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name,
                            int limit, void *thread, void *block, void *block_size, void *grid_size,
                            int *warp_size);
void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int external,
                       size_t bytes, int constant, int global);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, void *stream);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared_bytes, void *stream);
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *host);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments,
                               size_t shared_bytes, cudaStream_t stream);

static void *fat_binary[2];
static const void *spins[8];
static const void *fills[64];
static size_t spin_count, fill_count;
static _Thread_local launch_t pending;

void **__cudaRegisterFatBinary(void *binary)
{
    (void)binary;
    return fat_binary;
}

void __cudaRegisterFatBinaryEnd(void **handle)
{
    (void)handle;
}

void __cudaUnregisterFatBinary(void **handle)
{
    (void)handle;
}

/* NOLINTNEXTLINE(readability-function-size): the runtime's own parameters */
void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name,
                            int limit, void *thread, void *block, void *block_size, void *grid_size,
                            int *warp_size)
{
    (void)handle, (void)device, (void)limit, (void)thread, (void)block;
    (void)block_size, (void)grid_size, (void)warp_size;
    const bool is_fill = strstr(name, "29vectorized_elementwise_kernel") != NULL &&
                         strstr(name, "FillFunctorIhE") != NULL;
    if (strstr(name, "spin_kernel") != NULL && spin_count < sizeof spins / sizeof spins[0]) {
        spins[spin_count++] = host;
    } else if (is_fill && fill_count < sizeof fills / sizeof fills[0]) {
        fills[fill_count++] = host;
    }
}

/* NOLINTNEXTLINE(readability-function-size): the runtime's own parameters */
void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int external,
                       size_t bytes, int constant, int global)
{
    (void)handle, (void)host, (void)device, (void)name;
    (void)external, (void)bytes, (void)constant, (void)global;
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, void *stream)
{
    pending = (launch_t){grid, block, shared_bytes, stream};
    return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared_bytes, void *stream)
{
    *grid = pending.grid;
    *block = pending.block;
    *shared_bytes = pending.shared_bytes;
    *(cudaStream_t *)stream = pending.stream;
    return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *host)
{
    *kernel = (cudaKernel_t)(uintptr_t)host;
    return cudaSuccess;
}

static kernel_t kernel_of(const void *host)
{
    for (size_t i = 0; i < spin_count; i++) {
        if (spins[i] == host) {
            return KERNEL_SPIN;
        }
    }
    for (size_t i = 0; i < fill_count; i++) {
        if (fills[i] == host) {
            return KERNEL_FILL;
        }
    }
    return KERNEL_NONE;
}

static cudaError_t spin(int64_t cycles, cudaStream_t stream)
{
    static const uint32_t never = 0;
    static char image[] = "pleat_spin";
    void *function = NULL;
    uint64_t flag = (uint64_t)(uintptr_t)&never;
    uint64_t nanoseconds = (uint64_t)cycles / CYCLES_A_NANOSECOND;
    void *arguments[] = {&flag, &nanoseconds};
    if (cuModuleGetFunction(&function, image, image) != 0 ||
        cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL) != 0) {
        return cudaErrorLaunchFailure;
    }
    return cudaSuccess;
}

/* NOLINTNEXTLINE(readability-function-size): the runtime's own parameters */
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments,
                               size_t shared_bytes, cudaStream_t stream)
{
    (void)grid, (void)block, (void)shared_bytes;
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    switch (kernel_of((const void *)kernel)) {
    case KERNEL_SPIN:
        return spin(*(int64_t *)arguments[0], stream);
    case KERNEL_FILL:
        (void)cudaStreamIsCapturing(stream, &status);
        if (status == cudaStreamCaptureStatusNone) {
            memset(*(void **)arguments[2], *(unsigned char *)arguments[1],
                   (size_t) * (int *)arguments[0]);
        }
        return cudaSuccess;
    case KERNEL_NONE:
        break;
    }
    return cudaSuccess;
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *host,
                                void **arguments)
{
    (void)config, (void)host, (void)arguments;
    return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *host)
{
    (void)host;
    memset(attributes, 0, sizeof *attributes);
    attributes->maxThreadsPerBlock = 1024;
    attributes->numRegs = 32;
    return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void *host, enum cudaFuncAttribute attribute, int value)
{
    (void)host, (void)attribute, (void)value;
    return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *count, const void *host,
                                                                   int threads, size_t bytes,
                                                                   unsigned flags)
{
    (void)host, (void)threads, (void)bytes, (void)flags;
    *count = 2;
    return cudaSuccess;
}
