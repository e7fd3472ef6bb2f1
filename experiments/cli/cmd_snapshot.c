/*
 * cmd_snapshot: `pleat snapshot`, the memory snapshot of PyTorch of a replay.
 */
#include "json.h"
#include "replay_job.h"
#include "report.h"
#include "size.h"

#include "output_file.h"
#include "snapshot_recorder.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    KEY_OUTPUT = 'o',
    KEY_AT = PLEAT_CLI_KEY_OWN,
    KEY_AT_PEAK,
    KEY_MAX_ENTRIES,
    KEY_NO_HISTORY,
    KEY_PROTOCOL
};

static const pleat_cli_option_t pleat_cli_snapshot_option_table[] = {
    {KEY_OUTPUT, "output", "FILE",
     "write the snapshot there ('-': standard output); packed if the name ends in .gz, .xz or "
     ".zst"},
    {KEY_AT, "at", "EVENT",
     "stop behind this event of the trace, counted from 1 and on over the passes; without it at "
     "the end"},
    {KEY_AT_PEAK, "at-peak", NULL,
     "stop where most memory is reserved, at the first of several such moments"},
    {KEY_MAX_ENTRIES, "max-entries", "N", "keep the last N entries of the history; without it all"},
    {KEY_NO_HISTORY, "no-history", NULL, "leave the entries of the history out"},
    {KEY_PROTOCOL, "protocol", "N",
     "version of the pickle format, 2 to 5; without it 4, which every viewer reads"},
    PLEAT_CLI_OPTION_MODE,
    PLEAT_CLI_OPTION_CONF,
    PLEAT_CLI_OPTION_LIMIT,
    PLEAT_CLI_OPTION_DEVICE,
    PLEAT_CLI_OPTION_PASSES,
    PLEAT_CLI_OPTION_EMPTY_CACHE,
    PLEAT_CLI_OPTION_COSTS,
    PLEAT_CLI_OPTION_SNAPSHOT_DEVICE,
    PLEAT_CLI_OPTION_SNAPSHOT_MEMORY,
    PLEAT_CLI_OPTION_JSON,
};

/* Devices of a snapshot are few; this bounds what a wrong file can ask for. */
enum { PLEAT_CLI_DEVICES_MAX = 1024 };

typedef struct pleat_cli_snapshot_call {
    pleat_cli_replay_options_t options;
    const char *output_path;
    uint64_t at_event; /* 0: not given */
    bool is_at_peak;
    uint64_t max_entries;
    bool has_history;
    uint64_t protocol;
    pleat_trace_set_t set;
    pleat_snapshot_recorder_t *recorders; /* one a trace of the set */
    pleat_program_t **programs;           /* theirs */
    const pleat_snapshot_recorder_t **by_device;
    size_t device_count;
} pleat_cli_snapshot_call_t;

static int pleat_cli_snapshot_option(pleat_cli_snapshot_call_t *call, const pleat_cli_args_t *args,
                                     int key)
{
    switch (key) {
    case KEY_OUTPUT:
        call->output_path = args->value;
        return PLEAT_CLI_EXIT_GOOD;
    case KEY_AT:
        return pleat_cli_args_count(args, 1, UINT64_MAX, &call->at_event);
    case KEY_AT_PEAK:
        call->is_at_peak = true;
        return PLEAT_CLI_EXIT_GOOD;
    case KEY_MAX_ENTRIES:
        return pleat_cli_args_count(args, 1, UINT64_MAX, &call->max_entries);
    case KEY_NO_HISTORY:
        call->has_history = false;
        return PLEAT_CLI_EXIT_GOOD;
    case KEY_PROTOCOL:
        return pleat_cli_args_count(args, 2, 5, &call->protocol);
    default:
        return pleat_cli_replay_options_take(&call->options, args, key);
    }
}

/* ---- replaying ---- */

