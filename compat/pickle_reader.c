/*
 * pickle_reader: see pickle_reader.h.
 *
 * Values on the stack below the last mark are out of reach, as in Python. The memo is an array: a
 * pickle numbers what it remembers one by one, and each number takes an opcode, so an index beyond
 * the byte at which it stands is refused; that bounds the array by the length of the file.
 */
#include "pickle_reader.h"

#include "pickle_input.h"
#include "pickle_opcodes.h"
#include "vmm/base.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define PLEAT_PICKLE_PIECE_BYTES (UINT64_C(1) * PLEAT_MIB)

typedef struct pickle_reader {
    pleat_pickle_input_t input;
    pleat_pickle_storage_t *storage;
    pleat_pickle_value_t *stack;
    size_t stack_count;
    size_t stack_capacity;
    size_t marks[PLEAT_PICKLE_MARKS_MAX]; /* height of the stack at each open mark */
    size_t mark_count;
    pleat_pickle_value_t *memo;
    size_t memo_capacity; /* those that are not set are ABSENT */
    uint64_t memo_count;
} pickle_reader_t;

/* ---- errors ---- */

static pleat_status_t reader_no_memory(const pickle_reader_t *reader)
{
    return pleat_pickle_no_memory(reader->input.source, reader->storage, reader->input.offset);
}

/* ---- stack ---- */

static pleat_status_t reader_push(pickle_reader_t *reader, pleat_pickle_value_t value)
{
    if (reader->stack_count == reader->stack_capacity) {
        void *stack = reader->stack;
        if (!pleat_pickle_reserve(reader->storage, &stack, &reader->stack_capacity,
                                  reader->stack_count + 1, sizeof(*reader->stack))) {
            return reader_no_memory(reader);
        }
        reader->stack = stack;
    }
    reader->stack[reader->stack_count++] = value;
    return PLEAT_OK;
}

/* Values above the last mark. */
static size_t reader_height(const pickle_reader_t *reader)
{
    const size_t floor = reader->mark_count > 0 ? reader->marks[reader->mark_count - 1] : 0;
    return reader->stack_count - floor;
}

static pleat_status_t reader_require(const pickle_reader_t *reader, size_t count)
{
    if (reader_height(reader) >= count) {
        return PLEAT_OK;
    }
    return pleat_pickle_input_fail(
        &reader->input, reader->input.offset, "%s needs %zu value%s on the stack, and there %s %zu",
        pleat_pickle_opcode_name(reader->input.opcode), count, count == 1 ? "" : "s",
        reader_height(reader) == 1 ? "is" : "are", reader_height(reader));
}

/* Ends the last mark; the values above it begin at *first_out, up to the stack's top. */
static pleat_status_t reader_end_mark(pickle_reader_t *reader, size_t *first_out)
{
    if (reader->mark_count == 0) {
        return pleat_pickle_input_fail(&reader->input, reader->input.offset,
                                       "%s needs a MARK ('(') before it",
                                       pleat_pickle_opcode_name(reader->input.opcode));
    }
    *first_out = reader->marks[--reader->mark_count];
    return PLEAT_OK;
}

/* ---- memo ---- */

static pleat_status_t reader_put(pickle_reader_t *reader, uint64_t index)
{
    const pleat_status_t status = reader_require(reader, 1);
    if (status != PLEAT_OK) {
        return status;
    }
    if (index > reader->input.offset) {
        return pleat_pickle_input_fail(&reader->input, reader->input.offset,
                                       "%s stores under number %" PRIu64
                                       ", more than there can be by here; "
                                       "they are counted from 0",
                                       pleat_pickle_opcode_name(reader->input.opcode), index);
    }
    if (index >= reader->memo_capacity) {
        const size_t old_capacity = reader->memo_capacity;
        void *memo = reader->memo;
        if (!pleat_pickle_reserve(reader->storage, &memo, &reader->memo_capacity, (size_t)index + 1,
                                  sizeof(*reader->memo))) {
            return reader_no_memory(reader);
        }
        reader->memo = memo;
        for (size_t i = old_capacity; i < reader->memo_capacity; i++) {
            reader->memo[i] = PLEAT_PICKLE_VALUE_ABSENT;
        }
    }
    reader->memo_count += reader->memo[index] == PLEAT_PICKLE_VALUE_ABSENT ? 1 : 0;
    reader->memo[index] = reader->stack[reader->stack_count - 1];
    return PLEAT_OK;
}

