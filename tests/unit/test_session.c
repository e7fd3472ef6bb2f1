/*
 * test_session: lines of sessions, what is wrong with wrong ones, and all bundled sessions and
 * cases.
 */
#include "host_fault.h"
#include "input_fixture.h"

#include <criterion/new/assert.h>
#include <dirent.h>

static const char recording[] = "pleat-oracle 1\n"
                                "recorded by hand\n"
                                "settings -\n"
                                "total_memory 1000\n"
                                "limit 600\n"
                                "fraction 0.6\n"
                                "streams 3\n"
                                "keys num_ooms active.all.peak\n"
                                "base 0 -1\n"
                                "pool_create 1 use_on_oom no_split\n"
                                " stats\n"
                                "pool_begin 1 all\n"
                                " stats\n"
                                "alloc 17 100 2 0x7f00\n"
                                " segment_alloc 0x7f00 512 2\n"
                                " segment_map 0x9f00 512 1\n"
                                " stats 0=100 1=-5\n"
                                "record 17 1\n"
                                " stats\n"
                                "oom 5000 1\n"
                                " segment_free 0x7f00 512 2\n"
                                " segment_unmap 0x7f00 512 2\n"
                                " stats 0=7\n"
                                "free 17\n"
                                " deferred 17\n"
                                " stale 17\n"
                                " freeable 1\n"
                                " free_completed 0x7f00 100 2\n"
                                " stats\n"
                                "pool_end 1\n"
                                " stats\n"
                                "pool_release 1\n"
                                " stats\n"
                                "pool_delete 1\n"
                                " stats\n"
                                "snapshot\n"
                                " segment 0x7f00 512 2 small plain allocated=1 active=2 "
                                "requested=3 pool=1\n"
                                "  block 0x7f00 256 requested=100 active_pending_free\n"
                                "  block 0x8000 256 requested=0 inactive\n"
                                " stats\n"
                                "empty\n"
                                " error x > 0 FAILED\n"
                                "end\n"
                                " segment 0x9f00 512 0 large expandable allocated=1 active=2 "
                                "requested=3\n"
                                "  block 0x9f00 512 requested=3 active_allocated\n";

static pleat_session_t *load(const char *text)
{
    pleat_session_t *session = NULL;
    cr_assert(input_fixture_session(text, strlen(text), &session) == PLEAT_OK, "%s",
              pleat_last_error());
    return session;
}

Test(session, header_of_a_recording)
{
    pleat_session_t *session = load(recording);
    cr_expect(session->is_recording);
    cr_expect(eq(str, (char *)session->recorded, "by hand"));
    cr_expect(eq(str, (char *)session->settings, ""));
    cr_expect(eq(str, session->name, "test"));
    cr_expect(eq(u64, session->total_bytes, 1000));
    cr_expect(session->has_limit);
    cr_expect(eq(u64, session->limit_bytes, 600));
    cr_expect(session->fraction > 0.599 && session->fraction < 0.601);
    cr_expect(eq(u64, session->stream_count, 3));
    cr_expect(eq(u32, session->key_count, 2));
    cr_expect(eq(str, (char *)session->keys[1], "active.all.peak"));
    cr_expect(eq(i64, session->base[1], -1));
    cr_expect(eq(uint, session->modes, 0));
    pleat_session_destroy(session);
}

