/*
 * trace_notes: what is odd about a trace, for people on standard error and for machines as JSON. A
 * trace that contradicts itself is replayed all the same: one out of a ring that was overwritten
 * begins in the middle.
 */
#ifndef PLEAT_CLI_TRACE_NOTES_H
#define PLEAT_CLI_TRACE_NOTES_H

#include "program.h"

#include <jansson.h>

/** Warn once for each kind of contradiction: how often, and the first place. */
void pleat_cli_trace_notes_warn(const pleat_trace_t *trace, const pleat_program_t *program);

/** Counts of the kinds that occur, an empty object if there are none; a new reference. */
json_t *pleat_cli_trace_notes_json(const pleat_program_t *program);

#endif