static pleat_status_t reader_get(pickle_reader_t *reader, uint64_t index)
{
    if (index >= reader->memo_capacity || reader->memo[index] == PLEAT_PICKLE_VALUE_ABSENT) {
        return pleat_pickle_input_fail(&reader->input, reader->input.offset,
                                       "%s names number %" PRIu64
                                       ", under which nothing was stored before",
                                       pleat_pickle_opcode_name(reader->input.opcode), index);
    }
    return reader_push(reader, reader->memo[index]);
}

/* ---- numbers ---- */

static pleat_status_t reader_push_signed(pickle_reader_t *reader, int64_t number)
{
    pleat_pickle_value_t value = PLEAT_PICKLE_VALUE_ABSENT;
    const bool is_made =
        number < 0 ? pleat_pickle_make_negative(reader->storage, number, &value)
                   : pleat_pickle_make_unsigned(reader->storage, (uint64_t)number, &value);
    return is_made ? reader_push(reader, value) : reader_no_memory(reader);
}

/* An integer in two's complement of any length, the lowest byte first. */
static pleat_status_t reader_long(pickle_reader_t *reader, uint64_t length)
{
    uint64_t low = 0;
    unsigned char last = 0;
    bool is_sign_only = true; /* the bytes behind the eighth are all 0, or all 255 */
    unsigned char fill = 0;
    for (uint64_t i = 0; i < length; i++) {
        const unsigned char *byte = NULL;
        const pleat_status_t status = pleat_pickle_input_take(&reader->input, 1, &byte);
        if (status != PLEAT_OK) {
            return status;
        }
        last = *byte;
        if (i < 8) {
            low |= (uint64_t)last << (8 * i);
        } else {
            fill = i == 8 ? last : fill;
            is_sign_only &= last == fill && (fill == 0x00 || fill == 0xff);
        }
    }
    pleat_pickle_value_t value = PLEAT_PICKLE_VALUE_ABSENT;
    const bool is_negative = length > 0 && (last & 0x80) != 0;
    bool is_made = false;
    if (is_negative && length < 8) {
        low |= UINT64_MAX << (8 * length);
    }
    if (!is_sign_only || (is_negative && low >> 63 == 0)) {
        is_made = pleat_pickle_make_huge(reader->storage, &value);
    } else if (is_negative) {
        is_made = pleat_pickle_make_negative(reader->storage, (int64_t)low, &value);
    } else {
        is_made = pleat_pickle_make_unsigned(reader->storage, low, &value);
    }
    return is_made ? reader_push(reader, value) : reader_no_memory(reader);
}

static pleat_status_t reader_real(pickle_reader_t *reader)
{
    const unsigned char *bytes = NULL;
    uint64_t bits = 0;
    double number = 0;
    pleat_pickle_value_t value = PLEAT_PICKLE_VALUE_ABSENT;
    const pleat_status_t status = pleat_pickle_input_take(&reader->input, sizeof(bits), &bytes);
    if (status != PLEAT_OK) {
        return status;
    }
    for (size_t i = 0; i < sizeof(bits); i++) { /* the highest byte first */
        bits = bits << 8 | bytes[i];
    }
    memcpy(&number, &bits, sizeof(number));
    return pleat_pickle_make_real(reader->storage, number, &value) ? reader_push(reader, value)
                                                                   : reader_no_memory(reader);
}

/* ---- strings ---- */

