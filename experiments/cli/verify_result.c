/*
 * verify_result: keeping and printing what a check of a file found.
 */
#include "verify_result.h"
#include "json.h"
#include "report.h"
#include "size.h"
#include "table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void pleat_cli_verify_result_fini(pleat_cli_verify_result_t *result)
{
    free(result->own_path);
    for (size_t i = 0; i < result->difference_shown; i++) {
        free(result->differences[i].where);
        free(result->differences[i].what);
        free(result->differences[i].expected);
        free(result->differences[i].got);
    }
    free(result->differences);
    free(result->undecided);
    free(result->unreached);
    free(result->reason);
    free(result->stopped_by);
    free(result->runs);
    json_decref(result->warnings);
    *result = (pleat_cli_verify_result_t){0};
}

bool pleat_cli_verify_result_add(pleat_cli_verify_result_t *result,
                                 const pleat_cli_difference_t *difference)
{
    size_t count = result->difference_shown;
    pleat_cli_difference_t copy = {
        strdup(difference->where),
        strdup(difference->what),
        strdup(difference->expected),
        strdup(difference->got),
    };
    pleat_cli_difference_t *grown =
        realloc(result->differences, (count + 1) * sizeof(*result->differences));

    if (grown) {
        result->differences = grown;
    }
    if (!grown || !copy.where || !copy.what || !copy.expected || !copy.got) {
        free(copy.where);
        free(copy.what);
        free(copy.expected);
        free(copy.got);
        return false;
    }
    result->differences[count] = copy;
    result->difference_shown = count + 1;
    return true;
}

void pleat_cli_verify_result_add_mode(pleat_cli_verify_result_t *result, const char *name,
                                      const char *obstacle)
{
    if (result->mode_count < PLEAT_CLI_VERIFY_MODES_MAX) {
        result->modes[result->mode_count++] = (pleat_cli_verify_mode_t){name, obstacle};
    }
}

static const char *pleat_cli_verdict_text(pleat_cli_verdict_t verdict)
{
    static const char *const texts[] = {"equal", "different", "skipped", "unreadable"};

    return texts[verdict];
}

static json_t *pleat_cli_verify_json_points(const pleat_cli_verify_result_t *result)
{
    json_t *list = json_array();

    for (size_t i = 0; i < result->undecided_count; i++) {
        const pleat_cli_open_point_t *point = &result->undecided[i];
        json_t *count =
            point->count == UINT64_MAX ? json_null() : json_integer((json_int_t)point->count);

        (void)json_array_append_new(list,
                                    json_pack("{s:s, s:o}", "point", point->text, "count", count));
    }
    return list;
}

/* Modes that were checked, or those that were not. */
static json_t *pleat_cli_verify_json_modes(const pleat_cli_verify_result_t *result, bool is_checked)
{
    json_t *list = json_array();

    for (size_t i = 0; i < result->mode_count; i++) {
        if ((result->modes[i].obstacle == NULL) == is_checked) {
            (void)json_array_append_new(list, json_string(result->modes[i].name));
        }
    }
    return list;
}

/* Segments that each run of one kind gave back. */
static json_t *pleat_cli_verify_json_runs(const pleat_cli_verify_result_t *result,
                                          bool is_in_request)
{
    json_t *list = json_array();

    for (size_t i = 0; i < result->run_count; i++) {
        if (result->runs[i].is_in_request == is_in_request) {
            (void)json_array_append_new(list,
                                        json_integer((json_int_t)result->runs[i].segment_count));
        }
    }
    return list;
}

static void pleat_cli_verify_json_trace(const pleat_cli_verify_result_t *result, json_t *object)
{
    if (result->warnings) {
        (void)json_object_set(object, "warnings", result->warnings);
    }
    if (!result->has_runs) {
        return;
    }
    (void)json_object_set_new(object, "empty_cache_segments",
                              pleat_cli_verify_json_runs(result, false));
    (void)json_object_set_new(object, "request_segments", pleat_cli_verify_json_runs(result, true));
    (void)json_object_set_new(object, "num_alloc_retries",
                              json_integer((json_int_t)result->retry_count));
    (void)json_object_set_new(object, "reserved_peak_bytes",
                              json_integer((json_int_t)result->reserved_peak_bytes));
}

