/*
 * check (internal): what the parts of the check share: sums over the blocks, and complaints.
 * check.c numbers the invariants.
 */
#ifndef PLEAT_CHECK_H
#define PLEAT_CHECK_H

#include "allocator.h"

typedef struct pleat_check_sums {
    uint64_t reserved[PLEAT_STAT_KIND_COUNT];
    uint64_t segments[PLEAT_STAT_KIND_COUNT];
    uint64_t allocated[PLEAT_STAT_KIND_COUNT];
    uint64_t allocations[PLEAT_STAT_KIND_COUNT];
    uint64_t active_bytes[PLEAT_STAT_KIND_COUNT];
    uint64_t active[PLEAT_STAT_KIND_COUNT];
    uint64_t requested[PLEAT_STAT_KIND_COUNT];
    uint64_t split[PLEAT_STAT_KIND_COUNT];
    uint64_t split_bytes[PLEAT_STAT_KIND_COUNT];
    uint64_t free_count[PLEAT_STAT_KIND_COUNT];
    uint64_t private_free_count; /* free blocks of private pools' sets */
    uint64_t private_unmapped_count;
    uint64_t deferred_count;
    uint64_t unmapped_count;
    uint64_t pinned_bytes; /* free, and cannot go back */
    uint64_t mapping_count;
    uint64_t live_count;
    uint64_t event_count;
} pleat_check_sums_t;

/* Count for a kind of pool and for all. */
static inline void pleat_check_add(uint64_t *sums, pleat_stat_kind_t kind, uint64_t amount)
{
    sums[PLEAT_STAT_ALL] += amount;
    sums[kind] += amount;
}

/* Complain that a rule does not hold at a block. Returns false. */
bool pleat_check_refuse(const char *rule, const pleat_block_t *block, const char *what);

/* Is a sum what is reported? Complains if not. */
bool pleat_check_equal(const char *rule, const char *what, uint64_t counted, int64_t reported);

/* A6: queues and deferred frees. */
bool pleat_check_waiting(const pleat_waiting_t *waiting, const pleat_check_sums_t *sums);

/* L1-L3. */
bool pleat_check_pools(const pleat_allocator_t *allocator, const pleat_check_sums_t *sums);

/* H, P, V, L4; adds what arenas and views have to @p sums. */
bool pleat_check_pleated(const pleat_allocator_t *allocator, pleat_check_sums_t *sums);

#endif
