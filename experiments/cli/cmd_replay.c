/*
 * cmd_replay: `pleat replay`, every metric of replays in one mode and setting.
 */
#include "metrics_report.h"
#include "replay_job.h"
#include "report.h"
#include "trace_notes.h"

#include <pleat/oom_message.h>

static const pleat_cli_option_t pleat_cli_replay_option_table[] = {
    PLEAT_CLI_OPTION_MODE,
    PLEAT_CLI_OPTION_CONF,
    PLEAT_CLI_OPTION_LIMIT,
    PLEAT_CLI_OPTION_DEVICE,
    PLEAT_CLI_OPTION_PASSES,
    PLEAT_CLI_OPTION_EMPTY_CACHE,
    PLEAT_CLI_OPTION_PERTURB,
    PLEAT_CLI_OPTION_COSTS,
    PLEAT_CLI_OPTION_TIMELINE,
    PLEAT_CLI_OPTION_PLOT,
    PLEAT_CLI_OPTION_PERFETTO,
    PLEAT_CLI_OPTION_SNAPSHOT_DEVICE,
    PLEAT_CLI_OPTION_SNAPSHOT_MEMORY,
    PLEAT_CLI_OPTION_JSON,
};

/* What PyTorch would have told the user at the last failure. */
static void pleat_cli_replay_print_oom(const pleat_cli_replay_job_t *job)
{
    pleat_oom_info_t info = PLEAT_OOM_INFO_INIT;
    char text[PLEAT_OOM_MESSAGE_BYTES];

    pleat_read_last_oom(pleat_replay_allocator(job->replay), &info);
    (void)pleat_oom_message(&info, 0, NULL, text, sizeof(text));
    (void)printf("The last of them, in PyTorch's words: %s\n", text);
}

/* Files that the replays of a call write into. */
typedef struct pleat_cli_replay_files {
    pleat_cli_timeline_file_t timeline;
    pleat_cli_events_file_t events;
} pleat_cli_replay_files_t;

/* One trace: replay and print. Returns an exit status; 1 for an out-of-memory. */
static int pleat_cli_replay_trace(const pleat_cli_replay_options_t *options, pleat_trace_set_t *set,
                                  size_t index, pleat_cli_replay_files_t *files, bool is_first)
{
    pleat_cli_replay_job_t job;
    pleat_metrics_t metrics;
    if (!options->is_json) {
        (void)fputs(is_first ? "" : "\n", stdout);
        pleat_cli_trace_notes_recording(set, index);
    }
    int exit_status = pleat_cli_replay_job_open(&job, options, set, index);

    job.events_file = &files->events;
    if (exit_status == PLEAT_CLI_EXIT_GOOD) {
        exit_status = pleat_cli_replay_job_run(&job, 0, 0, &files->timeline, &metrics);
    }
    if (exit_status == PLEAT_CLI_EXIT_GOOD && options->is_json) {
        exit_status = pleat_cli_metrics_print_json(&metrics, job.program);
    } else if (exit_status == PLEAT_CLI_EXIT_GOOD) {
        exit_status = pleat_cli_metrics_print_list(&metrics);
        pleat_cli_metrics_print_words(&metrics, 1);
        if (metrics.num_ooms > 0) {
            pleat_cli_replay_print_oom(&job);
        }
    }
    if (exit_status == PLEAT_CLI_EXIT_GOOD && metrics.num_ooms + job.refused_count > 0) {
        exit_status = PLEAT_CLI_EXIT_NO;
    }
    pleat_cli_replay_job_close(&job);
    return exit_status;
}

/* All traces of one file. Returns the worst exit status. */
static int pleat_cli_replay_file(const pleat_cli_replay_options_t *options, const char *path,
                                 pleat_cli_replay_files_t *files, bool is_first)
{
    pleat_trace_set_t set;
    int exit_status = pleat_cli_replay_set_open(options, path, &set);

    for (size_t i = 0; i < set.count && exit_status != PLEAT_CLI_EXIT_USAGE; i++) {
        int status = pleat_cli_replay_trace(options, &set, i, files, is_first && i == 0);

        exit_status = status > exit_status ? status : exit_status;
    }
    pleat_trace_set_fini(&set);
    return exit_status;
}

