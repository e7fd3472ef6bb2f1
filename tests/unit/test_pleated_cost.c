/*
 * Tests of pleated_cost: what the rules promise, whatever their weights are.
 */
#include "core/pleated_cost.h"

#include "core/options.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#define MIB(count) ((uint64_t)(count)*PLEAT_MIB)
#define GRANULE MIB(2)

static const pleat_options_t default_options = PLEAT_OPTIONS_INIT;

/* ---- how much to hold ---- */

Test(pleated_cost, as_much_as_the_peak_and_the_slack_is_held, .timeout = 5)
{
    pleat_options_t options = default_options;
    options.pleated_slack = 0.0;
    cr_expect(eq(u64, pleat_cost_hold_bytes(&options, MIB(1000), 0), MIB(1000)));
    options.pleated_slack = 0.25;
    cr_expect(eq(u64, pleat_cost_hold_bytes(&options, MIB(1000), 0), MIB(1250)));
    options.limit_bytes = MIB(1100);
    cr_expect(eq(u64, pleat_cost_hold_bytes(&options, MIB(1000), 0), MIB(1100)));
    options.pleated_slack = 1.0; /* all that there is */
    cr_expect(eq(u64, pleat_cost_hold_bytes(&options, MIB(1), 0), MIB(1100)));
    options.limit_bytes = PLEAT_NO_LIMIT;
    cr_expect(eq(u64, pleat_cost_hold_bytes(&options, MIB(1), 0), UINT64_MAX));
}

Test(pleated_cost, a_peak_at_the_end_of_numbers_does_not_wrap, .timeout = 5)
{
    pleat_options_t options = default_options;
    options.pleated_slack = 0.5;
    cr_expect(eq(u64, pleat_cost_hold_bytes(&options, UINT64_MAX - 10, 0), UINT64_MAX));
}

Test(pleated_cost, views_that_are_made_again_and_again_are_bought_off, .timeout = 5)
{
    pleat_options_t options = default_options;
    const uint64_t base = pleat_cost_hold_bytes(&options, MIB(1000), 0);
    cr_expect(eq(u64, pleat_cost_hold_bytes(&options, MIB(1000), MIB(2000)), base),
              "what a training loop maps is no reason");
    cr_expect(pleat_cost_is_tight(MIB(64), MIB(1000), MIB(1000), MIB(2000)));
    uint64_t before = base;
    for (uint64_t viewed = MIB(8000); viewed <= MIB(64000); viewed *= 2) {
        const uint64_t hold = pleat_cost_hold_bytes(&options, MIB(1000), viewed);
        cr_expect(ge(u64, hold, before));
        cr_expect(not(pleat_cost_is_tight(MIB(64), MIB(1000), MIB(1000), viewed)));
        before = hold;
    }
    cr_expect(lt(u64, base, before));
    cr_expect(le(u64, before, base + MIB(500)), "not without end");
    cr_expect(eq(u64, pleat_cost_hold_bytes(&options, MIB(1000), UINT64_MAX), before));
    options.limit_bytes = base;
    cr_expect(eq(u64, pleat_cost_hold_bytes(&options, MIB(1000), MIB(64000)), base));
    options.limit_bytes = PLEAT_NO_LIMIT;
    cr_expect(eq(u64, pleat_cost_hold_bytes(&options, UINT64_MAX, UINT64_MAX), UINT64_MAX));
}

/* ---- how much to grow ---- */

Test(pleated_cost, growth_is_what_is_needed_or_a_whole_handle, .timeout = 5)
{
    pleat_options_t options = default_options;
    for (uint64_t peak = MIB(16); peak <= MIB(160000); peak *= 10) {
        /* Memory only grows: at the peak, and nothing lies free. */
        const uint64_t grown =
            pleat_cost_growth_bytes(&options, MIB(2), peak, peak - MIB(2), peak, GRANULE);
        cr_expect(ge(u64, grown, MIB(2)));
        cr_expect(eq(u64, grown % GRANULE, 0));
        cr_expect(le(u64, grown, pleat_cost_handle_bytes(&options, peak, 0, GRANULE)));
        /* Below the peak, or with much free. */
        cr_expect(eq(
            u64, pleat_cost_growth_bytes(&options, MIB(2), peak / 2, peak - MIB(2), peak, GRANULE),
            MIB(2)));
        cr_expect(eq(u64, pleat_cost_growth_bytes(&options, MIB(2), peak, 2 * peak, peak, GRANULE),
                     MIB(2)));
    }
}

