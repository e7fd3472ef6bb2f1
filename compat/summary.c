/*
 * summary: prints counters as torch.cuda.memory_summary() does (pleat/summary.h).
 *
 * Every line is 75 characters between two bars; a number too wide for its column widens its line,
 * as in PyTorch. No state, no lock.
 */
#include "memory_stats.h"
#include "text.h"

#include <pleat/summary.h>

enum { SUMMARY_WIDTH = 75 };

/* One metric of the table. */
typedef struct summary_metric {
    const char *name;
    const pleat_stat_t *rows; /* one a kind, or a single one */
    bool is_bytes;
    bool has_pools;
} summary_metric_t;

static void summary_append_rule(pleat_text_t *text, char character)
{
    pleat_text_append(text, "|");
    for (int i = 0; i < SUMMARY_WIDTH; i++) {
        pleat_text_append(text, "%c", character);
    }
    pleat_text_append(text, "|\n");
}

/* Python's floor division: the quotient is rounded down, of a negative number too. */
static int64_t summary_divide(int64_t value, int64_t divisor)
{
    const int64_t quotient = value / divisor;
    return value % divisor < 0 ? quotient - 1 : quotient;
}

/* The reference decides the unit, so that all rows of a column share the unit of its total. */
static void summary_append_value(pleat_text_t *text, int64_t value, int64_t reference,
                                 bool is_bytes)
{
    static const char *const byte_units[] = {"B  ", "KiB", "MiB", "GiB", "TiB", "PiB"};
    static const char *const count_units[] = {" ", "K", "M"};
    const char *const *units = is_bytes ? byte_units : count_units;
    const size_t last_unit = is_bytes ? 5 : 2;
    const int64_t step = is_bytes ? 1024 : 1000;
    const double threshold = is_bytes ? 768.0 * 1024.0 : 750.0 * 1000.0;
    double size = (double)reference;
    size_t unit = 0;
    while (unit < last_unit && size >= threshold) {
        value = summary_divide(value, step);
        size /= (double)step;
        unit++;
    }
    pleat_text_append(text, is_bytes ? " | %6lld %s" : " | %7lld %s ", (long long)value,
                      units[unit]);
}

static void summary_append_row(pleat_text_t *text, const char *name, const pleat_stat_t *row,
                               const summary_metric_t *metric)
{
    const pleat_stat_t *total = &metric->rows[0];
    pleat_text_append(text, "| %-21s", name);
    summary_append_value(text, row->current, total->current, metric->is_bytes);
    summary_append_value(text, row->peak, total->peak, metric->is_bytes);
    summary_append_value(text, row->allocated, total->allocated, metric->is_bytes);
    summary_append_value(text, row->freed, total->freed, metric->is_bytes);
    pleat_text_append(text, " |\n");
}

static void summary_append_metric(pleat_text_t *text, const summary_metric_t *metric,
                                  bool is_abbreviated)
{
    summary_append_rule(text, '-');
    summary_append_row(text, metric->name, &metric->rows[PLEAT_STAT_ALL], metric);
    if (metric->has_pools && !is_abbreviated) {
        summary_append_row(text, "      from large pool", &metric->rows[PLEAT_STAT_LARGE_POOL],
                           metric);
        summary_append_row(text, "      from small pool", &metric->rows[PLEAT_STAT_SMALL_POOL],
                           metric);
    }
}

size_t pleat_memory_summary(const pleat_stats_t *stats, int device, bool is_abbreviated,
                            char *buffer, size_t buffer_bytes)
{
    const pleat_stats_t full = pleat_memory_stats_import(stats);
    const summary_metric_t metrics[] = {
        {"Allocated memory", full.allocated_bytes, true, true},
        {"Active memory", full.active_bytes, true, true},
        {"Requested memory", full.requested_bytes, true, true},
        {"GPU reserved memory", full.reserved_bytes, true, true},
        {"Non-releasable memory", full.inactive_split_bytes, true, true},
        {"Allocations", full.allocation, false, true},
        {"Active allocs", full.active, false, true},
        {"GPU reserved segments", full.segment, false, true},
        {"Non-releasable allocs", full.inactive_split, false, true},
        {"Oversize allocations", &full.oversize_allocations, false, false},
        {"Oversize GPU segments", &full.oversize_segments, false, false},
    };
    pleat_text_t text = pleat_text_begin(buffer, buffer_bytes);
    summary_append_rule(&text, '=');
    pleat_text_append(&text, "|%17s PyTorch CUDA memory summary, device ID %-17d |\n", "", device);
    summary_append_rule(&text, '-');
    pleat_text_append(&text, "|%11s CUDA OOMs: %-12lld | %6s cudaMalloc retries: %-8lld  |\n", "",
                      (long long)full.num_ooms, "", (long long)full.num_alloc_retries);
    summary_append_rule(&text, '=');
    pleat_text_append(&text, "|        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | "
                             "Tot Freed  |\n");
    for (size_t i = 0; i < sizeof metrics / sizeof metrics[0]; i++) {
        summary_append_metric(&text, &metrics[i], is_abbreviated);
    }
    summary_append_rule(&text, '=');
    return text.length;
}
