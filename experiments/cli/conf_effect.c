/*
 * conf_effect: what is said of keys and modes (pleat_conf_acts). A test replays with each key in
 * each mode and looks whether it is right (tests/cli/check, section effect).
 */
#include "conf_effect.h"
#include "report.h"

#include <stdio.h>
#include <string.h>

enum {
    IN_ALL = 1u << PLEAT_MODE_CLASSIC | 1u << PLEAT_MODE_TORCH_EXPANDABLE | 1u << PLEAT_MODE_PLEATED
};

static void pleat_cli_conf_announce_key(pleat_cli_conf_effect_t *effect, const char *key,
                                        pleat_conf_option_t option, const pleat_mode_t *modes,
                                        size_t mode_count)
{
    char text[128] = "";

    for (size_t i = 0; i < mode_count; i++) {
        if (pleat_conf_acts(option, modes[i]) ||
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
