/*
 * oom_message: the error texts of PyTorch 2.11's allocator, out of memory above all.
 *
 * Every function works as snprintf: it writes a text with a null byte, cut at `buffer_bytes`
 * (`buffer` may be NULL if that is 0), and returns the length of the whole text.
 */
#ifndef PLEAT_OOM_MESSAGE_H
#define PLEAT_OOM_MESSAGE_H

#include <pleat/allocator.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Enough for every text of this header with an empty process_text. */
#define PLEAT_OOM_MESSAGE_BYTES 1024

/**
 * Text of torch.OutOfMemoryError for a request that failed with PLEAT_ERR_OOM_DEVICE.
 *
 * @param info          from pleat_read_last_oom; what lies beyond its size takes its initial value.
 * @param device        number of the device.
 * @param process_text  who else uses the device, whole sentences with a blank at the end; NULL: "".
 * @par Threads any.   @par Cost one formatted text.
 */
PLEAT_API size_t pleat_oom_message(const pleat_oom_info_t *info, int device,
                                   const char *process_text, char *buffer, size_t buffer_bytes);

/** Text for PLEAT_ERR_TOO_LARGE. @par Threads any.   @par Cost constant. */
PLEAT_API size_t pleat_too_large_message(char *buffer, size_t buffer_bytes);

/** Text for PLEAT_ERR_INVALID_POINTER. @par Threads any.   @par Cost constant. */
PLEAT_API size_t pleat_invalid_pointer_message(pleat_devptr_t ptr, char *buffer,
                                               size_t buffer_bytes);

/**
 * A number of bytes as these texts show it: "512 bytes", "1.50 MiB". The unit changes above, not
 * at, 1 KiB, 1 MiB and 1 GiB.
 * @par Threads any.   @par Cost constant.
 */
PLEAT_API size_t pleat_format_bytes(uint64_t bytes, char *buffer, size_t buffer_bytes);

#ifdef __cplusplus
}
#endif
#endif
