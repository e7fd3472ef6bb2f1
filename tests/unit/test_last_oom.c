/*
 * Tests of last_oom: a thread reads its own failure, whatever others and other allocators do.
 */
#include "core/last_oom.h"

#include "fixture.h"

#include <pthread.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#define MIB(count) ((uint64_t)(count)*PLEAT_MIB)

static void fail_alloc(const fixture_t *f, uint64_t bytes)
{
    pleat_devptr_t ptr = 0;
    cr_assert(eq(int, pleat_alloc(f->allocator, bytes, 0, &ptr), PLEAT_ERR_OOM_DEVICE));
}

static uint64_t requested_of(const fixture_t *f)
{
    pleat_oom_info_t info = PLEAT_OOM_INFO_INIT;
    pleat_read_last_oom(f->allocator, &info);
    return info.requested_bytes;
}

static void *fail_in_a_thread(void *context)
{
    const fixture_t *f = context;
    cr_expect(eq(u64, requested_of(f), MIB(70)), "of another thread, for want of its own");
    fail_alloc(f, MIB(90));
    cr_expect(eq(u64, requested_of(f), MIB(90)));
    return NULL;
}

Test(last_oom, of_another_thread_does_not_come_between, .timeout = 5)
{
    fixture_t f = fixture_create(&(fixture_options_t){.capacity_bytes = MIB(64)});
    fail_alloc(&f, MIB(70));
    pthread_t thread;
    cr_assert(eq(int, pthread_create(&thread, NULL, fail_in_a_thread, &f), 0));
    cr_assert(eq(int, pthread_join(thread, NULL), 0));
    cr_expect(eq(u64, requested_of(&f), MIB(70)));
    fail_alloc(&f, MIB(80));
    cr_expect(eq(u64, requested_of(&f), MIB(80)));
    fixture_check_and_destroy(&f);
}

Test(last_oom, of_another_allocator_is_not_taken, .timeout = 5)
{
    fixture_t f = fixture_create(&(fixture_options_t){.capacity_bytes = MIB(64)});
    fixture_t g = fixture_create(&(fixture_options_t){.capacity_bytes = MIB(64)});
    fail_alloc(&f, MIB(70));
    cr_expect(eq(u64, requested_of(&g), 0));
    fail_alloc(&g, MIB(80));
    cr_expect(eq(u64, requested_of(&f), MIB(70)));
    cr_expect(eq(u64, requested_of(&g), MIB(80)));
    fixture_check_and_destroy(&g);
    /* At the same place, most likely; in any case a new one. */
    fixture_t next = fixture_create(&(fixture_options_t){.capacity_bytes = MIB(64)});
    cr_expect(eq(u64, requested_of(&next), 0));
    fixture_check_and_destroy(&next);
    fixture_check_and_destroy(&f);
}
