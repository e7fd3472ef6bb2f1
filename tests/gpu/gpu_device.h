/*
 * gpu_device: how the programs of this folder open the GPU that they run on, and what they do when
 * there is none: exit with 77, which means skipped, or with 1 when PLEAT_REQUIRE_GPU is set.
 */
#ifndef PLEAT_TEST_GPU_DEVICE_H
#define PLEAT_TEST_GPU_DEVICE_H

#include "experiments/lib/gpu_work.h"

#define GPU_EXIT_PASS 0
#define GPU_EXIT_FAIL 1
#define GPU_EXIT_SKIP 77

typedef struct gpu_device {
    pleat_vmm_t *vmm;
    pleat_gpu_t *gpu;
} gpu_device_t;

/* Value of "--name VALUE" among the arguments, else @p initial. */
const char *gpu_argument(int argc, char **argv, const char *name, const char *initial);
uint64_t gpu_argument_number(int argc, char **argv, const char *name, uint64_t initial);

/*
 * Open a GPU as "--device N" and "--driver FILE" say. Exits when there is none, or when it cannot
 * be prepared; the message is the library's.
 */
gpu_device_t gpu_device_open(int argc, char **argv);
void gpu_device_close(gpu_device_t *device);

/* Exit with a message; the second: unless a call succeeded. */
_Noreturn void gpu_fail(pleat_status_t status, const char *what);
void gpu_require(pleat_status_t status, const char *what);

/* Nanoseconds of the host's monotonic clock. */
uint64_t gpu_now_ns(void);

/* Sort numbers; the one in the middle. */
double gpu_median(double *values, uint32_t count);

#endif
