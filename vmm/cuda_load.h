/*
 * cuda_load (internal): opens the CUDA driver at run time and looks its entry points up by their
 * exported names. Once opened a driver stays in the process: it starts threads of its own.
 * No lock: a driver is filled once and read after that.
 */
#ifndef PLEAT_CUDA_LOAD_H
#define PLEAT_CUDA_LOAD_H

#include "base.h"
#include "cuda_symbols.h"

#define PLEAT_CUDA_LIBRARY "libcuda.so.1"

typedef struct pleat_cuda_driver {
    void *library;
    bool has_mapping; /* all of PLEAT_CU_MAPPING_LIST is there */
    bool has_capture; /* all of PLEAT_CU_CAPTURE_LIST is there */
    bool has_graph;   /* and so on */
    bool has_file;    /* all of PLEAT_CU_FILE_LIST is there */
    bool has_ipc;     /* all of PLEAT_CU_IPC_LIST is there */
    bool has_peer;    /* all of PLEAT_CU_PEER_LIST is there */
    PLEAT_CU_REQUIRED_LIST(PLEAT_CU_POINTER)
    PLEAT_CU_MAPPING_LIST(PLEAT_CU_POINTER)
    PLEAT_CU_CAPTURE_LIST(PLEAT_CU_POINTER)
    PLEAT_CU_GRAPH_LIST(PLEAT_CU_POINTER)
    PLEAT_CU_FILE_LIST(PLEAT_CU_POINTER)
    PLEAT_CU_IPC_LIST(PLEAT_CU_POINTER)
    PLEAT_CU_PEER_LIST(PLEAT_CU_POINTER)
} pleat_cuda_driver_t;

/**
 * Open a driver.
 *
 * @param library           its file; NULL: PLEAT_CUDA_LIBRARY.
 * @param[out] driver_out   untouched on failure; nothing to be freed.
 * @retval PLEAT_ERR_UNSUPPORTED  no such library, or it lacks a required entry point, which is
 *                                named.
 * @par Threads any.   @par Cost opens a library.
 */
PLEAT_NODISCARD pleat_status_t pleat_cuda_load(const char *library,
                                               pleat_cuda_driver_t *driver_out);

/**
 * Look one more entry point up.
 * @retval PLEAT_ERR_UNSUPPORTED  the driver lacks it; it is named. @p pointer_out, the address of
 *                                a pointer to a function, is untouched then.
 */
PLEAT_NODISCARD pleat_status_t pleat_cuda_find(const pleat_cuda_driver_t *driver, const char *name,
                                               void *pointer_out);

#endif
