/*
 * test_conf_strict: the strict reading, row by row of data/conf_strict*.tsv, and the rules behind
 * the rows.
 */
#include "conf_rows.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ON_MB UINT64_C(1048576)

/* All that a row asks of a text: items between " | ", those after '!' must not occur. */
static bool contains_all(const char *text, const char *items)
{
    while (*items != '\0') {
        const char *end = strstr(items, " | ");
        const size_t length = end != NULL ? (size_t)(end - items) : strlen(items);
        char item[256];
        (void)snprintf(item, sizeof item, "%.*s", (int)length, items);
        const bool is_unwanted = item[0] == '!';
        if ((strstr(text, item + (is_unwanted ? 1 : 0)) != NULL) == is_unwanted) {
            return false;
        }
        items += length + (end != NULL ? 3 : 0);
    }
    return true;
}

static void check_row(const conf_row_t *row)
{
    pleat_conf_t conf = PLEAT_CONF_INIT;
    const pleat_conf_t before = conf;
    pleat_conf_report_t report = PLEAT_CONF_REPORT_INIT;
    const pleat_status_t status = conf_row_run(row, PLEAT_CONF_STRICT, &conf, &report);
    const bool is_reject = strcmp(row->outcome, "reject") == 0;
    const size_t warning_count = strcmp(row->outcome, "warn") == 0 ? 1 : 0;
    const char *text = is_reject ? report.message : report.warnings[0];
    const size_t column = is_reject ? strtoul(row->columns[0], NULL, 10) : 0;
    cr_expect(is_reject == (status != PLEAT_OK), "%s [%s]: status %d %s", row->string, row->source,
              (int)status, report.message);
    cr_expect(report.column == column, "%s [%s]: column %zu, wanted %zu: %s", row->string,
              row->source, report.column, column, report.message);
    cr_expect(report.warning_count == warning_count, "%s [%s]: %zu warnings: %s", row->string,
              row->source, report.warning_count, report.warnings[0]);
    cr_expect(contains_all(text, row->columns[1]), "%s [%s]: '%s' has not all of '%s'", row->string,
              row->source, text, row->columns[1]);
    if (is_reject) {
        char place[32];
        (void)snprintf(place, sizeof place, "column %zu: ", column);
        cr_expect(strstr(report.message, place) != NULL, "%s: %s", row->string, report.message);
        cr_expect(conf_same_bytes(&conf, &before, sizeof conf), "%s changed something",
                  row->string);
        cr_expect(eq(str, (char *)pleat_last_error(), report.message));
    }
}

Test(conf_strict, every_row_of_the_tables, .timeout = 10)
{
    static const char *const names[] = {PLEAT_TEST_DATA "/conf_strict.tsv",
                                        PLEAT_TEST_DATA "/conf_strict_more.tsv"};
    static conf_rows_t rows;
    for (size_t table = 0; table < 2; table++) {
        cr_assert(conf_rows_read(&rows, names[table]));
        cr_assert(lt(sz, 50, rows.count));
        for (size_t i = 0; i < rows.count; i++) {
            check_row(&rows.rows[i]);
        }
    }
}

#define DIVISIONS "roundup_power2_divisions:"

