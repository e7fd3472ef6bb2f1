/*
 * trace_block: one block of the compact form of traces: events taken apart into columns, each
 * column packed on its own. trace_binary decides which events make a block, writes and checks it;
 * here is what stands inside.
 *
 * Columns are bytes; numbers are written with seven bits a byte, lowest first, the top bit says
 * that more follow. Layout of a packed block (trace_binary adds tag and checksum):
 *
 *     event count                       number, 1 to PLEAT_TRACE_BLOCK_EVENTS
 *     for each column: coding, plain bytes, packed bytes      numbers
 *     for each column: packed bytes
 *
 * Locks: none; its owner's.
 */
#ifndef PLEAT_EXPERIMENTS_TRACE_BLOCK_H
#define PLEAT_EXPERIMENTS_TRACE_BLOCK_H

#include <pleat/base.h>

#define PLEAT_TRACE_BLOCK_EVENTS (UINT32_C(1) << 20)
#define PLEAT_NUMBER_BYTES_MAX 10u /* of a 64-bit number */

typedef enum pleat_trace_column {
    PLEAT_COLUMN_KIND,       /* one byte an event, or a pair of events */
    PLEAT_COLUMN_SIZE,       /* bytes */
    PLEAT_COLUMN_STREAM,     /* stream */
    PLEAT_COLUMN_ADDRESS,    /* difference to the last address written here */
    PLEAT_COLUMN_AGE,        /* which live allocation is freed */
    PLEAT_COLUMN_TIME,       /* difference to the event before */
    PLEAT_COLUMN_COMPLETION, /* time from the request of a free to its completion */
    PLEAT_COLUMN_COUNT
} pleat_trace_column_t;

typedef struct pleat_bytes {
    uint8_t *data;
    size_t count;
    size_t capacity;
    size_t cursor; /* where the next number is read */
} pleat_bytes_t;

/* All zero is an empty block. */
typedef struct pleat_trace_block {
    uint32_t event_count;
    pleat_bytes_t columns[PLEAT_COLUMN_COUNT];
} pleat_trace_block_t;

/* What the head of a packed block says of a column. */
typedef struct pleat_packed_column {
    uint64_t coding;
    uint64_t plain_bytes;
    uint64_t packed_bytes;
} pleat_packed_column_t;

void pleat_trace_block_fini(pleat_trace_block_t *block);

/* Forget the events, keep the memory. */
void pleat_trace_block_clear(pleat_trace_block_t *block);

/* Make sure that @p more bytes can be appended; data is not NULL afterwards. False: no host memory.
 */
PLEAT_NODISCARD bool pleat_bytes_reserve(pleat_bytes_t *bytes, size_t more);

/* Append; false: no host memory. */
PLEAT_NODISCARD bool pleat_bytes_append_number(pleat_bytes_t *bytes, uint64_t number);

/* Read the next number; false at the end, or when it has more than 64 bits. */
PLEAT_NODISCARD bool pleat_bytes_read_number(pleat_bytes_t *bytes, uint64_t *number_out);

/* Append the packed block to @p packed. False: no host memory. */
PLEAT_NODISCARD bool pleat_trace_block_pack(const pleat_trace_block_t *block,
                                            pleat_bytes_t *packed);

/**
 * Check a head against what is possible, before anything is allocated for it.
 * @return NULL if it is possible, else what is wrong; static.
 */
const char *pleat_packed_column_fault(const pleat_packed_column_t *column, uint32_t event_count);

/**
 * Unpack one column, whose head has been checked, into @p column.
 * @retval PLEAT_ERR_FORMAT    the bytes do not unpack to what the head says.
 * @retval PLEAT_ERR_OOM_HOST  no host memory.
 */
PLEAT_NODISCARD pleat_status_t pleat_packed_column_unpack(const pleat_packed_column_t *head,
                                                          const uint8_t *packed,
                                                          pleat_bytes_t *column);

#endif
