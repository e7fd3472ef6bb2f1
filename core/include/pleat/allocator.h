/*
 * allocator: a caching allocator for one device. Freed memory is kept and handed out again without
 * a call to the device; it is split, merged, kept apart by stream, and given back when needed.
 *
 * Threads: every function may be called from any thread unless it says otherwise; each takes the
 * allocator's one lock. Functions that can fail return a status and set pleat_last_error; a failed
 * call changes nothing but the counters of failures, and memory given back to the device on the
 * way (as pleat_alloc says).
 * NULL for an argument that is needed is PLEAT_ERR_INVALID; functions without a status do nothing.
 *
 * Streams: an allocator keeps the numbers of the streams that its memory was used on, and later
 * records events on them, asks for them and waits for them: when such a block is freed, when its
 * memory is handed to another stream or given back, and at the end. So a stream must exist as long
 * as memory of it is live, waits or is cached, also where only pleat_record_stream named it. Before
 * a stream is destroyed, either free all of its blocks and call pleat_empty_cache, which waits for
 * the work and gives back what lies idle; or let the stream live, as PyTorch does with those of its
 * stream pools; or destroy the allocator first. There is no call that forgets a stream: cached
 * memory of its would have no order with the memory's next user.
 */
#ifndef PLEAT_ALLOCATOR_H
#define PLEAT_ALLOCATOR_H

#include <pleat/options.h>
#include <pleat/snapshot.h>
#include <pleat/stats.h>
#include <pleat/vmm.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pleat_allocator pleat_allocator_t;

/**
 * Create an allocator on @p vmm.
 *
 * @param options             NULL for the defaults; copied.
 * @param vmm                 stays the caller's; must outlive the allocator and serve no other.
 * @param[out] allocator_out  destroyed by pleat_allocator_destroy; untouched on failure.
 * @retval PLEAT_ERR_INVALID   an option out of range; the message names it, its value and range.
 * @retval PLEAT_ERR_OOM_HOST  no host memory.
 * @par Threads any.   @par Cost a few host allocations; no device call.
 */
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_allocator_create(const pleat_options_t *options,
                                                                pleat_vmm_t *vmm,
                                                                pleat_allocator_t **allocator_out);

/**
 * Give all memory back to the device, live blocks included, and destroy the allocator. Waits for
 * the work of the streams that used the memory. NULL is ignored.
 * @par Threads none may use the allocator any more.   @par Cost one device free a segment.
 */
PLEAT_API void pleat_allocator_destroy(pleat_allocator_t *allocator);

/**
 * Allocate device memory that @p stream may use at once; no device call on a cache hit.
 *
 * On a miss the device is asked for a segment; if it has none, cached memory is given back step by
 * step and the device is asked again (garbage collection, oversize blocks, everything).
 *
 * @param bytes         wanted bytes; 0 stores 0 and succeeds without any effect.
 * @param stream        stream of first use; 0 is the default stream.
 * @param[out] ptr_out  device address, 512-byte aligned; untouched on failure.
 * @retval PLEAT_ERR_OOM_DEVICE  nothing left after every reclaim step; counted in num_ooms, facts
 *                               in pleat_read_last_oom. What the steps gave back stays given back.
 * @retval PLEAT_ERR_TOO_LARGE   2^60 bytes or more; nothing is counted.
 * @retval PLEAT_ERR_INVALID     @p allocator or @p ptr_out is NULL.
 * @retval PLEAT_ERR_OOM_HOST    metadata could not grow; nothing changed.
 * @retval PLEAT_ERR_DRIVER      the device failed otherwise.
 * @par Threads any.   @par Cost O(log free blocks) on a hit.
 */
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_alloc(pleat_allocator_t *allocator, uint64_t bytes,
                                                     pleat_stream_t stream,
                                                     pleat_devptr_t *ptr_out);

