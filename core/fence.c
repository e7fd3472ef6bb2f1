/*
 * fence: waits on the device, and what is left behind for the next user.
 */
#include "fence.h"

#include <stdlib.h>

#include "allocator.h"

/* Shorter lists of fences are left alone: a take looks through them quickly. */
#define FENCES_TO_PRUNE 64u
#define PRUNE_PENDING_A_STEP 4u /* queries of events that are not complete */
#define PRUNE_DROPS_A_STEP 64u  /* each of them was left once: constant on average */
#define SPARE_FENCES_MOST 64u   /* more of them give their events back */

/* ---- storage ---- */

/* A fence with an event of its own, from the spare ones or new. */
static pleat_status_t fence_make(pleat_allocator_t *allocator, pleat_fence_t **fence_out)
{
    pleat_fence_t *fence = calloc(1, sizeof(*fence));
    pleat_fence_event_t *event = calloc(1, sizeof(*event));
    if (fence == NULL || event == NULL) {
        free(fence);
        free(event);
        pleat_error_set("no host memory for a fence");
        return PLEAT_ERR_OOM_HOST;
    }
    const pleat_status_t status = pleat_vmm_event_create(allocator->vmm, &event->event);
    if (status != PLEAT_OK) {
        free(fence);
        free(event);
        return status;
    }
    event->fence_count = 1;
    fence->event = event;
    *fence_out = fence;
    return PLEAT_OK;
}

static pleat_status_t fence_take(pleat_allocator_t *allocator, pleat_fence_t **fence_out)
{
    if (allocator->spare_fences == NULL) {
        return fence_make(allocator, fence_out);
    }
    *fence_out = allocator->spare_fences;
    allocator->spare_fences = (*fence_out)->next;
    allocator->spare_fence_count--;
    (*fence_out)->next = NULL;
    return PLEAT_OK;
}

static void fence_destroy(pleat_allocator_t *allocator, pleat_fence_t *fence)
{
    /* Nothing is left to do about an event that the device will not destroy. */
    const pleat_status_t ignored = pleat_vmm_event_destroy(allocator->vmm, fence->event->event);
    (void)ignored;
    free(fence->event);
    free(fence);
}

/* The last fence of an event keeps it and becomes spare, unless there are enough; the others are
 * freed. */
static void fence_give(pleat_allocator_t *allocator, pleat_fence_t *fence)
{
    if (fence->event->fence_count > 1) {
        fence->event->fence_count--;
        free(fence);
        return;
    }
    if (allocator->spare_fence_count >= SPARE_FENCES_MOST) {
        fence_destroy(allocator, fence);
        return;
    }
    fence->event->is_recorded = false;
    fence->next = allocator->spare_fences;
    allocator->spare_fences = fence;
    allocator->spare_fence_count++;
}

void pleat_fence_drop(pleat_allocator_t *allocator, pleat_fence_t *fence)
{
    if (fence != NULL) {
        fence_give(allocator, fence);
    }
}

pleat_status_t pleat_fence_reserve_records(pleat_allocator_t *allocator, size_t count)
{
    while (allocator->spare_record_count < count) {
        pleat_fence_t *record = calloc(1, sizeof(*record));
        if (record == NULL) {
            pleat_error_set("no host memory for a fence");
            return PLEAT_ERR_OOM_HOST;
        }
        record->next = allocator->spare_records;
        allocator->spare_records = record;
        allocator->spare_record_count++;
    }
    return PLEAT_OK;
}

static pleat_fence_t *fence_take_record(pleat_allocator_t *allocator)
{
    pleat_fence_t *record = allocator->spare_records;
    PLEAT_ASSERT(record != NULL);
    allocator->spare_records = record->next;
    allocator->spare_record_count--;
    return record;
}

void pleat_fence_fini(pleat_allocator_t *allocator)
{
    while (allocator->spare_fences != NULL) {
        pleat_fence_t *fence = allocator->spare_fences;
        allocator->spare_fences = fence->next;
        fence_destroy(allocator, fence);
    }
    allocator->spare_fence_count = 0;
    while (allocator->spare_records != NULL) {
        free(fence_take_record(allocator));
    }
}

static bool fence_overlaps(const pleat_fence_t *fence, uint64_t offset, uint64_t bytes)
{
    return fence->begin < offset + bytes && offset < fence->end;
}

/* ---- fences that are over ---- */

/* Steps go round the list: the next one begins where this one ended. */
void pleat_fence_prune(pleat_allocator_t *allocator, pleat_arena_t *arena)
{
    size_t index = 0;
    size_t pending = 0;
    size_t dropped = 0;
    pleat_fence_t **link = &arena->fences;
    for (; *link != NULL && index < arena->prune_index; index++) {
        link = &(*link)->next;
    }
    while (*link != NULL && pending < PRUNE_PENDING_A_STEP && dropped < PRUNE_DROPS_A_STEP) {
        pleat_fence_t *fence = *link;
        if (fence->event->is_recorded &&
            pleat_vmm_event_query(allocator->vmm, fence->event->event) == PLEAT_OK) {
            *link = fence->next;
            arena->fence_count--;
            fence_give(allocator, fence);
            dropped++;
        } else {
            link = &fence->next;
            index++;
            pending++;
        }
    }
    arena->prune_index = *link == NULL ? 0 : index;
}

