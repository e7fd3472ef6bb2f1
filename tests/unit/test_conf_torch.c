/*
 * test_conf_torch: the reading as PyTorch 2.11, row by row of data/conf.tsv and conf_more.tsv, and
 * the rules behind the rows.
 */
#include "conf_rows.h"
#include "host_fault.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ON_MB UINT64_C(1048576)

/* The values that differ from their default, as in the table; "-" for none. */
static void format_values(const pleat_conf_t *conf, char *buffer, size_t buffer_bytes)
{
    size_t used = 0;
    buffer[0] = '\0';
    for (size_t option = 0; option < PLEAT_CONF_OPTION_COUNT; option++) {
        pleat_conf_description_t description = PLEAT_CONF_DESCRIPTION_INIT;
        cr_assert(pleat_conf_describe(conf, (pleat_conf_option_t)option, &description) == PLEAT_OK);
        if (!description.is_default && used < buffer_bytes) {
            used +=
                (size_t)snprintf(buffer + used, buffer_bytes - used, "%s%s=%s", used > 0 ? " " : "",
                                 description.value_name, description.value);
        }
    }
    if (used == 0) {
        (void)snprintf(buffer, buffer_bytes, "-");
    }
}

static bool has_item(const char *items, const char *item, size_t length)
{
    for (const char *at = items; at != NULL; at = strchr(at, ' ')) {
        at += *at == ' ' ? 1 : 0;
        if (strncmp(at, item, length) == 0 && (at[length] == ' ' || at[length] == '\0')) {
            return true;
        }
    }
    return false;
}

/* Both name the same values, in any order. */
static bool same_values(const char *got, const char *want)
{
    if (strlen(got) != strlen(want)) {
        return false;
    }
    for (const char *item = want; *item != '\0';) {
        const size_t length = strcspn(item, " ");
        if (!has_item(got, item, length)) {
            return false;
        }
        item += length + (item[length] == ' ' ? 1 : 0);
    }
    return true;
}

static void check_table(const char *path)
{
    static conf_rows_t rows;
    cr_assert(conf_rows_read(&rows, path));
    cr_assert(lt(sz, 60, rows.count));
    for (size_t i = 0; i < rows.count; i++) {
        const conf_row_t *row = &rows.rows[i];
        pleat_conf_t conf = PLEAT_CONF_INIT;
        pleat_conf_report_t report = PLEAT_CONF_REPORT_INIT;
        const pleat_status_t status = conf_row_run(row, PLEAT_CONF_TORCH, &conf, &report);
        char values[4096];
        format_values(&conf, values, sizeof values);
        const bool is_accept = strcmp(row->outcome, "accept") == 0;
        cr_expect(is_accept == (status == PLEAT_OK), "%s [%s]: status %d %s", row->string,
                  row->source, (int)status, report.message);
        cr_expect(is_accept || strstr(report.message, row->columns[0]) != NULL,
                  "%s [%s]: message '%s', wanted '%s'", row->string, row->source, report.message,
                  row->columns[0]);
        cr_expect(same_values(values, row->columns[1]), "%s [%s]: values '%s', wanted '%s'",
                  row->string, row->source, values, row->columns[1]);
    }
}

Test(conf_torch, every_row_of_the_tables, .timeout = 10)
{
    check_table(PLEAT_TEST_DATA "/conf.tsv");
    check_table(PLEAT_TEST_DATA "/conf_more.tsv");
}

typedef struct expectation {
    const char *text;
    const char *python_class; /* "": accepted */
    const char *message;
    const char *values;
} expectation_t;

