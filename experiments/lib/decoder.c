/*
 * decoder: see decoder.h. One function a packing brings the three libraries to the same contract:
 * take and make what fits, and say whether the stream may end here.
 *
 * Invariants:
 *   D1  is_between is true before the first byte of a stream and after the last: the only places
 *       where the input may end.
 */
#include "decoder.h"

#include "vmm/base.h"

#include <limits.h>
#include <lzma.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

/* An xz file can ask for a dictionary of up to 4 GiB; xz -9 asks for 64 MiB. */
static const uint64_t xz_memory_limit_bytes = UINT64_C(2) << 30;

struct pleat_decoder {
    pleat_packing_t packing;
    bool is_between;
    z_stream gzip;
    lzma_stream xz;
    ZSTD_DStream *zstd;
};

pleat_packing_t pleat_packing_recognize(const uint8_t *bytes, size_t byte_count)
{
    static const uint8_t gzip_magic[] = {0x1f, 0x8b};
    static const uint8_t xz_magic[] = {0xfd, '7', 'z', 'X', 'Z', 0};
    static const uint8_t zstd_magic[] = {0x28, 0xb5, 0x2f, 0xfd};
    if (byte_count >= sizeof(gzip_magic) && memcmp(bytes, gzip_magic, sizeof(gzip_magic)) == 0) {
        return PLEAT_PACKING_GZIP;
    }
    if (byte_count >= sizeof(xz_magic) && memcmp(bytes, xz_magic, sizeof(xz_magic)) == 0) {
        return PLEAT_PACKING_XZ;
    }
    if (byte_count >= sizeof(zstd_magic) && memcmp(bytes, zstd_magic, sizeof(zstd_magic)) == 0) {
        return PLEAT_PACKING_ZSTD;
    }
    return PLEAT_PACKING_NONE;
}

const char *pleat_packing_name(pleat_packing_t packing)
{
    switch (packing) {
    case PLEAT_PACKING_GZIP:
        return "gzip";
    case PLEAT_PACKING_XZ:
        return "xz";
    case PLEAT_PACKING_ZSTD:
        return "zstd";
    case PLEAT_PACKING_NONE:
        break;
    }
    return "plain";
}

static bool pleat_decoder_start(pleat_decoder_t *decoder)
{
    switch (decoder->packing) {
    case PLEAT_PACKING_GZIP: {
        const int gzip_only = 16;
        return inflateInit2(&decoder->gzip, MAX_WBITS + gzip_only) == Z_OK;
    }
    case PLEAT_PACKING_XZ:
        decoder->xz = (lzma_stream)LZMA_STREAM_INIT;
        return lzma_stream_decoder(&decoder->xz, xz_memory_limit_bytes, LZMA_CONCATENATED) ==
               LZMA_OK;
    case PLEAT_PACKING_ZSTD:
        decoder->zstd = ZSTD_createDStream();
        return decoder->zstd != NULL;
    case PLEAT_PACKING_NONE:
        break;
    }
    return false;
}

pleat_status_t pleat_decoder_create(pleat_packing_t packing, pleat_decoder_t **decoder_out)
{
    pleat_decoder_t *decoder = calloc(1, sizeof(*decoder));
    if (decoder != NULL) {
        decoder->packing = packing;
        decoder->is_between = true;
        if (pleat_decoder_start(decoder)) {
            *decoder_out = decoder;
            return PLEAT_OK;
        }
    }
    free(decoder);
    pleat_error_set("no memory to unpack %s data", pleat_packing_name(packing));
    return PLEAT_ERR_OOM_HOST;
}

void pleat_decoder_destroy(pleat_decoder_t *decoder)
{
    if (decoder == NULL) {
        return;
    }
    if (decoder->packing == PLEAT_PACKING_GZIP) {
        (void)inflateEnd(&decoder->gzip);
    } else if (decoder->packing == PLEAT_PACKING_XZ) {
        lzma_end(&decoder->xz);
    } else {
        (void)ZSTD_freeDStream(decoder->zstd);
    }
    free(decoder);
}

