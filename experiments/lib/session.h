/*
 * session: a recorded session or a hand-written case in memory: what to call, and what to expect
 * after each call. One structure serves both, because they share their lines; a recording has
 * statistics and events below its calls, a case has expectations.
 *
 * Everything variable stands in arrays of the session, and a call refers to its part of an array by
 * (first, count). Repeats of a case are unrolled. Strings live as long as the session.
 * A loaded session is consistent: every range lies inside its array, every key index below
 * key_count, every id below id_count; a free or record names an id that is live, an alloc one that
 * is not; names of statistics are those of pleat/memory_stats.h, and a recording has the statistics
 * of every call but one that ends it with an error.
 * Locks: none; read-only after loading, so threads may share it.
 */
#ifndef PLEAT_EXPERIMENTS_SESSION_H
#define PLEAT_EXPERIMENTS_SESSION_H

#include "input.h"

#include <pleat/allocator.h>

/* X(name, word): the calls, as the first word of their line. */
#define PLEAT_SESSION_CALL_LIST(X)                                            \
    X(ALLOC, "alloc")               /* id bytes stream address */             \
    X(OOM, "oom")                   /* bytes stream */                        \
    X(FREE, "free")                 /* id */                                  \
    X(RECORD, "record")             /* id stream */                           \
    X(EMPTY, "empty")               /* give cached memory back */             \
    X(SYNC, "sync")                 /* all work on all streams is complete */ \
    X(RESET_PEAK, "reset_peak")     /* peaks become the current values */     \
    X(RESET_ACC, "reset_acc")       /* sums become 0 */                       \
    X(POOL_CREATE, "pool_create")   /* pool no_split use_on_oom */            \
    X(POOL_BEGIN, "pool_begin")     /* pool all_threads */                    \
    X(POOL_END, "pool_end")         /* pool */                                \
    X(POOL_RELEASE, "pool_release") /* pool */                                \
    X(POOL_DELETE, "pool_delete")   /* pool */                                \
    X(SET, "set")                   /* text */                                \
    X(SNAPSHOT, "snapshot")         /* segments are compared */               \
    X(SET_LIMIT, "set_limit")       /* bytes; 0: none */                      \
    X(BUSY, "busy")                 /* stream */                              \
    X(DONE, "done")                 /* stream */

typedef enum pleat_session_call_kind {
#define PLEAT_SESSION_CALL_ENUM(name, word) PLEAT_SESSION_##name,
    PLEAT_SESSION_CALL_LIST(PLEAT_SESSION_CALL_ENUM)
#undef PLEAT_SESSION_CALL_ENUM
        PLEAT_SESSION_CALL_COUNT
} pleat_session_call_kind_t;

/* X(name, number, word): modes that a case may be for, each a bit of a set. */
#define PLEAT_SESSION_MODE_LIST(X)             \
    X(CLASSIC, 0, "classic")                   \
    X(TORCH_EXPANDABLE, 1, "torch_expandable") \
    X(PLEATED, 2, "pleated")

typedef enum pleat_session_mode {
#define PLEAT_SESSION_MODE_ENUM(name, number, word) PLEAT_SESSION_MODE_##name = 1 << (number),
    PLEAT_SESSION_MODE_LIST(PLEAT_SESSION_MODE_ENUM)
#undef PLEAT_SESSION_MODE_ENUM
        PLEAT_SESSION_MODE_END = 1 << 3 /* behind the last */
} pleat_session_mode_t;

#define PLEAT_SESSION_NO_ID UINT32_MAX

/* Part of an array of the session. */
typedef struct pleat_session_range {
    uint32_t first;
    uint32_t count;
} pleat_session_range_t;

/* What happened below a call: SEGMENT_ALLOC, SEGMENT_FREE, SEGMENT_MAP, SEGMENT_UNMAP, or
 * FREE_COMPLETED. */
typedef struct pleat_session_event {
    pleat_devptr_t address;
    uint64_t bytes;
    pleat_stream_t stream;
    pleat_action_t action;
} pleat_session_event_t;

/* A statistic and its value after the call; those without a change are left out. */
typedef struct pleat_session_change {
    uint32_t key; /* index into keys */
    int64_t value;
} pleat_session_change_t;

typedef enum pleat_session_relation {
    PLEAT_SESSION_EQUAL,
    PLEAT_SESSION_AT_MOST,
    PLEAT_SESSION_AT_LEAST
} pleat_session_relation_t;

typedef struct pleat_session_expect {
    const char *key; /* flattened name of a statistic */
    int64_t value;
    uint64_t line;
    pleat_session_relation_t relation;
} pleat_session_expect_t;

/* A text that the error of the call must contain. */
typedef struct pleat_session_expect_error {
    const char *text;
    uint64_t line;
} pleat_session_expect_error_t;

typedef struct pleat_session_segment {
    pleat_segment_info_t info; /* first_block is an index into the session's blocks */
    uint64_t pool;             /* private pool; 0: a default pool */
    uint64_t line;             /* in the file */
} pleat_session_segment_t;

