/*
 * deferred: the list of frees that are put off, and their resolution.
 */
#include "deferred.h"

#include <stdlib.h>
#include <string.h>

void pleat_deferred_add(pleat_waiting_t *waiting, pleat_block_t *block)
{
    pleat_deferred_t *deferred = &waiting->deferred;
    PLEAT_ASSERT(block->use == PLEAT_BLOCK_USE_WAITING);
    PLEAT_ASSERT(block->uses != NULL);
    PLEAT_ASSERT(block->event_count == 0);
    block->next_live = NULL;
    if (deferred->first == NULL) {
        deferred->first = block;
    } else {
        deferred->last->next_live = block;
    }
    deferred->last = block;
    deferred->count++;
    waiting->open_count++;
}

/* ---- resolution ---- */

/* Where the block at @p address hangs; NULL: it is not deferred. */
static pleat_block_t **deferred_find_link(pleat_deferred_t *deferred, pleat_devptr_t address)
{
    for (pleat_block_t **link = &deferred->first; *link != NULL; link = &(*link)->next_live) {
        if ((*link)->address == address) {
            return link;
        }
    }
    return NULL;
}

static void deferred_unlink(pleat_waiting_t *waiting, pleat_block_t **link)
{
    pleat_deferred_t *deferred = &waiting->deferred;
    pleat_block_t *block = *link;
    *link = block->next_live;
    if (deferred->last == block) {
        deferred->last = NULL;
        for (pleat_block_t *other = deferred->first; other != NULL; other = other->next_live) {
            deferred->last = other;
        }
    }
    pleat_capture_order_unmark(&waiting->capture, block);
    block->next_live = NULL;
    deferred->count--;
    waiting->open_count--;
}

static bool deferred_is_stale(const pleat_deferred_t *deferred, pleat_devptr_t address)
{
    for (size_t i = 0; i < deferred->stale_count; i++) {
        if (deferred->stale[i] == address) {
            return true;
        }
    }
    return false;
}

/* Resolve the free that hangs at @p link. The device's error: it stays put off. */
static pleat_status_t deferred_resolve_one(pleat_waiting_t *waiting, pleat_block_t **link,
                                           pleat_wait_done_fn_t done, void *context)
{
    pleat_block_t *block = *link;
    pleat_waiting_drop_captured(waiting, block,
                                deferred_is_stale(&waiting->deferred, block->address));
    if (block->uses != NULL) {
        const pleat_status_t status = pleat_waiting_begin(waiting, block);
        if (status != PLEAT_OK) {
            return status;
        }
    }
    deferred_unlink(waiting, link);
    if (block->event_count == 0) {
        done(context, block);
    }
    return PLEAT_OK;
}

pleat_status_t pleat_deferred_resolve(pleat_waiting_t *waiting, pleat_wait_done_fn_t done,
                                      void *context)
{
    pleat_deferred_t *deferred = &waiting->deferred;
    pleat_status_t status = PLEAT_OK;
    for (size_t i = 0; i < deferred->order_count && status == PLEAT_OK; i++) {
        pleat_block_t **link = deferred_find_link(deferred, deferred->order[i]);
        if (link != NULL) {
            status = deferred_resolve_one(waiting, link, done, context);
        }
    }
    while (deferred->first != NULL && status == PLEAT_OK) {
        status = deferred_resolve_one(waiting, &deferred->first, done, context);
    }
    deferred->order_count = 0;
    deferred->stale_count = 0;
    return status;
}

void pleat_deferred_end(pleat_waiting_t *waiting, pleat_block_t *block)
{
    pleat_block_t **link = deferred_find_link(&waiting->deferred, block->address);
    PLEAT_ASSERT(link != NULL);
    PLEAT_ASSERT(*link == block);
    pleat_waiting_drop_uses(waiting, block);
    deferred_unlink(waiting, link);
}

/* ---- a look ahead ---- */

/* Visit the streams that one free would wait for; false: there is none. */
static bool deferred_visit_one(const pleat_waiting_t *waiting, const pleat_block_t *block,
                               pleat_waiting_visit_fn_t visit, void *context)
{
    const bool is_stale = deferred_is_stale(&waiting->deferred, block->address);
    bool has_wait = false;
    for (const pleat_wait_t *wait = block->uses; wait != NULL; wait = wait->next) {
        if (is_stale || wait->is_captured) {
            continue;
        }
        const bool is_ready =
            pleat_vmm_event_record(waiting->vmm, wait->event, wait->stream) == PLEAT_OK &&
            pleat_vmm_event_query(waiting->vmm, wait->event) == PLEAT_OK;
        visit(context, wait->stream, block->address, is_ready);
        has_wait = true;
    }
    return has_wait;
}

static bool deferred_is_ordered(const pleat_deferred_t *deferred, pleat_devptr_t address)
{
    for (size_t i = 0; i < deferred->order_count; i++) {
        if (deferred->order[i] == address) {
            return true;
        }
    }
    return false;
}

size_t pleat_deferred_visit(const pleat_waiting_t *waiting, pleat_waiting_visit_fn_t visit,
                            void *context)
{
    const pleat_deferred_t *deferred = &waiting->deferred;
    size_t complete_count = 0;
    for (size_t i = 0; i < deferred->order_count; i++) {
        for (const pleat_block_t *block = deferred->first; block != NULL;
             block = block->next_live) {
            if (block->address == deferred->order[i] &&
                !deferred_visit_one(waiting, block, visit, context)) {
                complete_count++;
            }
        }
    }
    for (const pleat_block_t *block = deferred->first; block != NULL; block = block->next_live) {
        if (!deferred_is_ordered(deferred, block->address) &&
            !deferred_visit_one(waiting, block, visit, context)) {
            complete_count++;
        }
    }
    return complete_count;
}

/* ---- orders ---- */

static pleat_status_t deferred_copy(pleat_devptr_t **list, size_t *list_count,
                                    const pleat_devptr_t *addresses, size_t count)
{
    if (count > 0) {
        pleat_devptr_t *copy = realloc(*list, count * sizeof(*copy));
        if (copy == NULL) {
            pleat_error_set("no host memory for a list of %zu frees", count);
            return PLEAT_ERR_OOM_HOST;
        }
        memcpy(copy, addresses, count * sizeof(*copy));
        *list = copy;
    }
    *list_count = count;
    return PLEAT_OK;
}

pleat_status_t pleat_deferred_set_order(pleat_deferred_t *deferred, const pleat_devptr_t *addresses,
                                        size_t count)
{
    return deferred_copy(&deferred->order, &deferred->order_count, addresses, count);
}

pleat_status_t pleat_deferred_set_stale(pleat_deferred_t *deferred, const pleat_devptr_t *addresses,
                                        size_t count)
{
    return deferred_copy(&deferred->stale, &deferred->stale_count, addresses, count);
}

/* ---- the end ---- */

void pleat_deferred_abandon(pleat_waiting_t *waiting)
{
    while (waiting->deferred.first != NULL) {
        deferred_unlink(waiting, &waiting->deferred.first);
    }
}

void pleat_deferred_fini(pleat_deferred_t *deferred)
{
    PLEAT_ASSERT(deferred->first == NULL);
    free(deferred->order);
    free(deferred->stale);
    *deferred = (pleat_deferred_t){0};
}
