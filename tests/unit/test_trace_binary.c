/*
 * test_trace_binary: the compact form is exact for any sequence of events, and no damage goes
 * unnoticed: every truncation, every flipped bit.
 */
#include "host_fault.h"
#include "input_fixture.h"
#include "trace_block.h"
#include "trace_live.h"

#include <criterion/new/assert.h>

static uint64_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

static bool events_equal(const pleat_trace_event_t *a, const pleat_trace_event_t *b)
{
    return a->action == b->action && a->address == b->address && a->bytes == b->bytes &&
           a->stream == b->stream && a->time_us == b->time_us;
}

static void expect_round_trip(const pleat_trace_event_t *events, size_t count)
{
    input_bytes_t bytes = input_fixture_compact(events, count);
    pleat_trace_t *trace = NULL;
    cr_assert(input_fixture_trace(bytes.data, bytes.count, &trace) == PLEAT_OK, "%s",
              pleat_last_error());
    cr_assert(eq(u64, trace->event_count, count));
    for (size_t i = 0; i < count; i++) {
        cr_assert(events_equal(&events[i], &trace->events[i]), "event %zu", i);
    }
    pleat_trace_destroy(trace);
    free(bytes.data);
}

/* A program as allocators see it: segments, best-fit-like reuse, frees that complete late. */
static size_t plausible_events(pleat_trace_event_t *events, size_t capacity, uint64_t seed)
{
    enum { SLOTS = 64 };
    pleat_trace_event_t live[SLOTS] = {0};
    uint64_t time_us = 0;
    size_t count = 0;
    for (unsigned i = 0; i < SLOTS; i++) {
        live[i].bytes = UINT64_C(512) * (1u + (i * 37u) % 50u);
        live[i].address = UINT64_C(0x7f0000000000) + UINT64_C(0x10000) * i;
        live[i].stream = i % 3;
    }
    for (unsigned i = 0; i < 3; i++) {
        events[count++] =
            (pleat_trace_event_t){.action = PLEAT_ACTION_SEGMENT_ALLOC,
                                  .address = UINT64_C(0x7f0000000000) + (UINT64_C(2) << 20) * i,
                                  .bytes = UINT64_C(2) << 20,
                                  .stream = i};
    }
    while (count + 2 <= capacity) {
        pleat_trace_event_t *slot = &live[next_random(&seed) % SLOTS];
        time_us += next_random(&seed) % 300;
        slot->time_us = time_us;
        if (slot->action == PLEAT_ACTION_ALLOC) {
            slot->action = PLEAT_ACTION_FREE_REQUESTED;
            events[count++] = *slot;
            if (next_random(&seed) % 4 != 0) {
                slot->action = PLEAT_ACTION_FREE_COMPLETED;
                slot->time_us += 1;
                events[count++] = *slot;
            }
        } else if (slot->action == PLEAT_ACTION_FREE_REQUESTED) {
            slot->action = PLEAT_ACTION_FREE_COMPLETED;
            events[count++] = *slot;
        } else {
            slot->action = PLEAT_ACTION_ALLOC;
            events[count++] = *slot;
        }
    }
    return count;
}

Test(trace_binary, plausible_events_come_back)
{
    static pleat_trace_event_t events[5000];
    for (uint64_t seed = 1; seed < 20; seed++) {
        expect_round_trip(events, plausible_events(events, 5000, seed));
    }
}

Test(trace_binary, any_events_come_back)
{
    static pleat_trace_event_t events[3000];
    for (uint64_t seed = 1; seed < 40; seed++) {
        uint64_t state = seed;
        for (size_t i = 0; i < 3000; i++) {
            const uint64_t shape = next_random(&state);
            events[i] = (pleat_trace_event_t){
                .action = (pleat_action_t)(shape % PLEAT_ACTION_COUNT),
                .address = shape % 7 == 0 ? next_random(&state) << (shape % 30)
                                          : (next_random(&state) % 40) << 9,
                .bytes = shape % 5 == 0 ? next_random(&state) << (shape % 31)
                                        : next_random(&state) % 4 << 9,
                .stream = shape % 11 == 0 ? PLEAT_TRACE_STREAM_MAX : shape % 3,
                .time_us = shape % 13 == 0 ? UINT64_MAX : next_random(&state)};
        }
        expect_round_trip(events, 3000);
    }
}

