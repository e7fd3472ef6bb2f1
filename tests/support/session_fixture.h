/*
 * session_fixture: sessions that are performed and compared, for Criterion tests of the parts of
 * session_check.
 */
#ifndef PLEAT_TEST_SESSION_FIXTURE_H
#define PLEAT_TEST_SESSION_FIXTURE_H

#include "session_check.h"

#include "input_fixture.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>

#define SESSION_FIXTURE_SHOWN 4

typedef struct checked {
    pleat_session_t *session;
    pleat_session_difference_t differences[SESSION_FIXTURE_SHOWN];
    pleat_session_check_t check;
} checked_t;

static inline checked_t load(const char *name)
{
    checked_t checked = {0};
    char path[512];
    (void)snprintf(path, sizeof(path), "%s/%s", PLEAT_TEST_DATA, name);
    cr_assert(eq(int, pleat_session_load(path, &checked.session), PLEAT_OK), "%s: %s", path,
              pleat_last_error());
    return checked;
}

static inline checked_t load_text(const char *text)
{
    checked_t checked = {0};
    cr_assert(eq(int, input_fixture_session(text, strlen(text), &checked.session), PLEAT_OK), "%s",
              pleat_last_error());
    return checked;
}

static inline void run_in(checked_t *checked, unsigned mode)
{
    checked->check.difference_capacity = SESSION_FIXTURE_SHOWN;
    checked->check.differences = checked->differences;
    cr_assert(eq(int, pleat_session_check_run(checked->session, mode, &checked->check), PLEAT_OK),
              "%s", pleat_last_error());
}

static inline void run(checked_t *checked)
{
    run_in(checked, 0);
}

/* In a mode, or 0; a mode that the session is not for is left out. */
static inline void expect_equal_in(const char *name, unsigned mode)
{
    checked_t checked = load(name);
    if (mode != 0 && (pleat_session_modes(checked.session) & mode) == 0) {
        pleat_session_destroy(checked.session);
        return;
    }
    run_in(&checked, mode);
    cr_expect(eq(sz, checked.check.difference_count, 0), "%s line %llu: %s: expected %s, got %s",
              name, (unsigned long long)checked.differences[0].line, checked.differences[0].what,
              checked.differences[0].expected, checked.differences[0].got);
    cr_expect(eq(str, checked.check.skipped, ""), "%s", name);
    cr_expect(lt(u64, 0, checked.check.call_count), "%s", name);
    pleat_session_destroy(checked.session);
}

static inline void expect_equal(const char *name)
{
    expect_equal_in(name, 0);
}

/* Run a changed session: the first difference stands at @p line and is about @p what. */
static inline void expect_difference(checked_t *checked, uint64_t line, const char *what)
{
    run(checked);
    cr_assert(lt(sz, 0, checked->check.difference_count), "%s went unnoticed", what);
    cr_expect(eq(u64, checked->differences[0].line, line), "%s", what);
    cr_expect(eq(str, checked->differences[0].what, (char *)what));
    pleat_session_destroy(checked->session);
}

#endif
