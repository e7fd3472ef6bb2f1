/*
 * allocator_model: random programs on the engine and on a plain model of it, which must agree on
 * every address, status, action and counter; every invariant is verified after every call, and
 * nothing is left on the device at the end.
 *
 * Usage: allocator_model [--seed N] [--calls N]. The calls are divided into programs with seeds of
 * their own, which are printed. When one of them shows a difference, it is made as short as
 * possible and printed as a case. Returns 0 when all agree, 1 otherwise.
 */
#include "program.h"
#include "reference.h"

#include "fixture.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct run {
    fixture_t fixture;
    reference_t reference;
    uint64_t addresses[PROGRAM_CALLS_MAX]; /* by id; 0: none */
    pleat_trace_entry_t actions[REFERENCE_ACTIONS_MAX];
    size_t action_count;
    char difference[1024]; /* empty: none */
    char expectation[256]; /* the line of a case that does not hold */
} run_t;

/* ---- comparison ---- */

static void run_observe(void *context, const pleat_trace_entry_t *entry)
{
    run_t *run = context;
    if (run->action_count < REFERENCE_ACTIONS_MAX) {
        run->actions[run->action_count++] = *entry;
    }
}

static void compare_status(run_t *run, pleat_status_t status, pleat_status_t expected)
{
    if (status != expected) {
        (void)snprintf(run->difference, sizeof(run->difference), "status '%s' (%s), expected '%s'",
                       pleat_status_text(status), pleat_last_error(), pleat_status_text(expected));
    }
}

static void compare_actions(run_t *run)
{
    const reference_t *reference = &run->reference;
    for (size_t i = 0; i < run->action_count || i < reference->action_count; i++) {
        static const pleat_trace_entry_t none = {.action = PLEAT_ACTION_COUNT};
        const pleat_trace_entry_t *got = i < run->action_count ? &run->actions[i] : &none;
        const pleat_trace_entry_t *wanted =
            i < reference->action_count ? &reference->actions[i] : &none;
        if (got->action != wanted->action || got->address != wanted->address ||
            got->bytes != wanted->bytes || got->stream != wanted->stream) {
            (void)snprintf(run->difference, sizeof(run->difference),
                           "action %zu is %s 0x%" PRIx64 " %" PRIu64 " stream %" PRIu64
                           ", expected %s 0x%" PRIx64 " %" PRIu64 " stream %" PRIu64,
                           i, pleat_action_name(got->action), got->address, got->bytes, got->stream,
                           pleat_action_name(wanted->action), wanted->address, wanted->bytes,
                           wanted->stream);
            return;
        }
    }
}

/* The first difference is kept; the first counter that differs makes a line for the case. */
static bool compare_value(run_t *run, const char *name, const char *part, int64_t got,
                          int64_t wanted)
{
    if (got == wanted) {
        return true;
    }
    if (run->difference[0] == '\0') {
        (void)snprintf(run->difference, sizeof(run->difference),
                       "%s%s is %" PRId64 ", expected %" PRId64, name, part, got, wanted);
    }
    (void)snprintf(run->expectation, sizeof(run->expectation), " expect %s%s=%" PRId64, name, part,
                   wanted);
    return false;
}

static bool compare_stat(run_t *run, const char *name, const pleat_stat_t *got,
                         const pleat_stat_t *wanted)
{
    return compare_value(run, name, ".current", got->current, wanted->current) &&
           compare_value(run, name, ".peak", got->peak, wanted->peak) &&
           compare_value(run, name, ".allocated", got->allocated, wanted->allocated) &&
           compare_value(run, name, ".freed", got->freed, wanted->freed);
}

