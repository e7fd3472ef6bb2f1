/*
 * program: the data that the calls of a trace are kept in; program_reader fills it. See program.h.
 */
#include "program.h"

#include "../../vmm/base.h"
#include "program_reader.h"

#include <stdlib.h>

void pleat_program_destroy(pleat_program_t *program)
{
    if (program == NULL) {
        return;
    }
    free(program->calls);
    free(program->streams);
    free(program->handles);
    free(program->runs);
    free(program);
}

pleat_status_t pleat_program_create(const pleat_trace_t *trace, const pleat_options_t *options,
                                    uint64_t device_bytes, pleat_program_t **program_out)
{
    const pleat_program_source_t source = {
        .trace = trace, .options = options, .device_bytes = device_bytes};
    return pleat_program_create_from(&source, program_out);
}

pleat_status_t pleat_program_create_from(const pleat_program_source_t *source,
                                         pleat_program_t **program_out)
{
    const pleat_trace_t *trace = source->trace;
    if (trace->event_count >= UINT32_MAX) {
        pleat_error_set("the trace has %llu events; at most 2^32 - 2 can be read as calls",
                        (unsigned long long)trace->event_count);
        return PLEAT_ERR_INVALID;
    }
    pleat_program_t *program = calloc(1, sizeof(*program));
    if (program == NULL) {
        pleat_error_set("no host memory for the calls of a trace");
        return PLEAT_ERR_OOM_HOST;
    }
    program->has_origin = trace->has_origin;
    program->origin = trace->origin;
    const pleat_status_t status = pleat_program_read(program, source);
    if (status != PLEAT_OK) {
        pleat_program_destroy(program);
        return status;
    }
    *program_out = program;
    return PLEAT_OK;
}

static const struct {
    const char *key;
    const char *text;
    bool is_blocking;
    bool is_warning;
} program_notes[PLEAT_PROGRAM_NOTE_COUNT] = {
#define PLEAT_PROGRAM_NOTE_ROW(name, key, is_blocking, is_warning, text) \
    {#key, text, is_blocking, is_warning},
    PLEAT_PROGRAM_NOTE_LIST(PLEAT_PROGRAM_NOTE_ROW)
#undef PLEAT_PROGRAM_NOTE_ROW
};

/* Segments that are mapped piece by piece are no obstacle to an engine that does so; where they lie
 * is not followed, so nothing counts as outside. */
static bool program_note_is_blocking(const pleat_program_t *program, unsigned note,
                                     pleat_mode_t mode)
{
    const bool is_mapped = mode == PLEAT_MODE_TORCH_EXPANDABLE &&
                           program->notes[PLEAT_PROGRAM_NOTE_NOT_CLASSIC].count > 0;
    return program_notes[note].is_blocking && program->notes[note].count > 0 &&
           !(is_mapped &&
             (note == PLEAT_PROGRAM_NOTE_NOT_CLASSIC || note == PLEAT_PROGRAM_NOTE_OUTSIDE));
}

bool pleat_program_is_checkable(const pleat_program_t *program, pleat_program_note_t *note_out)
{
    return pleat_program_is_checkable_in(program, PLEAT_MODE_CLASSIC, note_out);
}

bool pleat_program_is_checkable_in(const pleat_program_t *program, pleat_mode_t mode,
                                   pleat_program_note_t *note_out)
{
    for (unsigned note = 0; note < PLEAT_PROGRAM_NOTE_COUNT; note++) {
        if (program_note_is_blocking(program, note, mode)) {
            if (note_out != NULL) {
                *note_out = (pleat_program_note_t)note;
            }
            return false;
        }
    }
    return true;
}

const char *pleat_program_call_text(pleat_program_call_kind_t kind)
{
    static const char *const texts[PLEAT_PROGRAM_CALL_COUNT] = {
#define PLEAT_PROGRAM_CALL_TEXT(name, text) text,
        PLEAT_PROGRAM_CALL_LIST(PLEAT_PROGRAM_CALL_TEXT)
#undef PLEAT_PROGRAM_CALL_TEXT
    };
    return (unsigned)kind < PLEAT_PROGRAM_CALL_COUNT ? texts[kind] : "unknown call";
}

const char *pleat_program_note_text(pleat_program_note_t note)
{
    return (unsigned)note < PLEAT_PROGRAM_NOTE_COUNT ? program_notes[note].text : "unknown note";
}

const char *pleat_program_note_key(pleat_program_note_t note)
{
    return (unsigned)note < PLEAT_PROGRAM_NOTE_COUNT ? program_notes[note].key : "unknown";
}

bool pleat_program_note_is_warning(pleat_program_note_t note)
{
    return (unsigned)note < PLEAT_PROGRAM_NOTE_COUNT && program_notes[note].is_warning;
}

const char *pleat_undecided_text(pleat_undecided_t undecided)
{
    static const char *const texts[PLEAT_UNDECIDED_COUNT] = {
#define PLEAT_UNDECIDED_TEXT(name, text) text,
        PLEAT_UNDECIDED_LIST(PLEAT_UNDECIDED_TEXT)
#undef PLEAT_UNDECIDED_TEXT
    };
    return (unsigned)undecided < PLEAT_UNDECIDED_COUNT ? texts[undecided] : "unknown";
}
