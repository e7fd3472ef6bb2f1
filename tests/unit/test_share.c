/*
 * Tests of share: what describes the memory of a block in every mode, contents in another process,
 * what lives how long, peers, and that failures change nothing. The bytes have test_share_bytes.c.
 */
#include <pleat/private_pool.h>
#include <pleat/share.h>

#include "host_fault.h"
#include "pleated_bench.h"
#include "vmm/sim.h"

#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

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

/* An allocator in a mode, whose chunks can be handed out. */
static fixture_t make(pleat_mode_t mode, bool is_backed)
{
    pleat_options_t options = bench_options();
    options.mode = mode;
    return fixture_create(&(fixture_options_t){.capacity_bytes = MIB(512),
                                               .options = &options,
                                               .is_backed = is_backed,
                                               .exports_chunks = true});
}

static pleat_share_t *share_of(const fixture_t *f, pleat_devptr_t ptr)
{
    pleat_share_t *share = NULL;
    expect_ok(pleat_share_block(f->allocator, ptr, &share));
    cr_assert(eq(sz, share->size, sizeof(*share)));
    cr_assert(eq(sz, share->chunk_size, sizeof(share->chunks[0])));
    return share;
}

static pleat_devptr_t open_share(const fixture_t *f, const pleat_share_t *share)
{
    pleat_devptr_t base = 0;
    expect_ok(pleat_share_open(f->allocator, share, &base));
    return base;
}

static uint64_t *words(pleat_devptr_t ptr)
{
    return (uint64_t *)(uintptr_t)ptr;
}

static int open_files(void)
{
    int count = 0;
    for (int file = 0; file < 1024; file++) {
        count += fcntl(file, F_GETFD) >= 0;
    }
    return count;
}

/* The first and the last words of a block are seen through its description, on another device. */
static void expect_same_memory(const fixture_t *f, pleat_devptr_t ptr)
{
    fixture_t other = make(PLEAT_MODE_CLASSIC, true);
    pleat_share_t *share = share_of(f, ptr);
    const pleat_devptr_t base = open_share(&other, share);
    const uint64_t last = share->bytes / sizeof(uint64_t) - 1;
    words(ptr)[0] = 11;
    words(ptr)[last] = 22;
    cr_expect(eq(u64, words(base + share->offset)[0], 11));
    cr_expect(eq(u64, words(base + share->offset)[last], 22));
    words(base + share->offset)[last] = 33;
    cr_expect(eq(u64, words(ptr)[last], 33));
    expect_ok(pleat_share_close(other.allocator, base));
    pleat_share_destroy(share);
    fixture_check_and_destroy(&other);
}

/* Two free chunks that lie apart, between live ones, for a view. */
static pleat_devptr_t make_view_block(const fixture_t *f)
{
    pleat_devptr_t p[4];
    for (unsigned i = 0; i < 4; i++) {
        p[i] = fixture_alloc(f, MIB(16), 0);
    }
    fixture_free(f, p[0]);
    fixture_free(f, p[2]);
    return fixture_alloc(f, MIB(30), 0);
}

/* ---- what is described ---- */

Test(share, plain_memory_by_the_handle_of_its_segment, .timeout = 10)
{
    fixture_t f = make(PLEAT_MODE_CLASSIC, false);
    const pleat_devptr_t first = fixture_alloc(&f, 1000, 0);
    const pleat_devptr_t second = fixture_alloc(&f, 5000, 0);
    pleat_share_t *share = share_of(&f, second);
    cr_expect(eq(int, share->kind, PLEAT_SHARE_PLAIN));
    cr_expect(eq(u64, share->offset, second - first));
    cr_expect(eq(u64, share->bytes, 5120));
    cr_expect(eq(sz, share->chunk_count, 0));
    const pleat_devptr_t base = open_share(&f, share);
    cr_expect(eq(u64, base, first), "a sim opens its own memory where it is");
    cr_expect(eq(u64, open_share(&f, share), base));
    expect_ok(pleat_share_close(f.allocator, base));
    expect_ok(pleat_share_close(f.allocator, base));
    expect_error(pleat_share_close(f.allocator, base), PLEAT_ERR_INVALID_POINTER,
                 "no shared memory was opened at");
    pleat_share_destroy(share);
    fixture_check_and_destroy(&f);
}

