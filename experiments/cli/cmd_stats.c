/*
 * cmd_stats: `pleat stats`, the flattened names and values of torch.cuda.memory_stats().
 */
#include "final_stats.h"
#include "json.h"
#include "report.h"

#include <pleat/memory_stats.h>

static const pleat_cli_option_t pleat_cli_stats_option_table[] = {
    PLEAT_CLI_OPTION_MODE,
    PLEAT_CLI_OPTION_CONF,
    PLEAT_CLI_OPTION_LIMIT,
    PLEAT_CLI_OPTION_DEVICE,
    PLEAT_CLI_OPTION_PASSES,
    PLEAT_CLI_OPTION_EMPTY_CACHE,
    PLEAT_CLI_OPTION_SNAPSHOT_DEVICE,
    PLEAT_CLI_OPTION_SNAPSHOT_MEMORY,
    PLEAT_CLI_OPTION_JSON,
};

/* @p object NULL: as text. */
static void pleat_cli_stats_put(json_t *object, const char *name, int64_t value)
{
    if (object) {
        (void)json_object_set_new(object, name, json_integer(value));
    } else {
        (void)printf("%s %lld\n", name, (long long)value);
    }
}

static int pleat_cli_stats_print(const void *context, const pleat_cli_final_stats_t *final)
{
    const pleat_cli_replay_options_t *options = context;
    int64_t values[PLEAT_MEMORY_STATS_COUNT];
    int64_t own[PLEAT_MEMORY_STATS_OWN_COUNT];
    json_t *object = options->is_json ? json_object() : NULL;

    if (options->is_json && !object) {
        return pleat_cli_json_print(NULL);
    }
    pleat_memory_stats_values(&final->stats, values);
    for (size_t i = 0; i < PLEAT_MEMORY_STATS_COUNT; i++) {
        pleat_cli_stats_put(object, pleat_memory_stats_name(i), values[i]);
    }
    pleat_memory_stats_own_values(&final->stats, own, PLEAT_MEMORY_STATS_OWN_COUNT);
    for (size_t i = 0; i < PLEAT_MEMORY_STATS_OWN_COUNT && final->has_own; i++) {
        pleat_cli_stats_put(object, pleat_memory_stats_own_name(i), own[i]);
    }
    /* The object is that of memory_stats() and our counters, unless there is something to say. */
    if (object && final->is_one_of_several) {
        (void)json_object_set_new(object, "file", pleat_cli_json_text(final->path));
    }
    if (object && final->is_one_of_several && final->has_device) {
        (void)json_object_set_new(object, "device", json_integer(final->device));
    }
    if (options->is_json && json_object_size(final->warnings) > 0) {
        (void)json_object_set(object, "warnings", final->warnings);
    }
    return options->is_json ? pleat_cli_json_print(object) : PLEAT_CLI_EXIT_GOOD;
}

static int pleat_cli_stats_run(const pleat_cli_command_t *command, int argc, char **argv)
{
    pleat_cli_replay_options_t options;
    pleat_cli_args_t args;
    int key = 0;

    pleat_cli_replay_options_init(&options);
    pleat_cli_args_init(&args, command, argc, argv);
    while ((key = pleat_cli_args_next(&args)) != PLEAT_CLI_ARGS_END) {
        if (key == PLEAT_CLI_ARGS_STOP) {
            return args.exit_status;
        }
        int wrong = pleat_cli_replay_options_take(&options, &args, key);
        if (wrong) {
            return wrong;
        }
    }
    if (args.first_operand == argc) {
        return pleat_cli_args_error(command, "a file is missing");
    }
    int wrong = pleat_cli_replay_options_finish(&options);
    if (wrong) {
        return wrong;
    }
    return pleat_cli_final_stats_report(&options, argc - args.first_operand,
                                        argv + args.first_operand, pleat_cli_stats_print, &options);
}

const pleat_cli_command_t pleat_cli_stats = {
    .name = "stats",
    .brief = "print the memory statistics of PyTorch where a trace or session ends",
    .operands = "FILE...",
    .description =
        "Prints the 122 flattened names and values of torch.cuda.memory_stats() where\n"
        "the file ends, one a line; behind them, of a trace, the counters that PyTorch\n"
        "does not have, whose names begin with 'pleat.'.\n" PLEAT_CLI_FINAL_STATS_DESCRIPTION,
    .examples = "  pleat stats run.pleat | grep reserved_bytes\n"
                "  pleat stats default.oracle.gz --json",
    .options = pleat_cli_stats_option_table,
    .option_count = sizeof(pleat_cli_stats_option_table) / sizeof(pleat_cli_stats_option_table[0]),
    .run = pleat_cli_stats_run,
};