static pleat_status_t reader_check_utf8(const pickle_reader_t *reader, const char *text,
                                        uint64_t length)
{
    const unsigned char *bytes = (const unsigned char *)text;
    uint64_t at = 0;
    while (at < length) {
        const size_t step = pleat_pickle_utf8_length(bytes + at, (size_t)(length - at));
        if (step == 0) {
            return pleat_pickle_input_fail(
                &reader->input, pleat_pickle_input_position(&reader->input) - length + at,
                "the string of %s at byte %" PRIu64 " is no UTF-8 here",
                pleat_pickle_opcode_name(reader->input.opcode), reader->input.offset);
        }
        at += step;
    }
    return PLEAT_OK;
}

/* Content of a long string or of bytes. The length is only believed as far as there are bytes. */
static pleat_status_t reader_long_string(pickle_reader_t *reader, pleat_pickle_tag_t tag,
                                         uint64_t length)
{
    pleat_pickle_string_t *string = NULL;
    pleat_pickle_value_t value = PLEAT_PICKLE_VALUE_ABSENT;
    char *content = NULL;
    uint64_t capacity = 0;
    uint64_t count = 0;
    pleat_status_t status = PLEAT_OK;
    while (count < length && status == PLEAT_OK) {
        if (count == capacity) {
            uint64_t wanted = capacity == 0 ? PLEAT_PICKLE_PIECE_BYTES : capacity * 2;
            wanted = wanted > length ? length : wanted;
            char *moved = pleat_pickle_resize(reader->storage, content, capacity, wanted);
            if (moved == NULL) {
                status = reader_no_memory(reader);
                break;
            }
            content = moved;
            capacity = wanted;
        }
        const unsigned char *bytes = NULL;
        const uint64_t left = capacity - count;
        const size_t piece =
            left < PLEAT_PICKLE_INPUT_BYTES ? (size_t)left : PLEAT_PICKLE_INPUT_BYTES;
        status = pleat_pickle_input_take(&reader->input, piece, &bytes);
        if (status == PLEAT_OK) {
            memcpy(content + count, bytes, piece);
            count += piece;
        }
    }
    if (status == PLEAT_OK && tag == PLEAT_PICKLE_TAG_STRING) {
        status = reader_check_utf8(reader, content, length);
    }
    if (status == PLEAT_OK &&
        !pleat_pickle_make_raw(reader->storage, tag, length, &string, &value)) {
        status = reader_no_memory(reader);
    }
    if (status == PLEAT_OK && content != NULL) {
        memcpy(string->text, content, (size_t)length);
    }
    pleat_pickle_release(reader->storage, content, capacity);
    return status == PLEAT_OK ? reader_push(reader, value) : status;
}

/* A string or bytes behind a length of @p length_bytes. */
static pleat_status_t reader_string(pickle_reader_t *reader, pleat_pickle_tag_t tag,
                                    size_t length_bytes)
{
    uint64_t length = 0;
    pleat_status_t status = pleat_pickle_input_number(&reader->input, length_bytes, &length);
    if (status != PLEAT_OK) {
        return status;
    }
    if (reader->input.opcode == PLEAT_PICKLE_OP_BINSTRING && length > INT32_MAX) {
        return pleat_pickle_input_fail(&reader->input, reader->input.offset,
                                       "BINSTRING of a negative length");
    }
    if (tag != PLEAT_PICKLE_TAG_STRING || length > PLEAT_PICKLE_SHARED_STRING_BYTES) {
        return reader_long_string(reader, tag, length);
    }
    const unsigned char *bytes = NULL;
    pleat_pickle_value_t value = PLEAT_PICKLE_VALUE_ABSENT;
    status = pleat_pickle_input_take(&reader->input, (size_t)length, &bytes);
    if (status == PLEAT_OK) {
        status = reader_check_utf8(reader, (const char *)bytes, length);
    }
    if (status != PLEAT_OK) {
        return status;
    }
    return pleat_pickle_make_string(reader->storage, (const char *)bytes, (size_t)length, &value)
               ? reader_push(reader, value)
               : reader_no_memory(reader);
}

