/*
 * test_summary: the summary against those that PyTorch printed at the end of recorded sessions, and
 * the units of single numbers.
 */
#include <pleat/memory_stats.h>
#include <pleat/summary.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t read_text(const char *session, const char *suffix, char *text, size_t text_bytes)
{
    char path[512];
    (void)snprintf(path, sizeof path, "%s/sessions/%s.%s.txt", PLEAT_TEST_DATA, session, suffix);
    FILE *file = fopen(path, "rb");
    cr_assert(file != NULL, "%s", path);
    const size_t size = fread(text, 1, text_bytes - 1, file);
    (void)fclose(file);
    text[size] = '\0';
    return size;
}

/* Where a statistic lies: the place to which values() reads back a mark. */
static int64_t *place_of(pleat_stats_t *stats, size_t index)
{
    int64_t *numbers = (int64_t *)(void *)stats;
    for (size_t i = 1; i < sizeof *stats / sizeof numbers[0]; i++) {
        int64_t values[PLEAT_MEMORY_STATS_COUNT];
        const int64_t before = numbers[i];
        numbers[i] = INT64_MIN;
        pleat_memory_stats_values(stats, values);
        numbers[i] = before;
        if (values[index] == INT64_MIN) {
            return &numbers[i];
        }
    }
    return NULL;
}

/* Counters from lines of a name and a value. */
static pleat_stats_t stats_of_session(const char *session)
{
    static char text[16384];
    static pleat_stats_t stats = PLEAT_STATS_INIT;
    (void)read_text(session, "values", text, sizeof text);
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        char *space = strchr(line, ' ');
        cr_assert(space != NULL);
        *space = '\0';
        const size_t index = pleat_memory_stats_index(line);
        cr_assert(lt(sz, index, pleat_memory_stats_count()));
        *place_of(&stats, index) = strtoll(space + 1, NULL, 10);
    }
    return stats;
}

Test(summary, is_pytorchs_byte_for_byte)
{
    static const char *const sessions[] = {"default", "exp", "streams"};
    for (size_t i = 0; i < sizeof sessions / sizeof sessions[0]; i++) {
        static char want[PLEAT_SUMMARY_BYTES];
        static char got[PLEAT_SUMMARY_BYTES];
        const pleat_stats_t stats = stats_of_session(sessions[i]);
        const size_t want_length = read_text(sessions[i], "summary", want, sizeof want);
        cr_expect(eq(sz, pleat_memory_summary(&stats, 0, false, got, sizeof got), want_length));
        cr_expect(eq(str, got, want));
    }
}

Test(summary, the_short_form_has_the_totals_alone)
{
    static char whole[PLEAT_SUMMARY_BYTES];
    static char got[PLEAT_SUMMARY_BYTES];
    static char want[PLEAT_SUMMARY_BYTES];
    const pleat_stats_t stats = stats_of_session("streams");
    (void)pleat_memory_summary(&stats, 0, false, whole, sizeof whole);
    size_t used = 0;
    for (char *line = strtok(whole, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        if (strstr(line, "      from ") == NULL) {
            used += (size_t)snprintf(want + used, sizeof want - used, "%s\n", line);
        }
    }
    cr_expect(eq(sz, pleat_memory_summary(&stats, 0, true, got, sizeof got), used));
    cr_expect(eq(str, got, want));
}

/* The line of the summary that has a text. */
static void line_with(const pleat_stats_t *stats, const char *what, char line[128])
{
    static char text[PLEAT_SUMMARY_BYTES];
    (void)pleat_memory_summary(stats, 3, false, text, sizeof text);
    const char *found = strstr(text, what);
    cr_assert(found != NULL);
    while (found > text && found[-1] != '\n') {
        found--;
    }
    (void)snprintf(line, 128, "%.*s", (int)strcspn(found, "\n"), found);
}

Test(summary, units_follow_the_total_of_their_column)
{
    char line[128];
    pleat_stats_t stats = PLEAT_STATS_INIT;
    stats.allocated_bytes[PLEAT_STAT_ALL] = (pleat_stat_t){786431, 786432, -1, 805306368};
    stats.allocated_bytes[PLEAT_STAT_LARGE_POOL] = (pleat_stat_t){-5, -5, -5, -5};
    line_with(&stats, "Allocated memory", line);
    cr_expect(eq(str, line,
                 "| Allocated memory      | 786431 B   |    768 KiB |     -1 B   |    768 MiB |"));
    line_with(&stats, "from large pool", line);
    /* rounded down, as in Python: -5 bytes are -1 KiB */
    cr_expect(eq(str, line,
                 "|       from large pool |     -5 B   |     -1 KiB |     -5 B   |     -1 MiB |"));
    stats.allocation[PLEAT_STAT_ALL] = (pleat_stat_t){749999, 750000, 750000000, INT64_MAX};
    line_with(&stats, "Allocations  ", line);
    cr_expect(
        eq(str, line,
           "| Allocations           |  749999    |     750 K  |     750 M  | 9223372036854 M  |"));
    stats.active_bytes[PLEAT_STAT_ALL].current = INT64_MAX;
    line_with(&stats, "Active memory", line);
    cr_expect(eq(str, line,
                 "| Active memory         |   8191 PiB |      0 B   |      0 B   |      0 B   |"));
}

Test(summary, title_and_counters_are_aligned)
{
    char line[128];
    pleat_stats_t stats = PLEAT_STATS_INIT;
    stats.num_ooms = 12;
    stats.num_alloc_retries = 345678;
    line_with(&stats, "device ID", line);
    cr_expect(eq(str, line,
                 "|                  PyTorch CUDA memory summary, device ID 3         "
                 "        |"));
    line_with(&stats, "OOMs", line);
    cr_expect(eq(str, line,
                 "|            CUDA OOMs: 12           |        cudaMalloc retries: 3456"
                 "78    |"));
}

Test(summary, a_small_buffer_gets_what_fits)
{
    char small[100];
    const pleat_stats_t stats = PLEAT_STATS_INIT;
    const size_t length = pleat_memory_summary(&stats, 0, false, NULL, 0);
    cr_expect(lt(sz, 3000, length));
    cr_expect(lt(sz, length, PLEAT_SUMMARY_BYTES));
    cr_expect(eq(sz, pleat_memory_summary(&stats, 0, false, small, sizeof small), length));
    cr_expect(eq(sz, strlen(small), sizeof small - 1));
}

Test(summary, counters_of_any_size_fit)
{
    pleat_stats_t stats = PLEAT_STATS_INIT;
    int64_t *numbers = (int64_t *)(void *)&stats;
    for (size_t i = 1; i < sizeof stats / sizeof numbers[0]; i++) {
        numbers[i] = INT64_MIN;
    }
    cr_expect(
        lt(sz, pleat_memory_summary(&stats, -2147483647, false, NULL, 0), PLEAT_SUMMARY_BYTES));
}
