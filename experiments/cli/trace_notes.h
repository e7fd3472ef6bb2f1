/*
 * trace_notes: what is odd about a trace, for people on standard error and for machines as JSON. A
 * trace that contradicts itself is replayed all the same: one out of a ring that was overwritten
 * begins in the middle.
 */
#ifndef PLEAT_CLI_TRACE_NOTES_H
#define PLEAT_CLI_TRACE_NOTES_H

#include "program.h"
#include "trace_set.h"

#include <jansson.h>

/** Warn once for each kind of contradiction: how often, and the first place. */
void pleat_cli_trace_notes_warn(const pleat_trace_t *trace, const pleat_program_t *program);

/**
 * Say on standard output what the trace at @p index of a set was recorded with, and what failed in
 * the recording; nothing of a trace that is of no snapshot.
 */
void pleat_cli_trace_notes_recording(const pleat_trace_set_t *set, size_t index);

/** Bytes of segments after an event, if there were @p held before it. */
uint64_t pleat_cli_trace_held_after(uint64_t held, const pleat_trace_event_t *event);

/** Counts of the kinds that occur, an empty object if there are none; a new reference. */
json_t *pleat_cli_trace_notes_json(const pleat_program_t *program);

#endif
