/*
 * pickle_input: the bytes of a pickle and the opcode that is being read, for messages with places.
 * Locks: none; its reader's.
 */
#ifndef PLEAT_COMPAT_PICKLE_INPUT_H
#define PLEAT_COMPAT_PICKLE_INPUT_H

#include "pickle_reader.h"

#define PLEAT_PICKLE_INPUT_BYTES 65536u

typedef struct pleat_pickle_input {
    const pleat_pickle_source_t *source;
    unsigned char *buffer; /* PLEAT_PICKLE_INPUT_BYTES, the reader's */
    size_t begin;          /* unread part of it */
    size_t end;
    uint64_t base; /* byte of the file at the buffer's start */
    bool is_at_end;
    uint64_t offset; /* of the opcode being read */
    int opcode;      /* -1: none yet */
} pleat_pickle_input_t;

/* Set the error text "FILE: byte OFFSET: ..."; returns PLEAT_ERR_FORMAT. */
PLEAT_PRINTF(3, 4)
pleat_status_t pleat_pickle_input_fail(const pleat_pickle_input_t *input, uint64_t offset,
                                       const char *format, ...);

/* Byte of the file that is read next. */
uint64_t pleat_pickle_input_position(const pleat_pickle_input_t *input);

/* @p count bytes, at most PLEAT_PICKLE_INPUT_BYTES, that stay until the next call. */
pleat_status_t pleat_pickle_input_take(pleat_pickle_input_t *input, size_t count,
                                       const unsigned char **bytes_out);

/* A number of @p count bytes, at most 8, the lowest first. */
pleat_status_t pleat_pickle_input_number(pleat_pickle_input_t *input, size_t count,
                                         uint64_t *number_out);

#endif
