/*
 * Pickles written byte by byte: what every opcode makes, and what is refused and where.
 */
#include "pickle_reader.h"

#include "host_fault.h"
#include "pickle_dump.h"
#include "pickle_opcodes.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>

#define LIMIT (UINT64_C(64) << 20)

typedef struct reading {
    const unsigned char *data;
    size_t count;
    size_t at;
    size_t piece;    /* most bytes a call; 0: all */
    size_t fails_at; /* 0: never */
} reading_t;

static pleat_status_t read_bytes(void *context, void *buffer, size_t capacity, size_t *count_out)
{
    reading_t *reading = context;
    const size_t left = reading->count - reading->at;
    const size_t count = left < capacity ? left : capacity;
    if (reading->fails_at != 0 && reading->at + count > reading->fails_at) {
        return PLEAT_ERR_IO;
    }
    memcpy(buffer, reading->data + reading->at, count);
    reading->at += count;
    *count_out = count;
    return PLEAT_OK;
}

/* The values as text, to be freed; NULL: refused, and status_out says how. */
static char *read_as_text(const void *data, size_t count, uint64_t limit_bytes,
                          pleat_status_t *status_out)
{
    reading_t reading = {.data = data, .count = count};
    const pleat_pickle_source_t source = {
        .read = read_bytes, .context = &reading, .name = "test", .limit_name = "--limit"};
    pleat_pickle_storage_t storage;
    pleat_pickle_value_t value = PLEAT_PICKLE_VALUE_ABSENT;
    char *text = NULL;
    size_t text_bytes = 0;
    pleat_pickle_storage_init(&storage, limit_bytes);
    *status_out = pleat_pickle_read(&source, &storage, &value);
    if (*status_out == PLEAT_OK) {
        FILE *file = open_memstream(&text, &text_bytes);
        cr_assert(file != NULL);
        pickle_dump(file, value, 0);
        (void)fclose(file);
    } else {
        cr_expect(eq(u64, value, PLEAT_PICKLE_VALUE_ABSENT));
    }
    pleat_pickle_storage_fini(&storage);
    return text;
}

#define BYTES(text) text, sizeof(text) - 1

typedef struct row {
    const char *data;
    size_t count;
    const char *expected;
} row_t;

static void expect_values(const row_t *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        pleat_status_t status = PLEAT_OK;
        char *text = read_as_text(rows[i].data, rows[i].count, LIMIT, &status);
        cr_assert(text != NULL, "row %zu (%s): %s", i, rows[i].expected, pleat_last_error());
        cr_expect(strcmp(text, rows[i].expected) == 0, "row %zu: %s instead of %s", i, text,
                  rows[i].expected);
        free(text);
    }
}

static void expect_refusals(const row_t *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        pleat_status_t status = PLEAT_OK;
        char *text = read_as_text(rows[i].data, rows[i].count, LIMIT, &status);
        cr_assert(text == NULL, "row %zu (%s): read as %s", i, rows[i].expected, text);
        cr_expect(eq(int, status, PLEAT_ERR_FORMAT));
        cr_expect(strstr(pleat_last_error(), rows[i].expected) != NULL, "row %zu: '%s' has no '%s'",
                  i, pleat_last_error(), rows[i].expected);
    }
}

