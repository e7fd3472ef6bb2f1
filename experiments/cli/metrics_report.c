/*
 * metrics_report: lists and objects come from the list of metrics; the table of a comparison picks
 * what a user wants to see first.
 */
#include "metrics_report.h"
#include "json.h"
#include "size.h"
#include "table.h"
#include "trace_notes.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The unit of all sizes in a table or in the words about a trace. */
typedef struct pleat_cli_size_unit {
    const char *name;
    double bytes;
} pleat_cli_size_unit_t;

#define PLEAT_CLI_JSON_TEXT(value) pleat_cli_json_text(value)
#define PLEAT_CLI_JSON_COUNT(value) json_integer((json_int_t)(value))
#define PLEAT_CLI_JSON_REAL(value) (isnan(value) ? json_null() : json_real(value))

/* Calls of the device by kind; every kind is there, so that readers need not ask. */
static json_t *pleat_cli_json_calls(const pleat_vmm_counters_t *device)
{
    json_t *kinds = json_object();

    for (unsigned i = 0; i < PLEAT_VMM_CALL_COUNT; i++) {
        json_t *kind = json_object();

        (void)json_object_set_new(kind, "calls", PLEAT_CLI_JSON_COUNT(device->calls[i]));
        (void)json_object_set_new(kind, "failures", PLEAT_CLI_JSON_COUNT(device->failures[i]));
        (void)json_object_set_new(kind, "us",
                                  PLEAT_CLI_JSON_COUNT(pleat_metrics_round_us(device->time_ns[i])));
        (void)json_object_set_new(kinds, pleat_vmm_call_name((pleat_vmm_call_t)i), kind);
    }
    return kinds;
}

