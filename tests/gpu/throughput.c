/*
 * throughput: copies by a kernel and by the driver (its copy engine path) on ranges stitched from
 * chunks in shuffled order, and on second views of the same chunks in yet another order, beside
 * plain memory of the same size in the same process.
 *
 *   gpu_throughput [--bytes N] [--reps N] [--csv FILE] [--driver FILE] [--device N]
 *
 * Prints median GB/s (bytes read and written), least and most, and the ratio to plain memory, which
 * is measured first and last. The words are checked afterwards. Exit status: 0 good, 1 a word is
 * wrong or a call failed, 77 no GPU here (1 when PLEAT_REQUIRE_GPU is set).
 */
#include "gpu_device.h"

#include "vmm/base.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define REPS_MAX 64u
#define COPIES_A_REP 4u

typedef struct bench {
    gpu_device_t device;
    pleat_stream_t stream;
    pleat_devptr_t counter;
    uint64_t bytes; /* of a range; its first half is copied to the second */
    uint32_t reps;
    uint64_t random_state;
    uint64_t wrong;
    double plain[2]; /* GB/s of the kernel and of the driver on plain memory */
    FILE *csv;
} bench_t;

/* Chunks of a range; views are in the order of `order`. */
typedef struct chunks {
    uint32_t count;
    uint64_t chunk_bytes;
    pleat_chunk_t *handles;
    uint32_t *order;
} chunks_t;

static double measure(bench_t *bench, pleat_devptr_t ptr, bool by_driver, double *rates)
{
    const uint64_t half = bench->bytes / 2;
    const pleat_gpu_t *gpu = bench->device.gpu;
    for (uint32_t rep = 0; rep < bench->reps + 3; rep++) { /* three to warm up */
        gpu_require(pleat_vmm_stream_synchronize(bench->device.vmm, bench->stream), "waiting");
        const uint64_t begin_ns = gpu_now_ns();
        for (uint32_t i = 0; i < COPIES_A_REP; i++) {
            gpu_require(by_driver ? pleat_gpu_driver_copy(gpu, bench->stream, ptr + half, ptr, half)
                                  : pleat_gpu_copy(gpu, bench->stream, ptr + half, ptr, half),
                        "copying");
        }
        gpu_require(pleat_vmm_stream_synchronize(bench->device.vmm, bench->stream), "waiting");
        if (rep >= 3) {
            rates[rep - 3] = (double)(2 * half * COPIES_A_REP) / (double)(gpu_now_ns() - begin_ns);
        }
    }
    return gpu_median(rates, bench->reps); /* sorts them */
}

/* Fill, copy and check a range; one line of the table. */
static void measure_range(bench_t *bench, pleat_devptr_t ptr, const char *name, bool is_plain)
{
    static uint32_t seed;
    double rates[REPS_MAX];
    seed++;
    for (int by_driver = 0; by_driver < 2; by_driver++) {
        gpu_require(pleat_gpu_fill(bench->device.gpu, bench->stream, ptr, bench->bytes / 8, seed),
                    "filling");
        const double rate = measure(bench, ptr, by_driver == 1, rates);
        gpu_require(pleat_gpu_check(bench->device.gpu, bench->stream, ptr + bench->bytes / 2,
                                    bench->bytes / 8, seed, bench->counter),
                    "checking");
        if (is_plain && bench->plain[by_driver] == 0) {
            bench->plain[by_driver] = rate;
        }
        const char *how = by_driver == 1 ? "driver" : "kernel";
        (void)printf("throughput %-22s %-6s %8.1f GB/s (%.1f - %.1f)  ratio %.3f\n", name, how,
                     rate, rates[0], rates[bench->reps - 1], rate / bench->plain[by_driver]);
        for (uint32_t i = 0; bench->csv != NULL && i < bench->reps; i++) {
            (void)fprintf(bench->csv, "%s,%s,%" PRIu32 ",%.3f\n", name, how, i, rates[i]);
        }
    }
    (void)fflush(stdout);
}

static void measure_plain(bench_t *bench, const char *name)
{
    pleat_devptr_t ptr = 0;
    gpu_require(pleat_vmm_mem_alloc(bench->device.vmm, bench->bytes, &ptr), "mem_alloc");
    measure_range(bench, ptr, name, true);
    gpu_require(pleat_vmm_mem_free(bench->device.vmm, ptr), "mem_free");
}

static void shuffle(bench_t *bench, chunks_t *chunks)
{
    for (uint32_t i = chunks->count; i > 1; i--) {
        bench->random_state = bench->random_state * UINT64_C(6364136223846793005) + 1;
        const uint32_t other = (uint32_t)((bench->random_state >> 33) % i);
        const uint32_t kept = chunks->order[i - 1];
        chunks->order[i - 1] = chunks->order[other];
        chunks->order[other] = kept;
    }
}

static pleat_devptr_t map_view(bench_t *bench, chunks_t *chunks)
{
    pleat_vmm_t *vmm = bench->device.vmm;
    pleat_devptr_t view = 0;
    shuffle(bench, chunks);
    gpu_require(pleat_vmm_address_reserve(vmm, chunks->count * chunks->chunk_bytes, &view),
                "address_reserve");
    for (uint32_t i = 0; i < chunks->count; i++) {
        gpu_require(pleat_vmm_map(vmm, view + i * chunks->chunk_bytes, chunks->chunk_bytes,
                                  chunks->handles[chunks->order[i]]),
                    "map");
    }
    gpu_require(pleat_vmm_set_access(vmm, view, chunks->count * chunks->chunk_bytes), "set_access");
    return view;
}

