/*
 * test_session_check: every bundled classic session and case is performed without a difference, and
 * whatever is changed in a recording is noticed, at its call.
 */
#include "session_fixture.h"

#include <criterion/new/assert.h>

#include <pleat/memory_stats.h>

Test(session_check, every_classic_recording_is_repeated, .timeout = 120)
{
    static const char *const names[] = {"default",
                                        "default_b",
                                        "default_small",
                                        "default_capped",
                                        "split128",
                                        "split64_capped",
                                        "nonsplit_round",
                                        "pow2_4",
                                        "pow2_list",
                                        "gc06_capped",
                                        "gc_split_capped",
                                        "streams",
                                        "streams_capped",
                                        "edge",
                                        "busy",
                                        "full",
                                        "large32",
                                        "gc_split_round_capped",
                                        "fresh_n_busy",
                                        "fresh_n_busy_capped",
                                        "fresh_n_capped",
                                        "fresh_n_default",
                                        "fresh_n_edge",
                                        "fresh_n_gc",
                                        "fresh_n_gc_split",
                                        "fresh_n_large",
                                        "fresh_n_large_seg",
                                        "fresh_n_pow2",
                                        "fresh_n_pow2_list",
                                        "fresh_n_small",
                                        "fresh_n_split",
                                        "fresh_n_split_capped",
                                        "fresh_n_streams",
                                        "fresh_n_streams_capped",
                                        "fresh_p_all",
                                        "fresh_p_busy",
                                        "fresh_p_capped",
                                        "fresh_p_default",
                                        "fresh_p_gc_split_capped",
                                        "fresh_p_options",
                                        "pools",
                                        "pools_all_streams",
                                        "pools_capped",
                                        "lib_pools",
                                        "lib_pools_busy",
                                        "lib_pools_capped",
                                        "lib_pools_full",
                                        "lib_pools_gc",
                                        "lib_pools_nested",
                                        "lib_pools_once",
                                        "lib_pools_options",
                                        "lib_pools_streams"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char name[64];
        (void)snprintf(name, sizeof(name), "sessions/%s.oracle.xz", names[i]);
        expect_equal(name);
    }
}

Test(session_check, every_classic_case_holds, .timeout = 60)
{
    static const char *const names[] = {"a_roundup_divisions_classic",
                                        "a_runtime_update_wipes_classic",
                                        "a_split_limit_refuses_classic",
                                        "b_buffers_just_below_ten_classic",
                                        "b_every_block_pinned_classic",
                                        "b_free_sum_enough_both",
                                        "b_growing_lengths_classic",
                                        "b_optimizer_state_step_two_classic",
                                        "b_rising_chunks_classic",
                                        "b_shredded_block_classic",
                                        "b_thousands_of_medium_tensors_classic",
                                        "b_three_kinds_of_gap_classic",
                                        "b_two_halves_then_whole_classic",
                                        "b_weights_loading_classic",
                                        "d_allocated_against_active_both",
                                        "d_fresh_streams_keep_caches_classic",
                                        "d_own_stream_and_repeats_both",
                                        "d_pending_neighbours_do_not_merge_classic",
                                        "d_slow_stream_at_the_head_classic",
                                        "d_waiting_made_room_classic",
                                        "e_fraction_one_byte_short_classic",
                                        "e_gc_needs_a_limit_classic",
                                        "e_gc_takes_the_oldest_classic",
                                        "e_limit_lowered_at_run_time_classic",
                                        "e_release_oversize_before_retry_classic",
                                        "e_sizes_in_the_message_classic",
                                        "f_boundary_sizes_classic",
                                        "f_counters_after_failures_classic",
                                        "f_peaks_and_resets_both"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char name[96];
        (void)snprintf(name, sizeof(name), "cases/%s.case", names[i]);
        expect_equal(name);
    }
}

