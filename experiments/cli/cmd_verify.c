/*
 * cmd_verify: `pleat verify`, the engine against what PyTorch's allocator was seen to do.
 */
#include "progress.h"
#include "replay_options.h"
#include "report.h"
#include "trace_notes.h"
#include "verify_result.h"

#include "session_check.h"
#include "trace_check.h"
#include "trace_fit.h"
#include "trace_snapshot.h"

#include <stdlib.h>
#include <string.h>

enum { KEY_DIFFERENCES = PLEAT_CLI_KEY_OWN, PLEAT_CLI_DIFFERENCES_MAX = 100000 };

static const pleat_cli_option_t pleat_cli_verify_option_table[] = {
    {PLEAT_CLI_KEY_LIMIT, "limit", "BYTES",
     "for traces: the limit under which they were recorded; sessions and cases carry their own"},
    {PLEAT_CLI_KEY_DEVICE_MEMORY, "device-memory", "BYTES",
     "for traces: memory of the device on which they were recorded"},
    {PLEAT_CLI_KEY_CONF, "conf", "STRING",
     "for traces: settings under which they were recorded, as in ALLOC_CONF; without it those that "
     "a "
     "memory snapshot names, else the defaults"},
    {KEY_DIFFERENCES, "differences", "N", "show the first N differences of a file; without it 5"},
    PLEAT_CLI_OPTION_SNAPSHOT_DEVICE,
    PLEAT_CLI_OPTION_SNAPSHOT_MEMORY,
    PLEAT_CLI_OPTION_JSON,
};

typedef struct pleat_cli_verify_call {
    pleat_cli_replay_options_t options; /* limit, device and settings of traces */
    uint64_t difference_max;
    bool has_conf; /* --conf was given; else a snapshot says what its settings were */
} pleat_cli_verify_call_t;

/* One result a file, or a device of a snapshot. */
typedef struct pleat_cli_verify_list {
    pleat_cli_verify_result_t *results;
    size_t count;
} pleat_cli_verify_list_t;

/* Room for one more, zeroed; NULL after a message. */
static pleat_cli_verify_result_t *pleat_cli_verify_add(pleat_cli_verify_list_t *list,
                                                       const char *path)
{
    pleat_cli_verify_result_t *results =
        realloc(list->results, (list->count + 1) * sizeof(*results));

    if (!results) {
        (void)pleat_cli_error("no host memory");
        return NULL;
    }
    list->results = results;
    results[list->count] = (pleat_cli_verify_result_t){.path = path, .kind = "-"};
    return &results[list->count++];
}

static int pleat_cli_verify_unreadable(pleat_cli_verify_result_t *result)
{
    result->verdict = PLEAT_CLI_UNREADABLE;
    result->reason = strdup(pleat_last_error());
    return pleat_cli_error("%s", pleat_last_error());
}

/* The verdict follows from the counts, or from a reason why nothing was compared. */
static int pleat_cli_verify_judge(pleat_cli_verify_result_t *result, const char *skipped)
{
    if (skipped[0]) {
        result->verdict = PLEAT_CLI_SKIPPED;
        result->reason = strdup(skipped);
        return result->reason ? PLEAT_CLI_EXIT_GOOD : pleat_cli_error("no host memory");
    }
    result->verdict = result->difference_count > 0 ? PLEAT_CLI_DIFFERENT : PLEAT_CLI_EQUAL;
    return result->difference_count > 0 ? PLEAT_CLI_EXIT_NO : PLEAT_CLI_EXIT_GOOD;
}

/* Add what was compared in one mode. */
static bool pleat_cli_verify_take_session(pleat_cli_verify_result_t *result, const char *mode,
                                          const pleat_session_check_t *check)
{
    size_t shown = check->difference_count < check->difference_capacity
                       ? check->difference_count
                       : check->difference_capacity;

    result->calls += check->call_count;
    result->addresses += check->address_count;
    result->events += check->event_count;
    result->statistics += check->stat_count;
    result->states += check->state_count;
    result->difference_count += check->difference_count;
    if (check->stopped_by && !result->stopped_by) {
        result->stopped_line = check->stopped_line;
        result->stopped_by = strdup(check->stopped_by);
        if (!result->stopped_by) {
            return false;
        }
    }
    for (size_t i = 0; i < shown; i++) {
        pleat_session_difference_t *difference = &check->differences[i];
        char where[96];

        (void)snprintf(where, sizeof(where), "line %llu, %s%s%s",
                       (unsigned long long)difference->line,
                       strcmp(difference->call, "end") == 0 ? "end state" : difference->call,
                       result->mode_count > 1 ? ", mode " : "", result->mode_count > 1 ? mode : "");
        if (!pleat_cli_verify_result_add(result, &(pleat_cli_difference_t){where, difference->what,
                                                                           difference->expected,
                                                                           difference->got})) {
            return false;
        }
    }
    return true;
}

