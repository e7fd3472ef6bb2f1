/*
 * trace_convert: see trace_convert.h. The output is written under a temporary name in its folder
 * and renamed at the end.
 */
#include "trace_convert.h"

#include "output.h"
#include "trace_binary.h"
#include "trace_text.h"
#include "vmm/base.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE_EVENTS = 4096 };

typedef struct pleat_trace_format {
    const char *suffix;
    bool is_text;
    pleat_packing_t packing;
} pleat_trace_format_t;

static const pleat_trace_format_t format_table[] = {
    {".pleat", false, PLEAT_PACKING_NONE},    {".trace", true, PLEAT_PACKING_NONE},
    {".trace.gz", true, PLEAT_PACKING_GZIP},  {".trace.xz", true, PLEAT_PACKING_XZ},
    {".trace.zst", true, PLEAT_PACKING_ZSTD},
};

typedef struct pleat_trace_conversion {
    pleat_trace_reader_t *reader;
    pleat_output_t *output;
    pleat_trace_binary_writer_t *binary; /* NULL: text */
    uint64_t event_count;
} pleat_trace_conversion_t;

static const pleat_trace_format_t *pleat_trace_format_find(const char *path)
{
    const size_t length = strlen(path);
    for (size_t i = 0; i < sizeof(format_table) / sizeof(format_table[0]); i++) {
        const size_t suffix_length = strlen(format_table[i].suffix);
        if (length > suffix_length &&
            strcmp(path + length - suffix_length, format_table[i].suffix) == 0) {
            return &format_table[i];
        }
    }
    pleat_error_set("%s: the name must end in .pleat (compact form), .trace, .trace.gz, .trace.xz "
                    "or .trace.zst (text)",
                    path);
    return NULL;
}

static pleat_status_t pleat_trace_put_text(pleat_output_t *output,
                                           const pleat_trace_event_t *events, size_t count)
{
    char text[16 * PLEAT_TRACE_TEXT_LINE_BYTES];
    size_t length = 0;
    pleat_status_t status = PLEAT_OK;
    for (size_t i = 0; i < count && status == PLEAT_OK; i++) {
        length += pleat_trace_text_format(&events[i], text + length);
        if (length > sizeof(text) - PLEAT_TRACE_TEXT_LINE_BYTES || i + 1 == count) {
            status = pleat_output_write(output, text, length);
            length = 0;
        }
    }
    return status;
}

static pleat_status_t pleat_trace_put_binary(pleat_trace_binary_writer_t *writer,
                                             const pleat_trace_event_t *events, size_t count)
{
    pleat_status_t status = PLEAT_OK;
    for (size_t i = 0; i < count && status == PLEAT_OK; i++) {
        status = pleat_trace_binary_write(writer, &events[i]);
    }
    return status;
}

static pleat_status_t pleat_trace_convert_events(pleat_trace_conversion_t *conversion)
{
    pleat_trace_event_t events[PIECE_EVENTS];
    for (;;) {
        size_t count = 0;
        pleat_status_t status =
            pleat_trace_reader_next(conversion->reader, events, PIECE_EVENTS, &count);
        if (status != PLEAT_OK || count == 0) {
            return status;
        }
        status = conversion->binary != NULL
                     ? pleat_trace_put_binary(conversion->binary, events, count)
                     : pleat_trace_put_text(conversion->output, events, count);
        if (status != PLEAT_OK) {
            return status;
        }
        conversion->event_count += count;
    }
}

static pleat_status_t pleat_trace_convert_all(pleat_trace_conversion_t *conversion,
                                              const pleat_trace_format_t *format)
{
    pleat_status_t status = PLEAT_OK;
    if (format->is_text) {
        status = pleat_output_write(conversion->output, PLEAT_TRACE_TEXT_HEADER,
                                    strlen(PLEAT_TRACE_TEXT_HEADER));
    } else {
        status = pleat_trace_binary_writer_create(conversion->output, &conversion->binary);
    }
    if (status == PLEAT_OK) {
        status = pleat_trace_convert_events(conversion);
    }
    if (status == PLEAT_OK && conversion->binary != NULL) {
        status = pleat_trace_binary_finish(conversion->binary);
    }
    if (status == PLEAT_OK) {
        status = pleat_output_finish(conversion->output);
    }
    pleat_trace_binary_writer_destroy(conversion->binary);
    return status;
}

/* The file under its temporary name; NULL and the error text on failure. */
static FILE *pleat_temporary_open(char *temporary_path)
{
    const int descriptor = mkstemp(temporary_path);
    if (descriptor < 0) {
        pleat_error_set("%s: cannot create: %s", temporary_path, strerror(errno));
        return NULL;
    }
    /* mkstemp makes private files; the result is as readable as any other new file. */
    const mode_t mask = umask(0);
    (void)umask(mask);
    FILE *file = NULL;
    if (fchmod(descriptor, 0666 & ~mask) == 0) {
        file = fdopen(descriptor, "wb");
    }
    if (file == NULL) {
        pleat_error_set("%s: cannot write: %s", temporary_path, strerror(errno));
        (void)close(descriptor);
        (void)unlink(temporary_path);
    }
    return file;
}

static pleat_status_t pleat_trace_convert_to(pleat_trace_reader_t *reader, const char *out_path,
                                             const pleat_trace_format_t *format,
                                             uint64_t *event_count_out)
{
    char *temporary_path = NULL;
    if (asprintf(&temporary_path, "%s.XXXXXX", out_path) < 0) {
        pleat_error_set("%s: no memory to write it", out_path);
        return PLEAT_ERR_OOM_HOST;
    }
    FILE *file = pleat_temporary_open(temporary_path);
    if (file == NULL) {
        free(temporary_path);
        return PLEAT_ERR_IO;
    }
    pleat_trace_conversion_t conversion = {.reader = reader};
    pleat_status_t status =
        pleat_output_create(file, out_path, format->packing, &conversion.output);
    if (status == PLEAT_OK) {
        status = pleat_trace_convert_all(&conversion, format);
    }
    pleat_output_destroy(conversion.output);
    if ((fclose(file) != 0 || (status == PLEAT_OK && rename(temporary_path, out_path) != 0)) &&
        status == PLEAT_OK) {
        pleat_error_set("%s: cannot write: %s", out_path, strerror(errno));
        status = PLEAT_ERR_IO;
    }
    if (status != PLEAT_OK) {
        (void)unlink(temporary_path);
    } else if (event_count_out != NULL) {
        *event_count_out = conversion.event_count;
    }
    free(temporary_path);
    return status;
}

pleat_status_t pleat_trace_convert(const char *in_path, const char *out_path,
                                   const pleat_trace_set_options_t *options,
                                   uint64_t *event_count_out)
{
    const pleat_trace_format_t *format = pleat_trace_format_find(out_path);
    if (format == NULL) {
        return PLEAT_ERR_INVALID;
    }
    pleat_input_t *input = NULL;
    pleat_trace_reader_t *reader = NULL;
    pleat_status_t status = pleat_input_open(in_path, &input);
    if (status == PLEAT_OK) {
        status = pleat_trace_reader_create_set(input, options, &reader);
    }
    if (status == PLEAT_OK) {
        status = pleat_trace_convert_to(reader, out_path, format, event_count_out);
    }
    pleat_trace_reader_destroy(reader);
    pleat_input_close(input);
    return status;
}
