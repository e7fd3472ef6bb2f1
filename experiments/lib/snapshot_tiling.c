/*
 * snapshot_tiling: see snapshot_tiling.h. snapshot_undo finds the blocks; here is the way to them.
 */
#include "snapshot_tiling.h"

#include "../../core/size_class.h"
#include "snapshot_undo.h"

#include <inttypes.h>
#include <stdlib.h>

enum { FIRST_CAPACITY = 256 };

/* Pieces of the blocks that are taken in the first round, to be freed or exchanged afterwards. */
typedef enum pleat_tiling_round {
    ROUND_FILL,     /* every piece of every segment */
    ROUND_EXCHANGE, /* blocks that hold more than their rounded size */
    ROUND_FREE,     /* what is to be free */
    ROUND_WAIT,     /* what waits */
    ROUND_COUNT
} pleat_tiling_round_t;

typedef struct pleat_tiling_work {
    const pleat_options_t *options;
    pleat_snapshot_undo_t undo;
    pleat_snapshot_tiling_t *tiling;
} pleat_tiling_work_t;

/* A block, used or free, in its segment. */
typedef struct pleat_tiling_piece {
    pleat_devptr_t address;
    uint64_t bytes;
    const pleat_undo_block_t *block; /* NULL: free */
    const pleat_undo_segment_t *segment;
} pleat_tiling_piece_t;

static pleat_status_t tiling_emit(pleat_tiling_work_t *work, pleat_action_t action,
                                  const pleat_tiling_piece_t *piece, uint64_t bytes)
{
    pleat_snapshot_tiling_t *tiling = work->tiling;
    if (tiling->event_count == tiling->event_capacity) {
        const size_t capacity =
            tiling->event_capacity == 0 ? FIRST_CAPACITY : tiling->event_capacity * 2;
        pleat_trace_event_t *events = realloc(tiling->events, capacity * sizeof(*events));
        if (events == NULL) {
            pleat_error_set("no host memory for the beginning of a history");
            return PLEAT_ERR_OOM_HOST;
        }
        tiling->events = events;
        tiling->event_capacity = capacity;
    }
    tiling->events[tiling->event_count++] = (pleat_trace_event_t){.address = piece->address,
                                                                  .bytes = bytes,
                                                                  .stream = piece->segment->stream,
                                                                  .action = action};
    return PLEAT_OK;
}

static pleat_status_t tiling_emit_free(pleat_tiling_work_t *work, const pleat_tiling_piece_t *piece,
                                       uint64_t bytes)
{
    const pleat_status_t status = tiling_emit(work, PLEAT_ACTION_FREE_REQUESTED, piece, bytes);
    return status == PLEAT_OK ? tiling_emit(work, PLEAT_ACTION_FREE_COMPLETED, piece, bytes)
                              : status;
}

static pleat_status_t tiling_refuse(pleat_devptr_t address, uint64_t bytes)
{
    pleat_error_set("no request makes the block of %" PRIu64 " bytes at %" PRIx64, bytes, address);
    return PLEAT_ERR_UNSUPPORTED;
}

/* Is a request of this size served by exactly such a block of the segment's pool? */
static bool tiling_is_request(const pleat_tiling_work_t *work, const pleat_tiling_piece_t *piece,
                              uint64_t bytes)
{
    return bytes > 0 && bytes < PLEAT_REQUEST_END_BYTES &&
           pleat_size_round(work->options, bytes) == bytes &&
           pleat_size_is_small(bytes) == piece->segment->is_small;
}

/* Does the block hold more than its request rounds to, because the rest was not split off? */
static bool tiling_has_rest(const pleat_tiling_work_t *work, const pleat_tiling_piece_t *piece)
{
    return piece->block != NULL &&
           pleat_size_round(work->options, piece->block->requested_bytes) != piece->bytes;
}

