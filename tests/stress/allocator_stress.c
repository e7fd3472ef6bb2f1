/*
 * allocator_stress: threads on one allocator, each with allocations of its own and some that it
 * frees for others. Every unit of memory has an owner: two live allocations that overlap are found
 * by whoever comes second. Now and then a thread has its requests go to a private pool of its own,
 * which it leaves with memory in use, or changes the mode for all. With `apart` the lock is given
 * up while the device allocates, as often as not, and the mode is mostly the one that does so. At
 * the end the counters must be those of an idle allocator and nothing may be left on the device.
 * Clean under the thread sanitizer.
 *
 * Usage: allocator_stress [THREADS [CALLS [apart]]]: 2 to 8 threads, calls of each. Returns 0 or 1.
 */
#include <pleat/private_pool.h>

#include "apart_device.h"
#include "fixture.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    THREADS_MAX = 8,
    SLOTS = 64,         /* allocations of a thread */
    SHARED_SLOTS = 128, /* allocations that anybody may free */
    STREAMS = 4
};

#define UNIT_BYTES UINT64_C(512)
#define CAPACITY_BYTES (UINT64_C(1) << 27)
#define OWNER_COUNT ((UINT64_C(1) << 36) / UNIT_BYTES) /* more addresses than the device uses */

typedef struct allocation {
    pleat_devptr_t ptr;
    uint64_t bytes;
} allocation_t;

typedef struct stress {
    fixture_t fixture;
    uint64_t calls;
    bool is_apart;
    _Atomic(allocation_t *) shared[SHARED_SLOTS];
    atomic_uchar *owners;      /* one a unit, by address modulo the table: 0 or a thread */
    atomic_uint failure_count; /* out of memory, which is no error here */
} stress_t;

typedef struct worker {
    stress_t *stress;
    pthread_t thread;
    pthread_t self;       /* the same, for the thread itself */
    unsigned char number; /* from 1 */
    fixture_random_t random;
    allocation_t *slots[SLOTS];
    pleat_pool_id_t pool; /* of its open redirection; (0, 0): none */
    uint64_t pool_count;
} worker_t;

/* Give every unit a new owner; each must have had @p from. */
static void change_owner(const worker_t *worker, const allocation_t *allocation, bool is_taken)
{
    atomic_uchar *owners = worker->stress->owners;
    const uint64_t first = allocation->ptr / UNIT_BYTES;
    const uint64_t end = (allocation->ptr + allocation->bytes + UNIT_BYTES - 1) / UNIT_BYTES;
    for (uint64_t unit = first; unit < end; unit++) {
        const unsigned char before =
            atomic_exchange(&owners[unit % OWNER_COUNT], is_taken ? worker->number : 0);
        FIXTURE_REQUIRE((before == 0) == is_taken, "0x%llx belongs to thread %u as well",
                        (unsigned long long)(unit * UNIT_BYTES), before);
    }
}

static uint64_t pick_bytes(worker_t *worker)
{
    const uint64_t top =
        fixture_random_below(&worker->random, 8) == 0 ? PLEAT_MIB * 24 : PLEAT_KIB * 64;
    return 1 + (fixture_random_below(&worker->random, top) >>
                fixture_random_below(&worker->random, 10));
}

static allocation_t *make_allocation(worker_t *worker)
{
    const uint64_t bytes = pick_bytes(worker);
    const pleat_stream_t stream = fixture_random_below(&worker->random, STREAMS);
    pleat_devptr_t ptr = 0;
    const pleat_status_t status =
        pleat_alloc(worker->stress->fixture.allocator, bytes, stream, &ptr);
    if (status == PLEAT_ERR_OOM_DEVICE) {
        atomic_fetch_add(&worker->stress->failure_count, 1);
        FIXTURE_REQUIRE(strstr(pleat_last_error(), "out of device memory") != NULL, "%s",
                        pleat_last_error());
        return NULL;
    }
    FIXTURE_REQUIRE(status == PLEAT_OK, "%s", pleat_last_error());
    allocation_t *allocation = malloc(sizeof(*allocation));
    FIXTURE_REQUIRE(allocation != NULL, "no host memory");
    *allocation = (allocation_t){.ptr = ptr, .bytes = bytes};
    change_owner(worker, allocation, true);
    return allocation;
}

