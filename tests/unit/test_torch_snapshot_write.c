/*
 * Tests of torch_snapshot_write: what is refused, failures of host memory and of writing, and
 * snapshots composed of live allocators. What the files mean is checked with Python
 * (tests/snapshot).
 */
#include "fixture.h"
#include "host_fault.h"

#include <pleat/torch_snapshot_write.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct counted {
    uint64_t bytes;
    uint64_t calls;
    uint64_t fail_at; /* that call fails; 0: none */
} counted_t;

static pleat_status_t count(void *context, const void *bytes, size_t byte_count)
{
    counted_t *counted = context;
    (void)bytes;
    counted->bytes += byte_count;
    counted->calls++;
    if (counted->calls == counted->fail_at) {
        pleat_error_set("call %llu fails", (unsigned long long)counted->calls);
        return PLEAT_ERR_IO;
    }
    return PLEAT_OK;
}

/* A snapshot with one of everything. */
typedef struct sample {
    pleat_torch_frame_t frame;
    pleat_torch_stack_t stack;
    uint32_t stack_frame;
    pleat_torch_segment_t segment;
    pleat_torch_block_t block;
    pleat_torch_entry_t entry;
    pleat_torch_history_t history;
    pleat_torch_annotation_t annotation;
    pleat_torch_snapshot_t snapshot;
} sample_t;

static void sample_init(sample_t *sample)
{
    *sample = (sample_t){
        .frame = {"f", "a.py", 3},
        .stack = {0, 1},
        .segment = {.block_count = 1},
        .history = {.entries = &sample->entry, .entry_count = 1},
        .annotation = {.name = "step"},
        .snapshot = PLEAT_TORCH_SNAPSHOT_INIT,
    };
    pleat_torch_snapshot_t *snapshot = &sample->snapshot;
    snapshot->frames = &sample->frame;
    snapshot->stacks = &sample->stack;
    snapshot->stack_frames = &sample->stack_frame;
    snapshot->segments = &sample->segment;
    snapshot->blocks = &sample->block;
    snapshot->histories = &sample->history;
    snapshot->annotations = &sample->annotation;
    snapshot->frame_count = snapshot->stack_count = snapshot->stack_frame_count = 1;
    snapshot->segment_count = snapshot->block_count = 1;
    snapshot->history_count = snapshot->annotation_count = 1;
}

static void expect_refused(const sample_t *sample, const char *message)
{
    counted_t counted = {0};
    cr_expect(eq(int, pleat_torch_snapshot_write(&sample->snapshot, NULL, count, &counted),
                 PLEAT_ERR_INVALID));
    cr_expect(eq(str, (char *)pleat_last_error(), (char *)message));
    cr_expect(eq(u64, counted.calls, 0));
}

Test(torch_snapshot_write, refuses_what_is_outside_its_table, .timeout = 5)
{
    sample_t s;
    sample_init(&s);
    s.stack.frame_count = 2;
    expect_refused(&s, "stack 0 of the snapshot: first_frame is 0, and there are 1");
    sample_init(&s);
    s.stack_frame = 1;
    expect_refused(&s, "stack_frames 0 of the snapshot: the frame is 1, and there are 1");
    sample_init(&s);
    s.segment.first_block = UINT64_MAX;
    expect_refused(&s, "segment 0 of the snapshot: first_block is 18446744073709551615, and there "
                       "are 1");
    sample_init(&s);
    s.segment.stack = 1;
    expect_refused(&s, "segment 0 of the snapshot: stack is 1, and there are 1");
    sample_init(&s);
    s.block.stack = 7;
    expect_refused(&s, "block 0 of the snapshot: stack is 7, and there are 1");
    sample_init(&s);
    s.block.state = (pleat_block_state_t)9;
    expect_refused(&s, "block 0 of the snapshot: state is 9, and there are 3");
    sample_init(&s);
    s.entry.action = PLEAT_ACTION_COUNT;
    expect_refused(&s, "entry 0 of the snapshot: action is 9, and there are 9");
    sample_init(&s);
    s.entry.stack = 1;
    expect_refused(&s, "entry 0 of the snapshot: stack is 1, and there are 1");
    sample_init(&s);
    s.snapshot.frame_count = UINT64_C(1) << 32;
    expect_refused(&s, "the snapshot has 4294967296 frames and 1 stacks; the most of either is "
                       "4294967294");
}

