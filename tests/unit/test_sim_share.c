/*
 * Tests of sim_share and chunk_file: chunks of a simulated device in another process, with real
 * contents, and in the same one; handles of plain memory; peers.
 */
#include "vmm/chunk_file.h"
#include "vmm/sim.h"

#include "host_fault.h"

#include <errno.h>
#include <fcntl.h>
#include <pleat/sim.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#define GRANULE (2 * PLEAT_MIB)

/* ---- wrapped calls to the host ---- */

static bool refuses_memfd;
static bool refuses_ftruncate;
static bool refuses_fcntl;

int __real_memfd_create(const char *name, unsigned flags);
int __wrap_memfd_create(const char *name, unsigned flags);
int __real_ftruncate(int file, off_t bytes);
int __wrap_ftruncate(int file, off_t bytes);
int __real_fcntl(int file, int command, int argument);
int __wrap_fcntl(int file, int command, int argument);

int __wrap_memfd_create(const char *name, unsigned flags)
{
    errno = EMFILE;
    return refuses_memfd ? -1 : __real_memfd_create(name, flags);
}

int __wrap_ftruncate(int file, off_t bytes)
{
    errno = ENOMEM;
    return refuses_ftruncate ? -1 : __real_ftruncate(file, bytes);
}

int __wrap_fcntl(int file, int command, int argument)
{
    errno = EMFILE;
    return refuses_fcntl ? -1 : __real_fcntl(file, command, argument);
}

/* ---- helpers ---- */

static void expect_error(pleat_status_t status, pleat_status_t want, const char *part)
{
    cr_expect(eq(int, status, want), "%s", pleat_last_error());
    cr_expect(ne(ptr, strstr(pleat_last_error(), part), NULL), "'%s' lacks '%s'",
              pleat_last_error(), part);
}

static void expect_ok(pleat_status_t status)
{
    cr_assert(eq(int, status, PLEAT_OK), "%s", pleat_last_error());
}

static pleat_vmm_t *device(bool is_backed, bool exports_chunks)
{
    pleat_sim_options_t options = PLEAT_SIM_OPTIONS_INIT;
    options.capacity_bytes = 64 * GRANULE;
    options.is_backed = is_backed;
    options.exports_chunks = exports_chunks;
    pleat_vmm_t *vmm = NULL;
    expect_ok(pleat_sim_create(&options, &vmm));
    return vmm;
}

static pleat_sim_usage_t usage_of(pleat_vmm_t *vmm)
{
    pleat_sim_usage_t usage = PLEAT_SIM_USAGE_INIT;
    expect_ok(pleat_sim_read_usage(vmm, &usage));
    return usage;
}

static pleat_chunk_t create(pleat_vmm_t *vmm, uint64_t granules)
{
    pleat_chunk_t chunk = 0;
    expect_ok(pleat_vmm_chunk_create(vmm, granules * GRANULE, &chunk));
    return chunk;
}

static int export_chunk(pleat_vmm_t *vmm, pleat_chunk_t chunk)
{
    int file = -1;
    expect_ok(pleat_vmm_chunk_export(vmm, chunk, &file));
    return file;
}

/* Map a chunk in a range of its own, with access. */
static uint64_t *show(pleat_vmm_t *vmm, pleat_chunk_t chunk, uint64_t granules)
{
    pleat_devptr_t ptr = 0;
    expect_ok(pleat_vmm_address_reserve(vmm, granules * GRANULE, &ptr));
    expect_ok(pleat_vmm_map(vmm, ptr, granules * GRANULE, chunk));
    expect_ok(pleat_vmm_set_access(vmm, ptr, granules * GRANULE));
    return (uint64_t *)(uintptr_t)ptr;
}

static void hide(pleat_vmm_t *vmm, const uint64_t *words, uint64_t granules)
{
    const pleat_devptr_t ptr = (pleat_devptr_t)(uintptr_t)words;
    expect_ok(pleat_vmm_unmap(vmm, ptr, granules * GRANULE));
    expect_ok(pleat_vmm_address_free(vmm, ptr, granules * GRANULE));
}

/* ---- chunks ---- */