int pleat_cli_metrics_print_json(const pleat_metrics_t *metrics, const pleat_program_t *program)
{
    json_t *object = json_object();

#define PLEAT_CLI_JSON_METRIC(type, name, text) \
    (void)json_object_set_new(object, #name, PLEAT_CLI_JSON_##type(metrics->name));
    PLEAT_METRIC_LIST(PLEAT_CLI_JSON_METRIC)
#undef PLEAT_CLI_JSON_METRIC
    (void)json_object_set_new(object, "device", json_string("simulated"));
    (void)json_object_set_new(object, "device_calls", pleat_cli_json_calls(&metrics->device));
    (void)json_object_set_new(object, "warnings", pleat_cli_trace_notes_json(program));
    return pleat_cli_json_print(object);
}

static const char *pleat_cli_conf_label(const char *conf)
{
    return conf[0] ? conf : "(default)";
}

static void pleat_cli_list_row(pleat_cli_table_t *table, const char *name, const char *value,
                               const char *meaning)
{
    pleat_cli_table_row(table);
    pleat_cli_table_cell(table, "  %s", name);
    pleat_cli_table_text(table, value);
    pleat_cli_table_text(table, meaning);
}

static void pleat_cli_list_text(pleat_cli_table_t *table, const char *name, const char *value,
                                const char *meaning)
{
    pleat_cli_list_row(table, name, strcmp(name, "conf") == 0 ? pleat_cli_conf_label(value) : value,
                       meaning);
}

/* Bytes are shown with a unit, other counts as they are. */
static void pleat_cli_list_count(pleat_cli_table_t *table, const char *name, uint64_t value,
                                 const char *meaning)
{
    static const char bytes[] = "_bytes";
    size_t length = strlen(name);
    char text[64];

    if (length > sizeof(bytes) && strcmp(name + length - (sizeof(bytes) - 1), bytes) == 0) {
        pleat_cli_size_format(value, text, sizeof(text));
    } else {
        (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
    }
    pleat_cli_list_row(table, name, text, meaning);
}

static void pleat_cli_list_real(pleat_cli_table_t *table, const char *name, double value,
                                const char *meaning)
{
    char text[64];

    (void)snprintf(text, sizeof(text), "%.4g", value);
    pleat_cli_list_row(table, name, isnan(value) ? "not known" : text, meaning);
}

#define PLEAT_CLI_LIST_TEXT pleat_cli_list_text
#define PLEAT_CLI_LIST_COUNT pleat_cli_list_count
#define PLEAT_CLI_LIST_REAL pleat_cli_list_real

#define PLEAT_CLI_LIST_METRIC(type, name, text) \
    PLEAT_CLI_LIST_##type(table, #name, metrics->name, text);

/* A line of its own in front of a group; the lines of the group are indented. */
static void pleat_cli_list_heading(pleat_cli_table_t *table, const char *heading)
{
    pleat_cli_table_row(table);
    pleat_cli_table_text(table, heading);
}

/* One line a kind of call that was made. */
static void pleat_cli_list_calls(pleat_cli_table_t *table, const pleat_vmm_counters_t *device)
{
    char value[64];
    char meaning[64];

    pleat_cli_list_heading(table, "calls by kind");
    for (unsigned i = 0; i < PLEAT_VMM_CALL_COUNT; i++) {
        const pleat_vmm_call_t call = (pleat_vmm_call_t)i;

        if (device->calls[i] == 0) {
            continue;
        }
        (void)snprintf(value, sizeof(value), "%llu", (unsigned long long)device->calls[i]);
        (void)snprintf(meaning, sizeof(meaning), "calls, %llu us%s",
                       (unsigned long long)pleat_metrics_round_us(device->time_ns[i]),
                       pleat_vmm_call_is_memory(call) ? "" : "; not in driver_calls");
        pleat_cli_list_row(table, pleat_vmm_call_name(call), value, meaning);
    }
}

int pleat_cli_metrics_print_list(const pleat_metrics_t *metrics)
{
    pleat_cli_table_t *table = pleat_cli_table_create();

    pleat_cli_table_column(table, "metric", PLEAT_CLI_LEFT);
    pleat_cli_table_column(table, "value", PLEAT_CLI_RIGHT);
    pleat_cli_table_column(table, "meaning", PLEAT_CLI_LEFT);
#define PLEAT_CLI_LIST_GROUP(list, heading) \
    pleat_cli_list_heading(table, heading); \
    list(PLEAT_CLI_LIST_METRIC)
    PLEAT_METRIC_GROUP_LIST(PLEAT_CLI_LIST_GROUP)
#undef PLEAT_CLI_LIST_GROUP
    pleat_cli_list_calls(table, &metrics->device);
    return pleat_cli_table_print(table);
}

static pleat_cli_size_unit_t pleat_cli_unit_of(const pleat_metrics_t *metrics, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (metrics[i].reserved_peak_bytes >= UINT64_C(1) << 29) {
            return (pleat_cli_size_unit_t){"GiB", 1073741824.0};
        }
    }
    return (pleat_cli_size_unit_t){"MiB", 1048576.0};
}

static uint64_t pleat_cli_wasted_bytes(const pleat_metrics_t *metrics)
{
    return metrics->reserved_peak_bytes > metrics->active_peak_bytes
               ? metrics->reserved_peak_bytes - metrics->active_peak_bytes
               : 0;
}

static void pleat_cli_table_metrics(pleat_cli_table_t *table, const pleat_metrics_t *metrics,
                                    double unit)
{
    pleat_cli_table_text(table, metrics->mode);
    pleat_cli_table_text(table, pleat_cli_conf_label(metrics->conf));
    pleat_cli_table_cell(table, "%.2f", (double)metrics->reserved_peak_bytes / unit);
    pleat_cli_table_cell(table, "%.2f", (double)metrics->active_peak_bytes / unit);
    pleat_cli_table_cell(table, "%.1f", metrics->utilization * 100.0);
    pleat_cli_table_cell(table, "%.2f", (double)pleat_cli_wasted_bytes(metrics) / unit);
    pleat_cli_table_cell(table, "%.2f", (double)metrics->inactive_split_peak_bytes / unit);
    pleat_cli_table_cell(table, "%.2f", (double)metrics->unreturnable_peak_bytes / unit);
    pleat_cli_table_cell(table, "%llu", (unsigned long long)metrics->num_alloc_retries);
    pleat_cli_table_cell(table, "%llu", (unsigned long long)metrics->num_ooms);
    pleat_cli_table_cell(table, "%llu", (unsigned long long)metrics->driver_calls);
    pleat_cli_table_cell(table, "%.1f", (double)metrics->driver_us / 1000.0);
    pleat_cli_table_cell(table, "%llu", (unsigned long long)metrics->waits);
}

int pleat_cli_metrics_print_table(const pleat_metrics_t *metrics, size_t count, bool has_traces)
{
    pleat_cli_table_t *table = pleat_cli_table_create();

    if (has_traces) {
        pleat_cli_table_column(table, "trace", PLEAT_CLI_LEFT);
    }
    pleat_cli_table_column(table, "mode", PLEAT_CLI_LEFT);
    pleat_cli_table_column(table, "conf", PLEAT_CLI_LEFT);
    pleat_cli_size_unit_t unit = pleat_cli_unit_of(metrics, count);
    static const struct {
        const char *heading;
        bool is_size;
    } columns[] = {{"reserved", true}, {"active", true},      {"util. %", false}, {"wasted", true},
                   {"split", true},    {"stuck", true},       {"retries", false}, {"OOMs", false},
                   {"calls", false},   {"driver ms*", false}, {"waits*", false}};
    for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++) {
        char heading[32];

        (void)snprintf(heading, sizeof(heading), "%s%s%s", columns[i].heading,
                       columns[i].is_size ? " " : "", columns[i].is_size ? unit.name : "");
        pleat_cli_table_column(table, heading, PLEAT_CLI_RIGHT);
    }
    for (size_t i = 0; i < count; i++) {
        pleat_cli_table_row(table);
        if (has_traces) {
            pleat_cli_table_text(table, metrics[i].trace);
        }
        pleat_cli_table_metrics(table, &metrics[i], unit.bytes);
    }
    return pleat_cli_table_print(table);
}