Test(session, calls_of_a_recording)
{
    static const pleat_session_call_kind_t kinds[] = {
        PLEAT_SESSION_POOL_CREATE, PLEAT_SESSION_POOL_BEGIN,   PLEAT_SESSION_ALLOC,
        PLEAT_SESSION_RECORD,      PLEAT_SESSION_OOM,          PLEAT_SESSION_FREE,
        PLEAT_SESSION_POOL_END,    PLEAT_SESSION_POOL_RELEASE, PLEAT_SESSION_POOL_DELETE,
        PLEAT_SESSION_SNAPSHOT,    PLEAT_SESSION_EMPTY};
    pleat_session_t *session = load(recording);
    const pleat_session_call_t *calls = session->calls;
    cr_assert(eq(u32, session->call_count, sizeof(kinds) / sizeof(kinds[0])));
    for (uint32_t i = 0; i < session->call_count; i++) {
        cr_expect(eq(int, (int)calls[i].kind, (int)kinds[i]));
    }
    cr_expect(calls[0].use_on_oom && calls[0].no_split);
    cr_expect(eq(u64, calls[0].pool, 1));
    cr_expect(calls[0].has_stats && calls[0].changes.count == 0);
    cr_expect(calls[1].all_threads);
    cr_expect(not(calls[10].has_stats)); /* it ends the recording */
    cr_expect(calls[2].has_address);
    cr_expect(eq(u64, calls[2].address, 0x7f00));
    cr_expect(eq(u64, calls[2].bytes, 100));
    cr_expect(eq(u64, calls[2].stream, 2));
    cr_expect(eq(u64, calls[2].line, 14));
    cr_expect(eq(str, (char *)session->ids[calls[2].id], "17"));
    cr_expect(eq(u32, calls[3].id, calls[2].id));
    cr_expect(eq(u32, calls[4].id, PLEAT_SESSION_NO_ID));
    cr_expect(eq(str, (char *)calls[10].error_text, "x > 0 FAILED"));
    pleat_session_destroy(session);
}

Test(session, lines_below_calls)
{
    pleat_session_t *session = load(recording);
    const pleat_session_call_t *calls = session->calls;
    static const pleat_action_t actions[] = {PLEAT_ACTION_SEGMENT_ALLOC, PLEAT_ACTION_SEGMENT_MAP,
                                             PLEAT_ACTION_SEGMENT_FREE, PLEAT_ACTION_SEGMENT_UNMAP,
                                             PLEAT_ACTION_FREE_COMPLETED};
    cr_assert(eq(u32, session->event_count, 5));
    for (uint32_t i = 0; i < session->event_count; i++) {
        cr_expect(eq(int, (int)session->events[i].action, (int)actions[i]));
    }
    cr_expect(eq(u32, calls[2].events.count, 2));
    cr_expect(eq(u64, session->events[calls[2].events.first + 1].address, 0x9f00));
    cr_expect(eq(u64, session->events[calls[2].events.first + 1].stream, 1));
    cr_expect(eq(u32, calls[2].changes.count, 2));
    cr_expect(eq(u32, session->changes[calls[2].changes.first + 1].key, 1));
    cr_expect(eq(i64, session->changes[calls[2].changes.first + 1].value, -5));
    cr_expect(eq(u32, calls[4].changes.first, 2));
    cr_expect(eq(u64, session->numbers[calls[5].deferred.first], calls[2].id));
    cr_expect(eq(u64, session->numbers[calls[5].stale.first], calls[2].id));
    cr_expect(eq(u64, session->numbers[calls[5].freeable.first], 1));
    pleat_session_destroy(session);
}

Test(session, segments_and_blocks)
{
    pleat_session_t *session = load(recording);
    cr_assert(eq(u32, session->calls[9].segments.count, 1));
    const pleat_session_segment_t *segment = &session->segments[session->calls[9].segments.first];
    cr_expect(eq(u64, segment->pool, 1));
    cr_expect(segment->info.is_small && !segment->info.is_expandable);
    cr_expect(eq(u64, segment->info.allocated_bytes, 1));
    cr_expect(eq(u64, segment->info.active_bytes, 2));
    cr_expect(eq(u64, segment->info.requested_bytes, 3));
    cr_expect(eq(u64, segment->info.block_count, 2));
    cr_expect(eq(u64, segment->line, 37));
    const pleat_session_block_t *block = &session->blocks[segment->info.first_block];
    cr_expect(eq(int, (int)block[0].info.state, PLEAT_BLOCK_PENDING_FREE));
    cr_expect(eq(u64, block[0].info.requested_bytes, 100));
    cr_expect(eq(u64, block[0].line, 38));
    cr_expect(eq(int, (int)block[1].info.state, PLEAT_BLOCK_INACTIVE));
    cr_expect(eq(u64, block[1].line, 39));
    cr_expect(session->has_end_state);
    cr_assert(eq(u32, session->end_segments.count, 1));
    segment = &session->segments[session->end_segments.first];
    cr_expect(segment->info.is_expandable && !segment->info.is_small);
    cr_expect(eq(u64, segment->pool, 0));
    cr_expect(eq(u64, session->end_line, 43));
    cr_expect(eq(u64, segment->line, 44));
    cr_expect(
        eq(int, (int)session->blocks[segment->info.first_block].info.state, PLEAT_BLOCK_ALLOCATED));
    pleat_session_destroy(session);
}

