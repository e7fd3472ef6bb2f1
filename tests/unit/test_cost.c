/*
 * Tests of cost: the H200 table, interpolation, checks, and the text form in both directions.
 */
#include "vmm/cost.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

static uint64_t alloc_ns(uint64_t bytes)
{
    return pleat_cost_of(pleat_cost_table_h200(), PLEAT_VMM_CALL_MEM_ALLOC, bytes);
}

static uint64_t free_ns(uint64_t bytes)
{
    return pleat_cost_of(pleat_cost_table_h200(), PLEAT_VMM_CALL_MEM_FREE, bytes);
}

Test(cost, rows_give_what_was_measured, .timeout = 10)
{
    cr_expect(eq(u64, alloc_ns(2 * PLEAT_MIB), 36300));
    cr_expect(eq(u64, alloc_ns(20 * PLEAT_MIB), 35600));
    cr_expect(eq(u64, alloc_ns(256 * PLEAT_MIB), 61200));
    cr_expect(eq(u64, alloc_ns(PLEAT_GIB), 140200));
    cr_expect(eq(u64, free_ns(2 * PLEAT_MIB), 29900));
    cr_expect(eq(u64, free_ns(64 * PLEAT_MIB), 51300));
    cr_expect(eq(u64, free_ns(PLEAT_GIB), 368300));
}

static uint64_t h200_ns(pleat_vmm_call_t call, uint64_t bytes)
{
    return pleat_cost_of(pleat_cost_table_h200(), call, bytes);
}

Test(cost, calls_on_chunks_are_as_measured, .timeout = 10)
{
    cr_expect(eq(u64, h200_ns(PLEAT_VMM_CALL_CHUNK_CREATE, 2 * PLEAT_MIB), 8400));
    cr_expect(eq(u64, h200_ns(PLEAT_VMM_CALL_CHUNK_CREATE, PLEAT_GIB), 69000));
    cr_expect(eq(u64, h200_ns(PLEAT_VMM_CALL_CHUNK_RELEASE, 20 * PLEAT_MIB), 19200));
    cr_expect(eq(u64, h200_ns(PLEAT_VMM_CALL_MAP, 64 * PLEAT_MIB), 800));
    cr_expect(eq(u64, h200_ns(PLEAT_VMM_CALL_UNMAP, 256 * PLEAT_MIB), 22300));
    cr_expect(eq(u64, h200_ns(PLEAT_VMM_CALL_SET_ACCESS, 8 * PLEAT_MIB), 35200));
    cr_expect(eq(u64, h200_ns(PLEAT_VMM_CALL_CHUNK_RELEASE, 160 * PLEAT_MIB), 59200)); /* between */
    cr_expect(ge(u64, h200_ns(PLEAT_VMM_CALL_ADDRESS_RESERVE, UINT64_C(1) << 46), 2000));
    cr_expect(le(u64, h200_ns(PLEAT_VMM_CALL_ADDRESS_RESERVE, 2 * PLEAT_MIB), 4000));
}

Test(cost, each_kind_has_its_own_column, .timeout = 10)
{
    pleat_cost_row_t row = {.bytes = 1};
    uint64_t want = 0;
    for (unsigned i = 0; i < PLEAT_VMM_CALL_COUNT; i++) {
        if (pleat_cost_is_sized((pleat_vmm_call_t)i)) {
            *pleat_cost_of_row(&row, (pleat_vmm_call_t)i) = ++want;
        }
    }
    want = 0;
#define CHECK_COLUMN(CALL, name) cr_expect(eq(u64, row.name##_ns, ++want));
    PLEAT_COST_SIZED_LIST(CHECK_COLUMN)
#undef CHECK_COLUMN
    cr_expect(eq(u64, want, 7));
    cr_expect(eq(u64, row.bytes, 1));
    cr_expect(not(pleat_cost_is_sized(PLEAT_VMM_CALL_COUNT)));
    cr_expect(not(pleat_cost_is_sized(PLEAT_VMM_CALL_ADDRESS_RESERVE)));
}

