/*
 * session_call: the lines of sessions and cases that are calls.
 */
#ifndef PLEAT_EXPERIMENTS_SESSION_CALL_H
#define PLEAT_EXPERIMENTS_SESSION_CALL_H

#include "session_builder.h"

/**
 * Take the line of a call; the scan stands behind its first word. Ids must be live or not, as the
 * call needs it; pools must have been created.
 * @retval PLEAT_ERR_FORMAT, PLEAT_ERR_OOM_HOST
 */
PLEAT_NODISCARD pleat_status_t pleat_session_take_call(pleat_session_builder_t *builder,
                                                       pleat_scan_t *scan, pleat_text_t word);

#endif