/* What another process does with a descriptor: reads 5 where the first word is, and writes 6. */
static int use_in_other_process(int file)
{
    pleat_vmm_t *vmm = device(true, false);
    pleat_chunk_t chunk = 0;
    pleat_chunk_t again = 0;
    expect_ok(pleat_vmm_chunk_import(vmm, file, &chunk));
    expect_ok(pleat_vmm_chunk_import(vmm, file, &again));
    uint64_t *words = show(vmm, chunk, 3);
    const pleat_sim_usage_t usage = usage_of(vmm);
    const bool is_good = chunk == again && words[0] == 5 && usage.chunks == 1 &&
                         usage.chunk_bytes == 0 && usage.mappings == 1;
    words[0] = 6;
    expect_ok(pleat_vmm_chunk_release(vmm, chunk));
    hide(vmm, words, 3);
    expect_ok(pleat_vmm_chunk_release(vmm, chunk));
    const bool is_empty = usage_of(vmm).chunks == 0;
    pleat_vmm_destroy(vmm);
    return is_good && is_empty ? 0 : 1;
}

Test(sim_share, another_process_sees_the_same_bytes, .timeout = 20)
{
    pleat_vmm_t *vmm = device(true, true);
    const pleat_chunk_t chunk = create(vmm, 3);
    uint64_t *words = show(vmm, chunk, 3);
    const int file = export_chunk(vmm, chunk);
    words[0] = 5;
    const pid_t child = fork();
    if (child == 0) {
        _exit(use_in_other_process(file));
    }
    int status = -1;
    cr_assert(eq(int, waitpid(child, &status, 0), child));
    cr_expect(eq(int, status, 0));
    cr_expect(eq(u64, words[0], 6));
    hide(vmm, words, 3);
    expect_ok(pleat_vmm_chunk_release(vmm, chunk));
    (void)close(file);
    cr_expect(eq(u64, usage_of(vmm).chunks, 0));
    pleat_vmm_destroy(vmm);
}

Test(sim_share, an_import_holds_the_memory_of_an_exporter_that_let_go, .timeout = 20)
{
    pleat_vmm_t *vmms[2] = {device(true, true), device(true, true)};
    pleat_chunk_t chunk = create(vmms[0], 1);
    const int file = export_chunk(vmms[0], chunk);
    uint64_t *words = show(vmms[0], chunk, 1);
    words[9] = 99;
    hide(vmms[0], words, 1);
    expect_ok(pleat_vmm_chunk_release(vmms[0], chunk));
    cr_expect(eq(u64, usage_of(vmms[0]).chunks, 0));
    expect_ok(pleat_vmm_chunk_import(vmms[1], file, &chunk));
    (void)close(file);
    words = show(vmms[1], chunk, 1);
    cr_expect(eq(u64, words[9], 99));
    /* And it can be handed on. */
    const int next = export_chunk(vmms[1], chunk);
    (void)close(next);
    pleat_vmm_destroy(vmms[0]);
    pleat_vmm_destroy(vmms[1]); /* with a chunk and a mapping: they go too */
}

Test(sim_share, the_own_process_gets_the_same_handle_once_more, .timeout = 20)
{
    for (int is_backed = 0; is_backed < 2; is_backed++) {
        pleat_vmm_t *vmm = device(is_backed != 0, true);
        const pleat_chunk_t chunk = create(vmm, 2);
        const int file = export_chunk(vmm, chunk);
        pleat_chunk_t import = 0;
        expect_ok(pleat_vmm_chunk_import(vmm, file, &import));
        cr_expect(eq(u64, import, chunk));
        expect_ok(pleat_vmm_chunk_release(vmm, chunk));
        cr_expect(eq(u64, usage_of(vmm).chunk_bytes, 2 * GRANULE));
        uint64_t *words = show(vmm, import, 2);
        expect_ok(pleat_vmm_chunk_release(vmm, import));
        expect_error(pleat_vmm_chunk_release(vmm, import), PLEAT_ERR_INVALID, "was released");
        /* Mapped still, so it can be had again. */
        expect_ok(pleat_vmm_chunk_import(vmm, file, &import));
        hide(vmm, words, 2);
        expect_ok(pleat_vmm_chunk_release(vmm, import));
        cr_expect(eq(u64, usage_of(vmm).chunk_bytes, 0));
        (void)close(file);
        pleat_vmm_destroy(vmm);
    }
}

