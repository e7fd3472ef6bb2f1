/*
 * progress: drawn with a carriage return, at most ten times a second.
 */
#include "progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PLEAT_CLI_BAR_CELLS = 30 };

static const uint64_t pleat_cli_progress_delay_ns = UINT64_C(1000000000);
static const uint64_t pleat_cli_progress_period_ns = UINT64_C(100000000);

static uint64_t pleat_cli_progress_now_ns(void)
{
    struct timespec now = {0};

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

void pleat_cli_progress_begin(pleat_cli_progress_t *progress, const char *label)
{
    const char *terminal = getenv("TERM");

    *progress = (pleat_cli_progress_t){.start_ns = pleat_cli_progress_now_ns()};
    progress->next_ns = progress->start_ns + pleat_cli_progress_delay_ns;
    progress->is_terminal = isatty(STDERR_FILENO) == 1 && terminal && strcmp(terminal, "dumb") != 0;
    (void)snprintf(progress->label, sizeof(progress->label), "%s", label);
}

void pleat_cli_progress_update(pleat_cli_progress_t *progress, uint64_t done, uint64_t total)
{
    static const char cells[] = "##############################";
    uint64_t now_ns = 0;

    if (!progress->is_terminal) {
        return;
    }
    now_ns = pleat_cli_progress_now_ns();
    if (now_ns < progress->next_ns) {
        return;
    }
    progress->next_ns = now_ns + pleat_cli_progress_period_ns;
    progress->is_visible = true;
    if (total == 0) {
        (void)fprintf(stderr, "\r\033[K%s  %.1f s", progress->label,
                      (double)(now_ns - progress->start_ns) / 1e9);
        return;
    }
    double part = done < total ? (double)done / (double)total : 1.0;
    int filled = (int)(part * PLEAT_CLI_BAR_CELLS);
    (void)fprintf(stderr, "\r\033[K%s  [%.*s%*s] %3.0f %%", progress->label, filled, cells,
                  PLEAT_CLI_BAR_CELLS - filled, "", part * 100.0);
}

void pleat_cli_progress_end(pleat_cli_progress_t *progress)
{
    if (progress->is_visible) {
        (void)fputs("\r\033[K", stderr);
        progress->is_visible = false;
    }
}
