/*
 * cmd_compare: `pleat compare`, the same traces in several modes and settings side by side.
 */
#include "metrics_report.h"
#include "replay_job.h"
#include "report.h"
#include "trace_notes.h"

#include <stdlib.h>
#include <string.h>

static const pleat_cli_option_t pleat_cli_compare_option_table[] = {
    PLEAT_CLI_OPTION_MODES,           PLEAT_CLI_OPTION_CONFS,
    PLEAT_CLI_OPTION_LIMIT,           PLEAT_CLI_OPTION_DEVICE,
    PLEAT_CLI_OPTION_PASSES,          PLEAT_CLI_OPTION_EMPTY_CACHE,
    PLEAT_CLI_OPTION_PERTURB,         PLEAT_CLI_OPTION_COSTS,
    PLEAT_CLI_OPTION_TIMELINE,        PLEAT_CLI_OPTION_PLOT,
    PLEAT_CLI_OPTION_PERFETTO,        PLEAT_CLI_OPTION_SNAPSHOT_DEVICE,
    PLEAT_CLI_OPTION_SNAPSHOT_MEMORY, PLEAT_CLI_OPTION_JSON,
};

/* Results of all traces, in order; the names of the traces outlive their jobs. */
typedef struct pleat_cli_comparison {
    const pleat_cli_replay_options_t *options;
    pleat_cli_timeline_file_t timeline;
    pleat_cli_events_file_t events;
    pleat_metrics_t *rows; /* trace_count x rows_per_trace */
    char **names;
    size_t trace_count;
    size_t rows_per_trace;
    uint64_t refused_count; /* requests that no allocator takes, over all traces */
} pleat_cli_comparison_t;

/* Room for one more trace. */
static bool pleat_cli_compare_grow(pleat_cli_comparison_t *comparison)
{
    size_t count = comparison->trace_count + 1;
    pleat_metrics_t *rows =
        realloc(comparison->rows, count * comparison->rows_per_trace * sizeof(*rows));

    comparison->rows = rows ? rows : comparison->rows;
    char **names = realloc(comparison->names, count * sizeof(*names));

    comparison->names = names ? names : comparison->names;
    return rows && names;
}

static int pleat_cli_compare_trace(pleat_cli_comparison_t *comparison, pleat_trace_set_t *set,
                                   size_t set_index)
{
    const pleat_cli_replay_options_t *options = comparison->options;
    pleat_cli_replay_job_t job;
    int exit_status = PLEAT_CLI_EXIT_GOOD;

    if (!pleat_cli_compare_grow(comparison)) {
        return pleat_cli_error("no host memory");
    }
    size_t index = comparison->trace_count++;
    pleat_metrics_t *rows = comparison->rows + index * comparison->rows_per_trace;
    memset(rows, 0, comparison->rows_per_trace * sizeof(*rows));
    if (!options->is_json) {
        pleat_cli_trace_notes_recording(set, set_index);
    }
    exit_status = pleat_cli_replay_job_open(&job, options, set, set_index);

    job.events_file = &comparison->events;
    for (size_t i = 0; i < comparison->rows_per_trace && exit_status == PLEAT_CLI_EXIT_GOOD; i++) {
        exit_status =
            pleat_cli_replay_job_run(&job, i / options->conf_count, i % options->conf_count,
                                     &comparison->timeline, &rows[i]);
        if (exit_status == PLEAT_CLI_EXIT_GOOD && options->is_json) {
            exit_status = pleat_cli_metrics_print_json(&rows[i], job.program);
            (void)fflush(stdout);
        }
    }
    comparison->refused_count += job.refused_count;
    comparison->names[index] = job.name; /* kept when the job ends */
    job.name = NULL;
    pleat_cli_replay_job_close(&job);
    return exit_status;
}

static int pleat_cli_compare_file(pleat_cli_comparison_t *comparison, const char *path)
{
    pleat_trace_set_t set;
    int exit_status = pleat_cli_replay_set_open(comparison->options, path, &set);

    for (size_t i = 0; i < set.count && exit_status == PLEAT_CLI_EXIT_GOOD; i++) {
        exit_status = pleat_cli_compare_trace(comparison, &set, i);
    }
    pleat_trace_set_fini(&set);
    return exit_status;
}

static void pleat_cli_compare_print_modes(const pleat_cli_replay_options_t *options)
{
    (void)fputs("Modes: ", stdout);
    for (size_t i = 0; i < options->mode_count; i++) {
        (void)printf("%s%s", i == 0 ? "" : ", ", pleat_mode_name(options->modes[i]));
    }
    (void)puts(" (all that are available; --modes chooses).\n"
               "classic is PyTorch's default, torch_expandable PyTorch with "
               "expandable_segments:True,\npleated PyTorch on Pleat.");
}

