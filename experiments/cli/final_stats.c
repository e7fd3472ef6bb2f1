/*
 * final_stats: sessions and cases give their numbers under PyTorch's names, replays as counters;
 * both end up as counters here.
 */
#include "final_stats.h"
#include "replay_job.h"
#include "report.h"
#include "trace_notes.h"

#include "session_check.h"

#include <pleat/memory_stats.h>

#include <assert.h>
#include <string.h>

enum { PLEAT_CLI_STATS_SLOTS = (sizeof(pleat_stats_t) - sizeof(size_t)) / sizeof(int64_t) };

static_assert((int)PLEAT_CLI_STATS_SLOTS >= PLEAT_MEMORY_STATS_COUNT,
              "every name has a counter of its own");

/* The way back from named values to counters: counters that hold their own position tell which name
 * reads which of them. */
static void pleat_cli_final_stats_from_values(const int64_t *values, pleat_stats_t *stats_out)
{
    pleat_stats_t positions = PLEAT_STATS_INIT;
    int64_t slots[PLEAT_CLI_STATS_SLOTS];
    int64_t position_of[PLEAT_MEMORY_STATS_COUNT];

    for (int64_t i = 0; i < PLEAT_CLI_STATS_SLOTS; i++) {
        slots[i] = i;
    }
    memcpy((char *)&positions + sizeof(size_t), slots, sizeof(slots));
    pleat_memory_stats_values(&positions, position_of);
    for (size_t i = 0; i < PLEAT_MEMORY_STATS_COUNT; i++) {
        slots[position_of[i]] = values[i];
    }
    *stats_out = (pleat_stats_t)PLEAT_STATS_INIT;
    memcpy((char *)stats_out + sizeof(size_t), slots, sizeof(slots));
}

static int pleat_cli_final_stats_session(pleat_input_t *input, pleat_stats_t *stats_out)
{
    pleat_session_t *session = NULL;
    int64_t values[PLEAT_MEMORY_STATS_COUNT];
    int exit_status = PLEAT_CLI_EXIT_GOOD;

    if (pleat_session_load_input(input, &session) != PLEAT_OK) {
        return pleat_cli_error("%s", pleat_last_error());
    }
    if (pleat_session_final_stats(session, 0, values, PLEAT_MEMORY_STATS_COUNT) != PLEAT_OK) {
        exit_status = pleat_cli_error("%s", pleat_last_error());
    } else {
        pleat_cli_final_stats_from_values(values, stats_out);
    }
    pleat_session_destroy(session);
    return exit_status;
}

/* What every file of a report has in common. */
typedef struct pleat_cli_final_call {
    const pleat_cli_replay_options_t *options;
    pleat_cli_report_fn_t report;
    const void *context;
    int file_count;
} pleat_cli_final_call_t;

/* Which of several reports this one is. */
static void pleat_cli_final_stats_print_heading(const pleat_cli_final_stats_t *final)
{
    char name[4096];

    (void)pleat_cli_escape(final->path, name, sizeof(name));
    (void)printf("# %s", strcmp(name, "-") == 0 ? "standard input" : name);
    if (final->has_device) {
        (void)printf(", device %u", final->device);
    }
    (void)putchar('\n');
}

/* Report, and return the worst exit status so far. */
static int pleat_cli_final_stats_give(const pleat_cli_final_call_t *call,
                                      pleat_cli_final_stats_t *final, int exit_status)
{
    if (exit_status != PLEAT_CLI_EXIT_USAGE) {
        if (final->is_one_of_several && !call->options->is_json) {
            pleat_cli_final_stats_print_heading(final);
        }
        int printed = call->report(call->context, final);

        exit_status = printed > exit_status ? printed : exit_status;
    }
    json_decref(final->warnings);
    final->warnings = NULL;
    return exit_status;
}

