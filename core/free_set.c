/*
 * free_set: exact best fit over bins of small treaps, and the block inserted last beside them.
 */
#include "free_set.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define BINS_PER_OCTAVE_LOG2 5u
#define BINS_PER_OCTAVE (1u << BINS_PER_OCTAVE_LOG2)
#define UNIT_LOG2 9u /* blocks are multiples of 512 bytes */

static_assert(PLEAT_FREE_SET_BINS % 64 == 0, "whole words");
static_assert(PLEAT_FREE_SET_WORDS <= 64, "one summary word");

/* Bin of a size: exact below 32 units, then 32 bins a power of two; the last bin takes the rest. */
static unsigned free_set_bin(uint64_t bytes)
{
    const uint64_t units = bytes >> UNIT_LOG2;
    if (units < BINS_PER_OCTAVE) {
        return (unsigned)units;
    }
    const unsigned octave = pleat_log2_floor(units) - BINS_PER_OCTAVE_LOG2;
    const unsigned step = (unsigned)(units >> octave) & (BINS_PER_OCTAVE - 1);
    const unsigned bin = (octave + 1) * BINS_PER_OCTAVE + step;
    return bin < PLEAT_FREE_SET_BINS ? bin : PLEAT_FREE_SET_BINS - 1;
}

static bool block_precedes(const pleat_block_t *a, uint64_t bytes, pleat_devptr_t address)
{
    return a->bytes != bytes ? a->bytes < bytes : a->address < address;
}

static uint32_t block_priority(const pleat_block_t *block)
{
    const uint64_t mixed = (block->address >> UNIT_LOG2) * UINT64_C(0x9E3779B97F4A7C15);
    return (uint32_t)(mixed >> 32);
}

/* ---- treap ---- */

static void treap_insert(pleat_block_t **link, pleat_block_t *block)
{
    while (*link != NULL && (*link)->priority >= block->priority) {
        pleat_block_t *node = *link;
        link = &node->child[block_precedes(node, block->bytes, block->address)];
    }
    /* split what hangs here by the key of the block */
    pleat_block_t *rest = *link;
    pleat_block_t **lower = &block->child[0];
    pleat_block_t **higher = &block->child[1];
    *link = block;
    while (rest != NULL) {
        if (block_precedes(rest, block->bytes, block->address)) {
            *lower = rest;
            lower = &rest->child[1];
            rest = rest->child[1];
        } else {
            *higher = rest;
            higher = &rest->child[0];
            rest = rest->child[0];
        }
    }
    *lower = NULL;
    *higher = NULL;
}

static void treap_remove(pleat_block_t **link, pleat_block_t *block)
{
    while (*link != block) {
        pleat_block_t *node = *link;
        PLEAT_ASSERT(node != NULL);
        link = &node->child[block_precedes(node, block->bytes, block->address)];
    }
    pleat_block_t *lower = block->child[0];
    pleat_block_t *higher = block->child[1];
    while (lower != NULL && higher != NULL) {
        if (lower->priority >= higher->priority) {
            *link = lower;
            link = &lower->child[1];
            lower = lower->child[1];
        } else {
            *link = higher;
            link = &higher->child[0];
            higher = higher->child[0];
        }
    }
    *link = lower != NULL ? lower : higher;
    block->child[0] = NULL;
    block->child[1] = NULL;
}

/* First node whose key is not below (bytes, address). */
static pleat_block_t *treap_lower_bound(pleat_block_t *node, uint64_t bytes, pleat_devptr_t address)
{
    pleat_block_t *found = NULL;
    while (node != NULL) {
        if (block_precedes(node, bytes, address)) {
            node = node->child[1];
        } else {
            found = node;
            node = node->child[0];
        }
    }
    return found;
}

/* Last node whose key is below (bytes, address). */
static pleat_block_t *treap_before(pleat_block_t *node, uint64_t bytes, pleat_devptr_t address)
{
    pleat_block_t *found = NULL;
    while (node != NULL) {
        if (block_precedes(node, bytes, address)) {
            found = node;
            node = node->child[1];
        } else {
            node = node->child[0];
        }
    }
    return found;
}

static pleat_block_t *treap_end(pleat_block_t *node, int side)
{
    while (node->child[side] != NULL) {
        node = node->child[side];
    }
    return node;
}

/* ---- bins of one stream ---- */

