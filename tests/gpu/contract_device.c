/*
 * contract_device: the same few things on a simulated device and on a GPU.
 */
#include "contract_device.h"

#include "experiments/lib/gpu_kernels.h"
#include "vmm/base.h"

#include <pleat/sim.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORK_LIMIT_NS UINT64_C(1000000000)
#define SHORT_WORK_NS UINT64_C(20000000)

static contract_device_t open_sim(bool is_backed)
{
    contract_device_t device = {.has_contents = is_backed, .streams = {0, 17, 18}};
    pleat_sim_options_t options = PLEAT_SIM_OPTIONS_INIT;
    options.is_backed = is_backed;
    gpu_require(pleat_sim_create(&options, &device.vmm), "opening the simulated device");
    return device;
}

static contract_device_t open_gpu(int argc, char **argv)
{
    /* "--device cuda" chooses the first one. */
    char *arguments[] = {argv[0], (char *)(uintptr_t) "--driver", NULL};
    arguments[2] = (char *)(uintptr_t)gpu_argument(argc, argv, "--driver", NULL);
    const gpu_device_t gpu = gpu_device_open(arguments[2] == NULL ? 1 : 3, arguments);
    contract_device_t device = {.vmm = gpu.vmm, .gpu = gpu.gpu, .has_contents = true};
    device.driver = arguments[2];
    for (uint32_t i = 0; i < CONTRACT_STREAMS; i++) {
        /* None is the default stream: other streams may wait for that. */
        gpu_require(pleat_gpu_stream_create(device.gpu, &device.streams[i]), "making a stream");
        gpu_require(pleat_gpu_spin_init(device.gpu, &device.spins[i]), "preparing a kernel");
    }
    gpu_require(pleat_vmm_mem_alloc(device.vmm, 512, &device.counter), "allocating a counter");
    (void)printf("GPU: %s\n", pleat_gpu_name(device.gpu));
    return device;
}

contract_device_t contract_open(int argc, char **argv)
{
    const char *kind = gpu_argument(argc, argv, "--device", "sim");
    if (strcmp(kind, "sim") == 0 || strcmp(kind, "unbacked") == 0) {
        return open_sim(strcmp(kind, "sim") == 0);
    }
    if (strcmp(kind, "cuda") == 0) {
        return open_gpu(argc, argv);
    }
    (void)fprintf(stderr, "--device: '%s' is none of sim, unbacked, cuda\n", kind);
    exit(2);
}

void contract_close(contract_device_t *device)
{
    if (device->gpu == NULL) {
        pleat_vmm_destroy(device->vmm);
        return;
    }
    gpu_require(pleat_vmm_mem_free(device->vmm, device->counter), "freeing the counter");
    for (uint32_t i = 0; i < CONTRACT_STREAMS; i++) {
        pleat_gpu_spin_fini(device->gpu, &device->spins[i]);
        pleat_gpu_stream_destroy(device->gpu, device->streams[i]);
    }
    gpu_device_t gpu = {.vmm = device->vmm, .gpu = device->gpu};
    gpu_device_close(&gpu);
}

void contract_begin_work(contract_device_t *device, uint32_t stream)
{
    gpu_require(device->gpu == NULL ? pleat_sim_set_busy(device->vmm, device->streams[stream])
                                    : pleat_gpu_spin_begin(device->gpu, &device->spins[stream],
                                                           device->streams[stream], WORK_LIMIT_NS),
                "making a stream busy");
}

void contract_end_work(contract_device_t *device, uint32_t stream)
{
    if (device->gpu == NULL) {
        gpu_require(pleat_sim_set_done(device->vmm, device->streams[stream]), "ending work");
    } else {
        pleat_gpu_spin_end(&device->spins[stream]);
        gpu_require(pleat_gpu_finish(device->gpu), "waiting for the GPU");
    }
}

void contract_short_work(contract_device_t *device, uint32_t stream)
{
    gpu_require(device->gpu == NULL ? pleat_sim_set_busy(device->vmm, device->streams[stream])
                                    : pleat_gpu_spin_begin(device->gpu, &device->spins[stream],
                                                           device->streams[stream], SHORT_WORK_NS),
                "making a stream busy");
}

pleat_status_t contract_finish(contract_device_t *device)
{
    return device->gpu == NULL ? PLEAT_OK : pleat_gpu_finish(device->gpu);
}

void contract_fill(contract_device_t *device, uint32_t stream, pleat_devptr_t ptr, uint64_t words,
                   uint32_t seed)
{
    if (device->gpu != NULL) {
        gpu_require(pleat_gpu_fill(device->gpu, device->streams[stream], ptr, words, seed),
                    "launching a fill");
    } else if (device->has_contents) {
        volatile uint32_t *at = (volatile uint32_t *)(uintptr_t)ptr;
        for (uint64_t i = 0; i < words; i++) {
            at[i] = pleat_gpu_pattern(i, seed);
        }
    }
}

static uint64_t wrong_on_gpu(contract_device_t *device, uint32_t stream, pleat_devptr_t ptr,
                             uint64_t words, uint32_t seed)
{
    uint64_t wrong = 0;
    const pleat_stream_t on = device->streams[stream];
    gpu_require(pleat_gpu_driver_fill(device->gpu, on, device->counter, 0, 2),
                "clearing a counter");
    gpu_require(pleat_gpu_check(device->gpu, on, ptr, words, seed, device->counter),
                "launching a check");
    gpu_require(pleat_vmm_stream_synchronize(device->vmm, on), "waiting for a check");
    gpu_require(pleat_gpu_read(device->gpu, &wrong, device->counter, sizeof wrong),
                "reading a counter");
    return wrong;
}

uint64_t contract_wrong(contract_device_t *device, uint32_t stream, pleat_devptr_t ptr,
                        uint64_t words, uint32_t seed)
{
    uint64_t wrong = 0;
    if (device->gpu != NULL) {
        return wrong_on_gpu(device, stream, ptr, words, seed);
    }
    const volatile uint32_t *at = (const volatile uint32_t *)(uintptr_t)ptr;
    for (uint64_t i = 0; device->has_contents && i < words; i++) {
        wrong += at[i] != pleat_gpu_pattern(i, seed);
    }
    return wrong;
}
