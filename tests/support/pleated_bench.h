/*
 * pleated_bench: parts of pleated mode's memory laid out by hand, for the tests of its modules.
 * What is laid out belongs to the fixture's allocator, which is in pleated mode. Sizes and offsets
 * are in MiB. A call that fails ends the program.
 */
#ifndef PLEAT_TEST_PLEATED_BENCH_H
#define PLEAT_TEST_PLEATED_BENCH_H

#include "core/allocator.h"
#include "core/pleated.h"

#include "fixture.h"

#define MIB(count) ((uint64_t)(count)*PLEAT_MIB)

/* Options of pleated mode with chunks of 16 MiB, nothing beyond the peak, 100 mappings in views. */
pleat_options_t bench_options(void);

/* An allocator on a device of so many MiB; NULL options: bench_options. */
fixture_t bench_create(uint64_t capacity_mib, const pleat_options_t *options);

pleat_arena_t *bench_arena(const fixture_t *f, pleat_stream_t stream);

pleat_handle_t *bench_handle(const fixture_t *f, pleat_arena_t *arena, uint64_t offset_mib,
                             uint64_t mib);

/* Take a free span, as a view does for a part; bench_give ends that. */
pleat_block_t *bench_take(const fixture_t *f, pleat_arena_t *arena, uint64_t offset_mib,
                          uint64_t mib);
void bench_give(const fixture_t *f, pleat_block_t *block);

pleat_view_t *bench_view(const fixture_t *f, pleat_stream_t stream, pleat_handle_t *const *handles,
                         size_t count);

/* Take a span of a view; pleat_view_give ends that. */
pleat_block_t *bench_take_view(const fixture_t *f, pleat_view_t *view, uint64_t offset_mib,
                               uint64_t mib);

/* The blocks of an arena, as letters with MiB: f free, p part, u unmapped, l live, s slab; the last
 * unmapped one is left out. The text is static. */
const char *bench_blocks(const pleat_arena_t *arena);

/* The counters and what the device holds are as in @p before, and every invariant holds. */
void bench_require_same(const fixture_t *f, const fixture_state_t *before);

#endif
