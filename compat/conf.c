/*
 * conf: the table of options, the entry points of both readings, and the way from a configuration
 * to the options of an allocator (pleat/conf.h, conf.h).
 *
 * A configuration of a caller is copied to full size first and written back last, so that a refused
 * text cannot leave a half-changed one behind. No state, no lock.
 */
#include "conf.h"

#include "conf_strict.h"
#include "conf_torch.h"
#include "vmm/base.h"

#include <stdlib.h>
#include <string.h>

const pleat_conf_key_t pleat_conf_keys[PLEAT_CONF_OPTION_COUNT] = {
#define CONF_KEY(name, key, second, value, parser, type, bounds, initial, smallest, largest, \
                 words, in_effect, help)                                                     \
    {key,                                                                                    \
     second,                                                                                 \
     value,                                                                                  \
     PLEAT_CONF_##parser,                                                                    \
     PLEAT_CONF_##type,                                                                      \
     PLEAT_CONF_##bounds,                                                                    \
     (uint64_t)(initial),                                                                    \
     (double)(initial),                                                                      \
     smallest,                                                                               \
     largest,                                                                                \
     words,                                                                                  \
     in_effect,                                                                              \
     help},
    PLEAT_CONF_KEY_LIST(CONF_KEY)
#undef CONF_KEY
};

const char *pleat_conf_source_text(pleat_conf_source_t source)
{
    static const char *const texts[] = {
#define CONF_SOURCE_TEXT(name, text) text,
        PLEAT_CONF_SOURCE_LIST(CONF_SOURCE_TEXT)
#undef CONF_SOURCE_TEXT
    };
    return (size_t)source < PLEAT_CONF_SOURCE_COUNT ? texts[source] : "unknown";
}

static bool conf_equals(const char *name, const char *bytes, size_t byte_count)
{
    return byte_count > 0 && strlen(name) == byte_count && memcmp(name, bytes, byte_count) == 0;
}

pleat_conf_option_t pleat_conf_find_bytes(const char *bytes, size_t byte_count)
{
    size_t option = 0;
    while (option < PLEAT_CONF_OPTION_COUNT &&
           !conf_equals(pleat_conf_keys[option].key, bytes, byte_count) &&
           !conf_equals(pleat_conf_keys[option].second_key, bytes, byte_count)) {
        option++;
    }
    return (pleat_conf_option_t)option;
}

pleat_conf_option_t pleat_conf_find(const char *key)
{
    return key != NULL ? pleat_conf_find_bytes(key, strlen(key)) : PLEAT_CONF_OPTION_COUNT;
}

bool pleat_conf_find_word(pleat_conf_option_t option, const char *bytes, size_t byte_count,
                          uint64_t *number_out)
{
    const char *word = pleat_conf_keys[option].words;
    for (uint64_t number = 0; *word != '\0'; number++) {
        const size_t length = strcspn(word, "|");
        if (length == byte_count && memcmp(word, bytes, length) == 0) {
            *number_out = number;
            return true;
        }
        word += length + (word[length] == '|' ? 1 : 0);
    }
    return false;
}

void pleat_conf_append_word(pleat_text_t *text, pleat_conf_option_t option, uint64_t number)
{
    const char *word = pleat_conf_keys[option].words;
    while (number > 0 && *word != '\0') {
        const size_t length = strcspn(word, "|");
        word += length + (word[length] == '|' ? 1 : 0);
        number--;
    }
    pleat_text_append(text, "%.*s", (int)strcspn(word, "|"), word);
}

void pleat_conf_set_number(pleat_conf_t *conf, pleat_conf_option_t option, uint64_t number,
                           pleat_conf_source_t source)
{
    conf->settings[option].number = number;
    conf->settings[option].source = source;
}

void pleat_conf_set_real(pleat_conf_t *conf, pleat_conf_option_t option, double real,
                         pleat_conf_source_t source)
{
    conf->settings[option].real = real;
    conf->settings[option].source = source;
}

