/*
 * torch_record: see torch_record.h.
 */
#include "torch_record.h"

#include "vmm/base.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { KEYS_MAX = 256, PLACE_BYTES = 160 };

#define PLEAT_TORCH_MARK_READ UINT32_MAX /* a list of records that was read */

/* ---- errors ---- */

static size_t place_write(const pleat_torch_place_t *place, char *text, size_t capacity)
{
    size_t length = place->up != NULL ? place_write(place->up, text, capacity) : 0;
    const char *dot = length > 0 ? "." : "";
    int added = 0;
    if (length >= capacity) {
        return length;
    }
    if (place->index == UINT64_MAX) {
        added = snprintf(text + length, capacity - length, "%s%s", dot, place->name);
    } else {
        added = snprintf(text + length, capacity - length, "%s%s[%" PRIu64 "]", dot, place->name,
                         place->index);
    }
    return length + (added > 0 ? (size_t)added : 0);
}

/* " (5)" for an integer that fits 64 bits, nothing for all else. */
static void value_write(pleat_pickle_value_t value, char *text, size_t capacity)
{
    uint64_t natural = 0;
    int64_t negative = 0;
    text[0] = '\0';
    if (pleat_pickle_to_unsigned(value, &natural)) {
        (void)snprintf(text, capacity, " (%" PRIu64 ")", natural);
    } else if (pleat_pickle_to_signed(value, &negative)) {
        (void)snprintf(text, capacity, " (%" PRId64 ")", negative);
    }
}

pleat_status_t pleat_torch_fail(const pleat_torch_reader_t *reader,
                                const pleat_torch_place_t *place, uint64_t offset,
                                const char *wanted, pleat_pickle_value_t value)
{
    char text[PLACE_BYTES] = "";
    char number[32];
    (void)place_write(place, text, sizeof(text));
    value_write(value, number, sizeof(number));
    pleat_error_set("%s: byte %" PRIu64 ": %s: expected is %s, and there is %s%s",
                    reader->source.name, offset, text, wanted, pleat_pickle_describe(value),
                    number);
    return PLEAT_ERR_FORMAT;
}

pleat_status_t pleat_torch_fail_key(const pleat_torch_reader_t *reader,
                                    const pleat_torch_dict_t *dict, const char *key,
                                    const char *wanted, pleat_pickle_value_t value)
{
    const pleat_torch_place_t place = {.up = &dict->place, .name = key, .index = UINT64_MAX};
    return pleat_torch_fail(reader, &place, dict->items->offset, wanted, value);
}

pleat_status_t pleat_torch_no_memory(const pleat_torch_reader_t *reader, uint64_t offset)
{
    return pleat_pickle_no_memory(&reader->source, &reader->own->storage, offset);
}

/* ---- keys ---- */

pleat_status_t pleat_torch_open_dict(const pleat_torch_reader_t *reader, pleat_torch_place_t place,
                                     uint64_t offset, pleat_pickle_value_t value,
                                     pleat_torch_dict_t *dict_out)
{
    if (pleat_pickle_tag(value) != PLEAT_PICKLE_TAG_DICT) {
        return pleat_torch_fail(reader, &place, offset, "a dictionary", value);
    }
    *dict_out = (pleat_torch_dict_t){.items = pleat_pickle_items(value), .place = place};
    if (dict_out->items->count / 2 > KEYS_MAX) {
        return pleat_torch_fail(reader, &place, dict_out->items->offset,
                                "a dictionary of at most 256 keys", value);
    }
    return PLEAT_OK;
}

/* The value of a key, ABSENT where it need not be there and is not. */
pleat_status_t pleat_torch_find(pleat_torch_reader_t *reader, const pleat_torch_dict_t *dict,
                                const char *key, uint32_t missing, pleat_pickle_value_t *value_out)
{
    const pleat_pickle_value_t value = pleat_pickle_find(dict->items, key);
    if (value == PLEAT_PICKLE_VALUE_ABSENT) {
        if (missing == PLEAT_TORCH_REQUIRED) {
            return pleat_torch_fail_key(reader, dict, key, "this key", value);
        }
        reader->snapshot->missing |= missing & ~PLEAT_TORCH_OPTIONAL;
    }
    *value_out = value;
    return PLEAT_OK;
}

