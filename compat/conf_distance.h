/*
 * conf_distance (internal): the known key that somebody may have meant.
 */
#ifndef PLEAT_INTERNAL_CONF_DISTANCE_H
#define PLEAT_INTERNAL_CONF_DISTANCE_H

#include <stddef.h>

/*
 * The known key, first or second name, with the smallest edit distance to a word, capitals ignored;
 * NULL when even that is above 5 or above 0.45 of the word's length.
 */
const char *pleat_conf_nearest_key(const char *bytes, size_t byte_count);

#endif
