/*
 * Tests of sim_arena: a backed device has real contents at its very addresses, aliases alias, and
 * touching what is not there faults (seen in a child process). Lack of host memory comes from
 * wrapped calls to the host.
 */
#include "vmm/sim_arena.h"
#include "vmm/sim_memory.h"

#include "host_fault.h"

#include <errno.h>
#include <inttypes.h>
#include <pleat/sim.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#define GRANULE (2 * PLEAT_MIB)
#define WORDS (GRANULE / sizeof(uint64_t))

/* ---- wrapped calls to the host ---- */

static int host_calls_left = -1; /* calls that succeed; -1: all */

static bool host_refuses(void)
{
    if (host_calls_left < 0) {
        return false;
    }
    if (host_calls_left > 0) {
        host_calls_left--;
        return false;
    }
    errno = ENOMEM;
    return true;
}

void *__real_mmap(void *address, size_t bytes, int protection, int flags, int file, off_t offset);
void *__wrap_mmap(void *address, size_t bytes, int protection, int flags, int file, off_t offset);
int __real_mprotect(void *address, size_t bytes, int protection);
int __wrap_mprotect(void *address, size_t bytes, int protection);
int __real_ftruncate(int file, off_t bytes);
int __wrap_ftruncate(int file, off_t bytes);
int __real_memfd_create(const char *name, unsigned flags);
int __wrap_memfd_create(const char *name, unsigned flags);

void *__wrap_mmap(void *address, size_t bytes, int protection, int flags, int file, off_t offset)
{
    return host_refuses() ? MAP_FAILED
                          : __real_mmap(address, bytes, protection, flags, file, offset);
}

int __wrap_mprotect(void *address, size_t bytes, int protection)
{
    return host_refuses() ? -1 : __real_mprotect(address, bytes, protection);
}

int __wrap_ftruncate(int file, off_t bytes)
{
    return host_refuses() ? -1 : __real_ftruncate(file, bytes);
}

int __wrap_memfd_create(const char *name, unsigned flags)
{
    return host_refuses() ? -1 : __real_memfd_create(name, flags);
}

/* ---- what the tests share ---- */

static void expect_error(pleat_status_t status, pleat_status_t want, const char *part)
{
    cr_expect(eq(int, status, want));
    cr_expect(ne(ptr, strstr(pleat_last_error(), part), NULL), "'%s' lacks '%s'",
              pleat_last_error(), part);
}

static void expect_ok(pleat_status_t status)
{
    cr_assert(eq(int, status, PLEAT_OK), "%s", pleat_last_error());
}

static pleat_vmm_t *device(uint64_t capacity_bytes)
{
    pleat_sim_options_t options = PLEAT_SIM_OPTIONS_INIT;
    options.capacity_bytes = capacity_bytes;
    options.is_backed = true;
    pleat_vmm_t *vmm = NULL;
    expect_ok(pleat_sim_create(&options, &vmm));
    return vmm;
}

static pleat_devptr_t reserve(pleat_vmm_t *vmm, uint64_t granules)
{
    pleat_devptr_t ptr = 0;
    expect_ok(pleat_vmm_address_reserve(vmm, granules * GRANULE, &ptr));
    return ptr;
}

static pleat_chunk_t create(pleat_vmm_t *vmm, uint64_t granules)
{
    pleat_chunk_t chunk = 0;
    expect_ok(pleat_vmm_chunk_create(vmm, granules * GRANULE, &chunk));
    return chunk;
}

static void map(pleat_vmm_t *vmm, pleat_devptr_t ptr, uint64_t granules, pleat_chunk_t chunk)
{
    expect_ok(pleat_vmm_map(vmm, ptr, granules * GRANULE, chunk));
    expect_ok(pleat_vmm_set_access(vmm, ptr, granules * GRANULE));
}

static pleat_devptr_t take(pleat_vmm_t *vmm, uint64_t bytes)
{
    pleat_devptr_t ptr = 0;
    expect_ok(pleat_vmm_mem_alloc(vmm, bytes, &ptr));
    return ptr;
}

static volatile uint64_t *words_at(pleat_devptr_t ptr)
{
    return (volatile uint64_t *)(uintptr_t)ptr;
}

static volatile uint8_t *bytes_at(pleat_devptr_t ptr)
{
    return (volatile uint8_t *)(uintptr_t)ptr;
}

