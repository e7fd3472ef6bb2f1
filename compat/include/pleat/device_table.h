/*
 * device_table: one allocator for each GPU of the process, made when it is first asked for and
 * configured by the environment. What takes the place of another library's allocator (PyTorch's,
 * CuPy's) allocates through this table, so that all of them share one cache.
 *
 * Configuration: read once, before the first allocator is made. PLEAT_ALLOC_CONF is read strictly;
 * without it PYTORCH_CUDA_ALLOC_CONF, then PYTORCH_ALLOC_CONF, strictly as well, but a text that
 * only PyTorch's own reading accepts is read that way. Warnings, and keys that have no effect, are
 * told once, on standard error unless options say otherwise. A text that neither reading accepts
 * makes every allocation fail with the same message until pleat_device_table_configure.
 *
 * End: nothing happens when the process ends; the driver takes the memory back. Whoever wants an
 * orderly end calls pleat_device_table_close.
 *
 * Fork: CUDA does not work in a child process of one that used it. There the table is empty, and
 * asks for an allocator fail with PLEAT_ERR_UNSUPPORTED; what the parent allocated is left alone. A
 * process that forks before its first use is free to use the table in the children.
 *
 * Threads: every function may be called from any thread.
 */
#ifndef PLEAT_DEVICE_TABLE_H
#define PLEAT_DEVICE_TABLE_H

#include <pleat/allocator.h>
#include <pleat/conf.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PLEAT_DEVICE_TABLE_COUNT 64 /* devices have indices below */

/* One line without a line end. May be called under the table's lock: must not call the table. */
typedef void (*pleat_device_notice_fn_t)(void *context, const char *line);

typedef struct pleat_device_table_options {
    size_t size;
    const char *conf;                /* configuration text, read strictly; NULL: the environment */
    const char *driver;              /* file of the driver's library; NULL: libcuda.so.1 */
    pleat_device_notice_fn_t notice; /* takes warnings; NULL: standard error */
    void *notice_context;
    uint32_t handle_types; /* as in pleat_cuda_options_t */
} pleat_device_table_options_t;
#define PLEAT_DEVICE_TABLE_OPTIONS_INIT                                 \
    {                                                                   \
        sizeof(pleat_device_table_options_t), NULL, NULL, NULL, NULL, 0 \
    }

/**
 * Configure the table before its first use, and read the configuration now.
 *
 * @param options  NULL for the defaults; texts are copied.
 * @retval PLEAT_ERR_INVALID   the configuration is refused, or an allocator exists already, which
 *                             pleat_device_table_close would end; nothing changed.
 * @retval PLEAT_ERR_OOM_HOST  no host memory; nothing changed.
 * @par Threads any.   @par Cost linear in the text.
 */
PLEAT_API PLEAT_NODISCARD pleat_status_t
pleat_device_table_configure(const pleat_device_table_options_t *options);

/**
 * Read a text that is set at run time; it holds for all allocators, those to come included. The
 * memory limits stay. The strict reading changes nothing if it refuses a text; the reading as
 * PyTorch keeps what stands before the error.
 *
 * @param report  NULL, or as for pleat_conf_read.
 * @retval PLEAT_ERR_INVALID  the text is refused, or an allocator cannot change to it (its mode).
 * @par Threads any.   @par Cost linear in the text, and one step an allocator.
 */
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_device_table_reconfigure(
    pleat_conf_reading_t reading, const char *text, pleat_conf_report_t *report);

/**
 * Copy the configuration in force; @p conf_out must be set up by PLEAT_CONF_INIT.
 * @retval PLEAT_ERR_INVALID  the environment's text is refused.
 * @par Threads any.   @par Cost constant.
 */
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_device_table_read_conf(pleat_conf_t *conf_out);

/**
 * The allocator of a device, made if it does not exist.
 *
 * @param device_index        as in pleat_cuda_create.
 * @param[out] allocator_out  stays the table's; untouched on failure.
 * @retval PLEAT_ERR_INVALID      no such device, or the configuration is refused.
 * @retval PLEAT_ERR_UNSUPPORTED  no driver, no GPU, a mode that the GPU cannot serve, or a child
 *                                process (see above).
 * @retval PLEAT_ERR_DRIVER, PLEAT_ERR_OOM_HOST  as pleat_cuda_create.
 * @par Threads any.   @par Cost one load if it exists; otherwise that of pleat_cuda_create.
 */
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_device_table_get(int device_index,
                                                                pleat_allocator_t **allocator_out);

/**
 * The allocator of a device if it exists, else NULL.
 * @par Threads any.   @par Cost one load.
 */
PLEAT_API pleat_allocator_t *pleat_device_table_find(int device_index);

/**
 * The device under an allocator of the table, NULL if that does not exist. Calls that change it are
 * the allocator's alone.
 * @par Threads any.   @par Cost one load.
 */
PLEAT_API pleat_vmm_t *pleat_device_table_vmm(int device_index);

/**
 * Set the memory limit of a device as a fraction of its memory; 1 is no limit. Frees nothing. Holds
 * also for an allocator that is made later.
 * @retval PLEAT_ERR_INVALID  not from 0 to 1, no such index, or the configuration is refused.
 * @par Threads any.   @par Cost constant.
 */
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_device_table_set_fraction(int device_index,
                                                                         double fraction);

/**
 * The limit as a fraction of the device's memory, 1 without a limit; 1 as well for a device whose
 * allocator does not exist.
 * @par Threads any.   @par Cost constant.
 */
PLEAT_API double pleat_device_table_fraction(int device_index);

/**
 * Empty the caches of all allocators that exist (pleat_empty_cache); all are tried.
 * @retval PLEAT_ERR_DRIVER  the first failure.
 * @par Threads any.   @par Cost that of pleat_empty_cache for each.
 */
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_device_table_empty_cache(void);

/**
 * Destroy all allocators, live memory included, and their devices, and forget the configuration.
 * @par Threads none may use an allocator of the table any more.   @par Cost waits for the devices.
 */
PLEAT_API void pleat_device_table_close(void);

#ifdef __cplusplus
}
#endif
#endif
