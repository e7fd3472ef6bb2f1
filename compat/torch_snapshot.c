/*
 * torch_snapshot: what a snapshot that was read holds, and how it goes. See pleat/torch_snapshot.h.
 */
#include "torch_record.h"

#include <stdlib.h>

void pleat_torch_snapshot_destroy(pleat_torch_snapshot_t *snapshot)
{
    if (snapshot == NULL) {
        return;
    }
    pleat_torch_own_t *own = snapshot->storage;
    pleat_pickle_storage_t *storage = &own->storage;
    const struct {
        void *array;
        uint64_t bytes;
    } arrays[] = {
        {own->entries, own->entry_capacity * sizeof(*own->entries)},
        {snapshot->segments, own->segment_capacity * sizeof(*snapshot->segments)},
        {snapshot->blocks, own->block_capacity * sizeof(*snapshot->blocks)},
        {snapshot->histories, own->history_capacity * sizeof(*snapshot->histories)},
        {snapshot->annotations, own->annotation_capacity * sizeof(*snapshot->annotations)},
        {snapshot->frames, own->frame_capacity * sizeof(*snapshot->frames)},
        {snapshot->stacks, own->stack_capacity * sizeof(*snapshot->stacks)},
        {snapshot->stack_frames, own->stack_frame_capacity * sizeof(*snapshot->stack_frames)},
    };
    for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]); i++) {
        pleat_pickle_release(storage, arrays[i].array, arrays[i].bytes);
    }
    pleat_pickle_storage_fini(storage);
    free(own);
    free(snapshot);
}

const char *pleat_torch_missing_text(pleat_torch_missing_t missing)
{
    switch (missing) {
#define PLEAT_TORCH_MISSING_CASE(name, value, text) \
    case PLEAT_TORCH_MISSING_##name:                \
        return text;
        PLEAT_TORCH_MISSING_LIST(PLEAT_TORCH_MISSING_CASE)
#undef PLEAT_TORCH_MISSING_CASE
    }
    return "";
}