static void drop_allocation(worker_t *worker, allocation_t *allocation)
{
    if (allocation == NULL) {
        return;
    }
    change_owner(worker, allocation, false);
    fixture_free(&worker->stress->fixture, allocation->ptr);
    free(allocation);
}

static bool is_thread_of(void *context, pleat_stream_t stream)
{
    const worker_t *worker = context;
    (void)stream;
    return pthread_equal(worker->self, pthread_self()) != 0;
}

/* Begin a redirection of this thread's requests, or end it and leave the pool. */
static void change_pool(worker_t *worker)
{
    pleat_allocator_t *allocator = worker->stress->fixture.allocator;
    if (worker->pool.second == 0) {
        worker->pool = (pleat_pool_id_t){worker->number, ++worker->pool_count};
        FIXTURE_REQUIRE(pleat_pool_begin(allocator, worker->pool, is_thread_of, worker) == PLEAT_OK,
                        "%s", pleat_last_error());
        return;
    }
    FIXTURE_REQUIRE(pleat_pool_is_redirecting(allocator), "a redirection is open");
    FIXTURE_REQUIRE(pleat_pool_end(allocator, worker->pool) == PLEAT_OK &&
                        pleat_pool_release(allocator, worker->pool) == PLEAT_OK &&
                        pleat_pool_empty(allocator, worker->pool) == PLEAT_OK,
                    "%s", pleat_last_error());
    worker->pool = (pleat_pool_id_t){0, 0};
}

/* What only asks or happens rarely. */
static void do_rare(worker_t *worker)
{
    const fixture_t *f = &worker->stress->fixture;
    switch (fixture_random_below(&worker->random, 8)) {
    case 0:
        fixture_empty(f);
        break;
    case 1:
        fixture_check(f);
        break;
    case 2:
        pleat_reset_peak_stats(f->allocator);
        break;
    case 3: {
        pleat_snapshot_t *snapshot = NULL;
        FIXTURE_REQUIRE(pleat_snapshot_take(f->allocator, &snapshot) == PLEAT_OK, "snapshot");
        pleat_snapshot_destroy(snapshot);
        break;
    }
    case 4: {
        pleat_options_t options = PLEAT_OPTIONS_INIT;
        options.limit_bytes =
            fixture_random_below(&worker->random, 2) == 0 ? PLEAT_NO_LIMIT : CAPACITY_BYTES / 2;
        options.mode = (pleat_mode_t)fixture_random_below(&worker->random, PLEAT_MODE_COUNT);
        if (worker->stress->is_apart) {
            options.release_lock_on_alloc = fixture_random_below(&worker->random, 4) != 0;
            if (fixture_random_below(&worker->random, 8) != 0) {
                options.mode = PLEAT_MODE_CLASSIC;
            }
        }
        fixture_set_options(f, &options);
        break;
    }
    case 5: {
        pleat_oom_info_t info = PLEAT_OOM_INFO_INIT;
        pleat_read_last_oom(f->allocator, &info);
        break;
    }
    case 6:
        change_pool(worker);
        break;
    default: {
        const pleat_stats_t stats = fixture_stats(f);
        FIXTURE_REQUIRE(stats.reserved_bytes[0].current <= (int64_t)CAPACITY_BYTES, "reserved");
        FIXTURE_REQUIRE(stats.allocated_bytes[0].current <= stats.reserved_bytes[0].current,
                        "allocated");
        break;
    }
    }
}

