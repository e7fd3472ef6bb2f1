/*
 * command: the subcommands as a table.
 */
#include "command.h"

#include <string.h>

#define PLEAT_CLI_COMMAND_POINTER(name) &pleat_cli_##name,
const pleat_cli_command_t *const pleat_cli_commands[PLEAT_CLI_COMMAND_COUNT] = {
    PLEAT_CLI_COMMAND_LIST(PLEAT_CLI_COMMAND_POINTER)};
#undef PLEAT_CLI_COMMAND_POINTER

const pleat_cli_option_t pleat_cli_help_option = {'h', "help", NULL, "print this page"};

const pleat_cli_command_t *pleat_cli_command_find(const char *name)
{
    for (size_t i = 0; i < PLEAT_CLI_COMMAND_COUNT; i++) {
        if (strcmp(pleat_cli_commands[i]->name, name) == 0) {
            return pleat_cli_commands[i];
        }
    }
    return NULL;
}