static pleat_status_t tiling_check_block(const pleat_tiling_work_t *work,
                                         const pleat_tiling_piece_t *piece)
{
    const uint64_t requested = piece->block->requested_bytes;
    if (requested == 0 || requested >= PLEAT_REQUEST_END_BYTES) {
        return tiling_refuse(piece->address, piece->bytes);
    }
    const uint64_t rounded = pleat_size_round(work->options, requested);
    const bool is_kept = !piece->segment->is_small && rounded < piece->bytes &&
                         piece->bytes - rounded <= PLEAT_MIB &&
                         piece->bytes < work->options->max_split_bytes;
    return pleat_size_is_small(rounded) == piece->segment->is_small &&
                   (rounded == piece->bytes || is_kept)
               ? PLEAT_OK
               : tiling_refuse(piece->address, piece->bytes);
}

/* Free memory of a small segment is filled by several requests; the last takes what is left. */
static pleat_status_t tiling_fill_free(pleat_tiling_work_t *work, pleat_tiling_piece_t piece,
                                       bool is_freeing)
{
    const uint64_t most = piece.segment->is_small ? PLEAT_SMALL_MAX_BYTES : piece.bytes;
    pleat_status_t status = PLEAT_OK;
    for (uint64_t left = piece.bytes; left > 0 && status == PLEAT_OK;) {
        const uint64_t bytes = left < most ? left : most;
        if (!tiling_is_request(work, &piece, bytes)) {
            return tiling_refuse(piece.address, bytes);
        }
        status = is_freeing ? tiling_emit_free(work, &piece, bytes)
                            : tiling_emit(work, PLEAT_ACTION_ALLOC, &piece, bytes);
        piece.address += bytes;
        left -= bytes;
    }
    return status;
}

static pleat_status_t tiling_fill(pleat_tiling_work_t *work, const pleat_tiling_piece_t *piece)
{
    if (piece->block == NULL) {
        return tiling_fill_free(work, *piece, false);
    }
    const pleat_status_t status = tiling_check_block(work, piece);
    if (status != PLEAT_OK) {
        return status;
    }
    const uint64_t bytes =
        tiling_has_rest(work, piece) ? piece->bytes : piece->block->requested_bytes;
    return tiling_emit(work, PLEAT_ACTION_ALLOC, piece, bytes);
}

/* What becomes of a piece after the first round. */
static pleat_status_t tiling_change(pleat_tiling_work_t *work, pleat_tiling_round_t round,
                                    const pleat_tiling_piece_t *piece)
{
    if (round == ROUND_EXCHANGE && tiling_has_rest(work, piece)) {
        const pleat_status_t status = tiling_emit_free(work, piece, piece->bytes);
        return status == PLEAT_OK
                   ? tiling_emit(work, PLEAT_ACTION_ALLOC, piece, piece->block->requested_bytes)
                   : status;
    }
    if (round == ROUND_FREE && piece->block == NULL) {
        return tiling_fill_free(work, *piece, true);
    }
    if (round == ROUND_WAIT && piece->block != NULL && piece->block->is_waiting) {
        return tiling_emit(work, PLEAT_ACTION_FREE_REQUESTED, piece, piece->block->requested_bytes);
    }
    return PLEAT_OK;
}

/* A new segment. One of the small pool comes with its first piece; one of the large pool is made by
 * a request of its own size, which is freed if there is more than one piece to go into it. */
static pleat_status_t tiling_begin_segment(pleat_tiling_work_t *work, pleat_span_t span,
                                           const pleat_undo_segment_t *segment, bool has_pieces)
{
    const pleat_tiling_piece_t whole = {
        .address = span.begin, .bytes = span.bytes, .segment = segment};
    pleat_status_t status = tiling_emit(work, PLEAT_ACTION_SEGMENT_ALLOC, &whole, span.bytes);
    if (status != PLEAT_OK || !has_pieces) {
        return status;
    }
    if (!tiling_is_request(work, &whole, span.bytes) ||
        span.bytes >= work->options->max_split_bytes) {
        return tiling_refuse(span.begin, span.bytes);
    }
    status = tiling_emit(work, PLEAT_ACTION_ALLOC, &whole, span.bytes);
    return status == PLEAT_OK ? tiling_emit_free(work, &whole, span.bytes) : status;
}

