/*
 * json: what every command does with jansson: one object a line on standard output.
 */
#ifndef PLEAT_CLI_JSON_H
#define PLEAT_CLI_JSON_H

#include <jansson.h>

/**
 * Print @p object on one line, keys in the order in which they were set, and drop the reference.
 * @param object  NULL stands for one that could not be built for lack of memory.
 * @return 0, or an exit status after a message.
 */
int pleat_cli_json_print(json_t *object);

/** A text of the user's; in one that is no UTF-8 odd bytes are written as \xNN. NULL: no memory. */
json_t *pleat_cli_json_text(const char *text);

#endif
