/*
 * Tests of range: blocks of an expandable range, mapped and unmapped by pages, and what is left
 * when the device or the host fails.
 */
#include "core/range.h"

#include "core/allocator.h"
#include "core/serve.h"

#include "fixture.h"
#include "host_fault.h"

#include <stdio.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#define MIB(count) ((uint64_t)(count)*PLEAT_MIB)

enum { STREAM = 3 };

typedef struct layout {
    fixture_t f;
    pleat_request_t request; /* large, of STREAM */
} layout_t;

static layout_t layout_make(uint64_t capacity_mib)
{
    pleat_options_t options = PLEAT_OPTIONS_INIT;
    options.mode = PLEAT_MODE_TORCH_EXPANDABLE;
    layout_t l = {.f = fixture_create(&(fixture_options_t){.capacity_bytes = MIB(capacity_mib),
                                                           .options = &options})};
    l.request = pleat_serve_request(l.f.allocator, MIB(30), STREAM);
    l.request.bins = pleat_free_set_reserve(&l.request.pool->free_blocks, STREAM);
    cr_assert(ne(ptr, l.request.bins, NULL));
    cr_assert(pleat_block_store_reserve(&l.f.allocator->blocks, 16));
    return l;
}

static pleat_block_t *make_range(const layout_t *l)
{
    pleat_block_t *block = NULL;
    cr_assert(eq(int, pleat_range_create(l->f.allocator, &l->request, &block), PLEAT_OK));
    return block;
}

/* The blocks from the first on: f free, l live, u unmapped, with MiB; the last unmapped one is left
 * out. */
static const char *blocks_text(const pleat_block_t *block)
{
    static char text[256];
    text[0] = '\0';
    while (block->left != NULL) {
        block = block->left;
    }
    for (; block != NULL; block = block->right) {
        if (block->right == NULL && block->use == PLEAT_BLOCK_USE_UNMAPPED) {
            break;
        }
        const size_t used = strlen(text);
        const char *letter = block->use == PLEAT_BLOCK_USE_FREE   ? "f"
                             : block->use == PLEAT_BLOCK_USE_LIVE ? "l"
                                                                  : "u";
        (void)snprintf(text + used, sizeof(text) - used, "%s%u ", letter,
                       (unsigned)(block->bytes / PLEAT_MIB));
    }
    return text;
}

static void expect_blocks(const pleat_block_t *block, const char *wanted)
{
    cr_expect(eq(str, (char *)blocks_text(block), (char *)wanted));
}

/* The free block with a size. */
static pleat_block_t *free_block(const layout_t *l, unsigned mib)
{
    pleat_free_set_t *set = &l->f.allocator->large_pool.free_blocks;
    pleat_block_t *block = pleat_free_set_first(set);
    while (block != NULL && block->bytes != MIB(mib)) {
        block = pleat_free_set_next(set, block);
    }
    cr_assert(ne(ptr, block, NULL));
    return block;
}

Test(range, a_range_is_an_eighth_larger_than_the_device, .timeout = 5)
{
    layout_t l = layout_make(800);
    const pleat_block_t *block = make_range(&l);
    cr_expect(eq(u64, block->bytes, MIB(900)));
    cr_expect(eq(int, (int)block->use, (int)PLEAT_BLOCK_USE_UNMAPPED));
    cr_expect(eq(u64, block->range->pages.page_bytes, MIB(20)));
    cr_expect(eq(ptr, pleat_unmapped_list_first(&l.request.pool->unmapped, STREAM), (void *)block));
    cr_expect(eq(u64, l.f.allocator->held_bytes, 0));
    fixture_check_and_destroy(&l.f);
}

Test(range, pages_are_mapped_at_the_start, .timeout = 5)
{
    layout_t l = layout_make(800);
    pleat_block_t *block = make_range(&l);
    cr_assert(eq(int, pleat_range_map_block(l.f.allocator, block, MIB(30)), PLEAT_OK));
    expect_blocks(block, "f40 ");
    cr_expect(eq(u64, l.f.allocator->held_bytes, MIB(40)));
    cr_expect(eq(i64, fixture_stats(&l.f).num_device_alloc, 1));
    cr_assert(eq(int, pleat_range_map_block(l.f.allocator, block->right, MIB(20)), PLEAT_OK));
    cr_expect(eq(u64, free_block(&l, 60)->bytes, MIB(60))); /* one with what was free before it */
    fixture_check_and_destroy(&l.f);
}

