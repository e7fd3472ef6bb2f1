/*
 * lock: waiting and waking, with the kernel's futex.
 */
#include "lock.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Looks at a held lock before sleeping: about as long as the allocator's calls take. */
#define LOOKS_BEFORE_SLEEP 100

static void lock_futex(pleat_lock_t *lock, int operation, unsigned value)
{
    /* A wake-up without reason, a signal or a changed state all mean: look again. */
    (void)syscall(SYS_futex, &lock->state, operation, value, NULL, NULL, 0);
}

void pleat_lock_wait(pleat_lock_t *lock)
{
    for (int i = 0; i < LOOKS_BEFORE_SLEEP; i++) {
        unsigned expected = PLEAT_LOCK_FREE;
        if (atomic_load_explicit(&lock->state, memory_order_relaxed) == PLEAT_LOCK_FREE &&
            atomic_compare_exchange_weak_explicit(&lock->state, &expected, PLEAT_LOCK_HELD,
                                                  memory_order_acquire, memory_order_relaxed)) {
            return;
        }
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#endif
    }
    /* From here on the lock is taken as wanted, because others may sleep as well. */
    while (atomic_exchange_explicit(&lock->state, PLEAT_LOCK_WANTED, memory_order_acquire) !=
           PLEAT_LOCK_FREE) {
        lock_futex(lock, FUTEX_WAIT_PRIVATE, PLEAT_LOCK_WANTED);
    }
}

void pleat_lock_wake(pleat_lock_t *lock)
{
    lock_futex(lock, FUTEX_WAKE_PRIVATE, 1);
}
