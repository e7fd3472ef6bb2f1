/*
 * Tests of history: what is recorded of an allocator, with which contexts, and what a copy shows.
 * A token is a counter of its references.
 */
#include "fixture.h"
#include "host_fault.h"

#include <pleat/history.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <time.h>

#define MIB(count) ((uint64_t)(count)*PLEAT_MIB)

static int64_t clock_us;

static int64_t now_us(void *context)
{
    (void)context;
    return ++clock_us;
}

static void retain(void *context, void *token)
{
    cr_assert(eq(ptr, context, &clock_us));
    ++*(int *)token;
}

static void release(void *context, void *token)
{
    cr_assert(eq(ptr, context, &clock_us));
    cr_assert(lt(int, 0, *(int *)token));
    --*(int *)token;
}

static const pleat_history_hooks_t hooks = {.size = sizeof hooks,
                                            .context = &clock_us,
                                            .now_us = now_us,
                                            .retain = retain,
                                            .release = release};

static pleat_history_t *history_of(const fixture_t *f, const pleat_history_settings_t *settings)
{
    pleat_history_t *history = NULL;
    cr_assert(eq(int, pleat_history_create(&hooks, &history), PLEAT_OK));
    if (settings != NULL) {
        cr_assert(eq(int, pleat_history_configure(history, settings), PLEAT_OK));
    }
    pleat_set_observer(f->allocator, pleat_history_observe, history);
    return history;
}

static pleat_history_t *history_at(const fixture_t *f, pleat_history_level_t level)
{
    pleat_history_settings_t settings = PLEAT_HISTORY_SETTINGS_INIT;
    settings.level = level;
    return history_of(f, &settings);
}

static void note(pleat_history_t *history, int *context)
{
    pleat_history_note_t carried = PLEAT_HISTORY_NOTE_INIT;
    carried.context = context;
    pleat_history_set_note(history, &carried);
}

static pleat_history_copy_t *take(pleat_history_t *history, const fixture_t *f)
{
    pleat_history_copy_t *copy = NULL;
    cr_assert(eq(int, pleat_history_take(history, f != NULL ? f->allocator : NULL, true, &copy),
                 PLEAT_OK));
    return copy;
}

static void end(fixture_t *f, pleat_history_t *history)
{
    pleat_set_observer(f->allocator, NULL, NULL);
    pleat_history_destroy(history);
    fixture_check_and_destroy(f);
}

static void expect_actions(const pleat_history_copy_t *copy, size_t count,
                           const pleat_action_t *want)
{
    cr_assert(eq(u64, copy->entry_count, count));
    for (size_t i = 0; i < count; i++) {
        cr_expect(eq(int, (int)copy->entries[i].action, (int)want[i]), "entry %zu", i);
    }
}
#define EXPECT_ACTIONS(copy, ...)                                                          \
    expect_actions(copy, sizeof((pleat_action_t[]){__VA_ARGS__}) / sizeof(pleat_action_t), \
                   (const pleat_action_t[]){__VA_ARGS__})

Test(history, records_actions_with_their_times, .timeout = 5)
{
    fixture_t f = fixture_create(NULL);
    pleat_history_t *history = history_at(&f, PLEAT_HISTORY_LEVEL_ALL);
    const pleat_devptr_t ptr = fixture_alloc(&f, 1000, 3);
    fixture_free(&f, ptr);
    fixture_empty(&f);
    pleat_history_copy_t *copy = take(history, &f);
    EXPECT_ACTIONS(copy, PLEAT_ACTION_SEGMENT_ALLOC, PLEAT_ACTION_ALLOC,
                   PLEAT_ACTION_FREE_REQUESTED, PLEAT_ACTION_FREE_COMPLETED,
                   PLEAT_ACTION_SEGMENT_FREE);
    cr_expect(eq(sz, copy->size, sizeof *copy));
    cr_expect(eq(sz, copy->entry_size, sizeof *copy->entries));
    cr_expect(eq(u64, copy->lost_count, 0));
    for (uint64_t i = 0; i < copy->entry_count; i++) {
        cr_expect(eq(i64, copy->entries[i].time_us, (int64_t)i + 1));
        cr_expect(eq(u64, copy->entries[i].stream, 3));
        cr_expect(eq(u64, copy->entries[i].address, ptr));
        cr_expect(eq(ptr, copy->entries[i].context, NULL));
    }
    cr_expect(eq(u64, copy->entries[0].bytes, MIB(2)));
    cr_expect(eq(u64, copy->entries[1].bytes, 1000));
    pleat_history_copy_destroy(history, copy);
    end(&f, history);
}

