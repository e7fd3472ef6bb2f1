/*
 * events_file: see events_file.h.
 */
#include "events_file.h"
#include "command.h"
#include "report.h"

#include <stdlib.h>

static int pleat_cli_events_file_fail(pleat_cli_events_file_t *events_file)
{
    pleat_output_file_abandon(&events_file->file);
    events_file->is_open = false;
    return pleat_cli_error("--perfetto: %s", pleat_last_error());
}

/* The call, as it was typed; freed by the caller. */
static char *pleat_cli_events_file_note(void)
{
    char *text = NULL;
    size_t length = 0;
    FILE *memory = open_memstream(&text, &length);

    if (!memory) {
        return NULL;
    }
    pleat_cli_write_call(memory);
    if (fclose(memory) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

int pleat_cli_events_file_open(pleat_cli_events_file_t *events_file, const char *path)
{
    *events_file = (pleat_cli_events_file_t){.path = path};
    if (!path) {
        return PLEAT_CLI_EXIT_GOOD;
    }
    char *note = pleat_cli_events_file_note();
    if (!note) {
        return pleat_cli_error("--perfetto: no host memory");
    }
    pleat_status_t status = pleat_output_file_open(path, &events_file->file);
    if (status != PLEAT_OK) {
        free(note);
        return pleat_cli_error("--perfetto: %s", pleat_last_error());
    }
    events_file->is_open = true;
    status = pleat_replay_events_begin_file(&events_file->file, note);
    free(note);
    return status == PLEAT_OK ? PLEAT_CLI_EXIT_GOOD : pleat_cli_events_file_fail(events_file);
}

int pleat_cli_events_file_add(pleat_cli_events_file_t *events_file,
                              const pleat_replay_events_t *events, const pleat_metrics_t *metrics)
{
    char *name = NULL;

    if (asprintf(&name, "%s%s%s, %s", metrics->mode, *metrics->conf ? " " : "", metrics->conf,
                 metrics->trace) < 0) {
        return pleat_cli_error("--perfetto: no host memory");
    }
    pleat_status_t status =
        pleat_replay_events_write(events, &events_file->file, ++events_file->replay_count, name);
    free(name);
    if (status != PLEAT_OK) {
        return pleat_cli_events_file_fail(events_file);
    }
    if (events->instants_left_out > 0) {
        pleat_cli_warn("--perfetto: %llu failures and retries more than %zu are left out",
                       (unsigned long long)events->instants_left_out, events->instant_count);
    }
    return PLEAT_CLI_EXIT_GOOD;
}

int pleat_cli_events_file_close(pleat_cli_events_file_t *events_file, bool is_good)
{
    if (!events_file->is_open) {
        return PLEAT_CLI_EXIT_GOOD;
    }
    if (!is_good) {
        pleat_output_file_abandon(&events_file->file);
        return PLEAT_CLI_EXIT_GOOD;
    }
    if (pleat_replay_events_end_file(&events_file->file) != PLEAT_OK) {
        return pleat_cli_events_file_fail(events_file);
    }
    return PLEAT_CLI_EXIT_GOOD;
}
