/*
 * fake_control: the controls of the simulated driver (fake_cuda.h) at TEST_LIBRARY, for the tests
 * of what opens it by itself.
 */
#ifndef PLEAT_TEST_FAKE_CONTROL_H
#define PLEAT_TEST_FAKE_CONTROL_H

#include "fake_cuda.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static inline void fake_control(const char *name, void *pointer_out)
{
    void *library = dlopen(TEST_LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    void *symbol = library == NULL ? NULL : dlsym(library, name);
    if (symbol == NULL) {
        abort();
    }
    memcpy(pointer_out, &symbol, sizeof symbol);
    (void)dlclose(library);
}

static inline void fake_fail(const char *name, uint64_t nth, unsigned code)
{
    fake_cuda_fail_fn_t function = NULL;
    fake_control("fake_cuda_fail", (void *)&function);
    function(name, nth, code);
}

static inline void fake_set(const char *name, uint64_t value)
{
    fake_cuda_set_fn_t function = NULL;
    fake_control("fake_cuda_set", (void *)&function);
    function(name, value);
}

static inline uint64_t fake_contexts(void)
{
    fake_cuda_contexts_fn_t function = NULL;
    fake_control("fake_cuda_contexts", (void *)&function);
    return function();
}

#endif
