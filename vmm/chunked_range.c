/*
 * chunked_range: runs of pages, mapped and unmapped.
 */
#include "chunked_range.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base.h"

pleat_status_t pleat_chunked_range_init(pleat_chunked_range_t *range, pleat_vmm_t *vmm,
                                        uint64_t page_bytes, uint64_t page_count)
{
    uint64_t bytes = 0;
    if (page_count == 0 || !pleat_multiply_checked(page_bytes, page_count, &bytes)) {
        pleat_error_set("no range of %llu pages of %llu bytes", (unsigned long long)page_count,
                        (unsigned long long)page_bytes);
        return PLEAT_ERR_INVALID;
    }
    pleat_chunk_t *chunks = calloc(page_count, sizeof(*chunks));
    bool *stale = calloc(page_count, sizeof(*stale));
    if (chunks == NULL || stale == NULL) {
        free(chunks);
        free(stale);
        pleat_error_set("no host memory for a range of %llu pages", (unsigned long long)page_count);
        return PLEAT_ERR_OOM_HOST;
    }
    pleat_devptr_t address = 0;
    const pleat_status_t status = pleat_vmm_address_reserve(vmm, bytes, &address);
    if (status != PLEAT_OK) {
        free(chunks);
        free(stale);
        return status;
    }
    *range = (pleat_chunked_range_t){.address = address,
                                     .page_bytes = page_bytes,
                                     .page_count = page_count,
                                     .chunks = chunks,
                                     .stale = stale};
    return PLEAT_OK;
}

static pleat_devptr_t range_page_address(const pleat_chunked_range_t *range, uint64_t page)
{
    return range->address + page * range->page_bytes;
}

/* Unmap what is left of earlier mappings in @p count pages from @p first on. */
static pleat_status_t range_clear_stale(pleat_chunked_range_t *range, pleat_vmm_t *vmm,
                                        uint64_t first, uint64_t count)
{
    pleat_status_t status = PLEAT_OK;
    for (uint64_t page = first; page < first + count && status == PLEAT_OK; page++) {
        if (range->stale[page]) {
            status = pleat_vmm_unmap(vmm, range_page_address(range, page), range->page_bytes);
            range->stale[page] = status != PLEAT_OK;
        }
    }
    return status;
}

void pleat_chunked_range_fini(pleat_chunked_range_t *range, pleat_vmm_t *vmm)
{
    const pleat_status_t cleared = range_clear_stale(range, vmm, 0, range->page_count);
    (void)cleared;
    const pleat_status_t ignored =
        pleat_vmm_address_free(vmm, range->address, range->page_bytes * range->page_count);
    (void)ignored;
    free(range->chunks);
    free(range->stale);
    free(range->files);
    memset(range, 0, sizeof(*range));
}

/* Release the chunks of @p count pages from @p first on, which are not mapped (any more). */
static void range_release(pleat_chunked_range_t *range, pleat_vmm_t *vmm, uint64_t first,
                          uint64_t count)
{
    for (uint64_t page = first; page < first + count; page++) {
        /* The error is counted by the device; the page is lost to us either way. */
        const pleat_status_t ignored = pleat_vmm_chunk_release(vmm, range->chunks[page]);
        (void)ignored;
        range->chunks[page] = 0;
        if (range->files != NULL && range->files[page] >= 0) {
            (void)close(range->files[page]);
            range->files[page] = -1;
        }
    }
}

pleat_status_t pleat_chunked_range_map(pleat_chunked_range_t *range, pleat_vmm_t *vmm,
                                       uint64_t first, uint64_t count)
{
    PLEAT_ASSERT(count > 0);
    PLEAT_ASSERT(first + count <= range->page_count);
    uint64_t created = 0;
    uint64_t mapped = 0;
    pleat_status_t status = range_clear_stale(range, vmm, first, count);
    if (status != PLEAT_OK) {
        return status;
    }
    for (; created < count; created++) {
        PLEAT_ASSERT(range->chunks[first + created] == 0);
        status = pleat_vmm_chunk_create(vmm, range->page_bytes, &range->chunks[first + created]);
        if (status != PLEAT_OK) {
            goto err_release;
        }
    }
    for (; mapped < count; mapped++) {
        status = pleat_vmm_map(vmm, range_page_address(range, first + mapped), range->page_bytes,
                               range->chunks[first + mapped]);
        if (status != PLEAT_OK) {
            goto err_unmap;
        }
    }
    status = pleat_vmm_set_access(vmm, range_page_address(range, first), count * range->page_bytes);
    if (status != PLEAT_OK) {
        goto err_unmap;
    }
    return PLEAT_OK;

err_unmap:
    if (mapped > 0 && pleat_vmm_unmap(vmm, range_page_address(range, first),
                                      mapped * range->page_bytes) != PLEAT_OK) {
        memset(&range->stale[first], true, mapped * sizeof(range->stale[0]));
    }
err_release:
    range_release(range, vmm, first, created);
    return status;
}

pleat_status_t pleat_chunked_range_unmap(pleat_chunked_range_t *range, pleat_vmm_t *vmm,
                                         uint64_t first, uint64_t count, uint64_t *done_out)
{
    PLEAT_ASSERT(first + count <= range->page_count);
    for (*done_out = 0; *done_out < count; (*done_out)++) {
        const uint64_t page = first + *done_out;
        PLEAT_ASSERT(range->chunks[page] != 0);
        const pleat_status_t status =
            pleat_vmm_unmap(vmm, range_page_address(range, page), range->page_bytes);
        if (status != PLEAT_OK) {
            return status;
        }
        range_release(range, vmm, page, 1);
    }
    return PLEAT_OK;
}

int *pleat_chunked_range_file(pleat_chunked_range_t *range, uint64_t page)
{
    PLEAT_ASSERT(page < range->page_count);
    PLEAT_ASSERT(range->chunks[page] != 0);
    if (range->files == NULL) {
        range->files = malloc(range->page_count * sizeof(*range->files));
        for (uint64_t i = 0; range->files != NULL && i < range->page_count; i++) {
            range->files[i] = -1;
        }
    }
    return range->files == NULL ? NULL : &range->files[page];
}