Test(share, a_range_by_its_pages, .timeout = 10)
{
    fixture_t f = make(PLEAT_MODE_TORCH_EXPANDABLE, true);
    (void)fixture_alloc(&f, MIB(15), 0);
    const pleat_devptr_t large = fixture_alloc(&f, MIB(30), 0); /* from 15 to 45 MiB */
    const pleat_devptr_t small = fixture_alloc(&f, 700, 0);
    pleat_share_t *share = share_of(&f, large);
    cr_expect(eq(int, share->kind, PLEAT_SHARE_CHUNKS));
    cr_expect(eq(u64, share->offset, MIB(15)));
    cr_expect(eq(u64, share->bytes, MIB(30)));
    cr_assert(eq(sz, share->chunk_count, 3));
    cr_expect(eq(u64, share->chunks[1].bytes, MIB(20)));
    pleat_share_destroy(share);
    share = share_of(&f, small);
    cr_expect(eq(u64, share->offset, 0));
    cr_expect(eq(sz, share->chunk_count, 1));
    cr_expect(eq(u64, share->chunks[0].bytes, MIB(2)));
    pleat_share_destroy(share);
    expect_same_memory(&f, large);
    expect_same_memory(&f, small);
    fixture_check_and_destroy(&f);
}

Test(share, pleated_memory_at_home_by_its_chunks, .timeout = 10)
{
    fixture_t f = make(PLEAT_MODE_PLEATED, true);
    (void)fixture_alloc(&f, MIB(10), 0);
    const pleat_devptr_t large = fixture_alloc(&f, MIB(20), 0);
    const pleat_devptr_t small = fixture_alloc(&f, 512, 0);
    const pleat_devptr_t next = fixture_alloc(&f, 512, 0);
    pleat_share_t *share = share_of(&f, large);
    cr_expect(eq(int, share->kind, PLEAT_SHARE_CHUNKS));
    cr_expect(lt(sz, 1, share->chunk_count));
    pleat_share_destroy(share);
    share = share_of(&f, next);
    cr_expect(eq(sz, share->chunk_count, 1));
    cr_expect(eq(u64, share->offset % MIB(2), next - small));
    pleat_share_destroy(share);
    expect_same_memory(&f, large);
    expect_same_memory(&f, next);
    fixture_check_and_destroy(&f);
}

Test(share, a_view_by_the_chunks_that_it_joins, .timeout = 10)
{
    fixture_t f = make(PLEAT_MODE_PLEATED, true);
    const pleat_devptr_t joined = make_view_block(&f);
    cr_assert(ne(ptr, pleat_address_map_find(&f.allocator->live, joined)->view, NULL));
    pleat_share_t *share = share_of(&f, joined);
    cr_expect(eq(sz, share->chunk_count, 2));
    pleat_share_destroy(share);
    expect_same_memory(&f, joined);
    fixture_check_and_destroy(&f);
}

/* The device is full but for a MiB at the end of each chunk: a slab joins the two. */
Test(share, a_small_block_in_a_view_by_the_chunks_of_its_slab, .timeout = 10)
{
    pleat_options_t options = bench_options();
    fixture_t f = fixture_create(&(fixture_options_t){
        .capacity_bytes = MIB(48), .options = &options, .is_backed = true, .exports_chunks = true});
    pleat_arena_t *arena = bench_arena(&f, 0);
    (void)bench_handle(&f, arena, 0, 16);
    (void)bench_handle(&f, arena, 16, 16);
    (void)bench_handle(&f, arena, 32, 16);
    (void)bench_take(&f, arena, 0, 15);
    (void)bench_take(&f, arena, 16, 16);
    (void)bench_take(&f, arena, 33, 15);
    const pleat_devptr_t small = fixture_alloc(&f, MIB(1), 0);
    const pleat_devptr_t second = fixture_alloc(&f, MIB(1), 0);
    cr_assert(ne(ptr, pleat_address_map_find(&f.allocator->live, small)->slab->view, NULL));
    cr_expect(eq(u64, second, small + MIB(1)));
    expect_same_memory(&f, small);
    expect_same_memory(&f, second);
    pleat_allocator_destroy(f.allocator);
    pleat_vmm_destroy(f.vmm);
}

