/*
 * The blocks at the beginning of a history, found from those at its end, and the way to them.
 */
#include "snapshot_tiling.h"

#include "host_fault.h"
#include "input_fixture.h"
#include "pickle_text.h"
#include "trace_snapshot.h"

#include <criterion/new/assert.h>

/* Block of a segment; event of a history. */
#define B(address, size, requested, state)                                            \
    "{'address': " #address ", 'size': " #size ", 'requested_size': " #requested ", " \
    "'state': '" state "'},"
#define E(action, address, size) \
    "{'action': '" action "', 'addr': " #address ", 'size': " #size ", 'stream': 5},"
#define SMALL(address, blocks)                                                               \
    "{'address': " #address ", 'total_size': 2097152, 'segment_type': 'small', 'stream': 5," \
    " 'blocks': [" blocks "]},"
#define LARGE(address, size, blocks)                                                           \
    "{'address': " #address ", 'total_size': " #size ", 'segment_type': 'large', 'stream': 5," \
    " 'blocks': [" blocks "]},"
#define SNAPSHOT(segments, events) "{'segments': [" segments "], 'device_traces': [[" events "]]}"

static pleat_torch_snapshot_t *load(const char *text)
{
    pleat_torch_snapshot_t *snapshot = NULL;
    pickle_bytes_t bytes = pickle_text(text);
    pleat_input_t *input = input_fixture_open(bytes.data, bytes.count);
    cr_assert(pleat_trace_snapshot_load(input, 0, NULL, &snapshot) == PLEAT_OK, "%s",
              pleat_last_error());
    pleat_input_close(input);
    free(bytes.data);
    return snapshot;
}

static pleat_status_t find(const char *text, uint64_t max_split_bytes,
                           pleat_snapshot_tiling_t *tiling_out)
{
    pleat_options_t options = PLEAT_OPTIONS_INIT;
    options.max_split_bytes = max_split_bytes != 0 ? max_split_bytes : options.max_split_bytes;
    pleat_torch_snapshot_t *snapshot = load(text);
    const pleat_status_t status = pleat_snapshot_tiling_find(snapshot, 0, &options, tiling_out);
    pleat_torch_snapshot_destroy(snapshot);
    return status;
}

static void expect(const char *text, uint64_t guesses, const char *expected)
{
    pleat_snapshot_tiling_t tiling;
    char *events = NULL;
    size_t bytes = 0;
    cr_assert(find(text, 0, &tiling) == PLEAT_OK, "%s", pleat_last_error());
    cr_expect(eq(u64, tiling.guess_count, guesses));
    FILE *file = open_memstream(&events, &bytes);
    for (size_t i = 0; i < tiling.event_count; i++) {
        const pleat_trace_event_t *event = &tiling.events[i];
        cr_expect(eq(u64, event->stream, 5));
        (void)fprintf(file, "%s %llx %llu\n", pleat_action_name(event->action),
                      (unsigned long long)event->address, (unsigned long long)event->bytes);
    }
    (void)fclose(file);
    cr_expect(strcmp(events, expected) == 0, "%s instead of %s", events, expected);
    free(events);
    pleat_snapshot_tiling_fini(&tiling);
}

Test(snapshot_tiling, a_small_segment, .timeout = 20)
{
    /* 0x400 was freed in the history, 0x800 allocated, the rest stayed. */
    expect(SNAPSHOT(SMALL(0x200000, B(0x200000, 1024, 1000, "active_allocated")
                                        B(0x200400, 1024, 700, "inactive")
                                            B(0x200800, 512, 10, "active_allocated")
                                                B(0x200a00, 512, 30, "active_pending_free")
                                                    B(0x200c00, 2094080, 0, "inactive")),
                    E("alloc", 0x200800, 10) E("free_requested", 0x200400, 600)
                        E("free_completed", 0x200400, 600)),
           0,
           "segment_alloc 200000 2097152\n"
           "alloc 200000 1000\n"
           "alloc 200400 600\n"
           "alloc 200800 512\n"
           "alloc 200a00 30\n"
           "alloc 200c00 1048576\n"
           "alloc 300c00 1045504\n"
           "free_requested 200800 512\n"
           "free_completed 200800 512\n"
           "free_requested 200c00 1048576\n"
           "free_completed 200c00 1048576\n"
           "free_requested 300c00 1045504\n"
           "free_completed 300c00 1045504\n"
           "free_requested 200a00 30\n");
}

