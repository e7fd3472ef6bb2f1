/*
 * share: memory for other processes (CUDA IPC) and other devices (peers, copies).
 *
 * A handle is the byte 2, a letter and what the letter says: 'c', as PyTorch has it, the runtime's
 * own handle of a plain segment, so that a process with PyTorch's allocator can open it and ours
 * can open one of PyTorch's; 'p' the bytes of pleat_share_write. 64 bytes alone are an old 'c'.
 */
#include "backend.h"

#include <cstring>

static_assert(PLEAT_IPC_HANDLE_BYTES == CUDA_IPC_HANDLE_SIZE, "one handle is the other");

namespace pleat_torch {

static constexpr char kVersion = 2;
static constexpr char kPlain = 'c';
static constexpr char kTorchPages = 'e';
static constexpr char kChunks = 'p';

static uintptr_t number(const void *ptr)
{
    return reinterpret_cast<uintptr_t>(ptr);
}

void *Backend::getBaseAllocation(void *ptr, size_t *size)
{
    pleat_pointer_info_t info = PLEAT_POINTER_INFO_INIT;
    owner_of(ptr, &info);
    TORCH_CHECK(!info.is_expandable,
                "Tensors allocated with expandable_segments:True cannot be shared between "
                "processes. Consider using expandable_segments:False in data loading workers via "
                "torch.cuda.memory._set_allocator_settings('expandable_segments:False')");
    if (size != nullptr) {
        *size = info.segment_bytes;
    }
    return reinterpret_cast<void *>(info.segment_address);
}

/* ---- export ---- */

struct ShareEnd {
    void operator()(pleat_share_t *share) const
    {
        pleat_share_destroy(share);
    }
};
using Share = std::unique_ptr<pleat_share_t, ShareEnd>;

ShareableHandle Backend::shareIpcHandle(void *ptr)
{
    pleat_pointer_info_t info = PLEAT_POINTER_INFO_INIT;
    Device *device = owner_of(ptr, &info);
    pleat_share_t *described = nullptr;
    check(pleat_share_block(device->allocator, number(ptr), &described));
    const Share share(described);
    std::string bytes = {kVersion, share->kind == PLEAT_SHARE_PLAIN ? kPlain : kChunks};
    if (share->kind == PLEAT_SHARE_PLAIN) {
        bytes.append(reinterpret_cast<const char *>(share->handle.bytes),
                     sizeof share->handle.bytes);
    } else {
        size_t length = 0;
        (void)!pleat_share_write(share.get(), nullptr, 0, &length);
        bytes.resize(2 + length);
        check(pleat_share_write(share.get(), &bytes[2], length, &length));
    }
    return {static_cast<ptrdiff_t>(share->offset), bytes};
}

/* ---- import ---- */

/* Memory of another process, open in this one. */
struct Opened {
    Device *device = nullptr;
    void *ptr = nullptr;
    bool is_plain = false;
    std::weak_ptr<void> users;
};
static std::mutex opened_mutex;
static std::unordered_map<std::string, Opened> opened; /* by handle */

static void open_plain(const char *bytes, Opened *to)
{
    cudaIpcMemHandle_t handle;
    std::memcpy(&handle, bytes, sizeof handle);
    C10_CUDA_CHECK(cudaIpcOpenMemHandle(&to->ptr, handle, cudaIpcMemLazyEnablePeerAccess));
    to->is_plain = true;
}

static void open_chunks(const std::string &handle, Opened *to)
{
    pleat_share_t *described = nullptr;
    check(pleat_share_read(handle.data() + 2, handle.size() - 2, &described));
    const Share share(described);
    pleat_devptr_t base = 0;
    check(pleat_share_open(to->device->allocator, share.get(), &base));
    to->ptr = reinterpret_cast<void *>(base);
}

static void open_handle(const std::string &handle, Opened *to)
{
    if (handle.size() == CUDA_IPC_HANDLE_SIZE) {
        open_plain(handle.data(), to);
        return;
    }
    TORCH_CHECK(handle.size() >= 2 && handle[0] == kVersion,
                "received a memory handle of another version than this one");
    TORCH_CHECK(handle[1] != kTorchPages,
                "received a handle of PyTorch's own expandable segments, which pleat_torch cannot "
                "open; the sending process needs pleat_torch too, or expandable_segments:False");
    if (handle[1] == kPlain && handle.size() == 2 + CUDA_IPC_HANDLE_SIZE) {
        open_plain(handle.data() + 2, to);
        return;
    }
    TORCH_CHECK(handle[1] == kChunks, "received a malformed memory handle");
    open_chunks(handle, to);
}

static void close_opened(const Opened &memory)
{
    const c10::cuda::CUDAGuard guard(memory.device->index);
    if (memory.is_plain) {
        C10_CUDA_CHECK_WARN(cudaIpcCloseMemHandle(memory.ptr));
        return;
    }
    C10_CUDA_CHECK_WARN(cudaDeviceSynchronize());
    if (pleat_share_close(memory.device->allocator, number(memory.ptr)) != PLEAT_OK) {
        TORCH_WARN("pleat_torch: memory of another process stays open: ", pleat_last_error());
    }
}

static void end_use(const std::string &handle)
{
    Opened memory;
    {
        const std::lock_guard<std::mutex> guard(opened_mutex);
        const auto found = opened.find(handle);
        if (found == opened.end() || !found->second.users.expired()) {
            return;
        }
        memory = std::move(found->second);
        opened.erase(found);
    }
    close_opened(memory);
}

std::shared_ptr<void> Backend::getIpcDevPtr(std::string handle)
{
    DeviceIndex index = 0;
    C10_CUDA_CHECK(c10::cuda::GetDevice(&index));
    const std::lock_guard<std::mutex> guard(opened_mutex);
    const auto found = opened.find(handle);
    if (found != opened.end()) {
        std::shared_ptr<void> users = found->second.users.lock();
        if (users == nullptr) { /* its last user is about to close it */
            users = std::shared_ptr<void>(found->second.ptr, [handle](void *) { end_use(handle); });
            found->second.users = users;
        }
        return users;
    }
    Opened memory;
    memory.device = &use(index);
    open_handle(handle, &memory);
    std::shared_ptr<void> users(memory.ptr, [handle](void *) { end_use(handle); });
    memory.users = users;
    opened.emplace(handle, std::move(memory));
    return users;
}

/* ---- other devices ---- */

void Backend::enablePeerAccess(DeviceIndex dev, DeviceIndex dev_to_access)
{
    {
        const c10::cuda::CUDAGuard guard(dev);
        const cudaError_t error = cudaDeviceEnablePeerAccess(dev_to_access, 0);
        if (error == cudaErrorPeerAccessAlreadyEnabled) {
            (void)cudaGetLastError();
        } else {
            C10_CUDA_CHECK(error);
        }
    }
    check(pleat_allocator_enable_peer(use(dev_to_access).allocator, dev));
}

/* May a copy between devices meet mapped memory there? Only the peer copy can read that. */
static bool may_be_mapped(const Device *device)
{
    return device != nullptr && device->was_mapped.load();
}

cudaError_t Backend::memcpyAsync(void *dst, int dst_device, const void *src, int src_device,
                                 size_t count, cudaStream_t stream, bool p2p_enabled)
{
    if (p2p_enabled || src_device == dst_device ||
        (!may_be_mapped(find(static_cast<DeviceIndex>(dst_device))) &&
         !may_be_mapped(find(static_cast<DeviceIndex>(src_device))))) {
        return cudaMemcpyAsync(dst, src, count, cudaMemcpyDeviceToDevice, stream);
    }
    return cudaMemcpyPeerAsync(dst, dst_device, src, src_device, count, stream);
}

} // namespace pleat_torch
