/*
 * pickle_value: the values that a pickle is made of, and the storage that holds them.
 *
 * A value is one word: constants and integers of up to 61 bits stand in it, everything else is a
 * pointer into the storage with the kind in its low three bits. Equal texts are stored once where
 * they are short. Values may refer to each other in circles; nothing here follows them.
 *
 * Invariants: every byte that a storage holds is counted in used_bytes, which never passes
 * limit_bytes; what it hands out stays at its place until the storage ends.
 * Locks: none; a storage belongs to one thread at a time.
 */
#ifndef PLEAT_COMPAT_PICKLE_VALUE_H
#define PLEAT_COMPAT_PICKLE_VALUE_H

#include <pleat/base.h>

typedef uint64_t pleat_pickle_value_t;

/* Low three bits of a value. */
typedef enum pleat_pickle_tag {
    PLEAT_PICKLE_TAG_CONSTANT,
    PLEAT_PICKLE_TAG_SHORT_INTEGER,
    PLEAT_PICKLE_TAG_NUMBER, /* an integer that does not fit into the word, or a real one */
    PLEAT_PICKLE_TAG_STRING,
    PLEAT_PICKLE_TAG_BYTES,
    PLEAT_PICKLE_TAG_LIST,
    PLEAT_PICKLE_TAG_TUPLE,
    PLEAT_PICKLE_TAG_DICT
} pleat_pickle_tag_t;

#define PLEAT_PICKLE_VALUE_NONE UINT64_C(0)
#define PLEAT_PICKLE_VALUE_FALSE UINT64_C(8)
#define PLEAT_PICKLE_VALUE_TRUE UINT64_C(16)
#define PLEAT_PICKLE_VALUE_ABSENT UINT64_C(24) /* no value at all */

typedef enum pleat_pickle_number_kind {
    PLEAT_PICKLE_NUMBER_SIGNED, /* negative */
    PLEAT_PICKLE_NUMBER_UNSIGNED,
    PLEAT_PICKLE_NUMBER_HUGE, /* an integer beyond 64 bits; its digits are not kept */
    PLEAT_PICKLE_NUMBER_REAL
} pleat_pickle_number_kind_t;

typedef struct pleat_pickle_number {
    pleat_pickle_number_kind_t kind;
    union {
        int64_t negative;
        uint64_t magnitude;
        double real;
    } as;
} pleat_pickle_number_t;

/* A string or bytes; a null byte follows that is not counted. */
typedef struct pleat_pickle_string {
    uint64_t length;
    uint32_t hash; /* of strings that are stored once */
    char text[];
} pleat_pickle_string_t;

/* Items of a list or tuple; of a dictionary key, value, key, value. */
typedef struct pleat_pickle_items {
    pleat_pickle_value_t *values;
    uint32_t count;
    uint32_t capacity;
    uint64_t offset; /* byte of the file at which it began */
    uint32_t mark;   /* 0; for whoever reads the finished tree */
    bool is_grown;   /* its values are a host allocation of their own */
} pleat_pickle_items_t;

typedef struct pleat_pickle_chunk pleat_pickle_chunk_t;

/* Memory that is handed out piece by piece and freed as a whole. */
typedef struct pleat_pickle_arena {
    pleat_pickle_chunk_t *chunks;
    char *cursor;
    char *end;
} pleat_pickle_arena_t;

typedef struct pleat_pickle_storage {
    uint64_t used_bytes;
    uint64_t limit_bytes;
    bool is_over_limit; /* the last failure was the limit's, not the host's */
    pleat_pickle_arena_t nodes;
    pleat_pickle_arena_t strings;
    pleat_pickle_items_t **grown; /* those with is_grown */
    size_t grown_count;
    size_t grown_capacity;
    pleat_pickle_string_t **table; /* short strings by hash */
    size_t table_count;
    size_t table_capacity; /* 0 or a power of two */
} pleat_pickle_storage_t;

void pleat_pickle_storage_init(pleat_pickle_storage_t *storage, uint64_t limit_bytes);

/* Free everything but the strings; their values stay good. */
void pleat_pickle_storage_drop_nodes(pleat_pickle_storage_t *storage);