/* After how many calls to stop. 0, or an exit status after a message. */
static int pleat_cli_snapshot_calls(const pleat_cli_snapshot_call_t *call,
                                    pleat_cli_replay_job_t *job, uint64_t *calls_out)
{
    const uint32_t passes = call->options.passes;

    if (call->at_event > 0) {
        *calls_out = pleat_snapshot_recorder_calls_to(job->program, passes, call->at_event);
        if (*calls_out == 0) {
            const uint64_t event_count = job->program->event_count * passes;

            return pleat_cli_error(
                "--at %llu: %s has %llu events%s", (unsigned long long)call->at_event, job->name,
                (unsigned long long)event_count, passes > 1 ? " over all passes" : "");
        }
    }
    if (call->is_at_peak) {
        pleat_peak_finder_t finder;
        pleat_metrics_t metrics;

        pleat_peak_finder_init(&finder);
        job->watcher = &finder.watcher;
        int exit_status = pleat_cli_replay_job_run(job, 0, 0, NULL, &metrics);
        job->watcher = NULL;
        *calls_out = finder.peak_calls;
        return exit_status;
    }
    return PLEAT_CLI_EXIT_GOOD;
}

/* Replay one trace and take its snapshot. 1 for an out-of-memory. */
static int pleat_cli_snapshot_record(pleat_cli_snapshot_call_t *call, size_t index,
                                     pleat_cli_replay_job_t *job)
{
    pleat_snapshot_recorder_t *recorder = &call->recorders[index];
    pleat_metrics_t metrics;
    uint64_t calls_wanted = 0;

    if (pleat_snapshot_recorder_init(recorder, job->program, call->set.snapshot,
                                     call->max_entries) != PLEAT_OK) {
        return pleat_cli_error("%s: %s", job->name, pleat_last_error());
    }
    int exit_status = pleat_cli_snapshot_calls(call, job, &calls_wanted);
    if (exit_status != PLEAT_CLI_EXIT_GOOD) {
        return exit_status;
    }
    recorder->calls_wanted = calls_wanted;
    job->watcher = &recorder->watcher;
    exit_status = pleat_cli_replay_job_run(job, 0, 0, NULL, &metrics);
    job->watcher = NULL;
    if (exit_status != PLEAT_CLI_EXIT_GOOD) {
        if (job->replay) {
            pleat_snapshot_recorder_detach(job->replay);
        }
        return exit_status;
    }
    if (pleat_snapshot_recorder_take(recorder, job->replay, call->has_history) != PLEAT_OK) {
        return pleat_cli_error("%s: %s", job->name, pleat_last_error());
    }
    return metrics.num_ooms + job->refused_count > 0 ? PLEAT_CLI_EXIT_NO : PLEAT_CLI_EXIT_GOOD;
}

static int pleat_cli_snapshot_trace(pleat_cli_snapshot_call_t *call, size_t index)
{
    pleat_cli_replay_job_t job;
    int exit_status = pleat_cli_replay_job_open(&job, &call->options, &call->set, index);

    if (exit_status == PLEAT_CLI_EXIT_GOOD) {
        exit_status = pleat_cli_snapshot_record(call, index, &job);
        const uint32_t device = job.program->has_origin ? job.program->origin.device : 0;
        if (device < call->device_count) {
            call->by_device[device] = &call->recorders[index];
        }
        call->programs[index] = job.program; /* which the recorder needs */
        job.program = NULL;
    }
    pleat_cli_replay_job_close(&job);
    return exit_status;
}

static int pleat_cli_snapshot_traces(pleat_cli_snapshot_call_t *call)
{
    const size_t count = call->set.count;
    int exit_status = PLEAT_CLI_EXIT_GOOD;

    call->device_count = call->set.snapshot ? call->set.snapshot->history_count : 1;
    if (call->device_count > PLEAT_CLI_DEVICES_MAX) {
        return pleat_cli_error("the snapshot has %zu devices; at most %d are taken",
                               call->device_count, (int)PLEAT_CLI_DEVICES_MAX);
    }
    call->recorders = calloc(count + 1, sizeof(*call->recorders));
    call->programs = (pleat_program_t **)calloc(count + 1, sizeof(*call->programs));
    call->by_device = (const pleat_snapshot_recorder_t **)calloc(call->device_count + 1,
                                                                 sizeof(*call->by_device));
    if (!call->recorders || !call->programs || !call->by_device) {
        return pleat_cli_error("no host memory");
    }
    for (size_t i = 0; i < count && exit_status != PLEAT_CLI_EXIT_USAGE; i++) {
        int status = pleat_cli_snapshot_trace(call, i);

        exit_status = status > exit_status ? status : exit_status;
    }
    return exit_status;
}

/* ---- writing ---- */

