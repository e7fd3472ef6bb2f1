/*
 * test_session_case: what hand-written cases add: defaults, units, expectations, repeats and sums
 * in braces.
 */
#include "input_fixture.h"
#include "session_case.h"

#include <criterion/new/assert.h>

static pleat_session_t *load(const char *text)
{
    pleat_session_t *session = NULL;
    cr_assert(input_fixture_session(text, strlen(text), &session) == PLEAT_OK, "%s",
              pleat_last_error());
    return session;
}

Test(session_case, header_lines_may_be_missing)
{
    pleat_session_t *session = load("# about\n\nalloc a 64MiB 3 *\n");
    cr_expect(not(session->is_recording));
    cr_expect(eq(u64, session->total_bytes, UINT64_C(150109880320)));
    cr_expect(eq(str, (char *)session->settings, ""));
    cr_expect(not(session->has_limit));
    cr_expect(not(session->has_end_state));
    cr_expect(eq(u64, session->stream_count, 4));
    cr_expect(eq(u32, session->key_count, 0));
    cr_expect(eq(u64, session->calls[0].bytes, UINT64_C(64) << 20));
    cr_expect(not(session->calls[0].has_address));
    cr_expect(eq(u64, session->calls[0].line, 3));
    pleat_session_destroy(session);
}

Test(session_case, header_lines_are_taken)
{
    pleat_session_t *session = load("mode classic torch_expandable\nsettings a:1, b:2 \n"
                                    "total_memory 4096MiB\nlimit 0\nsync\n");
    cr_expect(
        eq(uint, session->modes, PLEAT_SESSION_MODE_CLASSIC | PLEAT_SESSION_MODE_TORCH_EXPANDABLE));
    cr_expect(eq(str, (char *)session->settings, "a:1, b:2"));
    cr_expect(eq(u64, session->total_bytes, UINT64_C(4) << 30));
    cr_expect(not(session->has_limit));
    cr_expect(eq(u64, session->settings_place.line, 2));
    cr_expect(eq(u64, session->settings_place.column, 10));
    cr_expect(eq(str, (char *)session->file, "test"));
    pleat_session_destroy(session);
    session = load("mode pleated\nlimit 1GiB\nset x:1,y:2\nset_limit 2MiB\nbusy 1\ndone 1\n"
                   "reset_peak\nreset_acc\nempty\n");
    cr_expect(eq(uint, session->modes, PLEAT_SESSION_MODE_PLEATED));
    cr_expect(eq(u64, session->limit_bytes, UINT64_C(1) << 30));
    cr_expect(eq(str, (char *)session->calls[0].text, "x:1,y:2"));
    cr_expect(eq(u64, session->calls[1].bytes, UINT64_C(2) << 20));
    cr_expect(eq(u64, session->calls[2].stream, 1));
    cr_expect(eq(int, (int)session->calls[4].kind, PLEAT_SESSION_RESET_PEAK));
    cr_expect(eq(int, (int)session->calls[5].kind, PLEAT_SESSION_RESET_ACC));
    pleat_session_destroy(session);
}

Test(session_case, a_fraction_alone_gives_the_limit)
{
    pleat_session_t *session = load("fraction 0.3\ntotal_memory 1001\nsync\n");
    cr_expect(session->has_limit);
    cr_expect(eq(u64, session->limit_bytes, 300)); /* 300.3, cut */
    pleat_session_destroy(session);
    session = load("fraction 0.0001\ntotal_memory 1001\nsync\n");
    cr_expect(session->has_limit); /* of 0 bytes: every request fails */
    cr_expect(eq(u64, session->limit_bytes, 0));
    pleat_session_destroy(session);
    session = load("fraction 0\nsync\n");
    cr_expect(not(session->has_limit));
    pleat_session_destroy(session);
    session = load("fraction 0.5\nlimit 7\nsync\n");
    cr_expect(eq(u64, session->limit_bytes, 7));
    pleat_session_destroy(session);
    session = load("fraction 0.5\nlimit 0\nsync\n");
    cr_expect(not(session->has_limit)); /* said outright */
    pleat_session_destroy(session);
}

Test(session_case, settings_may_be_none_at_run_time)
{
    pleat_session_t *session = load("set -\nset\nset  a:{1} \n");
    cr_expect(eq(str, (char *)session->calls[0].text, ""));
    cr_expect(eq(str, (char *)session->calls[1].text, ""));
    cr_expect(eq(str, (char *)session->calls[2].text, "a:{1}"));
    cr_expect(eq(u64, session->calls[2].text_column, 6));
    pleat_session_destroy(session);
}

Test(session_case, expectations_have_three_relations)
{
    pleat_session_t *session =
        load("oom 2 0\n expect max_split_size=-1 active_bytes.all.peak<=2MiB\n expect num_ooms>=3\n"
             " expect_error Tried to  allocate {i}\n expect_error more\n");
    const pleat_session_call_t *call = &session->calls[0];
    cr_assert(eq(u32, call->expects.count, 3));
    const pleat_session_expect_t *expects = &session->expects[call->expects.first];
    cr_expect(eq(str, (char *)expects[0].key, "max_split_size"));
    cr_expect(eq(i64, expects[0].value, -1));
    cr_expect(eq(int, (int)expects[0].relation, PLEAT_SESSION_EQUAL));
    cr_expect(eq(str, (char *)expects[1].key, "active_bytes.all.peak"));
    cr_expect(eq(i64, expects[1].value, 2 << 20));
    cr_expect(eq(int, (int)expects[1].relation, PLEAT_SESSION_AT_MOST));
    cr_expect(eq(int, (int)expects[2].relation, PLEAT_SESSION_AT_LEAST));
    cr_expect(eq(u64, expects[2].line, 3));
    cr_assert(eq(u32, call->expect_errors.count, 2));
    cr_expect(eq(str, (char *)session->expect_errors[0].text, "Tried to  allocate {i}"));
    cr_expect(eq(u64, session->expect_errors[1].line, 5));
    pleat_session_destroy(session);
}

