/*
 * sim (internal): the part of the simulated device that scripted.c shares: a sim takes its
 * addresses from a placer. The public side is pleat/sim.h.
 */
#ifndef PLEAT_SIM_INTERNAL_H
#define PLEAT_SIM_INTERNAL_H

#include "span_tree.h"

#include <pleat/sim.h>

typedef struct pleat_sim pleat_sim_t;

/*
 * Where allocations go. take sets the address of an allocation that is not charged or entered yet,
 * or fails and changes nothing; give is told of each allocation that ends, after it left the set
 * of live ones.
 */
typedef struct pleat_sim_placer {
    const char *name; /* of the device, for messages */
    pleat_status_t (*take)(void *self, pleat_sim_t *sim, uint64_t bytes, pleat_devptr_t *ptr_out);
    void (*give)(void *self, pleat_devptr_t ptr, uint64_t bytes);
    void (*destroy)(void *self);

    /* Virtual memory; each may be NULL. reserve names where the next range begins, 0: anywhere.
     * create says whether the device has the memory of a chunk; release, map and unmap are told
     * what succeeded. */
    pleat_devptr_t (*reserve)(void *self);
    bool (*create)(void *self, uint64_t bytes);
    void (*release)(void *self, uint64_t bytes);
    void (*map)(void *self, pleat_devptr_t ptr, uint64_t bytes);
    void (*unmap)(void *self, pleat_devptr_t ptr, uint64_t bytes);
} pleat_sim_placer_t;

/**
 * Create a sim over a placer. @p self is destroyed with the device from success on.
 * Errors as pleat_sim_create.
 */
PLEAT_NODISCARD pleat_status_t pleat_sim_create_placed(const pleat_sim_options_t *options,
                                                       const pleat_sim_placer_t *placer, void *self,
                                                       pleat_vmm_t **vmm_out);

/** The placer's self if @p vmm is a sim over @p placer, else NULL. */
void *pleat_sim_placer_self(const pleat_vmm_t *vmm, const pleat_sim_placer_t *placer);

/** Bytes that are not handed out. */
uint64_t pleat_sim_free_bytes(const pleat_sim_t *sim);

/** First live allocation that overlaps @p span; false when none does. O(log n). */
bool pleat_sim_find_overlap(const pleat_sim_t *sim, pleat_span_t span, pleat_span_t *live_out);

/** Whether chunks that a sim makes from now on can be handed to other processes. */
void pleat_sim_set_exports(const pleat_vmm_t *vmm, bool exports_chunks);

/** May a device touch @p bytes of mapped memory at @p ptr? Device 0 is the sim itself. */
bool pleat_sim_is_accessible_to(const pleat_vmm_t *vmm, int device, pleat_devptr_t ptr,
                                uint64_t bytes);

/** Set the error text of an allocation that does not fit. @return PLEAT_ERR_OOM_DEVICE. */
pleat_status_t pleat_sim_out_of_memory(const pleat_sim_t *sim, uint64_t bytes);

#endif