static int pleat_cli_snapshot_write(const pleat_cli_snapshot_call_t *call,
                                    const pleat_torch_snapshot_t *snapshot)
{
    pleat_torch_write_options_t options = PLEAT_TORCH_WRITE_OPTIONS_INIT;
    pleat_output_file_t file;

    options.protocol = (uint32_t)call->protocol;
    pleat_status_t status = pleat_output_file_open(call->output_path, &file);
    if (status != PLEAT_OK) {
        return pleat_cli_error("%s", pleat_last_error());
    }
    status = pleat_torch_snapshot_write(snapshot, &options, pleat_output_file_write, &file);
    if (status == PLEAT_OK) {
        status = pleat_output_file_finish(&file);
    } else {
        pleat_output_file_abandon(&file);
    }
    return status == PLEAT_OK ? PLEAT_CLI_EXIT_GOOD : pleat_cli_error("%s", pleat_last_error());
}

static uint64_t pleat_cli_snapshot_lost(const pleat_cli_snapshot_call_t *call)
{
    uint64_t lost = 0;

    for (size_t i = 0; i < call->device_count; i++) {
        lost += call->by_device[i] ? call->by_device[i]->copy->lost_count : 0;
    }
    return lost;
}

static int pleat_cli_snapshot_print(const pleat_cli_snapshot_call_t *call,
                                    const pleat_torch_snapshot_t *snapshot)
{
    uint64_t entries = 0;
    uint64_t reserved = 0;
    uint64_t lost = pleat_cli_snapshot_lost(call);
    char size[32];

    if (strcmp(call->output_path, "-") == 0) {
        return PLEAT_CLI_EXIT_GOOD;
    }
    for (uint64_t i = 0; i < snapshot->history_count; i++) {
        entries += snapshot->histories[i].entry_count;
    }
    for (uint64_t i = 0; i < snapshot->segment_count; i++) {
        reserved += snapshot->segments[i].total_bytes;
    }
    if (call->options.is_json) {
        return pleat_cli_json_print(json_pack(
            "{s:o, s:s, s:s, s:I, s:I, s:I, s:I, s:I}", "output",
            pleat_cli_json_text(call->output_path), "mode", pleat_mode_name(call->options.modes[0]),
            "conf", call->options.confs[0], "segments", (json_int_t)snapshot->segment_count,
            "blocks", (json_int_t)snapshot->block_count, "segment_bytes", (json_int_t)reserved,
            "entries", (json_int_t)entries, "entries_lost", (json_int_t)lost));
    }
    pleat_cli_size_format(reserved, size, sizeof(size));
    (void)printf("%s: %llu segments of %s with %llu blocks, %llu entries of history",
                 call->output_path, (unsigned long long)snapshot->segment_count, size,
                 (unsigned long long)snapshot->block_count, (unsigned long long)entries);
    if (lost > 0) {
        (void)printf(" (%llu older ones were overwritten)", (unsigned long long)lost);
    }
    (void)putchar('\n');
    return PLEAT_CLI_EXIT_GOOD;
}

/* Settings in force, as PyTorch would show them. */
static pleat_conf_t pleat_cli_snapshot_conf(const pleat_cli_replay_options_t *options)
{
    pleat_conf_t conf = PLEAT_CONF_INIT;

    /* The text was read before, so nothing is wrong with it. */
    if (pleat_conf_read_start(&conf, PLEAT_CONF_STRICT, options->confs[0], NULL) != PLEAT_OK) {
        conf = (pleat_conf_t)PLEAT_CONF_INIT;
    }
    conf.settings[PLEAT_CONF_EXPANDABLE_SEGMENTS].number =
        options->modes[0] == PLEAT_MODE_CLASSIC ? 0 : 1;
    return conf;
}

static int pleat_cli_snapshot_finish(const pleat_cli_snapshot_call_t *call)
{
    const pleat_conf_t conf = pleat_cli_snapshot_conf(&call->options);
    pleat_torch_snapshot_t snapshot = PLEAT_TORCH_SNAPSHOT_INIT;

    if (pleat_snapshot_recorder_compose(call->by_device, call->device_count, &conf,
                                        call->options.confs[0], &snapshot) != PLEAT_OK) {
        return pleat_cli_error("%s", pleat_last_error());
    }
    int exit_status = pleat_cli_snapshot_write(call, &snapshot);
    if (exit_status == PLEAT_CLI_EXIT_GOOD) {
        exit_status = pleat_cli_snapshot_print(call, &snapshot);
    }
    pleat_torch_snapshot_fini(&snapshot);
    return exit_status;
}

