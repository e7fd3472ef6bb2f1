/*
 * Tests of check: each kind of corruption is found and named by its rule.
 */
#include "core/allocator.h"

#include "fixture.h"
#include "host_fault.h"

#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#define MIB(count) ((uint64_t)(count)*PLEAT_MIB)

/*
 * Small segment: live | free | waiting | live | free rest. Large segment: live | free rest.
 * Nothing here is destroyed after a corruption: each test is a process of its own.
 */
typedef struct scene {
    fixture_t f;
    pleat_block_t *live;
    pleat_block_t *free;
    pleat_block_t *waiting;
    pleat_block_t *large;
} scene_t;

static scene_t make_scene(void)
{
    scene_t scene = {.f = fixture_create(NULL)};
    const pleat_allocator_t *allocator = scene.f.allocator;
    pleat_devptr_t ptr[4];
    for (unsigned i = 0; i < 4; i++) {
        ptr[i] = fixture_alloc(&scene.f, 1024, 0);
    }
    const pleat_devptr_t large = fixture_alloc(&scene.f, MIB(5), 0);
    scene.live = pleat_address_map_find(&allocator->live, ptr[0]);
    scene.free = pleat_address_map_find(&allocator->live, ptr[1]);
    scene.waiting = pleat_address_map_find(&allocator->live, ptr[2]);
    scene.large = pleat_address_map_find(&allocator->live, large);
    fixture_set_busy(&scene.f, 1);
    fixture_record(&scene.f, ptr[2], 1);
    fixture_free(&scene.f, ptr[1]);
    fixture_free(&scene.f, ptr[2]);
    fixture_check(&scene.f);
    return scene;
}

/* A damaged allocator cannot be destroyed. It stays reachable from here, so that it is no leak. */
static volatile scene_t damaged;

/* Take a block out of the address map. */
static void unmap(pleat_allocator_t *allocator, const pleat_block_t *block)
{
    pleat_block_t **link = pleat_address_map_find_link(&allocator->live, block->address);
    cr_assert(ne(ptr, link, NULL));
    pleat_address_map_remove(&allocator->live, link);
}

/* The check fails, and its words begin with @p text. */
static void expect_found(const scene_t *scene, const char *text)
{
    damaged = *scene;
    cr_expect(eq(int, pleat_allocator_check(scene->f.allocator), PLEAT_ERR_INVALID), "%s", text);
    cr_expect(eq(int, strncmp(pleat_last_error(), text, strlen(text)), 0), "wanted '%s', got '%s'",
              text, pleat_last_error());
}

static void expect_words(const scene_t *scene, const char *rule, const char *words)
{
    expect_found(scene, rule);
    cr_expect(ne(ptr, strstr(pleat_last_error(), words), NULL), "wanted '%s', got '%s'", words,
              pleat_last_error());
}

Test(check, a_sound_allocator_passes, .timeout = 5)
{
    scene_t scene = make_scene();
    fixture_check_and_destroy(&scene.f);
}

Test(check, refuses_null, .timeout = 5)
{
    cr_expect(eq(int, pleat_allocator_check(NULL), PLEAT_ERR_INVALID));
    cr_expect(
        eq(str, (char *)pleat_last_error(), (char *)"pleat_allocator_check: allocator is NULL"));
}

Test(check, says_when_there_is_no_host_memory, .timeout = 5)
{
    scene_t scene = make_scene();
    host_fault_after(1);
    cr_expect(eq(int, pleat_allocator_check(scene.f.allocator), PLEAT_ERR_OOM_HOST));
    host_fault_after(0);
    fixture_check_and_destroy(&scene.f);
}

/* ---- A1, A2: tiling ---- */

Test(check, finds_an_odd_size, .timeout = 5)
{
    scene_t scene = make_scene();
    scene.live->bytes += 1;
    expect_words(&scene, "A1: block 0x", "size is no multiple of 512");
}

Test(check, finds_an_empty_block, .timeout = 5)
{
    scene_t scene = make_scene();
    scene.live->bytes = 0;
    expect_words(&scene, "A1: ", "size is no multiple of 512");
}

