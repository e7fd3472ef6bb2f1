/*
 * private_pool: uses, redirections, and the public calls about them.
 */
#include "private_pool.h"

#include <stdlib.h>
#include <string.h>

#include "allocator.h"
#include "reclaim.h"

/* ---- the list ---- */

static bool id_equals(pleat_pool_id_t a, pleat_pool_id_t b)
{
    return a.first == b.first && a.second == b.second;
}

static bool id_precedes(pleat_pool_id_t a, pleat_pool_id_t b)
{
    return a.first != b.first ? a.first < b.first : a.second < b.second;
}

pleat_private_pool_t *pleat_private_pool_find(const pleat_private_pools_t *pools,
                                              pleat_pool_id_t id)
{
    pleat_private_pool_t *pool = pools->first;
    while (pool != NULL && !id_equals(pool->id, id)) {
        pool = pool->next;
    }
    return pool;
}

/* The same, with an error to read. */
static pleat_status_t pool_require(const pleat_private_pools_t *pools, pleat_pool_id_t id,
                                   pleat_private_pool_t **pool_out)
{
    *pool_out = pleat_private_pool_find(pools, id);
    if (*pool_out == NULL) {
        pleat_error_set("there is no private pool (%llu, %llu)", (unsigned long long)id.first,
                        (unsigned long long)id.second);
        return PLEAT_ERR_INVALID;
    }
    return PLEAT_OK;
}

static void pool_init(pleat_pool_t *pool, pleat_stat_kind_t kind, pleat_private_pool_t *owner)
{
    pool->kind = kind;
    pool->owner = owner;
}

static pleat_status_t pool_create(pleat_private_pools_t *pools, pleat_pool_id_t id,
                                  const pleat_segment_source_t *source)
{
    pleat_private_pool_t *pool = calloc(1, sizeof(*pool));
    if (pool == NULL) {
        pleat_error_set("no host memory for a private pool");
        return PLEAT_ERR_OOM_HOST;
    }
    pool->id = id;
    pool->serial = ++pools->next_serial;
    pool->use_count = 1;
    pool_init(&pool->large, PLEAT_STAT_LARGE_POOL, pool);
    pool_init(&pool->small, PLEAT_STAT_SMALL_POOL, pool);
    if (source != NULL) {
        pool->source = *source;
    }
    pleat_private_pool_t **link = &pools->first;
    while (*link != NULL && id_precedes((*link)->id, id)) {
        link = &(*link)->next;
    }
    pool->next = *link;
    *link = pool;
    return PLEAT_OK;
}

void pleat_private_pool_end(pleat_private_pools_t *pools, pleat_private_pool_t *pool)
{
    pleat_private_pool_t **link = &pools->first;
    while (*link != pool) {
        link = &(*link)->next;
    }
    *link = pool->next;
    pleat_pool_fini(&pool->large);
    pleat_pool_fini(&pool->small);
    if (pool->source.done != NULL) {
        pool->source.done(pool->source.context);
    }
    free(pool);
}

void pleat_private_pools_close(pleat_private_pools_t *pools)
{
    atomic_store_explicit(&pools->redirection_count, 0, memory_order_relaxed);
}

void pleat_private_pools_fini(pleat_private_pools_t *pools)
{
    PLEAT_ASSERT(!pleat_private_pools_are_redirecting(pools));
    while (pools->first != NULL) {
        pleat_private_pool_end(pools, pools->first);
    }
    free(pools->redirections);
    free(pools->freeable_order);
    pools->redirections = NULL;
    pools->redirection_capacity = 0;
    pools->freeable_order = NULL;
    pools->freeable_order_count = 0;
}

static uint64_t pool_free_bytes(pleat_pool_t *pool)
{
    uint64_t bytes = 0;
    for (const pleat_block_t *block = pleat_free_set_first(&pool->free_blocks); block != NULL;
         block = pleat_free_set_next(&pool->free_blocks, block)) {
        bytes += block->bytes;
    }
    return bytes;
}

uint64_t pleat_private_pools_free_bytes(pleat_allocator_t *allocator)
{
    uint64_t bytes = 0;
    for (pleat_private_pool_t *pool = allocator->private_pools.first; pool != NULL;
         pool = pool->next) {
        bytes += pool_free_bytes(&pool->large) + pool_free_bytes(&pool->small);
    }
    for (const pleat_arena_t *arena = allocator->arenas; arena != NULL; arena = arena->next) {
        bytes += arena->pool.owner == NULL ? 0 : arena->free_bytes;
    }
    return bytes;
}

