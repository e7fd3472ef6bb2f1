/*
 * Tests of history_ring: growth, overwriting, changes of the maximum. Entries are told apart by
 * their bytes: 1, 2, 3 and so on.
 */
#include "compat/history_ring.h"
#include "host_fault.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

static void push(pleat_history_ring_t *ring, uint64_t first, uint64_t last)
{
    for (uint64_t i = first; i <= last; i++) {
        bool is_old = false;
        pleat_history_entry_t *place = pleat_history_ring_place(ring, &is_old);
        cr_assert(ne(ptr, place, NULL));
        cr_expect(eq(int, is_old, place->bytes != 0));
        *place = (pleat_history_entry_t){.bytes = i};
    }
}

static void expect_entries(const pleat_history_ring_t *ring, size_t count, const uint64_t *want)
{
    pleat_history_entry_t entries[64];
    cr_assert(eq(u64, ring->count, count));
    pleat_history_ring_copy(ring, entries);
    for (size_t i = 0; i < count; i++) {
        cr_expect(eq(u64, entries[i].bytes, want[i]), "entry %zu", i);
    }
}
#define EXPECT_ENTRIES(ring, ...)                                              \
    expect_entries(ring, sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t), \
                   (const uint64_t[]){__VA_ARGS__})

/* New places count as empty in push. */
static pleat_history_ring_t ring_of(uint64_t max_count)
{
    static pleat_history_entry_t zeros[64];
    pleat_history_ring_t ring;
    pleat_history_ring_init(&ring);
    pleat_history_ring_set_max(&ring, max_count);
    ring.entries = calloc(64, sizeof zeros[0]);
    ring.capacity = 64;
    return ring;
}

Test(history_ring, overwrites_the_oldest_when_it_is_full, .timeout = 5)
{
    pleat_history_ring_t ring = ring_of(3);
    push(&ring, 1, 2);
    EXPECT_ENTRIES(&ring, 1, 2);
    cr_expect(eq(u64, ring.lost_count, 0));
    push(&ring, 3, 5);
    EXPECT_ENTRIES(&ring, 3, 4, 5);
    cr_expect(eq(u64, ring.lost_count, 2));
    push(&ring, 6, 6);
    EXPECT_ENTRIES(&ring, 4, 5, 6);
    pleat_history_ring_fini(&ring);
}

Test(history_ring, a_maximum_of_nothing_is_one, .timeout = 5)
{
    pleat_history_ring_t ring = ring_of(0);
    push(&ring, 1, 3);
    EXPECT_ENTRIES(&ring, 3);
    pleat_history_ring_fini(&ring);
}

Test(history_ring, a_lower_maximum_keeps_what_is_there, .timeout = 5)
{
    pleat_history_ring_t ring = ring_of(6);
    push(&ring, 1, 8);
    EXPECT_ENTRIES(&ring, 3, 4, 5, 6, 7, 8);
    pleat_history_ring_set_max(&ring, 2);
    EXPECT_ENTRIES(&ring, 3, 4, 5, 6, 7, 8);
    push(&ring, 9, 9);
    EXPECT_ENTRIES(&ring, 4, 5, 6, 7, 8, 9);
    push(&ring, 10, 10);
    EXPECT_ENTRIES(&ring, 5, 6, 7, 8, 9, 10);
    push(&ring, 11, 11); /* from here on two places take all */
    EXPECT_ENTRIES(&ring, 5, 6, 7, 8, 10, 11);
    push(&ring, 12, 12);
    EXPECT_ENTRIES(&ring, 5, 6, 7, 8, 11, 12);
    pleat_history_ring_set_max(&ring, 8);
    push(&ring, 13, 15);
    EXPECT_ENTRIES(&ring, 6, 7, 8, 11, 12, 13, 14, 15);
    cr_expect(eq(u64, ring.lost_count, 7));
    pleat_history_ring_fini(&ring);
}

Test(history_ring, changing_the_maximum_in_the_middle_of_a_lap_keeps_the_order, .timeout = 5)
{
    pleat_history_ring_t ring = ring_of(6);
    push(&ring, 1, 6);
    pleat_history_ring_set_max(&ring, 3);
    push(&ring, 7, 7 + 3); /* one lap and one */
    EXPECT_ENTRIES(&ring, 4, 5, 6, 8, 9, 10);
    pleat_history_ring_set_max(&ring, 4);
    EXPECT_ENTRIES(&ring, 4, 5, 6, 8, 9, 10);
    push(&ring, 11, 12);
    EXPECT_ENTRIES(&ring, 6, 8, 9, 10, 11, 12);
    pleat_history_ring_fini(&ring);
}

Test(history_ring, grows_to_any_maximum, .timeout = 5)
{
    pleat_history_ring_t ring;
    pleat_history_ring_init(&ring);
    pleat_history_ring_set_max(&ring, UINT64_MAX);
    bool is_old = true;
    for (uint64_t i = 0; i < 100000; i++) {
        pleat_history_entry_t *place = pleat_history_ring_place(&ring, &is_old);
        cr_assert(ne(ptr, place, NULL));
        cr_assert(not(is_old));
        place->bytes = i;
    }
    cr_expect(eq(u64, ring.count, 100000));
    cr_expect(eq(u64, ring.entries[99999].bytes, 99999));
    pleat_history_ring_clear(&ring);
    cr_expect(eq(u64, ring.count, 0));
    cr_expect(eq(u64, ring.max_count, UINT64_MAX));
    pleat_history_ring_fini(&ring);
}

Test(history_ring, without_host_memory_an_entry_is_lost, .timeout = 5)
{
    pleat_history_ring_t ring;
    pleat_history_ring_init(&ring);
    pleat_history_ring_set_max(&ring, 10);
    bool is_old = false;
    host_fault_after(1);
    cr_expect(eq(ptr, pleat_history_ring_place(&ring, &is_old), NULL));
    cr_expect(eq(u64, ring.lost_count, 1));
    cr_expect(eq(u64, ring.count, 0));
    cr_expect(ne(ptr, pleat_history_ring_place(&ring, &is_old), NULL));
    cr_expect(eq(u64, ring.count, 1));
    pleat_history_ring_fini(&ring);
}