Test(check, finds_a_gap, .timeout = 5)
{
    scene_t scene = make_scene();
    scene.live->bytes -= 512;
    expect_words(&scene, "A1: ", "does not begin where it ends");
}

Test(check, finds_a_left_neighbour_that_does_not_link_back, .timeout = 5)
{
    scene_t scene = make_scene();
    scene.live->left = scene.large;
    expect_words(&scene, "A1: ", "its left neighbour does not link back");
}

Test(check, finds_a_right_neighbour_that_does_not_link_back, .timeout = 5)
{
    scene_t scene = make_scene();
    scene.free->left = NULL;
    expect_words(&scene, "A1: ", "its right neighbour does not link back");
}

Test(check, finds_a_neighbour_of_another_stream, .timeout = 5)
{
    scene_t scene = make_scene();
    scene.live->stream = 4;
    expect_words(&scene, "A1: ", "another stream, pool or range");
}

Test(check, finds_a_block_without_pool, .timeout = 5)
{
    pleat_pool_t other = {.kind = PLEAT_STAT_SMALL_POOL};
    scene_t scene = make_scene();
    scene.live->pool = &other;
    expect_words(&scene, "A1: ", "no pool of this allocator");
}

Test(check, finds_neighbours_that_should_be_one, .timeout = 5)
{
    scene_t scene = make_scene();
    scene.live->use = PLEAT_BLOCK_USE_FREE;
    expect_words(&scene, "A2: ", "its right neighbour is as free as it is");
}

/* ---- A3: free sets ---- */

Test(check, finds_a_free_block_outside_its_set, .timeout = 5)
{
    scene_t scene = make_scene();
    pleat_free_set_remove(scene.free);
    expect_words(&scene, "A3: ", "not in the set of its pool");
}

Test(check, finds_a_block_that_is_in_a_set_and_not_free, .timeout = 5)
{
    scene_t scene = make_scene();
    pleat_block_t stray = {.address = 512, .bytes = 512, .use = PLEAT_BLOCK_USE_FREE};
    stray.bins = scene.free->bins;
    pleat_free_set_insert(&stray);
    expect_found(&scene, "A3: free blocks of the small pool is reported as 3 and counts 2");
}

Test(check, finds_a_stray_block_in_the_large_set, .timeout = 5)
{
    scene_t scene = make_scene();
    pleat_block_t stray = {.address = 512, .bytes = 512, .use = PLEAT_BLOCK_USE_FREE};
    stray.bins = scene.large->bins;
    pleat_free_set_insert(&stray);
    expect_found(&scene, "A3: free blocks of the large pool is reported as 2 and counts 1");
}

Test(check, finds_a_broken_set, .timeout = 5)
{
    scene_t scene = make_scene();
    scene.f.allocator->large_pool.free_blocks.streams[0]->words[0] ^= 2;
    expect_found(&scene, "F1: ");
}

Test(check, finds_a_broken_small_set, .timeout = 5)
{
    scene_t scene = make_scene();
    scene.f.allocator->small_pool.free_blocks.streams[0]->words[20] ^= 2;
    expect_found(&scene, "F1: ");
}

/* ---- A4: address map ---- */

Test(check, finds_a_live_block_that_has_no_address, .timeout = 5)
{
    scene_t scene = make_scene();
    unmap(scene.f.allocator, scene.live);
    expect_words(&scene, "A4: ", "its address does not lead to it");
}

Test(check, finds_an_address_without_a_live_block, .timeout = 5)
{
    scene_t scene = make_scene();
    pleat_address_map_insert(&scene.f.allocator->live, scene.free);
    expect_found(&scene, "A4: live addresses is reported as 4 and counts 3");
}

/* ---- A5: counters ---- */

Test(check, finds_a_request_that_exceeds_its_block, .timeout = 5)
{
    scene_t scene = make_scene();
    scene.live->requested_bytes = 1025;
    expect_words(&scene, "A5: ", "more was requested than it has");
}

Test(check, finds_held_bytes_that_are_not_there, .timeout = 5)
{
    scene_t scene = make_scene();
    scene.f.allocator->held_bytes -= 512;
    expect_found(&scene, "A5: held_bytes is reported as ");
}

