/*
 * reference: the classic mode of the allocator once more, written from the description of PyTorch's
 * behaviour and as plainly as it goes: one list of blocks, searched from end to end, and a device
 * that is a few numbers. It shares no code with the engine.
 *
 * Addresses of fresh segments are the device's choice: the reference is told them. Everything else
 * it predicts: the block chosen, every counter, every action in its order, every device call that
 * an injected fault could hit.
 */
#ifndef PLEAT_TEST_REFERENCE_H
#define PLEAT_TEST_REFERENCE_H

#include <pleat/allocator.h>

enum { REFERENCE_STREAMS = 8, REFERENCE_ACTIONS_MAX = 8192 };

typedef struct reference_block reference_block_t;

struct reference_block {
    uint64_t address;
    uint64_t bytes;
    uint64_t requested_bytes;
    uint64_t segment; /* address of its segment; blocks of one segment are neighbours */
    pleat_stream_t stream;
    bool is_small;
    bool is_free;
    bool is_live;
    uint64_t searches; /* of its pool when it became free */
    unsigned event_count;
    pleat_stream_t uses[REFERENCE_STREAMS]; /* in the order in which they were recorded */
    unsigned use_count;
    reference_block_t *next_spent;
};

/* An event that was recorded on a stream for a block. */
typedef struct reference_wait {
    reference_block_t *block;
    pleat_stream_t stream;
    uint64_t busy_round; /* of the stream when recorded; 0: it was idle */
} reference_wait_t;

typedef struct reference_device {
    uint64_t capacity_bytes;
    uint64_t used_bytes;
    uint64_t faults[PLEAT_VMM_CALL_COUNT]; /* calls until one fails; 0: none */
    pleat_status_t fault_status[PLEAT_VMM_CALL_COUNT];
    bool is_busy[REFERENCE_STREAMS];
    uint64_t busy_round[REFERENCE_STREAMS];
    uint64_t done_round[REFERENCE_STREAMS];
} reference_device_t;

typedef struct reference {
    reference_device_t device;
    pleat_options_t options;
    pleat_stats_t stats;
    uint64_t held_bytes;
    uint64_t searches[2]; /* large, small */
    reference_block_t **blocks;
    size_t block_count;
    size_t block_capacity;
    reference_block_t *spent; /* removed ones, freed at the end */
    reference_wait_t *waits;  /* of all streams, oldest first */
    size_t wait_count;
    size_t wait_capacity;
    uint64_t spare_events;
    pleat_trace_entry_t actions[REFERENCE_ACTIONS_MAX]; /* of the call */
    size_t action_count;
    uint64_t fresh[REFERENCE_ACTIONS_MAX]; /* addresses that the device gave out in the call */
    size_t fresh_count;
    size_t fresh_used;
} reference_t;

void reference_init(reference_t *reference, uint64_t capacity_bytes,
                    const pleat_options_t *options);
void reference_fini(reference_t *reference);

/* Before each call: forget the actions of the last one. Then tell what the device gave out. */
void reference_begin(reference_t *reference);
void reference_add_fresh(reference_t *reference, uint64_t address);

/* The calls of an allocator; each says what must come of it. */
pleat_status_t reference_alloc(reference_t *reference, uint64_t bytes, pleat_stream_t stream,
                               uint64_t *address_out);
pleat_status_t reference_free(reference_t *reference, uint64_t address);
pleat_status_t reference_record(reference_t *reference, uint64_t address, pleat_stream_t stream);
pleat_status_t reference_empty(reference_t *reference);
void reference_reset_peak(reference_t *reference);
void reference_reset_accumulated(reference_t *reference);

/* The device's side. */
void reference_set_busy(reference_t *reference, pleat_stream_t stream);
void reference_set_done(reference_t *reference, pleat_stream_t stream);
void reference_set_all_done(reference_t *reference);

#endif
