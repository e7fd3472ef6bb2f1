/*
 * input: see input.h. Bytes go from the source (file descriptor or memory) through a decoder, if
 * the content is packed, into one window, from which reads and lines are served.
 *
 * Invariants:
 *   N1  window[begin, end) are unpacked bytes that nobody has seen yet; offset counts those before.
 *   N2  A failure stays: every later call gives the same status and the same text.
 */
#include "input.h"

#include "decoder.h"
#include "input_kind.h"
#include "vmm/base.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    RAW_CAPACITY = 1 << 16,
    PEEK_BYTES = 1 << 16,
    WINDOW_CAPACITY = 1 << 18,
    LINE_CAPACITY_MAX = 1 << 24,
    ERROR_CAPACITY = 512
};

struct pleat_input {
    char *name;
    int descriptor; /* -1: the raw bytes are the caller's memory */
    bool owns_descriptor;
    bool is_raw_end;
    bool is_end;
    pleat_input_kind_t kind;
    pleat_packing_t packing;
    pleat_decoder_t *decoder; /* NULL: the content is not packed */
    const uint8_t *raw;
    size_t raw_begin, raw_end;
    uint64_t raw_taken; /* raw bytes used up */
    uint8_t *raw_buffer;
    char *window;
    size_t begin, end, capacity;
    uint64_t offset;
    uint64_t line_number;
    pleat_status_t failure;
    char failure_text[ERROR_CAPACITY];
};

static pleat_status_t pleat_input_fail_again(const pleat_input_t *input)
{
    pleat_error_set("%s: %s", input->name, input->failure_text);
    return input->failure;
}

static PLEAT_PRINTF(3, 4) pleat_status_t
    pleat_input_fail(pleat_input_t *input, pleat_status_t status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(input->failure_text, sizeof(input->failure_text), format, arguments);
    va_end(arguments);
    input->failure = status;
    return pleat_input_fail_again(input);
}

/* Make raw bytes available, or notice the end. */
static pleat_status_t pleat_input_fill_raw(pleat_input_t *input)
{
    if (input->raw_begin < input->raw_end || input->is_raw_end) {
        return PLEAT_OK;
    }
    if (input->descriptor < 0) {
        input->is_raw_end = true;
        return PLEAT_OK;
    }
    ssize_t count = 0;
    do {
        count = read(input->descriptor, input->raw_buffer, RAW_CAPACITY);
    } while (count < 0 && errno == EINTR);
    if (count < 0) {
        return pleat_input_fail(input, PLEAT_ERR_IO, "cannot read: %s", strerror(errno));
    }
    input->raw = input->raw_buffer;
    input->raw_begin = 0;
    input->raw_end = (size_t)count;
    input->is_raw_end = count == 0;
    return PLEAT_OK;
}

static pleat_status_t pleat_input_copy_plain(pleat_input_t *input)
{
    const size_t available = input->raw_end - input->raw_begin;
    const size_t room = input->capacity - input->end;
    const size_t count = available < room ? available : room;
    if (count > 0) {
        memcpy(input->window + input->end, input->raw + input->raw_begin, count);
    }
    input->raw_begin += count;
    input->raw_taken += count;
    input->end += count;
    input->is_end = input->is_raw_end && available == 0;
    return PLEAT_OK;
}

static pleat_status_t pleat_input_unpack(pleat_input_t *input)
{
    pleat_decoder_step_t step = {.packed = input->raw + input->raw_begin,
                                 .packed_bytes = input->raw_end - input->raw_begin,
                                 .is_last = input->is_raw_end,
                                 .plain = (uint8_t *)input->window + input->end,
                                 .plain_capacity = input->capacity - input->end};
    const char *cause = "";
    const pleat_status_t status = pleat_decoder_run(input->decoder, &step, &cause);
    input->raw_begin += step.packed_taken;
    input->raw_taken += step.packed_taken;
    input->end += step.plain_made;
    if (status == PLEAT_ERR_FORMAT) {
        return pleat_input_fail(input, status, "%s data wrong at byte %" PRIu64 " of the file: %s",
                                pleat_packing_name(input->packing), input->raw_taken, cause);
    }
    if (status != PLEAT_OK) {
        return pleat_input_fail(input, status, "no memory to unpack");
    }
    input->is_end = input->is_raw_end && input->raw_begin == input->raw_end && step.plain_made == 0;
    return PLEAT_OK;
}

/* Bring more bytes into the window, which must have room, or set is_end. */
static pleat_status_t pleat_input_fill(pleat_input_t *input)
{
    const size_t end_before = input->end;
    while (input->end == end_before && !input->is_end) {
        pleat_status_t status = pleat_input_fill_raw(input);
        if (status == PLEAT_OK) {
            status =
                input->decoder != NULL ? pleat_input_unpack(input) : pleat_input_copy_plain(input);
        }
        if (status != PLEAT_OK) {
            return status;
        }
    }
    return PLEAT_OK;
}

