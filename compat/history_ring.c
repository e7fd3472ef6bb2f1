/*
 * history_ring: growth, overwriting, order by age.
 */
#include "history_ring.h"

#include "vmm/base.h"

#include <stdlib.h>
#include <string.h>

enum { RING_FIRST_COUNT = 256 };

void pleat_history_ring_init(pleat_history_ring_t *ring)
{
    *ring = (pleat_history_ring_t){.max_count = 1};
}

void pleat_history_ring_fini(pleat_history_ring_t *ring)
{
    free(ring->entries);
    ring->entries = NULL;
}

static void ring_reverse(pleat_history_entry_t *entries, uint64_t begin, uint64_t end)
{
    while (begin + 1 < end) {
        const pleat_history_entry_t entry = entries[begin];
        entries[begin++] = entries[--end];
        entries[end] = entry;
    }
}

/* Move the entries [begin, middle) behind [middle, end). */
static void ring_rotate(pleat_history_entry_t *entries, uint64_t begin, uint64_t middle,
                        uint64_t end)
{
    ring_reverse(entries, begin, middle);
    ring_reverse(entries, middle, end);
    ring_reverse(entries, begin, end);
}

void pleat_history_ring_set_max(pleat_history_ring_t *ring, uint64_t max_count)
{
    if (ring->has_old_tail) { /* R2: the tail to the front, then the rest into its order */
        const uint64_t tail_count = ring->count - ring->max_count;
        ring_rotate(ring->entries, 0, ring->max_count, ring->count);
        ring_rotate(ring->entries, tail_count, tail_count + ring->next, ring->count);
    } else {
        ring_rotate(ring->entries, 0, ring->next, ring->count);
    }
    ring->has_old_tail = false;
    ring->next = 0;
    ring->max_count = max_count > 0 ? max_count : 1;
}

static bool ring_grow(pleat_history_ring_t *ring)
{
    uint64_t capacity = ring->capacity > 0 ? 2 * ring->capacity : RING_FIRST_COUNT;
    if (capacity > ring->max_count) {
        capacity = ring->max_count; /* more than now, as count < max_count */
    }
    uint64_t bytes = 0;
    pleat_history_entry_t *entries = NULL;
    if (pleat_multiply_checked(capacity, sizeof *entries, &bytes)) {
        entries = realloc(ring->entries, bytes);
    }
    if (entries == NULL) {
        return false;
    }
    ring->entries = entries;
    ring->capacity = capacity;
    return true;
}

pleat_history_entry_t *pleat_history_ring_place(pleat_history_ring_t *ring, bool *is_old_out)
{
    *is_old_out = ring->count >= ring->max_count;
    if (!*is_old_out) {
        if (ring->count == ring->capacity && !ring_grow(ring)) {
            ring->lost_count++;
            return NULL;
        }
        PLEAT_ASSERT(ring->next == 0); /* R1 */
        return &ring->entries[ring->count++];
    }
    ring->lost_count++;
    pleat_history_entry_t *entry = &ring->entries[ring->next++];
    if (ring->next == ring->max_count) {
        ring->next = 0;
        ring->has_old_tail = ring->count > ring->max_count;
    }
    return entry;
}

void pleat_history_ring_clear(pleat_history_ring_t *ring)
{
    const uint64_t max_count = ring->max_count;
    pleat_history_ring_fini(ring);
    *ring = (pleat_history_ring_t){.max_count = max_count};
}

static pleat_history_entry_t *ring_append(const pleat_history_ring_t *ring, uint64_t begin,
                                          uint64_t end, pleat_history_entry_t *out)
{
    if (begin < end) {
        memcpy(out, &ring->entries[begin], (end - begin) * sizeof *out);
        out += end - begin;
    }
    return out;
}

void pleat_history_ring_copy(const pleat_history_ring_t *ring, pleat_history_entry_t *entries_out)
{
    const uint64_t end = ring->has_old_tail ? ring->max_count : ring->count;
    pleat_history_entry_t *out = ring_append(ring, end, ring->count, entries_out);
    out = ring_append(ring, ring->next, end, out);
    (void)ring_append(ring, 0, ring->next, out);
}
