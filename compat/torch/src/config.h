/*
 * config: the configuration of the backend, one for all devices.
 *
 * PyTorch's own object (c10's AcceleratorAllocatorConfig with CUDAAllocatorConfig) holds every
 * option that PyTorch knows: run-time calls of PyTorch change it, and its pinned memory reads it. A
 * pleat_conf_t beside it holds the same values and the options that only Pleat has. follow()
 * carries changes from the first to the second, write_shared() from the second to the first.
 */
#pragma once

#include <pleat/conf.h>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <c10/core/AllocatorConfig.h>

namespace pleat_torch {

/* The options of PyTorch that an allocator has too, as they were at one moment. */
struct SharedValues {
    size_t large_segment_bytes;
    size_t max_split_bytes;
    size_t max_non_split_rounding_bytes;
    double garbage_collection_threshold;
    bool is_expandable;
    bool releases_lock;
    bool reuses_in_capture;
    std::array<size_t, PLEAT_ROUNDUP_ENTRIES> roundup;

    static SharedValues read();
    bool operator==(const SharedValues &other) const;
};

class Config {
  public:
    /* Read the configuration before CUDA starts; throws c10::ValueError, changes nothing then.
     * `mode`: name of a mode, or NULL: as the text says. `text`: NULL: from the environment. */
    void start(const char *mode, const char *text);

    /* Read a text strictly at run time. */
    void set(const char *text);

    /* Has PyTorch's object changed? A few loads. */
    bool is_stale() const
    {
        return !(SharedValues::read() == *seen_.load(std::memory_order_acquire));
    }

    /* Take over what PyTorch's object says. */
    void follow();

    /* CUDA starts: what PyTorch reads when it makes its allocators, and never again. */
    void begin();
    int64_t max_split_at_begin() const
    {
        return max_split_at_begin_.load(std::memory_order_relaxed);
    }

    double fraction_at_begin();

    /* Options of an allocator that is about to be made. */
    void apply(uint64_t device_total_bytes, pleat_options_t *options);

    /* The same of one that exists; its limit stays. As pleat_conf_apply_runtime. */
    pleat_status_t apply_runtime(pleat_options_t *options);

    pleat_conf_t read();
    std::string mode_name();
    std::vector<std::string> take_warnings();

    /* What changes options of allocators holds this, so that none is lost. */
    std::mutex mutex;

  private:
    void read_start(pleat_conf_t *conf, const char *text);
    void take_shared(pleat_conf_t *conf, pleat_conf_source_t source);
    void write_shared(const pleat_conf_t &conf);
    void remember();
    void note_warnings(const pleat_conf_report_t &report);

    pleat_conf_t conf_ = PLEAT_CONF_INIT;
    std::atomic<const SharedValues *> seen_{nullptr};
    std::vector<std::unique_ptr<const SharedValues>>
        all_seen_; /* each once; readers may look at any */
    std::vector<std::string> warnings_;
    std::atomic<int64_t> max_split_at_begin_{-1};
    double fraction_at_begin_ = 1.0;
};

/* The mode that a configuration means. */
pleat_mode_t mode_of(const pleat_conf_t &conf);

} // namespace pleat_torch
