/*
 * player: see player.h.
 */
#include "player.h"

#include "../../core/allocator.h"
#include "../../vmm/base.h"

#include <pleat/sim.h>
#include <stdlib.h>

#define PLEAT_PLAYER_FIRST_CAPACITY 64u

pleat_status_t pleat_player_init(pleat_player_t *player, const pleat_program_t *program,
                                 pleat_vmm_t *vmm, pleat_allocator_t *allocator)
{
    const size_t slot_count = program->slot_count;
    *player = (pleat_player_t){
        .program = program, .vmm = vmm, .allocator = allocator, .is_done_rising = true};
    player->addresses = calloc(slot_count + 1, sizeof(*player->addresses));
    player->waits = calloc(slot_count + 1, sizeof(*player->waits));
    if (player->addresses == NULL || player->waits == NULL) {
        pleat_player_fini(player);
        pleat_error_set("no host memory for %zu live blocks of a replay", slot_count);
        return PLEAT_ERR_OOM_HOST;
    }
    return PLEAT_OK;
}

void pleat_player_fini(pleat_player_t *player)
{
    free(player->addresses);
    free(player->waits);
    free(player->done);
    *player = (pleat_player_t){.program = NULL};
}

static pleat_status_t player_add_done(pleat_player_t *player, pleat_stream_t stream)
{
    if (player->done_count == player->done_capacity) {
        const size_t capacity =
            player->done_capacity == 0 ? PLEAT_PLAYER_FIRST_CAPACITY : player->done_capacity * 2;
        pleat_stream_t *done = realloc(player->done, capacity * sizeof(*done));
        if (done == NULL) {
            pleat_error_set("no host memory for %zu completions of a replay", capacity);
            return PLEAT_ERR_OOM_HOST;
        }
        player->done = done;
        player->done_capacity = capacity;
    }
    if (player->done_count > 0 && player->done[player->done_count - 1] > stream) {
        player->is_done_rising = false;
    }
    player->done[player->done_count++] = stream;
    return PLEAT_OK;
}

static pleat_status_t player_complete(pleat_player_t *player, const pleat_program_call_t *call)
{
    const pleat_stream_t stream = player->waits[call->slot];
    if (stream == 0) {
        return PLEAT_OK;
    }
    player->waits[call->slot] = 0;
    player->wait_live--;
    const pleat_status_t status = player_add_done(player, stream);
    if (status != PLEAT_OK) {
        return status;
    }
    if (call->kind == PLEAT_PROGRAM_COMPLETE_IN_CALL) {
        player->is_done_by_call = true;
        return PLEAT_OK;
    }
    return pleat_sim_set_done(player->vmm, stream);
}

static pleat_status_t player_free_waiting(pleat_player_t *player, uint32_t slot)
{
    const pleat_devptr_t address = player->addresses[slot];
    if (address == 0) {
        return PLEAT_OK;
    }
    if (player->wait_live == 0 && player->done_count == 0) {
        player->wait_next = 0; /* nothing of the streams used so far is left in the engine */
    }
    const pleat_stream_t stream = PLEAT_PLAYER_WAIT_STREAM + player->wait_next++;
    pleat_status_t status = pleat_sim_set_busy(player->vmm, stream);
    if (status == PLEAT_OK) {
        status = pleat_record_stream(player->allocator, address, stream);
    }
    if (status == PLEAT_OK) {
        status = pleat_free(player->allocator, address);
    }
    if (status == PLEAT_OK) {
        player->addresses[slot] = 0;
        player->free_count++;
        player->waits[slot] = stream;
        player->wait_live++;
    }
    return status;
}

/* Tell the engine in which order the work of the waiting frees ended, if that is not the order of
 * their handles. */
static pleat_status_t player_begin_order(pleat_player_t *player)
{
    if (__builtin_expect(player->is_done_rising, 1)) {
        return PLEAT_OK;
    }
    return pleat_allocator_set_stream_order(player->allocator, player->done, player->done_count);
}

static pleat_status_t player_end_order(pleat_player_t *player)
{
    pleat_status_t status = PLEAT_OK;
    for (size_t i = 0; player->is_done_by_call && i < player->done_count; i++) {
        const pleat_status_t ended = pleat_sim_set_done(player->vmm, player->done[i]);
        status = status == PLEAT_OK ? ended : status;
    }
    if (!player->is_done_rising) {
        const pleat_status_t reset = pleat_allocator_set_stream_order(player->allocator, NULL, 0);
        status = status == PLEAT_OK ? reset : status;
    }
    player->is_done_by_call = false;
    player->is_done_rising = true;
    player->done_count = 0;
    return status;
}

/* A call in which the engine looks at waiting frees. */
static pleat_status_t player_call(pleat_player_t *player, const pleat_program_call_t *call)
{
    pleat_status_t status = player_begin_order(player);
    if (status != PLEAT_OK) {
        return status;
    }
    if (call->kind == PLEAT_PROGRAM_EMPTY_CACHE) {
        status = pleat_empty_cache(player->allocator);
    } else {
        pleat_devptr_t address = 0;
        status = pleat_alloc(player->allocator, call->bytes, player->program->handles[call->stream],
                             &address);
        if (call->kind == PLEAT_PROGRAM_ALLOC) {
            player->addresses[call->slot] = address;
        } else if (status == PLEAT_OK) {
            status = pleat_free(player->allocator, address);
        }
    }
    if (__builtin_expect(player->done_count == 0, 1)) {
        return status;
    }
    const pleat_status_t ended = player_end_order(player);
    return status == PLEAT_OK ? ended : status;
}

pleat_status_t pleat_player_perform(pleat_player_t *player, const pleat_program_call_t *call)
{
    switch (call->kind) {
    case PLEAT_PROGRAM_ALLOC:
    case PLEAT_PROGRAM_ALLOC_FAILS:
    case PLEAT_PROGRAM_EMPTY_CACHE:
        return player_call(player, call);
    case PLEAT_PROGRAM_FREE: {
        const pleat_devptr_t address = player->addresses[call->slot];
        player->addresses[call->slot] = 0;
        player->free_count += address != 0 ? 1 : 0;
        return pleat_free(player->allocator, address);
    }
    case PLEAT_PROGRAM_FREE_WAITS:
        return player_free_waiting(player, call->slot);
    case PLEAT_PROGRAM_COMPLETE:
    case PLEAT_PROGRAM_COMPLETE_IN_CALL:
        return player_complete(player, call);
    case PLEAT_PROGRAM_STRAY:
    case PLEAT_PROGRAM_CALL_COUNT:
        return PLEAT_OK;
    }
    return PLEAT_OK;
}

pleat_status_t pleat_player_free_all(pleat_player_t *player)
{
    pleat_status_t status = pleat_sim_set_all_done(player->vmm);
    for (uint32_t slot = 0; slot < player->program->slot_count && status == PLEAT_OK; slot++) {
        status = pleat_free(player->allocator, player->addresses[slot]);
        player->addresses[slot] = 0;
        player->waits[slot] = 0;
    }
    player->wait_live = 0;
    return status;
}
