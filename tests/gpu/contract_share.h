/*
 * contract_share: the checks of the contract about other processes and devices. What a machine
 * cannot do is printed as skipped, with the reason, and holds.
 *
 * A process that exports is started anew, because the driver of a GPU does not survive a fork:
 *
 *   gpu_contract --device KIND [--driver FILE] --export MODE --to FD --from FD
 *
 * It writes the description of a filled block to one descriptor, waits for a word on the other, and
 * exits with 0 if the block then holds what the importer should have written.
 */
#ifndef PLEAT_TEST_CONTRACT_SHARE_H
#define PLEAT_TEST_CONTRACT_SHARE_H

#include "contract_device.h"

void check_a_chunk_comes_back_from_a_descriptor(contract_device_t *device);
void check_another_process_uses_chunks(contract_device_t *device);
void check_another_process_uses_plain_memory(contract_device_t *device);
void check_another_device_uses_mappings(contract_device_t *device);

/* The process that exports. Returns its exit status. */
int contract_share_export(contract_device_t *device, int argc, char **argv);

#endif
