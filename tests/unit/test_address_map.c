/*
 * Tests of address_map: look-up, growth, removal from runs of colliding entries.
 */
#include "core/address_map.h"

#include "fixture.h"
#include "host_fault.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

static void remove_at(pleat_address_map_t *map, pleat_devptr_t address)
{
    pleat_block_t **link = pleat_address_map_find_link(map, address);
    cr_assert(ne(ptr, link, NULL));
    pleat_address_map_remove(map, link);
}

static void insert(pleat_address_map_t *map, pleat_block_t *block)
{
    cr_assert(pleat_address_map_reserve(map));
    pleat_address_map_insert(map, block);
}

Test(address_map, finds_nothing_in_an_empty_map, .timeout = 5)
{
    pleat_address_map_t map = {0};
    cr_expect(eq(ptr, pleat_address_map_find(&map, 512), NULL));
    cr_expect(eq(ptr, pleat_address_map_find(&map, 0), NULL));
    cr_assert(pleat_address_map_reserve(&map));
    cr_expect(eq(ptr, pleat_address_map_find(&map, 512), NULL));
    cr_expect(eq(ptr, pleat_address_map_find(&map, 0), NULL));
    pleat_address_map_fini(&map);
}

Test(address_map, grows_and_keeps_every_entry, .timeout = 10)
{
    enum { COUNT = 20000 };
    static pleat_block_t blocks[COUNT];
    pleat_address_map_t map = {0};
    for (size_t i = 0; i < COUNT; i++) {
        blocks[i].address = 512 * (i + 1);
        insert(&map, &blocks[i]);
        cr_assert(map.used_count <= map.bucket_count);
    }
    cr_expect(eq(sz, map.used_count, COUNT));
    for (size_t i = 0; i < COUNT; i++) {
        cr_assert(eq(ptr, pleat_address_map_find(&map, blocks[i].address), &blocks[i]));
        cr_assert(eq(ptr, pleat_address_map_find(&map, blocks[i].address + 1), NULL));
    }
    for (size_t i = 0; i < COUNT; i++) {
        remove_at(&map, blocks[i].address);
    }
    cr_expect(eq(sz, map.used_count, 0));
    for (size_t i = 0; i < map.bucket_count; i++) {
        cr_assert(eq(ptr, map.buckets[i], NULL));
    }
    pleat_address_map_fini(&map);
    cr_expect(eq(sz, map.bucket_count, 0));
}

/* Addresses less than 512 bytes apart share a bucket. */
Test(address_map, removes_from_anywhere_in_a_chain, .timeout = 5)
{
    enum { COUNT = 40 };
    for (size_t first = 0; first < COUNT; first++) {
        pleat_block_t blocks[COUNT] = {{0}};
        pleat_address_map_t map = {0};
        for (size_t i = 0; i < COUNT; i++) {
            blocks[i].address = 512 * (7 + i % 3) + i + 1;
            insert(&map, &blocks[i]);
        }
        for (size_t gone = 0; gone < COUNT; gone++) {
            remove_at(&map, blocks[(first + gone * 7) % COUNT].address);
            for (size_t i = 0; i < COUNT; i++) {
                bool is_gone = false;
                for (size_t j = 0; j <= gone; j++) {
                    is_gone |= (first + j * 7) % COUNT == i;
                }
                cr_assert(eq(ptr, pleat_address_map_find(&map, blocks[i].address),
                             is_gone ? NULL : &blocks[i]));
            }
        }
        pleat_address_map_fini(&map);
    }
}

Test(address_map, agrees_with_a_list_on_random_calls, .timeout = 20)
{
    enum { COUNT = 1500 };
    static pleat_block_t blocks[COUNT];
    static bool is_in[COUNT];
    pleat_address_map_t map = {0};
    fixture_random_t random = {.state = 3};
    for (size_t i = 0; i < COUNT; i++) {
        blocks[i].address = UINT64_C(0x700000000000) + 512 * i * (1 + i % 5 * 4096);
    }
    for (size_t i = 0; i < COUNT; i++) {
        for (size_t j = 0; j < i; j++) {
            if (blocks[i].address == blocks[j].address) {
                blocks[i].address += UINT64_C(1) << 46;
            }
        }
    }
    size_t count = 0;
    for (unsigned round = 0; round < 200000; round++) {
        const size_t i = fixture_random_below(&random, COUNT);
        cr_assert(
            eq(ptr, pleat_address_map_find(&map, blocks[i].address), is_in[i] ? &blocks[i] : NULL));
        if (is_in[i]) {
            remove_at(&map, blocks[i].address);
            count--;
        } else {
            insert(&map, &blocks[i]);
            count++;
        }
        is_in[i] = !is_in[i];
        cr_assert(eq(sz, map.used_count, count));
    }
    pleat_address_map_fini(&map);
}

Test(address_map, keeps_its_entries_without_host_memory, .timeout = 5)
{
    pleat_address_map_t map = {0};
    host_fault_after(1);
    cr_expect(not(pleat_address_map_reserve(&map)));
    cr_expect(eq(sz, map.bucket_count, 0));

    static pleat_block_t blocks[4096];
    size_t count = 0;
    bool has_failed = false;
    while (!has_failed) {
        host_fault_after(count > 0 ? 1 : 0);
        has_failed = !pleat_address_map_reserve(&map);
        host_fault_after(0);
        if (!has_failed) {
            blocks[count].address = 512 * (count + 1);
            pleat_address_map_insert(&map, &blocks[count]);
            count++;
        }
    }
    cr_expect(eq(sz, map.used_count, count));
    for (size_t i = 0; i < count; i++) {
        cr_assert(eq(ptr, pleat_address_map_find(&map, blocks[i].address), &blocks[i]));
    }
    pleat_address_map_fini(&map);
}
