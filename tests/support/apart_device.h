/*
 * apart_device: a device that allocates while others use it (ext_mem_alloc_apart): a table of
 * operations around a sim, each call of which takes a mutex. An allocation lets a hook of the test
 * run first, without the mutex: there other threads' calls would come in.
 */
#ifndef PLEAT_TEST_APART_DEVICE_H
#define PLEAT_TEST_APART_DEVICE_H

#include <pleat/vmm.h>

/* What happens while a segment of @p bytes is asked for. */
typedef void (*apart_device_hook_fn_t)(void *context, uint64_t bytes);

/* Around @p sim, which is destroyed with it; no other than this device's calls may be made to it as
 * long as several threads run. */
pleat_vmm_t *apart_device_create(pleat_vmm_t *sim);

/* Let the next allocation apart run @p hook, once; NULL: none. No allocation may be on its way. */
void apart_device_set_hook(pleat_vmm_t *vmm, apart_device_hook_fn_t hook, void *context);

/* What streams capture, as ext_capture_*: asked of the test. Without it none captures. */
typedef pleat_status_t (*apart_device_last_fn_t)(void *context, pleat_stream_t stream,
                                                 size_t capacity, pleat_node_t *nodes,
                                                 size_t *count_out, uint64_t *capture_out);
typedef pleat_status_t (*apart_device_dependencies_fn_t)(void *context, pleat_node_t node,
                                                         size_t capacity, pleat_node_t *nodes,
                                                         size_t *count_out);
void apart_device_set_captures(pleat_vmm_t *vmm, apart_device_last_fn_t last,
                               apart_device_dependencies_fn_t dependencies, void *context);

/* Allocations apart so far, and the most of them at once. */
uint64_t apart_device_count(const pleat_vmm_t *vmm);
uint64_t apart_device_most(const pleat_vmm_t *vmm);

#endif
