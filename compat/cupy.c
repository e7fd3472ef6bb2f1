/*
 * cupy: see pleat/cupy.h. The stream is kept by thread; everything else is the table's.
 */
#include <pleat/cupy.h>

#include "vmm/base.h"

#include <pleat/device_table.h>

static _Thread_local pleat_stream_t cupy_stream;

static pleat_devptr_t to_device(const void *ptr)
{
    return (pleat_devptr_t)(uintptr_t)ptr;
}

void *pleat_cupy_malloc(void *unused, size_t size, int device_id)
{
    (void)unused;
    pleat_allocator_t *allocator = NULL;
    pleat_devptr_t ptr = 0;
    if (pleat_device_table_get(device_id, &allocator) != PLEAT_OK ||
        pleat_alloc(allocator, size, cupy_stream, &ptr) != PLEAT_OK) {
        return NULL;
    }
    return (void *)(uintptr_t)ptr;
}

void pleat_cupy_free(void *unused, void *ptr, int device_id)
{
    (void)unused;
    pleat_allocator_t *allocator = pleat_device_table_find(device_id);
    if (allocator != NULL) { /* none: a forked child, or after the end */
        /* CuPy calls this from destructors and can do nothing about a failure. */
        const pleat_status_t ignored = pleat_free(allocator, to_device(ptr));
        (void)ignored;
    }
}

void pleat_cupy_set_stream(void *stream)
{
    cupy_stream = (pleat_stream_t)(uintptr_t)stream;
}

int pleat_cupy_record_stream(void *ptr, int device_id, void *stream)
{
    pleat_allocator_t *allocator = pleat_device_table_find(device_id);
    if (allocator == NULL) {
        pleat_error_set("cupy_record_stream: nothing was allocated on device %d", device_id);
        return PLEAT_ERR_INVALID_POINTER;
    }
    return pleat_record_stream(allocator, to_device(ptr), (pleat_stream_t)(uintptr_t)stream);
}
