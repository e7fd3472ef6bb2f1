/*
 * Tests of experiments/lib/stream_order.
 */
#include "stream_order.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

Test(stream_order, keeps_the_recorded_order_when_nothing_was_seen, .timeout = 5)
{
    const pleat_stream_order_t order = {.note_count = 0};
    uint32_t ranks[3] = {9, 9, 9};
    cr_assert(pleat_stream_order_solve(&order, 3, ranks));
    for (uint32_t i = 0; i < 3; i++) {
        cr_expect(eq(u32, ranks[i], i));
    }
}

Test(stream_order, changes_only_what_was_seen, .timeout = 5)
{
    pleat_stream_order_t order = {.note_count = 0};
    pleat_stream_order_note(&order, 2, 0);
    pleat_stream_order_note(&order, 1, 1);
    cr_expect(eq(u64, order.note_count, 1));
    uint32_t ranks[4] = {0};
    cr_assert(pleat_stream_order_solve(&order, 4, ranks));
    cr_expect(lt(u32, ranks[2], ranks[0]));
    cr_expect(eq(u32, ranks[1], 0));
    cr_expect(eq(u32, ranks[3], 3));
}

Test(stream_order, says_when_nothing_fits, .timeout = 5)
{
    pleat_stream_order_t order = {.note_count = 0};
    pleat_stream_order_note(&order, 0, 1);
    pleat_stream_order_note(&order, 1, 0);
    uint32_t ranks[2] = {9, 9};
    cr_expect(not(pleat_stream_order_solve(&order, 2, ranks)));
    cr_expect(eq(u32, ranks[0], 0));
    cr_expect(eq(u32, ranks[1], 1));
}

Test(stream_order, leaves_streams_beyond_its_size_alone, .timeout = 5)
{
    enum { COUNT = PLEAT_STREAM_ORDER_MAX + 2 };
    pleat_stream_order_t order = {.note_count = 0};
    pleat_stream_order_note(&order, COUNT - 1, 0);
    cr_expect(eq(u64, order.note_count, 0));
    pleat_stream_order_note(&order, PLEAT_STREAM_ORDER_MAX - 1, 0);
    uint32_t ranks[COUNT] = {0};
    cr_assert(pleat_stream_order_solve(&order, COUNT, ranks));
    cr_expect(lt(u32, ranks[PLEAT_STREAM_ORDER_MAX - 1], ranks[0]));
    cr_expect(eq(u32, ranks[COUNT - 1], COUNT - 1));
}
