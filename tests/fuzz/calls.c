/*
 * calls: bytes become calls of an allocator on a small simulated device. Whatever they are, every
 * call has a defined outcome, all invariants hold after it, and nothing is left on the device.
 *
 * Input: the first two bytes choose capacity and options; then one byte chooses a call and the
 * bytes behind it are its arguments. Missing bytes read as 0.
 */
#include <pleat/private_pool.h>

#include "fixture.h"

#include <string.h>

enum { SLOTS = 32, STREAMS = 4 };

typedef struct input {
    const uint8_t *data;
    size_t left;
} input_t;

typedef struct state {
    fixture_t fixture;
    input_t input;
    pleat_devptr_t ptr[SLOTS];
    uint64_t bytes[SLOTS];
} state_t;

static uint8_t take(input_t *input)
{
    if (input->left == 0) {
        return 0;
    }
    input->left--;
    return *input->data++;
}

/* A size: a power of two, a multiple of it, and a little more or less; or anything at all. */
static uint64_t take_size(input_t *input)
{
    const uint8_t kind = take(input);
    if (kind == 255) {
        uint64_t any = 0;
        for (unsigned i = 0; i < 8; i++) {
            any = any << 8 | take(input);
        }
        return any;
    }
    const uint64_t base = UINT64_C(1) << (8 + kind % 20);
    const uint8_t detail = take(input);
    return base * (1 + detail % 8) + 512 * (uint64_t)(detail / 8 % 4) - (detail / 32 % 4);
}

static pleat_options_t take_options(input_t *input)
{
    pleat_options_t options = PLEAT_OPTIONS_INIT;
    const uint8_t which = take(input);
    if ((which & 1) != 0) {
        options.limit_bytes = PLEAT_MIB * take(input);
    }
    if ((which & 2) != 0) {
        options.max_split_bytes = PLEAT_MIB * take(input);
    }
    if ((which & 4) != 0) {
        options.max_non_split_rounding_bytes = PLEAT_MIB * take(input);
    }
    if ((which & 8) != 0) {
        options.large_segment_bytes = PLEAT_MIB * take(input);
    }
    if ((which & 16) != 0) {
        options.garbage_collection_threshold = (double)take(input) / 250.0;
    }
    if ((which & 32) != 0) {
        options.roundup_power2_divisions[take(input) % PLEAT_ROUNDUP_ENTRIES] = take(input);
    }
    return options;
}

static void require_one_of(pleat_status_t status, pleat_status_t other)
{
    FIXTURE_REQUIRE(status == PLEAT_OK || status == other || status == PLEAT_ERR_DRIVER, "%s: %s",
                    pleat_status_text(status), pleat_last_error());
}

static void do_alloc(state_t *state)
{
    const unsigned slot = take(&state->input) % SLOTS;
    const pleat_stream_t stream = slot % STREAMS;
    const uint64_t bytes = take_size(&state->input);
    pleat_devptr_t ptr = 0;
    if (state->ptr[slot] != 0) {
        return;
    }
    const pleat_status_t status = pleat_alloc(state->fixture.allocator, bytes, stream, &ptr);
    require_one_of(status, bytes >= UINT64_C(1) << 60 ? PLEAT_ERR_TOO_LARGE : PLEAT_ERR_OOM_DEVICE);
    for (unsigned i = 0; status == PLEAT_OK && bytes > 0 && i < SLOTS; i++) {
        FIXTURE_REQUIRE(state->ptr[i] == 0 || ptr >= state->ptr[i] + state->bytes[i] ||
                            ptr + bytes <= state->ptr[i],
                        "0x%llx overlaps 0x%llx", (unsigned long long)ptr,
                        (unsigned long long)state->ptr[i]);
    }
    state->ptr[slot] = ptr;
    state->bytes[slot] = bytes;
}

static void do_free(state_t *state)
{
    const unsigned slot = take(&state->input) % SLOTS;
    const pleat_status_t status = pleat_free(state->fixture.allocator, state->ptr[slot]);
    require_one_of(status, PLEAT_ERR_DRIVER);
    if (status == PLEAT_OK && state->ptr[slot] != 0) {
        FIXTURE_REQUIRE(pleat_free(state->fixture.allocator, state->ptr[slot]) ==
                            PLEAT_ERR_INVALID_POINTER,
                        "a second free");
        state->ptr[slot] = 0;
    }
}

static void do_device(state_t *state)
{
    static const pleat_vmm_call_t calls[] = {
        PLEAT_VMM_CALL_MEM_ALLOC,        PLEAT_VMM_CALL_MEM_FREE,     PLEAT_VMM_CALL_MEM_INFO,
        PLEAT_VMM_CALL_EVENT_CREATE,     PLEAT_VMM_CALL_EVENT_RECORD, PLEAT_VMM_CALL_EVENT_QUERY,
        PLEAT_VMM_CALL_EVENT_SYNCHRONIZE};
    const uint8_t what = take(&state->input);
    const pleat_stream_t stream = what / 4 % STREAMS;
    switch (what % 4) {
    case 0:
        fixture_set_busy(&state->fixture, stream);
        break;
    case 1:
        fixture_set_done(&state->fixture, stream);
        break;
    case 2:
        fixture_fail_call(&state->fixture, calls[what / 4 % 7], 1 + what / 32, PLEAT_ERR_DRIVER);
        break;
    default:
        fixture_fail_call(&state->fixture, PLEAT_VMM_CALL_MEM_ALLOC, 1 + what / 4,
                          PLEAT_ERR_OOM_DEVICE);
        break;
    }
}

