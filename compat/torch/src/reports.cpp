/*
 * reports: recording of history, snapshots, trackers and observers.
 */
#include "backend.h"

#include <chrono>

namespace pleat_torch {

/* ---- tokens ---- */

/* What a history keeps for us: counted, ended with the last use. */
struct Token {
    std::atomic<uint32_t> uses{1};
    std::shared_ptr<c10::GatheredContext> context;
    std::string text;
};

static void retain_token(void *, void *token)
{
    static_cast<Token *>(token)->uses.fetch_add(1, std::memory_order_relaxed);
}

static void release_token(void *, void *pointer)
{
    Token *token = static_cast<Token *>(pointer);
    if (token != nullptr && token->uses.fetch_sub(1, std::memory_order_acq_rel) == 1) {
        delete token;
    }
}

pleat_history_hooks_t history_hooks()
{
    pleat_history_hooks_t hooks = PLEAT_HISTORY_HOOKS_INIT;
    hooks.retain = retain_token;
    hooks.release = release_token;
    return hooks;
}

/* What belongs to a thread; as in PyTorch it holds for all devices. */
struct ThreadTexts {
    Token *context = nullptr; /* of the call that is under way */
    Token *metadata = nullptr;
    std::vector<Token *> compile_contexts; /* the last is in force */

