/*
 * test_memory_stats: names, order and values of the flattened statistics.
 */
#include <pleat/memory_stats.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>

/* Counters whose every number is different: its position in the struct. */
static pleat_stats_t numbered_stats(void)
{
    pleat_stats_t stats = PLEAT_STATS_INIT;
    int64_t *numbers = (int64_t *)(void *)&stats;
    for (size_t i = 1; i < sizeof stats / sizeof numbers[0]; i++) {
        numbers[i] = (int64_t)i;
    }
    return stats;
}

static int64_t value_of(const pleat_stats_t *stats, const char *name)
{
    int64_t values[PLEAT_MEMORY_STATS_COUNT];
    const size_t index = pleat_memory_stats_index(name);
    cr_assert(lt(sz, index, pleat_memory_stats_count()));
    pleat_memory_stats_values(stats, values);
    return values[index];
}

Test(memory_stats, there_are_122_names_in_string_order)
{
    cr_assert(eq(sz, pleat_memory_stats_count(), 122));
    cr_expect(eq(sz, PLEAT_MEMORY_STATS_COUNT, 122));
    for (size_t i = 0; i < 122; i++) {
        const char *name = pleat_memory_stats_name(i);
        cr_expect(eq(sz, pleat_memory_stats_index(name), i));
        cr_expect(i == 0 || strcmp(pleat_memory_stats_name(i - 1), name) < 0, "at %s", name);
    }
    cr_expect(pleat_memory_stats_name(122) == NULL);
}

/* PyTorch's own list: the values of a recorded session, by name. */
Test(memory_stats, the_names_are_those_of_a_recorded_session)
{
    FILE *file = fopen(PLEAT_TEST_DATA "/sessions/default.values.txt", "r");
    cr_assert(file != NULL);
    size_t count = 0;
    char line[128];
    while (fgets(line, sizeof line, file) != NULL) {
        char *space = strchr(line, ' ');
        cr_assert(space != NULL);
        *space = '\0';
        cr_expect(eq(str, (char *)pleat_memory_stats_name(count), line));
        count++;
    }
    (void)fclose(file);
    cr_expect(eq(sz, count, 122));
}

Test(memory_stats, values_come_from_their_counters)
{
    const pleat_stats_t stats = numbered_stats();
    cr_expect(eq(i64, value_of(&stats, "allocation.all.current"), stats.allocation[0].current));
    cr_expect(eq(i64, value_of(&stats, "reserved_bytes.large_pool.peak"),
                 stats.reserved_bytes[PLEAT_STAT_LARGE_POOL].peak));
    cr_expect(eq(i64, value_of(&stats, "requested_bytes.small_pool.allocated"),
                 stats.requested_bytes[PLEAT_STAT_SMALL_POOL].allocated));
    cr_expect(eq(i64, value_of(&stats, "inactive_split.all.freed"), stats.inactive_split[0].freed));
    cr_expect(eq(i64, value_of(&stats, "oversize_segments.freed"), stats.oversize_segments.freed));
    cr_expect(eq(i64, value_of(&stats, "max_split_size"), stats.max_split_bytes));
    cr_expect(eq(i64, value_of(&stats, "num_ooms"), stats.num_ooms));
    /* each number of the struct shows up once */
    int64_t values[PLEAT_MEMORY_STATS_COUNT];
    int seen[PLEAT_MEMORY_STATS_COUNT + 1] = {0};
    pleat_memory_stats_values(&stats, values);
    for (size_t i = 0; i < PLEAT_MEMORY_STATS_COUNT; i++) {
        cr_assert(ge(i64, values[i], 1));
        cr_assert(le(i64, values[i], PLEAT_MEMORY_STATS_COUNT));
        cr_expect(eq(int, seen[values[i]]++, 0));
    }
}

Test(memory_stats, unknown_names_have_no_index)
{
    static const char *const names[] = {"", "active", "zzz", "allocated.all.current", NULL};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        cr_expect(eq(sz, pleat_memory_stats_index(names[i]), pleat_memory_stats_count()));
    }
}

Test(memory_stats, an_older_caller_has_fewer_counters)
{
    pleat_stats_t stats = numbered_stats();
    stats.size = offsetof(pleat_stats_t, num_ooms);
    cr_expect(eq(i64, value_of(&stats, "num_ooms"), 0));
    cr_expect(eq(i64, value_of(&stats, "num_alloc_retries"), stats.num_alloc_retries));
}

Test(memory_stats, own_counters_have_names_of_their_own)
{
    const pleat_stats_t stats = numbered_stats();
    int64_t values[PLEAT_MEMORY_STATS_OWN_COUNT + 1] = {0};
    cr_expect(eq(sz, pleat_memory_stats_own_count(), PLEAT_MEMORY_STATS_OWN_COUNT));
    cr_expect(pleat_memory_stats_own_name(PLEAT_MEMORY_STATS_OWN_COUNT) == NULL);
    pleat_memory_stats_own_values(&stats, values, PLEAT_MEMORY_STATS_OWN_COUNT + 1);
    cr_expect(eq(i64, values[PLEAT_MEMORY_STATS_OWN_COUNT], 0));
    size_t index = 0;
#define EXPECT_OWN(name, text)                                                              \
    cr_expect(eq(str, (char *)pleat_memory_stats_own_name(index), (char *)"pleat." #name)); \
    cr_expect(eq(i64, values[index], stats.name));                                          \
    index++;
    PLEAT_OWN_STAT_LIST(EXPECT_OWN)
#undef EXPECT_OWN
    for (size_t i = 0; i < PLEAT_MEMORY_STATS_OWN_COUNT; i++) {
        cr_expect(eq(sz, pleat_memory_stats_index(pleat_memory_stats_own_name(i)), 122));
    }
    values[1] = -7;
    pleat_memory_stats_own_values(&stats, values, 1);
    cr_expect(eq(i64, values[1], -7));
}
