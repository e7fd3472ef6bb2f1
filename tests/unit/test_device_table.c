/*
 * Tests of device_table over the simulated driver: configuration from all its places, allocators on
 * demand, limits, changes at run time, the end, and a child process.
 */
#include "fake_control.h"
#include "host_fault.h"

#include "vmm/base.h"

#include <pleat/cuda.h>
#include <pleat/device_table.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#define DEVICE_BYTES (UINT64_C(4) << 30)

static char lines[8][1200];
static int line_count;

static void keep_line(void *context, const char *line)
{
    cr_expect(eq(ptr, context, lines));
    (void)snprintf(lines[line_count++], sizeof lines[0], "%s", line);
}

static void expect_line(int index, const char *part)
{
    cr_assert(lt(int, index, line_count));
    cr_expect(ne(ptr, strstr(lines[index], part), NULL), "'%s' lacks '%s'", lines[index], part);
}

static void expect_ok(pleat_status_t status)
{
    cr_assert(eq(int, status, PLEAT_OK), "%s", pleat_last_error());
}

static void expect_error(pleat_status_t status, pleat_status_t want, const char *part)
{
    cr_expect(eq(int, status, want), "%s", pleat_last_error());
    cr_expect(ne(ptr, strstr(pleat_last_error(), part), NULL), "'%s' lacks '%s'",
              pleat_last_error(), part);
}

static void no_variables(void)
{
    cr_assert(eq(int, unsetenv("PLEAT_ALLOC_CONF"), 0));
    cr_assert(eq(int, unsetenv("PYTORCH_CUDA_ALLOC_CONF"), 0));
    cr_assert(eq(int, unsetenv("PYTORCH_HIP_ALLOC_CONF"), 0));
    cr_assert(eq(int, unsetenv("PYTORCH_ALLOC_CONF"), 0));
}

static void variable(const char *name, const char *text)
{
    cr_assert(eq(int, setenv(name, text, 1), 0));
}

static pleat_device_table_options_t options_of(const char *conf)
{
    pleat_device_table_options_t options = PLEAT_DEVICE_TABLE_OPTIONS_INIT;
    options.conf = conf;
    options.driver = TEST_LIBRARY;
    options.notice = keep_line;
    options.notice_context = lines;
    return options;
}

static pleat_status_t configure(const char *conf)
{
    const pleat_device_table_options_t options = options_of(conf);
    return pleat_device_table_configure(&options);
}

static pleat_allocator_t *get(int device_index)
{
    pleat_allocator_t *allocator = NULL;
    expect_ok(pleat_device_table_get(device_index, &allocator));
    cr_assert(ne(ptr, allocator, NULL));
    return allocator;
}

static pleat_options_t options_in_force(int device_index)
{
    pleat_options_t options = PLEAT_OPTIONS_INIT;
    pleat_read_options(get(device_index), &options);
    return options;
}

static void use(pleat_allocator_t *allocator)
{
    pleat_devptr_t ptr = 0;
    expect_ok(pleat_alloc(allocator, 3 * PLEAT_MIB, 0, &ptr));
    expect_ok(pleat_free(allocator, ptr));
    expect_ok(pleat_allocator_check(allocator));
}

/* ---- allocators ---- */

Test(device_table, makes_one_allocator_for_each_device, .timeout = 20)
{
    no_variables();
    fake_set("devices", 2);
    expect_ok(configure(NULL));
    cr_expect(eq(ptr, pleat_device_table_find(0), NULL));
    cr_expect(eq(ptr, pleat_device_table_vmm(0), NULL));
    pleat_allocator_t *first = get(0);
    cr_expect(eq(ptr, get(0), first));
    cr_expect(eq(ptr, pleat_device_table_find(0), first));
    cr_expect(eq(u64, fake_contexts(), 1));
    cr_expect(ne(ptr, get(1), first));
    cr_expect(eq(str, (char *)pleat_vmm_name(pleat_device_table_vmm(1)), "cuda"));
    use(first);
    use(get(1));
    expect_ok(pleat_device_table_empty_cache());
    pleat_stats_t stats = PLEAT_STATS_INIT;
    pleat_read_stats(first, &stats);
    cr_expect(eq(i64, stats.reserved_bytes[PLEAT_STAT_ALL].current, 0));
    cr_expect(eq(int, line_count, 0));
    pleat_device_table_close();
    cr_expect(eq(u64, fake_contexts(), 0));
    cr_expect(eq(ptr, pleat_device_table_find(0), NULL));
    pleat_device_table_close(); /* of an empty table */
}

