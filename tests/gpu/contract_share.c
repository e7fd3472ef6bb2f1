/*
 * contract_share: one program, two processes.
 */
#include "contract_share.h"

#include "contract_expect.h"
#include "vmm/base.h"

#include <pleat/share.h>
#include <pleat/sim.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BLOCK_BYTES (30 * PLEAT_MIB)
#define BLOCK_WORDS (BLOCK_BYTES / 4)
#define MESSAGE_BYTES 4096
#define SEED_THERE 41 /* what the exporter writes */
#define SEED_BACK 42  /* what the importer writes */

static void skip(const char *why)
{
    (void)printf("  skipped: %s\n", why);
}

/* One more device like the one under contract, whose chunks can be handed out; NULL: there is
 * none, and why was said. */
static pleat_vmm_t *open_sharing(contract_device_t *device, int index)
{
    pleat_vmm_t *vmm = NULL;
    pleat_status_t status = PLEAT_OK;
    if (device->gpu == NULL) {
        pleat_sim_options_t options = PLEAT_SIM_OPTIONS_INIT;
        options.is_backed = device->has_contents;
        options.exports_chunks = 1;
        status = pleat_sim_create(&options, &vmm);
    } else {
        pleat_cuda_options_t options = PLEAT_CUDA_OPTIONS_INIT;
        options.driver = device->driver;
        options.handle_types = PLEAT_CUDA_HANDLE_FILE;
        status = pleat_cuda_create(index, &options, &vmm);
    }
    if (status != PLEAT_OK) {
        skip(pleat_last_error());
    }
    return vmm;
}

static pleat_allocator_t *make_allocator(pleat_vmm_t *vmm, pleat_mode_t mode)
{
    pleat_options_t options = PLEAT_OPTIONS_INIT;
    options.mode = mode;
    pleat_allocator_t *allocator = NULL;
    gpu_require(pleat_allocator_create(&options, vmm, &allocator), "making an allocator");
    return allocator;
}

/* ---- one process ---- */

void check_a_chunk_comes_back_from_a_descriptor(contract_device_t *device)
{
    pleat_vmm_t *vmm = open_sharing(device, 0);
    uint64_t granule = 0;
    pleat_devptr_t range = 0;
    pleat_chunk_t chunk = 0;
    pleat_chunk_t again = 0;
    int file = -1;
    if (vmm == NULL) {
        return;
    }
    EXPECT_OK(pleat_vmm_granularity(vmm, &granule));
    EXPECT_OK(pleat_vmm_address_reserve(vmm, 2 * granule, &range));
    EXPECT_OK(pleat_vmm_chunk_create(vmm, granule, &chunk));
    EXPECT_OK(pleat_vmm_chunk_export(vmm, chunk, &file));
    EXPECT_OK(pleat_vmm_map(vmm, range, granule, chunk));
    EXPECT_OK(pleat_vmm_chunk_import(vmm, file, &again));
    (void)close(file);
    EXPECT_OK(pleat_vmm_map(vmm, range + granule, granule, again));
    EXPECT_OK(pleat_vmm_set_access(vmm, range, 2 * granule));
    contract_fill(device, 0, range, granule / 4, 7);
    EXPECT(contract_wrong(device, 0, range + granule, granule / 4, 7) == 0);
    /* The import holds the memory when all else of it is gone. */
    EXPECT_OK(pleat_vmm_unmap(vmm, range, granule));
    EXPECT_OK(pleat_vmm_chunk_release(vmm, chunk));
    EXPECT(contract_wrong(device, 0, range + granule, granule / 4, 7) == 0);
    EXPECT_OK(pleat_vmm_unmap(vmm, range + granule, granule));
    EXPECT_OK(pleat_vmm_chunk_release(vmm, again));
    EXPECT_OK(pleat_vmm_address_free(vmm, range, 2 * granule));
    pleat_vmm_destroy(vmm);
}

/* ---- the process that exports ---- */

static pleat_mode_t mode_of(const char *name)
{
    for (int mode = 0; mode < PLEAT_MODE_COUNT; mode++) {
        if (strcmp(name, pleat_mode_name((pleat_mode_t)mode)) == 0) {
            return (pleat_mode_t)mode;
        }
    }
    (void)fprintf(stderr, "--export: '%s' is no mode\n", name);
    exit(2);
}

