/*
 * scan: reads words and numbers from one line of text and reports errors with their place. Numbers
 * are parsed by hand, because a trace has millions of them. Used by trace_text and session.
 */
#ifndef PLEAT_EXPERIMENTS_SCAN_H
#define PLEAT_EXPERIMENTS_SCAN_H

#include "input.h"

/* A part of the line, not terminated. */
typedef struct pleat_text {
    const char *start;
    size_t length;
} pleat_text_t;

typedef struct pleat_scan {
    const char *file; /* for messages */
    uint64_t line;
    const char *begin;
    const char *cursor;
    const char *end;
} pleat_scan_t;

static inline pleat_scan_t pleat_scan_line(const char *file, const pleat_input_line_t *line)
{
    return (pleat_scan_t){.file = file,
                          .line = line->number,
                          .begin = line->text,
                          .cursor = line->text,
                          .end = line->text + line->length};
}

static inline void pleat_scan_skip_blanks(pleat_scan_t *scan)
{
    while (scan->cursor < scan->end && (*scan->cursor == ' ' || *scan->cursor == '\t')) {
        scan->cursor++;
    }
}

/* The next word; its length is 0 at the end of the line. */
static inline pleat_text_t pleat_scan_word(pleat_scan_t *scan)
{
    pleat_scan_skip_blanks(scan);
    const char *start = scan->cursor;
    while (scan->cursor < scan->end && *scan->cursor != ' ' && *scan->cursor != '\t') {
        scan->cursor++;
    }
    return (pleat_text_t){.start = start, .length = (size_t)(scan->cursor - start)};
}

/* Everything that is left, without blanks around it. */
pleat_text_t pleat_scan_rest(pleat_scan_t *scan);

/* Does the text equal a terminated string? */
bool pleat_text_is(pleat_text_t text, const char *string);

/* A whole text as a number; false, with the output untouched, when it is none or does not fit.
 * Decimal digits only; hexadecimal digits with or without 0x; decimal digits after an optional `-`;
 * decimal digits with KiB, MiB, GiB or nothing behind them. */
bool pleat_text_to_decimal(pleat_text_t text, uint64_t *value_out);
bool pleat_text_to_hexadecimal(pleat_text_t text, uint64_t *value_out);
bool pleat_text_to_signed(pleat_text_t text, int64_t *value_out);
bool pleat_text_to_size(pleat_text_t text, uint64_t *value_out);

/* The same for the next word; on failure the error says what was expected and what stands there. */
PLEAT_NODISCARD pleat_status_t pleat_scan_decimal(pleat_scan_t *scan, const char *wanted,
                                                  uint64_t *value_out);
PLEAT_NODISCARD pleat_status_t pleat_scan_hexadecimal(pleat_scan_t *scan, const char *wanted,
                                                      uint64_t *value_out);
PLEAT_NODISCARD pleat_status_t pleat_scan_size(pleat_scan_t *scan, const char *wanted,
                                               uint64_t *value_out);

/* The line must end here. @p form shows what a right line looks like. */
PLEAT_NODISCARD pleat_status_t pleat_scan_end(pleat_scan_t *scan, const char *form);

/* Set the error text "file:line:column: ..." for a place in the line; returns PLEAT_ERR_FORMAT. */
PLEAT_NODISCARD PLEAT_PRINTF(3, 4) pleat_status_t
    pleat_scan_fail(const pleat_scan_t *scan, const char *place, const char *format, ...);

/* Length of a text for "%.*s", cut to what a message can bear. */
int pleat_text_shown(pleat_text_t text);

#endif
