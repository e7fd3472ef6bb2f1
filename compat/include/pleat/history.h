/*
 * history: what an allocator did, as torch.cuda.memory._record_memory_history() keeps it: a bounded
 * ring of actions with their times, and the context (a stack, say) in which each live block and
 * each segment was made.
 *
 * A history serves one allocator. pleat_history_observe is the observer that feeds it:
 *
 *     pleat_set_observer(allocator, pleat_history_observe, history);
 *
 * or a caller's own observer calls it with the entries that it gets. It stays set while recording
 * is off and live blocks may have contexts, so that a free drops them.
 *
 * Tokens: a context, a compile context and user metadata are pointers that mean something to the
 * caller alone. A caller that wants them kept makes them before it calls the allocator, and names
 * them in the note of its thread for the length of that call (pleat_history_set_note). What keeps a
 * token calls `retain`, what drops one `release`; NULL is no token and is passed to neither.
 *
 * Threads: every function may be called from any thread unless it says otherwise. A history has a
 * lock of its own, which is taken inside the allocator's. The callbacks may run under both, in
 * several threads at once, and must call neither.
 */
#ifndef PLEAT_HISTORY_H
#define PLEAT_HISTORY_H

#include <pleat/allocator.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pleat_history pleat_history_t;

/* X(name, text): which contexts are kept. Each level includes those before it. */
#define PLEAT_HISTORY_LEVEL_LIST(X)                                      \
    X(NONE, "none")   /* none */                                         \
    X(STATE, "state") /* of live blocks and of segments */               \
    X(ALLOC, "alloc") /* also in entries: of a free that of its block */ \
    X(ALL, "all")     /* callers also note a context for a free */

typedef enum pleat_history_level {
#define PLEAT_HISTORY_LEVEL_ENUM(name, text) PLEAT_HISTORY_LEVEL_##name,
    PLEAT_HISTORY_LEVEL_LIST(PLEAT_HISTORY_LEVEL_ENUM)
#undef PLEAT_HISTORY_LEVEL_ENUM
        PLEAT_HISTORY_LEVEL_COUNT
} pleat_history_level_t;

/* What the caller of pleat_history_create provides; each may be NULL. */
typedef struct pleat_history_hooks {
    size_t size;
    void *context;                    /* first argument of all three */
    int64_t (*now_us)(void *context); /* since the Unix epoch; NULL: the system's clock */
    void (*retain)(void *context, void *token);
    void (*release)(void *context, void *token);
} pleat_history_hooks_t;
#define PLEAT_HISTORY_HOOKS_INIT                              \
    {                                                         \
        sizeof(pleat_history_hooks_t), NULL, NULL, NULL, NULL \
    }

typedef struct pleat_history_settings {
    size_t size;
    bool is_recording; /* false: no entries and no new contexts; the entries so far go */
    bool is_cleared;   /* drop the entries so far */
    pleat_history_level_t level;
    uint32_t skip_mask;   /* bit 1 << PLEAT_ACTION_OOM set: no entries of that action, and so on */
    uint64_t max_entries; /* 0 counts as 1 */
} pleat_history_settings_t;
#define PLEAT_HISTORY_SETTINGS_INIT                                                           \
    {                                                                                         \
        sizeof(pleat_history_settings_t), true, false, PLEAT_HISTORY_LEVEL_ALL, 0, UINT64_MAX \
    }

/* What the actions of a thread carry. */
typedef struct pleat_history_note {
    size_t size;
    void *context;
    void *compile_context;
    void *user_metadata;
} pleat_history_note_t;
#define PLEAT_HISTORY_NOTE_INIT                        \
    {                                                  \
        sizeof(pleat_history_note_t), NULL, NULL, NULL \
    }

/* The library makes it. */
typedef struct pleat_history_entry {
    pleat_action_t action;
    pleat_stream_t stream;
    pleat_devptr_t address; /* of an OOM: the device's free bytes */
    uint64_t bytes;         /* as in pleat_trace_entry_t; of a SNAPSHOT: the active bytes */
    int64_t time_us;
    void *context; /* NULL: none */
    void *compile_context;
    void *user_metadata;
} pleat_history_entry_t;

