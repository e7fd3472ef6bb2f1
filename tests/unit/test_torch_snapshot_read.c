/*
 * Memory snapshots: those that PyTorch wrote, those of old versions, and what is refused.
 */
#include <pleat/torch_snapshot.h>

#include "host_fault.h"
#include "pickle_text.h"

#include <criterion/new/assert.h>

#define SEGMENT "'address': 4096, 'total_size': 1024, 'stream': 0, 'device': 0"
#define BLOCK "{'size': 1024, 'state': 'inactive'}"

static pleat_status_t read_file(void *context, void *buffer, size_t capacity, size_t *count_out)
{
    *count_out = fread(buffer, 1, capacity, context);
    return PLEAT_OK;
}

static pleat_status_t read_text(const char *text, uint64_t memory_bytes,
                                pleat_torch_snapshot_t **snapshot_out)
{
    pleat_torch_read_options_t options = PLEAT_TORCH_READ_OPTIONS_INIT;
    pickle_bytes_t bytes = pickle_text(text);
    FILE *file = fmemopen(bytes.data, bytes.count, "rb");
    cr_assert(file != NULL);
    options.name = "test";
    options.memory_bytes = memory_bytes;
    const pleat_status_t status =
        pleat_torch_snapshot_read(read_file, file, &options, snapshot_out);
    (void)fclose(file);
    free(bytes.data);
    return status;
}

static pleat_torch_snapshot_t *load_text(const char *text)
{
    pleat_torch_snapshot_t *snapshot = NULL;
    cr_assert(read_text(text, 0, &snapshot) == PLEAT_OK, "%s", pleat_last_error());
    return snapshot;
}

static pleat_torch_snapshot_t *load_file(const char *name)
{
    char path[512];
    pleat_torch_snapshot_t *snapshot = NULL;
    (void)snprintf(path, sizeof(path), "%s/snapshots/%s.pickle", PLEAT_TEST_DATA, name);
    FILE *file = fopen(path, "rb");
    cr_assert(file != NULL, "%s", path);
    cr_assert(pleat_torch_snapshot_read(read_file, file, NULL, &snapshot) == PLEAT_OK, "%s",
              pleat_last_error());
    (void)fclose(file);
    return snapshot;
}

/* What holds of every snapshot of PyTorch. */
static void expect_sound(const pleat_torch_snapshot_t *snapshot)
{
    for (uint64_t i = 0; i < snapshot->segment_count; i++) {
        const pleat_torch_segment_t *segment = &snapshot->segments[i];
        uint64_t next = segment->address;
        uint64_t allocated = 0;
        for (uint64_t j = 0; j < segment->block_count; j++) {
            const pleat_torch_block_t *block = &snapshot->blocks[segment->first_block + j];
            cr_expect(eq(u64, block->address, next));
            const bool has_stack = block->stack != PLEAT_TORCH_STACK_ABSENT;
            cr_expect(not(has_stack && block->stack >= snapshot->stack_count));
            next += block->bytes;
            allocated += block->state == PLEAT_BLOCK_ALLOCATED ? block->bytes : 0;
        }
        cr_expect(eq(u64, next - segment->address, segment->total_bytes));
        cr_expect(eq(u64, allocated, segment->allocated_bytes));
    }
    for (uint64_t i = 0; i < snapshot->stack_count; i++) {
        cr_expect(le(u64, snapshot->stacks[i].first_frame + snapshot->stacks[i].frame_count,
                     snapshot->stack_frame_count));
    }
    for (uint64_t i = 0; i < snapshot->stack_frame_count; i++) {
        cr_expect(lt(u64, snapshot->stack_frames[i], snapshot->frame_count));
    }
}

