/*
 * own_allocator: a user's allocator for torch.cuda.memory.CUDAPluggableAllocator, as small as can
 * be.
 *
 * Plain driver memory, and counts of what was asked of it. The driver is found at run time, so that
 * it builds without CUDA.
 */
#include <dlfcn.h>
#include <stddef.h>

typedef int (*driver_alloc_fn_t)(unsigned long long *, size_t);
typedef int (*driver_free_fn_t)(unsigned long long);

static size_t alloc_count, free_count, live_bytes, smallest, limit_bytes;

static void *find(const char *name)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    return driver ? dlsym(driver, name) : NULL;
}

void *own_alloc(size_t size, int device, void *stream)
{
    driver_alloc_fn_t alloc = (driver_alloc_fn_t)find("cuMemAlloc_v2");
    unsigned long long address = 0;
    (void)device;
    (void)stream;
    if (!alloc || (limit_bytes && live_bytes + size > limit_bytes) || alloc(&address, size) != 0) {
        return NULL;
    }
    alloc_count++;
    live_bytes += size;
    if (!smallest || size < smallest) {
        smallest = size;
    }
    return (void *)address;
}

void own_free(void *address, size_t size, int device, void *stream)
{
    driver_free_fn_t release = (driver_free_fn_t)find("cuMemFree_v2");
    (void)device;
    (void)stream;
    if (release && address) {
        release((unsigned long long)address);
    }
    free_count++;
    live_bytes -= size;
}

size_t own_alloc_count(void)
{
    return alloc_count;
}

size_t own_free_count(void)
{
    return free_count;
}

size_t own_live_bytes(void)
{
    return live_bytes;
}

size_t own_smallest(void)
{
    return smallest;
}

void own_set_limit(size_t bytes)
{
    limit_bytes = bytes;
}