Test(snapshot_tiling, a_large_segment, .timeout = 20)
{
    /* A block that holds 512 KiB more than it asked for, and a gap. */
    expect(SNAPSHOT(LARGE(0x1000000, 20971520,
                          B(0x1000000, 12582912, 12582912, "active_allocated")
                              B(0x1c00000, 4194304, 0, "inactive")
                                  B(0x2000000, 4194304, 3670016, "active_allocated")),
                    E("snapshot", 0, 0)),
           0,
           "segment_alloc 1000000 20971520\n"
           "alloc 1000000 20971520\n"
           "free_requested 1000000 20971520\n"
           "free_completed 1000000 20971520\n"
           "alloc 1000000 12582912\n"
           "alloc 1c00000 4194304\n"
           "alloc 2000000 4194304\n"
           "free_requested 2000000 4194304\n"
           "free_completed 2000000 4194304\n"
           "alloc 2000000 3670016\n"
           "free_requested 1c00000 4194304\n"
           "free_completed 1c00000 4194304\n");
}

Test(snapshot_tiling, segments_that_come_and_go, .timeout = 20)
{
    /* One is made in the history, one is given back in it; one request fills one. */
    expect(SNAPSHOT(LARGE(0x1000000, 12582912, B(0x1000000, 12582912, 12000000, "active_allocated"))
                        LARGE(0x4000000, 20971520, B(0x4000000, 20971520, 0, "inactive")),
                    E("segment_free", 0x8000000, 20971520) E("segment_alloc", 0x4000000, 20971520)
                        E("alloc", 0x4000000, 5000000) E("free_requested", 0x4000000, 5000000)
                            E("free_completed", 0x4000000, 5000000)),
           1, /* of the block at 0x4000000 not all is known, but it is gone again */
           "segment_alloc 1000000 12582912\n"
           "alloc 1000000 12582912\n"
           "segment_alloc 8000000 20971520\n"
           "alloc 8000000 20971520\n"
           "free_requested 1000000 12582912\n"
           "free_completed 1000000 12582912\n"
           "alloc 1000000 12000000\n"
           "free_requested 8000000 20971520\n"
           "free_completed 8000000 20971520\n");
}

