/*
 * plugin_pools: private pools of the plug-in (plugin.h): which request goes to which pool.
 *
 * Invariants:
 *   R1  An open redirection stands in one slot; the allocator of its device redirects to its pool.
 *   R2  A capture is bound to one redirection of a device at most, until that closes.
 * Slots are taken and given under the lock here. The filters run under the lock of an allocator,
 * which is taken inside of it: they take no lock, and read the slots' atomic fields. Filters of one
 * device never run at once, so that R2 needs no more.
 */
#include "plugin.h"

#include "plugin_tell.h"

#include <pleat/cuda.h>
#include <pleat/device_table.h>
#include <pleat/private_pool.h>

#include <pthread.h>
#include <stdatomic.h>

#define REDIRECTIONS_MAX 256 /* PyTorch opens one for each graph that is captured at the moment */

typedef struct redirection {
    atomic_int device; /* index + 1; 0: the slot is free */
    atomic_uintptr_t thread;
    atomic_bool is_bound; /* capture is the one that the pool belongs to */
    atomic_ullong capture;
    pleat_pool_id_t id;
} redirection_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static redirection_t redirections[REDIRECTIONS_MAX];

/* Tells threads apart: each has its own. */
static uintptr_t this_thread(void)
{
    static _Thread_local char mark;
    return (uintptr_t)&mark;
}

/* ---- the rule ---- */

/* Does another redirection of the device have this capture, or more of a right to it? */
static bool belongs_elsewhere(const redirection_t *asked, unsigned long long capture)
{
    const int device = atomic_load(&asked->device);
    const uintptr_t thread = this_thread();
    for (const redirection_t *other = redirections; other < redirections + REDIRECTIONS_MAX;
         other++) {
        if (other == asked || atomic_load(&other->device) != device) {
            continue;
        }
        if (atomic_load(&other->is_bound)) {
            if (atomic_load(&other->capture) == capture) {
                return true;
            }
        } else if (atomic_load(&asked->thread) != thread && atomic_load(&other->thread) == thread) {
            return true;
        }
    }
    return false;
}

/* pleat_pool_filter_fn_t; the redirection that was opened last is asked first. */
static bool redirection_takes(void *context, pleat_stream_t stream)
{
    redirection_t *redirection = context;
    uint64_t capture = 0;
    const pleat_vmm_t *vmm = pleat_device_table_vmm(atomic_load(&redirection->device) - 1);
    const pleat_cuda_capture_t state = pleat_cuda_stream_capture(vmm, stream, &capture);
    const bool is_bound = atomic_load(&redirection->is_bound);
    if (state == PLEAT_CUDA_CAPTURE_NONE) {
        return !is_bound && atomic_load(&redirection->thread) == this_thread();
    }
    if (state != PLEAT_CUDA_CAPTURE_ACTIVE) {
        return false;
    }
    if (is_bound) {
        return atomic_load(&redirection->capture) == capture;
    }
    if (belongs_elsewhere(redirection, capture)) {
        return false;
    }
    atomic_store(&redirection->capture, capture);
    atomic_store(&redirection->is_bound, true);
    return true;
}

/* ---- opening and closing ---- */

static redirection_t *redirection_find(int device_mark, pleat_pool_id_t id)
{
    for (redirection_t *slot = redirections; slot < redirections + REDIRECTIONS_MAX; slot++) {
        if (atomic_load(&slot->device) == device_mark &&
            (device_mark == 0 || (slot->id.first == id.first && slot->id.second == id.second))) {
            return slot;
        }
    }
    return NULL;
}

/* NULL, or what is wrong. */
static const char *redirection_open(int device, pleat_pool_id_t id)
{
    pleat_allocator_t *allocator = NULL;
    redirection_t *slot = redirection_find(0, id);
    if (slot == NULL) {
        return "too many redirections are open";
    }
    if (pleat_device_table_get(device, &allocator) != PLEAT_OK) {
        return pleat_last_error();
    }
    slot->id = id;
    atomic_store(&slot->thread, this_thread());
    atomic_store(&slot->is_bound, false);
    atomic_store(&slot->device, device + 1);
    if (pleat_pool_begin(allocator, id, redirection_takes, slot) != PLEAT_OK) {
        atomic_store(&slot->device, 0);
        return pleat_last_error();
    }
    return NULL;
}

void pleat_torch_begin_allocate_to_pool(int device, unsigned long long first,
                                        unsigned long long second, void *filter)
{
    (void)filter;
    (void)pthread_mutex_lock(&lock);
    const char *wrong = redirection_open(device, (pleat_pool_id_t){first, second});
    (void)pthread_mutex_unlock(&lock);
    if (wrong != NULL) {
        pleat_torch_tell(PLEAT_TORCH_POOL_BEGIN, "requests are not redirected to a private pool",
                         wrong);
    }
}

void pleat_torch_end_allocate_to_pool(int device, unsigned long long first,
                                      unsigned long long second)
{
    const pleat_pool_id_t id = {first, second};
    (void)pthread_mutex_lock(&lock);
    const pleat_status_t status = pleat_pool_end(pleat_device_table_find(device), id);
    redirection_t *slot = status == PLEAT_OK ? redirection_find(device + 1, id) : NULL;
    if (slot != NULL) {
        atomic_store(&slot->device, 0);
    }
    (void)pthread_mutex_unlock(&lock);
    if (status != PLEAT_OK) {
        pleat_torch_tell(PLEAT_TORCH_POOL_END, "a redirection to a private pool did not end",
                         pleat_last_error());
    }
}

void pleat_torch_release_pool(int device, unsigned long long first, unsigned long long second)
{
    const pleat_pool_id_t id = {first, second};
    if (pleat_pool_release(pleat_device_table_find(device), id) != PLEAT_OK) {
        pleat_torch_tell(PLEAT_TORCH_POOL_RELEASE, "a private pool was not released",
                         pleat_last_error());
    }
}

/* ---- segments ---- */

void *pleat_torch_base_alloc(void *ptr, size_t *size_out)
{
    for (int device = 0; device < PLEAT_DEVICE_TABLE_COUNT; device++) {
        pleat_allocator_t *allocator = pleat_device_table_find(device);
        pleat_pointer_info_t info = PLEAT_POINTER_INFO_INIT;
        if (allocator != NULL &&
            pleat_find_pointer(allocator, (pleat_devptr_t)(uintptr_t)ptr, &info) == PLEAT_OK) {
            if (size_out != NULL) {
                *size_out = info.segment_bytes;
            }
            return (void *)(uintptr_t)info.segment_address;
        }
    }
    return ptr;
}
