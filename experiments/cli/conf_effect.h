/*
 * conf_effect: which keys of an ALLOC_CONF text act in which mode, so that a user who tries one in
 * a mode that does not know it is told so.
 */
#ifndef PLEAT_CLI_CONF_EFFECT_H
#define PLEAT_CLI_CONF_EFFECT_H

#include <pleat/conf.h>

/* What was announced already, over all texts of a call: a bit a mode. */
typedef struct pleat_cli_conf_effect {
    unsigned announced[PLEAT_CONF_OPTION_COUNT];
} pleat_cli_conf_effect_t;

/**
 * Say on standard error which keys of @p conf, set to something else than their default, do not act
 * in which of @p modes, a line a key; and that the modes were not chosen by the text, if it would
 * have chosen another. What @p effect has as announced is not said again.
 */
void pleat_cli_conf_announce(pleat_cli_conf_effect_t *effect, const pleat_conf_t *conf,
                             pleat_mode_t named, const pleat_mode_t *modes, size_t mode_count);

#endif
