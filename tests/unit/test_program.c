/*
 * Tests of experiments/lib/program and program_reader: which calls are read out of which events.
 */
#include "program.h"

#include "host_fault.h"
#include "trace_fixture.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#define MIB (UINT64_C(1) << 20)

/* Kinds of the calls of a program, one letter each, in order. */
static const char *program_letters(const pleat_program_t *program)
{
    static const char letters[PLEAT_PROGRAM_CALL_COUNT + 1] = "AXFWCcE?"; /* as the list has them */
    static char text[64];
    cr_assert(lt(sz, program->call_count, sizeof(text)));
    uint64_t next_event = 0;
    for (size_t i = 0; i < program->call_count; i++) {
        text[i] = letters[program->calls[i].kind];
        cr_assert(eq(u64, program->calls[i].first_event, next_event), "call %zu leaves a gap", i);
        next_event += program->calls[i].event_count;
    }
    text[program->call_count] = '\0';
    return text;
}

static void program_expect(const char *trace, const char *letters)
{
    pleat_program_t *program = trace_fixture_read(trace);
    cr_expect(eq(str, (char *)(uintptr_t)program_letters(program), (char *)(uintptr_t)letters));
    pleat_program_destroy(program);
}

/* As program_expect, under a limit of @p limit_mib. */
static pleat_program_t *program_read_limited(const char *text, uint64_t limit_mib)
{
    pleat_options_t options = PLEAT_OPTIONS_INIT;
    options.limit_bytes = limit_mib * MIB;
    pleat_trace_t *trace = trace_fixture_load(text);
    pleat_program_t *program = trace_fixture_program(trace, &options);
    pleat_trace_destroy(trace);
    return program;
}

Test(program, reads_allocations_and_frees_and_uses_slots_again, .timeout = 5)
{
    pleat_program_t *program = trace_fixture_read("segment_alloc 200000 2097152 0 10\n"
                                                  "alloc 200000 512 0 11\n"
                                                  "alloc 200200 700 0 12\n"
                                                  "free_requested 200000 512 0 20\n"
                                                  "free_completed 200000 512 0 21\n"
                                                  "alloc 200000 100 0 9\n");
    cr_expect(eq(str, (char *)(uintptr_t)program_letters(program), "AAFA"));
    cr_expect(eq(u32, program->slot_count, 2));
    cr_expect(eq(u32, program->calls[3].slot, program->calls[0].slot));
    cr_expect(eq(u32, program->calls[0].event_count, 2));
    cr_expect(eq(u32, program->calls[2].event_count, 2));
    cr_expect(eq(u64, program->calls[1].bytes, 700));
    cr_expect(eq(u64, program->first_time_us, 10));
    cr_expect(eq(u64, program->calls[3].time_us, 20)); /* time never steps back */
    cr_expect(eq(u64, program->duration_us, 11));
    cr_expect(pleat_program_is_checkable(program, NULL));
    pleat_program_destroy(program);
}

Test(program, reads_a_free_that_waits_until_the_next_allocation, .timeout = 5)
{
    pleat_program_t *program = trace_fixture_read("segment_alloc 200000 2097152 0 0\n"
                                                  "alloc 200000 512 0 0\n"
                                                  "free_requested 200000 512 0 1\n"
                                                  "alloc 200200 512 0 2\n"
                                                  "free_completed 200000 512 0 3\n"
                                                  "alloc 200000 512 0 3\n");
    cr_expect(eq(str, (char *)(uintptr_t)program_letters(program), "AWACA"));
    cr_expect(eq(u32, program->calls[4].first_event, 4));
    cr_expect(eq(u32, program->calls[4].event_count, 2));
    cr_expect(eq(u64, program->undecided[PLEAT_UNDECIDED_WAITED_STREAM].count, 1));
    pleat_program_destroy(program);
}