static void expect_all(const expectation_t *rows, size_t row_count, bool is_start)
{
    for (size_t i = 0; i < row_count; i++) {
        pleat_conf_t conf = PLEAT_CONF_INIT;
        pleat_conf_report_t report = PLEAT_CONF_REPORT_INIT;
        const pleat_status_t status =
            is_start ? pleat_conf_read_start(&conf, PLEAT_CONF_TORCH, rows[i].text, &report)
                     : pleat_conf_read(&conf, PLEAT_CONF_TORCH, rows[i].text, &report);
        char values[4096];
        format_values(&conf, values, sizeof values);
        const bool is_accept = rows[i].python_class[0] == '\0';
        cr_expect(is_accept == (status == PLEAT_OK), "'%s': status %d", rows[i].text, (int)status);
        cr_expect(strcmp(report.python_class, rows[i].python_class) == 0, "'%s': class %s",
                  rows[i].text, report.python_class);
        cr_expect(strcmp(report.message, rows[i].message) == 0, "'%s': message '%s'", rows[i].text,
                  report.message);
        cr_expect(same_values(values, rows[i].values), "'%s': values '%s'", rows[i].text, values);
        cr_expect(report.column == 0);
        cr_expect(report.warning_count == 0);
    }
}

#define OUT_OF_BOUNDS "Index out of bounds in ConfigTokenizer"
#define NO_BRACKET "Expected closing bracket ']' in ConfigTokenizer but reached end of config"
#define BAD_DIVISIONS "For roundups, the divisions has to be power of 2 or 0 to disable roundup "

Test(conf_torch, run_time_texts)
{
    static const expectation_t rows[] = {
        {" \t\r\n\v\f", "", "", "-"},
        {",", "ValueError", "Unrecognized key ',' in Accelerator allocator config.", "-"},
        {"[", "ValueError", "Unrecognized key '[' in Accelerator allocator config.", "-"},
        {"backend", "RuntimeError", OUT_OF_BOUNDS, "-"},
        {"backend:", "RuntimeError", OUT_OF_BOUNDS, "-"},
        {"backend:[native", "RuntimeError", NO_BRACKET, "-"},
        {"backend:[native]", "ValueError",
         "Unknown allocator backend, options are native and cudaMallocAsync", "-"},
        {"backend:cudaMallocAsync", "RuntimeError",
         "Allocator backend parsed at runtime != allocator backend parsed at load time, "
         "cudaMallocAsync != native",
         "-"},
        {"max_split_size_mb::", "ValueError", "stoull", "-"},
        {"max_split_size_mb:99999999999999999999", "IndexError", "stoull", "-"},
        {"max_split_size_mb:-99999999999999999999", "IndexError", "stoull", "-"},
        {"max_split_size_mb:-18446744073709551596", "", "", "max_split_size=20971520"},
        {"max_split_size_mb:+20", "", "", "max_split_size=20971520"},
        {"max_split_size_mb:0x40", "ValueError",
         "CachingAllocator option max_split_size_mb too small, must be >= 20", "-"},
        {"max_split_size_mb:2 0", "", "", "max_split_size=20971520"},
        {"max_split_size_mb:17592186044415", "", "", "max_split_size=-1048576"},
        {"max_split_size_mb:17592186044416", "", "", "max_split_size=-1048576"},
        {"garbage_collection_threshold:0x1p-1", "", "", "garbage_collection_threshold=0.5"},
        {"garbage_collection_threshold:1e-400", "IndexError", "stod", "-"},
        {"garbage_collection_threshold:1e400", "IndexError", "stod", "-"},
        {"garbage_collection_threshold:x", "ValueError", "stod", "-"},
        {"garbage_collection_threshold:inf", "ValueError",
         "garbage_collect_threshold is invalid, set it in (0.0, 1.0)", "-"},
        {"garbage_collection_threshold:1e-5", "", "", "garbage_collection_threshold=1e-05"},
        {"per_process_memory_fraction:nan", "ValueError",
         "per_process_memory_fraction is invalid, set it in [0.0, 1.0]", "-"},
        {"per_process_memory_fraction:0", "", "", "per_process_memory_fraction=0.0"},
        {"per_process_memory_fraction:1", "", "", "-"},
        {"pinned_num_register_threads:0", "ValueError",
         "Number of register threads has to be power of 2, got 0", "-"},
        {"pinned_num_register_threads:256", "ValueError",
         "Number of register threads should be less than or equal to 128, got 256", "-"},
        {"pinned_num_register_threads:y", "ValueError", "stoull", "-"},
        {"pinned_reserve_segment_size_mb:0", "ValueError",
         "Pinned reserve segment size has to be greater than 0", "-"},
        {"pinned_reserve_segment_size_mb:-1", "", "",
         "pinned_reserve_segment_size_mb=18446744073709551615"},
        {"pinned_reserve_segment_size_mb:z", "ValueError", "stoull", "-"},
        {"pinned_use_hip_host_register:True", "", "", "pinned_use_cuda_host_register=True"},
        {"graph_capture_record_stream_reuse:yes", "ValueError",
         "Expected 'True' or 'False' at index 2 in ConfigTokenizer but got 'yes'", "-"},
        {"max_split_size_mb:40,expandable_segments:[", "ValueError",
         "Expected 'True' or 'False' at index 6 in ConfigTokenizer but got '['",
         "max_split_size=41943040"},
        /* a value that is called like a key is read twice */
        {"backend:large_segment_size_mb:64", "ValueError",
         "Unrecognized key '64' in Accelerator allocator config.",
         "large_segment_size=67108864 max_non_split_rounding=67108864"},
        {"backend:large_segment_size_mb:x", "ValueError", "stoull", "-"},
        {"large_segment_size_mb:-1", "", "",
         "large_segment_size=18446744073708503040 max_non_split_rounding=18446744073708503040"},
        {"large_segment_size_mb:", "RuntimeError", OUT_OF_BOUNDS, "-"},
        {"large_segment_size_mb:30,large_segment_size_mb:40", "", "",
         "large_segment_size=41943040 max_non_split_rounding=41943040"},
    };
    expect_all(rows, sizeof rows / sizeof rows[0], false);
}

