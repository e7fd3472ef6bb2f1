/*
 * chunk_file (internal): a chunk of a simulated device as a memory file of its own, so that another
 * process can have it. A file without contents costs nothing.
 * No lock; no state.
 */
#ifndef PLEAT_CHUNK_FILE_H
#define PLEAT_CHUNK_FILE_H

#include "base.h"

/* What the host says of a file; device and number together name it on this host. */
typedef struct pleat_chunk_file {
    uint64_t bytes;
    uint64_t device;
    uint64_t number;
} pleat_chunk_file_t;

/** Make a file of @p bytes, all zero. @retval PLEAT_ERR_OOM_HOST the host gives none. */
PLEAT_NODISCARD pleat_status_t pleat_chunk_file_make(uint64_t bytes, int *file_out);

/** One more descriptor of a file. @retval PLEAT_ERR_OOM_HOST the host gives none. */
PLEAT_NODISCARD pleat_status_t pleat_chunk_file_copy(int file, int *copy_out);

/** What a descriptor leads to; false if that is no chunk of a sim. */
bool pleat_chunk_file_read(int file, pleat_chunk_file_t *facts_out);

#endif
