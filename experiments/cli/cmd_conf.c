/*
 * cmd_conf: `pleat conf`, what an ALLOC_CONF text means.
 */
#include "args.h"
#include "conf_text.h"
#include "json.h"
#include "report.h"
#include "size.h"
#include "table.h"

#include <pleat/sim.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_AS_TORCH = 128, KEY_SOURCE, KEY_JSON };

enum { PLEAT_CLI_CONF_STDIN_BYTES = 65536 };

static const pleat_cli_option_t pleat_cli_conf_options[] = {
    {KEY_AS_TORCH, "as-torch", NULL,
     "read the text exactly as PyTorch 2.11 does, with its tolerance, its resets and its error "
     "texts; the default reading is strict"},
    {KEY_SOURCE, "source", "env|runtime",
     "where the text is taken to come from: the variable PYTORCH_CUDA_ALLOC_CONF at the start, or "
     "a call at run time"},
    {KEY_JSON, "json", NULL, "print one JSON object"},
};

typedef enum pleat_cli_conf_source {
    PLEAT_CLI_CONF_START,
    PLEAT_CLI_CONF_ENV,
    PLEAT_CLI_CONF_RUNTIME,
    PLEAT_CLI_CONF_PROCESS /* the variables of this process */
} pleat_cli_conf_source_t;

typedef struct pleat_cli_conf_call {
    const char *text; /* NULL: the variables of this process */
    pleat_conf_reading_t reading;
    pleat_cli_conf_source_t source;
    bool is_json;
} pleat_cli_conf_call_t;

static const char *pleat_cli_conf_lookup(void *context, const char *name)
{
    return strcmp(name, "PYTORCH_CUDA_ALLOC_CONF") == 0 ? context : NULL;
}

static pleat_status_t pleat_cli_conf_read(const pleat_cli_conf_call_t *call, pleat_conf_t *conf,
                                          pleat_conf_report_t *report)
{
    char *text = (char *)(uintptr_t)call->text; /* the lookup's context is not written to */

    switch (call->source) {
    case PLEAT_CLI_CONF_ENV:
        return pleat_conf_read_variables(conf, call->reading, pleat_cli_conf_lookup, text, report);
    case PLEAT_CLI_CONF_RUNTIME:
        return pleat_conf_read(conf, call->reading, call->text, report);
    case PLEAT_CLI_CONF_PROCESS:
        return pleat_conf_read_variables(conf, call->reading, pleat_conf_environment, NULL, report);
    case PLEAT_CLI_CONF_START:
        break;
    }
    return pleat_conf_read_start(conf, call->reading, call->text, report);
}

/* A number as JSON. The whole numbers of jansson are signed; what they cannot hold, and no
 * allocator uses, is given by its digits. */
static json_t *pleat_cli_conf_json_number(uint64_t number)
{
    return number <= INT64_MAX ? json_integer((json_int_t)number)
                               : json_sprintf("%llu", (unsigned long long)number);
}

/* The value of an option in its natural type; max_split_size is signed, -1 for unlimited. */
static json_t *pleat_cli_conf_json_value(const pleat_conf_t *conf, pleat_conf_option_t option,
                                         pleat_conf_type_t type, const char *text)
{
    const pleat_conf_setting_t *setting = &conf->settings[option];

    switch (type) {
    case PLEAT_CONF_BOOL:
        return json_boolean(setting->number != 0);
    case PLEAT_CONF_REAL:
        return json_real(setting->real);
    case PLEAT_CONF_WORD:
        return json_string(text);
    case PLEAT_CONF_BYTES:
    case PLEAT_CONF_MEGABYTES:
    case PLEAT_CONF_COUNT:
        return option == PLEAT_CONF_MAX_SPLIT_SIZE ? json_integer((json_int_t)setting->number)
                                                   : pleat_cli_conf_json_number(setting->number);
    case PLEAT_CONF_DIVISIONS:
        break;
    }
    json_t *list = json_array();
    for (size_t i = 0; i < PLEAT_ROUNDUP_ENTRIES; i++) {
        (void)json_array_append_new(list,
                                    pleat_cli_conf_json_number(conf->roundup_power2_divisions[i]));
    }
    return list;
}

/* The mode that the values choose. */
static pleat_mode_t pleat_cli_conf_mode(const pleat_conf_t *conf)
{
    pleat_options_t options = PLEAT_OPTIONS_INIT;
    pleat_status_t status = pleat_conf_apply_runtime(conf, &options);

    return status == PLEAT_OK ? options.mode : PLEAT_MODE_CLASSIC;
}