Test(session, a_truncated_recording_is_reported)
{
    const char *end = strstr(recording, "end\n");
    const size_t length = (size_t)(end - recording);
    unsigned refused = 0;
    for (size_t cut = strlen("pleat-oracle 1\nrecorded "); cut < length; cut++) {
        pleat_session_t *session = NULL;
        refused += input_fixture_session(recording, cut, &session) == PLEAT_ERR_FORMAT;
    }
    cr_expect(eq(sz, (size_t)refused, length - strlen("pleat-oracle 1\nrecorded ")));
    pleat_session_t *session = NULL;
    cr_expect(eq(int, input_fixture_session(recording, length, &session), PLEAT_ERR_FORMAT));
    INPUT_FIXTURE_EXPECT_ERROR("test:42: the file ends here, but a recording ends with 'end': it "
                               "is truncated");
}

/* Each text is wrong in its last line. */
static const struct {
    const char *text;
    const char *error;
} wrong[] = {
    {"pleat-oracle 2\n", "test:1:14: version '2' of the format; 1 can be read"},
    {"pleat-oracle 1 x\n", "test:1:16: unexpected 'x'"},
    {"settings -\npleat-oracle 1\n", "test:2:1: 'pleat-oracle' must be the first line"},
    {"settings\n", "test:1:9: settings are missing"},
    {"limit 5\nlimit 6\n", "test:2:1: a second line 'limit'"},
    {"sync\nlimit 6\n", "test:2:1: 'limit' belongs to the header, before the first call"},
    {"total_memory 0\n", "test:1:14: a device of '0' bytes; 1 to 70368744177664 (64 TiB)"},
    {"total_memory 65537GiB\n", "test:1:14: a device of '65537GiB' bytes; 1 to 70368744177664"},
    {"total_memory much\n", "test:1:14: 'much' is no size"},
    {"total_memory 5 6\n", "test:1:16: unexpected '6'"},
    {"limit 17179869184GiB\n", "test:1:7: '17179869184GiB' is no size"},
    {"fraction 1.5\n", "test:1:10: '1.5' is no fraction: a number from 0 to 1"},
    {"fraction 0.00000000000000000000000000000000000000000000000000000000000000000000000000001\n",
     "test:1:10: '0.0000000000000000000000000000000000000"},
    {"fraction nan\n", "'nan' is no fraction"},
    {"fraction\n", "'' is no fraction"},
    {"streams 0\n", "test:1:9: 0 streams; 1 to 65536 are possible"},
    {"streams x\n", "test:1:9: 'x' is no number of streams"},
    {"keys\n", "the names of the statistics are missing"},
    {"base 1\n", "test:1:1: 'base' needs 'keys' before it"},
    {"keys num_ooms num_oom\n",
     "test:1:15: 'num_oom' is no statistic of memory_stats(); the nearest is 'num_ooms'"},
    {"keys num_ooms num_sync_all_streams num_ooms\n",
     "test:1:36: statistic 'num_ooms' is named twice"},
    {"keys num_ooms max_split_size\nbase 1\n", "test:2:7: '' is no value of 'max_split_size'"},
    {"keys num_ooms\nbase 1 2\n", "test:2:8: unexpected '2'"},
    {"keys num_ooms\nsync\n", "the header has 'keys', but no 'base'"},
    {"mode\n", "test:1:5: a mode is missing"},
    {"mode classic modern\n", "test:1:14: unknown mode 'modern'"},
    {"sync\nresurrect 5\n", "test:2:1: unknown word 'resurrect'; a call"},
    {"sync now\n", "test:1:6: unexpected 'now'; the line has the form 'sync'"},
    {"sync\nalloc\n", "an id is missing; the line has the form 'alloc ID BYTES STREAM ADDRESS'"},
    {"sync\nalloc a\n", "test:2:8: size is missing"},
    {"sync\nalloc a 5\n", "stream is missing"},
    {"sync\nalloc a 5 0\n", "'' is no address"},
    {"sync\nalloc a 5 0 7x\n", "test:2:13: '7x' is no address"},
    {"sync\nalloc a 5 65536 *\n", "test:2:11: stream 65536; streams are numbered 0 to 65535"},
    {"streams 2\nalloc a 5 2 *\n",
     "test:2:11: stream 2, but the header says that there are 2, numbered from 0"},
    {"alloc a 5 0 *\nalloc a 5 0 *\n", "test:2:7: id 'a' is still allocated"},
    {"alloc a{i} 5 0 *\n", "test:1:8: '{': braces have a meaning only between 'repeat'"},
    {"alloc a {1}MiB 0 *\n", "test:1:9: '{': braces have a meaning only between 'repeat'"},
    {"sync\n expect num_ooms={0}\n", "test:2:18: '{': braces have a meaning only between"},
    {"total_memory {1}GiB\n", "test:1:14: '{': braces have a meaning only between"},
    {"free a\n", "test:1:6: id 'a' is not allocated here"},
    {"alloc a 5 0 *\nfree a\nfree a\n", "test:3:6: id 'a' is not allocated here"},
    {"alloc a 5 0 *\nfree a b\n", "unexpected 'b'; the line has the form 'free ID'"},
    {"record a 1\n", "id 'a' is not allocated here"},
    {"alloc a 5 0 *\nrecord a\n", "stream is missing"},
    {"sync\noom 5\n", "stream is missing"},
    {"busy x\n", "test:1:6: 'x' is no stream"},
    {"set_limit -1\n", "test:1:11: '-1' is no size"},
    {"pool_create x\n", "'x' is no pool"},
    {"pool_create 0\n", "test:1:13: pool 0; pools are numbered from 1"},
    {"pool_create 1\npool_create 1\n", "test:2:13: pool 1 exists"},
    {"pool_create 1 fast\n", "test:1:15: unexpected 'fast'"},
    {"pool_begin 1 all\n", "test:1:12: pool 1 needs a 'pool_create' before"},
    {"pool_create 1\npool_begin 1 some\n", "test:2:14: 'some' is no filter"},
    {"pool_create 1\npool_end 1 x\n", "unexpected 'x'"},
    {"alloc a 5 0 *\nsync\n deferred a\n", "test:3:11: id 'a' is still allocated"},
    {"alloc a 5 0 *\nfree a\nsync\n deferred a a\n", "test:4:13: 'a' twice in one line"},
    {"alloc a 5 0 *\nfree a\nsync\n stale a\n",
     "test:4:8: id 'a' is not named by a line ' deferred' of this call"},
    {"alloc a 5 0 *\nfree a\nsync\n deferred a\nsync\n stale a\n",
     "test:6:8: id 'a' is not named by a line ' deferred' of this call"},
    {"alloc a 5 0 *\nfree a\nsync\n deferred a\n stale a a\n", "test:5:10: 'a' twice in one line"},
    {"pool_create 1\n freeable 1 1\n", "test:2:13: '1' twice in one line"},
    {"end\nsync\n", "test:2:1: 'sync' behind 'end'"},
    {"sync\nend now\n", "test:2:5: unexpected 'now'"},
    {"sync\n error x\nsync\n", "test:3:1: a call behind ' error'"},
    {"# only\nmode classic\n", "test:2: the file ends without any call"},
    {"settings -\n expect a=1\n", "test:2:2: 'expect' before the first call"},
    {"sync\n wonder\n", "test:2:2: unknown word 'wonder'"},
    {"sync\nend\n expect a=1\n", "test:3:2: 'expect' behind 'end'"},
    {"sync\n stats 0=1\n", "' stats' needs 'keys' in the header"},
    {"keys num_ooms\nbase 0\nsync\n stats 1=1\n",
     "test:4:8: index 1, but 'keys' has 1 names, counted from 0"},
    {"keys num_ooms\nbase 0\nsync\n stats 0:1\n", "test:4:8: '0:1' has not the form INDEX=VALUE"},
    {"keys num_ooms\nbase 0\nsync\n stats 0=x\n", "'0=x' has not the form INDEX=VALUE"},
    {"keys num_ooms\nbase 0\nsync\n stats\n stats\n", "a second line ' stats' for one call"},
    {"keys num_ooms max_split_size\nbase 0 0\nsync\n stats 1=1 0=1 1=2\n",
     "test:4:16: index 1 ('max_split_size') twice in one line"},
    {"keys num_ooms\nbase 0\nsync\n stats 0=1\nempty\nsync\n stats\n",
     "test:5:1: 'empty' without a line ' stats' below it: a recording has the statistics"},
    {"keys num_ooms\nbase 0\nsync\nend\n", "test:3:1: 'sync' without a line ' stats' below it"},
    {"sync\n expect num_ooms=0 reserved_bytes.all.curent>=1\n",
     "test:2:20: 'reserved_bytes.all.curent' is no statistic of memory_stats(); the nearest is "
     "'reserved_bytes.all.current'"},
    {"sync\n expect\n", "an expectation is missing"},
    {"sync\n expect a\n", "test:2:9: 'a' has not the form KEY=VALUE"},
    {"sync\n expect =1\n", "'=1' has not the form KEY=VALUE"},
    {"sync\n expect <=1\n", "'<=1' has not the form KEY=VALUE"},
    {"sync\n expect a=1.5\n", "'a=1.5' has not the form KEY=VALUE"},
    {"sync\n expect_error\n", "the text that the error contains is missing"},
    {"sync\n segment_alloc x 1 0\n", "test:2:16: 'x' is no address"},
    {"sync\n segment_alloc 1 x 0\n", "'x' is no size"},
    {"sync\n free_completed 1 1\n", "stream is missing"},
    {"sync\n segment_map 1 1 0 0\n", "unexpected '0'"},
    {"sync\n deferred a\n", "test:2:11: id 'a' was never allocated"},
    {"alloc a 5 0 *\nfree a\nsync\n deferred a\n deferred a\n", "a second line of this kind"},
    {"alloc a 5 0 *\nfree a\nsync\n deferred a\n stale a\n stale a\n",
     "a second line of this kind"},
    {"sync\n freeable 1\n", "'1' is no pool that a 'pool_create' before has made"},
    {"pool_create 1\n freeable 1\n freeable 1\n", "a second line ' freeable'"},
    {"sync\n segment 1 1 0 small plain allocated=0 active=0 requested=0\n",
     "a segment belongs below 'snapshot' or behind 'end'"},
    {"snapshot\n segment x 1 0 small plain allocated=0 active=0 requested=0\n",
     "'x' is no address"},
    {"snapshot\n segment 1 1 0 tiny plain allocated=0 active=0 requested=0\n",
     "'tiny': 'small' or 'large' is expected here"},
    {"snapshot\n segment 1 1 0 small round allocated=0 active=0 requested=0\n",
     "'round': 'plain' or 'expandable' is expected here"},
    {"snapshot\n segment 1 1 0 small plain allocated=x active=0 requested=0\n",
     "'allocated=x': allocated=NUMBER is expected here"},
    {"snapshot\n segment 1 1 0 small plain allocated=0 active=0 requested=0 pond=1\n",
     "pool=NUMBER is expected here"},
    {"snapshot\n segment 1 1 0 small plain allocated=0 active=0 requested=0 pool=1 x\n",
     "unexpected 'x'; the line has the form 'segment ADDRESS"},
    {"snapshot\n  block 1 1 requested=0 inactive\n", "a block belongs below a segment"},
    {"snapshot\n segment 1 1 0 small plain allocated=0 active=0 requested=0\n"
     "  block 1 1 requested=0 sleepy\n",
     "test:3:25: 'sleepy' is no state of a block"},
    {"snapshot\n segment 1 1 0 small plain allocated=0 active=0 requested=0\n"
     "  block 1 1 requested=0 inactive x\n",
     "unexpected 'x'; the line has the form 'block ADDRESS"},
};

