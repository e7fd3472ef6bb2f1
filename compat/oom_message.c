/*
 * oom_message: PyTorch's error texts from the facts of a failure (pleat/oom_message.h). No state,
 * no lock.
 */
#include "text.h"
#include "vmm/base.h"

#include <pleat/oom_message.h>
#include <string.h>

static void oom_append_bytes(pleat_text_t *text, uint64_t bytes)
{
    if (bytes <= PLEAT_KIB) {
        pleat_text_append(text, "%llu bytes", (unsigned long long)bytes);
        return;
    }
    const uint64_t unit = bytes <= PLEAT_MIB   ? PLEAT_KIB
                          : bytes <= PLEAT_GIB ? PLEAT_MIB
                                               : PLEAT_GIB;
    pleat_text_fixed(text, (double)bytes / (double)unit, 2);
    pleat_text_append(text, " %s", unit == PLEAT_KIB ? "KiB" : unit == PLEAT_MIB ? "MiB" : "GiB");
}

size_t pleat_format_bytes(uint64_t bytes, char *buffer, size_t buffer_bytes)
{
    pleat_text_t text = pleat_text_begin(buffer, buffer_bytes);
    oom_append_bytes(&text, bytes);
    return text.length;
}

size_t pleat_oom_message(const pleat_oom_info_t *info, int device, const char *process_text,
                         char *buffer, size_t buffer_bytes)
{
    pleat_oom_info_t full = {.limit_bytes = PLEAT_NO_LIMIT};
    memcpy(&full, info, info->size < sizeof full ? info->size : sizeof full);
    const uint64_t taken_bytes = full.allocated_bytes + full.private_free_bytes;
    pleat_text_t text = pleat_text_begin(buffer, buffer_bytes);
    pleat_text_append(&text, "CUDA out of memory. Tried to allocate ");
    oom_append_bytes(&text, full.attempted_bytes);
    pleat_text_append(&text, ". GPU %d has a total capacity of ", device);
    oom_append_bytes(&text, full.device_total_bytes);
    pleat_text_append(&text, " of which ");
    oom_append_bytes(&text, full.device_free_bytes);
    pleat_text_append(&text, " is free. %s", process_text != NULL ? process_text : "");
    if (full.limit_bytes != PLEAT_NO_LIMIT) {
        oom_append_bytes(&text, full.limit_bytes);
        pleat_text_append(&text, " allowed; ");
    }
    pleat_text_append(&text, "Of the allocated memory ");
    oom_append_bytes(&text, taken_bytes);
    pleat_text_append(&text, " is allocated by PyTorch, ");
    if (full.private_free_bytes != 0) {
        pleat_text_append(&text, "with ");
        oom_append_bytes(&text, full.private_free_bytes);
        pleat_text_append(&text, " allocated in private pools (e.g., CUDA Graphs), ");
    }
    pleat_text_append(&text, "and ");
    oom_append_bytes(&text, full.reserved_bytes - taken_bytes);
    pleat_text_append(
        &text, " is reserved by PyTorch but unallocated. If reserved but unallocated memory is "
               "large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid "
               "fragmentation.  See documentation for Memory Management  "
               "(https://docs.pytorch.org/docs/stable/notes/cuda.html"
               "#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)");
    return text.length;
}

size_t pleat_too_large_message(char *buffer, size_t buffer_bytes)
{
    pleat_text_t text = pleat_text_begin(buffer, buffer_bytes);
    pleat_text_append(&text, "CUDA out of memory. Tried to allocate more than 1EB memory.");
    return text.length;
}

size_t pleat_invalid_pointer_message(pleat_devptr_t ptr, char *buffer, size_t buffer_bytes)
{
    pleat_text_t text = pleat_text_begin(buffer, buffer_bytes);
    pleat_text_append(&text, "invalid device pointer: 0x%llx", (unsigned long long)ptr);
    return text.length;
}