/* ---- requests ---- */

bool pleat_private_pool_is_plain(const pleat_allocator_t *allocator,
                                 const pleat_private_pool_t *pool)
{
    return pool->source.alloc != NULL ||
           (pool->large.keeps_whole && allocator->options.mode == PLEAT_MODE_PLEATED);
}

void pleat_private_pool_direct(const pleat_allocator_t *allocator, pleat_private_pool_t *pool,
                               pleat_request_t *request)
{
    request->pool = pleat_size_is_small(request->bytes) ? &pool->small : &pool->large;
    if (pleat_private_pool_is_plain(allocator, pool)) {
        request->backing = pleat_backing_classic();
    }
}

void pleat_private_pool_redirect(const pleat_allocator_t *allocator, pleat_request_t *request)
{
    const pleat_private_pools_t *pools = &allocator->private_pools;
    size_t i = atomic_load_explicit(&pools->redirection_count, memory_order_relaxed);
    while (i-- > 0) {
        const pleat_redirection_t *redirection = &pools->redirections[i];
        if (redirection->filter == NULL ||
            redirection->filter(redirection->filter_context, request->stream)) {
            pleat_private_pool_direct(allocator, redirection->pool, request);
            return;
        }
    }
}

/* ---- uses ---- */

/* A copy of the caller's source, as far as it goes. */
static pleat_status_t source_read(const pleat_segment_source_t *given,
                                  pleat_segment_source_t *source_out)
{
    pleat_segment_source_t source = PLEAT_SEGMENT_SOURCE_INIT;
    const size_t known = given->size < sizeof(source) ? given->size : sizeof(source);
    if (known >= sizeof(source.size)) {
        memcpy(&source, given, known);
    }
    if (source.alloc == NULL || source.free == NULL) {
        pleat_error_set("a segment source without %s; it needs a size, alloc and free",
                        source.alloc == NULL ? "alloc" : "free");
        return PLEAT_ERR_INVALID;
    }
    source.size = sizeof(source);
    *source_out = source;
    return PLEAT_OK;
}

/* Can @p pool, which exists, get a use more? */
static pleat_status_t pool_check_use(const pleat_private_pool_t *pool, bool has_source)
{
    if (pool->use_count > 0 && !has_source) {
        return PLEAT_OK;
    }
    pleat_error_set("private pool (%llu, %llu) %s", (unsigned long long)pool->id.first,
                    (unsigned long long)pool->id.second,
                    has_source ? "exists already and cannot get a segment source"
                               : "has no use any more and cannot be used again");
    return PLEAT_ERR_INVALID;
}

static pleat_status_t pool_acquire(pleat_private_pools_t *pools, pleat_pool_id_t id,
                                   const pleat_segment_source_t *source)
{
    if (id_equals(id, (pleat_pool_id_t){0, 0})) {
        pleat_error_set("(0, 0) is no id of a private pool");
        return PLEAT_ERR_INVALID;
    }
    pleat_private_pool_t *pool = pleat_private_pool_find(pools, id);
    if (pool == NULL) {
        return pool_create(pools, id, source);
    }
    const pleat_status_t status = pool_check_use(pool, source != NULL);
    pool->use_count += status == PLEAT_OK;
    return status;
}

static pleat_status_t private_pool_refuse_null(const char *function)
{
    pleat_error_set("%s: allocator is NULL", function);
    return PLEAT_ERR_INVALID;
}

pleat_status_t pleat_pool_acquire(pleat_allocator_t *allocator, pleat_pool_id_t id,
                                  const pleat_segment_source_t *source)
{
    if (allocator == NULL) {
        return private_pool_refuse_null(__func__);
    }
    pleat_segment_source_t checked = PLEAT_SEGMENT_SOURCE_INIT;
    pleat_status_t status = source == NULL ? PLEAT_OK : source_read(source, &checked);
    if (status != PLEAT_OK) {
        return status;
    }
    pleat_lock_acquire(&allocator->lock);
    status = pool_acquire(&allocator->private_pools, id, source == NULL ? NULL : &checked);
    pleat_lock_release(&allocator->lock);
    return status;
}