/* ---- containers ---- */

static pleat_status_t reader_push_items(pickle_reader_t *reader, pleat_pickle_tag_t tag)
{
    pleat_pickle_value_t value = PLEAT_PICKLE_VALUE_ABSENT;
    return pleat_pickle_make_items(reader->storage, tag, reader->input.offset, &value)
               ? reader_push(reader, value)
               : reader_no_memory(reader);
}

static pleat_status_t reader_check_keys(const pickle_reader_t *reader, size_t first, size_t end)
{
    if ((end - first) % 2 != 0) {
        return pleat_pickle_input_fail(&reader->input, reader->input.offset,
                                       "%s needs pairs of key and value, and there are %zu values",
                                       pleat_pickle_opcode_name(reader->input.opcode), end - first);
    }
    for (size_t i = first; i < end; i += 2) {
        const pleat_pickle_tag_t tag = pleat_pickle_tag(reader->stack[i]);
        if (tag == PLEAT_PICKLE_TAG_LIST || tag == PLEAT_PICKLE_TAG_DICT) {
            return pleat_pickle_input_fail(&reader->input, reader->input.offset,
                                           "%s with %s for a key, which Python refuses",
                                           pleat_pickle_opcode_name(reader->input.opcode),
                                           pleat_pickle_describe(reader->stack[i]));
        }
    }
    return PLEAT_OK;
}

/* The values from @p first on; an empty stack has no memory. */
static const pleat_pickle_value_t *reader_values(const pickle_reader_t *reader, size_t first)
{
    return first < reader->stack_count ? &reader->stack[first] : NULL;
}

/* A new container of the values from @p first to the stack's top, which it replaces. */
static pleat_status_t reader_collect(pickle_reader_t *reader, pleat_pickle_tag_t tag, size_t first)
{
    pleat_pickle_value_t value = PLEAT_PICKLE_VALUE_ABSENT;
    const size_t count = reader->stack_count - first;
    if (tag == PLEAT_PICKLE_TAG_DICT) {
        const pleat_status_t status = reader_check_keys(reader, first, reader->stack_count);
        if (status != PLEAT_OK) {
            return status;
        }
    }
    if (!pleat_pickle_make_items(reader->storage, tag, reader->input.offset, &value) ||
        !pleat_pickle_items_append(reader->storage, pleat_pickle_items(value),
                                   reader_values(reader, first), count)) {
        return reader_no_memory(reader);
    }
    reader->stack_count = first;
    return reader_push(reader, value);
}

static pleat_status_t reader_collect_marked(pickle_reader_t *reader, pleat_pickle_tag_t tag)
{
    size_t first = 0;
    const pleat_status_t status = reader_end_mark(reader, &first);
    return status == PLEAT_OK ? reader_collect(reader, tag, first) : status;
}

static pleat_status_t reader_collect_counted(pickle_reader_t *reader, size_t count)
{
    const pleat_status_t status = reader_require(reader, count);
    return status == PLEAT_OK
               ? reader_collect(reader, PLEAT_PICKLE_TAG_TUPLE, reader->stack_count - count)
               : status;
}

