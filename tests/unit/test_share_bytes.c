/*
 * Tests of share_bytes: descriptions that come back as they were, malformed ones, and what can go
 * wrong with the descriptors of another process, by wrapped calls of the host.
 */
#include <pleat/share.h>

#include "fixture.h"
#include "host_fault.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#define HEADER_BYTES 48

/* ---- wrapped calls to the host ---- */

static int open_error; /* of pidfd_open; 0: it works */
static int take_error; /* of pidfd_getfd, from the second call on; 0: it works */
static int taken_count;
static int taken[8]; /* descriptors that were asked for */
static bool lacks_fopen;

long __wrap_syscall(long number, ...);
long __real_syscall(long number, ...);
FILE *__wrap_fopen(const char *name, const char *mode);
FILE *__real_fopen(const char *name, const char *mode);

long __wrap_syscall(long number, ...)
{
    va_list arguments;
    va_start(arguments, number);
    const int first = va_arg(arguments, int);
    const int second = va_arg(arguments, int);
    va_end(arguments);
    if (number == SYS_pidfd_open) {
        errno = open_error;
        return open_error != 0 ? -1 : fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
    }
    cr_assert(eq(long, number, SYS_pidfd_getfd));
    cr_assert(le(int, 0, first));
    if (take_error != 0 && taken_count > 0) {
        errno = take_error;
        return -1;
    }
    taken[taken_count++] = second;
    return fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
}

