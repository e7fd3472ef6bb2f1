/*
 * args: getopt_long driven by the option table of a subcommand.
 */
#include "args.h"
#include "report.h"
#include "size.h"

#include "near_name.h"

#include <getopt.h>
#include <stdarg.h>
#include <string.h>

enum { PLEAT_CLI_OPTIONS_MAX = 24, PLEAT_CLI_KEY_HELP = 'h' };

void pleat_cli_args_init(pleat_cli_args_t *args, const pleat_cli_command_t *command, int argc,
                         char **argv)
{
    *args = (pleat_cli_args_t){.command = command, .argc = argc, .argv = argv};
    optind = 0; /* glibc: start anew */
    opterr = 0; /* messages are ours */
}

int pleat_cli_args_error(const pleat_cli_command_t *command, const char *format, ...)
{
    char text[512];
    va_list list;

    va_start(list, format);
    (void)vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    (void)pleat_cli_error("%s", text);
    pleat_cli_hint("See 'pleat %s --help'.", command->name);
    return PLEAT_CLI_EXIT_USAGE;
}

static const pleat_cli_option_t *pleat_cli_args_find(const pleat_cli_command_t *command, int key)
{
    for (size_t i = 0; i < command->option_count; i++) {
        if (command->options[i].key == key) {
            return &command->options[i];
        }
    }
    return key == PLEAT_CLI_KEY_HELP ? &pleat_cli_help_option : NULL;
}

static int pleat_cli_args_unknown(const pleat_cli_args_t *args, const char *word)
{
    const char *names[PLEAT_CLI_OPTIONS_MAX];
    size_t count = 0;
    char name[64];

    if (strncmp(word, "--", 2) != 0) {
        return pleat_cli_args_error(args->command, "unknown option '-%c'", optopt);
    }
    (void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(word + 2, "="), word + 2);
    for (size_t i = 0; i < args->command->option_count; i++) {
        names[count++] = args->command->options[i].name;
    }
    names[count++] = pleat_cli_help_option.name;
    const char *nearest = pleat_near_name_find(name, names, count);
    if (nearest) {
        return pleat_cli_args_error(args->command, "unknown option '--%s'; did you mean '--%s'?",
                                    name, nearest);
    }
    return pleat_cli_args_error(args->command, "unknown option '--%s'", name);
}

static int pleat_cli_args_wrong(const pleat_cli_args_t *args, int answer)
{
    const char *word = args->argv[optind > 1 ? optind - 1 : 1];
    const pleat_cli_option_t *option = optopt ? pleat_cli_args_find(args->command, optopt) : NULL;

    if (answer == ':' && option) {
        return pleat_cli_args_error(args->command, "option '--%s' needs a value: --%s %s",
                                    option->name, option->name, option->metavar);
    }
    if (option && !option->metavar) {
        return pleat_cli_args_error(args->command, "option '--%s' takes no value", option->name);
    }
    return pleat_cli_args_unknown(args, word);
}

int pleat_cli_args_next(pleat_cli_args_t *args)
{
    struct option longs[PLEAT_CLI_OPTIONS_MAX + 1] = {{0}};
    char shorts[2 * PLEAT_CLI_OPTIONS_MAX + 4] = ":h"; /* ':' tells a missing value apart */
    size_t short_length = 2;
    size_t count = 0;

    for (; count < args->command->option_count; count++) {
        const pleat_cli_option_t *option = &args->command->options[count];

        longs[count] = (struct option){
            option->name, option->metavar ? required_argument : no_argument, NULL, option->key};
        if (pleat_cli_option_is_short(option)) {
            shorts[short_length++] = (char)option->key;
            if (option->metavar) {
                shorts[short_length++] = ':';
            }
        }
    }
    longs[count] = (struct option){"help", no_argument, NULL, PLEAT_CLI_KEY_HELP};
    shorts[short_length] = '\0';

    int key = getopt_long(args->argc, args->argv, shorts, longs, NULL);
    if (key == -1) {
        args->first_operand = optind;
        return PLEAT_CLI_ARGS_END;
    }
    if (key == '?' || key == ':') {
        args->exit_status = pleat_cli_args_wrong(args, key);
        return PLEAT_CLI_ARGS_STOP;
    }
    if (key == PLEAT_CLI_KEY_HELP) {
        pleat_cli_args_help(args->command, stdout);
        args->exit_status = PLEAT_CLI_EXIT_GOOD;
        return PLEAT_CLI_ARGS_STOP;
    }
    args->value = optarg;
    args->option_name = pleat_cli_args_find(args->command, key)->name;
    return key;
}

