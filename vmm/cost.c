/*
 * cost: the built-in H200 table, interpolation, and the text form; see cost.h.
 */
#include "cost.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

/*
 * One H200, driver 580.159.04, idle device, medians of 20. Creating, recording and querying an
 * event was measured as one sum, 5.5-5.9 us: a third of it stands for each. Calls that were not
 * measured (destroying an event, waiting behind one, synchronising, memory info) are given the same
 * third; none of them is counted as driver time in reports.
 */
#define EVENT_CALL_NS UINT64_C(1900)

/* Calls for other processes and devices were not measured either: they are rare, and cost nothing
 * here. */

/* Reserving addresses took 2-4 us from 160 GiB to 64 TiB; giving them back was not measured. */
#define ADDRESS_CALL_NS UINT64_C(3000)

static const pleat_cost_table_t h200_table = {
    .size = sizeof(pleat_cost_table_t),
    .row_count = 7,
    .rows =
        {
            /* bytes, mem_alloc, mem_free, chunk_create, chunk_release, map, unmap, set_access */
            {2 * PLEAT_MIB, 36300, 29900, 8400, 10100, 800, 21700, 35000},
            {4 * PLEAT_MIB, 34500, 31100, 8200, 11200, 800, 21900, 35200},
            {8 * PLEAT_MIB, 35400, 33600, 8500, 13500, 700, 22300, 35200},
            {20 * PLEAT_MIB, 35600, 39300, 8700, 19200, 700, 22200, 35600},
            {64 * PLEAT_MIB, 41700, 51300, 9300, 32300, 800, 22300, 36700},
            {256 * PLEAT_MIB, 61200, 123300, 11500, 86100, 800, 22300, 37700},
            {1 * PLEAT_GIB, 140200, 368300, 69000, 313500, 1400, 32900, 66000},
        },
    .call_ns =
        {
            [PLEAT_VMM_CALL_MEM_INFO] = EVENT_CALL_NS,
            [PLEAT_VMM_CALL_EVENT_CREATE] = EVENT_CALL_NS,
            [PLEAT_VMM_CALL_EVENT_DESTROY] = EVENT_CALL_NS,
            [PLEAT_VMM_CALL_EVENT_RECORD] = EVENT_CALL_NS,
            [PLEAT_VMM_CALL_EVENT_QUERY] = EVENT_CALL_NS,
            [PLEAT_VMM_CALL_EVENT_SYNCHRONIZE] = EVENT_CALL_NS,
            [PLEAT_VMM_CALL_STREAM_WAIT_EVENT] = EVENT_CALL_NS,
            [PLEAT_VMM_CALL_STREAM_SYNCHRONIZE] = EVENT_CALL_NS,
            [PLEAT_VMM_CALL_ADDRESS_RESERVE] = ADDRESS_CALL_NS,
            [PLEAT_VMM_CALL_ADDRESS_FREE] = ADDRESS_CALL_NS,
        },
};

const pleat_cost_table_t *pleat_cost_table_h200(void)
{
    return &h200_table;
}

pleat_status_t pleat_cost_table_check(const pleat_cost_table_t *table)
{
    if (table->size < sizeof *table) {
        pleat_error_set("cost table: size is %zu, %zu needed", table->size, sizeof *table);
        return PLEAT_ERR_INVALID;
    }
    if (table->row_count > PLEAT_COST_ROWS_MAX) {
        pleat_error_set("cost table: %" PRIu32 " rows, at most %d can be held", table->row_count,
                        PLEAT_COST_ROWS_MAX);
        return PLEAT_ERR_INVALID;
    }
    for (uint32_t i = 1; i < table->row_count; i++) {
        if (table->rows[i].bytes <= table->rows[i - 1].bytes) {
            pleat_error_set("cost table: row %" PRIu32 " is for %" PRIu64
                            " bytes, not more than the %" PRIu64 " of the row before",
                            i + 1, table->rows[i].bytes, table->rows[i - 1].bytes);
            return PLEAT_ERR_INVALID;
        }
    }
    return PLEAT_OK;
}

/* Where a row keeps the cost of a kind; 0 for kinds that do not depend on the size. */
static const size_t cost_offsets[PLEAT_VMM_CALL_COUNT] = {
#define COST_OFFSET(CALL, name) [PLEAT_VMM_CALL_##CALL] = offsetof(pleat_cost_row_t, name##_ns),
    PLEAT_COST_SIZED_LIST(COST_OFFSET)
#undef COST_OFFSET
};

bool pleat_cost_is_sized(pleat_vmm_call_t call)
{
    return (unsigned)call < (unsigned)PLEAT_VMM_CALL_COUNT && cost_offsets[call] != 0;
}

uint64_t *pleat_cost_of_row(pleat_cost_row_t *row, pleat_vmm_call_t call)
{
    PLEAT_ASSERT(pleat_cost_is_sized(call));
    return (uint64_t *)(void *)((char *)row + cost_offsets[call]);
}

static uint64_t row_cost(const pleat_cost_row_t *row, pleat_vmm_call_t call)
{
    uint64_t cost_ns = 0;
    memcpy(&cost_ns, (const char *)row + cost_offsets[call], sizeof cost_ns);
    return cost_ns;
}

/* 128 bits, because a difference of costs times a difference of sizes can pass 64. */
__extension__ typedef unsigned __int128 wide_t;

static uint64_t cost_between(uint64_t from_ns, uint64_t to_ns, uint64_t part, uint64_t whole)
{
    PLEAT_ASSERT(part <= whole);
    PLEAT_ASSERT(whole > 0);
    const uint64_t rise = to_ns >= from_ns ? to_ns - from_ns : from_ns - to_ns;
    const uint64_t share = (uint64_t)((wide_t)rise * part / whole);
    return to_ns >= from_ns ? from_ns + share : from_ns - share;
}

uint64_t pleat_cost_of(const pleat_cost_table_t *table, pleat_vmm_call_t call, uint64_t bytes)
{
    if (cost_offsets[call] == 0 || table->row_count == 0) {
        return table->call_ns[call];
    }
    if (bytes <= table->rows[0].bytes) {
        return row_cost(&table->rows[0], call);
    }
    /* rows[low].bytes < bytes; everything from high on is not below it. */
    uint32_t low = 0;
    uint32_t high = table->row_count;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (table->rows[middle].bytes < bytes) {
            low = middle;
        } else {
            high = middle;
        }
    }
    const pleat_cost_row_t *from = &table->rows[low];
    if (high == table->row_count) {
        return row_cost(from, call);
    }
    const pleat_cost_row_t *to = &table->rows[high];
    return cost_between(row_cost(from, call), row_cost(to, call), bytes - from->bytes,
                        to->bytes - from->bytes);
}
