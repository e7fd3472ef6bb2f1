/*
 * fuzz target: any bytes as the columns of a block of the compact form, behind the checksums that
 * keep other targets out. Nothing but clean errors may come of it, and every event that is read
 * must be one that a trace may have.
 *
 * The first bytes say how the rest is shared among the columns, each as a part of 256.
 */
#include "trace_event_code.h"
#include "trace_text.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void share_columns(pleat_trace_block_t *block, const uint8_t *data, size_t size)
{
    const uint8_t *rest = data + PLEAT_COLUMN_COUNT;
    size_t rest_bytes = size - PLEAT_COLUMN_COUNT;
    for (int i = 0; i < PLEAT_COLUMN_COUNT; i++) {
        const size_t bytes = rest_bytes * data[i] / 256;
        if (!pleat_bytes_reserve(&block->columns[i], bytes)) {
            abort();
        }
        memcpy(block->columns[i].data, rest, bytes);
        block->columns[i].count = bytes;
        rest += bytes;
        rest_bytes -= bytes;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < PLEAT_COLUMN_COUNT) {
        return 0;
    }
    pleat_trace_block_t block = {0};
    pleat_trace_coder_t coder;
    share_columns(&block, data, size);
    pleat_trace_coder_init(&coder);
    pleat_status_t status = PLEAT_OK;
    while (status == PLEAT_OK) {
        pleat_trace_event_t events[2];
        size_t count = 0;
        const char *cause = NULL;
        status = pleat_trace_coder_get(&coder, &block, events, &count, &cause);
        for (size_t i = 0; i < count && status == PLEAT_OK; i++) {
            if (pleat_trace_event_fault(&events[i]) != NULL) {
                abort();
            }
        }
        if (status != PLEAT_OK && cause == NULL) {
            abort();
        }
    }
    pleat_trace_coder_fini(&coder);
    pleat_trace_block_fini(&block);
    return 0;
}
