/*
 * json: dump and release.
 */
#include "json.h"
#include "command.h"
#include "report.h"

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
