/*
 * cmd_summary: `pleat summary`, the table of torch.cuda.memory_summary(), byte for byte.
 */
#include "final_stats.h"
#include "json.h"
#include "report.h"

#include <pleat/summary.h>

enum { KEY_ABBREVIATED = PLEAT_CLI_KEY_OWN };

static const pleat_cli_option_t pleat_cli_summary_option_table[] = {
    {KEY_ABBREVIATED, "abbreviated", NULL, "leave out the rows of the two pools"},
    {PLEAT_CLI_KEY_SNAPSHOT_DEVICE, "device", "N",
     "number of the device in the title, without it 0; of a memory snapshot, the device whose "
     "history is taken, without it every one that has a history"},
    PLEAT_CLI_OPTION_MODE,
    PLEAT_CLI_OPTION_CONF,
    PLEAT_CLI_OPTION_LIMIT,
    PLEAT_CLI_OPTION_DEVICE,
    PLEAT_CLI_OPTION_PASSES,
    PLEAT_CLI_OPTION_EMPTY_CACHE,
    PLEAT_CLI_OPTION_SNAPSHOT_MEMORY,
    PLEAT_CLI_OPTION_JSON,
};

typedef struct pleat_cli_summary_call {
    pleat_cli_replay_options_t options;
    bool is_abbreviated;
} pleat_cli_summary_call_t;

static int pleat_cli_summary_print(const void *context, const pleat_cli_final_stats_t *final)
{
    const pleat_cli_summary_call_t *call = context;
    const uint64_t device = final->has_device ? final->device : call->options.set.device;
    char text[PLEAT_SUMMARY_BYTES];

    (void)pleat_memory_summary(&final->stats, (int)device, call->is_abbreviated, text,
                               sizeof(text));
    if (call->options.is_json) {
        json_t *warnings = final->warnings ? json_incref(final->warnings) : json_object();

        json_t *object = json_pack("{s:o, s:s, s:o}", "file", pleat_cli_json_text(final->path),
                                   "summary", text, "warnings", warnings);
        if (object && final->has_device) {
            (void)json_object_set_new(object, "device", json_integer(final->device));
        }
        return pleat_cli_json_print(object);
    }
    (void)fputs(text, stdout);
    return PLEAT_CLI_EXIT_GOOD;
}

static int pleat_cli_summary_option(pleat_cli_summary_call_t *call, const pleat_cli_args_t *args,
                                    int key)
{
    if (key == KEY_ABBREVIATED) {
        call->is_abbreviated = true;
        return PLEAT_CLI_EXIT_GOOD;
    }
    if (key == PLEAT_CLI_KEY_SNAPSHOT_DEVICE) {
        call->options.set.has_device = true;
        return pleat_cli_args_count(args, 0, 1023, &call->options.set.device);
    }
    return pleat_cli_replay_options_take(&call->options, args, key);
}

static int pleat_cli_summary_run(const pleat_cli_command_t *command, int argc, char **argv)
{
    pleat_cli_summary_call_t call = {.is_abbreviated = false};
    pleat_cli_args_t args;
    int key = 0;

    pleat_cli_replay_options_init(&call.options);
    pleat_cli_args_init(&args, command, argc, argv);
    while ((key = pleat_cli_args_next(&args)) != PLEAT_CLI_ARGS_END) {
        if (key == PLEAT_CLI_ARGS_STOP) {
            return args.exit_status;
        }
        int wrong = pleat_cli_summary_option(&call, &args, key);
        if (wrong) {
            return wrong;
        }
    }
    if (args.first_operand == argc) {
        return pleat_cli_args_error(command, "a file is missing");
    }
    int wrong = pleat_cli_replay_options_finish(&call.options);
    if (wrong) {
        return wrong;
    }
    return pleat_cli_final_stats_report(&call.options, argc - args.first_operand,
                                        argv + args.first_operand, pleat_cli_summary_print, &call);
}

const pleat_cli_command_t pleat_cli_summary = {
    .name = "summary",
    .brief = "print the memory summary of PyTorch where a trace or session ends",
    .operands = "FILE...",
    .description = "Prints what torch.cuda.memory_summary() prints where the file "
                   "ends.\n" PLEAT_CLI_FINAL_STATS_DESCRIPTION,
    .examples = "  pleat summary run.pleat --limit 40GiB\n"
                "  pleat summary default.oracle.gz",
    .options = pleat_cli_summary_option_table,
    .option_count =
        sizeof(pleat_cli_summary_option_table) / sizeof(pleat_cli_summary_option_table[0]),
    .run = pleat_cli_summary_run,
};
