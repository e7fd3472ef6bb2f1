/*
 * Tests of experiments/lib/near_name: distances by hand, and which names count as near.
 */
#include "near_name.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdint.h>
#include <string.h>

static const char *const names[] = {"compare", "replay", "num_ooms"};

static const char *near(const char *word)
{
    const char *found = pleat_near_name_find(word, names, sizeof(names) / sizeof(names[0]));
    return found != NULL ? found : "";
}

Test(near_name, counts_edits_and_ignores_capitals)
{
    static const struct {
        const char *word;
        const char *name;
        size_t distance;
    } rows[] = {{"", "", 0},
                {"", "abc", 3},
                {"abc", "", 3},
                {"abc", "abc", 0},
                {"ABC", "abc", 0},
                {"abd", "abc", 1},
                {"ab", "abc", 1},
                {"xabc", "abc", 1},
                {"acb", "abc", 2},
                {"kitten", "sitting", 3},
                {"num_oom", "num_ooms", 1}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        cr_expect(eq(sz, pleat_near_name_distance(rows[i].word, strlen(rows[i].word), rows[i].name),
                     rows[i].distance),
                  "%s, %s", rows[i].word, rows[i].name);
    }
    cr_expect(eq(sz, pleat_near_name_distance("abcdef", 3, "abc"), 0)); /* the length counts */
}

Test(near_name, finds_typing_errors_and_beginnings_only)
{
    cr_expect(eq(str, (char *)near("comapre"), "compare"));
    cr_expect(eq(str, (char *)near("REPLAY"), "replay"));
    cr_expect(eq(str, (char *)near("num"), "num_ooms"));
    cr_expect(eq(str, (char *)near("verify"), ""));
    cr_expect(eq(str, (char *)near(""), ""));
}

Test(near_name, long_words_are_near_to_nothing)
{
    char word[PLEAT_NEAR_NAME_WORD_BYTES_MAX + 2];
    memset(word, 'a', sizeof(word));
    word[sizeof(word) - 1] = '\0';
    cr_expect(eq(sz, pleat_near_name_distance(word, strlen(word), "a"), SIZE_MAX));
    cr_expect(eq(sz, pleat_near_name_distance("a", 1, word), SIZE_MAX));
    cr_expect(eq(str, (char *)near(word), ""));
}