static pleat_status_t pool_release(const pleat_private_pools_t *pools, pleat_pool_id_t id)
{
    pleat_private_pool_t *pool = NULL;
    const pleat_status_t status = pool_require(pools, id, &pool);
    if (status == PLEAT_OK && pool->use_count == 0) {
        pleat_error_set("private pool (%llu, %llu) has no use left to release",
                        (unsigned long long)id.first, (unsigned long long)id.second);
        return PLEAT_ERR_INVALID;
    }
    if (status == PLEAT_OK) {
        pool->use_count--;
    }
    return status;
}

pleat_status_t pleat_pool_release(pleat_allocator_t *allocator, pleat_pool_id_t id)
{
    if (allocator == NULL) {
        return private_pool_refuse_null(__func__);
    }
    pleat_lock_acquire(&allocator->lock);
    const pleat_status_t status = pool_release(&allocator->private_pools, id);
    pleat_lock_release(&allocator->lock);
    return status;
}

uint64_t pleat_pool_use_count(pleat_allocator_t *allocator, pleat_pool_id_t id)
{
    if (allocator == NULL) {
        return 0;
    }
    pleat_lock_acquire(&allocator->lock);
    const pleat_private_pool_t *pool = pleat_private_pool_find(&allocator->private_pools, id);
    const uint64_t use_count = pool == NULL ? 0 : pool->use_count;
    pleat_lock_release(&allocator->lock);
    return use_count;
}

/* ---- redirections ---- */

/* Index of the redirection to a pool, SIZE_MAX: none is open. */
static size_t redirection_index(const pleat_private_pools_t *pools, pleat_pool_id_t id)
{
    const size_t count = atomic_load_explicit(&pools->redirection_count, memory_order_relaxed);
    for (size_t i = 0; i < count; i++) {
        if (id_equals(pools->redirections[i].pool->id, id)) {
            return i;
        }
    }
    return SIZE_MAX;
}

static bool redirection_reserve(pleat_private_pools_t *pools)
{
    const size_t count = atomic_load_explicit(&pools->redirection_count, memory_order_relaxed);
    if (count < pools->redirection_capacity) {
        return true;
    }
    const size_t capacity = count == 0 ? 4 : 2 * count;
    pleat_redirection_t *redirections =
        realloc(pools->redirections, capacity * sizeof(*redirections));
    if (redirections == NULL) {
        return false;
    }
    pools->redirections = redirections;
    pools->redirection_capacity = capacity;
    return true;
}

/* PyTorch adds the use before it refuses a second redirection; here a refusal changes nothing. */
static pleat_status_t redirection_open(pleat_private_pools_t *pools, pleat_pool_id_t id,
                                       pleat_pool_filter_fn_t filter, void *filter_context)
{
    if (redirection_index(pools, id) != SIZE_MAX) {
        pleat_error_set("already recording to mempool_id (%llu, %llu)",
                        (unsigned long long)id.first, (unsigned long long)id.second);
        return PLEAT_ERR_INVALID;
    }
    if (!redirection_reserve(pools)) {
        pleat_error_set("no host memory for a redirection");
        return PLEAT_ERR_OOM_HOST;
    }
    const pleat_status_t status = pool_acquire(pools, id, NULL);
    if (status != PLEAT_OK) {
        return status;
    }
    pleat_private_pool_t *pool = pleat_private_pool_find(pools, id);
    pleat_private_pool_pin(pool);
    const size_t count = atomic_load_explicit(&pools->redirection_count, memory_order_relaxed);
    pools->redirections[count] =
        (pleat_redirection_t){.pool = pool, .filter = filter, .filter_context = filter_context};
    atomic_store_explicit(&pools->redirection_count, count + 1, memory_order_relaxed);
    return PLEAT_OK;
}