Test(torch_snapshot_write, refuses_wrong_arguments, .timeout = 5)
{
    sample_t s;
    counted_t counted = {0};
    pleat_torch_write_options_t options = PLEAT_TORCH_WRITE_OPTIONS_INIT;
    sample_init(&s);
    cr_expect(eq(int, pleat_torch_snapshot_write(NULL, NULL, count, &counted), PLEAT_ERR_INVALID));
    cr_expect(
        eq(int, pleat_torch_snapshot_write(&s.snapshot, NULL, NULL, NULL), PLEAT_ERR_INVALID));
    for (uint32_t protocol = 0; protocol < 8; protocol++) {
        const bool is_good = protocol >= 2 && protocol <= 5;
        options.protocol = protocol;
        cr_expect(eq(int, pleat_torch_snapshot_write(&s.snapshot, &options, count, &counted),
                     is_good ? PLEAT_OK : PLEAT_ERR_INVALID));
    }
    options.size = sizeof(size_t); /* a caller without the field */
    cr_expect(
        eq(int, pleat_torch_snapshot_write(&s.snapshot, &options, count, &counted), PLEAT_OK));
    cr_expect(eq(int, pleat_torch_snapshot_compose(NULL, &s.snapshot), PLEAT_ERR_INVALID));
    cr_expect(eq(int,
                 pleat_torch_snapshot_compose(&(pleat_torch_source_t)PLEAT_TORCH_SOURCE_INIT, NULL),
                 PLEAT_ERR_INVALID));
    pleat_torch_source_t source = PLEAT_TORCH_SOURCE_INIT;
    source.copy_count = UINT64_C(1) << 32;
    cr_expect(eq(int, pleat_torch_snapshot_compose(&source, &s.snapshot), PLEAT_ERR_INVALID));
    pleat_torch_snapshot_fini(NULL);
}

Test(torch_snapshot_write, fails_without_host_memory, .timeout = 5)
{
    sample_t s;
    sample_init(&s);
    for (uint64_t nth = 1; nth <= 3; nth++) {
        counted_t counted = {0};
        host_fault_after(nth);
        cr_expect(eq(int, pleat_torch_snapshot_write(&s.snapshot, NULL, count, &counted),
                     PLEAT_ERR_OOM_HOST));
        cr_expect(eq(u64, counted.calls, 0));
    }
    counted_t counted = {0};
    host_fault_after(0);
    cr_expect(eq(int, pleat_torch_snapshot_write(&s.snapshot, NULL, count, &counted), PLEAT_OK));
}

Test(torch_snapshot_write, passes_on_failures_of_writing, .timeout = 5)
{
    sample_t s;
    counted_t all = {0};
    sample_init(&s);
    cr_assert(eq(int, pleat_torch_snapshot_write(&s.snapshot, NULL, count, &all), PLEAT_OK));
    cr_assert(eq(u64, all.calls, 3)); /* the protocol, a frame's header, the frame */
    for (uint64_t i = 1; i <= all.calls; i++) {
        counted_t counted = {.fail_at = i};
        cr_expect(
            eq(int, pleat_torch_snapshot_write(&s.snapshot, NULL, count, &counted), PLEAT_ERR_IO));
        cr_expect(eq(u64, counted.calls, i));
    }
}

Test(torch_snapshot_write, says_that_a_disk_is_full, .timeout = 5)
{
    sample_t s;
    sample_init(&s);
    FILE *file = fopen("/dev/full", "w");
    cr_assert(ne(ptr, file, NULL));
    setbuf(file, NULL);
    cr_expect(eq(int,
                 pleat_torch_snapshot_write(&s.snapshot, NULL, pleat_torch_write_to_file, file),
                 PLEAT_ERR_IO));
    cr_expect(eq(str, (char *)pleat_last_error(),
                 "a snapshot cannot be written: No space left on device"));
    (void)fclose(file);
}

/* ---- live allocators ---- */

static uint32_t stack_of(void *context, void *token)
{
    return *(const uint32_t *)token + *(const uint32_t *)context;
}

static const char *text_of(void *context, void *token)
{
    (void)context;
    return token;
}

static pleat_history_t *history_of(const fixture_t *f)
{
    const pleat_history_settings_t settings = PLEAT_HISTORY_SETTINGS_INIT;
    pleat_history_t *history = NULL;
    cr_assert(eq(int, pleat_history_create(NULL, &history), PLEAT_OK));
    cr_assert(eq(int, pleat_history_configure(history, &settings), PLEAT_OK));
    pleat_set_observer(f->allocator, pleat_history_observe, history);
    return history;
}

