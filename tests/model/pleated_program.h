/*
 * pleated_program: a random sequence of calls for an allocator in all modes, with work on its
 * streams, made from a seed, and its text in the format of hand-written cases as far as that can
 * say it.
 *
 * Calls name allocations by id, so that a program stays runnable whatever is left out of it: a call
 * on an allocation that does not exist is skipped.
 */
#ifndef PLEAT_TEST_PLEATED_PROGRAM_H
#define PLEAT_TEST_PLEATED_PROGRAM_H

#include <pleat/options.h>
#include <pleat/vmm.h>

#include <stdio.h>

enum { PLEATED_STREAMS_MAX = 6, PLEATED_CALLS_MAX = 3000, PLEATED_POOLS_MAX = 4 };

typedef enum pleated_kind {
    PLEATED_ALLOC,         /* id, bytes, stream, duration_ns: of the kernel that fills it */
    PLEATED_ALLOC_SINGLE,  /* the same in one chunk */
    PLEATED_FREE,          /* id, duration_ns: of a check before it; 0: none */
    PLEATED_FREE_INTERIOR, /* id: an address inside the allocation, which is refused */
    PLEATED_CHECK,         /* id, duration_ns: its stream checks it */
    PLEATED_RECORD,        /* id, stream, duration_ns: the other stream checks it; it is recorded */
    PLEATED_BORROW,        /* id, stream, duration_ns: the other stream writes it in between */
    PLEATED_EMPTY,
    PLEATED_BUSY,    /* stream */
    PLEATED_DONE,    /* stream */
    PLEATED_SYNC,    /* stream */
    PLEATED_ADVANCE, /* duration_ns */
    PLEATED_RESET_PEAK,
    PLEATED_RESET_ACCUMULATED,
    PLEATED_SET,       /* options, all but the limit */
    PLEATED_SET_LIMIT, /* bytes */
    PLEATED_FAULT,     /* fault_call, bytes: which one from here on, fault_status */
    PLEATED_SNAPSHOT,
    PLEATED_POOL_ACQUIRE, /* id: of a pool, likewise below */
    PLEATED_POOL_BEGIN,   /* id, stream: that is redirected; PLEATED_STREAMS_MAX: all */
    PLEATED_POOL_END,
    PLEATED_POOL_RELEASE,
    PLEATED_POOL_DELETE,
    PLEATED_POOL_EMPTY,
    PLEATED_POOL_OVERFLOW, /* from now on, or no longer */
    PLEATED_POOL_NO_SPLIT
} pleated_kind_t;

typedef struct pleated_call {
    pleated_kind_t kind;
    uint32_t id;
    uint64_t bytes;
    pleat_stream_t stream;
    uint64_t duration_ns;
    uint32_t options; /* index of a set in the program */
    pleat_vmm_call_t fault_call;
    pleat_status_t fault_status;
    pleat_stream_t ahead_stream; /* lets this stream run ahead by so many kernels afterwards */
    uint32_t ahead_count;
    pleat_status_t status; /* set by the run: how an allocation ended */
} pleated_call_t;

enum { PLEATED_OPTIONS_MAX = 64 };

typedef struct pleated_program {
    uint64_t seed;
    uint64_t capacity_bytes;
    pleat_options_t options[PLEATED_OPTIONS_MAX]; /* the first ones are those at the start */
    uint32_t option_count;
    uint32_t id_count;
    size_t count;
    bool is_abrupt; /* ends with work on its streams */
    pleated_call_t calls[PLEATED_CALLS_MAX];
} pleated_program_t;

/* Make a program of at most @p count calls. @p modes: bit m lets it use mode m. */
void pleated_program_make(pleated_program_t *program, uint64_t seed, size_t count, unsigned modes);

/* Write a program as a case; what cases do not know becomes comments. */
void pleated_program_print(const pleated_program_t *program, FILE *file);

#endif
