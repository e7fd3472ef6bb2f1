/*
 * conf_describe: a configuration in words: values, what may stand for them, and what has no effect
 * (pleat/conf.h, conf.h). No state, no lock.
 */
#include "conf.h"
#include "vmm/base.h"

#include <string.h>

static void describe_append_segment_bounds(pleat_text_t *text, const pleat_conf_key_t *key,
                                           uint64_t segment_mb)
{
    switch (key->bounds) {
    case PLEAT_CONF_SEGMENT:
        pleat_text_append(text, ", at least %llu (the large segment size)",
                          (unsigned long long)segment_mb);
        break;
    case PLEAT_CONF_ABOVE:
        pleat_text_append(text, ", above %llu", (unsigned long long)key->smallest);
        break;
    case PLEAT_CONF_FROM_TO:
        pleat_text_append(text, ", at least %llu", (unsigned long long)key->smallest);
        if (key->largest < UINT64_MAX / PLEAT_MIB) {
            pleat_text_append(text, " and at most %llu", (unsigned long long)key->largest);
        }
        break;
    case PLEAT_CONF_POWER_OF_TWO:
        pleat_text_append(text, " that is a power of two, at most %llu",
                          (unsigned long long)key->largest);
        break;
    case PLEAT_CONF_ANY:
    case PLEAT_CONF_BETWEEN:
        break;
    }
}

static void describe_append_words(pleat_text_t *text, const char *words)
{
    while (*words != '\0') {
        const size_t length = strcspn(words, "|");
        const char *rest = words + length + (words[length] == '|' ? 1 : 0);
        const char *joint = *rest == '\0' ? "" : strchr(rest, '|') != NULL ? ", " : " or ";
        pleat_text_append(text, "%.*s%s", (int)length, words, joint);
        words = rest;
    }
}

void pleat_conf_append_allowed(pleat_text_t *text, pleat_conf_option_t option, uint64_t segment_mb)
{
    const pleat_conf_key_t *key = &pleat_conf_keys[option];
    switch (key->type) {
    case PLEAT_CONF_BOOL:
        pleat_text_append(text, "True or False");
        break;
    case PLEAT_CONF_BYTES:
    case PLEAT_CONF_MEGABYTES:
        pleat_text_append(text, "a whole number of MB");
        describe_append_segment_bounds(text, key, segment_mb);
        break;
    case PLEAT_CONF_COUNT:
        pleat_text_append(text, "a whole number");
        describe_append_segment_bounds(text, key, segment_mb);
        break;
    case PLEAT_CONF_REAL:
        pleat_text_append(text,
                          key->bounds == PLEAT_CONF_BETWEEN ? "a number above %llu and below %llu"
                                                            : "a number from %llu to %llu",
                          (unsigned long long)key->smallest, (unsigned long long)key->largest);
        break;
    case PLEAT_CONF_WORD:
        describe_append_words(text, key->words);
        break;
    case PLEAT_CONF_DIVISIONS:
        pleat_text_append(text, "a whole number that is a power of two, or a list "
                                "[MB:divisions,...,>:divisions]");
        break;
    }
}

static void describe_append_value(pleat_text_t *text, const pleat_conf_t *conf,
                                  pleat_conf_option_t option)
{
    const pleat_conf_setting_t *setting = &conf->settings[option];
    switch (pleat_conf_keys[option].type) {
    case PLEAT_CONF_BOOL:
        pleat_text_append(text, "%s", setting->number != 0 ? "True" : "False");
        break;
    case PLEAT_CONF_BYTES:
    case PLEAT_CONF_MEGABYTES:
    case PLEAT_CONF_COUNT:
        /* PyTorch keeps this one, and shows it, as a signed number. */
        if (option == PLEAT_CONF_MAX_SPLIT_SIZE) {
            pleat_text_append(text, "%lld", (long long)setting->number);
        } else {
            pleat_text_append(text, "%llu", (unsigned long long)setting->number);
        }
        break;
    case PLEAT_CONF_REAL:
        pleat_text_real(text, setting->real);
        break;
    case PLEAT_CONF_WORD:
        pleat_conf_append_word(text, option, setting->number);
        break;
    case PLEAT_CONF_DIVISIONS:
        for (size_t index = 0; index < PLEAT_ROUNDUP_ENTRIES; index++) {
            pleat_text_append(text, "%s%llu", index > 0 ? "," : "",
                              (unsigned long long)conf->roundup_power2_divisions[index]);
        }
        break;
    }
}

