/*
 * gpu_device: arguments, opening, and what goes with measuring.
 */
#include "gpu_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const char *gpu_argument(int argc, char **argv, const char *name, const char *initial)
{
    for (int i = 1; i + 1 < argc; i++) {
        if (strcmp(argv[i], name) == 0) {
            return argv[i + 1];
        }
    }
    return initial;
}

uint64_t gpu_argument_number(int argc, char **argv, const char *name, uint64_t initial)
{
    const char *text = gpu_argument(argc, argv, name, NULL);
    if (text == NULL) {
        return initial;
    }
    char *end = NULL;
    const uint64_t value = strtoull(text, &end, 10);
    if (end == text || *end != '\0') {
        (void)fprintf(stderr, "%s: '%s' is no number\n", name, text);
        exit(2);
    }
    return value;
}

gpu_device_t gpu_device_open(int argc, char **argv)
{
    /* Code is loaded when it is asked for: loading it at the first launch waits for the device. */
    (void)setenv("CUDA_MODULE_LOADING", "EAGER", 0);
    pleat_cuda_options_t options = PLEAT_CUDA_OPTIONS_INIT;
    options.driver = gpu_argument(argc, argv, "--driver", NULL);
    const int index = (int)gpu_argument_number(argc, argv, "--device", 0);
    gpu_device_t device = {.vmm = NULL};
    const pleat_status_t status = pleat_cuda_create(index, &options, &device.vmm);
    if (status != PLEAT_OK) {
        const bool must_run = getenv("PLEAT_REQUIRE_GPU") != NULL;
        (void)fprintf(stderr, "%s: %s\n", must_run ? "failed" : "skipped", pleat_last_error());
        exit(must_run ? GPU_EXIT_FAIL : GPU_EXIT_SKIP);
    }
    gpu_require(pleat_gpu_open(device.vmm, &device.gpu), "opening the GPU");
    return device;
}

void gpu_device_close(gpu_device_t *device)
{
    pleat_gpu_close(device->gpu);
    pleat_vmm_destroy(device->vmm);
    device->gpu = NULL;
    device->vmm = NULL;
}

void gpu_fail(pleat_status_t status, const char *what)
{
    (void)fprintf(stderr, "%s failed: %s: %s\n", what, pleat_status_text(status),
                  pleat_last_error());
    exit(GPU_EXIT_FAIL);
}

void gpu_require(pleat_status_t status, const char *what)
{
    if (status != PLEAT_OK) {
        gpu_fail(status, what);
    }
}

uint64_t gpu_now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static int compare_values(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

double gpu_median(double *values, uint32_t count)
{
    qsort(values, count, sizeof *values, compare_values);
    return values[count / 2];
}
