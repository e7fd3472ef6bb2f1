/*
 * mapping_model: random calls on the virtual memory of the simulated device, each answer compared
 * with a model that is as plain as possible: per range an array of what each granule shows, per
 * chunk its size and how often it is mapped. Good calls, and ones that break each rule.
 *
 *   model_mapping_model [SEED [CALLS]]
 *
 * Every other episode runs on a backed device: then each chunk carries words of its own, written
 * and read through any of its mappings, and plain allocations carry theirs.
 *
 * Prints the seed; the same seed makes the same calls. Exit status 0: all answers agreed, 1: not.
 */
#include <pleat/sim.h>

#include "vmm/base.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GRANULE (2 * PLEAT_MIB)
#define RANGES 6u
#define RANGE_GRANULES 24u
#define CHUNKS 20u
#define ALLOCATIONS 8u
#define EPISODE_CALLS 2000u

/* What a granule of a range shows. */
typedef struct cell {
    uint32_t mapping; /* number of the mapping, from 1; 0: nothing */
    uint32_t chunk;   /* slot */
    uint32_t part;    /* granule of the chunk */
    uint32_t granules;
    bool can_touch;
} cell_t;

typedef struct range {
    pleat_devptr_t address; /* 0: not reserved */
    uint32_t granules;
    cell_t cells[RANGE_GRANULES];
} range_t;

typedef struct chunk {
    pleat_chunk_t handle; /* 0: slot unused */
    uint32_t granules;
    uint32_t mappings;
    bool is_held;
    uint64_t words[RANGE_GRANULES];
} chunk_t;

typedef struct allocation {
    pleat_devptr_t ptr; /* 0: not live */
    uint64_t bytes;
    uint64_t word;
} allocation_t;

typedef struct model {
    pleat_vmm_t *vmm;
    bool is_backed;
    uint64_t random_state;
    uint64_t call_number;
    uint64_t capacity_bytes;
    uint64_t used_bytes;
    uint64_t address_limit_bytes;
    uint64_t reserved_bytes;
    uint32_t mapping_limit;
    uint32_t mapping_count;
    uint32_t mapping_number;
    uint64_t clock_ns;
    pleat_cost_table_t costs;
    range_t ranges[RANGES];
    chunk_t chunks[CHUNKS];
    allocation_t allocations[ALLOCATIONS];
} model_t;

static model_t model;

static uint64_t draw(uint64_t below)
{
    model.random_state ^= model.random_state << 13;
    model.random_state ^= model.random_state >> 7;
    model.random_state ^= model.random_state << 17;
    return (model.random_state >> 11) % below;
}

static void expect(const char *what, uint64_t got, uint64_t want)
{
    if (got != want) {
        (void)fprintf(stderr,
                      "call %" PRIu64 ": %s is %" PRIu64 ", the model says %" PRIu64 " (%s)\n",
                      model.call_number, what, got, want, pleat_last_error());
        exit(1);
    }
}

static void expect_status(const char *what, pleat_status_t got, pleat_status_t want)
{
    expect(what, (uint64_t) - (int64_t)got, (uint64_t) - (int64_t)want);
}

/* A call has succeeded: the clock went on by its cost. */
static void charge(pleat_vmm_call_t call)
{
    model.clock_ns += model.costs.call_ns[call];
}

/* Now and then let the next call of a kind fail. A fault strikes before any rule is looked at. */
static pleat_status_t seed_fault(pleat_vmm_call_t call, pleat_status_t want)
{
    if (draw(25) != 0) {
        return want;
    }
    expect_status("a fault", pleat_sim_fail_call(model.vmm, call, 1, PLEAT_ERR_DRIVER), PLEAT_OK);
    return PLEAT_ERR_DRIVER;
}

static volatile uint64_t *word_at(pleat_devptr_t ptr)
{
    return (volatile uint64_t *)(uintptr_t)ptr;
}

/* ---- ranges ---- */

