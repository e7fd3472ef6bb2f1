/*
 * Tests of experiments/lib/home_entries: what an observer is told of memory in second ranges.
 */
#include "home_entries.h"

#include "host_fault.h"
#include "pleated_bench.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>


typedef struct seen {
    pleat_trace_entry_t entries[64];
    size_t count;
} seen_t;

static void see(void *context, const pleat_trace_entry_t *entry)
{
    seen_t *seen = context;
    seen->entries[seen->count++] = *entry;
}

/* Blocks of 16 MiB, of which the first and the third are freed. */
static fixture_t with_gaps(pleat_devptr_t *p)
{
    fixture_t f = bench_create(256, NULL);
    for (unsigned i = 0; i < 4; i++) {
        p[i] = fixture_alloc(&f, MIB(16), 0);
    }
    fixture_free(&f, p[0]);
    fixture_free(&f, p[2]);
    return f;
}

static void expect_parts(const seen_t *seen, size_t first, pleat_action_t action,
                         const pleat_devptr_t *p)
{
    const pleat_trace_entry_t *a = &seen->entries[first];
    const pleat_trace_entry_t *b = &seen->entries[first + 1];
    cr_expect(eq(int, (int)a->action, (int)action));
    cr_expect(eq(int, (int)b->action, (int)action));
    cr_expect(eq(u64, a->bytes + b->bytes, MIB(32) - 5));
    cr_expect(a->address == p[0] || a->address == p[2]);
    cr_expect(b->address == p[0] || b->address == p[2]);
    cr_expect(ne(u64, a->address, b->address));
}

Test(home_entries, tell_of_each_part, .timeout = 5)
{
    pleat_devptr_t p[4];
    seen_t seen = {.count = 0};
    pleat_home_entries_t entries;
    fixture_t f = with_gaps(p);
    pleat_home_entries_init(&entries, f.allocator, see, &seen);
    for (int round = 0; round < 2; round++) {
        seen.count = 0;
        const pleat_devptr_t joined = fixture_alloc(&f, MIB(32) - 5, 0);
        cr_assert(eq(sz, seen.count, 2));
        expect_parts(&seen, 0, PLEAT_ACTION_ALLOC, p);
        fixture_free(&f, joined);
        cr_assert(eq(sz, seen.count, 6));
        expect_parts(&seen, 2, PLEAT_ACTION_FREE_REQUESTED, p);
        expect_parts(&seen, 4, PLEAT_ACTION_FREE_COMPLETED, p);
    }
    seen.count = 0;
    fixture_free(&f, p[1]); /* at home: as it is */
    cr_assert(eq(sz, seen.count, 2));
    cr_expect(eq(u64, seen.entries[0].address, p[1]));
    cr_expect(eq(u64, seen.entries[0].bytes, MIB(16)));
    pleat_set_observer(f.allocator, NULL, NULL);
    pleat_home_entries_fini(&entries);
    fixture_check_and_destroy(&f);
}

Test(home_entries, without_host_memory_tell_of_the_whole, .timeout = 5)
{
    pleat_devptr_t p[4];
    fixture_t f = with_gaps(p);
    fixture_free(&f, fixture_alloc(&f, MIB(32) - 5, 0)); /* the second range is there */
    for (uint64_t nth = 1; nth <= 3; nth++) {
        seen_t seen = {.count = 0};
        pleat_home_entries_t entries;
        pleat_home_entries_init(&entries, f.allocator, see, &seen);
        host_fault_after(nth);
        const pleat_devptr_t joined = fixture_alloc(&f, MIB(32) - 5, 0);
        host_fault_after(0);
        cr_assert(eq(sz, seen.count, 1), "fault %llu", (unsigned long long)nth);
        cr_expect(eq(u64, seen.entries[0].address, joined));
        fixture_free(&f, joined);
        cr_expect(eq(sz, seen.count, 3));
        pleat_set_observer(f.allocator, NULL, NULL);
        pleat_home_entries_fini(&entries);
    }
    fixture_check_and_destroy(&f);
}
