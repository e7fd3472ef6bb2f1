/*
 * report: what the program says about itself: errors, warnings, and whether its output arrived.
 * Everything here goes to standard error, prefixed `pleat COMMAND:`.
 */
#ifndef PLEAT_CLI_REPORT_H
#define PLEAT_CLI_REPORT_H

#include <pleat/base.h>
#include <stdbool.h>
#include <stdio.h>

/** Name of the subcommand for the prefix of messages; NULL before one is known. */
void pleat_cli_report_set_command(const char *name);

/** The words of the whole call, kept for pleat_cli_write_call. */
void pleat_cli_report_set_call(int argc, char **argv);

/** Free what pleat_cli_report_set_call keeps. */
void pleat_cli_report_fini(void);

/** Write the call as a shell would take it, on one line without line end. */
void pleat_cli_write_call(FILE *stream);

/**
 * Say what is wrong; the text is one line without line end.
 * @return PLEAT_CLI_EXIT_USAGE, so that a caller can `return pleat_cli_error(...)`.
 */
int pleat_cli_error(const char *format, ...) PLEAT_PRINTF(1, 2);

/** Say something that the user should know although the command goes on. */
void pleat_cli_warn(const char *format, ...) PLEAT_PRINTF(1, 2);

/** A line that points further (see --help), without the prefix. */
void pleat_cli_hint(const char *format, ...) PLEAT_PRINTF(1, 2);

/** Whether @p stream takes colour: it is a terminal that can, and NO_COLOR is not set. */
bool pleat_cli_has_colour(FILE *stream);

/**
 * Write a text of the user's for a line of output: control characters, and bytes that are no UTF-8,
 * as \xNN.
 * @param[out] buffer  of @p buffer_bytes, which may be 0; always ended by a null byte.
 * @return the length of the whole, kept or not.
 */
size_t pleat_cli_escape(const char *text, char *buffer, size_t buffer_bytes);

/**
 * Flush standard output and see whether all of it was written.
 * @return @p exit_status, or PLEAT_CLI_EXIT_USAGE when output was lost; that is reported, except
 * for a reader that went away.
 */
int pleat_cli_finish_output(int exit_status);

#endif