Test(session, wrong_lines_are_explained)
{
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        pleat_session_t *session = NULL;
        cr_expect(input_fixture_session(wrong[i].text, strlen(wrong[i].text), &session) ==
                      PLEAT_ERR_FORMAT,
                  "%s", wrong[i].text);
        cr_expect(strstr(pleat_last_error(), wrong[i].error) != NULL, "'%s' gives '%s', not '%s'",
                  wrong[i].text, pleat_last_error(), wrong[i].error);
        pleat_session_destroy(session);
    }
}

Test(session, a_call_that_ends_a_recording_with_an_error_needs_no_statistics)
{
    pleat_session_t *session = load("keys num_ooms\nbase 0\nsync\n stats\nempty\n error x\nend\n");
    cr_expect(eq(u32, session->call_count, 2));
    pleat_session_destroy(session);
}

Test(session, a_name_of_any_length_is_refused)
{
    char text[1200];
    pleat_session_t *session = NULL;
    (void)snprintf(text, sizeof(text), "sync\n expect %01000d=1\n", 0);
    cr_expect(eq(int, input_fixture_session(text, strlen(text), &session), PLEAT_ERR_FORMAT));
    INPUT_FIXTURE_EXPECT_ERROR("test:2:9: '00000000");
}

Test(session, traces_are_refused)
{
    const char text[] = "alloc 7f00 512 0 5\n";
    pleat_session_t *session = NULL;
    cr_expect(eq(int, input_fixture_session(text, strlen(text), &session), PLEAT_ERR_FORMAT));
    INPUT_FIXTURE_EXPECT_ERROR("test: this is an allocation trace as text, a recorded session or a "
                               "case was expected");
    cr_expect(eq(int, pleat_session_load("/nonexistent", &session), PLEAT_ERR_IO));
}

