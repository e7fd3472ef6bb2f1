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