/* A table of all traces if each has one row, a table a trace otherwise. */
static int pleat_cli_compare_print(const pleat_cli_comparison_t *comparison)
{
    size_t per_trace = comparison->rows_per_trace;
    int exit_status = PLEAT_CLI_EXIT_GOOD;

    if (per_trace == 1) {
        exit_status =
            pleat_cli_metrics_print_table(comparison->rows, comparison->trace_count, true);
        (void)putchar('\n');
    }
    for (size_t i = 0; i < comparison->trace_count && exit_status == PLEAT_CLI_EXIT_GOOD; i++) {
        const pleat_metrics_t *rows = comparison->rows + i * per_trace;

        if (per_trace > 1) {
            (void)printf("%s: %llu events, %llu allocations\n", rows->trace,
                         (unsigned long long)rows->events, (unsigned long long)rows->allocs);
            exit_status = pleat_cli_metrics_print_table(rows, per_trace, false);
        }
        pleat_cli_metrics_print_words(rows, per_trace);
        if (per_trace > 1) {
            (void)putchar('\n');
        }
    }
    if (comparison->options->has_all_modes) {
        pleat_cli_compare_print_modes(comparison->options);
    }
    pleat_cli_metrics_print_note(comparison->options->has_costs);
    return exit_status;
}

static int pleat_cli_compare_judge(const pleat_cli_comparison_t *comparison)
{
    for (size_t i = 0; i < comparison->trace_count * comparison->rows_per_trace; i++) {
        if (comparison->rows[i].num_ooms > 0) {
            return PLEAT_CLI_EXIT_NO;
        }
    }
    return comparison->refused_count > 0 ? PLEAT_CLI_EXIT_NO : PLEAT_CLI_EXIT_GOOD;
}

static int pleat_cli_compare_all(pleat_cli_comparison_t *comparison, size_t count, char **paths)
{
    const pleat_cli_replay_options_t *options = comparison->options;
    int exit_status = pleat_cli_timeline_file_open(&comparison->timeline, options->timeline_path,
                                                   options->plot_path);

    if (exit_status == PLEAT_CLI_EXIT_GOOD) {
        exit_status = pleat_cli_events_file_open(&comparison->events, options->perfetto_path);
    }
    for (size_t i = 0; i < count && exit_status == PLEAT_CLI_EXIT_GOOD; i++) {
        exit_status = pleat_cli_compare_file(comparison, paths[i]);
    }
    if (exit_status == PLEAT_CLI_EXIT_GOOD && !options->is_json) {
        exit_status = pleat_cli_compare_print(comparison);
        (void)fflush(stdout);
    }
    int status =
        pleat_cli_timeline_file_close(&comparison->timeline, exit_status == PLEAT_CLI_EXIT_GOOD);
    if (exit_status == PLEAT_CLI_EXIT_GOOD) {
        exit_status = status;
    }
    status = pleat_cli_events_file_close(&comparison->events, exit_status == PLEAT_CLI_EXIT_GOOD);
    if (exit_status == PLEAT_CLI_EXIT_GOOD) {
        exit_status = status;
    }
    return exit_status ? exit_status : pleat_cli_compare_judge(comparison);
}

static int pleat_cli_compare_start(const pleat_cli_replay_options_t *options, size_t count,
                                   char **paths)
{
    pleat_cli_comparison_t comparison = {
        .options = options,
        .rows_per_trace = options->mode_count * options->conf_count,
    };
    int exit_status = pleat_cli_compare_all(&comparison, count, paths);

    for (size_t i = 0; i < comparison.trace_count; i++) {
        free(comparison.names[i]);
    }
    free(comparison.names);
    free(comparison.rows);
    return exit_status;
}

static int pleat_cli_compare_run(const pleat_cli_command_t *command, int argc, char **argv)
{
    pleat_cli_replay_options_t options;
    pleat_cli_args_t args;
    int key = 0;
    int wrong = 0;

    pleat_cli_replay_options_init(&options);
    options.compares = true;
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
    wrong = pleat_cli_replay_options_finish(&options);
    if (wrong) {
        return wrong;
    }
    return pleat_cli_compare_start(&options, (size_t)(argc - args.first_operand),
                                   argv + args.first_operand);
}

const pleat_cli_command_t pleat_cli_compare = {
    .name = "compare",
    .brief = "replay traces in several modes and settings, side by side",
    .operands = "TRACE...",
    .description =
        "Replays each trace once for every mode and every --conf, on a simulated device,\n"
        "and prints what the allocator held beside what the program used. Without\n"
        "--modes that is all three: PyTorch's default (classic), PyTorch's expandable\n"
        "segments (torch_expandable) and Pleat's own use of virtual memory (pleated). A\n"
        "key of --conf that does not act in a mode is announced. TRACE is a trace as\n"
        "text (plain, .gz, .xz, .zst) or in Pleat's compact form, or a memory snapshot\n"
        "of PyTorch with its history (.pickle), recognised by its content; '-' is\n"
        "standard input. The status is 1 if a request failed with out of\n"
        "memory.",
    .examples = "  pleat compare *.pleat\n"
                "  pleat compare run.pleat --modes classic,pleated --plot run.pdf\n"
                "  pleat compare run.pleat --modes classic --conf '' --conf max_split_size_mb:128\n"
                "  pleat compare run.pleat --perfetto run.json.gz\n"
                "  pleat compare run.trace.xz --limit 40GiB --json",
    .options = pleat_cli_compare_option_table,
    .option_count =
        sizeof(pleat_cli_compare_option_table) / sizeof(pleat_cli_compare_option_table[0]),
    .run = pleat_cli_compare_run,
};
