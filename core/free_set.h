/*
 * free_set: the free blocks of one pool, ordered by (stream, size, address).
 *
 * Each stream has its own bins, 32 a power of two of the size in units of 512 bytes, so that small
 * sizes have a bin of their own; a bitmap finds the next bin in use. Inside a bin the blocks form
 * a treap ordered by (size, address), which is nearly always a handful of nodes. Best fit is
 * therefore exact (the smallest block that suffices, the lowest address among equals) at close to
 * constant cost.
 *
 * The block that was inserted last stays outside the bins until another one comes or somebody walks
 * through the set: more often than not it is taken out again at once, as the rest that the next
 * free merges with, or as what the next request of the same size gets.
 *
 * Sources: the bins are those of M. Masmano et al., "TLSF: a new dynamic memory allocator for
 * real-time systems" (ECRTS 2004), made exact; treaps: R. Seidel, C. Aragon, "Randomized search
 * trees" (Algorithmica 16, 1996), with a hash of the address as the priority.
 *
 * Invariants (free_set_check): F1 a bin's bit is set exactly if its treap is not empty; F2 every
 * block lies in the bin of its size and stream, and knows it; F3 treap order and heap order hold;
 * F4 the block inserted last is in no bin.
 * A block outside every set has no children.
 * Guarded by the lock of the owning allocator.
 */
#ifndef PLEAT_FREE_SET_H
#define PLEAT_FREE_SET_H

#include "block.h"

#define PLEAT_FREE_SET_BINS 1408
#define PLEAT_FREE_SET_WORDS (PLEAT_FREE_SET_BINS / 64)

typedef struct pleat_free_set pleat_free_set_t;

struct pleat_free_bins {
    pleat_stream_t stream;
    pleat_free_set_t *set;
    size_t block_count;
    uint64_t summary; /* bit w: words[w] is not 0 */
    uint64_t words[PLEAT_FREE_SET_WORDS];
    pleat_block_t *roots[PLEAT_FREE_SET_BINS];
};

struct pleat_free_set {
    pleat_block_t *recent;       /* inserted last and not yet in a bin, or NULL */
    pleat_free_bins_t **streams; /* rising by stream */
    size_t stream_count;
    size_t stream_capacity;
    pleat_free_bins_t *last_reserved; /* most requests come from few streams */
};

/* Look the bins of @p stream up or make them. NULL: no host memory, nothing changed.
 * O(log streams). */
PLEAT_NODISCARD pleat_free_bins_t *pleat_free_set_add_stream(pleat_free_set_t *set,
                                                             pleat_stream_t stream);

/*
 * The bins of @p stream, made if need be: they stay where they are for the life of the set, and a
 * block of the stream keeps them in block->bins. The set must stay where it is, too. NULL: no host
 * memory, nothing changed. Constant for the stream of the last call.
 */
PLEAT_NODISCARD static inline pleat_free_bins_t *pleat_free_set_reserve(pleat_free_set_t *set,
                                                                        pleat_stream_t stream)
{
    pleat_free_bins_t *bins = set->last_reserved;
    return bins != NULL && bins->stream == stream ? bins : pleat_free_set_add_stream(set, stream);
}

/* Into its bin, and out of it: the parts of insert and remove that are not always needed. */
void pleat_free_bins_put(pleat_block_t *block);
void pleat_free_bins_cut(pleat_block_t *block);

/* Insert a block whose bins are set. O(log blocks of about the size of the one inserted before). */
static inline void pleat_free_set_insert(pleat_block_t *block)
{
    pleat_free_set_t *set = block->bins->set;
    pleat_block_t *before = set->recent;
    PLEAT_ASSERT(block->bins->stream == block->stream);
    PLEAT_ASSERT(block->use == PLEAT_BLOCK_USE_FREE);
    PLEAT_ASSERT(before != block);
    set->recent = block;
    if (before != NULL) {
        pleat_free_bins_put(before);
    }
}

/* Remove a block that is in a set. O(log blocks of about this size). */
static inline void pleat_free_set_remove(pleat_block_t *block)
{
    pleat_free_set_t *set = block->bins->set;
    if (set->recent == block) {
        set->recent = NULL;
    } else {
        pleat_free_bins_cut(block);
    }
}

/* First block, in the order of the set, that has at least @p bytes; NULL: none. */
pleat_block_t *pleat_free_bins_find(const pleat_free_bins_t *bins, uint64_t bytes);

/* The same by stream. */
pleat_block_t *pleat_free_set_find(const pleat_free_set_t *set, pleat_stream_t stream,
                                   uint64_t bytes);

/* First of all blocks, and the one behind or before a block of the set, across streams; NULL at
 * the ends. O(log). */
pleat_block_t *pleat_free_set_first(pleat_free_set_t *set);
pleat_block_t *pleat_free_set_next(pleat_free_set_t *set, const pleat_block_t *block);
pleat_block_t *pleat_free_set_previous(pleat_free_set_t *set, const pleat_block_t *block);

/* Last block before the key (stream, bytes, address 0), across streams; NULL: none. */
pleat_block_t *pleat_free_set_before(pleat_free_set_t *set, pleat_stream_t stream, uint64_t bytes);

/* Is this very block in the set? O(log streams + log blocks of about this size). */
bool pleat_free_set_contains(const pleat_free_set_t *set, const pleat_block_t *block);

/* Number of blocks. O(streams). */
size_t pleat_free_set_count(const pleat_free_set_t *set);

/* Verify F1-F4; on a violation the error text is set. O(blocks). */
PLEAT_NODISCARD bool pleat_free_set_check(const pleat_free_set_t *set);

/* Free the storage; the blocks are not touched. */
void pleat_free_set_fini(pleat_free_set_t *set);

#endif