Test(cost, between_rows_it_is_linear, .timeout = 10)
{
    cr_expect(eq(u64, alloc_ns(3 * PLEAT_MIB), 35400)); /* falling: 36300 to 34500 */
    cr_expect(eq(u64, free_ns(42 * PLEAT_MIB), 45300)); /* rising: 39300 to 51300 */
    cr_expect(eq(u64, alloc_ns(640 * PLEAT_MIB), 100700));
    cr_expect(eq(u64, alloc_ns(2 * PLEAT_MIB + 1), 36300 - 0)); /* share rounds to 0 */
}

Test(cost, outside_the_rows_it_is_the_first_or_last, .timeout = 10)
{
    cr_expect(eq(u64, alloc_ns(1), 36300));
    cr_expect(eq(u64, free_ns(0), 29900));
    cr_expect(eq(u64, alloc_ns(40 * PLEAT_GIB), 140200));
    cr_expect(eq(u64, free_ns(UINT64_MAX), 368300));
}

Test(cost, event_calls_together_are_as_measured, .timeout = 10)
{
    const pleat_cost_table_t *table = pleat_cost_table_h200();
    const uint64_t sum = pleat_cost_of(table, PLEAT_VMM_CALL_EVENT_CREATE, 0) +
                         pleat_cost_of(table, PLEAT_VMM_CALL_EVENT_RECORD, 0) +
                         pleat_cost_of(table, PLEAT_VMM_CALL_EVENT_QUERY, 0);
    cr_expect(ge(u64, sum, 5500));
    cr_expect(le(u64, sum, 5900));
}

Test(cost, wide_tables_do_not_overflow, .timeout = 10)
{
    pleat_cost_table_t table = {.size = sizeof table, .row_count = 2};
    table.rows[0] = (pleat_cost_row_t){.bytes = 1, .mem_free_ns = UINT64_MAX};
    table.rows[1] = (pleat_cost_row_t){.bytes = UINT64_MAX, .mem_alloc_ns = UINT64_MAX - 1};
    cr_assert(eq(int, pleat_cost_table_check(&table), PLEAT_OK));
    cr_expect(eq(u64, pleat_cost_of(&table, PLEAT_VMM_CALL_MEM_ALLOC, UINT64_C(1) << 63),
                 (UINT64_C(1) << 63) - 1));
    cr_expect(eq(u64, pleat_cost_of(&table, PLEAT_VMM_CALL_MEM_FREE, UINT64_MAX), 0));
    cr_expect(eq(u64, pleat_cost_of(&table, PLEAT_VMM_CALL_MEM_FREE, 0), UINT64_MAX));
}

Test(cost, every_row_of_a_full_table_is_found, .timeout = 10)
{
    pleat_cost_table_t table = {.size = sizeof table, .row_count = PLEAT_COST_ROWS_MAX};
    for (uint64_t i = 0; i < PLEAT_COST_ROWS_MAX; i++) {
        table.rows[i] = (pleat_cost_row_t){
            .bytes = 10 * (i + 1), .mem_alloc_ns = 1000 * (i + 1), .mem_free_ns = 7};
    }
    for (uint64_t bytes = 10; bytes <= UINT64_C(10) * PLEAT_COST_ROWS_MAX; bytes++) {
        cr_expect(eq(u64, pleat_cost_of(&table, PLEAT_VMM_CALL_MEM_ALLOC, bytes), 100 * bytes));
    }
}

Test(cost, without_rows_memory_calls_have_fixed_costs, .timeout = 10)
{
    pleat_cost_table_t table = {.size = sizeof table};
    table.call_ns[PLEAT_VMM_CALL_MEM_ALLOC] = 12;
    cr_assert(eq(int, pleat_cost_table_check(&table), PLEAT_OK));
    cr_expect(eq(u64, pleat_cost_of(&table, PLEAT_VMM_CALL_MEM_ALLOC, 1 << 30), 12));
}

