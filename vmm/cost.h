/*
 * cost (internal): what a call to the device costs, by a table: rows by size for memory calls, one
 * number for the others (pleat_cost_table_t in pleat/sim.h). The simulated device charges by it.
 *
 * Text form, one item a line; blank lines and what follows a # are skipped:
 *   pleat-costs 1
 *   row 2MiB mem_alloc=36300 mem_free=29900
 *   call event_query 1900
 * Rows rise in size (bytes, or with KiB, MiB, GiB behind) and name mem_alloc and mem_free, and may
 * name the other kinds that depend on the size; costs are nanoseconds. A kind that is not named
 * keeps its cost from the H200 table, so that a file from before a kind existed stays good. At
 * least one row is needed.
 */
#ifndef PLEAT_COST_H
#define PLEAT_COST_H

#include "base.h"

#include <pleat/sim.h>

/* Enough for the text of any table. */
#define PLEAT_COST_TEXT_MAX ((size_t)16384)

/**
 * Check a table: size set, at most PLEAT_COST_ROWS_MAX rows, rising sizes.
 * @retval PLEAT_ERR_INVALID  something is wrong; the message names the row.
 */
PLEAT_NODISCARD pleat_status_t pleat_cost_table_check(const pleat_cost_table_t *table);

/** Does the cost of a kind depend on the size (PLEAT_COST_SIZED_LIST)? @par Cost constant. */
bool pleat_cost_is_sized(pleat_vmm_call_t call);

/** Where a row keeps the cost of a kind that depends on the size. @par Cost constant. */
uint64_t *pleat_cost_of_row(pleat_cost_row_t *row, pleat_vmm_call_t call);

/**
 * Cost of one call. @p bytes matters for kinds that depend on the size only, and those take it from
 * the rows, or from call_ns when the table has no rows.
 * @par Threads any.   @par Cost constant; at most 5 steps among the rows.
 */
uint64_t pleat_cost_of(const pleat_cost_table_t *table, pleat_vmm_call_t call, uint64_t bytes);

/**
 * Read the text form.
 * @param text             @p length bytes; need not end in 0.
 * @param[out] table_out   untouched on failure.
 * @retval PLEAT_ERR_FORMAT  the message gives the line, what stands there and what would be right.
 */
PLEAT_NODISCARD pleat_status_t pleat_cost_table_read(const char *text, size_t length,
                                                     pleat_cost_table_t *table_out);

/**
 * Write the text form, ended by 0; pleat_cost_table_read gives the same table back.
 * @param[out] length_out  bytes written without the 0.
 * @retval PLEAT_ERR_INVALID  the table is malformed or @p capacity too small (PLEAT_COST_TEXT_MAX
 *                            always does); the content of @p buffer is then undefined.
 */
PLEAT_NODISCARD pleat_status_t pleat_cost_table_write(const pleat_cost_table_t *table, char *buffer,
                                                      size_t capacity, size_t *length_out);

#endif
