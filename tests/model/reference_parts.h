/*
 * reference (internal): what its two files share.
 */
#ifndef PLEAT_TEST_REFERENCE_PARTS_H
#define PLEAT_TEST_REFERENCE_PARTS_H

#include "reference.h"

#include <stddef.h>

/* A new block that is like another one; its removal. */
reference_block_t *reference_add_block(reference_t *reference, const reference_block_t *like);
void reference_remove_block(reference_t *reference, reference_block_t *block);

/* Is a block a part of its segment only? */
bool reference_is_part(const reference_t *reference, const reference_block_t *block);

/* A block becomes free; its age starts. */
void reference_make_free(reference_t *reference, reference_block_t *block);

/* The free blocks of a pool in the order of (stream, size, address); the caller frees the list. */
reference_block_t **reference_sort_free(const reference_t *reference, bool is_small,
                                        size_t *count_out);

/* A call of the device: does an injected fault hit it? */
pleat_status_t reference_device_call(reference_t *reference, pleat_vmm_call_t call);

/* An action for the comparison. */
void reference_act(reference_t *reference, pleat_action_t action, uint64_t address, uint64_t bytes,
                   pleat_stream_t stream);

/* A counter moves once; the same in the row of all and of a pool. */
void reference_count(pleat_stat_t *stat, int64_t change);
void reference_count_both(pleat_stat_t *stats, bool is_small, int64_t change);

/* Look at the waits, streams in rising order, each from its oldest on; or wait for all. */
pleat_status_t reference_process_waits(reference_t *reference, bool can_wait);

#endif