static void fence_prune_if_long(pleat_allocator_t *allocator, pleat_arena_t *arena)
{
    if (arena->fence_count >= FENCES_TO_PRUNE && !pleat_allocator_is_redirecting(allocator)) {
        pleat_fence_prune(allocator, arena);
    }
}

/* ---- order ---- */

bool pleat_fence_is_clear(const pleat_arena_t *arena, uint64_t offset, uint64_t bytes,
                          pleat_stream_t stream)
{
    if (arena->stream != stream) {
        return false;
    }
    const pleat_fence_t *fence = arena->fences;
    while (fence != NULL && !fence_overlaps(fence, offset, bytes)) {
        fence = fence->next;
    }
    return fence == NULL;
}

/* Let @p stream wait on the device for everything that is on @p other now. */
static pleat_status_t fence_wait_for_stream(pleat_allocator_t *allocator, pleat_stream_t other,
                                            pleat_stream_t stream)
{
    pleat_fence_t *scratch = NULL;
    pleat_status_t status = fence_take(allocator, &scratch);
    if (status != PLEAT_OK) {
        return status;
    }
    status = pleat_vmm_event_record(allocator->vmm, scratch->event->event, other);
    if (status == PLEAT_OK) {
        status = pleat_vmm_stream_wait_event(allocator->vmm, stream, scratch->event->event);
    }
    /* The wait holds on to the work, not to the event. */
    fence_give(allocator, scratch);
    allocator->stats.event_waits += status == PLEAT_OK;
    return status;
}

/* Let @p stream wait for the use that a fence stands for, unless it is over. */
static pleat_status_t fence_wait(pleat_allocator_t *allocator, const pleat_fence_t *fence,
                                 pleat_stream_t stream)
{
    if (!fence->event->is_recorded) {
        return fence_wait_for_stream(allocator, fence->stream, stream);
    }
    pleat_status_t status = pleat_vmm_event_query(allocator->vmm, fence->event->event);
    if (status == PLEAT_ERR_NOT_READY) {
        status = pleat_vmm_stream_wait_event(allocator->vmm, stream, fence->event->event);
        allocator->stats.event_waits += status == PLEAT_OK;
    }
    return status;
}

/* Bytes of a span that fences of @p stream cover: its own last uses. */
static uint64_t fence_own_bytes(const pleat_arena_t *arena, uint64_t offset, uint64_t bytes,
                                pleat_stream_t stream)
{
    uint64_t own_bytes = 0;
    for (const pleat_fence_t *fence = arena->fences; fence != NULL; fence = fence->next) {
        if (fence->stream == stream && fence_overlaps(fence, offset, bytes)) {
            const uint64_t low = fence->begin > offset ? fence->begin : offset;
            const uint64_t high = fence->end < offset + bytes ? fence->end : offset + bytes;
            own_bytes += high - low;
        }
    }
    return own_bytes;
}

static pleat_status_t fence_order_foreign(pleat_allocator_t *allocator, const pleat_arena_t *arena,
                                          uint64_t offset, uint64_t bytes, pleat_stream_t stream)
{
    if (arena->stream == stream || fence_own_bytes(arena, offset, bytes, stream) == bytes) {
        return PLEAT_OK;
    }
    allocator->stats.cross_stream_takes++;
    return fence_wait_for_stream(allocator, arena->stream, stream);
}

pleat_status_t pleat_fence_order(pleat_allocator_t *allocator, pleat_arena_t *arena,
                                 uint64_t offset, uint64_t bytes, pleat_stream_t stream,
                                 pleat_fence_t **fence_out)
{
    PLEAT_ASSERT(!pleat_allocator_is_redirecting(allocator) ||
                 pleat_fence_is_clear(arena, offset, bytes, stream));
    *fence_out = NULL;
    if (arena->stream == stream && arena->fences == NULL) {
        return PLEAT_OK;
    }
    fence_prune_if_long(allocator, arena);
    pleat_status_t status = pleat_fence_reserve_records(allocator, 1);
    for (const pleat_fence_t *fence = arena->fences; fence != NULL && status == PLEAT_OK;
         fence = fence->next) {
        if (fence->stream != stream && fence_overlaps(fence, offset, bytes)) {
            status = fence_wait(allocator, fence, stream);
        }
    }
    if (status == PLEAT_OK) {
        status = fence_order_foreign(allocator, arena, offset, bytes, stream);
    }
    if (status == PLEAT_OK && arena->stream != stream) {
        status = fence_take(allocator, fence_out);
    }
    return status;
}