static int pleat_cli_final_stats_trace(const pleat_cli_final_call_t *call, pleat_trace_set_t *set,
                                       size_t index, pleat_cli_final_stats_t *final)
{
    pleat_cli_replay_job_t job;
    pleat_metrics_t metrics;
    int exit_status = pleat_cli_replay_job_open(&job, call->options, set, index);

    if (exit_status == PLEAT_CLI_EXIT_GOOD) {
        exit_status = pleat_cli_replay_job_run(&job, 0, 0, NULL, &metrics);
    }
    if (exit_status == PLEAT_CLI_EXIT_GOOD) {
        pleat_read_stats(pleat_replay_allocator(job.replay), &final->stats);
        final->has_own = true;
        final->warnings = pleat_cli_trace_notes_json(job.program);
        final->has_device = job.program->has_origin;
        final->device = job.program->origin.device;
        exit_status =
            metrics.num_ooms + job.refused_count > 0 ? PLEAT_CLI_EXIT_NO : PLEAT_CLI_EXIT_GOOD;
    }
    pleat_cli_replay_job_close(&job);
    return pleat_cli_final_stats_give(call, final, exit_status);
}

static int pleat_cli_final_stats_traces(const pleat_cli_final_call_t *call, pleat_input_t *input,
                                        const char *path)
{
    pleat_trace_set_t set = {.count = 0};
    int exit_status = PLEAT_CLI_EXIT_GOOD;

    if (pleat_trace_set_load_input(input, &call->options->set, &set) != PLEAT_OK) {
        return pleat_cli_error("%s", pleat_last_error());
    }
    for (size_t i = 0; i < set.count && exit_status != PLEAT_CLI_EXIT_USAGE; i++) {
        pleat_cli_final_stats_t final = {.path = path,
                                         .stats = PLEAT_STATS_INIT,
                                         .is_one_of_several =
                                             call->file_count > 1 || set.count > 1};
        int status = pleat_cli_final_stats_trace(call, &set, i, &final);

        exit_status = status > exit_status ? status : exit_status;
    }
    pleat_trace_set_fini(&set);
    return exit_status;
}

static int pleat_cli_final_stats_file(const pleat_cli_final_call_t *call, const char *path)
{
    pleat_cli_final_stats_t final = {
        .path = path, .stats = PLEAT_STATS_INIT, .is_one_of_several = call->file_count > 1};
    pleat_input_t *input = NULL;
    int exit_status = PLEAT_CLI_EXIT_GOOD;

    if (pleat_input_open(path, &input) != PLEAT_OK) {
        return pleat_cli_error("%s", pleat_last_error());
    }
    switch (pleat_input_kind(input)) {
    case PLEAT_INPUT_RECORDING:
    case PLEAT_INPUT_CASE:
        exit_status = pleat_cli_final_stats_session(input, &final.stats);
        exit_status = pleat_cli_final_stats_give(call, &final, exit_status);
        break;
    case PLEAT_INPUT_TRACE_TEXT:
    case PLEAT_INPUT_TRACE_BINARY:
    case PLEAT_INPUT_PICKLE:
        exit_status = pleat_cli_final_stats_traces(call, input, path);
        break;
    case PLEAT_INPUT_UNKNOWN:
    case PLEAT_INPUT_KIND_COUNT:
        pleat_input_refuse(input, "a trace, a memory snapshot, a recorded session or a case");
        exit_status = pleat_cli_error("%s", pleat_last_error());
        break;
    }
    pleat_input_close(input);
    return exit_status;
}

int pleat_cli_final_stats_report(const pleat_cli_replay_options_t *options, int count, char **paths,
                                 pleat_cli_report_fn_t report, const void *context)
{
    const pleat_cli_final_call_t call = {options, report, context, count};
    int exit_status = PLEAT_CLI_EXIT_GOOD;

    for (int i = 0; i < count && exit_status != PLEAT_CLI_EXIT_USAGE; i++) {
        int status = pleat_cli_final_stats_file(&call, paths[i]);

        exit_status = status > exit_status ? status : exit_status;
    }
    return exit_status;
}