/* Which of its modes a session can be performed in. If in none, *skipped says why. */
static void pleat_cli_verify_find_modes(const pleat_session_t *session,
                                        pleat_cli_verify_result_t *result, char *skipped,
                                        size_t skipped_bytes)
{
    const unsigned modes = pleat_session_modes(session);
    bool has_any = false;

    for (unsigned mode = 1; mode < PLEAT_SESSION_MODE_END; mode <<= 1) {
        if ((modes & mode) != 0) {
            const char *word = pleat_session_mode_word(mode);
            const char *obstacle = pleat_session_obstacle(session, mode);

            pleat_cli_verify_result_add_mode(result, word, obstacle);
            has_any |= obstacle == NULL;
            if (obstacle && !skipped[0]) {
                (void)snprintf(skipped, skipped_bytes, "%s: %s", word, obstacle);
            }
        }
    }
    if (has_any) {
        skipped[0] = '\0';
    }
}

static int pleat_cli_verify_modes(const pleat_session_t *session, pleat_session_check_t *check,
                                  pleat_cli_verify_result_t *result)
{
    const unsigned modes = pleat_session_modes(session);
    char skipped[256] = "";

    pleat_cli_verify_find_modes(session, result, skipped, sizeof(skipped));
    for (unsigned mode = 1; mode < PLEAT_SESSION_MODE_END; mode <<= 1) {
        if ((modes & mode) == 0 || pleat_session_obstacle(session, mode)) {
            continue;
        }
        if (pleat_session_check_run(session, mode, check) != PLEAT_OK) {
            return pleat_cli_verify_unreadable(result);
        }
        if (!pleat_cli_verify_take_session(result, pleat_session_mode_word(mode), check)) {
            return pleat_cli_error("no host memory");
        }
    }
    return pleat_cli_verify_judge(result, skipped);
}

static int pleat_cli_verify_session(const pleat_cli_verify_call_t *call, pleat_input_t *input,
                                    pleat_cli_verify_result_t *result)
{
    pleat_session_t *session = NULL;
    pleat_session_check_t check = {.difference_capacity = call->difference_max};
    int exit_status = PLEAT_CLI_EXIT_GOOD;

    if (pleat_session_load_input(input, &session) != PLEAT_OK) {
        return pleat_cli_verify_unreadable(result);
    }
    check.differences = calloc(call->difference_max, sizeof(*check.differences));
    exit_status = check.differences ? pleat_cli_verify_modes(session, &check, result)
                                    : pleat_cli_error("no host memory");
    free(check.differences);
    pleat_session_destroy(session);
    return exit_status;
}

/* Points that a trace leaves open: how its calls were read, and rules whose outcome its events do
 * not show. */
static bool pleat_cli_verify_take_open(pleat_cli_verify_result_t *result,
                                       const pleat_program_t *program,
                                       const pleat_trace_check_t *check)
{
    result->undecided =
        calloc(PLEAT_UNDECIDED_COUNT + PLEAT_TRACE_RULE_COUNT, sizeof(*result->undecided));
    result->unreached = calloc(PLEAT_TRACE_RULE_COUNT, sizeof(*result->unreached));
    if (!result->undecided || !result->unreached) {
        return false;
    }
    for (int i = 0; i < (int)PLEAT_UNDECIDED_COUNT; i++) {
        if (program->undecided[i].count > 0) {
            result->undecided[result->undecided_count++] = (pleat_cli_open_point_t){
                pleat_undecided_text((pleat_undecided_t)i), program->undecided[i].count};
        }
    }
    for (int i = 0; i < (int)PLEAT_TRACE_RULE_COUNT; i++) {
        const char *text = pleat_trace_rule_text((pleat_trace_rule_t)i);

        if (check->rules[i] == 0) {
            result->unreached[result->unreached_count++] = text;
        } else if (!pleat_trace_rule_is_visible((pleat_trace_rule_t)i)) {
            result->undecided[result->undecided_count++] =
                (pleat_cli_open_point_t){text, check->rules[i]};
        }
    }
    return true;
}

