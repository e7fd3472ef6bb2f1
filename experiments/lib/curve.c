/*
 * curve: see curve.h.
 */
#include "curve.h"

#include "../../vmm/base.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PLEAT_CURVE_ROWS_MAX (1 + 2 * PLEAT_CURVE_SERIES_COUNT) /* of a bin */

pleat_status_t pleat_curve_init(pleat_curve_t *curve, size_t capacity)
{
    *curve = (pleat_curve_t){.width_us = 1};
    if (capacity < 2) {
        pleat_error_set("a timeline of %zu bins; at least 2 are needed", capacity);
        return PLEAT_ERR_INVALID;
    }
    curve->bins = calloc(capacity, sizeof(*curve->bins));
    if (curve->bins == NULL) {
        pleat_error_set("no host memory for a timeline of %zu bins", capacity);
        return PLEAT_ERR_OOM_HOST;
    }
    curve->capacity = capacity;
    return PLEAT_OK;
}

void pleat_curve_fini(pleat_curve_t *curve)
{
    free(curve->bins);
    *curve = (pleat_curve_t){.width_us = 1};
}

/* Of two bins that follow one another, the first takes in the second. */
static void curve_join(pleat_curve_bin_t *bin, const pleat_curve_bin_t *next)
{
    for (unsigned series = 0; series < PLEAT_CURVE_SERIES_COUNT; series++) {
        if (next->lowest[series].bytes[series] < bin->lowest[series].bytes[series]) {
            bin->lowest[series] = next->lowest[series];
        }
        if (next->highest[series].bytes[series] > bin->highest[series].bytes[series]) {
            bin->highest[series] = next->highest[series];
        }
    }
}

/* Double the width of the bins until they fill at most half of their places, or are all one. */
static void curve_widen(pleat_curve_t *curve)
{
    do {
        size_t kept = 0;
        curve->width_us *= 2;
        for (size_t i = 0; i < curve->count; i++) {
            pleat_curve_bin_t *bin = &curve->bins[i];
            bin->number /= 2;
            if (kept > 0 && curve->bins[kept - 1].number == bin->number) {
                curve_join(&curve->bins[kept - 1], bin);
            } else {
                curve->bins[kept++] = *bin;
            }
        }
        curve->count = kept;
    } while (curve->count > curve->capacity / 2 && curve->count > 1);
}

static void curve_begin_bin(pleat_curve_t *curve, uint64_t number)
{
    pleat_curve_bin_t *bin = &curve->bins[curve->count++];
    bin->number = number;
    bin->first = curve->last;
    for (unsigned series = 0; series < PLEAT_CURVE_SERIES_COUNT; series++) {
        bin->lowest[series] = curve->last;
        bin->highest[series] = curve->last;
    }
}

/* Does the last bin cover the time of the last sample? No division: this runs for every sample. */
static bool curve_is_in_last_bin(const pleat_curve_t *curve)
{
    if (curve->count == 0) {
        return false;
    }
    const pleat_curve_bin_t *bin = &curve->bins[curve->count - 1];
    return curve->last.time_us - bin->number * curve->width_us < curve->width_us;
}

void pleat_curve_add(pleat_curve_t *curve, const pleat_curve_sample_t *sample)
{
    const uint64_t last_us = curve->last.time_us;
    curve->last = *sample;
    curve->last.sequence = curve->sample_count++;
    if (sample->time_us < last_us) {
        curve->last.time_us = last_us;
    }
    if (!curve_is_in_last_bin(curve) && curve->count == curve->capacity) {
        curve_widen(curve);
    }
    if (!curve_is_in_last_bin(curve)) {
        curve_begin_bin(curve, curve->last.time_us / curve->width_us);
        return;
    }
    pleat_curve_bin_t *bin = &curve->bins[curve->count - 1];
    for (unsigned series = 0; series < PLEAT_CURVE_SERIES_COUNT; series++) {
        if (curve->last.bytes[series] < bin->lowest[series].bytes[series]) {
            bin->lowest[series] = curve->last;
        } else if (curve->last.bytes[series] > bin->highest[series].bytes[series]) {
            bin->highest[series] = curve->last;
        }
    }
}

static int curve_compare(const void *a, const void *b)
{
    const pleat_curve_sample_t *first = a;
    const pleat_curve_sample_t *second = b;
    return (first->sequence > second->sequence) - (first->sequence < second->sequence);
}

