/*
 * Tests of gpu_work over the simulated driver: opening and its failures, kernels, copies, and a
 * kernel that spins.
 */
#include "experiments/lib/gpu_work.h"

#include "experiments/lib/gpu_kernels.h"
#include "fake_cuda.h"
#include "host_fault.h"
#include "vmm/base.h"

#include <pleat/sim.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#define WORDS 5000u

static void expect_error(pleat_status_t status, pleat_status_t want, const char *part)
{
    cr_expect(eq(int, status, want), "%s", pleat_last_error());
    cr_expect(ne(ptr, strstr(pleat_last_error(), part), NULL), "'%s' lacks '%s'",
              pleat_last_error(), part);
}

static void expect_ok(pleat_status_t status)
{
    cr_assert(eq(int, status, PLEAT_OK), "%s", pleat_last_error());
}

static pleat_vmm_t *device(void)
{
    pleat_cuda_options_t options = PLEAT_CUDA_OPTIONS_INIT;
    options.driver = TEST_LIBRARY;
    pleat_vmm_t *vmm = NULL;
    expect_ok(pleat_cuda_create(0, &options, &vmm));
    return vmm;
}

static void fail_call(pleat_vmm_t *vmm, const char *name, uint64_t nth, unsigned code)
{
    fake_cuda_fail_fn_t function = NULL;
    expect_ok(pleat_cuda_find(pleat_cuda_driver_of(vmm), "fake_cuda_fail", (void *)&function));
    function(name, nth, code);
}

typedef struct bench {
    pleat_vmm_t *vmm;
    pleat_gpu_t *gpu;
    pleat_stream_t stream;
    pleat_devptr_t a;
    pleat_devptr_t b;
    pleat_devptr_t counter;
} bench_t;

static bench_t bench_create(void)
{
    bench_t bench = {.vmm = device()};
    expect_ok(pleat_gpu_open(bench.vmm, &bench.gpu));
    expect_ok(pleat_gpu_stream_create(bench.gpu, &bench.stream));
    expect_ok(pleat_vmm_mem_alloc(bench.vmm, 4 * WORDS, &bench.a));
    expect_ok(pleat_vmm_mem_alloc(bench.vmm, 4 * WORDS, &bench.b));
    expect_ok(pleat_vmm_mem_alloc(bench.vmm, 512, &bench.counter));
    expect_ok(pleat_gpu_driver_fill(bench.gpu, bench.stream, bench.counter, 0, 2));
    return bench;
}

static void bench_destroy(bench_t *bench)
{
    expect_ok(pleat_vmm_mem_free(bench->vmm, bench->a));
    expect_ok(pleat_vmm_mem_free(bench->vmm, bench->b));
    expect_ok(pleat_vmm_mem_free(bench->vmm, bench->counter));
    pleat_gpu_stream_destroy(bench->gpu, bench->stream);
    pleat_gpu_close(bench->gpu);
    pleat_vmm_destroy(bench->vmm);
}

static uint64_t wrong_words(const bench_t *bench)
{
    uint64_t wrong = 0;
    expect_ok(pleat_gpu_finish(bench->gpu));
    expect_ok(pleat_gpu_read(bench->gpu, &wrong, bench->counter, sizeof wrong));
    return wrong;
}

Test(gpu_work, another_device_is_refused, .timeout = 20)
{
    pleat_vmm_t *sim = NULL;
    pleat_gpu_t *gpu = NULL;
    expect_ok(pleat_sim_create(NULL, &sim));
    expect_error(pleat_gpu_open(sim, &gpu), PLEAT_ERR_INVALID, "is no GPU");
    cr_expect(eq(ptr, gpu, NULL));
    pleat_gpu_close(NULL);
    pleat_vmm_destroy(sim);
}

Test(gpu_work, every_failure_of_opening_is_reported, .timeout = 20)
{
    static const struct {
        const char *name;
        uint64_t nth;
    } rows[] = {{"cuCtxPushCurrent_v2", 1}, {"cuModuleLoadData", 1},    {"cuModuleLoadData", 4},
                {"cuModuleGetFunction", 1}, {"cuModuleGetFunction", 3}, {"cuLaunchKernel", 1},
                {"cuLaunchKernel", 4},      {"cuCtxSynchronize", 1},    {"cuMemHostAlloc", 1}};
    pleat_vmm_t *vmm = device();
    pleat_gpu_t *gpu = NULL;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fail_call(vmm, rows[i].name, rows[i].nth, 718);
        expect_error(pleat_gpu_open(vmm, &gpu), PLEAT_ERR_DRIVER, "(718)");
        cr_expect(eq(ptr, gpu, NULL));
    }
    host_fault_after(1);
    expect_error(pleat_gpu_open(vmm, &gpu), PLEAT_ERR_OOM_HOST, "no host memory");
    host_fault_after(0);
    expect_ok(pleat_gpu_open(vmm, &gpu));
    cr_expect(eq(str, (char *)pleat_gpu_name(gpu), "simulated behind fake_cuda"));
    pleat_gpu_close(gpu);
    pleat_vmm_destroy(vmm);
}