void pleat_conf_reset(pleat_conf_t *conf, pleat_conf_option_t option)
{
    if (pleat_conf_keys[option].type == PLEAT_CONF_DIVISIONS) {
        memset(conf->roundup_power2_divisions, 0, sizeof conf->roundup_power2_divisions);
    }
    conf->settings[option].number = pleat_conf_keys[option].initial_number;
    conf->settings[option].real = pleat_conf_keys[option].initial_real;
    conf->settings[option].source = PLEAT_CONF_SOURCE_DEFAULT;
}

void pleat_conf_list_interval(pleat_conf_list_t *list, uint64_t interval_mb, uint64_t divisions)
{
    const unsigned exponent = pleat_log2_floor(interval_mb);
    const size_t index = exponent < PLEAT_CONF_ROUNDUP_LAST ? exponent : PLEAT_CONF_ROUNDUP_LAST;
    for (size_t below = 0; !list->has_number && below < index; below++) {
        list->table[below] = divisions;
        list->covered |= UINT32_C(1) << below;
    }
    list->table[index] = divisions;
    list->covered |= UINT32_C(1) << index;
    list->has_number = true;
    list->last_index = index;
}

void pleat_conf_list_rest(pleat_conf_list_t *list, uint64_t divisions)
{
    for (size_t index = list->last_index + 1; index < PLEAT_ROUNDUP_ENTRIES; index++) {
        list->table[index] = divisions;
        list->covered |= UINT32_C(1) << index;
    }
}

/* Copy a caller's configuration to full size; false: it was never set up. */
static bool conf_import(const pleat_conf_t *conf, pleat_conf_t *full)
{
    if (conf == NULL || conf->size < offsetof(pleat_conf_t, settings)) {
        return false;
    }
    *full = (pleat_conf_t)PLEAT_CONF_INIT;
    memcpy(full, conf, conf->size < sizeof *full ? conf->size : sizeof *full);
    full->size = sizeof *full;
    return true;
}

static void conf_export(const pleat_conf_t *full, pleat_conf_t *conf)
{
    const size_t size = conf->size;
    memcpy(conf, full, size < sizeof *full ? size : sizeof *full);
    conf->size = size;
}

/* Hand the report to the caller, and the error to pleat_last_error. */
static pleat_status_t conf_finish(pleat_status_t status, pleat_conf_report_t *full,
                                  pleat_conf_report_t *report)
{
    full->status = status;
    if (status != PLEAT_OK) {
        pleat_error_set("%s", full->message);
    }
    if (report != NULL && report->size >= sizeof report->size) {
        const size_t size = report->size;
        full->size = size;
        memcpy(report, full, size < sizeof *full ? size : sizeof *full);
    }
    return status;
}

static pleat_status_t conf_refuse(const char *message, pleat_conf_report_t *report)
{
    pleat_conf_report_t full = PLEAT_CONF_REPORT_INIT;
    pleat_text_t text = pleat_text_begin(full.message, sizeof full.message);
    pleat_text_append(&text, "%s", message);
    full.python_class = "ValueError";
    return conf_finish(PLEAT_ERR_INVALID, &full, report);
}

#define CONF_NOT_SET_UP "the configuration is NULL or was not set up with PLEAT_CONF_INIT"
#define CONF_NO_TEXT "the configuration text is NULL; the empty text is \"\""

pleat_status_t pleat_conf_read(pleat_conf_t *conf, pleat_conf_reading_t reading, const char *text,
                               pleat_conf_report_t *report)
{
    pleat_conf_t full;
    if (!conf_import(conf, &full)) {
        return conf_refuse(CONF_NOT_SET_UP, report);
    }
    if (text == NULL) {
        return conf_refuse(CONF_NO_TEXT, report);
    }
    pleat_conf_report_t full_report = PLEAT_CONF_REPORT_INIT;
    const bool is_torch = reading == PLEAT_CONF_TORCH;
    const pleat_status_t status =
        is_torch ? pleat_conf_torch_runtime(&full, text, &full_report)
                 : pleat_conf_strict_read(&full, PLEAT_CONF_SOURCE_RUNTIME, text, &full_report);
    /* PyTorch applies what stands before an error. */
    if (status == PLEAT_OK || (is_torch && status == PLEAT_ERR_INVALID)) {
        conf_export(&full, conf);
    }
    return conf_finish(status, &full_report, report);
}