/* Does touching a byte kill a process? */
static bool touch_faults(pleat_devptr_t ptr, bool is_write)
{
    const pid_t child = fork();
    cr_assert(child >= 0);
    if (child == 0) {
        const struct rlimit no_core = {0, 0};
        (void)setrlimit(RLIMIT_CORE, &no_core);
        (void)signal(SIGSEGV, SIG_DFL); /* also where a sanitizer catches it */
        (void)signal(SIGBUS, SIG_DFL);
        const uint8_t byte = is_write ? 0 : *bytes_at(ptr);
        if (is_write) {
            *bytes_at(ptr) = 1;
        }
        _exit(byte == 77 ? 77 : 0);
    }
    int result = 0;
    cr_assert(eq(int, waitpid(child, &result, 0), child));
    return WIFSIGNALED(result) && WTERMSIG(result) == SIGSEGV;
}

static void expect_touch(pleat_devptr_t ptr, bool may_touch)
{
    cr_expect(eq(int, touch_faults(ptr, false), !may_touch), "reading 0x%" PRIx64, ptr);
    cr_expect(eq(int, touch_faults(ptr, true), !may_touch), "writing 0x%" PRIx64, ptr);
}

static void check_and_destroy(pleat_vmm_t *vmm)
{
    pleat_sim_usage_t usage = PLEAT_SIM_USAGE_INIT;
    expect_ok(pleat_sim_read_usage(vmm, &usage));
    cr_expect(eq(u64, usage.allocations + usage.ranges + usage.chunks + usage.mappings, 0));
    pleat_vmm_destroy(vmm);
}

/* ---- mappings ---- */

Test(sim_arena, a_chunk_holds_what_is_written, .timeout = 20)
{
    pleat_vmm_t *vmm = device(0);
    const pleat_devptr_t range = reserve(vmm, 4);
    const pleat_chunk_t chunk = create(vmm, 2);
    map(vmm, range + GRANULE, 2, chunk);
    volatile uint64_t *words = words_at(range + GRANULE);
    cr_expect(eq(u64, words[0], 0));
    for (uint64_t i = 0; i < 2 * WORDS; i++) {
        words[i] = i * UINT64_C(0x9e3779b97f4a7c15);
    }
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < 2 * WORDS; i++) {
        wrong += words[i] != i * UINT64_C(0x9e3779b97f4a7c15);
    }
    cr_expect(eq(u64, wrong, 0));
    expect_ok(pleat_vmm_unmap(vmm, range + GRANULE, 2 * GRANULE));
    expect_ok(pleat_vmm_chunk_release(vmm, chunk));
    expect_ok(pleat_vmm_address_free(vmm, range, 4 * GRANULE));
    check_and_destroy(vmm);
}

Test(sim_arena, two_mappings_of_a_chunk_show_the_same_bytes, .timeout = 20)
{
    pleat_vmm_t *vmm = device(0);
    const pleat_devptr_t a = reserve(vmm, 4);
    const pleat_devptr_t b = reserve(vmm, 4);
    const pleat_chunk_t chunks[2] = {create(vmm, 1), create(vmm, 1)};
    map(vmm, a, 1, chunks[0]);
    map(vmm, a + GRANULE, 1, chunks[1]);
    map(vmm, b, 1, chunks[1]); /* in the other order, and the first one twice */
    map(vmm, b + GRANULE, 1, chunks[0]);
    map(vmm, b + 3 * GRANULE, 1, chunks[0]);
    for (uint64_t i = 0; i < WORDS; i++) {
        words_at(a)[i] = i;
        words_at(a + GRANULE)[i] = ~i;
    }
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < WORDS; i++) {
        wrong += words_at(b)[i] != ~i;
        wrong += words_at(b + GRANULE)[i] != i;
        words_at(b + 3 * GRANULE)[i] = 3 * i;
        wrong += words_at(a)[i] != 3 * i;
    }
    cr_expect(eq(u64, wrong, 0));
    /* Each stays when the others go. */
    expect_ok(pleat_vmm_chunk_release(vmm, chunks[0]));
    expect_ok(pleat_vmm_unmap(vmm, a, 2 * GRANULE));
    cr_expect(eq(u64, words_at(b + GRANULE)[7], 21));
    expect_ok(pleat_vmm_unmap(vmm, b, 2 * GRANULE));
    cr_expect(eq(u64, words_at(b + 3 * GRANULE)[7], 21));
    pleat_vmm_destroy(vmm); /* takes what is still mapped */
}

