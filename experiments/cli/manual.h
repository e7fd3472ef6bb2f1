/*
 * manual: pages for man(1), made of the same tables as the help pages.
 */
#ifndef PLEAT_CLI_MANUAL_H
#define PLEAT_CLI_MANUAL_H

#include "command.h"

#include <stdio.h>

/** Print the page of @p command; NULL: the page of the program, with all of them. */
void pleat_cli_manual_print(const pleat_cli_command_t *command, FILE *stream);

#endif
