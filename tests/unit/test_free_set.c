/*
 * Tests of free_set: best fit and order, against a sorted array.
 */
#include "core/free_set.h"

#include "fixture.h"
#include "host_fault.h"

#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

enum { BLOCK_COUNT = 400 };

typedef struct sorted {
    pleat_block_t *blocks[BLOCK_COUNT];
    size_t count;
} sorted_t;

static pleat_free_bins_t *reserve(pleat_free_set_t *set, pleat_stream_t stream)
{
    pleat_free_bins_t *bins = pleat_free_set_reserve(set, stream);
    cr_assert(ne(ptr, bins, NULL));
    return bins;
}

static bool precedes(const pleat_block_t *a, pleat_stream_t stream, uint64_t bytes,
                     pleat_devptr_t address)
{
    if (a->stream != stream) {
        return a->stream < stream;
    }
    return a->bytes != bytes ? a->bytes < bytes : a->address < address;
}

/* Index of the first block that is not before the key. */
static size_t sorted_index(const sorted_t *sorted, pleat_stream_t stream, uint64_t bytes,
                           pleat_devptr_t address)
{
    size_t index = 0;
    while (index < sorted->count && precedes(sorted->blocks[index], stream, bytes, address)) {
        index++;
    }
    return index;
}

static void sorted_insert(sorted_t *sorted, pleat_block_t *block)
{
    const size_t index = sorted_index(sorted, block->stream, block->bytes, block->address);
    memmove((void *)&sorted->blocks[index + 1], (void *)&sorted->blocks[index],
            (sorted->count - index) * sizeof(sorted->blocks[0]));
    sorted->blocks[index] = block;
    sorted->count++;
}

static void sorted_remove(sorted_t *sorted, const pleat_block_t *block)
{
    const size_t index = sorted_index(sorted, block->stream, block->bytes, block->address);
    sorted->count--;
    memmove((void *)&sorted->blocks[index], (void *)&sorted->blocks[index + 1],
            (sorted->count - index) * sizeof(sorted->blocks[0]));
}

/* Sizes of all magnitudes, with many equal ones and many neighbours of bin borders. */
static uint64_t random_bytes(fixture_random_t *random)
{
    switch (fixture_random_below(random, 4)) {
    case 0:
        return 512 * (1 + fixture_random_below(random, 70));
    case 1:
        return PLEAT_MIB * (1 + fixture_random_below(random, 6));
    case 2:
        return 512 * (1 + (fixture_random_next(random) >> (14 + fixture_random_below(random, 40))));
    default:
        return (UINT64_C(512) << fixture_random_below(random, 52)) +
               512 * fixture_random_below(random, 3);
    }
}

static void compare_look_ups(pleat_free_set_t *set, const sorted_t *sorted, pleat_stream_t stream,
                             uint64_t bytes)
{
    const size_t index = sorted_index(sorted, stream, bytes, 0);
    const bool is_hit = index < sorted->count && sorted->blocks[index]->stream == stream;
    cr_assert(
        eq(ptr, pleat_free_set_find(set, stream, bytes), is_hit ? sorted->blocks[index] : NULL));
    cr_assert(eq(ptr, pleat_free_set_before(set, stream, bytes),
                 index > 0 ? sorted->blocks[index - 1] : NULL));
}

static void compare_walks(pleat_free_set_t *set, const sorted_t *sorted)
{
    cr_assert(eq(sz, pleat_free_set_count(set), sorted->count));
    pleat_block_t *block = pleat_free_set_first(set);
    for (size_t i = 0; i < sorted->count; i++) {
        cr_assert(eq(ptr, block, sorted->blocks[i]), "position %zu of %zu", i, sorted->count);
        cr_assert(
            eq(ptr, pleat_free_set_previous(set, block), i > 0 ? sorted->blocks[i - 1] : NULL));
        cr_assert(pleat_free_set_contains(set, block));
        block = pleat_free_set_next(set, block);
    }
    cr_assert(eq(ptr, block, NULL));
    cr_assert(pleat_free_set_check(set), "%s", pleat_last_error());
}