Test(sim_arena, contents_move_with_a_held_chunk, .timeout = 20)
{
    pleat_vmm_t *vmm = device(0);
    const pleat_devptr_t range = reserve(vmm, 8);
    const pleat_chunk_t a = create(vmm, 1);
    const pleat_chunk_t b = create(vmm, 3);
    map(vmm, range, 1, a);
    map(vmm, range + GRANULE, 3, b);
    words_at(range)[1] = 11;
    words_at(range + 2 * GRANULE)[2] = 22;
    expect_ok(pleat_vmm_unmap(vmm, range, 4 * GRANULE));
    map(vmm, range, 3, b);
    map(vmm, range + 7 * GRANULE, 1, a);
    cr_expect(eq(u64, words_at(range + GRANULE)[2], 22));
    cr_expect(eq(u64, words_at(range + 7 * GRANULE)[1], 11));
    expect_ok(pleat_vmm_unmap(vmm, range, 3 * GRANULE));
    expect_ok(pleat_vmm_unmap(vmm, range + 7 * GRANULE, GRANULE));
    expect_ok(pleat_vmm_chunk_release(vmm, a));
    expect_ok(pleat_vmm_chunk_release(vmm, b));
    expect_ok(pleat_vmm_address_free(vmm, range, 8 * GRANULE));
    check_and_destroy(vmm);
}

Test(sim_arena, a_released_chunk_keeps_its_contents_until_unmapped, .timeout = 20)
{
    pleat_vmm_t *vmm = device(2 * GRANULE);
    const pleat_devptr_t range = reserve(vmm, 4);
    const pleat_chunk_t chunk = create(vmm, 2);
    map(vmm, range, 2, chunk);
    words_at(range)[3] = 33;
    expect_ok(pleat_vmm_chunk_release(vmm, chunk));
    cr_expect(eq(u64, words_at(range)[3], 33));
    expect_ok(pleat_vmm_unmap(vmm, range, 2 * GRANULE));
    /* Capacity is back, and what comes next does not show the old bytes. */
    const pleat_chunk_t next = create(vmm, 2);
    map(vmm, range, 2, next);
    cr_expect(eq(u64, words_at(range)[3], 0));
    expect_ok(pleat_vmm_unmap(vmm, range, 2 * GRANULE));
    expect_ok(pleat_vmm_chunk_release(vmm, next));
    expect_ok(pleat_vmm_address_free(vmm, range, 4 * GRANULE));
    check_and_destroy(vmm);
}

Test(sim_arena, touching_what_is_not_accessible_faults, .timeout = 20)
{
    pleat_vmm_t *vmm = device(0);
    const pleat_devptr_t range = reserve(vmm, 4);
    const pleat_chunk_t chunk = create(vmm, 1);
    expect_touch(range, false); /* reserved only */
    expect_ok(pleat_vmm_map(vmm, range + GRANULE, GRANULE, chunk));
    expect_touch(range + GRANULE, false); /* mapped, without access */
    expect_ok(pleat_vmm_set_access(vmm, range + GRANULE, GRANULE));
    expect_touch(range + GRANULE, true);
    expect_touch(range + 2 * GRANULE - 1, true);
    expect_touch(range + GRANULE - 1, false); /* beside it */
    expect_touch(range + 2 * GRANULE, false);
    expect_ok(pleat_vmm_unmap(vmm, range + GRANULE, GRANULE));
    expect_touch(range + GRANULE, false);
    expect_ok(pleat_vmm_map(vmm, range + GRANULE, GRANULE, chunk));
    expect_touch(range + GRANULE, false); /* access went with the mapping */
    expect_ok(pleat_vmm_unmap(vmm, range + GRANULE, GRANULE));
    expect_ok(pleat_vmm_chunk_release(vmm, chunk));
    expect_ok(pleat_vmm_address_free(vmm, range, 4 * GRANULE));
    expect_touch(range, false);
    check_and_destroy(vmm);
}

