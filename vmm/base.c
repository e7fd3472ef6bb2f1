/*
 * base: texts of statuses, the version, failed assertions, and the error text and native code of
 * each thread (vmm/base.h, pleat/base.h).
 *
 * The error text lives in thread-local storage of fixed size, so setting it cannot fail and works
 * when host memory is gone. No lock: every thread sees only its own.
 */
#include "base.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ERROR_BYTES 1024

static _Thread_local char thread_error[ERROR_BYTES];
static _Thread_local int thread_native_error;

const char *pleat_status_text(pleat_status_t status)
{
    switch (status) {
#define STATUS_CASE(name, value, text) \
    case PLEAT_##name:                 \
        return text;
        PLEAT_STATUS_LIST(STATUS_CASE)
#undef STATUS_CASE
    }
    return "unknown status";
}

const char *pleat_last_error(void)
{
    return thread_error;
}

int pleat_last_native_error(void)
{
    return thread_native_error;
}

void pleat_native_error_set(int code)
{
    thread_native_error = code;
}

const char *pleat_version(void)
{
    return PLEAT_VERSION_STRING;
}

void pleat_error_set(const char *format, ...)
{
    /* Formatted aside, because an argument may be the old text (a caller that adds its context). */
    char text[ERROR_BYTES];
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length < 0) {
        text[0] = '\0';
    }
    memcpy(thread_error, text, strlen(text) + 1);
}

_Noreturn void pleat_assert_failed(const char *condition, const char *file, int line)
{
    (void)fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, condition);
    abort();
}
