/*
 * name_table: stores texts and numbers those that are names. Texts never move, so that pointers to
 * them stay good; equal names get the same number, counted from 0 in order of first use.
 * Locks: none; its owner's.
 */
#ifndef PLEAT_EXPERIMENTS_NAME_TABLE_H
#define PLEAT_EXPERIMENTS_NAME_TABLE_H

#include "scan.h"

#define PLEAT_NAME_NONE UINT32_MAX

typedef struct pleat_text_store pleat_text_store_t;

/* All zero is an empty table. */
typedef struct pleat_name_table {
    const char **names; /* name_count texts, in the store */
    uint32_t name_count;
    uint32_t name_capacity;
    uint32_t *slots; /* numbers, or PLEAT_NAME_NONE; open addressing */
    uint32_t slot_count;
} pleat_name_table_t;

/** Create a store of texts. NULL: no host memory. */
pleat_text_store_t *pleat_text_store_create(void);

/** Free a store with all its texts; NULL is ignored. */
void pleat_text_store_destroy(pleat_text_store_t *store);

/** A terminated copy of a text, good as long as the store. NULL: no host memory. */
const char *pleat_text_store_add(pleat_text_store_t *store, pleat_text_t text);

/** The number of a name, PLEAT_NAME_NONE if it was never added. Constant on average. */
uint32_t pleat_name_table_find(const pleat_name_table_t *table, pleat_text_t name);

/** The number of a name, added if needed. PLEAT_NAME_NONE: no host memory. */
uint32_t pleat_name_table_add(pleat_name_table_t *table, pleat_text_store_t *store,
                              pleat_text_t name);

/** Free the table, but not the store. */
void pleat_name_table_fini(pleat_name_table_t *table);

#endif
