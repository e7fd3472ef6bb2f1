/*
 * share: memory of an allocator for other processes and other devices of the host.
 *
 * Another process: pleat_share_block describes the physical memory behind a live block,
 * pleat_share_write makes bytes of the description, which travel by whatever means the two
 * processes have; there pleat_share_read gets hold of it and pleat_share_open maps it.
 *
 * A block of plain memory (mode classic) is described by the handle of its segment. A block of
 * mapped memory is described by its chunks, each a file descriptor of the exporting process. The
 * reader takes copies of these descriptors with pidfd_getfd (Linux 5.6), for which it needs the
 * right to trace the exporter. A GPU must be opened with PLEAT_CUDA_HANDLE_FILE for it.
 *
 * Life: nothing moves. A live block keeps its chunks where they are, shared or not. The allocator
 * keeps one descriptor a shared chunk, until it gives the chunk back to the device. So a
 * description can be read as long as the block is live in the exporter; pleat_share_open holds
 * chunks themselves, whatever the exporter does afterwards. Plain memory it does not hold: the
 * importer must close it before the exporter gives the segment back to the device. Once the
 * exporter frees the block its memory is handed out again there, as in PyTorch: the two processes
 * must agree on when.
 *
 * Other bytes than those of the block lie in the same chunks or segment, and the importer can reach
 * them: share with programs that are trusted.
 *
 * Threads: every function may be called from any thread; those with an allocator take its lock. A
 * failed call changes nothing. NULL for an argument that is needed is PLEAT_ERR_INVALID.
 */
#ifndef PLEAT_SHARE_H
#define PLEAT_SHARE_H

#include <pleat/allocator.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum pleat_share_kind {
    PLEAT_SHARE_PLAIN, /* a segment of plain memory, by its handle */
    PLEAT_SHARE_CHUNKS /* chunks, side by side */
} pleat_share_kind_t;

typedef struct pleat_share_chunk {
    uint64_t bytes;
    int file; /* descriptor; the allocator's or the description's, never the caller's */
} pleat_share_chunk_t;

/* The library makes it; fields that `size` does not reach are of a later version. */
typedef struct pleat_share {
    size_t size;
    pleat_share_kind_t kind;
    uint64_t offset;             /* of the block, in the segment or from the first chunk on */
    uint64_t bytes;              /* of the block; its rounded size */
    pleat_ipc_handle_t handle;   /* plain: of the segment */
    size_t chunk_count;          /* plain: 0 */
    size_t chunk_size;           /* bytes from one element of chunks to the next */
    pleat_share_chunk_t *chunks; /* by address */
} pleat_share_t;

/**
 * Describe the memory behind a live block.
 *
 * @param ptr             exactly the address that pleat_alloc gave.
 * @param[out] share_out  ended by pleat_share_destroy; its descriptors are the allocator's and stay
 *                        open as long as the block is live. Untouched on failure.
 * @retval PLEAT_ERR_INVALID_POINTER  not live.
 * @retval PLEAT_ERR_UNSUPPORTED      the device, as it was opened, cannot hand this memory out; or
 *                                    the segment came from a pool's own source and has no handle.
 * @retval PLEAT_ERR_OOM_HOST, PLEAT_ERR_DRIVER, PLEAT_ERR_IO  no memory, or no descriptor.
 * @par Threads any.   @par Cost one device call a chunk when it is shared first, else none; one for
 * plain memory.
 */
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_share_block(pleat_allocator_t *allocator,
                                                           pleat_devptr_t ptr,
                                                           pleat_share_t **share_out);

/** End a description; closes descriptors that pleat_share_read took. NULL is ignored.
 * @par Threads any.   @par Cost one close a chunk at most. */
PLEAT_API void pleat_share_destroy(pleat_share_t *share);

/**
 * Write a description from pleat_share_block as bytes; they name this process and its descriptors.
 *
 * @param buffer           NULL only asks for the size.
 * @param capacity         of @p buffer.
 * @param[out] length_out  bytes written, or needed; set also when @p capacity is too small.
 * @retval PLEAT_ERR_INVALID  @p capacity is too small; nothing was written.
 * @par Threads any.   @par Cost O(chunks).
 */
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_share_write(const pleat_share_t *share, void *buffer,
                                                           size_t capacity, size_t *length_out);

/**
 * Read a description that another process wrote, or this one, and take copies of its descriptors.
 *
 * @param[out] share_out  ended by pleat_share_destroy, also after pleat_share_open. Untouched on
 *                        failure.
 * @retval PLEAT_ERR_FORMAT       no bytes of pleat_share_write, or of a later version; says where.
 * @retval PLEAT_ERR_UNSUPPORTED  the kernel has no pidfd_getfd.
 * @retval PLEAT_ERR_IO           the process is gone, closed the descriptor or may not be traced;
 *                                the message says which and what to do.
 * @retval PLEAT_ERR_OOM_HOST     no host memory.
 * @par Threads any.   @par Cost O(chunks), one call of the host each.
 */
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_share_read(const void *bytes, size_t length,
                                                          pleat_share_t **share_out);

/**
 * Map described memory for this process, readable and writable; peers that were enabled included.
 *
 * @param allocator      of the device that the memory is on, or of one that reaches it.
 * @param[out] base_out  where the segment or the first chunk begins; the block lies share->offset
 *                       behind. Untouched on failure.
 * @retval PLEAT_ERR_INVALID      a descriptor that is no chunk, a handle of memory that is gone, or
 *                                on a GPU a handle of this very process.
 * @retval PLEAT_ERR_UNSUPPORTED  the device cannot take such memory in.
 * @retval PLEAT_ERR_OOM_HOST, PLEAT_ERR_OOM_DEVICE, PLEAT_ERR_DRIVER  no memory, no addresses, or
 *                                the device failed otherwise.
 * @par Threads any.   @par Cost three device calls a chunk and two more.
 */
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_share_open(pleat_allocator_t *allocator,
                                                          const pleat_share_t *share,
                                                          pleat_devptr_t *base_out);

/**
 * Undo one pleat_share_open. No work on any stream may use the memory any more: the call does not
 * wait, and unmaps at once. What is still open when the allocator is destroyed is closed then.
 *
 * @param base  as pleat_share_open gave it.
 * @retval PLEAT_ERR_INVALID_POINTER  nothing was opened there.
 * @retval PLEAT_ERR_DRIVER           the device failed; it is still open.
 * @par Threads any.   @par Cost two device calls.
 */
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_share_close(pleat_allocator_t *allocator,
                                                           pleat_devptr_t base);

/**
 * Let another device of this host use the mapped memory of an allocator: what is mapped now, with
 * memory that was opened from other processes, and what will be. Plain memory is not affected: for
 * that the caller lets the devices' contexts be peers (cuCtxEnablePeerAccess). There is no way
 * back. The device itself, or one that is enabled already, changes nothing.
 *
 * @param device  the driver's number.
 * @retval PLEAT_ERR_INVALID      there is no such device.
 * @retval PLEAT_ERR_UNSUPPORTED  it cannot reach this one's memory, or the device knows no peers.
 * @retval PLEAT_ERR_DRIVER       the device failed. The peer is not enabled then; what it was given
 *                                access to before the failure it keeps.
 * @par Threads any.   @par Cost one device call a mapping.
 */
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_allocator_enable_peer(pleat_allocator_t *allocator,
                                                                     int device);

#ifdef __cplusplus
}
#endif
#endif
