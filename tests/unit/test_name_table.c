/*
 * test_name_table: names keep their numbers and their places, and failing host memory.
 */
#include "name_table.h"

#include "host_fault.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>

enum { NAMES = 20000 };

static pleat_text_t name_of(unsigned number, char *buffer, size_t capacity)
{
    const int length = snprintf(buffer, capacity, "name%u", number);
    return (pleat_text_t){.start = buffer, .length = (size_t)length};
}

Test(name_table, equal_names_get_equal_numbers)
{
    pleat_text_store_t *store = pleat_text_store_create();
    pleat_name_table_t table = {0};
    char buffer[32];
    cr_expect(eq(u32, pleat_name_table_find(&table, name_of(0, buffer, sizeof(buffer))),
                 PLEAT_NAME_NONE));
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < NAMES; i++) {
            cr_assert(eq(
                u32, pleat_name_table_add(&table, store, name_of(i, buffer, sizeof(buffer))), i));
        }
    }
    cr_expect(eq(u32, table.name_count, NAMES));
    cr_expect(eq(str, (char *)table.names[0], "name0"));
    cr_expect(eq(u32, pleat_name_table_find(&table, name_of(777, buffer, sizeof(buffer))), 777));
    pleat_name_table_fini(&table);
    pleat_text_store_destroy(store);
}

Test(name_table, long_texts_are_stored_whole)
{
    static char text[100000];
    memset(text, 'x', sizeof(text));
    pleat_text_store_t *store = pleat_text_store_create();
    const char *first = pleat_text_store_add(store, (pleat_text_t){.start = "a", .length = 1});
    const char *copy =
        pleat_text_store_add(store, (pleat_text_t){.start = text, .length = sizeof(text)});
    cr_expect(eq(sz, strlen(copy), sizeof(text)));
    cr_expect(eq(str, (char *)first, "a"));
    cr_expect(eq(str, (char *)pleat_text_store_add(store, (pleat_text_t){0}), ""));
    pleat_text_store_destroy(store);
    pleat_text_store_destroy(NULL);
}

Test(name_table, lack_of_host_memory_is_told)
{
    pleat_text_store_t *store = pleat_text_store_create();
    pleat_name_table_t table = {0};
    const pleat_text_t name = {.start = "a", .length = 1};
    for (uint64_t nth = 1; nth <= 3; nth++) {
        host_fault_after(nth);
        cr_expect(eq(u32, pleat_name_table_add(&table, store, name), PLEAT_NAME_NONE));
        host_fault_after(0);
        pleat_text_store_destroy(store);
        store = pleat_text_store_create();
    }
    cr_expect(eq(u32, pleat_name_table_add(&table, store, name), 0));
    pleat_name_table_fini(&table);
    pleat_text_store_destroy(store);
}
