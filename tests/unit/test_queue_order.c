/*
 * Tests of experiments/lib/queue_order: an allocator that visits its queues in some order shows a
 * sequence of completions; a second one, told only that sequence, repeats it. Under a limit an
 * allocation goes through the queues twice: it polls them, and later waits for what is left.
 */
#include "queue_order.h"

#include "../../core/allocator.h"
#include "fixture.h"
#include "host_fault.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include <pleat/private_pool.h>

#define MIB (UINT64_C(1) << 20)

enum { STREAMS = 6, SEEN_MAX = 256, LIVE_MAX = 24 };

/* Completions of a call, in the order in which they came. */
typedef struct seen {
    pleat_devptr_t addresses[SEEN_MAX];
    size_t count;
} seen_t;

static void see(void *context, const pleat_trace_entry_t *entry)
{
    seen_t *seen = context;
    if (entry->action == PLEAT_ACTION_FREE_COMPLETED) {
        cr_assert(lt(sz, seen->count, SEEN_MAX));
        seen->addresses[seen->count++] = entry->address;
    }
}

/* The allocator that is watched and the one that repeats; both get the same calls. */
typedef struct pair {
    fixture_t sides[2];
    seen_t seen[2];
    pleat_queue_order_t *order;
} pair_t;

static pair_t *pair_create(uint64_t limit_bytes)
{
    static pair_t pair;
    pleat_options_t options = PLEAT_OPTIONS_INIT;
    options.limit_bytes = limit_bytes;
    pair = (pair_t){.order = pleat_queue_order_create()};
    cr_assert(pair.order != NULL);
    for (int side = 0; side < 2; side++) {
        pair.sides[side] = fixture_create(&(fixture_options_t){.options = &options});
        pleat_set_observer(pair.sides[side].allocator, see, &pair.seen[side]);
    }
    return &pair;
}

static void pair_destroy(pair_t *pair)
{
    for (int side = 0; side < 2; side++) {
        pleat_set_observer(pair->sides[side].allocator, NULL, NULL);
        fixture_check_and_destroy(&pair->sides[side]);
    }
    pleat_queue_order_destroy(pair->order);
}

static void pair_set_busy(const pair_t *pair, pleat_stream_t stream)
{
    fixture_set_busy(&pair->sides[0], stream);
    fixture_set_busy(&pair->sides[1], stream);
}

static pleat_devptr_t pair_alloc_waiting_for(const pair_t *pair, const pleat_stream_t *streams,
                                             size_t count, uint64_t bytes)
{
    pleat_devptr_t address = 0;
    for (int side = 0; side < 2; side++) {
        address = fixture_alloc(&pair->sides[side], bytes, 0);
        for (size_t i = 0; i < count; i++) {
            fixture_record(&pair->sides[side], address, streams[i]);
        }
        fixture_free(&pair->sides[side], address);
    }
    return address;
}

/* Visit the queues of the watched side in this order. */
static void pair_visit(const pair_t *pair, const pleat_stream_t *streams, size_t count)
{
    cr_assert(eq(int, pleat_allocator_set_stream_order(pair->sides[0].allocator, streams, count),
                 PLEAT_OK));
}

/* The same call on both sides, the order of the second fitted to what the first shows. Bytes of 0
 * stand for empty_cache. Returns what both came to. */