Test(range, whole_pages_go_and_the_rest_stays, .timeout = 5)
{
    layout_t l = layout_make(800);
    const pleat_devptr_t a = fixture_alloc(&l.f, MIB(30), STREAM);
    const pleat_devptr_t b = fixture_alloc(&l.f, MIB(75), STREAM);
    const pleat_devptr_t c = fixture_alloc(&l.f, MIB(30), STREAM);
    const pleat_block_t *first = pleat_address_map_find(&l.f.allocator->live, a);
    expect_blocks(first, "l30 l75 l30 f5 ");
    fixture_free(&l.f, b);
    cr_assert(eq(int, pleat_range_release_block(l.f.allocator, free_block(&l, 75)), PLEAT_OK));
    expect_blocks(first, "l30 f10 u60 f5 l30 f5 ");
    cr_expect(eq(u64, l.f.allocator->held_bytes, MIB(80)));
    fixture_check(&l.f);
    /* Without a whole page nothing happens. */
    const uint64_t waits = fixture_calls(&l.f, PLEAT_VMM_CALL_STREAM_SYNCHRONIZE);
    cr_assert(eq(int, pleat_range_release_block(l.f.allocator, free_block(&l, 10)), PLEAT_OK));
    cr_expect(eq(u64, fixture_calls(&l.f, PLEAT_VMM_CALL_STREAM_SYNCHRONIZE), waits));
    fixture_free(&l.f, c);
    fixture_free(&l.f, a);
    fixture_check_and_destroy(&l.f);
}

Test(range, unmapped_neighbours_become_one, .timeout = 5)
{
    layout_t l = layout_make(800);
    pleat_devptr_t p[5];
    for (unsigned i = 0; i < 5; i++) {
        p[i] = fixture_alloc(&l.f, MIB(20), STREAM);
    }
    const pleat_block_t *first = pleat_address_map_find(&l.f.allocator->live, p[0]);
    for (unsigned i = 1; i < 4; i += 2) {
        fixture_free(&l.f, p[i]);
        cr_assert(eq(int, pleat_range_release_block(l.f.allocator, free_block(&l, 20)), PLEAT_OK));
    }
    expect_blocks(first, "l20 u20 l20 u20 l20 ");
    fixture_free(&l.f, p[2]);
    cr_assert(eq(int, pleat_range_release_block(l.f.allocator, free_block(&l, 20)), PLEAT_OK));
    expect_blocks(first, "l20 u60 l20 ");
    fixture_free(&l.f, p[4]);
    cr_assert(eq(int, pleat_range_release_block(l.f.allocator, free_block(&l, 20)), PLEAT_OK));
    expect_blocks(first, "l20 ");
    fixture_check_and_destroy(&l.f);
}

Test(range, a_range_without_memory_ends, .timeout = 5)
{
    layout_t l = layout_make(800);
    fixture_free(&l.f, fixture_alloc(&l.f, MIB(30), STREAM));
    fixture_free(&l.f, fixture_alloc(&l.f, 1000, STREAM));
    cr_expect(ne(ptr, l.f.allocator->ranges->next, NULL));
    fixture_empty(&l.f);
    cr_expect(eq(ptr, l.f.allocator->ranges, NULL));
    cr_expect(eq(sz, l.f.allocator->large_pool.unmapped.count, 0));
    fixture_check_and_destroy(&l.f);
}

Test(range, ranges_end_in_any_order, .timeout = 5)
{
    layout_t l = layout_make(800);
    pleat_devptr_t p[3];
    for (unsigned i = 0; i < 3; i++) {
        p[i] = fixture_alloc(&l.f, MIB(20), i);
    }
    for (unsigned i = 0; i < 3; i++) {
        fixture_free(&l.f, p[(i + 1) % 3]); /* the middle one of the list, an end, the last */
        fixture_empty(&l.f);
        fixture_check(&l.f);
    }
    cr_expect(eq(ptr, l.f.allocator->ranges, NULL));
    fixture_check_and_destroy(&l.f);
}

/* ---- failures ---- */

Test(range, a_range_that_cannot_be_made_leaves_nothing, .timeout = 5)
{
    layout_t l = layout_make(800);
    pleat_block_t *block = NULL;
    fixture_state_t before = fixture_state(&l.f);
    fixture_fail_call(&l.f, PLEAT_VMM_CALL_MEM_INFO, 1, PLEAT_ERR_DRIVER);
    cr_expect(eq(int, pleat_range_create(l.f.allocator, &l.request, &block), PLEAT_ERR_DRIVER));
    fixture_fail_call(&l.f, PLEAT_VMM_CALL_ADDRESS_RESERVE, 1, PLEAT_ERR_OOM_DEVICE);
    cr_expect(eq(int, pleat_range_create(l.f.allocator, &l.request, &block), PLEAT_ERR_OOM_DEVICE));
    for (unsigned nth = 1; nth <= 2; nth++) { /* the range, the list of its pages */
        host_fault_after(nth);
        cr_expect(
            eq(int, pleat_range_create(l.f.allocator, &l.request, &block), PLEAT_ERR_OOM_HOST));
        host_fault_after(0);
    }
    cr_expect(eq(ptr, block, NULL));
    cr_expect(eq(ptr, l.f.allocator->ranges, NULL));
    cr_expect(fixture_state_is(&l.f, &before));
    fixture_state_drop(&before);
    fixture_check_and_destroy(&l.f);
}