/* Caller's configuration at full size, the default where it has less. */
static pleat_conf_t describe_import(const pleat_conf_t *conf)
{
    pleat_conf_t full = PLEAT_CONF_INIT;
    if (conf != NULL) {
        memcpy(&full, conf, conf->size < sizeof full ? conf->size : sizeof full);
    }
    return full;
}

pleat_status_t pleat_conf_describe(const pleat_conf_t *conf, pleat_conf_option_t option,
                                   pleat_conf_description_t *description_out)
{
    if ((size_t)option >= PLEAT_CONF_OPTION_COUNT) {
        pleat_error_set("no option has the number %lld, the last is %d", (long long)option,
                        PLEAT_CONF_OPTION_COUNT - 1);
        return PLEAT_ERR_INVALID;
    }
    if (description_out == NULL || description_out->size < sizeof description_out->size) {
        pleat_error_set("the description is NULL or was not set up with "
                        "PLEAT_CONF_DESCRIPTION_INIT");
        return PLEAT_ERR_INVALID;
    }
    const pleat_conf_t full = describe_import(conf);
    const pleat_conf_t initial = PLEAT_CONF_INIT;
    const pleat_conf_key_t *key = &pleat_conf_keys[option];
    pleat_conf_description_t result = PLEAT_CONF_DESCRIPTION_INIT;
    result.size = description_out->size;
    result.key = key->key;
    result.second_key = key->second_key;
    result.value_name = key->value_name;
    result.source = pleat_conf_source_text(full.settings[option].source);
    result.help = key->help;
    result.type = key->type;
    result.in_effect = key->in_effect;
    pleat_text_t value = pleat_text_begin(result.value, sizeof result.value);
    describe_append_value(&value, &full, option);
    pleat_text_t usual = pleat_text_begin(result.default_value, sizeof result.default_value);
    describe_append_value(&usual, &initial, option);
    pleat_text_t allowed = pleat_text_begin(result.allowed, sizeof result.allowed);
    pleat_conf_append_allowed(&allowed, option,
                              full.settings[PLEAT_CONF_LARGE_SEGMENT_SIZE].number / PLEAT_MIB);
    result.is_default = strcmp(result.value, result.default_value) == 0;
    memcpy(description_out, &result, result.size < sizeof result ? result.size : sizeof result);
    return PLEAT_OK;
}

/* Does a value differ from the default without that anything acts on it? */
static bool describe_is_idle(const pleat_conf_t *conf, pleat_conf_option_t option)
{
    pleat_conf_description_t description = PLEAT_CONF_DESCRIPTION_INIT;
    return pleat_conf_describe(conf, option, &description) == PLEAT_OK && !description.is_default &&
           !description.in_effect;
}

size_t pleat_conf_notice(const pleat_conf_t *conf, char *buffer, size_t buffer_bytes)
{
    pleat_text_t text = pleat_text_begin(buffer, buffer_bytes);
    for (size_t option = 0; option < PLEAT_CONF_OPTION_COUNT; option++) {
        if (option != PLEAT_CONF_BACKEND && describe_is_idle(conf, (pleat_conf_option_t)option)) {
            pleat_text_append(&text, "%s%s", text.length > 0 ? ", " : "not yet in effect: ",
                              pleat_conf_keys[option].key);
        }
    }
    if (describe_is_idle(conf, PLEAT_CONF_BACKEND)) {
        pleat_text_append(&text,
                          "%sbackend:cudaMallocAsync means the driver's own pool, which Pleat does "
                          "not have: Pleat serves, with the other options at their defaults",
                          text.length > 0 ? "; " : "");
    }
    return text.length;
}