static pleat_status_t pair_call(pair_t *pair, uint64_t bytes, pleat_stream_t stream,
                                pleat_devptr_t *address_out)
{
    pleat_status_t status[2] = {PLEAT_OK, PLEAT_OK};
    pleat_devptr_t addresses[2] = {0, 0};
    for (int side = 0; side < 2; side++) {
        pair->seen[side].count = 0;
        if (side == 1) {
            cr_assert(
                eq(int,
                   pleat_queue_order_fit(pair->order, pair->sides[1].allocator,
                                         pair->seen[0].addresses, pair->seen[0].count, bytes > 0),
                   PLEAT_OK));
        }
        status[side] =
            bytes > 0 ? pleat_alloc(pair->sides[side].allocator, bytes, stream, &addresses[side])
                      : pleat_empty_cache(pair->sides[side].allocator);
    }
    cr_assert(eq(int, status[0], status[1]));
    cr_assert(eq(sz, pair->seen[0].count, pair->seen[1].count));
    for (size_t i = 0; i < pair->seen[0].count; i++) {
        cr_assert(eq(u64, pair->seen[0].addresses[i], pair->seen[1].addresses[i]),
                  "completion %zu of %zu", i, pair->seen[0].count);
    }
    cr_assert(eq(u64, addresses[0], addresses[1]));
    *address_out = addresses[0];
    return status[0];
}

Test(queue_order, an_allocation_that_waits_for_busy_streams_is_repeated, .timeout = 10)
{
    /* Two busy streams: the poll ends nothing, the wait goes from the higher to the lower. */
    pair_t *pair = pair_create(64 * MIB);
    pair_set_busy(pair, 1);
    pair_set_busy(pair, 3);
    const pleat_stream_t first[] = {1};
    const pleat_stream_t second[] = {3};
    const pleat_devptr_t low = pair_alloc_waiting_for(pair, first, 1, 20 * MIB);
    const pleat_devptr_t high = pair_alloc_waiting_for(pair, second, 1, 20 * MIB);
    pair_visit(pair, (pleat_stream_t[]){3, 1}, 2);
    pleat_devptr_t address = 0;
    cr_assert(eq(int, pair_call(pair, 30 * MIB, 0, &address), PLEAT_OK));
    cr_assert(eq(sz, pair->seen[1].count, 2));
    cr_expect(eq(u64, pair->seen[1].addresses[0], high));
    cr_expect(eq(u64, pair->seen[1].addresses[1], low));
    pair_destroy(pair);
}

Test(queue_order, both_phases_of_an_allocation_are_repeated, .timeout = 10)
{
    /* Streams 1 and 2 end a wait each in the poll; behind it stands one that only the wait ends. */
    pair_t *pair = pair_create(80 * MIB);
    pleat_devptr_t blocks[4];
    static const uint64_t sizes[4] = {12 * MIB, 14 * MIB, 16 * MIB, 18 * MIB};
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < 4; i++) {
            blocks[i] = fixture_alloc(&pair->sides[side], sizes[i], 0);
            fixture_record(&pair->sides[side], blocks[i], 1 + i % 2);
        }
        fixture_free(&pair->sides[side], blocks[0]);
        fixture_free(&pair->sides[side], blocks[1]);
        fixture_set_busy(&pair->sides[side], 1);
        fixture_set_busy(&pair->sides[side], 2);
        fixture_free(&pair->sides[side], blocks[2]);
        fixture_free(&pair->sides[side], blocks[3]);
    }
    pair_visit(pair, (pleat_stream_t[]){2, 1}, 2);
    pleat_devptr_t address = 0;
    cr_assert(eq(int, pair_call(pair, 70 * MIB, 0, &address), PLEAT_OK));
    static const size_t expected[] = {1, 0, 3, 2};
    cr_assert(eq(sz, pair->seen[1].count, 4));
    for (size_t i = 0; i < 4; i++) {
        cr_expect(eq(u64, pair->seen[1].addresses[i], blocks[expected[i]]));
    }
    pair_destroy(pair);
}

