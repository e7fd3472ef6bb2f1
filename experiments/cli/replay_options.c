/*
 * replay_options: reading and checking; texts of settings go through conf_text.
 */
#include "replay_options.h"
#include "conf_effect.h"
#include "conf_text.h"
#include "report.h"

#include "near_name.h"

#include "vmm/cost.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* Names of the modes, for messages. */
static const char *const pleat_cli_modes[] = {
#define PLEAT_CLI_MODE_NAME(name, text) text,
    PLEAT_MODE_LIST(PLEAT_CLI_MODE_NAME)
#undef PLEAT_CLI_MODE_NAME
};

pleat_trace_set_options_t pleat_cli_set_options(void)
{
    const long pages = sysconf(_SC_PHYS_PAGES);
    const long page_bytes = sysconf(_SC_PAGESIZE);
    uint64_t memory_bytes = PLEAT_TORCH_READ_MEMORY_BYTES;

    if (pages > 0 && page_bytes > 0 && (uint64_t)pages / 2 < memory_bytes / (uint64_t)page_bytes) {
        memory_bytes = (uint64_t)pages / 2 * (uint64_t)page_bytes;
    }
    return (pleat_trace_set_options_t){.memory_bytes = memory_bytes,
                                       .memory_name = "--snapshot-memory"};
}

int pleat_cli_set_options_take(pleat_trace_set_options_t *set, const pleat_cli_args_t *args,
                               int key)
{
    int wrong = 0;

    if (key == PLEAT_CLI_KEY_SNAPSHOT_DEVICE) {
        set->has_device = true;
        return pleat_cli_args_count(args, 0, UINT32_MAX - 1, &set->device);
    }
    wrong = pleat_cli_args_size(args, &set->memory_bytes);
    if (!wrong && set->memory_bytes == 0) {
        return pleat_cli_args_error(args->command,
                                    "--snapshot-memory: a snapshot needs at least 1 byte");
    }
    return wrong;
}

void pleat_cli_replay_options_init(pleat_cli_replay_options_t *options)
{
    *options = (pleat_cli_replay_options_t){
        .device_bytes = PLEAT_SIM_DEFAULT_CAPACITY_BYTES,
        .passes = 1,
        .set = pleat_cli_set_options(),
    };
}

static int pleat_cli_replay_mode_unknown(const pleat_cli_args_t *args, const char *word)
{
    const char *nearest = pleat_near_name_find(word, pleat_cli_modes, PLEAT_MODE_COUNT);
    return pleat_cli_args_error(args->command,
                                "--%s: '%s' is no mode%s%s%s; wanted is classic, torch_expandable "
                                "or pleated",
                                args->option_name, word, nearest ? " (did you mean '" : "",
                                nearest ? nearest : "", nearest ? "'?)" : "");
}

/* One mode of a list, @p length bytes at @p name. */
static int pleat_cli_replay_mode(pleat_cli_replay_options_t *options, const pleat_cli_args_t *args,
                                 const char *name, size_t length)
{
    char word[64];
    pleat_mode_t mode = PLEAT_MODE_CLASSIC;

    (void)snprintf(word, sizeof(word), "%.*s", (int)length, name);
    if (!pleat_mode_from_name(word, &mode)) {
        return pleat_cli_replay_mode_unknown(args, word);
    }
    for (size_t i = 0; i < options->mode_count; i++) {
        if (options->modes[i] == mode) {
            return pleat_cli_args_error(args->command, "--%s: mode '%s' is given twice",
                                        args->option_name, word);
        }
    }
    options->modes[options->mode_count++] = mode;
    return PLEAT_CLI_EXIT_GOOD;
}

static int pleat_cli_replay_modes(pleat_cli_replay_options_t *options, const pleat_cli_args_t *args,
                                  bool is_list)
{
    const char *at = args->value;

    options->mode_count = 0;
    for (;;) {
        size_t length = is_list ? strcspn(at, ",") : strlen(at);
        int wrong = pleat_cli_replay_mode(options, args, at, length);

        if (wrong || at[length] == '\0') {
            return wrong;
        }
        at += length + 1;
    }
}

