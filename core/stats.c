/*
 * stats: the resets, over the lists of pleat/stats.h.
 */
#include "stats.h"

static void stat_reset_peak(pleat_stat_t *stat, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        stat[i].peak = stat[i].current;
    }
}

static void stat_reset_accumulated(pleat_stat_t *stat, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        stat[i].allocated = 0;
        stat[i].freed = 0;
    }
}

void pleat_stats_reset_peak(pleat_stats_t *stats)
{
#define RESET_ARRAY(name, text) stat_reset_peak(stats->name, PLEAT_STAT_KIND_COUNT);
#define RESET_PLAIN(name, text) stat_reset_peak(&stats->name, 1);
    PLEAT_ARRAY_STAT_LIST(RESET_ARRAY)
    PLEAT_PLAIN_STAT_LIST(RESET_PLAIN)
#undef RESET_ARRAY
#undef RESET_PLAIN
    stats->mappings_peak = stats->mappings;
}

void pleat_stats_reset_accumulated(pleat_stats_t *stats)
{
    const int64_t max_split_bytes = stats->max_split_bytes;
#define RESET_ARRAY(name, text) stat_reset_accumulated(stats->name, PLEAT_STAT_KIND_COUNT);
#define RESET_PLAIN(name, text) stat_reset_accumulated(&stats->name, 1);
#define RESET_SCALAR(name, text) stats->name = 0;
    PLEAT_ARRAY_STAT_LIST(RESET_ARRAY)
    PLEAT_PLAIN_STAT_LIST(RESET_PLAIN)
    PLEAT_SCALAR_STAT_LIST(RESET_SCALAR)
#undef RESET_ARRAY
#undef RESET_PLAIN
#undef RESET_SCALAR
    stats->max_split_bytes = max_split_bytes;
}