Test(torch_snapshot_write, composes_devices_side_by_side, .timeout = 5)
{
    static char metadata[] = "epoch 3";
    static uint32_t token = 4;
    uint32_t base = 1;
    pleat_torch_snapshot_t tables = PLEAT_TORCH_SNAPSHOT_INIT;
    pleat_history_copy_t *copies[3] = {NULL};
    pleat_history_note_t note = PLEAT_HISTORY_NOTE_INIT;
    note.context = &token;
    note.user_metadata = metadata;
    fixture_t devices[2];
    pleat_history_t *histories[2];
    for (int i = 0; i < 2; i++) {
        devices[i] = fixture_create(NULL);
        histories[i] = history_of(&devices[i]);
        if (i == 1) {
            pleat_history_set_note(histories[i], &note);
        }
        (void)fixture_alloc(&devices[i], 1000, (pleat_stream_t)i);
        pleat_history_set_note(NULL, NULL);
        cr_assert(eq(int,
                     pleat_history_take(histories[i], devices[i].allocator, true, &copies[2 * i]),
                     PLEAT_OK));
    }
    pleat_conf_t conf = PLEAT_CONF_INIT;
    const char text[] = "max_split_size_mb:64,roundup_power2_divisions:[2:4,>:8],"
                        "garbage_collection_threshold:0.5";
    cr_assert(eq(int, pleat_conf_read(&conf, PLEAT_CONF_STRICT, text, NULL), PLEAT_OK));
    tables.stack_count = 77;
    const pleat_torch_source_t source = {.size = sizeof source,
                                         .copies = (const pleat_history_copy_t *const *)copies,
                                         .copy_count = 3,
                                         .conf = &conf,
                                         .conf_text = text,
                                         .tables = &tables,
                                         .context = &base,
                                         .stack_of = stack_of,
                                         .text_of = text_of};
    pleat_torch_snapshot_t got;
    cr_assert(eq(int, pleat_torch_snapshot_compose(&source, &got), PLEAT_OK));
    cr_assert(eq(u64, got.segment_count, 2));
    cr_assert(eq(u64, got.block_count, 4));
    cr_assert(eq(u64, got.history_count, 3));
    cr_expect(eq(u64, got.stack_count, 77));
    cr_expect(eq(u32, got.segments[0].device, 0));
    cr_expect(eq(u32, got.segments[1].device, 2));
    cr_expect(eq(u64, got.segments[1].first_block, 2));
    cr_expect(eq(u32, got.segments[0].stack, PLEAT_TORCH_STACK_ABSENT));
    cr_expect(eq(u32, got.segments[1].stack, 5));
    cr_expect(eq(u64, got.segments[1].stream, 1));
    cr_expect(eq(u64, got.segments[1].active_bytes, 1024));
    cr_expect(eq(u32, got.blocks[2].stack, 5));
    cr_expect(eq(u32, got.blocks[3].stack, PLEAT_TORCH_STACK_ABSENT));
    cr_expect(eq(u64, got.histories[1].entry_count, 0));
    cr_assert(eq(u64, got.histories[2].entry_count, 2));
    cr_expect(eq(u32, got.histories[2].entries[1].stack, 5));
    cr_expect(eq(str, (char *)got.histories[2].entries[1].user_metadata, metadata));
    cr_expect(eq(str, (char *)got.histories[2].entries[1].compile_context, "N/A"));
    cr_expect(eq(str, (char *)got.histories[0].entries[1].user_metadata, ""));
    cr_expect(eq(i64, got.settings.max_split_bytes, 64 << 20));
    cr_expect(eq(dbl, got.settings.garbage_collection_threshold, 0.5));
    cr_expect(eq(u64, got.settings.roundup_power2_divisions[1], 4));
    cr_expect(eq(u64, got.settings.roundup_power2_divisions[15], 8));
    cr_expect(eq(str, (char *)got.settings.conf, (char *)text));
    pleat_torch_snapshot_fini(&got);
    for (int i = 0; i < 2; i++) {
        pleat_history_copy_destroy(histories[i], copies[2 * i]);
        pleat_set_observer(devices[i].allocator, NULL, NULL);
        pleat_history_destroy(histories[i]);
        fixture_check_and_destroy(&devices[i]);
    }
}

Test(torch_snapshot_write, composing_fails_without_host_memory, .timeout = 5)
{
    fixture_t f = fixture_create(NULL);
    pleat_history_t *history = history_of(&f);
    pleat_history_copy_t *copy = NULL;
    (void)fixture_alloc(&f, 1000, 0);
    cr_assert(eq(int, pleat_history_take(history, f.allocator, true, &copy), PLEAT_OK));
    pleat_torch_source_t source = PLEAT_TORCH_SOURCE_INIT;
    source.copies = (const pleat_history_copy_t *const *)&copy;
    source.copy_count = 1;
    pleat_torch_snapshot_t got = PLEAT_TORCH_SNAPSHOT_INIT;
    for (uint64_t nth = 1; nth <= 4; nth++) {
        host_fault_after(nth);
        cr_expect(eq(int, pleat_torch_snapshot_compose(&source, &got), PLEAT_ERR_OOM_HOST));
        cr_expect(eq(ptr, got.segments, NULL));
    }
    host_fault_after(0);
    cr_assert(eq(int, pleat_torch_snapshot_compose(&source, &got), PLEAT_OK));
    cr_expect(eq(i64, got.settings.max_split_bytes, -1));
    cr_expect(eq(i64, got.settings.pinned_num_register_threads, 1));
    pleat_torch_snapshot_fini(&got);
    pleat_history_copy_destroy(history, copy);
    pleat_set_observer(f.allocator, NULL, NULL);
    pleat_history_destroy(history);
    fixture_check_and_destroy(&f);
}
