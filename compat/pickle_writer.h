/*
 * pickle_writer (internal): writes values as a pickle of Python, protocol 2 to 5, with no opcode
 * that Python's pickle would not write for plain data: numbers, texts, tuples, lists, dictionaries,
 * and references to earlier values. The format is described in the module pickletools of Python.
 *
 * Memory is that of the struct, whatever is written: bytes go out in frames of 64 KiB, and a text
 * that comes again within a few thousand others is a reference. A failure sticks: every call after
 * it does nothing, and pleat_pickle_writer_finish returns it.
 * Locks: none; a writer belongs to one thread at a time.
 */
#ifndef PLEAT_COMPAT_PICKLE_WRITER_H
#define PLEAT_COMPAT_PICKLE_WRITER_H

#include <pleat/base.h>

enum {
    PLEAT_PICKLE_WRITER_FRAME_BYTES = 1 << 16,
    PLEAT_PICKLE_WRITER_TEXTS = 1 << 12, /* a power of two */
    PLEAT_PICKLE_WRITER_BATCH = 1000,    /* items of a list between two opcodes */
    PLEAT_PICKLE_WRITER_DIRECT_BYTES = 4096
};

/* Takes all bytes, or fails with its own status and error text. */
typedef pleat_status_t (*pleat_pickle_write_fn_t)(void *context, const void *bytes,
                                                  size_t byte_count);

typedef struct pleat_pickle_text {
    const char *text; /* the caller's, which must live as long as the writer; NULL: none */
    uint32_t memo;
} pleat_pickle_text_t;

typedef struct pleat_pickle_writer {
    pleat_pickle_write_fn_t write;
    void *context;
    unsigned protocol;
    pleat_status_t status; /* of the first failure */
    uint32_t memo_count;
    size_t used; /* bytes of the frame */
    uint8_t frame[PLEAT_PICKLE_WRITER_FRAME_BYTES];
    pleat_pickle_text_t texts[PLEAT_PICKLE_WRITER_TEXTS]; /* by hash; the last one stays */
} pleat_pickle_writer_t;

#define PLEAT_PICKLE_NO_MEMO UINT32_MAX /* the value cannot be referred to */

/* Begin a pickle; @p protocol is 2 to 5. */
void pleat_pickle_writer_init(pleat_pickle_writer_t *writer, unsigned protocol,
                              pleat_pickle_write_fn_t write, void *context);

/* End the pickle, write what is left, and return the first failure, if any. */
PLEAT_NODISCARD pleat_status_t pleat_pickle_writer_finish(pleat_pickle_writer_t *writer);

void pleat_pickle_put_bool(pleat_pickle_writer_t *writer, bool value);
void pleat_pickle_put_signed(pleat_pickle_writer_t *writer, int64_t value);
void pleat_pickle_put_unsigned(pleat_pickle_writer_t *writer, uint64_t value);
void pleat_pickle_put_real(pleat_pickle_writer_t *writer, double value);

/* A text; NULL counts as "". A byte that is no UTF-8 becomes U+FFFD, but a lone surrogate, which
 * Python's file names may have, stays. */
void pleat_pickle_put_text(pleat_pickle_writer_t *writer, const char *text);

/* A tuple of the two values that were put last. */
void pleat_pickle_put_pair(pleat_pickle_writer_t *writer);

/* An empty dictionary, and then its keys and values in turn between begin and end. At most
 * PLEAT_PICKLE_WRITER_BATCH pairs, at least one. */
void pleat_pickle_begin_dict(pleat_pickle_writer_t *writer);
void pleat_pickle_end_dict(pleat_pickle_writer_t *writer);

/* A list of @p count items, each of which @p put_item puts as one value. */
typedef void (*pleat_pickle_put_item_fn_t)(void *context, uint64_t index);
void pleat_pickle_put_list(pleat_pickle_writer_t *writer, uint64_t count,
                           pleat_pickle_put_item_fn_t put_item, void *context);

/* Let the value that was put last be referred to; NO_MEMO if there are too many. */
uint32_t pleat_pickle_memoize(pleat_pickle_writer_t *writer);
void pleat_pickle_put_memo(pleat_pickle_writer_t *writer, uint32_t memo);

#endif
