/*
 * config: between PyTorch's object, Pleat's own configuration and the options of allocators.
 */
#include "config.h"

#include <cinttypes>
#include <cstdio>
#include <cstdlib>

#include <c10/cuda/CUDAAllocatorConfig.h>

namespace pleat_torch {

using c10::CachingAllocator::AcceleratorAllocatorConfig;
using c10::cuda::CUDACachingAllocator::CUDAAllocatorConfig;

static constexpr uint64_t kMegabyte = UINT64_C(1) << 20;

SharedValues SharedValues::read()
{
    SharedValues values;
    values.large_segment_bytes = AcceleratorAllocatorConfig::large_segment_size();
    values.max_split_bytes = AcceleratorAllocatorConfig::max_split_size();
    values.max_non_split_rounding_bytes = AcceleratorAllocatorConfig::max_non_split_rounding_size();
    values.garbage_collection_threshold =
        AcceleratorAllocatorConfig::garbage_collection_threshold();
    values.is_expandable = AcceleratorAllocatorConfig::use_expandable_segments();
    values.releases_lock = CUDAAllocatorConfig::release_lock_on_cudamalloc();
    values.reuses_in_capture = CUDAAllocatorConfig::graph_capture_record_stream_reuse();
    const std::vector<size_t> &roundup = AcceleratorAllocatorConfig::roundup_power2_divisions();
    for (size_t i = 0; i < values.roundup.size(); i++) {
        values.roundup[i] = i < roundup.size() ? roundup[i] : 0;
    }
    return values;
}

bool SharedValues::operator==(const SharedValues &other) const
{
    return large_segment_bytes == other.large_segment_bytes &&
           max_split_bytes == other.max_split_bytes &&
           max_non_split_rounding_bytes == other.max_non_split_rounding_bytes &&
           garbage_collection_threshold == other.garbage_collection_threshold &&
           is_expandable == other.is_expandable && releases_lock == other.releases_lock &&
           reuses_in_capture == other.reuses_in_capture && roundup == other.roundup;
}

pleat_mode_t mode_of(const pleat_conf_t &conf)
{
    if (conf.settings[PLEAT_CONF_EXPANDABLE_SEGMENTS].number == 0) {
        return PLEAT_MODE_CLASSIC;
    }
    return conf.settings[PLEAT_CONF_EXPANDABLE_POLICY].number == PLEAT_CONF_POLICY_TORCH
               ? PLEAT_MODE_TORCH_EXPANDABLE
               : PLEAT_MODE_PLEATED;
}

/* ---- from PyTorch's object ---- */

static void take_number(pleat_conf_t *conf, pleat_conf_option_t option, uint64_t number,
                        pleat_conf_source_t source)
{
    if (conf->settings[option].number != number) {
        conf->settings[option].number = number;
        conf->settings[option].source = source;
    }
}

static void take_real(pleat_conf_t *conf, pleat_conf_option_t option, double real,
                      pleat_conf_source_t source)
{
    if (conf->settings[option].real != real) {
        conf->settings[option].real = real;
        conf->settings[option].source = source;
    }
}

void Config::take_shared(pleat_conf_t *conf, pleat_conf_source_t source)
{
    const SharedValues values = SharedValues::read();
    take_number(conf, PLEAT_CONF_LARGE_SEGMENT_SIZE, values.large_segment_bytes, source);
    take_number(conf, PLEAT_CONF_MAX_SPLIT_SIZE, values.max_split_bytes, source);
    take_number(conf, PLEAT_CONF_MAX_NON_SPLIT_ROUNDING, values.max_non_split_rounding_bytes,
                source);
    take_real(conf, PLEAT_CONF_GARBAGE_COLLECTION_THRESHOLD, values.garbage_collection_threshold,
              source);
    for (size_t i = 0; i < values.roundup.size(); i++) {
        if (conf->roundup_power2_divisions[i] != values.roundup[i]) {
            conf->roundup_power2_divisions[i] = values.roundup[i];
            conf->settings[PLEAT_CONF_ROUNDUP_POWER2_DIVISIONS].source = source;
        }
    }
    take_number(conf, PLEAT_CONF_EXPANDABLE_SEGMENTS, values.is_expandable, source);
    take_number(conf, PLEAT_CONF_PINNED_USE_BACKGROUND_THREADS,
                AcceleratorAllocatorConfig::pinned_use_background_threads(), source);
    take_number(conf, PLEAT_CONF_RELEASE_LOCK_ON_CUDAMALLOC,
                CUDAAllocatorConfig::release_lock_on_cudamalloc(), source);
    take_number(conf, PLEAT_CONF_GRAPH_CAPTURE_RECORD_STREAM_REUSE,
                CUDAAllocatorConfig::graph_capture_record_stream_reuse(), source);
    take_real(conf, PLEAT_CONF_PER_PROCESS_MEMORY_FRACTION,
              CUDAAllocatorConfig::per_process_memory_fraction(), source);
    take_number(conf, PLEAT_CONF_PINNED_USE_CUDA_HOST_REGISTER,
                CUDAAllocatorConfig::pinned_use_cuda_host_register(), source);
    take_number(conf, PLEAT_CONF_PINNED_NUM_REGISTER_THREADS,
                CUDAAllocatorConfig::pinned_num_register_threads(), source);
    take_number(conf, PLEAT_CONF_PINNED_RESERVE_SEGMENT_SIZE,
                CUDAAllocatorConfig::pinned_reserve_segment_size_mb(), source);
}

/* ---- to PyTorch's object ---- */

static void add(std::string *text, const char *key, const std::string &value)
{
    *text += (text->empty() ? "" : ",");
    *text += key;
    *text += ":" + value;
}

static void add_bool(std::string *text, const pleat_conf_t &conf, pleat_conf_option_t option,
                     const char *key)
{
    add(text, key, conf.settings[option].number != 0 ? "True" : "False");
}

static void add_real(std::string *text, const char *key, double real)
{
    char buffer[40];
    std::snprintf(buffer, sizeof buffer, "%.17g", real);
    add(text, key, buffer);
}

static std::string roundup_text(const pleat_conf_t &conf)
{
    std::string text = "[";
    for (size_t i = 0; i < PLEAT_ROUNDUP_ENTRIES; i++) {
        text += (i == 0 ? "" : ",") + std::to_string(UINT64_C(1) << i) + ":" +
                std::to_string(conf.roundup_power2_divisions[i]);
    }
    return text + "]";
}

static bool has_roundup(const pleat_conf_t &conf)
{
    for (uint64_t divisions : conf.roundup_power2_divisions) {
        if (divisions != 0) {
            return true;
        }
    }
    return false;
}

/* A text that makes PyTorch's object the same as `conf`, whatever it was. What it resets by itself
 * to the wanted value is left out. */
static std::string shared_text(const pleat_conf_t &conf)
{
    const pleat_conf_setting_t *settings = conf.settings;
    std::string text;
    add(&text, "large_segment_size_mb",
        std::to_string(settings[PLEAT_CONF_LARGE_SEGMENT_SIZE].number / kMegabyte));
    if (settings[PLEAT_CONF_MAX_SPLIT_SIZE].number != UINT64_MAX) {
        add(&text, "max_split_size_mb",
            std::to_string(settings[PLEAT_CONF_MAX_SPLIT_SIZE].number / kMegabyte));
    }
    add(&text, "max_non_split_rounding_mb",
        std::to_string(settings[PLEAT_CONF_MAX_NON_SPLIT_ROUNDING].number / kMegabyte));
    if (settings[PLEAT_CONF_GARBAGE_COLLECTION_THRESHOLD].real > 0.0) {
        add_real(&text, "garbage_collection_threshold",
                 settings[PLEAT_CONF_GARBAGE_COLLECTION_THRESHOLD].real);
    }
    if (has_roundup(conf)) {
        add(&text, "roundup_power2_divisions", roundup_text(conf));
    }
    add_bool(&text, conf, PLEAT_CONF_EXPANDABLE_SEGMENTS, "expandable_segments");
    add_bool(&text, conf, PLEAT_CONF_PINNED_USE_BACKGROUND_THREADS,
             "pinned_use_background_threads");
    add_bool(&text, conf, PLEAT_CONF_RELEASE_LOCK_ON_CUDAMALLOC, "release_lock_on_cudamalloc");
    add_bool(&text, conf, PLEAT_CONF_GRAPH_CAPTURE_RECORD_STREAM_REUSE,
             "graph_capture_record_stream_reuse");
    add_real(&text, "per_process_memory_fraction",
             settings[PLEAT_CONF_PER_PROCESS_MEMORY_FRACTION].real);
    add_bool(&text, conf, PLEAT_CONF_PINNED_USE_CUDA_HOST_REGISTER,
             "pinned_use_cuda_host_register");
    add(&text, "pinned_num_register_threads",
        std::to_string(settings[PLEAT_CONF_PINNED_NUM_REGISTER_THREADS].number));
    if (settings[PLEAT_CONF_PINNED_RESERVE_SEGMENT_SIZE].number != 0) {
        add(&text, "pinned_reserve_segment_size_mb",
            std::to_string(settings[PLEAT_CONF_PINNED_RESERVE_SEGMENT_SIZE].number));
    }
    return text;
}

void Config::write_shared(const pleat_conf_t &conf)
{
    c10::CachingAllocator::setAllocatorSettings(shared_text(conf));
}

void Config::remember()
{
    const SharedValues values = SharedValues::read();
    for (const auto &seen : all_seen_) {
        if (*seen == values) {
            seen_.store(seen.get(), std::memory_order_release);
            return;
        }
    }
    all_seen_.push_back(std::make_unique<const SharedValues>(values));
    seen_.store(all_seen_.back().get(), std::memory_order_release);
}

/* ---- start ---- */

static bool environment_has_own_text()
{
    return std::getenv("PLEAT_ALLOC_CONF") != nullptr;
}

/* Name of the variable that PyTorch reads. */
static pleat_conf_source_t torch_source()
{
    return std::getenv("PYTORCH_CUDA_ALLOC_CONF") != nullptr
               ? PLEAT_CONF_SOURCE_PYTORCH_CUDA_ALLOC_CONF
               : PLEAT_CONF_SOURCE_PYTORCH_ALLOC_CONF;
}

void Config::note_warnings(const pleat_conf_report_t &report)
{
    for (size_t i = 0; i < report.warning_count; i++) {
        warnings_.emplace_back(report.warnings[i]);
    }
}

static void check_report(pleat_status_t status, const pleat_conf_report_t &report,
                         const char *origin)
{
    if (status == PLEAT_OK) {
        return;
    }
    TORCH_CHECK_VALUE(status != PLEAT_ERR_INVALID, origin, report.message);
    TORCH_CHECK(false, origin, pleat_last_error());
}

void Config::read_start(pleat_conf_t *conf, const char *text)
{
    pleat_conf_report_t report = PLEAT_CONF_REPORT_INIT;
    if (text != nullptr) {
        check_report(pleat_conf_read_start(conf, PLEAT_CONF_STRICT, text, &report), report,
                     "conf: ");
    } else {
        check_report(pleat_conf_read_variables(conf, PLEAT_CONF_STRICT, pleat_conf_environment,
                                               nullptr, &report),
                     report, "");
    }
    note_warnings(report);
}

static void set_mode(pleat_conf_t *conf, const std::string &mode)
{
    conf->settings[PLEAT_CONF_EXPANDABLE_SEGMENTS].number = mode == "classic" ? 0 : 1;
    conf->settings[PLEAT_CONF_EXPANDABLE_POLICY].number =
        mode == "pleated" ? PLEAT_CONF_POLICY_PLEATED : PLEAT_CONF_POLICY_TORCH;
}

static void check_mode(const char *mode)
{
    const std::string name = mode != nullptr ? mode : "classic";
    TORCH_CHECK_VALUE(name == "classic" || name == "torch_expandable" || name == "pleated",
                      "mode is '", name, "'; modes are classic, torch_expandable and pleated");
}

void Config::start(const char *mode, const char *text)
{
    check_mode(mode);
    const std::lock_guard<std::mutex> guard(mutex);
    /* PyTorch's own reading of its variables, with its errors. */
    CUDAAllocatorConfig::instance();
    AcceleratorAllocatorConfig::instance();
    pleat_conf_t conf = PLEAT_CONF_INIT;
    const bool is_own = text != nullptr || environment_has_own_text();
    if (is_own) {
        read_start(&conf, text);
        TORCH_CHECK_VALUE(
            conf.settings[PLEAT_CONF_BACKEND].number == PLEAT_CONF_BACKEND_NATIVE,
            "backend:cudaMallocAsync cannot be combined with pleat_torch, which takes "
            "the place of the native backend; remove the option");
    } else {
        take_shared(&conf, torch_source());
    }
    if (mode != nullptr) {
        set_mode(&conf, mode);
    }
    if (is_own) {
        write_shared(conf);
    } else if (SharedValues::read().is_expandable !=
               (conf.settings[PLEAT_CONF_EXPANDABLE_SEGMENTS].number != 0)) {
        /* The user's own text once more, with the mode behind it. */
        std::string shared = c10::CachingAllocator::getAllocatorSettings();
        while (!shared.empty() && (shared.back() == ',' || std::isspace(shared.back()) != 0)) {
            shared.pop_back();
        }
        add_bool(&shared, conf, PLEAT_CONF_EXPANDABLE_SEGMENTS, "expandable_segments");
        c10::CachingAllocator::setAllocatorSettings(shared);
    }
    take_shared(&conf, PLEAT_CONF_SOURCE_START);
    conf_ = conf;
    remember();
}

/* ---- run time ---- */

void Config::set(const char *text)
{
    const std::lock_guard<std::mutex> guard(mutex);
    pleat_conf_t conf = conf_;
    take_shared(&conf, PLEAT_CONF_SOURCE_RUNTIME);
    pleat_conf_report_t report = PLEAT_CONF_REPORT_INIT;
    check_report(pleat_conf_read(&conf, PLEAT_CONF_STRICT, text, &report), report, "options: ");
    pleat_options_t options = PLEAT_OPTIONS_INIT;
    TORCH_CHECK_VALUE(pleat_conf_apply_runtime(&conf, &options) == PLEAT_OK, pleat_last_error());
    write_shared(conf);
    note_warnings(report);
    conf_ = conf;
    remember();
}

void Config::follow()
{
    take_shared(&conf_, PLEAT_CONF_SOURCE_RUNTIME);
    remember();
}

void Config::begin()
{
    const pleat_conf_t conf = read();
    const std::lock_guard<std::mutex> guard(mutex);
    fraction_at_begin_ = conf.settings[PLEAT_CONF_PER_PROCESS_MEMORY_FRACTION].real;
    max_split_at_begin_.store(
        static_cast<int64_t>(conf.settings[PLEAT_CONF_MAX_SPLIT_SIZE].number));
}

double Config::fraction_at_begin()
{
    const std::lock_guard<std::mutex> guard(mutex);
    return fraction_at_begin_;
}

void Config::apply(uint64_t device_total_bytes, pleat_options_t *options)
{
    pleat_conf_t conf = conf_;
    conf.settings[PLEAT_CONF_PER_PROCESS_MEMORY_FRACTION].real = fraction_at_begin_;
    TORCH_CHECK_VALUE(pleat_conf_apply(&conf, device_total_bytes, options) == PLEAT_OK,
                      pleat_last_error());
}

pleat_status_t Config::apply_runtime(pleat_options_t *options)
{
    return pleat_conf_apply_runtime(&conf_, options);
}

pleat_conf_t Config::read()
{
    const std::lock_guard<std::mutex> guard(mutex);
    if (seen_.load() != nullptr && is_stale()) {
        follow();
    }
    return conf_;
}

std::string Config::mode_name()
{
    return pleat_mode_name(mode_of(read()));
}

std::vector<std::string> Config::take_warnings()
{
    const std::lock_guard<std::mutex> guard(mutex);
    std::vector<std::string> warnings;
    warnings.swap(warnings_);
    return warnings;
}

} // namespace pleat_torch
