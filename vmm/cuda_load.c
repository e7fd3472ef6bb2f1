/*
 * cuda_load: dlopen and dlsym.
 */
#include "cuda_load.h"

#include <dlfcn.h>
#include <string.h>

static bool driver_find(void *library, const char *name, void *pointer_out)
{
    void *symbol = dlsym(library, name);
    if (symbol == NULL) {
        return false;
    }
    /* ISO C knows no cast from an object pointer to a function pointer; POSIX says they are alike.
     */
    memcpy(pointer_out, &symbol, sizeof symbol);
    return true;
}

pleat_status_t pleat_cuda_find(const pleat_cuda_driver_t *driver, const char *name,
                               void *pointer_out)
{
    if (!driver_find(driver->library, name, pointer_out)) {
        pleat_error_set("cuda: the driver lacks the entry point %s; is it too old?", name);
        return PLEAT_ERR_UNSUPPORTED;
    }
    return PLEAT_OK;
}

static pleat_status_t driver_fill(pleat_cuda_driver_t *driver)
{
#define FIND_REQUIRED(name, parameters)                                                      \
    do {                                                                                     \
        const pleat_status_t status = pleat_cuda_find(driver, #name, (void *)&driver->name); \
        if (status != PLEAT_OK) {                                                            \
            return status;                                                                   \
        }                                                                                    \
    } while (0);
    PLEAT_CU_REQUIRED_LIST(FIND_REQUIRED)
#undef FIND_REQUIRED
#define FIND_OPTIONAL(name, parameters) \
    has_all = driver_find(driver->library, #name, (void *)&driver->name) && has_all;
#define FIND_GROUP(has_group, GROUP_LIST) \
    do {                                  \
        bool has_all = true;              \
        GROUP_LIST(FIND_OPTIONAL)         \
        driver->has_group = has_all;      \
    } while (0)
    FIND_GROUP(has_mapping, PLEAT_CU_MAPPING_LIST);
    FIND_GROUP(has_capture, PLEAT_CU_CAPTURE_LIST);
    FIND_GROUP(has_graph, PLEAT_CU_GRAPH_LIST);
    FIND_GROUP(has_file, PLEAT_CU_FILE_LIST);
    FIND_GROUP(has_ipc, PLEAT_CU_IPC_LIST);
    FIND_GROUP(has_peer, PLEAT_CU_PEER_LIST);
#undef FIND_GROUP
#undef FIND_OPTIONAL
    return PLEAT_OK;
}

pleat_status_t pleat_cuda_load(const char *library, pleat_cuda_driver_t *driver_out)
{
    const char *name = library == NULL ? PLEAT_CUDA_LIBRARY : library;
    pleat_cuda_driver_t driver = {.library = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)};
    if (driver.library == NULL) {
        pleat_error_set("cuda: %s not found, so there is no NVIDIA driver here (%s)", name,
                        dlerror());
        return PLEAT_ERR_UNSUPPORTED;
    }
    const pleat_status_t status = driver_fill(&driver);
    if (status != PLEAT_OK) {
        (void)dlclose(driver.library);
        return status;
    }
    *driver_out = driver;
    return PLEAT_OK;
}
