/*
 * program: a random sequence of calls for an allocator and its device, made from a seed, and its
 * text in the format of hand-written cases.
 *
 * Calls name allocations by id, so that a program stays runnable whatever is left out of it: a call
 * on an allocation that does not exist is skipped.
 */
#ifndef PLEAT_TEST_PROGRAM_H
#define PLEAT_TEST_PROGRAM_H

#include <pleat/options.h>
#include <pleat/vmm.h>

#include <stdio.h>

enum { PROGRAM_STREAMS_MAX = 6, PROGRAM_CALLS_MAX = 3000 };

typedef enum program_kind {
    PROGRAM_ALLOC,         /* id, bytes, stream */
    PROGRAM_FREE,          /* id */
    PROGRAM_FREE_INTERIOR, /* id: an address inside the allocation, which is refused */
    PROGRAM_RECORD,        /* id, stream */
    PROGRAM_EMPTY,
    PROGRAM_BUSY, /* stream */
    PROGRAM_DONE, /* stream */
    PROGRAM_SYNC,
    PROGRAM_RESET_PEAK,
    PROGRAM_RESET_ACCUMULATED,
    PROGRAM_SET,       /* options, all but the limit */
    PROGRAM_SET_LIMIT, /* bytes */
    PROGRAM_FAULT      /* fault_call, bytes: which one from here on, fault_status */
} program_kind_t;

typedef struct program_call {
    program_kind_t kind;
    uint32_t id;
    uint64_t bytes;
    pleat_stream_t stream;
    pleat_options_t options;
    pleat_vmm_call_t fault_call;
    pleat_status_t fault_status;
    bool has_failed; /* set by the run: an allocation that was out of memory */
} program_call_t;

typedef struct program {
    uint64_t seed;
    uint64_t capacity_bytes;
    pleat_options_t options;
    uint32_t id_count;
    size_t count;
    program_call_t calls[PROGRAM_CALLS_MAX];
} program_t;

/* Make a program of at most @p count calls. */
void program_make(program_t *program, uint64_t seed, size_t count);

/* Write a program as a case, but for faults, which cases do not know: they become comments. */
void program_print(const program_t *program, FILE *file);

#endif