/* Field by field, because a table has padding. */
static void expect_same_table(const pleat_cost_table_t *got, const pleat_cost_table_t *want)
{
    cr_assert(eq(int, (int)got->row_count, (int)want->row_count));
    for (uint32_t i = 0; i < want->row_count; i++) {
        cr_expect(eq(u64, got->rows[i].bytes, want->rows[i].bytes));
        cr_expect(eq(u64, got->rows[i].mem_alloc_ns, want->rows[i].mem_alloc_ns));
        cr_expect(eq(u64, got->rows[i].mem_free_ns, want->rows[i].mem_free_ns));
    }
    for (int i = 0; i < PLEAT_VMM_CALL_COUNT; i++) {
        cr_expect(eq(u64, got->call_ns[i], want->call_ns[i]));
    }
}

static void expect_error(pleat_status_t status, pleat_status_t want, const char *part)
{
    cr_expect(eq(int, status, want));
    cr_expect(ne(ptr, strstr(pleat_last_error(), part), NULL), "'%s' lacks '%s'",
              pleat_last_error(), part);
}

Test(cost, check_names_what_is_wrong, .timeout = 10)
{
    pleat_cost_table_t table = *pleat_cost_table_h200();
    table.size = 8;
    expect_error(pleat_cost_table_check(&table), PLEAT_ERR_INVALID, "size is 8");
    table = *pleat_cost_table_h200();
    table.row_count = PLEAT_COST_ROWS_MAX + 1;
    expect_error(pleat_cost_table_check(&table), PLEAT_ERR_INVALID, "33 rows");
    table = *pleat_cost_table_h200();
    table.rows[2].bytes = table.rows[1].bytes;
    expect_error(pleat_cost_table_check(&table), PLEAT_ERR_INVALID, "row 3");
}

Test(cost, text_gives_the_same_table_back, .timeout = 10)
{
    char text[PLEAT_COST_TEXT_MAX];
    size_t length = 0;
    pleat_cost_table_t table = {.size = 0};
    cr_assert(eq(int, pleat_cost_table_write(pleat_cost_table_h200(), text, sizeof text, &length),
                 PLEAT_OK));
    cr_expect(eq(sz, length, strlen(text)));
    cr_assert(eq(int, pleat_cost_table_read(text, length, &table), PLEAT_OK), "%s",
              pleat_last_error());
    expect_same_table(&table, pleat_cost_table_h200());
}

Test(cost, longest_table_fits_the_promised_buffer, .timeout = 10)
{
    char text[PLEAT_COST_TEXT_MAX];
    size_t length = 0;
    pleat_cost_table_t table = {.size = sizeof table, .row_count = PLEAT_COST_ROWS_MAX};
    for (uint64_t i = 0; i < PLEAT_COST_ROWS_MAX; i++) {
        memset(&table.rows[i], 0xff, sizeof table.rows[i]);
        table.rows[i].bytes = UINT64_MAX - 100 + i;
    }
    for (int i = 0; i < PLEAT_VMM_CALL_COUNT; i++) {
        table.call_ns[i] = UINT64_MAX;
    }
    cr_expect(eq(int, pleat_cost_table_write(&table, text, sizeof text, &length), PLEAT_OK));
}

Test(cost, text_takes_units_comments_and_blank_lines, .timeout = 10)
{
    static const char text[] = "# measured today\n"
                               "\n"
                               "pleat-costs 1\r\n"
                               "\trow 1KiB mem_free=5 mem_alloc=4 # small\n"
                               "row 2MiB mem_alloc=6 mem_free=7\n"
                               "row 3GiB mem_alloc=8 mem_free=9\n"
                               "call event_query 11"; /* no line end */
    pleat_cost_table_t table;
    cr_assert(eq(int, pleat_cost_table_read(text, sizeof text - 1, &table), PLEAT_OK), "%s",
              pleat_last_error());
    cr_expect(eq(int, (int)table.row_count, 3));
    cr_expect(eq(u64, table.rows[0].bytes, 1024));
    cr_expect(eq(u64, table.rows[0].mem_alloc_ns, 4));
    cr_expect(eq(u64, table.rows[0].mem_free_ns, 5));
    cr_expect(eq(u64, table.rows[2].bytes, 3 * PLEAT_GIB));
    cr_expect(eq(u64, table.call_ns[PLEAT_VMM_CALL_EVENT_QUERY], 11));
    cr_expect(eq(u64, table.call_ns[PLEAT_VMM_CALL_EVENT_CREATE],
                 pleat_cost_table_h200()->call_ns[PLEAT_VMM_CALL_EVENT_CREATE]));
}

