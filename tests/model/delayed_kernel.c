/*
 * delayed_kernel: patterns and faults.
 */
#include "delayed_kernel.h"

#include "fixture.h"

#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>

/* A kernel touches its first and last word, and the words at multiples of a stride of the address.
 * Mappings begin at multiples of the granularity, so that all addresses of a piece of memory agree
 * about these. */
#define STRIDE_LARGE (256 * PLEAT_KIB)
#define STRIDE_SMALL (32 * PLEAT_KIB)
#define LARGE_BYTES (1 * PLEAT_MIB)

static sigjmp_buf fault_return;
static volatile sig_atomic_t is_in_kernel;

static void kernel_on_fault(int signal_number)
{
    if (is_in_kernel) {
        siglongjmp(fault_return, 1);
    }
    (void)signal(signal_number, SIG_DFL); /* not a kernel's: the fault repeats and ends us */
}

void delayed_kernel_catch_faults(void)
{
    struct sigaction action = {.sa_handler = kernel_on_fault, .sa_flags = SA_NODEFER};
    (void)sigemptyset(&action.sa_mask);
    FIXTURE_REQUIRE(sigaction(SIGSEGV, &action, NULL) == 0, "sigaction");
    FIXTURE_REQUIRE(sigaction(SIGBUS, &action, NULL) == 0, "sigaction");
}

static uint64_t kernel_word(const delayed_kernel_t *kernel, pleat_devptr_t at)
{
    return ((uint64_t)kernel->id << 40) | ((uint64_t)kernel->version << 32) |
           (uint32_t)((at - kernel->address) >> 3);
}

/* Write or read one word; what is there then. */
static uint64_t kernel_touch(const delayed_kernel_t *kernel, pleat_devptr_t at)
{
    volatile uint64_t *word = (volatile uint64_t *)(uintptr_t)at;
    if (!kernel->is_check) {
        *word = kernel_word(kernel, at);
    }
    return *word;
}

/* Touch all words; the address of the first one that is wrong, 0 if none is. */
static pleat_devptr_t kernel_walk(const delayed_kernel_t *kernel, uint64_t *found_out)
{
    const uint64_t stride = kernel->bytes > LARGE_BYTES ? STRIDE_LARGE : STRIDE_SMALL;
    const pleat_devptr_t last = kernel->address + (kernel->bytes & ~UINT64_C(7)) - 8;
    pleat_devptr_t at = kernel->address;
    pleat_devptr_t next = pleat_align_up(at + 1, stride);
    for (;;) {
        *found_out = kernel_touch(kernel, at);
        if (*found_out != kernel_word(kernel, at)) {
            return at;
        }
        if (at >= last) {
            return 0;
        }
        at = next < last ? next : last;
        next += stride;
    }
}

bool delayed_kernel_run(const delayed_kernel_t *kernel, char *text, size_t text_bytes)
{
    if (sigsetjmp(fault_return, 0) != 0) {
        is_in_kernel = 0;
        (void)snprintf(
            text, text_bytes, "a fault in %s a%" PRIu32 " at 0x%" PRIx64 " of %" PRIu64 " bytes",
            kernel->is_check ? "reading" : "writing", kernel->id, kernel->address, kernel->bytes);
        return false;
    }
    is_in_kernel = 1;
    uint64_t found = 0;
    const pleat_devptr_t at = kernel_walk(kernel, &found);
    is_in_kernel = 0;
    if (at != 0) {
        (void)snprintf(text, text_bytes,
                       "wrong bytes in a%" PRIu32 " at 0x%" PRIx64 " + %" PRIu64 ": what a%" PRIu64
                       " wrote (version %" PRIu64 ", expected %" PRIu32 ")",
                       kernel->id, kernel->address, at - kernel->address, found >> 40,
                       (found >> 32) & 0xff, kernel->version);
    }
    return at == 0;
}
