/*
 * pickle_writer: opcodes, frames, and texts that come again.
 */
#include "pickle_writer.h"

#include "pickle_opcodes.h"
#include "text.h"

#include "vmm/base.h"

#include <assert.h>
#include <string.h>

enum {
    OPCODE_BYTES_MAX = 16, /* of an opcode with its argument, texts apart */
    FRAME_PROTOCOL = 4,
    FRAME_BYTES_MIN = 4
};

static_assert(PLEAT_PICKLE_WRITER_DIRECT_BYTES + OPCODE_BYTES_MAX < PLEAT_PICKLE_WRITER_FRAME_BYTES,
              "a text that is not written directly fits into a frame");

/* ---- bytes ---- */

static void writer_out(pleat_pickle_writer_t *writer, const void *bytes, size_t byte_count)
{
    if (writer->status == PLEAT_OK && byte_count > 0) {
        writer->status = writer->write(writer->context, bytes, byte_count);
    }
}

/* Little-endian bytes of a number. */
static void writer_spell(uint8_t *bytes, uint64_t number, size_t byte_count)
{
    for (size_t i = 0; i < byte_count; i++) {
        bytes[i] = (uint8_t)(number >> (8 * i));
    }
}

static void writer_flush(pleat_pickle_writer_t *writer)
{
    if (writer->protocol >= FRAME_PROTOCOL && writer->used >= FRAME_BYTES_MIN) {
        uint8_t header[9] = {PLEAT_PICKLE_OP_FRAME};
        writer_spell(header + 1, writer->used, 8);
        writer_out(writer, header, sizeof header);
    }
    writer_out(writer, writer->frame, writer->used);
    writer->used = 0;
}

/* An opcode never lies in two frames: room for the next one and its argument. */
static void writer_require(pleat_pickle_writer_t *writer, size_t byte_count)
{
    if (byte_count > sizeof writer->frame - writer->used) {
        writer_flush(writer);
    }
}

static void writer_append(pleat_pickle_writer_t *writer, const void *bytes, size_t byte_count)
{
    PLEAT_ASSERT(byte_count <= sizeof writer->frame - writer->used);
    memcpy(writer->frame + writer->used, bytes, byte_count);
    writer->used += byte_count;
}

static void writer_op(pleat_pickle_writer_t *writer, pleat_pickle_opcode_t opcode)
{
    writer_require(writer, OPCODE_BYTES_MAX);
    writer->frame[writer->used++] = (uint8_t)opcode;
}

/* An opcode whose argument is a number of so many bytes. */
static void writer_op_number(pleat_pickle_writer_t *writer, pleat_pickle_opcode_t opcode,
                             uint64_t number, size_t byte_count)
{
    writer_op(writer, opcode);
    writer_spell(writer->frame + writer->used, number, byte_count);
    writer->used += byte_count;
}

void pleat_pickle_writer_init(pleat_pickle_writer_t *writer, unsigned protocol,
                              pleat_pickle_write_fn_t write, void *context)
{
    const uint8_t start[] = {PLEAT_PICKLE_OP_PROTO, (uint8_t)protocol};
    memset(writer, 0, sizeof *writer);
    writer->protocol = protocol;
    writer->write = write;
    writer->context = context;
    writer_out(writer, start, sizeof start);
}

pleat_status_t pleat_pickle_writer_finish(pleat_pickle_writer_t *writer)
{
    writer_op(writer, PLEAT_PICKLE_OP_STOP);
    writer_flush(writer);
    return writer->status;
}

/* ---- memo ---- */

uint32_t pleat_pickle_memoize(pleat_pickle_writer_t *writer)
{
    if (writer->memo_count == PLEAT_PICKLE_NO_MEMO) {
        return PLEAT_PICKLE_NO_MEMO;
    }
    const uint32_t memo = writer->memo_count++;
    if (writer->protocol >= FRAME_PROTOCOL) {
        writer_op(writer, PLEAT_PICKLE_OP_MEMOIZE);
    } else if (memo <= UINT8_MAX) {
        writer_op_number(writer, PLEAT_PICKLE_OP_BINPUT, memo, 1);
    } else {
        writer_op_number(writer, PLEAT_PICKLE_OP_LONG_BINPUT, memo, 4);
    }
    return memo;
}