Test(cost, a_row_may_name_every_kind_that_depends_on_size, .timeout = 10)
{
    static const char text[] = "pleat-costs 1\n"
                               "row 2MiB set_access=7 unmap=6 map=5 chunk_release=4 chunk_create=3"
                               " mem_free=2 mem_alloc=1\n"
                               "row 8MiB mem_alloc=8 mem_free=9 map=10\n"
                               "call address_reserve 11\ncall address_free 12\n";
    pleat_cost_table_t table;
    cr_assert(eq(int, pleat_cost_table_read(text, sizeof text - 1, &table), PLEAT_OK), "%s",
              pleat_last_error());
    uint64_t want = 0;
#define CHECK_READ(CALL, name) cr_expect(eq(u64, table.rows[0].name##_ns, ++want));
    PLEAT_COST_SIZED_LIST(CHECK_READ)
#undef CHECK_READ
    cr_expect(eq(u64, table.rows[1].map_ns, 10));
    /* What a row does not name is as on the H200. */
    cr_expect(eq(u64, table.rows[1].chunk_create_ns, 8500));
    cr_expect(eq(u64, table.rows[1].set_access_ns, 35200));
    cr_expect(eq(u64, table.call_ns[PLEAT_VMM_CALL_ADDRESS_RESERVE], 11));
    cr_expect(eq(u64, table.call_ns[PLEAT_VMM_CALL_ADDRESS_FREE], 12));
}

#define HEAD "pleat-costs 1\n"
#define ROW "row 2MiB mem_alloc=1 mem_free=2\n"

