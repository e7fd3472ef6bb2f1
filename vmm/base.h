/*
 * base (internal): assertion tiers, checked arithmetic, alignment, and the thread's error text.
 *
 * PLEAT_ASSERT is constant-time and on unless PLEAT_CHECKS is off; PLEAT_ASSERT_SLOW may walk a
 * structure and is on in the full check build. Neither ever guards a user's input: that gets a
 * status.
 */
#ifndef PLEAT_INTERNAL_BASE_H
#define PLEAT_INTERNAL_BASE_H

#include <pleat/base.h>

#define PLEAT_CHECKS_OFF 0
#define PLEAT_CHECKS_FAST 1
#define PLEAT_CHECKS_FULL 2

#ifndef PLEAT_CHECKS
#define PLEAT_CHECKS PLEAT_CHECKS_FAST
#endif

/* Prints the condition and its place, then aborts. */
_Noreturn void pleat_assert_failed(const char *condition, const char *file, int line);

#if PLEAT_CHECKS >= PLEAT_CHECKS_FAST
#define PLEAT_ASSERT(condition)                                  \
    do {                                                         \
        if (__builtin_expect(!(condition), 0)) {                 \
            pleat_assert_failed(#condition, __FILE__, __LINE__); \
        }                                                        \
    } while (0)
#else
#define PLEAT_ASSERT(condition) ((void)sizeof(condition))
#endif

#if PLEAT_CHECKS >= PLEAT_CHECKS_FULL
#define PLEAT_ASSERT_SLOW(condition) PLEAT_ASSERT(condition)
#else
#define PLEAT_ASSERT_SLOW(condition) ((void)sizeof(condition))
#endif

#define PLEAT_KIB UINT64_C(1024)
#define PLEAT_MIB (UINT64_C(1024) * PLEAT_KIB)
#define PLEAT_GIB (UINT64_C(1024) * PLEAT_MIB)

/* Set the calling thread's error text (pleat_last_error). Truncates at 1023 bytes. */
void pleat_error_set(const char *format, ...) PLEAT_PRINTF(1, 2);

/* Set the calling thread's code of the device's own driver (pleat_last_native_error). */
void pleat_native_error_set(int code);

/* Sum or product, false when it does not fit; *out is untouched then. */
static inline bool pleat_add_checked(uint64_t a, uint64_t b, uint64_t *out)
{
    uint64_t sum = 0;
    if (__builtin_add_overflow(a, b, &sum)) {
        return false;
    }
    *out = sum;
    return true;
}

static inline bool pleat_multiply_checked(uint64_t a, uint64_t b, uint64_t *out)
{
    uint64_t product = 0;
    if (__builtin_mul_overflow(a, b, &product)) {
        return false;
    }
    *out = product;
    return true;
}

/* alignment must be a power of two. */
static inline uint64_t pleat_align_down(uint64_t value, uint64_t alignment)
{
    return value & ~(alignment - 1);
}

/* alignment must be a power of two and value + alignment - 1 must fit: bound value first. */
static inline uint64_t pleat_align_up(uint64_t value, uint64_t alignment)
{
    PLEAT_ASSERT(value <= UINT64_MAX - (alignment - 1));
    return (value + alignment - 1) & ~(alignment - 1);
}

/* Round up to a multiple of any unit > 0; the result must fit. */
static inline uint64_t pleat_round_up(uint64_t value, uint64_t unit)
{
    const uint64_t rest = value % unit;
    return rest == 0 ? value : value + (unit - rest);
}

/* Floor of the base-2 logarithm of a value > 0. */
static inline unsigned pleat_log2_floor(uint64_t value)
{
    PLEAT_ASSERT(value > 0);
    return 63u - (unsigned)__builtin_clzll(value);
}

static inline bool pleat_is_power_of_two(uint64_t value)
{
    return value != 0 && (value & (value - 1)) == 0;
}

#endif