Test(device_table, refuses_what_is_no_device, .timeout = 20)
{
    no_variables();
    expect_ok(configure(NULL));
    pleat_allocator_t *allocator = NULL;
    expect_error(pleat_device_table_get(-1, &allocator), PLEAT_ERR_INVALID, "device -1");
    expect_error(pleat_device_table_get(PLEAT_DEVICE_TABLE_COUNT, &allocator), PLEAT_ERR_INVALID,
                 "from 0 to 63");
    expect_error(pleat_device_table_get(1, &allocator), PLEAT_ERR_INVALID, "the driver has 1");
    expect_error(pleat_device_table_get(0, NULL), PLEAT_ERR_INVALID, "allocator_out is NULL");
    cr_expect(eq(ptr, allocator, NULL));
    cr_expect(eq(ptr, pleat_device_table_find(-1), NULL));
    cr_expect(eq(ptr, pleat_device_table_vmm(64), NULL));
    expect_error(pleat_device_table_set_fraction(64, 0.5), PLEAT_ERR_INVALID, "device 64");
    cr_expect(eq(dbl, pleat_device_table_fraction(-1), 1.0));
}

Test(device_table, a_failure_on_the_way_leaves_no_device, .timeout = 20)
{
    no_variables();
    expect_ok(configure(NULL));
    pleat_allocator_t *allocator = NULL;
    fake_fail("cuMemGetInfo_v2", 1, 719);
    expect_error(pleat_device_table_get(0, &allocator), PLEAT_ERR_DRIVER, "mem_info");
    cr_expect(eq(u64, fake_contexts(), 0));
    for (uint64_t nth = 1; nth <= 3; nth++) { /* the device, the table around it, the allocator */
        host_fault_after(nth);
        expect_error(pleat_device_table_get(0, &allocator), PLEAT_ERR_OOM_HOST, "no host memory");
        cr_expect(eq(u64, fake_contexts(), 0));
    }
    use(get(0));
    fake_set("mapping", 0);
    pleat_device_table_close();
    expect_ok(configure("expandable_segments:True"));
    expect_error(pleat_device_table_get(0, &allocator), PLEAT_ERR_UNSUPPORTED, "virtual memory");
    cr_expect(eq(u64, fake_contexts(), 0));
}

Test(device_table, a_missing_driver_is_named_each_time, .timeout = 20)
{
    no_variables();
    pleat_device_table_options_t options = options_of(NULL);
    options.driver = "libno_such_driver.so.1";
    expect_ok(pleat_device_table_configure(&options));
    pleat_allocator_t *allocator = NULL;
    for (int i = 0; i < 2; i++) {
        expect_error(pleat_device_table_get(0, &allocator), PLEAT_ERR_UNSUPPORTED,
                     "libno_such_driver.so.1 not found");
    }
}

Test(device_table, an_empty_cache_that_fails_tries_the_others, .timeout = 20)
{
    no_variables();
    fake_set("devices", 2);
    expect_ok(configure(NULL));
    use(get(0));
    use(get(1));
    fake_fail("cuMemFree_v2", 1, 719);
    expect_error(pleat_device_table_empty_cache(), PLEAT_ERR_DRIVER, "mem_free");
    pleat_stats_t stats = PLEAT_STATS_INIT;
    pleat_read_stats(get(1), &stats);
    cr_expect(eq(i64, stats.reserved_bytes[PLEAT_STAT_ALL].current, 0));
    expect_ok(pleat_device_table_empty_cache());
}

