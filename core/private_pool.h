/*
 * private_pool (internal): the private pools of an allocator, and which requests go to them.
 *
 * A private pool has a small and a large pool of its own. Its blocks never meet others: segments,
 * ranges and arenas belong to one owner, free blocks merge inside them, and a block goes back to
 * its pool whatever the redirections are when it is freed. What the device holds for the pool is
 * counted (holding_count), so that a pool without uses ends when nothing is left: PyTorch counts
 * requests and unmappings instead, which do not balance for its expandable segments.
 *
 * Invariants (check.c): L1 pools rise by id; L2 holding_count is the number of plain segments,
 * ranges and arenas of the pool; L3 each redirection leads to a pool of the list, no two to the
 * same, and pins count the redirections at least.
 * Guarded by the lock of the owning allocator.
 */
#ifndef PLEAT_PRIVATE_POOL_INTERNAL_H
#define PLEAT_PRIVATE_POOL_INTERNAL_H

#include <pleat/private_pool.h>
#include <stdatomic.h>

#include "backing.h"
#include "pool.h"

struct pleat_private_pool {
    pleat_private_pool_t *next; /* all, rising by id */
    pleat_pool_id_t id;
    uint64_t serial; /* tells it from a pool of the same id that ended before */
    pleat_pool_t large;
    pleat_pool_t small;
    uint64_t use_count;     /* 0: freeable */
    uint64_t holding_count; /* plain segments, ranges and arenas */
    uint64_t pin_count;     /* redirections, and requests without the lock: it may not end */
    bool is_overflow;
    pleat_segment_source_t source; /* alloc is NULL: the device */
};

typedef struct pleat_redirection {
    pleat_private_pool_t *pool;
    pleat_pool_filter_fn_t filter;
    void *filter_context;
} pleat_redirection_t;

typedef struct pleat_private_pools {
    pleat_private_pool_t *first;
    pleat_redirection_t *redirections; /* in the order of their opening */
    atomic_size_t redirection_count;   /* written under the lock */
    size_t redirection_capacity;
    uint64_t next_serial;
    pleat_pool_id_t *freeable_order; /* to be emptied first the next time, in this order */
    size_t freeable_order_count;
} pleat_private_pools_t;

static inline bool pleat_private_pools_are_redirecting(const pleat_private_pools_t *pools)
{
    return atomic_load_explicit(&pools->redirection_count, memory_order_relaxed) != 0;
}

/* The pool of an id, NULL if there is none. */
pleat_private_pool_t *pleat_private_pool_find(const pleat_private_pools_t *pools,
                                              pleat_pool_id_t id);

/* Let @p request go to the private pool that an open redirection leads it to, if one does. */
void pleat_private_pool_redirect(const pleat_allocator_t *allocator, pleat_request_t *request);

/* Let @p request, whose bytes are set, go to @p pool. */
void pleat_private_pool_direct(const pleat_allocator_t *allocator, pleat_private_pool_t *pool,
                               pleat_request_t *request);

/* Is memory of the pool plain memory whatever the mode: from a source of its own, or, in pleated
 * mode, handed out in whole segments? */
bool pleat_private_pool_is_plain(const pleat_allocator_t *allocator,
                                 const pleat_private_pool_t *pool);

/* The device holds something more, or less, for the owner of a pool; NULL is ignored. */
static inline void pleat_private_pool_hold(pleat_private_pool_t *owner)
{
    if (owner != NULL) {
        owner->holding_count++;
    }
}

static inline void pleat_private_pool_let_go(pleat_private_pool_t *owner)
{
    if (owner != NULL) {
        PLEAT_ASSERT(owner->holding_count > 0);
        owner->holding_count--;
    }
}

/* A pool may not end as long as it is pinned; NULL is ignored. */
static inline void pleat_private_pool_pin(pleat_private_pool_t *owner)
{
    if (owner != NULL) {
        owner->pin_count++;
    }
}

static inline void pleat_private_pool_unpin(pleat_private_pool_t *owner)
{
    if (owner != NULL) {
        PLEAT_ASSERT(owner->pin_count > 0);
        owner->pin_count--;
    }
}

/* End a pool without uses, pins and memory. */
void pleat_private_pool_end(pleat_private_pools_t *pools, pleat_private_pool_t *pool);

/* Sum of the free blocks of all private pools. O(free blocks). */
uint64_t pleat_private_pools_free_bytes(pleat_allocator_t *allocator);

/* Close all redirections; the allocator is being destroyed. */
void pleat_private_pools_close(pleat_private_pools_t *pools);

/* End all pools, whatever their uses; no redirection is open, and their memory is gone. */
void pleat_private_pools_fini(pleat_private_pools_t *pools);

#endif
