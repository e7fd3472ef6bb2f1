/*
 * Tests of experiments/lib/curve: no peak is lost, rows stay in order and bounded in number.
 */
#include "curve.h"

#include "host_fault.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>

/* The CSV of a curve as a string; the caller frees it. */
static char *curve_text(const pleat_curve_t *curve)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);
    cr_assert(file != NULL);
    cr_assert(eq(int, pleat_curve_write_csv(curve, "the command", file), PLEAT_OK));
    cr_assert(eq(int, fclose(file), 0));
    return text;
}

static void curve_put(pleat_curve_t *curve, uint64_t time_us, int64_t reserved, int64_t active)
{
    const pleat_curve_sample_t sample = {
        .time_us = time_us,
        .bytes = {[PLEAT_CURVE_RESERVED] = reserved, [PLEAT_CURVE_ACTIVE] = active}};
    pleat_curve_add(curve, &sample);
}

Test(curve, writes_the_command_the_header_and_every_sample_of_a_short_replay, .timeout = 5)
{
    pleat_curve_t curve;
    cr_assert(eq(int, pleat_curve_init(&curve, 8), PLEAT_OK));
    curve_put(&curve, 1, 100, 50);
    curve_put(&curve, 1, 100, 70);
    curve_put(&curve, 4, 100, 0);
    char *text = curve_text(&curve);
    cr_expect(eq(str, text,
                 "# the command\n"
                 "time_us,reserved_bytes,allocated_bytes,active_bytes,inactive_split_bytes,"
                 "unreturnable_bytes\n"
                 "1,100,0,50,0,0\n"
                 "1,100,0,70,0,0\n"
                 "4,100,0,0,0,0\n"));
    free(text);
    pleat_curve_fini(&curve);
}

Test(curve, keeps_peaks_and_the_end_whatever_the_number_of_samples, .timeout = 10)
{
    enum { BINS = 16, SAMPLES = 100000, ROWS_MAX = BINS * 11 + 1 };
    pleat_curve_t curve;
    cr_assert(eq(int, pleat_curve_init(&curve, BINS), PLEAT_OK));
    for (uint64_t i = 0; i < SAMPLES; i++) {
        const int64_t reserved = i == 77777 ? 1000000 : (int64_t)(i % 100);
        const int64_t active = i == 33333 ? -1 : 5;
        curve_put(&curve, i * 13, reserved, active);
    }
    char *text = curve_text(&curve);
    cr_expect(strstr(text, "\n1011101,1000000,0,5,0,0\n") != NULL);
    cr_expect(strstr(text, "\n433329,33,0,-1,0,0\n") != NULL);
    cr_expect(strstr(text, "\n1299987,99,0,5,0,0\n") != NULL);
    size_t rows = 0;
    uint64_t last_us = 0;
    char *next = NULL;
    for (char *line = strtok_r(text, "\n", &next); line != NULL;
         line = strtok_r(NULL, "\n", &next)) {
        if (line[0] != '#' && line[0] != 't') {
            const uint64_t time_us = strtoull(line, NULL, 10);
            cr_assert(le(u64, last_us, time_us));
            last_us = time_us;
            rows++;
        }
    }
    cr_expect(le(sz, rows, (size_t)ROWS_MAX));
    cr_expect(lt(sz, (size_t)BINS, rows));
    free(text);
    pleat_curve_fini(&curve);
}

Test(curve, never_goes_back_in_time, .timeout = 5)
{
    pleat_curve_t curve;
    cr_assert(eq(int, pleat_curve_init(&curve, 4), PLEAT_OK));
    curve_put(&curve, 10, 1, 1);
    curve_put(&curve, 5, 2, 1);
    char *text = curve_text(&curve);
    cr_expect(strstr(text, "\n10,1,0,1,0,0\n10,2,0,1,0,0\n") != NULL);
    free(text);
    pleat_curve_fini(&curve);
}

Test(curve, joins_bins_that_are_far_apart, .timeout = 5)
{
    pleat_curve_t curve;
    cr_assert(eq(int, pleat_curve_init(&curve, 2), PLEAT_OK));
    for (uint64_t i = 0; i < 40; i++) {
        curve_put(&curve, UINT64_C(1) << i, (int64_t)i, 0);
    }
    cr_expect(le(sz, curve.count, 2));
    char *text = curve_text(&curve);
    cr_expect(strstr(text, ",39,0,0,0,0\n") != NULL);
    cr_expect(strstr(text, "\n1,0,0,0,0,0\n") != NULL);
    free(text);
    pleat_curve_fini(&curve);
}

Test(curve, refuses_fewer_than_two_bins, .timeout = 5)
{
    pleat_curve_t curve;
    cr_expect(eq(int, pleat_curve_init(&curve, 1), PLEAT_ERR_INVALID));
    cr_expect(strstr(pleat_last_error(), "at least 2") != NULL);
    pleat_curve_fini(&curve);
}

Test(curve, needs_host_memory, .timeout = 5)
{
    pleat_curve_t curve;
    host_fault_after(1);
    cr_expect(eq(int, pleat_curve_init(&curve, 4), PLEAT_ERR_OOM_HOST));
    host_fault_after(0);
    pleat_curve_fini(&curve);
}

Test(curve, names_a_file_that_cannot_be_written, .timeout = 5)
{
    pleat_curve_t curve;
    cr_assert(eq(int, pleat_curve_init(&curve, 2), PLEAT_OK));
    cr_expect(eq(int, pleat_curve_save_csv(&curve, "c", "/no/such/folder/x.csv"), PLEAT_ERR_IO));
    cr_expect(strstr(pleat_last_error(), "/no/such/folder/x.csv") != NULL);
    curve_put(&curve, 1, 1, 1);
    cr_expect(eq(int, pleat_curve_save_csv(&curve, "c", "/dev/full"), PLEAT_ERR_IO));
    cr_expect(strstr(pleat_last_error(), "/dev/full") != NULL);
    pleat_curve_fini(&curve);
}
