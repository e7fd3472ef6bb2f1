/*
 * curve: how much memory was reserved, allocated, active and split over the time of a replay, in
 * a bounded number of rows. Time is divided into bins; of each bin the samples in which a series
 * is highest or lowest are kept whole, so no peak is ever lost and every row is a state that
 * really was. When the bins run out, neighbours are joined and the bins grow.
 *
 * Invariants: bins rise in time, none is empty, at most `capacity` of them.
 * Locks: none; a curve belongs to one thread at a time.
 */
#ifndef PLEAT_EXPERIMENTS_CURVE_H
#define PLEAT_EXPERIMENTS_CURVE_H

#include <pleat/base.h>
#include <stdio.h>

/* X(NAME, column) */
#define PLEAT_CURVE_LIST(X)                 \
    X(RESERVED, reserved_bytes)             \
    X(ALLOCATED, allocated_bytes)           \
    X(ACTIVE, active_bytes)                 \
    X(INACTIVE_SPLIT, inactive_split_bytes) \
    X(UNRETURNABLE, unreturnable_bytes)

typedef enum pleat_curve_series {
#define PLEAT_CURVE_ENUM(name, column) PLEAT_CURVE_##name,
    PLEAT_CURVE_LIST(PLEAT_CURVE_ENUM)
#undef PLEAT_CURVE_ENUM
        PLEAT_CURVE_SERIES_COUNT
} pleat_curve_series_t;

typedef struct pleat_curve_sample {
    uint64_t time_us;
    uint64_t sequence; /* tells samples of one moment apart; set by the curve */
    int64_t bytes[PLEAT_CURVE_SERIES_COUNT];
} pleat_curve_sample_t;

typedef struct pleat_curve_bin {
    uint64_t number; /* time of its beginning in widths */
    pleat_curve_sample_t first;
    pleat_curve_sample_t lowest[PLEAT_CURVE_SERIES_COUNT];
    pleat_curve_sample_t highest[PLEAT_CURVE_SERIES_COUNT];
} pleat_curve_bin_t;

typedef struct pleat_curve {
    pleat_curve_bin_t *bins;
    size_t count;
    size_t capacity;
    uint64_t width_us;
    uint64_t sample_count;
    pleat_curve_sample_t last;
} pleat_curve_t;

/**
 * Begin an empty curve.
 * @param capacity  most bins, at least 2; a bin gives up to eleven rows.
 * @retval PLEAT_ERR_INVALID   less than 2 bins.
 * @retval PLEAT_ERR_OOM_HOST  no host memory.
 */
PLEAT_NODISCARD pleat_status_t pleat_curve_init(pleat_curve_t *curve, size_t capacity);

/** Free what the curve holds. */
void pleat_curve_fini(pleat_curve_t *curve);

/** Add a sample; time never steps back: an earlier time counts as that of the sample before.
 * @par Cost constant, amortised; no host memory. */
void pleat_curve_add(pleat_curve_t *curve, const pleat_curve_sample_t *sample);

/* Called for a sample; false ends the visit. */
typedef bool (*pleat_curve_visit_fn_t)(void *context, const pleat_curve_sample_t *sample);

/** Visit the samples that were kept, in order of time. False: a visit ended it. @par Cost linear.
 */
bool pleat_curve_visit(const pleat_curve_t *curve, pleat_curve_visit_fn_t visit, void *context);

/** Name of a series, its column without "_bytes". @par Cost constant; the string is static. */
const char *pleat_curve_series_name(pleat_curve_series_t series);

/**
 * Write the samples that were kept as CSV: a comment with @p command, a header, and rows in order
 * of time.
 * @retval PLEAT_ERR_IO  writing failed.
 */
PLEAT_NODISCARD pleat_status_t pleat_curve_write_csv(const pleat_curve_t *curve,
                                                     const char *command, FILE *file);

/** The same into a file of that name. @retval PLEAT_ERR_IO names the path and the cause. */
PLEAT_NODISCARD pleat_status_t pleat_curve_save_csv(const pleat_curve_t *curve, const char *command,
                                                    const char *path);

#endif