static int pleat_cli_snapshot_file(pleat_cli_snapshot_call_t *call, const char *path)
{
    int exit_status = pleat_cli_replay_set_open(&call->options, path, &call->set);

    if (exit_status == PLEAT_CLI_EXIT_GOOD) {
        exit_status = pleat_cli_snapshot_traces(call);
    }
    if (exit_status != PLEAT_CLI_EXIT_USAGE) {
        int status = pleat_cli_snapshot_finish(call);

        exit_status = status > exit_status ? status : exit_status;
    }
    for (size_t i = 0; i < call->set.count && call->recorders && call->programs; i++) {
        pleat_snapshot_recorder_fini(&call->recorders[i]);
        pleat_program_destroy(call->programs[i]);
    }
    free(call->recorders);
    free((void *)call->programs);
    free((void *)call->by_device);
    pleat_trace_set_fini(&call->set);
    return exit_status;
}

static int pleat_cli_snapshot_run(const pleat_cli_command_t *command, int argc, char **argv)
{
    pleat_cli_snapshot_call_t call = {
        .max_entries = UINT64_MAX, .has_history = true, .protocol = PLEAT_TORCH_PROTOCOL_DEFAULT};
    pleat_cli_args_t args;
    int key = 0;

    pleat_cli_replay_options_init(&call.options);
    pleat_cli_args_init(&args, command, argc, argv);
    while ((key = pleat_cli_args_next(&args)) != PLEAT_CLI_ARGS_END) {
        if (key == PLEAT_CLI_ARGS_STOP) {
            return args.exit_status;
        }
        int wrong = pleat_cli_snapshot_option(&call, &args, key);
        if (wrong) {
            return wrong;
        }
    }
    if (argc - args.first_operand != 1) {
        return pleat_cli_args_error(command, "wanted is one trace, %d given",
                                    argc - args.first_operand);
    }
    if (!call.output_path) {
        return pleat_cli_args_error(command, "--output is missing: where shall the snapshot go?");
    }
    if (call.at_event > 0 && call.is_at_peak) {
        return pleat_cli_args_error(command, "--at and --at-peak are given; one moment is taken");
    }
    if (call.options.conf_count > 1) {
        return pleat_cli_args_error(command, "--conf is given %zu times; one is taken",
                                    call.options.conf_count);
    }
    int wrong = pleat_cli_replay_options_finish(&call.options);
    if (wrong) {
        return wrong;
    }
    return pleat_cli_snapshot_file(&call, argv[args.first_operand]);
}

const pleat_cli_command_t pleat_cli_snapshot = {
    .name = "snapshot",
    .brief = "write a memory snapshot of PyTorch out of a replay",
    .operands = "TRACE -o FILE",
    .description =
        "Replays a trace on a simulated device and writes what\n"
        "torch.cuda.memory._dump_snapshot() would write there: segments, blocks, the\n"
        "history up to that point, settings. torch/cuda/_memory_viz.py and the web\n"
        "viewer (pytorch.org/memory_viz) read it.\n"
        "TRACE is a trace as text (plain, .gz, .xz, .zst), in Pleat's compact form, or a\n"
        "memory snapshot with its history, recognised by its content; '-' is standard\n"
        "input. Of a snapshot all devices are replayed, and stacks, times, stream handles\n"
        "and annotations are kept: the result shows the same program under another\n"
        "allocator. In pleated mode a request that is served at several places has an\n"
        "entry for each. The status is 1 if a request failed with out of memory.",
    .examples = "  pleat snapshot run.pleat -o run.pickle --at-peak\n"
                "  pleat snapshot dump.pickle --mode pleated -o pleated.pickle\n"
                "  python3 -m torch.cuda._memory_viz trace_plot pleated.pickle -o pleated.html",
    .options = pleat_cli_snapshot_option_table,
    .option_count =
        sizeof(pleat_cli_snapshot_option_table) / sizeof(pleat_cli_snapshot_option_table[0]),
    .run = pleat_cli_snapshot_run,
};