Test(session_check, every_expandable_recording_is_repeated, .timeout = 120)
{
    static const char *const names[] = {"exp",
                                        "exp_capped",
                                        "exp_gc_capped",
                                        "exp_large",
                                        "exp_split",
                                        "exp_streams",
                                        "busy_exp",
                                        "full_exp",
                                        "options",
                                        "fresh_x_busy",
                                        "fresh_x_capped",
                                        "fresh_x_default",
                                        "fresh_x_edge",
                                        "fresh_x_gc",
                                        "fresh_x_large",
                                        "fresh_x_split",
                                        "fresh_x_streams",
                                        "fresh_p_x",
                                        "fresh_p_x_busy",
                                        "pools_exp",
                                        "lib_pools_x",
                                        "lib_pools_x_capped",
                                        "lib_pools_x_full",
                                        "lib_pools_x_options",
                                        "lib_pools_x_streams"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char name[64];
        (void)snprintf(name, sizeof(name), "sessions/%s.oracle.xz", names[i]);
        expect_equal(name);
    }
}

Test(session_check, every_case_of_the_folding_modes_holds, .timeout = 120)
{
    static const char *const names[] = {"b_hard_gap_pleated",
                                        "b_offload_cycles_pleated",
                                        "b_shredded_block_pleated",
                                        "b_split_limit_and_expandable_growth",
                                        "b_split_limit_growth_pleated",
                                        "b_weights_loading_pleated",
                                        "c_blocks_until_full_expandable",
                                        "c_canary_and_fences_expandable",
                                        "c_growth_fails_then_fits_expandable",
                                        "c_hole_before_tail_expandable",
                                        "c_limit_test_uses_segment_size_expandable",
                                        "c_pages_and_map_calls_expandable",
                                        "c_pages_pinned_by_small_blocks_expandable",
                                        "c_tail_beyond_the_device_expandable",
                                        "c_toggle_at_run_time",
                                        "d_fresh_streams_keep_caches_pleated",
                                        "d_no_reuse_before_done_pleated",
                                        "d_waiting_made_room_pleated",
                                        "e_flush_more_than_needed_pleated",
                                        "e_fraction_one_byte_short_pleated"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char name[96];
        (void)snprintf(name, sizeof(name), "cases/%s.case", names[i]);
        expect_equal(name);
    }
}

#define TWO_BUSY_STREAMS                            \
    "pleat-oracle 1\n"                              \
    "total_memory 1500MiB\n"                        \
    "limit 60MiB\n"                                 \
    "keys num_alloc_retries num_sync_all_streams\n" \
    "base 0 0\n"                                    \
    "alloc 0 20971520 0 0x7f0000000000\n"           \
    " segment_alloc 0x7f0000000000 20971520 0\n"    \
    " stats\n"                                      \
    "alloc 1 20971520 0 0x7f0010000000\n"           \
    " segment_alloc 0x7f0010000000 20971520 0\n"    \
    " stats\n"                                      \
    "record 0 1\n stats\nrecord 1 3\n stats\n"      \
    "busy 1\n stats\nbusy 3\n stats\n"              \
    "free 0\n stats\nfree 1\n stats\n"              \
    "alloc 2 31457280 0 0x7f0010000000\n"

Test(session_check, an_allocation_waits_for_busy_streams_in_any_order, .timeout = 10)
{
    static const char *const sequences[] = {
        TWO_BUSY_STREAMS " free_completed 0x7f0010000000 20971520 0\n"
                         " free_completed 0x7f0000000000 20971520 0\n"
                         " segment_free 0x7f0000000000 20971520 0\n"
                         " segment_free 0x7f0010000000 20971520 0\n"
                         " segment_alloc 0x7f0010000000 31457280 0\n"
                         " stats 0=1 1=1\nend\n",
        TWO_BUSY_STREAMS " free_completed 0x7f0000000000 20971520 0\n"
                         " free_completed 0x7f0010000000 20971520 0\n"
                         " segment_free 0x7f0000000000 20971520 0\n"
                         " segment_free 0x7f0010000000 20971520 0\n"
                         " segment_alloc 0x7f0010000000 31457280 0\n"
                         " stats 0=1 1=1\nend\n"};
    for (size_t i = 0; i < 2; i++) {
        checked_t checked = load_text(sequences[i]);
        run(&checked);
        cr_expect(eq(sz, checked.check.difference_count, 0), "%s: expected %s, got %s",
                  checked.differences[0].what, checked.differences[0].expected,
                  checked.differences[0].got);
        pleat_session_destroy(checked.session);
    }
}