Test(gpu_work, a_driver_that_lacks_an_entry_point_is_refused, .timeout = 20)
{
    pleat_cuda_options_t options = PLEAT_CUDA_OPTIONS_INIT;
    options.driver = TEST_LIBRARY_LACKING;
    pleat_vmm_t *vmm = NULL;
    pleat_gpu_t *gpu = NULL;
    expect_ok(pleat_cuda_create(0, &options, &vmm));
    expect_error(pleat_gpu_open(vmm, &gpu), PLEAT_ERR_UNSUPPORTED,
                 "lacks the entry point cuMemFreeHost");
    cr_expect(eq(ptr, gpu, NULL));
    pleat_vmm_destroy(vmm);
}

Test(gpu_work, kernels_fill_and_check, .timeout = 20)
{
    bench_t bench = bench_create();
    uint32_t words[WORDS];
    expect_ok(pleat_gpu_fill(bench.gpu, bench.stream, bench.a, WORDS, 77));
    expect_ok(pleat_gpu_read(bench.gpu, words, bench.a, sizeof words));
    for (uint32_t i = 0; i < WORDS; i += 97) {
        cr_expect(eq(u32, words[i], pleat_gpu_pattern(i, 77)));
    }
    expect_ok(pleat_gpu_check(bench.gpu, bench.stream, bench.a, WORDS, 77, bench.counter));
    cr_expect(eq(u64, wrong_words(&bench), 0));
    words[3] ^= 1;
    words[WORDS - 1] ^= 0x80000000u;
    expect_ok(pleat_gpu_write(bench.gpu, bench.a, words, sizeof words));
    expect_ok(pleat_gpu_check(bench.gpu, bench.stream, bench.a, WORDS, 77, bench.counter));
    cr_expect(eq(u64, wrong_words(&bench), 2));
    expect_ok(pleat_gpu_check(bench.gpu, bench.stream, bench.a, WORDS, 78, bench.counter));
    cr_expect(eq(u64, wrong_words(&bench), 2 + WORDS), "another seed has no word in common");
    bench_destroy(&bench);
}

Test(gpu_work, both_ways_of_copying_copy, .timeout = 20)
{
    bench_t bench = bench_create();
    expect_ok(pleat_gpu_fill(bench.gpu, bench.stream, bench.a, WORDS, 1));
    expect_ok(pleat_gpu_copy(bench.gpu, bench.stream, bench.b, bench.a, 4 * WORDS));
    expect_ok(pleat_gpu_check(bench.gpu, bench.stream, bench.b, WORDS, 1, bench.counter));
    expect_ok(pleat_gpu_fill(bench.gpu, bench.stream, bench.b, WORDS, 2));
    expect_ok(pleat_gpu_driver_copy(bench.gpu, bench.stream, bench.a, bench.b, 4 * WORDS));
    expect_ok(pleat_gpu_check(bench.gpu, bench.stream, bench.a, WORDS, 2, bench.counter));
    cr_expect(eq(u64, wrong_words(&bench), 0));
    bench_destroy(&bench);
}

Test(gpu_work, a_spinning_kernel_keeps_its_stream_busy, .timeout = 20)
{
    bench_t bench = bench_create();
    pleat_gpu_spin_t spin;
    pleat_event_t event = 0;
    expect_ok(pleat_gpu_spin_init(bench.gpu, &spin));
    expect_ok(pleat_vmm_event_create(bench.vmm, &event));
    expect_ok(pleat_gpu_spin_begin(bench.gpu, &spin, bench.stream, UINT64_C(10000000000)));
    expect_ok(pleat_vmm_event_record(bench.vmm, event, bench.stream));
    cr_expect(eq(int, pleat_vmm_event_query(bench.vmm, event), PLEAT_ERR_NOT_READY));
    pleat_gpu_spin_end(&spin);
    expect_ok(pleat_gpu_finish(bench.gpu));
    expect_ok(pleat_vmm_event_query(bench.vmm, event));
    /* It ends by itself too. */
    expect_ok(pleat_gpu_spin_begin(bench.gpu, &spin, bench.stream, 1000000));
    expect_ok(pleat_vmm_stream_synchronize(bench.vmm, bench.stream));
    pleat_gpu_spin_fini(bench.gpu, &spin);
    pleat_gpu_spin_fini(bench.gpu, &spin); /* does nothing */
    expect_ok(pleat_vmm_event_destroy(bench.vmm, event));
    bench_destroy(&bench);
}

Test(gpu_work, failures_of_work_are_reported, .timeout = 20)
{
    bench_t bench = bench_create();
    uint32_t word = 0;
    pleat_stream_t stream = 5;
    const pleat_status_t bad = PLEAT_ERR_DRIVER;
    fail_call(bench.vmm, "cuStreamCreate", 1, 999);
    expect_error(pleat_gpu_stream_create(bench.gpu, &stream), bad, "making a stream");
    cr_expect(eq(u64, stream, 5));
    fail_call(bench.vmm, "cuMemcpyHtoD_v2", 1, 999);
    expect_error(pleat_gpu_write(bench.gpu, bench.a, &word, 4), bad, "to the device");
    fail_call(bench.vmm, "cuMemcpyDtoH_v2", 1, 999);
    expect_error(pleat_gpu_read(bench.gpu, &word, bench.a, 4), bad, "from the device");
    fail_call(bench.vmm, "cuMemcpyDtoDAsync_v2", 1, 999);
    expect_error(pleat_gpu_driver_copy(bench.gpu, 0, bench.a, bench.b, 4), bad, "on the device");
    fail_call(bench.vmm, "cuMemsetD32Async", 1, 999);
    expect_error(pleat_gpu_driver_fill(bench.gpu, 0, bench.a, 1, 1), bad, "on the device");
    bench_destroy(&bench);
}
