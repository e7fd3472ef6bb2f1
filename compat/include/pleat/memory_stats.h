/*
 * memory_stats: the counters of an allocator under the flattened names of
 * torch.cuda.memory_stats() of PyTorch 2.11, in PyTorch's order (plain string order); and those
 * that PyTorch does not have, under names of their own that begin with "pleat.".
 */
#ifndef PLEAT_MEMORY_STATS_H
#define PLEAT_MEMORY_STATS_H

#include <pleat/stats.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How many names there are, for arrays. */
#define PLEAT_MEMORY_STATS_COUNT 122

/** Number of names. @par Threads any.   @par Cost constant. */
PLEAT_API size_t pleat_memory_stats_count(void);

/**
 * Name of a value, as "allocated_bytes.all.current"; NULL past the last.
 * @par Threads any.   @par Cost constant; the string is static.
 */
PLEAT_API const char *pleat_memory_stats_name(size_t index);

/**
 * Index of a name, pleat_memory_stats_count() if there is no such name. NULL is none.
 * @par Threads any.   @par Cost O(log names).
 */
PLEAT_API size_t pleat_memory_stats_index(const char *name);

/**
 * Write all values in the order of the names.
 *
 * @param stats        from pleat_read_stats; what lies beyond its size counts as 0.
 * @param[out] values  room for pleat_memory_stats_count() values.
 * @par Threads any.   @par Cost one load and one store a value.
 */
PLEAT_API void pleat_memory_stats_values(const pleat_stats_t *stats, int64_t *values);

/* ---- counters that PyTorch does not have ---- */

/* The values in the order of the names. */
typedef struct pleat_memory_stats_own {
#define PLEAT_MEMORY_STATS_FIELD(name, text) int64_t name;
    PLEAT_OWN_STAT_LIST(PLEAT_MEMORY_STATS_FIELD)
#undef PLEAT_MEMORY_STATS_FIELD
} pleat_memory_stats_own_t;

/* How many names there are, for arrays. */
#define PLEAT_MEMORY_STATS_OWN_COUNT (sizeof(pleat_memory_stats_own_t) / sizeof(int64_t))

/** Number of names; a later library may have more than the header. @par Cost constant. */
PLEAT_API size_t pleat_memory_stats_own_count(void);

/**
 * Name of a value, as "pleat.unreturnable_bytes", in the order of PLEAT_OWN_STAT_LIST; NULL past
 * the last.
 * @par Threads any.   @par Cost constant; the string is static.
 */
PLEAT_API const char *pleat_memory_stats_own_name(size_t index);

/**
 * Write the first values in the order of the names.
 *
 * @param stats        as for pleat_memory_stats_values.
 * @param[out] values  room for @p count values; those past the last name are left alone.
 * @par Threads any.   @par Cost one load and one store a value.
 */
PLEAT_API void pleat_memory_stats_own_values(const pleat_stats_t *stats, int64_t *values,
                                             size_t count);

#ifdef __cplusplus
}
#endif
#endif