Test(conf_strict, places_of_errors)
{
    static const conf_row_t rows[] = {
        {",", "env", "reject", {"1", "empty item", ""}},
        {" , ", "env", "reject", {"2", "empty item", ""}},
        {"backend:native , , max_split_size_mb:64", "env", "reject", {"18", "empty item", ""}},
        {"backend:native , ", "env", "reject", {"16", "empty item", ""}},
        {"expandable_segments :", "env", "reject", {"22", "missing value | True or False", ""}},
        {"expandable_segments  ", "env", "reject", {"22", "missing value", ""}},
        {"expandable_segments: ,backend:native", "env", "reject", {"22", "missing value", ""}},
        {"expandable_segments::True", "env", "reject", {"21", "missing value", ""}},
        {"expandable_segments:]", "env", "reject", {"21", "missing value", ""}},
        {"expandable_segments[True]", "env", "reject", {"20", "missing value", ""}},
        {"expandable_segments]True", "env", "reject", {"20", "missing value", ""}},
        {"expandable_segments:[True]", "env", "reject", {"21", "takes no list | True or", ""}},
        {"]", "env", "reject", {"1", "where a key is expected", ""}},
        {"[x]", "env", "reject", {"1", "where a key is expected", ""}},
        {"=5", "env", "reject", {"1", "where a key is expected", ""}},
        {"max_split_size_mb = 8000 , x", "env", "reject", {"19", "max_split_size_mb:8000", ""}},
        {"max_split_mb=80", "env", "reject", {"13", "write max_split_size_mb:80", ""}},
        {"PYTORCH_ALLOC_CONF=backend:native,max_split_size_mb:64",
         "env",
         "reject",
         {"19", "write backend:native | variable", ""}},
        {"pleated_idle_ms:18446744073709551615",
         "env",
         "reject",
         {"17", "at least 0 and at most 1099511627776", ""}},
        {"quux=80;y", "env", "reject", {"5", "write quux:80", ""}},
        {"max_split_size_mb:=80", "env", "reject", {"19", "'=80' | whole number", ""}},
        {"backend:'native'", "env", "reject", {"9", "quotes", ""}},
        {"backend:native'", "env", "reject", {"15", "quotes", ""}},
        {"backend:native 'x'", "env", "reject", {"16", "quotes", ""}},
        {"back\"end:native", "env", "reject", {"5", "quotes", ""}},
        {"backend:native ;x", "env", "reject", {"16", "separate items", ""}},
        {";backend:native", "env", "reject", {"1", "separate items", ""}},
        {"backend:;", "env", "reject", {"9", "separate items", ""}},
        {"backend:native  x:1", "env", "reject", {"16", "blank", ""}},
        {"backend:nat\tive", "env", "reject", {"12", "blank", ""}},
        {"backend:native]", "env", "reject", {"15", "',' is missing", ""}},
        {"backend:native[", "env", "reject", {"15", "',' is missing", ""}},
        {"backend:Native", "env", "reject", {"9", "'Native' | native or cudaMallocAsync", ""}},
        {"release_lock_on_hipmalloc:True,release_lock_on_cudamalloc:True",
         "env",
         "reject",
         {"32", "'release_lock_on_cudamalloc' | given twice | column 1", ""}},
        {"max_split_size_mb:20,max_split_size_mb", "env", "reject", {"22", "given twice", ""}},
        {"large_segment_size_mb:10", "env", "reject", {"23", "whole number | above 10", ""}},
        {"max_split_size_mb:32,large_segment_size_mb:64",
         "env",
         "reject",
         {"19", "at least 64", ""}},
        {"max_split_size_mb:32 , large_segment_size_mb : 64 ",
         "env",
         "reject",
         {"19", "at least 64", ""}},
        {"max_split_size_mb:32,large_segment_size_mb", "env", "reject", {"43", "missing", ""}},
        {"max_split_size_mb:32,large_segment_size_mb:6x", "env", "reject", {"44", "'6x'", ""}},
        {"max_non_split_rounding_mb:19", "env", "reject", {"27", "at least 20", ""}},
        {"max_split_size_mb:17592186044416", "env", "reject", {"19", "too large", ""}},
        {"max_split_size_mb:+64", "env", "reject", {"19", "'+64' | whole number", ""}},
        {"pinned_reserve_segment_size_mb:0", "env", "reject", {"32", "at least 1", ""}},
        {"pinned_reserve_segment_size_mb:17592186044416", "env", "reject", {"32", "too large", ""}},
        {"pinned_num_register_threads:3", "env", "reject", {"29", "power of two", ""}},
        {"pinned_num_register_threads:256", "env", "reject", {"29", "at most 128", ""}},
        {"per_process_memory_fraction:1.5", "env", "reject", {"29", "'1.5' | from 0 to 1", ""}},
        {"per_process_memory_fraction:-0.5", "env", "reject", {"29", "from 0 to 1", ""}},
        {"per_process_memory_fraction:.", "env", "reject", {"29", "from 0 to 1", ""}},
        {"per_process_memory_fraction:0.1.2", "env", "reject", {"29", "from 0 to 1", ""}},
        {"garbage_collection_threshold:0x1p-1", "env", "reject", {"30", "above 0 and below 1", ""}},
        {"garbage_collection_threshold:1e-1", "env", "reject", {"30", "above 0 and below 1", ""}},
        {"backend:foo", "runtime", "reject", {"9", "native or cudaMallocAsync", ""}},
        {"backend:foo", "env", "reject", {"9", "'foo'", ""}},
        {"backend:cudaMallocAsync,bogus:1", "env", "reject", {"25", "unknown key 'bogus'", ""}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        check_row(&rows[i]);
    }
}

Test(conf_strict, places_of_errors_in_lists)
{
    static const conf_row_t rows[] = {
        {DIVISIONS "0", "env", "reject", {"26", "'0' | power of two", ""}},
        {DIVISIONS "x", "env", "reject", {"26", "'x' | power of two", ""}},
        {DIVISIONS "99999999999999999999", "env", "reject", {"26", "too large", ""}},
        {DIVISIONS "[", "env", "reject", {"26", "']' is missing", ""}},
        {DIVISIONS "[ ]", "env", "reject", {"26", "empty list", ""}},
        {DIVISIONS "[,1:2]", "env", "reject", {"27", "empty item", ""}},
        {DIVISIONS "[1:2,,4:2]", "env", "reject", {"31", "empty item", ""}},
        {DIVISIONS "[1:2,]", "env", "reject", {"30", "empty item", ""}},
        {DIVISIONS "[:2]", "env", "reject", {"27", "':' where an interval", ""}},
        {DIVISIONS "[[1:2]]", "env", "reject", {"27", "'[' where an interval", ""}},
        {DIVISIONS "[256,1]", "env", "reject", {"27", "'256' | ':' and the divisions", ""}},
        {DIVISIONS "[>]", "env", "reject", {"27", "':' and the divisions", ""}},
        {DIVISIONS "[256:]", "env", "reject", {"31", "divisions | 0 or a power of two", ""}},
        {DIVISIONS "[256:x]", "env", "reject", {"31", "'x' | 0 or a power of two", ""}},
        {DIVISIONS "[256:99999999999999999999]", "env", "reject", {"31", "too large", ""}},
        {DIVISIONS "[99999999999999999999:1]", "env", "reject", {"27", "too large", ""}},
        {DIVISIONS "[0:1]", "env", "reject", {"27", "'0' | power of two", ""}},
        {DIVISIONS "[x:1]", "env", "reject", {"27", "'x' | power of two", ""}},
        {DIVISIONS "[8:1,4:1]", "env", "reject", {"31", "'4' | above | 8", ""}},
        {DIVISIONS "[8:1,8:1]", "env", "reject", {"31", "'8' | above | 8", ""}},
        {DIVISIONS "[8:1,>:1,>:2]", "env", "reject", {"35", "'>' must be the last", ""}},
        {DIVISIONS "[8:1:2]", "env", "reject", {"30", "',' is missing", ""}},
        {DIVISIONS "[8:1;16:2]", "env", "reject", {"30", "separate items", ""}},
        {DIVISIONS "[8:1 \"]", "env", "reject", {"31", "quotes", ""}},
        {DIVISIONS "[8:1 16:2]", "env", "reject", {"30", "blank", ""}},
        {DIVISIONS "[8 8:1]", "env", "reject", {"28", "blank", ""}},
        {DIVISIONS "[8:1]x", "env", "reject", {"31", "',' is missing", ""}},
        {DIVISIONS "[8:1] ;", "env", "reject", {"32", "separate items", ""}},
        {DIVISIONS "[8:1]]", "env", "reject", {"31", "',' is missing", ""}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        check_row(&rows[i]);
    }
}

Test(conf_strict, unknown_keys)
{
    static const conf_row_t rows[] = {
        {"Backend:native", "env", "reject", {"1", "'Backend' | did you mean 'backend'", ""}},
        {"release_lock_on_hipmaloc:True",
         "env",
         "reject",
         {"1", "'release_lock_on_hipmalloc'", ""}},
        {"bckd:native", "env", "reject", {"1", "known keys | backend | !did you", ""}},
        {"pinned_threads:4", "env", "reject", {"1", "unknown key 'pinned_threads'", ""}},
        {"\x1b[0m:1", "env", "reject", {"1", "'\\x1b'", ""}},
        {"gr\xc3\xb6\xc3\x9f"
         "e:1",
         "env",
         "reject",
         {"1",
          "'gr\xc3\xb6\xc3\x9f"
          "e'",
          ""}},
        {"\xff\xfe:1", "env", "reject", {"1", "'\\xff\\xfe'", ""}},
        {"\xe2\x82:1", "env", "reject", {"1", "'\\xe2\\x82'", ""}},
        {"\xe2\x28\xa1:1", "env", "reject", {"1", "'\\xe2(\\xa1'", ""}},
        {"\xf0\x9f\x98\x80\xf0\x9f\x28\x80:1", "env", "reject", {"1", "\\xf0\\x9f(\\x80'", ""}},
        {"kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk:1",
         "env",
         "reject",
         {"1", "known keys | kkk...' | pinned_reserve_segment_size_mb", ""}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        check_row(&rows[i]);
    }
}

Test(conf_strict, errors_name_the_source)
{
    static const conf_row_t rows[] = {
        {"PLEAT_ALLOC_CONF=x:1|PYTORCH_ALLOC_CONF=y:1",
         "vars",
         "reject",
         {"1", "PLEAT_ALLOC_CONF, column | 'x'", ""}},
        {"x:1", "runtime", "reject", {"1", "!ALLOC_CONF", ""}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        check_row(&rows[i]);
    }
}

Test(conf_strict, what_is_accepted)
{
    static const conf_row_t rows[] = {
        {"   \t\n", "env", "accept", {"-", "", ""}},
        {"\tbackend\n:\v native\f", "env", "accept", {"-", "", ""}},
        {"max_split_size_mb:0064", "env", "accept", {"-", "", ""}},
        {"max_split_size_mb:17592186044415", "env", "accept", {"-", "", ""}},
        {"per_process_memory_fraction:.5", "env", "accept", {"-", "", ""}},
        {"per_process_memory_fraction:1.", "env", "accept", {"-", "", ""}},
        {"per_process_memory_fraction:0", "env", "accept", {"-", "", ""}},
        {DIVISIONS "1", "env", "accept", {"-", "", ""}},
        {DIVISIONS " [ 1 : 2 , > : 4 ] ", "env", "accept", {"-", "", ""}},
        {DIVISIONS "[65536:8]", "env", "accept", {"-", "", ""}},
        {DIVISIONS "[32768:8,65536:4]", "env", "accept", {"-", "", ""}},
        {"backend:native", "runtime", "accept", {"-", "", ""}},
        {"backend:cudaMallocAsync", "env", "accept", {"-", "", ""}},
        {"per_process_memory_fraction:0.5 | garbage_collection_threshold:0.8",
         "env+runtime",
         "accept",
         {"-", "", ""}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        check_row(&rows[i]);
    }
}

Test(conf_strict, warnings)
{
    static const conf_row_t rows[] = {
        {DIVISIONS "[64:8]", "env", "warn", {"-", "from 128 MB | !to", ""}},
        {DIVISIONS "[1:8,16:4,>:2]", "env", "warn", {"-", "2 to 16 MB | !from", ""}},
        {DIVISIONS "[>:2]", "env", "warn", {"-", "0 to 2 MB", ""}},
        {"per_process_memory_fraction:1,garbage_collection_threshold:0.8",
         "env",
         "warn",
         {"-", "limit", ""}},
        {"backend:cudaMallocAsync,max_split_size_mb:64,garbage_collection_threshold:0.8",
         "env",
         "warn",
         {"-", "ignores max_split_size_mb, garbage_collection_threshold", ""}},
        {"backend:cudaMallocAsync | max_split_size_mb:64",
         "env+runtime",
         "warn",
         {"-", "ignores max_split_size_mb", ""}},
        {"PLEAT_ALLOC_CONF=|PYTORCH_ALLOC_CONF=backend:native",
         "vars",
         "warn",
         {"-", "differ | PLEAT_ALLOC_CONF is used", ""}},
        {"PLEAT_ALLOC_CONF=backend:native|PYTORCH_CUDA_ALLOC_CONF=x|PYTORCH_ALLOC_CONF=y",
         "vars",
         "warn",
         {"-", "PYTORCH_CUDA_ALLOC_CONF, PYTORCH_ALLOC_CONF and PLEAT_ALLOC_CONF differ", ""}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        check_row(&rows[i]);
    }
}

static pleat_status_t set(pleat_conf_t *conf, const char *text, pleat_conf_report_t *report)
{
    return pleat_conf_read(conf, PLEAT_CONF_STRICT, text, report);
}

Test(conf_strict, a_run_time_text_keeps_what_it_does_not_name)
{
    pleat_conf_t conf = PLEAT_CONF_INIT;
    cr_assert(eq(int,
                 pleat_conf_read_start(&conf, PLEAT_CONF_STRICT,
                                       "max_split_size_mb:64," DIVISIONS "4", NULL),
                 PLEAT_OK));
    cr_assert(eq(int, set(&conf, "expandable_segments:True", NULL), PLEAT_OK));
    cr_expect(eq(u64, conf.settings[PLEAT_CONF_MAX_SPLIT_SIZE].number, 64 * ON_MB));
    cr_expect(
        eq(int, (int)conf.settings[PLEAT_CONF_MAX_SPLIT_SIZE].source, PLEAT_CONF_SOURCE_START));
    cr_expect(eq(int, (int)conf.settings[PLEAT_CONF_EXPANDABLE_SEGMENTS].source,
                 PLEAT_CONF_SOURCE_RUNTIME));
    cr_expect(eq(u64, conf.roundup_power2_divisions[15], 4));
    /* a new list replaces the old table whole */
    cr_assert(eq(int, set(&conf, DIVISIONS "[1:2,>:1]", NULL), PLEAT_OK));
    cr_expect(eq(u64, conf.roundup_power2_divisions[0], 2));
    cr_expect(eq(u64, conf.roundup_power2_divisions[15], 1));
}

Test(conf_strict, the_rounding_follows_the_segment_size_until_it_is_set)
{
    pleat_conf_t conf = PLEAT_CONF_INIT;
    pleat_conf_report_t report = PLEAT_CONF_REPORT_INIT;
    cr_assert(eq(int, set(&conf, "large_segment_size_mb:200", NULL), PLEAT_OK));
    cr_expect(eq(u64, conf.settings[PLEAT_CONF_MAX_NON_SPLIT_ROUNDING].number, 200 * ON_MB));
    cr_assert(eq(int, set(&conf, "large_segment_size_mb:30,max_non_split_rounding_mb:40", NULL),
                 PLEAT_OK));
    cr_expect(eq(u64, conf.settings[PLEAT_CONF_MAX_NON_SPLIT_ROUNDING].number, 40 * ON_MB));
    cr_assert(eq(int, set(&conf, "large_segment_size_mb:40", NULL), PLEAT_OK));
    cr_expect(eq(u64, conf.settings[PLEAT_CONF_MAX_NON_SPLIT_ROUNDING].number, 40 * ON_MB));
    cr_assert(eq(int, set(&conf, "large_segment_size_mb:41", &report), PLEAT_ERR_INVALID));
    cr_expect(eq(sz, report.column, 23));
    cr_expect(contains_all(report.message, "at most 40 | max_non_split_rounding_mb"));
    cr_expect(eq(u64, conf.settings[PLEAT_CONF_LARGE_SEGMENT_SIZE].number, 40 * ON_MB));
    /* the bound of the others is the segment size in force */
    cr_assert(eq(int, set(&conf, "max_split_size_mb:39", &report), PLEAT_ERR_INVALID));
    cr_expect(contains_all(report.message, "at least 40"));
}

Test(conf_strict, the_other_backend_keeps_no_option)
{
    pleat_conf_t conf = PLEAT_CONF_INIT;
    cr_assert(eq(int,
                 pleat_conf_read_start(&conf, PLEAT_CONF_STRICT,
                                       "max_split_size_mb:64,backend:cudaMallocAsync", NULL),
                 PLEAT_OK));
    cr_expect(eq(u64, conf.settings[PLEAT_CONF_MAX_SPLIT_SIZE].number, UINT64_MAX));
    cr_expect(
        eq(u64, conf.settings[PLEAT_CONF_BACKEND].number, PLEAT_CONF_BACKEND_CUDA_MALLOC_ASYNC));
}

Test(conf_strict, reals_beyond_a_double_are_out_of_range)
{
    static char text[460] = "per_process_memory_fraction:0.";
    const size_t start = strlen(text);
    memset(text + start, '0', 400);
    text[start + 400] = '1';
    pleat_conf_t conf = PLEAT_CONF_INIT;
    pleat_conf_report_t report = PLEAT_CONF_REPORT_INIT;
    cr_expect(eq(int, set(&conf, text, &report), PLEAT_ERR_INVALID));
    cr_expect(contains_all(report.message, "out of range | from 0 to 1"));
}
