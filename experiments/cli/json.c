/*
 * json: dump and release.
 */
#include "json.h"
#include "command.h"
#include "report.h"

#include <stdlib.h>

int pleat_cli_json_print(json_t *object)
{
    int failed = 0;

    if (!object) {
        return pleat_cli_error("no host memory for the output, or text in it that is not UTF-8");
    }
    failed = json_dumpf(object, stdout, JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(15));
    json_decref(object);
    if (failed != 0 || fputc('\n', stdout) == EOF) {
        return pleat_cli_finish_output(PLEAT_CLI_EXIT_USAGE);
    }
    return PLEAT_CLI_EXIT_GOOD;
}

json_t *pleat_cli_json_text(const char *text)
{
    json_t *string = json_string(text);

    if (string || !text) {
        return string;
    }
    const size_t escaped_bytes = pleat_cli_escape(text, NULL, 0) + 1;
    char *escaped = malloc(escaped_bytes);

    if (!escaped) {
        return NULL;
    }
    (void)pleat_cli_escape(text, escaped, escaped_bytes);
    string = json_string(escaped);
    free(escaped);
    return string;
}
