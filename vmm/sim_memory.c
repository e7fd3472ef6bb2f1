/*
 * sim_memory: ranges with a slot a granule, chunks and mappings in tables.
 */
#include "sim_memory.h"

#include "chunk_file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GRANULE PLEAT_SIM_GRANULARITY_BYTES

/* Unbacked: ranges lie above everything that mem_alloc hands out. */
#define UNBACKED_BEGIN (UINT64_C(1) << 47)
#define UNBACKED_BYTES (UINT64_C(1) << 62)

struct pleat_sim_chunk {
    uint64_t bytes; /* 0: unused record */
    uint64_t file_offset;
    uint32_t mapping_count;
    uint32_t next_free;
    uint32_t hold_count; /* how often the handle was given and not released */
    int file;            /* of its own; -1: a part of the arena's */
    bool can_export;
    bool is_foreign; /* of another process */
};

struct pleat_sim_mapping {
    pleat_devptr_t address;
    uint64_t bytes; /* 0: unused record */
    uint32_t chunk; /* index */
    uint32_t next_free;
    bool is_accessible;
    uint64_t peers; /* other devices that have access, by bit */
};

struct pleat_sim_range {
    pleat_devptr_t address;
    uint64_t bytes;
    uint32_t mapping_count;
    uint32_t slots[]; /* by granule: index + 1 of its mapping */
};

pleat_status_t pleat_sim_memory_init(pleat_sim_memory_t *memory, bool is_backed,
                                     uint64_t address_limit_bytes, uint32_t mapping_limit)
{
    *memory = (pleat_sim_memory_t){.is_backed = is_backed,
                                   .arena = {.file = -1},
                                   .addresses = {UNBACKED_BEGIN, UNBACKED_BYTES},
                                   .address_limit_bytes = address_limit_bytes,
                                   .mapping_limit = mapping_limit};
    if (!is_backed) {
        return PLEAT_OK;
    }
    const pleat_status_t status = pleat_sim_arena_init(&memory->arena);
    if (status == PLEAT_OK) {
        memory->addresses = memory->arena.ranges;
    }
    return status;
}

void pleat_sim_memory_fini(pleat_sim_memory_t *memory)
{
    for (uint32_t i = 0; i < memory->range_count; i++) {
        free(memory->ranges[i]);
    }
    free((void *)memory->ranges);
    for (uint32_t i = 0; i < memory->chunk_capacity; i++) {
        if (memory->chunks[i].bytes > 0 && memory->chunks[i].file >= 0) {
            (void)close(memory->chunks[i].file);
        }
    }
    free(memory->chunks);
    free(memory->mappings);
    pleat_sim_arena_fini(&memory->arena);
    memset(memory, 0, sizeof(*memory));
    memory->arena.file = -1;
}

/* ---- ranges ---- */

