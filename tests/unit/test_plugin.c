/*
 * Tests of the plug-in for PyTorch over the simulated driver, called as PyTorch calls it.
 */
#include "compat/torch/plugin.h"

#include "fake_control.h"

#include "vmm/base.h"

#include <pleat/device_table.h>
#include <pleat/private_pool.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#define MALLOC_BYTES ((size_t)(3 * PLEAT_MIB))

static FILE *told; /* what goes to standard error after begin() */

/* Start anew with a configuration text, standard error kept in a file. */
static void begin(const char *conf)
{
    told = tmpfile();
    cr_assert(ne(ptr, told, NULL));
    (void)fflush(stderr);
    cr_assert(ge(int, dup2(fileno(told), STDERR_FILENO), 0));
    cr_assert(eq(int, pleat_torch_configure(conf, TEST_LIBRARY), PLEAT_OK), "%s",
              pleat_last_error());
}

/* How often a text was told. */
static int times_told(const char *part)
{
    static char text[1 << 16];
    (void)fflush(stderr);
    rewind(told);
    text[fread(text, 1, sizeof text - 1, told)] = '\0';
    int times = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at++) {
        times++;
    }
    return times;
}

static void *stream(uintptr_t number)
{
    return (void *)number;
}

static pleat_stats_t stats(int device)
{
    pleat_stats_t result = PLEAT_STATS_INIT;
    pleat_read_stats(pleat_device_table_find(device), &result);
    return result;
}

Test(plugin, memory_goes_round_in_a_cache, .timeout = 20)
{
    begin("");
    fake_set("devices", 2);
    pleat_torch_init(2);
    void *first = pleat_torch_malloc(MALLOC_BYTES, 0, stream(1));
    void *other = pleat_torch_malloc(MALLOC_BYTES, 1, NULL);
    cr_assert(ne(ptr, first, NULL));
    cr_assert(ne(ptr, other, NULL));
    memset(first, 7, MALLOC_BYTES);
    pleat_torch_free(first, MALLOC_BYTES, 0, stream(1));
    cr_expect(eq(ptr, pleat_torch_malloc(MALLOC_BYTES, 0, stream(1)), first));
    cr_expect(eq(i64, stats(0).allocated_bytes[PLEAT_STAT_ALL].current, 3 * PLEAT_MIB));
    pleat_torch_free(first, MALLOC_BYTES, 0, stream(1));
    pleat_torch_free(other, MALLOC_BYTES, 1, NULL);
    pleat_torch_reset();
    cr_expect(eq(i64, stats(0).reserved_bytes[PLEAT_STAT_ALL].current, 0));
    cr_expect(eq(i64, stats(1).reserved_bytes[PLEAT_STAT_ALL].current, 0));
    cr_expect(eq(int, times_told("pleat"), 0));
}

Test(plugin, a_tensor_without_elements_has_no_memory, .timeout = 20)
{
    begin("");
    cr_expect(eq(ptr, pleat_torch_malloc(0, 0, NULL), NULL));
    pleat_torch_free(NULL, 0, 0, NULL);
    cr_expect(eq(int, times_told("pleat"), 0));
}

Test(plugin, a_recorded_stream_keeps_memory_until_its_work_is_done, .timeout = 20)
{
    begin("");
    fake_set("devices", 2);
    (void)pleat_torch_malloc(512, 0, NULL); /* so that the first device is asked in vain */
    void *ptr = pleat_torch_malloc(MALLOC_BYTES, 1, NULL);
    pleat_torch_record_stream(ptr, stream(9));
    pleat_torch_free(ptr, MALLOC_BYTES, 1, NULL);
    cr_expect(eq(i64, stats(1).active_bytes[PLEAT_STAT_ALL].current, 3 * PLEAT_MIB));
    pleat_torch_reset();
    cr_expect(eq(i64, stats(1).active_bytes[PLEAT_STAT_ALL].current, 0));
    int foreign = 0;
    pleat_torch_record_stream(&foreign, stream(9)); /* memory of somebody else's */
    pleat_torch_record_stream(NULL, stream(9));
    cr_expect(eq(int, times_told("pleat"), 0));
    ptr = pleat_torch_malloc(MALLOC_BYTES, 1, NULL);
    pleat_torch_record_stream(ptr, stream(10)); /* with the event of before */
    fake_fail("cuEventCreate", 1, 719);
    pleat_torch_record_stream(ptr, stream(11));
    cr_expect(eq(int, times_told("a stream could not be recorded"), 1));
}

