/*
 * pickle_dump: the values of a pickle as text, the same that snapshot/check_reader.py makes of what
 * Python's own pickle reads.
 */
#ifndef PLEAT_TEST_PICKLE_DUMP_H
#define PLEAT_TEST_PICKLE_DUMP_H

#include "pickle_value.h"

#include <inttypes.h>
#include <stdio.h>

enum { PICKLE_DUMP_DEPTH = 12 };

static inline void pickle_dump_string(FILE *file, const pleat_pickle_string_t *string)
{
    (void)fputc('"', file);
    for (uint64_t i = 0; i < string->length; i++) {
        const unsigned char byte = (unsigned char)string->text[i];
        if (byte < 0x20 || byte > 0x7e || byte == '"' || byte == '\\') {
            (void)fprintf(file, "\\%02x", byte);
        } else {
            (void)fputc(byte, file);
        }
    }
    (void)fputc('"', file);
}

static inline void pickle_dump_number(FILE *file, pleat_pickle_value_t value)
{
    int64_t negative = 0;
    uint64_t number = 0;
    double real = 0;
    if (pleat_pickle_to_unsigned(value, &number)) {
        (void)fprintf(file, "%" PRIu64, number);
    } else if (pleat_pickle_to_signed(value, &negative)) {
        (void)fprintf(file, "%" PRId64, negative);
    } else if (pleat_pickle_to_real(value, &real)) {
        (void)fprintf(file, "real %a", real);
    } else {
        (void)fputs("huge", file);
    }
}

static inline void pickle_dump(FILE *file, pleat_pickle_value_t value, unsigned depth);

static inline void pickle_dump_items(FILE *file, pleat_pickle_value_t value, unsigned depth)
{
    const pleat_pickle_items_t *items = pleat_pickle_items(value);
    const bool is_dict = pleat_pickle_tag(value) == PLEAT_PICKLE_TAG_DICT;
    const bool is_list = pleat_pickle_tag(value) == PLEAT_PICKLE_TAG_LIST;
    (void)fputc(is_dict ? '{' : is_list ? '[' : '(', file);
    for (uint32_t i = 0; i < items->count; i++) {
        (void)fputs(i == 0 ? "" : is_dict && i % 2 == 1 ? ": " : ", ", file);
        pickle_dump(file, items->values[i], depth + 1);
    }
    (void)fputc(is_dict ? '}' : is_list ? ']' : ')', file);
}

static inline void pickle_dump(FILE *file, pleat_pickle_value_t value, unsigned depth)
{
    switch (pleat_pickle_tag(value)) {
    case PLEAT_PICKLE_TAG_CONSTANT:
        (void)fputs(pleat_pickle_describe(value), file);
        break;
    case PLEAT_PICKLE_TAG_SHORT_INTEGER:
    case PLEAT_PICKLE_TAG_NUMBER:
        pickle_dump_number(file, value);
        break;
    case PLEAT_PICKLE_TAG_BYTES:
        (void)fputc('b', file);
        pickle_dump_string(file, pleat_pickle_pointer(value));
        break;
    case PLEAT_PICKLE_TAG_STRING:
        pickle_dump_string(file, pleat_pickle_string(value));
        break;
    case PLEAT_PICKLE_TAG_LIST:
    case PLEAT_PICKLE_TAG_TUPLE:
    case PLEAT_PICKLE_TAG_DICT:
        if (depth > PICKLE_DUMP_DEPTH) {
            (void)fputs("...", file);
        } else {
            pickle_dump_items(file, value, depth);
        }
        break;
    }
}

#endif
