/*
 * fixture: an allocator on a simulated device.
 */
#include "fixture.h"

#include "apart_device.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void fixture_fail(const char *file, int line, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s:%d: ", file, line);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    abort();
}

/* A call that must succeed. */
#define FIXTURE_CALL(call)                                                                    \
    do {                                                                                      \
        const pleat_status_t status_ = (call);                                                \
        FIXTURE_REQUIRE(status_ == PLEAT_OK, "%s: %s: %s", #call, pleat_status_text(status_), \
                        pleat_last_error());                                                  \
    } while (0)

fixture_t fixture_create(const fixture_options_t *options)
{
    static const fixture_options_t defaults = {0};
    if (options == NULL) {
        options = &defaults;
    }
    fixture_t fixture = {0};
    pleat_sim_options_t sim_options = PLEAT_SIM_OPTIONS_INIT;
    sim_options.capacity_bytes = options->capacity_bytes;
    sim_options.is_backed = options->is_backed;
    sim_options.exports_chunks = options->exports_chunks;
    FIXTURE_CALL(pleat_sim_create(&sim_options, &fixture.sim));
    fixture.vmm = options->allocates_apart ? apart_device_create(fixture.sim) : fixture.sim;
    FIXTURE_CALL(pleat_allocator_create(options->options, fixture.vmm, &fixture.allocator));
    return fixture;
}

pleat_devptr_t fixture_alloc(const fixture_t *fixture, uint64_t bytes, pleat_stream_t stream)
{
    pleat_devptr_t ptr = 0;
    FIXTURE_CALL(pleat_alloc(fixture->allocator, bytes, stream, &ptr));
    return ptr;
}

void fixture_free(const fixture_t *fixture, pleat_devptr_t ptr)
{
    FIXTURE_CALL(pleat_free(fixture->allocator, ptr));
}

void fixture_record(const fixture_t *fixture, pleat_devptr_t ptr, pleat_stream_t stream)
{
    FIXTURE_CALL(pleat_record_stream(fixture->allocator, ptr, stream));
}

void fixture_empty(const fixture_t *fixture)
{
    FIXTURE_CALL(pleat_empty_cache(fixture->allocator));
}

void fixture_set_options(const fixture_t *fixture, const pleat_options_t *options)
{
    FIXTURE_CALL(pleat_set_options(fixture->allocator, options));
}

void fixture_set_limit(const fixture_t *fixture, uint64_t limit_bytes)
{
    pleat_options_t options = PLEAT_OPTIONS_INIT;
    pleat_read_options(fixture->allocator, &options);
    options.limit_bytes = limit_bytes;
    fixture_set_options(fixture, &options);
}

void fixture_set_busy(const fixture_t *fixture, pleat_stream_t stream)
{
    FIXTURE_CALL(pleat_sim_set_busy(fixture->sim, stream));
}

void fixture_set_done(const fixture_t *fixture, pleat_stream_t stream)
{
    FIXTURE_CALL(pleat_sim_set_done(fixture->sim, stream));
}

void fixture_fail_call(const fixture_t *fixture, pleat_vmm_call_t call, uint64_t nth,
                       pleat_status_t status)
{
    FIXTURE_CALL(pleat_sim_fail_call(fixture->sim, call, nth, status));
}

uint64_t fixture_calls(const fixture_t *fixture, pleat_vmm_call_t call)
{
    pleat_vmm_counters_t counters = PLEAT_VMM_COUNTERS_INIT;
    pleat_vmm_read_counters(fixture->vmm, &counters);
    return counters.calls[call];
}

pleat_stats_t fixture_stats(const fixture_t *fixture)
{
    pleat_stats_t stats = PLEAT_STATS_INIT;
    pleat_read_stats(fixture->allocator, &stats);
    return stats;
}

/* ---- state ---- */

fixture_state_t fixture_state(const fixture_t *fixture)
{
    fixture_state_t state = {.stats = fixture_stats(fixture), .usage = PLEAT_SIM_USAGE_INIT};
    FIXTURE_CALL(pleat_sim_read_usage(fixture->sim, &state.usage));
    FIXTURE_CALL(pleat_snapshot_take(fixture->allocator, &state.snapshot));
    return state;
}

void fixture_state_drop(fixture_state_t *state)
{
    pleat_snapshot_destroy(state->snapshot);
    state->snapshot = NULL;
}

static bool fixture_stat_differs(const pleat_stat_t *a, const pleat_stat_t *b, size_t count)
{
    return memcmp(a, b, count * sizeof(*a)) != 0;
}

