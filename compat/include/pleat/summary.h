/*
 * summary: the table of torch.cuda.memory_summary() of PyTorch 2.11, byte for byte.
 */
#ifndef PLEAT_SUMMARY_H
#define PLEAT_SUMMARY_H

#include <pleat/stats.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Enough for a summary of counters of any size. */
#define PLEAT_SUMMARY_BYTES 8192

/**
 * Write the summary; works as snprintf.
 *
 * @param stats           from pleat_read_stats.
 * @param device          number of the device, for the title.
 * @param is_abbreviated  only totals, without the rows of the two pools.
 * @param[out] buffer     text with a null byte, cut at @p buffer_bytes; may be NULL if that is 0.
 * @return length of the whole summary without the null byte, even if it was cut.
 * @par Threads any.   @par Cost about 40 formatted lines.
 */
PLEAT_API size_t pleat_memory_summary(const pleat_stats_t *stats, int device, bool is_abbreviated,
                                      char *buffer, size_t buffer_bytes);

#ifdef __cplusplus
}
#endif
#endif
