/*
 * base: what every public header of Pleat builds on: the status list, the version, the export
 * macro, device types, and the rule that a struct which crosses the library starts with its size.
 *
 * Size rule: a caller fills `size` through the struct's `_INIT` macro. The library reads
 * min(caller's size, its own size) and takes defaults for what is absent, so fields can be
 * appended without breaking programs that were compiled earlier. Fields are never moved. Where the
 * library makes the struct, its `size` says how far the fields go.
 *
 * Version rule: before 1.0 the rule above holds among the patches of a minor version only. A new
 * minor version may change any layout, value or name, and the SONAME with it (libpleat.so.0.1), so
 * that no program meets a library that it was not compiled for. Structs of counters by kind
 * (pleat_vmm_counters_t, pleat_cost_table_t) and nested ones without a size (pleat_stat_t) grow in
 * that way alone.
 */
#ifndef PLEAT_BASE_H
#define PLEAT_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PLEAT_VERSION_MAJOR 0
#define PLEAT_VERSION_MINOR 1
#define PLEAT_VERSION_PATCH 0
#define PLEAT_VERSION_STRING "0.1.0"

#if defined(__GNUC__)
#define PLEAT_API __attribute__((visibility("default")))
#define PLEAT_NODISCARD __attribute__((warn_unused_result))
#define PLEAT_PRINTF(format_index, first_argument) \
    __attribute__((format(printf, format_index, first_argument)))
#else
#define PLEAT_API
#define PLEAT_NODISCARD
#define PLEAT_PRINTF(format_index, first_argument)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, value, text). Append only: values are part of the ABI. */
#define PLEAT_STATUS_LIST(X)                                                  \
    X(OK, 0, "success")                                                       \
    X(ERR_INVALID, -1, "invalid argument")                                    \
    X(ERR_OOM_DEVICE, -2, "device memory exhausted after every reclaim step") \
    X(ERR_OOM_HOST, -3, "host memory exhausted for metadata")                 \
    X(ERR_DRIVER, -4, "driver error")                                         \
    X(ERR_INVALID_POINTER, -5, "invalid device pointer")                      \
    X(ERR_TOO_LARGE, -6, "request of 2^60 bytes or more")                     \
    X(ERR_NOT_READY, -7, "work on the device is not complete")                \
    X(ERR_UNSUPPORTED, -8, "not supported by this device or in this mode")    \
    X(ERR_IO, -9, "input or output failed")                                   \
    X(ERR_FORMAT, -10, "malformed input")

typedef enum pleat_status {
#define PLEAT_STATUS_ENUM(name, value, text) PLEAT_##name = (value),
    PLEAT_STATUS_LIST(PLEAT_STATUS_ENUM)
#undef PLEAT_STATUS_ENUM
} pleat_status_t;

typedef uint64_t pleat_devptr_t; /* device address; 0 is no address */
typedef uint64_t pleat_stream_t; /* stream handle as an unsigned integer; 0: the default stream */
typedef uint64_t pleat_event_t;  /* event handle of the device; 0 is no event */
typedef uint64_t pleat_chunk_t;  /* handle of physical memory; 0 is none */

/**
 * English text of a status, "unknown status" for a value outside the list.
 * @par Threads any.   @par Cost constant; the string is static.
 */
PLEAT_API const char *pleat_status_text(pleat_status_t status);

/**
 * What went wrong in the last failed call of this thread: cause and values, one line without a
 * line end. Empty before the first failure. Valid until the next failing call of this thread.
 * @par Threads any; the text belongs to the calling thread.   @par Cost constant.
 */
PLEAT_API const char *pleat_last_error(void);

/**
 * The code by which the device's own driver named the last failure of this thread (CUresult on a
 * GPU); 0 before the first. A simulated device has none.
 * @par Threads any; the code belongs to the calling thread.   @par Cost constant.
 */
PLEAT_API int pleat_last_native_error(void);

/**
 * Version of the library that is linked, as "major.minor.patch".
 * @par Threads any.   @par Cost constant; the string is static.
 */
PLEAT_API const char *pleat_version(void);

#ifdef __cplusplus
}
#endif
#endif