Test(pickle_reader, numbers, .timeout = 20)
{
    static const row_t rows[] = {
        {BYTES("\x80\x02N."), "None"},
        {BYTES("\x80\x02\x88."), "True"},
        {BYTES("\x80\x02\x89."), "False"},
        {BYTES("\x80\x02K\xff."), "255"},
        {BYTES("\x80\x02M\x01\xff."), "65281"},
        {BYTES("\x80\x02J\xff\xff\xff\x7f."), "2147483647"},
        {BYTES("\x80\x02J\xfe\xff\xff\xff."), "-2"},
        {BYTES("\x80\x02\x8a\x00."), "0"},
        {BYTES("\x80\x02\x8a\x01\xff."), "-1"},
        {BYTES("\x80\x02\x8a\x02\xff\x00."), "255"},
        {BYTES("\x80\x02\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f."), "9223372036854775807"},
        {BYTES("\x80\x02\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80."), "-9223372036854775808"},
        {BYTES("\x80\x02\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x10."), "1152921504606846976"},
        {BYTES("\x80\x02\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x0f."), "1152921504606846975"},
        {BYTES("\x80\x02\x8a\x08\x01\x00\x00\x00\x00\x00\x00\xf0."), "-1152921504606846975"},
        {BYTES("\x80\x02\x8a\x08\x00\x00\x00\x00\x00\x00\x00\xf0."), "-1152921504606846976"},
        {BYTES("\x80\x02\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00."), "18446744073709551615"},
        {BYTES("\x80\x02\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01."), "huge"},
        {BYTES("\x80\x02\x8a\x09\xff\xff\xff\xff\xff\xff\xff\x7f\xff."), "huge"},
        {BYTES("\x80\x02\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\xff."), "-1"},
        {BYTES("\x80\x02\x8a\x0a\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00."), "1"},
        {BYTES("\x80\x02\x8a\x0a\x01\x00\x00\x00\x00\x00\x00\x00\x00\x01."), "huge"},
        {BYTES("\x80\x02\x8b\x02\x00\x00\x00\x34\x12."), "4660"},
        {BYTES("\x80\x02G\x3f\xf8\x00\x00\x00\x00\x00\x00."), "real 0x1.8p+0"},
    };
    expect_values(rows, sizeof(rows) / sizeof(rows[0]));
}

Test(pickle_reader, strings, .timeout = 20)
{
    static const row_t rows[] = {
        {BYTES("\x80\x02U\x02hi."), "\"hi\""},
        {BYTES("\x80\x02T\x02\x00\x00\x00hi."), "\"hi\""},
        {BYTES("\x80\x04\x8c\x00."), "\"\""},
        {BYTES("\x80\x04\x8c\x03"
               "a\x00"
               "b."),
         "\"a\\00b\""},
        {BYTES("\x80\x02X\x02\x00\x00\x00\xc3\xa9."), "\"\\c3\\a9\""},
        {BYTES("\x80\x04\x8d\x04\x00\x00\x00\x00\x00\x00\x00\xf0\x9f\x98\x80."),
         "\"\\f0\\9f\\98\\80\""},
        {BYTES("\x80\x04\x8c\x03\xed\xa0\x80."), "\"\\ed\\a0\\80\""}, /* half a surrogate pair */
        {BYTES("\x80\x03"
               "C\x02\x00\xff."),
         "b\"\\00\\ff\""},
        {BYTES("\x80\x03"
               "B\x01\x00\x00\x00x."),
         "b\"x\""},
        {BYTES("\x80\x04\x8e\x01\x00\x00\x00\x00\x00\x00\x00x."), "b\"x\""},
        {BYTES("\x80\x04\x8e\x00\x00\x00\x00\x00\x00\x00\x00."), "b\"\""},
    };
    expect_values(rows, sizeof(rows) / sizeof(rows[0]));
}

Test(pickle_reader, containers, .timeout = 20)
{
    static const row_t rows[] = {
        {BYTES("\x80\x02)."), "()"},
        {BYTES("\x80\x02K\x01\x85."), "(1)"},
        {BYTES("\x80\x02K\x01K\x02\x86."), "(1, 2)"},
        {BYTES("\x80\x02K\x01K\x02K\x03\x87."), "(1, 2, 3)"},
        {BYTES("\x80\x02(K\x01K\x02K\x03K\x04t."), "(1, 2, 3, 4)"},
        {BYTES("\x80\x02(t."), "()"},
        {BYTES("\x80\x02]."), "[]"},
        {BYTES("\x80\x02(K\x01K\x02l."), "[1, 2]"},
        {BYTES("\x80\x02]K\x01"
               "aK\x02"
               "a."),
         "[1, 2]"},
        {BYTES("\x80\x02](K\x01K\x02"
               "e(K\x03"
               "e."),
         "[1, 2, 3]"},
        {BYTES("\x80\x02](e."), "[]"},
        {BYTES("\x80\x02}."), "{}"},
        {BYTES("\x80\x02(K\x01K\x02"
               "d."),
         "{1: 2}"},
        {BYTES("\x80\x02}K\x01K\x02s)NsK\x03\x89s."), "{1: 2, (): None, 3: False}"},
        {BYTES("\x80\x02}(K\x01K\x02K\x03K\x04u."), "{1: 2, 3: 4}"},
        {BYTES("\x80\x02K\x01K\x02\x30."), "1"},       /* POP */
        {BYTES("\x80\x02K\x01(\x30."), "1"},           /* POP of a mark */
        {BYTES("\x80\x02K\x01(K\x02K\x03\x31."), "1"}, /* POP_MARK */
        {BYTES("\x80\x02K\x07\x32\x86."), "(7, 7)"},   /* DUP */
        {BYTES("\x80\x04\x95\x02\x00\x00\x00\x00\x00\x00\x00N."), "None"},
        {BYTES("\x80\x02\x80\x05N."), "None"},
        {BYTES("\x80\x02N.whatever stands behind"), "None"},
    };
    expect_values(rows, sizeof(rows) / sizeof(rows[0]));
}

