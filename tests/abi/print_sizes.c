/*
 * print_sizes: the layout of every public struct and the values of every public enum, one a line,
 * for comparison with sizes.txt. A struct with a size field may get new fields at its end; nothing
 * else here may change.
 */
#include <pleat/allocator.h>
#include <pleat/conf.h>
#include <pleat/cuda.h>
#include <pleat/device_table.h>
#include <pleat/history.h>
#include <pleat/private_pool.h>
#include <pleat/share.h>
#include <pleat/sim.h>
#include <pleat/torch_snapshot_write.h>
#include <pleat/vmm.h>
#include <stddef.h>
#include <stdio.h>

#define STRUCT(type) printf("%s: %zu bytes\n", #type, sizeof(type))
#define FIELD(type, field) printf("%s.%s: at %zu\n", #type, #field, offsetof(type, field))
#define VALUE(constant) printf("%s: %d\n", #constant, (int)(constant))

static void print_base(void)
{
#define PRINT_STATUS(name, value, text) VALUE(PLEAT_##name);
    PLEAT_STATUS_LIST(PRINT_STATUS)
}

static void print_vmm(void)
{
#define PRINT_CALL(name, text, is_memory) VALUE(PLEAT_VMM_CALL_##name);
    PLEAT_VMM_CALL_LIST(PRINT_CALL)
    STRUCT(pleat_vmm_ops_t);
    FIELD(pleat_vmm_ops_t, size);
    FIELD(pleat_vmm_ops_t, version);
    FIELD(pleat_vmm_ops_t, name);
    FIELD(pleat_vmm_ops_t, destroy);
    FIELD(pleat_vmm_ops_t, clock_ns);
    FIELD(pleat_vmm_ops_t, wait_count);
    FIELD(pleat_vmm_ops_t, mem_info);
    FIELD(pleat_vmm_ops_t, mem_alloc);
    FIELD(pleat_vmm_ops_t, mem_free);
    FIELD(pleat_vmm_ops_t, event_create);
    FIELD(pleat_vmm_ops_t, event_destroy);
    FIELD(pleat_vmm_ops_t, event_record);
    FIELD(pleat_vmm_ops_t, event_query);
    FIELD(pleat_vmm_ops_t, event_synchronize);
    FIELD(pleat_vmm_ops_t, stream_wait_event);
    FIELD(pleat_vmm_ops_t, stream_synchronize);
    FIELD(pleat_vmm_ops_t, ext_granularity);
    FIELD(pleat_vmm_ops_t, ext_address_reserve);
    FIELD(pleat_vmm_ops_t, ext_address_free);
    FIELD(pleat_vmm_ops_t, ext_chunk_create);
    FIELD(pleat_vmm_ops_t, ext_chunk_release);
    FIELD(pleat_vmm_ops_t, ext_map);
    FIELD(pleat_vmm_ops_t, ext_unmap);
    FIELD(pleat_vmm_ops_t, ext_set_access);
    FIELD(pleat_vmm_ops_t, ext_chunk_export);
    FIELD(pleat_vmm_ops_t, ext_chunk_import);
    FIELD(pleat_vmm_ops_t, ext_ipc_export);
    FIELD(pleat_vmm_ops_t, ext_ipc_open);
    FIELD(pleat_vmm_ops_t, ext_ipc_close);
    FIELD(pleat_vmm_ops_t, ext_peer_add);
    FIELD(pleat_vmm_ops_t, ext_peer_remove);
    STRUCT(pleat_ipc_handle_t);
    STRUCT(pleat_vmm_counters_t);
    FIELD(pleat_vmm_counters_t, size);
    FIELD(pleat_vmm_counters_t, calls);
    FIELD(pleat_vmm_counters_t, failures);
    FIELD(pleat_vmm_counters_t, time_ns);
    FIELD(pleat_vmm_counters_t, waits);
}