Test(pleated_cost, growth_beyond_a_handle_is_exact, .timeout = 5)
{
    cr_expect(eq(u64,
                 pleat_cost_growth_bytes(&default_options, MIB(5000), MIB(8000), MIB(3000),
                                         MIB(8000), GRANULE),
                 MIB(5000)));
    cr_expect(
        eq(u64, pleat_cost_excess_bytes(&default_options, MIB(5000), MIB(3000), MIB(8000), GRANULE),
           MIB(5000)));
}

Test(pleated_cost, growth_beyond_the_need_stays_within_the_limit, .timeout = 5)
{
    pleat_options_t options = default_options;
    const uint64_t peak = MIB(100000);
    options.limit_bytes = peak; /* exactly what is needed */
    cr_expect(eq(u64, pleat_cost_growth_bytes(&options, MIB(2), peak, peak - MIB(2), peak, GRANULE),
                 MIB(2)));
    cr_expect(
        eq(u64, pleat_cost_excess_bytes(&options, MIB(2), peak - MIB(2), peak, GRANULE), MIB(2)));
    options.limit_bytes = 2 * peak;
    const uint64_t excess = pleat_cost_excess_bytes(&options, MIB(2), peak - MIB(2), peak, GRANULE);
    cr_expect(ge(u64, excess, MIB(2)));
    cr_expect(eq(u64, excess % GRANULE, 0));
}

/* ---- how large a handle is ---- */

Test(pleated_cost, handles_keep_their_bounds, .timeout = 5)
{
    pleat_options_t options = default_options;
    options.pleated_handle_min_bytes = MIB(4);
    options.pleated_handle_max_bytes = MIB(64);
    options.pleated_handle_fraction = 0.01;
    uint64_t before = 0;
    for (uint64_t peak = MIB(1); peak <= MIB(1000000); peak *= 2) {
        const uint64_t bytes = pleat_cost_handle_bytes(&options, peak, MIB(1), GRANULE);
        cr_expect(ge(u64, bytes, MIB(4)));
        cr_expect(le(u64, bytes, MIB(64)));
        cr_expect(ge(u64, bytes, before));
        before = bytes;
    }
    cr_expect(eq(u64, before, MIB(64)));
    options.pleated_handle_fraction = 0.0;
    cr_expect(eq(u64, pleat_cost_handle_bytes(&options, MIB(1000000), MIB(1), GRANULE), MIB(4)));
}

Test(pleated_cost, bounds_that_cross_give_the_smallest, .timeout = 5)
{
    pleat_options_t options = default_options;
    options.pleated_handle_min_bytes = MIB(64);
    options.pleated_handle_max_bytes = MIB(4);
    options.pleated_handle_fraction = 1.0;
    cr_expect(eq(u64, pleat_cost_handle_bytes(&options, MIB(100000), MIB(1), GRANULE), MIB(64)));
}

Test(pleated_cost, a_large_request_gets_few_handles, .timeout = 5)
{
    pleat_options_t options = default_options;
    options.pleated_handle_min_bytes = MIB(2);
    options.pleated_handle_max_bytes = MIB(2);
    const uint64_t bytes = pleat_cost_handle_bytes(&options, MIB(4096), MIB(4096), GRANULE);
    cr_expect(ge(u64, bytes, MIB(4096) / 64));
    cr_expect(le(u64, bytes, MIB(4096)));
}

