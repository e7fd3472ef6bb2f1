/*
 * sim_arena (internal): the host's side of a backed sim: one stretch of addresses that belongs to
 * the device, and one memory file for its chunks. sim.c and sim_memory.c decide what lies where;
 * here it becomes readable or not.
 *
 * All of it is unreadable at first. `open` makes memory, `show` makes a part of the file visible
 * but still unreadable, `show_file` a part of another file, `allow` makes what is shown readable
 * and writable, `close` makes addresses unreadable again whatever was there. Touching what is
 * unreadable faults.
 *
 * Addresses depend on the host, but distances inside the stretch do not, so that a run can be
 * repeated.
 * No lock: guarded by the owner of the device.
 */
#ifndef PLEAT_SIM_ARENA_H
#define PLEAT_SIM_ARENA_H

#include "span_tree.h"

typedef struct pleat_sim_arena {
    int file; /* -1: not started */
    uint64_t file_bytes;
    uint64_t page_bytes; /* of the host */
    pleat_span_t ranges; /* addresses for ranges */
    pleat_span_t plain;  /* addresses for plain allocations; behind those of ranges */
} pleat_sim_arena_t;

/** Take addresses and make the file. @retval PLEAT_ERR_OOM_HOST the host gives neither. */
PLEAT_NODISCARD pleat_status_t pleat_sim_arena_init(pleat_sim_arena_t *arena);

/** Give both back, whatever is open. An arena of zeros with file -1 is ignored. */
void pleat_sim_arena_fini(pleat_sim_arena_t *arena);

/*
 * On addresses inside the arena, of whole pages. PLEAT_ERR_OOM_HOST: the host has no memory or no
 * mappings left; nothing changed. Cost: one call to the host.
 */
PLEAT_NODISCARD pleat_status_t pleat_sim_arena_open(const pleat_sim_arena_t *arena, uint64_t begin,
                                                    uint64_t bytes);
PLEAT_NODISCARD pleat_status_t pleat_sim_arena_close(const pleat_sim_arena_t *arena, uint64_t begin,
                                                     uint64_t bytes);
PLEAT_NODISCARD pleat_status_t pleat_sim_arena_show(const pleat_sim_arena_t *arena, uint64_t begin,
                                                    uint64_t bytes, uint64_t file_offset);
PLEAT_NODISCARD pleat_status_t pleat_sim_arena_show_file(const pleat_sim_arena_t *arena,
                                                         uint64_t begin, uint64_t bytes, int file,
                                                         uint64_t file_offset);
PLEAT_NODISCARD pleat_status_t pleat_sim_arena_allow(const pleat_sim_arena_t *arena, uint64_t begin,
                                                     uint64_t bytes);

/**
 * A new part of the file, all zero. Parts are never used again, which costs nothing.
 * @retval PLEAT_ERR_OOM_HOST  the file cannot grow.
 */
PLEAT_NODISCARD pleat_status_t pleat_sim_arena_add_part(pleat_sim_arena_t *arena, uint64_t bytes,
                                                        uint64_t *file_offset_out);

/** Give the memory of a part back to the host. */
void pleat_sim_arena_drop_part(const pleat_sim_arena_t *arena, uint64_t file_offset,
                               uint64_t bytes);

#endif
