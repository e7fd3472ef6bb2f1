/*
 * torch_snapshot: a memory snapshot as torch.cuda.memory._dump_snapshot() of PyTorch writes it: the
 * segments with their blocks, the history of every device, the settings, and the annotations.
 *
 * One model for reading and for writing. A reader makes it and frees it as a whole; a writer fills
 * one with memory of its own and never calls pleat_torch_snapshot_destroy on it. What several
 * entries share (texts, frames, stacks) is stored once.
 *
 * Files of older versions of PyTorch lack some fields; `missing` tells which, and what stands in
 * their place is said at each bit. Unknown fields are left out.
 */
#ifndef PLEAT_TORCH_SNAPSHOT_H
#define PLEAT_TORCH_SNAPSHOT_H

#include <pleat/allocator.h>
#include <pleat/private_pool.h>
#include <pleat/snapshot.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The stack of what has none: an entry whose `frames` were not kept, so that the key is absent; a
 * block or segment whose list is empty or absent. */
#define PLEAT_TORCH_STACK_ABSENT UINT32_MAX

/* Most entries that the history of a device may have, and frames, stacks or blocks a snapshot. */
#define PLEAT_TORCH_COUNT_MAX (UINT32_MAX - 1)

/* Every text is UTF-8 and ends with a null byte; one with a null byte inside is cut there. */
typedef struct pleat_torch_frame {
    const char *name;
    const char *filename;
    uint64_t line;
} pleat_torch_frame_t;

/* Frames of one stack, innermost first: stack_frames[first_frame ...], each an index into frames.
 */
typedef struct pleat_torch_stack {
    uint64_t first_frame;
    uint64_t frame_count;
} pleat_torch_stack_t;

typedef struct pleat_torch_block {
    pleat_devptr_t address;
    uint64_t bytes;
    uint64_t requested_bytes;
    pleat_block_state_t state;
    uint32_t stack; /* index into stacks, or PLEAT_TORCH_STACK_ABSENT */
} pleat_torch_block_t;

typedef struct pleat_torch_segment {
    pleat_devptr_t address;
    uint64_t total_bytes;
    uint64_t allocated_bytes;
    uint64_t active_bytes;
    uint64_t requested_bytes;
    pleat_stream_t stream; /* the handle */
    pleat_pool_id_t pool;  /* (0, 0): none */
    uint64_t first_block;  /* index into blocks; by address, gap-free */
    uint64_t block_count;
    uint32_t device;
    uint32_t stack; /* of the segment's creation, or PLEAT_TORCH_STACK_ABSENT */
    bool is_small;
    bool is_expandable;
} pleat_torch_segment_t;

typedef struct pleat_torch_entry {
    pleat_devptr_t address; /* of an oom: free bytes of the device */
    uint64_t bytes;
    pleat_stream_t stream; /* the handle */
    uint64_t time_us;      /* since the epoch of Unix; of older files 0 */
    const char *compile_context;
    const char *user_metadata;
    pleat_action_t action;
    uint32_t stack; /* index into stacks, or PLEAT_TORCH_STACK_ABSENT */
} pleat_torch_entry_t;

/* The history of one device, oldest first; the device is the index. */
typedef struct pleat_torch_history {
    pleat_torch_entry_t *entries;
    uint64_t entry_count;
    uint64_t unknown_count;     /* entries left out because their action is not known */
    const char *unknown_action; /* the first of those; NULL: none */
} pleat_torch_history_t;

typedef struct pleat_torch_annotation {
    const char *name;
    uint64_t time_us;
    uint32_t device;
    bool is_start; /* stage START, else END */
} pleat_torch_annotation_t;

/* Values in force, under PyTorch's names. */
typedef struct pleat_torch_settings {
    const char *conf;        /* PYTORCH_CUDA_ALLOC_CONF */
    int64_t max_split_bytes; /* max_split_size; -1: unlimited */
    double garbage_collection_threshold;
    int64_t pinned_num_register_threads;
    bool expandable_segments;
    bool release_lock_on_cudamalloc;
    bool pinned_use_cuda_host_register;
    bool graph_capture_record_stream_reuse;
    uint64_t roundup_power2_divisions[PLEAT_ROUNDUP_ENTRIES]; /* entry k: key 2^k */
} pleat_torch_settings_t;