Test(program, reads_a_late_completion_without_allocation_as_empty_cache, .timeout = 5)
{
    program_expect("segment_alloc 200000 2097152 0 0\n"
                   "alloc 200000 512 0 0\n"
                   "alloc 200200 512 0 0\n"
                   "free_requested 200000 512 0 1\n"
                   "free_requested 200200 512 0 2\n"
                   "free_completed 200200 512 0 2\n"
                   "free_completed 200000 512 0 3\n"
                   "alloc 200000 512 0 4\n",
                   "AAWFCA");
    program_expect("segment_alloc 200000 2097152 0 0\n"
                   "alloc 200000 512 0 0\n"
                   "alloc 200200 512 0 0\n"
                   "free_requested 200000 512 0 1\n"
                   "alloc 200400 512 0 1\n"
                   "free_completed 200000 512 0 3\n"
                   "free_requested 200200 512 0 2\n"
                   "free_completed 200200 512 0 2\n",
                   "AAWACEF");
}

Test(program, counts_completions_at_the_end_as_undecided, .timeout = 5)
{
    pleat_program_t *program = trace_fixture_read("segment_alloc 200000 2097152 0 0\n"
                                                  "alloc 200000 512 0 0\n"
                                                  "free_requested 200000 512 0 1\n"
                                                  "snapshot 0 0 0 1\n"
                                                  "free_completed 200000 512 0 3\n");
    cr_expect(eq(str, (char *)(uintptr_t)program_letters(program), "AWCE"));
    cr_expect(eq(u64, program->undecided[PLEAT_UNDECIDED_TRAILING_COMPLETION].count, 1));
    pleat_program_destroy(program);
}

#define TWO_FREE_SEGMENTS                   \
    "segment_alloc 2000000 12582912 0 0\n"  \
    "alloc 2000000 12582912 0 0\n"          \
    "segment_alloc 4000000 16777216 0 0\n"  \
    "alloc 4000000 16777216 0 0\n"          \
    "free_requested 2000000 12582912 0 1\n" \
    "free_completed 2000000 12582912 0 1\n" \
    "free_requested 4000000 16777216 0 1\n" \
    "free_completed 4000000 16777216 0 1\n" \
    "segment_free 2000000 12582912 0 2\n"   \
    "segment_free 4000000 16777216 0 2\n"

Test(program, reads_a_run_as_a_retry_when_the_limit_was_exceeded, .timeout = 5)
{
    static const char *const trace = TWO_FREE_SEGMENTS "segment_alloc 8000000 20971520 0 3\n"
                                                       "alloc 8000000 20971520 0 3\n";
    pleat_program_t *program = program_read_limited(trace, 40);
    cr_expect(eq(str, (char *)(uintptr_t)program_letters(program), "AAFFA"));
    cr_assert(eq(sz, program->run_count, 1));
    cr_expect(program->runs[0].is_in_request);
    cr_expect(eq(u64, program->runs[0].segment_count, 2));
    cr_expect(eq(u32, program->runs[0].call, 4));
    cr_expect(eq(u32, program->calls[4].event_count, 4));
    cr_expect(eq(u64, program->undecided[PLEAT_UNDECIDED_RUN_AS_RETRY].count, 1));
    pleat_program_destroy(program);
    /* Room for both: the program itself emptied the cache, or the device had less than it has. */
    program = program_read_limited(trace, 48);
    cr_expect(eq(str, (char *)(uintptr_t)program_letters(program), "AAFFEA"));
    cr_expect(not(program->runs[0].is_in_request));
    cr_expect(eq(u64, program->undecided[PLEAT_UNDECIDED_RUN_AS_EMPTY_CACHE].count, 1));
    cr_expect(eq(u64, program->undecided[PLEAT_UNDECIDED_RUN_AS_EMPTY_CACHE].first_event, 8));
    pleat_program_destroy(program);
}

Test(program, reads_a_run_as_a_retry_when_the_device_was_exceeded, .timeout = 5)
{
    const pleat_options_t options = PLEAT_OPTIONS_INIT;
    pleat_trace_t *trace =
        trace_fixture_load(TWO_FREE_SEGMENTS "segment_alloc 8000000 20971520 0 3\n"
                                             "alloc 8000000 20971520 0 3\n");
    pleat_program_t *program = NULL;
    cr_assert(eq(int, pleat_program_create(trace, &options, 47 * MIB, &program), PLEAT_OK));
    cr_expect(eq(str, (char *)(uintptr_t)program_letters(program), "AAFFA"));
    pleat_program_destroy(program);
    pleat_trace_destroy(trace);
}

