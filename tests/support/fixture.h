/*
 * fixture: an allocator on a simulated device, with what most tests of the engine do to it in one
 * line. Calls that a test expects to succeed are made through it: when one fails, or when the end
 * is not clean, the program prints what and where and aborts, so that it serves Criterion tests and
 * plain programs alike.
 */
#ifndef PLEAT_TEST_FIXTURE_H
#define PLEAT_TEST_FIXTURE_H

#include <pleat/allocator.h>
#include <pleat/sim.h>

#include "vmm/base.h"

typedef struct fixture_options {
    uint64_t capacity_bytes;        /* of the device; 0: that of the sim */
    const pleat_options_t *options; /* of the allocator; NULL: the defaults */
    bool is_backed;                 /* of the device; so the next */
    bool exports_chunks;
    bool allocates_apart; /* apart_device.h */
} fixture_options_t;

typedef struct fixture {
    pleat_vmm_t *vmm;
    pleat_allocator_t *allocator;
    pleat_vmm_t *sim; /* for pleat_sim_*: the device, or what it is around */
} fixture_t;

/* Everything that can be seen of an allocator and its device, to be compared later. */
typedef struct fixture_state {
    pleat_stats_t stats;
    pleat_sim_usage_t usage;
    pleat_snapshot_t *snapshot;
} fixture_state_t;

/* Abort with a message unless @p is_good. */
#define FIXTURE_REQUIRE(is_good, ...)                      \
    do {                                                   \
        if (!(is_good)) {                                  \
            fixture_fail(__FILE__, __LINE__, __VA_ARGS__); \
        }                                                  \
    } while (0)
_Noreturn void fixture_fail(const char *file, int line, const char *format, ...) PLEAT_PRINTF(3, 4);

/* NULL for all defaults. */
fixture_t fixture_create(const fixture_options_t *options);

pleat_devptr_t fixture_alloc(const fixture_t *fixture, uint64_t bytes, pleat_stream_t stream);
void fixture_free(const fixture_t *fixture, pleat_devptr_t ptr);
void fixture_record(const fixture_t *fixture, pleat_devptr_t ptr, pleat_stream_t stream);
void fixture_empty(const fixture_t *fixture);
void fixture_set_options(const fixture_t *fixture, const pleat_options_t *options);
void fixture_set_limit(const fixture_t *fixture, uint64_t limit_bytes);
void fixture_set_busy(const fixture_t *fixture, pleat_stream_t stream);
void fixture_set_done(const fixture_t *fixture, pleat_stream_t stream);

/* The nth call of a kind from now on fails. */
void fixture_fail_call(const fixture_t *fixture, pleat_vmm_call_t call, uint64_t nth,
                       pleat_status_t status);

/* Calls of a kind that reached the device so far. */
uint64_t fixture_calls(const fixture_t *fixture, pleat_vmm_call_t call);

pleat_stats_t fixture_stats(const fixture_t *fixture);

/* What can be seen now; give it to fixture_state_drop. */
fixture_state_t fixture_state(const fixture_t *fixture);
void fixture_state_drop(fixture_state_t *state);

/* Is everything as it was when @p state was taken? Says on standard error what is not. */
bool fixture_state_is(const fixture_t *fixture, const fixture_state_t *state);

/* Name of the first counter that differs, NULL when none does. */
const char *fixture_stats_difference(const pleat_stats_t *a, const pleat_stats_t *b);

/* Every invariant of the allocator holds. */
void fixture_check(const fixture_t *fixture);

/* Every invariant holds, and nothing is left on the device after destruction. */
void fixture_check_and_destroy(fixture_t *fixture);

/* A small seeded generator (splitmix64): the same numbers everywhere. */
typedef struct fixture_random {
    uint64_t state;
} fixture_random_t;
uint64_t fixture_random_next(fixture_random_t *random);

/* A number below @p end, which is not 0. */
uint64_t fixture_random_below(fixture_random_t *random, uint64_t end);

#endif