static bool pleat_cli_verify_take_trace(pleat_cli_verify_result_t *result,
                                        const pleat_program_t *program,
                                        const pleat_trace_check_t *check)
{
    uint64_t shown = check->difference_count < check->difference_capacity
                         ? check->difference_count
                         : check->difference_capacity;
    char nothing[] = "";

    result->calls = check->call_count;
    result->addresses = check->address_count;
    result->events = check->event_count;
    result->difference_count = check->difference_count;
    for (uint64_t i = 0; i < shown; i++) {
        pleat_trace_difference_t *difference = &check->differences[i];
        char where[96];

        (void)snprintf(where, sizeof(where), "event %llu, %s",
                       (unsigned long long)difference->event + 1, difference->call);
        if (!pleat_cli_verify_result_add(
                result,
                &(pleat_cli_difference_t){where, nothing, difference->expected, difference->got})) {
            return false;
        }
    }
    if (check->unchecked[0]) {
        return true;
    }
    result->has_runs = true;
    result->run_count =
        check->run_count < check->run_capacity ? check->run_count : check->run_capacity;
    result->retry_count = (uint64_t)check->stats.num_alloc_retries;
    result->reserved_peak_bytes = (uint64_t)check->stats.reserved_bytes[PLEAT_STAT_ALL].peak;
    return pleat_cli_verify_take_open(result, program, check);
}

static void pleat_cli_verify_progress(void *context, uint64_t done, uint64_t all)
{
    pleat_cli_progress_update(context, done, all);
}

/* What a trace was recorded with: what the call says, or the snapshot that it comes from. */
static int pleat_cli_verify_settings(const pleat_cli_verify_call_t *call,
                                     const pleat_trace_set_t *set, pleat_options_t *allocator_out)
{
    pleat_conf_t conf = PLEAT_CONF_INIT;

    *allocator_out = call->options.allocators[0];
    if (call->has_conf || !set->has_settings) {
        return PLEAT_CLI_EXIT_GOOD;
    }
    pleat_trace_snapshot_conf(&set->settings, &conf);
    *allocator_out = (pleat_options_t)PLEAT_OPTIONS_INIT;
    if (pleat_conf_apply(&conf, call->options.device_bytes, allocator_out) != PLEAT_OK) {
        return pleat_cli_error("settings of the snapshot: %s", pleat_last_error());
    }
    if (call->options.has_limit) {
        allocator_out->limit_bytes = call->options.limit_bytes;
    }
    return PLEAT_CLI_EXIT_GOOD;
}

static int pleat_cli_verify_program(const pleat_cli_verify_call_t *call, const pleat_trace_t *trace,
                                    const pleat_program_t *program,
                                    const pleat_options_t *allocator,
                                    pleat_cli_verify_result_t *result)
{
    pleat_cli_progress_t progress;
    pleat_trace_check_options_t options = {
        .allocator = *allocator,
        .device_bytes = call->options.device_bytes,
        .progress = pleat_cli_verify_progress,
        .progress_context = &progress,
    };
    /* Another reading may have a few runs more. */
    pleat_trace_check_t check = {.difference_capacity = call->difference_max,
                                 .run_capacity = program->run_count + PLEAT_TRACE_FIT_RUNS_MAX};
    int exit_status = PLEAT_CLI_EXIT_GOOD;

    check.differences = calloc(call->difference_max, sizeof(*check.differences));
    check.runs = calloc(check.run_capacity, sizeof(*check.runs));
    result->runs = check.runs;
    if (!check.differences || !check.runs) {
        free(check.differences);
        return pleat_cli_error("no host memory");
    }
    pleat_cli_verify_result_add_mode(result, pleat_mode_name(allocator->mode), NULL);
    pleat_cli_progress_begin(&progress, trace->name);
    pleat_status_t status = pleat_trace_check_run(trace, program, &options, &check);
    pleat_cli_progress_end(&progress);
    if (status != PLEAT_OK) {
        exit_status = pleat_cli_verify_unreadable(result);
    } else if (!pleat_cli_verify_take_trace(result, program, &check)) {
        exit_status = pleat_cli_error("no host memory");
    } else {
        exit_status = pleat_cli_verify_judge(result, check.unchecked);
    }
    free(check.differences);
    return exit_status;
}

static int pleat_cli_verify_trace(const pleat_cli_verify_call_t *call, const pleat_trace_t *trace,
                                  const pleat_options_t *allocator,
                                  pleat_cli_verify_result_t *result)
{
    pleat_program_t *program = NULL;
    int exit_status = PLEAT_CLI_EXIT_GOOD;

    if (pleat_program_create(trace, allocator, call->options.device_bytes, &program) != PLEAT_OK) {
        return pleat_cli_verify_unreadable(result);
    }
    pleat_cli_trace_notes_warn(trace, program);
    result->warnings = pleat_cli_trace_notes_json(program);
    exit_status = pleat_cli_verify_program(call, trace, program, allocator, result);
    pleat_program_destroy(program);
    return exit_status;
}