static void print_sim(void)
{
    STRUCT(pleat_cost_row_t);
    FIELD(pleat_cost_row_t, bytes);
#define PRINT_COST(CALL, name) FIELD(pleat_cost_row_t, name##_ns);
    PLEAT_COST_SIZED_LIST(PRINT_COST)
    STRUCT(pleat_cost_table_t);
    FIELD(pleat_cost_table_t, size);
    FIELD(pleat_cost_table_t, row_count);
    FIELD(pleat_cost_table_t, rows);
    FIELD(pleat_cost_table_t, call_ns);
    STRUCT(pleat_sim_options_t);
    FIELD(pleat_sim_options_t, size);
    FIELD(pleat_sim_options_t, capacity_bytes);
    FIELD(pleat_sim_options_t, costs);
    FIELD(pleat_sim_options_t, address_limit_bytes);
    FIELD(pleat_sim_options_t, mapping_limit);
    FIELD(pleat_sim_options_t, is_backed);
    FIELD(pleat_sim_options_t, exports_chunks);
    STRUCT(pleat_sim_usage_t);
    FIELD(pleat_sim_usage_t, size);
    FIELD(pleat_sim_usage_t, allocations);
    FIELD(pleat_sim_usage_t, allocated_bytes);
    FIELD(pleat_sim_usage_t, events);
    FIELD(pleat_sim_usage_t, ranges);
    FIELD(pleat_sim_usage_t, chunks);
    FIELD(pleat_sim_usage_t, chunk_bytes);
    FIELD(pleat_sim_usage_t, mappings);
    FIELD(pleat_sim_usage_t, opened);
}

static void print_cuda(void)
{
    VALUE(PLEAT_CUDA_HANDLE_FILE);
    VALUE(PLEAT_CUDA_CAPTURE_NONE);
    VALUE(PLEAT_CUDA_CAPTURE_ACTIVE);
    VALUE(PLEAT_CUDA_CAPTURE_ELSEWHERE);
    STRUCT(pleat_cuda_options_t);
    FIELD(pleat_cuda_options_t, size);
    FIELD(pleat_cuda_options_t, driver);
    FIELD(pleat_cuda_options_t, handle_types);
}

static void print_device_table(void)
{
    VALUE(PLEAT_DEVICE_TABLE_COUNT);
    STRUCT(pleat_device_table_options_t);
    FIELD(pleat_device_table_options_t, size);
    FIELD(pleat_device_table_options_t, conf);
    FIELD(pleat_device_table_options_t, driver);
    FIELD(pleat_device_table_options_t, notice);
    FIELD(pleat_device_table_options_t, notice_context);
    FIELD(pleat_device_table_options_t, handle_types);
}

static void print_options(void)
{
    STRUCT(pleat_options_t);
    FIELD(pleat_options_t, size);
    FIELD(pleat_options_t, roundup_power2_divisions);
#define PRINT_OPTION(name, type, initial, smallest, largest, unit, help) \
    FIELD(pleat_options_t, name);
    PLEAT_OPTION_LIST(PRINT_OPTION)
}

static void print_stats(void)
{
    VALUE(PLEAT_STAT_ALL);
    VALUE(PLEAT_STAT_LARGE_POOL);
    VALUE(PLEAT_STAT_SMALL_POOL);
    STRUCT(pleat_stat_t);
    FIELD(pleat_stat_t, current);
    FIELD(pleat_stat_t, peak);
    FIELD(pleat_stat_t, allocated);
    FIELD(pleat_stat_t, freed);
    STRUCT(pleat_stats_t);
    FIELD(pleat_stats_t, size);
#define PRINT_STAT(name, text) FIELD(pleat_stats_t, name);
    PLEAT_ARRAY_STAT_LIST(PRINT_STAT)
    PLEAT_PLAIN_STAT_LIST(PRINT_STAT)
    PLEAT_SCALAR_STAT_LIST(PRINT_STAT)
}