/* First bin in use at or behind @p bin; PLEAT_FREE_SET_BINS: none. */
static unsigned bins_next(const pleat_free_bins_t *bins, unsigned bin)
{
    if (bin >= PLEAT_FREE_SET_BINS) {
        return PLEAT_FREE_SET_BINS;
    }
    unsigned word = bin / 64;
    const uint64_t here = bins->words[word] & (~UINT64_C(0) << (bin % 64));
    if (here != 0) {
        return word * 64 + (unsigned)__builtin_ctzll(here);
    }
    const uint64_t behind = word == 63 ? 0 : bins->summary & (~UINT64_C(0) << (word + 1));
    if (behind == 0) {
        return PLEAT_FREE_SET_BINS;
    }
    word = (unsigned)__builtin_ctzll(behind);
    return word * 64 + (unsigned)__builtin_ctzll(bins->words[word]);
}

/* Last bin in use before @p bin; PLEAT_FREE_SET_BINS: none. */
static unsigned bins_previous(const pleat_free_bins_t *bins, unsigned bin)
{
    unsigned word = bin / 64;
    if (bin % 64 != 0) {
        const uint64_t here = bins->words[word] & ((UINT64_C(1) << (bin % 64)) - 1);
        if (here != 0) {
            return word * 64 + pleat_log2_floor(here);
        }
    }
    const uint64_t before = bins->summary & ((UINT64_C(1) << word) - 1);
    if (before == 0) {
        return PLEAT_FREE_SET_BINS;
    }
    word = pleat_log2_floor(before);
    return word * 64 + pleat_log2_floor(bins->words[word]);
}

/* First block in the bins that has at least @p bytes. */
static pleat_block_t *bins_find(const pleat_free_bins_t *bins, uint64_t bytes)
{
    const unsigned bin = free_set_bin(bytes);
    pleat_block_t *found = NULL;
    for (pleat_block_t *node = bins->roots[bin]; node != NULL;) {
        const bool is_below = node->bytes < bytes;
        found = is_below ? found : node;
        node = node->child[is_below];
    }
    if (found != NULL) {
        return found;
    }
    const unsigned next = bins_next(bins, bin + 1);
    return next < PLEAT_FREE_SET_BINS ? treap_end(bins->roots[next], 0) : NULL;
}

pleat_block_t *pleat_free_bins_find(const pleat_free_bins_t *bins, uint64_t bytes)
{
    pleat_block_t *found = bins->summary == 0 ? NULL : bins_find(bins, bytes);
    pleat_block_t *recent = bins->set->recent;
    if (recent == NULL || recent->bins != bins || recent->bytes < bytes) {
        return found;
    }
    return found == NULL || block_precedes(recent, found->bytes, found->address) ? recent : found;
}

static pleat_block_t *bins_lower_bound(const pleat_free_bins_t *bins, uint64_t bytes,
                                       pleat_devptr_t address)
{
    const unsigned bin = free_set_bin(bytes);
    pleat_block_t *found = treap_lower_bound(bins->roots[bin], bytes, address);
    if (found != NULL) {
        return found;
    }
    const unsigned next = bins_next(bins, bin + 1);
    return next < PLEAT_FREE_SET_BINS ? treap_end(bins->roots[next], 0) : NULL;
}

static pleat_block_t *bins_before(const pleat_free_bins_t *bins, uint64_t bytes,
                                  pleat_devptr_t address)
{
    const unsigned bin = free_set_bin(bytes);
    pleat_block_t *found = treap_before(bins->roots[bin], bytes, address);
    if (found != NULL) {
        return found;
    }
    const unsigned previous = bins_previous(bins, bin);
    return previous < PLEAT_FREE_SET_BINS ? treap_end(bins->roots[previous], 1) : NULL;
}

static pleat_block_t *bins_first(const pleat_free_bins_t *bins)
{
    return bins->block_count == 0 ? NULL : treap_end(bins->roots[bins_next(bins, 0)], 0);
}

static pleat_block_t *bins_last(const pleat_free_bins_t *bins)
{
    if (bins->block_count == 0) {
        return NULL;
    }
    const unsigned word = pleat_log2_floor(bins->summary);
    return treap_end(bins->roots[word * 64 + pleat_log2_floor(bins->words[word])], 1);
}

/* ---- blocks ---- */

void pleat_free_bins_put(pleat_block_t *block)
{
    pleat_free_bins_t *bins = block->bins;
    PLEAT_ASSERT(block->child[0] == NULL);
    PLEAT_ASSERT(block->child[1] == NULL);
    const unsigned bin = free_set_bin(block->bytes);
    pleat_block_t **root = &bins->roots[bin];
    block->bin = bin;
    block->priority = block_priority(block);
    bins->block_count++;
    if (*root != NULL) {
        treap_insert(root, block);
        return;
    }
    *root = block;
    bins->words[bin / 64] |= UINT64_C(1) << (bin % 64);
    bins->summary |= UINT64_C(1) << (bin / 64);
}