Test(session_check, a_completion_that_no_order_gives_is_noticed, .timeout = 10)
{
    checked_t checked = load_text(TWO_BUSY_STREAMS " free_completed 0x7f0010000000 20971520 0\n"
                                                   " segment_free 0x7f0000000000 20971520 0\n"
                                                   " segment_free 0x7f0010000000 20971520 0\n"
                                                   " segment_alloc 0x7f0010000000 31457280 0\n"
                                                   " stats 0=1 1=1\nend\n");
    const uint64_t line = checked.session->calls[checked.session->call_count - 1].line;
    run(&checked);
    cr_expect(lt(sz, 0, checked.check.difference_count));
    cr_expect(eq(u64, checked.differences[0].line, line));
    pleat_session_destroy(checked.session);
}

/* First call of a kind at or behind @p from. */
static pleat_session_call_t *find_call(pleat_session_t *session, pleat_session_call_kind_t kind,
                                       uint32_t from)
{
    for (uint32_t i = from; i < session->call_count; i++) {
        if (session->calls[i].kind == kind) {
            return &session->calls[i];
        }
    }
    cr_assert(false, "no such call");
    return NULL;
}

Test(session_check, a_changed_address_is_noticed, .timeout = 20)
{
    checked_t checked = load("sessions/default.oracle.xz");
    pleat_session_call_t *call = find_call(checked.session, PLEAT_SESSION_ALLOC, 100);
    call->address += 512;
    expect_difference(&checked, call->line, "address");
}

Test(session_check, a_changed_statistic_is_noticed, .timeout = 20)
{
    checked_t checked = load("sessions/default.oracle.xz");
    pleat_session_call_t *call = find_call(checked.session, PLEAT_SESSION_FREE, 1000);
    pleat_session_change_t *change = &checked.session->changes[call->changes.first];
    change->value += 1;
    expect_difference(&checked, call->line, checked.session->keys[change->key]);
}

Test(session_check, a_statistic_that_moves_unrecorded_is_noticed, .timeout = 20)
{
    checked_t checked = load("sessions/default.oracle.xz");
    pleat_session_call_t *call = find_call(checked.session, PLEAT_SESSION_FREE, 1000);
    const char *key = checked.session->keys[checked.session->changes[call->changes.first].key];
    call->changes.first++;
    call->changes.count--;
    expect_difference(&checked, call->line, key);
}

Test(session_check, a_missing_event_is_noticed, .timeout = 20)
{
    checked_t checked = load("sessions/default.oracle.xz");
    pleat_session_call_t *call = find_call(checked.session, PLEAT_SESSION_FREE, 500);
    call->events.count = 0;
    expect_difference(&checked, call->line, "event");
}

Test(session_check, swapped_events_are_noticed, .timeout = 20)
{
    checked_t checked = load("sessions/default_capped.oracle.xz");
    for (uint32_t i = 0; i < checked.session->call_count; i++) {
        pleat_session_call_t *call = &checked.session->calls[i];
        pleat_session_event_t *events = &checked.session->events[call->events.first];
        if (call->events.count >= 2 && events[0].action == PLEAT_ACTION_SEGMENT_FREE &&
            events[1].action == PLEAT_ACTION_SEGMENT_FREE) {
            const pleat_session_event_t first = events[0];
            events[0] = events[1];
            events[1] = first;
            expect_difference(&checked, call->line, "event");
            return;
        }
    }
    cr_assert(false, "no call with two device frees");
}

Test(session_check, a_success_for_a_failure_is_noticed, .timeout = 20)
{
    checked_t checked = load("sessions/default.oracle.xz");
    pleat_session_call_t *call = find_call(checked.session, PLEAT_SESSION_ALLOC, 100);
    while (call->events.count > 0) { /* one that a cached block serves */
        call = find_call(checked.session, PLEAT_SESSION_ALLOC,
                         (uint32_t)(call - checked.session->calls) + 1);
    }
    call->kind = PLEAT_SESSION_OOM;
    expect_difference(&checked, call->line, "result");
}