Test(conf_torch, round_up_lists)
{
#define TABLE "roundup_power2_divisions="
#define TEXT "roundup_power2_divisions:"
    static const expectation_t rows[] = {
        {TEXT "[256:1,512:2,1024:4,>:8]", "", "", TABLE "1,1,1,1,1,1,1,1,1,2,4,8,8,8,8,8"},
        {TEXT "[64:8,1024:4]", "", "", TABLE "8,8,8,8,8,8,8,0,0,0,4,0,0,0,0,0"},
        {TEXT "[256:0,>:2]", "", "", TABLE "0,0,0,0,0,0,0,0,0,2,2,2,2,2,2,2"},
        {TEXT "[>:2]", "", "", TABLE "0,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2"},
        {TEXT "[131072:8]", "", "", TABLE "8,8,8,8,8,8,8,8,8,8,8,8,8,8,8,8"},
        {TEXT "[131072:8,>:4]", "", "", TABLE "8,8,8,8,8,8,8,8,8,8,8,8,8,8,8,8"},
        {TEXT "[1:2,>:4]", "", "", TABLE "2,4,4,4,4,4,4,4,4,4,4,4,4,4,4,4"},
        {TEXT "[256:1 512:2]", "ValueError", BAD_DIVISIONS, "-"},
        {TEXT "[", "RuntimeError", NO_BRACKET, "-"},
        {TEXT "[4:2,", "RuntimeError", NO_BRACKET, TABLE "2,2,2,0,0,0,0,0,0,0,0,0,0,0,0,0"},
        {TEXT "[4:2", "RuntimeError", OUT_OF_BOUNDS, TABLE "2,2,2,0,0,0,0,0,0,0,0,0,0,0,0,0"},
        {TEXT "[4", "RuntimeError", OUT_OF_BOUNDS, "-"},
        {TEXT "[4:", "RuntimeError", OUT_OF_BOUNDS, "-"},
        {TEXT "[4:]", "ValueError", "stoull", "-"},
        {TEXT "[x:2]", "ValueError", "stoull", "-"},
        {TEXT "[0:2]", "ValueError", "For roundups, the intervals have to be power of 2 ", "-"},
        {TEXT "[3:5]", "ValueError", BAD_DIVISIONS, "-"},
        {TEXT "x", "ValueError", "stoull", "-"},
        {TEXT "0", "ValueError", "For roundups, the divisions has to be power of 2 ", "-"},
        {TEXT "[4:2],max_split_size_mb:64", "", "",
         "max_split_size=67108864 " TABLE "2,2,2,0,0,0,0,0,0,0,0,0,0,0,0,0"},
        {TEXT "[4:2", "RuntimeError", OUT_OF_BOUNDS, TABLE "2,2,2,0,0,0,0,0,0,0,0,0,0,0,0,0"},
    };
    expect_all(rows, sizeof rows / sizeof rows[0], false);
}