Test(range, pages_that_cannot_be_mapped_leave_the_block, .timeout = 5)
{
    static const pleat_vmm_call_t calls[] = {PLEAT_VMM_CALL_CHUNK_CREATE, PLEAT_VMM_CALL_MAP,
                                             PLEAT_VMM_CALL_SET_ACCESS};
    layout_t l = layout_make(100);
    pleat_block_t *block = make_range(&l);
    fixture_state_t before = fixture_state(&l.f);
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        fixture_fail_call(&l.f, calls[i], i < 2 ? 2 : 1, PLEAT_ERR_DRIVER);
        cr_expect(eq(int, pleat_range_map_block(l.f.allocator, block, MIB(30)), PLEAT_ERR_DRIVER));
        cr_expect(fixture_state_is(&l.f, &before));
        fixture_check(&l.f);
    }
    cr_expect(eq(int, pleat_range_map_block(l.f.allocator, block, MIB(101)), PLEAT_ERR_OOM_DEVICE));
    cr_expect(fixture_state_is(&l.f, &before));
    fixture_state_drop(&before);
    cr_expect(eq(int, pleat_range_map_block(l.f.allocator, block, MIB(100)), PLEAT_OK));
    fixture_check_and_destroy(&l.f);
}

Test(range, pages_that_cannot_be_unmapped_stay, .timeout = 5)
{
    layout_t l = layout_make(800);
    const pleat_devptr_t a = fixture_alloc(&l.f, MIB(60), STREAM);
    const pleat_devptr_t b = fixture_alloc(&l.f, MIB(20), STREAM);
    const pleat_block_t *last = pleat_address_map_find(&l.f.allocator->live, b);
    fixture_free(&l.f, a);
    fixture_state_t before = fixture_state(&l.f);
    fixture_fail_call(&l.f, PLEAT_VMM_CALL_STREAM_SYNCHRONIZE, 1, PLEAT_ERR_DRIVER);
    cr_expect(
        eq(int, pleat_range_release_block(l.f.allocator, free_block(&l, 60)), PLEAT_ERR_DRIVER));
    fixture_fail_call(&l.f, PLEAT_VMM_CALL_UNMAP, 1, PLEAT_ERR_DRIVER);
    cr_expect(
        eq(int, pleat_range_release_block(l.f.allocator, free_block(&l, 60)), PLEAT_ERR_DRIVER));
    cr_expect(fixture_state_is(&l.f, &before));
    fixture_state_drop(&before);
    /* What went before the failure is gone. */
    fixture_fail_call(&l.f, PLEAT_VMM_CALL_UNMAP, 3, PLEAT_ERR_DRIVER);
    cr_expect(
        eq(int, pleat_range_release_block(l.f.allocator, free_block(&l, 60)), PLEAT_ERR_DRIVER));
    expect_blocks(last, "u40 f20 l20 ");
    cr_expect(eq(u64, l.f.allocator->held_bytes, MIB(40)));
    fixture_check_and_destroy(&l.f);
}

Test(range, a_release_without_host_memory_changes_nothing, .timeout = 5)
{
    layout_t l = layout_make(800);
    fixture_free(&l.f, fixture_alloc(&l.f, MIB(60), STREAM));
    pleat_block_store_t *store = &l.f.allocator->blocks;
    pleat_block_t *taken = NULL; /* all objects in reserve, linked by child[0] */
    while (store->unused_count > 0) {
        pleat_block_t *object = pleat_block_store_take(store);
        object->child[0] = taken;
        taken = object;
    }
    host_fault_after(1);
    cr_expect(
        eq(int, pleat_range_release_block(l.f.allocator, free_block(&l, 60)), PLEAT_ERR_OOM_HOST));
    host_fault_after(0);
    cr_expect(eq(u64, l.f.allocator->held_bytes, MIB(60)));
    while (taken != NULL) {
        pleat_block_t *next = taken->child[0];
        taken->child[0] = NULL;
        taken->use = PLEAT_BLOCK_USE_FREE;
        pleat_block_store_give(store, taken);
        taken = next;
    }
    fixture_check_and_destroy(&l.f);
}

Test(range, destruction_takes_live_blocks_along, .timeout = 5)
{
    layout_t l = layout_make(800);
    (void)fixture_alloc(&l.f, MIB(60), STREAM);
    (void)fixture_alloc(&l.f, 1000, STREAM);
    fixture_set_busy(&l.f, STREAM);
    fixture_check_and_destroy(&l.f);
}