Test(program, reads_a_run_as_empty_cache_when_a_freed_segment_would_have_served, .timeout = 5)
{
    pleat_program_t *program =
        program_read_limited(TWO_FREE_SEGMENTS "segment_alloc 8000000 16777216 0 3\n"
                                               "alloc 8000000 16777216 0 3\n",
                             40);
    cr_expect(eq(str, (char *)(uintptr_t)program_letters(program), "AAFFEA"));
    cr_expect(eq(u64, program->undecided[PLEAT_UNDECIDED_RUN_AS_EMPTY_CACHE].count, 0));
    pleat_program_destroy(program);
    /* On another stream, or from the other pool, it would not have. */
    program = program_read_limited(TWO_FREE_SEGMENTS "segment_alloc 8000000 16777216 1 3\n"
                                                     "alloc 8000000 16777216 1 3\n",
                                   40);
    cr_expect(eq(str, (char *)(uintptr_t)program_letters(program), "AAFFA"));
    pleat_program_destroy(program);
    program = program_read_limited(TWO_FREE_SEGMENTS "segment_alloc 8000000 2097152 0 3\n"
                                                     "alloc 8000000 512 0 3\n",
                                   28);
    cr_expect(eq(str, (char *)(uintptr_t)program_letters(program), "AAFFA"));
    pleat_program_destroy(program);
}

Test(program, reads_a_run_without_allocation_behind_it_as_empty_cache, .timeout = 5)
{
    program_expect(TWO_FREE_SEGMENTS, "AAFFE");
    program_expect("segment_alloc 200000 2097152 0 0\n"
                   "alloc 200000 512 0 0\n" TWO_FREE_SEGMENTS
                   "free_requested 200000 512 0 3\nfree_completed 200000 512 0 3\n",
                   "AAAFFEF");
    /* The allocation behind it found its block in the cache: no reason for a retry. */
    program_expect("segment_alloc 200000 2097152 0 0\n"
                   "alloc 200000 512 0 0\n" TWO_FREE_SEGMENTS "alloc 200200 512 0 3\n",
                   "AAAFFEA");
}

Test(program, leaves_a_wait_to_the_retry_whose_block_it_held, .timeout = 5)
{
    pleat_program_t *program = program_read_limited("segment_alloc 4000000 16777216 0 0\n"
                                                    "alloc 4000000 16777216 0 0\n"
                                                    "free_requested 4000000 16777216 0 1\n"
                                                    "free_completed 4000000 16777216 0 2\n"
                                                    "segment_free 4000000 16777216 0 2\n"
                                                    "segment_alloc 8000000 12582912 0 3\n"
                                                    "alloc 8000000 12582912 0 3\n",
                                                    20);
    /* Complete at once: the cached segment would have served. */
    cr_expect(eq(str, (char *)(uintptr_t)program_letters(program), "AFEA"));
    pleat_program_destroy(program);
    program = program_read_limited("segment_alloc 200000 2097152 0 0\n"
                                   "alloc 200000 512 0 0\n"
                                   "segment_alloc 4000000 16777216 0 0\n"
                                   "alloc 4000000 16777216 0 0\n"
                                   "free_requested 4000000 16777216 0 1\n"
                                   "free_requested 200000 512 0 1\n"
                                   "free_completed 200000 512 0 1\n"
                                   "free_completed 4000000 16777216 0 2\n"
                                   "segment_free 4000000 16777216 0 2\n"
                                   "segment_free 200000 2097152 0 2\n"
                                   "segment_alloc 8000000 12582912 0 3\n"
                                   "alloc 8000000 12582912 0 3\n",
                                   20);
    cr_expect(eq(str, (char *)(uintptr_t)program_letters(program), "AAWFcA"));
    cr_expect(eq(u32, program->calls[5].event_count, 5));
    pleat_program_destroy(program);
}

