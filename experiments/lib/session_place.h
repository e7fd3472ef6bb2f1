/*
 * session_place: where the address ranges of a recording with expandable segments begin. A range
 * belongs to one stream, kind of block and private pool, and is mapped from its start on; so what a
 * call's own lines do not tell is the first ` segment_map` of a later request of the same three.
 * Locks: none.
 */
#ifndef PLEAT_EXPERIMENTS_SESSION_PLACE_H
#define PLEAT_EXPERIMENTS_SESSION_PLACE_H

#include "session.h"

/**
 * Private pool that each request of a session goes to: of the open redirections the newest.
 *
 * @param[out] pools_out  call_count numbers, 0 for none and for calls that are no requests; freed
 *                        by the caller.
 * @retval PLEAT_ERR_OOM_HOST  no host memory.
 * @par Cost O(calls × open redirections).
 */
PLEAT_NODISCARD pleat_status_t pleat_session_request_pools(const pleat_session_t *session,
                                                           uint64_t **pools_out);

/**
 * Where a range begins that a call reserves but does not map.
 *
 * @param pools            as pleat_session_request_pools gives them.
 * @param[out] places_out  call_count addresses, 0: no later request tells; freed by the caller.
 * @retval PLEAT_ERR_OOM_HOST  no host memory.
 * @par Cost O(calls × ranges of different stream, kind and pool).
 */
PLEAT_NODISCARD pleat_status_t pleat_session_places(const pleat_session_t *session,
                                                    const uint64_t *pools,
                                                    pleat_devptr_t **places_out);

#endif
