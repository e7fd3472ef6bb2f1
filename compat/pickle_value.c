/*
 * pickle_value: see pickle_value.h.
 */
#include "pickle_value.h"

#include "vmm/base.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 8, FIRST_CAPACITY = 64, PROBES_MAX = 32, FIRST_ITEMS = 4 };

#define PLEAT_PICKLE_CHUNK_MIN_BYTES (UINT64_C(64) * PLEAT_KIB)
#define PLEAT_PICKLE_CHUNK_MAX_BYTES (UINT64_C(4) * PLEAT_MIB)
#define PLEAT_PICKLE_GROWN_BYTES                                     \
    (UINT64_C(32) * PLEAT_KIB) /* arrays from here on are the host's \
                                */
#define PLEAT_PICKLE_SHORT_MAX INT64_C(0x0fffffffffffffff)

struct pleat_pickle_chunk {
    pleat_pickle_chunk_t *next;
    uint64_t bytes; /* with this header */
};

void pleat_pickle_storage_init(pleat_pickle_storage_t *storage, uint64_t limit_bytes)
{
    *storage = (pleat_pickle_storage_t){.limit_bytes = limit_bytes};
}

static bool storage_charge(pleat_pickle_storage_t *storage, uint64_t bytes)
{
    storage->is_over_limit = bytes > storage->limit_bytes - storage->used_bytes;
    if (storage->is_over_limit) {
        return false;
    }
    storage->used_bytes += bytes;
    return true;
}

void *pleat_pickle_resize(pleat_pickle_storage_t *storage, void *items, uint64_t old_bytes,
                          uint64_t new_bytes)
{
    PLEAT_ASSERT(new_bytes >= old_bytes);
    if (new_bytes > SIZE_MAX || !storage_charge(storage, new_bytes - old_bytes)) {
        return NULL;
    }
    void *moved = realloc(items, (size_t)new_bytes);
    if (moved == NULL) {
        storage->used_bytes -= new_bytes - old_bytes;
    }
    return moved;
}

void pleat_pickle_release(pleat_pickle_storage_t *storage, void *items, uint64_t bytes)
{
    if (items != NULL) {
        storage->used_bytes -= bytes;
        free(items);
    }
}

bool pleat_pickle_reserve(pleat_pickle_storage_t *storage, void **items, size_t *capacity,
                          size_t wanted, size_t item_bytes)
{
    if (wanted <= *capacity) {
        return true;
    }
    size_t grown = *capacity < FIRST_CAPACITY ? FIRST_CAPACITY : *capacity * 2;
    grown = grown < wanted ? wanted : grown;
    uint64_t bytes = 0;
    if (!pleat_multiply_checked(grown, item_bytes, &bytes)) {
        return false;
    }
    void *moved = pleat_pickle_resize(storage, *items, *capacity * item_bytes, bytes);
    if (moved == NULL) {
        return false;
    }
    *items = moved;
    *capacity = grown;
    return true;
}

/* ---- arenas ---- */

static void arena_fini(pleat_pickle_storage_t *storage, pleat_pickle_arena_t *arena)
{
    while (arena->chunks != NULL) {
        pleat_pickle_chunk_t *chunk = arena->chunks;
        arena->chunks = chunk->next;
        pleat_pickle_release(storage, chunk, chunk->bytes);
    }
    *arena = (pleat_pickle_arena_t){.chunks = NULL};
}

/* A chunk with room for @p bytes, the first in the list. */
static pleat_pickle_chunk_t *arena_add_chunk(pleat_pickle_storage_t *storage,
                                             pleat_pickle_arena_t *arena, uint64_t bytes)
{
    pleat_pickle_chunk_t *chunk = pleat_pickle_resize(storage, NULL, 0, sizeof(*chunk) + bytes);
    if (chunk != NULL) {
        *chunk = (pleat_pickle_chunk_t){.next = arena->chunks, .bytes = sizeof(*chunk) + bytes};
        arena->chunks = chunk;
    }
    return chunk;
}