/* The following take the value of a key; where it need not be there and is not, the output stays.
 */
pleat_status_t pleat_torch_take_unsigned(pleat_torch_reader_t *reader,
                                         const pleat_torch_dict_t *dict, const char *key,
                                         uint32_t missing, uint64_t *number_out)
{
    pleat_pickle_value_t value = PLEAT_PICKLE_VALUE_ABSENT;
    const pleat_status_t status = pleat_torch_find(reader, dict, key, missing, &value);
    if (status != PLEAT_OK || value == PLEAT_PICKLE_VALUE_ABSENT) {
        return status;
    }
    return pleat_pickle_to_unsigned(value, number_out)
               ? PLEAT_OK
               : pleat_torch_fail_key(reader, dict, key, "an integer from 0 to 2^64 - 1", value);
}

/* A number whose bits count, such as a handle: negative ones are taken as they are. */
pleat_status_t pleat_torch_take_handle(pleat_torch_reader_t *reader, const pleat_torch_dict_t *dict,
                                       const char *key, uint32_t missing, uint64_t *number_out)
{
    pleat_pickle_value_t value = PLEAT_PICKLE_VALUE_ABSENT;
    int64_t number = 0;
    const pleat_status_t status = pleat_torch_find(reader, dict, key, missing, &value);
    if (status != PLEAT_OK || value == PLEAT_PICKLE_VALUE_ABSENT) {
        return status;
    }
    if (pleat_pickle_to_signed(value, &number)) {
        *number_out = (uint64_t)number;
        return PLEAT_OK;
    }
    return pleat_pickle_to_unsigned(value, number_out)
               ? PLEAT_OK
               : pleat_torch_fail_key(reader, dict, key, "an integer of 64 bits", value);
}

pleat_status_t pleat_torch_take_device(pleat_torch_reader_t *reader, const pleat_torch_dict_t *dict,
                                       uint32_t missing, uint32_t *device_out)
{
    uint64_t device = *device_out;
    const pleat_status_t status =
        pleat_torch_take_unsigned(reader, dict, "device", missing, &device);
    if (status != PLEAT_OK) {
        return status;
    }
    if (device >= UINT32_MAX) {
        return pleat_torch_fail_key(reader, dict, "device", "the number of a device",
                                    pleat_pickle_find(dict->items, "device"));
    }
    *device_out = (uint32_t)device;
    return PLEAT_OK;
}

pleat_status_t pleat_torch_take_bool(pleat_torch_reader_t *reader, const pleat_torch_dict_t *dict,
                                     const char *key, uint32_t missing, bool *is_true_out)
{
    pleat_pickle_value_t value = PLEAT_PICKLE_VALUE_ABSENT;
    uint64_t number = 0;
    const pleat_status_t status = pleat_torch_find(reader, dict, key, missing, &value);
    if (status != PLEAT_OK || value == PLEAT_PICKLE_VALUE_ABSENT) {
        return status;
    }
    if (value == PLEAT_PICKLE_VALUE_TRUE || value == PLEAT_PICKLE_VALUE_FALSE) {
        *is_true_out = value == PLEAT_PICKLE_VALUE_TRUE;
        return PLEAT_OK;
    }
    if (!pleat_pickle_to_unsigned(value, &number) || number > 1) {
        return pleat_torch_fail_key(reader, dict, key, "True or False", value);
    }
    *is_true_out = number == 1;
    return PLEAT_OK;
}

pleat_status_t pleat_torch_take_text(pleat_torch_reader_t *reader, const pleat_torch_dict_t *dict,
                                     const char *key, uint32_t missing, const char **text_out)
{
    pleat_pickle_value_t value = PLEAT_PICKLE_VALUE_ABSENT;
    const pleat_status_t status = pleat_torch_find(reader, dict, key, missing, &value);
    if (status != PLEAT_OK || value == PLEAT_PICKLE_VALUE_ABSENT) {
        return status;
    }
    const pleat_pickle_string_t *string = pleat_pickle_string(value);
    if (string == NULL) {
        return pleat_torch_fail_key(reader, dict, key, "a string", value);
    }
    *text_out = string->text;
    return PLEAT_OK;
}

