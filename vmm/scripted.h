/*
 * scripted (internal): a simulated device whose memory answers come from a script of driver steps,
 * for the replay of recordings: the recorded address for each allocation that the recording's
 * driver granted, out of memory for all others. Streams, events, faults, the clock and usage are
 * those of a sim; all pleat_sim_* functions work on it.
 */
#ifndef PLEAT_SCRIPTED_H
#define PLEAT_SCRIPTED_H

#include "base.h"

#include <pleat/sim.h>

/* One recorded driver call that succeeded. */
typedef struct pleat_script_step {
    pleat_vmm_call_t call; /* MEM_ALLOC, MEM_FREE, MAP or UNMAP */
    pleat_devptr_t address;
    uint64_t bytes; /* of a MEM_FREE: not looked at */
} pleat_script_step_t;

/**
 * Create a scripted device with an empty script: every mem_alloc fails until steps are given.
 *
 * mem_alloc succeeds exactly if the next unused step is a MEM_ALLOC of its size; that step is used
 * up and its address returned. Otherwise it is PLEAT_ERR_OOM_DEVICE and the script stays.
 * mem_free uses up the next step if that is the MEM_FREE of its address; otherwise the free
 * succeeds all the same, the script stays, and it counts as a stray.
 * A MAP step is the chunks of one mapped run: chunk_create succeeds exactly while the next unused
 * step is a MAP that has room for the chunk, else it is PLEAT_ERR_OOM_DEVICE; the step is used up
 * when chunks were mapped over all of its addresses, in rising order. So is an UNMAP step when its
 * addresses were unmapped. Anything else that is mapped or unmapped counts as a stray.
 * A step that cannot be true (its address overlaps a live one, or more bytes than the device has)
 * is refused with PLEAT_ERR_FORMAT and the script stays.
 *
 * @param total_bytes  of the device; 0: that of the default sim.
 * Errors, threads and cost as pleat_sim_create.
 */
PLEAT_NODISCARD pleat_status_t pleat_scripted_create(uint64_t total_bytes, pleat_vmm_t **vmm_out);

/**
 * Replace what is left of the script by a copy of @p steps.
 * @retval PLEAT_ERR_INVALID   no scripted device, or a step that is malformed; it is named.
 * @retval PLEAT_ERR_OOM_HOST  no host memory for a script longer than all before; nothing changed.
 * @par Threads one at a time for a device.   @par Cost O(count); no host allocation once warm.
 */
PLEAT_NODISCARD pleat_status_t pleat_scripted_expect(pleat_vmm_t *vmm,
                                                     const pleat_script_step_t *steps,
                                                     size_t count);

/**
 * Let the next address range begin at @p address; 0: anywhere. Holds for one range. A MAP step that
 * is not used yet counts more: a range that is made while the script has one begins at its address.
 * @retval PLEAT_ERR_INVALID  no scripted device.   @par Cost constant.
 */
PLEAT_NODISCARD pleat_status_t pleat_scripted_place_range(pleat_vmm_t *vmm, pleat_devptr_t address);

/** Steps not used yet; 0 for a device that is not scripted. @par Cost constant. */
size_t pleat_scripted_left(const pleat_vmm_t *vmm);

/** The next unused step, valid until the next call on the device; NULL: none. @par Cost constant.
 */
const pleat_script_step_t *pleat_scripted_next(const pleat_vmm_t *vmm);

/** Frees so far that the script did not have next. @par Cost constant. */
uint64_t pleat_scripted_strays(const pleat_vmm_t *vmm);

#endif