static void check_range_address(const range_t *range)
{
    expect("misalignment", range->address % GRANULE, 0);
    for (uint32_t i = 0; i < RANGES; i++) {
        const range_t *other = &model.ranges[i];
        const bool is_apart = other == range || other->address == 0 ||
                              range->address >= other->address + other->granules * GRANULE ||
                              other->address >= range->address + range->granules * GRANULE;
        expect("overlap of ranges", !is_apart, 0);
    }
    for (uint32_t i = 0; i < ALLOCATIONS; i++) {
        const allocation_t *other = &model.allocations[i];
        const bool is_apart = other->ptr == 0 || range->address >= other->ptr + other->bytes ||
                              other->ptr >= range->address + range->granules * GRANULE;
        expect("overlap with an allocation", !is_apart, 0);
    }
}

static void step_reserve(range_t *range)
{
    const uint32_t granules = 1 + (uint32_t)draw(RANGE_GRANULES);
    uint64_t bytes = granules * GRANULE;
    pleat_status_t want = PLEAT_OK;
    if (draw(10) == 0) {
        bytes += 1 + draw(GRANULE - 1);
        want = PLEAT_ERR_INVALID;
    } else if (bytes > model.address_limit_bytes - model.reserved_bytes) {
        want = PLEAT_ERR_OOM_DEVICE;
    }
    want = seed_fault(PLEAT_VMM_CALL_ADDRESS_RESERVE, want);
    pleat_devptr_t address = 0;
    expect_status("address_reserve", pleat_vmm_address_reserve(model.vmm, bytes, &address), want);
    if (want == PLEAT_OK) {
        *range = (range_t){.address = address, .granules = granules};
        model.reserved_bytes += bytes;
        charge(PLEAT_VMM_CALL_ADDRESS_RESERVE);
        check_range_address(range);
    }
}

static bool range_is_empty(const range_t *range)
{
    for (uint32_t i = 0; i < range->granules; i++) {
        if (range->cells[i].mapping != 0) {
            return false;
        }
    }
    return true;
}

static void step_unreserve(range_t *range)
{
    uint64_t bytes = range->granules * GRANULE;
    pleat_devptr_t address = range->address;
    pleat_status_t want = range_is_empty(range) ? PLEAT_OK : PLEAT_ERR_INVALID;
    if (draw(4) == 0) { /* not the whole range */
        want = PLEAT_ERR_INVALID;
        if (range->granules > 1 && draw(2) == 0) {
            address += GRANULE;
            bytes -= GRANULE;
        } else {
            bytes += GRANULE;
        }
    }
    want = seed_fault(PLEAT_VMM_CALL_ADDRESS_FREE, want);
    expect_status("address_free", pleat_vmm_address_free(model.vmm, address, bytes), want);
    if (want == PLEAT_OK) {
        model.reserved_bytes -= bytes;
        range->address = 0;
        charge(PLEAT_VMM_CALL_ADDRESS_FREE);
    }
}

/* ---- chunks ---- */

static void chunk_drop(chunk_t *chunk)
{
    if (!chunk->is_held && chunk->mappings == 0) {
        model.used_bytes -= chunk->granules * GRANULE;
        *chunk = (chunk_t){.handle = 0};
    }
}

static void step_create(chunk_t *chunk)
{
    const uint32_t granules = 1 + (uint32_t)draw(draw(3) == 0 ? RANGE_GRANULES : 3);
    uint64_t bytes = granules * GRANULE;
    pleat_status_t want = PLEAT_OK;
    if (draw(10) == 0) {
        bytes = draw(2) == 0 ? 0 : bytes - 1 - draw(GRANULE - 1);
        want = PLEAT_ERR_INVALID;
    } else if (bytes > model.capacity_bytes - model.used_bytes) {
        want = PLEAT_ERR_OOM_DEVICE;
    }
    want = seed_fault(PLEAT_VMM_CALL_CHUNK_CREATE, want);
    pleat_chunk_t handle = 0;
    expect_status("chunk_create", pleat_vmm_chunk_create(model.vmm, bytes, &handle), want);
    if (want == PLEAT_OK) {
        *chunk = (chunk_t){.handle = handle, .granules = granules, .is_held = true};
        model.used_bytes += bytes;
        charge(PLEAT_VMM_CALL_CHUNK_CREATE);
    }
}

