/*
 * options: the range of every option, checked from the one list.
 */
#include "options.h"

#include <math.h>
#include <string.h>

static pleat_status_t option_check_uint64_t(const char *name, uint64_t value, uint64_t smallest,
                                            uint64_t largest)
{
    if (value >= smallest && value <= largest) {
        return PLEAT_OK;
    }
    pleat_error_set("option %s is %llu; allowed is %llu to %llu", name, (unsigned long long)value,
                    (unsigned long long)smallest, (unsigned long long)largest);
    return PLEAT_ERR_INVALID;
}

static pleat_status_t option_check_double(const char *name, double value, double smallest,
                                          double largest)
{
    if (!isnan(value) && value >= smallest && value <= largest) {
        return PLEAT_OK;
    }
    pleat_error_set("option %s is %g; allowed is %g to %g", name, value, smallest, largest);
    return PLEAT_ERR_INVALID;
}

const char *pleat_mode_name(pleat_mode_t mode)
{
    static const char *const names[] = {
#define MODE_NAME(name, text) [PLEAT_MODE_##name] = (text),
        PLEAT_MODE_LIST(MODE_NAME)
#undef MODE_NAME
    };
    return (unsigned)mode < PLEAT_MODE_COUNT ? names[mode] : "unknown";
}

static pleat_status_t option_check_pleat_mode_t(const char *name, pleat_mode_t mode,
                                                pleat_mode_t smallest, unsigned largest)
{
    (void)smallest;
    if ((unsigned)mode <= largest) {
        return PLEAT_OK;
    }
    pleat_error_set("option %s is %u; allowed is 0 to %u", name, (unsigned)mode, largest);
    return PLEAT_ERR_INVALID;
}

static pleat_status_t options_check_roundup(const pleat_options_t *options)
{
    for (unsigned i = 0; i < PLEAT_ROUNDUP_ENTRIES; i++) {
        const uint64_t divisions = options->roundup_power2_divisions[i];
        if (divisions != 0 && !pleat_is_power_of_two(divisions)) {
            pleat_error_set("option roundup_power2_divisions[%u] is %llu; allowed is 0 or a power "
                            "of two",
                            i, (unsigned long long)divisions);
            return PLEAT_ERR_INVALID;
        }
    }
    return PLEAT_OK;
}

static pleat_status_t options_check(const pleat_options_t *options)
{
    pleat_status_t status = PLEAT_OK;
#define CHECK_OPTION(name, type, initial, smallest, largest, unit, help)           \
    if (status == PLEAT_OK) {                                                      \
        status = option_check_##type(#name, options->name, (smallest), (largest)); \
    }
    PLEAT_OPTION_LIST(CHECK_OPTION)
#undef CHECK_OPTION
    if (status != PLEAT_OK) {
        return status;
    }
    if (options->large_segment_bytes % 512 != 0) {
        pleat_error_set("option large_segment_bytes is %llu; allowed are multiples of 512",
                        (unsigned long long)options->large_segment_bytes);
        return PLEAT_ERR_INVALID;
    }
    return options_check_roundup(options);
}

pleat_status_t pleat_options_read(const pleat_options_t *given, pleat_options_t *options_out)
{
    pleat_options_t options = PLEAT_OPTIONS_INIT;
    if (given != NULL) {
        if (given->size < sizeof(given->size)) {
            pleat_error_set("options have no size; start them with PLEAT_OPTIONS_INIT");
            return PLEAT_ERR_INVALID;
        }
        const size_t known = given->size < sizeof(options) ? given->size : sizeof(options);
        memcpy(&options, given, known);
        options.size = sizeof(options);
    }
    const pleat_status_t status = options_check(&options);
    if (status == PLEAT_OK) {
        *options_out = options;
    }
    return status;
}

void pleat_options_write(const pleat_options_t *options, pleat_options_t *target)
{
    const size_t size = target->size;
    memcpy(target, options, size < sizeof(*options) ? size : sizeof(*options));
    target->size = size;
}