/* Index of the first range that begins behind @p address. */
static uint32_t memory_range_behind(const pleat_sim_memory_t *memory, pleat_devptr_t address)
{
    uint32_t low = 0;
    uint32_t high = memory->range_count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (memory->ranges[middle]->address <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* The range that holds all of a span, NULL if none does. */
static pleat_sim_range_t *memory_find_range(const pleat_sim_memory_t *memory, pleat_devptr_t ptr,
                                            uint64_t bytes)
{
    const uint32_t behind = memory_range_behind(memory, ptr);
    if (behind == 0) {
        return NULL;
    }
    pleat_sim_range_t *range = memory->ranges[behind - 1];
    const uint64_t offset = ptr - range->address;
    return offset < range->bytes && bytes <= range->bytes - offset ? range : NULL;
}

static pleat_status_t memory_check_span(const char *call, pleat_devptr_t ptr, uint64_t bytes)
{
    if (bytes == 0 || bytes % GRANULE != 0 || ptr % GRANULE != 0) {
        pleat_error_set("%s: %" PRIu64 " bytes at 0x%" PRIx64 "; both must be multiples of %" PRIu64
                        ", the size not 0",
                        call, bytes, ptr, (uint64_t)GRANULE);
        return PLEAT_ERR_INVALID;
    }
    return PLEAT_OK;
}

/* The range around a span; sets the error when there is none. */
static pleat_sim_range_t *memory_require_range(const pleat_sim_memory_t *memory, const char *call,
                                               pleat_devptr_t ptr, uint64_t bytes)
{
    if (memory_check_span(call, ptr, bytes) != PLEAT_OK) {
        return NULL;
    }
    pleat_sim_range_t *range = memory_find_range(memory, ptr, bytes);
    if (range == NULL) {
        pleat_error_set("%s: %" PRIu64 " bytes at 0x%" PRIx64 " lie in no reserved range", call,
                        bytes, ptr);
    }
    return range;
}

static bool memory_grow_ranges(pleat_sim_memory_t *memory)
{
    if (memory->range_count < memory->range_capacity) {
        return true;
    }
    const uint32_t capacity = memory->range_capacity == 0 ? 16 : 2 * memory->range_capacity;
    pleat_sim_range_t **ranges =
        (pleat_sim_range_t **)realloc((void *)memory->ranges, capacity * sizeof(*ranges));
    if (ranges == NULL) {
        return false;
    }
    memory->ranges = ranges;
    memory->range_capacity = capacity;
    return true;
}

/* Are @p bytes at @p address in no range? */
static bool memory_is_unreserved(const pleat_sim_memory_t *memory, pleat_devptr_t address,
                                 uint64_t bytes)
{
    const uint32_t behind = memory_range_behind(memory, address);
    if (behind > 0 &&
        address - memory->ranges[behind - 1]->address < memory->ranges[behind - 1]->bytes) {
        return false;
    }
    return behind == memory->range_count || memory->ranges[behind]->address - address >= bytes;
}

/* Where a range of @p bytes begins: as wanted, else in the lowest gap that fits; 0: nowhere. */
static pleat_devptr_t memory_place_range(const pleat_sim_memory_t *memory, uint64_t bytes,
                                         pleat_devptr_t wanted)
{
    if (wanted != 0) {
        return bytes <= UINT64_MAX - wanted && memory_is_unreserved(memory, wanted, bytes) ? wanted
                                                                                           : 0;
    }
    const pleat_devptr_t end = memory->addresses.begin + memory->addresses.bytes;
    pleat_devptr_t address = memory->addresses.begin;
    for (uint32_t i = 0; i < memory->range_count; i++) {
        const pleat_sim_range_t *range = memory->ranges[i];
        if (range->address >= address && range->address - address >= bytes) {
            break;
        }
        const pleat_devptr_t behind = range->address + range->bytes;
        address = behind > address ? behind : address;
    }
    return address <= end && bytes <= end - address ? address : 0;
}

pleat_status_t pleat_sim_memory_reserve(pleat_sim_memory_t *memory, uint64_t bytes,
                                        pleat_devptr_t wanted, pleat_devptr_t *ptr_out)
{
    pleat_status_t status = memory_check_span("address_reserve", wanted, bytes);
    if (status != PLEAT_OK) {
        return status;
    }
    if (bytes > memory->address_limit_bytes - memory->reserved_bytes) {
        pleat_error_set("address_reserve: %" PRIu64 " bytes asked for, %" PRIu64 " of %" PRIu64
                        " are reserved",
                        bytes, memory->reserved_bytes, memory->address_limit_bytes);
        return PLEAT_ERR_OOM_DEVICE;
    }
    pleat_sim_range_t *range =
        calloc(1, sizeof(*range) + bytes / GRANULE * sizeof(range->slots[0]));
    if (range == NULL || !memory_grow_ranges(memory)) {
        free(range);
        pleat_error_set("address_reserve: no host memory for the record of %" PRIu64 " bytes",
                        bytes);
        return PLEAT_ERR_OOM_HOST;
    }
    range->address = memory_place_range(memory, bytes, wanted);
    range->bytes = bytes;
    if (range->address == 0) {
        pleat_error_set("address_reserve: no room for %" PRIu64 " bytes at 0x%" PRIx64, bytes,
                        wanted);
        free(range);
        return PLEAT_ERR_OOM_DEVICE;
    }
    const uint32_t index = memory_range_behind(memory, range->address);
    memmove((void *)&memory->ranges[index + 1], (void *)&memory->ranges[index],
            (memory->range_count - index) * sizeof(*memory->ranges));
    memory->ranges[index] = range;
    memory->range_count++;
    memory->reserved_bytes += bytes;
    *ptr_out = range->address;
    return PLEAT_OK;
}

pleat_status_t pleat_sim_memory_unreserve(pleat_sim_memory_t *memory, pleat_devptr_t ptr,
                                          uint64_t bytes)
{
    pleat_sim_range_t *range = memory_require_range(memory, "address_free", ptr, bytes);
    if (range == NULL) {
        return PLEAT_ERR_INVALID;
    }
    if (range->address != ptr || range->bytes != bytes) {
        pleat_error_set("address_free: the range is 0x%" PRIx64 " of %" PRIu64
                        " bytes; free it whole",
                        range->address, range->bytes);
        return PLEAT_ERR_INVALID;
    }
    if (range->mapping_count > 0) {
        pleat_error_set("address_free: the range at 0x%" PRIx64 " has %" PRIu32
                        " mappings; unmap them first",
                        ptr, range->mapping_count);
        return PLEAT_ERR_INVALID;
    }
    const uint32_t index = memory_range_behind(memory, ptr) - 1;
    memmove((void *)&memory->ranges[index], (void *)&memory->ranges[index + 1],
            (memory->range_count - index - 1) * sizeof(*memory->ranges));
    memory->range_count--;
    memory->reserved_bytes -= bytes;
    free(range);
    return PLEAT_OK;
}

/* ---- chunks ---- */

static bool memory_grow_chunks(pleat_sim_memory_t *memory)
{
    if (memory->chunk_free != 0) {
        return true;
    }
    const uint32_t old = memory->chunk_capacity;
    const uint32_t capacity = old == 0 ? 256 : 2 * old;
    pleat_sim_chunk_t *chunks = realloc(memory->chunks, capacity * sizeof(*chunks));
    if (chunks == NULL) {
        return false;
    }
    PLEAT_ASSERT(capacity > old);
    for (uint32_t i = capacity; i-- > old;) {
        chunks[i] = (pleat_sim_chunk_t){.next_free = memory->chunk_free};
        memory->chunk_free = i + 1;
    }
    memory->chunks = chunks;
    memory->chunk_capacity = capacity;
    return true;
}

/* The record of a handle that was not released, NULL for others. */
static pleat_sim_chunk_t *memory_find_chunk(const pleat_sim_memory_t *memory, pleat_chunk_t chunk)
{
    if (chunk == 0 || chunk > memory->chunk_capacity || memory->chunks[chunk - 1].hold_count == 0) {
        return NULL;
    }
    return &memory->chunks[chunk - 1];
}

uint64_t pleat_sim_memory_chunk_bytes(const pleat_sim_memory_t *memory, pleat_chunk_t chunk)
{
    const pleat_sim_chunk_t *record = memory_find_chunk(memory, chunk);
    return record == NULL ? 0 : record->bytes;
}

pleat_status_t pleat_sim_memory_check_size(uint64_t bytes)
{
    return memory_check_span("chunk_create", 0, bytes);
}

/* Put a chunk into a record, one of which must be unused. */
static pleat_chunk_t memory_enter_chunk(pleat_sim_memory_t *memory, const pleat_sim_chunk_t *chunk)
{
    const uint32_t index = memory->chunk_free - 1;
    memory->chunk_free = memory->chunks[index].next_free;
    memory->chunks[index] = *chunk;
    memory->chunk_count++;
    return (pleat_chunk_t)index + 1;
}

pleat_status_t pleat_sim_memory_create(pleat_sim_memory_t *memory, uint64_t bytes,
                                       pleat_chunk_t *chunk_out)
{
    PLEAT_ASSERT(bytes > 0);
    PLEAT_ASSERT(bytes % GRANULE == 0);
    if (!memory_grow_chunks(memory)) {
        pleat_error_set("chunk_create: no host memory for a record");
        return PLEAT_ERR_OOM_HOST;
    }
    pleat_sim_chunk_t chunk = {.bytes = bytes, .hold_count = 1, .file = -1};
    chunk.can_export = memory->exports_chunks;
    if (memory->is_backed) {
        const pleat_status_t status =
            chunk.can_export ? pleat_chunk_file_make(bytes, &chunk.file)
                             : pleat_sim_arena_add_part(&memory->arena, bytes, &chunk.file_offset);
        if (status != PLEAT_OK) {
            return status;
        }
    }
    memory->chunk_bytes += bytes;
    *chunk_out = memory_enter_chunk(memory, &chunk);
    return PLEAT_OK;
}

/* Give the memory of a chunk back once nothing holds it (M2). */
static void memory_drop_chunk(pleat_sim_memory_t *memory, pleat_sim_chunk_t *record)
{
    if (record->hold_count > 0 || record->mapping_count > 0) {
        return;
    }
    if (record->file >= 0) {
        (void)close(record->file);
    } else if (memory->is_backed) {
        pleat_sim_arena_drop_part(&memory->arena, record->file_offset, record->bytes);
    }
    if (!record->is_foreign) {
        PLEAT_ASSERT(memory->chunk_bytes >= record->bytes);
        memory->chunk_bytes -= record->bytes;
    }
    memory->chunk_count--;
    *record = (pleat_sim_chunk_t){.next_free = memory->chunk_free};
    memory->chunk_free = (uint32_t)(record - memory->chunks) + 1;
}

static pleat_status_t memory_refuse_chunk(const char *call, pleat_chunk_t chunk)
{
    pleat_error_set("%s: %" PRIu64 " is no handle of a chunk, or was released", call, chunk);
    return PLEAT_ERR_INVALID;
}

pleat_status_t pleat_sim_memory_release(pleat_sim_memory_t *memory, pleat_chunk_t chunk)
{
    pleat_sim_chunk_t *record = memory_find_chunk(memory, chunk);
    if (record == NULL) {
        return memory_refuse_chunk("chunk_release", chunk);
    }
    record->hold_count--;
    memory_drop_chunk(memory, record);
    return PLEAT_OK;
}

/* ---- chunks for other processes ---- */

pleat_status_t pleat_sim_memory_export(pleat_sim_memory_t *memory, pleat_chunk_t chunk,
                                       int *file_out)
{
    pleat_sim_chunk_t *record = memory_find_chunk(memory, chunk);
    if (record == NULL) {
        return memory_refuse_chunk("chunk_export", chunk);
    }
    if (!record->can_export) {
        pleat_error_set("chunk_export: the chunk was made to stay in the process (option "
                        "exports_chunks)");
        return PLEAT_ERR_UNSUPPORTED;
    }
    if (record->file < 0) { /* unbacked: only when it is needed */
        const pleat_status_t status = pleat_chunk_file_make(record->bytes, &record->file);
        if (status != PLEAT_OK) {
            return status;
        }
    }
    return pleat_chunk_file_copy(record->file, file_out);
}

/* The chunk of this device that has a file; NULL: none. */
static pleat_sim_chunk_t *memory_find_file(const pleat_sim_memory_t *memory,
                                           const pleat_chunk_file_t *wanted)
{
    for (uint32_t i = 0; i < memory->chunk_capacity; i++) {
        pleat_sim_chunk_t *record = &memory->chunks[i];
        pleat_chunk_file_t file;
        if (record->bytes > 0 && record->file >= 0 && pleat_chunk_file_read(record->file, &file) &&
            file.device == wanted->device && file.number == wanted->number) {
            return record;
        }
    }
    return NULL;
}

pleat_status_t pleat_sim_memory_import(pleat_sim_memory_t *memory, int file,
                                       pleat_chunk_t *chunk_out)
{
    pleat_chunk_file_t facts;
    if (!pleat_chunk_file_read(file, &facts) || facts.bytes % GRANULE != 0) {
        pleat_error_set("chunk_import: descriptor %d is no chunk of a sim", file);
        return PLEAT_ERR_INVALID;
    }
    pleat_sim_chunk_t *record = memory_find_file(memory, &facts);
    if (record != NULL) {
        record->hold_count++;
        *chunk_out = (pleat_chunk_t)(record - memory->chunks) + 1;
        return PLEAT_OK;
    }
    if (!memory_grow_chunks(memory)) {
        pleat_error_set("chunk_import: no host memory for a record");
        return PLEAT_ERR_OOM_HOST;
    }
    pleat_sim_chunk_t chunk = {
        .bytes = facts.bytes, .hold_count = 1, .file = -1, .can_export = true, .is_foreign = true};
    const pleat_status_t status = pleat_chunk_file_copy(file, &chunk.file);
    if (status == PLEAT_OK) {
        *chunk_out = memory_enter_chunk(memory, &chunk);
    }
    return status;
}

/* ---- mappings ---- */

static bool memory_grow_mappings(pleat_sim_memory_t *memory)
{
    if (memory->mapping_free != 0) {
        return true;
    }
    const uint32_t old = memory->mapping_capacity;
    const uint32_t capacity = old == 0 ? 256 : 2 * old;
    pleat_sim_mapping_t *mappings = realloc(memory->mappings, capacity * sizeof(*mappings));
    if (mappings == NULL) {
        return false;
    }
    PLEAT_ASSERT(capacity > old);
    for (uint32_t i = capacity; i-- > old;) {
        mappings[i] = (pleat_sim_mapping_t){.next_free = memory->mapping_free};
        memory->mapping_free = i + 1;
    }
    memory->mappings = mappings;
    memory->mapping_capacity = capacity;
    return true;
}

static uint64_t range_granule(const pleat_sim_range_t *range, pleat_devptr_t ptr)
{
    return (ptr - range->address) / GRANULE;
}

/* The mapping at the granule of @p ptr, NULL if nothing is mapped there. */
static pleat_sim_mapping_t *memory_mapping_at(const pleat_sim_memory_t *memory,
                                              const pleat_sim_range_t *range, pleat_devptr_t ptr)
{
    const uint32_t slot = range->slots[range_granule(range, ptr)];
    return slot == 0 ? NULL : &memory->mappings[slot - 1];
}

/* May a chunk be mapped over this span? */
static pleat_status_t memory_check_map(const pleat_sim_memory_t *memory,
                                       const pleat_sim_range_t *range, pleat_devptr_t ptr,
                                       uint64_t bytes, const pleat_sim_chunk_t *record)
{
    if (record->bytes != bytes) {
        pleat_error_set("map: the chunk has %" PRIu64 " bytes, %" PRIu64
                        " were given; a chunk is mapped whole",
                        record->bytes, bytes);
        return PLEAT_ERR_INVALID;
    }
    for (uint64_t offset = 0; offset < bytes; offset += GRANULE) {
        if (memory_mapping_at(memory, range, ptr + offset) != NULL) {
            pleat_error_set("map: something is mapped at 0x%" PRIx64 " already", ptr + offset);
            return PLEAT_ERR_INVALID;
        }
    }
    if (memory->mapping_count >= memory->mapping_limit) {
        pleat_error_set("map: all %" PRIu32 " mappings of the budget are in use",
                        memory->mapping_limit);
        return PLEAT_ERR_OOM_DEVICE;
    }
    return PLEAT_OK;
}

pleat_status_t pleat_sim_memory_map(pleat_sim_memory_t *memory, pleat_devptr_t ptr, uint64_t bytes,
                                    pleat_chunk_t chunk)
{
    pleat_sim_range_t *range = memory_require_range(memory, "map", ptr, bytes);
    if (range == NULL) {
        return PLEAT_ERR_INVALID;
    }
    pleat_sim_chunk_t *record = memory_find_chunk(memory, chunk);
    if (record == NULL) {
        return memory_refuse_chunk("map", chunk);
    }
    pleat_status_t status = memory_check_map(memory, range, ptr, bytes, record);
    if (status != PLEAT_OK) {
        return status;
    }
    if (!memory_grow_mappings(memory)) {
        pleat_error_set("map: no host memory for the record of %" PRIu64 " bytes", bytes);
        return PLEAT_ERR_OOM_HOST;
    }
    if (memory->is_backed) {
        status = record->file >= 0
                     ? pleat_sim_arena_show_file(&memory->arena, ptr, bytes, record->file, 0)
                     : pleat_sim_arena_show(&memory->arena, ptr, bytes, record->file_offset);
        if (status != PLEAT_OK) {
            return status;
        }
    }
    const uint32_t index = memory->mapping_free - 1;
    pleat_sim_mapping_t *mapping = &memory->mappings[index];
    memory->mapping_free = mapping->next_free;
    *mapping = (pleat_sim_mapping_t){
        .address = ptr, .bytes = bytes, .chunk = (uint32_t)(record - memory->chunks)};
    for (uint64_t offset = 0; offset < bytes; offset += GRANULE) {
        range->slots[range_granule(range, ptr + offset)] = index + 1;
    }
    record->mapping_count++;
    range->mapping_count++;
    memory->mapping_count++;
    return PLEAT_OK;
}

/* Is the span made of whole mappings without a gap? */
static pleat_status_t memory_check_mapped(const pleat_sim_memory_t *memory, const char *call,
                                          const pleat_sim_range_t *range, pleat_devptr_t ptr,
                                          uint64_t bytes)
{
    for (uint64_t offset = 0; offset < bytes;) {
        const pleat_sim_mapping_t *mapping = memory_mapping_at(memory, range, ptr + offset);
        if (mapping == NULL) {
            pleat_error_set("%s: nothing is mapped at 0x%" PRIx64, call, ptr + offset);
            return PLEAT_ERR_INVALID;
        }
        if (mapping->address != ptr + offset || mapping->bytes > bytes - offset) {
            pleat_error_set("%s: the mapping at 0x%" PRIx64 " has %" PRIu64
                            " bytes; it goes only whole",
                            call, mapping->address, mapping->bytes);
            return PLEAT_ERR_INVALID;
        }
        offset += mapping->bytes;
    }
    return PLEAT_OK;
}

static void memory_unmap_one(pleat_sim_memory_t *memory, pleat_sim_range_t *range,
                             pleat_sim_mapping_t *mapping)
{
    for (uint64_t offset = 0; offset < mapping->bytes; offset += GRANULE) {
        range->slots[range_granule(range, mapping->address + offset)] = 0;
    }
    pleat_sim_chunk_t *record = &memory->chunks[mapping->chunk];
    PLEAT_ASSERT(record->mapping_count > 0);
    record->mapping_count--;
    *mapping = (pleat_sim_mapping_t){.next_free = memory->mapping_free};
    memory->mapping_free = (uint32_t)(mapping - memory->mappings) + 1;
    range->mapping_count--;
    memory->mapping_count--;
    memory_drop_chunk(memory, record);
}

pleat_status_t pleat_sim_memory_unmap(pleat_sim_memory_t *memory, pleat_devptr_t ptr,
                                      uint64_t bytes)
{
    pleat_sim_range_t *range = memory_require_range(memory, "unmap", ptr, bytes);
    if (range == NULL) {
        return PLEAT_ERR_INVALID;
    }
    pleat_status_t status = memory_check_mapped(memory, "unmap", range, ptr, bytes);
    if (status == PLEAT_OK && memory->is_backed) {
        status = pleat_sim_arena_close(&memory->arena, ptr, bytes);
    }
    if (status != PLEAT_OK) {
        return status;
    }
    for (uint64_t offset = 0; offset < bytes;) {
        pleat_sim_mapping_t *mapping = memory_mapping_at(memory, range, ptr + offset);
        offset += mapping->bytes;
        memory_unmap_one(memory, range, mapping);
    }
    return PLEAT_OK;
}

pleat_status_t pleat_sim_memory_set_access(pleat_sim_memory_t *memory, pleat_devptr_t ptr,
                                           uint64_t bytes)
{
    pleat_sim_range_t *range = memory_require_range(memory, "set_access", ptr, bytes);
    if (range == NULL) {
        return PLEAT_ERR_INVALID;
    }
    pleat_status_t status = memory_check_mapped(memory, "set_access", range, ptr, bytes);
    if (status == PLEAT_OK && memory->is_backed) {
        status = pleat_sim_arena_allow(&memory->arena, ptr, bytes);
    }
    if (status != PLEAT_OK) {
        return status;
    }
    for (uint64_t offset = 0; offset < bytes;) {
        pleat_sim_mapping_t *mapping = memory_mapping_at(memory, range, ptr + offset);
        mapping->is_accessible = true;
        mapping->peers |= memory->peers;
        offset += mapping->bytes;
    }
    return PLEAT_OK;
}

void pleat_sim_memory_visit(const pleat_sim_memory_t *memory, pleat_devptr_t ptr, uint64_t bytes,
                            void (*visit)(void *context, uint64_t mapping_bytes), void *context)
{
    const pleat_sim_range_t *range = memory_find_range(memory, ptr, bytes);
    for (uint64_t offset = 0; range != NULL && offset < bytes;) {
        const pleat_sim_mapping_t *mapping = memory_mapping_at(memory, range, ptr + offset);
        if (mapping == NULL) {
            return;
        }
        visit(context, mapping->bytes);
        offset += mapping->bytes;
    }
}

bool pleat_sim_memory_is_accessible_to(const pleat_sim_memory_t *memory, int device,
                                       pleat_devptr_t ptr, uint64_t bytes)
{
    const pleat_sim_range_t *range = memory_find_range(memory, ptr, bytes);
    if (range == NULL || bytes == 0) {
        return false;
    }
    for (pleat_devptr_t at = ptr; at < ptr + bytes;) {
        const pleat_sim_mapping_t *mapping = memory_mapping_at(memory, range, at);
        if (mapping == NULL || !mapping->is_accessible ||
            (device != 0 && (mapping->peers >> device & 1) == 0)) {
            return false;
        }
        at = mapping->address + mapping->bytes;
    }
    return true;
}

bool pleat_sim_memory_is_accessible(const pleat_sim_memory_t *memory, pleat_devptr_t ptr,
                                    uint64_t bytes)
{
    return pleat_sim_memory_is_accessible_to(memory, 0, ptr, bytes);
}
