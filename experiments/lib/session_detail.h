/*
 * session_detail: the lines of sessions and cases that begin with a blank and say what happened
 * during the call above, or what is expected after it; behind `end`, the end state.
 */
#ifndef PLEAT_EXPERIMENTS_SESSION_DETAIL_H
#define PLEAT_EXPERIMENTS_SESSION_DETAIL_H

#include "session_builder.h"

/** Take such a line; the scan stands at its start. PLEAT_ERR_FORMAT, PLEAT_ERR_OOM_HOST. */
PLEAT_NODISCARD pleat_status_t pleat_session_take_detail(pleat_session_builder_t *builder,
                                                         pleat_scan_t *scan);

#endif