Test(session_check, a_changed_end_state_is_noticed, .timeout = 20)
{
    checked_t checked = load("sessions/default.oracle.xz");
    pleat_session_t *session = checked.session;
    pleat_session_block_t *block =
        &session->blocks[session->segments[session->end_segments.first + 1].info.first_block];
    block->info.requested_bytes += 1;
    cr_expect(lt(u64, session->end_line, block->line));
    expect_difference(&checked, block->line, "block");

    checked = load("sessions/default.oracle.xz");
    session = checked.session;
    pleat_session_segment_t *segment = &session->segments[session->end_segments.first + 1];
    segment->info.is_small ^= true;
    cr_expect(lt(u64, session->end_line, segment->line));
    expect_difference(&checked, segment->line, "segment");

    checked = load("sessions/default.oracle.xz");
    checked.session->end_segments.count--;
    expect_difference(&checked, checked.session->end_line, "number of segments");
}

enum { EVENT_FIELDS = 4, SEGMENT_FIELDS = 9, BLOCK_FIELDS = 4 };

static void change_event(pleat_session_event_t *event, int field)
{
    switch (field) {
    case 0:
        event->action = PLEAT_ACTION_SEGMENT_FREE;
        break;
    case 1:
        event->address += 512;
        break;
    case 2:
        event->bytes += 512;
        break;
    default:
        event->stream += 1;
        break;
    }
}

Test(session_check, every_changed_field_of_an_event_is_noticed, .timeout = 20)
{
    for (int field = 0; field < EVENT_FIELDS; field++) {
        checked_t checked = load("sessions/default.oracle.xz");
        pleat_session_call_t *call = find_call(checked.session, PLEAT_SESSION_FREE, 500);
        cr_assert(eq(uint, call->events.count, 1));
        change_event(&checked.session->events[call->events.first], field);
        expect_difference(&checked, call->line, "event");
    }
}

static void change_segment(pleat_segment_info_t *segment, int field)
{
    uint64_t *const numbers[] = {&segment->address,         &segment->total_bytes,
                                 &segment->allocated_bytes, &segment->active_bytes,
                                 &segment->requested_bytes, &segment->stream,
                                 &segment->block_count};
    switch (field) {
    case 7:
        segment->is_small = !segment->is_small;
        break;
    case 8:
        segment->is_expandable = !segment->is_expandable;
        break;
    default:
        *numbers[field] += 1;
        break;
    }
}

Test(session_check, every_changed_field_of_a_segment_is_noticed, .timeout = 40)
{
    for (int field = 0; field < SEGMENT_FIELDS; field++) {
        checked_t checked = load("sessions/default.oracle.xz");
        const pleat_session_t *session = checked.session;
        pleat_session_segment_t *segment = &session->segments[session->end_segments.first + 1];
        change_segment(&segment->info, field);
        expect_difference(&checked, segment->line, "segment");
    }
}

static void change_block(pleat_block_info_t *block, int field)
{
    uint64_t *const numbers[] = {&block->address, &block->bytes, &block->requested_bytes};
    if (field < 3) {
        *numbers[field] += 1;
    } else {
        block->state =
            block->state == PLEAT_BLOCK_INACTIVE ? PLEAT_BLOCK_PENDING_FREE : PLEAT_BLOCK_INACTIVE;
    }
}

Test(session_check, every_changed_field_of_a_block_is_noticed, .timeout = 20)
{
    for (int field = 0; field < BLOCK_FIELDS; field++) {
        checked_t checked = load("sessions/default.oracle.xz");
        const pleat_session_t *session = checked.session;
        const pleat_session_segment_t *segment =
            &session->segments[session->end_segments.first + 1];
        pleat_session_block_t *block = &session->blocks[segment->info.first_block + 1];
        change_block(&block->info, field);
        expect_difference(&checked, block->line, "block");
    }
}

