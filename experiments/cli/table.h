/*
 * table: a table for people on standard output, over libsmartcols. Lines are never cut to the
 * terminal's width: a number that is missing is worse than one that wraps.
 */
#ifndef PLEAT_CLI_TABLE_H
#define PLEAT_CLI_TABLE_H

#include <pleat/base.h>

typedef struct pleat_cli_table pleat_cli_table_t;

typedef enum pleat_cli_align { PLEAT_CLI_LEFT, PLEAT_CLI_RIGHT } pleat_cli_align_t;

/** A table without columns; NULL without host memory. Freed by pleat_cli_table_print. */
pleat_cli_table_t *pleat_cli_table_create(void);

/** Append a column; all columns come before the first row. Failures show when printing. */
void pleat_cli_table_column(pleat_cli_table_t *table, const char *heading, pleat_cli_align_t align);

/** Begin a row; its cells are filled from the left. */
void pleat_cli_table_row(pleat_cli_table_t *table);

/** Fill the next cell of the row; text beyond 255 bytes is cut. */
void pleat_cli_table_cell(pleat_cli_table_t *table, const char *format, ...) PLEAT_PRINTF(2, 3);

/** As pleat_cli_table_cell, for text of any length. */
void pleat_cli_table_text(pleat_cli_table_t *table, const char *text);

/** Print and free the table. 0, or an exit status after a message. */
int pleat_cli_table_print(pleat_cli_table_t *table);

#endif
