/*
 * session: see session.h. Reads the lines of a file and gives each to the part that knows it.
 */
#include "session.h"

#include "file_name.h"
#include "session_builder.h"
#include "session_call.h"
#include "session_case.h"
#include "session_detail.h"
#include "session_header.h"
#include "vmm/base.h"

#include <pleat/conf.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const char *pleat_session_call_word(pleat_session_call_kind_t kind)
{
    switch (kind) {
#define PLEAT_SESSION_CALL_CASE(name, word) \
    case PLEAT_SESSION_##name:              \
        return word;
        PLEAT_SESSION_CALL_LIST(PLEAT_SESSION_CALL_CASE)
#undef PLEAT_SESSION_CALL_CASE
    case PLEAT_SESSION_CALL_COUNT:
        break;
    }
    return "unknown";
}

const char *pleat_session_mode_word(unsigned mode)
{
#define PLEAT_SESSION_MODE_WORD(name, number, word)    \
    if (mode == (unsigned)PLEAT_SESSION_MODE_##name) { \
        return word;                                   \
    }
    PLEAT_SESSION_MODE_LIST(PLEAT_SESSION_MODE_WORD)
#undef PLEAT_SESSION_MODE_WORD
    return "unknown";
}

unsigned pleat_session_modes(const pleat_session_t *session)
{
    if (session->modes != 0) {
        return session->modes;
    }
    /* What stands before an error is in force; who performs the session reports the error. */
    pleat_conf_t conf = PLEAT_CONF_INIT;
    pleat_conf_report_t report = PLEAT_CONF_REPORT_INIT;
    if (session->settings[0] != '\0') {
        const pleat_status_t ignored =
            pleat_conf_read_start(&conf, PLEAT_CONF_TORCH, session->settings, &report);
        (void)ignored;
    }
    const bool is_expandable = conf.settings[PLEAT_CONF_EXPANDABLE_SEGMENTS].number != 0;
    return is_expandable ? PLEAT_SESSION_MODE_TORCH_EXPANDABLE : PLEAT_SESSION_MODE_CLASSIC;
}

void pleat_session_destroy(pleat_session_t *session)
{
    if (session == NULL) {
        return;
    }
    free(session->name);
    free(session->keys);
    free(session->base);
    free(session->ids);
    free(session->calls);
    free(session->events);
    free(session->changes);
    free(session->expects);
    free(session->expect_errors);
    free(session->numbers);
    free(session->segments);
    free(session->blocks);
    pleat_text_store_destroy(session->strings);
    free(session);
}

/* A line outside of a repeat, or of one round of it; neither empty nor a comment. */
static pleat_status_t pleat_session_take_line(void *context, pleat_scan_t *scan)
{
    pleat_session_builder_t *builder = context;
    if (scan->begin[0] == ' ' || scan->begin[0] == '\t') {
        return pleat_session_take_detail(builder, scan);
    }
    const pleat_text_t word = pleat_scan_word(scan);
    if (builder->is_ended) {
        return pleat_scan_fail(scan, word.start, "'%.*s' behind 'end'", pleat_text_shown(word),
                               word.start);
    }
    if (pleat_text_is(word, "end")) {
        builder->is_ended = true;
        builder->session->end_line = scan->line;
        const pleat_status_t status = pleat_session_builder_close_call(builder);
        return status != PLEAT_OK ? status : pleat_scan_end(scan, "end");
    }
    if (pleat_session_is_header_word(word)) {
        return pleat_session_take_header(builder, scan, word);
    }
    if (builder->session->call_count == 0) {
        const pleat_status_t status = pleat_session_end_header(builder, scan);
        if (status != PLEAT_OK) {
            return status;
        }
    }
    return pleat_session_take_call(builder, scan, word);
}

static pleat_status_t pleat_session_read_lines(pleat_input_t *input,
                                               pleat_session_builder_t *builder,
                                               pleat_case_repeat_t *repeat)
{
    for (;;) {
        pleat_input_line_t line;
        bool has_line = false;
        pleat_status_t status = pleat_input_read_line(input, &line, &has_line);
        if (status != PLEAT_OK || !has_line) {
            return status;
        }
        builder->last_line = line.number;
        pleat_scan_t scan = pleat_scan_line(pleat_input_name(input), &line);
        pleat_scan_skip_blanks(&scan);
        if (scan.cursor == scan.end || *scan.cursor == '#') {
            continue;
        }
        scan.cursor = scan.begin;
        status = pleat_case_take_line(repeat, &scan, pleat_session_take_line, builder);
        if (status != PLEAT_OK) {
            return status;
        }
    }
}

/* What only the end of the file shows. */
static pleat_status_t pleat_session_check_end(const pleat_session_builder_t *builder,
                                              const pleat_case_repeat_t *repeat)
{
    if (repeat->is_open) {
        pleat_error_set("%s:%" PRIu64 ": this 'repeat' has no 'end_repeat' until the end of the "
                        "file, line %" PRIu64,
                        builder->file, repeat->line, builder->last_line);
        return PLEAT_ERR_FORMAT;
    }
    if (builder->session->is_recording && !builder->is_ended) {
        pleat_error_set("%s:%" PRIu64 ": the file ends here, but a recording ends with 'end': it "
                        "is truncated",
                        builder->file, builder->last_line);
        return PLEAT_ERR_FORMAT;
    }
    if (builder->session->call_count == 0) {
        pleat_error_set("%s:%" PRIu64 ": the file ends without any call", builder->file,
                        builder->last_line);
        return PLEAT_ERR_FORMAT;
    }
    return PLEAT_OK;
}

static pleat_status_t pleat_session_build(pleat_input_t *input, pleat_session_builder_t *builder)
{
    pleat_case_repeat_t repeat = {0};
    pleat_status_t status = pleat_session_read_lines(input, builder, &repeat);
    if (status == PLEAT_OK) {
        status = pleat_session_check_end(builder, &repeat);
    }
    pleat_case_repeat_fini(&repeat);
    if (status != PLEAT_OK) {
        return status;
    }
    pleat_session_t *session = builder->session;
    const char *file = pleat_input_name(input);
    session->name = pleat_file_base_name(file);
    session->file =
        pleat_text_store_add(builder->store, (pleat_text_t){.start = file, .length = strlen(file)});
    return session->name != NULL && session->file != NULL
               ? PLEAT_OK
               : pleat_session_builder_no_memory(builder);
}

pleat_status_t pleat_session_load_input(pleat_input_t *input, pleat_session_t **session_out)
{
    const pleat_input_kind_t kind = pleat_input_kind(input);
    if (kind != PLEAT_INPUT_RECORDING && kind != PLEAT_INPUT_CASE) {
        pleat_input_refuse(input, "a recorded session or a case");
        return PLEAT_ERR_FORMAT;
    }
    pleat_session_builder_t builder;
    pleat_status_t status = PLEAT_ERR_OOM_HOST;
    if (pleat_session_builder_init(&builder, pleat_input_name(input))) {
        status = pleat_session_build(input, &builder);
    } else {
        status = pleat_session_builder_no_memory(&builder);
    }
    if (status == PLEAT_OK) {
        *session_out = pleat_session_builder_take(&builder);
    }
    pleat_session_builder_fini(&builder);
    return status;
}

pleat_status_t pleat_session_load(const char *path, pleat_session_t **session_out)
{
    pleat_input_t *input = NULL;
    pleat_status_t status = pleat_input_open(path, &input);
    if (status != PLEAT_OK) {
        return status;
    }
    status = pleat_session_load_input(input, session_out);
    pleat_input_close(input);
    return status;
}