Test(torch_snapshot_read, those_of_pytorch, .timeout = 60)
{
    static const struct {
        const char *name;
        uint64_t segments;
        uint64_t blocks;
        uint64_t entries;
        uint64_t allocated_bytes;
        bool has_stacks;
    } rows[] = {{"resnet18_classic", 35, 290, 2260, 217179136, true},
                {"resnet18_expandable", 3, 263, 2259, 215720960, true},
                {"truncated_ring", 35, 290, 700, 217179136, true},
                {"oom_nostacks", 20, 275, 2276, 217179136, false}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        pleat_torch_snapshot_t *snapshot = load_file(rows[i].name);
        uint64_t allocated_bytes = 0;
        expect_sound(snapshot);
        cr_expect(eq(u32, snapshot->missing, 0));
        cr_expect(eq(u64, snapshot->segment_count, rows[i].segments));
        cr_expect(eq(u64, snapshot->block_count, rows[i].blocks));
        cr_assert(eq(u64, snapshot->history_count, 1));
        cr_expect(eq(u64, snapshot->histories[0].entry_count, rows[i].entries));
        cr_expect(eq(int, snapshot->stack_count > 0, rows[i].has_stacks));
        for (uint64_t j = 0; j < snapshot->segment_count; j++) {
            allocated_bytes += snapshot->segments[j].allocated_bytes;
        }
        cr_expect(eq(u64, allocated_bytes, rows[i].allocated_bytes));
        pleat_torch_snapshot_destroy(snapshot);
    }
}

Test(torch_snapshot_read, every_field, .timeout = 20)
{
    pleat_torch_snapshot_t *snapshot = load_file("oom_nostacks");
    const pleat_torch_entry_t *entries = snapshot->histories[0].entries;
    const pleat_torch_entry_t *last = &entries[2275];
    cr_expect(eq(int, entries[0].action, PLEAT_ACTION_SEGMENT_ALLOC));
    cr_expect(eq(u64, entries[0].address, 140511698485248));
    cr_expect(eq(u64, entries[0].bytes, 2097152));
    cr_expect(eq(u64, entries[0].time_us, 1795993718298886));
    cr_expect(eq(str, (char *)entries[0].compile_context, "N/A"));
    cr_expect(eq(u32, entries[0].stack, PLEAT_TORCH_STACK_ABSENT));
    cr_expect(eq(int, last->action, PLEAT_ACTION_OOM));
    cr_expect(eq(u64, last->address, 148980760576));
    cr_expect(eq(u64, last->bytes, 8589934592));
    cr_expect(eq(str, (char *)snapshot->settings.conf, "max_split_size_mb:64"));
    cr_expect(eq(i64, snapshot->settings.max_split_bytes, 67108864));
    cr_expect(not(snapshot->settings.expandable_segments));
    cr_expect(snapshot->annotation_count > 0);
    cr_expect(snapshot->annotations[0].is_start);
    cr_expect(not(snapshot->annotations[1].is_start));
    cr_expect(eq(str, (char *)snapshot->annotations[0].name, "Optimizer.step#AdamW.step"));
    pleat_torch_snapshot_destroy(snapshot);

    snapshot = load_file("resnet18_classic");
    const pleat_torch_stack_t *stack = &snapshot->stacks[snapshot->histories[0].entries[0].stack];
    const pleat_torch_frame_t *frame =
        &snapshot->frames[snapshot->stack_frames[stack->first_frame]];
    cr_expect(eq(str, (char *)frame->name, "<lambda>"));
    cr_expect(eq(str, (char *)frame->filename, "site-packages/torch/nn/modules/module.py"));
    cr_expect(eq(u64, frame->line, 1097));
    pleat_torch_snapshot_destroy(snapshot);
}

