/*
 * host_fault: stand-ins for the allocation functions, put there by the linker's --wrap.
 */
#include "host_fault.h"

#include <stdbool.h>
#include <stddef.h>

/* Names that --wrap gives to the true functions and looks for in their place. */
void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *pointer, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *pointer, size_t bytes);

static uint64_t countdown;
static uint64_t allocations;

void host_fault_after(uint64_t nth)
{
    countdown = nth;
}

uint64_t host_fault_allocations(void)
{
    return allocations;
}

static bool is_struck(void)
{
    allocations++;
    if (countdown == 0) {
        return false;
    }
    countdown--;
    return countdown == 0;
}

void *__wrap_malloc(size_t bytes)
{
    return is_struck() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return is_struck() ? NULL : __real_calloc(count, bytes);
}

void *__wrap_realloc(void *pointer, size_t bytes)
{
    return is_struck() ? NULL : __real_realloc(pointer, bytes);
}
