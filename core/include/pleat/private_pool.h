/*
 * private_pool: memory apart from all other memory of an allocator, for CUDA graphs and for users
 * who want a cache of their own. While requests are redirected to a private pool, what they get
 * comes from segments of that pool and is, once freed, handed out to requests of that pool only.
 *
 * Life: pleat_pool_acquire makes a pool or adds a use; pleat_pool_release takes a use away. A pool
 * without uses is freeable: its cached memory goes back to the device with the next
 * pleat_empty_cache or out of memory, and the pool ends once nothing of it is left. Its memory
 * stays mapped at its addresses until then, in every mode, as a captured graph needs it; but with
 * max_split_bytes the modes of PyTorch give a free oversize segment of a pool back for another one
 * of the same pool, as PyTorch does. Live blocks outlast the uses. A freeable pool cannot be used
 * again.
 *
 * While any redirection of an allocator is open, in whatever thread, no event is looked at, no
 * memory is flushed for a retry, and the free of a block that other streams used is put off until a
 * request without redirection comes: a stream may be capturing, and an event would end up in the
 * graph. That is PyTorch's rule, and holds in all modes. Uses that are recorded meanwhile are taken
 * for captured work and not waited for afterwards; pleated mode waits for them, as they may be real
 * work of another thread. Pleated mode then takes no memory across streams either, and gives none
 * back.
 *
 * Threads: every function may be called from any thread; each takes the allocator's lock. A failed
 * call changes nothing. NULL for an argument that is needed is PLEAT_ERR_INVALID.
 */
#ifndef PLEAT_PRIVATE_POOL_H
#define PLEAT_PRIVATE_POOL_H

#include <pleat/allocator.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where the segments of a pool come from instead of the device: NCCL's registered memory, say.
 * Such a pool is plain memory in every mode. Both run under the allocator's lock and must not call
 * the allocator. */
typedef pleat_devptr_t (*pleat_segment_alloc_fn_t)(void *context, uint64_t bytes,
                                                   pleat_stream_t stream); /* 0: none left */
typedef void (*pleat_segment_free_fn_t)(void *context, pleat_devptr_t ptr, uint64_t bytes,
                                        pleat_stream_t stream);
/* The pool is gone and so is the last segment; may be NULL. */
typedef void (*pleat_segment_done_fn_t)(void *context);

typedef struct pleat_segment_source {
    size_t size;
    void *context;
    pleat_segment_alloc_fn_t alloc;
    pleat_segment_free_fn_t free;
    pleat_segment_done_fn_t done;
} pleat_segment_source_t;
#define PLEAT_SEGMENT_SOURCE_INIT                              \
    {                                                          \
        sizeof(pleat_segment_source_t), NULL, NULL, NULL, NULL \
    }

/**
 * Make a pool with one use, or add a use to one that exists.
 *
 * @param source  NULL: the device. Copied; only with a pool that does not exist yet.
 * @retval PLEAT_ERR_INVALID   id (0, 0); a freeable pool; a source for a pool that exists, or one
 *                             without alloc and free.
 * @retval PLEAT_ERR_OOM_HOST  no host memory.
 * @par Threads any.   @par Cost O(private pools).
 */
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_pool_acquire(pleat_allocator_t *allocator,
                                                            pleat_pool_id_t id,
                                                            const pleat_segment_source_t *source);

/**
 * Take a use away; without any the pool is freeable. Nothing is given back yet.
 * @retval PLEAT_ERR_INVALID  no such pool, or it has no use left.
 * @par Threads any.   @par Cost O(private pools).
 */
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_pool_release(pleat_allocator_t *allocator,
                                                            pleat_pool_id_t id);

/** Uses of a pool, 0 if there is no such pool. @par Threads any.   @par Cost O(private pools). */
PLEAT_API uint64_t pleat_pool_use_count(pleat_allocator_t *allocator, pleat_pool_id_t id);

/* Shall a request of this thread on @p stream go to the pool? Runs under the lock at each request;
 * must not call the allocator. */
typedef bool (*pleat_pool_filter_fn_t)(void *context, pleat_stream_t stream);

/**
 * Redirect requests to a pool from now on, and acquire it. Of several redirections that take a
 * request the one that was opened last gets it.
 *
 * @param filter  NULL: every request.
 * @retval PLEAT_ERR_INVALID   a redirection to this pool is open already ("already recording to
 *                             mempool_id"); otherwise as pleat_pool_acquire.
 * @retval PLEAT_ERR_OOM_HOST  no host memory.
 * @par Threads any.   @par Cost O(private pools).
 */
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_pool_begin(pleat_allocator_t *allocator,
                                                          pleat_pool_id_t id,
                                                          pleat_pool_filter_fn_t filter,
                                                          void *filter_context);

/**
 * End the redirection to a pool; the use that it added stays, and frees that were put off wait for
 * the next request.
 * @retval PLEAT_ERR_INVALID  none is open ("not currently recording to mempool_id").
 * @par Threads any.   @par Cost O(open redirections).
 */
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_pool_end(pleat_allocator_t *allocator,
                                                        pleat_pool_id_t id);

/**
 * Is a redirection to any pool open?
 * @par Threads any; without the lock, so the answer may be old.   @par Cost one load.
 */
PLEAT_API bool pleat_pool_is_redirecting(const pleat_allocator_t *allocator);

