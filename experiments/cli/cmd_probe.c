/*
 * cmd_probe: `pleat probe`, measures the calls of the GPU at hand (experiments/lib/probe.h) and
 * writes a cost table that `--costs FILE` of the other commands takes.
 */
#include "args.h"
#include "json.h"
#include "report.h"

#include "probe.h"
#include "vmm/cost.h"

#include <pleat/cuda.h>
#include <stdbool.h>
#include <stdlib.h>

enum { KEY_OUTPUT = 'o', KEY_DEVICE = 'd', KEY_JSON = 1000, KEY_REPS, KEY_DRIVER };

static const pleat_cli_option_t pleat_cli_probe_options[] = {
    {KEY_OUTPUT, "output", "FILE", "write the cost table to FILE, for --costs FILE elsewhere"},
    {KEY_DEVICE, "device", "N", "the GPU to measure, counted from 0; default 0"},
    {KEY_REPS, "reps", "N", "how often each call is made for its median; default 20"},
    {KEY_DRIVER, "driver", "FILE", "library of the driver; default libcuda.so.1"},
    {KEY_JSON, "json", NULL, "print everything that was measured as one JSON object"},
};

typedef struct pleat_cli_probe_call {
    const char *output;
    const char *driver;
    uint64_t device;
    uint64_t reps;
    bool is_json;
} pleat_cli_probe_call_t;

static json_t *pleat_cli_probe_times(const pleat_probe_times_t *times)
{
    return json_pack("{s:I, s:f, s:f, s:f, s:f}", "count", (json_int_t)times->count, "median_ns",
                     times->median_ns, "least_ns", times->least_ns, "p95_ns", times->p95_ns,
                     "most_ns", times->most_ns);
}

/* The kinds of call that were measured, by name. */
static json_t *pleat_cli_probe_calls(const pleat_probe_times_t *times)
{
    json_t *object = json_object();
    for (unsigned i = 0; i < PLEAT_VMM_CALL_COUNT; i++) {
        if (times[i].count > 0) {
            (void)json_object_set_new(object, pleat_vmm_call_name((pleat_vmm_call_t)i),
                                      pleat_cli_probe_times(&times[i]));
        }
    }
    return object;
}

static json_t *pleat_cli_probe_rows(const pleat_probe_t *probe)
{
    json_t *rows = json_array();
    for (uint32_t i = 0; i < probe->row_count; i++) {
        const pleat_probe_row_t *row = &probe->rows[i];
        (void)json_array_append_new(
            rows,
            json_pack("{s:I, s:o, s:o, s:b}", "bytes", (json_int_t)row->bytes, "idle",
                      pleat_cli_probe_calls(row->idle), "beside_a_kernel",
                      pleat_cli_probe_calls(row->busy), "kernel_ran_on", row->has_kernel_run_on));
    }
    return rows;
}

static json_t *pleat_cli_probe_many(const pleat_probe_t *probe)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < PLEAT_PROBE_MANY; i++) {
        const pleat_probe_many_t *many = &probe->many[i];
        if (many->count > 0) {
            (void)json_array_append_new(
                list,
                json_pack("{s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "chunk_bytes",
                          (json_int_t)many->chunk_bytes, "count", (json_int_t)many->count,
                          "create_ns", many->create_ns, "map_ns", many->map_ns, "access_ns",
                          many->access_ns, "unmap_ns", many->unmap_ns, "release_ns",
                          many->release_ns, "recycle_ns", many->recycle_ns, "alias_map_ns",
                          many->alias_map_ns, "alias_access_ns", many->alias_access_ns,
                          "unmap_one_ns", many->unmap_one_ns));
        }
    }
    return list;
}

static json_t *pleat_cli_probe_growths(const pleat_probe_t *probe)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < PLEAT_PROBE_GROWTHS; i++) {
        const pleat_probe_growth_t *growth = &probe->growths[i];
        if (growth->chunk_bytes > 0) {
            (void)json_array_append_new(
                list,
                json_pack("{s:I, s:I, s:o, s:f, s:o, s:f}", "bytes", (json_int_t)growth->bytes,
                          "chunk_bytes", (json_int_t)growth->chunk_bytes, "grow",
                          pleat_cli_probe_times(&growth->grow), "grow_table_ns",
                          growth->grow_predicted_ns, "evict", pleat_cli_probe_times(&growth->evict),
                          "evict_table_ns", growth->evict_predicted_ns));
        }
    }
    return list;
}

static json_t *pleat_cli_probe_waits(const pleat_probe_t *probe)
{
    json_t *list = json_array();
    for (unsigned i = 0; i < PLEAT_PROBE_WAIT_COUNT; i++) {
        (void)json_array_append_new(
            list, json_pack("{s:s, s:f, s:b}", "call", pleat_probe_wait_text((pleat_probe_wait_t)i),
                            "ns", probe->waits[i].ns, "kernel_running_afterwards",
                            probe->waits[i].is_kernel_running));
    }
    return list;
}

