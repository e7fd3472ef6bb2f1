/*
 * backing_classic: every segment is one plain device allocation; it goes back when all its blocks
 * are one free block again.
 *
 * Source: PyTorch 2.11's default mode, decision for decision.
 */
#include "allocator.h"
#include "reclaim.h"

#include "../vmm/vmm.h"

#define CLASSIC_SUPPLY_BLOCKS 1 /* of a segment */

/* A free block over fresh memory, which stands in no set yet. */
static pleat_block_t *classic_make_block(pleat_allocator_t *allocator,
                                         const pleat_request_t *request, pleat_devptr_t address)
{
    const pleat_block_identity_t identity = {.address = address,
                                             .bytes = request->segment_bytes,
                                             .stream = request->stream,
                                             .pool = request->pool,
                                             .bins = request->bins,
                                             .use = PLEAT_BLOCK_USE_FREE};
    return pleat_block_store_make(&allocator->blocks, &identity);
}

/*
 * A segment of the device, for which others need not wait: they may do anything meanwhile, change
 * the mode or take what the search missed, but not end the pool, which is pinned. Nobody gets what
 * the request still needs: the objects of its blocks are set aside, and the bytes count as held, so
 * that requests that ask at the same time keep the limit together. PyTorch, which adds them
 * afterwards, can exceed it.
 */
static pleat_status_t __attribute__((noinline))
classic_obtain_apart(pleat_allocator_t *allocator, const pleat_request_t *request,
                     pleat_devptr_t *address_out)
{
    const uint64_t bytes = request->segment_bytes;
    PLEAT_ASSERT(request->pool->owner == NULL || request->pool->owner->pin_count > 0);
    pleat_block_t *blocks =
        pleat_block_store_set_aside(&allocator->blocks, CLASSIC_SUPPLY_BLOCKS + 1);
    allocator->held_bytes += bytes;
    allocator->asked_bytes += bytes;
    pleat_vmm_apart_t apart;
    pleat_vmm_apart_begin(allocator->vmm, bytes, &apart);
    pleat_lock_release(&allocator->lock);
    pleat_vmm_apart_run(allocator->vmm, &apart);
    pleat_lock_acquire(&allocator->lock);
    allocator->held_bytes -= bytes;
    allocator->asked_bytes -= bytes;
    pleat_block_store_put_back(&allocator->blocks, blocks);
    /* Without it the map is only slower: memory that is there is not refused for that. */
    const bool ignored = pleat_address_map_reserve(&allocator->live);
    (void)ignored;
    return pleat_vmm_apart_end(allocator->vmm, &apart, address_out);
}

/* A segment of the device, or of the pool's own source. */
static pleat_status_t classic_obtain(pleat_allocator_t *allocator, const pleat_request_t *request,
                                     pleat_devptr_t *address_out)
{
    const pleat_private_pool_t *owner = request->pool->owner;
    if (owner == NULL || owner->source.alloc == NULL) {
        return allocator->options.release_lock_on_alloc != 0 &&
                       pleat_vmm_allocates_apart(allocator->vmm)
                   ? classic_obtain_apart(allocator, request, address_out)
                   : pleat_vmm_mem_alloc(allocator->vmm, request->segment_bytes, address_out);
    }
    const pleat_devptr_t address =
        owner->source.alloc(owner->source.context, request->segment_bytes, request->stream);
    if (address == 0) {
        pleat_error_set("the source of a private pool has no %llu bytes",
                        (unsigned long long)request->segment_bytes);
        return PLEAT_ERR_OOM_DEVICE;
    }
    *address_out = address;
    return PLEAT_OK;
}

pleat_status_t pleat_backing_classic_give_back(pleat_allocator_t *allocator,
                                               const pleat_block_t *block, uint64_t bytes)
{
    const pleat_private_pool_t *owner = block->pool->owner;
    if (owner == NULL || owner->source.alloc == NULL) {
        return pleat_vmm_mem_free(allocator->vmm, block->address);
    }
    owner->source.free(owner->source.context, block->address, bytes, block->stream);
    return PLEAT_OK;
}