Test(plugin, out_of_memory_is_told_once_in_known_words, .timeout = 20)
{
    begin("");
    cr_expect(eq(dbl, pleat_torch_fraction(0), 1.0));
    pleat_torch_memory_fraction(0.5, 0);
    for (int i = 0; i < 3; i++) {
        cr_expect(eq(ptr, pleat_torch_malloc((size_t)3 << 30, 0, NULL), NULL));
    }
    cr_expect(
        eq(int, times_told("OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB"), 1));
    cr_expect(eq(int, times_told("no exception"), 1));
    cr_expect(ne(ptr, pleat_torch_malloc(MALLOC_BYTES, 0, NULL), NULL));
    cr_expect(eq(dbl, pleat_torch_fraction(0), 0.5));
    cr_expect(eq(i64, stats(0).num_ooms, 3));
}

Test(plugin, every_other_failure_is_told_once, .timeout = 20)
{
    begin("");
    for (int i = 0; i < 2; i++) {
        cr_expect(eq(ptr, pleat_torch_malloc(512, 5, NULL), NULL));
        pleat_torch_memory_fraction(2.0, 0);
    }
    cr_expect(eq(int, times_told("no GPU 5"), 1));
    cr_expect(eq(int, times_told("memory fraction 2"), 1));
    void *ptr = pleat_torch_malloc(512, 0, NULL);
    pleat_torch_free((char *)ptr + 512, 512, 0, NULL);
    pleat_torch_free((char *)ptr + 512, 512, 0, NULL);
    cr_expect(eq(int, times_told("memory could not be freed: invalid device pointer"), 1));
    pleat_torch_free(ptr, 512, 0, NULL);
    fake_fail("cuMemFree_v2", 1, 719);
    pleat_torch_reset();
    cr_expect(eq(int, times_told("a cache could not be emptied"), 1));
    cr_expect(eq(int, times_told("pleat: "), 4));
}

Test(plugin, a_wrong_environment_is_told_at_the_start, .timeout = 20)
{
    begin("");
    pleat_device_table_close();
    cr_assert(eq(int, setenv("PLEAT_ALLOC_CONF", "max_splitsize_mb:20", 1), 0));
    pleat_torch_init(1);
    cr_expect(eq(int, times_told("PLEAT_ALLOC_CONF, column 1"), 1));
    cr_expect(eq(int, times_told("max_split_size_mb"), 1));
    cr_expect(eq(ptr, pleat_torch_malloc(512, 0, NULL), NULL));
    cr_expect(eq(int, pleat_torch_configure(NULL, TEST_LIBRARY), PLEAT_ERR_INVALID));
    cr_expect(ne(ptr, strstr(pleat_torch_last_error(), "max_split_size_mb"), NULL));
    cr_expect(eq(int, pleat_torch_configure("max_split_size_mb:20", TEST_LIBRARY), PLEAT_OK));
    cr_expect(ne(ptr, pleat_torch_malloc(512, 0, NULL), NULL));
}

Test(plugin, a_forked_child_leaves_memory_alone, .timeout = 20)
{
    begin("");
    void *ptr = pleat_torch_malloc(512, 0, NULL);
    const pid_t child = fork();
    if (child == 0) {
        pleat_torch_free(ptr, 512, 0, NULL);
        pleat_torch_record_stream(ptr, stream(1));
        pleat_torch_reset();
        _exit(pleat_torch_malloc(512, 0, NULL) == NULL ? 0 : 1);
    }
    int state = 0;
    cr_assert(eq(int, waitpid(child, &state, 0), child));
    cr_expect(eq(int, state, 0));
    cr_expect(eq(int, times_told("pleat: "), 1));
    cr_expect(eq(int, times_told("'spawn'"), 1));
    pleat_torch_free(ptr, 512, 0, NULL);
}

Test(plugin, the_segment_around_memory_is_found, .timeout = 20)
{
    begin("");
    fake_set("devices", 2);
    void *other = pleat_torch_malloc(512, 0, NULL);
    void *first = pleat_torch_malloc(MALLOC_BYTES, 1, NULL);
    void *second = pleat_torch_malloc(MALLOC_BYTES, 1, NULL);
    size_t size = 7;
    cr_expect(eq(ptr, pleat_torch_base_alloc(second, &size), first));
    cr_expect(eq(sz, size, 20 << 20));
    cr_expect(eq(ptr, pleat_torch_base_alloc(other, &size), other));
    cr_expect(eq(sz, size, 2 << 20));
    cr_expect(eq(ptr, pleat_torch_base_alloc(second, NULL), first));
    int foreign = 0;
    cr_expect(eq(ptr, pleat_torch_base_alloc(&foreign, &size), &foreign));
    cr_expect(eq(sz, size, 2 << 20));
    cr_expect(eq(int, times_told("pleat"), 0));
}

