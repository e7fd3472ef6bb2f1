/*
 * test_trace_live: ages of live allocations, newest first.
 */
#include "trace_live.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

static pleat_trace_event_t event_at(pleat_devptr_t address)
{
    return (pleat_trace_event_t){.address = address, .bytes = address + 1, .stream = address % 3};
}

static void add(pleat_trace_live_t *live, pleat_devptr_t address)
{
    const pleat_trace_event_t event = event_at(address);
    cr_assert(pleat_trace_live_add(live, &event));
}

static int64_t age_of(const pleat_trace_live_t *live, pleat_devptr_t address)
{
    const pleat_trace_event_t event = event_at(address);
    uint64_t age = 0;
    return pleat_trace_live_age(live, &event, &age) ? (int64_t)age : -1;
}

Test(trace_live, ages_count_newer_allocations)
{
    pleat_trace_live_t live;
    pleat_trace_live_init(&live);
    cr_expect(eq(i64, age_of(&live, 1), -1));
    cr_expect(pleat_trace_live_at(&live, 0) == NULL);
    for (pleat_devptr_t address = 0; address < 1000; address++) {
        add(&live, address);
    }
    cr_expect(eq(i64, age_of(&live, 999), 0));
    cr_expect(eq(i64, age_of(&live, 0), 999));
    pleat_trace_live_remove(&live, 500);
    pleat_trace_live_remove(&live, 999);
    pleat_trace_live_remove(&live, 0);
    pleat_trace_live_remove(&live, 5000);
    cr_expect(eq(i64, age_of(&live, 998), 0));
    cr_expect(eq(i64, age_of(&live, 501), 497));
    cr_expect(eq(i64, age_of(&live, 500), -1));
    cr_expect(eq(u64, pleat_trace_live_at(&live, 498)->address, 499));
    cr_expect(pleat_trace_live_at(&live, 997) == NULL);
    add(&live, 0);
    cr_expect(eq(i64, age_of(&live, 0), 0));
    add(&live, 998); /* again: the older one is forgotten */
    cr_expect(eq(i64, age_of(&live, 998), 0));
    cr_expect(eq(i64, age_of(&live, 0), 1));
    pleat_trace_live_fini(&live);
}

Test(trace_live, other_values_have_no_age)
{
    pleat_trace_live_t live;
    pleat_trace_live_init(&live);
    add(&live, 7);
    pleat_trace_event_t event = event_at(7);
    uint64_t age = 0;
    event.bytes++;
    cr_expect(not(pleat_trace_live_age(&live, &event, &age)));
    event = event_at(7);
    event.stream++;
    cr_expect(not(pleat_trace_live_age(&live, &event, &age)));
    pleat_trace_live_fini(&live);
}

Test(trace_live, very_old_allocations_have_no_age)
{
    pleat_trace_live_t live;
    pleat_trace_live_init(&live);
    for (pleat_devptr_t address = 0; address <= PLEAT_TRACE_LIVE_AGE_LIMIT; address++) {
        add(&live, address);
    }
    cr_expect(eq(i64, age_of(&live, 0), -1));
    cr_expect(eq(i64, age_of(&live, 1), PLEAT_TRACE_LIVE_AGE_LIMIT - 1));
    cr_expect(pleat_trace_live_at(&live, PLEAT_TRACE_LIVE_AGE_LIMIT) == NULL);
    pleat_trace_live_fini(&live);
}