int pleat_cli_verify_print_json(const pleat_cli_verify_result_t *result)
{
    json_t *details = json_array();
    json_t *unreached = json_array();

    for (size_t i = 0; i < result->difference_shown; i++) {
        const pleat_cli_difference_t *difference = &result->differences[i];

        (void)json_array_append_new(details,
                                    json_pack("{s:s, s:s, s:s, s:s}", "call", difference->where,
                                              "what", difference->what, "expected",
                                              difference->expected, "got", difference->got));
    }
    for (size_t i = 0; i < result->unreached_count; i++) {
        (void)json_array_append_new(unreached, json_string(result->unreached[i]));
    }
    json_t *object = json_pack(
        "{s:o, s:s, s:s, s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o}", "file",
        pleat_cli_json_text(result->path), "kind", result->kind, "result",
        pleat_cli_verdict_text(result->verdict), "modes_checked",
        pleat_cli_verify_json_modes(result, true), "modes_skipped",
        pleat_cli_verify_json_modes(result, false), "calls", (json_int_t)result->calls, "addresses",
        (json_int_t)result->addresses, "events", (json_int_t)result->events, "statistics",
        (json_int_t)result->statistics, "states", (json_int_t)result->states, "differences",
        (json_int_t)result->difference_count, "details", details, "undecided",
        pleat_cli_verify_json_points(result), "not_reached", unreached);
    pleat_cli_verify_json_trace(result, object);
    if (object && result->stopped_by) {
        (void)json_object_set_new(object, "stopped_at_line",
                                  json_integer((json_int_t)result->stopped_line));
        (void)json_object_set_new(object, "stopped_by", json_string(result->stopped_by));
    }
    if (object && result->reason) {
        (void)json_object_set_new(object, "reason", pleat_cli_json_text(result->reason));
    }
    return pleat_cli_json_print(object);
}

static void pleat_cli_verify_table_modes(pleat_cli_table_t *table,
                                         const pleat_cli_verify_result_t *result)
{
    char text[128] = "";
    size_t used = 0;

    for (size_t i = 0; i < result->mode_count && used < sizeof(text); i++) {
        if (result->modes[i].obstacle == NULL) {
            used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s", used > 0 ? " " : "",
                                     result->modes[i].name);
        }
    }
    pleat_cli_table_text(table, used > 0 ? text : "-");
}

/* The verdict, and what it leaves out. */
static void pleat_cli_verify_table_result(pleat_cli_table_t *table,
                                          const pleat_cli_verify_result_t *result)
{
    char text[512];
    size_t used =
        (size_t)snprintf(text, sizeof(text), "%s", pleat_cli_verdict_text(result->verdict));

    if (result->verdict == PLEAT_CLI_SKIPPED && result->reason) {
        pleat_cli_table_cell(table, "%s: %s", text, result->reason);
        return;
    }
    if (result->stopped_by) {
        used += (size_t)snprintf(text + used, sizeof(text) - used, " up to line %llu",
                                 (unsigned long long)result->stopped_line);
    }
    for (size_t i = 0; i < result->mode_count && used < sizeof(text); i++) {
        if (result->modes[i].obstacle != NULL) {
            used += (size_t)snprintf(text + used, sizeof(text) - used, "; skipped %s: %s",
                                     result->modes[i].name, result->modes[i].obstacle);
        }
    }
    pleat_cli_table_text(table, text);
}

static int pleat_cli_verify_table(const pleat_cli_verify_result_t *results, size_t count)
{
    static const char *const headings[] = {"calls", "addresses",   "events",   "statistics",
                                           "state", "differences", "undecided"};
    pleat_cli_table_t *table = pleat_cli_table_create();

    pleat_cli_table_column(table, "file", PLEAT_CLI_LEFT);
    pleat_cli_table_column(table, "kind", PLEAT_CLI_LEFT);
    pleat_cli_table_column(table, "checked in", PLEAT_CLI_LEFT);
    for (size_t i = 0; i < sizeof(headings) / sizeof(headings[0]); i++) {
        pleat_cli_table_column(table, headings[i], PLEAT_CLI_RIGHT);
    }
    pleat_cli_table_column(table, "result", PLEAT_CLI_LEFT);
    for (size_t i = 0; i < count; i++) {
        const pleat_cli_verify_result_t *result = &results[i];
        const uint64_t numbers[] = {
            result->calls,  result->addresses,        result->events,         result->statistics,
            result->states, result->difference_count, result->undecided_count};

        pleat_cli_table_row(table);
        pleat_cli_table_text(table, result->path);
        pleat_cli_table_text(table, result->kind);
        pleat_cli_verify_table_modes(table, result);
        for (size_t j = 0; j < sizeof(numbers) / sizeof(numbers[0]); j++) {
            if (result->verdict == PLEAT_CLI_SKIPPED || result->verdict == PLEAT_CLI_UNREADABLE) {
                pleat_cli_table_text(table, "-");
            } else {
                pleat_cli_table_cell(table, "%llu", (unsigned long long)numbers[j]);
            }
        }
        pleat_cli_verify_table_result(table, result);
    }
    return pleat_cli_table_print(table);
}

