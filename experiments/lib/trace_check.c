/*
 * trace_check: see trace_check.h.
 */
#include "trace_check.h"

#include "../../core/allocator.h"
#include "../../core/size_class.h"
#include "../../vmm/base.h"
#include "../../vmm/scripted.h"
#include "device_step.h"
#include "player.h"
#include "trace_fit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLEAT_TRACE_CHECK_PROGRESS_CALLS ((size_t)1 << 16)
#define PLEAT_TRACE_CHECK_FIRST_CAPACITY 256u

typedef struct trace_checker {
    const pleat_trace_t *trace;
    const pleat_program_t *program;
    const pleat_trace_check_options_t *options;
    pleat_trace_check_t *check;
    pleat_vmm_t *vmm;
    pleat_allocator_t *allocator;
    const pleat_stats_t *stats;
    pleat_player_t player;
    pleat_trace_entry_t *seen; /* what the engine did in the current call */
    size_t seen_count;
    size_t seen_capacity;
    bool is_seen_lost; /* no host memory for an entry */
    pleat_script_step_t *steps;
    size_t step_capacity;
    uint64_t first_difference; /* event; PLEAT_TRACE_NO_DIFFERENCE: none so far */
    bool is_stopping;          /* the first difference ends the check */
} trace_checker_t;

const char *pleat_trace_rule_text(pleat_trace_rule_t rule)
{
    static const char *const texts[PLEAT_TRACE_RULE_COUNT] = {
#define PLEAT_TRACE_RULE_TEXT(name, is_visible, text) text,
        PLEAT_TRACE_RULE_LIST(PLEAT_TRACE_RULE_TEXT)
#undef PLEAT_TRACE_RULE_TEXT
    };
    return (unsigned)rule < PLEAT_TRACE_RULE_COUNT ? texts[rule] : "unknown rule";
}

bool pleat_trace_rule_is_visible(pleat_trace_rule_t rule)
{
    static const bool visible[PLEAT_TRACE_RULE_COUNT] = {
#define PLEAT_TRACE_RULE_VISIBLE(name, is_visible, text) is_visible,
        PLEAT_TRACE_RULE_LIST(PLEAT_TRACE_RULE_VISIBLE)
#undef PLEAT_TRACE_RULE_VISIBLE
    };
    return (unsigned)rule < PLEAT_TRACE_RULE_COUNT && visible[rule];
}

/* Room for @p wanted items; false when there is no host memory. */
static bool checker_reserve(void **items, size_t *capacity, size_t wanted, size_t item_bytes)
{
    if (wanted <= *capacity) {
        return true;
    }
    size_t grown = *capacity == 0 ? PLEAT_TRACE_CHECK_FIRST_CAPACITY : *capacity * 2;
    grown = grown < wanted ? wanted : grown;
    void *moved = realloc(*items, grown * item_bytes);
    if (moved == NULL) {
        return false;
    }
    *items = moved;
    *capacity = grown;
    return true;
}

static void checker_observe(void *context, const pleat_trace_entry_t *entry)
{
    trace_checker_t *checker = context;
    void *seen = checker->seen;
    if (!checker_reserve(&seen, &checker->seen_capacity, checker->seen_count + 1,
                         sizeof(*checker->seen))) {
        checker->is_seen_lost = true;
        return;
    }
    checker->seen = seen;
    checker->seen[checker->seen_count++] = *entry;
}

/* ---- differences ---- */

/* Recorded number of a stream handle; handles that the program does not use stay as they are. */
static pleat_stream_t checker_recorded_stream(const trace_checker_t *checker, pleat_stream_t handle)
{
    const pleat_program_t *program = checker->program;
    for (uint32_t i = 0; i < program->stream_count; i++) {
        if (program->handles[i] == handle) {
            return program->streams[i];
        }
    }
    return handle;
}

/* Room for the next difference, NULL when it is only counted. */
static pleat_trace_difference_t *checker_add(trace_checker_t *checker,
                                             const pleat_program_call_t *call, uint64_t event)
{
    pleat_trace_check_t *check = checker->check;
    if (check->difference_count == 0) {
        checker->first_difference = event;
    }
    const uint64_t index = check->difference_count++;
    if (index >= check->difference_capacity) {
        return NULL;
    }
    pleat_trace_difference_t *difference = &check->differences[index];
    difference->event = event;
    difference->call = call == NULL ? "end" : pleat_program_call_text(call->kind);
    (void)snprintf(difference->expected, sizeof(difference->expected), "nothing");
    (void)snprintf(difference->got, sizeof(difference->got), "nothing");
    return difference;
}

