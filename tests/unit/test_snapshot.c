/*
 * Tests of snapshot: the copy of segments and blocks.
 */
#include "fixture.h"
#include "host_fault.h"
#include "pleated_bench.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

static pleat_snapshot_t *take(const fixture_t *f)
{
    pleat_snapshot_t *snapshot = NULL;
    cr_assert(eq(int, pleat_snapshot_take(f->allocator, &snapshot), PLEAT_OK));
    return snapshot;
}

static void expect_block(const pleat_snapshot_t *snapshot, size_t index, pleat_block_info_t want)
{
    const pleat_block_info_t *block = &snapshot->blocks[index];
    cr_expect(eq(u64, block->address, want.address), "block %zu", index);
    cr_expect(eq(u64, block->bytes, want.bytes), "block %zu", index);
    cr_expect(eq(u64, block->requested_bytes, want.requested_bytes), "block %zu", index);
    cr_expect(eq(int, (int)block->state, (int)want.state), "block %zu", index);
}

Test(snapshot, of_an_empty_allocator_is_empty, .timeout = 5)
{
    fixture_t f = fixture_create(NULL);
    pleat_snapshot_t *snapshot = take(&f);
    cr_expect(eq(sz, snapshot->size, sizeof(*snapshot)));
    cr_expect(eq(sz, snapshot->segment_size, sizeof(pleat_segment_info_t)));
    cr_expect(eq(sz, snapshot->block_size, sizeof(pleat_block_info_t)));
    cr_expect(eq(u64, snapshot->segment_count, 0));
    cr_expect(eq(u64, snapshot->block_count, 0));
    pleat_snapshot_destroy(snapshot);
    pleat_snapshot_destroy(NULL);
    fixture_check_and_destroy(&f);
}

Test(snapshot, shows_segments_and_blocks_by_address, .timeout = 5)
{
    fixture_t f = fixture_create(NULL);
    const pleat_devptr_t small = fixture_alloc(&f, 1000, 0);
    const pleat_devptr_t waiting = fixture_alloc(&f, 700, 0);
    const pleat_devptr_t stale = fixture_alloc(&f, 600, 0);
    const pleat_devptr_t last = fixture_alloc(&f, 512, 0);
    const pleat_devptr_t large = fixture_alloc(&f, MIB(3) - 7, 9);
    fixture_set_busy(&f, 1);
    fixture_record(&f, waiting, 1);
    fixture_free(&f, waiting);
    fixture_free(&f, stale);

    fixture_state_t state = fixture_state(&f);
    pleat_snapshot_t *snapshot = take(&f);
    cr_expect(fixture_state_is(&f, &state), "taking it changes nothing");
    cr_assert(eq(u64, snapshot->segment_count, 2));
    cr_assert(eq(u64, snapshot->block_count, 7));
    const size_t s = large < small ? 1 : 0; /* which of the two is the small one */
    const pleat_segment_info_t *segment = &snapshot->segments[s];
    cr_expect(eq(u64, segment->address, small));
    cr_expect(eq(u64, segment->total_bytes, MIB(2)));
    cr_expect(eq(u64, segment->allocated_bytes, 1024 + 512));
    cr_expect(eq(u64, segment->active_bytes, 1024 + 1024 + 512));
    cr_expect(eq(u64, segment->requested_bytes, 1000 + 700 + 512));
    cr_expect(eq(u64, segment->stream, 0));
    cr_expect(segment->is_small);
    cr_expect(not(segment->is_expandable));
    cr_assert(eq(u64, segment->block_count, 5));
    const size_t first = segment->first_block;
    expect_block(snapshot, first, (pleat_block_info_t){small, 1024, 1000, PLEAT_BLOCK_ALLOCATED});
    expect_block(snapshot, first + 1,
                 (pleat_block_info_t){waiting, 1024, 700, PLEAT_BLOCK_PENDING_FREE});
    expect_block(snapshot, first + 2, (pleat_block_info_t){stale, 1024, 600, PLEAT_BLOCK_INACTIVE});
    expect_block(snapshot, first + 3, (pleat_block_info_t){last, 512, 512, PLEAT_BLOCK_ALLOCATED});
    expect_block(snapshot, first + 4,
                 (pleat_block_info_t){last + 512, MIB(2) - 3584, 0, PLEAT_BLOCK_INACTIVE});

    segment = &snapshot->segments[1 - s];
    cr_expect(eq(u64, segment->address, large));
    cr_expect(eq(u64, segment->total_bytes, MIB(20)));
    cr_expect(eq(u64, segment->stream, 9));
    cr_expect(not(segment->is_small));
    cr_expect(eq(u64, segment->block_count, 2));
    pleat_snapshot_destroy(snapshot);
    fixture_state_drop(&state);
    fixture_check_and_destroy(&f);
}

