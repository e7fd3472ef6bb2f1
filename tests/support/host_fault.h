/*
 * host_fault: makes an allocation of host memory fail, so that tests reach what follows.
 *
 * Works for code linked into the test program itself, when that is linked with
 * -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc (pleat_wrap_host_memory in tests/CMakeLists.txt).
 * Not for threads.
 */
#ifndef PLEAT_TEST_HOST_FAULT_H
#define PLEAT_TEST_HOST_FAULT_H

#include <stdint.h>

/* Let the nth allocation from now on (1: the next) fail, once; 0 removes a pending fault. */
void host_fault_after(uint64_t nth);

/* Calls of malloc, calloc and realloc so far. */
uint64_t host_fault_allocations(void);

#endif
