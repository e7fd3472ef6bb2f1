/*
 * torch_snapshot_write: memory snapshots (pleat/torch_snapshot.h) written as files that PyTorch's
 * tools read: torch/cuda/_memory_viz.py and the web viewer; and snapshots of a live allocator and
 * its history.
 */
#ifndef PLEAT_TORCH_SNAPSHOT_WRITE_H
#define PLEAT_TORCH_SNAPSHOT_WRITE_H

#include <pleat/conf.h>
#include <pleat/history.h>
#include <pleat/torch_snapshot.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Takes all bytes, or fails with a status and an error text of its own. */
typedef pleat_status_t (*pleat_torch_write_fn_t)(void *context, const void *bytes,
                                                 size_t byte_count);

/* Version of Python's pickle format. What the web viewer reads is 2 to 4; newer ones read 5. */
#define PLEAT_TORCH_PROTOCOL_DEFAULT 4

typedef struct pleat_torch_write_options {
    size_t size;
    uint32_t protocol; /* 2 to 5 */
} pleat_torch_write_options_t;
#define PLEAT_TORCH_WRITE_OPTIONS_INIT                                    \
    {                                                                     \
        sizeof(pleat_torch_write_options_t), PLEAT_TORCH_PROTOCOL_DEFAULT \
    }

/**
 * Write a snapshot as a pickle with every field that PyTorch 2.11 writes, in its order.
 *
 * An entry without stack gets no `frames`; a block or segment without gets an empty list. Equal
 * stacks, frames and texts are shared in the file. A byte of a text that is no UTF-8 becomes
 * U+FFFD.
 *
 * @param options  NULL: all defaults.
 * @param write    called with pieces of up to 64 KiB, a text that is longer in one piece.
 * @retval PLEAT_ERR_INVALID   a protocol that is not written, or an index or value of the snapshot
 *                             out of its range; the message names it; nothing was written.
 * @retval PLEAT_ERR_OOM_HOST  no host memory; nothing was written.
 * Errors of @p write are passed on; what it got before stays written.
 * @par Threads any.   @par Cost linear in the snapshot; memory 128 KiB and 4 bytes a frame and a
 * stack.
 */
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_torch_snapshot_write(
    const pleat_torch_snapshot_t *snapshot, const pleat_torch_write_options_t *options,
    pleat_torch_write_fn_t write, void *context);

/**
 * A write function for an open file.
 * @param file  a FILE; errors that only show when it is flushed or closed are the caller's.
 * @retval PLEAT_ERR_IO  the message has the cause.
 * @par Threads one at a time a file.   @par Cost as fwrite.
 */
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_torch_write_to_file(void *file, const void *bytes,
                                                                   size_t byte_count);

/* What a snapshot is made of. All that it points to stays the caller's. */
typedef struct pleat_torch_source {
    size_t size;
    const pleat_history_copy_t *const *copies; /* by number of the device; NULL: nothing of it */
    uint64_t copy_count;
    const pleat_conf_t *conf; /* NULL: the defaults */
    const char *conf_text;    /* PYTORCH_CUDA_ALLOC_CONF; NULL: "" */
    /* Its frames, stacks and annotations are those of the new snapshot; NULL: there are none. */
    const pleat_torch_snapshot_t *tables;
    void *context; /* first argument of both functions */
    /* Stack of a token for a context: index into tables->stacks; NULL: no stacks. */
    uint32_t (*stack_of)(void *context, void *token);
    /* Text of a token for a compile context or user metadata; NULL: no such texts. */
    const char *(*text_of)(void *context, void *token);
} pleat_torch_source_t;
#define PLEAT_TORCH_SOURCE_INIT                                                   \
    {                                                                             \
        sizeof(pleat_torch_source_t), NULL, 0, NULL, NULL, NULL, NULL, NULL, NULL \
    }

/**
 * Make a snapshot of live allocators, one a device, from copies of their histories.
 *
 * @param[out] snapshot_out  its arrays are freed by pleat_torch_snapshot_fini, and point to the
 *                           source's texts and tables until then; untouched on failure.
 * @retval PLEAT_ERR_INVALID   more than PLEAT_TORCH_COUNT_MAX devices or blocks.
 * @retval PLEAT_ERR_OOM_HOST  no host memory.
 * @par Threads any.   @par Cost linear in the copies.
 */
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_torch_snapshot_compose(
    const pleat_torch_source_t *source, pleat_torch_snapshot_t *snapshot_out);

/** Free what pleat_torch_snapshot_compose made; never a snapshot that was read. @par Threads any.
 * @par Cost O(devices). */
PLEAT_API void pleat_torch_snapshot_fini(pleat_torch_snapshot_t *snapshot);

#ifdef __cplusplus
}
#endif
#endif