Test(program, reads_early_collection_as_part_of_the_request, .timeout = 5)
{
    pleat_options_t options = PLEAT_OPTIONS_INIT;
    options.limit_bytes = 60 * MIB;
    options.garbage_collection_threshold = 0.4;
    pleat_trace_t *trace =
        trace_fixture_load(TWO_FREE_SEGMENTS "segment_alloc 8000000 20971520 0 3\n"
                                             "alloc 8000000 20971520 0 3\n");
    /* All that was free, in the order of a flush. */
    pleat_program_t *program = trace_fixture_program(trace, &options);
    cr_expect(eq(str, (char *)(uintptr_t)program_letters(program), "AAFFEA"));
    pleat_program_destroy(program);
    pleat_trace_destroy(trace);
    trace = trace_fixture_load("segment_alloc 1000000 10485760 0 0\n"
                               "alloc 1000000 10485760 0 0\n"
                               "free_requested 1000000 10485760 0 1\n"
                               "free_completed 1000000 10485760 0 1\n" TWO_FREE_SEGMENTS
                               "segment_alloc 8000000 20971520 0 3\n"
                               "alloc 8000000 20971520 0 3\n");
    /* A free segment is left: no flush. */
    program = trace_fixture_program(trace, &options);
    cr_expect(eq(str, (char *)(uintptr_t)program_letters(program), "AFAAFFA"));
    pleat_program_destroy(program);
    options.garbage_collection_threshold = 0.0;
    program = trace_fixture_program(trace, &options);
    cr_expect(eq(str, (char *)(uintptr_t)program_letters(program), "AFAAFFEA"));
    pleat_program_destroy(program);
    pleat_trace_destroy(trace);
}

Test(program, knows_that_oversize_blocks_serve_oversize_requests_only, .timeout = 5)
{
    pleat_options_t options = PLEAT_OPTIONS_INIT;
    options.limit_bytes = 40 * MIB;
    options.max_split_bytes = 15 * MIB;
    pleat_trace_t *trace =
        trace_fixture_load(TWO_FREE_SEGMENTS "segment_alloc 8000000 14680064 0 3\n"
                                             "alloc 8000000 14680064 0 3\n");
    pleat_program_t *program = trace_fixture_program(trace, &options);
    cr_expect(eq(str, (char *)(uintptr_t)program_letters(program), "AAFFEA"));
    pleat_program_destroy(program);
    options.max_split_bytes = 17 * MIB;
    program = trace_fixture_program(trace, &options);
    cr_expect(eq(str, (char *)(uintptr_t)program_letters(program), "AAFFEA"));
    pleat_program_destroy(program);
    pleat_trace_destroy(trace);
    /* A large block serves an oversize request only if it is not much larger. */
    options.max_split_bytes = 11 * MIB;
    options.max_non_split_rounding_bytes = 2 * MIB;
    trace = trace_fixture_load("segment_alloc 4000000 16777216 0 0\n"
                               "alloc 4000000 16777216 0 0\n"
                               "free_requested 4000000 16777216 0 1\n"
                               "free_completed 4000000 16777216 0 1\n"
                               "segment_free 4000000 16777216 0 2\n"
                               "segment_alloc 8000000 14680064 0 3\n"
                               "alloc 8000000 14680064 0 3\n");
    options.limit_bytes = 20 * MIB;
    program = trace_fixture_program(trace, &options);
    cr_expect(eq(str, (char *)(uintptr_t)program_letters(program), "AFA"));
    pleat_program_destroy(program);
    options.max_non_split_rounding_bytes = 0; /* as much as large_segment_bytes */
    program = trace_fixture_program(trace, &options);
    cr_expect(eq(str, (char *)(uintptr_t)program_letters(program), "AFEA"));
    pleat_program_destroy(program);
    pleat_trace_destroy(trace);
}

Test(program, reads_an_allocation_that_failed, .timeout = 5)
{
    pleat_program_t *program =
        program_read_limited(TWO_FREE_SEGMENTS "oom 5000 104857600 0 3\n", 40);
    cr_expect(eq(str, (char *)(uintptr_t)program_letters(program), "AAFFX"));
    cr_expect(eq(u64, program->calls[4].bytes, 104857600));
    cr_expect(eq(u64, program->undecided[PLEAT_UNDECIDED_FAILED_REQUEST].count, 1));
    cr_expect(program->runs[0].is_in_request);
    pleat_program_destroy(program);
}