static void *arena_take(pleat_pickle_storage_t *storage, pleat_pickle_arena_t *arena,
                        uint64_t bytes)
{
    if (bytes > UINT64_MAX / 2) {
        storage->is_over_limit = true;
        return NULL;
    }
    bytes = pleat_align_up(bytes, ALIGNMENT);
    if (bytes <= (uint64_t)(arena->end - arena->cursor)) {
        void *piece = arena->cursor;
        arena->cursor += bytes;
        return piece;
    }
    if (bytes > PLEAT_PICKLE_CHUNK_MIN_BYTES / 2) { /* one of its own; the open one stays open */
        pleat_pickle_chunk_t *own = arena_add_chunk(storage, arena, bytes);
        return own != NULL ? own + 1 : NULL;
    }
    /* A quarter of what is used so far, so that small files stay small. */
    uint64_t wanted = pleat_align_down(storage->used_bytes / 4, ALIGNMENT);
    wanted = wanted < PLEAT_PICKLE_CHUNK_MIN_BYTES ? PLEAT_PICKLE_CHUNK_MIN_BYTES : wanted;
    wanted = wanted > PLEAT_PICKLE_CHUNK_MAX_BYTES ? PLEAT_PICKLE_CHUNK_MAX_BYTES : wanted;
    pleat_pickle_chunk_t *chunk = arena_add_chunk(storage, arena, wanted);
    if (chunk == NULL) {
        return NULL;
    }
    arena->cursor = (char *)(chunk + 1) + bytes;
    arena->end = (char *)(chunk + 1) + wanted;
    return chunk + 1;
}

void pleat_pickle_storage_drop_nodes(pleat_pickle_storage_t *storage)
{
    for (size_t i = 0; i < storage->grown_count; i++) {
        pleat_pickle_items_t *items = storage->grown[i];
        pleat_pickle_release(storage, items->values,
                             (uint64_t)items->capacity * sizeof(*items->values));
    }
    pleat_pickle_release(storage, storage->grown,
                         storage->grown_capacity * sizeof(storage->grown[0]));
    pleat_pickle_release(storage, storage->table,
                         storage->table_capacity * sizeof(storage->table[0]));
    storage->grown = NULL;
    storage->grown_count = 0;
    storage->grown_capacity = 0;
    storage->table = NULL;
    storage->table_count = 0;
    storage->table_capacity = 0;
    arena_fini(storage, &storage->nodes);
}

void pleat_pickle_storage_fini(pleat_pickle_storage_t *storage)
{
    pleat_pickle_storage_drop_nodes(storage);
    arena_fini(storage, &storage->strings);
    PLEAT_ASSERT(storage->used_bytes == 0);
}

/* ---- making values ---- */

static pleat_pickle_value_t value_of(const void *pointer, pleat_pickle_tag_t tag)
{
    PLEAT_ASSERT(((uintptr_t)pointer & 7u) == 0);
    return (pleat_pickle_value_t)(uintptr_t)pointer | (pleat_pickle_value_t)tag;
}

static bool make_number(pleat_pickle_storage_t *storage, pleat_pickle_number_t number,
                        pleat_pickle_value_t *value_out)
{
    pleat_pickle_number_t *own = arena_take(storage, &storage->nodes, sizeof(*own));
    if (own == NULL) {
        return false;
    }
    *own = number;
    *value_out = value_of(own, PLEAT_PICKLE_TAG_NUMBER);
    return true;
}

static pleat_pickle_value_t short_integer(int64_t number)
{
    return (uint64_t)number << 3 | PLEAT_PICKLE_TAG_SHORT_INTEGER;
}

bool pleat_pickle_make_unsigned(pleat_pickle_storage_t *storage, uint64_t number,
                                pleat_pickle_value_t *value_out)
{
    if (number <= (uint64_t)PLEAT_PICKLE_SHORT_MAX) {
        *value_out = short_integer((int64_t)number);
        return true;
    }
    return make_number(
        storage,
        (pleat_pickle_number_t){.kind = PLEAT_PICKLE_NUMBER_UNSIGNED, .as.magnitude = number},
        value_out);
}

bool pleat_pickle_make_negative(pleat_pickle_storage_t *storage, int64_t number,
                                pleat_pickle_value_t *value_out)
{
    PLEAT_ASSERT(number < 0);
    if (number >= -PLEAT_PICKLE_SHORT_MAX) {
        *value_out = short_integer(number);
        return true;
    }
    return make_number(
        storage, (pleat_pickle_number_t){.kind = PLEAT_PICKLE_NUMBER_SIGNED, .as.negative = number},
        value_out);
}

