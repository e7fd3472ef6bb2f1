/*
 * args: options and operands of one subcommand, read with getopt_long, with messages of our own;
 * and its help page, printed from the same table.
 */
#ifndef PLEAT_CLI_ARGS_H
#define PLEAT_CLI_ARGS_H

#include "command.h"

#include <stdint.h>
#include <stdio.h>

/* Returned by pleat_cli_args_next beside the keys of the options. */
enum { PLEAT_CLI_ARGS_END = 0, PLEAT_CLI_ARGS_STOP = -1 };

typedef struct pleat_cli_args {
    const pleat_cli_command_t *command;
    int argc;
    char **argv; /* after PLEAT_CLI_ARGS_END, operands begin at argv[first_operand] */
    int first_operand;
    const char *value;       /* of the option just returned */
    const char *option_name; /* of the option just returned */
    int exit_status;         /* valid after PLEAT_CLI_ARGS_STOP */
} pleat_cli_args_t;

/** Begin to read; @p argv[0] is the subcommand's name. One parse at a time in a process. */
void pleat_cli_args_init(pleat_cli_args_t *args, const pleat_cli_command_t *command, int argc,
                         char **argv);

/**
 * Next option: its key. PLEAT_CLI_ARGS_END when only operands are left, PLEAT_CLI_ARGS_STOP when
 * the command must end with args->exit_status: help was wanted, or the call is wrong and it has
 * been said how.
 */
int pleat_cli_args_next(pleat_cli_args_t *args);

/** Value of the current option as a size. 0, or an exit status after a message. */
int pleat_cli_args_size(const pleat_cli_args_t *args, uint64_t *bytes_out);

/** Value of the current option as a whole number; result as above. */
int pleat_cli_args_count(const pleat_cli_args_t *args, uint64_t least, uint64_t most,
                         uint64_t *count_out);

/**
 * Value of the current option as the name of a file to write beside the report, which has standard
 * output for itself; result as above.
 */
int pleat_cli_args_file(const pleat_cli_args_t *args, const char **path_out);

/** The call is wrong: say how, and where help is. Returns PLEAT_CLI_EXIT_USAGE. */
int pleat_cli_args_error(const pleat_cli_command_t *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** Print the help page of @p command. */
void pleat_cli_args_help(const pleat_cli_command_t *command, FILE *stream);

#endif