/* In pleated mode every byte shows once: at the view that handed it out, and in the slab's place
 * its small blocks. */
Test(snapshot, shows_views_and_small_blocks_where_they_are_used, .timeout = 5)
{
    fixture_t f = bench_create(64, NULL);
    pleat_devptr_t p[4];
    for (unsigned i = 0; i < 4; i++) {
        p[i] = fixture_alloc(&f, MIB(16), 0);
    }
    fixture_free(&f, p[0]);
    fixture_free(&f, p[2]);
    const pleat_devptr_t joined = fixture_alloc(&f, MIB(30) - 100, 0);
    const pleat_devptr_t tiny = fixture_alloc(&f, 700, 0);
    pleat_snapshot_t *snapshot = take(&f);
    const pleat_stats_t stats = fixture_stats(&f);
    uint64_t total_bytes = 0;
    uint64_t allocated_bytes = 0;
    bool has_joined = false;
    bool has_tiny = false;
    for (uint64_t i = 0; i < snapshot->segment_count; i++) {
        const pleat_segment_info_t *segment = &snapshot->segments[i];
        total_bytes += segment->total_bytes;
        allocated_bytes += segment->allocated_bytes;
        cr_expect(i == 0 || segment[-1].address + segment[-1].total_bytes <= segment->address);
        has_joined = has_joined || (segment->address == joined && segment->block_count == 1 &&
                                    segment->requested_bytes == MIB(30) - 100);
        has_tiny = has_tiny || (segment->address == tiny && segment->is_small &&
                                segment->block_count == 2 && segment->requested_bytes == 700);
    }
    cr_expect(has_joined);
    cr_expect(has_tiny);
    cr_expect(eq(u64, total_bytes, (uint64_t)stats.reserved_bytes[PLEAT_STAT_ALL].current));
    cr_expect(eq(u64, allocated_bytes, (uint64_t)stats.allocated_bytes[PLEAT_STAT_ALL].current));
    pleat_snapshot_destroy(snapshot);
    fixture_check_and_destroy(&f);
}

/* The rest of a split keeps the object, and with it what its last user asked for. */
Test(snapshot, a_rest_shows_the_stale_size, .timeout = 5)
{
    fixture_t f = fixture_create(NULL);
    const pleat_devptr_t a = fixture_alloc(&f, MIB(30) - 5, 0);
    fixture_free(&f, a);
    cr_expect(eq(u64, fixture_alloc(&f, MIB(12), 0), a));
    pleat_snapshot_t *snapshot = take(&f);
    cr_assert(eq(u64, snapshot->block_count, 2));
    expect_block(snapshot, 0, (pleat_block_info_t){a, MIB(12), MIB(12), PLEAT_BLOCK_ALLOCATED});
    expect_block(snapshot, 1,
                 (pleat_block_info_t){a + MIB(12), MIB(18), MIB(30) - 5, PLEAT_BLOCK_INACTIVE});
    pleat_snapshot_destroy(snapshot);
    fixture_check_and_destroy(&f);
}

Test(snapshot, refuses_missing_arguments, .timeout = 5)
{
    fixture_t f = fixture_create(NULL);
    pleat_snapshot_t *snapshot = NULL;
    cr_expect(eq(int, pleat_snapshot_take(NULL, &snapshot), PLEAT_ERR_INVALID));
    cr_expect(
        eq(str, (char *)pleat_last_error(), (char *)"pleat_snapshot_take: allocator is NULL"));
    cr_expect(eq(int, pleat_snapshot_take(f.allocator, NULL), PLEAT_ERR_INVALID));
    cr_expect(
        eq(str, (char *)pleat_last_error(), (char *)"pleat_snapshot_take: snapshot_out is NULL"));
    fixture_check_and_destroy(&f);
}

Test(snapshot, fails_cleanly_without_host_memory, .timeout = 5)
{
    fixture_t f = fixture_create(NULL);
    (void)fixture_alloc(&f, 512, 0);
    for (uint64_t nth = 1; nth <= 4; nth++) {
        pleat_snapshot_t *snapshot = NULL;
        host_fault_after(nth);
        cr_expect(eq(int, pleat_snapshot_take(f.allocator, &snapshot), PLEAT_ERR_OOM_HOST));
        host_fault_after(0);
        cr_expect(eq(ptr, snapshot, NULL));
        cr_expect(eq(str, (char *)pleat_last_error(), (char *)"no host memory for a snapshot"));
    }
    fixture_check_and_destroy(&f);
}