static pleat_status_t classic_grow(pleat_allocator_t *allocator, const pleat_request_t *request,
                                   pleat_block_t **block_out)
{
    const uint64_t bytes = request->segment_bytes;
    pleat_private_pool_t *owner = request->pool->owner;
    pleat_devptr_t address = 0;
    const pleat_status_t status = classic_obtain(allocator, request, &address);
    if (status != PLEAT_OK) {
        return status;
    }
    *block_out = classic_make_block(allocator, request, address);
    pleat_private_pool_hold(owner);
    allocator->held_bytes += bytes;
    pleat_stats_t *stats = &allocator->stats;
    pleat_stats_increase(stats->segment, request->pool->kind, 1);
    pleat_stats_increase(stats->reserved_bytes, request->pool->kind, bytes);
    if (bytes >= allocator->options.max_split_bytes) {
        pleat_stat_increase(&stats->oversize_segments, 1);
    }
    stats->num_device_alloc += 1;
    pleat_allocator_trace(allocator, PLEAT_ACTION_SEGMENT_ALLOC, address, bytes, request->stream);
    return PLEAT_OK;
}

static bool classic_should_split(const pleat_allocator_t *allocator, const pleat_block_t *block,
                                 const pleat_request_t *request)
{
    const uint64_t rest_bytes = block->bytes - request->bytes;
    if (pleat_pool_is_small(block->pool)) {
        return rest_bytes >= PLEAT_BLOCK_UNIT_BYTES;
    }
    return request->bytes < allocator->options.max_split_bytes &&
           rest_bytes > PLEAT_SMALL_MAX_BYTES;
}

pleat_status_t pleat_backing_classic_release(pleat_allocator_t *allocator, pleat_block_t *block)
{
    PLEAT_ASSERT(pleat_backing_is_whole(block));
    const pleat_status_t status = pleat_backing_classic_give_back(allocator, block, block->bytes);
    if (status != PLEAT_OK) {
        return status;
    }
    pleat_private_pool_let_go(block->pool->owner);
    pleat_stats_t *stats = &allocator->stats;
    stats->num_device_free += 1;
    pleat_allocator_trace(allocator, PLEAT_ACTION_SEGMENT_FREE, block->address, block->bytes,
                          block->stream);
    PLEAT_ASSERT(allocator->held_bytes >= block->bytes);
    allocator->held_bytes -= block->bytes;
    pleat_stats_decrease(stats->segment, block->pool->kind, 1);
    pleat_stats_decrease(stats->reserved_bytes, block->pool->kind, block->bytes);
    if (block->bytes >= allocator->options.max_split_bytes) {
        pleat_stat_decrease(&stats->oversize_segments, 1);
    }
    pleat_pool_take(block->pool, block);
    pleat_block_store_give(&allocator->blocks, block);
    return PLEAT_OK;
}

static pleat_status_t classic_supply(pleat_allocator_t *allocator, pleat_request_t *request,
                                     pleat_block_t **block_out)
{
    return pleat_reclaim_chain(allocator, request, classic_grow, block_out);
}

/* Blocks of ranges, left from another mode, are not handed out. */
static pleat_block_t *classic_choose(pleat_allocator_t *allocator, const pleat_request_t *request,
                                     pleat_block_t *best)
{
    (void)allocator;
    pleat_block_t *block = best;
    while (block != NULL && !pleat_block_is_plain(block)) {
        block = pleat_free_set_next(&request->pool->free_blocks, block);
        if (block != NULL && block->stream != request->stream) {
            block = NULL;
        }
    }
    return block;
}

const pleat_backing_ops_t *pleat_backing_classic(void)
{
    static const pleat_backing_ops_t ops = {
        .name = "classic",
        .supply_block_count = CLASSIC_SUPPLY_BLOCKS,
        .choose = classic_choose,
        .supply = classic_supply,
        .should_split = classic_should_split,
    };
    return &ops;
}