Test(session_check, a_wrong_expectation_is_noticed, .timeout = 20)
{
    checked_t checked = load("cases/b_every_block_pinned_classic.case");
    pleat_session_call_t *call = find_call(checked.session, PLEAT_SESSION_OOM, 0);
    pleat_session_expect_t *expect = &checked.session->expects[call->expects.first];
    expect->value += 1;
    expect_difference(&checked, call->line, expect->key);

    checked = load("cases/b_every_block_pinned_classic.case");
    call = find_call(checked.session, PLEAT_SESSION_OOM, 0);
    checked.session->expects[call->expects.first].key = "no.such.key";
    expect_difference(&checked, call->line, "no.such.key");

    checked = load("cases/b_every_block_pinned_classic.case");
    call = find_call(checked.session, PLEAT_SESSION_OOM, 0);
    checked.session->expect_errors[call->expect_errors.first].text = "no such text";
    expect_difference(&checked, call->line, "error message");
}

Test(session_check, the_first_of_several_modes_is_chosen, .timeout = 10)
{
    checked_t checked = load_text("mode torch_expandable classic\nalloc a 1MiB 0 *\n");
    const pleat_session_t *session = checked.session;
    cr_expect(eq(uint, pleat_session_modes(session),
                 PLEAT_SESSION_MODE_CLASSIC | PLEAT_SESSION_MODE_TORCH_EXPANDABLE));
    cr_expect(pleat_session_obstacle(session, PLEAT_SESSION_MODE_CLASSIC) == NULL);
    cr_expect(pleat_session_obstacle(session, PLEAT_SESSION_MODE_TORCH_EXPANDABLE) == NULL);
    run(&checked);
    cr_expect(eq(str, checked.check.skipped, ""));
    cr_expect(eq(u64, checked.check.call_count, 1));
    pleat_session_destroy(checked.session);
}

Test(session_check, the_settings_choose_the_mode, .timeout = 10)
{
    static const struct {
        const char *text;
        unsigned modes;
    } rows[] = {
        {"sync\n", PLEAT_SESSION_MODE_CLASSIC},
        {"settings expandable_segments:True\nsync\n", PLEAT_SESSION_MODE_TORCH_EXPANDABLE},
        {"settings expandable_segments : True\nsync\n", PLEAT_SESSION_MODE_TORCH_EXPANDABLE},
        {"settings expandable_segments:True,expandable_segments:False\nsync\n",
         PLEAT_SESSION_MODE_CLASSIC},
        {"settings nonsense:1\nsync\n", PLEAT_SESSION_MODE_CLASSIC},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        checked_t checked = load_text(rows[i].text);
        cr_expect(eq(uint, pleat_session_modes(checked.session), rows[i].modes), "%s",
                  rows[i].text);
        pleat_session_destroy(checked.session);
    }
}

Test(session_check, one_mode_without_settings_is_enough, .timeout = 10)
{
    static const char *const texts[] = {
        "mode torch_expandable\nalloc a 1 0 *\n expect segment.all.current=0\n",
        "mode torch_expandable\nsettings expandable_segments:False\nalloc a 1 0 *\n"
        " expect segment.all.current=1\n",
        "mode torch_expandable\nset expandable_segments:False\nalloc a 1 0 *\n"
        " expect segment.all.current=1\n"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        checked_t checked = load_text(texts[i]);
        run(&checked);
        cr_expect(eq(sz, checked.check.difference_count, 0), "%s: %s", texts[i],
                  checked.differences[0].got);
        pleat_session_destroy(checked.session);
    }
}

Test(session_check, a_session_that_needs_what_is_not_there_is_skipped, .timeout = 10)
{
    static const char *const texts[] = {"keys segment.all.current\nbase 1\nsync\n stats\nend\n",
                                        "keys num_ooms\nbase 0\nempty\n error x\nend\n",
                                        "settings expandable_segments:True\nempty\n error x\n"};
    static const unsigned modes[] = {PLEAT_SESSION_MODE_CLASSIC, PLEAT_SESSION_MODE_CLASSIC,
                                     PLEAT_SESSION_MODE_TORCH_EXPANDABLE};
    int64_t values[122];
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        checked_t checked = load_text(texts[i]);
        cr_expect(eq(uint, pleat_session_modes(checked.session), modes[i]));
        run(&checked);
        cr_expect(ne(str, checked.check.skipped, ""), "%s", texts[i]);
        cr_expect(eq(u64, checked.check.call_count, 0));
        cr_expect(eq(int, pleat_session_final_stats(checked.session, 0, values, 122),
                     PLEAT_ERR_UNSUPPORTED));
        pleat_session_destroy(checked.session);
    }
    cr_expect(eq(str, (char *)pleat_session_mode_word(PLEAT_SESSION_MODE_PLEATED), "pleated"));
    cr_expect(eq(str, (char *)pleat_session_mode_word(3), "unknown"));
}

