/*
 * plugin: the functions of libpleat_torch.so, which PyTorch's CUDAPluggableAllocator calls in place
 * of its own allocator. They are found by name; pleat_torch/level1.py sets them all. The signatures
 * are those that PyTorch 2.11 calls; a stream is a cudaStream_t.
 *
 * None of them can report an error to PyTorch. A failure is told on standard error, each kind once
 * a process; an allocation that fails gives NULL, which PyTorch passes on as it is.
 *
 * Threads: any.
 */
#ifndef PLEAT_TORCH_PLUGIN_H
#define PLEAT_TORCH_PLUGIN_H

#include <pleat/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Memory for work on @p stream; NULL for size 0 or a failure. @par Cost that of pleat_alloc. */
PLEAT_API void *pleat_torch_malloc(size_t size, int device, void *stream);

/** Free it; @p size and @p stream are what malloc got. @par Cost that of pleat_free. */
PLEAT_API void pleat_torch_free(void *ptr, size_t size, int device, void *stream);

/** CUDA starts: read the configuration and tell what is wrong with it. @par Cost that of it. */
PLEAT_API void pleat_torch_init(int device_count);

/** Empty all caches (torch.cuda.empty_cache). @par Cost that of pleat_empty_cache. */
PLEAT_API void pleat_torch_reset(void);

/** Limit a device to a fraction of its memory. @par Cost constant. */
PLEAT_API void pleat_torch_memory_fraction(double fraction, int device);

/** Work on @p stream uses @p ptr; free waits for it. @par Cost that of pleat_record_stream. */
PLEAT_API void pleat_torch_record_stream(void *ptr, void *stream);

/**
 * Start and size of the segment around @p ptr, which PyTorch asks for when it shares memory between
 * processes; @p ptr itself, and @p size_out untouched, if no live allocation starts there.
 * @par Cost O(blocks of the segment).
 */
PLEAT_API void *pleat_torch_base_alloc(void *ptr, size_t *size_out);

/*
 * Private pools of CUDA graphs; first and second are the two numbers of PyTorch's pool id. The
 * filter that PyTorch hands to begin is a C++ object and stays unused. Instead, while a redirection
 * is open, a request goes to its pool
 *   - if the request's stream is captured: into the pool of that capture. A capture belongs to the
 *     redirection that the requesting thread opened, if that has none yet, else to the last
 *     opened that has none.
 *   - if the stream is not captured: as long as the redirection has seen no capture, if the
 *     thread is the one that opened it.
 * For a capture that is what PyTorch's own filter says; the second rule is for redirections without
 * a capture.
 */

/** Open a redirection to a pool, which is made if need be. @par Cost that of pleat_pool_begin. */
PLEAT_API void pleat_torch_begin_allocate_to_pool(int device, unsigned long long first,
                                                  unsigned long long second, void *filter);

/** Close it. @par Cost that of pleat_pool_end. */
PLEAT_API void pleat_torch_end_allocate_to_pool(int device, unsigned long long first,
                                                unsigned long long second);

/** Take a use of a pool away. @par Cost that of pleat_pool_release. */
PLEAT_API void pleat_torch_release_pool(int device, unsigned long long first,
                                        unsigned long long second);

/* ---- what PyTorch does not ask a plug-in for; level1.py does ---- */

/**
 * Configure all devices before the first allocation; see pleat_device_table_configure.
 *
 * @param conf    strict text; NULL: the environment.
 * @param driver  file of the driver's library; NULL: libcuda.so.1.
 * @return a pleat_status_t; pleat_torch_last_error says more.
 * @par Cost linear in the text.
 */
PLEAT_API int pleat_torch_configure(const char *conf, const char *driver);

/** pleat_last_error of this thread. @par Cost constant. */
PLEAT_API const char *pleat_torch_last_error(void);

/**
 * The values of torch.cuda.memory_stats of a device as one JSON object with PyTorch's flat names,
 * in their order; all 0 for a device that was not used. Works as snprintf.
 * @par Cost one formatted number a name.
 */
PLEAT_API size_t pleat_torch_stats_json(int device, char *buffer, size_t buffer_bytes);

/** The table of torch.cuda.memory_summary; works as snprintf. @par Cost about 40 lines. */
PLEAT_API size_t pleat_torch_summary(int device, bool is_abbreviated, char *buffer,
                                     size_t buffer_bytes);

/** The limit of a device as a fraction of its memory; 1: none. @par Cost constant. */
PLEAT_API double pleat_torch_fraction(int device);

/** As torch.cuda.reset_peak_memory_stats. @par Cost constant. */
PLEAT_API void pleat_torch_reset_peak_stats(int device);

/** As torch.cuda.reset_accumulated_memory_stats. @par Cost constant. */
PLEAT_API void pleat_torch_reset_accumulated_stats(int device);

#ifdef __cplusplus
}
#endif
#endif
