/*
 * driver_log: see driver_log.h.
 */
#include "driver_log.h"

#include "vmm/base.h"

#include <stdlib.h>

pleat_status_t pleat_driver_log_init(pleat_driver_log_t *log, size_t capacity)
{
    PLEAT_ASSERT(capacity >= 2);
    *log = (pleat_driver_log_t){.slices = calloc(capacity, sizeof(*log->slices)),
                                .capacity = capacity};
    if (log->slices == NULL) {
        pleat_error_set("no host memory for %zu slices of device calls", capacity);
        return PLEAT_ERR_OOM_HOST;
    }
    return PLEAT_OK;
}

void pleat_driver_log_fini(pleat_driver_log_t *log)
{
    free(log->slices);
    *log = (pleat_driver_log_t){.slices = NULL};
}

static void log_join(pleat_driver_slice_t *slice, const pleat_driver_slice_t *next)
{
    slice->end_ns = next->end_ns;
    slice->cost_ns += next->cost_ns;
    slice->call_count += next->call_count;
    slice->failure_count += next->failure_count;
    if (slice->call != next->call) {
        slice->call = PLEAT_VMM_CALL_COUNT;
    }
}

static bool log_belongs(const pleat_driver_log_t *log, const pleat_driver_slice_t *slice,
                        const pleat_driver_slice_t *next)
{
    if (slice->call == next->call && slice->group == next->group &&
        slice->end_ns == next->begin_ns) {
        return true;
    }
    return next->begin_ns - slice->end_ns < log->gap_ns;
}

/* Double the gap until the slices fill at most half of their places, or are all one. */
static void log_widen(pleat_driver_log_t *log)
{
    do {
        size_t kept = 1;
        log->gap_ns = log->gap_ns > UINT64_MAX / 2 ? UINT64_MAX : 2 * log->gap_ns + 1;
        for (size_t i = 1; i < log->count; i++) {
            if (log_belongs(log, &log->slices[kept - 1], &log->slices[i])) {
                log_join(&log->slices[kept - 1], &log->slices[i]);
            } else {
                log->slices[kept++] = log->slices[i];
            }
        }
        log->count = kept;
    } while (log->count > log->capacity / 2 && log->gap_ns < UINT64_MAX);
}

void pleat_driver_log_add(pleat_driver_log_t *log, const pleat_driver_slice_t *call)
{
    PLEAT_ASSERT(call->end_ns >= call->begin_ns);
    if (log->count > 0) {
        pleat_driver_slice_t *last = &log->slices[log->count - 1];
        PLEAT_ASSERT(call->begin_ns >= last->end_ns);
        if (log_belongs(log, last, call)) {
            log_join(last, call);
            return;
        }
    }
    if (log->count == log->capacity) {
        log_widen(log);
        pleat_driver_log_add(log, call);
        return;
    }
    log->slices[log->count++] = *call;
}
