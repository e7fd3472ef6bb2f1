/*
 * trace_block: see trace_block.h. A column is packed by LZMA2 with the literal context that suits
 * it best, or stored when that is not shorter. Zstandard at its highest level saves some tens of
 * bytes in columns of a few hundred and makes whole blocks 7 to 10 % longer, so it is no coding.
 */
#include "trace_block.h"

#include "vmm/base.h"

#include <lzma.h>
#include <stdlib.h>
#include <string.h>

enum { CODING_STORED = 0, CODING_LZMA_FIRST = 1 };

/* Literal context bits of the LZMA codings, in the order of their numbers. */
static const uint32_t literal_context_bits[] = {0, 3};

enum { CODING_COUNT = CODING_LZMA_FIRST + sizeof(literal_context_bits) / sizeof(uint32_t) };

void pleat_trace_block_fini(pleat_trace_block_t *block)
{
    for (int i = 0; i < PLEAT_COLUMN_COUNT; i++) {
        free(block->columns[i].data);
    }
    *block = (pleat_trace_block_t){0};
}

void pleat_trace_block_clear(pleat_trace_block_t *block)
{
    block->event_count = 0;
    for (int i = 0; i < PLEAT_COLUMN_COUNT; i++) {
        block->columns[i].count = 0;
        block->columns[i].cursor = 0;
    }
}

bool pleat_bytes_reserve(pleat_bytes_t *bytes, size_t more)
{
    const size_t capacity_min = 4096;
    if (bytes->data != NULL && bytes->capacity - bytes->count >= more) {
        return true;
    }
    size_t capacity = bytes->capacity < capacity_min ? capacity_min : bytes->capacity * 2;
    if (capacity - bytes->count < more) {
        capacity = bytes->count + more;
    }
    uint8_t *data = realloc(bytes->data, capacity);
    if (data == NULL) {
        return false;
    }
    bytes->data = data;
    bytes->capacity = capacity;
    return true;
}

bool pleat_bytes_append_number(pleat_bytes_t *bytes, uint64_t number)
{
    if (!pleat_bytes_reserve(bytes, PLEAT_NUMBER_BYTES_MAX)) {
        return false;
    }
    while (number >= 0x80) {
        bytes->data[bytes->count++] = (uint8_t)(number | 0x80);
        number >>= 7;
    }
    bytes->data[bytes->count++] = (uint8_t)number;
    return true;
}

bool pleat_bytes_read_number(pleat_bytes_t *bytes, uint64_t *number_out)
{
    uint64_t number = 0;
    for (unsigned shift = 0; bytes->cursor < bytes->count && shift < 64; shift += 7) {
        const uint8_t byte = bytes->data[bytes->cursor++];
        const uint64_t bits = byte & 0x7fu;
        if (shift == 63 && bits > 1) {
            return false;
        }
        number |= bits << shift;
        if (byte < 0x80) {
            *number_out = number;
            return true;
        }
    }
    return false;
}

static void pleat_lzma_options(lzma_options_lzma *options, uint64_t coding, size_t plain_bytes)
{
    (void)lzma_lzma_preset(options, 9u | LZMA_PRESET_EXTREME);
    options->lc = literal_context_bits[coding - CODING_LZMA_FIRST];
    options->lp = 0;
    options->pb = 0;
    options->dict_size =
        plain_bytes < LZMA_DICT_SIZE_MIN ? LZMA_DICT_SIZE_MIN : (uint32_t)plain_bytes;
}

/* Pack with one coding; 0: no memory, or not shorter than stored. */
static size_t pleat_column_pack(const pleat_bytes_t *column, uint64_t coding, uint8_t *packed)
{
    lzma_options_lzma options;
    pleat_lzma_options(&options, coding, column->count);
    const lzma_filter filters[] = {{.id = LZMA_FILTER_LZMA2, .options = &options},
                                   {.id = LZMA_VLI_UNKNOWN, .options = NULL}};
    size_t packed_bytes = 0;
    const lzma_ret result = lzma_raw_buffer_encode(filters, NULL, column->data, column->count,
                                                   packed, &packed_bytes, column->count);
    return result == LZMA_OK && packed_bytes < column->count ? packed_bytes : 0;
}

