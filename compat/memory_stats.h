/*
 * memory_stats (internal): where the value of each statistic lies in pleat_stats_t, for the files
 * that print statistics (pleat/memory_stats.h).
 */
#ifndef PLEAT_INTERNAL_MEMORY_STATS_H
#define PLEAT_INTERNAL_MEMORY_STATS_H

#include <pleat/memory_stats.h>

/* Caller's counters at full size, 0 where it has less. */
pleat_stats_t pleat_memory_stats_import(const pleat_stats_t *stats);

#endif