static json_t *pleat_cli_conf_json_options(const pleat_conf_t *conf)
{
    pleat_conf_t defaults = PLEAT_CONF_INIT;
    pleat_mode_t mode = pleat_cli_conf_mode(conf);
    json_t *options = json_object();

    for (int i = 0; i < (int)PLEAT_CONF_OPTION_COUNT; i++) {
        pleat_conf_description_t description = PLEAT_CONF_DESCRIPTION_INIT;
        pleat_conf_option_t option = (pleat_conf_option_t)i;

        if (pleat_conf_describe(conf, option, &description) != PLEAT_OK) {
            continue;
        }
        json_t *row = json_pack(
            "{s:s, s:o, s:o, s:b, s:s, s:b, s:b, s:s, s:s}", "name", description.value_name,
            "value", pleat_cli_conf_json_value(conf, option, description.type, description.value),
            "default",
            pleat_cli_conf_json_value(&defaults, option, description.type,
                                      description.default_value),
            "is_default", description.is_default, "source", description.source, "in_effect",
            description.in_effect, "acts_in_mode", pleat_conf_acts(option, mode), "allowed",
            description.allowed, "help", description.help);
        (void)json_object_set_new(options, description.key, row);
    }
    return options;
}

/* What came of a reading. */
typedef struct pleat_cli_conf_outcome {
    bool has_options;
    const char *obstacle; /* why no allocator can use them; "" if one can */
} pleat_cli_conf_outcome_t;

static int pleat_cli_conf_print_json(const pleat_cli_conf_call_t *call, const pleat_conf_t *conf,
                                     const pleat_conf_report_t *report,
                                     const pleat_cli_conf_outcome_t *outcome)
{
    json_t *object = json_object();
    json_t *warnings = json_array();

    (void)json_object_set_new(object, "text",
                              call->text ? pleat_cli_json_text(call->text) : json_null());
    (void)json_object_set_new(object, "reading",
                              json_string(call->reading == PLEAT_CONF_STRICT ? "strict" : "torch"));
    (void)json_object_set_new(object, "accepted", json_boolean(report->status == PLEAT_OK));
    for (size_t i = 0; i < report->warning_count; i++) {
        (void)json_array_append_new(warnings, json_string(report->warnings[i]));
    }
    if (outcome->obstacle[0]) {
        (void)json_array_append_new(warnings, json_string(outcome->obstacle));
    }
    (void)json_object_set_new(object, "warnings", warnings);
    if (report->status != PLEAT_OK) {
        (void)json_object_set_new(object, "error", json_string(report->message));
        (void)json_object_set_new(object, "column", json_integer((json_int_t)report->column));
        (void)json_object_set_new(object, "python_class", json_string(report->python_class));
    }
    if (outcome->has_options) {
        (void)json_object_set_new(object, "mode",
                                  json_string(pleat_mode_name(pleat_cli_conf_mode(conf))));
        (void)json_object_set_new(object, "options", pleat_cli_conf_json_options(conf));
    }
    return pleat_cli_json_print(object);
}

/* The round-up table with runs of equal entries drawn together: "1 x9, 2, 4, 8 x5". */
static void pleat_cli_conf_divisions(pleat_cli_table_t *table, const char *value)
{
    char text[PLEAT_CONF_VALUE_BYTES * 2];
    size_t used = 0;

    while (*value && used + 32 < sizeof(text)) {
        size_t length = strcspn(value, ",");
        const char *entry = value;
        int run = 0;

        while (strncmp(value, entry, length) == 0 && strcspn(value, ",") == length && *value) {
            run++;
            value += length;
            value += *value == ',' ? 1 : 0;
        }
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%.*s", used > 0 ? ", " : "",
                                 (int)(length < 20 ? length : 20), entry);
        if (run > 1 && (*value || used > length)) {
            used += (size_t)snprintf(text + used, sizeof(text) - used, " x%d", run);
        }
    }
    pleat_cli_table_text(table, text);
}