static void print_private_pool(void)
{
    STRUCT(pleat_pool_id_t);
    FIELD(pleat_pool_id_t, first);
    FIELD(pleat_pool_id_t, second);
    STRUCT(pleat_segment_source_t);
    FIELD(pleat_segment_source_t, size);
    FIELD(pleat_segment_source_t, context);
    FIELD(pleat_segment_source_t, alloc);
    FIELD(pleat_segment_source_t, free);
    FIELD(pleat_segment_source_t, done);
    STRUCT(pleat_pool_delta_t);
    FIELD(pleat_pool_delta_t, size);
    FIELD(pleat_pool_delta_t, freed_count);
    FIELD(pleat_pool_delta_t, allocated_count);
    FIELD(pleat_pool_delta_t, freed);
    FIELD(pleat_pool_delta_t, allocated);
    STRUCT(pleat_pointer_info_t);
    FIELD(pleat_pointer_info_t, size);
    FIELD(pleat_pointer_info_t, block_address);
    FIELD(pleat_pointer_info_t, block_bytes);
    FIELD(pleat_pointer_info_t, requested_bytes);
    FIELD(pleat_pointer_info_t, segment_address);
    FIELD(pleat_pointer_info_t, segment_bytes);
    FIELD(pleat_pointer_info_t, stream);
    FIELD(pleat_pointer_info_t, pool);
    FIELD(pleat_pointer_info_t, is_small);
    FIELD(pleat_pointer_info_t, is_expandable);
}

static void print_snapshot(void)
{
    VALUE(PLEAT_BLOCK_INACTIVE);
    VALUE(PLEAT_BLOCK_ALLOCATED);
    VALUE(PLEAT_BLOCK_PENDING_FREE);
    STRUCT(pleat_block_info_t);
    FIELD(pleat_block_info_t, address);
    FIELD(pleat_block_info_t, bytes);
    FIELD(pleat_block_info_t, requested_bytes);
    FIELD(pleat_block_info_t, state);
    STRUCT(pleat_segment_info_t);
    FIELD(pleat_segment_info_t, address);
    FIELD(pleat_segment_info_t, total_bytes);
    FIELD(pleat_segment_info_t, allocated_bytes);
    FIELD(pleat_segment_info_t, active_bytes);
    FIELD(pleat_segment_info_t, requested_bytes);
    FIELD(pleat_segment_info_t, stream);
    FIELD(pleat_segment_info_t, is_small);
    FIELD(pleat_segment_info_t, is_expandable);
    FIELD(pleat_segment_info_t, first_block);
    FIELD(pleat_segment_info_t, block_count);
    FIELD(pleat_segment_info_t, pool);
    STRUCT(pleat_snapshot_t);
    FIELD(pleat_snapshot_t, size);
    FIELD(pleat_snapshot_t, segment_size);
    FIELD(pleat_snapshot_t, block_size);
    FIELD(pleat_snapshot_t, segment_count);
    FIELD(pleat_snapshot_t, block_count);
    FIELD(pleat_snapshot_t, segments);
    FIELD(pleat_snapshot_t, blocks);
}

static void print_allocator(void)
{
#define PRINT_ACTION(name, text) VALUE(PLEAT_ACTION_##name);
    PLEAT_ACTION_LIST(PRINT_ACTION)
    STRUCT(pleat_oom_info_t);
    FIELD(pleat_oom_info_t, size);
    FIELD(pleat_oom_info_t, requested_bytes);
    FIELD(pleat_oom_info_t, attempted_bytes);
    FIELD(pleat_oom_info_t, device_free_bytes);
    FIELD(pleat_oom_info_t, device_total_bytes);
    FIELD(pleat_oom_info_t, limit_bytes);
    FIELD(pleat_oom_info_t, allocated_bytes);
    FIELD(pleat_oom_info_t, reserved_bytes);
    FIELD(pleat_oom_info_t, private_free_bytes);
    FIELD(pleat_oom_info_t, stream);
    STRUCT(pleat_trace_entry_t);
    FIELD(pleat_trace_entry_t, size);
    FIELD(pleat_trace_entry_t, action);
    FIELD(pleat_trace_entry_t, stream);
    FIELD(pleat_trace_entry_t, address);
    FIELD(pleat_trace_entry_t, bytes);
}

