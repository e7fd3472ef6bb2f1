/*
 * replay_main: runs a fuzz target over the files of its corpus, for builds without libFuzzer.
 *
 * Usage: fuzz_<name> <folder or file>... Every file is given to the target once, in the order of
 * names. Returns 0 when all ran (a failing target aborts), 1 when a file cannot be read, 77 when
 * there was none.
 */
#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_INPUT_BYTES = 1 << 20, MAX_PATH_BYTES = 4096 };

static bool replay_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(MAX_INPUT_BYTES);
    if (file == NULL || data == NULL) {
        fprintf(stderr, "cannot read %s\n", path);
        free(data);
        if (file != NULL) {
            (void)fclose(file);
        }
        return false;
    }
    const size_t size = fread(data, 1, MAX_INPUT_BYTES, file);
    const bool good = ferror(file) == 0;
    (void)fclose(file);
    if (good) {
        /* A copy of the exact size lets the address sanitizer see a read past the end. */
        uint8_t *exact = realloc(data, size > 0 ? size : 1);
        data = exact != NULL ? exact : data;
        (void)LLVMFuzzerTestOneInput(data, size);
    }
    free(data);
    return good;
}

/* Number of files replayed, negative on failure. */
static int replay_folder(const char *path)
{
    struct dirent **entries = NULL;
    const int entry_count = scandir(path, &entries, NULL, alphasort);
    int replayed = entry_count < 0 ? -1 : 0;
    for (int i = 0; i < entry_count; i++) {
        char file_path[MAX_PATH_BYTES];
        const int length =
            snprintf(file_path, sizeof(file_path), "%s/%s", path, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.' && replayed >= 0) {
            const bool fits = length > 0 && (size_t)length < sizeof(file_path);
            replayed = fits && replay_file(file_path) ? replayed + 1 : -1;
        }
        free(entries[i]);
    }
    free(entries);
    return replayed;
}

int main(int argc, char **argv)
{
    int total = 0;
    for (int i = 1; i < argc; i++) {
        struct stat status;
        if (stat(argv[i], &status) != 0) {
            fprintf(stderr, "no such file or folder: %s\n", argv[i]);
            return 1;
        }
        const int replayed =
            S_ISDIR(status.st_mode) ? replay_folder(argv[i]) : (replay_file(argv[i]) ? 1 : -1);
        if (replayed < 0) {
            return 1;
        }
        total += replayed;
    }
    printf("%d inputs replayed\n", total);
    return total > 0 ? 0 : 77;
}