/* The shortest form of a column, which is not empty, is appended to payload. */
static bool pleat_column_pack_best(const pleat_bytes_t *column, pleat_packed_column_t *head,
                                   pleat_bytes_t *payload)
{
    if (!pleat_bytes_reserve(payload, 2 * column->count)) {
        return false;
    }
    PLEAT_ASSERT(payload->data != NULL);
    uint8_t *best = payload->data + payload->count;
    uint8_t *trial = best + column->count;
    *head = (pleat_packed_column_t){
        .coding = CODING_STORED, .plain_bytes = column->count, .packed_bytes = column->count};
    memcpy(best, column->data, column->count);
    for (uint64_t coding = CODING_LZMA_FIRST; coding < CODING_COUNT; coding++) {
        const size_t packed_bytes = pleat_column_pack(column, coding, trial);
        if (packed_bytes > 0 && packed_bytes < head->packed_bytes) {
            memcpy(best, trial, packed_bytes);
            head->packed_bytes = packed_bytes;
            head->coding = coding;
        }
    }
    payload->count += (size_t)head->packed_bytes;
    return true;
}

bool pleat_trace_block_pack(const pleat_trace_block_t *block, pleat_bytes_t *packed)
{
    pleat_bytes_t payload = {0};
    bool is_good = pleat_bytes_append_number(packed, block->event_count);
    for (int i = 0; i < PLEAT_COLUMN_COUNT && is_good; i++) {
        const pleat_bytes_t *column = &block->columns[i];
        pleat_packed_column_t head = {0};
        is_good = (column->count == 0 || pleat_column_pack_best(column, &head, &payload)) &&
                  pleat_bytes_append_number(packed, head.coding) &&
                  pleat_bytes_append_number(packed, head.plain_bytes) &&
                  pleat_bytes_append_number(packed, head.packed_bytes);
    }
    is_good = is_good && pleat_bytes_reserve(packed, payload.count);
    if (is_good && payload.count > 0) {
        memcpy(packed->data + packed->count, payload.data, payload.count);
        packed->count += payload.count;
    }
    free(payload.data);
    return is_good;
}

const char *pleat_packed_column_fault(const pleat_packed_column_t *column, uint32_t event_count)
{
    if (column->coding >= CODING_COUNT) {
        return "unknown coding of a column";
    }
    if (column->plain_bytes > (uint64_t)event_count * PLEAT_NUMBER_BYTES_MAX) {
        return "a column is longer than its events can make it";
    }
    const bool is_stored = column->coding == CODING_STORED;
    if (is_stored ? column->packed_bytes != column->plain_bytes
                  : column->packed_bytes >= column->plain_bytes) {
        return "packed and plain length of a column contradict each other";
    }
    return NULL;
}

pleat_status_t pleat_packed_column_unpack(const pleat_packed_column_t *head, const uint8_t *packed,
                                          pleat_bytes_t *column)
{
    const size_t plain_bytes = (size_t)head->plain_bytes;
    const size_t packed_bytes = (size_t)head->packed_bytes;
    column->count = 0;
    column->cursor = 0;
    if (!pleat_bytes_reserve(column, plain_bytes)) {
        return PLEAT_ERR_OOM_HOST;
    }
    size_t taken = 0;
    size_t made = 0;
    if (head->coding == CODING_STORED) {
        if (plain_bytes > 0) {
            memcpy(column->data, packed, plain_bytes);
        }
        taken = packed_bytes;
        made = plain_bytes;
    } else {
        lzma_options_lzma options;
        pleat_lzma_options(&options, head->coding, plain_bytes);
        const lzma_filter filters[] = {{.id = LZMA_FILTER_LZMA2, .options = &options},
                                       {.id = LZMA_VLI_UNKNOWN, .options = NULL}};
        const lzma_ret result = lzma_raw_buffer_decode(filters, NULL, packed, &taken, packed_bytes,
                                                       column->data, &made, plain_bytes);
        if (result == LZMA_MEM_ERROR) {
            return PLEAT_ERR_OOM_HOST;
        }
        if (result != LZMA_OK) {
            return PLEAT_ERR_FORMAT;
        }
    }
    column->count = made;
    return taken == packed_bytes && made == plain_bytes ? PLEAT_OK : PLEAT_ERR_FORMAT;
}
