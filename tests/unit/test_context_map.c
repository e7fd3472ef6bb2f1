/*
 * Tests of context_map: tokens of blocks by address. A token is a counter of its references.
 */
#include "compat/context_map.h"
#include "fixture.h"
#include "host_fault.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

static void retain(void *context, void *token)
{
    (void)context;
    ++*(int *)token;
}

static void release(void *context, void *token)
{
    (void)context;
    --*(int *)token;
}

static const pleat_history_hooks_t hooks = {
    .size = sizeof hooks, .retain = retain, .release = release};

Test(context_map, keeps_one_token_an_address, .timeout = 5)
{
    int tokens[2] = {0, 0};
    pleat_context_map_t map;
    pleat_context_map_init(&map, &hooks);
    cr_expect(eq(ptr, pleat_context_map_find(&map, 512), NULL));
    pleat_context_map_set(&map, 512, NULL);
    pleat_context_map_set(&map, 0, &tokens[0]);
    cr_expect(eq(u64, map.used_count, 0));
    pleat_context_map_set(&map, 512, &tokens[0]);
    cr_expect(eq(ptr, pleat_context_map_find(&map, 512), &tokens[0]));
    cr_expect(eq(ptr, pleat_context_map_find(&map, 1024), NULL));
    pleat_context_map_set(&map, 512, &tokens[1]);
    cr_expect(eq(int, tokens[0], 0));
    cr_expect(eq(int, tokens[1], 1));
    pleat_context_map_set(&map, 512, NULL);
    cr_expect(eq(int, tokens[1], 0));
    pleat_context_map_set(&map, 512, &tokens[0]);
    pleat_context_map_fini(&map);
    cr_expect(eq(int, tokens[0], 0));
}

/* Against an array, with many collisions and removals. */
Test(context_map, agrees_with_an_array, .timeout = 20)
{
    enum { ADDRESSES = 3000 };
    static int tokens[ADDRESSES];
    static bool is_in[ADDRESSES];
    fixture_random_t random = {.state = 7};
    pleat_context_map_t map;
    pleat_context_map_init(&map, &hooks);
    for (int i = 0; i < 200000; i++) {
        const uint64_t k = fixture_random_below(&random, ADDRESSES);
        const pleat_devptr_t address = (UINT64_C(1) << 40) + k * 512;
        is_in[k] = !is_in[k];
        pleat_context_map_set(&map, address, is_in[k] ? &tokens[k] : NULL);
        const uint64_t other = fixture_random_below(&random, ADDRESSES);
        void *found = pleat_context_map_find(&map, (UINT64_C(1) << 40) + other * 512);
        cr_assert(eq(ptr, found, is_in[other] ? &tokens[other] : NULL));
    }
    for (size_t k = 0; k < ADDRESSES; k++) {
        cr_assert(eq(int, tokens[k], is_in[k]));
    }
    pleat_context_map_fini(&map);
    for (size_t k = 0; k < ADDRESSES; k++) {
        cr_assert(eq(int, tokens[k], 0));
    }
}

Test(context_map, without_host_memory_keeps_what_it_has, .timeout = 5)
{
    static int tokens[300];
    pleat_context_map_t map;
    pleat_context_map_init(&map, &hooks);
    host_fault_after(1);
    pleat_context_map_set(&map, 512, &tokens[0]);
    cr_expect(eq(ptr, pleat_context_map_find(&map, 512), NULL));
    for (uint64_t i = 1; i <= 128; i++) {
        pleat_context_map_set(&map, 512 * i, &tokens[i]);
    }
    host_fault_after(1);
    pleat_context_map_set(&map, UINT64_C(512) * 129, &tokens[129]);
    cr_expect(eq(int, tokens[129], 0));
    cr_expect(eq(ptr, pleat_context_map_find(&map, UINT64_C(512) * 128), &tokens[128]));
    host_fault_after(0);
    pleat_context_map_set(&map, UINT64_C(512) * 129, &tokens[129]);
    cr_expect(eq(int, tokens[129], 1));
    pleat_context_map_fini(&map);
    cr_expect(eq(int, tokens[129], 0));
}