static void unmap_view(bench_t *bench, const chunks_t *chunks, pleat_devptr_t view)
{
    pleat_vmm_t *vmm = bench->device.vmm;
    const uint64_t bytes = chunks->count * chunks->chunk_bytes;
    gpu_require(pleat_vmm_stream_synchronize(vmm, bench->stream), "waiting");
    gpu_require(pleat_vmm_unmap(vmm, view, bytes), "unmap");
    gpu_require(pleat_vmm_address_free(vmm, view, bytes), "address_free");
}

static void measure_stitched(bench_t *bench, uint64_t chunk_bytes)
{
    char name[64];
    chunks_t chunks = {.chunk_bytes = chunk_bytes,
                       .count = (uint32_t)((bench->bytes + chunk_bytes - 1) / chunk_bytes)};
    chunks.handles = calloc(chunks.count, sizeof *chunks.handles);
    chunks.order = calloc(chunks.count, sizeof *chunks.order);
    if (chunks.handles == NULL || chunks.order == NULL) {
        gpu_fail(PLEAT_ERR_OOM_HOST, "host memory for chunks");
    }
    for (uint32_t i = 0; i < chunks.count; i++) {
        chunks.order[i] = i;
        gpu_require(pleat_vmm_chunk_create(bench->device.vmm, chunk_bytes, &chunks.handles[i]),
                    "chunk_create");
    }
    const pleat_devptr_t first = map_view(bench, &chunks);
    (void)snprintf(name, sizeof name, "%" PRIu64 " MiB chunks", chunk_bytes / PLEAT_MIB);
    measure_range(bench, first, name, false);
    const pleat_devptr_t second = map_view(bench, &chunks);
    (void)snprintf(name, sizeof name, "%" PRIu64 " MiB second view", chunk_bytes / PLEAT_MIB);
    measure_range(bench, second, name, false);
    unmap_view(bench, &chunks, second);
    unmap_view(bench, &chunks, first);
    for (uint32_t i = 0; i < chunks.count; i++) {
        gpu_require(pleat_vmm_chunk_release(bench->device.vmm, chunks.handles[i]), "chunk_release");
    }
    free(chunks.handles);
    free(chunks.order);
}

int main(int argc, char **argv)
{
    bench_t bench = {.device = gpu_device_open(argc, argv), .random_state = 1};
    bench.bytes = gpu_argument_number(argc, argv, "--bytes", 4 * PLEAT_GIB);
    bench.reps = (uint32_t)gpu_argument_number(argc, argv, "--reps", 20);
    bench.reps = bench.reps < 1 ? 1 : bench.reps > REPS_MAX ? REPS_MAX : bench.reps;
    const char *csv = gpu_argument(argc, argv, "--csv", NULL);
    bench.csv = csv == NULL ? NULL : fopen(csv, "w");
    if (bench.csv != NULL) {
        (void)fprintf(bench.csv, "# gpu_throughput, %s, %" PRIu64 " bytes\nrange,by,rep,gb_per_s\n",
                      pleat_gpu_name(bench.device.gpu), bench.bytes);
    }
    (void)printf("GPU: %s, ranges of %" PRIu64 " MiB, %" PRIu32 " repetitions of %u copies\n",
                 pleat_gpu_name(bench.device.gpu), bench.bytes / PLEAT_MIB, bench.reps,
                 COPIES_A_REP);
    gpu_require(pleat_gpu_stream_create(bench.device.gpu, &bench.stream), "making a stream");
    gpu_require(pleat_vmm_mem_alloc(bench.device.vmm, 512, &bench.counter), "mem_alloc");
    gpu_require(pleat_gpu_driver_fill(bench.device.gpu, bench.stream, bench.counter, 0, 2),
                "clearing the counter");
    measure_plain(&bench, "plain, first");
    static const uint64_t chunk_mibs[] = {1024, 256, 64, 20, 2};
    for (size_t i = 0; i < sizeof chunk_mibs / sizeof chunk_mibs[0]; i++) {
        if (chunk_mibs[i] * PLEAT_MIB <= bench.bytes) {
            measure_stitched(&bench, chunk_mibs[i] * PLEAT_MIB);
        }
    }
    measure_plain(&bench, "plain, last");
    gpu_require(pleat_gpu_finish(bench.device.gpu), "waiting");
    gpu_require(pleat_gpu_read(bench.device.gpu, &bench.wrong, bench.counter, sizeof bench.wrong),
                "reading the counter");
    (void)printf("throughput: %" PRIu64 " wrong words\n", bench.wrong);
    gpu_require(pleat_vmm_mem_free(bench.device.vmm, bench.counter), "mem_free");
    pleat_gpu_stream_destroy(bench.device.gpu, bench.stream);
    gpu_device_close(&bench.device);
    if (bench.csv != NULL && fclose(bench.csv) != 0) {
        (void)fprintf(stderr, "%s: cannot be written\n", csv);
        return GPU_EXIT_FAIL;
    }
    return bench.wrong == 0 ? GPU_EXIT_PASS : GPU_EXIT_FAIL;
}