Test(program, notes_a_trace_that_begins_in_the_middle, .timeout = 5)
{
    pleat_program_t *program = trace_fixture_read("free_requested 900000 512 0 0\n"
                                                  "free_completed 900000 512 0 0\n"
                                                  "segment_alloc 200000 2097152 0 1\n"
                                                  "alloc 200000 512 0 1\n"
                                                  "free_requested 200000 512 0 2\n"
                                                  "free_completed 200000 512 0 2\n");
    cr_expect(eq(str, (char *)(uintptr_t)program_letters(program), "?AF"));
    pleat_program_note_t note = PLEAT_PROGRAM_NOTE_COUNT;
    cr_expect(not(pleat_program_is_checkable(program, &note)));
    cr_expect(eq(int, note, PLEAT_PROGRAM_NOTE_OUTSIDE));
    cr_expect(eq(u64, program->notes[note].count, 1));
    pleat_program_destroy(program);
    program = trace_fixture_read("segment_alloc 200000 2097152 0 1\n"
                                 "alloc 900000 512 0 1\n");
    cr_expect(not(pleat_program_is_checkable(program, &note)));
    cr_expect(eq(int, note, PLEAT_PROGRAM_NOTE_OUTSIDE));
    pleat_program_destroy(program);
    program = trace_fixture_read("segment_free 900000 2097152 0 1\n"
                                 "segment_alloc 200000 2097152 0 1\n"
                                 "alloc 200000 512 0 1\n");
    cr_expect(not(pleat_program_is_checkable(program, &note)));
    cr_expect(eq(int, note, PLEAT_PROGRAM_NOTE_SEGMENT_UNKNOWN));
    pleat_program_destroy(program);
}

Test(program, notes_what_was_not_recorded_by_a_classic_allocator, .timeout = 5)
{
    pleat_program_note_t note = PLEAT_PROGRAM_NOTE_COUNT;
    pleat_program_t *program = trace_fixture_read("alloc 200000 512 0 1\n"
                                                  "free_requested 200000 512 0 2\n"
                                                  "free_completed 200000 512 0 2\n");
    cr_expect(eq(str, (char *)(uintptr_t)program_letters(program), "AF"));
    cr_expect(not(pleat_program_is_checkable(program, &note)));
    cr_expect(eq(int, note, PLEAT_PROGRAM_NOTE_NO_SEGMENTS));
    cr_expect(eq(u64, program->notes[PLEAT_PROGRAM_NOTE_OUTSIDE].count, 0));
    pleat_program_destroy(program);
    program = trace_fixture_read("segment_map 200000 2097152 0 1\n"
                                 "alloc 200000 512 0 1\n"
                                 "free_requested 200000 512 0 2\n"
                                 "free_completed 200000 512 0 2\n"
                                 "segment_unmap 200000 2097152 0 3\n");
    cr_expect(eq(str, (char *)(uintptr_t)program_letters(program), "AFE"));
    cr_expect(not(pleat_program_is_checkable(program, &note)));
    cr_expect(eq(int, note, PLEAT_PROGRAM_NOTE_NOT_CLASSIC));
    pleat_program_destroy(program);
}

Test(program, notes_events_that_contradict_each_other, .timeout = 5)
{
    pleat_program_t *program = trace_fixture_read("segment_alloc 200000 2097152 0 0\n"
                                                  "alloc 200000 512 0 1\n"
                                                  "alloc 200000 1024 0 2\n"
                                                  "free_completed 200000 1024 0 3\n"
                                                  "free_requested 200200 1024 0 3\n"
                                                  "alloc 0 1024 0 4\n"
                                                  "segment_alloc 280000 2097152 0 5\n");
    cr_expect(eq(str, (char *)(uintptr_t)program_letters(program), "AFA???"));
    cr_expect(eq(u64, program->notes[PLEAT_PROGRAM_NOTE_ALLOC_LIVE].count, 1));
    cr_expect(eq(u64, program->notes[PLEAT_PROGRAM_NOTE_COMPLETION_UNKNOWN].count, 1));
    cr_expect(eq(u64, program->notes[PLEAT_PROGRAM_NOTE_FREE_UNKNOWN].count, 1));
    cr_expect(eq(u64, program->notes[PLEAT_PROGRAM_NOTE_ADDRESS_ZERO].count, 1));
    cr_expect(eq(u64, program->notes[PLEAT_PROGRAM_NOTE_SEGMENT_OVERLAP].count, 1));
    cr_expect(eq(u64, program->notes[PLEAT_PROGRAM_NOTE_SEGMENT_UNUSED].count, 1));
    pleat_program_destroy(program);
}

