/*
 * Tests of cuda_load: a driver that is not there, one that lacks entry points, one that has all.
 */
#include "vmm/cuda_load.h"

#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

static void expect_error(pleat_status_t status, pleat_status_t want, const char *part)
{
    cr_expect(eq(int, status, want));
    cr_expect(ne(ptr, strstr(pleat_last_error(), part), NULL), "'%s' lacks '%s'",
              pleat_last_error(), part);
}

Test(cuda_load, a_missing_library_is_named, .timeout = 10)
{
    pleat_cuda_driver_t driver = {.library = &driver};
    expect_error(pleat_cuda_load("libno_such_driver.so.1", &driver), PLEAT_ERR_UNSUPPORTED,
                 "cuda: libno_such_driver.so.1 not found");
    expect_error(pleat_cuda_load(TEST_LIBRARY_EMPTY ".gone", &driver), PLEAT_ERR_UNSUPPORTED,
                 "there is no NVIDIA driver here");
    cr_expect(eq(ptr, driver.library, &driver));
}

Test(cuda_load, a_missing_required_entry_point_is_named, .timeout = 10)
{
    pleat_cuda_driver_t driver = {.library = &driver};
    expect_error(pleat_cuda_load(TEST_LIBRARY_EMPTY, &driver), PLEAT_ERR_UNSUPPORTED,
                 "lacks the entry point cuDeviceGetCount");
    cr_expect(eq(ptr, driver.library, &driver));
}

Test(cuda_load, a_missing_mapping_entry_point_takes_virtual_memory_away, .timeout = 10)
{
    pleat_cuda_driver_t driver;
    cr_assert(eq(int, pleat_cuda_load(TEST_LIBRARY_LACKING, &driver), PLEAT_OK), "%s",
              pleat_last_error());
    cr_expect(not(driver.has_mapping));
    cr_expect(not(driver.has_capture));
    cr_expect(driver.cuMemUnmap == NULL);
    cr_expect(driver.cuMemSetAccess != NULL, "what stands behind it is looked up all the same");
    cr_expect(driver.cuMemAlloc_v2 != NULL);
}

Test(cuda_load, a_whole_driver_is_filled, .timeout = 10)
{
    pleat_cuda_driver_t driver;
    cr_assert(eq(int, pleat_cuda_load(TEST_LIBRARY, &driver), PLEAT_OK), "%s", pleat_last_error());
    cr_expect(driver.has_mapping);
    cr_expect(driver.has_capture);
    cr_expect(driver.has_graph);
#define CHECK_POINTER(name, parameters) cr_expect(driver.name != NULL, #name);
    PLEAT_CU_REQUIRED_LIST(CHECK_POINTER)
    PLEAT_CU_MAPPING_LIST(CHECK_POINTER)
    PLEAT_CU_CAPTURE_LIST(CHECK_POINTER)
    PLEAT_CU_GRAPH_LIST(CHECK_POINTER)
#undef CHECK_POINTER
    cr_expect(eq(int, (int)driver.cuInit(0), PLEAT_CU_OK));
}

Test(cuda_load, one_more_entry_point_can_be_found, .timeout = 10)
{
    pleat_cuda_driver_t driver;
    pleat_cu_result_t (*finish)(void) = NULL;
    cr_assert(eq(int, pleat_cuda_load(TEST_LIBRARY, &driver), PLEAT_OK));
    cr_assert(eq(int, pleat_cuda_find(&driver, "cuCtxSynchronize", (void *)&finish), PLEAT_OK));
    cr_expect(finish != NULL);
    expect_error(pleat_cuda_find(&driver, "cuNoSuchThing", (void *)&finish), PLEAT_ERR_UNSUPPORTED,
                 "lacks the entry point cuNoSuchThing; is it too old?");
    cr_expect(finish != NULL);
}
