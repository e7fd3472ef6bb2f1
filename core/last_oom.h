/*
 * last_oom: the facts of an out-of-memory failure, until they are read. Other threads may fail
 * before that: each thread keeps those of its own last failure, and the allocator the last of all.
 */
#pragma once

#include <pleat/allocator.h>

/* A new allocator, whose number makes it another one than those that were at its place before. */
void pleat_last_oom_init(pleat_allocator_t *allocator);

/* Keep @p facts for the calling thread and for the others; under the allocator's lock. */
void pleat_last_oom_keep(pleat_allocator_t *allocator, const pleat_oom_info_t *facts);
