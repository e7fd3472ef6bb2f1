/*
 * text (internal): pieces of text for messages and reports: appending to a fixed buffer, quoting a
 * user's words, and numbers that look the same under every locale.
 *
 * A text_t never overflows: it counts what it was given and keeps what fits, always with a null
 * byte at the end. That gives every report the contract of snprintf.
 */
#ifndef PLEAT_INTERNAL_TEXT_H
#define PLEAT_INTERNAL_TEXT_H

#include <pleat/base.h>

typedef struct pleat_text {
    char *buffer;
    size_t buffer_bytes; /* 0: only count; buffer may be NULL then */
    size_t length;       /* of everything appended, kept or not */
} pleat_text_t;

/* Start an empty text; a buffer of at least one byte becomes "". */
pleat_text_t pleat_text_begin(char *buffer, size_t buffer_bytes);

void pleat_text_append(pleat_text_t *text, const char *format, ...) PLEAT_PRINTF(2, 3);

/* Length of the UTF-8 sequence at the start of @p bytes, of which there is at least one; 0 if there
 * is none, or a control character. */
size_t pleat_text_sequence(const unsigned char *bytes, size_t byte_count);

/*
 * Append bytes of a user's text between single quotes: control characters and bytes that are no
 * UTF-8 as \xNN, and after 64 bytes only "...".
 */
void pleat_text_quote(pleat_text_t *text, const char *bytes, size_t byte_count);

/* Append a real with a fixed number of decimals and a point. */
void pleat_text_fixed(pleat_text_t *text, double value, int decimals);

/* Append the shortest decimal that reads back as the same value, with a point or an exponent. */
void pleat_text_real(pleat_text_t *text, double value);

/* As strtod in the C locale, whatever the locale of the process; errno tells an overflow. */
double pleat_text_to_real(const char *text, char **end_out);

#endif