Test(queue_order, frees_that_were_put_off_join_the_queues, .timeout = 10)
{
    static const pleat_pool_id_t pool = {0, 1};
    pair_t *pair = pair_create(PLEAT_NO_LIMIT);
    pleat_devptr_t blocks[5];
    for (int side = 0; side < 2; side++) {
        const fixture_t *fixture = &pair->sides[side];
        for (size_t i = 0; i < 5; i++) {
            blocks[i] = fixture_alloc(fixture, (12 + i) * MIB, 0);
        }
        fixture_record(fixture, blocks[0], 1); /* queued before the others */
        fixture_record(fixture, blocks[1], 2);
        fixture_record(fixture, blocks[2], 1);
        fixture_record(fixture, blocks[3], 3);
        fixture_free(fixture, blocks[0]);
        cr_assert(eq(int, pleat_pool_begin(fixture->allocator, pool, NULL, NULL), PLEAT_OK));
        fixture_record(fixture, blocks[4], 2); /* dropped: complete before all */
        for (size_t i = 1; i < 5; i++) {
            fixture_free(fixture, blocks[i]);
        }
        cr_assert(eq(int, pleat_pool_end(fixture->allocator, pool), PLEAT_OK));
    }
    pair_visit(pair, (pleat_stream_t[]){3, 1, 2}, 3);
    static const size_t expected[] = {4, 3, 0, 2, 1};
    pleat_devptr_t address = 0;
    cr_assert(eq(int, pair_call(pair, 1 * MIB, 0, &address), PLEAT_OK));
    cr_assert(eq(sz, pair->seen[1].count, 5));
    for (size_t i = 0; i < 5; i++) {
        cr_expect(eq(u64, pair->seen[1].addresses[i], blocks[expected[i]]), "completion %zu", i);
    }
    pair_destroy(pair);
}

/* A block that waits for a random set of streams, freed on both sides. */
static void pair_free_some(const pair_t *pair, fixture_random_t *random, pleat_devptr_t address)
{
    const size_t uses = (size_t)fixture_random_below(random, 4);
    for (size_t i = 0; i < uses; i++) {
        const pleat_stream_t stream = 1 + fixture_random_below(random, STREAMS);
        fixture_record(&pair->sides[0], address, stream);
        fixture_record(&pair->sides[1], address, stream);
    }
    fixture_free(&pair->sides[0], address);
    fixture_free(&pair->sides[1], address);
}

static void shuffle(pleat_stream_t *streams, fixture_random_t *random)
{
    for (size_t i = 0; i < STREAMS; i++) {
        streams[i] = 1 + i;
    }
    for (size_t i = STREAMS - 1; i > 0; i--) {
        const size_t other = (size_t)fixture_random_below(random, i + 1);
        const pleat_stream_t stream = streams[i];
        streams[i] = streams[other];
        streams[other] = stream;
    }
}

/* One seeded program; counts the calls that completed frees on both sides of a wait. */
static size_t repeat_program(uint64_t seed)
{
    fixture_random_t random = {.state = seed};
    pair_t *pair = pair_create(200 * MIB);
    pleat_devptr_t live[LIVE_MAX];
    size_t live_count = 0;
    size_t completed = 0;
    for (int step = 0; step < 400; step++) {
        pleat_stream_t streams[STREAMS];
        const uint64_t choice = fixture_random_below(&random, 10);
        if (choice < 2) {
            pair_set_busy(pair, 1 + fixture_random_below(&random, STREAMS));
        } else if (choice < 6 && live_count > 0) {
            const size_t index = (size_t)fixture_random_below(&random, live_count);
            pair_free_some(pair, &random, live[index]);
            live[index] = live[--live_count];
        } else if (live_count < LIVE_MAX) {
            const bool is_empty = fixture_random_below(&random, 40) == 0;
            const uint64_t bytes = MIB + fixture_random_below(&random, 40 * MIB);
            pleat_devptr_t address = 0;
            shuffle(streams, &random);
            pair_visit(pair, streams, STREAMS);
            if (pair_call(pair, is_empty ? 0 : bytes, 0, &address) == PLEAT_OK && !is_empty) {
                live[live_count++] = address;
            }
            completed += pair->seen[0].count > 1 ? 1 : 0;
        }
    }
    for (size_t i = 0; i < live_count; i++) {
        fixture_free(&pair->sides[0], live[i]);
        fixture_free(&pair->sides[1], live[i]);
    }
    pair_destroy(pair);
    return completed;
}