typedef struct pleat_session_block {
    pleat_block_info_t info;
    uint64_t line;
} pleat_session_block_t;

/* Where a text of settings begins. */
typedef struct pleat_session_place {
    uint64_t line;   /* 0: it does not stand in the file */
    uint64_t column; /* byte, from 1 */
} pleat_session_place_t;

typedef struct pleat_session_call {
    pleat_session_call_kind_t kind;
    uint32_t id;   /* PLEAT_SESSION_NO_ID where the call has none */
    uint64_t line; /* in the file, from 1 */
    uint64_t bytes;
    pleat_stream_t stream;
    uint64_t pool;
    pleat_devptr_t address; /* valid if has_address; 0 can be right, for 0 bytes */
    const char *text;       /* settings of SET, "" for none; else NULL */
    uint64_t text_column;   /* where it begins in its line, from 1 */
    const char *error_text; /* the recording ends here with this internal error; else NULL */
    bool has_address;       /* false: any address will do */
    bool has_stats;         /* a ` stats` line stands below the call, even if nothing changed */
    bool no_split;
    bool use_on_oom;
    bool all_threads;                    /* POOL_BEGIN: filter "all", not "thread" */
    pleat_session_range_t events;        /* into events */
    pleat_session_range_t changes;       /* into changes */
    pleat_session_range_t expects;       /* into expects */
    pleat_session_range_t expect_errors; /* into expect_errors */
    pleat_session_range_t deferred;      /* into numbers: ids of deferred frees, in order */
    pleat_session_range_t stale;         /* into numbers: ids */
    pleat_session_range_t freeable;      /* into numbers: pools */
    pleat_session_range_t segments;      /* into segments, of a SNAPSHOT */
} pleat_session_call_t;

typedef struct pleat_session {
    char *name;       /* base name of the file without suffixes */
    const char *file; /* path as in messages */
    bool is_recording;
    unsigned modes;       /* named ones; 0: the mode follows the settings */
    const char *recorded; /* free text of the recording, or "" */
    const char *settings; /* the ALLOC_CONF string; "" for none */
    pleat_session_place_t settings_place;
    double fraction;      /* of the device's memory; 0: none */
    uint64_t total_bytes; /* of the device */
    uint64_t limit_bytes; /* valid if has_limit; follows from the fraction if it is not given */
    bool has_limit;
    bool has_end_state;
    uint64_t end_line;     /* of `end`; 0: there is none */
    uint64_t stream_count; /* as given, or highest stream named + 1 */
    uint32_t id_count;
    uint32_t key_count; /* 0 in cases */
    const char **keys;  /* flattened names of the statistics */
    int64_t *base;      /* key_count values before the first call */
    const char **ids;   /* id_count texts, as in the file */

    uint32_t call_count;
    uint32_t event_count;
    uint32_t change_count;
    uint32_t expect_count;
    uint32_t expect_error_count;
    uint32_t number_count;
    uint32_t segment_count;
    uint32_t block_count;
    pleat_session_call_t *calls;
    pleat_session_event_t *events;
    pleat_session_change_t *changes;
    pleat_session_expect_t *expects;
    pleat_session_expect_error_t *expect_errors;
    uint64_t *numbers;
    pleat_session_segment_t *segments;
    pleat_session_block_t *blocks;
    pleat_session_range_t end_segments; /* into segments; valid if has_end_state */

    void *strings; /* storage of all texts */
} pleat_session_t;

/**
 * Read a recorded session or a case from a path, or from standard input for "-".
 *
 * @param[out] session_out  freed by pleat_session_destroy; untouched on failure.
 * @retval PLEAT_ERR_FORMAT    neither of both, or wrong inside; the message names the file, the
 *                             line and column, and what would be right.
 * @retval PLEAT_ERR_IO        cannot be read.
 * @retval PLEAT_ERR_OOM_HOST  no host memory.
 * @par Threads any.   @par Cost O(unpacked bytes).
 */
PLEAT_NODISCARD pleat_status_t pleat_session_load(const char *path, pleat_session_t **session_out);

/** As pleat_session_load, from an open input, which stays the caller's. */
PLEAT_NODISCARD pleat_status_t pleat_session_load_input(pleat_input_t *input,
                                                        pleat_session_t **session_out);

/** Free a session; NULL is ignored. */
void pleat_session_destroy(pleat_session_t *session);

/** Modes that a session is for, a set of PLEAT_SESSION_MODE_*: those that it names, or the one that
 * its settings choose. @par Threads any.   @par Cost O(length of the settings). */
unsigned pleat_session_modes(const pleat_session_t *session);

/** Word of one mode, "unknown" for anything else. @par Cost constant; static string. */
const char *pleat_session_mode_word(unsigned mode);

/** First word of a call's line, "unknown" outside the list. @par Cost constant; static string. */
const char *pleat_session_call_word(pleat_session_call_kind_t kind);

#endif