static void *get_in_thread(void *unused)
{
    (void)unused;
    return get(0);
}

Test(device_table, threads_that_come_at_once_share_an_allocator, .timeout = 20)
{
    enum { THREADS = 8 };
    no_variables();
    expect_ok(configure(NULL));
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        cr_assert(eq(int, pthread_create(&threads[i], NULL, get_in_thread, NULL), 0));
    }
    for (int i = 0; i < THREADS; i++) {
        void *allocator = NULL;
        cr_assert(eq(int, pthread_join(threads[i], &allocator), 0));
        cr_expect(eq(ptr, allocator, get(0)));
    }
    cr_expect(eq(u64, fake_contexts(), 1));
}

/* ---- configuration ---- */

Test(device_table, reads_the_environment_once, .timeout = 20)
{
    no_variables();
    variable("PLEAT_ALLOC_CONF", "max_split_size_mb:64,pinned_num_register_threads:4");
    variable("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:128");
    expect_ok(configure(NULL));
    expect_line(0, "PLEAT_ALLOC_CONF is used");
    expect_line(1, "not yet in effect: pinned_num_register_threads");
    variable("PLEAT_ALLOC_CONF", "max_split_size_mb:256");
    cr_expect(eq(u64, options_in_force(0).max_split_bytes, 64 * PLEAT_MIB));
    pleat_conf_t conf = PLEAT_CONF_INIT;
    expect_ok(pleat_device_table_read_conf(&conf));
    cr_expect(eq(u64, conf.settings[PLEAT_CONF_PINNED_NUM_REGISTER_THREADS].number, 4));
    cr_expect(eq(int, (int)conf.settings[PLEAT_CONF_MAX_SPLIT_SIZE].source,
                 PLEAT_CONF_SOURCE_PLEAT_ALLOC_CONF));
    cr_expect(eq(int, line_count, 2));
}

Test(device_table, a_key_without_effect_in_the_mode_is_told, .timeout = 20)
{
    no_variables();
    variable("PLEAT_ALLOC_CONF", "max_split_size_mb:64,expandable_segments:True");
    expect_ok(configure(NULL));
    expect_line(0, "max_split_size_mb without effect in mode pleated");
    cr_expect(eq(int, line_count, 1));
}

Test(device_table, a_text_of_pytorch_is_read_as_pytorch_reads_it, .timeout = 20)
{
    no_variables();
    variable("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb,64,expandable_segments:True");
    expect_ok(configure(NULL));
    expect_line(0, "read as PyTorch reads it, although: PYTORCH_CUDA_ALLOC_CONF");
    const pleat_options_t options = options_in_force(0);
    cr_expect(eq(u64, options.max_split_bytes, 64 * PLEAT_MIB));
    cr_expect(eq(int, (int)options.mode, PLEAT_MODE_PLEATED));
    use(get(0));
}

Test(device_table, keys_of_its_own_may_stand_in_pytorchs_variable, .timeout = 20)
{
    no_variables();
    variable("PYTORCH_ALLOC_CONF", "expandable_segments:True,expandable_policy:torch");
    expect_ok(configure(NULL));
    cr_expect(eq(int, line_count, 0));
    cr_expect(eq(int, (int)options_in_force(0).mode, PLEAT_MODE_TORCH_EXPANDABLE));
}

Test(device_table, a_refused_text_is_refused_every_time, .timeout = 20)
{
    static const char *const names[] = {"PLEAT_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"};
    for (size_t i = 0; i < 2; i++) {
        no_variables();
        variable(names[i], "max_split_sise_mb:64");
        pleat_allocator_t *allocator = NULL;
        pleat_conf_t conf = PLEAT_CONF_INIT;
        expect_error(pleat_device_table_get(0, &allocator), PLEAT_ERR_INVALID, names[i]);
        no_variables(); /* it was read once */
        expect_error(pleat_device_table_get(0, &allocator), PLEAT_ERR_INVALID, "max_split_size_mb");
        expect_error(pleat_device_table_read_conf(&conf), PLEAT_ERR_INVALID, names[i]);
        expect_error(pleat_device_table_set_fraction(0, 0.5), PLEAT_ERR_INVALID, names[i]);
        expect_error(pleat_device_table_reconfigure(PLEAT_CONF_STRICT, "", NULL), PLEAT_ERR_INVALID,
                     names[i]);
        expect_ok(configure("max_split_size_mb:64"));
        use(get(0));
        pleat_device_table_close();
    }
}