Test(conf_torch, texts_at_the_start)
{
    static const expectation_t rows[] = {
        {"foo:1", "ValueError", "Unrecognized key 'foo' in CUDA allocator config.", "-"},
        {"foo", "RuntimeError", OUT_OF_BOUNDS, "-"},
        {"max_split_size_mb:64,foo:1", "ValueError",
         "Unrecognized key 'foo' in CUDA allocator config.", "-"},
        {"max_split_size_mb:64,max_non_split_rounding_mb:19", "ValueError",
         "CachingAllocator option max_non_split_rounding_mb too small, must be >= 20", "-"},
        {"max_split_size_mb:x", "RuntimeError", "stoull", "-"},
        {"max_split_size_mb:99999999999999999999", "RuntimeError", "stoull", "-"},
        {"per_process_memory_fraction:x", "RuntimeError", "stod", "-"},
        {"per_process_memory_fraction:2", "ValueError",
         "per_process_memory_fraction is invalid, set it in [0.0, 1.0]", "-"},
        {"roundup_power2_divisions:[4:2", "RuntimeError", NO_BRACKET, "-"},
        {"backend", "RuntimeError", OUT_OF_BOUNDS, "-"},
        {"backend:foo", "ValueError",
         "Unknown allocator backend, options are native and cudaMallocAsync", "-"},
        {"backend:native,max_split_size_mb:64", "", "", "max_split_size=67108864"},
        {"backend:cudaMallocAsync,max_split_size_mb", "", "", "backend=cudaMallocAsync"},
        {"bogus:1,backend:cudaMallocAsync", "", "", "backend=cudaMallocAsync"},
        {"backend:native,backend:cudaMallocAsync", "RuntimeError",
         "Allocator backend parsed at runtime != allocator backend parsed at load time, "
         "cudaMallocAsync != native",
         "-"},
        {"", "", "", "-"},
    };
    expect_all(rows, sizeof rows / sizeof rows[0], true);
}

/* One of the variables that PyTorch's readers look at, in each reader's order. */
static pleat_status_t read_variables(pleat_conf_t *conf, pleat_conf_report_t *report,
                                     const char *text)
{
    const conf_row_t row = {text, "vars", "", {0}};
    return conf_row_run(&row, PLEAT_CONF_TORCH, conf, report);
}

Test(conf_torch, the_hip_variable_reaches_the_generic_parser_alone)
{
    pleat_conf_t conf = PLEAT_CONF_INIT;
    pleat_conf_report_t report = PLEAT_CONF_REPORT_INIT;
    cr_assert(eq(int,
                 read_variables(&conf, &report,
                                "PYTORCH_HIP_ALLOC_CONF=max_split_size_mb:64,"
                                "release_lock_on_cudamalloc:True|PYTORCH_ALLOC_CONF="
                                "per_process_memory_fraction:0.5,max_split_size_mb:32"),
                 PLEAT_OK));
    const pleat_conf_setting_t *settings = conf.settings;
    cr_expect(eq(u64, settings[PLEAT_CONF_MAX_SPLIT_SIZE].number, 64 * ON_MB));
    cr_expect(eq(int, (int)settings[PLEAT_CONF_MAX_SPLIT_SIZE].source,
                 PLEAT_CONF_SOURCE_PYTORCH_HIP_ALLOC_CONF));
    cr_expect(eq(u64, settings[PLEAT_CONF_RELEASE_LOCK_ON_CUDAMALLOC].number, 0));
    cr_expect(eq(dbl, settings[PLEAT_CONF_PER_PROCESS_MEMORY_FRACTION].real, 0.5));
    cr_expect(eq(int, (int)settings[PLEAT_CONF_PER_PROCESS_MEMORY_FRACTION].source,
                 PLEAT_CONF_SOURCE_PYTORCH_ALLOC_CONF));
    cr_expect(conf.has_limit);
    cr_expect(ne(int, read_variables(&conf, &report, "PYTORCH_HIP_ALLOC_CONF=foo:1"), PLEAT_OK));
    cr_expect(eq(str, report.message, "Unrecognized key 'foo' in Accelerator allocator config."));
    cr_expect(eq(int, (int)report.source, PLEAT_CONF_SOURCE_PYTORCH_HIP_ALLOC_CONF));
}

