/*
 * address_space: slabs, gaps and holes of the simulated device's addresses; the rules and the
 * invariants stand in address_space.h.
 *
 * Nodes on a give: the gap that comes may take one node; when it makes its slab empty, the gap and
 * the slab give theirs back and the hole takes at most one. With the node of the live allocation
 * freed before, that never runs short.
 */
#include "address_space.h"

#define SPACE_BEGIN (UINT64_C(4) * PLEAT_GIB)
#define SPACE_END UINT64_C(0x7f0000000000)
#define LARGE_STEP (UINT64_C(2) * PLEAT_MIB)
#define LARGE_SLAB (UINT64_C(32) * PLEAT_MIB)
#define SMALL_STEP UINT64_C(512)

pleat_status_t pleat_address_space_init(pleat_address_space_t *space, pleat_span_pool_t *pool)
{
    return pleat_address_space_init_in(space, pool,
                                       (pleat_span_t){SPACE_BEGIN, SPACE_END - SPACE_BEGIN});
}

pleat_status_t pleat_address_space_init_in(pleat_address_space_t *space, pleat_span_pool_t *pool,
                                           pleat_span_t all)
{
    PLEAT_ASSERT(all.begin > 0);
    PLEAT_ASSERT(all.begin % LARGE_SLAB == 0);
    PLEAT_ASSERT(all.bytes % LARGE_SLAB == 0);
    const pleat_status_t status = pleat_span_pool_reserve(pool, 1);
    if (status != PLEAT_OK) {
        return status;
    }
    *space = (pleat_address_space_t){.pool = pool, .all = all};
    pleat_span_insert(pool, &space->holes, all);
    return PLEAT_OK;
}

/* Take the lowest gap that fits; 0: none does. */
static uint64_t arena_take(pleat_span_pool_t *pool, pleat_address_arena_t *arena, uint64_t bytes)
{
    pleat_span_t gap;
    if (!pleat_span_find_lowest_fit(pool, &arena->gaps, bytes, &gap)) {
        return 0;
    }
    pleat_span_remove(pool, &arena->gaps, gap.begin);
    if (gap.bytes > bytes) {
        pleat_span_insert(pool, &arena->gaps, (pleat_span_t){gap.begin + bytes, gap.bytes - bytes});
    }
    return gap.begin;
}

static void arena_add_slab(pleat_span_pool_t *pool, pleat_address_arena_t *arena, pleat_span_t slab)
{
    pleat_span_insert(pool, &arena->slabs, slab);
    pleat_span_insert(pool, &arena->gaps, slab);
}

/* Add a free span to a tree of free spans, merged with what touches it inside [begin, end) (V2). */
static pleat_span_t span_give(pleat_span_pool_t *pool, pleat_span_tree_t *tree, pleat_span_t span,
                              uint64_t begin, uint64_t end)
{
    pleat_span_t other;
    if (span.begin > begin && pleat_span_find_at_or_below(pool, tree, span.begin - 1, &other) &&
        other.begin + other.bytes == span.begin) {
        pleat_span_remove(pool, tree, other.begin);
        span = (pleat_span_t){other.begin, other.bytes + span.bytes};
    }
    if (span.begin + span.bytes < end &&
        pleat_span_find_at_or_above(pool, tree, span.begin + span.bytes, &other) &&
        span.begin + span.bytes == other.begin) {
        pleat_span_remove(pool, tree, other.begin);
        span.bytes += other.bytes;
    }
    pleat_span_insert(pool, tree, span);
    return span;
}

/* Give a span back to its slab; true when that emptied the slab, which is then gone (V3). */
static bool arena_give(pleat_span_pool_t *pool, pleat_address_arena_t *arena, pleat_span_t span,
                       pleat_span_t *slab_out)
{
    pleat_span_t slab = {0, 0};
    const bool is_found = pleat_span_find_at_or_below(pool, &arena->slabs, span.begin, &slab);
    PLEAT_ASSERT(is_found);
    PLEAT_ASSERT(span.begin - slab.begin + span.bytes <= slab.bytes);
    const pleat_span_t gap =
        span_give(pool, &arena->gaps, span, slab.begin, slab.begin + slab.bytes);
    if (gap.bytes < slab.bytes) {
        return false;
    }
    pleat_span_remove(pool, &arena->gaps, slab.begin);
    pleat_span_remove(pool, &arena->slabs, slab.begin);
    *slab_out = slab;
    return true;
}

static uint64_t space_take_large(pleat_address_space_t *space, uint64_t bytes)
{
    if (bytes > space->all.bytes) {
        return 0;
    }
    const uint64_t span_bytes = pleat_align_up(bytes, LARGE_STEP);
    const uint64_t address = arena_take(space->pool, &space->large, span_bytes);
    if (address != 0) {
        return address;
    }
    const uint64_t slab_bytes = pleat_align_up(bytes, LARGE_SLAB);
    pleat_span_t hole;
    if (!pleat_span_find_highest_fit(space->pool, &space->holes, slab_bytes + 1, &hole)) {
        return 0;
    }
    pleat_span_remove(space->pool, &space->holes, hole.begin);
    hole.bytes -= slab_bytes;
    pleat_span_insert(space->pool, &space->holes, hole);
    arena_add_slab(space->pool, &space->large, (pleat_span_t){hole.begin + hole.bytes, slab_bytes});
    /* No gap fitted before, so the only one that does is the new slab. */
    return arena_take(space->pool, &space->large, span_bytes);
}

static void space_give_large(pleat_address_space_t *space, uint64_t address, uint64_t bytes)
{
    pleat_span_t slab;
    const pleat_span_t span = {address, pleat_align_up(bytes, LARGE_STEP)};
    if (arena_give(space->pool, &space->large, span, &slab)) {
        (void)span_give(space->pool, &space->holes, slab, space->all.begin,
                        space->all.begin + space->all.bytes);
    }
}

pleat_devptr_t pleat_address_space_take(pleat_address_space_t *space, uint64_t bytes)
{
    PLEAT_ASSERT(bytes > 0);
    PLEAT_ASSERT(space->pool->free_count >= PLEAT_ADDRESS_TAKE_NODES);
    if (bytes >= LARGE_STEP) {
        return space_take_large(space, bytes);
    }
    const uint64_t span_bytes = pleat_align_up(bytes, SMALL_STEP);
    const uint64_t address = arena_take(space->pool, &space->small, span_bytes);
    if (address != 0) {
        return address;
    }
    const uint64_t slab = space_take_large(space, LARGE_STEP);
    if (slab == 0) {
        return 0;
    }
    arena_add_slab(space->pool, &space->small, (pleat_span_t){slab, LARGE_STEP});
    return arena_take(space->pool, &space->small, span_bytes);
}

void pleat_address_space_give(pleat_address_space_t *space, pleat_devptr_t address, uint64_t bytes)
{
    PLEAT_ASSERT(bytes > 0);
    if (bytes >= LARGE_STEP) {
        space_give_large(space, address, bytes);
        return;
    }
    pleat_span_t slab;
    const pleat_span_t span = {address, pleat_align_up(bytes, SMALL_STEP)};
    if (arena_give(space->pool, &space->small, span, &slab)) {
        space_give_large(space, slab.begin, slab.bytes);
    }
}
