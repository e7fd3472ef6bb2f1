/*
 * stats (internal): how the counters move. One call is one increase or one decrease: the peak is
 * looked at after every single increase, and the sums count every one.
 */
#ifndef PLEAT_STATS_INTERNAL_H
#define PLEAT_STATS_INTERNAL_H

#include <pleat/stats.h>

#include "../vmm/base.h"

static inline void pleat_stat_increase(pleat_stat_t *stat, int64_t amount)
{
    stat->current += amount;
    stat->allocated += amount;
    if (stat->current > stat->peak) {
        stat->peak = stat->current;
    }
}

static inline void pleat_stat_decrease(pleat_stat_t *stat, int64_t amount)
{
    stat->current -= amount;
    stat->freed += amount;
}

/* The aggregate and the row of one pool kind. */
static inline void pleat_stats_increase(pleat_stat_t *stat, pleat_stat_kind_t kind, uint64_t amount)
{
    pleat_stat_increase(&stat[PLEAT_STAT_ALL], (int64_t)amount);
    pleat_stat_increase(&stat[kind], (int64_t)amount);
}

static inline void pleat_stats_decrease(pleat_stat_t *stat, pleat_stat_kind_t kind, uint64_t amount)
{
    pleat_stat_decrease(&stat[PLEAT_STAT_ALL], (int64_t)amount);
    pleat_stat_decrease(&stat[kind], (int64_t)amount);
}

/* Apply a net change: one increase, one decrease, or nothing. */
static inline void pleat_stats_change(pleat_stat_t *stat, pleat_stat_kind_t kind, int64_t change)
{
    if (change > 0) {
        pleat_stats_increase(stat, kind, (uint64_t)change);
    } else if (change < 0) {
        pleat_stats_decrease(stat, kind, (uint64_t)-change);
    }
}

/* Mappings that were made, or that went. */
static inline void pleat_stats_map(pleat_stats_t *stats, uint64_t count)
{
    stats->mappings += (int64_t)count;
    if (stats->mappings > stats->mappings_peak) {
        stats->mappings_peak = stats->mappings;
    }
}

static inline void pleat_stats_unmap(pleat_stats_t *stats, uint64_t count)
{
    stats->mappings -= (int64_t)count;
    PLEAT_ASSERT(stats->mappings >= 0);
}

/* Peaks become current values. */
void pleat_stats_reset_peak(pleat_stats_t *stats);

/* Sums of increases and decreases and event counters become 0; max_split_bytes stays. */
void pleat_stats_reset_accumulated(pleat_stats_t *stats);

#endif
