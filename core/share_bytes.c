/*
 * share_bytes: descriptions as bytes, and descriptors of another process.
 *
 * Layout, in the byte order of the host, which both processes share: a header; then, of plain
 * memory, the handle; of chunks, a size and a descriptor each.
 */
#include "share.h"

#include "../vmm/base.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SHARE_VERSION 1u

typedef struct share_header {
    char magic[8];
    uint32_t version;
    uint32_t kind;
    uint64_t offset;
    uint64_t bytes;
    uint64_t process;
    uint64_t chunk_count;
} share_header_t;

typedef struct share_entry {
    uint64_t bytes;
    int64_t file;
} share_entry_t;

static const char share_magic[8] = "pleatshr";

static size_t share_tail_bytes(pleat_share_kind_t kind, size_t chunk_count)
{
    return kind == PLEAT_SHARE_PLAIN ? sizeof(pleat_ipc_handle_t)
                                     : chunk_count * sizeof(share_entry_t);
}

pleat_status_t pleat_share_write(const pleat_share_t *share, void *buffer, size_t capacity,
                                 size_t *length_out)
{
    if (share == NULL || length_out == NULL) {
        pleat_error_set("pleat_share_write: %s is NULL", share == NULL ? "share" : "length_out");
        return PLEAT_ERR_INVALID;
    }
    const size_t length =
        sizeof(share_header_t) + share_tail_bytes(share->kind, share->chunk_count);
    *length_out = length;
    if (buffer == NULL) {
        return PLEAT_OK;
    }
    if (capacity < length) {
        pleat_error_set("pleat_share_write: the description has %zu bytes, the buffer %zu", length,
                        capacity);
        return PLEAT_ERR_INVALID;
    }
    share_header_t header = {.version = SHARE_VERSION,
                             .kind = (uint32_t)share->kind,
                             .offset = share->offset,
                             .bytes = share->bytes,
                             .process = (uint64_t)getpid(),
                             .chunk_count = share->chunk_count};
    memcpy(header.magic, share_magic, sizeof(header.magic));
    unsigned char *next = buffer;
    memcpy(next, &header, sizeof(header));
    next += sizeof(header);
    if (share->kind == PLEAT_SHARE_PLAIN) {
        memcpy(next, share->handle.bytes, sizeof(share->handle.bytes));
        return PLEAT_OK;
    }
    for (size_t i = 0; i < share->chunk_count; i++) {
        const share_entry_t entry = {.bytes = share->chunks[i].bytes,
                                     .file = share->chunks[i].file};
        memcpy(next + i * sizeof(entry), &entry, sizeof(entry));
    }
    return PLEAT_OK;
}

/* ---- descriptors of another process ---- */

/* What stands in the way of tracing, for the message; -1: unknown. */
static int share_ptrace_scope(void)
{
    int scope = -1;
    FILE *file = fopen("/proc/sys/kernel/yama/ptrace_scope", "re");
    if (file != NULL) {
        char text[16] = "";
        if (fgets(text, sizeof(text), file) != NULL && text[0] >= '0' && text[0] <= '3') {
            scope = text[0] - '0';
        }
        (void)fclose(file);
    }
    return scope;
}

static pleat_status_t share_refuse_process(int error, uint64_t process, int64_t file)
{
    switch (error) {
    case ENOSYS:
        pleat_error_set("shared memory: this kernel has no pidfd_getfd; Linux 5.6 or later is "
                        "needed, or a container that allows the call");
        return PLEAT_ERR_UNSUPPORTED;
    case EPERM:
        pleat_error_set(
            "shared memory: process %llu may not be traced by this one "
            "(kernel.yama.ptrace_scope is %d), so its descriptors cannot be had: run both as one "
            "user and set ptrace_scope to 0, or give this one CAP_SYS_PTRACE, or let the other "
            "call prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY)",
            (unsigned long long)process, share_ptrace_scope());
        return PLEAT_ERR_IO;
    case ESRCH:
        pleat_error_set("shared memory: process %llu, which exported it, is gone or in another "
                        "process namespace",
                        (unsigned long long)process);
        return PLEAT_ERR_IO;
    case EBADF:
        pleat_error_set("shared memory: process %llu has no descriptor %lld any more; was the "
                        "memory freed there?",
                        (unsigned long long)process, (long long)file);
        return PLEAT_ERR_IO;
    default:
        pleat_error_set("shared memory: descriptor %lld of process %llu cannot be had: %s",
                        (long long)file, (unsigned long long)process, strerror(error));
        return PLEAT_ERR_IO;
    }
}

/* A handle of another process, or -1 for this one. */
static pleat_status_t share_open_process(uint64_t process, int *process_file_out)
{
    *process_file_out = -1;
    if (process == (uint64_t)getpid()) {
        return PLEAT_OK;
    }
    if (process == 0 || process > INT32_MAX) {
        return share_refuse_process(ESRCH, process, -1);
    }
    *process_file_out = (int)syscall(SYS_pidfd_open, (pid_t)process, 0u);
    return *process_file_out < 0 ? share_refuse_process(errno, process, -1) : PLEAT_OK;
}

