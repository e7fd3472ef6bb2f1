/*
 * test_trace_text: the text form, its canonical line, and what is wrong with a line that is wrong.
 */
#include "input_fixture.h"

#include <criterion/new/assert.h>

Test(trace_text, every_action_is_read_and_written)
{
    for (int action = 0; action < PLEAT_ACTION_COUNT; action++) {
        const pleat_trace_event_t event = {.action = (pleat_action_t)action,
                                           .address = 0x7f2f86000000,
                                           .bytes = 411705344,
                                           .stream = 3,
                                           .time_us = UINT64_MAX};
        char line[PLEAT_TRACE_TEXT_LINE_BYTES];
        const size_t length = pleat_trace_text_format(&event, line);
        pleat_trace_event_t back = {0};
        bool has_event = false;
        pleat_input_t *input = input_fixture_open(line, length);
        cr_assert(pleat_trace_text_read(input, &back, &has_event) == PLEAT_OK);
        cr_assert(has_event);
        cr_expect(eq(int, (int)back.action, action));
        cr_expect(eq(u64, back.address, event.address));
        cr_expect(eq(u64, back.bytes, event.bytes));
        cr_expect(eq(u64, back.stream, event.stream));
        cr_expect(eq(u64, back.time_us, event.time_us));
        cr_assert(pleat_trace_text_read(input, &back, &has_event) == PLEAT_OK);
        cr_expect(not(has_event));
        pleat_input_close(input);
    }
}

Test(trace_text, comments_blanks_and_empty_lines_are_skipped)
{
    const char text[] = "# comment\n\n  \talloc  0x7F00\t512 0 5 \r\n # x\nsnapshot 0 0 0 3";
    pleat_trace_t *trace = NULL;
    cr_assert(input_fixture_trace(text, strlen(text), &trace) == PLEAT_OK, "%s",
              pleat_last_error());
    cr_assert(eq(u64, trace->event_count, 2));
    cr_expect(eq(u64, trace->events[0].address, 0x7f00));
    cr_expect(eq(u64, trace->events[1].time_us, 3)); /* clocks may step back */
    cr_expect(eq(str, trace->name, "test"));
    pleat_trace_destroy(trace);
}

Test(trace_text, streams_are_counted)
{
    const char text[] = "alloc 7f00 512 4 5\nalloc 8f00 512 2 5\n";
    pleat_trace_t *trace = NULL;
    cr_assert(input_fixture_trace(text, strlen(text), &trace) == PLEAT_OK);
    cr_expect(eq(u64, trace->stream_count, 5));
    pleat_trace_destroy(trace);
}

Test(trace_text, wrong_lines_are_explained)
{
    static const struct {
        const char *line;
        const char *error;
    } rows[] = {
        {"resurrect 7f00 512 0 5", "test:2:1: unknown action 'resurrect'; an event has the form"},
        {"alloc 7g00 512 0 5", "test:2:7: '7g00' is no address: up to 16 hexadecimal digits"},
        {"alloc 17f00000000000000 5 0 5", "test:2:7: '17f00000000000000' is no address"},
        {"alloc 7f00 5x 0 5", "test:2:12: '5x' is no size: decimal digits"},
        {"alloc 7f00 18446744073709551616 0 5", "'18446744073709551616' is no size"},
        {"alloc 7f00 -5 0 5", "test:2:12: '-5' is no size"},
        {"alloc 7f00 512 a 5", "test:2:16: 'a' is no stream"},
        {"alloc 7f00 512 0", "test:2:17: time is missing"},
        {"alloc 7f00 512", "stream is missing"},
        {"alloc 7f00", "size is missing"},
        {"alloc", "address is missing"},
        {"alloc 7f00 512 0 5 6", "test:2:20: unexpected '6'; the line has the form"},
        {"alloc 7f00 512 4294967295 5", "test:2:1: the stream number is above 4294967294"},
        {"alloc ffffffffffffff00 512 0 5", "reach beyond the address space (2^64)"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[256];
        const int length = snprintf(text, sizeof(text), "alloc 7000 512 0 5\n%s\n", rows[i].line);
        pleat_trace_t *trace = NULL;
        cr_expect(eq(int, input_fixture_trace(text, (size_t)length, &trace), PLEAT_ERR_FORMAT));
        INPUT_FIXTURE_EXPECT_ERROR(rows[i].error);
        cr_expect(trace == NULL);
    }
}

Test(trace_text, the_address_of_an_oom_is_a_number_of_bytes)
{
    const char text[] = "oom ffffffffffffff00 512 0 5\n";
    pleat_trace_t *trace = NULL;
    cr_assert(input_fixture_trace(text, strlen(text), &trace) == PLEAT_OK);
    pleat_trace_destroy(trace);
}

Test(trace_text, a_trace_without_events_is_refused)
{
    static const struct {
        const char *text;
        const char *error;
    } rows[] = {
        {"# nothing\n", "test: the trace has no events"},
        {"", "test: the file is empty, an allocation trace was expected"},
        {"free a\n", "test: this is a hand-written case, an allocation trace was expected"}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        pleat_trace_t *trace = NULL;
        cr_expect(eq(int, input_fixture_trace(rows[i].text, strlen(rows[i].text), &trace),
                     PLEAT_ERR_FORMAT));
        INPUT_FIXTURE_EXPECT_ERROR(rows[i].error);
    }
}