Test(pickle_reader, references, .timeout = 20)
{
    static const row_t rows[] = {
        {BYTES("\x80\x02]q\x00K\x01"
               "ah\x00\x86."),
         "([1], [1])"},
        {BYTES("\x80\x02]r\x03\x00\x00\x00\x30j\x03\x00\x00\x00."), "[]"},
        {BYTES("\x80\x04K\x01\x94K\x02\x94h\x00h\x01\x86."), "(1, 2)"},
        {BYTES("\x80\x04K\x01q\x00K\x02q\x00h\x00."), "2"}, /* stored anew under its number */
        /* A list that holds itself. */
        {BYTES("\x80\x02]q\x00h\x00"
               "a."),
         "[[[[[[[[[[[[[...]]]]]]]]]]]]]"},
    };
    expect_values(rows, sizeof(rows) / sizeof(rows[0]));
}

Test(pickle_reader, refuses_what_is_no_plain_data, .timeout = 20)
{
    static const struct {
        int code;
        const char *name;
        pleat_pickle_use_t use;
    } opcodes[] = {
#define OPCODE_ROW(code, name, use) {code, #name, PLEAT_PICKLE_##use},
        PLEAT_PICKLE_OPCODE_LIST(OPCODE_ROW)
#undef OPCODE_ROW
    };
    bool is_known[256] = {false};
    unsigned refused_count = 0;
    for (size_t i = 0; i < sizeof(opcodes) / sizeof(opcodes[0]); i++) {
        char expected[128];
        const char data[] = {'\x80', '\x02', 'N', (char)opcodes[i].code, 'x', '\n', '.'};
        is_known[opcodes[i].code] = true;
        if (opcodes[i].use == PLEAT_PICKLE_DATA) {
            continue;
        }
        (void)snprintf(expected, sizeof(expected), "test: byte 3: opcode %s %s", opcodes[i].name,
                       opcodes[i].use == PLEAT_PICKLE_CODE    ? "names or calls code"
                       : opcodes[i].use == PLEAT_PICKLE_OTHER ? "makes an object"
                                                              : "is of the line form");
        const row_t row = {data, sizeof(data), expected};
        expect_refusals(&row, 1);
        refused_count++;
    }
    cr_expect(eq(uint, refused_count, 26));
    for (int code = 0; code < 256; code++) {
        const char data[] = {'\x80', '\x02', 'N', (char)code, '.'};
        const row_t row = {data, sizeof(data), "is no opcode of a pickle"};
        if (!is_known[code]) {
            expect_refusals(&row, 1);
        }
    }
}

