/*
 * probe: measures the GPU and prints what `pleat probe` prints, where the program itself cannot be
 * built.
 *
 *   gpu_probe [--output FILE] [--reps N] [--driver FILE] [--device N]
 *
 * FILE gets the cost table. Exit status: 0 measured, 1 a call failed, 77 no GPU here (1 when
 * PLEAT_REQUIRE_GPU is set).
 */
#include "gpu_device.h"

#include "experiments/lib/probe.h"

int main(int argc, char **argv)
{
    static pleat_probe_t probe;
    gpu_device_t device = gpu_device_open(argc, argv);
    const uint32_t reps = (uint32_t)gpu_argument_number(argc, argv, "--reps", 20);
    const char *output = gpu_argument(argc, argv, "--output", NULL);
    gpu_require(pleat_probe_run(device.vmm, device.gpu, reps, &probe), "measuring");
    gpu_require(pleat_probe_print(&probe, stdout), "printing");
    if (output != NULL) {
        gpu_require(pleat_probe_write_costs(&probe, output), "writing the cost table");
    }
    gpu_device_close(&device);
    return GPU_EXIT_PASS;
}