Test(torch_snapshot_read, the_same_in_every_protocol, .timeout = 20)
{
    for (int protocol = 2; protocol <= 5; protocol++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "two_devices_%d", protocol);
        pleat_torch_snapshot_t *snapshot = load_file(name);
        expect_sound(snapshot);
        cr_assert(eq(u64, snapshot->history_count, 3));
        cr_expect(eq(u64, snapshot->histories[0].entry_count, 6));
        cr_expect(eq(u64, snapshot->histories[1].entry_count, 0));
        cr_expect(eq(u64, snapshot->histories[2].entry_count, 6));
        cr_assert(eq(u64, snapshot->segment_count, 2));
        cr_expect(eq(u32, snapshot->segments[1].device, 2));
        cr_expect(eq(u64, snapshot->segments[1].stream, 7));
        cr_expect(not(snapshot->segments[1].is_small));
        cr_expect(eq(u64, snapshot->stack_count, 2));
        cr_expect(eq(u64, snapshot->frame_count, 2));
        pleat_torch_snapshot_destroy(snapshot);
    }
}

Test(torch_snapshot_read, old_versions, .timeout = 20)
{
    pleat_torch_snapshot_t *snapshot = load_file("old");
    expect_sound(snapshot);
    cr_expect(eq(u32, snapshot->missing,
                 PLEAT_TORCH_MISSING_SETTINGS | PLEAT_TORCH_MISSING_ANNOTATIONS |
                     PLEAT_TORCH_MISSING_POOL_IDS | PLEAT_TORCH_MISSING_EXPANDABLE |
                     PLEAT_TORCH_MISSING_REQUESTED | PLEAT_TORCH_MISSING_BLOCK_ADDRESSES |
                     PLEAT_TORCH_MISSING_TIMES | PLEAT_TORCH_MISSING_SUMS));
    cr_assert(eq(u64, snapshot->block_count, 3));
    cr_expect(eq(u64, snapshot->blocks[0].requested_bytes, 1000));
    cr_expect(eq(u64, snapshot->blocks[1].requested_bytes, 512));
    cr_expect(eq(int, snapshot->blocks[1].state, PLEAT_BLOCK_PENDING_FREE));
    cr_expect(ne(u32, snapshot->blocks[0].stack, PLEAT_TORCH_STACK_ABSENT));
    cr_expect(eq(u64, snapshot->segments[0].requested_bytes, 1512));
    cr_expect(eq(u64, snapshot->histories[0].entry_count, 5));
    cr_expect(eq(u64, snapshot->histories[0].unknown_count, 1));
    cr_expect(eq(str, (char *)snapshot->histories[0].unknown_action, "workspace_snapshot"));
    cr_expect(eq(u64, snapshot->histories[0].entries[4].address, 5)); /* addr of an oom */
    cr_expect(eq(i64, snapshot->settings.max_split_bytes, -1));
    pleat_torch_snapshot_destroy(snapshot);

    snapshot = load_file("bare_list");
    expect_sound(snapshot);
    cr_expect(eq(u64, snapshot->segment_count, 2));
    cr_expect(eq(u64, snapshot->history_count, 0));
    pleat_torch_snapshot_destroy(snapshot);

    snapshot = load_text("[{'address': 4096, 'blocks': [" BLOCK "]}]");
    cr_expect(snapshot->segments[0].is_small);
    cr_expect(eq(u64, snapshot->segments[0].total_bytes, 1024));
    cr_expect(
        eq(u32,
           snapshot->missing & (PLEAT_TORCH_MISSING_SEGMENT_TYPES | PLEAT_TORCH_MISSING_STREAMS |
                                PLEAT_TORCH_MISSING_DEVICES | PLEAT_TORCH_MISSING_SUMS),
           PLEAT_TORCH_MISSING_SEGMENT_TYPES | PLEAT_TORCH_MISSING_STREAMS |
               PLEAT_TORCH_MISSING_DEVICES | PLEAT_TORCH_MISSING_SUMS));
    pleat_torch_snapshot_destroy(snapshot);

    snapshot = load_text("{'device_traces': [[]]}");
    cr_expect(ne(u32, snapshot->missing & PLEAT_TORCH_MISSING_SEGMENTS, 0));
    cr_expect(eq(u64, snapshot->history_count, 1));
    pleat_torch_snapshot_destroy(snapshot);
}