/**
 * As pleat_alloc, for a buffer that is exported to another process or registered with a library
 * that takes one chunk of physical memory at a time: all of it lies in one.
 *
 * Errors as pleat_alloc, and:
 * @retval PLEAT_ERR_UNSUPPORTED  mode torch_expandable, whose memory is pages.
 * @par Threads any.   @par Cost as pleat_alloc; O(chunks) on a miss.
 */
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_alloc_single(pleat_allocator_t *allocator,
                                                            uint64_t bytes, pleat_stream_t stream,
                                                            pleat_devptr_t *ptr_out);

/**
 * Free memory from pleat_alloc; 0 is ignored. Never waits: memory that other streams used
 * (pleat_record_stream) is handed out again only after their work up to now is complete.
 *
 * @param ptr  exactly the address that pleat_alloc gave.
 * @retval PLEAT_ERR_INVALID_POINTER  not live: foreign, interior, or freed before.
 * @retval PLEAT_ERR_INVALID          @p allocator is NULL.
 * @retval PLEAT_ERR_DRIVER           an event could not be recorded; the memory is still live.
 * @par Threads any.   @par Cost O(log free blocks), one event record a recorded stream.
 */
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_free(pleat_allocator_t *allocator,
                                                    pleat_devptr_t ptr);

/**
 * Note that work on @p stream uses @p ptr, so that its free waits for that work. The stream of the
 * allocation itself and streams noted before add nothing; 0 is ignored.
 *
 * @retval PLEAT_ERR_INVALID_POINTER  not live.
 * @retval PLEAT_ERR_OOM_HOST, PLEAT_ERR_DRIVER  no room or no event for the note; nothing changed.
 * @par Threads any.   @par Cost O(streams of the block); creates an event if none is in reserve.
 */
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_record_stream(pleat_allocator_t *allocator,
                                                             pleat_devptr_t ptr,
                                                             pleat_stream_t stream);

/**
 * Wait for every freed block that waits for a stream, then give every segment without live blocks
 * back to the device.
 * @retval PLEAT_ERR_DRIVER  a wait or a device free failed; what was given back before stays so.
 * @par Threads any.   @par Cost one device free a segment, each of which waits for the device.
 */
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_empty_cache(pleat_allocator_t *allocator);

/**
 * Replace the options; they hold from the next call on. Lowering the limit frees nothing.
 * @retval PLEAT_ERR_INVALID  an option out of range; nothing changed.
 * @par Threads any.   @par Cost constant.
 */
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_set_options(pleat_allocator_t *allocator,
                                                           const pleat_options_t *options);

/**
 * Read the options in force; @p options_out->size must be set.
 * @par Threads any.   @par Cost constant.
 */
PLEAT_API void pleat_read_options(pleat_allocator_t *allocator, pleat_options_t *options_out);

/** Read all counters; @p stats_out->size must be set. @par Threads any.   @par Cost constant. */
PLEAT_API void pleat_read_stats(pleat_allocator_t *allocator, pleat_stats_t *stats_out);

/** Set every peak to its current value. @par Threads any.   @par Cost constant. */
PLEAT_API void pleat_reset_peak_stats(pleat_allocator_t *allocator);

/**
 * Set every sum of increases and decreases and every event counter to 0.
 * @par Threads any.   @par Cost constant.
 */
PLEAT_API void pleat_reset_accumulated_stats(pleat_allocator_t *allocator);

/* Facts about the last out-of-memory failure, for a message to the user. */
typedef struct pleat_oom_info {
    size_t size;
    uint64_t requested_bytes;   /* what the caller asked for */
    uint64_t attempted_bytes;   /* what the device was asked for last */
    uint64_t device_free_bytes; /* by the device at that moment */
    uint64_t device_total_bytes;
    uint64_t limit_bytes;        /* PLEAT_NO_LIMIT: none */
    uint64_t allocated_bytes;    /* handed out by this allocator */
    uint64_t reserved_bytes;     /* held from the device by this allocator */
    uint64_t private_free_bytes; /* free in private pools */
    pleat_stream_t stream;
} pleat_oom_info_t;
#define PLEAT_OOM_INFO_INIT                                 \
    {                                                       \
        sizeof(pleat_oom_info_t), 0, 0, 0, 0, 0, 0, 0, 0, 0 \
    }

