/*
 * trace_binary: see trace_binary.h. Tags, lengths and checksums are here; what an event is made of
 * is in trace_event_code, how columns are packed in trace_block.
 *
 * Invariants:
 *   T1  Nothing of a block is handed out before its checksum has been compared.
 *   T2  Nothing is allocated for a length that has not been checked against what is possible.
 */
#include "trace_binary.h"

#include "input_kind.h"
#include "trace_event_code.h"
#include "trace_text.h"
#include "vmm/base.h"

#include <inttypes.h>
#include <lzma.h>
#include <stdlib.h>
#include <string.h>

enum { FORMAT_VERSION = 1, TAG_BLOCK = 'B', TAG_END = 'E', CHECKSUM_BYTES = 4 };

struct pleat_trace_binary_reader {
    pleat_input_t *input;
    pleat_trace_coder_t coder;
    pleat_trace_block_t block;
    pleat_bytes_t packed;
    uint32_t checksum;
    uint32_t block_left; /* events of the block not handed out */
    uint64_t block_number;
    uint64_t block_offset; /* where it begins in the file */
    uint64_t event_count;
    pleat_trace_event_t held; /* second half of a pair */
    bool has_held;
    bool is_end;
};

struct pleat_trace_binary_writer {
    pleat_output_t *output;
    pleat_trace_coder_t coder;
    pleat_trace_block_t block;
    pleat_bytes_t packed;
    uint32_t checksum;
    uint64_t event_count;
    pleat_trace_event_t held; /* a request whose completion may follow */
    bool has_held;
};

/* --- reading ------------------------------------------------------------------------------- */

static pleat_status_t pleat_trace_binary_fail(const pleat_trace_binary_reader_t *reader,
                                              uint64_t offset, const char *cause)
{
    pleat_error_set("%s: byte %" PRIu64 ", block %" PRIu64 ": %s", pleat_input_name(reader->input),
                    offset, reader->block_number, cause);
    return PLEAT_ERR_FORMAT;
}

static pleat_status_t pleat_trace_binary_no_memory(const char *name)
{
    pleat_error_set("%s: no memory for a block of the trace", name);
    return PLEAT_ERR_OOM_HOST;
}

/* Exactly so many bytes. */
static pleat_status_t pleat_trace_binary_get(pleat_trace_binary_reader_t *reader, uint8_t *bytes,
                                             size_t byte_count)
{
    size_t count = 0;
    const pleat_status_t status = pleat_input_read(reader->input, bytes, byte_count, &count);
    if (status != PLEAT_OK) {
        return status;
    }
    if (count < byte_count) {
        return pleat_trace_binary_fail(reader, pleat_input_offset(reader->input),
                                       "truncated: the file ends here, before its end mark");
    }
    reader->checksum = lzma_crc32(bytes, byte_count, reader->checksum);
    return PLEAT_OK;
}

static pleat_status_t pleat_trace_binary_get_number(pleat_trace_binary_reader_t *reader,
                                                    uint64_t *number_out)
{
    uint8_t digits[PLEAT_NUMBER_BYTES_MAX];
    pleat_bytes_t number = {.data = digits, .capacity = sizeof(digits)};
    do {
        if (number.count == sizeof(digits)) {
            break;
        }
        const pleat_status_t status = pleat_trace_binary_get(reader, &digits[number.count], 1);
        if (status != PLEAT_OK) {
            return status;
        }
    } while (digits[number.count++] >= 0x80);
    if (!pleat_bytes_read_number(&number, number_out)) {
        return pleat_trace_binary_fail(reader, pleat_input_offset(reader->input),
                                       "damaged: a number of more than 64 bits");
    }
    return PLEAT_OK;
}

