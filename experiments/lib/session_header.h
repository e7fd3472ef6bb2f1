/*
 * session_header: the header lines of sessions and cases: what was recorded, settings, device,
 * names of the statistics. They stand before the first call, each at most once.
 */
#ifndef PLEAT_EXPERIMENTS_SESSION_HEADER_H
#define PLEAT_EXPERIMENTS_SESSION_HEADER_H

#include "session_builder.h"

/* Is this the first word of a header line? */
bool pleat_session_is_header_word(pleat_text_t word);

/* Take a header line; the scan stands behind @p word. PLEAT_ERR_FORMAT, PLEAT_ERR_OOM_HOST. */
PLEAT_NODISCARD pleat_status_t pleat_session_take_header(pleat_session_builder_t *builder,
                                                         pleat_scan_t *scan, pleat_text_t word);

/* Check what only the whole header shows, and derive the limit from the fraction if it is not
 * given; when the first call comes. */
PLEAT_NODISCARD pleat_status_t pleat_session_end_header(pleat_session_builder_t *builder,
                                                        const pleat_scan_t *scan);

#endif
