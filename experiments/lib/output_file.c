/*
 * output_file: see output_file.h.
 */
#include "output_file.h"

#include "vmm/base.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static pleat_packing_t output_file_packing(const char *path)
{
    static const struct {
        const char *suffix;
        pleat_packing_t packing;
    } suffixes[] = {
        {".gz", PLEAT_PACKING_GZIP}, {".xz", PLEAT_PACKING_XZ}, {".zst", PLEAT_PACKING_ZSTD}};
    const size_t length = strlen(path);
    for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
        const size_t suffix_length = strlen(suffixes[i].suffix);
        if (length > suffix_length &&
            strcmp(path + length - suffix_length, suffixes[i].suffix) == 0) {
            return suffixes[i].packing;
        }
    }
    return PLEAT_PACKING_NONE;
}

static pleat_status_t output_file_refuse(const char *path)
{
    pleat_error_set("%s: cannot write: %s", path, strerror(errno));
    return PLEAT_ERR_IO;
}

/* mkstemp makes private files; the result is as readable as any other new file. */
static FILE *output_file_temporary(char *temporary_path)
{
    const int descriptor = mkstemp(temporary_path);
    const mode_t mask = umask(0);
    (void)umask(mask);
    FILE *file = NULL;
    if (descriptor >= 0 && fchmod(descriptor, 0666 & ~mask) == 0) {
        file = fdopen(descriptor, "wb");
    }
    if (file == NULL && descriptor >= 0) {
        const int cause = errno;
        (void)close(descriptor);
        (void)unlink(temporary_path);
        errno = cause;
    }
    return file;
}

/* Open file->file; the name to write under is decided here. */
static pleat_status_t output_file_begin(pleat_output_file_t *file)
{
    struct stat found;
    if (strcmp(file->path, "-") == 0) {
        file->file = stdout;
        return PLEAT_OK;
    }
    if (stat(file->path, &found) == 0 && !S_ISREG(found.st_mode)) {
        file->file = fopen(file->path, "wb");
        return file->file != NULL ? PLEAT_OK : output_file_refuse(file->path);
    }
    char *temporary_path = NULL;
    if (asprintf(&temporary_path, "%s.XXXXXX", file->path) < 0) {
        pleat_error_set("%s: no memory to write it", file->path);
        return PLEAT_ERR_OOM_HOST;
    }
    file->file = output_file_temporary(temporary_path);
    if (file->file == NULL) {
        const pleat_status_t status = output_file_refuse(file->path);
        free(temporary_path);
        return status;
    }
    file->temporary_path = temporary_path;
    return PLEAT_OK;
}

/* Close what is open. 0, or the cause. */
static int output_file_close(pleat_output_file_t *file)
{
    int cause = 0;
    pleat_output_destroy(file->output);
    file->output = NULL;
    if (file->file != NULL && file->file != stdout && fclose(file->file) != 0) {
        cause = errno;
    }
    file->file = NULL;
    return cause;
}

void pleat_output_file_abandon(pleat_output_file_t *file)
{
    (void)output_file_close(file);
    if (file->temporary_path != NULL) {
        (void)unlink(file->temporary_path);
    }
    free(file->temporary_path);
    free(file->path);
    *file = (pleat_output_file_t){.path = NULL};
}

pleat_status_t pleat_output_file_open(const char *path, pleat_output_file_t *file_out)
{
    pleat_output_file_t file = {.path = strdup(path)};
    pleat_status_t status = PLEAT_ERR_OOM_HOST;
    if (file.path == NULL) {
        pleat_error_set("%s: no memory to write it", path);
        return status;
    }
    status = output_file_begin(&file);
    if (status == PLEAT_OK) {
        status = pleat_output_create(file.file, path, output_file_packing(path), &file.output);
    }
    if (status != PLEAT_OK) {
        pleat_output_file_abandon(&file);
        return status;
    }
    *file_out = file;
    return PLEAT_OK;
}

pleat_status_t pleat_output_file_write(void *file, const void *bytes, size_t byte_count)
{
    return pleat_output_write(((pleat_output_file_t *)file)->output, bytes, byte_count);
}

pleat_status_t pleat_output_file_finish(pleat_output_file_t *file)
{
    pleat_status_t status = pleat_output_finish(file->output);
    const int cause = output_file_close(file);
    if (status == PLEAT_OK && cause != 0) {
        errno = cause;
        status = output_file_refuse(file->path);
    }
    if (status == PLEAT_OK && file->temporary_path != NULL) {
        if (rename(file->temporary_path, file->path) != 0) {
            status = output_file_refuse(file->path);
        } else {
            free(file->temporary_path); /* there is no such file any more */
            file->temporary_path = NULL;
        }
    }
    pleat_output_file_abandon(file);
    return status;
}
