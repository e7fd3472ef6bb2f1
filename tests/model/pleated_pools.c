/*
 * pleated_pools: the model of private pools, and what it compares.
 */
#include "pleated_pools.h"

#include "core/allocator.h"

#include "fixture.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void pools_complain(pleated_pools_t *pools, const char *format, ...) PLEAT_PRINTF(2, 3);
static void pools_complain(pleated_pools_t *pools, const char *format, ...)
{
    if (pools->complaint[0] == '\0') {
        va_list arguments;
        va_start(arguments, format);
        (void)vsnprintf(pools->complaint, sizeof(pools->complaint), format, arguments);
        va_end(arguments);
    }
}

void pleated_pools_init(pleated_pools_t *pools, pleat_allocator_t *allocator, pleat_vmm_t *sim,
                        physical_map_t *memory)
{
    memset(pools, 0, sizeof(*pools));
    pools->allocator = allocator;
    pools->sim = sim;
    pools->memory = memory;
}

/* In PyTorch's modes a split limit lets free oversize segments of a pool go. */
void pleated_pools_note_options(pleated_pools_t *pools, const pleat_options_t *options)
{
    pools->keeps_plain =
        options->mode == PLEAT_MODE_PLEATED || options->max_split_bytes == PLEAT_UNLIMITED;
    for (unsigned i = 0; i < PLEATED_POOLS_MAX && !pools->keeps_plain; i++) {
        physical_map_let_go(pools->memory, (uint32_t)pools->slots[i].id.second, true);
    }
}

static void pools_expect(pleated_pools_t *pools, const char *name, pleat_status_t got,
                         pleat_status_t wanted)
{
    if (got != wanted) {
        pools_complain(pools, "%s: status '%s' (%s), expected '%s'", name, pleat_status_text(got),
                       pleat_last_error(), pleat_status_text(wanted));
    }
}

/* ---- calls ---- */

/* The pool is there no more for new uses: the slot is free. */
static void slot_leave(pleated_pool_t *slot)
{
    if (slot->uses == 0 && !slot->is_open) {
        *slot = (pleated_pool_t){0};
    }
}

/* A pool without uses, to which a redirection is still open, gets none. */
static pleat_status_t slot_new_use(pleated_pools_t *pools, pleated_pool_t *slot)
{
    if (slot->id.second == 0) {
        slot->id.second = ++pools->id_count;
    }
    return slot->is_open && slot->uses == 0 ? PLEAT_ERR_INVALID : PLEAT_OK;
}

static bool slot_filter(void *context, pleat_stream_t stream)
{
    const pleated_pool_t *slot = context;
    return slot->stream == PLEATED_STREAMS_MAX || slot->stream == stream;
}

static void pools_acquire(pleated_pools_t *pools, pleated_pool_t *slot)
{
    const pleat_status_t wanted = slot_new_use(pools, slot);
    pools_expect(pools, "pool_acquire", pleat_pool_acquire(pools->allocator, slot->id, NULL),
                 wanted);
    slot->uses += wanted == PLEAT_OK;
}

static void pools_begin(pleated_pools_t *pools, unsigned index, pleat_stream_t stream)
{
    pleated_pool_t *slot = &pools->slots[index];
    const pleat_status_t wanted = slot->is_open ? PLEAT_ERR_INVALID : slot_new_use(pools, slot);
    slot->stream = slot->is_open ? slot->stream : stream;
    pools_expect(pools, "pool_begin",
                 pleat_pool_begin(pools->allocator, slot->id, slot_filter, slot), wanted);
    if (wanted == PLEAT_OK) {
        slot->uses++;
        slot->is_open = true;
        pools->open[pools->open_count++] = index;
    }
}

static void pools_end(pleated_pools_t *pools, unsigned index)
{
    pleated_pool_t *slot = &pools->slots[index];
    const pleat_status_t wanted = slot->is_open ? PLEAT_OK : PLEAT_ERR_INVALID;
    pools_expect(pools, "pool_end", pleat_pool_end(pools->allocator, slot->id), wanted);
    if (!slot->is_open) {
        return;
    }
    slot->is_open = false;
    unsigned at = 0;
    while (pools->open[at] != index) {
        at++;
    }
    pools->open_count--;
    memmove(&pools->open[at], &pools->open[at + 1],
            (pools->open_count - at) * sizeof(pools->open[0]));
    slot_leave(slot);
}

static void pools_release(pleated_pools_t *pools, pleated_pool_t *slot)
{
    const pleat_status_t wanted = slot->uses > 0 ? PLEAT_OK : PLEAT_ERR_INVALID;
    pools_expect(pools, "pool_release", pleat_pool_release(pools->allocator, slot->id), wanted);
    slot->uses -= slot->uses > 0;
    if (slot->uses == 0) {
        physical_map_let_go(pools->memory, (uint32_t)slot->id.second, false);
    }
    if (pleat_pool_use_count(pools->allocator, slot->id) != slot->uses) {
        pools_complain(pools, "a pool has not the uses that it should have");
    }
}

