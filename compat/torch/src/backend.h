/*
 * backend: PyTorch's interface of CUDA allocators (c10::cuda::CUDACachingAllocator::CUDAAllocator)
 * over allocators of Pleat, one a device, made when the device is first used.
 *
 * backend.cpp: life, memory, counters. pools.cpp: private pools, checkpoints. reports.cpp: history,
 * snapshots, observers. share.cpp: other processes and devices. There is one backend; it is never
 * destroyed, because tensors may outlive everything else.
 *
 * Locks, outer before inner: Config::mutex, Device::mutex, the lock of an allocator. What runs
 * under the lock of an allocator (trackers, filters of pools, sources of pools) takes none of the
 * others and not Python's.
 */
#pragma once

#include "config.h"

#include <pleat/cuda.h>
#include <pleat/history.h>
#include <pleat/oom_message.h>
#include <pleat/private_pool.h>
#include <pleat/share.h>

#include <map>
#include <optional>
#include <unordered_map>

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>

namespace pleat_torch {

using c10::DeviceIndex;
using c10::MempoolId_t;
using c10::CachingDeviceAllocator::AllocatorTraceTracker;
using c10::CachingDeviceAllocator::AnnotationEntry;
using c10::CachingDeviceAllocator::CreateContextFn;
using c10::CachingDeviceAllocator::DeviceStats;
using c10::CachingDeviceAllocator::RecordContext;
using c10::CachingDeviceAllocator::TraceEntry;
using c10::cuda::CUDACachingAllocator::AllocatorState;
using c10::cuda::CUDACachingAllocator::CheckpointDelta;
using c10::cuda::CUDACachingAllocator::CUDAAllocator;
using c10::cuda::CUDACachingAllocator::OutOfMemoryObserver;
using c10::cuda::CUDACachingAllocator::ShareableHandle;
using c10::cuda::CUDACachingAllocator::SnapshotInfo;
using c10::cuda::CUDACachingAllocator::StreamSegmentSize;

using PoolFilter = std::function<bool(cudaStream_t)>;

class Backend;

/* One GPU. Never destroyed. */
struct Device {
    Backend *backend;
    DeviceIndex index;
    uint64_t total_bytes;
    pleat_vmm_t *vmm;
    pleat_allocator_t *allocator;
    pleat_history_t *history;
    std::atomic<bool> was_mapped{false}; /* has, or had, memory that is mapped */
    std::mutex mutex;
    std::map<MempoolId_t, std::unique_ptr<PoolFilter>> filters; /* of open redirections */
    /* Streams of other devices that use a block, until its free. */
    std::unordered_map<void *, std::vector<c10::cuda::CUDAStream>> foreign_uses;
    std::atomic<size_t> foreign_count{0};
    std::mutex order_mutex;            /* inside the lock of the allocator */
    std::map<uint64_t, int32_t> order; /* by address of what was obtained: which came when */
    int32_t next_order = 0;
};

/* What recording is to do, for devices that are made later too. */
struct Recording {
    bool was_set = false;
    pleat_history_settings_t settings = PLEAT_HISTORY_SETTINGS_INIT;
};

constexpr int kMostDevices = 64;

class Backend final : public CUDAAllocator {
  public:
    static Backend &get();

    Config config;

    /* The device if it was used before, else NULL. */
    Device *find(DeviceIndex index) const;
    /* The device, made if need be. */
    Device &use(DeviceIndex index);
    /* Follow PyTorch's configuration if that has changed. */
    void follow()
    {
        if (C10_UNLIKELY(config.is_stale())) {
            follow_all();
        }
    }
    void set_options(const char *text);
    void free_block(void *ptr, bool may_throw);
    void trace(Device &device, const pleat_trace_entry_t &entry);
    bool is_recording() const
    {
        return is_recording_.load(std::memory_order_relaxed);
    }
    CreateContextFn context_maker() const
    {
        return make_context_.load(std::memory_order_relaxed);
    }

    /* c10::Allocator */
    c10::DataPtr allocate(size_t size) override;
    c10::DeleterFnPtr raw_deleter() const override;
    void copy_data(void *dest, const void *src, std::size_t count) const override;

    /* c10::DeviceAllocator */
    bool initialized() override;
    void emptyCache(MempoolId_t mempool_id) override;
    using CUDAAllocator::recordStream;
    DeviceStats getDeviceStats(DeviceIndex index) override;
    void resetAccumulatedStats(DeviceIndex index) override;
    void resetPeakStats(DeviceIndex index) override;

    /* CUDAAllocator: memory */
    void *raw_alloc(size_t size) override;
    void *raw_alloc_with_stream(size_t size, cudaStream_t stream) override;
    void raw_delete(void *ptr) override;
    void init(int device_count) override;
    double getMemoryFraction(DeviceIndex index) override;
    void setMemoryFraction(double fraction, DeviceIndex index) override;
    void enable(bool value) override;
    bool isEnabled() const override;
    void recordStream(const c10::DataPtr &ptr, c10::cuda::CUDAStream stream) override;
    std::string name() override;