int pleat_cli_args_size(const pleat_cli_args_t *args, uint64_t *bytes_out)
{
    const char *wrong = pleat_cli_size_parse(args->value, bytes_out);

    if (wrong) {
        return pleat_cli_args_error(args->command, "--%s: '%s' %s", args->option_name, args->value,
                                    wrong);
    }
    return PLEAT_CLI_EXIT_GOOD;
}

int pleat_cli_args_file(const pleat_cli_args_t *args, const char **path_out)
{
    if (strcmp(args->value, "-") == 0) {
        return pleat_cli_args_error(
            args->command, "--%s: '-' is standard output, which has the report: name a file",
            args->option_name);
    }
    if (args->value[0] == '\0') {
        return pleat_cli_args_error(args->command, "--%s: the name of a file is empty",
                                    args->option_name);
    }
    *path_out = args->value;
    return PLEAT_CLI_EXIT_GOOD;
}

int pleat_cli_args_count(const pleat_cli_args_t *args, uint64_t least, uint64_t most,
                         uint64_t *count_out)
{
    const char *wrong = pleat_cli_count_parse(args->value, least, most, count_out);

    if (wrong) {
        return pleat_cli_args_error(
            args->command, "--%s: '%s' %s: wanted is a number from %llu to %llu", args->option_name,
            args->value, wrong, (unsigned long long)least, (unsigned long long)most);
    }
    return PLEAT_CLI_EXIT_GOOD;
}

/* A paragraph, broken at blanks so that no line passes column 79. */
static void pleat_cli_help_paragraph(FILE *stream, const char *text, int indent)
{
    int column = indent;

    while (*text) {
        int length = (int)strcspn(text, " ");

        if (column > indent && column + 1 + length > 79) {
            (void)fprintf(stream, "\n%*s", indent, "");
            column = indent;
        } else if (column > indent) {
            (void)fputc(' ', stream);
            column++;
        }
        (void)fprintf(stream, "%.*s", length, text);
        column += length;
        text += length;
        text += *text == ' ' ? 1 : 0;
    }
    (void)fputc('\n', stream);
}

static void pleat_cli_help_option_lines(FILE *stream, const pleat_cli_option_t *option)
{
    enum { HELP_COLUMN = 27 };
    char left[64];
    char letter[8] = "    ";

    if (pleat_cli_option_is_short(option)) {
        (void)snprintf(letter, sizeof(letter), "-%c, ", option->key);
    }
    (void)snprintf(left, sizeof(left), "  %s--%s%s%s", letter, option->name,
                   option->metavar ? " " : "", option->metavar ? option->metavar : "");
    if (strlen(left) + 2 > HELP_COLUMN) {
        (void)fprintf(stream, "%s\n%*s", left, HELP_COLUMN, "");
    } else {
        (void)fprintf(stream, "%-*s", HELP_COLUMN, left);
    }
    pleat_cli_help_paragraph(stream, option->help, HELP_COLUMN);
}

void pleat_cli_args_help(const pleat_cli_command_t *command, FILE *stream)
{
    (void)fprintf(stream, "Usage: pleat %s [options]%s%s\n\n%s\n\nOptions:\n", command->name,
                  command->operands[0] ? " " : "", command->operands, command->description);
    for (size_t i = 0; i < command->option_count; i++) {
        pleat_cli_help_option_lines(stream, &command->options[i]);
    }
    pleat_cli_help_option_lines(stream, &pleat_cli_help_option);
    if (command->examples) {
        (void)fprintf(stream, "\nExamples:\n%s\n", command->examples);
    }
}