Test(history, a_snapshot_shows_up_in_the_next_one, .timeout = 5)
{
    fixture_t f = fixture_create(NULL);
    pleat_history_t *history = history_at(&f, PLEAT_HISTORY_LEVEL_ALL);
    (void)fixture_alloc(&f, 1000, 0);
    pleat_history_copy_destroy(history, take(history, NULL)); /* of the entries alone: no trace */
    pleat_history_copy_t *first = take(history, &f);
    EXPECT_ACTIONS(first, PLEAT_ACTION_SEGMENT_ALLOC, PLEAT_ACTION_ALLOC);
    cr_assert(eq(u64, first->snapshot->segment_count, 1));
    pleat_history_copy_t *second = take(history, &f);
    EXPECT_ACTIONS(second, PLEAT_ACTION_SEGMENT_ALLOC, PLEAT_ACTION_ALLOC, PLEAT_ACTION_SNAPSHOT);
    cr_expect(eq(u64, second->entries[2].bytes, 1024));
    cr_expect(eq(u64, second->entries[2].address, 0));
    pleat_history_copy_destroy(history, first);
    pleat_history_copy_destroy(history, second);
    pleat_history_copy_t *without = NULL;
    cr_assert(eq(int, pleat_history_take(history, f.allocator, false, &without), PLEAT_OK));
    cr_expect(eq(u64, without->entry_count, 0));
    cr_expect(eq(ptr, without->entries, NULL));
    pleat_history_copy_destroy(history, without);
    end(&f, history);
}

Test(history, keeps_the_context_of_blocks_segments_and_entries, .timeout = 5)
{
    int made = 0;
    int freed = 0;
    fixture_t f = fixture_create(NULL);
    pleat_history_t *history = history_at(&f, PLEAT_HISTORY_LEVEL_ALL);
    note(history, &made);
    const pleat_devptr_t first = fixture_alloc(&f, 1000, 0);
    pleat_history_set_note(history, NULL);
    const pleat_devptr_t second = fixture_alloc(&f, 1000, 0);
    cr_expect(eq(int, made, 4)); /* two entries, a block, a segment */

    pleat_history_copy_t *copy = take(history, &f);
    cr_expect(eq(ptr, copy->entries[0].context, &made));
    cr_expect(eq(ptr, copy->entries[1].context, &made));
    cr_expect(eq(ptr, copy->entries[2].context, NULL));
    cr_expect(eq(ptr, copy->segment_contexts[0], &made));
    cr_assert(eq(u64, copy->snapshot->block_count, 3));
    cr_expect(eq(ptr, copy->block_contexts[0], &made));
    cr_expect(eq(ptr, copy->block_contexts[1], NULL));
    cr_expect(eq(ptr, copy->block_contexts[2], NULL));
    pleat_history_copy_destroy(history, copy);

    note(history, &freed);
    fixture_free(&f, first); /* its own context */
    pleat_history_set_note(history, NULL);
    fixture_free(&f, second);
    fixture_empty(&f); /* without one: that of the segment */
    copy = take(history, &f);
    EXPECT_ACTIONS(copy, PLEAT_ACTION_SEGMENT_ALLOC, PLEAT_ACTION_ALLOC, PLEAT_ACTION_ALLOC,
                   PLEAT_ACTION_SNAPSHOT, PLEAT_ACTION_FREE_REQUESTED, PLEAT_ACTION_FREE_COMPLETED,
                   PLEAT_ACTION_FREE_REQUESTED, PLEAT_ACTION_FREE_COMPLETED,
                   PLEAT_ACTION_SEGMENT_FREE);
    cr_expect(eq(ptr, copy->entries[3].context, NULL));
    cr_expect(eq(ptr, copy->entries[4].context, &freed));
    cr_expect(eq(ptr, copy->entries[5].context, &freed));
    cr_expect(eq(ptr, copy->entries[6].context, NULL));
    cr_expect(eq(ptr, copy->entries[8].context, &made));
    pleat_history_copy_destroy(history, copy);
    pleat_history_clear(history);
    cr_expect(eq(int, made, 0)); /* nothing is live */
    cr_expect(eq(int, freed, 0));
    end(&f, history);
}

