/*
 * trace_fit: see trace_fit.h.
 */
#include "trace_fit.h"

/* The run whose call, or whose request, has the event; NULL when there is none. */
static const pleat_program_run_t *fit_find_run(const pleat_program_t *program, uint64_t event)
{
    for (size_t i = 0; i < program->run_count; i++) {
        const pleat_program_run_t *run = &program->runs[i];
        if (run->request_event != 0 && program->calls[run->call].first_event <= event &&
            event <= run->request_event) {
            return run;
        }
    }
    return NULL;
}

/* Try one more choice; the fit becomes that of the new program if it gets beyond the request. */
static pleat_status_t fit_try(const pleat_program_source_t *source, pleat_trace_try_fn_t attempt,
                              void *context, uint64_t request_event, pleat_trace_fit_t *fit)
{
    pleat_program_t *program = NULL;
    uint64_t first_difference = 0;
    pleat_status_t status = pleat_program_create_from(source, &program);
    if (status == PLEAT_OK) {
        status = attempt(context, program, &first_difference);
    }
    if (status != PLEAT_OK || first_difference <= request_event) {
        pleat_program_destroy(program);
        return status;
    }
    pleat_program_destroy(fit->own);
    fit->own = program;
    fit->program = program;
    fit->first_difference = first_difference;
    fit->reread_count++;
    return PLEAT_OK;
}

pleat_status_t pleat_trace_fit_run(const pleat_program_source_t *source,
                                   pleat_trace_try_fn_t attempt, void *context,
                                   pleat_trace_fit_t *fit)
{
    static const pleat_run_reading_t readings[] = {
        PLEAT_RUN_IN_REQUEST_WAITED, PLEAT_RUN_EMPTY_CACHE, PLEAT_RUN_IN_REQUEST_PENDING,
        PLEAT_RUN_IN_REQUEST};
    pleat_run_choice_t choices[PLEAT_TRACE_FIT_RUNS_MAX];
    pleat_program_source_t chosen = *source;
    chosen.choices = choices;
    bool is_better = true;
    while (is_better && fit->first_difference != PLEAT_TRACE_NO_DIFFERENCE &&
           chosen.choice_count < PLEAT_TRACE_FIT_RUNS_MAX) {
        const pleat_program_run_t *run = fit_find_run(fit->program, fit->first_difference);
        if (run == NULL) {
            return PLEAT_OK;
        }
        const uint32_t first_event = run->first_event;
        const uint32_t request_event = run->request_event;
        const size_t last = chosen.choice_count++;
        const uint64_t reread_before = fit->reread_count;
        for (size_t i = 0;
             i < sizeof(readings) / sizeof(readings[0]) && fit->reread_count == reread_before;
             i++) {
            choices[last] =
                (pleat_run_choice_t){.first_event = first_event, .reading = readings[i]};
            const pleat_status_t status = fit_try(&chosen, attempt, context, request_event, fit);
            if (status != PLEAT_OK) {
                return status;
            }
        }
        is_better = fit->reread_count != reread_before;
    }
    return PLEAT_OK;
}
