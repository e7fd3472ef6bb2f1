/*
 * dump_pickle FILE...: every pickle as a line of text, for check_reader.py.
 */
#include "pickle_dump.h"
#include "pickle_reader.h"

static pleat_status_t read_file(void *context, void *buffer, size_t capacity, size_t *count_out)
{
    *count_out = fread(buffer, 1, capacity, context);
    return PLEAT_OK;
}

static int dump_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        (void)fprintf(stderr, "%s: cannot open\n", path);
        return 1;
    }
    const pleat_pickle_source_t source = {
        .read = read_file, .context = file, .name = path, .limit_name = "the limit"};
    pleat_pickle_storage_t storage;
    pleat_pickle_value_t value = PLEAT_PICKLE_VALUE_ABSENT;
    pleat_pickle_storage_init(&storage, UINT64_C(1) << 30);
    const pleat_status_t status = pleat_pickle_read(&source, &storage, &value);
    if (status == PLEAT_OK) {
        pickle_dump(stdout, value, 0);
        (void)fputc('\n', stdout);
    } else {
        (void)fprintf(stderr, "%s\n", pleat_last_error());
    }
    pleat_pickle_storage_fini(&storage);
    (void)fclose(file);
    return status == PLEAT_OK ? 0 : 1;
}

int main(int argc, char **argv)
{
    int status = 0;
    for (int i = 1; i < argc; i++) {
        status |= dump_file(argv[i]);
    }
    return status;
}