void pleat_free_bins_cut(pleat_block_t *block)
{
    pleat_free_bins_t *bins = block->bins;
    const unsigned bin = block->bin;
    pleat_block_t **root = &bins->roots[bin];
    bins->block_count--;
    if (*root != block || block->child[0] != NULL || block->child[1] != NULL) {
        treap_remove(root, block);
        return;
    }
    *root = NULL;
    bins->words[bin / 64] &= ~(UINT64_C(1) << (bin % 64));
    if (bins->words[bin / 64] == 0) {
        bins->summary &= ~(UINT64_C(1) << (bin / 64));
    }
}

/* Bring all blocks into their bins (F4). */
static void free_set_settle(pleat_free_set_t *set)
{
    pleat_block_t *recent = set->recent;
    if (recent != NULL) {
        set->recent = NULL;
        pleat_free_bins_put(recent);
    }
}

/* ---- streams ---- */

/* Index of the first stream that is not below @p stream. */
static size_t free_set_stream_index(const pleat_free_set_t *set, pleat_stream_t stream)
{
    size_t low = 0;
    size_t high = set->stream_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (set->streams[middle]->stream < stream) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* The bins of a stream, NULL if it was never seen. */
static pleat_free_bins_t *free_set_bins(const pleat_free_set_t *set, pleat_stream_t stream)
{
    const size_t index = free_set_stream_index(set, stream);
    if (index == set->stream_count || set->streams[index]->stream != stream) {
        return NULL;
    }
    return set->streams[index];
}

static bool free_set_grow(pleat_free_set_t *set)
{
    if (set->stream_count < set->stream_capacity) {
        return true;
    }
    const size_t capacity = set->stream_capacity == 0 ? 4 : set->stream_capacity * 2;
    pleat_free_bins_t **streams =
        (pleat_free_bins_t **)realloc((void *)set->streams, capacity * sizeof(*streams));
    if (streams == NULL) {
        return false;
    }
    set->streams = streams;
    set->stream_capacity = capacity;
    return true;
}

pleat_free_bins_t *pleat_free_set_add_stream(pleat_free_set_t *set, pleat_stream_t stream)
{
    const size_t index = free_set_stream_index(set, stream);
    if (index < set->stream_count && set->streams[index]->stream == stream) {
        set->last_reserved = set->streams[index];
        return set->last_reserved;
    }
    pleat_free_bins_t *bins = calloc(1, sizeof(*bins));
    if (bins == NULL) {
        return NULL;
    }
    if (!free_set_grow(set)) {
        free(bins);
        return NULL;
    }
    bins->stream = stream;
    bins->set = set;
    memmove((void *)&set->streams[index + 1], (void *)&set->streams[index],
            (set->stream_count - index) * sizeof(*set->streams));
    set->streams[index] = bins;
    set->stream_count++;
    set->last_reserved = bins;
    return bins;
}

pleat_block_t *pleat_free_set_find(const pleat_free_set_t *set, pleat_stream_t stream,
                                   uint64_t bytes)
{
    const pleat_free_bins_t *bins = free_set_bins(set, stream);
    return bins == NULL ? NULL : pleat_free_bins_find(bins, bytes);
}

static pleat_block_t *free_set_first_from(const pleat_free_set_t *set, size_t index)
{
    for (size_t i = index; i < set->stream_count; i++) {
        pleat_block_t *found = bins_first(set->streams[i]);
        if (found != NULL) {
            return found;
        }
    }
    return NULL;
}

static pleat_block_t *free_set_last_before(const pleat_free_set_t *set, size_t index)
{
    for (size_t i = index; i-- > 0;) {
        pleat_block_t *found = bins_last(set->streams[i]);
        if (found != NULL) {
            return found;
        }
    }
    return NULL;
}

pleat_block_t *pleat_free_set_first(pleat_free_set_t *set)
{
    free_set_settle(set);
    return free_set_first_from(set, 0);
}

pleat_block_t *pleat_free_set_next(pleat_free_set_t *set, const pleat_block_t *block)
{
    free_set_settle(set);
    const size_t index = free_set_stream_index(set, block->stream);
    PLEAT_ASSERT(index < set->stream_count);
    pleat_block_t *found = bins_lower_bound(set->streams[index], block->bytes, block->address + 1);
    return found != NULL ? found : free_set_first_from(set, index + 1);
}

pleat_block_t *pleat_free_set_previous(pleat_free_set_t *set, const pleat_block_t *block)
{
    free_set_settle(set);
    const size_t index = free_set_stream_index(set, block->stream);
    PLEAT_ASSERT(index < set->stream_count);
    pleat_block_t *found = bins_before(set->streams[index], block->bytes, block->address);
    return found != NULL ? found : free_set_last_before(set, index);
}

pleat_block_t *pleat_free_set_before(pleat_free_set_t *set, pleat_stream_t stream, uint64_t bytes)
{
    free_set_settle(set);
    const size_t index = free_set_stream_index(set, stream);
    if (index < set->stream_count && set->streams[index]->stream == stream) {
        pleat_block_t *found = bins_before(set->streams[index], bytes, 0);
        if (found != NULL) {
            return found;
        }
    }
    return free_set_last_before(set, index);
}

bool pleat_free_set_contains(const pleat_free_set_t *set, const pleat_block_t *block)
{
    if (block == set->recent) {
        return true;
    }
    const pleat_free_bins_t *bins = free_set_bins(set, block->stream);
    return bins != NULL && treap_lower_bound(bins->roots[free_set_bin(block->bytes)], block->bytes,
                                             block->address) == block;
}

size_t pleat_free_set_count(const pleat_free_set_t *set)
{
    size_t count = set->recent != NULL ? 1 : 0;
    for (size_t i = 0; i < set->stream_count; i++) {
        count += set->streams[i]->block_count;
    }
    return count;
}

/* ---- check ---- */

/* Blocks below @p node, or SIZE_MAX after a violation. */
static size_t treap_check(const pleat_block_t *node, const pleat_free_bins_t *bins, unsigned bin)
{
    if (node->stream != bins->stream || node->bins != bins || node->bin != bin ||
        free_set_bin(node->bytes) != bin) {
        pleat_error_set("F2: block 0x%llx of %llu bytes lies in bin %u of stream %llu",
                        (unsigned long long)node->address, (unsigned long long)node->bytes, bin,
                        (unsigned long long)bins->stream);
        return SIZE_MAX;
    }
    size_t count = 1;
    for (int side = 0; side < 2; side++) {
        const pleat_block_t *child = node->child[side];
        if (child == NULL) {
            continue;
        }
        if (child->priority > node->priority ||
            block_precedes(child, node->bytes, node->address) != (side == 0)) {
            pleat_error_set("F3: blocks 0x%llx and 0x%llx stand in the wrong order",
                            (unsigned long long)node->address, (unsigned long long)child->address);
            return SIZE_MAX;
        }
        const size_t below = treap_check(child, bins, bin);
        if (below == SIZE_MAX) {
            return SIZE_MAX;
        }
        count += below;
    }
    return count;
}

static bool bins_check(const pleat_free_bins_t *bins)
{
    size_t count = 0;
    for (unsigned bin = 0; bin < PLEAT_FREE_SET_BINS; bin++) {
        const bool has_bit = (bins->words[bin / 64] >> (bin % 64) & 1) != 0;
        if (has_bit != (bins->roots[bin] != NULL)) {
            pleat_error_set("F1: bit of bin %u of stream %llu is wrong", bin,
                            (unsigned long long)bins->stream);
            return false;
        }
        if (!has_bit) {
            continue;
        }
        const size_t below = treap_check(bins->roots[bin], bins, bin);
        if (below == SIZE_MAX) {
            return false;
        }
        count += below;
    }
    for (unsigned word = 0; word < PLEAT_FREE_SET_WORDS; word++) {
        if ((bins->summary >> word & 1) != (bins->words[word] != 0)) {
            pleat_error_set("F1: summary bit %u of stream %llu is wrong", word,
                            (unsigned long long)bins->stream);
            return false;
        }
    }
    if (count != bins->block_count) {
        pleat_error_set("F1: stream %llu counts %zu blocks and holds %zu",
                        (unsigned long long)bins->stream, bins->block_count, count);
        return false;
    }
    return true;
}

/* F4: the block inserted last belongs here and lies in no bin. */
static bool free_set_check_recent(const pleat_free_set_t *set)
{
    const pleat_block_t *recent = set->recent;
    if (recent == NULL) {
        return true;
    }
    const pleat_free_bins_t *bins = free_set_bins(set, recent->stream);
    if (bins == NULL || recent->bins != bins || recent->child[0] != NULL ||
        recent->child[1] != NULL ||
        treap_lower_bound(bins->roots[free_set_bin(recent->bytes)], recent->bytes,
                          recent->address) == recent) {
        pleat_error_set("F4: block 0x%llx of %llu bytes was inserted last and is not outside its "
                        "bins",
                        (unsigned long long)recent->address, (unsigned long long)recent->bytes);
        return false;
    }
    return true;
}

bool pleat_free_set_check(const pleat_free_set_t *set)
{
    for (size_t i = 0; i < set->stream_count; i++) {
        if (!bins_check(set->streams[i])) {
            return false;
        }
    }
    return free_set_check_recent(set);
}

void pleat_free_set_fini(pleat_free_set_t *set)
{
    for (size_t i = 0; i < set->stream_count; i++) {
        free(set->streams[i]);
    }
    free((void *)set->streams);
    memset(set, 0, sizeof(*set));
}
