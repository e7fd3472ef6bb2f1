/*
 * cost_text: reading of any text as a cost table.
 *
 * What must hold, or the program aborts:
 *   F1  a text that is refused leaves the table untouched and has a message that names a line;
 *   F2  a table that was read is well-formed, and its own text reads back to the same text.
 */
#include "vmm/cost.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition, const char *what)
{
    if (!condition) {
        (void)fprintf(stderr, "broken: %s; last error '%s'\n", what, pleat_last_error());
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char first[PLEAT_COST_TEXT_MAX];
    static char second[PLEAT_COST_TEXT_MAX];
    size_t first_length = 0;
    size_t second_length = 0;
    pleat_cost_table_t table = {.size = 1, .row_count = 77};
    const pleat_status_t status = pleat_cost_table_read((const char *)data, size, &table);
    if (status != PLEAT_OK) {
        require(status == PLEAT_ERR_FORMAT, "a refusal is one of the format");
        require(table.size == 1 && table.row_count == 77, "a refusal changes nothing");
        require(strncmp(pleat_last_error(), "cost table, line ", 17) == 0, "the line is named");
        return 0;
    }
    require(pleat_cost_table_check(&table) == PLEAT_OK, "what was read is well-formed");
    require(pleat_cost_table_write(&table, first, sizeof first, &first_length) == PLEAT_OK,
            "what was read can be written");
    require(pleat_cost_table_read(first, first_length, &table) == PLEAT_OK,
            "what was written can be read");
    require(pleat_cost_table_write(&table, second, sizeof second, &second_length) == PLEAT_OK,
            "and written again");
    require(first_length == second_length && memcmp(first, second, first_length) == 0,
            "to the same text");
    return 0;
}