static void checker_write(char text[PLEAT_TRACE_TEXT_BYTES], pleat_action_t action,
                          pleat_devptr_t address, uint64_t bytes, pleat_stream_t stream)
{
    (void)snprintf(text, PLEAT_TRACE_TEXT_BYTES, "%s %" PRIx64 " %" PRIu64 " %" PRIu64,
                   pleat_action_name(action), address, bytes, stream);
}

static void checker_differ(trace_checker_t *checker, const pleat_program_call_t *call,
                           uint64_t event, const pleat_trace_event_t *expected,
                           const pleat_trace_entry_t *got)
{
    pleat_trace_difference_t *difference = checker_add(checker, call, event);
    if (difference == NULL) {
        return;
    }
    if (expected != NULL) {
        checker_write(difference->expected, expected->action, expected->address, expected->bytes,
                      expected->stream);
    }
    if (got != NULL) {
        checker_write(difference->got, got->action, got->address, got->bytes,
                      checker_recorded_stream(checker, got->stream));
    }
}

/* The same with words for what came instead. */
static void checker_differ_text(trace_checker_t *checker, const pleat_program_call_t *call,
                                uint64_t event, const char *text)
{
    pleat_trace_difference_t *difference = checker_add(checker, call, event);
    if (difference == NULL) {
        return;
    }
    if (event < checker->trace->event_count) {
        const pleat_trace_event_t *expected = &checker->trace->events[event];
        checker_write(difference->expected, expected->action, expected->address, expected->bytes,
                      expected->stream);
    }
    (void)snprintf(difference->got, sizeof(difference->got), "%s", text);
}

static bool checker_is_equal(const trace_checker_t *checker, const pleat_trace_event_t *expected,
                             const pleat_trace_entry_t *got)
{
    if (expected->action != got->action || expected->bytes != got->bytes) {
        return false;
    }
    /* The address of an oom is what the device had free, which a script cannot know. */
    if (expected->action != PLEAT_ACTION_OOM && expected->address != got->address) {
        return false;
    }
    return expected->stream == checker_recorded_stream(checker, got->stream);
}

/* Compare the recorded events of a call with what the engine did in it. */
static void checker_compare(trace_checker_t *checker, const pleat_program_call_t *call)
{
    const uint64_t end = (uint64_t)call->first_event + call->event_count;
    size_t seen = 0;
    for (uint64_t event = call->first_event; event < end; event++) {
        const pleat_trace_event_t *expected = &checker->trace->events[event];
        if (expected->action == PLEAT_ACTION_SNAPSHOT) {
            continue;
        }
        if (event >= checker->trace->origin.prefix_count) { /* what is recorded */
            checker->check->event_count++;
            checker->check->address_count += expected->action != PLEAT_ACTION_OOM ? 1 : 0;
        }
        const pleat_trace_entry_t *got = seen < checker->seen_count ? &checker->seen[seen++] : NULL;
        if (got == NULL || !checker_is_equal(checker, expected, got)) {
            checker_differ(checker, call, event, expected, got);
        }
    }
    for (; seen < checker->seen_count; seen++) {
        checker_differ(checker, call, end > 0 ? end - 1 : 0, NULL, &checker->seen[seen]);
    }
}

/* ---- rules ---- */

static void checker_count_segment(trace_checker_t *checker, uint64_t rounded)
{
    uint64_t *rules = checker->check->rules;
    if (pleat_size_is_small(rounded)) {
        rules[PLEAT_TRACE_RULE_SMALL_SEGMENT]++;
    } else if (rounded < PLEAT_MIN_EXACT_BYTES) {
        rules[PLEAT_TRACE_RULE_LARGE_SEGMENT]++;
    } else {
        rules[PLEAT_TRACE_RULE_EXACT_SEGMENT]++;
        rules[PLEAT_TRACE_RULE_EXACT_SEGMENT_LIMIT] += rounded == PLEAT_MIN_EXACT_BYTES ? 1 : 0;
    }
}