/* Add the values from @p first to the stack's top to the container below them. */
static pleat_status_t reader_extend(pickle_reader_t *reader, pleat_pickle_tag_t tag, size_t first)
{
    const size_t floor = reader->mark_count > 0 ? reader->marks[reader->mark_count - 1] : 0;
    if (first <= floor) {
        return pleat_pickle_input_fail(&reader->input, reader->input.offset,
                                       "%s needs a %s below the values, and there is "
                                       "nothing",
                                       pleat_pickle_opcode_name(reader->input.opcode),
                                       tag == PLEAT_PICKLE_TAG_LIST ? "list" : "dictionary");
    }
    const pleat_pickle_value_t target = reader->stack[first - 1];
    if (pleat_pickle_tag(target) != tag) {
        return pleat_pickle_input_fail(
            &reader->input, reader->input.offset, "%s needs a %s below the values, and there is %s",
            pleat_pickle_opcode_name(reader->input.opcode),
            tag == PLEAT_PICKLE_TAG_LIST ? "list" : "dictionary", pleat_pickle_describe(target));
    }
    if (tag == PLEAT_PICKLE_TAG_DICT) {
        const pleat_status_t status = reader_check_keys(reader, first, reader->stack_count);
        if (status != PLEAT_OK) {
            return status;
        }
    }
    if (!pleat_pickle_items_append(reader->storage, pleat_pickle_items(target),
                                   reader_values(reader, first), reader->stack_count - first)) {
        return reader_no_memory(reader);
    }
    reader->stack_count = first;
    return PLEAT_OK;
}

static pleat_status_t reader_extend_marked(pickle_reader_t *reader, pleat_pickle_tag_t tag)
{
    size_t first = 0;
    const pleat_status_t status = reader_end_mark(reader, &first);
    return status == PLEAT_OK ? reader_extend(reader, tag, first) : status;
}

static pleat_status_t reader_extend_counted(pickle_reader_t *reader, pleat_pickle_tag_t tag,
                                            size_t count)
{
    const pleat_status_t status = reader_require(reader, count + 1);
    return status == PLEAT_OK ? reader_extend(reader, tag, reader->stack_count - count) : status;
}

/* ---- opcodes ---- */

static pleat_status_t reader_refuse(const pickle_reader_t *reader)
{
    const char *name = pleat_pickle_opcode_name(reader->input.opcode);
    switch (pleat_pickle_opcode_use(reader->input.opcode)) {
    case PLEAT_PICKLE_CODE:
        return pleat_pickle_input_fail(
            &reader->input, reader->input.offset,
            "opcode %s names or calls code of a Python program, which is never run; "
            "a memory snapshot is made of plain data only",
            name);
    case PLEAT_PICKLE_OTHER:
        return pleat_pickle_input_fail(
            &reader->input, reader->input.offset,
            "opcode %s makes an object that no memory snapshot has; expected are "
            "numbers, strings, lists, tuples and dictionaries",
            name);
    case PLEAT_PICKLE_TEXT:
        return pleat_pickle_input_fail(
            &reader->input, reader->input.offset,
            "opcode %s is of the line form of protocol 0; expected is protocol 2 "
            "to 5",
            name);
    case PLEAT_PICKLE_UNKNOWN:
    case PLEAT_PICKLE_DATA:
        break;
    }
    return pleat_pickle_input_fail(&reader->input, reader->input.offset,
                                   "byte 0x%02x is no opcode of a pickle",
                                   (unsigned)reader->input.opcode);
}

static pleat_status_t reader_protocol(pickle_reader_t *reader)
{
    uint64_t protocol = 0;
    const pleat_status_t status = pleat_pickle_input_number(&reader->input, 1, &protocol);
    if (status == PLEAT_OK &&
        (protocol < PLEAT_PICKLE_PROTOCOL_MIN || protocol > PLEAT_PICKLE_PROTOCOL_MAX)) {
        return pleat_pickle_input_fail(&reader->input, reader->input.offset,
                                       "protocol %" PRIu64 "; those from %d to %d are read",
                                       protocol, (int)PLEAT_PICKLE_PROTOCOL_MIN,
                                       (int)PLEAT_PICKLE_PROTOCOL_MAX);
    }
    return status;
}

static pleat_status_t reader_mark(pickle_reader_t *reader)
{
    if (reader->mark_count == PLEAT_PICKLE_MARKS_MAX) {
        return pleat_pickle_input_fail(&reader->input, reader->input.offset,
                                       "nested deeper than %d marks", (int)PLEAT_PICKLE_MARKS_MAX);
    }
    reader->marks[reader->mark_count++] = reader->stack_count;
    return PLEAT_OK;
}

