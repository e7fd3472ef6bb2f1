/*
 * chunk_file: memfd_create and fstat.
 */
#include "chunk_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_NAME "pleat-chunk"

/* How the host shows it. */
#define FILE_LINK "/memfd:" FILE_NAME " "

pleat_status_t pleat_chunk_file_make(uint64_t bytes, int *file_out)
{
    PLEAT_ASSERT(bytes <= INT64_MAX);
    const int file = memfd_create(FILE_NAME, MFD_CLOEXEC);
    if (file >= 0 && ftruncate(file, (off_t)bytes) == 0) {
        *file_out = file;
        return PLEAT_OK;
    }
    pleat_error_set("sim: the host gives no memory file for a chunk of %" PRIu64 " bytes: %s",
                    bytes, strerror(errno));
    if (file >= 0) {
        (void)close(file);
    }
    return PLEAT_ERR_OOM_HOST;
}

pleat_status_t pleat_chunk_file_copy(int file, int *copy_out)
{
    const int copy = fcntl(file, F_DUPFD_CLOEXEC, 0);
    if (copy < 0) {
        pleat_error_set("sim: the host gives no descriptor for a chunk: %s", strerror(errno));
        return PLEAT_ERR_OOM_HOST;
    }
    *copy_out = copy;
    return PLEAT_OK;
}

bool pleat_chunk_file_read(int file, pleat_chunk_file_t *facts_out)
{
    char path[64];
    char link[64] = "";
    struct stat facts;
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    if (readlink(path, link, sizeof link - 1) < 0 ||
        strncmp(link, FILE_LINK, sizeof FILE_LINK - 1) != 0 || fstat(file, &facts) != 0 ||
        facts.st_size <= 0) {
        return false;
    }
    *facts_out = (pleat_chunk_file_t){.bytes = (uint64_t)facts.st_size,
                                      .device = (uint64_t)facts.st_dev,
                                      .number = (uint64_t)facts.st_ino};
    return true;
}