/* Which rules an allocation came to, from the counters @p before it and now. */
static void checker_count_alloc(trace_checker_t *checker, const pleat_program_call_t *call,
                                const pleat_stats_t *before)
{
    const pleat_stats_t *after = checker->stats;
    uint64_t *rules = checker->check->rules;
    const uint64_t rounded = pleat_size_round(&checker->options->allocator, call->bytes);
    const bool is_small = pleat_size_is_small(rounded);
    rules[is_small ? PLEAT_TRACE_RULE_SMALL_REQUEST : PLEAT_TRACE_RULE_LARGE_REQUEST]++;
    rules[PLEAT_TRACE_RULE_SEVERAL_STREAMS] +=
        call->stream != checker->program->calls[0].stream ? 1 : 0;
    if (after->num_device_alloc != before->num_device_alloc) {
        checker_count_segment(checker, rounded);
    }
    const bool is_retried = after->num_alloc_retries != before->num_alloc_retries;
    if (is_retried) {
        rules[PLEAT_TRACE_RULE_RETRY]++;
        rules[PLEAT_TRACE_RULE_LIMIT] +=
            checker->options->allocator.limit_bytes != PLEAT_NO_LIMIT ? 1 : 0;
    } else {
        rules[PLEAT_TRACE_RULE_EARLY_RECLAIM] +=
            (uint64_t)(after->num_device_free - before->num_device_free);
    }
    const int64_t block = after->allocated_bytes[PLEAT_STAT_ALL].current -
                          before->allocated_bytes[PLEAT_STAT_ALL].current;
    const bool has_served =
        after->allocation[PLEAT_STAT_ALL].allocated != before->allocation[PLEAT_STAT_ALL].allocated;
    if (is_small || !has_served) {
        return;
    }
    const uint64_t rest = (uint64_t)block - rounded;
    if (rest > 0) {
        rules[PLEAT_TRACE_RULE_LARGE_REST_KEPT]++;
        rules[PLEAT_TRACE_RULE_LARGE_REST_LIMIT] += rest == PLEAT_MIB ? 1 : 0;
    } else if (after->inactive_split[PLEAT_STAT_ALL].current >=
                   before->inactive_split[PLEAT_STAT_ALL].current &&
               after->inactive_split_bytes[PLEAT_STAT_ALL].current !=
                   before->inactive_split_bytes[PLEAT_STAT_ALL].current) {
        rules[PLEAT_TRACE_RULE_LARGE_REST_SPLIT]++;
    }
}

static void checker_count_all(trace_checker_t *checker)
{
    uint64_t *rules = checker->check->rules;
    const pleat_program_t *program = checker->program;
    rules[PLEAT_TRACE_RULE_WAITING_FREE] = program->counts[PLEAT_PROGRAM_FREE_WAITS];
    rules[PLEAT_TRACE_RULE_OVERSIZE] = (uint64_t)checker->stats->oversize_allocations.allocated;
    rules[PLEAT_TRACE_RULE_OUT_OF_MEMORY] = (uint64_t)checker->stats->num_ooms;
    for (size_t i = 0; i < program->run_count; i++) {
        rules[PLEAT_TRACE_RULE_EMPTY_CACHE] += program->runs[i].is_in_request ? 0 : 1;
        if (i < checker->check->run_capacity) {
            checker->check->runs[i] = program->runs[i];
        }
    }
    checker->check->run_count = program->run_count;
    checker->check->stats = *checker->stats;
}

/* ---- calls ---- */

/* Hand the device the recorded driver steps of a call. */
static pleat_status_t checker_script(trace_checker_t *checker, const pleat_program_call_t *call)
{
    size_t count = 0;
    for (uint32_t i = 0; i < call->event_count; i++) {
        const pleat_trace_event_t *event = &checker->trace->events[call->first_event + i];
        const pleat_vmm_call_t device_call = pleat_device_step(event->action);
        if (device_call == PLEAT_VMM_CALL_COUNT) {
            continue;
        }
        void *steps = checker->steps;
        if (!checker_reserve(&steps, &checker->step_capacity, count + 1, sizeof(*checker->steps))) {
            pleat_error_set("no host memory for a script of %zu steps", count + 1);
            return PLEAT_ERR_OOM_HOST;
        }
        checker->steps = steps;
        checker->steps[count++] = (pleat_script_step_t){
            .call = device_call, .address = event->address, .bytes = event->bytes};
    }
    if (count == 0 && pleat_scripted_left(checker->vmm) == 0) {
        return PLEAT_OK;
    }
    return pleat_scripted_expect(checker->vmm, checker->steps, count);
}

