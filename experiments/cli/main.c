/*
 * main: the program `pleat`, in the style of git: finds the subcommand, prints help and version.
 */
#include "args.h"
#include "completion.h"
#include "manual.h"
#include "report.h"

#include "near_name.h"

#include <string.h>

static void pleat_cli_main_help(FILE *stream)
{
    (void)fputs("Usage: pleat COMMAND [options] ...\n"
                "       pleat help COMMAND\n"
                "       pleat help --man [COMMAND] | --completion SHELL\n"
                "       pleat --version\n"
                "\n" PLEAT_CLI_ABOUT "\n"
                "Commands:\n",
                stream);
    for (size_t i = 0; i < PLEAT_CLI_COMMAND_COUNT; i++) {
        (void)fprintf(stream, "  %-9s %s\n", pleat_cli_commands[i]->name,
                      pleat_cli_commands[i]->brief);
    }
    (void)fputs("\n" PLEAT_CLI_CONVENTIONS, stream);
}

static int pleat_cli_main_unknown(const char *what, const char *word)
{
    const char *names[PLEAT_CLI_COMMAND_COUNT + 1];
    size_t count = 0;

    for (; count < PLEAT_CLI_COMMAND_COUNT; count++) {
        names[count] = pleat_cli_commands[count]->name;
    }
    names[count++] = "help";
    const char *nearest = pleat_near_name_find(word, names, count);
    if (nearest) {
        (void)pleat_cli_error("unknown %s '%s'; did you mean '%s'?", what, word, nearest);
    } else {
        (void)pleat_cli_error("unknown %s '%s'", what, word);
    }
    pleat_cli_hint("See 'pleat --help' for all commands.");
    return PLEAT_CLI_EXIT_USAGE;
}

/* The rest of `pleat help --man`. */
static int pleat_cli_main_print_manual(int argc, char **argv)
{
    const pleat_cli_command_t *command = argc > 3 ? pleat_cli_command_find(argv[3]) : NULL;
    if (argc > 3 && !command) {
        return pleat_cli_main_unknown("command", argv[3]);
    }
    pleat_cli_manual_print(command, stdout);
    return PLEAT_CLI_EXIT_GOOD;
}

/* The rest of `pleat help --completion`. */
static int pleat_cli_main_print_completion(int argc, char **argv)
{
    if (argc > 3 && pleat_cli_completion_print(argv[3], stdout)) {
        return PLEAT_CLI_EXIT_GOOD;
    }
    if (argc > 3) {
        (void)pleat_cli_error("no completion for '%s': wanted is bash, zsh or fish", argv[3]);
    } else {
        (void)pleat_cli_error("--completion needs a shell: bash, zsh or fish");
    }
    return PLEAT_CLI_EXIT_USAGE;
}

static int pleat_cli_main_print_help(int argc, char **argv)
{
    if (argc < 3) {
        pleat_cli_main_help(stdout);
        return PLEAT_CLI_EXIT_GOOD;
    }
    if (strcmp(argv[2], "--man") == 0) {
        return pleat_cli_main_print_manual(argc, argv);
    }
    if (strcmp(argv[2], "--completion") == 0) {
        return pleat_cli_main_print_completion(argc, argv);
    }
    if (strcmp(argv[2], "help") == 0) {
        pleat_cli_main_help(stdout);
        return PLEAT_CLI_EXIT_GOOD;
    }
    const pleat_cli_command_t *command = pleat_cli_command_find(argv[2]);
    if (!command) {
        return pleat_cli_main_unknown("command", argv[2]);
    }
    pleat_cli_args_help(command, stdout);
    return PLEAT_CLI_EXIT_GOOD;
}

static int pleat_cli_main_run(int argc, char **argv)
{
    const pleat_cli_command_t *command = NULL;

    if (argc < 2) {
        (void)pleat_cli_error("a command is missing");
        pleat_cli_main_help(stderr);
        return PLEAT_CLI_EXIT_USAGE;
    }
    if (strcmp(argv[1], "help") == 0 || strcmp(argv[1], "--help") == 0 ||
        strcmp(argv[1], "-h") == 0) {
        return pleat_cli_main_print_help(argc, argv);
    }
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
        (void)printf("pleat %s\n", pleat_version());
        return PLEAT_CLI_EXIT_GOOD;
    }
    if (argv[1][0] == '-' && argv[1][1] != '\0') {
        return pleat_cli_main_unknown("option", argv[1]);
    }
    command = pleat_cli_command_find(argv[1]);
    if (!command) {
        return pleat_cli_main_unknown("command", argv[1]);
    }
    pleat_cli_report_set_command(command->name);
    return command->run(command, argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
    pleat_cli_report_set_call(argc, argv);
    int exit_status = pleat_cli_finish_output(pleat_cli_main_run(argc, argv));
    pleat_cli_report_fini();
    return exit_status;
}
