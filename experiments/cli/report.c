/*
 * report: messages on standard error, and the end of standard output.
 */
#include "report.h"
#include "command.h"

#include "compat/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *pleat_cli_report_command;
static char **pleat_cli_report_argv;
static int pleat_cli_report_argc;

void pleat_cli_report_set_command(const char *name)
{
    pleat_cli_report_command = name;
}

void pleat_cli_report_set_call(int argc, char **argv)
{
    /* A copy, because reading the options moves the operands behind them. */
    pleat_cli_report_argv = calloc((size_t)argc + 1, sizeof(*argv));
    if (pleat_cli_report_argv) {
        memcpy(pleat_cli_report_argv, argv, (size_t)argc * sizeof(*argv));
        pleat_cli_report_argc = argc;
    }
}

void pleat_cli_write_call(FILE *stream)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_-./:,=+%@";

    (void)fputs("pleat", stream);
    for (int i = 1; i < pleat_cli_report_argc; i++) {
        const char *word = pleat_cli_report_argv[i];

        (void)fputc(' ', stream);
        if (word[0] != '\0' && word[strspn(word, plain)] == '\0') {
            (void)fputs(word, stream);
            continue;
        }
        (void)fputc('\'', stream);
        for (; *word; word++) {
            if (*word == '\'') {
                (void)fputs("'\\''", stream);
            } else {
                (void)fputc(*word == '\n' ? ' ' : *word, stream);
            }
        }
        (void)fputc('\'', stream);
    }
}

static void pleat_cli_report(const char *kind, const char *colour, const char *format, va_list args)
    PLEAT_PRINTF(3, 0);

static void pleat_cli_report(const char *kind, const char *colour, const char *format, va_list args)
{
    bool has_colour = pleat_cli_has_colour(stderr);

    (void)fflush(stdout); /* keeps the order where both go to one place */
    (void)fprintf(stderr, "pleat%s%s: %s%s:%s ", pleat_cli_report_command ? " " : "",
                  pleat_cli_report_command ? pleat_cli_report_command : "",
                  has_colour ? colour : "", kind, has_colour ? "\033[0m" : "");
    (void)vfprintf(stderr, format, args);
    (void)fputc('\n', stderr);
}

int pleat_cli_error(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    pleat_cli_report("error", "\033[1;31m", format, args);
    va_end(args);
    return PLEAT_CLI_EXIT_USAGE;
}

void pleat_cli_warn(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    pleat_cli_report("warning", "\033[1;33m", format, args);
    va_end(args);
}

void pleat_cli_hint(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vfprintf(stderr, format, args);
    va_end(args);
    (void)fputc('\n', stderr);
}

void pleat_cli_report_fini(void)
{
    free(pleat_cli_report_argv);
    pleat_cli_report_argv = NULL;
    pleat_cli_report_argc = 0;
}

bool pleat_cli_has_colour(FILE *stream)
{
    const char *no_color = getenv("NO_COLOR");
    const char *terminal = getenv("TERM");

    if ((no_color && *no_color) || !terminal || strcmp(terminal, "dumb") == 0) {
        return false;
    }
    return isatty(fileno(stream)) == 1;
}

size_t pleat_cli_escape(const char *text, char *buffer, size_t buffer_bytes)
{
    pleat_text_t escaped = pleat_text_begin(buffer, buffer_bytes);
    const size_t text_bytes = strlen(text);

    for (size_t i = 0; i < text_bytes;) {
        const size_t length = pleat_text_sequence((const unsigned char *)text + i, text_bytes - i);

        if (length == 0) {
            pleat_text_append(&escaped, "\\x%02x", (unsigned char)text[i]);
        } else {
            pleat_text_append(&escaped, "%.*s", (int)length, text + i);
        }
        i += length > 0 ? length : 1;
    }
    return escaped.length;
}

int pleat_cli_finish_output(int exit_status)
{
    bool had_error = ferror(stdout) != 0;

    errno = 0;
    if (fflush(stdout) == 0 && !had_error) {
        return exit_status;
    }
    if (errno == EPIPE) { /* the reader has seen enough, as `head` does */
        return exit_status;
    }
    return pleat_cli_error("standard output was not written in full: %s",
                           errno ? strerror(errno) : "an earlier write failed");
}