static int pleat_cli_replay_all(const pleat_cli_replay_options_t *options, int count, char **paths)
{
    pleat_cli_replay_files_t files = {.events = {.path = NULL}};
    int exit_status =
        pleat_cli_timeline_file_open(&files.timeline, options->timeline_path, options->plot_path);

    if (exit_status == PLEAT_CLI_EXIT_GOOD) {
        exit_status = pleat_cli_events_file_open(&files.events, options->perfetto_path);
    }
    for (int i = 0; i < count && exit_status != PLEAT_CLI_EXIT_USAGE; i++) {
        int status = pleat_cli_replay_file(options, paths[i], &files, i == 0);

        exit_status = status > exit_status ? status : exit_status;
    }
    int status =
        pleat_cli_timeline_file_close(&files.timeline, exit_status != PLEAT_CLI_EXIT_USAGE);
    exit_status = status > exit_status ? status : exit_status;
    status = pleat_cli_events_file_close(&files.events, exit_status != PLEAT_CLI_EXIT_USAGE);
    exit_status = status > exit_status ? status : exit_status;
    if (exit_status != PLEAT_CLI_EXIT_USAGE && !options->is_json) {
        (void)printf("Times are simulated, by %s; host_ns_per_op alone is measured.\n",
                     options->has_costs ? "the cost table given" : "a cost table of an H200");
    }
    return exit_status;
}

static int pleat_cli_replay_run(const pleat_cli_command_t *command, int argc, char **argv)
{
    pleat_cli_replay_options_t options;
    pleat_cli_args_t args;
    int key = 0;
    int wrong = 0;

    pleat_cli_replay_options_init(&options);
    pleat_cli_args_init(&args, command, argc, argv);
    while ((key = pleat_cli_args_next(&args)) != PLEAT_CLI_ARGS_END) {
        if (key == PLEAT_CLI_ARGS_STOP) {
            return args.exit_status;
        }
        wrong = pleat_cli_replay_options_take(&options, &args, key);
        if (wrong) {
            return wrong;
        }
    }
    if (args.first_operand == argc) {
        return pleat_cli_args_error(command, "a trace is missing");
    }
    if (options.conf_count > 1) {
        return pleat_cli_args_error(command,
                                    "--conf is given %zu times; 'pleat compare' takes "
                                    "several",
                                    options.conf_count);
    }
    wrong = pleat_cli_replay_options_finish(&options);
    if (wrong) {
        return wrong;
    }
    return pleat_cli_replay_all(&options, argc - args.first_operand, argv + args.first_operand);
}

const pleat_cli_command_t pleat_cli_replay = {
    .name = "replay",
    .brief = "replay traces in one mode and print every metric",
    .operands = "TRACE...",
    .description =
        "Replays the calls of each trace on a simulated device and prints all metrics.\n"
        "TRACE is a trace as text (plain, .gz, .xz, .zst) or in Pleat's compact form, or\n"
        "a memory snapshot of PyTorch with its history (.pickle), recognised by its\n"
        "content; '-' is standard input. A request that fails is\n"
        "counted, and the replay goes on; the status is then 1. What contradicts the\n"
        "events before is left out with a warning: frees of what is not live, for one.\n"
        "The second half begins at the middle event. mean_reserved_over_active leaves\n"
        "out times in which nothing is active. A share of a time of 0 is not known (null\n"
        "in JSON).\n"
        "A device free ends the work of all busy streams, as cudaFree does.",
    .examples = "  pleat replay run.pleat --limit 40GiB\n"
                "  pleat replay snapshot.pickle --device 1\n"
                "  pleat replay run.trace.xz --conf max_split_size_mb:128 --plot run.png\n"
                "  pleat replay run.pleat --mode pleated --perfetto run.json.gz\n"
                "  pleat replay run.pleat --json | jq .reserved_peak_bytes",
    .options = pleat_cli_replay_option_table,
    .option_count =
        sizeof(pleat_cli_replay_option_table) / sizeof(pleat_cli_replay_option_table[0]),
    .run = pleat_cli_replay_run,
};
