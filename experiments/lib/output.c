/*
 * output: see output.h. Packed bytes pass through a buffer; one function a packing empties what the
 * library has made of the plain bytes.
 */
#include "output.h"

#include "vmm/base.h"

#include <errno.h>
#include <limits.h>
#include <lzma.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

enum {
    BUFFER_BYTES = 1 << 16,
    PIECE_BYTES = 1 << 20, /* plain bytes given to a library at once */
    GZIP_LEVEL = 9,
    XZ_LEVEL = 6,
    ZSTD_LEVEL = 15
};

struct pleat_output {
    FILE *file;
    char *name;
    pleat_packing_t packing;
    z_stream gzip;
    lzma_stream xz;
    ZSTD_CStream *zstd;
    uint8_t buffer[BUFFER_BYTES];
};

/* Plain bytes on their way into the library, and what a step made of them. */
typedef struct pleat_output_piece {
    const uint8_t *plain;
    size_t plain_bytes;
    bool is_last;
    size_t plain_taken; /* output of a step */
    size_t packed_made; /* output of a step, in the buffer */
} pleat_output_piece_t;

static bool pleat_output_start(pleat_output_t *output)
{
    const int gzip_only = 16;
    switch (output->packing) {
    case PLEAT_PACKING_GZIP:
        return deflateInit2(&output->gzip, GZIP_LEVEL, Z_DEFLATED, MAX_WBITS + gzip_only,
                            MAX_MEM_LEVEL, Z_DEFAULT_STRATEGY) == Z_OK;
    case PLEAT_PACKING_XZ:
        output->xz = (lzma_stream)LZMA_STREAM_INIT;
        return lzma_easy_encoder(&output->xz, XZ_LEVEL, LZMA_CHECK_CRC64) == LZMA_OK;
    case PLEAT_PACKING_ZSTD:
        output->zstd = ZSTD_createCStream();
        return output->zstd != NULL &&
               !ZSTD_isError(
                   ZSTD_CCtx_setParameter(output->zstd, ZSTD_c_compressionLevel, ZSTD_LEVEL)) &&
               !ZSTD_isError(ZSTD_CCtx_setParameter(output->zstd, ZSTD_c_checksumFlag, 1));
    case PLEAT_PACKING_NONE:
        break;
    }
    return true;
}

pleat_status_t pleat_output_create(FILE *file, const char *name, pleat_packing_t packing,
                                   pleat_output_t **output_out)
{
    pleat_output_t *output = calloc(1, sizeof(*output));
    if (output != NULL) {
        output->file = file;
        output->name = strdup(name);
        output->packing = packing;
        if (output->name != NULL && pleat_output_start(output)) {
            *output_out = output;
            return PLEAT_OK;
        }
    }
    pleat_output_destroy(output);
    pleat_error_set("%s: no memory to write it", name);
    return PLEAT_ERR_OOM_HOST;
}

void pleat_output_destroy(pleat_output_t *output)
{
    if (output == NULL) {
        return;
    }
    if (output->packing == PLEAT_PACKING_GZIP) {
        (void)deflateEnd(&output->gzip);
    } else if (output->packing == PLEAT_PACKING_XZ) {
        lzma_end(&output->xz);
    } else if (output->packing == PLEAT_PACKING_ZSTD) {
        (void)ZSTD_freeCStream(output->zstd);
    }
    free(output->name);
    free(output);
}

static pleat_status_t pleat_output_put(pleat_output_t *output, const void *bytes, size_t byte_count)
{
    if (byte_count > 0 && fwrite(bytes, 1, byte_count, output->file) != byte_count) {
        pleat_error_set("%s: cannot write: %s", output->name, strerror(errno));
        return PLEAT_ERR_IO;
    }
    return PLEAT_OK;
}

/* Each of the following packs one piece as far as one buffer holds; true: nothing is left of the
 * piece, or, of the last one, of the stream. */