static pleat_status_t redirection_close(pleat_private_pools_t *pools, pleat_pool_id_t id)
{
    const size_t index = redirection_index(pools, id);
    if (index == SIZE_MAX) {
        pleat_error_set("not currently recording to mempool_id (%llu, %llu)",
                        (unsigned long long)id.first, (unsigned long long)id.second);
        return PLEAT_ERR_INVALID;
    }
    const size_t count = atomic_load_explicit(&pools->redirection_count, memory_order_relaxed);
    pleat_private_pool_unpin(pools->redirections[index].pool);
    memmove(&pools->redirections[index], &pools->redirections[index + 1],
            (count - index - 1) * sizeof(*pools->redirections));
    atomic_store_explicit(&pools->redirection_count, count - 1, memory_order_relaxed);
    return PLEAT_OK;
}

pleat_status_t pleat_pool_begin(pleat_allocator_t *allocator, pleat_pool_id_t id,
                                pleat_pool_filter_fn_t filter, void *filter_context)
{
    if (allocator == NULL) {
        return private_pool_refuse_null(__func__);
    }
    pleat_lock_acquire(&allocator->lock);
    const pleat_status_t status =
        redirection_open(&allocator->private_pools, id, filter, filter_context);
    pleat_lock_release(&allocator->lock);
    return status;
}

pleat_status_t pleat_pool_end(pleat_allocator_t *allocator, pleat_pool_id_t id)
{
    if (allocator == NULL) {
        return private_pool_refuse_null(__func__);
    }
    pleat_lock_acquire(&allocator->lock);
    const pleat_status_t status = redirection_close(&allocator->private_pools, id);
    pleat_capture_order_forget(&allocator->waiting.capture);
    pleat_lock_release(&allocator->lock);
    return status;
}

bool pleat_pool_is_redirecting(const pleat_allocator_t *allocator)
{
    return allocator != NULL && pleat_private_pools_are_redirecting(&allocator->private_pools);
}

/* ---- marks ---- */

pleat_status_t pleat_pool_set_overflow(pleat_allocator_t *allocator, pleat_pool_id_t id,
                                       bool is_overflow)
{
    if (allocator == NULL) {
        return private_pool_refuse_null(__func__);
    }
    pleat_lock_acquire(&allocator->lock);
    pleat_private_pool_t *pool = NULL;
    const pleat_status_t status = pool_require(&allocator->private_pools, id, &pool);
    if (status == PLEAT_OK) {
        pool->is_overflow = is_overflow;
    }
    pleat_lock_release(&allocator->lock);
    return status;
}

pleat_status_t pleat_pool_set_no_split(pleat_allocator_t *allocator, pleat_pool_id_t id)
{
    if (allocator == NULL) {
        return private_pool_refuse_null(__func__);
    }
    pleat_lock_acquire(&allocator->lock);
    pleat_private_pool_t *pool = NULL;
    const pleat_status_t status = pool_require(&allocator->private_pools, id, &pool);
    if (status == PLEAT_OK) {
        pool->large.keeps_whole = true;
        pool->small.keeps_whole = true;
    }
    pleat_lock_release(&allocator->lock);
    return status;
}

/* ---- memory back ---- */

pleat_status_t pleat_pool_empty(pleat_allocator_t *allocator, pleat_pool_id_t id)
{
    if (allocator == NULL) {
        return private_pool_refuse_null(__func__);
    }
    pleat_lock_acquire(&allocator->lock);
    pleat_private_pool_t *pool = pleat_private_pool_find(&allocator->private_pools, id);
    const pleat_status_t status = pool == NULL || pool->use_count > 0
                                      ? PLEAT_OK
                                      : pleat_reclaim_one_freeable(allocator, pool);
    pleat_lock_release(&allocator->lock);
    return status;
}

pleat_status_t pleat_allocator_set_freeable_order(pleat_allocator_t *allocator,
                                                  const pleat_pool_id_t *ids, size_t count)
{
    pleat_private_pools_t *pools = &allocator->private_pools;
    pleat_status_t status = PLEAT_OK;
    pleat_lock_acquire(&allocator->lock);
    if (count > 0) {
        pleat_pool_id_t *copy = realloc(pools->freeable_order, count * sizeof(*copy));
        if (copy == NULL) {
            pleat_error_set("no host memory for an order of %zu pools", count);
            status = PLEAT_ERR_OOM_HOST;
        } else {
            memcpy(copy, ids, count * sizeof(*copy));
            pools->freeable_order = copy;
        }
    }
    if (status == PLEAT_OK) {
        pools->freeable_order_count = count;
    }
    pleat_lock_release(&allocator->lock);
    return status;
}