/* ---- lives ---- */

Test(share, descriptors_are_made_once_and_end_with_the_chunk, .timeout = 10)
{
    const pleat_mode_t modes[] = {PLEAT_MODE_TORCH_EXPANDABLE, PLEAT_MODE_PLEATED};
    for (size_t i = 0; i < 2; i++) {
        fixture_t f = make(modes[i], false);
        const pleat_devptr_t ptr = fixture_alloc(&f, MIB(40), 0);
        const int before = open_files();
        pleat_share_t *a = share_of(&f, ptr);
        pleat_share_t *b = share_of(&f, ptr);
        cr_expect(eq(u64, fixture_calls(&f, PLEAT_VMM_CALL_CHUNK_EXPORT), a->chunk_count));
        cr_expect(eq(int, a->chunks[0].file, b->chunks[0].file));
        pleat_share_destroy(a);
        pleat_share_destroy(b);
        cr_expect(lt(int, before, open_files()), "they are the allocator's");
        fixture_free(&f, ptr);
        fixture_empty(&f);
        cr_expect(eq(int, open_files(), before));
        fixture_check_and_destroy(&f);
    }
}

Test(share, descriptors_end_with_the_allocator, .timeout = 10)
{
    const pleat_mode_t modes[] = {PLEAT_MODE_TORCH_EXPANDABLE, PLEAT_MODE_PLEATED};
    const int before = open_files();
    for (size_t i = 0; i < 2; i++) {
        fixture_t f = make(modes[i], false);
        pleat_share_destroy(share_of(&f, fixture_alloc(&f, MIB(40), 0)));
        fixture_check_and_destroy(&f);
    }
    cr_expect(eq(int, open_files(), before));
}

Test(share, an_importer_keeps_memory_that_the_exporter_gave_back, .timeout = 10)
{
    fixture_t f = make(PLEAT_MODE_PLEATED, true);
    fixture_t other = make(PLEAT_MODE_PLEATED, true);
    const pleat_devptr_t ptr = fixture_alloc(&f, MIB(20), 0);
    words(ptr)[5] = 55;
    pleat_share_t *share = share_of(&f, ptr);
    const pleat_devptr_t base = open_share(&other, share);
    fixture_free(&f, ptr);
    fixture_empty(&f);
    fixture_check_and_destroy(&f);
    cr_expect(eq(u64, words(base + share->offset)[5], 55));
    pleat_share_destroy(share);
    /* What is still open goes with the allocator. */
    fixture_check_and_destroy(&other);
}

Test(share, what_is_open_goes_with_the_allocator, .timeout = 10)
{
    fixture_t f = make(PLEAT_MODE_CLASSIC, false);
    fixture_t source = make(PLEAT_MODE_TORCH_EXPANDABLE, false);
    pleat_share_t *plain = share_of(&f, fixture_alloc(&f, MIB(4), 0));
    pleat_share_t *pages = share_of(&source, fixture_alloc(&source, MIB(4), 0));
    (void)open_share(&f, plain);
    (void)open_share(&f, plain);
    (void)open_share(&f, pages);
    (void)open_share(&f, pages);
    pleat_share_destroy(plain);
    pleat_share_destroy(pages);
    fixture_check_and_destroy(&source);
    fixture_check_and_destroy(&f);
}