Test(cost, malformed_text_is_refused_with_its_line, .timeout = 10)
{
    static const struct {
        const char *text;
        const char *part;
    } rows[] = {
        {"", "line 1: the text ends without the line 'pleat-costs 1'"},
        {"\n# nothing\n", "line 2: the text ends without the line"},
        {HEAD, "line 1: the text ends without a row"},
        {"costs 1\n", "line 1: begins with 'costs'"},
        {"pleat-costs 2\n", "a cost table begins with the line 'pleat-costs 1'"},
        {"pleat-costs 1 x\n", "a cost table begins"},
        {HEAD "\nline 3\n", "line 3: 'line' begins no item"},
        {HEAD "row\n", "line 2: '' is no size"},
        {HEAD "row x mem_alloc=1 mem_free=2\n", "'x' is no size"},
        {HEAD "row 2MB mem_alloc=1 mem_free=2\n", "'2MB' is no size"},
        {HEAD "row 18446744073709551616 mem_alloc=1\n", "is no size"},
        {HEAD "row 18446744073709551615KiB mem_alloc=1\n", "is no size"},
        {HEAD "row 2MiB mem_alloc=1\n", "the row lacks mem_free=NS"},
        {HEAD "row 2MiB mem_free=1\n", "the row lacks mem_alloc=NS"},
        {HEAD "row 2MiB mem_alloc=1 mem_alloc=1\n", "mem_alloc is given twice"},
        {HEAD "row 2MiB mem_alloc=x\n", "'x' is no number"},
        {HEAD "row 2MiB mem_alloc=1.5\n", "'1.5' is no number"},
        {HEAD "row 2MiB mem_alloc=-1\n", "'-1' is no number"},
        {HEAD "row 2MiB mem_alloc\n", "'mem_alloc' is no cost"},
        {HEAD "row 2MiB mem_map=1\n", "'mem_map=1' is no cost"},
        {HEAD "row 2MiB event_query=1\n", "'event_query=1' is no cost"},
        {HEAD "row 2MiB map=1 map=2\n", "map is given twice"},
        {HEAD "row 2MiB unmap=\n", "'' is no number"},
        {HEAD ROW ROW, "line 3: row of 2097152 bytes after one of 2097152"},
        {HEAD ROW "call\n", "'' is no kind of call"},
        {HEAD ROW "call event 1\n", "'event' is no kind of call"},
        {HEAD ROW "call mem_alloc 1\n", "mem_alloc depends on the size"},
        {HEAD ROW "call set_access 1\n", "set_access depends on the size"},
        {HEAD ROW "call mem_info\n", "'' is no number"},
        {HEAD ROW "call mem_info 1 ns\n", "'ns' stands behind the cost"},
        {HEAD ROW "call mem_info 1\ncall mem_info 1\n", "line 4: mem_info is given twice"},
        {"\x01\x02\xff this is not a table at all but something long without any sense\n",
         "line 1: begins with"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        pleat_cost_table_t table = {.size = 1, .row_count = 1};
        const pleat_cost_table_t before = table;
        expect_error(pleat_cost_table_read(rows[i].text, strlen(rows[i].text), &table),
                     PLEAT_ERR_FORMAT, rows[i].part);
        expect_same_table(&table, &before); /* untouched */
    }
}

Test(cost, too_many_rows_are_refused, .timeout = 10)
{
    char text[4096] = HEAD;
    size_t used = strlen(text);
    for (int i = 1; i <= PLEAT_COST_ROWS_MAX + 1; i++) {
        used +=
            (size_t)snprintf(text + used, sizeof text - used, "row %d mem_alloc=1 mem_free=1\n", i);
    }
    pleat_cost_table_t table;
    expect_error(pleat_cost_table_read(text, used, &table), PLEAT_ERR_FORMAT,
                 "line 34: more than 32 rows");
}

Test(cost, a_cut_text_never_reads_past_its_end, .timeout = 10)
{
    static const char text[] = HEAD ROW "call mem_info 123\n";
    for (size_t length = 0; length < sizeof text; length++) {
        char copy[sizeof text];
        pleat_cost_table_t table;
        memset(copy, '7', sizeof copy);
        memcpy(copy, text, length);
        const pleat_status_t status = pleat_cost_table_read(copy, length, &table);
        cr_expect(status == PLEAT_OK || status == PLEAT_ERR_FORMAT);
    }
}

Test(cost, missing_arguments_are_refused, .timeout = 10)
{
    char text[64];
    size_t length = 0;
    pleat_cost_table_t table = *pleat_cost_table_h200();
    const pleat_status_t bad = PLEAT_ERR_INVALID;
    expect_error(pleat_cost_table_read(NULL, 0, &table), bad, "text is NULL");
    expect_error(pleat_cost_table_read(text, 0, NULL), bad, "table_out is NULL");
    expect_error(pleat_cost_table_write(NULL, text, sizeof text, &length), bad, "NULL");
    expect_error(pleat_cost_table_write(&table, NULL, sizeof text, &length), bad, "NULL");
    expect_error(pleat_cost_table_write(&table, text, sizeof text, NULL), bad, "NULL");
}

Test(cost, write_refuses_what_cannot_be_written, .timeout = 10)
{
    char text[64];
    size_t length = 99;
    pleat_cost_table_t table = *pleat_cost_table_h200();
    expect_error(pleat_cost_table_write(&table, text, sizeof text, &length), PLEAT_ERR_INVALID,
                 "the buffer 64");
    table.row_count = 0;
    expect_error(pleat_cost_table_write(&table, text, sizeof text, &length), PLEAT_ERR_INVALID,
                 "no rows");
    table.row_count = 99;
    expect_error(pleat_cost_table_write(&table, text, sizeof text, &length), PLEAT_ERR_INVALID,
                 "99 rows");
    cr_expect(eq(sz, length, (size_t)99));
}