void pleat_pickle_storage_fini(pleat_pickle_storage_t *storage);

/* Resize an array of the host's, counted: NULL when there is no memory or the limit is passed, and
 * the array is as it was. */
void *pleat_pickle_resize(pleat_pickle_storage_t *storage, void *items, uint64_t old_bytes,
                          uint64_t new_bytes);

/* Free such an array. */
void pleat_pickle_release(pleat_pickle_storage_t *storage, void *items, uint64_t bytes);

/* Room for one more element of such an array: its capacity at least doubles. False: no memory. */
bool pleat_pickle_reserve(pleat_pickle_storage_t *storage, void **items, size_t *capacity,
                          size_t wanted, size_t item_bytes);

/* The values below; false when there is no memory (or too many items), and nothing changed. */
bool pleat_pickle_make_unsigned(pleat_pickle_storage_t *storage, uint64_t number,
                                pleat_pickle_value_t *value_out);
bool pleat_pickle_make_negative(pleat_pickle_storage_t *storage, int64_t number,
                                pleat_pickle_value_t *value_out);
bool pleat_pickle_make_huge(pleat_pickle_storage_t *storage, pleat_pickle_value_t *value_out);
bool pleat_pickle_make_real(pleat_pickle_storage_t *storage, double number,
                            pleat_pickle_value_t *value_out);

/* A string of up to PLEAT_PICKLE_SHARED_STRING_BYTES, shared with an equal one. */
#define PLEAT_PICKLE_SHARED_STRING_BYTES 4096
bool pleat_pickle_make_string(pleat_pickle_storage_t *storage, const char *text, size_t length,
                              pleat_pickle_value_t *value_out);

/* An unshared string or bytes whose content is filled in by the caller. */
bool pleat_pickle_make_raw(pleat_pickle_storage_t *storage, pleat_pickle_tag_t tag, uint64_t length,
                           pleat_pickle_string_t **string_out, pleat_pickle_value_t *value_out);

/* A container; @p tag is one of LIST, TUPLE, DICT. */
bool pleat_pickle_make_items(pleat_pickle_storage_t *storage, pleat_pickle_tag_t tag,
                             uint64_t offset, pleat_pickle_value_t *value_out);
bool pleat_pickle_items_append(pleat_pickle_storage_t *storage, pleat_pickle_items_t *items,
                               const pleat_pickle_value_t *values, size_t count);

static inline pleat_pickle_tag_t pleat_pickle_tag(pleat_pickle_value_t value)
{
    return (pleat_pickle_tag_t)(value & 7u);
}

static inline void *pleat_pickle_pointer(pleat_pickle_value_t value)
{
    return (void *)(uintptr_t)(value & ~UINT64_C(7));
}

/* NULL for another kind. */
const pleat_pickle_string_t *pleat_pickle_string(pleat_pickle_value_t value);

/* Items of a list, a tuple or a dictionary; NULL for another kind. */
pleat_pickle_items_t *pleat_pickle_items(pleat_pickle_value_t value);

/* Integers that fit, and no truth values; false, with the output untouched, for all else. */
bool pleat_pickle_to_unsigned(pleat_pickle_value_t value, uint64_t *number_out);
bool pleat_pickle_to_signed(pleat_pickle_value_t value, int64_t *number_out);

/* A real number, or an integer as one. */
bool pleat_pickle_to_real(pleat_pickle_value_t value, double *number_out);

/* Value of a key, PLEAT_PICKLE_VALUE_ABSENT without one; of equal keys the last counts. */
pleat_pickle_value_t pleat_pickle_find(const pleat_pickle_items_t *dict, const char *key);

bool pleat_pickle_string_is(const pleat_pickle_string_t *string, const char *text);

/* Length of the character that begins at @p text, 0 if it is not well formed. Halves of surrogate
 * pairs count as characters, because Python writes them so. */
size_t pleat_pickle_utf8_length(const unsigned char *text, size_t left);

/* "a list", "an integer", ... for messages; static. */
const char *pleat_pickle_describe(pleat_pickle_value_t value);

#endif
