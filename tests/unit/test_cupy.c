/*
 * Tests of cupy over the simulated driver, called as cupy.cuda.CFunctionAllocator calls it.
 */
#include "fake_control.h"

#include "vmm/base.h"

#include <pleat/cupy.h>
#include <pleat/device_table.h>
#include <pthread.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#define BYTES ((size_t)(3 * PLEAT_MIB))

static void begin(void)
{
    pleat_device_table_options_t options = PLEAT_DEVICE_TABLE_OPTIONS_INIT;
    options.conf = "";
    options.driver = TEST_LIBRARY;
    cr_assert(eq(int, pleat_device_table_configure(&options), PLEAT_OK), "%s", pleat_last_error());
}

static void *stream(uintptr_t number)
{
    return (void *)number;
}

static int64_t active_bytes(int device_id)
{
    pleat_stats_t stats = PLEAT_STATS_INIT;
    pleat_read_stats(pleat_device_table_find(device_id), &stats);
    return stats.active_bytes[PLEAT_STAT_ALL].current;
}

Test(cupy, memory_goes_round_on_its_own_stream, .timeout = 20)
{
    begin();
    void *first = pleat_cupy_malloc(NULL, BYTES, 0);
    cr_assert(ne(ptr, first, NULL));
    pleat_cupy_free(NULL, first, 0);
    pleat_cupy_set_stream(stream(7));
    void *second = pleat_cupy_malloc(NULL, BYTES, 0);
    cr_expect(ne(ptr, second, first)); /* that belongs to the default stream */
    pleat_cupy_set_stream(NULL);
    cr_expect(eq(ptr, pleat_cupy_malloc(NULL, BYTES, 0), first));
    pleat_cupy_free(NULL, second, 0);
    cr_expect(eq(i64, active_bytes(0), 3 * PLEAT_MIB));
}

static void *malloc_in_thread(void *unused)
{
    (void)unused;
    return pleat_cupy_malloc(NULL, BYTES, 0);
}

Test(cupy, each_thread_has_its_own_stream, .timeout = 20)
{
    begin();
    void *first = pleat_cupy_malloc(NULL, BYTES, 0);
    pleat_cupy_free(NULL, first, 0);
    pleat_cupy_set_stream(stream(7));
    pthread_t thread;
    void *got = NULL;
    cr_assert(eq(int, pthread_create(&thread, NULL, malloc_in_thread, NULL), 0));
    cr_assert(eq(int, pthread_join(thread, &got), 0));
    cr_expect(eq(ptr, got, first));
}

Test(cupy, a_recorded_stream_holds_memory_back, .timeout = 20)
{
    begin();
    void *ptr = pleat_cupy_malloc(NULL, BYTES, 0);
    cr_expect(eq(int, pleat_cupy_record_stream(ptr, 0, stream(9)), PLEAT_OK));
    pleat_cupy_free(NULL, ptr, 0);
    cr_expect(eq(i64, active_bytes(0), 3 * PLEAT_MIB));
    cr_expect(eq(int, pleat_device_table_empty_cache(), PLEAT_OK));
    cr_expect(eq(i64, active_bytes(0), 0));
}

Test(cupy, failures_give_nothing_and_say_why, .timeout = 20)
{
    begin();
    int foreign = 0;
    cr_expect(eq(int, pleat_cupy_record_stream(&foreign, 0, NULL), PLEAT_ERR_INVALID_POINTER));
    cr_expect(ne(ptr, strstr(pleat_last_error(), "device 0"), NULL));
    cr_expect(eq(ptr, pleat_cupy_malloc(NULL, 0, 0), NULL));
    cr_expect(eq(ptr, pleat_cupy_malloc(NULL, (size_t)5 << 30, 0), NULL));
    cr_expect(eq(ptr, pleat_cupy_malloc(NULL, 512, 3), NULL));
    cr_expect(ne(ptr, strstr(pleat_last_error(), "no GPU 3"), NULL));
    cr_expect(eq(int, pleat_cupy_record_stream(&foreign, 0, NULL), PLEAT_ERR_INVALID_POINTER));
    pleat_cupy_free(NULL, &foreign, 0); /* neither of these does any harm */
    pleat_cupy_free(NULL, NULL, 0);
    pleat_cupy_free(NULL, &foreign, 9);
    cr_expect(eq(i64, active_bytes(0), 0));
}