Test(program, notes_frees_that_tell_of_another_block, .timeout = 5)
{
    pleat_program_t *program = trace_fixture_read("segment_alloc 200000 2097152 0 0\n"
                                                  "alloc 200000 512 0 1\n"
                                                  "free_requested 200000 513 0 2\n" /* size */
                                                  "free_completed 200000 512 0 2\n"
                                                  "alloc 200000 1024 0 3\n"
                                                  "free_requested 200000 1024 0 4\n"
                                                  "free_completed 200000 1024 1 4\n" /* stream */
                                                  "alloc 200000 2048 0 5\n"
                                                  "free_requested 200000 2048 0 6\n"
                                                  "alloc 201000 512 0 7\n"
                                                  "free_completed 200000 1024 0 8\n" /* late */
                                                  "alloc 200000 512 0 9\n"
                                                  "free_requested 200000 512 0 9\n"
                                                  "free_completed 200000 512 0 9\n");
    const pleat_program_finding_t *found = &program->notes[PLEAT_PROGRAM_NOTE_FREE_DIFFERS];
    cr_expect(eq(str, (char *)(uintptr_t)program_letters(program), "AFAFAWACAF"));
    cr_expect(eq(u64, found->count, 3));
    cr_expect(eq(u64, found->first_event, 2));
    cr_expect(pleat_program_is_checkable(program, NULL));
    pleat_program_destroy(program);
}

Test(program, notes_time_stamps_that_go_back, .timeout = 5)
{
    pleat_program_t *program = trace_fixture_read("alloc 200000 512 0 500\n"
                                                  "alloc 300000 512 0 700\n"
                                                  "free_requested 200000 512 0 50\n"
                                                  "free_completed 200000 512 0 10\n"
                                                  "snapshot 0 0 0 600\n"
                                                  "alloc 200000 512 0 700\n");
    const pleat_program_finding_t *found = &program->notes[PLEAT_PROGRAM_NOTE_TIME_BACK];
    cr_expect(eq(u64, found->count, 3));
    cr_expect(eq(u64, found->first_event, 2));
    cr_expect(eq(u64, program->duration_us, 200));
    for (size_t i = 1; i < program->call_count; i++) {
        cr_expect(ge(u64, program->calls[i].time_us, program->calls[i - 1].time_us));
    }
    pleat_program_destroy(program);
    program = trace_fixture_read("alloc 200000 512 0 500\n"
                                 "free_requested 200000 512 0 400\n");
    cr_expect(eq(u64, program->duration_us, 0)); /* never negative */
    pleat_program_destroy(program);
}

Test(program, notes_unknown_frees_in_a_trace_without_segments, .timeout = 5)
{
    pleat_program_t *program = trace_fixture_read("alloc 1000 512 0 0\n"
                                                  "free_requested 9000 512 0 1\n"
                                                  "free_completed 9000 512 0 1\n"
                                                  "free_requested 1000 512 0 2\n"
                                                  "free_completed 1000 512 0 2\n"
                                                  "free_requested 1000 512 0 3\n");
    cr_expect(eq(u64, program->notes[PLEAT_PROGRAM_NOTE_FREE_UNKNOWN].count, 2));
    cr_expect(eq(u64, program->notes[PLEAT_PROGRAM_NOTE_FREE_UNKNOWN].first_event, 1));
    cr_expect(eq(u64, program->notes[PLEAT_PROGRAM_NOTE_OUTSIDE].count, 0));
    pleat_program_destroy(program);
}

