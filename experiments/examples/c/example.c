/*
 * example: allocates on the first GPU, or on a simulated device where there is none; notes that
 * another stream uses the memory, frees it, and prints what the allocator counted.
 */
#include <inttypes.h>
#include <pleat/allocator.h>
#include <pleat/cuda.h>
#include <pleat/sim.h>
#include <pleat/summary.h>
#include <stdio.h>

#define MIB (UINT64_C(1) << 20)
#define OWN_STREAM 0   /* the default stream */
#define OTHER_STREAM 2 /* on a GPU: the calling thread's own default stream */

static pleat_status_t open_device(pleat_vmm_t **vmm_out)
{
    pleat_status_t status = pleat_cuda_create(0, NULL, vmm_out);
    if (status == PLEAT_ERR_UNSUPPORTED) {
        (void)printf("no GPU (%s): a simulated device\n", pleat_last_error());
        pleat_sim_options_t options = PLEAT_SIM_OPTIONS_INIT;
        options.capacity_bytes = 1024 * MIB;
        status = pleat_sim_create(&options, vmm_out);
    }
    return status;
}

/* One round: allocate, use on two streams, free. */
static pleat_status_t run_round(pleat_allocator_t *allocator, uint64_t bytes)
{
    pleat_devptr_t ptr = 0;
    pleat_status_t status = pleat_alloc(allocator, bytes, OWN_STREAM, &ptr);
    if (status != PLEAT_OK) {
        return status;
    }
    (void)printf("%4" PRIu64 " MiB at 0x%" PRIx64 "\n", bytes / MIB, ptr);
    /* Here kernels on both streams would use the memory; the free then waits for the other one. */
    status = pleat_record_stream(allocator, ptr, OTHER_STREAM);
    const pleat_status_t freed = pleat_free(allocator, ptr);
    return status != PLEAT_OK ? status : freed;
}

static void print_stats(pleat_allocator_t *allocator)
{
    static char text[PLEAT_SUMMARY_BYTES];
    pleat_stats_t stats = PLEAT_STATS_INIT;
    pleat_read_stats(allocator, &stats);
    (void)pleat_memory_summary(&stats, 0, true, text, sizeof text);
    (void)fputs(text, stdout);
}

int main(void)
{
    pleat_vmm_t *vmm = NULL;
    pleat_allocator_t *allocator = NULL;
    pleat_options_t options = PLEAT_OPTIONS_INIT;
    options.mode = PLEAT_MODE_PLEATED;
    pleat_status_t status = open_device(&vmm);
    if (status == PLEAT_OK) {
        status = pleat_allocator_create(&options, vmm, &allocator);
    }
    for (uint64_t bytes = 32 * MIB; status == PLEAT_OK && bytes <= 128 * MIB; bytes *= 2) {
        status = run_round(allocator, bytes);
    }
    if (status == PLEAT_OK) {
        print_stats(allocator);
        status = pleat_empty_cache(allocator);
    }
    if (status != PLEAT_OK) {
        (void)fprintf(stderr, "example: %s\n", pleat_last_error());
    }
    pleat_allocator_destroy(allocator);
    pleat_vmm_destroy(vmm);
    return status == PLEAT_OK ? 0 : 1;
}