void pleat_pickle_put_memo(pleat_pickle_writer_t *writer, uint32_t memo)
{
    if (memo <= UINT8_MAX) {
        writer_op_number(writer, PLEAT_PICKLE_OP_BINGET, memo, 1);
    } else {
        writer_op_number(writer, PLEAT_PICKLE_OP_LONG_BINGET, memo, 4);
    }
}

/* ---- numbers ---- */

void pleat_pickle_put_bool(pleat_pickle_writer_t *writer, bool value)
{
    writer_op(writer, value ? PLEAT_PICKLE_OP_NEWTRUE : PLEAT_PICKLE_OP_NEWFALSE);
}

void pleat_pickle_put_unsigned(pleat_pickle_writer_t *writer, uint64_t value)
{
    if (value <= UINT8_MAX) {
        writer_op_number(writer, PLEAT_PICKLE_OP_BININT1, value, 1);
    } else if (value <= UINT16_MAX) {
        writer_op_number(writer, PLEAT_PICKLE_OP_BININT2, value, 2);
    } else if (value <= INT32_MAX) {
        writer_op_number(writer, PLEAT_PICKLE_OP_BININT, value, 4);
    } else {
        /* In two's complement, so that the highest bit of the last byte is 0. */
        const size_t byte_count = pleat_log2_floor(value) / 8 + 1;
        const bool needs_sign = (value >> (8 * byte_count - 1)) != 0;
        const size_t length = byte_count + (needs_sign ? 1 : 0);
        writer_op_number(writer, PLEAT_PICKLE_OP_LONG1, length, 1);
        writer_spell(writer->frame + writer->used, value, byte_count);
        writer->frame[writer->used + byte_count] = 0;
        writer->used += length;
    }
}

void pleat_pickle_put_signed(pleat_pickle_writer_t *writer, int64_t value)
{
    if (value >= 0) {
        pleat_pickle_put_unsigned(writer, (uint64_t)value);
    } else if (value >= INT32_MIN) {
        writer_op_number(writer, PLEAT_PICKLE_OP_BININT, (uint64_t)value, 4);
    } else {
        writer_op_number(writer, PLEAT_PICKLE_OP_LONG1, 8, 1);
        writer_spell(writer->frame + writer->used, (uint64_t)value, 8);
        writer->used += 8;
    }
}

void pleat_pickle_put_real(pleat_pickle_writer_t *writer, double value)
{
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof bits);
    writer_op_number(writer, PLEAT_PICKLE_OP_BINFLOAT, __builtin_bswap64(bits), 8);
}

/* ---- texts ---- */

/* Bytes of a text that go out as they are, at its start; 0: the first one is no UTF-8. */
static size_t writer_sequence(const char *text, size_t byte_count)
{
    const unsigned char *bytes = (const unsigned char *)text;
    if (bytes[0] < 0x80u) {
        return 1;
    }
    const bool is_surrogate = byte_count >= 3 && bytes[0] == 0xedu && bytes[1] >= 0xa0u &&
                              bytes[1] <= 0xbfu && (bytes[2] & 0xc0u) == 0x80u;
    return is_surrogate ? 3 : pleat_text_sequence(bytes, byte_count);
}

static const char writer_replacement[] = "\xef\xbf\xbd"; /* U+FFFD */

/* Call @p out, if there is one, for the pieces of a text as it is written; returns their length. */
typedef void (*pleat_pickle_out_fn_t)(pleat_pickle_writer_t *writer, const void *bytes,
                                      size_t byte_count);
static uint64_t writer_pieces(pleat_pickle_writer_t *writer, const char *text, size_t length,
                              pleat_pickle_out_fn_t out)
{
    uint64_t written = 0;
    size_t begin = 0;
    size_t end = 0;
    while (begin < length) {
        size_t sequence = 1;
        while (end < length && (sequence = writer_sequence(text + end, length - end)) > 0) {
            end += sequence;
        }
        const bool is_wrong = end < length;
        written += end - begin + (is_wrong ? sizeof writer_replacement - 1 : 0);
        if (out != NULL && end > begin) {
            out(writer, text + begin, end - begin);
        }
        if (out != NULL && is_wrong) {
            out(writer, writer_replacement, sizeof writer_replacement - 1);
        }
        end += is_wrong ? 1 : 0;
        begin = end;
    }
    return written;
}

