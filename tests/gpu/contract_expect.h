/*
 * contract_expect: what the checks of the contract expect, counted; what does not hold is printed.
 */
#ifndef PLEAT_TEST_CONTRACT_EXPECT_H
#define PLEAT_TEST_CONTRACT_EXPECT_H

#include <pleat/base.h>

typedef struct contract_tally {
    uint64_t expectations;
    uint64_t failures;
} contract_tally_t;

extern contract_tally_t contract_tally;

void contract_expect_that(bool holds, const char *what, const char *file, int line);
void contract_expect_status(pleat_status_t got, pleat_status_t want, const char *what,
                            const char *file, int line);

#define EXPECT(condition) contract_expect_that((condition), #condition, __FILE__, __LINE__)
#define EXPECT_OK(call) contract_expect_status((call), PLEAT_OK, #call, __FILE__, __LINE__)
#define EXPECT_STATUS(call, want) contract_expect_status((call), (want), #call, __FILE__, __LINE__)

#endif