/* ---- private pools ---- */

static void begin_pool(unsigned long long number)
{
    pleat_torch_begin_allocate_to_pool(0, number, 0, NULL);
}

static void end_pool(unsigned long long number)
{
    pleat_torch_end_allocate_to_pool(0, number, 0);
}

/* Does a request on a stream go to a private pool? Told by an address that only the pool gives. */
static bool goes_to(const void *home, uintptr_t stream_number)
{
    void *got = pleat_torch_malloc(MALLOC_BYTES, 0, stream(stream_number));
    pleat_torch_free(got, MALLOC_BYTES, 0, stream(stream_number));
    return got == home;
}

/* A free block for a stream in a pool, made while nothing is captured. */
static const void *home_in_pool(unsigned long long number, uintptr_t stream_number)
{
    begin_pool(number);
    void *home = pleat_torch_malloc(MALLOC_BYTES, 0, stream(stream_number));
    pleat_torch_free(home, MALLOC_BYTES, 0, stream(stream_number));
    end_pool(number);
    cr_assert(ne(ptr, home, NULL));
    cr_assert(not(goes_to(home, stream_number)));
    return home;
}

static void capture(uint64_t stream_number, uint64_t id)
{
    fake_set("capture_id", id);
    fake_set("captured_stream", stream_number);
}

/* What goes_to says in another thread. */
typedef struct question {
    const void *home;
    uintptr_t stream_number;
    bool answer;
} question_t;

static void *ask(void *context)
{
    question_t *question = context;
    question->answer = goes_to(question->home, question->stream_number);
    return NULL;
}

static void *begin_elsewhere(void *number)
{
    begin_pool(*(unsigned long long *)number);
    return NULL;
}

static void begin_pool_elsewhere(unsigned long long number)
{
    pthread_t thread;
    cr_assert(eq(int, pthread_create(&thread, NULL, begin_elsewhere, &number), 0));
    cr_assert(eq(int, pthread_join(thread, NULL), 0));
}

static bool goes_to_elsewhere(question_t question)
{
    pthread_t thread;
    cr_assert(eq(int, pthread_create(&thread, NULL, ask, &question), 0));
    cr_assert(eq(int, pthread_join(thread, NULL), 0));
    return question.answer;
}

Test(plugin, without_a_capture_a_redirection_is_that_of_its_thread, .timeout = 20)
{
    begin("");
    const void *home = home_in_pool(7, 77);
    begin_pool(7);
    cr_expect(goes_to(home, 77));
    cr_expect(not(goes_to_elsewhere((question_t){.home = home, .stream_number = 77})));
    end_pool(7);
    cr_expect(not(goes_to(home, 77)));
    cr_expect(eq(int, times_told("pleat"), 0));
}

Test(plugin, during_a_capture_its_streams_go_to_the_pool, .timeout = 20)
{
    begin("");
    const void *home = home_in_pool(7, 77);
    const void *other_home = home_in_pool(7, 78);
    const void *default_home = home_in_pool(7, 0);
    begin_pool(7);
    capture(77, 1001);
    cr_expect(not(goes_to(default_home, 0))); /* the legacy stream cannot be captured */
    cr_expect(goes_to(home, 77));
    cr_expect(goes_to_elsewhere((question_t){.home = home, .stream_number = 77}));
    cr_expect(not(goes_to(other_home, 78)));
    capture(77, 1002);
    cr_expect(not(goes_to(home, 77))); /* another capture */
    capture(0, 0);
    cr_expect(not(goes_to(home, 77))); /* the capture is over, the redirection has had its own */
    end_pool(7);
    cr_expect(not(goes_to(home, 77)));
    cr_expect(eq(int, times_told("pleat"), 0));
}

Test(plugin, a_capture_grows_memory_and_frees_it_later, .timeout = 20)
{
    begin("");
    begin_pool(7);
    capture(77, 1001);
    void *ptr = pleat_torch_malloc(MALLOC_BYTES, 0, stream(77)); /* from the device */
    cr_assert(ne(ptr, ptr, NULL));
    pleat_torch_record_stream(ptr, stream(78));
    pleat_torch_free(ptr, MALLOC_BYTES, 0, stream(77)); /* looks at no event */
    cr_expect(eq(i64, stats(0).active_bytes[PLEAT_STAT_ALL].current, 3 * PLEAT_MIB));
    capture(0, 0);
    end_pool(7);
    void *plain = pleat_torch_malloc(512, 0, NULL);
    cr_expect(eq(i64, stats(0).active_bytes[PLEAT_STAT_ALL].current, 512));
    pleat_torch_free(plain, 512, 0, NULL);
    pleat_torch_release_pool(0, 7, 0);
    pleat_torch_reset();
    cr_expect(eq(i64, stats(0).reserved_bytes[PLEAT_STAT_ALL].current, 0));
    cr_expect(eq(int, times_told("pleat"), 0));
}

