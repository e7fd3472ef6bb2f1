/*
 * input_fixture: texts and bytes in memory as inputs, for Criterion tests of the readers that link
 * pleat_experiments.
 */
#ifndef PLEAT_TEST_INPUT_FIXTURE_H
#define PLEAT_TEST_INPUT_FIXTURE_H

#include "output.h"
#include "session.h"
#include "trace_binary.h"
#include "trace_text.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

typedef struct input_bytes {
    char *data; /* to be freed */
    size_t count;
} input_bytes_t;

static inline pleat_input_t *input_fixture_open(const void *data, size_t count)
{
    pleat_input_t *input = NULL;
    cr_assert(pleat_input_open_memory("test", data, count, &input) == PLEAT_OK, "%s",
              pleat_last_error());
    return input;
}

/* The text, packed. */
static inline input_bytes_t input_fixture_pack(const void *text, size_t count,
                                               pleat_packing_t packing)
{
    input_bytes_t bytes = {0};
    pleat_output_t *output = NULL;
    FILE *file = open_memstream(&bytes.data, &bytes.count);
    cr_assert(file != NULL);
    cr_assert(pleat_output_create(file, "memory", packing, &output) == PLEAT_OK);
    cr_assert(pleat_output_write(output, text, count) == PLEAT_OK);
    cr_assert(pleat_output_finish(output) == PLEAT_OK);
    pleat_output_destroy(output);
    (void)fclose(file);
    return bytes;
}

/* The compact form of events. */
static inline input_bytes_t input_fixture_compact(const pleat_trace_event_t *events, size_t count)
{
    input_bytes_t bytes = {0};
    pleat_output_t *output = NULL;
    pleat_trace_binary_writer_t *writer = NULL;
    FILE *file = open_memstream(&bytes.data, &bytes.count);
    cr_assert(file != NULL);
    cr_assert(pleat_output_create(file, "memory", PLEAT_PACKING_NONE, &output) == PLEAT_OK);
    cr_assert(pleat_trace_binary_writer_create(output, &writer) == PLEAT_OK);
    for (size_t i = 0; i < count; i++) {
        cr_assert(pleat_trace_binary_write(writer, &events[i]) == PLEAT_OK, "%s",
                  pleat_last_error());
    }
    cr_assert(pleat_trace_binary_finish(writer) == PLEAT_OK);
    cr_assert(pleat_output_finish(output) == PLEAT_OK);
    pleat_trace_binary_writer_destroy(writer);
    pleat_output_destroy(output);
    (void)fclose(file);
    return bytes;
}

/* Open and read a whole trace; the status of whichever fails. */
static inline pleat_status_t input_fixture_trace(const void *data, size_t count,
                                                 pleat_trace_t **trace_out)
{
    pleat_input_t *input = NULL;
    pleat_status_t status = pleat_input_open_memory("test", data, count, &input);
    if (status == PLEAT_OK) {
        status = pleat_trace_load_input(input, trace_out);
    }
    pleat_input_close(input);
    return status;
}

/* The same for a session or a case. */
static inline pleat_status_t input_fixture_session(const void *data, size_t count,
                                                   pleat_session_t **session_out)
{
    pleat_input_t *input = NULL;
    pleat_status_t status = pleat_input_open_memory("test", data, count, &input);
    if (status == PLEAT_OK) {
        status = pleat_session_load_input(input, session_out);
    }
    pleat_input_close(input);
    return status;
}

/* The last error must contain a text. */
#define INPUT_FIXTURE_EXPECT_ERROR(text)                                                      \
    cr_expect(strstr(pleat_last_error(), (text)) != NULL, "error '%s' does not contain '%s'", \
              pleat_last_error(), (const char *)(text))

#endif