Test(share, destruction_goes_on_when_the_device_refuses, .timeout = 10)
{
    fixture_t f = make(PLEAT_MODE_CLASSIC, false);
    pleat_share_t *plain = share_of(&f, fixture_alloc(&f, MIB(4), 0));
    (void)open_share(&f, plain);
    fixture_fail_call(&f, PLEAT_VMM_CALL_IPC_CLOSE, 1, PLEAT_ERR_DRIVER);
    pleat_share_destroy(plain);
    pleat_allocator_destroy(f.allocator);
    pleat_vmm_destroy(f.vmm);
}

/* ---- two processes ---- */

/* The exporter: sends the description of a block, waits for a word, and checks what came. */
static int export_to(pleat_mode_t mode, int to, int from)
{
    fixture_t f = make(mode, true);
    const pleat_devptr_t ptr =
        mode == PLEAT_MODE_PLEATED ? make_view_block(&f) : fixture_alloc(&f, MIB(30), 0);
    pleat_share_t *share = share_of(&f, ptr);
    unsigned char bytes[1024];
    size_t length = 0;
    words(ptr)[0] = 1;
    words(ptr)[MIB(30) / 8 - 1] = 2;
    expect_ok(pleat_share_write(share, bytes, sizeof bytes, &length));
    pleat_share_destroy(share);
    char answer = 0;
    if (write(to, bytes, length) != (ssize_t)length || read(from, &answer, 1) != 1) {
        return 2;
    }
    const bool is_good = words(ptr)[0] == 3 && words(ptr)[MIB(30) / 8 - 1] == 4;
    fixture_check_and_destroy(&f);
    return is_good ? 0 : 1;
}

static void import_from(int from, int to)
{
    unsigned char bytes[1024];
    const ssize_t length = read(from, bytes, sizeof bytes);
    cr_assert(lt(long, 0, length));
    pleat_share_t *share = NULL;
    const pleat_status_t status = pleat_share_read(bytes, (size_t)length, &share);
    if (status == PLEAT_ERR_UNSUPPORTED || status == PLEAT_ERR_IO) {
        cr_skip("descriptors of other processes cannot be had here");
    }
    expect_ok(status);
    fixture_t f = make(PLEAT_MODE_TORCH_EXPANDABLE, true);
    const pleat_devptr_t base = open_share(&f, share);
    uint64_t *shared = words(base + share->offset);
    pleat_share_destroy(share);
    cr_expect(eq(u64, shared[0], 1));
    cr_expect(eq(u64, shared[MIB(30) / 8 - 1], 2));
    shared[0] = 3;
    shared[MIB(30) / 8 - 1] = 4;
    expect_ok(pleat_share_close(f.allocator, base));
    fixture_check_and_destroy(&f);
    cr_assert(eq(long, write(to, "x", 1), 1));
}

Test(share, another_process_reads_and_writes_the_block, .timeout = 20)
{
    const pleat_mode_t modes[] = {PLEAT_MODE_TORCH_EXPANDABLE, PLEAT_MODE_PLEATED};
    for (size_t i = 0; i < 2; i++) {
        int there[2];
        int back[2];
        cr_assert(eq(int, pipe(there), 0));
        cr_assert(eq(int, pipe(back), 0));
        /* The child exports: a process may always trace its children. */
        const pid_t child = fork();
        if (child == 0) {
            _exit(export_to(modes[i], there[1], back[0]));
        }
        import_from(there[0], back[1]);
        int status = -1;
        cr_assert(eq(int, waitpid(child, &status, 0), child));
        cr_expect(eq(int, status, 0));
    }
}

/* ---- failures ---- */