Test(trace_binary, frees_of_very_old_allocations_come_back)
{
    const size_t count = PLEAT_TRACE_LIVE_AGE_LIMIT + 10;
    pleat_trace_event_t *events = calloc(2 * count, sizeof(*events));
    for (size_t i = 0; i < count; i++) {
        events[i] = (pleat_trace_event_t){
            .action = PLEAT_ACTION_ALLOC, .address = 512 * (i + 1), .bytes = 8};
        events[count + i] = events[i];
        events[count + i].action = PLEAT_ACTION_FREE_REQUESTED;
    }
    expect_round_trip(events, 2 * count);
    free(events);
}

Test(trace_binary, more_than_one_block_comes_back, .timeout = 30)
{
    /* Alike events, because packing many that differ takes long. */
    static const pleat_action_t actions[] = {PLEAT_ACTION_ALLOC, PLEAT_ACTION_FREE_REQUESTED,
                                             PLEAT_ACTION_FREE_COMPLETED};
    const size_t count = PLEAT_TRACE_BLOCK_EVENTS + 1000;
    pleat_trace_event_t *events = calloc(count, sizeof(*events));
    for (size_t i = 0; i < count; i++) {
        events[i] = (pleat_trace_event_t){
            .action = actions[i % 3], .address = 512, .bytes = 8, .time_us = i};
    }
    expect_round_trip(events, count);
    free(events);
}

Test(trace_binary, one_pair_and_one_open_request_come_back)
{
    const pleat_trace_event_t events[] = {
        {.action = PLEAT_ACTION_ALLOC, .address = 512, .bytes = 1},
        {.action = PLEAT_ACTION_ALLOC, .address = 1024, .bytes = 2},
        {.action = PLEAT_ACTION_FREE_REQUESTED, .address = 512, .bytes = 1, .time_us = 9},
        {.action = PLEAT_ACTION_FREE_COMPLETED, .address = 512, .bytes = 1, .time_us = 4},
        {.action = PLEAT_ACTION_FREE_REQUESTED, .address = 1024, .bytes = 2}};
    expect_round_trip(events, sizeof(events) / sizeof(events[0]));
    expect_round_trip(events, 3);
}

Test(trace_binary, every_truncation_is_reported)
{
    static pleat_trace_event_t events[600];
    const size_t count = plausible_events(events, 600, 3);
    input_bytes_t bytes = input_fixture_compact(events, count);
    for (size_t cut = 8; cut < bytes.count; cut++) {
        pleat_trace_t *trace = NULL;
        char place[64];
        (void)snprintf(place, sizeof(place), "test: byte %zu,", cut);
        cr_assert(input_fixture_trace(bytes.data, cut, &trace) == PLEAT_ERR_FORMAT, "cut %zu", cut);
        INPUT_FIXTURE_EXPECT_ERROR(place);
        INPUT_FIXTURE_EXPECT_ERROR("truncated");
    }
    free(bytes.data);
}

Test(trace_binary, every_flipped_bit_is_reported)
{
    static pleat_trace_event_t events[600];
    const size_t count = plausible_events(events, 600, 3);
    input_bytes_t bytes = input_fixture_compact(events, count);
    for (size_t bit = 0; bit < 8 * bytes.count; bit++) {
        pleat_trace_t *trace = NULL;
        bytes.data[bit / 8] = (char)(bytes.data[bit / 8] ^ (1 << bit % 8));
        cr_assert(input_fixture_trace(bytes.data, bytes.count, &trace) == PLEAT_ERR_FORMAT,
                  "bit %zu", bit);
        bytes.data[bit / 8] = (char)(bytes.data[bit / 8] ^ (1 << bit % 8));
    }
    free(bytes.data);
}

Test(trace_binary, other_versions_are_refused)
{
    const pleat_trace_event_t event = {.action = PLEAT_ACTION_ALLOC};
    input_bytes_t bytes = input_fixture_compact(&event, 1);
    pleat_trace_t *trace = NULL;
    bytes.data[8] = 2;
    cr_expect(eq(int, input_fixture_trace(bytes.data, bytes.count, &trace), PLEAT_ERR_FORMAT));
    INPUT_FIXTURE_EXPECT_ERROR("test: byte 8: version 2 of the compact form; this program reads "
                               "version 1");
    free(bytes.data);
}

