/*
 * session_pool (internal to session_check): the calls of a session that are about private pools,
 * and the orders that PyTorch's hash tables decided, which stand below a call.
 */
#ifndef PLEAT_EXPERIMENTS_SESSION_POOL_H
#define PLEAT_EXPERIMENTS_SESSION_POOL_H

#include "session_run.h"

/**
 * Tell the engine the orders that @p call gives; without any it keeps its own again. Which of
 * several overflow pools PyTorch asks first is a hash table's order, too; that the address of an
 * allocation lies in one of them tells.
 * @retval PLEAT_ERR_OOM_HOST  no host memory.
 */
PLEAT_NODISCARD pleat_status_t pleat_session_pool_prepare(pleat_session_run_t *run,
                                                          const pleat_session_call_t *call);

/** The call is over: undo what was only for it. Errors are the engine's. */
PLEAT_NODISCARD pleat_status_t pleat_session_pool_finish(pleat_session_run_t *run);

/** Perform a call of POOL_CREATE to POOL_DELETE; its status is the engine's, or ERR_OOM_HOST. */
PLEAT_NODISCARD pleat_status_t pleat_session_pool_perform(pleat_session_run_t *run,
                                                          const pleat_session_call_t *call);

#endif