/* PyTorch never shares a list of records; a file that does could make a snapshot of any size out of
 * few bytes. */
pleat_status_t pleat_torch_open_records(const pleat_torch_reader_t *reader,
                                        const pleat_torch_place_t *place, uint64_t offset,
                                        pleat_pickle_value_t value,
                                        pleat_pickle_items_t **records_out)
{
    pleat_pickle_items_t *records = pleat_pickle_items(value);
    if (records == NULL || pleat_pickle_tag(value) == PLEAT_PICKLE_TAG_DICT) {
        return pleat_torch_fail(reader, place, offset, "a list", value);
    }
    if (records->count > 0 && records->mark != 0) {
        return pleat_torch_fail(reader, place, offset, "a list that stands nowhere else", value);
    }
    records->mark = PLEAT_TORCH_MARK_READ;
    *records_out = records;
    return PLEAT_OK;
}

pleat_status_t pleat_torch_take_records(pleat_torch_reader_t *reader,
                                        const pleat_torch_dict_t *dict, const char *key,
                                        uint32_t missing, pleat_pickle_items_t **records_out)
{
    const pleat_torch_place_t place = {.up = &dict->place, .name = key, .index = UINT64_MAX};
    pleat_pickle_value_t value = PLEAT_PICKLE_VALUE_ABSENT;
    const pleat_status_t status = pleat_torch_find(reader, dict, key, missing, &value);
    *records_out = NULL;
    if (status != PLEAT_OK || value == PLEAT_PICKLE_VALUE_ABSENT) {
        return status;
    }
    return pleat_torch_open_records(reader, &place, dict->items->offset, value, records_out);
}

pleat_status_t pleat_torch_make_array(pleat_torch_reader_t *reader, uint64_t count,
                                      size_t element_bytes, size_t *capacity_out, void **array_out)
{
    uint64_t bytes = 0;
    if (count == 0) {
        return PLEAT_OK;
    }
    if (!pleat_multiply_checked(count, element_bytes, &bytes)) {
        reader->own->storage.is_over_limit = true;
        return pleat_torch_no_memory(reader, 0);
    }
    *array_out = pleat_pickle_resize(&reader->own->storage, NULL, 0, bytes);
    if (*array_out == NULL) {
        return pleat_torch_no_memory(reader, 0);
    }
    *capacity_out = (size_t)count;
    return PLEAT_OK;
}

/* ---- stacks ---- */

static pleat_status_t torch_add_frame(pleat_torch_reader_t *reader, const pleat_torch_place_t *up,
                                      uint64_t index, pleat_pickle_value_t value,
                                      uint64_t list_offset)
{
    pleat_torch_snapshot_t *snapshot = reader->snapshot;
    pleat_torch_frame_t frame = {.name = "", .filename = ""};
    int64_t line = 0;
    pleat_torch_dict_t dict;
    pleat_status_t status = pleat_torch_open_dict(
        reader, (pleat_torch_place_t){.up = up, .name = "frames", .index = index}, list_offset,
        value, &dict);
    if (status == PLEAT_OK) {
        status = pleat_torch_take_text(reader, &dict, "name", PLEAT_TORCH_OPTIONAL, &frame.name);
    }
    if (status == PLEAT_OK) {
        status =
            pleat_torch_take_text(reader, &dict, "filename", PLEAT_TORCH_OPTIONAL, &frame.filename);
    }
    if (status == PLEAT_OK) {
        status = pleat_torch_take_handle(reader, &dict, "line", PLEAT_TORCH_OPTIONAL, &frame.line);
    }
    if (status != PLEAT_OK) {
        return status;
    }
    line = (int64_t)frame.line;
    frame.line = line < 0 ? 0 : frame.line;
    void *frames = snapshot->frames;
    if (snapshot->frame_count == PLEAT_TORCH_COUNT_MAX ||
        !pleat_pickle_reserve(&reader->own->storage, &frames, &reader->own->frame_capacity,
                              (size_t)snapshot->frame_count + 1, sizeof(frame))) {
        return pleat_torch_no_memory(reader, dict.items->offset);
    }
    snapshot->frames = frames;
    snapshot->frames[snapshot->frame_count++] = frame;
    pleat_pickle_items(value)->mark = (uint32_t)snapshot->frame_count;
    return PLEAT_OK;
}