static bool pleat_output_step_gzip(pleat_output_t *output, pleat_output_piece_t *piece)
{
    z_stream *gzip = &output->gzip;
    gzip->next_in = (z_const Bytef *)(uintptr_t)piece->plain;
    gzip->avail_in = (uInt)piece->plain_bytes;
    gzip->next_out = output->buffer;
    gzip->avail_out = BUFFER_BYTES;
    const int result = deflate(gzip, piece->is_last ? Z_FINISH : Z_NO_FLUSH);
    piece->plain_taken = piece->plain_bytes - gzip->avail_in;
    piece->packed_made = BUFFER_BYTES - gzip->avail_out;
    return result == Z_STREAM_END || (!piece->is_last && gzip->avail_in == 0);
}

static bool pleat_output_step_xz(pleat_output_t *output, pleat_output_piece_t *piece)
{
    lzma_stream *xz = &output->xz;
    xz->next_in = piece->plain;
    xz->avail_in = piece->plain_bytes;
    xz->next_out = output->buffer;
    xz->avail_out = BUFFER_BYTES;
    const lzma_ret result = lzma_code(xz, piece->is_last ? LZMA_FINISH : LZMA_RUN);
    piece->plain_taken = piece->plain_bytes - xz->avail_in;
    piece->packed_made = BUFFER_BYTES - xz->avail_out;
    return result == LZMA_STREAM_END || (!piece->is_last && xz->avail_in == 0);
}

static bool pleat_output_step_zstd(pleat_output_t *output, pleat_output_piece_t *piece)
{
    ZSTD_inBuffer plain = {.src = piece->plain, .size = piece->plain_bytes, .pos = 0};
    ZSTD_outBuffer packed = {.dst = output->buffer, .size = BUFFER_BYTES, .pos = 0};
    const size_t rest = ZSTD_compressStream2(output->zstd, &packed, &plain,
                                             piece->is_last ? ZSTD_e_end : ZSTD_e_continue);
    piece->plain_taken = plain.pos;
    piece->packed_made = packed.pos;
    return piece->is_last ? rest == 0 : plain.pos == plain.size;
}

static pleat_status_t pleat_output_pack(pleat_output_t *output, pleat_output_piece_t *piece)
{
    bool is_done = false;
    while (!is_done) {
        if (output->packing == PLEAT_PACKING_GZIP) {
            is_done = pleat_output_step_gzip(output, piece);
        } else if (output->packing == PLEAT_PACKING_XZ) {
            is_done = pleat_output_step_xz(output, piece);
        } else {
            is_done = pleat_output_step_zstd(output, piece);
        }
        if (!is_done && piece->plain_taken == 0 && piece->packed_made == 0) {
            pleat_error_set("%s: no memory to pack it", output->name);
            return PLEAT_ERR_OOM_HOST;
        }
        const pleat_status_t status = pleat_output_put(output, output->buffer, piece->packed_made);
        if (status != PLEAT_OK) {
            return status;
        }
        piece->plain += piece->plain_taken;
        piece->plain_bytes -= piece->plain_taken;
    }
    return PLEAT_OK;
}

pleat_status_t pleat_output_write(pleat_output_t *output, const void *bytes, size_t byte_count)
{
    if (output->packing == PLEAT_PACKING_NONE) {
        return pleat_output_put(output, bytes, byte_count);
    }
    const uint8_t *cursor = bytes;
    while (byte_count > 0) {
        const size_t taken = byte_count < PIECE_BYTES ? byte_count : PIECE_BYTES;
        pleat_output_piece_t piece = {.plain = cursor, .plain_bytes = taken};
        const pleat_status_t status = pleat_output_pack(output, &piece);
        if (status != PLEAT_OK) {
            return status;
        }
        cursor += taken;
        byte_count -= taken;
    }
    return PLEAT_OK;
}

pleat_status_t pleat_output_finish(pleat_output_t *output)
{
    if (output->packing != PLEAT_PACKING_NONE) {
        pleat_output_piece_t piece = {.is_last = true, .plain = output->buffer};
        const pleat_status_t status = pleat_output_pack(output, &piece);
        if (status != PLEAT_OK) {
            return status;
        }
    }
    if (fflush(output->file) != 0 || ferror(output->file) != 0) {
        pleat_error_set("%s: cannot write: %s", output->name, strerror(errno));
        return PLEAT_ERR_IO;
    }
    return PLEAT_OK;
}