/* The segments and blocks of an allocator and the entries of its history, of one moment. */
typedef struct pleat_history_copy {
    size_t size;
    size_t entry_size; /* bytes from one element of entries to the next */
    uint64_t entry_count;
    uint64_t lost_count; /* entries since the last clearing that were overwritten, or not kept */
    pleat_history_entry_t *entries; /* oldest first */
    pleat_snapshot_t *snapshot;
    void **segment_contexts; /* by index into snapshot->segments; NULL: none */
    void **block_contexts;   /* by index into snapshot->blocks */
} pleat_history_copy_t;

/**
 * Make a history; it records nothing before pleat_history_configure.
 *
 * @param hooks             NULL: no tokens, and the system's clock; copied.
 * @param[out] history_out  destroyed by pleat_history_destroy; untouched on failure.
 * @retval PLEAT_ERR_INVALID   @p history_out is NULL.
 * @retval PLEAT_ERR_OOM_HOST  no host memory.
 * @par Threads any.   @par Cost one host allocation.
 */
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_history_create(const pleat_history_hooks_t *hooks,
                                                              pleat_history_t **history_out);

/**
 * Release every token and destroy the history. NULL is ignored.
 * @par Threads none may use it any more, and no allocator may have it as its observer.
 * @par Cost O(entries and live blocks).
 */
PLEAT_API void pleat_history_destroy(pleat_history_t *history);

/**
 * Switch recording on or off, or change it.
 *
 * The ring grows with its entries up to max_entries and then overwrites the oldest. A lower maximum
 * drops nothing: the next entries overwrite the oldest that there are, one by one.
 *
 * @retval PLEAT_ERR_INVALID  no such level, or a bit of skip_mask beyond the actions; nothing
 *                            changed.
 * @par Threads any.   @par Cost O(entries) when it clears or changes the maximum.
 */
PLEAT_API PLEAT_NODISCARD pleat_status_t
pleat_history_configure(pleat_history_t *history, const pleat_history_settings_t *settings);

/**
 * Level in force, PLEAT_HISTORY_LEVEL_NONE while recording is off or @p history is NULL: whether a
 * caller should make a context before it allocates (STATE and above) or frees (ALL).
 * @par Threads any.   @par Cost one load.
 */
PLEAT_API pleat_history_level_t pleat_history_level(const pleat_history_t *history);

/**
 * What the calls of this thread to the allocator of @p history carry, until the next note of this
 * thread, to whatever history. The tokens stay the caller's and must live until then.
 *
 * @param note  NULL: nothing.
 * @par Threads any; the note belongs to the calling thread.   @par Cost a few stores.
 */
PLEAT_API void pleat_history_set_note(pleat_history_t *history, const pleat_history_note_t *note);

/**
 * The observer, for pleat_set_observer. Without host memory it counts the entry as lost, or a block
 * as one without context.
 * @param history  a pleat_history_t.
 * @par Threads under the lock of the allocator.   @par Cost amortised constant; O(segments) for
 * an action on a segment.
 */
PLEAT_API void pleat_history_observe(void *history, const pleat_trace_entry_t *entry);

/** Drop all entries and set lost_count to 0. @par Threads any.   @par Cost O(entries). */
PLEAT_API void pleat_history_clear(pleat_history_t *history);

/**
 * Copy the history together with the allocator that it observes; nothing happens in between. An
 * entry of action SNAPSHOT follows the copied ones, as in PyTorch, so that the next copy has it.
 *
 * A segment has the context of the device call that made its first byte, also where PyTorch has
 * none any more because the first block of the segment was split.
 *
 * @param allocator      NULL: entries only; snapshot and both arrays of contexts are NULL, and no
 *                       entry is added.
 * @param with_entries   false: no entries.
 * @param[out] copy_out  freed by pleat_history_copy_destroy; untouched on failure.
 * @retval PLEAT_ERR_INVALID   @p history or @p copy_out is NULL.
 * @retval PLEAT_ERR_OOM_HOST  no host memory; nothing changed.
 * @par Threads any; not from an observer.   @par Cost O(entries + blocks log segments) under the
 * lock of the allocator.
 */
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_history_take(pleat_history_t *history,
                                                            pleat_allocator_t *allocator,
                                                            bool with_entries,
                                                            pleat_history_copy_t **copy_out);

/**
 * Release the tokens of a copy and free it; NULL is ignored. The history must still be there.
 * @par Threads any.   @par Cost O(entries + blocks).
 */
PLEAT_API void pleat_history_copy_destroy(pleat_history_t *history, pleat_history_copy_t *copy);

#ifdef __cplusplus
}
#endif
#endif
