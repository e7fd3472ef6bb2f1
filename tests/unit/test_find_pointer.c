/*
 * Tests of find_pointer: what is told of a live block, in each mode.
 */
#include <pleat/private_pool.h>

#include "fixture.h"
#include "pleated_bench.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

static pleat_pointer_info_t find(const fixture_t *f, pleat_devptr_t ptr)
{
    pleat_pointer_info_t info = PLEAT_POINTER_INFO_INIT;
    FIXTURE_REQUIRE(pleat_find_pointer(f->allocator, ptr, &info) == PLEAT_OK, "%s",
                    pleat_last_error());
    return info;
}

/* The segment of each live block is one that a snapshot shows. */
static void expect_in_snapshot(const fixture_t *f, const pleat_pointer_info_t *info)
{
    pleat_snapshot_t *snapshot = NULL;
    cr_assert(eq(int, pleat_snapshot_take(f->allocator, &snapshot), PLEAT_OK));
    bool is_there = false;
    for (uint64_t i = 0; i < snapshot->segment_count; i++) {
        const pleat_segment_info_t *segment = &snapshot->segments[i];
        is_there = is_there ||
                   (segment->address == info->segment_address &&
                    segment->total_bytes == info->segment_bytes && segment->stream == info->stream);
    }
    cr_expect(is_there, "0x%llx", (unsigned long long)info->segment_address);
    pleat_snapshot_destroy(snapshot);
}

Test(find_pointer, tells_block_and_segment, .timeout = 10)
{
    for (int mode = 0; mode < PLEAT_MODE_COUNT; mode++) {
        pleat_options_t options = PLEAT_OPTIONS_INIT;
        options.mode = (pleat_mode_t)mode;
        fixture_t f = fixture_create(&(fixture_options_t){.options = &options});
        const pleat_devptr_t p[] = {fixture_alloc(&f, 700, 3), fixture_alloc(&f, 1000, 3),
                                    fixture_alloc(&f, MIB(3), 3), fixture_alloc(&f, MIB(5), 3)};
        static const uint64_t requested[] = {700, 1000, MIB(3), MIB(5)};
        fixture_free(&f, p[2]);
        for (size_t i = 0; i < 4; i++) {
            if (i == 2) {
                continue;
            }
            const pleat_pointer_info_t info = find(&f, p[i]);
            cr_expect(eq(u64, info.block_address, p[i]));
            cr_expect(eq(u64, info.requested_bytes, requested[i]));
            cr_expect(eq(u64, info.block_bytes, i < 2 ? 1024 : MIB(5)));
            cr_expect(eq(u64, info.stream, 3));
            cr_expect(eq(int, info.is_small, i < 2));
            cr_expect(eq(int, info.is_expandable, mode != PLEAT_MODE_CLASSIC));
            cr_expect(eq(u64, info.pool.first + info.pool.second, 0));
            expect_in_snapshot(&f, &info);
        }
        fixture_check_and_destroy(&f);
    }
}

Test(find_pointer, a_block_of_a_view_is_a_segment, .timeout = 5)
{
    fixture_t f = bench_create(64, NULL);
    pleat_devptr_t p[4];
    for (unsigned i = 0; i < 4; i++) {
        p[i] = fixture_alloc(&f, MIB(16), 0);
    }
    fixture_free(&f, p[0]);
    fixture_free(&f, p[2]);
    const pleat_devptr_t joined = fixture_alloc(&f, MIB(32), 0);
    const pleat_pointer_info_t info = find(&f, joined);
    cr_expect(eq(u64, info.segment_address, joined));
    cr_expect(eq(u64, info.segment_bytes, MIB(32)));
    fixture_check_and_destroy(&f);
}

Test(find_pointer, other_pointers_are_refused, .timeout = 5)
{
    fixture_t f = fixture_create(NULL);
    const pleat_devptr_t p = fixture_alloc(&f, MIB(3), 0);
    pleat_pointer_info_t info = PLEAT_POINTER_INFO_INIT;
    cr_expect(eq(int, pleat_find_pointer(f.allocator, p + 512, &info), PLEAT_ERR_INVALID_POINTER));
    cr_expect(eq(int, pleat_find_pointer(f.allocator, 0, &info), PLEAT_ERR_INVALID_POINTER));
    fixture_free(&f, p);
    cr_expect(eq(int, pleat_find_pointer(f.allocator, p, &info), PLEAT_ERR_INVALID_POINTER));
    cr_expect(eq(u64, info.block_address, 0), "untouched");
    cr_expect(eq(int, pleat_find_pointer(NULL, p, &info), PLEAT_ERR_INVALID));
    cr_expect(eq(int, pleat_find_pointer(f.allocator, p, NULL), PLEAT_ERR_INVALID));
    fixture_check_and_destroy(&f);
}

Test(find_pointer, a_struct_of_an_older_program_gets_its_part, .timeout = 5)
{
    fixture_t f = fixture_create(NULL);
    const pleat_devptr_t p = fixture_alloc(&f, MIB(3), 7);
    pleat_pointer_info_t info = PLEAT_POINTER_INFO_INIT;
    info.size = offsetof(pleat_pointer_info_t, stream);
    cr_assert(eq(int, pleat_find_pointer(f.allocator, p, &info), PLEAT_OK));
    cr_expect(eq(u64, info.block_bytes, MIB(3)));
    cr_expect(eq(u64, info.stream, 0));
    cr_expect(eq(sz, info.size, offsetof(pleat_pointer_info_t, stream)));
    fixture_check_and_destroy(&f);
}