/* Room behind end: first by moving what is unseen to the front, then by growing. */
static pleat_status_t pleat_input_make_room(pleat_input_t *input)
{
    if (input->end < input->capacity) {
        return PLEAT_OK;
    }
    if (input->begin > 0) {
        memmove(input->window, input->window + input->begin, input->end - input->begin);
        input->end -= input->begin;
        input->begin = 0;
        return PLEAT_OK;
    }
    if (input->capacity >= LINE_CAPACITY_MAX) {
        return pleat_input_fail(input, PLEAT_ERR_FORMAT, "line %" PRIu64 " is longer than 16 MiB",
                                input->line_number + 1);
    }
    const size_t capacity = input->capacity + WINDOW_CAPACITY;
    char *larger = realloc(input->window, capacity);
    if (larger == NULL) {
        return pleat_input_fail(input, PLEAT_ERR_OOM_HOST, "no memory for a long line");
    }
    input->window = larger;
    input->capacity = capacity;
    return PLEAT_OK;
}

/* Six raw bytes decide whether the content is packed; a pipe may deliver them one by one. */
static pleat_status_t pleat_input_find_packing(pleat_input_t *input)
{
    const size_t magic_bytes = 6;
    pleat_status_t status = pleat_input_fill_raw(input);
    while (status == PLEAT_OK && input->descriptor >= 0 && !input->is_raw_end &&
           input->raw_end < magic_bytes) {
        const ssize_t count = read(input->descriptor, input->raw_buffer + input->raw_end,
                                   RAW_CAPACITY - input->raw_end);
        if (count < 0 && errno != EINTR) {
            return pleat_input_fail(input, PLEAT_ERR_IO, "cannot read: %s", strerror(errno));
        }
        input->is_raw_end = count == 0;
        input->raw_end += count > 0 ? (size_t)count : 0;
    }
    if (status != PLEAT_OK) {
        return status;
    }
    input->packing = pleat_packing_recognize(input->raw, input->raw_end);
    if (input->packing == PLEAT_PACKING_NONE) {
        return PLEAT_OK;
    }
    return pleat_decoder_create(input->packing, &input->decoder);
}

static pleat_status_t pleat_input_look(pleat_input_t *input)
{
    pleat_status_t status = pleat_input_find_packing(input);
    while (status == PLEAT_OK && !input->is_end && input->end < PEEK_BYTES) {
        status = pleat_input_fill(input);
    }
    if (status == PLEAT_OK) {
        input->kind = pleat_input_kind_recognize(input->window, input->end);
    }
    return status;
}

static pleat_input_t *pleat_input_make(const char *name)
{
    pleat_input_t *input = calloc(1, sizeof(*input));
    if (input == NULL) {
        return NULL;
    }
    input->descriptor = -1;
    input->capacity = WINDOW_CAPACITY;
    input->name = strdup(name);
    input->window = malloc(input->capacity);
    if (input->name == NULL || input->window == NULL) {
        pleat_input_close(input);
        return NULL;
    }
    return input;
}

static pleat_status_t pleat_input_finish_open(pleat_input_t *input, pleat_input_t **input_out)
{
    const pleat_status_t status = pleat_input_look(input);
    if (status != PLEAT_OK) {
        pleat_input_close(input);
        return status;
    }
    *input_out = input;
    return PLEAT_OK;
}

pleat_status_t pleat_input_open(const char *path, pleat_input_t **input_out)
{
    if (path == NULL || input_out == NULL) {
        pleat_error_set("pleat_input_open: path and input_out must not be NULL");
        return PLEAT_ERR_INVALID;
    }
    const bool is_standard = strcmp(path, "-") == 0;
    pleat_input_t *input = pleat_input_make(is_standard ? "standard input" : path);
    if (input != NULL) {
        input->raw_buffer = malloc(RAW_CAPACITY);
    }
    if (input == NULL || input->raw_buffer == NULL) {
        pleat_input_close(input);
        pleat_error_set("%s: no memory to read it", path);
        return PLEAT_ERR_OOM_HOST;
    }
    input->raw = input->raw_buffer;
    input->owns_descriptor = !is_standard;
    input->descriptor = is_standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (input->descriptor < 0) {
        pleat_error_set("%s: cannot open: %s", path, strerror(errno));
        pleat_input_close(input);
        return PLEAT_ERR_IO;
    }
    return pleat_input_finish_open(input, input_out);
}

pleat_status_t pleat_input_open_memory(const char *name, const void *data, size_t data_bytes,
                                       pleat_input_t **input_out)
{
    if (name == NULL || (data == NULL && data_bytes > 0) || input_out == NULL) {
        pleat_error_set("pleat_input_open_memory: name, data and input_out must not be NULL");
        return PLEAT_ERR_INVALID;
    }
    pleat_input_t *input = pleat_input_make(name);
    if (input == NULL) {
        pleat_error_set("%s: no memory to read it", name);
        return PLEAT_ERR_OOM_HOST;
    }
    input->raw = data;
    input->raw_end = data_bytes;
    return pleat_input_finish_open(input, input_out);
}