/* A new stack of a list of frames. */
static pleat_status_t torch_add_stack(pleat_torch_reader_t *reader,
                                      const pleat_torch_place_t *place, pleat_pickle_items_t *list)
{
    pleat_torch_snapshot_t *snapshot = reader->snapshot;
    pleat_pickle_storage_t *storage = &reader->own->storage;
    void *stacks = snapshot->stacks;
    void *indices = snapshot->stack_frames;
    if (snapshot->stack_count == PLEAT_TORCH_COUNT_MAX ||
        !pleat_pickle_reserve(storage, &stacks, &reader->own->stack_capacity,
                              (size_t)snapshot->stack_count + 1, sizeof(*snapshot->stacks))) {
        return pleat_torch_no_memory(reader, list->offset);
    }
    snapshot->stacks = stacks;
    if (!pleat_pickle_reserve(storage, &indices, &reader->own->stack_frame_capacity,
                              (size_t)snapshot->stack_frame_count + list->count,
                              sizeof(*snapshot->stack_frames))) {
        return pleat_torch_no_memory(reader, list->offset);
    }
    snapshot->stack_frames = indices;
    const uint64_t first = snapshot->stack_frame_count;
    for (uint32_t i = 0; i < list->count; i++) {
        const pleat_pickle_items_t *frame = pleat_pickle_items(list->values[i]);
        if (frame == NULL || pleat_pickle_tag(list->values[i]) != PLEAT_PICKLE_TAG_DICT ||
            frame->mark == 0) {
            const pleat_status_t status =
                torch_add_frame(reader, place, i, list->values[i], list->offset);
            if (status != PLEAT_OK) {
                return status;
            }
            frame = pleat_pickle_items(list->values[i]);
        }
        snapshot->stack_frames[first + i] = frame->mark - 1;
    }
    snapshot->stack_frame_count += list->count;
    snapshot->stacks[snapshot->stack_count++] =
        (pleat_torch_stack_t){.first_frame = first, .frame_count = list->count};
    list->mark = (uint32_t)snapshot->stack_count;
    return PLEAT_OK;
}

pleat_status_t pleat_torch_take_stack(pleat_torch_reader_t *reader, const pleat_torch_dict_t *dict,
                                      uint32_t *stack_out)
{
    const pleat_pickle_value_t value = pleat_pickle_find(dict->items, "frames");
    *stack_out = PLEAT_TORCH_STACK_ABSENT;
    if (value == PLEAT_PICKLE_VALUE_ABSENT || value == PLEAT_PICKLE_VALUE_NONE) {
        return PLEAT_OK;
    }
    pleat_pickle_items_t *list = pleat_pickle_items(value);
    if (list == NULL || pleat_pickle_tag(value) == PLEAT_PICKLE_TAG_DICT ||
        (list->count > 0 && list->mark == PLEAT_TORCH_MARK_READ)) {
        return pleat_torch_fail_key(reader, dict, "frames", "a list of frames", value);
    }
    if (list->count == 0) {
        return PLEAT_OK;
    }
    if (list->mark == 0) {
        const pleat_status_t status = torch_add_stack(reader, &dict->place, list);
        if (status != PLEAT_OK) {
            return status;
        }
    }
    *stack_out = list->mark - 1;
    return PLEAT_OK;
}

pleat_status_t pleat_torch_take_kept_stack(pleat_torch_reader_t *reader,
                                           const pleat_torch_dict_t *dict, uint32_t *stack_out)
{
    pleat_status_t status = pleat_torch_take_stack(reader, dict, stack_out);
    const pleat_pickle_items_t *list = pleat_pickle_items(pleat_pickle_find(dict->items, "frames"));
    if (status != PLEAT_OK || list == NULL || list->count > 0) {
        return status;
    }
    if (reader->empty_stack == 0) {
        pleat_pickle_items_t empty = {.offset = list->offset};
        status = torch_add_stack(reader, &dict->place, &empty);
        reader->empty_stack = empty.mark;
    }
    if (status == PLEAT_OK) {
        *stack_out = reader->empty_stack - 1;
    }
    return status;
}
