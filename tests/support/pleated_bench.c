/*
 * pleated_bench: arenas, handles and views by hand.
 */
#include "pleated_bench.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void bench_reserve(const fixture_t *f, size_t blocks)
{
    FIXTURE_REQUIRE(pleat_block_store_reserve(&f->allocator->blocks, blocks), "no memory");
    FIXTURE_REQUIRE(pleat_fence_reserve_records(f->allocator, 8) == PLEAT_OK, "no memory");
}

pleat_options_t bench_options(void)
{
    pleat_options_t options = PLEAT_OPTIONS_INIT;
    options.mode = PLEAT_MODE_PLEATED;
    options.pleated_slack = 0.0;
    options.pleated_handle_fraction = 0.0;
    options.pleated_handle_min_bytes = MIB(16);
    options.pleated_handle_max_bytes = MIB(16);
    options.pleated_view_mappings = 100;
    return options;
}

fixture_t bench_create(uint64_t capacity_mib, const pleat_options_t *options)
{
    const pleat_options_t plain = bench_options();
    return fixture_create(&(fixture_options_t){.capacity_bytes = MIB(capacity_mib),
                                               .options = options == NULL ? &plain : options});
}

pleat_arena_t *bench_arena(const fixture_t *f, pleat_stream_t stream)
{
    bench_reserve(f, 8);
    pleat_arena_t *arena = NULL;
    FIXTURE_REQUIRE(pleat_arena_create(f->allocator, NULL, stream, 0, &arena) == PLEAT_OK,
                    "arena: %s", pleat_last_error());
    return arena;
}

pleat_handle_t *bench_handle(const fixture_t *f, pleat_arena_t *arena, uint64_t offset_mib,
                             uint64_t mib)
{
    bench_reserve(f, 8);
    pleat_handle_t *handle = NULL;
    FIXTURE_REQUIRE(
        pleat_arena_add_handle(f->allocator, arena, MIB(offset_mib), MIB(mib), &handle) == PLEAT_OK,
        "handle: %s", pleat_last_error());
    pleat_arena_count_split(f->allocator, arena);
    return handle;
}

pleat_block_t *bench_take(const fixture_t *f, pleat_arena_t *arena, uint64_t offset_mib,
                          uint64_t mib)
{
    bench_reserve(f, 8);
    pleat_block_t *block = pleat_arena_free_block(arena, MIB(offset_mib));
    FIXTURE_REQUIRE(block != NULL, "nothing is free at %" PRIu64 " MiB", offset_mib);
    pleat_block_t *taken =
        pleat_arena_take(f->allocator, block, MIB(offset_mib), MIB(mib), PLEAT_BLOCK_USE_PART);
    pleat_fence_cut(f->allocator, arena, MIB(offset_mib), MIB(mib));
    pleat_arena_count_split(f->allocator, arena);
    return taken;
}

void bench_give(const fixture_t *f, pleat_block_t *block)
{
    pleat_arena_t *arena = block->arena;
    pleat_arena_give(f->allocator, block);
    pleat_arena_count_split(f->allocator, arena);
}

pleat_view_t *bench_view(const fixture_t *f, pleat_stream_t stream, pleat_handle_t *const *handles,
                         size_t count)
{
    pleat_view_t *view = NULL;
    FIXTURE_REQUIRE(pleat_view_create(f->allocator, stream, handles, count, &view) == PLEAT_OK,
                    "view: %s", pleat_last_error());
    return view;
}

pleat_block_t *bench_take_view(const fixture_t *f, pleat_view_t *view, uint64_t offset_mib,
                               uint64_t mib)
{
    bench_reserve(f, 2 * view->piece_count + 4);
    pleat_block_t *block =
        pleat_view_take(f->allocator, view, MIB(offset_mib), MIB(mib), view->stream);
    for (const pleat_block_t *part = pleat_view_next_part(block); part != NULL;
         part = pleat_view_next_part(part)) {
        pleat_arena_count_split(f->allocator, part->arena);
    }
    return block;
}

static char bench_letter(const pleat_block_t *block)
{
    switch (block->use) {
    case PLEAT_BLOCK_USE_FREE:
        return 'f';
    case PLEAT_BLOCK_USE_PART:
        return 'p';
    case PLEAT_BLOCK_USE_UNMAPPED:
        return 'u';
    case PLEAT_BLOCK_USE_LIVE:
        return 'l';
    case PLEAT_BLOCK_USE_SLAB:
        return 's';
    case PLEAT_BLOCK_USE_WAITING:
    case PLEAT_BLOCK_USE_UNUSED:
        break;
    }
    return '?';
}

const char *bench_blocks(const pleat_arena_t *arena)
{
    static char text[512];
    size_t used = 0;
    text[0] = '\0';
    for (const pleat_block_t *block = arena->first; block != NULL; block = block->right) {
        if (block->right == NULL && block->use == PLEAT_BLOCK_USE_UNMAPPED) {
            break;
        }
        used +=
            (size_t)snprintf(text + used, sizeof(text) - used, "%s%c%" PRIu64, used == 0 ? "" : " ",
                             bench_letter(block), block->bytes / PLEAT_MIB);
        FIXTURE_REQUIRE(used < sizeof(text), "too many blocks");
    }
    return text;
}

void bench_require_same(const fixture_t *f, const fixture_state_t *before)
{
    FIXTURE_REQUIRE(fixture_state_is(f, before), "something changed");
    pleat_sim_usage_t usage = PLEAT_SIM_USAGE_INIT;
    FIXTURE_REQUIRE(pleat_sim_read_usage(f->vmm, &usage) == PLEAT_OK, "usage");
    FIXTURE_REQUIRE(usage.chunks == before->usage.chunks &&
                        usage.mappings == before->usage.mappings &&
                        usage.ranges == before->usage.ranges,
                    "the device holds %" PRIu64 " chunks, %" PRIu64 " mappings, %" PRIu64
                    " ranges; before %" PRIu64 ", %" PRIu64 ", %" PRIu64,
                    usage.chunks, usage.mappings, usage.ranges, before->usage.chunks,
                    before->usage.mappings, before->usage.ranges);
    fixture_check(f);
}
