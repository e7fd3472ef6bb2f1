/*
 * conf (internal): the table of options behind both readings (conf_strict.h, conf_torch.h), and
 * what they share: finding keys and words, setting values, the rules of the round-up list.
 *
 * Both readings change a pleat_conf_t of full size that belongs to the caller in conf.c; conf.c
 * decides what of it reaches the user. They fill a report of full size that is never NULL.
 */
#ifndef PLEAT_INTERNAL_CONF_H
#define PLEAT_INTERNAL_CONF_H

#include "text.h"

#include <pleat/conf.h>

#define PLEAT_CONF_ROUNDUP_LAST (PLEAT_ROUNDUP_ENTRIES - 1)

typedef struct pleat_conf_key {
    const char *key;
    const char *second_key;
    const char *value_name;
    pleat_conf_parser_t parser;
    pleat_conf_type_t type;
    pleat_conf_bounds_t bounds;
    uint64_t initial_number;
    double initial_real;
    uint64_t smallest;
    uint64_t largest;
    const char *words;
    bool in_effect;
    const char *help;
} pleat_conf_key_t;

extern const pleat_conf_key_t pleat_conf_keys[PLEAT_CONF_OPTION_COUNT];

/* Name of a variable or another source, "unknown" outside the list. */
const char *pleat_conf_source_text(pleat_conf_source_t source);

/* Option of a key that need not end with a null byte; PLEAT_CONF_OPTION_COUNT: none. */
pleat_conf_option_t pleat_conf_find_bytes(const char *bytes, size_t byte_count);

/* Position of a word among the option's words; false: it is none of them. */
bool pleat_conf_find_word(pleat_conf_option_t option, const char *bytes, size_t byte_count,
                          uint64_t *number_out);

/* Append the option's word at a position. */
void pleat_conf_append_word(pleat_text_t *text, pleat_conf_option_t option, uint64_t number);

/* Append what may stand as the option's value, for a large segment size of segment_mb. */
void pleat_conf_append_allowed(pleat_text_t *text, pleat_conf_option_t option, uint64_t segment_mb);

void pleat_conf_set_number(pleat_conf_t *conf, pleat_conf_option_t option, uint64_t number,
                           pleat_conf_source_t source);
void pleat_conf_set_real(pleat_conf_t *conf, pleat_conf_option_t option, double real,
                         pleat_conf_source_t source);

/* Back to the default, and to the source that says so. */
void pleat_conf_reset(pleat_conf_t *conf, pleat_conf_option_t option);

/* A round-up list while it is read from left to right. */
typedef struct pleat_conf_list {
    uint64_t *table; /* PLEAT_ROUNDUP_ENTRIES numbers */
    bool has_number; /* an interval with a number came already */
    size_t last_index;
    uint32_t covered; /* bit k: entry k was set */
} pleat_conf_list_t;

/* Apply `interval:divisions`; the interval is a power of two in MB. */
void pleat_conf_list_interval(pleat_conf_list_t *list, uint64_t interval_mb, uint64_t divisions);

/* Apply `>:divisions`: all entries above the last interval. */
void pleat_conf_list_rest(pleat_conf_list_t *list, uint64_t divisions);

#endif