static void print_share(void)
{
    VALUE(PLEAT_SHARE_PLAIN);
    VALUE(PLEAT_SHARE_CHUNKS);
    STRUCT(pleat_share_chunk_t);
    FIELD(pleat_share_chunk_t, bytes);
    FIELD(pleat_share_chunk_t, file);
    STRUCT(pleat_share_t);
    FIELD(pleat_share_t, size);
    FIELD(pleat_share_t, kind);
    FIELD(pleat_share_t, offset);
    FIELD(pleat_share_t, bytes);
    FIELD(pleat_share_t, handle);
    FIELD(pleat_share_t, chunk_count);
    FIELD(pleat_share_t, chunk_size);
    FIELD(pleat_share_t, chunks);
}

static void print_conf(void)
{
#define PRINT_KEY(name, key, second, value, parser, type, bounds, initial, smallest, largest, \
                  words, in_effect, help)                                                     \
    VALUE(PLEAT_CONF_##name);
    PLEAT_CONF_KEY_LIST(PRINT_KEY)
#define PRINT_SOURCE(name, text) VALUE(PLEAT_CONF_SOURCE_##name);
    PLEAT_CONF_SOURCE_LIST(PRINT_SOURCE)
    VALUE(PLEAT_CONF_STRICT);
    VALUE(PLEAT_CONF_TORCH);
    VALUE(PLEAT_CONF_BOOL);
    VALUE(PLEAT_CONF_BYTES);
    VALUE(PLEAT_CONF_MEGABYTES);
    VALUE(PLEAT_CONF_COUNT);
    VALUE(PLEAT_CONF_REAL);
    VALUE(PLEAT_CONF_WORD);
    VALUE(PLEAT_CONF_DIVISIONS);
    STRUCT(pleat_conf_setting_t);
    FIELD(pleat_conf_setting_t, number);
    FIELD(pleat_conf_setting_t, real);
    FIELD(pleat_conf_setting_t, source);
    STRUCT(pleat_conf_t);
    FIELD(pleat_conf_t, size);
    FIELD(pleat_conf_t, has_limit);
    FIELD(pleat_conf_t, roundup_power2_divisions);
    FIELD(pleat_conf_t, settings);
    STRUCT(pleat_conf_report_t);
    FIELD(pleat_conf_report_t, size);
    FIELD(pleat_conf_report_t, status);
    FIELD(pleat_conf_report_t, source);
    FIELD(pleat_conf_report_t, column);
    FIELD(pleat_conf_report_t, python_class);
    FIELD(pleat_conf_report_t, message);
    FIELD(pleat_conf_report_t, warning_count);
    FIELD(pleat_conf_report_t, warnings);
    STRUCT(pleat_conf_description_t);
    FIELD(pleat_conf_description_t, size);
    FIELD(pleat_conf_description_t, key);
    FIELD(pleat_conf_description_t, second_key);
    FIELD(pleat_conf_description_t, value_name);
    FIELD(pleat_conf_description_t, source);
    FIELD(pleat_conf_description_t, help);
    FIELD(pleat_conf_description_t, type);
    FIELD(pleat_conf_description_t, is_default);
    FIELD(pleat_conf_description_t, in_effect);
    FIELD(pleat_conf_description_t, value);
    FIELD(pleat_conf_description_t, default_value);
    FIELD(pleat_conf_description_t, allowed);
}

