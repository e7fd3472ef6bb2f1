/*
 * probe_text: what was measured as tables for people, and as the text of a cost table.
 */
#include "probe.h"

#include "vmm/base.h"
#include "vmm/cost.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define US(ns) ((ns) / 1000.0)

static void print_rows(const pleat_probe_t *probe, FILE *stream, bool is_busy)
{
    (void)fprintf(stream, "\nMedian (95 of 100) microseconds by size of the chunk, %s:\n",
                  is_busy ? "while a kernel runs" : "idle device");
    (void)fprintf(stream, "%-9s", "size");
#define PRINT_NAME(CALL, name) (void)fprintf(stream, " %16s", #name);
    PLEAT_COST_SIZED_LIST(PRINT_NAME)
#undef PRINT_NAME
    (void)fprintf(stream, "\n");
    for (uint32_t i = 0; i < probe->row_count; i++) {
        const pleat_probe_row_t *row = &probe->rows[i];
        (void)fprintf(stream, "%5" PRIu64 " MiB", row->bytes / PLEAT_MIB);
        for (unsigned call = 0; call < PLEAT_VMM_CALL_COUNT; call++) {
            const pleat_probe_times_t *times = is_busy ? &row->busy[call] : &row->idle[call];
            if (!pleat_cost_is_sized((pleat_vmm_call_t)call)) {
                continue;
            }
            if (times->count == 0) {
                (void)fprintf(stream, " %16s", "waits");
            } else {
                (void)fprintf(stream, " %7.1f (%6.1f)", US(times->median_ns), US(times->p95_ns));
            }
        }
        (void)fprintf(stream, "%s\n",
                      is_busy && !row->has_kernel_run_on ? "  kernel did not run on" : "");
    }
}

static void print_many(const pleat_probe_t *probe, FILE *stream)
{
    (void)fprintf(stream, "\nMany chunks, microseconds a chunk:\n");
    (void)fprintf(stream, "%-14s %8s %8s %10s %10s %8s %8s %9s %12s %10s\n", "chunks", "create",
                  "map", "one access", "one unmap", "release", "recycle", "alias map",
                  "alias access", "unmap each");
    for (uint32_t i = 0; i < PLEAT_PROBE_MANY; i++) {
        const pleat_probe_many_t *many = &probe->many[i];
        if (many->count > 0) {
            (void)fprintf(stream,
                          "%5" PRIu32 " x %2" PRIu64 " MiB %8.1f %8.1f %10.1f %10.1f %8.1f %8.1f "
                          "%9.1f %12.1f %10.1f\n",
                          many->count, many->chunk_bytes / PLEAT_MIB, US(many->create_ns),
                          US(many->map_ns), US(many->access_ns), US(many->unmap_ns),
                          US(many->release_ns), US(many->recycle_ns), US(many->alias_map_ns),
                          US(many->alias_access_ns), US(many->unmap_one_ns));
        }
    }
}

static void print_growths(const pleat_probe_t *probe, FILE *stream)
{
    (void)fprintf(stream, "\nGrowth and eviction of a range, microseconds (measured median and 95 "
                          "of 100, built-in table, ratio):\n");
    for (uint32_t i = 0; i < PLEAT_PROBE_GROWTHS; i++) {
        const pleat_probe_growth_t *growth = &probe->growths[i];
        if (growth->chunk_bytes == 0) {
            continue;
        }
        (void)fprintf(
            stream,
            "%4" PRIu64 " x %4" PRIu64 " MiB  grow %9.1f (%9.1f) table %9.1f ratio %.2f"
            "   evict %9.1f (%9.1f) table %9.1f ratio %.2f\n",
            growth->bytes / growth->chunk_bytes, growth->chunk_bytes / PLEAT_MIB,
            US(growth->grow.median_ns), US(growth->grow.p95_ns), US(growth->grow_predicted_ns),
            growth->grow.median_ns / growth->grow_predicted_ns, US(growth->evict.median_ns),
            US(growth->evict.p95_ns), US(growth->evict_predicted_ns),
            growth->evict.median_ns / growth->evict_predicted_ns);
    }
}

static void print_waits(const pleat_probe_t *probe, FILE *stream)
{
    (void)fprintf(stream,
                  "\nWho waits for whom: each call beside a kernel of %.0f ms on another stream:\n",
                  (double)probe->kernel_ns / 1e6);
    (void)fprintf(stream, "%-32s %12s  %s\n", "call", "us", "kernel afterwards");
    for (unsigned i = 0; i < PLEAT_PROBE_WAIT_COUNT; i++) {
        (void)fprintf(stream, "%-32s %12.1f  %s\n", pleat_probe_wait_text((pleat_probe_wait_t)i),
                      US(probe->waits[i].ns),
                      probe->waits[i].is_kernel_running ? "still running"
                                                        : "finished: the call waited for it");
    }
}

static void print_calls(const pleat_probe_t *probe, FILE *stream)
{
    (void)fprintf(stream, "\nOther calls, median (95 of 100) microseconds:\n");
    for (unsigned i = 0; i < PLEAT_VMM_CALL_COUNT; i++) {
        const pleat_probe_times_t *times = &probe->calls[i];
        if (times->count > 0) {
            (void)fprintf(stream, "%-20s %8.2f (%8.2f)\n", pleat_vmm_call_name((pleat_vmm_call_t)i),
                          US(times->median_ns), US(times->p95_ns));
        }
    }
}

pleat_status_t pleat_probe_print(const pleat_probe_t *probe, FILE *stream)
{
    (void)fprintf(stream, "%s, granularity %" PRIu64 " KiB\n", probe->gpu,
                  probe->granularity_bytes / PLEAT_KIB);
    print_rows(probe, stream, false);
    print_rows(probe, stream, true);
    print_many(probe, stream);
    print_growths(probe, stream);
    print_calls(probe, stream);
    print_waits(probe, stream);
    if (fflush(stream) != 0 || ferror(stream) != 0) {
        pleat_error_set("probe: the tables cannot be written");
        return PLEAT_ERR_IO;
    }
    return PLEAT_OK;
}

pleat_status_t pleat_probe_write_costs(const pleat_probe_t *probe, const char *file_name)
{
    pleat_cost_table_t costs;
    char text[PLEAT_COST_TEXT_MAX];
    size_t length = 0;
    pleat_probe_costs(probe, &costs);
    const pleat_status_t status = pleat_cost_table_write(&costs, text, sizeof text, &length);
    if (status != PLEAT_OK) {
        return status;
    }
    FILE *file = fopen(file_name, "w");
    bool is_good = file != NULL;
    if (is_good) {
        is_good = fprintf(file, "# measured on %s; nanoseconds, medians\n", probe->gpu) > 0 &&
                  fwrite(text, 1, length, file) == length;
        is_good = fclose(file) == 0 && is_good;
    }
    if (!is_good) {
        pleat_error_set("probe: '%s' cannot be written: %s", file_name, strerror(errno));
        return PLEAT_ERR_IO;
    }
    return PLEAT_OK;
}