Test(trace_binary, blocks_cannot_be_left_out_or_followed)
{
    const size_t start = 9;
    const pleat_trace_event_t events[] = {{.action = PLEAT_ACTION_ALLOC, .bytes = 8},
                                          {.action = PLEAT_ACTION_ALLOC, .bytes = 9}};
    input_bytes_t bytes = input_fixture_compact(events, 2);
    pleat_trace_t *trace = NULL;
    /* Only the end mark: tag, count and checksum are the last six bytes. */
    char *cut = malloc(bytes.count + 1);
    memcpy(cut, bytes.data, start);
    memcpy(cut + start, bytes.data + bytes.count - 6, 6);
    cr_expect(eq(int, input_fixture_trace(cut, start + 6, &trace), PLEAT_ERR_FORMAT));
    INPUT_FIXTURE_EXPECT_ERROR("byte 9, block 1: damaged: the checksum");
    memcpy(cut, bytes.data, bytes.count);
    cut[bytes.count] = 0;
    cr_expect(eq(int, input_fixture_trace(cut, bytes.count + 1, &trace), PLEAT_ERR_FORMAT));
    INPUT_FIXTURE_EXPECT_ERROR("unexpected bytes behind the end mark");
    free(cut);
    free(bytes.data);
}

Test(trace_binary, absurd_lengths_are_refused_before_memory_is_taken)
{
    static const struct {
        const char *rest; /* behind magic and version */
        size_t count;
        const char *error;
    } rows[] = {
        {"B\x00", 2, "a block has 1 to 1048576 events"},
        {"B\x81\x80\x40", 4, "a block has 1 to 1048576 events"},
        {"B\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 11, "a number of more than 64 bits"},
        {"B\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 12, "a number of more than 64 bits"},
        {"B\x01\x09\x01\x01", 5, "unknown coding of a column"},
        {"B\x01\x01\x0b\x01", 5, "a column is longer than its events can make it"},
        {"B\x01\x00\x01\x02", 5, "packed and plain length of a column contradict"},
        {"B\x01\x01\x02\x02", 5, "packed and plain length of a column contradict"},
        {"X", 1, "a block or the end mark should begin here"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char bytes[64] = "\x89PLEAT\r\n\x01";
        pleat_trace_t *trace = NULL;
        memcpy(bytes + 9, rows[i].rest, rows[i].count);
        cr_expect(eq(int, input_fixture_trace(bytes, 9 + rows[i].count, &trace), PLEAT_ERR_FORMAT));
        INPUT_FIXTURE_EXPECT_ERROR(rows[i].error);
    }
}

Test(trace_binary, events_that_no_trace_may_have_are_not_written)
{
    input_bytes_t bytes = {0};
    pleat_output_t *output = NULL;
    pleat_trace_binary_writer_t *writer = NULL;
    FILE *file = open_memstream(&bytes.data, &bytes.count);
    cr_assert(pleat_output_create(file, "memory", PLEAT_PACKING_NONE, &output) == PLEAT_OK);
    cr_assert(pleat_trace_binary_writer_create(output, &writer) == PLEAT_OK);
    const pleat_trace_event_t wrong[] = {
        {.action = PLEAT_ACTION_COUNT},
        {.action = PLEAT_ACTION_ALLOC, .stream = PLEAT_TRACE_STREAM_MAX + 1},
        {.action = PLEAT_ACTION_ALLOC, .address = UINT64_MAX, .bytes = 1}};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        cr_expect(eq(int, pleat_trace_binary_write(writer, &wrong[i]), PLEAT_ERR_INVALID));
        INPUT_FIXTURE_EXPECT_ERROR("event 0: ");
    }
    pleat_trace_binary_writer_destroy(writer);
    pleat_output_destroy(output);
    (void)fclose(file);
    free(bytes.data);
}

Test(trace_binary, lack_of_host_memory_is_reported)
{
    static pleat_trace_event_t events[3000];
    const size_t count = plausible_events(events, 3000, 3);
    input_bytes_t bytes = input_fixture_compact(events, count);
    pleat_status_t status = PLEAT_ERR_OOM_HOST;
    uint64_t nth = 0;
    while (status == PLEAT_ERR_OOM_HOST) {
        pleat_trace_t *trace = NULL;
        host_fault_after(++nth);
        status = input_fixture_trace(bytes.data, bytes.count, &trace);
        host_fault_after(0);
        cr_expect(eq(int, trace == NULL, status != PLEAT_OK));
        pleat_trace_destroy(trace);
    }
    cr_expect(eq(int, status, PLEAT_OK));
    cr_expect(lt(u64, 15, nth));
    free(bytes.data);
}