bool pleat_pickle_make_huge(pleat_pickle_storage_t *storage, pleat_pickle_value_t *value_out)
{
    return make_number(storage, (pleat_pickle_number_t){.kind = PLEAT_PICKLE_NUMBER_HUGE},
                       value_out);
}

bool pleat_pickle_make_real(pleat_pickle_storage_t *storage, double number,
                            pleat_pickle_value_t *value_out)
{
    return make_number(storage,
                       (pleat_pickle_number_t){.kind = PLEAT_PICKLE_NUMBER_REAL, .as.real = number},
                       value_out);
}

bool pleat_pickle_make_raw(pleat_pickle_storage_t *storage, pleat_pickle_tag_t tag, uint64_t length,
                           pleat_pickle_string_t **string_out, pleat_pickle_value_t *value_out)
{
    uint64_t bytes = 0;
    pleat_pickle_string_t *string = NULL;
    if (!pleat_add_checked(length, sizeof(*string) + 1, &bytes)) {
        storage->is_over_limit = true;
        return false;
    }
    string = arena_take(storage, &storage->strings, bytes);
    if (string == NULL) {
        return false;
    }
    string->length = length;
    string->hash = 0;
    string->text[length] = '\0';
    *string_out = string;
    *value_out = value_of(string, tag);
    return true;
}

/* FNV-1a (Fowler, Noll, Vo), folded to 32 bits. */
static uint32_t hash_of(const char *text, size_t length)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < length; i++) {
        hash = (hash ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
    }
    return (uint32_t)(hash ^ hash >> 32);
}

/* The place of an equal string, or the first free one; SIZE_MAX when neither is near, so that
 * strings chosen to collide cost no more than others: they are just not shared. */
static size_t table_place(const pleat_pickle_storage_t *storage, uint32_t hash, const char *text,
                          size_t length)
{
    const size_t mask = storage->table_capacity - 1;
    for (size_t probe = 0; probe < PROBES_MAX; probe++) {
        const size_t place = (hash + probe) & mask;
        const pleat_pickle_string_t *there = storage->table[place];
        if (there == NULL || (there->hash == hash && there->length == length &&
                              memcmp(there->text, text, length) == 0)) {
            return place;
        }
    }
    return SIZE_MAX;
}

static bool table_grow(pleat_pickle_storage_t *storage)
{
    const size_t old_capacity = storage->table_capacity;
    const size_t capacity = old_capacity == 0 ? FIRST_CAPACITY : old_capacity * 2;
    pleat_pickle_string_t **old = storage->table;
    pleat_pickle_string_t **table =
        pleat_pickle_resize(storage, NULL, 0, capacity * sizeof(pleat_pickle_string_t *));
    if (table == NULL) {
        return false;
    }
    memset(table, 0, capacity * sizeof(pleat_pickle_string_t *));
    storage->table = table;
    storage->table_capacity = capacity;
    storage->table_count = 0;
    for (size_t i = 0; i < old_capacity; i++) {
        if (old[i] == NULL) {
            continue;
        }
        const size_t place = table_place(storage, old[i]->hash, old[i]->text, old[i]->length);
        if (place != SIZE_MAX) {
            storage->table_count += table[place] == NULL ? 1 : 0;
            table[place] = old[i];
        }
    }
    pleat_pickle_release(storage, old, old_capacity * sizeof(pleat_pickle_string_t *));
    return true;
}

bool pleat_pickle_make_string(pleat_pickle_storage_t *storage, const char *text, size_t length,
                              pleat_pickle_value_t *value_out)
{
    PLEAT_ASSERT(length <= PLEAT_PICKLE_SHARED_STRING_BYTES);
    const uint32_t hash = hash_of(text, length);
    if (storage->table_count * 2 >= storage->table_capacity && !table_grow(storage)) {
        return false;
    }
    const size_t place = table_place(storage, hash, text, length);
    if (place != SIZE_MAX && storage->table[place] != NULL) {
        *value_out = value_of(storage->table[place], PLEAT_PICKLE_TAG_STRING);
        return true;
    }
    pleat_pickle_string_t *string = NULL;
    if (!pleat_pickle_make_raw(storage, PLEAT_PICKLE_TAG_STRING, length, &string, value_out)) {
        return false;
    }
    memcpy(string->text, text, length);
    string->hash = hash;
    if (place != SIZE_MAX) {
        storage->table[place] = string;
        storage->table_count++;
    }
    return true;
}

