/*
 * conf_strict_reader (internal): what the files of the strict reading share: the reader, its words
 * and its errors. Items: conf_strict.c; words: conf_strict_word.c; the list: conf_strict_list.c.
 *
 * Functions that return bool return false after an error, which the report then holds; the reading
 * ends with the first. Columns are bytes counted from 1.
 */
#ifndef PLEAT_INTERNAL_CONF_STRICT_READER_H
#define PLEAT_INTERNAL_CONF_STRICT_READER_H

#include "conf.h"

typedef struct pleat_strict_word {
    const char *bytes;
    size_t byte_count;
    size_t column;
} pleat_strict_word_t;

typedef struct pleat_strict_reader {
    const char *text;
    size_t position;
    pleat_conf_t *conf;
    pleat_conf_source_t source;
    pleat_conf_report_t *report;
    uint64_t loaded_backend;
    uint64_t segment_mb;                         /* lower bound of the split options */
    size_t key_columns[PLEAT_CONF_OPTION_COUNT]; /* 0: not in this text */
    size_t value_columns[PLEAT_CONF_OPTION_COUNT];
    uint32_t uncovered; /* entries that a round-up list leaves out */
} pleat_strict_reader_t;

/* A word in quotes, cut to a readable length. */
typedef struct pleat_strict_quoted {
    char text[320];
} pleat_strict_quoted_t;

typedef struct pleat_strict_allowed {
    char text[PLEAT_CONF_ALLOWED_BYTES];
} pleat_strict_allowed_t;

/* Set the error of the reading; false, for the caller to return. */
bool pleat_strict_fail(pleat_strict_reader_t *reader, size_t column, const char *format, ...)
    PLEAT_PRINTF(3, 4);

pleat_strict_quoted_t pleat_strict_quote(const char *bytes, size_t byte_count);

/* What may stand as the value of an option. */
pleat_strict_allowed_t pleat_strict_allowed(const pleat_strict_reader_t *reader,
                                            pleat_conf_option_t option);

/* One of , : [ ] */
bool pleat_strict_is_mark(char character);

/* Go to the next byte that is no blank and return it; 0 at the end. */
char pleat_strict_peek(pleat_strict_reader_t *reader);

/* Column of the byte that the reader is at. */
size_t pleat_strict_column(const pleat_strict_reader_t *reader);

/* Refuse what stands in no word: ';' and quotes. */
bool pleat_strict_check_stray(pleat_strict_reader_t *reader);

/*
 * Read the word at the next byte, which is no mark. '=' ends the word of a key, not of a value. The
 * reader is then at a mark, at the end, or behind a key at '='.
 */
bool pleat_strict_read_word(pleat_strict_reader_t *reader, bool is_key, pleat_strict_word_t *word);

bool pleat_strict_is_digits(const pleat_strict_word_t *word);

/* Value of a word of digits; false: beyond 64 bits. No error is set. */
bool pleat_strict_to_number(const pleat_strict_word_t *word, uint64_t *number_out);

/* Read a list from its opening bracket to behind the closing one. */
bool pleat_strict_read_list(pleat_strict_reader_t *reader, pleat_conf_option_t option);

#endif