Test(sim_arena, an_address_freed_and_reserved_again_is_empty, .timeout = 20)
{
    pleat_vmm_t *vmm = device(0);
    const pleat_devptr_t range = reserve(vmm, 2);
    const pleat_chunk_t chunk = create(vmm, 1);
    map(vmm, range, 1, chunk);
    words_at(range)[0] = 1;
    expect_ok(pleat_vmm_unmap(vmm, range, GRANULE));
    expect_ok(pleat_vmm_address_free(vmm, range, 2 * GRANULE));
    cr_assert(eq(u64, reserve(vmm, 2), range));
    expect_touch(range, false);
    map(vmm, range + GRANULE, 1, chunk);
    cr_expect(eq(u64, words_at(range + GRANULE)[0], 1));
    pleat_vmm_destroy(vmm);
}

/* ---- plain allocations ---- */

Test(sim_arena, plain_allocations_are_real, .timeout = 20)
{
    static const uint64_t sizes[] = {1,         512,     4096,        5000,
                                     PLEAT_MIB, GRANULE, GRANULE + 1, 20 * PLEAT_MIB};
    enum { COUNT = sizeof sizes / sizeof sizes[0] };
    pleat_vmm_t *vmm = device(0);
    pleat_devptr_t ptrs[COUNT];
    for (uint64_t i = 0; i < COUNT; i++) {
        ptrs[i] = take(vmm, sizes[i]);
        cr_expect(eq(u64, ptrs[i] % (sizes[i] >= GRANULE ? GRANULE : 512), 0));
        for (uint64_t at = 0; at < sizes[i]; at++) {
            bytes_at(ptrs[i])[at] = (uint8_t)(at + i);
        }
    }
    for (uint64_t i = 0; i < COUNT; i++) {
        uint64_t wrong = 0;
        for (uint64_t at = 0; at < sizes[i]; at++) {
            wrong += bytes_at(ptrs[i])[at] != (uint8_t)(at + i);
        }
        cr_expect(eq(u64, wrong, 0), "%" PRIu64 " bytes", sizes[i]);
        expect_ok(pleat_vmm_mem_free(vmm, ptrs[i]));
    }
    check_and_destroy(vmm);
}

Test(sim_arena, a_freed_plain_allocation_faults_and_leaves_its_neighbours, .timeout = 20)
{
    pleat_vmm_t *vmm = device(0);
    const pleat_devptr_t big = take(vmm, 2 * GRANULE);
    bytes_at(big)[GRANULE] = 5;
    expect_ok(pleat_vmm_mem_free(vmm, big));
    expect_touch(big, false);
    expect_touch(big + 2 * GRANULE - 1, false);
    cr_assert(eq(u64, take(vmm, 2 * GRANULE), big));
    cr_expect(eq(int, bytes_at(big)[GRANULE], 0), "old bytes are gone");

    /* Three allocations on neighbouring pages of the host, the middle one over parts of three. */
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    const pleat_devptr_t a = take(vmm, page / 2);
    const pleat_devptr_t b = take(vmm, 2 * page);
    const pleat_devptr_t c = take(vmm, page / 2);
    cr_assert(eq(u64, b, a + page / 2));
    cr_assert(eq(u64, c, b + 2 * page));
    bytes_at(a)[0] = 1;
    bytes_at(b)[page] = 2;
    bytes_at(c)[page / 2 - 1] = 3;
    expect_ok(pleat_vmm_mem_free(vmm, b));
    cr_expect(eq(int, bytes_at(a)[0], 1));
    cr_expect(eq(int, bytes_at(c)[page / 2 - 1], 3));
    expect_touch(b + page, false);
    expect_touch(b, true); /* on a page with its neighbour: the host cannot tell them apart */
    expect_ok(pleat_vmm_mem_free(vmm, a));
    expect_touch(a, false);
    expect_touch(c, true);
    expect_ok(pleat_vmm_mem_free(vmm, c));
    expect_touch(c, false);
    expect_ok(pleat_vmm_mem_free(vmm, big));
    check_and_destroy(vmm);
}