bool pleat_pickle_make_items(pleat_pickle_storage_t *storage, pleat_pickle_tag_t tag,
                             uint64_t offset, pleat_pickle_value_t *value_out)
{
    pleat_pickle_items_t *items = arena_take(storage, &storage->nodes, sizeof(*items));
    if (items == NULL) {
        return false;
    }
    *items = (pleat_pickle_items_t){.offset = offset};
    *value_out = value_of(items, tag);
    return true;
}

/* Room for @p wanted values. Small arrays leave their old place unused, so that all of them
 * together waste at most as much as they hold. */
static bool items_reserve(pleat_pickle_storage_t *storage, pleat_pickle_items_t *items,
                          uint64_t wanted)
{
    uint64_t capacity = items->capacity == 0 ? wanted : (uint64_t)items->capacity * 2;
    capacity = capacity < wanted ? wanted : capacity;
    capacity = capacity > UINT32_MAX ? UINT32_MAX : capacity;
    capacity = items->count > 0 && capacity < FIRST_ITEMS ? FIRST_ITEMS : capacity;
    const uint64_t bytes = capacity * sizeof(*items->values);
    const uint64_t old_bytes = (uint64_t)items->capacity * sizeof(*items->values);
    pleat_pickle_value_t *values = NULL;
    if (wanted > UINT32_MAX) {
        storage->is_over_limit = true;
        return false;
    }
    if (items->is_grown) {
        values = pleat_pickle_resize(storage, items->values, old_bytes, bytes);
    } else if (bytes < PLEAT_PICKLE_GROWN_BYTES) {
        values = arena_take(storage, &storage->nodes, bytes);
    } else {
        void *grown = storage->grown;
        if (pleat_pickle_reserve(storage, &grown, &storage->grown_capacity,
                                 storage->grown_count + 1, sizeof(storage->grown[0]))) {
            storage->grown = grown;
            values = pleat_pickle_resize(storage, NULL, 0, bytes);
        }
    }
    if (values == NULL) {
        return false;
    }
    if (!items->is_grown && items->count > 0) {
        memcpy(values, items->values, (size_t)items->count * sizeof(*values));
    }
    if (!items->is_grown && bytes >= PLEAT_PICKLE_GROWN_BYTES) {
        items->is_grown = true;
        storage->grown[storage->grown_count++] = items;
    }
    items->values = values;
    items->capacity = (uint32_t)capacity;
    return true;
}

bool pleat_pickle_items_append(pleat_pickle_storage_t *storage, pleat_pickle_items_t *items,
                               const pleat_pickle_value_t *values, size_t count)
{
    const uint64_t wanted = (uint64_t)items->count + count;
    if (count == 0) {
        return true;
    }
    if (wanted > items->capacity && !items_reserve(storage, items, wanted)) {
        return false;
    }
    memcpy(&items->values[items->count], values, count * sizeof(*values));
    items->count = (uint32_t)wanted;
    return true;
}

/* ---- reading values ---- */

const pleat_pickle_string_t *pleat_pickle_string(pleat_pickle_value_t value)
{
    return pleat_pickle_tag(value) == PLEAT_PICKLE_TAG_STRING ? pleat_pickle_pointer(value) : NULL;
}

pleat_pickle_items_t *pleat_pickle_items(pleat_pickle_value_t value)
{
    return pleat_pickle_tag(value) >= PLEAT_PICKLE_TAG_LIST ? pleat_pickle_pointer(value) : NULL;
}

static int64_t short_number(pleat_pickle_value_t value)
{
    return (int64_t)value >> 3;
}

bool pleat_pickle_to_unsigned(pleat_pickle_value_t value, uint64_t *number_out)
{
    if (pleat_pickle_tag(value) == PLEAT_PICKLE_TAG_SHORT_INTEGER) {
        const int64_t number = short_number(value);
        if (number < 0) {
            return false;
        }
        *number_out = (uint64_t)number;
        return true;
    }
    const pleat_pickle_number_t *number = pleat_pickle_pointer(value);
    if (pleat_pickle_tag(value) != PLEAT_PICKLE_TAG_NUMBER ||
        number->kind != PLEAT_PICKLE_NUMBER_UNSIGNED) {
        return false;
    }
    *number_out = number->as.magnitude;
    return true;
}