static void step_release(chunk_t *chunk)
{
    /* A handle may be given to another chunk once its own is gone. */
    pleat_status_t want = chunk->is_held ? PLEAT_OK : PLEAT_ERR_INVALID;
    want = seed_fault(PLEAT_VMM_CALL_CHUNK_RELEASE, want);
    expect_status("chunk_release", pleat_vmm_chunk_release(model.vmm, chunk->handle), want);
    if (want == PLEAT_OK) {
        chunk->is_held = false;
        charge(PLEAT_VMM_CALL_CHUNK_RELEASE);
        chunk_drop(chunk);
    }
}

/* ---- mappings ---- */

static pleat_status_t judge_map(const range_t *range, uint32_t first, uint32_t granules,
                                const chunk_t *chunk)
{
    if (first + granules > range->granules || !chunk->is_held || granules != chunk->granules) {
        return PLEAT_ERR_INVALID;
    }
    for (uint32_t i = first; i < first + granules; i++) {
        if (range->cells[i].mapping != 0) {
            return PLEAT_ERR_INVALID;
        }
    }
    return model.mapping_count < model.mapping_limit ? PLEAT_OK : PLEAT_ERR_OOM_DEVICE;
}

static void step_map(range_t *range, chunk_t *chunk)
{
    const uint32_t first = (uint32_t)draw(range->granules);
    const uint32_t granules = draw(12) == 0 ? 1 + (uint32_t)draw(4) : chunk->granules;
    const pleat_status_t want =
        seed_fault(PLEAT_VMM_CALL_MAP, judge_map(range, first, granules, chunk));
    expect_status("map",
                  pleat_vmm_map(model.vmm, range->address + first * GRANULE, granules * GRANULE,
                                chunk->handle),
                  want);
    if (want != PLEAT_OK) {
        return;
    }
    charge(PLEAT_VMM_CALL_MAP);
    model.mapping_number++;
    model.mapping_count++;
    chunk->mappings++;
    for (uint32_t i = 0; i < granules; i++) {
        range->cells[first + i] = (cell_t){.mapping = model.mapping_number,
                                           .chunk = (uint32_t)(chunk - model.chunks),
                                           .part = i,
                                           .granules = granules};
    }
}

/* Is the span made of whole mappings? How many? */
static bool span_is_whole(const range_t *range, uint32_t first, uint32_t granules,
                          uint32_t *count_out)
{
    uint32_t at = first;
    *count_out = 0;
    if (first + granules > range->granules) {
        return false;
    }
    while (at < first + granules) {
        const cell_t *cell = &range->cells[at];
        if (cell->mapping == 0 || cell->part != 0 || at + cell->granules > first + granules) {
            return false;
        }
        at += cell->granules;
        (*count_out)++;
    }
    return true;
}

/* A span that often is whole: from the begin of a mapping to the end of one. */
static void draw_span(const range_t *range, uint32_t *first_out, uint32_t *granules_out)
{
    uint32_t first = (uint32_t)draw(range->granules);
    uint32_t end = first + 1 + (uint32_t)draw(range->granules - first + 1);
    if (draw(5) != 0) {
        first -= range->cells[first].mapping != 0 ? range->cells[first].part : 0;
        const cell_t *last = end - 1 < range->granules ? &range->cells[end - 1] : NULL;
        end += last != NULL && last->mapping != 0 ? last->granules - 1 - last->part : 0;
    }
    *first_out = first;
    *granules_out = end - first;
}

static void step_unmap(range_t *range)
{
    uint32_t first = 0;
    uint32_t granules = 0;
    uint32_t count = 0;
    draw_span(range, &first, &granules);
    const bool is_whole = span_is_whole(range, first, granules, &count);
    const pleat_status_t want =
        seed_fault(PLEAT_VMM_CALL_UNMAP, is_whole ? PLEAT_OK : PLEAT_ERR_INVALID);
    expect_status("unmap",
                  pleat_vmm_unmap(model.vmm, range->address + first * GRANULE, granules * GRANULE),
                  want);
    if (want != PLEAT_OK) {
        return;
    }
    for (uint32_t i = first; i < first + granules; i++) {
        cell_t *cell = &range->cells[i];
        if (cell->part == 0) {
            charge(PLEAT_VMM_CALL_UNMAP);
            model.mapping_count--;
            model.chunks[cell->chunk].mappings--;
            chunk_drop(&model.chunks[cell->chunk]);
        }
        *cell = (cell_t){.mapping = 0};
    }
}

