/*
 * options (internal): checks of the option table, and what its values mean together.
 */
#ifndef PLEAT_OPTIONS_INTERNAL_H
#define PLEAT_OPTIONS_INTERNAL_H

#include <pleat/options.h>

#include "../vmm/base.h"

/*
 * Copy @p given over the defaults, as far as its size goes, and check every value.
 * ERR_INVALID: an option out of range; the error text names it, its value and its range;
 * @p options_out is untouched. Constant.
 */
PLEAT_NODISCARD pleat_status_t pleat_options_read(const pleat_options_t *given,
                                                  pleat_options_t *options_out);

/* Copy @p options to @p target as far as the target's size goes. */
void pleat_options_write(const pleat_options_t *options, pleat_options_t *target);

/* max_non_split_rounding_bytes, its default resolved. */
static inline uint64_t pleat_options_rounding_bytes(const pleat_options_t *options)
{
    return options->max_non_split_rounding_bytes != 0 ? options->max_non_split_rounding_bytes
                                                      : options->large_segment_bytes;
}

static inline bool pleat_options_has_limit(const pleat_options_t *options)
{
    return options->limit_bytes != PLEAT_NO_LIMIT;
}

/* Garbage collection needs a limit to measure against. */
static inline bool pleat_options_collects_garbage(const pleat_options_t *options)
{
    return pleat_options_has_limit(options) && options->garbage_collection_threshold > 0.0;
}

#endif