static pleat_status_t checker_perform(trace_checker_t *checker, const pleat_program_call_t *call)
{
    pleat_status_t status = checker_script(checker, call);
    if (status == PLEAT_ERR_INVALID) { /* a driver event that cannot be, such as one at address 0 */
        checker_differ_text(checker, call, call->first_event, pleat_last_error());
        status = PLEAT_OK;
    }
    if (status != PLEAT_OK) {
        return status;
    }
    checker->seen_count = 0;
    status = pleat_player_perform(&checker->player, call);
    if (status == PLEAT_ERR_OOM_HOST || checker->is_seen_lost) {
        return PLEAT_ERR_OOM_HOST;
    }
    const bool is_expected = status == PLEAT_OK ? call->kind != PLEAT_PROGRAM_ALLOC_FAILS
                                                : status == PLEAT_ERR_OOM_DEVICE;
    if (!is_expected && status != PLEAT_OK) {
        const uint32_t last = call->event_count > 0 ? call->event_count - 1 : 0;
        checker_differ_text(checker, call, (uint64_t)call->first_event + last, pleat_last_error());
    }
    checker->check->call_count++;
    checker_compare(checker, call);
    return PLEAT_OK;
}

/* Events that no call explains. */
static void checker_report_stray(trace_checker_t *checker, const pleat_program_call_t *call)
{
    for (uint32_t i = 0; i < call->event_count; i++) {
        checker->check->event_count++;
        checker_differ_text(checker, call, (uint64_t)call->first_event + i,
                            "no call that could cause it: the address is not live there");
    }
}

static pleat_status_t checker_call(trace_checker_t *checker, const pleat_program_call_t *call)
{
    switch (call->kind) {
    case PLEAT_PROGRAM_ALLOC:
    case PLEAT_PROGRAM_ALLOC_FAILS: {
        const pleat_stats_t before = *checker->stats;
        const pleat_status_t status = checker_perform(checker, call);
        if (call->bytes > 0 && call->bytes < PLEAT_REQUEST_END_BYTES) {
            checker_count_alloc(checker, call, &before);
        }
        return status;
    }
    case PLEAT_PROGRAM_FREE:
    case PLEAT_PROGRAM_FREE_WAITS:
    case PLEAT_PROGRAM_EMPTY_CACHE:
        return checker_perform(checker, call);
    case PLEAT_PROGRAM_COMPLETE:
    case PLEAT_PROGRAM_COMPLETE_IN_CALL:
        return pleat_player_perform(&checker->player, call);
    case PLEAT_PROGRAM_STRAY:
        checker_report_stray(checker, call);
        return PLEAT_OK;
    case PLEAT_PROGRAM_CALL_COUNT:
        return PLEAT_OK;
    }
    return PLEAT_OK;
}

static pleat_status_t checker_run(trace_checker_t *checker)
{
    const pleat_program_t *program = checker->program;
    pleat_status_t status = PLEAT_OK;
    for (size_t i = 0; i < program->call_count && status == PLEAT_OK; i++) {
        status = checker_call(checker, &program->calls[i]);
        if (checker->is_stopping && checker->check->difference_count > 0) {
            return status;
        }
        if (checker->options->progress != NULL && i % PLEAT_TRACE_CHECK_PROGRESS_CALLS == 0) {
            checker->options->progress(checker->options->progress_context, i, program->call_count);
        }
    }
    if (status != PLEAT_OK) {
        return status;
    }
    if (pleat_allocator_check(checker->allocator) == PLEAT_ERR_INVALID) {
        checker_differ_text(checker, NULL, checker->trace->event_count, pleat_last_error());
    }
    checker_count_all(checker);
    return PLEAT_OK;
}

static pleat_status_t checker_begin(trace_checker_t *checker)
{
    pleat_status_t status = pleat_scripted_create(checker->options->device_bytes, &checker->vmm);
    if (status == PLEAT_OK) {
        status =
            pleat_allocator_create(&checker->options->allocator, checker->vmm, &checker->allocator);
    }
    if (status == PLEAT_OK) {
        checker->stats = pleat_allocator_stats(checker->allocator);
        pleat_set_observer(checker->allocator, checker_observe, checker);
        status =
            pleat_player_init(&checker->player, checker->program, checker->vmm, checker->allocator);
    }
    return status;
}

static void checker_end(trace_checker_t *checker)
{
    if (checker->allocator != NULL) {
        pleat_set_observer(checker->allocator, NULL, NULL);
    }
    pleat_player_fini(&checker->player);
    pleat_allocator_destroy(checker->allocator);
    pleat_vmm_destroy(checker->vmm);
    free(checker->seen);
    free(checker->steps);
}

static void checker_clear(pleat_trace_check_t *check)
{
    *check = (pleat_trace_check_t){.differences = check->differences,
                                   .difference_capacity = check->difference_capacity,
                                   .runs = check->runs,
                                   .run_capacity = check->run_capacity,
                                   .stats = PLEAT_STATS_INIT};
}

