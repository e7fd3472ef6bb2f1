/*
 * history_ring (internal): the bounded ring of entries of a history. It grows with what it gets up
 * to its maximum and then overwrites. A maximum that is lowered drops nothing: the oldest entries,
 * as many as the new maximum, make room for new ones, and the others stay.
 *
 * Invariants:
 *   R1  next < max_count; next is 0 while count < max_count.
 *   R2  By age the entries are [next, count), [0, next); if has_old_tail, [max_count, count) comes
 *       before both.
 * Guarded by the lock of the owning history.
 */
#ifndef PLEAT_INTERNAL_HISTORY_RING_H
#define PLEAT_INTERNAL_HISTORY_RING_H

#include <pleat/history.h>

typedef struct pleat_history_ring {
    pleat_history_entry_t *entries;
    uint64_t count;
    uint64_t capacity;
    uint64_t next; /* to be overwritten once the ring is full */
    uint64_t max_count;
    uint64_t lost_count; /* overwritten, or without host memory */
    bool has_old_tail;
} pleat_history_ring_t;

void pleat_history_ring_init(pleat_history_ring_t *ring);
void pleat_history_ring_fini(pleat_history_ring_t *ring);

/* Make all entries as old as their index says, and set the maximum; 0 counts as 1. O(count). */
void pleat_history_ring_set_max(pleat_history_ring_t *ring, uint64_t max_count);

/*
 * Place for a new entry, which the caller fills; *is_old_out: the caller first drops the old entry
 * there. NULL: no host memory, counted as lost. Amortised constant.
 */
pleat_history_entry_t *pleat_history_ring_place(pleat_history_ring_t *ring, bool *is_old_out);

/* Forget all entries, whose tokens the caller has released; host memory goes too. */
void pleat_history_ring_clear(pleat_history_ring_t *ring);

/* Copy all entries to @p entries_out, which has room for count, oldest first. */
void pleat_history_ring_copy(const pleat_history_ring_t *ring, pleat_history_entry_t *entries_out);

#endif
