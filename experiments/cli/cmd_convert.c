/*
 * cmd_convert: `pleat convert`, from any form of a trace that can be read to any that is written.
 */
#include "args.h"
#include "json.h"
#include "replay_options.h"
#include "report.h"
#include "size.h"

#include "trace_convert.h"

#include <string.h>
#include <sys/stat.h>

static const pleat_cli_option_t pleat_cli_convert_options[] = {
    {PLEAT_CLI_KEY_SNAPSHOT_DEVICE, "device", "N",
     "of a memory snapshot, the device whose history is written; needed if several have one"},
    PLEAT_CLI_OPTION_SNAPSHOT_MEMORY,
    {PLEAT_CLI_KEY_JSON, "json", NULL, "print what was written as one JSON object"},
};

static uint64_t pleat_cli_convert_size(const char *path)
{
    struct stat status;

    if (strcmp(path, "-") == 0 || stat(path, &status) != 0 || !S_ISREG(status.st_mode)) {
        return 0;
    }
    return (uint64_t)status.st_size;
}

static int pleat_cli_convert_print_json(const char *in_path, const char *out_path, uint64_t events)
{
    return pleat_cli_json_print(
        json_pack("{s:o, s:o, s:I, s:I, s:I}", "input", pleat_cli_json_text(in_path), "output",
                  pleat_cli_json_text(out_path), "events", (json_int_t)events, "input_bytes",
                  (json_int_t)pleat_cli_convert_size(in_path), "output_bytes",
                  (json_int_t)pleat_cli_convert_size(out_path)));
}

static void pleat_cli_convert_print(const char *in_path, const char *out_path, uint64_t events)
{
    uint64_t in_bytes = pleat_cli_convert_size(in_path);
    uint64_t out_bytes = pleat_cli_convert_size(out_path);
    char size[32];

    pleat_cli_size_format(out_bytes, size, sizeof(size));
    (void)printf("%s: %llu events, %s", out_path, (unsigned long long)events, size);
    if (events > 0) {
        (void)printf(" (%.2f bytes an event)", (double)out_bytes / (double)events);
    }
    if (in_bytes > 0) {
        (void)printf(", %.2f times the size of the input", (double)out_bytes / (double)in_bytes);
    }
    (void)putchar('\n');
}

static int pleat_cli_convert_run(const pleat_cli_command_t *command, int argc, char **argv)
{
    pleat_trace_set_options_t set = pleat_cli_set_options();
    pleat_cli_args_t args;
    bool is_json = false;
    uint64_t events = 0;
    int key = 0;

    pleat_cli_args_init(&args, command, argc, argv);
    while ((key = pleat_cli_args_next(&args)) != PLEAT_CLI_ARGS_END) {
        if (key == PLEAT_CLI_ARGS_STOP) {
            return args.exit_status;
        }
        int wrong = 0;

        if (key == PLEAT_CLI_KEY_JSON) {
            is_json = true;
        } else {
            wrong = pleat_cli_set_options_take(&set, &args, key);
        }
        if (wrong) {
            return wrong;
        }
    }
    if (argc - args.first_operand != 2) {
        return pleat_cli_args_error(command, "wanted are an input and an output, %d given",
                                    argc - args.first_operand);
    }
    const char *in_path = argv[args.first_operand];
    const char *out_path = argv[args.first_operand + 1];
    if (strcmp(out_path, "-") == 0) {
        return pleat_cli_args_error(command, "the output must be a file: its name says which form "
                                             "is wanted");
    }
    if (pleat_trace_convert(in_path, out_path, &set, &events) != PLEAT_OK) {
        return pleat_cli_error("%s", pleat_last_error());
    }
    if (is_json) {
        return pleat_cli_convert_print_json(in_path, out_path, events);
    }
    pleat_cli_convert_print(in_path, out_path, events);
    return PLEAT_CLI_EXIT_GOOD;
}

const pleat_cli_command_t pleat_cli_convert = {
    .name = "convert",
    .brief = "write a trace in another form",
    .operands = "IN OUT",
    .description =
        "Reads a trace, or a memory snapshot of PyTorch with its history, and writes it\n"
        "in the form that the name of OUT asks for:\n"
        "  NAME.pleat               compact binary form\n"
        "  NAME.trace               text, one event a line\n"
        "  NAME.trace.gz .xz .zst   the same, compressed\n"
        "The form of IN is recognised by content; '-' is standard input. OUT appears only\n"
        "when it is complete; an older file of that name is replaced.",
    .examples = "  pleat convert run.trace.xz run.pleat\n"
                "  xz -dc run.trace.xz | pleat convert - run.trace.zst",
    .options = pleat_cli_convert_options,
    .option_count = sizeof(pleat_cli_convert_options) / sizeof(pleat_cli_convert_options[0]),
    .run = pleat_cli_convert_run,
};
