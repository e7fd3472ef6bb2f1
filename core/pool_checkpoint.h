/*
 * pool_checkpoint (internal): which blocks of a private pool were live at some time.
 *
 * A record is a block: of a segment or a range all mapped ones, in pleated mode those in use, and
 * the small blocks of slabs. Records are by address, a slab before the blocks in it. A restore
 * frees what is live and takes the records again at their addresses; all that may fail is done
 * before the first block changes.
 *
 * Source: PyTorch 2.11's allocator: blocks of a segment or a range are handed out one after the
 * other, whatever the rule about splits says, and those that were free are freed again, so that the
 * counters move as there.
 */
#ifndef PLEAT_POOL_CHECKPOINT_H
#define PLEAT_POOL_CHECKPOINT_H

#include "private_pool.h"

typedef enum pleat_record_kind {
    PLEAT_RECORD_PIECE, /* one of the blocks that tile a segment, the mapped part of a range, a slab
                         */
    PLEAT_RECORD_HOME,  /* pleated: in use at home */
    PLEAT_RECORD_VIEW   /* pleated: in use in a view */
} pleat_record_kind_t;

typedef struct pleat_block_record {
    pleat_devptr_t address;
    uint64_t bytes;
    pleat_stream_t stream;
    pleat_record_kind_t kind;
    bool is_live; /* of pieces; others always are */
    bool is_slab; /* not handed out itself: pieces lie in it */
    bool is_small;
    bool is_first;              /* of plain pieces: its segment begins with it */
    pleat_devptr_t range_begin; /* of pieces of a range: where that begins; else 0 */
} pleat_block_record_t;

struct pleat_pool_checkpoint {
    pleat_pool_id_t id;
    uint64_t serial; /* of the pool: one of the same id that came later is another */
    size_t count;
    pleat_block_record_t records[];
};

#endif
