/*
 * cupy: the two functions that cupy.cuda.CFunctionAllocator wants, over the table of devices
 * (pleat/device_table.h), and what CuPy does not tell them.
 *
 * Streams: CuPy hands no stream to an allocator. Memory belongs to the stream that
 * pleat_cupy_set_stream named last in the same thread, the default stream before that. Freed memory
 * goes back to that stream's cache at once, so that the next allocation on the same stream may get
 * it: work that is already queued there comes first, and all is well as long as memory is used on
 * its own stream. Whoever uses it on another one says so (pleat_cupy_record_stream) before it is
 * freed, or lets the streams wait for one another. CuPy's own pool has the same rule.
 *
 * CuPy raises nothing when malloc gives NULL; experiments/examples/cupy_example.py shows a wrapper
 * of four lines that does, and that names the current stream.
 *
 * Threads: any.
 */
#ifndef PLEAT_CUPY_H
#define PLEAT_CUPY_H

#include <pleat/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Memory on a device for work on the stream of this thread.
 * @param unused  CuPy's param.
 * @return NULL for size 0 or a failure; pleat_last_error says which.
 * @par Threads any.   @par Cost that of pleat_alloc.
 */
PLEAT_API void *pleat_cupy_malloc(void *unused, size_t size, int device_id);

/**
 * Free memory from pleat_cupy_malloc, in any thread; NULL is ignored. Never waits.
 * @par Threads any.   @par Cost that of pleat_free.
 */
PLEAT_API void pleat_cupy_free(void *unused, void *ptr, int device_id);

/**
 * What this thread allocates from now on is for work on @p stream (a cudaStream_t).
 * @par Threads any; only the calling one is concerned.   @par Cost constant.
 */
PLEAT_API void pleat_cupy_set_stream(void *stream);

/**
 * Work on @p stream uses @p ptr, the start of an allocation, so that its free waits for that work.
 * @return 0, or a pleat_status_t: the pointer is not live, or no room for the note.
 * @par Threads any.   @par Cost that of pleat_record_stream.
 */
PLEAT_API int pleat_cupy_record_stream(void *ptr, int device_id, void *stream);

#ifdef __cplusplus
}
#endif
#endif