Test(snapshot_tiling, refuses_what_cannot_have_been, .timeout = 20)
{
#define FREE B(0x200000, 2097152, 0, "inactive")
#define USED B(0x200000, 512, 512, "active_allocated") B(0x200200, 2096640, 0, "inactive")
    static const struct {
        const char *text;
        const char *expected;
    } rows[] = {
        {"{'device_traces': [[" E("snapshot", 0, 0) "]]}", "lacks segments"},
        {SNAPSHOT(SMALL(0x200000, "{'size': 2097152, 'state': 'inactive'}"), E("snapshot", 0, 0)),
         "requested sizes"},
        {SNAPSHOT("", E("new_action", 0, 0) E("snapshot", 0, 0)), "known actions"},
        {SNAPSHOT(SMALL(0x200000, FREE), E("alloc", 0x200000, 1)), "an allocation at 200000"},
        {SNAPSHOT(SMALL(0x200000, USED), E("alloc", 0x200000, 1)), "an allocation at 200000"},
        {SNAPSHOT(SMALL(0x200000, B(0x200000, 512, 0, "inactive")
                                      B(0x200200, 2096640, 2096640, "active_allocated")),
                  E("alloc", 0x200200, 2096640)),
         "an allocation behind a free block"},
        {SNAPSHOT(SMALL(0x200000, USED), E("free_requested", 0x200000, 512)), "a free at 200000"},
        {SNAPSHOT(SMALL(0x200000, USED), E("free_completed", 0x200000, 512)),
         "a completed free at 200000"},
        {SNAPSHOT(SMALL(0x200000, FREE), E("free_completed", 0x200000, 3000000)),
         "a completed free"},
        {SNAPSHOT(SMALL(0x200000, FREE), E("free_completed", 0x200000, 0)), "a completed free"},
        {SNAPSHOT("", E("free_completed", 0x200000, 512)), "a completed free"},
        {SNAPSHOT(SMALL(0x200000, USED), E("segment_alloc", 0x200000, 2097152)),
         "a segment_alloc at 200000"},
        {SNAPSHOT(SMALL(0x200000, FREE), E("segment_alloc", 0x200000, 512)), "a segment_alloc"},
        {SNAPSHOT(SMALL(0x200000, FREE), E("segment_free", 0x300000, 2097152)), "a segment at"},
        {SNAPSHOT(SMALL(0x200000, FREE), E("segment_free", 0x800000, 0)), "a segment at"},
        {SNAPSHOT(SMALL(0x200000, FREE), E("segment_map", 0x200000, 2097152)),
         "an expandable segment"},
        {SNAPSHOT("{'address': 1, 'is_expandable': True, 'blocks': []}", E("snapshot", 0, 0)),
         "an expandable segment"},
        {SNAPSHOT("{'address': 1, 'segment_pool_id': (0, 1), 'blocks': []}", E("snapshot", 0, 0)),
         "a segment of a private pool"},
        {SNAPSHOT(SMALL(0x200000, FREE) SMALL(0x300000, B(0x300000, 2097152, 0, "inactive")),
                  E("snapshot", 0, 0)),
         "a segment at 300000"},
        {SNAPSHOT(SMALL(0x200000, B(0x200200, 512, 0, "inactive")), E("snapshot", 0, 0)),
         "a block of a segment at 200200"},
        {SNAPSHOT(SMALL(0x200000, B(0x200000, 512, 0, "inactive") B(0x200200, 512, 0, "inactive")),
                  E("snapshot", 0, 0)),
         "a block of a segment at 200200"},
        {SNAPSHOT(SMALL(0x200000, B(0x200000, 512, 0, "inactive")), E("snapshot", 0, 0)),
         "the end of a segment at 200200"},
        /* Blocks that no request makes. */
        {SNAPSHOT(SMALL(0x200000, B(0x200000, 2097152, 2097152, "active_allocated")),
                  E("snapshot", 0, 0)),
         "no request makes the block of 2097152 bytes at 200000"},
        {SNAPSHOT(SMALL(0x200000, B(0x200000, 2097152, 0, "active_allocated")),
                  E("snapshot", 0, 0)),
         "no request makes the block"},
        {SNAPSHOT(SMALL(0x200000, B(0x200000, 1024, 512, "active_allocated")
                                      B(0x200400, 2096128, 0, "inactive")),
                  E("snapshot", 0, 0)),
         "no request makes the block of 1024 bytes"},
        {SNAPSHOT(SMALL(0x200000, B(0x200000, 100, 0, "inactive")
                                      B(0x200064, 2097052, 2097052, "active_allocated")),
                  E("snapshot", 0, 0)),
         "no request makes the block of 100 bytes"},
        {SNAPSHOT(LARGE(0x1000000, 20971520,
                        B(0x1000000, 524288, 0, "inactive")
                            B(0x1080000, 20447232, 20447232, "active_allocated")),
                  E("snapshot", 0, 0)),
         "no request makes the block of 524288 bytes"},
        {SNAPSHOT(LARGE(0x1000000, 20971520, B(0x1000000, 20971520, 2097152, "active_allocated")),
                  E("snapshot", 0, 0)),
         "no request makes the block of 20971520 bytes"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        pleat_snapshot_tiling_t tiling;
        cr_expect(find(rows[i].text, 0, &tiling) == PLEAT_ERR_UNSUPPORTED, "row %zu: %s", i,
                  rows[i].text);
        cr_expect(strstr(pleat_last_error(), rows[i].expected) != NULL, "row %zu: '%s' has no '%s'",
                  i, pleat_last_error(), rows[i].expected);
        cr_expect(eq(sz, tiling.event_count, 0));
        cr_expect(tiling.events == NULL);
    }
    /* A segment above the split limit cannot be filled piece by piece. */
    pleat_snapshot_tiling_t tiling;
    cr_expect(eq(int,
                 find(SNAPSHOT(LARGE(0x1000000, 62914560,
                                     B(0x1000000, 31457280, 31457280, "active_allocated")
                                         B(0x2e00000, 31457280, 0, "inactive")),
                               E("snapshot", 0, 0)),
                      UINT64_C(33554432), &tiling),
                 PLEAT_ERR_UNSUPPORTED));
}

Test(snapshot_tiling, without_host_memory, .timeout = 60)
{
    const pleat_options_t options = PLEAT_OPTIONS_INIT;
    char path[512];
    pleat_input_t *input = NULL;
    pleat_torch_snapshot_t *snapshot = NULL;
    (void)snprintf(path, sizeof(path), "%s/snapshots/truncated_ring.pickle", PLEAT_TEST_DATA);
    cr_assert(eq(int, pleat_input_open(path, &input), PLEAT_OK));
    cr_assert(eq(int, pleat_trace_snapshot_load(input, 0, NULL, &snapshot), PLEAT_OK));
    pleat_input_close(input);
    bool has_found = false;
    for (uint64_t nth = 1; nth < 500 && !has_found; nth++) {
        pleat_snapshot_tiling_t tiling;
        host_fault_after(nth);
        const pleat_status_t status = pleat_snapshot_tiling_find(snapshot, 0, &options, &tiling);
        host_fault_after(0);
        has_found = status == PLEAT_OK;
        cr_expect(has_found || status == PLEAT_ERR_OOM_HOST, "%s", pleat_last_error());
        cr_expect(has_found || tiling.events == NULL);
        pleat_snapshot_tiling_fini(&tiling);
    }
    cr_expect(has_found);
    pleat_torch_snapshot_destroy(snapshot);
}