Test(session_case, repeats_are_unrolled)
{
    pleat_session_t *session = load("repeat 3\nalloc a{i} {10-3*i}MiB {i} *\n"
                                    " expect num_ooms={2*i*i+1}\nend_repeat\n expect num_ooms=5\n"
                                    "free a2\n");
    cr_assert(eq(u32, session->call_count, 4));
    for (uint32_t round = 0; round < 3; round++) {
        const pleat_session_call_t *call = &session->calls[round];
        char id[8];
        (void)snprintf(id, sizeof(id), "a%u", round);
        cr_expect(eq(str, (char *)session->ids[call->id], id));
        cr_expect(eq(u64, call->bytes, (UINT64_C(10) - UINT64_C(3) * round) << 20));
        cr_expect(eq(u64, call->stream, round));
        cr_expect(eq(u64, call->line, 2));
        cr_expect(eq(u32, call->expects.count, round == 2 ? 2 : 1));
        const pleat_session_expect_t *expect = &session->expects[call->expects.first];
        cr_expect(eq(i64, expect->value, 2 * round * round + 1));
        cr_expect(eq(u64, expect->line, 3));
    }
    cr_expect(eq(i64, session->expects[3].value, 5));
    cr_expect(eq(u32, session->calls[3].id, session->calls[2].id));
    cr_expect(eq(u64, session->stream_count, 3));
    pleat_session_destroy(session);
}

Test(session_case, an_id_may_be_used_again_after_its_free)
{
    pleat_session_t *session = load("repeat 2\nalloc a 1 0 *\nfree a\nend_repeat\n");
    cr_expect(eq(u32, session->id_count, 1));
    cr_expect(eq(u32, session->call_count, 4));
    pleat_session_destroy(session);
}

Test(session_case, sums_are_evaluated)
{
    static const struct {
        const char *line;
        uint64_t round;
        const char *expanded; /* NULL: an error */
    } rows[] = {
        {"free a{i}", 12, "free a12"},
        {"{i}{i} x", 3, "33 x"},
        {"{91+3*i}MiB", 4, "103MiB"},
        {"{256-3*i}", 40, "136"},
        {"{2*i+1}", 4, "9"},
        {"{1+2*3*i-1}", 2, "12"},
        {"{7}", 0, "7"},
        {"no braces }", 0, "no braces }"},
        {"set a{i}", 3, "set a{i}"},
        {" expect_error {", 3, " expect_error {"},
        {"{i", 1, NULL},
        {"{}", 1, NULL},
        {"{ i}", 1, NULL},
        {"{i+}", 1, NULL},
        {"{i/2}", 1, NULL},
        {"{j}", 1, NULL},
        {"{-1}", 1, NULL},
        {"{1-i}", 2, NULL},
        {"{9223372036854775808}", 1, NULL},
        {"{9223372036854775807+i}", 1, NULL},
        {"{9223372036854775807*i}", 2, NULL},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const pleat_input_line_t line = {
            .text = rows[i].line, .length = strlen(rows[i].line), .number = 1};
        const pleat_scan_t scan = pleat_scan_line("test", &line);
        char out[64];
        size_t length = 0;
        const pleat_status_t status =
            pleat_case_expand(&scan, rows[i].round, out, sizeof(out) - 1, &length);
        out[length] = '\0';
        if (rows[i].expanded == NULL) {
            cr_expect(status == PLEAT_ERR_FORMAT, "%s", rows[i].line);
        } else {
            cr_expect(status == PLEAT_OK, "%s", rows[i].line);
            cr_expect(eq(str, out, (char *)rows[i].expanded));
        }
    }
}

Test(session_case, wrong_repeats_are_explained)
{
    static const struct {
        const char *text;
        const char *error;
    } rows[] = {
        {"repeat\n", "test:1:7: number of rounds is missing"},
        {"repeat 0\n", "test:1:8: 0 rounds; 1 to 1000000 are possible"},
        {"repeat 1000001\n", "1000001 rounds; 1 to 1000000"},
        {"repeat 2 3\n", "test:1:10: unexpected '3'"},
        {"repeat 2\nsync\n", "test:1: this 'repeat' has no 'end_repeat' until the end of the file, "
                             "line 2"},
        {"repeat 2\nrepeat 3\n", "test:2:1: a repeat inside the one of line 1"},
        {"repeat 2\nend_repeat\n", "a repeat without lines between"},
        {"repeat 2\nsync\nend_repeat 2\n", "unexpected '2'"},
        {"sync\nend_repeat\n", "test:2:1: 'end_repeat' without 'repeat'"},
        {"repeat 2\nalloc a 1 0 *\nend_repeat\n", "test:2:7: id 'a' is still allocated"},
        {"repeat 3\nalloc a{i} {1-i}MiB 0 *\nend_repeat\n",
         "test:2:12: '{1-i}' is -1 in round 2; it must not be negative"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        pleat_session_t *session = NULL;
        cr_expect(eq(int, input_fixture_session(rows[i].text, strlen(rows[i].text), &session),
                     PLEAT_ERR_FORMAT));
        INPUT_FIXTURE_EXPECT_ERROR(rows[i].error);
    }
}
