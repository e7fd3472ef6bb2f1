/*
 * pleated_cost: the cost model of pleated mode in one place: how much memory to hold, how large to
 * make a handle, and what a placement is worth. Pure functions of sizes and options.
 *
 * Source: our own policy study (experiments/policy), on traces of real training loops.
 */
#ifndef PLEAT_PLEATED_COST_H
#define PLEAT_PLEATED_COST_H

#include <pleat/options.h>

#include "../vmm/base.h"

/*
 * Most bytes to hold from the device without trying to reuse what is there: a little more than was
 * ever in use at once, the request included, and never more than the limit. @p viewed_bytes were
 * mapped in new views since the peak rose, less what was forgotten: where views do not come to be
 * enough, memory is cheaper than ever more of them.
 */
uint64_t pleat_cost_hold_bytes(const pleat_options_t *options, uint64_t peak_bytes,
                               uint64_t viewed_bytes);

/* Of the bytes mapped in views, those that a request of @p bytes lets be forgotten: views so rare
 * cost nothing that counts. */
static inline uint64_t pleat_cost_forgotten_bytes(uint64_t bytes)
{
    return bytes / 2048;
}

/*
 * New memory to get where @p needed_bytes are needed: a whole handle while memory only grows, as
 * when a model is loaded, so that many small requests do not make many small handles; else no more
 * than needed. @p live_bytes counts the request.
 */
uint64_t pleat_cost_growth_bytes(const pleat_options_t *options, uint64_t needed_bytes,
                                 uint64_t live_bytes, uint64_t held_bytes, uint64_t peak_bytes,
                                 uint64_t granularity_bytes);

/* The same where more is held than the peak asks for: not in tiny steps. */
uint64_t pleat_cost_excess_bytes(const pleat_options_t *options, uint64_t needed_bytes,
                                 uint64_t held_bytes, uint64_t peak_bytes,
                                 uint64_t granularity_bytes);

/*
 * The same for the option of growth: what the factor asks for beyond what is held, in whole handles
 * of @p handle_bytes, at least what is needed, at most @p room_bytes, which is a multiple of the
 * granularity; 0: the factor asks for nothing, or there is no room.
 */
uint64_t pleat_cost_factor_bytes(const pleat_options_t *options, uint64_t needed_bytes,
                                 uint64_t held_bytes, uint64_t room_bytes, uint64_t handle_bytes);

/* Bytes of the handles for @p grow_bytes of new memory for a request of @p bytes: a fixed share of
 * the peak within the options' bounds, larger for a request that would need too many. */
uint64_t pleat_cost_handle_bytes(const pleat_options_t *options, uint64_t peak_bytes,
                                 uint64_t bytes, uint64_t granularity_bytes);

/* Cost of taking @p bytes in place: the bytes of wholly free handles that it breaks beyond those
 * that it needs. 0 is best. */
static inline uint64_t pleat_cost_hit(uint64_t bytes, uint64_t whole_bytes)
{
    return whole_bytes > bytes ? whole_bytes - bytes : 0;
}

/* A second range over existing handles. */
typedef struct pleat_cost_stitch {
    uint64_t bytes;         /* of the request */
    uint64_t map_count;     /* handles to map */
    uint64_t lost_bytes;    /* left over between live data */
    uint64_t whole_bytes;   /* of wholly free handles used */
    uint64_t partial_bytes; /* free ends and starts of handles in use, made useful */
} pleat_cost_stitch_t;

/* Cost of a stitch, to be compared with other stitches for the same request. */
double pleat_cost_of_stitch(const pleat_cost_stitch_t *stitch);

/* The same near the peak of live memory, where free ends must be used up before whole handles. */
double pleat_cost_of_tight_stitch(const pleat_cost_stitch_t *stitch);

/* Is live memory so near its peak that large requests should use up free ends first? Not where
 * that was done again and again: see pleat_cost_hold_bytes. */
bool pleat_cost_is_tight(uint64_t bytes, uint64_t live_bytes, uint64_t peak_bytes,
                         uint64_t viewed_bytes);

/* How many more bytes of free ends a stitch must use up than a placement that needs no mapping. */
uint64_t pleat_cost_tight_gain_bytes(uint64_t peak_bytes);

/* Plain growth is preferred to a stitch with new memory when that saves less than this. */
#define PLEAT_COST_EXCEED_FREE_BYTES (4 * PLEAT_MIB)

#endif
