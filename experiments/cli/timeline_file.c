/*
 * timeline_file: curves go through a buffer in memory, which gives them their columns of names. The
 * picture is drawn by a Python script beside the sources, or in the data folder of an installation.
 */
#include "timeline_file.h"
#include "command.h"
#include "report.h"

#include <errno.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PLEAT_CLI_PYTHON "/usr/bin/python3"

extern char **environ;

int pleat_cli_timeline_file_open(pleat_cli_timeline_file_t *timeline, const char *csv_path,
                                 const char *plot_path)
{
    *timeline = (pleat_cli_timeline_file_t){.path = csv_path, .plot_path = plot_path};
    if (!csv_path && !plot_path) {
        return PLEAT_CLI_EXIT_GOOD;
    }
    if (csv_path) {
        timeline->file = fopen(csv_path, "we");
    } else {
        const char *folder = getenv("TMPDIR");
        const int length = snprintf(timeline->temporary, sizeof(timeline->temporary),
                                    "%s/pleat-XXXXXX", folder && *folder ? folder : "/tmp");
        if (length < 0 || (size_t)length >= sizeof(timeline->temporary)) {
            timeline->temporary[0] = '\0';
            return pleat_cli_error("TMPDIR is too long for a temporary file: %s", folder);
        }
        int descriptor = mkstemp(timeline->temporary);

        timeline->path = timeline->temporary;
        timeline->file = descriptor >= 0 ? fdopen(descriptor, "w") : NULL;
    }
    if (!timeline->file) {
        return pleat_cli_error("the timeline cannot be written to %s: %s", timeline->path,
                               strerror(errno));
    }
    return PLEAT_CLI_EXIT_GOOD;
}

static void pleat_cli_timeline_quote(FILE *file, const char *text)
{
    (void)fputc('"', file);
    for (; *text; text++) {
        if (*text == '"') {
            (void)fputc('"', file);
        }
        (void)fputc(*text == '\n' || *text == '\r' ? ' ' : *text, file);
    }
    (void)fputc('"', file);
}

/* @p csv is a note, a header and rows, as a curve writes them. */
static void pleat_cli_timeline_copy(pleat_cli_timeline_file_t *timeline, const char *csv,
                                    const pleat_metrics_t *metrics)
{
    bool is_header = true;

    while (*csv) {
        size_t length = strcspn(csv, "\n");

        if (*csv == '#') {
            if (!timeline->has_header) {
                (void)fputs("# ", timeline->file);
                pleat_cli_write_call(timeline->file);
                (void)fputc('\n', timeline->file);
            }
        } else if (is_header) {
            is_header = false;
            if (!timeline->has_header) {
                (void)fprintf(timeline->file, "trace,mode,conf,%.*s\n", (int)length, csv);
                timeline->has_header = true;
            }
        } else {
            pleat_cli_timeline_quote(timeline->file, metrics->trace);
            (void)fprintf(timeline->file, ",%s,", metrics->mode);
            pleat_cli_timeline_quote(timeline->file, metrics->conf);
            (void)fprintf(timeline->file, ",%.*s\n", (int)length, csv);
        }
        csv += length;
        csv += *csv == '\n' ? 1 : 0;
    }
}

int pleat_cli_timeline_file_add(pleat_cli_timeline_file_t *timeline, const pleat_curve_t *curve,
                                const pleat_metrics_t *metrics)
{
    char *csv = NULL;
    size_t csv_bytes = 0;
    FILE *memory = open_memstream(&csv, &csv_bytes);

    if (!memory) {
        return pleat_cli_error("no host memory for a timeline");
    }
    pleat_status_t status = pleat_curve_write_csv(curve, "", memory);
    bool is_good = fclose(memory) == 0 && status == PLEAT_OK;
    if (is_good) {
        pleat_cli_timeline_copy(timeline, csv, metrics);
    }
    free(csv);
    if (!is_good) {
        return pleat_cli_error("no host memory for a timeline");
    }
    if (ferror(timeline->file)) {
        return pleat_cli_error("the timeline cannot be written to %s: %s", timeline->path,
                               strerror(errno));
    }
    return PLEAT_CLI_EXIT_GOOD;
}

/* Where the script lies: beside an installed program first, then where the program was built. */
static bool pleat_cli_plot_script(char *path, size_t path_bytes)
{
    char program[2048];
    ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);

    if (length > 0) {
        program[length] = '\0';
        char *slash = strrchr(program, '/');
        if (slash) {
            *slash = '\0';
        }
        (void)snprintf(path, path_bytes, "%s/../share/pleat/timeline.py", program);
        if (access(path, R_OK) == 0) {
            return true;
        }
    }
    (void)snprintf(path, path_bytes, "%s", PLEAT_CLI_PLOT_SCRIPT);
    return access(path, R_OK) == 0;
}

static int pleat_cli_plot(const char *csv_path, const char *plot_path)
{
    char script[4096];
    char output[4096];
    int status = 0;
    pid_t child = 0;

    if (!pleat_cli_plot_script(script, sizeof(script))) {
        return pleat_cli_error("--plot: the script timeline.py is neither at %s nor in the data "
                               "folder of the installation",
                               PLEAT_CLI_PLOT_SCRIPT);
    }
    (void)snprintf(output, sizeof(output), "--output=%s", plot_path);
    char python[] = PLEAT_CLI_PYTHON;
    char separator[] = "--";
    char *csv = strdup(csv_path);
    char *const argv[] = {python, script, output, separator, csv, NULL};
    int failed = csv ? posix_spawn(&child, PLEAT_CLI_PYTHON, NULL, NULL, argv, environ) : ENOMEM;
    free(csv);
    if (failed) {
        return pleat_cli_error("--plot: %s cannot be started: %s", PLEAT_CLI_PYTHON,
                               strerror(failed));
    }
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) {
            return pleat_cli_error("--plot: waiting for the picture failed: %s", strerror(errno));
        }
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        return pleat_cli_error("--plot: the picture %s was not drawn", plot_path);
    }
    return PLEAT_CLI_EXIT_GOOD;
}

int pleat_cli_timeline_file_close(pleat_cli_timeline_file_t *timeline, bool is_good)
{
    int exit_status = PLEAT_CLI_EXIT_GOOD;

    if (!timeline->file) {
        return exit_status;
    }
    bool had_error = ferror(timeline->file) != 0;
    if (fclose(timeline->file) != 0 || had_error) {
        exit_status = pleat_cli_error("the timeline was not written in full to %s: %s",
                                      timeline->path, strerror(errno));
    } else if (is_good && timeline->plot_path) {
        exit_status = pleat_cli_plot(timeline->path, timeline->plot_path);
    }
    if (timeline->temporary[0]) {
        (void)unlink(timeline->temporary);
    }
    timeline->file = NULL;
    return exit_status;
}