static void pleat_cli_verify_print_differences(const pleat_cli_verify_result_t *result)
{
    for (size_t i = 0; i < result->difference_shown; i++) {
        const pleat_cli_difference_t *difference = &result->differences[i];

        (void)printf("  %s%s%s\n    expected: %s\n    got:      %s\n", difference->where,
                     difference->what[0] ? ": " : "", difference->what, difference->expected,
                     difference->got);
    }
    if (result->difference_count > result->difference_shown) {
        (void)printf("  and %llu more\n",
                     (unsigned long long)(result->difference_count - result->difference_shown));
    }
}

/* "3 empty_cache calls: 87, 107, 97 segments"; nothing if there are no such runs. */
static void pleat_cli_verify_print_runs(const pleat_cli_verify_result_t *result, bool is_in_request,
                                        const char *one, const char *several)
{
    enum { SHOWN_MAX = 16 };
    size_t count = 0;
    size_t shown = 0;
    uint64_t segments = 0;

    for (size_t i = 0; i < result->run_count; i++) {
        if (result->runs[i].is_in_request == is_in_request) {
            count++;
            segments += result->runs[i].segment_count;
        }
    }
    (void)printf("%zu %s", count, count == 1 ? one : several);
    for (size_t i = 0; i < result->run_count && shown < SHOWN_MAX; i++) {
        if (result->runs[i].is_in_request == is_in_request) {
            (void)printf("%s%llu", shown == 0 ? ": " : ", ",
                         (unsigned long long)result->runs[i].segment_count);
            shown++;
        }
    }
    (void)printf("%s%s", count > shown ? ", ..." : "",
                 count == 0      ? ""
                 : segments == 1 ? " segment"
                                 : " segments");
}

static void pleat_cli_verify_print_trace(const pleat_cli_verify_result_t *result)
{
    char peak[64];

    if (!result->has_runs) {
        return;
    }
    (void)fputs("  given back: ", stdout);
    pleat_cli_verify_print_runs(result, false, "empty_cache call", "empty_cache calls");
    (void)fputs("; ", stdout);
    pleat_cli_verify_print_runs(result, true, "run within a request", "runs within requests");
    (void)printf("; retries: %llu\n", (unsigned long long)result->retry_count);
    pleat_cli_size_format(result->reserved_peak_bytes, peak, sizeof(peak));
    (void)printf("  reserved at most %s (%llu bytes) with the recorded addresses\n", peak,
                 (unsigned long long)result->reserved_peak_bytes);
}

static void pleat_cli_verify_print_details(const pleat_cli_verify_result_t *result)
{
    if (result->difference_count == 0 && result->undecided_count == 0 &&
        result->unreached_count == 0 && !result->stopped_by) {
        return;
    }
    (void)printf("\n%s: %s\n", result->path, pleat_cli_verdict_text(result->verdict));
    pleat_cli_verify_print_differences(result);
    if (result->stopped_by) {
        (void)printf("  compared up to the call before line %llu, where a check of PyTorch failed: "
                     "%s\n",
                     (unsigned long long)result->stopped_line, result->stopped_by);
    }
    pleat_cli_verify_print_trace(result);
    for (size_t i = 0; i < result->undecided_count; i++) {
        const pleat_cli_open_point_t *point = &result->undecided[i];

        if (point->count == UINT64_MAX) {
            (void)printf("  undecided: %s\n", point->text);
        } else {
            (void)printf("  undecided, %llu time%s: %s\n", (unsigned long long)point->count,
                         point->count == 1 ? "" : "s", point->text);
        }
    }
    for (size_t i = 0; i < result->unreached_count; i++) {
        (void)printf("%s%s", i == 0 ? "  never came to: " : "; ", result->unreached[i]);
    }
    (void)fputs(result->unreached_count > 0 ? "\n" : "", stdout);
}

int pleat_cli_verify_print(const pleat_cli_verify_result_t *results, size_t count)
{
    uint64_t differences = 0;
    size_t counts[PLEAT_CLI_UNREADABLE + 1] = {0};
    int exit_status = pleat_cli_verify_table(results, count);

    for (size_t i = 0; i < count; i++) {
        pleat_cli_verify_print_details(&results[i]);
        differences += results[i].difference_count;
        counts[results[i].verdict]++;
    }
    (void)printf("\n%zu equal, %zu different, %zu skipped, %zu unreadable; %llu difference%s\n",
                 counts[PLEAT_CLI_EQUAL], counts[PLEAT_CLI_DIFFERENT], counts[PLEAT_CLI_SKIPPED],
                 counts[PLEAT_CLI_UNREADABLE], (unsigned long long)differences,
                 differences == 1 ? "" : "s");
    return exit_status;
}
