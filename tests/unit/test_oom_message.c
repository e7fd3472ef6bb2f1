/*
 * test_oom_message: PyTorch's error texts.
 */
#include <pleat/oom_message.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

#define ADVICE                                                                                   \
    " is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try "  \
    "setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See "     \
    "documentation for Memory Management  (https://docs.pytorch.org/docs/stable/notes/cuda.html" \
    "#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)"

static pleat_oom_info_t full_device(void)
{
    pleat_oom_info_t info = PLEAT_OOM_INFO_INIT;
    info.requested_bytes = 4;
    info.attempted_bytes = 2097152;
    info.device_free_bytes = 1048576;
    info.device_total_bytes = UINT64_C(150109880320);
    info.limit_bytes = PLEAT_NO_LIMIT;
    info.allocated_bytes = UINT64_C(3) << 30;
    info.reserved_bytes = UINT64_C(4) << 30;
    return info;
}

Test(oom_message, without_a_limit)
{
    char text[PLEAT_OOM_MESSAGE_BYTES];
    const pleat_oom_info_t info = full_device();
    const char *want = "CUDA out of memory. Tried to allocate 2.00 MiB. GPU 5 has a total capacity "
                       "of 139.80 GiB of which 1024.00 KiB is free. Of the allocated memory 3.00 "
                       "GiB is allocated by PyTorch, and 1024.00 MiB" ADVICE;
    cr_expect(eq(sz, pleat_oom_message(&info, 5, NULL, text, sizeof text), strlen(want)));
    cr_expect(eq(str, text, (char *)want));
}

Test(oom_message, with_a_limit_processes_and_private_pools)
{
    char text[PLEAT_OOM_MESSAGE_BYTES];
    pleat_oom_info_t info = full_device();
    info.limit_bytes = 629145600;
    info.private_free_bytes = 3;
    info.reserved_bytes = info.allocated_bytes + 1027;
    (void)pleat_oom_message(&info, 0, "Process 7 has 1.00 GiB memory in use. ", text, sizeof text);
    cr_expect(eq(str, text,
                 "CUDA out of memory. Tried to allocate 2.00 MiB. GPU 0 has a total capacity of "
                 "139.80 GiB of which 1024.00 KiB is free. Process 7 has 1.00 GiB memory in use. "
                 "600.00 MiB allowed; Of the allocated memory 3.00 GiB is allocated by PyTorch, "
                 "with 3 bytes allocated in private pools (e.g., CUDA Graphs), and 1024 "
                 "bytes" ADVICE));
}

Test(oom_message, a_limit_of_zero_is_a_limit)
{
    char text[PLEAT_OOM_MESSAGE_BYTES];
    pleat_oom_info_t info = full_device();
    info.limit_bytes = 0;
    (void)pleat_oom_message(&info, 0, "", text, sizeof text);
    cr_expect(strstr(text, " is free. 0 bytes allowed; Of the") != NULL);
}

Test(oom_message, sizes)
{
    static const struct {
        uint64_t bytes;
        const char *text;
    } rows[] = {
        {0, "0 bytes"},
        {1024, "1024 bytes"},
        {1025, "1.00 KiB"},
        {1536, "1.50 KiB"},
        {1048576, "1024.00 KiB"},
        {1048577, "1.00 MiB"},
        {1073741824, "1024.00 MiB"},
        {1073741825, "1.00 GiB"},
        {UINT64_C(1152921504606846975), "1073741824.00 GiB"},
        {UINT64_MAX, "17179869184.00 GiB"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[64];
        cr_expect(
            eq(sz, pleat_format_bytes(rows[i].bytes, text, sizeof text), strlen(rows[i].text)));
        cr_expect(eq(str, text, (char *)rows[i].text));
    }
}

Test(oom_message, other_errors)
{
    char text[128];
    (void)pleat_too_large_message(text, sizeof text);
    cr_expect(eq(str, text, "CUDA out of memory. Tried to allocate more than 1EB memory."));
    (void)pleat_invalid_pointer_message(UINT64_C(0x7f68f8600000), text, sizeof text);
    cr_expect(eq(str, text, "invalid device pointer: 0x7f68f8600000"));
}

Test(oom_message, a_small_buffer_gets_what_fits)
{
    char text[24] = "untouched";
    const pleat_oom_info_t info = full_device();
    const size_t length = pleat_oom_message(&info, 0, NULL, NULL, 0);
    cr_expect(lt(sz, length, PLEAT_OOM_MESSAGE_BYTES));
    cr_expect(eq(sz, pleat_oom_message(&info, 0, NULL, text, sizeof text), length));
    cr_expect(eq(str, text, "CUDA out of memory. Tri"));
    cr_expect(eq(sz, pleat_too_large_message(text, 1), 59));
    cr_expect(eq(str, text, ""));
}

Test(oom_message, an_older_caller_knows_less)
{
    char text[PLEAT_OOM_MESSAGE_BYTES];
    pleat_oom_info_t info = full_device();
    info.size = offsetof(pleat_oom_info_t, limit_bytes);
    info.limit_bytes = 1;
    (void)pleat_oom_message(&info, 0, NULL, text, sizeof text);
    cr_expect(strstr(text, "allowed") == NULL);
    cr_expect(strstr(text, "memory 0 bytes is allocated by PyTorch, and 0 bytes is") != NULL);
}
