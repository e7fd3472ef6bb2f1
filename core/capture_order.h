/*
 * capture_order: frees that are put off (deferred.h) and end inside the capture. Such a free gets a
 * mark: the nodes that its block's streams captured last. When a request comes on the stream of the
 * block and that stream captures behind all of them, what uses the memory next runs behind all that
 * used it before, in every replay: the free is complete.
 *
 * There is no mark, and the free waits for the end of the redirections, if one of the streams does
 * not capture, or not in the same capture; if a use was recorded while its stream did not capture,
 * so that its work may be in no graph; if the device cannot tell, or host memory is lacking.
 *
 * What a stream captures behind (its past) is walked up from its last nodes, and kept: the next
 * walk ends where the last one began. A stream whose last nodes did not go on from the former ones,
 * because its user chose others, is walked anew.
 *
 * Source: PyTorch 2.11's graph_capture_record_stream_reuse, which also takes uses from before the
 * capture and trusts that the nodes of a stream go on.
 * Guarded by the lock of the owning allocator.
 */
#ifndef PLEAT_CAPTURE_ORDER_H
#define PLEAT_CAPTURE_ORDER_H

#include <pleat/vmm.h>

#include "block.h"

typedef struct pleat_waiting pleat_waiting_t;

typedef struct pleat_capture_mark {
    struct pleat_capture_mark *next; /* in the order of the frees */
    pleat_block_t *block;
    uint64_t capture;
    size_t node_count;
    pleat_node_t nodes[];
} pleat_capture_mark_t;

/* A set of nodes: a hash table without removal, at most half full. */
typedef struct pleat_node_set {
    pleat_node_t *slots; /* 0: empty */
    size_t slot_count;   /* 0 or a power of two */
    size_t node_count;
} pleat_node_set_t;

typedef struct pleat_node_list {
    pleat_node_t *nodes;
    size_t count;
    size_t capacity;
} pleat_node_list_t;

typedef struct pleat_capture_past {
    struct pleat_capture_past *next;
    pleat_stream_t stream;
    uint64_t capture;
    pleat_node_set_t nodes;
    pleat_node_list_t last; /* where the last walk began */
} pleat_capture_past_t;

/* All zero is one without marks. */
typedef struct pleat_capture_order {
    pleat_capture_mark_t *marks;
    pleat_capture_past_t *pasts;
    pleat_node_list_t last; /* scratch: of the stream in question */
    pleat_node_list_t work; /* scratch: nodes to walk up from */
} pleat_capture_order_t;

/* The use of @p block by @p stream was recorded, for the first time if it @p is_new: note what the
 * stream captures, if that @p is_asked for. One driver call then. */
void pleat_capture_order_note(pleat_waiting_t *waiting, pleat_block_t *block, pleat_stream_t stream,
                              bool is_new, bool is_asked);

/* Mark a block whose free was just put off, if its streams allow. Two driver calls a stream. */
void pleat_capture_order_mark(pleat_waiting_t *waiting, pleat_block_t *block);

/* What @p stream captures behind, up to date; NULL: nothing is known, or no marked block of the
 * stream is there to need it. One driver call, and two a node that is new. */
const pleat_capture_past_t *pleat_capture_order_look(pleat_waiting_t *waiting,
                                                     pleat_stream_t stream);

/* The first marked block of the stream all uses of which are in that past; NULL: there is none. */
pleat_block_t *pleat_capture_order_find(const pleat_capture_order_t *order,
                                        const pleat_capture_past_t *past);

/* The free of @p block was resolved: its mark goes, if it has one. O(marks). */
void pleat_capture_order_unmark(pleat_capture_order_t *order, const pleat_block_t *block);

/* Forget what streams captured: a capture may be over. */
void pleat_capture_order_forget(pleat_capture_order_t *order);

/* Free everything. */
void pleat_capture_order_fini(pleat_capture_order_t *order);

#endif
