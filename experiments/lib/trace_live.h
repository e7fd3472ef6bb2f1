/*
 * trace_live: the live allocations of a trace, newest first, so that the compact form can name the
 * one that is freed by its age instead of by address, size and stream. Programs free young blocks
 * far more often than old ones.
 *
 * The order and the limit of ages are part of the file format (trace_binary): a change here needs a
 * new version there.
 * Locks: none; its owner's.
 */
#ifndef PLEAT_EXPERIMENTS_TRACE_LIVE_H
#define PLEAT_EXPERIMENTS_TRACE_LIVE_H

#include "number_map.h"
#include "trace.h"

/* Ages from here on are not looked for: that bounds the time for one event. */
#define PLEAT_TRACE_LIVE_AGE_LIMIT 4096

typedef struct pleat_live_block {
    pleat_devptr_t address;
    uint64_t bytes;
    pleat_stream_t stream;
    uint32_t newer; /* PLEAT_NUMBER_MAP_NONE at the ends; chains unused entries, too */
    uint32_t older;
} pleat_live_block_t;

typedef struct pleat_trace_live {
    pleat_number_map_t by_address;
    pleat_live_block_t *blocks;
    uint32_t block_count; /* used or in the chain of unused ones */
    uint32_t capacity;
    uint32_t unused; /* first unused entry */
    uint32_t newest;
} pleat_trace_live_t;

void pleat_trace_live_init(pleat_trace_live_t *live);
void pleat_trace_live_fini(pleat_trace_live_t *live);

/* Note an allocation; an older one at the same address is forgotten. False: no host memory. */
PLEAT_NODISCARD bool pleat_trace_live_add(pleat_trace_live_t *live,
                                          const pleat_trace_event_t *event);

/* How many live allocations are newer than the one at the event's address. False if there is none
 * with exactly its bytes and stream, or if it is too old. */
bool pleat_trace_live_age(const pleat_trace_live_t *live, const pleat_trace_event_t *event,
                          uint64_t *age_out);

/* The allocation of an age; NULL if there are not so many. */
const pleat_live_block_t *pleat_trace_live_at(const pleat_trace_live_t *live, uint64_t age);

/* Forget the allocation at an address, if there is one. */
void pleat_trace_live_remove(pleat_trace_live_t *live, pleat_devptr_t address);

#endif