static pleat_status_t pleat_trace_binary_compare_checksum(pleat_trace_binary_reader_t *reader)
{
    const uint32_t expected = reader->checksum;
    uint8_t bytes[CHECKSUM_BYTES];
    const pleat_status_t status = pleat_trace_binary_get(reader, bytes, sizeof(bytes));
    if (status != PLEAT_OK) {
        return status;
    }
    const uint32_t found = (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
                           (uint32_t)bytes[3] << 24;
    if (found != expected) {
        return pleat_trace_binary_fail(reader, reader->block_offset,
                                       "damaged: the checksum of what begins here is wrong");
    }
    reader->checksum = expected;
    return PLEAT_OK;
}

/* The packed bytes of all columns, as one piece behind each other. */
static pleat_status_t pleat_trace_binary_get_payload(pleat_trace_binary_reader_t *reader,
                                                     const pleat_packed_column_t *heads)
{
    reader->packed.count = 0;
    for (int i = 0; i < PLEAT_COLUMN_COUNT; i++) {
        const size_t packed_bytes = (size_t)heads[i].packed_bytes;
        if (!pleat_bytes_reserve(&reader->packed, packed_bytes)) {
            return pleat_trace_binary_no_memory(pleat_input_name(reader->input));
        }
        const pleat_status_t status = pleat_trace_binary_get(
            reader, reader->packed.data + reader->packed.count, packed_bytes);
        if (status != PLEAT_OK) {
            return status;
        }
        reader->packed.count += packed_bytes;
    }
    return pleat_trace_binary_compare_checksum(reader);
}

static pleat_status_t pleat_trace_binary_unpack(pleat_trace_binary_reader_t *reader,
                                                const pleat_packed_column_t *heads)
{
    size_t offset = 0;
    for (int i = 0; i < PLEAT_COLUMN_COUNT; i++) {
        const pleat_status_t status = pleat_packed_column_unpack(
            &heads[i], reader->packed.data + offset, &reader->block.columns[i]);
        if (status == PLEAT_ERR_OOM_HOST) {
            return pleat_trace_binary_no_memory(pleat_input_name(reader->input));
        }
        if (status != PLEAT_OK) {
            return pleat_trace_binary_fail(reader, reader->block_offset,
                                           "damaged: a column of this block does not unpack");
        }
        offset += (size_t)heads[i].packed_bytes;
    }
    return PLEAT_OK;
}

static pleat_status_t pleat_trace_binary_get_block(pleat_trace_binary_reader_t *reader)
{
    pleat_packed_column_t heads[PLEAT_COLUMN_COUNT];
    uint64_t event_count = 0;
    pleat_status_t status = pleat_trace_binary_get_number(reader, &event_count);
    if (status != PLEAT_OK) {
        return status;
    }
    if (event_count == 0 || event_count > PLEAT_TRACE_BLOCK_EVENTS) {
        return pleat_trace_binary_fail(reader, pleat_input_offset(reader->input),
                                       "damaged: a block has 1 to 1048576 events");
    }
    for (int i = 0; i < PLEAT_COLUMN_COUNT; i++) {
        uint64_t *const values[] = {&heads[i].coding, &heads[i].plain_bytes,
                                    &heads[i].packed_bytes};
        for (size_t k = 0; k < sizeof(values) / sizeof(values[0]); k++) {
            status = pleat_trace_binary_get_number(reader, values[k]);
            if (status != PLEAT_OK) {
                return status;
            }
        }
        const char *fault = pleat_packed_column_fault(&heads[i], (uint32_t)event_count);
        if (fault != NULL) {
            return pleat_trace_binary_fail(reader, pleat_input_offset(reader->input), fault);
        }
    }
    status = pleat_trace_binary_get_payload(reader, heads);
    if (status == PLEAT_OK) {
        status = pleat_trace_binary_unpack(reader, heads);
    }
    if (status == PLEAT_OK) {
        reader->block_left = (uint32_t)event_count;
        reader->event_count += event_count;
    }
    return status;
}

static pleat_status_t pleat_trace_binary_get_end(pleat_trace_binary_reader_t *reader)
{
    uint64_t event_count = 0;
    pleat_status_t status = pleat_trace_binary_get_number(reader, &event_count);
    if (status == PLEAT_OK) {
        status = pleat_trace_binary_compare_checksum(reader);
    }
    if (status != PLEAT_OK) {
        return status;
    }
    if (event_count != reader->event_count) {
        return pleat_trace_binary_fail(reader, reader->block_offset,
                                       "damaged: the end mark counts other events");
    }
    uint8_t byte = 0;
    size_t count = 0;
    status = pleat_input_read(reader->input, &byte, 1, &count);
    if (status == PLEAT_OK && count > 0) {
        return pleat_trace_binary_fail(reader, pleat_input_offset(reader->input) - 1,
                                       "unexpected bytes behind the end mark");
    }
    reader->is_end = true;
    return status;
}

/* The block is used up: all of its bytes must be, too. Then the next one, or the end. */
static pleat_status_t pleat_trace_binary_advance(pleat_trace_binary_reader_t *reader)
{
    for (int i = 0; i < PLEAT_COLUMN_COUNT; i++) {
        if (reader->block.columns[i].cursor != reader->block.columns[i].count) {
            return pleat_trace_binary_fail(reader, reader->block_offset,
                                           "damaged: a column of this block is too long");
        }
    }
    uint8_t tag = 0;
    reader->block_number++;
    reader->block_offset = pleat_input_offset(reader->input);
    const pleat_status_t status = pleat_trace_binary_get(reader, &tag, 1);
    if (status != PLEAT_OK) {
        return status;
    }
    if (tag == TAG_BLOCK) {
        return pleat_trace_binary_get_block(reader);
    }
    if (tag == TAG_END) {
        return pleat_trace_binary_get_end(reader);
    }
    return pleat_trace_binary_fail(reader, reader->block_offset,
                                   "damaged: a block or the end mark should begin here");
}

pleat_status_t pleat_trace_binary_reader_create(pleat_input_t *input,
                                                pleat_trace_binary_reader_t **reader_out)
{
    pleat_trace_binary_reader_t *reader = calloc(1, sizeof(*reader));
    if (reader == NULL) {
        return pleat_trace_binary_no_memory(pleat_input_name(input));
    }
    reader->input = input;
    pleat_trace_coder_init(&reader->coder);
    uint8_t magic[PLEAT_TRACE_BINARY_MAGIC_BYTES];
    uint64_t version = 0;
    pleat_status_t status = pleat_trace_binary_get(reader, magic, sizeof(magic));
    if (status == PLEAT_OK && memcmp(magic, PLEAT_TRACE_BINARY_MAGIC, sizeof(magic)) != 0) {
        status = pleat_trace_binary_fail(reader, 0, "no trace in Pleat's compact form");
    }
    if (status == PLEAT_OK) {
        status = pleat_trace_binary_get_number(reader, &version);
    }
    if (status == PLEAT_OK && version != FORMAT_VERSION) {
        pleat_error_set("%s: byte %d: version %" PRIu64 " of the compact form; this program reads "
                        "version %d",
                        pleat_input_name(input), PLEAT_TRACE_BINARY_MAGIC_BYTES, version,
                        FORMAT_VERSION);
        status = PLEAT_ERR_FORMAT;
    }
    if (status != PLEAT_OK) {
        pleat_trace_binary_reader_destroy(reader);
        return status;
    }
    *reader_out = reader;
    return PLEAT_OK;
}

void pleat_trace_binary_reader_destroy(pleat_trace_binary_reader_t *reader)
{
    if (reader == NULL) {
        return;
    }
    pleat_trace_coder_fini(&reader->coder);
    pleat_trace_block_fini(&reader->block);
    free(reader->packed.data);
    free(reader);
}

pleat_status_t pleat_trace_binary_read(pleat_trace_binary_reader_t *reader,
                                       pleat_trace_event_t *event_out, bool *has_event_out)
{
    if (reader->has_held) {
        *event_out = reader->held;
        *has_event_out = true;
        reader->has_held = false;
        return PLEAT_OK;
    }
    if (reader->block_left == 0 && !reader->is_end) {
        const pleat_status_t status = pleat_trace_binary_advance(reader);
        if (status != PLEAT_OK) {
            return status;
        }
    }
    if (reader->is_end) {
        *has_event_out = false;
        return PLEAT_OK;
    }
    pleat_trace_event_t events[2];
    size_t count = 0;
    const char *cause = NULL;
    const pleat_status_t status =
        pleat_trace_coder_get(&reader->coder, &reader->block, events, &count, &cause);
    if (status == PLEAT_ERR_OOM_HOST) {
        return pleat_trace_binary_no_memory(pleat_input_name(reader->input));
    }
    if (status != PLEAT_OK) {
        return pleat_trace_binary_fail(reader, reader->block_offset, cause);
    }
    if (count > reader->block_left) {
        return pleat_trace_binary_fail(reader, reader->block_offset,
                                       "damaged: the last pair of this block is cut");
    }
    reader->block_left -= (uint32_t)count;
    reader->has_held = count == 2;
    reader->held = events[count - 1];
    *event_out = events[0];
    *has_event_out = true;
    return PLEAT_OK;
}

/* --- writing ------------------------------------------------------------------------------- */

/* Write what is in packed, and the checksum behind it. */
static pleat_status_t pleat_trace_binary_put(pleat_trace_binary_writer_t *writer)
{
    pleat_bytes_t *packed = &writer->packed;
    writer->checksum = lzma_crc32(packed->data, packed->count, writer->checksum);
    if (!pleat_bytes_reserve(packed, CHECKSUM_BYTES)) {
        return pleat_trace_binary_no_memory("output");
    }
    for (unsigned shift = 0; shift < 32; shift += 8) {
        packed->data[packed->count++] = (uint8_t)(writer->checksum >> shift);
    }
    const pleat_status_t status = pleat_output_write(writer->output, packed->data, packed->count);
    packed->count = 0;
    return status;
}

static pleat_status_t pleat_trace_binary_flush(pleat_trace_binary_writer_t *writer)
{
    if (writer->block.event_count == 0) {
        return PLEAT_OK;
    }
    if (!pleat_bytes_append_number(&writer->packed, TAG_BLOCK) ||
        !pleat_trace_block_pack(&writer->block, &writer->packed)) {
        return pleat_trace_binary_no_memory("output");
    }
    pleat_trace_block_clear(&writer->block);
    return pleat_trace_binary_put(writer);
}

/* An event, or a pair if second is not NULL. */
static pleat_status_t pleat_trace_binary_append(pleat_trace_binary_writer_t *writer,
                                                const pleat_trace_event_t *first,
                                                const pleat_trace_event_t *second)
{
    if (!pleat_trace_coder_put(&writer->coder, &writer->block, first, second)) {
        return pleat_trace_binary_no_memory("output");
    }
    writer->event_count += second != NULL ? 2 : 1;
    if (writer->block.event_count >= PLEAT_TRACE_BLOCK_EVENTS - 1) {
        return pleat_trace_binary_flush(writer);
    }
    return PLEAT_OK;
}

pleat_status_t pleat_trace_binary_writer_create(pleat_output_t *output,
                                                pleat_trace_binary_writer_t **writer_out)
{
    pleat_trace_binary_writer_t *writer = calloc(1, sizeof(*writer));
    if (writer == NULL) {
        return pleat_trace_binary_no_memory("output");
    }
    writer->output = output;
    pleat_trace_coder_init(&writer->coder);
    uint8_t start[PLEAT_TRACE_BINARY_MAGIC_BYTES + 1] = PLEAT_TRACE_BINARY_MAGIC;
    start[PLEAT_TRACE_BINARY_MAGIC_BYTES] = FORMAT_VERSION;
    writer->checksum = lzma_crc32(start, sizeof(start), 0);
    const pleat_status_t status = pleat_output_write(output, start, sizeof(start));
    if (status != PLEAT_OK) {
        pleat_trace_binary_writer_destroy(writer);
        return status;
    }
    *writer_out = writer;
    return PLEAT_OK;
}

void pleat_trace_binary_writer_destroy(pleat_trace_binary_writer_t *writer)
{
    if (writer == NULL) {
        return;
    }
    pleat_trace_coder_fini(&writer->coder);
    pleat_trace_block_fini(&writer->block);
    free(writer->packed.data);
    free(writer);
}

pleat_status_t pleat_trace_binary_write(pleat_trace_binary_writer_t *writer,
                                        const pleat_trace_event_t *event)
{
    const char *fault = pleat_trace_event_fault(event);
    if (fault != NULL) {
        pleat_error_set("event %" PRIu64 ": %s", writer->event_count + writer->has_held, fault);
        return PLEAT_ERR_INVALID;
    }
    if (writer->has_held) {
        const pleat_trace_event_t held = writer->held;
        const bool is_pair = pleat_trace_coder_is_pair(&held, event);
        writer->has_held = false;
        const pleat_status_t status =
            pleat_trace_binary_append(writer, &held, is_pair ? event : NULL);
        if (status != PLEAT_OK || is_pair) {
            return status;
        }
    }
    if (pleat_trace_coder_begins_pair(&writer->coder, event)) {
        writer->held = *event;
        writer->has_held = true;
        return PLEAT_OK;
    }
    return pleat_trace_binary_append(writer, event, NULL);
}

pleat_status_t pleat_trace_binary_finish(pleat_trace_binary_writer_t *writer)
{
    pleat_status_t status = PLEAT_OK;
    if (writer->has_held) {
        writer->has_held = false;
        status = pleat_trace_binary_append(writer, &writer->held, NULL);
    }
    if (status == PLEAT_OK) {
        status = pleat_trace_binary_flush(writer);
    }
    if (status != PLEAT_OK) {
        return status;
    }
    if (!pleat_bytes_append_number(&writer->packed, TAG_END) ||
        !pleat_bytes_append_number(&writer->packed, writer->event_count)) {
        return pleat_trace_binary_no_memory("output");
    }
    return pleat_trace_binary_put(writer);
}