Test(plugin, two_captures_at_once_go_to_two_pools, .timeout = 20)
{
    begin("");
    const void *homes[] = {home_in_pool(7, 77), home_in_pool(8, 77)};
    begin_pool(7);
    begin_pool_elsewhere(8); /* asked first, but has no right to a capture of this thread */
    capture(77, 1001);
    cr_expect(goes_to(homes[0], 77));
    capture(77, 1002); /* pool 7 has its capture: this one is the other's, whoever asks */
    cr_expect(goes_to(homes[1], 77));
    capture(77, 1001);
    cr_expect(goes_to(homes[0], 77));
    capture(77, 1003); /* nobody's */
    cr_expect(not(goes_to(homes[0], 77)));
    cr_expect(not(goes_to(homes[1], 77)));
    end_pool(7);
    end_pool(8);
    cr_expect(eq(int, times_told("pleat"), 0));
}

Test(plugin, wrong_calls_about_pools_are_told_once, .timeout = 20)
{
    begin("");
    end_pool(7); /* nothing exists yet */
    pleat_torch_release_pool(0, 7, 0);
    cr_expect(eq(int, times_told("did not end"), 1));
    cr_expect(eq(int, times_told("was not released"), 1));
    begin_pool(7);
    begin_pool(7);
    cr_expect(eq(int, times_told("already recording to mempool_id"), 1));
    end_pool(7);
    pleat_torch_begin_allocate_to_pool(9, 7, 0, NULL);
    cr_expect(eq(int, times_told("pleat: "), 3));
    (void)home_in_pool(8, 77); /* and it works */
}

Test(plugin, more_redirections_than_slots_are_told, .timeout = 20)
{
    begin("");
    for (unsigned long long i = 1; i <= 257; i++) {
        begin_pool(i);
    }
    cr_expect(eq(int, times_told("too many redirections"), 1));
    for (unsigned long long i = 1; i <= 256; i++) {
        end_pool(i);
    }
    begin_pool(257);
    end_pool(257);
    cr_expect(eq(int, times_told("pleat: "), 1));
}

/* ---- reports ---- */

Test(plugin, statistics_are_json, .timeout = 20)
{
    static char text[1 << 14];
    static char cut[100];
    begin("");
    cr_expect(eq(sz, pleat_torch_stats_json(0, text, sizeof text), strlen(text)));
    cr_expect(eq(ptr, pleat_device_table_find(0), NULL)); /* asking makes no device */
    (void)pleat_torch_malloc(MALLOC_BYTES, 0, NULL);
    const size_t length = pleat_torch_stats_json(0, text, sizeof text);
    cr_expect(eq(sz, length, strlen(text)));
    cr_expect(eq(chr, text[0], '{'));
    cr_expect(eq(chr, text[length - 1], '}'));
    cr_expect(ne(ptr, strstr(text, "\"allocated_bytes.all.current\": 3145728, "), NULL), "%s",
              text);
    cr_expect(eq(sz, pleat_torch_stats_json(0, NULL, 0), length));
    cr_expect(eq(sz, pleat_torch_stats_json(0, cut, sizeof cut), length));
    cr_expect(eq(sz, strlen(cut), sizeof cut - 1));
    cr_expect(eq(int, strncmp(cut, text, sizeof cut - 1), 0));
}

Test(plugin, the_summary_and_resets_are_those_of_a_device, .timeout = 20)
{
    static char text[1 << 14];
    begin("");
    void *ptr = pleat_torch_malloc(MALLOC_BYTES, 0, NULL);
    pleat_torch_free(ptr, MALLOC_BYTES, 0, NULL);
    cr_expect(lt(sz, 1000, pleat_torch_summary(0, true, text, sizeof text)));
    cr_expect(ne(ptr, strstr(text, "PyTorch CUDA memory summary, device ID 0"), NULL));
    pleat_torch_reset_peak_stats(0);
    cr_expect(eq(i64, stats(0).allocated_bytes[PLEAT_STAT_ALL].peak, 0));
    cr_expect(eq(i64, stats(0).allocated_bytes[PLEAT_STAT_ALL].allocated, 3 * PLEAT_MIB));
    pleat_torch_reset_accumulated_stats(0);
    cr_expect(eq(i64, stats(0).allocated_bytes[PLEAT_STAT_ALL].allocated, 0));
    pleat_torch_reset_peak_stats(7); /* of no device */
    pleat_torch_reset_accumulated_stats(-1);
}
