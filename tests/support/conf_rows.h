/*
 * conf_rows: the tables of configuration texts, data/conf.tsv and data/conf_strict.tsv, and how a
 * row's text reaches a configuration.
 *
 * A table has a title line and then tab-separated rows. A text is `(empty)` for the empty one, `\t`
 * for a tab in it, and itself otherwise. The source of a row is `runtime` (one text at run time),
 * `runtimes` (several, between " | "), `env` (value of PYTORCH_CUDA_ALLOC_CONF), `env+runtime` (the
 * first is the variable's), or `vars` (NAME=VALUE, between "|").
 */
#ifndef PLEAT_TEST_CONF_ROWS_H
#define PLEAT_TEST_CONF_ROWS_H

#include <pleat/conf.h>

enum { CONF_ROW_COLUMNS = 6, CONF_ROWS = 256, CONF_ROWS_BYTES = 65536, CONF_VARIABLES = 8 };

typedef struct conf_row {
    const char *string;
    const char *source;
    const char *outcome;
    const char *columns[CONF_ROW_COLUMNS - 3]; /* the rest, in the table's order */
} conf_row_t;

typedef struct conf_rows {
    size_t count;
    conf_row_t rows[CONF_ROWS];
    char text[CONF_ROWS_BYTES];
} conf_rows_t;

/* Read a table; false: it cannot be read, or a row has too few columns. */
bool conf_rows_read(conf_rows_t *rows, const char *path);

/* Variables for pleat_conf_read_variables. */
typedef struct conf_variables {
    size_t count;
    struct {
        char *name;
        char *value;
    } entries[CONF_VARIABLES];
} conf_variables_t;

/* A pleat_conf_lookup_fn_t; the context is a conf_variables_t. */
const char *conf_variables_lookup(void *context, const char *name);

/* Let the row's texts be read one after the other; the status and report are those of the last. */
pleat_status_t conf_row_run(const conf_row_t *row, pleat_conf_reading_t reading, pleat_conf_t *conf,
                            pleat_conf_report_t *report);

/* Nothing at all is different, the bytes between fields included. */
bool conf_same_bytes(const void *a, const void *b, size_t byte_count);

#endif