FILE *__wrap_fopen(const char *name, const char *mode)
{
    if (strcmp(name, "/proc/sys/kernel/yama/ptrace_scope") != 0) {
        return __real_fopen(name, mode);
    }
    return lacks_fopen ? NULL : fmemopen((void *)(uintptr_t) "1\n", 2, "r");
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

static int open_files(void)
{
    int count = 0;
    for (int file = 0; file < 256; file++) {
        count += fcntl(file, F_GETFD) >= 0;
    }
    return count;
}

typedef struct message {
    unsigned char bytes[256];
    size_t length;
} message_t;

/* A description of two chunks, or of plain memory, as another process would write it. */
static message_t message(pleat_share_kind_t kind)
{
    pleat_share_chunk_t chunks[2] = {{.bytes = 4096, .file = 17}, {.bytes = 8192, .file = 18}};
    pleat_share_t share = {.size = sizeof share, .kind = kind, .offset = 512, .bytes = 11000};
    share.chunk_size = sizeof chunks[0];
    share.chunks = chunks;
    share.chunk_count = kind == PLEAT_SHARE_CHUNKS ? 2 : 0;
    share.handle.bytes[0] = 1;
    share.handle.bytes[63] = 63;
    message_t made;
    expect_ok(pleat_share_write(&share, made.bytes, sizeof made.bytes, &made.length));
    const uint64_t process = (uint64_t)getpid() + 1;
    memcpy(&made.bytes[32], &process, sizeof process);
    return made;
}

static void expect_refused(const message_t *m, pleat_status_t want, const char *part)
{
    pleat_share_t *share = NULL;
    const int before = open_files();
    expect_error(pleat_share_read(m->bytes, m->length, &share), want, part);
    cr_expect(eq(ptr, share, NULL));
    cr_expect(eq(int, open_files(), before));
}

static void put(message_t *m, size_t offset, uint64_t value, size_t width)
{
    memcpy(&m->bytes[offset], &value, width);
}

/* ---- tests ---- */

Test(share_bytes, chunks_come_back_with_copies_of_the_descriptors, .timeout = 10)
{
    const message_t m = message(PLEAT_SHARE_CHUNKS);
    pleat_share_t *share = NULL;
    const int before = open_files();
    cr_expect(eq(sz, m.length, HEADER_BYTES + 2 * 16));
    expect_ok(pleat_share_read(m.bytes, m.length, &share));
    cr_expect(eq(int, share->kind, PLEAT_SHARE_CHUNKS));
    cr_expect(eq(u64, share->offset, 512));
    cr_expect(eq(u64, share->bytes, 11000));
    cr_assert(eq(sz, share->chunk_count, 2));
    cr_expect(eq(u64, share->chunks[0].bytes, 4096));
    cr_expect(eq(u64, share->chunks[1].bytes, 8192));
    cr_expect(eq(int, taken[0], 17));
    cr_expect(eq(int, taken[1], 18));
    cr_expect(eq(int, open_files(), before + 2), "the handle of the process is closed");
    pleat_share_destroy(share);
    cr_expect(eq(int, open_files(), before));
}

Test(share_bytes, plain_memory_comes_back_with_its_handle, .timeout = 10)
{
    const message_t m = message(PLEAT_SHARE_PLAIN);
    pleat_share_t *share = NULL;
    cr_expect(eq(sz, m.length, HEADER_BYTES + 64));
    expect_ok(pleat_share_read(m.bytes, m.length, &share));
    cr_expect(eq(int, share->kind, PLEAT_SHARE_PLAIN));
    cr_expect(eq(int, share->handle.bytes[0] + share->handle.bytes[63], 64));
    cr_expect(eq(int, taken_count, 0));
    pleat_share_destroy(share);
}

Test(share_bytes, the_own_process_copies_its_descriptors_itself, .timeout = 10)
{
    message_t m = message(PLEAT_SHARE_CHUNKS);
    pleat_share_t *share = NULL;
    put(&m, 32, (uint64_t)getpid(), 8);
    put(&m, HEADER_BYTES + 8, STDOUT_FILENO, 8);
    put(&m, HEADER_BYTES + 24, STDERR_FILENO, 8);
    open_error = ENOSYS;
    expect_ok(pleat_share_read(m.bytes, m.length, &share));
    cr_expect(ne(int, share->chunks[0].file, STDOUT_FILENO));
    cr_expect(ne(int, fcntl(share->chunks[1].file, F_GETFD) & FD_CLOEXEC, 0));
    pleat_share_destroy(share);
    put(&m, HEADER_BYTES + 24, 250, 8);
    expect_refused(&m, PLEAT_ERR_IO, "has no descriptor 250 any more; was the memory freed there?");
}

Test(share_bytes, a_buffer_that_is_too_small_learns_the_size, .timeout = 10)
{
    pleat_share_t share = {.size = sizeof share, .kind = PLEAT_SHARE_PLAIN};
    unsigned char bytes[128] = {7};
    size_t length = 0;
    expect_ok(pleat_share_write(&share, NULL, 0, &length));
    cr_expect(eq(sz, length, HEADER_BYTES + 64));
    length = 0;
    expect_error(pleat_share_write(&share, bytes, HEADER_BYTES + 63, &length), PLEAT_ERR_INVALID,
                 "has 112 bytes, the buffer 111");
    cr_expect(eq(sz, length, HEADER_BYTES + 64));
    cr_expect(eq(int, bytes[0], 7));
    expect_error(pleat_share_write(NULL, bytes, 1, &length), PLEAT_ERR_INVALID, "share is NULL");
    expect_error(pleat_share_write(&share, bytes, 1, NULL), PLEAT_ERR_INVALID, "length_out is");
    pleat_share_t *read = NULL;
    expect_error(pleat_share_read(NULL, 1, &read), PLEAT_ERR_INVALID, "bytes is NULL");
    expect_error(pleat_share_read(bytes, 1, NULL), PLEAT_ERR_INVALID, "share_out is NULL");
}

Test(share_bytes, what_is_malformed_is_named, .timeout = 10)
{
    static const struct {
        size_t offset;
        uint64_t value;
        size_t width;
        const char *part;
    } rows[] = {
        {0, 0, 1, "do not begin as a description"},
        {8, 2, 4, "has version 2, this library reads 1"},
        {12, 2, 4, "at byte 12, 2 is no kind of memory"},
        {12, 0, 4, "80 bytes do not hold 2 chunks"},
        {40, 0, 8, "80 bytes do not hold 0 chunks"},
        {40, 1, 8, "80 bytes do not hold 1 chunks"},
        {40, 3, 8, "80 bytes do not hold 3 chunks"},
        {40, UINT64_C(0x1000000000000002), 8, "80 bytes do not hold 1152921504606846978 chunks"},
        {HEADER_BYTES, 0, 8, "chunk 0 has 0 bytes"},
        {HEADER_BYTES + 16, UINT64_MAX, 8, "chunk 1 has 18446744073709551615 bytes"},
        {16, 1289, 8, "a block of 11000 bytes at 1289 is not in chunks of 12288"},
        {16, UINT64_MAX, 8, "a block of 11000 bytes at 18446744073709551615"},
        {24, UINT64_MAX, 8, "is not in chunks of 12288"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        message_t m = message(PLEAT_SHARE_CHUNKS);
        put(&m, rows[i].offset, rows[i].value, rows[i].width);
        expect_refused(&m, PLEAT_ERR_FORMAT, rows[i].part);
    }
    for (size_t length = 0; length < HEADER_BYTES + 32; length++) {
        message_t m = message(PLEAT_SHARE_CHUNKS);
        m.length = length;
        expect_refused(&m, PLEAT_ERR_FORMAT,
                       length < HEADER_BYTES ? "are no description" : "do not hold 2 chunks");
    }
    message_t plain = message(PLEAT_SHARE_PLAIN);
    plain.length++;
    expect_refused(&plain, PLEAT_ERR_FORMAT, "113 bytes do not hold 0 chunks");
    cr_expect(eq(int, taken_count, 0));
}

Test(share_bytes, a_process_that_gives_no_descriptor_is_named, .timeout = 10)
{
    static const struct {
        int error;
        pleat_status_t want;
        const char *part;
    } rows[] = {
        {ENOSYS, PLEAT_ERR_UNSUPPORTED, "Linux 5.6 or later is needed"},
        {EPERM, PLEAT_ERR_IO, "(kernel.yama.ptrace_scope is 1)"},
        {ESRCH, PLEAT_ERR_IO, "which exported it, is gone"},
        {EBADF, PLEAT_ERR_IO, "any more; was the memory freed there?"},
        {EMFILE, PLEAT_ERR_IO, "cannot be had: Too many open files"},
    };
    const message_t m = message(PLEAT_SHARE_CHUNKS);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        open_error = rows[i].error;
        expect_refused(&m, rows[i].want, rows[i].part);
        open_error = 0;
        take_error = rows[i].error;
        taken_count = 0;
        expect_refused(&m, rows[i].want, rows[i].part);
        cr_expect(eq(int, taken_count, 1));
        take_error = 0;
    }
    lacks_fopen = true;
    open_error = EPERM;
    expect_refused(&m, PLEAT_ERR_IO, "ptrace_scope is -1");
}

Test(share_bytes, numbers_that_name_no_process_or_descriptor_are_refused, .timeout = 10)
{
    message_t m = message(PLEAT_SHARE_CHUNKS);
    put(&m, 32, 0, 8);
    expect_refused(&m, PLEAT_ERR_IO, "process 0, which exported it, is gone");
    put(&m, 32, UINT64_C(1) << 40, 8);
    expect_refused(&m, PLEAT_ERR_IO, "is gone");
    m = message(PLEAT_SHARE_CHUNKS);
    put(&m, HEADER_BYTES + 24, UINT64_MAX, 8);
    expect_refused(&m, PLEAT_ERR_IO, "has no descriptor -1");
    put(&m, HEADER_BYTES + 24, UINT64_C(1) << 40, 8);
    expect_refused(&m, PLEAT_ERR_IO, "has no descriptor 1099511627776");
}

Test(share_bytes, without_host_memory_nothing_is_taken, .timeout = 10)
{
    const message_t m = message(PLEAT_SHARE_CHUNKS);
    host_fault_after(1);
    expect_refused(&m, PLEAT_ERR_OOM_HOST, "no host memory for the description of 2 chunks");
    cr_expect(eq(int, taken_count, 0));
}