/* The limit is taken from the fraction once, when the allocator is made. */
static void conf_note_limit(pleat_conf_t *conf)
{
    if (conf->settings[PLEAT_CONF_PER_PROCESS_MEMORY_FRACTION].real < 1.0) {
        conf->has_limit = true;
    }
}

static pleat_status_t conf_start_torch(pleat_conf_t *conf, const pleat_conf_torch_texts_t *texts,
                                       pleat_conf_report_t *report)
{
    pleat_conf_t full;
    if (!conf_import(conf, &full)) {
        return conf_refuse(CONF_NOT_SET_UP, report);
    }
    pleat_conf_report_t full_report = PLEAT_CONF_REPORT_INIT;
    const pleat_status_t status = pleat_conf_torch_start(&full, texts, &full_report);
    if (status == PLEAT_OK) {
        conf_note_limit(&full);
        conf_export(&full, conf);
    }
    return conf_finish(status, &full_report, report);
}

/* `warning`: "" or what to say of the variables if the text is accepted. */
static pleat_status_t conf_start_strict(pleat_conf_t *conf, pleat_conf_source_t source,
                                        const char *text, const char *warning,
                                        pleat_conf_report_t *report)
{
    pleat_conf_t full;
    if (!conf_import(conf, &full)) {
        return conf_refuse(CONF_NOT_SET_UP, report);
    }
    pleat_conf_report_t full_report = PLEAT_CONF_REPORT_INIT;
    pleat_status_t status = PLEAT_OK;
    if (text != NULL) {
        status = pleat_conf_strict_read(&full, source, text, &full_report);
    }
    if (status == PLEAT_OK) {
        if (warning[0] != '\0') {
            pleat_conf_warn(&full_report, "%s", warning);
        }
        conf_note_limit(&full);
        conf_export(&full, conf);
    }
    return conf_finish(status, &full_report, report);
}

pleat_status_t pleat_conf_read_start(pleat_conf_t *conf, pleat_conf_reading_t reading,
                                     const char *text, pleat_conf_report_t *report)
{
    if (text == NULL) {
        return conf_refuse(CONF_NO_TEXT, report);
    }
    if (reading == PLEAT_CONF_TORCH) {
        const pleat_conf_torch_texts_t texts = {text, PLEAT_CONF_SOURCE_START, text,
                                                PLEAT_CONF_SOURCE_START};
        return conf_start_torch(conf, &texts, report);
    }
    return conf_start_strict(conf, PLEAT_CONF_SOURCE_START, text, "", report);
}

const char *pleat_conf_environment(void *context, const char *name)
{
    (void)context;
    return getenv(name);
}

/* Text of the first source that exists, NULL without any. */
static const char *conf_first(const char *const *values, const pleat_conf_source_t *order,
                              size_t order_count, pleat_conf_source_t *source_out)
{
    for (size_t i = 0; i < order_count; i++) {
        if (values[order[i]] != NULL) {
            *source_out = order[i];
            return values[order[i]];
        }
    }
    return NULL;
}

static pleat_status_t conf_variables_torch(pleat_conf_t *conf, const char *const *values,
                                           pleat_conf_report_t *report)
{
    static const pleat_conf_source_t order[] = {PLEAT_CONF_SOURCE_PYTORCH_CUDA_ALLOC_CONF,
                                                PLEAT_CONF_SOURCE_PYTORCH_HIP_ALLOC_CONF,
                                                PLEAT_CONF_SOURCE_PYTORCH_ALLOC_CONF};
    static const pleat_conf_source_t cuda_order[] = {PLEAT_CONF_SOURCE_PYTORCH_CUDA_ALLOC_CONF,
                                                     PLEAT_CONF_SOURCE_PYTORCH_ALLOC_CONF};
    pleat_conf_torch_texts_t texts = {0};
    texts.cuda = conf_first(values, cuda_order, 2, &texts.cuda_source);
    texts.generic = conf_first(values, order, 3, &texts.generic_source);
    return conf_start_torch(conf, &texts, report);
}

