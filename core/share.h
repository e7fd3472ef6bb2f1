/*
 * share (internal): what the halves of pleat/share.h have in common: share.c describes blocks and
 * maps descriptions, share_bytes.c writes and reads them.
 */
#ifndef PLEAT_SHARE_INTERNAL_H
#define PLEAT_SHARE_INTERNAL_H

#include <pleat/share.h>

#define PLEAT_PEERS_MAX 128

/* Memory of another process that is mapped here. */
typedef struct pleat_opened {
    pleat_devptr_t base;
    uint64_t bytes;      /* of the mapping; 0: plain memory */
    uint64_t open_count; /* of plain memory, which has one address however often it is opened */
    struct pleat_opened *next;
} pleat_opened_t;

/* A description with room for @p chunk_count chunks, all else 0; NULL, with the error text set, for
 * want of host memory. With @p owns_files their descriptors, -1 so far, are closed with it. */
pleat_share_t *pleat_share_make(size_t chunk_count, bool owns_files);

/* Close all that is open, whatever the device says; the allocator is being destroyed. */
void pleat_share_discard(pleat_allocator_t *allocator);

#endif
