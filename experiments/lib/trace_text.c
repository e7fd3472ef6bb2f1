/*
 * trace_text: see trace_text.h. A line is first read without any care for messages; only when that
 * fails is it read again, slowly, to say what is wrong.
 */
#include "trace_text.h"

#include "scan.h"
#include "vmm/base.h"

static const char *const line_form = "action address size stream time_us";

static bool pleat_action_from_text(pleat_text_t word, pleat_action_t *action_out)
{
    for (int action = 0; action < PLEAT_ACTION_COUNT; action++) {
        if (pleat_text_is(word, pleat_action_name((pleat_action_t)action))) {
            *action_out = (pleat_action_t)action;
            return true;
        }
    }
    return false;
}

const char *pleat_trace_event_fault(const pleat_trace_event_t *event)
{
    uint64_t end = 0;
    if ((unsigned)event->action >= PLEAT_ACTION_COUNT) {
        return "unknown action";
    }
    if (event->stream > PLEAT_TRACE_STREAM_MAX) {
        return "the stream number is above 4294967294";
    }
    if (event->action != PLEAT_ACTION_OOM &&
        !pleat_add_checked(event->address, event->bytes, &end)) {
        return "address and size reach beyond the address space (2^64)";
    }
    return NULL;
}

static bool pleat_trace_text_parse(pleat_scan_t scan, pleat_trace_event_t *event)
{
    return pleat_action_from_text(pleat_scan_word(&scan), &event->action) &&
           pleat_text_to_hexadecimal(pleat_scan_word(&scan), &event->address) &&
           pleat_text_to_decimal(pleat_scan_word(&scan), &event->bytes) &&
           pleat_text_to_decimal(pleat_scan_word(&scan), &event->stream) &&
           pleat_text_to_decimal(pleat_scan_word(&scan), &event->time_us) &&
           pleat_scan_rest(&scan).length == 0 && pleat_trace_event_fault(event) == NULL;
}

static pleat_status_t pleat_trace_text_explain(pleat_scan_t scan)
{
    pleat_trace_event_t event = {0};
    const pleat_text_t word = pleat_scan_word(&scan);
    if (!pleat_action_from_text(word, &event.action)) {
        return pleat_scan_fail(&scan, word.start,
                               "unknown action '%.*s'; an event has the form '%s', and the actions "
                               "are alloc, free_requested, free_completed, segment_alloc, "
                               "segment_free, segment_map, segment_unmap, snapshot and oom",
                               pleat_text_shown(word), word.start, line_form);
    }
    pleat_status_t status = pleat_scan_hexadecimal(&scan, "address", &event.address);
    if (status == PLEAT_OK) {
        status = pleat_scan_decimal(&scan, "size", &event.bytes);
    }
    if (status == PLEAT_OK) {
        status = pleat_scan_decimal(&scan, "stream", &event.stream);
    }
    if (status == PLEAT_OK) {
        status = pleat_scan_decimal(&scan, "time", &event.time_us);
    }
    if (status == PLEAT_OK) {
        status = pleat_scan_end(&scan, line_form);
    }
    if (status != PLEAT_OK) {
        return status;
    }
    return pleat_scan_fail(&scan, word.start, "%s", pleat_trace_event_fault(&event));
}

pleat_status_t pleat_trace_text_read(pleat_input_t *input, pleat_trace_event_t *event_out,
                                     bool *has_event_out)
{
    for (;;) {
        pleat_input_line_t line;
        bool has_line = false;
        const pleat_status_t status = pleat_input_read_line(input, &line, &has_line);
        if (status != PLEAT_OK) {
            return status;
        }
        if (!has_line) {
            *has_event_out = false;
            return PLEAT_OK;
        }
        pleat_scan_t scan = pleat_scan_line(pleat_input_name(input), &line);
        pleat_scan_skip_blanks(&scan);
        if (scan.cursor == scan.end || *scan.cursor == '#') {
            continue;
        }
        pleat_trace_event_t event;
        if (!pleat_trace_text_parse(scan, &event)) {
            return pleat_trace_text_explain(scan);
        }
        *event_out = event;
        *has_event_out = true;
        return PLEAT_OK;
    }
}

static size_t pleat_number_format(uint64_t value, unsigned base, char *text)
{
    static const char digits[] = "0123456789abcdef";
    char reversed[24];
    size_t count = 0;
    do {
        reversed[count++] = digits[value % base];
        value /= base;
    } while (value > 0);
    for (size_t i = 0; i < count; i++) {
        text[i] = reversed[count - 1 - i];
    }
    return count;
}

size_t pleat_trace_text_format(const pleat_trace_event_t *event,
                               char line[PLEAT_TRACE_TEXT_LINE_BYTES])
{
    const char *name = pleat_action_name(event->action);
    size_t length = 0;
    for (; *name != '\0'; name++) {
        line[length++] = *name;
    }
    line[length++] = ' ';
    length += pleat_number_format(event->address, 16, line + length);
    line[length++] = ' ';
    length += pleat_number_format(event->bytes, 10, line + length);
    line[length++] = ' ';
    length += pleat_number_format(event->stream, 10, line + length);
    line[length++] = ' ';
    length += pleat_number_format(event->time_us, 10, line + length);
    line[length++] = '\n';
    PLEAT_ASSERT(length <= PLEAT_TRACE_TEXT_LINE_BYTES);
    return length;
}