static pleat_status_t conf_variables_strict(pleat_conf_t *conf, const char *const *values,
                                            pleat_conf_report_t *report)
{
    static const pleat_conf_source_t order[] = {PLEAT_CONF_SOURCE_PLEAT_ALLOC_CONF,
                                                PLEAT_CONF_SOURCE_PYTORCH_CUDA_ALLOC_CONF,
                                                PLEAT_CONF_SOURCE_PYTORCH_ALLOC_CONF};
    pleat_conf_source_t source = PLEAT_CONF_SOURCE_DEFAULT;
    const char *used = conf_first(values, order, 3, &source);
    char warning[PLEAT_CONF_WARNING_BYTES];
    pleat_text_t text = pleat_text_begin(warning, sizeof warning);
    for (size_t i = 0; i < 3; i++) {
        if (values[order[i]] != NULL && strcmp(values[order[i]], used) != 0) {
            pleat_text_append(&text, "%s%s", text.length > 0 ? ", " : "",
                              pleat_conf_source_text(order[i]));
        }
    }
    if (text.length > 0) {
        pleat_text_append(&text, " and %s differ; %s is used", pleat_conf_source_text(source),
                          pleat_conf_source_text(source));
    }
    return conf_start_strict(conf, source, used, warning, report);
}

pleat_status_t pleat_conf_read_variables(pleat_conf_t *conf, pleat_conf_reading_t reading,
                                         pleat_conf_lookup_fn_t lookup, void *context,
                                         pleat_conf_report_t *report)
{
    if (lookup == NULL) {
        return conf_refuse("the lookup of variables is NULL; pleat_conf_environment is one",
                           report);
    }
    const char *values[PLEAT_CONF_SOURCE_COUNT] = {0};
    for (size_t source = PLEAT_CONF_SOURCE_PLEAT_ALLOC_CONF;
         source <= PLEAT_CONF_SOURCE_PYTORCH_ALLOC_CONF; source++) {
        values[source] = lookup(context, pleat_conf_source_text((pleat_conf_source_t)source));
    }
    return reading == PLEAT_CONF_TORCH ? conf_variables_torch(conf, values, report)
                                       : conf_variables_strict(conf, values, report);
}

/* Largest value of each option of an allocator. */
static const struct {
#define CONF_BOUND_FIELD(name, type, initial, smallest, largest, unit, help) type name;
    PLEAT_OPTION_LIST(CONF_BOUND_FIELD)
#undef CONF_BOUND_FIELD
} conf_largest = {
#define CONF_BOUND(name, type, initial, smallest, largest, unit, help) .name = (largest),
    PLEAT_OPTION_LIST(CONF_BOUND)
#undef CONF_BOUND
};

/* The mode and the options of pleated mode. */
static void conf_apply_modes(const pleat_conf_setting_t *settings, pleat_options_t *options)
{
    const pleat_mode_t expandable =
        settings[PLEAT_CONF_EXPANDABLE_POLICY].number == PLEAT_CONF_POLICY_TORCH
            ? PLEAT_MODE_TORCH_EXPANDABLE
            : PLEAT_MODE_PLEATED;
    options->mode =
        settings[PLEAT_CONF_EXPANDABLE_SEGMENTS].number != 0 ? expandable : PLEAT_MODE_CLASSIC;
    options->pleated_slack = settings[PLEAT_CONF_PLEATED_SLACK].real;
    options->pleated_handle_fraction = settings[PLEAT_CONF_PLEATED_HANDLE_FRACTION].real;
    options->pleated_handle_min_bytes = settings[PLEAT_CONF_PLEATED_HANDLE_MIN].number;
    options->pleated_handle_max_bytes = settings[PLEAT_CONF_PLEATED_HANDLE_MAX].number;
    options->pleated_view_mappings = settings[PLEAT_CONF_PLEATED_VIEW_MAPPINGS].number;
    options->pleated_idle_ms = settings[PLEAT_CONF_PLEATED_IDLE_MS].number;
    options->pleated_growth_factor = settings[PLEAT_CONF_GROWTH_FACTOR].real;
}

