/*
 * test_number_map: the map against a plain array, and failing host memory.
 */
#include "number_map.h"

#include "host_fault.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

enum { KEYS = 512, STEPS = 40000 };

Test(number_map, behaves_like_an_array)
{
    pleat_number_map_t map = {0};
    uint32_t expected[KEYS];
    uint64_t state = 1;
    for (uint32_t i = 0; i < KEYS; i++) {
        expected[i] = PLEAT_NUMBER_MAP_NONE;
    }
    for (uint32_t step = 0; step < STEPS; step++) {
        state = state * UINT64_C(6364136223846793005) + 1;
        const uint32_t index = (uint32_t)(state >> 40) % KEYS;
        /* Some keys share their low bits, some their high ones. */
        const uint64_t key = index % 2 == 0 ? (uint64_t)index << 40 : index;
        cr_assert(eq(u32, pleat_number_map_find(&map, key), expected[index]));
        if ((state >> 60) % 2 == 0) {
            cr_assert(pleat_number_map_set(&map, key, step));
            expected[index] = step;
        } else {
            pleat_number_map_remove(&map, key);
            expected[index] = PLEAT_NUMBER_MAP_NONE;
        }
    }
    size_t used = 0;
    for (uint32_t i = 0; i < KEYS; i++) {
        used += expected[i] != PLEAT_NUMBER_MAP_NONE;
    }
    cr_expect(eq(sz, map.used_count, used));
    pleat_number_map_fini(&map);
    cr_expect(eq(u32, pleat_number_map_find(&map, 0), PLEAT_NUMBER_MAP_NONE));
    pleat_number_map_remove(&map, 0);
}

Test(number_map, lack_of_host_memory_changes_nothing)
{
    pleat_number_map_t map = {0};
    host_fault_after(1);
    cr_expect(not(pleat_number_map_set(&map, 1, 1)));
    for (uint32_t i = 0; i < 48; i++) {
        cr_assert(pleat_number_map_set(&map, i, i));
    }
    host_fault_after(1);
    cr_expect(not(pleat_number_map_set(&map, 48, 48)));
    host_fault_after(0);
    cr_expect(eq(u32, pleat_number_map_find(&map, 47), 47));
    cr_expect(eq(u32, pleat_number_map_find(&map, 48), PLEAT_NUMBER_MAP_NONE));
    pleat_number_map_fini(&map);
}