Test(share, bad_arguments_are_named, .timeout = 10)
{
    fixture_t f = make(PLEAT_MODE_PLEATED, false);
    const pleat_devptr_t ptr = fixture_alloc(&f, MIB(4), 0);
    pleat_share_t *share = NULL;
    pleat_devptr_t base = 7;
    const pleat_status_t bad = PLEAT_ERR_INVALID;
    expect_error(pleat_share_block(NULL, ptr, &share), bad, "allocator is NULL");
    expect_error(pleat_share_block(f.allocator, ptr, NULL), bad, "share_out is NULL");
    expect_error(pleat_share_block(f.allocator, ptr + 512, &share), PLEAT_ERR_INVALID_POINTER,
                 "not the start of a live allocation");
    expect_error(pleat_share_block(f.allocator, 0, &share), PLEAT_ERR_INVALID_POINTER, "0x0");
    cr_expect(eq(ptr, share, NULL));
    share = share_of(&f, ptr);
    expect_error(pleat_share_open(NULL, share, &base), bad, "allocator is NULL");
    expect_error(pleat_share_open(f.allocator, NULL, &base), bad, "share is NULL");
    expect_error(pleat_share_open(f.allocator, share, NULL), bad, "base_out is NULL");
    expect_error(pleat_share_close(NULL, base), bad, "allocator is NULL");
    expect_error(pleat_share_close(f.allocator, ptr), PLEAT_ERR_INVALID_POINTER, "was opened at");
    expect_error(pleat_allocator_enable_peer(NULL, 1), bad, "allocator is NULL");
    expect_error(pleat_allocator_enable_peer(f.allocator, -1), bad, "no device -1");
    expect_error(pleat_allocator_enable_peer(f.allocator, 128), bad, "no device 128");
    expect_error(pleat_allocator_enable_peer(f.allocator, 127), bad, "a sim knows 0 to 63");
    pleat_share_t changed = *share;
    changed.chunk_count = 0;
    expect_error(pleat_share_open(f.allocator, &changed, &base), bad, "has no chunks");
    pleat_share_chunk_t chunks[2] = {{.bytes = MIB(2), .file = share->chunks[0].file},
                                     {.bytes = UINT64_MAX, .file = share->chunks[0].file}};
    changed.chunk_count = 2;
    changed.chunks = chunks;
    expect_error(pleat_share_open(f.allocator, &changed, &base), bad, "chunk 1 has");
    chunks[1].bytes = MIB(4);
    expect_error(pleat_share_open(f.allocator, &changed, &base), bad, "map: the chunk has");
    cr_expect(eq(u64, base, 7));
    pleat_share_destroy(share);
    pleat_share_destroy(NULL);
    fixture_check_and_destroy(&f);
}

Test(share, memory_that_was_made_to_stay_is_refused, .timeout = 10)
{
    const pleat_mode_t modes[] = {PLEAT_MODE_TORCH_EXPANDABLE, PLEAT_MODE_PLEATED};
    for (size_t i = 0; i < 2; i++) {
        pleat_options_t options = PLEAT_OPTIONS_INIT;
        options.mode = modes[i];
        fixture_t f =
            fixture_create(&(fixture_options_t){.capacity_bytes = MIB(64), .options = &options});
        pleat_share_t *share = NULL;
        expect_error(pleat_share_block(f.allocator, fixture_alloc(&f, MIB(4), 0), &share),
                     PLEAT_ERR_UNSUPPORTED, "made to stay in the process");
        fixture_check_and_destroy(&f);
    }
}

static pleat_devptr_t take_from_source(void *context, uint64_t bytes, pleat_stream_t stream)
{
    pleat_devptr_t ptr = 0;
    (void)stream;
    expect_ok(pleat_vmm_mem_alloc(((fixture_t *)context)->vmm, bytes, &ptr));
    return ptr;
}

static void give_to_source(void *context, pleat_devptr_t ptr, uint64_t bytes, pleat_stream_t stream)
{
    (void)bytes;
    (void)stream;
    expect_ok(pleat_vmm_mem_free(((fixture_t *)context)->vmm, ptr));
}