/* Sizes are kept in bytes; people read them with a unit. */
static void pleat_cli_conf_cell(pleat_cli_table_t *table,
                                const pleat_conf_description_t *description, const char *value)
{
    char text[32];

    if (description->type == PLEAT_CONF_DIVISIONS) {
        pleat_cli_conf_divisions(table, value);
        return;
    }
    if (description->type != PLEAT_CONF_BYTES) {
        pleat_cli_table_text(table, value);
        return;
    }
    if (strcmp(value, "-1") == 0) {
        pleat_cli_table_text(table, "unlimited");
        return;
    }
    unsigned long long bytes = strtoull(value, NULL, 10);
    if (value[0] == '-' || bytes % (1 << 20) != 0) {
        pleat_cli_table_text(table, value);
        return;
    }
    (void)snprintf(text, sizeof(text), "%llu MiB", bytes >> 20);
    pleat_cli_table_text(table, text);
}

/* What a reader must know beside the help. */
static const char *pleat_cli_conf_remark(const pleat_conf_description_t *description, bool acts)
{
    if (!description->in_effect) {
        return " (not in effect yet)";
    }
    return acts || description->is_default ? "" : " (no effect in this mode)";
}

static int pleat_cli_conf_print_table(const pleat_conf_t *conf)
{
    pleat_cli_table_t *table = pleat_cli_table_create();
    pleat_mode_t mode = pleat_cli_conf_mode(conf);
    char notice[512];

    pleat_cli_table_column(table, "option", PLEAT_CLI_LEFT);
    pleat_cli_table_column(table, "value", PLEAT_CLI_LEFT);
    pleat_cli_table_column(table, "default", PLEAT_CLI_LEFT);
    pleat_cli_table_column(table, "from", PLEAT_CLI_LEFT);
    pleat_cli_table_column(table, "meaning", PLEAT_CLI_LEFT);
    for (int i = 0; i < (int)PLEAT_CONF_OPTION_COUNT; i++) {
        pleat_conf_description_t description = PLEAT_CONF_DESCRIPTION_INIT;

        if (pleat_conf_describe(conf, (pleat_conf_option_t)i, &description) != PLEAT_OK) {
            continue;
        }
        pleat_cli_table_row(table);
        pleat_cli_table_text(table, description.key);
        pleat_cli_conf_cell(table, &description, description.value);
        pleat_cli_conf_cell(table, &description, description.default_value);
        pleat_cli_table_text(table, description.source);
        pleat_cli_table_cell(
            table, "%s%s", description.help,
            pleat_cli_conf_remark(&description, pleat_conf_acts((pleat_conf_option_t)i, mode)));
    }
    int exit_status = pleat_cli_table_print(table);
    if (exit_status == PLEAT_CLI_EXIT_GOOD) {
        (void)printf("mode: %s\n", pleat_mode_name(mode));
    }
    if (pleat_conf_notice(conf, notice, sizeof(notice)) > 0) {
        pleat_cli_warn("%s", notice);
    }
    return exit_status;
}

/* The text from standard input, without the line end. */
static int pleat_cli_conf_read_stdin(char *buffer, size_t buffer_bytes)
{
    size_t length = fread(buffer, 1, buffer_bytes, stdin);

    if (ferror(stdin)) {
        return pleat_cli_error("standard input cannot be read");
    }
    if (length == buffer_bytes) {
        return pleat_cli_error("the text on standard input is longer than %zu bytes",
                               buffer_bytes - 1);
    }
    if (memchr(buffer, '\0', length)) {
        return pleat_cli_error("the text on standard input holds a zero byte at offset %zu",
                               strnlen(buffer, length));
    }
    if (length > 0 && buffer[length - 1] == '\n') {
        length--;
    }
    buffer[length] = '\0';
    return PLEAT_CLI_EXIT_GOOD;
}

/* Can an allocator use these values? PyTorch accepts some that none can. "" if so, else why not. */
static void pleat_cli_conf_check(const pleat_conf_t *conf, char *obstacle, size_t obstacle_bytes)
{
    pleat_options_t options = PLEAT_OPTIONS_INIT;
    pleat_status_t status = pleat_conf_apply(conf, PLEAT_SIM_DEFAULT_CAPACITY_BYTES, &options);

    (void)snprintf(obstacle, obstacle_bytes, "%s%s",
                   status == PLEAT_OK ? "" : "no allocator can use these settings: ",
                   status == PLEAT_OK ? "" : pleat_last_error());
}