#define FINDS_A_WRONG_COUNTER(counter)                                  \
    Test(check, finds_a_wrong_##counter, .timeout = 5)                  \
    {                                                                   \
        for (unsigned kind = 0; kind < PLEAT_STAT_KIND_COUNT; kind++) { \
            scene_t scene = make_scene();                               \
            scene.f.allocator->stats.counter[kind].current += 1;        \
            expect_words(&scene, "A5: ", #counter);                     \
            scene.f.allocator->stats.counter[kind].current -= 1;        \
            fixture_check_and_destroy(&scene.f);                        \
        }                                                               \
    }
FINDS_A_WRONG_COUNTER(allocation)
FINDS_A_WRONG_COUNTER(segment)
FINDS_A_WRONG_COUNTER(active)
FINDS_A_WRONG_COUNTER(inactive_split)
FINDS_A_WRONG_COUNTER(allocated_bytes)
FINDS_A_WRONG_COUNTER(reserved_bytes)
FINDS_A_WRONG_COUNTER(active_bytes)
FINDS_A_WRONG_COUNTER(inactive_split_bytes)
FINDS_A_WRONG_COUNTER(requested_bytes)

/* ---- A6: waiting ---- */

Test(check, finds_a_waiting_block_without_events, .timeout = 5)
{
    scene_t scene = make_scene();
    scene.waiting->event_count = 0;
    expect_words(&scene, "A6: ", "waits without a pending event");
}

Test(check, finds_events_that_nobody_counts, .timeout = 5)
{
    scene_t scene = make_scene();
    scene.waiting->event_count = 2;
    expect_found(&scene, "A6: queued events is reported as 1 and counts 2");
}

Test(check, finds_a_live_block_with_events, .timeout = 5)
{
    scene_t scene = make_scene();
    scene.large->event_count = 1;
    expect_words(&scene, "A6: ", "it is live and has pending events");
}

Test(check, finds_a_free_block_with_events, .timeout = 5)
{
    scene_t scene = make_scene();
    scene.free->event_count = 1;
    expect_words(&scene, "A6: ", "it is free but has uses or pending events");
}

Test(check, finds_a_queued_event_of_a_block_that_does_not_wait, .timeout = 5)
{
    scene_t scene = make_scene();
    scene.f.allocator->waiting.active->first->block = scene.live;
    expect_words(&scene, "A6: ", "an event is queued but it does not wait");
}

Test(check, finds_a_queue_that_nobody_visits, .timeout = 5)
{
    scene_t scene = make_scene();
    scene.f.allocator->waiting.active = NULL;
    expect_found(&scene, "A6: queues to visit is reported as 0 and counts 1");
}

Test(check, finds_a_wrong_number_of_waits, .timeout = 5)
{
    scene_t scene = make_scene();
    scene.f.allocator->waiting.wait_count = 2;
    scene.waiting->event_count = 2;
    expect_found(&scene, "A6: waits is reported as 2 and counts 1");
}

/* ---- A7: extents ---- */

Test(check, finds_segments_that_overlap, .timeout = 5)
{
    scene_t scene = make_scene();
    pleat_allocator_t *allocator = scene.f.allocator;
    /* Lay the large segment over the small one, everything else in order. */
    const pleat_devptr_t target = scene.live->address + 512;
    pleat_block_t *rest = scene.large->right;
    unmap(allocator, scene.large);
    pleat_free_set_remove(rest);
    scene.large->address = target;
    rest->address = target + scene.large->bytes;
    pleat_free_set_insert(rest);
    pleat_address_map_insert(&allocator->live, scene.large);
    expect_found(&scene, "A7: the segments at ");
}

/* ---- M1: what cannot go back, and mappings ---- */

Test(check, finds_a_wrong_count_of_bytes_that_cannot_go_back, .timeout = 5)
{
    scene_t scene = make_scene();
    scene.f.allocator->stats.unreturnable_bytes += 512;
    expect_found(&scene, "M1: bytes that cannot go back is reported as ");
}

Test(check, finds_a_wrong_count_of_mappings, .timeout = 5)
{
    scene_t scene = make_scene();
    scene.f.allocator->stats.mappings++;
    expect_found(&scene, "M1: mappings is reported as 1 and counts 0");
}