/* X(name, value, text): what a file did not have, in at least one place; bits of `missing`. */
#define PLEAT_TORCH_MISSING_LIST(X)                                                            \
    X(SETTINGS, 0x1, "allocator_settings (defaults are taken)")                                \
    X(HISTORIES, 0x2, "device_traces")                                                         \
    X(ANNOTATIONS, 0x4, "external_annotations")                                                \
    X(POOL_IDS, 0x8, "segment_pool_id (the default pools are taken)")                          \
    X(EXPANDABLE, 0x10, "is_expandable (no segment is taken for one)")                         \
    X(REQUESTED, 0x20, "requested_size of blocks (their size is taken)")                       \
    X(BLOCK_ADDRESSES, 0x40, "address of blocks (they follow one another from the segment's)") \
    X(TIMES, 0x80, "time_us of entries (0 is taken)")                                          \
    X(SUMS, 0x100, "sizes of segments (the sums over their blocks are taken)")                 \
    X(SEGMENT_TYPES, 0x200, "segment_type (segments of up to 2 MiB are taken for small)")      \
    X(SEGMENTS, 0x400, "segments")                                                             \
    X(STREAMS, 0x800, "stream (0 is taken)")                                                   \
    X(DEVICES, 0x1000, "device of segments (0 is taken)")

typedef enum pleat_torch_missing {
#define PLEAT_TORCH_MISSING_ENUM(name, value, text) PLEAT_TORCH_MISSING_##name = (value),
    PLEAT_TORCH_MISSING_LIST(PLEAT_TORCH_MISSING_ENUM)
#undef PLEAT_TORCH_MISSING_ENUM
} pleat_torch_missing_t;

typedef struct pleat_torch_snapshot {
    size_t size;      /* set by PLEAT_TORCH_SNAPSHOT_INIT */
    uint32_t missing; /* bits of pleat_torch_missing_t; a writer has none */
    uint64_t segment_count;
    uint64_t block_count;
    uint64_t history_count; /* number of devices */
    uint64_t annotation_count;
    uint64_t frame_count;
    uint64_t stack_count;
    uint64_t stack_frame_count;
    pleat_torch_segment_t *segments;
    pleat_torch_block_t *blocks;
    pleat_torch_history_t *histories;
    pleat_torch_annotation_t *annotations;
    pleat_torch_frame_t *frames;
    pleat_torch_stack_t *stacks;
    uint32_t *stack_frames;
    pleat_torch_settings_t settings;
    void *storage; /* of a reader; a writer leaves it NULL */
} pleat_torch_snapshot_t;
#define PLEAT_TORCH_SETTINGS_INIT                   \
    {                                               \
        "", -1, 0.0, 1, false, false, false, false, \
        {                                           \
            0                                       \
        }                                           \
    }
#define PLEAT_TORCH_SNAPSHOT_INIT                                                             \
    {                                                                                         \
        sizeof(pleat_torch_snapshot_t), 0, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, NULL, \
            NULL, NULL, PLEAT_TORCH_SETTINGS_INIT, NULL                                       \
    }

/* Bytes of a file, in order. Up to @p capacity of them go to @p buffer; fewer than asked for only
 * at the end. A failure is passed on with its error text as it is. */
typedef pleat_status_t (*pleat_torch_read_fn_t)(void *context, void *buffer, size_t capacity,
                                                size_t *count_out);

#define PLEAT_TORCH_READ_MEMORY_BYTES (UINT64_C(16) << 30)

typedef struct pleat_torch_read_options {
    size_t size;
    const char *name;        /* of the file, for messages */
    uint64_t memory_bytes;   /* most host memory to take; 0: PLEAT_TORCH_READ_MEMORY_BYTES */
    const char *memory_name; /* what a message calls memory_bytes, where users know it otherwise */
} pleat_torch_read_options_t;
#define PLEAT_TORCH_READ_OPTIONS_INIT                                     \
    {                                                                     \
        sizeof(pleat_torch_read_options_t), "snapshot", 0, "memory_bytes" \
    }

/**
 * Read a snapshot out of a pickle of protocol 2 to 5. Nothing in the file is ever run: an opcode
 * that would call or name code is refused. The file need not be trusted.
 *
 * @param options            NULL: all defaults.
 * @param[out] snapshot_out  freed by pleat_torch_snapshot_destroy; untouched on failure.
 * @retval PLEAT_ERR_FORMAT    no pickle of plain data, truncated, or not a snapshot; the message
 *                             has the byte or the place in the structure, and what was expected.
 * @retval PLEAT_ERR_OOM_HOST  more memory would be needed than the options allow, or than there is.
 * Errors of @p read are passed on.
 * @par Threads any.   @par Cost linear in the file; memory about two to three times its size.
 */
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_torch_snapshot_read(
    pleat_torch_read_fn_t read, void *context, const pleat_torch_read_options_t *options,
    pleat_torch_snapshot_t **snapshot_out);

/** Free a snapshot that was read; NULL is ignored. @par Threads any.   @par Cost O(memory). */
PLEAT_API void pleat_torch_snapshot_destroy(pleat_torch_snapshot_t *snapshot);

/** Text of a missing part, "" for a value that is no bit. @par Cost constant; static. */
PLEAT_API const char *pleat_torch_missing_text(pleat_torch_missing_t missing);

#ifdef __cplusplus
}
#endif
#endif
