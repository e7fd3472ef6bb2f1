/*
 * fake_cuda: a library with the entry points of the CUDA driver that Pleat calls, over a backed
 * simulated device, so that everything written for a GPU runs where there is none. Kernels run on
 * the host when they are launched, but a spinning one, which keeps its stream busy.
 *
 * Opened by its file, like the driver itself (option `driver` of pleat/cuda.h); its controls are
 * looked up by name in the same library.
 */
#ifndef PLEAT_TEST_FAKE_CUDA_H
#define PLEAT_TEST_FAKE_CUDA_H

#include <stdint.h>

/* fake_cuda_fail: the nth call (1: the next) of an entry point fails with a code; 0: none does. */
typedef void (*fake_cuda_fail_fn_t)(const char *name, uint64_t nth, unsigned code);

/* fake_cuda_set: change a property: "devices" (1), "mapping" (1), "file_handles" (1), "peers" (1),
 * "bytes" (4 GiB, counts for the next context), "captured_stream" (0: none), "capture_id" (0), each
 * with its initial value. All devices share one memory. */
typedef void (*fake_cuda_set_fn_t)(const char *name, uint64_t value);

/* fake_cuda_contexts: contexts that are retained and not released. */
typedef uint64_t (*fake_cuda_contexts_fn_t)(void);

#endif
