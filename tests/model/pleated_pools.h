/*
 * pleated_pools: private pools in pleated_model's programs: which are there, where a request must
 * go, and what must hold:
 *
 * - calls about pools fail exactly when they have to;
 * - a request gets memory of the pool that takes it, and no chunk serves two pools at once;
 * - while requests are redirected no call asks the device about events, and none waits in pleated
 *   mode;
 * - in pleated mode nothing that a pool holds goes as long as it has a use;
 * - in every mode memory that a pool handed out stays where it is as long as the pool has a use,
 * and serves no other one, freed or not: a captured graph works there. Only in PyTorch's modes a
 * free oversize segment may go.
 *
 * A slot stands for one pool after the other: when the last use of one is gone, the slot is free
 * for a new one.
 */
#ifndef PLEAT_TEST_PLEATED_POOLS_H
#define PLEAT_TEST_PLEATED_POOLS_H

#include "physical_map.h"
#include "pleated_program.h"

#include <pleat/private_pool.h>

typedef struct pleated_pool {
    pleat_pool_id_t id; /* (0, 0): none */
    uint64_t uses;
    bool is_open;
    bool is_overflow;
    bool is_whole;         /* segments are not split */
    pleat_stream_t stream; /* that its redirection takes; PLEATED_STREAMS_MAX: all */
    uint64_t held_bytes;   /* at the last look */
    uint64_t view_count;
} pleated_pool_t;

typedef struct pleated_pools {
    pleated_pool_t slots[PLEATED_POOLS_MAX];
    unsigned open[PLEATED_POOLS_MAX]; /* slots, in the order of opening */
    unsigned open_count;
    uint64_t id_count;
    pleat_allocator_t *allocator;
    pleat_vmm_t *sim;
    physical_map_t *memory;
    bool keeps_plain;                         /* plain memory of pools with uses stays */
    uint64_t event_calls;                     /* of the device before a call */
    pleat_pool_id_t id_of[PLEATED_CALLS_MAX]; /* by id of the allocation */
    char complaint[256];                      /* the first thing wrong; empty: nothing */
} pleated_pools_t;

void pleated_pools_init(pleated_pools_t *pools, pleat_allocator_t *allocator, pleat_vmm_t *sim,
                        physical_map_t *memory);

/* Before a call with options: what must stay under them. */
void pleated_pools_note_options(pleated_pools_t *pools, const pleat_options_t *options);

/* Make a call about pools. Returns how it ended: an error only if the device may have failed. */
pleat_status_t pleated_pools_call(pleated_pools_t *pools, const pleated_call_t *call);

static inline bool pleated_pools_are_redirecting(const pleated_pools_t *pools)
{
    return pools->open_count > 0;
}

/* Is memory kept for a pool, in whole segments or by its uses? */
bool pleated_pools_keep_memory(const pleated_pools_t *pools);

/* Would a request on @p stream get a whole segment, and so perhaps more than it needs? */
bool pleated_pools_take_whole(const pleated_pools_t *pools, pleat_stream_t stream);

/* Around a call of the allocator: no event while requests are redirected. */
void pleated_pools_before_call(pleated_pools_t *pools);
void pleated_pools_after_call(pleated_pools_t *pools);

/* A request was served: was it by the right pool, and no chunk of another one? */
void pleated_pools_check_request(pleated_pools_t *pools, const pleated_call_t *call,
                                 pleat_devptr_t address);

/* Their memory may go: the allocator is about to end. */
void pleated_pools_let_go(pleated_pools_t *pools);

/* What pools hold is still there. */
void pleated_pools_check(pleated_pools_t *pools);

#endif
