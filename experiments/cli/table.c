/*
 * table: libsmartcols, with the errors of a whole table gathered until it is printed.
 */
#include "table.h"
#include "command.h"
#include "report.h"

#include <libsmartcols/libsmartcols.h>
#include <stdarg.h>
#include <stdlib.h>

struct pleat_cli_table {
    struct libscols_table *table;
    struct libscols_line *line;
    size_t cell_index;
    bool has_failed;
};

pleat_cli_table_t *pleat_cli_table_create(void)
{
    pleat_cli_table_t *table = calloc(1, sizeof(*table));

    if (!table) {
        return NULL;
    }
    table->table = scols_new_table();
    if (!table->table) {
        free(table);
        return NULL;
    }
    (void)scols_table_set_termforce(table->table, SCOLS_TERMFORCE_NEVER);
    (void)scols_table_enable_colors(table->table, pleat_cli_has_colour(stdout) ? 1 : 0);
    (void)scols_table_set_column_separator(table->table, "  ");
    return table;
}

void pleat_cli_table_column(pleat_cli_table_t *table, const char *heading, pleat_cli_align_t align)
{
    struct libscols_column *column = NULL;

    if (!table) {
        return;
    }
    column = scols_table_new_column(table->table, heading, 0,
                                    align == PLEAT_CLI_RIGHT ? SCOLS_FL_RIGHT : 0);
    if (!column) {
        table->has_failed = true;
        return;
    }
    if (pleat_cli_has_colour(stdout)) {
        (void)scols_cell_set_color(scols_column_get_header(column), "\033[1m");
    }
}

void pleat_cli_table_row(pleat_cli_table_t *table)
{
    if (!table) {
        return;
    }
    table->line = scols_table_new_line(table->table, NULL);
    table->cell_index = 0;
    table->has_failed |= !table->line;
}

void pleat_cli_table_text(pleat_cli_table_t *table, const char *text)
{
    if (!table || !table->line) {
        return;
    }
    table->has_failed |= scols_line_set_data(table->line, table->cell_index++, text) != 0;
}

void pleat_cli_table_cell(pleat_cli_table_t *table, const char *format, ...)
{
    char text[256];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    pleat_cli_table_text(table, text);
}

int pleat_cli_table_print(pleat_cli_table_t *table)
{
    bool has_failed = !table || table->has_failed || scols_print_table(table->table) != 0;

    if (table) {
        scols_unref_table(table->table);
        free(table);
    }
    if (has_failed) {
        return pleat_cli_error("no host memory for a table");
    }
    return PLEAT_CLI_EXIT_GOOD;
}
