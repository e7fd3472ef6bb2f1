/*
 * lock: a mutual-exclusion lock that costs one atomic operation to take and one to release while
 * nobody else wants it. Threads that have to wait look a few times and then sleep in the kernel.
 *
 * Source: U. Drepper, "Futexes Are Tricky" (2011), the second mutex. Not recursive, not fair.
 */
#ifndef PLEAT_LOCK_H
#define PLEAT_LOCK_H

#include <stdatomic.h>

#include "../vmm/base.h"

typedef enum pleat_lock_state {
    PLEAT_LOCK_FREE,
    PLEAT_LOCK_HELD,
    PLEAT_LOCK_WANTED /* held, and somebody may sleep */
} pleat_lock_state_t;

/* All zero is a free lock; there is nothing to destroy. */
typedef struct pleat_lock {
    atomic_uint state; /* pleat_lock_state_t */
} pleat_lock_t;

/* Take a lock that is not free. */
void pleat_lock_wait(pleat_lock_t *lock);

/* Wake one thread that sleeps. */
void pleat_lock_wake(pleat_lock_t *lock);

static inline void pleat_lock_acquire(pleat_lock_t *lock)
{
    unsigned expected = PLEAT_LOCK_FREE;
    if (__builtin_expect(
            !atomic_compare_exchange_strong_explicit(&lock->state, &expected, PLEAT_LOCK_HELD,
                                                     memory_order_acquire, memory_order_relaxed),
            0)) {
        pleat_lock_wait(lock);
    }
}

static inline void pleat_lock_release(pleat_lock_t *lock)
{
    const unsigned state =
        atomic_exchange_explicit(&lock->state, PLEAT_LOCK_FREE, memory_order_release);
    PLEAT_ASSERT(state != PLEAT_LOCK_FREE);
    if (__builtin_expect(state == PLEAT_LOCK_WANTED, 0)) {
        pleat_lock_wake(lock);
    }
}

#endif
