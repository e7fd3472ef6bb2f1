/*
 * stale: mappings that should be gone and are not, because the device refused to unmap them when
 * something had failed before. Nobody uses them. They are undone before anything is mapped at their
 * addresses, so that those are not lost, or at the end.
 * Guarded by the lock of the owning allocator.
 */
#ifndef PLEAT_STALE_H
#define PLEAT_STALE_H

#include <pleat/vmm.h>

typedef struct pleat_stale {
    pleat_devptr_t address;
    uint64_t bytes; /* of one mapping */
    struct pleat_stale *next;
} pleat_stale_t;

/* Unmap one mapping; if the device refuses, note it. Without host memory for the note it is lost:
 * the device refuses to map there from then on. */
void pleat_stale_unmap(pleat_stale_t **list, pleat_vmm_t *vmm, pleat_devptr_t address,
                       uint64_t bytes);

/* Undo what is noted in a span. The device's error: some of it is still there. */
PLEAT_NODISCARD pleat_status_t pleat_stale_clear(pleat_stale_t **list, pleat_vmm_t *vmm,
                                                 pleat_devptr_t address, uint64_t bytes);

/* Undo everything, as far as the device lets it, and forget the rest. */
void pleat_stale_fini(pleat_stale_t **list, pleat_vmm_t *vmm);

#endif