/* As PyTorch does when the last reference to a pool of a user goes. */
static pleat_status_t pools_delete(pleated_pools_t *pools, pleated_pool_t *slot)
{
    const pleat_pool_id_t id = slot->id;
    if (slot->uses > 0) {
        pools_expect(pools, "pool_set_overflow",
                     pleat_pool_set_overflow(pools->allocator, id, false), PLEAT_OK);
        slot->is_overflow = false;
    }
    pools_release(pools, slot);
    const pleat_status_t status = pleat_pool_empty(pools->allocator, id);
    slot_leave(slot);
    return status;
}

static void pools_mark(pleated_pools_t *pools, pleated_pool_t *slot, pleated_kind_t kind)
{
    const pleat_status_t wanted = slot->uses > 0 ? PLEAT_OK : PLEAT_ERR_INVALID;
    if (slot->is_open && slot->uses == 0) {
        return;
    }
    if (kind == PLEATED_POOL_OVERFLOW) {
        pools_expect(pools, "pool_set_overflow",
                     pleat_pool_set_overflow(pools->allocator, slot->id, !slot->is_overflow),
                     wanted);
        slot->is_overflow = wanted == PLEAT_OK && !slot->is_overflow;
    } else {
        pools_expect(pools, "pool_set_no_split",
                     pleat_pool_set_no_split(pools->allocator, slot->id), wanted);
        slot->is_whole = wanted == PLEAT_OK;
    }
}

pleat_status_t pleated_pools_call(pleated_pools_t *pools, const pleated_call_t *call)
{
    const unsigned index = call->id % PLEATED_POOLS_MAX;
    pleated_pool_t *slot = &pools->slots[index];
    pleat_status_t status = PLEAT_OK;
    if (call->kind == PLEATED_POOL_ACQUIRE) {
        pools_acquire(pools, slot);
    } else if (call->kind == PLEATED_POOL_BEGIN) {
        pools_begin(pools, index, call->stream);
    } else if (call->kind == PLEATED_POOL_END) {
        pools_end(pools, index);
    } else if (call->kind == PLEATED_POOL_RELEASE) {
        pools_release(pools, slot);
        slot_leave(slot);
    } else if (call->kind == PLEATED_POOL_DELETE) {
        status = pools_delete(pools, slot);
    } else if (call->kind == PLEATED_POOL_EMPTY) {
        status = pleat_pool_empty(pools->allocator, slot->id);
    } else {
        pools_mark(pools, slot, call->kind);
    }
    return status;
}

bool pleated_pools_keep_memory(const pleated_pools_t *pools)
{
    for (unsigned i = 0; i < PLEATED_POOLS_MAX; i++) {
        if (pools->slots[i].id.second != 0) {
            return true;
        }
    }
    return false;
}

/* ---- events ---- */

static uint64_t pools_event_calls(const pleated_pools_t *pools)
{
    pleat_vmm_counters_t counters = PLEAT_VMM_COUNTERS_INIT;
    pleat_vmm_read_counters(pools->sim, &counters);
    return counters.calls[PLEAT_VMM_CALL_EVENT_RECORD] +
           counters.calls[PLEAT_VMM_CALL_EVENT_QUERY] +
           counters.calls[PLEAT_VMM_CALL_EVENT_SYNCHRONIZE] +
           counters.calls[PLEAT_VMM_CALL_STREAM_WAIT_EVENT];
}

void pleated_pools_before_call(pleated_pools_t *pools)
{
    pools->event_calls = pools_event_calls(pools);
}

void pleated_pools_after_call(pleated_pools_t *pools)
{
    if (pools->open_count > 0 && pools_event_calls(pools) != pools->event_calls) {
        pools_complain(pools, "the device was asked about events while requests are redirected");
    }
}

/* ---- requests ---- */

/* The slot that takes a request, NULL: none. */
static const pleated_pool_t *pools_target(const pleated_pools_t *pools, pleat_stream_t stream)
{
    for (unsigned i = pools->open_count; i-- > 0;) {
        pleated_pool_t slot = pools->slots[pools->open[i]];
        if (slot_filter(&slot, stream)) {
            return &pools->slots[pools->open[i]];
        }
    }
    return NULL;
}

bool pleated_pools_take_whole(const pleated_pools_t *pools, pleat_stream_t stream)
{
    const pleated_pool_t *target = pools_target(pools, stream);
    return target != NULL && target->is_whole;
}

static bool pools_may_serve(const pleated_pools_t *pools, const pleated_pool_t *target,
                            pleat_pool_id_t id)
{
    if (target != NULL) {
        return id.second == target->id.second;
    }
    bool is_overflow = id.second == 0;
    for (unsigned i = 0; i < PLEATED_POOLS_MAX; i++) {
        const pleated_pool_t *slot = &pools->slots[i];
        is_overflow = is_overflow || (slot->is_overflow && slot->id.second == id.second);
    }
    return is_overflow;
}