Test(program, notes_a_segment_that_goes_with_another_size, .timeout = 5)
{
    pleat_program_t *program = trace_fixture_read("segment_alloc 2000000 20971520 0 0\n"
                                                  "alloc 2000000 5242880 0 0\n"
                                                  "free_requested 2000000 5242880 0 0\n"
                                                  "free_completed 2000000 5242880 0 0\n"
                                                  "segment_free 2000000 4194304 0 0\n"
                                                  "segment_alloc 4000000 2097152 0 0\n"
                                                  "alloc 4000000 512 0 0\n"
                                                  "free_requested 4000000 512 0 0\n"
                                                  "free_completed 4000000 512 0 0\n"
                                                  "segment_free 4000000 2097152 0 0\n");
    cr_expect(eq(u64, program->notes[PLEAT_PROGRAM_NOTE_SEGMENT_DIFFERS].count, 1));
    cr_expect(eq(u64, program->notes[PLEAT_PROGRAM_NOTE_SEGMENT_DIFFERS].first_event, 4));
    pleat_program_destroy(program);
}

Test(program, names_of_notes, .timeout = 5)
{
    cr_expect(eq(str, (char *)pleat_program_note_key(PLEAT_PROGRAM_NOTE_TIME_BACK), "time_back"));
    cr_expect(eq(str, (char *)pleat_program_note_key(PLEAT_PROGRAM_NOTE_COUNT), "unknown"));
    cr_expect(pleat_program_note_is_warning(PLEAT_PROGRAM_NOTE_FREE_UNKNOWN));
    cr_expect(not(pleat_program_note_is_warning(PLEAT_PROGRAM_NOTE_NO_SEGMENTS)));
    cr_expect(not(pleat_program_note_is_warning(PLEAT_PROGRAM_NOTE_COUNT)));
}

Test(program, ends_a_wait_over_which_another_block_is_allocated, .timeout = 5)
{
    pleat_program_t *program = trace_fixture_read("segment_alloc 200000 2097152 0 0\n"
                                                  "alloc 200000 512 0 1\n"
                                                  "free_requested 200000 512 0 1\n"
                                                  "alloc 200000 512 0 2\n");
    cr_expect(eq(str, (char *)(uintptr_t)program_letters(program), "AWCA"));
    cr_expect(eq(u64, program->notes[PLEAT_PROGRAM_NOTE_ALLOC_LIVE].count, 1));
    pleat_program_destroy(program);
}

Test(program, finds_an_order_of_streams_that_explains_the_order_of_segments, .timeout = 5)
{
    pleat_program_t *program = trace_fixture_read("segment_alloc 200000 2097152 3 0\n"
                                                  "alloc 200000 512 3 1\n"
                                                  "segment_alloc 400000 2097152 7 0\n"
                                                  "alloc 400000 512 7 1\n"
                                                  "free_requested 200000 512 3 1\n"
                                                  "free_completed 200000 512 3 1\n"
                                                  "free_requested 400000 512 7 1\n"
                                                  "free_completed 400000 512 7 1\n"
                                                  "segment_free 400000 2097152 7 2\n"
                                                  "segment_free 200000 2097152 3 2\n");
    cr_assert(eq(u32, program->stream_count, 2));
    cr_expect(eq(u64, program->streams[0], 3));
    cr_expect(eq(u64, program->streams[1], 7));
    cr_expect(eq(u64, program->handles[0], 7));
    cr_expect(eq(u64, program->handles[1], 3));
    cr_expect(eq(u64, program->undecided[PLEAT_UNDECIDED_STREAM_ORDER].count, 1));
    cr_expect(eq(u64, program->undecided[PLEAT_UNDECIDED_SHORT_WAIT].count, 0));
    pleat_program_destroy(program);
}

Test(program, says_that_short_waits_leave_no_trace, .timeout = 5)
{
    pleat_program_t *program = trace_fixture_read("segment_alloc 200000 2097152 0 0\n"
                                                  "alloc 200000 512 0 1\n"
                                                  "free_requested 200000 512 0 1\n"
                                                  "free_completed 200000 512 0 1\n"
                                                  "segment_alloc 400000 2097152 1 0\n"
                                                  "alloc 400000 512 1 1\n");
    cr_expect(eq(u64, program->undecided[PLEAT_UNDECIDED_SHORT_WAIT].count, 1));
    cr_expect(eq(u64, program->undecided[PLEAT_UNDECIDED_SHORT_WAIT].first_event, 3));
    pleat_program_destroy(program);
}

