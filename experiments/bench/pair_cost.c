/*
 * pair_cost: pairs of alloc and free in steady state, on the simulated device; made to be counted
 * by callgrind (see `instructions` beside it), which looks at pair_cost_run only.
 *
 * Usage: pair_cost ROW PAIRS | pair_cost --list. Prints the row, the pairs and a checksum of the
 * addresses, so that the work can neither be left out nor change unnoticed.
 */
#include <pleat/allocator.h>
#include <pleat/sim.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct row {
    const char *name;
    uint64_t live_count;  /* blocks alive all the time */
    uint64_t least_bytes; /* sizes are between the two, all magnitudes alike */
    uint64_t most_bytes;
    uint64_t cycle_count; /* sizes that come again in turn, slot by slot; 0: all is drawn afresh */
    pleat_mode_t mode;
} row_t;

static const row_t rows[] = {
    {"same_512B", 1, 512, 512, 0, PLEAT_MODE_CLASSIC},
    {"same_64KiB", 1, UINT64_C(64) << 10, UINT64_C(64) << 10, 0, PLEAT_MODE_CLASSIC},
    {"same_3MiB", 1, UINT64_C(3) << 20, UINT64_C(3) << 20, 0, PLEAT_MODE_CLASSIC},
    {"same_64MiB", 1, UINT64_C(64) << 20, UINT64_C(64) << 20, 0, PLEAT_MODE_CLASSIC},
    {"cycle_32", 32, 512, UINT64_C(64) << 20, 64, PLEAT_MODE_CLASSIC},
    {"random_100", 100, 512, UINT64_C(4) << 20, 0, PLEAT_MODE_CLASSIC},
    {"random_1000", 1000, 512, UINT64_C(4) << 20, 0, PLEAT_MODE_CLASSIC},
    {"random_10000", 10000, 512, UINT64_C(4) << 20, 0, PLEAT_MODE_CLASSIC},
    {"pleated_same_512B", 1, 512, 512, 0, PLEAT_MODE_PLEATED},
    {"pleated_same_64KiB", 1, UINT64_C(64) << 10, UINT64_C(64) << 10, 0, PLEAT_MODE_PLEATED},
    {"pleated_same_3MiB", 1, UINT64_C(3) << 20, UINT64_C(3) << 20, 0, PLEAT_MODE_PLEATED},
    {"pleated_same_64MiB", 1, UINT64_C(64) << 20, UINT64_C(64) << 20, 0, PLEAT_MODE_PLEATED},
    {"pleated_cycle_32", 32, 512, UINT64_C(64) << 20, 64, PLEAT_MODE_PLEATED},
    {"pleated_random_100", 100, 512, UINT64_C(4) << 20, 0, PLEAT_MODE_PLEATED},
    {"pleated_random_1000", 1000, 512, UINT64_C(4) << 20, 0, PLEAT_MODE_PLEATED},
};

/* One pair: free what lies in a slot, and put something of this size there. */
typedef struct pair {
    uint64_t slot;
    uint64_t bytes;
} pair_t;

static uint64_t random_next(uint64_t *state)
{
    *state += UINT64_C(0x9E3779B97F4A7C15);
    uint64_t mixed = *state;
    mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94D049BB133111EB);
    return mixed ^ (mixed >> 31);
}

/* A magnitude first, then a size of that magnitude. */
static uint64_t random_bytes(uint64_t *state, const row_t *row)
{
    if (row->least_bytes == row->most_bytes) {
        return row->least_bytes;
    }
    unsigned octaves = 1;
    while (row->least_bytes << octaves < row->most_bytes) {
        octaves++;
    }
    const uint64_t base = row->least_bytes << random_next(state) % octaves;
    return base + random_next(state) % base;
}

static void check(pleat_status_t status)
{
    if (status != PLEAT_OK) {
        fprintf(stderr, "pair_cost: %s\n", pleat_last_error());
        exit(1);
    }
}

/* What is counted. */
uint64_t pair_cost_run(pleat_allocator_t *allocator, const pair_t *pairs, uint64_t count,
                       pleat_devptr_t *slots);

__attribute__((noinline)) uint64_t pair_cost_run(pleat_allocator_t *allocator, const pair_t *pairs,
                                                 uint64_t count, pleat_devptr_t *slots)
{
    uint64_t checksum = 0;
    for (uint64_t i = 0; i < count; i++) {
        pleat_devptr_t *slot = &slots[pairs[i].slot];
        check(pleat_free(allocator, *slot));
        check(pleat_alloc(allocator, pairs[i].bytes, 0, slot));
        checksum = (checksum ^ (*slot >> 9)) * UINT64_C(0x9E3779B97F4A7C15);
    }
    return checksum;
}

/* Draw the pairs of a row. */
static void fill_pairs(const row_t *row, pair_t *pairs, uint64_t count)
{
    uint64_t random = 1;
    for (uint64_t i = 0; i < count; i++) {
        const bool is_cycle = row->cycle_count > 0;
        pairs[i].slot = (is_cycle ? i : random_next(&random)) % row->live_count;
        pairs[i].bytes = is_cycle && i >= row->cycle_count ? pairs[i - row->cycle_count].bytes
                                                           : random_bytes(&random, row);
    }
}

static int run_row(const row_t *row, uint64_t count)
{
    const uint64_t warm_up_count = row->live_count * 20 + row->cycle_count * 200;
    pair_t *pairs = calloc(count + warm_up_count, sizeof(*pairs));
    pleat_devptr_t *slots = calloc(row->live_count, sizeof(*slots));
    pleat_vmm_t *vmm = NULL;
    pleat_allocator_t *allocator = NULL;
    pleat_options_t options = PLEAT_OPTIONS_INIT;
    options.mode = row->mode;
    if (pairs == NULL || slots == NULL) {
        fputs("pair_cost: no host memory\n", stderr);
        free(pairs);
        free(slots);
        return 1;
    }
    check(pleat_sim_create(NULL, &vmm));
    check(pleat_allocator_create(&options, vmm, &allocator));
    fill_pairs(row, pairs, count + warm_up_count);
    /* The warm-up fills the slots and lets the cache settle. */
    for (uint64_t i = 0; i < warm_up_count; i++) {
        pleat_devptr_t *slot = &slots[pairs[i].slot];
        check(pleat_free(allocator, *slot));
        check(pleat_alloc(allocator, pairs[i].bytes, 0, slot));
    }
    const uint64_t checksum = pair_cost_run(allocator, pairs + warm_up_count, count, slots);
    printf("%s %" PRIu64 " %016" PRIx64 "\n", row->name, count, checksum);
    pleat_allocator_destroy(allocator);
    pleat_vmm_destroy(vmm);
    free(pairs);
    free(slots);
    return 0;
}

int main(int argc, char **argv)
{
    const size_t row_count = sizeof(rows) / sizeof(rows[0]);
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        for (size_t i = 0; i < row_count; i++) {
            puts(rows[i].name);
        }
        return 0;
    }
    char *end = NULL;
    const uint64_t count = argc == 3 ? strtoull(argv[2], &end, 10) : 0;
    for (size_t i = 0; i < row_count && count > 0 && *end == '\0'; i++) {
        if (strcmp(argv[1], rows[i].name) == 0) {
            return run_row(&rows[i], count);
        }
    }
    fprintf(stderr, "usage: %s ROW PAIRS | %s --list\n", argv[0], argv[0]);
    return 2;
}