static int pleat_cli_replay_costs(pleat_cli_replay_options_t *options, const char *path)
{
    char text[PLEAT_COST_TEXT_MAX + 1];
    bool is_stdin = strcmp(path, "-") == 0;
    FILE *file = is_stdin ? stdin : fopen(path, "re");

    if (!file) {
        return pleat_cli_error("--costs: %s: %s", path, strerror(errno));
    }
    size_t length = fread(text, 1, sizeof(text), file);
    int failed = ferror(file) ? errno : 0;
    if (!is_stdin) {
        (void)fclose(file);
    }
    if (failed) {
        return pleat_cli_error("--costs: %s: %s", path, strerror(failed));
    }
    if (length == sizeof(text)) {
        return pleat_cli_error("--costs: %s is longer than %zu bytes and so no cost table", path,
                               PLEAT_COST_TEXT_MAX);
    }
    const char *zero = memchr(text, '\0', length);
    if (zero) {
        return pleat_cli_error("--costs: %s: a zero byte at offset %td, so this is no text", path,
                               zero - text);
    }
    if (pleat_cost_table_read(text, length, &options->costs) != PLEAT_OK) {
        return pleat_cli_error("--costs: %s: %s", path, pleat_last_error());
    }
    options->has_costs = true;
    return PLEAT_CLI_EXIT_GOOD;
}

static int pleat_cli_replay_empty_cache(pleat_cli_replay_options_t *options,
                                        const pleat_cli_args_t *args)
{
    if (strcmp(args->value, "keep") != 0 && strcmp(args->value, "drop") != 0) {
        return pleat_cli_args_error(args->command, "--empty-cache: '%s': wanted is keep or drop",
                                    args->value);
    }
    options->drops_empty_cache = strcmp(args->value, "drop") == 0;
    return PLEAT_CLI_EXIT_GOOD;
}

static int pleat_cli_replay_conf(pleat_cli_replay_options_t *options, const pleat_cli_args_t *args)
{
    if (options->conf_count == PLEAT_CLI_SETTINGS_MAX) {
        return pleat_cli_args_error(args->command, "--conf: at most %d texts at a time",
                                    (int)PLEAT_CLI_SETTINGS_MAX);
    }
    for (size_t i = 0; i < options->conf_count; i++) {
        if (strcmp(options->confs[i], args->value) == 0) {
            return pleat_cli_args_error(args->command, "--conf: '%s' is given twice", args->value);
        }
    }
    options->confs[options->conf_count++] = args->value;
    return PLEAT_CLI_EXIT_GOOD;
}

static int pleat_cli_replay_device(pleat_cli_replay_options_t *options,
                                   const pleat_cli_args_t *args)
{
    int wrong = pleat_cli_args_size(args, &options->device_bytes);

    if (!wrong && options->device_bytes == 0) {
        return pleat_cli_args_error(args->command, "--device-memory: a device has at least 1 byte");
    }
    return wrong;
}

static int pleat_cli_replay_passes(pleat_cli_replay_options_t *options,
                                   const pleat_cli_args_t *args)
{
    uint64_t passes = 1;
    int wrong = pleat_cli_args_count(args, 1, PLEAT_CLI_PASSES_MAX, &passes);

    options->passes = (uint32_t)passes;
    return wrong;
}

static bool pleat_cli_has_suffix(const char *text, const char *suffix)
{
    size_t length = strlen(text);
    size_t suffix_length = strlen(suffix);

    return length > suffix_length && strcmp(text + length - suffix_length, suffix) == 0;
}

static int pleat_cli_replay_plot(pleat_cli_replay_options_t *options, const pleat_cli_args_t *args)
{
    const char *path = args->value;

    if (!pleat_cli_has_suffix(path, ".png") && !pleat_cli_has_suffix(path, ".pdf") &&
        !pleat_cli_has_suffix(path, ".svg")) {
        return pleat_cli_args_error(
            args->command, "--plot: '%s': the name of a picture ends with .png, .pdf or .svg",
            path);
    }
    options->plot_path = path;
    return PLEAT_CLI_EXIT_GOOD;
}

int pleat_cli_replay_options_take(pleat_cli_replay_options_t *options, const pleat_cli_args_t *args,
                                  int key)
{
    switch (key) {
    case PLEAT_CLI_KEY_MODE:
    case PLEAT_CLI_KEY_MODES:
        return pleat_cli_replay_modes(options, args, key == PLEAT_CLI_KEY_MODES);
    case PLEAT_CLI_KEY_CONF:
        return pleat_cli_replay_conf(options, args);
    case PLEAT_CLI_KEY_LIMIT:
        options->has_limit = true;
        return pleat_cli_args_size(args, &options->limit_bytes);
    case PLEAT_CLI_KEY_DEVICE_MEMORY:
        return pleat_cli_replay_device(options, args);
    case PLEAT_CLI_KEY_PASSES:
        return pleat_cli_replay_passes(options, args);
    case PLEAT_CLI_KEY_EMPTY_CACHE:
        return pleat_cli_replay_empty_cache(options, args);
    case PLEAT_CLI_KEY_PERTURB:
        options->is_perturbed = true;
        return pleat_cli_args_count(args, 0, UINT32_MAX, &options->perturb_seed);
    case PLEAT_CLI_KEY_COSTS:
        return pleat_cli_replay_costs(options, args->value);
    case PLEAT_CLI_KEY_TIMELINE:
        return pleat_cli_args_file(args, &options->timeline_path);
    case PLEAT_CLI_KEY_PLOT:
        return pleat_cli_replay_plot(options, args);
    case PLEAT_CLI_KEY_PERFETTO:
        return pleat_cli_args_file(args, &options->perfetto_path);
    case PLEAT_CLI_KEY_SNAPSHOT_DEVICE:
    case PLEAT_CLI_KEY_SNAPSHOT_MEMORY:
        return pleat_cli_set_options_take(&options->set, args, key);
    default: /* PLEAT_CLI_KEY_JSON */
        options->is_json = true;
        return PLEAT_CLI_EXIT_GOOD;
    }
}

