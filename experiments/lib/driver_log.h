/*
 * driver_log: the device calls of a replay as slices of time, in a bounded number of them. Calls of
 * one kind that follow one another are one slice; when the slices run out, those between which
 * little time passed are joined, and the time that counts as little grows.
 *
 * Invariants: slices rise in time and do not overlap; at most `capacity` of them.
 * Locks: none; a log belongs to one thread at a time.
 */
#ifndef PLEAT_EXPERIMENTS_DRIVER_LOG_H
#define PLEAT_EXPERIMENTS_DRIVER_LOG_H

#include <pleat/vmm.h>

typedef struct pleat_driver_slice {
    uint64_t begin_ns;
    uint64_t end_ns;
    uint64_t cost_ns; /* sum of its calls; less than its length if it was joined over gaps */
    uint64_t call_count;
    uint64_t failure_count;
    uint64_t group;        /* calls of different groups are only joined for lack of room */
    pleat_vmm_call_t call; /* PLEAT_VMM_CALL_COUNT: several kinds */
} pleat_driver_slice_t;

typedef struct pleat_driver_log {
    pleat_driver_slice_t *slices;
    size_t count;
    size_t capacity;
    uint64_t gap_ns; /* 0: nothing was joined over gaps yet */
} pleat_driver_log_t;

/**
 * Begin an empty log.
 * @param capacity  most slices, at least 2.
 * @retval PLEAT_ERR_OOM_HOST  no host memory.
 */
PLEAT_NODISCARD pleat_status_t pleat_driver_log_init(pleat_driver_log_t *log, size_t capacity);
void pleat_driver_log_fini(pleat_driver_log_t *log);

/** Add a slice of one call that begins at or after the end of all others. @par Cost constant,
 * amortised. */
void pleat_driver_log_add(pleat_driver_log_t *log, const pleat_driver_slice_t *call);

#endif
