/*
 * Tests of probe over the simulated driver: that everything is measured and becomes a cost table,
 * and that a call that fails ends it with its error.
 */
#include "experiments/lib/probe.h"

#include "fake_cuda.h"
#include "host_fault.h"
#include "vmm/base.h"
#include "vmm/cost.h"

#include <string.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

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

static fake_cuda_fail_fn_t fail_call;
static fake_cuda_set_fn_t set_property;
static pleat_vmm_t *vmm;
static pleat_gpu_t *gpu;
static pleat_probe_t probe;

static void open_gpu(uint64_t bytes, uint64_t has_mapping)
{
    pleat_cuda_options_t options = PLEAT_CUDA_OPTIONS_INIT;
    pleat_cuda_driver_t driver;
    options.driver = TEST_LIBRARY;
    expect_ok(pleat_cuda_load(TEST_LIBRARY, &driver));
    expect_ok(pleat_cuda_find(&driver, "fake_cuda_fail", (void *)&fail_call));
    expect_ok(pleat_cuda_find(&driver, "fake_cuda_set", (void *)&set_property));
    set_property("bytes", bytes);
    set_property("mapping", has_mapping);
    expect_ok(pleat_cuda_create(0, &options, &vmm));
    expect_ok(pleat_gpu_open(vmm, &gpu));
}

static void close_gpu(void)
{
    pleat_gpu_close(gpu);
    pleat_vmm_destroy(vmm);
}

Test(probe, everything_is_measured, .timeout = 60)
{
    open_gpu(32 * PLEAT_GIB, 1);
    expect_ok(pleat_probe_run(vmm, gpu, 3, &probe));
    cr_expect(eq(u64, probe.granularity_bytes, 2 * PLEAT_MIB));
    cr_assert(eq(int, (int)probe.row_count, (int)PLEAT_PROBE_ROWS));
    for (uint32_t i = 0; i < probe.row_count; i++) {
        const pleat_probe_row_t *row = &probe.rows[i];
        cr_expect(row->has_kernel_run_on);
        for (unsigned call = 0; call < PLEAT_VMM_CALL_COUNT; call++) {
            const bool is_sized = pleat_cost_is_sized((pleat_vmm_call_t)call);
            cr_expect(eq(int, row->idle[call].count == 3, is_sized));
            cr_expect(
                eq(int, row->busy[call].count == 3, is_sized && call != PLEAT_VMM_CALL_MEM_FREE));
            cr_expect(le(dbl, row->idle[call].least_ns, row->idle[call].median_ns));
            cr_expect(le(dbl, row->idle[call].median_ns, row->idle[call].p95_ns));
            cr_expect(le(dbl, row->idle[call].p95_ns, row->idle[call].most_ns));
            cr_expect(eq(int, probe.calls[call].count == 3,
                         !is_sized && call < PLEAT_VMM_CALL_CHUNK_EXPORT));
        }
    }
    cr_expect(eq(int, (int)probe.many[0].count, 1024));
    cr_expect(eq(int, (int)probe.many[1].count, 256));
    cr_expect(lt(dbl, 0.0, probe.many[1].recycle_ns));
    for (int i = 0; i < (int)PLEAT_PROBE_GROWTHS; i++) {
        cr_expect(eq(int, (int)probe.growths[i].grow.count, 3));
        cr_expect(lt(dbl, 0.0, probe.growths[i].grow_predicted_ns));
    }
    /* Of the calls beside a kernel only mem_free waits for it. */
    for (int i = 0; i < (int)PLEAT_PROBE_WAIT_COUNT; i++) {
        cr_expect(eq(int, probe.waits[i].is_kernel_running, i != PLEAT_PROBE_WAIT_MEM_FREE), "%s",
                  pleat_probe_wait_text((pleat_probe_wait_t)i));
    }
    cr_expect(ge(dbl, probe.waits[PLEAT_PROBE_WAIT_MEM_FREE].ns, 1e7));
    cr_expect(eq(str, (char *)pleat_probe_wait_text(PLEAT_PROBE_WAIT_COUNT), "unknown call"));
    pleat_vmm_counters_t counters = PLEAT_VMM_COUNTERS_INIT;
    pleat_vmm_read_counters(vmm, &counters);
    cr_expect(eq(u64, counters.calls[PLEAT_VMM_CALL_CHUNK_CREATE],
                 counters.calls[PLEAT_VMM_CALL_CHUNK_RELEASE]));
    cr_expect(eq(u64, counters.calls[PLEAT_VMM_CALL_ADDRESS_RESERVE],
                 counters.calls[PLEAT_VMM_CALL_ADDRESS_FREE]));
    close_gpu();
}

Test(probe, a_small_device_is_measured_as_far_as_it_goes, .timeout = 60)
{
    open_gpu(300 * PLEAT_MIB, 1);
    expect_ok(pleat_probe_run(vmm, gpu, 1, &probe));
    cr_expect(eq(int, (int)probe.row_count, 5)); /* up to 64 MiB */
    cr_expect(eq(int, (int)probe.many[0].count, 0));
    cr_expect(eq(u64, probe.growths[0].chunk_bytes, 0));
    pleat_cost_table_t costs;
    pleat_probe_costs(&probe, &costs);
    expect_ok(pleat_cost_table_check(&costs));
    cr_expect(eq(int, (int)costs.row_count, 5));
    close_gpu();
}

