/*
 * program_reader: reads the calls out of the events of a trace, by the rules that program.h
 * states. One pass; what belongs to the next call is gathered in a group until that call is known.
 * Locks: none.
 */
#ifndef PLEAT_EXPERIMENTS_PROGRAM_READER_H
#define PLEAT_EXPERIMENTS_PROGRAM_READER_H

#include "program.h"

/**
 * Fill @p program, which is all zero; arguments as pleat_program_create. On failure what it came to
 * hold stays for pleat_program_destroy.
 * @retval PLEAT_ERR_OOM_HOST  no host memory.
 */
PLEAT_NODISCARD pleat_status_t pleat_program_read(pleat_program_t *program,
                                                  const pleat_trace_t *trace,
                                                  const pleat_options_t *options,
                                                  uint64_t device_bytes);

#endif
