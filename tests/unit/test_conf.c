/*
 * test_conf: the configuration itself: descriptions, options for an allocator, sources, and the
 * rule that a struct's size comes from its user.
 */
#include "conf_rows.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>

#define ON_MB UINT64_C(1048576)

static pleat_conf_t conf_of(const char *text)
{
    pleat_conf_t conf = PLEAT_CONF_INIT;
    cr_assert(eq(int, pleat_conf_read_start(&conf, PLEAT_CONF_STRICT, text, NULL), PLEAT_OK));
    return conf;
}

Test(conf, every_option_is_described)
{
    const pleat_conf_t conf = PLEAT_CONF_INIT;
    for (size_t option = 0; option < PLEAT_CONF_OPTION_COUNT; option++) {
        pleat_conf_description_t description = PLEAT_CONF_DESCRIPTION_INIT;
        cr_assert(eq(int, pleat_conf_describe(&conf, (pleat_conf_option_t)option, &description),
                     PLEAT_OK));
        cr_expect(eq(sz, (size_t)pleat_conf_find(description.key), option));
        cr_expect(description.is_default);
        cr_expect(eq(str, description.value, description.default_value));
        cr_expect(eq(str, (char *)description.source, "default"));
        cr_expect(lt(sz, 10, strlen(description.help)));
        cr_expect(lt(sz, 10, strlen(description.allowed)));
        cr_expect(lt(sz, strlen(description.allowed), PLEAT_CONF_ALLOWED_BYTES - 1));
        if (description.second_key[0] != '\0') {
            cr_expect(eq(sz, (size_t)pleat_conf_find(description.second_key), option));
        }
    }
    cr_expect(eq(int, (int)pleat_conf_find("foo"), PLEAT_CONF_OPTION_COUNT));
    cr_expect(eq(int, (int)pleat_conf_find(""), PLEAT_CONF_OPTION_COUNT));
    cr_expect(eq(int, (int)pleat_conf_find(NULL), PLEAT_CONF_OPTION_COUNT));
}

