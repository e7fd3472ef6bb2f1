/*
 * delayed_kernel: what tests run on a device with real memory in place of a kernel: it fills memory
 * with a pattern or checks that the pattern is there. A fault on the way is caught and told.
 */
#ifndef PLEAT_TEST_DELAYED_KERNEL_H
#define PLEAT_TEST_DELAYED_KERNEL_H

#include <pleat/base.h>

typedef struct delayed_kernel {
    pleat_devptr_t address;
    uint64_t bytes;   /* at least 8 */
    uint32_t id;      /* of the allocation; the pattern names it */
    uint32_t version; /* below 256 */
    bool is_check;
} delayed_kernel_t;

/* From now on a kernel that touches memory which is not there fails; the process goes on. */
void delayed_kernel_catch_faults(void);

/* Run a kernel. False and a text: it found other bytes, or no memory. Not for threads. */
PLEAT_NODISCARD bool delayed_kernel_run(const delayed_kernel_t *kernel, char *text,
                                        size_t text_bytes);

#endif