Test(pickle_reader, refuses_what_cannot_be, .timeout = 20)
{
    static const row_t rows[] = {
        {BYTES(""), "byte 0: the file ends here; an opcode was expected"},
        {BYTES("N."), "byte 0: no pickle of protocol 2 to 5"},
        {BYTES("\x80\x01N."), "byte 0: protocol 1; those from 2 to 5"},
        {BYTES("\x80\x06N."), "byte 0: protocol 6"},
        {BYTES("\x80\x02"), "byte 2: the file ends here; an opcode"},
        {BYTES("\x80\x02."), "byte 2: STOP needs 1 value on the stack, and there are 0"},
        {BYTES("\x80\x02\x30."), "POP needs 1 value"},
        {BYTES("\x80\x02\x32."), "DUP needs 1 value"},
        {BYTES("\x80\x02\x31."), "POP_MARK needs a MARK"},
        {BYTES("\x80\x02K\x01K\x02\x87."), "TUPLE3 needs 3 values on the stack, and there are 2"},
        {BYTES("\x80\x02K\x01(K\x02K\x03\x87."), "TUPLE3 needs 3 values"}, /* not through a mark */
        {BYTES("\x80\x02t."), "TUPLE needs a MARK"},
        {BYTES("\x80\x02K\x01(K\x02"
               "e."),
         "APPENDS needs a list below the values, and there is an integer"},
        {BYTES("\x80\x02(K\x02"
               "e."),
         "APPENDS needs a list below the values, and there is nothing"},
        {BYTES("\x80\x02](K\x01"
               "a."),
         "APPEND needs 2 values on the stack, and there is 1"},
        {BYTES("\x80\x02}K\x01"
               "a."),
         "APPEND needs a list below the values, and there is a dictionary"},
        {BYTES("\x80\x02]K\x01K\x02s."), "SETITEM needs a dictionary below"},
        {BYTES("\x80\x02}(K\x01u."), "SETITEMS needs pairs of key and value, and there are 1"},
        {BYTES("\x80\x02}]Ns."), "SETITEM with a list for a key"},
        {BYTES("\x80\x02(}Nd."), "DICT with a dictionary for a key"},
        {BYTES("\x80\x02q\x00."), "BINPUT needs 1 value"},
        {BYTES("\x80\x02h\x00."), "BINGET names number 0, under which nothing was stored"},
        {BYTES("\x80\x02Nq\x00j\x07\x00\x00\x00."), "LONG_BINGET names number 7"},
        {BYTES("\x80\x02Nr\xff\xff\xff\xff."),
         "byte 3: LONG_BINPUT stores under number 4294967295"},
        {BYTES("\x80\x02\x8b\xff\xff\xff\xff."), "LONG4 of a negative length"},
        {BYTES("\x80\x02T\xff\xff\xff\xff."), "BINSTRING of a negative length"},
        {BYTES("\x80\x04\x8c\x02\xc3("), "byte 4: the string of SHORT_BINUNICODE at byte 2 is no"},
        {BYTES("\x80\x04\x8c\x03"
               "ab\x80"),
         "byte 6: the string"},
        {BYTES("\x80\x04\x8c\x02\xc0\x80"), "no UTF-8"},
        {BYTES("\x80\x04\x8c\x04\xf5\x80\x80\x80"), "no UTF-8"},
        {BYTES("\x80\x04\x8c\x01\xe2"), "no UTF-8"},
        {BYTES("\x80\x04\x8c\x01\xff"), "no UTF-8"},
    };
    expect_refusals(rows, sizeof(rows) / sizeof(rows[0]));
}

/* Every opcode with an argument, cut at every byte. */
static const char whole[] =
    "\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00(K\x01M\x02\x02J\x03\x03\x03\x03\x8a\x02\x04\x04"
    "\x8b\x02\x00\x00\x00\x05\x05G\x3f\xf8\x00\x00\x00\x00\x00\x00U\x01"
    "aT\x01\x00\x00\x00"
    "b\x8c\x01"
    "cX\x01\x00\x00\x00"
    "d\x8d\x01\x00\x00\x00\x00\x00\x00\x00"
    "eC\x01"
    "fB\x01\x00\x00\x00g\x8e\x01\x00\x00\x00\x00\x00\x00\x00hq\x00h\x00r\x01\x00\x00\x00j\x01\x00"
    "\x00\x00\x94t.";

Test(pickle_reader, truncated_anywhere, .timeout = 20)
{
    pleat_status_t status = PLEAT_OK;
    char *text = read_as_text(whole, sizeof(whole) - 1, LIMIT, &status);
    cr_assert(text != NULL, "%s", pleat_last_error());
    free(text);
    for (size_t count = 0; count + 1 < sizeof(whole); count++) {
        char expected[64];
        (void)snprintf(expected, sizeof(expected), "byte %zu: the file ends here", count);
        const row_t row = {whole, count, expected};
        expect_refusals(&row, 1);
    }
}

Test(pickle_reader, a_length_is_believed_only_as_far_as_there_are_bytes, .timeout = 20)
{
    static const row_t rows[] = {
        {BYTES("\x80\x04\x8d\x00\x00\x00\x03\x00\x00\x00\x00xyz"), "the file ends here"},
        {BYTES("\x80\x04\x8e\x00\x00\x00\x03\x00\x00\x00\x00xyz"), "the file ends here"},
        {BYTES("\x80\x04X\xff\xff\xff\x7fxyz"), "the file ends here"},
        {BYTES("\x80\x04\x8b\xff\xff\xff\x7fxyz"), "the file ends here"},
    };
    expect_refusals(rows, sizeof(rows) / sizeof(rows[0]));
}