/* ---- what stays behind ---- */

void pleat_fence_cut(pleat_allocator_t *allocator, pleat_arena_t *arena, uint64_t offset,
                     uint64_t bytes)
{
    const uint64_t end = offset + bytes;
    pleat_fence_t **link = &arena->fences;
    while (*link != NULL) {
        pleat_fence_t *fence = *link;
        if (!fence_overlaps(fence, offset, bytes)) {
            link = &fence->next;
        } else if (fence->begin < offset && fence->end > end) {
            pleat_fence_t *high = fence_take_record(allocator);
            *high = *fence;
            high->begin = end;
            fence->end = offset;
            fence->next = high;
            fence->event->fence_count++;
            arena->fence_count++;
            return; /* fences do not overlap: no other one can be inside */
        } else if (fence->begin < offset) {
            fence->end = offset;
            link = &fence->next;
        } else if (fence->end > end) {
            fence->begin = end;
            link = &fence->next;
        } else {
            *link = fence->next;
            arena->fence_count--;
            fence_give(allocator, fence);
        }
    }
}

void pleat_fence_leave(pleat_allocator_t *allocator, pleat_arena_t *arena, uint64_t offset,
                       uint64_t bytes, pleat_stream_t stream, pleat_fence_t *fence)
{
    fence->begin = offset;
    fence->end = offset + bytes;
    fence->stream = stream;
    fence->event->is_recorded =
        !pleat_allocator_is_redirecting(allocator) &&
        pleat_vmm_event_record(allocator->vmm, fence->event->event, stream) == PLEAT_OK;
    fence->next = arena->fences;
    arena->fences = fence;
    arena->fence_count++;
    fence_prune_if_long(allocator, arena);
}

/* ---- before memory goes ---- */

pleat_status_t pleat_fence_stream_is_over(pleat_allocator_t *allocator, pleat_stream_t stream,
                                          bool can_wait)
{
    pleat_fence_t *scratch = NULL;
    pleat_status_t status = fence_take(allocator, &scratch);
    if (status != PLEAT_OK) {
        return status;
    }
    const pleat_event_t event = scratch->event->event;
    status = pleat_vmm_event_record(allocator->vmm, event, stream);
    if (status == PLEAT_OK) {
        status = pleat_vmm_event_query(allocator->vmm, event);
    }
    if (status == PLEAT_ERR_NOT_READY && can_wait) {
        status = pleat_vmm_event_synchronize(allocator->vmm, event);
    }
    fence_give(allocator, scratch);
    return status;
}

pleat_status_t pleat_fence_handle_is_over(pleat_allocator_t *allocator,
                                          const pleat_handle_t *handle, bool can_wait)
{
    const pleat_arena_t *arena = handle->arena;
    pleat_status_t status = pleat_fence_stream_is_over(allocator, arena->stream, can_wait);
    for (const pleat_fence_t *fence = arena->fences; fence != NULL && status == PLEAT_OK;
         fence = fence->next) {
        if (fence_overlaps(fence, handle->offset, handle->bytes)) {
            status = pleat_fence_stream_is_over(allocator, fence->stream, can_wait);
        }
    }
    return status;
}

pleat_status_t pleat_fence_others_are_over(pleat_allocator_t *allocator, const pleat_arena_t *arena,
                                           uint64_t offset, uint64_t bytes)
{
    pleat_status_t status = PLEAT_OK;
    for (const pleat_fence_t *fence = arena->fences; fence != NULL && status == PLEAT_OK;
         fence = fence->next) {
        if (!fence_overlaps(fence, offset, bytes)) {
            continue;
        }
        status = fence->event->is_recorded
                     ? pleat_vmm_event_query(allocator->vmm, fence->event->event)
                     : pleat_fence_stream_is_over(allocator, fence->stream, false);
    }
    return status;
}

/* ---- marks ---- */

void pleat_fence_mark_set(pleat_allocator_t *allocator, pleat_arena_t *arena)
{
    pleat_fence_t *mark = NULL;
    if (arena->mark != NULL || fence_take(allocator, &mark) != PLEAT_OK) {
        return;
    }
    if (pleat_vmm_event_record(allocator->vmm, mark->event->event, arena->stream) != PLEAT_OK) {
        fence_give(allocator, mark);
        return;
    }
    arena->mark = mark;
    arena->mark_ns = allocator->now_ns;
}

void pleat_fence_mark_check(pleat_allocator_t *allocator, pleat_arena_t *arena)
{
    if (arena->mark != NULL &&
        pleat_vmm_event_query(allocator->vmm, arena->mark->event->event) == PLEAT_OK) {
        arena->over_before_ns = arena->mark_ns;
        fence_give(allocator, arena->mark);
        arena->mark = NULL;
    }
}
