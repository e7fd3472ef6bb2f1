/*
 * decoder: unpacks a compressed stream (gzip, xz, zstd) piece by piece, whatever its length, in
 * bounded memory. It checks the checksums of the formats and that the stream is complete. What the
 * bytes come from and go to is its caller's matter (input).
 * Locks: none; a decoder belongs to one thread at a time.
 */
#ifndef PLEAT_EXPERIMENTS_DECODER_H
#define PLEAT_EXPERIMENTS_DECODER_H

#include <pleat/base.h>

typedef enum pleat_packing {
    PLEAT_PACKING_NONE,
    PLEAT_PACKING_GZIP,
    PLEAT_PACKING_XZ,
    PLEAT_PACKING_ZSTD
} pleat_packing_t;

typedef struct pleat_decoder pleat_decoder_t;

/* One step: what is offered, and what was taken and made of it. */
typedef struct pleat_decoder_step {
    const uint8_t *packed;
    size_t packed_bytes;
    bool is_last; /* nothing follows the packed bytes */
    uint8_t *plain;
    size_t plain_capacity;
    size_t packed_taken; /* output */
    size_t plain_made;   /* output */
} pleat_decoder_step_t;

/* How a stream that begins with these bytes is packed; six bytes are enough. */
pleat_packing_t pleat_packing_recognize(const uint8_t *bytes, size_t byte_count);

/* Name of a packing, for messages: "gzip". */
const char *pleat_packing_name(pleat_packing_t packing);

/**
 * Create a decoder of a packing other than NONE.
 * @retval PLEAT_ERR_OOM_HOST  no host memory.
 */
PLEAT_NODISCARD pleat_status_t pleat_decoder_create(pleat_packing_t packing,
                                                    pleat_decoder_t **decoder_out);

/** Free a decoder; NULL is ignored. */
void pleat_decoder_destroy(pleat_decoder_t *decoder);

/**
 * Unpack as much as fits. Several streams one after the other count as one.
 *
 * @param[out] cause_out  static text of what is wrong, set with PLEAT_ERR_FORMAT.
 * @retval PLEAT_ERR_FORMAT    damaged; or truncated: the last bytes were taken and more is needed.
 * @retval PLEAT_ERR_OOM_HOST  no host memory.
 */
PLEAT_NODISCARD pleat_status_t pleat_decoder_run(pleat_decoder_t *decoder,
                                                 pleat_decoder_step_t *step,
                                                 const char **cause_out);

#endif