Test(free_set, agrees_with_a_sorted_array, .timeout = 60)
{
    static const pleat_stream_t streams[] = {0, 1, 2, UINT64_MAX, UINT64_C(1) << 40, 77};
    static pleat_block_t blocks[BLOCK_COUNT];
    fixture_random_t random = {.state = 11};
    pleat_free_set_t set = {0};
    sorted_t sorted = {.count = 0};
    bool is_in[BLOCK_COUNT] = {false};
    for (size_t i = 0; i < 6; i++) {
        const pleat_free_bins_t *bins = reserve(&set, streams[i]);
        cr_assert(eq(ptr, reserve(&set, streams[i]), (void *)bins), "a second time");
        cr_assert(eq(u64, bins->stream, streams[i]));
    }
    for (unsigned round = 0; round < 30000; round++) {
        const size_t i = fixture_random_below(&random, BLOCK_COUNT);
        pleat_block_t *block = &blocks[i];
        if (is_in[i]) {
            pleat_free_set_remove(block);
            sorted_remove(&sorted, block);
        } else {
            block->address = 4096 * (i + 1) + ((uint64_t)fixture_random_below(&random, 8) << 32);
            block->bytes = random_bytes(&random);
            block->stream = streams[fixture_random_below(&random, 6)];
            block->bins = reserve(&set, block->stream);
            block->use = PLEAT_BLOCK_USE_FREE;
            pleat_free_set_insert(block);
            sorted_insert(&sorted, block);
        }
        is_in[i] = !is_in[i];
        cr_assert(eq(int, pleat_free_set_contains(&set, block), is_in[i]));
        compare_look_ups(&set, &sorted, streams[fixture_random_below(&random, 6)],
                         random_bytes(&random));
        compare_look_ups(&set, &sorted, block->stream, block->bytes);
        if (round % 50 == 0) {
            compare_walks(&set, &sorted);
        }
    }
    pleat_free_set_fini(&set);
}

Test(free_set, takes_the_lowest_address_among_equals, .timeout = 5)
{
    pleat_block_t blocks[40] = {{0}};
    pleat_free_set_t set = {0};
    pleat_free_bins_t *bins = reserve(&set, 3);
    for (size_t i = 0; i < 40; i++) {
        blocks[i].address = 512 * (1 + (i * 17) % 40);
        blocks[i].bytes = 4096;
        blocks[i].stream = 3;
        blocks[i].bins = bins;
        blocks[i].use = PLEAT_BLOCK_USE_FREE;
        pleat_free_set_insert(&blocks[i]);
    }
    for (size_t i = 0; i < 40; i++) {
        pleat_block_t *block = pleat_free_set_find(&set, 3, 4000);
        cr_assert(eq(u64, block->address, 512 * (i + 1)));
        pleat_free_set_remove(block);
    }
    cr_expect(eq(ptr, pleat_free_set_find(&set, 3, 1), NULL));
    pleat_free_set_fini(&set);
}

Test(free_set, knows_nothing_of_a_stream_never_seen, .timeout = 5)
{
    pleat_block_t block = {.address = 512, .bytes = 512, .stream = 5, .use = PLEAT_BLOCK_USE_FREE};
    pleat_free_set_t set = {0};
    cr_expect(eq(ptr, pleat_free_set_find(&set, 5, 512), NULL));
    cr_expect(eq(ptr, pleat_free_set_first(&set), NULL));
    cr_expect(eq(ptr, pleat_free_set_before(&set, 5, 512), NULL));
    cr_expect(not(pleat_free_set_contains(&set, &block)));

    block.bins = reserve(&set, 5);
    pleat_free_set_insert(&block);
    cr_expect(eq(ptr, pleat_free_set_find(&set, 4, 512), NULL));
    cr_expect(eq(ptr, pleat_free_set_find(&set, 6, 512), NULL));
    cr_expect(eq(ptr, pleat_free_set_before(&set, 4, 512), NULL));
    cr_expect(eq(ptr, pleat_free_set_before(&set, 6, 512), &block));
    pleat_free_set_fini(&set);
}

