/*
 * plugin_stress: threads that use the plug-in for PyTorch, and the table of devices under it, over
 * the simulated driver: they allocate, record streams, redirect to private pools while streams are
 * captured, set limits, change the configuration and empty the caches, all at once from the first
 * use on. At the end nothing may be left. Clean under the thread sanitizer.
 *
 * Usage: plugin_stress [THREADS [CALLS]]: 2 to 8 threads, calls of each. Returns 0 or 1.
 */
#include "compat/torch/plugin.h"
#include "fake_control.h"
#include "fixture.h"

#include <inttypes.h>
#include <pleat/device_table.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS_MAX = 8, SLOTS = 16, DEVICES = 2, STREAMS = 3 };

typedef struct slot {
    void *ptr;
    size_t bytes;
    int device;
    void *stream;
} slot_t;

typedef struct worker {
    pthread_t thread;
    uint64_t calls;
    unsigned number; /* from 1; its private pool, too */
    int open_device; /* of its redirection; -1: none */
    fixture_random_t random;
    slot_t slots[SLOTS];
} worker_t;

static void *stream_of(uint64_t number)
{
    return (void *)(uintptr_t)number;
}

static void worker_toggle(worker_t *worker)
{
    slot_t *slot = &worker->slots[fixture_random_below(&worker->random, SLOTS)];
    if (slot->ptr != NULL) {
        /* Nobody else may have written here. */
        FIXTURE_REQUIRE(*(unsigned *)slot->ptr == worker->number, "memory of thread %u is shared",
                        worker->number);
        pleat_torch_free(slot->ptr, slot->bytes, slot->device, slot->stream);
        slot->ptr = NULL;
        return;
    }
    slot->bytes = (size_t)(1 + fixture_random_below(&worker->random, 2 * PLEAT_MIB));
    slot->device = (int)fixture_random_below(&worker->random, DEVICES);
    slot->stream = stream_of(fixture_random_below(&worker->random, STREAMS));
    slot->ptr = pleat_torch_malloc(slot->bytes, slot->device, slot->stream);
    if (slot->ptr != NULL) {
        *(unsigned *)slot->ptr = worker->number;
    }
}

static void worker_redirect(worker_t *worker)
{
    if (worker->open_device >= 0) {
        pleat_torch_end_allocate_to_pool(worker->open_device, worker->number, 0);
        pleat_torch_release_pool(worker->open_device, worker->number, 0);
        worker->open_device = -1;
        return;
    }
    worker->open_device = (int)fixture_random_below(&worker->random, DEVICES);
    /* A pool that was released cannot be used again before its memory is gone. */
    worker->number += THREADS_MAX;
    for (size_t i = 0; i < SLOTS; i++) {
        if (worker->slots[i].ptr != NULL) {
            *(unsigned *)worker->slots[i].ptr = worker->number;
        }
    }
    pleat_torch_begin_allocate_to_pool(worker->open_device, worker->number, 0, NULL);
}

static void worker_rest(worker_t *worker)
{
    static const char *const texts[] = {"max_split_size_mb:40", "roundup_power2_divisions:4"};
    const int device = (int)fixture_random_below(&worker->random, DEVICES);
    const slot_t *slot = &worker->slots[fixture_random_below(&worker->random, SLOTS)];
    pleat_status_t status = PLEAT_OK;
    switch (fixture_random_below(&worker->random, 5)) {
    case 0:
        pleat_torch_memory_fraction(device == 0 ? 1.0 : 0.5, device);
        break;
    case 1:
        status = pleat_device_table_reconfigure(PLEAT_CONF_STRICT, texts[device], NULL);
        FIXTURE_REQUIRE(status == PLEAT_OK, "%s", pleat_last_error());
        break;
    case 2:
        pleat_torch_reset();
        break;
    case 3:
        FIXTURE_REQUIRE(pleat_torch_stats_json(device, NULL, 0) > 1000, "no statistics");
        break;
    default:
        pleat_torch_record_stream(slot->ptr, stream_of(fixture_random_below(&worker->random, 9)));
        break;
    }
}

static void *worker_run(void *context)
{
    worker_t *worker = context;
    for (uint64_t call = 0; call < worker->calls; call++) {
        const uint64_t kind = fixture_random_below(&worker->random, 32);
        if (kind == 0) {
            worker_redirect(worker);
        } else if (kind <= 3) {
            worker_rest(worker);
        } else {
            worker_toggle(worker);
        }
    }
    for (size_t i = 0; i < SLOTS; i++) {
        slot_t *slot = &worker->slots[i];
        if (slot->ptr != NULL) {
            pleat_torch_free(slot->ptr, slot->bytes, slot->device, slot->stream);
        }
    }
    if (worker->open_device >= 0) {
        worker_redirect(worker);
    }
    return NULL;
}

static void check_end(void)
{
    for (int device = 0; device < DEVICES; device++) {
        pleat_allocator_t *allocator = pleat_device_table_find(device);
        FIXTURE_REQUIRE(allocator != NULL, "device %d was never used", device);
        void *ptr = pleat_torch_malloc(512, device, NULL); /* after which no free is put off */
        pleat_torch_free(ptr, 512, device, NULL);
        pleat_torch_reset();
        pleat_stats_t stats = PLEAT_STATS_INIT;
        pleat_read_stats(allocator, &stats);
        FIXTURE_REQUIRE(pleat_allocator_check(allocator) == PLEAT_OK, "%s", pleat_last_error());
        FIXTURE_REQUIRE(stats.allocated_bytes[PLEAT_STAT_ALL].current == 0, "something is live");
        FIXTURE_REQUIRE(stats.reserved_bytes[PLEAT_STAT_ALL].current == 0,
                        "%" PRId64 " bytes are left on device %d",
                        stats.reserved_bytes[PLEAT_STAT_ALL].current, device);
    }
    pleat_device_table_close();
    FIXTURE_REQUIRE(fake_contexts() == 0, "a device is left open");
}

int main(int argc, char **argv)
{
    static worker_t workers[THREADS_MAX];
    const size_t count = argc > 1 ? (size_t)strtoull(argv[1], NULL, 10) : 4;
    const uint64_t calls = argc > 2 ? strtoull(argv[2], NULL, 10) : 20000;
    FIXTURE_REQUIRE(count >= 2 && count <= THREADS_MAX, "2 to 8 threads");
    fake_set("devices", DEVICES);
    fake_set("captured_stream", 1);
    fake_set("capture_id", 1001);
    FIXTURE_REQUIRE(pleat_torch_configure("", TEST_LIBRARY) == 0, "%s", pleat_last_error());
    for (size_t i = 0; i < count; i++) {
        workers[i].number = (unsigned)i + 1;
        workers[i].calls = calls;
        workers[i].open_device = -1;
        workers[i].random.state = i + 1;
        FIXTURE_REQUIRE(pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]) == 0,
                        "no thread");
    }
    for (size_t i = 0; i < count; i++) {
        FIXTURE_REQUIRE(pthread_join(workers[i].thread, NULL) == 0, "a thread is lost");
    }
    fake_set("captured_stream", 0);
    check_end();
    (void)printf("%zu threads, %" PRIu64 " calls each: pass\n", count, calls);
    return 0;
}