Test(share, memory_of_a_source_of_its_own_is_refused, .timeout = 10)
{
    fixture_t f = make(PLEAT_MODE_CLASSIC, false);
    const pleat_pool_id_t id = {0, 1};
    pleat_segment_source_t source = PLEAT_SEGMENT_SOURCE_INIT;
    source.context = &f;
    source.alloc = take_from_source;
    source.free = give_to_source;
    expect_ok(pleat_pool_acquire(f.allocator, id, &source));
    expect_ok(pleat_pool_begin(f.allocator, id, NULL, NULL));
    const pleat_devptr_t ptr = fixture_alloc(&f, MIB(4), 0);
    expect_ok(pleat_pool_end(f.allocator, id));
    pleat_share_t *share = NULL;
    expect_error(pleat_share_block(f.allocator, ptr, &share), PLEAT_ERR_UNSUPPORTED,
                 "a source of its own");
    fixture_check_and_destroy(&f);
}

Test(share, private_pools_share_like_all_memory, .timeout = 10)
{
    const pleat_mode_t modes[] = {PLEAT_MODE_TORCH_EXPANDABLE, PLEAT_MODE_PLEATED};
    const pleat_pool_id_t id = {0, 1};
    for (size_t i = 0; i < 2; i++) {
        fixture_t f = make(modes[i], true);
        expect_ok(pleat_pool_acquire(f.allocator, id, NULL));
        expect_ok(pleat_pool_begin(f.allocator, id, NULL, NULL));
        const pleat_devptr_t ptr = fixture_alloc(&f, MIB(30), 0);
        const pleat_devptr_t small = fixture_alloc(&f, 512, 0);
        expect_ok(pleat_pool_end(f.allocator, id));
        expect_same_memory(&f, ptr);
        expect_same_memory(&f, small);
        expect_ok(pleat_allocator_enable_peer(f.allocator, 1));
        cr_expect(pleat_sim_is_accessible_to(f.vmm, 1, ptr, MIB(30)));
        fixture_check_and_destroy(&f);
    }
}

Test(share, an_export_that_fails_leaves_no_descriptors, .timeout = 10)
{
    const pleat_mode_t modes[] = {PLEAT_MODE_TORCH_EXPANDABLE, PLEAT_MODE_PLEATED};
    for (size_t i = 0; i < 2; i++) {
        fixture_t f = make(modes[i], true);
        const pleat_devptr_t ptr = fixture_alloc(&f, MIB(60), 0);
        const int before = open_files();
        pleat_share_t *share = NULL;
        for (uint64_t nth = 1; nth <= 3; nth++) {
            fixture_fail_call(&f, PLEAT_VMM_CALL_CHUNK_EXPORT, nth, PLEAT_ERR_DRIVER);
            expect_error(pleat_share_block(f.allocator, ptr, &share), PLEAT_ERR_DRIVER,
                         "chunk_export");
            cr_expect(eq(int, open_files(), before));
        }
        cr_expect(eq(ptr, share, NULL));
        pleat_share_destroy(share_of(&f, ptr));
        fixture_check_and_destroy(&f);
    }
    fixture_t f = make(PLEAT_MODE_CLASSIC, false);
    pleat_share_t *share = NULL;
    const pleat_devptr_t ptr = fixture_alloc(&f, MIB(4), 0);
    fixture_fail_call(&f, PLEAT_VMM_CALL_IPC_EXPORT, 1, PLEAT_ERR_DRIVER);
    expect_error(pleat_share_block(f.allocator, ptr, &share), PLEAT_ERR_DRIVER, "ipc_export");
    cr_expect(eq(ptr, share, NULL));
    fixture_check_and_destroy(&f);
}

Test(share, every_lack_of_host_memory_changes_nothing, .timeout = 10)
{
    const pleat_mode_t modes[] = {PLEAT_MODE_CLASSIC, PLEAT_MODE_TORCH_EXPANDABLE,
                                  PLEAT_MODE_PLEATED};
    for (size_t i = 0; i < 3; i++) {
        fixture_t f = make(modes[i], false);
        const pleat_devptr_t ptr = fixture_alloc(&f, MIB(60), 0);
        pleat_share_t *share = NULL;
        uint64_t failures = 0;
        for (; share == NULL; failures++) {
            host_fault_after(failures + 1);
            const pleat_status_t status = pleat_share_block(f.allocator, ptr, &share);
            host_fault_after(0);
            cr_assert(eq(int, status, share == NULL ? PLEAT_ERR_OOM_HOST : PLEAT_OK));
        }
        cr_expect(lt(u64, 1, failures));
        pleat_devptr_t base = 0;
        for (failures = 0; base == 0; failures++) {
            host_fault_after(failures + 1);
            const pleat_status_t status = pleat_share_open(f.allocator, share, &base);
            host_fault_after(0);
            cr_assert(eq(int, status, base == 0 ? PLEAT_ERR_OOM_HOST : PLEAT_OK));
        }
        cr_expect(lt(u64, 1, failures));
        expect_ok(pleat_share_close(f.allocator, base));
        pleat_share_destroy(share);
        fixture_check_and_destroy(&f);
    }
}

