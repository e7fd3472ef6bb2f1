/*
 * conf_rows: reads the tables of configuration texts and runs their rows (conf_rows.h).
 */
#include "conf_rows.h"

#include <stdio.h>
#include <string.h>

enum { TEXT_BYTES = 2048 };

/* Cut the text at the first separator and return what follows; NULL: there is none. */
static char *conf_rows_cut(char *text, const char *separator)
{
    char *found = strstr(text, separator);
    if (found == NULL) {
        return NULL;
    }
    *found = '\0';
    return found + strlen(separator);
}

bool conf_rows_read(conf_rows_t *rows, const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return false;
    }
    const size_t size = fread(rows->text, 1, sizeof rows->text - 1, file);
    (void)fclose(file);
    rows->text[size] = '\0';
    rows->count = 0;
    char *line = conf_rows_cut(rows->text, "\n");
    while (line != NULL && *line != '\0' && rows->count < CONF_ROWS) {
        char *next_line = conf_rows_cut(line, "\n");
        const char *columns[CONF_ROW_COLUMNS] = {0};
        for (size_t i = 0; i < CONF_ROW_COLUMNS; i++) {
            if (line == NULL) {
                return false;
            }
            columns[i] = line;
            line = conf_rows_cut(line, "\t");
        }
        conf_row_t *row = &rows->rows[rows->count++];
        *row = (conf_row_t){columns[0], columns[1], columns[2], {0}};
        memcpy(row->columns, columns + 3, sizeof row->columns);
        line = next_line;
    }
    return rows->count > 0;
}

const char *conf_variables_lookup(void *context, const char *name)
{
    const conf_variables_t *variables = context;
    for (size_t i = 0; i < variables->count; i++) {
        if (strcmp(variables->entries[i].name, name) == 0) {
            return variables->entries[i].value;
        }
    }
    return NULL;
}

bool conf_same_bytes(const void *a, const void *b, size_t byte_count)
{
    return memcmp(a, b, byte_count) == 0;
}

/* The text that a cell of a table stands for. */
static void conf_row_text(const char *cell, char text[TEXT_BYTES])
{
    size_t used = 0;
    if (strcmp(cell, "(empty)") == 0) {
        cell = "";
    }
    while (*cell != '\0' && used + 1 < TEXT_BYTES) {
        const bool is_tab = cell[0] == '\\' && cell[1] == 't';
        text[used] = cell[0];
        if (is_tab) {
            text[used] = '\t';
        }
        used++;
        cell += is_tab ? 2 : 1;
    }
    text[used] = '\0';
}

static pleat_status_t conf_row_variables(char *text, pleat_conf_reading_t reading,
                                         pleat_conf_t *conf, pleat_conf_report_t *report)
{
    conf_variables_t variables = {0};
    while (text != NULL && variables.count < CONF_VARIABLES) {
        char *next = conf_rows_cut(text, "|");
        variables.entries[variables.count].name = text;
        variables.entries[variables.count].value = conf_rows_cut(text, "=");
        variables.count++;
        text = next;
    }
    return pleat_conf_read_variables(conf, reading, conf_variables_lookup, &variables, report);
}

pleat_status_t conf_row_run(const conf_row_t *row, pleat_conf_reading_t reading, pleat_conf_t *conf,
                            pleat_conf_report_t *report)
{
    char text[TEXT_BYTES];
    conf_row_text(row->string, text);
    if (strcmp(row->source, "vars") == 0) {
        return conf_row_variables(text, reading, conf, report);
    }
    const bool has_several =
        strcmp(row->source, "runtimes") == 0 || strcmp(row->source, "env+runtime") == 0;
    char *next = has_several ? conf_rows_cut(text, " | ") : NULL;
    char *part = text;
    pleat_status_t status = PLEAT_OK;
    if (strncmp(row->source, "env", 3) == 0) {
        static char name[] = "PYTORCH_CUDA_ALLOC_CONF";
        conf_variables_t variables = {.count = 1, .entries = {{name, part}}};
        status =
            pleat_conf_read_variables(conf, reading, conf_variables_lookup, &variables, report);
        if (status != PLEAT_OK) {
            return status; /* there is no allocator for the rest */
        }
        part = next;
        next = part != NULL ? conf_rows_cut(part, " | ") : NULL;
    }
    while (part != NULL) {
        status = pleat_conf_read(conf, reading, part, report);
        part = next;
        next = part != NULL ? conf_rows_cut(part, " | ") : NULL;
    }
    return status;
}
