/*
 * Tests of unmapped_list: order by stream and address, and what stands at the ends.
 */
#include "core/unmapped_list.h"

#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

typedef struct bench {
    pleat_unmapped_list_t list;
    pleat_block_t blocks[6];
} bench_t;

/* Six blocks: a, b, c of stream 1, d, e of stream 2, f of stream 5, each by rising address. */
static bench_t bench_make(void)
{
    static const pleat_stream_t streams[] = {1, 1, 1, 2, 2, 5};
    bench_t bench;
    memset(&bench, 0, sizeof(bench));
    for (size_t i = 0; i < 6; i++) {
        bench.blocks[i].address = 0x1000 * (i + 1);
        bench.blocks[i].stream = streams[i];
        bench.blocks[i].use = PLEAT_BLOCK_USE_UNMAPPED;
    }
    return bench;
}

static void insert(bench_t *bench, const char *letters)
{
    for (; *letters != '\0'; letters++) {
        pleat_unmapped_list_insert(&bench->list, &bench->blocks[*letters - 'a']);
    }
}

static void expect_stream(const bench_t *bench, pleat_stream_t stream, const char *wanted)
{
    char got[8] = "";
    for (const pleat_block_t *block = pleat_unmapped_list_first(&bench->list, stream);
         block != NULL; block = pleat_unmapped_list_next(block)) {
        got[strlen(got)] = (char)('a' + (block - bench->blocks));
    }
    cr_expect(eq(str, got, (char *)wanted));
}

Test(unmapped_list, an_empty_list_has_no_first, .timeout = 5)
{
    const bench_t bench = bench_make();
    expect_stream(&bench, 1, "");
    cr_expect(eq(sz, bench.list.count, 0));
}

Test(unmapped_list, blocks_stand_by_stream_and_address, .timeout = 5)
{
    bench_t bench = bench_make();
    insert(&bench, "fcebad");
    cr_expect(eq(sz, bench.list.count, 6));
    expect_stream(&bench, 1, "abc");
    expect_stream(&bench, 2, "de");
    expect_stream(&bench, 5, "f");
    expect_stream(&bench, 0, "");
    expect_stream(&bench, 3, "");
    expect_stream(&bench, 9, "");
}

Test(unmapped_list, blocks_leave_from_everywhere, .timeout = 5)
{
    bench_t bench = bench_make();
    insert(&bench, "abcdef");
    pleat_unmapped_list_remove(&bench.list, &bench.blocks[1]); /* in the middle */
    expect_stream(&bench, 1, "ac");
    pleat_unmapped_list_remove(&bench.list, &bench.blocks[0]); /* the first */
    expect_stream(&bench, 1, "c");
    pleat_unmapped_list_remove(&bench.list, &bench.blocks[5]); /* the last */
    expect_stream(&bench, 5, "");
    cr_expect(eq(ptr, bench.blocks[0].child[0], NULL));
    cr_expect(eq(ptr, bench.blocks[0].child[1], NULL));
    pleat_unmapped_list_remove(&bench.list, &bench.blocks[2]);
    pleat_unmapped_list_remove(&bench.list, &bench.blocks[4]);
    pleat_unmapped_list_remove(&bench.list, &bench.blocks[3]);
    cr_expect(eq(ptr, bench.list.first, NULL));
    cr_expect(eq(sz, bench.list.count, 0));
    insert(&bench, "ba");
    expect_stream(&bench, 1, "ab");
}
