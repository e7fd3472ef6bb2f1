/*
 * pleated_cost: weights and rules.
 */
#include "pleated_cost.h"

#include "options.h"

/* A request is served by at most twice this many new handles, and by few that are large: each costs
 * about the same up to 256 MiB, but a large one is broken by a small live block. */
#define HANDLES_PER_REQUEST 16u

/* Memory only grows while less than this share of what is in use lies free. */
#define GROWING_SHARE 0.005

/* Where more is held than the peak asks for, at least this share of it comes at once: the next one
 * is likely to come soon. */
#define EXCESS_SHARE 0.002

/* Near the peak a stitch must use up this many more bytes of free ends. */
#define TIGHT_GAIN_SHARE 0.0025
#define TIGHT_GAIN_BYTES (16 * PLEAT_MIB)

/* Weights of a stitch: one mapping costs 1, and so does a quarter of the request lost between live
 * data, or half of it taken from whole handles. */
#define WEIGHT_LOST 4.0
#define WEIGHT_WHOLE 2.0

/* Near the peak: one mapping is worth this many bytes of free ends. */
#define TIGHT_MAP_BYTES (4.0 * (double)PLEAT_MIB)

/* Near the peak: from nine tenths of it on, for requests of this size or more. */
#define TIGHT_SHARE 0.9
#define TIGHT_REQUEST_BYTES (16 * PLEAT_MIB)

/* A training loop has the views that it needs after the peak was mapped once or twice more. Where
 * it was mapped four times over, each view costs driver time and is not used again: from then on a
 * sixteenth of what views map is held beyond the slack, up to a share of the peak. */
#define CHURN_PEAKS 4u
#define CHURN_HOLD_SHARE (1.0 / 16.0)
#define CHURN_HOLD_MOST 0.3

/* Bytes that were mapped in new views beyond what settles. */
static uint64_t cost_churn_bytes(uint64_t peak_bytes, uint64_t viewed_bytes)
{
    const uint64_t settled_bytes =
        peak_bytes < UINT64_MAX / CHURN_PEAKS ? CHURN_PEAKS * peak_bytes : UINT64_MAX;
    return viewed_bytes > settled_bytes ? viewed_bytes - settled_bytes : 0;
}

uint64_t pleat_cost_hold_bytes(const pleat_options_t *options, uint64_t peak_bytes,
                               uint64_t viewed_bytes)
{
    if (options->pleated_slack >= 1.0) {
        return options->limit_bytes; /* hold as much as the device has */
    }
    const double churn = (double)cost_churn_bytes(peak_bytes, viewed_bytes) * CHURN_HOLD_SHARE;
    const double most_churn = (double)peak_bytes * CHURN_HOLD_MOST;
    const double slack =
        options->pleated_slack * (double)peak_bytes + (churn < most_churn ? churn : most_churn);
    uint64_t bytes = 0;
    if (!pleat_add_checked(peak_bytes, (uint64_t)slack, &bytes)) {
        bytes = UINT64_MAX;
    }
    return bytes < options->limit_bytes ? bytes : options->limit_bytes;
}

uint64_t pleat_cost_growth_bytes(const pleat_options_t *options, uint64_t needed_bytes,
                                 uint64_t live_bytes, uint64_t held_bytes, uint64_t peak_bytes,
                                 uint64_t granularity_bytes)
{
    const double spare_bytes = (double)held_bytes + (double)needed_bytes - (double)live_bytes;
    const bool only_grows =
        live_bytes >= peak_bytes && spare_bytes <= GROWING_SHARE * (double)live_bytes;
    const uint64_t share_bytes = (uint64_t)(GROWING_SHARE * (double)peak_bytes);
    uint64_t handle_bytes = pleat_cost_handle_bytes(options, peak_bytes, 0, 1);
    handle_bytes = handle_bytes < share_bytes ? handle_bytes : share_bytes;
    handle_bytes = pleat_round_up(handle_bytes, granularity_bytes);
    return only_grows && handle_bytes > needed_bytes &&
                   held_bytes + handle_bytes <= options->limit_bytes
               ? handle_bytes
               : needed_bytes;
}

uint64_t pleat_cost_excess_bytes(const pleat_options_t *options, uint64_t needed_bytes,
                                 uint64_t held_bytes, uint64_t peak_bytes,
                                 uint64_t granularity_bytes)
{
    const uint64_t quantum =
        pleat_align_down((uint64_t)(EXCESS_SHARE * (double)peak_bytes), granularity_bytes);
    return quantum > needed_bytes && held_bytes + quantum <= options->limit_bytes ? quantum
                                                                                  : needed_bytes;
}

uint64_t pleat_cost_factor_bytes(const pleat_options_t *options, uint64_t needed_bytes,
                                 uint64_t held_bytes, uint64_t room_bytes, uint64_t handle_bytes)
{
    const double wanted = (options->pleated_growth_factor - 1.0) * (double)held_bytes;
    if (wanted < 1.0 || needed_bytes > room_bytes) {
        return 0;
    }
    uint64_t bytes = wanted < (double)room_bytes ? (uint64_t)wanted : room_bytes;
    bytes = pleat_round_up(bytes, handle_bytes);
    bytes = bytes <= room_bytes ? bytes : room_bytes;
    return bytes > needed_bytes ? bytes : needed_bytes;
}

uint64_t pleat_cost_tight_gain_bytes(uint64_t peak_bytes)
{
    const uint64_t share_bytes = (uint64_t)(TIGHT_GAIN_SHARE * (double)peak_bytes);
    return share_bytes > TIGHT_GAIN_BYTES ? share_bytes : TIGHT_GAIN_BYTES;
}

uint64_t pleat_cost_handle_bytes(const pleat_options_t *options, uint64_t peak_bytes,
                                 uint64_t bytes, uint64_t granularity_bytes)
{
    const double wanted = options->pleated_handle_fraction * (double)peak_bytes;
    uint64_t handle_bytes = options->pleated_handle_min_bytes;
    while (handle_bytes * 2 <= options->pleated_handle_max_bytes &&
           (double)handle_bytes * 2 <= wanted) {
        handle_bytes *= 2;
    }
    while (handle_bytes * 2 <= bytes / HANDLES_PER_REQUEST) {
        handle_bytes *= 2;
    }
    return pleat_round_up(handle_bytes, granularity_bytes);
}

double pleat_cost_of_stitch(const pleat_cost_stitch_t *stitch)
{
    const double bytes = (double)stitch->bytes;
    return (double)stitch->map_count + WEIGHT_LOST * (double)stitch->lost_bytes / bytes +
           WEIGHT_WHOLE * (double)stitch->whole_bytes / bytes;
}

double pleat_cost_of_tight_stitch(const pleat_cost_stitch_t *stitch)
{
    return (double)stitch->map_count * TIGHT_MAP_BYTES + (double)stitch->lost_bytes -
           (double)stitch->partial_bytes;
}

bool pleat_cost_is_tight(uint64_t bytes, uint64_t live_bytes, uint64_t peak_bytes,
                         uint64_t viewed_bytes)
{
    return bytes >= TIGHT_REQUEST_BYTES && (double)live_bytes > TIGHT_SHARE * (double)peak_bytes &&
           cost_churn_bytes(peak_bytes, viewed_bytes) == 0;
}