    ~ThreadTexts()
    {
        release_token(nullptr, metadata);
        for (Token *token : compile_contexts) {
            release_token(nullptr, token);
        }
    }
    Token *compile_context() const
    {
        return compile_contexts.empty() ? nullptr : compile_contexts.back();
    }
};
static thread_local ThreadTexts thread_texts;

static Token *make_text(const std::string &text)
{
    Token *token = new Token();
    token->text = text;
    return token;
}

void NoteScope::open(Device &device, pleat_history_level_t least)
{
    const CreateContextFn make = device.backend->context_maker();
    pleat_history_note_t note = PLEAT_HISTORY_NOTE_INIT;
    if (make != nullptr && pleat_history_level(device.history) >= least) {
        thread_texts.context = new Token();
        thread_texts.context->context = make();
    }
    note.context = thread_texts.context;
    note.compile_context = thread_texts.compile_context();
    note.user_metadata = thread_texts.metadata;
    history_ = device.history;
    pleat_history_set_note(history_, &note);
}

void NoteScope::close()
{
    pleat_history_set_note(history_, nullptr);
    release_token(nullptr, thread_texts.context);
    thread_texts.context = nullptr;
}

void Backend::pushCompileContext(std::string &md)
{
    if (is_recording()) {
        thread_texts.compile_contexts.push_back(make_text(md));
    }
}

void Backend::popCompileContext()
{
    if (is_recording() && !thread_texts.compile_contexts.empty()) {
        release_token(nullptr, thread_texts.compile_contexts.back());
        thread_texts.compile_contexts.pop_back();
    }
}

void Backend::setUserMetadata(const std::string &metadata)
{
    release_token(nullptr, thread_texts.metadata);
    thread_texts.metadata = metadata.empty() ? nullptr : make_text(metadata);
}

std::string Backend::getUserMetadata()
{
    return thread_texts.metadata != nullptr ? thread_texts.metadata->text : std::string();
}

/* ---- recording ---- */

static pleat_history_level_t level_of(RecordContext when)
{
    switch (when) {
    case RecordContext::STATE:
        return PLEAT_HISTORY_LEVEL_STATE;
    case RecordContext::ALLOC:
        return PLEAT_HISTORY_LEVEL_ALLOC;
    case RecordContext::ALL:
        return PLEAT_HISTORY_LEVEL_ALL;
    case RecordContext::NEVER:
        break;
    }
    return PLEAT_HISTORY_LEVEL_NONE;
}

/* Under report_mutex_. */
void Backend::configure_history(Device &device)
{
    if (recording_.was_set) {
        check(pleat_history_configure(device.history, &recording_.settings));
    }
}

void Backend::recordHistory(bool enabled, CreateContextFn make_context, size_t max_entries,
                            RecordContext when, bool clear_history,
                            const std::vector<std::string> &skip_actions)
{
    TORCH_CHECK(when == RecordContext::NEVER || make_context != nullptr,
                "recordHistory: contexts are wanted, but nothing that makes them is given");
    pleat_history_settings_t settings = PLEAT_HISTORY_SETTINGS_INIT;
    settings.is_recording = enabled;
    settings.is_cleared = clear_history;
    settings.level = level_of(when);
    settings.max_entries = max_entries;
    for (const std::string &name : skip_actions) {
        settings.skip_mask |= UINT32_C(1)
                              << c10::CachingDeviceAllocator::parseTraceEntryAction(name);
    }
    const std::lock_guard<std::mutex> guard(report_mutex_);
    recording_.was_set = true;
    recording_.settings = settings;
    has_recorded_.store(true);
    make_context_.store(make_context);
    is_recording_.store(enabled);
    most_annotations_ = std::max<size_t>(max_entries, 1);
    if (!enabled || clear_history) {
        annotations_.clear();
        next_annotation_ = 0;
    }
    for (int i = 0; i < device_count_.load(); i++) {
        Device *device = find(static_cast<DeviceIndex>(i));
        if (device != nullptr) {
            configure_history(*device);
        }
    }
}

bool Backend::isHistoryEnabled()
{
    return is_recording();
}

static int64_t now_us()
{
    return std::chrono::duration_cast<std::chrono::microseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
}

void Backend::recordAnnotation(const std::vector<std::pair<std::string, std::string>> &md)
{
    if (!is_recording()) {
        return;
    }
    DeviceIndex index = 0;
    C10_CUDA_CHECK(c10::cuda::GetDevice(&index));
    AnnotationEntry entry(index, 0);
    entry.time_.t_ = now_us();
    for (const auto &pair : md) {
        entry.recordUserMetadata(pair.first, pair.second);
    }
    const std::lock_guard<std::mutex> guard(report_mutex_);
    if (annotations_.size() < most_annotations_) {
        annotations_.push_back(std::move(entry));
    } else {
        annotations_[next_annotation_] = std::move(entry);
        next_annotation_ = (next_annotation_ + 1) % most_annotations_;
    }
}

/* ---- observers ---- */

void Backend::attachOutOfMemoryObserver(OutOfMemoryObserver observer)
{
    const std::lock_guard<std::mutex> guard(report_mutex_);
    oom_observers_.push_back(std::move(observer));
}

void Backend::attachAllocatorTraceTracker(AllocatorTraceTracker tracker)
{
    const std::lock_guard<std::mutex> guard(report_mutex_);
    const auto *old = trackers_.load();
    auto *trackers = old != nullptr ? new std::vector<AllocatorTraceTracker>(*old)
                                    : new std::vector<AllocatorTraceTracker>();
    trackers->push_back(std::move(tracker));
    trackers_.store(trackers); /* the old list stays: somebody may be walking it */
}

/* The actions have the same numbers. */
static_assert(static_cast<int>(PLEAT_ACTION_ALLOC) == TraceEntry::ALLOC &&
              static_cast<int>(PLEAT_ACTION_FREE_REQUESTED) == TraceEntry::FREE_REQUESTED &&
              static_cast<int>(PLEAT_ACTION_FREE_COMPLETED) == TraceEntry::FREE_COMPLETED &&
              static_cast<int>(PLEAT_ACTION_SEGMENT_ALLOC) == TraceEntry::SEGMENT_ALLOC &&
              static_cast<int>(PLEAT_ACTION_SEGMENT_FREE) == TraceEntry::SEGMENT_FREE &&
              static_cast<int>(PLEAT_ACTION_SEGMENT_MAP) == TraceEntry::SEGMENT_MAP &&
              static_cast<int>(PLEAT_ACTION_SEGMENT_UNMAP) == TraceEntry::SEGMENT_UNMAP &&
              static_cast<int>(PLEAT_ACTION_SNAPSHOT) == TraceEntry::SNAPSHOT &&
              static_cast<int>(PLEAT_ACTION_OOM) == TraceEntry::OOM);

/* NCCL registers segments in the order in which they came, which is the same on all ranks. */
static void note_order(Device &device, const pleat_trace_entry_t &entry)
{
    const std::lock_guard<std::mutex> guard(device.order_mutex);
    if (entry.action == PLEAT_ACTION_SEGMENT_ALLOC || entry.action == PLEAT_ACTION_SEGMENT_MAP) {
        device.order[entry.address] = device.next_order++;
    } else {
        device.order.erase(device.order.lower_bound(entry.address),
                           device.order.lower_bound(entry.address + entry.bytes));
    }
}

static int32_t order_of(Device &device, uint64_t address, uint64_t bytes)
{
    const std::lock_guard<std::mutex> guard(device.order_mutex);
    const auto found = device.order.lower_bound(address);
    return found != device.order.end() && found->first < address + bytes ? found->second : 0;
}

static bool is_of_segment(pleat_action_t action)
{
    return action == PLEAT_ACTION_SEGMENT_ALLOC || action == PLEAT_ACTION_SEGMENT_FREE ||
           action == PLEAT_ACTION_SEGMENT_MAP || action == PLEAT_ACTION_SEGMENT_UNMAP;
}

static void tell_trackers(const Device &device, const pleat_trace_entry_t &entry,
                          const std::vector<AllocatorTraceTracker> &trackers)
{
    const Token *context = thread_texts.context;
    const Token *compile_context = thread_texts.compile_context();
    const bool keeps_context = pleat_history_level(device.history) >= PLEAT_HISTORY_LEVEL_ALLOC;
    const TraceEntry told(static_cast<TraceEntry::Action>(entry.action), device.index,
                          entry.address, entry.bytes, reinterpret_cast<void *>(entry.stream),
                          MempoolId_t{0, 0}, c10::getApproximateTime(),
                          keeps_context && context != nullptr ? context->context : nullptr,
                          compile_context != nullptr ? compile_context->text : "N/A",
                          thread_texts.metadata != nullptr ? thread_texts.metadata->text : "");
    for (const AllocatorTraceTracker &tracker : trackers) {
        try {
            tracker(told);
        } catch (...) {
            keep_exception();
        }
    }
}

/* Under the allocator's lock. */
void Backend::trace(Device &device, const pleat_trace_entry_t &entry)
{
    if (is_of_segment(entry.action)) {
        note_order(device, entry);
    }
    const auto *trackers = trackers_.load(std::memory_order_acquire);
    if (trackers != nullptr) {
        tell_trackers(device, entry, *trackers);
    }
    if (has_recorded_.load(std::memory_order_relaxed)) {
        pleat_history_observe(device.history, &entry);
    }
}

/* ---- snapshots ---- */

static std::shared_ptr<c10::GatheredContext> context_of(void *token)
{
    return token != nullptr ? static_cast<Token *>(token)->context : nullptr;
}

static std::string text_of(void *token, const char *otherwise)
{
    return token != nullptr ? static_cast<Token *>(token)->text : otherwise;
}

static void add_entries(const Device &device, const pleat_history_copy_t *copy,
                        std::vector<TraceEntry> *entries)
{
    entries->reserve(copy->entry_count);
    for (uint64_t i = 0; i < copy->entry_count; i++) {
        const pleat_history_entry_t &from = copy->entries[i];
        entries->emplace_back(
            static_cast<TraceEntry::Action>(from.action), device.index, from.address, from.bytes,
            reinterpret_cast<void *>(from.stream), MempoolId_t{0, 0}, 0, context_of(from.context),
            text_of(from.compile_context, "N/A"), text_of(from.user_metadata, ""));
        entries->back().time_.t_ = from.time_us;
    }
}

static void add_blocks(const pleat_history_copy_t *copy, const pleat_segment_info_t &from,
                       c10::CachingDeviceAllocator::SegmentInfo *to)
{
    for (uint64_t i = from.first_block; i < from.first_block + from.block_count; i++) {
        const pleat_block_info_t &block = copy->snapshot->blocks[i];
        c10::CachingDeviceAllocator::BlockInfo &info = to->blocks.emplace_back();
        info.size = block.bytes;
        info.requested_size = block.requested_bytes;
        info.allocated = block.state == PLEAT_BLOCK_ALLOCATED;
        info.active = block.state != PLEAT_BLOCK_INACTIVE;
        info.context_when_allocated = context_of(copy->block_contexts[i]);
    }
}

static MempoolId_t pool_of(const pleat_segment_info_t &segment)
{
    return MempoolId_t{segment.pool.first, segment.pool.second};
}

static void add_segments(Device &device, MempoolId_t pool, const pleat_history_copy_t *copy,
                         SnapshotInfo *info)
{
    for (uint64_t i = 0; i < copy->snapshot->segment_count; i++) {
        const pleat_segment_info_t &from = copy->snapshot->segments[i];
        if (pool != MempoolId_t{0, 0} && pool_of(from) != pool) {
            continue;
        }
        c10::CachingDeviceAllocator::SegmentInfo &to = info->segments.emplace_back();
        to.device = device.index;
        to.registration_counter = order_of(device, from.address, from.total_bytes);
        to.address = from.address;
        to.total_size = from.total_bytes;
        to.requested_size = from.requested_bytes;
        to.allocated_size = from.allocated_bytes;
        to.active_size = from.active_bytes;
        to.stream = reinterpret_cast<void *>(from.stream);
        to.is_large = !from.is_small;
        to.is_expandable = from.is_expandable;
        to.owner_private_pool_id = pool_of(from);
        to.context_when_allocated = context_of(copy->segment_contexts[i]);
        add_blocks(copy, from, &to);
    }
}

static void add_settings(c10::cuda::CUDACachingAllocator::AllocatorConfigInfo *to)
{
    using c10::CachingAllocator::AcceleratorAllocatorConfig;
    using c10::cuda::CUDACachingAllocator::CUDAAllocatorConfig;
    to->garbage_collection_threshold = AcceleratorAllocatorConfig::garbage_collection_threshold();
    to->max_split_size = AcceleratorAllocatorConfig::max_split_size();
    to->pinned_num_register_threads = CUDAAllocatorConfig::pinned_num_register_threads();
    to->expandable_segments = AcceleratorAllocatorConfig::use_expandable_segments();
    to->release_lock_on_malloc = CUDAAllocatorConfig::release_lock_on_cudamalloc();
    to->pinned_use_host_register = CUDAAllocatorConfig::pinned_use_cuda_host_register();
    to->graph_capture_record_stream_reuse =
        CUDAAllocatorConfig::graph_capture_record_stream_reuse();
    to->last_allocator_settings = AcceleratorAllocatorConfig::last_allocator_settings();
    to->roundup_power2_divisions = AcceleratorAllocatorConfig::roundup_power2_divisions();
}

SnapshotInfo Backend::snapshot(MempoolId_t mempool_id, bool include_traces)
{
    follow();
    SnapshotInfo info;
    add_settings(&info.config_metadata);
    {
        const std::lock_guard<std::mutex> guard(report_mutex_);
        for (size_t i = 0; i < annotations_.size(); i++) {
            info.external_annotations.push_back(
                annotations_[(next_annotation_ + i) % annotations_.size()]);
        }
    }
    for (int i = 0; i < device_count_.load(); i++) {
        std::vector<TraceEntry> &entries = info.device_traces.emplace_back();
        Device *device = find(static_cast<DeviceIndex>(i));
        if (device == nullptr) {
            continue;
        }
        const NoteScope note(*device, PLEAT_HISTORY_LEVEL_ALL);
        pleat_history_copy_t *copy = nullptr;
        check(pleat_history_take(device->history, device->allocator, include_traces, &copy));
        add_entries(*device, copy, &entries);
        add_segments(*device, mempool_id, copy, &info);
        pleat_history_copy_destroy(device->history, copy);
    }
    return info;
}

void Backend::cacheInfo(DeviceIndex index, size_t *largest_block)
{
    check_device(index);
    if (*largest_block == 0) {
        *largest_block = getMemoryInfo(index).first; /* what the device has is a first guess */
    }
    Device *device = find(index);
    if (device == nullptr) {
        return;
    }
    pleat_snapshot_t *taken = nullptr;
    check(pleat_snapshot_take(device->allocator, &taken));
    for (uint64_t i = 0; i < taken->block_count; i++) {
        if (taken->blocks[i].state == PLEAT_BLOCK_INACTIVE) {
            *largest_block = std::max<size_t>(*largest_block, taken->blocks[i].bytes);
        }
    }
    pleat_snapshot_destroy(taken);
}

std::vector<StreamSegmentSize> Backend::getExpandableSegmentSizes(DeviceIndex index)
{
    check_device(index);
    std::vector<StreamSegmentSize> sizes;
    Device *device = find(index);
    if (device == nullptr) {
        return sizes;
    }
    std::map<std::pair<uint64_t, bool>, size_t> sums;
    pleat_snapshot_t *taken = nullptr;
    check(pleat_snapshot_take(device->allocator, &taken));
    for (uint64_t i = 0; i < taken->segment_count; i++) {
        const pleat_segment_info_t &segment = taken->segments[i];
        if (segment.is_expandable) {
            sums[{segment.stream, segment.is_small}] += segment.total_bytes;
        }
    }
    pleat_snapshot_destroy(taken);
    for (const auto &sum : sums) {
        sizes.emplace_back(reinterpret_cast<cudaStream_t>(sum.first.first), sum.first.second,
                           sum.second);
    }
    return sizes;
}

} // namespace pleat_torch