Test(history, a_free_shows_the_context_of_its_allocation_until_it_completes, .timeout = 5)
{
    int made = 0;
    fixture_t f = fixture_create(NULL);
    pleat_history_t *history = history_at(&f, PLEAT_HISTORY_LEVEL_ALLOC);
    note(history, &made);
    const pleat_devptr_t ptr = fixture_alloc(&f, MIB(30), 0);
    pleat_history_set_note(history, NULL);
    fixture_set_busy(&f, 1);
    fixture_record(&f, ptr, 1);
    fixture_free(&f, ptr);
    pleat_history_copy_t *copy = take(history, &f);
    cr_expect(eq(ptr, copy->block_contexts[0], &made)); /* it waits */
    pleat_history_copy_destroy(history, copy);
    fixture_set_done(&f, 1);
    (void)fixture_alloc(&f, 512, 0);
    copy = take(history, NULL);
    EXPECT_ACTIONS(copy, PLEAT_ACTION_SEGMENT_ALLOC, PLEAT_ACTION_ALLOC,
                   PLEAT_ACTION_FREE_REQUESTED, PLEAT_ACTION_SNAPSHOT, PLEAT_ACTION_FREE_COMPLETED,
                   PLEAT_ACTION_SEGMENT_ALLOC, PLEAT_ACTION_ALLOC);
    cr_expect(eq(ptr, copy->entries[2].context, &made));
    cr_expect(eq(ptr, copy->entries[4].context, &made));
    pleat_history_copy_destroy(history, copy);
    end(&f, history);
    cr_expect(eq(int, made, 0));
}

Test(history, the_level_says_which_contexts_are_kept, .timeout = 5)
{
    static const int want[PLEAT_HISTORY_LEVEL_COUNT] = {0, 2, 4, 4};
    for (int level = PLEAT_HISTORY_LEVEL_NONE; level < PLEAT_HISTORY_LEVEL_COUNT; level++) {
        int made = 0;
        fixture_t f = fixture_create(NULL);
        pleat_history_t *history = history_at(&f, (pleat_history_level_t)level);
        cr_expect(eq(int, (int)pleat_history_level(history), level));
        note(history, &made);
        (void)fixture_alloc(&f, 1000, 0);
        pleat_history_set_note(history, NULL);
        cr_expect(eq(int, made, want[level]), "level %d", level);
        end(&f, history);
        cr_expect(eq(int, made, 0));
    }
    cr_expect(eq(int, (int)pleat_history_level(NULL), (int)PLEAT_HISTORY_LEVEL_NONE));
}

Test(history, entries_carry_the_other_tokens_at_every_level, .timeout = 5)
{
    int compiled = 0;
    int user = 0;
    fixture_t f = fixture_create(NULL);
    pleat_history_t *history = history_at(&f, PLEAT_HISTORY_LEVEL_NONE);
    pleat_history_note_t carried = PLEAT_HISTORY_NOTE_INIT;
    carried.compile_context = &compiled;
    carried.user_metadata = &user;
    pleat_history_set_note(history, &carried);
    (void)fixture_alloc(&f, 1000, 0);
    pleat_history_set_note(history, NULL);
    pleat_history_copy_t *copy = take(history, NULL);
    cr_expect(eq(ptr, copy->entries[1].compile_context, &compiled));
    cr_expect(eq(ptr, copy->entries[1].user_metadata, &user));
    cr_expect(eq(int, compiled, 4));
    pleat_history_copy_destroy(history, copy);
    end(&f, history);
    cr_expect(eq(int, compiled, 0));
    cr_expect(eq(int, user, 0));
}