    /* pools */
    void beginAllocateToPool(DeviceIndex index, MempoolId_t id, PoolFilter filter) override;
    void endAllocateToPool(DeviceIndex index, MempoolId_t id) override;
    void releasePool(DeviceIndex index, MempoolId_t id) override;
    int getPoolUseCount(DeviceIndex index, MempoolId_t id) override;
    void createOrIncrefPool(DeviceIndex index, MempoolId_t id,
                            std::shared_ptr<CUDAAllocator> source) override;
    void setUseOnOOM(DeviceIndex index, MempoolId_t id, bool use_on_oom) override;
    void setNoSplit(DeviceIndex index, MempoolId_t id) override;
    bool checkPoolLiveAllocations(DeviceIndex index, MempoolId_t id,
                                  const std::unordered_set<void *> &expected) override;
    std::shared_ptr<AllocatorState> getCheckpointState(DeviceIndex index, MempoolId_t id) override;
    CheckpointDelta setCheckpointPoolState(DeviceIndex index,
                                           std::shared_ptr<AllocatorState> state) override;

    /* reports */
    SnapshotInfo snapshot(MempoolId_t mempool_id, bool include_traces) override;
    void cacheInfo(DeviceIndex index, size_t *largest_block) override;
    std::vector<StreamSegmentSize> getExpandableSegmentSizes(DeviceIndex index) override;
    bool isHistoryEnabled() override;
    void recordHistory(bool enabled, CreateContextFn make_context, size_t max_entries,
                       RecordContext when, bool clear_history,
                       const std::vector<std::string> &skip_actions) override;
    void recordAnnotation(const std::vector<std::pair<std::string, std::string>> &md) override;
    void pushCompileContext(std::string &md) override;
    void popCompileContext() override;
    void setUserMetadata(const std::string &metadata) override;
    std::string getUserMetadata() override;
    void attachOutOfMemoryObserver(OutOfMemoryObserver observer) override;
    void attachAllocatorTraceTracker(AllocatorTraceTracker tracker) override;

    /* other processes and devices */
    void *getBaseAllocation(void *ptr, size_t *size) override;
    ShareableHandle shareIpcHandle(void *ptr) override;
    std::shared_ptr<void> getIpcDevPtr(std::string handle) override;
    void enablePeerAccess(DeviceIndex dev, DeviceIndex dev_to_access) override;
    cudaError_t memcpyAsync(void *dst, int dst_device, const void *src, int src_device,
                            size_t count, cudaStream_t stream, bool p2p_enabled) override;

  private:
    Backend() = default;
    Device *make(DeviceIndex index);
    void follow_all();
    void apply_to_all();
    void check_device(DeviceIndex index) const;
    void *take(DeviceIndex index, size_t size, cudaStream_t stream);
    [[noreturn]] void fail_alloc(Device &device, pleat_status_t status);
    pleat_status_t free_on(Device &device, void *ptr);
    Device *owner_of(void *ptr, pleat_pointer_info_t *info);
    void wait_foreign(Device &device, void *ptr);
    void configure_history(Device &device);

    std::mutex make_mutex_;
    std::atomic<int> device_count_{0};
    std::atomic<Device *> devices_[kMostDevices] = {};
    std::atomic<bool> is_enabled_{true};

    std::mutex report_mutex_; /* the rest, but trackers are read without it */
    Recording recording_;
    std::atomic<CreateContextFn> make_context_{nullptr};
    std::atomic<bool> is_recording_{false};
    std::atomic<bool> has_recorded_{false}; /* blocks may still have contexts */
    std::vector<OutOfMemoryObserver> oom_observers_;
    std::vector<AnnotationEntry> annotations_;
    size_t next_annotation_ = 0;
    size_t most_annotations_ = 1;
    std::atomic<const std::vector<AllocatorTraceTracker> *> trackers_{nullptr};
};

/* Throw what PyTorch would throw for a failed call that is no out of memory. */
[[noreturn]] void fail(pleat_status_t status);
inline void check(pleat_status_t status)
{
    if (C10_UNLIKELY(status != PLEAT_OK)) {
        fail(status);
    }
}

inline pleat_pool_id_t pool_id(MempoolId_t id)
{
    return pleat_pool_id_t{id.first, id.second};
}

inline pleat_stream_t stream_number(cudaStream_t stream)
{
    return reinterpret_cast<uintptr_t>(stream);
}

/* While a redirection is open some stream may be capturing a graph: what the driver is asked for in
 * this thread meanwhile is no part of it. */
class CaptureScope {
  public:
    explicit CaptureScope(const Device &device)
    {
        if (C10_UNLIKELY(pleat_pool_is_redirecting(device.allocator))) {
            guard_.emplace(cudaStreamCaptureModeRelaxed);
        }
    }

  private:
    std::optional<c10::cuda::CUDAStreamCaptureModeGuard> guard_;
};

/* What the actions of a call carry, made before the allocator's lock is taken: a context, of which
 * `make` may be NULL, and the texts of this thread. */
class NoteScope {
  public:
    NoteScope(Device &device, pleat_history_level_t least)
    {
        if (C10_UNLIKELY(device.backend->is_recording())) {
            open(device, least);
        }
    }
    NoteScope(const NoteScope &) = delete;
    NoteScope &operator=(const NoteScope &) = delete;
    ~NoteScope()
    {
        if (C10_UNLIKELY(history_ != nullptr)) {
            close();
        }
    }

  private:
    void open(Device &device, pleat_history_level_t least);
    void close();

    pleat_history_t *history_ = nullptr;
};

/*
 * A user's function that the library calls: an exception must not pass through C. It is kept for
 * the thread, and thrown once the library has returned.
 */
void keep_exception();
void throw_kept_exception();

/* The hooks by which a history keeps what notes name. */
pleat_history_hooks_t history_hooks();

void delete_block(void *ptr);

} // namespace pleat_torch