Test(session, lack_of_host_memory_is_reported)
{
    pleat_status_t status = PLEAT_ERR_OOM_HOST;
    uint64_t nth = 0;
    while (status == PLEAT_ERR_OOM_HOST) {
        pleat_session_t *session = NULL;
        host_fault_after(++nth);
        status = input_fixture_session(recording, strlen(recording), &session);
        host_fault_after(0);
        cr_expect(eq(int, session == NULL, status != PLEAT_OK));
        pleat_session_destroy(session);
    }
    cr_expect(eq(int, status, PLEAT_OK));
    cr_expect(lt(u64, 15, nth));
}

/* Every file of a folder whose name ends so; returns how many. */
static unsigned load_folder(const char *folder, const char *ending, uint64_t *calls_out)
{
    unsigned count = 0;
    DIR *directory = opendir(folder);
    cr_assert(directory != NULL, "%s", folder);
    for (struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory)) {
        const char *found = strstr(entry->d_name, ending);
        if (found == NULL || strcmp(found, ending) != 0) {
            continue;
        }
        char path[1024];
        pleat_session_t *session = NULL;
        (void)snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        cr_assert(pleat_session_load(path, &session) == PLEAT_OK, "%s", pleat_last_error());
        *calls_out += session->call_count;
        count++;
        pleat_session_destroy(session);
    }
    (void)closedir(directory);
    return count;
}

Test(session, all_bundled_sessions_and_cases_load, .timeout = 60)
{
    uint64_t calls = 0;
    cr_expect(eq(uint, load_folder(PLEAT_TEST_DATA "/sessions", ".oracle.xz", &calls), 77));
    cr_expect(eq(u64, calls, 165838));
    calls = 0;
    cr_expect(eq(uint, load_folder(PLEAT_TEST_DATA "/cases", ".case", &calls), 67));
    cr_expect(lt(u64, 12000, calls));
}
