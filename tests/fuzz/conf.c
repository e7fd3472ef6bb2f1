/*
 * conf: both readings of any text, at the start and at run time.
 *
 * The input is the text up to its first null byte; with a '|' in it, what stands before is read at
 * the start and the rest at run time on top of that.
 *
 * What must hold, or the program aborts:
 *   F1  a text that the strict reading refuses changes no byte, nor one refused at the start;
 *   F2  a refusal has a message of one printable line, and if strict a column within the text;
 *   F3  what the strict reading accepts without a warning, the reading as PyTorch accepts, with the
 *       same values, if both begin with the defaults;
 *   F4  every result can be described, and applied or refused.
 */
#include "conf_rows.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition, const char *what, const char *text)
{
    if (!condition) {
        (void)fprintf(stderr, "broken: %s, by the text '%s'\n", what, text);
        abort();
    }
}

typedef pleat_status_t (*read_fn_t)(pleat_conf_t *conf, pleat_conf_reading_t reading,
                                    const char *text, pleat_conf_report_t *report);

static bool same_values(const pleat_conf_t *a, const pleat_conf_t *b)
{
    for (size_t option = 0; option < PLEAT_CONF_OPTION_COUNT; option++) {
        const pleat_conf_setting_t *x = &a->settings[option];
        const pleat_conf_setting_t *y = &b->settings[option];
        if (x->number != y->number || !conf_same_bytes(&x->real, &y->real, sizeof x->real)) {
            return false;
        }
    }
    return memcmp(a->roundup_power2_divisions, b->roundup_power2_divisions,
                  sizeof a->roundup_power2_divisions) == 0;
}

static void check_refusal(const pleat_conf_report_t *report, bool is_strict, const char *text)
{
    require(report->message[0] != '\0', "F2: no message", text);
    require(report->python_class[0] != '\0', "F2: no class", text);
    require(report->warning_count == 0, "F2: a refusal that warns", text);
    if (is_strict) {
        require(report->column >= 1 && report->column <= strlen(text) + 1, "F2: column", text);
        for (const char *at = report->message; *at != '\0'; at++) {
            require((unsigned char)*at >= ' ' && *at != 0x7f, "F2: control character", text);
        }
    }
}

static void check_result(const pleat_conf_t *conf, const char *text)
{
    char notice[1024];
    require(pleat_conf_notice(conf, notice, sizeof notice) < sizeof notice, "F4: notice", text);
    for (size_t option = 0; option < PLEAT_CONF_OPTION_COUNT; option++) {
        pleat_conf_description_t description = PLEAT_CONF_DESCRIPTION_INIT;
        require(pleat_conf_describe(conf, (pleat_conf_option_t)option, &description) == PLEAT_OK,
                "F4: description", text);
        require(strlen(description.value) < sizeof description.value - 1, "F4: value", text);
    }
    pleat_options_t options = PLEAT_OPTIONS_INIT;
    const pleat_status_t status = pleat_conf_apply(conf, UINT64_C(150109880320), &options);
    require(status == PLEAT_OK || pleat_last_error()[0] != '\0', "F4: apply", text);
}

/* Read one text on top of a configuration; returns the status. */
static pleat_status_t check_read(pleat_conf_t *conf, pleat_conf_reading_t reading, read_fn_t read,
                                 const char *text, pleat_conf_report_t *report)
{
    pleat_conf_t before;
    memcpy(&before, conf, sizeof before);
    const pleat_status_t status = read(conf, reading, text, report);
    require(status == report->status, "F2: status", text);
    if (status != PLEAT_OK) {
        check_refusal(report, reading == PLEAT_CONF_STRICT, text);
        if (reading == PLEAT_CONF_STRICT || read == pleat_conf_read_start) {
            require(conf_same_bytes(conf, &before, sizeof before), "F1", text);
        }
    }
    if (!conf_same_bytes(conf, &before, sizeof before)) {
        check_result(conf, text);
    }
    return status;
}

/* Options that PyTorch does not know: the reading as PyTorch refuses them by rule. */
static bool has_own_option(const pleat_conf_t *conf)
{
    static const pleat_conf_parser_t parsers[] = {
#define CONF_PARSER(name, key, second, value, parser, type, bounds, initial, smallest, largest, \
                    words, in_effect, help)                                                     \
    PLEAT_CONF_##parser,
        PLEAT_CONF_KEY_LIST(CONF_PARSER)
#undef CONF_PARSER
    };
    for (size_t option = 0; option < PLEAT_CONF_OPTION_COUNT; option++) {
        if (parsers[option] == PLEAT_CONF_OWN &&
            conf->settings[option].source != PLEAT_CONF_SOURCE_DEFAULT) {
            return true;
        }
    }
    return false;
}

static void check_text(read_fn_t read, const char *text)
{
    pleat_conf_t strict = PLEAT_CONF_INIT;
    pleat_conf_t torch = PLEAT_CONF_INIT;
    pleat_conf_report_t report = PLEAT_CONF_REPORT_INIT;
    pleat_conf_report_t torch_report = PLEAT_CONF_REPORT_INIT;
    const pleat_status_t status = check_read(&strict, PLEAT_CONF_STRICT, read, text, &report);
    const pleat_status_t torch_status =
        check_read(&torch, PLEAT_CONF_TORCH, read, text, &torch_report);
    if (status == PLEAT_OK && report.warning_count == 0 && !has_own_option(&strict)) {
        require(torch_status == PLEAT_OK, "F3: refused as PyTorch", text);
        require(same_values(&strict, &torch), "F3: other values as PyTorch", text);
    }
}

static void check_both_times(const char *start, const char *rest)
{
    for (int i = 0; i < 2; i++) {
        const pleat_conf_reading_t reading = i == 0 ? PLEAT_CONF_STRICT : PLEAT_CONF_TORCH;
        pleat_conf_t conf = PLEAT_CONF_INIT;
        pleat_conf_report_t report = PLEAT_CONF_REPORT_INIT;
        (void)check_read(&conf, reading, pleat_conf_read_start, start, &report);
        (void)check_read(&conf, reading, pleat_conf_read, rest, &report);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* Of the exact size, so that the address sanitizer sees a read past the end. */
    char *text = malloc(size + 1);
    if (text == NULL) {
        return 0;
    }
    if (size > 0) {
        memcpy(text, data, size);
    }
    text[size] = '\0';
    char *bar = strchr(text, '|');
    if (bar != NULL) {
        *bar = '\0';
        check_both_times(text, bar + 1);
    } else {
        check_text(pleat_conf_read_start, text);
        check_text(pleat_conf_read, text);
    }
    free(text);
    return 0;
}
