/*
 * name_table: see name_table.h. The store is a list of pieces that are filled one after the other;
 * the hash is FNV-1a.
 */
#include "name_table.h"

#include <stdlib.h>
#include <string.h>

enum { PIECE_BYTES = 1 << 14, SLOTS_MIN = 256 };

typedef struct pleat_text_piece {
    struct pleat_text_piece *older;
    char bytes[];
} pleat_text_piece_t;

struct pleat_text_store {
    pleat_text_piece_t *newest;
    size_t used;
    size_t capacity; /* of the newest piece */
};

pleat_text_store_t *pleat_text_store_create(void)
{
    return calloc(1, sizeof(pleat_text_store_t));
}

void pleat_text_store_destroy(pleat_text_store_t *store)
{
    if (store == NULL) {
        return;
    }
    pleat_text_piece_t *piece = store->newest;
    while (piece != NULL) {
        pleat_text_piece_t *older = piece->older;
        free(piece);
        piece = older;
    }
    free(store);
}

const char *pleat_text_store_add(pleat_text_store_t *store, pleat_text_t text)
{
    const size_t wanted = text.length + 1;
    if (store->capacity - store->used < wanted) {
        const size_t capacity = wanted > PIECE_BYTES ? wanted : PIECE_BYTES;
        pleat_text_piece_t *piece = malloc(sizeof(*piece) + capacity);
        if (piece == NULL) {
            return NULL;
        }
        piece->older = store->newest;
        store->newest = piece;
        store->capacity = capacity;
        store->used = 0;
    }
    char *copy = store->newest->bytes + store->used;
    if (text.length > 0) {
        memcpy(copy, text.start, text.length);
    }
    copy[text.length] = '\0';
    store->used += wanted;
    return copy;
}

/* The slot of a name, or the empty one where it would go. */
static uint32_t pleat_name_table_slot(const pleat_name_table_t *table, pleat_text_t name)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < name.length; i++) {
        hash = (hash ^ (unsigned char)name.start[i]) * UINT64_C(1099511628211);
    }
    const uint32_t mask = table->slot_count - 1;
    uint32_t slot = (uint32_t)(hash ^ hash >> 32) & mask;
    while (table->slots[slot] != PLEAT_NAME_NONE &&
           !pleat_text_is(name, table->names[table->slots[slot]])) {
        slot = (slot + 1) & mask;
    }
    return slot;
}

uint32_t pleat_name_table_find(const pleat_name_table_t *table, pleat_text_t name)
{
    return table->slot_count == 0 ? PLEAT_NAME_NONE
                                  : table->slots[pleat_name_table_slot(table, name)];
}

/* Room for one more name; half of the slots stay empty. */
static bool pleat_name_table_reserve(pleat_name_table_t *table)
{
    if (table->name_count < table->name_capacity) {
        return true;
    }
    const uint32_t slot_count = table->slot_count == 0 ? SLOTS_MIN : table->slot_count * 2;
    const uint32_t name_capacity = slot_count / 2;
    if (slot_count > UINT32_MAX / 4) {
        return false;
    }
    const char **names = realloc(table->names, name_capacity * sizeof(*names));
    if (names == NULL) {
        return false;
    }
    table->names = names;
    uint32_t *slots = malloc(slot_count * sizeof(*slots));
    if (slots == NULL) {
        return false;
    }
    memset(slots, 0xff, slot_count * sizeof(*slots));
    free(table->slots);
    table->slots = slots;
    table->slot_count = slot_count;
    table->name_capacity = name_capacity;
    for (uint32_t i = 0; i < table->name_count; i++) {
        const pleat_text_t name = {.start = names[i], .length = strlen(names[i])};
        slots[pleat_name_table_slot(table, name)] = i;
    }
    return true;
}

uint32_t pleat_name_table_add(pleat_name_table_t *table, pleat_text_store_t *store,
                              pleat_text_t name)
{
    const uint32_t known = pleat_name_table_find(table, name);
    if (known != PLEAT_NAME_NONE) {
        return known;
    }
    const char *copy = pleat_text_store_add(store, name);
    if (copy == NULL || !pleat_name_table_reserve(table)) {
        return PLEAT_NAME_NONE;
    }
    const uint32_t number = table->name_count;
    table->slots[pleat_name_table_slot(table, name)] = number;
    table->names[number] = copy;
    table->name_count++;
    return number;
}

void pleat_name_table_fini(pleat_name_table_t *table)
{
    free(table->names);
    free(table->slots);
    *table = (pleat_name_table_t){0};
}