Test(sim_share, what_is_no_chunk_is_refused, .timeout = 20)
{
    pleat_vmm_t *vmm = device(false, false);
    pleat_chunk_t chunk = 7;
    const int other = memfd_create("pleat-chunks", MFD_CLOEXEC);
    const int odd = memfd_create("pleat-chunk", MFD_CLOEXEC);
    const int empty = memfd_create("pleat-chunk", MFD_CLOEXEC);
    cr_assert(eq(int, ftruncate(odd, GRANULE + 4096), 0));
    const int files[] = {other, odd, empty, STDERR_FILENO, 12345};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        expect_error(pleat_vmm_chunk_import(vmm, files[i], &chunk), PLEAT_ERR_INVALID,
                     "is no chunk of a sim");
    }
    cr_expect(eq(u64, chunk, 7));
    int file = 7;
    expect_error(pleat_vmm_chunk_export(vmm, 7, &file), PLEAT_ERR_INVALID, "no handle of a chunk");
    expect_error(pleat_vmm_chunk_export(vmm, create(vmm, 1), &file), PLEAT_ERR_UNSUPPORTED,
                 "option exports_chunks");
    cr_expect(eq(int, file, 7));
    pleat_vmm_destroy(vmm);
}

Test(sim_share, a_host_that_gives_no_files_is_reported, .timeout = 20)
{
    pleat_vmm_t *backed = device(true, true);
    pleat_vmm_t *unbacked = device(false, true);
    pleat_chunk_t chunk = create(unbacked, 1);
    int file = -1;
    refuses_memfd = true;
    expect_error(pleat_vmm_chunk_create(backed, GRANULE, &chunk), PLEAT_ERR_OOM_HOST,
                 "no memory file for a chunk");
    expect_error(pleat_vmm_chunk_export(unbacked, chunk, &file), PLEAT_ERR_OOM_HOST,
                 "no memory file for a chunk");
    refuses_memfd = false;
    refuses_ftruncate = true;
    expect_error(pleat_vmm_chunk_create(backed, GRANULE, &chunk), PLEAT_ERR_OOM_HOST,
                 "no memory file for a chunk");
    refuses_ftruncate = false;
    cr_expect(eq(u64, usage_of(backed).chunks, 0));
    refuses_fcntl = true;
    expect_error(pleat_vmm_chunk_export(unbacked, chunk, &file), PLEAT_ERR_OOM_HOST,
                 "no descriptor for a chunk");
    refuses_fcntl = false;
    file = export_chunk(unbacked, chunk);
    refuses_fcntl = true;
    expect_error(pleat_vmm_chunk_import(backed, file, &chunk), PLEAT_ERR_OOM_HOST,
                 "no descriptor for a chunk");
    refuses_fcntl = false;
    pleat_vmm_t *fresh = device(false, false);
    host_fault_after(1);
    expect_error(pleat_vmm_chunk_import(fresh, file, &chunk), PLEAT_ERR_OOM_HOST, "a record");
    cr_expect(eq(u64, usage_of(fresh).chunks, 0));
    (void)close(file);
    pleat_vmm_destroy(fresh);
    pleat_vmm_destroy(unbacked);
    pleat_vmm_destroy(backed);
}

/* ---- plain memory ---- */

