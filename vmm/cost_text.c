/*
 * cost_text: reads and writes the text form of a cost table; cost.h has the grammar.
 */
#include "cost.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define COST_HEADER "pleat-costs 1"

/* One word of a line; never longer than the line, not ended by 0. */
typedef struct cost_word {
    const char *text;
    size_t length;
} cost_word_t;

typedef struct cost_reader {
    const char *next; /* rest of the current line */
    const char *line_end;
    const char *text_end;
    size_t line_number; /* from 1 */
    bool has_header;
    bool is_call_named[PLEAT_VMM_CALL_COUNT];
    pleat_cost_table_t table;
} cost_reader_t;

static pleat_status_t PLEAT_PRINTF(2, 3)
    cost_reader_fail(const cost_reader_t *reader, const char *format, ...)
{
    char what[256];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    pleat_error_set("cost table, line %zu: %s", reader->line_number, what);
    return PLEAT_ERR_FORMAT;
}

/* At most this much of a bad word is shown. */
static int shown_length(cost_word_t word)
{
    return word.length > 40 ? 40 : (int)word.length;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static bool word_is(cost_word_t word, const char *text)
{
    return word.length == strlen(text) && memcmp(word.text, text, word.length) == 0;
}

/* Next word of the line; length 0 at its end. */
static cost_word_t cost_reader_word(cost_reader_t *reader)
{
    while (reader->next < reader->line_end && is_blank(*reader->next)) {
        reader->next++;
    }
    cost_word_t word = {.text = reader->next, .length = 0};
    while (reader->next < reader->line_end && !is_blank(*reader->next)) {
        reader->next++;
        word.length++;
    }
    return word;
}

/* Leading decimal digits; false when there are none or the number passes 64 bits. */
static bool word_take_number(cost_word_t *word, uint64_t *value_out)
{
    uint64_t value = 0;
    size_t used = 0;
    for (; used < word->length && word->text[used] >= '0' && word->text[used] <= '9'; used++) {
        const uint64_t digit = (uint64_t)(word->text[used] - '0');
        if (!pleat_multiply_checked(value, 10, &value) ||
            !pleat_add_checked(value, digit, &value)) {
            return false;
        }
    }
    word->text += used;
    word->length -= used;
    *value_out = value;
    return used > 0;
}

static bool word_to_ns(cost_word_t word, uint64_t *value_out)
{
    return word_take_number(&word, value_out) && word.length == 0;
}

static bool word_to_bytes(cost_word_t word, uint64_t *value_out)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } units[] = {{"", 1}, {"KiB", PLEAT_KIB}, {"MiB", PLEAT_MIB}, {"GiB", PLEAT_GIB}};
    uint64_t value = 0;
    if (!word_take_number(&word, &value)) {
        return false;
    }
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (word_is(word, units[i].text)) {
            return pleat_multiply_checked(value, units[i].bytes, value_out);
        }
    }
    return false;
}

static bool word_to_call(cost_word_t word, pleat_vmm_call_t *call_out)
{
    for (unsigned i = 0; i < PLEAT_VMM_CALL_COUNT; i++) {
        if (word_is(word, pleat_vmm_call_name((pleat_vmm_call_t)i))) {
            *call_out = (pleat_vmm_call_t)i;
            return true;
        }
    }
    return false;
}

/* Kind of a name that may stand in a row; PLEAT_VMM_CALL_COUNT: none. */
static pleat_vmm_call_t word_to_sized_call(cost_word_t word)
{
    pleat_vmm_call_t call = PLEAT_VMM_CALL_COUNT;
    return word_to_call(word, &call) && pleat_cost_is_sized(call) ? call : PLEAT_VMM_CALL_COUNT;
}

/* One KIND=NS of a row. */
static pleat_status_t cost_reader_row_part(const cost_reader_t *reader, cost_word_t word,
                                           pleat_cost_row_t *row, bool *has_call)
{
    const char *equals = memchr(word.text, '=', word.length);
    const size_t name_length = equals == NULL ? word.length : (size_t)(equals - word.text);
    const cost_word_t name = {word.text, name_length};
    const pleat_vmm_call_t call = word_to_sized_call(name);
    if (equals == NULL || call == PLEAT_VMM_CALL_COUNT) {
#define COST_NAME(CALL, name) " " #name "=NS"
        return cost_reader_fail(reader,
                                "'%.*s' is no cost; these are:" PLEAT_COST_SIZED_LIST(COST_NAME),
                                shown_length(word), word.text);
#undef COST_NAME
    }
    if (has_call[call]) {
        return cost_reader_fail(reader, "%.*s is given twice", shown_length(name), name.text);
    }
    const cost_word_t number = {equals + 1, word.length - name_length - 1};
    if (!word_to_ns(number, pleat_cost_of_row(row, call))) {
        return cost_reader_fail(reader, "'%.*s' is no number of nanoseconds", shown_length(number),
                                number.text);
    }
    has_call[call] = true;
    return PLEAT_OK;
}

