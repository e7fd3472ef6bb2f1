/*
 * trace_placement: guesses where the next allocation of a trace lies, so that the compact form need
 * not store its address. It follows the recorded segments and blocks with the rules of PyTorch's
 * default mode (best fit by size, then address, inside one stream's small or large segments). In a
 * trace of that mode nearly every guess is right; in others fewer are, and the form stays exact
 * all the same.
 *
 * The rules are frozen: they are part of the file format (trace_binary), which is why this is not
 * the engine in core. A change needs a new version there.
 * Locks: none; its owner's.
 */
#ifndef PLEAT_EXPERIMENTS_TRACE_PLACEMENT_H
#define PLEAT_EXPERIMENTS_TRACE_PLACEMENT_H

#include "number_map.h"
#include "trace.h"

typedef struct pleat_placement_region pleat_placement_region_t;
typedef struct pleat_placement_pool pleat_placement_pool_t;

typedef struct pleat_trace_placement {
    pleat_number_map_t by_address; /* every region, free or not */
    pleat_placement_region_t *regions;
    uint32_t region_count;
    uint32_t region_capacity;
    uint32_t unused; /* chain of unused regions */
    pleat_placement_pool_t *pools;
    uint32_t pool_count;
} pleat_trace_placement_t;

void pleat_trace_placement_init(pleat_trace_placement_t *placement);
void pleat_trace_placement_fini(pleat_trace_placement_t *placement);

/* Guess the address of an allocation; 0: no guess. O(log free regions). */
pleat_devptr_t pleat_trace_placement_guess(const pleat_trace_placement_t *placement, uint64_t bytes,
                                           pleat_stream_t stream);

/* Learn from an event. False: no host memory. */
PLEAT_NODISCARD bool pleat_trace_placement_learn(pleat_trace_placement_t *placement,
                                                 const pleat_trace_event_t *event);

#endif
