/*
 * trace_notes: the notes of a program, as far as they are warnings.
 */
#include "trace_notes.h"
#include "report.h"

#include <string.h>

static const char *pleat_cli_trace_name(const pleat_trace_t *trace)
{
    return strcmp(trace->name, "-") == 0 ? "standard input" : trace->name;
}

void pleat_cli_trace_notes_warn(const pleat_trace_t *trace, const pleat_program_t *program)
{
    for (int i = 0; i < (int)PLEAT_PROGRAM_NOTE_COUNT; i++) {
        const pleat_program_finding_t *finding = &program->notes[i];

        if (finding->count == 0 || !pleat_program_note_is_warning((pleat_program_note_t)i)) {
            continue;
        }
        const pleat_trace_event_t *event = &trace->events[finding->first_event];
        pleat_cli_warn(
            "%s: %s: %llu, the first is event %llu (%s %llx %llu %llu %llu)",
            pleat_cli_trace_name(trace), pleat_program_note_text((pleat_program_note_t)i),
            (unsigned long long)finding->count, (unsigned long long)finding->first_event + 1,
            pleat_action_name(event->action), (unsigned long long)event->address,
            (unsigned long long)event->bytes, (unsigned long long)event->stream,
            (unsigned long long)event->time_us);
    }
}

json_t *pleat_cli_trace_notes_json(const pleat_program_t *program)
{
    json_t *object = json_object();

    for (int i = 0; i < (int)PLEAT_PROGRAM_NOTE_COUNT; i++) {
        const uint64_t count = program->notes[i].count;

        if (count > 0 && pleat_program_note_is_warning((pleat_program_note_t)i)) {
            (void)json_object_set_new(object, pleat_program_note_key((pleat_program_note_t)i),
                                      json_integer((json_int_t)count));
        }
    }
    return object;
}