/* The trace to compare instead of one that begins in the middle: with the blocks of its beginning.
 * NULL: there is none, and the checker says what that means. */
static pleat_trace_t *pleat_cli_verify_rebuild(const pleat_trace_set_t *set,
                                               const pleat_trace_t *trace,
                                               const pleat_options_t *allocator)
{
    pleat_trace_t *rebuilt = NULL;

    if (!set->snapshot || trace->origin.prefix_count == 0 ||
        allocator->mode != PLEAT_MODE_CLASSIC ||
        pleat_trace_snapshot_rebuild(set->snapshot, trace->origin.device, trace->name, allocator,
                                     &rebuilt) != PLEAT_OK) {
        return NULL;
    }
    return rebuilt;
}

/* A trace file, or every device of a memory snapshot. */
static int pleat_cli_verify_traces(const pleat_cli_verify_call_t *call, pleat_input_t *input,
                                   pleat_cli_verify_list_t *list)
{
    pleat_cli_verify_result_t *result = &list->results[list->count - 1];
    pleat_trace_set_t set = {.count = 0};
    pleat_options_t allocator;

    result->kind = pleat_input_kind(input) == PLEAT_INPUT_PICKLE ? "snapshot" : "trace";
    if (pleat_trace_set_load_input(input, &call->options.set, &set) != PLEAT_OK) {
        return pleat_cli_verify_unreadable(result);
    }
    int exit_status = pleat_cli_verify_settings(call, &set, &allocator);

    for (size_t i = 0; i < set.count && exit_status != PLEAT_CLI_EXIT_USAGE; i++) {
        const char *kind = result->kind;

        result = i == 0 ? result : pleat_cli_verify_add(list, result->path);
        if (!result) {
            exit_status = PLEAT_CLI_EXIT_USAGE;
            break;
        }
        result->kind = kind;
        if (set.count > 1) {
            result->own_path = strdup(set.traces[i]->name);
            result->path = result->own_path ? result->own_path : result->path;
        }
        pleat_trace_t *rebuilt = pleat_cli_verify_rebuild(&set, set.traces[i], &allocator);
        int status =
            pleat_cli_verify_trace(call, rebuilt ? rebuilt : set.traces[i], &allocator, result);

        pleat_trace_destroy(rebuilt);
        exit_status = status > exit_status ? status : exit_status;
    }
    pleat_trace_set_fini(&set);
    return exit_status;
}

static int pleat_cli_verify_file(const pleat_cli_verify_call_t *call, const char *path,
                                 pleat_cli_verify_list_t *list)
{
    pleat_cli_verify_result_t *result = pleat_cli_verify_add(list, path);
    pleat_input_t *input = NULL;
    int exit_status = PLEAT_CLI_EXIT_GOOD;

    if (!result) {
        return PLEAT_CLI_EXIT_USAGE;
    }
    if (pleat_input_open(path, &input) != PLEAT_OK) {
        return pleat_cli_verify_unreadable(result);
    }
    switch (pleat_input_kind(input)) {
    case PLEAT_INPUT_RECORDING:
        result->kind = "session";
        exit_status = pleat_cli_verify_session(call, input, result);
        break;
    case PLEAT_INPUT_CASE:
        result->kind = "case";
        exit_status = pleat_cli_verify_session(call, input, result);
        break;
    case PLEAT_INPUT_TRACE_TEXT:
    case PLEAT_INPUT_TRACE_BINARY:
    case PLEAT_INPUT_PICKLE:
        exit_status = pleat_cli_verify_traces(call, input, list);
        break;
    case PLEAT_INPUT_UNKNOWN:
    case PLEAT_INPUT_KIND_COUNT:
        pleat_input_refuse(input, "a recorded session, a case, a trace or a memory snapshot");
        exit_status = pleat_cli_verify_unreadable(result);
        break;
    }
    pleat_input_close(input);
    return exit_status;
}

/* A check that compared nothing has no answer: that is not the same as a good one. */
static int pleat_cli_verify_end(const pleat_cli_verify_result_t *results, size_t count,
                                int exit_status)
{
    size_t skipped = 0;

    for (size_t i = 0; i < count; i++) {
        skipped += results[i].verdict == PLEAT_CLI_SKIPPED ? 1 : 0;
    }
    if (exit_status == PLEAT_CLI_EXIT_GOOD && count > 0 && skipped == count) {
        return pleat_cli_error("nothing was compared: %s", results[0].reason);
    }
    return exit_status;
}