static pleat_status_t pleat_decoder_run_gzip(pleat_decoder_t *decoder, pleat_decoder_step_t *step,
                                             const char **cause_out)
{
    z_stream *gzip = &decoder->gzip;
    const size_t packed_bytes = step->packed_bytes < INT_MAX ? step->packed_bytes : INT_MAX;
    const size_t capacity = step->plain_capacity < INT_MAX ? step->plain_capacity : INT_MAX;
    if (decoder->is_between && packed_bytes == 0) {
        return PLEAT_OK;
    }
    if (decoder->is_between && inflateReset(gzip) != Z_OK) {
        *cause_out = "cannot be unpacked";
        return PLEAT_ERR_FORMAT;
    }
    decoder->is_between = false;
    gzip->next_in = (z_const Bytef *)(uintptr_t)step->packed;
    gzip->avail_in = (uInt)packed_bytes;
    gzip->next_out = step->plain;
    gzip->avail_out = (uInt)capacity;
    const int result = inflate(gzip, Z_NO_FLUSH);
    step->packed_taken = packed_bytes - gzip->avail_in;
    step->plain_made = capacity - gzip->avail_out;
    if (result == Z_STREAM_END) {
        decoder->is_between = true;
        return PLEAT_OK;
    }
    if (result == Z_OK || result == Z_BUF_ERROR) {
        return PLEAT_OK;
    }
    *cause_out = gzip->msg != NULL ? gzip->msg : "damaged data";
    return result == Z_MEM_ERROR ? PLEAT_ERR_OOM_HOST : PLEAT_ERR_FORMAT;
}

static const char *pleat_decoder_xz_cause(lzma_ret result)
{
    if (result == LZMA_MEMLIMIT_ERROR) {
        return "needs more than 2 GiB of memory to unpack";
    }
    if (result == LZMA_FORMAT_ERROR) {
        return "unexpected bytes behind the end of the xz data";
    }
    if (result == LZMA_OPTIONS_ERROR) {
        return "unsupported xz options";
    }
    return "damaged data";
}

static pleat_status_t pleat_decoder_run_xz(pleat_decoder_t *decoder, pleat_decoder_step_t *step,
                                           const char **cause_out)
{
    lzma_stream *xz = &decoder->xz;
    xz->next_in = step->packed;
    xz->avail_in = step->packed_bytes;
    xz->next_out = step->plain;
    xz->avail_out = step->plain_capacity;
    decoder->is_between = false;
    const lzma_ret result = lzma_code(xz, step->is_last ? LZMA_FINISH : LZMA_RUN);
    step->packed_taken = step->packed_bytes - xz->avail_in;
    step->plain_made = step->plain_capacity - xz->avail_out;
    if (result == LZMA_STREAM_END) {
        decoder->is_between = true;
        return PLEAT_OK;
    }
    if (result == LZMA_OK || result == LZMA_BUF_ERROR) {
        return PLEAT_OK;
    }
    *cause_out = pleat_decoder_xz_cause(result);
    return result == LZMA_MEM_ERROR ? PLEAT_ERR_OOM_HOST : PLEAT_ERR_FORMAT;
}

static pleat_status_t pleat_decoder_run_zstd(pleat_decoder_t *decoder, pleat_decoder_step_t *step,
                                             const char **cause_out)
{
    ZSTD_inBuffer packed = {.src = step->packed, .size = step->packed_bytes, .pos = 0};
    ZSTD_outBuffer plain = {.dst = step->plain, .size = step->plain_capacity, .pos = 0};
    if (decoder->is_between && packed.size == 0) {
        return PLEAT_OK;
    }
    const size_t result = ZSTD_decompressStream(decoder->zstd, &plain, &packed);
    step->packed_taken = packed.pos;
    step->plain_made = plain.pos;
    if (ZSTD_isError(result)) {
        *cause_out = ZSTD_getErrorName(result);
        return PLEAT_ERR_FORMAT;
    }
    decoder->is_between = result == 0;
    return PLEAT_OK;
}

pleat_status_t pleat_decoder_run(pleat_decoder_t *decoder, pleat_decoder_step_t *step,
                                 const char **cause_out)
{
    step->packed_taken = 0;
    step->plain_made = 0;
    if (step->plain_capacity == 0) {
        return PLEAT_OK;
    }
    pleat_status_t status = PLEAT_OK;
    if (decoder->packing == PLEAT_PACKING_GZIP) {
        status = pleat_decoder_run_gzip(decoder, step, cause_out);
    } else if (decoder->packing == PLEAT_PACKING_XZ) {
        status = pleat_decoder_run_xz(decoder, step, cause_out);
    } else {
        status = pleat_decoder_run_zstd(decoder, step, cause_out);
    }
    if (status != PLEAT_OK) {
        return status;
    }
    const bool is_stuck = step->packed_taken == step->packed_bytes && step->plain_made == 0;
    if (step->is_last && is_stuck && !decoder->is_between) {
        *cause_out = "truncated: the end is missing";
        return PLEAT_ERR_FORMAT;
    }
    return PLEAT_OK;
}
