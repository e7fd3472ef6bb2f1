/*
 * session_builder: a session while it is read. It grows the arrays, numbers the ids, and knows what
 * the file has said so far, so that lines can be checked against it. Filled by session_header,
 * session_call and session_detail, one line at a time; session turns it into its result.
 *
 * Invariants:
 *   B1  What stands below a call belongs to the last call, so its ranges are always the ends of
 *       their arrays and can grow.
 *   B2  live[id] tells whether the id is allocated at this point of the file.
 * Locks: none; its owner's.
 */
#ifndef PLEAT_EXPERIMENTS_SESSION_BUILDER_H
#define PLEAT_EXPERIMENTS_SESSION_BUILDER_H

#include "name_table.h"
#include "number_map.h"
#include "session.h"

#define PLEAT_SESSION_STREAM_MAX UINT64_C(65535)
#define PLEAT_SESSION_CALLS_MAX UINT32_C(10000000)

typedef struct pleat_session_builder {
    pleat_session_t *session;
    const char *file;
    unsigned headers_seen; /* bit of each header line, session_header.c */
    bool has_stream_count; /* the header says how many streams there are */
    bool is_ended;         /* `end` was read */
    bool has_failed_call;  /* the last call has an ` error` line */
    uint64_t last_line;
    uint32_t *key_lines;  /* by key: number of the ` stats` line that named it last */
    uint32_t stats_lines; /* ` stats` lines so far */
    pleat_text_store_t *store;
    pleat_name_table_t ids;
    bool *live;
    uint32_t live_capacity;
    pleat_number_map_t pools;     /* created pools */
    pleat_number_map_t named_ids; /* 2 × id, + 1 for ` stale`: last line of orders that named it */
    pleat_number_map_t named_pools; /* the same of ` freeable` */
    uint32_t order_lines;           /* lines of orders so far */
    uint32_t deferred_line;         /* number among them of the last ` deferred` */
    uint32_t call_capacity;
    uint32_t event_capacity;
    uint32_t change_capacity;
    uint32_t expect_capacity;
    uint32_t expect_error_capacity;
    uint32_t number_capacity;
    uint32_t segment_capacity;
    uint32_t block_capacity;
    uint32_t key_capacity;
    void *grown; /* for PLEAT_SESSION_APPEND */
} pleat_session_builder_t;

/* False: no host memory; fini must be called either way. */
PLEAT_NODISCARD bool pleat_session_builder_init(pleat_session_builder_t *builder, const char *file);
void pleat_session_builder_fini(pleat_session_builder_t *builder);

/* Take the finished session out of the builder. */
pleat_session_t *pleat_session_builder_take(pleat_session_builder_t *builder);

/* Set the error text for lack of memory; returns PLEAT_ERR_OOM_HOST. */
PLEAT_NODISCARD pleat_status_t
pleat_session_builder_no_memory(const pleat_session_builder_t *builder);

/* An array of `count` items with room for one more, which is all zero; it may have moved. NULL: no
 * host memory, the old array stays. */
void *pleat_session_grow(void *items, uint32_t count, uint32_t *capacity, size_t item_bytes);

/* Append an item that is all zero; evaluates to a pointer to it, or NULL without memory. `name` is
 * the singular of the array, as in event_count and events. */
#define PLEAT_SESSION_APPEND(builder, name)                                           \
    (((builder)->grown = pleat_session_grow(                                          \
          (builder)->session->name##s, (builder)->session->name##_count,              \
          &(builder)->name##_capacity, sizeof(*(builder)->session->name##s))) != NULL \
         ? ((builder)->session->name##s = (builder)->grown,                           \
            &(builder)->session->name##s[(builder)->session->name##_count++])         \
         : NULL)

/* The call that the lines below belong to; NULL before the first. */
pleat_session_call_t *pleat_session_builder_last_call(pleat_session_builder_t *builder);

/* No more lines belong to the last call: a recording must have its statistics by now. */
PLEAT_NODISCARD pleat_status_t
pleat_session_builder_close_call(const pleat_session_builder_t *builder);

/* Check the name of a statistic at the place of the line where it stands. */
PLEAT_NODISCARD pleat_status_t pleat_session_check_stat_name(const pleat_scan_t *scan,
                                                             pleat_text_t name);

/* Make a range that ends at `count` items cover one more. */
void pleat_session_range_extend(pleat_session_range_t *range, uint32_t count_before);

/* Check a stream number against the header and note it. @p place is its place in the line. */
PLEAT_NODISCARD pleat_status_t pleat_session_builder_note_stream(pleat_session_builder_t *builder,
                                                                 const pleat_scan_t *scan,
                                                                 const char *place,
                                                                 pleat_stream_t stream);

/* The next word as a stream, checked and noted. */
PLEAT_NODISCARD pleat_status_t pleat_session_scan_stream(pleat_session_builder_t *builder,
                                                         pleat_scan_t *scan,
                                                         pleat_stream_t *stream_out);

/* A copy of a text in the session; PLEAT_ERR_OOM_HOST without memory. */
PLEAT_NODISCARD pleat_status_t pleat_session_builder_copy(pleat_session_builder_t *builder,
                                                          pleat_text_t text, const char **copy_out);

#endif