static bool curve_write_row(void *context, const pleat_curve_sample_t *sample)
{
    FILE *file = context;
    bool is_good = fprintf(file, "%llu", (unsigned long long)sample->time_us) > 0;
    for (unsigned series = 0; series < PLEAT_CURVE_SERIES_COUNT; series++) {
        is_good = is_good && fprintf(file, ",%lld", (long long)sample->bytes[series]) > 0;
    }
    return is_good && fputc('\n', file) != EOF;
}

/* The samples of a bin in order, each once. */
static bool curve_visit_bin(const pleat_curve_bin_t *bin, pleat_curve_visit_fn_t visit,
                            void *context)
{
    pleat_curve_sample_t rows[PLEAT_CURVE_ROWS_MAX];
    size_t count = 0;
    rows[count++] = bin->first;
    for (unsigned series = 0; series < PLEAT_CURVE_SERIES_COUNT; series++) {
        rows[count++] = bin->lowest[series];
        rows[count++] = bin->highest[series];
    }
    qsort(rows, count, sizeof(rows[0]), curve_compare);
    for (size_t i = 0; i < count; i++) {
        const bool is_new = i == 0 || rows[i].sequence != rows[i - 1].sequence;
        if (is_new && !visit(context, &rows[i])) {
            return false;
        }
    }
    return true;
}

/* Was the last sample visited with its bin? */
static bool curve_has_last(const pleat_curve_t *curve)
{
    const pleat_curve_bin_t *bin = &curve->bins[curve->count - 1];
    const uint64_t last = curve->last.sequence;
    bool has_last = bin->first.sequence == last;
    for (unsigned series = 0; series < PLEAT_CURVE_SERIES_COUNT; series++) {
        has_last = has_last || bin->lowest[series].sequence == last ||
                   bin->highest[series].sequence == last;
    }
    return has_last;
}

bool pleat_curve_visit(const pleat_curve_t *curve, pleat_curve_visit_fn_t visit, void *context)
{
    bool is_good = true;
    for (size_t i = 0; i < curve->count && is_good; i++) {
        is_good = curve_visit_bin(&curve->bins[i], visit, context);
    }
    if (is_good && curve->count > 0 && !curve_has_last(curve)) {
        is_good = visit(context, &curve->last);
    }
    return is_good;
}

const char *pleat_curve_series_name(pleat_curve_series_t series)
{
    static const char *const names[] = {
        [PLEAT_CURVE_RESERVED] = "reserved",
        [PLEAT_CURVE_ALLOCATED] = "allocated",
        [PLEAT_CURVE_ACTIVE] = "active",
        [PLEAT_CURVE_INACTIVE_SPLIT] = "inactive_split",
        [PLEAT_CURVE_UNRETURNABLE] = "unreturnable",
    };
    return (unsigned)series < PLEAT_CURVE_SERIES_COUNT ? names[series] : "unknown";
}

pleat_status_t pleat_curve_write_csv(const pleat_curve_t *curve, const char *command, FILE *file)
{
    bool is_good = fprintf(file, "# %s\ntime_us", command) > 0;
#define PLEAT_CURVE_COLUMN(name, column) is_good = is_good && fputs("," #column, file) >= 0;
    PLEAT_CURVE_LIST(PLEAT_CURVE_COLUMN)
#undef PLEAT_CURVE_COLUMN
    is_good = is_good && fputc('\n', file) != EOF;
    is_good = is_good && pleat_curve_visit(curve, curve_write_row, file);
    if (!is_good || fflush(file) != 0) {
        pleat_error_set("cannot write the timeline: %s", strerror(errno));
        return PLEAT_ERR_IO;
    }
    return PLEAT_OK;
}

pleat_status_t pleat_curve_save_csv(const pleat_curve_t *curve, const char *command,
                                    const char *path)
{
    FILE *file = fopen(path, "w");
    if (file == NULL) {
        pleat_error_set("cannot write %s: %s", path, strerror(errno));
        return PLEAT_ERR_IO;
    }
    pleat_status_t status = pleat_curve_write_csv(curve, command, file);
    if (fclose(file) != 0 && status == PLEAT_OK) {
        status = PLEAT_ERR_IO;
    }
    if (status != PLEAT_OK) {
        pleat_error_set("cannot write %s: %s", path, strerror(errno));
    }
    return status;
}