Test(device_table, no_memory_for_the_environment_is_no_refusal, .timeout = 20)
{
    no_variables();
    variable("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb,64");
    pleat_conf_t conf = PLEAT_CONF_INIT;
    host_fault_after(1);
    expect_error(pleat_device_table_read_conf(&conf), PLEAT_ERR_OOM_HOST, "memory");
    expect_ok(pleat_device_table_read_conf(&conf));
    cr_expect(eq(u64, conf.settings[PLEAT_CONF_MAX_SPLIT_SIZE].number, 64 * PLEAT_MIB));
}

Test(device_table, configuring_takes_everything_or_nothing, .timeout = 20)
{
    no_variables();
    expect_ok(configure("max_split_size_mb:64"));
    expect_error(configure("max_split_size_mb:64:"), PLEAT_ERR_INVALID, "column");
    pleat_device_table_options_t options = options_of(NULL);
    options.size = 0;
    expect_error(pleat_device_table_configure(&options), PLEAT_ERR_INVALID, "size is 0");
    options = options_of("max_split_size_mb:32");
    host_fault_after(1);
    expect_error(pleat_device_table_configure(&options), PLEAT_ERR_OOM_HOST, "no host memory");
    cr_expect(eq(u64, options_in_force(0).max_split_bytes, 64 * PLEAT_MIB));
    expect_error(configure(""), PLEAT_ERR_INVALID, "an allocator exists already");
    pleat_device_table_close();
    expect_ok(pleat_device_table_configure(NULL));
    expect_error(pleat_device_table_read_conf(NULL), PLEAT_ERR_INVALID, "conf_out is NULL");
}

Test(device_table, a_text_at_run_time_reaches_every_allocator, .timeout = 20)
{
    no_variables();
    fake_set("devices", 3);
    expect_ok(configure("per_process_memory_fraction:0.5"));
    (void)get(0);
    (void)get(1);
    expect_ok(pleat_device_table_reconfigure(
        PLEAT_CONF_STRICT, "max_split_size_mb:64,expandable_segments:True", NULL));
    for (int i = 0; i < 3; i++) { /* the last is made now */
        const pleat_options_t options = options_in_force(i);
        cr_expect(eq(u64, options.max_split_bytes, 64 * PLEAT_MIB));
        cr_expect(eq(int, (int)options.mode, PLEAT_MODE_PLEATED));
        cr_expect(eq(u64, options.limit_bytes, DEVICE_BYTES / 2));
    }
    pleat_conf_report_t report = PLEAT_CONF_REPORT_INIT;
    expect_error(pleat_device_table_reconfigure(PLEAT_CONF_STRICT, "max_split_size_mb:1", &report),
                 PLEAT_ERR_INVALID, "max_split_size_mb");
    cr_expect(eq(int, report.status, PLEAT_ERR_INVALID));
    cr_expect(eq(u64, options_in_force(2).max_split_bytes, 64 * PLEAT_MIB));
    /* As PyTorch: what stands before an error stays applied. */
    expect_error(pleat_device_table_reconfigure(PLEAT_CONF_TORCH, "max_split_size_mb:40,x:1", NULL),
                 PLEAT_ERR_INVALID, "Unrecognized key 'x'");
    cr_expect(eq(u64, options_in_force(2).max_split_bytes, 40 * PLEAT_MIB));
}