Test(history, the_ring_and_its_tokens_are_bounded, .timeout = 5)
{
    int made = 0;
    fixture_t f = fixture_create(NULL);
    pleat_history_settings_t settings = PLEAT_HISTORY_SETTINGS_INIT;
    settings.max_entries = 5;
    pleat_history_t *history = history_of(&f, &settings);
    for (int i = 0; i < 50; i++) {
        note(history, &made);
        const pleat_devptr_t ptr = fixture_alloc(&f, 1000, 0);
        fixture_free(&f, ptr);
    }
    pleat_history_copy_t *copy = take(history, NULL);
    EXPECT_ACTIONS(copy, PLEAT_ACTION_FREE_REQUESTED, PLEAT_ACTION_FREE_COMPLETED,
                   PLEAT_ACTION_ALLOC, PLEAT_ACTION_FREE_REQUESTED, PLEAT_ACTION_FREE_COMPLETED);
    cr_expect(eq(u64, copy->lost_count, 1 + 3 * 50 - 5));
    pleat_history_copy_destroy(history, copy);
    cr_expect(eq(int, made, 5 + 1)); /* and the segment */
    settings.is_cleared = true;
    cr_assert(eq(int, pleat_history_configure(history, &settings), PLEAT_OK));
    copy = take(history, NULL);
    cr_expect(eq(u64, copy->entry_count, 0));
    cr_expect(eq(u64, copy->lost_count, 0));
    pleat_history_copy_destroy(history, copy);
    end(&f, history);
}

Test(history, skips_actions_and_follows_them_all_the_same, .timeout = 5)
{
    int made = 0;
    fixture_t f = fixture_create(NULL);
    pleat_history_settings_t settings = PLEAT_HISTORY_SETTINGS_INIT;
    settings.skip_mask = 1u << PLEAT_ACTION_ALLOC | 1u << PLEAT_ACTION_SNAPSHOT;
    pleat_history_t *history = history_of(&f, &settings);
    note(history, &made);
    (void)fixture_alloc(&f, 1000, 0);
    pleat_history_copy_destroy(history, take(history, &f));
    pleat_history_copy_t *copy = take(history, &f);
    EXPECT_ACTIONS(copy, PLEAT_ACTION_SEGMENT_ALLOC);
    cr_expect(eq(u64, copy->lost_count, 0));
    cr_expect(eq(ptr, copy->block_contexts[0], &made));
    pleat_history_copy_destroy(history, copy);
    end(&f, history);
}

Test(history, switched_off_keeps_no_entries_but_the_contexts_of_live_blocks, .timeout = 5)
{
    int made = 0;
    fixture_t f = fixture_create(NULL);
    pleat_history_settings_t settings = PLEAT_HISTORY_SETTINGS_INIT;
    pleat_history_t *history = history_of(&f, &settings);
    note(history, &made);
    const pleat_devptr_t ptr = fixture_alloc(&f, 1000, 0);
    settings.is_recording = false;
    cr_assert(eq(int, pleat_history_configure(history, &settings), PLEAT_OK));
    cr_expect(eq(int, (int)pleat_history_level(history), (int)PLEAT_HISTORY_LEVEL_NONE));
    const pleat_devptr_t other = fixture_alloc(&f, 1000, 0);
    pleat_history_copy_t *copy = take(history, &f);
    cr_expect(eq(u64, copy->entry_count, 0));
    cr_expect(eq(ptr, copy->block_contexts[0], &made));
    cr_expect(eq(ptr, copy->block_contexts[1], NULL));
    pleat_history_copy_destroy(history, copy);
    fixture_free(&f, ptr);
    fixture_free(&f, other);
    cr_expect(eq(int, made, 1)); /* the segment */
    fixture_empty(&f);
    cr_expect(eq(int, made, 0));
    end(&f, history);
}

