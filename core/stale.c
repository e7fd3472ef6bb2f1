/*
 * stale: a list; it is empty unless a device fails twice in a row.
 */
#include "stale.h"

#include <stdlib.h>

void pleat_stale_unmap(pleat_stale_t **list, pleat_vmm_t *vmm, pleat_devptr_t address,
                       uint64_t bytes)
{
    if (pleat_vmm_unmap(vmm, address, bytes) == PLEAT_OK) {
        return;
    }
    pleat_stale_t *stale = malloc(sizeof(*stale));
    if (stale != NULL) {
        *stale = (pleat_stale_t){.address = address, .bytes = bytes, .next = *list};
        *list = stale;
    }
}

pleat_status_t pleat_stale_clear(pleat_stale_t **list, pleat_vmm_t *vmm, pleat_devptr_t address,
                                 uint64_t bytes)
{
    pleat_stale_t **link = list;
    while (*link != NULL) {
        pleat_stale_t *stale = *link;
        if (stale->address >= address + bytes || stale->address + stale->bytes <= address) {
            link = &stale->next;
            continue;
        }
        const pleat_status_t status = pleat_vmm_unmap(vmm, stale->address, stale->bytes);
        if (status != PLEAT_OK) {
            return status;
        }
        *link = stale->next;
        free(stale);
    }
    return PLEAT_OK;
}

void pleat_stale_fini(pleat_stale_t **list, pleat_vmm_t *vmm)
{
    while (*list != NULL) {
        pleat_stale_t *stale = *list;
        *list = stale->next;
        const pleat_status_t ignored = pleat_vmm_unmap(vmm, stale->address, stale->bytes);
        (void)ignored;
        free(stale);
    }
}
