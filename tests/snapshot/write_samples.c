/*
 * write_samples: writes a snapshot with extreme values in every pickle protocol, for
 * check_samples.py, which knows what is in it: write_samples FOLDER. Each file is named after its
 * protocol.
 */
#include <pleat/torch_snapshot_write.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FRAMES = 700,
    STACKS = 500,
    STACK_FRAMES = 4 * STACKS,
    SEGMENTS = 2500,
    BLOCKS = SEGMENTS + 2999,
    ENTRIES = 30000,
    TEXT_BYTES = 24,
    LONG_BYTES = 200000
};

static char texts[ENTRIES][TEXT_BYTES];
static char long_text[LONG_BYTES + 1];
static pleat_torch_frame_t frames[FRAMES];
static pleat_torch_stack_t stacks[STACKS];
static uint32_t stack_frames[STACK_FRAMES];
static pleat_torch_segment_t segments[SEGMENTS];
static pleat_torch_block_t blocks[BLOCKS];
static pleat_torch_entry_t entries[ENTRIES];

static void fill_stacks(void)
{
    static char names[FRAMES][TEXT_BYTES];
    for (uint32_t i = 0; i < FRAMES; i++) {
        (void)snprintf(names[i], TEXT_BYTES, "f%u", i);
        frames[i] = (pleat_torch_frame_t){names[i], i % 2 == 0 ? "a.py" : "b\xe4.py", i};
    }
    frames[1].name = long_text;
    frames[2].name = "\xed\xb3\xbf"; /* a lone surrogate, as of a file name that is no UTF-8 */
    for (uint32_t i = 0; i < STACK_FRAMES; i++) {
        stack_frames[i] = i * 7 % FRAMES;
    }
    for (uint32_t i = 0; i < STACKS; i++) {
        stacks[i] = (pleat_torch_stack_t){UINT64_C(4) * i, i % 5};
    }
    stacks[STACKS - 1].frame_count = 4;
}

static void fill_segments(void)
{
    for (uint64_t i = 0; i < SEGMENTS; i++) {
        segments[i] = (pleat_torch_segment_t){
            .address = UINT64_C(0x7f0000000000) + i,
            .total_bytes = UINT64_C(1) << i % 64,
            .allocated_bytes = 255 + i % 2,
            .active_bytes = 65535 + i % 2,
            .requested_bytes = (UINT64_C(1) << 31) - i % 2,
            .stream = UINT64_MAX - i,
            .pool = {i % 3, i},
            .first_block = i,
            .block_count = i == SEGMENTS - 1 ? 3000 : 1,
            .device = (uint32_t)(i % 2),
            .stack = i % 3 == 0 ? (uint32_t)(i % STACKS) : PLEAT_TORCH_STACK_ABSENT,
            .is_small = i % 2 == 0,
            .is_expandable = i % 5 == 0,
        };
    }
    for (uint64_t i = 0; i < BLOCKS; i++) {
        blocks[i] = (pleat_torch_block_t){
            .address = i * 512,
            .bytes = i,
            .requested_bytes = i / 2,
            .state = (pleat_block_state_t)(i % 3),
            .stack = i % 2 == 0 ? (uint32_t)(i % STACKS) : PLEAT_TORCH_STACK_ABSENT,
        };
    }
}

static void fill_entries(void)
{
    for (uint64_t i = 0; i < ENTRIES; i++) {
        (void)snprintf(texts[i], TEXT_BYTES, "m%llu", (unsigned long long)(i * i % 9973));
        entries[i] = (pleat_torch_entry_t){
            .address = UINT64_MAX - i * 512,
            .bytes = i,
            .stream = i % 3,
            .time_us = UINT64_C(1795993711516917) + i,
            .compile_context = i % 2 == 0 ? "N/A" : NULL,
            .user_metadata = i % 4 == 0 ? NULL : texts[i],
            .action = (pleat_action_t)(i % PLEAT_ACTION_COUNT),
            .stack = i % 2 == 0 ? (uint32_t)(i * 13 % STACKS) : PLEAT_TORCH_STACK_ABSENT,
        };
    }
}

static bool write_to(const pleat_torch_snapshot_t *snapshot, const char *folder, uint32_t protocol)
{
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/%u", folder, protocol);
    FILE *file = fopen(path, "wb");
    pleat_torch_write_options_t options = PLEAT_TORCH_WRITE_OPTIONS_INIT;
    options.protocol = protocol;
    if (file == NULL) {
        perror(path);
        return false;
    }
    const pleat_status_t status =
        pleat_torch_snapshot_write(snapshot, &options, pleat_torch_write_to_file, file);
    if (fclose(file) != 0 || status != PLEAT_OK) {
        (void)fprintf(stderr, "%s: %s\n", path, pleat_last_error());
        return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    pleat_torch_history_t histories[3] = {{0}, {entries, ENTRIES, 0, NULL}, {entries, 1, 0, NULL}};
    pleat_torch_annotation_t annotations[] = {{"step \"1\"", 1, 0, true},
                                              {"", UINT64_MAX, 7, false}};
    pleat_torch_snapshot_t snapshot = PLEAT_TORCH_SNAPSHOT_INIT;
    if (argc != 2) {
        (void)fputs("usage: write_samples FOLDER\n", stderr);
        return 1;
    }
    memset(long_text, 'y', LONG_BYTES);
    fill_stacks();
    fill_segments();
    fill_entries();
    snapshot.segment_count = SEGMENTS;
    snapshot.block_count = BLOCKS;
    snapshot.history_count = 3;
    snapshot.annotation_count = 2;
    snapshot.frame_count = FRAMES;
    snapshot.stack_count = STACKS;
    snapshot.stack_frame_count = STACK_FRAMES;
    snapshot.segments = segments;
    snapshot.blocks = blocks;
    snapshot.histories = histories;
    snapshot.annotations = annotations;
    snapshot.frames = frames;
    snapshot.stacks = stacks;
    snapshot.stack_frames = stack_frames;
    snapshot.settings.conf = "max_split_size_mb:64";
    snapshot.settings.max_split_bytes = INT64_MIN;
    snapshot.settings.garbage_collection_threshold = 0.8;
    snapshot.settings.expandable_segments = true;
    snapshot.settings.pinned_num_register_threads = -1;
    snapshot.settings.roundup_power2_divisions[3] = 8;
    for (uint32_t protocol = 2; protocol <= 5; protocol++) {
        if (!write_to(&snapshot, argv[1], protocol)) {
            return 1;
        }
    }
    return 0;
}