Test(sim_arena, neighbours_on_one_page_keep_it_open, .timeout = 20)
{
    pleat_vmm_t *vmm = device(0);
    const pleat_devptr_t a = take(vmm, 512);
    const pleat_devptr_t b = take(vmm, 512);
    const pleat_devptr_t c = take(vmm, 512);
    bytes_at(a)[0] = 1;
    bytes_at(c)[0] = 3;
    expect_ok(pleat_vmm_mem_free(vmm, b));
    cr_expect(eq(int, bytes_at(a)[0], 1));
    expect_ok(pleat_vmm_mem_free(vmm, a));
    cr_expect(eq(int, bytes_at(c)[0], 3));
    expect_ok(pleat_vmm_mem_free(vmm, c));
    expect_touch(a, false);
    check_and_destroy(vmm);
}

Test(sim_arena, distances_are_the_same_every_time, .timeout = 20)
{
    uint64_t seen[2][4];
    for (int round = 0; round < 2; round++) {
        pleat_vmm_t *vmm = device(0);
        const pleat_devptr_t a = take(vmm, 20 * PLEAT_MIB);
        const pleat_devptr_t b = take(vmm, 512);
        const pleat_devptr_t range = reserve(vmm, 3);
        seen[round][0] = a - b;
        seen[round][1] = a - range;
        seen[round][2] = reserve(vmm, 5) - range;
        seen[round][3] = range % (32 * PLEAT_MIB);
        pleat_vmm_destroy(vmm);
    }
    cr_expect(eq(int, memcmp(seen[0], seen[1], sizeof seen[0]), 0));
}

Test(sim_arena, devices_stand_beside_each_other, .timeout = 20)
{
    pleat_vmm_t *vmms[4];
    pleat_devptr_t ptrs[4];
    for (int i = 0; i < 4; i++) {
        vmms[i] = device(0);
        ptrs[i] = take(vmms[i], GRANULE);
        *bytes_at(ptrs[i]) = (uint8_t)(i + 1);
    }
    for (int i = 0; i < 4; i++) {
        cr_expect(eq(int, *bytes_at(ptrs[i]), i + 1));
        expect_ok(pleat_vmm_mem_free(vmms[i], ptrs[i]));
        check_and_destroy(vmms[i]);
    }
}

/* ---- the host gives nothing ---- */

Test(sim_arena, create_without_host_memory_fails, .timeout = 20)
{
    pleat_sim_options_t options = PLEAT_SIM_OPTIONS_INIT;
    options.is_backed = true;
    pleat_vmm_t *vmm = NULL;
    bool has_no_file = false;
    for (int calls = 0; calls < 12 && !has_no_file; calls++) { /* a sanitizer refuses some more */
        host_calls_left = calls;
        cr_expect(eq(int, pleat_sim_create(&options, &vmm), PLEAT_ERR_OOM_HOST));
        has_no_file = strstr(pleat_last_error(), "give a memory file") != NULL;
        cr_expect(has_no_file || strstr(pleat_last_error(), "does not reserve") != NULL, "%s",
                  pleat_last_error());
    }
    cr_expect(has_no_file);
    host_calls_left = -1;
    for (uint64_t nth = 1; nth <= 3; nth++) {
        host_fault_after(nth);
        cr_expect(eq(int, pleat_sim_create(&options, &vmm), PLEAT_ERR_OOM_HOST));
    }
    host_fault_after(0);
    cr_expect(eq(ptr, vmm, NULL));
    pleat_vmm_destroy(device(0));
}

Test(sim_arena, fewer_addresses_do_as_well, .timeout = 20)
{
    /* Arenas until the host's addresses are used up. */
    pleat_sim_arena_t arenas[64];
    int count = 0;
    while (count < 64 && pleat_sim_arena_init(&arenas[count]) == PLEAT_OK) {
        count++;
    }
    expect_error(pleat_sim_arena_init(&arenas[63]), PLEAT_ERR_OOM_HOST, "does not reserve");
    cr_assert(lt(int, 1, count));
    cr_assert(lt(int, count, 64));
    cr_expect(lt(u64, arenas[count - 1].ranges.bytes, arenas[0].ranges.bytes));
    while (count-- > 0) {
        const pleat_sim_arena_t *arena = &arenas[count];
        cr_expect(eq(u64, arena->plain.begin, arena->ranges.begin + arena->ranges.bytes));
        expect_ok(pleat_sim_arena_open(arena, arena->plain.begin, arena->page_bytes));
        *bytes_at(arena->plain.begin) = 1;
        pleat_sim_arena_fini(&arenas[count]);
        pleat_sim_arena_fini(&arenas[count]); /* does nothing */
    }
}

