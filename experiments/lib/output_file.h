/*
 * output_file: an output into a file of a given name, which appears only when it is complete: it is
 * written under a temporary name in its folder and renamed at the end. A name that stands for
 * something else than a plain file (a terminal, a pipe, /dev/null) is written directly, and "-" is
 * standard output. A name that ends in .gz, .xz or .zst is packed.
 * Locks: none; a file belongs to one thread at a time.
 */
#ifndef PLEAT_EXPERIMENTS_OUTPUT_FILE_H
#define PLEAT_EXPERIMENTS_OUTPUT_FILE_H

#include "output.h"

typedef struct pleat_output_file {
    char *path;
    char *temporary_path; /* NULL: written directly */
    FILE *file;
    pleat_output_t *output;
} pleat_output_file_t;

/**
 * Begin to write.
 * @param[out] file_out  ended by finish or abandon; needs neither after a failure.
 * @retval PLEAT_ERR_IO        the message names the path and the cause.
 * @retval PLEAT_ERR_OOM_HOST  no host memory.
 */
PLEAT_NODISCARD pleat_status_t pleat_output_file_open(const char *path,
                                                      pleat_output_file_t *file_out);

/** A write function for whoever takes one: @p file is a pleat_output_file_t. As pleat_output_write.
 */
PLEAT_NODISCARD pleat_status_t pleat_output_file_write(void *file, const void *bytes,
                                                       size_t byte_count);

/** Complete the file and give it its name. @retval PLEAT_ERR_IO nothing is left of it. */
PLEAT_NODISCARD pleat_status_t pleat_output_file_finish(pleat_output_file_t *file);

/** Leave no file behind; one that was finished or never opened is left alone. */
void pleat_output_file_abandon(pleat_output_file_t *file);

#endif
