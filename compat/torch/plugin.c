/*
 * plugin: see plugin.h; over the table of devices. Private pools have a file of their own
 * (plugin_pools.c).
 */
#include "plugin.h"

#include "plugin_tell.h"

#include <pleat/device_table.h>
#include <pleat/memory_stats.h>
#include <pleat/oom_message.h>
#include <pleat/summary.h>

#include <stdatomic.h>
#include <stdio.h>

static pleat_stream_t stream_of(const void *stream)
{
    return (pleat_stream_t)(uintptr_t)stream;
}

/* ---- failures ---- */

void pleat_torch_tell(pleat_torch_failure_t failure, const char *what, const char *why)
{
    static atomic_bool is_told[PLEAT_TORCH_FAILURE_COUNT];
    if (!atomic_exchange(&is_told[failure], true)) {
        (void)fprintf(stderr, "pleat: %s: %s\n", what, why);
    }
}

/* PyTorch raises nothing for a NULL, so that this text is all that a user gets to see. */
static void tell_oom(pleat_allocator_t *allocator, int device)
{
    static atomic_bool is_told;
    if (atomic_exchange(&is_told, true)) {
        return;
    }
    char text[PLEAT_OOM_MESSAGE_BYTES];
    pleat_oom_info_t info = PLEAT_OOM_INFO_INIT;
    pleat_read_last_oom(allocator, &info);
    (void)pleat_oom_message(&info, device, NULL, text, sizeof text);
    (void)fprintf(stderr,
                  "torch.OutOfMemoryError: %s\n"
                  "pleat: PyTorch raises no exception when a plug-in is out of memory: the tensor "
                  "has no memory,\n"
                  "pleat: and what uses it fails. This is told once.\n",
                  text);
}

/* ---- memory ---- */

void *pleat_torch_malloc(size_t size, int device, void *stream)
{
    pleat_allocator_t *allocator = NULL;
    pleat_devptr_t ptr = 0;
    pleat_status_t status = pleat_device_table_get(device, &allocator);
    if (status == PLEAT_OK) {
        status = pleat_alloc(allocator, size, stream_of(stream), &ptr);
    }
    if (status == PLEAT_OK) {
        return (void *)(uintptr_t)ptr;
    }
    if (status == PLEAT_ERR_OOM_DEVICE && allocator != NULL) {
        tell_oom(allocator, device);
    } else {
        pleat_torch_tell(PLEAT_TORCH_MALLOC, "an allocation failed, and its tensor has no memory",
                         pleat_last_error());
    }
    return NULL;
}

void pleat_torch_free(void *ptr, size_t size, int device, void *stream)
{
    (void)size;
    (void)stream;
    pleat_allocator_t *allocator = pleat_device_table_find(device);
    /* Without an allocator this is a forked child, which leaves its parent's memory alone. */
    if (allocator != NULL && pleat_free(allocator, (pleat_devptr_t)(uintptr_t)ptr) != PLEAT_OK) {
        pleat_torch_tell(PLEAT_TORCH_FREE, "memory could not be freed", pleat_last_error());
    }
}

void pleat_torch_record_stream(void *ptr, void *stream)
{
    /* PyTorch does not say of which device the pointer is. */
    for (int device = 0; device < PLEAT_DEVICE_TABLE_COUNT; device++) {
        pleat_allocator_t *allocator = pleat_device_table_find(device);
        if (allocator == NULL) {
            continue;
        }
        const pleat_status_t status =
            pleat_record_stream(allocator, (pleat_devptr_t)(uintptr_t)ptr, stream_of(stream));
        if (status == PLEAT_OK) {
            return;
        }
        if (status != PLEAT_ERR_INVALID_POINTER) {
            pleat_torch_tell(PLEAT_TORCH_RECORD_STREAM, "a stream could not be recorded",
                             pleat_last_error());
            return;
        }
    }
    /* Memory of somebody else's, which PyTorch records as well. */
}

/* ---- the process ---- */

void pleat_torch_init(int device_count)
{
    (void)device_count;
    pleat_conf_t conf = PLEAT_CONF_INIT;
    if (pleat_device_table_read_conf(&conf) != PLEAT_OK) {
        pleat_torch_tell(PLEAT_TORCH_CONF, "no allocation will succeed", pleat_last_error());
    }
}

void pleat_torch_reset(void)
{
    if (pleat_device_table_empty_cache() != PLEAT_OK) {
        pleat_torch_tell(PLEAT_TORCH_RESET, "a cache could not be emptied", pleat_last_error());
    }
}

void pleat_torch_memory_fraction(double fraction, int device)
{
    if (pleat_device_table_set_fraction(device, fraction) != PLEAT_OK) {
        pleat_torch_tell(PLEAT_TORCH_FRACTION, "the memory fraction stays as it was",
                         pleat_last_error());
    }
}

int pleat_torch_configure(const char *conf, const char *driver)
{
    pleat_device_table_options_t options = PLEAT_DEVICE_TABLE_OPTIONS_INIT;
    options.conf = conf;
    options.driver = driver;
    return pleat_device_table_configure(&options);
}

/* ---- reports ---- */

const char *pleat_torch_last_error(void)
{
    return pleat_last_error();
}

static pleat_stats_t stats_of(int device)
{
    pleat_stats_t stats = PLEAT_STATS_INIT;
    pleat_read_stats(pleat_device_table_find(device), &stats); /* all 0 without an allocator */
    return stats;
}

size_t pleat_torch_stats_json(int device, char *buffer, size_t buffer_bytes)
{
    const pleat_stats_t stats = stats_of(device);
    int64_t values[PLEAT_MEMORY_STATS_COUNT];
    pleat_memory_stats_values(&stats, values);
    size_t length = 0;
    for (size_t i = 0; i < PLEAT_MEMORY_STATS_COUNT; i++) {
        const bool has_room = length < buffer_bytes;
        const int part =
            snprintf(has_room ? buffer + length : NULL, has_room ? buffer_bytes - length : 0,
                     "%s\"%s\": %lld%s", i == 0 ? "{" : ", ", pleat_memory_stats_name(i),
                     (long long)values[i], i + 1 == PLEAT_MEMORY_STATS_COUNT ? "}" : "");
        length += part > 0 ? (size_t)part : 0;
    }
    return length;
}

size_t pleat_torch_summary(int device, bool is_abbreviated, char *buffer, size_t buffer_bytes)
{
    const pleat_stats_t stats = stats_of(device);
    return pleat_memory_summary(&stats, device, is_abbreviated, buffer, buffer_bytes);
}

double pleat_torch_fraction(int device)
{
    return pleat_device_table_fraction(device);
}

void pleat_torch_reset_peak_stats(int device)
{
    pleat_reset_peak_stats(pleat_device_table_find(device));
}

void pleat_torch_reset_accumulated_stats(int device)
{
    pleat_reset_accumulated_stats(pleat_device_table_find(device));
}
