/*
 * near_name: the known name that a mistyped word was meant for.
 */
#ifndef PLEAT_EXPERIMENTS_NEAR_NAME_H
#define PLEAT_EXPERIMENTS_NEAR_NAME_H

#include <stddef.h>

#define PLEAT_NEAR_NAME_WORD_BYTES_MAX 128u /* longer words are near to nothing */

/**
 * How many characters must be inserted, deleted or replaced to make @p name of @p word; capitals
 * are ignored.
 * @return SIZE_MAX if one of them is too long to be compared.
 * @par Threads any.   @par Cost product of the lengths.
 */
size_t pleat_near_name_distance(const char *word, size_t word_length, const char *name);

/**
 * Nearest of @p count names to @p word, NULL if none is near enough to be a typing error.
 * @par Threads any.   @par Cost that of @p count distances.
 */
const char *pleat_near_name_find(const char *word, const char *const *names, size_t count);

#endif
