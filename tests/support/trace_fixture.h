/*
 * trace_fixture: hand-made traces for tests, written as the text form has them: one event a line,
 * `action address size stream time`. For Criterion tests that link pleat_experiments.
 */
#ifndef PLEAT_TEST_TRACE_FIXTURE_H
#define PLEAT_TEST_TRACE_FIXTURE_H

#include "program.h"

#include <criterion/criterion.h>
#include <string.h>

static inline pleat_trace_t *trace_fixture_load(const char *text)
{
    pleat_input_t *input = NULL;
    pleat_trace_t *trace = NULL;
    cr_assert(pleat_input_open_memory("test.trace", text, strlen(text), &input) == PLEAT_OK, "%s",
              pleat_last_error());
    cr_assert(pleat_trace_load_input(input, &trace) == PLEAT_OK, "%s", pleat_last_error());
    pleat_input_close(input);
    return trace;
}

static inline pleat_program_t *trace_fixture_program(const pleat_trace_t *trace,
                                                     const pleat_options_t *options)
{
    pleat_program_t *program = NULL;
    cr_assert(pleat_program_create(trace, options, UINT64_C(1) << 37, &program) == PLEAT_OK, "%s",
              pleat_last_error());
    return program;
}

/* Text and program of a trace that was recorded with default options. */
static inline pleat_program_t *trace_fixture_read(const char *text)
{
    const pleat_options_t options = PLEAT_OPTIONS_INIT;
    pleat_trace_t *trace = trace_fixture_load(text);
    pleat_program_t *program = trace_fixture_program(trace, &options);
    pleat_trace_destroy(trace);
    return program;
}

#endif