/**
 * Facts about the last PLEAT_ERR_OOM_DEVICE that the calling thread had from this allocator, so
 * that another thread's cannot come between a failure and its report. If the thread had none since,
 * or its last was of another allocator: the last that any thread had of this one; all 0 before the
 * first.
 * @p info_out->size must be set.
 * @par Threads any.   @par Cost constant.
 */
PLEAT_API void pleat_read_last_oom(pleat_allocator_t *allocator, pleat_oom_info_t *info_out);

/**
 * Copy all segments and blocks; changes nothing.
 * @param[out] snapshot_out  freed by pleat_snapshot_destroy; untouched on failure.
 * @retval PLEAT_ERR_OOM_HOST  no host memory.
 * @par Threads any.   @par Cost O(blocks log segments) under the lock.
 */
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_snapshot_take(pleat_allocator_t *allocator,
                                                             pleat_snapshot_t **snapshot_out);

/** Free a snapshot; NULL is ignored. @par Threads any.   @par Cost constant. */
PLEAT_API void pleat_snapshot_destroy(pleat_snapshot_t *snapshot);

/* X(name, text): what an allocator does, as PyTorch's memory history names it. In pleated mode
 * SEGMENT_UNMAP and SEGMENT_MAP also tell that memory begins or ends to be used at another address,
 * or for small blocks, so that a history fits the snapshots. */
#define PLEAT_ACTION_LIST(X)            \
    X(ALLOC, "alloc")                   \
    X(FREE_REQUESTED, "free_requested") \
    X(FREE_COMPLETED, "free_completed") \
    X(SEGMENT_ALLOC, "segment_alloc")   \
    X(SEGMENT_FREE, "segment_free")     \
    X(SEGMENT_MAP, "segment_map")       \
    X(SEGMENT_UNMAP, "segment_unmap")   \
    X(SNAPSHOT, "snapshot")             \
    X(OOM, "oom")

typedef enum pleat_action {
#define PLEAT_ACTION_ENUM(name, text) PLEAT_ACTION_##name,
    PLEAT_ACTION_LIST(PLEAT_ACTION_ENUM)
#undef PLEAT_ACTION_ENUM
        PLEAT_ACTION_COUNT
} pleat_action_t;

/* The library makes it; fields that `size` does not reach are of a later version. */
typedef struct pleat_trace_entry {
    size_t size;
    pleat_action_t action;
    pleat_stream_t stream;
    pleat_devptr_t address; /* of an OOM: the device's free bytes */
    uint64_t bytes; /* requested bytes of blocks, full size of segments, rounded of an OOM */
} pleat_trace_entry_t;

/* Must not call the allocator; runs under its lock. */
typedef void (*pleat_observer_fn_t)(void *context, const pleat_trace_entry_t *entry);

/**
 * Call @p observer for every action from now on; NULL ends that.
 * @par Threads any.   @par Cost one call an action while set.
 */
PLEAT_API void pleat_set_observer(pleat_allocator_t *allocator, pleat_observer_fn_t observer,
                                  void *context);

/**
 * Name of an action as in PyTorch's memory history, "unknown" for a value outside the list.
 * @par Threads any.   @par Cost constant; the string is static.
 */
PLEAT_API const char *pleat_action_name(pleat_action_t action);

/**
 * Verify every invariant of the allocator (core/check.c numbers them).
 * @retval PLEAT_ERR_INVALID  one does not hold; pleat_last_error names it, the place
 *                            and the values.
 * @retval PLEAT_ERR_OOM_HOST no host memory for the walk.
 * @par Threads any.   @par Cost O(blocks log blocks) under the lock.
 */
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_allocator_check(pleat_allocator_t *allocator);

#ifdef __cplusplus
}
#endif
#endif