/* Check one reading of the trace, from the beginning. */
static pleat_status_t checker_check(trace_checker_t *checker)
{
    pleat_trace_check_t *check = checker->check;
    checker_clear(check);
    checker->first_difference = PLEAT_TRACE_NO_DIFFERENCE;
    pleat_status_t status = checker_begin(checker);
    if (status == PLEAT_OK) {
        status = checker_run(checker);
    }
    checker_end(checker);
    return status;
}

typedef struct checker_attempt {
    const pleat_trace_t *trace;
    const pleat_trace_check_options_t *options;
} checker_attempt_t;

static pleat_status_t checker_try(void *context, const pleat_program_t *program,
                                  uint64_t *first_difference_out)
{
    const checker_attempt_t *attempt = context;
    pleat_trace_check_t check = {.differences = NULL};
    trace_checker_t checker = {.trace = attempt->trace,
                               .program = program,
                               .options = attempt->options,
                               .check = &check,
                               .is_stopping = true};
    const pleat_status_t status = checker_check(&checker);
    *first_difference_out = checker.first_difference;
    return status;
}

/* Look for a reading without the difference at @p first_difference, and check that one instead. */
static pleat_status_t checker_reread(trace_checker_t *checker)
{
    const pleat_program_source_t source = {.trace = checker->trace,
                                           .options = &checker->options->allocator,
                                           .device_bytes = checker->options->device_bytes};
    checker_attempt_t attempt = {.trace = checker->trace, .options = checker->options};
    pleat_trace_fit_t fit = {.program = checker->program,
                             .first_difference = checker->first_difference};
    pleat_status_t status = pleat_trace_fit_run(&source, checker_try, &attempt, &fit);
    if (status == PLEAT_OK && fit.own != NULL) {
        trace_checker_t again = {.trace = checker->trace,
                                 .program = fit.own,
                                 .options = checker->options,
                                 .check = checker->check};
        status = checker_check(&again);
        checker->check->reread_count = fit.reread_count;
    }
    pleat_program_destroy(fit.own);
    return status;
}

/* A beginning that was rebuilt: what differs may come from a guess, and differs certainly from one
 * if it lies in the beginning itself. */
static void check_judge_rebuilt(const pleat_program_t *program, uint64_t first_difference,
                                pleat_trace_check_t *check)
{
    const pleat_trace_origin_t *origin = &program->origin;
    const bool is_early = first_difference < origin->prefix_count;
    if (check->difference_count == 0 || (!is_early && origin->guess_count == 0)) {
        return;
    }
    (void)snprintf(check->unchecked, sizeof(check->unchecked),
                   is_early ? "its history begins in the middle, and the blocks of its beginning "
                              "are not those of any sequence of calls that was tried"
                            : "its history begins in the middle; %" PRIu64
                              " blocks had to be guessed, and from recorded event %" PRIu64
                              " on it goes another way",
                   origin->guess_count, first_difference - origin->prefix_count + 1);
    check->difference_count = 0;
}

pleat_status_t pleat_trace_check_run(const pleat_trace_t *trace, const pleat_program_t *program,
                                     const pleat_trace_check_options_t *options,
                                     pleat_trace_check_t *check)
{
    trace_checker_t checker = {
        .trace = trace, .program = program, .options = options, .check = check};
    pleat_program_note_t note = PLEAT_PROGRAM_NOTE_COUNT;
    checker_clear(check);
    if (program->has_origin && program->origin.prefix_count > 0 && !program->origin.is_rebuilt) {
        (void)snprintf(check->unchecked, sizeof(check->unchecked),
                       "its history begins in the middle, and what was cached then is not known");
        return PLEAT_OK;
    }
    if (program->has_origin && program->origin.private_count > 0) {
        (void)snprintf(check->unchecked, sizeof(check->unchecked),
                       "%" PRIu64 " events lie in segments of private pools, and a history does "
                       "not tell which requests went there",
                       program->origin.private_count);
        return PLEAT_OK;
    }
    if (!pleat_program_is_checkable_in(program, options->allocator.mode, &note)) {
        const uint64_t event = program->notes[note].first_event + 1;
        (void)snprintf(check->unchecked, sizeof(check->unchecked),
                       "event %" PRIu64 ": %" PRIu64 " such places: %s", event,
                       program->notes[note].count, pleat_program_note_text(note));
        return PLEAT_OK;
    }
    pleat_status_t status = checker_check(&checker);
    if (status == PLEAT_OK && check->difference_count > 0) {
        status = checker_reread(&checker);
    }
    if (status == PLEAT_OK && program->origin.is_rebuilt) {
        check_judge_rebuilt(program, checker.first_difference, check);
    }
    return status;
}
