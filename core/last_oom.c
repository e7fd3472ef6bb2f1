/*
 * last_oom: one copy a thread, one an allocator.
 */
#include "last_oom.h"

#include "allocator.h"

#include <stdatomic.h>
#include <string.h>

/* Of the calling thread; the number is that of the allocator, 0: none failed yet. */
static _Thread_local struct {
    uint64_t number;
    pleat_oom_info_t facts;
} own_oom;

void pleat_last_oom_init(pleat_allocator_t *allocator)
{
    static _Atomic uint64_t count;
    allocator->number = atomic_fetch_add_explicit(&count, 1, memory_order_relaxed) + 1;
    allocator->last_oom.size = sizeof(allocator->last_oom);
}

void pleat_last_oom_keep(pleat_allocator_t *allocator, const pleat_oom_info_t *facts)
{
    allocator->last_oom = *facts;
    own_oom.number = allocator->number;
    own_oom.facts = *facts;
}

void pleat_read_last_oom(pleat_allocator_t *allocator, pleat_oom_info_t *info_out)
{
    if (allocator == NULL || info_out == NULL) {
        return;
    }
    const size_t size = info_out->size;
    pleat_lock_acquire(&allocator->lock);
    const pleat_oom_info_t facts =
        own_oom.number == allocator->number ? own_oom.facts : allocator->last_oom;
    pleat_lock_release(&allocator->lock);
    memcpy(info_out, &facts, size < sizeof(facts) ? size : sizeof(facts));
    info_out->size = size;
}