/* A session whose settings in the header are wrong is an error of the input. */
static void expect_wrong_settings(const char *text, const char *error)
{
    checked_t checked = load_text(text);
    checked.check.difference_capacity = SESSION_FIXTURE_SHOWN;
    checked.check.differences = checked.differences;
    cr_expect(
        eq(int, pleat_session_check_run(checked.session, 0, &checked.check), PLEAT_ERR_INVALID));
    INPUT_FIXTURE_EXPECT_ERROR(error);
    pleat_session_destroy(checked.session);
}

Test(session_check, wrong_settings_of_a_header_are_reported_with_their_place, .timeout = 10)
{
    expect_wrong_settings("# about\nsettings  max_split_mb:30\nsync\n",
                          "test:2:11: Unrecognized key 'max_split_mb'");
    expect_wrong_settings("settings max_split_size_mb:1\nsync\n", "test:1:10: ");
    expect_wrong_settings("settings large_segment_size_mb:17592186044416\nsync\n", "test:1:10: ");
}

Test(session_check, wrong_settings_at_run_time_are_reported_with_their_place, .timeout = 10)
{
    static const char *const texts[] = {"sync\nset max_split_size_mb:1\n",
                                        "sync\nset large_segment_size_mb:17592186044416\n"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        checked_t checked = load_text(texts[i]);
        run(&checked);
        cr_assert(eq(sz, checked.check.difference_count, 1), "%s", texts[i]);
        cr_expect(eq(u64, checked.differences[0].line, 2));
        cr_expect(strstr(checked.differences[0].got, "test:2:5: ") == checked.differences[0].got,
                  "%s", checked.differences[0].got);
        pleat_session_destroy(checked.session);
    }
}

Test(session_check, empty_settings_and_a_fraction_act, .timeout = 10)
{
    static const char *const texts[] = {
        "alloc a 1MiB 0 *\nset max_split_size_mb:40\nset -\nalloc b 50MiB 0 *\n"
        " expect oversize_segments.current=0\n",
        "alloc a 1MiB 0 *\nset max_split_size_mb:40\nset\nalloc b 50MiB 0 *\n"
        " expect oversize_segments.current=0\n",
        "fraction 0.5\ntotal_memory 4MiB\nalloc a 1MiB 0 *\noom 1 1\n"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        checked_t checked = load_text(texts[i]);
        run(&checked);
        cr_expect(eq(sz, checked.check.difference_count, 0), "%s: %s", texts[i],
                  checked.differences[0].what);
        pleat_session_destroy(checked.session);
    }
}

Test(session_check, final_statistics_are_those_of_the_recording, .timeout = 20)
{
    checked_t checked = load("sessions/default.oracle.xz");
    const pleat_session_t *session = checked.session;
    int64_t recorded[122];
    int64_t values[122];
    cr_assert(eq(sz, pleat_memory_stats_count(), 122));
    cr_assert(eq(u32, session->key_count, 122));
    memcpy(recorded, session->base, sizeof(recorded));
    for (uint32_t i = 0; i < session->change_count; i++) {
        recorded[session->changes[i].key] = session->changes[i].value;
    }
    cr_assert(eq(int, pleat_session_final_stats(session, 0, values, 122), PLEAT_OK));
    for (uint32_t key = 0; key < 122; key++) {
        cr_expect(eq(i64, values[pleat_memory_stats_index(session->keys[key])], recorded[key]));
    }
    cr_expect(eq(int, pleat_session_final_stats(session, 0, values, 121), PLEAT_ERR_INVALID));
    pleat_session_destroy(checked.session);
}