void pleat_input_close(pleat_input_t *input)
{
    if (input == NULL) {
        return;
    }
    if (input->owns_descriptor && input->descriptor >= 0) {
        (void)close(input->descriptor);
    }
    pleat_decoder_destroy(input->decoder);
    free(input->raw_buffer);
    free(input->window);
    free(input->name);
    free(input);
}

const char *pleat_input_name(const pleat_input_t *input)
{
    return input->name;
}

pleat_input_kind_t pleat_input_kind(const pleat_input_t *input)
{
    return input->kind;
}

uint64_t pleat_input_offset(const pleat_input_t *input)
{
    return input->offset;
}

void pleat_input_refuse(const pleat_input_t *input, const char *wanted)
{
    const bool is_empty = input->is_end && input->end == 0;
    if (is_empty && input->offset == 0) {
        pleat_error_set("%s: the file is empty, %s was expected", input->name, wanted);
    } else if (input->kind == PLEAT_INPUT_PICKLE) {
        pleat_error_set("%s: a pickle file (a memory snapshot of PyTorch?), %s was expected",
                        input->name, wanted);
    } else if (input->kind == PLEAT_INPUT_UNKNOWN) {
        pleat_error_set("%s: unknown kind of file; readable are allocation traces (text or "
                        "compact), memory snapshots of PyTorch (pickles of protocol 2 to 5), "
                        "recorded sessions and hand-written cases, plain or packed by gzip, xz or "
                        "zstd; %s was expected",
                        input->name, wanted);
    } else {
        pleat_error_set("%s: this is %s, %s was expected", input->name,
                        pleat_input_kind_text(input->kind), wanted);
    }
}

pleat_status_t pleat_input_read(pleat_input_t *input, void *buffer, size_t capacity,
                                size_t *count_out)
{
    size_t count = 0;
    while (count < capacity) {
        if (input->failure != PLEAT_OK) {
            return pleat_input_fail_again(input);
        }
        if (input->begin == input->end) {
            if (input->is_end) {
                break;
            }
            input->begin = 0;
            input->end = 0;
            const pleat_status_t status = pleat_input_fill(input);
            if (status != PLEAT_OK) {
                return status;
            }
        }
        const size_t available = input->end - input->begin;
        const size_t wanted = capacity - count;
        const size_t taken = available < wanted ? available : wanted;
        memcpy((char *)buffer + count, input->window + input->begin, taken);
        input->begin += taken;
        input->offset += taken;
        count += taken;
    }
    *count_out = count;
    return PLEAT_OK;
}

/* Length of the next line without its end, once it lies in the window as a whole. */
static pleat_status_t pleat_input_complete_line(pleat_input_t *input, size_t *length_out)
{
    size_t searched = 0;
    for (;;) {
        if (input->failure != PLEAT_OK) {
            return pleat_input_fail_again(input);
        }
        const char *start = input->window + input->begin;
        const size_t available = input->end - input->begin;
        const char *line_end =
            available > searched ? memchr(start + searched, '\n', available - searched) : NULL;
        if (line_end != NULL || input->is_end) {
            *length_out = line_end != NULL ? (size_t)(line_end - start) : available;
            return PLEAT_OK;
        }
        searched = available;
        pleat_status_t status = pleat_input_make_room(input);
        if (status == PLEAT_OK) {
            status = pleat_input_fill(input);
        }
        if (status != PLEAT_OK) {
            return status;
        }
    }
}

pleat_status_t pleat_input_read_line(pleat_input_t *input, pleat_input_line_t *line_out,
                                     bool *has_line_out)
{
    size_t length = 0;
    const pleat_status_t status = pleat_input_complete_line(input, &length);
    if (status != PLEAT_OK) {
        return status;
    }
    if (input->is_end && input->begin == input->end) {
        *has_line_out = false;
        return PLEAT_OK;
    }
    const bool has_line_end = length < input->end - input->begin;
    line_out->text = input->window + input->begin;
    line_out->length = length;
    line_out->number = ++input->line_number;
    const char *zero = memchr(line_out->text, '\0', length);
    if (zero != NULL) {
        return pleat_input_fail(input, PLEAT_ERR_FORMAT,
                                "line %" PRIu64 ", column %td: a zero byte, so this is no text",
                                input->line_number, zero - line_out->text + 1);
    }
    if (has_line_end && length > 0 && line_out->text[length - 1] == '\r') {
        line_out->length--;
    }
    input->begin += length + (has_line_end ? 1 : 0);
    input->offset += length + (has_line_end ? 1 : 0);
    *has_line_out = true;
    return PLEAT_OK;
}
