/*
 * torch_record: the records of a memory snapshot (segments, blocks, entries, frames) read out of
 * the dictionaries of a pickle, key by key, with the place of what is wrong.
 *
 * The values may be anything: of the wrong kind, shared where PyTorch shares nothing, circular.
 * Nothing recurses, every list of records is read once, and a record has a bounded number of keys,
 * so that time and memory stay linear in the file. Lists of frames and frames are meant to be
 * shared; their mark holds the number that they got in the model, counted from 1.
 */
#ifndef PLEAT_COMPAT_TORCH_RECORD_H
#define PLEAT_COMPAT_TORCH_RECORD_H

#include "pickle_reader.h"

#include <pleat/torch_snapshot.h>

/* Instead of a bit of `missing`: the key must be there, or nobody need know that it is not. */
#define PLEAT_TORCH_REQUIRED UINT32_C(0)
#define PLEAT_TORCH_OPTIONAL (UINT32_C(1) << 31)

/* What a snapshot's `storage` is: all its memory, and how much its arrays have room for. */
typedef struct pleat_torch_own {
    pleat_pickle_storage_t storage;
    pleat_torch_entry_t *entries; /* of all histories */
    size_t entry_capacity;
    size_t segment_capacity;
    size_t block_capacity;
    size_t history_capacity;
    size_t annotation_capacity;
    size_t frame_capacity;
    size_t stack_capacity;
    size_t stack_frame_capacity;
} pleat_torch_own_t;

typedef struct pleat_torch_reader {
    pleat_pickle_source_t source;
    pleat_torch_own_t *own;
    pleat_torch_snapshot_t *snapshot;
    uint32_t empty_stack; /* index of the stack without frames, plus one; 0: none yet */
} pleat_torch_reader_t;

/* Where a value stands, for messages: segments[3].blocks[0]. */
typedef struct pleat_torch_place {
    const struct pleat_torch_place *up;
    const char *name;
    uint64_t index; /* UINT64_MAX: none */
} pleat_torch_place_t;

/* A dictionary at its place. */
typedef struct pleat_torch_dict {
    const pleat_pickle_items_t *items;
    pleat_torch_place_t place;
} pleat_torch_dict_t;

/* Set the error text; returns PLEAT_ERR_FORMAT. The offset is that of what holds the value. */
pleat_status_t pleat_torch_fail(const pleat_torch_reader_t *reader,
                                const pleat_torch_place_t *place, uint64_t offset,
                                const char *wanted, pleat_pickle_value_t value);
pleat_status_t pleat_torch_fail_key(const pleat_torch_reader_t *reader,
                                    const pleat_torch_dict_t *dict, const char *key,
                                    const char *wanted, pleat_pickle_value_t value);
pleat_status_t pleat_torch_no_memory(const pleat_torch_reader_t *reader, uint64_t offset);

/* The value at a place must be a dictionary. @p offset is that of what holds it. */
pleat_status_t pleat_torch_open_dict(const pleat_torch_reader_t *reader, pleat_torch_place_t place,
                                     uint64_t offset, pleat_pickle_value_t value,
                                     pleat_torch_dict_t *dict_out);

/* The value of a key, ABSENT where it need not be there and is not. */
pleat_status_t pleat_torch_find(pleat_torch_reader_t *reader, const pleat_torch_dict_t *dict,
                                const char *key, uint32_t missing, pleat_pickle_value_t *value_out);

/* The following take the value of a key; where it need not be there and is not, the output stays.
 */
pleat_status_t pleat_torch_take_unsigned(pleat_torch_reader_t *reader,
                                         const pleat_torch_dict_t *dict, const char *key,
                                         uint32_t missing, uint64_t *number_out);

/* A number whose bits count, such as a handle: a negative one is taken as its two's complement. */
pleat_status_t pleat_torch_take_handle(pleat_torch_reader_t *reader, const pleat_torch_dict_t *dict,
                                       const char *key, uint32_t missing, uint64_t *number_out);

pleat_status_t pleat_torch_take_device(pleat_torch_reader_t *reader, const pleat_torch_dict_t *dict,
                                       uint32_t missing, uint32_t *device_out);

/* True or False, or 1 or 0. */
pleat_status_t pleat_torch_take_bool(pleat_torch_reader_t *reader, const pleat_torch_dict_t *dict,
                                     const char *key, uint32_t missing, bool *is_true_out);

pleat_status_t pleat_torch_take_text(pleat_torch_reader_t *reader, const pleat_torch_dict_t *dict,
                                     const char *key, uint32_t missing, const char **text_out);

/* A list of records, or NULL. It may stand at one place only, unless it is empty. */
pleat_status_t pleat_torch_take_records(pleat_torch_reader_t *reader,
                                        const pleat_torch_dict_t *dict, const char *key,
                                        uint32_t missing, pleat_pickle_items_t **records_out);

/* The same for a value that is no dictionary's. */
pleat_status_t pleat_torch_open_records(const pleat_torch_reader_t *reader,
                                        const pleat_torch_place_t *place, uint64_t offset,
                                        pleat_pickle_value_t value,
                                        pleat_pickle_items_t **records_out);

/* An array of the snapshot's for @p count elements; an empty one stays NULL. */
pleat_status_t pleat_torch_make_array(pleat_torch_reader_t *reader, uint64_t count,
                                      size_t element_bytes, size_t *capacity_out, void **array_out);

/* The stack of the key `frames`; without one, or an empty one, PLEAT_TORCH_STACK_ABSENT. */
pleat_status_t pleat_torch_take_stack(pleat_torch_reader_t *reader, const pleat_torch_dict_t *dict,
                                      uint32_t *stack_out);

/* The same, but an empty list is a stack without frames: they were kept, and nothing was left. */
pleat_status_t pleat_torch_take_kept_stack(pleat_torch_reader_t *reader,
                                           const pleat_torch_dict_t *dict, uint32_t *stack_out);

#endif
