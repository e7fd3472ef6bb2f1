/*
 * contract_expect: counts and prints.
 */
#include "contract_expect.h"

#include <stdio.h>
#include <string.h>

contract_tally_t contract_tally;

static const char *file_name(const char *file)
{
    const char *slash = strrchr(file, '/');
    return slash == NULL ? file : slash + 1;
}

void contract_expect_that(bool holds, const char *what, const char *file, int line)
{
    contract_tally.expectations++;
    if (!holds) {
        contract_tally.failures++;
        (void)printf("  %s:%d: %s does not hold (last error: %s)\n", file_name(file), line, what,
                     pleat_last_error());
    }
}

void contract_expect_status(pleat_status_t got, pleat_status_t want, const char *what,
                            const char *file, int line)
{
    contract_tally.expectations++;
    if (got != want) {
        contract_tally.failures++;
        (void)printf("  %s:%d: %s gives %d (%s: %s), not %d\n", file_name(file), line, what,
                     (int)got, pleat_status_text(got), pleat_last_error(), (int)want);
    }
}
