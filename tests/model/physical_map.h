/*
 * physical_map: what the addresses of a device show, kept by the tests beside the device: mappings
 * of chunks, and the live allocations in them. It tells when two live allocations share memory, at
 * whatever addresses, and when memory goes away under a live one.
 *
 * Memory that no mapping shows is that of plain device allocations: its address is its place.
 */
#ifndef PLEAT_TEST_PHYSICAL_MAP_H
#define PLEAT_TEST_PHYSICAL_MAP_H

#include <pleat/base.h>

typedef struct physical_mapping {
    pleat_devptr_t address;
    uint64_t bytes;
    pleat_chunk_t chunk;
} physical_mapping_t;

/* A run of memory: a part of a chunk, or with chunk 0 of plain memory. */
typedef struct physical_extent {
    pleat_chunk_t chunk;
    uint64_t begin;
    uint64_t end;
} physical_extent_t;

typedef struct physical_live {
    uint32_t id;
    pleat_devptr_t address;
    uint64_t bytes;
    physical_extent_t *extents;
    size_t extent_count;
} physical_live_t;

typedef struct physical_map {
    physical_mapping_t *mappings; /* rising by address */
    size_t mapping_count;
    size_t mapping_capacity;
    physical_live_t *lives;
    size_t live_count;
    size_t live_capacity;
    physical_live_t *kept; /* by a pool, whose number is their id */
    size_t kept_count;
    size_t kept_capacity;
    char complaint[256]; /* the first thing wrong; empty: nothing */
} physical_map_t;

/* All zero is an empty map. */
void physical_map_fini(physical_map_t *map);

void physical_map_add(physical_map_t *map, pleat_devptr_t address, uint64_t bytes,
                      pleat_chunk_t chunk);

/* Mappings in a span are gone; complains if a live allocation lies there. */
void physical_map_remove(physical_map_t *map, pleat_devptr_t address, uint64_t bytes);

/* Mappings of a chunk. */
size_t physical_map_count(const physical_map_t *map, pleat_chunk_t chunk);

/* Is something mapped at an address? */
bool physical_map_covers(const physical_map_t *map, pleat_devptr_t address);

/* An allocation is live from now on; complains if its memory is not all there, or is another's.
 * Returns the number of its extents. */
size_t physical_map_begin(physical_map_t *map, uint32_t id, pleat_devptr_t address, uint64_t bytes);

void physical_map_end(physical_map_t *map, uint32_t id);

/* A span, all of it there, may not go from now on, nor serve an allocation that is not @p pool's,
 * whether something is live in it or not: a captured graph works there. */
void physical_map_keep(physical_map_t *map, uint32_t pool, pleat_devptr_t address, uint64_t bytes);

/* Does an allocation that is live share a chunk with what is kept for another pool? */
bool physical_map_intrudes(const physical_map_t *map, uint32_t id, uint32_t pool);

/* What is kept for a pool may go again; @p is_plain_only: of its plain memory. */
void physical_map_let_go(physical_map_t *map, uint32_t pool, bool is_plain_only);

#endif