Test(torch_snapshot_read, unusual_values, .timeout = 20)
{
    pleat_torch_snapshot_t *snapshot = load_text(
        "{'segments': ({" SEGMENT ", 'is_expandable': 1, 'segment_pool_id': [0, 3],"
        "  'frames': None, 'blocks': (" BLOCK ",)},),"
        " 'device_traces': ([{'action': 'alloc', 'addr': 0xfffffffffffff000, 'size': 0xfff,"
        "   'stream': -2, 'time_us': 5, 'user_metadata': 'hello', 'frames': [{'line': -1}]},"
        "  {'action': 'oom', 'device_free': 0xffffffffffffffff, 'size': 1}],),"
        " 'allocator_settings': {'garbage_collection_threshold': 1,"
        "   'max_split_size': 0xffffffffffffffff, 'roundup_power2_divisions': None}}");
    const pleat_torch_entry_t *entries = snapshot->histories[0].entries;
    cr_expect(snapshot->segments[0].is_expandable);
    cr_expect(eq(u64, snapshot->segments[0].pool.second, 3));
    cr_expect(eq(u64, entries[0].stream, UINT64_MAX - 1));
    cr_expect(eq(str, (char *)entries[0].user_metadata, "hello"));
    cr_expect(eq(u64, snapshot->frames[0].line, 0));
    cr_expect(eq(str, (char *)snapshot->frames[0].name, ""));
    cr_expect(eq(u64, entries[1].address, UINT64_MAX));
    cr_expect(eq(dbl, snapshot->settings.garbage_collection_threshold, 1.0));
    cr_expect(eq(i64, snapshot->settings.max_split_bytes, -1));
    pleat_torch_snapshot_destroy(snapshot);
}

