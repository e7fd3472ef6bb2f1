/*
 * completion: what makes a shell complete the commands, options and values of `pleat`, made of the
 * same tables as the help pages.
 */
#ifndef PLEAT_CLI_COMPLETION_H
#define PLEAT_CLI_COMPLETION_H

#include <stdbool.h>
#include <stdio.h>

/** Print the completion for a shell; false, and nothing printed: none for this one. */
bool pleat_cli_completion_print(const char *shell, FILE *stream);

#endif