Test(device_table, a_change_that_one_device_refuses_reaches_none, .timeout = 20)
{
    no_variables();
    fake_set("devices", 2);
    expect_ok(configure("max_split_size_mb:64"));
    (void)get(0);
    fake_set("mapping", 0);
    (void)get(1);
    expect_error(pleat_device_table_reconfigure(
                     PLEAT_CONF_STRICT, "max_split_size_mb:32,expandable_segments:True", NULL),
                 PLEAT_ERR_UNSUPPORTED, "virtual memory");
    for (int i = 0; i < 2; i++) {
        cr_expect(eq(u64, options_in_force(i).max_split_bytes, 64 * PLEAT_MIB));
        cr_expect(eq(int, (int)options_in_force(i).mode, PLEAT_MODE_CLASSIC));
    }
    pleat_conf_t conf = PLEAT_CONF_INIT;
    expect_ok(pleat_device_table_read_conf(&conf));
    cr_expect(eq(u64, conf.settings[PLEAT_CONF_MAX_SPLIT_SIZE].number, 64 * PLEAT_MIB));
}

/* ---- limits ---- */

Test(device_table, a_fraction_limits_a_device, .timeout = 20)
{
    no_variables();
    fake_set("devices", 2);
    expect_ok(configure(NULL));
    expect_ok(pleat_device_table_set_fraction(1, 0.25)); /* of an allocator to come */
    cr_expect(eq(dbl, pleat_device_table_fraction(1), 1.0));
    (void)get(0);
    (void)get(1);
    cr_expect(eq(dbl, pleat_device_table_fraction(0), 1.0));
    cr_expect(eq(dbl, pleat_device_table_fraction(1), 0.25));
    expect_ok(pleat_device_table_set_fraction(0, 0.5));
    cr_expect(eq(u64, options_in_force(0).limit_bytes, DEVICE_BYTES / 2));
    expect_ok(pleat_device_table_set_fraction(0, 1.0));
    cr_expect(eq(u64, options_in_force(0).limit_bytes, PLEAT_NO_LIMIT));
    expect_ok(pleat_device_table_set_fraction(0, 0.0));
    cr_expect(eq(u64, options_in_force(0).limit_bytes, 0));
    static const double wrong[] = {-0.1, 1.1, __builtin_nan("")};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        expect_error(pleat_device_table_set_fraction(1, wrong[i]), PLEAT_ERR_INVALID,
                     "allowed is 0 to 1");
    }
    cr_expect(eq(dbl, pleat_device_table_fraction(1), 0.25));
}

/* ---- child processes ---- */

/* Run `body` in a child; what it returns must be 0. */
static void in_child(int (*body)(void))
{
    (void)fflush(NULL);
    const pid_t child = fork();
    cr_assert(ge(int, child, 0));
    if (child == 0) {
        _exit(body());
    }
    int state = 0;
    cr_assert(eq(int, waitpid(child, &state, 0), child));
    cr_assert(eq(int, WIFEXITED(state), 1));
    cr_expect(eq(int, WEXITSTATUS(state), 0), "step %d of the child", WEXITSTATUS(state));
}

static int child_of_user(void)
{
    pleat_allocator_t *allocator = NULL;
    if (pleat_device_table_find(0) != NULL || pleat_device_table_vmm(0) != NULL) {
        return 1;
    }
    if (pleat_device_table_get(0, &allocator) != PLEAT_ERR_UNSUPPORTED) {
        return 2;
    }
    if (strstr(pleat_last_error(), "spawn") == NULL) {
        return 3;
    }
    pleat_device_table_close();
    return pleat_device_table_get(0, &allocator) == PLEAT_ERR_UNSUPPORTED ? 0 : 4;
}

static int child_of_nobody(void)
{
    pleat_allocator_t *allocator = NULL;
    return pleat_device_table_get(0, &allocator) == PLEAT_OK ? 0 : 1;
}

Test(device_table, a_child_of_a_process_that_used_it_is_told_so, .timeout = 20)
{
    no_variables();
    expect_ok(configure(NULL));
    in_child(child_of_nobody);
    use(get(0));
    in_child(child_of_user);
    use(get(0)); /* the parent goes on */
}