/* Does a request of the first piece's size make this segment? */
static bool tiling_is_made_by(const pleat_tiling_work_t *work, const pleat_tiling_piece_t *piece,
                              uint64_t segment_bytes)
{
    const uint64_t bytes = piece->block != NULL && !tiling_has_rest(work, piece)
                               ? piece->block->requested_bytes
                               : piece->bytes;
    return pleat_size_segment(work->options, pleat_size_round(work->options, bytes)) ==
           segment_bytes;
}

/* The block that begins at @p address, up to the segment's end. */
static pleat_status_t tiling_piece_at(const pleat_tiling_work_t *work, pleat_devptr_t address,
                                      const pleat_undo_segment_t *segment,
                                      pleat_tiling_piece_t *piece_out)
{
    pleat_span_t span;
    *piece_out = (pleat_tiling_piece_t){.address = address,
                                        .block = pleat_snapshot_undo_block(&work->undo, address),
                                        .segment = segment};
    if (piece_out->block != NULL) {
        piece_out->bytes = piece_out->block->bytes;
        return PLEAT_OK;
    }
    if (!pleat_span_find_at_or_below(&work->undo.nodes, &work->undo.free_spans, address, &span) ||
        span.begin != address) {
        return tiling_refuse(address, 0);
    }
    piece_out->bytes = span.bytes;
    return PLEAT_OK;
}

static pleat_status_t tiling_segment(pleat_tiling_work_t *work, pleat_tiling_round_t round,
                                     pleat_span_t span)
{
    const pleat_undo_segment_t *segment = pleat_snapshot_undo_segment(&work->undo, span.begin);
    pleat_status_t status = PLEAT_OK;
    for (pleat_devptr_t address = span.begin;
         address < span.begin + span.bytes && status == PLEAT_OK;) {
        pleat_tiling_piece_t piece;
        status = tiling_piece_at(work, address, segment, &piece);
        if (status == PLEAT_OK && round == ROUND_FILL && address == span.begin) {
            const bool is_made = segment->is_small || (piece.bytes == span.bytes &&
                                                       tiling_is_made_by(work, &piece, span.bytes));
            status = tiling_begin_segment(work, span, segment, !is_made);
        }
        if (status == PLEAT_OK) {
            status = round == ROUND_FILL ? tiling_fill(work, &piece)
                                         : tiling_change(work, round, &piece);
        }
        address += piece.bytes;
    }
    return status;
}

static pleat_status_t tiling_emit_all(pleat_tiling_work_t *work)
{
    pleat_status_t status = PLEAT_OK;
    for (unsigned round = 0; round < ROUND_COUNT; round++) {
        pleat_span_t span = {.begin = 0};
        for (uint64_t next = 0;
             status == PLEAT_OK &&
             pleat_span_find_at_or_above(&work->undo.nodes, &work->undo.segments, next, &span);
             next = span.begin + span.bytes) {
            status = tiling_segment(work, (pleat_tiling_round_t)round, span);
        }
    }
    return status;
}

pleat_status_t pleat_snapshot_tiling_find(const pleat_torch_snapshot_t *snapshot, uint32_t device,
                                          const pleat_options_t *options,
                                          pleat_snapshot_tiling_t *tiling_out)
{
    pleat_tiling_work_t work = {.options = options, .tiling = tiling_out};
    *tiling_out = (pleat_snapshot_tiling_t){.event_count = 0};
    pleat_status_t status = pleat_snapshot_undo_run(snapshot, device, options, &work.undo);
    if (status == PLEAT_OK) {
        status = tiling_emit_all(&work);
    }
    tiling_out->guess_count =
        work.undo.guess_count + (options->garbage_collection_threshold > 0 ? 1 : 0);
    pleat_snapshot_undo_fini(&work.undo);
    if (status != PLEAT_OK) {
        pleat_snapshot_tiling_fini(tiling_out);
    }
    return status;
}

void pleat_snapshot_tiling_fini(pleat_snapshot_tiling_t *tiling)
{
    free(tiling->events);
    *tiling = (pleat_snapshot_tiling_t){.event_count = 0};
}