static void step_access(range_t *range)
{
    uint32_t first = 0;
    uint32_t granules = 0;
    uint32_t count = 0;
    draw_span(range, &first, &granules);
    const bool is_whole = span_is_whole(range, first, granules, &count);
    const pleat_status_t want =
        seed_fault(PLEAT_VMM_CALL_SET_ACCESS, is_whole ? PLEAT_OK : PLEAT_ERR_INVALID);
    expect_status(
        "set_access",
        pleat_vmm_set_access(model.vmm, range->address + first * GRANULE, granules * GRANULE),
        want);
    if (want == PLEAT_OK) {
        model.clock_ns += count * model.costs.call_ns[PLEAT_VMM_CALL_SET_ACCESS];
        for (uint32_t i = first; i < first + granules; i++) {
            range->cells[i].can_touch = true;
        }
    }
}

/* ---- plain allocations ---- */

static void step_plain(allocation_t *allocation)
{
    if (allocation->ptr != 0) {
        if (model.is_backed) {
            expect("word of an allocation", *word_at(allocation->ptr), allocation->word);
        }
        const pleat_status_t want = seed_fault(PLEAT_VMM_CALL_MEM_FREE, PLEAT_OK);
        expect_status("mem_free", pleat_vmm_mem_free(model.vmm, allocation->ptr), want);
        if (want == PLEAT_OK) {
            charge(PLEAT_VMM_CALL_MEM_FREE);
            model.used_bytes -= allocation->bytes;
            allocation->ptr = 0;
        }
        return;
    }
    const uint64_t bytes = 8 + draw(draw(2) == 0 ? 8192 : 8 * GRANULE);
    pleat_status_t want =
        bytes <= model.capacity_bytes - model.used_bytes ? PLEAT_OK : PLEAT_ERR_OOM_DEVICE;
    want = seed_fault(PLEAT_VMM_CALL_MEM_ALLOC, want);
    pleat_devptr_t ptr = 0;
    expect_status("mem_alloc", pleat_vmm_mem_alloc(model.vmm, bytes, &ptr), want);
    if (want == PLEAT_OK) {
        *allocation = (allocation_t){.ptr = ptr, .bytes = bytes};
        model.used_bytes += allocation->bytes;
        charge(PLEAT_VMM_CALL_MEM_ALLOC);
        if (model.is_backed) {
            allocation->word = model.call_number;
            *word_at(ptr) = allocation->word;
        }
    }
}

/* ---- contents ---- */

/* Check every granule that may be touched, then write some. */
static void check_contents(void)
{
    for (uint32_t r = 0; r < RANGES; r++) {
        const range_t *range = &model.ranges[r];
        for (uint32_t i = 0; range->address != 0 && i < range->granules; i++) {
            const cell_t *cell = &range->cells[i];
            if (cell->mapping == 0 || !cell->can_touch) {
                continue;
            }
            volatile uint64_t *shared = word_at(range->address + i * GRANULE + 4096);
            uint64_t *want = &model.chunks[cell->chunk].words[cell->part];
            expect("word of a chunk", *shared, *want);
            if (draw(3) == 0) {
                *want = draw(UINT64_MAX);
                *shared = *want;
            }
        }
    }
}

static void check_usage(void)
{
    pleat_sim_usage_t usage = PLEAT_SIM_USAGE_INIT;
    expect_status("sim_read_usage", pleat_sim_read_usage(model.vmm, &usage), PLEAT_OK);
    uint64_t ranges = 0;
    uint64_t chunks = 0;
    uint64_t chunk_bytes = 0;
    for (uint32_t i = 0; i < RANGES; i++) {
        ranges += model.ranges[i].address != 0;
    }
    for (uint32_t i = 0; i < CHUNKS; i++) {
        chunks += model.chunks[i].handle != 0;
        chunk_bytes += model.chunks[i].granules * GRANULE;
    }
    expect("ranges", usage.ranges, ranges);
    expect("chunks", usage.chunks, chunks);
    expect("bytes of chunks", usage.chunk_bytes, chunk_bytes);
    expect("mappings", usage.mappings, model.mapping_count);
    expect("used bytes", usage.allocated_bytes + usage.chunk_bytes, model.used_bytes);
    expect("clock", pleat_vmm_clock_ns(model.vmm), model.clock_ns);
}