Test(history, segments_of_mapped_pages_have_contexts, .timeout = 5)
{
    int first = 0;
    int second = 0;
    pleat_options_t options = PLEAT_OPTIONS_INIT;
    options.mode = PLEAT_MODE_TORCH_EXPANDABLE;
    fixture_t f = fixture_create(&(fixture_options_t){.options = &options});
    pleat_history_t *history = history_at(&f, PLEAT_HISTORY_LEVEL_ALL);
    note(history, &first);
    const pleat_devptr_t low = fixture_alloc(&f, MIB(20), 0);
    note(history, &second);
    const pleat_devptr_t high = fixture_alloc(&f, MIB(20), 0);
    pleat_history_set_note(history, NULL);
    pleat_history_copy_t *copy = take(history, &f);
    cr_assert(eq(u64, copy->snapshot->segment_count, 1));
    cr_expect(eq(ptr, copy->segment_contexts[0], &first));
    pleat_history_copy_destroy(history, copy);
    fixture_free(&f, low);
    fixture_empty(&f);
    copy = take(history, &f);
    cr_assert(eq(u64, copy->snapshot->segment_count, 1));
    cr_expect(eq(ptr, copy->segment_contexts[0], &second));
    cr_expect(
        eq(int, (int)copy->entries[copy->entry_count - 1].action, (int)PLEAT_ACTION_SEGMENT_UNMAP));
    cr_expect(eq(ptr, copy->entries[copy->entry_count - 1].context, &first));
    pleat_history_copy_destroy(history, copy);
    fixture_free(&f, high);
    end(&f, history);
    cr_expect(eq(int, first, 0));
    cr_expect(eq(int, second, 0));
}

Test(history, a_note_is_for_one_history, .timeout = 5)
{
    int made = 0;
    fixture_t f = fixture_create(NULL);
    pleat_history_t *other = NULL;
    cr_assert(eq(int, pleat_history_create(NULL, &other), PLEAT_OK));
    pleat_history_t *history = history_at(&f, PLEAT_HISTORY_LEVEL_ALL);
    note(other, &made);
    (void)fixture_alloc(&f, 1000, 0);
    cr_expect(eq(int, made, 0));
    note(NULL, &made);
    (void)fixture_alloc(&f, 1000, 0);
    cr_expect(eq(int, made, 0));
    pleat_history_destroy(other);
    end(&f, history);
}

Test(history, without_a_clock_takes_the_time_of_the_system, .timeout = 5)
{
    fixture_t f = fixture_create(NULL);
    pleat_history_t *history = NULL;
    cr_assert(eq(int, pleat_history_create(NULL, &history), PLEAT_OK));
    const pleat_history_settings_t settings = PLEAT_HISTORY_SETTINGS_INIT;
    cr_assert(eq(int, pleat_history_configure(history, &settings), PLEAT_OK));
    pleat_set_observer(f.allocator, pleat_history_observe, history);
    const int64_t before_us = (int64_t)time(NULL) * 1000000;
    (void)fixture_alloc(&f, 1000, 0);
    pleat_history_copy_t *copy = take(history, NULL);
    cr_expect(le(i64, before_us, copy->entries[0].time_us));
    cr_expect(lt(i64, copy->entries[0].time_us, before_us + 60 * 1000000));
    pleat_history_copy_destroy(history, copy);
    end(&f, history);
}