Test(free_set, many_streams_stay_apart, .timeout = 5)
{
    enum { STREAMS = 100 };
    pleat_block_t blocks[STREAMS] = {{0}};
    pleat_free_set_t set = {0};
    for (size_t i = 0; i < STREAMS; i++) {
        const pleat_stream_t stream = (i * 37) % STREAMS;
        blocks[stream] = (pleat_block_t){.address = 512 * (stream + 1),
                                         .bytes = 512 * (STREAMS - stream),
                                         .stream = stream,
                                         .bins = reserve(&set, stream),
                                         .use = PLEAT_BLOCK_USE_FREE};
        pleat_free_set_insert(&blocks[stream]);
    }
    for (size_t i = 0; i < STREAMS; i++) {
        cr_expect(eq(ptr, pleat_free_set_find(&set, i, 1), &blocks[i]));
        cr_expect(eq(ptr, pleat_free_set_next(&set, &blocks[i]),
                     i + 1 < STREAMS ? &blocks[i + 1] : NULL));
    }
    pleat_free_set_fini(&set);
}

Test(free_set, changes_nothing_without_host_memory, .timeout = 5)
{
    pleat_free_set_t set = {0};
    for (uint64_t nth = 1; nth <= 2; nth++) {
        host_fault_after(nth);
        cr_expect(eq(ptr, pleat_free_set_reserve(&set, 9), NULL), "allocation %u", (unsigned)nth);
        cr_expect(eq(sz, set.stream_count, 0));
    }
    host_fault_after(3);
    cr_expect(ne(ptr, pleat_free_set_reserve(&set, 9), NULL));
    host_fault_after(0);
    pleat_free_set_fini(&set);
}

/* The block inserted last is outside the bins; every look-up must see it all the same. */
Test(free_set, the_recent_block_is_found_like_any_other, .timeout = 5)
{
    pleat_block_t blocks[3] = {{0}};
    pleat_free_set_t set = {0};
    for (size_t i = 0; i < 3; i++) {
        blocks[i] = (pleat_block_t){.address = UINT64_C(512) * (3 - i),
                                    .bytes = 4096,
                                    .bins = reserve(&set, 0),
                                    .use = PLEAT_BLOCK_USE_FREE};
    }
    pleat_free_set_insert(&blocks[0]);
    cr_expect(eq(ptr, set.recent, &blocks[0]));
    cr_expect(eq(sz, pleat_free_set_count(&set), 1));
    cr_expect(pleat_free_set_contains(&set, &blocks[0]));
    cr_expect(eq(ptr, pleat_free_set_find(&set, 0, 4096), &blocks[0]));
    cr_expect(eq(ptr, pleat_free_set_find(&set, 0, 4608), NULL));
    pleat_free_set_insert(&blocks[1]); /* the lower address comes first */
    cr_expect(eq(ptr, pleat_free_set_find(&set, 0, 512), &blocks[1]));
    cr_expect(eq(sz, pleat_free_set_count(&set), 2));
    pleat_free_set_remove(&blocks[1]);
    cr_expect(eq(ptr, set.recent, NULL));
    cr_expect(eq(ptr, pleat_free_set_find(&set, 0, 512), &blocks[0]));
    blocks[2].address = UINT64_C(512) * 4; /* the higher address comes second */
    pleat_free_set_insert(&blocks[2]);
    cr_expect(eq(ptr, pleat_free_set_find(&set, 0, 512), &blocks[0]));
    cr_expect(pleat_free_set_check(&set), "%s", pleat_last_error());
    pleat_free_set_remove(&blocks[0]);
    cr_expect(eq(ptr, pleat_free_set_first(&set), &blocks[2]));
    cr_expect(eq(ptr, set.recent, NULL));
    pleat_free_set_fini(&set);
}

/* ---- the check finds what is wrong ---- */

typedef struct planted {
    pleat_free_set_t set;
    pleat_block_t blocks[3]; /* two of one bin, one of another */
} planted_t;