/* Append bytes. */
static void put(char *data, size_t *count, const void *bytes, size_t byte_count)
{
    memcpy(data + *count, bytes, byte_count);
    *count += byte_count;
}

/* A pickle of @p count repetitions of a byte between a head and a tail. */
static char *repeat(const char *head, char byte, size_t count, const char *tail, size_t *bytes_out)
{
    const size_t head_bytes = 2 + strlen(head + 2);
    char *data = malloc(head_bytes + count + strlen(tail));
    cr_assert(data != NULL);
    *bytes_out = 0;
    put(data, bytes_out, head, head_bytes);
    memset(data + head_bytes, byte, count);
    *bytes_out += count;
    put(data, bytes_out, tail, strlen(tail));
    return data;
}

Test(pickle_reader, nests_deeply_without_recursion, .timeout = 20)
{
    enum { DEPTH = 300000 };
    pleat_status_t status = PLEAT_OK;
    size_t count = 0;
    char *data = repeat("\x80\x02", ']', DEPTH, "", &count);
    char *closed = malloc(count + DEPTH + 1);
    cr_assert(closed != NULL);
    size_t closed_count = 0;
    put(closed, &closed_count, data, count);
    memset(closed + count, 'a', DEPTH - 1);
    closed[count + DEPTH - 1] = '.';
    char *text = read_as_text(closed, count + DEPTH, LIMIT, &status);
    cr_assert(text != NULL, "%s", pleat_last_error());
    free(text);
    free(closed);
    free(data);

    data = repeat("\x80\x02", '(', PLEAT_PICKLE_MARKS_MAX + 1, ".", &count);
    const row_t row = {data, count, "byte 1002: nested deeper than 1000 marks"};
    expect_refusals(&row, 1);
    free(data);
}

Test(pickle_reader, memory_has_a_limit, .timeout = 20)
{
    static const char byte_kinds[] = {']', '}', ')', 'N', '\x94'};
    for (size_t i = 0; i < sizeof(byte_kinds); i++) {
        pleat_status_t status = PLEAT_OK;
        size_t count = 0;
        char *data = repeat("\x80\x02N", byte_kinds[i], 1 << 20, ".", &count);
        char *text = read_as_text(data, count, UINT64_C(1) << 20, &status);
        cr_expect(text == NULL);
        cr_expect(eq(int, status, PLEAT_ERR_OOM_HOST));
        cr_expect(strstr(pleat_last_error(),
                         "needs more memory than --limit allows, 1048576 bytes; "
                         "raise --limit") != NULL,
                  "%s", pleat_last_error());
        free(text);
        free(data);
    }
    pleat_status_t status = PLEAT_OK;
    char *text = read_as_text(BYTES("\x80\x02N."), 1000, &status);
    cr_expect(text == NULL);
    cr_expect(eq(int, status, PLEAT_ERR_OOM_HOST));
}

Test(pickle_reader, a_million_of_each_stays_small, .timeout = 30)
{
    /* A list of a million small tuples: 72 bytes each, and the list itself. */
    pleat_status_t status = PLEAT_OK;
    size_t count = 0;
    char *data = malloc(4000010);
    cr_assert(data != NULL);
    put(data, &count, "\x80\x02](", 4);
    for (size_t i = 0; i < 1000000; i++) {
        put(data, &count, "K\x05\x85", 3);
    }
    put(data, &count, "e.", 2);
    char *text = read_as_text(data, count, UINT64_C(100) << 20, &status);
    cr_assert(text != NULL, "%s", pleat_last_error());
    free(text);
    free(data);
}

Test(pickle_reader, strings_that_collide_are_only_not_shared, .timeout = 30)
{
    /* Two hundred thousand strings of which each is followed by a comparison with all that have its
     * hash would take minutes. */
    pleat_status_t status = PLEAT_OK;
    char *data = malloc((size_t)9 * 200000 + 16);
    cr_assert(data != NULL);
    size_t count = 0;
    put(data, &count, "\x80\x04](", 4);
    for (size_t i = 0; i < 200000; i++) {
        data[count++] = '\x8c';
        data[count++] = 6;
        count += (size_t)snprintf(data + count, 8, "%06zu", i);
    }
    put(data, &count, "e.", 2);
    char *text = read_as_text(data, count, LIMIT, &status);
    cr_assert(text != NULL, "%s", pleat_last_error());
    cr_expect(strstr(text, "\"199999\"") != NULL);
    free(text);
    free(data);
}