bool pleat_pickle_to_signed(pleat_pickle_value_t value, int64_t *number_out)
{
    uint64_t magnitude = 0;
    if (pleat_pickle_tag(value) == PLEAT_PICKLE_TAG_SHORT_INTEGER) {
        *number_out = short_number(value);
        return true;
    }
    if (pleat_pickle_to_unsigned(value, &magnitude)) {
        if (magnitude > (uint64_t)INT64_MAX) {
            return false;
        }
        *number_out = (int64_t)magnitude;
        return true;
    }
    const pleat_pickle_number_t *number = pleat_pickle_pointer(value);
    if (pleat_pickle_tag(value) != PLEAT_PICKLE_TAG_NUMBER ||
        number->kind != PLEAT_PICKLE_NUMBER_SIGNED) {
        return false;
    }
    *number_out = number->as.negative;
    return true;
}

bool pleat_pickle_to_real(pleat_pickle_value_t value, double *number_out)
{
    int64_t integer = 0;
    if (pleat_pickle_to_signed(value, &integer)) {
        *number_out = (double)integer;
        return true;
    }
    const pleat_pickle_number_t *number = pleat_pickle_pointer(value);
    if (pleat_pickle_tag(value) != PLEAT_PICKLE_TAG_NUMBER ||
        number->kind != PLEAT_PICKLE_NUMBER_REAL) {
        return false;
    }
    *number_out = number->as.real;
    return true;
}

bool pleat_pickle_string_is(const pleat_pickle_string_t *string, const char *text)
{
    return string->length == strlen(text) && memcmp(string->text, text, string->length) == 0;
}

pleat_pickle_value_t pleat_pickle_find(const pleat_pickle_items_t *dict, const char *key)
{
    for (uint32_t i = dict->count; i >= 2; i -= 2) {
        const pleat_pickle_string_t *there = pleat_pickle_string(dict->values[i - 2]);
        if (there != NULL && pleat_pickle_string_is(there, key)) {
            return dict->values[i - 1];
        }
    }
    return PLEAT_PICKLE_VALUE_ABSENT;
}

size_t pleat_pickle_utf8_length(const unsigned char *text, size_t left)
{
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    const size_t length = text[0] < 0x80   ? 1
                          : text[0] < 0xc0 ? 0
                          : text[0] < 0xe0 ? 2
                          : text[0] < 0xf0 ? 3
                          : text[0] < 0xf8 ? 4
                                           : 0;
    if (length < 2 || length > left) {
        return length == 1 ? 1 : 0;
    }
    uint32_t code = text[0] & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((text[i] & 0xc0) != 0x80) {
            return 0;
        }
        code = code << 6 | (text[i] & 0x3fu);
    }
    return code >= least[length] && code <= 0x10ffff ? length : 0;
}

const char *pleat_pickle_describe(pleat_pickle_value_t value)
{
    switch (pleat_pickle_tag(value)) {
    case PLEAT_PICKLE_TAG_CONSTANT:
        if (value == PLEAT_PICKLE_VALUE_ABSENT) {
            return "nothing";
        }
        return value == PLEAT_PICKLE_VALUE_NONE   ? "None"
               : value == PLEAT_PICKLE_VALUE_TRUE ? "True"
                                                  : "False";
    case PLEAT_PICKLE_TAG_SHORT_INTEGER:
        return short_number(value) < 0 ? "a negative integer" : "an integer";
    case PLEAT_PICKLE_TAG_NUMBER:
        switch (((const pleat_pickle_number_t *)pleat_pickle_pointer(value))->kind) {
        case PLEAT_PICKLE_NUMBER_SIGNED:
            return "a negative integer";
        case PLEAT_PICKLE_NUMBER_UNSIGNED:
            return "an integer";
        case PLEAT_PICKLE_NUMBER_HUGE:
            return "an integer beyond 64 bits";
        case PLEAT_PICKLE_NUMBER_REAL:
            return "a real number";
        }
        return "a number";
    case PLEAT_PICKLE_TAG_STRING:
        return "a string";
    case PLEAT_PICKLE_TAG_BYTES:
        return "bytes";
    case PLEAT_PICKLE_TAG_LIST:
        return "a list";
    case PLEAT_PICKLE_TAG_TUPLE:
        return "a tuple";
    case PLEAT_PICKLE_TAG_DICT:
        return "a dictionary";
    }
    return "a value";
}
