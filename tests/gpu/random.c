/*
 * random: random calls of the allocator on a GPU, in every mode, with real work on real memory.
 * Every block is filled by a kernel with a pattern of its own when it is allocated, and checked by
 * a kernel before it is freed: on its own stream, or on another one that record_stream is told of.
 * Kernels that take their time stand between, so that memory handed out too early shows.
 *
 *   gpu_random [--mode NAME] [--seed N] [--calls N] [--streams N] [--largest BYTES] [--live BYTES]
 *              [--driver FILE] [--device N]
 *
 * Prints, for each mode, words filled and checked, and wrong words. Exit status: 0 none is wrong,
 * 1 one is or a call failed, 77 no GPU here (1 when PLEAT_REQUIRE_GPU is set).
 */
#include "gpu_device.h"

#include "vmm/base.h"

#include <inttypes.h>
#include <pleat/allocator.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STREAMS_MAX 8u
#define BLOCKS_MAX 2048u
#define DELAY_NS UINT64_C(200000)

typedef struct block {
    pleat_devptr_t ptr; /* 0: not live */
    uint64_t bytes;
    uint32_t stream; /* of allocation */
    uint32_t seed;
} block_t;

typedef struct run {
    pleat_vmm_t *vmm;
    pleat_gpu_t *gpu;
    pleat_allocator_t *allocator;
    uint64_t random_state;
    uint64_t largest_bytes;
    uint64_t live_limit_bytes;
    uint64_t live_bytes;
    uint32_t stream_count;
    pleat_stream_t streams[STREAMS_MAX];
    pleat_event_t events[STREAMS_MAX]; /* the last point of each that another waits for */
    pleat_gpu_spin_t delay;            /* its flag is never set: it ends by its limit */
    pleat_devptr_t counter;
    uint32_t next_seed;
    block_t blocks[BLOCKS_MAX];

    /* What is reported. */
    uint64_t allocs;
    uint64_t failed_allocs;
    uint64_t words_filled;
    uint64_t words_checked;
    uint64_t crossings; /* checks on another stream than the block's */
} run_t;

static uint64_t draw(run_t *run, uint64_t below)
{
    run->random_state ^= run->random_state << 13;
    run->random_state ^= run->random_state >> 7;
    run->random_state ^= run->random_state << 17;
    return (run->random_state >> 11) % below;
}

static uint64_t draw_bytes(run_t *run)
{
    const uint64_t kind = draw(run, 20);
    uint64_t bytes = 0;
    if (kind < 6) {
        bytes = 1 + draw(run, PLEAT_MIB);
    } else if (kind < 12) {
        bytes = 1 + draw(run, 20 * PLEAT_MIB);
    } else if (kind < 19) {
        bytes = 1 + draw(run, 200 * PLEAT_MIB);
    } else {
        bytes = 1 + draw(run, run->largest_bytes);
    }
    return bytes < run->largest_bytes ? bytes : 1 + bytes % run->largest_bytes;
}

static void delay(run_t *run, uint32_t stream)
{
    if (draw(run, 4) == 0) {
        gpu_require(pleat_gpu_spin_begin(run->gpu, &run->delay, run->streams[stream],
                                         1 + draw(run, DELAY_NS)),
                    "launching a delay");
    }
}

static uint64_t words_of(const block_t *block)
{
    return (block->bytes + 3) / 4; /* blocks are multiples of 512 bytes, whatever was asked for */
}

static void check_block(run_t *run, const block_t *block, uint32_t stream)
{
    delay(run, stream);
    gpu_require(pleat_gpu_check(run->gpu, run->streams[stream], block->ptr, words_of(block),
                                block->seed, run->counter),
                "launching a check");
    run->words_checked += words_of(block);
}

/* Let a stream wait for all that another has queued. */
static void order(run_t *run, uint32_t behind, uint32_t before)
{
    gpu_require(pleat_vmm_event_record(run->vmm, run->events[before], run->streams[before]),
                "recording an event");
    gpu_require(pleat_vmm_stream_wait_event(run->vmm, run->streams[behind], run->events[before]),
                "waiting for an event");
}

/* Check a block on its own stream or on another, then free it. */
static void free_block(run_t *run, block_t *block)
{
    const uint32_t other = (uint32_t)draw(run, run->stream_count);
    check_block(run, block, block->stream);
    if (other != block->stream && draw(run, 3) == 0) {
        order(run, other, block->stream);
        check_block(run, block, other);
        gpu_require(pleat_record_stream(run->allocator, block->ptr, run->streams[other]),
                    "record_stream");
        run->crossings++;
    }
    gpu_require(pleat_free(run->allocator, block->ptr), "free");
    run->live_bytes -= block->bytes;
    block->ptr = 0;
}

