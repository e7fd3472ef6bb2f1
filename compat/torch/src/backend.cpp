/*
 * backend: life of the devices, memory, counters.
 */
#include "backend.h"

extern "C" {
#include "process_text.h"
}

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/GPUTrace.h>
#include <c10/util/env.h>

namespace pleat_torch {

Backend &Backend::get()
{
    static Backend *const backend = new Backend();
    return *backend;
}

std::string Backend::name()
{
    return "native"; /* programs ask for this name before they use what only that backend has */
}

/* ---- errors ---- */

static thread_local std::exception_ptr kept_exception;

void keep_exception()
{
    if (kept_exception == nullptr) {
        kept_exception = std::current_exception();
    }
}

void throw_kept_exception()
{
    if (kept_exception != nullptr) {
        std::exception_ptr exception;
        exception.swap(kept_exception);
        std::rethrow_exception(exception);
    }
}

void fail(pleat_status_t status)
{
    const std::string text = pleat_last_error();
    throw_kept_exception();
    if (status == PLEAT_ERR_DRIVER) {
        const int code = pleat_last_native_error();
        const char *meaning = cudaGetErrorString(static_cast<cudaError_t>(code));
        throw c10::AcceleratorError({__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, code,
                                    "CUDA error: " + std::string(meaning) + " (" + text + ")");
    }
    TORCH_CHECK(false, text);
}

[[noreturn]] static void fail_pointer(const void *ptr)
{
    TORCH_CHECK(false, "invalid device pointer: ", ptr);
}

/* ---- devices ---- */

void Backend::init(int device_count)
{
    TORCH_CHECK(device_count <= kMostDevices, "pleat_torch serves at most ", kMostDevices,
                " devices, this machine has ", device_count);
    const std::lock_guard<std::mutex> guard(make_mutex_);
    if (device_count_.load() == 0) {
        config.begin();
    }
    if (device_count > device_count_.load()) {
        device_count_.store(device_count);
    }
}

bool Backend::initialized()
{
    return device_count_.load() > 0;
}

void Backend::check_device(DeviceIndex index) const
{
    TORCH_CHECK(0 <= index && index < device_count_.load(), "Invalid device argument ",
                static_cast<int>(index), ": did you call init?");
}

Device *Backend::find(DeviceIndex index) const
{
    return devices_[index].load(std::memory_order_acquire);
}

Device &Backend::use(DeviceIndex index)
{
    TORCH_CHECK(0 <= index && index < device_count_.load(std::memory_order_relaxed),
                "Allocator not initialized for device ", static_cast<int>(index),
                ": did you call init?");
    Device *device = find(index);
    return C10_LIKELY(device != nullptr) ? *device : *make(index);
}

/* PyTorch's switch for memory that other processes may open; unset means on. */
static bool wants_handles()
{
    return c10::utils::check_env("TORCH_CUDA_EXPANDABLE_SEGMENTS_IPC") != false;
}

static pleat_vmm_t *open_gpu(DeviceIndex index)
{
    pleat_cuda_options_t options = PLEAT_CUDA_OPTIONS_INIT;
    options.handle_types = wants_handles() ? PLEAT_CUDA_HANDLE_FILE : 0;
    pleat_vmm_t *vmm = nullptr;
    pleat_status_t status = pleat_cuda_create(index, &options, &vmm);
    if (status == PLEAT_ERR_UNSUPPORTED && options.handle_types != 0) {
        options.handle_types = 0;
        status = pleat_cuda_create(index, &options, &vmm);
    }
    check(status);
    return vmm;
}

static uint64_t total_bytes_of(DeviceIndex index)
{
    cudaDeviceProp properties;
    C10_CUDA_CHECK(cudaGetDeviceProperties(&properties, index));
    return properties.totalGlobalMem;
}

static void observe(void *context, const pleat_trace_entry_t *entry)
{
    Device *device = static_cast<Device *>(context);
    device->backend->trace(*device, *entry);
}

/* The callbacks that programs registered: memory of other processes that can go now, say. */
static bool free_memory(void *)
{
    bool has_freed = false;
    try {
        for (const std::string &key : c10::FreeCudaMemoryCallbacksRegistry()->Keys()) {
            has_freed |= c10::FreeCudaMemoryCallbacksRegistry()->Create(key)->Execute();
        }
    } catch (...) {
        keep_exception();
    }
    return has_freed;
}

Device *Backend::make(DeviceIndex index)
{
    const std::lock_guard<std::mutex> guard(make_mutex_);
    Device *existing = find(index);
    if (existing != nullptr) {
        return existing;
    }
    const c10::cuda::CUDAGuard device_guard(index);
    c10::cuda::CUDAStreamCaptureModeGuard capture_guard(cudaStreamCaptureModeRelaxed);
    auto device = std::make_unique<Device>();
    device->backend = this;
    device->index = index;
    device->total_bytes = total_bytes_of(index);
    const pleat_history_hooks_t hooks = history_hooks();
    check(pleat_history_create(&hooks, &device->history));
    device->vmm = open_gpu(index);
    const std::lock_guard<std::mutex> config_guard(config.mutex);
    pleat_options_t options = PLEAT_OPTIONS_INIT;
    config.apply(device->total_bytes, &options);
    check(pleat_allocator_create(&options, device->vmm, &device->allocator));
    device->was_mapped = options.mode != PLEAT_MODE_CLASSIC;
    pleat_set_observer(device->allocator, observe, device.get());
    pleat_set_free_memory_callback(device->allocator, free_memory, nullptr);
    {
        const std::lock_guard<std::mutex> report_guard(report_mutex_);
        configure_history(*device);
        devices_[index].store(device.get(), std::memory_order_release);
    }
    return device.release();
}

/* ---- options ---- */

/* Under the configuration's lock. */
void Backend::apply_to_all()
{
    for (int i = 0; i < device_count_.load(); i++) {
        Device *device = find(static_cast<DeviceIndex>(i));
        if (device == nullptr) {
            continue;
        }
        pleat_options_t options = PLEAT_OPTIONS_INIT;
        pleat_read_options(device->allocator, &options);
        pleat_status_t status = config.apply_runtime(&options);
        if (status == PLEAT_OK) {
            status = pleat_set_options(device->allocator, &options);
        }
        if (status != PLEAT_OK) {
            TORCH_WARN("pleat_torch: device ", i, " keeps its options: ", pleat_last_error());
        } else if (options.mode != PLEAT_MODE_CLASSIC) {
            device->was_mapped.store(true);
        }
    }
}

void Backend::follow_all()
{
    const std::lock_guard<std::mutex> guard(config.mutex);
    if (config.is_stale()) {
        config.follow();
        apply_to_all();
    }
}

void Backend::set_options(const char *text)
{
    config.set(text);
    const std::lock_guard<std::mutex> guard(config.mutex);
    apply_to_all();
}

double Backend::getMemoryFraction(DeviceIndex index)
{
    TORCH_CHECK(0 <= index && index < device_count_.load(), "Allocator not initialized for device ",
                static_cast<int>(index), ": did you call init?");
    const Device *device = find(index);
    if (device == nullptr) {
        return config.fraction_at_begin();
    }
    pleat_options_t options = PLEAT_OPTIONS_INIT;
    pleat_read_options(device->allocator, &options);
    return options.limit_bytes == PLEAT_NO_LIMIT ? 1.0
                                                 : static_cast<double>(options.limit_bytes) /
                                                       static_cast<double>(device->total_bytes);
}

void Backend::setMemoryFraction(double fraction, DeviceIndex index)
{
    TORCH_CHECK(0.0 <= fraction && fraction <= 1.0, "invalid fraction:", fraction,
                ". Please set within [0, 1].");
    Device &device = use(index);
    const std::lock_guard<std::mutex> guard(config.mutex);
    pleat_options_t options = PLEAT_OPTIONS_INIT;
    pleat_read_options(device.allocator, &options);
    options.limit_bytes =
        fraction < 1.0 ? static_cast<uint64_t>(fraction * static_cast<double>(device.total_bytes))
                       : PLEAT_NO_LIMIT;
    check(pleat_set_options(device.allocator, &options));
}

/* ---- without a cache ---- */

static bool is_uncached()
{
    static const bool is_forced = c10::utils::check_env("PYTORCH_NO_CUDA_MEMORY_CACHING") == true ||
                                  c10::utils::check_env("PYTORCH_NO_HIP_MEMORY_CACHING") == true;
    return is_forced;
}

static void tell_allocation(const void *ptr)
{
    const c10::impl::PyInterpreter *tracer = c10::impl::GPUTrace::get_trace();
    if (C10_UNLIKELY(tracer != nullptr)) {
        (*tracer)->trace_gpu_memory_allocation(c10::kCUDA, reinterpret_cast<uintptr_t>(ptr));
    }
}

static void tell_deallocation(const void *ptr)
{
    const c10::impl::PyInterpreter *tracer = c10::impl::GPUTrace::get_trace();
    if (C10_UNLIKELY(tracer != nullptr)) {
        (*tracer)->trace_gpu_memory_deallocation(c10::kCUDA, reinterpret_cast<uintptr_t>(ptr));
    }
}

static void *take_uncached(size_t size)
{
    void *ptr = nullptr;
    C10_CUDA_CHECK(cudaMalloc(&ptr, size));
    tell_allocation(ptr);
    return ptr;
}

static void delete_uncached(void *ptr)
{
    tell_deallocation(ptr);
    C10_CUDA_CHECK(cudaFree(ptr));
}

void Backend::enable(bool value)
{
    is_enabled_.store(value);
}

bool Backend::isEnabled() const
{
    return is_enabled_.load(std::memory_order_relaxed);
}

/* ---- allocation ---- */

static void report_to_profiler(Device &device, void *ptr, int64_t bytes)
{
    pleat_stats_t stats = PLEAT_STATS_INIT;
    pleat_read_stats(device.allocator, &stats);
    c10::reportMemoryUsageToProfiler(
        ptr, bytes, static_cast<size_t>(stats.allocated_bytes[PLEAT_STAT_ALL].current),
        static_cast<size_t>(stats.reserved_bytes[PLEAT_STAT_ALL].current),
        c10::Device(c10::DeviceType::CUDA, device.index));
}

static int64_t block_bytes_of(Device &device, void *ptr)
{
    pleat_pointer_info_t info = PLEAT_POINTER_INFO_INIT;
    const pleat_status_t status =
        pleat_find_pointer(device.allocator, reinterpret_cast<uintptr_t>(ptr), &info);
    return status == PLEAT_OK ? static_cast<int64_t>(info.block_bytes) : 0;
}

static std::string oom_text(const pleat_oom_info_t &info, int device)
{
    char bus[32] = "";
    char processes[4096];
    (void)cudaDeviceGetPCIBusId(bus, sizeof bus, device);
    pleat_process_text(bus, processes, sizeof processes);
    const size_t length = pleat_oom_message(&info, device, processes, nullptr, 0);
    std::string text(length + 1, '\0');
    pleat_oom_message(&info, device, processes, &text[0], text.size());
    text.pop_back();
    return text;
}

void Backend::fail_alloc(Device &device, pleat_status_t status)
{
    if (status == PLEAT_ERR_TOO_LARGE) {
        TORCH_CHECK_WITH(OutOfMemoryError, false,
                         "CUDA out of memory. Tried to allocate more than 1EB memory.");
    }
    if (status != PLEAT_ERR_OOM_DEVICE) {
        fail(status);
    }
    pleat_oom_info_t info = PLEAT_OOM_INFO_INIT;
    pleat_read_last_oom(device.allocator, &info);
    c10::reportOutOfMemoryToProfiler(static_cast<int64_t>(info.requested_bytes),
                                     info.allocated_bytes, info.reserved_bytes,
                                     c10::Device(c10::DeviceType::CUDA, device.index));
    std::vector<OutOfMemoryObserver> observers;
    {
        const std::lock_guard<std::mutex> guard(report_mutex_);
        observers = oom_observers_;
    }
    const uint64_t most_bytes =
        info.limit_bytes == PLEAT_NO_LIMIT ? info.device_total_bytes : info.limit_bytes;
    for (const OutOfMemoryObserver &observer : observers) {
        observer(device.index, info.attempted_bytes, most_bytes, info.device_free_bytes);
    }
    TORCH_CHECK_WITH(OutOfMemoryError, false, oom_text(info, device.index));
}

void *Backend::take(DeviceIndex index, size_t size, cudaStream_t stream)
{
    Device &device = use(index);
    follow();
    pleat_devptr_t address = 0;
    pleat_status_t status;
    {
        const NoteScope note(device, PLEAT_HISTORY_LEVEL_STATE);
        const CaptureScope capture(device);
        status = pleat_alloc(device.allocator, size, stream_number(stream), &address);
    }
    if (C10_UNLIKELY(status != PLEAT_OK)) {
        throw_kept_exception();
        fail_alloc(device, status);
    }
    void *ptr = reinterpret_cast<void *>(address);
    tell_allocation(ptr);
    if (C10_UNLIKELY(c10::memoryProfilingEnabled())) {
        report_to_profiler(device, ptr, block_bytes_of(device, ptr));
    }
    return ptr;
}

static DeviceIndex current_device()
{
    DeviceIndex index = 0;
    C10_CUDA_CHECK(c10::cuda::GetDevice(&index));
    return index;
}

c10::DataPtr Backend::allocate(size_t size)
{
    TORCH_CHECK_WITH(OutOfMemoryError, size < (UINT64_C(1) << 60),
                     "CUDA out of memory. Tried to allocate more than 1EB memory.");
    const DeviceIndex index = current_device();
    const c10::Device place(c10::DeviceType::CUDA, index);
    if (C10_UNLIKELY(is_uncached() || !isEnabled())) {
        void *ptr = take_uncached(size);
        return {ptr, ptr, &delete_uncached, place};
    }
    void *ptr = nullptr;
    if (size != 0) {
        ptr = take(index, size, c10::cuda::getCurrentCUDAStream(index).stream());
    }
    return {ptr, ptr, &delete_block, place};
}

void *Backend::raw_alloc(size_t size)
{
    if (size == 0) {
        return nullptr;
    }
    if (is_uncached() || !isEnabled()) {
        return take_uncached(size);
    }
    const DeviceIndex index = current_device();
    return take(index, size, c10::cuda::getCurrentCUDAStream(index).stream());
}

void *Backend::raw_alloc_with_stream(size_t size, cudaStream_t stream)
{
    if (size == 0) {
        return nullptr;
    }
    return is_uncached() || !isEnabled() ? take_uncached(size)
                                         : take(current_device(), size, stream);
}

/* ---- free ---- */

c10::DeleterFnPtr Backend::raw_deleter() const
{
    return is_uncached() || !isEnabled() ? &delete_uncached : &delete_block;
}

/*
 * The work that streams of other devices were given is waited for in a stream of the block's own
 * device, which the block is noted for instead.
 */
void Backend::wait_foreign(Device &device, void *ptr)
{
    std::vector<c10::cuda::CUDAStream> streams;
    {
        const std::lock_guard<std::mutex> guard(device.mutex);
        const auto found = device.foreign_uses.find(ptr);
        if (found == device.foreign_uses.end()) {
            return;
        }
        streams = std::move(found->second);
        device.foreign_uses.erase(found);
        device.foreign_count.fetch_sub(1);
    }
    const c10::cuda::CUDAStream waiter =
        c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device.index);
    for (const c10::cuda::CUDAStream &stream : streams) {
        const c10::cuda::CUDAGuard guard(stream.device_index());
        cudaEvent_t event = nullptr;
        C10_CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
        C10_CUDA_CHECK(cudaEventRecord(event, stream.stream()));
        C10_CUDA_CHECK(cudaStreamWaitEvent(waiter.stream(), event, 0));
        C10_CUDA_CHECK(cudaEventDestroy(event));
    }
    check(pleat_record_stream(device.allocator, reinterpret_cast<uintptr_t>(ptr),
                              stream_number(waiter.stream())));
}

pleat_status_t Backend::free_on(Device &device, void *ptr)
{
    if (C10_UNLIKELY(device.foreign_count.load(std::memory_order_relaxed) != 0)) {
        wait_foreign(device, ptr);
    }
    const bool is_profiling = c10::memoryProfilingEnabled();
    const int64_t bytes = C10_UNLIKELY(is_profiling) ? block_bytes_of(device, ptr) : 0;
    const NoteScope note(device, PLEAT_HISTORY_LEVEL_ALL);
    const CaptureScope capture(device);
    const pleat_status_t status = pleat_free(device.allocator, reinterpret_cast<uintptr_t>(ptr));
    if (C10_UNLIKELY(is_profiling && status == PLEAT_OK)) {
        report_to_profiler(device, ptr, -bytes);
    }
    return status;
}

/* A pointer does not say its device: the current one is asked first. */
void Backend::free_block(void *ptr, bool may_throw)
{
    if (ptr == nullptr) {
        return;
    }
    follow();
    tell_deallocation(ptr);
    const int count = device_count_.load(std::memory_order_relaxed);
    DeviceIndex first = 0;
    if (count > 1) {
        (void)c10::cuda::GetDevice(&first);
    }
    for (int i = 0; i < count; i++) {
        Device *device = find(static_cast<DeviceIndex>((first + i) % count));
        const pleat_status_t status =
            device != nullptr ? free_on(*device, ptr) : PLEAT_ERR_INVALID_POINTER;
        if (C10_LIKELY(status == PLEAT_OK)) {
            return;
        }
        if (status != PLEAT_ERR_INVALID_POINTER) {
            if (may_throw) {
                fail(status);
            }
            TORCH_WARN("pleat_torch: a tensor could not be freed and keeps its memory: ",
                       pleat_last_error());
            return;
        }
    }
    if (is_uncached() || !isEnabled()) {
        C10_CUDA_CHECK(cudaFree(ptr));
        return;
    }
    fail_pointer(ptr);
}

void delete_block(void *ptr)
{
    Backend::get().free_block(ptr, /*may_throw=*/false);
}

void Backend::raw_delete(void *ptr)
{
    if (is_uncached()) {
        delete_uncached(ptr);
        return;
    }
    free_block(ptr, /*may_throw=*/true);
}

void Backend::copy_data(void *dest, const void *src, std::size_t count) const
{
    C10_CUDA_CHECK(cudaMemcpy(dest, src, count, cudaMemcpyDeviceToDevice));
}

Device *Backend::owner_of(void *ptr, pleat_pointer_info_t *info)
{
    for (int i = 0; i < device_count_.load(); i++) {
        Device *device = find(static_cast<DeviceIndex>(i));
        if (device != nullptr &&
            pleat_find_pointer(device->allocator, reinterpret_cast<uintptr_t>(ptr), info) ==
                PLEAT_OK) {
            return device;
        }
    }
    fail_pointer(ptr);
}

void Backend::recordStream(const c10::DataPtr &ptr, c10::cuda::CUDAStream stream)
{
    /* Memory of another process, or of a user's own deleter, is not ours to keep. */
    if (ptr.get() == nullptr || ptr.get_deleter() != &delete_block) {
        return;
    }
    Device *device = find(ptr.device().index());
    TORCH_INTERNAL_ASSERT(device != nullptr, "No allocated block can be found");
    if (C10_UNLIKELY(stream.device_index() != device->index)) {
        const std::lock_guard<std::mutex> guard(device->mutex);
        std::vector<c10::cuda::CUDAStream> &uses = device->foreign_uses[ptr.get()];
        device->foreign_count.fetch_add(uses.empty() ? 1 : 0);
        uses.push_back(stream);
        return;
    }
    const CaptureScope capture(*device);
    check(pleat_record_stream(device->allocator, reinterpret_cast<uintptr_t>(ptr.get()),
                              stream_number(stream.stream())));
}

void Backend::emptyCache(MempoolId_t mempool_id)
{
    follow();
    for (int i = 0; i < device_count_.load(); i++) {
        Device *device = find(static_cast<DeviceIndex>(i));
        if (device == nullptr) {
            continue;
        }
        const NoteScope note(*device, PLEAT_HISTORY_LEVEL_ALL);
        const CaptureScope capture(*device);
        check(mempool_id == MempoolId_t{0, 0}
                  ? pleat_empty_cache(device->allocator)
                  : pleat_pool_empty(device->allocator, pool_id(mempool_id)));
    }
}

/* ---- counters ---- */

static c10::CachingAllocator::Stat to_stat(const pleat_stat_t &from)
{
    c10::CachingAllocator::Stat stat;
    stat.current = from.current;
    stat.peak = from.peak;
    stat.allocated = from.allocated;
    stat.freed = from.freed;
    return stat;
}

static c10::CachingAllocator::StatArray to_array(const pleat_stat_t *from)
{
    using c10::CachingAllocator::StatType;
    c10::CachingAllocator::StatArray array;
    array[static_cast<size_t>(StatType::AGGREGATE)] = to_stat(from[PLEAT_STAT_ALL]);
    array[static_cast<size_t>(StatType::SMALL_POOL)] = to_stat(from[PLEAT_STAT_SMALL_POOL]);
    array[static_cast<size_t>(StatType::LARGE_POOL)] = to_stat(from[PLEAT_STAT_LARGE_POOL]);
    return array;
}

DeviceStats Backend::getDeviceStats(DeviceIndex index)
{
    check_device(index);
    DeviceStats to;
    to.max_split_size = config.max_split_at_begin();
    Device *device = find(index);
    if (device == nullptr) {
        return to;
    }
    pleat_stats_t from = PLEAT_STATS_INIT;
    pleat_read_stats(device->allocator, &from);
#define TAKE_ARRAY(name, text) to.name = to_array(from.name);
    PLEAT_ARRAY_STAT_LIST(TAKE_ARRAY)
#undef TAKE_ARRAY
#define TAKE_PLAIN(name, text) to.name = to_stat(from.name);
    PLEAT_PLAIN_STAT_LIST(TAKE_PLAIN)
#undef TAKE_PLAIN
    to.num_alloc_retries = from.num_alloc_retries;
    to.num_ooms = from.num_ooms;
    to.num_sync_all_streams = from.num_sync_all_streams;
    to.num_device_alloc = from.num_device_alloc;
    to.num_device_free = from.num_device_free;
    return to;
}

void Backend::resetAccumulatedStats(DeviceIndex index)
{
    check_device(index);
    Device *device = find(index);
    if (device != nullptr) {
        pleat_reset_accumulated_stats(device->allocator);
    }
}

void Backend::resetPeakStats(DeviceIndex index)
{
    check_device(index);
    Device *device = find(index);
    if (device != nullptr) {
        pleat_reset_peak_stats(device->allocator);
    }
}

} // namespace pleat_torch
