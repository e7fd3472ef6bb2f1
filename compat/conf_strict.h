/*
 * conf_strict (internal): Pleat's own reading of an ALLOC_CONF text (conf.h).
 */
#ifndef PLEAT_INTERNAL_CONF_STRICT_H
#define PLEAT_INTERNAL_CONF_STRICT_H

#include "conf.h"

/*
 * Read a text from a source; RUNTIME is the only one after the start. On failure the report says
 * where and why, and conf may have changed: the caller drops it. Adds warnings to the report.
 */
pleat_status_t pleat_conf_strict_read(pleat_conf_t *conf, pleat_conf_source_t source,
                                      const char *text, pleat_conf_report_t *report);

/* Append a warning, cut at the end of its buffer; dropped when all places are taken. */
void pleat_conf_warn(pleat_conf_report_t *report, const char *format, ...) PLEAT_PRINTF(2, 3);

#endif