static pleat_status_t reader_pop(pickle_reader_t *reader)
{
    if (reader_height(reader) > 0) {
        reader->stack_count--;
        return PLEAT_OK;
    }
    if (reader->mark_count > 0) {
        reader->mark_count--;
        return PLEAT_OK;
    }
    return reader_require(reader, 1);
}

static pleat_status_t reader_pop_mark(pickle_reader_t *reader)
{
    size_t first = 0;
    const pleat_status_t status = reader_end_mark(reader, &first);
    reader->stack_count = status == PLEAT_OK ? first : reader->stack_count;
    return status;
}

static pleat_status_t reader_dup(pickle_reader_t *reader)
{
    const pleat_status_t status = reader_require(reader, 1);
    return status == PLEAT_OK ? reader_push(reader, reader->stack[reader->stack_count - 1])
                              : status;
}

static pleat_status_t reader_do_scalar(pickle_reader_t *reader)
{
    uint64_t number = 0;
    pleat_status_t status = PLEAT_OK;
    switch (reader->input.opcode) {
    case PLEAT_PICKLE_OP_NONE:
        return reader_push(reader, PLEAT_PICKLE_VALUE_NONE);
    case PLEAT_PICKLE_OP_NEWTRUE:
        return reader_push(reader, PLEAT_PICKLE_VALUE_TRUE);
    case PLEAT_PICKLE_OP_NEWFALSE:
        return reader_push(reader, PLEAT_PICKLE_VALUE_FALSE);
    case PLEAT_PICKLE_OP_BININT1:
        status = pleat_pickle_input_number(&reader->input, 1, &number);
        return status == PLEAT_OK ? reader_push_signed(reader, (int64_t)number) : status;
    case PLEAT_PICKLE_OP_BININT2:
        status = pleat_pickle_input_number(&reader->input, 2, &number);
        return status == PLEAT_OK ? reader_push_signed(reader, (int64_t)number) : status;
    case PLEAT_PICKLE_OP_BININT:
        status = pleat_pickle_input_number(&reader->input, 4, &number);
        return status == PLEAT_OK ? reader_push_signed(reader, (int32_t)(uint32_t)number) : status;
    case PLEAT_PICKLE_OP_LONG1:
        status = pleat_pickle_input_number(&reader->input, 1, &number);
        return status == PLEAT_OK ? reader_long(reader, number) : status;
    case PLEAT_PICKLE_OP_LONG4:
        status = pleat_pickle_input_number(&reader->input, 4, &number);
        if (status == PLEAT_OK && number > INT32_MAX) {
            return pleat_pickle_input_fail(&reader->input, reader->input.offset,
                                           "LONG4 of a negative length");
        }
        return status == PLEAT_OK ? reader_long(reader, number) : status;
    default: /* PLEAT_PICKLE_OP_BINFLOAT */
        return reader_real(reader);
    }
}

static pleat_status_t reader_do_string(pickle_reader_t *reader)
{
    switch (reader->input.opcode) {
    case PLEAT_PICKLE_OP_SHORT_BINSTRING:
    case PLEAT_PICKLE_OP_SHORT_BINUNICODE:
        return reader_string(reader, PLEAT_PICKLE_TAG_STRING, 1);
    case PLEAT_PICKLE_OP_BINSTRING:
    case PLEAT_PICKLE_OP_BINUNICODE:
        return reader_string(reader, PLEAT_PICKLE_TAG_STRING, 4);
    case PLEAT_PICKLE_OP_BINUNICODE8:
        return reader_string(reader, PLEAT_PICKLE_TAG_STRING, 8);
    case PLEAT_PICKLE_OP_SHORT_BINBYTES:
        return reader_string(reader, PLEAT_PICKLE_TAG_BYTES, 1);
    case PLEAT_PICKLE_OP_BINBYTES:
        return reader_string(reader, PLEAT_PICKLE_TAG_BYTES, 4);
    default: /* PLEAT_PICKLE_OP_BINBYTES8 */
        return reader_string(reader, PLEAT_PICKLE_TAG_BYTES, 8);
    }
}

