/*
 * Tests of stats: how one change moves a counter, and the resets.
 */
#include "core/stats.h"

#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

static void expect_stat(const pleat_stat_t *stat, const pleat_stat_t want)
{
    cr_expect(eq(i64, stat->current, want.current));
    cr_expect(eq(i64, stat->peak, want.peak));
    cr_expect(eq(i64, stat->allocated, want.allocated));
    cr_expect(eq(i64, stat->freed, want.freed));
}

Test(stats, peak_moves_on_increases_only, .timeout = 5)
{
    pleat_stat_t stat = {0};
    pleat_stat_increase(&stat, 10);
    pleat_stat_decrease(&stat, 4);
    pleat_stat_increase(&stat, 3);
    expect_stat(&stat, (pleat_stat_t){9, 10, 13, 4});
    pleat_stat_increase(&stat, 2);
    expect_stat(&stat, (pleat_stat_t){11, 11, 15, 4});
    pleat_stat_decrease(&stat, 20);
    expect_stat(&stat, (pleat_stat_t){-9, 11, 15, 24});
}

Test(stats, rows_of_a_pool_and_of_all_move_together, .timeout = 5)
{
    pleat_stat_t row[PLEAT_STAT_KIND_COUNT] = {{0}};
    pleat_stats_increase(row, PLEAT_STAT_SMALL_POOL, 5);
    pleat_stats_increase(row, PLEAT_STAT_LARGE_POOL, 7);
    pleat_stats_decrease(row, PLEAT_STAT_SMALL_POOL, 5);
    pleat_stats_increase(row, PLEAT_STAT_LARGE_POOL, 1);
    expect_stat(&row[PLEAT_STAT_ALL], (pleat_stat_t){8, 12, 13, 5});
    expect_stat(&row[PLEAT_STAT_SMALL_POOL], (pleat_stat_t){0, 5, 5, 5});
    expect_stat(&row[PLEAT_STAT_LARGE_POOL], (pleat_stat_t){8, 8, 8, 0});
}

Test(stats, a_net_change_counts_once, .timeout = 5)
{
    pleat_stat_t row[PLEAT_STAT_KIND_COUNT] = {{0}};
    pleat_stats_change(row, PLEAT_STAT_SMALL_POOL, 6);
    pleat_stats_change(row, PLEAT_STAT_SMALL_POOL, 0);
    pleat_stats_change(row, PLEAT_STAT_SMALL_POOL, -2);
    expect_stat(&row[PLEAT_STAT_ALL], (pleat_stat_t){4, 6, 6, 2});
    expect_stat(&row[PLEAT_STAT_LARGE_POOL], (pleat_stat_t){0, 0, 0, 0});
}

/* Give every number of the struct another value. */
static pleat_stats_t numbered_stats(void)
{
    pleat_stats_t stats = PLEAT_STATS_INIT;
    int64_t next = 1;
#define NUMBER_STAT(stat)           \
    (stat).current = next++;        \
    (stat).peak = 1000000 + next++; \
    (stat).allocated = next++;      \
    (stat).freed = next++;
#define NUMBER_ARRAY(name, text)                                    \
    for (unsigned kind = 0; kind < PLEAT_STAT_KIND_COUNT; kind++) { \
        NUMBER_STAT(stats.name[kind])                               \
    }
#define NUMBER_PLAIN(name, text) NUMBER_STAT(stats.name)
#define NUMBER_SCALAR(name, text) stats.name = next++;
    PLEAT_ARRAY_STAT_LIST(NUMBER_ARRAY)
    PLEAT_PLAIN_STAT_LIST(NUMBER_PLAIN)
    PLEAT_SCALAR_STAT_LIST(NUMBER_SCALAR)
    PLEAT_OWN_STAT_LIST(NUMBER_SCALAR)
    return stats;
}

Test(stats, the_lists_cover_the_struct, .timeout = 5)
{
    const pleat_stats_t stats = numbered_stats();
    const size_t count = (sizeof(stats) - sizeof(stats.size)) / sizeof(int64_t);
#define COUNT_ONE(name, text) +1
    const size_t own_count = 0 PLEAT_OWN_STAT_LIST(COUNT_ONE);
    cr_expect(eq(sz, count - own_count, 122), "nine rows of three, two rows, six counters");
    int64_t values[sizeof(stats) / sizeof(int64_t)];
    memcpy(values, (const char *)&stats + sizeof(stats.size), count * sizeof(values[0]));
    for (size_t i = 0; i < count; i++) {
        cr_expect(ne(i64, values[i], 0), "number %zu", i);
    }
}

Test(stats, peak_reset_touches_peaks_only, .timeout = 5)
{
    const pleat_stats_t before = numbered_stats();
    pleat_stats_t stats = before;
    pleat_stats_reset_peak(&stats);
#define EXPECT_STAT(now, was) \
    expect_stat(&(now), (pleat_stat_t){(was).current, (was).current, (was).allocated, (was).freed});
#define EXPECT_ARRAY(name, text)                                    \
    for (unsigned kind = 0; kind < PLEAT_STAT_KIND_COUNT; kind++) { \
        EXPECT_STAT(stats.name[kind], before.name[kind])            \
    }
#define EXPECT_PLAIN(name, text) EXPECT_STAT(stats.name, before.name)
#define EXPECT_SCALAR(name, text) cr_expect(eq(i64, stats.name, before.name));
    PLEAT_ARRAY_STAT_LIST(EXPECT_ARRAY)
    PLEAT_PLAIN_STAT_LIST(EXPECT_PLAIN)
    PLEAT_SCALAR_STAT_LIST(EXPECT_SCALAR)
#undef EXPECT_STAT
#undef EXPECT_SCALAR
    cr_expect(eq(i64, stats.mappings, before.mappings));
    cr_expect(eq(i64, stats.mappings_peak, before.mappings));
}

Test(stats, the_peak_of_mappings_follows_them, .timeout = 5)
{
    pleat_stats_t stats = PLEAT_STATS_INIT;
    pleat_stats_map(&stats, 7);
    pleat_stats_unmap(&stats, 5);
    pleat_stats_map(&stats, 3);
    cr_expect(eq(i64, stats.mappings, 5));
    cr_expect(eq(i64, stats.mappings_peak, 7));
    pleat_stats_reset_peak(&stats);
    cr_expect(eq(i64, stats.mappings_peak, 5));
}

Test(stats, accumulated_reset_keeps_current_peak_and_the_option, .timeout = 5)
{
    const pleat_stats_t before = numbered_stats();
    pleat_stats_t stats = before;
    pleat_stats_reset_accumulated(&stats);
#define EXPECT_STAT(now, was) expect_stat(&(now), (pleat_stat_t){(was).current, (was).peak, 0, 0});
#define EXPECT_SCALAR(name, text) cr_expect(eq(i64, stats.name, 0));
    PLEAT_ARRAY_STAT_LIST(EXPECT_ARRAY)
    PLEAT_PLAIN_STAT_LIST(EXPECT_PLAIN)
    cr_expect(eq(i64, stats.max_split_bytes, before.max_split_bytes));
    stats.max_split_bytes = 0;
    PLEAT_SCALAR_STAT_LIST(EXPECT_SCALAR)
}
