/*
 * cuda_share: memory of a GPU for other processes and devices: chunks as descriptors, handles of
 * plain allocations, peers.
 * No lock: one thread at a time for a device.
 */
#include "cuda_state.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

/* ---- other processes ---- */

static pleat_status_t cuda_chunk_export(void *self, pleat_chunk_t chunk, int *file_out)
{
    const pleat_cuda_t *cuda = self;
    if (cuda->properties.handle_types == 0) {
        pleat_error_set("chunk_export: the GPU was opened without PLEAT_CUDA_HANDLE_FILE "
                        "(handle_types), so its chunks stay in the process");
        return PLEAT_ERR_UNSUPPORTED;
    }
    int file = -1;
    pleat_cu_result_t result = PLEAT_CU_OK;
    CUDA_MEMORY_CALL(cuda, result,
                     cuMemExportToShareableHandle(&file, chunk, PLEAT_CU_HANDLE_FILE, 0));
    if (result == PLEAT_CU_OK) {
        /* A program that this one starts would hold the memory for as long as it runs. */
        (void)fcntl(file, F_SETFD, FD_CLOEXEC);
        *file_out = file;
    }
    return pleat_cuda_status_of(cuda, result, "chunk_export", chunk, 0);
}

static pleat_status_t cuda_chunk_import(void *self, int file, pleat_chunk_t *chunk_out)
{
    const pleat_cuda_t *cuda = self;
    pleat_cu_handle_t handle = 0;
    void *os_handle = (void *)(uintptr_t)file; /* NOLINT(performance-no-int-to-ptr): as it wants */
    pleat_cu_result_t result = PLEAT_CU_OK;
    CUDA_MEMORY_CALL(cuda, result,
                     cuMemImportFromShareableHandle(&handle, os_handle, PLEAT_CU_HANDLE_FILE));
    *chunk_out = handle;
    return pleat_cuda_status_of(cuda, result, "chunk_import", (pleat_devptr_t)file, 0);
}

_Static_assert(sizeof(pleat_cu_ipc_handle_t) == sizeof(pleat_ipc_handle_t), "the same bytes");

static pleat_status_t cuda_ipc_export(void *self, pleat_devptr_t ptr,
                                      pleat_ipc_handle_t *handle_out)
{
    const pleat_cuda_t *cuda = self;
    pleat_cu_ipc_handle_t handle = {{0}};
    pleat_cu_result_t result = PLEAT_CU_OK;
    CUDA_MEMORY_CALL(cuda, result, cuIpcGetMemHandle(&handle, ptr));
    memcpy(handle_out->bytes, handle.bytes, sizeof handle.bytes);
    return pleat_cuda_status_of(cuda, result, "ipc_export", ptr, 0);
}

static pleat_status_t cuda_ipc_open(void *self, const pleat_ipc_handle_t *handle,
                                    pleat_devptr_t *ptr_out)
{
    const pleat_cuda_t *cuda = self;
    pleat_cu_ipc_handle_t copy;
    memcpy(copy.bytes, handle->bytes, sizeof copy.bytes);
    pleat_cu_ptr_t ptr = 0;
    pleat_cu_result_t result = PLEAT_CU_OK;
    CUDA_MEMORY_CALL(cuda, result, cuIpcOpenMemHandle_v2(&ptr, copy, PLEAT_CU_IPC_LAZY_PEER));
    *ptr_out = ptr;
    const pleat_status_t status = pleat_cuda_status(&cuda->driver, result, "ipc_open");
    if (result == PLEAT_CU_INVALID_CONTEXT) {
        /* There is a context: the driver says so of handles of this process. */
        pleat_error_set("%s (is the handle of this very process?)", pleat_last_error());
        return PLEAT_ERR_INVALID;
    }
    return status;
}

static pleat_status_t cuda_ipc_close(void *self, pleat_devptr_t ptr)
{
    const pleat_cuda_t *cuda = self;
    pleat_cu_result_t result = PLEAT_CU_OK;
    CUDA_MEMORY_CALL(cuda, result, cuIpcCloseMemHandle(ptr));
    const pleat_status_t status = pleat_cuda_status_of(cuda, result, "ipc_close", ptr, 0);
    return status == PLEAT_ERR_INVALID ? PLEAT_ERR_INVALID_POINTER : status;
}

/* ---- other devices ---- */

/* Where a device stands in the list of those with access; its length: nowhere. */
static size_t cuda_access_index(const pleat_cuda_t *cuda, int device)
{
    size_t index = 0;
    while (index < cuda->access_count && cuda->access[index].location.id != device) {
        index++;
    }
    return index;
}

/* Can a device of the driver use memory of this one? */
static pleat_status_t cuda_check_peer(const pleat_cuda_t *cuda, int device)
{
    int can_access = 0;
    int count = 0;
    pleat_cu_result_t result = PLEAT_CU_OK;
    CUDA_CALL(cuda, result, cuDeviceGetCount(&count));
    if (result != PLEAT_CU_OK) {
        return pleat_cuda_status(&cuda->driver, result, "peer_add");
    }
    if (device < 0 || device >= count) {
        pleat_error_set("peer_add: no GPU %d; the driver has %d, counted from 0", device, count);
        return PLEAT_ERR_INVALID;
    }
    CUDA_CALL(cuda, result, cuDeviceCanAccessPeer(&can_access, device, cuda->device));
    if (result != PLEAT_CU_OK) {
        return pleat_cuda_status(&cuda->driver, result, "peer_add");
    }
    if (can_access == 0 || cuda->access_count == PLEAT_CUDA_DEVICES_MAX) {
        pleat_error_set("peer_add: GPU %d cannot reach the memory of GPU %d", device, cuda->device);
        return PLEAT_ERR_UNSUPPORTED;
    }
    return PLEAT_OK;
}

static pleat_status_t cuda_peer_add(void *self, int device)
{
    pleat_cuda_t *cuda = self;
    if (cuda_access_index(cuda, device) < cuda->access_count) {
        return PLEAT_OK;
    }
    const pleat_status_t status = cuda_check_peer(cuda, device);
    if (status == PLEAT_OK) {
        cuda->access[cuda->access_count] = cuda->access[0];
        cuda->access[cuda->access_count].location.id = device;
        cuda->access_count++;
    }
    return status;
}

static pleat_status_t cuda_peer_remove(void *self, int device)
{
    pleat_cuda_t *cuda = self;
    const size_t index = cuda_access_index(cuda, device);
    if (index > 0 && index < cuda->access_count) {
        cuda->access[index] = cuda->access[--cuda->access_count];
    }
    return PLEAT_OK;
}

void pleat_cuda_add_share(const pleat_cuda_t *cuda, pleat_vmm_ops_t *ops)
{
    const bool has_mapping = cuda->granularity_bytes != 0;
    if (has_mapping && cuda->driver.has_file) {
        ops->ext_chunk_export = cuda_chunk_export;
        ops->ext_chunk_import = cuda_chunk_import;
    }
    if (cuda->driver.has_ipc) {
        ops->ext_ipc_export = cuda_ipc_export;
        ops->ext_ipc_open = cuda_ipc_open;
        ops->ext_ipc_close = cuda_ipc_close;
    }
    if (has_mapping && cuda->driver.has_peer) {
        ops->ext_peer_add = cuda_peer_add;
        ops->ext_peer_remove = cuda_peer_remove;
    }
}
