/*
 * criterion_leaks: leak detection of a Criterion program under the address sanitizer.
 *
 * Criterion runs each test in a process of its own, which its process library marks by a variable
 * in the environment. The process that starts them sometimes ends with a few bytes of Criterion's
 * own still allocated; a leak counts only in the processes of the tests.
 */
#include <stdlib.h>

int __lsan_is_turned_off(void);

int __lsan_is_turned_off(void)
{
    return getenv("BXFI_MAP") == NULL;
}
