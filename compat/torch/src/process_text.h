/*
 * process_text: which processes hold memory of a GPU, for the text of an out of memory, by NVIDIA's
 * management library. It is opened at run time; without it there is no text.
 */
#ifndef PLEAT_TORCH_PROCESS_TEXT_H
#define PLEAT_TORCH_PROCESS_TEXT_H

#include <stddef.h>

/* Whole sentences, each with a blank behind; "" if nothing is known. Cut at the buffer's end. `bus`
 * is the device's address on the PCI bus, as cudaDeviceGetPCIBusId writes it. Threads: any. */
void pleat_process_text(const char *bus, char *buffer, size_t buffer_bytes);

#endif