static void print_history(void)
{
#define PRINT_LEVEL(name, text) VALUE(PLEAT_HISTORY_LEVEL_##name);
    PLEAT_HISTORY_LEVEL_LIST(PRINT_LEVEL)
    STRUCT(pleat_history_hooks_t);
    FIELD(pleat_history_hooks_t, size);
    FIELD(pleat_history_hooks_t, context);
    FIELD(pleat_history_hooks_t, now_us);
    FIELD(pleat_history_hooks_t, retain);
    FIELD(pleat_history_hooks_t, release);
    STRUCT(pleat_history_settings_t);
    FIELD(pleat_history_settings_t, size);
    FIELD(pleat_history_settings_t, is_recording);
    FIELD(pleat_history_settings_t, is_cleared);
    FIELD(pleat_history_settings_t, level);
    FIELD(pleat_history_settings_t, skip_mask);
    FIELD(pleat_history_settings_t, max_entries);
    STRUCT(pleat_history_note_t);
    FIELD(pleat_history_note_t, size);
    FIELD(pleat_history_note_t, context);
    FIELD(pleat_history_note_t, compile_context);
    FIELD(pleat_history_note_t, user_metadata);
    STRUCT(pleat_history_entry_t);
    FIELD(pleat_history_entry_t, action);
    FIELD(pleat_history_entry_t, stream);
    FIELD(pleat_history_entry_t, address);
    FIELD(pleat_history_entry_t, bytes);
    FIELD(pleat_history_entry_t, time_us);
    FIELD(pleat_history_entry_t, context);
    FIELD(pleat_history_entry_t, compile_context);
    FIELD(pleat_history_entry_t, user_metadata);
    STRUCT(pleat_history_copy_t);
    FIELD(pleat_history_copy_t, size);
    FIELD(pleat_history_copy_t, entry_size);
    FIELD(pleat_history_copy_t, entry_count);
    FIELD(pleat_history_copy_t, lost_count);
    FIELD(pleat_history_copy_t, entries);
    FIELD(pleat_history_copy_t, snapshot);
    FIELD(pleat_history_copy_t, segment_contexts);
    FIELD(pleat_history_copy_t, block_contexts);
}