static pleat_status_t reader_do_container(pickle_reader_t *reader)
{
    switch (reader->input.opcode) {
    case PLEAT_PICKLE_OP_EMPTY_TUPLE:
        return reader_push_items(reader, PLEAT_PICKLE_TAG_TUPLE);
    case PLEAT_PICKLE_OP_TUPLE1:
        return reader_collect_counted(reader, 1);
    case PLEAT_PICKLE_OP_TUPLE2:
        return reader_collect_counted(reader, 2);
    case PLEAT_PICKLE_OP_TUPLE3:
        return reader_collect_counted(reader, 3);
    case PLEAT_PICKLE_OP_TUPLE:
        return reader_collect_marked(reader, PLEAT_PICKLE_TAG_TUPLE);
    case PLEAT_PICKLE_OP_EMPTY_LIST:
        return reader_push_items(reader, PLEAT_PICKLE_TAG_LIST);
    case PLEAT_PICKLE_OP_LIST:
        return reader_collect_marked(reader, PLEAT_PICKLE_TAG_LIST);
    case PLEAT_PICKLE_OP_APPEND:
        return reader_extend_counted(reader, PLEAT_PICKLE_TAG_LIST, 1);
    case PLEAT_PICKLE_OP_APPENDS:
        return reader_extend_marked(reader, PLEAT_PICKLE_TAG_LIST);
    case PLEAT_PICKLE_OP_EMPTY_DICT:
        return reader_push_items(reader, PLEAT_PICKLE_TAG_DICT);
    case PLEAT_PICKLE_OP_DICT:
        return reader_collect_marked(reader, PLEAT_PICKLE_TAG_DICT);
    case PLEAT_PICKLE_OP_SETITEM:
        return reader_extend_counted(reader, PLEAT_PICKLE_TAG_DICT, 2);
    default: /* PLEAT_PICKLE_OP_SETITEMS */
        return reader_extend_marked(reader, PLEAT_PICKLE_TAG_DICT);
    }
}

static pleat_status_t reader_do_memo(pickle_reader_t *reader)
{
    const bool is_long = reader->input.opcode == PLEAT_PICKLE_OP_LONG_BINPUT ||
                         reader->input.opcode == PLEAT_PICKLE_OP_LONG_BINGET;
    uint64_t index = 0;
    if (reader->input.opcode == PLEAT_PICKLE_OP_MEMOIZE) {
        return reader_put(reader, reader->memo_count);
    }
    const pleat_status_t status =
        pleat_pickle_input_number(&reader->input, is_long ? 4 : 1, &index);
    if (status != PLEAT_OK) {
        return status;
    }
    return reader->input.opcode == PLEAT_PICKLE_OP_BINPUT ||
                   reader->input.opcode == PLEAT_PICKLE_OP_LONG_BINPUT
               ? reader_put(reader, index)
               : reader_get(reader, index);
}