/* What a row does not name is taken from the H200 table. */
static pleat_status_t cost_reader_complete_row(const cost_reader_t *reader, pleat_cost_row_t *row,
                                               const bool *has_call)
{
    if (!has_call[PLEAT_VMM_CALL_MEM_ALLOC] || !has_call[PLEAT_VMM_CALL_MEM_FREE]) {
        return cost_reader_fail(reader, "the row lacks %s=NS",
                                has_call[PLEAT_VMM_CALL_MEM_ALLOC] ? "mem_free" : "mem_alloc");
    }
    for (unsigned i = 0; i < PLEAT_VMM_CALL_COUNT; i++) {
        const pleat_vmm_call_t call = (pleat_vmm_call_t)i;
        if (pleat_cost_is_sized(call) && !has_call[call]) {
            *pleat_cost_of_row(row, call) =
                pleat_cost_of(pleat_cost_table_h200(), call, row->bytes);
        }
    }
    return PLEAT_OK;
}

static pleat_status_t cost_reader_row(cost_reader_t *reader)
{
    pleat_cost_table_t *table = &reader->table;
    if (table->row_count == PLEAT_COST_ROWS_MAX) {
        return cost_reader_fail(reader, "more than %d rows", PLEAT_COST_ROWS_MAX);
    }
    pleat_cost_row_t row = {.bytes = 0};
    const cost_word_t size = cost_reader_word(reader);
    if (!word_to_bytes(size, &row.bytes)) {
        return cost_reader_fail(reader, "'%.*s' is no size; 2097152 or 2MiB would be",
                                shown_length(size), size.text);
    }
    if (table->row_count > 0 && row.bytes <= table->rows[table->row_count - 1].bytes) {
        return cost_reader_fail(reader,
                                "row of %" PRIu64 " bytes after one of %" PRIu64 "; rows must rise",
                                row.bytes, table->rows[table->row_count - 1].bytes);
    }
    bool has_call[PLEAT_VMM_CALL_COUNT] = {false};
    for (;;) {
        const cost_word_t word = cost_reader_word(reader);
        if (word.length == 0) {
            break;
        }
        const pleat_status_t status = cost_reader_row_part(reader, word, &row, has_call);
        if (status != PLEAT_OK) {
            return status;
        }
    }
    const pleat_status_t status = cost_reader_complete_row(reader, &row, has_call);
    if (status != PLEAT_OK) {
        return status;
    }
    table->rows[table->row_count++] = row;
    return PLEAT_OK;
}

static pleat_status_t cost_reader_call(cost_reader_t *reader)
{
    const cost_word_t name = cost_reader_word(reader);
    const cost_word_t number = cost_reader_word(reader);
    const cost_word_t rest = cost_reader_word(reader);
    pleat_vmm_call_t call = PLEAT_VMM_CALL_COUNT;
    if (!word_to_call(name, &call)) {
        return cost_reader_fail(reader, "'%.*s' is no kind of call; mem_info or event_query is one",
                                shown_length(name), name.text);
    }
    if (reader->is_call_named[call]) {
        return cost_reader_fail(reader, "%s is given twice", pleat_vmm_call_name(call));
    }
    if (pleat_cost_is_sized(call)) {
        return cost_reader_fail(reader, "%s depends on the size and belongs in the rows",
                                pleat_vmm_call_name(call));
    }
    if (!word_to_ns(number, &reader->table.call_ns[call])) {
        return cost_reader_fail(reader, "'%.*s' is no number of nanoseconds", shown_length(number),
                                number.text);
    }
    if (rest.length > 0) {
        return cost_reader_fail(reader, "'%.*s' stands behind the cost; the line should end there",
                                shown_length(rest), rest.text);
    }
    reader->is_call_named[call] = true;
    return PLEAT_OK;
}

static pleat_status_t cost_reader_header(cost_reader_t *reader, cost_word_t word)
{
    const cost_word_t version = cost_reader_word(reader);
    if (!word_is(word, "pleat-costs") || !word_is(version, "1") ||
        cost_reader_word(reader).length > 0) {
        return cost_reader_fail(reader,
                                "begins with '%.*s'; a cost table begins with the line '%s'",
                                shown_length(word), word.text, COST_HEADER);
    }
    reader->has_header = true;
    return PLEAT_OK;
}