static void print_torch_snapshot(void)
{
#define PRINT_MISSING(name, value, text) VALUE(PLEAT_TORCH_MISSING_##name);
    PLEAT_TORCH_MISSING_LIST(PRINT_MISSING)
    STRUCT(pleat_torch_frame_t);
    FIELD(pleat_torch_frame_t, name);
    FIELD(pleat_torch_frame_t, filename);
    FIELD(pleat_torch_frame_t, line);
    STRUCT(pleat_torch_stack_t);
    FIELD(pleat_torch_stack_t, first_frame);
    FIELD(pleat_torch_stack_t, frame_count);
    STRUCT(pleat_torch_block_t);
    FIELD(pleat_torch_block_t, address);
    FIELD(pleat_torch_block_t, bytes);
    FIELD(pleat_torch_block_t, requested_bytes);
    FIELD(pleat_torch_block_t, state);
    FIELD(pleat_torch_block_t, stack);
    STRUCT(pleat_torch_segment_t);
    FIELD(pleat_torch_segment_t, address);
    FIELD(pleat_torch_segment_t, total_bytes);
    FIELD(pleat_torch_segment_t, allocated_bytes);
    FIELD(pleat_torch_segment_t, active_bytes);
    FIELD(pleat_torch_segment_t, requested_bytes);
    FIELD(pleat_torch_segment_t, stream);
    FIELD(pleat_torch_segment_t, pool);
    FIELD(pleat_torch_segment_t, first_block);
    FIELD(pleat_torch_segment_t, block_count);
    FIELD(pleat_torch_segment_t, device);
    FIELD(pleat_torch_segment_t, stack);
    FIELD(pleat_torch_segment_t, is_small);
    FIELD(pleat_torch_segment_t, is_expandable);
    STRUCT(pleat_torch_entry_t);
    FIELD(pleat_torch_entry_t, address);
    FIELD(pleat_torch_entry_t, bytes);
    FIELD(pleat_torch_entry_t, stream);
    FIELD(pleat_torch_entry_t, time_us);
    FIELD(pleat_torch_entry_t, compile_context);
    FIELD(pleat_torch_entry_t, user_metadata);
    FIELD(pleat_torch_entry_t, action);
    FIELD(pleat_torch_entry_t, stack);
    STRUCT(pleat_torch_history_t);
    FIELD(pleat_torch_history_t, entries);
    FIELD(pleat_torch_history_t, entry_count);
    FIELD(pleat_torch_history_t, unknown_count);
    FIELD(pleat_torch_history_t, unknown_action);
    STRUCT(pleat_torch_annotation_t);
    FIELD(pleat_torch_annotation_t, name);
    FIELD(pleat_torch_annotation_t, time_us);
    FIELD(pleat_torch_annotation_t, device);
    FIELD(pleat_torch_annotation_t, is_start);
    STRUCT(pleat_torch_settings_t);
    FIELD(pleat_torch_settings_t, conf);
    FIELD(pleat_torch_settings_t, max_split_bytes);
    FIELD(pleat_torch_settings_t, garbage_collection_threshold);
    FIELD(pleat_torch_settings_t, pinned_num_register_threads);
    FIELD(pleat_torch_settings_t, expandable_segments);
    FIELD(pleat_torch_settings_t, release_lock_on_cudamalloc);
    FIELD(pleat_torch_settings_t, pinned_use_cuda_host_register);
    FIELD(pleat_torch_settings_t, graph_capture_record_stream_reuse);
    FIELD(pleat_torch_settings_t, roundup_power2_divisions);
    STRUCT(pleat_torch_snapshot_t);
    FIELD(pleat_torch_snapshot_t, size);
    FIELD(pleat_torch_snapshot_t, missing);
    FIELD(pleat_torch_snapshot_t, segment_count);
    FIELD(pleat_torch_snapshot_t, block_count);
    FIELD(pleat_torch_snapshot_t, history_count);
    FIELD(pleat_torch_snapshot_t, annotation_count);
    FIELD(pleat_torch_snapshot_t, frame_count);
    FIELD(pleat_torch_snapshot_t, stack_count);
    FIELD(pleat_torch_snapshot_t, stack_frame_count);
    FIELD(pleat_torch_snapshot_t, segments);
    FIELD(pleat_torch_snapshot_t, blocks);
    FIELD(pleat_torch_snapshot_t, histories);
    FIELD(pleat_torch_snapshot_t, annotations);
    FIELD(pleat_torch_snapshot_t, frames);
    FIELD(pleat_torch_snapshot_t, stacks);
    FIELD(pleat_torch_snapshot_t, stack_frames);
    FIELD(pleat_torch_snapshot_t, settings);
    FIELD(pleat_torch_snapshot_t, storage);
    STRUCT(pleat_torch_read_options_t);
    FIELD(pleat_torch_read_options_t, size);
    FIELD(pleat_torch_read_options_t, name);
    FIELD(pleat_torch_read_options_t, memory_bytes);
    FIELD(pleat_torch_read_options_t, memory_name);
}

static void print_torch_write(void)
{
    STRUCT(pleat_torch_write_options_t);
    FIELD(pleat_torch_write_options_t, size);
    FIELD(pleat_torch_write_options_t, protocol);
    STRUCT(pleat_torch_source_t);
    FIELD(pleat_torch_source_t, size);
    FIELD(pleat_torch_source_t, copies);
    FIELD(pleat_torch_source_t, copy_count);
    FIELD(pleat_torch_source_t, conf);
    FIELD(pleat_torch_source_t, conf_text);
    FIELD(pleat_torch_source_t, tables);
    FIELD(pleat_torch_source_t, context);
    FIELD(pleat_torch_source_t, stack_of);
    FIELD(pleat_torch_source_t, text_of);
}

int main(void)
{
    print_base();
    print_vmm();
    print_sim();
    print_cuda();
    print_device_table();
    print_options();
    print_stats();
    print_private_pool();
    print_snapshot();
    print_allocator();
    print_share();
    print_conf();
    print_history();
    print_torch_snapshot();
    print_torch_write();
    return 0;
}