Test(queue_order, whatever_order_is_shown_is_found, .timeout = 50)
{
    size_t completed = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        completed += repeat_program(seed);
    }
    cr_expect(lt(sz, 100, completed)); /* else the programs show nothing */
}

/* A fixture with a free that waits for each of streams 1 to 3, the first of them ready. */
static fixture_t three_waits(pleat_devptr_t *blocks)
{
    const fixture_t fixture = fixture_create(NULL);
    fixture_set_busy(&fixture, 2);
    fixture_set_busy(&fixture, 3);
    for (size_t i = 0; i < 3; i++) {
        blocks[i] = fixture_alloc(&fixture, 20 * MIB, 0);
        fixture_record(&fixture, blocks[i], 1 + i);
    }
    for (size_t i = 0; i < 3; i++) {
        fixture_free(&fixture, blocks[i]);
    }
    return fixture;
}

/* After a sequence that no order explains, the engine's own order is in force. */
static void expect_no_order(size_t count, const size_t *sequence, bool has_poll)
{
    pleat_devptr_t blocks[3];
    fixture_t fixture = three_waits(blocks);
    pleat_queue_order_t *order = pleat_queue_order_create();
    pleat_devptr_t addresses[8] = {0};
    seen_t seen = {.count = 0};
    for (size_t i = 0; i < count; i++) {
        addresses[i] = sequence[i] < 3 ? blocks[sequence[i]] : 512;
    }
    cr_assert(eq(int, pleat_queue_order_fit(order, fixture.allocator, addresses, count, has_poll),
                 PLEAT_OK));
    pleat_set_observer(fixture.allocator, see, &seen);
    fixture_empty(&fixture);
    pleat_set_observer(fixture.allocator, NULL, NULL);
    cr_assert(eq(sz, seen.count, 3));
    for (size_t i = 0; i < 3; i++) {
        cr_expect(eq(u64, seen.addresses[i], blocks[i]));
    }
    pleat_queue_order_destroy(order);
    fixture_check_and_destroy(&fixture);
}

Test(queue_order, a_sequence_that_no_order_gives_leaves_the_order_alone, .timeout = 10)
{
    expect_no_order(3, (size_t[]){2, 1, 0}, true); /* block 0 is ready, so the poll ends it first */
    expect_no_order(2, (size_t[]){2, 1}, true);    /* neither the poll's nor everything */
    expect_no_order(2, (size_t[]){2, 1}, false);   /* a wait leaves nothing out */
    expect_no_order(4, (size_t[]){2, 1, 0, 0}, false);
    expect_no_order(3, (size_t[]){2, 1, 3}, false); /* an address that does not wait */
    expect_no_order(0, NULL, true);
    expect_no_order(1, (size_t[]){2}, true);
}

Test(queue_order, fails_cleanly_without_host_memory, .timeout = 10)
{
    pleat_queue_order_destroy(NULL);
    bool is_done = false;
    for (uint64_t nth = 1; !is_done; nth++) {
        cr_assert(lt(u64, nth, 20));
        pleat_devptr_t blocks[3];
        fixture_t fixture = three_waits(blocks);
        host_fault_after(nth);
        pleat_queue_order_t *order = pleat_queue_order_create();
        pleat_status_t status = PLEAT_ERR_OOM_HOST;
        if (order != NULL) {
            const pleat_devptr_t addresses[] = {blocks[0], blocks[2], blocks[1]};
            status = pleat_queue_order_fit(order, fixture.allocator, addresses, 3, true);
        }
        host_fault_after(0);
        cr_expect(status == PLEAT_OK || status == PLEAT_ERR_OOM_HOST);
        is_done = status == PLEAT_OK;
        pleat_queue_order_destroy(order);
        fixture_check_and_destroy(&fixture);
    }
}
