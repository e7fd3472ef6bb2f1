/*
 * delayed_device: a simulated device with real memory whose kernels run late. What a test launches
 * on a stream is kept, and runs when the device says that an event behind it is complete, when
 * something waits for it, or when the test lets the device run ahead; in stream order, and behind
 * the waits that were put between streams, but otherwise in any order. So an order that the
 * allocator forgot to ask for really yields wrong bytes, and memory that goes too early really
 * faults.
 *
 * It is a table of operations around that of a sim, which keeps time and counts; it also watches
 * that the sim is used rightly: see delayed_device_complaint.
 */
#ifndef PLEAT_TEST_DELAYED_DEVICE_H
#define PLEAT_TEST_DELAYED_DEVICE_H

#include <pleat/vmm.h>

#include "delayed_kernel.h"
#include "physical_map.h"

enum { DELAYED_STREAMS_MAX = 8 };

typedef struct delayed_device delayed_device_t;

/* An allocator's device is delayed_device_vmm, which the device owns. Destroyed with it. */
delayed_device_t *delayed_device_create(uint64_t capacity_bytes);
void delayed_device_destroy(delayed_device_t *device);

pleat_vmm_t *delayed_device_vmm(const delayed_device_t *device);

/* The sim underneath, for pleat_sim_*. */
pleat_vmm_t *delayed_device_sim(const delayed_device_t *device);

/* What the tests know of the device's memory. */
physical_map_t *delayed_device_memory(delayed_device_t *device);

/* Launch a kernel on a stream; for the sim it takes @p duration_ns. */
void delayed_device_launch(delayed_device_t *device, pleat_stream_t stream,
                           const delayed_kernel_t *kernel, uint64_t duration_ns);

/* Let a stream wait for all that is on another one now, as a user does. */
void delayed_device_join(delayed_device_t *device, pleat_stream_t stream, pleat_stream_t other);

/* Run up to @p count of the kernels of a stream whose waits are over. */
void delayed_device_run_ahead(delayed_device_t *device, pleat_stream_t stream, uint64_t count);

/* The host waits for a stream. */
void delayed_device_synchronize(delayed_device_t *device, pleat_stream_t stream);

/* Run everything, and let the sim be done with it. */
void delayed_device_finish(delayed_device_t *device);

/* Let the @p nth call of a kind through the table fail from now on, once; 0: none. The kind
 * PLEAT_VMM_CALL_COUNT stands for any. One fault can be pending; what the test itself does is not
 * struck. */
void delayed_device_fail_call(delayed_device_t *device, pleat_vmm_call_t call, uint64_t nth,
                              pleat_status_t status);

/* Failures that the device returned so far: seeded ones, and others than a full device. */
uint64_t delayed_device_failures(const delayed_device_t *device);

/* Events of the device itself, which a count of the sim's finds beside the allocator's. */
#define DELAYED_DEVICE_EVENTS 1u

/* Bytes of chunks, and ranges of addresses, that the device refused to take back. */
uint64_t delayed_device_lost_bytes(const delayed_device_t *device);
uint64_t delayed_device_lost_ranges(const delayed_device_t *device);

/* The first thing wrong: a kernel that found other bytes or no memory, a wrong call, memory that is
 * live twice. Empty: nothing. */
const char *delayed_device_complaint(const delayed_device_t *device);

#endif
