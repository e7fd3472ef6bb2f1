/*
 * test_conf_distance: which known key a wrong one is near to.
 */
#include "compat/conf_distance.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

static const char *nearest(const char *word)
{
    const char *key = pleat_conf_nearest_key(word, strlen(word));
    return key != NULL ? key : "";
}

Test(conf_distance, a_key_is_near_to_itself)
{
    cr_expect(eq(str, (char *)nearest("backend"), "backend"));
    cr_expect(eq(str, (char *)nearest("BACKEND"), "backend"));
}

Test(conf_distance, one_edit_of_each_kind)
{
    cr_expect(eq(str, (char *)nearest("bakend"), "backend"));
    cr_expect(eq(str, (char *)nearest("backends"), "backend"));
    cr_expect(eq(str, (char *)nearest("bac_end"), "backend"));
}

Test(conf_distance, short_words_allow_fewer_edits)
{
    cr_expect(eq(str, (char *)nearest("bcked"), "backend")); /* 2 edits of 2.25 */
    cr_expect(eq(str, (char *)nearest("bckd"), ""));         /* 3 edits of 1.8 */
    cr_expect(eq(str, (char *)nearest(""), ""));
}

Test(conf_distance, five_edits_are_the_most)
{
    cr_expect(eq(str, (char *)nearest("expandable_segmentsabcde"), "expandable_segments"));
    cr_expect(eq(str, (char *)nearest("expandable_segmentsabcdef"), ""));
}

Test(conf_distance, the_nearest_of_two_names_wins)
{
    cr_expect(
        eq(str, (char *)nearest("pinned_use_hip_host_registr"), "pinned_use_hip_host_register"));
    cr_expect(
        eq(str, (char *)nearest("pinned_use_cuda_host_registr"), "pinned_use_cuda_host_register"));
}

Test(conf_distance, words_of_any_length)
{
    static char word[4096];
    memset(word, 'a', sizeof word - 1);
    cr_expect(eq(str, (char *)nearest(word), ""));
    word[69] = '\0';
    cr_expect(eq(str, (char *)nearest(word), ""));
}
