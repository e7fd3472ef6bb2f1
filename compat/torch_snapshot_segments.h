/*
 * torch_snapshot_segments: the segments and blocks of a memory snapshot that is read.
 */
#ifndef PLEAT_COMPAT_TORCH_SNAPSHOT_SEGMENTS_H
#define PLEAT_COMPAT_TORCH_SNAPSHOT_SEGMENTS_H

#include "torch_record.h"

/* Read all segments of a list into the snapshot. */
pleat_status_t pleat_torch_read_segments(pleat_torch_reader_t *reader,
                                         const pleat_pickle_items_t *list);

#endif