/* A block; in pleated mode one that joins chunks which lie apart, if that comes about. */
static pleat_devptr_t make_block(pleat_allocator_t *allocator)
{
    pleat_devptr_t gaps[4] = {0};
    pleat_devptr_t block = 0;
    for (int i = 0; i < 4; i++) {
        gpu_require(pleat_alloc(allocator, 16 * PLEAT_MIB, 0, &gaps[i]), "allocating");
    }
    gpu_require(pleat_free(allocator, gaps[0]), "freeing");
    gpu_require(pleat_free(allocator, gaps[2]), "freeing");
    gpu_require(pleat_alloc(allocator, BLOCK_BYTES, 0, &block), "allocating");
    return block;
}

int contract_share_export(contract_device_t *device, int argc, char **argv)
{
    const int to = (int)gpu_argument_number(argc, argv, "--to", 0);
    const int from = (int)gpu_argument_number(argc, argv, "--from", 0);
    const pleat_mode_t mode = mode_of(gpu_argument(argc, argv, "--export", ""));
    pleat_vmm_t *vmm = open_sharing(device, 0);
    if (vmm == NULL) {
        return GPU_EXIT_SKIP;
    }
    pleat_allocator_t *allocator = make_allocator(vmm, mode);
    const pleat_devptr_t block = make_block(allocator);
    pleat_share_t *share = NULL;
    unsigned char message[MESSAGE_BYTES];
    size_t length = 0;
    char answer = 0;
    contract_fill(device, 0, block, BLOCK_WORDS, SEED_THERE);
    gpu_require(contract_finish(device), "filling");
    gpu_require(pleat_share_block(allocator, block, &share), "describing a block");
    (void)fprintf(stderr, "  exporter: mode %s, %zu chunks\n", pleat_mode_name(mode),
                  share->chunk_count);
    gpu_require(pleat_share_write(share, message, sizeof message, &length), "writing it");
    pleat_share_destroy(share);
    if (write(to, message, length) != (ssize_t)length || read(from, &answer, 1) != 1) {
        return GPU_EXIT_FAIL;
    }
    const uint64_t wrong =
        answer == 'w' ? contract_wrong(device, 0, block, BLOCK_WORDS, SEED_BACK) : 0;
    pleat_allocator_destroy(allocator);
    pleat_vmm_destroy(vmm);
    contract_close(device);
    return wrong == 0 ? GPU_EXIT_PASS : GPU_EXIT_FAIL;
}

/* ---- the process that imports ---- */

typedef struct exporter {
    pid_t process;
    int from;
    int to;
} exporter_t;

static exporter_t start_exporter(const contract_device_t *device, pleat_mode_t mode)
{
    int there[2];
    int back[2];
    char to[16];
    char from[16];
    if (pipe(there) != 0 || pipe(back) != 0) {
        gpu_fail(PLEAT_ERR_IO, "making pipes");
    }
    (void)snprintf(to, sizeof to, "%d", there[1]);
    (void)snprintf(from, sizeof from, "%d", back[0]);
    const char *arguments[] = {device->arguments[0],
                               "--device",
                               device->gpu == NULL ? "sim" : "cuda",
                               "--export",
                               pleat_mode_name(mode),
                               "--to",
                               to,
                               "--from",
                               from,
                               device->driver == NULL ? NULL : "--driver",
                               device->driver,
                               NULL};
    const pid_t process = fork();
    if (process == 0) {
        (void)close(there[0]);
        (void)close(back[1]);
        (void)execv("/proc/self/exe", (char *const *)(uintptr_t)arguments);
        _exit(GPU_EXIT_FAIL);
    }
    (void)close(there[1]);
    (void)close(back[0]);
    return (exporter_t){.process = process, .from = there[0], .to = back[1]};
}

static void end_exporter(const exporter_t *exporter, char answer)
{
    int status = -1;
    EXPECT(write(exporter->to, &answer, 1) == 1);
    EXPECT(waitpid(exporter->process, &status, 0) == exporter->process);
    const bool is_good = WIFEXITED(status) && WEXITSTATUS(status) == GPU_EXIT_PASS;
    EXPECT(is_good);
    (void)close(exporter->from);
    (void)close(exporter->to);
}

/* Use the memory of a description: read what is there, write something else. */
static void use_shared(contract_device_t *device, pleat_allocator_t *allocator,
                       const pleat_share_t *share, const exporter_t *exporter)
{
    pleat_devptr_t base = 0;
    const pleat_status_t status = pleat_share_open(allocator, share, &base);
    if (status == PLEAT_ERR_UNSUPPORTED) {
        skip(pleat_last_error());
        end_exporter(exporter, 's');
        return;
    }
    EXPECT_OK(status);
    if (status != PLEAT_OK) {
        end_exporter(exporter, 's');
        return;
    }
    const pleat_devptr_t block = base + share->offset;
    EXPECT(contract_wrong(device, 0, block, BLOCK_WORDS, SEED_THERE) == 0);
    contract_fill(device, 0, block, BLOCK_WORDS, SEED_BACK);
    EXPECT_OK(contract_finish(device));
    if (share->kind == PLEAT_SHARE_PLAIN) {
        /* Plain memory must be closed before its owner frees it. */
        EXPECT_OK(pleat_share_close(allocator, base));
        end_exporter(exporter, 'w');
        return;
    }
    end_exporter(exporter, 'w');
    /* The exporter is gone, the memory is not. */
    EXPECT(contract_wrong(device, 0, block, BLOCK_WORDS, SEED_BACK) == 0);
    EXPECT_OK(pleat_share_close(allocator, base));
}