Test(probe, medians_become_a_cost_table, .timeout = 60)
{
    char name[] = "/tmp/pleat_probe_XXXXXX";
    char text[PLEAT_COST_TEXT_MAX];
    const int file = mkstemp(name);
    cr_assert(ge(int, file, 0));
    (void)close(file);
    (void)strcpy(probe.gpu, "none");
    probe.row_count = 2;
    probe.rows[0].bytes = 2 * PLEAT_MIB;
    probe.rows[1].bytes = 4 * PLEAT_MIB;
    probe.rows[1].idle[PLEAT_VMM_CALL_MAP] = (pleat_probe_times_t){.count = 1, .median_ns = 77.9};
    probe.calls[PLEAT_VMM_CALL_EVENT_QUERY] = (pleat_probe_times_t){.count = 1, .median_ns = 5};
    expect_ok(pleat_probe_write_costs(&probe, name));
    FILE *stream = fopen(name, "r");
    cr_assert(ne(ptr, stream, NULL));
    const size_t length = fread(text, 1, sizeof text, stream);
    (void)fclose(stream);
    (void)unlink(name);
    pleat_cost_table_t costs;
    expect_ok(pleat_cost_table_read(text, length, &costs));
    cr_expect(eq(int, (int)costs.row_count, 2));
    cr_expect(eq(u64, costs.rows[1].map_ns, 77));
    cr_expect(eq(u64, costs.call_ns[PLEAT_VMM_CALL_EVENT_QUERY], 5));
    cr_expect(eq(u64, costs.call_ns[PLEAT_VMM_CALL_MEM_INFO],
                 pleat_cost_table_h200()->call_ns[PLEAT_VMM_CALL_MEM_INFO]));
    expect_error(pleat_probe_write_costs(&probe, "/nowhere/costs.txt"), PLEAT_ERR_IO,
                 "'/nowhere/costs.txt' cannot be written: No such file");
    expect_error(pleat_probe_write_costs(&probe, "/dev/full"), PLEAT_ERR_IO, "cannot be written");
    probe.rows[1].bytes = PLEAT_MIB;
    expect_error(pleat_probe_write_costs(&probe, "/dev/null"), PLEAT_ERR_INVALID, "row 2");
    stream = fopen("/dev/full", "w");
    cr_assert(ne(ptr, stream, NULL));
    expect_error(pleat_probe_print(&probe, stream), PLEAT_ERR_IO, "cannot be written");
    (void)fclose(stream);
}

Test(probe, wrong_calls_are_refused, .timeout = 60)
{
    open_gpu(PLEAT_GIB, 0);
    expect_error(pleat_probe_run(vmm, gpu, 0, &probe), PLEAT_ERR_INVALID, "0 repetitions");
    expect_error(pleat_probe_run(vmm, gpu, PLEAT_PROBE_REPS_MAX + 1, &probe), PLEAT_ERR_INVALID,
                 "1 to 1000 are possible");
    expect_error(pleat_probe_run(vmm, gpu, 1, &probe), PLEAT_ERR_UNSUPPORTED,
                 "has no virtual memory to measure");
    close_gpu();
}

Test(probe, a_call_that_fails_ends_it, .timeout = 60)
{
    static const struct {
        const char *name;
        uint64_t nth;
    } rows[] = {{"cuStreamCreate", 1},
                {"cuEventCreate", 1},
                {"cuEventCreate", 2},
                {"cuMemGetInfo_v2", 1},
                {"cuMemCreate", 1},
                {"cuMemCreate", 25},
                {"cuMemMap", 3},
                {"cuMemSetAccess", 3},
                {"cuMemUnmap", 2},
                {"cuMemRelease", 2},
                {"cuMemAlloc_v2", 2},
                {"cuMemFree_v2", 2},
                {"cuMemAddressReserve", 1},

                {"cuMemAddressReserve", 3},
                {"cuLaunchKernel", 2},
                {"cuCtxSynchronize", 2}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        open_gpu(PLEAT_GIB, 1);
        fail_call(rows[i].name, rows[i].nth, 719);
        expect_error(pleat_probe_run(vmm, gpu, 2, &probe), PLEAT_ERR_DRIVER, "(719)");
        fail_call("none", 0, 0);
        close_gpu();
    }
    open_gpu(8 * PLEAT_GIB, 1);
    host_fault_after(1);
    expect_error(pleat_probe_run(vmm, gpu, 1, &probe), PLEAT_ERR_OOM_HOST, "for the samples");
    host_fault_after(2);
    expect_error(pleat_probe_run(vmm, gpu, 1, &probe), PLEAT_ERR_OOM_HOST, "for 1024 chunks");
    host_fault_after(0);
    close_gpu();
}
