/*
 * program_reader: reads the calls out of the events of a trace, by the rules that program.h
 * states. One pass; what belongs to the next call is gathered in a group until that call is known.
 * Locks: none.
 */
#ifndef PLEAT_EXPERIMENTS_PROGRAM_READER_H
#define PLEAT_EXPERIMENTS_PROGRAM_READER_H

#include "program_run.h"

/* What a trace is read with. */
typedef struct pleat_program_source {
    const pleat_trace_t *trace;
    const pleat_options_t *options;
    uint64_t device_bytes;
    const pleat_run_choice_t *choices; /* runs that are read otherwise; rising by event */
    size_t choice_count;
} pleat_program_source_t;

/**
 * Fill @p program, which is all zero. On failure what it came to hold stays for
 * pleat_program_destroy.
 * @retval PLEAT_ERR_OOM_HOST  no host memory.
 */
PLEAT_NODISCARD pleat_status_t pleat_program_read(pleat_program_t *program,
                                                  const pleat_program_source_t *source);

/**
 * As pleat_program_create, from a source.
 */
PLEAT_NODISCARD pleat_status_t pleat_program_create_from(const pleat_program_source_t *source,
                                                         pleat_program_t **program_out);

#endif