Test(conf, values_are_written_as_pytorch_knows_them)
{
    static const struct {
        const char *text;
        pleat_conf_option_t option;
        const char *value;
        const char *allowed;
    } rows[] = {
        {"", PLEAT_CONF_MAX_SPLIT_SIZE, "-1",
         "a whole number of MB, at least 20 (the large segment size)"},
        {"max_split_size_mb:64", PLEAT_CONF_MAX_SPLIT_SIZE, "67108864",
         "a whole number of MB, at least 20 (the large segment size)"},
        {"large_segment_size_mb:32", PLEAT_CONF_MAX_NON_SPLIT_ROUNDING, "33554432",
         "a whole number of MB, at least 32 (the large segment size)"},
        {"", PLEAT_CONF_LARGE_SEGMENT_SIZE, "20971520", "a whole number of MB, above 10"},
        {"expandable_segments:True", PLEAT_CONF_EXPANDABLE_SEGMENTS, "True", "True or False"},
        {"", PLEAT_CONF_EXPANDABLE_SEGMENTS, "False", "True or False"},
        {"garbage_collection_threshold:0.80", PLEAT_CONF_GARBAGE_COLLECTION_THRESHOLD, "0.8",
         "a number above 0 and below 1"},
        {"", PLEAT_CONF_PER_PROCESS_MEMORY_FRACTION, "1.0", "a number from 0 to 1"},
        {"backend:cudaMallocAsync", PLEAT_CONF_BACKEND, "cudaMallocAsync",
         "native or cudaMallocAsync"},
        {"roundup_power2_divisions:9223372036854775808", PLEAT_CONF_ROUNDUP_POWER2_DIVISIONS,
         "9223372036854775808,9223372036854775808,9223372036854775808,9223372036854775808,"
         "9223372036854775808,9223372036854775808,9223372036854775808,9223372036854775808,"
         "9223372036854775808,9223372036854775808,9223372036854775808,9223372036854775808,"
         "9223372036854775808,9223372036854775808,9223372036854775808,9223372036854775808",
         "a whole number that is a power of two, or a list [MB:divisions,...,>:divisions]"},
        {"", PLEAT_CONF_PINNED_NUM_REGISTER_THREADS, "1",
         "a whole number that is a power of two, at most 128"},
        {"pinned_reserve_segment_size_mb:9", PLEAT_CONF_PINNED_RESERVE_SEGMENT_SIZE, "9",
         "a whole number of MB, at least 1"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const pleat_conf_t conf = conf_of(rows[i].text);
        pleat_conf_description_t description = PLEAT_CONF_DESCRIPTION_INIT;
        cr_assert(eq(int, pleat_conf_describe(&conf, rows[i].option, &description), PLEAT_OK));
        cr_expect(eq(str, description.value, (char *)rows[i].value));
        cr_expect(eq(str, description.allowed, (char *)rows[i].allowed));
    }
}

Test(conf, descriptions_refuse_bad_arguments)
{
    const pleat_conf_t conf = PLEAT_CONF_INIT;
    pleat_conf_description_t description = PLEAT_CONF_DESCRIPTION_INIT;
    cr_expect(eq(int, pleat_conf_describe(&conf, PLEAT_CONF_OPTION_COUNT, &description),
                 PLEAT_ERR_INVALID));
    cr_expect(eq(int, pleat_conf_describe(&conf, PLEAT_CONF_BACKEND, NULL), PLEAT_ERR_INVALID));
    description.size = 0;
    cr_expect(
        eq(int, pleat_conf_describe(&conf, PLEAT_CONF_BACKEND, &description), PLEAT_ERR_INVALID));
    description.size = sizeof description;
    cr_expect(eq(int, pleat_conf_describe(NULL, PLEAT_CONF_BACKEND, &description), PLEAT_OK));
    cr_expect(eq(str, description.value, "native"));
}

Test(conf, options_of_an_allocator)
{
    const pleat_conf_t conf =
        conf_of("max_split_size_mb:64,large_segment_size_mb:32,max_non_split_rounding_mb:40,"
                "garbage_collection_threshold:0.5,per_process_memory_fraction:0.3,"
                "roundup_power2_divisions:[1:2,>:4]");
    pleat_options_t options = PLEAT_OPTIONS_INIT;
    cr_assert(eq(int, pleat_conf_apply(&conf, UINT64_C(150109880320), &options), PLEAT_OK));
    cr_expect(eq(u64, options.max_split_bytes, 64 * ON_MB));
    cr_expect(eq(u64, options.large_segment_bytes, 32 * ON_MB));
    cr_expect(eq(u64, options.max_non_split_rounding_bytes, 40 * ON_MB));
    cr_expect(eq(dbl, options.garbage_collection_threshold, 0.5));
    cr_expect(eq(u64, options.limit_bytes, (uint64_t)(0.3 * 150109880320.0)));
    cr_expect(eq(u64, options.roundup_power2_divisions[0], 2));
    cr_expect(eq(u64, options.roundup_power2_divisions[15], 4));
}

Test(conf, the_fraction_gives_a_limit_only_at_the_start)
{
    pleat_options_t options = PLEAT_OPTIONS_INIT;
    pleat_conf_t conf = conf_of("");
    options.limit_bytes = 7;
    cr_assert(eq(int, pleat_conf_apply(&conf, 1000, &options), PLEAT_OK));
    cr_expect(eq(u64, options.limit_bytes, PLEAT_NO_LIMIT));
    cr_expect(not(conf.has_limit));
    conf = conf_of("per_process_memory_fraction:0");
    cr_expect(conf.has_limit);
    cr_assert(eq(int, pleat_conf_apply_runtime(&conf, &options), PLEAT_OK));
    cr_expect(eq(u64, options.limit_bytes, PLEAT_NO_LIMIT));
    cr_assert(eq(int, pleat_conf_apply(&conf, 1000, &options), PLEAT_OK));
    cr_expect(eq(u64, options.limit_bytes, 0));
}

Test(conf, values_that_no_allocator_can_use)
{
    pleat_conf_t conf = PLEAT_CONF_INIT;
    pleat_options_t options = PLEAT_OPTIONS_INIT;
    const pleat_options_t before = options;
    cr_assert(eq(int, pleat_conf_read(&conf, PLEAT_CONF_TORCH, "large_segment_size_mb:-1", NULL),
                 PLEAT_OK));
    cr_expect(eq(int, pleat_conf_apply(&conf, 1000, &options), PLEAT_ERR_INVALID));
    cr_expect(strstr(pleat_last_error(), "large_segment_size_mb") != NULL);
    cr_expect(conf_same_bytes(&options, &before, sizeof options));
    cr_expect(eq(int, pleat_conf_apply(&conf, 1000, NULL), PLEAT_ERR_INVALID));
    cr_expect(eq(int, pleat_conf_apply(NULL, 1000, &options), PLEAT_ERR_INVALID));
}

Test(conf, an_older_caller_has_shorter_structs)
{
    pleat_conf_t conf = PLEAT_CONF_INIT;
    conf.size = offsetof(pleat_conf_t, settings) + sizeof conf.settings[0];
    conf.settings[PLEAT_CONF_MAX_SPLIT_SIZE].number = 12345; /* not part of it */
    cr_assert(eq(int,
                 pleat_conf_read_start(&conf, PLEAT_CONF_STRICT,
                                       "large_segment_size_mb:30,max_split_size_mb:64", NULL),
                 PLEAT_OK));
    cr_expect(eq(u64, conf.settings[PLEAT_CONF_LARGE_SEGMENT_SIZE].number, 30 * ON_MB));
    cr_expect(eq(u64, conf.settings[PLEAT_CONF_MAX_SPLIT_SIZE].number, 12345));
    pleat_options_t options = PLEAT_OPTIONS_INIT;
    options.size = offsetof(pleat_options_t, large_segment_bytes);
    cr_assert(eq(int, pleat_conf_apply(&conf, 1000, &options), PLEAT_OK));
    cr_expect(eq(u64, options.max_split_bytes, PLEAT_UNLIMITED));
    cr_expect(eq(u64, options.large_segment_bytes, 20 * ON_MB));
    pleat_conf_report_t report = PLEAT_CONF_REPORT_INIT;
    report.size = offsetof(pleat_conf_report_t, message);
    report.message[0] = '?';
    cr_assert(
        eq(int, pleat_conf_read(&conf, PLEAT_CONF_STRICT, "x:1", &report), PLEAT_ERR_INVALID));
    cr_expect(eq(sz, report.column, 1));
    cr_expect(eq(chr, report.message[0], '?'));
}

Test(conf, readings_refuse_what_was_not_set_up)
{
    pleat_conf_t conf = PLEAT_CONF_INIT;
    pleat_conf_report_t report = PLEAT_CONF_REPORT_INIT;
    for (int i = 0; i < 2; i++) {
        const pleat_conf_reading_t reading = i == 0 ? PLEAT_CONF_STRICT : PLEAT_CONF_TORCH;
        conf.size = 4;
        cr_expect(eq(int, pleat_conf_read(&conf, reading, "", &report), PLEAT_ERR_INVALID));
        cr_expect(strstr(report.message, "PLEAT_CONF_INIT") != NULL);
        cr_expect(eq(int, pleat_conf_read(NULL, reading, "", NULL), PLEAT_ERR_INVALID));
        cr_expect(eq(int, pleat_conf_read_start(&conf, reading, "", NULL), PLEAT_ERR_INVALID));
        conf.size = sizeof conf;
        cr_expect(eq(int, pleat_conf_read(&conf, reading, NULL, NULL), PLEAT_ERR_INVALID));
        cr_expect(eq(int, pleat_conf_read_start(&conf, reading, NULL, NULL), PLEAT_ERR_INVALID));
        cr_expect(eq(int, pleat_conf_read_variables(&conf, reading, NULL, NULL, NULL),
                     PLEAT_ERR_INVALID));
    }
}

Test(conf, the_environment_is_a_lookup)
{
    pleat_conf_t conf = PLEAT_CONF_INIT;
    cr_assert(eq(int, unsetenv("PYTORCH_CUDA_ALLOC_CONF"), 0));
    cr_assert(eq(int, unsetenv("PYTORCH_ALLOC_CONF"), 0));
    cr_assert(eq(int, unsetenv("PLEAT_ALLOC_CONF"), 0));
    cr_assert(eq(int, unsetenv("PYTORCH_HIP_ALLOC_CONF"), 0));
    for (int i = 0; i < 2; i++) {
        const pleat_conf_reading_t reading = i == 0 ? PLEAT_CONF_STRICT : PLEAT_CONF_TORCH;
        cr_assert(eq(int,
                     pleat_conf_read_variables(&conf, reading, pleat_conf_environment, NULL, NULL),
                     PLEAT_OK));
        cr_expect(eq(u64, conf.settings[PLEAT_CONF_MAX_SPLIT_SIZE].number, UINT64_MAX));
    }
    cr_assert(eq(int, setenv("PYTORCH_ALLOC_CONF", "max_split_size_mb:64", 1), 0));
    cr_assert(
        eq(int,
           pleat_conf_read_variables(&conf, PLEAT_CONF_STRICT, pleat_conf_environment, NULL, NULL),
           PLEAT_OK));
    pleat_conf_description_t description = PLEAT_CONF_DESCRIPTION_INIT;
    cr_assert(
        eq(int, pleat_conf_describe(&conf, PLEAT_CONF_MAX_SPLIT_SIZE, &description), PLEAT_OK));
    cr_expect(eq(str, (char *)description.source, "PYTORCH_ALLOC_CONF"));
    cr_expect(eq(str, description.value, "67108864"));
}

Test(conf, options_without_effect_are_announced)
{
    char notice[64];
    pleat_conf_t conf = conf_of("max_split_size_mb:64,pinned_num_register_threads:1");
    cr_expect(eq(sz, pleat_conf_notice(&conf, notice, sizeof notice), 0));
    cr_expect(eq(str, notice, ""));
    conf = conf_of("pinned_num_register_threads:2,pinned_use_background_threads:True");
    const char *want = "not yet in effect: pinned_use_background_threads, "
                       "pinned_num_register_threads";
    cr_expect(eq(sz, pleat_conf_notice(&conf, notice, sizeof notice), strlen(want)));
    cr_expect(eq(sz, strlen(notice), sizeof notice - 1));
    cr_expect(eq(int, strncmp(notice, want, sizeof notice - 1), 0));
    cr_expect(eq(sz, pleat_conf_notice(&conf, NULL, 0), strlen(want)));
}

Test(conf, the_other_backend_is_explained)
{
    char notice[512];
    pleat_conf_t conf = PLEAT_CONF_INIT;
    cr_assert(eq(int,
                 pleat_conf_read_start(&conf, PLEAT_CONF_STRICT, "backend:cudaMallocAsync", NULL),
                 PLEAT_OK));
    (void)pleat_conf_notice(&conf, notice, sizeof notice);
    cr_expect(
        eq(int, strncmp(notice, "backend:cudaMallocAsync means the driver's own pool", 51), 0),
        "%s", notice);
    conf.settings[PLEAT_CONF_PINNED_NUM_REGISTER_THREADS].number = 2;
    (void)pleat_conf_notice(&conf, notice, sizeof notice);
    cr_expect(
        ne(ptr, strstr(notice, "pinned_num_register_threads; backend:cudaMallocAsync means"), NULL),
        "%s", notice);
}

Test(conf, options_that_a_mode_does_not_know_are_announced)
{
    char notice[128];
    pleat_conf_t conf = conf_of("max_split_size_mb:64,growth_factor:2,pleated_slack:0.003");
    cr_expect(lt(sz, 0, pleat_conf_mode_notice(&conf, PLEAT_MODE_PLEATED, notice, sizeof notice)));
    cr_expect(eq(str, notice, "max_split_size_mb without effect in mode pleated"));
    const char *want = "growth_factor without effect in mode classic";
    cr_expect(eq(sz, pleat_conf_mode_notice(&conf, PLEAT_MODE_CLASSIC, notice, sizeof notice),
                 strlen(want)));
    cr_expect(eq(str, notice, (char *)want));
    cr_expect(eq(sz, pleat_conf_mode_notice(&conf, PLEAT_MODE_CLASSIC, NULL, 0), strlen(want)));
    conf = conf_of("garbage_collection_threshold:0.5,large_segment_size_mb:64");
    (void)pleat_conf_mode_notice(&conf, PLEAT_MODE_TORCH_EXPANDABLE, notice, sizeof notice);
    cr_expect(eq(str, notice,
                 "garbage_collection_threshold without effect in mode "
                 "torch_expandable"));
    conf = conf_of("pinned_num_register_threads:4,roundup_power2_divisions:4");
    for (unsigned mode = 0; mode < PLEAT_MODE_COUNT; mode++) {
        cr_expect(
            eq(sz, pleat_conf_mode_notice(&conf, (pleat_mode_t)mode, notice, sizeof notice), 0));
    }
    cr_expect(eq(str, notice, ""));
    cr_expect(pleat_conf_acts(PLEAT_CONF_GROWTH_FACTOR, PLEAT_MODE_PLEATED));
    cr_expect(not(pleat_conf_acts(PLEAT_CONF_GROWTH_FACTOR, PLEAT_MODE_CLASSIC)));
}

Test(conf, the_growth_factor_reaches_the_allocator)
{
    const pleat_conf_t conf = conf_of("growth_factor:1.5");
    pleat_options_t options = PLEAT_OPTIONS_INIT;
    cr_assert(eq(int, pleat_conf_apply(&conf, 1, &options), PLEAT_OK));
    cr_expect(eq(dbl, options.pleated_growth_factor, 1.5));
}

Test(conf, the_lock_option_reaches_the_allocator)
{
    pleat_conf_t conf = conf_of("release_lock_on_hipmalloc:True");
    pleat_options_t options = PLEAT_OPTIONS_INIT;
    cr_assert(eq(int, pleat_conf_apply(&conf, 1, &options), PLEAT_OK));
    cr_expect(eq(u64, options.release_lock_on_alloc, 1));
    char notice[200];
    cr_expect(eq(sz, pleat_conf_notice(&conf, notice, sizeof notice), 0));
    cr_expect(eq(sz, pleat_conf_mode_notice(&conf, PLEAT_MODE_CLASSIC, notice, sizeof notice), 0));
    (void)pleat_conf_mode_notice(&conf, PLEAT_MODE_PLEATED, notice, sizeof notice);
    cr_expect(eq(str, notice, "release_lock_on_cudamalloc without effect in mode pleated"));
    conf = conf_of("release_lock_on_cudamalloc:False");
    cr_assert(eq(int, pleat_conf_apply_runtime(&conf, &options), PLEAT_OK));
    cr_expect(eq(u64, options.release_lock_on_alloc, 0));
}

Test(conf, the_reuse_option_reaches_the_allocator)
{
    const pleat_conf_t conf = conf_of("graph_capture_record_stream_reuse:True");
    pleat_options_t options = PLEAT_OPTIONS_INIT;
    cr_assert(eq(int, pleat_conf_apply(&conf, 1, &options), PLEAT_OK));
    cr_expect(eq(u64, options.reuse_in_capture, 1));
    cr_expect(eq(sz, pleat_conf_notice(&conf, NULL, 0), 0));
}