static int pleat_cli_verify_all(const pleat_cli_verify_call_t *call, size_t count, char **paths)
{
    pleat_cli_verify_list_t list = {.count = 0};
    int exit_status = PLEAT_CLI_EXIT_GOOD;

    for (size_t i = 0; i < count; i++) {
        size_t first = list.count;
        int status = pleat_cli_verify_file(call, paths[i], &list);

        exit_status = status > exit_status ? status : exit_status;
        for (size_t j = first; j < list.count && call->options.is_json; j++) {
            int printed = pleat_cli_verify_print_json(&list.results[j]);

            exit_status = printed > exit_status ? printed : exit_status;
        }
    }
    if (!call->options.is_json) {
        int printed = pleat_cli_verify_print(list.results, list.count);

        exit_status = printed > exit_status ? printed : exit_status;
    }
    exit_status = pleat_cli_verify_end(list.results, list.count, exit_status);
    for (size_t i = 0; i < list.count; i++) {
        pleat_cli_verify_result_fini(&list.results[i]);
    }
    free(list.results);
    return exit_status;
}

static int pleat_cli_verify_run(const pleat_cli_command_t *command, int argc, char **argv)
{
    pleat_cli_verify_call_t call = {.difference_max = 5};
    pleat_cli_args_t args;
    int key = 0;
    int wrong = 0;

    pleat_cli_replay_options_init(&call.options);
    pleat_cli_args_init(&args, command, argc, argv);
    while ((key = pleat_cli_args_next(&args)) != PLEAT_CLI_ARGS_END) {
        if (key == PLEAT_CLI_ARGS_STOP) {
            return args.exit_status;
        }
        wrong = key == KEY_DIFFERENCES ? pleat_cli_args_count(&args, 1, PLEAT_CLI_DIFFERENCES_MAX,
                                                              &call.difference_max)
                                       : pleat_cli_replay_options_take(&call.options, &args, key);
        if (wrong) {
            return wrong;
        }
    }
    if (args.first_operand == argc) {
        return pleat_cli_args_error(command, "a file is missing");
    }
    if (call.options.conf_count > 1) {
        return pleat_cli_args_error(command, "--conf is given %zu times; a recording has one",
                                    call.options.conf_count);
    }
    call.has_conf = call.options.conf_count > 0;
    wrong = pleat_cli_replay_options_finish(&call.options);
    if (wrong) {
        return wrong;
    }
    if (call.options.allocators[0].mode == PLEAT_MODE_PLEATED) {
        return pleat_cli_error("'%s': sessions and cases say their mode themselves, and traces are "
                               "verified in mode classic or, with expandable_policy:torch, in "
                               "torch_expandable",
                               call.options.confs[0]);
    }
    return pleat_cli_verify_all(&call, (size_t)(argc - args.first_operand),
                                argv + args.first_operand);
}

const pleat_cli_command_t pleat_cli_verify = {
    .name = "verify",
    .brief = "check recorded sessions, cases and traces call by call",
    .operands = "FILE...",
    .description =
        "Performs the calls of each file and compares what the allocator does with what\n"
        "was recorded. The kind of a file is recognised by its content; '-' is standard\n"
        "input.\n"
        "  recorded session   every address, event and statistic after every call, every\n"
        "                     snapshot and the end. One that ends with a failed check of\n"
        "                     PyTorch itself is compared up to the call before\n"
        "  case               what the case expects, in every mode that it names and\n"
        "                     that exists; modes that were checked and those that were\n"
        "                     not are named\n"
        "  memory snapshot    of PyTorch with its history (.pickle): as a trace, with the\n"
        "                     settings that it names unless --conf is given. Of one\n"
        "                     that begins in the middle, the blocks at its beginning are\n"
        "                     found from those at its end; in classic mode only\n"
        "  trace              every address and event; the device answers as recorded.\n"
        "                     What a trace cannot decide is listed as undecided. Shown\n"
        "                     are the calls of empty_cache and the retries found, and\n"
        "                     how much was reserved at most: where 'pleat compare' has\n"
        "                     another peak, it is because the simulated driver hands out\n"
        "                     other addresses\n"
        "On a difference the call is shown, what was expected and what came; the status\n"
        "is 1.",
    .examples = "  pleat verify sessions/*.oracle.gz cases/*.case\n"
                "  pleat verify run.trace.xz --limit 40GiB",
    .options = pleat_cli_verify_option_table,
    .option_count =
        sizeof(pleat_cli_verify_option_table) / sizeof(pleat_cli_verify_option_table[0]),
    .run = pleat_cli_verify_run,
};
