/*
 * contract_device: a device under contract: a simulated one, with or without contents, or a GPU.
 * What the checks do to it beside the operations table: make a stream busy, fill and check words.
 */
#ifndef PLEAT_TEST_CONTRACT_DEVICE_H
#define PLEAT_TEST_CONTRACT_DEVICE_H

#include "gpu_device.h"

#define CONTRACT_STREAMS 3

typedef struct contract_device {
    pleat_vmm_t *vmm;
    pleat_gpu_t *gpu; /* NULL: simulated */
    bool has_contents;
    pleat_stream_t streams[CONTRACT_STREAMS];
    pleat_gpu_spin_t spins[CONTRACT_STREAMS];
    pleat_devptr_t counter; /* of wrong words, on a GPU */
    const char *driver;     /* file of the driver; NULL: the default, or simulated */
    char **arguments;       /* of the program */
} contract_device_t;

/* Open what "--device sim|unbacked|cuda" says. Exits when that is not possible. */
contract_device_t contract_open(int argc, char **argv);
void contract_close(contract_device_t *device);

/* Work on a stream that does not end until it is told to, or after a second. */
void contract_begin_work(contract_device_t *device, uint32_t stream);
void contract_end_work(contract_device_t *device, uint32_t stream);

/* Work that ends after some milliseconds; on a simulated device: when the host waits for it. */
void contract_short_work(contract_device_t *device, uint32_t stream);

/* Wait for all that was queued. */
PLEAT_NODISCARD pleat_status_t contract_finish(contract_device_t *device);

/* Queue a fill with a pattern; queue a check and wait for its number of wrong words. Without
 * contents nothing is done, and 0 is wrong. */
void contract_fill(contract_device_t *device, uint32_t stream, pleat_devptr_t ptr, uint64_t words,
                   uint32_t seed);
uint64_t contract_wrong(contract_device_t *device, uint32_t stream, pleat_devptr_t ptr,
                        uint64_t words, uint32_t seed);

#endif