/* PyTorch cuts the product to whole bytes, which can land one byte below what was meant; our own
 * mode takes the nearest. */
static uint64_t conf_limit_bytes(double bytes, pleat_mode_t mode)
{
    const uint64_t whole_bytes = (uint64_t)bytes;
    return mode == PLEAT_MODE_PLEATED && bytes - (double)whole_bytes >= 0.5 ? whole_bytes + 1
                                                                            : whole_bytes;
}

static pleat_status_t conf_apply(const pleat_conf_t *conf, const uint64_t *device_total_bytes,
                                 pleat_options_t *options)
{
    pleat_conf_t full;
    if (!conf_import(conf, &full)) {
        pleat_error_set("%s", CONF_NOT_SET_UP);
        return PLEAT_ERR_INVALID;
    }
    if (options == NULL || options->size < sizeof options->size) {
        pleat_error_set("the options are NULL or were not set up with PLEAT_OPTIONS_INIT");
        return PLEAT_ERR_INVALID;
    }
    const pleat_conf_setting_t *settings = full.settings;
    const uint64_t large_segment_bytes = settings[PLEAT_CONF_LARGE_SEGMENT_SIZE].number;
    if (large_segment_bytes > conf_largest.large_segment_bytes) {
        pleat_error_set("large_segment_size_mb is %llu, at most %llu can be used",
                        (unsigned long long)(large_segment_bytes / PLEAT_MIB),
                        (unsigned long long)(conf_largest.large_segment_bytes / PLEAT_MIB));
        return PLEAT_ERR_INVALID;
    }
    const size_t size = options->size;
    pleat_options_t result = PLEAT_OPTIONS_INIT;
    memcpy(&result, options, size < sizeof result ? size : sizeof result);
    memcpy(result.roundup_power2_divisions, full.roundup_power2_divisions,
           sizeof result.roundup_power2_divisions);
    result.large_segment_bytes = large_segment_bytes;
    result.max_split_bytes = settings[PLEAT_CONF_MAX_SPLIT_SIZE].number;
    result.max_non_split_rounding_bytes = settings[PLEAT_CONF_MAX_NON_SPLIT_ROUNDING].number;
    result.garbage_collection_threshold = settings[PLEAT_CONF_GARBAGE_COLLECTION_THRESHOLD].real;
    result.release_lock_on_alloc = settings[PLEAT_CONF_RELEASE_LOCK_ON_CUDAMALLOC].number;
    result.reuse_in_capture = settings[PLEAT_CONF_GRAPH_CAPTURE_RECORD_STREAM_REUSE].number;
    conf_apply_modes(settings, &result);
    if (device_total_bytes != NULL) {
        const double fraction = settings[PLEAT_CONF_PER_PROCESS_MEMORY_FRACTION].real;
        result.limit_bytes =
            fraction < 1.0 ? conf_limit_bytes(fraction * (double)*device_total_bytes, result.mode)
                           : PLEAT_NO_LIMIT;
    }
    memcpy(options, &result, size < sizeof result ? size : sizeof result);
    options->size = size;
    return PLEAT_OK;
}

pleat_status_t pleat_conf_apply(const pleat_conf_t *conf, uint64_t device_total_bytes,
                                pleat_options_t *options)
{
    return conf_apply(conf, &device_total_bytes, options);
}

pleat_status_t pleat_conf_apply_runtime(const pleat_conf_t *conf, pleat_options_t *options)
{
    return conf_apply(conf, NULL, options);
}
