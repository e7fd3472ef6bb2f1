/*
 * output: bytes into an open file, packed on the way if wanted (gzip, xz, zstd): the opposite of
 * input. The file stays its owner's.
 * Locks: none; an output belongs to one thread at a time.
 */
#ifndef PLEAT_EXPERIMENTS_OUTPUT_H
#define PLEAT_EXPERIMENTS_OUTPUT_H

#include "decoder.h"

#include <stdio.h>

typedef struct pleat_output pleat_output_t;

/**
 * Begin to write into @p file, which must outlive the output.
 * @param name  of the file, for messages; copied.
 * @retval PLEAT_ERR_OOM_HOST  no host memory.
 */
PLEAT_NODISCARD pleat_status_t pleat_output_create(FILE *file, const char *name,
                                                   pleat_packing_t packing,
                                                   pleat_output_t **output_out);

/**
 * Write bytes. @retval PLEAT_ERR_IO writing failed. @retval PLEAT_ERR_OOM_HOST no host memory.
 */
PLEAT_NODISCARD pleat_status_t pleat_output_write(pleat_output_t *output, const void *bytes,
                                                  size_t byte_count);

/** Write what is still held back and flush the file; nothing may be written afterwards. */
PLEAT_NODISCARD pleat_status_t pleat_output_finish(pleat_output_t *output);

/** Free an output, finished or not; NULL is ignored. */
void pleat_output_destroy(pleat_output_t *output);

#endif