static block_t *draw_live(run_t *run)
{
    const uint64_t first = draw(run, BLOCKS_MAX);
    for (uint64_t i = 0; i < BLOCKS_MAX; i++) {
        block_t *block = &run->blocks[(first + i) % BLOCKS_MAX];
        if (block->ptr != 0) {
            return block;
        }
    }
    return NULL;
}

static void alloc_block(run_t *run)
{
    block_t *block = &run->blocks[draw(run, BLOCKS_MAX)];
    if (block->ptr != 0) {
        free_block(run, block);
    }
    const uint64_t bytes = draw_bytes(run);
    while (run->live_bytes + bytes > run->live_limit_bytes) {
        block_t *victim = draw_live(run);
        if (victim == NULL) {
            break;
        }
        free_block(run, victim);
    }
    const uint32_t stream = (uint32_t)draw(run, run->stream_count);
    pleat_devptr_t ptr = 0;
    const pleat_status_t status = pleat_alloc(run->allocator, bytes, run->streams[stream], &ptr);
    run->allocs++;
    if (status == PLEAT_ERR_OOM_DEVICE) { /* fragmentation under the limit; some must go */
        run->failed_allocs++;
        for (int i = 0; i < 8; i++) {
            block_t *victim = draw_live(run);
            if (victim != NULL) {
                free_block(run, victim);
            }
        }
        return;
    }
    gpu_require(status, "alloc");
    *block = (block_t){.ptr = ptr, .bytes = bytes, .stream = stream, .seed = ++run->next_seed};
    run->live_bytes += bytes;
    delay(run, stream);
    gpu_require(pleat_gpu_fill(run->gpu, run->streams[stream], ptr, words_of(block), block->seed),
                "launching a fill");
    run->words_filled += words_of(block);
}

static void step(run_t *run, uint64_t number)
{
    const uint64_t kind = draw(run, 1000);
    block_t *block = draw_live(run);
    if (kind < 550 || block == NULL) {
        alloc_block(run);
    } else if (kind < 940) {
        free_block(run, block);
    } else if (kind < 998) {
        check_block(run, block, block->stream);
    } else {
        gpu_require(pleat_empty_cache(run->allocator), "empty_cache");
    }
    if (number % 256 == 0) {
        gpu_require(pleat_allocator_check(run->allocator), "the check of the invariants");
    }
}

static void run_begin(run_t *run, pleat_mode_t mode)
{
    pleat_options_t options = PLEAT_OPTIONS_INIT;
    options.mode = mode;
    /* Less than the live blocks may need with what lies between them: the ways out of a full
     * device are gone as well. */
    options.limit_bytes = run->live_limit_bytes + run->live_limit_bytes / 8;
    gpu_require(pleat_allocator_create(&options, run->vmm, &run->allocator), "allocator_create");
    gpu_require(pleat_gpu_driver_fill(run->gpu, run->streams[1], run->counter, 0, 2),
                "clearing the counter");
    gpu_require(pleat_gpu_finish(run->gpu), "waiting for the GPU");
    run->next_seed = 0;
    run->allocs = 0;
    run->failed_allocs = 0;
    run->words_filled = 0;
    run->words_checked = 0;
    run->crossings = 0;
}

/* Free what is left and tell the number of wrong words. */
static uint64_t run_end(run_t *run)
{
    for (uint32_t i = 0; i < BLOCKS_MAX; i++) {
        if (run->blocks[i].ptr != 0) {
            free_block(run, &run->blocks[i]);
        }
    }
    gpu_require(pleat_allocator_check(run->allocator), "the check of the invariants");
    gpu_require(pleat_gpu_finish(run->gpu), "waiting for the GPU");
    gpu_require(pleat_empty_cache(run->allocator), "empty_cache");
    pleat_stats_t stats = {.size = sizeof stats};
    pleat_read_stats(run->allocator, &stats);
    const int64_t left = stats.reserved_bytes[PLEAT_STAT_ALL].current;
    if (left != 0) {
        (void)printf("%" PRId64 " bytes are still reserved\n", left);
    }
    pleat_allocator_destroy(run->allocator);
    uint64_t wrong = 0;
    gpu_require(pleat_gpu_read(run->gpu, &wrong, run->counter, sizeof wrong),
                "reading the counter");
    return wrong + (left != 0);
}