static void *work(void *argument)
{
    worker_t *worker = argument;
    stress_t *stress = worker->stress;
    worker->self = pthread_self();
    for (uint64_t call = 0; call < stress->calls; call++) {
        allocation_t **slot = &worker->slots[fixture_random_below(&worker->random, SLOTS)];
        const uint64_t kind = fixture_random_below(&worker->random, 100);
        if (kind < 2) {
            do_rare(worker);
        } else if (kind < 20 && *slot != NULL) {
            fixture_record(&stress->fixture, (*slot)->ptr,
                           fixture_random_below(&worker->random, STREAMS));
        } else if (kind < 40) {
            /* Hand one over, and free what another thread left there. */
            const uint64_t shared = fixture_random_below(&worker->random, SHARED_SLOTS);
            *slot = atomic_exchange(&stress->shared[shared], *slot);
            drop_allocation(worker, *slot);
            *slot = NULL;
        } else if (*slot == NULL) {
            *slot = make_allocation(worker);
        } else {
            drop_allocation(worker, *slot);
            *slot = NULL;
        }
    }
    for (unsigned i = 0; i < SLOTS; i++) {
        drop_allocation(worker, worker->slots[i]);
    }
    if (worker->pool.second != 0) {
        change_pool(worker);
    }
    return NULL;
}

/* Two streams have work that ends as the device's clock goes on. */
static void launch_work(const fixture_t *fixture)
{
    for (pleat_stream_t stream = 1; stream <= 2; stream++) {
        const uint64_t nanoseconds = UINT64_C(20000000) * stream;
        FIXTURE_REQUIRE(pleat_sim_launch(fixture->sim, stream, nanoseconds) == PLEAT_OK, "launch");
    }
}

static void run_threads(stress_t *stress, unsigned thread_count)
{
    static worker_t workers[THREADS_MAX];
    for (unsigned i = 0; i < thread_count; i++) {
        workers[i].stress = stress;
        workers[i].number = (unsigned char)(i + 1);
        workers[i].random.state = i + 1;
        FIXTURE_REQUIRE(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0,
                        "pthread_create");
    }
    for (unsigned i = 0; i < thread_count; i++) {
        FIXTURE_REQUIRE(pthread_join(workers[i].thread, NULL) == 0, "pthread_join");
    }
    for (unsigned i = 0; i < SHARED_SLOTS; i++) {
        drop_allocation(&workers[0], atomic_exchange(&stress->shared[i], NULL));
    }
}

int main(int argc, char **argv)
{
    static stress_t stress;
    const unsigned long thread_count = argc > 1 ? strtoul(argv[1], NULL, 10) : 4;
    stress.calls = argc > 2 ? strtoull(argv[2], NULL, 10) : 20000;
    stress.is_apart = argc > 3 && strcmp(argv[3], "apart") == 0;
    if (thread_count < 2 || thread_count > THREADS_MAX || stress.calls == 0 ||
        (argc > 3 && !stress.is_apart)) {
        fprintf(stderr, "usage: %s [THREADS [CALLS [apart]]]: 2 to %d threads\n", argv[0],
                THREADS_MAX);
        return 1;
    }
    pleat_options_t options = PLEAT_OPTIONS_INIT;
    options.release_lock_on_alloc = stress.is_apart;
    stress.fixture = fixture_create(&(fixture_options_t){
        .capacity_bytes = CAPACITY_BYTES, .options = &options, .allocates_apart = stress.is_apart});
    stress.owners = calloc(OWNER_COUNT, sizeof(*stress.owners));
    FIXTURE_REQUIRE(stress.owners != NULL, "no host memory");
    launch_work(&stress.fixture);
    run_threads(&stress, (unsigned)thread_count);
    fixture_empty(&stress.fixture);
    const pleat_stats_t stats = fixture_stats(&stress.fixture);
    FIXTURE_REQUIRE(stats.allocation[0].current == 0 && stats.active[0].current == 0 &&
                        stats.reserved_bytes[0].current == 0,
                    "an idle allocator holds something");
    if (stress.is_apart) {
        printf("%" PRIu64 " segments apart, %" PRIu64 " at once; ",
               apart_device_count(stress.fixture.vmm), apart_device_most(stress.fixture.vmm));
    }
    fixture_check_and_destroy(&stress.fixture);
    free(stress.owners);
    printf("%lu threads, %" PRIu64 " calls each, %u out of memory\n", thread_count, stress.calls,
           atomic_load(&stress.failure_count));
    return 0;
}