Test(sim_share, a_handle_names_the_whole_allocation, .timeout = 20)
{
    pleat_vmm_t *vmm = device(false, false);
    pleat_devptr_t ptr = 0;
    pleat_devptr_t opened[2] = {0};
    pleat_ipc_handle_t handle;
    expect_ok(pleat_vmm_mem_alloc(vmm, GRANULE, &ptr));
    expect_ok(pleat_vmm_ipc_export(vmm, ptr + 4096, &handle));
    expect_ok(pleat_vmm_ipc_open(vmm, &handle, &opened[0]));
    expect_ok(pleat_vmm_ipc_open(vmm, &handle, &opened[1]));
    cr_expect(eq(u64, opened[0], ptr));
    cr_expect(eq(u64, opened[1], ptr));
    cr_expect(eq(u64, usage_of(vmm).opened, 1));
    expect_ok(pleat_vmm_ipc_close(vmm, ptr));
    expect_ok(pleat_vmm_ipc_close(vmm, ptr));
    cr_expect(eq(u64, usage_of(vmm).opened, 0));
    expect_error(pleat_vmm_ipc_close(vmm, ptr), PLEAT_ERR_INVALID_POINTER, "was not opened");
    expect_ok(pleat_vmm_mem_free(vmm, ptr));
    expect_error(pleat_vmm_ipc_open(vmm, &handle, &opened[0]), PLEAT_ERR_INVALID, "is gone");
    expect_error(pleat_vmm_ipc_export(vmm, ptr, &handle), PLEAT_ERR_INVALID_POINTER,
                 "in no live allocation");
    pleat_vmm_destroy(vmm);
}

Test(sim_share, a_handle_from_elsewhere_is_refused, .timeout = 20)
{
    pleat_vmm_t *vmms[2] = {device(false, false), device(false, false)};
    pleat_devptr_t ptr = 0;
    pleat_devptr_t opened = 7;
    pleat_ipc_handle_t handle;
    expect_ok(pleat_vmm_mem_alloc(vmms[0], GRANULE, &ptr));
    expect_ok(pleat_vmm_ipc_export(vmms[0], ptr, &handle));
    expect_error(pleat_vmm_ipc_open(vmms[1], &handle, &opened), PLEAT_ERR_UNSUPPORTED,
                 "a sim opens its own only");
    host_fault_after(1);
    expect_error(pleat_vmm_ipc_open(vmms[0], &handle, &opened), PLEAT_ERR_OOM_HOST, "a record");
    handle.bytes[0] = 0;
    expect_error(pleat_vmm_ipc_open(vmms[0], &handle, &opened), PLEAT_ERR_INVALID, "no handle");
    cr_expect(eq(u64, opened, 7));
    expect_ok(pleat_vmm_mem_free(vmms[0], ptr));
    pleat_vmm_destroy(vmms[0]);
    pleat_vmm_destroy(vmms[1]);
}

/* ---- peers ---- */

Test(sim_share, access_of_peers_goes_with_set_access, .timeout = 20)
{
    pleat_vmm_t *vmm = device(false, false);
    const pleat_chunk_t chunk = create(vmm, 1);
    const uint64_t *early = show(vmm, chunk, 1);
    expect_ok(pleat_vmm_peer_add(vmm, 3));
    expect_ok(pleat_vmm_peer_add(vmm, 0));
    const uint64_t *words = show(vmm, chunk, 1);
    cr_expect(pleat_sim_is_accessible_to(vmm, 0, (uintptr_t)early, GRANULE));
    cr_expect(not(pleat_sim_is_accessible_to(vmm, 3, (uintptr_t)early, GRANULE)));
    cr_expect(pleat_sim_is_accessible_to(vmm, 3, (uintptr_t)words, GRANULE));
    cr_expect(not(pleat_sim_is_accessible_to(vmm, 4, (uintptr_t)words, GRANULE)));
    expect_ok(pleat_vmm_set_access(vmm, (uintptr_t)early, GRANULE));
    cr_expect(pleat_sim_is_accessible_to(vmm, 3, (uintptr_t)early, GRANULE));
    expect_ok(pleat_vmm_peer_remove(vmm, 3));
    const uint64_t *late = show(vmm, chunk, 1);
    cr_expect(not(pleat_sim_is_accessible_to(vmm, 3, (uintptr_t)late, GRANULE)));
    cr_expect(not(pleat_sim_is_accessible_to(NULL, 0, (uintptr_t)late, GRANULE)));
    expect_error(pleat_vmm_peer_add(vmm, 64), PLEAT_ERR_INVALID, "no device 64; a sim knows 0 to");
    expect_error(pleat_vmm_peer_remove(vmm, -1), PLEAT_ERR_INVALID, "peer_remove: no device -1");
    pleat_vmm_destroy(vmm);
}