const char *fixture_stats_difference(const pleat_stats_t *a, const pleat_stats_t *b)
{
#define COMPARE_ARRAY(name, text)                                        \
    if (fixture_stat_differs(a->name, b->name, PLEAT_STAT_KIND_COUNT)) { \
        return #name;                                                    \
    }
#define COMPARE_PLAIN(name, text)                      \
    if (fixture_stat_differs(&a->name, &b->name, 1)) { \
        return #name;                                  \
    }
#define COMPARE_SCALAR(name, text) \
    if (a->name != b->name) {      \
        return #name;              \
    }
    PLEAT_ARRAY_STAT_LIST(COMPARE_ARRAY)
    PLEAT_PLAIN_STAT_LIST(COMPARE_PLAIN)
    PLEAT_SCALAR_STAT_LIST(COMPARE_SCALAR)
#undef COMPARE_ARRAY
#undef COMPARE_PLAIN
#undef COMPARE_SCALAR
    return NULL;
}

static const char *fixture_snapshot_difference(const pleat_snapshot_t *a, const pleat_snapshot_t *b)
{
    if (a->segment_count != b->segment_count || a->block_count != b->block_count) {
        return "number of segments or blocks";
    }
    for (uint64_t i = 0; i < a->segment_count; i++) {
        const pleat_segment_info_t *left = &a->segments[i];
        const pleat_segment_info_t *right = &b->segments[i];
        if (left->address != right->address || left->total_bytes != right->total_bytes ||
            left->stream != right->stream || left->is_small != right->is_small) {
            return "a segment";
        }
    }
    for (uint64_t i = 0; i < a->block_count; i++) {
        const pleat_block_info_t *left = &a->blocks[i];
        const pleat_block_info_t *right = &b->blocks[i];
        if (left->address != right->address || left->bytes != right->bytes ||
            left->requested_bytes != right->requested_bytes || left->state != right->state) {
            return "a block";
        }
    }
    return NULL;
}

bool fixture_state_is(const fixture_t *fixture, const fixture_state_t *state)
{
    fixture_state_t now = fixture_state(fixture);
    const char *difference = fixture_stats_difference(&state->stats, &now.stats);
    if (difference == NULL) {
        difference = fixture_snapshot_difference(state->snapshot, now.snapshot);
    }
    if (difference == NULL && (state->usage.allocations != now.usage.allocations ||
                               state->usage.allocated_bytes != now.usage.allocated_bytes)) {
        difference = "memory of the device";
    }
    if (difference != NULL) {
        fprintf(stderr, "changed: %s\n", difference);
    }
    fixture_state_drop(&now);
    return difference == NULL;
}

/* ---- end ---- */

void fixture_check(const fixture_t *fixture)
{
    FIXTURE_CALL(pleat_allocator_check(fixture->allocator));
}

void fixture_check_and_destroy(fixture_t *fixture)
{
    fixture_check(fixture);
    pleat_allocator_destroy(fixture->allocator);
    pleat_sim_usage_t usage = PLEAT_SIM_USAGE_INIT;
    FIXTURE_CALL(pleat_sim_read_usage(fixture->sim, &usage));
    FIXTURE_REQUIRE(usage.allocations == 0 && usage.allocated_bytes == 0 && usage.events == 0 &&
                        usage.ranges == 0 && usage.chunks == 0 && usage.mappings == 0 &&
                        usage.opened == 0,
                    "A8: left on the device: %llu allocations, %llu bytes, %llu events, %llu "
                    "address ranges, %llu chunks, %llu mappings, %llu opened",
                    (unsigned long long)usage.allocations,
                    (unsigned long long)usage.allocated_bytes, (unsigned long long)usage.events,
                    (unsigned long long)usage.ranges, (unsigned long long)usage.chunks,
                    (unsigned long long)usage.mappings, (unsigned long long)usage.opened);
    pleat_vmm_destroy(fixture->vmm);
    *fixture = (fixture_t){0};
}

/* ---- random ---- */

uint64_t fixture_random_next(fixture_random_t *random)
{
    random->state += UINT64_C(0x9E3779B97F4A7C15);
    uint64_t mixed = random->state;
    mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94D049BB133111EB);
    return mixed ^ (mixed >> 31);
}

uint64_t fixture_random_below(fixture_random_t *random, uint64_t end)
{
    return fixture_random_next(random) % end;
}