Test(history, refuses_what_is_wrong, .timeout = 5)
{
    pleat_history_t *history = NULL;
    pleat_history_copy_t *copy = NULL;
    pleat_history_settings_t settings = PLEAT_HISTORY_SETTINGS_INIT;
    cr_expect(eq(int, pleat_history_create(NULL, NULL), PLEAT_ERR_INVALID));
    cr_assert(eq(int, pleat_history_create(NULL, &history), PLEAT_OK));
    cr_expect(eq(int, pleat_history_configure(NULL, &settings), PLEAT_ERR_INVALID));
    cr_expect(eq(int, pleat_history_configure(history, NULL), PLEAT_ERR_INVALID));
    settings.level = PLEAT_HISTORY_LEVEL_COUNT;
    cr_expect(eq(int, pleat_history_configure(history, &settings), PLEAT_ERR_INVALID));
    settings.level = PLEAT_HISTORY_LEVEL_ALL;
    settings.skip_mask = 1u << PLEAT_ACTION_COUNT;
    cr_expect(eq(int, pleat_history_configure(history, &settings), PLEAT_ERR_INVALID));
    cr_expect(eq(int, (int)pleat_history_level(history), (int)PLEAT_HISTORY_LEVEL_NONE));
    cr_expect(eq(int, pleat_history_take(NULL, NULL, true, &copy), PLEAT_ERR_INVALID));
    cr_expect(eq(int, pleat_history_take(history, NULL, true, NULL), PLEAT_ERR_INVALID));
    pleat_history_clear(NULL);
    pleat_history_copy_destroy(history, NULL);
    pleat_history_copy_destroy(NULL, NULL);
    pleat_history_destroy(history);
    pleat_history_destroy(NULL);
}

Test(history, fails_without_host_memory_and_changes_nothing, .timeout = 20)
{
    int made = 0;
    fixture_t f = fixture_create(NULL);
    pleat_history_t *history = NULL;
    host_fault_after(1);
    cr_expect(eq(int, pleat_history_create(&hooks, &history), PLEAT_ERR_OOM_HOST));
    cr_expect(eq(ptr, history, NULL));
    history = history_at(&f, PLEAT_HISTORY_LEVEL_ALL);
    note(history, &made);
    (void)fixture_alloc(&f, 1000, 0);
    pleat_history_set_note(history, NULL);
    const int references = made;
    int failures = 0;
    for (uint64_t nth = 1;; nth++) {
        pleat_history_copy_t *copy = NULL;
        host_fault_after(nth);
        const pleat_status_t status = pleat_history_take(history, f.allocator, true, &copy);
        host_fault_after(0);
        if (status == PLEAT_OK) {
            pleat_history_copy_destroy(history, copy);
            break;
        }
        failures++;
        cr_expect(eq(int, status, PLEAT_ERR_OOM_HOST));
        cr_expect(eq(ptr, copy, NULL));
        cr_expect(eq(int, made, references));
    }
    cr_expect(eq(int, failures, 8));
    pleat_history_copy_t *copy = take(history, NULL);
    cr_expect(eq(u64, copy->entry_count, 3)); /* one snapshot succeeded */
    pleat_history_copy_destroy(history, copy);
    end(&f, history);
}

/* The allocation goes on without an entry and without contexts. */
Test(history, recording_without_host_memory_loses_entries_only, .timeout = 5)
{
    int made = 0;
    fixture_t f = fixture_create(NULL);
    fixture_free(&f, fixture_alloc(&f, 1000, 0)); /* the allocator's own records are there */
    pleat_history_t *history = history_at(&f, PLEAT_HISTORY_LEVEL_ALL);
    note(history, &made);
    host_fault_after(1);
    const pleat_devptr_t ptr = fixture_alloc(&f, 1000, 0);
    cr_expect(ne(u64, ptr, 0));
    pleat_history_copy_t *copy = take(history, &f);
    cr_expect(eq(u64, copy->entry_count, 0));
    cr_expect(eq(u64, copy->lost_count, 1));
    cr_expect(eq(ptr, copy->block_contexts[0], &made)); /* the fault was over */
    pleat_history_copy_destroy(history, copy);
    fixture_free(&f, ptr);
    end(&f, history);
}
