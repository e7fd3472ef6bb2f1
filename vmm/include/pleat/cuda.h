/*
 * cuda: a real GPU behind the operations table of pleat/vmm.h. The driver is opened at run time;
 * neither a toolkit nor a GPU is needed to build or to link.
 *
 * The device works in its primary context, as the CUDA runtime and PyTorch do, so that their
 * pointers, streams (a CUstream or cudaStream_t as an integer) and events mean the same here. The
 * calling thread's context is left as it was.
 */
#ifndef PLEAT_CUDA_H
#define PLEAT_CUDA_H

#include <pleat/vmm.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How chunks may be handed to other processes (pleat/share.h); bits of handle_types. Handing out
 * plain memory needs no choice. */
#define PLEAT_CUDA_HANDLE_FILE UINT32_C(1) /* as a POSIX file descriptor */

typedef struct pleat_cuda_options {
    size_t size;
    const char *driver;    /* file of the driver's library; NULL: libcuda.so.1 */
    uint32_t handle_types; /* 0: chunks stay in the process */
} pleat_cuda_options_t;
#define PLEAT_CUDA_OPTIONS_INIT               \
    {                                         \
        sizeof(pleat_cuda_options_t), NULL, 0 \
    }

/**
 * Open a GPU.
 *
 * The device has virtual memory if the driver and the GPU have. Its clock is the host's monotonic
 * one. Errors of the driver keep their own code: pleat_last_native_error.
 *
 * @param device_index  in the driver's order, which CUDA_VISIBLE_DEVICES changes.
 * @param options       NULL for all defaults.
 * @param[out] vmm_out  destroyed by pleat_vmm_destroy; untouched on failure.
 * @retval PLEAT_ERR_UNSUPPORTED  no driver, one that lacks an entry point, no GPU at all, or chunks
 *                                that this GPU cannot hand out as wished.
 * @retval PLEAT_ERR_INVALID      no GPU of this index, or bad options.
 * @retval PLEAT_ERR_DRIVER       the driver does not start; the message says what it said.
 * @retval PLEAT_ERR_OOM_HOST     no host memory.
 * @par Threads any.   @par Cost that of making the primary context, if it is the first user.
 */
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_cuda_create(int device_index,
                                                           const pleat_cuda_options_t *options,
                                                           pleat_vmm_t **vmm_out);

typedef enum pleat_cuda_capture {
    PLEAT_CUDA_CAPTURE_NONE,     /* work on the stream runs at once */
    PLEAT_CUDA_CAPTURE_ACTIVE,   /* it goes into a graph, or did until that was spoilt */
    PLEAT_CUDA_CAPTURE_ELSEWHERE /* the legacy default stream, while another stream is captured */
} pleat_cuda_capture_t;

/**
 * Is work on a stream captured into a graph?
 *
 * @param[out] id_out  number of the capture, the same for all its streams; NULL, or untouched
 * unless the answer is PLEAT_CUDA_CAPTURE_ACTIVE.
 * @return PLEAT_CUDA_CAPTURE_NONE as well if the driver knows no captures, or @p vmm is no GPU.
 * @par Threads any.   @par Cost one driver call.
 */
PLEAT_API pleat_cuda_capture_t pleat_cuda_stream_capture(const pleat_vmm_t *vmm,
                                                         pleat_stream_t stream, uint64_t *id_out);

#ifdef __cplusplus
}
#endif
#endif