/**
 * Let requests outside every private pool take free memory of this pool before they fail, or no
 * longer (PyTorch: use_on_oom). Only memory of their stream that is free in one piece; expandable
 * segments of torch_expandable do not count, as in PyTorch.
 * @retval PLEAT_ERR_INVALID  no such pool.
 * @par Threads any.   @par Cost O(private pools).
 */
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_pool_set_overflow(pleat_allocator_t *allocator,
                                                                 pleat_pool_id_t id,
                                                                 bool is_overflow);

/**
 * Hand out whole segments of this pool only, from now on (PyTorch: no_split). In pleated mode they
 * are plain memory, as those of a source are.
 * @retval PLEAT_ERR_INVALID  no such pool.
 * @par Threads any.   @par Cost O(private pools).
 */
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_pool_set_no_split(pleat_allocator_t *allocator,
                                                                 pleat_pool_id_t id);

/**
 * Give the cached memory of one freeable pool back to the device, after waiting for its own freed
 * blocks. While a redirection is open it does not wait for them, and memory of pleated mode stays;
 * the device may still wait for work before it takes the rest. A pool that is not freeable, or
 * unknown, is left alone.
 * @retval PLEAT_ERR_DRIVER  as pleat_empty_cache.
 * @par Threads any.   @par Cost one device free a segment.
 */
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_pool_empty(pleat_allocator_t *allocator,
                                                          pleat_pool_id_t id);

/* ---- checkpoints ---- */

typedef struct pleat_pool_checkpoint pleat_pool_checkpoint_t;

/**
 * Remember which blocks of a pool are live.
 *
 * @param[out] checkpoint_out  freed by pleat_pool_checkpoint_destroy; untouched on failure.
 * @retval PLEAT_ERR_INVALID   no such pool, a freeable one, or a block of it that waits for a
 *                             stream.
 * @retval PLEAT_ERR_OOM_HOST  no host memory.
 * @retval PLEAT_ERR_DRIVER    an event of a free that was put off could not be recorded.
 * @par Threads any.   @par Cost O(blocks log blocks).
 */
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_pool_checkpoint_take(
    pleat_allocator_t *allocator, pleat_pool_id_t id, pleat_pool_checkpoint_t **checkpoint_out);

/** Free a checkpoint; NULL is ignored. @par Threads any.   @par Cost constant. */
PLEAT_API void pleat_pool_checkpoint_destroy(pleat_pool_checkpoint_t *checkpoint);

/* What a restore changed; an address may stand in both lists. */
typedef struct pleat_pool_delta {
    size_t size;
    uint64_t freed_count;
    uint64_t allocated_count;
    pleat_devptr_t *freed; /* both arrays are freed by pleat_pool_delta_fini */
    pleat_devptr_t *allocated;
} pleat_pool_delta_t;
#define PLEAT_POOL_DELTA_INIT                        \
    {                                                \
        sizeof(pleat_pool_delta_t), 0, 0, NULL, NULL \
    }

/**
 * Make the blocks of a pool what they were at a checkpoint: live ones are freed, those of the
 * checkpoint are live again at the same addresses.
 *
 * @p delta_out->size must be set; untouched on failure. The requested size of a block is its own
 * size then.
 *
 * @retval PLEAT_ERR_INVALID   the pool, or a segment of the checkpoint, is gone; or a block of the
 *                             pool waits for a stream, or would when it is freed.
 * @retval PLEAT_ERR_OOM_HOST  no host memory.
 * @retval PLEAT_ERR_DRIVER    it cannot be told which blocks wait.
 * @par Threads any.   @par Cost O(blocks log blocks).
 */
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_pool_checkpoint_restore(
    pleat_allocator_t *allocator, const pleat_pool_checkpoint_t *checkpoint,
    pleat_pool_delta_t *delta_out);

/** Free the arrays of a delta. @par Threads any.   @par Cost constant. */
PLEAT_API void pleat_pool_delta_fini(pleat_pool_delta_t *delta);

/* ---- questions about pointers ---- */

typedef struct pleat_pointer_info {
    size_t size;
    pleat_devptr_t block_address; /* of the live block */
    uint64_t block_bytes;
    uint64_t requested_bytes;
    pleat_devptr_t segment_address; /* what a snapshot shows as its segment */
    uint64_t segment_bytes;
    pleat_stream_t stream;
    pleat_pool_id_t pool;
    bool is_small;
    bool is_expandable;
} pleat_pointer_info_t;
#define PLEAT_POINTER_INFO_INIT                                              \
    {                                                                        \
        sizeof(pleat_pointer_info_t), 0, 0, 0, 0, 0, 0, {0, 0}, false, false \
    }

/**
 * Describe the live block that starts at @p ptr.
 * @retval PLEAT_ERR_INVALID_POINTER  not the start of a live block.
 * @par Threads any.   @par Cost O(blocks of the segment).
 */
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_find_pointer(pleat_allocator_t *allocator,
                                                            pleat_devptr_t ptr,
                                                            pleat_pointer_info_t *info_out);

/**
 * Called when no free block serves a request, before the device is asked; true: memory was freed
 * (by pleat_free, which it may call), look again. Runs without the lock, in the thread of the
 * request. NULL ends that.
 * @par Threads any.   @par Cost constant.
 */
typedef bool (*pleat_free_memory_fn_t)(void *context);
PLEAT_API void pleat_set_free_memory_callback(pleat_allocator_t *allocator,
                                              pleat_free_memory_fn_t callback, void *context);

#ifdef __cplusplus
}
#endif
#endif