/* Opcode and length of a text; their bytes, 0 when no opcode has room for it. */
static size_t writer_text_header(const pleat_pickle_writer_t *writer, uint64_t length,
                                 uint8_t *header)
{
    if (length <= UINT8_MAX && writer->protocol >= FRAME_PROTOCOL) {
        header[0] = PLEAT_PICKLE_OP_SHORT_BINUNICODE;
        writer_spell(header + 1, length, 1);
        return 2;
    }
    if (length <= UINT32_MAX) {
        header[0] = PLEAT_PICKLE_OP_BINUNICODE;
        writer_spell(header + 1, length, 4);
        return 5;
    }
    if (writer->protocol < FRAME_PROTOCOL) {
        return 0;
    }
    header[0] = PLEAT_PICKLE_OP_BINUNICODE8;
    writer_spell(header + 1, length, 8);
    return 9;
}

static void writer_new_text(pleat_pickle_writer_t *writer, const char *text, size_t length)
{
    uint8_t header[9];
    const uint64_t written = writer_pieces(writer, text, length, NULL);
    const size_t header_bytes = writer_text_header(writer, written, header);
    if (header_bytes == 0) {
        if (writer->status == PLEAT_OK) {
            pleat_error_set("a text of %llu bytes does not fit into a pickle of protocol %u; "
                            "protocol 4 has room for it",
                            (unsigned long long)written, writer->protocol);
            writer->status = PLEAT_ERR_INVALID;
        }
    } else if (written <= PLEAT_PICKLE_WRITER_DIRECT_BYTES) {
        writer_require(writer, header_bytes + written);
        writer_append(writer, header, header_bytes);
        (void)writer_pieces(writer, text, length, writer_append);
    } else {
        /* A long text stands between frames, as in Python. */
        writer_flush(writer);
        writer_out(writer, header, header_bytes);
        (void)writer_pieces(writer, text, length, writer_out);
    }
}

void pleat_pickle_put_text(pleat_pickle_writer_t *writer, const char *text)
{
    static const char empty[] = "";
    text = text != NULL ? text : empty;
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    size_t length = 0;
    for (; text[length] != '\0'; length++) {
        hash = (hash ^ (unsigned char)text[length]) * UINT64_C(0x100000001b3);
    }
    pleat_pickle_text_t *kept =
        &writer->texts[(hash ^ hash >> 32) & (PLEAT_PICKLE_WRITER_TEXTS - 1)];
    if (kept->text != NULL && (kept->text == text || strcmp(kept->text, text) == 0)) {
        pleat_pickle_put_memo(writer, kept->memo);
        return;
    }
    writer_new_text(writer, text, length);
    const uint32_t memo = pleat_pickle_memoize(writer);
    if (memo != PLEAT_PICKLE_NO_MEMO) {
        *kept = (pleat_pickle_text_t){text, memo};
    }
}

/* ---- containers ---- */

void pleat_pickle_put_pair(pleat_pickle_writer_t *writer)
{
    writer_op(writer, PLEAT_PICKLE_OP_TUPLE2);
}

void pleat_pickle_begin_dict(pleat_pickle_writer_t *writer)
{
    writer_op(writer, PLEAT_PICKLE_OP_EMPTY_DICT);
    writer_op(writer, PLEAT_PICKLE_OP_MARK);
}

void pleat_pickle_end_dict(pleat_pickle_writer_t *writer)
{
    writer_op(writer, PLEAT_PICKLE_OP_SETITEMS);
}

void pleat_pickle_put_list(pleat_pickle_writer_t *writer, uint64_t count,
                           pleat_pickle_put_item_fn_t put_item, void *context)
{
    writer_op(writer, PLEAT_PICKLE_OP_EMPTY_LIST);
    for (uint64_t i = 0; i < count && writer->status == PLEAT_OK; i++) {
        if (i % PLEAT_PICKLE_WRITER_BATCH == 0) {
            if (i > 0) {
                writer_op(writer, PLEAT_PICKLE_OP_APPENDS);
            }
            writer_op(writer, PLEAT_PICKLE_OP_MARK);
        }
        put_item(context, i);
    }
    if (count > 0) {
        writer_op(writer, PLEAT_PICKLE_OP_APPENDS);
    }
}
