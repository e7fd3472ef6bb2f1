/*
 * deferred: frees that are put off. While requests are redirected to a private pool a stream may be
 * capturing, and an event that is recorded would become a part of the graph: the free of a block
 * that other streams used ends only later. Until then the block waits without an event and keeps
 * its uses.
 *
 * When a free is resolved, uses that were recorded while requests were redirected are dropped in
 * the modes of PyTorch: they were part of a capture, or of work that the end of the redirection is
 * ordered behind. The others get their events, and without any the free is complete. In pleated
 * mode all get them: what another thread recorded meanwhile may be work that nobody waits for.
 *
 * Frees may end earlier, inside a capture: capture_order.h.
 *
 * Source: PyTorch 2.11's allocator, but for one flaw: there the note that a use was recorded during
 * a capture outlives its block, and may drop uses of another one.
 * Guarded by the lock of the owning allocator.
 */
#ifndef PLEAT_DEFERRED_H
#define PLEAT_DEFERRED_H

#include "waiting.h"

/* Put off the free of a block that has uses and no pending events. Constant. */
void pleat_deferred_add(pleat_waiting_t *waiting, pleat_block_t *block);

/* Resolve all: record events and queue them, or call @p done. The device's error if an event cannot
 * be recorded: that free and those behind it stay put off. One event record a use. */
PLEAT_NODISCARD pleat_status_t pleat_deferred_resolve(pleat_waiting_t *waiting,
                                                      pleat_wait_done_fn_t done, void *context);

/* End the free of a deferred block: its uses are dropped. For what is ordered behind them. O(frees
 * that are put off). */
void pleat_deferred_end(pleat_waiting_t *waiting, pleat_block_t *block);

/* Visit what a resolution would queue, in its order: a free once for each stream that it would wait
 * for. Returns how many would be complete at once. One event record and one query a visit. */
size_t pleat_deferred_visit(const pleat_waiting_t *waiting, pleat_waiting_visit_fn_t visit,
                            void *context);

/* The next resolution ends the frees of @p addresses first and in this order, the others behind
 * them in the order of the frees. ERR_OOM_HOST: nothing changed. */
PLEAT_NODISCARD pleat_status_t pleat_deferred_set_order(pleat_deferred_t *deferred,
                                                        const pleat_devptr_t *addresses,
                                                        size_t count);

/* The next resolution drops all uses of the blocks at @p addresses. As above. */
PLEAT_NODISCARD pleat_status_t pleat_deferred_set_stale(pleat_deferred_t *deferred,
                                                        const pleat_devptr_t *addresses,
                                                        size_t count);

/* Forget all of them; for destruction only. */
void pleat_deferred_abandon(pleat_waiting_t *waiting);

/* Free the orders. */
void pleat_deferred_fini(pleat_deferred_t *deferred);

#endif