static uint64_t run_mode(run_t *run, pleat_mode_t mode, uint64_t calls)
{
    pleat_vmm_counters_t before = PLEAT_VMM_COUNTERS_INIT;
    pleat_vmm_counters_t after = PLEAT_VMM_COUNTERS_INIT;
    pleat_vmm_read_counters(run->vmm, &before);
    const uint64_t begin_ns = gpu_now_ns();
    run_begin(run, mode);
    for (uint64_t i = 1; i <= calls; i++) {
        step(run, i);
    }
    const uint64_t wrong = run_end(run);
    pleat_vmm_read_counters(run->vmm, &after);
    uint64_t driver_calls = 0;
    for (unsigned i = 0; i < PLEAT_VMM_CALL_COUNT; i++) {
        driver_calls +=
            pleat_vmm_call_is_memory((pleat_vmm_call_t)i) ? after.calls[i] - before.calls[i] : 0;
    }
    (void)printf("random %-17s %8" PRIu64 " allocs (%" PRIu64 " out of memory) %7" PRIu64
                 " crossings %6" PRIu64 " driver calls %5" PRIu64
                 " waits  %8.2f GB moved  %12" PRIu64 " words checked  %" PRIu64 " wrong  %.1f s\n",
                 pleat_mode_name(mode), run->allocs, run->failed_allocs, run->crossings,
                 driver_calls, after.waits - before.waits,
                 4e-9 * (double)(run->words_filled + run->words_checked), run->words_checked, wrong,
                 1e-9 * (double)(gpu_now_ns() - begin_ns));
    (void)fflush(stdout);
    return wrong;
}

static void run_open(run_t *run, const gpu_device_t *device, int argc, char **argv)
{
    uint64_t free_bytes = 0;
    uint64_t total_bytes = 0;
    *run = (run_t){.vmm = device->vmm, .gpu = device->gpu};
    gpu_require(pleat_vmm_mem_info(run->vmm, &free_bytes, &total_bytes), "mem_info");
    run->random_state =
        (gpu_argument_number(argc, argv, "--seed", 1) + 1) * UINT64_C(0x9e3779b97f4a7c15);
    run->live_limit_bytes = gpu_argument_number(argc, argv, "--live", free_bytes / 4);
    run->largest_bytes = gpu_argument_number(argc, argv, "--largest", 2 * PLEAT_GIB);
    const uint64_t streams = gpu_argument_number(argc, argv, "--streams", 4);
    run->stream_count = streams < 2 ? 2 : streams > STREAMS_MAX ? STREAMS_MAX : (uint32_t)streams;
    /* Stream 0 is the default stream, as it is in most programs. */
    for (uint32_t i = 0; i < run->stream_count; i++) {
        if (i > 0) {
            gpu_require(pleat_gpu_stream_create(run->gpu, &run->streams[i]), "making a stream");
        }
        gpu_require(pleat_vmm_event_create(run->vmm, &run->events[i]), "making an event");
    }
    gpu_require(pleat_gpu_spin_init(run->gpu, &run->delay), "preparing a delay");
    gpu_require(pleat_vmm_mem_alloc(run->vmm, 512, &run->counter), "allocating the counter");
}

static void run_close(run_t *run)
{
    gpu_require(pleat_vmm_mem_free(run->vmm, run->counter), "freeing the counter");
    pleat_gpu_spin_fini(run->gpu, &run->delay);
    for (uint32_t i = 0; i < run->stream_count; i++) {
        gpu_require(pleat_vmm_event_destroy(run->vmm, run->events[i]), "destroying an event");
        if (i > 0) {
            pleat_gpu_stream_destroy(run->gpu, run->streams[i]);
        }
    }
}

int main(int argc, char **argv)
{
    static run_t run;
    gpu_device_t device = gpu_device_open(argc, argv);
    const char *wanted = gpu_argument(argc, argv, "--mode", NULL);
    const uint64_t calls = gpu_argument_number(argc, argv, "--calls", 20000);
    (void)printf("GPU: %s, seed %" PRIu64 ", %" PRIu64 " calls a mode\n",
                 pleat_gpu_name(device.gpu), gpu_argument_number(argc, argv, "--seed", 1), calls);
    run_open(&run, &device, argc, argv);
    uint64_t wrong = 0;
    uint64_t modes = 0;
    for (unsigned i = 0; i < PLEAT_MODE_COUNT; i++) {
        const pleat_mode_t mode = (pleat_mode_t)i;
        if (wanted == NULL || strcmp(wanted, pleat_mode_name(mode)) == 0) {
            wrong += run_mode(&run, mode, calls);
            modes++;
        }
    }
    run_close(&run);
    gpu_device_close(&device);
    if (modes == 0) {
        (void)fprintf(stderr, "--mode: '%s' is no mode\n", wanted);
        return 2;
    }
    return wrong == 0 ? GPU_EXIT_PASS : GPU_EXIT_FAIL;
}
