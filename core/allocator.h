/*
 * allocator (internal): the state that the modules of the engine share.
 *
 * Neighbours: serve (a request's way), retire (a free's way), reclaim (giving memory back),
 * backing_* (the device side of a mode), check (invariants).
 */
#ifndef PLEAT_ALLOCATOR_INTERNAL_H
#define PLEAT_ALLOCATOR_INTERNAL_H

#include <pleat/allocator.h>

#include "address_map.h"
#include "backing.h"
#include "lock.h"
#include "options.h"
#include "pleated_place.h"
#include "pool.h"
#include "private_pool.h"
#include "share.h"
#include "size_class.h"
#include "stats.h"
#include "waiting.h"

struct pleat_allocator {
    pleat_lock_t lock; /* guards everything below */
    pleat_vmm_t *vmm;
    const pleat_backing_ops_t *backing;
    pleat_options_t options;
    pleat_stats_t stats;
    uint64_t held_bytes;  /* obtained from the device; what the limit is tested with */
    uint64_t asked_bytes; /* of them: asked for by requests without the lock, not yet there */
    pleat_pool_t large_pool;
    pleat_pool_t small_pool;
    pleat_range_t *ranges; /* all of torch_expandable */
    pleat_arena_t *arenas; /* all of pleated mode, in the order of their making; so its views */
    pleat_view_t *views;
    pleat_stitch_plan_t plan;
    pleat_fence_t *spare_fences; /* each with an event */
    size_t spare_fence_count;
    pleat_fence_t *spare_records; /* without */
    size_t spare_record_count;
    uint64_t view_mappings;
    uint64_t granularity_bytes; /* of the device; 0 without virtual memory */
    uint64_t live_peak_bytes;   /* most bytes in use at once, in pleated mode */
    uint64_t viewed_bytes;      /* mapped in new views since the peak rose */
    uint64_t request_count;     /* in pleated mode */
    uint64_t now_ns;            /* at the last request, in pleated mode */
    uint64_t next_idle_ns;      /* when to look for idle handles again */
    pleat_block_store_t blocks;
    pleat_address_map_t live;
    pleat_waiting_t waiting;
    pleat_observer_fn_t observer;
    void *observer_context;
    uint64_t number; /* of all allocators of the process, by their making */
    pleat_oom_info_t last_oom;
    pleat_private_pools_t private_pools;
    pleat_free_memory_fn_t free_memory; /* NULL: none */
    void *free_memory_context;
    pleat_opened_t *opened;               /* memory of other processes */
    uint64_t peers[PLEAT_PEERS_MAX / 64]; /* devices that were enabled, by bit */
};

/* The small or large pool of a private pool, or with NULL that of everybody. */
static inline pleat_pool_t *pleat_allocator_pool(pleat_allocator_t *allocator,
                                                 pleat_private_pool_t *owner, bool is_small)
{
    if (owner == NULL) {
        return is_small ? &allocator->small_pool : &allocator->large_pool;
    }
    return is_small ? &owner->small : &owner->large;
}

/* Is a redirection to a private pool open? Then no event is recorded, queried or waited for, and no
 * memory is flushed for a retry. */
static inline bool pleat_allocator_is_redirecting(const pleat_allocator_t *allocator)
{
    return pleat_private_pools_are_redirecting(&allocator->private_pools);
}

/* Tell the observer, if there is one. */
static inline void pleat_allocator_trace(const pleat_allocator_t *allocator, pleat_action_t action,
                                         pleat_devptr_t address, uint64_t bytes,
                                         pleat_stream_t stream)
{
    if (__builtin_expect(allocator->observer != NULL, 0)) {
        const pleat_trace_entry_t entry = {.size = sizeof(entry),
                                           .action = action,
                                           .stream = stream,
                                           .address = address,
                                           .bytes = bytes};
        allocator->observer(allocator->observer_context, &entry);
    }
}

/* What shall be read in the same moment as @p snapshot; its failure fails the snapshot. */
typedef pleat_status_t (*pleat_snapshot_visit_fn_t)(void *context,
                                                    const pleat_snapshot_t *snapshot);

/* As pleat_snapshot_take, which says what it fails with; calls @p visit, if not NULL, before the
 * lock is given up. */
PLEAT_NODISCARD pleat_status_t pleat_snapshot_take_and(pleat_allocator_t *allocator,
                                                       pleat_snapshot_visit_fn_t visit,
                                                       void *context,
                                                       pleat_snapshot_t **snapshot_out);

/*
 * For replays: the counters in place, without the lock. The pointer stays valid and the values
 * change with every call.
 */
const pleat_stats_t *pleat_allocator_stats(const pleat_allocator_t *allocator);

/*
 * For replays of a recording whose queue order is known: the waiting frees of @p streams are looked
 * at first and in this order, those of all other streams behind them in rising order of handles.
 * ERR_OOM_HOST: nothing changed. Takes the lock.
 */
PLEAT_NODISCARD pleat_status_t pleat_allocator_set_stream_order(pleat_allocator_t *allocator,
                                                                const pleat_stream_t *streams,
                                                                size_t count);

/*
 * For replays of a recording that knows the orders of hash tables. The next resolution of deferred
 * frees (deferred.h) ends those at @p addresses first and in this order, the others behind them in
 * the order of the frees; and it drops all uses of the blocks of set_stale, so that these frees are
 * complete at once. The next time that freeable pools give memory back those of @p ids are first
 * and in this order, the others follow in rising order of ids. Each order is forgotten after that
 * one time; count 0 forgets it at once. ERR_OOM_HOST: nothing changed. They take the lock.
 */
PLEAT_NODISCARD pleat_status_t pleat_allocator_set_deferred_order(pleat_allocator_t *allocator,
                                                                  const pleat_devptr_t *addresses,
                                                                  size_t count);
PLEAT_NODISCARD pleat_status_t pleat_allocator_set_stale(pleat_allocator_t *allocator,
                                                         const pleat_devptr_t *addresses,
                                                         size_t count);
PLEAT_NODISCARD pleat_status_t pleat_allocator_set_freeable_order(pleat_allocator_t *allocator,
                                                                  const pleat_pool_id_t *ids,
                                                                  size_t count);

/* Visit the waiting frees: queues in rising order of stream, each from front to back. A free that
 * waits for several streams is visited once in the queue of each. Takes the lock; one event query
 * a visit. */
void pleat_allocator_visit_waiting(pleat_allocator_t *allocator, pleat_waiting_visit_fn_t visit,
                                   void *context);

/* Visit the deferred frees as if they were queued now, in the order of their resolution. Returns
 * how many would be complete at once, and are not visited. Takes the lock; one event record and one
 * query a visit. */
size_t pleat_allocator_visit_deferred(pleat_allocator_t *allocator, pleat_waiting_visit_fn_t visit,
                                      void *context);

/* Would a free block serve a request of @p bytes on @p stream now? Changes nothing. Takes the
 * lock. */
bool pleat_allocator_can_hit(pleat_allocator_t *allocator, uint64_t bytes, pleat_stream_t stream);

#endif