Test(pickle_reader, equal_strings_are_one, .timeout = 20)
{
    pleat_pickle_storage_t storage;
    pleat_pickle_value_t values[3] = {0};
    pleat_pickle_storage_init(&storage, LIMIT);
    cr_assert(pleat_pickle_make_string(&storage, "frames", 6, &values[0]));
    cr_assert(pleat_pickle_make_string(&storage, "frames", 6, &values[1]));
    cr_assert(pleat_pickle_make_string(&storage, "frame", 5, &values[2]));
    cr_expect(eq(u64, values[0], values[1]));
    cr_expect(ne(u64, values[0], values[2]));
    pleat_pickle_storage_fini(&storage);
}

Test(pickle_reader, of_equal_keys_the_last_counts, .timeout = 20)
{
    static const char data[] = "\x80\x04}(\x8c\x01"
                               "aK\x01\x8c\x01"
                               "aK\x02K\x03Nu.";
    reading_t reading = {.data = (const unsigned char *)data, .count = sizeof(data) - 1};
    const pleat_pickle_source_t source = {
        .read = read_bytes, .context = &reading, .name = "test", .limit_name = "--limit"};
    pleat_pickle_storage_t storage;
    pleat_pickle_value_t value = PLEAT_PICKLE_VALUE_ABSENT;
    uint64_t number = 0;
    pleat_pickle_storage_init(&storage, LIMIT);
    cr_assert(eq(int, pleat_pickle_read(&source, &storage, &value), PLEAT_OK));
    const pleat_pickle_items_t *dict = pleat_pickle_items(value);
    cr_assert(pleat_pickle_to_unsigned(pleat_pickle_find(dict, "a"), &number));
    cr_expect(eq(u64, number, 2));
    cr_expect(eq(u64, pleat_pickle_find(dict, "b"), PLEAT_PICKLE_VALUE_ABSENT));
    pleat_pickle_storage_fini(&storage);
}

Test(pickle_reader, passes_a_failure_of_its_source_on, .timeout = 20)
{
    size_t count = 0;
    char *data = repeat("\x80\x02", 'N', 200000, ".", &count);
    reading_t reading = {.data = (const unsigned char *)data, .count = count, .fails_at = 100000};
    const pleat_pickle_source_t source = {
        .read = read_bytes, .context = &reading, .name = "test", .limit_name = "--limit"};
    pleat_pickle_storage_t storage;
    pleat_pickle_value_t value = PLEAT_PICKLE_VALUE_ABSENT;
    pleat_pickle_storage_init(&storage, LIMIT);
    cr_expect(eq(int, pleat_pickle_read(&source, &storage, &value), PLEAT_ERR_IO));
    pleat_pickle_storage_fini(&storage);
    free(data);
}

Test(pickle_reader, without_host_memory, .timeout = 60)
{
    /* Grown lists, long strings, many numbers: each host allocation fails once. */
    size_t count = 0;
    char *data = calloc(1, 400000);
    cr_assert(data != NULL);
    put(data, &count, "\x80\x04](", 4);
    for (size_t i = 0; i < 9000; i++) {
        data[count++] = '\x8c';
        data[count++] = 5;
        count += (size_t)snprintf(data + count, 8, "%05zu", i);
        put(data, &count, "G\x3f\xf8\x00\x00\x00\x00\x00\x00\x94", 10);
    }
    put(data, &count, "eX\x00\x20\x00\x00", 6);
    memset(data + count, 'x', 8192);
    count += 8192;
    put(data, &count, "\x86.", 2);
    for (uint64_t nth = 1; nth < 1000; nth++) {
        pleat_status_t status = PLEAT_OK;
        const uint64_t before = host_fault_allocations();
        host_fault_after(nth);
        char *text = read_as_text(data, count, LIMIT, &status);
        host_fault_after(0);
        free(text);
        if (status == PLEAT_OK) {
            cr_expect(lt(u64, 10, nth));
            cr_expect(lt(u64, 0, host_fault_allocations() - before));
            free(data);
            return;
        }
        cr_assert(eq(int, status, PLEAT_ERR_OOM_HOST));
        cr_expect(strstr(pleat_last_error(), "no host memory after") != NULL, "%s",
                  pleat_last_error());
    }
    cr_assert(false, "it never succeeded");
}
