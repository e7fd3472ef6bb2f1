/*
 * sim_arena: mmap, mprotect and a memory file.
 */
#include "sim_arena.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ALIGNMENT (UINT64_C(32) * PLEAT_MIB)
#define BYTES_MAX (UINT64_C(1) << 45) /* more may not be found in one piece */
#define BYTES_MIN (UINT64_C(64) * PLEAT_GIB)

static void *host_address(uint64_t address)
{
    return (void *)(uintptr_t)address;
}

static pleat_status_t arena_refuse(const char *what, uint64_t begin, uint64_t bytes)
{
    pleat_error_set("sim: the host does not %s %" PRIu64 " bytes at 0x%" PRIx64 ": %s", what, bytes,
                    begin, strerror(errno));
    return PLEAT_ERR_OOM_HOST;
}

/* As many addresses as the host gives; a sanitizer leaves fewer. */
static uint64_t arena_reserve(uint64_t *bytes_out)
{
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    for (uint64_t bytes = BYTES_MAX; bytes >= BYTES_MIN; bytes /= 2) {
        void *raw = mmap(NULL, bytes + ALIGNMENT, PROT_NONE, flags, -1, 0);
        if (raw == MAP_FAILED) {
            continue;
        }
        const uint64_t begin = (uint64_t)(uintptr_t)raw;
        const uint64_t aligned = pleat_align_up(begin, ALIGNMENT);
        if (aligned > begin) {
            (void)munmap(raw, aligned - begin);
        }
        if (aligned < begin + ALIGNMENT) {
            (void)munmap(host_address(aligned + bytes), begin + ALIGNMENT - aligned);
        }
        *bytes_out = bytes;
        return aligned;
    }
    return 0;
}

pleat_status_t pleat_sim_arena_init(pleat_sim_arena_t *arena)
{
    uint64_t bytes = 0;
    const uint64_t begin = arena_reserve(&bytes);
    if (begin == 0) {
        return arena_refuse("reserve", 0, BYTES_MIN);
    }
    const int file = memfd_create("pleat-sim", MFD_CLOEXEC);
    if (file < 0) {
        const pleat_status_t status = arena_refuse("give a memory file for", begin, bytes);
        (void)munmap(host_address(begin), bytes);
        return status;
    }
    const uint64_t range_bytes = bytes / 4 * 3;
    *arena = (pleat_sim_arena_t){
        .file = file,
        .page_bytes = (uint64_t)sysconf(_SC_PAGESIZE),
        .ranges = {begin, range_bytes},
        .plain = {begin + range_bytes, bytes - range_bytes},
    };
    return PLEAT_OK;
}

void pleat_sim_arena_fini(pleat_sim_arena_t *arena)
{
    if (arena->file >= 0) {
        (void)munmap(host_address(arena->ranges.begin), arena->ranges.bytes + arena->plain.bytes);
        (void)close(arena->file);
        arena->file = -1;
    }
}

static void arena_check(const pleat_sim_arena_t *arena, uint64_t begin, uint64_t bytes)
{
    PLEAT_ASSERT(arena->file >= 0);
    PLEAT_ASSERT(begin % arena->page_bytes == 0);
    PLEAT_ASSERT(bytes % arena->page_bytes == 0);
    PLEAT_ASSERT(begin >= arena->ranges.begin);
    PLEAT_ASSERT(begin + bytes <= arena->plain.begin + arena->plain.bytes);
}

pleat_status_t pleat_sim_arena_open(const pleat_sim_arena_t *arena, uint64_t begin, uint64_t bytes)
{
    arena_check(arena, begin, bytes);
    return mprotect(host_address(begin), bytes, PROT_READ | PROT_WRITE) == 0
               ? PLEAT_OK
               : arena_refuse("open", begin, bytes);
}

pleat_status_t pleat_sim_arena_close(const pleat_sim_arena_t *arena, uint64_t begin, uint64_t bytes)
{
    arena_check(arena, begin, bytes);
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    return mmap(host_address(begin), bytes, PROT_NONE, flags, -1, 0) != MAP_FAILED
               ? PLEAT_OK
               : arena_refuse("close", begin, bytes);
}

pleat_status_t pleat_sim_arena_show_file(const pleat_sim_arena_t *arena, uint64_t begin,
                                         uint64_t bytes, int file, uint64_t file_offset)
{
    arena_check(arena, begin, bytes);
    return mmap(host_address(begin), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, file,
                (off_t)file_offset) != MAP_FAILED
               ? PLEAT_OK
               : arena_refuse("map", begin, bytes);
}

pleat_status_t pleat_sim_arena_show(const pleat_sim_arena_t *arena, uint64_t begin, uint64_t bytes,
                                    uint64_t file_offset)
{
    return pleat_sim_arena_show_file(arena, begin, bytes, arena->file, file_offset);
}

pleat_status_t pleat_sim_arena_allow(const pleat_sim_arena_t *arena, uint64_t begin, uint64_t bytes)
{
    return pleat_sim_arena_open(arena, begin, bytes);
}

pleat_status_t pleat_sim_arena_add_part(pleat_sim_arena_t *arena, uint64_t bytes,
                                        uint64_t *file_offset_out)
{
    uint64_t end = 0;
    if (!pleat_add_checked(arena->file_bytes, bytes, &end) || end > INT64_MAX ||
        ftruncate(arena->file, (off_t)end) != 0) {
        return arena_refuse("extend the memory file by", arena->file_bytes, bytes);
    }
    *file_offset_out = arena->file_bytes;
    arena->file_bytes = end;
    return PLEAT_OK;
}

void pleat_sim_arena_drop_part(const pleat_sim_arena_t *arena, uint64_t file_offset, uint64_t bytes)
{
    (void)fallocate(arena->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)file_offset,
                    (off_t)bytes);
}
