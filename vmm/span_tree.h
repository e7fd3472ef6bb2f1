/*
 * span_tree (internal): ordered sets of disjoint address spans [begin, begin + bytes), searchable
 * by address and by size. The simulated device keeps its live allocations in one, and its free
 * addresses in others (address_space.h).
 *
 * All trees of a device share one pool of nodes, so that a node which leaves one tree can enter
 * another: giving an address back never needs host memory. Only pleat_span_pool_reserve can fail.
 *
 * Invariants:
 *   T1  Spans of one tree do not overlap; they may touch.
 *   T2  A tree is ordered by begin, a heap by priority, and max_bytes is the largest span below.
 * No lock: guarded by the owner of the device.
 */
#ifndef PLEAT_SPAN_TREE_H
#define PLEAT_SPAN_TREE_H

#include "base.h"

typedef struct pleat_span {
    uint64_t begin;
    uint64_t bytes; /* never 0 */
} pleat_span_t;

typedef struct pleat_span_node pleat_span_node_t;

typedef struct pleat_span_pool {
    pleat_span_node_t *nodes; /* index 0 is no node */
    uint32_t capacity;
    uint32_t free_head;
    uint32_t free_count;
    uint64_t priority_state;
} pleat_span_pool_t;

typedef struct pleat_span_tree {
    uint32_t root; /* 0: empty */
    uint32_t count;
} pleat_span_tree_t;

/** Empty pool; @p pool is the caller's. */
void pleat_span_pool_init(pleat_span_pool_t *pool);

/** Free all nodes; every tree over the pool is void after that. */
void pleat_span_pool_fini(pleat_span_pool_t *pool);

/**
 * Make sure that @p count insertions will find a node. The only function here that can fail.
 * @retval PLEAT_ERR_OOM_HOST  no host memory; nothing changed.
 * @par Cost amortised constant.
 */
PLEAT_NODISCARD pleat_status_t pleat_span_pool_reserve(pleat_span_pool_t *pool, uint32_t count);

/** Insert a span that overlaps none of the tree (T1); a node must be reserved. O(log n). */
void pleat_span_insert(pleat_span_pool_t *pool, pleat_span_tree_t *tree, pleat_span_t span);

/** Remove the span that begins at @p begin; it must be there. O(log n). */
void pleat_span_remove(pleat_span_pool_t *pool, pleat_span_tree_t *tree, uint64_t begin);

/** The span with the greatest begin <= @p address; false when there is none. O(log n). */
bool pleat_span_find_at_or_below(const pleat_span_pool_t *pool, const pleat_span_tree_t *tree,
                                 uint64_t address, pleat_span_t *span_out);

/** The span with the least begin >= @p address; false when there is none. O(log n). */
bool pleat_span_find_at_or_above(const pleat_span_pool_t *pool, const pleat_span_tree_t *tree,
                                 uint64_t address, pleat_span_t *span_out);

/** The span at the lowest address that has @p bytes or more. O(log n). */
bool pleat_span_find_lowest_fit(const pleat_span_pool_t *pool, const pleat_span_tree_t *tree,
                                uint64_t bytes, pleat_span_t *span_out);

/** The span at the highest address that has @p bytes or more. O(log n). */
bool pleat_span_find_highest_fit(const pleat_span_pool_t *pool, const pleat_span_tree_t *tree,
                                 uint64_t bytes, pleat_span_t *span_out);

/** First span of the tree that overlaps @p span; false when none does. O(log n). */
bool pleat_span_find_overlap(const pleat_span_pool_t *pool, const pleat_span_tree_t *tree,
                             pleat_span_t span, pleat_span_t *span_out);

#endif