/* A copy of a descriptor of a process. */
static pleat_status_t share_take_file(uint64_t process, int process_file, int64_t file,
                                      int *copy_out)
{
    int copy = -1;
    if (file < 0 || file > INT32_MAX) {
        return share_refuse_process(EBADF, process, file);
    }
    copy = process_file < 0 ? fcntl((int)file, F_DUPFD_CLOEXEC, 0)
                            : (int)syscall(SYS_pidfd_getfd, process_file, (int)file, 0u);
    if (copy < 0) {
        return share_refuse_process(errno, process, file);
    }
    *copy_out = copy;
    return PLEAT_OK;
}

static pleat_status_t share_take_files(pleat_share_t *share, uint64_t process,
                                       const unsigned char *entries)
{
    int process_file = -1;
    pleat_status_t status = share_open_process(process, &process_file);
    for (size_t i = 0; i < share->chunk_count && status == PLEAT_OK; i++) {
        share_entry_t entry;
        memcpy(&entry, entries + i * sizeof(entry), sizeof(entry));
        share->chunks[i].bytes = entry.bytes;
        status = share_take_file(process, process_file, entry.file, &share->chunks[i].file);
    }
    if (process_file >= 0) {
        (void)close(process_file);
    }
    return status;
}

/* ---- reading ---- */

static pleat_status_t share_check(const share_header_t *header, size_t length)
{
    if (memcmp(header->magic, share_magic, sizeof(header->magic)) != 0) {
        pleat_error_set("shared memory: the bytes do not begin as a description");
        return PLEAT_ERR_FORMAT;
    }
    if (header->version != SHARE_VERSION) {
        pleat_error_set("shared memory: the description has version %u, this library reads %u; "
                        "both processes need the same",
                        (unsigned)header->version, SHARE_VERSION);
        return PLEAT_ERR_FORMAT;
    }
    if (header->kind != PLEAT_SHARE_PLAIN && header->kind != PLEAT_SHARE_CHUNKS) {
        pleat_error_set("shared memory: at byte 12, %u is no kind of memory",
                        (unsigned)header->kind);
        return PLEAT_ERR_FORMAT;
    }
    const size_t tail = length - sizeof(*header);
    const bool is_plain = header->kind == PLEAT_SHARE_PLAIN;
    const bool has_count =
        is_plain ? header->chunk_count == 0
                 : header->chunk_count > 0 && header->chunk_count <= tail / sizeof(share_entry_t);
    if (!has_count ||
        tail != share_tail_bytes((pleat_share_kind_t)header->kind, (size_t)header->chunk_count)) {
        pleat_error_set("shared memory: %zu bytes do not hold %llu chunks", length,
                        (unsigned long long)header->chunk_count);
        return PLEAT_ERR_FORMAT;
    }
    return PLEAT_OK;
}

/* Do the chunks hold the block? */
static pleat_status_t share_check_chunks(const share_header_t *header, const unsigned char *entries)
{
    uint64_t sum_bytes = 0;
    uint64_t end_bytes = 0;
    for (size_t i = 0; i < header->chunk_count; i++) {
        share_entry_t entry;
        memcpy(&entry, entries + i * sizeof(entry), sizeof(entry));
        if (entry.bytes == 0 || !pleat_add_checked(sum_bytes, entry.bytes, &sum_bytes)) {
            pleat_error_set("shared memory: chunk %zu has %llu bytes", i,
                            (unsigned long long)entry.bytes);
            return PLEAT_ERR_FORMAT;
        }
    }
    if (!pleat_add_checked(header->offset, header->bytes, &end_bytes) || end_bytes > sum_bytes) {
        pleat_error_set("shared memory: a block of %llu bytes at %llu is not in chunks of %llu",
                        (unsigned long long)header->bytes, (unsigned long long)header->offset,
                        (unsigned long long)sum_bytes);
        return PLEAT_ERR_FORMAT;
    }
    return PLEAT_OK;
}

pleat_status_t pleat_share_read(const void *bytes, size_t length, pleat_share_t **share_out)
{
    if (bytes == NULL || share_out == NULL) {
        pleat_error_set("pleat_share_read: %s is NULL", bytes == NULL ? "bytes" : "share_out");
        return PLEAT_ERR_INVALID;
    }
    share_header_t header;
    if (length < sizeof(header)) {
        pleat_error_set("shared memory: %zu bytes are no description, which has at least %zu",
                        length, sizeof(header));
        return PLEAT_ERR_FORMAT;
    }
    memcpy(&header, bytes, sizeof(header));
    const unsigned char *tail = (const unsigned char *)bytes + sizeof(header);
    pleat_status_t status = share_check(&header, length);
    if (status == PLEAT_OK && header.kind == PLEAT_SHARE_CHUNKS) {
        status = share_check_chunks(&header, tail);
    }
    if (status != PLEAT_OK) {
        return status;
    }
    pleat_share_t *share = pleat_share_make((size_t)header.chunk_count, true);
    if (share == NULL) {
        return PLEAT_ERR_OOM_HOST;
    }
    share->kind = (pleat_share_kind_t)header.kind;
    share->offset = header.offset;
    share->bytes = header.bytes;
    if (share->kind == PLEAT_SHARE_PLAIN) {
        memcpy(share->handle.bytes, tail, sizeof(share->handle.bytes));
    } else {
        status = share_take_files(share, header.process, tail);
    }
    if (status != PLEAT_OK) {
        pleat_share_destroy(share);
        return status;
    }
    *share_out = share;
    return PLEAT_OK;
}