/* The settings of a text in mode @p mode. */
static pleat_conf_t pleat_cli_replay_in_mode(const pleat_conf_t *settings, pleat_mode_t mode)
{
    pleat_conf_t conf = *settings;

    conf.settings[PLEAT_CONF_EXPANDABLE_SEGMENTS].number = mode == PLEAT_MODE_CLASSIC ? 0 : 1;
    conf.settings[PLEAT_CONF_EXPANDABLE_POLICY].number =
        mode == PLEAT_MODE_TORCH_EXPANDABLE ? PLEAT_CONF_POLICY_TORCH : PLEAT_CONF_POLICY_PLEATED;
    return conf;
}

/* The allocator's options for one text of settings, and the limit in every mode: a fraction of the
 * device is cut to bytes in one and rounded in another. */
static int pleat_cli_replay_apply(pleat_cli_replay_options_t *options, size_t index,
                                  pleat_conf_t *settings)
{
    const char *text = options->confs[index];
    pleat_options_t *allocator = &options->allocators[index];
    char notice[512];

    settings->has_limit = options->has_limit;
    int wrong = pleat_cli_conf_text_read(text, settings);
    if (wrong) {
        return wrong;
    }
    if (pleat_conf_notice(settings, notice, sizeof(notice)) > 0) {
        pleat_cli_warn("'%s': %s", text, notice);
    }
    *allocator = (pleat_options_t)PLEAT_OPTIONS_INIT;
    if (pleat_conf_apply(settings, options->device_bytes, allocator) != PLEAT_OK) {
        return pleat_cli_error("'%s': %s", text, pleat_last_error());
    }
    for (unsigned mode = 0; mode < PLEAT_MODE_COUNT; mode++) {
        const pleat_conf_t conf = pleat_cli_replay_in_mode(settings, (pleat_mode_t)mode);
        pleat_options_t applied = PLEAT_OPTIONS_INIT;

        if (pleat_conf_apply(&conf, options->device_bytes, &applied) != PLEAT_OK) {
            return pleat_cli_error("'%s': %s", text, pleat_last_error());
        }
        options->limits[index][mode] =
            options->has_limit ? options->limit_bytes : applied.limit_bytes;
    }
    if (options->has_limit) {
        allocator->limit_bytes = options->limit_bytes;
    }
    return PLEAT_CLI_EXIT_GOOD;
}

/* Modes that the user did not choose: all for a comparison, otherwise the one of the text. */
static void pleat_cli_replay_default_modes(pleat_cli_replay_options_t *options)
{
    if (!options->compares) {
        options->modes[options->mode_count++] = options->allocators[0].mode;
        return;
    }
    options->has_all_modes = true;
    for (int i = 0; i < (int)PLEAT_MODE_COUNT; i++) {
        options->modes[options->mode_count++] = (pleat_mode_t)i;
    }
}

int pleat_cli_replay_options_finish(pleat_cli_replay_options_t *options)
{
    pleat_cli_conf_effect_t effect = {{0}};

    options->has_all_modes = options->mode_count == 0 && options->compares;
    if (options->conf_count == 0) {
        options->confs[options->conf_count++] = "";
    }
    for (size_t i = 0; i < options->conf_count; i++) {
        pleat_conf_t settings = PLEAT_CONF_INIT;
        int wrong = pleat_cli_replay_apply(options, i, &settings);

        if (wrong) {
            return wrong;
        }
        if (options->mode_count == 0) {
            pleat_cli_replay_default_modes(options);
        }
        pleat_cli_conf_announce(&effect, &settings, options->allocators[i].mode, options->modes,
                                options->mode_count);
    }
    return PLEAT_CLI_EXIT_GOOD;
}