/* Chunks that a live allocation lies in hold nothing that is live and of another pool. */
static void pools_check_chunks(pleated_pools_t *pools, const physical_live_t *live)
{
    const physical_map_t *memory = pools->memory;
    for (size_t i = 0; i < memory->live_count; i++) {
        const physical_live_t *other = &memory->lives[i];
        bool shares = false;
        for (size_t a = 0; a < live->extent_count; a++) {
            for (size_t b = 0; b < other->extent_count; b++) {
                shares = shares || (live->extents[a].chunk != 0 &&
                                    live->extents[a].chunk == other->extents[b].chunk);
            }
        }
        if (shares && pools->id_of[live->id].second != pools->id_of[other->id].second) {
            pools_complain(pools, "a%" PRIu32 " and a%" PRIu32 " of another pool share a chunk",
                           live->id, other->id);
        }
    }
}

/* What a graph may have captured stays; of plain memory that is the segment, which goes as one. */
static void pools_keep(pleated_pools_t *pools, const pleat_pointer_info_t *info)
{
    for (unsigned i = 0; i < PLEATED_POOLS_MAX; i++) {
        const pleated_pool_t *slot = &pools->slots[i];
        if (slot->id.second != info->pool.second || slot->uses == 0) {
            continue;
        }
        if (info->is_expandable) {
            physical_map_keep(pools->memory, (uint32_t)info->pool.second, info->block_address,
                              info->block_bytes);
        } else if (pools->keeps_plain) {
            physical_map_keep(pools->memory, (uint32_t)info->pool.second, info->segment_address,
                              info->segment_bytes);
        }
    }
}

void pleated_pools_check_request(pleated_pools_t *pools, const pleated_call_t *call,
                                 pleat_devptr_t address)
{
    pleat_pointer_info_t info = PLEAT_POINTER_INFO_INIT;
    if (pleat_find_pointer(pools->allocator, address, &info) != PLEAT_OK) {
        pools_complain(pools, "%s", pleat_last_error());
        return;
    }
    const pleated_pool_t *target = pools_target(pools, call->stream);
    if (!pools_may_serve(pools, target, info.pool)) {
        pools_complain(pools, "a%" PRIu32 " is of pool %" PRIu64 ", expected %" PRIu64, call->id,
                       info.pool.second, target == NULL ? 0 : target->id.second);
    }
    if (info.block_bytes < call->bytes || info.requested_bytes != call->bytes ||
        info.stream != call->stream || address < info.segment_address ||
        address + call->bytes > info.segment_address + info.segment_bytes) {
        pools_complain(pools, "a%" PRIu32 " is described wrongly", call->id);
    }
    pools->id_of[call->id] = info.pool;
    for (size_t i = 0; i < pools->memory->live_count; i++) {
        if (pools->memory->lives[i].id == call->id) {
            pools_check_chunks(pools, &pools->memory->lives[i]);
        }
    }
    if (physical_map_intrudes(pools->memory, call->id, (uint32_t)info.pool.second)) {
        pools_complain(pools, "a%" PRIu32 " lies in memory captured in another pool", call->id);
    }
    if (info.pool.second != 0) {
        pools_keep(pools, &info);
    }
}

/* ---- what pools hold ---- */

/* Chunks at home and in views: none goes while the pool has uses. */
static void pools_check_slot(pleated_pools_t *pools, pleated_pool_t *slot)
{
    const pleat_allocator_t *allocator = pools->allocator;
    const pleat_private_pool_t *pool = pleat_private_pool_find(&allocator->private_pools, slot->id);
    if (pool == NULL) {
        pools_complain(pools, "pool %" PRIu64 " is gone, but has uses", slot->id.second);
        return;
    }
    uint64_t held_bytes = 0;
    uint64_t view_count = 0;
    for (const pleat_arena_t *arena = allocator->arenas; arena != NULL; arena = arena->next) {
        held_bytes += arena->pool.owner == pool ? arena->handle_bytes : 0;
    }
    for (const pleat_view_t *view = allocator->views; view != NULL; view = view->next) {
        view_count += view->owner == pool;
    }
    if (held_bytes < slot->held_bytes || view_count < slot->view_count) {
        pools_complain(pools, "pool %" PRIu64 " has uses and lost memory or a view",
                       slot->id.second);
    }
    slot->held_bytes = held_bytes;
    slot->view_count = view_count;
}

void pleated_pools_check(pleated_pools_t *pools)
{
    for (unsigned i = 0; i < PLEATED_POOLS_MAX; i++) {
        if (pools->slots[i].uses > 0) {
            pools_check_slot(pools, &pools->slots[i]);
        }
    }
    if (pleat_pool_is_redirecting(pools->allocator) != (pools->open_count > 0)) {
        pools_complain(pools, "it is told wrongly whether requests are redirected");
    }
}

void pleated_pools_let_go(pleated_pools_t *pools)
{
    for (unsigned i = 0; i < PLEATED_POOLS_MAX; i++) {
        physical_map_let_go(pools->memory, (uint32_t)pools->slots[i].id.second, false);
    }
}