static int pleat_cli_conf_execute(const pleat_cli_conf_call_t *call)
{
    pleat_conf_t conf = PLEAT_CONF_INIT;
    pleat_conf_report_t report = PLEAT_CONF_REPORT_INIT;
    pleat_status_t status = pleat_cli_conf_read(call, &conf, &report);

    if (status == PLEAT_ERR_OOM_HOST) {
        return pleat_cli_error("%s", pleat_last_error());
    }
    report.status = status;
    pleat_cli_conf_text_report(call->text, &report);
    /* PyTorch keeps what stood before an error at run time; the strict reading keeps nothing. */
    bool has_options = status == PLEAT_OK || (call->reading == PLEAT_CONF_TORCH &&
                                              call->source == PLEAT_CLI_CONF_RUNTIME);
    char obstacle[512] = "";
    if (has_options) {
        pleat_cli_conf_check(&conf, obstacle, sizeof(obstacle));
    }
    if (obstacle[0]) {
        pleat_cli_warn("%s", obstacle);
    }
    int exit_status = PLEAT_CLI_EXIT_GOOD;
    if (call->is_json) {
        exit_status = pleat_cli_conf_print_json(call, &conf, &report,
                                                &(pleat_cli_conf_outcome_t){has_options, obstacle});
    } else if (has_options) {
        exit_status = pleat_cli_conf_print_table(&conf);
    }
    return status == PLEAT_OK ? exit_status : PLEAT_CLI_EXIT_USAGE;
}

static int pleat_cli_conf_source_option(const pleat_cli_args_t *args,
                                        pleat_cli_conf_source_t *source_out)
{
    if (strcmp(args->value, "env") == 0) {
        *source_out = PLEAT_CLI_CONF_ENV;
    } else if (strcmp(args->value, "runtime") == 0) {
        *source_out = PLEAT_CLI_CONF_RUNTIME;
    } else {
        return pleat_cli_args_error(
            args->command, "--source: '%s' is no source: wanted is env or runtime", args->value);
    }
    return PLEAT_CLI_EXIT_GOOD;
}

static int pleat_cli_conf_run(const pleat_cli_command_t *command, int argc, char **argv)
{
    static char buffer[PLEAT_CLI_CONF_STDIN_BYTES];
    pleat_cli_conf_call_t call = {.reading = PLEAT_CONF_STRICT};
    pleat_cli_args_t args;
    int key = 0;
    int wrong = 0;

    pleat_cli_args_init(&args, command, argc, argv);
    while ((key = pleat_cli_args_next(&args)) != PLEAT_CLI_ARGS_END) {
        if (key == KEY_AS_TORCH) {
            call.reading = PLEAT_CONF_TORCH;
        } else if (key == KEY_JSON) {
            call.is_json = true;
        } else if (key == KEY_SOURCE) {
            wrong = pleat_cli_conf_source_option(&args, &call.source);
        } else {
            return args.exit_status;
        }
        if (wrong) {
            return wrong;
        }
    }
    if (argc - args.first_operand > 1) {
        return pleat_cli_args_error(command,
                                    "wanted is one text, %d given; quote it if it has "
                                    "blanks",
                                    argc - args.first_operand);
    }
    call.text = args.first_operand < argc ? argv[args.first_operand] : NULL;
    if (!call.text && call.source == PLEAT_CLI_CONF_RUNTIME) {
        return pleat_cli_args_error(command, "a text is missing: what is set at run time?");
    }
    if (!call.text) {
        call.source = PLEAT_CLI_CONF_PROCESS;
    } else if (strcmp(call.text, "-") == 0) {
        wrong = pleat_cli_conf_read_stdin(buffer, sizeof(buffer));
        call.text = buffer;
    }
    return wrong ? wrong : pleat_cli_conf_execute(&call);
}

const pleat_cli_command_t pleat_cli_conf = {
    .name = "conf",
    .brief = "say what an ALLOC_CONF text means, or what is wrong with it",
    .operands = "[STRING]",
    .description =
        "Reads an ALLOC_CONF text and prints every option with its value, its default\n"
        "and where the value came from, or the error with the column where the text goes\n"
        "wrong. '-' reads the text from standard input. Without STRING the variables of\n"
        "the environment are read: PLEAT_ALLOC_CONF, PYTORCH_CUDA_ALLOC_CONF,\n"
        "PYTORCH_ALLOC_CONF, the first that exists.\n"
        "A text that is refused ends with status 2.",
    .examples = "  pleat conf max_split_size_mb:128,garbage_collection_threshold:0.8\n"
                "  pleat conf --as-torch --source runtime 'max_split_size_mb:30;backend:native'",
    .options = pleat_cli_conf_options,
    .option_count = sizeof(pleat_cli_conf_options) / sizeof(pleat_cli_conf_options[0]),
    .run = pleat_cli_conf_run,
};
