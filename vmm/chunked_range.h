/*
 * chunked_range: a reserved address range that is filled, page by page, with chunks of one size.
 * Pages are mapped and unmapped in runs; every run is all or nothing.
 *
 * Invariants: a page has a chunk exactly if it is mapped; mapped pages lie inside the range. A
 * stale page has none: nobody uses it, and it is unmapped before it is mapped again. Guarded by the
 * owner's lock.
 */
#ifndef PLEAT_CHUNKED_RANGE_H
#define PLEAT_CHUNKED_RANGE_H

#include <pleat/vmm.h>

typedef struct pleat_chunked_range {
    pleat_devptr_t address;
    uint64_t page_bytes;
    uint64_t page_count;
    pleat_chunk_t *chunks; /* by page; 0: not mapped */
    int *files;  /* by page: its descriptor for other processes, -1: none; NULL: no page */
    bool *stale; /* by page: an old mapping is left that the device did not unmap */
} pleat_chunked_range_t;

/*
 * Reserve addresses for @p page_count pages. ERR_OOM_HOST, or the device's error; nothing changed.
 * One device call.
 */
PLEAT_NODISCARD pleat_status_t pleat_chunked_range_init(pleat_chunked_range_t *range,
                                                        pleat_vmm_t *vmm, uint64_t page_bytes,
                                                        uint64_t page_count);

/* Free the addresses; no page may be mapped. The device's error is only noted: nothing can be done
 * about it. One device call. */
void pleat_chunked_range_fini(pleat_chunked_range_t *range, pleat_vmm_t *vmm);

/*
 * Create chunks for @p count pages from @p first on, map them and make them accessible. On failure
 * what was made is undone; a mapping that the device does not undo is stale, and undone later.
 * ERR_OOM_DEVICE: the device has not so many. Two device calls a page and one for all.
 */
PLEAT_NODISCARD pleat_status_t pleat_chunked_range_map(pleat_chunked_range_t *range,
                                                       pleat_vmm_t *vmm, uint64_t first,
                                                       uint64_t count);

/*
 * Unmap and release @p count mapped pages from @p first on. Nothing may use them any more. On the
 * device's error @p done_out tells how many pages from @p first on are gone. Two device calls a
 * page.
 */
PLEAT_NODISCARD pleat_status_t pleat_chunked_range_unmap(pleat_chunked_range_t *range,
                                                         pleat_vmm_t *vmm, uint64_t first,
                                                         uint64_t count, uint64_t *done_out);

/*
 * Where the descriptor of a mapped page is kept; -1: it has none yet. It is closed when the page is
 * unmapped. NULL: no host memory.
 */
int *pleat_chunked_range_file(pleat_chunked_range_t *range, uint64_t page);

#endif