Test(pleated_cost, handles_are_multiples_of_the_granularity, .timeout = 5)
{
    pleat_options_t options = default_options;
    options.pleated_handle_min_bytes = MIB(2) + 1;
    cr_expect(eq(u64, pleat_cost_handle_bytes(&options, 0, 1, GRANULE) % GRANULE, 0));
}

/* ---- what a placement costs ---- */

Test(pleated_cost, a_hit_costs_what_it_breaks, .timeout = 5)
{
    cr_expect(eq(u64, pleat_cost_hit(MIB(10), 0), 0));
    cr_expect(eq(u64, pleat_cost_hit(MIB(10), MIB(10)), 0));
    cr_expect(eq(u64, pleat_cost_hit(MIB(10), MIB(16)), MIB(6)));
}

Test(pleated_cost, stitches_cost_more_with_every_fault, .timeout = 5)
{
    const pleat_cost_stitch_t base = {
        .bytes = MIB(64), .map_count = 4, .whole_bytes = MIB(32), .partial_bytes = MIB(32)};
    pleat_cost_stitch_t more = base;
    more.map_count++;
    cr_expect(gt(dbl, pleat_cost_of_stitch(&more), pleat_cost_of_stitch(&base)));
    cr_expect(gt(dbl, pleat_cost_of_tight_stitch(&more), pleat_cost_of_tight_stitch(&base)));
    more = base;
    more.lost_bytes = MIB(1);
    cr_expect(gt(dbl, pleat_cost_of_stitch(&more), pleat_cost_of_stitch(&base)));
    cr_expect(gt(dbl, pleat_cost_of_tight_stitch(&more), pleat_cost_of_tight_stitch(&base)));
    more = base;
    more.whole_bytes += MIB(16);
    cr_expect(gt(dbl, pleat_cost_of_stitch(&more), pleat_cost_of_stitch(&base)));
    more = base;
    more.partial_bytes -= MIB(16);
    cr_expect(gt(dbl, pleat_cost_of_tight_stitch(&more), pleat_cost_of_tight_stitch(&base)));
}

Test(pleated_cost, only_large_requests_near_the_peak_are_tight, .timeout = 5)
{
    cr_expect(pleat_cost_is_tight(MIB(64), MIB(1000), MIB(1000), 0));
    cr_expect(not(pleat_cost_is_tight(MIB(64), MIB(500), MIB(1000), 0)));
    cr_expect(not(pleat_cost_is_tight(MIB(2), MIB(1000), MIB(1000), 0)));
    cr_expect(gt(u64, pleat_cost_tight_gain_bytes(MIB(1)), 0));
    cr_expect(
        ge(u64, pleat_cost_tight_gain_bytes(MIB(1000000)), pleat_cost_tight_gain_bytes(MIB(1))));
}

/* ---- the option of growth ---- */

Test(pleated_cost, a_factor_asks_for_its_share_in_whole_handles, .timeout = 5)
{
    pleat_options_t options = default_options;
    const uint64_t room = MIB(1000);
    cr_expect(eq(u64, pleat_cost_factor_bytes(&options, 0, MIB(500), room, MIB(16)), 0));
    options.pleated_growth_factor = 1.5;
    cr_expect(eq(u64, pleat_cost_factor_bytes(&options, MIB(2), MIB(100), room, MIB(16)), MIB(64)));
    cr_expect(
        eq(u64, pleat_cost_factor_bytes(&options, MIB(66), MIB(100), room, MIB(16)), MIB(66)));
    cr_expect(
        eq(u64, pleat_cost_factor_bytes(&options, MIB(2), MIB(100), MIB(52), MIB(16)), MIB(52)));
    cr_expect(eq(u64, pleat_cost_factor_bytes(&options, MIB(60), MIB(100), MIB(52), MIB(16)), 0));
    cr_expect(eq(u64, pleat_cost_factor_bytes(&options, MIB(2), 0, room, MIB(16)), 0));
    options.pleated_growth_factor = 1000000.0;
    cr_expect(eq(u64, pleat_cost_factor_bytes(&options, MIB(2), MIB(100000), room, MIB(16)), room));
}