static bool compare_stats(run_t *run)
{
    const pleat_stats_t got = fixture_stats(&run->fixture);
    const pleat_stats_t *wanted = &run->reference.stats;
#define COMPARE_ARRAY(name, text)                                                  \
    if (!compare_stat(run, #name ".all", &got.name[0], &wanted->name[0]) ||        \
        !compare_stat(run, #name ".large_pool", &got.name[1], &wanted->name[1]) || \
        !compare_stat(run, #name ".small_pool", &got.name[2], &wanted->name[2])) { \
        return false;                                                              \
    }
#define COMPARE_PLAIN(name, text)                              \
    if (!compare_stat(run, #name, &got.name, &wanted->name)) { \
        return false;                                          \
    }
#define COMPARE_SCALAR(name, text)                                \
    if (!compare_value(run, #name, "", got.name, wanted->name)) { \
        return false;                                             \
    }
    PLEAT_ARRAY_STAT_LIST(COMPARE_ARRAY)
    PLEAT_PLAIN_STAT_LIST(COMPARE_PLAIN)
    PLEAT_SCALAR_STAT_LIST(COMPARE_SCALAR)
    return true;
}

static void compare_all(run_t *run)
{
    if (run->difference[0] == '\0') {
        compare_actions(run);
    }
    const bool is_equal = compare_stats(run);
    if (run->difference[0] == '\0' && is_equal &&
        pleat_allocator_check(run->fixture.allocator) != PLEAT_OK) {
        (void)snprintf(run->difference, sizeof(run->difference), "%s", pleat_last_error());
    }
}

/* ---- calls ---- */

static void run_alloc(run_t *run, program_call_t *call)
{
    pleat_devptr_t ptr = 0;
    const pleat_status_t status =
        pleat_alloc(run->fixture.allocator, call->bytes, call->stream, &ptr);
    for (size_t i = 0; i < run->action_count; i++) {
        if (run->actions[i].action == PLEAT_ACTION_SEGMENT_ALLOC) {
            reference_add_fresh(&run->reference, run->actions[i].address);
        }
    }
    uint64_t expected = 0;
    const pleat_status_t expected_status =
        reference_alloc(&run->reference, call->bytes, call->stream, &expected);
    call->has_failed = expected_status != PLEAT_OK;
    compare_status(run, status, expected_status);
    if (status == PLEAT_OK && ptr != expected) {
        (void)snprintf(run->difference, sizeof(run->difference),
                       "address 0x%" PRIx64 ", expected 0x%" PRIx64, ptr, expected);
    }
    run->addresses[call->id] = status == PLEAT_OK ? ptr : 0;
}

static void run_on_allocation(run_t *run, const program_call_t *call)
{
    const uint64_t address = run->addresses[call->id];
    pleat_allocator_t *allocator = run->fixture.allocator;
    if (address == 0) {
        return;
    }
    if (call->kind == PROGRAM_FREE) {
        const pleat_status_t expected = reference_free(&run->reference, address);
        compare_status(run, pleat_free(allocator, address), expected);
        if (expected == PLEAT_OK) {
            run->addresses[call->id] = 0;
        }
    } else if (call->kind == PROGRAM_FREE_INTERIOR) {
        compare_status(run, pleat_free(allocator, address + 256),
                       reference_free(&run->reference, address + 256));
    } else {
        compare_status(run, pleat_record_stream(allocator, address, call->stream),
                       reference_record(&run->reference, address, call->stream));
    }
}

static void run_set(run_t *run, const program_call_t *call)
{
    pleat_options_t options = run->reference.options;
    if (call->kind == PROGRAM_SET) {
        options = call->options;
        options.limit_bytes = run->reference.options.limit_bytes;
    } else {
        options.limit_bytes = call->bytes;
    }
    fixture_set_options(&run->fixture, &options);
    run->reference.options = options;
}

static void run_device(run_t *run, const program_call_t *call)
{
    reference_t *reference = &run->reference;
    if (call->kind == PROGRAM_BUSY) {
        fixture_set_busy(&run->fixture, call->stream);
        reference_set_busy(reference, call->stream);
    } else if (call->kind == PROGRAM_DONE) {
        fixture_set_done(&run->fixture, call->stream);
        reference_set_done(reference, call->stream);
    } else if (call->kind == PROGRAM_FAULT) {
        fixture_fail_call(&run->fixture, call->fault_call, call->bytes, call->fault_status);
        reference->device.faults[call->fault_call] = call->bytes;
        reference->device.fault_status[call->fault_call] = call->fault_status;
    } else {
        FIXTURE_REQUIRE(pleat_sim_set_all_done(run->fixture.vmm) == PLEAT_OK, "sync");
        reference_set_all_done(reference);
    }
}

static void run_call(run_t *run, program_call_t *call)
{
    run->action_count = 0;
    reference_begin(&run->reference);
    switch (call->kind) {
    case PROGRAM_ALLOC:
        run_alloc(run, call);
        break;
    case PROGRAM_FREE:
    case PROGRAM_FREE_INTERIOR:
    case PROGRAM_RECORD:
        run_on_allocation(run, call);
        break;
    case PROGRAM_EMPTY: {
        const pleat_status_t status = pleat_empty_cache(run->fixture.allocator);
        compare_status(run, status, reference_empty(&run->reference));
        break;
    }
    case PROGRAM_RESET_PEAK:
        pleat_reset_peak_stats(run->fixture.allocator);
        reference_reset_peak(&run->reference);
        break;
    case PROGRAM_RESET_ACCUMULATED:
        pleat_reset_accumulated_stats(run->fixture.allocator);
        reference_reset_accumulated(&run->reference);
        break;
    case PROGRAM_SET:
    case PROGRAM_SET_LIMIT:
        run_set(run, call);
        break;
    case PROGRAM_BUSY:
    case PROGRAM_DONE:
    case PROGRAM_SYNC:
    case PROGRAM_FAULT:
        run_device(run, call);
        break;
    }
    compare_all(run);
}

/* Run a program; false and run->difference when something differs, at call *at_out. */
static bool run_program(run_t *run, program_t *program, size_t *at_out)
{
    memset(run, 0, sizeof(*run));
    run->fixture = fixture_create(&(fixture_options_t){.capacity_bytes = program->capacity_bytes,
                                                       .options = &program->options});
    reference_init(&run->reference, program->capacity_bytes, &program->options);
    pleat_set_observer(run->fixture.allocator, run_observe, run);
    size_t i = 0;
    while (i < program->count && run->difference[0] == '\0') {
        run_call(run, &program->calls[i]);
        i++;
    }
    *at_out = i - 1;
    for (unsigned call = 0; call < PLEAT_VMM_CALL_COUNT; call++) {
        fixture_fail_call(&run->fixture, (pleat_vmm_call_t)call, 0, PLEAT_ERR_DRIVER);
    }
    reference_fini(&run->reference);
    if (run->difference[0] == '\0') {
        fixture_check_and_destroy(&run->fixture);
        return true;
    }
    /* What is broken is not destroyed, which could end the process: the difference comes first. */
    return false;
}

/* ---- the shortest program ---- */

/* Leave out as many calls as can be left out with a difference remaining. */
static void shorten(run_t *run, program_t *program, size_t at)
{
    static program_t attempt;
    size_t at_attempt = 0;
    program->count = at + 1;
    for (size_t chunk = program->count / 2; chunk > 0; chunk /= 2) {
        for (size_t begin = 0; begin < program->count;) {
            const size_t end = begin + chunk < program->count ? begin + chunk : program->count;
            attempt = *program;
            memmove(&attempt.calls[begin], &program->calls[end],
                    (program->count - end) * sizeof(attempt.calls[0]));
            attempt.count = program->count - (end - begin);
            if (attempt.count > 0 && !run_program(run, &attempt, &at_attempt)) {
                *program = attempt;
                program->count = at_attempt + 1;
            } else {
                begin = end;
            }
        }
    }
    (void)run_program(run, program, &at_attempt);
}

static void report(run_t *run, program_t *program, size_t at)
{
    printf("seed %" PRIu64 ", call %zu: %s\n", program->seed, at, run->difference);
    shorten(run, program, at);
    printf("the shortest program with a difference (%s):\n\n", run->difference);
    program_print(program, stdout);
    if (run->expectation[0] != '\0') {
        printf("%s\n", run->expectation);
    }
}

static bool parse_number(const char *text, uint64_t *number_out)
{
    char *end = NULL;
    *number_out = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && *end == '\0';
}

/* Mostly short: a program has one character, and many characters are better than few. */
static size_t program_length(uint64_t seed)
{
    return seed % 10 == 0 ? PROGRAM_CALLS_MAX : 50 + seed / 10 % 600;
}

int main(int argc, char **argv)
{
    static run_t run;
    static program_t program;
    uint64_t seed = 1;
    uint64_t calls = 60000;
    for (int i = 1; i < argc; i += 2) {
        uint64_t *number = strcmp(argv[i], "--seed") == 0    ? &seed
                           : strcmp(argv[i], "--calls") == 0 ? &calls
                                                             : NULL;
        if (number == NULL || i + 1 == argc || !parse_number(argv[i + 1], number)) {
            fprintf(stderr, "usage: %s [--seed N] [--calls N]\n", argv[0]);
            return 1;
        }
    }
    printf("seed %" PRIu64 ", %" PRIu64 " calls\n", seed, calls);
    fixture_random_t random = {.state = seed};
    uint64_t programs = 0;
    for (uint64_t done = 0; done < calls; done += program.count) {
        size_t at = 0;
        /* The first program has the seed itself, so that the seed of a report repeats it. */
        const uint64_t program_seed = done == 0 ? seed : fixture_random_next(&random);
        program_make(&program, program_seed, program_length(program_seed));
        if (!run_program(&run, &program, &at)) {
            report(&run, &program, at);
            return 1;
        }
        programs++;
    }
    printf("%" PRIu64 " programs agree\n", programs);
    return 0;
}
