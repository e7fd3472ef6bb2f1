/*
 * size: sizes and counts as a user writes them, and as people like to read them.
 */
#ifndef PLEAT_CLI_SIZE_H
#define PLEAT_CLI_SIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PLEAT_CLI_SIZE_FORMS "bytes, or a number with KiB, MiB, GiB or TiB, as in 40GiB or 1.5GiB"

/**
 * Read a size: a decimal number, without sign, and B, KiB, MiB, GiB, TiB or nothing behind it. A
 * blank may stand before the unit, and a fraction is fine if it comes to whole bytes.
 *
 * @param[out] bytes_out  untouched on failure.
 * @return NULL, or what is wrong with the text (static, to be put behind the text in a message).
 */
const char *pleat_cli_size_parse(const char *text, uint64_t *bytes_out);

/** Read a whole number from @p least to @p most; result as pleat_cli_size_parse. */
const char *pleat_cli_count_parse(const char *text, uint64_t least, uint64_t most,
                                  uint64_t *count_out);

/** Write @p bytes with a unit and three or four digits into @p text. */
void pleat_cli_size_format(uint64_t bytes, char *text, size_t text_size);

#endif