static pleat_status_t reader_do(pickle_reader_t *reader)
{
    uint64_t ignored = 0;
    switch (reader->input.opcode) {
    case PLEAT_PICKLE_OP_PROTO:
        return reader_protocol(reader);
    case PLEAT_PICKLE_OP_FRAME: /* a hint for those who read ahead */
        return pleat_pickle_input_number(&reader->input, 8, &ignored);
    case PLEAT_PICKLE_OP_MARK:
        return reader_mark(reader);
    case PLEAT_PICKLE_OP_POP:
        return reader_pop(reader);
    case PLEAT_PICKLE_OP_POP_MARK:
        return reader_pop_mark(reader);
    case PLEAT_PICKLE_OP_DUP:
        return reader_dup(reader);
    case PLEAT_PICKLE_OP_STOP:
        return reader_require(reader, 1);
    case PLEAT_PICKLE_OP_BINPUT:
    case PLEAT_PICKLE_OP_LONG_BINPUT:
    case PLEAT_PICKLE_OP_MEMOIZE:
    case PLEAT_PICKLE_OP_BINGET:
    case PLEAT_PICKLE_OP_LONG_BINGET:
        return reader_do_memo(reader);
    case PLEAT_PICKLE_OP_SHORT_BINSTRING:
    case PLEAT_PICKLE_OP_SHORT_BINUNICODE:
    case PLEAT_PICKLE_OP_BINSTRING:
    case PLEAT_PICKLE_OP_BINUNICODE:
    case PLEAT_PICKLE_OP_BINUNICODE8:
    case PLEAT_PICKLE_OP_SHORT_BINBYTES:
    case PLEAT_PICKLE_OP_BINBYTES:
    case PLEAT_PICKLE_OP_BINBYTES8:
        return reader_do_string(reader);
    case PLEAT_PICKLE_OP_NONE:
    case PLEAT_PICKLE_OP_NEWTRUE:
    case PLEAT_PICKLE_OP_NEWFALSE:
    case PLEAT_PICKLE_OP_BININT1:
    case PLEAT_PICKLE_OP_BININT2:
    case PLEAT_PICKLE_OP_BININT:
    case PLEAT_PICKLE_OP_LONG1:
    case PLEAT_PICKLE_OP_LONG4:
    case PLEAT_PICKLE_OP_BINFLOAT:
        return reader_do_scalar(reader);
    default:
        return reader_do_container(reader);
    }
}

static pleat_status_t reader_run(pickle_reader_t *reader, pleat_pickle_value_t *value_out)
{
    for (;;) {
        const unsigned char *byte = NULL;
        reader->input.opcode = -1;
        reader->input.offset = pleat_pickle_input_position(&reader->input);
        pleat_status_t status = pleat_pickle_input_take(&reader->input, 1, &byte);
        if (status != PLEAT_OK) {
            return status;
        }
        if (reader->input.offset == 0 && *byte != PLEAT_PICKLE_OP_PROTO) {
            return pleat_pickle_input_fail(
                &reader->input, 0,
                "no pickle of protocol 2 to 5: it would begin with byte 0x80 (PROTO)"
                ", and this is 0x%02x",
                (unsigned)*byte);
        }
        reader->input.opcode = *byte;
        status = pleat_pickle_opcode_use(reader->input.opcode) == PLEAT_PICKLE_DATA
                     ? reader_do(reader)
                     : reader_refuse(reader);
        if (status != PLEAT_OK) {
            return status;
        }
        if (reader->input.opcode == PLEAT_PICKLE_OP_STOP) {
            *value_out = reader->stack[reader->stack_count - 1];
            return PLEAT_OK;
        }
    }
}

pleat_status_t pleat_pickle_read(const pleat_pickle_source_t *source,
                                 pleat_pickle_storage_t *storage, pleat_pickle_value_t *value_out)
{
    pickle_reader_t *reader = pleat_pickle_resize(storage, NULL, 0, sizeof(*reader));
    if (reader == NULL) {
        return pleat_pickle_no_memory(source, storage, 0);
    }
    *reader = (pickle_reader_t){.input = {.source = source}, .storage = storage};
    reader->input.buffer = pleat_pickle_resize(storage, NULL, 0, PLEAT_PICKLE_INPUT_BYTES);
    const pleat_status_t status =
        reader->input.buffer != NULL ? reader_run(reader, value_out) : reader_no_memory(reader);
    pleat_pickle_release(storage, reader->stack, reader->stack_capacity * sizeof(*reader->stack));
    pleat_pickle_release(storage, reader->memo, reader->memo_capacity * sizeof(*reader->memo));
    pleat_pickle_release(storage, reader->input.buffer, PLEAT_PICKLE_INPUT_BYTES);
    pleat_pickle_release(storage, reader, sizeof(*reader));
    return status;
}