Test(sim_arena, every_call_survives_a_host_that_refuses, .timeout = 20)
{
    pleat_vmm_t *vmm = device(0);
    const pleat_devptr_t range = reserve(vmm, 4);
    const pleat_chunk_t chunk = create(vmm, 1);
    pleat_chunk_t made = 0;
    pleat_devptr_t plain = 0;
    const pleat_status_t bad = PLEAT_ERR_OOM_HOST;
    uint64_t clock_ns = pleat_vmm_clock_ns(vmm);
    host_calls_left = 0;
    expect_error(pleat_vmm_chunk_create(vmm, GRANULE, &made), bad, "extend the memory file");
    expect_error(pleat_vmm_map(vmm, range, GRANULE, chunk), bad, "does not map 2097152 bytes");
    expect_error(pleat_vmm_mem_alloc(vmm, 512, &plain), bad, "does not open 4096 bytes");
    expect_error(pleat_vmm_mem_alloc(vmm, 32 * PLEAT_MIB, &plain), bad, "does not open 33554432");
    host_calls_left = -1;
    expect_ok(pleat_vmm_map(vmm, range, GRANULE, chunk));
    clock_ns += 800;
    host_calls_left = 0;
    expect_error(pleat_vmm_set_access(vmm, range, GRANULE), bad, "does not open 2097152 bytes");
    expect_error(pleat_vmm_unmap(vmm, range, GRANULE), bad, "does not close 2097152 bytes");
    host_calls_left = -1;
    cr_expect(eq(u64, pleat_vmm_clock_ns(vmm), clock_ns), "a call that fails costs nothing");
    plain = take(vmm, 512);
    *bytes_at(plain) = 9;
    host_calls_left = 0;
    expect_error(pleat_vmm_mem_free(vmm, plain), bad, "does not close 4096 bytes");
    host_calls_left = -1;
    cr_expect(eq(int, *bytes_at(plain), 9));
    pleat_sim_usage_t usage = PLEAT_SIM_USAGE_INIT;
    expect_ok(pleat_sim_read_usage(vmm, &usage));
    cr_expect(eq(u64, usage.allocations, 1));
    cr_expect(eq(u64, usage.mappings, 1));
    cr_expect(eq(u64, usage.chunks, 1));
    expect_ok(pleat_vmm_mem_free(vmm, plain));
    expect_ok(pleat_vmm_unmap(vmm, range, GRANULE));
    expect_ok(pleat_vmm_chunk_release(vmm, chunk));
    expect_ok(pleat_vmm_address_free(vmm, range, 4 * GRANULE));
    check_and_destroy(vmm);
}

Test(sim_arena, the_file_has_an_end, .timeout = 20)
{
    pleat_sim_arena_t arena;
    uint64_t offset = 7;
    expect_ok(pleat_sim_arena_init(&arena));
    expect_ok(pleat_sim_arena_add_part(&arena, GRANULE, &offset));
    cr_expect(eq(u64, offset, 0));
    expect_error(pleat_sim_arena_add_part(&arena, UINT64_MAX - GRANULE + 1, &offset),
                 PLEAT_ERR_OOM_HOST, "extend the memory file");
    expect_error(pleat_sim_arena_add_part(&arena, UINT64_C(1) << 63, &offset), PLEAT_ERR_OOM_HOST,
                 "extend the memory file");
    expect_ok(pleat_sim_arena_add_part(&arena, GRANULE, &offset));
    cr_expect(eq(u64, offset, GRANULE));
    pleat_sim_arena_fini(&arena);
}

Test(sim_arena, ranges_end_where_plain_allocations_begin, .timeout = 20)
{
    pleat_sim_options_t options = PLEAT_SIM_OPTIONS_INIT;
    options.is_backed = true;
    options.address_limit_bytes = UINT64_C(1) << 50;
    pleat_vmm_t *vmm = NULL;
    expect_ok(pleat_sim_create(&options, &vmm));
    pleat_devptr_t ptr = 0;
    expect_error(pleat_vmm_address_reserve(vmm, UINT64_C(1) << 46, &ptr), PLEAT_ERR_OOM_DEVICE,
                 "no room for 70368744177664 bytes");
    check_and_destroy(vmm);
}
