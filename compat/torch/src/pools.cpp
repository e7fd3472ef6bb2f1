/*
 * pools: private pools (CUDA graphs, MemPool), their checkpoints.
 */
#include "backend.h"

namespace pleat_torch {

/* ---- redirection ---- */

static bool pass_filter(void *context, pleat_stream_t stream)
{
    try {
        return (*static_cast<PoolFilter *>(context))(reinterpret_cast<cudaStream_t>(stream));
    } catch (...) {
        keep_exception();
        return false;
    }
}

void Backend::beginAllocateToPool(DeviceIndex index, MempoolId_t id, PoolFilter filter)
{
    check_device(index);
    Device &device = use(index);
    auto owned = std::make_unique<PoolFilter>(std::move(filter));
    const std::lock_guard<std::mutex> guard(device.mutex);
    TORCH_CHECK(device.filters.count(id) == 0,
                "beginAllocateToPool: already recording to mempool_id");
    check(pleat_pool_begin(device.allocator, pool_id(id), pass_filter, owned.get()));
    device.filters.emplace(id, std::move(owned));
}

void Backend::endAllocateToPool(DeviceIndex index, MempoolId_t id)
{
    check_device(index);
    Device &device = use(index);
    const std::lock_guard<std::mutex> guard(device.mutex);
    TORCH_CHECK(device.filters.count(id) != 0,
                "endAllocatePool: not currently recording to mempool_id");
    check(pleat_pool_end(device.allocator, pool_id(id)));
    device.filters.erase(id);
}

/* ---- uses ---- */

void Backend::releasePool(DeviceIndex index, MempoolId_t id)
{
    check_device(index);
    check(pleat_pool_release(use(index).allocator, pool_id(id)));
}

int Backend::getPoolUseCount(DeviceIndex index, MempoolId_t id)
{
    check_device(index);
    return static_cast<int>(pleat_pool_use_count(use(index).allocator, pool_id(id)));
}

/* A user's own allocator, from which the segments of a pool come. */
struct PoolSource {
    std::shared_ptr<CUDAAllocator> allocator;
    DeviceIndex device;
};

static pleat_devptr_t source_alloc(void *context, uint64_t bytes, pleat_stream_t stream)
{
    (void)stream; /* PyTorch lets such an allocator see the current stream */
    try {
        const PoolSource *source = static_cast<const PoolSource *>(context);
        const c10::cuda::CUDAGuard guard(source->device);
        return reinterpret_cast<uintptr_t>(source->allocator->raw_alloc(bytes));
    } catch (...) {
        keep_exception();
        return 0;
    }
}

static void source_free(void *context, pleat_devptr_t ptr, uint64_t bytes, pleat_stream_t stream)
{
    (void)bytes;
    (void)stream;
    try {
        const PoolSource *source = static_cast<const PoolSource *>(context);
        source->allocator->raw_delete(reinterpret_cast<void *>(ptr));
    } catch (...) {
        keep_exception();
    }
}

static void source_done(void *context)
{
    delete static_cast<PoolSource *>(context);
}

void Backend::createOrIncrefPool(DeviceIndex index, MempoolId_t id,
                                 std::shared_ptr<CUDAAllocator> allocator)
{
    check_device(index);
    Device &device = use(index);
    if (allocator == nullptr) {
        check(pleat_pool_acquire(device.allocator, pool_id(id), nullptr));
        return;
    }
    auto owned = std::make_unique<PoolSource>(PoolSource{std::move(allocator), index});
    pleat_segment_source_t source = PLEAT_SEGMENT_SOURCE_INIT;
    source.context = owned.get();
    source.alloc = source_alloc;
    source.free = source_free;
    source.done = source_done;
    check(pleat_pool_acquire(device.allocator, pool_id(id), &source));
    owned.release(); /* source_done ends it */
}

void Backend::setUseOnOOM(DeviceIndex index, MempoolId_t id, bool use_on_oom)
{
    check_device(index);
    check(pleat_pool_set_overflow(use(index).allocator, pool_id(id), use_on_oom));
}

void Backend::setNoSplit(DeviceIndex index, MempoolId_t id)
{
    check_device(index);
    check(pleat_pool_set_no_split(use(index).allocator, pool_id(id)));
}

/* ---- live blocks ---- */

bool Backend::checkPoolLiveAllocations(DeviceIndex index, MempoolId_t id,
                                       const std::unordered_set<void *> &expected)
{
    check_device(index);
    const SnapshotInfo info = snapshot(id, /*include_traces=*/false);
    size_t live_count = 0;
    for (const auto &segment : info.segments) {
        if (segment.device != index) {
            continue;
        }
        size_t address = segment.address;
        for (const auto &block : segment.blocks) {
            if (block.allocated) {
                live_count++;
                if (expected.count(reinterpret_cast<void *>(address)) == 0) {
                    return false;
                }
            }
            address += block.size;
        }
    }
    return live_count == expected.size();
}

/* ---- checkpoints ---- */

struct Checkpoint final : AllocatorState {
    explicit Checkpoint(pleat_pool_checkpoint_t *checkpoint) : checkpoint_(checkpoint)
    {
    }
    ~Checkpoint() override
    {
        pleat_pool_checkpoint_destroy(checkpoint_);
    }
    pleat_pool_checkpoint_t *checkpoint_;
};

std::shared_ptr<AllocatorState> Backend::getCheckpointState(DeviceIndex index, MempoolId_t id)
{
    check_device(index);
    Device &device = use(index);
    const NoteScope note(device, PLEAT_HISTORY_LEVEL_ALL);
    const CaptureScope capture(device);
    pleat_pool_checkpoint_t *checkpoint = nullptr;
    check(pleat_pool_checkpoint_take(device.allocator, pool_id(id), &checkpoint));
    return std::make_shared<Checkpoint>(checkpoint);
}

CheckpointDelta Backend::setCheckpointPoolState(DeviceIndex index,
                                                std::shared_ptr<AllocatorState> state)
{
    check_device(index);
    const auto checkpoint = std::dynamic_pointer_cast<Checkpoint>(state);
    TORCH_CHECK(checkpoint != nullptr,
                "the state to go back to was not made by pleat_torch's getCheckpointState");
    Device &device = use(index);
    pleat_pool_delta_t delta = PLEAT_POOL_DELTA_INIT;
    {
        const NoteScope note(device, PLEAT_HISTORY_LEVEL_ALL);
        const CaptureScope capture(device);
        check(pleat_pool_checkpoint_restore(device.allocator, checkpoint->checkpoint_, &delta));
    }
    CheckpointDelta result;
    for (uint64_t i = 0; i < delta.freed_count; i++) {
        result.ptrs_freed.push_back(reinterpret_cast<void *>(delta.freed[i]));
    }
    for (uint64_t i = 0; i < delta.allocated_count; i++) {
        void *ptr = reinterpret_cast<void *>(delta.allocated[i]);
        result.dataptrs_allocd.emplace_back(ptr, ptr, &delete_block,
                                            c10::Device(c10::DeviceType::CUDA, index));
    }
    pleat_pool_delta_fini(&delta);
    return result;
}

} // namespace pleat_torch