static void step(void)
{
    range_t *range = &model.ranges[draw(RANGES)];
    chunk_t *chunk = &model.chunks[draw(CHUNKS)];
    const uint64_t kind = draw(100);
    if (kind < 5) {
        step_plain(&model.allocations[draw(ALLOCATIONS)]);
    } else if (range->address == 0) {
        step_reserve(range);
    } else if (chunk->handle == 0) {
        step_create(chunk);
    } else if (kind < 7) {
        step_unreserve(range);
    } else if (kind < 15) {
        step_release(chunk);
    } else if (kind < 55) {
        step_map(range, chunk);
    } else if (kind < 75) {
        step_unmap(range);
    } else {
        step_access(range);
    }
    check_usage();
    if (model.is_backed && model.call_number % 8 == 0) {
        check_contents();
    }
}

static void episode_begin(void)
{
    const uint64_t random_state = model.random_state;
    const uint64_t call_number = model.call_number;
    const bool was_backed = model.is_backed;
    memset(&model, 0, sizeof model);
    model.random_state = random_state;
    model.call_number = call_number;
    model.is_backed = !was_backed;
    model.capacity_bytes = (20 + draw(100)) * GRANULE + draw(GRANULE);
    model.address_limit_bytes = (30 + draw(100)) * GRANULE;
    model.mapping_limit = 10 + (uint32_t)draw(40);
    model.costs.size = sizeof model.costs;
    for (uint32_t i = 0; i < PLEAT_VMM_CALL_COUNT; i++) {
        model.costs.call_ns[i] = draw(100);
    }
    pleat_sim_options_t options = PLEAT_SIM_OPTIONS_INIT;
    options.capacity_bytes = model.capacity_bytes;
    options.address_limit_bytes = model.address_limit_bytes;
    options.mapping_limit = model.mapping_limit;
    options.is_backed = model.is_backed;
    options.costs = &model.costs;
    expect_status("sim_create", pleat_sim_create(&options, &model.vmm), PLEAT_OK);
}

/* Take everything back; the device must then hold nothing. */
static void episode_end(void)
{
    for (uint32_t i = 0; i < ALLOCATIONS; i++) {
        if (model.allocations[i].ptr != 0) {
            expect_status("mem_free", pleat_vmm_mem_free(model.vmm, model.allocations[i].ptr),
                          PLEAT_OK);
        }
    }
    for (uint32_t r = 0; r < RANGES; r++) {
        const range_t *range = &model.ranges[r];
        for (uint32_t i = 0; range->address != 0 && i < range->granules; i++) {
            if (range->cells[i].mapping != 0 && range->cells[i].part == 0) {
                expect_status("unmap",
                              pleat_vmm_unmap(model.vmm, range->address + i * GRANULE,
                                              range->cells[i].granules * GRANULE),
                              PLEAT_OK);
            }
        }
        if (range->address != 0) {
            expect_status(
                "address_free",
                pleat_vmm_address_free(model.vmm, range->address, range->granules * GRANULE),
                PLEAT_OK);
        }
    }
    for (uint32_t i = 0; i < CHUNKS; i++) {
        if (model.chunks[i].is_held) {
            expect_status("chunk_release",
                          pleat_vmm_chunk_release(model.vmm, model.chunks[i].handle), PLEAT_OK);
        }
    }
    pleat_sim_usage_t usage = PLEAT_SIM_USAGE_INIT;
    expect_status("sim_read_usage", pleat_sim_read_usage(model.vmm, &usage), PLEAT_OK);
    expect("what is left",
           usage.allocations + usage.ranges + usage.chunks + usage.chunk_bytes + usage.mappings, 0);
    pleat_vmm_destroy(model.vmm);
}

int main(int argc, char **argv)
{
    const uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    const uint64_t calls = argc > 2 ? strtoull(argv[2], NULL, 10) : 300000;
    (void)printf("mapping_model: seed %" PRIu64 ", %" PRIu64 " calls\n", seed, calls);
    model.random_state = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15);
    while (model.call_number < calls) {
        episode_begin();
        for (uint32_t i = 0; i < EPISODE_CALLS; i++) {
            model.call_number++;
            step();
        }
        episode_end();
    }
    (void)printf("mapping_model: all answers agreed\n");
    return 0;
}