/* ---- what acts in a mode ---- */

enum {
    IN_CLASSIC = 1u << PLEAT_MODE_CLASSIC,
    IN_TORCH = 1u << PLEAT_MODE_TORCH_EXPANDABLE,
    IN_PLEATED = 1u << PLEAT_MODE_PLEATED,
    IN_ALL = IN_CLASSIC | IN_TORCH | IN_PLEATED
};

static unsigned describe_modes(pleat_conf_option_t option)
{
    switch (option) {
    case PLEAT_CONF_LARGE_SEGMENT_SIZE: /* of a segment, or of a page */
    case PLEAT_CONF_MAX_SPLIT_SIZE:
    case PLEAT_CONF_MAX_NON_SPLIT_ROUNDING:
        return IN_CLASSIC | IN_TORCH;
    case PLEAT_CONF_GARBAGE_COLLECTION_THRESHOLD: /* PyTorch collects plain segments only */
    case PLEAT_CONF_RELEASE_LOCK_ON_CUDAMALLOC:
        return IN_CLASSIC;
    case PLEAT_CONF_PLEATED_SLACK:
    case PLEAT_CONF_PLEATED_HANDLE_FRACTION:
    case PLEAT_CONF_PLEATED_HANDLE_MIN:
    case PLEAT_CONF_PLEATED_HANDLE_MAX:
    case PLEAT_CONF_PLEATED_VIEW_MAPPINGS:
    case PLEAT_CONF_PLEATED_IDLE_MS:
    case PLEAT_CONF_GROWTH_FACTOR:
        return IN_PLEATED;
    case PLEAT_CONF_ROUNDUP_POWER2_DIVISIONS:
    case PLEAT_CONF_PER_PROCESS_MEMORY_FRACTION:
    case PLEAT_CONF_EXPANDABLE_SEGMENTS: /* these two choose the mode */
    case PLEAT_CONF_EXPANDABLE_POLICY:
    case PLEAT_CONF_PINNED_USE_BACKGROUND_THREADS: /* from here on pleat_conf_notice speaks */
    case PLEAT_CONF_BACKEND:
    case PLEAT_CONF_GRAPH_CAPTURE_RECORD_STREAM_REUSE:
    case PLEAT_CONF_PINNED_USE_CUDA_HOST_REGISTER:
    case PLEAT_CONF_PINNED_NUM_REGISTER_THREADS:
    case PLEAT_CONF_PINNED_RESERVE_SEGMENT_SIZE:
    case PLEAT_CONF_OPTION_COUNT:
        break;
    }
    return IN_ALL;
}

bool pleat_conf_acts(pleat_conf_option_t option, pleat_mode_t mode)
{
    return (describe_modes(option) & (1u << mode)) != 0;
}

size_t pleat_conf_mode_notice(const pleat_conf_t *conf, pleat_mode_t mode, char *buffer,
                              size_t buffer_bytes)
{
    pleat_text_t text = pleat_text_begin(buffer, buffer_bytes);
    for (size_t option = 0; option < PLEAT_CONF_OPTION_COUNT; option++) {
        pleat_conf_description_t description = PLEAT_CONF_DESCRIPTION_INIT;
        if (pleat_conf_describe(conf, (pleat_conf_option_t)option, &description) == PLEAT_OK &&
            !description.is_default && !pleat_conf_acts((pleat_conf_option_t)option, mode)) {
            pleat_text_append(&text, "%s%s", text.length > 0 ? ", " : "", description.key);
        }
    }
    if (text.length > 0) {
        pleat_text_append(&text, " without effect in mode %s", pleat_mode_name(mode));
    }
    return text.length;
}
