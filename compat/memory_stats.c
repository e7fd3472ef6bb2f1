/*
 * memory_stats: names and places of the flattened statistics (pleat/memory_stats.h).
 *
 * The table of names comes from core's lists at compile time, in their order. C cannot sort at
 * compile time, so PyTorch's order is found once, at the first call of any function here, and never
 * changes after that.
 */
#include "memory_stats.h"

#include "vmm/base.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct memory_stat {
    const char *name;
    size_t offset; /* of the int64_t in pleat_stats_t */
} memory_stat_t;

#define MEMORY_STAT_VALUE(name, prefix, place, field)                                          \
    {#name prefix "." #field, offsetof(pleat_stats_t, name) + (place) * sizeof(pleat_stat_t) + \
                                  offsetof(pleat_stat_t, field)},
#define MEMORY_STAT_VALUES(name, prefix, place)       \
    MEMORY_STAT_VALUE(name, prefix, place, current)   \
    MEMORY_STAT_VALUE(name, prefix, place, peak)      \
    MEMORY_STAT_VALUE(name, prefix, place, allocated) \
    MEMORY_STAT_VALUE(name, prefix, place, freed)
#define MEMORY_STAT_ARRAY(name, text)                              \
    MEMORY_STAT_VALUES(name, ".all", PLEAT_STAT_ALL)               \
    MEMORY_STAT_VALUES(name, ".large_pool", PLEAT_STAT_LARGE_POOL) \
    MEMORY_STAT_VALUES(name, ".small_pool", PLEAT_STAT_SMALL_POOL)
#define MEMORY_STAT_PLAIN(name, text) MEMORY_STAT_VALUES(name, "", 0)
#define MEMORY_STAT_SCALAR(name, text) {#name, offsetof(pleat_stats_t, name)},

static const memory_stat_t memory_stats_listed[] = {
    PLEAT_ARRAY_STAT_LIST(MEMORY_STAT_ARRAY) PLEAT_PLAIN_STAT_LIST(MEMORY_STAT_PLAIN)
        PLEAT_SCALAR_STAT_LIST(MEMORY_STAT_SCALAR)};

enum { MEMORY_STATS_COUNT = sizeof memory_stats_listed / sizeof memory_stats_listed[0] };

static_assert(MEMORY_STATS_COUNT == PLEAT_MEMORY_STATS_COUNT, "PyTorch 2.11 has 122 statistics");

/* Written once under memory_stats_once. */
static memory_stat_t memory_stats_sorted[MEMORY_STATS_COUNT];
static pthread_once_t memory_stats_once = PTHREAD_ONCE_INIT;

static int memory_stats_compare(const void *a, const void *b)
{
    return strcmp(((const memory_stat_t *)a)->name, ((const memory_stat_t *)b)->name);
}

static void memory_stats_sort(void)
{
    memcpy(memory_stats_sorted, memory_stats_listed, sizeof memory_stats_sorted);
    for (size_t i = 0; i < MEMORY_STATS_COUNT; i++) {
        /* The one counter that PyTorch calls by another name. */
        if (memory_stats_sorted[i].offset == offsetof(pleat_stats_t, max_split_bytes)) {
            memory_stats_sorted[i].name = "max_split_size";
        }
    }
    qsort(memory_stats_sorted, MEMORY_STATS_COUNT, sizeof memory_stats_sorted[0],
          memory_stats_compare);
}

static const memory_stat_t *memory_stats_table(void)
{
    (void)pthread_once(&memory_stats_once, memory_stats_sort);
    return memory_stats_sorted;
}

size_t pleat_memory_stats_count(void)
{
    return MEMORY_STATS_COUNT;
}

const char *pleat_memory_stats_name(size_t index)
{
    return index < MEMORY_STATS_COUNT ? memory_stats_table()[index].name : NULL;
}

size_t pleat_memory_stats_index(const char *name)
{
    const memory_stat_t *table = memory_stats_table();
    const memory_stat_t wanted = {.name = name};
    const memory_stat_t *found = name != NULL ? bsearch(&wanted, table, MEMORY_STATS_COUNT,
                                                        sizeof table[0], memory_stats_compare)
                                              : NULL;
    return found != NULL ? (size_t)(found - table) : MEMORY_STATS_COUNT;
}

pleat_stats_t pleat_memory_stats_import(const pleat_stats_t *stats)
{
    pleat_stats_t full = {0};
    memcpy(&full, stats, stats->size < sizeof full ? stats->size : sizeof full);
    full.size = sizeof full;
    return full;
}

void pleat_memory_stats_values(const pleat_stats_t *stats, int64_t *values)
{
    const memory_stat_t *table = memory_stats_table();
    if (stats->size < sizeof *stats) {
        const pleat_stats_t full = pleat_memory_stats_import(stats);
        pleat_memory_stats_values(&full, values);
        return;
    }
    for (size_t i = 0; i < MEMORY_STATS_COUNT; i++) {
        memcpy(&values[i], (const char *)stats + table[i].offset, sizeof values[i]);
    }
}

/* ---- counters that PyTorch does not have ---- */

#define MEMORY_STAT_OWN(name, text) {"pleat." #name, offsetof(pleat_stats_t, name)},

static const memory_stat_t memory_stats_own[] = {PLEAT_OWN_STAT_LIST(MEMORY_STAT_OWN)};

static_assert(sizeof memory_stats_own / sizeof memory_stats_own[0] == PLEAT_MEMORY_STATS_OWN_COUNT,
              "one name a counter");

size_t pleat_memory_stats_own_count(void)
{
    return PLEAT_MEMORY_STATS_OWN_COUNT;
}

const char *pleat_memory_stats_own_name(size_t index)
{
    return index < PLEAT_MEMORY_STATS_OWN_COUNT ? memory_stats_own[index].name : NULL;
}

void pleat_memory_stats_own_values(const pleat_stats_t *stats, int64_t *values, size_t count)
{
    const pleat_stats_t full = pleat_memory_stats_import(stats);
    for (size_t i = 0; i < count && i < PLEAT_MEMORY_STATS_OWN_COUNT; i++) {
        memcpy(&values[i], (const char *)&full + memory_stats_own[i].offset, sizeof values[i]);
    }
}
