/*
 * history_stress: threads allocate and free with notes of their own, while one takes copies and
 * changes the settings; no reference to a token is lost or given twice, and every copy is of one
 * moment: what its segments say is in use is what its entries leave in use.
 *
 *   history_stress [THREADS [CALLS]]
 */
#include "fixture.h"

#include <pleat/history.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { BLOCKS = 16, THREADS_MAX = 64 };

typedef struct shared {
    fixture_t fixture;
    pleat_history_t *history;
    uint64_t calls;
    atomic_int running;
} shared_t;

typedef struct worker {
    shared_t *shared;
    atomic_long token; /* counts its references */
    uint64_t seed;
    pthread_t thread;
} worker_t;

static void retain(void *context, void *token)
{
    (void)context;
    atomic_fetch_add((atomic_long *)token, 1);
}

static void release(void *context, void *token)
{
    (void)context;
    FIXTURE_REQUIRE(atomic_fetch_sub((atomic_long *)token, 1) > 0, "a token is released twice");
}

static void *work(void *argument)
{
    worker_t *worker = argument;
    shared_t *shared = worker->shared;
    fixture_random_t random = {.state = worker->seed};
    pleat_devptr_t blocks[BLOCKS] = {0};
    for (uint64_t i = 0; i < shared->calls; i++) {
        const uint64_t k = fixture_random_below(&random, BLOCKS);
        pleat_history_note_t note = PLEAT_HISTORY_NOTE_INIT;
        note.context = fixture_random_below(&random, 2) == 0 ? &worker->token : NULL;
        note.user_metadata = &worker->token;
        pleat_history_set_note(shared->history, &note);
        if (blocks[k] != 0) {
            fixture_free(&shared->fixture, blocks[k]);
            blocks[k] = 0;
        } else {
            blocks[k] = fixture_alloc(&shared->fixture,
                                      1 + fixture_random_below(&random, 3 * PLEAT_MIB), 0);
        }
    }
    pleat_history_set_note(NULL, NULL);
    for (unsigned k = 0; k < BLOCKS; k++) {
        fixture_free(&shared->fixture, blocks[k]);
    }
    atomic_fetch_sub(&shared->running, 1);
    return NULL;
}

/* Entries since the beginning leave in use what the segments show. */
static void check_copy(const pleat_history_copy_t *copy)
{
    uint64_t live = 0;
    uint64_t requested_bytes = 0;
    for (uint64_t i = 0; i < copy->entry_count; i++) {
        const pleat_history_entry_t *entry = &copy->entries[i];
        live += entry->action == PLEAT_ACTION_ALLOC ? entry->bytes : 0;
        live -= entry->action == PLEAT_ACTION_FREE_COMPLETED ? entry->bytes : 0;
    }
    for (uint64_t i = 0; i < copy->snapshot->segment_count; i++) {
        requested_bytes += copy->snapshot->segments[i].requested_bytes;
    }
    FIXTURE_REQUIRE(live == requested_bytes, "entries leave %llu bytes, segments have %llu",
                    (unsigned long long)live, (unsigned long long)requested_bytes);
}

static void configure(shared_t *shared, uint64_t max_entries)
{
    pleat_history_settings_t settings = PLEAT_HISTORY_SETTINGS_INIT;
    settings.max_entries = max_entries;
    FIXTURE_REQUIRE(pleat_history_configure(shared->history, &settings) == PLEAT_OK, "settings");
}

static uint64_t watch(shared_t *shared)
{
    uint64_t copies = 0;
    while (atomic_load(&shared->running) > 0) {
        pleat_history_copy_t *copy = NULL;
        FIXTURE_REQUIRE(
            pleat_history_take(shared->history, shared->fixture.allocator, true, &copy) == PLEAT_OK,
            "a copy: %s", pleat_last_error());
        if (copy->lost_count == 0) {
            check_copy(copy);
        }
        pleat_history_copy_destroy(shared->history, copy);
        copies++;
        if (copies == 20) {
            configure(shared, 1000); /* from now on entries are overwritten */
        }
    }
    return copies;
}

int main(int argc, char **argv)
{
    static worker_t workers[THREADS_MAX];
    const pleat_history_hooks_t hooks = {
        .size = sizeof hooks, .retain = retain, .release = release};
    shared_t shared = {.fixture = fixture_create(NULL),
                       .calls = argc > 2 ? strtoull(argv[2], NULL, 10) : 100000};
    const long wanted = argc > 1 ? strtol(argv[1], NULL, 10) : 4;
    const int count = wanted < 1 || wanted > THREADS_MAX ? 4 : (int)wanted;
    FIXTURE_REQUIRE(pleat_history_create(&hooks, &shared.history) == PLEAT_OK, "a history");
    configure(&shared, UINT64_MAX);
    pleat_set_observer(shared.fixture.allocator, pleat_history_observe, shared.history);
    atomic_store(&shared.running, count);
    for (int i = 0; i < count; i++) {
        workers[i].shared = &shared;
        workers[i].seed = (uint64_t)i + 1;
        FIXTURE_REQUIRE(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0, "thread");
    }
    const uint64_t copies = watch(&shared);
    for (int i = 0; i < count; i++) {
        (void)pthread_join(workers[i].thread, NULL);
    }
    pleat_set_observer(shared.fixture.allocator, NULL, NULL);
    pleat_history_destroy(shared.history);
    for (int i = 0; i < count; i++) {
        FIXTURE_REQUIRE(atomic_load(&workers[i].token) == 0, "%ld references are left",
                        (long)atomic_load(&workers[i].token));
    }
    fixture_check_and_destroy(&shared.fixture);
    (void)printf("%d threads, %llu calls each, %llu copies: every reference is given back\n", count,
                 (unsigned long long)shared.calls, (unsigned long long)copies);
    return 0;
}