Test(torch_snapshot_read, refuses_what_is_no_snapshot, .timeout = 20)
{
    static const struct {
        const char *text;
        const char *expected;
    } rows[] = {
        {"None", "the pickle: expected is a memory snapshot (a dictionary, or a list of segments), "
                 "and there is None"},
        {"(1,)", "and there is a tuple"},
        {"{}", "the pickle.segments: expected is a memory snapshot with this key or device_traces"},
        {"{'segments': 5}", "the pickle.segments: expected is a list, and there is an integer"},
        {"{'segments': {}}", "expected is a list, and there is a dictionary"},
        {"{'segments': [5]}", "segments[0]: expected is a dictionary, and there is an integer"},
        {"[{'blocks': []}]", "segments[0].address: expected is this key, and there is nothing"},
        {"[{" SEGMENT "}]", "segments[0].blocks: expected is this key"},
        {"[{'address': 'x', 'blocks': []}]",
         "segments[0].address: expected is an integer from 0 to 2^64 - 1, and there is a string"},
        {"[{'address': -1, 'blocks': []}]", "and there is a negative integer"},
        {"[{'address': 1.5, 'blocks': []}]", "and there is a real number"},
        {"[{'address': True, 'blocks': []}]", "and there is True"},
        {"[{'address': 1, 'device': -1, 'blocks': []}]", "segments[0].device"},
        {"[{'address': 1, 'device': 0xffffffff, 'blocks': []}]", "the number of a device"},
        {"[{'address': 1, 'stream': 'x', 'blocks': []}]", "an integer of 64 bits"},
        {"[{'address': 1, 'segment_pool_id': 1, 'blocks': []}]", "a tuple of two integers"},
        {"[{'address': 1, 'segment_pool_id': (1,), 'blocks': []}]", "a tuple of two integers"},
        {"[{'address': 1, 'segment_pool_id': (1, -1), 'blocks': []}]", "a tuple of two integers"},
        {"[{'address': 1, 'is_expandable': 2, 'blocks': []}]", "True or False"},
        {"[{'address': 1, 'segment_type': 'huge', 'blocks': []}]", "small or large"},
        {"[{'address': 1, 'total_size': 0xffffffffffffffff, 'blocks': []}]",
         "an end of the segment below 2^64"},
        {"[{'address': 1, 'frames': 5, 'blocks': []}]", "segments[0].frames"},
        {"[{'address': 1, 'frames': [5], 'blocks': []}]",
         "segments[0].frames[0]: expected is a dictionary"},
        {"[{'address': 1, 'frames': [{'name': 5}], 'blocks': []}]",
         "segments[0].frames[0].name: expected is a string"},
        {"[{" SEGMENT ", 'blocks': [5]}]", "segments[0].blocks[0]: expected is a dictionary"},
        {"[{" SEGMENT ", 'blocks': [{'state': 'inactive'}]}]", "segments[0].blocks[0].size"},
        {"[{" SEGMENT ", 'blocks': [{'size': 1}]}]", "segments[0].blocks[0].state"},
        {"[{" SEGMENT ", 'blocks': [{'size': 1, 'state': 'x'}]}]", "active_allocated, "},
        {"[{" SEGMENT ", 'blocks': [{'size': 0xffffffffffffffff, 'state': 'inactive'}]}]",
         "an end of the block below 2^64"},
        {"[{" SEGMENT ", 'blocks': [{'size': 1, 'state': 'inactive', 'history': 5}]}]",
         "segments[0].blocks[0].history: expected is a list"},
        {"[{" SEGMENT ", 'blocks': [{'size': 1, 'state': 'inactive', 'history': [5]}]}]",
         "segments[0].blocks[0].history[0]: expected is a dictionary"},
        {"{'device_traces': 5}", "device_traces: expected is a list"},
        {"{'device_traces': [5]}", "device_traces[0]: expected is a list"},
        {"{'device_traces': [[5]]}", "device_traces[0].entries[0]: expected is a dictionary"},
        {"{'device_traces': [[{}]]}", "device_traces[0].entries[0].action: expected is this key"},
        {"{'device_traces': [[{'action': 5}]]}", "expected is a string, and there is an integer"},
        {"{'device_traces': [[{'action': 'alloc'}]]}", "entries[0].addr: expected is this key"},
        {"{'device_traces': [[{'action': 'alloc', 'addr': 1}]]}", "entries[0].size"},
        {"{'device_traces': [[{'action': 'alloc', 'addr': 1, 'size': 0xffffffffffffffff}]]}",
         "an end (addr + size) below 2^64"},
        {"{'device_traces': [[{'action': 'alloc', 'addr': 1, 'size': 1, 'time_us': None}]]}",
         "entries[0].time_us"},
        {"{'device_traces': [[{'action': 'alloc', 'addr': 1, 'size': 1, 'user_metadata': 1}]]}",
         "entries[0].user_metadata"},
        {"{'device_traces': [[{'action': 'alloc', 'addr': 1, 'size': 1, 'compile_context': 1}]]}",
         "entries[0].compile_context"},
        {"{'segments': [], 'allocator_settings': 5}", "allocator_settings: expected is a dict"},
        {"{'segments': [], 'allocator_settings': {'PYTORCH_CUDA_ALLOC_CONF': 5}}",
         "allocator_settings.PYTORCH_CUDA_ALLOC_CONF"},
        {"{'segments': [], 'allocator_settings': {'max_split_size': 'x'}}", "max_split_size"},
        {"{'segments': [], 'allocator_settings': {'pinned_num_register_threads': 'x'}}",
         "pinned_num_register_threads"},
        {"{'segments': [], 'allocator_settings': {'garbage_collection_threshold': 'x'}}",
         "a real number, and there is a string"},
        {"{'segments': [], 'allocator_settings': {'expandable_segments': 'x'}}", "True or False"},
        {"{'segments': [], 'allocator_settings': {'roundup_power2_divisions': 'x'}}",
         "allocator_settings.roundup_power2_divisions: expected is a dictionary"},
        {"{'segments': [], 'allocator_settings': {'roundup_power2_divisions': {'4': 'x'}}}",
         "allocator_settings.roundup_power2_divisions.4"},
        {"{'segments': [], 'external_annotations': 5}", "external_annotations: expected is a list"},
        {"{'segments': [], 'external_annotations': [5]}", "external_annotations[0]"},
        {"{'segments': [], 'external_annotations': [{'name': 5}]}", "external_annotations[0].name"},
        {"{'segments': [], 'external_annotations': [{'stage': 5}]}", "stage"},
        {"{'segments': [], 'external_annotations': [{'stage': 'x'}]}", "START or END"},
        {"{'segments': [], 'external_annotations': [{'device': 'x'}]}", "device"},
        {"{'segments': [], 'external_annotations': [{'time_us': 'x'}]}", "time_us"},
        /* One list at two places: a small file could make a snapshot of any size. */
        {"[{'address': 1, 'blocks': &1[" BLOCK "]}, {'address': 2, 'blocks': *1}]",
         "segments[1].blocks: expected is a list that stands nowhere else"},
        {"{'device_traces': [&1[{'action': 'alloc', 'addr': 1, 'size': 1}], *1]}",
         "device_traces[1]: expected is a list that stands nowhere else"},
        {"{'segments': &1[{'address': 1, 'blocks': []}], 'device_traces': *1}", "nowhere else"},
        {"[{'address': 1, 'blocks': &1[" BLOCK "], 'frames': *1}]", "segments[0].frames"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        pleat_torch_snapshot_t *snapshot = NULL;
        const pleat_status_t status = read_text(rows[i].text, 0, &snapshot);
        cr_assert(eq(int, status, PLEAT_ERR_FORMAT), "row %zu: %s", i, rows[i].text);
        cr_expect(snapshot == NULL);
        cr_expect(strncmp(pleat_last_error(), "test: byte ", 11) == 0, "%s", pleat_last_error());
        cr_expect(strstr(pleat_last_error(), rows[i].expected) != NULL, "row %zu: '%s' has no '%s'",
                  i, pleat_last_error(), rows[i].expected);
    }
}

Test(torch_snapshot_read, circles_and_shared_records, .timeout = 20)
{
    /* The same entry, the same stack and an empty list many times are fine; a list in itself is of
     * the wrong kind somewhere. */
    pleat_torch_snapshot_t *snapshot = load_text(
        "{'segments': [], 'device_traces': [&3[], *3,"
        " [&1{'action': 'alloc', 'addr': 1, 'size': 1, 'frames': &2[&4{'name': 'f'}, *4]}, *1,"
        "  {'action': 'alloc', 'addr': 2, 'size': 1, 'frames': *2}]]}");
    cr_expect(eq(u64, snapshot->histories[2].entry_count, 3));
    cr_expect(eq(u64, snapshot->stack_count, 1));
    cr_expect(eq(u64, snapshot->frame_count, 1));
    cr_expect(eq(u64, snapshot->stack_frame_count, 2));
    pleat_torch_snapshot_destroy(snapshot);

    static const char circle[] = "\x80\x04}q\x00X\x08\x00\x00\x00segments]q\x01h\x01"
                                 "ah\x00"
                                 "as.";
    FILE *file = fmemopen((void *)(uintptr_t)circle, sizeof(circle) - 1, "rb");
    cr_assert(file != NULL);
    cr_expect(
        eq(int, pleat_torch_snapshot_read(read_file, file, NULL, &snapshot), PLEAT_ERR_FORMAT));
    cr_expect(strstr(pleat_last_error(), "segments[0]: expected is a dictionary") != NULL, "%s",
              pleat_last_error());
    (void)fclose(file);
}

Test(torch_snapshot_read, a_record_has_few_keys, .timeout = 20)
{
    char *text = NULL;
    size_t bytes = 0;
    pleat_torch_snapshot_t *snapshot = NULL;
    FILE *file = open_memstream(&text, &bytes);
    (void)fputs("[{'address': 1, 'blocks': []", file);
    for (int i = 0; i < 255; i++) {
        (void)fprintf(file, ", %d: 1", i);
    }
    (void)fputs("}]", file);
    (void)fclose(file);
    cr_expect(eq(int, read_text(text, 0, &snapshot), PLEAT_ERR_FORMAT));
    cr_expect(strstr(pleat_last_error(), "a dictionary of at most 256 keys") != NULL, "%s",
              pleat_last_error());
    free(text);
}

Test(torch_snapshot_read, memory_has_a_limit, .timeout = 20)
{
    pleat_torch_snapshot_t *snapshot = NULL;
    uint64_t limit_bytes = 1000;
    unsigned refusals = 0;
    while (read_text("{'segments': [{" SEGMENT ", 'blocks': [" BLOCK "]}], 'device_traces': []}",
                     limit_bytes, &snapshot) != PLEAT_OK) {
        cr_assert(strstr(pleat_last_error(), "more memory than memory_bytes allows") != NULL, "%s",
                  pleat_last_error());
        limit_bytes += 997;
        refusals++;
        cr_assert(lt(u64, limit_bytes, 10000000));
    }
    cr_expect(lt(uint, 100, refusals));
    pleat_torch_snapshot_destroy(snapshot);
}

Test(torch_snapshot_read, arguments, .timeout = 20)
{
    pleat_torch_snapshot_t *snapshot = NULL;
    pleat_torch_read_options_t options = PLEAT_TORCH_READ_OPTIONS_INIT;
    cr_expect(eq(int, pleat_torch_snapshot_read(NULL, NULL, NULL, &snapshot), PLEAT_ERR_INVALID));
    cr_expect(eq(int, pleat_torch_snapshot_read(read_file, NULL, NULL, NULL), PLEAT_ERR_INVALID));
    /* A caller that was compiled before the later fields existed. */
    options.size = offsetof(pleat_torch_read_options_t, memory_bytes);
    options.memory_bytes = 1;
    pickle_bytes_t bytes = pickle_text("[]");
    FILE *file = fmemopen(bytes.data, bytes.count, "rb");
    cr_expect(eq(int, pleat_torch_snapshot_read(read_file, file, &options, &snapshot), PLEAT_OK));
    pleat_torch_snapshot_destroy(snapshot);
    pleat_torch_snapshot_destroy(NULL);
    (void)fclose(file);
    free(bytes.data);
    cr_expect(
        eq(str, (char *)pleat_torch_missing_text(PLEAT_TORCH_MISSING_HISTORIES), "device_traces"));
    cr_expect(eq(str, (char *)pleat_torch_missing_text((pleat_torch_missing_t)3), ""));
}

Test(torch_snapshot_read, without_host_memory, .timeout = 60)
{
    static const char text[] =
        "{'segments': [{" SEGMENT ", 'frames': [{'name': 'f'}], 'blocks': [" BLOCK "]}],"
        " 'device_traces': [[{'action': 'alloc', 'addr': 1, 'size': 1}]],"
        " 'external_annotations': [{'name': 'a'}]}";
    for (uint64_t nth = 1; nth < 200; nth++) {
        pleat_torch_read_options_t options = PLEAT_TORCH_READ_OPTIONS_INIT;
        pleat_torch_snapshot_t *snapshot = NULL;
        pickle_bytes_t bytes = pickle_text(text);
        FILE *file = fmemopen(bytes.data, bytes.count, "rb");
        char buffer[64];
        (void)setvbuf(file, buffer, _IOFBF, sizeof(buffer));
        options.name = "test";
        host_fault_after(nth);
        const pleat_status_t status =
            pleat_torch_snapshot_read(read_file, file, &options, &snapshot);
        host_fault_after(0);
        (void)fclose(file);
        free(bytes.data);
        if (status == PLEAT_OK) {
            pleat_torch_snapshot_destroy(snapshot);
            cr_expect(lt(u64, 12, nth));
            return;
        }
        cr_assert(eq(int, status, PLEAT_ERR_OOM_HOST));
        cr_expect(strstr(pleat_last_error(), "no host memory") != NULL, "%s", pleat_last_error());
    }
    cr_assert(false, "it never succeeded");
}
