/*
 * snapshot_skipped: the half of each free that a recording left out. PyTorch can be told not to
 * record some actions (skip_actions of _record_memory_history); without free_requested, or without
 * free_completed, a history does not tell when blocks end, but the other half does: a free is
 * requested and completed at one moment then.
 *
 * That a half was left out is known if a history has none of it and shows that there were some: a
 * block is completed that was live, or an address is handed out again that was requested back.
 */
#ifndef PLEAT_EXPERIMENTS_SNAPSHOT_SKIPPED_H
#define PLEAT_EXPERIMENTS_SNAPSHOT_SKIPPED_H

#include <pleat/torch_snapshot.h>

typedef struct pleat_snapshot_skipped {
    pleat_torch_entry_t *entries; /* of the history from now on, to be freed; NULL: its own */
    uint64_t count;               /* entries that were put in */
    pleat_action_t action;        /* of these; valid if there are some */
} pleat_snapshot_skipped_t;

/**
 * Put the half of its frees that was left out into a history, beside the other half.
 *
 * @param history           its entries are replaced, if something was left out.
 * @param[out] skipped_out  untouched on failure.
 * @retval PLEAT_ERR_OOM_HOST  no host memory; nothing changed.
 * @par Cost linear in the entries.
 */
PLEAT_NODISCARD pleat_status_t pleat_snapshot_skipped_fill(pleat_torch_history_t *history,
                                                           pleat_snapshot_skipped_t *skipped_out);

#endif
