/*
 * Tests of base: statuses, the error of a thread, assertions, checked arithmetic.
 */
#include "vmm/base.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

Test(base, every_status_has_its_text, .timeout = 10)
{
#define CHECK_TEXT(name, value, text)                                  \
    cr_expect(eq(str, (char *)pleat_status_text(PLEAT_##name), text)); \
    cr_expect(eq(int, (int)PLEAT_##name, (value)));
    PLEAT_STATUS_LIST(CHECK_TEXT)
#undef CHECK_TEXT
}

Test(base, a_status_outside_the_list_is_unknown, .timeout = 10)
{
    cr_expect(eq(str, (char *)pleat_status_text((pleat_status_t)77), "unknown status"));
    cr_expect(eq(str, (char *)pleat_status_text((pleat_status_t)-99), "unknown status"));
}

Test(base, version_is_made_of_its_numbers, .timeout = 10)
{
    char text[32];
    (void)snprintf(text, sizeof text, "%d.%d.%d", PLEAT_VERSION_MAJOR, PLEAT_VERSION_MINOR,
                   PLEAT_VERSION_PATCH);
    cr_expect(eq(str, (char *)pleat_version(), text));
}

Test(base, error_is_empty_before_the_first_failure, .timeout = 10)
{
    cr_expect(eq(str, (char *)pleat_last_error(), ""));
}

Test(base, error_keeps_the_last_text, .timeout = 10)
{
    pleat_error_set("first %d", 1);
    pleat_error_set("second %s", "two");
    cr_expect(eq(str, (char *)pleat_last_error(), "second two"));
}

Test(base, error_may_quote_the_error_before, .timeout = 10)
{
    pleat_error_set("disk is full");
    pleat_error_set("line 3: %s", pleat_last_error());
    cr_expect(eq(str, (char *)pleat_last_error(), "line 3: disk is full"));
}

Test(base, error_is_cut_at_1023_bytes, .timeout = 10)
{
    char text[2001];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    pleat_error_set("%s", text);
    cr_expect(eq(sz, strlen(pleat_last_error()), (size_t)1023));
}

static void *fail_in_a_thread(void *seen)
{
    *(bool *)seen = pleat_last_error()[0] == '\0';
    pleat_error_set("of the thread");
    return NULL;
}

Test(base, error_belongs_to_its_thread, .timeout = 10)
{
    bool was_empty = false;
    pthread_t thread;
    pleat_error_set("of the test");
    cr_assert(eq(int, pthread_create(&thread, NULL, fail_in_a_thread, &was_empty), 0));
    cr_assert(eq(int, pthread_join(thread, NULL), 0));
    cr_expect(was_empty);
    cr_expect(eq(str, (char *)pleat_last_error(), "of the test"));
}

Test(base, failed_assertion_aborts, .timeout = 10, .signal = SIGABRT)
{
    pleat_assert_failed("1 == 2", "somewhere.c", 3);
}

Test(base, checked_arithmetic_refuses_to_wrap, .timeout = 10)
{
    uint64_t value = 7;
    cr_expect(not(pleat_add_checked(UINT64_MAX, 1, &value)));
    cr_expect(not(pleat_multiply_checked(UINT64_MAX, 2, &value)));
    cr_expect(eq(u64, value, 7));
    cr_expect(pleat_add_checked(UINT64_MAX - 1, 1, &value));
    cr_expect(eq(u64, value, UINT64_MAX));
    cr_expect(pleat_multiply_checked(UINT64_C(1) << 32, UINT64_C(1) << 31, &value));
    cr_expect(eq(u64, value, UINT64_C(1) << 63));
}

Test(base, alignment_and_rounding, .timeout = 10)
{
    cr_expect(eq(u64, pleat_align_up(513, 512), 1024));
    cr_expect(eq(u64, pleat_align_up(512, 512), 512));
    cr_expect(eq(u64, pleat_align_down(1023, 512), 512));
    cr_expect(eq(u64, pleat_round_up(21, 10), 30));
    cr_expect(eq(u64, pleat_round_up(30, 10), 30));
    cr_expect(eq(int, (int)pleat_log2_floor(1), 0));
    cr_expect(eq(int, (int)pleat_log2_floor(UINT64_MAX), 63));
    cr_expect(pleat_is_power_of_two(64));
    cr_expect(not(pleat_is_power_of_two(65)));
    cr_expect(not(pleat_is_power_of_two(0)));
}

static void *read_native_error(void *unused)
{
    (void)unused;
    static int code;
    code = pleat_last_native_error();
    return &code;
}

Test(base, native_error_belongs_to_its_thread, .timeout = 10)
{
    pthread_t thread;
    void *code = NULL;
    cr_expect(eq(int, pleat_last_native_error(), 0));
    pleat_native_error_set(719);
    cr_expect(eq(int, pleat_last_native_error(), 719));
    cr_assert(eq(int, pthread_create(&thread, NULL, read_native_error, NULL), 0));
    cr_assert(eq(int, pthread_join(thread, &code), 0));
    cr_expect(eq(int, *(int *)code, 0));
}