static pleat_status_t cost_reader_line(cost_reader_t *reader)
{
    const cost_word_t word = cost_reader_word(reader);
    if (word.length == 0) {
        return PLEAT_OK;
    }
    if (!reader->has_header) {
        return cost_reader_header(reader, word);
    }
    if (word_is(word, "row")) {
        return cost_reader_row(reader);
    }
    if (word_is(word, "call")) {
        return cost_reader_call(reader);
    }
    return cost_reader_fail(reader, "'%.*s' begins no item; 'row' and 'call' do",
                            shown_length(word), word.text);
}

pleat_status_t pleat_cost_table_read(const char *text, size_t length, pleat_cost_table_t *table_out)
{
    if (text == NULL || table_out == NULL) {
        pleat_error_set("cost table: %s is NULL", text == NULL ? "text" : "table_out");
        return PLEAT_ERR_INVALID;
    }
    cost_reader_t reader = {.text_end = text + length, .table = *pleat_cost_table_h200()};
    reader.table.row_count = 0;
    memset(reader.table.rows, 0, sizeof reader.table.rows);
    for (const char *line = text; line < reader.text_end;) {
        const size_t left = (size_t)(reader.text_end - line);
        const char *end = memchr(line, '\n', left);
        end = end == NULL ? reader.text_end : end;
        const char *comment = memchr(line, '#', (size_t)(end - line));
        reader.next = line;
        reader.line_end = comment == NULL ? end : comment;
        reader.line_number++;
        const pleat_status_t status = cost_reader_line(&reader);
        if (status != PLEAT_OK) {
            return status;
        }
        line = end < reader.text_end ? end + 1 : end;
    }
    if (!reader.has_header || reader.table.row_count == 0) {
        reader.line_number += reader.line_number == 0;
        return cost_reader_fail(&reader, "the text ends without %s",
                                reader.has_header ? "a row" : "the line '" COST_HEADER "'");
    }
    *table_out = reader.table;
    return PLEAT_OK;
}

typedef struct cost_writer {
    char *buffer;
    size_t capacity;
    size_t length; /* may pass capacity: what would have been written */
} cost_writer_t;

static void PLEAT_PRINTF(2, 3) cost_writer_add(cost_writer_t *writer, const char *format, ...)
{
    const size_t room = writer->length < writer->capacity ? writer->capacity - writer->length : 0;
    va_list arguments;
    va_start(arguments, format);
    const int length =
        vsnprintf(room > 0 ? writer->buffer + writer->length : NULL, room, format, arguments);
    va_end(arguments);
    PLEAT_ASSERT(length >= 0);
    writer->length += (size_t)length;
}

pleat_status_t pleat_cost_table_write(const pleat_cost_table_t *table, char *buffer,
                                      size_t capacity, size_t *length_out)
{
    if (table == NULL || buffer == NULL || length_out == NULL) {
        pleat_error_set("cost table: table, buffer or length_out is NULL");
        return PLEAT_ERR_INVALID;
    }
    const pleat_status_t status = pleat_cost_table_check(table);
    if (status != PLEAT_OK) {
        return status;
    }
    if (table->row_count == 0) {
        pleat_error_set("cost table: it has no rows, the text form needs one");
        return PLEAT_ERR_INVALID;
    }
    cost_writer_t writer = {.buffer = buffer, .capacity = capacity};
    cost_writer_add(&writer, COST_HEADER "\n");
    for (uint32_t i = 0; i < table->row_count; i++) {
        const pleat_cost_row_t *row = &table->rows[i];
        cost_writer_add(&writer, "row %" PRIu64, row->bytes);
#define WRITE_COST(CALL, name) cost_writer_add(&writer, " " #name "=%" PRIu64, row->name##_ns);
        PLEAT_COST_SIZED_LIST(WRITE_COST)
#undef WRITE_COST
        cost_writer_add(&writer, "\n");
    }
    for (unsigned i = 0; i < PLEAT_VMM_CALL_COUNT; i++) {
        const pleat_vmm_call_t call = (pleat_vmm_call_t)i;
        if (!pleat_cost_is_sized(call)) {
            cost_writer_add(&writer, "call %s %" PRIu64 "\n", pleat_vmm_call_name(call),
                            table->call_ns[i]);
        }
    }
    if (writer.length >= capacity) {
        pleat_error_set("cost table: its text has %zu bytes, the buffer %zu", writer.length + 1,
                        capacity);
        return PLEAT_ERR_INVALID;
    }
    *length_out = writer.length;
    return PLEAT_OK;
}
