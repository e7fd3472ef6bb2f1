/*
 * snapshot_skipped: see snapshot_skipped.h.
 */
#include "snapshot_skipped.h"

#include "number_map.h"

#include <stdlib.h>

static uint64_t skipped_count(const pleat_torch_history_t *history, pleat_action_t action)
{
    uint64_t count = 0;
    for (uint64_t i = 0; i < history->entry_count; i++) {
        count += history->entries[i].action == action ? 1 : 0;
    }
    return count;
}

/* Does an entry, behind the last one of its address, show that @p half is missing between them? */
static bool skipped_shows(pleat_action_t action, uint32_t last, pleat_action_t half)
{
    return half == PLEAT_ACTION_FREE_REQUESTED
               ? action == PLEAT_ACTION_FREE_COMPLETED && last == PLEAT_ACTION_ALLOC
               : action == PLEAT_ACTION_ALLOC && last == PLEAT_ACTION_FREE_REQUESTED;
}

static pleat_status_t skipped_prove(const pleat_torch_history_t *history, pleat_action_t half,
                                    bool *is_proved_out)
{
    pleat_number_map_t last_actions = {.slots = NULL};
    pleat_status_t status = PLEAT_OK;
    *is_proved_out = false;
    for (uint64_t i = 0; i < history->entry_count && status == PLEAT_OK && !*is_proved_out; i++) {
        const pleat_torch_entry_t *entry = &history->entries[i];
        if (entry->action != PLEAT_ACTION_ALLOC && entry->action != PLEAT_ACTION_FREE_REQUESTED &&
            entry->action != PLEAT_ACTION_FREE_COMPLETED) {
            continue;
        }
        const uint32_t last = pleat_number_map_find(&last_actions, entry->address);
        *is_proved_out = skipped_shows(entry->action, last, half);
        if (!pleat_number_map_set(&last_actions, entry->address, (uint32_t)entry->action)) {
            status = PLEAT_ERR_OOM_HOST;
        }
    }
    pleat_number_map_fini(&last_actions);
    return status;
}

/* @param other  the half that is there; each entry of it becomes two. */
static void skipped_copy(const pleat_torch_history_t *history, pleat_action_t other,
                         pleat_torch_entry_t *entries)
{
    uint64_t count = 0;
    for (uint64_t i = 0; i < history->entry_count; i++) {
        entries[count++] = history->entries[i];
        if (history->entries[i].action == other) {
            entries[count++] = history->entries[i];
            entries[count - 2].action = PLEAT_ACTION_FREE_REQUESTED;
            entries[count - 1].action = PLEAT_ACTION_FREE_COMPLETED;
        }
    }
}

pleat_status_t pleat_snapshot_skipped_fill(pleat_torch_history_t *history,
                                           pleat_snapshot_skipped_t *skipped_out)
{
    const uint64_t requested = skipped_count(history, PLEAT_ACTION_FREE_REQUESTED);
    const uint64_t completed = skipped_count(history, PLEAT_ACTION_FREE_COMPLETED);
    const uint64_t added = requested + completed; /* one of them is 0 */
    const pleat_action_t half =
        requested == 0 ? PLEAT_ACTION_FREE_REQUESTED : PLEAT_ACTION_FREE_COMPLETED;
    const pleat_action_t other =
        requested == 0 ? PLEAT_ACTION_FREE_COMPLETED : PLEAT_ACTION_FREE_REQUESTED;
    bool is_proved = false;
    pleat_status_t status = PLEAT_OK;
    if ((requested == 0) != (completed == 0)) {
        status = skipped_prove(history, half, &is_proved);
    }
    if (status != PLEAT_OK) {
        return status;
    }
    if (!is_proved) {
        *skipped_out = (pleat_snapshot_skipped_t){.count = 0};
        return PLEAT_OK;
    }
    pleat_torch_entry_t *entries = calloc((size_t)(history->entry_count + added), sizeof(*entries));
    if (entries == NULL) {
        return PLEAT_ERR_OOM_HOST;
    }
    skipped_copy(history, other, entries);
    history->entries = entries;
    history->entry_count += added;
    *skipped_out = (pleat_snapshot_skipped_t){.entries = entries, .count = added, .action = half};
    return PLEAT_OK;
}
