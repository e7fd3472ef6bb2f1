/*
 * conf_effect: the table of keys and modes. A test replays with each key in each mode and looks
 * whether it is right (tests/cli/check, section effect).
 */
#include "conf_effect.h"
#include "report.h"

#include <stdio.h>
#include <string.h>

enum {
    IN_CLASSIC = 1u << PLEAT_MODE_CLASSIC,
    IN_TORCH = 1u << PLEAT_MODE_TORCH_EXPANDABLE,
    IN_PLEATED = 1u << PLEAT_MODE_PLEATED,
    IN_ALL = IN_CLASSIC | IN_TORCH | IN_PLEATED
};

static unsigned pleat_cli_conf_modes(pleat_conf_option_t option)
{
    switch (option) {
    case PLEAT_CONF_LARGE_SEGMENT_SIZE: /* of a segment, or of a page */
    case PLEAT_CONF_MAX_SPLIT_SIZE:
    case PLEAT_CONF_MAX_NON_SPLIT_ROUNDING:
        return IN_CLASSIC | IN_TORCH;
    case PLEAT_CONF_GARBAGE_COLLECTION_THRESHOLD: /* PyTorch collects plain segments only */
        return IN_CLASSIC;
    case PLEAT_CONF_PLEATED_SLACK:
    case PLEAT_CONF_PLEATED_HANDLE_FRACTION:
    case PLEAT_CONF_PLEATED_HANDLE_MIN:
    case PLEAT_CONF_PLEATED_HANDLE_MAX:
    case PLEAT_CONF_PLEATED_VIEW_MAPPINGS:
    case PLEAT_CONF_PLEATED_IDLE_MS:
        return IN_PLEATED;
    case PLEAT_CONF_ROUNDUP_POWER2_DIVISIONS:
    case PLEAT_CONF_PER_PROCESS_MEMORY_FRACTION:
    case PLEAT_CONF_EXPANDABLE_SEGMENTS: /* these two choose the mode */
    case PLEAT_CONF_EXPANDABLE_POLICY:
    case PLEAT_CONF_PINNED_USE_BACKGROUND_THREADS: /* from here on pleat_conf_notice speaks */
    case PLEAT_CONF_BACKEND:
    case PLEAT_CONF_RELEASE_LOCK_ON_CUDAMALLOC:
    case PLEAT_CONF_GRAPH_CAPTURE_RECORD_STREAM_REUSE:
    case PLEAT_CONF_PINNED_USE_CUDA_HOST_REGISTER:
    case PLEAT_CONF_PINNED_NUM_REGISTER_THREADS:
    case PLEAT_CONF_PINNED_RESERVE_SEGMENT_SIZE:
    case PLEAT_CONF_OPTION_COUNT:
        break;
    }
    return IN_ALL;
}

bool pleat_cli_conf_acts(pleat_conf_option_t option, pleat_mode_t mode)
{
    return (pleat_cli_conf_modes(option) & (1u << mode)) != 0;
}

static void pleat_cli_conf_announce_key(pleat_cli_conf_effect_t *effect, const char *key,
                                        pleat_conf_option_t option, const pleat_mode_t *modes,
                                        size_t mode_count)
{
    char text[128] = "";

    for (size_t i = 0; i < mode_count; i++) {
        if (pleat_cli_conf_acts(option, modes[i]) ||
            (effect->announced[option] & (1u << modes[i])) != 0) {
            continue;
        }
        const size_t length = strlen(text);
        (void)snprintf(text + length, sizeof(text) - length, "%s%s", length > 0 ? ", " : "",
                       pleat_mode_name(modes[i]));
        effect->announced[option] |= 1u << modes[i];
    }
    if (text[0] != '\0') {
        pleat_cli_warn("%s has no effect in %s", key, text);
    }
}

static void pleat_cli_conf_announce_mode(pleat_cli_conf_effect_t *effect, const pleat_conf_t *conf,
                                         pleat_mode_t named, const pleat_mode_t *modes,
                                         size_t mode_count)
{
    const bool is_named =
        conf->settings[PLEAT_CONF_EXPANDABLE_SEGMENTS].source != PLEAT_CONF_SOURCE_DEFAULT ||
        conf->settings[PLEAT_CONF_EXPANDABLE_POLICY].source != PLEAT_CONF_SOURCE_DEFAULT;

    if (is_named && !(mode_count == 1 && modes[0] == named) &&
        effect->announced[PLEAT_CONF_EXPANDABLE_SEGMENTS] == 0) {
        effect->announced[PLEAT_CONF_EXPANDABLE_SEGMENTS] = IN_ALL;
        pleat_cli_warn("expandable_segments and expandable_policy choose no mode here: %s",
                       mode_count == 1 ? "--mode does"
                                       : "every setting is replayed in every mode of --modes");
    }
}

void pleat_cli_conf_announce(pleat_cli_conf_effect_t *effect, const pleat_conf_t *conf,
                             pleat_mode_t named, const pleat_mode_t *modes, size_t mode_count)
{
    for (unsigned i = 0; i < PLEAT_CONF_OPTION_COUNT; i++) {
        pleat_conf_description_t description = PLEAT_CONF_DESCRIPTION_INIT;
        const pleat_conf_option_t option = (pleat_conf_option_t)i;

        if (pleat_conf_describe(conf, option, &description) == PLEAT_OK &&
            !description.is_default) {
            pleat_cli_conf_announce_key(effect, description.key, option, modes, mode_count);
        }
    }
    pleat_cli_conf_announce_mode(effect, conf, named, modes, mode_count);
}
