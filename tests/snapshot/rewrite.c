/*
 * rewrite: reads a memory snapshot and writes it again: rewrite IN OUT [PROTOCOL]
 */
#include <pleat/torch_snapshot_write.h>

#include <stdio.h>
#include <stdlib.h>

static pleat_status_t read_file(void *context, void *buffer, size_t capacity, size_t *count_out)
{
    *count_out = fread(buffer, 1, capacity, context);
    return ferror((FILE *)context) ? PLEAT_ERR_IO : PLEAT_OK;
}

static pleat_status_t rewrite(FILE *in, FILE *out, uint32_t protocol)
{
    pleat_torch_snapshot_t *snapshot = NULL;
    pleat_torch_write_options_t options = PLEAT_TORCH_WRITE_OPTIONS_INIT;
    options.protocol = protocol;
    pleat_status_t status = pleat_torch_snapshot_read(read_file, in, NULL, &snapshot);
    if (status == PLEAT_OK) {
        status = pleat_torch_snapshot_write(snapshot, &options, pleat_torch_write_to_file, out);
    }
    pleat_torch_snapshot_destroy(snapshot);
    return status;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        (void)fputs("usage: rewrite IN OUT [PROTOCOL]\n", stderr);
        return 1;
    }
    FILE *in = fopen(argv[1], "rb");
    FILE *out = fopen(argv[2], "wb");
    if (in == NULL || out == NULL) {
        perror(in == NULL ? argv[1] : argv[2]);
        return 1;
    }
    const uint32_t protocol = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 4;
    const pleat_status_t status = rewrite(in, out, protocol);
    if (status != PLEAT_OK) {
        (void)fprintf(stderr, "%s: %s\n", argv[1], pleat_last_error());
    }
    (void)fclose(in);
    return fclose(out) == 0 && status == PLEAT_OK ? 0 : 1;
}