void pleat_cli_metrics_print_note(bool has_own_costs)
{
    (void)printf("Peaks: reserved is held from the device, active is in use (what any allocator "
                 "needs), wasted is\nthe difference, split lay free beside blocks in use (PyTorch "
                 "counts none in expandable segments),\nstuck lay free and could not go back "
                 "because blocks in use share its chunk. *: simulated, by %s;\nnot measured.\n",
                 has_own_costs ? "the cost table given" : "a cost table of an H200");
}

static void pleat_cli_words_setting(const pleat_metrics_t *metrics, bool has_modes)
{
    if (has_modes) {
        (void)printf("%s %s", metrics->mode, pleat_cli_conf_label(metrics->conf));
    } else {
        (void)printf("%s", pleat_cli_conf_label(metrics->conf));
    }
}

static void pleat_cli_words_one(const pleat_metrics_t *metrics)
{
    pleat_cli_size_unit_t unit = pleat_cli_unit_of(metrics, 1);
    double reserved = (double)metrics->reserved_peak_bytes / unit.bytes;
    double active = (double)metrics->active_peak_bytes / unit.bytes;
    double wasted = (double)pleat_cli_wasted_bytes(metrics) / unit.bytes;

    (void)printf("%s: up to %.2f %s held for %.2f %s in use; %.2f %s (%.1f %%) more than needed",
                 metrics->trace, reserved, unit.name, active, unit.name, wasted, unit.name,
                 reserved > 0.0 ? wasted / reserved * 100.0 : 0.0);
    if (metrics->num_alloc_retries > 0) {
        (void)printf(", and memory ran short %llu time%s",
                     (unsigned long long)metrics->num_alloc_retries,
                     metrics->num_alloc_retries == 1 ? "" : "s");
    }
    (void)puts(".");
}

/* Fewer failures first, then less memory. */
static bool pleat_cli_words_is_better(const pleat_metrics_t *a, const pleat_metrics_t *b)
{
    return a->num_ooms != b->num_ooms ? a->num_ooms < b->num_ooms
                                      : a->reserved_peak_bytes < b->reserved_peak_bytes;
}

static void pleat_cli_words_several(const pleat_metrics_t *metrics, size_t count)
{
    const pleat_metrics_t *best = metrics;
    const pleat_metrics_t *worst = metrics;
    bool has_modes = false;
    pleat_cli_size_unit_t unit = pleat_cli_unit_of(metrics, count);

    for (size_t i = 1; i < count; i++) {
        best = pleat_cli_words_is_better(&metrics[i], best) ? &metrics[i] : best;
        worst = pleat_cli_words_is_better(worst, &metrics[i]) ? &metrics[i] : worst;
        has_modes |= strcmp(metrics[i].mode, metrics[0].mode) != 0;
    }
    if (!pleat_cli_words_is_better(best, worst)) {
        (void)printf("%s: all hold the same, %.2f %s for %.2f %s in use.\n", metrics->trace,
                     (double)best->reserved_peak_bytes / unit.bytes, unit.name,
                     (double)best->active_peak_bytes / unit.bytes, unit.name);
        return;
    }
    (void)printf("%s: least with ", metrics->trace);
    pleat_cli_words_setting(best, has_modes);
    (void)printf(", %.2f %s for %.2f %s in use; ", (double)best->reserved_peak_bytes / unit.bytes,
                 unit.name, (double)best->active_peak_bytes / unit.bytes, unit.name);
    pleat_cli_words_setting(worst, has_modes);
    if (worst->reserved_peak_bytes >= best->reserved_peak_bytes) {
        (void)printf(" holds %.2f %s more.\n",
                     (double)(worst->reserved_peak_bytes - best->reserved_peak_bytes) / unit.bytes,
                     unit.name);
    } else {
        (void)puts(" fails more often.");
    }
}

void pleat_cli_metrics_print_words(const pleat_metrics_t *metrics, size_t count)
{
    if (count == 1) {
        pleat_cli_words_one(metrics);
    } else {
        pleat_cli_words_several(metrics, count);
    }
    for (size_t i = 0; i < count; i++) {
        if (metrics[i].num_ooms > 0) {
            (void)printf("%s, %s %s: %llu request%s failed, out of memory.\n", metrics[i].trace,
                         metrics[i].mode, pleat_cli_conf_label(metrics[i].conf),
                         (unsigned long long)metrics[i].num_ooms,
                         metrics[i].num_ooms == 1 ? "" : "s");
        }
    }
}
