/*
 * near_name: Levenshtein distance, one row of the table at a time.
 */
#include "near_name.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

enum { NAME_BYTES_MAX = 64, TYPING_ERROR_BYTES_MAX = 40 };

size_t pleat_near_name_distance(const char *word, size_t word_length, const char *name)
{
    size_t row[NAME_BYTES_MAX + 1];
    const size_t name_length = strlen(name);
    if (name_length > NAME_BYTES_MAX || word_length > PLEAT_NEAR_NAME_WORD_BYTES_MAX) {
        return SIZE_MAX;
    }
    for (size_t j = 0; j <= name_length; j++) {
        row[j] = j;
    }
    for (size_t i = 1; i <= word_length; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= name_length; j++) {
            const bool is_equal = strncasecmp(&word[i - 1], &name[j - 1], 1) == 0;
            size_t best = diagonal + (is_equal ? 0 : 1);
            best = row[j] + 1 < best ? row[j] + 1 : best;
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[name_length];
}

const char *pleat_near_name_find(const char *word, const char *const *names, size_t count)
{
    const char *nearest = NULL;
    size_t nearest_distance = SIZE_MAX;
    const size_t length = strlen(word);
    if (length == 0 || length > TYPING_ERROR_BYTES_MAX) {
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        size_t distance = pleat_near_name_distance(word, length, names[i]);
        const size_t allowed = (strlen(names[i]) + 1) / 3;
        if (length >= 3 && strncasecmp(word, names[i], length) == 0) {
            distance = 1; /* a beginning of the name */
        }
        if (distance <= (allowed > 1 ? allowed : 1) && distance < nearest_distance) {
            nearest = names[i];
            nearest_distance = distance;
        }
    }
    return nearest;
}