Test(conf_torch, pleats_own_variable_is_not_pytorchs)
{
    pleat_conf_t conf = PLEAT_CONF_INIT;
    pleat_conf_report_t report = PLEAT_CONF_REPORT_INIT;
    cr_assert(
        eq(int, read_variables(&conf, &report, "PLEAT_ALLOC_CONF=max_split_size_mb:64"), PLEAT_OK));
    cr_expect(eq(u64, conf.settings[PLEAT_CONF_MAX_SPLIT_SIZE].number, UINT64_MAX));
}

Test(conf_torch, a_loaded_backend_cannot_be_left_at_run_time)
{
    pleat_conf_t conf = PLEAT_CONF_INIT;
    pleat_conf_report_t report = PLEAT_CONF_REPORT_INIT;
    cr_assert(eq(int,
                 pleat_conf_read_start(&conf, PLEAT_CONF_TORCH, "backend:cudaMallocAsync", NULL),
                 PLEAT_OK));
    cr_expect(eq(int, pleat_conf_read(&conf, PLEAT_CONF_TORCH, "backend:native", &report),
                 PLEAT_ERR_INVALID));
    cr_expect(eq(str, report.message,
                 "Allocator backend parsed at runtime != allocator backend parsed at load time, "
                 "native != cudaMallocAsync"));
    cr_expect(eq(str, (char *)pleat_last_error(), report.message));
    cr_expect(eq(int, pleat_conf_read(&conf, PLEAT_CONF_TORCH, "backend:cudaMallocAsync", &report),
                 PLEAT_OK));
}

Test(conf_torch, a_long_key_is_cut_in_the_message)
{
    static char text[8000];
    memset(text, 'k', sizeof text - 1);
    pleat_conf_t conf = PLEAT_CONF_INIT;
    pleat_conf_report_t report = PLEAT_CONF_REPORT_INIT;
    cr_expect(eq(int, pleat_conf_read(&conf, PLEAT_CONF_TORCH, text, &report), PLEAT_ERR_INVALID));
    cr_expect(eq(sz, strlen(report.message), PLEAT_CONF_MESSAGE_BYTES - 1));
}

Test(conf_torch, without_host_memory_nothing_changes)
{
    pleat_conf_t conf = PLEAT_CONF_INIT;
    pleat_conf_report_t report = PLEAT_CONF_REPORT_INIT;
    for (uint64_t nth = 1; nth <= 2; nth++) {
        host_fault_after(nth);
        cr_expect(eq(int, pleat_conf_read(&conf, PLEAT_CONF_TORCH, "max_split_size_mb:64", &report),
                     PLEAT_ERR_OOM_HOST));
        cr_expect(strstr(report.message, "host memory") != NULL);
        cr_expect(eq(u64, conf.settings[PLEAT_CONF_MAX_SPLIT_SIZE].number, UINT64_MAX));
    }
    host_fault_after(0);
    cr_expect(eq(int, pleat_conf_read(&conf, PLEAT_CONF_TORCH, "max_split_size_mb:64", &report),
                 PLEAT_OK));
}