Test(share, every_failure_of_the_device_leaves_nothing_open, .timeout = 10)
{
    static const pleat_vmm_call_t calls[] = {PLEAT_VMM_CALL_ADDRESS_RESERVE,
                                             PLEAT_VMM_CALL_CHUNK_IMPORT, PLEAT_VMM_CALL_MAP,
                                             PLEAT_VMM_CALL_SET_ACCESS};
    fixture_t source = make(PLEAT_MODE_TORCH_EXPANDABLE, false);
    pleat_share_t *share = share_of(&source, fixture_alloc(&source, MIB(60), 0));
    cr_assert(eq(sz, share->chunk_count, 3));
    fixture_t f = make(PLEAT_MODE_PLEATED, false);
    pleat_devptr_t base = 7;
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        const bool is_each =
            calls[i] == PLEAT_VMM_CALL_CHUNK_IMPORT || calls[i] == PLEAT_VMM_CALL_MAP;
        for (uint64_t nth = 1; nth <= (is_each ? 3 : 1); nth++) {
            fixture_fail_call(&f, calls[i], nth, PLEAT_ERR_DRIVER);
            expect_error(pleat_share_open(f.allocator, share, &base), PLEAT_ERR_DRIVER,
                         pleat_vmm_call_name(calls[i]));
            pleat_sim_usage_t usage = PLEAT_SIM_USAGE_INIT;
            expect_ok(pleat_sim_read_usage(f.vmm, &usage));
            cr_expect(eq(u64, usage.ranges + usage.chunks + usage.mappings, 0));
        }
    }
    cr_expect(eq(u64, base, 7));
    base = open_share(&f, share);
    fixture_fail_call(&f, PLEAT_VMM_CALL_UNMAP, 1, PLEAT_ERR_DRIVER);
    expect_error(pleat_share_close(f.allocator, base), PLEAT_ERR_DRIVER, "unmap");
    expect_ok(pleat_share_close(f.allocator, base));
    pleat_share_destroy(share);
    fixture_check_and_destroy(&source);
    fixture_check_and_destroy(&f);
}

/* ---- peers ---- */

static void expect_access(const fixture_t *f, int device, pleat_devptr_t ptr, uint64_t bytes,
                          bool wants)
{
    cr_expect(eq(int, pleat_sim_is_accessible_to(f->vmm, device, ptr, bytes), wants),
              "device %d at 0x%llx", device, (unsigned long long)ptr);
}

