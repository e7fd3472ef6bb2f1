/*
 * pickle_text: pickles for tests out of text in the form of Python: None True False, integers, 1.5,
 * 'strings' without escapes, [lists], (tuples,) and {'k': dictionaries}. `&7` before a value stores
 * it under 7, and `*7` is that value again.
 */
#ifndef PLEAT_TEST_PICKLE_TEXT_H
#define PLEAT_TEST_PICKLE_TEXT_H

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct pickle_bytes {
    char *data; /* to be freed */
    size_t count;
} pickle_bytes_t;

static inline const char *pickle_text_skip(const char *at)
{
    return at + strspn(at, " \n,:");
}

static inline void pickle_text_number(FILE *file, uint64_t value, unsigned byte_count)
{
    for (unsigned i = 0; i < byte_count; i++) {
        (void)fputc((int)(value >> (8 * i) & 0xff), file);
    }
}

static inline const char *pickle_text_scalar(FILE *file, const char *at)
{
    char *end = NULL;
    if (strncmp(at, "None", 4) == 0 || strncmp(at, "True", 4) == 0) {
        (void)fputc(*at == 'N' ? 'N' : 0x88, file);
        return at + 4;
    }
    if (strncmp(at, "False", 5) == 0) {
        (void)fputc(0x89, file);
        return at + 5;
    }
    if (strcspn(at, ".") < strcspn(at, ",]})")) {
        const double real = strtod(at, &end);
        uint64_t bits = 0;
        memcpy(&bits, &real, sizeof(bits));
        (void)fputc('G', file);
        for (unsigned i = 0; i < 8; i++) {
            (void)fputc((int)(bits >> (56 - 8 * i) & 0xff), file);
        }
    } else if (*at == '-') {
        (void)fputc(0x8a, file);
        pickle_text_number(file, 8, 1);
        pickle_text_number(file, (uint64_t)strtoll(at, &end, 0), 8);
    } else {
        (void)fputc(0x8a, file);
        pickle_text_number(file, 9, 1);
        pickle_text_number(file, strtoull(at, &end, 0), 8);
        pickle_text_number(file, 0, 1);
    }
    cr_assert(end != at, "no value at '%s'", at);
    return end;
}

static inline const char *pickle_text_value(FILE *file, const char *at)
{
    at = pickle_text_skip(at);
    if (*at == '&' || *at == '*') {
        char *end = NULL;
        const uint64_t number = strtoull(at + 1, &end, 10);
        const char *next = *at == '&' ? pickle_text_value(file, end) : end;
        (void)fputc(*at == '&' ? 'r' : 'j', file);
        pickle_text_number(file, number, 4);
        return next;
    }
    if (*at == '\'') {
        const size_t length = strcspn(at + 1, "'");
        (void)fputc('X', file);
        pickle_text_number(file, length, 4);
        (void)fwrite(at + 1, 1, length, file);
        return at + length + 2;
    }
    if (*at != '[' && *at != '(' && *at != '{') {
        return pickle_text_scalar(file, at);
    }
    const char open = *at;
    (void)fputs(open == '[' ? "](" : open == '{' ? "}(" : "(", file);
    at = pickle_text_skip(at + 1);
    while (*at != ']' && *at != ')' && *at != '}') {
        at = pickle_text_skip(pickle_text_value(file, at));
    }
    (void)fputc(open == '[' ? 'e' : open == '{' ? 'u' : 't', file);
    return at + 1;
}

static inline pickle_bytes_t pickle_text(const char *text)
{
    pickle_bytes_t bytes = {0};
    FILE *file = open_memstream(&bytes.data, &bytes.count);
    cr_assert(file != NULL);
    (void)fputs("\x80\x04", file);
    const char *end = pickle_text_skip(pickle_text_value(file, text));
    cr_assert(*end == '\0', "left over: '%s'", end);
    (void)fputc('.', file);
    cr_assert(fclose(file) == 0);
    return bytes;
}

#endif