Test(program, survives_sizes_that_no_request_has, .timeout = 5)
{
    program_expect(TWO_FREE_SEGMENTS "segment_alloc 8000000 4611686018427387904 0 3\n"
                                     "alloc 8000000 4611686018427387904 0 3\n"
                                     "alloc 8000200 0 0 3\n"
                                     "oom 0 18446744073709551615 0 3\n",
                   "AAFFEAAX");
}

Test(program, refuses_more_events_than_it_can_number, .timeout = 5)
{
    const pleat_options_t options = PLEAT_OPTIONS_INIT;
    const pleat_trace_t trace = {.event_count = UINT32_MAX};
    pleat_program_t *program = NULL;
    cr_expect(eq(int, pleat_program_create(&trace, &options, 1, &program), PLEAT_ERR_INVALID));
    cr_expect(program == NULL);
}

Test(program, of_an_empty_trace_is_empty, .timeout = 5)
{
    const pleat_options_t options = PLEAT_OPTIONS_INIT;
    const pleat_trace_t trace = {.event_count = 0};
    pleat_program_t *program = NULL;
    cr_assert(eq(int, pleat_program_create(&trace, &options, 1, &program), PLEAT_OK));
    cr_expect(eq(sz, program->call_count, 0));
    cr_expect(eq(u64, program->duration_us, 0));
    pleat_program_destroy(program);
    pleat_program_destroy(NULL);
}

Test(program, has_a_text_for_everything, .timeout = 5)
{
    for (int kind = 0; kind < PLEAT_PROGRAM_CALL_COUNT; kind++) {
        cr_expect(strlen(pleat_program_call_text((pleat_program_call_kind_t)kind)) > 0);
    }
    for (int note = 0; note < PLEAT_PROGRAM_NOTE_COUNT; note++) {
        cr_expect(strlen(pleat_program_note_text((pleat_program_note_t)note)) > 0);
    }
    for (int what = 0; what < PLEAT_UNDECIDED_COUNT; what++) {
        cr_expect(strlen(pleat_undecided_text((pleat_undecided_t)what)) > 0);
    }
    cr_expect(eq(str, (char *)(uintptr_t)pleat_program_call_text(PLEAT_PROGRAM_CALL_COUNT),
                 "unknown call"));
    cr_expect(eq(str, (char *)(uintptr_t)pleat_program_note_text(PLEAT_PROGRAM_NOTE_COUNT),
                 "unknown note"));
    cr_expect(eq(str, (char *)(uintptr_t)pleat_undecided_text(PLEAT_UNDECIDED_COUNT), "unknown"));
}

Test(program, fails_cleanly_without_host_memory, .timeout = 20)
{
    const pleat_options_t options = PLEAT_OPTIONS_INIT;
    pleat_trace_t *trace = trace_fixture_load("segment_alloc 200000 2097152 0 0\n"
                                              "alloc 200000 512 0 0\n"
                                              "free_requested 200000 512 0 1\n"
                                              "free_completed 200000 512 0 1\n"
                                              "alloc 200000 512 0 0\n"
                                              "free_requested 200000 512 0 1\n"
                                              "snapshot 0 0 1 1\n"
                                              "free_completed 200000 512 0 3\n"
                                              "segment_free 200000 2097152 0 3\n");
    pleat_status_t status = PLEAT_ERR_OOM_HOST;
    for (uint64_t nth = 1; status != PLEAT_OK; nth++) {
        cr_assert(lt(u64, nth, 100));
        pleat_program_t *program = NULL;
        host_fault_after(nth);
        status = pleat_program_create(trace, &options, 1 << 30, &program);
        host_fault_after(0);
        cr_assert(status == PLEAT_OK || status == PLEAT_ERR_OOM_HOST);
        cr_assert(eq(int, program == NULL, status != PLEAT_OK));
        pleat_program_destroy(program);
    }
    pleat_trace_destroy(trace);
}