/* Whether a call about a pool can be is the pool's matter: it fails by a status, or works. */
static void do_pool(state_t *state)
{
    pleat_allocator_t *allocator = state->fixture.allocator;
    const uint8_t what = take(&state->input);
    const pleat_pool_id_t id = {what % 2, 1 + what / 2 % 2};
    pleat_status_t status = PLEAT_OK;
    switch (what / 4 % 8) {
    case 0:
    case 1:
        status = pleat_pool_begin(allocator, id, NULL, NULL);
        break;
    case 2:
    case 3:
        status = pleat_pool_end(allocator, id);
        break;
    case 4:
        status = what < 128 ? pleat_pool_acquire(allocator, id, NULL)
                            : pleat_pool_set_no_split(allocator, id);
        break;
    case 5:
        status = pleat_pool_release(allocator, id);
        break;
    case 6:
        status = pleat_pool_set_overflow(allocator, id, what < 128);
        break;
    default:
        status = pleat_pool_empty(allocator, id);
        break;
    }
    require_one_of(status, PLEAT_ERR_INVALID);
}

/* A checkpoint that is restored at once: the same allocations are live. */
static void do_checkpoint(state_t *state)
{
    pleat_allocator_t *allocator = state->fixture.allocator;
    const uint8_t what = take(&state->input);
    const pleat_pool_id_t id = {what % 2, 1 + what / 2 % 2};
    pleat_pool_checkpoint_t *checkpoint = NULL;
    pleat_pool_delta_t delta = PLEAT_POOL_DELTA_INIT;
    pleat_status_t status = pleat_pool_checkpoint_take(allocator, id, &checkpoint);
    require_one_of(status, PLEAT_ERR_INVALID);
    if (status == PLEAT_OK) {
        status = pleat_pool_checkpoint_restore(allocator, checkpoint, &delta);
        require_one_of(status, PLEAT_ERR_INVALID);
        FIXTURE_REQUIRE(delta.freed_count == delta.allocated_count, "%llu freed, %llu allocated",
                        (unsigned long long)delta.freed_count,
                        (unsigned long long)delta.allocated_count);
    }
    pleat_pool_delta_fini(&delta);
    pleat_pool_checkpoint_destroy(checkpoint);
}

static void do_call(state_t *state)
{
    pleat_allocator_t *allocator = state->fixture.allocator;
    const uint8_t call = take(&state->input);
    switch (call % 16) {
    case 0:
    case 1:
    case 2:
    case 3:
    case 4:
    case 5:
        do_alloc(state);
        break;
    case 6:
    case 7:
    case 8:
        do_free(state);
        break;
    case 9:
    case 10:
        require_one_of(pleat_record_stream(allocator, state->ptr[take(&state->input) % SLOTS],
                                           call / 16 % STREAMS),
                       PLEAT_ERR_DRIVER);
        break;
    case 11:
        require_one_of(pleat_empty_cache(allocator), PLEAT_ERR_DRIVER);
        break;
    case 12: {
        const pleat_options_t options = take_options(&state->input);
        require_one_of(pleat_set_options(allocator, &options), PLEAT_ERR_INVALID);
        break;
    }
    case 13: {
        const pleat_devptr_t any = state->ptr[call / 16] + take_size(&state->input);
        bool is_live = any == 0;
        for (unsigned i = 0; i < SLOTS; i++) {
            is_live |= any == state->ptr[i];
        }
        if (!is_live) {
            FIXTURE_REQUIRE(pleat_free(allocator, any) == PLEAT_ERR_INVALID_POINTER,
                            "0x%llx is not live", (unsigned long long)any);
        }
        break;
    }
    case 14:
        if (call / 16 % 4 == 0) {
            do_checkpoint(state);
        } else {
            do_pool(state);
        }
        break;
    default:
        do_device(state);
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    state_t state = {.input = {.data = data, .left = size}};
    const uint64_t capacity_bytes = PLEAT_MIB * (16 + 2 * (uint64_t)take(&state.input));
    pleat_options_t options = take_options(&state.input);
    pleat_options_t checked = PLEAT_OPTIONS_INIT;
    state.fixture = fixture_create(&(fixture_options_t){.capacity_bytes = capacity_bytes});
    if (pleat_set_options(state.fixture.allocator, &options) != PLEAT_OK) {
        fixture_set_options(&state.fixture, &checked);
    }
    while (state.input.left > 0) {
        do_call(&state);
        fixture_check(&state.fixture);
    }
    for (unsigned call = 0; call < PLEAT_VMM_CALL_COUNT; call++) {
        fixture_fail_call(&state.fixture, (pleat_vmm_call_t)call, 0, PLEAT_ERR_DRIVER);
    }
    fixture_check_and_destroy(&state.fixture);
    return 0;
}