static void planted_init(planted_t *planted)
{
    static const uint64_t sizes[] = {PLEAT_MIB, PLEAT_MIB, 512};
    memset(planted, 0, sizeof(*planted));
    pleat_free_bins_t *bins = reserve(&planted->set, 0);
    for (size_t i = 0; i < 3; i++) {
        planted->blocks[i].address = (i + 1) << 32;
        planted->blocks[i].bytes = sizes[i];
        planted->blocks[i].bins = bins;
        planted->blocks[i].use = PLEAT_BLOCK_USE_FREE;
        pleat_free_set_insert(&planted->blocks[i]);
    }
    cr_assert(ne(ptr, pleat_free_set_first(&planted->set), NULL), "brings all into their bins");
    cr_assert(eq(ptr, planted->set.recent, NULL));
    cr_assert(pleat_free_set_check(&planted->set));
}

static void expect_found(planted_t *planted, const char *rule)
{
    cr_expect(not(pleat_free_set_check(&planted->set)), "%s", rule);
    cr_expect(eq(int, strncmp(pleat_last_error(), rule, strlen(rule)), 0), "%s: %s", rule,
              pleat_last_error());
    pleat_free_set_fini(&planted->set);
}

Test(free_set, check_finds_a_wrong_bit, .timeout = 5)
{
    planted_t planted;
    planted_init(&planted);
    planted.set.streams[0]->words[0] ^= 1u << 5;
    expect_found(&planted, "F1: bit of bin 5 ");
}

Test(free_set, check_finds_a_wrong_summary, .timeout = 5)
{
    planted_t planted;
    planted_init(&planted);
    planted.set.streams[0]->summary ^= 1u << 20;
    expect_found(&planted, "F1: summary bit 20 ");
}

Test(free_set, check_finds_a_wrong_count, .timeout = 5)
{
    planted_t planted;
    planted_init(&planted);
    planted.set.streams[0]->block_count++;
    expect_found(&planted, "F1: stream 0 counts 4 blocks and holds 3");
}

Test(free_set, check_finds_a_block_of_another_size, .timeout = 5)
{
    planted_t planted;
    planted_init(&planted);
    planted.blocks[2].bytes = 8192;
    expect_found(&planted, "F2");
}

Test(free_set, check_finds_a_block_of_another_stream, .timeout = 5)
{
    planted_t planted;
    planted_init(&planted);
    planted.blocks[2].stream = 1;
    expect_found(&planted, "F2");
}

Test(free_set, check_finds_a_block_that_thinks_it_lies_elsewhere, .timeout = 5)
{
    planted_t planted;
    planted_init(&planted);
    planted.blocks[2].bin++;
    expect_found(&planted, "F2");
}

Test(free_set, check_finds_a_recent_block_that_lies_in_a_bin, .timeout = 5)
{
    planted_t planted;
    planted_init(&planted);
    planted.set.recent = &planted.blocks[2];
    expect_found(&planted, "F4");
}

Test(free_set, check_finds_a_recent_block_of_another_set, .timeout = 5)
{
    pleat_free_bins_t other = {.stream = 0};
    pleat_block_t block = {.address = 512, .bytes = 512, .bins = &other};
    planted_t planted;
    planted_init(&planted);
    planted.set.recent = &block;
    expect_found(&planted, "F4");
}

Test(free_set, check_finds_a_broken_order, .timeout = 5)
{
    planted_t planted;
    planted_init(&planted);
    const pleat_devptr_t first = planted.blocks[0].address;
    planted.blocks[0].address = planted.blocks[1].address;
    planted.blocks[1].address = first;
    expect_found(&planted, "F3");
}

Test(free_set, check_finds_a_broken_child, .timeout = 5)
{
    planted_t planted;
    planted_init(&planted);
    /* The deeper of the two equal ones lies in the wrong bin: found below the root, too. */
    pleat_block_t *deeper = planted.blocks[0].child[0] == NULL && planted.blocks[0].child[1] == NULL
                                ? &planted.blocks[0]
                                : &planted.blocks[1];
    deeper->stream = 4;
    expect_found(&planted, "F2");
}
