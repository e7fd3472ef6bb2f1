/*
 * conf_text: ALLOC_CONF texts on the command line: reading them with messages that point at the
 * column, for `pleat conf` and for every command with --conf.
 */
#ifndef PLEAT_CLI_CONF_TEXT_H
#define PLEAT_CLI_CONF_TEXT_H

#include <pleat/conf.h>

/** Report the error and the warnings of a reading; the text is shown with a caret below it. */
void pleat_cli_conf_text_report(const char *text, const pleat_conf_report_t *report);

/**
 * Read @p text strictly, as given before the start, into @p conf (set up by PLEAT_CONF_INIT).
 * @return 0, or an exit status after a message.
 */
int pleat_cli_conf_text_read(const char *text, pleat_conf_t *conf);

#endif
