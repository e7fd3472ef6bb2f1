/*
 * sim_memory (internal): the virtual memory of the simulated device, with the driver's rules:
 * address ranges, chunks of physical memory, mappings and access. sim.c charges, injects faults and
 * keeps the capacity.
 *
 * Unbacked, it is bookkeeping only. Backed, chunks are parts of one memory file and mappings are
 * mappings of it at the very address, so that contents are real, two mappings of a chunk show the
 * same bytes, and touching what is not mapped or not accessible faults.
 *
 * Invariants:
 *   M1  Ranges do not overlap; a mapping lies inside one range; mappings do not overlap.
 *   M2  A chunk lives while its handle is held or a mapping shows it.
 *   M3  Bytes of live chunks of this device sum up to chunk_bytes; those of others are not counted.
 * No lock: guarded by the owner of the device.
 */
#ifndef PLEAT_SIM_MEMORY_H
#define PLEAT_SIM_MEMORY_H

#include "sim_arena.h"

#define PLEAT_SIM_GRANULARITY_BYTES (2 * PLEAT_MIB)
#define PLEAT_SIM_ADDRESS_LIMIT_BYTES (UINT64_C(1) << 46)
#define PLEAT_SIM_MAPPINGS_MAX UINT32_C(500000) /* default budget of mappings */

typedef struct pleat_sim_chunk pleat_sim_chunk_t;
typedef struct pleat_sim_mapping pleat_sim_mapping_t;
typedef struct pleat_sim_range pleat_sim_range_t;

typedef struct pleat_sim_memory {
    bool is_backed;
    bool exports_chunks;     /* of the chunks that are made from now on */
    uint64_t peers;          /* devices, by bit, that set_access grants beside this one */
    pleat_sim_arena_t arena; /* backed only */
    pleat_span_t addresses;  /* where ranges may lie, unless a place is wanted */
    uint64_t chunk_bytes;    /* physical memory in chunks */
    uint64_t address_limit_bytes;
    uint64_t reserved_bytes; /* addresses in ranges */
    uint32_t mapping_limit;
    pleat_sim_range_t **ranges; /* rising by address */
    uint32_t range_count;
    uint32_t range_capacity;
    pleat_sim_chunk_t *chunks; /* by handle - 1 */
    uint32_t chunk_capacity;
    uint32_t chunk_free; /* index + 1 of an unused record; 0: none */
    uint32_t chunk_count;
    pleat_sim_mapping_t *mappings;
    uint32_t mapping_capacity;
    uint32_t mapping_free;
    uint32_t mapping_count;
} pleat_sim_memory_t;

/** Start empty. Backed: takes addresses and makes the memory file; errors of sim_arena. */
PLEAT_NODISCARD pleat_status_t pleat_sim_memory_init(pleat_sim_memory_t *memory, bool is_backed,
                                                     uint64_t address_limit_bytes,
                                                     uint32_t mapping_limit);

/** Free everything, live ranges and chunks included. */
void pleat_sim_memory_fini(pleat_sim_memory_t *memory);

/*
 * The calls of the operations table, without charges and faults. Sizes and addresses must be
 * multiples of the granularity; errors as pleat_vmm_ops_t says; a failed call changes nothing.
 * wanted: where the range must begin; 0: in the lowest gap that fits. check_size: may a chunk have
 * so many bytes?
 */
PLEAT_NODISCARD pleat_status_t pleat_sim_memory_reserve(pleat_sim_memory_t *memory, uint64_t bytes,
                                                        pleat_devptr_t wanted,
                                                        pleat_devptr_t *ptr_out);
PLEAT_NODISCARD pleat_status_t pleat_sim_memory_unreserve(pleat_sim_memory_t *memory,
                                                          pleat_devptr_t ptr, uint64_t bytes);
PLEAT_NODISCARD pleat_status_t pleat_sim_memory_check_size(uint64_t bytes);
PLEAT_NODISCARD pleat_status_t pleat_sim_memory_create(pleat_sim_memory_t *memory, uint64_t bytes,
                                                       pleat_chunk_t *chunk_out);
PLEAT_NODISCARD pleat_status_t pleat_sim_memory_release(pleat_sim_memory_t *memory,
                                                        pleat_chunk_t chunk);
PLEAT_NODISCARD pleat_status_t pleat_sim_memory_map(pleat_sim_memory_t *memory, pleat_devptr_t ptr,
                                                    uint64_t bytes, pleat_chunk_t chunk);
PLEAT_NODISCARD pleat_status_t pleat_sim_memory_unmap(pleat_sim_memory_t *memory,
                                                      pleat_devptr_t ptr, uint64_t bytes);
PLEAT_NODISCARD pleat_status_t pleat_sim_memory_set_access(pleat_sim_memory_t *memory,
                                                           pleat_devptr_t ptr, uint64_t bytes);

/*
 * Chunks for other processes, see pleat/sim.h. export: a descriptor of the caller's;
 * ERR_UNSUPPORTED if the chunk was not made for it. import: the same handle once more if the chunk
 * is of this device, else a new one. ERR_OOM_HOST: no descriptor or record.
 */
PLEAT_NODISCARD pleat_status_t pleat_sim_memory_export(pleat_sim_memory_t *memory,
                                                       pleat_chunk_t chunk, int *file_out);
PLEAT_NODISCARD pleat_status_t pleat_sim_memory_import(pleat_sim_memory_t *memory, int file,
                                                       pleat_chunk_t *chunk_out);

/** Bytes of a live chunk, 0 for others. */
uint64_t pleat_sim_memory_chunk_bytes(const pleat_sim_memory_t *memory, pleat_chunk_t chunk);

/** Call @p visit with the size of every mapping in a span that starts and ends on mappings. */
void pleat_sim_memory_visit(const pleat_sim_memory_t *memory, pleat_devptr_t ptr, uint64_t bytes,
                            void (*visit)(void *context, uint64_t mapping_bytes), void *context);

/** May @p bytes at @p ptr be touched: mapped without a gap, all with access? */
bool pleat_sim_memory_is_accessible(const pleat_sim_memory_t *memory, pleat_devptr_t ptr,
                                    uint64_t bytes);

/** The same for another device. */
bool pleat_sim_memory_is_accessible_to(const pleat_sim_memory_t *memory, int device,
                                       pleat_devptr_t ptr, uint64_t bytes);

#endif
