/*
 * Tests of lock: one at a time, and nobody sleeps for ever.
 */
#include "core/lock.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

enum { THREADS = 4, ROUNDS = 20000 };

typedef struct shared {
    pleat_lock_t lock;
    unsigned long count; /* only under the lock */
    atomic_uint inside;
    atomic_uint overlaps;
} shared_t;

static void *count_up(void *argument)
{
    shared_t *shared = argument;
    for (unsigned i = 0; i < ROUNDS; i++) {
        pleat_lock_acquire(&shared->lock);
        if (atomic_fetch_add(&shared->inside, 1) != 0) {
            atomic_fetch_add(&shared->overlaps, 1);
        }
        shared->count++;
        atomic_fetch_sub(&shared->inside, 1);
        pleat_lock_release(&shared->lock);
    }
    return NULL;
}

Test(lock, lets_one_in_at_a_time, .timeout = 30)
{
    static shared_t shared;
    pthread_t threads[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        cr_assert(eq(int, pthread_create(&threads[i], NULL, count_up, &shared), 0));
    }
    for (unsigned i = 0; i < THREADS; i++) {
        cr_assert(eq(int, pthread_join(threads[i], NULL), 0));
    }
    cr_expect(eq(ulong, shared.count, (unsigned long)THREADS * ROUNDS));
    cr_expect(eq(uint, atomic_load(&shared.overlaps), 0u));
    cr_expect(eq(uint, atomic_load(&shared.lock.state), (unsigned)PLEAT_LOCK_FREE));
}

static void *take_once(void *argument)
{
    shared_t *shared = argument;
    pleat_lock_acquire(&shared->lock);
    shared->count++;
    pleat_lock_release(&shared->lock);
    return NULL;
}

/* The holder keeps the lock until the others have given up looking and sleep. */
Test(lock, wakes_all_that_sleep, .timeout = 30)
{
    static shared_t shared;
    pthread_t threads[THREADS];
    pleat_lock_acquire(&shared.lock);
    for (unsigned i = 0; i < THREADS; i++) {
        cr_assert(eq(int, pthread_create(&threads[i], NULL, take_once, &shared), 0));
    }
    while (atomic_load(&shared.lock.state) != PLEAT_LOCK_WANTED) {
        (void)usleep(100);
    }
    (void)usleep(20000);
    cr_expect(eq(ulong, shared.count, 0ul));
    pleat_lock_release(&shared.lock);
    for (unsigned i = 0; i < THREADS; i++) {
        cr_assert(eq(int, pthread_join(threads[i], NULL), 0));
    }
    cr_expect(eq(ulong, shared.count, (unsigned long)THREADS));
}

#if PLEAT_CHECKS >= PLEAT_CHECKS_FAST
Test(lock, refuses_the_release_of_a_free_lock, .signal = SIGABRT, .timeout = 5)
{
    pleat_lock_t lock = {PLEAT_LOCK_FREE};
    pleat_lock_release(&lock);
}
#endif
