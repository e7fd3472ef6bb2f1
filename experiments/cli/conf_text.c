/*
 * conf_text: messages about ALLOC_CONF texts.
 */
#include "conf_text.h"
#include "command.h"
#include "report.h"

#include <stdio.h>
#include <string.h>

/* The column counts bytes; bytes that continue a UTF-8 character take no room on the screen. */
static void pleat_cli_conf_text_caret(const char *text, size_t column)
{
    bool has_colour = pleat_cli_has_colour(stderr);
    int indent = 0;

    (void)fputs("    ", stderr);
    for (size_t i = 0; text[i] != '\0'; i++) {
        unsigned char byte = (unsigned char)text[i];

        (void)fputc(byte < 0x20 || byte == 0x7f ? ' ' : byte, stderr);
        indent += i + 1 < column && (byte & 0xC0U) != 0x80U ? 1 : 0;
    }
    (void)fprintf(stderr, "\n    %*s%s^%s\n", indent, "", has_colour ? "\033[1;32m" : "",
                  has_colour ? "\033[0m" : "");
}

void pleat_cli_conf_text_report(const char *text, const pleat_conf_report_t *report)
{
    for (size_t i = 0; i < report->warning_count; i++) {
        pleat_cli_warn("%s", report->warnings[i]);
    }
    if (report->status == PLEAT_OK) {
        return;
    }
    (void)pleat_cli_error("%s", report->message);
    if (report->column > 0 && text && strlen(text) < 4096 && !strchr(text, '\n')) {
        pleat_cli_conf_text_caret(text, report->column);
    }
}

int pleat_cli_conf_text_read(const char *text, pleat_conf_t *conf)
{
    pleat_conf_report_t report = PLEAT_CONF_REPORT_INIT;
    pleat_status_t status = pleat_conf_read_start(conf, PLEAT_CONF_STRICT, text, &report);

    if (status != PLEAT_OK && report.message[0] == '\0') {
        return pleat_cli_error("%s", pleat_last_error());
    }
    pleat_cli_conf_text_report(text, &report);
    return status == PLEAT_OK ? PLEAT_CLI_EXIT_GOOD : PLEAT_CLI_EXIT_USAGE;
}