Test(share, a_peer_reaches_what_is_mapped_and_what_will_be, .timeout = 10)
{
    const pleat_mode_t modes[] = {PLEAT_MODE_TORCH_EXPANDABLE, PLEAT_MODE_PLEATED};
    for (size_t i = 0; i < 2; i++) {
        fixture_t source = make(PLEAT_MODE_TORCH_EXPANDABLE, false);
        pleat_share_t *share = share_of(&source, fixture_alloc(&source, MIB(20), 0));
        fixture_t f = make(modes[i], false);
        const pleat_devptr_t early[3] = {fixture_alloc(&f, MIB(30), 0), fixture_alloc(&f, 512, 1),
                                         open_share(&f, share)};
        expect_access(&f, 2, early[0], MIB(30), false);
        expect_ok(pleat_allocator_enable_peer(f.allocator, 2));
        const uint64_t calls = fixture_calls(&f, PLEAT_VMM_CALL_SET_ACCESS);
        expect_ok(pleat_allocator_enable_peer(f.allocator, 2));
        cr_expect(eq(u64, fixture_calls(&f, PLEAT_VMM_CALL_SET_ACCESS), calls));
        expect_access(&f, 2, early[0], MIB(30), true);
        expect_access(&f, 2, early[1], 512, true);
        expect_access(&f, 2, early[2], MIB(20), true);
        expect_access(&f, 3, early[0], MIB(30), false);
        expect_access(&f, 2, fixture_alloc(&f, MIB(100), 0), MIB(100), true);
        expect_access(&f, 2, open_share(&f, share), MIB(20), true);
        pleat_share_destroy(share);
        fixture_check_and_destroy(&source);
        fixture_check_and_destroy(&f);
    }
}

Test(share, a_peer_reaches_views, .timeout = 10)
{
    fixture_t f = make(PLEAT_MODE_PLEATED, false);
    const pleat_devptr_t early = make_view_block(&f);
    expect_access(&f, 1, early, MIB(30), false);
    expect_ok(pleat_allocator_enable_peer(f.allocator, 1));
    expect_access(&f, 1, early, MIB(30), true);
    expect_access(&f, 1, make_view_block(&f), MIB(30), true);
    fixture_check_and_destroy(&f);
}

/* Pages that a range gave back lie between those that it has. */
Test(share, a_peer_reaches_a_range_with_gaps, .timeout = 10)
{
    fixture_t f = make(PLEAT_MODE_TORCH_EXPANDABLE, false);
    pleat_devptr_t p[5];
    for (unsigned i = 0; i < 5; i++) {
        p[i] = fixture_alloc(&f, MIB(20), 0);
    }
    fixture_free(&f, p[1]);
    fixture_free(&f, p[4]);
    fixture_empty(&f);
    expect_ok(pleat_allocator_enable_peer(f.allocator, 1));
    expect_access(&f, 1, p[0], MIB(20), true);
    expect_access(&f, 1, p[2], MIB(40), true);
    fixture_check_and_destroy(&f);
}

Test(share, a_peer_that_cannot_be_given_everything_is_not_enabled, .timeout = 10)
{
    fixture_t f = make(PLEAT_MODE_PLEATED, false);
    fixture_t source = make(PLEAT_MODE_TORCH_EXPANDABLE, false);
    const pleat_devptr_t ptr = make_view_block(&f);
    pleat_share_t *share = share_of(&source, fixture_alloc(&source, MIB(20), 0));
    (void)open_share(&f, share);
    const uint64_t before = fixture_calls(&f, PLEAT_VMM_CALL_SET_ACCESS);
    expect_ok(pleat_allocator_enable_peer(f.allocator, 5));
    const uint64_t count = fixture_calls(&f, PLEAT_VMM_CALL_SET_ACCESS) - before;
    cr_assert(lt(u64, 4, count));
    for (uint64_t nth = 1; nth <= count; nth++) {
        fixture_fail_call(&f, PLEAT_VMM_CALL_SET_ACCESS, nth, PLEAT_ERR_DRIVER);
        expect_error(pleat_allocator_enable_peer(f.allocator, 1), PLEAT_ERR_DRIVER, "set_access");
        expect_access(&f, 1, fixture_alloc(&f, MIB(2), nth), MIB(2), false);
    }
    fixture_fail_call(&f, PLEAT_VMM_CALL_PEER_ADD, 1, PLEAT_ERR_DRIVER);
    expect_error(pleat_allocator_enable_peer(f.allocator, 1), PLEAT_ERR_DRIVER, "peer_add");
    expect_ok(pleat_allocator_enable_peer(f.allocator, 1));
    expect_access(&f, 1, ptr, MIB(30), true);
    pleat_share_destroy(share);
    fixture_check_and_destroy(&source);
    fixture_check_and_destroy(&f);
}