static void check_other_process(contract_device_t *device, pleat_mode_t mode)
{
    pleat_vmm_t *vmm = open_sharing(device, 0);
    if (vmm == NULL) {
        return;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    const exporter_t exporter = start_exporter(device, mode);
    unsigned char message[MESSAGE_BYTES];
    const ssize_t length = read(exporter.from, message, sizeof message);
    EXPECT(length > 0);
    if (length <= 0) {
        (void)waitpid(exporter.process, NULL, 0);
        pleat_vmm_destroy(vmm);
        return;
    }
    pleat_allocator_t *allocator = make_allocator(vmm, PLEAT_MODE_PLEATED);
    pleat_share_t *share = NULL;
    const pleat_status_t status = pleat_share_read(message, (size_t)length, &share);
    if (status != PLEAT_OK) {
        skip(pleat_last_error());
        end_exporter(&exporter, 's');
    } else {
        use_shared(device, allocator, share, &exporter);
    }
    pleat_share_destroy(share);
    pleat_allocator_destroy(allocator);
    pleat_vmm_destroy(vmm);
}

void check_another_process_uses_chunks(contract_device_t *device)
{
    check_other_process(device, PLEAT_MODE_TORCH_EXPANDABLE);
    check_other_process(device, PLEAT_MODE_PLEATED);
}

void check_another_process_uses_plain_memory(contract_device_t *device)
{
    check_other_process(device, PLEAT_MODE_CLASSIC);
}

/* ---- another device ---- */

/* Wrong words of a block, counted by a kernel on the other GPU. */
static uint64_t wrong_on_other(pleat_vmm_t *other, pleat_devptr_t block, uint32_t seed)
{
    pleat_gpu_t *gpu = NULL;
    pleat_devptr_t counter = 0;
    uint64_t wrong = 0;
    gpu_require(pleat_gpu_open(other, &gpu), "opening the other GPU");
    gpu_require(pleat_vmm_mem_alloc(other, 512, &counter), "allocating a counter");
    gpu_require(pleat_gpu_write(gpu, counter, &wrong, sizeof wrong), "clearing a counter");
    EXPECT_OK(pleat_gpu_check(gpu, 0, block, BLOCK_WORDS, seed, counter));
    EXPECT_OK(pleat_gpu_finish(gpu));
    gpu_require(pleat_gpu_read(gpu, &wrong, counter, sizeof wrong), "reading a counter");
    gpu_require(pleat_vmm_mem_free(other, counter), "freeing the counter");
    pleat_gpu_close(gpu);
    return wrong;
}

static void check_peer(contract_device_t *device, pleat_vmm_t *vmm, pleat_vmm_t *other)
{
    pleat_allocator_t *allocator = make_allocator(vmm, PLEAT_MODE_PLEATED);
    const pleat_devptr_t early = make_block(allocator);
    const pleat_status_t status = pleat_allocator_enable_peer(allocator, 1);
    if (status == PLEAT_ERR_UNSUPPORTED) {
        skip(pleat_last_error());
        pleat_allocator_destroy(allocator);
        return;
    }
    EXPECT_OK(status);
    const pleat_devptr_t late = make_block(allocator);
    contract_fill(device, 0, early, BLOCK_WORDS, 51);
    contract_fill(device, 0, late, BLOCK_WORDS, 52);
    EXPECT_OK(contract_finish(device));
    EXPECT(wrong_on_other(other, early, 51) == 0);
    EXPECT(wrong_on_other(other, late, 52) == 0);
    pleat_allocator_destroy(allocator);
}

void check_another_device_uses_mappings(contract_device_t *device)
{
    if (device->gpu == NULL) {
        skip("the kernels of a simulated device are the host");
        return;
    }
    pleat_vmm_t *other = open_sharing(device, 1);
    pleat_vmm_t *vmm = other == NULL ? NULL : open_sharing(device, 0);
    if (vmm != NULL) {
        check_peer(device, vmm, other);
    }
    pleat_vmm_destroy(vmm);
    pleat_vmm_destroy(other);
}
