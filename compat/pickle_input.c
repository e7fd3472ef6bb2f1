/*
 * pickle_input: see pickle_input.h.
 */
#include "pickle_input.h"

#include "pickle_opcodes.h"
#include "vmm/base.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MESSAGE_BYTES = 512 };

pleat_status_t pleat_pickle_input_fail(const pleat_pickle_input_t *input, uint64_t offset,
                                       const char *format, ...)
{
    char message[MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(message, sizeof(message), format, arguments);
    va_end(arguments);
    pleat_error_set("%s: byte %" PRIu64 ": %s", input->source->name, offset, message);
    return PLEAT_ERR_FORMAT;
}

pleat_status_t pleat_pickle_no_memory(const pleat_pickle_source_t *source,
                                      const pleat_pickle_storage_t *storage, uint64_t offset)
{
    if (storage->is_over_limit) {
        pleat_error_set("%s: byte %" PRIu64 ": its data needs more memory than %s allows, %" PRIu64
                        " bytes; raise %s if the file can be trusted to need so much",
                        source->name, offset, source->limit_name, storage->limit_bytes,
                        source->limit_name);
    } else {
        pleat_error_set("%s: byte %" PRIu64 ": no host memory after %" PRIu64 " bytes",
                        source->name, offset, storage->used_bytes);
    }
    return PLEAT_ERR_OOM_HOST;
}

uint64_t pleat_pickle_input_position(const pleat_pickle_input_t *input)
{
    return input->base + input->begin;
}

/* Read on behind the unread part. */
static pleat_status_t input_fill(pleat_pickle_input_t *input)
{
    size_t count = 0;
    memmove(input->buffer, input->buffer + input->begin, input->end - input->begin);
    input->base += input->begin;
    input->end -= input->begin;
    input->begin = 0;
    const size_t room = PLEAT_PICKLE_INPUT_BYTES - input->end;
    const pleat_status_t status =
        input->source->read(input->source->context, input->buffer + input->end, room, &count);
    if (status != PLEAT_OK) {
        return status;
    }
    PLEAT_ASSERT(count <= room);
    input->end += count;
    input->is_at_end = count < room;
    return PLEAT_OK;
}

static void input_say_truncated(const pleat_pickle_input_t *input, uint64_t byte_count)
{
    const uint64_t end = input->base + input->end;
    if (input->opcode < 0) {
        (void)pleat_pickle_input_fail(input, end,
                                      "the file ends here; an opcode was expected, the last one of "
                                      "a pickle being STOP ('.')");
        return;
    }
    (void)pleat_pickle_input_fail(input, end,
                                  "the file ends here; an argument of %" PRIu64
                                  " byte%s was expected for %s at byte %" PRIu64,
                                  byte_count, byte_count == 1 ? "" : "s",
                                  pleat_pickle_opcode_name(input->opcode), input->offset);
}

/* @p count bytes, at most PLEAT_PICKLE_INPUT_BYTES, that stay until the next call. */
pleat_status_t pleat_pickle_input_take(pleat_pickle_input_t *input, size_t count,
                                       const unsigned char **bytes_out)
{
    PLEAT_ASSERT(input->buffer != NULL);
    PLEAT_ASSERT(count <= PLEAT_PICKLE_INPUT_BYTES);
    while (input->end - input->begin < count && !input->is_at_end) {
        const pleat_status_t status = input_fill(input);
        if (status != PLEAT_OK) {
            return status;
        }
    }
    if (input->end - input->begin < count) {
        input_say_truncated(input, count);
        return PLEAT_ERR_FORMAT;
    }
    *bytes_out = input->buffer + input->begin;
    input->begin += count;
    return PLEAT_OK;
}

/* A number of @p count bytes, the lowest first. */
pleat_status_t pleat_pickle_input_number(pleat_pickle_input_t *input, size_t count,
                                         uint64_t *number_out)
{
    const unsigned char *bytes = NULL;
    uint64_t number = 0;
    const pleat_status_t status = pleat_pickle_input_take(input, count, &bytes);
    if (status != PLEAT_OK) {
        return status;
    }
    for (size_t i = count; i > 0; i--) {
        number = number << 8 | bytes[i - 1];
    }
    *number_out = number;
    return PLEAT_OK;
}
