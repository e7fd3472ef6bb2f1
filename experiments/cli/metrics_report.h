/*
 * metrics_report: the metrics of replays, for people and for machines.
 */
#ifndef PLEAT_CLI_METRICS_REPORT_H
#define PLEAT_CLI_METRICS_REPORT_H

#include "metrics.h"
#include "program.h"

/** One replay of @p program as a JSON object on a line. 0, or an exit status after a message. */
int pleat_cli_metrics_print_json(const pleat_metrics_t *metrics, const pleat_program_t *program);

/** One replay as a list: metric, value, meaning. Result as above. */
int pleat_cli_metrics_print_list(const pleat_metrics_t *metrics);

/**
 * Replays as a table, a row each; the column of traces is there if @p has_traces. Result as above.
 */
int pleat_cli_metrics_print_table(const pleat_metrics_t *metrics, size_t count, bool has_traces);

/** What replays of one trace mean, in a line or two of plain words. */
void pleat_cli_metrics_print_words(const pleat_metrics_t *metrics, size_t count);

/** The line that says which of the numbers are simulated. */
void pleat_cli_metrics_print_note(bool has_own_costs);

#endif
