/*
 * conf_distance: edit distance from a word to every known key (conf_distance.h). No state, no lock.
 */
#include "conf_distance.h"

#include "conf.h"

#include <string.h>

enum { MOST_EDITS = 5, KEY_BYTES = 64, WORD_BYTES = KEY_BYTES + MOST_EDITS };

static char distance_lower(char character)
{
    static const char upper[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    static const char lower[] = "abcdefghijklmnopqrstuvwxyz";
    const char *found = character != '\0' ? strchr(upper, character) : NULL;
    if (found != NULL) {
        return lower[found - upper];
    }
    return character;
}

static size_t distance_smallest(size_t a, size_t b, size_t c)
{
    const size_t ab = a < b ? a : b;
    return ab < c ? ab : c;
}

/* Insertions, deletions and replacements between two words. */
static size_t distance_edits(const char *word, size_t word_length, const char *key)
{
    const size_t key_length = strlen(key);
    size_t row[KEY_BYTES + 1];
    for (size_t j = 0; j <= key_length; j++) {
        row[j] = j;
    }
    for (size_t i = 1; i <= word_length; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= key_length; j++) {
            const bool is_equal = distance_lower(word[i - 1]) == distance_lower(key[j - 1]);
            const size_t edits =
                distance_smallest(row[j] + 1, row[j - 1] + 1, diagonal + (is_equal ? 0 : 1));
            diagonal = row[j];
            row[j] = edits;
        }
    }
    return row[key_length];
}

const char *pleat_conf_nearest_key(const char *bytes, size_t byte_count)
{
    const char *nearest = NULL;
    /* 0.45 of the length, in whole numbers. */
    size_t limit = byte_count * 45 / 100;
    limit = limit < MOST_EDITS ? limit : MOST_EDITS;
    if (byte_count > WORD_BYTES) {
        return NULL;
    }
    for (size_t option = 0; option < PLEAT_CONF_OPTION_COUNT; option++) {
        const char *names[] = {pleat_conf_keys[option].key, pleat_conf_keys[option].second_key};
        for (size_t i = 0; i < 2; i++) {
            const size_t length = strlen(names[i]);
            if (length == 0 || length > KEY_BYTES) {
                continue;
            }
            const size_t edits = distance_edits(bytes, byte_count, names[i]);
            if (edits < limit || (edits == limit && nearest == NULL)) {
                nearest = names[i];
                limit = edits;
            }
        }
    }
    return nearest;
}