static int pleat_cli_probe_print_json(const pleat_probe_t *probe)
{
    return pleat_cli_json_print(json_pack(
        "{s:s, s:I, s:o, s:o, s:o, s:o, s:I, s:o}", "gpu", probe->gpu, "granularity_bytes",
        (json_int_t)probe->granularity_bytes, "chunks", pleat_cli_probe_rows(probe), "calls",
        pleat_cli_probe_calls(probe->calls), "many", pleat_cli_probe_many(probe), "growth",
        pleat_cli_probe_growths(probe), "kernel_ns", (json_int_t)probe->kernel_ns, "waits",
        pleat_cli_probe_waits(probe)));
}

static int pleat_cli_probe_report(const pleat_cli_probe_call_t *call, const pleat_probe_t *probe)
{
    if (call->output && pleat_probe_write_costs(probe, call->output) != PLEAT_OK) {
        return pleat_cli_error("%s", pleat_last_error());
    }
    if (call->is_json) {
        return pleat_cli_probe_print_json(probe);
    }
    if (pleat_probe_print(probe, stdout) != PLEAT_OK) {
        return pleat_cli_error("%s", pleat_last_error());
    }
    return PLEAT_CLI_EXIT_GOOD;
}

static int pleat_cli_probe_execute(const pleat_cli_probe_call_t *call)
{
    static pleat_probe_t probe;
    pleat_cuda_options_t options = PLEAT_CUDA_OPTIONS_INIT;
    pleat_vmm_t *vmm = NULL;
    pleat_gpu_t *gpu = NULL;

    /* Code is loaded when it is asked for: loading it at the first launch waits for the device. */
    (void)setenv("CUDA_MODULE_LOADING", "EAGER", 0);
    options.driver = call->driver;
    pleat_status_t status = pleat_cuda_create((int)call->device, &options, &vmm);
    if (status != PLEAT_OK) {
        return pleat_cli_error("a GPU is needed: %s", pleat_last_error());
    }
    status = pleat_gpu_open(vmm, &gpu);
    if (status == PLEAT_OK) {
        status = pleat_probe_run(vmm, gpu, (uint32_t)call->reps, &probe);
        pleat_gpu_close(gpu);
    }
    pleat_vmm_destroy(vmm);
    return status == PLEAT_OK ? pleat_cli_probe_report(call, &probe)
                              : pleat_cli_error("%s", pleat_last_error());
}

static int pleat_cli_probe_run(const pleat_cli_command_t *command, int argc, char **argv)
{
    pleat_cli_probe_call_t call = {.reps = 20};
    pleat_cli_args_t args;
    int key = 0;
    int wrong = 0;

    pleat_cli_args_init(&args, command, argc, argv);
    while ((key = pleat_cli_args_next(&args)) != PLEAT_CLI_ARGS_END) {
        if (key == KEY_OUTPUT) {
            wrong = pleat_cli_args_file(&args, &call.output);
        } else if (key == KEY_DRIVER) {
            call.driver = args.value;
        } else if (key == KEY_JSON) {
            call.is_json = true;
        } else if (key == KEY_DEVICE) {
            wrong = pleat_cli_args_count(&args, 0, 1023, &call.device);
        } else if (key == KEY_REPS) {
            wrong = pleat_cli_args_count(&args, 1, PLEAT_PROBE_REPS_MAX, &call.reps);
        } else {
            return args.exit_status;
        }
        if (wrong) {
            return wrong;
        }
    }
    if (argc > args.first_operand) {
        return pleat_cli_args_error(command, "'%s' is too much: there are no operands",
                                    argv[args.first_operand]);
    }
    return pleat_cli_probe_execute(&call);
}

const pleat_cli_command_t pleat_cli_probe = {
    .name = "probe",
    .brief = "measure the memory calls of a GPU, write a cost table",
    .operands = "",
    .description =
        "Measures what the calls for memory and for virtual memory cost on a GPU: by\n"
        "size of the chunk, on an idle device and beside a running kernel, many chunks\n"
        "at once, second mappings, growth of a range beside the built-in cost table, and\n"
        "which calls wait for work on the device. Needs a GPU and its driver, takes some\n"
        "seconds and at most half of the free memory. Times of the host's clock;\n"
        "medians. With --output the medians become a cost table for the simulated device\n"
        "of the other commands.",
    .examples = "  pleat probe --output costs.txt\n"
                "  pleat compare trace.txt.gz --costs costs.txt",
    .options = pleat_cli_probe_options,
    .option_count = sizeof(pleat_cli_probe_options) / sizeof(pleat_cli_probe_options[0]),
    .run = pleat_cli_probe_run,
};
